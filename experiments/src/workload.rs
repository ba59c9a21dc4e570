// SPDX-License-Identifier: GPL-2.0-only

//! The workloads: recordings where there are any, otherwise synthetic traces with their published
//! numbers.

use std::{
    fs::File,
    io::BufWriter,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use imrsim_util::trace::{
    self, convert::OutputFormat, stat, synth, synth::Preset, Disks, Options, Trace,
};

/// How the files of recordings may end.
const ENDINGS: [&str; 3] = ["csv", "csv.gz", "csv.zst"];

/// A trace to be run.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Whether it was recorded, not made up.
    pub recorded: bool,
    /// Its file.
    pub path: PathBuf,
}

impl Workload {
    /// Opens it, for the requests of its first disk.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn open(&self) -> Result<Trace> {
        let options = Options {
            format: None,
            disks: Disks::First,
            layout: None,
            action: None,
        };
        trace::open(&self.path, &options)
    }

    /// What it reads and writes.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn stat(&self) -> Result<stat::Stats> {
        let mut reader = self.open()?;
        let stats = stat::measure(&self.name, &mut reader, &mut |_| Ok(()))?;
        let first = stats.into_iter().next();
        first.with_context(|| format!("{} has no requests", self.path.display()))
    }
}

/// The paper's four workloads. Recordings are taken from `recordings`, by the names of the MSR Cambridge
/// traces; others are made up in `directory`, with at most `requests` requests.
///
/// # Errors
///
/// If a trace cannot be written.
pub fn workloads(
    recordings: Option<&Path>,
    directory: &Path,
    requests: Option<u64>,
    seed: u64,
) -> Result<Vec<Workload>> {
    let one = |preset: Preset| {
        let name = preset.name().to_owned();
        let recorded = recordings.and_then(|directory| {
            let files = ENDINGS
                .iter()
                .map(|ending| directory.join(format!("{name}.{ending}")));
            files.into_iter().find(|path| path.exists())
        });
        if let Some(path) = recorded {
            return Ok(Workload {
                name,
                recorded: true,
                path,
            });
        }
        let path = directory.join(format!("{name}.csv"));
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut options = preset.options(seed)?;
        options.requests = requests.map_or(options.requests, |most| most.min(options.requests));
        let mut writer = OutputFormat::Msr.writer(BufWriter::new(file), "")?;
        synth::generate(&options, &mut *writer)?;
        Ok(Workload {
            name,
            recorded: false,
            path,
        })
    };
    Preset::ALL.into_iter().map(one).collect()
}
