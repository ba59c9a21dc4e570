// SPDX-License-Identifier: GPL-2.0-only

//! A drive as it comes back: the same steps as the kernel's, with the same library.

use imrsim_core::ondisk::{
    self, load_superblock, load_zone, Block, LoadError, Loaded, Position, Record, Refusal,
    Replayed, Superblock,
};
use imrsim_core::{Bo, Geometry, Layout, Zone, ZoneState};

use crate::content::Tag;
use crate::platter::State;

/// A zone's memory.
struct Memory {
    table: Vec<u16>,
    bits: Vec<u64>,
    state: ZoneState,
}

impl Memory {
    fn new(geometry: &Geometry) -> Self {
        Self {
            table: vec![0; Zone::table_len(geometry)],
            bits: vec![0; Zone::bits_len(geometry)],
            state: ZoneState::default(),
        }
    }

    fn zone<'a>(&'a mut self, geometry: &'a Geometry) -> Zone<'a> {
        Zone::new(geometry, &mut self.table, &mut self.bits, &mut self.state)
            .expect("the slices have the right lengths")
    }
}

/// A drive that has come back.
pub struct Drive {
    /// What lies where.
    pub layout: Layout,
    /// The superblock it came back with.
    pub superblock: Superblock,
    /// What was found in the journal.
    pub replayed: Replayed,
    /// The slot of each zone that was loaded.
    pub slots: Vec<Option<u64>>,
    zones: Vec<Memory>,
}

/// Why it has not.
pub type Failure = LoadError<String>;

/// Reads a drive that should have this layout.
pub fn recover(state: &State<'_>, expected: &Layout) -> Result<Drive, Failure> {
    let mut disk = state;
    let mut block: Block = [0; 4096];
    let mut map = vec![0; expected.map_words()];
    let Loaded { superblock, .. } =
        load_superblock(&mut disk, expected, state.sectors(), &mut map, &mut block)?;
    let layout = superblock.layout()?;
    let geometry = *layout.geometry();
    let mut zones: Vec<Memory> = (0..layout.zones())
        .map(|_| Memory::new(&geometry))
        .collect();
    let mut positions: Vec<Option<Position>> = vec![None; zones.len()];
    let mut slots = vec![None; zones.len()];
    let mut furthest = Position::default();
    let mut load = |disk: &mut &State<'_>, zone: usize, memory: &mut Memory| {
        let mut view = memory.zone(&geometry);
        let loaded = load_zone(
            disk,
            &superblock,
            &layout,
            &mut map,
            zone as u64,
            &mut block,
            view.memory(),
        )?;
        let Some(loaded) = loaded else {
            return Ok::<_, Failure>(Position::default());
        };
        view.load().map_err(|error| error.of_table())?;
        slots[zone] = Some(loaded.slot);
        furthest = furthest.max(loaded.header.position);
        Ok(loaded.header.position)
    };
    let mut buffer = vec![0; 8 * ondisk::replay::ENTRY_BYTES];
    let replayed = ondisk::replay(&mut disk, &superblock, &mut buffer, |disk, at, record| {
        let Some(zone) = record.zone() else {
            return Ok(());
        };
        let zone = usize::try_from(zone).map_err(|_| Refusal::BadRecord)?;
        let memory = zones.get_mut(zone).ok_or(Refusal::BadRecord)?;
        if matches!(record, Record::Statistics { .. }) {
            return Ok(());
        }
        let from = match positions[zone] {
            Some(from) => from,
            None => *positions[zone].insert(load(disk, zone, memory)?),
        };
        if at >= from {
            let result = memory.zone(&geometry).replay(record);
            result.map_err(|error| error.of_record())?;
        }
        Ok(())
    })?;
    for (zone, memory) in zones.iter_mut().enumerate() {
        if positions[zone].is_none() {
            load(&mut disk, zone, memory)?;
        }
    }
    if furthest > Position::start_of(replayed.head) {
        return Err(Refusal::JournalDamaged.into());
    }
    Ok(Drive {
        layout,
        superblock,
        replayed,
        slots,
        zones,
    })
}

impl Drive {
    /// Where each sector of the drive is on the device, in order; `None` if it was never written.
    pub fn places(&mut self) -> Vec<Option<u64>> {
        let geometry = *self.layout.geometry();
        let mut places = Vec::with_capacity(self.layout.data_sectors() as usize);
        for (memory, number) in self.zones.iter_mut().zip(0..) {
            let first = number * geometry.zone_sectors();
            let zone = memory.zone(&geometry);
            for bo in 0..geometry.zone_blocks() {
                let block = zone.lookup(Bo(bo)).map(|nbo| first + u64::from(nbo.0) * 8);
                places.extend((0..8).map(|at| block.map(|block| block + at)));
            }
        }
        places
    }

    /// What each sector of the drive holds.
    pub fn tags(&mut self, state: &State<'_>) -> Vec<Tag> {
        let tag = |place: Option<u64>| place.map_or(Tag::ZEROS, |place| state.tag(place));
        self.places().into_iter().map(tag).collect()
    }
}
