// SPDX-License-Identifier: GPL-2.0-only

//! The zones of a drive: where they lie and how full they are.

use std::io::Write;

use anyhow::Result;
use imrsim_core::{
    uapi::{
        Config, ZoneEntry, FILTER_ALL, FILTER_FREE, FILTER_FULL, FILTER_NOT_FULL, FILTER_OFFLINE,
        FILTER_READ_ONLY, MAX_REPORT,
    },
    Condition,
};
use serde::Serialize;

use crate::{
    device::{Device, Transport},
    number::percent,
    report::{self, Counters, Style},
};

/// Which zones to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Filter {
    /// Every zone
    All,
    /// Zones of which every block is mapped
    Full,
    /// Zones with blocks that are not mapped, free ones included
    NotFull,
    /// Zones of which no block is mapped
    Free,
    /// Zones that can only be read
    ReadOnly,
    /// Zones that can be neither read nor written
    Offline,
}

impl Filter {
    /// Its number in the request.
    pub const fn number(self) -> u32 {
        match self {
            Self::All => FILTER_ALL,
            Self::Full => FILTER_FULL,
            Self::NotFull => FILTER_NOT_FULL,
            Self::Free => FILTER_FREE,
            Self::ReadOnly => FILTER_READ_ONLY,
            Self::Offline => FILTER_OFFLINE,
        }
    }

    /// Its name for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Full => "full",
            Self::NotFull => "not-full",
            Self::Free => "free",
            Self::ReadOnly => "read-only",
            Self::Offline => "offline",
        }
    }
}

/// How full a zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No block is mapped.
    Free,
    /// Some blocks are mapped.
    Partial,
    /// Every block is mapped.
    Full,
}

impl State {
    /// The state of a zone with so many of its blocks mapped.
    pub fn new(mapped: u32, capacity: u32) -> Self {
        match mapped {
            0 => Self::Free,
            _ if mapped < capacity => Self::Partial,
            _ => Self::Full,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Partial => "partial",
            Self::Full => "full",
        }
    }
}

/// Where a zone lies and how full it is.
#[derive(Serialize)]
pub(crate) struct Zone {
    zone: u64,
    first_sector: u64,
    sectors: u64,
    state: State,
    condition: String,
    capacity_blocks: u32,
    mapped_blocks: u32,
    /// Not known of a zone that was not touched since the drive was resumed.
    used_top_blocks: Option<u32>,
    /// The phase that the allocation has reached, unless that is not known.
    phase: Option<u32>,
}

impl Zone {
    fn new(config: &Config, zone_blocks: u32, entry: &ZoneEntry) -> Self {
        let known = entry.phase != 0;
        let condition = Condition::from_number(entry.condition);
        Self {
            zone: entry.zone,
            first_sector: entry.zone.saturating_mul(config.zone_sectors),
            sectors: config.zone_sectors,
            state: State::new(entry.mapped_blocks, zone_blocks),
            // A newer module may know more of them.
            condition: condition.map_or(format!("number {}", entry.condition), |it| {
                it.name().to_owned()
            }),
            capacity_blocks: zone_blocks,
            mapped_blocks: entry.mapped_blocks,
            used_top_blocks: known.then_some(entry.used_top_blocks),
            phase: known.then_some(entry.phase),
        }
    }

    fn share(&self) -> String {
        percent(self.mapped_blocks.into(), self.capacity_blocks.into())
    }
}

/// A number that may not be known.
fn number(number: Option<u32>) -> String {
    number.map_or("-".to_owned(), |it| it.to_string())
}

/// Which zones to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// The first that are listed, as many as these, or all.
    First(Option<u64>),
    /// This one.
    One(u64),
}

/// Asks for zones, as many at a time as one request has room for.
pub(crate) fn collect<T: Transport>(
    device: &mut Device<T>,
    config: &Config,
    filter: Filter,
    range: Range,
) -> Result<Vec<Zone>> {
    let (mut next, end, most) = match range {
        Range::First(most) => (0, config.zones, most.unwrap_or(u64::MAX)),
        Range::One(zone) => (zone, zone + 1, 1),
    };
    let mut zones = Vec::new();
    while next < end && (zones.len() as u64) < most {
        let left = (most - zones.len() as u64)
            .min(end - next)
            .min(MAX_REPORT as u64);
        // CAST: at most `MAX_REPORT`.
        let report = device.report_zones(next, left as u32, filter.number())?;
        let entries = (0..MAX_REPORT).map_while(|index| report.get(index));
        let entries = entries.filter(|entry| entry.zone < end);
        zones.extend(entries.map(|entry| Zone::new(config, report.zone_blocks, &entry)));
        if report.next <= next {
            break;
        }
        next = report.next;
    }
    Ok(zones)
}

/// Lists zones.
pub(crate) fn list<T: Transport>(
    device: &mut Device<T>,
    filter: Filter,
    range: Range,
    style: Style,
    out: &mut dyn Write,
) -> Result<()> {
    #[derive(Serialize)]
    struct List {
        zones: u64,
        zone_sectors: u64,
        listed: Vec<Zone>,
    }

    let config = device.config()?;
    let listed = collect(device, &config, filter, range)?;
    if style == Style::Json {
        let list = List {
            zones: config.zones,
            zone_sectors: config.zone_sectors,
            listed,
        };
        return report::json(&list, out);
    }
    let header = [
        "zone",
        "sector",
        "sectors",
        "state",
        "blocks",
        "mapped",
        "share",
        "used_top",
        "phase",
        "condition",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for zone in &listed {
        rows.push(vec![
            zone.zone.to_string(),
            zone.first_sector.to_string(),
            zone.sectors.to_string(),
            zone.state.name().to_owned(),
            zone.capacity_blocks.to_string(),
            zone.mapped_blocks.to_string(),
            // One word, so that columns can be told apart.
            zone.share().replace(' ', ""),
            number(zone.used_top_blocks),
            number(zone.phase),
            zone.condition.clone(),
        ]);
    }
    report::table(&rows, out)
}

/// Shows a zone and its counters.
pub(crate) fn show<T: Transport>(
    device: &mut Device<T>,
    zone: u64,
    style: Style,
    out: &mut dyn Write,
) -> Result<()> {
    #[derive(Serialize)]
    struct Details {
        #[serde(flatten)]
        zone: Zone,
        statistics: Counters,
    }

    let config = device.config()?;
    let statistics = Counters(device.statistics(zone)?);
    let zones = collect(device, &config, Filter::All, Range::One(zone))?;
    let Some(zone) = zones.into_iter().next() else {
        anyhow::bail!("{} does not report zone {zone}", device.name());
    };
    if style == Style::Json {
        return report::json(&Details { zone, statistics }, out);
    }
    report::pairs(
        &[
            (
                "zone",
                format!("{} of 0 to {}", zone.zone, config.zones.saturating_sub(1)),
            ),
            ("first sector", zone.first_sector.to_string()),
            ("size", report::sectors(zone.sectors)),
            ("state", zone.state.name().to_owned()),
            ("condition", zone.condition.clone()),
            (
                "mapped",
                format!(
                    "{} of {} blocks ({})",
                    zone.mapped_blocks,
                    zone.capacity_blocks,
                    zone.share()
                ),
            ),
            ("used top blocks", number(zone.used_top_blocks)),
            ("phase reached", number(zone.phase)),
            ("write amplification", statistics.stats().waf().to_string()),
        ],
        out,
    )?;
    writeln!(out)?;
    report::counter_table(&statistics, out)
}
