// SPDX-License-Identifier: GPL-2.0-only

//! What a waiting write needs, so that nothing that comes later takes it first.
//!
//! A write that waits holds nothing. It is tried again whenever a write has finished, but two that
//! arrived later could take turns with a block it needs and keep it waiting for ever, or overtake
//! it on the very blocks it writes. So a write whose claim overlaps that of an earlier one queues
//! behind it.

use super::{
    plan::{
        Plan,
        TopRun, //
    },
    units::{
        Bo,
        Nbo, //
    },
};

/// A range of block numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Range {
    first: u32,
    blocks: u32,
}

impl Range {
    fn overlaps(self, other: Self) -> bool {
        let end = self.first.saturating_add(self.blocks);
        let other_end = other.first.saturating_add(other.blocks);
        self.blocks != 0 && other.blocks != 0 && self.first < other_end && other.first < end
    }

    fn span(top: TopRun) -> Self {
        Self {
            first: top.first.0,
            blocks: u64::BITS - top.mask.leading_zeros(),
        }
    }
}

/// The blocks of a zone that a write needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    logical: Range,
    /// Top blocks: the ones it writes, or those on either side that it writes back.
    tops: [Range; 2],
    /// Whether it writes `tops` for the host. Write-backs may share them.
    writes_tops: bool,
}

impl Claim {
    /// The claim of a write to the `blocks` logical blocks from `bo` on, of which no more is known.
    pub fn of_blocks(bo: Bo, blocks: u32) -> Self {
        Self {
            logical: Range {
                first: bo.0,
                blocks,
            },
            ..Self::default()
        }
    }

    /// The same with the top blocks that `plan`, for the first of its runs, touches.
    pub fn with_plan(self, plan: &Plan) -> Self {
        if plan.top {
            let Nbo(first) = plan.nbo;
            let written = Range {
                first,
                blocks: plan.blocks,
            };
            return Self {
                tops: [written, Range::default()],
                writes_tops: true,
                ..self
            };
        }
        Self {
            tops: plan.neighbours.map(Range::span),
            ..self
        }
    }

    /// Whether one of the two must come before the other: both write a logical block, or one writes
    /// a top block that the other writes back.
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.logical.overlaps(other.logical) {
            return true;
        }
        if self.writes_tops == other.writes_tops {
            return false;
        }
        self.tops
            .iter()
            .any(|mine| other.tops.iter().any(|theirs| mine.overlaps(*theirs)))
    }
}
