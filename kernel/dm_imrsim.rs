// SPDX-License-Identifier: GPL-2.0-only

//! IMRSim: a device-mapper target that makes an interlaced magnetic recording (IMR) drive of any
//! block device.
//!
//! The parts, each depending only on those before it:
//!
//! * [`imr`]: the drive. Pure: placement, mapping, what a write costs.
//! * [`dm`]: device-mapper for safe Rust, on top of [`bindings`].
//! * [`target`]: the drive as a device-mapper target.

use kernel::prelude::*;

mod bindings;
mod dm;
#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "also the host crate imrsim-core, whose users need all of it"
)]
mod imr;
mod target;

module! {
    type: DmImrsim,
    name: "dm_imrsim",
    authors: ["The IMRSim developers"],
    description: "Interlaced magnetic recording (IMR) drive simulator",
    license: "GPL v2",
}

#[pin_data]
struct DmImrsim {
    #[pin]
    registration: dm::Registration<target::Imrsim>,
}

impl kernel::InPlaceModule for DmImrsim {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            registration <- dm::Registration::new(),
        })
    }
}
