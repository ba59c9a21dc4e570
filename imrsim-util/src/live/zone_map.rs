// SPDX-License-Identifier: GPL-2.0-only

//! The zones in sight. A drive may have millions; only those that are on the screen are asked for.

use anyhow::Result;
use imrsim_core::uapi::{ZoneEntry, FILTER_ALL, MAX_REPORT};

use crate::device::{Device, Transport};

/// How many zones are in sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Zones in a row, at least one.
    pub columns: u64,
    /// Rows, at least one.
    pub rows: u64,
}

/// A window on the zones of a drive, and the zone that is selected.
#[derive(Clone, Debug)]
pub struct ZoneMap {
    zones: u64,
    selected: u64,
    shape: Shape,
    first_row: u64,
    zone_blocks: u32,
    /// From the first zone in sight on.
    entries: Vec<ZoneEntry>,
}

impl ZoneMap {
    /// The zones of a drive, of which `selected` is in sight.
    pub fn new(zones: u64, selected: u64) -> Self {
        Self {
            zones,
            selected: selected.min(zones.saturating_sub(1)),
            shape: Shape {
                columns: 1,
                rows: 1,
            },
            first_row: 0,
            zone_blocks: 0,
            entries: Vec::new(),
        }
    }

    /// How many zones the drive has.
    pub fn zones(&self) -> u64 {
        self.zones
    }

    /// The zone that is selected.
    pub fn selected(&self) -> u64 {
        self.selected
    }

    /// How many zones are in sight.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The first zone in sight.
    pub fn first(&self) -> u64 {
        self.first_row * self.shape.columns
    }

    /// The zone behind the last in sight.
    pub fn end(&self) -> u64 {
        let sight = self.shape.columns.saturating_mul(self.shape.rows);
        self.first().saturating_add(sight).min(self.zones)
    }

    /// Whether there are zones out of sight.
    pub fn is_part(&self) -> bool {
        self.shape.columns.saturating_mul(self.shape.rows) < self.zones
    }

    /// Blocks in a zone.
    pub fn zone_blocks(&self) -> u32 {
        self.zone_blocks
    }

    /// What is known of a zone: of one in sight, since they were read.
    pub fn entry(&self, zone: u64) -> Option<&ZoneEntry> {
        let first = self.entries.first()?.zone;
        let index = usize::try_from(zone.checked_sub(first)?).ok()?;
        self.entries.get(index).filter(|it| it.zone == zone)
    }

    /// Whether a zone in sight was not read yet.
    pub fn is_stale(&self) -> bool {
        let last = self.end().saturating_sub(1);
        self.entry(self.first()).is_none() || self.entry(last).is_none()
    }

    /// Moves the selection, and the window no further than needed.
    pub fn select(&mut self, zone: u64) {
        self.selected = zone.min(self.zones.saturating_sub(1));
        let row = self.selected / self.shape.columns;
        let last_row = self.zones.saturating_sub(1) / self.shape.columns;
        // No row stays empty that need not.
        let most = (last_row + 1).saturating_sub(self.shape.rows);
        let least = (row + 1).saturating_sub(self.shape.rows);
        self.first_row = self.first_row.min(most).clamp(least, row);
    }

    /// Changes how many zones are in sight.
    pub fn arrange(&mut self, shape: Shape) {
        let shape = Shape {
            columns: shape.columns.max(1),
            rows: shape.rows.max(1),
        };
        if shape != self.shape {
            self.first_row = self.first() / shape.columns;
            self.shape = shape;
        }
        self.select(self.selected);
    }

    /// Takes another number of zones, if the drive has changed.
    pub fn resize(&mut self, zones: u64) {
        if zones != self.zones {
            self.zones = zones;
            self.entries.clear();
            self.select(self.selected);
        }
    }

    /// Reads the zones in sight.
    ///
    /// # Errors
    ///
    /// If the drive refuses.
    pub fn read<T: Transport>(&mut self, device: &mut Device<T>) -> Result<()> {
        let mut entries = Vec::new();
        let (mut next, end) = (self.first(), self.end());
        while next < end {
            // CAST: at most `MAX_REPORT`.
            let count = (end - next).min(MAX_REPORT as u64) as u32;
            let report = device.report_zones(next, count, FILTER_ALL)?;
            entries.extend((0..MAX_REPORT).map_while(|index| report.get(index)));
            self.zone_blocks = report.zone_blocks;
            // A drive that does not get on would be asked for ever.
            if report.next <= next {
                break;
            }
            next = report.next;
        }
        self.entries = entries;
        Ok(())
    }
}
