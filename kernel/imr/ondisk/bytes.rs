// SPDX-License-Identifier: GPL-2.0-only

//! Little-endian fields at fixed offsets, and the checksum that every block header ends with.
//!
//! Offsets beyond the end read as zeros and ignore writes: no argument makes these functions
//! panic.

use super::{
    crc::Crc,
    Block, //
};

// Arrays, and inlined: of what goes through slices a compiler that optimises for size makes a call of
// memcpy for each number, and a zone's table has 65,536.

/// The bytes `at..at + N`.
#[inline]
pub(super) fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(found) => *found,
        None => [0; N],
    }
}

/// Sets the bytes from `at` on.
#[inline]
pub(super) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: &[u8; N]) {
    if let Some(to) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *to = *value;
    }
}

/// The 16-bit number at `at`.
#[inline]
pub(super) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(get(bytes, at))
}

/// The 32-bit number at `at`.
#[inline]
pub(super) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(get(bytes, at))
}

/// The 64-bit number at `at`.
#[inline]
pub(super) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(get(bytes, at))
}

/// Sets the 16-bit number at `at`.
#[inline]
pub(super) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, &value.to_le_bytes());
}

/// Sets the 32-bit number at `at`.
#[inline]
pub(super) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, &value.to_le_bytes());
}

/// Sets the 64-bit number at `at`.
#[inline]
pub(super) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, &value.to_le_bytes());
}

/// Where a sector of 512 bytes ends with a checksum.
pub(super) const CRC_AT: usize = 508;

/// The checksum of a header block: of all but the four bytes it is stored in.
fn header_crc(block: &Block) -> u32 {
    let (before, rest) = block.split_at(CRC_AT);
    let behind = rest.get(4..).unwrap_or(&[]);
    Crc::new().update(before).update(behind).value()
}

/// Stores the checksum of a header block in it.
pub(super) fn seal_header(block: &mut Block) {
    let crc = header_crc(block);
    put_u32(block, CRC_AT, crc);
}

/// Whether a header block has the right checksum.
pub(super) fn header_is_intact(block: &Block) -> bool {
    get_u32(block, CRC_AT) == header_crc(block)
}
