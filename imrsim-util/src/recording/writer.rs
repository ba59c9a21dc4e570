// SPDX-License-Identifier: GPL-2.0-only

//! Writes recordings.

use std::{collections::BTreeSet, io::Write};

use anyhow::{bail, Result};

use super::{
    chunk::{self, Kind},
    event::Before,
    varint, Event, Header, Snapshot,
};

/// From so many bytes on, events are written.
const CHUNK: usize = 64 << 10;

/// Writes a recording. Until [`finish`](Self::finish), it is one that readers refuse as unfinished.
#[derive(Debug)]
pub struct Writer<W> {
    header: Header,
    out: W,
    chunks: u32,
    /// Events that are not written yet.
    body: Vec<u8>,
    before: Before,
    time: u64,
    events: u64,
    started: BTreeSet<u64>,
    finished: BTreeSet<u64>,
}

impl<W: Write> Writer<W> {
    /// Begins a recording. `out` should have a buffer.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn new(header: Header, mut out: W) -> Result<Self> {
        chunk::put_header(&header, &mut out)?;
        Ok(Self {
            header,
            out,
            chunks: 0,
            body: Vec::with_capacity(CHUNK + 256),
            before: Before::default(),
            time: 0,
            events: 0,
            started: BTreeSet::new(),
            finished: BTreeSet::new(),
        })
    }

    /// What it began with.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether a zone was [started](Self::start).
    pub fn has_started(&self, zone: u64) -> bool {
        self.started.contains(&zone)
    }

    /// The zones that were started.
    pub fn zones(&self) -> impl Iterator<Item = u64> + '_ {
        self.started.iter().copied()
    }

    /// Writes down what a zone was before its first event, once.
    ///
    /// # Errors
    ///
    /// If that cannot be written, was done before, or the zone is not to be recorded.
    pub fn start(&mut self, snapshot: &Snapshot) -> Result<()> {
        let zone = snapshot.zone;
        if !self.header.wants(zone) || !self.finished.is_empty() || !self.started.insert(zone) {
            bail!("zone {zone} cannot be started in the recording");
        }
        self.flush_events()?;
        self.put_snapshot(Kind::Start, snapshot)
    }

    /// Writes down an event; `time` is not less than before.
    ///
    /// # Errors
    ///
    /// If that cannot be written, or its zone was not started.
    pub fn event(&mut self, time: u64, zone: u64, event: &Event) -> Result<()> {
        if !self.started.contains(&zone) && !event.is_of_drive() {
            bail!("zone {zone} was not started in the recording");
        }
        self.time = self.time.max(time);
        self.events += 1;
        self.before.encode(self.time, zone, event, &mut self.body);
        if self.body.len() >= CHUNK {
            self.flush_events()?;
        }
        Ok(())
    }

    /// Writes down what a zone is after its last event; each that was started needs it.
    ///
    /// # Errors
    ///
    /// If that cannot be written, was done before, or the zone was not started.
    pub fn end(&mut self, snapshot: &Snapshot) -> Result<()> {
        let zone = snapshot.zone;
        if !self.started.contains(&zone) || !self.finished.insert(zone) {
            bail!("zone {zone} cannot be ended in the recording");
        }
        self.flush_events()?;
        self.put_snapshot(Kind::Final, snapshot)
    }

    /// Completes the recording and returns what it was written to, flushed.
    ///
    /// # Errors
    ///
    /// If that cannot be written, or a zone has no [end](Self::end).
    pub fn finish(mut self) -> Result<W> {
        self.flush_events()?;
        if self.started != self.finished {
            bail!("zones have no end in the recording");
        }
        let mut body = Vec::new();
        varint::put(&mut body, self.events);
        varint::put(&mut body, self.time);
        varint::put(&mut body, self.started.len() as u64);
        self.put(Kind::End, &body)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn put_snapshot(&mut self, kind: Kind, snapshot: &Snapshot) -> Result<()> {
        let mut body = Vec::new();
        snapshot.encode(&mut body);
        self.put(kind, &body)
    }

    fn flush_events(&mut self) -> Result<()> {
        if self.body.is_empty() {
            return Ok(());
        }
        let body = std::mem::take(&mut self.body);
        self.put(Kind::Events, &body)?;
        self.body = body;
        self.body.clear();
        self.before = Before::default();
        Ok(())
    }

    fn put(&mut self, kind: Kind, body: &[u8]) -> Result<()> {
        chunk::put(self.chunks, kind, body, &mut self.out)?;
        self.chunks += 1;
        Ok(())
    }
}
