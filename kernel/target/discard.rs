// SPDX-License-Identifier: GPL-2.0-only

//! Discards: whole blocks are unmapped, and their places are free for others.
//!
//! A place that becomes free may be written by the next first write of the zone. Until then no read
//! or write may be under way to it, and should a crash bring the old mapping back it would lead to
//! somebody else's data. So a discard has each zone for itself, one after the other:
//!
//! ```text
//!   New [-> Loading] -> Draining -> Committing -> New, in the next zone
//! ```
//!
//! 1. it stops the zone: what arrives waits;
//! 2. when nothing is in flight there any more, it unmaps the blocks;
//! 3. when that is durable, it lets the zone go on.
//!
//! So a discard that has ended is durable. Parts of blocks are left alone, as the block layer allows.

use super::{
    execute::load_zone,
    write::{Discard, DiscardStage, PerBio},
    Imrsim, This,
};
use crate::{
    bindings::trace::{Op, Run},
    dm::{Deferred, Device, Status},
    imr::{Bo, DiscardPart, Piece},
};

/// Blocks that are unmapped at once under the zone's lock, so that the time is bounded.
const AT_ONCE: u32 = 1024;

impl Discard {
    /// Enters the next zone.
    fn advance(&mut self, part: &DiscardPart) {
        self.sector = self.sector.saturating_add(part.sectors);
        self.sectors = self.sectors.saturating_sub(part.sectors);
        self.stage = DiscardStage::New;
    }
}

/// Takes one step. [`None`]: the discard waits for something, or has ended.
pub(super) fn step(
    this: This<'_>,
    device: &Device,
    mut bio: Deferred<Imrsim>,
) -> Option<Deferred<Imrsim>> {
    let Some(discard) = state(&mut bio) else {
        bio.end(Status::IO_ERROR);
        return None;
    };
    if discard.sectors == 0 {
        bio.end(Status::OK);
        return None;
    }
    let part = DiscardPart::first(&this.params.geometry, discard.sector, discard.sectors);
    match discard.stage {
        DiscardStage::New | DiscardStage::Loading => begin(this, device, bio, &part),
        DiscardStage::Draining => unmap(this, bio, &part),
        DiscardStage::Committing => let_go(this, bio, &part),
    }
}

fn state(bio: &mut Deferred<Imrsim>) -> Option<&mut Discard> {
    match bio.per_bio() {
        PerBio::Discard(discard) => Some(discard),
        _ => None,
    }
}

/// Stops the zone, if there is anything to do in it.
fn begin(
    this: This<'_>,
    device: &Device,
    mut bio: Deferred<Imrsim>,
    part: &DiscardPart,
) -> Option<Deferred<Imrsim>> {
    let mut slot = this.zones.lock(part.zone)?;
    if let Some(cause) = slot.gate.refuses_writes() {
        drop(slot);
        *bio.per_bio() = PerBio::Refused(part.zone, cause);
        bio.end(Status::IO_ERROR);
        return None;
    }
    let discard = state(&mut bio)?;
    if slot.needs_loading() {
        // Whoever is woken without the zone being loaded is the next to try, or to fail.
        let our_turn = discard.stage == DiscardStage::Loading
            || !core::mem::replace(&mut slot.allocating, true);
        discard.stage = DiscardStage::Loading;
        if our_turn {
            drop(slot);
            load_zone(this, device, bio);
        } else {
            slot.waiting.push(bio);
        }
        return None;
    }
    if !this.store.is_writable() {
        drop(slot);
        bio.end(Status::IO_ERROR);
        return None;
    }
    if part.blocks != 0 && slot.gate.is_stopped() {
        // Another discard has it, and will wake us.
        discard.stage = DiscardStage::New;
        slot.waiting.push(bio);
        return None;
    }
    let Some(data) = &mut slot.data else {
        // Nothing was ever written here.
        drop(slot);
        discard.advance(part);
        return Some(bio);
    };
    let counted = core::mem::replace(&mut discard.counted, true);
    if !counted {
        data.stats.count_discard();
    }
    this.trace.map(part.zone, || Run {
        op: Op::Discard,
        bo: part.bo,
        nbo: None,
        blocks: part.blocks,
        piece: Piece {
            ends_request: !counted,
            ..Piece::default()
        },
    });
    if part.blocks == 0 {
        drop(slot);
        discard.advance(part);
        return Some(bio);
    }
    slot.gate.set_stopped(true);
    discard.stage = DiscardStage::Draining;
    slot.waiting.push(bio);
    let mut ready = slot.wake(this);
    drop(slot);
    ready.schedule_all(&this.workqueue);
    None
}

/// Unmaps the blocks. Nothing is in flight in the zone, or the store has failed: that is why we run.
fn unmap(
    this: This<'_>,
    mut bio: Deferred<Imrsim>,
    part: &DiscardPart,
) -> Option<Deferred<Imrsim>> {
    let mut slot = this.zones.lock(part.zone)?;
    if !this.store.is_writable() {
        drop(slot);
        return let_go(this, bio, part);
    }
    if !this.store.reserve(this) {
        slot.waiting.push(bio);
        return None;
    }
    drop(slot);
    if !unmap_blocks(this, part.zone, part.bo, part.blocks) {
        return let_go(this, bio, part);
    }
    state(&mut bio)?.stage = DiscardStage::Committing;
    this.store.wait_for_commit(this, bio);
    None
}

/// Unmaps blocks of a zone that is stopped and quiet, and records it in the room that was reserved for
/// that. Returns whether any was mapped; if none was, the room is given back.
pub(super) fn unmap_blocks(this: This<'_>, zone: u64, bo: Bo, blocks: u32) -> bool {
    // The zone is ours until we let go of it. A checkpoint may write a table in which only some of
    // the blocks are unmapped: that does no harm, as nobody takes their places yet.
    let mut freed = 0_u32;
    for done in (0..blocks).step_by(AT_ONCE as usize) {
        let count = AT_ONCE.min(blocks.saturating_sub(done));
        let mut slot = this.zones.lock(zone);
        if let Some(data) = slot.as_mut().and_then(|slot| slot.data.as_mut()) {
            let more = data.unmap(&this.params.geometry, bo.after(done), count);
            freed = freed.saturating_add(more);
            if more > 0 {
                this.trace.unmap(zone, bo.after(done), count);
            }
        }
    }
    if freed == 0 {
        this.store.cancel();
        return false;
    }
    // Under the lock: the records of a zone are in the order of its changes, for checkpoints, too.
    let slot = this.zones.lock(zone);
    this.store.record_unmap(zone, bo, blocks);
    drop(slot);
    true
}

/// Lets others have a zone that was stopped.
pub(super) fn let_zone_go(this: This<'_>, zone: u64) {
    if let Some(mut slot) = this.zones.lock(zone) {
        slot.gate.set_stopped(false);
        let mut ready = slot.wake(this);
        drop(slot);
        ready.schedule_all(&this.workqueue);
    }
}

/// Lets others have the zone, and goes on to the next, unless the store has failed.
fn let_go(
    this: This<'_>,
    mut bio: Deferred<Imrsim>,
    part: &DiscardPart,
) -> Option<Deferred<Imrsim>> {
    let_zone_go(this, part.zone);
    if !this.store.is_writable() {
        bio.end(Status::IO_ERROR);
        return None;
    }
    state(&mut bio)?.advance(part);
    Some(bio)
}
