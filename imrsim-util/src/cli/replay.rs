// SPDX-License-Identifier: GPL-2.0-only

//! `replay`: a trace on a running drive.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{ensure, Context, Result};
use clap::Args;
use imrsim_core::{
    uapi::{self, ALL_ZONES},
    Allocation, Geometry, Strategy, BLOCK_SIZE,
};
use serde::Serialize;

use super::traces::{accept, check_readable_twice, no_requests, Align, BadLines, ReadArgs};
use crate::{
    control::Scope,
    device::{Device, Transport},
    drive::Drive,
    exit::usage,
    number::{parse_count, Nanos},
    prefill::{self, Prefill, Share},
    replay::{self, Difference, Fio},
    report::{self, Style},
    settings, simulate,
    trace::{
        self,
        convert::{self, Fit, OutputFormat},
        Disks, Format, Reader,
    },
};

/// Differences that are shown; the others are only counted.
const MAX_DIFFERENCES: usize = 20;

pub(super) const HELP: &str = "\
    The drive is set to the strategy, filled as the paper does it, its counters are set to zero, and\n\
    fio replays the trace with direct I/O by libaio, one job. With --compare, the same requests are\n\
    simulated, and every counter of every zone is compared; exit code 1 if one differs. Only at\n\
    --depth 1 must all agree: requests that are in flight together have no order.\n\
    Requests are widened to whole sectors of 512 bytes.\n\n\
    Examples:\n  \
    imrsim_util replay hm_0.csv.gz /dev/mapper/imrsim --strategy 3-phase --usage 80%\n  \
    imrsim_util replay proj_0.csv /dev/mapper/imrsim --erase --usage 90% --fit wrap --json\n  \
    imrsim_util replay run.log /dev/mapper/imrsim --keep\n  \
    imrsim_util replay run.log /dev/mapper/imrsim --erase --usage 80% --depth 1 --compare";

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// The trace, or - for standard input
    trace: PathBuf,
    /// The drive, which must not be in use
    #[arg(value_name = "DEV")]
    device: PathBuf,
    /// The allocation strategy [default: the drive's own]
    #[arg(long, value_name = "K-phase")]
    strategy: Option<Allocation>,
    /// How much of each zone is filled before, not counted: 80%
    #[arg(long, value_name = "SHARE", conflicts_with = "keep")]
    usage: Option<Share>,
    /// How it is filled: sequential, or random in extents: random:32k
    #[arg(
        long,
        value_name = "HOW",
        default_value = "random:32k",
        requires = "usage"
    )]
    prefill: Prefill,
    /// What the random prefill depends on
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1")]
    seed: u64,
    /// Reset all zones of a drive that is not empty: its data is lost
    #[arg(long, conflicts_with = "keep")]
    erase: bool,
    /// Take the drive as full as it is
    #[arg(long, conflicts_with = "compare")]
    keep: bool,
    /// Requests in flight
    #[arg(long, value_name = "N", default_value = "32")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    depth: u32,
    /// Send each request at its time in the trace, not as soon as there is room for it
    #[arg(long)]
    timed: bool,
    /// What to do with requests beyond the drive's capacity
    #[arg(long, value_name = "HOW", default_value = "reject")]
    fit: Fit,
    /// Widen requests to multiples of so many bytes
    #[arg(long, value_name = "SIZE", default_value = "512")]
    #[arg(value_parser = super::traces::parse_align)]
    align: Align,
    /// Also simulate the same requests, and compare all counters
    #[arg(long)]
    compare: bool,
    /// The program fio
    #[arg(long, value_name = "PATH", default_value = "fio")]
    fio: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Serialize)]
struct Json<'a> {
    trace: &'a convert::Summary,
    usage_ratio: Option<f64>,
    prefill: String,
    seed: u64,
    depth: u32,
    seconds: f64,
    #[serde(flatten)]
    statistics: &'a report::Statistics,
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<&'a [Difference]>,
}

impl ReplayArgs {
    /// Runs it.
    pub(super) fn run(&self, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        if self.usage.is_some() && self.prefill == Prefill::None {
            return Err(usage(
                "--prefill none leaves zones empty: leave out --usage",
            ));
        }
        let mut drive = Device::open(&self.device)?;
        let config = drive.config()?;
        let claim = replay::claim(&self.device)?;
        let (log, summary, bad_lines) = self.convert(&config, err)?;
        self.prepare(&mut drive, &config)?;

        let fio = self.fio();
        let prefill = self.usage.map_or(Prefill::None, |_| self.prefill);
        if let Some(usage) = self.usage {
            let (fill, writer) = replay::log_file()?;
            let geometry = geometry(&config)?;
            let requests = prefill::requests(&geometry, config.zones, prefill, usage, self.seed);
            let bytes = replay::write_log(requests, fio.node()?, writer)?;
            let blocks = bytes / u64::from(BLOCK_SIZE);
            fio.run(fill.path(), "filling", blocks, &mut drive)?;
            let mapped = drive.config()?.mapped_blocks;
            ensure!(
                mapped == blocks,
                "{mapped} blocks are mapped after {blocks} were written"
            );
        }
        drive.reset_statistics(ALL_ZONES)?;
        let blocks = (summary.read_bytes + summary.write_bytes) / u64::from(BLOCK_SIZE);
        let took = fio.run(log.path(), "replaying", blocks, &mut drive)?;
        drop(claim);

        let statistics = report::Statistics::ask(&mut drive, Scope::Device)?;
        let differences = match self.compare {
            true => Some(self.compared(&mut drive, log.path(), err)?),
            false => None,
        };
        self.show(&summary, took, &statistics, differences.as_deref(), out)?;
        out.flush()?;
        let differences = differences.map_or(0, |it| it.len());
        ensure!(
            differences == 0,
            "{differences} counters differ from those of the simulation"
        );
        accept(bad_lines, &self.read)
    }

    fn fio(&self) -> Fio {
        Fio {
            program: self.fio.clone(),
            device: self.device.clone(),
            depth: self.depth,
            timed: self.timed,
        }
    }

    /// Makes fio's log of the trace, before anything is done to the drive. Returns what is in it, and how many
    /// lines were bad.
    fn convert(
        &self,
        config: &uapi::Config,
        err: &mut dyn Write,
    ) -> Result<(tempfile::NamedTempFile, convert::Summary, u64)> {
        let mut options = convert::Options {
            capacity: Some(config.total_blocks.saturating_mul(u64::from(BLOCK_SIZE))),
            fit: self.fit,
            span: 0,
            align: self.align.0,
        };
        options.check().map_err(|error| usage(error.to_string()))?;
        if self.fit == Fit::Scale {
            check_readable_twice(&self.trace)?;
            options.span = convert::span(&mut self.read.open(&self.trace, Disks::First)?)?;
        }
        let mut reader = self.read.open(&self.trace, Disks::First)?;
        let mut bad_lines = BadLines::new(&self.trace, &reader, &self.read, err);
        let (log, writer) = replay::log_file()?;
        let fio = self.fio();
        let to = match self.timed {
            true => OutputFormat::Iolog3,
            false => OutputFormat::Iolog,
        };
        let mut writer = to.writer(writer, fio.node()?)?;
        let summary = convert::convert(&mut reader, &mut *writer, &options, &mut |bad| {
            bad_lines.report(bad)
        })?;
        let bad_lines = bad_lines.finish()?;
        ensure!(
            summary.written > 0,
            no_requests(&self.trace, reader.sources(), summary.other_disks)
        );
        Ok((log, summary, bad_lines))
    }

    /// Empties the drive if it may be, and sets its strategy.
    fn prepare<T: Transport>(&self, drive: &mut Device<T>, config: &uapi::Config) -> Result<()> {
        if config.mapped_blocks > 0 && !self.keep {
            ensure!(
                self.erase,
                "{} holds data: --erase resets all its zones first (the data is lost), \
                 --keep takes it as it is",
                drive.name()
            );
            for zone in 0..config.zones {
                if drive.statistics(zone)?.mapped_blocks > 0 {
                    drive.reset_zone(zone)?;
                }
            }
        }
        if let Some(strategy) = self.strategy {
            let setting = settings::find("allocation").context("drives have no allocation")?;
            // CAST: a handful.
            drive.set_setting(setting as u32, strategy.number())?;
        }
        Ok(())
    }

    /// Simulates what fio has done, and compares.
    fn compared<T: Transport>(
        &self,
        drive: &mut Device<T>,
        log: &Path,
        err: &mut dyn Write,
    ) -> Result<Vec<Difference>> {
        let config = drive.config()?;
        let geometry = geometry(&config)?;
        let allocation = Allocation::from_phases(config.phases)
            .map_err(|_| anyhow::anyhow!("this program does not know the drive's strategy"))?;
        let mut simulated = Drive::new(geometry, config.zones, allocation)?;
        if let Some(usage) = self.usage {
            simulated.prefill(self.prefill, usage, self.seed);
        }
        let options = trace::Options {
            format: Some(Format::Iolog),
            disks: Disks::First,
            layout: None,
            action: None,
        };
        let mut reader = trace::open(log, &options)?;
        let mut drives = [simulated];
        let fit = convert::Options {
            capacity: None,
            fit: Fit::Reject,
            span: 0,
            align: None,
        };
        simulate::run(&mut reader, &fit, &mut drives, &mut |bad| {
            writeln!(err, "{}: {bad}", log.display()).context("cannot report a line")
        })?;
        let [simulated] = drives;
        let mut simulated = Device::new("the simulated drive", simulated);
        replay::differences(drive, &mut simulated)
    }

    fn show(
        &self,
        summary: &convert::Summary,
        took: Duration,
        statistics: &report::Statistics,
        differences: Option<&[Difference]>,
        out: &mut dyn Write,
    ) -> Result<()> {
        let prefill = self.usage.map_or(Prefill::None, |_| self.prefill);
        if self.json {
            return report::json(
                &Json {
                    trace: summary,
                    usage_ratio: self.usage.map(Share::ratio),
                    prefill: prefill.to_string(),
                    seed: self.seed,
                    depth: self.depth,
                    seconds: took.as_secs_f64(),
                    statistics,
                    differences,
                },
                out,
            );
        }
        let filled = match self.usage {
            Some(usage) => format!("{prefill} to {usage}, seed {}", self.seed),
            None if self.keep => "the drive as it was".to_owned(),
            None => prefill.to_string(),
        };
        // More than 2^64 ns are never reached.
        let nanos = Nanos(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        writeln!(
            out,
            "trace    {} requests of {} lines",
            summary.written, summary.lines
        )?;
        writeln!(out, "prefill  {filled}")?;
        writeln!(out, "replay   depth {}, {nanos}", self.depth)?;
        writeln!(out)?;
        report::statistics(statistics, Style::Text, out)?;
        let Some(differences) = differences else {
            return Ok(());
        };
        writeln!(out)?;
        if differences.is_empty() {
            writeln!(
                out,
                "All counters of all zones are those of the simulation."
            )?;
            return Ok(());
        }
        let mut rows = vec![["zone", "counter", "drive", "simulated"]
            .map(str::to_owned)
            .to_vec()];
        for it in differences.iter().take(MAX_DIFFERENCES) {
            rows.push(vec![
                it.zone.to_string(),
                it.counter.to_owned(),
                it.drive.to_string(),
                it.simulated.to_string(),
            ]);
        }
        report::table(&rows, out)?;
        if let Some(more) = differences
            .len()
            .checked_sub(MAX_DIFFERENCES)
            .filter(|it| *it > 0)
        {
            writeln!(out, "and {more} more")?;
        }
        Ok(())
    }
}

fn geometry(config: &uapi::Config) -> Result<Geometry> {
    Geometry::new(config.top_blocks, config.bottom_blocks, config.groups)
        .map_err(|error| anyhow::anyhow!("the drive's geometry: {error}"))
}
