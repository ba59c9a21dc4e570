// SPDX-License-Identifier: GPL-2.0-only

//! What is kept with a bio on its way.

use crate::imr::{Bo, Cause, Claim, Nbo, Piece, Placed, Plan, Request, TopRun, BLOCK_SECTORS};

/// What is kept with each bio.
#[derive(Default)]
pub(crate) enum PerBio {
    /// Nothing: what finds no data is not followed.
    #[default]
    Untracked,
    /// A read of this zone on its way to the device.
    Reading(u64),
    /// A write of a single block of this zone on its way to the device that is nothing more.
    WritingBlock(u64, Placed),
    /// Another write on its way to the device that is nothing more.
    Writing(Writing),
    /// A read that waits for its zone to be loaded.
    Read(Write),
    /// A write that waits, or is carried out step by step.
    Write(Write),
    /// A flush.
    Flush,
    /// A discard, from its start to its end.
    Discard(Discard),
    /// A request that this zone refuses, and why.
    Refused(u64, Cause),
}

/// How far a discard is with a zone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiscardStage {
    /// It has not begun with the zone.
    New,
    /// It waits for the zone's table, or loads it.
    Loading,
    /// It has stopped the zone, and waits until nothing is in flight there.
    Draining,
    /// The blocks are unmapped; it waits until that is durable.
    Committing,
}

/// A discard: it goes through its zones one after the other. Sectors count from the start of the
/// device.
pub(crate) struct Discard {
    /// The first sector that is left.
    pub(super) sector: u64,
    /// How many sectors are left.
    pub(super) sectors: u64,
    /// How far it is with the zone of that sector.
    pub(super) stage: DiscardStage,
    /// Whether a zone was reached in which there was something to count it in.
    pub(super) counted: bool,
}

/// How far the executor is with a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The write has no plan yet: it waits, or its zone needs a table.
    Waiting,
    /// The plan has started, nothing was done.
    Planned,
    /// The neighbours are being read.
    Reading,
    /// The host's data is being written.
    Writing,
    /// The neighbours are being written back.
    WritingBack,
}

/// Sectors of one zone, counted from its start.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    /// The zone's number.
    pub(super) zone: u64,
    /// The first sector.
    pub(super) sector: u32,
    /// How many sectors.
    pub(super) sectors: u32,
    /// Whether the request goes on in the next zone.
    pub(super) crosses: bool,
}

impl Range {
    /// The blocks it touches.
    #[inline]
    pub(super) fn request(&self) -> Request {
        let end = self.sector.saturating_add(self.sectors);
        let first = self.sector / BLOCK_SECTORS;
        Request {
            bo: Bo(first),
            blocks: end.div_ceil(BLOCK_SECTORS).saturating_sub(first),
            head_partial: self.sector % BLOCK_SECTORS != 0,
            tail_partial: end % BLOCK_SECTORS != 0,
        }
    }

    /// How many of its sectors lie in its first `blocks` blocks.
    #[inline]
    pub(super) fn sectors_in(&self, blocks: u32) -> u32 {
        blocks
            .saturating_mul(BLOCK_SECTORS)
            .saturating_sub(self.sector % BLOCK_SECTORS)
            .min(self.sectors)
    }

    /// What of its request its first `blocks` blocks are; `more` says that another bio carries on in
    /// the same zone.
    pub(super) fn piece(&self, blocks: u32, more: bool) -> Piece {
        Piece::of(&self.request(), blocks, more, self.crosses)
    }

    /// What it needs while it waits, as far as that is known.
    pub(super) fn claim(&self, plan: Option<&Plan>) -> Claim {
        let Request { bo, blocks, .. } = self.request();
        let claim = Claim::of_blocks(bo, blocks);
        plan.map_or(claim, |plan| claim.with_plan(plan))
    }
}

/// A write that the map path has sent down: what its end needs to know of its plan.
pub(crate) struct Writing {
    /// The zone's number.
    pub(super) zone: u64,
    bo: Bo,
    nbo: Nbo,
    blocks: u32,
    first: bool,
    top: bool,
}

impl Writing {
    /// A write by a plan that neither pads nor rewrites.
    pub(super) fn new(zone: u64, plan: &Plan) -> Self {
        Writing {
            zone,
            bo: plan.bo,
            nbo: plan.nbo,
            blocks: plan.blocks,
            first: plan.first,
            top: plan.top,
        }
    }

    /// The plan.
    pub(super) fn plan(&self) -> Plan {
        Plan {
            bo: self.bo,
            nbo: self.nbo,
            blocks: self.blocks,
            first: self.first,
            pad: false,
            top: self.top,
            neighbours: [TopRun::default(); 2],
        }
    }
}

/// A write to one zone, or a read of one that waits.
pub(crate) struct Write {
    /// What is left to write, at least one sector.
    pub(super) range: Range,
    /// How many sectors of the bio are written already.
    pub(super) done: u32,
    /// Whether the request goes on with another bio behind this one.
    pub(super) continues: bool,
    /// How far the executor is.
    pub(super) stage: Stage,
    /// Whether the zone counts it among its reads.
    pub(super) counted: bool,
    /// Whether it has rewritten top blocks.
    pub(super) rewrote: bool,
    /// The last stage in which a setting may have had it wait before it went on.
    pub(super) delayed_in: Option<Stage>,
    /// Whether the bio's pages are the device's reserve.
    pub(super) from_reserve: bool,
    /// What it needs, while it waits.
    pub(super) claim: Claim,
    /// What is being carried out. Holds its blocks from its start to its finish.
    pub(super) plan: Option<Plan>,
}

impl Write {
    /// A write that has not begun.
    pub(super) fn new(range: Range) -> Self {
        Write {
            range,
            done: 0,
            continues: false,
            stage: Stage::Waiting,
            counted: false,
            rewrote: false,
            delayed_in: None,
            from_reserve: false,
            claim: range.claim(None),
            plan: None,
        }
    }

    /// Leaves what lies behind the first `blocks` blocks to another bio. Returns what is left, in
    /// sectors.
    pub(super) fn cut(&mut self, blocks: u32) -> u32 {
        let sectors = self.range.sectors_in(blocks);
        self.continues |= sectors < self.range.sectors;
        self.range.sectors = sectors;
        sectors
    }

    /// What of its request a run of `blocks` blocks is.
    pub(super) fn piece(&self, blocks: u32) -> Piece {
        self.range.piece(blocks, self.continues)
    }

    /// Goes on behind a run of `blocks` blocks. Returns whether anything is left to write.
    pub(super) fn advance(&mut self, blocks: u32) -> bool {
        let sectors = self.range.sectors_in(blocks);
        let range = &mut self.range;
        range.sector = range.sector.saturating_add(sectors);
        range.sectors = range.sectors.saturating_sub(sectors);
        self.done = self.done.saturating_add(sectors);
        range.sectors > 0
    }
}
