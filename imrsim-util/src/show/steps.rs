// SPDX-License-Identifier: GPL-2.0-only

//! Steps of a recording: a request of the host, and all that the drive does for it. Recordings of drives
//! of the kernel have a step for each run of a request, and one of them counts as the request.
//!
//! What happens belongs to the request before it. Of requests that a drive of the kernel works on at the
//! same time, rewrites may be shown one step late.

use std::{io::Read, ops::ControlFlow};

use anyhow::Result;
use imrsim_core::{Allocation, Bo};
use serde::Serialize;

use crate::recording::{Bits, Event, Moment, Op, Player, Request, Rmw};

/// Consecutive blocks of a zone: the first, and how many.
pub type Run = (u32, u32);

/// A request, and what the drive does for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub time: u64,
    /// What the host asks for.
    pub request: Request,
    /// The strategy, if it is a new one.
    pub strategy: Option<Allocation>,
    /// Places of those of its blocks that were mapped.
    pub touched: Vec<Run>,
    /// Places that are taken.
    pub taken: Vec<Run>,
    /// Places that become free.
    pub freed: Vec<Run>,
    /// Rewrites.
    pub rmws: Vec<Rmw>,
}

impl Step {
    fn new(
        time: u64,
        request: Request,
        strategy: Option<Allocation>,
        before: Option<&Moment>,
    ) -> Self {
        let touched = match request.op {
            Op::Read if request.zeros => Vec::new(),
            Op::Read | Op::Write => places(before, request.bo, request.blocks),
            Op::Discard | Op::Reset => Vec::new(),
        };
        Self {
            time,
            request,
            strategy,
            touched,
            taken: Vec::new(),
            freed: Vec::new(),
            rmws: Vec::new(),
        }
    }

    /// Top blocks that are saved for its sake.
    pub fn extra_writes(&self) -> u32 {
        self.rmws.iter().map(Rmw::extra_writes).sum()
    }

    /// What was in use before, if `after` is after it.
    pub fn used_before(&self, after: &Bits) -> Bits {
        let mut used = after.clone();
        for (runs, to) in [(&self.taken, false), (&self.freed, true)] {
            for place in runs
                .iter()
                .flat_map(|(first, blocks)| *first..first + blocks)
            {
                used.set(place, to);
            }
        }
        used
    }

    /// The block that it is about: of a rewrite, the bottom block.
    pub fn focus(&self) -> Option<u32> {
        let rewritten = self.rmws.first().map(|rmw| rmw.nbo.0);
        let others = self
            .written()
            .chain(self.touched.iter().chain(&self.freed).copied());
        rewritten.or_else(|| others.map(|(first, _)| first).next())
    }

    /// Places that the host's data goes to.
    pub fn written(&self) -> impl Iterator<Item = Run> + '_ {
        let is_write = self.request.op == Op::Write;
        let updated = self.touched.iter().filter(move |_| is_write);
        updated.chain(&self.taken).copied()
    }
}

/// What is counted from the beginning of the recording on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Blocks that the host read.
    pub read: u64,
    /// Blocks that the host wrote.
    pub written: u64,
    /// Top blocks written back.
    pub extra: u64,
    /// Rewrites.
    pub rmws: u64,
    /// Places in use.
    pub used: u64,
}

impl Counts {
    /// Counts a step.
    pub fn add(&mut self, step: &Step) {
        let blocks = u64::from(step.request.blocks);
        self.requests += u64::from(!step.request.more);
        match step.request.op {
            Op::Read => self.read += blocks,
            Op::Write => self.written += blocks,
            Op::Discard | Op::Reset => {}
        }
        self.extra += u64::from(step.extra_writes());
        self.rmws += step.rmws.len() as u64;
    }
}

/// Where the blocks lie that are mapped.
fn places(before: Option<&Moment>, bo: Bo, blocks: u32) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let Some(moment) = before else {
        return runs;
    };
    for nbo in (0..blocks).filter_map(|i| moment.snapshot.lookup(bo.after(i))) {
        match runs.last_mut() {
            Some((first, blocks)) if *first + *blocks == nbo.0 => *blocks += 1,
            _ => runs.push((nbo.0, 1)),
        }
    }
    runs
}

/// Plays one zone step by step, until the end or until `see` breaks. It gets each step, and the places
/// that are in use after it.
///
/// # Errors
///
/// If the recording is damaged, or `see` fails.
pub fn play<R: Read>(
    player: &mut Player<R>,
    zone: u64,
    mut see: impl FnMut(&Step, &Bits) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    let mut current: Option<Step> = None;
    let mut strategy = None;
    let played = player.play(|time, event, before| {
        match event {
            Event::Request(request) => {
                if let (Some(step), Some(moment)) = (&current, before) {
                    if see(step, moment.snapshot.used())?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                current = Some(Step::new(time, *request, strategy.take(), before));
            }
            Event::Strategy(allocation) => strategy = Some(*allocation),
            Event::RmwDone { .. } | Event::Commit { .. } | Event::CountersReset => {}
            Event::Alloc { nbo, blocks, .. } => {
                if let Some(step) = &mut current {
                    step.taken.push((nbo.0, *blocks));
                }
            }
            Event::RmwStart(rmw) => {
                if let Some(step) = &mut current {
                    step.rmws.push(*rmw);
                }
            }
            Event::Unmap { bo, blocks } | Event::Failed { bo, blocks } => {
                if let Some(step) = &mut current {
                    step.freed.extend(places(before, *bo, *blocks));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if let (ControlFlow::Continue(()), Some(step)) = (played, &current) {
        if let Some(moment) = player.moments().get(&zone) {
            return see(step, moment.snapshot.used());
        }
    }
    Ok(played)
}
