// SPDX-License-Identifier: GPL-2.0-only

//! A value with words behind it, in one allocation and behind one thin pointer.

use core::{
    alloc::Layout,
    mem::size_of,
    ops::{Deref, DerefMut},
    ptr::{addr_of_mut, NonNull},
    slice, //
};
use kernel::{
    alloc::{
        allocator::KVmalloc,
        AllocError,
        Allocator,
        NumaNode, //
    },
    prelude::*,
};

#[repr(C)]
struct Inner<H> {
    words: usize,
    head: H,
}

/// A `H` and a slice of words that belong together: large slices are allocated in whole pages, whose
/// end would go to waste.
///
/// # Invariants
///
/// The pointer owns an allocation with the layout that [`WithWords::layout`] gives for `words`; head
/// and words in it are initialised.
pub(crate) struct WithWords<H>(NonNull<Inner<H>>);

// SAFETY: It owns what it points to.
unsafe impl<H: Send> Send for WithWords<H> {}
// SAFETY: As it gives out only what the borrow of itself allows.
unsafe impl<H: Sync> Sync for WithWords<H> {}

impl<H> WithWords<H> {
    /// The words follow the rest directly: its size is a multiple of its alignment, and so of theirs.
    fn layout(words: usize) -> Result<Layout, AllocError> {
        let array = Layout::array::<u64>(words).map_err(|_| AllocError)?;
        let (layout, start) = Layout::new::<Inner<H>>()
            .extend(array)
            .map_err(|_| AllocError)?;
        debug_assert_eq!(start, size_of::<Inner<H>>());
        Ok(layout)
    }

    /// Puts `words` zeros behind a value. May sleep.
    pub(crate) fn new(head: H, words: usize) -> Result<Self, AllocError> {
        let layout = Self::layout(words)?;
        let inner =
            KVmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)?.cast::<Inner<H>>();
        // SAFETY: The allocation is ours and large enough.
        unsafe { inner.write(Inner { words, head }) };
        // INVARIANT: The head was just written, and the words are zeros.
        Ok(WithWords(inner))
    }

    /// The value and the words.
    pub(crate) fn parts(&mut self) -> (&mut H, &mut [u64]) {
        let inner = self.0.as_ptr();
        // SAFETY: Allocated with this layout and initialised by the type invariant; the two do not
        // overlap, and the borrow of `self` covers both.
        unsafe {
            let words = slice::from_raw_parts_mut(inner.add(1).cast(), (*inner).words);
            (&mut *addr_of_mut!((*inner).head), words)
        }
    }
}

impl<H> Deref for WithWords<H> {
    type Target = H;

    fn deref(&self) -> &H {
        // SAFETY: Initialised by the type invariant.
        unsafe { &self.0.as_ref().head }
    }
}

impl<H> DerefMut for WithWords<H> {
    fn deref_mut(&mut self) -> &mut H {
        // SAFETY: Initialised by the type invariant.
        unsafe { &mut self.0.as_mut().head }
    }
}

impl<H> Drop for WithWords<H> {
    fn drop(&mut self) {
        // SAFETY: Initialised by the type invariant, and not used again. The layout is that of the
        // allocation, which therefore exists.
        unsafe {
            let words = self.0.as_ref().words;
            self.0.drop_in_place();
            if let Ok(layout) = Self::layout(words) {
                KVmalloc::free(self.0.cast(), layout);
            }
        }
    }
}
