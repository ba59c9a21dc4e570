// SPDX-License-Identifier: GPL-2.0-only

//! Answers of a drive, as text for people and as JSON for programs.
//!
//! Text is plain: no colours, columns separated by blanks, numbers without separators, so that it
//! survives a pipe into awk. JSON is one object on lines of its own.

use std::io::{self, Write};

use anyhow::Result;
use imrsim_core::{
    uapi::{self, ALL_ZONES, FLAG_VOLATILE},
    Allocation, Geometry, Stats,
};
use serde::{
    ser::{SerializeMap, Serializer},
    Serialize,
};

use crate::{
    control::Scope,
    device::{Device, Transport},
    number::{percent, Bytes, Nanos, SECTOR},
    settings::{self, Values},
};

/// How to show an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Style {
    /// JSON if asked for.
    pub const fn new(json: bool) -> Self {
        if json {
            Self::Json
        } else {
            Self::Text
        }
    }
}

/// Writes a value as JSON.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn json(value: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    // As the error of `out` that it is, to be told apart from others.
    serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Says that something was done.
pub(crate) fn done(text: &str, style: Style, out: &mut dyn Write) -> Result<()> {
    match style {
        Style::Text => writeln!(out, "{text}")?,
        Style::Json => json(&serde_json::json!({ "done": text }), out)?,
    }
    Ok(())
}

/// Shows one number.
pub(crate) fn quantity(
    name: &str,
    value: u64,
    text: &str,
    style: Style,
    out: &mut dyn Write,
) -> Result<()> {
    match style {
        Style::Text => writeln!(out, "{text}")?,
        Style::Json => json(&serde_json::json!({ name: value }), out)?,
    }
    Ok(())
}

/// The name of the allocation with so many phases.
pub fn allocation_name(phases: u32) -> String {
    match Allocation::from_phases(phases) {
        Ok(allocation) => allocation.to_string(),
        // A newer module may know more of them.
        Err(_) => format!("number {phases}"),
    }
}

/// Writes lines of a name and a text, the texts below each other.
pub(crate) fn pairs(rows: &[(&str, String)], out: &mut dyn Write) -> Result<()> {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, text) in rows {
        writeln!(out, "{name:width$}  {text}")?;
    }
    Ok(())
}

/// Sectors with their size in bytes.
pub(crate) fn sectors(count: u64) -> String {
    format!("{count} sectors ({})", Bytes(count.saturating_mul(SECTOR)))
}

/// What a drive is, for programs.
#[derive(Serialize)]
struct ConfigJson {
    allocation: String,
    phases: u32,
    block_bytes: u32,
    top_track_blocks: u32,
    bottom_track_blocks: u32,
    zone_groups: u32,
    zone_sectors: u64,
    zones: u64,
    data_sectors: u64,
    metadata_sectors: u64,
    total_blocks: u64,
    mapped_blocks: u64,
    mapping_volatile: bool,
    elapsed_us: u64,
    idle_us: u64,
    settings: Values,
}

/// The settings of a drive that it and this program know.
pub(crate) fn settings<T: Transport>(
    device: &mut Device<T>,
    config: &uapi::Config,
) -> Result<Values> {
    let mut values = Values::default();
    for number in 0..config.settings {
        // CAST: widens.
        if let Some(setting) = settings::by_number(number as usize) {
            values.0.push((setting, device.setting(number)?));
        }
    }
    Ok(values)
}

/// How much of the time since the counters began nothing was to be done.
fn idle(config: &uapi::Config) -> String {
    format!(
        "{} of {} ({})",
        Nanos(config.idle_us.saturating_mul(1000)),
        Nanos(config.elapsed_us.saturating_mul(1000)),
        percent(config.idle_us, config.elapsed_us)
    )
}

/// Shows what a drive is.
pub(crate) fn config<T: Transport>(
    device: &mut Device<T>,
    style: Style,
    out: &mut dyn Write,
) -> Result<()> {
    let config = device.config()?;
    let settings = settings(device, &config)?;
    let volatile = config.flags & FLAG_VOLATILE != 0;
    let allocation = allocation_name(config.phases);
    if style == Style::Json {
        return json(
            &ConfigJson {
                allocation,
                phases: config.phases,
                block_bytes: config.block_size,
                top_track_blocks: config.top_blocks,
                bottom_track_blocks: config.bottom_blocks,
                zone_groups: config.groups,
                zone_sectors: config.zone_sectors,
                zones: config.zones,
                data_sectors: config.data_sectors,
                metadata_sectors: config.metadata_sectors,
                total_blocks: config.total_blocks,
                mapped_blocks: config.mapped_blocks,
                mapping_volatile: volatile,
                elapsed_us: config.elapsed_us,
                idle_us: config.idle_us,
                settings,
            },
            out,
        );
    }
    let mut rows: Vec<_> = settings.rows().collect();
    rows.extend([
        ("zones", config.zones.to_string()),
        ("zone size", sectors(config.zone_sectors)),
        ("capacity", sectors(config.data_sectors)),
        (
            "metadata",
            format!("{} behind it", sectors(config.metadata_sectors)),
        ),
        (
            "mapped",
            format!(
                "{} of {} blocks ({})",
                config.mapped_blocks,
                config.total_blocks,
                percent(config.mapped_blocks, config.total_blocks)
            ),
        ),
        ("block size", format!("{} B", config.block_size)),
        ("top track", format!("{} blocks", config.top_blocks)),
        ("bottom track", format!("{} blocks", config.bottom_blocks)),
        ("track groups", format!("{} in a zone", config.groups)),
        (
            "mapping",
            if volatile {
                "in memory only: lost when the device is removed"
            } else {
                "durable"
            }
            .to_owned(),
        ),
        ("idle", idle(&config)),
    ]);
    pairs(&rows, out)
}

/// The counters of a zone or of the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters(pub(crate) uapi::Statistics);

impl Counters {
    pub(crate) fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// The counters that the module filled in, with names and descriptions.
    pub(crate) fn indicators(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        // CAST: widens.
        Stats::INDICATORS
            .iter()
            .zip(self.0.indicators)
            .take(self.0.indicator_count as usize)
            .map(|(indicator, value)| (indicator.name, indicator.doc, value))
    }

    /// Adds the counters of another zone.
    fn add(&mut self, other: &Self) {
        let Self(it) = self;
        it.indicators = it.stats().plus(&other.stats()).values();
        it.capacity_blocks += other.0.capacity_blocks;
        it.mapped_blocks += other.0.mapped_blocks;
        it.used_top_blocks += other.0.used_top_blocks;
        it.phases = other.0.phases;
        it.indicator_count = other.0.indicator_count;
    }

    fn is_used(&self) -> bool {
        self.0.mapped_blocks != 0 || self.indicators().any(|(_, _, value)| value != 0)
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.0.zone != ALL_ZONES {
            map.serialize_entry("zone", &self.0.zone)?;
        }
        map.serialize_entry("capacity_blocks", &self.0.capacity_blocks)?;
        map.serialize_entry("mapped_blocks", &self.0.mapped_blocks)?;
        map.serialize_entry("used_top_blocks", &self.0.used_top_blocks)?;
        for (name, _, value) in self.indicators() {
            map.serialize_entry(name, &value)?;
        }
        // `null` if nothing was written.
        let waf: Option<f64> = self.stats().waf().to_string().parse().ok();
        map.serialize_entry("write_amplification", &waf)?;
        map.end()
    }
}

/// The counters of a drive, or of one zone of it.
#[derive(Debug, Serialize)]
pub struct Statistics {
    allocation: String,
    phases: u32,
    zones: u64,
    zones_used: Option<u64>,
    total: Counters,
    per_zone: Option<Vec<Counters>>,
    /// Microseconds since the counters began.
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_us: Option<u64>,
    /// Those of them in which nothing was to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_us: Option<u64>,
    #[serde(skip)]
    idle: Option<String>,
}

impl Statistics {
    /// Asks a drive. With [`Scope::Device`], that takes one request for each zone.
    ///
    /// # Errors
    ///
    /// If there is no such zone or the drive refuses.
    pub fn ask<T: Transport>(device: &mut Device<T>, scope: Scope) -> Result<Self> {
        let config = device.config()?;
        let (total, per_zone) = match scope {
            Scope::Zone(zone) => {
                let zone = zone.number(device)?;
                (Counters(device.statistics(zone)?), None)
            }
            Scope::Device | Scope::First(_) => {
                let mut sum = Counters(uapi::Statistics {
                    zone: ALL_ZONES,
                    ..uapi::Statistics::default()
                });
                let mut per_zone = Vec::new();
                for zone in 0..last(scope, &config) {
                    let counters = Counters(device.statistics(zone)?);
                    sum.add(&counters);
                    if counters.is_used() {
                        per_zone.push(counters);
                    }
                }
                let total = match scope {
                    Scope::First(_) => sum,
                    _ => Counters(device.statistics(ALL_ZONES)?),
                };
                (total, Some(per_zone))
            }
        };
        let whole = scope == Scope::Device;
        Ok(Self {
            allocation: allocation_name(config.phases),
            phases: config.phases,
            zones: last(scope, &config),
            zones_used: per_zone.as_ref().map(|zones| zones.len() as u64),
            total,
            per_zone,
            elapsed_us: whole.then_some(config.elapsed_us),
            idle_us: whole.then_some(config.idle_us),
            idle: whole.then(|| idle(&config)),
        })
    }

    /// The counters of all that was asked for.
    pub fn total(&self) -> Stats {
        self.total.stats()
    }
}

/// The zone behind the last that is looked at.
fn last(scope: Scope, config: &uapi::Config) -> u64 {
    match scope {
        Scope::First(zones) => zones.min(config.zones),
        _ => config.zones,
    }
}

/// The counters of all that is asked for, together.
pub(crate) fn counters<T: Transport>(device: &mut Device<T>, scope: Scope) -> Result<Counters> {
    let number = match scope {
        Scope::Device => ALL_ZONES,
        Scope::Zone(zone) => zone.number(device)?,
        Scope::First(_) => return Ok(Statistics::ask(device, scope)?.total),
    };
    Ok(Counters(device.statistics(number)?))
}

/// Shows counters.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn statistics(statistics: &Statistics, style: Style, out: &mut dyn Write) -> Result<()> {
    if style == Style::Json {
        return json(statistics, out);
    }
    let total = &statistics.total;
    let mut rows = vec![("allocation", statistics.allocation.clone())];
    match statistics.zones_used {
        Some(used) => rows.push(("zones", format!("{}, {used} used", statistics.zones))),
        None => rows.push(("zone", total.0.zone.to_string())),
    }
    rows.push((
        "mapped",
        format!(
            "{} of {} blocks ({})",
            total.0.mapped_blocks,
            total.0.capacity_blocks,
            percent(total.0.mapped_blocks, total.0.capacity_blocks)
        ),
    ));
    rows.push(("used top blocks", format!("{}", total.0.used_top_blocks)));
    rows.push(("write amplification", total.stats().waf().to_string()));
    if let Some(idle) = &statistics.idle {
        rows.push(("idle", idle.clone()));
    }
    pairs(&rows, out)?;
    writeln!(out)?;
    counter_table(total, out)?;

    if let Some(per_zone) = &statistics.per_zone {
        if !per_zone.is_empty() {
            writeln!(out)?;
            zone_table(per_zone, total, out)?;
        }
    }
    Ok(())
}

/// Writes every counter with its meaning.
pub(crate) fn counter_table(counters: &Counters, out: &mut dyn Write) -> Result<()> {
    let counters: Vec<_> = counters.indicators().collect();
    let names = counters.iter().map(|(name, ..)| name.len());
    let name_width = names.max().unwrap_or(0).max("counter".len());
    let values = counters.iter().map(|(.., value)| value.to_string().len());
    let value_width = values.max().unwrap_or(0).max("value".len());
    writeln!(
        out,
        "{:name_width$}  {:>value_width$}  meaning",
        "counter", "value"
    )?;
    for (name, doc, value) in counters {
        writeln!(out, "{name:name_width$}  {value:>value_width$}  {doc}")?;
    }
    Ok(())
}

/// The columns of the table of zones that are not in [`Stats`]' own table.
fn zone_row(name: String, counters: &Counters) -> Vec<String> {
    let mut cells = vec![
        name,
        counters.0.mapped_blocks.to_string(),
        counters.0.used_top_blocks.to_string(),
    ];
    cells.extend(traffic(&counters.stats()));
    cells
}

/// What was read and written, in the order of all tables: blocks read, written, written for the first
/// time, updated; read-modify-writes, extra writes, write amplification.
pub(crate) fn traffic(stats: &Stats) -> [String; 7] {
    [
        stats.host_read_blocks.to_string(),
        stats.host_write_blocks.to_string(),
        stats.first_write_blocks.to_string(),
        stats.update_blocks.to_string(),
        stats
            .rmw_one_neighbour
            .saturating_add(stats.rmw_two_neighbours)
            .to_string(),
        stats.extra_write_blocks.to_string(),
        stats.waf().to_string(),
    ]
}

fn zone_table(per_zone: &[Counters], total: &Counters, out: &mut dyn Write) -> Result<()> {
    let header = [
        "zone", "mapped", "used_top", "read", "written", "first", "update", "rmw", "extra", "waf",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for counters in per_zone {
        rows.push(zone_row(counters.0.zone.to_string(), counters));
    }
    rows.push(zone_row("all".to_owned(), total));
    table(&rows, out)
}

/// Writes rows of equally many cells, right-aligned.
pub(crate) fn table(rows: &[Vec<String>], out: &mut dyn Write) -> Result<()> {
    aligned(rows, false, out)
}

/// Writes rows of equally many cells, right-aligned but for the first, which is a name.
pub(crate) fn named_table(rows: &[Vec<String>], out: &mut dyn Write) -> Result<()> {
    aligned(rows, true, out)
}

fn aligned(rows: &[Vec<String>], named: bool, out: &mut dyn Write) -> Result<()> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                if named && column == 0 {
                    format!("{cell:width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        writeln!(out, "{}", cells.join("  "))?;
    }
    Ok(())
}

/// A geometry as it is typed: `456,568,64`.
pub fn geometry_name(geometry: &Geometry) -> String {
    format!(
        "{},{},{}",
        geometry.top_blocks(),
        geometry.bottom_blocks(),
        geometry.groups()
    )
}
