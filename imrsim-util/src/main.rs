// SPDX-License-Identifier: GPL-2.0-only

//! The program `imrsim_util`: see `imrsim_util --help` and the library `imrsim_util`.

#![forbid(unsafe_code)]

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    imrsim_util::cli::main(env::args_os())
}
