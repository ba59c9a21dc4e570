// SPDX-License-Identifier: GPL-2.0-only

//! The trace events: `docs/tracing.md` is their documentation, `imrsim_trace.h` their definition.
//!
//! Nothing is done for an event, and no argument made, unless somebody listens to any of them: that
//! is one look at a number.

use super::generated as bindings;
use crate::imr::{
    Bo,
    Nbo,
    Piece,
    Plan,
    ReadRun, //
};

/// What a run does.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    /// It is read.
    Read,
    /// It is written.
    Write,
    /// It is discarded.
    Discard,
    /// All blocks of a zone are unmapped.
    Reset,
}

/// A run of a request in one zone: its blocks, where they lie if they do, and what it is of its request.
pub(crate) struct Run {
    /// What it does.
    pub(crate) op: Op,
    /// The first block.
    pub(crate) bo: Bo,
    /// Where that lies.
    pub(crate) nbo: Option<Nbo>,
    /// How many blocks.
    pub(crate) blocks: u32,
    /// What it is of its request.
    pub(crate) piece: Piece,
}

impl Run {
    /// A run that is read.
    pub(crate) fn read(bo: Bo, run: &ReadRun, piece: Piece) -> Self {
        let (nbo, blocks) = match *run {
            ReadRun::Mapped { nbo, blocks } => (Some(nbo), blocks),
            ReadRun::Zeros { blocks } => (None, blocks),
        };
        Run {
            op: Op::Read,
            bo,
            nbo,
            blocks,
            piece,
        }
    }
}

/// Whether somebody listens to any event.
#[inline(always)]
fn is_on() -> bool {
    // SAFETY: A number of the C side that lives as long as the module does, and is written whole. It
    // may change at any time, and either value will do.
    unsafe { (&raw const bindings::imrsim_trace_users).read_volatile() != 0 }
}

/// The events of one drive. Those with a zone are to be called under that zone's lock.
pub(crate) struct Trace {
    /// The number of the mapped device.
    dev: bindings::dev_t,
}

impl Trace {
    /// For the mapped device of this number.
    pub(crate) fn new(dev: u32) -> Self {
        Trace { dev }
    }

    /// A run of a request begins.
    #[inline(always)]
    pub(crate) fn map(&self, zone: u64, run: impl FnOnce() -> Run) {
        if is_on() {
            self.emit_map(zone, &run());
        }
    }

    #[cold]
    fn emit_map(&self, zone: u64, run: &Run) {
        let run = bindings::imrsim_run {
            bo: run.bo.0,
            nbo: run
                .nbo
                .and_then(|nbo| i32::try_from(nbo.0).ok())
                .unwrap_or(-1),
            blocks: run.blocks,
            op: match run.op {
                Op::Read => bindings::imrsim_op_IMRSIM_OP_READ,
                Op::Write => bindings::imrsim_op_IMRSIM_OP_WRITE,
                Op::Discard => bindings::imrsim_op_IMRSIM_OP_DISCARD,
                Op::Reset => bindings::imrsim_op_IMRSIM_OP_RESET,
            },
            edges: run.piece.unaligned_edges,
            more: !run.piece.ends_request,
            crosses: run.piece.crosses_zone,
        };
        // SAFETY: The pointer is valid during the call, which may be made in any context.
        unsafe { bindings::imrsim_trace_map(self.dev, zone, &run) }
    }

    /// A write begins as planned: that it does, which places a first write takes, and which top blocks
    /// it has to save.
    #[inline(always)]
    pub(crate) fn write(&self, zone: u64, plan: impl FnOnce() -> Plan, piece: Piece) {
        if is_on() {
            self.emit_write(zone, &plan(), piece);
        }
    }

    #[cold]
    fn emit_write(&self, zone: u64, plan: &Plan, piece: Piece) {
        let &Plan {
            bo, nbo, blocks, ..
        } = plan;
        self.emit_map(
            zone,
            &Run {
                op: Op::Write,
                bo,
                nbo: Some(nbo),
                blocks,
                piece,
            },
        );
        if plan.first {
            // SAFETY: May be called in any context.
            unsafe { bindings::imrsim_trace_alloc(self.dev, zone, bo.0, nbo.0, blocks) }
        }
        if plan.is_rmw() {
            let rmw = bindings::imrsim_rmw {
                nbo: nbo.0,
                blocks,
                first: plan.neighbours.map(|top| top.first.0),
                mask: plan.neighbours.map(|top| top.mask),
            };
            // SAFETY: The pointer is valid during the call, which may be made in any context.
            unsafe { bindings::imrsim_trace_rmw_start(self.dev, zone, &rmw) }
        }
    }

    /// A write has ended.
    #[inline(always)]
    pub(crate) fn written(&self, zone: u64, plan: impl FnOnce() -> Plan, ok: bool) {
        if is_on() {
            self.emit_written(zone, &plan(), ok);
        }
    }

    #[cold]
    fn emit_written(&self, zone: u64, plan: &Plan, ok: bool) {
        let &Plan {
            bo, nbo, blocks, ..
        } = plan;
        if plan.is_rmw() {
            // SAFETY: May be called in any context.
            unsafe { bindings::imrsim_trace_rmw_done(self.dev, zone, nbo.0, ok) }
        }
        if plan.first && !ok {
            // SAFETY: May be called in any context.
            unsafe { bindings::imrsim_trace_alloc_failed(self.dev, zone, bo.0, nbo.0, blocks) }
        }
    }

    /// Blocks are unmapped.
    pub(crate) fn unmap(&self, zone: u64, bo: Bo, blocks: u32) {
        if is_on() {
            // SAFETY: May be called in any context.
            unsafe { bindings::imrsim_trace_unmap(self.dev, zone, bo.0, blocks) }
        }
    }

    /// A zone's counters are set to zero.
    pub(crate) fn counters_reset(&self, zone: u64) {
        if is_on() {
            // SAFETY: May be called in any context.
            unsafe { bindings::imrsim_trace_counters_reset(self.dev, zone) }
        }
    }

    /// Somebody who gave this number looks at a zone.
    pub(crate) fn snapshot(&self, zone: u64, cookie: u64) {
        if is_on() {
            // SAFETY: May be called in any context.
            unsafe { bindings::imrsim_trace_snapshot(self.dev, zone, cookie) }
        }
    }

    /// So many changes of the mapping are durable.
    pub(crate) fn commit(&self, changes: u64) {
        if is_on() {
            // SAFETY: May be called in any context.
            unsafe { bindings::imrsim_trace_commit(self.dev, changes) }
        }
    }

    /// First writes are allocated in so many phases from now on.
    pub(crate) fn strategy(&self, phases: u32) {
        if is_on() {
            // SAFETY: May be called in any context.
            unsafe { bindings::imrsim_trace_strategy(self.dev, phases) }
        }
    }
}
