// SPDX-License-Identifier: GPL-2.0-only

//! Another zone size for an empty drive: its table gets another geometry.

use std::io::{self, Write};

use anyhow::{anyhow, bail, ensure, Context, Result};
use imrsim_core::{Geometry, Layout};

use crate::{
    device::{Device, Transport},
    drives::{self, TARGET},
    exit::usage,
    mapper::{Kind, Line, Mapper},
    number::{parse_count, Bytes, SECTOR},
    report::{self, Style},
    size::geometry_words,
};

/// Gives an empty drive zones of `bytes` bytes. If that cannot be done, the drive goes on as it was.
pub(crate) fn set_zone_size<T: Transport>(
    device: &mut Device<T>,
    mapper: &dyn Mapper,
    bytes: u64,
    style: Style,
    out: &mut dyn Write,
) -> Result<()> {
    let config = device.config()?;
    let device_name = device.name().to_owned();
    let old = Geometry::new(config.top_blocks, config.bottom_blocks, config.groups)
        .context("the drive has a geometry that this program does not know")?;
    // Only the groups change, whatever the drive holds: a size that is wrong is told first.
    let name = drives::name_of(mapper, &device_name)?;
    let table = table(mapper, &name)?;
    let room = room(mapper, &table);
    let geometry = fit(&old, config.data_sectors, room, bytes)?;
    ensure!(
        config.mapped_blocks == 0,
        "{device_name} is not empty: {} of its blocks are mapped. The zone size can only be set while \
         the drive is empty: 'imrsim_util zones reset' empties a zone, 'blkdiscard' all of them",
        config.mapped_blocks
    );
    let size = Bytes(bytes);
    if geometry == old {
        return report::done(&format!("zones have {size} already"), style, out);
    }
    let params = with_geometry(&table.params, &geometry)?;
    let new = Line {
        params,
        ..table.clone()
    };
    exchange(mapper, &name, &table, &new)?;
    let zones = config.data_sectors / geometry.zone_sectors();
    report::done(&format!("{zones} zones of {size}"), style, out)
}

/// The drive's line.
fn table(mapper: &dyn Mapper, name: &str) -> Result<Line> {
    let lines = mapper
        .lines(name, Kind::Table)
        .context("the device mapper does not answer")?;
    match <[Line; 1]>::try_from(lines) {
        Ok([line]) if line.target == TARGET => Ok(line),
        _ => bail!("the table of '{name}' is not one line of target '{TARGET}'"),
    }
}

/// Sectors of the device below from the drive's start on; [`None`] if that is not known.
fn room(mapper: &dyn Mapper, table: &Line) -> Option<u64> {
    let mut words = table.params.split_whitespace();
    let (below, start) = (words.next()?, words.next()?);
    let sectors = mapper.sectors_of(below).ok()?;
    sectors.checked_sub(parse_count(start).ok()?)
}

/// The geometry with zones of so many bytes, for a drive of `data_sectors` sectors. Otherwise, which
/// sizes are near.
fn fit(old: &Geometry, data_sectors: u64, room: Option<u64>, bytes: u64) -> Result<Geometry> {
    let size = |geometry: &Geometry| geometry.zone_sectors().saturating_mul(SECTOR);
    let shapes: Vec<Geometry> = (1..)
        .map_while(|groups| Geometry::new(old.top_blocks(), old.bottom_blocks(), groups).ok())
        .collect();
    let possible = shapes.iter().filter(|geometry| {
        let zones = data_sectors / geometry.zone_sectors();
        let whole = data_sectors.is_multiple_of(geometry.zone_sectors());
        let layout = Layout::new(geometry, zones);
        let fits = |layout: Layout| room.is_none_or(|room| layout.total_sectors() <= room);
        zones > 0 && whole && layout.is_some_and(fits)
    });
    let possible: Vec<&Geometry> = possible.collect();
    if let Some(geometry) = possible.iter().find(|it| size(it) == bytes) {
        return Ok(**geometry);
    }
    let below = possible.iter().rfind(|it| size(it) < bytes);
    let above = possible.iter().find(|it| size(it) > bytes);
    let near: Vec<String> = [below, above]
        .into_iter()
        .flatten()
        .map(|it| format!("'{}'", Bytes(size(it))))
        .collect();
    let pair = shapes.first().map_or(0, size);
    let most = shapes.last().map_or(0, size);
    ensure!(
        !near.is_empty(),
        "no other zone size is possible on this drive"
    );
    Err(usage(format!(
        "{} is no zone size for this drive: a zone is a whole number of track pairs of {}, at most {}, \
         the drive's {} a whole number of zones, and there must be room for their metadata; \
         the nearest possible: {}",
        Bytes(bytes),
        Bytes(pair),
        Bytes(most),
        Bytes(data_sectors.saturating_mul(SECTOR)),
        near.join(" and ")
    )))
}

/// The parameters of a table line with another geometry.
fn with_geometry(params: &str, geometry: &Geometry) -> Result<String> {
    let words: Vec<&str> = params.split_whitespace().collect();
    let malformed = || anyhow!("the table line of the drive is not understood: '{params}'");
    let (place, rest) = words.split_at_checked(2).ok_or_else(malformed)?;
    // The number of words, and the words.
    let mut rest = rest.iter().skip(1);
    let mut features: Vec<String> = Vec::new();
    while let Some(key) = rest.next() {
        let values = if *key == "geometry" { 3 } else { 1 };
        let values: Vec<&str> = rest.by_ref().take(values).copied().collect();
        ensure!(!values.is_empty(), malformed());
        if *key != "geometry" {
            features.push((*key).to_owned());
            features.extend(values.into_iter().map(str::to_owned));
        }
    }
    features.extend(geometry_words(geometry));
    Ok(format!(
        "{} {} {}",
        place.join(" "),
        features.len(),
        features.join(" ")
    ))
}

/// Exchanges the table of a device. If the kernel refuses the new one, the device has the old one.
fn exchange(mapper: &dyn Mapper, name: &str, old: &Line, new: &Line) -> Result<()> {
    // Suspended, it is stopped in good order: only then is another geometry taken.
    mapper
        .suspend(name)
        .with_context(|| format!("'{name}' cannot be suspended; nothing was changed"))?;
    let changed = mapper.load(name, new).and_then(|()| mapper.resume(name));
    let Err(refused) = changed else {
        return Ok(());
    };
    let back: io::Result<()> = mapper.load(name, old).and_then(|()| mapper.resume(name));
    match back {
        Ok(()) => Err(refused).context(format!(
            "the kernel refuses zones of this size, its log ('dmesg') says why; '{name}' is as it was"
        )),
        Err(error) => Err(error).context(format!(
            "the kernel refuses zones of this size ({refused}), and '{name}' does not come back: it is \
             suspended; 'dmesg' says why. 'dmsetup reload {name} --table \"{} {} {} {}\"' and \
             'dmsetup resume {name}' try again",
            old.start, old.sectors, old.target, old.params
        )),
    }
}
