// SPDX-License-Identifier: GPL-2.0-only

//! Bios that wait for a time to pass.

use super::{
    bio::{BioQueue, Deferred},
    compat::{new_spinlock_irq, SpinLockIrq},
    hooks::now,
    target::{Instance, Target, TargetRef},
};
use crate::bindings;
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// The delayed bios of an instance, and one timer for the first of them.
///
/// # Invariants
///
/// `timer` is pinned and initialised, with [`expired`] as its function. If bios wait, it was started
/// for the earliest moment that one of them waits for, or its function is about to look.
#[pin_data(PinnedDrop)]
pub(super) struct DelayLine<T: Target> {
    #[pin]
    timer: Opaque<bindings::imrsim_timer>,
    #[pin]
    waiting: SpinLockIrq<Waiting<T>>,
}

struct Waiting<T: Target> {
    bios: BioQueue<T>,
    /// For when the timer was started; `u64::MAX` if nobody waits.
    next: u64,
}

// SAFETY: The timer may be used and cancelled from any thread; the rest is a lock around bios.
unsafe impl<T: Target> Send for DelayLine<T> {}
// SAFETY: The timer is started under the lock only.
unsafe impl<T: Target> Sync for DelayLine<T> {}

impl<T: Target> DelayLine<T> {
    /// Nobody waits.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: Initialised here.
            timer <- Opaque::ffi_init(|slot: *mut bindings::imrsim_timer| {
                // SAFETY: The slot is pinned, and cancelled before it goes away.
                unsafe { bindings::imrsim_timer_init(slot, Some(expired::<T>)) };
            }),
            waiting <- new_spinlock_irq!(
                Waiting { bios: BioQueue::new(), next: u64::MAX },
                "dm delay"
            ),
        })
    }

    /// Has a bio run on the workqueue when some nanoseconds have passed.
    ///
    /// # Safety
    ///
    /// `instance` must be the instance that this belongs to.
    pub(super) unsafe fn delay(
        &self,
        instance: *const Instance<T>,
        mut bio: Deferred<T>,
        nanoseconds: u64,
    ) {
        let due = now().saturating_add(nanoseconds);
        bio.set_due(due);
        let mut waiting = self.waiting.lock();
        waiting.bios.push(bio);
        if due < waiting.next {
            waiting.next = due;
            self.start(due, instance);
        }
    }

    /// Called under the lock.
    fn start(&self, at: u64, instance: *const Instance<T>) {
        // SAFETY: Initialised by the type invariant; callers hold the lock. The instance is the one that
        // this is a field of, whose destructor stops the timer before it frees anything.
        unsafe {
            bindings::imrsim_timer_start(self.timer.get(), at, instance.cast_mut().cast());
        }
    }

    /// Schedules the bios whose time has come.
    fn expire(&self, this: TargetRef<'_, T>) {
        let mut waiting = self.waiting.lock();
        let (mut ready, next) = waiting.bios.extract_due(now());
        waiting.next = next.unwrap_or(u64::MAX);
        if let Some(next) = next {
            self.start(next, this.as_raw());
        }
        drop(waiting);
        ready.schedule_all(this.get().workqueue());
    }

    /// Waits until the timer's function is over. For the end, when nobody waits.
    pub(super) fn stop(&self) {
        // SAFETY: Initialised by the type invariant.
        unsafe { bindings::imrsim_timer_cancel(self.timer.get()) };
    }
}

#[pinned_drop]
impl<T: Target> PinnedDrop for DelayLine<T> {
    fn drop(self: Pin<&mut Self>) {
        self.stop();
    }
}

/// The timer's function.
///
/// # Safety
///
/// `data` must be an instance that stays valid until this returns.
unsafe extern "C" fn expired<T: Target>(data: *mut c_void) {
    // SAFETY: The caller's promise.
    let this = unsafe { TargetRef::<T>::from_raw(data.cast_const().cast()) };
    this.delays().expire(this);
}
