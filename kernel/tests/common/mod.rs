// SPDX-License-Identifier: GPL-2.0-only

//! What several tests need: the memory of a zone, and short ways to write to it.

// Each test is a crate of its own and uses a part of this.
#![allow(dead_code)]

use imrsim_core::{
    Allocation,
    Bo,
    Geometry,
    Nbo,
    Plan,
    Request,
    Step,
    Zone,
    ZoneState, //
};

/// A zone with its memory.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) geometry: Geometry,
    pub(crate) table: Vec<u16>,
    pub(crate) bits: Vec<u64>,
    pub(crate) state: ZoneState,
}

impl Memory {
    /// An empty zone.
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            table: vec![0; Zone::table_len(&geometry)],
            bits: vec![0; Zone::bits_len(&geometry)],
            state: ZoneState::default(),
        }
    }

    pub(crate) fn zone(&mut self) -> Zone<'_> {
        Zone::new(
            &self.geometry,
            &mut self.table,
            &mut self.bits,
            &mut self.state,
        )
        .expect("the slices have the right lengths")
    }

    /// Starts a write of whole blocks, which must be able to.
    #[track_caller]
    pub(crate) fn begin(&mut self, bo: u32, blocks: u32, allocation: Allocation) -> Plan {
        let step = self.zone().start(&whole(bo, blocks), allocation);
        let Step::Ready(plan) = step else {
            panic!("a write of {blocks} blocks to {bo} does not start: {step:?}");
        };
        plan
    }

    /// Writes whole blocks, run by run, one after the other.
    #[track_caller]
    pub(crate) fn write(&mut self, bo: u32, blocks: u32, allocation: Allocation) -> Vec<Plan> {
        let mut plans = Vec::new();
        let mut done = 0;
        while done < blocks {
            let plan = self.begin(bo + done, blocks - done, allocation);
            self.zone().finish(&plan, true);
            done += plan.blocks;
            plans.push(plan);
        }
        plans
    }
}

/// A write of whole blocks.
pub(crate) fn whole(bo: u32, blocks: u32) -> Request {
    Request {
        bo: Bo(bo),
        blocks,
        head_partial: false,
        tail_partial: false,
    }
}

/// k-phase allocation.
#[track_caller]
pub(crate) fn phases(k: u32) -> Allocation {
    Allocation::from_phases(k).expect("a number of phases that exists")
}

/// The top blocks that a plan writes back, one by one.
pub(crate) fn rewritten(plan: &Plan) -> Vec<u32> {
    plan.runs()
        .flat_map(|(Nbo(first), blocks)| first..first + blocks)
        .collect()
}
