// SPDX-License-Identifier: GPL-2.0-only

//! Measures a trace: how much it reads and writes, where, and in what order.

use std::io::Write;

use anyhow::Result;
use roaring::RoaringTreemap;
use serde::Serialize;

use super::{BadLine, Item, Op, Reader, Record};
use crate::{number::SECTOR, report};

/// The bytes in which footprint and updates are counted.
const BLOCK: u64 = 4096;

/// The numbers of a trace, or of one disk in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// The trace.
    pub trace: String,
    /// The computer, if the trace has it.
    pub host: String,
    /// The disk, if the trace has it.
    pub disk: String,
    /// Requests.
    pub requests: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Trim requests.
    pub trims: u64,
    /// Flush requests.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Writes of reads and writes, 0 to 1.
    pub write_ratio: Option<f64>,
    /// Mean bytes of a read.
    pub mean_read_bytes: Option<f64>,
    /// Mean bytes of a write.
    pub mean_write_bytes: Option<f64>,
    /// Bytes of the longest read or write.
    pub largest_request_bytes: u64,
    /// Bytes of the blocks of 4 KiB that are read or written.
    pub footprint_bytes: u64,
    /// Bytes of the blocks of 4 KiB that are written.
    pub write_footprint_bytes: u64,
    /// The byte after the last that is touched.
    pub end_byte: u64,
    /// Reads and writes that begin and end at multiples of 512 bytes, 0 to 1.
    pub aligned_512_ratio: Option<f64>,
    /// Reads and writes that begin and end at multiples of 4,096 bytes, 0 to 1.
    pub aligned_4k_ratio: Option<f64>,
    /// Blocks of 4 KiB written to that were written before, of all blocks written to, 0 to 1.
    pub update_ratio: Option<f64>,
    /// Reads and writes that begin where the one in front ends and do the same, 0 to 1.
    pub sequential_ratio: Option<f64>,
    /// Mean bytes of a run: requests of which each follows on the one in front.
    pub mean_run_bytes: Option<f64>,
    /// Nanoseconds from the first request of the trace to the last of this disk, if it has times.
    pub duration_ns: Option<u64>,
    /// Requests in a second.
    pub requests_per_second: Option<f64>,
    /// Mean nanoseconds that a request took when it was recorded.
    pub mean_response_ns: Option<f64>,
    /// Requests with a time before that of the one in front, in the whole trace.
    pub backwards: u64,
    /// Lines of the whole trace that are no requests.
    pub bad_lines: u64,
}

/// Counts the requests of one disk.
#[derive(Debug, Default)]
struct Counter {
    stats: Stats,
    touched: RoaringTreemap,
    written: RoaringTreemap,
    block_writes: u64,
    updates: u64,
    aligned_512: u64,
    aligned_4k: u64,
    runs: u64,
    last: Option<(Op, u64)>,
    responses: u64,
    /// Nanoseconds.
    response_sum: u128,
}

impl Counter {
    fn add(&mut self, record: &Record) {
        let stats = &mut self.stats;
        stats.requests += 1;
        stats.duration_ns = record.time.or(stats.duration_ns);
        if let Some(response) = record.response {
            self.responses += 1;
            self.response_sum += u128::from(response);
        }
        let blocks = record.offset / BLOCK..record.end().div_ceil(BLOCK);
        match record.op {
            Op::Flush => {
                stats.flushes += 1;
                return;
            }
            Op::Trim => {
                stats.trims += 1;
                stats.end_byte = stats.end_byte.max(record.end());
                return;
            }
            Op::Read => {
                stats.reads += 1;
                stats.read_bytes = stats.read_bytes.saturating_add(record.len);
                self.touched.insert_range(blocks);
            }
            Op::Write => {
                stats.writes += 1;
                stats.write_bytes = stats.write_bytes.saturating_add(record.len);
                let count = blocks.end - blocks.start;
                self.block_writes += count;
                self.updates += count - self.written.insert_range(blocks);
            }
        }
        stats.end_byte = stats.end_byte.max(record.end());
        stats.largest_request_bytes = stats.largest_request_bytes.max(record.len);
        let aligned = |to| record.offset.is_multiple_of(to) && record.len.is_multiple_of(to);
        self.aligned_512 += u64::from(aligned(SECTOR));
        self.aligned_4k += u64::from(aligned(BLOCK));
        self.runs += u64::from(self.last != Some((record.op, record.offset)));
        self.last = Some((record.op, record.end()));
    }

    fn finish(self) -> Stats {
        let Self {
            mut stats,
            mut touched,
            written,
            ..
        } = self;
        let moves = stats.reads + stats.writes;
        let bytes = stats.read_bytes.saturating_add(stats.write_bytes);
        stats.write_ratio = ratio(stats.writes, moves);
        stats.mean_read_bytes = ratio(stats.read_bytes, stats.reads);
        stats.mean_write_bytes = ratio(stats.write_bytes, stats.writes);
        stats.write_footprint_bytes = written.len().saturating_mul(BLOCK);
        touched |= written;
        stats.footprint_bytes = touched.len().saturating_mul(BLOCK);
        stats.aligned_512_ratio = ratio(self.aligned_512, moves);
        stats.aligned_4k_ratio = ratio(self.aligned_4k, moves);
        stats.update_ratio = ratio(self.updates, self.block_writes);
        stats.sequential_ratio = ratio(moves - self.runs, moves);
        stats.mean_run_bytes = ratio(bytes, self.runs);
        stats.requests_per_second = stats
            .duration_ns
            .filter(|duration| *duration > 0)
            .map(|duration| stats.requests as f64 * 1e9 / duration as f64);
        if self.responses > 0 {
            stats.mean_response_ns = Some(self.response_sum as f64 / self.responses as f64);
        }
        stats
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Measures a trace, each of its disks apart. Bad lines go to `on_bad` and are left out, unless it
/// fails.
///
/// # Errors
///
/// If the trace cannot be read, or `on_bad` fails.
pub fn measure(
    name: &str,
    reader: &mut dyn Reader,
    on_bad: &mut dyn FnMut(&BadLine) -> Result<()>,
) -> Result<Vec<Stats>> {
    let mut counters: Vec<Counter> = Vec::new();
    let mut bad_lines = 0;
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Record(record) => {
                let place = record.source as usize;
                if place >= counters.len() {
                    counters.resize_with(place + 1, Counter::default);
                }
                counters[place].add(&record);
            }
            Item::Bad(bad) => {
                bad_lines += 1;
                on_bad(&bad)?;
            }
            Item::Other => {}
        }
    }
    let all = counters
        .into_iter()
        .zip(reader.sources())
        .filter(|(counter, _)| counter.stats.requests > 0)
        .map(|(counter, source)| Stats {
            trace: name.to_owned(),
            host: source.host.clone(),
            disk: source.disk.clone(),
            backwards: reader.notes().backwards,
            bad_lines,
            ..counter.finish()
        });
    Ok(all.collect())
}

/// Writes them for people, a column for each trace. GB are 2^30 bytes, as in papers about the MSR
/// Cambridge traces.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn print(all: &[Stats], out: &mut dyn Write) -> Result<()> {
    const GIB: f64 = (1_u64 << 30) as f64;
    const KIB: f64 = 1024.0;
    fn shown(value: Option<f64>, places: usize) -> String {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.places$}"))
    }
    let percent = |ratio: Option<f64>| shown(ratio.map(|ratio| ratio * 100.0), 2);
    let gib = |bytes: u64| shown(Some(bytes as f64 / GIB), 3);
    let kib = |bytes: Option<f64>| shown(bytes.map(|bytes| bytes / KIB), 2);
    type Cell<'a> = &'a dyn Fn(&Stats) -> String;
    let rows: [(&str, Cell<'_>); 24] = [
        ("trace", &|it| it.trace.clone()),
        ("host", &|it| or_dash(&it.host)),
        ("disk", &|it| or_dash(&it.disk)),
        ("reads", &|it| it.reads.to_string()),
        ("writes", &|it| it.writes.to_string()),
        ("read GiB", &|it| gib(it.read_bytes)),
        ("written GiB", &|it| gib(it.write_bytes)),
        ("write ratio %", &|it| percent(it.write_ratio)),
        ("mean read KiB", &|it| kib(it.mean_read_bytes)),
        ("mean write KiB", &|it| kib(it.mean_write_bytes)),
        ("largest request KiB", &|it| {
            kib(Some(it.largest_request_bytes as f64))
        }),
        ("trims", &|it| it.trims.to_string()),
        ("flushes", &|it| it.flushes.to_string()),
        ("footprint GiB", &|it| gib(it.footprint_bytes)),
        ("written footprint GiB", &|it| gib(it.write_footprint_bytes)),
        ("end of last request GiB", &|it| gib(it.end_byte)),
        ("aligned to 512 bytes %", &|it| {
            percent(it.aligned_512_ratio)
        }),
        ("aligned to 4 KiB %", &|it| percent(it.aligned_4k_ratio)),
        ("updates of writes %", &|it| percent(it.update_ratio)),
        ("sequential %", &|it| percent(it.sequential_ratio)),
        ("mean run KiB", &|it| kib(it.mean_run_bytes)),
        ("duration s", &|it| {
            shown(it.duration_ns.map(|ns| ns as f64 / 1e9), 3)
        }),
        ("requests/s", &|it| shown(it.requests_per_second, 2)),
        ("mean response ms", &|it| {
            shown(it.mean_response_ns.map(|ns| ns / 1e6), 3)
        }),
    ];
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, cell)| {
            let cells = all.iter().map(cell);
            [(*name).to_owned()].into_iter().chain(cells).collect()
        })
        .collect();
    report::named_table(&rows, out)
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

/// Writes them as CSV, a line for each trace; the names are those in JSON.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn csv(all: &[Stats], out: &mut dyn Write) -> Result<()> {
    let mut out = csv::Writer::from_writer(out);
    for stats in all {
        out.serialize(stats)?;
    }
    out.flush()?;
    Ok(())
}
