// SPDX-License-Identifier: GPL-2.0-only

//! The zones of a device, each under a lock of its own, and the writes that wait in them.
//!
//! A zone without data costs a [`Slot`]; the first write to it allocates the rest.

use super::{
    store::journal::Change,
    write::{DiscardStage, PerBio, Stage},
    Imrsim, This,
};
use crate::{
    bindings::trace::Run,
    dm::{
        new_spinlock_irq, without_io, zeros, BioQueue, Pick, SpinLockIrq, SpinLockIrqGuard,
        WithWords,
    },
    imr::{
        ondisk::{Position, Record, Refusal},
        uapi::ZoneEntry,
        Allocation, Bo, Cause, Claim, Condition, Geometry, Nbo, Piece, Placed, Plan, ReadRun,
        Request, Stats, Step, Zone, ZoneState,
    },
};
use core::ops::{Deref, DerefMut};
use kernel::{
    alloc::AllocError,
    prelude::*, //
};

/// How many waiting writes one that finishes or arrives looks at, so that the time under the lock is
/// bounded. Those behind wait for their turn.
const LOOK_AHEAD: usize = 32;

/// All zones of a device.
pub(super) struct Zones(Pin<KVBox<[Lockable]>>);

#[pin_data]
struct Lockable {
    #[pin]
    slot: SpinLockIrq<Slot>,
}

impl Zones {
    /// Zones without data.
    pub(super) fn new(zones: u64) -> Result<Self> {
        let zones = usize::try_from(zones).map_err(|_| ENOMEM)?;
        let slot = |_| {
            try_pin_init!(Lockable {
            slot <- new_spinlock_irq!(Slot::default(), "imrsim zone"),
        }? Error)
        };
        KVBox::pin_slice(slot, zones, GFP_KERNEL).map(Zones)
    }

    /// Locks a zone. [`None`] if there is none with this number.
    #[inline(always)]
    pub(super) fn lock(&self, zone: u64) -> Option<SpinLockIrqGuard<'_, Slot>> {
        let slots = self.0.as_ref().get_ref();
        slots
            .get(usize::try_from(zone).ok()?)
            .map(|it| it.slot.lock())
    }

    /// Tries all writes that wait again.
    pub(super) fn retry_all(&self, this: This<'_>) {
        for zone in 0..self.len() {
            let Some(mut slot) = self.lock(zone) else {
                continue;
            };
            if slot.waiting.is_empty() {
                continue;
            }
            let mut ready = slot.wake(this);
            drop(slot);
            ready.schedule_all(&this.workqueue);
        }
    }

    /// Forgets everything, when no I/O is under way.
    pub(super) fn forget(&self) {
        for zone in 0..self.len() {
            let old = self.lock(zone).map(|mut slot| core::mem::take(&mut *slot));
            drop(old);
        }
    }

    /// How many zones there are.
    pub(super) fn len(&self) -> u64 {
        self.0.as_ref().get_ref().len() as u64
    }
}

/// A zone.
#[derive(Default)]
pub(super) struct Slot {
    /// What a zone has that was written to.
    pub(super) data: Option<ZoneData>,
    /// What waits: for writes in flight, for the data, or for a discard; oldest first.
    pub(super) waiting: BioQueue<Imrsim>,
    /// Reads before the first write.
    early_reads: EarlyReads,
    /// Those of them that crossed the zone's end; here, where there is room.
    early_crossings: u32,
    /// Whether a bio is on its way to load or allocate the data.
    pub(super) allocating: bool,
    /// What keeps requests from the zone.
    pub(super) gate: Gate,
    /// Which slot on the device has the data, if one has: the second?
    pub(super) counts: Option<bool>,
    /// What is known of data that was not loaded yet.
    pub(super) summary: Option<KBox<Summary>>,
}

/// What keeps requests from a zone, in one byte, as it is looked at for each of them.
#[derive(Clone, Copy, Default)]
pub(super) struct Gate(u8);

impl Gate {
    const STOPPED: u8 = 1;
    const READ_ONLY: u8 = 2;
    const OFFLINE: u8 = 4;

    /// Whether a read cannot just go on.
    #[inline(always)]
    pub(super) fn holds_reads(self) -> bool {
        self.0 & (Self::STOPPED | Self::OFFLINE) != 0
    }

    /// Whether a write cannot just go on.
    #[inline(always)]
    pub(super) fn holds_writes(self) -> bool {
        self.0 != 0
    }

    /// Whether a discard or a reset has the zone for itself, or waits for that. It waits until nothing
    /// is in flight any more, a discard among the waiting; all others wait until it lets go.
    pub(super) fn is_stopped(self) -> bool {
        self.0 & Self::STOPPED != 0
    }

    /// Stops the zone, or lets it go on.
    pub(super) fn set_stopped(&mut self, stopped: bool) {
        self.0 &= !Self::STOPPED;
        if stopped {
            self.0 |= Self::STOPPED;
        }
    }

    /// What the zone may be used for.
    pub(super) fn condition(self) -> Condition {
        if self.0 & Self::OFFLINE != 0 {
            Condition::Offline
        } else if self.0 & Self::READ_ONLY != 0 {
            Condition::ReadOnly
        } else {
            Condition::Normal
        }
    }

    /// Sets what the zone may be used for. What was accepted before goes on.
    pub(super) fn set_condition(&mut self, condition: Condition) {
        self.0 &= Self::STOPPED;
        self.0 |= match condition {
            Condition::Normal => 0,
            Condition::ReadOnly => Self::READ_ONLY,
            Condition::Offline => Self::OFFLINE,
        };
    }

    /// Why a read is refused, if it is.
    pub(super) fn refuses_reads(self) -> Option<Cause> {
        (!self.condition().can_read()).then_some(Cause::OfflineZone)
    }

    /// Why writes, discards and resets are refused, if they are.
    pub(super) fn refuses_writes(self) -> Option<Cause> {
        match self.condition() {
            Condition::Normal => None,
            Condition::ReadOnly => Some(Cause::ReadOnlyZone),
            Condition::Offline => Some(Cause::OfflineZone),
        }
    }
}

/// What is known of a zone without its table.
#[derive(Clone, Copy, Default)]
pub(super) struct Summary {
    /// Its counters.
    pub(super) stats: Stats,
    /// The counters in the zone's slot on the device.
    pub(super) saved_stats: Stats,
    /// Blocks mapped.
    pub(super) mapped: u32,
    /// Records of the journal before here are in it.
    pub(super) position: Position,
}

/// Whether a write that arrives and needs this must queue behind those that wait.
pub(super) fn must_queue(waiting: &BioQueue<Imrsim>, claim: &Claim) -> bool {
    let mut seen = 0;
    waiting.any(|other| {
        seen += 1;
        seen > LOOK_AHEAD
            || match other {
                PerBio::Write(other) => other.claim.overlaps(claim),
                _ => false,
            }
    })
}

/// Reads of a zone that has no data. Small, as there is one of these for each zone: what would
/// overflow stays at its largest value.
#[derive(Clone, Copy, Default)]
struct EarlyReads {
    blocks: u64,
    requests: u32,
    edges: u32,
}

impl Slot {
    /// Counts a read before the first write.
    fn count_early(&mut self, blocks: u32, piece: Piece) {
        let add = |counter: &mut u32, more| *counter = counter.saturating_add(more);
        let reads = &mut self.early_reads;
        reads.blocks = reads.blocks.saturating_add(blocks.into());
        add(&mut reads.requests, u32::from(piece.ends_request));
        add(&mut reads.edges, piece.unaligned_edges);
        add(&mut self.early_crossings, u32::from(piece.crosses_zone));
    }

    fn early_stats(&self) -> Stats {
        Stats {
            host_read_requests: self.early_reads.requests.into(),
            host_read_blocks: self.early_reads.blocks,
            zero_read_blocks: self.early_reads.blocks,
            cross_zone_requests: self.early_crossings.into(),
            unaligned_edges: self.early_reads.edges.into(),
            ..Stats::default()
        }
    }

    /// Whether the table is on the device, but was not loaded yet.
    pub(super) fn needs_loading(&self) -> bool {
        self.data.is_none() && self.counts.is_some()
    }

    /// Looks up a read, and counts it. `piece` says what a run of so many blocks is of its request.
    /// The zone does not need loading.
    pub(super) fn read(
        &mut self,
        this: This<'_>,
        zone: u64,
        request: &Request,
        piece: impl FnOnce(u32) -> Piece,
    ) -> ReadRun {
        let Some(data) = &mut self.data else {
            let piece = piece(request.blocks);
            self.count_early(request.blocks, piece);
            let run = ReadRun::Zeros {
                blocks: request.blocks,
            };
            this.trace.map(zone, || Run::read(request.bo, &run, piece));
            return run;
        };
        let run = match data.zone(&this.params.geometry) {
            Some(zone) => zone.read(request.bo, request.blocks),
            None => ReadRun::Zeros {
                blocks: request.blocks,
            },
        };
        let (ReadRun::Mapped { blocks, .. } | ReadRun::Zeros { blocks }) = run;
        let piece = piece(blocks);
        data.stats.count_read(&run, piece);
        this.trace.map(zone, || Run::read(request.bo, &run, piece));
        run
    }

    /// Starts those of the waiting writes that can, in order; none overtakes an earlier one that
    /// needs the same blocks. They are to be scheduled when the lock is released.
    #[must_use]
    pub(super) fn wake(&mut self, this: This<'_>) -> BioQueue<Imrsim> {
        if !this.store.is_writable() {
            // They run, and end.
            return core::mem::take(&mut self.waiting);
        }
        let Some(data) = &mut self.data else {
            return BioQueue::new();
        };
        if self.gate.is_stopped() {
            if !data.is_quiet() {
                return BioQueue::new();
            }
            return self.waiting.extract(|per_bio| match per_bio {
                PerBio::Discard(discard) if discard.stage == DiscardStage::Draining => Pick::Take,
                _ => Pick::Leave,
            });
        }
        let mut before = [Claim::default(); LOOK_AHEAD];
        let mut kept = 0;
        self.waiting.extract(|per_bio| {
            let PerBio::Write(write) = per_bio else {
                return Pick::Take;
            };
            let earlier = before.get(..kept).unwrap_or(&[]);
            let blocked = earlier.iter().any(|claim| claim.overlaps(&write.claim));
            if !blocked {
                let request = write.range.request();
                let zone = write.range.zone;
                write.plan = data.start(this, zone, &request, |blocks| write.piece(blocks));
                if write.plan.is_some() {
                    write.stage = Stage::Planned;
                    return Pick::Take;
                }
            }
            match before.get_mut(kept) {
                Some(claim) => *claim = write.claim,
                None => return Pick::Stop,
            }
            kept += 1;
            Pick::Leave
        })
    }

    /// The counters, and what is mapped.
    pub(super) fn counters(&self) -> Counters {
        let mut counters = match &self.data {
            Some(data) => Counters {
                stats: data.stats,
                mapped: u64::from(data.state.mapped_blocks()),
                used_tops: u64::from(data.state.used_tops()),
            },
            None => match &self.summary {
                Some(summary) => Counters {
                    stats: summary.stats,
                    mapped: u64::from(summary.mapped),
                    used_tops: 0,
                },
                None => Counters::default(),
            },
        };
        counters.stats.merge(&self.early_stats());
        counters
    }

    /// The zone as it is listed.
    pub(super) fn entry(
        &mut self,
        zone: u64,
        geometry: &Geometry,
        allocation: Allocation,
    ) -> ZoneEntry {
        let counters = self.counters();
        let narrow = |n| u32::try_from(n).unwrap_or(u32::MAX);
        let loaded = self.data.as_mut().and_then(|data| data.zone(geometry));
        ZoneEntry {
            zone,
            mapped_blocks: narrow(counters.mapped),
            used_top_blocks: narrow(counters.used_tops),
            phase: match loaded {
                Some(zone) => zone.phase_reached(allocation),
                None => u32::from(counters.mapped == 0),
            },
            condition: self.gate.condition().number(),
        }
    }

    /// The counters, if they differ from those on the device.
    pub(super) fn unsaved_stats(&self) -> Option<Stats> {
        let stats = self.counters().stats;
        let saved = match &self.data {
            Some(data) => data.saved_stats,
            None => match &self.summary {
                Some(summary) => summary.saved_stats,
                None => Stats::default(),
            },
        };
        (stats != saved).then_some(stats)
    }

    /// Sets the counters to zero.
    pub(super) fn reset_counters(&mut self) {
        self.early_reads = EarlyReads::default();
        self.early_crossings = 0;
        if let Some(summary) = &mut self.summary {
            summary.stats = Stats::default();
        }
        if let Some(data) = &mut self.data {
            data.stats = Stats::default();
        }
    }
}

/// What a zone, or all of them, counted.
#[derive(Clone, Copy, Default)]
pub(super) struct Counters {
    /// What happened since the last reset.
    pub(super) stats: Stats,
    /// Blocks mapped.
    pub(super) mapped: u64,
    /// Blocks used on top tracks.
    pub(super) used_tops: u64,
}

impl Counters {
    /// Adds another zone's.
    pub(super) fn add(&mut self, other: &Counters) {
        self.stats.merge(&other.stats);
        self.mapped = self.mapped.wrapping_add(other.mapped);
        self.used_tops = self.used_tops.wrapping_add(other.used_tops);
    }
}

/// The memory of a zone that was written to: what follows, and the zone's bits.
pub(super) struct ZoneData(WithWords<ZoneHead>);

pub(super) struct ZoneHead {
    table: KVVec<u16>,
    state: ZoneState,
    /// What happened in the zone.
    pub(super) stats: Stats,
    /// The counters in the zone's slot on the device.
    pub(super) saved_stats: Stats,
    /// Whether there are changes of the mapping that are in no slot.
    pub(super) dirty: bool,
    /// How often the table was written to a slot.
    pub(super) generation: u64,
    /// Records of the journal before here are in the table.
    pub(super) position: Position,
    /// Reads on their way to the device.
    reads: u32,
}

impl Deref for ZoneData {
    type Target = ZoneHead;

    fn deref(&self) -> &ZoneHead {
        &self.0
    }
}

impl DerefMut for ZoneData {
    fn deref_mut(&mut self) -> &mut ZoneHead {
        &mut self.0
    }
}

impl ZoneData {
    /// Allocates a zone in which nothing is mapped. May sleep, but does not wait for I/O.
    pub(super) fn new(geometry: &Geometry) -> Result<Self, AllocError> {
        without_io(|| {
            let head = ZoneHead {
                table: zeros(Zone::table_len(geometry))?,
                state: ZoneState::default(),
                stats: Stats::default(),
                saved_stats: Stats::default(),
                dirty: false,
                generation: 0,
                position: Position::default(),
                reads: 0,
            };
            WithWords::new(head, Zone::bits_len(geometry)).map(ZoneData)
        })
    }

    /// The zone. There always is one: the slices were made to measure.
    #[inline(always)]
    pub(super) fn zone<'a>(&'a mut self, geometry: &'a Geometry) -> Option<Zone<'a>> {
        let (head, bits) = self.0.parts();
        Zone::new(geometry, &mut head.table, bits, &mut head.state)
    }

    /// A read goes to the device.
    pub(super) fn begin_read(&mut self) {
        self.reads = self.reads.saturating_add(1);
    }

    /// A read has completed.
    pub(super) fn end_read(&mut self) {
        self.reads = self.reads.saturating_sub(1);
    }

    /// Whether nothing is in flight to the device for this zone.
    pub(super) fn is_quiet(&self) -> bool {
        self.reads == 0 && self.state.writes_in_flight() == 0
    }

    /// Unmaps what is mapped of the `blocks` blocks from `bo` on, and counts it. Returns how many
    /// that are. The zone is quiet; the caller records it.
    pub(super) fn unmap(&mut self, geometry: &Geometry, bo: Bo, blocks: u32) -> u32 {
        let freed = match self.zone(geometry) {
            // Only what is in flight could keep it from being done.
            Some(mut zone) => zone.unmap(bo, blocks).unwrap_or(0),
            None => 0,
        };
        self.dirty |= freed > 0;
        self.stats.count_unmapped(freed);
        freed
    }

    /// What the first run of a write would be, if that is known.
    pub(super) fn plan(&mut self, this: This<'_>, request: &Request) -> Option<Plan> {
        let zone = self.zone(&this.params.geometry)?;
        match zone.plan(request, this.allocation()) {
            Step::Ready(plan) => Some(plan),
            Step::Wait { .. } => None,
        }
    }

    /// Starts the first run of a write, and counts it. `piece` says what a run of so many blocks is of
    /// its request. [`None`]: the write has to wait.
    #[inline]
    pub(super) fn start(
        &mut self,
        this: This<'_>,
        number: u64,
        request: &Request,
        piece: impl FnOnce(u32) -> Piece,
    ) -> Option<Plan> {
        let mut zone = self.zone(&this.params.geometry)?;
        let Step::Ready(plan) = zone.start(request, this.allocation()) else {
            return None;
        };
        if plan.first && !this.store.reserve(this) {
            zone.finish(&plan, false);
            return None;
        }
        let piece = piece(plan.blocks);
        self.stats.count_write(&plan, piece);
        this.trace.write(number, || plan, piece);
        Some(plan)
    }

    /// Ends what [`ZoneData::start`] began, and records it if it changes the mapping.
    #[inline(never)]
    pub(super) fn finish(&mut self, this: This<'_>, zone: u64, plan: &Plan, ok: bool) {
        this.trace.written(zone, || *plan, ok);
        if let Some(mut zone) = self.zone(&this.params.geometry) {
            zone.finish(plan, ok);
        }
        if plan.first {
            self.settle(this, zone, (plan.bo, plan.nbo, plan.blocks), ok);
        }
    }

    /// Where a block lies that is to be read, if it is there. Counts the read, and that it is on its
    /// way.
    #[inline(always)]
    pub(super) fn read_block(
        &mut self,
        this: This<'_>,
        zone: u64,
        bo: Bo,
        edges: u32,
    ) -> Option<Nbo> {
        let nbo = self.zone(&this.params.geometry)?.lookup(bo)?;
        self.stats.count_block_read(edges);
        this.trace.map(zone, || {
            let run = ReadRun::Mapped { nbo, blocks: 1 };
            Run::read(bo, &run, Piece::whole(edges))
        });
        self.begin_read();
        Some(nbo)
    }

    /// The short way for a write of a single block, if it is one: starts and counts it.
    #[inline(always)]
    pub(super) fn start_block(
        &mut self,
        this: This<'_>,
        number: u64,
        bo: Bo,
        edges: u32,
    ) -> Option<Placed> {
        let mut zone = self.zone(&this.params.geometry)?;
        let placed = match zone.start_update(bo) {
            Some(placed) => placed,
            None if edges == 0 => {
                let placed = zone.start_first(bo, this.allocation())?;
                if !this.store.reserve(this) {
                    self.undo(this, &placed);
                    return None;
                }
                placed
            }
            None => return None,
        };
        self.stats.count_block(&placed, edges);
        this.trace
            .write(number, || placed.plan(), Piece::whole(edges));
        Some(placed)
    }

    /// Ends what [`ZoneData::start_block`] began.
    #[inline(always)]
    pub(super) fn finish_block(&mut self, this: This<'_>, zone: u64, placed: &Placed, ok: bool) {
        if placed.first && !ok {
            this.trace.written(zone, || placed.plan(), false);
            self.undo(this, placed);
            this.store.cancel();
            return;
        }
        if let Some(mut zone) = self.zone(&this.params.geometry) {
            zone.finish_block(placed);
        }
        if placed.first {
            self.settle(this, zone, (placed.bo, placed.nbo, 1), true);
        }
    }

    /// Ends a first write that has failed.
    #[cold]
    fn undo(&mut self, this: This<'_>, placed: &Placed) {
        if let Some(mut zone) = self.zone(&this.params.geometry) {
            zone.finish(&placed.plan(), false);
        }
    }

    /// Records what a first write has mapped, or gives its room back.
    fn settle(&mut self, this: This<'_>, zone: u64, run: (Bo, Nbo, u32), ok: bool) {
        if ok {
            self.dirty = true;
            this.store.record(Change::of_map(zone, run));
        } else {
            this.store.cancel();
        }
    }

    /// Does again what a record of the journal says.
    pub(super) fn replay(&mut self, geometry: &Geometry, record: &Record) -> Result<(), Refusal> {
        self.dirty = true;
        self.zone(geometry)
            .ok_or(Refusal::BadTable)?
            .replay(record)
            .map_err(|e| e.of_record())
    }
}
