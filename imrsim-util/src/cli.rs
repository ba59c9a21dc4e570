// SPDX-License-Identifier: GPL-2.0-only

//! The named commands. Each parses its options and calls the library.

mod devices;
mod drives;
mod generate;
mod output;
mod record;
mod replay;
mod show;
mod simulate;
mod traces;

use std::{
    ffi::OsString,
    io::{self, BufWriter, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::{Args, CommandFactory, Parser, Subcommand};
use imrsim_core::Geometry;

use self::devices::DeviceCommand;
use crate::{
    check, classic, dump, exit, format, report,
    size::{self, Backing, Size},
};

/// Controls IMRSim devices, simulates interlaced magnetic recording drives and converts traces
#[derive(Debug, Parser)]
#[command(name = "imrsim_util", version, disable_help_subcommand = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = after_help())]
struct Cli {
    #[command(subcommand)]
    command: Named,
}

#[derive(Debug, Subcommand)]
enum Named {
    /// Show and change the settings of a device
    #[command(subcommand, disable_help_subcommand = true)]
    #[command(
        after_help = "'imrsim_util config DEV' is short for 'imrsim_util config show DEV'.\n\n\
        Examples:\n  \
        imrsim_util config show /dev/mapper/imrsim\n  \
        imrsim_util config set /dev/mapper/imrsim allocation 3\n  \
        imrsim_util config reset /dev/mapper/imrsim --settings"
    )]
    Config(devices::ConfigCommand),
    /// Show the statistics of a device, or set them to zero
    #[command(subcommand, disable_help_subcommand = true)]
    #[command(
        after_help = "'imrsim_util stats DEV' is short for 'imrsim_util stats show DEV'.\n\n\
        Examples:\n  \
        imrsim_util stats show /dev/mapper/imrsim\n  \
        imrsim_util stats reset /dev/mapper/imrsim"
    )]
    Stats(devices::StatsCommand),
    /// Show and change the zones of a device
    #[command(subcommand, disable_help_subcommand = true)]
    #[command(after_help = "Examples:\n  \
        imrsim_util zones list /dev/mapper/imrsim --filter full\n  \
        imrsim_util zones show /dev/mapper/imrsim 3\n  \
        imrsim_util zones reset /dev/mapper/imrsim 3")]
    Zones(devices::ZonesCommand),
    /// Show which requests failed last, and log those that fail
    #[command(subcommand, disable_help_subcommand = true)]
    #[command(
        after_help = "'imrsim_util errors DEV' is short for 'imrsim_util errors show DEV'.\n\n\
        Examples:\n  \
        imrsim_util errors show /dev/mapper/imrsim\n  \
        imrsim_util errors log on /dev/mapper/imrsim"
    )]
    Errors(devices::ErrorsCommand),
    /// Measure and show how long requests take
    #[command(subcommand, disable_help_subcommand = true)]
    #[command(
        after_help = "'imrsim_util latency DEV' is short for 'imrsim_util latency show DEV'.\n\n\
        Examples:\n  \
        imrsim_util latency on /dev/mapper/imrsim\n  \
        imrsim_util latency show /dev/mapper/imrsim --kind rewrite"
    )]
    Latency(devices::LatencyCommand),
    /// Make a drive on a device
    #[command(after_help = drives::CREATE_HELP)]
    Create(drives::CreateArgs),
    /// Remove a drive; what is on it stays on its device
    #[command(
        after_help = "All that was written is made durable first. The drive must not be in use.\n\n\
        Example:\n  \
        imrsim_util remove imrsim"
    )]
    Remove(drives::RemoveArgs),
    /// List the drives there are
    #[command(after_help = drives::LIST_HELP)]
    List(drives::ListArgs),
    /// Show how large a drive a backing device can hold
    #[command(after_help = "Prints the sectors for the device's table line.\n\n\
        Examples:\n  \
        imrsim_util size /dev/sdb\n  \
        imrsim_util size 100G -z\n  \
        imrsim_util size 20TB --json\n  \
        dmsetup create imrsim --table \"$(imrsim_util size /dev/sdb --table)\"")]
    Size(SizeArgs),
    /// Prepare a device for a drive
    #[command(after_help = format::AFTER_HELP)]
    Format(format::Args),
    /// Check the metadata of a drive that is not running
    #[command(after_help = check::AFTER_HELP)]
    Check(check::Args),
    /// Show the metadata of a drive
    #[command(after_help = dump::AFTER_HELP)]
    Dump(dump::Args),
    /// Run traces on simulated drives
    #[command(after_help = simulate::after_help())]
    Simulate(simulate::SimulateArgs),
    /// Record what a drive does, block by block
    #[command(after_help = record::AFTER_HELP)]
    Record(record::RecordArgs),
    /// Show a drive live, or a recording of one as a page or a picture
    #[command(after_help = show::AFTER_HELP)]
    Show(show::ShowArgs),
    /// Run a trace on a drive, with fio
    #[command(after_help = format!("{}\n{}", traces::FORMATS, replay::HELP))]
    Replay(replay::ReplayArgs),
    /// Measure, convert, cut and generate traces
    #[command(subcommand, disable_help_subcommand = true)]
    #[command(after_help = "Examples:\n  \
        imrsim_util trace stat hm_0.csv.gz\n  \
        imrsim_util trace convert hm_0.csv hm_0.log\n  \
        imrsim_util trace cut hm_0.csv first-hour.csv --end 1h\n  \
        imrsim_util trace synth demo.csv")]
    Trace(traces::TraceCommand),
    /// Write shell completions and manual pages, or the C header
    #[command(hide = true)]
    #[command(
        after_help = "Examples:\n  imrsim_util generate build/share\n  imrsim_util generate header"
    )]
    Generate(generate::GenerateArgs),
}

impl Named {
    /// The command as one to a running drive, if it is one.
    fn of_device(&self) -> Option<DeviceCommand<'_>> {
        match self {
            Self::Config(command) => Some(DeviceCommand::Config(command)),
            Self::Stats(command) => Some(DeviceCommand::Stats(command)),
            Self::Zones(command) => Some(DeviceCommand::Zones(command)),
            Self::Errors(command) => Some(DeviceCommand::Errors(command)),
            Self::Latency(command) => Some(DeviceCommand::Latency(command)),
            _ => None,
        }
    }
}

#[derive(Debug, Args)]
struct SizeArgs {
    /// A block device or file (a path with a '/' in it), or a size: 100G, 20TB, 41943040s
    #[arg(value_name = "DEV|SIZE")]
    backing: String,
    /// Blocks in a top track, in a bottom track, and track groups in a zone
    #[arg(long, value_name = "T,B,G", value_parser = size::parse_geometry)]
    #[arg(default_value = "456,568,64")]
    geometry: Geometry,
    /// Print the whole table line, for a drive from sector START of the device on
    #[arg(long, value_name = "START", num_args = 0..=1, default_missing_value = "0")]
    #[arg(value_parser = size::parse_start)]
    table: Option<u64>,
    /// Print how many whole zones fit, instead of their sectors
    #[arg(short, long, conflicts_with_all = ["table", "json"])]
    zones: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "table")]
    json: bool,
}

fn after_help() -> String {
    format!(
        "Numbered commands, as in the first IMRSim: imrsim_util <device> <code> <seq> [arg] [--json]\n{}\n\
         Every command has a --help with examples. Sizes are bytes, or have a unit: 4k, 256M, 1GiB, 20TB.\n\
         Whoever may read the device's node may ask; changes need CAP_SYS_ADMIN.\n\n\
         Exit codes: 0 done; 1 a device, a file or the kernel failed, or a trace had bad lines;\n\
         2 the command line is wrong, nothing was done; 3 and 4: see 'check --help'.\n\n\
         Examples:\n  \
         imrsim_util create imrsim /dev/sdb\n  \
         imrsim_util stats show /dev/mapper/imrsim --json\n  \
         imrsim_util config set /dev/mapper/imrsim allocation 3\n  \
         imrsim_util simulate hm_0.csv --capacity 16GiB --usage 80% --strategy 2,3",
        classic::help()
    )
}

/// Runs the program with its command line, the program's name first.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let mut out = BufWriter::new(io::stdout().lock());
    let mut err = io::stderr();
    let result = dispatch(&args, &mut out, &mut err).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    match result {
        Ok(code) => ExitCode::from(code),
        // Whoever read the output has enough of it.
        Err(error) if exit::is_broken_pipe(&error) => ExitCode::from(exit::OK),
        Err(error) => {
            // What is printed already comes first. There is nowhere to report a failure of either.
            let _ = out.flush();
            let _ = writeln!(err, "error: {error:#}");
            ExitCode::from(exit::code(&error))
        }
    }
}

fn dispatch(args: &[OsString], out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    let clap = Cli::command();
    let names: Vec<&str> = clap
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    let words = args.get(1..).unwrap_or_default();
    if classic::is_classic(words, &names) {
        return classic::run(words, out, err);
    }
    let cli = match Cli::try_parse_from(spelt_out(args)) {
        Ok(cli) => cli,
        Err(error) => {
            let text = error.render().to_string();
            if error.use_stderr() {
                write!(err, "{text}")?;
                return Ok(exit::USAGE);
            }
            write!(out, "{text}")?;
            return Ok(exit::OK);
        }
    };
    if let Some(command) = cli.command.of_device() {
        command.run(out, err)?;
        return Ok(exit::OK);
    }
    match cli.command {
        // Done by now.
        Named::Config(_)
        | Named::Stats(_)
        | Named::Zones(_)
        | Named::Errors(_)
        | Named::Latency(_) => {}
        Named::Create(args) => args.run(out)?,
        Named::Remove(args) => args.run(out)?,
        Named::List(args) => args.run(out)?,
        Named::Size(args) => run_size(&args, out)?,
        Named::Format(args) => format::run(&args, out)?,
        Named::Check(args) => return check::run(&args, out),
        Named::Dump(args) => return dump::run(&args, out),
        Named::Simulate(args) => args.run(out, err)?,
        Named::Record(args) => args.run(out, err)?,
        Named::Show(args) => args.run(out)?,
        Named::Replay(args) => args.run(out, err)?,
        Named::Generate(args) => args.run(Cli::command(), out)?,
        Named::Trace(command) => traces::run_trace(&command, out, err)?,
    }
    Ok(exit::OK)
}

/// The commands that may leave out their `show`.
const SHORT: [&str; 4] = ["config", "stats", "errors", "latency"];

/// `config DEV` and others with the `show` that they are short for.
fn spelt_out(args: &[OsString]) -> Vec<OsString> {
    let mut args = args.to_vec();
    let is_short = |word: &OsString, next: Option<&OsString>| {
        let word = word.to_string_lossy();
        let next = next.map(|word| word.to_string_lossy());
        // A misspelt command is left to the parser, which has a better message for that.
        SHORT.contains(&&*word)
            && next.is_some_and(|next| {
                let help = next == "-h" || next == "--help";
                next.contains('/') || (next.starts_with('-') && !help) || Path::new(&*next).exists()
            })
    };
    if args.get(1).is_some_and(|word| is_short(word, args.get(2))) {
        args.insert(2, "show".into());
    }
    args
}

fn run_size(args: &SizeArgs, out: &mut dyn Write) -> Result<()> {
    let backing = Backing::parse(&args.backing)?;
    let sectors = backing.sectors()?;
    match args.table {
        Some(start) => {
            let device = backing.block_device()?;
            let left = sectors
                .checked_sub(start)
                .with_context(|| format!("{device} has only {sectors} sectors"))?;
            let size = Size::of(&args.geometry, left)?;
            writeln!(out, "{}", size.table_line(&args.geometry, device, start))?;
        }
        None => {
            let size = Size::of(&args.geometry, sectors)?;
            if args.json {
                report::json(&size, out)?;
            } else if args.zones {
                writeln!(out, "{}", size.zones)?;
            } else {
                writeln!(out, "{}", size.data_sectors)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use imrsim_core::{latency::Kind, Condition};

    use super::*;
    use crate::{
        control::{Clear, Command, Failed, Scope, ZoneAt},
        zones::Filter,
    };

    #[test]
    fn names_mean_what_they_say() {
        let zone = ZoneAt::Index(3);
        let lba = ZoneAt::Sector(8);
        for (line, command) in [
            ("config show D", Command::ShowConfig),
            ("config set D allocation 3", Command::Set(0, 3)),
            ("config set D rmw-read-delay 5ms", Command::Set(1, 5000)),
            ("config set D write_back_delay 1", Command::Set(2, 1)),
            ("config reset D", Command::ResetConfig(3)),
            ("config reset D --zones --settings", Command::ResetConfig(3)),
            ("config reset D --zones", Command::ResetConfig(1)),
            ("config reset D --settings", Command::ResetConfig(2)),
            ("stats show D", Command::ShowStatistics(Scope::Device)),
            (
                "stats show D --first 3",
                Command::ShowStatistics(Scope::First(3)),
            ),
            (
                "stats show D --zone 3",
                Command::ShowStatistics(Scope::Zone(zone)),
            ),
            (
                "stats show D --lba 4k",
                Command::ShowStatistics(Scope::Zone(lba)),
            ),
            (
                "stats show D --prometheus",
                Command::ExportStatistics(Scope::Device),
            ),
            ("stats reset D", Command::ResetStatistics(None)),
            (
                "stats reset D --zone 3",
                Command::ResetStatistics(Some(zone)),
            ),
            ("stats reset D --lba 8", Command::ResetStatistics(Some(lba))),
            ("zones list D", Command::ListZones(Filter::All, None)),
            (
                "zones list D --filter not-full --first 9",
                Command::ListZones(Filter::NotFull, Some(9)),
            ),
            ("zones show D 3", Command::ShowZone(zone)),
            ("zones show D --lba 4k", Command::ShowZone(lba)),
            ("zones count D", Command::ZoneCount),
            ("zones size D", Command::ZoneSize),
            ("zones reset D 3", Command::ResetZone(zone)),
            ("zones reset D --lba 8", Command::ResetZone(lba)),
            (
                "zones set-condition D 3 read-only",
                Command::SetCondition(Some(zone), Condition::ReadOnly),
            ),
            (
                "zones set-condition D --lba 8 offline",
                Command::SetCondition(Some(lba), Condition::Offline),
            ),
            (
                "zones set-condition D --all normal",
                Command::SetCondition(None, Condition::Normal),
            ),
            ("zones set-size D 4M", Command::SetZoneSize(4 << 20)),
            ("errors show D", Command::ShowErrors(Failed::All, Clear::No)),
            (
                "errors show D --clear",
                Command::ShowErrors(Failed::All, Clear::Yes),
            ),
            ("errors log on D", Command::Set(3, 1)),
            ("errors log off D", Command::Set(3, 0)),
            ("latency show D", Command::ShowLatency(None)),
            (
                "latency show D --kind read-zeros",
                Command::ShowLatency(Some(Kind::ReadZeros)),
            ),
            ("latency on D", Command::Set(4, 1)),
            ("latency off D", Command::Set(4, 0)),
        ] {
            let words = ["imrsim_util"].into_iter().chain(line.split(' '));
            let cli = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
            let found = cli.command.of_device().expect(line).command();
            assert_eq!(found, command, "{line}");
        }
    }
}
