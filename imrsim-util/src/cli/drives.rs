// SPDX-License-Identifier: GPL-2.0-only

//! The commands that make, list and remove drives.

use std::{io::Write, os::unix::fs::MetadataExt, path::Path};

use anyhow::{Context, Result};
use clap::Args;
use imrsim_core::Geometry;
use nix::sys::stat::{major, minor};

use crate::{
    drives::{self, parse_name, Wish},
    mapper::Kernel,
    number::parse_size,
    report::Style,
    settings::ForNewDrive,
    size::{self, Backing},
};

pub(super) const CREATE_HELP: &str =
    "A device of zeros is formatted, a drive that is there already is resumed as it was, with the\n\
    allocation that was set last. A device that holds anything else is left alone: see 'format'.\n\
    The drive is /dev/mapper/NAME.\n\n\
    Examples:\n  \
    imrsim_util create imrsim /dev/sdb\n  \
    imrsim_util create small /dev/sdb --size 1GiB --phases 3\n  \
    imrsim_util create other /dev/sdc --geometry 57,71,8 --start 2048";

pub(super) const LIST_HELP: &str = "\
    States: rw, all is well; ro, nothing is written; fail, metadata could not be written;\n\
    suspended. 'mapped' is in blocks of 4 KiB, 'start' in sectors of 512 bytes on the device below.\n\n\
    Examples:\n  \
    imrsim_util list\n  \
    imrsim_util list --json";

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// The drive's name
    #[arg(value_parser = parse_name)]
    name: String,
    /// The block device to make it on
    device: String,
    #[command(flatten)]
    settings: ForNewDrive,
    /// Blocks in a top track, in a bottom track, and track groups in a zone
    #[arg(long, value_name = "T,B,G", value_parser = size::parse_geometry)]
    #[arg(default_value = "456,568,64")]
    geometry: Geometry,
    /// The drive's size, a whole number of zones: 256M, 1GiB [default: all that fits]
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// The first sector of the drive on the device
    #[arg(long, value_name = "SECTOR", value_parser = size::parse_start)]
    #[arg(default_value = "0")]
    start: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl CreateArgs {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let backing = Backing::Path(self.device.clone());
        let path = Path::new(backing.block_device()?);
        let wish = Wish {
            geometry: self.geometry,
            settings: self.settings,
            bytes: self.size,
            start: self.start,
        };
        let size = wish.fit(backing.sectors()?)?;
        // By its number: a path may have blanks in it.
        let number = path
            .metadata()
            .with_context(|| format!("cannot open {}", self.device))?
            .rdev();
        let line = wish.line(&size, &format!("{}:{}", major(number), minor(number)));
        let mapper = mapper()?;
        drives::create(&mapper, &self.name, size, &line, Style::new(self.json), out)
    }
}

#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    /// The drive's name
    #[arg(value_parser = parse_name)]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl RemoveArgs {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        drives::remove(&mapper()?, &self.name, Style::new(self.json), out)
    }
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ListArgs {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        drives::list(&mapper()?, Style::new(self.json), out)
    }
}

fn mapper() -> Result<Kernel> {
    Kernel::open().map_err(|error| {
        let hint = drives::explain(&error);
        anyhow::Error::new(error).context(hint)
    })
}
