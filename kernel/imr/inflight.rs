// SPDX-License-Identifier: GPL-2.0-only

//! What the writes that have not finished yet keep others from.
//!
//! Two writes must not overtake each other on the same logical block, and a read-modify-write
//! (RMW) must not write back a top block over newer data. So every started write
//!
//! * marks its logical blocks **busy**: another write to any of them waits;
//! * holds the top blocks it touches. Each has a state of two bits:
//!
//! | state | `low` | `high` | meaning | who may start |
//! | --- | --- | --- | --- | --- |
//! | 0 | 0 | 0 | free | anyone |
//! | 1 | 1 | 0 | an RMW will write it back | another RMW: both write back the same content |
//! | 2 | 1 | 1 | two RMWs will | nobody |
//! | 3 | 0 | 1 | a host write goes to it | nobody |
//!
//! What one write touches is its [`Footprint`]. Top blocks are named there by their number among the top blocks of the zone
//! ([`Geometry::top_number`]), in which a track is a run. The two bits of a state lie in two
//! bitmaps, `low` and `high`, so that a run is changed a word at a time.

use super::{
    bitmap,
    geometry::Geometry,
    plan::{
        Plan,
        TopRun, //
    },
};

/// What a write holds while it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The first logical block.
    bo: u32,
    /// How many logical blocks; and top blocks, if it writes those.
    blocks: u32,
    /// The number of the first top block that it writes for the host, if it writes any.
    written: Option<u32>,
    /// The top blocks that it writes back: the number of the first, and a mask from there.
    rewritten: [(u32, u64); 2],
}

impl Footprint {
    /// The footprint of a plan.
    #[inline]
    pub fn of(geometry: &Geometry, plan: &Plan) -> Self {
        let number = |nbo| geometry.top_number(nbo);
        let rewritten = |top: TopRun| match top.mask {
            0 => (0, 0),
            mask => number(top.first).map_or((0, 0), |first| (first, mask)),
        };
        let [own, next] = plan.neighbours;
        Self {
            bo: plan.bo.0,
            blocks: plan.blocks,
            written: if plan.top { number(plan.nbo) } else { None },
            // Not `map`, which costs a hundred instructions.
            rewritten: [rewritten(own), rewritten(next)],
        }
    }
}

/// The blocks in flight in one zone: a view of memory that the caller lends.
#[derive(Debug)]
pub struct InFlight<'a> {
    busy: &'a mut [u64],
    low: &'a mut [u64],
    high: &'a mut [u64],
}

impl<'a> InFlight<'a> {
    /// How many 64-bit words the state of a zone takes.
    pub const fn words(geometry: &Geometry) -> usize {
        geometry.block_words() + 2 * geometry.top_words()
    }

    /// The state kept in `words`, of which there are as many as [`words`](Self::words) says; `None`
    /// if there are not. Words of zeros mean that nothing is in flight.
    #[inline(always)]
    pub fn new(geometry: &Geometry, words: &'a mut [u64]) -> Option<Self> {
        let (busy, words) = words.split_at_mut_checked(geometry.block_words())?;
        let tops = geometry.top_words();
        let (low, high) = words.split_at_mut_checked(tops)?;
        (high.len() == tops).then_some(Self { busy, low, high })
    }

    /// Whether a write may start.
    #[inline]
    pub fn admits(&self, write: &Footprint) -> bool {
        !self.any_busy(write.bo, write.blocks)
            && match write.written {
                Some(first) => self.may_write(first, write.blocks),
                None => write
                    .rewritten
                    .iter()
                    .all(|&(first, mask)| mask == 0 || self.may_rewrite(first, mask)),
            }
    }

    /// Holds all that a write touches. [`admits`](Self::admits) allowed it.
    #[inline]
    pub fn hold(&mut self, write: &Footprint) {
        self.set_busy(write.bo, write.blocks);
        if let Some(first) = write.written {
            self.hold_for_write(first, write.blocks);
        }
        for (first, mask) in write.rewritten {
            if mask != 0 {
                self.hold_for_rewrite(first, mask);
            }
        }
    }

    /// Undoes [`hold`](Self::hold).
    #[inline]
    pub fn release(&mut self, write: &Footprint) {
        self.clear_busy(write.bo, write.blocks);
        if let Some(first) = write.written {
            self.release_write(first, write.blocks);
        }
        for (first, mask) in write.rewritten {
            if mask != 0 {
                self.release_rewrite(first, mask);
            }
        }
    }

    /// Holds a logical block, and the top block that it lies in, if it does, as
    /// [`admits`](Self::admits) and [`hold`](Self::hold) would. Returns whether that may be.
    #[inline(always)]
    pub fn hold_block(&mut self, bo: u32, top: Option<u32>) -> bool {
        let held = |top| bitmap::get(self.low, top) || bitmap::get(self.high, top);
        if bitmap::get(self.busy, bo) || top.is_some_and(held) {
            return false;
        }
        bitmap::set_one(self.busy, bo);
        if let Some(top) = top {
            bitmap::set_one(self.high, top);
        }
        true
    }

    /// Undoes [`hold_block`](Self::hold_block).
    #[inline(always)]
    pub fn release_block(&mut self, bo: u32, top: Option<u32>) {
        bitmap::clear_one(self.busy, bo);
        if let Some(top) = top {
            bitmap::clear_one(self.high, top);
        }
    }

    /// Whether a write is in flight to logical block `bo`.
    #[inline(always)]
    pub fn is_busy(&self, bo: u32) -> bool {
        bitmap::get(self.busy, bo)
    }

    /// Whether a write is in flight to any of `blocks` logical blocks from `bo` on.
    #[inline]
    pub fn any_busy(&self, bo: u32, blocks: u32) -> bool {
        bitmap::any(self.busy, bo, blocks)
    }

    /// How many of at most `blocks` logical blocks from `bo` on have no write in flight, before
    /// the first that has.
    #[inline]
    pub fn idle_run(&self, bo: u32, blocks: u32) -> u32 {
        bitmap::run(self.busy, bo, blocks, false)
    }

    /// Marks logical blocks as being written. None of them is busy.
    #[inline]
    pub fn set_busy(&mut self, bo: u32, blocks: u32) {
        bitmap::set(self.busy, bo, blocks);
    }

    /// Undoes [`set_busy`](Self::set_busy).
    #[inline]
    pub fn clear_busy(&mut self, bo: u32, blocks: u32) {
        bitmap::clear(self.busy, bo, blocks);
    }

    /// The state of the top block with number `top`, 0 to 3.
    pub fn top_state(&self, top: u32) -> u32 {
        match (bitmap::get(self.low, top), bitmap::get(self.high, top)) {
            (false, false) => 0,
            (true, false) => 1,
            (true, true) => 2,
            (false, true) => 3,
        }
    }

    /// Whether a host write to `blocks` top blocks from `first` on may start: all are in state 0.
    #[inline]
    pub fn may_write(&self, first: u32, blocks: u32) -> bool {
        !bitmap::any(self.low, first, blocks) && !bitmap::any(self.high, first, blocks)
    }

    /// Puts top blocks in state 3. [`may_write`](Self::may_write) allowed it.
    #[inline]
    pub fn hold_for_write(&mut self, first: u32, blocks: u32) {
        bitmap::set(self.high, first, blocks);
    }

    /// Undoes [`hold_for_write`](Self::hold_for_write).
    #[inline]
    pub fn release_write(&mut self, first: u32, blocks: u32) {
        bitmap::clear(self.high, first, blocks);
    }

    /// Whether an RMW of the top blocks `first + i`, for each bit i of `mask`, may start: all are
    /// in state 0 or 1.
    #[inline]
    pub fn may_rewrite(&self, first: u32, mask: u64) -> bool {
        bitmap::window(self.high, first, bitmap::WORD) & mask == 0
    }

    /// Adds one RMW to the state of the top blocks of `mask`. [`may_rewrite`](Self::may_rewrite)
    /// allowed it.
    #[inline]
    pub fn hold_for_rewrite(&mut self, first: u32, mask: u64) {
        self.update(first, mask, |low, high, bits| {
            // 0 -> 1, 1 -> 2.
            (low | bits, high | (low & bits))
        });
    }

    /// Undoes [`hold_for_rewrite`](Self::hold_for_rewrite).
    #[inline]
    pub fn release_rewrite(&mut self, first: u32, mask: u64) {
        self.update(first, mask, |low, high, bits| {
            // 2 -> 1, 1 -> 0.
            (low & !(bits & !high), high & !bits)
        });
    }

    /// Changes the words of `low` and `high` that the bits of `mask` lie in.
    #[inline]
    fn update(&mut self, first: u32, mask: u64, change: impl Fn(u64, u64, u64) -> (u64, u64)) {
        for (index, bits) in bitmap::spread(first, mask) {
            if let (Some(low), Some(high)) = (self.low.get_mut(index), self.high.get_mut(index)) {
                (*low, *high) = change(*low, *high, bits);
            }
        }
    }
}
