// SPDX-License-Identifier: GPL-2.0-only

//! A workload whose every sector can be told apart, and the journal of what it did.
//!
//! Each thread has pieces of the device to itself, so that of two writes to a sector it is known
//! which was the later one.

use std::io::{self, Write as _};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::content::{fill, Random, SECTOR};
use crate::device::{Buffer, Device};
use crate::ops::Op;

/// What to do.
pub struct Work {
    /// Sectors to use.
    pub sectors: u32,
    /// Sectors in a piece.
    pub piece: u32,
    /// How many threads.
    pub threads: u32,
    /// Requests of each thread.
    pub requests: u32,
    /// At most so long.
    pub time: Option<Duration>,
    /// Flushes among 1,000 requests.
    pub flushes: u64,
    /// Durable writes among 1,000 requests.
    pub durable: u64,
    /// Discards among 1,000 requests.
    pub discards: u64,
    /// Sectors in the longest write.
    pub longest: u32,
    /// The first number of the clock.
    pub first: u32,
    /// For other requests.
    pub seed: u64,
    /// A program that marks a moment, with the mark as an argument behind its own.
    pub mark: Option<Vec<String>>,
    /// Whether a request that fails ends a thread in good order.
    pub errors: bool,
    /// Whether to print each request when it has ended.
    pub print: bool,
}

struct Shared<'a> {
    device: &'a Device,
    work: &'a Work,
    clock: AtomicU32,
    /// The time of the last mark.
    marked: Mutex<u32>,
    stop: AtomicBool,
    began: Instant,
}

impl Shared<'_> {
    fn tick(&self) -> u32 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self
                .work
                .time
                .is_some_and(|time| self.began.elapsed() >= time)
    }

    /// Leaves a mark in the recording.
    fn mark(&self, text: &str) -> io::Result<()> {
        let Some(command) = &self.work.mark else {
            return Ok(());
        };
        let status = Command::new(&command[0])
            .args(&command[1..])
            .arg(text)
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("{}: {status}", command[0])))
        }
    }

    /// Marks that what has ended at `done` has ended, unless another thread has done that meanwhile.
    fn mark_end(&self, done: u32) -> io::Result<()> {
        let mut marked = self.marked.lock().expect("a thread panicked");
        if *marked > done {
            return Ok(());
        }
        *marked = self.tick();
        self.mark(&format!("t{marked}"))
    }

    fn run(&self, thread: u32) -> io::Result<Vec<Op>> {
        let work = self.work;
        let mut random = Random::new(work.seed ^ (u64::from(thread) << 32));
        let mut buffer = Buffer::new(work.longest);
        let pieces: Vec<u32> = (0..work.sectors / work.piece)
            .filter(|piece| piece % work.threads == thread)
            .collect();
        let mut ops = Vec::new();
        let wanted = (0..work.requests).take_while(|_| !self.over());
        for _ in wanted {
            let dice = random.below(1000);
            if dice < work.flushes {
                self.flush(&mut ops)?;
            } else if dice < work.flushes + work.discards {
                let (lba, sectors) = self.range(&mut random, &pieces, work.piece);
                self.discard(&mut ops, lba, sectors)?;
                // Often a flush follows.
                if random.once_in(3) {
                    self.flush(&mut ops)?;
                }
            } else {
                let (lba, sectors) = self.range(&mut random, &pieces, work.longest.min(work.piece));
                let durable = dice < work.flushes + work.discards + work.durable;
                self.write(&mut ops, &mut buffer, lba, sectors, durable)?;
            }
        }
        Ok(ops)
    }

    /// Sectors in one of some pieces: mostly whole blocks, now and then single sectors.
    fn range(&self, random: &mut Random, pieces: &[u32], longest: u32) -> (u32, u32) {
        let piece_sectors = self.work.piece;
        let unit = if random.once_in(3) { 1 } else { 8 };
        let longest = match random.below(4) {
            0 => unit,
            1 => 8,
            _ => longest,
        };
        let sectors = (1 + random.below(u64::from(longest / unit)) as u32) * unit;
        let room = (piece_sectors - sectors) / unit + 1;
        let piece = pieces[random.below(pieces.len() as u64) as usize];
        let lba = piece * piece_sectors + random.below(room.into()) as u32 * unit;
        (lba, sectors)
    }

    fn write(
        &self,
        ops: &mut Vec<Op>,
        buffer: &mut Buffer,
        lba: u32,
        sectors: u32,
        durable: bool,
    ) -> io::Result<()> {
        let start = self.tick();
        for (bytes, lba) in buffer.sectors(sectors).chunks_exact_mut(SECTOR).zip(lba..) {
            fill(bytes, lba, start);
        }
        let result = self.device.write(buffer, lba, sectors, durable);
        let done = self.note(ops, result, |done| Op::Write {
            start,
            done,
            lba,
            sectors,
            durable,
        })?;
        match done {
            Some(done) if durable => self.mark_end(done),
            _ => Ok(()),
        }
    }

    fn discard(&self, ops: &mut Vec<Op>, lba: u32, sectors: u32) -> io::Result<()> {
        let start = self.tick();
        // Zeros do not tell where they come from, so it must be known what could have left them.
        self.mark(&format!("b{start}"))?;
        let result = self.device.discard(lba, sectors);
        let done = self.note(ops, result, |done| Op::Discard {
            start,
            done,
            lba,
            sectors,
        })?;
        done.map_or(Ok(()), |done| self.mark_end(done))
    }

    fn flush(&self, ops: &mut Vec<Op>) -> io::Result<()> {
        let start = self.tick();
        let result = self.device.flush();
        let done = self.note(ops, result, |done| Op::Flush { start, done })?;
        done.map_or(Ok(()), |done| self.mark_end(done))
    }

    /// Notes a request that has ended, and how; returns when, unless it failed.
    fn note(
        &self,
        ops: &mut Vec<Op>,
        result: io::Result<()>,
        op: impl FnOnce(Option<u32>) -> Op,
    ) -> io::Result<Option<u32>> {
        let done = match result {
            Ok(()) => Some(self.tick()),
            Err(error) if !self.work.errors => {
                self.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
            Err(_) => None,
        };
        let op = op(done);
        ops.push(op);
        if self.work.print {
            // One write for each line, so that lines stay whole.
            io::stdout()
                .lock()
                .write_all(format!("{op}\n").as_bytes())?;
        }
        Ok(done)
    }
}

/// Does the work; returns all requests.
pub fn run(device: &Device, work: &Work) -> io::Result<Vec<Op>> {
    let shared = Shared {
        device,
        work,
        clock: AtomicU32::new(work.first),
        marked: Mutex::new(0),
        stop: AtomicBool::new(false),
        began: Instant::now(),
    };
    let shared = &shared;
    let mut all = Vec::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..work.threads)
            .map(|thread| scope.spawn(move || shared.run(thread)))
            .collect();
        for thread in threads {
            all.extend(thread.join().expect("a thread panicked")?);
        }
        io::Result::Ok(())
    })?;
    Ok(all)
}
