// SPDX-License-Identifier: GPL-2.0-only

//! A block device read and written past the page cache.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::content::SECTOR;
use crate::discard::discard;

// Where the tests run: x86-64.
const O_DIRECT: i32 = 0o40000;
const O_DSYNC: i32 = 0o10000;
/// What `O_DIRECT` asks of a buffer's address, at most.
const ALIGNMENT: usize = 4096;

/// A buffer whose first byte lies at a page boundary.
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// A zeroed buffer of `sectors` sectors.
    pub fn new(sectors: u32) -> Self {
        let bytes = vec![0; sectors as usize * SECTOR + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { bytes, start }
    }

    /// The first `sectors` sectors.
    pub fn sectors(&mut self, sectors: u32) -> &mut [u8] {
        &mut self.bytes[self.start..][..sectors as usize * SECTOR]
    }
}

/// An open device.
pub struct Device {
    path: PathBuf,
    plain: File,
    durable: File,
}

impl Device {
    /// Opens a device.
    pub fn open(path: &Path) -> io::Result<Self> {
        let open = |flags| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(flags)
                .open(path)
        };
        Ok(Self {
            path: path.to_owned(),
            plain: open(O_DIRECT)?,
            durable: open(O_DIRECT | O_DSYNC)?,
        })
    }

    /// How many sectors it has.
    pub fn sectors(&self) -> io::Result<u64> {
        Ok((&self.plain).seek(SeekFrom::End(0))? / SECTOR as u64)
    }

    /// Writes the first `sectors` sectors of a buffer.
    pub fn write(
        &self,
        buffer: &mut Buffer,
        lba: u32,
        sectors: u32,
        durable: bool,
    ) -> io::Result<()> {
        let file = if durable { &self.durable } else { &self.plain };
        file.write_all_at(buffer.sectors(sectors), u64::from(lba) * SECTOR as u64)
    }

    /// Discards `sectors` sectors.
    pub fn discard(&self, lba: u32, sectors: u32) -> io::Result<()> {
        discard(&self.path, lba.into(), sectors.into())
    }

    /// Flushes its cache.
    pub fn flush(&self) -> io::Result<()> {
        self.plain.sync_data()
    }
}

/// Opens a device to be read only.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(O_DIRECT)
        .open(path)
}
