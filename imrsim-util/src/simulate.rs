// SPDX-License-Identifier: GPL-2.0-only

//! Runs traces on simulated drives.
//!
//! A trace is read once, in batches, however many drives it runs on; while they take one batch, the
//! next is read. [`Matrix`] runs every trace on a drive for every usage and strategy.

mod matrix;
pub(crate) mod output;
mod spread;

use std::{fmt, mem};

use anyhow::Result;
use imrsim_core::{Geometry, BLOCK_SIZE};
use serde::Serialize;

pub use self::{
    matrix::{Combination, Matrix, Outcome, MAX_BAD_LINES},
    spread::{Range, Spread},
};
use crate::{
    drive::Drive,
    trace::{
        convert::{self, Placed},
        BadLine, Item, Op, Reader, Record,
    },
};

/// Requests in a batch. They take 24 bytes each, so that two batches fit a cache of a megabyte.
const BATCH: usize = 1 << 14;

/// What became of a trace's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Lines of the trace.
    pub lines: u64,
    /// Reads and writes that were done.
    pub requests: u64,
    /// Lines that are no requests, or requests that do not fit the drive. They are left out.
    pub bad_lines: u64,
    /// Requests of other disks. They are left out.
    pub other_disks: u64,
    /// Trims that were done.
    pub trims: u64,
    /// Flushes, which change nothing.
    pub flushes: u64,
    /// Requests beyond the end of the drive that were clipped away.
    pub clipped_away: u64,
}

impl Summary {
    /// Whether there was no request in the trace for the drive.
    pub fn is_empty(&self) -> bool {
        self.requests + self.trims + self.flushes + self.clipped_away == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} lines: {} requests done, {} bad lines",
            self.lines, self.requests, self.bad_lines
        )?;
        for (count, what) in [
            (self.other_disks, "requests of other disks left out"),
            (self.trims, "trims"),
            (self.flushes, "flushes"),
            (self.clipped_away, "clipped away"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// A request that lies in the drive, in bytes.
#[derive(Clone, Copy, Debug)]
struct Io {
    op: Op,
    offset: u64,
    len: u64,
}

impl Io {
    fn run(self, drive: &mut Drive) -> Result<()> {
        match self.op {
            Op::Read => drive.read(self.offset, self.len),
            Op::Write => drive.write(self.offset, self.len),
            Op::Trim => drive.discard(self.offset, self.len),
            Op::Flush => Ok(()),
        }
    }
}

/// Turns a trace into batches.
struct Source<'a> {
    reader: &'a mut dyn Reader,
    fit: &'a convert::Options,
    on_bad: &'a mut dyn FnMut(&BadLine) -> Result<()>,
    summary: Summary,
}

impl Source<'_> {
    /// Replaces a batch by the next, which is empty at the end of the trace.
    fn fill(&mut self, batch: &mut Vec<Io>) -> Result<()> {
        batch.clear();
        // One request may become two.
        while batch.len() + 1 < BATCH {
            match self.reader.next_item()? {
                None => break,
                Some(Item::Record(record)) => self.place(&record, batch)?,
                Some(Item::Bad(bad)) => self.bad(&bad)?,
                Some(Item::Other) => {}
            }
        }
        Ok(())
    }

    fn place(&mut self, record: &Record, batch: &mut Vec<Io>) -> Result<()> {
        let op = record.op;
        if op == Op::Flush {
            self.summary.flushes += 1;
            return Ok(());
        }
        let mut push = |(offset, len)| batch.push(Io { op, offset, len });
        match self.fit.place(record.offset, record.end()) {
            Ok(Placed::One(offset, len)) => push((offset, len)),
            Ok(Placed::Split(end, start)) => {
                push(end);
                push(start);
            }
            Ok(Placed::Nowhere) => {
                self.summary.clipped_away += 1;
                return Ok(());
            }
            Err(reason) => {
                let line = record.line;
                return self.bad(&BadLine { line, reason });
            }
        }
        match op {
            Op::Trim => self.summary.trims += 1,
            _ => self.summary.requests += 1,
        }
        Ok(())
    }

    fn bad(&mut self, bad: &BadLine) -> Result<()> {
        self.summary.bad_lines += 1;
        (self.on_bad)(bad)
    }
}

/// Runs a trace on all `drives` at the same time, on the threads of the current rayon pool. `fit`
/// places its requests on the drives, which are equally large. Bad lines go to `on_bad` and are left
/// out, unless it fails.
///
/// # Errors
///
/// If the trace cannot be read, or `on_bad` fails.
pub fn run(
    reader: &mut dyn Reader,
    fit: &convert::Options,
    drives: &mut [Drive],
    on_bad: &mut dyn FnMut(&BadLine) -> Result<()>,
) -> Result<Summary> {
    let mut source = Source {
        reader,
        fit,
        on_bad,
        summary: Summary::default(),
    };
    let (mut batch, mut next) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    source.fill(&mut batch)?;
    let mut done: Vec<Result<()>> = drives.iter().map(|_| Ok(())).collect();
    while !batch.is_empty() {
        let requests = &batch;
        // A reader stays on this thread.
        rayon::in_place_scope(|scope| {
            for (drive, done) in drives.iter_mut().zip(&mut done) {
                scope.spawn(move |_| *done = requests.iter().try_for_each(|io| io.run(drive)));
            }
            source.fill(&mut next)
        })?;
        for done in &mut done {
            mem::replace(done, Ok(()))?;
        }
        mem::swap(&mut batch, &mut next);
    }
    let notes = source.reader.notes();
    Ok(Summary {
        lines: notes.lines,
        other_disks: notes.other_disks,
        ..source.summary
    })
}

/// How many zones hold `bytes`.
pub fn zones_for(geometry: &Geometry, bytes: u64) -> u64 {
    bytes.div_ceil(u64::from(geometry.zone_blocks()) * u64::from(BLOCK_SIZE))
}
