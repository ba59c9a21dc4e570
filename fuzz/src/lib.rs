// SPDX-License-Identifier: GPL-2.0-only

//! What every fuzz target checks. Whatever is in a file, each of its lines is a request that makes
//! sense, a bad line, or nothing; and what is read is the same after it was written as CSV.

#![forbid(unsafe_code)]

use std::io::Cursor;

use imrsim_core::Geometry;
pub use imrsim_util::trace::Format;
use imrsim_util::{
    recording::{Moment, Snapshot},
    trace::{
        self,
        convert::OutputFormat,
        csv::{Delimiter, Layout, SpaceUnit, TimeUnit},
        Disks, Item, Op, Options, Reader, Record, Source, Trace, MAX_LEN,
    },
    tracefs::{self, Line, What},
};

/// The most lines that are looked at: compressed data may be of any length.
const MAX_LINES: u64 = 1 << 16;

/// Text of a known format.
pub fn text(data: &[u8], format: Format) {
    let options = Options {
        format: Some(format),
        ..all_disks()
    };
    plain(data, &options);
}

/// Text with the columns that the first line tells: see [`layout`].
pub fn columns(data: &[u8]) {
    let first = data.split(|byte| *byte == b'\n').next().unwrap_or(data);
    let (layout, data) = match layout(first) {
        Some(layout) => (layout, data.get(first.len() + 1..).unwrap_or_default()),
        None => (Layout::own(), data),
    };
    let options = Options {
        layout: Some(layout),
        ..all_disks()
    };
    plain(data, &options);
}

/// What a file may hold.
pub fn detected(data: &[u8]) {
    if let Ok(trace) = trace::read(Cursor::new(data.to_vec()), "it", &all_disks()) {
        check(trace);
    }
}

/// Lines of trace events. Whatever program is named in front of an event, it is the same; and whatever an event says,
/// a zone of a recording takes it or refuses it.
pub fn events(data: &[u8]) {
    let Ok(geometry) = Geometry::new(57, 71, 4) else {
        return;
    };
    let mut moment = Moment::new(Snapshot::new(&geometry, 0));
    for line in data.split(|byte| *byte == b'\n') {
        let Ok(Line::Event(traced)) = tracefs::parse(line) else {
            continue;
        };
        let named = [b"1.5: map: dev=1:1 seq=1 ", line].concat();
        assert_eq!(tracefs::parse(&named), Ok(Line::Event(traced)));
        let What::Event(event) = traced.what else {
            continue;
        };
        assert_eq!(traced.zone.is_none(), event.is_of_drive());
        if event.fits(&geometry) {
            let _ = moment.apply(&geometry, &event);
        }
    }
}

fn all_disks() -> Options {
    Options {
        disks: Disks::All,
        ..Options::default()
    }
}

/// Reads text that is not compressed.
fn plain(data: &[u8], options: &Options) {
    let compressed = [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd"];
    if compressed.iter().any(|magic| data.starts_with(magic)) {
        return;
    }
    let Ok(trace) = trace::read(Cursor::new(data.to_vec()), "it", options) else {
        return;
    };
    let mut lines = data.iter().filter(|byte| **byte == b'\n').count() as u64;
    if data.last().is_some_and(|last| *last != b'\n') {
        lines += 1;
    }
    let looked_at = check(trace);
    assert_eq!(looked_at, lines.min(MAX_LINES));
}

/// Checks what is read, and returns the number of lines.
fn check(mut trace: Trace) -> u64 {
    let (mut records, mut lines, mut last) = (Vec::new(), 0, 0);
    while lines < MAX_LINES {
        let item = match trace.next_item() {
            Ok(Some(item)) => item,
            // Compressed data may be damaged anywhere.
            Ok(None) | Err(_) => break,
        };
        lines += 1;
        match item {
            Item::Record(record) => {
                assert_eq!(record.line, lines);
                assert!(record.offset.checked_add(record.len).is_some());
                assert!(record.op == Op::Flush || (1..=MAX_LEN).contains(&record.len));
                assert!((record.source as usize) < trace.sources().len());
                let time = record.time.unwrap_or(last);
                assert!(time >= last);
                last = time;
                records.push(record);
            }
            Item::Bad(bad) => {
                assert_eq!(bad.line, lines);
                assert!(!bad.reason.is_empty());
            }
            Item::Other => {}
        }
        assert_eq!(trace.notes().lines, lines);
    }
    if !records.is_empty() {
        survive(&records, trace.sources());
    }
    lines
}

/// Writes requests as CSV, and reads them again.
fn survive(records: &[Record], sources: &[Source]) {
    let source = |record: &Record, sources: &[Source]| sources[record.source as usize].clone();
    let mut text = Vec::new();
    let mut writer = OutputFormat::Csv.writer(&mut text, "").unwrap();
    for record in records {
        let source = source(record, sources);
        writer.check(record, &source).unwrap();
        writer.write(record, &source).unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    let mut trace = trace::read(Cursor::new(text), "CSV", &all_disks()).unwrap();
    assert_eq!(trace.format, Format::Csv);
    assert_eq!(trace.next_item().unwrap(), Some(Item::Other));
    for record in records {
        let item = trace.next_item().unwrap();
        let Some(Item::Record(read)) = item else {
            panic!("{item:?} instead of {record:?}");
        };
        assert_eq!(source(&read, trace.sources()), source(record, sources));
        let expected = Record {
            line: read.line,
            source: read.source,
            ..*record
        };
        assert_eq!(read, expected);
    }
    assert_eq!(trace.next_item().unwrap(), None);
    assert_eq!(trace.notes().backwards, 0);
}

/// The layout that a line of at least twelve bytes tells. The first seven are the columns of time,
/// operation, offset, size, response time, host and disk: a digit, a letter for a name, or `-` for
/// none. One byte each is for the delimiter, the units of times, offsets and sizes, and the words
/// for operations.
fn layout(line: &[u8]) -> Option<Layout> {
    const NAMES: [&str; 7] = ["time", "op", "offset", "size", "response", "host", "disk"];
    let (columns, rest) = line.split_at_checked(NAMES.len())?;
    let &[delimiter, time, offset, size, ops, ..] = rest else {
        return None;
    };
    let columns: Vec<String> = NAMES
        .iter()
        .zip(columns)
        .filter(|(_, column)| **column != b'-')
        .map(|(name, column)| format!("{name}={}", char::from(*column)))
        .collect();
    let space = |letter| match letter {
        b'k' => SpaceUnit::Blocks,
        b's' => SpaceUnit::Sectors,
        _ => SpaceUnit::Bytes,
    };
    Some(Layout {
        columns: columns.join(",").parse().ok()?,
        delimiter: match delimiter {
            b'_' => Delimiter::Blanks,
            b't' => Delimiter::Byte(b'\t'),
            other => char::from(other).to_string().parse().ok()?,
        },
        time: match time {
            b's' => TimeUnit::S,
            b'm' => TimeUnit::Ms,
            b'u' => TimeUnit::Us,
            b't' => TimeUnit::Ticks,
            _ => TimeUnit::Ns,
        },
        offset: space(offset),
        size: space(size),
        ops: match ops {
            b'0' => "read=0,write=1,trim=2,flush=3".parse().ok()?,
            _ => Default::default(),
        },
    })
}
