// SPDX-License-Identifier: GPL-2.0-only

//! Zones that are full to some share from the beginning, and filled when they are needed.

use imrsim_core::{Allocation, Bo, Geometry, Request, Strategy, ZoneState};

use super::{write_runs, Memory, BLOCK};
use crate::prefill::{zone_requests, Prefill, Share};

/// What every zone holds.
#[derive(Debug)]
pub(super) struct Fill {
    prefill: Prefill,
    share: Share,
    seed: u64,
    /// The strategy when the drive was filled, whatever it is now.
    allocation: Allocation,
    mapped_blocks: u32,
    /// The state of every zone, if it is the same for all.
    state: Option<ZoneState>,
}

impl Fill {
    /// `None` if that is nothing.
    pub(super) fn new(
        geometry: &Geometry,
        prefill: Prefill,
        share: Share,
        seed: u64,
        allocation: Allocation,
    ) -> Option<Self> {
        let mut fill = Self {
            prefill,
            share,
            seed,
            allocation,
            mapped_blocks: 0,
            state: None,
        };
        let state = fill.memory(geometry, 0)?.state;
        fill.mapped_blocks = state.mapped_blocks();
        // Where no block has a place of its own, how many are written decides, not which.
        let alike = prefill == Prefill::Sequential || allocation.home(geometry, Bo(0)).is_none();
        fill.state = alike.then_some(state);
        Some(fill)
    }

    /// Blocks that are mapped in each zone.
    pub(super) fn mapped_blocks(&self) -> u32 {
        self.mapped_blocks
    }

    /// The state of a zone that was filled, and nothing else.
    pub(super) fn state(&self, geometry: &Geometry, zone: u64) -> ZoneState {
        let filled = || self.memory(geometry, zone).map(|memory| memory.state);
        self.state.or_else(filled).unwrap_or_default()
    }

    /// Fills a zone; `None` if nothing is written.
    pub(super) fn memory(&self, geometry: &Geometry, zone: u64) -> Option<Memory> {
        let start = zone * u64::from(geometry.zone_blocks());
        let requests = zone_requests(geometry, zone, self.prefill, self.share, self.seed);
        let mut requests = requests.peekable();
        requests.peek()?;
        let mut memory = Memory::new(geometry);
        let mut zone = memory.zone(geometry);
        for (offset, len) in requests {
            // CAST: both lie in the zone, which has at most 65,536 blocks.
            let request = Request {
                bo: Bo((offset / BLOCK - start) as u32),
                blocks: (len / BLOCK) as u32,
                head_partial: false,
                tail_partial: false,
            };
            write_runs(&mut zone, request, self.allocation, |_, _| {})
                .expect("an empty zone has a place for each of its blocks");
        }
        Some(memory)
    }
}
