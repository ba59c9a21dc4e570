// SPDX-License-Identifier: GPL-2.0-only

//! Entries of the journal and their records: what is encoded can be decoded, no flipped bit goes
//! unnoticed, and what is unknown is treated as it should be.

mod image;

use image::{
    entry,
    flip_each_bit,
    record,
    stats,
    UUID, //
};
use imrsim_core::{
    ondisk::{
        Block,
        Crc,
        Entry,
        EntryBuilder,
        EntryError,
        Record,
        Refusal,
        Uuid, //
    },
    Bo,
    Nbo,
    Settings,
    Stats, //
};
use proptest::prelude::*;

#[test]
fn a_flipped_bit_of_an_entry_is_noticed() {
    let mut block = entry(3, 17, 16, &[record(1), record(2)]);
    flip_each_bit(&mut *block, |bytes| {
        Entry::decode(bytes.try_into().unwrap(), &UUID).is_err()
    });
    let other = Uuid(*b"0123456789abcdeg");
    assert_eq!(
        Entry::decode(&block, &other).err(),
        Some(EntryError::Invalid)
    );
}

#[test]
fn the_uuid_is_also_in_the_header() {
    let mut block = entry(3, 17, 16, &[record(1)]);
    block[20] ^= 1;
    let crc = Crc::new().update(&UUID.0).update(&block[..508]).value();
    block[508..512].copy_from_slice(&crc.to_le_bytes());
    assert!(Entry::decode(&block, &UUID).is_err());
}

#[test]
fn sectors_of_different_entries_do_not_mix() {
    let one = entry(3, 17, 17, &[record(1)]);
    for other in [
        entry(3, 25, 25, &[record(1)]),
        entry(4, 17, 17, &[record(1)]),
    ] {
        for sectors in 1..8 {
            let mut mixed = one.clone();
            mixed[sectors * 512..].copy_from_slice(&other[sectors * 512..]);
            assert!(Entry::decode(&mixed, &UUID).is_err());
        }
    }
    let mut swapped = one.clone();
    swapped.copy_within(1024..1536, 1536);
    assert!(Entry::decode(&swapped, &UUID).is_err());
}

#[test]
fn an_entry_is_full_when_it_is() {
    let mut block = [0; 4096];
    let mut builder = EntryBuilder::new(&mut block);
    assert!(builder.is_empty());
    let mut count = 0;
    while builder.push(&record(count)) {
        count += 1;
    }
    // 27 in the first sector and 30 in each of the others.
    assert_eq!((count, builder.records()), (237, 237));
    assert!(!builder.push(&record(0)));
    builder.seal(&UUID, 1, 2, 2);
    let entry = Entry::decode(&block, &UUID).unwrap();
    let records: Result<Vec<Record>, Refusal> = entry.records().collect();
    assert_eq!(records.unwrap(), (0..237).map(record).collect::<Vec<_>>());

    let mut builder = EntryBuilder::new(&mut block);
    let counters = Record::Statistics {
        zone: 1,
        stats: stats(1),
    };
    let mut count = 0;
    while builder.push(&counters) {
        count += 1;
    }
    assert_eq!(count, EntryBuilder::MIN_RECORDS);
    // A record may end where a sector's do.
    let mut builder = EntryBuilder::new(&mut block);
    while builder.push(&Record::Config {
        settings: Settings::DEFAULT,
    }) {}
    assert_eq!(builder.records(), 440 / 24 + 7 * (488 / 24));
}

#[test]
fn records_that_no_zone_has_are_not_written() {
    let mut block = [0; 4096];
    let mut builder = EntryBuilder::new(&mut block);
    let map = |bo, nbo, blocks| Record::Map {
        zone: 0,
        bo: Bo(bo),
        nbo: Nbo(nbo),
        blocks,
    };
    for bad in [
        map(0, 0, 0),
        map(0, 0, 65_537),
        map(65_535, 0, 2),
        map(0, 65_535, 2),
        map(65_536, 0, 1),
        map(0, u32::MAX, 1),
        Record::Unmap {
            zone: 0,
            bo: Bo(1),
            blocks: 65_536,
        },
        Record::Skipped { kind: 0x99 },
    ] {
        assert!(!builder.push(&bad), "{bad:?}");
    }
    assert!(builder.is_empty());
    assert!(builder.push(&map(0, 0, 65_536)));
    assert!(builder.push(&map(65_535, 65_535, 1)));
}

/// An entry whose first record is these bytes, with right checksums, said to have so many records.
fn with_bytes(bytes: &[u8], records: u16) -> Box<Block> {
    let mut block = entry(1, 2, 2, &[]);
    block[12..14].copy_from_slice(&records.to_le_bytes());
    block[48..48 + bytes.len()].copy_from_slice(bytes);
    let crc = Crc::new().update(&UUID.0).update(&block[..508]).value();
    block[508..512].copy_from_slice(&crc.to_le_bytes());
    block
}

fn decode(block: &Block) -> Result<Vec<Record>, Refusal> {
    Entry::decode(block, &UUID).unwrap().records().collect()
}

#[test]
fn records_of_other_versions() {
    // Of unknown types one may be skipped and the other not.
    let skipped = Record::Skipped { kind: 0xfe };
    assert_eq!(
        decode(&with_bytes(&[0xfe, 2, 9, 9, 9, 9, 9, 9], 1)),
        Ok(vec![skipped])
    );
    assert_eq!(
        decode(&with_bytes(&[0x7e, 2, 9, 9, 9, 9, 9, 9], 1)),
        Err(Refusal::UnknownRecord)
    );
    // Fewer counters, and more.
    for (counters, known) in [(1, 1), (40, Stats::INDICATORS.len())] {
        let mut bytes = vec![0x81, (4 + 2 * counters) as u8, 0, 0, 0, 0, 0, 0];
        bytes.extend(5_u64.to_le_bytes());
        (0..counters as u64).for_each(|i| bytes.extend((i + 1).to_le_bytes()));
        let records = decode(&with_bytes(&bytes, 1)).unwrap();
        let [Record::Statistics { zone: 5, stats }] = records[..] else {
            panic!("{records:?}");
        };
        let values = stats.values();
        assert!((1..).zip(&values[..known]).all(|(i, value)| i == *value));
        assert!(values[known..].iter().all(|value| *value == 0));
    }
}

#[test]
fn records_that_make_no_sense() {
    for bytes in [
        &[1, 0][..],
        &[1, 3, 0, 0],
        &[1, 5, 0, 0],
        &[2, 3],
        &[3, 5],
        &[4, 1],
        &[0x81, 3],
        &[0xff, 0],
        &[1, 255],
        &[0, 0, 1],
    ] {
        assert_eq!(
            decode(&with_bytes(bytes, 1)),
            Err(Refusal::BadRecord),
            "{bytes:?}"
        );
    }
    // The number of records is wrong.
    let good = [
        4, 6, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(
        decode(&with_bytes(&good, 1)),
        Ok(vec![Record::Config {
            settings: Settings::from_values([3, 1, 512, 1, 0]).unwrap()
        }])
    );
    for records in [0, 2] {
        assert_eq!(decode(&with_bytes(&good, records)), Err(Refusal::BadRecord));
    }
    // The iterator ends with the error.
    let block = with_bytes(&[1, 0], 1);
    assert_eq!(Entry::decode(&block, &UUID).unwrap().records().count(), 1);
    // A newer version of the entry.
    let mut block = entry(1, 2, 2, &[]);
    block[8] = 3;
    let crc = Crc::new().update(&UUID.0).update(&block[..508]).value();
    block[508..512].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(
        Entry::decode(&block, &UUID).err(),
        Some(EntryError::Refused(Refusal::UnknownVersion))
    );
}

fn records() -> impl Strategy<Value = Record> {
    let blocks = || (0_u32..65_536, 1_u32..=65_536).prop_map(|(at, n)| (at, n.min(65_536 - at)));
    prop_oneof![
        (any::<u64>(), blocks(), any::<u16>()).prop_map(|(zone, (bo, blocks), nbo)| {
            Record::Map {
                zone,
                bo: Bo(bo),
                nbo: Nbo(u32::from(nbo).min(65_536 - blocks)),
                blocks,
            }
        }),
        (any::<u64>(), blocks()).prop_map(|(zone, (bo, blocks))| Record::Unmap {
            zone,
            bo: Bo(bo),
            blocks
        }),
        any::<u64>().prop_map(|zone| Record::ResetZone { zone }),
        (1_u32..=64, 0_u32..=10_000_000, any::<[bool; 2]>()).prop_map(
            |(phases, delay, switches)| {
                let [log, measure] = switches.map(u32::from);
                let values = [phases, delay, 10_000_000 - delay, log, measure];
                Record::Config {
                    settings: Settings::from_values(values).unwrap(),
                }
            }
        ),
        (any::<u64>(), any::<[u64; Stats::INDICATORS.len()]>()).prop_map(|(zone, values)| {
            Record::Statistics {
                zone,
                stats: Stats::from_values(values),
            }
        }),
    ]
}

proptest! {
    #[test]
    fn entries(
        uuid: [u8; 16], epoch: u64, sequence: u64, batch: u64,
        records in prop::collection::vec(records(), 0..300),
    ) {
        let uuid = Uuid(uuid);
        let mut block = [1; 4096];
        let mut builder = EntryBuilder::new(&mut block);
        let fitting = records.iter().take_while(|record| builder.push(record)).count();
        prop_assert!(fitting == records.len() || fitting >= EntryBuilder::MIN_RECORDS);
        builder.seal(&uuid, epoch, sequence, batch);
        let entry = Entry::decode(&block, &uuid).unwrap();
        prop_assert_eq!(
            (entry.epoch(), entry.sequence(), entry.batch_start(), usize::from(entry.len())),
            (epoch, sequence, batch, fitting)
        );
        let decoded: Result<Vec<Record>, Refusal> = entry.records().collect();
        prop_assert_eq!(decoded.unwrap(), &records[..fitting]);
    }
}
