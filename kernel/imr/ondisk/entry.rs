// SPDX-License-Identifier: GPL-2.0-only

//! An entry of the journal: a block of records, written twice behind each other.
//!
//! Each of the block's eight sectors carries its own number, checksum and the entry's sequence
//! number and epoch, so that after a crash a sector that was not written can be told from one that
//! is damaged: see [`sector_state`]. Records do not cross sectors.
//!
//! | bytes of a sector | field |
//! | --- | --- |
//! | 0..48, of the first only | magic, version, number of records, UUID, start of the batch |
//! | up to 488 | records, then zeros |
//! | 488..512 | sequence, epoch, number of the sector, checksum |

use super::{
    bytes::{
        get,
        get_u16,
        get_u32,
        get_u64,
        put,
        put_u16,
        put_u32,
        put_u64,
        CRC_AT, //
    },
    record::{
        self,
        Record,
        MAP_BYTES, //
    },
    Block,
    Crc,
    Refusal,
    Uuid,
    VERSION, //
};

/// The first eight bytes of an entry.
pub const MAGIC: [u8; 8] = *b"IMRSimJE";

/// Bytes of a sector.
pub(super) const SECTOR: usize = 512;
/// Where the records of a sector end.
const PAYLOAD: usize = 488;
/// Bytes of the header in the first sector.
const HEADER: usize = 48;
const _: () = assert!(HEADER + record::MAX_BYTES <= PAYLOAD);

/// The sequence of no entry: what formatting fills the journal with.
const NEVER: u64 = u64::MAX;

const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 8;
const AT_RECORDS: usize = 12;
const AT_UUID: usize = 16;
const AT_BATCH_START: usize = 32;

pub(super) const AT_SEQUENCE: usize = PAYLOAD;
const AT_EPOCH: usize = PAYLOAD + 8;
const AT_NUMBER: usize = PAYLOAD + 16;

/// The checksum of a sector: of the UUID and all but the four bytes it is stored in.
fn sector_crc(sector: &[u8], uuid: &Uuid) -> u32 {
    let covered = sector.get(..CRC_AT).unwrap_or(&[]);
    Crc::new().update(&uuid.0).update(covered).value()
}

/// Where the records of a sector begin.
const fn start_of_records(number: u16) -> usize {
    match number {
        0 => HEADER,
        _ => 0,
    }
}

/// Fills a block with records.
#[derive(Debug)]
pub struct EntryBuilder<'a> {
    block: &'a mut Block,
    records: u16,
    /// The sector that the next record goes to if it has room, and where in it.
    sector: u16,
    at: usize,
}

impl<'a> EntryBuilder<'a> {
    /// Records that always fit if all are of the longest kind.
    pub const MIN_RECORDS: usize =
        (PAYLOAD - HEADER) / record::MAX_BYTES + 7 * (PAYLOAD / record::MAX_BYTES);

    /// An entry without records in this block.
    pub fn new(block: &'a mut Block) -> Self {
        block.fill(0);
        Self {
            block,
            records: 0,
            sector: 0,
            at: HEADER,
        }
    }

    /// Adds a record. False, and nothing is changed, if there is no room for it, or if it is one
    /// that no zone can have.
    #[inline]
    pub fn push(&mut self, record: &Record) -> bool {
        match *record {
            Record::Map {
                zone,
                bo,
                nbo,
                blocks,
            } => match record::map_bytes(zone, bo, nbo, blocks) {
                Some(bytes) => self.add(MAP_BYTES, |to| {
                    put(to, 0, &bytes);
                    Some(MAP_BYTES)
                }),
                None => false,
            },
            _ => self.add(record.bytes(), |to| record.encode(to)),
        }
    }

    /// Adds a record of `bytes` bytes, which `encode` writes if it can.
    #[inline]
    fn add(&mut self, bytes: usize, encode: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let (sector, at) = if self.at + bytes <= PAYLOAD {
            (self.sector, self.at)
        } else {
            (self.sector + 1, 0)
        };
        let start = usize::from(sector) * SECTOR + at;
        let written = self
            .block
            .get_mut(start..)
            .and_then(|to| to.get_mut(..bytes))
            .and_then(encode);
        let Some(written) = written else {
            return false;
        };
        self.sector = sector;
        self.at = at + written;
        self.records += 1;
        true
    }

    /// Records so far: the index of the next.
    pub const fn records(&self) -> u16 {
        self.records
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Completes the entry. `batch_start` is the number of the first entry of those that are
    /// written together with this one; an entry may be written when all of earlier batches are on
    /// the device.
    pub fn seal(self, uuid: &Uuid, epoch: u64, sequence: u64, batch_start: u64) {
        let block = self.block;
        put(block, AT_MAGIC, &MAGIC);
        put_u32(block, AT_VERSION, VERSION);
        put_u16(block, AT_RECORDS, self.records);
        put(block, AT_UUID, &uuid.0);
        put_u64(block, AT_BATCH_START, batch_start);
        seal(block, uuid, epoch, sequence);
    }
}

/// Ends each sector of a block with its tag.
fn seal(block: &mut Block, uuid: &Uuid, epoch: u64, sequence: u64) {
    for (sector, number) in block.chunks_exact_mut(SECTOR).zip(0..) {
        put_u64(sector, AT_SEQUENCE, sequence);
        put_u64(sector, AT_EPOCH, epoch);
        put_u16(sector, AT_NUMBER, number);
        let crc = sector_crc(sector, uuid);
        put_u32(sector, CRC_AT, crc);
    }
}

/// Fills a block with what formatting writes to every block of the journal, both copies of each
/// entry: no entry, but marks of the drive, so that what was never written can be told from what
/// is damaged.
pub fn format_block(block: &mut Block, uuid: &Uuid) {
    block.fill(0);
    seal(block, uuid, 0, NEVER);
}

/// Why a block is not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// It is damaged, or something else.
    Invalid,
    /// It is one, but must not be skipped.
    Refused(Refusal),
}

/// An entry whose checksums are right.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    block: &'a Block,
    sequence: u64,
    epoch: u64,
    batch_start: u64,
    records: u16,
}

impl<'a> Entry<'a> {
    /// The entry of drive `uuid` in a block.
    ///
    /// # Errors
    ///
    /// If the block is not a whole one.
    pub fn decode(block: &'a Block, uuid: &Uuid) -> Result<Self, EntryError> {
        let sequence = get_u64(block, AT_SEQUENCE);
        let epoch = get_u64(block, AT_EPOCH);
        let whole = get(block, AT_MAGIC) == MAGIC
            && block
                .chunks_exact(SECTOR)
                .zip(0..)
                .all(|(sector, number)| tag(sector, uuid, number) == Some((sequence, epoch)));
        if !whole || Uuid(get(block, AT_UUID)) != *uuid {
            return Err(EntryError::Invalid);
        }
        if get_u32(block, AT_VERSION) != VERSION {
            return Err(EntryError::Refused(Refusal::UnknownVersion));
        }
        Ok(Self {
            block,
            sequence,
            epoch,
            batch_start: get_u64(block, AT_BATCH_START),
            records: get_u16(block, AT_RECORDS),
        })
    }

    /// Its number.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How often the metadata had been opened for writing when it was written.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the first entry of those it was written with.
    pub const fn batch_start(&self) -> u64 {
        self.batch_start
    }

    /// How many records it has.
    pub const fn len(&self) -> u16 {
        self.records
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Its records in order. The n-th has the position (sequence, n). Ends with the first error.
    pub const fn records(&self) -> Records<'a> {
        Records {
            block: self.block,
            expected: self.records,
            found: 0,
            sector: 0,
            at: HEADER,
            done: false,
        }
    }
}

/// Iterator over the records of an entry.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    block: &'a Block,
    expected: u16,
    found: u16,
    sector: u16,
    at: usize,
    done: bool,
}

impl Records<'_> {
    fn step(&mut self) -> Result<Option<Record>, Refusal> {
        while let Some(sector) = self
            .block
            .get(usize::from(self.sector) * SECTOR..)
            .and_then(|rest| rest.get(..PAYLOAD))
        {
            let rest = sector.get(self.at..).unwrap_or(&[]);
            if let Some((record, bytes)) = Record::decode(rest)? {
                self.at += bytes;
                self.found = self.found.saturating_add(1);
                return Ok(Some(record));
            }
            self.sector += 1;
            self.at = start_of_records(self.sector);
        }
        if self.found == self.expected {
            Ok(None)
        } else {
            Err(Refusal::BadRecord)
        }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.step().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The sequence and epoch of an intact sector with this number of an entry of drive `uuid`.
fn tag(sector: &[u8], uuid: &Uuid, number: u16) -> Option<(u64, u64)> {
    (get_u16(sector, AT_NUMBER) == number && get_u32(sector, CRC_AT) == sector_crc(sector, uuid))
        .then(|| (get_u64(sector, AT_SEQUENCE), get_u64(sector, AT_EPOCH)))
}

/// What a sector says about the entry that should be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectorState {
    /// It is a part of the entry.
    Written,
    /// It is intact and what was there before the entry: the entry was not written here.
    NotWritten,
    /// It is neither: it may have been a part of the entry.
    Damaged,
}

/// What sector `number` of a block says about entry `sequence` of epoch `epoch`, in a journal of
/// `entries` entries.
pub(super) fn sector_state(
    sector: &[u8],
    uuid: &Uuid,
    number: u16,
    (sequence, epoch): (u64, u64),
    entries: u64,
) -> SectorState {
    let Some(found) = tag(sector, uuid, number) else {
        return SectorState::Damaged;
    };
    let before = match found.0 {
        NEVER => sequence < entries,
        other => other <= sequence && (sequence - other).checked_rem(entries) == Some(0),
    };
    if found == (sequence, epoch) {
        SectorState::Written
    } else if before {
        SectorState::NotWritten
    } else {
        SectorState::Damaged
    }
}
