// SPDX-License-Identifier: GPL-2.0-only

//! The layout of the backing device.

use imrsim_core::{
    Geometry,
    Layout, //
};
use proptest::prelude::*;

const DEFAULT: &Geometry = &Geometry::DEFAULT;

#[test]
fn the_default_geometry() {
    // 4 KiB + 128 KiB + 8 KiB.
    let slot = 280;
    for (zones, superblock, entries) in [
        (0, 8, 64),
        (1, 16, 64),
        (8, 16, 64),
        (9, 16, 72),
        (64, 16, 512),
        (1024, 16, 8192),
        (1025, 16, 8192),
        (8_192, 16, 8192),
        (8_193, 24, 8192),
        (80_000, 88, 8192),
    ] {
        let layout = Layout::new(DEFAULT, zones).unwrap();
        assert_eq!(layout.zones(), zones);
        assert_eq!(layout.geometry(), DEFAULT);
        assert_eq!(layout.data_sectors(), zones * 524_288);
        assert_eq!(layout.superblock_sectors(), superblock);
        assert_eq!(layout.superblock_bytes() as u64, superblock * 512);
        assert_eq!(layout.superblock_blocks() as u64, superblock / 8);
        assert!(layout.map_words() as u64 * 8 <= superblock * 512 - 4096);
        assert_eq!(layout.map_words() as u64, zones.div_ceil(16));
        assert_eq!(layout.journal_entries(), entries);
        assert_eq!(layout.journal_sectors(), entries * 16);
        assert_eq!(layout.slot_sectors(), slot);
        assert_eq!(layout.body_blocks(), 34);
        assert_eq!(
            layout.metadata_sectors(),
            2 * superblock + entries * 16 + zones * 2 * slot
        );
        assert_eq!(
            layout.total_sectors(),
            layout.data_sectors() + layout.metadata_sectors()
        );
    }
}

#[test]
fn metadata_is_small() {
    // From 2 GiB on.
    for zones in [8, 9, 20, 100, 1000, 4096, 80_000] {
        let layout = Layout::new(DEFAULT, zones).unwrap();
        let share = layout.metadata_sectors() as f64 / layout.data_sectors() as f64;
        assert!(share < 0.0014, "{zones}: {share}");
    }
}

#[test]
fn the_parts_follow_each_other() {
    for (geometry, zones) in [
        (*DEFAULT, 80),
        (Geometry::new(1, 2, 3).unwrap(), 5),
        (Geometry::new(455, 567, 63).unwrap(), 100),
        (Geometry::new(1, 1, 1).unwrap(), 40_000),
    ] {
        let layout = Layout::new(&geometry, zones).unwrap();
        let mut next = layout.data_sectors();
        for copy in 0..2 {
            assert_eq!(layout.superblock(copy), Some(next));
            next += layout.superblock_sectors();
        }
        assert_eq!(layout.journal(), next);
        for entry in 0..2 * layout.journal_entries() {
            let place = entry % layout.journal_entries();
            assert_eq!(layout.ring().sector_of(entry), next + 16 * place);
        }
        next += layout.journal_sectors();
        assert_eq!(layout.slots(), next);
        for zone in 0..zones {
            for slot in 0..2 {
                assert_eq!(layout.slot(zone, slot), Some(next));
                next += layout.slot_sectors();
            }
        }
        assert_eq!(layout.total_sectors(), next);
        assert_eq!(layout.superblock(2), None);
        assert_eq!(layout.slot(zones, 0), None);
        assert_eq!(layout.slot(0, 2), None);
        assert_eq!(layout.slot(u64::MAX, u64::MAX), None);
    }
}

#[test]
fn other_journals() {
    let entries = |entries| Layout::with_journal(DEFAULT, 3, entries);
    assert_eq!(entries(5), None);
    assert_eq!(entries(6).unwrap().journal_sectors(), 96);
    assert_eq!(entries(u64::MAX), None);
    assert_eq!(entries(64), Layout::new(DEFAULT, 3));
}

#[test]
fn devices_beyond_64_bits_are_refused() {
    let most = Layout::zones_that_fit(DEFAULT, u64::MAX);
    assert!(Layout::new(DEFAULT, most).is_some());
    for zones in [most + 1, most + 2, u64::MAX / 524_288 + 1, u64::MAX] {
        assert_eq!(Layout::new(DEFAULT, zones), None);
    }
}

#[test]
fn small_devices() {
    assert_eq!(Layout::zones_that_fit(DEFAULT, 0), 0);
    let one = Layout::new(DEFAULT, 1).unwrap().total_sectors();
    assert_eq!(one, 524_288 + 32 + 1024 + 560);
    assert_eq!(Layout::zones_that_fit(DEFAULT, one - 1), 0);
    assert_eq!(Layout::zones_that_fit(DEFAULT, one), 1);
    // A disk of 20 TB.
    assert_eq!(
        Layout::zones_that_fit(DEFAULT, 20_000_000_000_000 / 512),
        74_426
    );
}

proptest! {
    #[test]
    fn as_many_zones_as_fit(
        top in 1u32..500, more in 0u32..200, groups in 1u32..64, device: u64, shift in 0u32..64,
    ) {
        let Ok(geometry) = Geometry::new(top, top + more, groups) else {
            return Ok(());
        };
        let device = device >> shift;
        let zones = Layout::zones_that_fit(&geometry, device);
        if zones > 0 {
            let layout = Layout::new(&geometry, zones).unwrap();
            prop_assert!(layout.total_sectors() <= device);
            for part in [layout.journal(), layout.journal_sectors(), layout.slot_sectors(), layout.metadata_sectors()] {
                prop_assert_eq!(part % 8, 0);
            }
            // A slot holds what it must.
            let blocks = u64::from(geometry.zone_blocks());
            prop_assert!(layout.slot_sectors() * 512 >= 4096 + 2 * blocks + blocks.div_ceil(64) * 8);
        }
        prop_assert!(Layout::new(&geometry, zones + 1).is_none_or(|layout| layout.total_sectors() > device));
    }
}
