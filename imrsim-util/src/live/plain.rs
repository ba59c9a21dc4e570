// SPDX-License-Identifier: GPL-2.0-only

//! One look at a drive, as text for people and as JSON for programs.

use std::io::Write;

use anyhow::Result;
use imrsim_core::{
    uapi::{Config, ZoneEntry, ALL_ZONES, FILTER_ALL, MAX_REPORT},
    Condition,
};
use serde::Serialize;

use super::{
    model::Model,
    tracks::{Pair, Track},
    Options,
};
use crate::{
    device::{Device, Transport},
    number::{percent, Bytes, SECTOR},
    report::{self, allocation_name, Counters, Style},
    zones::{self, Filter, Range, Zone},
};

/// Zones in a line of the map, as many as one request reports.
const LINE: usize = MAX_REPORT;

#[derive(Serialize)]
struct Look {
    device: String,
    allocation: String,
    phases: u32,
    capacity_bytes: u64,
    total: Counters,
    zones: Vec<Zone>,
    opened: Opened,
}

#[derive(Serialize)]
struct Opened {
    zone: u64,
    condition: String,
    phase: u32,
    mapped_blocks: u32,
    capacity_blocks: u32,
    statistics: Counters,
    tracks: Vec<Group>,
}

#[derive(Serialize)]
struct Group {
    group: usize,
    top_blocks: u32,
    top_used_blocks: u32,
    bottom_blocks: u32,
    bottom_used_blocks: u32,
}

impl Group {
    fn new((group, pair): (usize, &Pair)) -> Self {
        Self {
            group,
            top_blocks: pair.top.blocks,
            top_used_blocks: pair.top.used,
            bottom_blocks: pair.bottom.blocks,
            bottom_used_blocks: pair.bottom.used,
        }
    }
}

/// Prints one look.
///
/// # Errors
///
/// If there is no such zone, it is no IMRSim drive, it refuses, or `out` cannot be written.
pub fn print<T: Transport>(
    device: &mut Device<T>,
    options: &Options,
    style: Style,
    out: &mut dyn Write,
) -> Result<()> {
    let model = Model::new(device, options)?;
    match style {
        Style::Text => text(device, &model, out),
        Style::Json => report::json(&look(device, &model)?, out),
    }
}

fn look<T: Transport>(device: &mut Device<T>, model: &Model) -> Result<Look> {
    let config = model.config();
    let answer = &model.opened().answer;
    Ok(Look {
        device: model.name().to_owned(),
        allocation: allocation_name(config.phases),
        phases: config.phases,
        capacity_bytes: config.data_sectors.saturating_mul(SECTOR),
        total: Counters(device.statistics(ALL_ZONES)?),
        zones: zones::collect(device, config, Filter::All, Range::First(None))?,
        opened: Opened {
            zone: answer.zone,
            condition: condition(answer.condition),
            phase: answer.phase,
            mapped_blocks: answer.mapped_blocks,
            capacity_blocks: answer.zone_blocks,
            statistics: Counters(device.statistics(answer.zone)?),
            tracks: (0..).zip(&model.opened().pairs).map(Group::new).collect(),
        },
    })
}

fn condition(number: u32) -> String {
    // A newer module may know more of them.
    Condition::from_number(number).map_or(format!("number {number}"), |it| it.name().to_owned())
}

fn text<T: Transport>(device: &mut Device<T>, model: &Model, out: &mut dyn Write) -> Result<()> {
    let config = model.config();
    let total = model.counters().total();
    let mapped = |mapped, all| format!("{mapped} of {all} blocks ({})", percent(mapped, all));
    report::pairs(
        &[
            ("drive", model.name().to_owned()),
            (
                "size",
                format!(
                    "{} in {} zones",
                    Bytes(config.data_sectors.saturating_mul(SECTOR)),
                    config.zones
                ),
            ),
            ("allocation", allocation_name(config.phases)),
            ("mapped", mapped(config.mapped_blocks, config.total_blocks)),
            ("blocks read", total.host_read_blocks.to_string()),
            (
                "blocks written",
                format!(
                    "{}, {} of them for the first time",
                    total.host_write_blocks, total.first_write_blocks
                ),
            ),
            (
                "rewrites",
                format!(
                    "{} of one neighbour, {} of two",
                    total.rmw_one_neighbour, total.rmw_two_neighbours
                ),
            ),
            ("extra writes", total.extra_write_blocks.to_string()),
            ("write amplification", total.waf().to_string()),
        ],
        out,
    )?;

    writeln!(
        out,
        "\nzones: . empty, 0 to 9 tenths mapped, F full, r read-only, x offline; * lines as above"
    )?;
    map(device, config, out)?;

    let answer = &model.opened().answer;
    let opened = model.opened();
    writeln!(out)?;
    report::pairs(
        &[
            ("zone", answer.zone.to_string()),
            ("condition", condition(answer.condition)),
            (
                "phase reached",
                format!("{} of {}", answer.phase, answer.phases),
            ),
            (
                "mapped",
                mapped(answer.mapped_blocks.into(), answer.zone_blocks.into()),
            ),
            ("write amplification", answer.stats().waf().to_string()),
        ],
        out,
    )?;
    writeln!(out)?;
    let header = ["group", "top", "of", "share", "bottom", "of", "share"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (group, pair) in opened.pairs.iter().enumerate() {
        let mut row = vec![group.to_string()];
        row.extend(cells(&pair.top));
        row.extend(cells(&pair.bottom));
        rows.push(row);
    }
    report::table(&rows, out)
}

fn cells(track: &Track) -> [String; 3] {
    [
        track.used.to_string(),
        track.blocks.to_string(),
        // One word, so that columns can be told apart.
        percent(track.used.into(), track.blocks.into()).replace(' ', ""),
    ]
}

/// Draws all zones, without lines that repeat.
fn map<T: Transport>(device: &mut Device<T>, config: &Config, out: &mut dyn Write) -> Result<()> {
    let width = config.zones.saturating_sub(1).to_string().len();
    let (mut next, mut before, mut repeats) = (0, String::new(), false);
    while next < config.zones {
        // CAST: 64.
        let report = device.report_zones(next, LINE as u32, FILTER_ALL)?;
        let entries = (0..LINE).map_while(|index| report.get(index));
        let line: String = entries
            .map(|entry| symbol(&entry, report.zone_blocks))
            .collect();
        if line != before {
            writeln!(out, "{next:>width$}  {line}")?;
        } else if !repeats {
            writeln!(out, "{:>width$}", "*")?;
        }
        repeats = line == before;
        before = line;
        if report.next <= next {
            break;
        }
        next = report.next;
    }
    Ok(())
}

fn symbol(entry: &ZoneEntry, zone_blocks: u32) -> char {
    let (mapped, all) = (u64::from(entry.mapped_blocks), u64::from(zone_blocks));
    match Condition::from_number(entry.condition) {
        Some(Condition::ReadOnly) => 'r',
        Some(Condition::Offline) => 'x',
        None => '?',
        Some(Condition::Normal) if mapped == 0 => '.',
        Some(Condition::Normal) if mapped >= all => 'F',
        // CAST: below 10, because it is not full.
        Some(Condition::Normal) => char::from(b'0' + (mapped * 10 / all) as u8),
    }
}
