// SPDX-License-Identifier: GPL-2.0-only

//! How full a drive is from end to end, when it has more zones than are in sight. It is read bit by bit, and
//! so somewhat old.

use anyhow::Result;
use imrsim_core::uapi::{ZoneEntry, FILTER_ALL, MAX_REPORT};

use crate::device::{Device, Transport};

/// The most parts that are told apart: more than a terminal has columns.
const PARTS: u64 = 1024;

/// Zones in a row, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Blocks that are mapped.
    pub mapped: u64,
    /// Blocks of the zones that were read.
    pub blocks: u64,
    /// Top blocks in use.
    pub used_tops: u64,
}

impl Part {
    fn add(&mut self, other: &Self) {
        self.mapped += other.mapped;
        self.blocks += other.blocks;
        self.used_tops += other.used_tops;
    }
}

/// All of a drive.
#[derive(Clone, Debug)]
pub struct Overview {
    zones: u64,
    next: u64,
    parts: Vec<Part>,
    /// The part that is being read, as far as it is.
    current: Part,
}

impl Overview {
    /// Of a drive of so many zones, none of which was read.
    pub fn new(zones: u64) -> Self {
        // CAST: 1024 at most.
        let parts = zones.min(PARTS) as usize;
        Self {
            zones,
            next: 0,
            parts: vec![Part::default(); parts],
            current: Part::default(),
        }
    }

    /// How many zones it is of.
    pub fn zones(&self) -> u64 {
        self.zones
    }

    /// Reads on, with so many requests; behind the last zone from the first on.
    ///
    /// # Errors
    ///
    /// If the drive refuses.
    pub fn read<T: Transport>(&mut self, device: &mut Device<T>, requests: u64) -> Result<()> {
        for _ in 0..requests.min(self.zones.div_ceil(MAX_REPORT as u64)) {
            // CAST: 64.
            let report = device.report_zones(self.next, MAX_REPORT as u32, FILTER_ALL)?;
            for entry in (0..MAX_REPORT).map_while(|index| report.get(index)) {
                self.add(&entry, report.zone_blocks);
            }
            let goes_on = report.next > self.next && report.next < self.zones;
            self.next = if goes_on { report.next } else { 0 };
        }
        Ok(())
    }

    fn add(&mut self, entry: &ZoneEntry, zone_blocks: u32) {
        self.current.add(&Part {
            mapped: entry.mapped_blocks.into(),
            blocks: zone_blocks.into(),
            used_tops: entry.used_top_blocks.into(),
        });
        let part = self.part_of(entry.zone);
        if part != self.part_of(entry.zone.saturating_add(1)) {
            let whole = std::mem::take(&mut self.current);
            if let Some(part) = self.parts.get_mut(part) {
                *part = whole;
            }
        }
    }

    fn part_of(&self, zone: u64) -> usize {
        let part = u128::from(zone) * self.parts.len() as u128 / u128::from(self.zones.max(1));
        usize::try_from(part).unwrap_or(usize::MAX)
    }

    /// What there is in each of so many equal shares of the drive, from its start to its end.
    pub fn shares(&self, count: usize) -> Vec<Part> {
        let mut shares = vec![Part::default(); count];
        if self.parts.len() < count {
            return self.parts.clone();
        }
        for (index, part) in self.parts.iter().enumerate() {
            shares[index * count / self.parts.len()].add(part);
        }
        shares
    }

    /// In which of so many shares a zone is.
    pub fn share_of(&self, zone: u64, count: usize) -> usize {
        self.part_of(zone) * count.min(self.parts.len()) / self.parts.len().max(1)
    }
}

#[cfg(test)]
mod tests {
    use imrsim_core::{Allocation, Geometry};

    use super::*;
    use crate::drive::Drive;

    #[test]
    fn what_is_read_bit_by_bit_is_all_in_the_end() {
        // 10 blocks each.
        let geometry = Geometry::new(2, 3, 2).unwrap();
        let mut drive = Drive::new(geometry, 5000, Allocation::default()).unwrap();
        for zone in [0, 2499, 2500, 4999] {
            drive.write(zone * 10 * 4096, 8 * 4096).unwrap();
        }
        let mut device = Device::new("x", drive);
        let mut overview = Overview::new(5000);
        overview.read(&mut device, 20).unwrap();
        let halves =
            |it: &Overview| -> Vec<u64> { it.shares(2).iter().map(|it| it.mapped).collect() };
        assert_eq!(halves(&overview), [8, 0]);
        for _ in 0..5 {
            overview.read(&mut device, 20).unwrap();
            assert!(halves(&overview)[1] <= 16);
        }
        assert_eq!(halves(&overview), [16, 16]);
        assert_eq!(
            overview.shares(10).iter().map(|it| it.blocks).sum::<u64>(),
            50_000
        );
        assert_eq!(overview.shares(1)[0].used_tops, 8);
        assert_eq!(overview.share_of(0, 70), 0);
        assert_eq!(overview.share_of(4999, 70), 69);
        // What changes is seen at the next turn.
        device.reset_zone(4999).unwrap();
        overview.read(&mut device, u64::MAX).unwrap();
        overview.read(&mut device, u64::MAX).unwrap();
        assert_eq!(halves(&overview), [16, 8]);
    }
}
