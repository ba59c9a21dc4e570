// SPDX-License-Identifier: GPL-2.0-only

//! Runs workloads on drives of several usages and strategies.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{anyhow, Result};
use imrsim_core::{Allocation, Geometry, Stats, Strategy, BLOCK_SIZE};
use imrsim_util::{
    drive::Drive,
    prefill::{zone_rng, Prefill, Share},
    rng::Rng,
    simulate::{self, Matrix},
    trace::{
        convert::{self, Fit, Placed},
        Item, Op, Reader,
    },
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

fn strategies(phases: &[u32]) -> Result<Vec<Allocation>> {
    let all = phases.iter().map(|phases| Allocation::from_phases(*phases));
    all.collect::<Result<_, _>>()
        .map_err(|_| anyhow!("there is no allocation with so many phases"))
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
    let matrix = Matrix {
        geometry,
        zones: simulate::zones_for(&geometry, setup.capacity),
        strategies: strategies(phases)?,
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
                phases: combination.strategy.number(),
                stats,
            });
        }
    }
    Ok(costs)
}

/// When the blocks that a workload writes were written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// At any time, among the others.
    Mixed,
    /// Before all others, so that they lie in the first tracks of their zone.
    First,
}

/// Extents of the prefill, by zone.
type Extents = BTreeMap<u64, BTreeSet<u64>>;

/// Runs a workload on drives on which the blocks that it writes are in use before, as a part of `usages`: nothing is
/// written for the first time. The extents that hold these blocks and others, chosen at random, are written in random
/// order, or these before the others, in each zone that the workload writes to. A zone of which it writes more than the usage is as full as that.
///
/// The costs are those of workload number `number`.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn run_in_place(
    setup: &Setup,
    workload: &Workload,
    number: usize,
    usages: &[Share],
    phases: &[u32],
    order: Order,
) -> Result<Vec<Cost>> {
    let geometry = Geometry::DEFAULT;
    let zones = simulate::zones_for(&geometry, setup.capacity);
    let fit = convert::Options {
        capacity: Some(zones * u64::from(geometry.zone_blocks()) * u64::from(BLOCK_SIZE)),
        fit: Fit::Wrap,
        span: 0,
        align: None,
    };
    let written = written(workload, &fit, &geometry)?;
    let mut drives = Vec::new();
    let mut costs = Vec::new();
    for usage in usages {
        for strategy in strategies(phases)? {
            let mut drive = Drive::new(geometry, zones, strategy)?;
            for (zone, extents) in &written {
                let rng = zone_rng(setup.seed, *zone);
                for (offset, len) in fill(*zone, extents, *usage, order, &geometry, rng) {
                    drive.write(offset, len)?;
                }
            }
            drive.reset_stats();
            drives.push(drive);
            costs.push(Cost {
                workload: number,
                usage: *usage,
                phases: strategy.number(),
                stats: Stats::default(),
            });
        }
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(setup.jobs)
        .build()?;
    pool.install(|| {
        let mut reader = workload.open()?;
        simulate::run(&mut reader, &fit, &mut drives, &mut |_| Ok(()))
    })?;
    for (cost, drive) in costs.iter_mut().zip(&drives) {
        cost.stats = drive.stats();
    }
    Ok(costs)
}

/// The extents that a workload writes to.
fn written(workload: &Workload, fit: &convert::Options, geometry: &Geometry) -> Result<Extents> {
    let bytes = u64::from(EXTENT) * u64::from(BLOCK_SIZE);
    let in_zone = u64::from(geometry.zone_blocks() / EXTENT);
    let mut extents = Extents::new();
    let mut add = |offset: u64, len: u64| {
        for extent in offset / bytes..(offset + len).div_ceil(bytes) {
            let zone = extents.entry(extent / in_zone).or_default();
            zone.insert(extent % in_zone);
        }
    };
    let mut reader = workload.open()?;
    while let Some(item) = reader.next_item()? {
        let Item::Record(record) = item else { continue };
        if record.op != Op::Write {
            continue;
        }
        match fit.place(record.offset, record.end()) {
            Ok(Placed::One(offset, len)) => add(offset, len),
            Ok(Placed::Split(end, start)) => {
                add(end.0, end.1);
                add(start.0, start.1);
            }
            Ok(Placed::Nowhere) | Err(_) => {}
        }
    }
    Ok(extents)
}

/// The writes, offset and length in bytes, that fill a zone up to `usage`, `extents` among them.
fn fill(
    zone: u64,
    extents: &BTreeSet<u64>,
    usage: Share,
    order: Order,
    geometry: &Geometry,
    mut rng: Rng,
) -> Vec<(u64, u64)> {
    let bytes = u64::from(EXTENT) * u64::from(BLOCK_SIZE);
    let in_zone = u64::from(geometry.zone_blocks() / EXTENT);
    let mut others: Vec<u64> = (0..in_zone).filter(|it| !extents.contains(it)).collect();
    rng.shuffle(&mut others);
    let wanted = usage.of(in_zone).saturating_sub(extents.len() as u64);
    // At most all of them.
    others.truncate(wanted as usize);
    let mut all: Vec<u64> = extents.iter().copied().collect();
    rng.shuffle(&mut all);
    all.extend(others);
    if order == Order::Mixed {
        rng.shuffle(&mut all);
    }
    let place = |extent: u64| ((zone * in_zone + extent) * bytes, bytes);
    all.into_iter().map(place).collect()
}
