// SPDX-License-Identifier: GPL-2.0-only

//! Block traces: read, measured, converted, cut, generated. All of it streams; memory does not grow
//! with the length of a trace.
//!
//! A reader never guesses. A line it does not fully understand is handed on as a [`BadLine`] with
//! its number and the reason, and is no request. `docs/traces.md` has the formats column by column.

pub mod blkparse;
pub mod convert;
pub mod csv;
pub mod cut;
mod field;
pub mod input;
pub mod iolog;
pub mod lines;
pub mod msr;
mod reader;
mod simple;
pub mod stat;
pub mod synth;

use std::{fmt, io, str::FromStr};

use anyhow::ensure;

pub use field::MAX_LEN;
pub use input::{open, read, Options, Trace};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Tells the device that data is no longer needed: a discard.
    Trim,
    /// Makes what was written durable.
    Flush,
}

impl Op {
    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The line it comes from, counted from 1.
    pub line: u64,
    /// Nanoseconds since the first request of the trace, never less than the request before;
    /// `None` if the format has no times.
    pub time: Option<u64>,
    /// What it does.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes; for reads, writes and trims, 1 to [`MAX_LEN`], and `offset + len` fits 64 bits.
    pub len: u64,
    /// Nanoseconds that it took when the trace was recorded, where the format has that.
    pub response: Option<u64>,
    /// Its disk, as a place in [`Reader::sources`].
    pub source: u32,
}

impl Record {
    /// The byte after the last one.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// A disk that requests of a trace are for. What the format does not have is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The computer.
    pub host: String,
    /// The disk: a number, `major,minor` or a path.
    pub disk: String,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk {}", self.disk)?;
        if !self.host.is_empty() {
            write!(f, " of '{}'", self.host.escape_debug())?;
        }
        Ok(())
    }
}

/// The disks whose requests are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Disks {
    /// That of the first request. Requests of any other are bad lines, as the offsets of two disks
    /// must not be mixed unawares.
    #[default]
    First,
    /// All.
    All,
    /// Those of a host or a number. The others are counted and left out.
    Only {
        /// The host, if that is given.
        host: Option<String>,
        /// The disk, if that is given.
        disk: Option<String>,
    },
}

impl Disks {
    /// Whether they were asked for by name.
    fn include(&self, source: &Source) -> bool {
        let is =
            |wanted: &Option<String>, name: &String| wanted.as_ref().is_none_or(|it| it == name);
        match self {
            Self::Only { host, disk } => is(host, &source.host) && is(disk, &source.disk),
            Self::First | Self::All => true,
        }
    }
}

/// A line that is not a request of its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// What a line of a trace turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A request.
    Record(Record),
    /// Not understood, and so left out.
    Bad(BadLine),
    /// Neither: empty, a line of names, of a disk that was not asked for, and so on.
    Other,
}

/// What a reader passed over without it being a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Lines read.
    pub lines: u64,
    /// Requests of disks that were not asked for.
    pub other_disks: u64,
    /// Requests with a time before that of the request in front of them. They get its time.
    pub backwards: u64,
}

/// A source of requests.
pub trait Reader {
    /// What the next line is; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    fn next_item(&mut self) -> io::Result<Option<Item>>;

    /// What was passed over up to now.
    fn notes(&self) -> Notes;

    /// The disks seen up to now, those that were not asked for too.
    fn sources(&self) -> &[Source];

    /// The line of the last item as it is in the file, with its end.
    fn line(&self) -> &[u8];
}

/// A trace being written.
pub trait Writer {
    /// Why the format cannot hold a request, if it cannot.
    ///
    /// # Errors
    ///
    /// If it cannot.
    fn check(&self, record: &Record, source: &Source) -> Result<(), String>;

    /// Writes a request that [`Self::check`] has nothing against.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    fn write(&mut self, record: &Record, source: &Source) -> io::Result<()>;

    /// Ends the trace.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    fn finish(&mut self) -> io::Result<()>;
}

/// The formats that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
    Msr,
    /// fio's iolog, version 2 or 3.
    Iolog,
    /// The text that blkparse prints.
    Blkparse,
    /// SYSTOR '17: `Timestamp,Response,IOType,LUN,Offset,Size`.
    Systor,
    /// SPC: `ASU,LBA,Size,Opcode,Timestamp`.
    Spc,
    /// DiskSim ASCII: `arrival devno blkno bcount flags`.
    Disksim,
    /// Columns as --columns says, or those of 'trace convert --to csv'.
    Csv,
}

impl Format {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Msr => "MSR Cambridge",
            Self::Iolog => "fio iolog",
            Self::Blkparse => "blkparse",
            Self::Systor => "SYSTOR '17",
            Self::Spc => "SPC",
            Self::Disksim => "DiskSim ASCII",
            Self::Csv => "CSV",
        }
    }
}

/// A share in per cent, as a fraction of one: `64.5%` or `64.5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

impl FromStr for Percent {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let malformed = || format!("'{text}' is not a share: expected 0 to 100 per cent");
        let number = text.strip_suffix('%').unwrap_or(text);
        let plain = number
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        let value: f64 = number
            .parse()
            .map_err(|_| anyhow::Error::msg(malformed()))?;
        ensure!(plain && (0.0..=100.0).contains(&value), malformed());
        Ok(Self(value / 100.0))
    }
}
