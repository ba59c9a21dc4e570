// SPDX-License-Identifier: GPL-2.0-only

//! The C side as bindgen sees it: device-mapper, bios and the functions of `helpers.c`.
//!
//! The kernel's own bindings crate leaves device-mapper out, so the module generates what it needs
//! from `bindings_helper.h` at build time. Only [`crate::dm`] and [`trace`] use this.

pub(crate) mod trace;

#[allow(
    warnings,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    unsafe_op_in_unsafe_fn,
    unreachable_pub,
    missing_docs
)]
mod generated {
    use kernel::ffi;

    include!(env!("IMRSIM_BINDINGS"));
}

pub(crate) use generated::*;
