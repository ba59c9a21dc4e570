// SPDX-License-Identifier: GPL-2.0-only

//! Many traces on many drives at once against each of them by itself.

use std::io::Cursor;

use anyhow::bail;
use imrsim_core::{Allocation, Geometry, Stats};
use imrsim_util::{
    drive::Drive,
    prefill::{Prefill, Share},
    simulate::{Matrix, Spread, MAX_BAD_LINES},
    trace::{self, convert::Fit, Item, Op, Options, Reader},
};
use proptest::prelude::*;

const BLOCK: u64 = 4096;

/// What is compared of a drive.
type Found = (Stats, Spread, u64, u64, Vec<(u64, Stats)>);

fn found(drive: &Drive) -> Found {
    let zones = drive.touched_zones().map(|(zone, stats)| (zone, *stats));
    (
        drive.stats(),
        Spread::of(drive),
        drive.mapped_blocks(),
        drive.used_top_blocks(),
        zones.collect(),
    )
}

/// An iolog of requests: (offset, length, operation).
fn iolog(requests: &[(u64, u64, u8)]) -> Vec<u8> {
    let mut text = "fio version 2 iolog\n/dev/a add\n/dev/a open\n".to_owned();
    for (offset, len, op) in requests {
        let op = ["read", "write", "trim"][usize::from(*op)];
        text += &format!("/dev/a {op} {offset} {len}\n");
    }
    (text + "/dev/a close\n").into_bytes()
}

fn open(text: &[u8]) -> trace::Trace {
    trace::read(Cursor::new(text.to_vec()), "a trace", &Options::default()).unwrap()
}

fn matrix(jobs: usize) -> Matrix {
    let shares = ["30%", "60%", "100%"];
    Matrix {
        geometry: Geometry::new(3, 4, 5).unwrap(),
        zones: 6,
        strategies: [2, 1, 3]
            .map(|phases| Allocation::from_phases(phases).unwrap())
            .to_vec(),
        usages: shares.map(|share| share.parse().unwrap()).to_vec(),
        prefill: Prefill::Random { extent: 2 },
        seed: 7,
        fit: Fit::Reject,
        jobs,
    }
}

fn run(matrix: &Matrix, traces: &[Vec<u8>]) -> Vec<Vec<Found>> {
    let outcomes = matrix.run(
        traces.len(),
        |trace| Ok(open(&traces[trace])),
        |_, bad| bail!("{bad}"),
        |drive| Ok(found(&drive)),
    );
    outcomes.unwrap().into_iter().map(|it| it.runs).collect()
}

#[test]
fn more_threads_than_drives_are_not_made() {
    let traces = [iolog(&[(0, BLOCK, 1)]), iolog(&[(BLOCK, BLOCK, 1)])];
    assert_eq!(run(&matrix(usize::MAX), &traces), run(&matrix(1), &traces));
}

/// One trace on one drive, without batches and threads.
fn alone(matrix: &Matrix, text: &[u8], usage: Share, strategy: Allocation) -> Found {
    let mut drive = Drive::new(matrix.geometry, matrix.zones, strategy).unwrap();
    drive.prefill(matrix.prefill, usage, matrix.seed);
    let mut reader = open(text);
    while let Some(item) = reader.next_item().unwrap() {
        let Item::Record(it) = item else { continue };
        match it.op {
            Op::Read => drive.read(it.offset, it.len).unwrap(),
            Op::Write => drive.write(it.offset, it.len).unwrap(),
            Op::Trim => drive.discard(it.offset, it.len).unwrap(),
            Op::Flush => {}
        }
    }
    found(&drive)
}

fn requests() -> impl Strategy<Value = Vec<(u64, u64, u8)>> {
    let capacity = 6 * 35 * BLOCK;
    let request = (0..capacity, 1..6 * BLOCK, 0_u8..3)
        .prop_map(move |(offset, len, op)| (offset, len.min(capacity - offset), op));
    proptest::collection::vec(request, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn together_as_alone(traces in proptest::collection::vec(requests(), 1..5), jobs in 1_usize..7) {
        let traces: Vec<_> = traces.iter().map(|it| iolog(it)).collect();
        let matrix = matrix(jobs);
        let results = run(&matrix, &traces);
        prop_assert_eq!(results.len(), traces.len());
        for (text, runs) in traces.iter().zip(&results) {
            let combinations = matrix.combinations();
            prop_assert_eq!(runs.len(), combinations.len());
            for (it, found) in combinations.iter().zip(runs) {
                prop_assert_eq!(found, &alone(&matrix, text, it.usage.unwrap(), it.strategy));
            }
        }
    }
}

/// Longer than a batch.
#[test]
fn the_number_of_threads_changes_nothing() {
    let long = |step: u64| -> Vec<u8> {
        let at = |i: u64| (i * step % 200) * BLOCK;
        let requests: Vec<_> = (0..40_000)
            .map(|i| (at(i), BLOCK * (1 + i % 3), (i % 7 > 1).into()))
            .collect();
        iolog(&requests)
    };
    let traces = [long(77), long(131), long(3)];
    let one = run(&matrix(1), &traces);
    for jobs in [2, 5] {
        assert_eq!(run(&matrix(jobs), &traces), one);
    }
    assert_ne!(one[0], one[1]);
}

#[test]
fn the_first_failing_trace_is_reported() {
    let good = iolog(&[(0, BLOCK, 1)]);
    let bad = |offset: u64| iolog(&[(offset << 40, BLOCK, 1)]);
    let traces = [good, bad(1), bad(2)];
    for jobs in [1, 3] {
        let error = matrix(jobs)
            .run(
                traces.len(),
                |trace| Ok(open(&traces[trace])),
                |trace, _| bail!("trace {trace}"),
                |_| Ok(()),
            )
            .unwrap_err();
        assert_eq!(error.to_string(), "trace 1");
    }
}

#[test]
fn bad_lines_are_counted_and_the_first_kept() {
    let text = iolog(&[(1 << 40, BLOCK, 0); 30]);
    let outcomes = matrix(2)
        .run(1, |_| Ok(open(&text)), |_, _| Ok(()), |_| Ok(()))
        .unwrap();
    assert_eq!(outcomes[0].summary.bad_lines, 30);
    assert_eq!(outcomes[0].bad_lines.len(), MAX_BAD_LINES);
}

#[test]
fn requests_beyond_the_end_are_made_to_fit() {
    let capacity = 6 * 35 * BLOCK;
    let text = iolog(&[
        (0, BLOCK, 1),
        (capacity - BLOCK, 2 * BLOCK, 1),
        (capacity, BLOCK, 0),
        (2 * capacity - BLOCK, BLOCK, 0),
    ]);
    let with = |fit| {
        let matrix = Matrix { fit, ..matrix(2) };
        let outcomes = matrix
            .run(
                1,
                |_| Ok(open(&text)),
                |_, _| Ok(()),
                |drive| Ok(drive.stats()),
            )
            .unwrap();
        let (summary, stats) = (outcomes[0].summary, outcomes[0].runs[0]);
        (
            (summary.requests, summary.bad_lines, summary.clipped_away),
            (stats.host_write_requests, stats.host_write_blocks),
            stats.host_read_requests,
        )
    };
    assert_eq!(with(Fit::Reject), ((1, 3, 0), (1, 1), 0));
    assert_eq!(with(Fit::Clip), ((2, 0, 2), (2, 2), 0));
    // The request over the end is two.
    assert_eq!(with(Fit::Wrap), ((4, 0, 0), (3, 3), 2));
    // Offsets are halved: the second write begins in the middle of a block and reaches into another zone.
    assert_eq!(with(Fit::Scale), ((4, 0, 0), (3, 4), 2));
}
