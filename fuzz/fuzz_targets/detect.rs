// SPDX-License-Identifier: GPL-2.0-only

//! Whatever a file may hold: compressed or not, and of any format.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| imrsim_fuzz::detected(data));
