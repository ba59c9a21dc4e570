// SPDX-License-Identifier: GPL-2.0-only

//! Power cuts at any moment, thousands of times: nothing promised is lost, nothing foreign appears.
//!
//! A small drive runs random operations on a disk with a volatile cache until the power fails, be
//! it in the middle of formatting, of a commit, of a checkpoint, of opening after the last crash or
//! of stopping. What it then reads back is compared with what the host was promised. Then it goes
//! on. On copies of the disk, metadata is damaged: the result must be right or a refusal.

mod common;
mod crash;

use crash::{
    drive::{
        format,
        recover,
        Drive,
        Flight,
        UUID, //
    },
    oracle::Oracle,
    platter::{
        Chance,
        Platter,
        PowerCut, //
    }, //
};
use imrsim_core::{
    ondisk::{
        LoadError,
        Record,
        Refusal,
        Superblock, //
    },
    Bo,
    Geometry,
    Layout,
    Nbo,
    Request,
    Settings, //
};

/// What happened in all runs together, to see that the test tests something.
#[derive(Debug, Default)]
struct Tally {
    crashes: u64,
    clean_stops: u64,
    dropped: u64,
    single_copies: u64,
    refused: u64,
    accepted: u64,
    laps: u64,
}

struct Run {
    platter: Platter,
    oracle: Oracle,
    layout: Layout,
    /// The last value written to anything.
    value: u64,
}

impl Run {
    fn chance(&mut self) -> &mut Chance {
        &mut self.platter.chance
    }

    /// Does one random thing.
    fn operate(&mut self, drive: &mut Drive) -> Result<(), PowerCut> {
        let zone = self.platter.chance.below(self.layout.zones()) as usize;
        let zone_blocks = u64::from(self.layout.geometry().zone_blocks());
        let bo = self.platter.chance.below(zone_blocks) as u32;
        let more = self
            .platter
            .chance
            .below(4)
            .min(zone_blocks - 1 - u64::from(bo));
        let blocks = 1 + more as u32;
        match self.platter.chance.below(40) {
            0..16 => {
                let Some(flight) = self.write(drive, zone, bo, blocks)? else {
                    return Ok(());
                };
                match self.chance().below(4) {
                    0 => drive.flights.push(flight),
                    1 => self.finish_fua(drive, &flight)?,
                    _ => self.finish(drive, &flight),
                }
            }
            16..21 => {
                if !drive.flights.is_empty() {
                    let any = self.platter.chance.below(drive.flights.len() as u64);
                    let flight = drive.flights.swap_remove(any as usize);
                    self.finish(drive, &flight);
                }
            }
            21..26 => {
                drive.commit(&mut self.platter)?;
                self.oracle.flushed();
            }
            26..28 => drive.snapshot(zone),
            28..34 => drive.advance(&mut self.platter)?,
            34 => drive.checkpoint(&mut self.platter)?,
            35 | 36 => {
                let blocks = match self.chance().once_in(4) {
                    true => None,
                    false => Some(blocks),
                };
                self.unmap(drive, zone, bo, blocks)?;
            }
            37 => {
                self.value += 1;
                drive.zones[zone].stats.host_write_blocks = self.value;
                self.oracle.set_stats(zone, self.value);
                let stats = drive.zones[zone].stats;
                drive.push(Record::Statistics {
                    zone: zone as u64,
                    stats,
                });
            }
            38 => {
                let phases = 1 + self.chance().below(4) as u32;
                drive.settings = Settings::DEFAULT.with_allocation(phases).unwrap();
                self.oracle.set_phases(phases);
                drive.push(Record::Config {
                    settings: drive.settings,
                });
            }
            _ => self.platter.step()?,
        }
        Ok(())
    }

    /// Starts a write and sends its data.
    fn write(
        &mut self,
        drive: &mut Drive,
        zone: usize,
        bo: u32,
        blocks: u32,
    ) -> Result<Option<Flight>, PowerCut> {
        let partial = self.chance().once_in(4);
        let request = Request {
            bo: Bo(bo),
            blocks,
            head_partial: partial,
            tail_partial: false,
        };
        let Some(plan) = drive.start(zone, &request) else {
            return Ok(None);
        };
        let zone_halves = u64::from(self.layout.geometry().zone_blocks()) * 2;
        let place = |Nbo(nbo), half| zone as u64 * zone_halves + u64::from(nbo) * 2 + half;
        for i in 0..plan.blocks {
            for half in 0..2 {
                let place = place(plan.nbo.after(i), half);
                // The first half is what a partial write leaves out.
                if i == 0 && half == 0 && partial {
                    if plan.first {
                        self.platter.write_half(place, 0);
                    }
                    continue;
                }
                self.value += 1;
                self.oracle.write(zone, bo + i, half as usize, self.value);
                self.platter.write_half(place, self.value);
            }
        }
        self.platter.step()?;
        for (nbo, blocks) in plan.runs() {
            for place in (0..blocks).flat_map(|i| [0, 1].map(|half| place(nbo.after(i), half))) {
                let value = self.platter.read_half(place);
                self.platter.write_half(place, value);
            }
        }
        self.platter.step()?;
        Ok(Some(Flight { zone, plan }))
    }

    fn finish(&mut self, drive: &mut Drive, flight: &Flight) {
        drive.finish(flight);
        for i in 0..flight.plan.blocks {
            self.oracle.complete(flight.zone, flight.plan.bo.0 + i);
        }
    }

    /// Ends a write with FUA.
    fn finish_fua(&mut self, drive: &mut Drive, flight: &Flight) -> Result<(), PowerCut> {
        self.finish(drive, flight);
        let blocks = flight.plan.bo.0..flight.plan.bo.0 + flight.plan.blocks;
        if flight.plan.first {
            drive.commit(&mut self.platter)?;
        }
        for bo in blocks {
            for half in 0..2 {
                let place = drive.half(flight.zone, bo, half).expect("it is mapped");
                self.platter.persist_half(place);
            }
            if flight.plan.first {
                self.oracle.promised(flight.zone, bo);
            }
        }
        self.platter.step()
    }

    fn unmap(
        &mut self,
        drive: &mut Drive,
        zone: usize,
        bo: u32,
        blocks: Option<u32>,
    ) -> Result<(), PowerCut> {
        let (bo, blocks) = match blocks {
            Some(blocks) => (bo, blocks),
            None => (0, self.layout.geometry().zone_blocks()),
        };
        // What is unmapped reads as zeros, now or, if it does not happen, not.
        let before = self.oracle.clone();
        for bo in bo..bo + blocks {
            for half in 0..2 {
                self.oracle.write(zone, bo, half, 0);
            }
            self.oracle.complete(zone, bo);
        }
        if drive.unmap(&mut self.platter, zone, Bo(bo), blocks)? {
            self.oracle.flushed();
        } else {
            self.oracle = before;
        }
        Ok(())
    }

    /// Runs until the power fails, or to a stop in good order.
    fn run(&mut self, drive: &mut Drive) -> Result<(), PowerCut> {
        drive.open(&mut self.platter)?;
        // From here on the host can see what was found.
        self.oracle.settle(drive, &self.platter);
        for _ in 0..self.platter.chance.below(300) {
            self.operate(drive)?;
        }
        for flight in std::mem::take(&mut drive.flights) {
            self.finish(drive, &flight);
        }
        drive.close(&mut self.platter)?;
        self.oracle.flushed();
        Ok(())
    }

    /// Damages a copy of the disk in up to `most` places; the result is right or a refusal.
    fn damage(&mut self, most: u64, tally: &mut Tally) {
        let mut copy = self.platter.clone();
        // What happens to the copy depends on where the original is, and does not change that.
        let mut chance = self.platter.chance.clone();
        self.platter.chance.next();
        let from = self.layout.data_sectors();
        let journal = (self.layout.journal() - from, self.layout.journal_sectors());
        let focus = match chance.below(4) {
            0 => (0, self.platter.metadata_sectors()),
            1 => (0, journal.0),
            _ => journal,
        };
        for _ in 0..=chance.below(most) {
            let sector = focus.0 + chance.below(focus.1);
            let (at, garbage) = (chance.below(512) as usize, chance.next());
            let whole = chance.below(3);
            // Both copies of an entry, or one place.
            let places = match chance.once_in(3) && focus == journal {
                true => vec![sector, focus.0 + ((sector - focus.0) ^ 8)],
                false => vec![sector],
            };
            for place in places {
                copy.damage(place, |bytes| match whole {
                    0 => bytes[at] ^= 1 << (garbage % 8),
                    1 => bytes[at] = garbage as u8,
                    _ => bytes.fill(garbage as u8),
                });
            }
        }
        match recover(&mut copy, &self.layout, 1) {
            Err(LoadError::Refused(_)) => tally.refused += 1,
            Err(LoadError::Io(())) => unreachable!("the disk can be read"),
            Ok(mut drive) => {
                tally.accepted += 1;
                self.oracle
                    .check(&mut drive, &copy)
                    .expect("accepted after damage");
            }
        }
    }

    /// Flips one bit of the journal, or of a superblock if there are two; that is always survived.
    fn flip(&mut self, two_superblocks: bool) {
        let mut copy = self.platter.clone();
        let chance = &mut self.platter.chance;
        let first = match two_superblocks {
            true => self.layout.data_sectors(),
            false => self.layout.journal(),
        };
        let sector = first + chance.below(self.layout.slots() - first) - self.layout.data_sectors();
        let bit = chance.below(4096) as usize;
        copy.damage(sector, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        let mut drive = recover(&mut copy, &self.layout, 4).expect("one flipped bit is survived");
        self.oracle
            .check(&mut drive, &copy)
            .expect("one flipped bit changes nothing");
    }
}

fn superblock(chance: &mut Chance) -> Superblock {
    let geometry = match chance.below(3) {
        0 => Geometry::new(2, 3, 4),
        1 => Geometry::new(1, 1, 2),
        _ => Geometry::new(3, 5, 9),
    }
    .unwrap();
    let zones = 1 + chance.below(3);
    let mut superblock = Superblock::new(&geometry, zones, Settings::DEFAULT, UUID);
    superblock.journal_entries = 6 + chance.below(12);
    superblock
}

/// One drive's life.
fn live(seed: u64, tally: &mut Tally) {
    let mut chance = Chance::new(seed);
    let superblock = superblock(&mut chance);
    let layout = superblock.layout().unwrap();
    let mut run = Run {
        platter: Platter::new(
            layout.data_sectors(),
            layout.metadata_sectors(),
            chance.clone(),
        ),
        oracle: Oracle::new(&layout, 2),
        layout,
        value: 0,
    };
    // The power may fail while the device is formatted; then it is blank, or ready.
    while {
        run.platter.fuse = match chance.once_in(2) {
            true => 1 + chance.below(2 * superblock.journal_entries + 8),
            false => u64::MAX,
        };
        let result = format(&mut run.platter, &superblock, &layout);
        run.platter.cut_power();
        let found = recover(&mut run.platter, &layout, 1);
        if result.is_ok() {
            assert!(found.is_ok());
        }
        match found {
            Ok(_) => false,
            Err(LoadError::Refused(Refusal::Blank)) => true,
            Err(other) => panic!("a half formatted device: {other:?}"),
        }
    } {}

    for _ in 0..6 {
        let buf = 1 + run.chance().below(5) as usize;
        let mut drive = recover(&mut run.platter, &layout, buf).expect("recovered");
        run.platter.fuse = 1 + run.platter.chance.below(400);
        match run.run(&mut drive) {
            Ok(()) => tally.clean_stops += 1,
            Err(PowerCut) => tally.crashes += 1,
        }
        run.platter.cut_power();
        let mut drive = match recover(&mut run.platter, &layout, 2) {
            Ok(drive) => drive,
            Err(error) => panic!("not recovered: {error:?}"),
        };
        run.oracle.check(&mut drive, &run.platter).expect("right");
        tally.dropped += drive.replayed.dropped;
        tally.single_copies += drive.replayed.single_copies;
        tally.laps = tally
            .laps
            .max(drive.replayed.head / layout.journal_entries());
        for _ in 0..3 {
            run.damage(4, tally);
        }
        if drive.replayed.single_copies == 0 {
            run.flip(drive.two_superblocks);
        }
    }
}

fn lives(seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            live(seed, &mut tally);
        }));
        if let Err(panic) = result {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
    tally
}

/// `IMRSIM_CRASH_RUNS=100000 cargo test ...` runs more, `IMRSIM_CRASH_SEED` one of them.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_power_cut_loses_what_was_promised() {
    if let Some(seed) = number("IMRSIM_CRASH_SEED") {
        lives(seed..seed + 1);
        return;
    }
    let runs = number("IMRSIM_CRASH_RUNS").unwrap_or(1000);
    let tally = lives(0..runs);
    println!("{tally:?}");
    assert!(tally.crashes > runs && tally.clean_stops > runs / 2);
    assert!(tally.dropped > runs / 50 && tally.single_copies > runs / 50);
    assert!(tally.refused > runs && tally.accepted > runs);
    assert!(tally.laps > 3);
}
