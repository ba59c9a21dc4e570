// SPDX-License-Identifier: GPL-2.0-only

//! Where a block goes that is written for the first time.
//!
//! A strategy orders the tracks of a zone: first writes take the first free block in that order.
//! It may also give some blocks a *home*, which they get if it is free. What is already mapped
//! stays where it is when the strategy is changed on a live device; the next first write takes the
//! first free block in the new order.
//!
//! **To add a strategy**, write one file in `strategy/` with a type that implements [`Strategy`],
//! and add it to the list at the `strategies!` invocation below. That type, its numbers and its
//! name are then known everywhere.
//!
//! Strategies that move blocks which are mapped already (Top-Buffer, Block-Swap, track flipping)
//! will get a further method with a default that asks for no moves: from a
//! [`Plan`](super::Plan) about to be executed to the blocks to be exchanged. They decide here;
//! the [`Zone`](super::Zone) remains the only one to change the table.

mod identity;
mod phase;

use core::{
    fmt,
    fmt::Write,
    str::FromStr, //
};

use super::{
    geometry::{
        Geometry,
        Track, //
    },
    units::{
        Bo,
        Nbo, //
    },
};

pub use identity::Identity;
pub use phase::Phased;

/// A rule for the placement of first writes.
///
/// `Display` gives the name that users see and type.
pub trait Strategy: fmt::Display {
    /// The number by which ioctls and messages select the strategy; for k-phase allocation it is k.
    fn number(&self) -> u32;

    /// The `index`-th track to be filled, counted from 0; `None` from
    /// [`Geometry::tracks`] on. All tracks appear, each once.
    fn track(&self, geometry: &Geometry, index: u32) -> Option<Track>;

    /// The inverse of [`track`](Self::track). `track` is one of the zone's.
    fn index(&self, geometry: &Geometry, track: Track) -> u32;

    /// The phase in which a track is filled, from 1 on. `track` is one of the zone's.
    fn phase(&self, geometry: &Geometry, track: Track) -> u32 {
        let _ = (geometry, track);
        1
    }

    /// The block that `bo` gets if it is free; the order of tracks matters only if it is not.
    ///
    /// Consecutive blocks have consecutive homes. By default no block has a home.
    fn home(&self, geometry: &Geometry, bo: Bo) -> Option<Nbo> {
        let _ = (geometry, bo);
        None
    }
}

/// The largest k of k-phase allocation that can be configured.
///
/// From 1 + [`Geometry::groups`] phases on, each top track is a phase of its own, and more change
/// nothing.
pub const MAX_PHASES: u32 = 64;

macro_rules! strategies {
    ($($(#[$doc:meta])* $name:ident, $first:literal..=$last:path;)+) => {
        /// The strategy that is configured: one of the list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Allocation {
            $($(#[$doc])* $name($name),)+
        }

        impl Allocation {
            /// The strategy with number `phases`: 1 for none (blocks stay in place), 2 to
            /// [`MAX_PHASES`] for that many phases.
            ///
            /// # Errors
            ///
            /// If no strategy has that number.
            pub fn from_phases(phases: u32) -> Result<Self, AllocationError> {
                $(if ($first..=$last).contains(&phases) {
                    if let Some(strategy) = $name::new(phases) {
                        return Ok(Self::$name(strategy));
                    }
                })+
                Err(AllocationError)
            }
        }

        impl Strategy for Allocation {
            fn number(&self) -> u32 {
                match self {
                    $(Self::$name(strategy) => strategy.number(),)+
                }
            }

            fn track(&self, geometry: &Geometry, index: u32) -> Option<Track> {
                match self {
                    $(Self::$name(strategy) => strategy.track(geometry, index),)+
                }
            }

            fn index(&self, geometry: &Geometry, track: Track) -> u32 {
                match self {
                    $(Self::$name(strategy) => strategy.index(geometry, track),)+
                }
            }

            fn phase(&self, geometry: &Geometry, track: Track) -> u32 {
                match self {
                    $(Self::$name(strategy) => strategy.phase(geometry, track),)+
                }
            }

            fn home(&self, geometry: &Geometry, bo: Bo) -> Option<Nbo> {
                match self {
                    $(Self::$name(strategy) => strategy.home(geometry, bo),)+
                }
            }
        }

        impl fmt::Display for Allocation {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name(strategy) => fmt::Display::fmt(strategy, f),)+
                }
            }
        }
    };
}

// The list: type, first and last number.
strategies! {
    /// 1-phase: no remapping.
    Identity, 1..=Identity::NUMBER;
    /// k-phase: bottom tracks first, then the top tracks in k - 1 passes.
    Phased, 2..=MAX_PHASES;
}

impl Allocation {
    /// Every strategy there is, by ascending number.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..=MAX_PHASES).filter_map(|number| Self::from_phases(number).ok())
    }

    /// The strategy's number: for k-phase allocation, k.
    pub fn phases(&self) -> u32 {
        self.number()
    }
}

impl Default for Allocation {
    /// 2-phase, as the original IMRSim.
    fn default() -> Self {
        Self::Phased(Phased::TWO)
    }
}

/// No strategy has this number or this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationError;

impl fmt::Display for AllocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown allocation strategy: expected 1 to {MAX_PHASES} phases"
        )
    }
}

impl core::error::Error for AllocationError {}

impl FromStr for Allocation {
    type Err = AllocationError;

    /// Takes a name ("3-phase") or a number ("3").
    fn from_str(s: &str) -> Result<Self, AllocationError> {
        if let Ok(number) = s.parse() {
            return Self::from_phases(number);
        }
        Self::all()
            .find(|strategy| {
                let mut rest = Rest(s);
                write!(rest, "{strategy}").is_ok() && rest.0.is_empty()
            })
            .ok_or(AllocationError)
    }
}

/// What is left of a string after what was written here, which fails as soon as the two differ.
struct Rest<'a>(&'a str);

impl fmt::Write for Rest<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(s).ok_or(fmt::Error)?;
        Ok(())
    }
}
