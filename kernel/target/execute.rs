// SPDX-License-Identifier: GPL-2.0-only

//! Carries out the plans of deferred writes: a state machine per bio, driven by the completion of
//! its own I/O, so that any number of them run in parallel and no thread waits for a disk. A step is
//! taken where the last one ended, if that may be, and else on the workqueue.
//!
//! ```text
//!   Waiting -> Planned -> Reading -> Writing -> WritingBack -> done, or the next run
//!                 '----------------> Writing ---------------^   (nothing to read and write back)
//! ```

use super::{
    discard,
    map::sector_of,
    store,
    write::{PerBio, Stage, Write, Writing},
    zones::{Slot, ZoneData},
    Imrsim, This,
};
use crate::{
    dm::{Context, Deferred, Device, Fan, Joined, SpinLockIrqGuard, Status},
    imr::{Placed, Plan, ReadRun, BLOCK_SECTORS},
};
use kernel::sync::atomic::Relaxed;

/// Goes on with a deferred bio as far as that is possible without waiting.
pub(super) fn run(this: This<'_>, device: &Device, bio: Deferred<Imrsim>, context: Context) {
    let mut next = Some(bio);
    while let Some(mut bio) = next {
        if !may_step(&mut bio, context) {
            return bio.schedule(&this.workqueue);
        }
        next = step(this, device, bio, context);
    }
}

/// Whether the next step can be taken in this context. One that may load a table may sleep.
fn may_step(bio: &mut Deferred<Imrsim>, context: Context) -> bool {
    let status = bio.io_status();
    let PerBio::Write(Write {
        plan: Some(plan),
        stage,
        ..
    }) = bio.per_bio()
    else {
        return context == Context::Worker;
    };
    match context {
        Context::Worker | Context::Submitter => true,
        Context::Any => is_last(plan, *stage, status),
    }
}

/// Whether all I/O for a plan is done when this stage has ended.
fn is_last(plan: &Plan, stage: Stage, status: Status) -> bool {
    match stage {
        Stage::Waiting | Stage::Planned => false,
        Stage::Reading => !status.is_ok(),
        Stage::Writing => !(status.is_ok() && plan.is_rmw()),
        Stage::WritingBack => true,
    }
}

/// Takes one step. [`None`]: the bio waits for something, or has ended.
fn step(
    this: This<'_>,
    device: &Device,
    mut bio: Deferred<Imrsim>,
    context: Context,
) -> Option<Deferred<Imrsim>> {
    let status = bio.io_status();
    let write = match bio.per_bio() {
        PerBio::Write(write) => write,
        PerBio::Read(_) => return read(this, device, bio),
        PerBio::Discard(_) => return discard::step(this, device, bio),
        _ => {
            bio.end(Status::IO_ERROR);
            return None;
        }
    };
    let Some(plan) = write.plan else {
        load_zone(this, device, bio);
        return None;
    };
    let stage = write.stage;
    if is_last(&plan, stage, status) {
        finish(this, bio, &plan, status);
        return None;
    }
    if let Some(nanoseconds) = due_delay(this, write, &plan) {
        this.delay(bio, nanoseconds);
        return None;
    }
    let joined = match stage {
        Stage::Waiting | Stage::Planned => {
            let pages = plan.extra_writes() + u32::from(plan.pad);
            let bio = this.reserve.take(bio, pages as usize)?;
            if plan.is_rmw() {
                read_neighbours(this, device, bio, &plan, context)?
            } else {
                write_data(this, device, bio, &plan, context)?
            }
        }
        Stage::Reading => write_data(this, device, bio, &plan, context)?,
        Stage::Writing | Stage::WritingBack => write_back(this, device, bio, &plan, context)?,
    };
    match joined {
        Joined::Done(bio) => Some(bio),
        Joined::UnderWay => None,
        Joined::NoMemory(mut bio) => {
            enter(&mut bio, stage)?;
            bio.schedule(&this.workqueue);
            None
        }
    }
}

/// How long a rewrite has to wait before it goes on, if it has not waited yet: before the top blocks
/// are read, and before they are written back.
fn due_delay(this: This<'_>, write: &mut Write, plan: &Plan) -> Option<u64> {
    if !plan.is_rmw() {
        return None;
    }
    write.rewrote = true;
    let microseconds = match write.stage {
        Stage::Waiting | Stage::Planned => &this.live.rmw_read_delay,
        Stage::Writing => &this.live.write_back_delay,
        Stage::Reading | Stage::WritingBack => return None,
    }
    .load(Relaxed);
    let done = write.delayed_in.replace(write.stage) == Some(write.stage);
    (microseconds != 0 && !done).then(|| u64::from(microseconds) * 1000)
}

/// Enters a stage.
fn enter(bio: &mut Deferred<Imrsim>, stage: Stage) -> Option<&mut Write> {
    match bio.per_bio() {
        PerBio::Write(write) => {
            write.stage = stage;
            Some(write)
        }
        _ => None,
    }
}

/// Reads the top blocks that the write would damage into the bio's pages: behind the first if that
/// is for the data.
fn read_neighbours(
    this: This<'_>,
    device: &Device,
    mut bio: Deferred<Imrsim>,
    plan: &Plan,
    context: Context,
) -> Option<Joined<Imrsim>> {
    let zone = enter(&mut bio, Stage::Reading)?.range.zone;
    let mut fan = Fan::new(bio, &this.bios, device, context);
    fan.skip(u32::from(plan.pad));
    for (nbo, blocks) in plan.runs() {
        fan.read(this.backing_sector(zone, sector_of(nbo, 0)), blocks);
    }
    Some(fan.join())
}

/// Writes the host's data. The first write of part of a block writes all of it, with zeros around.
fn write_data(
    this: This<'_>,
    device: &Device,
    mut bio: Deferred<Imrsim>,
    plan: &Plan,
    context: Context,
) -> Option<Joined<Imrsim>> {
    let write = enter(&mut bio, Stage::Writing)?;
    let zone = write.range.zone;
    let within = write.range.sector % BLOCK_SECTORS;
    let (done, sectors) = (write.done, write.range.sectors_in(plan.blocks));
    if plan.pad {
        bio.pad_into_first_page(done, sectors, within);
    }
    let mut fan = Fan::new(bio, &this.bios, device, context);
    if plan.pad {
        fan.write(this.backing_sector(zone, sector_of(plan.nbo, 0)), 1);
    } else {
        let target = this.backing_sector(zone, sector_of(plan.nbo, within));
        fan.transfer_data(target, done, sectors);
    }
    Some(fan.join())
}

/// Writes the top blocks back.
fn write_back(
    this: This<'_>,
    device: &Device,
    mut bio: Deferred<Imrsim>,
    plan: &Plan,
    context: Context,
) -> Option<Joined<Imrsim>> {
    let zone = enter(&mut bio, Stage::WritingBack)?.range.zone;
    let mut fan = Fan::new(bio, &this.bios, device, context);
    fan.skip(u32::from(plan.pad));
    for (nbo, blocks) in plan.runs() {
        fan.write(this.backing_sector(zone, sector_of(nbo, 0)), blocks);
    }
    Some(fan.join())
}

/// Gives the zone its memory, from the device if it has a table there, and starts what waits for it.
pub(super) fn load_zone(this: This<'_>, device: &Device, mut bio: Deferred<Imrsim>) {
    let (zone, is_write) = match bio.per_bio() {
        PerBio::Write(write) => (write.range.zone, true),
        PerBio::Read(read) => (read.range.zone, false),
        PerBio::Discard(discard) => (this.params.geometry.zone_of_sector(discard.sector), true),
        _ => {
            return bio.end(Status::IO_ERROR);
        }
    };
    let Some(slot) = this.zones.lock(zone) else {
        return bio.end(Status::IO_ERROR);
    };
    if is_write && !this.store.is_writable() {
        // A write that waited when the store failed, or that came too late to be told.
        return fail_waiting(this, slot, bio, Status::IO_ERROR);
    }
    let data = fetch(this, device, zone, slot);
    let Some(mut slot) = this.zones.lock(zone) else {
        return bio.end(Status::IO_ERROR);
    };
    match data {
        Ok(data) => {
            slot.waiting.push_front(bio);
            install(this, slot, data);
        }
        Err(status) => fail_waiting(this, slot, bio, status),
    }
}

/// The same for somebody without a bio, who has just set `allocating`.
pub(super) fn load_zone_now(this: This<'_>, device: &Device, zone: u64) -> Result<(), Status> {
    let data = match this.zones.lock(zone) {
        // The device was suspended in the meantime, and everything forgotten.
        Some(slot) if !slot.needs_loading() => return Ok(()),
        Some(slot) => fetch(this, device, zone, slot),
        None => Err(Status::IO_ERROR),
    };
    let slot = this.zones.lock(zone).ok_or(Status::IO_ERROR)?;
    match data {
        Ok(data) => {
            install(this, slot, data);
            Ok(())
        }
        Err(status) => {
            next_loads(this, slot);
            Err(status)
        }
    }
}

/// Allocates a zone's memory, and loads its table if it has one on the device.
fn fetch(
    this: This<'_>,
    device: &Device,
    zone: u64,
    mut slot: SpinLockIrqGuard<'_, Slot>,
) -> Result<ZoneData, Status> {
    slot.allocating = true;
    let counts = slot.counts;
    drop(slot);
    match counts {
        Some(counts) => store::load(this, device, zone, u64::from(counts)),
        None => ZoneData::new(&this.params.geometry).map_err(|_| Status::RESOURCE),
    }
}

/// Gives a zone what was fetched for it, and starts what waits for that.
fn install(this: This<'_>, mut slot: SpinLockIrqGuard<'_, Slot>, mut data: ZoneData) {
    // What the journal says of the counters is newer than what the slot says.
    if let Some(summary) = slot.summary.take() {
        data.stats = summary.stats;
    }
    slot.allocating = false;
    // Should somebody have been faster, ours is freed without the lock.
    let unused = match &slot.data {
        Some(_) => Some(data),
        None => slot.data.replace(data),
    };
    let mut ready = slot.wake(this);
    drop(slot);
    drop(unused);
    ready.schedule_all(&this.workqueue);
}

/// Ends a bio with an error. If it was to load its zone, the next in line tries.
fn fail_waiting(
    this: This<'_>,
    slot: SpinLockIrqGuard<'_, Slot>,
    bio: Deferred<Imrsim>,
    status: Status,
) {
    next_loads(this, slot);
    bio.end(status);
}

/// Whoever was to load a zone has failed: the next in line tries.
fn next_loads(this: This<'_>, mut slot: SpinLockIrqGuard<'_, Slot>) {
    let next = if slot.data.is_none() && slot.allocating {
        let next = slot.waiting.pop();
        slot.allocating = next.is_some();
        next
    } else {
        None
    };
    drop(slot);
    if let Some(next) = next {
        next.schedule(&this.workqueue);
    }
}

/// Reads what was deferred until its zone was loaded, run by run.
fn read(this: This<'_>, device: &Device, mut bio: Deferred<Imrsim>) -> Option<Deferred<Imrsim>> {
    let status = bio.io_status();
    let PerBio::Read(read) = bio.per_bio() else {
        bio.end(Status::IO_ERROR);
        return None;
    };
    let zone = read.range.zone;
    if core::mem::take(&mut read.counted) {
        remapped_read_completed(this, zone);
    }
    if !status.is_ok() || read.range.sectors == 0 {
        bio.end(status);
        return None;
    }
    let within = read.range.sector % BLOCK_SECTORS;
    let Some(mut slot) = this.zones.lock(zone) else {
        bio.end(Status::IO_ERROR);
        return None;
    };
    if slot.needs_loading() {
        drop(slot);
        load_zone(this, device, bio);
        return None;
    }
    if slot.gate.is_stopped() {
        slot.waiting.push(bio);
        return None;
    }
    let run = slot.read(this, zone, &read.range.request(), |blocks| {
        read.piece(blocks)
    });
    if let (ReadRun::Mapped { .. }, Some(data)) = (run, &mut slot.data) {
        data.begin_read();
        read.counted = true;
    }
    drop(slot);
    let (ReadRun::Mapped { blocks, .. } | ReadRun::Zeros { blocks }) = run;
    let (done, sectors) = (read.done, read.range.sectors_in(blocks));
    read.advance(blocks);
    match run {
        ReadRun::Mapped { nbo, .. } => {
            let mut fan = Fan::new(bio, &this.bios, device, Context::Worker);
            let source = this.backing_sector(zone, sector_of(nbo, within));
            fan.transfer_data(source, done, sectors);
            match fan.join() {
                Joined::Done(bio) | Joined::NoMemory(bio) => Some(bio),
                Joined::UnderWay => None,
            }
        }
        ReadRun::Zeros { .. } => {
            bio.zero_data(done, sectors);
            Some(bio)
        }
    }
}

/// A run is done. Lets go of its blocks, goes on with the next run or ends the bio, and starts what
/// was waiting for it.
fn finish(this: This<'_>, mut bio: Deferred<Imrsim>, plan: &Plan, status: Status) {
    this.reserve.give_back(&mut bio, &this.workqueue);
    let PerBio::Write(write) = bio.per_bio() else {
        return bio.end(Status::IO_ERROR);
    };
    write.plan = None;
    let zone = write.range.zone;
    let more = status.is_ok() && write.advance(plan.blocks);
    if more {
        write.stage = Stage::Waiting;
        write.claim = write.range.claim(None);
    }
    let Some(mut slot) = this.zones.lock(zone) else {
        return bio.end(Status::IO_ERROR);
    };
    if let Some(data) = &mut slot.data {
        data.finish(this, zone, plan, status.is_ok());
    }
    let ended = if more {
        slot.waiting.push_front(bio);
        None
    } else {
        Some(bio)
    };
    wake(this, slot);
    if let Some(bio) = ended {
        if status.is_ok() && bio.is_fua() && !this.store.is_clean() {
            this.store.wait_for_commit(this, bio);
        } else {
            bio.end(status);
        }
    }
}

/// A read that found data has completed. Runs in any context.
pub(super) fn remapped_read_completed(this: This<'_>, zone: u64) {
    let Some(mut slot) = this.zones.lock(zone) else {
        return;
    };
    if let Some(data) = &mut slot.data {
        data.end_read();
    }
    if !slot.gate.is_stopped() {
        return;
    }
    let mut ready = slot.wake(this);
    drop(slot);
    ready.schedule_all(&this.workqueue);
}

/// A write of a single block that the map path sent down has completed. Runs in any context.
#[inline(always)]
pub(super) fn block_written(this: This<'_>, zone: u64, placed: &Placed, status: Status) {
    let Some(mut slot) = this.zones.lock(zone) else {
        return;
    };
    if let Some(data) = &mut slot.data {
        data.finish_block(this, zone, placed, status.is_ok());
    }
    wake(this, slot);
}

/// Another write that the map path sent down has completed. Runs in any context.
#[inline(never)]
pub(super) fn run_written(this: This<'_>, writing: &Writing, status: Status) {
    let Some(mut slot) = this.zones.lock(writing.zone) else {
        return;
    };
    if let Some(data) = &mut slot.data {
        data.finish(this, writing.zone, &writing.plan(), status.is_ok());
    }
    wake(this, slot);
}

/// Starts what waited for something in the zone that has finished.
#[inline(always)]
fn wake(this: This<'_>, slot: SpinLockIrqGuard<'_, Slot>) {
    if !slot.waiting.is_empty() {
        wake_waiting(this, slot);
    }
}

#[cold]
fn wake_waiting(this: This<'_>, mut slot: SpinLockIrqGuard<'_, Slot>) {
    let mut ready = slot.wake(this);
    drop(slot);
    ready.schedule_all(&this.workqueue);
}
