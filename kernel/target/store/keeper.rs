// SPDX-License-Identifier: GPL-2.0-only

//! The superblock and the buffers: what the one who writes metadata works with.

use super::{journal::Change, Context};
use crate::{
    dm::{zeros, IoBuffer, Status, SyncIo},
    imr::{
        ondisk::{entry::format_block, Block, Ring, Superblock, Uuid, BLOCK_BYTES},
        Geometry, Zone, BLOCK_SECTORS, SECTOR_SIZE,
    },
};
use kernel::{
    alloc::AllocError,
    prelude::*, //
};

/// Bytes of an entry: two copies of a block.
pub(super) const ENTRY_BYTES: usize = 2 * BLOCK_BYTES;

/// Entries written together at most: what fits in a buffer.
pub(super) const BATCH: usize = 8;

/// The buffer's size: `2^4` pages.
const BUFFER_ORDER: u32 = 4;

/// The state of the metadata on the device, and memory to write more.
pub(super) struct Keeper {
    /// The newest superblock; both copies are this.
    pub(super) superblock: Superblock,
    /// Which slot of each zone counts.
    pub(super) map: KVVec<u64>,
    /// The journal's places.
    pub(super) ring: Ring,
    /// The number of the next entry.
    pub(super) head: u64,
    /// For I/O: 64 KiB.
    pub(super) buffer: IoBuffer,
    /// Changes on their way into entries.
    pub(super) changes: KVVec<Change>,
    /// A zone's table as it was at some moment.
    pub(super) table: KVVec<u16>,
    /// A zone's bits as they were at some moment, of which the first part are the mapped blocks.
    pub(super) mapped: KVVec<u64>,
}

impl Keeper {
    /// A keeper with buffers, for a superblock that was loaded with its map.
    pub(super) fn new(
        geometry: &Geometry,
        superblock: Superblock,
        ring: Ring,
        map: KVVec<u64>,
        head: u64,
    ) -> Result<Self, AllocError> {
        let words = usize::try_from(geometry.zone_blocks().div_ceil(u64::BITS)).unwrap_or(0);
        Ok(Keeper {
            superblock,
            map,
            ring,
            head,
            buffer: IoBuffer::new(BUFFER_ORDER)?,
            changes: KVVec::from_elem(Change::default(), 2048, GFP_KERNEL)?,
            table: zeros(Zone::table_len(geometry))?,
            mapped: zeros(words)?,
        })
    }

    /// Writes both copies of a superblock, one after the other; from then on it is the newest.
    ///
    /// `first` is the copy to begin with: one that may be damaged, if there is one.
    pub(super) fn write_superblock(
        &mut self,
        cx: Context<'_>,
        superblock: Superblock,
        first: u64,
    ) -> Result<(), Status> {
        for copy in [first, 1 - first] {
            write_copy(cx, &superblock, &self.map, copy, &mut self.buffer)?;
        }
        self.superblock = superblock;
        *cx.store().superblock.lock() = Some(superblock);
        Ok(())
    }
}

/// Writes one copy of a superblock: the map, then, when that is durable, the header.
pub(super) fn write_copy(
    cx: Context<'_>,
    superblock: &Superblock,
    map: &[u64],
    copy: u64,
    buffer: &mut IoBuffer,
) -> Result<(), Status> {
    let start = cx.layout().superblock(copy).ok_or(Status::IO_ERROR)?;
    for index in (0..cx.layout().superblock_blocks()).rev() {
        let block = first_block(buffer)?;
        superblock.encode_block(map, index, block);
        let sector = start + index as u64 * u64::from(BLOCK_SECTORS);
        // The header is the last: it has the checksum of the map.
        let order = if index == 0 {
            SyncIo::Barrier
        } else {
            SyncIo::Plain
        };
        write(cx, sector, buffer, BLOCK_BYTES, order)?;
    }
    Ok(())
}

/// The first block of a buffer.
pub(super) fn first_block(buffer: &mut IoBuffer) -> Result<&mut Block, Status> {
    buffer.first_chunk_mut().ok_or(Status::IO_ERROR)
}

/// Writes a part of the metadata.
pub(super) fn write(
    cx: Context<'_>,
    sector: u64,
    buffer: &mut IoBuffer,
    len: usize,
    order: SyncIo,
) -> Result<(), Status> {
    let status = cx.device.write(cx.sector(sector), buffer, len, order);
    if status.is_ok() {
        Ok(())
    } else {
        Err(status)
    }
}

/// Fills the journal with what a new drive has there, durably.
pub(super) fn format_journal(
    cx: Context<'_>,
    uuid: &Uuid,
    buffer: &mut IoBuffer,
) -> Result<(), Status> {
    for piece in buffer.chunks_exact_mut(BLOCK_BYTES) {
        if let Some(block) = piece.first_chunk_mut() {
            format_block(block, uuid);
        }
    }
    let mut sector = cx.layout().journal();
    let end = sector + cx.layout().journal_sectors();
    let at_once = buffer.len() as u64 / u64::from(SECTOR_SIZE);
    while sector < end {
        let sectors = (end - sector).min(at_once);
        let len = usize::try_from(sectors * u64::from(SECTOR_SIZE)).unwrap_or(0);
        write(cx, sector, buffer, len, SyncIo::Plain)?;
        sector += sectors;
    }
    match cx.device.flush() {
        status if status.is_ok() => Ok(()),
        status => Err(status),
    }
}
