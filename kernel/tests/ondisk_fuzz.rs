// SPDX-License-Identifier: GPL-2.0-only

//! Bytes that nobody wrote: decoders and recovery neither panic nor run for ever.
//!
//! `PROPTEST_CASES=1000000 cargo test --test ondisk_fuzz` runs more cases.

mod common;
mod image;
mod recovery;

use image::{
    entry,
    geometry,
    record,
    settings,
    stats,
    superblock,
    Image,
    UUID, //
};
use imrsim_core::{
    ondisk::{
        slot,
        Entry,
        Position,
        Record,
        SlotHeader,
        Superblock, //
    },
    Bo,
    Nbo, //
};
use proptest::prelude::*;
use recovery::{
    recover,
    seal, //
};

/// Changes to bytes: where, and to what.
fn changes() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let at = prop_oneof![
        4 => 0_usize..512,
        1 => 0_usize..4096,
    ];
    prop::collection::vec((at, any::<u8>()), 1..6)
}

fn apply(bytes: &mut [u8], changes: &[(usize, u8)]) {
    for (at, value) in changes {
        if let Some(byte) = bytes.get_mut(*at) {
            *byte = *value;
        }
    }
}

/// A drive with something in all of its structures.
fn image() -> Image {
    let mut image = Image::formatted();
    let table: Vec<u16> = (0..56).collect();
    image.put_slot(0, 0, 1, Position::start_of(1), &table, &[0xff]);
    image.put_slot(1, 0, 2, Position::start_of(2), &table, &[0xfff]);
    image.put_superblock(&superblock().open(0).checkpoint(1, 3, settings(2)), &[2]);
    let map = |zone, bo, nbo| Record::Map {
        zone,
        bo: Bo(bo),
        nbo: Nbo(nbo),
        blocks: 3,
    };
    let unmap = Record::Unmap {
        zone: 0,
        bo: Bo(4),
        blocks: 2,
    };
    let counters = Record::Statistics {
        zone: 2,
        stats: stats(9),
    };
    image.put_entry(1, 0, 0, &[map(0, 0, 0)]);
    image.put_entry(1, 1, 1, &[map(1, 6, 9), counters, map(2, 50, 50)]);
    image.put_entry(1, 2, 2, &[map(0, 20, 30), unmap]);
    image.put_entry(1, 3, 3, &[Record::ResetZone { zone: 1 }, map(1, 0, 0)]);
    image
}

#[test]
fn the_image_is_sound() {
    // Zone 0: 12 blocks from its slot, 3 more, 2 less; zone 1: reset, and 3; zone 2: 3.
    assert_eq!(recover(&mut image()), Some(13 + 3 + 3));
}

proptest! {
    #[test]
    fn superblocks(changes in changes(), sealed: bool) {
        let mut bytes = vec![0; 8192];
        superblock().open(1).encode(&[9], &mut bytes);
        apply(&mut bytes, &changes);
        if sealed {
            seal(&mut bytes[..4096], false);
        }
        if let Ok(found) = Superblock::decode(&bytes, &mut [0; 4]) {
            // Whatever is accepted can be written again.
            let layout = found.layout().unwrap();
            prop_assert!(layout.superblock_bytes() <= bytes.len());
            let mut again = vec![0; layout.superblock_bytes()];
            found.encode(&[9], &mut again);
            prop_assert_eq!(Superblock::decode(&again, &mut [0; 4]), Ok(found));
        }
    }

    #[test]
    fn entries(changes in changes(), sealed: bool, more: Vec<u8>) {
        let counters = Record::Statistics { zone: 2, stats: stats(9) };
        let mut block = entry(2, 3, 3, &[record(1), counters, record(2)]);
        for (byte, more) in block[64..].iter_mut().zip(more) {
            *byte = more;
        }
        apply(&mut block[..], &changes);
        if sealed {
            seal(&mut block[..], true);
        }
        if let Ok(entry) = Entry::decode(&block, &UUID) {
            prop_assert!(entry.records().count() <= 4096 / 4);
        }
    }

    #[test]
    fn slots(changes in changes(), sealed: bool) {
        let header = SlotHeader {
            zone: 1, generation: 2, position: Position::start_of(1), stats: stats(3), mapped: 0, body_crc: 0,
        };
        let mut block = [0; 4096];
        header.encode(&UUID, &geometry(), &mut block);
        apply(&mut block, &changes);
        if sealed {
            seal(&mut block, false);
        }
        let _ = SlotHeader::decode(&block, &UUID, &geometry(), 1);
        let (mut table, mut mapped) = ([0; 56], [0]);
        slot::decode_body(&geometry(), &mut table, &mut mapped, 0, &block);
        slot::decode_body(&geometry(), &mut table, &mut mapped, usize::MAX, &block);
    }

    #[test]
    fn whole_images(
        places in prop::collection::vec((any::<u64>(), 0_usize..4096, any::<u8>(), any::<bool>()), 1..6),
    ) {
        let mut image = image();
        let (first, blocks) = (image.layout.data_sectors(), image.layout.metadata_sectors() / 8);
        let journal = image.layout.journal()..image.layout.slots();
        for (place, at, value, sealed) in places {
            let sector = first + place % blocks * 8;
            let block = &mut image.at(sector)[..4096];
            block[at] = value;
            if sealed {
                seal(block, journal.contains(&sector));
            }
        }
        recover(&mut image);
    }
}
