// SPDX-License-Identifier: GPL-2.0-only

//! A target type's registration with device-mapper.

use super::target::{Target, Vtable};
use crate::bindings;
use core::marker::PhantomData;
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

/// A registered target type; it is unregistered when this object is dropped.
///
/// Device-mapper takes a reference to the module for every table, so the module, which owns this
/// object, cannot go away while an instance exists.
///
/// # Invariants
///
/// `inner` is pinned and registered.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<T: Target> {
    #[pin]
    inner: Opaque<bindings::target_type>,
    _target: PhantomData<T>,
}

// SAFETY: A target type may be unregistered from any thread.
unsafe impl<T: Target> Send for Registration<T> {}
// SAFETY: There are no operations on a shared reference.
unsafe impl<T: Target> Sync for Registration<T> {}

impl<T: Target> Registration<T> {
    /// Registers the target type.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the name is taken.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            inner <- Opaque::try_ffi_init(|slot: *mut bindings::target_type| {
                // SAFETY: The initialiser may write to its slot.
                unsafe { slot.write(Vtable::<T>::target_type()) };
                // SAFETY: The slot is pinned and holds a target type; it is unregistered before it
                // goes away.
                // INVARIANT: Registered, if this succeeds.
                to_result(unsafe { bindings::dm_register_target(slot) })
            }),
            _target: PhantomData,
        })
    }
}

#[pinned_drop]
impl<T: Target> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered by the type invariant.
        unsafe { bindings::dm_unregister_target(self.inner.get()) };
    }
}
