// SPDX-License-Identifier: GPL-2.0-only

//! The strategies: their names, and the order in which each fills a zone.

mod common;

use std::collections::BTreeSet;

use common::{
    phases,
    Memory, //
};
use imrsim_core::{
    Allocation,
    Bo,
    Geometry,
    Strategy as _,
    Track,
    TrackKind,
    MAX_PHASES, //
};
use proptest::prelude::*;

#[test]
fn names_and_numbers() {
    assert_eq!(Allocation::default(), phases(2));
    assert_eq!(Allocation::all().count(), MAX_PHASES as usize);
    for (allocation, number) in Allocation::all().zip(1..) {
        let name = format!("{number}-phase");
        assert_eq!(allocation.to_string(), name);
        assert_eq!(allocation.phases(), number);
        assert_eq!(allocation.number(), number);
        assert_eq!(Allocation::from_phases(number), Ok(allocation));
        assert_eq!(name.parse(), Ok(allocation));
        assert_eq!(number.to_string().parse(), Ok(allocation));
    }
    for number in [0, 65, 66, 256 + 2, u32::MAX] {
        let error = Allocation::from_phases(number).unwrap_err();
        assert!(error.to_string().contains("1 to 64"));
        assert_eq!(number.to_string().parse::<Allocation>(), Err(error));
    }
    for name in [
        "", "-phase", "2-phas", "2-phase ", "2-phases", "65-phase", "-2", "2 phase",
    ] {
        assert!(name.parse::<Allocation>().is_err(), "{name:?}");
    }
}

fn tops(geometry: &Geometry, k: u32) -> Vec<u32> {
    (geometry.groups()..)
        .map_while(|index| phases(k).track(geometry, index))
        .map(|track| {
            assert_eq!(track.kind, TrackKind::Top);
            track.group
        })
        .collect()
}

#[test]
fn the_order_of_top_tracks() {
    let seven = Geometry::new(4, 5, 7).unwrap();
    assert_eq!(tops(&seven, 2), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(tops(&seven, 3), [0, 2, 4, 6, 1, 3, 5]);
    assert_eq!(tops(&seven, 4), [0, 3, 6, 1, 4, 2, 5]);
    assert_eq!(tops(&seven, 5), [0, 4, 1, 5, 2, 6, 3]);
    for k in 8..=MAX_PHASES {
        // Each top track is a phase of its own; the phases beyond are empty.
        assert_eq!(tops(&seven, k), [0, 1, 2, 3, 4, 5, 6], "{k}");
    }
    let default = tops(&Geometry::DEFAULT, 3);
    assert_eq!(
        default[..33],
        (0..64).step_by(2).chain([1]).collect::<Vec<_>>()
    );
}

#[test]
fn the_phase_of_each_track() {
    let seven = Geometry::new(4, 5, 7).unwrap();
    let track = |group, kind| Track { group, kind };
    let of_tops =
        |k| (0..7).map(move |group| phases(k).phase(&seven, track(group, TrackKind::Top)));
    assert!(of_tops(1).eq([1; 7]));
    assert!(of_tops(2).eq([2; 7]));
    assert!(of_tops(3).eq([2, 3, 2, 3, 2, 3, 2]));
    assert!(of_tops(4).eq([2, 3, 4, 2, 3, 4, 2]));
    for k in 1..=MAX_PHASES {
        let bottom = track(6, TrackKind::Bottom);
        assert_eq!(phases(k).phase(&seven, bottom), 1);
        // Phases follow each other in the order in which tracks are filled.
        let order = (0..seven.tracks()).map(|index| phases(k).track(&seven, index).unwrap());
        assert!(order
            .map(|track| phases(k).phase(&seven, track))
            .is_sorted());
    }
}

#[test]
fn the_phase_a_zone_has_reached() {
    let mut memory = Memory::new(Geometry::new(2, 3, 3).unwrap());
    let mut reached = Vec::new();
    for bo in 0..15 {
        reached.push(memory.zone().phase_reached(phases(3)));
        memory.write(bo, 1, phases(3));
    }
    assert_eq!(reached, [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3]);
    // Full, and seen by others.
    assert_eq!(
        [1, 2, 3, 9].map(|k| memory.zone().phase_reached(phases(k))),
        [1, 2, 3, 9]
    );
}

/// The documented order, block by block, written as plainly as possible.
fn documented_order(geometry: &Geometry, k: u32) -> Vec<u32> {
    let (top, bottom, groups) = (
        geometry.top_blocks(),
        geometry.bottom_blocks(),
        geometry.groups(),
    );
    if k == 1 {
        return (0..groups * (top + bottom)).collect();
    }
    let mut order = Vec::new();
    for g in 0..groups {
        order.extend((0..bottom).map(|i| g * (top + bottom) + top + i));
    }
    for phase in 2..=k {
        let mut g = phase - 2;
        while g < groups {
            order.extend((0..top).map(|i| g * (top + bottom) + i));
            g += k - 1;
        }
    }
    order
}

/// A permutation of `0..n` that depends on `seed`.
fn shuffled(n: u32, seed: u64) -> Vec<u32> {
    let mut blocks: Vec<u32> = (0..n).collect();
    let mut random = seed | 1;
    for i in (1..blocks.len()).rev() {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        blocks.swap(i, (random >> 33) as usize % (i + 1));
    }
    blocks
}

/// First writes of single blocks in a random order get every physical block exactly once, in the
/// order of the strategy.
fn check_order(geometry: Geometry, k: u32, seed: u64) {
    let mut memory = Memory::new(geometry);
    let blocks = shuffled(geometry.zone_blocks(), seed);
    let got: Vec<u32> = blocks
        .iter()
        .map(|&bo| {
            let plans = memory.write(bo, 1, phases(k));
            assert_eq!(memory.zone().lookup(Bo(bo)), Some(plans[0].nbo));
            plans[0].nbo.0
        })
        .collect();
    if k == 1 {
        assert_eq!(got, blocks, "1-phase is the identity");
    } else {
        assert_eq!(
            got,
            documented_order(&geometry, k),
            "{geometry:?} {k}-phase"
        );
    }
    assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), blocks.len());
    assert_eq!(memory.zone().mapped_blocks(), geometry.zone_blocks());
    assert_eq!(memory.zone().used_tops(), geometry.top_blocks_per_zone());
}

#[test]
fn the_default_zone_is_filled_in_order() {
    for k in [1, 2, 3, 7, 64] {
        check_order(Geometry::DEFAULT, k, 42);
    }
}

/// One large sequential write: the same order, in runs that end with their tracks.
#[test]
fn a_sequential_write_fills_track_after_track() {
    for k in [2, 3, 5] {
        let geometry = Geometry::DEFAULT;
        let mut memory = Memory::new(geometry);
        let plans = memory.write(0, geometry.zone_blocks(), phases(k));
        assert_eq!(plans.len(), 128, "a run for each track");
        assert!(plans.iter().all(|plan| plan.first && !plan.is_rmw()));
        let got: Vec<u32> = plans
            .iter()
            .flat_map(|plan| plan.nbo.0..plan.nbo.0 + plan.blocks)
            .collect();
        assert_eq!(got, documented_order(&geometry, k));
    }
}

/// In place, in physical order, each bottom track is written under a used top track.
#[test]
fn a_sequential_write_in_place() {
    let geometry = Geometry::DEFAULT;
    let mut memory = Memory::new(geometry);
    let plans = memory.write(0, 2048, phases(1));
    let lengths: Vec<u32> = plans.iter().map(|plan| plan.blocks).collect();
    let group = [456, 64, 64, 64, 64, 64, 64, 64, 64, 56];
    assert_eq!(lengths, [group, group].concat());
    assert!(plans.iter().all(|plan| plan.nbo.0 == plan.bo.0));
    assert!(plans
        .iter()
        .all(|plan| plan.rmw_neighbours() == u32::from(!plan.top)));
}

#[test]
fn a_changed_strategy_takes_the_first_free_block_in_the_new_order() {
    let geometry = Geometry::new(4, 6, 4).unwrap();
    let mut memory = Memory::new(geometry);
    let nbo = |memory: &mut Memory, bo, k| memory.write(bo, 1, phases(k))[0].nbo.0;
    // In place, over top 1 and bottom 0.
    for bo in [10, 11, 4, 5] {
        assert_eq!(nbo(&mut memory, bo, 1), bo);
    }
    // 2-phase: the bottom tracks from the beginning.
    for (bo, expected) in [(39, 6), (38, 7), (37, 8), (36, 9), (35, 14)] {
        assert_eq!(nbo(&mut memory, bo, 2), expected);
    }
    // Another change, which changes nothing for bottom tracks.
    assert_eq!(nbo(&mut memory, 34, 3), 15);
    // 1-phase again: at home if that is free, else the first free block, which is top 0's.
    assert_eq!(nbo(&mut memory, 16, 1), 16);
    assert_eq!(nbo(&mut memory, 14, 1), 0);
    assert_eq!(nbo(&mut memory, 9, 1), 1);
    // Fill the rest of the bottom tracks; then the even top tracks, past the blocks in use.
    for expected in [17, 18, 19, 24, 25, 26, 27, 28, 29, 34, 35, 36, 37, 38, 39] {
        let free = (0..40)
            .find(|&bo| memory.zone().lookup(Bo(bo)).is_none())
            .unwrap();
        assert_eq!(nbo(&mut memory, free, 3), expected);
    }
    for expected in [2, 3, 20, 21, 22, 23, 12, 13, 30, 31, 32, 33] {
        let free = (0..40)
            .find(|&bo| memory.zone().lookup(Bo(bo)).is_none())
            .unwrap();
        assert_eq!(nbo(&mut memory, free, 3), expected);
    }
    assert_eq!(memory.zone().mapped_blocks(), 40);
}

/// Blocks displaced from their homes do not make the blocks behind them lose theirs.
#[test]
fn a_displaced_run_in_place_is_one_block() {
    let geometry = Geometry::new(4, 6, 4).unwrap();
    let mut memory = Memory::new(geometry);
    memory.write(39, 1, phases(2)); // takes block 4
    let places: Vec<_> = memory
        .write(4, 8, phases(1))
        .iter()
        .map(|plan| (plan.bo.0, plan.nbo.0, plan.blocks))
        .collect();
    assert_eq!(places, [(4, 0, 1), (5, 5, 5), (10, 10, 2)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_zone_is_filled_in_order(
        top in 1u32..=20, more in 0u32..=20, groups in 1u32..=9, k in 1u32..=12, seed: u64,
    ) {
        check_order(Geometry::new(top, top + more, groups).unwrap(), k, seed);
    }

    /// Each track appears once in the order of each strategy, and `index` is the inverse.
    #[test]
    fn index_undoes_track(groups in 1u32..=200, k in 1..=MAX_PHASES) {
        let geometry = Geometry::new(1, 2, groups).unwrap();
        let mut seen = BTreeSet::new();
        for index in 0..geometry.tracks() {
            let track = phases(k).track(&geometry, index).unwrap();
            prop_assert!(track.group < groups);
            prop_assert_eq!(phases(k).index(&geometry, track), index);
            prop_assert!(seen.insert(track));
        }
        for beyond in [geometry.tracks(), geometry.tracks() + 1, u32::MAX] {
            prop_assert_eq!(phases(k).track(&geometry, beyond), None);
        }
        // No track of the zone; the number means nothing, but there is one.
        let nowhere = Track { group: u32::MAX, kind: TrackKind::Top };
        phases(k).index(&geometry, nowhere);
    }
}
