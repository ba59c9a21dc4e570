// SPDX-License-Identifier: GPL-2.0-only

//! A drive on a disk whose power fails.

// Each test is a crate of its own and uses a part of this.
#![allow(dead_code)]

pub(crate) mod drive;
pub(crate) mod oracle;
pub(crate) mod platter;
