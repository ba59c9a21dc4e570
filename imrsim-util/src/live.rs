// SPDX-License-Identifier: GPL-2.0-only

//! The live view of a drive: its zones, the tracks of one of them, and its counters, again and again.
//!
//! * [`model`] is what is known of the drive. It asks the drive and takes commands, and knows nothing of
//!   terminals; its parts are the zones in sight ([`zone_map`]), the tracks of the opened zone
//!   ([`tracks`]) and the counters ([`counters`]);
//! * [`view`] draws the model;
//! * [`screen`] is the terminal and the loop: look, draw, wait for a key;
//! * [`plain`] prints one look, for pipes and programs.

pub mod counters;
pub mod keys;
pub mod model;
pub mod overview;
pub mod plain;
pub mod screen;
pub mod tracks;
pub mod view;
pub mod zone_map;

use std::time::Duration;

pub use self::{
    model::Model,
    screen::{end_by, run},
    tracks::{no_rewrites, Rewrite, Rewrites},
};

/// How to look.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The zone that is opened first.
    pub zone: u64,
    /// The time between two looks.
    pub interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            zone: 0,
            interval: Duration::from_millis(500),
        }
    }
}
