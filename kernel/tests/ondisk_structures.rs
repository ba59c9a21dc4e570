// SPDX-License-Identifier: GPL-2.0-only

//! Every structure: what is encoded can be decoded, and no flipped bit goes unnoticed.

mod image;

use image::{
    flip_each_bit,
    settings,
    stats,
    superblock,
    UUID, //
};
use imrsim_core::{
    ondisk::{
        slot,
        Block,
        Crc,
        Position,
        Refusal,
        Ring,
        SlotHeader,
        SlotMap,
        SlotMapMut,
        Superblock,
        Uuid, //
    },
    Condition,
    Geometry,
    Stats,
    Zone, //
};
use proptest::prelude::*;

fn encode(superblock: &Superblock, map: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0xee; superblock.layout().unwrap().superblock_bytes()];
    superblock.encode(map, &mut bytes);
    bytes
}

#[test]
fn a_flipped_bit_of_a_superblock_is_noticed() {
    let mut map = vec![0];
    SlotMapMut::new(&mut map).set(1, 1);
    let original = superblock().open(3);
    let mut bytes = encode(&original, &map);
    assert_eq!(bytes.len(), 8192);
    flip_each_bit(&mut bytes, |bytes| {
        Superblock::decode(bytes, &mut [0]) != Ok(original)
    });
}

#[test]
fn a_superblock_is_one_sector() {
    let bytes = encode(&superblock(), &[0]);
    assert!(bytes[512..].iter().all(|byte| *byte == 0));
}

#[test]
fn documented_bytes_of_a_superblock() {
    let superblock = Superblock {
        created: 0x0102,
        creator: *b"imrsim_util 0.1\0",
        ..superblock().open(3)
    };
    let bytes = encode(&superblock, &[0]);
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(&bytes[..8], b"IMRSimSB");
    assert_eq!(
        [8, 12, 56, 60, 64, 68, 192].map(u32_at),
        [2, 0, 6, 8, 4, 3, 4096]
    );
    assert_eq!(
        [208, 212, 216, 220, 224].map(u32_at),
        [1_000, 2_000, 1, 0, 0]
    );
    assert_eq!(&bytes[16..32], &UUID.0);
    assert_eq!([32, 40, 48, 72, 80].map(u64_at), [2, 0, 0, 3, 1]);
    assert_eq!([88, 96, 104, 200].map(u64_at), [0, 0, 3, 3]);
    // 3 zones of 56 blocks; 8 entries; slots of 1 + 1 blocks.
    let first = 3 * 56 * 8;
    assert_eq!([112, 120, 128].map(u64_at), [first, 16, first + 32]);
    assert_eq!([136, 144, 152].map(u64_at), [8, first + 32 + 128, 16]);
    assert_eq!([160, 168].map(u64_at), [first + 32 + 128 + 96, 0x0102]);
    assert_eq!(&bytes[176..192], b"imrsim_util 0.1\0");
    assert_eq!(u32_at(196), ::crc32c::crc32c(&[0; 4096]));
    let covered: Vec<u8> = [&bytes[..508], &bytes[512..4096]].concat();
    assert_eq!(u32_at(508), ::crc32c::crc32c(&covered));
}

#[test]
fn superblocks_that_are_not_accepted() {
    let good = encode(&superblock(), &[0]);
    let decode = |bytes: &[u8]| Superblock::decode(bytes, &mut [0]).unwrap_err();
    assert_eq!(decode(&[]), Refusal::SuperblockDamaged);
    assert_eq!(decode(&good[..4096]), Refusal::SuperblockDamaged);
    assert_eq!(decode(&[0; 8192]), Refusal::Blank);
    assert_eq!(decode(&[1; 8192]), Refusal::ForeignData);
    // With a right checksum.
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        let crc = Crc::new().update(&bytes[..508]).update(&bytes[512..4096]);
        bytes[508..512].copy_from_slice(&crc.value().to_le_bytes());
        decode(&bytes)
    };
    assert_eq!(changed(8, 3), Refusal::UnknownVersion);
    assert_eq!(changed(40, 1), Refusal::UnknownFeature);
    // Flags, geometry, phases, zones, opened, tail, tail epoch, layout, block size.
    for (at, value) in [
        (12, 2),
        (56, 0),
        (60, 5),
        (67, 1),
        (68, 0),
        (69, 1),
        (72, 2),
        (79, 0xff),
        (200, 1),
        (88, 1),
        (96, 1),
        (112, 1),
        (120, 8),
        (128, 0),
        (136, 9),
        (136, 5),
        (144, 0),
        (152, 24),
        (160, 0),
        (193, 0),
        // Settings.
        (211, 1),
        (215, 1),
        (216, 2),
        (221, 1),
    ] {
        assert_eq!(changed(at, value), Refusal::SuperblockInvalid, "byte {at}");
    }
    // Features that need not be known.
    let mut bytes = good.clone();
    bytes[48] = 5;
    let crc = Crc::new().update(&bytes[..508]).update(&bytes[512..4096]);
    bytes[508..512].copy_from_slice(&crc.value().to_le_bytes());
    assert_eq!(Superblock::decode(&bytes, &mut [0]).unwrap().compatible, 5);
    // The journal cannot hold more than it has room for.
    let full = Superblock {
        head: 8,
        ..superblock()
    };
    assert!(Superblock::decode(&encode(&full, &[0]), &mut [0]).is_ok());
    let too_full = Superblock {
        head: 9,
        ..superblock()
    };
    assert_eq!(decode(&encode(&too_full, &[0])), Refusal::SuperblockInvalid);
    // No zone has both slots or an unknown condition, and none behind the last has any.
    for map in [3, 3 << 2, 3 << 8, 3 << 10, 1 << 12, 1 << 14, 2 << 62] {
        assert_eq!(
            decode(&encode(&superblock(), &[map])),
            Refusal::SuperblockInvalid
        );
    }
}

#[test]
fn a_life_of_superblocks() {
    let new = superblock();
    assert_eq!((new.sequence, new.epoch, new.clean), (1, 0, true));
    let opened = new.open(0);
    assert_eq!((opened.sequence, opened.epoch, opened.clean), (2, 1, false));
    let moved = opened.checkpoint(4, 6, settings(5));
    assert_eq!((moved.tail, moved.tail_epoch, moved.head), (4, 1, 6));
    assert_eq!(
        (moved.sequence, moved.settings, moved.clean),
        (3, settings(5), false)
    );
    // A crash; the journal was found to end at 9.
    let opened = moved.open(9);
    assert_eq!((opened.opened_at, opened.head, opened.tail), (9, 9, 4));
    assert_eq!((opened.epoch, opened.tail_epoch), (2, 1));
    // What was replayed is given up all at once.
    let same = opened.checkpoint(7, 10, settings(5));
    assert_eq!((same.tail, same.tail_epoch, same.head), (4, 1, 10));
    let moved = same.checkpoint(9, 10, settings(5));
    assert_eq!((moved.tail, moved.tail_epoch), (9, 2));
    assert_eq!(moved.checkpoint(8, 10, settings(5)).tail, 9);
    let closed = moved.close(10, 10, settings(5));
    assert_eq!((closed.tail, closed.head, closed.clean), (10, 10, true));
    assert!(!closed.open(10).clean);
}

#[test]
fn slot_maps() {
    let mut words = vec![0; 2];
    let mut map = SlotMapMut::new(&mut words);
    map.set(0, 1);
    map.set_condition(0, Condition::Offline);
    map.set(15, 0);
    map.set_condition(15, Condition::ReadOnly);
    map.set(16, 1);
    map.set(16, 0);
    map.set_condition(17, Condition::Offline);
    map.set_condition(17, Condition::ReadOnly);
    map.set(32, 1);
    map.set_condition(32, Condition::Offline);
    map.set(u64::MAX, 1);
    map.set_condition(u64::MAX, Condition::Offline);
    assert_eq!(map.as_map().checkpointed(), 3);
    assert_eq!(words, [0b1010 | 0b0101 << 60, 0b0100_0001]);
    let map = SlotMap::new(&words);
    assert_eq!(
        [0, 1, 15, 16, 32, u64::MAX].map(|zone| map.get(zone)),
        [Some(1), None, Some(0), Some(0), None, None]
    );
    assert_eq!(
        [0, 1, 15, 16, 17, 32, u64::MAX].map(|zone| map.condition(zone).number()),
        [2, 0, 1, 0, 1, 0, 0]
    );
}

#[test]
fn a_large_map() {
    let zones = 5 * 16_384 + 1;
    let superblock = Superblock::new(&Geometry::DEFAULT, zones, settings(2), UUID);
    let layout = superblock.layout().unwrap();
    assert_eq!(layout.superblock_blocks(), 1 + 11);
    let mut words = vec![0; layout.map_words()];
    for zone in (0..zones).step_by(7).chain([zones - 1]) {
        SlotMapMut::new(&mut words).set(zone, zone % 2);
        SlotMapMut::new(&mut words).set_condition(zone, Condition::ReadOnly);
    }
    let bytes = encode(&superblock, &words);
    let mut decoded = vec![0; layout.map_words()];
    assert_eq!(Superblock::decode(&bytes, &mut decoded), Ok(superblock),);
    assert_eq!(decoded, words);
    let mut block: Block = [0; 4096];
    for (expected, index) in bytes.chunks(4096).zip(0..) {
        superblock.encode_block(&words, index, &mut block);
        assert_eq!(block, expected);
    }
}

#[test]
fn a_flipped_bit_of_a_slot_is_noticed() {
    let geometry = Geometry::new(6, 8, 4).unwrap();
    let (table, mapped) = ((0..56).rev().collect::<Vec<u16>>(), [0xff_ffff_ffff]);
    let mut block = [0; 4096];
    let header = SlotHeader {
        zone: 2,
        generation: 5,
        position: Position {
            sequence: 9,
            index: 3,
        },
        stats: stats(4),
        mapped: 40,
        body_crc: slot::body_crc(&geometry, &table, &mapped, &mut block),
    };
    slot::encode_body(&geometry, &table, &mapped, 0, &mut block);
    flip_each_bit(&mut block, |bytes| {
        Crc::new().update(bytes).value() != header.body_crc
    });
    header.encode(&UUID, &geometry, &mut block);
    assert!(block[512..].iter().all(|byte| *byte == 0), "one sector");
    let decode =
        |bytes: &[u8], zone| SlotHeader::decode(bytes.try_into().unwrap(), &UUID, &geometry, zone);
    assert_eq!(decode(&block, 1), Err(Refusal::ZoneDamaged));
    flip_each_bit(&mut block, |bytes| decode(bytes, 2) != Ok(header));
    let changed = |at: usize, value: u8| {
        let mut block = block;
        block[at] = value;
        let crc = Crc::new().update(&block[..508]).update(&block[512..]);
        block[508..512].copy_from_slice(&crc.value().to_le_bytes());
        decode(&block, 2)
    };
    assert_eq!(changed(8, 3), Err(Refusal::UnknownVersion));
    assert_eq!(changed(16, 0), Err(Refusal::ZoneDamaged));
    assert_eq!(changed(64, 1), Err(Refusal::BadTable));
    assert_eq!(changed(68, 60), Err(Refusal::BadTable));
    assert_eq!(changed(71, 0x80), Err(Refusal::BadTable));
    // More counters than are known here.
    assert_eq!(changed(68, 54), Ok(header));
}

#[test]
fn ring_arithmetic() {
    let ring = Ring::new(8, 100);
    assert_eq!((ring.place_of(17), ring.sector_of(17)), (1, 116));
    assert_eq!((ring.contiguous(16), ring.contiguous(23)), (8, 1));
    assert_eq!((ring.used(5, 9), ring.free(5, 9)), (4, 4));
    assert!(ring.should_checkpoint(5, 9) && !ring.should_checkpoint(5, 8));
    assert_eq!(
        [5, 6, 7, 8].map(|head| ring.grant(0, head, 2)),
        [1, 0, 0, 0]
    );
    assert_eq!(ring.grant(0, 1, 2), 2);
    assert!(ring.must_checkpoint(0, 6) && !ring.must_checkpoint(0, 5));
    assert_eq!(ring.free(0, 9), 0);
    assert_eq!(Ring::new(0, 0).entries(), 1);
}

#[test]
fn refusals_are_sentences_for_people() {
    for refusal in Refusal::ALL {
        let text = refusal.text();
        assert_eq!(refusal.to_string(), text);
        assert!(text.starts_with("the ") || text.starts_with("both ") || text.starts_with("a "));
        assert!(
            !text.ends_with('.') && !text.contains("  ") && !text.contains('\n'),
            "{text}"
        );
        assert!(text.contains("imrsim_util"), "{text}");
        assert_eq!(format!("{refusal:?}"), refusal.name());
    }
    assert_eq!(UUID.to_string(), "30313233-3435-3637-3839-616263646566");
}

fn geometries() -> impl Strategy<Value = Geometry> {
    let any = (1_u32..40, 0_u32..40, 1_u32..12)
        .prop_map(|(top, more, groups)| Geometry::new(top, top + more, groups).unwrap());
    prop_oneof![9 => any, 1 => Just(Geometry::DEFAULT)]
}

proptest! {
    #[test]
    fn superblocks(
        geometry in geometries(), zones in 0_u64..100_000, phases in 1_u32..=64, uuid: [u8; 16],
        numbers: [u32; 6], clean: bool, creator: [u8; 16], chosen: Vec<(u64, bool)>,
    ) {
        let [sequence, epoch, tail_epoch, tail, opened_at, created] = numbers.map(u64::from);
        let mut superblock = Superblock::new(&geometry, zones, settings(phases), Uuid(uuid));
        let entries = superblock.journal_entries;
        superblock = Superblock {
            sequence, clean, created, creator, tail,
            epoch: epoch.max(tail_epoch), tail_epoch,
            head: tail + sequence % (entries + 1),
            opened_at: opened_at % (tail + 1),
            compatible: created,
            ..superblock
        };
        let layout = superblock.layout().unwrap();
        let mut map = vec![0; layout.map_words()];
        for (zone, slot) in chosen {
            if zones > 0 {
                SlotMapMut::new(&mut map).set(zone % zones, slot.into());
            }
        }
        let mut bytes = vec![1; layout.superblock_bytes()];
        superblock.encode(&map, &mut bytes);
        let mut decoded = vec![7; map.len()];
        prop_assert_eq!(Superblock::decode(&bytes, &mut decoded), Ok(superblock));
        prop_assert_eq!(decoded, map);
    }

    #[test]
    fn slots(geometry in geometries(), seed: u64, values: [u64; Stats::INDICATORS.len()]) {
        let mut chance = seed | 1;
        let mut next = || {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            chance
        };
        let blocks = geometry.zone_blocks();
        let table: Vec<u16> = (0..blocks).map(|_| next() as u16).collect();
        let mut mapped: Vec<u64> = (0..blocks.div_ceil(64)).map(|_| next()).collect();
        if blocks % 64 != 0 {
            *mapped.last_mut().unwrap() &= (1 << (blocks % 64)) - 1;
        }
        let header = SlotHeader {
            zone: next(),
            generation: next(),
            position: Position { sequence: next(), index: next() as u16 },
            stats: Stats::from_values(values),
            mapped: next() as u32,
            body_crc: next() as u32,
        };
        let mut block = [1; 4096];
        header.encode(&UUID, &geometry, &mut block);
        prop_assert_eq!(SlotHeader::decode(&block, &UUID, &geometry, header.zone), Ok(header));

        let (mut table_out, mut mapped_out) = (vec![9; Zone::table_len(&geometry)], vec![9; mapped.len()]);
        let mut crc = Crc::new();
        let mut bytes = Vec::new();
        for index in 0..slot::body_blocks(&geometry) {
            slot::encode_body(&geometry, &table, &mapped, index, &mut block);
            crc = crc.update(&block);
            bytes.extend(block);
            slot::decode_body(&geometry, &mut table_out, &mut mapped_out, index, &block);
        }
        prop_assert_eq!(crc.value(), slot::body_crc(&geometry, &table, &mapped, &mut block));
        prop_assert_eq!(&mapped_out, &mapped);
        let is_mapped = |bo: usize| (mapped[bo / 64] >> (bo % 64)) & 1 == 1;
        for (bo, (found, original)) in table_out.iter().zip(&table).enumerate() {
            prop_assert_eq!(*found, if is_mapped(bo) { *original } else { 0 });
            // As documented.
            prop_assert_eq!(*found, u16::from_le_bytes(bytes[2 * bo..2 * bo + 2].try_into().unwrap()));
        }
        let at = (2 * blocks as usize).next_multiple_of(8);
        for (word, bytes) in mapped.iter().zip(bytes[at..].chunks(8)) {
            prop_assert_eq!(*word, u64::from_le_bytes(bytes.try_into().unwrap()));
        }
        prop_assert!(bytes[at + 8 * mapped.len()..].iter().all(|byte| *byte == 0));
    }
}
