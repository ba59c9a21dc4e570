// SPDX-License-Identifier: GPL-2.0-only

//! The map path: what happens to a bio when it arrives.

use super::{
    execute,
    store::Mode,
    write::{Discard, DiscardStage, PerBio, Range, Stage, Write, Writing},
    zones::{must_queue, Slot},
    Imrsim, This,
};
use crate::{
    dm::{Context, Device, MapBio, Mapped, SpinLockIrqGuard, Status},
    imr::{Bo, Cause, Nbo, Plan, ReadRun, BLOCK_SECTORS},
};

/// Sectors from the start of a zone to a sector `within` the block `nbo`.
pub(super) fn sector_of(nbo: Nbo, within: u32) -> u64 {
    u64::from(nbo.0) * u64::from(BLOCK_SECTORS) + u64::from(within)
}

/// How far a sector of the device lies inside its block.
#[inline(always)]
fn sector_in_block(sector: u64) -> u32 {
    // The remainder is below 8.
    u32::try_from(sector % u64::from(BLOCK_SECTORS)).unwrap_or(0)
}

/// Sends a flush down, or has it wait until all changes of the mapping are durable.
#[cold]
pub(super) fn flush<'a>(this: This<'_>, device: &'a Device, mut bio: MapBio<'a, Imrsim>) -> Mapped {
    *bio.per_bio() = PerBio::Flush;
    match this.store.mode() {
        Mode::Writable if !this.store.is_clean() => {
            let (bio, mapped) = bio.defer();
            this.store.wait_for_commit(this, bio);
            mapped
        }
        Mode::Writable => bio.remap(device, this.params.start),
        Mode::Closed | Mode::ReadOnly | Mode::Failed => bio.end(Status::IO_ERROR),
    }
}

/// What of a bio lies in its first zone. The bio is to be cut to that, at least; a request counts once
/// in each zone, so that the rest is not its continuation.
///
/// Device-mapper could cut at zones itself (`max_io_len`), but then it cuts at the queue's limit, too,
/// which need not be a whole number of blocks.
fn first_part(this: This<'_>, bio: &MapBio<'_, Imrsim>) -> Range {
    let geometry = &this.params.geometry;
    let (zone, sector) = geometry.split_sector(bio.sector());
    let left = geometry.zone_sectors().saturating_sub(u64::from(sector));
    Range {
        zone,
        sector,
        sectors: u32::try_from(left).map_or(0, |left| left.min(bio.sectors())),
        crosses: left < u64::from(bio.sectors()),
    }
}

/// Where a bio lies that touches a single block.
struct Single {
    zone: u64,
    bo: Bo,
    /// Sectors of the block before it.
    within: u32,
    /// How many of its ends lie inside the block: none if it is the whole block.
    edges: u32,
}

impl Single {
    #[inline(always)]
    fn of(this: This<'_>, bio: &MapBio<'_, Imrsim>) -> Option<Self> {
        let (sector, sectors) = (bio.sector(), bio.sectors());
        let within = sector_in_block(sector);
        if sectors > BLOCK_SECTORS - within {
            return None;
        }
        let (zone, bo) = this
            .params
            .geometry
            .split(sector / u64::from(BLOCK_SECTORS));
        Some(Single {
            zone,
            bo: Bo(bo),
            within,
            edges: match sectors {
                BLOCK_SECTORS => 0,
                _ => u32::from(within != 0) + u32::from(within + sectors != BLOCK_SECTORS),
            },
        })
    }

    /// Where it lies on the backing device, in sectors.
    #[inline(always)]
    fn target(&self, this: This<'_>, nbo: Nbo) -> u64 {
        this.backing_sector(self.zone, sector_of(nbo, self.within))
    }
}

/// The short way for most reads: of a block that there is, in a zone that is not stopped.
#[inline(always)]
fn read_block(this: This<'_>, bio: &mut MapBio<'_, Imrsim>) -> Option<u64> {
    let single = Single::of(this, bio)?;
    let mut slot = this.zones.lock(single.zone)?;
    if slot.gate.holds_reads() {
        return None;
    }
    let nbo = slot
        .data
        .as_mut()?
        .read_block(this, single.zone, single.bo, single.edges)?;
    drop(slot);
    *bio.per_bio() = PerBio::Reading(single.zone);
    Some(single.target(this, nbo))
}

/// The short way for most writes: to a block that there is, or all of a new one, with nothing to
/// rewrite and nothing in its way.
#[inline(always)]
fn write_block(this: This<'_>, bio: &mut MapBio<'_, Imrsim>) -> Option<u64> {
    let single = Single::of(this, bio).filter(|_| !bio.is_fua() && this.store.is_writable())?;
    let mut slot = this.zones.lock(single.zone)?;
    if slot.gate.holds_writes() || !slot.waiting.is_empty() {
        return None;
    }
    let placed = slot
        .data
        .as_mut()?
        .start_block(this, single.zone, single.bo, single.edges)?;
    drop(slot);
    *bio.per_bio() = PerBio::WritingBlock(single.zone, placed);
    Some(single.target(this, placed.nbo))
}

/// Remaps a read to where its first blocks lie, or fills it with zeros.
#[inline(always)]
pub(super) fn read<'a>(this: This<'_>, device: &'a Device, mut bio: MapBio<'a, Imrsim>) -> Mapped {
    match read_block(this, &mut bio) {
        Some(sector) => bio.remap(device, sector),
        None => read_run(this, device, bio),
    }
}

/// Remaps a write that is only a write; defers any other.
#[inline(always)]
pub(super) fn write<'a>(this: This<'_>, device: &'a Device, mut bio: MapBio<'a, Imrsim>) -> Mapped {
    match write_block(this, &mut bio) {
        Some(sector) => bio.remap(device, sector),
        None => write_run(this, device, bio),
    }
}

// Cold, so that the registers that it needs are saved in it and not on the short way.
#[cold]
fn read_run<'a>(this: This<'_>, device: &'a Device, mut bio: MapBio<'a, Imrsim>) -> Mapped {
    let range = first_part(this, &bio);
    let (zone, sector) = (range.zone, range.sector);
    let Some(mut slot) = this.zones.lock(zone) else {
        return bio.end(Status::IO_ERROR);
    };
    if let Some(cause) = slot.gate.refuses_reads() {
        drop(slot);
        return refuse(bio, zone, cause);
    }
    if slot.needs_loading() {
        bio.accept_partial(range.sectors);
        *bio.per_bio() = PerBio::Read(Write::new(range));
        return load_first(this, slot, bio);
    }
    if slot.gate.is_stopped() {
        bio.accept_partial(range.sectors);
        *bio.per_bio() = PerBio::Read(Write::new(range));
        let (bio, mapped) = bio.defer();
        slot.waiting.push(bio);
        return mapped;
    }
    let run = slot.read(this, zone, &range.request(), |blocks| {
        range.piece(blocks, false)
    });
    if let (ReadRun::Mapped { .. }, Some(data)) = (run, &mut slot.data) {
        data.begin_read();
        *bio.per_bio() = PerBio::Reading(zone);
    }
    drop(slot);
    match run {
        ReadRun::Mapped { nbo, blocks } => {
            bio.accept_partial(range.sectors_in(blocks));
            let target = sector_of(nbo, sector % BLOCK_SECTORS);
            bio.remap(device, this.backing_sector(zone, target))
        }
        ReadRun::Zeros { blocks } => {
            bio.accept_partial(range.sectors_in(blocks));
            bio.end_with_zeros()
        }
    }
}

/// Defers a bio to a zone that has no data in memory. The first such bio runs, and loads or
/// allocates it; the others wait for that.
#[cold]
fn load_first(
    this: This<'_>,
    mut slot: SpinLockIrqGuard<'_, Slot>,
    bio: MapBio<'_, Imrsim>,
) -> Mapped {
    let (bio, mapped) = bio.defer();
    if core::mem::replace(&mut slot.allocating, true) {
        slot.waiting.push(bio);
    } else {
        drop(slot);
        bio.schedule(&this.workqueue);
    }
    mapped
}

/// Ends a request that its zone refuses.
#[cold]
fn refuse(mut bio: MapBio<'_, Imrsim>, zone: u64, cause: Cause) -> Mapped {
    *bio.per_bio() = PerBio::Refused(zone, cause);
    bio.end(Status::IO_ERROR)
}

/// Defers a discard.
#[cold]
pub(super) fn discard(this: This<'_>, mut bio: MapBio<'_, Imrsim>) -> Mapped {
    if !this.store.is_writable() {
        return bio.end(Status::IO_ERROR);
    }
    *bio.per_bio() = PerBio::Discard(Discard {
        sector: bio.sector(),
        sectors: u64::from(bio.sectors()),
        stage: DiscardStage::New,
        counted: false,
    });
    let (bio, mapped) = bio.defer();
    bio.schedule(&this.workqueue);
    mapped
}

/// Whether there is nothing to do for this plan but to write the data.
fn is_plain(this: This<'_>, plan: &Plan, fua: bool) -> bool {
    !plan.pad && !plan.is_rmw() && !(fua && (plan.first || !this.store.is_clean()))
}

// Cold as above.
#[cold]
fn write_run<'a>(this: This<'_>, device: &'a Device, mut bio: MapBio<'a, Imrsim>) -> Mapped {
    if !this.store.is_writable() {
        return bio.end(Status::IO_ERROR);
    }
    let range = first_part(this, &bio);
    let Some(mut guard) = this.zones.lock(range.zone) else {
        return bio.end(Status::IO_ERROR);
    };
    if let Some(cause) = guard.gate.refuses_writes() {
        drop(guard);
        return refuse(bio, range.zone, cause);
    }
    let slot = &mut *guard;
    let Some(data) = &mut slot.data else {
        bio.accept_partial(range.sectors);
        *bio.per_bio() = PerBio::Write(Write::new(range));
        return load_first(this, guard, bio);
    };
    let request = range.request();
    let queued = slot.gate.is_stopped()
        || !slot.waiting.is_empty() && {
            let claim = range.claim(data.plan(this, &request).as_ref());
            must_queue(&slot.waiting, &claim)
        };
    let started = match queued {
        true => None,
        false => data.start(this, range.zone, &request, |blocks| {
            range.piece(blocks, false)
        }),
    };
    let Some(plan) = started else {
        return wait(this, guard, bio, range);
    };
    drop(guard);

    bio.accept_partial(range.sectors_in(plan.blocks));
    if is_plain(this, &plan, bio.is_fua()) {
        *bio.per_bio() = PerBio::Writing(Writing::new(range.zone, &plan));
        let target = sector_of(plan.nbo, range.sector % BLOCK_SECTORS);
        return bio.remap(device, this.backing_sector(range.zone, target));
    }
    let mut write = Write::new(range);
    write.cut(plan.blocks);
    write.stage = Stage::Planned;
    write.plan = Some(plan);
    *bio.per_bio() = PerBio::Write(write);
    let (bio, mapped) = bio.defer();
    execute::run(this, device, bio, Context::Submitter);
    mapped
}

/// Has the first run of a write wait in its zone.
#[cold]
fn wait(
    this: This<'_>,
    mut slot: SpinLockIrqGuard<'_, Slot>,
    mut bio: MapBio<'_, Imrsim>,
    range: Range,
) -> Mapped {
    let mut write = Write::new(range);
    let plan = match &mut slot.data {
        Some(data) => data.plan(this, &range.request()),
        None => None,
    };
    bio.accept_partial(write.cut(plan.map_or(1, |plan| plan.blocks)));
    write.claim = write.range.claim(plan.as_ref());
    *bio.per_bio() = PerBio::Write(write);
    let (bio, mapped) = bio.defer();
    if this.store.is_writable() {
        slot.waiting.push(bio);
    } else {
        // Nobody would wake it any more; it runs, and ends.
        bio.schedule(&this.workqueue);
    }
    mapped
}
