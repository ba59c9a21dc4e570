// SPDX-License-Identifier: GPL-2.0-only

//! How far the allocation of a zone has come.
//!
//! A first write takes the first free block in the order of the strategy. To search from the
//! beginning each time would be slow, so the cursor remembers a place in that order before which
//! no block is free. It is only a lower bound: what lies behind it may be in use, from the time
//! before the strategy was changed.

use super::{
    bitmap,
    geometry::{
        Geometry,
        Location, //
    },
    strategy::{
        Allocation,
        Strategy, //
    },
    units::Nbo,
};

/// A place in the order of a strategy: in the last of the tracks that were entered.
///
/// # Invariants
///
/// `left` blocks from `next` on are the rest of the last track entered, if any was. All other blocks
/// of the first `entered` tracks in the order of `allocation` are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    allocation: Allocation,
    entered: u32,
    next: Nbo,
    left: u32,
}

impl Cursor {
    /// The beginning of `allocation`'s order.
    const fn beginning(allocation: Allocation) -> Self {
        // INVARIANT: no track was entered.
        Self {
            allocation,
            entered: 0,
            next: Nbo(0),
            left: 0,
        }
    }

    /// The cursor for `allocation`: itself, or the beginning if the strategy has been changed.
    #[inline]
    pub(super) fn for_allocation(self, allocation: Allocation) -> Self {
        if self.allocation == allocation {
            self
        } else {
            Self::beginning(allocation)
        }
    }

    /// The next block, if the track has one and it is not `used` (a bitmap by `Nbo`). It is the first
    /// free one then; if not, [`first_free`](Self::first_free) knows.
    #[inline]
    pub(super) fn next_if_free(self, used: &[u64]) -> Option<Nbo> {
        (self.left != 0 && !bitmap::get(used, self.next.0)).then_some(self.next)
    }

    /// The first free block, `None` if all are `used` (a bitmap by `Nbo`).
    ///
    /// Looks at each word of the bitmap once at most.
    pub(super) fn first_free(self, geometry: &Geometry, used: &[u64]) -> Option<Nbo> {
        let (mut next, mut left) = (self.next, self.left);
        for index in self.entered.. {
            let taken = bitmap::run(used, next.0, left, true);
            if taken < left {
                return Some(next.after(taken));
            }
            let track = self.allocation.track(geometry, index)?;
            next = geometry.track_start(track);
            left = geometry.track_len(track.kind);
        }
        None
    }

    /// The cursor after the `blocks` blocks from `first` on, which lie on one track and begin with
    /// the first free block, have been taken.
    #[inline]
    pub(super) fn after(self, geometry: &Geometry, first: Nbo, blocks: u32) -> Self {
        let rest = self.left.checked_sub(blocks);
        match rest {
            // INVARIANT: the next block was free, and the run no longer is.
            Some(left) if first == self.next => Self {
                next: first.after(blocks),
                left,
                ..self
            },
            _ => self.beyond(geometry, first, blocks),
        }
    }

    /// [`after`](Self::after), wherever `first` is.
    fn beyond(self, geometry: &Geometry, first: Nbo, blocks: u32) -> Self {
        let at = self.before(geometry, first);
        // INVARIANT: nothing before the first free block was free, and the run no longer is.
        Self {
            next: first.after(blocks),
            left: at.left.saturating_sub(blocks),
            ..at
        }
    }

    /// The place right before a block.
    fn before(self, geometry: &Geometry, block: Nbo) -> Self {
        let Location { track, offset } = geometry.locate(block);
        Self {
            allocation: self.allocation,
            entered: self.allocation.index(geometry, track).saturating_add(1),
            next: block,
            left: geometry.track_len(track.kind).saturating_sub(offset),
        }
    }

    /// The cursor after a run that begins with `first` and lies on one track has become free.
    pub(super) fn back_to(self, geometry: &Geometry, first: Nbo) -> Self {
        let at = self.before(geometry, first);
        if (at.entered, at.next) < (self.entered, self.next) {
            // INVARIANT: before the run, nothing has changed.
            at
        } else {
            self
        }
    }
}
