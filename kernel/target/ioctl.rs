// SPDX-License-Identifier: GPL-2.0-only

//! The ioctls. Numbers, structs and the checks of sizes are those of [`uapi`], shared with user
//! space.

use super::{
    control,
    failures::{Direction, Failure},
    reset::reset_zone,
    snapshot, Imrsim, This,
};
use crate::{
    dm::{may_administer, user_slice, zeros},
    imr::{
        latency::{self, Kind},
        uapi::{
            self, Config, Errors, Latency, Request, ResetConfig, SettingValue, Statistics,
            ZoneCondition, ZoneNumber, ZoneReport, ZoneSnapshot, CLEAR_READ_ERROR,
            CLEAR_WRITE_ERROR, RESET_SETTINGS, RESET_ZONES,
        },
        Condition, Settings, BLOCK_SIZE,
    },
};
use kernel::prelude::*;

/// Handles an ioctl. [`None`]: it is not one of ours.
pub(super) fn handle(this: This<'_>, cmd: u32, arg: usize) -> Option<Result> {
    Request::from_cmd(cmd).map(|request| dispatch(this, request, uapi::size_of_cmd(cmd), arg))
}

fn dispatch(this: This<'_>, request: Request, size: usize, arg: usize) -> Result {
    if request.needs_privilege() && !may_administer() {
        return Err(EPERM);
    }
    if size > uapi::MAX_SIZE {
        return Err(E2BIG);
    }
    let mut buffer: KVec<u8> = zeros(size)?;
    user_slice(arg, size).reader().read_slice(&mut buffer)?;
    match request {
        Request::GetConfig => {
            decode::<Config>(&buffer)?;
            uapi::encode_reply(&config(this)?, &mut buffer);
        }
        Request::SetSetting => {
            let SettingValue { setting, value, .. } = decode(&buffer)?;
            control::set(this, |settings| settings.with(index(setting)?, value))?;
        }
        Request::GetSetting => {
            let SettingValue { setting, .. } = decode(&buffer)?;
            let value = index(setting).and_then(|number| this.settings().get(number));
            let reply = SettingValue {
                setting,
                value: value.ok_or(EINVAL)?,
                ..SettingValue::default()
            };
            uapi::encode_reply(&reply, &mut buffer);
        }
        Request::GetStatistics => {
            let Statistics { zone, .. } = decode(&buffer)?;
            uapi::encode_reply(&statistics(this.get(), zone)?, &mut buffer);
        }
        Request::ResetStatistics => {
            let ZoneNumber { zone, .. } = decode(&buffer)?;
            control::reset_counters(this, one_or_all(zone))?;
        }
        Request::ReportZones => {
            let ZoneReport {
                next,
                count,
                filter,
                ..
            } = decode(&buffer)?;
            let mut report = KBox::new(
                ZoneReport {
                    next,
                    count,
                    filter,
                    ..ZoneReport::default()
                },
                GFP_KERNEL,
            )?;
            this.report_zones(&mut report)?;
            uapi::encode_reply(&*report, &mut buffer);
        }
        Request::ResetZone => {
            let ZoneNumber { zone, .. } = decode(&buffer)?;
            reset_zone(this, zone)?;
        }
        Request::SetCondition => {
            let ZoneCondition {
                zone, condition, ..
            } = decode(&buffer)?;
            let condition = Condition::from_number(condition).ok_or(EINVAL)?;
            control::set_condition(this, one_or_all(zone), condition)?;
        }
        Request::ResetConfig => {
            let ResetConfig { what, .. } = decode(&buffer)?;
            if what == 0 || what & !(RESET_ZONES | RESET_SETTINGS) != 0 {
                return Err(EINVAL);
            }
            super::reset_config(this, what)?;
        }
        Request::GetErrors => {
            let Errors { flags, .. } = decode(&buffer)?;
            check_forget(flags)?;
            let seen = this.failures.look();
            uapi::encode_reply(&errors(this.get(), flags, &seen), &mut buffer);
            user_slice(arg, size).writer().write_slice(&buffer)?;
            // Only when the caller knows them.
            forget(this.get(), flags, &seen);
            return Ok(());
        }
        Request::GetSnapshot => {
            let question: ZoneSnapshot = decode(&buffer)?;
            let taken = snapshot::take(this, &question)?;
            uapi::encode_reply(&taken.reply, &mut buffer);
            user_slice(arg, size).writer().write_slice(&buffer)?;
            if question.mapping_bytes != 0 {
                let behind = arg.checked_add(size).ok_or(EFAULT)?;
                // CAST: widens.
                taken.copy_mapping(user_slice(behind, taken.reply.mapping_bytes as usize))?;
            }
            return Ok(());
        }
        Request::GetLatency => {
            let Latency { kind, .. } = decode(&buffer)?;
            uapi::encode_reply(&histogram(this.get(), kind)?, &mut buffer);
        }
    }
    if request.replies() {
        user_slice(arg, size).writer().write_slice(&buffer)?;
    }
    Ok(())
}

fn decode<M: uapi::Message>(sent: &[u8]) -> Result<M> {
    uapi::decode(sent).map_err(|refusal| match refusal {
        uapi::Refusal::TooBig => E2BIG,
        _ => EINVAL,
    })
}

fn index(number: u32) -> Option<usize> {
    usize::try_from(number).ok()
}

fn one_or_all(zone: u64) -> Option<u64> {
    (zone != uapi::ALL_ZONES).then_some(zone)
}

fn config(this: This<'_>) -> Result<Config> {
    let geometry = &this.params.geometry;
    let (elapsed_us, idle_us) = control::activity(this);
    Ok(Config {
        block_size: BLOCK_SIZE,
        top_blocks: geometry.top_blocks(),
        bottom_blocks: geometry.bottom_blocks(),
        groups: geometry.groups(),
        phases: this.phases(),
        zones: this.zones.len(),
        zone_sectors: geometry.zone_sectors(),
        data_sectors: this.layout.data_sectors(),
        metadata_sectors: this.layout.metadata_sectors(),
        total_blocks: this.capacity_blocks(None),
        mapped_blocks: this.counters(None)?.mapped,
        elapsed_us,
        idle_us,
        settings: narrow(Settings::COUNT),
        latency_kinds: narrow(Kind::COUNT),
        ..Config::default()
    })
}

/// The length of a table.
fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn statistics(this: &Imrsim, zone: u64) -> Result<Statistics> {
    let wanted = one_or_all(zone);
    let counters = this.counters(wanted)?;
    let mut reply = Statistics {
        zone,
        capacity_blocks: this.capacity_blocks(wanted),
        mapped_blocks: counters.mapped,
        used_top_blocks: counters.used_tops,
        phases: this.phases(),
        ..Statistics::default()
    };
    for (place, (_, value)) in reply.indicators.iter_mut().zip(counters.stats.iter()) {
        *place = value;
        reply.indicator_count += 1;
    }
    Ok(reply)
}

/// Whether the caller may have the failures forgotten that these flags say.
fn check_forget(flags: u32) -> Result {
    if flags & !(CLEAR_READ_ERROR | CLEAR_WRITE_ERROR) != 0 {
        return Err(EINVAL);
    }
    if flags != 0 && !may_administer() {
        return Err(EPERM);
    }
    Ok(())
}

fn forget(this: &Imrsim, flags: u32, [read, write]: &[Failure; 2]) {
    if flags & CLEAR_READ_ERROR != 0 {
        this.failures.forget(Direction::Read, read);
    }
    if flags & CLEAR_WRITE_ERROR != 0 {
        this.failures.forget(Direction::Write, write);
    }
}

fn errors(this: &Imrsim, flags: u32, [read, write]: &[Failure; 2]) -> Errors {
    let cause = |failure: &Failure| failure.cause.map_or(0, |cause| cause.number());
    let zone = |failure: &Failure| failure.zone.unwrap_or(uapi::ALL_ZONES);
    Errors {
        flags,
        read_cause: cause(read),
        write_cause: cause(write),
        read_errno: read.errno,
        write_errno: write.errno,
        logging: this.settings().log_errors(),
        read_zone: zone(read),
        write_zone: zone(write),
        read_errors: read.count,
        write_errors: write.count,
        ..Errors::default()
    }
}

fn histogram(this: &Imrsim, kind: u32) -> Result<Latency> {
    let histogram = index(kind)
        .and_then(|kind| this.latencies.get(kind))
        .ok_or(EINVAL)?;
    let (counts, nanoseconds) = histogram.look();
    Ok(Latency {
        kind,
        bucket_count: narrow(latency::BUCKETS),
        requests: counts.iter().sum(),
        nanoseconds,
        counts,
        ..Latency::default()
    })
}
