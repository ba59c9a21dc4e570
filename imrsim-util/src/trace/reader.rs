// SPDX-License-Identifier: GPL-2.0-only

//! What all formats have in common: lines, disks, and times since the start.

use std::{collections::HashMap, io};

use super::{
    field::{check_extent, quote},
    lines::Lines,
    BadLine, Disks, Item, Notes, Op, Reader, Record, Source,
};

/// The most disks in a trace: more than this, and a wrong column is taken for the disk.
const MAX_SOURCES: usize = 1 << 16;

/// The most bytes of the name of a host or a disk. They are kept, and a line that is written has to be short
/// enough to be read.
const MAX_NAME: usize = 255;

/// A request as it is in a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a> {
    /// In ticks of the format, since any moment.
    pub(super) time: Option<u64>,
    pub(super) op: Op,
    /// In bytes.
    pub(super) offset: u64,
    /// In bytes.
    pub(super) len: u64,
    /// In nanoseconds.
    pub(super) response: Option<u64>,
    pub(super) host: &'a [u8],
    pub(super) disk: &'a [u8],
}

/// A format made of lines.
pub(super) trait Parse {
    /// Nanoseconds in the unit of the times.
    fn tick(&self) -> u64;

    /// Takes a line apart that is not empty; `None` if it is neither a request nor a fault.
    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, String>;
}

impl Parse for Box<dyn Parse> {
    fn tick(&self) -> u64 {
        (**self).tick()
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, String> {
        (**self).parse(line)
    }
}

/// Makes a trace's own times into times since its first request that never go backwards.
#[derive(Debug, Default)]
struct Clock {
    first: Option<u64>,
    last: u64,
    backwards: u64,
}

impl Clock {
    /// `time` since the first request, in the unit it is given in.
    fn advance(&mut self, time: u64) -> u64 {
        let first = *self.first.get_or_insert(time);
        match time.checked_sub(first) {
            Some(since) if since >= self.last => self.last = since,
            _ => self.backwards += 1,
        }
        self.last
    }
}

/// What to do with the requests of a disk.
#[derive(Clone, Debug)]
enum Verdict {
    Take,
    /// They were not asked for.
    Skip,
    /// They must not be mixed with those of the first disk.
    Refuse(String),
}

/// The disks seen so far.
#[derive(Debug, Default)]
struct Sources {
    disks: Disks,
    list: Vec<Source>,
    verdicts: Vec<Verdict>,
    /// Their places in the list, by host and disk with a zero byte between.
    places: HashMap<Vec<u8>, usize>,
    key: Vec<u8>,
    last: usize,
}

impl Sources {
    /// The place in the list of a disk, which is added to it if it is not there.
    fn find(&mut self, host: &[u8], disk: &[u8]) -> Result<usize, String> {
        let is_last = self
            .list
            .get(self.last)
            .is_some_and(|source| source.disk.as_bytes() == disk && source.host.as_bytes() == host);
        if !is_last {
            self.key.clear();
            self.key.extend_from_slice(host);
            self.key.push(0);
            self.key.extend_from_slice(disk);
            self.last = match self.places.get(&self.key) {
                Some(place) => *place,
                None => self.add(host, disk)?,
            };
        }
        Ok(self.last)
    }

    fn add(&mut self, host: &[u8], disk: &[u8]) -> Result<usize, String> {
        let name = |what, bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(_) if bytes.len() > MAX_NAME => Err(format!(
                "{what} {} is longer than {MAX_NAME} bytes",
                quote(bytes)
            )),
            Ok(text) if !text.contains(char::is_control) => Ok(text.to_owned()),
            _ => Err(format!("{what} {} is no name", quote(bytes))),
        };
        let source = Source {
            host: name("host", host)?,
            disk: name("disk", disk)?,
        };
        let place = self.list.len();
        if place == MAX_SOURCES {
            return Err(format!("{source} is one more than {MAX_SOURCES} disks"));
        }
        let verdict = match &self.disks {
            Disks::All => Verdict::Take,
            Disks::Only { .. } if self.disks.include(&source) => Verdict::Take,
            Disks::Only { .. } => Verdict::Skip,
            Disks::First => match self.list.first() {
                None => Verdict::Take,
                Some(first) => Verdict::Refuse(format!(
                    "{source}, but the trace began with {first} (--disk chooses one)"
                )),
            },
        };
        self.list.push(source);
        self.verdicts.push(verdict);
        self.places.insert(self.key.clone(), place);
        Ok(place)
    }
}

/// Reads a trace made of lines.
#[derive(Debug)]
pub(super) struct LineReader<R, P> {
    lines: Lines<R>,
    parser: P,
    clock: Clock,
    sources: Sources,
    other_disks: u64,
}

impl<R: io::Read, P: Parse> LineReader<R, P> {
    pub(super) fn with(lines: Lines<R>, parser: P, disks: Disks) -> Self {
        Self {
            lines,
            parser,
            clock: Clock::default(),
            sources: Sources {
                disks,
                ..Sources::default()
            },
            other_disks: 0,
        }
    }

    fn take(&mut self) -> Result<Option<Record>, String> {
        let line = self.lines.text()?;
        if line.is_empty() {
            return Ok(None);
        }
        let tick = self.parser.tick();
        let raw = match self.parser.parse(line) {
            Ok(Some(raw)) => raw,
            Ok(None) => return Ok(None),
            Err(reason) => return Err(what_it_is_instead(line).unwrap_or(reason)),
        };
        if raw.op != Op::Flush {
            check_extent(raw.offset, raw.len)?;
        }
        let source = self.sources.find(raw.host, raw.disk)?;
        match &self.sources.verdicts[source] {
            Verdict::Take => {}
            Verdict::Skip => {
                self.other_disks += 1;
                return Ok(None);
            }
            Verdict::Refuse(reason) => return Err(reason.clone()),
        }
        let clock = &mut self.clock;
        Ok(Some(Record {
            line: self.lines.number(),
            time: raw.time.map(|it| clock.advance(it).saturating_mul(tick)),
            op: raw.op,
            offset: raw.offset,
            len: raw.len,
            response: raw.response,
            // Below `MAX_SOURCES`.
            source: source as u32,
        }))
    }
}

/// What a line is, if it is no text at all.
fn what_it_is_instead(line: &[u8]) -> Option<String> {
    if line.contains(&0) {
        return Some("contains zero bytes".to_owned());
    }
    std::str::from_utf8(line)
        .is_err()
        .then(|| "is not UTF-8 text".to_owned())
}

impl<R: io::Read, P: Parse> Reader for LineReader<R, P> {
    fn next_item(&mut self) -> io::Result<Option<Item>> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        Ok(Some(match self.take() {
            Ok(Some(record)) => Item::Record(record),
            Ok(None) => Item::Other,
            Err(reason) => Item::Bad(BadLine {
                line: self.lines.number(),
                reason,
            }),
        }))
    }

    fn notes(&self) -> Notes {
        Notes {
            lines: self.lines.number(),
            other_disks: self.other_disks,
            backwards: self.clock.backwards,
        }
    }

    fn sources(&self) -> &[Source] {
        &self.sources.list
    }

    fn line(&self) -> &[u8] {
        self.lines.raw()
    }
}
