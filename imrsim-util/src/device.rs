// SPDX-License-Identifier: GPL-2.0-only

//! A drive that can be asked: the same calls for a block device and for a simulated one.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::FileTypeExt},
    path::Path,
};

use anyhow::{bail, Context, Result};
use imrsim_core::{
    latency::Kind,
    uapi::{
        Config, Errors, Latency, Mapping, Message, Request, ResetConfig, SettingValue, Statistics,
        ZoneCondition, ZoneNumber, ZoneReport, ZoneSnapshot, SNAPSHOT_QUIET, VERSION,
    },
    Condition, Geometry,
};

use crate::recording::Snapshot;

/// Whatever answers requests.
pub trait Transport {
    /// Sends a request with its struct; the reply, if there is one, replaces the struct. Behind that of
    /// a snapshot is the room for the mapping.
    ///
    /// # Errors
    ///
    /// The error number that the ioctl gives.
    fn call(&mut self, request: Request, buf: &mut [u8]) -> io::Result<()>;
}

impl Transport for File {
    fn call(&mut self, request: Request, buf: &mut [u8]) -> io::Result<()> {
        imrsim_ioctl::ioctl(self.as_fd(), request, buf)
    }
}

impl<T: Transport> Transport for &mut T {
    fn call(&mut self, request: Request, buf: &mut [u8]) -> io::Result<()> {
        (**self).call(request, buf)
    }
}

/// Whether nothing is to be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// Nothing.
    Yes,
    /// Whatever is.
    No,
}

/// A drive.
#[derive(Debug)]
pub struct Device<T> {
    name: String,
    transport: T,
}

impl Device<File> {
    /// Opens a block device, read-only: that is enough to send it requests.
    ///
    /// # Errors
    ///
    /// If it is no block device or cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let metadata = path.metadata().with_context(|| {
            format!("cannot open {name}; 'imrsim_util list' lists the drives there are")
        })?;
        if !metadata.file_type().is_block_device() {
            bail!("{name} is not a block device; 'imrsim_util list' lists the drives there are");
        }
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        Ok(Self::new(name, file))
    }
}

impl<T: Transport> Device<T> {
    /// The drive behind `transport`, which messages call `name`.
    pub fn new(name: impl Into<String>, transport: T) -> Self {
        Self {
            name: name.into(),
            transport,
        }
    }

    /// What messages call the drive.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The other end.
    pub fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// What the drive is.
    ///
    /// # Errors
    ///
    /// If it is not an IMRSim drive, or refuses.
    pub fn config(&mut self) -> Result<Config> {
        self.call(Request::GetConfig, &Config::default())
    }

    /// The counters of a zone, or of the whole drive for [`ALL_ZONES`].
    ///
    /// # Errors
    ///
    /// If there is no such zone, it is not an IMRSim drive, or refuses.
    ///
    /// [`ALL_ZONES`]: imrsim_core::uapi::ALL_ZONES
    pub fn statistics(&mut self, zone: u64) -> Result<Statistics> {
        let question = Statistics {
            zone,
            ..Statistics::default()
        };
        self.call(Request::GetStatistics, &question)
    }

    /// Sets the counters of a zone, or of the whole drive for [`ALL_ZONES`], to zero.
    ///
    /// # Errors
    ///
    /// If there is no such zone, it is not an IMRSim drive, or refuses.
    ///
    /// [`ALL_ZONES`]: imrsim_core::uapi::ALL_ZONES
    pub fn reset_statistics(&mut self, zone: u64) -> Result<()> {
        self.call(Request::ResetStatistics, &zone_number(zone))?;
        Ok(())
    }

    /// The value of a setting, by its number.
    ///
    /// # Errors
    ///
    /// If the drive has no such setting, it is not an IMRSim drive, or refuses.
    pub fn setting(&mut self, setting: u32) -> Result<u32> {
        let question = SettingValue {
            setting,
            ..SettingValue::default()
        };
        Ok(self.call(Request::GetSetting, &question)?.value)
    }

    /// Changes a setting, by its number.
    ///
    /// # Errors
    ///
    /// If the drive has no such setting, or not with this value, it is not an IMRSim drive, or
    /// refuses.
    pub fn set_setting(&mut self, setting: u32, value: u32) -> Result<()> {
        let message = SettingValue {
            setting,
            value,
            ..SettingValue::default()
        };
        self.call(Request::SetSetting, &message)?;
        Ok(())
    }

    /// Up to `count` zones from `next` on that a filter lists, and where to go on.
    ///
    /// # Errors
    ///
    /// If there is no such filter, it is not an IMRSim drive, or refuses.
    pub fn report_zones(&mut self, next: u64, count: u32, filter: u32) -> Result<ZoneReport> {
        let question = ZoneReport {
            next,
            count,
            filter,
            ..ZoneReport::default()
        };
        self.call(Request::ReportZones, &question)
    }

    /// Unmaps all blocks of a zone.
    ///
    /// # Errors
    ///
    /// If there is no such zone, it is not in normal condition, it is not an IMRSim drive, or refuses.
    pub fn reset_zone(&mut self, zone: u64) -> Result<()> {
        self.call(Request::ResetZone, &zone_number(zone))?;
        Ok(())
    }

    /// Sets what a zone, or every zone for [`ALL_ZONES`], may be used for.
    ///
    /// # Errors
    ///
    /// If there is no such zone, it is not an IMRSim drive, or refuses.
    ///
    /// [`ALL_ZONES`]: imrsim_core::uapi::ALL_ZONES
    pub fn set_condition(&mut self, zone: u64, condition: Condition) -> Result<()> {
        let message = ZoneCondition {
            zone,
            condition: condition.number(),
            ..ZoneCondition::default()
        };
        self.call(Request::SetCondition, &message)?;
        Ok(())
    }

    /// Sets back what the `RESET_*` bits in `what` say.
    ///
    /// # Errors
    ///
    /// If it is not an IMRSim drive, or refuses.
    pub fn reset_config(&mut self, what: u32) -> Result<()> {
        let message = ResetConfig {
            what,
            ..ResetConfig::default()
        };
        self.call(Request::ResetConfig, &message)?;
        Ok(())
    }

    /// The requests of the host that failed last. With `CLEAR_*` bits, they are forgotten.
    ///
    /// # Errors
    ///
    /// If it is not an IMRSim drive, or refuses.
    pub fn errors(&mut self, flags: u32) -> Result<Errors> {
        let question = Errors {
            flags,
            ..Errors::default()
        };
        self.call(Request::GetErrors, &question)
    }

    /// The latency histogram of a kind of request.
    ///
    /// # Errors
    ///
    /// If it is not an IMRSim drive, or refuses.
    pub fn latency(&mut self, kind: Kind) -> Result<Latency> {
        let question = Latency {
            // CAST: a handful.
            kind: kind.number() as u32,
            ..Latency::default()
        };
        self.call(Request::GetLatency, &question)
    }

    /// A zone with its mapping at one moment. The trace event of that moment has the number `cookie`.
    /// If it is to be [`Quiet::Yes`], requests to the zone wait for the moment, and the caller needs
    /// `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    ///
    /// If there is no such zone, it is not an IMRSim drive, or refuses.
    pub fn snapshot(
        &mut self,
        geometry: &Geometry,
        zone: u64,
        quiet: Quiet,
        cookie: u64,
    ) -> Result<(ZoneSnapshot, Snapshot)> {
        let room = Mapping::bytes(geometry.zone_blocks());
        let question = ZoneSnapshot {
            zone,
            cookie,
            flags: match quiet {
                Quiet::Yes => SNAPSHOT_QUIET,
                Quiet::No => 0,
            },
            mapping_bytes: u32::try_from(room)?,
            ..ZoneSnapshot::default()
        };
        let mut buf = vec![0; ZoneSnapshot::SIZE + room];
        question.write_to(&mut buf);
        self.send(Request::GetSnapshot, &mut buf)?;
        let answer = ZoneSnapshot::read_from(&buf);
        let mapping = Mapping::new(geometry.zone_blocks(), &buf[ZoneSnapshot::SIZE..])
            .context("the drive has another geometry than it said")?;
        let snapshot = Snapshot::of_answer(geometry, &answer, &mapping);
        Ok((answer, snapshot))
    }

    fn call<M: Message>(&mut self, request: Request, message: &M) -> Result<M> {
        let mut buf = vec![0; M::SIZE];
        message.write_to(&mut buf);
        self.send(request, &mut buf)?;
        Ok(M::read_from(&buf))
    }

    fn send(&mut self, request: Request, buf: &mut [u8]) -> Result<()> {
        self.transport.call(request, buf).or_else(|error| {
            let hint = explain(&error, request);
            let name = &self.name;
            Err(error).with_context(|| format!("{name} {hint}"))
        })
    }
}

fn zone_number(zone: u64) -> ZoneNumber {
    ZoneNumber {
        zone,
        ..ZoneNumber::default()
    }
}

const EPERM: i32 = 1;
const EINTR: i32 = 4;
const EIO: i32 = 5;
const ENXIO: i32 = 6;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const ENOTTY: i32 = 25;
const EROFS: i32 = 30;

/// Whether the error is that the caller may not do that.
pub fn is_not_permitted(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| matches!(error.raw_os_error(), Some(EPERM | EACCES)))
}

/// What an error means and what to do, as the end of a sentence about the device.
fn explain(error: &io::Error, request: Request) -> String {
    let text = match (error.raw_os_error(), request) {
        (Some(ENOTTY), Request::GetConfig) => {
            "is not an IMRSim device ('imrsim_util list' lists those there are)"
        }
        (Some(ENOTTY), _) => {
            "does not know this request: it is not an IMRSim device ('imrsim_util list' lists those \
             there are), or its module is older than this program"
        }
        (Some(EPERM | EACCES), Request::GetSnapshot) => {
            "can be stopped for a moment by root only: this needs CAP_SYS_ADMIN, try it with sudo"
        }
        (Some(EPERM | EACCES), _) => {
            "can be changed by root only: this needs CAP_SYS_ADMIN, try it with sudo"
        }
        (Some(ENXIO), _) => "has no such zone ('imrsim_util zones count' says how many there are)",
        (Some(EAGAIN), _) => "is suspended: 'dmsetup resume' lets it go on",
        (Some(EINTR), _) => "was interrupted before anything was changed",
        (Some(ENOMEM), _) => "had no memory for that: try again",
        (Some(EBUSY), _) => "is busy with another change: try again",
        (Some(EROFS), Request::ResetZone) => {
            "does not allow that: the zone, or the drive, is read-only \
             ('imrsim_util zones set-condition' changes the zone's condition)"
        }
        (Some(EROFS), _) => "is read-only: its table or the device below allows no changes",
        (Some(EIO), Request::ResetZone) => {
            "does not allow that: the zone is offline ('imrsim_util zones set-condition' changes \
             that), or the drive has failed ('dmesg' says why)"
        }
        (Some(EIO), _) => {
            "has failed and takes no changes: 'dmesg' says why; suspend and resume it when the cause \
             is gone"
        }
        (Some(EINVAL), Request::SetSetting | Request::GetSetting) => {
            "has no such setting, or not with this value: its module may be older than this program"
        }
        (Some(EINVAL), _) => {
            return format!(
                "does not take this request: its module and this program are of different versions \
                 (this one has interface version {VERSION})"
            )
        }
        _ => "failed",
    };
    text.to_owned()
}
