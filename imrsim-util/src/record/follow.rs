// SPDX-License-Identifier: GPL-2.0-only

//! Follows the zones of a drive by their events, writes these down, and checks that they lead where the drive got.

use std::{collections::BTreeMap, io::Write};

use anyhow::{bail, ensure, Context, Result};
use imrsim_core::{Bo, Geometry, Stats};

use crate::{
    recording::{Event, Moment, Request, Snapshot, Writer},
    tracefs::{Traced, What},
};

/// How far the recording of a zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its beginning has not come.
    Before,
    /// It goes on.
    Within,
    /// Its end has come.
    After,
}

/// A zone.
#[derive(Debug)]
struct Followed {
    stage: Stage,
    started: bool,
    moment: Moment,
    /// What the drive says that it is at its end.
    end: Option<Snapshot>,
}

/// What was seen of the zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) events: u64,
    pub(super) requests: u64,
    pub(super) rewrites: u64,
    /// Zones with events.
    pub(super) zones: u64,
    /// When the first of them was, and the last.
    pub(super) times: Option<(u64, u64)>,
}

/// The zones, and the recording of them. Of each, what counts lies between the events of two snapshots, with the
/// cookie of the beginning and with that of the end.
#[derive(Debug)]
pub(super) struct Follower<W> {
    geometry: Geometry,
    writer: Writer<W>,
    cookies: [u64; 2],
    zones: BTreeMap<u64, Followed>,
    /// Zones that have not begun, and those that have not ended.
    missing: [usize; 2],
    seen: Seen,
    /// The zone of the event before.
    zone: u64,
}

impl<W: Write> Follower<W> {
    pub(super) fn new(writer: Writer<W>, cookies: [u64; 2]) -> Self {
        Self {
            geometry: writer.header().geometry,
            writer,
            cookies,
            zones: BTreeMap::new(),
            missing: [0; 2],
            seen: Seen::default(),
            zone: 0,
        }
    }

    /// Learns of a zone, and what the drive says that it is at its beginning; that event is still to come.
    pub(super) fn begin(&mut self, snapshot: Snapshot) {
        let followed = Followed {
            stage: Stage::Before,
            started: false,
            moment: Moment::new(snapshot),
            end: None,
        };
        let zone = followed.moment.snapshot.zone;
        if self.zones.insert(zone, followed).is_none() {
            self.missing = self.missing.map(|zones| zones + 1);
        }
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen
    }

    /// Whether all zones have begun.
    pub(super) fn has_begun(&self) -> bool {
        self.missing[0] == 0
    }

    /// Whether all zones have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.missing[1] == 0
    }

    /// A zone whose beginning, or end, has not come.
    pub(super) fn awaited(&self) -> Option<u64> {
        let awaited = match self.has_begun() {
            false => |it: &Followed| it.stage == Stage::Before,
            true => |it: &Followed| it.stage != Stage::After,
        };
        let mut zones = self.zones.iter();
        zones.find(|(_, it)| awaited(it)).map(|(zone, _)| *zone)
    }

    /// Learns what the drive says of a zone at its end; that event is still to come.
    pub(super) fn end(&mut self, snapshot: Snapshot) {
        if let Some(it) = self.zones.get_mut(&snapshot.zone) {
            it.end = Some(snapshot);
        }
    }

    /// Takes the next event of the drive.
    pub(super) fn see(&mut self, traced: &Traced) -> Result<()> {
        let Some(zone) = traced.zone else {
            return self.see_drive(traced);
        };
        let Some(followed) = self.zones.get_mut(&zone) else {
            return Ok(());
        };
        let event = match &traced.what {
            What::Event(event) => event,
            What::Snapshot { cookie } if *cookie == self.cookies[0] => {
                if followed.stage == Stage::Before {
                    followed.stage = Stage::Within;
                    self.missing[0] -= 1;
                }
                return Ok(());
            }
            What::Snapshot { cookie } if *cookie == self.cookies[1] => {
                if followed.stage == Stage::Within {
                    followed.stage = Stage::After;
                    self.missing[1] -= 1;
                    return followed.check();
                }
                return Ok(());
            }
            What::Snapshot { .. } => return Ok(()),
        };
        if followed.stage != Stage::Within {
            return Ok(());
        }
        if !followed.started {
            followed.started = true;
            self.seen.zones += 1;
            self.writer.start(&followed.moment.snapshot)?;
        }
        let applied = match event.fits(&self.geometry) {
            true => followed.moment.apply(&self.geometry, event),
            false => Err(anyhow::anyhow!(
                "it names blocks that the zone does not have"
            )),
        };
        applied.with_context(|| {
            let seq = traced.seq;
            format!(
                "the events of zone {zone} do not fit together at number {seq}{}: {event:?}",
                CAUSES
            )
        })?;
        self.zone = zone;
        match event {
            Event::Request(Request { more, .. }) => self.seen.requests += u64::from(!*more),
            Event::RmwStart(_) => self.seen.rewrites += 1,
            _ => {}
        }
        self.write(traced.time, event)
    }

    fn see_drive(&mut self, traced: &Traced) -> Result<()> {
        let What::Event(event) = &traced.what else {
            return Ok(());
        };
        // How blocks are allocated is known from a moment before the zones' beginnings on.
        let wanted = self.has_begun() && !self.has_ended() || matches!(event, Event::Strategy(_));
        match wanted {
            true => self.write(traced.time, event),
            false => Ok(()),
        }
    }

    fn write(&mut self, time: u64, event: &Event) -> Result<()> {
        let (first, last) = self.seen.times.unwrap_or((time, time));
        self.seen.times = Some((first, last.max(time)));
        self.seen.events += 1;
        self.writer
            .event(time.saturating_sub(first), self.zone, event)
    }

    /// Writes what the zones are in the end.
    pub(super) fn finish(mut self) -> Result<W> {
        ensure!(self.has_ended(), "zones have no end in the recording");
        for followed in self.zones.values().filter(|it| it.started) {
            self.writer.end(&followed.moment.snapshot)?;
        }
        self.writer.finish()
    }
}

/// What may be behind events that do not lead where the drive got.
const CAUSES: &str =
    " (is something else than this program in its trace files? If not, this is an error in IMRSim)";

impl Followed {
    /// Compares what the events led to with what the drive says.
    fn check(&mut self) -> Result<()> {
        let here = &self.moment.snapshot;
        let zone = here.zone;
        let Some(end) = self.end.take() else {
            bail!("the event of a snapshot of zone {zone} that was not made");
        };
        if let Some(difference) = difference(here, &end) {
            bail!(
                "the events of zone {zone} do not lead to the drive's state: {difference}{CAUSES}"
            );
        }
        let rewriting = self.moment.rewriting.len();
        ensure!(
            rewriting == 0,
            "{rewriting} rewrites of zone {zone} have no end in the events, but in the drive{CAUSES}"
        );
        Ok(())
    }
}

/// The first thing in which a zone as it should be differs from how it is.
fn difference(here: &Snapshot, drive: &Snapshot) -> Option<String> {
    if here == drive {
        return None;
    }
    let counters = here.stats.values().into_iter().zip(drive.stats.values());
    for (indicator, (ours, theirs)) in Stats::INDICATORS.iter().zip(counters) {
        if ours != theirs {
            let name = indicator.name;
            return Some(format!("by them, {name} is {ours}; by the drive, {theirs}"));
        }
    }
    let place = |it: &Snapshot, bo| match it.lookup(bo) {
        Some(nbo) => format!("at {nbo}"),
        None => "nowhere".to_owned(),
    };
    let other = (0..here.mapped().len())
        .map(Bo)
        .find(|bo| here.lookup(*bo) != drive.lookup(*bo));
    Some(match other {
        Some(bo) => {
            let (ours, theirs) = (place(here, bo), place(drive, bo));
            format!("by them, block {bo} lies {ours}; by the drive, {theirs}")
        }
        None => "other places are in use".to_owned(),
    })
}
