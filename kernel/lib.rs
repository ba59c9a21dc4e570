// SPDX-License-Identifier: GPL-2.0-only

//! `imrsim-core`: the simulated drive of IMRSim as an ordinary Rust crate.
//!
//! The sources are those of the kernel module, `kernel/imr/`. There they are a module of the
//! crate `dm-imrsim`, because Kbuild compiles one crate for each object; here they are a library,
//! so that user-space tools run, and the tests test, the very same code. See [`imr`] for where to
//! start reading.
//!
//! A zone of the drive, and a write to it:
//!
//! ```
//! use imrsim_core::{
//!     Allocation, Bo, Geometry, Piece, ReadRun, Request, Stats, Step, Zone, ZoneState,
//! };
//!
//! let geometry = Geometry::DEFAULT;
//! let mut table = vec![0; Zone::table_len(&geometry)];
//! let mut bits = vec![0; Zone::bits_len(&geometry)];
//! let mut state = ZoneState::default();
//! let mut stats = Stats::default();
//!
//! let request = Request {
//!     bo: Bo(1000),
//!     blocks: 2,
//!     head_partial: false,
//!     tail_partial: false,
//! };
//! let mut zone = Zone::new(&geometry, &mut table, &mut bits, &mut state).unwrap();
//! let Step::Ready(plan) = zone.start(&request, Allocation::default()) else {
//!     panic!("nothing is in flight");
//! };
//! stats.count_write(&plan, Piece::of(&request, plan.blocks, false, false));
//! // Here the plan would be executed.
//! zone.finish(&plan, true);
//!
//! // The first free blocks are those of the first bottom track, behind the first top track.
//! let run = ReadRun::Mapped { nbo: plan.nbo, blocks: 2 };
//! assert_eq!(plan.nbo.0, geometry.top_blocks());
//! assert_eq!(zone.read(Bo(1000), 10), run);
//! assert_eq!(stats.waf().to_string(), "1.000000");
//! ```

#![no_std]
#![forbid(unsafe_code)]

#[path = "imr/mod.rs"]
pub mod imr;

pub use imr::*;
