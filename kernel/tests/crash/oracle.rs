// SPDX-License-Identifier: GPL-2.0-only

//! What the host may find after a crash.
//!
//! Of each half of each logical block the oracle knows what was written to it, in order, and the
//! last of these that a completed flush promised. After a crash the half must hold that or something
//! that was written later.

use imrsim_core::Layout;

use super::{
    drive::Drive,
    platter::Platter, //
};

/// The values that something had, and may have after a crash.
#[derive(Clone, Debug)]
struct History {
    values: Vec<u64>,
    /// The last value that was completed.
    completed: usize,
    /// The first value that may be found.
    promised: usize,
}

impl History {
    fn new(value: u64) -> Self {
        Self {
            values: vec![value],
            completed: 0,
            promised: 0,
        }
    }

    fn write(&mut self, value: u64) {
        self.values.push(value);
    }

    fn complete(&mut self) {
        self.completed = self.values.len() - 1;
    }

    fn allows(&self, value: u64) -> bool {
        self.values[self.promised..].contains(&value)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    /// By zone, logical block and half.
    halves: Vec<Vec<[History; 2]>>,
    /// The counter that is used to test counters, by zone.
    stats: Vec<History>,
    phases: History,
}

impl Oracle {
    pub(crate) fn new(layout: &Layout, phases: u32) -> Self {
        let block = [History::new(0), History::new(0)];
        let zone = vec![block; layout.geometry().zone_blocks() as usize];
        Self {
            halves: vec![zone; layout.zones() as usize],
            stats: vec![History::new(0); layout.zones() as usize],
            phases: History::new(phases.into()),
        }
    }

    pub(crate) fn write(&mut self, zone: usize, bo: u32, half: usize, value: u64) {
        self.halves[zone][bo as usize][half].write(value);
    }

    pub(crate) fn complete(&mut self, zone: usize, bo: u32) {
        for half in &mut self.halves[zone][bo as usize] {
            half.complete();
        }
    }

    pub(crate) fn set_stats(&mut self, zone: usize, value: u64) {
        self.stats[zone].write(value);
        self.stats[zone].complete();
    }

    pub(crate) fn set_phases(&mut self, value: u32) {
        self.phases.write(value.into());
        self.phases.complete();
    }

    fn all(&mut self) -> impl Iterator<Item = &mut History> {
        let halves = self.halves.iter_mut().flatten().flatten();
        halves.chain(&mut self.stats).chain([&mut self.phases])
    }

    /// A flush was completed: all that was completed before is promised.
    pub(crate) fn flushed(&mut self) {
        for history in self.all() {
            history.promised = history.completed;
        }
    }

    /// A write with FUA was completed.
    pub(crate) fn promised(&mut self, zone: usize, bo: u32) {
        for half in &mut self.halves[zone][bo as usize] {
            half.promised = half.completed;
        }
    }

    /// Checks what a drive holds; returns what is wrong.
    pub(crate) fn check(&self, drive: &mut Drive, platter: &Platter) -> Result<(), String> {
        for (zone, blocks) in self.halves.iter().enumerate() {
            for (bo, block) in (0..).zip(blocks) {
                for (half, history) in block.iter().enumerate() {
                    let place = drive.half(zone, bo, half as u64);
                    let value = place.map_or(0, |place| platter.read_half(place));
                    if !history.allows(value) {
                        return Err(format!(
                            "zone {zone} block {bo} half {half} at {place:?} holds {value}, not one of {history:?}"
                        ));
                    }
                }
            }
        }
        for (zone, history) in self.stats.iter().enumerate() {
            let value = drive.zones[zone].stats.host_write_blocks;
            if !history.allows(value) {
                return Err(format!(
                    "counter of zone {zone} is {value}, not one of {history:?}"
                ));
            }
        }
        if !self.phases.allows(drive.settings.allocation().into()) {
            return Err(format!(
                "{} phases, not one of {:?}",
                drive.settings.allocation(),
                self.phases
            ));
        }
        Ok(())
    }

    /// Takes what a drive holds now as the only truth.
    pub(crate) fn settle(&mut self, drive: &mut Drive, platter: &Platter) {
        for (zone, blocks) in self.halves.iter_mut().enumerate() {
            for (bo, block) in (0..).zip(blocks) {
                for (half, history) in block.iter_mut().enumerate() {
                    let place = drive.half(zone, bo, half as u64);
                    *history = History::new(place.map_or(0, |place| platter.read_half(place)));
                }
            }
        }
        for (zone, history) in self.stats.iter_mut().enumerate() {
            *history = History::new(drive.zones[zone].stats.host_write_blocks);
        }
        self.phases = History::new(drive.settings.allocation().into());
    }
}
