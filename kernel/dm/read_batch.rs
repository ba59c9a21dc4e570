// SPDX-License-Identifier: GPL-2.0-only

//! Many reads at the same time, for metadata that lies scattered: waited for together, so that a device
//! which takes its time for each of them, but takes many at once, is waited for once.

use super::{ctr::Device, fan::BioSet, status::Status, sync_io::IoBuffer};
use crate::bindings;
use core::slice;
use kernel::{
    alloc::AllocError,
    prelude::*, //
};

/// Reads that are done together, and what they read.
///
/// Its memory grows with what is read, up to a limit, and is used again by the next reads.
///
/// # Invariants
///
/// The `len` bytes from `data` on of each of `reads` lie in one of `buffers`, and in no other read's;
/// buffers are freed only together with the reads. `len` is a multiple of 512, and not 0.
pub(crate) struct ReadBatch {
    buffers: KVec<IoBuffer>,
    /// How many bytes of each buffer are some read's.
    taken: KVec<usize>,
    reads: KVec<bindings::imrsim_read>,
    /// The read that was looked at last.
    at: usize,
    limit: usize,
}

impl ReadBatch {
    /// The most bytes of a read, and how memory is taken.
    pub(crate) const BUFFER: usize = (bindings::IMRSIM_PAGE_SIZE as usize) << Self::ORDER;
    const ORDER: u32 = 4;

    /// No reads; of at most `limit` times [`BUFFER`](Self::BUFFER) bytes.
    pub(crate) const fn new(limit: usize) -> Self {
        ReadBatch {
            buffers: KVec::new(),
            taken: KVec::new(),
            reads: KVec::new(),
            at: 0,
            limit,
        }
    }

    /// Forgets all reads.
    pub(crate) fn clear(&mut self) {
        // INVARIANT: There are no reads.
        self.reads.clear();
        self.taken.iter_mut().for_each(|taken| *taken = 0);
        self.at = 0;
    }

    /// Adds a read of `len` bytes, a multiple of 512, from `sector` on. May sleep.
    ///
    /// # Errors
    ///
    /// If there is no room for it, or no memory.
    pub(crate) fn add(&mut self, sector: u64, len: usize) -> Result<(), AllocError> {
        if len == 0 || len > Self::BUFFER || len % (1 << bindings::IMRSIM_SECTOR_SHIFT) != 0 {
            return Err(AllocError);
        }
        let bytes = u32::try_from(len).map_err(|_| AllocError)?;
        self.reads.reserve(1, GFP_KERNEL)?;
        let buffer = match self.taken.iter().position(|it| Self::BUFFER - it >= len) {
            Some(buffer) => buffer,
            None => self.grow()?,
        };
        let (Some(taken), Some(buffer)) = (self.taken.get_mut(buffer), self.buffers.get(buffer))
        else {
            return Err(AllocError);
        };
        let data = buffer.as_ptr().as_ptr().wrapping_add(*taken);
        *taken += len;
        // INVARIANT: The bytes are the buffer's, and were nobody's.
        let read = bindings::imrsim_read {
            sector,
            data: data.cast(),
            len: bytes,
            status: Status::IO_ERROR.into_raw(),
            reading: core::ptr::null_mut(),
        };
        self.reads.push(read, GFP_KERNEL)
    }

    /// Adds a buffer; returns which it is.
    fn grow(&mut self) -> Result<usize, AllocError> {
        let count = self.buffers.len();
        if count >= self.limit {
            return Err(AllocError);
        }
        self.taken.reserve(1, GFP_KERNEL)?;
        self.buffers.push(IoBuffer::new(Self::ORDER)?, GFP_KERNEL)?;
        self.taken.push(0, GFP_KERNEL)?;
        Ok(count)
    }

    /// Does all reads, and waits for them.
    pub(crate) fn run(&mut self, device: &Device, bios: &BioSet) {
        let Ok(count) = u32::try_from(self.reads.len()) else {
            return;
        };
        let opf =
            bindings::IMRSIM_REQ_OP_READ | bindings::IMRSIM_REQ_SYNC | bindings::IMRSIM_REQ_META;
        // SAFETY: The device is open, the set initialised, and there are `count` reads. Each has memory of its own in a buffer
        // by the type invariant, of which nobody has a reference as `self` is borrowed mutably until all
        // of them have ended.
        unsafe {
            let reads = self.reads.as_mut_ptr();
            bindings::imrsim_read_all(device.bdev(), bios.as_ptr(), reads, count, opf);
        }
    }

    /// The `len` bytes from `sector` on, if one of the reads has read them.
    pub(crate) fn get(&mut self, sector: u64, len: usize) -> Option<&[u8]> {
        let at = |read: &bindings::imrsim_read| {
            let sectors = sector.checked_sub(read.sector)?;
            let skip = usize::try_from(sectors)
                .ok()?
                .checked_mul(1 << bindings::IMRSIM_SECTOR_SHIFT)?;
            let left = (read.len as usize).checked_sub(skip)?;
            (left >= len && Status::from_raw(read.status).is_ok()).then_some(skip)
        };
        // Most often it is where the last one was, or the next.
        let count = self.reads.len();
        let (index, skip) = (self.at..self.at + count).find_map(|index| {
            let index = index % count;
            Some((index, at(self.reads.get(index)?)?))
        })?;
        self.at = index;
        let read = self.reads.get(index)?;
        // SAFETY: The bytes lie in one of our buffers by the type invariant, are initialised, and written to
        // by nobody as long as `self` is borrowed.
        let bytes = unsafe { slice::from_raw_parts(read.data.cast::<u8>(), read.len as usize) };
        bytes.get(skip..)?.get(..len)
    }
}
