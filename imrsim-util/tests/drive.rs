// SPDX-License-Identifier: GPL-2.0-only

//! The simulated drive against a simple model of one: block by block, without bitmaps, runs or
//! cursors.

use std::collections::{BTreeSet, HashMap};

use imrsim_core::{Allocation, Bo, Geometry};
use imrsim_util::{
    control::Scope,
    device::{Device, Quiet},
    drive::Drive,
    prefill::{self, Prefill, Share},
    report::{self, Statistics},
};
use proptest::prelude::*;

const BLOCK: u64 = 4096;

/// One zone, written a block at a time.
struct Model {
    geometry: Geometry,
    /// Physical blocks in the order in which first writes take them.
    order: Vec<u32>,
    map: HashMap<u32, u32>,
}

impl Model {
    fn new(geometry: Geometry, phases: u32) -> Self {
        let (top, bottom) = (geometry.top_blocks(), geometry.bottom_blocks());
        let mut order = Vec::new();
        for group in 0..geometry.groups() {
            let start = group * (top + bottom);
            order.extend(start + top..start + top + bottom);
        }
        for phase in 2..=phases {
            let mut group = phase - 2;
            while group < geometry.groups() {
                let start = group * (top + bottom);
                order.extend(start..start + top);
                group += phases - 1;
            }
        }
        Self {
            geometry,
            order,
            map: HashMap::new(),
        }
    }

    /// Writes a block; the top blocks that have to be written back.
    fn write(&mut self, bo: u32) -> Vec<u32> {
        let taken: BTreeSet<u32> = self.map.values().copied().collect();
        let free = || self.order.iter().copied().find(|nbo| !taken.contains(nbo));
        let nbo = match self.map.get(&bo) {
            Some(nbo) => *nbo,
            None => free().expect("there is a place for every block"),
        };
        self.map.insert(bo, nbo);
        let (top, bottom) = (self.geometry.top_blocks(), self.geometry.bottom_blocks());
        let (group, offset) = (nbo / (top + bottom), nbo % (top + bottom));
        if offset < top {
            return Vec::new();
        }
        let above = (offset - top) * top / bottom;
        [group, group + 1]
            .into_iter()
            .filter(|group| *group < self.geometry.groups())
            .map(|group| group * (top + bottom) + above)
            .filter(|nbo| taken.contains(nbo))
            .collect()
    }
}

fn geometries() -> impl Strategy<Value = Geometry> {
    (1_u32..6, 0_u32..4, 1_u32..5)
        .prop_map(|(top, more, groups)| Geometry::new(top, top + more, groups).unwrap())
}

fn drive(geometry: Geometry, zones: u64, phases: u32) -> Drive {
    Drive::new(geometry, zones, Allocation::from_phases(phases).unwrap()).unwrap()
}

proptest! {
    /// Ends inside blocks, and requests that leave a zone, are counted once, however the request is cut.
    #[test]
    fn edges_and_crossings(
        geometry in geometries(),
        phases in 1_u32..5,
        requests in proptest::collection::vec((0_u64..1 << 20, 1_u64..200, any::<bool>()), 1..40),
    ) {
        const SECTOR: u64 = 512;
        let mut drive = drive(geometry, 4, phases);
        let sectors = drive.capacity() / SECTOR;
        let zone = geometry.zone_sectors();
        let mut expected = [(0, 0); 4];
        for (at, length, is_write) in requests {
            let start = at % sectors;
            let end = (start + length).min(sectors);
            let bytes = (start * SECTOR, (end - start) * SECTOR);
            if is_write {
                drive.write(bytes.0, bytes.1).unwrap();
            } else {
                drive.read(bytes.0, bytes.1).unwrap();
            }
            let of = |sector: u64| usize::try_from(sector / zone).unwrap();
            expected[of(start)].0 += u64::from(!start.is_multiple_of(8));
            expected[of(end - 1)].0 += u64::from(!end.is_multiple_of(8));
            for left in &mut expected[of(start)..of(end - 1)] {
                left.1 += 1;
            }
        }
        for (zone, expected) in (0..).zip(expected) {
            let stats = drive.zone_stats(zone);
            prop_assert_eq!((stats.unaligned_edges, stats.cross_zone_requests), expected);
        }
    }

    #[test]
    fn one_block_at_a_time(
        geometry in geometries(),
        phases in 2_u32..5,
        writes in proptest::collection::vec((0_u64..2, any::<prop::sample::Index>()), 1..150),
    ) {
        let mut drive = drive(geometry, 2, phases);
        let mut models = [Model::new(geometry, phases), Model::new(geometry, phases)];
        let blocks = geometry.zone_blocks();
        let mut extra = 0;
        for (zone, index) in &writes {
            let bo = index.index(blocks as usize) as u32;
            let offset = (zone * u64::from(blocks) + u64::from(bo)) * BLOCK;
            drive.write(offset, BLOCK).unwrap();
            extra += models[*zone as usize].write(bo).len() as u64;
            prop_assert_eq!(drive.stats().extra_write_blocks, extra);
        }
        for (zone, model) in models.iter().enumerate() {
            for bo in 0..blocks {
                prop_assert_eq!(drive.lookup(zone as u64, bo), model.map.get(&bo).copied());
            }
        }
        let mapped: usize = models.iter().map(|model| model.map.len()).sum();
        prop_assert_eq!(drive.mapped_blocks(), mapped as u64);
        let stats = drive.stats();
        prop_assert_eq!(stats.host_write_blocks, writes.len() as u64);
        prop_assert_eq!(stats.host_write_requests, writes.len() as u64);
        prop_assert_eq!(stats.first_write_blocks, mapped as u64);
        let mut device = Device::new("a drive", &mut drive);
        for (zone, model) in (0..).zip(&models) {
            let (answer, snapshot) = device.snapshot(&geometry, zone, Quiet::No, 7).unwrap();
            for bo in 0..blocks {
                let place = snapshot.lookup(Bo(bo)).map(|nbo| nbo.0);
                prop_assert_eq!(place, model.map.get(&bo).copied());
                prop_assert_eq!(snapshot.used().get(bo), model.map.values().any(|nbo| *nbo == bo));
            }
            prop_assert_eq!(answer.mapped_blocks as usize, model.map.len());
            prop_assert_eq!(snapshot.stats, answer.stats());
            let counters = device.statistics(zone).unwrap();
            prop_assert_eq!(counters.indicators, answer.indicators);
            prop_assert_eq!(counters.used_top_blocks, u64::from(answer.used_top_blocks));
            prop_assert_eq!((answer.cookie, answer.phases), (7, phases));
        }
    }

    /// A long request maps what its blocks one by one would, counts each block once, and writes
    /// back no more.
    #[test]
    fn requests_of_any_size_and_alignment(
        geometry in geometries(),
        phases in 2_u32..5,
        requests in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 1..40),
    ) {
        let mut whole = drive(geometry, 3, phases);
        let mut single = drive(geometry, 3, phases);
        let capacity = whole.capacity();
        let (mut written, mut read) = (0, 0);
        for (offset, len, write) in requests {
            let offset = offset % capacity;
            let len = len % (capacity - offset).min(64 * BLOCK) + 1;
            let len = len.min(capacity - offset);
            let blocks = offset / BLOCK..(offset + len).div_ceil(BLOCK);
            let count = blocks.end - blocks.start;
            if write {
                whole.write(offset, len).unwrap();
                for block in blocks {
                    single.write(block * BLOCK, BLOCK).unwrap();
                }
                written += count;
            } else {
                whole.read(offset, len).unwrap();
                read += count;
            }
        }
        let stats = whole.stats();
        prop_assert_eq!(stats.host_write_blocks, written);
        prop_assert_eq!(stats.host_read_blocks, read);
        prop_assert_eq!(stats.first_write_blocks + stats.update_blocks, written);
        prop_assert_eq!(stats.top_write_blocks + stats.bottom_write_blocks, written);
        prop_assert!(stats.extra_write_blocks <= single.stats().extra_write_blocks);
        for zone in 0..3 {
            for bo in 0..geometry.zone_blocks() {
                prop_assert_eq!(whole.lookup(zone, bo), single.lookup(zone, bo));
            }
        }
        prop_assert_eq!(whole.used_top_blocks(), single.used_top_blocks());
    }

    #[test]
    fn what_is_outside_changes_nothing(offset in any::<u64>(), len in any::<u64>()) {
        let mut drive = drive(Geometry::new(2, 3, 2).unwrap(), 2, 2);
        let inside = offset.checked_add(len).is_some_and(|end| end <= drive.capacity());
        prop_assert_eq!(drive.write(offset, len).is_ok(), inside);
        if !inside {
            prop_assert_eq!(drive.mapped_blocks(), 0);
            prop_assert!(drive.read(offset, len).is_err());
            prop_assert!(drive.discard(offset, len).is_err());
            prop_assert_eq!(drive.stats(), Default::default());
        }
    }

    /// Discards in between: what lies in one as a whole is as if it had never been written.
    #[test]
    fn discards(
        geometry in geometries(),
        phases in 2_u32..5,
        requests in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 1..80),
    ) {
        let mut drive = drive(geometry, 2, phases);
        let blocks = u64::from(geometry.zone_blocks());
        let mut models = [Model::new(geometry, phases), Model::new(geometry, phases)];
        let (mut extra, mut unmapped) = (0, 0);
        for (offset, len, write) in requests {
            let offset = offset % drive.capacity();
            if write {
                let block = offset / BLOCK;
                drive.write(block * BLOCK, BLOCK).unwrap();
                let bo = (block % blocks) as u32;
                extra += models[(block / blocks) as usize].write(bo).len() as u64;
            } else {
                let len = len % (drive.capacity() - offset + 1);
                drive.discard(offset, len).unwrap();
                for block in offset.div_ceil(BLOCK)..(offset + len) / BLOCK {
                    let bo = (block % blocks) as u32;
                    let freed = models[(block / blocks) as usize].map.remove(&bo);
                    unmapped += u64::from(freed.is_some());
                }
            }
            let stats = drive.stats();
            prop_assert_eq!((stats.extra_write_blocks, stats.unmapped_blocks), (extra, unmapped));
        }
        for (zone, model) in models.iter().enumerate() {
            for bo in 0..geometry.zone_blocks() {
                prop_assert_eq!(drive.lookup(zone as u64, bo), model.map.get(&bo).copied());
            }
        }
        let mapped: usize = models.iter().map(|model| model.map.len()).sum();
        prop_assert_eq!(drive.mapped_blocks(), mapped as u64);
        let stats = drive.stats();
        prop_assert_eq!(stats.first_write_blocks, mapped as u64 + unmapped);
    }

    /// Zones are filled when they are needed. Nothing shows that they were not before.
    #[test]
    fn filled_when_needed_as_filled_before(
        geometry in geometries(),
        zones in 1_u64..5,
        phases in 1_u32..5,
        extent in 0_u32..9,
        percent in 0_u32..=100,
        seed in any::<u64>(),
        requests in proptest::collection::vec((any::<u64>(), any::<u64>(), 0_u8..3), 0..20),
    ) {
        let share: Share = format!("{percent}%").parse().unwrap();
        let prefill = match extent {
            0 => Prefill::Sequential,
            extent => Prefill::Random { extent },
        };
        let mut lazy = drive(geometry, zones, phases);
        lazy.prefill(prefill, share, seed);
        let mut eager = drive(geometry, zones, phases);
        for (offset, len) in prefill::requests(&geometry, zones, prefill, share, seed) {
            eager.write(offset, len).unwrap();
        }
        eager.reset_stats();
        prop_assert_eq!(lazy.mapped_blocks(), zones * share.of(u64::from(geometry.zone_blocks())));
        prop_assert_eq!(lazy.used_top_blocks(), eager.used_top_blocks());
        for (offset, len, op) in requests {
            let offset = offset % lazy.capacity();
            let len = len % (lazy.capacity() - offset + 1) % (3 * BLOCK);
            for drive in [&mut lazy, &mut eager] {
                match op {
                    0 => drive.read(offset, len).unwrap(),
                    1 => drive.write(offset, len).unwrap(),
                    _ => drive.discard(offset, len).unwrap(),
                }
            }
        }
        prop_assert_eq!(lazy.stats(), eager.stats());
        let ask = |drive: &mut Drive| {
            let mut text = Vec::new();
            let mut device = Device::new("a drive", drive);
            let statistics = Statistics::ask(&mut device, Scope::Device).unwrap();
            report::json(&statistics, &mut text).unwrap();
            text
        };
        prop_assert_eq!(ask(&mut lazy), ask(&mut eager));
        for zone in 0..zones {
            for block in 0..geometry.zone_blocks() {
                prop_assert_eq!(lazy.lookup(zone, block), eager.lookup(zone, block));
                prop_assert_eq!(lazy.is_used(zone, block), eager.is_used(zone, block));
            }
        }
        prop_assert_eq!(ask(&mut lazy), ask(&mut eager));
    }
}

/// By hand: two groups of a top track of 1 block and a bottom track of 2; 2-phase order is 1, 2,
/// 4, 5, then 0, 3.
#[test]
fn by_hand() {
    let mut drive = drive(Geometry::new(1, 2, 2).unwrap(), 2, 2);
    drive.write(0, 4 * BLOCK).unwrap();
    assert_eq!(
        [0, 1, 2, 3, 4].map(|bo| drive.lookup(0, bo)),
        [Some(1), Some(2), Some(4), Some(5), None]
    );
    assert_eq!(drive.stats().extra_write_blocks, 0, "no top block is used");
    drive.write(4 * BLOCK, BLOCK).unwrap();
    assert_eq!(drive.lookup(0, 4), Some(0), "the first top block");
    drive.write(0, BLOCK).unwrap();
    assert_eq!(
        drive.stats().extra_write_blocks,
        1,
        "top 0 is over bottom 0"
    );
    drive.write(5 * BLOCK, BLOCK).unwrap();
    drive.write(0, BLOCK).unwrap();
    assert_eq!(
        drive.stats().extra_write_blocks,
        3,
        "top 0 and top 1 are over it"
    );
    drive.write(3 * BLOCK, BLOCK).unwrap();
    assert_eq!(
        drive.stats().extra_write_blocks,
        4,
        "the last bottom track has one"
    );
    // Both blocks of bottom 0 at once: their one neighbour on each side once.
    drive.write(0, 2 * BLOCK).unwrap();
    let stats = drive.stats();
    assert_eq!(stats.extra_write_blocks, 6);
    assert_eq!(stats.host_write_requests, 7);
    assert_eq!(stats.host_write_blocks, 11);
    assert_eq!(stats.waf().to_string(), "1.545455");
    // The other zone saw nothing of it. A request over the border is one to each.
    assert_eq!(drive.zone_stats(1), Default::default());
    drive.write(5 * BLOCK, 2 * BLOCK).unwrap();
    assert_eq!(drive.zone_stats(0).host_write_requests, 8);
    assert_eq!(drive.zone_stats(1).host_write_requests, 1);
}

/// The drive of [`by_hand`], full: a top block that is discarded needs no rewriting any more.
#[test]
fn a_discard_by_hand() {
    let mut drive = drive(Geometry::new(1, 2, 2).unwrap(), 2, 2);
    let counted = |drive: &Drive| {
        let stats = drive.stats();
        (stats.discard_requests, stats.unmapped_blocks)
    };
    drive.discard(0, 12 * BLOCK).unwrap();
    assert_eq!(counted(&drive), (0, 0), "no zone was ever written to");
    drive.write(0, 6 * BLOCK).unwrap();
    drive.write(0, BLOCK).unwrap();
    assert_eq!(drive.stats().extra_write_blocks, 2, "tops 0 and 1");
    drive.discard(5 * BLOCK + 512, BLOCK).unwrap();
    assert_eq!(
        counted(&drive),
        (1, 0),
        "parts of blocks only, in front of one and in the next zone"
    );
    drive.discard(5 * BLOCK, BLOCK).unwrap();
    assert_eq!(counted(&drive), (2, 1));
    assert_eq!(drive.lookup(0, 5), None);
    drive.write(0, BLOCK).unwrap();
    assert_eq!(drive.stats().extra_write_blocks, 3, "only top 0");
    // The place of block 1 is the first free one now, and goes to block 5.
    drive.discard(BLOCK, BLOCK).unwrap();
    drive.write(5 * BLOCK, BLOCK).unwrap();
    assert_eq!(drive.lookup(0, 5), Some(2));
    drive.discard(BLOCK, BLOCK).unwrap();
    assert_eq!(counted(&drive), (4, 2), "nothing was there any more");
    // A zone's length over the border is one request, and is counted where there is something first.
    drive.write(7 * BLOCK, BLOCK).unwrap();
    drive.discard(3 * BLOCK, 6 * BLOCK).unwrap();
    assert_eq!(counted(&drive), (5, 6));
    assert_eq!(drive.zone_stats(0).discard_requests, 5);
    assert_eq!(drive.zone_stats(1).discard_requests, 0);
    assert_eq!(drive.zone_stats(1).unmapped_blocks, 1);
    // All of it is one for each zone.
    drive.discard(0, 12 * BLOCK).unwrap();
    assert_eq!(counted(&drive), (7, 8));
    assert_eq!(drive.mapped_blocks(), 0);
}

#[test]
fn memory_only_for_zones_that_are_written_to() {
    // 256 TiB. With tables this would be over 160 GB.
    let mut drive = drive(Geometry::DEFAULT, 1 << 20, 2);
    let end = drive.capacity();
    drive.read(0, end).unwrap();
    drive.write(end - 1, 1).unwrap();
    assert_eq!(drive.mapped_blocks(), 1);
    assert_eq!(drive.stats().zero_read_blocks, end / BLOCK);
}
