// SPDX-License-Identifier: GPL-2.0-only

//! The metadata of a drive on its backing device, or in an image of one: finding it and reading it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom},
    os::{
        fd::AsFd,
        unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    },
    path::PathBuf,
};

use anyhow::{ensure, Context, Result};
use imrsim_core::{
    ondisk::{superblock, Block, Disk, LoadError, Refusal, Superblock, BLOCK_BYTES},
    Geometry, Layout, BLOCK_SECTORS,
};
use nix::unistd::{lseek, Whence};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{
    number::{parse_count, Bytes, SECTOR},
    size,
};

/// `O_EXCL`: for a block device, fail if it is mounted or otherwise in use.
const EXCLUSIVE: i32 = 0o200;
/// How much a search reads at once.
const SCAN_BYTES: u64 = 1 << 20;
/// How many sizes of a drive are tried. Enough for the default geometry and 20 TB.
const MAX_PROBES: usize = 80_000;
const BLOCK: u64 = BLOCK_SECTORS as u64 * SECTOR;

/// Which drive on which device: the options that several commands have.
#[derive(Clone, Debug, clap::Args)]
pub struct Place {
    /// The backing device, or an image of it
    pub device: PathBuf,
    /// The first sector of the drive on the device, as in its table line
    #[arg(long, value_name = "SECTOR", value_parser = size::parse_start, default_value = "0")]
    pub start: u64,
}

/// Where the metadata is, for commands that read it.
#[derive(Clone, Debug, clap::Args)]
pub struct Search {
    /// Which drive.
    #[command(flatten)]
    pub place: Place,
    /// Where it is not found: blocks in a top track, in a bottom track, and track groups in a zone
    #[arg(long, value_name = "T,B,G", value_parser = size::parse_geometry)]
    pub geometry: Option<Geometry>,
    /// Where it is not found: sectors of the drive, as in its table line
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub sectors: Option<u64>,
    /// Where it is not found: read the whole device for a superblock
    #[arg(long, conflicts_with = "sectors")]
    pub scan: bool,
}

/// A backing device or an image of one, from the first sector of a drive on.
#[derive(Debug)]
pub struct Backing {
    file: File,
    name: String,
    is_device: bool,
    start: u64,
    /// Sectors from `start` on.
    room: u64,
}

impl Backing {
    /// Opens a device or an image.
    ///
    /// # Errors
    ///
    /// If it is neither, cannot be opened, or, for writing, is in use.
    pub fn open(place: &Place, write: bool) -> Result<Self> {
        let name = place.device.display().to_string();
        let kind = place
            .device
            .metadata()
            .with_context(|| format!("cannot open {name}"))?
            .file_type();
        ensure!(
            kind.is_block_device() || kind.is_file(),
            "{name} is neither a block device nor a file"
        );
        let mut options = OpenOptions::new();
        options.read(true).write(write);
        if write && kind.is_block_device() {
            options.custom_flags(EXCLUSIVE);
        }
        let mut file = options.open(&place.device).with_context(|| {
            format!(
                "cannot open {name}{}",
                if write { " for writing" } else { "" }
            )
        })?;
        let bytes = file
            .seek(SeekFrom::End(0))
            .with_context(|| format!("cannot find the size of {name}"))?;
        let sectors = bytes / SECTOR;
        let room = sectors
            .checked_sub(place.start)
            .with_context(|| format!("{name} has only {sectors} sectors"))?;
        Ok(Self {
            file,
            name,
            is_device: kind.is_block_device(),
            start: place.start,
            room,
        })
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a block device.
    pub const fn is_device(&self) -> bool {
        self.is_device
    }

    /// Sectors from the start of the drive to the end of the device.
    pub const fn room(&self) -> u64 {
        self.room
    }

    fn byte(&self, sector: u64) -> io::Result<u64> {
        let sector = self.start.checked_add(sector);
        sector
            .and_then(|sector| sector.checked_mul(SECTOR))
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads a few bytes, `byte` counting from the start of the drive; zeros behind the end.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn peek(&self, byte: u64, buf: &mut [u8]) -> io::Result<()> {
        buf.fill(0);
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = self.byte(0)? + byte + done as u64;
            match self.file.read_at(rest, at)? {
                0 => break,
                n => done += n,
            }
        }
        Ok(())
    }

    /// Writes from a sector of the drive on.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, sector: u64, bytes: &[u8]) -> Result<()> {
        let at = self.byte(sector)?;
        self.file
            .write_all_at(bytes, at)
            .with_context(|| format!("cannot write to {}", self.name))
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    ///
    /// If that fails.
    pub fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .with_context(|| format!("cannot write to {}", self.name))
    }

    /// The first byte, from the drive's start on, from `from` on that is not in a hole of a sparse
    /// image, and the end of what is not; `None` if there is none.
    fn data_extent(&self, from: u64) -> Option<(u64, u64)> {
        let base = self.byte(0).ok()?;
        let end = self.room * SECTOR;
        let seek = |at: u64, whence| {
            let at = i64::try_from(base + at).ok()?;
            let found = lseek(self.file.as_fd(), at, whence).ok()?;
            u64::try_from(found).ok()?.checked_sub(base)
        };
        if from >= end {
            return None;
        }
        if self.is_device {
            return Some((from, end));
        }
        let first = seek(from, Whence::SeekData)?;
        Some((first, seek(first, Whence::SeekHole)?.min(end)))
    }

    /// The drive whose superblock has a copy in this block, and is where it should be.
    fn superblock_at(&mut self, sector: u64) -> Probe {
        let mut magic = [0; superblock::MAGIC.len()];
        let mut block: Block = [0; BLOCK_BYTES];
        let is_one = self.peek(sector.saturating_mul(SECTOR), &mut magic).is_ok()
            && magic == superblock::MAGIC
            && self.read(sector, &mut block).is_ok();
        if !is_one {
            return Probe::Nothing;
        }
        probe(&block, sector)
    }

    /// Looks for the superblock where it should be, and where it would be on a smaller drive.
    /// Returns the layout of the drive, or of the drive that should be there.
    ///
    /// # Errors
    ///
    /// If no drive would fit.
    pub fn find(&mut self, search: &Search) -> Result<Layout> {
        let geometry = search.geometry.unwrap_or_default();
        if let Some(sectors) = search.sectors {
            let zones = sectors / geometry.zone_sectors();
            ensure!(
                sectors == zones * geometry.zone_sectors() && zones > 0,
                "{sectors} sectors are not whole zones of {}",
                geometry.zone_sectors()
            );
            let layout = Layout::new(&geometry, zones).context("the drive is too large")?;
            return Ok(self.find_copies(&layout).unwrap_or(layout));
        }
        let most = self.room / geometry.zone_sectors();
        let fitting = Layout::zones_that_fit(&geometry, self.room);
        // The largest first; those that do not fit may be of a device that shrank.
        for zones in (1..=most).rev().take(MAX_PROBES) {
            let layout = Layout::new(&geometry, zones).context("the drive is too large")?;
            if let Some(found) = self.find_copies(&layout) {
                return Ok(found);
            }
        }
        if search.scan {
            if let Some(found) = self.scan(0)? {
                return Ok(found);
            }
        }
        Layout::new(&geometry, fitting)
            .filter(|layout| layout.zones() > 0)
            .with_context(|| {
                format!(
                    "{} has no IMRSim superblock, and {} sectors ({}) are too few for a drive",
                    self.name,
                    self.room,
                    Bytes(self.room.saturating_mul(SECTOR))
                )
            })
    }

    /// The layout of the drive with a superblock where one of this layout has it.
    fn find_copies(&mut self, layout: &Layout) -> Option<Layout> {
        let mut result = None;
        for copy in 0..2 {
            match self.superblock_at(layout.superblock(copy)?) {
                Probe::Found(found) => return Some(found),
                Probe::Unusable => result = Some(*layout),
                Probe::Nothing => {}
            }
        }
        result
    }

    /// Reads everything from a byte of the drive on for a superblock.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn scan(&mut self, from: u64) -> Result<Option<Layout>> {
        let mut buf = vec![0; SCAN_BYTES as usize];
        let mut at = from / BLOCK * BLOCK;
        let mut found = None;
        while let Some((first, end)) = self.data_extent(at) {
            let mut from = first / BLOCK * BLOCK;
            while from < end {
                self.peek(from, &mut buf)
                    .with_context(|| format!("cannot read {}", self.name))?;
                for (block, byte) in buf
                    .chunks_exact(BLOCK_BYTES)
                    .zip((from..).step_by(BLOCK_BYTES))
                {
                    let block = block.try_into().unwrap_or(&[0; BLOCK_BYTES]);
                    if let Probe::Found(layout) = probe(block, byte / SECTOR) {
                        // The last one: others may be data of the drive.
                        found = Some(layout);
                    }
                }
                from += SCAN_BYTES;
            }
            at = from.max(end);
        }
        Ok(found)
    }
}

/// What a block says about a superblock.
enum Probe {
    /// It is one, of a drive with this layout.
    Found(Layout),
    /// It is one, but damaged or of another version.
    Unusable,
    /// It is none, or belongs somewhere else.
    Nothing,
}

fn probe(block: &Block, sector: u64) -> Probe {
    if !block.starts_with(&superblock::MAGIC) {
        return Probe::Nothing;
    }
    match Superblock::decode_header(block) {
        Ok((found, _)) => match found.layout() {
            Ok(layout) if (0..2).any(|copy| layout.superblock(copy) == Some(sector)) => {
                Probe::Found(layout)
            }
            _ => Probe::Nothing,
        },
        Err(_) => Probe::Unusable,
    }
}

impl Disk for Backing {
    type Error = io::Error;

    fn read(&mut self, sector: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, self.byte(sector)?)
    }
}

/// Names and values in an order that was chosen: a JSON object, or lines of text.
#[derive(Clone, Debug, Default)]
pub struct Fields(pub Vec<(&'static str, Value)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Splits why something could not be loaded: a refusal is an answer, anything else an error.
///
/// # Errors
///
/// If the device could not be read.
pub fn refusal<T>(
    result: Result<T, LoadError<io::Error>>,
    name: &str,
) -> Result<Result<T, Refusal>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(LoadError::Refused(refusal)) => Ok(Err(refusal)),
        Err(LoadError::Io(error)) => {
            Err(error).with_context(|| format!("cannot read the metadata of {name}"))
        }
    }
}

/// What is known of one copy of the superblock.
///
/// # Errors
///
/// Why it cannot be used.
pub fn read_copy(backing: &mut Backing, layout: &Layout, copy: u64) -> Result<Superblock, Refusal> {
    let mut bytes = vec![0; layout.superblock_bytes()];
    let sector = layout.superblock(copy).unwrap_or(u64::MAX);
    if backing.read(sector, &mut bytes).is_err() {
        return Err(Refusal::SuperblockDamaged);
    }
    Superblock::decode(&bytes, &mut vec![0; layout.map_words()])
}
