// SPDX-License-Identifier: GPL-2.0-only

//! What of a discard can be unmapped: the blocks that lie in it as a whole, zone by zone.

use super::{
    geometry::Geometry,
    num,
    units::{
        Bo,
        BLOCK_SECTORS, //
    },
};

/// The part of a discard that lies in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscardPart {
    /// The zone.
    pub zone: u64,
    /// The first block of the zone that the part covers as a whole.
    pub bo: Bo,
    /// How many blocks it covers as a whole.
    pub blocks: u32,
    /// Its length in sectors: up to the end of the discard or of the zone.
    pub sectors: u64,
}

impl DiscardPart {
    /// The first part of a discard of `sectors` sectors, from sector `sector` of the device on.
    pub const fn first(geometry: &Geometry, sector: u64, sectors: u64) -> Self {
        let block = num::wide(BLOCK_SECTORS);
        let zone = geometry.zone_of_sector(sector);
        let first = sector.saturating_sub(zone.saturating_mul(geometry.zone_sectors()));
        let left = geometry.zone_sectors().saturating_sub(first);
        let sectors = if sectors < left { sectors } else { left };
        let bo = first.div_ceil(block);
        let end = first.saturating_add(sectors) / block;
        Self {
            zone,
            // At most 65,536 both: the blocks of a zone.
            bo: Bo(num::low32(bo)),
            blocks: num::low32(end.saturating_sub(bo)),
            sectors,
        }
    }
}
