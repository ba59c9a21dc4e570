// SPDX-License-Identifier: GPL-2.0-only

//! A drive of which every block is mapped, without the time it takes to write it: its metadata only.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use imrsim_core::ondisk::{
    entry::format_block, slot, Block, EntryBuilder, Position, Record, SlotHeader, SlotMapMut,
    Superblock, Uuid, BLOCK_BYTES,
};
use imrsim_core::{Bo, Geometry, Layout, Nbo, Settings, Stats, Zone};

use crate::content::SECTOR;

const UUID: Uuid = Uuid(*b"a full imr drive");
/// How the drive was opened when it was written.
const EPOCH: u64 = 1;

/// Writes the metadata of a full drive to a device of zeros, or to a file, which is made as long as it must be.
///
/// Each zone is mapped in reverse order. With a journal the drive was stopped by a crash, with so many entries that
/// are in no slot: the last blocks of all zones, in turns, a record for each. Returns the number of the records.
pub fn write(path: &Path, layout: &Layout, journal: Option<u64>) -> io::Result<u64> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    if file.metadata()?.is_file() {
        file.set_len(layout.total_sectors() * SECTOR as u64)?;
    }
    let records = write_journal(&file, layout, journal.unwrap_or(0))?;
    let map = write_slots(&file, layout, records)?;
    let formatted = Superblock::new(layout.geometry(), layout.zones(), Settings::DEFAULT, UUID);
    let opened = formatted.open(0);
    let superblock = match journal {
        Some(_) => opened,
        None => opened.close(0, 0, Settings::DEFAULT),
    };
    let mut bytes = vec![0; layout.superblock_bytes()];
    superblock.encode(&map, &mut bytes);
    for sector in (0..2).filter_map(|copy| layout.superblock(copy)) {
        put(&file, sector, &bytes)?;
    }
    file.sync_data()?;
    Ok(records)
}

fn put(file: &File, sector: u64, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, sector * SECTOR as u64)
}

/// Fills the journal: `entries` entries, then places that were never used.
fn write_journal(file: &File, layout: &Layout, entries: u64) -> io::Result<u64> {
    let mut records = 0;
    let mut block: Block = [0; BLOCK_BYTES];
    for sequence in 0..layout.journal_entries() {
        if sequence < entries {
            let mut builder = EntryBuilder::new(&mut block);
            while builder.push(&record(layout, records)) {
                records += 1;
            }
            builder.seal(&UUID, EPOCH, sequence, sequence);
        } else {
            format_block(&mut block, &UUID);
        }
        put(
            file,
            layout.ring().sector_of(sequence),
            &[block, block].concat(),
        )?;
    }
    Ok(records)
}

/// A record of the journal: the zones in turns, each from its last block on.
fn record(layout: &Layout, number: u64) -> Record {
    let geometry = layout.geometry();
    // One that is too large is refused by the entry.
    let back = u32::try_from(number / layout.zones()).unwrap_or(u32::MAX);
    Record::Map {
        zone: number % layout.zones(),
        bo: Bo(last(geometry).saturating_sub(back)),
        nbo: Nbo(back),
        blocks: 1,
    }
}

fn last(geometry: &Geometry) -> u32 {
    geometry.zone_blocks() - 1
}

/// Writes a slot of each zone, with all but what the journal has. Returns which of the two slots count.
fn write_slots(file: &File, layout: &Layout, records: u64) -> io::Result<Vec<u64>> {
    // The first zones may have a record more than the others.
    let (each, more) = (records / layout.zones(), records % layout.zones());
    let longer = slot_without(layout.geometry(), each + 1)?;
    let shorter = slot_without(layout.geometry(), each)?;
    let mut map = vec![0; layout.map_words()];
    for zone in 0..layout.zones() {
        let (header, mut bytes) = if zone < more { &longer } else { &shorter }.clone();
        let block = bytes.first_chunk_mut().ok_or(io::ErrorKind::InvalidData)?;
        SlotHeader { zone, ..header }.encode(&UUID, layout.geometry(), block);
        let sector = layout.slot(zone, 1).ok_or(io::ErrorKind::InvalidData)?;
        put(file, sector, &bytes)?;
        SlotMapMut::new(&mut map).set(zone, 1);
    }
    Ok(map)
}

/// A slot of a zone in which all but the last `missing` blocks are mapped, in reverse order: its header, and its bytes
/// with room for that.
fn slot_without(geometry: &Geometry, missing: u64) -> io::Result<(SlotHeader, Vec<u8>)> {
    let mapped_blocks = u64::from(geometry.zone_blocks())
        .checked_sub(missing)
        .and_then(|blocks| u32::try_from(blocks).ok())
        .ok_or_else(|| io::Error::other("the journal has more records than the zones blocks"))?;
    let mut table = vec![0; Zone::table_len(geometry)];
    let mut mapped = vec![0; geometry.zone_blocks().div_ceil(u64::BITS) as usize];
    for (bo, nbo) in (0..mapped_blocks as usize).zip((0..=last(geometry)).rev()) {
        table[bo] = nbo as u16;
        mapped[bo / 64] |= 1 << (bo % 64);
    }
    let mut block: Block = [0; BLOCK_BYTES];
    let header = SlotHeader {
        zone: 0,
        generation: 1,
        position: Position::default(),
        stats: Stats::default(),
        mapped: mapped_blocks,
        body_crc: slot::body_crc(geometry, &table, &mapped, &mut block),
    };
    let mut bytes = vec![0; BLOCK_BYTES];
    for index in 0..slot::body_blocks(geometry) {
        slot::encode_body(geometry, &table, &mapped, index, &mut block);
        bytes.extend(block);
    }
    Ok((header, bytes))
}
