// SPDX-License-Identifier: GPL-2.0-only

//! How a zone comes back: which slot is taken, what a table may be, what records do to it.

mod common;
mod image;

use common::{
    phases,
    whole,
    Memory, //
};
use image::{
    geometry,
    settings,
    stats,
    superblock,
    Image, //
};
use imrsim_core::{
    ondisk::{
        load_zone,
        Crc,
        LoadError,
        LoadedZone,
        Position,
        Record,
        Refusal,
        Superblock, //
    },
    Bo,
    Busy,
    Geometry,
    Nbo,
    Settings,
    Step,
    ZoneError, //
};
use proptest::prelude::*;

const fn at(sequence: u64) -> Position {
    Position { sequence, index: 1 }
}

/// A superblock with tail 5.
fn tail_5() -> Superblock {
    superblock().open(0).checkpoint(5, 6, settings(2))
}

/// The table of a slot: `generation` blocks, from the end of the zone backwards.
fn table(generation: u64) -> (Vec<u16>, Vec<u64>) {
    let table = (0..56).map(|bo| 55 - bo).collect();
    (table, vec![(1 << generation) - 1])
}

fn put(image: &mut Image, slot: u64, generation: u64, sequence: u64) {
    let (table, mapped) = table(generation);
    image.put_slot(slot, 1, generation, at(sequence), &table, &mapped);
}

/// Loads zone 1, whose slot that counts is slot `counts`, and says which slot that is afterwards.
fn load(
    image: &mut Image,
    counts: u64,
    memory: &mut Memory,
) -> (Result<Option<LoadedZone>, LoadError<u64>>, u64) {
    let layout = image.layout;
    let mut map = [(counts + 1) << 4];
    let result = load_zone(
        image,
        &tail_5(),
        &layout,
        &mut map,
        1,
        &mut [0; 4096],
        memory.zone().memory(),
    );
    (result, (map[0] >> 4) - 1)
}

/// Loads zone 1 and checks that it is this generation.
#[track_caller]
fn loads(image: &mut Image, counts: u64, generation: u64, fallback: bool) {
    let mut memory = Memory::new(geometry());
    let (result, now_counts) = load(image, counts, &mut memory);
    let loaded = result.unwrap().unwrap();
    assert_eq!(loaded.header.generation, generation);
    assert_eq!(loaded.header.stats, stats(generation));
    assert_eq!((loaded.fallback, loaded.slot), (fallback, now_counts));
    memory.zone().load().unwrap();
    assert_eq!(u64::from(memory.zone().mapped_blocks()), generation);
    assert_eq!(memory.zone().lookup(Bo(0)), Some(Nbo(55)));
}

#[track_caller]
fn refused(image: &mut Image, counts: u64, refusal: Refusal) {
    let (result, _) = load(image, counts, &mut Memory::new(geometry()));
    assert_eq!(result, Err(LoadError::Refused(refusal)));
}

/// Flips a bit in a slot's header (block 0) or body (block 1).
fn damage(image: &mut Image, slot: u64, block: u64) {
    let sector = image.layout.slot(1, slot).unwrap() + 8 * block;
    image.at(sector)[75] ^= 1;
}

#[test]
fn a_zone_that_was_never_checkpointed() {
    let mut image = Image::formatted();
    put(&mut image, 0, 3, 5);
    let layout = image.layout;
    let mut memory = Memory::new(geometry());
    let result = load_zone(
        &mut image,
        &tail_5(),
        &layout,
        &mut [0x201],
        1,
        &mut [0; 4096],
        memory.zone().memory(),
    );
    assert_eq!(result, Ok(None));
    assert_eq!(memory.table, Memory::new(geometry()).table);
}

#[test]
fn the_slot_that_counts() {
    for counts in 0..2 {
        // However old: nothing happened to the zone since.
        let mut image = Image::formatted();
        put(&mut image, counts, 3, 1);
        loads(&mut image, counts, 3, false);
        put(&mut image, 1 - counts, 2, 0);
        loads(&mut image, counts, 3, false);
        // A checkpoint that was not completed.
        for block in 0..2 {
            put(&mut image, 1 - counts, 4, 6);
            damage(&mut image, 1 - counts, block);
            loads(&mut image, counts, 3, false);
        }
    }
}

#[test]
fn a_newer_slot_than_the_one_that_counts() {
    for counts in 0..2 {
        let mut image = Image::formatted();
        put(&mut image, counts, 3, 1);
        put(&mut image, 1 - counts, 4, 2);
        loads(&mut image, counts, 4, false);
        // The body of the one that counts does not matter, but its header has to show that it is
        // older, or the tail.
        damage(&mut image, counts, 1);
        loads(&mut image, counts, 4, false);
        damage(&mut image, counts, 0);
        refused(&mut image, counts, Refusal::ZoneDamaged);
        put(&mut image, 1 - counts, 4, 5);
        loads(&mut image, counts, 4, true);
    }
}

#[test]
fn an_older_slot_is_enough_if_the_journal_has_the_rest() {
    for counts in 0..2 {
        for block in 0..2 {
            let mut image = Image::formatted();
            put(&mut image, counts, 3, 6);
            damage(&mut image, counts, block);
            put(&mut image, 1 - counts, 2, 5);
            loads(&mut image, counts, 2, true);
            put(&mut image, 1 - counts, 2, 4);
            refused(&mut image, counts, Refusal::ZoneDamaged);
        }
        // It cannot be read.
        for block in [0, 8] {
            let mut image = Image::formatted();
            put(&mut image, counts, 3, 6);
            let sector = image.layout.slot(1, counts).unwrap() + block;
            image.bad.push(sector);
            let (result, _) = load(&mut image, counts, &mut Memory::new(geometry()));
            assert_eq!(result, Err(LoadError::Io(sector)));
            put(&mut image, 1 - counts, 2, 5);
            loads(&mut image, counts, 2, true);
        }
    }
}

#[test]
fn slots_that_cannot_be() {
    let mut image = Image::formatted();
    refused(&mut image, 0, Refusal::ZoneDamaged);
    put(&mut image, 0, 3, 6);
    put(&mut image, 1, 3, 6);
    refused(&mut image, 0, Refusal::BadTable);
    // Those of another zone.
    let (table, mapped) = table(3);
    for slot in 0..2 {
        image.put_slot(slot, 2, 3, at(6), &table, &mapped);
        let from = image.layout.slot(2, slot).unwrap();
        let bytes = image.at(from)[..8192].to_vec();
        let to = image.layout.slot(1, slot).unwrap();
        image.write(to, &bytes);
    }
    refused(&mut image, 0, Refusal::ZoneDamaged);
}

#[test]
fn a_slot_that_does_not_count_right() {
    let mut image = Image::formatted();
    put(&mut image, 0, 3, 6);
    let sector = image.layout.slot(1, 0).unwrap();
    let block = &mut image.at(sector)[..4096];
    block[12] = 4;
    let crc = Crc::new().update(&block[..508]).update(&block[512..]);
    block[508..512].copy_from_slice(&crc.value().to_le_bytes());
    refused(&mut image, 0, Refusal::BadTable);
}

#[test]
fn a_slot_with_records_that_the_journal_has_not() {
    let mut image = Image::formatted();
    put(&mut image, 0, 3, 6);
    let (result, _) = load(&mut image, 0, &mut Memory::new(geometry()));
    let loaded = result.unwrap().unwrap();
    assert_eq!(loaded.check(6), Err(Refusal::JournalDamaged));
    assert_eq!(loaded.check(7), Ok(()));
    put(&mut image, 0, 3, 6);
    let exact = LoadedZone {
        header: imrsim_core::ondisk::SlotHeader {
            position: Position::start_of(6),
            ..loaded.header
        },
        ..loaded
    };
    assert_eq!(exact.check(6), Ok(()));
    assert_eq!(exact.check(5), Err(Refusal::JournalDamaged));
}

/// What a zone is to its users.
fn contents(memory: &mut Memory) -> (Vec<Option<Nbo>>, Vec<bool>, [u32; 3]) {
    let zone = memory.zone();
    let blocks = 0..zone.geometry().zone_blocks();
    (
        blocks.clone().map(|bo| zone.lookup(Bo(bo))).collect(),
        blocks.map(|nbo| zone.is_used(Nbo(nbo))).collect(),
        [
            zone.mapped_blocks(),
            zone.used_tops(),
            zone.writes_in_flight(),
        ],
    )
}

#[test]
fn a_loaded_zone_goes_on_like_the_old_one() {
    for geometry in [
        Geometry::new(6, 8, 4).unwrap(),
        Geometry::new(70, 130, 3).unwrap(),
        Geometry::new(1, 1, 1).unwrap(),
        Geometry::DEFAULT,
    ] {
        let mut old = Memory::new(geometry);
        let blocks = geometry.zone_blocks();
        for (bo, k) in (0..blocks).step_by(7).zip([2, 3, 1, 4].into_iter().cycle()) {
            old.write(bo, 3.min(blocks - bo), phases(k));
        }
        let mut new = Memory::new(geometry);
        {
            let zone = old.zone();
            let mut other = new.zone();
            let memory = other.memory();
            memory.table.copy_from_slice(zone.table());
            memory.mapped.copy_from_slice(zone.mapped_words());
            other.load().unwrap();
        }
        assert_eq!(contents(&mut new), contents(&mut old));
        for (bo, k) in (0..blocks.min(3000)).zip([2, 3, 1, 4].into_iter().cycle()) {
            let plans = old.write(bo, 1, phases(k));
            assert_eq!(new.write(bo, 1, phases(k)), plans);
        }
        assert_eq!(contents(&mut new), contents(&mut old));
    }
}

#[test]
fn tables_that_are_not_loaded() {
    let load = |change: &dyn Fn(&mut Memory)| {
        let mut memory = Memory::new(geometry());
        memory.write(0, 40, phases(2));
        change(&mut memory);
        memory.zone().load()
    };
    assert_eq!(load(&|_| ()), Ok(()));
    assert_eq!(
        load(&|memory| memory.table[3] = memory.table[4]),
        Err(ZoneError::NotInjective)
    );
    // In the last word, and behind it.
    for nbo in [56, 64, u16::MAX] {
        assert_eq!(
            load(&|memory| memory.table[3] = nbo),
            Err(ZoneError::OutOfRange)
        );
    }
    assert_eq!(
        load(&|memory| memory.bits[0] |= 1 << 56),
        Err(ZoneError::OutOfRange)
    );
    // Entries of blocks that are not mapped mean nothing.
    assert_eq!(load(&|memory| memory.table[50] = u16::MAX), Ok(()));
    assert_eq!(
        load(&|memory| {
            memory.begin(0, 1, phases(2));
        }),
        Err(ZoneError::Busy)
    );
    for error in [
        ZoneError::NotInjective,
        ZoneError::OutOfRange,
        ZoneError::Conflict,
        ZoneError::Busy,
    ] {
        assert_eq!(error.of_table(), Refusal::BadTable);
        assert!(!error.to_string().is_empty());
    }
}

/// What loading must find, block by block: the physical blocks in use, or that the table is none.
fn by_the_block(memory: &Memory) -> Option<Vec<bool>> {
    let blocks = memory.geometry.zone_blocks() as usize;
    let mut used = vec![false; blocks];
    for bo in 0..blocks.next_multiple_of(64) {
        if (memory.bits[bo / 64] >> (bo % 64)) & 1 == 0 {
            continue;
        }
        let place = used.get_mut(usize::from(*memory.table.get(bo)?))?;
        if *place {
            return None;
        }
        *place = true;
    }
    Some(used)
}

proptest! {
    #[test]
    fn tables_are_checked_as_a_whole_and_by_the_block(
        geometry in prop::sample::select(vec![(6, 8, 4), (64, 64, 2), (70, 130, 3), (1, 1, 1), (20, 44, 1)]),
        order in prop_oneof![Just(None), any::<u64>().prop_map(Some)],
        backwards: bool,
        turn in prop_oneof![Just(0), 0..600_usize],
        words in prop::collection::vec(prop_oneof![3 => Just(u64::MAX), 1 => Just(0), 2 => any::<u64>()], 10),
        changes in prop::collection::vec((any::<u16>(), any::<u16>(), 0..4_u8), 0..3),
    ) {
        let (top, bottom, groups) = geometry;
        let geometry = Geometry::new(top, bottom, groups).unwrap();
        let mut memory = Memory::new(geometry);
        let blocks = memory.table.len();
        // Forwards or backwards from some block on, or each as often as any other.
        for (bo, entry) in memory.table.iter_mut().enumerate() {
            *entry = if backwards { blocks - 1 - bo } else { bo } as u16;
        }
        memory.table.rotate_left(turn % blocks);
        let mut state = order;
        for bo in (1..blocks).rev() {
            let Some(state) = &mut state else { break };
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            memory.table.swap(bo, (*state >> 33) as usize % (bo + 1));
        }
        for (at, word) in (0..blocks).step_by(64).zip(&words) {
            let in_zone = u64::MAX.checked_shr(64_u32.saturating_sub((blocks - at) as u32)).unwrap_or(0);
            memory.bits[at / 64] = word & in_zone;
        }
        for (bo, value, kind) in changes {
            let at = usize::from(bo) % blocks;
            match kind {
                // Another's place, or one behind the zone, near or far.
                0 => memory.table[at] = memory.table[usize::from(value) % blocks],
                1 => memory.table[at] = (blocks + usize::from(value % 66)) as u16,
                2 => memory.table[at] = value,
                // One behind the zone's end, if the last word has any.
                _ => memory.bits[blocks.div_ceil(64) - 1] |= 1 << 63,
            }
        }
        let expected = by_the_block(&memory);
        let loaded = memory.zone().load();
        prop_assert_eq!(loaded.is_ok(), expected.is_some(), "{:?}", loaded);
        if let Some(expected) = expected {
            let zone = memory.zone();
            let used: Vec<bool> = (0..geometry.zone_blocks()).map(|nbo| zone.is_used(Nbo(nbo))).collect();
            prop_assert_eq!(zone.mapped_blocks() as usize, used.iter().filter(|it| **it).count());
            let tops = (0..geometry.zone_blocks()).filter(|nbo| geometry.top_number(Nbo(*nbo)).is_some());
            prop_assert_eq!(zone.used_tops() as usize, tops.filter(|nbo| used[*nbo as usize]).count());
            prop_assert_eq!(used, expected);
        }
    }
}

#[test]
fn nothing_of_an_earlier_table_stays() {
    let mut memory = Memory::new(geometry());
    memory.write(0, 40, phases(2));
    memory.zone().memory().mapped.fill(0);
    memory.zone().load().unwrap();
    assert_eq!(
        contents(&mut memory),
        contents(&mut Memory::new(geometry()))
    );
    // The first place in the order of the allocation.
    assert_eq!(memory.write(9, 1, phases(2))[0].nbo, Nbo(6));
}

fn map(bo: u32, nbo: u32, blocks: u32) -> Record {
    Record::Map {
        zone: 0,
        bo: Bo(bo),
        nbo: Nbo(nbo),
        blocks,
    }
}

#[test]
fn records_are_replayed() {
    let mut memory = Memory::new(geometry());
    let mut zone = memory.zone();
    zone.replay(&map(10, 4, 5)).unwrap();
    assert_eq!((zone.mapped_blocks(), zone.used_tops()), (5, 2));
    assert_eq!(zone.lookup(Bo(14)), Some(Nbo(8)));
    assert!(zone.is_used(Nbo(4)) && zone.is_used(Nbo(8)) && !zone.is_used(Nbo(9)));
    // Once more, and more of it.
    zone.replay(&map(10, 4, 5)).unwrap();
    zone.replay(&map(9, 3, 7)).unwrap();
    assert_eq!((zone.mapped_blocks(), zone.used_tops()), (7, 3));
    let unmap = Record::Unmap {
        zone: 0,
        bo: Bo(11),
        blocks: 40,
    };
    zone.replay(&unmap).unwrap();
    zone.replay(&unmap).unwrap();
    assert_eq!((zone.mapped_blocks(), zone.used_tops()), (2, 2));
    assert_eq!(zone.lookup(Bo(11)), None);
    zone.replay(&map(30, 5, 1)).unwrap();
    for record in [
        Record::Config {
            settings: Settings::DEFAULT,
        },
        Record::Skipped { kind: 0x99 },
        Record::Statistics {
            zone: 0,
            stats: stats(1),
        },
    ] {
        zone.replay(&record).unwrap();
        assert_eq!(zone.mapped_blocks(), 3);
    }
    zone.replay(&Record::ResetZone { zone: 0 }).unwrap();
    assert_eq!((zone.mapped_blocks(), zone.used_tops()), (0, 0));
    assert_eq!(
        contents(&mut memory),
        contents(&mut Memory::new(geometry()))
    );
}

#[test]
fn records_that_do_not_fit() {
    let mut memory = Memory::new(geometry());
    let mut zone = memory.zone();
    zone.replay(&map(10, 4, 5)).unwrap();
    for (record, error) in [
        // Mapped elsewhere; in use.
        (map(10, 20, 1), ZoneError::Conflict),
        (map(20, 8, 1), ZoneError::Conflict),
        (map(8, 3, 3), ZoneError::Conflict),
        (map(0, 0, 57), ZoneError::OutOfRange),
        (map(55, 0, 2), ZoneError::OutOfRange),
        (map(0, 55, 2), ZoneError::OutOfRange),
        (map(0, 0, 0), ZoneError::OutOfRange),
        (map(u32::MAX, 0, 2), ZoneError::OutOfRange),
        (
            Record::Unmap {
                zone: 0,
                bo: Bo(50),
                blocks: 7,
            },
            ZoneError::OutOfRange,
        ),
    ] {
        assert_eq!(zone.replay(&record), Err(error), "{record:?}");
    }
    assert_eq!(ZoneError::Conflict.of_record(), Refusal::RecordConflict);
    assert_eq!(ZoneError::OutOfRange.of_record(), Refusal::BadRecord);
}

#[test]
fn unmapped_blocks_are_free_again() {
    let mut memory = Memory::new(geometry());
    memory.write(0, 56, phases(2));
    let mut zone = memory.zone();
    assert_eq!(zone.used_tops(), 24);
    // Bottom blocks, then top blocks, then those of before once more.
    assert_eq!(zone.unmap(Bo(3), 4), Ok(4));
    assert_eq!(zone.unmap(Bo(40), 2), Ok(2));
    assert_eq!(zone.unmap(Bo(3), 1), Ok(0));
    assert_eq!((zone.mapped_blocks(), zone.used_tops()), (50, 22));
    assert_eq!(zone.lookup(Bo(3)), None);
    // The first free blocks in the order of the allocation are taken.
    let plans = memory.write(40, 2, phases(2));
    assert_eq!((plans[0].nbo, plans[0].blocks), (Nbo(9), 2));
    let plans = memory.write(3, 4, phases(2));
    assert_eq!((plans[0].nbo, plans[0].blocks), (Nbo(11), 2));
    assert_eq!((plans[1].nbo, plans[1].blocks), (Nbo(16), 2));
}

#[test]
fn all_of_a_zone_and_more() {
    let mut memory = Memory::new(geometry());
    memory.write(0, 56, phases(3));
    assert_eq!(memory.zone().unmap(Bo(0), u32::MAX), Ok(56));
    assert_eq!(memory.zone().unmap(Bo(u32::MAX), 3), Ok(0));
    assert_eq!(
        contents(&mut memory),
        contents(&mut Memory::new(geometry()))
    );
}

#[test]
fn blocks_in_flight_are_not_unmapped() {
    let mut memory = Memory::new(geometry());
    memory.write(0, 33, phases(2)); // all bottom blocks, and top block 0
    let first = memory.begin(40, 1, phases(2)); // to top block 1
    let rewrite = memory.begin(0, 1, phases(2)); // rewrites top block 0
    assert!(rewrite.is_rmw());
    let before = contents(&mut memory);
    let mut zone = memory.zone();
    for (bo, blocks) in [(40, 1), (30, 11), (0, 1), (0, 5), (32, 1), (20, 20)] {
        assert_eq!(zone.unmap(Bo(bo), blocks), Err(Busy), "{bo}");
    }
    assert_eq!(
        zone.replay(&Record::ResetZone { zone: 0 }),
        Err(ZoneError::Busy)
    );
    assert_eq!(zone.replay(&map(40, 50, 1)), Err(ZoneError::Conflict));
    assert_eq!(contents(&mut memory), before);
    let mut zone = memory.zone();
    assert_eq!(zone.unmap(Bo(1), 31), Ok(31));
    zone.finish(&rewrite, true);
    assert_eq!(zone.unmap(Bo(32), 8), Ok(1));
    zone.finish(&first, true);
    assert_eq!(zone.unmap(Bo(0), 56), Ok(2));
    assert_eq!(
        contents(&mut memory),
        contents(&mut Memory::new(geometry()))
    );
}

#[test]
fn a_write_after_an_unmap_is_a_first_write() {
    let mut memory = Memory::new(geometry());
    memory.write(0, 4, phases(2));
    memory.zone().unmap(Bo(2), 1).unwrap();
    let Step::Ready(plan) = memory.zone().plan(&whole(2, 1), phases(2)) else {
        panic!();
    };
    assert!(plan.first);
}
