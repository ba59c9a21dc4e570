// SPDX-License-Identifier: GPL-2.0-only

//! Runs a trace on simulated drives.

use std::{fmt, str::FromStr};

use anyhow::{bail, ensure, Context, Result};
use imrsim_core::{Geometry, BLOCK_SIZE};
use serde::Serialize;

use crate::{
    drive::Drive,
    number::parse_size,
    rng::Rng,
    trace::{BadLine, Item, Op, Reader},
};

/// A share in millionths, typed in per cent: `80%`, `55.47%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    /// This share of `whole`, rounded down.
    pub fn of(self, whole: u64) -> u64 {
        // At most `whole`.
        (u128::from(whole) * u128::from(self.0) / 1_000_000) as u64
    }
}

impl FromStr for Share {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = || format!("'{text}' is not a share: expected 0% to 100%");
        let number = text.strip_suffix('%').with_context(malformed)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| {
            !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        ensure!(digits(whole) && digits(fraction), malformed());
        let share = whole.parse::<u32>()? * 10_000 + format!("{fraction:0<4}").parse::<u32>()?;
        ensure!(share <= 1_000_000, malformed());
        Ok(Self(share))
    }
}

/// What is written to every zone before the trace, without being counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefill {
    /// Nothing.
    None,
    /// A share of each zone, from its start on in order.
    Sequential(Share),
    /// A share of each zone, in extents of so many blocks in random order. As zones do not
    /// influence each other, it does not matter that one zone is filled after the other.
    Random {
        /// Blocks in an extent.
        extent: u32,
        /// The share.
        share: Share,
    },
}

impl FromStr for Prefill {
    type Err = anyhow::Error;

    /// Reads `none`, `sequential:80%` or `random:32k:80%`.
    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["none"] => Ok(Self::None),
            ["sequential", share] => Ok(Self::Sequential(share.parse()?)),
            ["random", extent, share] => {
                let bytes = parse_size(extent)?;
                let block = u64::from(BLOCK_SIZE);
                ensure!(
                    bytes > 0 && bytes % block == 0,
                    "extents are multiples of {block} bytes, not {extent}"
                );
                Ok(Self::Random {
                    extent: u32::try_from(bytes / block).context("the extent is too large")?,
                    share: share.parse()?,
                })
            }
            _ => bail!("'{text}' is none of: none, sequential:80%, random:32k:80%"),
        }
    }
}

/// Fills a drive and sets its counters to zero.
///
/// # Errors
///
/// If the drive refuses a write, which it has no reason to.
pub fn prefill(drive: &mut Drive, how: Prefill, seed: u64) -> Result<()> {
    let block = u64::from(BLOCK_SIZE);
    let blocks = u64::from(drive.geometry().zone_blocks());
    for zone in 0..drive.zone_count() {
        let start = zone * blocks * block;
        match how {
            Prefill::None => {}
            Prefill::Sequential(share) => {
                let len = share.of(blocks) * block;
                if len > 0 {
                    drive.write(start, len)?;
                }
            }
            Prefill::Random { extent, share } => {
                let extent = u64::from(extent);
                let mut extents: Vec<u64> = (0..blocks.div_ceil(extent)).collect();
                let mut rng = Rng::new(seed ^ zone.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                rng.shuffle(&mut extents);
                let mut left = share.of(blocks);
                for number in extents {
                    let first = number * extent;
                    let len = extent.min(blocks - first).min(left);
                    if len == 0 {
                        break;
                    }
                    drive.write(start + first * block, len * block)?;
                    left -= len;
                }
            }
        }
    }
    drive.reset_stats();
    Ok(())
}

/// What became of a trace's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Lines of the trace.
    pub lines: u64,
    /// Reads and writes that were done.
    pub requests: u64,
    /// Lines that are no requests, or requests beyond the end of the drive. They are left out.
    pub bad_lines: u64,
    /// Requests of other disks. They are left out.
    pub other_disks: u64,
    /// Trims that were done.
    pub trims: u64,
    /// Flushes, which change nothing.
    pub flushes: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} lines: {} requests done, {} bad lines",
            self.lines, self.requests, self.bad_lines
        )?;
        for (count, what) in [
            (self.other_disks, "requests of other disks left out"),
            (self.trims, "trims"),
            (self.flushes, "flushes"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// Runs a trace on all `drives`, which are equally large. Bad lines go to `on_bad` and are left
/// out, unless it fails.
///
/// # Errors
///
/// If the trace cannot be read, or `on_bad` fails.
pub fn run(
    reader: &mut dyn Reader,
    drives: &mut [Drive],
    on_bad: &mut dyn FnMut(&BadLine) -> Result<()>,
) -> Result<Summary> {
    let capacity = drives.iter().map(Drive::capacity).min().unwrap_or(0);
    let mut summary = Summary::default();
    while let Some(item) = reader.next_item()? {
        let record = match item {
            Item::Record(record) => record,
            Item::Bad(bad) => {
                summary.bad_lines += 1;
                on_bad(&bad)?;
                continue;
            }
            Item::Other => continue,
        };
        match record.op {
            Op::Flush => summary.flushes += 1,
            Op::Read | Op::Write | Op::Trim if record.end() > capacity => {
                summary.bad_lines += 1;
                on_bad(&BadLine {
                    line: record.line,
                    reason: format!(
                        "ends at byte {}, beyond the drive's {capacity}",
                        record.end()
                    ),
                })?;
            }
            Op::Trim => {
                summary.trims += 1;
                for drive in &mut *drives {
                    drive.discard(record.offset, record.len)?;
                }
            }
            Op::Read | Op::Write => {
                summary.requests += 1;
                for drive in &mut *drives {
                    if record.op == Op::Read {
                        drive.read(record.offset, record.len)?;
                    } else {
                        drive.write(record.offset, record.len)?;
                    }
                }
            }
        }
    }
    let notes = reader.notes();
    summary.lines = notes.lines;
    summary.other_disks = notes.other_disks;
    Ok(summary)
}

/// How many zones hold `bytes`.
pub fn zones_for(geometry: &Geometry, bytes: u64) -> u64 {
    bytes.div_ceil(u64::from(geometry.zone_blocks()) * u64::from(BLOCK_SIZE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        for (text, of_zone) in [
            ("0%", 0),
            ("80%", 52_428),
            ("55.47%", 36_352),
            ("55.4688%", 36_352),
            ("100%", 65_536),
            ("100.0000%", 65_536),
        ] {
            assert_eq!(text.parse::<Share>().unwrap().of(65_536), of_zone, "{text}");
        }
        for text in [
            "",
            "%",
            "80",
            "101%",
            "100.0001%",
            "-1%",
            "1.%",
            ".5%",
            "1.00001%",
            "1e1%",
        ] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn prefills() {
        let share = "80%".parse().unwrap();
        for (text, expected) in [
            ("none", Prefill::None),
            ("sequential:80%", Prefill::Sequential(share)),
            ("random:32k:80%", Prefill::Random { extent: 8, share }),
        ] {
            assert_eq!(text.parse::<Prefill>().unwrap(), expected);
        }
        for text in [
            "",
            "none:1%",
            "sequential",
            "random:80%",
            "random:1k:80%",
            "random:0:8%",
        ] {
            assert!(text.parse::<Prefill>().is_err(), "{text}");
        }
    }
}
