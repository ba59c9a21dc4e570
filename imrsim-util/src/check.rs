// SPDX-License-Identifier: GPL-2.0-only

//! Checks the metadata of a drive that is not running, and changes nothing.
//!
//! What is checked: both superblocks, every entry of the journal that is needed and that no other
//! could be, the slot that counts of every zone, that every table with the records of the journal
//! is injective and inside its zone, that counts agree, and that counters are plausible. What
//! is not needed (the older slot of a zone, old entries) is not looked at.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use anyhow::Result;
use imrsim_core::{
    ondisk::{
        load_superblock, load_zone, replay, replay::ENTRY_BYTES, LoadError, Loaded, Position,
        Record, Refusal, Replayed, SlotMap, Superblock, BLOCK_BYTES,
    },
    Condition, Layout, Stats, Zone, ZoneState,
};
use serde::Serialize;

use crate::{
    exit,
    metadata::{read_copy, refusal, Backing, Fields, Search},
    number::Bytes,
    report::{self, Style},
    settings::{conditions, Values, ZoneCondition},
};

/// How much of the journal is read at once, in entries.
const JOURNAL_ENTRIES: usize = 64;
/// Problems that are shown as text; JSON has them all.
const MAX_SHOWN: usize = 50;

/// The options.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    search: Search,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The end of the help text.
pub const AFTER_HELP: &str = "Reads only; the drive must not be running, or what is found may be \
    of different moments.\n\n\
    Exit codes: 0 sound (after a crash, changes in the journal are applied when it is resumed);\n\
    3 damaged, but nothing is lost: it can be resumed, and should be soon;\n\
    4 no drive, or damaged so that it will be refused; 1 it cannot be read; 2 wrong command line.\n\n\
    Examples:\n  \
    imrsim_util check /dev/sdb\n  \
    imrsim_util check disk.img --json";

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is lost, and resuming the drive repairs it.
    Harmless,
    /// The drive cannot be resumed.
    Fatal,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Where: "superblock copy 0", "journal", "zone 7".
    pub place: String,
    /// What: for a refusal, its name.
    pub kind: &'static str,
    /// The same as a sentence.
    pub text: String,
}

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// "sound", "repairable" or "refused".
    pub result: &'static str,
    /// The drive; absent if there is no usable superblock.
    pub drive: Option<DriveReport>,
    /// What is not as it should be.
    pub problems: Vec<Problem>,
}

/// What a check found about a drive.
#[derive(Clone, Debug, Serialize)]
pub struct DriveReport {
    /// Which drive it is.
    pub uuid: String,
    /// Blocks in a top track, in a bottom track, and track groups in a zone.
    pub geometry: [u32; 3],
    /// Zones.
    pub zones: u64,
    /// Sectors of the drive: the length in its table line.
    pub data_sectors: u64,
    /// Phases of the allocation.
    pub phases: u32,
    /// All settings, the allocation among them.
    pub settings: Values,
    /// The zones that are not in normal condition.
    pub conditions: Vec<ZoneCondition>,
    /// Whether it was stopped in good order.
    pub clean: bool,
    /// Entries of the journal that have to be replayed.
    pub journal_entries: u64,
    /// Records in them.
    pub journal_records: u64,
    /// Entries of the last commit that the power failure cut off.
    pub journal_dropped: u64,
    /// Zones that were checkpointed.
    pub checkpointed_zones: u64,
    /// Zones with records in the journal.
    pub journal_zones: u64,
    /// Blocks that are mapped.
    pub mapped_blocks: u64,
    /// Blocks in use on top tracks.
    pub used_top_blocks: u64,
    /// The counters of all zones together.
    pub indicators: Fields,
}

impl Report {
    /// The exit code of the program.
    pub fn exit_code(&self) -> u8 {
        match self.problems.iter().map(|it| it.severity).max() {
            None => exit::OK,
            Some(Severity::Harmless) => exit::REPAIRABLE,
            Some(Severity::Fatal) => exit::REFUSED,
        }
    }

    fn harmless(&mut self, place: impl Into<String>, kind: &'static str, text: impl Into<String>) {
        self.problems.push(Problem {
            severity: Severity::Harmless,
            place: place.into(),
            kind,
            text: text.into(),
        });
    }

    /// A refusal. `detail` says more where there is more to say.
    fn refused(&mut self, place: impl Into<String>, refusal: Refusal, detail: &str) {
        // "imrsim_util check says more" is said by this very program.
        let mut text = refusal
            .text()
            .replace(": 'imrsim_util check' says more", "");
        if !detail.is_empty() {
            text.push_str(": ");
            text.push_str(detail);
        }
        self.problems.push(Problem {
            severity: Severity::Fatal,
            place: place.into(),
            kind: refusal.name(),
            text,
        });
    }

    fn print(&self, out: &mut dyn Write) -> Result<()> {
        if let Some(drive) = &self.drive {
            let [top, bottom, groups] = drive.geometry;
            writeln!(out, "drive       {}", drive.uuid)?;
            writeln!(
                out,
                "size        {} sectors, {} zones of {groups} groups of {top} + {bottom} blocks",
                drive.data_sectors, drive.zones
            )?;
            let settings: Vec<String> = drive
                .settings
                .rows()
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            writeln!(out, "settings    {}", settings.join(", "))?;
            writeln!(out, "conditions  {}", count_conditions(&drive.conditions))?;
            writeln!(
                out,
                "stopped     {}",
                if drive.clean {
                    "in good order"
                } else {
                    "by a crash"
                }
            )?;
            writeln!(
                out,
                "journal     {} entries, {} records for {} zones to be applied, {} entries cut off",
                drive.journal_entries,
                drive.journal_records,
                drive.journal_zones,
                drive.journal_dropped
            )?;
            writeln!(out, "checkpoints {} zones", drive.checkpointed_zones)?;
            writeln!(
                out,
                "mapped      {} blocks ({}), {} on top tracks",
                drive.mapped_blocks,
                Bytes(drive.mapped_blocks.saturating_mul(BLOCK_BYTES as u64)),
                drive.used_top_blocks
            )?;
        }
        for problem in self.problems.iter().take(MAX_SHOWN) {
            let severity = match problem.severity {
                Severity::Harmless => "warning",
                Severity::Fatal => "error",
            };
            writeln!(out, "{severity}: {}: {}", problem.place, problem.text)?;
        }
        let more = self.problems.len().saturating_sub(MAX_SHOWN);
        if more > 0 {
            writeln!(out, "{more} more problems (--json shows them)")?;
        }
        writeln!(out, "result      {}", self.result)?;
        Ok(())
    }
}

/// Runs the command; returns the exit code.
///
/// # Errors
///
/// If the device cannot be read.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<u8> {
    let mut backing = Backing::open(&args.search.place, false)?;
    let layout = backing.find(&args.search)?;
    let report = check(&mut backing, &layout)?;
    match Style::new(args.json) {
        Style::Json => report::json(&report, out)?,
        Style::Text => report.print(out)?,
    }
    Ok(report.exit_code())
}

/// Checks a drive that should have this layout.
///
/// # Errors
///
/// If the device cannot be read.
pub fn check(backing: &mut Backing, layout: &Layout) -> Result<Report> {
    let mut report = Report {
        result: "",
        drive: None,
        problems: Vec::new(),
    };
    let mut map = vec![0; layout.map_words()];
    let name = backing.name().to_owned();
    let room = backing.room();
    let loaded = load_superblock(backing, layout, room, &mut map, &mut [0; BLOCK_BYTES]);
    match refusal(loaded, &name)? {
        Err(refusal) => report.refused("superblock", refusal, ""),
        Ok(loaded) => match loaded.superblock.layout() {
            Err(refusal) => report.refused("superblock", refusal, ""),
            Ok(layout) => check_drive(backing, &layout, &loaded, &mut map, &mut report)?,
        },
    }
    report.result = match report.exit_code() {
        exit::OK => "sound",
        exit::REPAIRABLE => "repairable",
        _ => "refused",
    };
    Ok(report)
}

fn check_drive(
    backing: &mut Backing,
    layout: &Layout,
    loaded: &Loaded,
    map: &mut [u64],
    report: &mut Report,
) -> Result<()> {
    let superblock = &loaded.superblock;
    if !loaded.other_is_equal {
        let copy = 1 - loaded.copy;
        let place = format!("superblock copy {copy}");
        match read_copy(backing, layout, copy) {
            Ok(other) => report.harmless(
                place,
                "Older",
                format!(
                    "is older than the other copy (sequence {} instead of {})",
                    other.sequence, superblock.sequence
                ),
            ),
            Err(refusal) => {
                report.harmless(
                    place,
                    refusal.name(),
                    "cannot be used, but the other copy can",
                );
            }
        }
    }
    let mut drive = DriveReport {
        uuid: superblock.uuid.to_string(),
        geometry: [
            superblock.geometry.top_blocks(),
            superblock.geometry.bottom_blocks(),
            superblock.geometry.groups(),
        ],
        zones: superblock.zones,
        data_sectors: layout.data_sectors(),
        phases: superblock.settings.allocation(),
        settings: Values::of(&superblock.settings),
        conditions: conditions(superblock, map),
        clean: superblock.clean,
        journal_entries: 0,
        journal_records: 0,
        journal_dropped: 0,
        checkpointed_zones: SlotMap::new(map).checkpointed(),
        journal_zones: 0,
        mapped_blocks: 0,
        used_top_blocks: 0,
        indicators: Fields::default(),
    };
    let journal = check_journal(backing, superblock, &mut drive, report)?;
    check_zones(
        backing, layout, superblock, map, &journal, &mut drive, report,
    )?;
    report.drive = Some(drive);
    Ok(())
}

/// How many zones are in which condition.
fn count_conditions(zones: &[ZoneCondition]) -> String {
    let counts: Vec<String> = Condition::ALL
        .iter()
        .map(|condition| {
            let name = condition.name();
            (name, zones.iter().filter(|it| it.condition == name).count())
        })
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if counts.is_empty() {
        return "all zones normal".to_owned();
    }
    format!("zones that are not normal: {}", counts.join(", "))
}

/// What the journal says.
#[derive(Default)]
struct Journal {
    /// The records of each zone that has any.
    records: BTreeMap<u64, Vec<(Position, Record)>>,
    /// Where it ends, if that is known.
    head: Option<u64>,
}

fn check_journal(
    backing: &mut Backing,
    superblock: &Superblock,
    drive: &mut DriveReport,
    report: &mut Report,
) -> Result<Journal> {
    let mut journal = Journal::default();
    let mut buf = vec![0; JOURNAL_ENTRIES * ENTRY_BYTES];
    let name = backing.name().to_owned();
    let result = replay(backing, superblock, &mut buf, |_, position, record| {
        drive.journal_records += 1;
        if let Record::Config { settings } = record {
            drive.phases = settings.allocation();
            drive.settings = Values::of(settings);
        }
        if let Some(zone) = record.zone() {
            if zone >= superblock.zones {
                return Err(LoadError::<io::Error>::Refused(Refusal::BadRecord));
            }
            let records = journal.records.entry(zone).or_default();
            records.push((position, *record));
        }
        Ok(())
    });
    match refusal(result, &name)? {
        Err(refusal) => report.refused("journal", refusal, ""),
        Ok(replayed) => {
            let Replayed {
                head,
                entries,
                single_copies,
                dropped,
            } = replayed;
            journal.head = Some(head);
            drive.journal_entries = entries;
            drive.journal_dropped = dropped;
            if single_copies > 0 {
                report.harmless(
                    "journal",
                    "SingleCopies",
                    format!(
                        "{single_copies} entries can be read from one of their two copies only"
                    ),
                );
            }
        }
    }
    drive.journal_zones = journal.records.len() as u64;
    Ok(journal)
}

fn check_zones(
    backing: &mut Backing,
    layout: &Layout,
    superblock: &Superblock,
    map: &mut [u64],
    journal: &Journal,
    drive: &mut DriveReport,
    report: &mut Report,
) -> Result<()> {
    let geometry = layout.geometry();
    let mut table = vec![0; Zone::table_len(geometry)];
    let mut bits = vec![0; Zone::bits_len(geometry)];
    let mut total = Stats::default();
    let mut block = [0; BLOCK_BYTES];
    let name = backing.name().to_owned();
    for number in 0..layout.zones() {
        let records = journal.records.get(&number).map_or(&[][..], Vec::as_slice);
        if SlotMap::new(map).get(number).is_none() && records.is_empty() {
            continue;
        }
        let place = || format!("zone {number}");
        table.fill(0);
        bits.fill(0);
        let mut state = ZoneState::default();
        let Some(mut zone) = Zone::new(geometry, &mut table, &mut bits, &mut state) else {
            continue;
        };
        let memory = zone.memory();
        let loaded = load_zone(backing, superblock, layout, map, number, &mut block, memory);
        let loaded = match refusal(loaded, &name)? {
            Ok(loaded) => loaded,
            Err(refusal) => {
                report.refused(place(), refusal, "");
                continue;
            }
        };
        let mut stats = Stats::default();
        let mut from = Position::default();
        if let Some(loaded) = loaded {
            stats = loaded.header.stats;
            from = loaded.header.position;
            if loaded.fallback {
                report.harmless(
                    place(),
                    "OlderSlot",
                    format!(
                        "slot {} is damaged; the other, with the journal, has all of it",
                        1 - loaded.slot
                    ),
                );
            }
            if let Some(Err(refusal)) = journal.head.map(|head| loaded.check(head)) {
                report.refused(place(), refusal, "");
            }
        }
        let mut wrong = zone
            .load()
            .err()
            .map(|error| (error.of_table(), error.to_string()));
        for (position, record) in records.iter().filter(|(position, _)| *position >= from) {
            if wrong.is_some() {
                break;
            }
            if let Record::Statistics { stats: newer, .. } = record {
                stats = *newer;
            }
            if let Err(error) = zone.replay(record) {
                let Position { sequence, index } = position;
                let detail = format!("{error} (entry {sequence}, record {index}: {record:?})");
                wrong = Some((error.of_record(), detail));
            }
        }
        if let Some((refusal, detail)) = wrong {
            report.refused(place(), refusal, &detail);
            continue;
        }
        // What the records left must be a table, too, with the same counts.
        let counts = (zone.mapped_blocks(), zone.used_tops());
        if zone.load().is_err() || counts != (zone.mapped_blocks(), zone.used_tops()) {
            report.refused(place(), Refusal::BadTable, "counts disagree");
            continue;
        }
        if let Some(text) = implausible(&stats) {
            report.harmless(place(), "Statistics", text);
        }
        drive.mapped_blocks += u64::from(counts.0);
        drive.used_top_blocks += u64::from(counts.1);
        total.merge(&stats);
    }
    let counters = total.iter();
    drive.indicators = Fields(
        counters
            .map(|(it, value)| (it.name, value.into()))
            .collect(),
    );
    Ok(())
}

/// What is wrong with counters that can only have been counted together. Counters that have
/// reached their largest value say nothing any more.
fn implausible(stats: &Stats) -> Option<&'static str> {
    if stats.values().contains(&u64::MAX) {
        return None;
    }
    let sums = |a: u64, b: u64, sum: u64| a.checked_add(b) == Some(sum);
    let rmws = stats
        .rmw_one_neighbour
        .saturating_add(stats.rmw_two_neighbours);
    [
        (
            !sums(
                stats.first_write_blocks,
                stats.update_blocks,
                stats.host_write_blocks,
            ),
            "first writes and updates are not all writes",
        ),
        (
            !sums(
                stats.top_write_blocks,
                stats.bottom_write_blocks,
                stats.host_write_blocks,
            ),
            "writes to top and to bottom tracks are not all writes",
        ),
        (
            stats.zero_read_blocks > stats.host_read_blocks,
            "more blocks were read as zeros than were read",
        ),
        (
            stats.rmw_read_blocks != stats.extra_write_blocks,
            "read-modify-writes did not write back what they read",
        ),
        (
            rmws > stats.extra_write_blocks || (rmws == 0 && stats.extra_write_blocks > 0),
            "the number of read-modify-writes does not go with what they wrote",
        ),
        (
            rmws > stats.bottom_write_blocks,
            "there were more read-modify-writes than writes to bottom tracks",
        ),
    ]
    .into_iter()
    .find_map(|(wrong, text)| wrong.then_some(text))
}
