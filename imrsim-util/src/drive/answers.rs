// SPDX-License-Identifier: GPL-2.0-only

//! What a drive answers, as the kernel target answers the same bytes.

use std::io;

use imrsim_core::{
    latency,
    uapi::{
        decode, encode_reply, filter_lists, Config, Errors, Latency, Mapping, Message, Refusal,
        Request as Call, ResetConfig, SettingValue, Statistics, ZoneCondition, ZoneEntry,
        ZoneNumber, ZoneReport, ZoneSnapshot, ALL_ZONES, CLEAR_READ_ERROR, CLEAR_WRITE_ERROR,
        FLAG_VOLATILE, INDICATORS, MAX_REPORT, RESET_SETTINGS, RESET_ZONES, SETTINGS,
        SNAPSHOT_QUIET,
    },
    Bo, Condition, Stats, Zone, BLOCK_SIZE,
};

use super::{Drive, Slot, BLOCK};
use crate::device::Transport;

impl Drive {
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

    /// The counters of a zone, or of the drive.
    pub(crate) fn statistics(&self, zone: u64) -> Option<Statistics> {
        let (stats, blocks, mapped, used_tops) = if zone == ALL_ZONES {
            (
                self.stats(),
                self.capacity() / BLOCK,
                self.mapped_blocks(),
                self.used_top_blocks(),
            )
        } else {
            self.slot(zone)?;
            let (mapped, used_tops) = self.occupied(zone);
            (
                self.zone_stats(zone),
                u64::from(self.geometry.zone_blocks()),
                u64::from(mapped),
                u64::from(used_tops),
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
const ENOSPC: i32 = 28;
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
            let condition = self.slot_mut(reply.next)?.condition;
            let mut entry = ZoneEntry {
                zone: reply.next,
                condition: condition.number(),
                // The next first write falls in the first.
                phase: 1,
                ..ZoneEntry::default()
            };
            if let Some(zone) = self.view(reply.next) {
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

    /// The answer's struct, and the mapping that follows it.
    fn snapshot(&mut self, question: &ZoneSnapshot) -> io::Result<(ZoneSnapshot, Vec<u8>)> {
        if question.flags & !SNAPSHOT_QUIET != 0 {
            return Err(errno(EINVAL));
        }
        let geometry = self.geometry;
        let condition = self.slot_mut(question.zone)?.condition;
        let allocation = self.settings.strategy();
        let zone_blocks = geometry.zone_blocks();
        let mut reply = ZoneSnapshot {
            // CAST: at most 160 KiB.
            mapping_bytes: Mapping::bytes(zone_blocks) as u32,
            zone_blocks,
            phase: 1,
            phases: self.settings.allocation(),
            condition: condition.number(),
            // CAST: a handful.
            indicator_count: INDICATORS as u32,
            indicators: self.zone_stats(question.zone).values(),
            zone: question.zone,
            cookie: question.cookie,
            flags: question.flags,
            ..ZoneSnapshot::default()
        };
        let mut table = vec![0; Zone::table_len(&geometry)];
        let mut bits = vec![0; Zone::mapping_words(&geometry)];
        if let Some(zone) = self.view(question.zone) {
            reply.mapped_blocks = zone.mapped_blocks();
            reply.used_top_blocks = zone.used_tops();
            reply.phase = zone.phase_reached(allocation);
            zone.copy_mapping(&mut table, &mut bits);
        }
        if question.mapping_bytes == 0 {
            return Ok((reply, Vec::new()));
        }
        if question.mapping_bytes < reply.mapping_bytes {
            return Err(errno(ENOSPC));
        }
        let mut mapping: Vec<u8> = table.into_iter().flat_map(u16::to_ne_bytes).collect();
        mapping.resize(Mapping::table_bytes(zone_blocks), 0);
        mapping.extend(bits.into_iter().flat_map(u64::to_ne_bytes));
        Ok((reply, mapping))
    }

    fn reset_zone(&mut self, zone: u64) -> io::Result<()> {
        match self.slot_mut(zone)?.condition {
            Condition::Normal => {}
            Condition::ReadOnly => return Err(errno(EROFS)),
            Condition::Offline => return Err(errno(EIO)),
        }
        let blocks = self.geometry.zone_blocks();
        // A zone that was never written to has nothing to reset.
        if self.view(zone).is_none() {
            return Ok(());
        }
        self.note_reset(zone).map_err(io::Error::other)?;
        let Some(mut view) = self.view(zone) else {
            return Ok(());
        };
        // Nothing is in flight that could keep it from being done.
        let freed = view.unmap(Bo(0), blocks);
        if let Some(touched) = &mut self.slot_mut(zone)?.touched {
            touched.stats.count_unmapped(freed.unwrap_or(0));
            touched.stats.count_reset();
        }
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
                    if let Some(touched) = &mut self.slot_mut(zone)?.touched {
                        touched.stats = Stats::default();
                    }
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
            Call::GetSnapshot => {
                let (head, room) = buf
                    .split_at_mut_checked(ZoneSnapshot::SIZE)
                    .ok_or(errno(EINVAL))?;
                let (reply, mapping) = self.snapshot(&sent(head)?)?;
                encode_reply(&reply, head);
                if let Some(room) = room.get_mut(..mapping.len()) {
                    room.copy_from_slice(&mapping);
                }
            }
        }
        Ok(())
    }
}
