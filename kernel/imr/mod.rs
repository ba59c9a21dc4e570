// SPDX-License-Identifier: GPL-2.0-only

//! The drive: what an interlaced magnetic recording (IMR) disk does with each block.
//!
//! Everything here is pure. It does no I/O, allocates no memory, takes no locks, has no `unsafe`
//! and needs nothing but `core`; a caller lends it memory and tells it what happened. The same
//! files are compiled twice: into the kernel module `dm-imrsim.ko` (as `mod imr`) and, for the
//! tests and the user-space tools, into the host crate `imrsim-core`.
//!
//! How to read it, from the bottom up:
//!
//! 1. [`units`]: sectors, blocks, [`Bo`] and [`Nbo`], the block numbers before and after mapping;
//! 2. [`geometry`]: how tracks, groups and zones lie on the platter, and which top blocks overlap
//!    which bottom blocks;
//! 3. [`strategy`]: where a block goes that is written for the first time;
//! 4. [`plan`]: what one write makes the drive do, as a value;
//! 5. [`inflight`]: which blocks the writes that have not finished yet keep others from;
//! 6. [`zone`]: the mapping table of one zone, which puts 2 to 5 together;
//! 7. [`discard`]: which blocks of a zone a discard unmaps;
//! 8. [`stats`]: what the drive did, counted;
//! 9. [`settings`], [`condition`]: what can be set, for the drive and for a zone;
//! 10. [`failure`], [`latency`]: why requests fail, and how long they take;
//! 11. [`layout`]: how much of the backing device the metadata takes;
//! 12. [`ondisk`]: what the metadata looks like, and how it is read after a crash;
//! 13. [`uapi`]: the ioctls, for both sides of them.
//!
//! # Life of a write
//!
//! The caller turns a sector into a zone and a [`Bo`] ([`Geometry::split`]), locks the zone, makes
//! a [`Zone`] view of its memory and calls [`Zone::start`]. It gets a [`Plan`] for the longest
//! prefix of the request that is one run on the platter, executes it without the lock, and calls
//! [`Zone::finish`] with its outcome. If the answer is [`Step::Wait`] it queues the prefix and
//! tries again when another write has finished.

mod bitmap;
pub mod claim;
pub mod condition;
mod cursor;
pub mod discard;
pub mod failure;
pub mod geometry;
pub mod inflight;
pub mod latency;
pub mod layout;
mod num;
pub mod ondisk;
pub mod plan;
pub mod settings;
pub mod stats;
pub mod strategy;
pub mod uapi;
pub mod units;
pub mod zone;

pub use claim::Claim;
pub use condition::Condition;
pub use discard::DiscardPart;
pub use failure::Cause;
pub use geometry::{
    Address,
    BottomRun,
    Geometry,
    GeometryError,
    Location,
    Track,
    TrackKind, //
};
pub use inflight::{
    Footprint,
    InFlight, //
};
pub use layout::Layout;
pub use plan::{
    Op,
    Plan,
    Request,
    Step,
    TopRun,
    MAX_RMW_BLOCKS, //
};
pub use settings::{
    Each,
    Setting,
    Settings, //
};
pub use stats::{
    Indicator,
    Piece,
    Stats,
    Waf, //
};
pub use strategy::{
    Allocation,
    AllocationError,
    Strategy,
    MAX_PHASES, //
};
pub use units::{
    Bo,
    Nbo,
    BLOCK_SECTORS,
    BLOCK_SIZE,
    SECTOR_SIZE, //
};
pub use zone::{
    Busy,
    Placed,
    ReadRun,
    Zone,
    ZoneError,
    ZoneState, //
};
