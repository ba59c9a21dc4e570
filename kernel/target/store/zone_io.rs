// SPDX-License-Identifier: GPL-2.0-only

//! Reading metadata: the device as the format's [`Disk`], and the tables of zones.

use super::{super::zones::ZoneData, Context, This};
use crate::{
    dm::{without_io, zeros, Device, IoBuffer, ReadBatch, Status},
    imr::{
        ondisk::{load_zone, Block, Disk, LoadError, Refusal, SlotMap, SlotMapMut, Superblock},
        BLOCK_SECTORS, SECTOR_SIZE,
    },
};
use kernel::{
    prelude::*,
    sync::atomic::Relaxed, //
};

/// The longest read, in sectors.
const SECTORS_AT_ONCE: u64 = ReadBatch::BUFFER as u64 / SECTOR_SIZE as u64;
/// Headers of slots that are read at the same time.
pub(super) const HEADERS_AHEAD: u64 = 64;
/// Zones whose slots are read at the same time.
const ZONES_AHEAD: usize = 8;
/// Buffers that the slots of so many zones fill.
const BUFFERS_AHEAD: usize = 18;

/// The device, for reading metadata.
pub(super) struct MetadataDisk<'a> {
    cx: Context<'a>,
    buffer: IoBuffer,
    /// What was read before it was asked for. What is missing there, be it because it could not be read, is
    /// read when it is asked for, so that an error hits nothing else.
    ahead: ReadBatch,
    /// The zones whose slots that is.
    zones: KVec<u64>,
}

impl<'a> MetadataDisk<'a> {
    /// Reads through a buffer of 64 KiB, and ahead into some more.
    pub(super) fn new(cx: Context<'a>) -> Result<Self> {
        Ok(MetadataDisk {
            cx,
            buffer: IoBuffer::new(4)?,
            ahead: ReadBatch::new(BUFFERS_AHEAD),
            zones: KVec::with_capacity(ZONES_AHEAD, GFP_KERNEL)?,
        })
    }

    /// Reads the headers of slots ahead, which begin at these sectors.
    pub(super) fn read_headers_ahead(&mut self, sectors: impl Iterator<Item = u64>) {
        self.zones.clear();
        self.ahead.clear();
        for sector in sectors {
            self.add(sector, BLOCK_SECTORS.into());
        }
        self.ahead.run(self.cx.device, &self.cx.this.get().bios);
    }

    /// Reads ahead what [`read_zone`] needs for some zones, the first of those given that can be loaded.
    pub(super) fn read_slots_ahead(&mut self, map: &[u64], zones: impl Iterator<Item = u64>) {
        self.zones.clear();
        self.ahead.clear();
        let layout = self.cx.layout();
        let slots = |zone| {
            let counts = SlotMap::new(map).get(zone)?;
            Some((layout.slot(zone, counts)?, layout.slot(zone, 1 - counts)?))
        };
        for zone in zones {
            let Some((counts, other)) = slots(zone) else {
                continue;
            };
            if self.is_ahead(zone) {
                continue;
            }
            if self.zones.push_within_capacity(zone).is_err() {
                break;
            }
            self.add(counts, layout.slot_sectors());
            self.add(other, BLOCK_SECTORS.into());
        }
        self.ahead.run(self.cx.device, &self.cx.this.get().bios);
    }

    /// Whether a zone's slots were read ahead.
    pub(super) fn is_ahead(&self, zone: u64) -> bool {
        self.zones.contains(&zone)
    }

    /// Has some sectors read ahead, as far as there is room.
    fn add(&mut self, mut sector: u64, sectors: u64) {
        let end = sector.saturating_add(sectors);
        while sector < end {
            let piece = (end - sector).min(SECTORS_AT_ONCE);
            let bytes = piece as usize * SECTOR_SIZE as usize;
            if self.ahead.add(self.cx.sector(sector), bytes).is_err() {
                return;
            }
            sector += piece;
        }
    }

    fn read_piece(&mut self, sector: u64, piece: &mut [u8]) -> Result<(), Status> {
        let sector = self.cx.sector(sector);
        if let Some(found) = self.ahead.get(sector, piece.len()) {
            piece.copy_from_slice(found);
            return Ok(());
        }
        match self.cx.device.read(sector, &mut self.buffer, piece.len()) {
            status if status.is_ok() => {}
            status => return Err(status),
        }
        let found = self.buffer.get(..piece.len()).ok_or(Status::IO_ERROR)?;
        piece.copy_from_slice(found);
        Ok(())
    }
}

impl Disk for MetadataDisk<'_> {
    type Error = Status;

    fn read(&mut self, mut sector: u64, buf: &mut [u8]) -> Result<(), Status> {
        for piece in buf.chunks_mut(self.buffer.len()) {
            self.read_piece(sector, piece)?;
            sector = sector.wrapping_add(piece.len() as u64 / u64::from(SECTOR_SIZE));
        }
        Ok(())
    }
}

/// There is no memory: for `map_err`.
pub(super) fn no_memory<E>(_: E) -> LoadError<Status> {
    LoadError::Io(Status::RESOURCE)
}

/// A block of memory to work with.
pub(super) fn scratch() -> Result<KBox<Block>> {
    Ok(KBox::<Block>::zeroed(GFP_KERNEL)?)
}

/// Loads a zone's table from the slot that counts into memory of its own. [`None`] if it was never
/// checkpointed. May change which slot counts: see [`load_zone`]. With the end of the journal, if that is
/// known, refuses a table that has more than the journal.
pub(super) fn read_zone(
    disk: &mut MetadataDisk<'_>,
    cx: Context<'_>,
    superblock: &Superblock,
    map: &mut [u64],
    zone: u64,
    head: Option<u64>,
) -> Result<Option<ZoneData>, LoadError<Status>> {
    let layout = cx.layout();
    let mut data = ZoneData::new(layout.geometry()).map_err(no_memory)?;
    let mut block = scratch().map_err(no_memory)?;
    let mut view = data
        .zone(layout.geometry())
        .ok_or(LoadError::Refused(Refusal::BadTable))?;
    let memory = view.memory();
    let Some(loaded) = load_zone(disk, superblock, layout, map, zone, &mut block, memory)? else {
        return Ok(None);
    };
    if let Some(head) = head {
        loaded.check(head)?;
    }
    view.load().map_err(|e| LoadError::Refused(e.of_table()))?;
    data.stats = loaded.header.stats;
    data.saved_stats = loaded.header.stats;
    data.generation = loaded.header.generation;
    data.position = loaded.header.position;
    if loaded.fallback {
        pr_warn!("zone {zone}: the newer table is damaged, the older one is used\n");
    }
    Ok(Some(data))
}

/// Loads the table of a zone that the journal says nothing of, for the first access to it. `counts`
/// is the slot that counts.
pub(in super::super) fn load(
    this: This<'_>,
    device: &Device,
    zone: u64,
    counts: u64,
) -> Result<ZoneData, Status> {
    let cx = Context { this, device };
    let superblock = *cx.store().superblock.lock();
    let superblock = superblock.ok_or(Status::IO_ERROR)?;
    let head = cx.store().found.load(Relaxed);
    // A bio waits for this: memory must not wait for I/O.
    let loaded = without_io(|| {
        let mut disk = MetadataDisk::new(cx).map_err(no_memory)?;
        // The map itself is the keeper's. That the other slot is newer cannot be: then the journal would
        // have records of the zone, and it would be loaded.
        let mut map: KVVec<_> = zeros(cx.layout().map_words()).map_err(no_memory)?;
        SlotMapMut::new(&mut map).set(zone, counts);
        disk.read_slots_ahead(&map, core::iter::once(zone));
        // The position of the slot that counts was checked, but this may be the other one.
        read_zone(&mut disk, cx, &superblock, &mut map, zone, Some(head))
    });
    match loaded {
        Ok(Some(data)) => Ok(data),
        Ok(None) => Err(Status::IO_ERROR),
        Err(LoadError::Io(status)) => {
            pr_err!("zone {zone}: the table cannot be read\n");
            Err(status)
        }
        Err(LoadError::Refused(refusal)) => {
            pr_err!("zone {zone}: {}\n", refusal.text());
            Err(Status::IO_ERROR)
        }
    }
}
