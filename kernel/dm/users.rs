// SPDX-License-Identifier: GPL-2.0-only

//! Who borrows an instance while it could go away.

use crate::bindings;
use core::marker::PhantomData;
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

/// Counts users, each CPU for itself (the kernel's `percpu_ref`).
///
/// # Invariants
///
/// `inner` is pinned and initialised.
#[pin_data(PinnedDrop)]
pub(super) struct Users {
    #[pin]
    inner: Opaque<bindings::imrsim_users>,
}

// SAFETY: The counter may be used and freed from any thread.
unsafe impl Send for Users {}
// SAFETY: The kernel synchronises all operations.
unsafe impl Sync for Users {}

impl Users {
    /// No users.
    pub(super) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: Initialised, if this succeeds.
            inner <- Opaque::try_ffi_init(|slot: *mut bindings::imrsim_users| {
                // SAFETY: The slot is pinned, and may be written to.
                to_result(unsafe { bindings::imrsim_users_init(slot) })
            }),
        })
    }

    /// Becomes a user, until the result is dropped.
    pub(super) fn hold(&self) -> Hold {
        // SAFETY: Initialised by the type invariant.
        unsafe { bindings::imrsim_users_get(self.inner.get()) };
        // INVARIANT: Just counted.
        Hold(self.inner.get(), PhantomData)
    }

    /// Waits until all users are gone. For the end, when no more can come; once.
    pub(super) fn wait(&self) {
        // SAFETY: Initialised by the type invariant.
        unsafe { bindings::imrsim_users_wait(self.inner.get()) };
    }
}

#[pinned_drop]
impl PinnedDrop for Users {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Initialised by the type invariant, and nobody uses it any more.
        unsafe { bindings::imrsim_users_exit(self.inner.get()) };
    }
}

/// A user, who leaves when this is dropped, on the thread that it came from.
///
/// # Invariants
///
/// The counter counts this user, and stays until it has left. A pointer, because it may be gone a
/// moment later.
pub(super) struct Hold(*mut bindings::imrsim_users, PhantomData<*mut ()>);

impl Drop for Hold {
    fn drop(&mut self) {
        // SAFETY: The counter is there by the type invariant, and not used again.
        unsafe { bindings::imrsim_users_put(self.0) };
    }
}
