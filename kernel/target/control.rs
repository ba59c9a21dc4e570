// SPDX-License-Identifier: GPL-2.0-only

//! Settings, conditions and counters. Messages and ioctls come here alike.

use super::{
    store::{self, ConditionChange, Mode},
    zones::Counters,
    Imrsim, This,
};
use crate::{
    dm::now,
    imr::{
        uapi::{filter_lists, ZoneEntry, ZoneReport, MAX_REPORT},
        Allocation, Condition, Settings,
    },
};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed}, //
};

/// Since when counters count: when the table was first put to use, or they were reset.
pub(super) struct Since {
    /// In nanoseconds of [`now`]; 0 before that.
    pub(super) began: Atomic<u64>,
    /// How many microseconds the mapped device had been busy then, under this table or another.
    pub(super) busy: Atomic<u64>,
}

impl Since {
    /// The table is put to use.
    pub(super) fn begin(this: This<'_>) {
        if this.since.began.load(Relaxed) == 0 {
            Self::begin_again(this);
        }
    }

    fn begin_again(this: This<'_>) {
        this.since.busy.store(this.busy_microseconds(), Relaxed);
        this.since.began.store(now(), Relaxed);
    }
}

impl Imrsim {
    /// The settings in use.
    pub(super) fn settings(&self) -> Settings {
        let values = self.live.all().map(|it| it.load(Relaxed));
        // Only allowed values are ever stored.
        Settings::from_values(values).unwrap_or_default()
    }

    /// Puts settings to use, without making that durable.
    pub(super) fn use_settings(&self, settings: &Settings) {
        let before = self.phases();
        for (to, value) in self.live.all().into_iter().zip(settings.values()) {
            to.store(value, Relaxed);
        }
        if before != self.phases() {
            self.trace.strategy(self.phases());
        }
    }

    /// The strategy for blocks that are written for the first time.
    #[inline]
    pub(super) fn allocation(&self) -> Allocation {
        // Only valid numbers are ever stored.
        Allocation::from_phases(self.live.allocation.load(Relaxed)).unwrap_or_default()
    }

    /// The phases of the allocation in use.
    pub(super) fn phases(&self) -> u32 {
        self.live.allocation.load(Relaxed)
    }

    /// The counters of one zone, or of all with [`None`].
    ///
    /// # Errors
    ///
    /// `ENXIO` if there is no such zone.
    pub(super) fn counters(&self, zone: Option<u64>) -> Result<Counters> {
        let mut sum = Counters::default();
        for zone in self.range(zone)? {
            if let Some(slot) = self.zones.lock(zone) {
                sum.add(&slot.counters());
            }
        }
        Ok(sum)
    }

    /// The numbers of one zone, or of all with [`None`].
    pub(super) fn range(&self, zone: Option<u64>) -> Result<core::ops::Range<u64>> {
        match zone {
            None => Ok(0..self.zones.len()),
            Some(zone) if zone < self.zones.len() => Ok(zone..zone.saturating_add(1)),
            Some(_) => Err(ENXIO),
        }
    }

    /// Blocks of one zone, or of all with [`None`].
    pub(super) fn capacity_blocks(&self, zone: Option<u64>) -> u64 {
        let zones = if zone.is_some() { 1 } else { self.zones.len() };
        zones.saturating_mul(u64::from(self.params.geometry.zone_blocks()))
    }

    /// Fills a report with the zones that a filter lists, from `report.next` on, and says where to go on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such filter.
    pub(super) fn report_zones(&self, report: &mut ZoneReport) -> Result {
        let wanted = usize::try_from(report.count).map_or(MAX_REPORT, |it| it.min(MAX_REPORT));
        let zone_blocks = self.params.geometry.zone_blocks();
        let allocation = self.allocation();
        report.count = 0;
        report.zone_blocks = zone_blocks;
        filter_lists(report.filter, &ZoneEntry::default(), zone_blocks).ok_or(EINVAL)?;
        while report.next < self.zones.len() && (report.count as usize) < wanted {
            let zone = report.next;
            report.next += 1;
            let entry =
                self.zones
                    .lock(zone)
                    .ok_or(ENXIO)?
                    .entry(zone, &self.params.geometry, allocation);
            if filter_lists(report.filter, &entry, zone_blocks) == Some(true) {
                report.push(&entry);
            }
        }
        Ok(())
    }
}

/// Changes the settings; that is durable when this returns.
///
/// # Errors
///
/// `EINVAL` if `change` gives none; `EAGAIN`, `EROFS` or `EIO` if nothing can be made durable, because
/// the device is suspended, read-only or has failed.
pub(super) fn set(this: This<'_>, change: impl FnOnce(Settings) -> Option<Settings>) -> Result {
    this.ensure_writable()?;
    store::set_settings(this, |settings| change(settings).ok_or(EINVAL))
}

/// Sets the condition of one zone, or of all with [`None`]; that is durable when this returns. What was
/// accepted before goes on.
///
/// # Errors
///
/// `ENXIO` if there is no such zone; otherwise as [`set`].
pub(super) fn set_condition(this: This<'_>, zone: Option<u64>, condition: Condition) -> Result {
    let zones = this.range(zone)?;
    this.ensure_writable()?;
    store::set_condition(this, &ConditionChange { zones, condition })
}

/// Sets the counters of one zone, or everything that is counted with [`None`], to zero.
///
/// # Errors
///
/// `ENXIO` if there is no such zone; `EAGAIN` if the device is suspended: what is forgotten then would come back.
pub(super) fn reset_counters(this: This<'_>, zone: Option<u64>) -> Result {
    for zone in this.range(zone)? {
        if let Some(mut slot) = this.zones.lock(zone) {
            if this.store.mode() == Mode::Closed {
                return Err(EAGAIN);
            }
            slot.reset_counters();
            this.trace.counters_reset(zone);
        }
    }
    if zone.is_none() {
        for histogram in &this.latencies {
            histogram.reset();
        }
        Since::begin_again(this);
    }
    Ok(())
}

/// For how many microseconds the device's counters have counted, and in how many of these no request
/// was under way.
pub(super) fn activity(this: This<'_>) -> (u64, u64) {
    let elapsed = now().saturating_sub(this.since.began.load(Relaxed)) / 1000;
    let busy = this
        .busy_microseconds()
        .saturating_sub(this.since.busy.load(Relaxed));
    (elapsed, elapsed.saturating_sub(busy))
}
