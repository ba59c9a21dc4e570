// SPDX-License-Identifier: GPL-2.0-only

//! The on-disk format: what the metadata looks like, and how it is read after a stop or a crash.
//!
//! `docs/on-disk-format.md` gives every byte, the order in which a writer must write, and why no
//! crash then loses what was promised. Here are, from the bottom up:
//!
//! 1. [`crc`], the checksum: CRC32C;
//! 2. [`refusal`], why metadata is not accepted;
//! 3. [`superblock`], and [`slot_map`], the part of it that grows with the number of zones;
//! 4. [`record`], a change of the metadata, and [`entry`], the journal's unit of writing;
//! 5. [`slot`], a zone's table as it was at one position of the journal;
//! 6. [`ring`], where the journal's entries go, and when it is too full;
//! 7. [`open`] finds the superblock, [`replay`] reads the journal, [`load`] a zone's slot.
//!
//! All integers are little-endian. Everything is read and written in blocks of 4 KiB; callers lend
//! the memory. Nothing here writes: a writer encodes blocks and writes them itself.
//!
//! # Life of a device
//!
//! ```text
//! load_superblock       Refusal::Blank: fill the journal with entry::format_block, flush, write
//!                       Superblock::new twice, start over
//!   Replay::next        for each entry, for each record from the loaded zone's position on:
//!     load_zone           (once for each zone that has records)
//!     Zone::replay
//!   Replay::replayed    where the journal ends
//! Superblock::open      written twice, the copy first that was not loaded
//! ... EntryBuilder, SlotHeader, Superblock::checkpoint ...
//! Superblock::close     written twice
//! ```

mod bytes;
pub mod crc;
mod empty;
pub mod entry;
pub mod load;
pub mod open;
pub mod record;
pub mod refusal;
pub mod replay;
pub mod ring;
pub mod slot;
pub mod slot_map;
pub mod superblock;

use core::fmt;

pub use crc::Crc;
pub use empty::is_empty;
pub use entry::{
    Entry,
    EntryBuilder,
    EntryError, //
};
pub use load::{
    load_zone,
    LoadedZone,
    ZoneMemory, //
};
pub use open::{
    load_superblock,
    Loaded, //
};
pub use record::Record;
pub use refusal::{
    LoadError,
    Refusal, //
};
pub use replay::{
    replay,
    Replay,
    Replayed, //
};
pub use ring::Ring;
pub use slot::SlotHeader;
pub use slot_map::{
    SlotMap,
    SlotMapMut,
    ZONES_PER_WORD, //
};
pub use superblock::Superblock;

/// Bytes in a block, as a length.
pub const BLOCK_BYTES: usize = 4096;

/// A block of metadata.
pub type Block = [u8; BLOCK_BYTES];

/// The version of the format.
pub const VERSION: u32 = 2;

/// What tells the metadata of one formatting from that of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    /// As `01234567-89ab-cdef-0123-456789abcdef`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (byte, i) in self.0.iter().zip(0..) {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// A place between two records of the journal: before record `index` of entry `sequence`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The number of the entry.
    pub sequence: u64,
    /// The number of the record in the entry; may be behind the last.
    pub index: u16,
}

impl Position {
    /// The position before the first record of an entry.
    pub const fn start_of(sequence: u64) -> Self {
        Self { sequence, index: 0 }
    }
}

/// Where metadata is read from.
pub trait Disk {
    /// What reading may fail with.
    type Error;

    /// Reads `buf.len()` bytes, a multiple of 4 KiB, from sector `sector` on.
    ///
    /// Sectors are those of [`Layout`](super::Layout): counted from the first sector of zone 0, a
    /// multiple of 8.
    ///
    /// # Errors
    ///
    /// If anything of it cannot be read. `buf` may then hold anything.
    fn read(&mut self, sector: u64, buf: &mut [u8]) -> Result<(), Self::Error>;
}
