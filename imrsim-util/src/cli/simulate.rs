// SPDX-License-Identifier: GPL-2.0-only

//! `simulate`.

use std::{
    io::Write,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    thread,
};

use anyhow::{bail, ensure, Result};
use clap::{ArgGroup, Args};
use imrsim_core::{Allocation, Geometry};
use indicatif::MultiProgress;

use super::{
    output::Output,
    traces::{accept, check_readable_twice, create, no_requests, ReadArgs, FORMATS},
};
use crate::{
    control::Scope,
    device::Device,
    drive::{self, Drive},
    exit::usage,
    number::{parse_count, parse_size},
    prefill::{Prefill, Share},
    report,
    simulate::{self, output, Matrix, MAX_BAD_LINES},
    size,
    trace::{convert::Fit, BadLine, Disks},
};

pub(super) fn after_help() -> String {
    format!(
        "Each trace runs on a drive of its own for every usage and strategy. With one combination in all,\n\
        the counters are shown one by one; with several, a line for each. Prefilling is not counted.\n\
        {FORMATS}\n\n\
        Examples:\n  \
        imrsim_util simulate hm_0.csv --capacity 16GiB --strategy 2,3\n  \
        imrsim_util simulate *.csv.gz --capacity 1TiB --usage 60%,80%,90% --strategy 1,2,3 --csv\n  \
        imrsim_util simulate run.log --zones 4 --prefill sequential --usage 80% --json\n  \
        imrsim_util simulate run.log --zones 1 --record run.imrtrace"
    )
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("size").args(["zones", "capacity"]).required(true))]
pub(super) struct SimulateArgs {
    /// The traces; - for standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Size of a drive in zones
    #[arg(long, value_name = "N", value_parser = parse_count)]
    zones: Option<u64>,
    /// Size of a drive, rounded up to whole zones: 256M, 13.6GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,
    /// Blocks in a top track, in a bottom track, and track groups in a zone
    #[arg(long, value_name = "T,B,G", value_parser = size::parse_geometry)]
    #[arg(default_value = "456,568,64")]
    geometry: Geometry,
    /// Strategies of allocation, by their number of phases: 2,3 or 2-phase,3-phase
    #[arg(long, value_name = "K,...", value_delimiter = ',', default_value = "2")]
    strategy: Vec<Allocation>,
    /// Shares of its blocks that every zone holds before: 60%,80% [default: none]
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',')]
    usage: Vec<Share>,
    /// How zones are filled to that: none, sequential, or random:32k, in extents of that size in
    /// random order [default: random:32k with --usage, else none]
    #[arg(long, value_name = "HOW")]
    prefill: Option<Prefill>,
    /// What the random prefill depends on
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1")]
    seed: u64,
    /// What to do with requests beyond the end of a drive
    #[arg(long, value_name = "HOW", default_value = "reject")]
    fit: Fit,
    /// Threads [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Also write what 'imrsim_util stats DEV --json' has to print after the same requests
    #[arg(long, value_name = "OUT")]
    expect_file: Option<PathBuf>,
    /// Also record what the drive does, block by block, for 'imrsim_util show'
    #[arg(long, value_name = "OUT")]
    record: Option<PathBuf>,
    /// Record only this zone [default: all that are touched]
    #[arg(long, value_name = "N", value_parser = parse_count, requires = "record")]
    record_zone: Option<u64>,
    /// With --json and --csv: every zone that a trace touches
    #[arg(long)]
    per_zone: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV, a line for each combination, or with --per-zone for each of its zones
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    read: ReadArgs,
}

impl SimulateArgs {
    pub(super) fn run(&self, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let matrix = self.matrix()?;
        let one = self.traces.len() * matrix.combinations().len() == 1;
        self.check(one, matrix.zones)?;
        let expected = self.expect_file.as_deref();
        let in_full = one && (expected.is_some() || !self.json && !self.csv);
        let bars = MultiProgress::new();
        let open = |trace: usize| {
            let reader = self.read.open(&self.traces[trace], Disks::First)?;
            if !reader.progress.is_hidden() {
                bars.add(reader.progress.clone());
            }
            Ok(reader)
        };
        let go_on = |trace: usize, bad: &BadLine| {
            if self.read.strict {
                let path = self.traces[trace].display();
                bail!("{path}: {bad} (without --strict, it would be left out)");
            }
            Ok(())
        };
        let input = self.traces.first().map(PathBuf::as_path);
        let create_recording = |path: &PathBuf| Output::create(path, input);
        let recording = self.record.as_ref().map(create_recording).transpose()?;
        let prepare = |drive: &mut Drive| match &recording {
            Some(recording) => drive.record(self.record_zone, recording.writer()?),
            None => Ok(()),
        };
        let finish = |mut drive: Drive| {
            drive.end_recording()?;
            let run = output::Run::of(&drive, self.per_zone)?;
            let mut device = Device::new("the simulated drive", drive);
            let ask = || report::Statistics::ask(&mut device, Scope::Device);
            Ok((run, in_full.then(ask).transpose()?))
        };
        let outcomes = matrix.run_prepared(self.traces.len(), open, go_on, prepare, finish)?;

        let (mut results, mut in_full, mut bad_lines) = (Vec::new(), None, 0);
        let mut empty = 0;
        for (path, outcome) in self.traces.iter().zip(outcomes) {
            bad_lines += outcome.summary.bad_lines;
            report_bad(path, &outcome.bad_lines, outcome.summary.bad_lines, err)?;
            if outcome.summary.is_empty() {
                empty += 1;
                let other_disks = outcome.summary.other_disks;
                writeln!(err, "{}", no_requests(path, &outcome.sources, other_disks))?;
            }
            let mut runs = Vec::new();
            for (run, statistics) in outcome.runs {
                runs.push(run);
                in_full = statistics;
            }
            results.push(output::Trace {
                name: path.display().to_string(),
                summary: outcome.summary,
                runs,
            });
        }
        if let Some(recording) = recording.filter(|_| empty < self.traces.len()) {
            recording.finish()?;
        }
        if let (Some(path), Some(statistics)) = (expected, &in_full) {
            let mut file = create(path, input, out)?;
            report::json(statistics, &mut file)?;
            file.flush()?;
        }
        if self.json {
            output::json(&matrix, &results, out)?;
        } else if self.csv {
            output::csv(&matrix, &results, self.per_zone, out)?;
        } else {
            output::text(&matrix, &results, in_full.as_ref(), out)?;
        }
        out.flush()?;
        accept(bad_lines, &self.read)?;
        ensure!(empty < self.traces.len(), "there is nothing to simulate");
        Ok(())
    }

    fn matrix(&self) -> Result<Matrix> {
        let prefill = match (self.prefill, self.usage.is_empty()) {
            (None, true) => Prefill::None,
            (None, false) => Prefill::Random { extent: 8 },
            (Some(Prefill::None), false) => {
                return Err(usage(
                    "--prefill none leaves zones empty: leave out --usage",
                ));
            }
            (Some(prefill @ (Prefill::Sequential | Prefill::Random { .. })), true) => {
                return Err(usage(format!(
                    "--prefill {prefill} needs to know how full: --usage 80%"
                )));
            }
            (Some(prefill), _) => prefill,
        };
        let zones = match (self.zones, self.capacity) {
            (Some(zones), _) => zones,
            (None, capacity) => simulate::zones_for(&self.geometry, capacity.unwrap_or(0)),
        };
        drive::layout(&self.geometry, zones).map_err(|error| usage(error.to_string()))?;
        let jobs = self.jobs.or_else(|| thread::available_parallelism().ok());
        Ok(Matrix {
            geometry: self.geometry,
            zones,
            strategies: self.strategy.clone(),
            usages: self.usage.clone(),
            prefill,
            seed: self.seed,
            fit: self.fit,
            jobs: jobs.map_or(1, NonZeroUsize::get),
        })
    }

    /// Checks what options and traces have to do with each other.
    fn check(&self, one: bool, zones: u64) -> Result<()> {
        if self.expect_file.is_some() && !one {
            return Err(usage(
                "--expect-file is for one trace, one usage and one strategy",
            ));
        }
        if self.record.is_some() && !one {
            return Err(usage(
                "--record is for one trace, one usage and one strategy",
            ));
        }
        if self.record.as_deref() == Some(Path::new("-")) {
            return Err(usage(
                "--record needs a file: standard output has the results",
            ));
        }
        if let Some(zone) = self.record_zone.filter(|zone| *zone >= zones) {
            return Err(usage(format!(
                "there is no zone {zone}: the drive has {zones}"
            )));
        }
        if self.per_zone && !self.json && !self.csv {
            return Err(usage("--per-zone is for --json and --csv"));
        }
        let stdin = Path::new("-");
        let from_stdin = self.traces.iter().filter(|path| *path == stdin).count();
        if from_stdin > 1 {
            return Err(usage("only one trace can be standard input"));
        }
        if self.fit == Fit::Scale {
            for path in &self.traces {
                check_readable_twice(path)?;
            }
        }
        Ok(())
    }
}

/// Reports the first bad lines of a trace, and how many more there were.
fn report_bad(path: &Path, first: &[BadLine], all: u64, err: &mut dyn Write) -> Result<()> {
    let path = path.display();
    for bad in first {
        writeln!(err, "{path}: {bad}")?;
    }
    let more = all.saturating_sub(MAX_BAD_LINES as u64);
    if more > 0 {
        writeln!(err, "{path}: {more} more bad lines")?;
    }
    Ok(())
}
