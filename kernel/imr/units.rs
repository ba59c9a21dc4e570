// SPDX-License-Identifier: GPL-2.0-only

//! Sectors, blocks, and the two kinds of block number inside a zone.
//!
//! A block number means nothing without knowing on which side of the mapping table it stands, so
//! the two sides have types of their own: the host names a block by its [`Bo`], the platter by its
//! [`Nbo`], and only the mapping table of a zone turns one into the other.

use core::fmt;

/// Bytes in a sector, the unit in which the block layer addresses a device.
pub const SECTOR_SIZE: u32 = 512;

/// Bytes in a block, the unit of mapping.
pub const BLOCK_SIZE: u32 = 4096;

/// Sectors in a block.
pub const BLOCK_SECTORS: u32 = BLOCK_SIZE / SECTOR_SIZE;

/// A *logical* block: its offset in its zone in blocks, before mapping ("bo").
///
/// In range when below [`zone_blocks`](super::Geometry::zone_blocks), which is at most 65,536.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bo(pub u32);

/// A *physical* block: its offset in its zone in blocks, after mapping ("nbo").
///
/// In range when below [`zone_blocks`](super::Geometry::zone_blocks), which is at most 65,536.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nbo(pub u32);

impl Bo {
    /// The block `n` blocks after this one.
    ///
    /// Saturates, so that a number out of range stays out of range.
    pub const fn after(self, n: u32) -> Self {
        Self(self.0.saturating_add(n))
    }
}

impl Nbo {
    /// The block `n` blocks after this one.
    ///
    /// Saturates, so that a number out of range stays out of range.
    pub const fn after(self, n: u32) -> Self {
        Self(self.0.saturating_add(n))
    }
}

impl fmt::Display for Bo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Nbo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
