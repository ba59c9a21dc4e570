// SPDX-License-Identifier: GPL-2.0-only

//! Shows the metadata of a drive as it is on the device, damaged or not.

use std::io::Write;

use anyhow::Result;
use imrsim_core::{
    ondisk::{
        load_superblock, load_zone, replay::ENTRY_BYTES, Disk, LoadError, Position, Record,
        Refusal, Replay, SlotHeader, SlotMap, Superblock, BLOCK_BYTES,
    },
    Bo, Layout, ReadRun, Settings, Zone, ZoneState,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    exit::{self, usage},
    metadata::{read_copy, refusal, Backing, Fields, Search},
    number::parse_count,
    report,
    settings::{conditions, ZoneCondition},
};

/// The options.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    search: Search,
    /// Show the mapping of this zone, with what the journal changes
    #[arg(long, value_name = "Z", value_parser = parse_count)]
    zone: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The end of the help text.
pub const AFTER_HELP: &str = "What the fields mean is in docs/on-disk-format.md.\n\n\
    Examples:\n  \
    imrsim_util dump /dev/sdb\n  \
    imrsim_util dump disk.img --zone 0 --json";

/// A copy of the superblock, or why it cannot be used.
#[derive(Debug, Serialize)]
struct Copy {
    copy: u64,
    sector: u64,
    state: &'static str,
    fields: Option<Fields>,
}

/// An entry of the journal.
#[derive(Debug, Serialize)]
struct EntryDump {
    sequence: u64,
    epoch: u64,
    batch_start: u64,
    sector: u64,
    records: Vec<String>,
}

/// A slot of a zone that was checkpointed.
#[derive(Debug, Serialize)]
struct SlotDump {
    zone: u64,
    slot: u64,
    counts: bool,
    sector: u64,
    state: &'static str,
    generation: Option<u64>,
    position: Option<String>,
    mapped_blocks: Option<u32>,
}

/// A run of mapped blocks.
#[derive(Debug, Serialize)]
struct Run {
    bo: u32,
    nbo: u32,
    blocks: u32,
}

/// Everything.
#[derive(Debug, Serialize)]
struct Dump {
    layout: Fields,
    superblocks: Vec<Copy>,
    journal: Vec<EntryDump>,
    /// Where the journal ends, or why it cannot be read to its end.
    journal_end: String,
    slots: Vec<SlotDump>,
    /// The zones that are not in normal condition.
    conditions: Vec<ZoneCondition>,
    /// The mapping of the zone that was asked for.
    mapping: Option<Vec<Run>>,
}

/// Runs the command; returns the exit code.
///
/// # Errors
///
/// If the device cannot be read, or has no zone with the number asked for.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<u8> {
    let mut backing = Backing::open(&args.search.place, false)?;
    let layout = backing.find(&args.search)?;
    if args.zone.is_some_and(|zone| zone >= layout.zones()) {
        return Err(usage(format!("the drive has {} zones", layout.zones())));
    }
    let (dump, refused) = collect(&mut backing, &layout, args.zone)?;
    if args.json {
        report::json(&dump, out)?;
    } else {
        dump.print(out)?;
    }
    if let Some(refusal) = refused {
        out.flush()?;
        eprintln!("{}: {refusal}", backing.name());
        return Ok(exit::REFUSED);
    }
    Ok(exit::OK)
}

fn collect(
    backing: &mut Backing,
    layout: &Layout,
    zone: Option<u64>,
) -> Result<(Dump, Option<Refusal>)> {
    let mut dump = Dump {
        layout: Fields::default(),
        superblocks: (0..2)
            .map(|copy| dump_copy(backing, layout, copy))
            .collect(),
        journal: Vec::new(),
        journal_end: String::new(),
        slots: Vec::new(),
        conditions: Vec::new(),
        mapping: None,
    };
    let name = backing.name().to_owned();
    let room = backing.room();
    let mut map = vec![0; layout.map_words()];
    let loaded = load_superblock(backing, layout, room, &mut map, &mut [0; BLOCK_BYTES]);
    let superblock = match refusal(loaded, &name)? {
        Ok(loaded) => loaded.superblock,
        Err(refusal) => {
            dump.layout = dump_layout(layout);
            return Ok((dump, Some(refusal)));
        }
    };
    let layout = match superblock.layout() {
        Ok(layout) => layout,
        Err(refusal) => return Ok((dump, Some(refusal))),
    };
    dump.layout = dump_layout(&layout);
    let mut records = Vec::new();
    let mut refused = dump_journal(backing, &superblock, &mut dump, &mut records)?;
    dump.conditions = conditions(&superblock, &map);
    for zone in 0..layout.zones() {
        if let Some(counts) = SlotMap::new(&map).get(zone) {
            for slot in 0..2 {
                let slot = dump_slot(backing, &superblock, &layout, zone, slot, slot == counts);
                dump.slots.push(slot);
            }
        }
    }
    if let Some(zone) = zone {
        records.retain(|(_, record)| record.zone() == Some(zone));
        let runs = mapping(backing, &superblock, &layout, &mut map, zone, &records);
        match refusal(runs, &name)? {
            Ok(runs) => dump.mapping = Some(runs),
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    Ok((dump, refused))
}

fn dump_copy(backing: &mut Backing, layout: &Layout, copy: u64) -> Copy {
    let sector = layout.superblock(copy).unwrap_or(0);
    match read_copy(backing, layout, copy) {
        Err(refusal) => Copy {
            copy,
            sector,
            state: refusal.name(),
            fields: None,
        },
        Ok(superblock) => Copy {
            copy,
            sector,
            state: "Intact",
            fields: Some(superblock_fields(&superblock)),
        },
    }
}

fn superblock_fields(superblock: &Superblock) -> Fields {
    let mut fields = vec![
        ("uuid", superblock.uuid.to_string().into()),
        ("sequence", superblock.sequence.into()),
        ("incompatible", superblock.incompatible.into()),
        ("compatible", superblock.compatible.into()),
        ("top_blocks", superblock.geometry.top_blocks().into()),
        ("bottom_blocks", superblock.geometry.bottom_blocks().into()),
        ("groups", superblock.geometry.groups().into()),
        ("zones", superblock.zones.into()),
        ("epoch", superblock.epoch.into()),
        ("opened_at", superblock.opened_at.into()),
        ("tail", superblock.tail.into()),
        ("tail_epoch", superblock.tail_epoch.into()),
        ("head", superblock.head.into()),
        ("clean", superblock.clean.into()),
        ("journal_entries", superblock.journal_entries.into()),
        ("created", superblock.created.into()),
        ("creator", text(&superblock.creator).into()),
    ];
    let settings = Settings::TABLE.iter().zip(superblock.settings.values());
    fields.extend(settings.map(|(it, value)| (it.name, value.into())));
    Fields(fields)
}

/// A text filled up with zeros.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_end_matches('\0')
        .to_owned()
}

fn dump_layout(layout: &Layout) -> Fields {
    Fields(vec![
        ("data_sectors", layout.data_sectors().into()),
        ("superblock", layout.superblock(0).into()),
        ("superblock_sectors", layout.superblock_sectors().into()),
        ("journal", layout.journal().into()),
        ("journal_sectors", layout.journal_sectors().into()),
        ("slots", layout.slots().into()),
        ("slot_sectors", layout.slot_sectors().into()),
        ("total_sectors", layout.total_sectors().into()),
    ])
}

fn show(record: &Record) -> String {
    match record {
        Record::Map {
            zone,
            bo,
            nbo,
            blocks,
        } => format!("map zone {zone} bo {bo} nbo {nbo} blocks {blocks}"),
        Record::Unmap { zone, bo, blocks } => format!("unmap zone {zone} bo {bo} blocks {blocks}"),
        Record::ResetZone { zone } => format!("reset zone {zone}"),
        Record::Config { settings } => format!("settings {settings}"),
        Record::Statistics { zone, stats } => {
            let counters: Vec<String> = stats
                .iter()
                .filter(|(_, value)| *value != 0)
                .map(|(it, value)| format!("{}={value}", it.name))
                .collect();
            format!("statistics zone {zone} {}", counters.join(" "))
        }
        Record::Skipped { kind } => format!("unknown type {kind:#04x}, skipped"),
    }
}

fn dump_journal(
    backing: &mut Backing,
    superblock: &Superblock,
    dump: &mut Dump,
    records: &mut Vec<(Position, Record)>,
) -> Result<Option<Refusal>> {
    let mut buf = vec![0; 64 * ENTRY_BYTES];
    let mut replay = Replay::new(superblock, &mut buf)?;
    let ring = superblock.ring()?;
    let name = backing.name().to_owned();
    loop {
        let entry = match refusal(replay.next(backing), &name)? {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(refusal) => {
                dump.journal_end = refusal.name().to_owned();
                return Ok(Some(refusal));
            }
        };
        let mut shown = Vec::new();
        for (record, index) in entry.records().zip(0..) {
            match record {
                Ok(record) => {
                    shown.push(show(&record));
                    let sequence = entry.sequence();
                    records.push((Position { sequence, index }, record));
                }
                Err(refusal) => shown.push(refusal.name().to_owned()),
            }
        }
        dump.journal.push(EntryDump {
            sequence: entry.sequence(),
            epoch: entry.epoch(),
            batch_start: entry.batch_start(),
            sector: ring.sector_of(entry.sequence()),
            records: shown,
        });
    }
    dump.journal_end = replay.replayed().head.to_string();
    Ok(None)
}

fn dump_slot(
    backing: &mut Backing,
    superblock: &Superblock,
    layout: &Layout,
    zone: u64,
    slot: u64,
    counts: bool,
) -> SlotDump {
    let sector = layout.slot(zone, slot).unwrap_or(0);
    let mut block = [0; BLOCK_BYTES];
    let header = match backing.read(sector, &mut block) {
        Ok(()) => SlotHeader::decode(&block, &superblock.uuid, layout.geometry(), zone),
        Err(_) => Err(Refusal::ZoneDamaged),
    };
    SlotDump {
        zone,
        slot,
        counts,
        sector,
        state: match header {
            Ok(_) => "Intact",
            Err(_) if block.iter().all(|byte| *byte == 0) => "Blank",
            Err(refusal) => refusal.name(),
        },
        generation: header.ok().map(|header| header.generation),
        position: header.ok().map(|header| {
            let Position { sequence, index } = header.position;
            format!("{sequence}.{index}")
        }),
        mapped_blocks: header.ok().map(|header| header.mapped),
    }
}

fn mapping(
    backing: &mut Backing,
    superblock: &Superblock,
    layout: &Layout,
    map: &mut [u64],
    number: u64,
    records: &[(Position, Record)],
) -> Result<Vec<Run>, LoadError<std::io::Error>> {
    let geometry = layout.geometry();
    let mut table = vec![0; Zone::table_len(geometry)];
    let mut bits = vec![0; Zone::bits_len(geometry)];
    let mut state = ZoneState::default();
    let mut zone =
        Zone::new(geometry, &mut table, &mut bits, &mut state).ok_or(Refusal::BadTable)?;
    let memory = zone.memory();
    let mut block = [0; BLOCK_BYTES];
    let loaded = load_zone(backing, superblock, layout, map, number, &mut block, memory)?;
    zone.load().map_err(|error| error.of_table())?;
    let from = loaded.map_or(Position::default(), |loaded| loaded.header.position);
    for (_, record) in records.iter().filter(|(position, _)| *position >= from) {
        zone.replay(record).map_err(|error| error.of_record())?;
    }
    let mut runs = Vec::new();
    let mut bo = 0;
    while bo < geometry.zone_blocks() {
        let left = geometry.zone_blocks() - bo;
        bo += match zone.read(Bo(bo), left) {
            ReadRun::Zeros { blocks } => blocks,
            ReadRun::Mapped { nbo, blocks } => {
                runs.push(Run {
                    bo,
                    nbo: nbo.0,
                    blocks,
                });
                blocks
            }
        };
    }
    Ok(runs)
}

impl Dump {
    fn print(&self, out: &mut dyn Write) -> Result<()> {
        for copy in &self.superblocks {
            writeln!(
                out,
                "superblock copy {} at sector {}: {}",
                copy.copy, copy.sector, copy.state
            )?;
            if let Some(fields) = &copy.fields {
                show_fields(fields, out)?;
            }
        }
        writeln!(out, "layout, in sectors of the drive")?;
        show_fields(&self.layout, out)?;
        writeln!(out, "journal, from the tail to {}", self.journal_end)?;
        for entry in &self.journal {
            writeln!(
                out,
                "  entry {} at sector {}: epoch {}, batch from {}, {} records",
                entry.sequence,
                entry.sector,
                entry.epoch,
                entry.batch_start,
                entry.records.len()
            )?;
            for (index, record) in entry.records.iter().enumerate() {
                writeln!(out, "    {}.{index} {record}", entry.sequence)?;
            }
        }
        writeln!(out, "slots of the zones that were checkpointed")?;
        for slot in &self.slots {
            write!(
                out,
                "  zone {} slot {}{} at sector {}: {}",
                slot.zone,
                slot.slot,
                if slot.counts { ", which counts," } else { "" },
                slot.sector,
                slot.state
            )?;
            if let (Some(generation), Some(position), Some(mapped)) =
                (slot.generation, &slot.position, slot.mapped_blocks)
            {
                write!(
                    out,
                    ", generation {generation}, position {position}, {mapped} blocks mapped"
                )?;
            }
            writeln!(out)?;
        }
        writeln!(out, "zones that are not in normal condition")?;
        for ZoneCondition { zone, condition } in &self.conditions {
            writeln!(out, "  zone {zone} {condition}")?;
        }
        if let Some(runs) = &self.mapping {
            writeln!(out, "mapping of the zone, {} runs", runs.len())?;
            for Run { bo, nbo, blocks } in runs {
                writeln!(out, "  bo {bo} nbo {nbo} blocks {blocks}")?;
            }
        }
        Ok(())
    }
}

/// Fields, one on a line.
fn show_fields(fields: &Fields, out: &mut dyn Write) -> Result<()> {
    for (name, value) in &fields.0 {
        match value {
            Value::String(text) => writeln!(out, "  {name} {text}")?,
            value => writeln!(out, "  {name} {value}")?,
        }
    }
    Ok(())
}
