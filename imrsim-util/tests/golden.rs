// SPDX-License-Identifier: GPL-2.0-only

//! The simulated drive against what the original IMRSim did with the same operations, one block at
//! a time. The data is not part of this repository; without it the tests say so and pass.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use imrsim_core::{Allocation, Geometry};
use imrsim_util::{
    drive::Drive,
    prefill::Prefill,
    simulate,
    trace::{
        self,
        convert::{self, Fit},
        Item, Op, Reader,
    },
};

const BLOCK: u64 = 4096;
const ZONES: u64 = 51;

fn data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../shared/data")
        .join(name);
    path.exists().then_some(path)
}

/// The data's path, or leaves the test.
macro_rules! data_or_skip {
    ($test:literal, $name:expr) => {
        match data($name) {
            Some(path) => path,
            None => {
                println!("SKIPPED {}: there is no {}", $test, $name);
                return;
            }
        }
    };
}

fn drive(phases: u32) -> Drive {
    let allocation = Allocation::from_phases(phases).unwrap();
    Drive::new(Geometry::DEFAULT, ZONES, allocation).unwrap()
}

/// A row of `summary.csv`.
fn summary(path: &Path, name: &str, phases: u32) -> Vec<String> {
    let file = BufReader::new(File::open(path).unwrap());
    let key = format!("{name},{phases},");
    let mut lines = file.lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with(&key)).unwrap();
    line.split(',').skip(2).map(str::to_owned).collect()
}

/// The state and the counters of a drive, as in a row of `summary.csv`.
fn state(drive: &mut Drive, counters: bool) -> Vec<String> {
    let stats = drive.stats();
    let mut row = vec![
        drive.mapped_blocks().to_string(),
        drive.used_top_blocks().to_string(),
    ];
    if counters {
        row.extend([
            stats.host_write_blocks.to_string(),
            stats.extra_write_blocks.to_string(),
            stats.write_total().to_string(),
            stats.waf().to_string(),
        ]);
    }
    let geometry = *drive.geometry();
    let mut map = Fnv::new();
    let mut used = Fnv::new();
    for zone in 0..ZONES {
        for bo in 0..geometry.zone_blocks() {
            let nbo = drive.lookup(zone, bo).map_or(-1, |nbo| nbo as i32);
            map.add(&nbo.to_le_bytes());
        }
        for group in 0..geometry.groups() {
            for offset in 0..geometry.top_blocks() {
                let nbo = group * geometry.group_blocks() + offset;
                used.add(&[u8::from(drive.is_used(zone, nbo))]);
            }
        }
    }
    row.extend([format!("{:016x}", map.0), format!("{:016x}", used.0)]);
    row
}

/// The hash of `summary.csv`: 64-bit FNV-1a, except that the data was made with a start value that
/// lacks the last decimal digit of the usual one.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(1_469_598_103_934_665_603)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Runs the MSR sample, cut to one-block requests.
fn run_blocks(drive: &mut Drive, trace: &Path) {
    let mut reader = trace::open(trace, &trace::Options::default()).unwrap();
    while let Some(item) = reader.next_item().unwrap() {
        let Item::Record(record) = item else {
            panic!("the sample has no bad lines: {item:?}");
        };
        for block in record.offset / BLOCK..record.end().div_ceil(BLOCK) {
            match record.op {
                Op::Read => drive.read(block * BLOCK, BLOCK).unwrap(),
                Op::Write => drive.write(block * BLOCK, BLOCK).unwrap(),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn msr_sample_on_an_empty_drive() {
    let trace = data_or_skip!("msr_empty", "msr/hm_0-first-1000.csv");
    let expected = data_or_skip!("msr_empty", "golden/summary.csv");
    for phases in [2, 3] {
        let mut drive = drive(phases);
        run_blocks(&mut drive, &trace);
        assert_eq!(
            state(&mut drive, true),
            summary(&expected, "msr_empty", phases)
        );
    }
}

/// Runs the trace as it is, which maps the same blocks to the same places.
#[test]
fn msr_sample_in_whole_requests() {
    let trace = data_or_skip!("msr_whole", "msr/hm_0-first-1000.csv");
    let expected = data_or_skip!("msr_whole", "golden/summary.csv");
    let mut drives = [drive(2), drive(3)];
    let mut reader = trace::open(&trace, &trace::Options::default()).unwrap();
    let fit = convert::Options {
        capacity: Some(drives[0].capacity()),
        fit: Fit::Reject,
        span: 0,
        align: None,
    };
    let done = simulate::run(&mut reader, &fit, &mut drives, &mut |bad| panic!("{bad}")).unwrap();
    assert_eq!((done.lines, done.requests, done.bad_lines), (1000, 1000, 0));
    for (drive, phases) in drives.iter_mut().zip([2, 3]) {
        let stats = drive.stats();
        assert_eq!(stats.host_read_requests, 508);
        assert_eq!(stats.host_write_requests, 492);
        assert_eq!(state(drive, true), summary(&expected, "msr_empty", phases));
    }
}

#[test]
fn msr_sample_on_a_drive_filled_to_80_percent() {
    let trace = data_or_skip!("msr_zone80", "msr/hm_0-first-1000.csv");
    let expected = data_or_skip!("msr_zone80", "golden/summary.csv");
    for phases in [2, 3] {
        let mut drive = drive(phases);
        drive.prefill(Prefill::Sequential, "80%".parse().unwrap(), 0);
        let filled = summary(&expected, "msr_zone80:prefill", phases);
        let state_only: Vec<_> = [&filled[..2], &filled[6..]].concat();
        assert_eq!(state(&mut drive, false), state_only);
        run_blocks(&mut drive, &trace);
        assert_eq!(
            state(&mut drive, true),
            summary(&expected, "msr_zone80", phases)
        );
    }
}

/// Every operation by itself: where the block lies and how much is written back.
#[test]
fn every_operation() {
    for (name, share) in [("msr_empty", "0%"), ("msr_zone80", "80%")] {
        for phases in [2, 3] {
            let path = data_or_skip!(
                "every_operation",
                &format!("golden/{name}-{phases}phase.csv.gz")
            );
            let mut drive = drive(phases);
            drive.prefill(Prefill::Sequential, share.parse().unwrap(), 0);
            let file = BufReader::new(GzDecoder::new(File::open(path).unwrap()));
            for (number, line) in file.lines().enumerate().skip(1) {
                let line = line.unwrap();
                let fields: Vec<&str> = line.split(',').collect();
                let lba: u64 = fields[1].parse().unwrap();
                let before = drive.stats();
                match fields[0] {
                    "R" => drive.read(lba * BLOCK, BLOCK).unwrap(),
                    "W" => drive.write(lba * BLOCK, BLOCK).unwrap(),
                    other => panic!("{other}"),
                }
                let (zone, bo) = Geometry::DEFAULT.split(lba);
                let pba = drive
                    .lookup(zone, bo)
                    .map_or(-1, |nbo| (zone * 65_536) as i64 + i64::from(nbo));
                assert_eq!(pba.to_string(), fields[2], "{name} {phases} {number}");
                let extra = drive.stats().extra_write_blocks - before.extra_write_blocks;
                assert_eq!(extra.to_string(), fields[4], "{name} {phases} {number}");
            }
        }
    }
}
