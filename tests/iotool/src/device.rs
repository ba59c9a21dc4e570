// SPDX-License-Identifier: GPL-2.0-only

//! A block device (or a file standing in for one) read and written past the page cache.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::discard::discard;

/// Bytes in a sector, the unit of requests.
pub(crate) const SECTOR: usize = 512;
/// Sectors in a block, the drive's unit of mapping.
pub(crate) const BLOCK_SECTORS: u64 = 8;

/// `O_DIRECT` where the tests run: x86-64.
const O_DIRECT: i32 = 0o40000;
/// What `O_DIRECT` asks of a buffer's address, at most.
const ALIGNMENT: usize = 4096;

/// A buffer whose first byte lies at a page boundary.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// A zeroed buffer of `sectors` sectors.
    pub(crate) fn new(sectors: u64) -> Self {
        let len = sectors as usize * SECTOR;
        let bytes = vec![0; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { bytes, start, len }
    }

    /// The first `sectors` sectors.
    pub(crate) fn sectors(&self, sectors: u64) -> &[u8] {
        &self.bytes[self.start..self.start + self.len][..sectors as usize * SECTOR]
    }

    /// The first `sectors` sectors, to be changed.
    pub(crate) fn sectors_mut(&mut self, sectors: u64) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len][..sectors as usize * SECTOR]
    }
}

/// An open device.
pub(crate) struct Device {
    file: File,
    path: PathBuf,
}

impl From<File> for Device {
    fn from(file: File) -> Self {
        Self {
            file,
            path: PathBuf::new(),
        }
    }
}

impl Device {
    /// Opens the device for direct reads and writes.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(O_DIRECT)
            .open(path)
            .map(|file| Self {
                file,
                path: path.to_owned(),
            })
    }

    /// How many sectors the device has.
    pub(crate) fn sectors(&self) -> io::Result<u64> {
        Ok((&self.file).seek(SeekFrom::End(0))? / SECTOR as u64)
    }

    /// Reads `sectors` sectors from `sector` on into the start of `buffer`.
    pub(crate) fn read(&self, buffer: &mut Buffer, sector: u64, sectors: u64) -> io::Result<()> {
        self.file
            .read_exact_at(buffer.sectors_mut(sectors), sector * SECTOR as u64)
    }

    /// Writes the first `sectors` sectors of `buffer` to `sector`.
    pub(crate) fn write(&self, buffer: &Buffer, sector: u64, sectors: u64) -> io::Result<()> {
        self.file
            .write_all_at(buffer.sectors(sectors), sector * SECTOR as u64)
    }

    /// Has the device flush its write cache.
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Discards `sectors` sectors from `sector` on.
    pub(crate) fn discard(&self, sector: u64, sectors: u64) -> io::Result<()> {
        discard(&self.path, sector, sectors)
    }
}
