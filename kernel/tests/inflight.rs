// SPDX-License-Identifier: GPL-2.0-only

//! The blocks in flight, on their own: against plain vectors, over random starts and ends.

use imrsim_core::{
    Geometry,
    InFlight, //
};
use proptest::prelude::*;

#[test]
fn the_memory_has_one_size() {
    let geometry = Geometry::DEFAULT;
    let words = InFlight::words(&geometry);
    assert_eq!(words, 1024 + 2 * 456);
    for wrong in [0, 1, 1024, words - 1, words + 1] {
        assert!(
            InFlight::new(&geometry, &mut vec![0; wrong]).is_none(),
            "{wrong}"
        );
    }
    assert!(InFlight::new(&geometry, &mut vec![0; words]).is_some());
}

#[test]
fn states_of_a_top_block() {
    let geometry = Geometry::DEFAULT;
    let mut words = vec![0; InFlight::words(&geometry)];
    let mut in_flight = InFlight::new(&geometry, &mut words).unwrap();
    // A mask over the boundary of a word.
    let (first, mask) = (60, 0b1010_0001);
    for state in 0..2 {
        assert_eq!(in_flight.top_state(65), state);
        assert!(in_flight.may_rewrite(first, mask));
        in_flight.hold_for_rewrite(first, mask);
    }
    assert_eq!(
        [60, 61, 64, 65, 66, 67].map(|top| in_flight.top_state(top)),
        [2, 0, 0, 2, 0, 2]
    );
    assert!(!in_flight.may_rewrite(first, mask));
    assert!(!in_flight.may_rewrite(67, 1));
    assert!(in_flight.may_rewrite(66, 1));
    assert!(!in_flight.may_write(66, 2));
    assert!(in_flight.may_write(61, 4));
    in_flight.release_rewrite(first, mask);
    assert_eq!(in_flight.top_state(65), 1);
    assert!(!in_flight.may_write(65, 1), "one read-modify-write is left");
    assert!(in_flight.may_rewrite(65, 1));
    in_flight.release_rewrite(first, mask);
    assert!(in_flight.may_write(0, 29_184));
    in_flight.hold_for_write(60, 8);
    assert_eq!(
        [59, 60, 67, 68].map(|top| in_flight.top_state(top)),
        [0, 3, 3, 0]
    );
    assert!(!in_flight.may_rewrite(59, 0b10));
    assert!(in_flight.may_rewrite(59, 0b1));
    in_flight.release_write(60, 8);
    assert!(words.iter().all(|&word| word == 0));
}

#[test]
fn numbers_out_of_range_do_no_harm() {
    let geometry = Geometry::new(1, 2, 1).unwrap();
    let mut words = vec![0; InFlight::words(&geometry)];
    let mut in_flight = InFlight::new(&geometry, &mut words).unwrap();
    for far in [64, 1000, u32::MAX - 1, u32::MAX] {
        in_flight.set_busy(far, u32::MAX);
        in_flight.hold_for_write(far, 5);
        in_flight.hold_for_rewrite(far, u64::MAX);
        assert!(!in_flight.is_busy(far));
        assert_eq!(in_flight.top_state(far), 0);
        assert_eq!(
            in_flight.idle_run(far, 7).min(7),
            in_flight.idle_run(far, 7)
        );
        in_flight.release_rewrite(far, u64::MAX);
        in_flight.release_write(far, u32::MAX);
        in_flight.clear_busy(far, u32::MAX);
    }
    assert!(words.iter().all(|&word| word == 0));
}

/// What is in flight.
#[derive(Clone, Debug)]
enum Held {
    Busy(u32, u32),
    Write(u32, u32),
    Rewrite(u32, u64),
}

#[derive(Clone, Debug)]
enum Action {
    Start(Held),
    End(prop::sample::Index),
}

const BLOCKS: u32 = 700;
const TOPS: u32 = 300;

fn actions() -> impl Strategy<Value = Action> {
    let run =
        |len: u32| (0..len).prop_flat_map(move |first| (Just(first), 1..=(len - first).min(150)));
    let mask = prop_oneof![
        any::<u64>(),
        Just(u64::MAX),
        (0u32..64).prop_map(|i| 1 << i)
    ];
    prop_oneof![
        1 => run(BLOCKS).prop_map(|(bo, blocks)| Action::Start(Held::Busy(bo, blocks))),
        1 => run(TOPS).prop_map(|(first, blocks)| Action::Start(Held::Write(first, blocks))),
        3 => (0..TOPS, mask).prop_map(|(first, mask)| {
            let fit = TOPS - first;
            let mask = if fit < 64 { mask & ((1 << fit) - 1) } else { mask };
            Action::Start(Held::Rewrite(first, mask))
        }),
        5 => any::<prop::sample::Index>().prop_map(Action::End),
    ]
}

fn bits(first: u32, mask: u64) -> impl Iterator<Item = usize> {
    (0..64)
        .filter(move |i| mask >> i & 1 == 1)
        .map(move |i| first as usize + i)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn behaves_like_plain_counters(actions in prop::collection::vec(actions(), 1..80)) {
        // 300 top blocks, 700 blocks: neither fills its last word.
        let geometry = Geometry::new(150, 200, 2).unwrap();
        let mut words = vec![0; InFlight::words(&geometry)];
        let mut in_flight = InFlight::new(&geometry, &mut words).unwrap();
        let mut busy = vec![false; BLOCKS as usize];
        let mut tops = vec![0u32; TOPS as usize];
        let mut held: Vec<Held> = Vec::new();
        let range = |first: u32, len: u32| first as usize..(first + len) as usize;
        for action in actions {
            match action {
                Action::Start(Held::Busy(bo, blocks)) => {
                    let slice = &mut busy[range(bo, blocks)];
                    let idle = slice.iter().take_while(|&&busy| !busy).count();
                    prop_assert_eq!(in_flight.idle_run(bo, blocks), idle as u32);
                    prop_assert_eq!(in_flight.any_busy(bo, blocks), idle < slice.len());
                    if idle == slice.len() {
                        slice.fill(true);
                        in_flight.set_busy(bo, blocks);
                        held.push(Held::Busy(bo, blocks));
                    }
                }
                Action::Start(Held::Write(first, blocks)) => {
                    let slice = &mut tops[range(first, blocks)];
                    let may = slice.iter().all(|&state| state == 0);
                    prop_assert_eq!(in_flight.may_write(first, blocks), may);
                    if may {
                        slice.fill(3);
                        in_flight.hold_for_write(first, blocks);
                        held.push(Held::Write(first, blocks));
                    }
                }
                Action::Start(Held::Rewrite(first, mask)) => {
                    let may = bits(first, mask).all(|top| tops[top] <= 1);
                    prop_assert_eq!(in_flight.may_rewrite(first, mask), may);
                    if may {
                        bits(first, mask).for_each(|top| tops[top] += 1);
                        in_flight.hold_for_rewrite(first, mask);
                        held.push(Held::Rewrite(first, mask));
                    }
                }
                Action::End(_) if held.is_empty() => {}
                Action::End(index) => match held.swap_remove(index.index(held.len())) {
                    Held::Busy(bo, blocks) => {
                        busy[range(bo, blocks)].fill(false);
                        in_flight.clear_busy(bo, blocks);
                    }
                    Held::Write(first, blocks) => {
                        tops[range(first, blocks)].fill(0);
                        in_flight.release_write(first, blocks);
                    }
                    Held::Rewrite(first, mask) => {
                        bits(first, mask).for_each(|top| tops[top] -= 1);
                        in_flight.release_rewrite(first, mask);
                    }
                },
            }
            for (bo, &busy) in (0..).zip(&busy) {
                prop_assert_eq!(in_flight.is_busy(bo), busy);
            }
            for (top, &state) in (0..).zip(&tops) {
                prop_assert_eq!(in_flight.top_state(top), state);
            }
        }
    }
}
