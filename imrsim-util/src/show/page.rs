// SPDX-License-Identifier: GPL-2.0-only

//! A page that plays a recording: one HTML file with everything in it.
//!
//! The steps are packed as numbers of as many bytes as they need, compressed, and unpacked by
//! `page.js`, whose `Decoder` is the other side of [`Packer`]. Of a recording with very many steps, a step
//! of the page is a group of them: counts are exact, the places in use, too, and of what happened
//! to blocks there is the last request of the group and how much each track was written.

use std::{collections::BTreeMap, io::Write, ops::ControlFlow, path::Path};

use anyhow::{Context, Result};
use flate2::{write::GzEncoder, Compression};
use imrsim_core::{Geometry, Nbo, Track, TrackKind};
use serde::Serialize;

use super::{
    base64,
    steps::{self, Counts, Run, Step},
    Chosen,
};
use crate::recording::{varint, Bits, Clock, Op, Rmw, Source};

const HTML: &str = include_str!("page.html");
const CSS: &str = include_str!("page.css");
const JS: &str = concat!(
    include_str!("recording.js"),
    include_str!("draw.js"),
    include_str!("page.js"),
);

/// Up to so many steps of the recording, each is one of the page.
pub const DETAIL: u64 = 300_000;
/// How many there are on the page if there are more, at most.
const GROUPS: u64 = 20_000;

/// What the page knows besides the steps.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct About<'a> {
    name: &'a str,
    version: &'static str,
    top: u32,
    bottom: u32,
    groups: u32,
    zone: u64,
    zones: u64,
    recorded: u64,
    phases: u32,
    source: &'static str,
    has_time: bool,
    requests: u64,
    /// Of the recording: requests, or runs of them.
    runs: u64,
    events: u64,
    /// Of the page.
    steps: u64,
    per_step: u64,
    /// What the page has to count up to.
    last: Counts,
}

/// Writes the page that plays a zone of the recording `path`. Up to `detail` steps, each is one
/// of the page.
///
/// # Errors
///
/// If the recording is damaged, or `out` cannot be written.
pub fn write(path: &Path, chosen: &Chosen, detail: u64, out: &mut dyn Write) -> Result<()> {
    let per_step = match chosen.steps {
        steps if steps <= detail => 1,
        steps => steps.div_ceil(GROUPS.min(detail.max(1))),
    };
    let header = &chosen.header;
    let mut player = chosen.player(path)?;
    let mut packer = None;
    let _ = steps::play(&mut player, chosen.zone, |step, used| {
        let packer = packer.get_or_insert_with(|| {
            let has_time = header.clock == Clock::Nanoseconds;
            Packer::new(header.geometry, has_time, per_step, &step.used_before(used))
        });
        packer.add(step, used)?;
        Ok(ControlFlow::Continue(()))
    })
    .with_context(|| path.display().to_string())?;
    let moment = player.moments().get(&chosen.zone);
    let used = moment
        .context("the zone is not in the recording")?
        .snapshot
        .used();
    let packer = packer.unwrap_or_else(|| Packer::new(header.geometry, false, 1, used));
    let (steps, packed, last) = packer.finish(used)?;
    let about = About {
        name: &path.file_name().unwrap_or_default().to_string_lossy(),
        version: env!("CARGO_PKG_VERSION"),
        top: header.geometry.top_blocks(),
        bottom: header.geometry.bottom_blocks(),
        groups: header.geometry.groups(),
        zone: chosen.zone,
        zones: header.zones,
        recorded: chosen.recorded,
        phases: header.allocation.phases(),
        source: match header.source {
            Source::Simulation => "simulation",
            Source::Kernel => "kernel",
        },
        has_time: header.clock == Clock::Nanoseconds,
        requests: chosen.requests,
        runs: chosen.steps,
        events: chosen.events,
        steps,
        per_step,
        last,
    };
    // A '<' could end the script that it stands in.
    let about = serde_json::to_string(&about)?.replace('<', "\\u003c");
    let mut rest = HTML;
    for (mark, part) in [("/*CSS*/", CSS), ("/*ABOUT*/", &about), ("/*DATA*/", "")] {
        let (before, after) = rest
            .split_once(mark)
            .context("the page has no such place")?;
        out.write_all(before.as_bytes())?;
        out.write_all(part.as_bytes())?;
        rest = after;
    }
    base64::write(&packed, out)?;
    let (before, after) = rest
        .split_once("/*JS*/")
        .context("the page has no script")?;
    for part in [before, JS, after] {
        out.write_all(part.as_bytes())?;
    }
    Ok(out.flush()?)
}

/// Packs steps.
struct Packer {
    geometry: Geometry,
    has_time: bool,
    per_step: u64,
    out: GzEncoder<Vec<u8>>,
    row: Vec<u8>,
    steps: u64,
    counts: Counts,
    time: u64,
    bo: u32,
    place: u32,
    group: Group,
}

/// What is collected until a group is complete.
#[derive(Default)]
struct Group {
    steps: u64,
    last: Option<Step>,
    before: Counts,
    /// By number of the track: host blocks written there, blocks written back there.
    tracks: BTreeMap<u32, (u64, u64)>,
    /// Places that were taken or freed, in whatever order.
    changed: Vec<Run>,
    used: Bits,
}

impl Packer {
    fn new(geometry: Geometry, has_time: bool, per_step: u64, used: &Bits) -> Self {
        let mut row = Vec::new();
        let runs: Vec<Run> = used.runs().collect();
        put_sorted(&mut row, &runs);
        Self {
            geometry,
            has_time,
            per_step,
            out: GzEncoder::new(Vec::new(), Compression::new(9)),
            row,
            steps: 0,
            counts: Counts::default(),
            time: 0,
            bo: 0,
            place: 0,
            group: Group {
                used: used.clone(),
                ..Group::default()
            },
        }
    }

    fn add(&mut self, step: &Step, used: &Bits) -> Result<()> {
        self.counts.add(step);
        if self.per_step == 1 {
            self.put_step(step);
            return self.end_row();
        }
        let group = &mut self.group;
        group.steps += 1;
        let track = |place| track_number(&self.geometry, place);
        for place in step
            .written()
            .flat_map(|(first, blocks)| first..first + blocks)
        {
            group.tracks.entry(track(place)).or_default().0 += 1;
        }
        for top in step.rmws.iter().flat_map(Rmw::top_blocks) {
            group.tracks.entry(track(top.0)).or_default().1 += 1;
        }
        group.changed.extend(&step.taken);
        group.changed.extend(&step.freed);
        let strategy = group.last.as_ref().and_then(|last| last.strategy);
        group.last = Some(step.clone());
        if let Some(last) = &mut group.last {
            last.strategy = last.strategy.or(strategy);
        }
        if group.steps == self.per_step {
            self.put_group(used)?;
        }
        Ok(())
    }

    fn finish(mut self, used: &Bits) -> Result<(u64, Vec<u8>, Counts)> {
        if self.group.steps > 0 {
            self.put_group(used)?;
        }
        self.out.write_all(&self.row)?;
        self.counts.used = used.count().into();
        Ok((self.steps, self.out.finish()?, self.counts))
    }

    fn end_row(&mut self) -> Result<()> {
        self.steps += 1;
        self.out.write_all(&self.row)?;
        self.row.clear();
        Ok(())
    }

    fn put_group(&mut self, used: &Bits) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        let (now, was) = (self.counts, group.before);
        for number in [
            now.requests - was.requests,
            now.read - was.read,
            now.written - was.written,
            now.extra - was.extra,
            now.rmws - was.rmws,
        ] {
            varint::put(&mut self.row, number);
        }
        let mut toggled = Bits::new(used.len());
        for place in group
            .changed
            .iter()
            .flat_map(|(first, blocks)| *first..first + blocks)
        {
            if group.used.set(place, used.get(place)) {
                toggled.set(place, true);
            }
        }
        // Most groups change nothing once a zone is full.
        let runs: Vec<Run> = match group.changed.is_empty() {
            true => Vec::new(),
            false => toggled.runs().collect(),
        };
        put_sorted(&mut self.row, &runs);
        varint::put(&mut self.row, group.tracks.len() as u64);
        let mut next = 0;
        for (track, (written, saved)) in std::mem::take(&mut group.tracks) {
            varint::put(&mut self.row, (track - next).into());
            varint::put(&mut self.row, written);
            varint::put(&mut self.row, saved);
            next = track + 1;
        }
        if let Some(last) = group.last.take() {
            self.put_step(&last);
        }
        self.group = Group {
            before: now,
            used: group.used,
            ..Group::default()
        };
        self.end_row()
    }

    fn put_step(&mut self, step: &Step) {
        let op = match step.request.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Discard => 2,
            Op::Reset => 3,
        };
        let lists = [&step.taken, &step.touched, &step.freed];
        let mut head = op;
        head |= u64::from(step.request.more) << 2;
        head |= u64::from(step.strategy.is_some()) << 3;
        for (list, bit) in lists.into_iter().zip(4..) {
            head |= u64::from(!list.is_empty()) << bit;
        }
        head |= u64::from(!step.rmws.is_empty()) << 7;
        varint::put(&mut self.row, head);
        if let Some(strategy) = step.strategy {
            varint::put(&mut self.row, strategy.phases().into());
        }
        if self.has_time {
            varint::put(&mut self.row, step.time.saturating_sub(self.time));
            self.time = step.time;
        }
        varint::put_step(&mut self.row, self.bo, step.request.bo.0);
        self.bo = step.request.bo.0;
        varint::put(&mut self.row, step.request.blocks.into());
        for list in lists.into_iter().filter(|list| !list.is_empty()) {
            varint::put(&mut self.row, list.len() as u64);
            for (first, blocks) in list {
                self.put_run(*first, *blocks);
            }
        }
        if !step.rmws.is_empty() {
            varint::put(&mut self.row, step.rmws.len() as u64);
            for rmw in &step.rmws {
                self.put_rmw(rmw);
            }
        }
    }

    fn put_rmw(&mut self, rmw: &Rmw) {
        self.put_run(rmw.nbo.0, rmw.blocks);
        let mut runs: Vec<Run> = Vec::new();
        for Nbo(top) in rmw.top_blocks() {
            match runs.last_mut() {
                Some((first, blocks)) if *first + *blocks == top => *blocks += 1,
                _ => runs.push((top, 1)),
            }
        }
        varint::put(&mut self.row, runs.len() as u64);
        let place = self.place;
        for (first, blocks) in runs {
            self.put_run(first, blocks);
        }
        self.place = place;
    }

    fn put_run(&mut self, first: u32, blocks: u32) {
        varint::put_step(&mut self.row, self.place, first);
        varint::put(&mut self.row, blocks.into());
        self.place = first;
    }
}

/// Appends runs in ascending order: how many, and of each the gap in front of it and its length.
fn put_sorted(out: &mut Vec<u8>, runs: &[Run]) {
    varint::put(out, runs.len() as u64);
    let mut end = 0;
    for (first, blocks) in runs {
        varint::put(out, (first - end).into());
        varint::put(out, (*blocks).into());
        end = first + blocks;
    }
}

/// Tracks in physical order: top 0, bottom 0, top 1, ...
fn track_number(geometry: &Geometry, place: u32) -> u32 {
    let Track { group, kind } = geometry.locate(Nbo(place)).track;
    2 * group + u32::from(kind == TrackKind::Bottom)
}
