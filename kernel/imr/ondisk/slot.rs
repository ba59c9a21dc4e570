// SPDX-License-Identifier: GPL-2.0-only

//! A slot: the table of a zone as it was at one position of the journal.
//!
//! A slot is a header block and a body. The body is the mapping table (a 16-bit number for each
//! logical block, zero if it is not mapped), zeros up to a multiple of 8 bytes, the bitmap of mapped
//! blocks (64-bit words), and zeros up to a multiple of 4 KiB. It is encoded and decoded a block at
//! a time, because it is too large for one allocation in the kernel. The header has its checksum.

use super::{
    super::{
        bitmap,
        geometry::Geometry,
        num,
        stats::Stats, //
    },
    bytes::{
        get,
        get_u16,
        get_u32,
        get_u64,
        header_is_intact,
        put,
        put_u16,
        put_u32,
        put_u64,
        seal_header,
        CRC_AT, //
    },
    Block,
    Crc,
    Position,
    Refusal,
    Uuid,
    BLOCK_BYTES,
    VERSION, //
};

/// The first eight bytes of a slot.
pub const MAGIC: [u8; 8] = *b"IMRSimZT";

const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 8;
const AT_MAPPED: usize = 12;
const AT_UUID: usize = 16;
const AT_ZONE: usize = 32;
const AT_GENERATION: usize = 40;
const AT_SEQUENCE: usize = 48;
const AT_INDEX: usize = 56;
const AT_BODY_CRC: usize = 60;
const AT_BODY_BYTES: usize = 64;
const AT_COUNTERS: usize = 68;
const AT_STATS: usize = 72;
const _: () = assert!(AT_STATS + Stats::BYTES <= CRC_AT);

const ENTRY: usize = size_of::<u16>();
const WORD: usize = size_of::<u64>();

/// The header of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotHeader {
    /// The zone.
    pub zone: u64,
    /// How often the zone was checkpointed; of two slots the larger is the newer.
    pub generation: u64,
    /// The records of the zone before here are in the table, and no others.
    pub position: Position,
    /// The counters of the zone at that position.
    pub stats: Stats,
    /// How many blocks are mapped.
    pub mapped: u32,
    /// The checksum of the body.
    pub body_crc: u32,
}

impl SlotHeader {
    /// Fills a block with the header.
    pub fn encode(&self, uuid: &Uuid, geometry: &Geometry, block: &mut Block) {
        block.fill(0);
        put(block, AT_MAGIC, &MAGIC);
        put_u32(block, AT_VERSION, VERSION);
        put_u32(block, AT_MAPPED, self.mapped);
        put(block, AT_UUID, &uuid.0);
        put_u64(block, AT_ZONE, self.zone);
        put_u64(block, AT_GENERATION, self.generation);
        put_u64(block, AT_SEQUENCE, self.position.sequence);
        put_u16(block, AT_INDEX, self.position.index);
        put_u32(block, AT_BODY_CRC, self.body_crc);
        put_u32(block, AT_BODY_BYTES, body_bytes(geometry));
        let stats = self.stats.to_bytes();
        // At most as many as a header has room for.
        let counters = u32::try_from(stats.len() / WORD).unwrap_or(0);
        put_u32(block, AT_COUNTERS, counters);
        put(block, AT_STATS, &stats);
        seal_header(block);
    }

    /// The header in a block.
    ///
    /// # Errors
    ///
    /// [`ZoneDamaged`](Refusal::ZoneDamaged) if it is not the intact header of a slot of this zone
    /// of this drive; anything else if it is, but cannot be used.
    pub fn decode(
        block: &Block,
        uuid: &Uuid,
        geometry: &Geometry,
        zone: u64,
    ) -> Result<Self, Refusal> {
        let intact = get(block, AT_MAGIC) == MAGIC
            && header_is_intact(block)
            && Uuid(get(block, AT_UUID)) == *uuid
            && get_u64(block, AT_ZONE) == zone;
        if !intact {
            return Err(Refusal::ZoneDamaged);
        }
        if get_u32(block, AT_VERSION) != VERSION {
            return Err(Refusal::UnknownVersion);
        }
        let counters = num::index(get_u32(block, AT_COUNTERS));
        let stats = counters
            .checked_mul(WORD)
            .and_then(|bytes| AT_STATS.checked_add(bytes))
            .filter(|end| *end <= CRC_AT)
            .and_then(|end| block.get(AT_STATS..end))
            .ok_or(Refusal::BadTable)?;
        if get_u32(block, AT_BODY_BYTES) != body_bytes(geometry) {
            return Err(Refusal::BadTable);
        }
        Ok(Self {
            zone,
            generation: get_u64(block, AT_GENERATION),
            position: Position {
                sequence: get_u64(block, AT_SEQUENCE),
                index: get_u16(block, AT_INDEX),
            },
            stats: Stats::from_bytes(stats),
            mapped: get_u32(block, AT_MAPPED),
            body_crc: get_u32(block, AT_BODY_CRC),
        })
    }
}

/// Bytes of the table, up to where the bitmap begins.
fn table_bytes(geometry: &Geometry) -> usize {
    (num::index(geometry.zone_blocks()) * ENTRY).next_multiple_of(WORD)
}

/// Bytes of the body without the zeros at the end.
fn body_bytes(geometry: &Geometry) -> u32 {
    let bytes = table_bytes(geometry) + bitmap::words(geometry.zone_blocks()) * WORD;
    // At most 136 KiB.
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Blocks of a body.
pub fn body_blocks(geometry: &Geometry) -> usize {
    num::index(body_bytes(geometry)).div_ceil(BLOCK_BYTES)
}

/// Where the words of block `index` of a body are in it, in bytes.
fn words_of(index: usize) -> impl Iterator<Item = usize> {
    let start = index.saturating_mul(BLOCK_BYTES);
    (0..BLOCK_BYTES)
        .step_by(WORD)
        .map(move |at| start.saturating_add(at))
}

/// Fills `block` with block `index` of the body for this table and bitmap, those of
/// [`Zone::table`](super::super::Zone::table) and
/// [`Zone::mapped_words`](super::super::Zone::mapped_words).
pub fn encode_body(
    geometry: &Geometry,
    table: &[u16],
    mapped: &[u64],
    index: usize,
    block: &mut Block,
) {
    let table_bytes = table_bytes(geometry);
    // A word of the body is four entries or a word of the bitmap: neither crosses blocks.
    for (bytes, at) in block.chunks_exact_mut(WORD).zip(words_of(index)) {
        let word = match at.checked_sub(table_bytes) {
            None => four_entries(table, mapped, at / ENTRY),
            Some(at) => mapped.get(at / WORD).copied().unwrap_or(0),
        };
        put_u64(bytes, 0, word);
    }
}

/// The entries of `bo`, a multiple of four, and the three behind it, as a word: 0 where a block is not
/// mapped.
fn four_entries(table: &[u16], mapped: &[u64], bo: usize) -> u64 {
    let bits = mapped_bits(mapped, bo) & 0xf;
    let entries = table.get(bo..).unwrap_or(&[]);
    match (bits, entries) {
        (0, _) => 0,
        // As nearly always.
        (0xf, [a, b, c, d, ..]) => {
            u64::from(*a) | u64::from(*b) << 16 | u64::from(*c) << 32 | u64::from(*d) << 48
        }
        _ => (0..4).zip(entries).fold(0, |word, (i, entry)| {
            word | (u64::from(*entry) * ((bits >> i) & 1)) << (16 * i)
        }),
    }
}

/// The bits of the logical blocks from `bo`, a multiple of four, on; at least four of them.
fn mapped_bits(mapped: &[u64], bo: usize) -> u64 {
    let word = mapped.get(bo / 64).copied().unwrap_or(0);
    word >> (bo % 64)
}

/// Takes block `index` of a body into the table and the bitmap.
pub fn decode_body(
    geometry: &Geometry,
    table: &mut [u16],
    mapped: &mut [u64],
    index: usize,
    block: &Block,
) {
    let start = index.saturating_mul(BLOCK_BYTES);
    let table_bytes = table_bytes(geometry);
    // What is left of the table, and what of the bitmap then fits.
    let (entries, words) = block.split_at(table_bytes.saturating_sub(start).min(BLOCK_BYTES));
    let table = table.get_mut(start / ENTRY..).unwrap_or_default();
    for (entry, bytes) in table.iter_mut().zip(entries.chunks_exact(ENTRY)) {
        *entry = get_u16(bytes, 0);
    }
    let first = start.saturating_sub(table_bytes) / WORD;
    let mapped = mapped.get_mut(first..).unwrap_or_default();
    for (word, bytes) in mapped.iter_mut().zip(words.chunks_exact(WORD)) {
        *word = get_u64(bytes, 0);
    }
}

/// The checksum of a whole body, encoded block by block into `block`.
pub fn body_crc(geometry: &Geometry, table: &[u16], mapped: &[u64], block: &mut Block) -> u32 {
    (0..body_blocks(geometry))
        .fold(Crc::new(), |crc, index| {
            encode_body(geometry, table, mapped, index, block);
            crc.update(&*block)
        })
        .value()
}
