// SPDX-License-Identifier: GPL-2.0-only

//! Which blocks a discard unmaps.

use imrsim_core::{
    Bo,
    DiscardPart,
    Geometry, //
};
use proptest::prelude::*;

/// All parts of a discard.
fn parts(geometry: &Geometry, mut sector: u64, mut sectors: u64) -> Vec<DiscardPart> {
    let mut parts = Vec::new();
    while sectors > 0 {
        let part = DiscardPart::first(geometry, sector, sectors);
        assert!(part.sectors > 0 && part.sectors <= sectors, "{part:?}");
        sector += part.sectors;
        sectors -= part.sectors;
        parts.push(part);
    }
    parts
}

#[test]
fn by_hand() {
    // Zones of 10 blocks, 80 sectors.
    let geometry = Geometry::new(2, 3, 2).unwrap();
    let part = |zone, bo, blocks, sectors| DiscardPart {
        zone,
        bo: Bo(bo),
        blocks,
        sectors,
    };
    let parts = |sector, sectors| parts(&geometry, sector, sectors);
    assert_eq!(parts(0, 8), [part(0, 0, 1, 8)]);
    assert_eq!(parts(0, 7), [part(0, 0, 0, 7)]);
    assert_eq!(parts(1, 7), [part(0, 1, 0, 7)]);
    assert_eq!(parts(1, 14), [part(0, 1, 0, 14)]);
    assert_eq!(parts(1, 15), [part(0, 1, 1, 15)]);
    assert_eq!(parts(0, 80), [part(0, 0, 10, 80)]);
    assert_eq!(parts(79, 2), [part(0, 10, 0, 1), part(1, 0, 0, 1)]);
    assert_eq!(
        parts(70, 180),
        [
            part(0, 9, 1, 10),
            part(1, 0, 10, 80),
            part(2, 0, 10, 80),
            part(3, 0, 1, 10)
        ]
    );
}

#[test]
fn the_largest_zone_as_a_whole() {
    let geometry = Geometry::DEFAULT;
    let part = DiscardPart::first(&geometry, 3 * 524_288, u64::MAX);
    assert_eq!((part.zone, part.bo, part.blocks), (3, Bo(0), 65_536));
    assert_eq!(part.sectors, 524_288);
}

proptest! {
    /// Block by block: those that lie in the discard with all of their sectors, and no others.
    #[test]
    fn whole_blocks_and_no_others(
        (top, more, groups) in (1_u32..6, 0_u32..4, 1_u32..5),
        sector in 0_u64..600,
        sectors in 0_u64..600,
    ) {
        let geometry = Geometry::new(top, top + more, groups).unwrap();
        let blocks: Vec<u64> = parts(&geometry, sector, sectors)
            .iter()
            .flat_map(|part| {
                let start = part.zone * u64::from(geometry.zone_blocks()) + u64::from(part.bo.0);
                start..start + u64::from(part.blocks)
            })
            .collect();
        let expected: Vec<u64> = (0..200)
            .filter(|block| block * 8 >= sector && (block + 1) * 8 <= sector + sectors)
            .collect();
        prop_assert_eq!(blocks, expected);
    }
}
