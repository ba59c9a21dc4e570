// SPDX-License-Identifier: GPL-2.0-only

//! How a zone comes back after a stop, and how blocks are unmapped.

use core::fmt;

use super::{
    super::{
        geometry::{
            Track,
            TrackKind, //
        },
        ondisk::{
            Record,
            Refusal,
            ZoneMemory, //
        },
    },
    bitmap,
    num,
    Bo,
    Cursor,
    Geometry,
    Nbo,
    Zone, //
};

/// A write in flight touches the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// What is wrong with a table, or with a record for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneError {
    /// A block lies outside the zone.
    OutOfRange,
    /// Two logical blocks have one physical block.
    NotInjective,
    /// A record maps a block that is mapped elsewhere, or to a block that is in use.
    Conflict,
    /// Writes are in flight.
    Busy,
}

impl ZoneError {
    /// What it means for the device when a table is loaded ([`Zone::load`]).
    pub const fn of_table(self) -> Refusal {
        Refusal::BadTable
    }

    /// What it means for the device when a record is replayed ([`Zone::replay`]).
    pub const fn of_record(self) -> Refusal {
        match self {
            Self::OutOfRange => Refusal::BadRecord,
            _ => Refusal::RecordConflict,
        }
    }
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "a block lies outside the zone",
            Self::NotInjective => "two logical blocks have the same physical block",
            Self::Conflict => "a record contradicts the table",
            Self::Busy => "writes are in flight",
        })
    }
}

impl core::error::Error for ZoneError {}

impl Zone<'_> {
    /// The table, by logical block; means nothing where the block is not mapped.
    pub fn table(&self) -> &[u16] {
        self.table
    }

    /// The bitmap of mapped logical blocks.
    pub fn mapped_words(&self) -> &[u64] {
        self.mapped
    }

    /// The memory that [`load_zone`](super::super::ondisk::load_zone) fills. Afterwards, and before
    /// anything else, [`load`](Self::load) is due.
    pub fn memory(&mut self) -> ZoneMemory<'_> {
        ZoneMemory {
            table: self.table,
            mapped: self.mapped,
        }
    }

    /// Rebuilds all that follows from the table and the bitmap of mapped blocks.
    ///
    /// # Errors
    ///
    /// If they are no table of this zone; then the zone must not be used.
    pub fn load(&mut self) -> Result<(), ZoneError> {
        if self.state.in_flight != 0 {
            return Err(ZoneError::Busy);
        }
        self.used.fill(0);
        self.state.cursor = Cursor::default();
        let mut used = Collector::new(self.used);
        // Blocks outside the zone have no entry.
        let mut entries = self.table.chunks(64);
        for word in &*self.mapped {
            let entries = entries.next().unwrap_or(&[]);
            if let (u64::MAX, Some(entries)) = (*word, entries.first_chunk()) {
                match lowest_of_run(entries) {
                    Some(lowest) => used.set_64(lowest),
                    None => entries.iter().for_each(|entry| used.set(*entry)),
                }
                continue;
            }
            let mut rest = *word;
            while rest != 0 {
                let entry = entries.get(num::index(rest.trailing_zeros()));
                used.set(*entry.ok_or(ZoneError::OutOfRange)?);
                rest &= rest - 1;
            }
        }
        used.finish()?;
        let end = self.geometry.zone_blocks();
        // What is left of the last word.
        if bitmap::any(self.used, end, 63) {
            return Err(ZoneError::OutOfRange);
        }
        // With a block for each of them, no two have the same.
        let mapped = bitmap::count(self.mapped);
        if bitmap::count(self.used) != mapped {
            return Err(ZoneError::NotInjective);
        }
        self.state.mapped = mapped;
        self.state.used_tops = count_tops(self.geometry, self.used);
        Ok(())
    }

    /// Does again what a record of this zone says. What has been done already changes nothing.
    ///
    /// # Errors
    ///
    /// If the record does not fit the table; then the zone must not be used.
    pub fn replay(&mut self, record: &Record) -> Result<(), ZoneError> {
        match *record {
            Record::Map {
                bo, nbo, blocks, ..
            } => self.replay_map(bo, nbo, blocks),
            Record::Unmap { bo, blocks, .. } => {
                self.check_range(bo.0, blocks)?;
                self.unmap(bo, blocks).map_err(|Busy| ZoneError::Busy)?;
                Ok(())
            }
            Record::ResetZone { .. } => {
                let all = self.geometry.zone_blocks();
                self.unmap(Bo(0), all).map_err(|Busy| ZoneError::Busy)?;
                Ok(())
            }
            Record::Config { .. } | Record::Statistics { .. } | Record::Skipped { .. } => Ok(()),
        }
    }

    /// Unmaps those of the `blocks` blocks from `bo` on that are mapped, and frees their physical
    /// blocks. Returns how many that are.
    ///
    /// A freed block may be written by the next first write. Should a crash then bring the old
    /// mapping back, it would lead to foreign data: so no first write of the zone may start before
    /// the record of this is on the device.
    ///
    /// # Errors
    ///
    /// If a write to one of the blocks is in flight, or a read-modify-write that will write one of
    /// the physical blocks back. Nothing is changed then.
    pub fn unmap(&mut self, bo: Bo, blocks: u32) -> Result<u32, Busy> {
        let end = bo.after(blocks).0.min(self.geometry.zone_blocks());
        let blocks = end.saturating_sub(bo.0);
        if self.in_flight.any_busy(bo.0, blocks) {
            return Err(Busy);
        }
        let held = |nbo| {
            self.geometry
                .top_number(nbo)
                .is_some_and(|top| self.in_flight.top_state(top) != 0)
        };
        if (bo.0..end).any(|bo| self.lookup(Bo(bo)).is_some_and(held)) {
            return Err(Busy);
        }
        let mut freed = 0;
        for bo in (bo.0..end).map(Bo) {
            let Some(nbo) = self.lookup(bo) else {
                continue;
            };
            bitmap::clear(self.mapped, bo.0, 1);
            bitmap::clear(self.used, nbo.0, 1);
            if self.geometry.top_number(nbo).is_some() {
                self.state.used_tops = self.state.used_tops.saturating_sub(1);
            }
            self.state.cursor = self.state.cursor.back_to(self.geometry, nbo);
            freed += 1;
        }
        self.state.mapped = self.state.mapped.saturating_sub(freed);
        Ok(freed)
    }

    fn check_range(&self, first: u32, blocks: u32) -> Result<(), ZoneError> {
        match first.checked_add(blocks) {
            Some(end) if blocks > 0 && end <= self.geometry.zone_blocks() => Ok(()),
            _ => Err(ZoneError::OutOfRange),
        }
    }

    fn replay_map(&mut self, bo: Bo, nbo: Nbo, blocks: u32) -> Result<(), ZoneError> {
        self.check_range(bo.0, blocks)?;
        self.check_range(nbo.0, blocks)?;
        for (bo, nbo) in (0..blocks).map(|i| (bo.after(i), nbo.after(i))) {
            match self.lookup(bo) {
                Some(known) if known == nbo => continue,
                None if !self.is_used(nbo) && !self.is_busy(bo) => {}
                _ => return Err(ZoneError::Conflict),
            }
            if let Some(entry) = self.table.get_mut(num::index(bo.0)) {
                *entry = num::entry(nbo.0);
            }
            bitmap::set(self.mapped, bo.0, 1);
            bitmap::set(self.used, nbo.0, 1);
            self.state.mapped = self.state.mapped.saturating_add(1);
            if self.geometry.top_number(nbo).is_some() {
                self.state.used_tops = self.state.used_tops.saturating_add(1);
            }
        }
        Ok(())
    }
}

/// Sets bits of a bitmap that is zero; of those that come one after the other and lie in one word, all at
/// once. So they do in most tables, and a table has 65,536.
struct Collector<'a> {
    words: &'a mut [u64],
    index: usize,
    bits: u64,
    out_of_range: bool,
}

impl<'a> Collector<'a> {
    fn new(words: &'a mut [u64]) -> Self {
        Self {
            words,
            index: 0,
            bits: 0,
            out_of_range: false,
        }
    }

    #[inline(always)]
    fn set(&mut self, at: u16) {
        let at = u32::from(at);
        let index = num::index(at / bitmap::WORD);
        if index != self.index {
            self.flush();
            self.index = index;
            self.bits = 0;
        }
        self.bits |= 1 << (at % bitmap::WORD);
    }

    /// Sets 64 bits from `at` on.
    fn set_64(&mut self, at: u16) {
        for (index, bits) in bitmap::spread(at.into(), u64::MAX) {
            if bits != 0 {
                self.or(index, bits);
            }
        }
    }

    #[inline(always)]
    fn flush(&mut self) {
        self.or(self.index, self.bits);
    }

    #[inline(always)]
    fn or(&mut self, index: usize, bits: u64) {
        match self.words.get_mut(index) {
            Some(word) => *word |= bits,
            None => self.out_of_range = true,
        }
    }

    /// # Errors
    ///
    /// If a bit was not one of the bitmap's words.
    fn finish(mut self) -> Result<(), ZoneError> {
        self.flush();
        if self.out_of_range {
            return Err(ZoneError::OutOfRange);
        }
        Ok(())
    }
}

/// The lowest of 64 blocks, if they follow one another, forwards or backwards. Four are compared at a time.
#[inline(never)]
fn lowest_of_run(entries: &[u16; 64]) -> Option<u16> {
    let [first, second, .., last] = *entries;
    let up = first < second;
    let (lowest, highest) = if up { (first, last) } else { (last, first) };
    if highest.checked_sub(lowest) != Some(63) {
        return None;
    }
    // The numbers lie between those two, so that none takes a bit from the next one's.
    let one: u64 = 0x0001_0001_0001_0001;
    let each = |n: u64, ahead: u64| {
        if up {
            n.wrapping_add(ahead)
        } else {
            n.wrapping_sub(ahead)
        }
    };
    let mut due = each(one.wrapping_mul(first.into()), 0x0003_0002_0001_0000);
    for four in entries.chunks_exact(4) {
        let four = four.iter().rev();
        if four.fold(0, |all, entry| (all << 16) | u64::from(*entry)) != due {
            return None;
        }
        due = each(due, 4 * one);
    }
    Some(lowest)
}

/// How many of the `used` blocks lie on top tracks.
fn count_tops(geometry: &Geometry, used: &[u64]) -> u32 {
    let top_blocks = geometry.top_blocks();
    (0..geometry.groups())
        .map(|group| {
            let start = geometry.track_start(Track {
                group,
                kind: TrackKind::Top,
            });
            (0..top_blocks)
                .step_by(64)
                .map(|at| bitmap::window(used, start.after(at).0, top_blocks - at).count_ones())
                .sum::<u32>()
        })
        .sum()
}
