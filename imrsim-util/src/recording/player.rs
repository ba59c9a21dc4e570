// SPDX-License-Identifier: GPL-2.0-only

//! Follows a recording, event by event.

use std::{collections::BTreeMap, io::Read, ops::ControlFlow};

use anyhow::{bail, Context, Result};
use imrsim_core::{Allocation, Geometry};

use super::{Event, Item, Reader, Rmw, Snapshot};

/// A zone at one moment of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The zone.
    pub snapshot: Snapshot,
    /// The read-modify-writes that have begun and not ended.
    pub rewriting: Vec<Rmw>,
}

impl Moment {
    /// A zone in which no rewrite is under way.
    pub fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            rewriting: Vec::new(),
        }
    }

    /// Makes of it what an event makes of the zone. Events of the whole drive change nothing.
    ///
    /// # Errors
    ///
    /// If that cannot have happened. Then only a part of it is done.
    pub fn apply(&mut self, geometry: &Geometry, event: &Event) -> Result<()> {
        self.snapshot.apply(geometry, event)?;
        match event {
            Event::RmwStart(rmw) => self.rewriting.push(*rmw),
            Event::RmwDone { nbo } => {
                let of = self.rewriting.iter().position(|rmw| rmw.nbo == *nbo);
                self.rewriting
                    .swap_remove(of.context("a rewrite ends that did not begin")?);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Plays a recording and checks it: what the events make of the zones has to be what was recorded at
/// the end.
#[derive(Debug)]
pub struct Player<R> {
    reader: Reader<R>,
    only: Option<u64>,
    allocation: Allocation,
    moments: BTreeMap<u64, Moment>,
}

impl<R: Read> Player<R> {
    /// Plays `reader`: one zone, or all that were recorded.
    pub fn new(reader: Reader<R>, only: Option<u64>) -> Self {
        Self {
            allocation: reader.header().allocation,
            reader,
            only,
            moments: BTreeMap::new(),
        }
    }

    /// How blocks are allocated now.
    pub fn allocation(&self) -> Allocation {
        self.allocation
    }

    /// The zones that were seen so far, as they are now.
    pub fn moments(&self) -> &BTreeMap<u64, Moment> {
        &self.moments
    }

    /// Plays up to the end, or until `see` breaks. `see` gets each event with its time, its zone and
    /// what that was before; for an event of the whole drive, there is no zone.
    ///
    /// # Errors
    ///
    /// If the recording cannot be read, is damaged, or does not lead where it says; and if `see` fails.
    pub fn play(
        &mut self,
        mut see: impl FnMut(u64, &Event, Option<&Moment>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        while let Some(item) = self.reader.next_item()? {
            match item {
                Item::Start(snapshot) if self.plays(snapshot.zone) => {
                    self.moments.insert(snapshot.zone, Moment::new(snapshot));
                }
                Item::Final(snapshot) => {
                    let moment = self.moments.get(&snapshot.zone);
                    if moment.is_some_and(|moment| moment.snapshot != snapshot) {
                        let zone = snapshot.zone;
                        bail!("the events of zone {zone} do not lead to the state at the end");
                    }
                }
                Item::Start(_) => {}
                Item::Event { time, zone, event } => {
                    let of_drive = event.is_of_drive();
                    if !of_drive && !self.plays(zone) {
                        continue;
                    }
                    let before = (!of_drive).then(|| self.moments.get(&zone)).flatten();
                    if see(time, &event, before)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    self.apply(zone, &event).with_context(|| {
                        format!("event {} of the recording", self.reader.events())
                    })?;
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn plays(&self, zone: u64) -> bool {
        self.only.is_none_or(|only| only == zone)
    }

    fn apply(&mut self, zone: u64, event: &Event) -> Result<()> {
        if let Event::Strategy(allocation) = event {
            self.allocation = *allocation;
        }
        let geometry = &self.reader.header().geometry;
        let Some(moment) = self.moments.get_mut(&zone).filter(|_| !event.is_of_drive()) else {
            return Ok(());
        };
        moment.apply(geometry, event)
    }
}
