// SPDX-License-Identifier: GPL-2.0-only

//! Any text with columns; the first line of the input says which.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| imrsim_fuzz::columns(data));
