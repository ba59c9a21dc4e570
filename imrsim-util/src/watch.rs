// SPDX-License-Identifier: GPL-2.0-only

//! Counters again and again: what a drive does from moment to moment.

use std::{
    io::{self, Write},
    time::Duration,
};

use anyhow::Result;
use imrsim_core::Stats;

use crate::{
    control::Scope,
    device::{Device, Transport},
    report::{counters, traffic, Style},
};

/// How to watch.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The time between two lines.
    pub interval: Duration,
    /// How many lines; [`None`]: until somebody ends the program.
    pub count: Option<u64>,
    /// What a line is: a row of a table, or a JSON object.
    pub style: Style,
}

/// The columns, each with the least width of its numbers.
const COLUMNS: [(&str, usize); 8] = [
    ("mapped", 10),
    ("read", 10),
    ("written", 10),
    ("first", 10),
    ("update", 10),
    ("rmw", 10),
    ("extra", 10),
    ("waf", 8),
];

/// Writes a line for each interval: as text, what was counted in it; as JSON, the counters at its
/// end. `sleep` waits for so long.
///
/// # Errors
///
/// If there is no such zone, the drive refuses, or `out` cannot be written.
pub fn watch<T: Transport>(
    device: &mut Device<T>,
    scope: Scope,
    options: &Options,
    sleep: &mut dyn FnMut(Duration),
    out: &mut dyn Write,
) -> Result<()> {
    let mut before = counters(device, scope)?.stats();
    if options.style == Style::Text {
        let names = COLUMNS.map(|(name, width)| format!("{name:>width$}"));
        writeln!(out, "{}", names.join("  "))?;
        out.flush()?;
    }
    let mut lines = 0;
    while options.count.is_none_or(|count| lines < count) {
        sleep(options.interval);
        let counters = counters(device, scope)?;
        match options.style {
            Style::Text => {
                let since = since(&before, &counters.stats());
                writeln!(out, "{}", row(counters.0.mapped_blocks, &since))?;
            }
            Style::Json => {
                serde_json::to_writer(&mut *out, &counters).map_err(io::Error::from)?;
                writeln!(out)?;
            }
        }
        out.flush()?;
        before = counters.stats();
        lines += 1;
    }
    Ok(())
}

/// What was counted between two moments; all of it if the counters were set to zero in between.
pub(crate) fn since(before: &Stats, now: &Stats) -> Stats {
    let mut values = now.values();
    for (value, before) in values.iter_mut().zip(before.values()) {
        *value = value.checked_sub(before).unwrap_or(*value);
    }
    Stats::from_values(values)
}

fn row(mapped: u64, stats: &Stats) -> String {
    let cells = [mapped.to_string()].into_iter().chain(traffic(stats));
    let cells: Vec<String> = cells
        .zip(COLUMNS)
        .map(|(cell, (_, width))| format!("{cell:>width$}"))
        .collect();
    cells.join("  ")
}
