// SPDX-License-Identifier: GPL-2.0-only

//! SYSTOR '17 traces.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| imrsim_fuzz::text(data, imrsim_fuzz::Format::Systor));
