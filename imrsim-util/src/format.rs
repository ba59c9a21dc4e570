// SPDX-License-Identifier: GPL-2.0-only

//! Writes the metadata of an empty drive.

use std::{
    fs::File,
    io::{Read, Write},
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{bail, Context, Result};
use imrsim_core::{
    ondisk::{entry::format_block, superblock, Superblock, Uuid, BLOCK_BYTES},
    Geometry, Layout, BLOCK_SECTORS,
};
use serde::Serialize;

use crate::{
    metadata::{Backing, Place, Search},
    number::SECTOR,
    report,
    settings::{ForNewDrive, Values},
    size::{self, Size},
};

const BLOCK: u64 = BLOCK_SECTORS as u64;
/// How much of the journal is written at once, in bytes.
const CHUNK: u64 = 1 << 20;

/// How much of the device's end is searched for a drive, in bytes, besides 1/512 of all.
const LAST_BYTES: u64 = 1 << 30;

/// The options.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Blocks in a top track, in a bottom track, and track groups in a zone
    #[arg(long, value_name = "T,B,G", value_parser = size::parse_geometry)]
    #[arg(default_value = "456,568,64")]
    geometry: Geometry,
    #[command(flatten)]
    settings: ForNewDrive,
    /// Format even if the device holds something, which is lost then
    #[arg(long)]
    force: bool,
    /// Print the whole table line
    #[arg(long)]
    table: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "table")]
    json: bool,
}

/// The end of the help text.
pub const AFTER_HELP: &str =
    "Prints the sectors for the device's table line. A device of zeros need \
    not be formatted:\nthat happens when a drive is made on it for the first time.\n\n\
    Examples:\n  \
    imrsim_util format /dev/sdb\n  \
    dmsetup create imrsim --table \"$(imrsim_util format /dev/sdb --phases 3 --table)\"";

#[derive(Serialize)]
struct Formatted {
    uuid: String,
    phases: u32,
    settings: Values,
    table: String,
    #[serde(flatten)]
    size: Size,
}

/// Runs the command.
///
/// # Errors
///
/// If the device is too small, in use, holds something, or cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let mut backing = Backing::open(&args.place, true)?;
    let size = Size::of(&args.geometry, backing.room())?;
    let found = signatures(&mut backing, &args.geometry)?;
    if let Some(first) = found.first() {
        if !args.force {
            bail!(
                "{} holds {}: --force formats it all the same, and what is on it is lost",
                backing.name(),
                first.name
            );
        }
    }
    let layout = Layout::new(&args.geometry, size.zones).context("the drive is too large")?;
    let settings = args.settings.settings();
    let superblock = Superblock {
        created: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs()),
        creator: creator(),
        ..Superblock::new(&args.geometry, size.zones, settings, uuid()?)
    };
    erase(&backing, &found)?;
    write(&backing, &layout, &superblock)?;

    let device = args.place.device.display().to_string();
    let table = size.table_line(&args.geometry, &device, args.place.start);
    if args.json {
        let formatted = Formatted {
            uuid: superblock.uuid.to_string(),
            phases: superblock.settings.allocation(),
            settings: Values::of(&superblock.settings),
            table,
            size,
        };
        report::json(&formatted, out)?;
    } else if args.table {
        writeln!(out, "{table}")?;
    } else {
        writeln!(out, "{}", size.data_sectors)?;
    }
    Ok(())
}

/// Writes the metadata of an empty drive, in an order in which a crash leaves a device that is
/// either blank or formatted, if its superblocks are zero.
fn write(backing: &Backing, layout: &Layout, superblock: &Superblock) -> Result<()> {
    let copies = || (0..2).filter_map(|copy| layout.superblock(copy));
    let zeros = vec![0; layout.superblock_bytes()];
    for sector in copies() {
        backing.write(sector, &zeros)?;
    }
    backing.sync()?;
    let mut block = [0; BLOCK_BYTES];
    format_block(&mut block, &superblock.uuid);
    let chunk = block.repeat(usize::try_from(CHUNK / SECTOR / BLOCK)?);
    let mut left = layout.journal_sectors() * SECTOR;
    let mut sector = layout.journal();
    while left > 0 {
        let bytes = left.min(CHUNK);
        let part = chunk.get(..usize::try_from(bytes)?).unwrap_or(&chunk);
        backing.write(sector, part)?;
        left -= bytes;
        sector += bytes / SECTOR;
    }
    backing.sync()?;
    let mut copy = zeros;
    superblock.encode(&vec![0; layout.map_words()], &mut copy);
    for sector in copies() {
        backing.write(sector, &copy)?;
        backing.sync()?;
    }
    Ok(())
}

/// A random UUID, version 4.
fn uuid() -> Result<Uuid> {
    let mut uuid = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut uuid))
        .context("cannot read /dev/urandom")?;
    uuid[6] = (uuid[6] & 0x0f) | 0x40;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    Ok(Uuid(uuid))
}

/// This program and its version.
fn creator() -> [u8; 16] {
    let mut creator = [0; 16];
    let text = concat!("imrsim ", env!("CARGO_PKG_VERSION"));
    for (to, from) in creator.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    creator
}

/// Something that says what a device holds.
#[derive(Debug)]
struct Signature {
    name: &'static str,
    /// The sectors of the drive in which it is, to be erased.
    sectors: std::ops::Range<u64>,
}

/// A known content: its name, where its mark is in bytes, and the mark.
const KNOWN: &[(&str, u64, &[u8])] = &[
    ("an ext2, ext3 or ext4 file system", 0x438, &[0x53, 0xef]),
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", 0x10040, b"_BHRfS_M"),
    ("an F2FS file system", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    (
        "a bcachefs file system or a bcache device",
        0x1018,
        &[0xc6, 0x85, 0x73, 0xf6],
    ),
    ("a ReiserFS file system", 0x10034, b"ReIsEr"),
    ("a JFS file system", 0x8000, b"JFS1"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 0x36, b"FAT1"),
    ("a FAT file system", 0x52, b"FAT32"),
    ("a SquashFS file system", 0, b"hsqs"),
    ("an ISO 9660 file system", 0x8001, b"CD001"),
    ("a UDF file system", 0x8801, b"NSR0"),
    ("a ZFS file system", 0x20000, &[0x0c, 0xb1, 0xba, 0]),
    ("a GFS2 file system", 0x10000, &[1, 0x16, 0x19, 0x70]),
    ("a NILFS2 file system", 0x406, &[0x34, 0x34]),
    ("an EROFS file system", 0x400, &[0xe2, 0xe1, 0xf5, 0xe0]),
    ("swap space", 0xff6, b"SWAPSPACE2"),
    ("swap space", 0xff6, b"SWAP-SPACE"),
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("an LVM physical volume", 0x18, b"LVM2 001"),
    ("an LVM physical volume", 0x218, b"LVM2 001"),
    ("an LVM physical volume", 0x418, b"LVM2 001"),
    ("an LVM physical volume", 0x618, b"LVM2 001"),
    ("a member of a software RAID", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    (
        "a member of a software RAID",
        0x1000,
        &[0xfc, 0x4e, 0x2b, 0xa9],
    ),
    (
        "thin-provisioning metadata",
        0x20,
        &[0xba, 0x52, 0x9c, 0x01],
    ),
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
];

/// What is on the device, as far as it is known.
fn signatures(backing: &mut Backing, geometry: &Geometry) -> Result<Vec<Signature>> {
    let mut found = Vec::new();
    let cannot_read = format!("cannot read {}", backing.name());
    let end = backing.room() * SECTOR;
    let holds = |at: u64, mark: &[u8]| {
        let mut bytes = vec![0; mark.len()];
        backing
            .peek(at, &mut bytes)
            .with_context(|| cannot_read.clone())?;
        Ok::<_, anyhow::Error>(bytes == mark)
    };
    let blocks_of = |at: u64, len: u64| {
        let block = BLOCK * SECTOR;
        at / block * BLOCK..(at + len).div_ceil(block) * BLOCK
    };
    for (name, at, mark) in KNOWN {
        if *at < end && holds(*at, mark)? {
            found.push(Signature {
                name,
                sectors: blocks_of(*at, mark.len() as u64),
            });
        }
    }
    // A partition table of the old kind: its mark is also that of boot sectors, but those are found
    // by name, and of an empty table.
    if holds(510, &[0x55, 0xaa])? && found.is_empty() {
        found.push(Signature {
            name: "a partition table or a boot sector",
            sectors: 0..BLOCK,
        });
    }
    // Copies at the end: of a GPT, and of RAID superblocks.
    let raid = [0xfc, 0x4e, 0x2b, 0xa9];
    for (name, from_end, align, mark) in [
        ("a GPT partition table", 512, 512, &b"EFI PART"[..]),
        ("a GPT partition table", 4096, 4096, b"EFI PART"),
        ("a member of a software RAID", 8192, 4096, &raid),
        ("a member of a software RAID", 65_536, 65_536, &raid),
    ] {
        let Some(at) = end.checked_sub(from_end) else {
            continue;
        };
        let at = at / align * align;
        if holds(at, mark)? {
            let sectors = blocks_of(at, mark.len() as u64);
            found.push(Signature {
                name,
                sectors: sectors.start..sectors.end.min(backing.room()),
            });
        }
    }
    for layout in drives(backing, geometry)? {
        for copy in 0..2 {
            let Some(sector) = layout.superblock(copy) else {
                continue;
            };
            let mut magic = [0; superblock::MAGIC.len()];
            backing.peek(sector * SECTOR, &mut magic)?;
            if magic == superblock::MAGIC {
                found.push(Signature {
                    name: "an IMRSim drive",
                    sectors: sector..sector + layout.superblock_sectors(),
                });
            }
        }
    }
    Ok(found)
}

/// Where an IMRSim drive may be: one of this geometry, one of the default geometry, and any whose
/// superblock is near the end of the device, where that of the largest drive is.
fn drives(backing: &mut Backing, geometry: &Geometry) -> Result<Vec<Layout>> {
    let mut drives = Vec::new();
    for geometry in [*geometry, Geometry::DEFAULT] {
        let search = Search {
            place: Place {
                device: PathBuf::new(),
                start: 0,
            },
            geometry: Some(geometry),
            sectors: None,
            scan: false,
        };
        // That a drive of the default geometry would not fit is no error.
        drives.extend(backing.find(&search).ok());
    }
    let bytes = backing.room() * SECTOR;
    drives.extend(backing.scan(bytes.saturating_sub(LAST_BYTES + bytes / 512))?);
    Ok(drives)
}

/// Erases what says that the device holds something else.
fn erase(backing: &Backing, found: &[Signature]) -> Result<()> {
    for signature in found {
        for sector in signature.sectors.clone().step_by(BLOCK as usize) {
            let sectors = (signature.sectors.end - sector).min(BLOCK);
            let zeros = vec![0; usize::try_from(sectors * SECTOR)?];
            backing.write(sector, &zeros)?;
        }
    }
    Ok(())
}
