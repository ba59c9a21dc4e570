// SPDX-License-Identifier: GPL-2.0-only

//! Traces on drives of several usages and strategies, in parallel.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        Mutex,
    },
    thread,
};

use anyhow::{Context, Result};
use imrsim_core::{Allocation, Geometry};

use super::{run, Summary};
use crate::{
    drive::Drive,
    prefill::{Prefill, Share},
    trace::{
        convert::{self, Fit},
        BadLine, Reader, Source,
    },
};

/// Bad lines of a trace that are kept; the others are only counted.
pub const MAX_BAD_LINES: usize = 20;

/// What each trace is run on.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The geometry of the drives.
    pub geometry: Geometry,
    /// Their size in zones.
    pub zones: u64,
    /// Their strategies.
    pub strategies: Vec<Allocation>,
    /// How full they are before; none: empty.
    pub usages: Vec<Share>,
    /// How they are filled.
    pub prefill: Prefill,
    /// What random prefills depend on.
    pub seed: u64,
    /// What becomes of requests beyond their end.
    pub fit: Fit,
    /// Threads, at least 1.
    pub jobs: usize,
}

/// What a trace is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination {
    /// How full the drive is before; `None`: empty.
    pub usage: Option<Share>,
    /// Its strategy.
    pub strategy: Allocation,
}

/// What became of a trace.
#[derive(Debug)]
pub struct Outcome<T> {
    /// Of its lines.
    pub summary: Summary,
    /// The first [`MAX_BAD_LINES`] bad ones.
    pub bad_lines: Vec<BadLine>,
    /// The disks in the trace.
    pub sources: Vec<Source>,
    /// What was made of the drives, in the order of [`Matrix::combinations`].
    pub runs: Vec<T>,
}

impl Matrix {
    /// What each trace is run on, in order: by usage, then by strategy.
    pub fn combinations(&self) -> Vec<Combination> {
        let usages = match self.usages.as_slice() {
            [] => vec![None],
            usages => usages.iter().copied().map(Some).collect(),
        };
        let with = |usage| {
            let strategies = self.strategies.iter().copied();
            strategies.map(move |strategy| Combination { usage, strategy })
        };
        usages.into_iter().flat_map(with).collect()
    }

    /// Runs `traces` traces. `open` opens one by its number, `accept` is asked whether to go on after a
    /// bad line, and `finish` makes a result of each drive as soon as its trace has ended. All results
    /// are in order, whatever the number of threads.
    ///
    /// # Errors
    ///
    /// Of the traces that cannot be opened or read, or are not accepted, the first; and if there can be
    /// no threads.
    pub fn run<R: Reader, T: Send>(
        &self,
        traces: usize,
        open: impl Fn(usize) -> Result<R> + Sync,
        accept: impl Fn(usize, &BadLine) -> Result<()> + Sync,
        finish: impl Fn(Drive) -> Result<T> + Sync,
    ) -> Result<Vec<Outcome<T>>> {
        self.run_prepared(traces, open, accept, |_| Ok(()), finish)
    }

    /// The same, with something that is done to each drive before its trace begins.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and if `prepare` fails.
    pub fn run_prepared<R: Reader, T: Send>(
        &self,
        traces: usize,
        open: impl Fn(usize) -> Result<R> + Sync,
        accept: impl Fn(usize, &BadLine) -> Result<()> + Sync,
        prepare: impl Fn(&mut Drive) -> Result<()> + Sync,
        finish: impl Fn(Drive) -> Result<T> + Sync,
    ) -> Result<Vec<Outcome<T>>> {
        // A drive has one thread at a time.
        let most = traces.saturating_mul(self.combinations().len());
        let jobs = self.jobs.min(most).max(1);
        let workers = jobs.min(traces).max(1);
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(Vec::new());
        // A pool for each trace at a time: a thread that waits for its drives must not begin another
        // trace meanwhile.
        let work = |threads| -> Result<()> {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()?;
            loop {
                let trace = next.fetch_add(1, Ordering::Relaxed);
                if trace >= traces {
                    return Ok(());
                }
                let outcome = pool.install(|| {
                    let open = || open(trace);
                    self.run_trace(open, |bad| accept(trace, bad), &prepare, &finish)
                });
                let mut outcomes = outcomes.lock().ok().context("another thread panicked")?;
                outcomes.push((trace, outcome));
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..workers)
                .map(|worker| {
                    let more = usize::from(worker < jobs % workers);
                    scope.spawn(move || work(jobs / workers + more))
                })
                .collect();
            threads.into_iter().try_for_each(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })?;
        let mut outcomes = outcomes.into_inner().ok().context("a thread panicked")?;
        outcomes.sort_by_key(|(trace, _)| *trace);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn run_trace<R: Reader, T: Send>(
        &self,
        open: impl Fn() -> Result<R>,
        accept: impl Fn(&BadLine) -> Result<()>,
        prepare: impl Fn(&mut Drive) -> Result<()>,
        finish: impl Fn(Drive) -> Result<T>,
    ) -> Result<Outcome<T>> {
        let mut drives = Vec::new();
        for Combination { usage, strategy } in self.combinations() {
            let mut drive = Drive::new(self.geometry, self.zones, strategy)?;
            if let Some(usage) = usage {
                drive.prefill(self.prefill, usage, self.seed);
            }
            prepare(&mut drive)?;
            drives.push(drive);
        }
        let span = match self.fit {
            Fit::Scale => convert::span(&mut open()?)?,
            _ => 0,
        };
        let fit = convert::Options {
            capacity: drives.first().map(Drive::capacity),
            fit: self.fit,
            span,
            align: None,
        };
        let mut bad_lines = Vec::new();
        let mut reader = open()?;
        let summary = run(&mut reader, &fit, &mut drives, &mut |bad| {
            if bad_lines.len() < MAX_BAD_LINES {
                bad_lines.push(bad.clone());
            }
            accept(bad)
        })?;
        let runs = drives.into_iter().map(finish).collect::<Result<_>>()?;
        Ok(Outcome {
            summary,
            bad_lines,
            sources: reader.sources().to_vec(),
            runs,
        })
    }
}
