// SPDX-License-Identifier: GPL-2.0-only

//! Recordings: what is written is read again, what is damaged is refused, and what a drive recorded
//! leads to where the drive got.

use std::{
    io::{self, Write},
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use anyhow::Result;
use imrsim_core::{Allocation, Bo, Geometry, Nbo, TopRun};
use imrsim_util::{
    drive::Drive,
    prefill::{Prefill, Share},
    recording::{
        Clock, Event, Header, Item, Op, Player, Reader, Request, Rmw, Snapshot, Source, Writer,
    },
};
use proptest::prelude::*;

/// A file in memory that its writer can be taken from.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

fn geometry() -> Geometry {
    Geometry::new(456, 568, 2).unwrap()
}

fn header(only: Option<u64>) -> Header {
    Header {
        geometry: geometry(),
        zones: 5,
        allocation: Allocation::from_phases(3).unwrap(),
        source: Source::Kernel,
        clock: Clock::Nanoseconds,
        only,
    }
}

fn events() -> impl proptest::strategy::Strategy<Value = Event> {
    let run = (0_u32..2048).prop_flat_map(|at| (Just(at), 1..=2048 - at));
    let ops = prop_oneof![
        Just(Op::Read),
        Just(Op::Write),
        Just(Op::Discard),
        Just(Op::Reset)
    ];
    let top = (0_u32..1984, any::<u64>()).prop_map(|(first, mask)| match mask {
        0 => TopRun::default(),
        mask => TopRun {
            first: Nbo(first),
            mask,
        },
    });
    prop_oneof![
        (ops, run.clone(), any::<[bool; 5]>()).prop_map(|(op, (bo, blocks), flags)| {
            let [head_partial, tail_partial, crosses_zone, more, zeros] = flags;
            Event::Request(Request {
                op,
                bo: Bo(bo),
                blocks,
                head_partial,
                tail_partial,
                crosses_zone,
                more,
                zeros,
            })
        }),
        (run.clone(), 0_u32..2048).prop_map(|((nbo, blocks), bo)| Event::Alloc {
            bo: Bo(bo.min(2048 - blocks)),
            nbo: Nbo(nbo),
            blocks,
        }),
        (run.clone(), [top.clone(), top]).prop_map(|((nbo, blocks), tops)| {
            Event::RmwStart(Rmw {
                nbo: Nbo(nbo),
                blocks,
                tops,
            })
        }),
        (0_u32..2048).prop_map(|nbo| Event::RmwDone { nbo: Nbo(nbo) }),
        run.clone()
            .prop_map(|(bo, blocks)| Event::Unmap { bo: Bo(bo), blocks }),
        run.prop_map(|(bo, blocks)| Event::Failed { bo: Bo(bo), blocks }),
        Just(Event::CountersReset),
        any::<u64>().prop_map(|changes| Event::Commit { changes }),
        (1_u32..=64).prop_map(|phases| Event::Strategy(Allocation::from_phases(phases).unwrap())),
    ]
}

/// What one has to have seen, and its file.
fn write(events: &[(u64, u64, Event)]) -> (Vec<Item>, Vec<u8>) {
    let mut writer = Writer::new(header(None), Vec::new()).unwrap();
    let mut items = Vec::new();
    let mut now = 0_u64;
    for (passed, zone, event) in events {
        if !writer.has_started(*zone) {
            let snapshot = Snapshot::new(&geometry(), *zone);
            writer.start(&snapshot).unwrap();
            items.push(Item::Start(snapshot));
        }
        now = now.saturating_add(*passed);
        writer.event(now, *zone, event).unwrap();
        items.push(Item::Event {
            time: now,
            zone: *zone,
            event: *event,
        });
    }
    let zones: Vec<u64> = writer.zones().collect();
    for zone in zones {
        let snapshot = Snapshot::new(&geometry(), zone);
        writer.end(&snapshot).unwrap();
        items.push(Item::Final(snapshot));
    }
    (items, writer.finish().unwrap())
}

fn read(bytes: &[u8]) -> Result<Vec<Item>> {
    let mut reader = Reader::new(bytes)?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    Ok(items)
}

fn timed() -> impl proptest::strategy::Strategy<Value = (u64, u64, Event)> {
    let passed = prop_oneof![Just(0), 0_u64..1000, any::<u64>()];
    (passed, 0_u64..5, events())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(events in proptest::collection::vec(timed(), 0..200)) {
        let (items, bytes) = write(&events);
        prop_assert_eq!(read(&bytes).unwrap(), items);
    }

    #[test]
    fn what_is_damaged_is_refused(
        events in proptest::collection::vec(timed(), 0..50),
        at: prop::sample::Index,
        flip in 1_u8..=255,
    ) {
        let (_, mut bytes) = write(&events);
        let at = at.index(bytes.len());
        prop_assert!(read(&bytes[..at]).is_err());
        bytes[at] ^= flip;
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        keep in 0_usize..200,
    ) {
        let (_, whole) = write(&[(0, 1, Event::RmwDone { nbo: Nbo(1) })]);
        let mut file = whole.clone();
        file.truncate(keep);
        file.extend(bytes);
        prop_assert_eq!(read(&file).is_err(), file != whole);
    }

    /// The player itself compares what it gets to with the drive at the end.
    #[test]
    fn a_recording_leads_to_the_drive(
        shape in (1_u32..6, 0_u32..4, 1_u32..5),
        phases in 1_u32..5,
        filled in proptest::option::of(0_u32..=100),
        only in proptest::option::of(0_u64..3),
        requests in proptest::collection::vec((0_u8..8, 0_u64..1 << 20, 1_u64..120), 0..120),
    ) {
        const SECTOR: u64 = 512;
        let (top, more, groups) = shape;
        let geometry = Geometry::new(top, top + more, groups).unwrap();
        let mut drive = Drive::new(geometry, 3, Allocation::from_phases(phases).unwrap()).unwrap();
        if let Some(percent) = filled {
            let share: Share = format!("{percent}%").parse().unwrap();
            drive.prefill(Prefill::Random { extent: 2 }, share, 1);
        }
        let file = Shared::default();
        drive.record(only, Box::new(file.clone())).unwrap();
        let sectors = drive.capacity() / SECTOR;
        for (op, at, length) in requests {
            let at = at % sectors;
            let bytes = (at * SECTOR, length.min(sectors - at) * SECTOR);
            match op {
                0 => drive.read(bytes.0, bytes.1).unwrap(),
                1 => drive.discard(bytes.0, bytes.1).unwrap(),
                2 => drive.set_allocation(Allocation::from_phases(1 + at as u32 % 4).unwrap()),
                _ => drive.write(bytes.0, bytes.1).unwrap(),
            }
        }
        drive.end_recording().unwrap();

        let bytes = file.bytes();
        let mut player = Player::new(Reader::new(bytes.as_slice()).unwrap(), None);
        let ended = player.play(|_, _, _| Ok(ControlFlow::Continue(()))).unwrap();
        prop_assert!(ended.is_continue());
        let played: Vec<u64> = player.moments().keys().copied().collect();
        for (zone, moment) in player.moments() {
            prop_assert_eq!(moment.snapshot.stats, drive.zone_stats(*zone));
            prop_assert!(moment.rewriting.is_empty());
            for block in 0..geometry.zone_blocks() {
                let place = moment.snapshot.lookup(Bo(block)).map(|nbo| nbo.0);
                prop_assert_eq!(place, drive.lookup(*zone, block));
                prop_assert_eq!(moment.snapshot.used().get(block), drive.is_used(*zone, block));
            }
        }
        for zone in (0..3).filter(|zone| only.is_none_or(|only| only == *zone)) {
            prop_assert!(played.contains(&zone) || drive.zone_stats(zone) == Default::default());
        }
        prop_assert!(only.is_none_or(|only| played.iter().all(|zone| *zone == only)));
    }
}

#[test]
fn a_player_finds_that_events_are_missing() {
    let header = header(Some(1));
    let mut writer = Writer::new(header, Vec::new()).unwrap();
    let mut zone = Snapshot::new(&geometry(), 1);
    writer.start(&zone).unwrap();
    let alloc = Event::Alloc {
        bo: Bo(0),
        nbo: Nbo(0),
        blocks: 1,
    };
    zone.apply(&geometry(), &alloc).unwrap();
    assert!(zone.apply(&geometry(), &alloc).is_err());
    writer.end(&zone).unwrap();
    let bytes = writer.finish().unwrap();
    let mut player = Player::new(Reader::new(bytes.as_slice()).unwrap(), None);
    let error = player
        .play(|_, _, _| Ok(ControlFlow::Continue(())))
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("do not lead to"), "{text}");
}

#[test]
fn a_writer_keeps_its_order() {
    let mut writer = Writer::new(header(Some(1)), Vec::new()).unwrap();
    let [one, two] = [1, 2].map(|zone| Snapshot::new(&geometry(), zone));
    let event = Event::RmwDone { nbo: Nbo(0) };
    assert!(writer.start(&two).is_err());
    assert!(writer.event(1, 1, &event).is_err());
    writer.start(&one).unwrap();
    assert!(writer.start(&one).is_err());
    writer.event(1, 1, &event).unwrap();
    writer.end(&one).unwrap();
    assert!(writer.end(&one).is_err());
    writer.finish().unwrap();
    let mut writer = Writer::new(header(Some(1)), Vec::new()).unwrap();
    writer.start(&one).unwrap();
    assert!(writer.finish().is_err());
}

#[test]
fn messages_say_what_is_wrong() {
    let event = Event::Commit { changes: 1 };
    let (_, bytes) = write(&[(0, 1, event); 9]);
    let refused = |bytes: &[u8]| format!("{:#}", read(bytes).unwrap_err());
    assert_eq!(
        refused(b"#!/bin/sh"),
        "not a recording of IMRSim (.imrtrace)"
    );
    assert_eq!(
        refused(&bytes[..40]),
        "the recording is cut off in its header"
    );
    let cut_off = refused(&bytes[..bytes.len() - 1]);
    assert!(
        cut_off.contains("cut off in chunk 3, or not finished"),
        "{cut_off}"
    );
    let longer = refused(&[&bytes[..], b"x"].concat());
    assert!(longer.contains("something follows the end"), "{longer}");
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert_eq!(
        refused(&newer),
        "a recording of version 2: this program reads version 1"
    );
    let mut flipped = bytes;
    flipped[80] ^= 1;
    let flipped = refused(&flipped);
    assert!(
        flipped.contains("damaged in chunk 0: wrong checksum"),
        "{flipped}"
    );
}
