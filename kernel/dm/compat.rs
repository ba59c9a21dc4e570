// SPDX-License-Identifier: GPL-2.0-only

//! What differs between the kernel series that are supported, and only that. Names are those of the newest
//! series, and what it has is taken as it is. For one that comes after it: build, and where something is
//! missing or changed, move the old way here, under a `--cfg` that Kbuild sets from the kernel's version.

#[cfg(not(imrsim_before_7_3))]
mod series {
    use kernel::{
        alloc::{kvec::Vec, AllocError, Allocator},
        prelude::*,
    };

    pub(crate) use kernel::{
        new_spinlock_irq,
        sync::{lock::spinlock::SpinLockIrqGuard, SpinLockIrq}, //
    };

    /// The error number for a transport that is not connected.
    pub(crate) fn enotconn() -> i32 {
        kernel::error::code::ENOTCONN.to_errno()
    }

    /// The module that target `$target` belongs to.
    macro_rules! this_module {
        ($target:ty) => {
            ::kernel::module::this_module::<<$target>::OwnerModule>()
                .as_ptr()
                .cast()
        };
    }
    pub(crate) use this_module;

    /// A vector of so many zeros.
    pub(crate) fn zeros<T: Zeroable + Clone, A: Allocator>(
        len: usize,
    ) -> Result<Vec<T, A>, AllocError> {
        Vec::zeroed(len, GFP_KERNEL)
    }
}

/// Linux 7.2 has no spinlocks that keep interrupts off, no vectors of zeros and no name for `ENOTCONN`, and its
/// modules find themselves in another way.
#[cfg(imrsim_before_7_3)]
mod series {
    use crate::bindings;
    use kernel::{
        alloc::{kvec::Vec, AllocError, Allocator},
        prelude::*,
        sync::lock::{Backend, Guard, Lock},
    };

    /// A spinlock that keeps interrupts off while it is held.
    pub(crate) type SpinLockIrq<T> = Lock<T, Irq>;
    /// Holds a [`SpinLockIrq`].
    pub(crate) type SpinLockIrqGuard<'a, T> = Guard<'a, T, Irq>;

    /// Makes a [`SpinLockIrq`].
    macro_rules! new_spinlock_irq {
        ($inner:expr, $name:literal $(,)?) => {
            $crate::dm::SpinLockIrq::new(
                $inner,
                ::kernel::optional_name!($name),
                ::kernel::static_lock_class!(),
            )
        };
    }
    pub(crate) use new_spinlock_irq;

    pub(crate) struct Irq;

    // Interrupts are as before when the lock is let go of, so that of two locks the one taken last has to go first. It does:
    // what is locked under another lock, the journal for example, is locked for one statement.
    // SAFETY: `lock` returns, and `try_lock` returns `Some`, only when the kernel's spinlock was taken, which nobody else then
    // has until `unlock`. Guards do not leave their thread, so that the CPU that `flags` is of is the one that gets them back.
    unsafe impl Backend for Irq {
        type State = bindings::spinlock_t;
        /// Whether interrupts were on before.
        type GuardState = kernel::ffi::c_ulong;

        unsafe fn init(
            ptr: *mut Self::State,
            name: *const kernel::ffi::c_char,
            key: *mut kernel::bindings::lock_class_key,
        ) {
            // SAFETY: The caller promises that the pointers are valid, name and key for ever.
            unsafe { bindings::imrsim_spin_lock_init(ptr, name, key.cast()) }
        }

        unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
            // SAFETY: The caller promises that the lock is initialised.
            unsafe { bindings::imrsim_spin_lock_irqsave(ptr) }
        }

        unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
            let mut flags = 0;
            // SAFETY: The caller promises that the lock is initialised.
            unsafe { bindings::imrsim_spin_trylock_irqsave(ptr, &mut flags) }.then_some(flags)
        }

        unsafe fn unlock(ptr: *mut Self::State, flags: &Self::GuardState) {
            // SAFETY: The caller holds the lock, and `flags` is what taking it returned.
            unsafe { bindings::imrsim_spin_unlock_irqrestore(ptr, *flags) }
        }

        unsafe fn assert_is_held(ptr: *mut Self::State) {
            // SAFETY: The caller promises that the lock is initialised.
            unsafe { bindings::imrsim_spin_assert_held(ptr) }
        }
    }

    /// The error number for a transport that is not connected.
    pub(crate) fn enotconn() -> i32 {
        -107
    }

    /// The module that we are.
    macro_rules! this_module {
        ($target:ty) => {
            $crate::THIS_MODULE.as_ptr().cast()
        };
    }
    pub(crate) use this_module;

    /// A vector of so many zeros.
    pub(crate) fn zeros<T: Zeroable + Clone, A: Allocator>(
        len: usize,
    ) -> Result<Vec<T, A>, AllocError> {
        Vec::from_elem(pin_init::zeroed(), len, GFP_KERNEL)
    }
}

pub(crate) use series::*;
