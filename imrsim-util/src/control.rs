// SPDX-License-Identifier: GPL-2.0-only

//! What can be asked of a drive. Every command line, classic or named, becomes a [`Command`].

use std::{fs::File, io::Write, path::Path};

use anyhow::{ensure, Context, Result};
use imrsim_core::{
    latency::Kind,
    uapi::{ALL_ZONES, RESET_SETTINGS, RESET_ZONES},
    Condition, Settings,
};

use crate::{
    device::{Device, Transport},
    errors, latency,
    mapper::{Kernel, Mapper},
    number::{Bytes, SECTOR},
    prometheus,
    report::{self, Style},
    resize,
    settings::{self, show_value},
    zones::{self, Filter},
};

/// The setting that switches logging of errors.
pub(crate) const LOG_ERRORS: &str = "log_errors";

/// A zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneAt {
    /// By its number, counted from 0.
    Index(u64),
    /// By a sector of 512 bytes that lies in it.
    Sector(u64),
}

impl ZoneAt {
    /// Its number.
    ///
    /// # Errors
    ///
    /// If the drive has no such zone, or cannot be asked.
    pub fn number<T: Transport>(self, device: &mut Device<T>) -> Result<u64> {
        let config = device.config()?;
        let name = device.name();
        match self {
            Self::Index(zone) => {
                ensure!(
                    zone < config.zones,
                    "{name} has no zone {zone}: its zones are 0 to {}",
                    config.zones.saturating_sub(1)
                );
                Ok(zone)
            }
            Self::Sector(sector) => {
                ensure!(
                    sector < config.data_sectors,
                    "{name} has no sector {sector}: its sectors are 0 to {}",
                    config.data_sectors.saturating_sub(1)
                );
                sector
                    .checked_div(config.zone_sectors)
                    .context("its zones have no sectors")
            }
        }
    }
}

/// Which zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The drive as a whole, and each zone that was used.
    Device,
    /// The first zones, as many as these, together, and each of them that was used.
    First(u64),
    /// One zone.
    Zone(ZoneAt),
}

/// The last failed requests of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Reads.
    Reads,
    /// Writes, discards and flushes.
    Writes,
    /// Both.
    All,
}

/// Whether errors are forgotten when they were shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clear {
    /// They are kept.
    No,
    /// They are, if the caller may do that.
    IfAllowed,
    /// They are, or the command fails.
    Yes,
}

/// Something to ask of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Show what the drive is and how it is set.
    ShowConfig,
    /// Change a setting: its number in [`Settings::TABLE`], and its value.
    Set(usize, u32),
    /// Set back the conditions of the zones, the settings, or both: `RESET_*` bits.
    ResetConfig(u32),
    /// Show counters.
    ShowStatistics(Scope),
    /// Show counters of the whole drive or of a zone for Prometheus.
    ExportStatistics(Scope),
    /// Set the counters of a zone, or with [`None`] all, to zero.
    ResetStatistics(Option<ZoneAt>),
    /// Show where zones lie and how full they are: those that the filter lists, but no more than so
    /// many.
    ListZones(Filter, Option<u64>),
    /// Show a zone: where it lies, how full it is, its counters.
    ShowZone(ZoneAt),
    /// Show a zone as in the list, if the filter lists it.
    ListZone(ZoneAt, Filter),
    /// Unmap all blocks of a zone.
    ResetZone(ZoneAt),
    /// Set what a zone, or with [`None`] every zone, may be used for.
    SetCondition(Option<ZoneAt>, Condition),
    /// Show the number of zones.
    ZoneCount,
    /// Show the size of a zone.
    ZoneSize,
    /// Show which requests failed last.
    ShowErrors(Failed, Clear),
    /// Show how long requests of a kind, or of all kinds, took.
    ShowLatency(Option<Kind>),
    /// Give an empty drive zones of so many bytes.
    SetZoneSize(u64),
}

impl Command {
    /// Opens the block device `path` and asks it.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, and those of [`run`](Self::run).
    pub fn perform(
        self,
        path: &Path,
        style: Style,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<()> {
        let mut device: Device<File> = Device::open(path)?;
        if self.needs_mapper() {
            let mapper = Kernel::open().map_err(|error| {
                let hint = crate::drives::explain(&error);
                anyhow::Error::new(error).context(hint)
            })?;
            return self.run(&mut device, Some(&mapper), style, out, err);
        }
        self.run(&mut device, None, style, out, err)
    }

    /// Whether the command changes the device's table.
    pub const fn needs_mapper(self) -> bool {
        matches!(self, Self::SetZoneSize(_))
    }

    /// Asks `device`, writes the answer to `out`, and what else is to be said to `err`. `mapper` is
    /// that of the device, for a command that [needs it](Self::needs_mapper).
    ///
    /// # Errors
    ///
    /// If the drive refuses or `out` cannot be written. A command that refers to a zone or a
    /// setting that is not there changes nothing.
    pub fn run<T: Transport>(
        self,
        device: &mut Device<T>,
        mapper: Option<&dyn Mapper>,
        style: Style,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<()> {
        let number = |zone: Option<ZoneAt>, device: &mut Device<T>| match zone {
            None => Ok(ALL_ZONES),
            Some(zone) => zone.number(device),
        };
        match self {
            Self::ShowConfig => report::config(device, style, out),
            Self::Set(number, value) => {
                let setting = settings::by_number(number).context("there is no such setting")?;
                // CAST: a handful.
                device.set_setting(number as u32, value)?;
                let value = show_value(setting, device.setting(number as u32)?);
                let text = format!("{} is {value} from now on", setting.name);
                report::done(&text, style, out)
            }
            Self::ResetConfig(what) => {
                device.reset_config(what)?;
                let mut done = Vec::new();
                if what & RESET_ZONES != 0 {
                    done.push("all zones are in normal condition");
                }
                if what & RESET_SETTINGS != 0 {
                    done.push("all settings are as in the device's table line");
                }
                report::done(&done.join(", "), style, out)
            }
            Self::ShowStatistics(scope) => {
                let statistics = report::Statistics::ask(device, scope)?;
                report::statistics(&statistics, style, out)
            }
            Self::ExportStatistics(scope) => prometheus::export(device, scope, out),
            Self::ResetStatistics(zone) => {
                let number = number(zone, device)?;
                device.reset_statistics(number)?;
                let text = match zone {
                    None => "statistics are 0".to_owned(),
                    Some(_) => format!("statistics of zone {number} are 0"),
                };
                report::done(&text, style, out)
            }
            Self::ListZones(filter, most) => {
                zones::list(device, filter, zones::Range::First(most), style, out)
            }
            Self::ListZone(zone, filter) => {
                let number = zone.number(device)?;
                zones::list(device, filter, zones::Range::One(number), style, out)
            }
            Self::ShowZone(zone) => {
                let number = zone.number(device)?;
                zones::show(device, number, style, out)
            }
            Self::ResetZone(zone) => {
                let number = zone.number(device)?;
                device.reset_zone(number)?;
                let text = format!("zone {number} is free: all of its blocks are unmapped");
                report::done(&text, style, out)
            }
            Self::SetCondition(zone, condition) => {
                let number = number(zone, device)?;
                device.set_condition(number, condition)?;
                let name = condition.name();
                let text = match zone {
                    None => format!("all zones are {name}"),
                    Some(_) => format!("zone {number} is {name}"),
                };
                report::done(&text, style, out)
            }
            Self::ZoneCount => {
                let zones = device.config()?.zones;
                report::quantity("zones", zones, &format!("{zones} zones"), style, out)
            }
            Self::ZoneSize => {
                let sectors = device.config()?.zone_sectors;
                let size = Bytes(sectors.saturating_mul(SECTOR));
                let text = format!("{sectors} sectors ({size})");
                report::quantity("zone_sectors", sectors, &text, style, out)
            }
            Self::ShowErrors(failed, clear) => errors::show(device, failed, clear, style, out, err),
            Self::ShowLatency(kind) => latency::show(device, kind, style, out),
            Self::SetZoneSize(bytes) => {
                let mapper = mapper.context("there is no device mapper for this device")?;
                resize::set_zone_size(device, mapper, bytes, style, out)
            }
        }
    }
}

/// The command that changes the setting with this name.
///
/// # Errors
///
/// If there is none, or it does not take the value; the message says which there are.
pub fn set_command(name: &str, value: &str) -> Result<Command> {
    let number = settings::find(name).with_context(|| {
        let names: Vec<&str> = Settings::TABLE.iter().map(|it| it.name).collect();
        format!(
            "there is no setting '{name}': there are {}",
            names.join(", ")
        )
    })?;
    let setting = settings::by_number(number).context("there is no such setting")?;
    Ok(Command::Set(number, settings::parse_value(setting, value)?))
}
