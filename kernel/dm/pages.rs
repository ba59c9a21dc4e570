// SPDX-License-Identifier: GPL-2.0-only

//! Pages to hold data that a target reads and writes itself.

use crate::bindings;
use core::ptr::{self, NonNull};
use kernel::{
    alloc::AllocError,
    prelude::*, //
};

/// An owned list of pages, in order.
///
/// The pages are chained through their private field, so that a list needs no memory of its own.
///
/// # Invariants
///
/// `first` heads a chain of `len` pages that only this list owns; the last one's link is null.
/// `first` is null if and only if `len` is 0.
pub(crate) struct PageList {
    first: *mut bindings::page,
    len: usize,
}

// SAFETY: The list owns its pages, and pages are not bound to a thread.
unsafe impl Send for PageList {}

impl PageList {
    /// A list without pages.
    pub(crate) const fn new() -> Self {
        // INVARIANT: No page, no chain.
        PageList {
            first: ptr::null_mut(),
            len: 0,
        }
    }

    /// Allocates `n` pages; may sleep. For a reserve that is set up before any I/O.
    pub(crate) fn reserve(n: usize) -> Result<Self, AllocError> {
        Self::alloc(n, true)
    }

    /// Allocates `n` pages if that can be done at once, without waiting for memory.
    pub(crate) fn try_alloc(n: usize) -> Result<Self, AllocError> {
        Self::alloc(n, false)
    }

    fn alloc(n: usize, may_sleep: bool) -> Result<Self, AllocError> {
        let mut list = Self::new();
        while list.len < n {
            // SAFETY: Plain allocation; the callers of `reserve` may sleep.
            let page = NonNull::new(unsafe { bindings::imrsim_alloc_page(may_sleep) });
            list.push(page.ok_or(AllocError)?);
        }
        Ok(list)
    }

    /// The number of pages.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> *mut bindings::page {
        self.first
    }

    fn push(&mut self, page: NonNull<bindings::page>) {
        // SAFETY: The page is owned by the caller and becomes part of this list.
        unsafe { bindings::imrsim_set_page_next(page.as_ptr(), self.first) };
        // INVARIANT: The chain grew by the page in front.
        self.first = page.as_ptr();
        self.len += 1;
    }

    fn pop(&mut self) -> Option<NonNull<bindings::page>> {
        let page = NonNull::new(self.first)?;
        // SAFETY: The page is in this list by the type invariant.
        self.first = unsafe { bindings::imrsim_page_next(page.as_ptr()) };
        // INVARIANT: The chain lost its first page.
        self.len -= 1;
        // SAFETY: The page belongs to nobody but us now.
        unsafe { bindings::imrsim_set_page_next(page.as_ptr(), ptr::null_mut()) };
        Some(page)
    }

    /// Moves the first `n` pages, or all if there are fewer, into a list of their own.
    pub(crate) fn split(&mut self, n: usize) -> PageList {
        let mut taken = PageList::new();
        while taken.len < n {
            match self.pop() {
                Some(page) => taken.push(page),
                None => break,
            }
        }
        taken
    }

    /// Moves all pages of `other` into this list.
    pub(crate) fn append(&mut self, mut other: PageList) {
        while let Some(page) = other.pop() {
            self.push(page);
        }
    }
}

impl Drop for PageList {
    fn drop(&mut self) {
        while let Some(page) = self.pop() {
            // SAFETY: The page was allocated by `alloc` and is owned by nobody else.
            unsafe { bindings::imrsim_free_page(page.as_ptr()) };
        }
    }
}
