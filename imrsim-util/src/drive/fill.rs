// SPDX-License-Identifier: GPL-2.0-only

//! Zones that are full to some share from the beginning, and filled when they are needed.

use imrsim_core::{Allocation, Bo, Geometry, Request, Strategy, TrackKind};

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
    used_tops: UsedTops,
}

/// How many blocks of top tracks are in use in a zone that was filled, and nothing else.
#[derive(Debug)]
enum UsedTops {
    /// As many in every zone.
    Same(u32),
    /// Each block has a place of its own: for each, how many of those in front of it have one on a top
    /// track, and at the end for all.
    InFront(Vec<u32>),
}

impl UsedTops {
    fn in_front(geometry: &Geometry, allocation: Allocation) -> Self {
        let is_top = |bo| {
            let home = allocation.home(geometry, Bo(bo));
            home.is_some_and(|nbo| geometry.locate(nbo).track.kind == TrackKind::Top)
        };
        let mut tops = 0;
        let sums = (0..geometry.zone_blocks()).map(|bo| {
            tops += u32::from(is_top(bo));
            tops
        });
        Self::InFront([0].into_iter().chain(sums).collect())
    }
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
            used_tops: UsedTops::Same(0),
        };
        let state = fill.memory(geometry, 0)?.state;
        fill.mapped_blocks = state.mapped_blocks();
        // Where no block has a place of its own, how many are written decides, not which.
        let same = prefill == Prefill::Sequential || allocation.home(geometry, Bo(0)).is_none();
        fill.used_tops = match same {
            true => UsedTops::Same(state.used_tops()),
            false => UsedTops::in_front(geometry, allocation),
        };
        Some(fill)
    }

    /// Blocks that are mapped in each zone that was filled, and nothing else.
    pub(super) fn mapped_blocks(&self) -> u32 {
        self.mapped_blocks
    }

    /// Blocks of top tracks that are in use in a zone that was filled, and nothing else.
    pub(super) fn used_tops(&self, geometry: &Geometry, zone: u64) -> u32 {
        let sums = match &self.used_tops {
            UsedTops::Same(tops) => return *tops,
            UsedTops::InFront(sums) => sums,
        };
        // CAST: widens.
        let in_front = |bo: u32| sums[bo as usize];
        self.requests(geometry, zone)
            .map(|it| in_front(it.bo.0 + it.blocks) - in_front(it.bo.0))
            .sum()
    }

    /// Fills a zone; `None` if nothing is written.
    pub(super) fn memory(&self, geometry: &Geometry, zone: u64) -> Option<Memory> {
        let mut requests = self.requests(geometry, zone).peekable();
        requests.peek()?;
        let mut memory = Memory::new(geometry);
        let mut zone = memory.zone(geometry);
        for request in requests {
            write_runs(&mut zone, request, self.allocation, |_, _| {})
                .expect("an empty zone has a place for each of its blocks");
        }
        Some(memory)
    }

    fn requests(&self, geometry: &Geometry, zone: u64) -> impl Iterator<Item = Request> {
        let start = zone * u64::from(geometry.zone_blocks());
        zone_requests(geometry, zone, self.prefill, self.share, self.seed).map(
            move |(offset, len)| Request {
                // CAST: both lie in the zone, which has at most 65,536 blocks.
                bo: Bo((offset / BLOCK - start) as u32),
                blocks: (len / BLOCK) as u32,
                head_partial: false,
                tail_partial: false,
            },
        )
    }
}
