// SPDX-License-Identifier: GPL-2.0-only

//! Trace events of the kernel.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| imrsim_fuzz::events(data));
