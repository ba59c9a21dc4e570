// SPDX-License-Identifier: GPL-2.0-only

//! A whole drive in memory: the zones of `imrsim-core` and what the kernel target does around
//! them, for one request at a time.
//!
//! A request is cut at the zones' borders, as device-mapper does; each piece is a request to its
//! zone. There it is cut further into runs: the zone plans the longest prefix that is one run, the
//! plan is counted and carried out, and the rest follows. Only metadata is kept, no data, and
//! none of zones that nothing was asked of.

mod answers;
mod fill;
mod parts;
mod record;

use anyhow::{bail, Result};
use imrsim_core::{
    uapi::{Errors, ALL_ZONES},
    Allocation, Bo, Cause, Condition, DiscardPart, Geometry, Layout, Nbo, Piece, Plan, ReadRun,
    Request, Settings, Stats, Step, Strategy, Zone, ZoneState, BLOCK_SIZE, SECTOR_SIZE,
};

use self::{
    fill::Fill,
    parts::{behind, discards, parts, Part},
    record::Recorder,
};
use crate::prefill::{Prefill, Share};

/// The most zones a drive may have.
pub const MAX_ZONES: u64 = 1 << 24;

const BLOCK: u64 = BLOCK_SIZE as u64;
const SECTOR: u64 = SECTOR_SIZE as u64;

/// A drive.
#[derive(Debug)]
pub struct Drive {
    geometry: Geometry,
    settings: Settings,
    /// What they are set back to.
    first_settings: Settings,
    layout: Layout,
    zones: Vec<Slot>,
    fill: Option<Fill>,
    errors: Errors,
    recorder: Option<Box<Recorder>>,
}

/// A zone. There may be millions, and few of them may ever be asked for anything.
#[derive(Debug, Default)]
struct Slot {
    touched: Option<Box<Touched>>,
    condition: Condition,
}

impl Slot {
    /// What there is of the zone from its first request on. Whatever fills it was there before.
    #[inline]
    fn touch(&mut self, zone: usize, geometry: &Geometry, fill: Option<&Fill>) -> &mut Touched {
        self.touched.get_or_insert_with(|| {
            Box::new(Touched {
                stats: Stats::default(),
                memory: fill.and_then(|fill| fill.memory(geometry, zone as u64)),
            })
        })
    }
}

/// A zone that something was asked of.
#[derive(Debug)]
struct Touched {
    stats: Stats,
    /// From the first write on.
    memory: Option<Memory>,
}

impl Touched {
    fn state(&self) -> ZoneState {
        self.memory.as_ref().map(|it| it.state).unwrap_or_default()
    }
}

#[derive(Debug)]
struct Memory {
    table: Vec<u16>,
    bits: Vec<u64>,
    state: ZoneState,
}

impl Memory {
    fn new(geometry: &Geometry) -> Self {
        Self {
            table: vec![0; Zone::table_len(geometry)],
            bits: vec![0; Zone::bits_len(geometry)],
            state: ZoneState::default(),
        }
    }

    #[inline]
    fn zone<'a>(&'a mut self, geometry: &'a Geometry) -> Zone<'a> {
        Zone::new(geometry, &mut self.table, &mut self.bits, &mut self.state)
            .expect("the slices have the lengths that the zone asked for")
    }
}

/// Writes to a zone, run by run. Each plan goes to `count`, with what was left of the request. Fails,
/// with the block, if there is no place for one.
#[inline]
fn write_runs(
    zone: &mut Zone<'_>,
    request: Request,
    allocation: Allocation,
    mut count: impl FnMut(&Plan, &Request),
) -> Result<(), Bo> {
    let mut rest = request;
    while rest.blocks > 0 {
        // Nothing is in flight, and so an update changes nothing in the zone.
        let update = zone.lookup(rest.bo).is_some();
        let step = match update {
            true => zone.plan(&rest, allocation),
            false => zone.start(&rest, allocation),
        };
        let Step::Ready(plan) = step else {
            return Err(rest.bo);
        };
        count(&plan, &rest);
        if !update {
            zone.finish(&plan, true);
        }
        rest = behind(&rest, plan.blocks);
    }
    Ok(())
}

/// What the host wants of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl Drive {
    /// An empty drive.
    ///
    /// # Errors
    ///
    /// If it has no zones or more than [`MAX_ZONES`].
    pub fn new(geometry: Geometry, zones: u64, allocation: Allocation) -> Result<Self> {
        let layout = layout(&geometry, zones)?;
        let mut slots = Vec::new();
        slots.resize_with(usize::try_from(zones)?, Slot::default);
        let settings = Settings::DEFAULT
            .with_allocation(allocation.number())
            .unwrap_or_default();
        let errors = Errors {
            read_zone: ALL_ZONES,
            write_zone: ALL_ZONES,
            ..Errors::default()
        };
        Ok(Self {
            geometry,
            settings,
            first_settings: settings,
            layout,
            zones: slots,
            fill: None,
            errors,
            recorder: None,
        })
    }

    /// Makes every zone hold what [`prefill`](crate::prefill) writes, without that being counted.
    ///
    /// A zone is filled when something is asked of it for the first time; only those take memory and
    /// time. Zones of which something was asked before stay as they are.
    pub fn prefill(&mut self, prefill: Prefill, share: Share, seed: u64) {
        let allocation = self.settings.strategy();
        self.fill = Fill::new(&self.geometry, prefill, share, seed, allocation);
    }

    /// The numbers of the drive.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Its size in bytes.
    pub fn capacity(&self) -> u64 {
        self.zones.len() as u64 * self.zone_bytes()
    }

    /// How many zones it has.
    pub fn zone_count(&self) -> u64 {
        self.zones.len() as u64
    }

    /// The allocation of blocks that are written for the first time.
    pub fn set_allocation(&mut self, allocation: Allocation) {
        self.settings = self
            .settings
            .with_allocation(allocation.number())
            .unwrap_or(self.settings);
    }

    /// The counters of a zone; all zero if there is no such zone.
    pub fn zone_stats(&self, zone: u64) -> Stats {
        let touched = self.slot(zone).and_then(|slot| slot.touched.as_ref());
        touched.map(|touched| touched.stats).unwrap_or_default()
    }

    /// The zones that something was asked of, by number, with their counters.
    pub fn touched_zones(&self) -> impl Iterator<Item = (u64, &Stats)> {
        (0..)
            .zip(&self.zones)
            .filter_map(|(zone, slot)| Some((zone, &slot.touched.as_ref()?.stats)))
    }

    /// The counters of all zones.
    pub fn stats(&self) -> Stats {
        let mut all = Stats::default();
        for (_, stats) in self.touched_zones() {
            all.merge(stats);
        }
        all
    }

    /// Sets all counters to zero.
    pub fn reset_stats(&mut self) {
        for touched in self.zones.iter_mut().filter_map(|it| it.touched.as_mut()) {
            touched.stats = Stats::default();
        }
    }

    /// Blocks that are mapped, in all zones.
    pub fn mapped_blocks(&self) -> u64 {
        let filled = self.fill.as_ref().map_or(0, Fill::mapped_blocks);
        self.zones
            .iter()
            .map(|slot| match &slot.touched {
                Some(touched) => touched.state().mapped_blocks(),
                None => filled,
            })
            .map(u64::from)
            .sum()
    }

    /// Blocks of top tracks that are in use, in all zones.
    pub fn used_top_blocks(&self) -> u64 {
        (0..self.zone_count())
            .map(|zone| u64::from(self.occupied(zone).1))
            .sum()
    }

    /// Where block `bo` of a zone lies; `None` if it was never written, or is none.
    pub fn lookup(&mut self, zone: u64, bo: u32) -> Option<u32> {
        self.view(zone)?.lookup(Bo(bo)).map(|nbo| nbo.0)
    }

    /// Whether physical block `nbo` of a zone is in use.
    pub fn is_used(&mut self, zone: u64, nbo: u32) -> bool {
        self.view(zone).is_some_and(|zone| zone.is_used(Nbo(nbo)))
    }

    /// Writes `len` bytes from byte `offset` on.
    ///
    /// # Errors
    ///
    /// If they do not lie in the drive; then nothing happens. If a zone is not in normal condition;
    /// the other zones are written.
    pub fn write(&mut self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        let mut result = Ok(());
        for part in parts(self.geometry, offset, len) {
            // As in the kernel, where each part is a request of its own, the others go on.
            let done = self.write_part(&part);
            if done.is_err() {
                result = result.and(done);
            }
        }
        result
    }

    /// Reads `len` bytes from byte `offset` on.
    ///
    /// # Errors
    ///
    /// If they do not lie in the drive; then nothing happens. If a zone is offline; the other zones
    /// are read.
    pub fn read(&mut self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        let mut result = Ok(());
        for part in parts(self.geometry, offset, len) {
            let done = self.read_part(&part);
            if done.is_err() {
                result = result.and(done);
            }
        }
        result
    }

    /// Discards `len` bytes from byte `offset` on: unmaps the blocks that lie in there as a whole.
    ///
    /// # Errors
    ///
    /// If they do not lie in the drive; then nothing happens. If a zone is not in normal condition;
    /// nothing is unmapped from there on.
    pub fn discard(&mut self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        for (sector, sectors) in discards(self.geometry, offset, len) {
            self.discard_request(sector, sectors)?;
        }
        Ok(())
    }

    /// One discard, as the kernel target gets and counts it: zone by zone.
    fn discard_request(&mut self, mut sector: u64, mut sectors: u64) -> Result<()> {
        let mut counted = false;
        while sectors > 0 {
            let part = DiscardPart::first(&self.geometry, sector, sectors);
            sector += part.sectors;
            sectors -= part.sectors;
            let zone = usize::try_from(part.zone)?;
            let slot = &mut self.zones[zone];
            if !slot.condition.can_write() {
                return Err(self.refuse(zone, Access::Write));
            }
            let touched = slot.touch(zone, &self.geometry, self.fill.as_ref());
            // A zone that was never written to has nothing to unmap.
            if touched.memory.is_none() {
                continue;
            }
            if self.records(zone) {
                self.note_discard(&part, counted)?;
            }
            let slot = &mut self.zones[zone];
            let touched = slot.touch(zone, &self.geometry, self.fill.as_ref());
            let Some(memory) = &mut touched.memory else {
                continue;
            };
            if !counted {
                touched.stats.count_discard();
                counted = true;
            }
            // Nothing is in flight that could keep it from being done.
            let freed = memory.zone(&self.geometry).unmap(part.bo, part.blocks);
            touched.stats.count_unmapped(freed.unwrap_or(0));
        }
        Ok(())
    }

    /// Notes the last error: that a zone refuses an access.
    #[cold]
    fn refuse(&mut self, zone: usize, access: Access) -> anyhow::Error {
        const EIO: u32 = 5;
        let condition = self.zones[zone].condition;
        let cause = match condition {
            Condition::ReadOnly => Cause::ReadOnlyZone,
            _ => Cause::OfflineZone,
        };
        let it = &mut self.errors;
        let (noted, errno, place, count) = match access {
            Access::Read => (
                &mut it.read_cause,
                &mut it.read_errno,
                &mut it.read_zone,
                &mut it.read_errors,
            ),
            Access::Write => (
                &mut it.write_cause,
                &mut it.write_errno,
                &mut it.write_zone,
                &mut it.write_errors,
            ),
        };
        *noted = cause.number();
        *errno = EIO;
        *place = zone as u64;
        *count += 1;
        anyhow::anyhow!("zone {zone} is {}", condition.name())
    }

    #[inline]
    fn records(&self, zone: usize) -> bool {
        self.recorder.as_ref().is_some_and(|it| it.wants(zone))
    }

    #[inline]
    fn write_part(&mut self, part: &Part) -> Result<()> {
        let allocation = self.settings.strategy();
        let records = self.records(part.zone);
        let slot = &mut self.zones[part.zone];
        if !slot.condition.can_write() {
            return Err(self.refuse(part.zone, Access::Write));
        }
        if records {
            return self.write_part_recorded(part);
        }
        let Touched { stats, memory } = slot.touch(part.zone, &self.geometry, self.fill.as_ref());
        let memory = memory.get_or_insert_with(|| Memory::new(&self.geometry));
        let mut zone = memory.zone(&self.geometry);
        let request = part.request;
        if request.blocks == 1 && !part.goes_on {
            if let Some(placed) = zone.start_first(request.bo, allocation) {
                zone.finish_block(&placed);
                let edges = u32::from(request.head_partial) + u32::from(request.tail_partial);
                stats.count_block(&placed, edges);
                return Ok(());
            }
        }
        let done = write_runs(&mut zone, request, allocation, |plan, rest| {
            stats.count_write(plan, Piece::of(rest, plan.blocks, false, part.goes_on));
        });
        if let Err(bo) = done {
            // Nothing else is in flight, and a zone has as many places as blocks.
            bail!("zone {} has no place for block {bo}", part.zone);
        }
        Ok(())
    }

    #[inline]
    fn read_part(&mut self, part: &Part) -> Result<()> {
        if !self.zones[part.zone].condition.can_read() {
            return Err(self.refuse(part.zone, Access::Read));
        }
        if self.records(part.zone) {
            self.note_read(part)?;
        }
        let slot = &mut self.zones[part.zone];
        let Touched { stats, memory } = slot.touch(part.zone, &self.geometry, self.fill.as_ref());
        let mut zone = memory.as_mut().map(|memory| memory.zone(&self.geometry));
        let mut rest = part.request;
        while rest.blocks > 0 {
            let run = match &mut zone {
                Some(zone) => zone.read(rest.bo, rest.blocks),
                None => ReadRun::Zeros {
                    blocks: rest.blocks,
                },
            };
            let (ReadRun::Mapped { blocks, .. } | ReadRun::Zeros { blocks }) = run;
            let piece = Piece::of(&rest, blocks, false, part.goes_on);
            stats.count_read(&run, piece);
            rest = behind(&rest, blocks);
        }
        Ok(())
    }

    #[inline]
    fn check(&self, offset: u64, len: u64) -> Result<()> {
        let capacity = self.capacity();
        match offset.checked_add(len) {
            Some(end) if end <= capacity => Ok(()),
            _ => bail!("reaches beyond the drive's {capacity} bytes"),
        }
    }

    fn zone_bytes(&self) -> u64 {
        u64::from(self.geometry.zone_blocks()) * BLOCK
    }

    fn slot(&self, zone: u64) -> Option<&Slot> {
        self.zones.get(usize::try_from(zone).ok()?)
    }

    /// Blocks that are mapped, and blocks of top tracks that are in use, in a zone.
    fn occupied(&self, zone: u64) -> (u32, u32) {
        let touched = self.slot(zone).and_then(|slot| slot.touched.as_ref());
        match (touched, &self.fill) {
            (Some(it), _) => (it.state().mapped_blocks(), it.state().used_tops()),
            (None, Some(it)) => (it.mapped_blocks(), it.used_tops(&self.geometry, zone)),
            (None, None) => (0, 0),
        }
    }

    /// A zone that was written to.
    fn view(&mut self, zone: u64) -> Option<Zone<'_>> {
        let zone = usize::try_from(zone).ok()?;
        let slot = self.zones.get_mut(zone)?;
        let memory = match (&mut slot.touched, &self.fill) {
            (None, None) => return None,
            _ => &mut slot.touch(zone, &self.geometry, self.fill.as_ref()).memory,
        };
        Some(memory.as_mut()?.zone(&self.geometry))
    }
}

/// Where the metadata of a drive of so many zones would lie.
///
/// # Errors
///
/// If it has no zones or more than [`MAX_ZONES`].
pub fn layout(geometry: &Geometry, zones: u64) -> Result<Layout> {
    if zones == 0 || zones > MAX_ZONES {
        bail!("a drive has 1 to {MAX_ZONES} zones, not {zones}");
    }
    match Layout::new(geometry, zones) {
        Some(layout) => Ok(layout),
        None => bail!("{zones} zones are more than 2^64 sectors"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untouched_zone_takes_a_few_bytes() {
        assert!(size_of::<Slot>() <= 16);
    }
}
