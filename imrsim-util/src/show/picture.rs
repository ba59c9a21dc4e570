// SPDX-License-Identifier: GPL-2.0-only

//! A moment of a recording, laid out as a picture: the zone, a close-up of the request, a legend.

use std::{ops::ControlFlow, path::Path, str::FromStr};

use anyhow::{bail, Context, Result};
use imrsim_core::{Allocation, Geometry, Location, Nbo, Strategy, Track, TrackKind, Waf};

use super::{
    steps::{self, Counts, Run, Step},
    Chosen,
};
use crate::recording::{Bits, Op, Rmw};

/// Which moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum At {
    /// After so many requests to the zone; 0: before the first.
    Request(u64),
    /// After such a share of them, 0 to 1.
    Share(f64),
    /// After the first request with which such a share of the zone's places is in use, 0 to 1.
    Used(f64),
    /// After the first request that rewrites from there on.
    Rewrite(f64),
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{text}' is no moment: 1234 (requests), 50% (of them), used=30% or rewrite=70% (of the zone)")
        };
        let (of, number) = match text.split_once('=') {
            None => (Self::Share as fn(f64) -> Self, text),
            Some(("used", number)) => (Self::Used as fn(f64) -> Self, number),
            Some(("rewrite", number)) => (Self::Rewrite as fn(f64) -> Self, number),
            Some(_) => return Err(wrong()),
        };
        match number.strip_suffix('%').map(str::parse::<f64>) {
            Some(Ok(percent)) if (0.0..=100.0).contains(&percent) => Ok(of(percent / 100.0)),
            Some(_) => Err(wrong()),
            None => text.parse().map(Self::Request).map_err(|_| wrong()),
        }
    }
}

impl At {
    /// The moment of a zone of so many blocks to which so many requests were made. More than all of them, and
    /// a share of 100 %, is the end.
    fn in_zone(self, requests: u64, blocks: u32) -> Wanted {
        let blocks_of = |share: f64| (share * f64::from(blocks)).ceil() as u32;
        match self {
            Self::Request(number) if number > requests => Wanted::End,
            Self::Request(number) => Wanted::Request(number),
            Self::Share(share) if share >= 1.0 => Wanted::End,
            // CAST: a share of a number that is far below 2^53.
            Self::Share(share) => Wanted::Request((share * requests as f64).round() as u64),
            Self::Used(share) => Wanted::Used(blocks_of(share), false),
            Self::Rewrite(share) => Wanted::Used(blocks_of(share), true),
        }
    }
}

/// Which moment, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// With the first step with which so many requests are counted.
    Request(u64),
    /// With the last step.
    End,
    /// When so many places are in use; whether a request has to rewrite, too.
    Used(u32, bool),
}

impl Wanted {
    fn is(self, requests: u64, is_last: bool, step: &Step, used: &Bits) -> bool {
        match self {
            Self::Request(number) => requests == number,
            Self::End => is_last,
            Self::Used(places, rewrite) => {
                used.count() >= places && (!rewrite || !step.rmws.is_empty())
            }
        }
    }
}

/// A zone at one moment.
#[derive(Clone, Debug)]
pub struct Moment {
    chosen: Chosen,
    allocation: Allocation,
    used: Bits,
    /// The request that was just done.
    step: Option<Step>,
    counts: Counts,
}

impl Moment {
    /// Plays a recording up to a moment.
    ///
    /// # Errors
    ///
    /// If the recording is damaged, or has no such moment.
    pub fn of(path: &Path, chosen: &Chosen, at: At) -> Result<Self> {
        let wanted = at.in_zone(chosen.requests, chosen.header.geometry.zone_blocks());
        let mut player = chosen.player(path)?;
        let mut counts = Counts::default();
        let mut steps = 0;
        let mut found = None;
        let _ = steps::play(&mut player, chosen.zone, |step, used| {
            if wanted == Wanted::Request(0) {
                found = Some((None, step.used_before(used)));
            } else {
                counts.add(step);
                steps += 1;
                if wanted.is(counts.requests, steps == chosen.steps, step, used) {
                    found = Some((Some(step.clone()), used.clone()));
                }
            }
            Ok(match found {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            })
        })
        .with_context(|| path.display().to_string())?;
        let (step, used) = match found {
            Some(found) => found,
            None if matches!(wanted, Wanted::Used(..)) => {
                bail!(
                    "{}: zone {} never comes to that",
                    path.display(),
                    chosen.zone
                )
            }
            None => {
                let moment = player.moments().get(&chosen.zone);
                let moment = moment.context("the zone is not in the recording")?;
                (None, moment.snapshot.used().clone())
            }
        };
        Ok(Self {
            chosen: *chosen,
            allocation: player.allocation(),
            used,
            step,
            counts,
        })
    }
}

/// A colour: red, green, blue.
pub type Rgb = [u8; 3];

const WHITE: Rgb = [255, 255, 255];
const INK: Rgb = [29, 34, 40];
const SOFT: Rgb = [89, 98, 109];
const BOTTOM_EMPTY: Rgb = [228, 231, 236];
const TOP_EMPTY: Rgb = [248, 249, 251];
const TOP_EDGE: Rgb = [182, 188, 197];
const BOTTOM_USED: Rgb = [123, 131, 142];
const TOP_USED: Rgb = [63, 70, 79];
const WRITTEN: Rgb = [70, 200, 150];
const REWRITTEN: Rgb = [255, 160, 90];
const READ: Rgb = [240, 210, 110];

/// A rectangle: left, top, width, height.
pub type Area = [f64; 4];

/// What a picture consists of, from below to above.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Rectangles of one colour.
    Fill(Rgb, Vec<Area>),
    /// The outline of a rectangle, so wide.
    Outline(Rgb, Area, f64),
    /// Text: where it begins (0), has its middle (0.5) or ends (1); its base line; its size.
    Text {
        /// Where the anchor is.
        at: [f64; 2],
        /// Which part of the text is there.
        anchor: f64,
        /// The height of the letters.
        size: f64,
        /// Their colour.
        colour: Rgb,
        /// What it says.
        text: String,
    },
}

/// A picture, [`WIDTH`] wide.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// What it shows, in words.
    pub title: String,
    /// Its height.
    pub height: f64,
    /// What it consists of.
    pub shapes: Vec<Shape>,
}

/// The width of a picture, in units of its shapes.
pub const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 16.0;
/// Where tracks begin, behind their names.
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - MARGIN;

/// Where tracks lie: one below the other, tops over the seams between the bottoms.
#[derive(Clone, Copy, Debug)]
struct Rows {
    geometry: Geometry,
    /// The seam above the bottom track of this group.
    first: u32,
    y: f64,
    pitch: f64,
    top_height: f64,
    /// The part of a track that is shown: from, to.
    part: [f64; 2],
}

impl Rows {
    fn area(&self, track: Track, offset: f64, blocks: f64) -> Area {
        let len = f64::from(self.geometry.track_len(track.kind));
        let [from, to] = self.part;
        let scale = (RIGHT - LEFT) / (to - from);
        let x = |offset: f64| LEFT + ((offset / len).clamp(from, to) - from) * scale;
        let group = f64::from(track.group) - f64::from(self.first);
        let seam = self.y + group * self.pitch;
        let (y, height) = match track.kind {
            TrackKind::Top => (seam - self.top_height / 2.0, self.top_height),
            TrackKind::Bottom => (seam, self.pitch),
        };
        let (left, right) = (x(offset), x(offset + blocks));
        [left, y, right - left, height]
    }

    fn whole(&self, track: Track) -> Area {
        self.area(track, 0.0, self.geometry.track_len(track.kind).into())
    }

    /// The parts of a run that lie on tracks of a kind.
    fn areas(&self, (first, blocks): Run, kind: TrackKind, out: &mut Vec<Area>) {
        let (mut place, end) = (first, first + blocks);
        while place < end {
            let Location { track, offset } = self.geometry.locate(Nbo(place));
            let here = (self.geometry.track_len(track.kind) - offset).min(end - place);
            if track.kind == kind {
                out.push(self.area(track, offset.into(), here.into()));
            }
            place += here;
        }
    }

    /// The height at which the middle of a track is seen.
    fn middle(&self, track: Track) -> f64 {
        let [_, y, _, height] = self.whole(track);
        y + height / 2.0
    }
}

/// What a request does, by colour.
fn highlights(step: Option<&Step>) -> [(Rgb, Vec<Run>); 3] {
    let Some(step) = step else {
        return [READ, WRITTEN, REWRITTEN].map(|colour| (colour, Vec::new()));
    };
    let read = match step.request.op {
        Op::Read => step.touched.clone(),
        _ => Vec::new(),
    };
    let tops = step.rmws.iter().flat_map(Rmw::top_blocks);
    [
        (READ, read),
        (WRITTEN, step.written().collect()),
        (REWRITTEN, tops.map(|top| (top.0, 1)).collect()),
    ]
}

const KINDS: [(TrackKind, Rgb, Rgb); 2] = [
    (TrackKind::Bottom, BOTTOM_EMPTY, BOTTOM_USED),
    (TrackKind::Top, TOP_EMPTY, TOP_USED),
];

impl Picture {
    /// Lays out a moment.
    pub fn new(moment: &Moment) -> Self {
        let mut picture = Self {
            title: title(moment),
            height: 0.0,
            shapes: Vec::new(),
        };
        picture.text([MARGIN, 30.0], 0.0, 18.0, INK, picture.title.clone());
        picture.text([MARGIN, 52.0], 0.0, 13.0, SOFT, details(moment));
        let end = picture.zone(moment, 74.0);
        let end = picture.close_up(moment, end + 34.0);
        picture.legend(end + 20.0);
        picture.height = end + 44.0;
        picture
    }

    fn text(&mut self, at: [f64; 2], anchor: f64, size: f64, colour: Rgb, text: String) {
        self.shapes.push(Shape::Text {
            at,
            anchor,
            size,
            colour,
            text,
        });
    }

    /// The whole zone from `y` on; returns where it ends.
    fn zone(&mut self, moment: &Moment, y: f64) -> f64 {
        let geometry = moment.chosen.header.geometry;
        let groups = geometry.groups();
        let pitch = (640.0 / f64::from(groups)).clamp(4.0, 40.0);
        let rows = Rows {
            geometry,
            first: 0,
            y: y + pitch * 0.25,
            pitch,
            top_height: pitch * 0.5,
            part: [0.0, 1.0],
        };
        let used: Vec<Run> = moment.used.runs().collect();
        for (kind, empty, taken) in KINDS {
            let tracks = (0..groups).map(|group| Track { group, kind });
            let areas: Vec<Area> = tracks.map(|track| rows.whole(track)).collect();
            let lines = areas.iter().map(|[x, y, width, _]| [*x, *y, *width, 0.6]);
            let lines: Vec<Area> = lines.collect();
            let ends = areas.iter().map(|[x, y, w, h]| [*x, y + h - 0.6, *w, 0.6]);
            let ends: Vec<Area> = ends.collect();
            self.shapes.push(Shape::Fill(empty, areas));
            let mut filled = Vec::new();
            used.iter()
                .for_each(|run| rows.areas(*run, kind, &mut filled));
            self.shapes.push(Shape::Fill(taken, filled));
            match kind {
                TrackKind::Bottom => self.shapes.push(Shape::Fill(WHITE, lines)),
                TrackKind::Top => self
                    .shapes
                    .push(Shape::Fill(TOP_EDGE, [lines, ends].concat())),
            }
            for (colour, runs) in highlights(moment.step.as_ref()) {
                let mut lit = Vec::new();
                runs.iter().for_each(|run| rows.areas(*run, kind, &mut lit));
                // One block of hundreds would hardly be seen.
                let wide = |[x, y, w, h]: Area| [x - 0.5, y, w.max(2.0) + 1.0, h];
                self.shapes
                    .push(Shape::Fill(colour, lit.into_iter().map(wide).collect()));
            }
        }
        let every = if pitch >= 24.0 {
            1
        } else {
            groups.div_ceil(8).max(1)
        };
        for group in (0..groups).step_by(usize::try_from(every).unwrap_or(1)) {
            let kind = TrackKind::Top;
            let y = rows.middle(Track { group, kind }) + 4.0;
            self.text([LEFT - 8.0, y], 1.0, 12.0, SOFT, format!("group {group}"));
        }
        if let Some(focus) = moment.step.as_ref().and_then(Step::focus) {
            let Location { track, offset } = geometry.locate(Nbo(focus));
            let [x, y, w, h] = rows.area(track, offset.into(), 1.0);
            // A block that is seen without it needs no frame.
            if w < 16.0 {
                let area = [x + w / 2.0 - 12.0, y - pitch * 0.6, 24.0, h + pitch * 1.2];
                self.shapes.push(Shape::Outline(WHITE, area, 4.0));
                self.shapes.push(Shape::Outline(INK, area, 1.8));
            }
        }
        rows.y + f64::from(groups) * pitch
    }

    /// A few blocks around the request, from `y` on; nothing if there is none. Returns where it ends.
    fn close_up(&mut self, moment: &Moment, y: f64) -> f64 {
        let Some((step, focus)) = moment.step.as_ref().and_then(|it| Some((it, it.focus()?)))
        else {
            return y - 34.0;
        };
        let geometry = moment.chosen.header.geometry;
        let Location { track, offset } = geometry.locate(Nbo(focus));
        let len = f64::from(geometry.track_len(track.kind));
        let shown = (11.5 / f64::from(geometry.bottom_blocks())).min(1.0);
        let from = ((f64::from(offset) + 0.5) / len - shown / 2.0).clamp(0.0, 1.0 - shown);
        let first = track
            .group
            .saturating_sub(1)
            .min(geometry.groups().saturating_sub(3));
        let last = (first + 2).min(geometry.groups() - 1);
        let rows = Rows {
            geometry,
            first,
            y: y + 14.0,
            pitch: 54.0,
            top_height: 28.0,
            part: [from, from + shown],
        };
        let lit = highlights(Some(step));
        let colour_of = |place: u32| {
            let is_in = |(first, blocks): &Run| (*first..first + blocks).contains(&place);
            let of = lit.iter().rev().find(|(_, runs)| runs.iter().any(is_in));
            of.map(|(colour, _)| *colour)
        };
        for (kind, empty, taken) in KINDS {
            let end = match kind {
                TrackKind::Bottom => last,
                TrackKind::Top => (last + 1).min(geometry.groups() - 1),
            };
            for track in (first..=end).map(|group| Track { group, kind }) {
                let start = geometry.track_start(track);
                for offset in 0..geometry.track_len(kind) {
                    let [x, y, w, h] = rows.area(track, offset.into(), 1.0);
                    if w < 1.5 {
                        continue;
                    }
                    let place = start.after(offset).0;
                    let colour = colour_of(place);
                    let state = if moment.used.get(place) { taken } else { empty };
                    let area = [x + 0.75, y, w - 1.5, h];
                    self.shapes
                        .push(Shape::Fill(colour.unwrap_or(state), vec![area]));
                    if kind == TrackKind::Top || colour.is_some() {
                        let line = if colour.is_some() { INK } else { TOP_EDGE };
                        self.shapes.push(Shape::Outline(line, area, 1.0));
                    }
                    let mark = match colour {
                        Some(WRITTEN) if !step.rmws.is_empty() => "2",
                        Some(REWRITTEN) => "1, 3",
                        _ => continue,
                    };
                    if w > 30.0 {
                        let at = [x + w / 2.0, rows.middle(track) + 5.0];
                        self.text(at, 0.5, 14.0, INK, mark.to_owned());
                    }
                }
                let name = match kind {
                    TrackKind::Top => "top",
                    TrackKind::Bottom => "bottom",
                };
                let at = [LEFT - 8.0, rows.middle(track) + 4.0];
                self.text(at, 1.0, 12.0, SOFT, format!("{name} {}", track.group));
            }
        }
        rows.y + f64::from(last - first + 1) * rows.pitch + 14.0
    }

    fn legend(&mut self, y: f64) {
        let mut x = LEFT;
        for (colour, text) in [
            (BOTTOM_EMPTY, "empty"),
            (BOTTOM_USED, "allocated, bottom"),
            (TOP_USED, "allocated, top"),
            (WRITTEN, "written (2)"),
            (REWRITTEN, "backed up (1) and rewritten (3)"),
            (READ, "read"),
        ] {
            let area = [x, y - 10.0, 26.0, 12.0];
            self.shapes.push(Shape::Fill(colour, vec![area]));
            self.shapes.push(Shape::Outline(INK, area, 0.6));
            self.text([x + 33.0, y], 0.0, 13.0, INK, text.to_owned());
            // CAST: a few letters.
            x += 62.0 + 7.3 * text.len() as f64;
        }
    }
}

fn title(moment: &Moment) -> String {
    let Moment {
        chosen,
        allocation,
        counts,
        ..
    } = moment;
    let what = match &moment.step {
        None => "before the first request".to_owned(),
        Some(_) => format!("after request {} of {}", counts.requests, chosen.requests),
    };
    format!("Zone {}, {allocation} allocation, {what}", chosen.zone)
}

fn details(moment: &Moment) -> String {
    let geometry = moment.chosen.header.geometry;
    let used = moment.used.count();
    // CAST: at most 65,536 blocks.
    let percent = f64::from(used) * 100.0 / f64::from(geometry.zone_blocks());
    let Counts { written, extra, .. } = moment.counts;
    let mut text = format!(
        "{used} of {} blocks in use ({percent:.1} %); the host wrote {written}, {extra} more were rewritten; \
         write amplification {}",
        geometry.zone_blocks(),
        Waf(written + extra, written)
    );
    text.push_str(&format!("; phase {}", phase(moment)));
    text
}

/// The phase in which the next block falls that is written for the first time.
fn phase(moment: &Moment) -> u32 {
    let geometry = moment.chosen.header.geometry;
    let allocation = moment.allocation;
    let has_room = |track: &Track| {
        let first = geometry.track_start(*track).0;
        let end = first + geometry.track_len(track.kind);
        (first..end).any(|place| !moment.used.get(place))
    };
    let mut tracks = (0..).map_while(|index| allocation.track(&geometry, index));
    match tracks.find(has_room) {
        Some(track) => allocation.phase(&geometry, track),
        None => allocation.phases(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_numbers_or_shares() {
        assert_eq!("12".parse(), Ok(At::Request(12)));
        assert_eq!("50%".parse(), Ok(At::Share(0.5)));
        assert_eq!("used=30%".parse(), Ok(At::Used(0.3)));
        assert_eq!("rewrite=0%".parse(), Ok(At::Rewrite(0.0)));
        for wrong in [
            "", "%", "-1", "101%", "1.5", "NaN%", "half", "used=", "used=3", "full=3%",
        ] {
            assert!(wrong.parse::<At>().is_err(), "{wrong}");
        }
    }
}
