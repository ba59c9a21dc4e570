// SPDX-License-Identifier: GPL-2.0-only

//! The running drives: making, listing and removing them.

use std::{fs, io, io::Write, os::unix::fs::MetadataExt, path::Path};

use anyhow::{ensure, Context, Result};
use imrsim_core::{Geometry, Layout};
use nix::sys::stat::makedev;
use serde::Serialize;

use crate::{
    exit::usage,
    mapper::{self, Entry, Kind, Line, Mapper, NODES},
    number::{percent, Bytes, SECTOR},
    report::{self, Style},
    settings::ForNewDrive,
    size::{self, Size},
};

/// The name of the target.
pub(crate) const TARGET: &str = "imrsim";
/// The longest name of a device, in bytes.
const MAX_NAME: usize = 127;

/// Reads the name of a device: one that is the same in `/dev/mapper`, where others are escaped.
///
/// # Errors
///
/// If it is not one.
pub fn parse_name(text: &str) -> Result<String> {
    let name = short_name(text);
    let plain = |c: char| c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c);
    let reserved = ["", ".", "..", "control"].contains(&name);
    ensure!(
        !reserved && name.len() <= MAX_NAME && name.chars().all(plain),
        "'{text}' is no name for a device: expected up to {MAX_NAME} letters, digits and #+-.:=@_"
    );
    Ok(name.to_owned())
}

/// The name of a device that may be given by its path.
fn short_name(text: &str) -> &str {
    text.strip_prefix(NODES)
        .and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(text)
}

/// The name of the mapped device with this path or name.
pub(crate) fn name_of(mapper: &dyn Mapper, path: &str) -> Result<String> {
    let entries = mapper.devices().context(ASKING)?;
    let number = fs::metadata(path).ok().map(|metadata| metadata.rdev());
    entries
        .into_iter()
        .find(|entry| {
            let (major, minor) = entry.number;
            match number {
                Some(number) => number == makedev(major.into(), minor.into()),
                None => entry.name == short_name(path),
            }
        })
        .map(|entry| entry.name)
        .with_context(|| format!("the device mapper has no device '{path}'"))
}

/// What a drive is to be like.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The shape of its zones.
    pub geometry: Geometry,
    /// The settings of a new drive; the module's choice where nothing is said.
    pub settings: ForNewDrive,
    /// Its size in bytes; as large as possible without.
    pub bytes: Option<u64>,
    /// Its first sector on the backing device.
    pub start: u64,
}

impl Wish {
    /// The drive on a device of so many sectors.
    ///
    /// # Errors
    ///
    /// If it does not fit, or is to have a part of a zone.
    pub fn fit(&self, device_sectors: u64) -> Result<Size> {
        let room = device_sectors
            .checked_sub(self.start)
            .with_context(|| format!("the device has only {device_sectors} sectors"))?;
        let largest = Size::of(&self.geometry, room)?;
        let Some(bytes) = self.bytes else {
            return Ok(largest);
        };
        let zone = self.geometry.zone_sectors().saturating_mul(SECTOR);
        let zones = bytes / zone;
        if zones == 0 || bytes % zone != 0 {
            let less = Bytes(zones.max(1).saturating_mul(zone));
            let more = Bytes((zones + 1).saturating_mul(zone));
            return Err(usage(format!(
                "--size: {} is not a whole number of zones of {}: try '{less}' or '{more}'",
                Bytes(bytes),
                Bytes(zone)
            )));
        }
        ensure!(
            zones <= largest.zones,
            "{zones} zones do not fit on the device with their metadata: there is room for {} ({})",
            largest.zones,
            Bytes(largest.data_sectors.saturating_mul(SECTOR))
        );
        let layout = Layout::new(&self.geometry, zones).context("the drive is too large")?;
        Ok(Size {
            zones,
            data_sectors: layout.data_sectors(),
            metadata_sectors: layout.metadata_sectors(),
            unused_sectors: room.saturating_sub(layout.total_sectors()),
        })
    }

    /// Its table line, on the device that is called so.
    pub fn line(&self, size: &Size, device: &str) -> Line {
        Line {
            start: 0,
            sectors: size.data_sectors,
            target: TARGET.to_owned(),
            params: size::params(&self.geometry, device, self.start, &self.settings),
        }
    }
}

/// Makes a drive.
///
/// # Errors
///
/// If there is a device of that name, or the kernel refuses.
pub fn create(
    mapper: &dyn Mapper,
    name: &str,
    size: Size,
    line: &Line,
    style: Style,
    out: &mut dyn Write,
) -> Result<()> {
    #[derive(Serialize)]
    struct Created<'a> {
        name: &'a str,
        path: String,
        table: String,
        #[serde(flatten)]
        size: Size,
    }

    let taken = mapper
        .devices()
        .context(ASKING)?
        .iter()
        .any(|it| it.name == name);
    ensure!(
        !taken,
        "there is a device '{name}' already: choose another name"
    );
    if let Err(error) = mapper.create(name, line) {
        let hint = if mapper.has_target(TARGET).unwrap_or(true) {
            "the kernel refuses the drive; its log ('dmesg') says why"
        } else {
            "the kernel has no target 'imrsim': load the module, 'modprobe dm-imrsim'"
        };
        return Err(error).context(hint);
    }
    let path = mapper::node(name).display().to_string();
    if style == Style::Json {
        let table = format!(
            "{} {} {} {}",
            line.start, line.sectors, line.target, line.params
        );
        let created = Created {
            name,
            path,
            table,
            size,
        };
        return report::json(&created, out);
    }
    let sectors = report::sectors(size.data_sectors);
    writeln!(out, "{path}: {} zones, {sectors}", size.zones)?;
    Ok(())
}

/// Removes a drive.
///
/// # Errors
///
/// If there is no such device, it is not a drive of ours, it is in use, or the kernel refuses.
pub fn remove(mapper: &dyn Mapper, name: &str, style: Style, out: &mut dyn Write) -> Result<()> {
    let entries = mapper.devices().context(ASKING)?;
    ensure!(
        entries.iter().any(|entry| entry.name == name),
        "there is no device '{name}'; 'imrsim_util list' lists the drives there are"
    );
    let lines = mapper.lines(name, Kind::Table).context(ASKING)?;
    ensure!(
        lines.iter().any(|line| line.target == TARGET),
        "'{name}' is not an IMRSim device; 'imrsim_util list' lists the drives there are"
    );
    mapper.remove(name).with_context(|| {
        format!("'{name}' cannot be removed: it may be mounted or in use by a program")
    })?;
    report::done(&format!("{name} is removed"), style, out)
}

const ASKING: &str = "the device mapper does not answer";

/// A drive in the list. What its status does not tell is [`None`].
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Drive {
    name: String,
    path: String,
    device: String,
    state: Option<String>,
    sectors: u64,
    zones: Option<u64>,
    phases: Option<u64>,
    mapped_blocks: Option<u64>,
    total_blocks: Option<u64>,
    backing: Option<String>,
    start: Option<u64>,
}

impl Drive {
    fn new(entry: &Entry, table: &Line, status: &str) -> Self {
        let (major, minor) = entry.number;
        let words: Vec<&str> = status.split_whitespace().collect();
        let blocks = words.get(1).and_then(|word| word.split_once('/'));
        let pair = |key: &str| {
            let mut pairs = words.iter().filter_map(|word| word.split_once('='));
            let (_, value) = pairs.find(|(name, _)| *name == key)?;
            value.parse().ok()
        };
        let mut params = table.params.split_whitespace();
        Self {
            name: entry.name.clone(),
            path: mapper::node(&entry.name).display().to_string(),
            device: format!("{major}:{minor}"),
            state: words.first().map(|&word| word.to_owned()),
            sectors: table.sectors,
            zones: pair("zones"),
            phases: pair("phases"),
            mapped_blocks: blocks.and_then(|(mapped, _)| mapped.parse().ok()),
            total_blocks: blocks.and_then(|(_, total)| total.parse().ok()),
            backing: params.next().map(device_path),
            start: params.next().and_then(|start| start.parse().ok()),
        }
    }

    fn row(&self) -> Vec<String> {
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |it| it.to_string());
        let share = match (self.mapped_blocks, self.total_blocks) {
            (Some(mapped), Some(total)) => percent(mapped, total),
            _ => "-".to_owned(),
        };
        // A cell is one word, so that columns can be told apart.
        let word = |text: String| text.replace(' ', "");
        vec![
            self.name.clone(),
            self.state.clone().unwrap_or("-".to_owned()),
            word(Bytes(self.sectors.saturating_mul(SECTOR)).to_string()),
            number(self.zones),
            number(self.phases),
            number(self.mapped_blocks),
            word(share),
            self.backing.clone().unwrap_or("-".to_owned()),
            number(self.start),
        ]
    }
}

/// The path of a device of which a table tells the number, or that number.
fn device_path(number: &str) -> String {
    let link = fs::read_link(Path::new("/sys/dev/block").join(number)).ok();
    link.as_deref()
        .and_then(Path::file_name)
        // A '/' in a device's name is a '!' there.
        .map(|name| format!("/dev/{}", name.to_string_lossy().replace('!', "/")))
        .unwrap_or(number.to_owned())
}

/// Lists the drives there are.
///
/// # Errors
///
/// If the kernel refuses or `out` cannot be written.
pub fn list(mapper: &dyn Mapper, style: Style, out: &mut dyn Write) -> Result<()> {
    let mut drives = Vec::new();
    for entry in mapper.devices().context(ASKING)? {
        let lines = |kind| match mapper.lines(&entry.name, kind) {
            // Removed since.
            Err(error) if error.raw_os_error() == Some(ENXIO) => Ok(Vec::new()),
            lines => lines.context(ASKING),
        };
        let table = lines(Kind::Table)?;
        let Some(table) = table.iter().find(|line| line.target == TARGET) else {
            continue;
        };
        let status = lines(Kind::Status)?;
        let status = status.first().map_or("", |line| &line.params);
        drives.push(Drive::new(&entry, table, status));
    }
    drives.sort_by(|a, b| a.name.cmp(&b.name));
    if style == Style::Json {
        return report::json(&serde_json::json!({ "drives": drives }), out);
    }
    let header = [
        "name", "state", "size", "zones", "phases", "mapped", "share", "device", "start",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(drives.iter().map(Drive::row));
    report::named_table(&rows, out)
}

const ENXIO: i32 = 6;

/// What it means that the device mapper cannot be opened.
pub fn explain(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "drives are made, changed, listed and removed by root only: try it with sudo"
        }
        io::ErrorKind::NotFound => "this kernel has no device mapper: 'modprobe dm-mod' loads it",
        _ => "the device mapper cannot be used",
    }
}
