// SPDX-License-Identifier: GPL-2.0-only

//! The zone, case by case: each rule of its documentation by an example.

mod common;

use common::{
    phases,
    rewritten,
    whole,
    Memory, //
};
use imrsim_core::{
    Allocation,
    Bo,
    Geometry,
    Nbo,
    Op,
    Plan,
    ReadRun,
    Request,
    Step,
    TopRun,
    Zone,
    ZoneState, //
};

const TWO: fn() -> Allocation = || phases(2);

/// 6 top and 8 bottom blocks, 4 groups: top g at 14 g, bottom g at 14 g + 6.
fn small() -> Memory {
    Memory::new(Geometry::new(6, 8, 4).unwrap())
}

/// A small zone whose blocks are all mapped, in place.
fn full() -> Memory {
    let mut memory = small();
    memory.write(0, 56, phases(1));
    memory
}

#[test]
fn a_zone_takes_its_memory_and_no_other() {
    let geometry = Geometry::DEFAULT;
    let (table, bits) = (Zone::table_len(&geometry), Zone::bits_len(&geometry));
    assert_eq!(table, 65_536);
    let bytes = 2 * table + 8 * bits;
    assert!(bytes <= 160 << 10, "{bytes}");
    assert_eq!(bytes, 162_944, "as documented");
    for (t, b) in [
        (0, 0),
        (table, 0),
        (0, bits),
        (table - 1, bits),
        (table + 1, bits),
    ]
    .into_iter()
    .chain([1, 1024, 2048, bits - 1, bits + 1].map(|b| (table, b)))
    {
        let (mut t, mut b) = (vec![0; t], vec![0; b]);
        assert!(Zone::new(&geometry, &mut t, &mut b, &mut ZoneState::default()).is_none());
    }
    let mut memory = Memory::new(geometry);
    assert_eq!(*memory.zone().geometry(), geometry);
    assert_eq!(memory.zone().mapped_blocks(), 0);
    assert_eq!(
        memory.zone().read(Bo(0), 65_536),
        ReadRun::Zeros { blocks: 65_536 }
    );
}

#[test]
fn a_first_write_is_visible_when_it_has_succeeded() {
    let mut memory = small();
    let plan = memory.begin(10, 3, TWO());
    assert_eq!((plan.bo, plan.nbo, plan.blocks), (Bo(10), Nbo(6), 3));
    assert!(plan.first && !plan.pad && !plan.top && !plan.is_rmw());
    assert_eq!(memory.state.writes_in_flight(), 1);
    let zone = memory.zone();
    assert_eq!(zone.lookup(Bo(10)), None);
    assert_eq!(zone.read(Bo(9), 10), ReadRun::Zeros { blocks: 10 });
    assert!(zone.is_used(Nbo(6)) && zone.is_used(Nbo(8)) && !zone.is_used(Nbo(9)));
    assert!(zone.is_busy(Bo(10)) && !zone.is_busy(Bo(9)) && !zone.is_busy(Bo(13)));
    memory.zone().finish(&plan, true);
    let zone = memory.zone();
    assert_eq!(zone.lookup(Bo(12)), Some(Nbo(8)));
    assert_eq!(zone.read(Bo(9), 10), ReadRun::Zeros { blocks: 1 });
    assert_eq!(
        zone.read(Bo(10), 10),
        ReadRun::Mapped {
            nbo: Nbo(6),
            blocks: 3
        }
    );
    assert_eq!(zone.read(Bo(13), 10), ReadRun::Zeros { blocks: 10 });
    assert_eq!((zone.mapped_blocks(), zone.writes_in_flight()), (3, 0));
    assert_eq!(memory.state.mapped_blocks(), 3);
}

#[test]
fn a_first_write_that_fails_leaves_nothing() {
    let mut memory = small();
    memory.write(0, 32, TWO()); // all bottom blocks
    let first = memory.begin(40, 2, TWO());
    let second = memory.begin(42, 2, TWO());
    assert!(first.top && second.top);
    assert_eq!((first.nbo, second.nbo), (Nbo(0), Nbo(2)));
    assert_eq!(memory.zone().used_tops(), 4);
    memory.zone().finish(&first, false);
    assert_eq!(memory.zone().lookup(Bo(40)), None);
    assert!(!memory.zone().is_used(Nbo(1)));
    assert_eq!(
        (memory.state.used_tops(), memory.state.mapped_blocks()),
        (2, 32)
    );
    // The next first write takes the blocks; one that would go on behind them is cut.
    let plan = memory.begin(50, 4, TWO());
    assert_eq!((plan.nbo, plan.blocks), (Nbo(0), 2));
    let plan = memory.begin(52, 2, TWO());
    assert_eq!((plan.nbo, plan.blocks), (Nbo(4), 2));
    memory.zone().finish(&second, true);
    assert_eq!(memory.zone().lookup(Bo(43)), Some(Nbo(3)));
}

#[test]
fn a_failed_update_changes_no_mapping() {
    let mut memory = small();
    memory.write(3, 4, TWO());
    let before = memory.clone();
    let plan = memory.begin(3, 4, TWO());
    assert!(!plan.first);
    memory.zone().finish(&plan, false);
    assert_eq!(
        (memory.table, memory.bits, memory.state),
        (before.table, before.bits, before.state)
    );
}

#[test]
fn a_run_ends_where_the_mapping_or_the_track_does() {
    let mut memory = small();
    memory.write(0, 20, TWO()); // bottoms 0 and 1 and half of bottom 2
    let plan = memory.begin(5, 15, TWO());
    assert_eq!(
        (plan.nbo, plan.blocks),
        (Nbo(11), 3),
        "to the end of bottom 0"
    );
    memory.write(30, 1, TWO()); // between 19 and 20
    memory.write(20, 2, TWO());
    assert_eq!(
        memory.zone().read(Bo(16), 6),
        ReadRun::Mapped {
            nbo: Nbo(34),
            blocks: 4
        }
    );
    let plan = memory.begin(16, 6, TWO());
    assert_eq!(
        (plan.nbo, plan.blocks),
        (Nbo(34), 4),
        "20 does not lie behind 19"
    );
    let plan = memory.begin(20, 10, TWO());
    assert_eq!((plan.first, plan.blocks), (false, 2), "22 is not mapped");
    let plan = memory.begin(22, 34, TWO());
    assert_eq!(
        (plan.first, plan.nbo, plan.blocks),
        (true, Nbo(41), 1),
        "to the end of bottom 2"
    );
    let plan = memory.begin(25, 31, TWO());
    assert_eq!((plan.first, plan.blocks), (true, 5), "30 is mapped");
    // A read goes on over the end of a track; in place, all the zone is one run.
    assert_eq!(
        full().zone().read(Bo(0), 56),
        ReadRun::Mapped {
            nbo: Nbo(0),
            blocks: 56
        }
    );
    assert_eq!(
        full().zone().read(Bo(3), 30),
        ReadRun::Mapped {
            nbo: Nbo(3),
            blocks: 30
        }
    );
}

#[test]
fn partly_covered_blocks() {
    let start = |head_partial, tail_partial, blocks| {
        let request = Request {
            bo: Bo(2),
            blocks,
            head_partial,
            tail_partial,
        };
        let mut memory = small();
        let Step::Ready(plan) = memory.zone().start(&request, TWO()) else {
            panic!("does not start");
        };
        (plan.blocks, plan.pad)
    };
    assert_eq!(start(false, false, 4), (4, false));
    assert_eq!(start(true, false, 4), (1, true));
    assert_eq!(start(true, true, 4), (1, true));
    assert_eq!(start(false, true, 4), (3, false));
    assert_eq!(start(false, true, 2), (1, false));
    assert_eq!(start(false, false, 1), (1, false));
    assert_eq!(start(true, false, 1), (1, true));
    assert_eq!(start(false, true, 1), (1, true));
    // Of mapped blocks it makes no difference.
    let mut memory = small();
    memory.write(2, 4, TWO());
    let request = Request {
        head_partial: true,
        tail_partial: true,
        ..whole(2, 4)
    };
    let Step::Ready(plan) = memory.zone().start(&request, TWO()) else {
        panic!("does not start");
    };
    assert_eq!((plan.blocks, plan.pad, plan.first), (4, false, false));
}

#[test]
fn a_run_of_first_writes_stops_before_a_mapped_or_pending_block() {
    let mut memory = small();
    memory.write(5, 1, TWO());
    let pending = memory.begin(8, 1, TWO());
    assert_eq!(memory.begin(3, 6, TWO()).blocks, 2);
    assert_eq!(memory.begin(6, 6, TWO()).blocks, 2);
    assert_eq!(
        memory.zone().plan(&whole(8, 6), TWO()),
        Step::Wait { blocks: 1 }
    );
    assert_eq!(
        memory.zone().start(&whole(8, 6), TWO()),
        Step::Wait { blocks: 1 }
    );
    memory.zone().finish(&pending, true);
    assert_eq!(memory.begin(8, 6, TWO()).nbo, pending.nbo);
}

#[test]
fn an_rmw_reads_and_restores_what_is_used_above() {
    let mut memory = small();
    memory.write(0, 32, TWO());
    assert!(
        !memory.write(0, 8, TWO())[0].is_rmw(),
        "no top block is used"
    );
    memory.write(32, 9, TWO()); // top 0, and the first three of top 1
                                // Bottom 0 lies under both: offsets 0 1 2 3 4 5 6 7 under 0 0 1 2 3 3 4 5.
    let plan = memory.begin(0, 8, TWO());
    assert_eq!(rewritten(&plan), [0, 1, 2, 3, 4, 5, 14, 15, 16]);
    assert_eq!((plan.rmw_neighbours(), plan.extra_writes()), (2, 9));
    let ops: Vec<Op> = plan.ops().collect();
    let (own, next) = ((Nbo(0), 6), (Nbo(14), 3));
    let read = |(nbo, blocks)| Op::Read { nbo, blocks };
    let write_back = |(nbo, blocks)| Op::WriteBack { nbo, blocks };
    let write = Op::Write {
        nbo: Nbo(6),
        blocks: 8,
    };
    assert_eq!(
        ops,
        [
            read(own),
            read(next),
            write,
            write_back(own),
            write_back(next)
        ]
    );
    memory.zone().finish(&plan, true);
    // Bottom 1 lies under tops 1 and 2: only top 1 is used, and only its first half.
    assert_eq!(rewritten(&memory.write(8, 1, TWO())[0]), [14]);
    assert_eq!(rewritten(&memory.write(11, 1, TWO())[0]), [16]);
    let plan = memory.write(12, 4, TWO())[0];
    assert_eq!((plan.blocks, plan.is_rmw()), (4, false));
    assert_eq!(plan.ops().count(), 1);
    // The last bottom track lies under one.
    let mut memory = full();
    let plan = memory.write(50, 3, phases(1))[0];
    assert_eq!(
        (rewritten(&plan), plan.rmw_neighbours()),
        (vec![43, 44, 45], 1)
    );
}

#[test]
fn a_first_write_below_a_used_top_block_is_an_rmw() {
    let mut memory = small();
    memory.write(0, 6, phases(1));
    let plan = memory.begin(40, 1, TWO());
    assert!(plan.first);
    assert_eq!((plan.nbo, rewritten(&plan)), (Nbo(6), vec![0]));
}

#[test]
fn runs_of_a_mask() {
    let plan = Plan {
        bo: Bo(0),
        nbo: Nbo(500),
        blocks: 64,
        first: false,
        pad: false,
        top: false,
        neighbours: [
            TopRun {
                first: Nbo(10),
                mask: 0b1011_0110,
            },
            TopRun {
                first: Nbo(1100),
                mask: u64::MAX,
            },
        ],
    };
    let runs: Vec<(u32, u32)> = plan.runs().map(|(nbo, blocks)| (nbo.0, blocks)).collect();
    assert_eq!(runs, [(11, 2), (14, 2), (17, 1), (1100, 64)]);
    assert_eq!(plan.extra_writes(), 69);
    assert_eq!(plan.ops().count(), 9);
    let ends = TopRun {
        first: Nbo(0),
        mask: 1 | 3 << 62,
    };
    let plan = Plan {
        neighbours: [TopRun::default(), ends],
        ..plan
    };
    let runs: Vec<(u32, u32)> = plan.runs().map(|(nbo, blocks)| (nbo.0, blocks)).collect();
    assert_eq!(runs, [(0, 1), (62, 2)]);
    assert_eq!(plan.rmw_neighbours(), 1);
}

/// Tracks longer than a mask, tops as long as bottoms: 64 blocks lie under exactly 64.
#[test]
fn a_long_run_is_cut_only_below_used_tops() {
    let mut memory = Memory::new(Geometry::new(200, 200, 2).unwrap());
    memory.write(0, 400, TWO());
    let plan = memory.write(0, 400, TWO())[0];
    assert_eq!((plan.blocks, plan.is_rmw()), (200, false));
    memory.write(400, 200, TWO());
    let plans = memory.write(0, 200, TWO());
    let lengths: Vec<u32> = plans.iter().map(|plan| plan.blocks).collect();
    assert_eq!(lengths, [64, 64, 64, 8]);
    assert_eq!(
        plans[1].neighbours[0],
        TopRun {
            first: Nbo(64),
            mask: u64::MAX
        }
    );
    assert_eq!(
        plans[3].neighbours[0],
        TopRun {
            first: Nbo(192),
            mask: 0xff
        }
    );
    // One used block above anywhere is enough, even beyond the cut.
    let mut memory = Memory::new(Geometry::new(200, 200, 2).unwrap());
    memory.write(150, 1, phases(1)); // top 0
    memory.write(200, 200, TWO()); // bottom 0
    let plan = memory.write(200, 200, TWO())[0];
    assert_eq!((plan.blocks, plan.is_rmw()), (64, false));
    // Above another bottom track it does not matter: top 0 is not over bottom 1.
    memory.write(0, 100, TWO());
    assert_eq!(memory.write(0, 100, TWO())[0].blocks, 100);
}

#[test]
fn a_write_waits_for_one_to_the_same_block() {
    let mut memory = full();
    let plan = memory.begin(2, 3, TWO());
    assert_eq!(
        memory.zone().start(&whole(0, 6), TWO()),
        Step::Wait { blocks: 6 }
    );
    assert_eq!(
        memory.zone().start(&whole(4, 2), TWO()),
        Step::Wait { blocks: 2 }
    );
    // What would happen is known.
    assert!(matches!(
        memory.zone().plan(&whole(4, 2), TWO()),
        Step::Ready(_)
    ));
    let before = memory.begin(0, 2, TWO());
    let behind = memory.begin(5, 1, TWO());
    memory.zone().finish(&plan, true);
    assert_eq!(
        memory.zone().start(&whole(0, 6), TWO()),
        Step::Wait { blocks: 6 }
    );
    memory.zone().finish(&before, true);
    memory.zone().finish(&behind, false);
    assert_eq!(memory.begin(0, 6, TWO()).blocks, 6);
}

#[test]
fn a_wait_is_for_no_more_than_an_rmw_can_write() {
    let mut memory = Memory::new(Geometry::new(200, 200, 2).unwrap());
    memory.write(0, 400, TWO());
    memory.begin(199, 1, TWO());
    assert_eq!(
        memory.zone().start(&whole(0, 400), TWO()),
        Step::Wait { blocks: 64 }
    );
    assert_eq!(memory.begin(0, 64, TWO()).blocks, 64);
}

#[test]
fn a_top_block_is_not_written_while_an_rmw_would_restore_it() {
    let mut memory = full();
    let rmw = memory.begin(6, 1, TWO()); // bottom 0, under 0 and 14
    assert_eq!(rewritten(&rmw), [0, 14]);
    for (bo, blocks) in [(0, 1), (14, 1), (0, 6), (14, 2)] {
        assert_eq!(
            memory.zone().start(&whole(bo, blocks), TWO()),
            Step::Wait { blocks }
        );
    }
    let beside = memory.begin(15, 1, TWO());
    assert!(beside.top);
    memory.zone().finish(&rmw, true);
    let top = memory.begin(14, 1, TWO());
    // And an RMW waits for the write, on either side.
    for bo in [6, 20, 21] {
        assert_eq!(
            memory.zone().start(&whole(bo, 1), TWO()),
            Step::Wait { blocks: 1 }
        );
    }
    memory.zone().finish(&top, true);
    assert_eq!(rewritten(&memory.begin(20, 1, TWO())), [14, 28]);
}

#[test]
fn two_rmws_share_a_top_block_and_a_third_waits() {
    let mut memory = full();
    // Blocks 6 and 7 of bottom 0 and 20 and 21 of bottom 1 all lie under block 14 of top 1.
    let plans = [6, 20].map(|bo| memory.begin(bo, 1, TWO()));
    assert!(plans.iter().all(|plan| rewritten(plan).contains(&14)));
    for bo in [7, 21] {
        assert_eq!(
            memory.zone().start(&whole(bo, 1), TWO()),
            Step::Wait { blocks: 1 }
        );
    }
    memory.zone().finish(&plans[0], true);
    assert_eq!(
        memory.zone().start(&whole(14, 1), TWO()),
        Step::Wait { blocks: 1 }
    );
    let third = memory.begin(7, 1, TWO());
    memory.zone().finish(&third, false);
    memory.zone().finish(&plans[1], true);
    assert!(memory.begin(14, 1, TWO()).top);
}

#[test]
fn an_rmw_waits_for_the_first_write_of_a_top_block() {
    let mut memory = small();
    memory.write(0, 32, TWO());
    let top = memory.begin(40, 1, TWO());
    assert!(top.first && top.top);
    assert_eq!(
        memory.zone().start(&whole(0, 4), TWO()),
        Step::Wait { blocks: 4 }
    );
    assert!(
        !memory.begin(2, 2, TWO()).is_rmw(),
        "block 2 lies under another"
    );
    // It fails, and is no neighbour any more.
    memory.zone().finish(&top, false);
    assert!(!memory.begin(0, 2, TWO()).is_rmw());
}

#[test]
fn a_request_outside_the_zone_never_starts() {
    let mut memory = small();
    for (bo, blocks) in [
        (0, 0),
        (0, 57),
        (55, 2),
        (56, 1),
        (u32::MAX, 1),
        (1, u32::MAX),
    ] {
        let request = whole(bo, blocks);
        assert_eq!(
            memory.zone().plan(&request, TWO()),
            Step::Wait { blocks: 0 }
        );
        assert_eq!(
            memory.zone().start(&request, TWO()),
            Step::Wait { blocks: 0 }
        );
    }
    assert!(memory.bits.iter().all(|&word| word == 0));
    assert_eq!(memory.state, ZoneState::default());
    assert_eq!(memory.zone().lookup(Bo(56)), None);
    assert_eq!(memory.zone().lookup(Bo(u32::MAX)), None);
    assert_eq!(memory.zone().read(Bo(56), 3), ReadRun::Zeros { blocks: 3 });
}

/// Whatever is in the memory, and whatever plan is finished, nothing panics.
#[test]
fn damaged_memory_does_no_harm() {
    let mut memory = small();
    memory.table.fill(u16::MAX);
    memory.bits.fill(u64::MAX);
    for k in [1, 2, 3, 64] {
        for bo in 0..60 {
            memory.zone().read(Bo(bo), 60);
            memory.zone().start(&whole(bo, 1), phases(k));
            memory.zone().plan(&whole(bo, 56 - bo.min(55)), phases(k));
        }
    }
    // No block is mapped, and none is free.
    let mut memory = small();
    memory.bits[1] = u64::MAX;
    assert_eq!(
        memory.zone().start(&whole(0, 1), TWO()),
        Step::Wait { blocks: 0 }
    );
    assert_eq!(
        memory.zone().start(&whole(0, 1), phases(1)),
        Step::Wait { blocks: 0 }
    );
    let nonsense = TopRun {
        first: Nbo(u32::MAX),
        mask: u64::MAX,
    };
    for first in [false, true] {
        for top in [false, true] {
            for ok in [false, true] {
                let plan = Plan {
                    bo: Bo(u32::MAX - 1),
                    nbo: Nbo(u32::MAX - 1),
                    blocks: 1 << 20,
                    first,
                    pad: false,
                    top,
                    neighbours: [nonsense; 2],
                };
                memory.zone().finish(&plan, ok);
                memory.zone().finish(
                    &Plan {
                        bo: Bo(0),
                        nbo: Nbo(0),
                        ..plan
                    },
                    ok,
                );
                assert_eq!(plan.runs().count(), 2);
            }
        }
    }
}
