// SPDX-License-Identifier: GPL-2.0-only

//! The zone against a naive implementation, over random sequences of operations.
//!
//! The model is written from the documentation alone, with maps and sets and block by block, and
//! shares nothing with the drive. Operations start and finish in any order, first writes fail,
//! writes cover blocks in part, strategies change in mid-life, and geometries are of any shape.
//! After each operation the answers are compared, and so is everything that can be asked of a zone.

mod common;
mod naive;

use common::Memory;
use imrsim_core::{
    Allocation,
    Bo,
    Geometry,
    Nbo,
    Piece,
    Plan,
    ReadRun,
    Request,
    Stats,
    Step, //
};
use naive::{
    Answer,
    Model,
    Write, //
};
use proptest::{
    prelude::*,
    sample::Index, //
};

#[derive(Clone, Debug)]
enum Operation {
    /// A new write, at a block and of a length that are fractions of the zone.
    Write {
        bo: Index,
        blocks: Index,
        short: bool,
        head: bool,
        tail: bool,
    },
    /// A write that had to wait tries again.
    Retry(Index),
    /// A write in flight ends.
    Finish(Index, bool),
    /// All writes in flight end.
    FinishAll,
    Read {
        bo: Index,
        blocks: Index,
    },
    /// The strategy is changed.
    Strategy(u32),
}

fn operations() -> impl Strategy<Value = Operation> {
    let index = any::<Index>;
    prop_oneof![
        8 => (index(), index(), prop::bool::weighted(0.7), prop::bool::weighted(0.2), prop::bool::weighted(0.2))
            .prop_map(|(bo, blocks, short, head, tail)| Operation::Write { bo, blocks, short, head, tail }),
        3 => index().prop_map(Operation::Retry),
        6 => (index(), prop::bool::weighted(0.75)).prop_map(|(which, ok)| Operation::Finish(which, ok)),
        1 => Just(Operation::FinishAll),
        2 => (index(), index()).prop_map(|(bo, blocks)| Operation::Read { bo, blocks }),
        1 => (1u32..=6).prop_map(Operation::Strategy),
    ]
}

/// Tracks of a few blocks, where everything meets; tracks longer than [`MAX_RMW_BLOCKS`]; and
/// extremes.
fn geometries() -> impl Strategy<Value = Geometry> {
    prop_oneof![
        4 => (1u32..=12, 0u32..=8, 1u32..=6),
        3 => (60u32..=140, 0u32..=60, 1u32..=3),
        1 => (1u32..=3, 100u32..=300, 1u32..=3),
    ]
    .prop_map(|(top, more, groups)| Geometry::new(top, top + more, groups).unwrap())
}

/// A zone, its model, and the writes that are under way in both.
struct Pair {
    memory: Memory,
    model: Model,
    /// In flight: what the drive planned, and the model's key.
    running: Vec<(Plan, usize)>,
    /// What had to wait: a request, and the whole length it promised to be one run of.
    waiting: Vec<Request>,
    stats: Stats,
}

impl Pair {
    fn new(geometry: Geometry) -> Self {
        Self {
            memory: Memory::new(geometry),
            model: Model::new(
                geometry.top_blocks(),
                geometry.bottom_blocks(),
                geometry.groups(),
            ),
            running: Vec::new(),
            waiting: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// Asks both to start a write; they agree. Returns how many blocks started, if any did, or how
    /// many have to wait.
    fn start(&mut self, request: Request, allocation: Allocation) -> Result<u32, u32> {
        let write = Write {
            bo: request.bo.0,
            blocks: request.blocks,
            head_partial: request.head_partial,
            tail_partial: request.tail_partial,
        };
        let before = self.memory.clone();
        let planned = self.memory.zone().plan(&request, allocation);
        assert_eq!(self.memory.bits, before.bits, "to plan changes nothing");
        assert_eq!(self.memory.state, before.state, "to plan changes nothing");
        assert_step(planned, &self.model.plan(&write, allocation.phases()));

        let step = self.memory.zone().start(&request, allocation);
        let (answer, key) = self.model.start(&write, allocation.phases());
        assert_step(step, &answer);
        match step {
            Step::Ready(plan) => {
                assert_eq!(planned, step, "what is planned is done");
                self.stats.count_write(
                    &plan,
                    Piece {
                        ends_request: true,
                        ..Piece::default()
                    },
                );
                self.running.push((plan, key.unwrap()));
                Ok(plan.blocks)
            }
            Step::Wait { blocks } => {
                assert_eq!(self.memory.bits, before.bits, "to wait changes nothing");
                assert_eq!(self.memory.state, before.state, "to wait changes nothing");
                Err(blocks)
            }
        }
    }

    fn finish(&mut self, index: usize, ok: bool) {
        let (plan, key) = self.running.swap_remove(index);
        self.memory.zone().finish(&plan, ok);
        self.model.finish(key, ok);
    }

    fn apply(&mut self, operation: &Operation, allocation: &mut Allocation) {
        let zone_blocks = self.memory.geometry.zone_blocks() as usize;
        match operation {
            Operation::Write {
                bo,
                blocks,
                short,
                head,
                tail,
            } => {
                let bo = bo.index(zone_blocks);
                let most = zone_blocks - bo;
                let most = if *short { most.min(5) } else { most };
                let mut request = Request {
                    bo: Bo(bo as u32),
                    blocks: 1 + blocks.index(most) as u32,
                    head_partial: *head,
                    tail_partial: *tail,
                };
                // As the kernel does: cut off what starts or waits, go on with the rest.
                while request.blocks > 0 {
                    let cut = match self.start(request, *allocation) {
                        Ok(blocks) => blocks,
                        Err(blocks) => {
                            self.waiting.push(Request {
                                blocks,
                                tail_partial: request.tail_partial && blocks == request.blocks,
                                ..request
                            });
                            blocks
                        }
                    };
                    assert!((1..=request.blocks).contains(&cut));
                    request.bo.0 += cut;
                    request.blocks -= cut;
                    request.head_partial = false;
                }
            }
            Operation::Retry(index) if !self.waiting.is_empty() => {
                let index = index.index(self.waiting.len());
                let request = self.waiting[index];
                let (Ok(blocks) | Err(blocks)) = self.start(request, *allocation).inspect(|_| {
                    self.waiting.swap_remove(index);
                });
                assert_eq!(blocks, request.blocks, "what waited is one run");
            }
            Operation::Finish(index, ok) if !self.running.is_empty() => {
                self.finish(index.index(self.running.len()), *ok);
            }
            Operation::FinishAll => {
                while !self.running.is_empty() {
                    self.finish(0, true);
                }
                assert_eq!(self.memory.zone().writes_in_flight(), 0);
            }
            Operation::Read { bo, blocks } => {
                let bo = bo.index(zone_blocks);
                let blocks = 1 + blocks.index(zone_blocks - bo) as u32;
                let run = match self.memory.zone().read(Bo(bo as u32), blocks) {
                    ReadRun::Mapped { nbo, blocks } => (Some(nbo.0), blocks),
                    ReadRun::Zeros { blocks } => (None, blocks),
                };
                assert_eq!(run, self.model.read(bo as u32, blocks));
            }
            Operation::Strategy(k) => *allocation = Allocation::from_phases(*k).unwrap(),
            Operation::Retry(_) | Operation::Finish(..) => {}
        }
        self.compare();
    }

    /// Compares everything that can be asked of a zone.
    fn compare(&mut self) {
        let model = &self.model;
        let used = model.used();
        let zone = self.memory.zone();
        for block in 0..zone.geometry().zone_blocks() {
            assert_eq!(
                zone.lookup(Bo(block)).map(|nbo| nbo.0),
                model.mapped.get(&block).copied()
            );
            assert_eq!(zone.is_used(Nbo(block)), used.contains(&block));
            assert_eq!(zone.is_busy(Bo(block)), model.busy(block));
        }
        assert_eq!(zone.mapped_blocks() as usize, model.mapped.len());
        assert_eq!(zone.used_tops() as usize, model.used_tops());
        assert_eq!(zone.writes_in_flight() as usize, self.running.len());
    }
}

#[track_caller]
fn assert_step(step: Step, answer: &Answer) {
    match (step, answer) {
        (Step::Wait { blocks }, Answer::Wait(expected)) => assert_eq!(blocks, *expected),
        (Step::Ready(plan), Answer::Ready(expected)) => {
            let tops = plan.neighbours.map(|run| {
                (0..64)
                    .filter(|i| run.mask >> i & 1 == 1)
                    .map(|i| run.first.0 + i)
                    .collect::<Vec<_>>()
            });
            assert_eq!(plan.bo.0, expected.bo);
            assert_eq!(plan.nbo.0, expected.nbo);
            assert_eq!(plan.blocks, expected.blocks);
            assert_eq!(plan.first, expected.first);
            assert_eq!(plan.pad, expected.pad);
            assert_eq!(plan.top, expected.top);
            assert_eq!(tops, expected.tops);
            assert_eq!(common::rewritten(&plan), expected.tops.concat());
            assert_eq!(plan.extra_writes() as usize, expected.tops.concat().len());
            let tracks = expected.tops.iter().filter(|tops| !tops.is_empty()).count();
            assert_eq!(plan.rmw_neighbours() as usize, tracks);
            assert_eq!(plan.is_rmw(), tracks > 0);
        }
        _ => panic!("{step:?}, but the model says {answer:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_zone_does_what_the_model_does(
        geometry in geometries(),
        k in 1u32..=5,
        operations in prop::collection::vec(operations(), 1..120),
    ) {
        let mut allocation = Allocation::from_phases(k).unwrap();
        let mut pair = Pair::new(geometry);
        for operation in &operations {
            pair.apply(operation, &mut allocation);
        }
        // Whatever has waited can go on in the end.
        pair.apply(&Operation::FinishAll, &mut allocation);
        while let Some(request) = pair.waiting.pop() {
            let started = pair.start(request, allocation);
            prop_assert_eq!(started, Ok(request.blocks));
            pair.apply(&Operation::FinishAll, &mut allocation);
        }
        // Nothing is held any more.
        let mut words = pair.memory.bits.clone();
        let in_flight = words.len() - imrsim_core::InFlight::words(&geometry);
        prop_assert!(words.split_off(in_flight).iter().all(|&word| word == 0));
        // The statistics are those the model kept.
        let model = &pair.model;
        prop_assert_eq!(pair.stats.host_write_blocks, model.host_blocks);
        prop_assert_eq!(pair.stats.first_write_blocks, model.first_blocks);
        prop_assert_eq!(pair.stats.top_write_blocks, model.top_blocks_written);
        prop_assert_eq!(pair.stats.extra_write_blocks, model.extra_blocks);
    }
}
