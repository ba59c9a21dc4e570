// SPDX-License-Identifier: GPL-2.0-only

//! What a drive holds before a trace: the writes that fill its zones.
//!
//! The writes of a zone depend only on its number, the geometry and the options, not on other zones.
//! So zones can be filled in any order, or only when they are needed, and a simulated drive and a real
//! one are filled alike.

use std::{fmt, iter, str::FromStr};

use anyhow::{bail, ensure, Context, Result};
use imrsim_core::{Geometry, BLOCK_SIZE};

use crate::{number::parse_size, rng::Rng};

const BLOCK: u64 = BLOCK_SIZE as u64;

/// A share in millionths, typed in per cent: `80%`, `55.47%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    /// This share of `whole`, rounded down.
    pub fn of(self, whole: u64) -> u64 {
        // At most `whole`.
        (u128::from(whole) * u128::from(self.0) / 1_000_000) as u64
    }

    /// This share as a number from 0 to 1.
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / 1e6
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

impl fmt::Display for Share {
    /// As it is typed, without zeros at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 / 10_000)?;
        let fraction = format!("{:04}", self.0 % 10_000);
        match fraction.trim_end_matches('0') {
            "" => f.write_str("%"),
            digits => write!(f, ".{digits}%"),
        }
    }
}

/// How zones are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefill {
    /// Not at all.
    None,
    /// From the start of a zone on, in order.
    Sequential,
    /// In extents, whose order and places are random.
    Random {
        /// Blocks in an extent.
        extent: u32,
    },
}

impl FromStr for Prefill {
    type Err = anyhow::Error;

    /// Reads `none`, `sequential` or `random:32k`.
    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "sequential" => Ok(Self::Sequential),
            Some(("random", extent)) => {
                let bytes = parse_size(extent)?;
                ensure!(
                    bytes > 0 && bytes % BLOCK == 0,
                    "extents are multiples of {BLOCK} bytes, not {extent}"
                );
                let extent = u32::try_from(bytes / BLOCK).context("the extent is too large")?;
                Ok(Self::Random { extent })
            }
            _ => bail!("'{text}' is none of: none, sequential, random:32k"),
        }
    }
}

impl fmt::Display for Prefill {
    /// As it is typed, with an extent in KiB.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Sequential => f.write_str("sequential"),
            Self::Random { extent } => {
                write!(f, "random:{}k", u64::from(*extent) * (BLOCK / 1024))
            }
        }
    }
}

/// Random numbers for a zone. Both numbers are scattered: generators that are a few steps ahead of each
/// other would fill their zones almost alike.
pub fn zone_rng(seed: u64, zone: u64) -> Rng {
    let scattered = Rng::new(seed).next_u64();
    Rng::new(Rng::new(scattered.wrapping_add(zone)).next_u64())
}

/// The writes that fill zone number `zone` up to `share` of its blocks: (offset on the drive, length),
/// in bytes. `seed` only matters if they are random.
pub fn zone_requests(
    geometry: &Geometry,
    zone: u64,
    prefill: Prefill,
    share: Share,
    seed: u64,
) -> impl Iterator<Item = (u64, u64)> {
    let blocks = u64::from(geometry.zone_blocks());
    let fill = share.of(blocks);
    let (extent, order) = match prefill {
        Prefill::None => (0, Vec::new()),
        Prefill::Sequential => (blocks, vec![0]),
        Prefill::Random { extent } => {
            let extent = u64::from(extent);
            let mut order: Vec<u64> = (0..blocks.div_ceil(extent)).collect();
            zone_rng(seed, zone).shuffle(&mut order);
            (extent, order)
        }
    };
    let start = zone * blocks;
    let mut order = order.into_iter();
    let mut left = fill;
    iter::from_fn(move || {
        let first = order.next()? * extent;
        let len = extent.min(blocks - first).min(left);
        left -= len;
        (len > 0).then_some(((start + first) * BLOCK, len * BLOCK))
    })
}

/// The writes that fill the first `zones` zones, one after the other, as [`zone_requests`].
pub fn requests(
    geometry: &Geometry,
    zones: u64,
    prefill: Prefill,
    share: Share,
    seed: u64,
) -> impl Iterator<Item = (u64, u64)> {
    let geometry = *geometry;
    (0..zones).flat_map(move |zone| zone_requests(&geometry, zone, prefill, share, seed))
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
        ] {
            let share: Share = text.parse().unwrap();
            assert_eq!(share.of(65_536), of_zone, "{text}");
            assert_eq!(share.to_string(), text);
        }
        assert_eq!("100.0000%".parse::<Share>().unwrap().to_string(), "100%");
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
        for (text, expected) in [
            ("none", Prefill::None),
            ("sequential", Prefill::Sequential),
            ("random:32k", Prefill::Random { extent: 8 }),
        ] {
            let prefill: Prefill = text.parse().unwrap();
            assert_eq!(prefill, expected);
            assert_eq!(prefill.to_string(), text);
        }
        for text in [
            "",
            "none:1",
            "sequential:80%",
            "random",
            "random:1k",
            "random:0",
            "random:32k:80%",
        ] {
            assert!(text.parse::<Prefill>().is_err(), "{text}");
        }
    }

    #[test]
    fn requests_fill_the_share_of_each_zone_without_overlap() {
        // Zones of 10 blocks.
        let geometry = Geometry::new(2, 3, 2).unwrap();
        for prefill in ["none", "sequential", "random:4k", "random:12k", "random:1M"] {
            for share in ["0%", "35%", "80%", "100%"] {
                let prefill: Prefill = prefill.parse().unwrap();
                let share: Share = share.parse().unwrap();
                let list: Vec<_> = requests(&geometry, 3, prefill, share, 7).collect();
                let mut blocks: Vec<u64> = list
                    .iter()
                    .flat_map(|(offset, len)| (offset / BLOCK)..(offset + len) / BLOCK)
                    .collect();
                blocks.sort_unstable();
                let all = blocks.len();
                blocks.dedup();
                assert_eq!(blocks.len(), all);
                for zone in 0..3 {
                    let of_zone = |block: &&u64| **block / 10 == zone;
                    let expected = match prefill {
                        Prefill::None => 0,
                        _ => share.of(10),
                    };
                    assert_eq!(blocks.iter().filter(of_zone).count() as u64, expected);
                    let own: Vec<_> = zone_requests(&geometry, zone, prefill, share, 7).collect();
                    assert!(own.iter().all(|it| list.contains(it)));
                }
            }
        }
    }

    #[test]
    fn random_requests_depend_on_the_seed_and_the_zone() {
        let geometry = Geometry::new(456, 568, 64).unwrap();
        let list = |zone, seed| -> Vec<u64> {
            let prefill = Prefill::Random { extent: 8 };
            let share = "80%".parse().unwrap();
            let start = zone * u64::from(geometry.zone_blocks()) * BLOCK;
            zone_requests(&geometry, zone, prefill, share, seed)
                .map(|(offset, _)| offset - start)
                .collect()
        };
        assert_eq!(list(0, 1), list(0, 1));
        assert_ne!(list(0, 1), list(0, 2));
        assert_ne!(list(0, 1), list(1, 1));
        assert_eq!(list(0, 1).len(), 6_554);
    }

    /// Of two orders, the most places, shifted by a few, in which nearly the same stands.
    fn alike(one: &[u64], other: &[u64]) -> usize {
        let near = |pair: &(&u64, &u64)| pair.0.abs_diff(*pair.1) < 64 << 12;
        let count = |shift: usize| one[shift..].iter().zip(other).filter(near).count();
        (0..100).map(count).max().unwrap_or(0)
    }

    #[test]
    fn zones_are_not_filled_alike() {
        let geometry = Geometry::new(456, 568, 64).unwrap();
        let order = |zone, seed| -> Vec<u64> {
            let prefill = Prefill::Random { extent: 1 };
            let share = "10%".parse().unwrap();
            let start = zone * u64::from(geometry.zone_blocks()) * BLOCK;
            zone_requests(&geometry, zone, prefill, share, seed)
                .map(|(offset, _)| offset - start)
                .collect()
        };
        let first = order(0, 1);
        for other in [(1, 1), (2, 1), (16, 1), (64, 1), (0, 2), (1, 0), (2, 3)] {
            let other = order(other.0, other.1);
            let most = alike(&first, &other).max(alike(&other, &first));
            assert!(most < first.len() / 50, "{most}");
        }
    }
}
