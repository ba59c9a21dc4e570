// SPDX-License-Identifier: GPL-2.0-only

//! A kernel thread that works for an instance in the background.

use super::{
    compat::{new_spinlock_irq, SpinLockIrq},
    hooks::without_io,
    target::{Instance, Target, TargetRef},
};
use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Release},
        Mutex,
    }, //
};

/// The thread of an instance, if it runs.
///
/// # Invariants
///
/// A task in `task` is a running thread of [`ThreadSlot::start`] that was not stopped yet.
#[pin_data]
pub(super) struct ThreadSlot {
    #[pin]
    task: SpinLockIrq<Task>,
    /// Held while the thread is started or stopped.
    #[pin]
    change: Mutex<()>,
    /// Whether the thread was asked to do something since it last looked.
    wanted: Atomic<i32>,
}

struct Task(Option<NonNull<bindings::task_struct>>);

// SAFETY: A task may be woken and stopped from any thread.
unsafe impl Send for Task {}

impl ThreadSlot {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            task <- new_spinlock_irq!(Task(None), "dm thread"),
            change <- new_mutex!((), "dm thread change"),
            wanted: Atomic::new(0),
        })
    }

    /// Starts the thread, unless it runs.
    ///
    /// # Safety
    ///
    /// `instance` must be the instance that this slot belongs to, and must stay valid until
    /// [`ThreadSlot::stop`].
    pub(super) unsafe fn start<T: Target>(
        &self,
        instance: *const Instance<T>,
        name: &CStr,
    ) -> Result {
        let _change = self.change.lock();
        if self.task.lock().0.is_some() {
            return Ok(());
        }
        // SAFETY: `body` takes an instance, which the caller keeps valid until the thread ends.
        let task = unsafe {
            bindings::imrsim_thread_start(
                Some(body::<T>),
                instance.cast_mut().cast(),
                name.as_char_ptr(),
            )
        };
        // INVARIANT: The thread was just started, if there is one.
        self.task.lock().0 = Some(NonNull::new(task).ok_or(ENOMEM)?);
        Ok(())
    }

    /// Has the thread leave its loop, and waits until it has ended.
    pub(super) fn stop(&self) {
        let _change = self.change.lock();
        let task = self.task.lock().0.take();
        if let Some(task) = task {
            // SAFETY: It runs by the type invariant, and nobody else finds it any more.
            unsafe { bindings::imrsim_thread_stop(task.as_ptr()) };
        }
    }

    /// Wakes the thread. May be called in any context.
    pub(super) fn wake(&self) {
        self.wanted.store(1, Release);
        let task = self.task.lock();
        if let Some(task) = task.0 {
            // SAFETY: It runs by the type invariant, and cannot be stopped while we hold the lock.
            unsafe { bindings::imrsim_thread_wake(task.as_ptr()) };
        }
    }
}

/// What the body of a thread can do about itself.
pub(crate) struct ThreadContext<'a> {
    slot: &'a ThreadSlot,
    /// The context is of use to the thread only.
    _not_send: PhantomData<*mut ()>,
}

impl ThreadContext<'_> {
    /// Sleeps until somebody wakes the thread, it is to stop, or the time is up. Returns whether
    /// the thread should go on.
    pub(crate) fn wait(&mut self, milliseconds: u32) -> bool {
        // SAFETY: The flag stays valid, and this is the thread itself.
        unsafe { bindings::imrsim_thread_wait(self.slot.wanted.as_ptr(), milliseconds) };
        // Fully ordered: what was asked for before is seen by the thread from here on.
        self.slot.wanted.xchg(0, Full);
        self.go_on()
    }

    /// Whether nobody has asked the thread to stop.
    pub(crate) fn go_on(&self) -> bool {
        // SAFETY: This is a kernel thread.
        !unsafe { bindings::imrsim_thread_should_stop() }
    }
}

/// # Safety
///
/// `data` must be an instance that stays valid until the thread has ended.
unsafe extern "C" fn body<T: Target>(data: *mut c_void) -> c_int {
    // SAFETY: The caller's promise.
    let this = unsafe { TargetRef::<T>::from_raw(data.cast()) };
    let mut cx = ThreadContext {
        slot: this.thread_slot(),
        _not_send: PhantomData,
    };
    // What the thread allocates must not wait for I/O to the device it works for.
    without_io(|| T::thread(this, &mut cx));
    // A thread that ended by itself would be gone when it is stopped.
    while cx.go_on() {
        cx.wait(60_000);
    }
    0
}
