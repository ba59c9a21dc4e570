// SPDX-License-Identifier: GPL-2.0-only

//! What the live view knows of a drive, and what it is told to do.

use std::time::Duration;

use anyhow::{bail, Context, Result};
use imrsim_core::{
    uapi::{Config, ALL_ZONES, FILTER_ALL, MAX_REPORT},
    Geometry,
};

use super::{
    counters::Counters,
    overview::Overview,
    tracks::{Opened, Rewrite},
    zone_map::{Shape, ZoneMap},
    Options,
};
use crate::device::{Device, Transport};

/// The intervals that can be chosen.
const INTERVALS: [Duration; 10] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// How many requests read the overview: when it begins, which is all of most drives, and at each look.
const FIRST_REQUESTS: u64 = 2048;
const REQUESTS: u64 = 16;

/// How many track pairs up, down and a page are.
const PAIRS: i64 = 8;

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// One to the left.
    Left,
    /// One to the right.
    Right,
    /// A row up, or 8 track pairs back.
    Up,
    /// A row down, or 8 track pairs on.
    Down,
    /// All rows in sight up, or 8 track pairs back.
    PageUp,
    /// All rows in sight down, or 8 track pairs on.
    PageDown,
    /// The first zone, or track pair.
    First,
    /// The last.
    Last,
    /// The next zone with mapped blocks, behind the last from the first on.
    NextUsed,
    /// From the zones to the tracks of the selected one, and back.
    Focus,
    /// Stop looking, or go on.
    Pause,
    /// Look more often.
    Faster,
    /// Look less often.
    Slower,
    /// Explain, or no longer.
    Help,
    /// End an explanation, or all.
    Leave,
    /// End.
    Quit,
}

/// Where the arrows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// From zone to zone.
    Zones,
    /// From track pair to track pair of the opened zone.
    Tracks,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Then {
    /// Yes.
    GoOn,
    /// No.
    Quit,
}

/// What is known of a drive.
#[derive(Clone, Debug)]
pub struct Model {
    name: String,
    config: Config,
    geometry: Geometry,
    map: ZoneMap,
    overview: Overview,
    opened: Opened,
    counters: Counters,
    group: u32,
    focus: Focus,
    paused: bool,
    help: bool,
    /// Whether the next zone that is used is to be looked for.
    seeks: bool,
    interval: Duration,
    problem: Option<String>,
}

impl Model {
    /// The first look at a drive.
    ///
    /// # Errors
    ///
    /// If it has no such zone, is not an IMRSim drive, or refuses.
    pub fn new<T: Transport>(device: &mut Device<T>, options: &Options) -> Result<Self> {
        let config = device.config()?;
        let geometry = geometry(&config)?;
        let zone = options.zone;
        if zone >= config.zones {
            let (name, last) = (device.name(), config.zones.saturating_sub(1));
            bail!("{name} has no zone {zone}, only 0 to {last}");
        }
        let mut map = ZoneMap::new(config.zones, zone);
        map.read(device)?;
        Ok(Self {
            name: device.name().to_owned(),
            opened: Opened::look(device, &geometry, zone, None, &[])?,
            counters: Counters::new(device.statistics(ALL_ZONES)?),
            config,
            geometry,
            // Read if it is needed.
            overview: Overview::new(0),
            map,
            group: 0,
            focus: Focus::Zones,
            paused: false,
            help: false,
            seeks: false,
            interval: options.interval,
            problem: None,
        })
    }

    /// Looks again, so long after the first time. What the drive refuses is the
    /// [`problem`](Self::problem) until it does not any more: it may be suspended.
    pub fn look<T: Transport>(
        &mut self,
        device: &mut Device<T>,
        rewrites: Result<Vec<Rewrite>>,
        at: Duration,
    ) {
        let looked = rewrites.and_then(|rewrites| {
            self.config = device.config()?;
            self.geometry = geometry(&self.config)?;
            let statistics = device.statistics(ALL_ZONES)?;
            self.counters.add(statistics, at);
            self.map.resize(self.config.zones);
            self.map.read(device)?;
            self.oversee(device, REQUESTS)?;
            self.open(device, &rewrites)
        });
        self.problem = looked.err().map(|error| format!("{error:#}"));
    }

    /// Reads what came into sight since the last look. That is no new look: what changed since then
    /// stays, and so do the counters.
    pub fn catch_up<T: Transport>(&mut self, device: &mut Device<T>) {
        let mut read = Ok(());
        if std::mem::take(&mut self.seeks) {
            read = self.seek(device);
        }
        if self.map.is_stale() {
            read = read.and_then(|()| self.map.read(device));
        }
        if self.map.is_part() && self.overview.zones() != self.map.zones() {
            read = read.and_then(|()| self.oversee(device, FIRST_REQUESTS));
        }
        if !self.opened.is_of(&self.geometry, self.map.selected()) {
            read = read.and_then(|()| self.open(device, &[]));
        }
        if let Err(error) = read {
            self.problem = Some(format!("{error:#}"));
        }
    }

    /// Reads on in the overview, if there is one.
    fn oversee<T: Transport>(&mut self, device: &mut Device<T>, requests: u64) -> Result<()> {
        if !self.map.is_part() {
            return Ok(());
        }
        if self.overview.zones() != self.map.zones() {
            self.overview = Overview::new(self.map.zones());
        }
        self.overview.read(device, requests)
    }

    /// Selects the next zone with mapped blocks, if there is one.
    fn seek<T: Transport>(&mut self, device: &mut Device<T>) -> Result<()> {
        let (selected, zones) = (self.map.selected(), self.map.zones());
        for (mut next, end) in [(selected + 1, zones), (0, selected)] {
            while next < end {
                // CAST: 64.
                let report = device.report_zones(next, MAX_REPORT as u32, FILTER_ALL)?;
                let mut entries = (0..MAX_REPORT).map_while(|index| report.get(index));
                if let Some(entry) = entries.find(|it| it.mapped_blocks > 0) {
                    self.map.select(entry.zone);
                    return Ok(());
                }
                next = report.next.max(next + 1);
            }
        }
        Ok(())
    }

    fn open<T: Transport>(&mut self, device: &mut Device<T>, rewrites: &[Rewrite]) -> Result<()> {
        let (geometry, zone) = (&self.geometry, self.map.selected());
        self.opened = Opened::look(device, geometry, zone, Some(&self.opened), rewrites)?;
        self.group = self.group.min(geometry.groups() - 1);
        Ok(())
    }

    /// Changes how many zones are in sight.
    pub fn arrange(&mut self, shape: Shape) {
        self.map.arrange(shape);
    }

    /// Does what somebody wants. [`catch_up`](Self::catch_up) is due afterwards.
    pub fn command(&mut self, command: Command) -> Then {
        match command {
            Command::Quit => return Then::Quit,
            // Whoever reads the explanation has to see it go, whatever he pressed.
            _ if self.help => self.help = false,
            Command::Leave => return Then::Quit,
            Command::Help => self.help = true,
            Command::NextUsed => self.seeks = true,
            Command::Pause => self.paused = !self.paused,
            Command::Faster => {
                let shorter = INTERVALS.iter().rev().find(|it| **it < self.interval);
                self.interval = shorter.copied().unwrap_or(self.interval);
            }
            Command::Slower => {
                let longer = INTERVALS.iter().find(|it| **it > self.interval);
                self.interval = longer.copied().unwrap_or(self.interval);
            }
            Command::Focus => {
                self.focus = match self.focus {
                    Focus::Zones => Focus::Tracks,
                    Focus::Tracks => Focus::Zones,
                };
            }
            _ if self.focus == Focus::Zones => self.move_zone(command),
            _ => self.move_group(command),
        }
        Then::GoOn
    }

    fn move_zone(&mut self, command: Command) {
        let zone = self.map.selected();
        let Shape { columns, rows } = self.map.shape();
        let page = columns.saturating_mul(rows);
        let down = |by| {
            let below = zone.saturating_add(by);
            // The column is kept where the last row has it.
            if below < self.map.zones() || zone / columns < (self.map.zones() - 1) / columns {
                below
            } else {
                zone
            }
        };
        let zone = match command {
            Command::Left => zone.saturating_sub(1),
            Command::Right => zone.saturating_add(1),
            Command::Up => zone.checked_sub(columns).unwrap_or(zone),
            Command::Down => down(columns),
            Command::PageUp => zone.checked_sub(page).unwrap_or(zone % columns),
            Command::PageDown => down(page),
            Command::First => 0,
            Command::Last => u64::MAX,
            _ => zone,
        };
        self.map.select(zone);
    }

    fn move_group(&mut self, command: Command) {
        let by = match command {
            Command::Left => -1,
            Command::Right => 1,
            Command::Up | Command::PageUp => -PAIRS,
            Command::Down | Command::PageDown => PAIRS,
            Command::First => -i64::from(self.group),
            Command::Last => i64::from(u32::MAX),
            _ => 0,
        };
        let last = i64::from(self.geometry.groups()) - 1;
        let group = (i64::from(self.group) + by).clamp(0, last);
        self.group = u32::try_from(group).unwrap_or(self.group);
    }

    /// What the drive is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the drive is.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The numbers of the drive.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The zones in sight.
    pub fn map(&self) -> &ZoneMap {
        &self.map
    }

    /// All zones, if not all are in sight.
    pub fn overview(&self) -> Option<&Overview> {
        let is_known = self.map.is_part() && self.overview.zones() == self.map.zones();
        is_known.then_some(&self.overview)
    }

    /// The zone that is open.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The track pair that is selected, by its group.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// Where the arrows go.
    pub fn focus(&self) -> Focus {
        self.focus
    }

    /// Whether there are to be no looks.
    pub fn paused(&self) -> bool {
        self.paused
    }

    /// Whether the explanation is to be seen.
    pub fn help(&self) -> bool {
        self.help
    }

    /// The time between two looks.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Why the drive could not be looked at, if so.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

fn geometry(config: &Config) -> Result<Geometry> {
    Geometry::new(config.top_blocks, config.bottom_blocks, config.groups)
        .context("the drive says that it has an impossible geometry")
}
