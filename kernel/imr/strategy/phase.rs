// SPDX-License-Identifier: GPL-2.0-only

//! k-phase allocation, k >= 2: bottom tracks first, then the top tracks in k - 1 passes.
//!
//! Phase 1 fills the bottom tracks in order. Phase p, 2 <= p <= k, fills the top tracks p-2,
//! p-2 + (k-1), p-2 + 2(k-1), ... So two phases fill the top tracks in order; three phases fill the
//! even ones first, so that for a while each bottom track has at most one neighbour in use ("Three-
//! Phase Write Management", HotStorage '18). With more passes than top tracks the last are empty.

use core::fmt;

use super::{
    super::geometry::{
        Geometry,
        Track,
        TrackKind, //
    },
    Strategy,
    MAX_PHASES, //
};

/// k-phase allocation.
///
/// # Invariants
///
/// `2 <= phases <= MAX_PHASES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Phased {
    phases: u32,
}

impl Phased {
    /// 2-phase allocation.
    // INVARIANT: 2 <= 2 <= 64.
    pub(super) const TWO: Self = Self { phases: 2 };

    /// Allocation in `phases` phases, if they are 2 to [`MAX_PHASES`].
    pub(super) const fn new(phases: u32) -> Option<Self> {
        if phases < 2 || phases > MAX_PHASES {
            return None;
        }
        // INVARIANT: just checked.
        Some(Self { phases })
    }

    /// How many passes go over the top tracks, at least 1.
    const fn passes(&self) -> u32 {
        // The compiler does not know the invariant, and would have divisions panic.
        match self.phases {
            0..=2 => 1,
            phases => phases - 1,
        }
    }
}

impl Strategy for Phased {
    fn number(&self) -> u32 {
        self.phases
    }

    fn track(&self, geometry: &Geometry, index: u32) -> Option<Track> {
        let groups = geometry.groups();
        let Some(nth_top) = index.checked_sub(groups) else {
            return Some(Track {
                group: index,
                kind: TrackKind::Bottom,
            });
        };
        if nth_top >= groups {
            return None;
        }
        // Pass r takes the top tracks r, r + passes, ...: one more in each of the first
        // `groups % passes` passes.
        let short = groups / self.passes();
        let long_passes = groups % self.passes();
        let in_long_passes = long_passes * (short + 1);
        let (pass, nth) = match nth_top.checked_sub(in_long_passes) {
            None => (nth_top / (short + 1), nth_top % (short + 1)),
            // Here `short > 0`, or the first `groups` top tracks would all be in long passes.
            Some(rest) => (
                long_passes + rest.checked_div(short)?,
                rest.checked_rem(short)?,
            ),
        };
        Some(Track {
            group: pass + nth * self.passes(),
            kind: TrackKind::Top,
        })
    }

    fn index(&self, geometry: &Geometry, track: Track) -> u32 {
        if track.kind == TrackKind::Bottom {
            return track.group;
        }
        let groups = geometry.groups();
        let pass = track.group % self.passes();
        let before = pass * (groups / self.passes()) + pass.min(groups % self.passes());
        (groups + before).saturating_add(track.group / self.passes())
    }

    fn phase(&self, _geometry: &Geometry, track: Track) -> u32 {
        match track.kind {
            TrackKind::Bottom => 1,
            TrackKind::Top => 2 + track.group % self.passes(),
        }
    }
}

impl fmt::Display for Phased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-phase", self.phases)
    }
}
