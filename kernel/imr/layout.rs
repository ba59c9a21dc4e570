// SPDX-License-Identifier: GPL-2.0-only

//! What lies where on the backing device.
//!
//! ```text
//!   | zone 0 | zone 1 | ... | superblock | superblock | journal | slots of zone 0 | ... |
//!   |<----- data_sectors -->|<---------------- metadata_sectors ----------------------->|
//! ```
//!
//! The metadata lies behind the data zones and consists of
//!
//! * two copies of the superblock, each a header of 4 KiB and the slot map (4 bits for each zone),
//!   rounded up to 4 KiB;
//! * the journal, a ring of entries of 8 KiB: 1/4096 of the data (64 KiB for a zone of 256 MiB), at
//!   least 512 KiB and at most 64 MiB;
//! * for each zone two slots, written in turns, each with a header of 4 KiB, the mapping table
//!   (2 bytes for each block) and the bitmap of mapped blocks (1 bit for each block), these two
//!   together rounded up to 4 KiB.
//!
//! That is 0.131 % of the data for drives of 2 GiB to 256 GiB with the default geometry, less for
//! larger ones. All positions are in sectors of 512 bytes and are multiples of 8. The format is
//! that of [`ondisk`](super::ondisk).

use super::{
    geometry::Geometry,
    num,
    ondisk::{
        ring,
        Ring,
        BLOCK_BYTES,
        ZONES_PER_WORD, //
    },
    units::{
        BLOCK_SECTORS,
        BLOCK_SIZE,
        SECTOR_SIZE, //
    },
};

const BLOCK: u64 = num::wide(BLOCK_SIZE);
const SECTOR: u64 = num::wide(SECTOR_SIZE);
const BLOCK_IN_SECTORS: u64 = num::wide(BLOCK_SECTORS);
const WORD: u64 = 8;

/// Copies of the superblock.
const SUPERBLOCKS: u64 = 2;
/// Slots of a zone.
const SLOTS: u64 = 2;

const ENTRY_BYTES: u64 = ring::ENTRY_SECTORS * SECTOR;
const DATA_PER_JOURNAL: u64 = 4096;
const JOURNAL_MIN_ENTRIES: u64 = (512 << 10) / ENTRY_BYTES;
const JOURNAL_MAX_ENTRIES: u64 = (64 << 20) / ENTRY_BYTES;

/// The layout of a device with so many zones.
///
/// # Invariants
///
/// The number of its last sector, and every number below, fits in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    geometry: Geometry,
    zones: u64,
    data_sectors: u64,
    superblock_sectors: u64,
    journal_entries: u64,
    slot_sectors: u64,
    metadata_sectors: u64,
}

impl Layout {
    /// The layout of a device of `zones` zones of this geometry; `None` if it has more sectors
    /// than 64 bits count.
    pub fn new(geometry: &Geometry, zones: u64) -> Option<Self> {
        let data_sectors = zones.checked_mul(geometry.zone_sectors())?;
        let entries = data_sectors
            .div_ceil(ring::ENTRY_SECTORS * DATA_PER_JOURNAL)
            .clamp(JOURNAL_MIN_ENTRIES, JOURNAL_MAX_ENTRIES);
        Self::with_journal(geometry, zones, entries)
    }

    /// The same with a journal of `entries` entries; `None` also if that is too few
    /// ([`MIN_ENTRIES`](ring::MIN_ENTRIES)).
    pub fn with_journal(geometry: &Geometry, zones: u64, entries: u64) -> Option<Self> {
        if entries < ring::MIN_ENTRIES {
            return None;
        }
        let data_sectors = zones.checked_mul(geometry.zone_sectors())?;
        let map_bytes = zones.div_ceil(ZONES_PER_WORD).checked_mul(WORD)?;
        let superblock_sectors = map_bytes
            .div_ceil(BLOCK)
            .checked_add(1)?
            .checked_mul(BLOCK_IN_SECTORS)?;
        let slot_sectors = BLOCK_IN_SECTORS + body_bytes(geometry) / SECTOR;
        let metadata_sectors = zones
            .checked_mul(SLOTS * slot_sectors)?
            .checked_add(superblock_sectors.checked_mul(SUPERBLOCKS)?)?
            .checked_add(entries.checked_mul(ring::ENTRY_SECTORS)?)?;
        data_sectors.checked_add(metadata_sectors)?;
        // INVARIANT: just checked; the parts are smaller than their sum.
        Some(Self {
            geometry: *geometry,
            zones,
            data_sectors,
            superblock_sectors,
            journal_entries: entries,
            slot_sectors,
            metadata_sectors,
        })
    }

    /// The most zones whose data and metadata fit on a device of `device_sectors` sectors.
    pub fn zones_that_fit(geometry: &Geometry, device_sectors: u64) -> u64 {
        let fits = |zones| {
            Self::new(geometry, zones).is_some_and(|it| it.total_sectors() <= device_sectors)
        };
        // The more zones, the more sectors. `low` fits or is 0; what is above `high` does not fit.
        let (mut low, mut high) = (0, num::quotient(device_sectors, geometry.zone_sectors()));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// The geometry.
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Zones.
    pub const fn zones(&self) -> u64 {
        self.zones
    }

    /// Sectors of the zones together: the size of the simulated drive.
    pub const fn data_sectors(&self) -> u64 {
        self.data_sectors
    }

    /// Sectors of all metadata.
    pub const fn metadata_sectors(&self) -> u64 {
        self.metadata_sectors
    }

    /// Sectors of data and metadata.
    pub const fn total_sectors(&self) -> u64 {
        self.data_sectors + self.metadata_sectors
    }

    /// The first sector of copy `copy` of the superblock, 0 or 1; `None` for any other.
    pub fn superblock(&self, copy: u64) -> Option<u64> {
        (copy < SUPERBLOCKS).then(|| self.data_sectors + copy * self.superblock_sectors)
    }

    /// Sectors of one copy of the superblock.
    pub const fn superblock_sectors(&self) -> u64 {
        self.superblock_sectors
    }

    /// Blocks of one copy of the superblock: the header, and those of the slot map.
    pub fn superblock_blocks(&self) -> usize {
        length(self.superblock_sectors / BLOCK_IN_SECTORS)
    }

    /// Bytes of one copy of the superblock.
    pub fn superblock_bytes(&self) -> usize {
        self.superblock_blocks().saturating_mul(BLOCK_BYTES)
    }

    /// Words of the slot map in memory.
    pub fn map_words(&self) -> usize {
        length(self.zones.div_ceil(ZONES_PER_WORD))
    }

    /// The first sector of the journal.
    pub const fn journal(&self) -> u64 {
        self.data_sectors + SUPERBLOCKS * self.superblock_sectors
    }

    /// Sectors of the journal.
    pub const fn journal_sectors(&self) -> u64 {
        self.journal_entries * ring::ENTRY_SECTORS
    }

    /// Entries of the journal.
    pub const fn journal_entries(&self) -> u64 {
        self.journal_entries
    }

    /// The journal as a ring.
    pub const fn ring(&self) -> Ring {
        Ring::new(self.journal_entries, self.journal())
    }

    /// The first sector of the slots.
    pub const fn slots(&self) -> u64 {
        self.journal() + self.journal_sectors()
    }

    /// The first sector of slot `slot`, 0 or 1, of a zone; `None` if there is no such slot. The
    /// header lies there and the body behind it.
    pub fn slot(&self, zone: u64, slot: u64) -> Option<u64> {
        (zone < self.zones && slot < SLOTS)
            .then(|| self.slots() + (zone * SLOTS + slot) * self.slot_sectors)
    }

    /// Sectors of a slot.
    pub const fn slot_sectors(&self) -> u64 {
        self.slot_sectors
    }

    /// Blocks of a slot's body: the slot without its header.
    pub fn body_blocks(&self) -> usize {
        length(self.slot_sectors / BLOCK_IN_SECTORS).saturating_sub(1)
    }
}

/// Bytes of a slot's body: the table, the bitmap from a multiple of 8 bytes on, zeros up to a
/// multiple of 4 KiB; at most 136 KiB.
fn body_bytes(geometry: &Geometry) -> u64 {
    let blocks = num::wide(geometry.zone_blocks());
    let table = (2 * blocks).next_multiple_of(WORD);
    (table + blocks.div_ceil(u64::BITS.into()) * WORD).next_multiple_of(BLOCK)
}

/// `n` as the length of something that a caller holds in memory; what does not fit in an address
/// space no slice can have.
fn length(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
