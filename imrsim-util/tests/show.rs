// SPDX-License-Identifier: GPL-2.0-only

//! Pictures of recordings: that they show what was recorded.

use std::{
    fs::File,
    io::{BufWriter, Cursor},
    path::Path,
};

use imrsim_core::{Allocation, Geometry};
use imrsim_util::{
    drive::Drive,
    recording::{Event, Item, Op, Reader, Request, Writer},
    show::{
        picture::{At, Moment, Picture, Shape},
        png, svg, Chosen,
    },
};

const BLOCK: u64 = 4096;

/// Two zones of two groups of tracks of 2 and 3 blocks: zone 0 gets a write of all its blocks, zone 1
/// the same and four more.
fn record(path: &Path) {
    let geometry = Geometry::new(2, 3, 2).unwrap();
    let mut drive = Drive::new(geometry, 2, Allocation::default()).unwrap();
    let file = BufWriter::new(File::create(path).unwrap());
    drive.record(None, Box::new(file)).unwrap();
    drive.write(0, 20 * BLOCK).unwrap();
    // The first block of the first bottom track, under two top blocks; and the others.
    for block in 0..4 {
        drive.write((10 + block) * BLOCK, BLOCK).unwrap();
    }
    drive.end_recording().unwrap();
}

fn texts(picture: &Picture) -> String {
    let texts = picture.shapes.iter().filter_map(|shape| match shape {
        Shape::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_moment_is_that_after_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.imrtrace");
    record(&path);
    let busiest = Chosen::of(&path, None).unwrap();
    assert_eq!(
        (busiest.zone, busiest.recorded, busiest.requests),
        (1, 2, 5)
    );
    let first = Chosen::of(&path, Some(0)).unwrap();
    assert_eq!(first.requests, 1);
    assert!(Chosen::of(&path, Some(2)).is_err());

    let shown = |at| texts(&Picture::new(&Moment::of(&path, &busiest, at).unwrap()));
    let empty = shown(At::Request(0));
    assert!(empty.contains("before the first request"), "{empty}");
    assert!(empty.contains("0 of 10 blocks in use (0.0 %)"), "{empty}");
    assert!(empty.contains("phase 1"), "{empty}");
    let full = shown(At::Share(0.2));
    assert!(full.contains("after request 1 of 5"), "{full}");
    assert!(full.contains("10 of 10 blocks in use (100.0 %)"), "{full}");
    assert!(full.contains("the host wrote 10, 0 more"), "{full}");
    let rewrite = shown(At::Request(2));
    assert!(rewrite.contains("the host wrote 11, 2 more"), "{rewrite}");
    assert!(
        rewrite.contains("write amplification 1.181818"),
        "{rewrite}"
    );
    assert_eq!(rewrite.lines().filter(|text| *text == "1, 3").count(), 2);
    assert_eq!(shown(At::Share(1.0)), shown(At::Request(99)));
    assert_eq!(shown(At::Used(1.0)), full);
    assert_eq!(shown(At::Rewrite(0.5)), rewrite);
    let never = Moment::of(&path, &first, At::Rewrite(0.0)).unwrap_err();
    assert!(
        never.to_string().ends_with("zone 0 never comes to that"),
        "{never}"
    );
}

/// Requests of two steps: the second counts.
#[test]
fn runs_of_a_request_are_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.imrtrace");
    record(&path);
    let bytes = std::fs::read(&path).unwrap();
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    let mut writer = Writer::new(*reader.header(), Vec::new()).unwrap();
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Start(snapshot) => writer.start(&snapshot).unwrap(),
            Item::Event { time, zone, event } => {
                if let Event::Request(request) = event {
                    let more = Request {
                        op: Op::Discard,
                        more: true,
                        ..request
                    };
                    writer.event(time, zone, &Event::Request(more)).unwrap();
                }
                writer.event(time, zone, &event).unwrap();
            }
            Item::Final(snapshot) => writer.end(&snapshot).unwrap(),
        }
    }
    std::fs::write(&path, writer.finish().unwrap()).unwrap();

    let chosen = Chosen::of(&path, None).unwrap();
    assert_eq!((chosen.zone, chosen.requests, chosen.steps), (1, 5, 10));
    let shown = |at| texts(&Picture::new(&Moment::of(&path, &chosen, at).unwrap()));
    assert!(shown(At::Request(0)).contains("before the first request"));
    // The request itself is there with its last run, and not the first run of the next.
    let first = shown(At::Request(1));
    assert!(first.contains("after request 1 of 5"), "{first}");
    assert!(first.contains("the host wrote 10, 0 more"), "{first}");
    assert_eq!(shown(At::Share(0.2)), first);
    let last = shown(At::Share(1.0));
    assert!(last.contains("after request 5 of 5"), "{last}");
    assert_eq!(shown(At::Request(5)), last);
}

#[test]
fn pictures_are_as_wide_as_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.imrtrace");
    record(&path);
    let chosen = Chosen::of(&path, None).unwrap();
    let picture = Picture::new(&Moment::of(&path, &chosen, At::Request(2)).unwrap());

    let mut text = Vec::new();
    svg::write(&picture, 600, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("width=\"600\""), "{text}");
    assert!(text.ends_with("</svg>\n"), "{text}");

    let Ok(font) = png::font(None) else {
        println!("SKIPPED show: no font (Debian's package fonts-dejavu-core)");
        return;
    };
    let mut bytes = Vec::new();
    png::write(&picture, 600, &font, &mut bytes).unwrap();
    let mut reader = ::png::Decoder::new(Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let height = (picture.height / 2.0).ceil() as u32;
    assert_eq!((info.width, info.height), (600, height));
    // Paper, and the colour of what is rewritten.
    assert_eq!(pixels[..3], [255, 255, 255]);
    assert!(pixels.chunks(3).any(|pixel| pixel == [255, 160, 90]));
    assert!(png::write(&picture, png::MAX_PIXELS + 1, &font, &mut Vec::new()).is_err());
}
