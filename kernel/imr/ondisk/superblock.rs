// SPDX-License-Identifier: GPL-2.0-only

//! The superblock: what the drive is, which slots count, and where the journal begins.
//!
//! A copy is a header block and the blocks of the [slot map](super::slot_map), of which the header
//! has the checksum. All fields of the header lie in its first 512 bytes, so that a header is
//! written as a whole or not at all.

use super::{
    super::{
        geometry::Geometry,
        layout::Layout,
        settings::Settings, //
    },
    bytes::{
        get,
        get_u32,
        get_u64,
        header_is_intact,
        put,
        put_u32,
        put_u64,
        seal_header, //
    },
    ring::Ring,
    slot_map::{
        SlotMap,
        SlotMapMut, //
    },
    Block,
    Refusal,
    Uuid,
    BLOCK_BYTES,
    VERSION, //
};

/// The first eight bytes of a superblock.
pub const MAGIC: [u8; 8] = *b"IMRSimSB";

/// The features that a program has to know to read the metadata: none yet.
pub const KNOWN_INCOMPATIBLE: u64 = 0;

/// The flag that says that the drive was stopped in good order.
const FLAG_CLEAN: u32 = 1;

// Offsets of the fields in bytes.
const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 8;
const AT_FLAGS: usize = 12;
const AT_UUID: usize = 16;
const AT_SEQUENCE: usize = 32;
const AT_INCOMPATIBLE: usize = 40;
const AT_COMPATIBLE: usize = 48;
const AT_TOP_BLOCKS: usize = 56;
const AT_BOTTOM_BLOCKS: usize = 60;
const AT_GROUPS: usize = 64;
const AT_PHASES: usize = 68;
const AT_ZONES: usize = 72;
const AT_EPOCH: usize = 80;
const AT_TAIL: usize = 88;
const AT_TAIL_EPOCH: usize = 96;
const AT_HEAD: usize = 104;
const AT_DATA_SECTORS: usize = 112;
const AT_SUPERBLOCK_SECTORS: usize = 120;
const AT_JOURNAL: usize = 128;
const AT_JOURNAL_ENTRIES: usize = 136;
const AT_SLOTS: usize = 144;
const AT_SLOT_SECTORS: usize = 152;
const AT_TOTAL_SECTORS: usize = 160;
const AT_CREATED: usize = 168;
const AT_CREATOR: usize = 176;
const AT_BLOCK_SIZE: usize = 192;
const AT_MAP_CRC: usize = 196;
const AT_OPENED_AT: usize = 200;
/// The settings but for the allocation, whose phases have a place of their own.
const AT_SETTINGS: usize = 208;

/// The header of a superblock. The slot map is kept beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The drive.
    pub uuid: Uuid,
    /// How often the superblock was written; of two copies the larger is the newer.
    pub sequence: u64,
    /// Features that have to be known, a bit each: see [`KNOWN_INCOMPATIBLE`].
    pub incompatible: u64,
    /// Features that need not be known, a bit each.
    pub compatible: u64,
    /// Track and zone sizes.
    pub geometry: Geometry,
    /// Zones.
    pub zones: u64,
    /// The settings in use, unless a record of the journal says otherwise.
    pub settings: Settings,
    /// How often the metadata was opened for writing. Entries written since carry this number.
    pub epoch: u64,
    /// What `head` was then: the first entry with this epoch.
    pub opened_at: u64,
    /// The first entry of the journal that is needed.
    pub tail: u64,
    /// What `epoch` was when `tail` was set: from there on entries have this epoch or a later one.
    pub tail_epoch: u64,
    /// An entry up to which, without it, all from `tail` on are on the device.
    pub head: u64,
    /// Whether the journal ends at `head`, because the drive was stopped in good order.
    pub clean: bool,
    /// Entries of the journal.
    pub journal_entries: u64,
    /// When the drive was formatted, in seconds since 1970; 0 if that is not known.
    pub created: u64,
    /// What formatted it: a short text, filled up with zeros.
    pub creator: [u8; 16],
}

impl Superblock {
    /// The superblock of a drive on which nothing was written yet, with the layout of
    /// [`Layout::new`]. Before it is written, every block of the journal has to be filled with
    /// [`format_block`](super::entry::format_block).
    pub fn new(geometry: &Geometry, zones: u64, settings: Settings, uuid: Uuid) -> Self {
        Self {
            uuid,
            sequence: 1,
            incompatible: 0,
            compatible: 0,
            geometry: *geometry,
            zones,
            settings,
            epoch: 0,
            opened_at: 0,
            tail: 0,
            tail_epoch: 0,
            head: 0,
            clean: true,
            journal_entries: Layout::new(geometry, zones).map_or(0, |it| it.journal_entries()),
            created: 0,
            creator: [0; 16],
        }
    }

    /// The superblock with which a drive is opened for writing, when the journal was found to end
    /// at `head`. Both copies are on the device before anything else is written.
    #[must_use]
    pub fn open(&self, head: u64) -> Self {
        Self {
            sequence: self.sequence.saturating_add(1),
            epoch: self.epoch.saturating_add(1),
            opened_at: head,
            head,
            clean: false,
            ..*self
        }
    }

    /// The superblock after a checkpoint: entries before `tail` are not needed any more, and all
    /// before `head` are on the device.
    ///
    /// Entries that were replayed when the drive was opened are given up all at once: of a `tail`
    /// among them the old one remains. So it is the result's `tail` that counts.
    #[must_use]
    pub fn checkpoint(&self, tail: u64, head: u64, settings: Settings) -> Self {
        let (tail, tail_epoch) = if tail <= self.tail || tail < self.opened_at {
            (self.tail, self.tail_epoch)
        } else {
            (tail, self.epoch)
        };
        Self {
            sequence: self.sequence.saturating_add(1),
            tail,
            tail_epoch,
            head,
            settings,
            ..*self
        }
    }

    /// The superblock with which a drive is stopped: the journal ends at `head`, and nothing is
    /// written any more before the drive is opened again.
    #[must_use]
    pub fn close(&self, tail: u64, head: u64, settings: Settings) -> Self {
        Self {
            clean: true,
            ..self.checkpoint(tail, head, settings)
        }
    }

    /// The layout of the drive.
    ///
    /// # Errors
    ///
    /// If there is none with these numbers.
    pub fn layout(&self) -> Result<Layout, Refusal> {
        Layout::with_journal(&self.geometry, self.zones, self.journal_entries)
            .ok_or(Refusal::SuperblockInvalid)
    }

    /// A whole copy: fills the [`Layout::superblock_bytes`] of `out`. `map` is the slot map.
    pub fn encode(&self, map: &[u64], out: &mut [u8]) {
        for (block, index) in chunks_mut(out).zip(0..) {
            self.encode_block(map, index, block);
        }
    }

    /// Block `index` of a copy: the header if it is 0, else one of the slot map.
    pub fn encode_block(&self, map: &[u64], index: usize, block: &mut Block) {
        match index.checked_sub(1) {
            Some(index) => SlotMap::new(map).encode(index, block),
            None => self.encode_header(map, block),
        }
    }

    fn encode_header(&self, map: &[u64], block: &mut Block) {
        block.fill(0);
        let Ok(layout) = self.layout() else {
            // Not a superblock, and does not look like one.
            return;
        };
        let map_blocks = layout.superblock_blocks().saturating_sub(1);
        put(block, AT_MAGIC, &MAGIC);
        put_u32(block, AT_VERSION, VERSION);
        put_u32(block, AT_FLAGS, if self.clean { FLAG_CLEAN } else { 0 });
        put(block, AT_UUID, &self.uuid.0);
        put_u32(block, AT_TOP_BLOCKS, self.geometry.top_blocks());
        put_u32(block, AT_BOTTOM_BLOCKS, self.geometry.bottom_blocks());
        put_u32(block, AT_GROUPS, self.geometry.groups());
        for (at, value) in settings_places().zip(self.settings.values()) {
            put_u32(block, at, value);
        }
        put(block, AT_CREATOR, &self.creator);
        put_u32(block, AT_BLOCK_SIZE, super::super::BLOCK_SIZE);
        put_u32(block, AT_MAP_CRC, SlotMap::new(map).crc(map_blocks));
        for (at, value) in [
            (AT_SEQUENCE, self.sequence),
            (AT_INCOMPATIBLE, self.incompatible),
            (AT_COMPATIBLE, self.compatible),
            (AT_ZONES, self.zones),
            (AT_EPOCH, self.epoch),
            (AT_TAIL, self.tail),
            (AT_TAIL_EPOCH, self.tail_epoch),
            (AT_HEAD, self.head),
            (AT_OPENED_AT, self.opened_at),
            (AT_CREATED, self.created),
        ]
        .into_iter()
        .chain(layout_fields(&layout))
        {
            put_u64(block, at, value);
        }
        seal_header(block);
    }

    /// A whole copy, from as many bytes as it has; more are ignored. Fills `map_out`, of which a
    /// part beyond the map is left alone.
    ///
    /// # Errors
    ///
    /// If it is not a superblock that can be used. [`Refusal::Blank`] says that the header is all
    /// zero.
    pub fn decode(bytes: &[u8], map_out: &mut [u64]) -> Result<Self, Refusal> {
        let mut blocks = chunks(bytes);
        let header = blocks.next().ok_or(Refusal::SuperblockDamaged)?;
        let (superblock, mut map) = Self::decode_header(header)?;
        for block in blocks {
            if !map.wants_more() {
                break;
            }
            map.push(block, map_out);
        }
        map.finish(map_out)?;
        Ok(superblock)
    }

    /// The header of a copy. The blocks of the slot map have to be given to the [`MapReader`].
    ///
    /// # Errors
    ///
    /// If it is not the header of a superblock that can be used. [`Refusal::Blank`] says that it
    /// is all zero.
    pub fn decode_header(block: &Block) -> Result<(Self, MapReader), Refusal> {
        if block.iter().all(|byte| *byte == 0) {
            return Err(Refusal::Blank);
        }
        if get(block, AT_MAGIC) != MAGIC {
            return Err(Refusal::ForeignData);
        }
        // These three never change their places, whatever the version.
        if !header_is_intact(block) {
            return Err(Refusal::SuperblockDamaged);
        }
        if get_u32(block, AT_VERSION) != VERSION {
            return Err(Refusal::UnknownVersion);
        }
        let incompatible = get_u64(block, AT_INCOMPATIBLE);
        if incompatible & !KNOWN_INCOMPATIBLE != 0 {
            return Err(Refusal::UnknownFeature);
        }
        let geometry = Geometry::new(
            get_u32(block, AT_TOP_BLOCKS),
            get_u32(block, AT_BOTTOM_BLOCKS),
            get_u32(block, AT_GROUPS),
        )
        .map_err(|_| Refusal::SuperblockInvalid)?;
        let mut values = Settings::DEFAULT.values();
        for (at, value) in settings_places().zip(&mut values) {
            *value = get_u32(block, at);
        }
        let settings = Settings::from_values(values).ok_or(Refusal::SuperblockInvalid)?;
        let superblock = Self {
            uuid: Uuid(get(block, AT_UUID)),
            sequence: get_u64(block, AT_SEQUENCE),
            incompatible,
            compatible: get_u64(block, AT_COMPATIBLE),
            geometry,
            zones: get_u64(block, AT_ZONES),
            settings,
            epoch: get_u64(block, AT_EPOCH),
            opened_at: get_u64(block, AT_OPENED_AT),
            tail: get_u64(block, AT_TAIL),
            tail_epoch: get_u64(block, AT_TAIL_EPOCH),
            head: get_u64(block, AT_HEAD),
            clean: get_u32(block, AT_FLAGS) & FLAG_CLEAN != 0,
            journal_entries: get_u64(block, AT_JOURNAL_ENTRIES),
            created: get_u64(block, AT_CREATED),
            creator: get(block, AT_CREATOR),
        };
        let layout = superblock.layout()?;
        let consistent = get_u32(block, AT_BLOCK_SIZE) == super::super::BLOCK_SIZE
            && get_u32(block, AT_FLAGS) & !FLAG_CLEAN == 0
            && layout_fields(&layout)
                .into_iter()
                .all(|(at, value)| get_u64(block, at) == value)
            && superblock.tail <= superblock.head
            && superblock.opened_at <= superblock.head
            && superblock.tail_epoch <= superblock.epoch
            && layout.ring().used(superblock.tail, superblock.head) <= layout.journal_entries();
        if !consistent {
            return Err(Refusal::SuperblockInvalid);
        }
        let map = MapReader {
            zones: superblock.zones,
            next: 0,
            blocks: layout.superblock_blocks().saturating_sub(1),
            crc: super::Crc::new(),
            expected: get_u32(block, AT_MAP_CRC),
        };
        Ok((superblock, map))
    }

    /// The journal as a ring.
    ///
    /// # Errors
    ///
    /// As [`layout`](Self::layout).
    pub fn ring(&self) -> Result<Ring, Refusal> {
        Ok(self.layout()?.ring())
    }
}

/// The fields that follow from the geometry, the number of zones and the journal's entries: they
/// are there for other programs, and to be checked.
fn layout_fields(layout: &Layout) -> [(usize, u64); 7] {
    [
        (AT_DATA_SECTORS, layout.data_sectors()),
        (AT_SUPERBLOCK_SECTORS, layout.superblock_sectors()),
        (AT_JOURNAL, layout.journal()),
        (AT_JOURNAL_ENTRIES, layout.journal_entries()),
        (AT_SLOTS, layout.slots()),
        (AT_SLOT_SECTORS, layout.slot_sectors()),
        (AT_TOTAL_SECTORS, layout.total_sectors()),
    ]
}

/// Where each setting is, in their order.
fn settings_places() -> impl Iterator<Item = usize> {
    let others = (AT_SETTINGS..).step_by(size_of::<u32>());
    core::iter::once(AT_PHASES).chain(others)
}

/// Reads the slot map behind a header, block by block.
#[derive(Clone, Copy, Debug)]
pub struct MapReader {
    zones: u64,
    next: usize,
    blocks: usize,
    crc: super::Crc,
    expected: u32,
}

impl MapReader {
    /// Whether there are blocks that were not given yet.
    pub const fn wants_more(&self) -> bool {
        self.next < self.blocks
    }

    /// Takes the next block of the map.
    pub fn push(&mut self, block: &Block, map_out: &mut [u64]) {
        self.crc = self.crc.update(block);
        SlotMapMut::new(map_out).decode(self.next, block);
        self.next = self.next.saturating_add(1);
    }

    /// Ends the reading.
    ///
    /// # Errors
    ///
    /// If the map is damaged or not all there.
    pub fn finish(self, map: &[u64]) -> Result<(), Refusal> {
        if self.next != self.blocks || self.crc.value() != self.expected {
            return Err(Refusal::SuperblockDamaged);
        }
        SlotMap::new(map).check(self.zones)
    }
}

fn chunks(bytes: &[u8]) -> impl Iterator<Item = &Block> {
    bytes
        .chunks_exact(BLOCK_BYTES)
        .filter_map(|block| block.try_into().ok())
}

fn chunks_mut(bytes: &mut [u8]) -> impl Iterator<Item = &mut Block> {
    bytes
        .chunks_exact_mut(BLOCK_BYTES)
        .filter_map(|block| block.try_into().ok())
}
