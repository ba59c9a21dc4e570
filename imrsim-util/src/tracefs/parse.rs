// SPDX-License-Identifier: GPL-2.0-only

//! The text of the events `imrsim:*`, line by line as `trace_pipe` has it.
//!
//! ```text
//!             fio-123     [001] d..1.    12.345678: alloc: dev=252:0 seq=18 zone=3 bo=7 nbo=7 blocks=1
//! ```
//!
//! The name of the program in front may have anything in it, be it blanks, colons or something that looks like an
//! event. So a line is understood from the right: what an event says begins at the last `: dev=`.

use std::fmt;

use imrsim_core::{Allocation, Bo, Nbo, TopRun};
use memchr::{memchr, memrchr, memrchr_iter};

use crate::recording::{Event, Op, Request, Rmw};

/// The numbers of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dev {
    /// Its driver.
    pub major: u32,
    /// Which of the driver's.
    pub minor: u32,
}

impl Dev {
    /// Both in one number, as the kernel has them in the field `dev` of its events.
    pub fn number(self) -> u64 {
        u64::from(self.major) << 20 | u64::from(self.minor)
    }
}

impl fmt::Display for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// An event of IMRSim.
    Event(Traced),
    /// Events are missing here: so many, or an unknown number.
    Lost(Option<u64>),
    /// Something else.
    Other,
}

/// An event of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// When, in nanoseconds, by the clock of the trace.
    pub time: u64,
    /// Which drive.
    pub dev: Dev,
    /// Its number among the events of all drives. Those of a zone happened in this order.
    pub seq: u64,
    /// Which zone; `None`: it happened to the whole drive.
    pub zone: Option<u64>,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Something that recordings have.
    Event(Event),
    /// Somebody got a snapshot of the zone, for which they gave this number.
    Snapshot {
        /// The number.
        cookie: u64,
    },
}

/// An event of IMRSim that is not what this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The field that is missing, or does not have what belongs there.
    pub field: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its field '{}' is not as expected", self.field)
    }
}

impl std::error::Error for Malformed {}

/// Where what an event says begins, at its colon.
fn split(line: &[u8]) -> Option<usize> {
    memrchr_iter(b':', line).find(|at| line[*at..].starts_with(b": dev="))
}

/// Understands a line, which has no newline.
///
/// # Errors
///
/// If it is an event of IMRSim, but not as this program knows it.
pub fn parse(line: &[u8]) -> Result<Line, Malformed> {
    let Some(at) = split(line) else {
        return Ok(lost(line));
    };
    let before = &line[..at];
    let start = memrchr(b' ', before).map_or(0, |blank| blank + 1);
    let (before, name) = before.split_at(start);
    // Some tools put the system before the name.
    let name = name.strip_prefix(b"imrsim:").unwrap_or(name);
    let Some(kind) = Kind::of(name) else {
        return Ok(Line::Other);
    };
    let mut fields = Fields(&line[at + 2..]);
    let dev = fields.dev()?;
    let seq = fields.wide("seq")?;
    let zone = match kind {
        Kind::Commit | Kind::Strategy => None,
        _ => Some(fields.wide("zone")?),
    };
    Ok(Line::Event(Traced {
        time: time(before).ok_or(Malformed { field: "time" })?,
        dev,
        seq,
        zone,
        what: what(kind, &mut fields)?,
    }))
}

/// `CPU:1 [LOST 1234 EVENTS]`, or without the number.
fn lost(line: &[u8]) -> Line {
    let inner = line
        .strip_prefix(b"CPU:")
        .and_then(|rest| rest.strip_suffix(b" EVENTS]"))
        .and_then(|rest| Some((memchr(b'[', rest)?, rest)))
        .and_then(|(at, rest)| rest[at + 1..].strip_prefix(b"LOST"));
    match inner {
        Some(count) => Line::Lost(number(count.trim_ascii())),
        None => Line::Other,
    }
}

/// The time at the end of `before`, as `12.345678: `, in nanoseconds.
fn time(before: &[u8]) -> Option<u64> {
    let word = before.trim_ascii_end().strip_suffix(b":")?;
    let word = &word[memrchr(b' ', word).map_or(0, |blank| blank + 1)..];
    let (seconds, fraction) = word.split_at(memchr(b'.', word)?);
    let fraction = fraction.get(1..10.min(fraction.len()))?;
    let digits = u32::try_from(fraction.len()).ok()?;
    let nanos = number(fraction)? * 10_u64.pow(9 - digits);
    number(seconds)?
        .checked_mul(1_000_000_000)?
        .checked_add(nanos)
}

/// A decimal number, all of `digits`.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// A hexadecimal number with `0x`; 0 may come without.
fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    let text = std::str::from_utf8(digits).ok()?;
    (!text.starts_with('+')).then(|| u64::from_str_radix(text, 16).ok())?
}

#[derive(Clone, Copy)]
enum Kind {
    Map,
    Alloc,
    AllocFailed,
    RmwStart,
    RmwDone,
    Unmap,
    CountersReset,
    Snapshot,
    Commit,
    Strategy,
}

impl Kind {
    fn of(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"map" => Self::Map,
            b"alloc" => Self::Alloc,
            b"alloc_failed" => Self::AllocFailed,
            b"rmw_start" => Self::RmwStart,
            b"rmw_done" => Self::RmwDone,
            b"unmap" => Self::Unmap,
            b"counters_reset" => Self::CountersReset,
            b"snapshot" => Self::Snapshot,
            b"commit" => Self::Commit,
            b"strategy" => Self::Strategy,
            _ => return None,
        })
    }
}

fn what(kind: Kind, fields: &mut Fields<'_>) -> Result<What, Malformed> {
    Ok(What::Event(match kind {
        Kind::Map => Event::Request(fields.request()?),
        Kind::Alloc => Event::Alloc {
            bo: fields.bo()?,
            nbo: Nbo(fields.word("nbo")?),
            blocks: fields.word("blocks")?,
        },
        Kind::AllocFailed => Event::Failed {
            bo: fields.bo()?,
            blocks: fields.word("blocks")?,
        },
        Kind::RmwStart => Event::RmwStart(Rmw {
            nbo: Nbo(fields.word("nbo")?),
            blocks: fields.word("blocks")?,
            tops: [
                fields.top("first0", "mask0")?,
                fields.top("first1", "mask1")?,
            ],
        }),
        Kind::RmwDone => Event::RmwDone {
            nbo: Nbo(fields.word("nbo")?),
        },
        Kind::Unmap => Event::Unmap {
            bo: fields.bo()?,
            blocks: fields.word("blocks")?,
        },
        Kind::CountersReset => Event::CountersReset,
        Kind::Snapshot => {
            let cookie = fields.wide("cookie")?;
            return Ok(What::Snapshot { cookie });
        }
        Kind::Commit => Event::Commit {
            changes: fields.wide("changes")?,
        },
        Kind::Strategy => {
            let allocation = Allocation::from_phases(fields.word("phases")?);
            Event::Strategy(allocation.map_err(|_| Malformed { field: "phases" })?)
        }
    }))
}

/// What is left of the fields of an event. Those that this program does not know may lie between.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn value(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let mut rest = self.0;
        while !rest.is_empty() {
            let (word, more) = rest.split_at(memchr(b' ', rest).unwrap_or(rest.len()));
            rest = more.get(1..).unwrap_or_default();
            if let Some([b'=', value @ ..]) = word.strip_prefix(field.as_bytes()) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err(Malformed { field })
    }

    fn wide(&mut self, field: &'static str) -> Result<u64, Malformed> {
        number(self.value(field)?).ok_or(Malformed { field })
    }

    fn word(&mut self, field: &'static str) -> Result<u32, Malformed> {
        u32::try_from(self.wide(field)?).map_err(|_| Malformed { field })
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, Malformed> {
        match self.wide(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed { field }),
        }
    }

    fn bo(&mut self) -> Result<Bo, Malformed> {
        self.word("bo").map(Bo)
    }

    fn dev(&mut self) -> Result<Dev, Malformed> {
        const FIELD: &str = "dev";
        let value = self.value(FIELD)?;
        let part = |digits| u32::try_from(number(digits)?).ok();
        memchr(b':', value)
            .and_then(|colon| {
                Some(Dev {
                    major: part(&value[..colon])?,
                    minor: part(&value[colon + 1..])?,
                })
            })
            .ok_or(Malformed { field: FIELD })
    }

    fn top(&mut self, first: &'static str, mask: &'static str) -> Result<TopRun, Malformed> {
        let first = Nbo(self.word(first)?);
        let bits = hexadecimal(self.value(mask)?).ok_or(Malformed { field: mask })?;
        Ok(match bits {
            0 => TopRun::default(),
            mask => TopRun { first, mask },
        })
    }

    fn request(&mut self) -> Result<Request, Malformed> {
        let op = match self.value("op")? {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"discard" => Op::Discard,
            b"reset" => Op::Reset,
            _ => return Err(Malformed { field: "op" }),
        };
        let bo = self.bo()?;
        let nowhere = match self.value("nbo")? {
            b"-1" => true,
            digits if number(digits).is_some() => false,
            _ => return Err(Malformed { field: "nbo" }),
        };
        let blocks = self.word("blocks")?;
        // Which ends these are is not said, and nothing depends on it.
        let edges = self.word("edges")?;
        if edges > 2 {
            return Err(Malformed { field: "edges" });
        }
        Ok(Request {
            op,
            bo,
            blocks,
            head_partial: edges > 0,
            tail_partial: edges > 1,
            more: self.flag("more")?,
            crosses_zone: self.flag("crosses")?,
            zeros: op == Op::Read && nowhere,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "             fio-123     [001] d..1.    12.345678: ";

    fn event(text: &str) -> Traced {
        match parse(format!("{HEAD}{text}").as_bytes()) {
            Ok(Line::Event(traced)) => traced,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn each_event_is_understood() {
        let run = (Bo(7), Nbo(9), 2);
        let (bo, nbo, blocks) = run;
        let tops = [
            TopRun {
                first: Nbo(0),
                mask: 3,
            },
            TopRun {
                first: Nbo(1024),
                mask: u64::MAX,
            },
        ];
        for (text, expected) in [
            (
                "alloc: dev=252:0 seq=18 zone=3 bo=7 nbo=9 blocks=2",
                Event::Alloc { bo, nbo, blocks },
            ),
            (
                "alloc_failed: dev=252:0 seq=18 zone=3 bo=7 nbo=9 blocks=2",
                Event::Failed { bo, blocks },
            ),
            (
                "rmw_start: dev=252:0 seq=18 zone=3 nbo=9 blocks=2 first0=0 mask0=0x3 first1=1024 \
                 mask1=0xffffffffffffffff",
                Event::RmwStart(Rmw { nbo, blocks, tops }),
            ),
            (
                "rmw_start: dev=252:0 seq=18 zone=3 nbo=9 blocks=2 first0=7 mask0=0x0 first1=7 mask1=0",
                Event::RmwStart(Rmw {
                    nbo,
                    blocks,
                    tops: [TopRun::default(); 2],
                }),
            ),
            (
                "rmw_done: dev=252:0 seq=18 zone=3 nbo=9 ok=0",
                Event::RmwDone { nbo },
            ),
            (
                "imrsim:unmap: dev=252:0 seq=18 zone=3 bo=7 new=1 blocks=2 newer=x",
                Event::Unmap { bo, blocks },
            ),
            (
                "counters_reset: dev=252:0 seq=18 zone=3",
                Event::CountersReset,
            ),
        ] {
            let traced = Traced {
                time: 12_345_678_000,
                dev: Dev {
                    major: 252,
                    minor: 0,
                },
                seq: 18,
                zone: Some(3),
                what: What::Event(expected),
            };
            assert_eq!(event(text), traced, "{text}");
        }
        let traced = event("commit: dev=252:1048575 seq=18446744073709551615 changes=12");
        assert_eq!(
            (traced.zone, traced.seq, traced.dev.minor),
            (None, u64::MAX, 1_048_575)
        );
        assert_eq!(traced.what, What::Event(Event::Commit { changes: 12 }));
        let traced = event("strategy: dev=252:0 seq=1 phases=3");
        let three = Allocation::from_phases(3).unwrap();
        assert_eq!(traced.what, What::Event(Event::Strategy(three)));
        let traced = event("snapshot: dev=252:0 seq=24 zone=3 cookie=99");
        assert_eq!(traced.what, What::Snapshot { cookie: 99 });
    }

    #[test]
    fn each_request_is_understood() {
        let request = |op, nbo, edges, more, crosses| {
            let text = format!(
                "map: dev=1:2 seq=3 zone=4 op={op} bo=5 nbo={nbo} blocks=6 edges={edges} more={more} \
                 crosses={crosses}"
            );
            match event(&text).what {
                What::Event(Event::Request(request)) => request,
                other => panic!("{text}: {other:?}"),
            }
        };
        let expected = Request {
            op: Op::Read,
            bo: Bo(5),
            blocks: 6,
            head_partial: false,
            tail_partial: false,
            crosses_zone: false,
            more: false,
            zeros: false,
        };
        assert_eq!(request("read", "7", 0, 0, 0), expected);
        assert!(request("read", "-1", 0, 0, 0).zeros);
        assert!(!request("discard", "-1", 0, 0, 0).zeros);
        assert!(!request("reset", "-1", 0, 0, 0).zeros);
        let one = request("write", "0", 1, 1, 0);
        assert!(one.head_partial && !one.tail_partial && one.more && !one.crosses_zone);
        let both = request("write", "0", 2, 0, 1);
        assert!(both.head_partial && both.tail_partial && !both.more && both.crosses_zone);
    }

    #[test]
    fn programs_may_have_any_name() {
        let text = "alloc: dev=252:0 seq=18 zone=3 bo=7 nbo=7 blocks=1";
        for name in [
            "a b",
            ": dev=1:1 s",
            "x=1: alloc: ",
            "[000]",
            "1.5: map: de",
            "\u{e4}\u{1}",
            "",
        ] {
            let line = format!("{name}-1 [000] ..... 1.5: {text}");
            match parse(line.as_bytes()) {
                Ok(Line::Event(traced)) => {
                    assert_eq!((traced.seq, traced.time), (18, 1_500_000_000))
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn other_lines_are_told_apart() {
        for (line, expected) in [
            ("", Line::Other),
            ("##### CPU 1 buffer started ####", Line::Other),
            ("CPU:1 [LOST 1234 EVENTS]", Line::Lost(Some(1234))),
            ("CPU:12 [LOST EVENTS]", Line::Lost(None)),
            ("CPU:1 [FOUND 1234 EVENTS]", Line::Other),
            ("x-1 [000] ..... 1.5: dev=1:1", Line::Other),
            ("x-1 [000] ..... 1.5: block_rq: dev=1:1", Line::Other),
            (": dev=", Line::Other),
        ] {
            assert_eq!(parse(line.as_bytes()), Ok(expected), "{line}");
        }
    }

    #[test]
    fn what_is_not_as_expected_is_named() {
        for (text, field) in [
            ("commit: dev=252", "dev"),
            ("commit: dev=4294967296:0 seq=1 changes=1", "dev"),
            ("commit: dev=1:1", "seq"),
            ("commit: dev=1:1 seq=18446744073709551616 changes=1", "seq"),
            ("commit: dev=1:1 seq=1 changes=", "changes"),
            ("unmap: dev=1:1 seq=1 bo=1 blocks=1", "zone"),
            ("unmap: dev=1:1 seq=1 zone=1 bo=-1 blocks=1", "bo"),
            ("unmap: dev=1:1 seq=1 zone=1 bo=1 bl", "blocks"),
            ("strategy: dev=1:1 seq=1 phases=65", "phases"),
            ("map: dev=1:1 seq=1 zone=1 op=flush", "op"),
            ("map: dev=1:1 seq=1 zone=1 op=read bo=1 nbo=-2", "nbo"),
            (
                "map: dev=1:1 seq=1 zone=1 op=read bo=1 nbo=2 blocks=1 edges=3",
                "edges",
            ),
            (
                "map: dev=1:1 seq=1 zone=1 op=read bo=1 nbo=2 blocks=1 edges=2 more=2",
                "more",
            ),
            (
                "rmw_start: dev=1:1 seq=1 zone=1 nbo=1 blocks=1 first0=1 mask0=0x1ffffffffffffffff",
                "mask0",
            ),
        ] {
            let line = format!("{HEAD}{text}");
            assert_eq!(parse(line.as_bytes()), Err(Malformed { field }), "{text}");
        }
        let line = b"x-1 [000] ..... 123456: commit: dev=1:1 seq=1 changes=1";
        assert_eq!(parse(line), Err(Malformed { field: "time" }));
    }
}
