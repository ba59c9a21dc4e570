// SPDX-License-Identifier: GPL-2.0-only

//! Which superblock is taken, and which devices are refused and why.

mod image;

use image::{
    geometry,
    settings,
    stats,
    superblock,
    Image,
    UUID, //
};
use imrsim_core::{
    ondisk::{
        crc::Crc,
        is_empty,
        replay::ENTRY_BYTES,
        LoadError,
        Loaded,
        Position,
        Record,
        Refusal,
        Superblock,
        Uuid, //
    },
    Bo,
    Geometry,
    Layout,
    Nbo, //
};

#[track_caller]
fn refused(image: &mut Image) -> Refusal {
    match image.load() {
        Err(LoadError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

fn loaded(image: &mut Image) -> Loaded {
    image.load().expect("loaded").0
}

/// Changes a byte of a superblock's header and makes the checksum right.
fn change(image: &mut Image, copy: u64, at: usize, value: u8) {
    let sector = image.layout.superblock(copy).unwrap();
    let block = &mut image.at(sector)[..4096];
    block[at] = value;
    let crc = Crc::new().update(&block[..508]).update(&block[512..]);
    block[508..512].copy_from_slice(&crc.value().to_le_bytes());
}

fn damage(image: &mut Image, copy: u64) {
    let sector = image.layout.superblock(copy).unwrap();
    image.at(sector)[40] ^= 1;
}

#[test]
fn the_newer_copy_is_taken() {
    let (old, new) = (
        superblock().open(0),
        superblock().open(0).checkpoint(2, 2, settings(5)),
    );
    let mut image = Image::formatted();
    assert_eq!(
        loaded(&mut image),
        Loaded {
            superblock: old,
            copy: 0,
            other_is_equal: true
        }
    );
    image.put_copy(1, &new, &[2]);
    let (found, map) = image.load().unwrap();
    assert_eq!(
        found,
        Loaded {
            superblock: new,
            copy: 1,
            other_is_equal: false
        }
    );
    assert_eq!(map, [2]);
    image.put_superblock(&old, &[1]);
    image.put_copy(0, &new, &[2]);
    let (found, map) = image.load().unwrap();
    assert_eq!((found.copy, found.superblock, map), (0, new, vec![2]));
}

#[test]
fn one_good_copy_is_enough() {
    for copy in 0..2 {
        for how in 0..4 {
            let mut image = Image::formatted();
            let sector = image.layout.superblock(copy).unwrap();
            match how {
                0 => damage(&mut image, copy),
                1 => image.at(sector)[..8192].fill(0),
                2 => image.at(sector)[..8192].fill(0x55),
                // In the map.
                _ => image.at(sector)[4096 + 77] ^= 4,
            }
            let found = loaded(&mut image);
            assert_eq!((found.copy, found.other_is_equal), (1 - copy, false));
            assert_eq!(found.superblock, superblock().open(0));
        }
        for bad in [0, 8] {
            let mut image = Image::formatted();
            image.bad.push(image.layout.superblock(copy).unwrap() + bad);
            assert_eq!(loaded(&mut image).copy, 1 - copy);
        }
    }
}

#[test]
fn a_blank_device() {
    let mut image = Image::blank();
    assert_eq!(refused(&mut image), Refusal::Blank);
    // A crash while it was formatted leaves a part of the journal.
    let journal = image.layout.journal();
    image.at(journal)[..8192].fill(7);
    assert_eq!(refused(&mut image), Refusal::Blank);
    // A drive of one zone more, one less.
    for zones in [2, 4] {
        let layout = Layout::with_journal(&geometry(), zones, 8).unwrap();
        let mut image = Image::blank();
        image.bytes.resize(layout.total_sectors() as usize * 512, 0);
        let result = image.load_as(&layout, layout.total_sectors());
        assert_eq!(result.err(), Some(LoadError::Refused(Refusal::Blank)));
    }
}

#[test]
fn a_device_with_data_is_not_blank() {
    let zone_sectors = geometry().zone_sectors();
    let layout = Image::blank().layout;
    // The first block of each zone and its first bottom track; the slots; the superblocks.
    let places = (0..3)
        .flat_map(|zone| [0, 6 * 8].map(|at| zone * zone_sectors + at))
        .chain([layout.slots()])
        .chain([0, 1].map(|copy| layout.superblock(copy).unwrap()))
        .chain([0, 1].map(|copy| layout.superblock(copy).unwrap() + 8));
    for sector in places {
        let mut image = Image::blank();
        image.at(sector)[4095] = 1;
        assert_eq!(refused(&mut image), Refusal::ForeignData, "sector {sector}");
    }
    // The table line of a smaller and of a larger drive: the superblock is where data would be, or
    // data is where the superblock would be.
    for zones in [2, 4] {
        let layout = Layout::with_journal(&geometry(), zones, 8).unwrap();
        let mut image = Image::formatted();
        image.bytes.resize(layout.total_sectors() as usize * 512, 0);
        image.at(6 * 8)[0] = 1;
        let result = image.load_as(&layout, layout.total_sectors());
        assert_eq!(result.err(), Some(LoadError::Refused(Refusal::ForeignData)));
    }
}

#[test]
fn a_large_blank_device_is_looked_at_here_and_there() {
    struct Sparse(Vec<u64>, Option<u64>);
    impl imrsim_core::ondisk::Disk for Sparse {
        type Error = ();
        fn read(&mut self, sector: u64, buf: &mut [u8]) -> Result<(), ()> {
            self.0.push(sector);
            buf.fill(u8::from(self.1 == Some(sector)));
            Ok(())
        }
    }
    let layout = Layout::new(&Geometry::DEFAULT, 80_000).unwrap();
    let mut map = vec![0; layout.map_words()];
    let mut load = |data| {
        let mut disk = Sparse(Vec::new(), data);
        let result = imrsim_core::ondisk::load_superblock(
            &mut disk,
            &layout,
            u64::MAX,
            &mut map,
            &mut [0; 4096],
        );
        (result.err(), disk.0)
    };
    let (result, reads) = load(None);
    assert_eq!(result, Some(LoadError::Refused(Refusal::Blank)));
    // The superblocks, and two places in each of 128 zones.
    assert_eq!(reads.len(), 2 * layout.superblock_blocks() + 1 + 256);
    let last = 79_999 * 524_288;
    for sector in [0, 456 * 8, last, last + 456 * 8] {
        let (result, _) = load(Some(sector));
        assert_eq!(result, Some(LoadError::Refused(Refusal::ForeignData)));
    }
}

#[test]
fn damage_to_both_copies() {
    let mut image = Image::formatted();
    damage(&mut image, 0);
    let mut with_zeros = image.clone();
    let mut with_data = image.clone();
    damage(&mut image, 1);
    assert_eq!(refused(&mut image), Refusal::SuperblockDamaged);
    let second = image.layout.superblock(1).unwrap();
    with_zeros.at(second)[..8192].fill(0);
    assert_eq!(refused(&mut with_zeros), Refusal::SuperblockDamaged);
    with_data.at(second)[..8192].fill(1);
    assert_eq!(refused(&mut with_data), Refusal::SuperblockDamaged);
    // One cannot be read.
    let mut image = Image::formatted();
    damage(&mut image, 0);
    image.bad.push(second);
    assert_eq!(image.load().err(), Some(LoadError::Io(second)));
}

#[test]
fn what_is_beyond_this_program_is_refused() {
    for (at, value, refusal) in [
        (8, 3, Refusal::UnknownVersion),
        (40, 1, Refusal::UnknownFeature),
        (68, 99, Refusal::SuperblockInvalid),
    ] {
        // Even if the other copy is fine.
        for copies in [&[0][..], &[1], &[0, 1]] {
            let mut image = Image::formatted();
            for copy in copies {
                change(&mut image, *copy, at, value);
            }
            assert_eq!(refused(&mut image), refusal);
            // Or damaged, or not there at all.
            if let [copy] = copies {
                damage(&mut image, 1 - copy);
                assert_eq!(refused(&mut image), refusal);
            }
        }
    }
}

#[test]
fn copies_of_different_drives() {
    let other = Superblock {
        uuid: Uuid(*b"another drive   "),
        ..superblock()
    };
    let mut image = Image::formatted();
    image.put_copy(1, &other, &[0]);
    assert_eq!(refused(&mut image), Refusal::SuperblocksDiffer);
    // The same number, but not the same.
    let other = Superblock {
        head: 1,
        ..superblock().open(0)
    };
    image.put_copy(1, &other, &[0]);
    assert_eq!(refused(&mut image), Refusal::SuperblockInvalid);
}

#[test]
fn another_drive_than_the_table_line_says() {
    // As large as ours, so that the superblock is in the same place.
    let long = Geometry::new(12, 16, 2).unwrap();
    assert_eq!(long.zone_blocks(), geometry().zone_blocks());
    let layout = Layout::with_journal(&long, 3, 8).unwrap();
    let mut image = Image::formatted();
    let room = image.layout.total_sectors();
    assert_eq!(
        image.load_as(&layout, room).err(),
        Some(LoadError::Refused(Refusal::GeometryMismatch))
    );
    // Twice as many zones of half the size.
    let half = Geometry::new(6, 8, 2).unwrap();
    let superblock = Superblock {
        journal_entries: 8,
        ..Superblock::new(&half, 6, settings(3), UUID)
    };
    image.put_copy(0, &superblock, &[0]);
    image.put_copy(1, &superblock, &[0]);
    assert_eq!(refused(&mut image), Refusal::GeometryMismatch);
    // The same geometry, but a number of zones that does not belong here.
    let superblock = Superblock {
        journal_entries: 8,
        ..Superblock::new(&geometry(), 4, settings(3), UUID)
    };
    image.put_copy(0, &superblock, &[0]);
    image.put_copy(1, &superblock, &[0]);
    assert_eq!(refused(&mut image), Refusal::SizeMismatch);
}

#[test]
fn a_device_that_shrank() {
    let mut image = Image::formatted();
    let layout = image.layout;
    let room = layout.total_sectors();
    assert!(image.load_as(&layout, room).is_ok());
    assert_eq!(
        image.load_as(&layout, room - 1).err(),
        Some(LoadError::Refused(Refusal::DeviceShrank))
    );
}

#[test]
fn the_table_line_does_not_say_how_long_the_journal_is() {
    let mut image = Image::formatted();
    let expected = Layout::new(&geometry(), 3).unwrap();
    assert_ne!(expected.journal_entries(), 8);
    let room = image.layout.total_sectors();
    let (loaded, _) = image.load_as(&expected, room).unwrap();
    assert_eq!(loaded.superblock.layout(), Ok(image.layout));
}

/// Whether the drive counts as empty.
fn empty(image: &mut Image) -> bool {
    let (loaded, map) = image.load().unwrap();
    let mut buf = vec![0; 4 * ENTRY_BYTES];
    is_empty(image, &loaded.superblock, &map, &mut buf, &mut [0; 4096]).unwrap()
}

#[test]
fn drives_without_data() {
    let map = |blocks| Record::Map {
        zone: 1,
        bo: Bo(0),
        nbo: Nbo(6),
        blocks,
    };
    let stopped = superblock().open(0).close(0, 1, settings(2));
    let table: Vec<u16> = (0..56).collect();
    let with = |superblock: &Superblock, mapped: Option<u64>, record: Option<Record>| {
        let mut image = Image::formatted();
        if let Some(mapped) = mapped {
            image.put_slot(1, 0, 1, Position::start_of(0), &table, &[mapped]);
        }
        image.put_entry(1, 0, 0, record.as_slice());
        image.put_superblock(superblock, &[u64::from(mapped.is_some()) * 2]);
        image
    };
    let statistics = Record::Statistics {
        zone: 1,
        stats: stats(1),
    };
    assert!(empty(&mut with(&stopped, None, Some(statistics))));
    assert!(empty(&mut with(&stopped, Some(0), Some(statistics))));
    assert!(!empty(&mut with(&stopped, Some(1 << 7), Some(statistics))));
    assert!(!empty(&mut with(&stopped, None, Some(map(1)))));
    // What was not stopped in good order may have more.
    let running = superblock().open(0).checkpoint(0, 1, settings(2));
    assert!(!empty(&mut with(&running, None, Some(statistics))));
    // What cannot be understood may be anything.
    let mut damaged = with(&stopped, Some(0), Some(statistics));
    let header = damaged.layout.slot(0, 1).unwrap();
    damaged.at(header)[20] ^= 1;
    assert!(!empty(&mut damaged));
    let mut damaged = with(&stopped, None, Some(statistics));
    damaged.damage_copy(0, 0);
    assert!(empty(&mut damaged), "one copy is enough");
    damaged.damage_copy(0, 1);
    assert!(!empty(&mut damaged));
}
