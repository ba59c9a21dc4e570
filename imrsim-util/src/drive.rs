// SPDX-License-Identifier: GPL-2.0-only

//! A whole drive in memory: the zones of `imrsim-core` and what the kernel target does around
//! them, for one request at a time.
//!
//! A request is cut at the zones' borders, as device-mapper does; each piece is a request to its
//! zone. There it is cut further into runs: [`Zone::start`] plans the longest prefix that is one
//! run, the plan is counted and finished, and the rest follows. Only metadata is kept, no data.

use std::io;

use anyhow::{bail, Result};
use imrsim_core::{
    latency,
    uapi::{
        decode, encode_reply, filter_lists, Config, Errors, Latency, Message, Refusal,
        Request as Call, ResetConfig, SettingValue, Statistics, ZoneCondition, ZoneEntry,
        ZoneNumber, ZoneReport, ALL_ZONES, CLEAR_READ_ERROR, CLEAR_WRITE_ERROR, FLAG_VOLATILE,
        INDICATORS, MAX_REPORT, RESET_SETTINGS, RESET_ZONES, SETTINGS,
    },
    Allocation, Bo, Cause, Condition, DiscardPart, Geometry, Layout, Nbo, Piece, ReadRun, Request,
    Settings, Stats, Step, Strategy, Zone, ZoneState, BLOCK_SIZE, SECTOR_SIZE,
};

use crate::device::Transport;

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
    errors: Errors,
}

/// A zone. It takes memory for its table when it is written to for the first time.
#[derive(Debug, Default)]
struct Slot {
    stats: Stats,
    condition: Condition,
    memory: Option<Box<Memory>>,
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

    fn zone<'a>(&'a mut self, geometry: &'a Geometry) -> Zone<'a> {
        Zone::new(geometry, &mut self.table, &mut self.bits, &mut self.state)
            .expect("the slices have the lengths that the zone asked for")
    }
}

/// The part of a request that lies in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    zone: usize,
    request: Request,
    /// Whether the request goes on in the next zone.
    goes_on: bool,
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
        if zones == 0 || zones > MAX_ZONES {
            bail!("a drive has 1 to {MAX_ZONES} zones, not {zones}");
        }
        let Some(layout) = Layout::new(&geometry, zones) else {
            bail!("{zones} zones are more than 2^64 sectors");
        };
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
            errors,
        })
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
        self.slot(zone).map(|slot| slot.stats).unwrap_or_default()
    }

    /// The counters of all zones.
    pub fn stats(&self) -> Stats {
        let mut all = Stats::default();
        for slot in &self.zones {
            all.merge(&slot.stats);
        }
        all
    }

    /// Sets all counters to zero.
    pub fn reset_stats(&mut self) {
        for slot in &mut self.zones {
            slot.stats = Stats::default();
        }
    }

    /// Blocks that are mapped, in all zones.
    pub fn mapped_blocks(&self) -> u64 {
        self.sum(|state| state.mapped_blocks())
    }

    /// Blocks of top tracks that are in use, in all zones.
    pub fn used_top_blocks(&self) -> u64 {
        self.sum(|state| state.used_tops())
    }

    /// Where block `bo` of a zone lies; `None` if it was never written, or is none.
    pub fn lookup(&mut self, zone: u64, bo: u32) -> Option<u32> {
        let slot = self.zones.get_mut(usize::try_from(zone).ok()?)?;
        let memory = slot.memory.as_mut()?;
        memory.zone(&self.geometry).lookup(Bo(bo)).map(|nbo| nbo.0)
    }

    /// Whether physical block `nbo` of a zone is in use.
    pub fn is_used(&mut self, zone: u64, nbo: u32) -> bool {
        usize::try_from(zone)
            .ok()
            .and_then(|zone| self.zones.get_mut(zone))
            .and_then(|slot| slot.memory.as_mut())
            .is_some_and(|memory| memory.zone(&self.geometry).is_used(Nbo(nbo)))
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
            let done = match self.refusal(part.zone as u64, Access::Write) {
                Some(error) => Err(error),
                None => self.write_part(&part),
            };
            result = result.and(done);
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
            match self.refusal(part.zone as u64, Access::Read) {
                Some(error) => result = result.and(Err(error)),
                None => self.read_part(&part),
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
            if let Some(error) = self.refusal(part.zone, Access::Write) {
                return Err(error);
            }
            let slot = usize::try_from(part.zone)
                .ok()
                .and_then(|zone| self.zones.get_mut(zone));
            let Some(slot) = slot else { break };
            // A zone that was never written to has nothing to unmap.
            let Some(memory) = &mut slot.memory else {
                continue;
            };
            if !counted {
                slot.stats.count_discard();
                counted = true;
            }
            // Nothing is in flight that could keep it from being done.
            let freed = memory.zone(&self.geometry).unmap(part.bo, part.blocks);
            slot.stats.count_unmapped(freed.unwrap_or(0));
        }
        Ok(())
    }

    /// Why a zone refuses an access, which is noted as the last error.
    fn refusal(&mut self, zone: u64, access: Access) -> Option<anyhow::Error> {
        const EIO: u32 = 5;
        let condition = self.slot(zone)?.condition;
        let allowed = match access {
            Access::Read => condition.can_read(),
            Access::Write => condition.can_write(),
        };
        if allowed {
            return None;
        }
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
        *place = zone;
        *count += 1;
        Some(anyhow::anyhow!("zone {zone} is {}", condition.name()))
    }

    fn write_part(&mut self, part: &Part) -> Result<()> {
        let allocation = self.settings.strategy();
        let slot = &mut self.zones[part.zone];
        let memory = slot
            .memory
            .get_or_insert_with(|| Box::new(Memory::new(&self.geometry)));
        let mut zone = memory.zone(&self.geometry);
        let mut rest = part.request;
        while rest.blocks > 0 {
            let Step::Ready(plan) = zone.start(&rest, allocation) else {
                // Nothing else is in flight, and a zone has as many places as blocks.
                bail!("zone {} has no place for block {}", part.zone, rest.bo);
            };
            let piece = Piece::of(&rest, plan.blocks, false, part.goes_on);
            slot.stats.count_write(&plan, piece);
            zone.finish(&plan, true);
            rest = behind(&rest, plan.blocks);
        }
        Ok(())
    }

    fn read_part(&mut self, part: &Part) {
        let slot = &mut self.zones[part.zone];
        let mut rest = part.request;
        while rest.blocks > 0 {
            let run = match &mut slot.memory {
                Some(memory) => memory.zone(&self.geometry).read(rest.bo, rest.blocks),
                None => ReadRun::Zeros {
                    blocks: rest.blocks,
                },
            };
            let (ReadRun::Mapped { blocks, .. } | ReadRun::Zeros { blocks }) = run;
            let piece = Piece::of(&rest, blocks, false, part.goes_on);
            slot.stats.count_read(&run, piece);
            rest = behind(&rest, blocks);
        }
    }

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

    fn sum(&self, count: impl Fn(&ZoneState) -> u32) -> u64 {
        let memories = self.zones.iter().filter_map(|slot| slot.memory.as_ref());
        memories.map(|memory| u64::from(count(&memory.state))).sum()
    }

    fn config(&self) -> Config {
        Config {
            flags: FLAG_VOLATILE,
            block_size: BLOCK_SIZE,
            top_blocks: self.geometry.top_blocks(),
            bottom_blocks: self.geometry.bottom_blocks(),
            groups: self.geometry.groups(),
            phases: self.settings.allocation(),
            zones: self.zone_count(),
            zone_sectors: self.geometry.zone_sectors(),
            data_sectors: self.layout.data_sectors(),
            metadata_sectors: self.layout.metadata_sectors(),
            total_blocks: self.capacity() / BLOCK,
            mapped_blocks: self.mapped_blocks(),
            // CAST: a handful.
            settings: SETTINGS as u32,
            latency_kinds: latency::Kind::COUNT as u32,
            ..Config::default()
        }
    }

    fn statistics(&self, zone: u64) -> Option<Statistics> {
        let (stats, blocks, mapped, used_tops) = if zone == ALL_ZONES {
            (
                self.stats(),
                self.capacity() / BLOCK,
                self.mapped_blocks(),
                self.used_top_blocks(),
            )
        } else {
            let slot = self.slot(zone)?;
            let state = slot.memory.as_ref().map(|memory| memory.state);
            let state = state.unwrap_or_default();
            (
                slot.stats,
                u64::from(self.geometry.zone_blocks()),
                u64::from(state.mapped_blocks()),
                u64::from(state.used_tops()),
            )
        };
        Some(Statistics {
            zone,
            capacity_blocks: blocks,
            mapped_blocks: mapped,
            used_top_blocks: used_tops,
            phases: self.settings.allocation(),
            // CAST: a handful.
            indicator_count: INDICATORS as u32,
            indicators: stats.values(),
            ..Statistics::default()
        })
    }
}

/// An error of the kernel.
fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// Takes a request's struct.
fn sent<M: Message>(buf: &[u8]) -> io::Result<M> {
    decode(buf).map_err(|refusal: Refusal| errno(refusal.errno()))
}

const EIO: i32 = 5;
const ENXIO: i32 = 6;
const EINVAL: i32 = 22;
const EROFS: i32 = 30;

/// The requests that change something or take more than a look.
impl Drive {
    fn slot_mut(&mut self, zone: u64) -> io::Result<&mut Slot> {
        usize::try_from(zone)
            .ok()
            .and_then(|zone| self.zones.get_mut(zone))
            .ok_or(errno(ENXIO))
    }

    fn report(&mut self, question: &ZoneReport) -> io::Result<ZoneReport> {
        let zone_blocks = self.geometry.zone_blocks();
        let mut reply = ZoneReport {
            count: 0,
            zone_blocks,
            zones: ZoneReport::default().zones,
            ..*question
        };
        filter_lists(question.filter, &ZoneEntry::default(), zone_blocks).ok_or(errno(EINVAL))?;
        let allocation = self.settings.strategy();
        let most = usize::try_from(question.count)
            .unwrap_or(MAX_REPORT)
            .min(MAX_REPORT);
        let zones = self.zone_count();
        while reply.next < zones && (reply.count as usize) < most {
            let slot = &mut self.zones[usize::try_from(reply.next).map_err(|_| errno(ENXIO))?];
            let mut entry = ZoneEntry {
                zone: reply.next,
                condition: slot.condition.number(),
                // The next first write falls in the first.
                phase: 1,
                ..ZoneEntry::default()
            };
            if let Some(memory) = &mut slot.memory {
                let zone = memory.zone(&self.geometry);
                entry.mapped_blocks = zone.mapped_blocks();
                entry.used_top_blocks = zone.used_tops();
                entry.phase = zone.phase_reached(allocation);
            }
            if filter_lists(question.filter, &entry, zone_blocks) == Some(true) {
                reply.push(&entry);
            }
            reply.next += 1;
        }
        reply.next = reply.next.min(zones);
        Ok(reply)
    }

    fn reset_zone(&mut self, zone: u64) -> io::Result<()> {
        let geometry = self.geometry;
        let slot = self.slot_mut(zone)?;
        match slot.condition {
            Condition::Normal => {}
            Condition::ReadOnly => return Err(errno(EROFS)),
            Condition::Offline => return Err(errno(EIO)),
        }
        // A zone that was never written to has nothing to reset.
        let Some(memory) = &mut slot.memory else {
            return Ok(());
        };
        // Nothing is in flight that could keep it from being done.
        let mut zone = memory.zone(&geometry);
        let freed = zone.unmap(Bo(0), geometry.zone_blocks());
        slot.stats.count_unmapped(freed.unwrap_or(0));
        slot.stats.count_reset();
        Ok(())
    }

    fn set_condition(&mut self, message: &ZoneCondition) -> io::Result<()> {
        let condition = Condition::from_number(message.condition).ok_or(errno(EINVAL))?;
        if message.zone == ALL_ZONES {
            for slot in &mut self.zones {
                slot.condition = condition;
            }
        } else {
            self.slot_mut(message.zone)?.condition = condition;
        }
        Ok(())
    }

    fn reset_config(&mut self, what: u32) -> io::Result<()> {
        if what == 0 || what & !(RESET_ZONES | RESET_SETTINGS) != 0 {
            return Err(errno(EINVAL));
        }
        if what & RESET_ZONES != 0 {
            for slot in &mut self.zones {
                slot.condition = Condition::Normal;
            }
        }
        if what & RESET_SETTINGS != 0 {
            self.settings = self.first_settings;
        }
        Ok(())
    }

    fn last_errors(&mut self, flags: u32) -> io::Result<Errors> {
        if flags & !(CLEAR_READ_ERROR | CLEAR_WRITE_ERROR) != 0 {
            return Err(errno(EINVAL));
        }
        let reply = Errors {
            flags,
            logging: self.settings.log_errors(),
            ..self.errors
        };
        if flags & CLEAR_READ_ERROR != 0 {
            self.errors.read_cause = 0;
            self.errors.read_errno = 0;
            self.errors.read_zone = ALL_ZONES;
            self.errors.read_errors = 0;
        }
        if flags & CLEAR_WRITE_ERROR != 0 {
            self.errors.write_cause = 0;
            self.errors.write_errno = 0;
            self.errors.write_zone = ALL_ZONES;
            self.errors.write_errors = 0;
        }
        Ok(reply)
    }
}

/// Answers as the kernel target answers the same bytes. Time does not pass in it.
impl Transport for Drive {
    fn call(&mut self, request: Call, buf: &mut [u8]) -> io::Result<()> {
        match request {
            Call::GetConfig => {
                sent::<Config>(buf)?;
                encode_reply(&self.config(), buf);
            }
            Call::GetSetting => {
                let question: SettingValue = sent(buf)?;
                let value = self.settings.get(question.setting as usize);
                let reply = SettingValue {
                    value: value.ok_or(errno(EINVAL))?,
                    ..question
                };
                encode_reply(&reply, buf);
            }
            Call::SetSetting => {
                let SettingValue { setting, value, .. } = sent(buf)?;
                let settings = self.settings.with(setting as usize, value);
                self.settings = settings.ok_or(errno(EINVAL))?;
            }
            Call::GetStatistics => {
                let question: Statistics = sent(buf)?;
                let reply = self.statistics(question.zone).ok_or(errno(ENXIO))?;
                encode_reply(&reply, buf);
            }
            Call::ResetStatistics => {
                let ZoneNumber { zone, .. } = sent(buf)?;
                if zone == ALL_ZONES {
                    self.reset_stats();
                } else {
                    self.slot_mut(zone)?.stats = Stats::default();
                }
            }
            Call::ReportZones => {
                let question: ZoneReport = sent(buf)?;
                encode_reply(&self.report(&question)?, buf);
            }
            Call::ResetZone => self.reset_zone(sent::<ZoneNumber>(buf)?.zone)?,
            Call::SetCondition => self.set_condition(&sent(buf)?)?,
            Call::ResetConfig => self.reset_config(sent::<ResetConfig>(buf)?.what)?,
            Call::GetErrors => {
                let question: Errors = sent(buf)?;
                encode_reply(&self.last_errors(question.flags)?, buf);
            }
            Call::GetLatency => {
                let question: Latency = sent(buf)?;
                if question.kind as usize >= latency::Kind::COUNT {
                    return Err(errno(EINVAL));
                }
                let reply = Latency {
                    kind: question.kind,
                    // CAST: a handful.
                    bucket_count: latency::BUCKETS as u32,
                    ..Latency::default()
                };
                encode_reply(&reply, buf);
            }
        }
        Ok(())
    }
}

/// What is left of a request behind its first `blocks` blocks.
fn behind(request: &Request, blocks: u32) -> Request {
    Request {
        bo: request.bo.after(blocks),
        blocks: request.blocks.saturating_sub(blocks),
        head_partial: false,
        tail_partial: request.tail_partial,
    }
}

/// Cuts a request, in bytes, at the borders of the zones. It lies in the drive; of no bytes there
/// are no parts.
fn parts(geometry: Geometry, offset: u64, len: u64) -> impl Iterator<Item = Part> {
    let end = offset + len;
    let zone_blocks = u64::from(geometry.zone_blocks());
    let first = offset / BLOCK;
    let after = if len == 0 { first } else { end.div_ceil(BLOCK) };
    let mut block = first;
    std::iter::from_fn(move || {
        if block >= after {
            return None;
        }
        let (zone, bo) = geometry.split(block);
        let stop = after.min((zone + 1) * zone_blocks);
        let part = Part {
            zone: usize::try_from(zone).ok()?,
            request: Request {
                bo: Bo(bo),
                blocks: u32::try_from(stop - block).ok()?,
                head_partial: block == first && !offset.is_multiple_of(BLOCK),
                tail_partial: stop == after && !end.is_multiple_of(BLOCK),
            },
            goes_on: stop < after,
        };
        block = stop;
        Some(part)
    })
}

/// Cuts a discard, in bytes, as the block layer does for a device of ours: in front of the first whole
/// block, then to the length of a zone, wherever it begins. Sectors that are not covered as a whole do
/// not count. Returns the first sector of each piece, and how many.
fn discards(geometry: Geometry, offset: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut sector = offset.div_ceil(SECTOR);
    let end = (offset + len) / SECTOR;
    std::iter::from_fn(move || {
        let left = end.checked_sub(sector).filter(|left| *left > 0)?;
        let to_block = sector.next_multiple_of(BLOCK / SECTOR) - sector;
        let sectors = match to_block {
            0 => geometry.zone_sectors().min(left),
            _ => to_block.min(left),
        };
        let piece = (sector, sectors);
        sector += sectors;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_cut_at_zones_and_keep_their_partial_ends() {
        let geometry = Geometry::new(2, 3, 2).unwrap();
        let cut = |offset, len| -> Vec<_> {
            parts(geometry, offset, len)
                .map(|part| {
                    let it = part.request;
                    let partial = (it.head_partial, it.tail_partial);
                    (part.zone, it.bo.0, it.blocks, partial.0, partial.1)
                })
                .collect()
        };
        assert_eq!(cut(0, 0), []);
        assert_eq!(cut(0, 4096), [(0, 0, 1, false, false)]);
        assert_eq!(cut(512, 512), [(0, 0, 1, true, true)]);
        assert_eq!(cut(4096, 4097), [(0, 1, 2, false, true)]);
        assert_eq!(cut(4095, 2), [(0, 0, 2, true, true)]);
        assert_eq!(
            cut(9 * 4096 + 512, 12 * 4096),
            [
                (0, 9, 1, true, false),
                (1, 0, 10, false, false),
                (2, 0, 2, false, true)
            ]
        );
    }

    #[test]
    fn discards_are_cut_as_the_block_layer_cuts_them() {
        // Zones of 10 blocks, 80 sectors.
        let geometry = Geometry::new(2, 3, 2).unwrap();
        let cut = |offset, len| discards(geometry, offset, len).collect::<Vec<_>>();
        assert_eq!(cut(0, 0), []);
        assert_eq!(cut(1, 511), []);
        assert_eq!(cut(0, 40960), [(0, 80)]);
        assert_eq!(cut(512, 40960), [(1, 7), (8, 73)]);
        assert_eq!(cut(512, 1024), [(1, 2)]);
        assert_eq!(cut(8192, 2 * 40960 + 100), [(16, 80), (96, 80)]);
        assert_eq!(cut(100, 4096 + 512), [(1, 7), (8, 1)]);
    }
}
