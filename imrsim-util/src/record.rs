// SPDX-License-Identifier: GPL-2.0-only

//! Records a drive of the kernel: makes a [`recording`](crate::recording) of its trace events, while whatever works
//! with it.
//!
//! Of each zone a snapshot is taken at the beginning and one at the end. Each of them is an event, too, so that it is
//! known which other events lie between. These are followed, and have to lead from the one to the other: a recording
//! that is made is complete.

mod follow;
pub mod reorder;

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io::{self, Write},
    thread,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail, Context, Result};
use imrsim_core::{uapi::Config, Allocation, Geometry};
use serde::Serialize;

use self::{follow::Follower, reorder::Reorder};
use crate::{
    device::{Device, Quiet, Transport},
    exit::usage,
    recording::{Clock, Header, Snapshot, Source as Of, Writer},
    tracefs::{Dev, Line, Source, Stream, Traced},
};

/// The most zones that are recorded together. Of each, a state of about 150 KB is kept.
pub const MAX_ZONES: u64 = 1024;

/// How long to wait for something, at most, until one looks around; and how long events may take from one processor
/// to be there when those that another had later are.
const TICK: Duration = Duration::from_millis(100);

/// What to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Of which drive.
    pub dev: Dev,
    /// Only this zone.
    pub zone: Option<u64>,
    /// How long the event of a snapshot may take.
    pub patience: Duration,
}

impl Options {
    /// With the usual patience.
    pub fn new(dev: Dev, zone: Option<u64>) -> Self {
        Self {
            dev,
            zone,
            patience: Duration::from_secs(10),
        }
    }
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Yes.
    GoOn,
    /// No: the recording is to be completed.
    Finish,
    /// No, and nobody wants it any more.
    Abort,
}

/// Who says how long a recording goes on.
pub trait Control {
    /// The recording has begun: all that happens in the drive from now on will be in it.
    ///
    /// # Errors
    ///
    /// If it is to end as failed.
    fn begun(&mut self) -> Result<()>;

    /// Is asked several times in a second. After [`Next::Finish`], only [`Next::Abort`] counts.
    ///
    /// # Errors
    ///
    /// If it is to end as failed.
    fn next(&mut self, summary: &Summary) -> Result<Next>;
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Events.
    pub events: u64,
    /// Requests of the host. Those to several zones count in each.
    pub requests: u64,
    /// Read-modify-writes.
    pub rewrites: u64,
    /// Zones in which something happened.
    pub zones: u64,
    /// The time from the first event to the last.
    pub seconds: f64,
    /// Events that were lost. With any, there is no recording.
    pub lost: u64,
}

/// The shape of a drive.
///
/// # Errors
///
/// If this program does not know such drives.
fn shape(config: &Config) -> Result<(Geometry, Allocation)> {
    let &Config {
        top_blocks,
        bottom_blocks,
        groups,
        phases,
        ..
    } = config;
    let geometry = Geometry::new(top_blocks, bottom_blocks, groups)
        .map_err(|error| anyhow!("the drive's geometry: {error}"))?;
    let allocation = Allocation::from_phases(phases)
        .map_err(|_| anyhow!("this program does not know the drive's strategy"))?;
    Ok((geometry, allocation))
}

/// Which zones to record.
///
/// # Errors
///
/// If the drive has no such zone, or too many for all.
pub fn zones(config: &Config, zone: Option<u64>) -> Result<std::ops::Range<u64>> {
    let zones = config.zones;
    match zone {
        Some(zone) if zone >= zones => Err(usage(format!(
            "there is no zone {zone}: the drive has {zones}"
        ))),
        Some(zone) => Ok(zone..zone + 1),
        None if zones > MAX_ZONES => Err(usage(format!(
            "the drive has {zones} zones, of which no more than {MAX_ZONES} can be recorded together: \
             say which one, with --zone N"
        ))),
        None => Ok(0..zones),
    }
}

/// Records `device`, of which `stream` has the events from now on. Returns what was recorded, and `out`.
///
/// # Errors
///
/// If the drive or the kernel refuses, events are lost or are not what they should be, `out` cannot be written, or
/// `control` says so. Then what was written to `out` is no recording.
pub fn record<T: Transport, S: Source, W: Write>(
    device: &mut Device<T>,
    stream: &mut Stream<S>,
    options: &Options,
    control: &mut dyn Control,
    out: W,
) -> Result<(Summary, W)> {
    // After events began to be collected: a new strategy is in one or the other.
    let config = device.config()?;
    let numbers = zones(&config, options.zone)?;
    let (geometry, allocation) = shape(&config)?;
    let header = Header {
        geometry,
        zones: config.zones,
        allocation,
        source: Of::Kernel,
        clock: Clock::Nanoseconds,
        only: options.zone,
    };
    let writer = Writer::new(header, out)?;
    let cookie = RandomState::new().build_hasher().finish();
    let cookies = [cookie, cookie.wrapping_add(1)];
    let mut snapshots = Snapshots {
        device,
        geometry,
        cookies,
    };
    let mut reading = Reading {
        stream,
        dev: options.dev,
        reorder: Reorder::default(),
        settled: Instant::now(),
    };

    let mut follower = Follower::new(writer, cookies);
    for zone in numbers.clone() {
        loop {
            if reading.next(&follower, control)? != Next::GoOn {
                bail!("interrupted before the recording began");
            }
            if let Some(snapshot) = snapshots.take(zone, 0)? {
                follower.begin(snapshot);
                break;
            }
        }
        // So that there is room for more.
        reading.some(&mut |traced| follower.see(&traced))?;
    }
    let deadline = Instant::now() + options.patience;
    while !follower.has_begun() {
        reading.tick(&mut follower)?;
        if reading.next(&follower, control)? != Next::GoOn {
            bail!("interrupted before the recording began");
        }
        overdue(deadline, &follower)?;
    }
    control.begun()?;
    while reading.next(&follower, control)? == Next::GoOn {
        reading.tick(&mut follower)?;
    }

    for zone in numbers {
        loop {
            if reading.next(&follower, control)? == Next::Abort {
                bail!("interrupted: there is no recording");
            }
            if let Some(snapshot) = snapshots.take(zone, 1)? {
                follower.end(snapshot);
                break;
            }
        }
        reading.some(&mut |traced| follower.see(&traced))?;
    }
    // What the drive does from now on is of no interest, and is not to keep us from coming to the end.
    reading.stream.source().stop()?;
    let mut deadline = Instant::now() + options.patience;
    while !follower.has_ended() {
        if reading.tick(&mut follower)? {
            deadline = Instant::now() + options.patience;
        }
        if reading.next(&follower, control)? == Next::Abort {
            bail!("interrupted: there is no recording");
        }
        overdue(deadline, &follower)?;
    }
    reading.check_lost()?;
    let summary = summary(&follower);
    Ok((summary, follower.finish()?))
}

fn summary<W: Write>(follower: &Follower<W>) -> Summary {
    let seen = follower.seen();
    let (first, last) = seen.times.unwrap_or_default();
    Summary {
        events: seen.events,
        requests: seen.requests,
        rewrites: seen.rewrites,
        zones: seen.zones,
        seconds: Duration::from_nanos(last.saturating_sub(first)).as_secs_f64(),
        lost: 0,
    }
}

fn overdue<W: Write>(deadline: Instant, follower: &Follower<W>) -> Result<()> {
    match follower.awaited().filter(|_| Instant::now() > deadline) {
        Some(zone) => bail!(
            "the event of the snapshot of zone {zone} does not come: is this the drive itself, and nothing that lies \
             above it, and is nobody else in its trace files?"
        ),
        None => Ok(()),
    }
}

/// Snapshots of the beginning and of the end.
struct Snapshots<'a, T> {
    device: &'a mut Device<T>,
    geometry: Geometry,
    cookies: [u64; 2],
}

impl<T: Transport> Snapshots<'_, T> {
    /// One, or nothing if a signal came before, or the drive is suspended.
    fn take(&mut self, zone: u64, which: usize) -> Result<Option<Snapshot>> {
        let cookie = self.cookies[which];
        let taken = self
            .device
            .snapshot(&self.geometry, zone, Quiet::Yes, cookie);
        match taken {
            Ok((_, snapshot)) => Ok(Some(snapshot)),
            Err(error) => match kind(&error) {
                Some(io::ErrorKind::Interrupted) => Ok(None),
                // It is suspended. Whoever did that will resume it.
                Some(io::ErrorKind::WouldBlock) => {
                    thread::sleep(TICK);
                    Ok(None)
                }
                _ => Err(error),
            },
        }
    }
}

fn kind(error: &anyhow::Error) -> Option<io::ErrorKind> {
    Some(error.downcast_ref::<io::Error>()?.kind())
}

/// The events on their way.
struct Reading<'a, S> {
    stream: &'a mut Stream<S>,
    dev: Dev,
    reorder: Reorder,
    /// When the last while had passed.
    settled: Instant,
}

impl<S: Source> Reading<'_, S> {
    /// Reads what is there, for not much longer than a tick, and gives out those events that are in order. Returns
    /// whether anything was there.
    fn some(&mut self, see: &mut dyn FnMut(Traced) -> Result<()>) -> Result<bool> {
        let done = self.read(see);
        if done.is_err() {
            // If events are missing, that is why the others do not fit together.
            self.check_lost()?;
        }
        done
    }

    fn read(&mut self, see: &mut dyn FnMut(Traced) -> Result<()>) -> Result<bool> {
        let begin = Instant::now();
        let (dev, reorder) = (self.dev, &mut self.reorder);
        let mut any = false;
        loop {
            let got = self.stream.read(|line| match line {
                Line::Event(traced) if traced.dev != dev => Ok(()),
                // Nothing depends on where exactly it is among events of other zones, or of the whole drive.
                Line::Event(traced) if reorder.is_late(&traced) => {
                    reorder.note(&traced);
                    see(traced)
                }
                Line::Event(traced) => {
                    reorder.push(traced)?;
                    std::iter::from_fn(|| reorder.pop()).try_for_each(&mut *see)
                }
                Line::Lost(count) => Err(lost(count.unwrap_or(0))),
                Line::Other => Ok(()),
            })?;
            any |= got;
            let now = Instant::now();
            if !got && now.duration_since(self.settled) >= TICK {
                self.settled = now;
                reorder.settle();
                std::iter::from_fn(|| reorder.pop()).try_for_each(&mut *see)?;
            }
            if !got || now.duration_since(begin) >= TICK {
                return Ok(any);
            }
        }
    }

    /// The same; if nothing is there, waits for a moment.
    fn tick<W: Write>(&mut self, follower: &mut Follower<W>) -> Result<bool> {
        let any = self.some(&mut |traced| follower.see(&traced))?;
        if !any {
            let waited = self.stream.source().wait(TICK);
            waited.context("cannot wait for the kernel's trace")?;
        }
        Ok(any)
    }

    fn next<W: Write>(
        &mut self,
        follower: &Follower<W>,
        control: &mut dyn Control,
    ) -> Result<Next> {
        control.next(&summary(follower))
    }

    fn check_lost(&mut self) -> Result<()> {
        match self.stream.source().lost()? {
            0 => Ok(()),
            count => Err(lost(count)),
        }
    }
}

/// So many events, or an unknown number for 0, were lost.
fn lost(count: u64) -> anyhow::Error {
    let count = match count {
        0 => "events".to_owned(),
        1 => "1 event".to_owned(),
        count => format!("{count} events"),
    };
    anyhow!(
        "{count} of the drive got lost, as they came faster than they could be read: take a larger --buffer, or \
         record one zone with --zone"
    )
}
