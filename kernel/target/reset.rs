// SPDX-License-Identifier: GPL-2.0-only

//! Zone resets: all blocks of a zone are unmapped, as by a discard, but on behalf of a process, which
//! waits.

use super::{
    discard::{let_zone_go, unmap_blocks},
    quiet::{get_zone, pause, wait_until_quiet, Stop},
    store::{self, Mode},
    zones::Slot,
    Imrsim, This,
};
use crate::{
    bindings::trace::{Op, Run},
    imr::{Bo, Cause, Piece},
};
use kernel::prelude::*;

/// Unmaps all blocks of a zone; that is durable when this returns. Sleeps.
///
/// # Errors
///
/// `ENXIO` if there is no such zone; `EROFS` if it, or the device, is read-only; `EIO` if it is offline
/// or the device has failed; `EAGAIN` if the device is suspended; `EINTR` if a signal comes before
/// anything was done.
pub(super) fn reset_zone(this: This<'_>, zone: u64) -> Result {
    let check = |slot: &Slot| {
        this.ensure_writable()?;
        match slot.gate.refuses_writes() {
            None => Ok(()),
            Some(Cause::ReadOnlyZone) => Err(EROFS),
            Some(_) => Err(EIO),
        }
    };
    if !get_zone(this, zone, Stop::Yes, check)? {
        return Ok(());
    }
    let result = unmap_when_quiet(this, zone);
    let_zone_go(this, zone);
    result
}

/// Unmaps the blocks when nothing is in flight in the zone, which is stopped, and waits until that is
/// durable.
fn unmap_when_quiet(this: This<'_>, zone: u64) -> Result {
    wait_until_quiet(this, zone)?;
    // Last of all: what cannot become durable must not be unmapped in memory, either.
    loop {
        this.ensure_writable()?;
        if this.store.reserve(this) {
            break;
        }
        pause()?;
    }
    let blocks = this.params.geometry.zone_blocks();
    if let Some(data) = this
        .zones
        .lock(zone)
        .as_mut()
        .and_then(|slot| slot.data.as_mut())
    {
        data.stats.count_reset();
        this.trace.map(zone, || Run {
            op: Op::Reset,
            bo: Bo(0),
            nbo: None,
            blocks,
            piece: Piece::whole(0),
        });
    }
    let unmapped = unmap_blocks(this, zone, Bo(0), blocks);
    if unmapped {
        store::commit(this)?;
    }
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
