// SPDX-License-Identifier: GPL-2.0-only

//! The geometry: AT and its inverse, and which blocks overlap which.

use std::collections::BTreeSet;

use imrsim_core::{
    Address,
    Geometry,
    GeometryError,
    Location,
    Nbo,
    Track,
    TrackKind, //
};
use proptest::prelude::*;

/// Any geometry, the small ones more often than the large.
fn geometries() -> impl Strategy<Value = Geometry> {
    (0u32..6)
        .prop_flat_map(|scale| (1u32..=6 << (2 * scale), 0u32..=6 << (2 * scale), 1u32..=64))
        .prop_filter_map("too large", |(top, more, groups)| {
            Geometry::new(top, top + more, groups).ok()
        })
}

#[test]
fn the_default_is_the_original_drive() {
    let geometry = Geometry::DEFAULT;
    assert_eq!(Geometry::new(456, 568, 64), Ok(geometry));
    assert_eq!(Geometry::default(), geometry);
    assert_eq!(geometry.top_blocks(), 456);
    assert_eq!(geometry.bottom_blocks(), 568);
    assert_eq!(geometry.groups(), 64);
    assert_eq!(geometry.tracks(), 128);
    assert_eq!(geometry.group_blocks(), 1024);
    assert_eq!(geometry.zone_blocks(), 65_536);
    assert_eq!(geometry.zone_sectors(), 524_288);
    assert_eq!(geometry.bottom_blocks_per_zone(), 36_352);
    assert_eq!(geometry.top_blocks_per_zone(), 29_184);
}

#[test]
fn impossible_geometries_are_refused() {
    use GeometryError::{Empty, TopLongerThanBottom, ZoneTooLarge};
    for (top, bottom, groups, expected) in [
        (0, 568, 64, Some(Empty)),
        (0, 0, 64, Some(Empty)),
        (456, 568, 0, Some(Empty)),
        (569, 568, 64, Some(TopLongerThanBottom)),
        (1, 0, 1, Some(Empty)),
        (456, 568, 65, Some(ZoneTooLarge)),
        (32_768, 32_769, 1, Some(ZoneTooLarge)),
        (u32::MAX, u32::MAX, u32::MAX, Some(ZoneTooLarge)),
        (1 << 31, 1 << 31, 1 << 31, Some(ZoneTooLarge)),
        (1 << 31, 1 << 31, 1, Some(ZoneTooLarge)),
        (568, 568, 1, None),
        (1, 1, 1, None),
        (1, 1, 32_768, None),
        (1, 65_535, 1, None),
        (32_768, 32_768, 1, None),
    ] {
        assert_eq!(
            Geometry::new(top, bottom, groups).err(),
            expected,
            "{top} {bottom} {groups}"
        );
    }
    assert!(!Empty.to_string().is_empty());
    assert!(TopLongerThanBottom.to_string().contains("more blocks"));
    assert!(ZoneTooLarge.to_string().contains("65536"));
}

#[test]
fn at_of_known_blocks() {
    let geometry = Geometry::DEFAULT;
    for (block, zone, group, kind, offset) in [
        (0, 0, 0, TrackKind::Top, 0),
        (455, 0, 0, TrackKind::Top, 455),
        (456, 0, 0, TrackKind::Bottom, 0),
        (1023, 0, 0, TrackKind::Bottom, 567),
        (1024, 0, 1, TrackKind::Top, 0),
        (65_535, 0, 63, TrackKind::Bottom, 567),
        (65_536, 1, 0, TrackKind::Top, 0),
        (7 * 65_536 + 5 * 1024 + 460, 7, 5, TrackKind::Bottom, 4),
    ] {
        let address = Address {
            zone,
            track: Track { group, kind },
            offset,
        };
        assert_eq!(geometry.at(block), address);
        assert_eq!(geometry.at_inverse(address), Some(block));
    }
}

#[test]
fn at_inverse_refuses_places_that_do_not_exist() {
    let geometry = Geometry::DEFAULT;
    let place = |zone, group, kind, offset| Address {
        zone,
        track: Track { group, kind },
        offset,
    };
    for address in [
        place(0, 64, TrackKind::Top, 0),
        place(0, u32::MAX, TrackKind::Bottom, 0),
        place(0, 0, TrackKind::Top, 456),
        place(0, 0, TrackKind::Bottom, 568),
        place(0, 63, TrackKind::Bottom, u32::MAX),
        place(u64::MAX, 0, TrackKind::Top, 0),
        place(1 << 48, 0, TrackKind::Top, 0),
    ] {
        assert_eq!(geometry.at_inverse(address), None, "{address:?}");
    }
    let last = geometry.at(u64::MAX);
    assert_eq!(geometry.at_inverse(last), Some(u64::MAX));
    // The next block would have number 2^64: with zones of 3 blocks the zone still exists.
    let odd = Geometry::new(1, 2, 1).unwrap();
    let last = odd.at(u64::MAX);
    assert_eq!(last.offset, 0);
    let behind = Address {
        track: Track {
            group: 0,
            kind: TrackKind::Bottom,
        },
        offset: 0,
        ..last
    };
    assert_eq!(odd.at_inverse(behind), None);
}

/// Every block of the default zone, and a zone far away.
#[test]
fn at_inverse_undoes_at_for_every_block_of_a_zone() {
    let geometry = Geometry::DEFAULT;
    for block in (0..65_536).chain((1 << 40)..(1 << 40) + 65_536) {
        let address = geometry.at(block);
        assert_eq!(geometry.at_inverse(address), Some(block));
        assert_eq!(address.zone, block / 65_536);
        assert_eq!(
            geometry.split(block),
            (block / 65_536, (block % 65_536) as u32)
        );
    }
}

#[test]
fn overlap_is_the_golden_table() {
    let geometry = Geometry::DEFAULT;
    let golden = include_str!("data/neighbour_map.csv");
    let mut rows = 0;
    for row in golden
        .lines()
        .filter(|row| row.starts_with(|c: char| c.is_ascii_digit()))
    {
        let (bottom, top) = row.split_once(',').unwrap();
        let (bottom, top): (u32, u32) = (bottom.parse().unwrap(), top.parse().unwrap());
        assert_eq!(geometry.overlapping_top_offset(bottom), top, "{bottom}");
        rows += 1;
    }
    assert_eq!(rows, 568);
    // Beyond the end of the track: as the last block.
    assert_eq!(geometry.overlapping_top_offset(568), 455);
    assert_eq!(geometry.overlapping_top_offset(u32::MAX), 455);
}

#[test]
fn the_last_bottom_track_has_one_neighbour() {
    let geometry = Geometry::DEFAULT;
    let tops = |group| {
        geometry
            .neighbour_tracks(group)
            .map(|track| track.map(|track| (track.group, track.kind)))
    };
    let top = |group| Some((group, TrackKind::Top));
    assert_eq!(tops(0), [top(0), top(1)]);
    assert_eq!(tops(62), [top(62), top(63)]);
    assert_eq!(tops(63), [top(63), None]);
    assert_eq!(tops(64), [None, None]);
    assert_eq!(tops(u32::MAX), [None, None]);
    assert_eq!(
        geometry.neighbours(Nbo(456)),
        [Some(Nbo(0)), Some(Nbo(1024))]
    );
    assert_eq!(
        geometry.neighbours(Nbo(63 * 1024 + 456)),
        [Some(Nbo(63 * 1024)), None]
    );
    assert_eq!(
        geometry.neighbours(Nbo(65_535)),
        [Some(Nbo(63 * 1024 + 455)), None]
    );
    assert_eq!(geometry.neighbours(Nbo(455)), [None, None], "a top block");
    assert_eq!(
        geometry.neighbours(Nbo(65_536 + 456)),
        [None, None],
        "another zone"
    );
    assert_eq!(geometry.neighbours(Nbo(u32::MAX)), [None, None]);
    assert_eq!(
        geometry.bottoms_under(Nbo(0))[0].blocks,
        0,
        "nothing lies before the first track"
    );
    for outside in [456, 65_536, u32::MAX] {
        assert_eq!(
            geometry.bottoms_under(Nbo(outside)).map(|run| run.blocks),
            [0, 0]
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn at_inverse_undoes_at(geometry in geometries(), blocks in prop::collection::vec(any::<u64>(), 100)) {
        let zone_blocks = u64::from(geometry.zone_blocks());
        for block in blocks.into_iter().chain(0..2 * zone_blocks) {
            let address = geometry.at(block);
            prop_assert_eq!(geometry.at_inverse(address), Some(block));
            prop_assert!(address.track.group < geometry.groups());
            prop_assert!(address.offset < geometry.track_len(address.track.kind));
        }
    }

    #[test]
    fn locate_counts_through_the_tracks_in_physical_order(geometry in geometries()) {
        let mut nbo = 0;
        let mut top_number = 0;
        for group in 0..geometry.groups() {
            for kind in [TrackKind::Top, TrackKind::Bottom] {
                let track = Track { group, kind };
                prop_assert_eq!(geometry.track_start(track), Nbo(nbo));
                for offset in 0..geometry.track_len(kind) {
                    let place = Location { track, offset };
                    prop_assert_eq!(geometry.locate(Nbo(nbo)), place);
                    prop_assert_eq!(geometry.nbo(place), Some(Nbo(nbo)));
                    let expected = (kind == TrackKind::Top).then_some(top_number);
                    prop_assert_eq!(geometry.top_number(Nbo(nbo)), expected);
                    top_number += u32::from(kind == TrackKind::Top);
                    nbo += 1;
                }
            }
        }
        prop_assert_eq!(nbo, geometry.zone_blocks());
        prop_assert_eq!(top_number, geometry.top_blocks_per_zone());
        prop_assert_eq!(geometry.top_number(Nbo(nbo)), None);
    }

    /// A top block lists a bottom block exactly if the bottom block lists the top block.
    #[test]
    fn neighbours_are_symmetric(geometry in geometries()) {
        let mut over = BTreeSet::new();
        let mut under = BTreeSet::new();
        for nbo in (0..geometry.zone_blocks()).map(Nbo) {
            for top in geometry.neighbours(nbo).into_iter().flatten() {
                prop_assert_eq!(geometry.locate(top).track.kind, TrackKind::Top);
                over.insert((nbo, top));
            }
            for run in geometry.bottoms_under(nbo) {
                under.extend((0..run.blocks).map(|i| (run.first.after(i), nbo)));
            }
        }
        prop_assert_eq!(&over, &under);
        // By the definition, written out in wider numbers.
        for &(bottom, top) in &over {
            let (bottom, top) = (geometry.locate(bottom), geometry.locate(top));
            let wide = |n: u32| u128::from(n);
            prop_assert_eq!(
                wide(top.offset),
                wide(bottom.offset) * wide(geometry.top_blocks()) / wide(geometry.bottom_blocks())
            );
            let distance = top.track.group - bottom.track.group;
            prop_assert!(distance <= 1);
        }
        // Each bottom block has two, but those of the last bottom track have one.
        let tracks = 2 * geometry.groups() as usize - 1;
        prop_assert_eq!(over.len(), tracks * geometry.bottom_blocks() as usize);
    }

    /// What lets the mask of a read-modify-write fit in 64 bits.
    #[test]
    fn n_bottom_blocks_lie_under_at_most_n_tops(geometry in geometries(), n in 1u32..=64) {
        for first in 0..geometry.bottom_blocks() {
            let last = (first + n - 1).min(geometry.bottom_blocks() - 1);
            let tops = geometry.overlapping_top_offset(last) - geometry.overlapping_top_offset(first) + 1;
            prop_assert!(tops <= last - first + 1);
        }
    }
}
