// SPDX-License-Identifier: GPL-2.0-only

//! What was promised when, and whether it was kept.

use std::collections::BTreeMap;
use std::ops::Range;

use imrsim_core::BLOCK_SECTORS;

use crate::content::Tag;
use crate::ops::Op;

/// A write or a discard that has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Write {
    done: u32,
    version: u32,
    lba: u32,
    sectors: u32,
}

/// The blocks that lie in a range of sectors as a whole: what a discard makes zeros.
fn whole_blocks(lba: u32, sectors: u32) -> Range<u32> {
    lba.next_multiple_of(BLOCK_SECTORS)..(lba + sectors) / BLOCK_SECTORS * BLOCK_SECTORS
}

/// Requests in the order in which they ended.
///
/// A version is the time at which a write or a discard was started; zeros are promised like any other
/// write, but only a discard that was begun can have left them.
pub struct Oracle {
    /// (done, start) of flushes.
    flushes: Vec<(u32, u32)>,
    /// All writes.
    plain: Vec<Write>,
    /// Those that were to be durable, and all discards.
    durable: Vec<Write>,
    next_flush: usize,
    next_plain: usize,
    next_durable: usize,
    round: u32,
    /// What began before this has been covered by a flush.
    covered: u32,
    /// For each sector, the oldest write that may be found.
    promised: Vec<u32>,
    /// For each sector, the last write that was ever started.
    last: Vec<u32>,
    /// The sectors of the discards that were not begun yet, failed ones included, by version.
    discards: BTreeMap<u32, Range<u32>>,
    /// How many were begun.
    begun: usize,
    /// For each sector, the last discard of it that was begun.
    zeroed: Vec<u32>,
}

impl Oracle {
    /// An oracle for a drive of `sectors` sectors.
    pub fn new(ops: &[Op], sectors: u64) -> Self {
        let mut oracle = Self {
            flushes: Vec::new(),
            plain: Vec::new(),
            durable: Vec::new(),
            next_flush: 0,
            next_plain: 0,
            next_durable: 0,
            round: u32::MAX,
            covered: 0,
            promised: vec![0; sectors as usize],
            last: vec![0; sectors as usize],
            discards: BTreeMap::new(),
            begun: 0,
            zeroed: vec![0; sectors as usize],
        };
        for op in ops {
            match *op {
                Op::Flush { start, done } => oracle.flushes.extend(done.map(|done| (done, start))),
                Op::Discard {
                    start,
                    done,
                    lba,
                    sectors,
                } => {
                    let blocks = whole_blocks(lba, sectors);
                    oracle.durable.extend(done.map(|done| Write {
                        done,
                        version: start,
                        lba: blocks.start,
                        sectors: blocks.len() as u32,
                    }));
                    oracle.discards.insert(start, blocks);
                }
                Op::Write {
                    start,
                    done,
                    lba,
                    sectors,
                    durable,
                } => {
                    for last in &mut oracle.last[lba as usize..][..sectors as usize] {
                        *last = start.max(*last);
                    }
                    let Some(done) = done else { continue };
                    let write = Write {
                        done,
                        version: start,
                        lba,
                        sectors,
                    };
                    oracle.plain.push(write);
                    if durable {
                        oracle.durable.push(write);
                    }
                }
            }
        }
        oracle.flushes.sort_unstable();
        oracle.plain.sort_unstable();
        oracle.durable.sort_unstable();
        oracle
    }

    /// All that had ended before `time` is known to have ended.
    pub fn reach(&mut self, time: u32) {
        while let Some(&(done, start)) = self.flushes.get(self.next_flush) {
            if done >= time {
                break;
            }
            self.next_flush += 1;
            self.covered = start.max(self.covered);
            self.cover();
        }
        while let Some(&write) = self.durable.get(self.next_durable) {
            if write.done >= time {
                break;
            }
            self.promise(write);
            self.next_durable += 1;
        }
    }

    /// The discard of this version was begun.
    pub fn begin(&mut self, version: u32) {
        let Some(blocks) = self.discards.remove(&version) else {
            return;
        };
        self.begun += 1;
        for lba in blocks {
            let zeroed = &mut self.zeroed[lba as usize];
            *zeroed = version.max(*zeroed);
        }
    }

    /// All discards were begun.
    pub fn begin_all(&mut self) {
        while let Some((&version, _)) = self.discards.first_key_value() {
            self.begin(version);
        }
    }

    /// How many discards were begun.
    pub fn begun(&self) -> usize {
        self.begun
    }

    /// Promises what had ended before `covered`, unless it was lost before.
    fn cover(&mut self) {
        while let Some(&write) = self.plain.get(self.next_plain) {
            if write.done >= self.covered {
                break;
            }
            if write.version / self.round == self.covered / self.round {
                self.promise(write);
            }
            self.next_plain += 1;
        }
    }

    fn promise(&mut self, write: Write) {
        let first = write.lba as usize;
        for promised in &mut self.promised[first..][..write.sectors as usize] {
            *promised = write.version.max(*promised);
        }
    }

    /// The power failed before each time that is a multiple of this: what was not promised then is
    /// not promised by a later flush either.
    pub fn rounds(&mut self, round: u32) {
        self.round = round;
    }

    /// There may be writes that are not known, but no discards.
    pub fn allow_later(&mut self) {
        self.last.fill(u32::MAX);
    }

    /// Everything that ever ended was promised.
    pub fn reach_end(&mut self) {
        self.reach(u32::MAX);
        // In the same round as all others.
        self.covered = u32::MAX - 1;
        self.cover();
    }

    /// Sectors of which something is promised.
    pub fn promises(&self) -> usize {
        self.promised.iter().filter(|it| **it != 0).count()
    }

    /// Those of which nothing later than a discard is promised.
    pub fn promises_of_zeros(&self) -> usize {
        let promises = self.promised.iter().zip(&self.zeroed);
        promises
            .filter(|(promised, zeroed)| **promised != 0 && promised <= zeroed)
            .count()
    }

    /// Whether a sector may be zeros: never promised to be anything, or discarded since.
    fn may_be_zeros(&self, lba: usize) -> bool {
        self.promised[lba] == 0 || self.promised[lba] <= self.zeroed[lba]
    }

    /// Checks what a drive holds, sector by sector; says what is wrong first, and how many are.
    ///
    /// Nothing is known of data that no request was noted of.
    pub fn check(&self, found: &[Tag]) -> Result<(), String> {
        if self.plain.is_empty() {
            return Ok(());
        }
        let wrong = |lba: usize| {
            let (promised, last) = (self.promised[lba], self.last[lba]);
            match (found[lba], found[lba].parts()) {
                (Tag::ZEROS, _) => !self.may_be_zeros(lba),
                (_, None) => true,
                (_, Some((at, version))) => {
                    at as usize != lba || version < promised || version > last
                }
            }
        };
        if found.len() != self.promised.len() {
            return Err(format!("the drive has {} sectors", found.len()));
        }
        let mut all = (0..found.len()).filter(|lba| wrong(*lba));
        let Some(first) = all.next() else {
            return Ok(());
        };
        Err(format!(
            "sector {first} holds {}, not writes {} to {} of it{}; {} more sectors are wrong",
            found[first],
            self.promised[first],
            self.last[first],
            if self.may_be_zeros(first) {
                " or zeros"
            } else {
                ""
            },
            all.count()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds() {
        let write = |start, lba| Op::Write {
            start,
            done: Some(start + 1),
            lba,
            sectors: 1,
            durable: false,
        };
        let flush = |start| Op::Flush {
            start,
            done: Some(start + 1),
        };
        let ops = [
            write(1, 0),
            flush(3),
            write(5, 1),
            write(101, 2),
            flush(103),
        ];
        let promised = |round| {
            let mut oracle = Oracle::new(&ops, 3);
            oracle.rounds(round);
            oracle.reach(u32::MAX);
            oracle.promised
        };
        assert_eq!(promised(u32::MAX), [1, 5, 101]);
        assert_eq!(promised(100), [1, 0, 101]);
    }

    #[test]
    fn promises() {
        let write = |start, done, lba, durable| Op::Write {
            start,
            done,
            lba,
            sectors: 1,
            durable,
        };
        let ops = [
            write(1, Some(4), 0, false),
            write(2, Some(6), 1, false),
            Op::Flush {
                start: 5,
                done: Some(9),
            },
            write(3, Some(7), 2, true),
            write(8, None, 0, false),
        ];
        let mut oracle = Oracle::new(&ops, 4);
        let old = [Tag::ZEROS; 4];
        assert!(oracle.check(&old).is_ok());
        oracle.reach(9);
        // The durable write only.
        let mut found = old;
        assert!(oracle.check(&found).is_err());
        found[2] = Tag::new(2, 3);
        assert!(oracle.check(&found).is_ok());
        oracle.reach(10);
        assert!(oracle.check(&found).is_err());
        for version in [1, 8] {
            found[0] = Tag::new(0, version);
            assert!(oracle.check(&found).is_ok());
        }
        // Not the one that had not ended when the flush began.
        assert_eq!(oracle.promises(), 2);
        oracle.reach_end();
        assert!(oracle.check(&found).is_err());
        found[1] = Tag::new(1, 2);
        assert!(oracle.check(&found).is_ok());
        for wrong in [Tag::FILLER, Tag::GARBAGE, Tag::new(0, 1), Tag::new(3, 9)] {
            found[3] = wrong;
            assert!(oracle.check(&found).is_err());
        }
    }

    #[test]
    fn discards() {
        let write = |start, lba, sectors| Op::Write {
            start,
            done: Some(start + 1),
            lba,
            sectors,
            durable: true,
        };
        let discard = |start, done| Op::Discard {
            start,
            done,
            lba: 3,
            sectors: 18,
        };
        // Of its sectors 3 to 20, only 8 to 15 are a whole block.
        let ops = [
            write(1, 0, 24),
            discard(5, Some(7)),
            write(9, 10, 1),
            discard(11, None),
        ];
        let mut oracle = Oracle::new(&ops, 24);
        let written: Vec<Tag> = (0..24).map(|lba| Tag::new(lba, 1)).collect();
        let block = |version| {
            let mut found = written.clone();
            found[8..16].fill(Tag::ZEROS);
            if version != 0 {
                found[10] = Tag::new(10, version);
            }
            found
        };
        oracle.reach(3);
        assert!(oracle.check(&written).is_ok());
        assert!(oracle.check(&block(0)).is_err(), "not begun yet");
        oracle.begin(5);
        assert!(oracle.check(&written).is_ok());
        assert!(oracle.check(&block(0)).is_ok());
        let mut parts = block(0);
        parts[16] = Tag::ZEROS;
        assert!(oracle.check(&parts).is_err(), "a part of a block");
        oracle.reach(8);
        assert!(oracle.check(&written).is_err(), "an old write came back");
        assert!(oracle.check(&block(0)).is_ok());
        assert!(oracle.check(&block(9)).is_ok());
        assert_eq!((oracle.promises(), oracle.promises_of_zeros()), (24, 8));
        oracle.reach(11);
        assert!(oracle.check(&block(9)).is_ok());
        assert!(oracle.check(&block(0)).is_err(), "the later write is gone");
        // One that failed may have happened.
        oracle.begin_all();
        assert!(oracle.check(&block(9)).is_ok());
        assert!(oracle.check(&block(0)).is_ok());
        assert_eq!(oracle.begun(), 2);
    }

    #[test]
    fn blocks() {
        assert_eq!(whole_blocks(8, 8), 8..16);
        assert_eq!(whole_blocks(3, 18), 8..16);
        assert!(whole_blocks(9, 14).is_empty());
        assert!(whole_blocks(1, 2).is_empty());
    }
}
