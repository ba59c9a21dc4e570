// SPDX-License-Identifier: GPL-2.0-only

//! Discards, for both of the tools that run in the guest.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Discards `sectors` sectors of a device from `sector` on, by the program `blkdiscard`: the system call
/// for it is out of reach of safe code.
pub(crate) fn discard(device: &Path, sector: u64, sectors: u64) -> io::Result<()> {
    let bytes = |sectors: u64| (sectors * 512).to_string();
    let status = Command::new("/bin/blkdiscard")
        .args(["--force", "--offset", &bytes(sector), "--length"])
        .arg(bytes(sectors))
        .arg(device)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("blkdiscard: {status}")))
    }
}
