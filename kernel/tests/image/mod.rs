// SPDX-License-Identifier: GPL-2.0-only

//! The metadata of a small drive as bytes, to be written to and read from directly.

// Each test is a crate of its own and uses a part of this.
#![allow(dead_code)]
// Those that include this have different minimum versions of Rust, and not all know is_multiple_of().
#![allow(clippy::manual_is_multiple_of)]

use imrsim_core::{
    ondisk::{
        entry::format_block,
        load_superblock,
        replay,
        replay::ENTRY_BYTES,
        slot,
        Block,
        Disk,
        EntryBuilder,
        LoadError,
        Loaded,
        Position,
        Record,
        Replayed,
        SlotHeader,
        Superblock,
        Uuid, //
    },
    Bo,
    Geometry,
    Layout,
    Nbo,
    Settings,
    Stats, //
};

pub(crate) const UUID: Uuid = Uuid(*b"0123456789abcdef");

/// Entries of the journal.
pub(crate) const ENTRIES: u64 = 8;

/// A device: data of zeros, then metadata.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) layout: Layout,
    pub(crate) bytes: Vec<u8>,
    /// Sectors that cannot be read.
    pub(crate) bad: Vec<u64>,
}

pub(crate) fn geometry() -> Geometry {
    Geometry::new(6, 8, 4).unwrap()
}

/// Settings with this allocation, and some others that are not the default.
pub(crate) fn settings(phases: u32) -> Settings {
    Settings::from_values([phases, 1_000, 2_000, 1, 0]).unwrap()
}

/// The superblock of a drive of three zones.
pub(crate) fn superblock() -> Superblock {
    Superblock {
        journal_entries: ENTRIES,
        ..Superblock::new(&geometry(), 3, settings(3), UUID)
    }
}

/// What a journal has: its records, and where it ends.
pub(crate) type Journal = (Vec<(Position, Record)>, Replayed);

impl Image {
    /// A device of zeros.
    pub(crate) fn blank() -> Self {
        let layout = superblock().layout().unwrap();
        Self {
            layout,
            bytes: vec![0; layout.total_sectors() as usize * 512],
            bad: Vec::new(),
        }
    }

    /// A device that was formatted, opened for the first time, and crashed.
    pub(crate) fn formatted() -> Self {
        let mut image = Self::blank();
        let mut block = [0; 4096];
        format_block(&mut block, &UUID);
        for sector in (0..image.layout.journal_sectors()).step_by(8) {
            image.write(image.layout.journal() + sector, &block);
        }
        image.put_superblock(&superblock().open(0), &[0]);
        image
    }

    pub(crate) fn at(&mut self, sector: u64) -> &mut [u8] {
        &mut self.bytes[sector as usize * 512..]
    }

    pub(crate) fn write(&mut self, sector: u64, bytes: &[u8]) {
        self.at(sector)[..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes one copy of a superblock.
    pub(crate) fn put_copy(&mut self, copy: u64, superblock: &Superblock, map: &[u64]) {
        let mut bytes = vec![0; self.layout.superblock_bytes()];
        superblock.encode(map, &mut bytes);
        self.write(self.layout.superblock(copy).unwrap(), &bytes);
    }

    /// Writes both copies.
    pub(crate) fn put_superblock(&mut self, superblock: &Superblock, map: &[u64]) {
        self.put_copy(0, superblock, map);
        self.put_copy(1, superblock, map);
    }

    /// Writes an entry, both copies.
    pub(crate) fn put_entry(&mut self, epoch: u64, sequence: u64, batch: u64, records: &[Record]) {
        let block = entry(epoch, sequence, batch, records);
        for copy in 0..2 {
            let sector = self.copy_of(sequence, copy);
            self.write(sector, &block[..]);
        }
    }

    /// The sector of one copy of an entry.
    pub(crate) fn copy_of(&self, sequence: u64, copy: u64) -> u64 {
        self.layout.ring().sector_of(sequence) + 8 * copy
    }

    /// Damages one copy of an entry.
    pub(crate) fn damage_copy(&mut self, sequence: u64, copy: u64) {
        let sector = self.copy_of(sequence, copy);
        for byte in &mut self.at(sector)[100..140] {
            *byte ^= 0x5a;
        }
    }

    /// Writes a slot.
    pub(crate) fn put_slot(
        &mut self,
        slot: u64,
        zone: u64,
        generation: u64,
        position: Position,
        table: &[u16],
        mapped: &[u64],
    ) {
        let geometry = *self.layout.geometry();
        let mut block = [0; 4096];
        let header = SlotHeader {
            zone,
            generation,
            position,
            stats: stats(generation),
            mapped: mapped.iter().map(|word| word.count_ones()).sum(),
            body_crc: slot::body_crc(&geometry, table, mapped, &mut block),
        };
        let mut sector = self.layout.slot(zone, slot).unwrap();
        header.encode(&UUID, &geometry, &mut block);
        self.write(sector, &block);
        for index in 0..self.layout.body_blocks() {
            sector += 8;
            slot::encode_body(&geometry, table, mapped, index, &mut block);
            self.write(sector, &block);
        }
    }

    pub(crate) fn load(&mut self) -> Result<(Loaded, Vec<u64>), LoadError<u64>> {
        let (layout, room) = (self.layout, self.layout.total_sectors());
        self.load_as(&layout, room)
    }

    pub(crate) fn load_as(
        &mut self,
        layout: &Layout,
        room: u64,
    ) -> Result<(Loaded, Vec<u64>), LoadError<u64>> {
        let mut map = vec![0; layout.map_words()];
        let loaded = load_superblock(self, layout, room, &mut map, &mut [0; 4096])?;
        Ok((loaded, map))
    }

    /// Loads the superblock and reads the journal.
    pub(crate) fn replay(&mut self) -> Result<Journal, LoadError<u64>> {
        self.replay_with(3)
    }

    pub(crate) fn replay_with(&mut self, entries: usize) -> Result<Journal, LoadError<u64>> {
        let (loaded, _) = self.load()?;
        let mut records = Vec::new();
        let mut buf = vec![0; entries * ENTRY_BYTES];
        let replayed = replay(self, &loaded.superblock, &mut buf, |_, position, record| {
            records.push((position, *record));
            Ok(())
        })?;
        Ok((records, replayed))
    }
}

impl Disk for Image {
    /// The sector that cannot be read.
    type Error = u64;

    fn read(&mut self, sector: u64, buf: &mut [u8]) -> Result<(), u64> {
        assert!(sector % 8 == 0 && !buf.is_empty() && buf.len() % 4096 == 0);
        let range = sector..sector + buf.len() as u64 / 512;
        if let Some(bad) = self.bad.iter().find(|bad| range.contains(bad)) {
            // What nobody may take for what is on the device.
            let mut block = [0; 4096];
            format_block(&mut block, &UUID);
            buf.chunks_exact_mut(4096)
                .for_each(|buf| buf.copy_from_slice(&block));
            return Err(*bad);
        }
        let at = sector as usize * 512;
        let bytes = self.bytes.get(at..at + buf.len()).ok_or(sector)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

/// An entry.
pub(crate) fn entry(epoch: u64, sequence: u64, batch: u64, records: &[Record]) -> Box<Block> {
    let mut block = Box::new([0xee; 4096]);
    let mut builder = EntryBuilder::new(&mut block);
    assert!(records.iter().all(|record| builder.push(record)));
    builder.seal(&UUID, epoch, sequence, batch);
    block
}

/// A record that tells entries apart.
pub(crate) fn record(n: u64) -> Record {
    Record::Map {
        zone: n,
        bo: Bo(5),
        nbo: Nbo(7),
        blocks: 2,
    }
}

/// Counters that tell slots apart.
pub(crate) fn stats(n: u64) -> Stats {
    Stats {
        host_write_blocks: n,
        extra_write_blocks: 2 * n,
        ..Stats::default()
    }
}

/// Flips each bit of `bytes` in turn; `is_noticed` has to say so.
pub(crate) fn flip_each_bit(bytes: &mut [u8], mut is_noticed: impl FnMut(&[u8]) -> bool) {
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(is_noticed(bytes), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(!is_noticed(bytes));
}
