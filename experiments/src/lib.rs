// SPDX-License-Identifier: GPL-2.0-only

//! The experiments of the IMRSim paper that are about writes, repeated with the simulator: write
//! amplification by space usage (its Fig. 6), and the extra writes of four workloads (its Fig. 7c).
//!
//! [`workload`] gets the traces, [`measure`] runs them, [`plot`] draws, and [`document`] writes down what
//! came out, beside what the paper says.

#![forbid(unsafe_code)]

pub mod document;
pub mod measure;
pub mod plot;
pub mod workload;
