// SPDX-License-Identifier: GPL-2.0-only

//! Writing the tables of the zones that have changed, so that the journal before can be given up.

use super::{
    keeper::{self, Keeper},
    Context,
};
use crate::{
    dm::{Status, SyncIo},
    imr::{
        ondisk::{slot, Crc, SlotHeader, SlotMap, SlotMapMut, BLOCK_BYTES},
        Stats, BLOCK_SECTORS,
    },
};

/// What is known of a zone's table at the moment it was copied.
struct Snapshot {
    stats: Stats,
    mapped: u32,
    generation: u64,
    /// The number of the first change that is not in it.
    changes: u64,
}

impl Keeper {
    /// Writes every table with changes, and moves the journal's tail to where it was when this began.
    ///
    /// Commits go on in between: each table needs one before its header is written, so that the
    /// journal has all that the table has.
    pub(super) fn checkpoint(&mut self, cx: Context<'_>) -> Result<(), Status> {
        self.commit(cx, None)?;
        let tail = self.head;
        for zone in 0..cx.zones().len() {
            if let Some(snapshot) = self.snapshot(cx, zone) {
                self.write_slot(cx, zone, &snapshot)?;
                // Whoever waits does not wait for the end.
                self.try_commit(cx)?;
            }
        }
        let superblock = self
            .superblock
            .checkpoint(tail, self.head, self.superblock.settings);
        self.write_superblock(cx, superblock, 0)?;
        self.unthrottle(cx);
        Ok(())
    }

    /// Copies a zone's table, if it has changes that are in no slot.
    fn snapshot(&mut self, cx: Context<'_>, zone: u64) -> Option<Snapshot> {
        let mut slot = cx.zones().lock(zone)?;
        let geometry = cx.layout().geometry();
        let data = slot.data.as_mut().filter(|data| data.dirty)?;
        let (stats, generation) = (data.stats, data.generation + 1);
        let view = data.zone(geometry)?;
        self.table.copy_from_slice(view.table());
        self.mapped.copy_from_slice(view.mapped_words());
        let mapped = view.mapped_blocks();
        data.dirty = false;
        data.generation = generation;
        data.saved_stats = stats;
        Some(Snapshot {
            stats,
            mapped,
            generation,
            // Under the zone's lock, which those who record its changes hold.
            changes: cx.store().changes(),
        })
    }

    /// Writes a table to the slot of its zone that does not count; from then on it counts.
    fn write_slot(
        &mut self,
        cx: Context<'_>,
        zone: u64,
        snapshot: &Snapshot,
    ) -> Result<(), Status> {
        let (_, position) = self.commit(cx, Some(snapshot.changes))?;
        let target = match SlotMap::new(&self.map).get(zone) {
            Some(counts) => 1 - counts,
            None => 0,
        };
        let start = cx.layout().slot(zone, target).ok_or(Status::IO_ERROR)?;
        let body_crc = self.write_body(cx, start + u64::from(BLOCK_SECTORS))?;
        let header = SlotHeader {
            zone,
            generation: snapshot.generation,
            position,
            stats: snapshot.stats,
            mapped: snapshot.mapped,
            body_crc,
        };
        let block = keeper::first_block(&mut self.buffer)?;
        header.encode(&self.superblock.uuid, cx.layout().geometry(), block);
        // A barrier: the body, and the data of all that is mapped, are durable before it counts.
        keeper::write(cx, start, &mut self.buffer, BLOCK_BYTES, SyncIo::Barrier)?;
        SlotMapMut::new(&mut self.map).set(zone, target);
        Ok(())
    }

    /// Writes the body of a slot from `sector` on. Returns its checksum.
    fn write_body(&mut self, cx: Context<'_>, sector: u64) -> Result<u32, Status> {
        let geometry = cx.layout().geometry();
        let blocks = cx.layout().body_blocks();
        let at_once = self.buffer.len() / BLOCK_BYTES;
        let mut crc = Crc::new();
        for first in (0..blocks).step_by(at_once) {
            let count = (blocks - first).min(at_once);
            let pieces = self.buffer.chunks_exact_mut(BLOCK_BYTES).take(count);
            for (piece, index) in pieces.zip(first..) {
                let block = piece.first_chunk_mut().ok_or(Status::IO_ERROR)?;
                slot::encode_body(geometry, &self.table, &self.mapped, index, block);
                crc = crc.update(&*block);
            }
            let at = sector + first as u64 * u64::from(BLOCK_SECTORS);
            keeper::write(cx, at, &mut self.buffer, count * BLOCK_BYTES, SyncIo::Plain)?;
        }
        Ok(crc.value())
    }
}
