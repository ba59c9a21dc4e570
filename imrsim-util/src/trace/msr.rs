// SPDX-License-Identifier: GPL-2.0-only

//! Traces of the MSR Cambridge collection.
//!
//! ```text
//! Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
//! 128166385295514663,hm,0,Write,9056014336,2048,2833
//! ```
//!
//! Times are Windows file times, in ticks of 100 ns; offset and size are in bytes. The published
//! files have no header line.

use std::io::{self, Write};

use super::{
    field::{comma_fields, number, quote},
    reader::{Parse, Raw},
    Op, Record, Source, Writer,
};

/// Fields in a line.
const FIELDS: usize = 7;

/// Nanoseconds in a tick of the times.
const TICK: u64 = 100;

/// Ticks since 1601 at which a written trace begins: 22 February 2007, when those of the
/// collection do.
const START: u64 = 128_166_336_000_000_000;

/// Reads the lines of an MSR Cambridge trace.
#[derive(Debug, Default)]
pub(super) struct Parser {
    begun: bool,
}

impl Parse for Parser {
    fn tick(&self) -> u64 {
        TICK
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, String> {
        let first = !std::mem::replace(&mut self.begun, true);
        match parse(line) {
            Err(_) if first && is_header(line) => Ok(None),
            parsed => parsed.map(Some),
        }
    }
}

fn parse(line: &[u8]) -> Result<Raw<'_>, String> {
    let [time, host, disk, kind, offset, len, response] = comma_fields::<FIELDS>(line)
        .map_err(|count| format!("{count} fields instead of {FIELDS}"))?;
    let op = if kind.eq_ignore_ascii_case(b"read") {
        Op::Read
    } else if kind.eq_ignore_ascii_case(b"write") {
        Op::Write
    } else {
        return Err(format!("type {} is neither Read nor Write", quote(kind)));
    };
    let time = number("time", time)?;
    number("disk number", disk)?;
    Ok(Raw {
        time: Some(time),
        op,
        offset: number("offset", offset)?,
        len: number("size", len)?,
        response: Some(number("response time", response)?.saturating_mul(TICK)),
        host,
        disk,
    })
}

/// Whether a line names the columns.
pub(super) fn is_header(line: &[u8]) -> bool {
    comma_fields::<FIELDS>(line).is_ok_and(|[time, .., kind, _, _, _]| {
        time.eq_ignore_ascii_case(b"timestamp") && kind.eq_ignore_ascii_case(b"type")
    })
}

/// Writes an MSR Cambridge trace. It has no trims and flushes; times are cut to 100 ns, and what
/// has none gets that of the start.
#[derive(Debug)]
pub struct MsrWriter<W> {
    output: W,
}

impl<W: Write> MsrWriter<W> {
    /// Writes to `output`.
    pub fn new(output: W) -> Self {
        Self { output }
    }
}

impl<W: Write> Writer for MsrWriter<W> {
    fn check(&self, record: &Record, source: &Source) -> Result<(), String> {
        if !matches!(record.op, Op::Read | Op::Write) {
            return Err(format!("an MSR trace cannot hold a {}", record.op));
        }
        if source.host.contains([',', '"']) {
            return Err(format!(
                "an MSR trace cannot hold the host {}",
                quote(source.host.as_bytes())
            ));
        }
        Ok(())
    }

    fn write(&mut self, record: &Record, source: &Source) -> io::Result<()> {
        let time = START + record.time.unwrap_or(0) / TICK;
        let host = if source.host.is_empty() {
            "trace"
        } else {
            &source.host
        };
        write!(self.output, "{time},{host},")?;
        // Other formats name their disks.
        if number("", source.disk.as_bytes()).is_ok() {
            write!(self.output, "{}", source.disk)?;
        } else {
            write!(self.output, "{}", record.source)?;
        }
        let kind = if record.op == Op::Read {
            "Read"
        } else {
            "Write"
        };
        let response = record.response.unwrap_or(0) / TICK;
        writeln!(
            self.output,
            ",{kind},{},{},{response}",
            record.offset, record.len
        )
    }

    fn finish(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
