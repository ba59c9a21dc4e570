// SPDX-License-Identifier: GPL-2.0-only

//! The one place where integers change their type with `as`.
//!
//! Every function is lossless, or says what it does with what does not fit.

// CAST: all casts from `u32` to `usize` below are lossless because of this.
const _: () = assert!(usize::BITS >= u32::BITS);

/// `n` as an index or a length.
pub(super) const fn index(n: u32) -> usize {
    n as usize
}

/// `n` as a 64-bit number, for device-wide arithmetic.
pub(super) const fn wide(n: u32) -> u64 {
    n as u64
}

/// The table entry for block offset `n`.
///
/// Block offsets are below 65,536 because [`super::Geometry::new`] makes no larger zone; of any
/// other number the low 16 bits remain.
pub(super) const fn entry(n: u32) -> u16 {
    (n & 0xffff) as u16
}

/// The low 32 bits of `n`, for a remainder of a division by a 32-bit number.
pub(super) const fn low32(n: u64) -> u32 {
    (n & 0xffff_ffff) as u32
}

/// `a / b` where an invariant says that `b` is not 0, without the panic for the case that it is.
#[inline]
pub(super) const fn quotient(a: u64, b: u64) -> u64 {
    match a.checked_div(b) {
        Some(quotient) => quotient,
        None => 0,
    }
}

/// `a / b`, as [`quotient`].
#[inline]
pub(super) const fn quotient32(a: u32, b: u32) -> u32 {
    match a.checked_div(b) {
        Some(quotient) => quotient,
        None => 0,
    }
}
