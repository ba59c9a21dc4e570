// SPDX-License-Identifier: GPL-2.0-only

//! The journal as a ring: which place an entry has, and when the journal is too full.
//!
//! Entries are numbered from 0 on, for ever; entry s lies at place s mod `entries`. The entries
//! from the *tail* up to, without, the *head* are needed after a crash. No entry may be written
//! over one of them, where the tail is the one of the superblock that is on the device in both
//! copies.

use super::super::{
    num,
    units::BLOCK_SECTORS, //
};

/// Sectors of an entry: two copies of one block.
pub const ENTRY_SECTORS: u64 = 2 * num::wide(BLOCK_SECTORS);

/// Entries that ordinary commits leave free, so that a checkpoint can always commit what it needs.
pub const RESERVE: u64 = 2;

/// The fewest entries a journal can have.
pub const MIN_ENTRIES: u64 = 2 * RESERVE + 2;

/// A journal's arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// How many entries it has, at least 1.
    entries: u64,
    /// Its first sector.
    sector: u64,
}

impl Ring {
    /// A ring of `entries` entries, taken as 1 if it is 0, from a sector on.
    pub const fn new(entries: u64, sector: u64) -> Self {
        Self {
            entries: if entries == 0 { 1 } else { entries },
            sector,
        }
    }

    /// How many entries it has.
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// The place of an entry in the ring.
    pub const fn place_of(&self, sequence: u64) -> u64 {
        sequence.wrapping_sub(num::quotient(sequence, self.entries).wrapping_mul(self.entries))
    }

    /// The first sector of an entry. Its first copy lies there and the second behind it.
    pub const fn sector_of(&self, sequence: u64) -> u64 {
        self.sector
            .saturating_add(self.place_of(sequence).saturating_mul(ENTRY_SECTORS))
    }

    /// How many entries from `sequence` on lie behind each other before the ring starts over.
    pub const fn contiguous(&self, sequence: u64) -> u64 {
        self.entries - self.place_of(sequence)
    }

    /// Entries that are needed.
    pub const fn used(&self, tail: u64, head: u64) -> u64 {
        head.saturating_sub(tail)
    }

    /// Entries that can be written before the tail has to move.
    pub const fn free(&self, tail: u64, head: u64) -> u64 {
        self.entries.saturating_sub(self.used(tail, head))
    }

    /// How many of `wanted` entries an ordinary commit may write; when 0, it waits for a
    /// checkpoint.
    pub fn grant(&self, tail: u64, head: u64, wanted: u64) -> u64 {
        self.free(tail, head).saturating_sub(RESERVE).min(wanted)
    }

    /// Whether a checkpoint should begin in the background: half of the ring is used.
    pub const fn should_checkpoint(&self, tail: u64, head: u64) -> bool {
        self.used(tail, head) >= self.entries / 2
    }

    /// Whether ordinary commits have to wait for one.
    pub const fn must_checkpoint(&self, tail: u64, head: u64) -> bool {
        self.free(tail, head) <= RESERVE
    }
}
