// SPDX-License-Identifier: GPL-2.0-only

//! Recordings of what a drive did, block by block: files `.imrtrace`.
//!
//! `docs/imrtrace.md` gives every byte. From the bottom up:
//!
//! * [`event`]: what can happen, and how it is written down;
//! * [`snapshot`]: a zone at one moment, and what an event makes of it;
//! * [`Writer`] and [`Reader`] for whole files, of which they hold one chunk at a time;
//! * [`Player`] follows a recording, and checks that it leads where it says.

mod bits;
mod chunk;
pub mod event;
mod player;
mod reader;
pub mod snapshot;
pub(crate) mod varint;
mod writer;

use imrsim_core::{Allocation, Geometry};

pub use self::{
    bits::Bits,
    event::{Event, Op, Request, Rmw},
    player::{Moment, Player},
    reader::{Item, Reader},
    snapshot::Snapshot,
    writer::Writer,
};

/// What was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A simulated drive.
    Simulation,
    /// A drive of the kernel.
    Kernel,
}

/// What times mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The number of requests so far.
    Requests,
    /// Nanoseconds since the recording began.
    Nanoseconds,
}

/// What is known of a recording from its beginning on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The numbers of the drive.
    pub geometry: Geometry,
    /// Its zones, at least 1.
    pub zones: u64,
    /// Its strategy of allocation at the beginning.
    pub allocation: Allocation,
    /// What was recorded.
    pub source: Source,
    /// What times mean.
    pub clock: Clock,
    /// The zone that was recorded; `None`: all.
    pub only: Option<u64>,
}

impl Header {
    /// Whether events of a zone are recorded.
    #[inline]
    pub fn wants(&self, zone: u64) -> bool {
        match self.only {
            Some(only) => zone == only,
            None => zone < self.zones,
        }
    }
}
