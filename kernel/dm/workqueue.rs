// SPDX-License-Identifier: GPL-2.0-only

//! A workqueue of the target's own, on which deferred bios run.

use crate::bindings;
use core::ptr::NonNull;
use kernel::prelude::*;

/// An owned per-CPU workqueue that makes progress under memory pressure (`WQ_MEM_RECLAIM`).
///
/// # Invariants
///
/// The pointer is a workqueue that only this object destroys.
pub(crate) struct Workqueue(NonNull<bindings::workqueue_struct>);

// SAFETY: A workqueue may be used and destroyed from any thread.
unsafe impl Send for Workqueue {}
// SAFETY: All operations on a workqueue are synchronised by the kernel.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// Creates a workqueue; `name` appears in the names of its threads.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        // SAFETY: `name` is NUL-terminated, and the kernel copies it.
        let raw = unsafe { bindings::imrsim_alloc_workqueue(name.as_char_ptr()) };
        // INVARIANT: The queue was just made for this object.
        NonNull::new(raw).map(Workqueue).ok_or(ENOMEM)
    }

    /// Queues a work item.
    ///
    /// # Safety
    ///
    /// `work` must be initialised, not be queued already, and stay valid until its function runs.
    pub(super) unsafe fn queue(&self, work: *mut bindings::work_struct) {
        // SAFETY: The queue is valid by the type invariant, the work by the caller's promise.
        unsafe { bindings::imrsim_queue_work(self.0.as_ptr(), work) };
    }

    /// Waits until no work of the queue is running.
    pub(super) fn flush(&self) {
        // SAFETY: The queue is valid by the type invariant.
        unsafe { bindings::__flush_workqueue(self.0.as_ptr()) };
    }
}

impl Drop for Workqueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the queue is valid and nobody else destroys it. This waits
        // for work that is still queued.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}
