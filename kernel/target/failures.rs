// SPDX-License-Identifier: GPL-2.0-only

//! What is noted of requests that have ended: the last failures, and latencies if they are measured.

use super::{write::PerBio, Imrsim, This};
use crate::{
    dm::{may_log, new_spinlock_irq, Op, SpinLockIrq, Status},
    imr::{
        latency::{bucket, Kind, BUCKETS},
        Cause,
    },
};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed}, //
};

/// A direction of requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Reads.
    Read,
    /// Writes, discards and flushes.
    Write,
}

/// What is known of the failures in one direction.
#[derive(Clone, Copy, Default)]
pub(super) struct Failure {
    /// Why the last one failed; [`None`] if none did.
    pub(super) cause: Option<Cause>,
    /// The Linux error number it ended with, positive.
    pub(super) errno: u32,
    /// Its zone, if that is known.
    pub(super) zone: Option<u64>,
    /// How many there were.
    pub(super) count: u64,
}

/// The failures since they were forgotten.
#[pin_data]
pub(super) struct Failures {
    #[pin]
    last: SpinLockIrq<[Failure; 2]>,
}

impl Failures {
    /// None.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            last <- new_spinlock_irq!([Failure::default(); 2], "imrsim failures"),
        })
    }

    /// The last failures: of reads, and of writes.
    pub(super) fn look(&self) -> [Failure; 2] {
        *self.last.lock()
    }

    /// Forgets the failures in a direction that were seen. Those that came since stay.
    pub(super) fn forget(&self, direction: Direction, seen: &Failure) {
        let [read, write] = &mut *self.last.lock();
        let failure = match direction {
            Direction::Read => read,
            Direction::Write => write,
        };
        failure.count = failure.count.saturating_sub(seen.count);
        if failure.count == 0 {
            *failure = Failure::default();
        }
    }

    fn note(&self, direction: Direction, cause: Cause, status: Status, zone: Option<u64>) {
        let [read, write] = &mut *self.last.lock();
        let failure = match direction {
            Direction::Read => read,
            Direction::Write => write,
        };
        *failure = Failure {
            cause: Some(cause),
            errno: status.to_error().to_errno().unsigned_abs(),
            zone,
            count: failure.count.saturating_add(1),
        };
    }
}

/// The latencies of one kind of request.
pub(super) struct Histogram {
    counts: [Atomic<u64>; BUCKETS],
    nanoseconds: Atomic<u64>,
}

impl Histogram {
    /// Nothing measured.
    pub(super) fn new() -> Self {
        Histogram {
            counts: core::array::from_fn(|_| Atomic::new(0)),
            nanoseconds: Atomic::new(0),
        }
    }

    fn add(&self, nanoseconds: u64) {
        if let Some(count) = self.counts.get(bucket(nanoseconds)) {
            count.add(1, Relaxed);
        }
        // Wraps round after centuries.
        self.nanoseconds.add(nanoseconds, Relaxed);
    }

    /// Requests by bucket, and the sum of their nanoseconds.
    pub(super) fn look(&self) -> ([u64; BUCKETS], u64) {
        let mut counts = [0; BUCKETS];
        for (to, count) in counts.iter_mut().zip(&self.counts) {
            *to = count.load(Relaxed);
        }
        (counts, self.nanoseconds.load(Relaxed))
    }

    /// Forgets everything.
    pub(super) fn reset(&self) {
        for count in &self.counts {
            count.store(0, Relaxed);
        }
        self.nanoseconds.store(0, Relaxed);
    }
}

/// A request has ended that was measured, or has failed.
#[cold]
pub(super) fn ended(
    this: This<'_>,
    per_bio: &PerBio,
    op: Op,
    status: Status,
    nanoseconds: Option<u64>,
) {
    if !status.is_ok() {
        note_failure(this.get(), per_bio, op, status);
    } else if let (Some(nanoseconds), Some(kind)) = (nanoseconds, kind(per_bio, op)) {
        if let Some(histogram) = this.latencies.get(kind.number()) {
            histogram.add(nanoseconds);
        }
    }
}

fn kind(per_bio: &PerBio, op: Op) -> Option<Kind> {
    Some(match op {
        Op::Read if matches!(per_bio, PerBio::Untracked) => Kind::ReadZeros,
        Op::Read => Kind::Read,
        Op::Write | Op::Flush => match per_bio {
            PerBio::Flush => Kind::Flush,
            PerBio::Write(write) if write.rewrote => Kind::Rewrite,
            _ => Kind::Write,
        },
        Op::Discard => Kind::Discard,
        Op::Other => return None,
    })
}

fn note_failure(this: &Imrsim, per_bio: &PerBio, op: Op, status: Status) {
    let direction = match op {
        Op::Read => Direction::Read,
        _ => Direction::Write,
    };
    let cause = match per_bio {
        PerBio::Refused(_, cause) => *cause,
        _ if status == Status::RESOURCE => Cause::Memory,
        _ if status == Status::NOT_SUPPORTED => Cause::Unsupported,
        _ if direction == Direction::Write && !this.store.is_writable() => Cause::Metadata,
        _ => Cause::Device,
    };
    let zone = match per_bio {
        PerBio::Reading(zone) | PerBio::WritingBlock(zone, _) | PerBio::Refused(zone, _) => {
            Some(*zone)
        }
        PerBio::Writing(writing) => Some(writing.zone),
        PerBio::Read(write) | PerBio::Write(write) => Some(write.range.zone),
        PerBio::Discard(discard) => {
            let zone = this.params.geometry.zone_of_sector(discard.sector);
            (zone < this.zones.len()).then_some(zone)
        }
        PerBio::Untracked | PerBio::Flush => None,
    };
    this.failures.note(direction, cause, status, zone);
    if this.settings().log_errors() != 0 && may_log() {
        let name = this.name.to_str().unwrap_or("?");
        let what = match op {
            Op::Read => "read",
            _ if matches!(per_bio, PerBio::Flush) => "flush",
            Op::Write | Op::Flush => "write",
            Op::Discard => "discard",
            Op::Other => "request",
        };
        match zone {
            Some(zone) => pr_err!("{name}: {what} failed in zone {zone}: {}\n", cause.doc()),
            None => pr_err!("{name}: {what} failed: {}\n", cause.doc()),
        }
    }
}
