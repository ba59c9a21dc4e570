// SPDX-License-Identifier: GPL-2.0-only

//! Changes of the mapping that are not durable yet.
//!
//! Changes are numbered from 0 on. Those that were not written yet, or whose write has not ended,
//! are in a ring of fixed size; the first writes that are on their way have room reserved in it.

use super::super::Imrsim;
use crate::{
    dm::BioQueue,
    imr::{
        ondisk::Record,
        Bo,
        Nbo, //
    },
};
use kernel::{
    alloc::AllocError,
    prelude::*, //
};

/// Changes that can wait to be durable, those of writes in flight included.
///
/// 18 entries of the journal hold them all, so that a checkpoint that begins while there are
/// [`HEADROOM`] entries left can commit whatever comes in the meantime.
///
/// [`HEADROOM`]: super::commit::HEADROOM
pub(super) const CAPACITY: usize = 4096;

/// Blocks that were mapped or unmapped: a record, small.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Change {
    zone: u64,
    bo: u16,
    /// Where they are mapped to.
    nbo: u16,
    /// Blocks behind the first.
    more: u16,
    unmapped: bool,
}

impl Change {
    /// The change that a first write makes: of blocks, their place, and how many they are.
    pub(in super::super) fn of_map(zone: u64, (bo, nbo, blocks): (Bo, Nbo, u32)) -> Self {
        Change {
            zone,
            bo: narrow(bo.0),
            nbo: narrow(nbo.0),
            more: narrow(blocks.saturating_sub(1)),
            unmapped: false,
        }
    }

    /// The change that a discard makes.
    pub(super) fn of_unmap(zone: u64, bo: Bo, blocks: u32) -> Self {
        Change {
            zone,
            bo: narrow(bo.0),
            nbo: 0,
            more: narrow(blocks.saturating_sub(1)),
            unmapped: true,
        }
    }

    /// The record for the journal.
    #[inline]
    pub(super) fn record(self) -> Record {
        let (zone, bo, blocks) = (self.zone, Bo(self.bo.into()), u32::from(self.more) + 1);
        if self.unmapped {
            return Record::Unmap { zone, bo, blocks };
        }
        Record::Map {
            zone,
            bo,
            nbo: Nbo(self.nbo.into()),
            blocks,
        }
    }
}

/// The changes, and who waits for them.
///
/// # Invariants
///
/// `durable <= added`; `added - durable + reserved <= CAPACITY`; change n is in `ring` at n mod
/// `CAPACITY`, if it is not durable.
pub(super) struct Journal {
    ring: KVVec<Change>,
    added: u64,
    durable: u64,
    reserved: u64,
    /// Whether new first writes have to wait for a checkpoint.
    pub(super) throttled: bool,
    /// Whether a first write waits for room.
    pub(super) starved: bool,
    /// Flushes, and writes that are to be durable, that wait for a commit.
    pub(super) waiting: BioQueue<Imrsim>,
}

impl Journal {
    /// No changes.
    pub(super) fn new() -> Result<Self, AllocError> {
        Ok(Journal {
            ring: KVVec::from_elem(Change::default(), CAPACITY, GFP_KERNEL)?,
            added: 0,
            durable: 0,
            reserved: 0,
            throttled: false,
            starved: false,
            waiting: BioQueue::new(),
        })
    }

    /// Forgets all changes; there must be none that are not durable, and nobody waits.
    pub(super) fn reset(&mut self) {
        self.added = 0;
        self.durable = 0;
        self.reserved = 0;
        self.throttled = false;
        self.starved = false;
    }

    /// Makes room for a change. If there is none, remembers that somebody waits for it.
    #[inline]
    pub(super) fn reserve(&mut self) -> bool {
        if !self.has_room() {
            self.starved = true;
            return false;
        }
        // INVARIANT: Just checked.
        self.reserved += 1;
        true
    }

    /// Whether there is room for another change.
    #[inline]
    fn has_room(&self) -> bool {
        let taken = self.added.wrapping_sub(self.durable) + self.reserved;
        !self.throttled && taken < CAPACITY as u64
    }

    /// Gives room back.
    pub(super) fn cancel(&mut self) {
        self.reserved = self.reserved.saturating_sub(1);
    }

    /// Adds a change in room that was reserved.
    #[inline]
    pub(super) fn add(&mut self, change: Change) {
        self.cancel();
        if let Some(place) = self.ring.get_mut(place(self.added)) {
            *place = change;
        }
        self.added += 1;
    }

    /// The number of the next change.
    pub(super) fn added(&self) -> u64 {
        self.added
    }

    /// The number of the first change that is not durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// First writes that are on their way: changes that may still be added.
    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Whether all changes are durable.
    pub(super) fn is_clean(&self) -> bool {
        self.added == self.durable
    }

    /// Copies changes from `number` on, as many as there are and `to` has room for. Returns how many.
    pub(super) fn copy(&self, number: u64, to: &mut [Change]) -> usize {
        let mut copied = 0;
        for (to, number) in to.iter_mut().zip(number..self.added) {
            if let Some(change) = self.ring.get(place(number)) {
                *to = *change;
            }
            copied += 1;
        }
        copied
    }

    /// The changes before `number` are durable. Returns whether what waited for room can be tried
    /// again.
    pub(super) fn set_durable(&mut self, number: u64) -> bool {
        self.durable = number;
        self.has_room() && core::mem::take(&mut self.starved)
    }
}

/// A zone has at most 65,536 blocks.
fn narrow(n: u32) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}

fn place(number: u64) -> usize {
    // The remainder is below `CAPACITY`.
    usize::try_from(number % CAPACITY as u64).unwrap_or(0)
}
