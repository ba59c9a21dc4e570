// SPDX-License-Identifier: GPL-2.0-only

//! Zone resets: all blocks of a zone are unmapped, as by a discard, but on behalf of a process, which
//! waits.

use super::{
    discard::{let_zone_go, unmap_blocks},
    execute::load_zone_now,
    store::{self, Mode},
    Imrsim, This,
};
use crate::imr::{Bo, Cause};
use kernel::{
    current,
    prelude::*,
    time::{delay::fsleep, Delta}, //
};

/// What a zone makes of an attempt to stop it.
enum Attempt {
    /// It is stopped, and ours.
    Stopped,
    /// Nothing was ever written there.
    Untouched,
    /// Its table has to be loaded, by us.
    Load,
    /// Somebody else stops or loads it.
    Busy,
}

/// Unmaps all blocks of a zone; that is durable when this returns. Sleeps.
///
/// # Errors
///
/// `ENXIO` if there is no such zone; `EROFS` if it, or the device, is read-only; `EIO` if it is offline
/// or the device has failed; `EAGAIN` if the device is suspended; `EINTR` if a signal comes before
/// anything was done.
pub(super) fn reset_zone(this: This<'_>, zone: u64) -> Result {
    loop {
        this.ensure_writable()?;
        match stop(this, zone)? {
            Attempt::Stopped => break,
            Attempt::Untouched => return Ok(()),
            Attempt::Load => {
                let device = this.device(this.device).ok_or(ENODEV)?;
                load_zone_now(this, device, zone).map_err(|status| status.to_error())?;
            }
            Attempt::Busy => pause()?,
        }
    }
    let result = unmap_when_quiet(this, zone);
    let_zone_go(this, zone);
    result
}

fn stop(this: This<'_>, zone: u64) -> Result<Attempt> {
    let mut slot = this.zones.lock(zone).ok_or(ENXIO)?;
    match slot.gate.refuses_writes() {
        None => {}
        Some(Cause::ReadOnlyZone) => return Err(EROFS),
        Some(_) => return Err(EIO),
    }
    if slot.needs_loading() {
        return Ok(match core::mem::replace(&mut slot.allocating, true) {
            true => Attempt::Busy,
            false => Attempt::Load,
        });
    }
    if slot.data.is_none() {
        return Ok(Attempt::Untouched);
    }
    if slot.gate.is_stopped() {
        return Ok(Attempt::Busy);
    }
    slot.gate.set_stopped(true);
    Ok(Attempt::Stopped)
}

/// Unmaps the blocks when nothing is in flight in the zone, which is stopped, and waits until that is
/// durable.
fn unmap_when_quiet(this: This<'_>, zone: u64) -> Result {
    while !is_quiet(this, zone) {
        pause()?;
    }
    // Last of all: what cannot become durable must not be unmapped in memory, either.
    loop {
        this.ensure_writable()?;
        if this.store.reserve(this) {
            break;
        }
        pause()?;
    }
    let blocks = this.params.geometry.zone_blocks();
    let unmapped = unmap_blocks(this, zone, Bo(0), blocks);
    if let Some(data) = this
        .zones
        .lock(zone)
        .as_mut()
        .and_then(|slot| slot.data.as_mut())
    {
        data.stats.count_reset();
    }
    if unmapped {
        store::commit(this)?;
    }
    Ok(())
}

fn is_quiet(this: This<'_>, zone: u64) -> bool {
    let slot = this.zones.lock(zone);
    let data = slot.as_ref().and_then(|slot| slot.data.as_ref());
    data.is_none_or(|data| data.is_quiet())
}

/// Waits a moment, unless the process is to be interrupted.
fn pause() -> Result {
    if current!().signal_pending() {
        return Err(EINTR);
    }
    fsleep(Delta::from_millis(1));
    Ok(())
}

impl Imrsim {
    /// Whether settings, conditions and the mapping can be changed now.
    pub(super) fn ensure_writable(&self) -> Result {
        match self.store.mode() {
            Mode::Writable => Ok(()),
            Mode::Closed => Err(EAGAIN),
            Mode::ReadOnly => Err(EROFS),
            Mode::Failed => Err(EIO),
        }
    }
}
