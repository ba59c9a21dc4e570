// SPDX-License-Identifier: GPL-2.0-only

//! Loading the table of a zone from the slot that counts.

use super::{
    super::{
        bitmap,
        layout::Layout,
        num,
        units::BLOCK_SECTORS, //
    },
    slot,
    Block,
    Crc,
    Disk,
    LoadError,
    Refusal,
    SlotHeader,
    SlotMapMut,
    Superblock, //
};

/// A zone's slot that was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedZone {
    /// Its header. Records of the zone before its position must be skipped; if the position lies
    /// behind the end of the journal, the device is refused ([`LoadedZone::check`]).
    pub header: SlotHeader,
    /// Which slot it is, 0 or 1. The next checkpoint of the zone goes to the other one.
    pub slot: u64,
    /// Whether the slot that counts is damaged, and this is an older one.
    pub fallback: bool,
}

impl LoadedZone {
    /// Checks the position when the end of the journal is known.
    ///
    /// # Errors
    ///
    /// If the slot has records that the journal has not: a slot is written only when they are in
    /// the journal, so the journal has lost them.
    pub fn check(&self, head: u64) -> Result<(), Refusal> {
        if self.header.position > super::Position::start_of(head) {
            return Err(Refusal::JournalDamaged);
        }
        Ok(())
    }
}

/// Where a zone is loaded to: see [`Zone::memory`](super::super::Zone::memory).
#[derive(Debug)]
pub struct ZoneMemory<'a> {
    /// The table.
    pub table: &'a mut [u16],
    /// The bitmap of mapped blocks.
    pub mapped: &'a mut [u64],
}

/// Loads the table and the bitmap of mapped blocks of a zone from the slot that counts according to
/// the [slot map](super::slot_map), or from the other if that is newer. `None`, and `memory` is left
/// alone, if the zone was never checkpointed.
///
/// If it is the other slot, `map` is changed to say so, because the tail may move as soon as the
/// zone is loaded: the next superblock has to be written with this map.
///
/// The table is as it was written: [`Zone::load`](super::super::Zone::load) checks it.
///
/// # Errors
///
/// If the device cannot be read, or neither slot is intact and new enough.
pub fn load_zone<D: Disk>(
    disk: &mut D,
    superblock: &Superblock,
    layout: &Layout,
    map: &mut [u64],
    zone: u64,
    block: &mut Block,
    memory: ZoneMemory<'_>,
) -> Result<Option<LoadedZone>, LoadError<D::Error>> {
    let mut map = SlotMapMut::new(map);
    let Some(counts) = map.as_map().get(zone) else {
        return Ok(None);
    };
    let ZoneMemory { table, mapped } = memory;
    let mut error = None;
    let mut headers = [None, None];
    for (header, slot) in headers.iter_mut().zip(0..) {
        let sector = layout.slot(zone, slot).ok_or(Refusal::ZoneDamaged)?;
        match disk.read(sector, block) {
            Err(reason) => error = Some(reason),
            Ok(()) => match SlotHeader::decode(block, &superblock.uuid, layout.geometry(), zone) {
                Ok(found) => *header = Some((slot, found)),
                Err(Refusal::ZoneDamaged) => {}
                Err(refusal) => return Err(refusal.into()),
            },
        }
    }
    // The newer one first.
    headers.sort_unstable_by_key(|it| core::cmp::Reverse(it.map(|(_, header)| header.generation)));
    if let [Some((_, first)), Some((_, second))] = headers {
        if first.generation == second.generation {
            return Err(Refusal::BadTable.into());
        }
    }
    let counting = headers
        .iter()
        .flatten()
        .find_map(|(slot, header)| (*slot == counts).then_some(header.generation));
    for (slot, header) in headers.into_iter().flatten() {
        let newer = counting.is_some_and(|counting| header.generation > counting);
        let fallback = slot != counts && !newer;
        if fallback && header.position.sequence < superblock.tail {
            // Records of the zone may have been given up that are not in this table.
            continue;
        }
        match load_body(disk, layout, slot, &header, block, table, mapped) {
            Err(reason) => error = Some(reason),
            Ok(false) => {}
            Ok(true) => {
                if bitmap::count(mapped) != header.mapped {
                    return Err(Refusal::BadTable.into());
                }
                if slot != counts {
                    map.set(zone, slot);
                }
                return Ok(Some(LoadedZone {
                    header,
                    slot,
                    fallback,
                }));
            }
        }
    }
    Err(match error {
        Some(error) => LoadError::Io(error),
        None => Refusal::ZoneDamaged.into(),
    })
}

/// Loads a slot's body; says whether it is intact.
fn load_body<D: Disk>(
    disk: &mut D,
    layout: &Layout,
    slot: u64,
    header: &SlotHeader,
    block: &mut Block,
    table: &mut [u16],
    mapped: &mut [u64],
) -> Result<bool, D::Error> {
    let Some(mut sector) = layout.slot(header.zone, slot) else {
        return Ok(false);
    };
    let mut crc = Crc::new();
    for index in 0..layout.body_blocks() {
        sector = sector.saturating_add(num::wide(BLOCK_SECTORS));
        disk.read(sector, block)?;
        crc = crc.update(block);
        slot::decode_body(layout.geometry(), table, mapped, index, block);
    }
    Ok(crc.value() == header.body_crc)
}
