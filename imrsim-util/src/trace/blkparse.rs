// SPDX-License-Identifier: GPL-2.0-only

//! The text that blkparse prints of a blktrace.
//!
//! ```text
//!   8,0    3       11     0.009507758   697  Q   W 223490 + 8 [kjournald]
//! ```
//!
//! Device, CPU, sequence number, seconds, process, action, kind, first sector, sectors, process
//! name. A request appears once for each thing that happens to it, so only the lines of one action
//! are requests.

use super::{
    field::{decimal, number, quote, sectors, words},
    reader::{Parse, Raw},
    Op,
};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Action {
    /// It is queued: what a program asked for, before requests are merged.
    #[value(name = "Q")]
    Queue,
    /// It goes to the driver: what the disk is asked for.
    #[value(name = "D")]
    Issue,
    /// The disk has done it.
    #[value(name = "C")]
    Complete,
}

impl Action {
    fn letter(self) -> &'static [u8] {
        match self {
            Self::Queue => b"Q",
            Self::Issue => b"D",
            Self::Complete => b"C",
        }
    }

    /// The action to read, going by the start of a trace: blkparse may have been told to leave
    /// some out.
    pub(super) fn of_start(start: &[u8]) -> Self {
        let all = [Self::Queue, Self::Issue, Self::Complete];
        let has = |action: &Self| {
            start
                .split(|byte| *byte == b'\n')
                .any(|line| words::<6>(line).0[5] == action.letter())
        };
        all.into_iter().find(has).unwrap_or(Self::Queue)
    }
}

#[derive(Debug)]
pub(super) struct Blkparse {
    action: Action,
    /// Whether the sums at the end have begun.
    ended: bool,
}

impl Blkparse {
    pub(super) fn new(action: Action) -> Self {
        Self {
            action,
            ended: false,
        }
    }
}

/// Whether a word is `major,minor`.
fn is_device(word: &[u8]) -> bool {
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    memchr::memchr(b',', word).is_some_and(|at| digits(&word[..at]) && digits(&word[at + 1..]))
}

impl Parse for Blkparse {
    fn tick(&self) -> u64 {
        1
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, String> {
        let (all, count) = words::<10>(line);
        let [device, cpu, sequence, time, process, action, kind, sector, plus, length] = all;
        if !is_device(device) {
            const SUMS: [&[u8]; 4] = [b"CPU", b"Total", b"Throughput", b"Events"];
            self.ended |= SUMS.iter().any(|start| device.starts_with(start));
            return if self.ended {
                Ok(None)
            } else {
                Err(format!("device {} is not major,minor", quote(device)))
            };
        }
        number("CPU", cpu)?;
        number("sequence number", sequence)?;
        let time = decimal("time", time, 9)?;
        number("process", process)?;
        if action.is_empty() || action.len() > 2 || !action.iter().all(u8::is_ascii_alphabetic) {
            return Err(format!(
                "action {} is not one or two letters",
                quote(action)
            ));
        }
        if action != self.action.letter() {
            return Ok(None);
        }
        let op = match op(kind)? {
            Some(op) => op,
            None => return Ok(None),
        };
        let (offset, len) = if count == 10 && plus == b"+" {
            (sectors("sector", sector)?, sectors("sector count", length)?)
        } else if op == Op::Flush || kind.contains(&b'F') {
            (0, 0)
        } else if plus.starts_with(b"(") {
            // A command passed through to the disk; it moves no blocks.
            return Ok(None);
        } else {
            return Err("there is no 'sector + count'".to_owned());
        };
        Ok(Some(Raw {
            time: Some(time),
            // A flush may have data behind it: then it is a write.
            op: if len == 0 && kind.contains(&b'F') {
                Op::Flush
            } else {
                op
            },
            offset,
            len,
            response: None,
            host: b"",
            disk: device,
        }))
    }
}

/// What the letters of a kind mean; `None` for no data and no flush.
fn op(kind: &[u8]) -> Result<Option<Op>, String> {
    if kind.is_empty() || !kind.iter().all(u8::is_ascii_uppercase) {
        return Err(format!(
            "kind {} is not made of capital letters",
            quote(kind)
        ));
    }
    let has = |letter| kind.contains(&letter);
    if has(b'D') {
        Ok(Some(Op::Trim))
    } else if has(b'W') {
        Ok(Some(Op::Write))
    } else if has(b'R') {
        Ok(Some(Op::Read))
    } else if has(b'F') {
        Ok(Some(Op::Flush))
    } else if has(b'N') {
        Ok(None)
    } else {
        Err(format!("kind {} is unknown", quote(kind)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<(Op, u64, u64)>, String> {
        let mut parser = Blkparse::new(Action::Queue);
        let parsed = parser.parse(line.as_bytes());
        parsed.map(|raw| raw.map(|raw| (raw.op, raw.offset, raw.len)))
    }

    #[test]
    fn kinds() {
        let start = "8,0 3 11 0.009507758 697";
        for (rest, expected) in [
            ("Q W 8 + 8 [dd]", Some((Op::Write, 4096, 4096))),
            ("Q RAM 8 + 8 [dd]", Some((Op::Read, 4096, 4096))),
            ("Q DS 8 + 8 [fstrim]", Some((Op::Trim, 4096, 4096))),
            ("Q FWFS 8 + 8 [jbd2]", Some((Op::Write, 4096, 4096))),
            ("Q FWS [jbd2]", Some((Op::Flush, 0, 0))),
            ("Q FF [jbd2]", Some((Op::Flush, 0, 0))),
            ("Q N 0 [smartd]", None),
            ("Q R 36 (1a 00 08 00 24 00) [smartd]", None),
            ("A W 8 + 8 <- (8,1) 0", None),
            ("UT N [kworker] 1", None),
        ] {
            assert_eq!(parse(&format!("{start} {rest}")), Ok(expected), "{rest}");
        }
        for rest in [
            "",
            "Q",
            "Q X 8 + 8 [dd]",
            "Q W 8 + [dd]",
            "Q W 8 8 [dd]",
            "Q w 8 + 8 [dd]",
            "Q W -8 + 8 [dd]",
            "QQQ W 8 + 8 [dd]",
        ] {
            assert!(parse(&format!("{start} {rest}")).is_err(), "{rest}");
        }
    }

    #[test]
    fn the_sums_at_the_end_are_no_fault() {
        let mut parser = Blkparse::new(Action::Queue);
        assert!(parser.parse(b"Reads Queued: 0, 0KiB").is_err());
        assert!(matches!(parser.parse(b"CPU0 (sda):"), Ok(None)));
        assert!(matches!(parser.parse(b"Reads Queued: 0, 0KiB"), Ok(None)));
    }

    #[test]
    fn the_action_there_is() {
        let issued = b"8,0 3 11 0.0 697 C W 8 + 8 [0]\n8,0 3 11 0.0 697 D W 8 + 8 [0]\n";
        assert_eq!(Action::of_start(issued), Action::Issue);
        assert_eq!(Action::of_start(b""), Action::Queue);
    }
}
