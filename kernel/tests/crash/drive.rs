// SPDX-License-Identifier: GPL-2.0-only

//! A small writer that follows the rules of docs/on-disk-format.md, and what it reads back.

use imrsim_core::{
    ondisk::{
        self,
        entry::format_block,
        load_superblock,
        load_zone,
        slot,
        Block,
        EntryBuilder,
        LoadError,
        Loaded,
        Position,
        Record,
        Refusal,
        Replayed,
        Ring,
        SlotHeader,
        SlotMapMut,
        Superblock,
        Uuid, //
    },
    Bo,
    Layout,
    Nbo,
    Plan,
    Request,
    Settings,
    Stats,
    Step, //
};

use super::platter::{
    Platter,
    PowerCut, //
};
use crate::common::Memory;

pub(crate) const UUID: Uuid = Uuid(*b"a drive to crash");

/// A zone in memory.
#[derive(Clone)]
pub(crate) struct ZoneInMemory {
    pub(crate) memory: Memory,
    pub(crate) stats: Stats,
    /// Of the newest slot: its generation, and which it is.
    generation: u64,
    slot: Option<u64>,
    /// The entry with the first record that is not in the slot that counts.
    oldest: Option<u64>,
}

/// A zone on its way to a slot.
struct Snapshot {
    zone: usize,
    table: Vec<u16>,
    mapped: Vec<u64>,
    position: Position,
    stats: Stats,
    count: u32,
    slot: u64,
    /// What `oldest` becomes.
    oldest_after: Option<u64>,
    stage: Stage,
}

#[derive(PartialEq)]
enum Stage {
    Taken,
    BodyWritten,
    Durable,
}

/// A write that was started.
pub(crate) struct Flight {
    pub(crate) zone: usize,
    pub(crate) plan: Plan,
}

/// The drive while it runs.
pub(crate) struct Drive {
    pub(crate) layout: Layout,
    superblock: Superblock,
    map: Vec<u64>,
    ring: Ring,
    first_copy: u64,
    head: u64,
    queue: Vec<Record>,
    /// Records in an entry.
    per_entry: usize,
    pub(crate) zones: Vec<ZoneInMemory>,
    pub(crate) settings: Settings,
    pub(crate) flights: Vec<Flight>,
    snapshots: Vec<Snapshot>,
    pub(crate) replayed: Replayed,
    /// Whether both copies of the superblock were found equal.
    pub(crate) two_superblocks: bool,
}

/// Formats a disk.
pub(crate) fn format(
    platter: &mut Platter,
    superblock: &Superblock,
    layout: &Layout,
) -> Result<(), PowerCut> {
    let mut block = [0; 4096];
    format_block(&mut block, &UUID);
    for sector in (0..layout.journal_sectors()).step_by(8) {
        platter.submit(layout.journal() + sector, &block)?;
    }
    platter.flush()?;
    let mut copy = vec![0; layout.superblock_bytes()];
    superblock.encode(&vec![0; layout.map_words()], &mut copy);
    for i in 0..2 {
        platter.write_fua(layout.superblock(i).unwrap(), &copy)?;
    }
    Ok(())
}

/// Reads a drive without writing anything.
pub(crate) fn recover(
    platter: &mut Platter,
    expected: &Layout,
    buf_entries: usize,
) -> Result<Drive, LoadError<()>> {
    let room = expected.data_sectors() + platter.metadata_sectors();
    let mut block: Block = [0; 4096];
    let mut map = vec![0; expected.map_words()];
    let Loaded {
        superblock,
        copy,
        other_is_equal,
    } = load_superblock(platter, expected, room, &mut map, &mut block)?;
    let layout = superblock.layout()?;
    let geometry = superblock.geometry;
    let empty = ZoneInMemory {
        memory: Memory::new(geometry),
        stats: Stats::default(),
        generation: 0,
        slot: None,
        oldest: None,
    };
    let mut zones = vec![empty; superblock.zones as usize];
    let mut positions = vec![None; zones.len()];
    let mut settings = superblock.settings;
    let mut loaded_zones = Vec::new();
    let mut ensure_loaded = |platter: &mut Platter, zone: u64, into: &mut ZoneInMemory| {
        let mut block: Block = [0; 4096];
        let mut view = into.memory.zone();
        let memory = view.memory();
        let loaded = load_zone(
            platter,
            &superblock,
            &layout,
            &mut map,
            zone,
            &mut block,
            memory,
        )?;
        let Some(loaded) = loaded else {
            return Ok(Position::default());
        };
        view.load().map_err(|error| error.of_table())?;
        into.stats = loaded.header.stats;
        into.generation = loaded.header.generation;
        into.slot = Some(loaded.slot);
        loaded_zones.push(loaded);
        Ok::<_, LoadError<()>>(loaded.header.position)
    };
    let mut buf = vec![0; buf_entries * ondisk::replay::ENTRY_BYTES];
    let replayed = ondisk::replay(
        platter,
        &superblock,
        &mut buf,
        |platter, position, record| {
            if let Record::Config { settings: new } = record {
                settings = *new;
            }
            let Some(zone) = record.zone() else {
                return Ok(());
            };
            let index = zone as usize;
            let into = zones.get_mut(index).ok_or(Refusal::BadRecord)?;
            let from = match positions[index] {
                Some(position) => position,
                None => {
                    let position = ensure_loaded(platter, zone, into)?;
                    positions[index] = Some(position);
                    position
                }
            };
            if position < from {
                return Ok(());
            }
            into.oldest = Some(superblock.tail);
            if let Record::Statistics { stats, .. } = record {
                into.stats = *stats;
            }
            let result = into.memory.zone().replay(record);
            Ok(result.map_err(|error| error.of_record())?)
        },
    )?;
    for (zone, (into, position)) in zones.iter_mut().zip(&positions).enumerate() {
        if position.is_none() {
            ensure_loaded(platter, zone as u64, into)?;
        }
    }
    for loaded in loaded_zones {
        loaded.check(replayed.head)?;
    }
    Ok(Drive {
        ring: layout.ring(),
        layout,
        superblock,
        map,
        first_copy: 1 - copy,
        head: replayed.head,
        queue: Vec::new(),
        per_entry: 1,
        zones,
        settings,
        flights: Vec::new(),
        snapshots: Vec::new(),
        replayed,
        two_superblocks: other_is_equal,
    })
}

impl Drive {
    /// Opens the drive for writing.
    pub(crate) fn open(&mut self, platter: &mut Platter) -> Result<(), PowerCut> {
        self.per_entry = 1 + platter.chance.below(4) as usize;
        self.write_superblock(platter, self.superblock.open(self.head))
    }

    fn write_superblock(
        &mut self,
        platter: &mut Platter,
        superblock: Superblock,
    ) -> Result<(), PowerCut> {
        let mut bytes = vec![0; self.layout.superblock_bytes()];
        superblock.encode(&self.map, &mut bytes);
        for copy in [self.first_copy, 1 - self.first_copy] {
            platter.write_fua(self.layout.superblock(copy).unwrap(), &bytes)?;
        }
        self.first_copy = 0;
        self.superblock = superblock;
        Ok(())
    }

    /// Where the next record will be.
    fn position(&self) -> Position {
        Position {
            sequence: self.head + (self.queue.len() / self.per_entry) as u64,
            index: (self.queue.len() % self.per_entry) as u16,
        }
    }

    pub(crate) fn push(&mut self, record: Record) {
        let sequence = self.position().sequence;
        if let Some(zone) = record.zone() {
            let zone = zone as usize;
            self.zones[zone].oldest.get_or_insert(sequence);
            for snapshot in &mut self.snapshots {
                if snapshot.zone == zone {
                    snapshot.oldest_after.get_or_insert(sequence);
                }
            }
        }
        self.queue.push(record);
    }

    /// Makes all data that was written, and all records, durable.
    pub(crate) fn commit(&mut self, platter: &mut Platter) -> Result<(), PowerCut> {
        platter.flush()?;
        while !self.queue.is_empty() {
            let wanted = self.queue.len().div_ceil(self.per_entry) as u64;
            if self.ring.grant(self.superblock.tail, self.head, wanted) == 0 {
                self.checkpoint(platter)?;
            } else {
                self.write_batch(platter, ondisk::ring::RESERVE)?;
            }
        }
        Ok(())
    }

    /// Writes a batch of entries, but leaves some of the journal free.
    fn write_batch(&mut self, platter: &mut Platter, reserve: u64) -> Result<(), PowerCut> {
        let wanted = self.queue.len().div_ceil(self.per_entry);
        let free = self.ring.free(self.superblock.tail, self.head) - reserve;
        let count = wanted.min(free as usize);
        let records = self.queue.len().min(count * self.per_entry);
        let mut sent = Vec::new();
        for (records, sequence) in self.queue[..records]
            .chunks(self.per_entry)
            .zip(self.head..)
        {
            let mut block: Block = [0; 4096];
            let mut builder = EntryBuilder::new(&mut block);
            assert!(records.iter().all(|record| builder.push(record)));
            builder.seal(&UUID, self.superblock.epoch, sequence, self.head);
            let both: Vec<u8> = block.iter().chain(&block).copied().collect();
            let sector = self.ring.sector_of(sequence);
            platter.submit(sector, &both)?;
            sent.push((sector, both.len()));
        }
        while !sent.is_empty() {
            let any = platter.chance.below(sent.len() as u64) as usize;
            let (sector, bytes) = sent.swap_remove(any);
            platter.complete_fua(sector, bytes)?;
        }
        self.queue.drain(..records);
        self.head += count as u64;
        Ok(())
    }

    /// Takes a snapshot of a zone, unless one is under way.
    pub(crate) fn snapshot(&mut self, zone: usize) {
        if self.snapshots.iter().any(|it| it.zone == zone) {
            return;
        }
        let position = self.position();
        let from = &mut self.zones[zone];
        let (stats, slot) = (from.stats, from.slot.map_or(0, |slot| 1 - slot));
        let view = from.memory.zone();
        self.snapshots.push(Snapshot {
            zone,
            table: view.table().to_vec(),
            mapped: view.mapped_words().to_vec(),
            position,
            stats,
            count: view.mapped_blocks(),
            slot,
            oldest_after: None,
            stage: Stage::Taken,
        });
    }

    /// Does the next thing for one of the snapshots.
    pub(crate) fn advance(&mut self, platter: &mut Platter) -> Result<(), PowerCut> {
        let waiting = |it: &Snapshot| it.stage != Stage::Durable;
        let Some(index) = self.snapshots.iter().position(waiting) else {
            return self.finish_checkpoint(platter);
        };
        let geometry = *self.layout.geometry();
        let snapshot = &self.snapshots[index];
        let sector = self
            .layout
            .slot(snapshot.zone as u64, snapshot.slot)
            .unwrap();
        let mut block: Block = [0; 4096];
        if snapshot.stage == Stage::Taken {
            for page in 0..self.layout.body_blocks() {
                slot::encode_body(
                    &geometry,
                    &snapshot.table,
                    &snapshot.mapped,
                    page,
                    &mut block,
                );
                platter.submit(sector + 8 * (page as u64 + 1), &block)?;
            }
            self.snapshots[index].stage = Stage::BodyWritten;
            return Ok(());
        }
        while self.snapshots[index].position > Position::start_of(self.head) {
            platter.flush()?;
            // The reserve is there for this, but the queue may be longer than it.
            if self.ring.free(self.superblock.tail, self.head) == 0 {
                // Cannot be: a snapshot is given up instead.
                self.snapshots.remove(index);
                return Ok(());
            }
            self.write_batch(platter, 0)?;
        }
        platter.flush()?;
        let snapshot = &mut self.snapshots[index];
        let zone = &mut self.zones[snapshot.zone];
        let header = SlotHeader {
            zone: snapshot.zone as u64,
            generation: zone.generation + 1,
            position: snapshot.position,
            stats: snapshot.stats,
            mapped: snapshot.count,
            body_crc: slot::body_crc(&geometry, &snapshot.table, &snapshot.mapped, &mut block),
        };
        header.encode(&UUID, &geometry, &mut block);
        platter.write_fua(sector, &block)?;
        zone.generation += 1;
        zone.slot = Some(snapshot.slot);
        snapshot.stage = Stage::Durable;
        Ok(())
    }

    /// Writes the superblock for the snapshots that are durable.
    fn finish_checkpoint(&mut self, platter: &mut Platter) -> Result<(), PowerCut> {
        for snapshot in std::mem::take(&mut self.snapshots) {
            SlotMapMut::new(&mut self.map).set(snapshot.zone as u64, snapshot.slot);
            self.zones[snapshot.zone].oldest = snapshot.oldest_after;
        }
        let oldest = self.zones.iter().filter_map(|zone| zone.oldest).min();
        let tail = oldest.unwrap_or(self.head).min(self.head);
        self.write_superblock(
            platter,
            self.superblock.checkpoint(tail, self.head, self.settings),
        )
    }

    /// Checkpoints every zone that has to be.
    pub(crate) fn checkpoint(&mut self, platter: &mut Platter) -> Result<(), PowerCut> {
        while !self.snapshots.is_empty() {
            self.advance(platter)?;
        }
        for zone in 0..self.zones.len() {
            if self.zones[zone]
                .oldest
                .is_some_and(|oldest| oldest < self.head)
            {
                self.snapshot(zone);
            }
        }
        loop {
            self.advance(platter)?;
            if self.snapshots.is_empty() {
                return Ok(());
            }
        }
    }

    /// Stops in good order.
    pub(crate) fn close(&mut self, platter: &mut Platter) -> Result<(), PowerCut> {
        self.commit(platter)?;
        if platter.chance.once_in(2) {
            self.checkpoint(platter)?;
            self.commit(platter)?;
        }
        let tail = self.superblock.tail;
        self.write_superblock(
            platter,
            self.superblock.close(tail, self.head, self.settings),
        )
    }

    /// Starts a write; returns it if it can.
    pub(crate) fn start(&mut self, zone: usize, request: &Request) -> Option<Plan> {
        let allocation = self.settings.strategy();
        match self.zones[zone].memory.zone().start(request, allocation) {
            Step::Ready(plan) => Some(plan),
            Step::Wait { .. } => None,
        }
    }

    /// Ends a write.
    pub(crate) fn finish(&mut self, flight: &Flight) {
        let zone = &mut self.zones[flight.zone];
        zone.memory.zone().finish(&flight.plan, true);
        if flight.plan.first {
            self.push(Record::of_plan(flight.zone as u64, &flight.plan));
        }
    }

    /// Unmaps blocks; the record is durable before anything else happens. False if they are busy.
    pub(crate) fn unmap(
        &mut self,
        platter: &mut Platter,
        zone: usize,
        bo: Bo,
        blocks: u32,
    ) -> Result<bool, PowerCut> {
        if self.zones[zone].memory.zone().unmap(bo, blocks).is_err() {
            return Ok(false);
        }
        let whole = blocks == self.layout.geometry().zone_blocks();
        let zone = zone as u64;
        self.push(match whole && platter.chance.once_in(2) {
            true => Record::ResetZone { zone },
            false => Record::Unmap { zone, bo, blocks },
        });
        self.commit(platter)?;
        Ok(true)
    }

    /// Where half of a logical block is on the device, if it is mapped.
    pub(crate) fn half(&mut self, zone: usize, bo: u32, half: u64) -> Option<u64> {
        let blocks = u64::from(self.layout.geometry().zone_blocks());
        let Nbo(nbo) = self.zones[zone].memory.zone().lookup(Bo(bo))?;
        Some((zone as u64 * blocks + u64::from(nbo)) * 2 + half)
    }
}
