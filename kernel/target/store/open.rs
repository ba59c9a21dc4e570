// SPDX-License-Identifier: GPL-2.0-only

//! Loading the metadata on resume, and closing it on suspend.

use super::{
    keeper::{self, Keeper, BATCH, ENTRY_BYTES},
    zone_io::{no_memory, read_zone, scratch, MetadataDisk, HEADERS_AHEAD},
    Context, Mode, This,
};
use crate::{
    dm::{random_bytes, zeros, IoBuffer, Status, SyncIo},
    imr::{
        ondisk::{
            is_empty, load_superblock, Block, Disk, EntryBuilder, LoadError, Loaded, Position,
            Record, Refusal, Replay, Replayed, SlotHeader, SlotMap, Superblock, Uuid, BLOCK_BYTES,
        },
        Condition, Settings,
    },
    target::zones::{Summary, ZoneData},
};
use kernel::{
    prelude::*,
    str::CString, //
};

type Loading<T> = Result<T, LoadError<Status>>;

fn io(status: Status) -> LoadError<Status> {
    LoadError::Io(status)
}

/// Loads the metadata, or formats a blank device, and starts the thread. Called before I/O comes.
pub(in super::super) fn open(this: This<'_>) -> Result {
    let cx = Context::of(this).ok_or(ENODEV)?;
    if cx.store().mode() != Mode::Closed {
        return Ok(());
    }
    let number = cx.device.number();
    cx.zones().forget();
    match load_all(cx) {
        Ok(()) => {}
        Err(LoadError::Refused(refusal)) => {
            cx.zones().forget();
            pr_err!("{number}: {}\n", refusal.text());
            return Err(EINVAL);
        }
        Err(LoadError::Io(status)) => {
            cx.zones().forget();
            pr_err!("{number}: the metadata cannot be read, or there is no memory for it\n");
            return Err(status.to_error());
        }
    }
    if cx.store().mode() == Mode::Writable {
        let name = CString::try_from_fmt(fmt!("imrsim-meta/{number}"))?;
        this.start_thread(&name)?;
    }
    Ok(())
}

fn load_all(cx: Context<'_>) -> Loading<()> {
    let geometry = cx.layout().geometry();
    let room = cx.device.sectors().saturating_sub(cx.this.params.start);
    let read_only = cx.device.is_read_only();
    let mut disk = MetadataDisk::new(cx).map_err(no_memory)?;
    let mut block = scratch().map_err(no_memory)?;
    let mut map: KVVec<_> = zeros(cx.layout().map_words()).map_err(no_memory)?;

    let loaded = match load_superblock(&mut disk, cx.layout(), room, &mut map, &mut block) {
        Err(LoadError::Refused(Refusal::Blank)) if !read_only => {
            format(cx, &cx.this.params.settings, "the device was blank")?
        }
        Err(LoadError::Refused(Refusal::GeometryMismatch)) if !read_only => {
            let settings = settings_if_empty(cx, &mut disk, room, &mut block)?
                .ok_or(Refusal::GeometryMismatch)?;
            format(cx, &settings, "the drive had other zones, and no data,")?
        }
        other => other?,
    };
    let superblock = loaded.superblock;
    if superblock.layout()? != *cx.layout() {
        return Err(Refusal::SizeMismatch.into());
    }
    cx.this.use_settings(&superblock.settings);

    let furthest = load_headers(cx, &mut disk, &superblock, &map, &mut block)?;
    let mut buffer: KVVec<u8> = zeros(BATCH * ENTRY_BYTES).map_err(no_memory)?;
    let (replayed, reached) = replay(cx, &mut disk, &superblock, &mut map, &mut buffer)?;
    if furthest.max(reached) > Position::start_of(replayed.head) {
        return Err(Refusal::JournalDamaged.into());
    }

    let ring = superblock.ring()?;
    let mut keeper =
        Keeper::new(geometry, superblock, ring, map, replayed.head).map_err(no_memory)?;
    if !read_only {
        let opened = superblock.open(replayed.head);
        keeper
            .write_superblock(cx, opened, 1 - loaded.copy)
            .map_err(io)?;
    }
    pr_info!(
        "{}: drive {}: {} zones in use, {} journal entries replayed, {} of them from one copy, {} dropped\n",
        cx.device.number(),
        UuidText(&superblock.uuid),
        SlotMap::new(&keeper.map).checkpointed(),
        replayed.entries,
        replayed.single_copies,
        replayed.dropped
    );
    cx.store().reset(keeper.superblock, replayed.head);
    if read_only {
        cx.store().set_mode(Mode::ReadOnly);
    } else {
        cx.store().set_mode(Mode::Writable);
        // An entry with only one copy left is not safe from the next bad sector; and a journal must have room. One
        // that is only half full the thread checkpoints, as ever.
        if replayed.single_copies > 0 || keeper.is_nearly_full() {
            if let Err(status) = keeper.checkpoint(cx) {
                cx.store().set_mode(Mode::Closed);
                return Err(io(status));
            }
        }
    }
    *cx.store().keeper.lock() = Some(keeper);
    Ok(())
}

/// A UUID for the kernel's log.
struct UuidText<'a>(&'a Uuid);

impl kernel::fmt::Display for UuidText<'_> {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        core::fmt::Display::fmt(self.0, f)
    }
}

/// The settings of a drive whose zones are not those of the table line, if they can be changed for
/// them: its superblock is where ours would be, it was stopped in good order, and no block is mapped.
fn settings_if_empty(
    cx: Context<'_>,
    disk: &mut MetadataDisk<'_>,
    room: u64,
    block: &mut Block,
) -> Loading<Option<Settings>> {
    let sector = cx
        .layout()
        .superblock(0)
        .ok_or(Refusal::SuperblockInvalid)?;
    disk.read(sector, block).map_err(io)?;
    let Ok((found, _)) = Superblock::decode_header(block) else {
        return Ok(None);
    };
    let layout = found.layout()?;
    if layout.data_sectors() != cx.layout().data_sectors() {
        return Ok(None);
    }
    let mut map: KVVec<_> = zeros(layout.map_words()).map_err(no_memory)?;
    let superblock = load_superblock(disk, &layout, room, &mut map, block)?.superblock;
    let mut buffer: KVVec<u8> = zeros(BATCH * ENTRY_BYTES).map_err(no_memory)?;
    let empty = is_empty(disk, &superblock, &map, &mut buffer, block)?;
    Ok(empty.then_some(superblock.settings))
}

/// Prepares a device that is blank, or empty.
fn format(cx: Context<'_>, settings: &Settings, why: &str) -> Loading<Loaded> {
    let layout = cx.layout();
    let mut uuid = [0; 16];
    random_bytes(&mut uuid);
    let superblock = Superblock {
        creator: *b"dm-imrsim\0\0\0\0\0\0\0",
        ..Superblock::new(layout.geometry(), layout.zones(), *settings, Uuid(uuid))
    };
    let map: KVVec<_> = zeros(layout.map_words()).map_err(no_memory)?;
    let mut buffer = IoBuffer::new(4).map_err(no_memory)?;
    keeper::format_journal(cx, &superblock.uuid, &mut buffer).map_err(io)?;
    for copy in [0, 1] {
        keeper::write_copy(cx, &superblock, &map, copy, &mut buffer).map_err(io)?;
    }
    pr_info!("{}: {why} and is formatted\n", cx.device.number());
    Ok(Loaded {
        superblock,
        copy: 0,
        other_is_equal: true,
    })
}

/// Notes which slot of each zone counts and, from their headers, what is in it. Returns the furthest
/// position of the journal that any of them has reached.
fn load_headers(
    cx: Context<'_>,
    disk: &mut MetadataDisk<'_>,
    superblock: &Superblock,
    map: &[u64],
    block: &mut Block,
) -> Loading<Position> {
    let layout = cx.layout();
    let mut furthest = Position::default();
    // Zones before this one were read ahead.
    let mut ahead = 0;
    for zone in 0..layout.zones() {
        let condition = SlotMap::new(map).condition(zone);
        if condition != Condition::Normal {
            if let Some(mut slot) = cx.zones().lock(zone) {
                slot.gate.set_condition(condition);
            }
        }
        let Some(counts) = SlotMap::new(map).get(zone) else {
            continue;
        };
        if zone >= ahead {
            ahead = zone.saturating_add(HEADERS_AHEAD).min(layout.zones());
            let headers =
                (zone..ahead).filter_map(|zone| layout.slot(zone, SlotMap::new(map).get(zone)?));
            disk.read_headers_ahead(headers);
        }
        let sector = layout.slot(zone, counts).ok_or(Refusal::BadTable)?;
        // One that is damaged is dealt with when the zone is loaded.
        let header = match disk.read(sector, block) {
            Ok(()) => SlotHeader::decode(block, &superblock.uuid, layout.geometry(), zone).ok(),
            Err(_) => None,
        };
        let summary = match header {
            Some(header) => {
                furthest = furthest.max(header.position);
                Summary {
                    stats: header.stats,
                    saved_stats: header.stats,
                    mapped: header.mapped,
                    position: header.position,
                }
            }
            None => Summary::default(),
        };
        let summary = KBox::new(summary, GFP_KERNEL).map_err(no_memory)?;
        if let Some(mut slot) = cx.zones().lock(zone) {
            slot.counts = Some(counts == 1);
            slot.summary = Some(summary);
        }
    }
    Ok(furthest)
}

/// Does again what the journal says, in the zones it is about, which are loaded for that. Returns what
/// was found, and the furthest position that a table which was loaded had reached.
fn replay(
    cx: Context<'_>,
    disk: &mut MetadataDisk<'_>,
    superblock: &Superblock,
    map: &mut [u64],
    buffer: &mut [u8],
) -> Loading<(Replayed, Position)> {
    let mut furthest = Position::default();
    let mut replay = Replay::new(superblock, buffer)?;
    while let Some(entry) = replay.next(disk)? {
        for (record, index) in entry.records().zip(0..) {
            let record = record?;
            let position = Position {
                sequence: entry.sequence(),
                index,
            };
            match record {
                Record::Config { settings } => cx.this.use_settings(&settings),
                Record::Statistics { zone, stats } => {
                    let fresh = KBox::new(Summary::default(), GFP_KERNEL).map_err(no_memory)?;
                    let mut slot = cx.zones().lock(zone).ok_or(Refusal::BadRecord)?;
                    // Those in the zone's slot may be newer.
                    match &mut slot.data {
                        Some(data) if position < data.position => {}
                        Some(data) => data.stats = stats,
                        None => {
                            let summary = slot.summary.get_or_insert(fresh);
                            if position >= summary.position {
                                summary.stats = stats;
                            }
                        }
                    }
                }
                Record::Skipped { .. } => {}
                Record::Map { zone, .. }
                | Record::Unmap { zone, .. }
                | Record::ResetZone { zone } => {
                    let mut slot = cx.zones().lock(zone).ok_or(Refusal::BadRecord)?;
                    let known = slot.data.take();
                    let stats = slot.summary.take().map(|summary| summary.stats);
                    drop(slot);
                    let mut data = match known {
                        Some(data) => data,
                        None => {
                            if SlotMap::new(map).get(zone).is_some() && !disk.is_ahead(zone) {
                                let rest = entry.records().skip(index.into());
                                disk.read_slots_ahead(map, due(cx, rest));
                            }
                            load_or_new(cx, disk, superblock, map, zone, stats)?
                        }
                    };
                    furthest = furthest.max(data.position);
                    if position >= data.position {
                        data.replay(cx.layout().geometry(), &record)?;
                    }
                    if let Some(mut slot) = cx.zones().lock(zone) {
                        slot.data = Some(data);
                    }
                }
            }
        }
    }
    Ok((replay.replayed(), furthest))
}

/// The zones of some records that were not loaded yet.
fn due<'a, E>(
    cx: Context<'a>,
    records: impl Iterator<Item = Result<Record, E>> + 'a,
) -> impl Iterator<Item = u64> + 'a {
    records.filter_map(move |record| {
        let zone = match record.ok()? {
            Record::Map { zone, .. } | Record::Unmap { zone, .. } | Record::ResetZone { zone } => {
                zone
            }
            _ => return None,
        };
        cx.zones().lock(zone)?.data.is_none().then_some(zone)
    })
}

fn load_or_new(
    cx: Context<'_>,
    disk: &mut MetadataDisk<'_>,
    superblock: &Superblock,
    map: &mut [u64],
    zone: u64,
    stats: Option<crate::imr::Stats>,
) -> Loading<ZoneData> {
    let mut data = match read_zone(disk, cx, superblock, map, zone, None)? {
        Some(data) => data,
        None => ZoneData::new(cx.layout().geometry()).map_err(no_memory)?,
    };
    if let Some(stats) = stats {
        data.stats = stats;
    }
    Ok(data)
}

/// Makes everything durable and lets go of it. Called when all I/O has completed.
pub(in super::super) fn close(this: This<'_>) {
    this.stop_thread();
    let Some(cx) = Context::of(this) else {
        return;
    };
    let mut guard = cx.store().keeper.lock();
    if let Some(keeper) = &mut *guard {
        if cx.store().mode() == Mode::Writable && keeper.close(cx).is_err() {
            cx.store()
                .fail("cannot write the metadata while suspending");
        }
    }
    *guard = None;
    drop(guard);
    // The counters stay to be looked at; the next open forgets them.
    cx.store().set_mode(Mode::Closed);
}

impl Keeper {
    fn close(&mut self, cx: Context<'_>) -> Result<(), Status> {
        self.try_commit(cx)?;
        self.checkpoint(cx)?;
        let tail = self.superblock.tail;
        self.write_statistics(cx)?;
        let superblock = self
            .superblock
            .close(tail, self.head, self.superblock.settings);
        self.write_superblock(cx, superblock, 0)
    }

    /// Writes the counters that have changed since they were last written, as far as the journal has
    /// room for them.
    fn write_statistics(&mut self, cx: Context<'_>) -> Result<(), Status> {
        let mut zone = 0;
        let zones = cx.zones().len();
        while zone < zones
            && self.ring.free(self.superblock.tail, self.head) > super::commit::HEADROOM
        {
            let block: &mut Block = self.buffer.first_chunk_mut().ok_or(Status::IO_ERROR)?;
            let mut builder = EntryBuilder::new(block);
            while zone < zones {
                let changed = cx.zones().lock(zone).and_then(|slot| slot.unsaved_stats());
                if let Some(stats) = changed {
                    if !builder.push(&Record::Statistics { zone, stats }) {
                        break;
                    }
                }
                zone += 1;
            }
            if builder.is_empty() {
                break;
            }
            builder.seal(
                &self.superblock.uuid,
                self.superblock.epoch,
                self.head,
                self.head,
            );
            self.buffer.copy_within(..BLOCK_BYTES, BLOCK_BYTES);
            let sector = self.ring.sector_of(self.head);
            keeper::write(cx, sector, &mut self.buffer, ENTRY_BYTES, SyncIo::Durable)?;
            self.head += 1;
        }
        Ok(())
    }
}
