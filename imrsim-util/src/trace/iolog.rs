// SPDX-License-Identifier: GPL-2.0-only

//! fio's iolog, version 2 and version 3.
//!
//! ```text
//! fio version 2 iolog              fio version 3 iolog
//! /dev/mapper/imrsim add           0 /dev/mapper/imrsim add
//! /dev/mapper/imrsim open          0 /dev/mapper/imrsim open
//! /dev/mapper/imrsim write 0 4096  1 /dev/mapper/imrsim write 0 4096
//! ```
//!
//! Version 3 has times in microseconds. fio does not wait before a line that follows one of time
//! 0, so a log written here starts its requests at time 1: with 0, the first gap would be lost.

use std::io::{self, Write};

use super::{
    field::{number, quote, words},
    reader::{Parse, Raw},
    Op, Record, Source, Writer,
};

/// The most bytes fio takes in a file name.
pub const MAX_NAME: usize = 255;

/// Nanoseconds in the unit of version 3's times.
const MICROSECOND: u64 = 1000;

/// Checks that fio can read the name of a device in a log.
///
/// # Errors
///
/// If it is empty, too long, or has blanks in it.
pub fn check_name(device: &str) -> Result<(), String> {
    let unfit = |c: char| c.is_whitespace() || c.is_control();
    if device.is_empty() || device.len() > MAX_NAME || device.contains(unfit) {
        return Err(format!(
            "fio cannot read the device name {}",
            quote(device.as_bytes())
        ));
    }
    Ok(())
}

/// Whether a log that begins with `line` has times; `None` if it is none of version 2 or 3.
fn is_timed(line: &[u8]) -> Option<bool> {
    match line {
        b"fio version 2 iolog" => Some(false),
        b"fio version 3 iolog" => Some(true),
        _ => None,
    }
}

/// Reads the lines of an iolog.
#[derive(Debug, Default)]
pub(super) struct Parser {
    timed: Option<bool>,
}

impl Parse for Parser {
    fn tick(&self) -> u64 {
        MICROSECOND
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, String> {
        match self.timed {
            Some(timed) => parse(line, timed),
            None => {
                self.timed = Some(is_timed(line).ok_or_else(|| {
                    "is not the first of an iolog, 'fio version 2 iolog' or 'fio version 3 iolog'"
                        .to_owned()
                })?);
                Ok(None)
            }
        }
    }
}

fn parse(line: &[u8], timed: bool) -> Result<Option<Raw<'_>>, String> {
    let (all, mut count) = words::<6>(line);
    let mut words = all.as_slice();
    let mut time = None;
    if timed {
        time = Some(number("time", words[0])?);
        words = &words[1..];
        count -= 1;
    }
    let (file, action) = (words[0], words[1]);
    for (name, word) in [("file name", file), ("action", action)] {
        if word.is_empty() {
            return Err(format!("{name} is missing"));
        }
    }
    let numbers = count - 2;
    let op = match action {
        b"add" | b"open" | b"close" if numbers == 0 => return Ok(None),
        b"add" | b"open" | b"close" => {
            return Err(format!(
                "{} takes no numbers",
                String::from_utf8_lossy(action)
            ));
        }
        b"read" => Op::Read,
        b"write" => Op::Write,
        b"trim" => Op::Trim,
        b"sync" | b"datasync" => Op::Flush,
        b"wait" if !timed => return Ok(None),
        _ => return Err(format!("unknown action {}", quote(action))),
    };
    if numbers != 2 {
        return Err(format!(
            "{} takes offset and length, here are {numbers} numbers",
            String::from_utf8_lossy(action)
        ));
    }
    Ok(Some(Raw {
        time,
        op,
        offset: number("offset", words[2])?,
        len: number("length", words[3])?,
        response: None,
        host: b"",
        disk: file,
    }))
}

/// Writes an iolog.
#[derive(Debug)]
pub struct IologWriter<W> {
    output: W,
    device: String,
    timed: bool,
    last: u64,
}

impl<W: Write> IologWriter<W> {
    /// Writes a log of requests to `device`, a name that [`check_name`] accepts: of version 3 if `timed`, else of version 2.
    ///
    /// # Errors
    ///
    /// If `output` cannot be written, or the name cannot.
    pub fn new(mut output: W, device: &str, timed: bool) -> io::Result<Self> {
        let (version, time) = if timed { (3, "0 ") } else { (2, "") };
        check_name(device).map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
        writeln!(output, "fio version {version} iolog")?;
        writeln!(output, "{time}{device} add")?;
        writeln!(output, "{time}{device} open")?;
        Ok(Self {
            output,
            device: device.to_owned(),
            timed,
            last: 0,
        })
    }
}

impl<W: Write> Writer for IologWriter<W> {
    fn check(&self, _: &Record, _: &Source) -> Result<(), String> {
        Ok(())
    }

    fn write(&mut self, record: &Record, _: &Source) -> io::Result<()> {
        let action = match record.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Trim => "trim",
            Op::Flush => "sync",
        };
        if self.timed {
            self.last = record.time.unwrap_or(0) / MICROSECOND + 1;
            write!(self.output, "{} ", self.last)?;
        }
        writeln!(
            self.output,
            "{} {action} {} {}",
            self.device, record.offset, record.len
        )
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.timed {
            write!(self.output, "{} ", self.last)?;
        }
        writeln!(self.output, "{} close", self.device)?;
        self.output.flush()
    }
}
