// SPDX-License-Identifier: GPL-2.0-only

//! What is on a recorded device at some moment: for each sector, the sector of the log that has it.

use std::collections::{BTreeMap, BTreeSet};

use imrsim_core::{ondisk::Disk, BLOCK_SECTORS};

use crate::content::{Random, Tag, SECTOR};
use crate::log::{self, Entry};

/// A log, and what its sectors are.
pub struct Recording {
    bytes: Vec<u8>,
    /// What happened, in order.
    pub entries: Vec<Entry>,
    /// What each sector of the log holds, if it is data.
    tags: Vec<Tag>,
    /// Sectors of the recorded device.
    sectors: u64,
}

impl Recording {
    /// Takes a log of a device of `sectors` sectors, which was all zeros when it began.
    pub fn new(mut bytes: Vec<u8>, sectors: u64) -> Result<Self, String> {
        let entries = log::parse(&bytes)?;
        // Sector 0 of the log stands for zeros.
        bytes[..SECTOR].fill(0);
        let mut tags = vec![Tag::ZEROS; bytes.len() / SECTOR];
        for entry in &entries {
            if let Entry::Write { sector, data, .. } = entry {
                let count = (data.len() / SECTOR) as u64;
                if sector + count > sectors {
                    return Err(format!("a write to sector {sector} + {count} of {sectors}"));
                }
                for at in data.clone().step_by(SECTOR) {
                    tags[at / SECTOR] = Tag::of(&bytes[at..at + SECTOR]);
                }
            }
        }
        Ok(Self {
            bytes,
            entries,
            tags,
            sectors,
        })
    }

    fn sector(&self, number: u32) -> &[u8] {
        &self.bytes[number as usize * SECTOR..][..SECTOR]
    }
}

/// The content of a device.
#[derive(Clone)]
pub struct State<'a> {
    recording: &'a Recording,
    sources: Vec<u32>,
    /// Sectors that were damaged.
    damaged: BTreeMap<u64, [u8; SECTOR]>,
    /// Sectors that cannot be read.
    unreadable: BTreeSet<u64>,
}

impl State<'_> {
    /// Does one write, or only those of its sectors that `choose` chooses.
    ///
    /// A plain write does not undo what one with FUA has written since the last flush (`durable`):
    /// dm-log-writes records those at once, so that of two writes to a sector the later one comes
    /// first. Which is the later one, the versions tell.
    fn write(
        &mut self,
        entry: &Entry,
        durable: &BTreeSet<u64>,
        mut choose: impl FnMut(u64) -> bool,
    ) {
        match entry {
            Entry::Write { sector, data, .. } => {
                let from = (data.start / SECTOR) as u32;
                let sectors = data.len() / SECTOR;
                for (at, from) in (*sector..*sector + sectors as u64).zip(from..) {
                    let (old, new) = (self.tag(at), self.recording.tags[from as usize]);
                    let undo = durable.contains(&at) && new.is_older_than(old);
                    if choose(at) && !undo {
                        self.sources[at as usize] = from;
                    }
                }
            }
            Entry::Discard { sector, sectors } => {
                for at in *sector..*sector + *sectors {
                    if choose(at) {
                        self.sources[at as usize] = 0;
                    }
                }
            }
            Entry::Flush | Entry::Mark(_) => {}
        }
    }

    /// What a sector of data is.
    pub fn tag(&self, sector: u64) -> Tag {
        self.recording.tags[self.sources[sector as usize] as usize]
    }

    /// The bytes of a sector.
    pub fn sector(&self, sector: u64) -> &[u8] {
        match self.damaged.get(&sector) {
            Some(bytes) => bytes,
            None => self.recording.sector(self.sources[sector as usize]),
        }
    }

    /// Whether a sector has never been written.
    pub fn is_hole(&self, sector: u64) -> bool {
        self.sources[sector as usize] == 0 && !self.damaged.contains_key(&sector)
    }

    /// Changes a sector.
    pub fn damage(&mut self, sector: u64, change: impl FnOnce(&mut [u8])) {
        let mut bytes = [0; SECTOR];
        bytes.copy_from_slice(self.sector(sector));
        change(&mut bytes);
        self.damaged.insert(sector, bytes);
    }

    /// The sectors that are damaged.
    pub fn damaged(&self) -> impl Iterator<Item = u64> + '_ {
        self.damaged.keys().copied()
    }

    /// Makes a sector unreadable.
    pub fn break_sector(&mut self, sector: u64) {
        self.unreadable.insert(sector);
    }

    /// Undoes all damage.
    pub fn heal(&mut self) {
        self.damaged.clear();
        self.unreadable.clear();
    }

    /// Sectors of the device.
    pub fn sectors(&self) -> u64 {
        self.sources.len() as u64
    }
}

impl Disk for &State<'_> {
    type Error = String;

    fn read(&mut self, sector: u64, buf: &mut [u8]) -> Result<(), String> {
        if sector % 8 != 0 || buf.len() % 4096 != 0 {
            return Err(format!("an odd read of {} bytes at {sector}", buf.len()));
        }
        if sector + (buf.len() / SECTOR) as u64 > self.sectors() {
            return Err(format!("a read behind the end, at {sector}"));
        }
        for (bytes, sector) in buf.chunks_exact_mut(SECTOR).zip(sector..) {
            if self.unreadable.contains(&sector) {
                return Err("unreadable".to_owned());
            }
            bytes.copy_from_slice(self.sector(sector));
        }
        Ok(())
    }
}

/// Goes through a recording: what is durable, and what is on its way, before each of its entries.
pub struct Cursor<'a> {
    recording: &'a Recording,
    durable: State<'a>,
    /// Plain writes since the last flush.
    pending: Vec<usize>,
    /// Sectors that were written with FUA since the last flush.
    fresh: BTreeSet<u64>,
    /// The number of the next entry.
    next: usize,
}

impl<'a> Cursor<'a> {
    /// Stands before the first entry.
    pub fn new(recording: &'a Recording) -> Self {
        let durable = State {
            recording,
            sources: vec![0; recording.sectors as usize],
            damaged: BTreeMap::new(),
            unreadable: BTreeSet::new(),
        };
        Self {
            recording,
            durable,
            pending: Vec::new(),
            fresh: BTreeSet::new(),
            next: 0,
        }
    }

    /// Goes on behind the next entry, and returns it.
    pub fn step(&mut self) -> Option<&'a Entry> {
        let entry = self.recording.entries.get(self.next)?;
        match entry {
            Entry::Write { durable: false, .. } | Entry::Discard { .. } => {
                self.pending.push(self.next);
            }
            Entry::Flush => {
                for number in self.pending.drain(..) {
                    self.durable
                        .write(&self.recording.entries[number], &self.fresh, |_| true);
                }
                self.fresh.clear();
            }
            Entry::Write { sector, data, .. } => {
                self.durable.write(entry, &self.fresh, |_| true);
                self.fresh
                    .extend(*sector..*sector + (data.len() / SECTOR) as u64);
            }
            Entry::Mark(_) => {}
        }
        self.next += 1;
        Some(entry)
    }

    /// The number of the next entry.
    pub fn position(&self) -> usize {
        self.next
    }

    /// The device if everything recorded so far has reached it.
    pub fn prefix(&self) -> State<'a> {
        let mut state = self.durable.clone();
        for number in &self.pending {
            state.write(&self.recording.entries[*number], &self.fresh, |_| true);
        }
        state
    }

    /// The device if the power fails here: of the writes since the last flush, and of the next
    /// entry, some have reached it, whole or in part, in any order. A block that lies before sector
    /// `untorn` has reached it as a whole, or not at all.
    pub fn cut(&self, random: &mut Random, untorn: u64) -> State<'a> {
        let mut state = self.durable.clone();
        let mut under_way = self.pending.clone();
        // The next write may be under way, too. It follows what is pending only if that is so.
        if self.next < self.recording.entries.len() {
            under_way.push(self.next);
        }
        for at in (1..under_way.len()).rev() {
            under_way.swap(at, random.below(at as u64 + 1) as usize);
        }
        let style = random.below(4);
        let bias = 1 + random.below(15);
        for number in under_way {
            let entry = &self.recording.entries[number];
            let (first, sectors) = place(entry);
            let piece = |at: u64| match at < untorn {
                true => at - at % u64::from(BLOCK_SECTORS),
                false => at,
            };
            match style {
                // Whole writes.
                0 if random.below(16) < bias => state.write(entry, &self.fresh, |_| true),
                0 => {}
                // Beginnings.
                1 => {
                    let end = first + random.below(sectors + 1);
                    state.write(entry, &self.fresh, |at| piece(at).max(first) < end);
                }
                // Any sectors.
                _ => {
                    let mut last = (u64::MAX, false);
                    state.write(entry, &self.fresh, |at| {
                        if last.0 != piece(at) {
                            last = (piece(at), random.below(16) < bias);
                        }
                        last.1
                    });
                }
            }
        }
        state
    }
}

/// The first sector of an entry, and how many it has.
fn place(entry: &Entry) -> (u64, u64) {
    match entry {
        Entry::Write { sector, data, .. } => (*sector, (data.len() / SECTOR) as u64),
        Entry::Discard { sector, sectors } => (*sector, *sectors),
        Entry::Flush | Entry::Mark(_) => (0, 0),
    }
}
