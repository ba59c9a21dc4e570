// SPDX-License-Identifier: GPL-2.0-only

//! 1-phase allocation: no remapping, the drive without any defence.
//!
//! Every block is at home at its own address. If another block took that place, because the
//! strategy was changed in mid-life, it gets the first free block in physical order.

use core::fmt;

use super::{
    super::{
        geometry::{
            Geometry,
            Track,
            TrackKind, //
        },
        units::{
            Bo,
            Nbo, //
        },
    },
    Strategy, //
};

/// 1-phase allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(());

impl Identity {
    /// The strategy's only number.
    pub(super) const NUMBER: u32 = 1;

    /// 1-phase allocation, if `phases` is 1.
    pub(super) const fn new(phases: u32) -> Option<Self> {
        match phases {
            Self::NUMBER => Some(Self(())),
            _ => None,
        }
    }
}

impl Strategy for Identity {
    fn number(&self) -> u32 {
        Self::NUMBER
    }

    fn track(&self, geometry: &Geometry, index: u32) -> Option<Track> {
        (index < geometry.tracks()).then_some(Track {
            group: index / 2,
            kind: if index % 2 == 0 {
                TrackKind::Top
            } else {
                TrackKind::Bottom
            },
        })
    }

    fn index(&self, _geometry: &Geometry, track: Track) -> u32 {
        let first = track.group.saturating_mul(2);
        match track.kind {
            TrackKind::Top => first,
            TrackKind::Bottom => first.saturating_add(1),
        }
    }

    fn home(&self, _geometry: &Geometry, bo: Bo) -> Option<Nbo> {
        Some(Nbo(bo.0))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("1-phase")
    }
}
