// SPDX-License-Identifier: GPL-2.0-only

//! Device-mapper targets in safe Rust.
//!
//! A target implements [`Target`] and is registered by a [`Registration`], which lives as long as
//! the module. Device-mapper then builds instances from table lines and hands them bios:
//!
//! * [`Target::map`] gets a [`MapBio`] and answers with a [`Mapped`], which only the methods that
//!   consume the bio can make: it is remapped, ended, or deferred, exactly once.
//! * A deferred bio is a [`Deferred`], owned by whoever holds it. It waits in a [`BioQueue`], is
//!   scheduled on a workqueue, spreads I/O of its own with a [`Fan`], and is ended in the end.
//!   [`Target::run`] goes on with it; what it may do there depends on its [`Context`]. One that is
//!   dropped ends with an error, so that a mistake is seen and nothing hangs.
//! * The devices below belong to the instance and are reached through the [`TargetRef`] that every
//!   callback receives, so that none can outlive the table that opened it.
//!
//! This module knows nothing of IMR; it and [`crate::bindings`] hold all the unsafe code.

mod bio;
mod compat;
mod ctr;
mod delay;
mod fan;
mod hooks;
mod pages;
mod read_batch;
mod registration;
mod status;
mod sync_io;
mod target;
mod thread;
mod users;
mod with_words;
mod workqueue;

pub(crate) use bio::{BioQueue, Deferred, MapBio, Mapped, Op, Pick};
pub(crate) use compat::{new_spinlock_irq, zeros, SpinLockIrq, SpinLockIrqGuard};
pub(crate) use ctr::{Args, Ctr, CtrError, Device, DeviceId};
pub(crate) use fan::{BioSet, Context, Fan, Joined};
pub(crate) use hooks::{
    may_administer, may_log, now, random_bytes, user_slice, without_io, Ioctl, QueueLimits,
};
pub(crate) use pages::PageList;
pub(crate) use read_batch::ReadBatch;
pub(crate) use registration::Registration;
pub(crate) use status::{Status, StatusKind, Writer};
pub(crate) use sync_io::{IoBuffer, SyncIo};
pub(crate) use target::{Target, TargetRef};
pub(crate) use thread::ThreadContext;
pub(crate) use with_words::WithWords;
pub(crate) use workqueue::Workqueue;
