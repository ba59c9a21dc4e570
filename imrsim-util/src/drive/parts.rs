// SPDX-License-Identifier: GPL-2.0-only

//! How requests are cut: at the borders of zones, and as the block layer cuts discards.

use imrsim_core::{Bo, Geometry, Request};

use super::{BLOCK, SECTOR};

/// The part of a request that lies in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) zone: usize,
    pub(super) request: Request,
    /// Whether the request goes on in the next zone.
    pub(super) goes_on: bool,
}

/// What is left of a request behind its first `blocks` blocks.
pub(super) fn behind(request: &Request, blocks: u32) -> Request {
    Request {
        bo: request.bo.after(blocks),
        blocks: request.blocks.saturating_sub(blocks),
        head_partial: false,
        tail_partial: request.tail_partial,
    }
}

/// Cuts a request, in bytes, at the borders of the zones. It lies in the drive; of no bytes there
/// are no parts.
pub(super) fn parts(geometry: Geometry, offset: u64, len: u64) -> impl Iterator<Item = Part> {
    let end = offset + len;
    let zone_blocks = u64::from(geometry.zone_blocks());
    let first = offset / BLOCK;
    let after = if len == 0 { first } else { end.div_ceil(BLOCK) };
    let mut block = first;
    std::iter::from_fn(move || {
        if block >= after {
            return None;
        }
        let (zone, bo) = geometry.split(block);
        let stop = after.min((zone + 1) * zone_blocks);
        let part = Part {
            zone: usize::try_from(zone).ok()?,
            request: Request {
                bo: Bo(bo),
                blocks: u32::try_from(stop - block).ok()?,
                head_partial: block == first && !offset.is_multiple_of(BLOCK),
                tail_partial: stop == after && !end.is_multiple_of(BLOCK),
            },
            goes_on: stop < after,
        };
        block = stop;
        Some(part)
    })
}

/// Cuts a discard, in bytes, as the block layer does for a device of ours: in front of the first whole
/// block, then to the length of a zone, wherever it begins. Sectors that are not covered as a whole do
/// not count. Returns the first sector of each piece, and how many.
pub(super) fn discards(
    geometry: Geometry,
    offset: u64,
    len: u64,
) -> impl Iterator<Item = (u64, u64)> {
    let mut sector = offset.div_ceil(SECTOR);
    let end = (offset + len) / SECTOR;
    std::iter::from_fn(move || {
        let left = end.checked_sub(sector).filter(|left| *left > 0)?;
        let to_block = sector.next_multiple_of(BLOCK / SECTOR) - sector;
        let sectors = match to_block {
            0 => geometry.zone_sectors().min(left),
            _ => to_block.min(left),
        };
        let piece = (sector, sectors);
        sector += sectors;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_cut_at_zones_and_keep_their_partial_ends() {
        let geometry = Geometry::new(2, 3, 2).unwrap();
        let cut = |offset, len| -> Vec<_> {
            parts(geometry, offset, len)
                .map(|part| {
                    let it = part.request;
                    let partial = (it.head_partial, it.tail_partial);
                    (part.zone, it.bo.0, it.blocks, partial.0, partial.1)
                })
                .collect()
        };
        assert_eq!(cut(0, 0), []);
        assert_eq!(cut(0, 4096), [(0, 0, 1, false, false)]);
        assert_eq!(cut(512, 512), [(0, 0, 1, true, true)]);
        assert_eq!(cut(4096, 4097), [(0, 1, 2, false, true)]);
        assert_eq!(cut(4095, 2), [(0, 0, 2, true, true)]);
        assert_eq!(
            cut(9 * 4096 + 512, 12 * 4096),
            [
                (0, 9, 1, true, false),
                (1, 0, 10, false, false),
                (2, 0, 2, false, true)
            ]
        );
    }

    #[test]
    fn discards_are_cut_as_the_block_layer_cuts_them() {
        // Zones of 10 blocks, 80 sectors.
        let geometry = Geometry::new(2, 3, 2).unwrap();
        let cut = |offset, len| discards(geometry, offset, len).collect::<Vec<_>>();
        assert_eq!(cut(0, 0), []);
        assert_eq!(cut(1, 511), []);
        assert_eq!(cut(0, 40960), [(0, 80)]);
        assert_eq!(cut(512, 40960), [(1, 7), (8, 73)]);
        assert_eq!(cut(512, 1024), [(1, 2)]);
        assert_eq!(cut(8192, 2 * 40960 + 100), [(16, 80), (96, 80)]);
        assert_eq!(cut(100, 4096 + 512), [(1, 7), (8, 1)]);
    }
}
