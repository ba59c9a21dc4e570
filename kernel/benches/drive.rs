// SPDX-License-Identifier: GPL-2.0-only

//! What the drive's own code costs, in nanoseconds per block: the address translation, lookups,
//! plans and allocation, without a kernel around them.

// What the macros of criterion make has no documentation.
#![allow(missing_docs)]

use criterion::measurement::WallTime;
use criterion::{
    criterion_group,
    criterion_main,
    BenchmarkGroup,
    Criterion,
    Throughput, //
};
use imrsim_core::{
    ondisk::{
        slot,
        Crc,
        BLOCK_BYTES, //
    },
    Allocation,
    Bo,
    Geometry,
    Nbo,
    Piece,
    Request,
    Stats,
    Step,
    Zone,
    ZoneState, //
};
use std::hint::black_box;

/// A zone with its memory.
struct Drive {
    geometry: Geometry,
    table: Vec<u16>,
    bits: Vec<u64>,
    state: ZoneState,
    stats: Stats,
}

/// Whole blocks.
fn request(bo: u32, blocks: u32) -> Request {
    Request {
        bo: Bo(bo),
        blocks,
        head_partial: false,
        tail_partial: false,
    }
}

impl Drive {
    fn empty() -> Self {
        let geometry = Geometry::DEFAULT;
        Self {
            table: vec![0; Zone::table_len(&geometry)],
            bits: vec![0; Zone::bits_len(&geometry)],
            state: ZoneState::default(),
            stats: Stats::default(),
            geometry,
        }
    }

    /// A drive of which the first blocks were written, in order.
    fn written(blocks: u32) -> Self {
        let mut drive = Self::empty();
        let mut bo = 0;
        while bo < blocks {
            bo += drive.write(bo, blocks - bo);
        }
        drive
    }

    fn zone(&mut self) -> Zone<'_> {
        Zone::new(
            &self.geometry,
            &mut self.table,
            &mut self.bits,
            &mut self.state,
        )
        .expect("the slices have the right lengths")
    }

    /// Plans, counts and finishes the first run of a write. Returns its length.
    fn write(&mut self, bo: u32, blocks: u32) -> u32 {
        let allocation = Allocation::default();
        let Step::Ready(plan) = self.zone().start(&request(bo, blocks), allocation) else {
            panic!("nothing is in flight");
        };
        self.stats.count_write(
            &plan,
            Piece {
                ends_request: plan.blocks == blocks,
                ..Piece::default()
            },
        );
        self.zone().finish(&plan, true);
        plan.blocks
    }
}

/// Block numbers below `end` in an order without a pattern, each as often as any other.
fn scattered(end: u32) -> impl FnMut() -> u32 {
    let mut state = 1_u64;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(((state >> 32) * u64::from(end)) >> 32).expect("below `end`")
    }
}

/// Measures `f`, which handles so many blocks.
fn measure(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, blocks: u32, mut f: impl FnMut()) {
    group.throughput(Throughput::Elements(u64::from(blocks)));
    group.bench_function(name, |bencher| bencher.iter(&mut f));
}

fn translation(c: &mut Criterion) {
    let group = &mut c.benchmark_group("translation");
    let geometry = black_box(Geometry::DEFAULT);
    let mut block = scattered(u32::MAX);
    measure(group, "AT", 1, || {
        black_box(geometry.at(u64::from(block())));
    });
    let address = geometry.at(123_456_789);
    measure(group, "AT inverse", 1, || {
        black_box(geometry.at_inverse(black_box(address)));
    });
    let mut nbo = scattered(geometry.zone_blocks());
    measure(group, "neighbours", 1, || {
        black_box(geometry.neighbours(Nbo(nbo())));
    });
}

fn lookup(c: &mut Criterion) {
    let group = &mut c.benchmark_group("lookup");
    let mut drive = Drive::written(Geometry::DEFAULT.zone_blocks());
    let mut bo = scattered(Geometry::DEFAULT.zone_blocks());
    measure(group, "mapped block", 1, || {
        let bo = Bo(bo());
        black_box(drive.zone().read(bo, 1));
    });
    measure(group, "run of 256 blocks", 256, || {
        black_box(drive.zone().read(black_box(Bo(0)), 256));
    });
    let mut empty = Drive::empty();
    measure(group, "256 unmapped blocks", 256, || {
        black_box(empty.zone().read(black_box(Bo(0)), 256));
    });
}

fn update(c: &mut Criterion) {
    let group = &mut c.benchmark_group("update");
    let geometry = Geometry::DEFAULT;
    let bottoms = geometry.bottom_blocks_per_zone();

    let mut drive = Drive::written(bottoms);
    let mut bo = scattered(bottoms);
    measure(group, "bottom block, nothing above", 1, || {
        black_box(drive.write(bo(), 1));
    });

    let mut drive = Drive::written(geometry.zone_blocks());
    let mut top = scattered(geometry.top_blocks_per_zone());
    measure(group, "top block", 1, || {
        black_box(drive.write(bottoms + top(), 1));
    });
    let mut bo = scattered(bottoms - geometry.bottom_blocks());
    measure(group, "bottom block, two neighbours", 1, || {
        black_box(drive.write(bo(), 1));
    });
    measure(group, "16 bottom blocks, two neighbours", 16, || {
        black_box(drive.write(black_box(160), 16));
    });
}

fn first_write(c: &mut Criterion) {
    let group = &mut c.benchmark_group("first write");
    let blocks = Geometry::DEFAULT.zone_blocks();
    let mut phases = |name, order: fn(u32) -> u32| {
        let mut drive = Drive::empty();
        let mut next = 0;
        measure(group, name, 1, || {
            if next == blocks {
                // A new zone once in 65,536 blocks.
                drive = Drive::empty();
                next = 0;
            }
            black_box(drive.write(order(next), 1));
            next += 1;
        });
    };
    phases("in order", |bo| bo);
    // An odd factor visits each block once.
    phases("scattered", |bo| bo.wrapping_mul(40_503) % 65_536);
}

fn load(c: &mut Criterion) {
    let group = &mut c.benchmark_group("load");
    let geometry = Geometry::DEFAULT;
    let blocks = geometry.zone_blocks();
    let mut scatter = |name, order: fn(u32) -> u32| {
        let mut drive = Drive::empty();
        for bo in 0..blocks {
            drive.write(order(bo), 1);
        }
        measure(group, name, blocks, || {
            black_box(drive.zone()).load().expect("a sound table");
        });
    };
    scatter("table, in order", |bo| bo);
    scatter("table, scattered", |bo| bo.wrapping_mul(40_503) % 65_536);

    let mut drive = Drive::written(blocks);
    let zone = drive.zone();
    let mut body = vec![[0; BLOCK_BYTES]; slot::body_blocks(&geometry)];
    for (block, index) in body.iter_mut().zip(0..) {
        slot::encode_body(&geometry, zone.table(), zone.mapped_words(), index, block);
    }
    measure(group, "body of a slot, decoded", blocks, || {
        let mut zone = drive.zone();
        let memory = zone.memory();
        for (block, index) in body.iter().zip(0..) {
            slot::decode_body(&geometry, memory.table, memory.mapped, index, block);
        }
    });
    measure(group, "body of a slot, checksum", blocks, || {
        let crc = body
            .iter()
            .fold(Crc::new(), |crc, block| crc.update(black_box(block)));
        black_box(crc.value());
    });
}

criterion_group!(benches, translation, lookup, update, first_write, load);
criterion_main!(benches);
