// SPDX-License-Identifier: GPL-2.0-only

//! Where the journal ends, and when it is damaged instead.

mod image;

use image::{
    entry,
    record,
    settings,
    superblock,
    Image,
    ENTRIES, //
};
use imrsim_core::ondisk::{
    LoadError,
    Position,
    Record,
    Refusal,
    Replay,
    Replayed, //
};

/// A journal with these entries, each a batch of its own with a record of its number, in epoch 1.
fn journal(entries: std::ops::Range<u64>) -> Image {
    let mut image = Image::formatted();
    for sequence in entries {
        image.put_entry(1, sequence, sequence, &[record(sequence)]);
    }
    image
}

fn numbers(records: &[(Position, Record)]) -> Vec<u64> {
    records
        .iter()
        .map(|(position, record)| {
            assert_eq!(position.index, 0);
            assert_eq!(record.zone(), Some(position.sequence));
            position.sequence
        })
        .collect()
}

#[track_caller]
fn ends(image: &mut Image, expected: std::ops::Range<u64>) -> Replayed {
    let (records, replayed) = image.replay().expect("not refused");
    assert_eq!(numbers(&records), expected.clone().collect::<Vec<_>>());
    assert_eq!(replayed.head, expected.end);
    assert_eq!(replayed.entries, expected.end - expected.start);
    // However large the buffer is.
    for entries in [1, 2, 5, 8, 20] {
        assert_eq!(
            image.replay_with(entries).unwrap(),
            (records.clone(), replayed)
        );
    }
    replayed
}

#[track_caller]
fn refused(image: &mut Image, expected: Refusal) {
    for entries in [1, 3, 8] {
        assert_eq!(
            image.replay_with(entries).err(),
            Some(LoadError::Refused(expected))
        );
    }
}

#[test]
fn an_empty_journal() {
    let replayed = ends(&mut Image::formatted(), 0..0);
    assert_eq!(replayed, Replayed::default());
}

#[test]
fn entries_in_order() {
    for n in 0..=ENTRIES {
        let replayed = ends(&mut journal(0..n), 0..n);
        assert_eq!((replayed.single_copies, replayed.dropped), (0, 0));
    }
}

#[test]
fn around_the_end_of_the_ring() {
    for head in 5..=5 + ENTRIES {
        let mut image = journal(0..head);
        let superblock = superblock().open(0).checkpoint(5, 5, settings(2));
        image.put_superblock(&superblock, &[0]);
        ends(&mut image, 5..head);
    }
}

#[test]
fn records_have_positions() {
    let mut image = Image::formatted();
    image.put_entry(1, 0, 0, &[record(1), record(2), record(3)]);
    image.put_entry(1, 1, 1, &[]);
    image.put_entry(1, 2, 2, &[record(4)]);
    let (records, replayed) = image.replay().unwrap();
    let expected =
        [(0, 0), (0, 1), (0, 2), (2, 0)].map(|(sequence, index)| Position { sequence, index });
    assert!(records.iter().map(|(position, _)| *position).eq(expected));
    assert_eq!(replayed.head, 3);
    assert!(expected.is_sorted());
}

#[test]
fn one_good_copy_is_enough() {
    for copy in 0..2 {
        let mut image = journal(0..6);
        for sequence in 0..6 {
            image.damage_copy(sequence, copy);
        }
        assert_eq!(ends(&mut image, 0..6).single_copies, 6);
        let mut image = journal(0..6);
        for sequence in [1, 5] {
            image.bad.push(image.copy_of(sequence, copy));
        }
        assert_eq!(ends(&mut image, 0..6).single_copies, 2);
    }
}

#[test]
fn an_entry_that_cannot_be_read_is_an_error() {
    for sequence in [0, 3, 5, 6, 7] {
        let mut image = journal(0..6);
        for copy in 0..2 {
            image.bad.push(image.copy_of(sequence, copy));
        }
        // Behind the end there could be the proof that the journal goes on.
        assert!(matches!(image.replay(), Err(LoadError::Io(_))));
    }
}

#[test]
fn damage_in_the_middle() {
    for sequence in 0..5 {
        let mut image = journal(0..6);
        image.damage_copy(sequence, 0);
        image.damage_copy(sequence, 1);
        refused(&mut image, Refusal::JournalDamaged);
    }
    // Also if what is there now is an older entry, whole and intact.
    for sequence in 8..13 {
        let mut image = journal(0..14);
        let superblock = superblock().open(0).checkpoint(8, 8, settings(2));
        image.put_superblock(&superblock, &[0]);
        image.put_entry(1, sequence - 8, sequence - 8, &[]);
        refused(&mut image, Refusal::JournalDamaged);
    }
}

#[test]
fn damage_at_the_end() {
    // Not a single sector shows that the entry was not written.
    let mut image = journal(0..6);
    image.damage_copy(5, 0);
    image.damage_copy(5, 1);
    refused(&mut image, Refusal::JournalDamaged);
    let mut image = journal(0..6);
    let sector = image.copy_of(5, 0);
    image.at(sector)[..8192].fill(0);
    refused(&mut image, Refusal::JournalDamaged);
    // One does: what formatting left there.
    let mut image = journal(0..6);
    let whole = Image::formatted();
    let mut sector = image.copy_of(5, 0);
    image.at(sector)[..8192].fill(0);
    sector += 3;
    image.write(sector, &whole.bytes[sector as usize * 512..][..512]);
    ends(&mut image, 0..5);
}

#[test]
fn damage_and_a_bad_sector_at_the_end() {
    for copy in 0..2 {
        let mut image = journal(0..6);
        image.damage_copy(5, copy);
        image.bad.push(image.copy_of(5, 1 - copy));
        refused(&mut image, Refusal::JournalDamaged);
    }
}

#[test]
fn of_two_copies_the_later_epoch_counts() {
    let opened = superblock().open(0).open(1).open(3);
    for copy in 0..2 {
        let mut image = journal(0..1);
        image.put_superblock(&opened, &[0]);
        for sequence in 1..3 {
            image.put_entry(2, sequence, sequence, &[record(sequence)]);
        }
        let dropped = entry(1, 1, 0, &[record(99)]);
        let sector = image.copy_of(1, copy);
        image.write(sector, &dropped[..]);
        assert_eq!(ends(&mut image, 0..3).single_copies, 1);
    }
}

/// Sectors of the second of two entries in one place.
fn torn(old: Option<u64>, new: u64, first: usize, second: usize) -> Image {
    let mut image = Image::formatted();
    if let Some(old) = old {
        for sequence in old..new {
            image.put_entry(1, sequence, sequence, &[record(sequence)]);
        }
        let superblock = superblock().open(0).checkpoint(new, new, settings(2));
        image.put_superblock(&superblock, &[0]);
    }
    let block = entry(1, new, new, &[record(new)]);
    for (copy, sectors) in [first, second].into_iter().enumerate() {
        let sector = image.copy_of(new, copy as u64);
        image.write(sector, &block[..sectors * 512]);
    }
    image
}

#[test]
fn torn_entries() {
    for first in 0..8 {
        for second in 0..8 {
            ends(&mut torn(None, 0, first, second), 0..0);
            ends(&mut torn(Some(1), 9, first, second), 9..9);
        }
        assert_eq!(ends(&mut torn(None, 0, 8, first), 0..1).single_copies, 1);
        assert_eq!(
            ends(&mut torn(Some(1), 9, first, 8), 9..10).single_copies,
            1
        );
    }
}

#[test]
fn a_torn_entry_with_a_damaged_sector_is_dropped() {
    for damaged in 0..16 {
        let mut image = torn(Some(1), 9, 4, 0);
        let sector = image.copy_of(9, 0) + damaged;
        image.at(sector)[300] ^= 0x10;
        ends(&mut image, 9..9);
    }
}

#[test]
fn an_older_sector_has_to_be_from_this_place() {
    // Sectors of the entry before, or of the one a lap later, do not belong here.
    for (epoch, sequence) in [(1, 5), (1, 14), (1, 4)] {
        let mut image = journal(0..6);
        let block = entry(epoch, sequence, sequence, &[record(sequence)]);
        let sector = image.copy_of(5, 0);
        image.write(sector, &block[..]);
        image.damage_copy(5, 1);
        match sequence {
            5 => {
                ends(&mut image, 0..6);
            }
            _ => refused(&mut image, Refusal::JournalDamaged),
        }
    }
    // Nor does what formatting wrote, after the first lap.
    let mut image = journal(0..14);
    image.put_superblock(&superblock().open(0).checkpoint(8, 8, settings(2)), &[0]);
    let formatted = Image::formatted();
    let sector = image.copy_of(13, 0);
    let bytes = formatted.bytes[sector as usize * 512..][..8192].to_vec();
    image.write(sector, &bytes);
    refused(&mut image, Refusal::JournalDamaged);
}

#[test]
fn a_batch_that_was_not_written_to_its_end() {
    // Entries 2 to 6 are one batch; of these only some are there.
    for present in 0..32_u64 {
        let mut image = journal(0..2);
        for sequence in 2..7 {
            if present & (1 << (sequence - 2)) != 0 {
                image.put_entry(1, sequence, 2, &[record(sequence)]);
            }
        }
        let end = 2 + u64::from(present.trailing_ones());
        let replayed = ends(&mut image, 0..end);
        let beyond = present >> (end - 2);
        assert_eq!(replayed.dropped, u64::from(beyond.count_ones()));
    }
    // With a batch behind it, it was.
    let mut image = journal(0..2);
    image.put_entry(1, 2, 2, &[record(2)]);
    image.put_entry(1, 4, 4, &[record(4)]);
    refused(&mut image, Refusal::JournalDamaged);
}

#[test]
fn dropped_entries_do_not_come_back() {
    // Entries 2 and 4 of a batch 2 to 4 were written when the power failed.
    let mut image = journal(0..2);
    for sequence in [2, 4] {
        image.put_entry(1, sequence, 2, &[record(sequence)]);
    }
    let replayed = ends(&mut image, 0..3);
    assert_eq!(replayed.dropped, 1);
    let opened = superblock().open(0).open(replayed.head);
    image.put_superblock(&opened, &[0]);
    assert_eq!(ends(&mut image, 0..3).dropped, 0);
    // Entry 3 is written anew; the old entry 4 is not its successor.
    image.put_entry(2, 3, 3, &[record(3)]);
    ends(&mut image, 0..4);
    // Not even if the tail moves right before it.
    image.put_superblock(&opened.checkpoint(4, 4, settings(2)), &[0]);
    ends(&mut image, 4..4);
    // When it is written over in part, neither version of it is whole.
    let new = entry(2, 4, 4, &[record(4)]);
    let sector = image.copy_of(4, 0);
    image.write(sector, &new[..512 * 5]);
    ends(&mut image, 4..4);
    image.write(sector, &new[..]);
    assert_eq!(ends(&mut image, 4..5).single_copies, 1);
}

#[test]
fn entries_that_were_found_once_must_be_found_again() {
    let mut image = journal(0..3);
    let opened = superblock().open(0).open(3);
    image.put_superblock(&opened, &[0]);
    ends(&mut image, 0..3);
    // It looks as if it had never been written.
    let formatted = Image::formatted();
    let sector = image.copy_of(2, 0);
    let bytes = formatted.bytes[sector as usize * 512..][..8192].to_vec();
    image.write(sector, &bytes);
    refused(&mut image, Refusal::JournalDamaged);
}

#[test]
fn entries_of_the_wrong_epoch_are_none() {
    // From `opened_at` on only the current epoch counts, before it only earlier ones.
    let mut image = journal(0..3);
    image.put_superblock(&superblock().open(0).open(2), &[0]);
    ends(&mut image, 0..2);
    let mut image = Image::formatted();
    image.put_superblock(&superblock().open(0).open(2), &[0]);
    image.put_entry(2, 0, 0, &[record(0)]);
    image.put_entry(1, 1, 1, &[record(1)]);
    refused(&mut image, Refusal::JournalDamaged);
    // Epochs do not go back.
    let mut image = Image::formatted();
    image.put_superblock(&superblock().open(0).open(1).open(3), &[0]);
    image.put_entry(1, 0, 0, &[record(0)]);
    image.put_entry(2, 1, 1, &[record(1)]);
    image.put_entry(1, 2, 2, &[record(2)]);
    refused(&mut image, Refusal::JournalDamaged);
    image.put_entry(2, 2, 2, &[record(2)]);
    ends(&mut image, 0..3);
}

#[test]
fn a_superblock_that_is_too_old() {
    for sequence in 0..3 {
        let mut image = journal(0..1);
        image.put_entry(2, sequence, sequence, &[record(sequence)]);
        refused(&mut image, Refusal::SuperblockStale);
    }
}

#[test]
fn after_a_stop_in_good_order_the_end_is_known() {
    let mut image = journal(0..4);
    let closed = superblock().open(0).close(1, 4, settings(2));
    image.put_superblock(&closed, &[0]);
    ends(&mut image, 1..4);
    // What lies behind does not matter.
    image.put_entry(1, 4, 4, &[record(4)]);
    image.put_entry(1, 6, 6, &[record(6)]);
    ends(&mut image, 1..4);
    // But all before it must be there.
    let mut image = journal(0..3);
    image.put_superblock(&closed, &[0]);
    refused(&mut image, Refusal::JournalDamaged);
}

#[test]
fn records_that_cannot_be_used() {
    let mut image = Image::formatted();
    image.put_entry(1, 0, 0, &[record(0)]);
    for copy in 0..2 {
        let sector = image.copy_of(0, copy);
        let block = &mut image.at(sector)[..512];
        block[48] = 0x7f;
        let crc = imrsim_core::ondisk::Crc::new()
            .update(&image::UUID.0)
            .update(&block[..508]);
        block[508..].copy_from_slice(&crc.value().to_le_bytes());
    }
    refused(&mut image, Refusal::UnknownRecord);
}

#[test]
fn a_buffer_that_is_too_small() {
    let mut image = journal(0..1);
    let (loaded, _) = image.load().unwrap();
    let mut buf = [0; 8191];
    let mut replay = Replay::new(&loaded.superblock, &mut buf).unwrap();
    assert!(replay.next(&mut image).is_err());
}
