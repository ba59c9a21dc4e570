// SPDX-License-Identifier: GPL-2.0-only

//! I/O that is waited for, for metadata: from process context, and never from `map`.

use super::{ctr::Device, status::Status};
use crate::bindings;
use core::{
    ops::{Deref, DerefMut},
    ptr::NonNull,
    slice, //
};
use kernel::{
    alloc::AllocError,
    prelude::*, //
};

/// Memory that a device can read from and write to directly.
///
/// # Invariants
///
/// `data` is an allocation of `2^order` pages, owned by this object, all initialised.
pub(crate) struct IoBuffer {
    data: NonNull<u8>,
    order: u32,
}

// SAFETY: The buffer owns its memory, which is not bound to a thread.
unsafe impl Send for IoBuffer {}
// SAFETY: Shared references only read.
unsafe impl Sync for IoBuffer {}

impl IoBuffer {
    /// The largest order that can be asked for: 64 KiB with pages of 4 KiB.
    const MAX_ORDER: u32 = 4;

    /// A buffer of `2^order` pages, all zero; `order` is at most 4. May sleep.
    pub(crate) fn new(order: u32) -> Result<Self, AllocError> {
        if order > Self::MAX_ORDER {
            return Err(AllocError);
        }
        // SAFETY: Plain allocation.
        let data = unsafe { bindings::imrsim_alloc_buffer(order) };
        // INVARIANT: Just allocated with this order, and zeroed.
        NonNull::new(data.cast())
            .map(|data| IoBuffer { data, order })
            .ok_or(AllocError)
    }

    /// The first of the buffer's bytes.
    pub(super) fn as_ptr(&self) -> NonNull<u8> {
        self.data
    }

    fn bytes(&self) -> usize {
        (bindings::IMRSIM_PAGE_SIZE as usize) << self.order
    }
}

impl Deref for IoBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: Ours and initialised by the type invariant.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.bytes()) }
    }
}

impl DerefMut for IoBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: Ours and initialised by the type invariant.
        unsafe { slice::from_raw_parts_mut(self.data.as_ptr(), self.bytes()) }
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        // SAFETY: Allocated with this order and owned by nobody else.
        unsafe { bindings::imrsim_free_buffer(self.data.as_ptr().cast(), self.order) };
    }
}

/// How a write is to be ordered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncIo {
    /// Not at all.
    Plain,
    /// It is durable when it has ended.
    Durable,
    /// It is durable when it has ended, and what had been written before is durable before it.
    Barrier,
}

impl Device {
    /// Reads the first `len` bytes of a buffer, a multiple of 512, from `sector` on.
    pub(crate) fn read(&self, sector: u64, buffer: &mut IoBuffer, len: usize) -> Status {
        self.rw(sector, buffer, len, bindings::IMRSIM_REQ_OP_READ)
    }

    /// Writes the first `len` bytes of a buffer, a multiple of 512, from `sector` on.
    pub(crate) fn write(
        &self,
        sector: u64,
        buffer: &mut IoBuffer,
        len: usize,
        order: SyncIo,
    ) -> Status {
        let flags = match order {
            SyncIo::Plain => 0,
            SyncIo::Durable => bindings::IMRSIM_REQ_FUA,
            SyncIo::Barrier => bindings::IMRSIM_REQ_PREFLUSH | bindings::IMRSIM_REQ_FUA,
        };
        self.rw(sector, buffer, len, bindings::IMRSIM_REQ_OP_WRITE | flags)
    }

    /// Makes durable what was written.
    pub(crate) fn flush(&self) -> Status {
        let opf = bindings::IMRSIM_REQ_OP_WRITE | bindings::IMRSIM_REQ_PREFLUSH;
        // SAFETY: The device is open, and no data goes with a flush.
        Status::from_raw(unsafe {
            bindings::imrsim_rw(self.bdev(), 0, core::ptr::null_mut(), 0, opf)
        })
    }

    fn rw(
        &self,
        sector: u64,
        buffer: &mut IoBuffer,
        len: usize,
        opf: bindings::blk_opf_t,
    ) -> Status {
        let Ok(bytes) = u32::try_from(len.min(buffer.len())) else {
            return Status::IO_ERROR;
        };
        if bytes == 0 || bytes % (1 << bindings::IMRSIM_SECTOR_SHIFT) != 0 {
            return Status::IO_ERROR;
        }
        // SAFETY: The device is open; the buffer is contiguous, at least `bytes` long, and borrowed
        // until the I/O has ended.
        Status::from_raw(unsafe {
            bindings::imrsim_rw(
                self.bdev(),
                sector,
                buffer.data.as_ptr().cast(),
                bytes,
                opf | bindings::IMRSIM_REQ_SYNC | bindings::IMRSIM_REQ_META,
            )
        })
    }
}
