// SPDX-License-Identifier: GPL-2.0-only

//! Several I/Os in parallel on behalf of one deferred bio.

use super::{
    bio::{Deferred, Frame},
    ctr::Device,
    status::Status,
    target::{Target, TargetRef},
};
use crate::bindings;
use core::{
    mem::ManuallyDrop,
    ptr::{self, NonNull}, //
};
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

/// What a target may do where it goes on with a bio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Context {
    /// Sleep, and do I/O: on the target's workqueue.
    Worker,
    /// Start I/O, but wait for nothing: where somebody submits a bio, and the kernel keeps what is
    /// submitted meanwhile until he is done.
    Submitter,
    /// Neither: anywhere else, interrupts included.
    Any,
}

impl Context {
    /// The context of a completion.
    fn of_completion() -> Self {
        // SAFETY: It may be called anywhere.
        if unsafe { bindings::imrsim_may_submit() } {
            Context::Submitter
        } else {
            Context::Any
        }
    }
}

/// What came of the I/O of a [`Fan`].
pub(crate) enum Joined<T: Target> {
    /// All of it has completed.
    Done(Deferred<T>),
    /// It is under way; the bio comes back through [`Target::run`].
    UnderWay,
    /// Nothing was started, as there is no memory without waiting. On the workqueue there will be.
    NoMemory(Deferred<T>),
}

/// A pool of bios with a reserve, so that I/O makes progress when memory is short.
///
/// Bios from it are never held: each is freed when its I/O completes, so one in reserve is enough
/// for everybody to go on, one after the other.
///
/// # Invariants
///
/// `inner` is pinned and initialised.
#[pin_data(PinnedDrop)]
pub(crate) struct BioSet {
    #[pin]
    inner: Opaque<bindings::bio_set>,
}

// SAFETY: A bio set may be used and freed from any thread.
unsafe impl Send for BioSet {}
// SAFETY: Allocation from it is synchronised by the kernel.
unsafe impl Sync for BioSet {}

impl BioSet {
    /// Creates a pool with `reserve` bios.
    pub(crate) fn new(reserve: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: Initialised, if this succeeds.
            inner <- Opaque::try_ffi_init(move |slot: *mut bindings::bio_set| {
                // SAFETY: The initialiser may write to its slot; a bio set starts as zeros.
                unsafe { slot.write_bytes(0, 1) };
                // SAFETY: The slot is pinned; it is freed before it goes away.
                to_result(unsafe {
                    bindings::bioset_init(slot, reserve, 0, bindings::IMRSIM_BIOSET_FLAGS)
                })
            }),
        })
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::bio_set {
        self.inner.get()
    }
}

#[pinned_drop]
impl PinnedDrop for BioSet {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Initialised by the type invariant; every bio of it has completed, because the
        // deferred bio it worked for holds up the target's end, or because a batch of reads waited for it.
        unsafe { bindings::bioset_exit(self.inner.get()) };
    }
}

/// I/O in progress for a deferred bio.
///
/// What is added runs in parallel. [`Fan::join`] gives the bio back when all of it has completed. The
/// pages of the bio are used in order: each I/O on pages takes those that follow the previous one's.
///
/// On the workqueue everything starts as it is added, so that no bio of the pool is held while the
/// next one is waited for. Elsewhere it starts together, if there is memory for all of it.
///
/// # Invariants
///
/// `bio`'s count of pending I/O is one (for the fan) plus the I/Os that were added and have not
/// completed, so that nobody else takes the bio. `unsent` heads a chain through `bi_next` of those
/// that were not submitted yet; `last` is its end, if there are any.
pub(crate) struct Fan<'a, T: Target> {
    bio: ManuallyDrop<Deferred<T>>,
    bios: &'a BioSet,
    device: &'a Device,
    next_page: *mut bindings::page,
    unsent: *mut bindings::bio,
    last: *mut bindings::bio,
    context: Context,
    no_memory: bool,
}

impl<'a, T: Target> Fan<'a, T> {
    /// Starts with no I/O.
    pub(crate) fn new(
        mut bio: Deferred<T>,
        bios: &'a BioSet,
        device: &'a Device,
        context: Context,
    ) -> Self {
        bio.reset_io();
        // INVARIANT: The count was just set to one, and there is no I/O.
        Fan {
            next_page: bio.first_page(),
            bio: ManuallyDrop::new(bio),
            bios,
            device,
            unsent: ptr::null_mut(),
            last: ptr::null_mut(),
            context,
            no_memory: false,
        }
    }

    /// `GFP_NOIO` may wait for memory, but not for I/O, which may be our own.
    fn gfp(&self) -> bindings::gfp_t {
        match self.context {
            Context::Worker => bindings::IMRSIM_GFP_NOIO,
            Context::Submitter | Context::Any => bindings::IMRSIM_GFP_NOWAIT,
        }
    }

    fn lacks_memory(&mut self) {
        match self.context {
            // It was worth waiting for, and would be a mistake of the kernel's.
            Context::Worker => Frame::fail(self.frame(), Status::RESOURCE),
            Context::Submitter | Context::Any => self.no_memory = true,
        }
    }

    /// Reads `pages` pages from `sector` on.
    pub(crate) fn read(&mut self, sector: u64, pages: u32) {
        self.pages(bindings::IMRSIM_REQ_OP_READ, sector, pages);
    }

    /// Writes `pages` pages from `sector` on, durably if the deferred bio asked for that.
    pub(crate) fn write(&mut self, sector: u64, pages: u32) {
        let fua = if self.bio.is_fua() {
            bindings::IMRSIM_REQ_FUA
        } else {
            0
        };
        self.pages(bindings::IMRSIM_REQ_OP_WRITE | fua, sector, pages);
    }

    /// Leaves out `pages` pages.
    pub(crate) fn skip(&mut self, pages: u32) {
        for _ in 0..pages {
            if self.next_page.is_null() {
                return;
            }
            // SAFETY: The page belongs to the deferred bio, which is ours.
            self.next_page = unsafe { bindings::imrsim_page_next(self.next_page) };
        }
    }

    fn pages(&mut self, opf: bindings::blk_opf_t, sector: u64, pages: u32) {
        let Ok(count @ 1..=256) = u16::try_from(pages) else {
            Frame::fail(self.frame(), Status::IO_ERROR);
            return;
        };
        // SAFETY: The device is open and the set initialised.
        let bio = unsafe {
            bindings::bio_alloc_bioset(
                self.device.bdev(),
                count,
                opf | bindings::IMRSIM_REQ_SYNC,
                self.gfp(),
                self.bios.inner.get(),
            )
        };
        if bio.is_null() {
            self.lacks_memory();
            return;
        }
        for _ in 0..count {
            if self.next_page.is_null() {
                // More I/O than pages would be a mistake of the target's.
                Frame::fail(self.frame(), Status::IO_ERROR);
                break;
            }
            // SAFETY: The bio is new with room for `count` pages, and the page belongs to the
            // deferred bio, which outlives this I/O.
            unsafe { bindings::__bio_add_page(bio, self.next_page, bindings::IMRSIM_PAGE_SIZE, 0) };
            self.skip(1);
        }
        // SAFETY: The new bio is ours.
        unsafe { (*bio).bi_ioprio = (*self.bio.as_raw()).bi_ioprio };
        // SAFETY: The new bio is ours, with pages that stay until it has completed.
        unsafe { self.add(bio, sector) };
    }

    /// Does what the deferred bio asks for, read or write, with a part of its own data: the
    /// `sectors` sectors that lie `skip` sectors after its start, from or to `sector` of the device.
    pub(crate) fn transfer_data(&mut self, sector: u64, skip: u32, sectors: u32) {
        // SAFETY: The device is open, the set initialised, and the deferred bio and its data outlive
        // the clone.
        let bio = unsafe {
            bindings::bio_alloc_clone(
                self.device.bdev(),
                self.bio.as_raw(),
                self.gfp(),
                self.bios.inner.get(),
            )
        };
        if bio.is_null() {
            self.lacks_memory();
            return;
        }
        // SAFETY: The clone is ours; the kernel refuses a range outside it and leaves it as it is.
        unsafe {
            // Nobody polls for what is submitted on behalf of another bio.
            (*bio).bi_opf &= !bindings::IMRSIM_REQ_POLLED;
            bindings::bio_trim(bio, u64::from(skip), u64::from(sectors));
        }
        // SAFETY: The clone is ours.
        unsafe { self.add(bio, sector) };
    }

    fn frame(&self) -> &Frame<T> {
        // SAFETY: The frame is initialised as long as the bio is deferred. While the fan lives,
        // others only touch its atomic fields.
        unsafe { &*self.bio.frame() }
    }

    /// # Safety
    ///
    /// `bio` must be owned by the caller and carry data that outlives it.
    unsafe fn add(&mut self, bio: *mut bindings::bio, sector: u64) {
        Frame::get(self.frame());
        // SAFETY: The bio is the caller's until it is submitted.
        unsafe {
            (*bio).bi_iter.bi_sector = sector;
            (*bio).bi_end_io = Some(Self::end_io);
            (*bio).bi_private = self.bio.frame().cast();
        }
        if self.context == Context::Worker {
            // SAFETY: The bio is complete, and given up.
            unsafe { bindings::submit_bio_noacct(bio) };
            return;
        }
        if self.unsent.is_null() {
            self.unsent = bio;
        } else {
            // SAFETY: The last bio is in the chain by the type invariant.
            unsafe { (*self.last).bi_next = bio };
        }
        // INVARIANT: The chain grew by one at its end; a new bio has no link.
        self.last = bio;
    }

    /// Takes a bio that was not submitted.
    fn pop(&mut self) -> Option<NonNull<bindings::bio>> {
        let bio = NonNull::new(self.unsent)?;
        // INVARIANT: The chain lost its first bio.
        // SAFETY: The bio is in the chain by the type invariant.
        unsafe {
            self.unsent = (*bio.as_ptr()).bi_next;
            (*bio.as_ptr()).bi_next = ptr::null_mut();
        }
        Some(bio)
    }

    /// Takes back what was not submitted.
    fn withdraw(&mut self) {
        while let Some(bio) = self.pop() {
            // INVARIANT: One less was added.
            Frame::put(self.frame());
            // SAFETY: The bio is ours, and nobody saw it.
            unsafe { bindings::bio_put(bio.as_ptr()) };
        }
    }

    /// # Safety
    ///
    /// Called by the block layer when a bio of [`Self::submit`] has completed.
    unsafe extern "C" fn end_io(bio: *mut bindings::bio) {
        // SAFETY: `submit` stored the frame there; the deferred bio waits for us.
        let (frame, status) = unsafe {
            let frame = (*bio).bi_private.cast::<Frame<T>>();
            (&*frame, Status::from_raw((*bio).bi_status))
        };
        if !status.is_ok() {
            Frame::fail(frame, status);
        }
        // SAFETY: The bio was allocated by the fan and nobody uses it any more.
        unsafe { bindings::bio_put(bio) };
        let instance = frame.instance();
        let raw = ptr::from_ref(frame).cast_mut();
        if Frame::put(frame) {
            // SAFETY: The count reached zero, so the bio is ours now, and its target waits for it.
            let (this, bio) = unsafe { (TargetRef::from_raw(instance), Frame::owned(raw)) };
            let this: TargetRef<'_, T> = this;
            let _hold = this.hold();
            T::run(this, bio, Context::of_completion());
        }
    }

    /// Starts what was not started yet, and returns the bio if everything has completed already.
    pub(crate) fn join(self) -> Joined<T> {
        let mut fan = ManuallyDrop::new(self);
        if fan.no_memory {
            fan.withdraw();
        }
        while let Some(bio) = fan.pop() {
            // SAFETY: The bio is complete, and given up.
            unsafe { bindings::submit_bio_noacct(bio.as_ptr()) };
        }
        match fan.finish() {
            Some(bio) if fan.no_memory => Joined::NoMemory(bio),
            Some(bio) => Joined::Done(bio),
            None => Joined::UnderWay,
        }
    }

    /// Drops the fan's own count; may be called once.
    fn finish(&mut self) -> Option<Deferred<T>> {
        if Frame::put(self.frame()) {
            // SAFETY: The count reached zero, so the bio is ours, and the fan is not used again.
            Some(unsafe { ManuallyDrop::take(&mut self.bio) })
        } else {
            // The last I/O to complete owns the bio now.
            None
        }
    }
}

impl<T: Target> Drop for Fan<'_, T> {
    fn drop(&mut self) {
        self.withdraw();
        drop(self.finish());
    }
}
