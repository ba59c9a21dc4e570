// SPDX-License-Identifier: GPL-2.0-only

//! Runs the experiments and writes the document with its pictures.

use std::{fs, num::NonZeroUsize, path::PathBuf, thread};

use anyhow::{Context, Result};
use clap::Parser;
use imrsim_experiments::{
    document::{self, Results, FIXED_USAGE, STRATEGIES, USAGE_WORKLOAD},
    measure::{self, Order, Setup},
    plot::{self, Series},
    workload,
};
use imrsim_util::{number::parse_size, prefill::Share};

/// Seeds over which the comparison of usages is averaged.
const SEEDS: u64 = 5;

/// Repeats the IMRSim paper's experiments about writes, and writes experiments.md with its pictures
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    imrsim-experiments docs\n  \
    imrsim-experiments docs --recordings /traces/msr-cambridge\n  \
    imrsim-experiments /tmp/quick --requests 20000 --capacity 16GiB")]
struct Args {
    /// Where experiments.md and the folder experiments/ go
    directory: PathBuf,
    /// A folder with the MSR Cambridge traces hm_0.csv, proj_0.csv, src1_2.csv, src2_2.csv (or .csv.gz,
    /// .csv.zst); those that are missing are made up
    #[arg(long, value_name = "DIR")]
    recordings: Option<PathBuf>,
    /// The most requests of a trace that is made up [default: as many as were published]
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Size of the drives
    #[arg(long, value_name = "SIZE", default_value = "128GiB", value_parser = parse_size)]
    capacity: u64,
    /// What prefills and traces that are made up depend on
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// The font of the pictures, a TrueType file [default: DejaVu Sans]
    #[arg(long, value_name = "FILE")]
    font: Option<PathBuf>,
    /// The command that experiments.md names for doing it again
    #[arg(long, default_value = "make experiments", hide = true)]
    command: String,
}

fn main() -> Result<()> {
    let args = Args::parse();
    plot::use_font(args.font.as_deref())?;
    let figures = args.directory.join("experiments");
    fs::create_dir_all(&figures).with_context(|| format!("cannot make {}", figures.display()))?;
    let traces = tempfile::tempdir().context("cannot make a folder for traces")?;
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok());
    let setup = Setup {
        capacity: args.capacity,
        seed: args.seed,
        jobs: jobs.map_or(1, NonZeroUsize::get),
    };

    println!("    getting the traces");
    let workloads = workload::workloads(
        args.recordings.as_deref(),
        traces.path(),
        args.requests,
        args.seed,
    )?;
    let stats = workloads
        .iter()
        .map(workload::Workload::stat)
        .collect::<Result<Vec<_>>>()?;
    let usages = usages()?;
    println!(
        "    running {} traces on {} drives each",
        workloads.len(),
        usages.len() * STRATEGIES.len()
    );
    let phases = STRATEGIES.map(|(phases, _)| phases);
    let costs = measure::run(&setup, &workloads, &usages, &phases)?;
    let number = document::usage_workload(&workloads);
    println!("    running {USAGE_WORKLOAD} with {SEEDS} seeds");
    let in_place = |order| -> Result<Vec<_>> {
        let seeds = args.seed..args.seed.saturating_add(SEEDS);
        let of_seed = |seed| {
            let setup = Setup {
                seed,
                ..setup.clone()
            };
            measure::run_in_place(&setup, &workloads[number], number, &usages, &phases, order)
        };
        seeds.map(of_seed).collect()
    };
    let (mixed, first) = (in_place(Order::Mixed)?, in_place(Order::First)?);
    let results = Results {
        setup: &setup,
        workloads: &workloads,
        stats: &stats,
        usages: &usages,
        costs: &costs,
        in_place: &mixed,
        first: &first,
    };

    draw(&results, &figures)?;
    let text = document::write(&results, "experiments", &args.command)?;
    let file = args.directory.join("experiments.md");
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    for verdict in document::verdicts(&results)? {
        println!(
            "    {}  {}",
            if verdict.holds { "yes" } else { "no " },
            verdict.paper
        );
    }
    println!("    written: {}", file.display());
    Ok(())
}

/// 50 to 100 %, and where the bottom tracks end.
fn usages() -> Result<Vec<Share>> {
    let steps = [
        "50%", "55%", "55.47%", "60%", "65%", "70%", "75%", "80%", "85%", "90%", "95%", "100%",
    ];
    steps.into_iter().map(str::parse).collect()
}

fn draw(results: &Results<'_>, figures: &std::path::Path) -> Result<()> {
    let x: Vec<f64> = results
        .usages
        .iter()
        .map(|it| it.of(1_000_000) as f64 / 10_000.0)
        .collect();
    let mut series = vec![Series {
        name: "CMR".to_owned(),
        values: vec![1.0; x.len()],
    }];
    series.extend(STRATEGIES.map(|(phases, name)| Series {
        name: format!("IMR, {name}"),
        values: results.curve(results.in_place, phases),
    }));
    plot::lines(
        &figures.join("usage"),
        &format!("Write amplification of {USAGE_WORKLOAD}"),
        ["space usage", "blocks written by the drive / by the host"],
        &x,
        &series,
    )?;
    let fixed: Share = FIXED_USAGE.parse()?;
    let groups: Vec<String> = results.workloads.iter().map(|it| it.name.clone()).collect();
    let mut series = vec![Series {
        name: "CMR".to_owned(),
        values: vec![1.0; groups.len()],
    }];
    series.extend(STRATEGIES.map(|(phases, name)| {
        Series {
            name: format!("IMR, {name}"),
            values: results
                .extras(fixed, phases)
                .into_iter()
                .map(|extra| 1.0 + extra)
                .collect(),
        }
    }));
    plot::bars(
        &figures.join("workloads"),
        &format!("Writes of four traces at {FIXED_USAGE} space usage"),
        "blocks written by the drive / by the host",
        &groups,
        &series,
    )
}
