// SPDX-License-Identifier: GPL-2.0-only

//! Bios: mapped at once, or deferred and owned.

use super::{
    ctr::Device,
    fan::Context,
    hooks::now,
    pages::PageList,
    status::Status,
    target::{Instance, Target, TargetRef},
    workqueue::Workqueue,
};
use crate::bindings;
use core::{
    marker::PhantomData,
    mem::{align_of, size_of, ManuallyDrop},
    ptr::{self, addr_of_mut, NonNull},
};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Full, Relaxed}, //
};

/// What a bio asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Make completed writes durable; carries no data.
    Flush,
    /// Forget what is there; carries no data.
    Discard,
    /// Anything else.
    Other,
}

/// Who completes the bio next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It was remapped: the target is told when it completes.
    Remapped,
    /// The target ended it and knows.
    Ended,
}

/// What the glue keeps with each bio: `per_io_data` in device-mapper's words.
///
/// Device-mapper places it right below its own per-bio structure, which is aligned to 8 bytes; the
/// assertion in [`Frame::SIZE`] makes sure that this is enough.
///
/// # Invariants
///
/// `instance`, `stage`, `begun` and `data` are initialised from the start of `map` to completion;
/// `work`, `pages`, `pending` and `status` from deferral on, `due` while the bio is delayed.
#[repr(C)]
pub(super) struct Frame<T: Target> {
    work: bindings::work_struct,
    pages: PageList,
    pending: Atomic<i32>,
    status: Atomic<i32>,
    instance: *const Instance<T>,
    stage: Stage,
    /// When it came, in nanoseconds; 0 if that is not measured.
    begun: u64,
    /// Until when it waits.
    due: u64,
    data: T::PerBio,
}

impl<T: Target> Frame<T> {
    /// The size to ask for, in bytes.
    pub(super) const SIZE: c_uint = {
        assert!(align_of::<Frame<T>>() <= 8);
        assert!(size_of::<Frame<T>>() <= 1024);
        size_of::<Frame<T>>() as c_uint
    };

    /// # Safety
    ///
    /// `bio` must be a clone that device-mapper made for a target of type `T`.
    unsafe fn of(bio: *mut bindings::bio) -> *mut Frame<T> {
        // SAFETY: The caller's promise; the constructor asked for exactly this size.
        unsafe { bindings::dm_per_bio_data(bio, Self::SIZE as usize) }.cast()
    }

    /// # Safety
    ///
    /// `frame` must be the frame of a deferred bio.
    unsafe fn bio(frame: *mut Frame<T>) -> NonNull<bindings::bio> {
        // SAFETY: The caller's promise; device-mapper finds the bio above its per-bio data.
        unsafe {
            NonNull::new_unchecked(bindings::dm_bio_from_per_bio_data(
                frame.cast(),
                Self::SIZE as usize,
            ))
        }
    }

    /// The last step of a bio's life: tells the target, if it does not know, and drops its data.
    ///
    /// # Safety
    ///
    /// `bio` must be a clone that went through `map` and has just completed.
    pub(super) unsafe fn complete(this: TargetRef<'_, T>, bio: *mut bindings::bio, status: Status) {
        // SAFETY: By the caller's promise the frame is there, and nobody else uses a completed bio.
        let (stage, begun, data) = unsafe {
            let frame = Self::of(bio);
            let data = &mut *addr_of_mut!((*frame).data);
            ((*frame).stage, (*frame).begun, data)
        };
        if stage == Stage::Remapped {
            T::completed(this, data, status);
        }
        if begun != 0 || !status.is_ok() {
            // SAFETY: By the caller's promise the bio is there.
            let op = ended_op(unsafe { &*bio });
            let nanoseconds = (begun != 0).then(|| now().saturating_sub(begun));
            T::ended(this, data, op, status, nanoseconds);
        }
        // SAFETY: The data was initialised in `map` and is not used again.
        unsafe { ptr::drop_in_place(data) };
    }

    /// Runs on the workqueue.
    ///
    /// # Safety
    ///
    /// `work` must be the first field of the frame of a deferred bio that was scheduled.
    unsafe extern "C" fn work(work: *mut bindings::work_struct) {
        let frame = work.cast::<Frame<T>>();
        // SAFETY: The frame is valid, and the target outlives its bios.
        let this = unsafe { TargetRef::from_raw((*frame).instance) };
        // SAFETY: Whoever scheduled the work gave up the ownership that is taken here.
        let bio = unsafe { Self::owned(frame) };
        T::run(this, bio, Context::Worker);
    }

    /// The bio of this frame, owned.
    ///
    /// # Safety
    ///
    /// `frame` must be the frame of a deferred bio that nobody owns.
    pub(super) unsafe fn owned(frame: *mut Frame<T>) -> Deferred<T> {
        // SAFETY: The caller's promise.
        unsafe { Deferred::from_raw(Self::bio(frame)) }
    }

    pub(super) fn instance(&self) -> *const Instance<T> {
        self.instance
    }

    /// Records a failure; the first one stays.
    pub(super) fn fail(frame: &Frame<T>, status: Status) {
        let _ = frame
            .status
            .cmpxchg(0, i32::from(status.into_raw()), Relaxed);
    }

    /// Takes one off the count of pending I/O. Returns whether it was the last, which makes the
    /// caller the bio's owner.
    pub(super) fn put(frame: &Frame<T>) -> bool {
        frame.pending.fetch_sub(1, Full) == 1
    }

    /// Counts one more pending I/O.
    pub(super) fn get(frame: &Frame<T>) {
        frame.pending.add(1, Relaxed);
    }
}

/// Device-mapper sends a flush as a write without data that has `REQ_PREFLUSH` set.
fn op(bio: &bindings::bio) -> Op {
    match bio.bi_opf & bindings::IMRSIM_REQ_OP_MASK {
        bindings::IMRSIM_REQ_OP_READ => Op::Read,
        bindings::IMRSIM_REQ_OP_DISCARD => Op::Discard,
        bindings::IMRSIM_REQ_OP_WRITE if bio.bi_iter.bi_size != 0 => Op::Write,
        bindings::IMRSIM_REQ_OP_WRITE if bio.bi_opf & bindings::IMRSIM_REQ_PREFLUSH != 0 => {
            Op::Flush
        }
        _ => Op::Other,
    }
}

/// The same of a bio that has ended. Its size is not known any more, and a device without a cache may
/// have taken the flag from a flush: that is a write, too.
#[cold]
fn ended_op(bio: &bindings::bio) -> Op {
    match bio.bi_opf & bindings::IMRSIM_REQ_OP_MASK {
        bindings::IMRSIM_REQ_OP_READ => Op::Read,
        bindings::IMRSIM_REQ_OP_DISCARD => Op::Discard,
        bindings::IMRSIM_REQ_OP_WRITE => Op::Write,
        _ => Op::Other,
    }
}

/// What became of a bio in `map`. Only the methods of [`MapBio`] that consume the bio make one.
pub(crate) struct Mapped(c_int);

impl Mapped {
    pub(super) fn into_raw(self) -> c_int {
        self.0
    }
}

/// A bio in `map`.
///
/// # Invariants
///
/// `bio` is a clone that the target owns, with an initialised frame, of a live target.
pub(crate) struct MapBio<'a, T: Target> {
    bio: NonNull<bindings::bio>,
    frame: NonNull<Frame<T>>,
    begin: u64,
    _target: PhantomData<&'a T>,
}

impl<'a, T: Target> MapBio<'a, T> {
    /// # Safety
    ///
    /// `bio` must be a clone of device-mapper's that was just passed to the `map` function of `ti`,
    /// whose instance is `this`.
    pub(super) unsafe fn new(
        this: TargetRef<'a, T>,
        ti: *mut bindings::dm_target,
        bio: *mut bindings::bio,
    ) -> Self {
        // SAFETY: By the caller's promise the frame is there, uninitialised, and `ti` is valid.
        unsafe {
            let frame = Frame::<T>::of(bio);
            addr_of_mut!((*frame).instance).write(this.as_raw());
            addr_of_mut!((*frame).stage).write(Stage::Remapped);
            addr_of_mut!((*frame).begun).write(if this.measures() { now() } else { 0 });
            addr_of_mut!((*frame).data).write(T::PerBio::default());
            // INVARIANT: The caller's promise, and the frame was just initialised.
            MapBio {
                bio: NonNull::new_unchecked(bio),
                frame: NonNull::new_unchecked(frame),
                begin: (*ti).begin,
                _target: PhantomData,
            }
        }
    }

    fn raw(&self) -> &bindings::bio {
        // SAFETY: Owned by the type invariant.
        unsafe { self.bio.as_ref() }
    }

    fn raw_mut(&mut self) -> &mut bindings::bio {
        // SAFETY: Owned by the type invariant.
        unsafe { self.bio.as_mut() }
    }

    /// What the bio asks for.
    pub(crate) fn op(&self) -> Op {
        op(self.raw())
    }

    /// The first sector, counted from the start of the target.
    pub(crate) fn sector(&self) -> u64 {
        self.raw().bi_iter.bi_sector.wrapping_sub(self.begin)
    }

    /// The length in sectors.
    pub(crate) fn sectors(&self) -> u32 {
        self.raw().bi_iter.bi_size >> bindings::IMRSIM_SECTOR_SHIFT
    }

    /// Whether the data must be durable when the bio ends.
    pub(crate) fn is_fua(&self) -> bool {
        self.raw().bi_opf & bindings::IMRSIM_REQ_FUA != 0
    }

    /// What the target keeps with the bio.
    pub(crate) fn per_bio(&mut self) -> &mut T::PerBio {
        // SAFETY: Initialised and ours by the type invariant.
        unsafe { &mut self.frame.as_mut().data }
    }

    /// Keeps only the first `sectors` of the bio; the rest comes again as a bio of its own.
    ///
    /// A length of 0, or one beyond the bio's, changes nothing, and so do bios without data: those
    /// device-mapper sends in as many copies as the target asks for, and does not cut.
    pub(crate) fn accept_partial(&mut self, sectors: u32) {
        let carries_data = matches!(self.op(), Op::Read | Op::Write);
        if sectors != 0 && sectors < self.sectors() && carries_data {
            // SAFETY: We are in `map`; the length was just checked; bios of which several copies are
            // sent were not asked for, and atomic writes are not a feature of these targets.
            unsafe { bindings::dm_accept_partial_bio(self.bio.as_ptr(), sectors) };
        }
    }

    /// Sends the bio on to a device, at this sector of it. The target hears of its completion.
    pub(crate) fn remap(mut self, device: &'a Device, sector: u64) -> Mapped {
        // SAFETY: The bio is ours and the device open.
        unsafe { bindings::imrsim_bio_set_dev(self.bio.as_ptr(), device.bdev()) };
        self.raw_mut().bi_iter.bi_sector = sector;
        Mapped(bindings::IMRSIM_DM_MAPIO_REMAPPED)
    }

    /// Fills a read with zeros and ends it well.
    pub(crate) fn end_with_zeros(self) -> Mapped {
        // SAFETY: The bio is ours.
        unsafe { bindings::zero_fill_bio(self.bio.as_ptr()) };
        self.end(Status::OK)
    }

    /// Ends the bio.
    pub(crate) fn end(mut self, status: Status) -> Mapped {
        self.raw_mut().bi_status = status.into_raw();
        // SAFETY: Ours by the type invariant, and given up here.
        unsafe {
            self.frame.as_mut().stage = Stage::Ended;
            bindings::bio_endio(self.bio.as_ptr());
        }
        Mapped(bindings::IMRSIM_DM_MAPIO_SUBMITTED)
    }

    /// Takes the bio out of `map`, to be gone on with later.
    pub(crate) fn defer(self) -> (Deferred<T>, Mapped) {
        let frame = self.frame.as_ptr();
        // SAFETY: The frame is ours; these fields are initialised here for the first time.
        unsafe {
            bindings::imrsim_init_work(addr_of_mut!((*frame).work), Some(Frame::<T>::work));
            addr_of_mut!((*frame).pages).write(PageList::new());
            addr_of_mut!((*frame).pending).write(Atomic::new(0));
            addr_of_mut!((*frame).status).write(Atomic::new(0));
        }
        (
            // INVARIANT: The ownership moves from the map bio to the deferred one.
            Deferred {
                bio: self.bio,
                _target: PhantomData,
            },
            Mapped(bindings::IMRSIM_DM_MAPIO_SUBMITTED),
        )
    }
}

/// A bio that the target has taken over and must end. Dropping it ends it with an error.
///
/// # Invariants
///
/// `bio` is a clone of device-mapper's with a fully initialised frame, owned by this object alone,
/// and no I/O of its own is pending. Its target stays alive until it has ended.
pub(crate) struct Deferred<T: Target> {
    bio: NonNull<bindings::bio>,
    _target: PhantomData<fn(T)>,
}

// SAFETY: A bio is not bound to a thread, and neither is what `T` keeps with it.
unsafe impl<T: Target> Send for Deferred<T> {}

impl<T: Target> Deferred<T> {
    /// # Safety
    ///
    /// `bio` must be a deferred bio that nobody owns.
    pub(super) unsafe fn from_raw(bio: NonNull<bindings::bio>) -> Self {
        // INVARIANT: The caller's promise.
        Deferred {
            bio,
            _target: PhantomData,
        }
    }

    pub(super) fn as_raw(&self) -> *mut bindings::bio {
        self.bio.as_ptr()
    }

    /// Gives up the ownership without ending the bio.
    pub(super) fn into_raw(self) -> NonNull<bindings::bio> {
        ManuallyDrop::new(self).bio
    }

    pub(super) fn frame(&self) -> *mut Frame<T> {
        // SAFETY: A clone with a frame by the type invariant.
        unsafe { Frame::of(self.bio.as_ptr()) }
    }

    /// What the target keeps with the bio.
    pub(crate) fn per_bio(&mut self) -> &mut T::PerBio {
        // SAFETY: Initialised and ours by the type invariant.
        unsafe { &mut (*self.frame()).data }
    }

    /// Pages that stay with the bio until it has ended or they are taken out.
    pub(crate) fn pages(&mut self) -> &mut PageList {
        // SAFETY: Initialised and ours by the type invariant.
        unsafe { &mut (*self.frame()).pages }
    }

    /// Fills `sectors` sectors of what a read is to carry, from `skip` sectors after its start, with
    /// zeros, as far as they are there.
    pub(crate) fn zero_data(&mut self, skip: u32, sectors: u32) {
        let bytes = |sectors: u32| sectors.saturating_mul(1 << bindings::IMRSIM_SECTOR_SHIFT);
        // SAFETY: The bio and its data are ours; the helper keeps inside it.
        unsafe { bindings::imrsim_zero_fill(self.as_raw(), bytes(skip), bytes(sectors)) };
    }

    /// Fills the bio's first page, if it has one, with zeros and then, from `offset` sectors on, with
    /// `sectors` sectors of the data that a write carries, from `skip` sectors after its start. What
    /// is not there or does not fit is left out.
    pub(crate) fn pad_into_first_page(&mut self, skip: u32, sectors: u32, offset: u32) {
        let page = self.first_page();
        if page.is_null() {
            return;
        }
        let bytes = |sectors: u32| sectors.saturating_mul(1 << bindings::IMRSIM_SECTOR_SHIFT);
        // SAFETY: The page belongs to the bio, which is ours, with its data. The helper keeps inside
        // both.
        unsafe {
            bindings::imrsim_clear_page(page);
            bindings::imrsim_bio_copy_to_page(
                self.as_raw(),
                bytes(skip),
                bytes(sectors),
                page,
                bytes(offset),
            );
        }
    }

    pub(super) fn first_page(&self) -> *mut bindings::page {
        // SAFETY: Initialised and ours by the type invariant.
        unsafe { (*self.frame()).pages.first() }
    }

    /// The first failure among the I/O of the last [`Fan`](super::Fan).
    pub(crate) fn io_status(&self) -> Status {
        // SAFETY: Initialised and ours by the type invariant.
        let raw = unsafe { (*self.frame()).status.load(Relaxed) };
        Status::from_raw(u8::try_from(raw).unwrap_or(Status::IO_ERROR.into_raw()))
    }

    /// Whether the data must be durable when the bio ends.
    pub(crate) fn is_fua(&self) -> bool {
        // SAFETY: Ours by the type invariant.
        unsafe { self.bio.as_ref().bi_opf & bindings::IMRSIM_REQ_FUA != 0 }
    }

    /// Has it wait until this moment of [`now`].
    pub(super) fn set_due(&mut self, due: u64) {
        // SAFETY: The frame is ours by the type invariant.
        unsafe { addr_of_mut!((*self.frame()).due).write(due) };
    }

    pub(super) fn reset_io(&mut self) {
        // SAFETY: Initialised and ours by the type invariant.
        unsafe {
            (*self.frame()).pending.store(1, Relaxed);
            (*self.frame()).status.store(0, Relaxed);
        }
    }

    /// Has [`Target::run`] called with the bio, soon.
    pub(crate) fn schedule(self, queue: &Workqueue) {
        let frame = self.frame();
        self.into_raw();
        // SAFETY: The work was initialised on deferral and is not queued, because the bio was ours;
        // the frame stays valid until the bio ends, which only the new owner can do.
        unsafe { queue.queue(addr_of_mut!((*frame).work)) };
    }

    /// Ends the bio.
    pub(crate) fn end(self, status: Status) {
        let frame = self.frame();
        let bio = self.into_raw().as_ptr();
        // SAFETY: The bio was ours and is given up here; its pages were initialised on deferral and
        // are not used again.
        unsafe {
            ptr::drop_in_place(addr_of_mut!((*frame).pages));
            (*frame).stage = Stage::Ended;
            (*bio).bi_status = status.into_raw();
            bindings::bio_endio(bio);
        }
    }
}

impl<T: Target> Drop for Deferred<T> {
    fn drop(&mut self) {
        pr_warn!("{}: a bio was lost and ends with an error\n", T::NAME);
        // SAFETY: The object is going away, so the ownership can move.
        unsafe { Deferred::<T>::from_raw(self.bio) }.end(Status::IO_ERROR);
    }
}

/// What [`BioQueue::extract`] does with a bio.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// Take it out.
    Take,
    /// Leave it in its place.
    Leave,
    /// Leave it and all behind it.
    Stop,
}

/// Deferred bios in order. One pointer in size, as every zone has one.
///
/// # Invariants
///
/// `last` is the end of a ring through `bi_next` of deferred bios that the queue owns, whose first
/// follows the last; null if there are none.
pub(crate) struct BioQueue<T: Target> {
    last: *mut bindings::bio,
    _target: PhantomData<fn(T)>,
}

// SAFETY: The queue owns its bios, which may move between threads.
unsafe impl<T: Target> Send for BioQueue<T> {}

impl<T: Target> BioQueue<T> {
    /// An empty queue.
    pub(crate) const fn new() -> Self {
        // INVARIANT: No bio, no ring.
        BioQueue {
            last: ptr::null_mut(),
            _target: PhantomData,
        }
    }

    /// Whether no bio waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_null()
    }

    /// Adds a bio at the end.
    pub(crate) fn push(&mut self, bio: Deferred<T>) {
        self.push_front(bio);
        // INVARIANT: The first bio, which was just added, is the last one if the ring begins behind it.
        // SAFETY: The ring is not empty.
        self.last = unsafe { (*self.last).bi_next };
    }

    /// Takes the first bio.
    pub(crate) fn pop(&mut self) -> Option<Deferred<T>> {
        let last = NonNull::new(self.last)?.as_ptr();
        // SAFETY: The bios are in the ring, so the links are valid, and ours.
        let first = unsafe {
            let first = (*last).bi_next;
            (*last).bi_next = (*first).bi_next;
            (*first).bi_next = ptr::null_mut();
            first
        };
        if first == last {
            self.last = ptr::null_mut();
        }
        // INVARIANT: The ring lost its first bio.
        // SAFETY: The queue owned the bio and has just let go of it.
        Some(unsafe { Deferred::from_raw(NonNull::new_unchecked(first)) })
    }

    /// Whether `f` is true of what the target keeps with one of the bios.
    pub(crate) fn any(&self, mut f: impl FnMut(&T::PerBio) -> bool) -> bool {
        let mut bio = self.last;
        while !bio.is_null() {
            // SAFETY: The bios are in the ring, so their frames are initialised and ours.
            let data = unsafe {
                bio = (*bio).bi_next;
                &(*Frame::<T>::of(bio)).data
            };
            if f(data) {
                return true;
            }
            if bio == self.last {
                break;
            }
        }
        false
    }

    /// Adds a bio in front of all others.
    pub(crate) fn push_front(&mut self, bio: Deferred<T>) {
        let bio = bio.into_raw().as_ptr();
        // INVARIANT: The ring grew by one between its end and its beginning.
        // SAFETY: The bio was owned, so nobody else uses its link; the last one is in the ring.
        unsafe {
            if self.last.is_null() {
                (*bio).bi_next = bio;
                self.last = bio;
            } else {
                (*bio).bi_next = (*self.last).bi_next;
                (*self.last).bi_next = bio;
            }
        }
    }

    /// Moves all bios of `other` to the end of this queue.
    pub(crate) fn append(&mut self, other: &mut BioQueue<T>) {
        if other.is_empty() {
            return;
        }
        if !self.is_empty() {
            // SAFETY: Both ends are in rings, which are ours.
            unsafe {
                ptr::swap(
                    addr_of_mut!((*self.last).bi_next),
                    addr_of_mut!((*other.last).bi_next),
                )
            };
        }
        // INVARIANT: The two rings are one now, and `other` is left without.
        self.last = core::mem::replace(&mut other.last, ptr::null_mut());
    }

    /// Goes through the bios in order and moves those that `f` says to take to the returned queue.
    /// Both queues keep their order.
    pub(crate) fn extract(&mut self, mut f: impl FnMut(&mut T::PerBio) -> Pick) -> BioQueue<T> {
        let mut taken = BioQueue::new();
        let mut kept = BioQueue::new();
        while let Some(mut bio) = self.pop() {
            match f(bio.per_bio()) {
                Pick::Take => taken.push(bio),
                Pick::Leave => kept.push(bio),
                Pick::Stop => {
                    kept.push(bio);
                    break;
                }
            }
        }
        kept.append(self);
        *self = kept;
        taken
    }

    /// Takes out the bios, all of which are delayed, that wait no longer than until `now`. Returns
    /// them, and until when the next one waits.
    pub(super) fn extract_due(&mut self, now: u64) -> (BioQueue<T>, Option<u64>) {
        let mut taken = BioQueue::new();
        let mut kept = BioQueue::new();
        let mut next: Option<u64> = None;
        while let Some(bio) = self.pop() {
            // SAFETY: The bio is ours, and what is delayed has a time.
            let due = unsafe { (*bio.frame()).due };
            if due <= now {
                taken.push(bio);
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
                kept.push(bio);
            }
        }
        *self = kept;
        (taken, next)
    }

    /// Schedules all bios, in order.
    pub(crate) fn schedule_all(&mut self, queue: &Workqueue) {
        while let Some(bio) = self.pop() {
            bio.schedule(queue);
        }
    }
}

impl<T: Target> Default for BioQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Target> Drop for BioQueue<T> {
    fn drop(&mut self) {
        while let Some(bio) = self.pop() {
            drop(bio);
        }
    }
}
