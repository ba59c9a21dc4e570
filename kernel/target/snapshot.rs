// SPDX-License-Identifier: GPL-2.0-only

//! Snapshots of a zone: its mapping and its counters at one moment.

use super::{
    discard::let_zone_go,
    quiet::{get_zone, wait_until_quiet, Stop},
    store::Mode,
    This,
};
use crate::{
    dm::{may_administer, without_io, zeros},
    imr::{
        uapi::{Mapping, ZoneSnapshot, INDICATORS, SNAPSHOT_QUIET},
        Zone,
    },
};
use kernel::{
    alloc::AllocError,
    prelude::*,
    transmute::AsBytes,
    uaccess::UserSlice, //
};

/// A zone at one moment.
pub(super) struct Snapshot {
    /// What the caller is told.
    pub(super) reply: ZoneSnapshot,
    table: KVVec<u16>,
    bits: KVVec<u64>,
}

impl Snapshot {
    /// Copies the mapping to where its caller has room for it.
    pub(super) fn copy_mapping(&self, to: UserSlice) -> Result {
        let table = AsBytes::as_bytes(self.table.as_slice());
        let behind = Mapping::table_bytes(self.reply.zone_blocks).saturating_sub(table.len());
        let mut to = to.writer();
        to.write_slice(table)?;
        to.write_slice([0; size_of::<u64>()].get(..behind).ok_or(EINVAL)?)?;
        to.write_slice(AsBytes::as_bytes(self.bits.as_slice()))
    }
}

/// Looks at a zone. Sleeps.
///
/// # Errors
///
/// `ENXIO` if there is no such zone; `EINVAL` for unknown flags; `ENOSPC` if there is not enough room for
/// the mapping; `EAGAIN` if the device is suspended. For a quiet one, `EPERM` without `CAP_SYS_ADMIN`, and
/// `EINTR` if a signal comes before.
pub(super) fn take(this: This<'_>, question: &ZoneSnapshot) -> Result<Snapshot> {
    let ZoneSnapshot {
        zone,
        cookie,
        flags,
        mapping_bytes,
        ..
    } = *question;
    let geometry = &this.params.geometry;
    let needed = u32::try_from(Mapping::bytes(geometry.zone_blocks())).map_err(|_| EINVAL)?;
    if flags & !SNAPSHOT_QUIET != 0 {
        return Err(EINVAL);
    }
    if mapping_bytes != 0 && mapping_bytes < needed {
        return Err(ENOSPC);
    }
    let stop = match flags & SNAPSHOT_QUIET {
        0 => Stop::No,
        _ if !may_administer() => return Err(EPERM),
        _ => Stop::Yes,
    };
    // The lock is held for no longer than it takes to copy: all memory comes before.
    let mut snapshot = Snapshot {
        reply: ZoneSnapshot {
            zone,
            cookie,
            flags,
            mapping_bytes: needed,
            zone_blocks: geometry.zone_blocks(),
            ..ZoneSnapshot::default()
        },
        table: KVVec::new(),
        bits: KVVec::new(),
    };
    if mapping_bytes != 0 {
        without_io(|| {
            snapshot.table = zeros(Zone::table_len(geometry))?;
            snapshot.bits = zeros(Zone::mapping_words(geometry))?;
            Ok::<_, AllocError>(())
        })?;
    }
    let held = get_zone(this, zone, stop, |_| ensure_open(this))? && stop == Stop::Yes;
    let quiet = match held {
        true => wait_until_quiet(this, zone),
        false => Ok(()),
    };
    let result = quiet.and_then(|()| look(this, &mut snapshot));
    if held {
        let_zone_go(this, zone);
    }
    result.map(|()| snapshot)
}

/// Whether there is anything to look at.
fn ensure_open(this: This<'_>) -> Result {
    match this.store.mode() {
        Mode::Closed => Err(EAGAIN),
        Mode::Writable | Mode::ReadOnly | Mode::Failed => Ok(()),
    }
}

fn look(this: This<'_>, snapshot: &mut Snapshot) -> Result {
    let Snapshot { reply, table, bits } = snapshot;
    let geometry = &this.params.geometry;
    let allocation = this.allocation();
    let mut slot = this.zones.lock(reply.zone).ok_or(ENXIO)?;
    ensure_open(this)?;
    let entry = slot.entry(reply.zone, geometry, allocation);
    reply.mapped_blocks = entry.mapped_blocks;
    reply.used_top_blocks = entry.used_top_blocks;
    reply.phase = entry.phase;
    reply.phases = allocation.phases();
    reply.condition = entry.condition;
    reply.indicators = slot.counters().stats.values();
    reply.indicator_count = u32::try_from(INDICATORS).unwrap_or(u32::MAX);
    if let Some(zone) = slot.data.as_mut().and_then(|data| data.zone(geometry)) {
        reply.writes_in_flight = zone.writes_in_flight();
        zone.copy_mapping(table, bits);
    }
    this.trace.snapshot(reply.zone, reply.cookie);
    Ok(())
}
