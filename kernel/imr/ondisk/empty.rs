// SPDX-License-Identifier: GPL-2.0-only

//! Whether a drive has no data, so that it can be formatted with other zones.

use super::{
    replay,
    Block,
    Disk,
    LoadError,
    Record,
    Refusal,
    SlotHeader,
    SlotMap,
    Superblock, //
};

/// Whether a drive that was stopped in good order has no block mapped. One that was not, or parts of
/// which cannot be understood, counts as not empty.
///
/// `map` is the slot map that was loaded with the superblock; `buf` is for the journal, and holds at
/// least one entry.
///
/// # Errors
///
/// If the device cannot be read.
pub fn is_empty<D: Disk>(
    disk: &mut D,
    superblock: &Superblock,
    map: &[u64],
    buf: &mut [u8],
    block: &mut Block,
) -> Result<bool, LoadError<D::Error>> {
    if !superblock.clean {
        return Ok(false);
    }
    let layout = superblock.layout()?;
    for zone in 0..layout.zones() {
        let Some(slot) = SlotMap::new(map).get(zone) else {
            continue;
        };
        let sector = layout.slot(zone, slot).ok_or(Refusal::BadTable)?;
        disk.read(sector, block).map_err(LoadError::Io)?;
        match SlotHeader::decode(block, &superblock.uuid, layout.geometry(), zone) {
            Ok(header) if header.mapped == 0 => {}
            _ => return Ok(false),
        }
    }
    let mut mapped = false;
    let replayed = replay(disk, superblock, buf, |_, _, record| {
        mapped |= matches!(record, Record::Map { .. });
        Ok(())
    });
    match replayed {
        Ok(_) => Ok(!mapped),
        Err(LoadError::Refused(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
