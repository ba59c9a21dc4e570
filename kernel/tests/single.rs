// SPDX-License-Identifier: GPL-2.0-only

//! The short ways for single blocks do what the long ones do, or nothing: over random sequences of
//! writes to two copies of a zone, one of which goes the short way where there is one.

mod common;

use common::{
    phases,
    whole,
    Memory, //
};
use imrsim_core::{
    Bo,
    Geometry,
    Piece,
    Placed,
    Plan,
    Request,
    Stats,
    Step, //
};
use proptest::{
    prelude::*,
    sample::Index, //
};

#[derive(Clone, Debug)]
enum Operation {
    /// A write of a block, whole or in part.
    Block(Index, bool),
    /// A write of several.
    Run(Index, u32),
    /// A write in flight ends.
    Finish(Index, bool),
    Strategy(u32),
}

fn operations() -> impl Strategy<Value = Operation> {
    let index = any::<Index>;
    prop_oneof![
        8 => (index(), prop::bool::weighted(0.8)).prop_map(|(bo, whole)| Operation::Block(bo, whole)),
        2 => (index(), 2u32..6).prop_map(|(bo, blocks)| Operation::Run(bo, blocks)),
        9 => (index(), prop::bool::weighted(0.8)).prop_map(|(at, ok)| Operation::Finish(at, ok)),
        1 => (1u32..=4).prop_map(Operation::Strategy),
    ]
}

/// A write that has started, on the zone with short ways, too.
enum Started {
    Short(Placed),
    Long(Plan),
}

struct Pair {
    short: Memory,
    long: Memory,
    short_stats: Stats,
    long_stats: Stats,
    started: Vec<Started>,
    phases: u32,
}

impl Pair {
    fn block(&mut self, bo: u32, is_whole: bool) -> Result<(), TestCaseError> {
        let allocation = phases(self.phases);
        let request = Request {
            tail_partial: !is_whole,
            ..whole(bo, 1)
        };
        let before = self.short.clone();
        let mut zone = self.short.zone();
        let placed = match zone.start_update(Bo(bo)) {
            None if is_whole => zone.start_first(Bo(bo), allocation),
            placed => placed,
        };
        let step = self.long.zone().start(&request, allocation);
        match (placed, step) {
            (Some(placed), Step::Ready(plan)) => {
                prop_assert_eq!(placed.plan(), plan);
                self.short_stats.count_block(&placed, 0);
                self.long_stats.count_write(
                    &plan,
                    Piece {
                        ends_request: true,
                        ..Piece::default()
                    },
                );
                self.started.push(Started::Short(placed));
            }
            (Some(placed), Step::Wait { .. }) => prop_assert!(false, "{placed:?} has to wait"),
            (None, step) => {
                self.same_as(&before)?;
                prop_assert_eq!(self.short.zone().start(&request, allocation), step);
                if let Step::Ready(plan) = step {
                    let simple = !plan.is_rmw()
                        && !plan.first
                        && (plan.top || before.state.used_tops() == 0);
                    prop_assert!(!simple, "there is a short way for {plan:?}");
                    self.short_stats.count_write(
                        &plan,
                        Piece {
                            ends_request: true,
                            ..Piece::default()
                        },
                    );
                    self.long_stats.count_write(
                        &plan,
                        Piece {
                            ends_request: true,
                            ..Piece::default()
                        },
                    );
                    self.started.push(Started::Long(plan));
                }
            }
        }
        Ok(())
    }

    fn run(&mut self, bo: u32, blocks: u32) -> Result<(), TestCaseError> {
        let request = whole(bo, blocks);
        let step = self.long.zone().start(&request, phases(self.phases));
        prop_assert_eq!(self.short.zone().start(&request, phases(self.phases)), step);
        if let Step::Ready(plan) = step {
            self.started.push(Started::Long(plan));
        }
        Ok(())
    }

    fn finish(&mut self, at: Index, ok: bool) {
        if self.started.is_empty() {
            return;
        }
        let at = at.index(self.started.len());
        match self.started.swap_remove(at) {
            Started::Short(placed) => {
                if ok || !placed.first {
                    self.short.zone().finish_block(&placed);
                } else {
                    self.short.zone().finish(&placed.plan(), false);
                }
                self.long.zone().finish(&placed.plan(), ok);
            }
            Started::Long(plan) => {
                self.short.zone().finish(&plan, ok);
                self.long.zone().finish(&plan, ok);
            }
        }
    }

    fn same_as(&self, other: &Memory) -> Result<(), TestCaseError> {
        prop_assert_eq!(&self.short.bits, &other.bits);
        prop_assert_eq!(&self.short.table, &other.table);
        prop_assert_eq!(&self.short.state, &other.state);
        Ok(())
    }
}

proptest! {
    #[test]
    fn short_ways_are_as_long_ones(
        top in 1u32..9,
        more in 0u32..5,
        groups in 1u32..9,
        operations in prop::collection::vec(operations(), 0..400),
    ) {
        let memory = Memory::new(Geometry::new(top, top + more, groups).unwrap());
        let blocks = memory.geometry.zone_blocks();
        let mut pair = Pair {
            short: memory.clone(),
            long: memory,
            short_stats: Stats::default(),
            long_stats: Stats::default(),
            started: Vec::new(),
            phases: 2,
        };
        for operation in operations {
            match operation {
                Operation::Block(bo, whole) => pair.block(bo.index(blocks as usize) as u32, whole)?,
                Operation::Run(bo, run) => {
                    let bo = bo.index(blocks as usize) as u32;
                    pair.run(bo, run.min(blocks - bo))?;
                }
                Operation::Finish(at, ok) => pair.finish(at, ok),
                Operation::Strategy(phases) => pair.phases = phases,
            }
            let long = pair.long.clone();
            pair.same_as(&long)?;
            prop_assert_eq!(&pair.short_stats, &pair.long_stats);
        }
    }
}

/// The common case goes the short way: an empty zone is filled, then overwritten, block by block.
#[test]
fn most_writes_go_the_short_way() {
    let mut memory = Memory::new(Geometry::new(6, 8, 4).unwrap());
    let mut tracks = 0;
    for bo in 0..56 {
        let allocation = phases(2);
        match memory.zone().start_first(Bo(bo), allocation) {
            Some(placed) => memory.zone().finish_block(&placed),
            // The first block of a track.
            None => {
                memory.write(bo, 1, allocation);
                tracks += 1;
            }
        }
    }
    assert_eq!(tracks, 8);
    assert_eq!(memory.zone().mapped_blocks(), 56);
    for bo in 32..56 {
        let placed = memory.zone().start_update(Bo(bo)).expect("a top block");
        assert!(!placed.first && placed.top.is_some());
        assert_eq!(memory.zone().start_update(Bo(bo)), None, "in flight");
        memory.zone().finish_block(&placed);
    }
    assert_eq!(memory.zone().start_update(Bo(0)), None, "it has neighbours");
    assert_eq!(memory.zone().start_first(Bo(0), phases(2)), None, "mapped");
    assert_eq!(memory.zone().start_update(Bo(56)), None, "not in the zone");
    assert_eq!(memory.zone().start_first(Bo(56), phases(2)), None);
}

#[test]
fn reads_of_blocks_count() {
    let mut stats = Stats::default();
    stats.count_block_read(0);
    assert_eq!((stats.host_read_requests, stats.host_read_blocks), (1, 1));
}
