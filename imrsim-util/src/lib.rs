// SPDX-License-Identifier: GPL-2.0-only

//! The user-space side of IMRSim.
//!
//! * [`device`] talks to a drive: a block device of the kernel target, or a simulated one;
//! * [`control`] has what can be asked of a drive, and [`report`] shows the answers, [`prometheus`]
//!   those for a monitoring system, [`zones`] those about zones; [`watch`] asks again and again;
//!   [`settings`] has what can be set
//! * [`cli`] and [`classic`] are the two ways to ask: named commands, and the numbered ones of the
//!   original tool. Both end in the same [`control::Command`];
//! * [`drives`] makes, lists and removes drives of the kernel by its [`mapper`];
//! * [`drive`] is the simulated drive, [`simulate`] feeds it from a trace, [`prefill`] fills it before;
//! * [`recording`] writes down what a drive does, block by block, and plays it; [`show`]
//!   makes pages and pictures of that; [`record`] makes one of a drive of the kernel, whose events
//!   [`tracefs`] reads; [`live`] shows such a drive while it works;
//! * [`replay`] runs a trace on a drive of the kernel with fio, and compares;
//! * [`trace`] reads, converts and generates traces;
//! * [`size`] computes table lines;
//! * [`format`](mod@format) writes the metadata of an empty drive, [`check`] and [`dump`] read that
//!   of any, which [`metadata`] finds.

#![forbid(unsafe_code)]

pub mod check;
pub mod classic;
pub mod cli;
pub mod control;
pub mod device;
pub mod drive;
pub mod drives;
pub mod dump;
mod errors;
pub mod exit;
pub mod format;
pub mod header;
mod latency;
pub mod live;
pub mod mapper;
pub mod metadata;
pub mod number;
pub mod prefill;
pub mod prometheus;
pub mod record;
pub mod recording;
pub mod replay;
pub mod report;
mod resize;
pub mod rng;
pub mod settings;
pub mod show;
pub mod simulate;
pub mod size;
pub mod trace;
pub mod tracefs;
pub mod watch;
pub mod zones;
