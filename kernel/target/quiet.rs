// SPDX-License-Identifier: GPL-2.0-only

//! Zones on behalf of a process, which waits for them.

use super::{execute::load_zone_now, zones::Slot, This};
use kernel::{
    current,
    prelude::*,
    time::{delay::fsleep, Delta}, //
};

/// Whether a zone is to be stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// What arrives waits until [`let_zone_go`](super::discard::let_zone_go).
    Yes,
    /// It goes on.
    No,
}

/// What a zone makes of an attempt.
enum Attempt {
    /// Its table is there; it is stopped, if it was to be.
    Ready,
    /// Nothing was ever written there.
    Untouched,
    /// Its table has to be loaded, by us.
    Load,
    /// Somebody else stops or loads it.
    Busy,
}

/// Has a zone's table in memory, and stops the zone if it is to be. Returns whether there is a table:
/// a zone to which nothing was ever written is not stopped. Sleeps. `check` is asked under the zone's
/// lock, each time.
///
/// # Errors
///
/// `ENXIO` if there is no such zone, `EINTR` if a signal comes before, those of `check`, and that of a
/// table that cannot be loaded.
pub(super) fn get_zone(
    this: This<'_>,
    zone: u64,
    stop: Stop,
    check: impl Fn(&Slot) -> Result,
) -> Result<bool> {
    loop {
        match attempt(this, zone, stop, &check)? {
            Attempt::Ready => return Ok(true),
            Attempt::Untouched => return Ok(false),
            Attempt::Load => {
                let device = this.device(this.device).ok_or(ENODEV)?;
                load_zone_now(this, device, zone).map_err(|status| status.to_error())?;
            }
            Attempt::Busy => pause()?,
        }
    }
}

fn attempt(
    this: This<'_>,
    zone: u64,
    stop: Stop,
    check: impl Fn(&Slot) -> Result,
) -> Result<Attempt> {
    let mut slot = this.zones.lock(zone).ok_or(ENXIO)?;
    check(&slot)?;
    if slot.needs_loading() {
        return Ok(match core::mem::replace(&mut slot.allocating, true) {
            true => Attempt::Busy,
            false => Attempt::Load,
        });
    }
    if slot.data.is_none() {
        return Ok(Attempt::Untouched);
    }
    if stop == Stop::Yes {
        if slot.gate.is_stopped() {
            return Ok(Attempt::Busy);
        }
        slot.gate.set_stopped(true);
    }
    Ok(Attempt::Ready)
}

/// Waits until nothing is in flight in a zone that is stopped.
///
/// # Errors
///
/// `EINTR` if a signal comes before.
pub(super) fn wait_until_quiet(this: This<'_>, zone: u64) -> Result {
    while !is_quiet(this, zone) {
        pause()?;
    }
    Ok(())
}

fn is_quiet(this: This<'_>, zone: u64) -> bool {
    let slot = this.zones.lock(zone);
    let data = slot.as_ref().and_then(|slot| slot.data.as_ref());
    data.is_none_or(|data| data.is_quiet())
}

/// Waits a moment, unless the process is to be interrupted.
pub(super) fn pause() -> Result {
    if current!().signal_pending() {
        return Err(EINTR);
    }
    fsleep(Delta::from_millis(1));
    Ok(())
}
