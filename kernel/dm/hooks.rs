// SPDX-License-Identifier: GPL-2.0-only

//! Small things that optional callbacks take and return.

use super::ctr::Device;
use crate::bindings;
use core::marker::PhantomData;
use kernel::{
    prelude::*,
    uaccess::{UserPtr, UserSlice}, //
};

/// The answer to an ioctl.
pub(crate) enum Ioctl<'a> {
    /// Not one of the target's: pass it to a device below, with the check that device-mapper makes
    /// for a device of which only part is mapped (`CAP_SYS_RAWIO`).
    Forward(&'a Device),
    /// Handled, with this result.
    Done(Result),
}

/// Runs `f` with all its memory allocations barred from waiting for I/O, which may be our own.
pub(crate) fn without_io<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: Changes a flag of the current task, and puts it back below. There is no unwinding.
    let flags = unsafe { bindings::imrsim_noio_save() };
    let result = f();
    // SAFETY: The flags are those of the call above, on the same task.
    unsafe { bindings::imrsim_noio_restore(flags) };
    result
}

/// Fills a slice with random bytes.
pub(crate) fn random_bytes(bytes: &mut [u8]) {
    // SAFETY: The slice is ours to write.
    unsafe { bindings::get_random_bytes(bytes.as_mut_ptr().cast(), bytes.len()) };
}

/// Nanoseconds since the machine was started, those asleep not counted; never 0.
pub(crate) fn now() -> u64 {
    // SAFETY: Reads a clock.
    unsafe { bindings::imrsim_now() }
}

/// Whether another error may be logged now: a few in some seconds, so that the log is not flooded.
pub(crate) fn may_log() -> bool {
    // SAFETY: May be called anywhere.
    unsafe { bindings::imrsim_may_log() }
}

/// Whether the current process may administer the system (`CAP_SYS_ADMIN`).
pub(crate) fn may_administer() -> bool {
    // SAFETY: Looks at the current process only.
    unsafe { bindings::imrsim_capable_sys_admin() }
}

/// The `len` bytes of user memory that an ioctl's argument points to. Whether they can be reached
/// shows when they are copied.
pub(crate) fn user_slice(arg: usize, len: usize) -> UserSlice {
    UserSlice::new(UserPtr::from_addr(arg), len)
}

/// The limits of the mapped device's queue.
///
/// # Invariants
///
/// The pointer is valid and used by nobody else for `'a`.
pub(crate) struct QueueLimits<'a>(*mut bindings::queue_limits, PhantomData<&'a mut ()>);

impl QueueLimits<'_> {
    /// # Safety
    ///
    /// `raw` must be valid and used by nobody else for as long as the result lives.
    pub(super) unsafe fn from_raw(raw: *mut bindings::queue_limits) -> Self {
        // INVARIANT: The caller's promise.
        QueueLimits(raw, PhantomData)
    }

    /// Says that discards free units of `granularity` bytes, and may be `sectors` long.
    pub(crate) fn set_discard(&mut self, granularity: u32, sectors: u32) {
        // SAFETY: Valid and ours by the type invariant.
        unsafe {
            (*self.0).discard_granularity = granularity;
            (*self.0).max_hw_discard_sectors = sectors;
        }
    }

    /// Says that writes of less than `bytes` cost more, and that `bytes` is the best small I/O.
    /// Never lowers what the devices below asked for.
    pub(crate) fn raise_physical_block_size(&mut self, bytes: u32) {
        // SAFETY: Valid and ours by the type invariant.
        unsafe {
            (*self.0).physical_block_size = (*self.0).physical_block_size.max(bytes);
            (*self.0).io_min = (*self.0).io_min.max(bytes);
        }
    }
}
