// SPDX-License-Identifier: GPL-2.0-only

//! The commands below `trace`, and how all commands read traces.

use std::{
    fs::File,
    io::{BufWriter, Write},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{bail, ensure, Context, Result};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;

use super::output;
use crate::{
    exit::usage,
    number::{parse_count, parse_size, parse_time},
    report,
    simulate::MAX_BAD_LINES,
    trace::{
        self, blkparse,
        convert::{self, Fit, OutputFormat},
        csv::{Columns, Delimiter, Layout, OpWords, SpaceUnit, TimeUnit},
        cut, iolog, stat, synth, BadLine, Disks, Format, Percent, Reader, Source, Trace,
    },
};

/// How a trace is read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading the trace")]
pub(super) struct ReadArgs {
    /// Its format, if its content does not tell
    #[arg(long, visible_alias = "from")]
    format: Option<Format>,
    /// Of several disks, the one to take, named as in the trace
    #[arg(long)]
    disk: Option<String>,
    /// Of several hosts, the one to take, named as in the trace
    #[arg(long)]
    host: Option<String>,
    /// Read any text with columns, given by number or by name in its first line; op, offset and
    /// size are needed, time, response, host and disk may be there: time=1,op=2,offset=3,size=4
    #[arg(long, value_name = "WHAT=COLUMN,...")]
    columns: Option<Columns>,
    /// With --columns: what is between them: a character, tab or space [default: ,]
    #[arg(long, value_name = "CHARACTER", requires = "columns")]
    delimiter: Option<Delimiter>,
    /// With --columns: the unit of times
    #[arg(long, value_name = "UNIT", requires = "columns")]
    time_unit: Option<TimeUnit>,
    /// With --columns: the unit of offsets [default: bytes]
    #[arg(long, value_name = "UNIT", requires = "columns")]
    offset_unit: Option<SpaceUnit>,
    /// With --columns: the unit of sizes [default: that of offsets]
    #[arg(long, value_name = "UNIT", requires = "columns")]
    size_unit: Option<SpaceUnit>,
    /// With --columns: the words for operations, if not the usual ones: read=0,write=1
    #[arg(long, value_name = "OP=WORD,...", requires = "columns")]
    ops: Option<OpWords>,
    /// Of blkparse's lines, those that are requests: queued, issued or completed ones
    /// [default: the first of these that the trace has]
    #[arg(long, value_name = "ACTION")]
    action: Option<blkparse::Action>,
    /// Fail at the first line that is not understood
    #[arg(long, conflicts_with = "ignore_bad")]
    pub(super) strict: bool,
    /// Succeed although lines were left out
    #[arg(long)]
    ignore_bad: bool,
}

impl ReadArgs {
    /// Opens a trace; without --disk and --host, for the requests of `disks`.
    pub(super) fn open(&self, path: &Path, disks: Disks) -> Result<Trace> {
        let disks = if self.disk.is_some() || self.host.is_some() {
            Disks::Only {
                host: self.host.clone(),
                disk: self.disk.clone(),
            }
        } else {
            disks
        };
        let options = trace::Options {
            format: self.format,
            disks,
            layout: self.layout()?,
            action: self.action,
        };
        trace::open(path, &options)
    }

    fn layout(&self) -> Result<Option<Layout>> {
        let Some(columns) = &self.columns else {
            return Ok(None);
        };
        if columns.are_timed() && self.time_unit.is_none() {
            return Err(usage("--columns with times needs their unit: --time-unit"));
        }
        let offset = self.offset_unit.unwrap_or(SpaceUnit::Bytes);
        Ok(Some(Layout {
            columns: columns.clone(),
            delimiter: self.delimiter.unwrap_or(Delimiter::Byte(b',')),
            time: self.time_unit.unwrap_or(TimeUnit::Ns),
            offset,
            size: self.size_unit.unwrap_or(offset),
            ops: self.ops.clone().unwrap_or_default(),
        }))
    }
}

/// The formats, for help texts.
pub(super) const FORMATS: &str = "\
    Traces are MSR Cambridge, fio iologs (version 2 and 3), blkparse's text, SYSTOR '17, SPC,\n\
    DiskSim ASCII, or any text with columns (--columns), plain or compressed by gzip or zstd.";

/// What becomes of bad lines, for help texts.
const BAD_LINES: &str = "\
    Lines that are not understood are reported and left out; the exit code is then 1.";

fn stat_help() -> String {
    format!(
        "{FORMATS}\n{BAD_LINES}\n\
        A trace with several disks has a column for each. GiB are 2^30 bytes.\n\n\
        Examples:\n  \
        imrsim_util trace stat hm_0.csv.gz proj_0.csv.gz\n  \
        zcat Financial1.spc.gz | imrsim_util trace stat - --disk 0 --json\n  \
        imrsim_util trace stat io.txt --columns time=1,op=2,offset=3,size=4 --time-unit ms \
        --offset-unit sectors"
    )
}

fn convert_help() -> String {
    format!(
        "{BAD_LINES}\n\
        fio takes each request's offset and length as they are: \
        use --fit for a smaller device.\n\n\
        Examples:\n  \
        imrsim_util trace convert hm_0.csv.gz hm_0.log\n  \
        imrsim_util trace convert hm_0.csv hm_0.log --fit wrap --capacity 1G --align 4k \
        --timestamps\n  \
        imrsim_util trace convert blkparse.txt run.csv --to csv\n  \
        fio --name=replay --read_iolog=hm_0.log --ioengine=libaio --direct=1"
    )
}

#[derive(Debug, Subcommand)]
pub(super) enum TraceCommand {
    /// Measure traces
    #[command(after_help = stat_help())]
    Stat(StatArgs),
    /// Convert a trace to another format, and fit it to a device
    #[command(after_help = convert_help())]
    Convert(ConvertArgs),
    /// Cut a piece out of a trace
    #[command(
        after_help = "Lines stay as they are. Times are from the first request of the trace on;\n\
        --skip and --count are of the requests in that time.\n\n\
        Examples:\n  \
        imrsim_util trace cut hm_0.csv.gz first-hour.csv --end 1h\n  \
        imrsim_util trace cut usr.csv disk1.csv --host usr --disk 1 --skip 1000 --count 5000"
    )]
    Cut(CutArgs),
    /// Generate a synthetic trace: random numbers, not a recording
    #[command(alias = "synth-msr")]
    #[command(
        after_help = "The presets have the published numbers of reads and writes and bytes of four MSR Cambridge\n\
        traces, spread over a week. All else is made up: they are no copies of these traces.\n\
        Options change a preset; --requests shortens it. The same options give the same trace.\n\n\
        Examples:\n  \
        imrsim_util trace synth demo.csv --requests 10000 --span 1G\n  \
        imrsim_util trace synth like-hm_0.csv --preset hm_0 --requests 100000\n  \
        imrsim_util trace synth - --write-ratio 80% --sizes 4k:70,64k:30 --skew 1.2 --seed 7"
    )]
    Synth(SynthArgs),
}

#[derive(Debug, Args)]
pub(super) struct StatArgs {
    /// The traces; - for standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV, a line for each trace
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Debug, Args)]
pub(super) struct ConvertArgs {
    /// The trace, or - for standard input
    input: PathBuf,
    /// The file to write, or - for standard output
    output: PathBuf,
    /// The format to write
    #[arg(long, default_value = "iolog")]
    to: OutputFormat,
    /// What to do with requests beyond the capacity
    #[arg(
        long,
        value_name = "HOW",
        default_value = "reject",
        requires = "capacity"
    )]
    fit: Fit,
    /// Size of the device that will be used: 256M, 1G, 20TB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,
    /// Widen requests to multiples of so many bytes, such as 4k, or leave them: none
    #[arg(long, value_name = "SIZE", default_value = "none", value_parser = parse_align)]
    align: Align,
    /// The device in an iolog
    #[arg(long, value_name = "PATH", default_value = "/dev/mapper/imrsim")]
    device: String,
    /// Keep the times in an iolog (version 3 of the format, for fio 3.31 and later)
    #[arg(long)]
    timestamps: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Bytes to whose multiples requests are widened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Align(pub(super) Option<u64>);

pub(super) fn parse_align(text: &str) -> Result<Align> {
    Ok(Align(match text {
        "none" => None,
        _ => Some(parse_size(text)?),
    }))
}

#[derive(Debug, Args)]
pub(super) struct CutArgs {
    /// The trace, or - for standard input
    input: PathBuf,
    /// The file to write, or - for standard output
    output: PathBuf,
    /// Leave out what is earlier: 90s, 500ms, 10m, 1h
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    start: Option<Duration>,
    /// Leave out what is as late or later
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    end: Option<Duration>,
    /// Leave out so many requests
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "0")]
    skip: u64,
    /// Then keep so many
    #[arg(long, value_name = "N", value_parser = parse_count)]
    count: Option<u64>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Debug, Args)]
pub(super) struct SynthArgs {
    /// The file to write, or - for standard output
    output: PathBuf,
    /// Begin with the published numbers of a trace
    #[arg(long, value_name = "TRACE")]
    preset: Option<synth::Preset>,
    /// Requests [default: 1000, or those of the preset]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    requests: Option<u64>,
    /// Per cent of the requests that write [default: 50]
    #[arg(long, value_name = "PERCENT", conflicts_with = "reads")]
    write_ratio: Option<Percent>,
    /// Per cent of the requests that read
    #[arg(long, value_name = "PERCENT")]
    reads: Option<Percent>,
    /// Sizes and their weights, or mean:SIZE for a mix with that mean [default: 4k:50,8k:20,16k:10,64k:20]
    #[arg(long, value_name = "SIZE:WEIGHT,...")]
    sizes: Option<synth::Sizes>,
    /// The same, of reads only
    #[arg(long, value_name = "SIZE:WEIGHT,...")]
    read_sizes: Option<synth::Sizes>,
    /// The same, of writes only
    #[arg(long, value_name = "SIZE:WEIGHT,...")]
    write_sizes: Option<synth::Sizes>,
    /// The bytes that the requests lie in [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    span: Option<u64>,
    /// The bytes of them that are ever touched [default: a quarter]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    footprint: Option<u64>,
    /// How much goes to few blocks: 0 for evenly, then more and more [default: 0.9]
    #[arg(long, value_name = "NUMBER")]
    skew: Option<f64>,
    /// Per cent of the requests that go on where the one before ended [default: 20]
    #[arg(long, value_name = "PERCENT")]
    sequential: Option<Percent>,
    /// When requests come [default: poisson]
    #[arg(long, value_name = "HOW")]
    arrival: Option<synth::Arrival>,
    /// Requests in a second [default: 100]
    #[arg(long, value_name = "NUMBER")]
    rate: Option<f64>,
    /// What the random choices depend on
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1")]
    seed: u64,
    /// The format to write
    #[arg(long, default_value = "msr")]
    to: OutputFormat,
    /// The device in an iolog
    #[arg(long, value_name = "PATH", default_value = "/dev/mapper/imrsim")]
    device: String,
}

impl SynthArgs {
    fn options(&self) -> Result<synth::Options> {
        let mut options = match self.preset {
            Some(preset) => preset.options(self.seed)?,
            None => {
                let sizes: synth::Sizes = "4k:50,8k:20,16k:10,64k:20".parse()?;
                let span = self.span.unwrap_or(1 << 30);
                synth::Options {
                    requests: 1000,
                    reads: 0.5,
                    read_sizes: sizes.clone(),
                    write_sizes: sizes,
                    span,
                    footprint: (span / 4).max(1 << 20),
                    skew: 0.9,
                    sequential: 0.2,
                    arrival: synth::Arrival::Poisson,
                    interval: 0.01,
                    seed: self.seed,
                }
            }
        };
        fn set<T>(option: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *option = value;
            }
        }
        set(&mut options.requests, self.requests);
        set(&mut options.reads, self.reads.map(|share| share.0));
        let reads = self.write_ratio.map(|share| 1.0 - share.0);
        set(&mut options.reads, reads);
        let sizes = |own: &Option<synth::Sizes>| own.as_ref().or(self.sizes.as_ref()).cloned();
        set(&mut options.read_sizes, sizes(&self.read_sizes));
        set(&mut options.write_sizes, sizes(&self.write_sizes));
        set(&mut options.span, self.span);
        options.footprint = options.footprint.min(options.span);
        set(&mut options.footprint, self.footprint);
        set(&mut options.skew, self.skew);
        set(
            &mut options.sequential,
            self.sequential.map(|share| share.0),
        );
        set(&mut options.arrival, self.arrival);
        set(&mut options.interval, self.rate.map(|rate| 1.0 / rate));
        options.check().map_err(|error| usage(error.to_string()))?;
        Ok(options)
    }
}

/// Runs `trace`'s commands.
pub(super) fn run_trace(
    command: &TraceCommand,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<()> {
    match command {
        TraceCommand::Stat(args) => run_stat(args, out, err),
        TraceCommand::Convert(args) => run_convert(args, out, err),
        TraceCommand::Cut(args) => run_cut(args, out, err),
        TraceCommand::Synth(args) => {
            let options = args.options()?;
            check_device(&args.device)?;
            let output = create(&args.output, None, out)?;
            let mut writer = args.to.writer(output, &args.device)?;
            synth::generate(&options, &mut *writer)
        }
    }
}

/// Checks that a trace is still there after it was read.
pub(super) fn check_readable_twice(path: &Path) -> Result<()> {
    let once = |path: &Path| {
        let kind = path.metadata().map(|it| it.file_type());
        kind.is_ok_and(|it| it.is_fifo() || it.is_char_device() || it.is_socket())
    };
    if path == Path::new("-") || once(path) {
        return Err(usage(format!(
            "--fit scale reads a trace twice: {} has to be a file",
            path.display()
        )));
    }
    Ok(())
}

fn check_device(name: &str) -> Result<()> {
    iolog::check_name(name).map_err(usage)
}

/// Reports the bad lines of a trace.
pub(super) struct BadLines<'a> {
    path: &'a Path,
    err: &'a mut dyn Write,
    progress: ProgressBar,
    strict: bool,
    count: u64,
}

impl<'a> BadLines<'a> {
    pub(super) fn new(
        path: &'a Path,
        trace: &Trace,
        args: &ReadArgs,
        err: &'a mut dyn Write,
    ) -> Self {
        Self {
            path,
            err,
            progress: trace.progress.clone(),
            strict: args.strict,
            count: 0,
        }
    }

    pub(super) fn report(&mut self, bad: &BadLine) -> Result<()> {
        let (path, err) = (self.path.display(), &mut self.err);
        if self.strict {
            self.progress.finish_and_clear();
            bail!("{path}: {bad} (without --strict, it would be left out)");
        }
        self.count += 1;
        if self.count <= MAX_BAD_LINES as u64 {
            // Nowhere to report that reporting fails.
            let _ = self.progress.suspend(|| writeln!(err, "{path}: {bad}"));
        }
        Ok(())
    }

    /// Says how many more there were, and returns how many in all.
    pub(super) fn finish(self) -> Result<u64> {
        let more = self.count.saturating_sub(MAX_BAD_LINES as u64);
        if more > 0 {
            writeln!(self.err, "{}: {more} more bad lines", self.path.display())?;
        }
        Ok(self.count)
    }
}

/// Fails if there were bad lines, unless they may be ignored.
pub(super) fn accept(bad_lines: u64, args: &ReadArgs) -> Result<()> {
    ensure!(
        bad_lines == 0 || args.ignore_bad,
        "{bad_lines} bad lines were left out (--ignore-bad accepts that)"
    );
    Ok(())
}

/// Says that there was nothing to do, and which disks there are if none of them was asked for.
pub(super) fn no_requests(path: &Path, sources: &[Source], other_disks: u64) -> String {
    const MAX: usize = 20;
    let mut text = format!("{} has no requests", path.display());
    if other_disks > 0 {
        let names: Vec<String> = sources.iter().take(MAX).map(ToString::to_string).collect();
        let more = if sources.len() > MAX { ", ..." } else { "" };
        text += &format!(" of the disk asked for, only of {}{more}", names.join(", "));
    }
    text
}

fn run_stat(args: &StatArgs, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
    let mut all = Vec::new();
    let mut count = 0;
    for path in &args.traces {
        let mut reader = args.read.open(path, Disks::All)?;
        let mut bad_lines = BadLines::new(path, &reader, &args.read, err);
        let name = path.display().to_string();
        let stats = stat::measure(&name, &mut reader, &mut |bad| bad_lines.report(bad))?;
        count += bad_lines.finish()?;
        if stats.is_empty() {
            writeln!(
                err,
                "{}",
                no_requests(path, reader.sources(), reader.notes().other_disks)
            )?;
        }
        all.extend(stats);
    }
    if args.json {
        report::json(&all, out)?;
    } else if args.csv {
        stat::csv(&all, out)?;
    } else if !all.is_empty() {
        stat::print(&all, out)?;
    }
    out.flush()?;
    accept(count, &args.read)?;
    ensure!(!all.is_empty(), "there is nothing to measure");
    Ok(())
}

fn run_convert(args: &ConvertArgs, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
    let mut options = convert::Options {
        capacity: args.capacity,
        fit: args.fit,
        span: 0,
        align: args.align.0,
    };
    options.check().map_err(|error| usage(error.to_string()))?;
    check_device(&args.device)?;
    let to = match args.to {
        OutputFormat::Iolog if args.timestamps => OutputFormat::Iolog3,
        OutputFormat::Msr | OutputFormat::Csv if args.timestamps => {
            return Err(usage(
                "--timestamps is for iologs; other formats always have times",
            ));
        }
        to => to,
    };
    // An iolog is for one device.
    let disks = match to {
        OutputFormat::Iolog | OutputFormat::Iolog3 => Disks::First,
        OutputFormat::Msr | OutputFormat::Csv => Disks::All,
    };
    if args.fit == Fit::Scale {
        check_readable_twice(&args.input)?;
        let mut reader = args.read.open(&args.input, disks.clone())?;
        options.span = convert::span(&mut reader)?;
    }
    let mut reader = args.read.open(&args.input, disks)?;
    let to_stdout = args.output == Path::new("-");
    let mut bad_lines = BadLines::new(&args.input, &reader, &args.read, err);
    let summary = {
        let output = create(&args.output, Some(&args.input), out)?;
        let mut writer = to.writer(output, &args.device)?;
        convert::convert(&mut reader, &mut *writer, &options, &mut |bad| {
            bad_lines.report(bad)
        })?
    };
    let summary_to: &mut dyn Write = if to_stdout { bad_lines.err } else { out };
    if args.json {
        report::json(&summary, summary_to)?;
    } else {
        summary.print(summary_to)?;
    }
    out.flush()?;
    accept(bad_lines.finish()?, &args.read)?;
    ensure!(
        summary.written > 0,
        no_requests(&args.input, reader.sources(), summary.other_disks)
    );
    Ok(())
}

fn run_cut(args: &CutArgs, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
    // More than 2^64 ns are never reached.
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let options = cut::Options {
        start: args.start.map(nanoseconds),
        end: args.end.map(nanoseconds),
        skip: args.skip,
        count: args.count,
    };
    if let (Some(start), Some(end)) = (args.start, args.end) {
        if start >= end {
            return Err(usage("--end has to be later than --start"));
        }
    }
    let mut reader = args.read.open(&args.input, Disks::All)?;
    let mut bad_lines = BadLines::new(&args.input, &reader, &args.read, err);
    let to_stdout = args.output == Path::new("-");
    let summary = {
        let output = create(&args.output, Some(&args.input), out)?;
        cut::cut(&mut reader, output, &options, &mut |bad| {
            bad_lines.report(bad)
        })?
    };
    reader.progress.finish_and_clear();
    let summary_to: &mut dyn Write = if to_stdout { bad_lines.err } else { out };
    if args.json {
        report::json(&summary, summary_to)?;
    } else {
        writeln!(summary_to, "{summary}")?;
    }
    out.flush()?;
    accept(bad_lines.finish()?, &args.read)
}

/// Opens a file to be written, `-` being `out`. Never a device, nor the file that is read.
pub(super) fn create<'a>(
    path: &Path,
    input: Option<&Path>,
    out: &'a mut dyn Write,
) -> Result<Box<dyn Write + 'a>> {
    if path == Path::new("-") {
        return Ok(Box::new(out));
    }
    output::check(path, input)?;
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}
