// SPDX-License-Identifier: GPL-2.0-only

//! The golden vectors: mapping and counters of the original IMRSim, which ours reproduces exactly
//! for requests of one block.
//!
//! The sets in `data/` belong to the project. Those made from the MSR trace are read from
//! `../shared/data/golden` beside the repository; without them their tests are skipped.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    io::{
        Read as _,
        Write as _, //
    },
    path::{
        Path,
        PathBuf, //
    },
};

use common::{
    phases,
    rewritten,
    whole,
    Memory, //
};
use flate2::read::GzDecoder;
use imrsim_core::{
    Allocation,
    Bo,
    Geometry,
    Nbo,
    Piece,
    Stats,
    Step,
    TrackKind, //
};

/// Zones of the device that the MSR sets were made with, and blocks of each that were filled.
const MSR_ZONES: u64 = 51;
const MSR_FILLED: u32 = 52_428;

fn own_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The shared data, if it is there; else says that test `name` is skipped.
fn shared_data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/golden");
    if path.is_dir() {
        return Some(path);
    }
    // Straight to the terminal: the test harness would swallow `println!`.
    let mut err = std::io::stderr();
    writeln!(err, "SKIPPED {name}: there is no {}", path.display()).unwrap();
    None
}

/// A device of zones, and the counters of all.
struct Device {
    zones: BTreeMap<u64, Memory>,
    allocation: Allocation,
    stats: Stats,
}

impl Device {
    fn new(zones: u64, allocation: Allocation) -> Self {
        Self {
            zones: (0..zones)
                .map(|zone| (zone, Memory::new(Geometry::DEFAULT)))
                .collect(),
            allocation,
            stats: Stats::default(),
        }
    }

    /// Writes blocks of one zone, run by run.
    fn write(&mut self, zone: u64, bo: u32, blocks: u32) {
        for plan in self
            .zones
            .get_mut(&zone)
            .unwrap()
            .write(bo, blocks, self.allocation)
        {
            self.stats.count_write(&plan, Piece::default());
        }
    }

    /// Executes a row and returns it as it should be.
    fn row(&mut self, op: &str, lba: u64) -> String {
        let geometry = Geometry::DEFAULT;
        let (zone_number, bo) = geometry.split(lba);
        let mut zone = self
            .zones
            .get_mut(&zone_number)
            .expect("a zone of the device")
            .zone();
        let pba = |nbo: Nbo| zone_number * u64::from(geometry.zone_blocks()) + u64::from(nbo.0);
        if op == "R" {
            return match zone.lookup(Bo(bo)) {
                Some(nbo) => {
                    let top = geometry.locate(nbo).track.kind == TrackKind::Top;
                    format!("R,{lba},{},{},0,", pba(nbo), u32::from(top))
                }
                None => format!("R,{lba},-1,-1,0,"),
            };
        }
        let Step::Ready(plan) = zone.start(&whole(bo, 1), self.allocation) else {
            panic!("a write of one block does not start");
        };
        zone.finish(&plan, true);
        self.stats.count_write(
            &plan,
            Piece {
                ends_request: true,
                ..Piece::default()
            },
        );
        let neighbours: Vec<String> = rewritten(&plan)
            .into_iter()
            .map(|nbo| pba(Nbo(nbo)).to_string())
            .collect();
        format!(
            "W,{lba},{},{},{},{}",
            pba(plan.nbo),
            u32::from(plan.top),
            plan.extra_writes(),
            neighbours.join(";")
        )
    }

    /// The row of `summary.csv` for the state and the counters.
    fn summary(&mut self, name: &str) -> String {
        let geometry = Geometry::DEFAULT;
        let mut map = Fnv::default();
        let mut used = Fnv::default();
        let (mut mapped_blocks, mut used_tops) = (0, 0);
        for memory in self.zones.values_mut() {
            let zone = memory.zone();
            for bo in 0..geometry.zone_blocks() {
                let pba = zone.lookup(Bo(bo)).map_or(-1, |nbo| nbo.0 as i32);
                map.add(&pba.to_le_bytes());
            }
            for nbo in (0..geometry.zone_blocks()).map(Nbo) {
                if geometry.locate(nbo).track.kind == TrackKind::Top {
                    used.add(&[u8::from(zone.is_used(nbo))]);
                }
            }
            mapped_blocks += zone.mapped_blocks();
            used_tops += zone.used_tops();
        }
        format!(
            "{name},{},{mapped_blocks},{used_tops},{},{},{},{},{:016x},{:016x}",
            self.allocation.phases(),
            self.stats.host_write_blocks,
            self.stats.extra_write_blocks,
            self.stats.write_total(),
            self.stats.waf(),
            map.0,
            used.0,
        )
    }
}

/// 64-bit FNV-1a, but for its first value: the golden hashes were made with the usual
/// 14695981039346656037 less its last digit.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(1_469_598_103_934_665_603)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// The row of `summary.csv` for a set.
fn golden_summary(data: &Path, name: &str, allocation: Allocation) -> String {
    let start = format!("{name},{},", allocation.phases());
    let summary = fs::read_to_string(data.join("summary.csv")).unwrap();
    let row = summary.lines().find(|row| row.starts_with(&start));
    row.unwrap_or_else(|| panic!("no row {start}")).to_owned()
}

/// Executes a set row by row, and compares each row and the final state.
fn replay(data: &Path, name: &str, device: &mut Device) {
    let path = data.join(format!("{name}-{}.csv.gz", device.allocation).replace("-phase", "phase"));
    let file = fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut rows = text.lines();
    assert_eq!(
        rows.next(),
        Some("op,lba,pba,is_top,extra_writes,neighbours")
    );
    let mut count = 0;
    for row in rows {
        let mut fields = row.split(',');
        let op = fields.next().unwrap();
        let lba = fields.next().unwrap().parse().unwrap();
        assert_eq!(
            device.row(op, lba),
            row,
            "row {count} of {}",
            path.display()
        );
        count += 1;
    }
    assert!(count > 1000, "{} has few rows", path.display());
    assert_eq!(
        device.summary(name),
        golden_summary(data, name, device.allocation)
    );
}

#[test]
fn zone0_cross() {
    for k in [2, 3] {
        replay(&own_data(), "zone0_cross", &mut Device::new(1, phases(k)));
    }
}

#[test]
fn zone0_full_update() {
    for k in [2, 3] {
        replay(
            &own_data(),
            "zone0_full_update",
            &mut Device::new(1, phases(k)),
        );
    }
}

/// The same writes as two large requests: the same mapping, and fewer rewrites, because a top block
/// over two bottom blocks is written back once for both.
#[test]
fn zone0_full_update_in_large_requests() {
    for k in [2, 3] {
        let mut device = Device::new(1, phases(k));
        device.write(0, 0, 65_536);
        assert_eq!(device.stats.extra_write_blocks, 0);
        device.write(0, 0, 65_536);
        let golden = golden_summary(&own_data(), "zone0_full_update", device.allocation);
        let ours = device.summary("zone0_full_update");
        let state = |row: &str| {
            let fields: Vec<String> = row.split(',').map(str::to_owned).collect();
            [&fields[..5], &fields[8..]].concat()
        };
        assert_eq!(state(&ours), state(&golden));
        // Each bottom track is written in runs of 64 and one of 56; between runs that meet under
        // one top block, that block is written back twice.
        let shared = (64..568)
            .step_by(64)
            .filter(|b| b * 456 / 568 == (b - 1) * 456 / 568)
            .count();
        let per_neighbour = 456 + shared as u64;
        assert_eq!(device.stats.extra_write_blocks, 127 * per_neighbour);
        assert_eq!(device.stats.rmw_two_neighbours, 63 * 9);
        assert_eq!(device.stats.rmw_one_neighbour, 9);
    }
}

#[test]
fn msr_empty() {
    let Some(data) = shared_data("msr_empty") else {
        return;
    };
    for k in [2, 3] {
        replay(&data, "msr_empty", &mut Device::new(MSR_ZONES, phases(k)));
    }
}

#[test]
fn msr_zone80() {
    let Some(data) = shared_data("msr_zone80") else {
        return;
    };
    for k in [2, 3] {
        let mut device = Device::new(MSR_ZONES, phases(k));
        for zone in 0..MSR_ZONES {
            device.write(zone, 0, MSR_FILLED);
        }
        let name = "msr_zone80:prefill";
        assert_eq!(
            device.summary(name),
            golden_summary(&data, name, device.allocation)
        );
        device.stats = Stats::default();
        replay(&data, "msr_zone80", &mut device);
    }
}
