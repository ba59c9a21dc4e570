// SPDX-License-Identifier: GPL-2.0-only

//! The commands that ask a running drive: `config`, `stats`, `zones`, `errors` and `latency`.

use std::{io::Write, path::PathBuf, thread, time::Duration};

use anyhow::Result;
use clap::{
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
    Args, Subcommand,
};
use imrsim_core::{
    latency::Kind,
    uapi::{RESET_SETTINGS, RESET_ZONES},
    Cause, Condition, Settings,
};

use crate::{
    control::{set_command, Clear, Command, Failed, Scope, ZoneAt, LOG_ERRORS},
    device::Device,
    exit::usage,
    latency,
    number::{parse_count, parse_duration, parse_positive, parse_sectors, parse_size},
    report::Style,
    settings,
    watch::{self, watch},
    zones::Filter,
};

/// A device, and how to answer.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// The device, such as /dev/mapper/imrsim
    device: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A command and where it goes.
type Asked<'a> = (&'a Target, Command);

/// A zone, by its number or a sector of it.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct OneZone {
    /// The zone, counted from 0
    #[arg(value_parser = parse_count)]
    zone: Option<u64>,
    /// The zone of this sector, or of this byte if it has a unit: 524288, 256M
    #[arg(long, value_name = "SECTOR|SIZE", value_parser = parse_sectors)]
    lba: Option<u64>,
}

impl OneZone {
    fn at(&self) -> Result<ZoneAt> {
        at(self.zone, self.lba).ok_or_else(|| usage("which zone? Give its number, or --lba"))
    }
}

fn at(zone: Option<u64>, lba: Option<u64>) -> Option<ZoneAt> {
    zone.map(ZoneAt::Index).or(lba.map(ZoneAt::Sector))
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Show what a device is and how it is set
    #[command(after_help = "The same as the numbered command l 4.\n\n\
        Examples:\n  \
        imrsim_util config show /dev/mapper/imrsim\n  \
        imrsim_util config show /dev/mapper/imrsim --json")]
    Show(Target),
    /// Change a setting of a device
    #[command(
        after_help = "The change is durable, and counts from the next request on. Blocks that are \
        mapped stay where they\nare. Names may be written with '-' or '_'. The same as the numbered \
        commands l 5 (allocation), l 6\n(rmw_read_delay), l 7 (write_back_delay), e 3 and e 4 \
        (log_errors).\n\n\
        Examples:\n  \
        imrsim_util config set /dev/mapper/imrsim allocation 3\n  \
        imrsim_util config set /dev/mapper/imrsim rmw-read-delay 250us\n  \
        imrsim_util config set /dev/mapper/imrsim log-errors on"
    )]
    Set(SetArgs),
    /// Set a device back: the conditions of its zones, its settings, or both
    #[command(
        after_help = "Zones are in normal condition then, settings as the device's table line says, \
        or as their default is.\nWhat is on the drive stays, and so do its counters. Without an option both are \
        set back. The same as\nthe numbered commands l 1 (both), l 2 (zones) and l 3 (settings).\n\n\
        Examples:\n  \
        imrsim_util config reset /dev/mapper/imrsim\n  \
        imrsim_util config reset /dev/mapper/imrsim --zones"
    )]
    Reset(ResetConfigArgs),
}

#[derive(Debug, Args)]
pub(super) struct SetArgs {
    #[command(flatten)]
    target: Target,
    /// What to change
    #[arg(value_name = "NAME", value_parser = setting_names())]
    setting: String,
    /// To what
    #[arg(
        long_help = "To what: a number, on or off for a switch; a time may have a unit, as 250us, 5ms, 1s"
    )]
    value: String,
}

#[derive(Debug, Args)]
pub(super) struct ResetConfigArgs {
    #[command(flatten)]
    target: Target,
    /// The conditions of the zones
    #[arg(long)]
    zones: bool,
    /// The settings
    #[arg(long)]
    settings: bool,
}

/// A name with `-` between its words as another spelling.
fn spellings(name: &'static str, doc: &'static str) -> PossibleValue {
    let value = PossibleValue::new(name).help(doc);
    if name.contains('_') {
        value.alias(name.replace('_', "-"))
    } else {
        value
    }
}

/// The names of the settings with what they do and which values they take.
fn setting_names() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(Settings::TABLE.iter().map(|setting| {
        let doc = setting.doc.trim_end_matches('.');
        let help = format!("{doc} ({})", settings::range(setting));
        spellings(setting.name, "").help(help)
    }))
}

/// The kinds of requests.
fn kinds() -> impl TypedValueParser<Value = Kind> {
    let names = Kind::ALL.iter().map(|it| spellings(it.name(), it.doc()));
    PossibleValuesParser::new(names).try_map(|name| {
        latency::kind(&name).ok_or_else(|| usage(format!("there is no kind '{name}'")))
    })
}

/// The conditions of zones.
fn conditions() -> impl TypedValueParser<Value = Condition> {
    PossibleValuesParser::new(Condition::ALL.map(Condition::name)).try_map(|name| {
        Condition::from_name(&name).ok_or_else(|| usage(format!("there is no condition '{name}'")))
    })
}

impl ConfigCommand {
    fn asked(&self) -> Result<Asked<'_>> {
        Ok(match self {
            Self::Show(target) => (target, Command::ShowConfig),
            Self::Set(args) => {
                let command = set_command(&args.setting, &args.value)
                    .map_err(|error| usage(format!("{error:#}")))?;
                (&args.target, command)
            }
            Self::Reset(args) => {
                let what = match (args.zones, args.settings) {
                    (true, false) => RESET_ZONES,
                    (false, true) => RESET_SETTINGS,
                    _ => RESET_ZONES | RESET_SETTINGS,
                };
                (&args.target, Command::ResetConfig(what))
            }
        })
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum StatsCommand {
    /// Show statistics
    #[command(
        after_help = "The same as the numbered commands s 1, s 2 (--first) and s 3 (--zone).\n\n\
        With --watch, a line for each interval: the blocks mapped at its end, and what was counted in it, in\n\
        blocks of 4 KiB but for 'rmw' (read-modify-writes) and 'waf' (write amplification). With --json\n\
        as well, a line has the counters at the end of the interval.\n\
        With --prometheus, text in the exposition format of Prometheus; of the whole device also settings,\n\
        errors and latencies.\n\n\
        Examples:\n  \
        imrsim_util stats show /dev/mapper/imrsim\n  \
        imrsim_util stats show /dev/mapper/imrsim --zone 3 --json\n  \
        imrsim_util stats show /dev/mapper/imrsim --watch 1s --count 10\n  \
        imrsim_util stats show /dev/mapper/imrsim --prometheus > imrsim.prom"
    )]
    Show(ShowArgs),
    /// Set statistics to zero
    #[command(
        after_help = "The same as the numbered commands s 4, s 5 (--lba) and s 6 (--zone). Needs \
        CAP_SYS_ADMIN.\n\n\
        Examples:\n  \
        imrsim_util stats reset /dev/mapper/imrsim\n  \
        imrsim_util stats reset /dev/mapper/imrsim --zone 3\n  \
        imrsim_util stats reset /dev/mapper/imrsim --lba 256M"
    )]
    Reset(ResetArgs),
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    zone: MaybeZone,
    /// Only the first N zones, and their sum
    #[arg(long, value_name = "N", value_parser = parse_positive, conflicts_with_all = ["zone", "lba"])]
    first: Option<u64>,
    /// Go on and on, a line at a time: 1s, 500ms, 2m
    #[arg(long, value_name = "INTERVAL", value_parser = parse_duration)]
    watch: Option<Duration>,
    /// With --watch, end after so many lines
    #[arg(long, value_name = "N", value_parser = parse_count, requires = "watch")]
    count: Option<u64>,
    /// Print text for Prometheus
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    prometheus: bool,
}

/// A zone, or all.
#[derive(Debug, Args)]
pub(super) struct MaybeZone {
    /// Only this zone, counted from 0
    #[arg(long, value_parser = parse_count)]
    zone: Option<u64>,
    /// Only the zone of this sector, or of this byte if it has a unit: 524288, 256M
    #[arg(long, value_name = "SECTOR|SIZE", value_parser = parse_sectors, conflicts_with = "zone")]
    lba: Option<u64>,
}

impl MaybeZone {
    fn at(&self) -> Option<ZoneAt> {
        at(self.zone, self.lba)
    }
}

#[derive(Debug, Args)]
pub(super) struct ResetArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    zone: MaybeZone,
}

impl ShowArgs {
    fn scope(&self) -> Scope {
        match (self.first, self.zone.at()) {
            (Some(zones), _) => Scope::First(zones),
            (_, Some(zone)) => Scope::Zone(zone),
            _ => Scope::Device,
        }
    }

    fn watch(&self, interval: Duration, out: &mut dyn Write) -> Result<()> {
        let options = watch::Options {
            interval,
            count: self.count,
            style: Style::new(self.target.json),
        };
        let mut device = Device::open(&self.target.device)?;
        watch(&mut device, self.scope(), &options, &mut thread::sleep, out)
    }
}

impl StatsCommand {
    fn asked(&self) -> Result<Asked<'_>> {
        Ok(match self {
            Self::Show(args) if args.prometheus => {
                (&args.target, Command::ExportStatistics(args.scope()))
            }
            Self::Show(args) => (&args.target, Command::ShowStatistics(args.scope())),
            Self::Reset(args) => (&args.target, Command::ResetStatistics(args.zone.at())),
        })
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum ZonesCommand {
    /// List zones: where they lie, how full they are, their condition
    #[command(
        after_help = "'blocks' and 'mapped' are blocks of 4 KiB, 'sector' and 'sectors' 512 bytes, \
        'phase' is the phase that\nthe allocation has reached. '-' stands for what is not known of a zone \
        that was not used since the\ndrive was resumed. The same as the numbered command z 6.\n\n\
        Examples:\n  \
        imrsim_util zones list /dev/mapper/imrsim\n  \
        imrsim_util zones list /dev/mapper/imrsim --filter full\n  \
        imrsim_util zones list /dev/mapper/imrsim --filter not-full --first 10 --json"
    )]
    List(ListArgs),
    /// Show a zone and its statistics
    #[command(
        after_help = "The numbered commands z 7 (by sector) and z 8 show the line of the list.\n\n\
        Examples:\n  \
        imrsim_util zones show /dev/mapper/imrsim 3\n  \
        imrsim_util zones show /dev/mapper/imrsim --lba 1GiB"
    )]
    #[command(
        override_usage = "imrsim_util zones show [OPTIONS] <DEVICE> <ZONE|--lba <SECTOR|SIZE>>"
    )]
    Show(ZoneArgs),
    /// Show the number of zones
    #[command(after_help = "The same as the numbered command z 1.\n\n\
        Example:\n  \
        imrsim_util zones count /dev/mapper/imrsim")]
    Count(Target),
    /// Show the size of a zone
    #[command(after_help = "The same as the numbered command z 2.\n\n\
        Example:\n  \
        imrsim_util zones size /dev/mapper/imrsim")]
    Size(Target),
    /// Reset a zone: all of its blocks are unmapped, what is in it is lost
    #[command(
        after_help = "The blocks read as zeros then, durably; counters stay. A zone that is read-only \
        or offline is not\nreset. The same as the numbered commands z 4 (by sector) and z 5. Needs \
        CAP_SYS_ADMIN.\n\n\
        Examples:\n  \
        imrsim_util zones reset /dev/mapper/imrsim 3\n  \
        imrsim_util zones reset /dev/mapper/imrsim --lba 1GiB"
    )]
    #[command(
        override_usage = "imrsim_util zones reset [OPTIONS] <DEVICE> <ZONE|--lba <SECTOR|SIZE>>"
    )]
    Reset(ZoneArgs),
    /// Set what a zone may be used for
    #[command(
        after_help = "read-only: writes, discards and resets of the zone fail. offline: reads fail, \
        too. What is in the\nzone is kept, and is there again when it is normal. Durable. The same as the \
        numbered command z 9.\nNeeds CAP_SYS_ADMIN.\n\n\
        Examples:\n  \
        imrsim_util zones set-condition /dev/mapper/imrsim 3 read-only\n  \
        imrsim_util zones set-condition /dev/mapper/imrsim --lba 1GiB offline\n  \
        imrsim_util zones set-condition /dev/mapper/imrsim --all normal"
    )]
    #[command(
        override_usage = "imrsim_util zones set-condition [OPTIONS] <DEVICE> <ZONE|--lba <SECTOR|SIZE>|--all> <CONDITION>"
    )]
    SetCondition(ConditionArgs),
    /// Set the size of all zones of an empty device
    #[command(
        after_help = "Only while no block is mapped. A zone is a whole number of track pairs, and the \
        device a whole number\nof zones; a size that does not fit is refused, with the nearest that do. The \
        size of the device stays.\nThe device is suspended for a moment. The same as the numbered command \
        z 3. Needs CAP_SYS_ADMIN.\n\n\
        Examples:\n  \
        imrsim_util zones set-size /dev/mapper/imrsim 128M\n  \
        imrsim_util zones set-size /dev/mapper/imrsim 262144s"
    )]
    SetSize(SizeArgs),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    target: Target,
    /// Which zones
    #[arg(long, value_name = "WHICH", default_value = "all")]
    filter: Filter,
    /// Only the first N of them
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    first: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct ZoneArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    zone: OneZone,
}

#[derive(Debug, Args)]
// With --lba or --all, the zone in front of the condition is left out.
#[command(allow_missing_positional = true)]
#[group(id = "which", required = true, multiple = false, args = ["zone", "lba", "all"])]
pub(super) struct ConditionArgs {
    #[command(flatten)]
    target: Target,
    /// The zone, counted from 0
    #[arg(value_parser = parse_count)]
    zone: Option<u64>,
    /// The zone of this sector, or of this byte if it has a unit: 524288, 256M
    #[arg(long, value_name = "SECTOR|SIZE", value_parser = parse_sectors)]
    lba: Option<u64>,
    /// All zones
    #[arg(long)]
    all: bool,
    /// What the zone may be used for
    #[arg(value_parser = conditions(), required = true)]
    condition: Condition,
}

#[derive(Debug, Args)]
pub(super) struct SizeArgs {
    #[command(flatten)]
    target: Target,
    /// The size of a zone, in bytes or with a unit: 128M, 262144s
    #[arg(value_parser = parse_size)]
    size: u64,
}

impl ZonesCommand {
    fn asked(&self) -> Result<Asked<'_>> {
        Ok(match self {
            Self::List(args) => (&args.target, Command::ListZones(args.filter, args.first)),
            Self::Show(args) => (&args.target, Command::ShowZone(args.zone.at()?)),
            Self::Count(target) => (target, Command::ZoneCount),
            Self::Size(target) => (target, Command::ZoneSize),
            Self::Reset(args) => (&args.target, Command::ResetZone(args.zone.at()?)),
            Self::SetCondition(args) => {
                let zone = at(args.zone, args.lba);
                (&args.target, Command::SetCondition(zone, args.condition))
            }
            Self::SetSize(args) => (&args.target, Command::SetZoneSize(args.size)),
        })
    }
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Switch {
    /// From now on
    On,
    /// No longer
    Off,
}

impl Switch {
    fn set(self, setting: &str) -> Result<Command> {
        set_command(
            setting,
            match self {
                Self::On => "on",
                Self::Off => "off",
            },
        )
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum ErrorsCommand {
    /// Show the last read and the last write that failed, and why
    #[command(after_help = errors_help())]
    Show(ErrorsArgs),
    /// Log failed reads and writes in the kernel's log, or do not
    #[command(
        after_help = "The setting log_errors; the same as the numbered commands e 3 (on) and e 4 \
        (off).\n\n\
        Example:\n  \
        imrsim_util errors log on /dev/mapper/imrsim"
    )]
    Log(SwitchArgs),
}

fn errors_help() -> String {
    let causes: Vec<String> = Cause::ALL
        .iter()
        .map(|cause| format!("  {} {:22} {}", cause.number(), cause.name(), cause.doc()))
        .collect();
    format!(
        "'code' and 'name' say why:\n  0 none\n{}\n\
        'count' counts since errors were forgotten. The numbered commands e 1 (reads) and e 2 (writes)\n\
        show one and forget it. --clear needs CAP_SYS_ADMIN.\n\n\
        Examples:\n  \
        imrsim_util errors show /dev/mapper/imrsim\n  \
        imrsim_util errors show /dev/mapper/imrsim --clear --json",
        causes.join("\n")
    )
}

#[derive(Debug, Args)]
pub(super) struct ErrorsArgs {
    #[command(flatten)]
    target: Target,
    /// Forget them when they were shown
    #[arg(long)]
    clear: bool,
}

#[derive(Debug, Args)]
pub(super) struct SwitchArgs {
    /// Whether to do so
    #[arg(value_name = "ON|OFF")]
    switch: Switch,
    #[command(flatten)]
    target: Target,
}

impl ErrorsCommand {
    fn asked(&self) -> Result<Asked<'_>> {
        Ok(match self {
            Self::Show(args) => {
                let clear = if args.clear { Clear::Yes } else { Clear::No };
                (&args.target, Command::ShowErrors(Failed::All, clear))
            }
            Self::Log(args) => (&args.target, args.switch.set(LOG_ERRORS)?),
        })
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum LatencyCommand {
    /// Show how long requests took, as histograms
    #[command(
        after_help = "A line for each bucket: requests that took less than 'below' and are in no line \
        before. Latencies are\nmeasured only while that is switched on: 'imrsim_util latency on DEV'.\n\n\
        Examples:\n  \
        imrsim_util latency show /dev/mapper/imrsim\n  \
        imrsim_util latency show /dev/mapper/imrsim --kind rewrite --json"
    )]
    Show(LatencyArgs),
    /// Begin to measure latencies
    #[command(after_help = "The setting measure_latency.\n\n\
        Example:\n  \
        imrsim_util latency on /dev/mapper/imrsim")]
    On(Target),
    /// End measuring latencies
    #[command(
        after_help = "What was measured can still be shown. The setting measure_latency.\n\n\
        Example:\n  \
        imrsim_util latency off /dev/mapper/imrsim"
    )]
    Off(Target),
}

#[derive(Debug, Args)]
pub(super) struct LatencyArgs {
    #[command(flatten)]
    target: Target,
    /// Only requests of this kind
    #[arg(long, value_parser = kinds())]
    kind: Option<Kind>,
}

impl LatencyCommand {
    fn asked(&self) -> Result<Asked<'_>> {
        Ok(match self {
            Self::Show(args) => (&args.target, Command::ShowLatency(args.kind)),
            Self::On(target) => (target, Switch::On.set(latency::SETTING)?),
            Self::Off(target) => (target, Switch::Off.set(latency::SETTING)?),
        })
    }
}

/// A command to a running drive.
#[derive(Debug)]
pub(super) enum DeviceCommand<'a> {
    Config(&'a ConfigCommand),
    Stats(&'a StatsCommand),
    Zones(&'a ZonesCommand),
    Errors(&'a ErrorsCommand),
    Latency(&'a LatencyCommand),
}

impl<'a> DeviceCommand<'a> {
    fn asked(&self) -> Result<Asked<'a>> {
        match self {
            Self::Config(command) => command.asked(),
            Self::Stats(command) => command.asked(),
            Self::Zones(command) => command.asked(),
            Self::Errors(command) => command.asked(),
            Self::Latency(command) => command.asked(),
        }
    }

    /// What is asked of the drive.
    #[cfg(test)]
    pub(super) fn command(&self) -> Command {
        self.asked().unwrap().1
    }

    pub(super) fn run(&self, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        if let Self::Stats(StatsCommand::Show(args)) = self {
            if let Some(interval) = args.watch {
                return args.watch(interval, out);
            }
        }
        let (target, command) = self.asked()?;
        command.perform(&target.device, Style::new(target.json), out, err)
    }
}
