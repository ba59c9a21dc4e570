// SPDX-License-Identifier: GPL-2.0-only

//! How a bio ended, and what is told to user space as text.

use crate::bindings;
use core::marker::PhantomData;
use kernel::{
    fmt,
    prelude::*, //
};

/// How an I/O ended: the block layer's `blk_status_t`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(bindings::blk_status_t);

impl Status {
    /// Success.
    pub(crate) const OK: Status = Status(0);
    /// The operation is not supported.
    pub(crate) const NOT_SUPPORTED: Status = Status(bindings::IMRSIM_BLK_STS_NOTSUPP);
    /// Memory or another resource is short; trying again may work.
    pub(crate) const RESOURCE: Status = Status(bindings::IMRSIM_BLK_STS_RESOURCE);
    /// An I/O error without a kind of its own.
    pub(crate) const IO_ERROR: Status = Status(bindings::IMRSIM_BLK_STS_IOERR);

    pub(super) const fn from_raw(raw: bindings::blk_status_t) -> Self {
        Status(raw)
    }

    pub(super) const fn into_raw(self) -> bindings::blk_status_t {
        self.0
    }

    /// The error number for it; `EIO` for success, too.
    pub(crate) fn to_error(self) -> Error {
        // SAFETY: Translates a number.
        let errno = unsafe { bindings::blk_status_to_errno(self.0) };
        if errno < 0 {
            Error::from_errno(errno)
        } else {
            EIO
        }
    }

    /// Whether the I/O succeeded.
    pub(crate) fn is_ok(self) -> bool {
        self == Self::OK
    }
}

/// What `dmsetup` asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusKind {
    /// `dmsetup status`: what the target is doing.
    Info,
    /// `dmsetup table`: the arguments that would build this instance again.
    Table,
    /// What the kernel's integrity measurement records.
    Ima,
}

/// Text for user space, written into a buffer of device-mapper's.
///
/// What does not fit is cut off; device-mapper sees the full buffer and asks again with a larger
/// one.
///
/// # Invariants
///
/// `buf` is valid for writes of `len` bytes for `'a`; `len` is at least 1 and `used < len`.
pub(crate) struct Writer<'a> {
    buf: *mut u8,
    len: usize,
    used: usize,
    _lifetime: PhantomData<&'a mut [u8]>,
}

impl<'a> Writer<'a> {
    /// Returns a writer over the buffer, or [`None`] if there is no room even for the final NUL.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for writes of `len` bytes for `'a`, and nobody else may use it.
    pub(super) unsafe fn new(buf: *mut u8, len: usize) -> Option<Self> {
        if buf.is_null() || len == 0 {
            return None;
        }
        // SAFETY: The caller promises that `len` bytes are writable, and there is at least one.
        unsafe { buf.write(0) };
        // INVARIANT: The caller's promise; `len >= 1` was just checked and `used` is 0.
        Some(Writer {
            buf,
            len,
            used: 0,
            _lifetime: PhantomData,
        })
    }

    /// Whether nothing was written so far.
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    fn room(&self) -> usize {
        self.len.saturating_sub(self.used).saturating_sub(1)
    }
}

impl fmt::Write for Writer<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let n = s.len().min(self.room());
        // SAFETY: By the type invariant `used + n < len` bytes of `buf` are writable, and `buf` is
        // borrowed for writing, so it cannot overlap `s`.
        unsafe { core::ptr::copy_nonoverlapping(s.as_ptr(), self.buf.add(self.used), n) };
        self.used += n;
        // SAFETY: `used < len` by the definition of `room`.
        unsafe { self.buf.add(self.used).write(0) };
        Ok(())
    }
}
