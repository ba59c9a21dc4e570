// SPDX-License-Identifier: GPL-2.0-only

//! Runs workloads on drives of several usages and strategies.

use anyhow::Result;
use imrsim_core::{Allocation, Geometry, Stats};
use imrsim_util::{
    prefill::{Prefill, Share},
    simulate::{self, Matrix},
    trace::convert::Fit,
};

use crate::workload::Workload;

/// Blocks in an extent of the prefill: 32 KiB, as in the paper.
const EXTENT: u32 = 8;

/// The drives.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Their size in bytes.
    pub capacity: u64,
    /// What the prefill depends on.
    pub seed: u64,
    /// Threads.
    pub jobs: usize,
}

/// What a workload cost.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The number of the workload.
    pub workload: usize,
    /// How full the drive was before.
    pub usage: Share,
    /// Phases of its allocation.
    pub phases: u32,
    /// Its counters afterwards.
    pub stats: Stats,
}

impl Cost {
    /// Write amplification: blocks written by the drive for each that the host wrote; 1 if it wrote none.
    pub fn amplification(&self) -> f64 {
        1.0 + self.extra()
    }

    /// Blocks written back for each that the host wrote.
    pub fn extra(&self) -> f64 {
        let host = self.stats.host_write_blocks.max(1);
        self.stats.extra_write_blocks as f64 / host as f64
    }
}

/// Runs every workload on a drive for each usage and number of phases.
///
/// # Errors
///
/// If a trace cannot be read.
pub fn run(
    setup: &Setup,
    workloads: &[Workload],
    usages: &[Share],
    phases: &[u32],
) -> Result<Vec<Cost>> {
    let geometry = Geometry::DEFAULT;
    let strategies = phases.iter().map(|phases| Allocation::from_phases(*phases));
    let matrix = Matrix {
        geometry,
        zones: simulate::zones_for(&geometry, setup.capacity),
        strategies: strategies
            .collect::<Result<_, _>>()
            .map_err(|_| anyhow::anyhow!("there is no allocation with so many phases"))?,
        usages: usages.to_vec(),
        prefill: Prefill::Random { extent: EXTENT },
        seed: setup.seed,
        fit: Fit::Wrap,
        jobs: setup.jobs,
    };
    let combinations = matrix.combinations();
    let outcomes = matrix.run(
        workloads.len(),
        |number| workloads[number].open(),
        |_, _| Ok(()),
        |drive| Ok(drive.stats()),
    )?;
    let mut costs = Vec::new();
    for (workload, outcome) in outcomes.into_iter().enumerate() {
        for (stats, combination) in outcome.runs.into_iter().zip(&combinations) {
            let Some(usage) = combination.usage else {
                continue;
            };
            costs.push(Cost {
                workload,
                usage,
                phases: imrsim_core::Strategy::number(&combination.strategy),
                stats,
            });
        }
    }
    Ok(costs)
}
