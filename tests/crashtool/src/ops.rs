// SPDX-License-Identifier: GPL-2.0-only

//! What a workload did: a line of text for each request. All of its threads share one clock, which
//! ticks with each event; the tick at which a write was started is its version.

use std::fmt::{self, Write as _};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A write of `sectors` sectors from `lba` on; `durable` when it had ended (FUA).
    Write {
        /// When it was started: the version it wrote.
        start: u32,
        /// When it had ended; `None` if it failed.
        done: Option<u32>,
        /// The first sector.
        lba: u32,
        /// How many.
        sectors: u32,
        /// Whether it was to be durable when it ended.
        durable: bool,
    },
    /// A discard of `sectors` sectors from `lba` on, which is durable when it has ended.
    Discard {
        /// When it was started.
        start: u32,
        /// When it had ended; `None` if it failed.
        done: Option<u32>,
        /// The first sector.
        lba: u32,
        /// How many.
        sectors: u32,
    },
    /// A flush.
    Flush {
        /// When it was started.
        start: u32,
        /// When it had ended; `None` if it failed.
        done: Option<u32>,
    },
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Write {
                start,
                done,
                lba,
                sectors,
                durable,
            } => {
                let kind = if durable { 'd' } else { 'w' };
                write!(f, "{kind} {start} {} {lba} {sectors}", done.unwrap_or(0))
            }
            Self::Discard {
                start,
                done,
                lba,
                sectors,
            } => write!(f, "x {start} {} {lba} {sectors}", done.unwrap_or(0)),
            Self::Flush { start, done } => write!(f, "f {start} {}", done.unwrap_or(0)),
        }
    }
}

/// The text of a list of requests, with its length in front so that it can be kept on a raw device.
pub fn to_text(ops: &[Op]) -> String {
    let mut body = String::new();
    for op in ops {
        let _ = writeln!(body, "{op}");
    }
    format!("ops {}\n{body}", body.len())
}

/// The requests in a text, behind which there may be anything.
pub fn from_bytes(bytes: &[u8]) -> Result<Vec<Op>, String> {
    let bad = || "this is no list of requests, or the workload did not get to its end".to_owned();
    let end = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or_else(bad)?;
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| bad())?;
    let length: usize = head
        .strip_prefix("ops ")
        .and_then(|number| number.parse().ok())
        .ok_or_else(bad)?;
    let body = bytes.get(end + 1..end + 1 + length).ok_or_else(bad)?;
    let body = std::str::from_utf8(body).map_err(|_| bad())?;
    body.lines()
        .map(|line| parse(line).ok_or_else(bad))
        .collect()
}

fn parse(line: &str) -> Option<Op> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let numbers: Vec<u32> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let done = |at: u32| (at != 0).then_some(at);
    match (kind, &numbers[..]) {
        ("f", [start, at]) => Some(Op::Flush {
            start: *start,
            done: done(*at),
        }),
        ("x", [start, at, lba, sectors]) => Some(Op::Discard {
            start: *start,
            done: done(*at),
            lba: *lba,
            sectors: *sectors,
        }),
        ("w" | "d", [start, at, lba, sectors]) => Some(Op::Write {
            start: *start,
            done: done(*at),
            lba: *lba,
            sectors: *sectors,
            durable: kind == "d",
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let ops = [
            Op::Write {
                start: 3,
                done: Some(9),
                lba: 77,
                sectors: 8,
                durable: false,
            },
            Op::Write {
                start: 4,
                done: None,
                lba: 1,
                sectors: 1,
                durable: true,
            },
            Op::Flush {
                start: 10,
                done: Some(12),
            },
            Op::Discard {
                start: 11,
                done: Some(13),
                lba: 5,
                sectors: 30,
            },
        ];
        let mut bytes = to_text(&ops).into_bytes();
        bytes.extend([0; 100]);
        assert_eq!(from_bytes(&bytes).unwrap(), ops);
        assert!(from_bytes(&bytes[..20]).is_err());
        assert!(from_bytes(&[0; 512]).is_err());
    }
}
