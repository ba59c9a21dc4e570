// SPDX-License-Identifier: GPL-2.0-only

//! Reads recordings.

use std::{collections::BTreeSet, io::Read, ops::Range};

use anyhow::{bail, Context, Result};

use super::{
    chunk::{self, Kind},
    event::Before,
    varint::Bytes,
    Event, Header, Snapshot,
};

/// What comes next in a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A zone as it was before its first event.
    Start(Snapshot),
    /// Something happened.
    Event {
        /// When.
        time: u64,
        /// In which zone; of no meaning if it is an event of the whole drive.
        zone: u64,
        /// What.
        event: Event,
    },
    /// A zone as it was after its last event.
    Final(Snapshot),
}

/// Reads a recording, a chunk at a time, and refuses what is damaged, cut off or something else.
#[derive(Debug)]
pub struct Reader<R> {
    header: Header,
    input: R,
    chunks: u32,
    buf: Vec<u8>,
    /// What is left of a chunk of events, in `buf`.
    rest: Range<usize>,
    before: Before,
    time: u64,
    events: u64,
    started: BTreeSet<u64>,
    finished: BTreeSet<u64>,
    at_end: bool,
}

impl<R: Read> Reader<R> {
    /// Opens a recording. `input` should have a buffer.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is none.
    pub fn new(mut input: R) -> Result<Self> {
        let header = chunk::get_header(&mut input)?;
        Ok(Self {
            header,
            input,
            chunks: 0,
            buf: Vec::new(),
            rest: 0..0,
            before: Before::default(),
            time: 0,
            events: 0,
            started: BTreeSet::new(),
            finished: BTreeSet::new(),
            at_end: false,
        })
    }

    /// What is known of the recording from its beginning on.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many events were read.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// What comes next; `None` behind the last, when the recording was found to be complete.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is damaged or cut off.
    pub fn next_item(&mut self) -> Result<Option<Item>> {
        loop {
            if self.at_end {
                return Ok(None);
            }
            if !self.rest.is_empty() {
                return self.next_event().with_context(|| self.damaged()).map(Some);
            }
            let (kind, body) = chunk::get(self.chunks, &mut self.buf, &mut self.input)?;
            self.chunks += 1;
            let item = match kind {
                Kind::Events => {
                    self.before = Before::default();
                    self.rest = body;
                    if self.rest.is_empty() || !self.finished.is_empty() {
                        bail!("{}: no events are expected here", self.damaged());
                    }
                    continue;
                }
                Kind::Start | Kind::Final => self.snapshot(kind, body).map(Some),
                Kind::End => self.end(body).map(|()| None),
            };
            return item.with_context(|| self.damaged());
        }
    }

    fn damaged(&self) -> String {
        let chunk = self.chunks.saturating_sub(1);
        format!("the recording is damaged in chunk {chunk}")
    }

    fn next_event(&mut self) -> Result<Item> {
        let mut bytes = Bytes(&self.buf[self.rest.clone()]);
        let event = self.before.decode(&self.header.geometry, &mut bytes)?;
        self.rest.start = self.rest.end - bytes.0.len();
        let Before { time, zone, .. } = self.before;
        if time < self.time {
            bail!("time runs backwards");
        }
        self.time = time;
        self.events += 1;
        if !event.is_of_drive() && !self.started.contains(&zone) {
            bail!("an event of zone {zone}, of which nothing is known");
        }
        Ok(Item::Event { time, zone, event })
    }

    fn snapshot(&mut self, kind: Kind, body: Range<usize>) -> Result<Item> {
        let mut bytes = Bytes(&self.buf[body]);
        let snapshot = Snapshot::decode(&self.header.geometry, &mut bytes)?;
        let zone = snapshot.zone;
        let is_in_order = match kind {
            Kind::Start => {
                self.header.wants(zone) && self.finished.is_empty() && self.started.insert(zone)
            }
            _ => self.started.contains(&zone) && self.finished.insert(zone),
        };
        if !is_in_order {
            bail!("the state of zone {zone} is not expected here");
        }
        Ok(match kind {
            Kind::Start => Item::Start(snapshot),
            _ => Item::Final(snapshot),
        })
    }

    fn end(&mut self, body: Range<usize>) -> Result<()> {
        let mut bytes = Bytes(&self.buf[body]);
        let [events, time, zones] = [bytes.number()?, bytes.number()?, bytes.number()?];
        if !bytes.0.is_empty() {
            bail!("bytes are left over");
        }
        if (events, time) != (self.events, self.time) {
            bail!(
                "{events} events were recorded, but {} are there",
                self.events
            );
        }
        if zones != self.started.len() as u64 || self.started != self.finished {
            bail!("the states of zones are missing");
        }
        if !chunk::is_at_end(&mut self.input)? {
            bail!("something follows the end of the recording");
        }
        self.at_end = true;
        Ok(())
    }
}
