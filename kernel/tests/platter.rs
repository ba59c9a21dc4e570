// SPDX-License-Identifier: GPL-2.0-only

//! What the rules are for: no data is lost, however the writes in flight interleave.
//!
//! Plans are executed on a platter of numbers, one physical step at a time in random order: read
//! the top blocks, write the run, write the top blocks back, finish. A write-back restores what was
//! read, so it would undo any write that came between. Every block must at all times read as the
//! version that was written last, or as one being written.

mod common;

use std::collections::{
    BTreeMap,
    BTreeSet, //
};

use common::{
    phases,
    Memory, //
};
use imrsim_core::{
    Bo,
    Geometry,
    Op,
    Plan,
    ReadRun,
    Request,
    Step, //
};
use proptest::{
    prelude::*,
    sample::Index, //
};

/// What is on a physical block: which logical block, and which version of it.
type Content = (u32, u64);

/// A write in flight.
struct Writer {
    plan: Plan,
    version: u64,
    ops: Vec<Op>,
    /// Top blocks as they were read.
    pages: BTreeMap<u32, Option<Content>>,
}

struct Drive {
    memory: Memory,
    platter: BTreeMap<u32, Content>,
    writers: Vec<Writer>,
    /// The versions that each logical block may have now; empty: zeros.
    valid: BTreeMap<u32, BTreeSet<u64>>,
    versions: u64,
}

impl Drive {
    fn write(&mut self, request: Request, k: u32) {
        let step = self.memory.zone().start(&request, phases(k));
        let Step::Ready(plan) = step else {
            return;
        };
        self.versions += 1;
        let mut ops: Vec<Op> = plan.ops().collect();
        ops.reverse();
        self.writers.push(Writer {
            plan,
            version: self.versions,
            ops,
            pages: BTreeMap::new(),
        });
    }

    /// One physical operation of a write, or its end.
    fn step(&mut self, which: usize, ok: bool) {
        if self.writers.is_empty() {
            return;
        }
        let index = which % self.writers.len();
        let writer = &mut self.writers[index];
        match writer.ops.pop() {
            Some(Op::Read { nbo, blocks }) => {
                for nbo in nbo.0..nbo.0 + blocks {
                    writer.pages.insert(nbo, self.platter.get(&nbo).copied());
                }
            }
            Some(Op::Write { nbo, blocks }) => {
                for i in 0..blocks {
                    let bo = writer.plan.bo.0 + i;
                    self.platter.insert(nbo.0 + i, (bo, writer.version));
                    if !writer.plan.first {
                        self.valid.entry(bo).or_default().insert(writer.version);
                    }
                }
            }
            Some(Op::WriteBack { nbo, blocks }) => {
                for nbo in nbo.0..nbo.0 + blocks {
                    match writer.pages[&nbo] {
                        Some(content) => self.platter.insert(nbo, content),
                        None => self.platter.remove(&nbo),
                    };
                }
            }
            None => {
                let writer = self.writers.swap_remove(index);
                let ok = ok || !writer.plan.first;
                self.memory.zone().finish(&writer.plan, ok);
                if ok {
                    for bo in writer.plan.bo.0..writer.plan.bo.0 + writer.plan.blocks {
                        self.valid.insert(bo, BTreeSet::from([writer.version]));
                    }
                }
            }
        }
    }

    /// Reads everything.
    fn check(&mut self) {
        let end = self.memory.geometry.zone_blocks();
        let zone = self.memory.zone();
        let mut bo = 0;
        while bo < end {
            let (start, blocks) = match zone.read(Bo(bo), end - bo) {
                ReadRun::Mapped { nbo, blocks } => (Some(nbo.0), blocks),
                ReadRun::Zeros { blocks } => (None, blocks),
            };
            for i in 0..blocks {
                let valid = self.valid.get(&(bo + i));
                match start {
                    None => assert_eq!(valid, None, "{} reads as zeros", bo + i),
                    Some(start) => {
                        let (owner, version) = self.platter[&(start + i)];
                        assert_eq!(owner, bo + i, "another block's data");
                        assert!(
                            valid.unwrap().contains(&version),
                            "an old version of {owner}"
                        );
                    }
                }
            }
            bo += blocks;
        }
    }
}

#[derive(Clone, Debug)]
enum Action {
    Write(Index, u32, u32),
    Step(usize, bool),
    Fill(u32),
}

fn actions() -> impl Strategy<Value = Action> {
    let index = any::<Index>;
    prop_oneof![
        4 => (index(), 1u32..6, 1u32..5).prop_map(|(bo, blocks, k)| Action::Write(bo, blocks, k)),
        9 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(which, ok)| Action::Step(which, ok)),
        1 => (1u32..5).prop_map(Action::Fill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_write_is_lost(
        top in 1u32..6, more in 0u32..4, groups in 1u32..4,
        actions in prop::collection::vec(actions(), 1..300),
    ) {
        let geometry = Geometry::new(top, top + more, groups).unwrap();
        let zone_blocks = geometry.zone_blocks();
        let mut drive = Drive {
            memory: Memory::new(geometry),
            platter: BTreeMap::new(),
            writers: Vec::new(),
            valid: BTreeMap::new(),
            versions: 0,
        };
        for action in &actions {
            match action {
                Action::Write(bo, blocks, k) => {
                    let bo = bo.index(zone_blocks as usize) as u32;
                    drive.write(common::whole(bo, (*blocks).min(zone_blocks - bo)), *k);
                }
                Action::Fill(k) => {
                    for bo in 0..zone_blocks {
                        drive.write(common::whole(bo, zone_blocks - bo), *k);
                    }
                }
                Action::Step(which, ok) => drive.step(*which, *ok),
            }
            drive.check();
        }
        while !drive.writers.is_empty() {
            drive.step(0, true);
            drive.check();
        }
    }
}
