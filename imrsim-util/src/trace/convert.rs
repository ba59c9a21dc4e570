// SPDX-License-Identifier: GPL-2.0-only

//! Converts traces, and fits them to a device of another size.

use std::io::{self, Write};

use anyhow::{ensure, Result};
use serde::Serialize;

use super::{
    csv::CsvWriter, iolog::IologWriter, msr::MsrWriter, BadLine, Item, Op, Reader, Record, Writer,
    MAX_LEN,
};
use crate::number::{Bytes, SECTOR};

/// The formats that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// fio's iolog, version 2, or 3 with --timestamps.
    Iolog,
    /// fio's iolog, version 3, which has times.
    Iolog3,
    /// MSR Cambridge (reads and writes only).
    Msr,
    /// Columns with a line of names; keeps everything.
    Csv,
}

impl OutputFormat {
    /// Writes this format to `output`; an iolog for `device`.
    ///
    /// # Errors
    ///
    /// If `output` cannot be written.
    pub fn writer<'a>(
        self,
        output: impl Write + 'a,
        device: &str,
    ) -> io::Result<Box<dyn Writer + 'a>> {
        Ok(match self {
            Self::Iolog => Box::new(IologWriter::new(output, device, false)?),
            Self::Iolog3 => Box::new(IologWriter::new(output, device, true)?),
            Self::Msr => Box::new(MsrWriter::new(output)),
            Self::Csv => Box::new(CsvWriter::new(output)?),
        })
    }
}

/// What to do with requests that do not fit the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// Report them as bad lines and leave them out.
    Reject,
    /// Take offsets modulo the capacity; a request over the end goes on at the start.
    Wrap,
    /// Cut off what is beyond the end.
    Clip,
    /// Shrink or stretch all offsets so that the trace just covers the device (reads it twice).
    Scale,
}

/// How to convert.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the device in bytes; `None` for one that everything fits.
    pub capacity: Option<u64>,
    /// What to do with requests beyond it.
    pub fit: Fit,
    /// End of the trace's last request in bytes, for [`Fit::Scale`].
    pub span: u64,
    /// Requests are widened to multiples of so many bytes; `None`: they stay as they are.
    pub align: Option<u64>,
}

/// What a conversion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Lines of the trace.
    pub lines: u64,
    /// Requests in it that were converted or clipped away.
    pub requests: u64,
    /// Lines that are no requests, or requests that cannot be converted. They are left out.
    pub bad_lines: u64,
    /// Requests of other disks. They are left out.
    pub other_disks: u64,
    /// Requests that lie beyond the capacity as a whole and were clipped away.
    pub clipped_away: u64,
    /// Requests that were shortened.
    pub clipped: u64,
    /// Requests whose offset was taken modulo the capacity.
    pub wrapped: u64,
    /// Requests that became two, at the end and the start of the device.
    pub split: u64,
    /// Requests whose time lay before that of the one before, which it became.
    pub backwards: u64,
    /// Requests written that are not made of whole sectors of 512 bytes.
    pub unaligned: u64,
    /// Requests written.
    pub written: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Of these, writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// The byte after the last that is touched.
    pub end: u64,
    /// From the first request to the last, in nanoseconds.
    pub duration_ns: u64,
}

/// Where a request goes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// To one place: (offset, length).
    One(u64, u64),
    /// At the end of the device, and at its start.
    Split((u64, u64), (u64, u64)),
    /// Clipped away.
    Nowhere,
}

impl Options {
    /// The unit in which offsets are chosen.
    fn grain(&self) -> u64 {
        self.align.unwrap_or(SECTOR)
    }

    /// Size of the device in bytes, in whole grains.
    fn usable(&self) -> Option<u64> {
        self.capacity
            .map(|capacity| capacity - capacity % self.grain())
    }

    /// Checks that the numbers make sense together.
    ///
    /// # Errors
    ///
    /// If they do not.
    pub fn check(&self) -> Result<()> {
        ensure!(self.align != Some(0), "cannot align to 0 bytes");
        if let Some(usable) = self.usable() {
            ensure!(
                usable > 0,
                "a device of {} has no room for {}",
                Bytes(self.capacity.unwrap_or(0)),
                Bytes(self.grain())
            );
        }
        Ok(())
    }

    /// Where a request goes that touches the bytes from `offset` to `end`.
    ///
    /// # Errors
    ///
    /// Why there is no place for it.
    pub fn place(&self, offset: u64, end: u64) -> Result<Placed, String> {
        let (offset, end) = match self.align {
            None => (offset, end),
            Some(align) => (
                offset - offset % align,
                end.checked_next_multiple_of(align)
                    .ok_or("its end does not fit 64 bits when aligned")?,
            ),
        };
        let len = end - offset;
        let Some(usable) = self.usable() else {
            return Ok(Placed::One(offset, len));
        };
        let too_long = || format!("{len} bytes are more than the device's {usable}");
        match self.fit {
            Fit::Reject if end > usable => Err(format!(
                "ends at byte {end}, beyond the device's {usable} (see --fit)"
            )),
            Fit::Reject => Ok(Placed::One(offset, len)),
            Fit::Clip if offset >= usable => Ok(Placed::Nowhere),
            Fit::Clip => Ok(Placed::One(offset, len.min(usable - offset))),
            Fit::Wrap | Fit::Scale if len > usable => Err(too_long()),
            Fit::Wrap => {
                let offset = offset % usable;
                let here = len.min(usable - offset);
                Ok(if here == len {
                    Placed::One(offset, len)
                } else {
                    Placed::Split((offset, here), (0, len - here))
                })
            }
            Fit::Scale => {
                let scaled = u128::from(offset) * u128::from(usable) / u128::from(self.span.max(1));
                // At most `usable - len`, which fits 64 bits.
                let offset = scaled.min(u128::from(usable - len)) as u64;
                Ok(Placed::One(offset - offset % self.grain(), len))
            }
        }
    }
}

/// The byte after the last one that a trace touches, for [`Options::span`]. Reads all of it.
///
/// # Errors
///
/// If it cannot be read.
pub fn span(reader: &mut dyn Reader) -> io::Result<u64> {
    let mut span = 0;
    while let Some(item) = reader.next_item()? {
        if let Item::Record(record) = item {
            span = span.max(record.end());
        }
    }
    Ok(span)
}

/// Converts a trace. Bad lines go to `on_bad` and are left out, unless it fails.
///
/// # Errors
///
/// If the trace cannot be read or written, or `on_bad` fails.
pub fn convert(
    reader: &mut dyn Reader,
    writer: &mut dyn Writer,
    options: &Options,
    on_bad: &mut dyn FnMut(&BadLine) -> Result<()>,
) -> Result<Summary> {
    options.check()?;
    let mut summary = Summary::default();
    while let Some(item) = reader.next_item()? {
        let converted = match item {
            Item::Other => continue,
            Item::Bad(bad) => Err(bad),
            Item::Record(record) => {
                let source = &reader.sources()[record.source as usize];
                let converted = writer
                    .check(&record, source)
                    .and_then(|()| place(&record, options, &mut summary));
                match converted {
                    Ok(pieces) => {
                        summary.requests += 1;
                        summary.duration_ns = record.time.unwrap_or(0);
                        for (offset, len) in pieces.into_iter().flatten() {
                            summary.count(record.op, offset, len);
                            let record = Record {
                                offset,
                                len,
                                ..record
                            };
                            writer.write(&record, source)?;
                        }
                        Ok(())
                    }
                    Err(reason) => Err(BadLine {
                        line: record.line,
                        reason,
                    }),
                }
            }
        };
        if let Err(bad) = converted {
            summary.bad_lines += 1;
            on_bad(&bad)?;
        }
    }
    writer.finish()?;
    let notes = reader.notes();
    summary.lines = notes.lines;
    summary.other_disks = notes.other_disks;
    summary.backwards = notes.backwards;
    Ok(summary)
}

type Extent = (u64, u64);

/// The place or the two places that a request goes to.
fn place(
    record: &Record,
    options: &Options,
    summary: &mut Summary,
) -> Result<[Option<Extent>; 2], String> {
    if record.op == Op::Flush {
        return Ok([Some((0, 0)), None]);
    }
    let placed = options.place(record.offset, record.end())?;
    let pieces = match placed {
        Placed::One(offset, len) => [Some((offset, len)), None],
        Placed::Split(end, start) => [Some(end), Some(start)],
        Placed::Nowhere => [None, None],
    };
    if let Some((_, len)) = pieces.iter().flatten().find(|(_, len)| *len > MAX_LEN) {
        return Err(format!(
            "a request has at most {MAX_LEN} bytes, not {len} as when aligned"
        ));
    }
    match placed {
        Placed::Nowhere => summary.clipped_away += 1,
        Placed::Split(..) => {
            summary.split += 1;
            summary.wrapped += 1;
        }
        Placed::One(_, len) if options.fit == Fit::Clip && len < record.len => summary.clipped += 1,
        Placed::One(offset, _)
            if options.fit == Fit::Wrap && offset + options.grain() <= record.offset =>
        {
            summary.wrapped += 1;
        }
        Placed::One(..) => {}
    }
    Ok(pieces)
}

impl Summary {
    fn count(&mut self, op: Op, offset: u64, len: u64) {
        self.written += 1;
        match op {
            Op::Read => {
                self.reads += 1;
                self.read_bytes = self.read_bytes.saturating_add(len);
            }
            Op::Write => {
                self.writes += 1;
                self.write_bytes = self.write_bytes.saturating_add(len);
            }
            Op::Trim | Op::Flush => {}
        }
        self.unaligned += u64::from(!offset.is_multiple_of(SECTOR) || !len.is_multiple_of(SECTOR));
        self.end = self.end.max(offset.saturating_add(len));
    }

    /// Writes it for people: first what came in and what became of it, then what went out.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "read     {} lines: {} requests, {} bad lines",
            self.lines, self.requests, self.bad_lines
        )?;
        for (count, what) in [
            (self.other_disks, "requests of other disks left out"),
            (
                self.clipped_away,
                "requests beyond the end of the device left out",
            ),
            (self.clipped, "requests cut at the end of the device"),
            (self.wrapped, "requests wrapped"),
            (self.split, "of them split in two at the end of the device"),
            (self.backwards, "times before the one in front, set to that"),
            (
                self.unaligned,
                "written requests not of whole 512-byte sectors",
            ),
        ] {
            if count > 0 {
                writeln!(out, "         {count} {what}")?;
            }
        }
        writeln!(
            out,
            "written  {} requests: {} reads ({}), {} writes ({})",
            self.written,
            self.reads,
            Bytes(self.read_bytes),
            self.writes,
            Bytes(self.write_bytes)
        )?;
        writeln!(
            out,
            "         up to byte {} ({}), in {}.{:03} s of the trace",
            self.end,
            Bytes(self.end),
            self.duration_ns / 1_000_000_000,
            self.duration_ns / 1_000_000 % 1000
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options(fit: Fit, capacity: u64, align: Option<u64>) -> Options {
        Options {
            capacity: Some(capacity),
            fit,
            span: 1 << 30,
            align,
        }
    }

    #[test]
    fn placing() {
        let place = |fit, offset, len| options(fit, 10_000, None).place(offset, offset + len);
        // Of 10,000 bytes, 9,728 are whole sectors.
        assert_eq!(place(Fit::Reject, 9216, 512), Ok(Placed::One(9216, 512)));
        assert!(place(Fit::Reject, 9216, 513).is_err());
        assert_eq!(place(Fit::Clip, 9216, 4096), Ok(Placed::One(9216, 512)));
        assert_eq!(place(Fit::Clip, 9728, 512), Ok(Placed::Nowhere));
        assert_eq!(place(Fit::Wrap, 9728, 512), Ok(Placed::One(0, 512)));
        assert_eq!(
            place(Fit::Wrap, 9728 * 3 + 9216, 4096),
            Ok(Placed::Split((9216, 512), (0, 3584)))
        );
        assert!(place(Fit::Wrap, 0, 9729).is_err());
        assert!(place(Fit::Scale, 0, 9729).is_err());
        assert_eq!(place(Fit::Scale, 1 << 29, 512), Ok(Placed::One(4608, 512)));
        let aligned = options(Fit::Reject, 1 << 20, Some(4096));
        assert_eq!(aligned.place(4095, 4097), Ok(Placed::One(0, 8192)));
        assert!(aligned.place(0, u64::MAX).is_err());
    }

    proptest! {
        #[test]
        fn what_is_placed_fits(
            fit in prop_oneof![
                Just(Fit::Reject), Just(Fit::Wrap), Just(Fit::Clip), Just(Fit::Scale)
            ],
            capacity in 4096_u64..1 << 20,
            align in prop_oneof![Just(None), Just(Some(512)), Just(Some(4096))],
            offset in 0_u64..(1 << 30) - (1 << 16),
            len in 1_u64..1 << 16,
        ) {
            let options = options(fit, capacity, align);
            let pieces = match options.place(offset, offset + len) {
                Ok(Placed::One(offset, len)) => vec![(offset, len)],
                Ok(Placed::Split(end, start)) => {
                    prop_assert_eq!(end.0 + end.1, options.usable().unwrap());
                    prop_assert_eq!(start.0, 0);
                    vec![end, start]
                }
                Ok(Placed::Nowhere) => {
                    prop_assert_eq!(fit, Fit::Clip);
                    vec![]
                }
                Err(_) => {
                    prop_assert_ne!(fit, Fit::Clip);
                    vec![]
                }
            };
            for (offset, len) in &pieces {
                prop_assert!(*len > 0 && offset + len <= capacity);
                if let Some(align) = align {
                    prop_assert!(offset % align == 0 && len % align == 0);
                }
            }
            let total: u64 = pieces.iter().map(|(_, len)| len).sum();
            if !pieces.is_empty() && fit != Fit::Clip {
                prop_assert!(total >= len);
                prop_assert!(align.is_some() || total == len);
            }
        }
    }
}
