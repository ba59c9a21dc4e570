// SPDX-License-Identifier: GPL-2.0-only

//! Threads of random reads and writes, each checked against what the device must hold.
//!
//! The device is cut into pieces, and each piece belongs to one thread: for every sector there is a
//! last write, however many threads work on the sectors beside it. A sector's expectation is a range
//! of versions. It is one version after a write that succeeded and widens with each write that failed,
//! since such a write may or may not have reached the disk. After a discard that succeeded it is zeros.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::content::{fill, Found, Random};
use crate::device::{Buffer, Device, BLOCK_SECTORS, SECTOR};

/// At most so many wrong sectors are described; all are counted.
const DESCRIBED: u64 = 10;

/// What the threads are to do.
pub(crate) struct Work {
    /// The pieces of the device, dealt out to the threads in turn.
    pub(crate) pieces: Vec<Range<u64>>,
    /// How many threads.
    pub(crate) threads: u64,
    /// Requests of each thread.
    pub(crate) requests: u64,
    /// Ends the work earlier.
    pub(crate) time: Option<Duration>,
    /// Out of 100 requests, how many are reads.
    pub(crate) reads: u64,
    /// Out of 1,000 requests, how many are flushes.
    pub(crate) flushes: u64,
    /// Out of 1,000 requests, how many are discards.
    pub(crate) discards: u64,
    /// The longest request, in sectors.
    pub(crate) longest: u64,
    /// Requests start and end at multiples of this many sectors from the start of their piece.
    pub(crate) align: u64,
    /// Chooses the requests.
    pub(crate) seed: u64,
    /// Requests may fail.
    pub(crate) errors_allowed: bool,
}

/// What came of it.
#[derive(Default, Debug)]
pub(crate) struct Outcome {
    /// Requests that succeeded.
    pub(crate) requests: u64,
    /// Requests that failed.
    pub(crate) errors: u64,
    /// Sectors that did not hold what they should.
    pub(crate) wrong: u64,
}

/// What a sector may hold: one of some versions, if there are any, or zeros, if it may.
#[derive(Clone, Copy)]
struct Expected {
    oldest: u32,
    newest: u32,
    zeros: bool,
}

impl Expected {
    /// Nothing but zeros: there is no version from 1 to 0.
    const ZEROS: Self = Self {
        oldest: 1,
        newest: 0,
        zeros: true,
    };

    /// A write of this version has ended.
    fn written(&mut self, version: u32, ok: bool) {
        if ok || self.oldest > self.newest {
            self.oldest = version;
        }
        self.newest = version;
        self.zeros &= !ok;
    }

    /// A discard has ended.
    fn discarded(&mut self, ok: bool) {
        match ok {
            true => *self = Self::ZEROS,
            false => self.zeros = true,
        }
    }

    fn allows(self, found: &Found, at: u64) -> bool {
        match *found {
            Found::Version { version: 0, .. } => self.zeros,
            Found::Version { sector, version } => {
                sector == at && (self.oldest..=self.newest).contains(&version)
            }
            _ => false,
        }
    }
}

/// A piece and what its sectors must hold.
struct Piece {
    range: Range<u64>,
    expected: Vec<Expected>,
}

impl Piece {
    /// The sectors of a random request, as offsets in the piece. Short ones are as likely as long ones.
    fn request(&self, work: &Work, random: &mut Random) -> Range<u64> {
        let units = (self.range.end - self.range.start) / work.align;
        let first = random.below(units);
        let most = (work.longest / work.align).min(units - first).max(1);
        let magnitude = random.below(u64::from(most.ilog2()) + 1);
        let length = ((1 << magnitude) + random.below(1 << magnitude)).min(most);
        first * work.align..(first + length) * work.align
    }

    /// Compares what was read at `request` with what is expected.
    fn compare(&self, request: Range<u64>, bytes: &[u8], wrong: &AtomicU64) {
        for (offset, bytes) in request.zip(bytes.chunks_exact(SECTOR)) {
            let at = self.range.start + offset;
            let found = Found::in_sector(bytes, at);
            let expected = self.expected[offset as usize];
            if !expected.allows(&found, at) && wrong.fetch_add(1, Ordering::Relaxed) < DESCRIBED {
                let Expected {
                    oldest,
                    newest,
                    zeros,
                } = expected;
                println!("sector {at} (block {}) holds {found}, not write {oldest}..={newest} of it; zeros: {zeros}", at / 8);
            }
        }
    }
}

/// One thread's share of the work.
struct Worker<'a> {
    device: &'a Device,
    work: &'a Work,
    pieces: Vec<Piece>,
    random: Random,
    buffer: Buffer,
    version: u32,
    wrong: &'a AtomicU64,
    outcome: Outcome,
}

impl Worker<'_> {
    fn run(&mut self) -> io::Result<()> {
        let end = self.work.time.map(|time| Instant::now() + time);
        for _ in 0..self.work.requests {
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            let dice = self.random.below(1000);
            let done = if dice < self.work.flushes {
                self.device.flush()
            } else if dice < self.work.flushes + self.work.discards {
                self.discard()
            } else if self.random.below(100) < self.work.reads {
                self.read()
            } else {
                self.write()
            };
            self.count(done)?;
        }
        Ok(())
    }

    fn count(&mut self, done: io::Result<()>) -> io::Result<()> {
        match done {
            Ok(()) => self.outcome.requests += 1,
            Err(_) if self.work.errors_allowed => self.outcome.errors += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Picks a piece and a request in it.
    fn pick(&mut self) -> (usize, Range<u64>) {
        let index = self.random.below(self.pieces.len() as u64) as usize;
        (
            index,
            self.pieces[index].request(self.work, &mut self.random),
        )
    }

    fn read(&mut self) -> io::Result<()> {
        let (index, request) = self.pick();
        self.read_back(index, request)
    }

    fn read_back(&mut self, index: usize, request: Range<u64>) -> io::Result<()> {
        let piece = &self.pieces[index];
        let length = request.end - request.start;
        self.device
            .read(&mut self.buffer, piece.range.start + request.start, length)?;
        piece.compare(request, self.buffer.sectors(length), self.wrong);
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let (index, request) = self.pick();
        let piece = &mut self.pieces[index];
        let length = request.end - request.start;
        let start = piece.range.start + request.start;
        self.version += 1;
        for (sector, bytes) in
            (start..).zip(self.buffer.sectors_mut(length).chunks_exact_mut(SECTOR))
        {
            fill(bytes, sector, self.version);
        }
        let done = self.device.write(&self.buffer, start, length);
        for offset in request {
            piece.expected[offset as usize].written(self.version, done.is_ok());
        }
        done
    }

    /// Discards, after which the blocks that lie in the request as a whole are zeros, and no others.
    fn discard(&mut self) -> io::Result<()> {
        let (index, request) = self.pick();
        let piece = &mut self.pieces[index];
        let start = piece.range.start + request.start;
        let end = piece.range.start + request.end;
        let done = self.device.discard(start, end - start);
        let blocks = start.next_multiple_of(BLOCK_SECTORS)..end - end % BLOCK_SECTORS;
        for sector in blocks {
            let offset = (sector - piece.range.start) as usize;
            piece.expected[offset].discarded(done.is_ok());
        }
        done
    }

    /// Reads every sector of this thread's pieces once more.
    fn verify(&mut self) -> io::Result<()> {
        for index in 0..self.pieces.len() {
            let length = self.pieces[index].expected.len() as u64;
            let mut at = 0;
            while at < length {
                let end = length.min(at + self.work.longest);
                let done = self.read_back(index, at..end);
                self.count(done)?;
                at = end;
            }
        }
        Ok(())
    }
}

/// Does the work: all threads at once, and when all have ended a second round in which each reads back
/// what is its own. The pieces must read as zeros before.
pub(crate) fn run(device: &Device, work: &Work) -> io::Result<Outcome> {
    let wrong = AtomicU64::new(0);
    let mut workers: Vec<Worker<'_>> = (0..work.threads)
        .map(|number| Worker {
            device,
            work,
            pieces: work
                .pieces
                .iter()
                .skip(number as usize)
                .step_by(work.threads as usize)
                .map(|range| Piece {
                    range: range.clone(),
                    expected: vec![Expected::ZEROS; (range.end - range.start) as usize],
                })
                .collect(),
            random: Random::new(work.seed, number),
            buffer: Buffer::new(work.longest),
            version: 0,
            wrong: &wrong,
            outcome: Outcome::default(),
        })
        .filter(|worker| !worker.pieces.is_empty())
        .collect();
    for round in [Worker::run, Worker::verify] {
        thread::scope(|scope| {
            let threads: Vec<_> = workers
                .iter_mut()
                .map(|worker| scope.spawn(move || round(worker)))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("a worker panicked"))
        })?;
    }
    let mut outcome = Outcome {
        wrong: wrong.load(Ordering::Relaxed),
        ..Outcome::default()
    };
    for worker in &workers {
        outcome.requests += worker.outcome.requests;
        outcome.errors += worker.outcome.errors;
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    /// A file of zeros in a device's place.
    fn scratch(name: &str, sectors: u64) -> (PathBuf, Device) {
        let path = std::env::temp_dir().join(format!("iotool-{name}-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        file.set_len(sectors * SECTOR as u64).unwrap();
        (path, Device::from(file))
    }

    fn work(pieces: Vec<Range<u64>>, seed: u64) -> Work {
        Work {
            pieces,
            threads: 3,
            requests: 200,
            time: None,
            reads: 40,
            flushes: 1,
            discards: 0,
            longest: 64,
            align: 1,
            seed,
            errors_allowed: false,
        }
    }

    #[test]
    fn a_file_passes() {
        let (path, device) = scratch("pass", 4096);
        let pieces = (0..4096).step_by(128).map(|at| at..at + 128).collect();
        let outcome = run(&device, &work(pieces, 1)).unwrap();
        fs::remove_file(path).unwrap();
        assert_eq!(outcome.wrong, 0);
        assert!(outcome.requests >= 600);
    }

    #[test]
    fn requests_stay_in_their_piece_and_reach_all_of_it() {
        let piece = Piece {
            range: 10..13,
            expected: Vec::new(),
        };
        let mut random = Random::new(3, 0);
        let work = work(Vec::new(), 0);
        let mut seen = [0; 3];
        for _ in 0..1000 {
            let request = piece.request(&work, &mut random);
            assert!(request.start < request.end && request.end <= 3);
            request.for_each(|at| seen[at as usize] += 1);
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    }

    #[test]
    fn what_a_sector_may_hold() {
        let allowed = |expected: Expected| -> Vec<u32> {
            let found = |version| Found::Version { sector: 9, version };
            (0..9)
                .filter(|&version| expected.allows(&found(version), 9))
                .collect()
        };
        let mut expected = Expected::ZEROS;
        assert_eq!(allowed(expected), [0]);
        expected.written(3, false);
        assert_eq!(allowed(expected), [0, 3]);
        expected.written(5, true);
        assert_eq!(allowed(expected), [5]);
        expected.written(6, false);
        expected.discarded(false);
        assert_eq!(allowed(expected), [0, 5, 6]);
        expected.discarded(true);
        assert_eq!(allowed(expected), [0]);
        expected.written(8, false);
        assert_eq!(allowed(expected), [0, 8]);
    }

    #[test]
    fn a_sector_of_another_is_found_out() {
        let (path, device) = scratch("fail", 64);
        let stray = File::options().write(true).open(&path).unwrap();
        let mut bytes = [0; SECTOR];
        fill(&mut bytes, 7, 1);
        stray.write_all_at(&bytes, 63 * SECTOR as u64).unwrap();
        let mut work = work(vec![0..32, 32..64], 2);
        work.requests = 0;
        let outcome = run(&device, &work).unwrap();
        fs::remove_file(path).unwrap();
        assert_eq!(outcome.wrong, 1);
    }
}
