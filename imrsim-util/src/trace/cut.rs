// SPDX-License-Identifier: GPL-2.0-only

//! Cuts a piece out of a trace. Its lines stay as they are, to the last byte.

use std::{fmt, io::Write};

use anyhow::Result;
use serde::Serialize;

use super::{BadLine, Item, Reader};

/// What to keep. Times are nanoseconds since the first request of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Leave out what is earlier than this.
    pub start: Option<u64>,
    /// End before the first request that is as late as this.
    pub end: Option<u64>,
    /// Of the requests in that time, leave out so many at the start.
    pub skip: u64,
    /// Then keep at most so many.
    pub count: Option<u64>,
}

/// What was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Lines read; what is behind the last request that is kept is not.
    pub lines: u64,
    /// Requests kept.
    pub kept: u64,
    /// Requests left out, but for those behind the last one that is kept.
    pub left_out: u64,
    /// Lines that are no requests. They are left out.
    pub bad_lines: u64,
    /// Requests of other disks. They are left out.
    pub other_disks: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests kept of {} lines read: {} requests left out, {} of other disks, {} bad lines",
            self.kept, self.lines, self.left_out, self.other_disks, self.bad_lines
        )
    }
}

/// Copies the lines of the requests that `options` keep to `output`, and in front of them those
/// that are neither requests nor bad, such as a line of names. Bad lines go to `on_bad`.
///
/// # Errors
///
/// If the trace cannot be read, a part of it cannot be written, or `on_bad` fails.
pub fn cut(
    reader: &mut dyn Reader,
    mut output: impl Write,
    options: &Options,
    on_bad: &mut dyn FnMut(&BadLine) -> Result<()>,
) -> Result<Summary> {
    let mut summary = Summary::default();
    let mut other_disks = 0;
    let mut skipped = 0;
    while options.count.is_none_or(|count| summary.kept < count) {
        let Some(item) = reader.next_item()? else {
            break;
        };
        match item {
            Item::Bad(bad) => {
                summary.bad_lines += 1;
                on_bad(&bad)?;
            }
            Item::Other => {
                let of_other_disk = reader.notes().other_disks > other_disks;
                other_disks = reader.notes().other_disks;
                if !of_other_disk {
                    write_line(&mut output, reader.line())?;
                }
            }
            Item::Record(record) => {
                let time = record.time.unwrap_or(0);
                if options.end.is_some_and(|end| time >= end) {
                    break;
                }
                let late_enough = options.start.is_none_or(|start| time >= start);
                if late_enough && skipped == options.skip {
                    write_line(&mut output, reader.line())?;
                    summary.kept += 1;
                } else {
                    skipped += u64::from(late_enough);
                    summary.left_out += 1;
                }
            }
        }
    }
    output.flush()?;
    summary.lines = reader.notes().lines;
    summary.other_disks = other_disks;
    Ok(summary)
}

fn write_line(output: &mut impl Write, line: &[u8]) -> Result<()> {
    output.write_all(line)?;
    if !line.ends_with(b"\n") {
        output.write_all(b"\n")?;
    }
    Ok(())
}
