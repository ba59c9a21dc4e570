// SPDX-License-Identifier: GPL-2.0-only

//! Writes down what came out: the numbers, the commands, and what the paper says.

use std::fmt::{self, Write};

use anyhow::Result;
use imrsim_util::{number::Bytes, prefill::Share, trace::stat::Stats};

use crate::{
    measure::{Cost, Setup},
    workload::Workload,
};

/// The strategies of the paper, by phases, and their names.
pub const STRATEGIES: [(u32, &str); 2] = [(2, "two-phase"), (3, "three-phase")];

/// The usage of the paper's comparison of workloads, in per cent.
pub const FIXED_USAGE: &str = "80%";

/// The share of the space in bottom tracks.
pub const BOUNDARY: &str = "55.47%";

/// The workload of the paper's comparison of usages.
pub const USAGE_WORKLOAD: &str = "src1_2";

/// What the document is made of.
#[derive(Debug)]
pub struct Results<'a> {
    /// The drives.
    pub setup: &'a Setup,
    /// The traces.
    pub workloads: &'a [Workload],
    /// What each of them reads and writes.
    pub stats: &'a [Stats],
    /// The usages that were tried, ascending; [`FIXED_USAGE`] is one of them.
    pub usages: &'a [Share],
    /// Of every workload, usage and strategy.
    pub costs: &'a [Cost],
    /// Of [`USAGE_WORKLOAD`] with its own blocks as a part of the usage, for several seeds.
    pub in_place: &'a [Vec<Cost>],
    /// The same, with its own blocks written before the others.
    pub first: &'a [Vec<Cost>],
}

/// Write amplification at a usage, for each seed.
fn seeds(costs: &[Vec<Cost>], usage: Share, phases: u32) -> Vec<f64> {
    let all = costs.iter().flatten();
    all.filter(|it| it.usage == usage && it.phases == phases)
        .map(Cost::amplification)
        .collect()
}

/// The least and the largest of some values, with a sign.
fn range(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:+.4} to {most:+.4}")
}

impl Results<'_> {
    /// The cost of a workload on a drive.
    pub fn cost(&self, workload: usize, usage: Share, phases: u32) -> Option<&Cost> {
        self.costs
            .iter()
            .find(|it| it.workload == workload && it.usage == usage && it.phases == phases)
    }

    /// Write amplification at all usages: the mean over the seeds of `costs`.
    pub fn curve(&self, costs: &[Vec<Cost>], phases: u32) -> Vec<f64> {
        let at = |usage: &Share| mean(&seeds(costs, *usage, phases));
        self.usages.iter().map(at).collect()
    }

    /// How much larger it is with two phases than with three: at all usages, for each seed.
    pub fn gaps(&self, costs: &[Vec<Cost>]) -> Vec<Vec<f64>> {
        let at = |usage: &Share| {
            let (two, three) = (seeds(costs, *usage, 2), seeds(costs, *usage, 3));
            two.iter()
                .zip(&three)
                .map(|(two, three)| two - three)
                .collect()
        };
        self.usages.iter().map(at).collect()
    }

    /// Extra writes of all workloads at one usage.
    pub fn extras(&self, usage: Share, phases: u32) -> Vec<f64> {
        let costs = (0..self.workloads.len()).filter_map(|it| self.cost(it, usage, phases));
        costs.map(Cost::extra).collect()
    }
}

/// The number of the workload of the comparison of usages.
pub fn usage_workload(workloads: &[Workload]) -> usize {
    let found = workloads.iter().position(|it| it.name == USAGE_WORKLOAD);
    found.unwrap_or(0)
}

/// Whether a statement of the paper holds here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The statement, in our words.
    pub paper: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// What was found.
    pub here: String,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// How two and three phases differ above 55.47 %.
struct Gaps {
    /// The mean over the usages, for each seed.
    by_seed: Vec<f64>,
    /// The mean without signs, in the lower half of the usages.
    early: f64,
    /// In the upper half.
    late: f64,
}

impl Gaps {
    /// Of [`Results::gaps`] from number `below` on.
    fn above(gaps: &[Vec<f64>], below: usize) -> Self {
        let above = gaps.get(below..).unwrap_or_default();
        let seeds = above.first().map_or(0, Vec::len);
        let of_seed = |seed: usize| {
            let values: Vec<f64> = above
                .iter()
                .filter_map(|it| it.get(seed).copied())
                .collect();
            mean(&values)
        };
        let size =
            |gaps: &[Vec<f64>]| mean(&gaps.iter().flatten().map(|it| it.abs()).collect::<Vec<_>>());
        let (early, late) = above.split_at(above.len() / 2);
        Self {
            by_seed: (0..seeds).map(of_seed).collect(),
            early: size(early),
            late: size(late),
        }
    }

    fn all_positive(&self) -> bool {
        self.by_seed.iter().all(|gap| *gap > 0.0)
    }
}

/// Checks what the paper says of its Fig. 6 and 7c.
///
/// # Errors
///
/// If a usage of the paper is missing.
pub fn verdicts(results: &Results<'_>) -> Result<Vec<Verdict>> {
    let fixed: Share = FIXED_USAGE.parse()?;
    let (two, three) = (
        results.curve(results.in_place, 2),
        results.curve(results.in_place, 3),
    );
    let boundary: Share = BOUNDARY.parse()?;
    let below = results
        .usages
        .iter()
        .filter(|it| it.of(1_000_000) <= boundary.of(1_000_000))
        .count();
    let most_below = two
        .iter()
        .zip(&three)
        .take(below)
        .map(|(two, three)| two.max(*three));
    let most_below = most_below.fold(1.0, f64::max);
    let rises = |curve: &[f64]| curve.windows(2).all(|pair| pair[0] <= pair[1]);
    let mixed = Gaps::above(&results.gaps(results.in_place), below);
    let first = Gaps::above(&results.gaps(results.first), below);
    let (two_80, three_80) = (results.extras(fixed, 2), results.extras(fixed, 3));
    let most = two_80.iter().chain(&three_80).copied().fold(0.0, f64::max);
    let (two_mean, three_mean) = (mean(&two_80), mean(&three_80));
    Ok(vec![
        Verdict {
            paper: "Up to 55.47 % of the space, nothing is rewritten: write amplification is 1.",
            holds: most_below == 1.0,
            here: format!(
                "{most_below:.4}; a trace that writes blocks for the first time takes a drive beyond that while it runs"
            ),
        },
        Verdict {
            paper: "Write amplification rises with space usage.",
            holds: rises(&two) && rises(&three),
            here: format!(
                "from {:.3} to {:.3} with two-phase, from {:.3} to {:.3} with three-phase allocation",
                two.first().unwrap_or(&1.0),
                two.last().unwrap_or(&1.0),
                three.first().unwrap_or(&1.0),
                three.last().unwrap_or(&1.0)
            ),
        },
        Verdict {
            paper: "Two-phase allocation costs slightly more than three-phase allocation.",
            holds: first.all_positive() && mixed.all_positive(),
            here: format!(
                "by {:+.4} on average above 55.47 % (single seeds {}), which is nothing; if what the trace writes was written before \
                 all else, by {:+.4} (single seeds {})",
                mean(&mixed.by_seed),
                range(&mixed.by_seed),
                mean(&first.by_seed),
                range(&first.by_seed)
            ),
        },
        Verdict {
            paper: "The difference between the two shrinks with space usage.",
            holds: first.late < first.early && mixed.late < mixed.early,
            here: format!(
                "without its sign, from {:.4} in the lower half of these usages to {:.4} in the upper half; from {:.4} to {:.4} if what \
                 the trace writes was written before all else; at 100 %, there is none",
                mixed.early, mixed.late, first.early, first.late
            ),
        },
        Verdict {
            paper: "At 80 %, the drive writes at most about 1.8 times what the host writes.",
            holds: 1.0 + most <= 1.85,
            here: format!("at most {:.3} times", 1.0 + most),
        },
        Verdict {
            paper: "At 80 %, two-phase allocation has slightly more extra writes on average.",
            holds: two_mean > three_mean,
            here: format!(
                "{two_mean:.4} extra blocks for each block written with two-phase, {three_mean:.4} with three-phase \
                 allocation"
            ),
        },
    ])
}

/// Writes a Markdown table.
fn table(out: &mut String, header: &[&str], rows: &[Vec<String>]) -> fmt::Result {
    writeln!(out, "| {} |", header.join(" | "))?;
    let align: Vec<_> = (0..header.len())
        .map(|at| if at == 0 { "---" } else { "---:" })
        .collect();
    writeln!(out, "| {} |", align.join(" | "))?;
    for row in rows {
        writeln!(out, "| {} |", row.join(" | "))?;
    }
    writeln!(out)
}

/// Write amplification at each usage.
fn usage_table(out: &mut String, results: &Results<'_>, costs: &[Vec<Cost>]) -> fmt::Result {
    let (two, three, gaps) = (
        results.curve(costs, 2),
        results.curve(costs, 3),
        results.gaps(costs),
    );
    let curves = two.iter().zip(&three).zip(&gaps);
    let rows: Vec<_> = results
        .usages
        .iter()
        .zip(curves)
        .map(|(usage, ((two, three), gaps))| {
            vec![
                usage.to_string(),
                "1".to_owned(),
                format!("{two:.4}"),
                format!("{three:.4}"),
                format!("{:+.4}", mean(gaps)),
                range(gaps),
            ]
        })
        .collect();
    let header = [
        "usage",
        "CMR",
        "two-phase",
        "three-phase",
        "difference",
        "of single seeds",
    ];
    table(out, &header, &rows)
}

/// The whole document. `figures` is where the pictures are, as the document names them.
///
/// # Errors
///
/// If a usage of the paper is missing.
pub fn write(results: &Results<'_>, figures: &str, command: &str) -> Result<String> {
    let mut out = String::new();
    let fixed: Share = FIXED_USAGE.parse()?;
    let setup = results.setup;
    let recorded = results.workloads.iter().filter(|it| it.recorded).count();
    writeln!(out, "# Experiments\n")?;
    writeln!(out, "*Written by `make experiments`; do not edit.*\n")?;
    writeln!(
        out,
        "What the IMRSim paper measures of writes, repeated with `imrsim_util simulate`'s code, which counts what the kernel target \
         counts ([docs/traces.md](traces.md), \"Replaying on a drive\"): drives of {}, filled zone by zone with random writes of \
         32 KiB (seed {}), counters set to zero, then the trace, one request after another. Times are not simulated, so the paper's \
         latencies are not here.\n",
        Bytes(setup.capacity),
        setup.seed
    )?;
    writeln!(out, "## The traces\n")?;
    match recorded {
        4 => writeln!(out, "Recordings of MSR Cambridge.\n")?,
        _ => writeln!(
            out,
            "**{} are synthetic:** random numbers with the published numbers of requests and bytes of the MSR Cambridge \
             traces of these names. Where they write is made up ([docs/traces.md](traces.md), \"Synthetic traces\"). With \
             `scripts/experiments --recordings DIR`, recordings are taken instead.\n",
            if recorded == 0 { "All".to_owned() } else { format!("{} of the four", 4 - recorded) }
        )?,
    }
    let rows: Vec<_> = results
        .workloads
        .iter()
        .zip(results.stats)
        .map(|(workload, stat)| {
            let gib = |bytes: u64| format!("{:.2}", bytes as f64 / f64::from(1 << 30));
            vec![
                workload.name.clone(),
                if workload.recorded {
                    "recorded"
                } else {
                    "synthetic"
                }
                .to_owned(),
                stat.reads.to_string(),
                stat.writes.to_string(),
                gib(stat.read_bytes),
                gib(stat.write_bytes),
                format!(
                    "{:.1} %",
                    100.0 * stat.writes as f64 / (stat.reads + stat.writes).max(1) as f64
                ),
            ]
        })
        .collect();
    let header = [
        "trace",
        "",
        "reads",
        "writes",
        "GiB read",
        "GiB written",
        "writes of all",
    ];
    table(&mut out, &header, &rows)?;

    writeln!(out, "## Write amplification by space usage\n")?;
    writeln!(
        out,
        "![Write amplification by space usage]({figures}/usage.svg)\n"
    )?;
    writeln!(
        out,
        "Blocks written by the drive for each block that the host writes, {USAGE_WORKLOAD} as in the paper's Fig. 6. The blocks that the \
         trace writes are a part of the space in use, so that nothing is written for the first time: in each zone that it writes \
         to, their extents of 32 KiB, and others up to the usage, were written in random order before. Means over {} seeds. A CMR drive has no \
         tracks that lie over others, so it is 1 there by definition.\n",
        results.in_place.len()
    )?;
    usage_table(&mut out, results, results.in_place)?;
    writeln!(out, "### What is rewritten was written first\n")?;
    writeln!(
        out,
        "The same, but in each zone the trace's own extents were written before the others, so that they lie in the first bottom \
         tracks. Two-phase allocation fills the top tracks over these first, three-phase allocation every other one.\n"
    )?;
    usage_table(&mut out, results, results.first)?;

    writeln!(out, "## The trace on top of the usage\n")?;
    writeln!(
        out,
        "As the paper describes it, all zones are filled up to the usage at random, and the trace comes after that, whether its blocks \
         are in use by then or not. First writes then go on where the prefill ended: below 55.47 % they reach the top tracks \
         while the trace runs. This is what `imrsim_util simulate` and `replay` do with `--usage`.\n"
    )?;
    let workload = usage_workload(results.workloads);
    let mut rows = Vec::new();
    for usage in results.usages {
        let mut row = vec![usage.to_string()];
        for (phases, _) in STRATEGIES {
            if let Some(cost) = results.cost(workload, *usage, phases) {
                row.push(format!("{:.4}", cost.amplification()));
                row.push(cost.stats.rmw_one_neighbour.to_string());
                row.push(cost.stats.rmw_two_neighbours.to_string());
            }
        }
        rows.push(row);
    }
    let header = [
        "usage",
        "two-phase",
        "rewrites of 1",
        "of 2",
        "three-phase",
        "rewrites of 1",
        "of 2",
    ];
    writeln!(out, "{USAGE_WORKLOAD}:\n")?;
    table(&mut out, &header, &rows)?;
    writeln!(
        out,
        "*Rewrites of 1* and *of 2*: writes to a bottom track for which blocks of one or of both top tracks over it had to be \
         written back.\n"
    )?;
    writeln!(out, "All four, two-phase / three-phase:\n")?;
    let mut header = vec!["usage"];
    header.extend(results.workloads.iter().map(|it| it.name.as_str()));
    let mut rows = Vec::new();
    for usage in results.usages {
        let mut row = vec![usage.to_string()];
        for workload in 0..results.workloads.len() {
            let cell = |phases| {
                results
                    .cost(workload, *usage, phases)
                    .map_or(1.0, Cost::amplification)
            };
            row.push(format!("{:.4} / {:.4}", cell(2), cell(3)));
        }
        rows.push(row);
    }
    table(&mut out, &header, &rows)?;

    writeln!(out, "## Extra writes at {FIXED_USAGE}\n")?;
    writeln!(
        out,
        "![Extra writes of four traces]({figures}/workloads.svg)\n"
    )?;
    writeln!(out, "In blocks of 4 KiB, as in the paper's Fig. 7c.\n")?;
    let mut rows = Vec::new();
    for (number, workload) in results.workloads.iter().enumerate() {
        let mut row = vec![workload.name.clone()];
        for (phases, _) in STRATEGIES {
            if let Some(cost) = results.cost(number, fixed, phases) {
                if row.len() == 1 {
                    row.push(cost.stats.host_write_blocks.to_string());
                }
                row.push(cost.stats.extra_write_blocks.to_string());
                row.push(format!("{:.4}", cost.extra()));
            }
        }
        rows.push(row);
    }
    let header = [
        "trace",
        "host",
        "two-phase extra",
        "for each",
        "three-phase extra",
        "for each",
    ];
    table(&mut out, &header, &rows)?;

    writeln!(out, "## Beside the paper\n")?;
    let rows: Vec<_> = verdicts(results)?
        .into_iter()
        .map(|it| {
            let holds = if it.holds { "yes" } else { "**no**" };
            vec![it.paper.to_owned(), holds.to_owned(), it.here]
        })
        .collect();
    writeln!(out, "| the paper | here | found |\n| --- | --- | --- |")?;
    for row in rows {
        writeln!(out, "| {} |", row.join(" | "))?;
    }
    writeln!(
        out,
        "\nWhat is to be expected follows from how full the tops are. Let *b* = 55.47 % of the space be bottom tracks, and \
         *u* > *b* be in use. A block that is written again lies in a bottom track with probability *b / u*, and each of the two top \
         tracks over it is in use there with probability (*u* - *b*) / (1 - *b*), in whatever order tops are taken. Single blocks that \
         are written again, no matter where they lie, thus have a write amplification of 1 + 2 (*b / u*) (*u* - *b*) / (1 - *b*): \
         1.76 at 80 %, 2.11 at 100 %. A long run costs less, as 568 bottom blocks lie under 456 top blocks: 1.61 and 1.89. And blocks \
         that the trace writes for the first time cost nothing extra, which lowers it further as long as there are free ones.\n\n\
         All of this is the same for two and for three phases. They can differ only as far as a trace prefers some tracks: three-phase \
         allocation gives most bottom tracks one neighbour where two-phase allocation gives some two and others none. That is why \
         the differences are small here, with a sign that changes from seed to seed, and why two-phase allocation costs clearly more where \
         what is rewritten was written first. Which of the two the paper's drives were like, it does not say.\n"
    )?;
    writeln!(out, "## Again\n")?;
    writeln!(out, "    {command}\n")?;
    writeln!(out, "One line of it, from a recording and in the kernel:\n")?;
    writeln!(
        out,
        "    imrsim_util simulate {USAGE_WORKLOAD}.csv --capacity 128GiB --strategy 2-phase,3-phase --usage 80% --fit wrap\n    \
         imrsim_util replay {USAGE_WORKLOAD}.csv /dev/mapper/imrsim --strategy 2-phase --usage 80% --fit wrap"
    )?;
    Ok(out)
}
