// SPDX-License-Identifier: GPL-2.0-only

//! How the program ends: 0 for success, 1 if a device, a file or the kernel failed, 2 if the
//! command line is wrong. `check` and `dump` have two more.

use std::{fmt, io};

/// Everything was done.
pub const OK: u8 = 0;
/// A device, a file or the kernel refused or failed, or a trace had bad lines.
pub const FAILED: u8 = 1;
/// The command line is wrong. Nothing was done.
pub const USAGE: u8 = 2;

/// Metadata is damaged, but nothing is lost: the drive can be resumed.
pub const REPAIRABLE: u8 = 3;
/// There is no drive, or it is damaged so that it will be refused.
pub const REFUSED: u8 = 4;

/// What is wrong with a command line.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error that says that the command line is wrong.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// The exit code for an error.
pub fn code(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() {
        USAGE
    } else {
        FAILED
    }
}

/// Whether the error is that nobody reads the output any more, as in `imrsim_util ... | head`.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
