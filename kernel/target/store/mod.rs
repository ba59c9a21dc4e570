// SPDX-License-Identifier: GPL-2.0-only

//! The durable side of the mapping: what the format in [`ondisk`] is written and read by.
//!
//! * [`journal`]: changes of the mapping that are not durable yet, and who waits for them;
//! * [`keeper`]: the superblock and the buffers, used by one at a time;
//! * [`commit`]: the journal, written;
//! * [`checkpoint`]: tables, written, so that the journal can be given up;
//! * [`open`]: all of it, read on resume and closed on suspend.
//!
//! A first write that has succeeded adds a record ([`Store::record`]). A flush, or a write that is to
//! be durable, waits ([`Store::wait_for_commit`]) until the records there are then are in the journal
//! on the device; the instance's thread writes them, at the latest after [`COMMIT_INTERVAL`].
//!
//! If metadata cannot be written the store has *failed*: writes and flushes end with an error, reads
//! go on, and what is durable stays as it is. Only a new table, or a suspend and resume, recovers.
//!
//! [`ondisk`]: crate::imr::ondisk

mod checkpoint;
mod commit;
pub(super) mod journal;
mod keeper;
mod open;
mod zone_io;

use super::{write::PerBio, zones::Zones, Imrsim, This};
use crate::{
    dm::{
        new_spinlock_irq, without_io, BioQueue, Deferred, Device, SpinLockIrq, Status,
        ThreadContext,
    },
    imr::{
        ondisk::{SlotMapMut, Superblock},
        Bo, Condition, Layout, Settings,
    },
};
use core::ops::Range;
use journal::{Change, Journal};
use keeper::Keeper;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Mutex,
    }, //
};

/// How long a change of the mapping may wait to be written if nobody asks, in milliseconds.
const COMMIT_INTERVAL: u32 = 1000;

/// What the store lets happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// The device is suspended, or its metadata was not loaded.
    Closed,
    /// All is well.
    Writable,
    /// The table is read-only; nothing is written.
    ReadOnly,
    /// Metadata could not be written.
    Failed,
}

/// The durable side of a drive.
#[pin_data]
pub(super) struct Store {
    mode: Atomic<u32>,
    #[pin]
    journal: SpinLockIrq<Journal>,
    #[pin]
    keeper: Mutex<Option<Keeper>>,
    /// The newest superblock, for those who load a zone while the keeper is busy.
    #[pin]
    superblock: SpinLockIrq<Option<Superblock>>,
    /// Where the journal ended when the drive was opened. A zone that was not loaded since has nothing behind it.
    found: Atomic<u64>,
}

impl Store {
    /// A store that is closed.
    pub(super) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            mode: Atomic::new(0),
            journal <- {
                let journal = Journal::new()?;
                new_spinlock_irq!(journal, "imrsim journal")
            },
            keeper <- new_mutex!(None, "imrsim keeper"),
            superblock <- new_spinlock_irq!(None, "imrsim superblock"),
            found: Atomic::new(0),
        })
    }

    /// What may happen now.
    pub(super) fn mode(&self) -> Mode {
        match self.mode.load(Relaxed) {
            1 => Mode::Writable,
            2 => Mode::ReadOnly,
            3 => Mode::Failed,
            _ => Mode::Closed,
        }
    }

    /// Whether writes may go on.
    pub(super) fn is_writable(&self) -> bool {
        self.mode() == Mode::Writable
    }

    fn set_mode(&self, mode: Mode) {
        let raw = match mode {
            Mode::Closed => 0,
            Mode::Writable => 1,
            Mode::ReadOnly => 2,
            Mode::Failed => 3,
        };
        self.mode.store(raw, Relaxed);
    }

    /// Metadata could not be written, or contradicts itself. Says so, once.
    pub(super) fn fail(&self, what: &str) {
        if self.mode() != Mode::Failed {
            self.set_mode(Mode::Failed);
            pr_err!("{what}: writes fail from now on; what was durable stays so. Reload the table when the cause is gone\n");
        }
    }

    /// Makes room for the record of a first write that is about to start. If there is none, the
    /// write waits until a commit has made some.
    #[inline]
    pub(super) fn reserve(&self, this: This<'_>) -> bool {
        let room = self.journal.lock().reserve();
        if !room {
            this.wake_thread();
        }
        room
    }

    /// Gives back the room of a first write that failed.
    pub(super) fn cancel(&self) {
        self.journal.lock().cancel();
    }

    /// Records a first write that has succeeded, in the room that was reserved for it. Called under
    /// the zone's lock, so that the records of a zone are in the order of its changes.
    pub(super) fn record(&self, change: Change) {
        self.journal.lock().add(change);
    }

    /// Records that blocks were unmapped, in the room that was reserved for it. Called under the
    /// zone's lock.
    pub(super) fn record_unmap(&self, zone: u64, bo: Bo, blocks: u32) {
        self.journal.lock().add(Change::of_unmap(zone, bo, blocks));
    }

    /// Whether every change of the mapping is durable.
    pub(super) fn is_clean(&self) -> bool {
        self.journal.lock().is_clean()
    }

    /// Ends the bio when every change that there is now is durable; a discard goes on then.
    pub(super) fn wait_for_commit(&self, this: This<'_>, bio: Deferred<Imrsim>) {
        self.journal.lock().waiting.push(bio);
        this.wake_thread();
    }

    /// The number of the next change.
    fn changes(&self) -> u64 {
        self.journal.lock().added()
    }

    /// Starts over with no changes, for metadata that was just loaded, with a journal that ends at `head`.
    fn reset(&self, superblock: Superblock, head: u64) {
        self.found.store(head, Relaxed);
        self.journal.lock().reset();
        *self.superblock.lock() = Some(superblock);
    }

    fn take_waiting(&self) -> BioQueue<Imrsim> {
        core::mem::take(&mut self.journal.lock().waiting)
    }
}

/// What the parts of the store need of the instance.
#[derive(Clone, Copy)]
struct Context<'a> {
    this: This<'a>,
    device: &'a Device,
}

impl<'a> Context<'a> {
    fn of(this: This<'a>) -> Option<Self> {
        Some(Context {
            this,
            device: this.device(this.device)?,
        })
    }

    fn store(&self) -> &'a Store {
        &self.this.get().store
    }

    fn zones(&self) -> &'a Zones {
        &self.this.get().zones
    }

    fn layout(&self) -> &'a Layout {
        &self.this.get().layout
    }

    /// A sector of the layout on the device.
    fn sector(&self, sector: u64) -> u64 {
        self.this.params.start.wrapping_add(sector)
    }
}

/// The body of the instance's thread: commits when asked or when it is time, and checkpoints before
/// the journal is full.
pub(super) fn thread(this: This<'_>, cx: &mut ThreadContext<'_>) {
    let Some(context) = Context::of(this) else {
        return;
    };
    while cx.wait(COMMIT_INTERVAL) {
        let mut guard = context.store().keeper.lock();
        let Some(keeper) = &mut *guard else {
            continue;
        };
        // If it fails, the store has failed.
        let _ = keeper.serve(context);
    }
}

/// Lets a process work with the keeper, which must be there.
fn with_keeper<R>(
    this: This<'_>,
    f: impl FnOnce(Context<'_>, &mut Keeper) -> Result<R>,
) -> Result<R> {
    let cx = Context::of(this).ok_or(ENODEV)?;
    // As for the thread: memory must not wait for I/O to the device.
    without_io(|| match &mut *cx.store().keeper.lock() {
        Some(keeper) => f(cx, keeper),
        None => Err(EAGAIN),
    })
}

/// Makes every change that there is now durable.
pub(super) fn commit(this: This<'_>) -> Result {
    with_keeper(this, |cx, keeper| {
        keeper.serve(cx).map_err(|status| status.to_error())
    })
}

/// Changes the settings, and makes that durable. If that fails, so has the store, and they stay as they are
/// until the device is resumed.
pub(super) fn set_settings(
    this: This<'_>,
    change: impl FnOnce(Settings) -> Result<Settings>,
) -> Result {
    with_keeper(this, |cx, keeper| {
        let old = this.settings();
        this.use_settings(&change(old)?);
        keeper.serve(cx).map_err(|status| {
            this.use_settings(&old);
            status.to_error()
        })
    })
}

/// Some zones, and the condition that they are to have.
pub(super) struct ConditionChange {
    /// The zones.
    pub(super) zones: Range<u64>,
    /// Their new condition.
    pub(super) condition: Condition,
}

/// Changes the conditions of zones, and makes that durable: they are in the superblock.
pub(super) fn set_condition(this: This<'_>, change: &ConditionChange) -> Result {
    with_keeper(this, |cx, keeper| {
        for zone in change.zones.clone() {
            SlotMapMut::new(&mut keeper.map).set_condition(zone, change.condition);
        }
        let Superblock { tail, settings, .. } = keeper.superblock;
        let superblock = keeper.superblock.checkpoint(tail, keeper.head, settings);
        if let Err(status) = keeper.write_superblock(cx, superblock, 0) {
            keeper.give_up(cx, "cannot write the superblock", status);
            return Err(status.to_error());
        }
        for zone in change.zones.clone() {
            if let Some(mut slot) = cx.zones().lock(zone) {
                slot.gate.set_condition(change.condition);
            }
        }
        Ok(())
    })
}

/// A commit is over: ends all bios that waited for it, but has discards run, which look for
/// themselves how it went.
fn end_all(this: This<'_>, mut bios: BioQueue<Imrsim>, status: Status) {
    while let Some(mut bio) = bios.pop() {
        match bio.per_bio() {
            PerBio::Discard(_) => bio.schedule(&this.workqueue),
            _ => bio.end(status),
        }
    }
}

pub(super) use open::{close, open};
pub(super) use zone_io::load;
