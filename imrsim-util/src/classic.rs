// SPDX-License-Identifier: GPL-2.0-only

//! The command line of the original tool: `imrsim_util <device> <code> <seq> [arg]`.
//!
//! The table below is all there is to it: each line names a [`Command`]. Everything is checked
//! before the device is opened, so that a wrong command changes nothing. Whatever goes wrong, the
//! message says what, how the command is used, and shows one that is right. A last word `--json` asks
//! for an answer in JSON.

use std::{ffi::OsString, fmt::Write as _, io::Write, path::Path};

use anyhow::{bail, Context, Result};
use clap::ValueEnum;
use imrsim_core::{
    uapi::{RESET_SETTINGS, RESET_ZONES},
    Condition,
};

use crate::{
    control::{set_command, Clear, Command, Failed, Scope, ZoneAt, LOG_ERRORS},
    exit,
    number::{parse_count, parse_positive, parse_sectors, SECTOR},
    report::Style,
    zones::Filter,
};

/// A command.
#[derive(Debug)]
struct Entry {
    code: &'static str,
    seq: u64,
    args: &'static [Arg],
    about: &'static str,
    /// Makes the command, of the words behind the number.
    command: fn(&Words<'_>) -> Result<Command>,
}

/// An argument of a command.
#[derive(Debug)]
struct Arg {
    name: &'static str,
    example: &'static str,
}

/// The words behind the number: as many as the entry has arguments, or one less if the last is
/// optional.
struct Words<'a> {
    entry: &'static Entry,
    words: &'a [String],
}

/// The codes and what their commands are about.
const CODES: [(&str, &str); 4] = [
    ("e", "errors"),
    ("l", "allocation and configuration"),
    ("s", "statistics"),
    ("z", "zones"),
];

const ZONE: Arg = Arg {
    name: "<zone>",
    example: "0",
};
const LBA: Arg = Arg {
    name: "<lba>",
    example: "524288",
};
const COUNT: Arg = Arg {
    name: "<n>",
    example: "10",
};
const DELAY: Arg = Arg {
    name: "<microseconds>",
    example: "250",
};
const FILTER: Arg = Arg {
    name: "[filter]",
    example: "not-full",
};

const TABLE: [Entry; 26] = [
    Entry {
        code: "e",
        seq: 1,
        args: &[],
        about: "show the last error of a read, and forget it",
        command: |_| Ok(Command::ShowErrors(Failed::Reads, Clear::IfAllowed)),
    },
    Entry {
        code: "e",
        seq: 2,
        args: &[],
        about: "show the last error of a write, and forget it",
        command: |_| Ok(Command::ShowErrors(Failed::Writes, Clear::IfAllowed)),
    },
    Entry {
        code: "e",
        seq: 3,
        args: &[],
        about: "log errors in the kernel's log",
        command: |_| set_command(LOG_ERRORS, "on"),
    },
    Entry {
        code: "e",
        seq: 4,
        args: &[],
        about: "do not log errors",
        command: |_| set_command(LOG_ERRORS, "off"),
    },
    Entry {
        code: "l",
        seq: 1,
        args: &[],
        about: "reset the zones' conditions and all settings",
        command: |_| Ok(Command::ResetConfig(RESET_ZONES | RESET_SETTINGS)),
    },
    Entry {
        code: "l",
        seq: 2,
        args: &[],
        about: "reset the zones' conditions",
        command: |_| Ok(Command::ResetConfig(RESET_ZONES)),
    },
    Entry {
        code: "l",
        seq: 3,
        args: &[],
        about: "reset all settings",
        command: |_| Ok(Command::ResetConfig(RESET_SETTINGS)),
    },
    Entry {
        code: "l",
        seq: 4,
        args: &[],
        about: "show the configuration",
        command: |_| Ok(Command::ShowConfig),
    },
    Entry {
        code: "l",
        seq: 5,
        args: &[Arg {
            name: "<phases>",
            example: "3",
        }],
        about: "set the allocation of blocks first written from now on",
        command: |words| words.set("allocation"),
    },
    Entry {
        code: "l",
        seq: 6,
        args: &[DELAY],
        about: "set how long a rewrite waits before it reads",
        command: |words| words.set("rmw_read_delay"),
    },
    Entry {
        code: "l",
        seq: 7,
        args: &[DELAY],
        about: "set how long a rewrite waits before it writes back",
        command: |words| words.set("write_back_delay"),
    },
    Entry {
        code: "s",
        seq: 1,
        args: &[],
        about: "show the statistics of the device and of each zone used",
        command: |_| Ok(Command::ShowStatistics(Scope::Device)),
    },
    Entry {
        code: "s",
        seq: 2,
        args: &[COUNT],
        about: "show the statistics of the first n zones",
        command: |words| Ok(Command::ShowStatistics(Scope::First(words.count(0)?))),
    },
    Entry {
        code: "s",
        seq: 3,
        args: &[ZONE],
        about: "show the statistics of a zone",
        command: |words| Ok(Command::ShowStatistics(Scope::Zone(words.zone(0)?))),
    },
    Entry {
        code: "s",
        seq: 4,
        args: &[],
        about: "set all statistics to 0",
        command: |_| Ok(Command::ResetStatistics(None)),
    },
    Entry {
        code: "s",
        seq: 5,
        args: &[LBA],
        about: "set the statistics of the zone of a sector to 0",
        command: |words| Ok(Command::ResetStatistics(Some(words.lba(0)?))),
    },
    Entry {
        code: "s",
        seq: 6,
        args: &[ZONE],
        about: "set the statistics of a zone to 0",
        command: |words| Ok(Command::ResetStatistics(Some(words.zone(0)?))),
    },
    Entry {
        code: "z",
        seq: 1,
        args: &[],
        about: "show the number of zones",
        command: |_| Ok(Command::ZoneCount),
    },
    Entry {
        code: "z",
        seq: 2,
        args: &[],
        about: "show the size of a zone",
        command: |_| Ok(Command::ZoneSize),
    },
    Entry {
        code: "z",
        seq: 3,
        args: &[Arg {
            name: "<sectors>",
            example: "262144",
        }],
        about: "set the size of a zone, while the device is empty",
        command: |words| Ok(Command::SetZoneSize(words.bytes(0)?)),
    },
    Entry {
        code: "z",
        seq: 4,
        args: &[LBA],
        about: "reset the zone of a sector: what is in it is lost",
        command: |words| Ok(Command::ResetZone(words.lba(0)?)),
    },
    Entry {
        code: "z",
        seq: 5,
        args: &[ZONE],
        about: "reset a zone: what is in it is lost",
        command: |words| Ok(Command::ResetZone(words.zone(0)?)),
    },
    Entry {
        code: "z",
        seq: 6,
        args: &[COUNT, FILTER],
        about: "show the first n zones that a filter lists",
        command: |words| Ok(Command::ListZones(words.filter(1)?, Some(words.count(0)?))),
    },
    Entry {
        code: "z",
        seq: 7,
        args: &[LBA, FILTER],
        about: "show the zone of a sector",
        command: |words| Ok(Command::ListZone(words.lba(0)?, words.filter(1)?)),
    },
    Entry {
        code: "z",
        seq: 8,
        args: &[ZONE, FILTER],
        about: "show a zone",
        command: |words| Ok(Command::ListZone(words.zone(0)?, words.filter(1)?)),
    },
    Entry {
        code: "z",
        seq: 9,
        args: &[
            ZONE,
            Arg {
                name: "<condition>",
                example: "read-only",
            },
        ],
        about: "set the condition of a zone",
        command: |words| {
            Ok(Command::SetCondition(
                Some(words.zone(0)?),
                words.condition(1)?,
            ))
        },
    },
];

/// The help for the commands, for instance as a part of `imrsim_util --help`.
pub fn help() -> String {
    let mut help = String::new();
    for (code, about) in CODES {
        // Writing to a `String` does not fail.
        let _ = writeln!(help, "  {about}:");
        for entry in TABLE.iter().filter(|entry| entry.code == code) {
            let _ = writeln!(help, "{}", entry.help());
        }
    }
    help
}

impl Entry {
    fn name(&self) -> String {
        format!("'{} {}'", self.code, self.seq)
    }

    fn usage(&self) -> String {
        let mut usage = format!("{} {}", self.code, self.seq);
        for arg in self.args {
            usage.push(' ');
            usage.push_str(arg.name);
        }
        usage
    }

    fn help(&self) -> String {
        format!("    {:22}  {}", self.usage(), self.about)
    }

    fn example(&self) -> String {
        let mut example = format!("imrsim_util /dev/mapper/imrsim {} {}", self.code, self.seq);
        for arg in self.args {
            example.push(' ');
            example.push_str(arg.example);
        }
        example
    }

    /// The command, with the arguments behind its number.
    fn parse(&'static self, words: &[String]) -> Result<Command> {
        let name = self.name();
        let mut needed = self.args.iter().filter(|arg| !arg.is_optional());
        if let Some(missing) = needed.nth(words.len()) {
            bail!("{name} needs an argument: {}", missing.name);
        }
        if let Some(extra) = words.get(self.args.len()) {
            match self.args.len() {
                0 => bail!("{name} takes no argument, but there is '{extra}'"),
                1 => bail!("{name} takes one argument, but there is also '{extra}'"),
                many => bail!("{name} takes {many} arguments, but there is also '{extra}'"),
            }
        }
        (self.command)(&Words { entry: self, words })
    }
}

impl Arg {
    fn is_optional(&self) -> bool {
        self.name.starts_with('[')
    }
}

impl Words<'_> {
    /// Argument `index`; [`None`] if it is optional and not there.
    fn get<T>(&self, index: usize, parse: impl Fn(&str) -> Result<T>) -> Result<Option<T>> {
        let arg = &self.entry.args[index];
        self.words
            .get(index)
            .map(|word| parse(word))
            .transpose()
            .with_context(|| format!("bad {} for {}", arg.name, self.entry.name()))
    }

    /// Argument `index`, which is not optional.
    fn need<T>(&self, index: usize, parse: impl Fn(&str) -> Result<T>) -> Result<T> {
        self.get(index, parse)?
            .with_context(|| format!("{} needs another argument", self.entry.name()))
    }

    fn zone(&self, index: usize) -> Result<ZoneAt> {
        Ok(ZoneAt::Index(self.need(index, parse_count)?))
    }

    fn lba(&self, index: usize) -> Result<ZoneAt> {
        Ok(ZoneAt::Sector(self.need(index, parse_sectors)?))
    }

    fn count(&self, index: usize) -> Result<u64> {
        self.need(index, parse_positive)
    }

    /// A size, of which a bare number counts sectors.
    fn bytes(&self, index: usize) -> Result<u64> {
        self.need(index, |word| {
            let sectors = parse_sectors(word)?;
            sectors
                .checked_mul(SECTOR)
                .with_context(|| format!("'{word}' is too large: sizes are below 2^64 bytes"))
        })
    }

    fn filter(&self, index: usize) -> Result<Filter> {
        Ok(self.get(index, parse_filter)?.unwrap_or(Filter::All))
    }

    fn condition(&self, index: usize) -> Result<Condition> {
        self.need(index, parse_condition)
    }

    fn set(&self, setting: &str) -> Result<Command> {
        self.need(0, |word| set_command(setting, word))
    }
}

/// Reads a filter, by its number or its name.
fn parse_filter(word: &str) -> Result<Filter> {
    let names = || Filter::value_variants().iter();
    names()
        .find(|it| it.number().to_string() == word || it.name() == word)
        .copied()
        .with_context(|| {
            let list: Vec<String> = names()
                .map(|it| format!("{} {}", it.number(), it.name()))
                .collect();
            format!("'{word}' is no filter: there are {}", list.join(", "))
        })
}

/// Reads a condition, by its number or its name.
fn parse_condition(word: &str) -> Result<Condition> {
    let all = || Condition::ALL.into_iter();
    all()
        .find(|it| it.number().to_string() == word || it.name() == word)
        .with_context(|| {
            let list: Vec<String> = all()
                .map(|it| format!("{} {}", it.number(), it.name()))
                .collect();
            format!("'{word}' is no condition: there are {}", list.join(", "))
        })
}

/// Finds the command. With an error comes which commands to explain.
fn parse(args: &[String]) -> Result<(&'static Entry, Command), (anyhow::Error, Help)> {
    let Some((code, rest)) = args.split_first() else {
        return Err((
            anyhow::anyhow!("what to do with the device is missing"),
            Help::All,
        ));
    };
    let Some(first) = TABLE.iter().find(|entry| entry.code == code) else {
        let codes = CODES.map(|(code, _)| format!("'{code}'")).join(", ");
        let error = anyhow::anyhow!("unknown code '{code}': there are {codes}");
        return Err((error, Help::All));
    };
    let help = Help::Code(first.code);
    let Some((seq, rest)) = rest.split_first() else {
        let error = anyhow::anyhow!("'{code}' needs a number that says which command");
        return Err((error, help));
    };
    let entry = parse_count(seq)
        .ok()
        .and_then(|seq| TABLE.iter().find(|it| it.code == code && it.seq == seq));
    let Some(entry) = entry else {
        return Err((anyhow::anyhow!("'{code}' has no command '{seq}'"), help));
    };
    match entry.parse(rest) {
        Ok(command) => Ok((entry, command)),
        Err(error) => Err((error, Help::Entry(entry))),
    }
}

/// Which commands to explain.
#[derive(Clone, Copy, Debug)]
enum Help {
    All,
    Code(&'static str),
    Entry(&'static Entry),
}

impl Help {
    fn print(self, out: &mut dyn Write) -> std::io::Result<()> {
        // Shown where no command is meant.
        let fallback = || {
            let show = |entry: &&Entry| entry.code == "s" && entry.seq == 1;
            TABLE.iter().find(show).unwrap_or(&TABLE[0])
        };
        writeln!(
            out,
            "\nusage: imrsim_util <device> <code> <seq> [arg] [--json]"
        )?;
        let example = match self {
            Self::All => {
                write!(out, "{}", help())?;
                fallback()
            }
            Self::Code(code) => {
                let entries = || TABLE.iter().filter(|entry| entry.code == code);
                for entry in entries() {
                    writeln!(out, "{}", entry.help())?;
                }
                entries().next().unwrap_or(fallback())
            }
            Self::Entry(entry) => {
                writeln!(out, "{}", entry.help())?;
                entry
            }
        };
        writeln!(out, "example: {}", example.example())
    }
}

/// Whether a command line (without the program's name) is a classic one: it begins with a device,
/// not with one of `names`.
pub fn is_classic(args: &[OsString], names: &[&str]) -> bool {
    let Some(first) = args.first().map(|arg| arg.to_string_lossy()) else {
        return false;
    };
    if first.starts_with('-') || names.contains(&&*first) {
        return false;
    }
    // A misspelt name is left to the other parser, which has a better message for that.
    let letter = |arg: &OsString| arg.len() == 1 && !arg.to_string_lossy().starts_with('-');
    first.contains('/') || Path::new(&*first).exists() || args.get(1).is_some_and(letter)
}

/// Runs a classic command line, without the program's name. Returns the exit code.
///
/// # Errors
///
/// If `out` or `err` cannot be written.
pub fn run(args: &[OsString], out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    let mut words: Vec<String> = args
        .iter()
        .skip(1)
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    let json = words.last().is_some_and(|word| word == "--json");
    if json {
        words.pop();
    }
    let style = Style::new(json);
    let (entry, command) = match parse(&words) {
        Ok(parsed) => parsed,
        Err((error, help)) => {
            writeln!(err, "error: {error:#}")?;
            help.print(err)?;
            return Ok(exit::USAGE);
        }
    };
    let path = args.first().map(Path::new).unwrap_or(Path::new(""));
    match command.perform(path, style, out, err) {
        Ok(()) => Ok(exit::OK),
        Err(error) if exit::is_broken_pipe(&error) => Err(error),
        Err(error) => {
            out.flush()?;
            writeln!(err, "error: {error:#}")?;
            Help::Entry(entry).print(err)?;
            Ok(exit::code(&error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn every_command_is_the_one_its_example_shows() {
        for entry in &TABLE {
            let example = entry.example();
            let mut args = words(&example);
            args.drain(..2);
            let (found, _) = parse(&args).unwrap();
            assert_eq!((found.code, found.seq), (entry.code, entry.seq));
        }
    }

    #[test]
    fn commands() {
        for (line, command) in [
            ("l 4", Command::ShowConfig),
            ("l 1", Command::ResetConfig(3)),
            ("l 2", Command::ResetConfig(1)),
            ("l 3", Command::ResetConfig(2)),
            ("l 5 3", Command::Set(0, 3)),
            ("l 6 250", Command::Set(1, 250)),
            ("l 7 5ms", Command::Set(2, 5000)),
            ("e 1", Command::ShowErrors(Failed::Reads, Clear::IfAllowed)),
            ("e 2", Command::ShowErrors(Failed::Writes, Clear::IfAllowed)),
            ("e 3", Command::Set(3, 1)),
            ("e 4", Command::Set(3, 0)),
            ("s 1", Command::ShowStatistics(Scope::Device)),
            ("s 2 7", Command::ShowStatistics(Scope::First(7))),
            (
                "s 3 50",
                Command::ShowStatistics(Scope::Zone(ZoneAt::Index(50))),
            ),
            ("s 4", Command::ResetStatistics(None)),
            ("s 5 8", Command::ResetStatistics(Some(ZoneAt::Sector(8)))),
            ("s 6 8", Command::ResetStatistics(Some(ZoneAt::Index(8)))),
            ("z 3 8", Command::SetZoneSize(4096)),
            ("z 3 4M", Command::SetZoneSize(4 << 20)),
            ("z 4 1M", Command::ResetZone(ZoneAt::Sector(2048))),
            ("z 5 1", Command::ResetZone(ZoneAt::Index(1))),
            ("z 6 9", Command::ListZones(Filter::All, Some(9))),
            ("z 6 9 3", Command::ListZones(Filter::Free, Some(9))),
            (
                "z 6 9 read-only",
                Command::ListZones(Filter::ReadOnly, Some(9)),
            ),
            ("z 7 9", Command::ListZone(ZoneAt::Sector(9), Filter::All)),
            (
                "z 8 9 offline",
                Command::ListZone(ZoneAt::Index(9), Filter::Offline),
            ),
            (
                "z 9 4 1",
                Command::SetCondition(Some(ZoneAt::Index(4)), Condition::ReadOnly),
            ),
            (
                "z 9 4 normal",
                Command::SetCondition(Some(ZoneAt::Index(4)), Condition::Normal),
            ),
            ("z 1", Command::ZoneCount),
            ("z 2", Command::ZoneSize),
        ] {
            assert_eq!(parse(&words(line)).unwrap().1, command, "{line}");
        }
    }

    #[test]
    fn everything_else_is_wrong() {
        for line in [
            "",
            "q",
            "q 1",
            "l",
            "l 6",
            "l 6 10000001",
            "l 7 11s",
            "l 8",
            "l x",
            "l 1 1",
            "e",
            "e 1 1",
            "e 5",
            "l -4",
            "l 4 1",
            "l 5",
            "l 5 0",
            "l 5 65",
            "l 5 3 3",
            "l 5 three",
            "l 5 -1",
            "s 2",
            "s 3",
            "s 3 x",
            "s 4 0",
            "s 2 0",
            "s 5",
            "s 5 513B",
            "s 6 4k",
            "z 3",
            "z 3 1KB",
            "z 3 18446744073709551615",
            "z 4",
            "z 5 x",
            "z 6",
            "z 6 0",
            "z 6 1 6",
            "z 6 1 empty",
            "z 6 1 2 3",
            "z 8",
            "z 9",
            "z 9 1",
            "z 9 1 3",
            "z 9 1 broken",
            "z 10",
            "L 4",
            "ll 4",
        ] {
            assert!(parse(&words(line)).is_err(), "{line}");
        }
    }

    #[test]
    fn which_command_lines_are_classic() {
        let classic = |line: &str| {
            let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            is_classic(&args, &["stats", "size"])
        };
        assert!(classic("/dev/mapper/imrsim l 4"));
        assert!(classic("/dev/mapper/imrsim"));
        assert!(classic("/dev/mapper/imrsim frobnicate"));
        assert!(classic("sdb l 4"));
        assert!(!classic(""));
        assert!(!classic("stats /dev/mapper/imrsim"));
        assert!(!classic("stat /dev/mapper/imrsim"));
        assert!(!classic("--help"));
        assert!(!classic("-h l"));
        assert!(!classic("size 1"));
    }
}
