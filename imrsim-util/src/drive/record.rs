// SPDX-License-Identifier: GPL-2.0-only

//! A drive that writes down what it does. What a drive does without that knows nothing of it but
//! one look, for each request to a zone, at whether there is a recorder.

use std::{fmt, io::Write};

use anyhow::{bail, Result};
use imrsim_core::{Allocation, Bo, DiscardPart, Geometry, Piece, Plan};

use super::{write_runs, Drive, Memory, Part, Touched};
use crate::recording::{Clock, Event, Header, Op, Request, Rmw, Snapshot, Source, Writer};

/// Where a drive writes down what it does.
pub(super) struct Recorder {
    writer: Writer<Box<dyn Write + Send>>,
    /// Requests so far.
    time: u64,
    /// How blocks were allocated so far.
    allocation: Allocation,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    #[inline]
    pub(super) fn wants(&self, zone: usize) -> bool {
        self.writer.header().wants(zone as u64)
    }

    /// Begins with a request to a zone, and with the zone if it is the first.
    fn request(
        &mut self,
        snapshot: impl FnOnce() -> Snapshot,
        zone: u64,
        allocation: Allocation,
        request: Request,
    ) -> Result<()> {
        if allocation != self.allocation {
            self.allocation = allocation;
            self.event(zone, &Event::Strategy(allocation))?;
        }
        if !self.writer.has_started(zone) {
            self.writer.start(&snapshot())?;
        }
        self.time += 1;
        self.event(zone, &Event::Request(request))
    }

    fn event(&mut self, zone: u64, event: &Event) -> Result<()> {
        self.writer.event(self.time, zone, event)
    }

    fn plan(&mut self, zone: u64, plan: &Plan) -> Result<()> {
        let &Plan {
            bo, nbo, blocks, ..
        } = plan;
        if plan.first {
            self.event(zone, &Event::Alloc { bo, nbo, blocks })?;
        }
        if plan.is_rmw() {
            let tops = plan.neighbours;
            self.event(zone, &Event::RmwStart(Rmw { nbo, blocks, tops }))?;
            self.event(zone, &Event::RmwDone { nbo })?;
        }
        Ok(())
    }
}

impl Touched {
    fn snapshot(&mut self, geometry: &Geometry, zone: u64) -> Snapshot {
        match &mut self.memory {
            Some(memory) => Snapshot::of(&memory.zone(geometry), zone, self.stats),
            None => {
                let mut empty = Snapshot::new(geometry, zone);
                empty.stats = self.stats;
                empty
            }
        }
    }
}

fn of_part(op: Op, part: &Part) -> Request {
    Request {
        op,
        bo: part.request.bo,
        blocks: part.request.blocks,
        head_partial: part.request.head_partial,
        tail_partial: part.request.tail_partial,
        crosses_zone: part.goes_on,
        more: false,
        zeros: false,
    }
}

impl Drive {
    /// Writes down, from now on, what happens in zone `only`, or in all zones; see
    /// [`recording`](crate::recording). Until [`end_recording`](Self::end_recording), counters are not
    /// to be set to zero.
    ///
    /// # Errors
    ///
    /// If there is no such zone, or nothing can be written to `out`.
    pub fn record(&mut self, only: Option<u64>, out: Box<dyn Write + Send>) -> Result<()> {
        let zones = self.zone_count();
        if let Some(zone) = only.filter(|zone| *zone >= zones) {
            bail!("there is no zone {zone}: the drive has {zones}");
        }
        let header = Header {
            geometry: self.geometry,
            zones,
            allocation: self.settings.strategy(),
            source: Source::Simulation,
            clock: Clock::Requests,
            only,
        };
        let writer = Writer::new(header, out)?;
        self.recorder = Some(Box::new(Recorder {
            writer,
            time: 0,
            allocation: header.allocation,
        }));
        Ok(())
    }

    /// Completes what [`record`](Self::record) began, if it did.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn end_recording(&mut self) -> Result<()> {
        let Some(recorder) = self.recorder.take() else {
            return Ok(());
        };
        let mut writer = recorder.writer;
        let zones: Vec<u64> = writer.zones().collect();
        for zone in zones {
            let slot = self.zones.get_mut(usize::try_from(zone)?);
            if let Some(touched) = slot.and_then(|slot| slot.touched.as_mut()) {
                writer.end(&touched.snapshot(&self.geometry, zone))?;
            }
        }
        writer.finish()?;
        Ok(())
    }

    /// What is recorded, and of which zone.
    fn recorded(&mut self, zone: usize) -> Option<(&mut Recorder, &mut Touched)> {
        let touched = self.zones[zone].touch(zone, &self.geometry, self.fill.as_ref());
        Some((self.recorder.as_mut()?, touched))
    }

    /// Writes to a zone, as without a recorder.
    #[cold]
    pub(super) fn write_part_recorded(&mut self, part: &Part) -> Result<()> {
        let (geometry, allocation) = (self.geometry, self.settings.strategy());
        let zone = part.zone as u64;
        let Some((recorder, touched)) = self.recorded(part.zone) else {
            return Ok(());
        };
        let request = of_part(Op::Write, part);
        let snapshot = || touched.snapshot(&geometry, zone);
        recorder.request(snapshot, zone, allocation, request)?;
        let Touched { stats, memory } = touched;
        let memory = memory.get_or_insert_with(|| Memory::new(&geometry));
        let mut written = Ok(());
        let done = write_runs(
            &mut memory.zone(&geometry),
            part.request,
            allocation,
            |plan, rest| {
                stats.count_write(plan, Piece::of(rest, plan.blocks, false, part.goes_on));
                if written.is_ok() {
                    written = recorder.plan(zone, plan);
                }
            },
        );
        if let Err(bo) = done {
            bail!("zone {zone} has no place for block {bo}");
        }
        written
    }

    /// Writes down a read of a zone, which is still to be done.
    #[cold]
    pub(super) fn note_read(&mut self, part: &Part) -> Result<()> {
        let (geometry, allocation) = (self.geometry, self.settings.strategy());
        let zone = part.zone as u64;
        match self.recorded(part.zone) {
            Some((recorder, touched)) => {
                let request = of_part(Op::Read, part);
                let snapshot = || touched.snapshot(&geometry, zone);
                recorder.request(snapshot, zone, allocation, request)
            }
            None => Ok(()),
        }
    }

    /// Writes down a discard in a zone that holds something, which is still to be done.
    #[cold]
    pub(super) fn note_discard(&mut self, part: &DiscardPart, counted: bool) -> Result<()> {
        let &DiscardPart {
            zone, bo, blocks, ..
        } = part;
        self.note_unmap(zone, Op::Discard, bo, blocks, counted)
    }

    /// Writes down a reset of a zone, which is still to be done.
    #[cold]
    pub(super) fn note_reset(&mut self, zone: u64) -> Result<()> {
        if !self.records(usize::try_from(zone)?) {
            return Ok(());
        }
        let blocks = self.geometry.zone_blocks();
        self.note_unmap(zone, Op::Reset, Bo(0), blocks, false)
    }

    fn note_unmap(&mut self, zone: u64, op: Op, bo: Bo, blocks: u32, more: bool) -> Result<()> {
        let (geometry, allocation) = (self.geometry, self.settings.strategy());
        let Some((recorder, touched)) = self.recorded(usize::try_from(zone)?) else {
            return Ok(());
        };
        let request = Request {
            op,
            bo,
            blocks,
            head_partial: false,
            tail_partial: false,
            crosses_zone: false,
            more,
            zeros: false,
        };
        let snapshot = || touched.snapshot(&geometry, zone);
        recorder.request(snapshot, zone, allocation, request)?;
        recorder.event(zone, &Event::Unmap { bo, blocks })
    }
}
