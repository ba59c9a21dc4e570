// SPDX-License-Identifier: GPL-2.0-only

//! Results of simulations as text, CSV and JSON.

use std::io::Write;

use anyhow::{Context, Result};
use imrsim_core::{uapi::ALL_ZONES, Geometry, Strategy};
use serde::{Serialize, Serializer};

use super::{spread::quotient, Combination, Matrix, Range, Spread, Summary};
use crate::{
    drive::Drive,
    number::{Bytes, SECTOR},
    prefill::{Prefill, Share},
    report::{self, traffic, Counters, Statistics, Style},
    trace::convert::Fit,
};

/// What was made of a drive.
#[derive(Debug)]
pub(crate) struct Run {
    total: Counters,
    spread: Spread,
    /// The zones that something was asked of, if wanted.
    zones: Option<Vec<Counters>>,
}

impl Run {
    /// The results of a drive, zone by zone too if `per_zone`.
    pub(crate) fn of(drive: &Drive, per_zone: bool) -> Result<Self> {
        let counters = |zone| {
            let counters = drive.statistics(zone).map(Counters);
            counters.context("the drive has no such zone")
        };
        let touched = || drive.touched_zones().map(|(zone, _)| counters(zone));
        Ok(Self {
            total: counters(ALL_ZONES)?,
            spread: Spread::of(drive),
            zones: per_zone.then(|| touched().collect()).transpose()?,
        })
    }
}

/// A trace and what it did to its drives, in the order of the matrix' combinations.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) name: String,
    pub(crate) summary: Summary,
    pub(crate) runs: Vec<Run>,
}

/// Every run with what it is of.
fn each<'a>(
    matrix: &Matrix,
    traces: &'a [Trace],
) -> impl Iterator<Item = (&'a str, Combination, &'a Run)> {
    let combinations = matrix.combinations();
    traces.iter().flat_map(move |trace| {
        let runs = combinations.clone().into_iter().zip(&trace.runs);
        runs.map(|(combination, run)| (trace.name.as_str(), combination, run))
    })
}

fn capacity(matrix: &Matrix) -> u64 {
    matrix.zones * matrix.geometry.zone_sectors() * SECTOR
}

/// Shows results for people: those of one run in full, if there are these, or a line for each.
pub(crate) fn text(
    matrix: &Matrix,
    traces: &[Trace],
    in_full: Option<&Statistics>,
    out: &mut dyn Write,
) -> Result<()> {
    for trace in traces {
        let name = match traces.len() {
            1 => String::new(),
            _ => format!("{}: ", trace.name),
        };
        writeln!(out, "trace    {name}{}", trace.summary)?;
    }
    writeln!(
        out,
        "drive    {} zones of {} ({}), geometry {}",
        matrix.zones,
        Bytes(matrix.geometry.zone_sectors() * SECTOR),
        Bytes(capacity(matrix)),
        report::geometry_name(&matrix.geometry)
    )?;
    write!(out, "prefill  {}", matrix.prefill)?;
    if let [usage] = matrix.usages.as_slice() {
        write!(out, ", usage {usage}")?;
    }
    if matches!(matrix.prefill, Prefill::Random { .. }) {
        write!(out, ", seed {}", matrix.seed)?;
    }
    writeln!(out)?;
    writeln!(out)?;
    if let Some(statistics) = in_full {
        return report::statistics(statistics, Style::Text, out);
    }
    let mut totals = vec![head(&[
        "read", "written", "first", "update", "rmw_1", "rmw_2", "extra", "waf",
    ])];
    let mut spreads = vec![head(&[
        "touched",
        "written",
        "extra_min",
        "extra_med",
        "extra_p95",
        "extra_max",
        "waf_min",
        "waf_med",
        "waf_p95",
        "waf_max",
        "top_10%",
    ])];
    for (trace, Combination { usage, strategy }, run) in each(matrix, traces) {
        let names = [trace.to_owned(), cell(usage), strategy.to_string()];
        let stats = run.total.stats();
        let [read, written, first, update, _, extra, waf] = traffic(&stats);
        let [one, two] =
            [stats.rmw_one_neighbour, stats.rmw_two_neighbours].map(|it| it.to_string());
        let cells = [read, written, first, update, one, two, extra, waf];
        totals.push([&names[..], &cells].concat());
        spreads.push([&names[..], &spread_cells(&run.spread)].concat());
    }
    report::named_table(&totals, out)?;
    writeln!(out)?;
    report::named_table(&spreads, out)
}

fn head(columns: &[&str]) -> Vec<String> {
    let names = ["trace", "usage", "strategy"].iter().chain(columns);
    names.map(|&name| name.to_owned()).collect()
}

fn spread_cells(spread: &Spread) -> Vec<String> {
    let mut cells = vec![
        spread.zones_touched.to_string(),
        spread.zones_written.to_string(),
    ];
    cells.extend(ranks(spread.extra_write_blocks).map(cell));
    cells.extend(ranks(spread.write_amplification).map(cell));
    let share = quotient(spread.busiest_tenth);
    cells.push(cell(share.map(|it| format!("{:.1}%", it * 100.0))));
    cells
}

/// The values of a range in ascending order.
fn ranks<T>(range: Option<Range<T>>) -> [Option<T>; 4] {
    match range {
        Some(it) => [it.min, it.median, it.p95, it.max].map(Some),
        None => [None, None, None, None],
    }
}

/// As in all tables; nothing is a dash.
fn cell<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |it| it.to_string())
}

/// Writes a line for each run, or for each zone of each run.
pub(crate) fn csv(
    matrix: &Matrix,
    traces: &[Trace],
    per_zone: bool,
    out: &mut dyn Write,
) -> Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for (number_of_run, (trace, Combination { usage, strategy }, run)) in
        each(matrix, traces).enumerate()
    {
        let row = |counters: &Counters, rest: Vec<(String, String)>| {
            let usage = number(usage.map(Share::ratio));
            let mut row = vec![
                ("trace".to_owned(), trace.to_owned()),
                ("usage_ratio".to_owned(), usage),
                ("phases".to_owned(), strategy.number().to_string()),
            ];
            row.extend(counter_cells(counters));
            row.extend(rest);
            row
        };
        let zones = run.zones.as_ref().filter(|_| per_zone);
        let rows = match zones {
            Some(zones) => zones.iter().map(|it| row(it, Vec::new())).collect(),
            None => vec![row(&run.total, spread_columns(&run.spread))],
        };
        if number_of_run == 0 {
            // There are names even if there is no zone.
            let mut any = Counters(run.total.0);
            any.0.zone = 0;
            let names = match zones {
                Some(_) => row(&any, Vec::new()),
                None => rows[0].clone(),
            };
            writer.write_record(names.iter().map(|(name, _)| name))?;
        }
        for row in &rows {
            writer.write_record(row.iter().map(|(_, cell)| cell))?;
        }
    }
    writer.flush()?;
    Ok(())
}

/// The counters with the names that they have in JSON.
fn counter_cells(counters: &Counters) -> Vec<(String, String)> {
    let it = &counters.0;
    let mut cells = Vec::new();
    if it.zone != ALL_ZONES {
        cells.push(("zone".to_owned(), it.zone.to_string()));
    }
    for (name, value) in [
        ("capacity_blocks", it.capacity_blocks),
        ("mapped_blocks", it.mapped_blocks),
        ("used_top_blocks", it.used_top_blocks),
    ]
    .into_iter()
    .chain(counters.indicators().map(|(name, _, value)| (name, value)))
    {
        cells.push((name.to_owned(), value.to_string()));
    }
    let stats = counters.stats();
    let waf = quotient(stats.write_amplification());
    cells.push(("write_amplification".to_owned(), number(waf)));
    cells
}

/// Empty if there is none.
fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |it| it.to_string())
}

fn spread_columns(spread: &Spread) -> Vec<(String, String)> {
    let mut cells = vec![
        ("zones_touched".to_owned(), spread.zones_touched.to_string()),
        ("zones_written".to_owned(), spread.zones_written.to_string()),
    ];
    let extra = ranks(spread.extra_write_blocks).map(|it| it.map(|blocks| blocks.to_string()));
    let factors =
        ranks(spread.write_amplification).map(|it| it.map(|waf| number(quotient((waf.0, waf.1)))));
    for (name, values) in [
        ("extra_write_blocks", extra),
        ("write_amplification", factors),
    ] {
        for (rank, value) in ["min", "median", "p95", "max"].into_iter().zip(values) {
            cells.push((format!("{name}_{rank}"), value.unwrap_or_default()));
        }
    }
    let share = quotient(spread.busiest_tenth);
    cells.push(("busiest_tenth_ratio".to_owned(), number(share)));
    cells
}

#[derive(Serialize)]
struct MatrixJson<'a> {
    geometry: [u32; 3],
    zones: u64,
    capacity_bytes: u64,
    #[serde(serialize_with = "as_text")]
    prefill: Prefill,
    seed: u64,
    fit: Fit,
    traces: Vec<TraceJson<'a>>,
    runs: Vec<RunJson<'a>>,
}

#[derive(Serialize)]
struct TraceJson<'a> {
    trace: &'a str,
    #[serde(flatten)]
    summary: Summary,
}

#[derive(Serialize)]
struct RunJson<'a> {
    trace: &'a str,
    usage_ratio: Option<f64>,
    strategy: String,
    phases: u32,
    total: &'a Counters,
    spread: &'a Spread,
    #[serde(skip_serializing_if = "Option::is_none")]
    zones: &'a Option<Vec<Counters>>,
}

fn as_text<S: Serializer>(value: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

/// Writes results as one object.
pub(crate) fn json(matrix: &Matrix, traces: &[Trace], out: &mut dyn Write) -> Result<()> {
    let geometry: &Geometry = &matrix.geometry;
    let runs = each(matrix, traces).map(|(trace, combination, run)| RunJson {
        trace,
        usage_ratio: combination.usage.map(Share::ratio),
        strategy: combination.strategy.to_string(),
        phases: combination.strategy.number(),
        total: &run.total,
        spread: &run.spread,
        zones: &run.zones,
    });
    let summaries = traces.iter().map(|trace| TraceJson {
        trace: &trace.name,
        summary: trace.summary,
    });
    report::json(
        &MatrixJson {
            geometry: [
                geometry.top_blocks(),
                geometry.bottom_blocks(),
                geometry.groups(),
            ],
            zones: matrix.zones,
            capacity_bytes: capacity(matrix),
            prefill: matrix.prefill,
            seed: matrix.seed,
            fit: matrix.fit,
            traces: summaries.collect(),
            runs: runs.collect(),
        },
        out,
    )
}
