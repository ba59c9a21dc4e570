// SPDX-License-Identifier: GPL-2.0-only

//! Reading the journal from its tail to its end.
//!
//! The journal ends before the first entry that is in neither copy what it should be. That entry
//! was never promised to anyone, and neither were those behind it, if the last batch was not written
//! to its end. Three things show that it was, and that the journal is damaged instead:
//!
//! * the superblock knows that the entry was there;
//! * there is an entry of a later batch, which was only written when this batch was complete;
//! * no sector of the two copies shows that the entry was not written: each is a part of it, or
//!   damaged.

use super::{
    bytes::get_u64,
    entry::{
        sector_state,
        Entry,
        EntryError,
        SectorState,
        AT_SEQUENCE,
        SECTOR, //
    },
    ring::Ring,
    Block,
    Disk,
    LoadError,
    Position,
    Record,
    Refusal,
    Superblock,
    Uuid,
    BLOCK_BYTES, //
};

/// Bytes of an entry: its two copies.
pub const ENTRY_BYTES: usize = 2 * BLOCK_BYTES;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Where the journal ends: the number of the next entry to be written.
    pub head: u64,
    /// Entries read.
    pub entries: u64,
    /// Entries of which one copy could not be used. As long as there are any, the journal has lost
    /// a part of its protection; a checkpoint gives it back.
    pub single_copies: u64,
    /// Entries that were dropped, because their batch was not written to its end.
    pub dropped: u64,
}

/// Reads the entries of a journal in order. Owns the buffer for the time.
#[derive(Debug)]
pub struct Replay<'b> {
    uuid: Uuid,
    ring: Ring,
    superblock: Superblock,
    buf: &'b mut [u8],
    /// Entries in `buf`: the first, and how many.
    loaded: (u64, u64),
    /// The next entry, and the epoch of the one before it.
    next: u64,
    epoch: u64,
    ended: bool,
    result: Replayed,
}

impl<'b> Replay<'b> {
    /// Begins at the superblock's tail. `buf` holds at least one entry ([`ENTRY_BYTES`]); with a
    /// larger one the device is read in larger pieces.
    ///
    /// # Errors
    ///
    /// If the superblock has no layout.
    pub fn new(superblock: &Superblock, buf: &'b mut [u8]) -> Result<Self, Refusal> {
        Ok(Self {
            uuid: superblock.uuid,
            ring: superblock.ring()?,
            superblock: *superblock,
            buf,
            loaded: (0, 0),
            next: superblock.tail,
            epoch: superblock.tail_epoch,
            ended: false,
            result: Replayed {
                head: superblock.tail,
                ..Replayed::default()
            },
        })
    }

    /// What was found so far; the whole truth when [`next`](Self::next) has returned `None`.
    pub const fn replayed(&self) -> Replayed {
        self.result
    }

    /// The next entry, `None` at the end of the journal.
    ///
    /// # Errors
    ///
    /// If the device cannot be read, or the journal is damaged.
    pub fn next<D: Disk>(
        &mut self,
        disk: &mut D,
    ) -> Result<Option<Entry<'_>>, LoadError<D::Error>> {
        if self.ended {
            return Ok(None);
        }
        let sequence = self.next;
        let superblock = &self.superblock;
        let full = self.result.entries == self.ring.entries();
        if full || (superblock.clean && sequence == superblock.head) {
            self.ended = true;
            return Ok(None);
        }
        self.load(disk, sequence)?;
        let Some((copy, epoch, both)) = self.choose(sequence)? else {
            self.ended = true;
            self.check_end(disk, sequence)?;
            return Ok(None);
        };
        self.epoch = epoch;
        self.next = sequence.saturating_add(1);
        self.result.head = self.next;
        self.result.entries += 1;
        self.result.single_copies += u64::from(!both);
        let block = self.copy(sequence, copy).ok_or(Refusal::JournalDamaged)?;
        match Entry::decode(block, &self.uuid) {
            Ok(entry) => Ok(Some(entry)),
            Err(_) => Err(Refusal::JournalDamaged.into()),
        }
    }

    /// One copy of an entry in the buffer.
    fn copy(&self, sequence: u64, copy: usize) -> Option<&Block> {
        let index = usize::try_from(sequence.checked_sub(self.loaded.0)?).ok()?;
        if sequence - self.loaded.0 >= self.loaded.1 {
            return None;
        }
        let blocks = self.buf.get(index.checked_mul(ENTRY_BYTES)?..)?;
        blocks.get(copy * BLOCK_BYTES..)?.first_chunk()
    }

    /// The intact copy of an entry that is due, its epoch, and whether both copies are.
    fn choose(&self, sequence: u64) -> Result<Option<(usize, u64, bool)>, Refusal> {
        let mut chosen: Option<(usize, u64, bool)> = None;
        for copy in 0..2 {
            let Some(block) = self.copy(sequence, copy) else {
                continue;
            };
            let entry = match Entry::decode(block, &self.uuid) {
                Ok(entry) => entry,
                Err(EntryError::Invalid) => continue,
                Err(EntryError::Refused(refusal)) => return Err(refusal),
            };
            if entry.sequence() != sequence || !self.is_due(entry.epoch())? {
                continue;
            }
            chosen = match chosen {
                Some((_, epoch, _)) if epoch == entry.epoch() => Some((copy, epoch, true)),
                Some(other) if other.1 > entry.epoch() => Some(other),
                _ => Some((copy, entry.epoch(), false)),
            };
        }
        Ok(chosen)
    }

    /// Whether the next entry may have this epoch. If not, it was dropped when the drive was opened.
    fn is_due(&self, epoch: u64) -> Result<bool, Refusal> {
        let superblock = &self.superblock;
        if epoch > superblock.epoch {
            return Err(Refusal::SuperblockStale);
        }
        let current = epoch == superblock.epoch;
        Ok(epoch >= self.epoch && current == (self.next >= superblock.opened_at))
    }

    /// Decides whether the journal ends before entry `missing`, or is damaged there.
    ///
    /// Only entries that the superblock does not know can be missing in good order, and those have
    /// its epoch.
    fn check_end<D: Disk>(
        &mut self,
        disk: &mut D,
        missing: u64,
    ) -> Result<(), LoadError<D::Error>> {
        if missing < self.superblock.head || self.may_be_whole(missing) {
            return Err(Refusal::JournalDamaged.into());
        }
        // The entries whose places follow, up to the place of `missing`.
        let end = missing.saturating_add(self.ring.entries());
        let mut sequence = missing.saturating_add(1);
        while sequence < end {
            self.load(disk, sequence)?;
            let mut dropped = false;
            for copy in 0..2 {
                let Some(block) = self.copy(sequence, copy) else {
                    continue;
                };
                // Most entries are older, which is cheap to see; damage there changes nothing.
                if get_u64(block, AT_SEQUENCE) <= missing {
                    continue;
                }
                let Ok(entry) = Entry::decode(block, &self.uuid) else {
                    continue;
                };
                if entry.epoch() > self.superblock.epoch {
                    return Err(Refusal::SuperblockStale.into());
                }
                if entry.batch_start() > missing {
                    return Err(Refusal::JournalDamaged.into());
                }
                dropped |= entry.epoch() == self.superblock.epoch;
            }
            self.result.dropped += u64::from(dropped);
            sequence += 1;
        }
        Ok(())
    }

    /// Whether nothing shows that an entry was not written to its end.
    fn may_be_whole(&self, sequence: u64) -> bool {
        (0..2)
            .filter_map(|copy| self.copy(sequence, copy))
            .all(|block| {
                block.chunks_exact(SECTOR).zip(0..).all(|(sector, number)| {
                    let due = (sequence, self.superblock.epoch);
                    let entries = self.ring.entries();
                    sector_state(sector, &self.uuid, number, due, entries)
                        != SectorState::NotWritten
                })
            })
    }

    /// Makes sure that an entry is in the buffer.
    fn load<D: Disk>(&mut self, disk: &mut D, sequence: u64) -> Result<(), LoadError<D::Error>> {
        let (first, count) = self.loaded;
        if (first..first.saturating_add(count)).contains(&sequence) {
            return Ok(());
        }
        self.loaded = (0, 0);
        let room = u64::try_from(self.buf.len() / ENTRY_BYTES).unwrap_or(u64::MAX);
        let count = room.min(self.ring.contiguous(sequence));
        let sector = self.ring.sector_of(sequence);
        let bytes = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_mul(ENTRY_BYTES);
        let buf = match self.buf.get_mut(..bytes) {
            Some(buf) if count > 0 => buf,
            _ => return Err(Refusal::JournalDamaged.into()),
        };
        if disk.read(sector, buf).is_ok() {
            self.loaded = (sequence, count);
            return Ok(());
        }
        // Only this entry, each copy by itself: one that cannot be read is as good as damaged.
        let mut error = None;
        let mut readable = false;
        for (copy, sector) in buf
            .chunks_exact_mut(BLOCK_BYTES)
            .zip([sector, sector.saturating_add(8)])
        {
            match disk.read(sector, copy) {
                Ok(()) => readable = true,
                Err(reason) => {
                    copy.fill(0xff);
                    error = Some(reason);
                }
            }
        }
        match error {
            Some(error) if !readable => Err(LoadError::Io(error)),
            _ => {
                self.loaded = (sequence, 1);
                Ok(())
            }
        }
    }
}

/// Reads the journal and gives each record to `apply`, with its position and the disk.
///
/// # Errors
///
/// If the device cannot be read, the journal is damaged, or `apply` fails.
pub fn replay<D: Disk>(
    disk: &mut D,
    superblock: &Superblock,
    buf: &mut [u8],
    mut apply: impl FnMut(&mut D, Position, &Record) -> Result<(), LoadError<D::Error>>,
) -> Result<Replayed, LoadError<D::Error>> {
    let mut replay = Replay::new(superblock, buf)?;
    while let Some(entry) = replay.next(disk)? {
        for (record, index) in entry.records().zip(0..) {
            let position = Position {
                sequence: entry.sequence(),
                index,
            };
            apply(disk, position, &record?)?;
        }
    }
    Ok(replay.replayed())
}
