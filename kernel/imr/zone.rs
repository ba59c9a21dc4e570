// SPDX-License-Identifier: GPL-2.0-only

//! The mapping table of one zone, and all that may happen to it.
//!
//! A zone's memory belongs to the caller, who lends it as a [`Zone`] for the time of a call, under
//! the zone's lock:
//!
//! * the *table*: for each logical block, the physical one;
//! * the *bits*: four sets in one slice of words: which logical blocks are mapped, which physical
//!   blocks are used, which logical blocks are busy, and the states of the top blocks
//!   ([`InFlight`]);
//! * a [`ZoneState`].
//!
//! All of it is zero in a zone that was never written to.
//!
//! A first write takes a physical block (*used*) when it starts and becomes visible (*mapped*) when
//! it has succeeded. Between the two the block is *pending*: busy and not mapped. It reads as
//! zeros, and other writes to it wait.

mod restore;

use super::{
    bitmap,
    cursor::Cursor,
    geometry::{
        Geometry,
        Location,
        TrackKind, //
    },
    inflight::{
        Footprint,
        InFlight, //
    },
    num,
    plan::{
        Plan,
        Request,
        Step,
        TopRun,
        MAX_RMW_BLOCKS, //
    },
    strategy::{
        Allocation,
        Strategy, //
    },
    units::{
        Bo,
        Nbo, //
    },
};

pub use restore::{
    Busy,
    ZoneError, //
};

/// The part of a zone that is not a table: counts, and how far its allocation has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneState {
    cursor: Cursor,
    mapped: u32,
    used_tops: u32,
    in_flight: u32,
}

impl ZoneState {
    /// Logical blocks that are mapped.
    pub const fn mapped_blocks(&self) -> u32 {
        self.mapped
    }

    /// Blocks in use on top tracks, first writes in flight included.
    pub const fn used_tops(&self) -> u32 {
        self.used_tops
    }

    /// Writes that have started and not finished.
    pub const fn writes_in_flight(&self) -> u32 {
        self.in_flight
    }
}

/// What a read finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadRun {
    /// The next `blocks` blocks lie at `nbo` and behind it.
    Mapped {
        /// The first physical block.
        nbo: Nbo,
        /// How many blocks, at least 1.
        blocks: u32,
    },
    /// The next `blocks` blocks were never written and read as zeros.
    Zeros {
        /// How many blocks, at least 1.
        blocks: u32,
    },
}

/// A write of a single block that rewrites nothing: where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The logical block.
    pub bo: Bo,
    /// The block on the platter.
    pub nbo: Nbo,
    /// Whether it is the first write of this block.
    pub first: bool,
    /// Its [number](Geometry::top_number) among the top blocks, if it lies on a top track.
    pub top: Option<u32>,
}

impl Placed {
    /// The same as a plan.
    #[inline]
    pub fn plan(&self) -> Plan {
        Plan {
            bo: self.bo,
            nbo: self.nbo,
            blocks: 1,
            first: self.first,
            pad: false,
            top: self.top.is_some(),
            neighbours: [TopRun::default(); 2],
        }
    }
}

/// A zone: a view of the memory that the caller lends.
#[derive(Debug)]
pub struct Zone<'a> {
    geometry: &'a Geometry,
    /// By `Bo`: the `Nbo`, if `mapped`.
    table: &'a mut [u16],
    /// By `Bo`.
    mapped: &'a mut [u64],
    /// By `Nbo`.
    used: &'a mut [u64],
    in_flight: InFlight<'a>,
    state: &'a mut ZoneState,
}

impl<'a> Zone<'a> {
    /// How many entries a zone's table has.
    pub const fn table_len(geometry: &Geometry) -> usize {
        num::index(geometry.zone_blocks())
    }

    /// How many 64-bit words a zone's bits take.
    ///
    /// With the table that makes 162,944 bytes for a zone of the default geometry.
    pub const fn bits_len(geometry: &Geometry) -> usize {
        2 * geometry.block_words() + InFlight::words(geometry)
    }

    /// A view of a zone's memory.
    ///
    /// `None` if the slices do not have [`table_len`](Self::table_len) and
    /// [`bits_len`](Self::bits_len) elements.
    #[inline(always)]
    pub fn new(
        geometry: &'a Geometry,
        table: &'a mut [u16],
        bits: &'a mut [u64],
        state: &'a mut ZoneState,
    ) -> Option<Self> {
        if table.len() != Self::table_len(geometry) {
            return None;
        }
        let words = geometry.block_words();
        let (mapped, bits) = bits.split_at_mut_checked(words)?;
        let (used, bits) = bits.split_at_mut_checked(words)?;
        Some(Self {
            geometry,
            table,
            mapped,
            used,
            in_flight: InFlight::new(geometry, bits)?,
            state,
        })
    }

    /// The geometry of the zone.
    pub const fn geometry(&self) -> &Geometry {
        self.geometry
    }

    /// Logical blocks that are mapped.
    pub const fn mapped_blocks(&self) -> u32 {
        self.state.mapped
    }

    /// The phase that `allocation` has reached here: the one in which the next first write falls, or
    /// the last if the zone is full.
    pub fn phase_reached(&self, allocation: Allocation) -> u32 {
        let cursor = self.state.cursor.for_allocation(allocation);
        match cursor.first_free(self.geometry, self.used) {
            Some(nbo) => allocation.phase(self.geometry, self.geometry.locate(nbo).track),
            None => allocation.phases(),
        }
    }

    /// Blocks in use on top tracks, first writes in flight included.
    pub const fn used_tops(&self) -> u32 {
        self.state.used_tops
    }

    /// Writes that have started and not finished.
    pub const fn writes_in_flight(&self) -> u32 {
        self.state.in_flight
    }

    /// Where `bo` lies; `None` if it was never written, or its first write is in flight.
    #[inline(always)]
    pub fn lookup(&self, bo: Bo) -> Option<Nbo> {
        bitmap::get(self.mapped, bo.0).then(|| self.entry(bo))
    }

    /// Whether a physical block is in use, be it by a first write in flight.
    #[inline]
    pub fn is_used(&self, nbo: Nbo) -> bool {
        bitmap::get(self.used, nbo.0)
    }

    /// How many 64-bit words [`copy_mapping`](Self::copy_mapping) copies.
    pub const fn mapping_words(geometry: &Geometry) -> usize {
        2 * geometry.block_words()
    }

    /// Copies the table, and which blocks are mapped and which places in use, to slices of
    /// [`table_len`](Self::table_len) and [`mapping_words`](Self::mapping_words) elements. Whether they
    /// are of that length; else nothing is copied. Entries of blocks that are not mapped mean nothing.
    pub fn copy_mapping(&self, table: &mut [u16], bits: &mut [u64]) -> bool {
        let Some((mapped, used)) = bits.split_at_mut_checked(self.mapped.len()) else {
            return false;
        };
        if table.len() != self.table.len() || used.len() != self.used.len() {
            return false;
        }
        table.copy_from_slice(self.table);
        mapped.copy_from_slice(self.mapped);
        used.copy_from_slice(self.used);
        true
    }

    /// Whether a write to `bo` is in flight.
    #[inline]
    pub fn is_busy(&self, bo: Bo) -> bool {
        self.in_flight.is_busy(bo.0)
    }

    /// Looks up the longest prefix of a read that is one run: consecutive on the platter, be it
    /// over the end of a track, or unmapped throughout. A block whose first write is in flight
    /// reads as zeros.
    ///
    /// `bo` and the `blocks >= 1` blocks from there on are in the zone. What is not reads as zeros.
    #[inline]
    pub fn read(&self, bo: Bo, blocks: u32) -> ReadRun {
        match self.lookup(bo) {
            Some(nbo) => ReadRun::Mapped {
                nbo,
                blocks: self.mapped_run(bo, nbo, blocks),
            },
            None => ReadRun::Zeros {
                blocks: bitmap::run(self.mapped, bo.0, blocks, false),
            },
        }
    }

    /// What the longest prefix of `request` that is one run would make the drive do, whatever else
    /// is in flight.
    ///
    /// Changes nothing. The only reason to [`Wait`](Step::Wait) is that the first write of the
    /// first block is in flight, so that it is not known yet whether this will be an update.
    pub fn plan(&self, request: &Request, allocation: Allocation) -> Step {
        let Request { bo, blocks, .. } = *request;
        let in_zone = self.geometry.zone_blocks().saturating_sub(bo.0);
        if blocks == 0 || blocks > in_zone {
            return Step::Wait { blocks: 0 };
        }
        if let Some(nbo) = self.lookup(bo) {
            return Step::Ready(self.update(bo, nbo, blocks));
        }
        if self.in_flight.is_busy(bo.0) {
            return Step::Wait { blocks: 1 };
        }
        match self.first_write(request, allocation) {
            Some(plan) => Step::Ready(plan),
            None => Step::Wait { blocks: 0 },
        }
    }

    /// The short way for most updates: starts one of a single block with nothing in use over it.
    ///
    /// `None`: it is not so simple, or something is in flight. Nothing has changed then, and
    /// [`start`](Self::start) knows.
    #[inline(always)]
    pub fn start_update(&mut self, bo: Bo) -> Option<Placed> {
        let nbo = self.lookup(bo)?;
        let top = self.hold_block(bo, nbo)?;
        Some(Placed {
            bo,
            nbo,
            first: false,
            top,
        })
    }

    /// The short way for most first writes: starts one of a single whole block, into the next free
    /// place and with nothing in use over it. Otherwise as [`start_update`](Self::start_update).
    #[inline(always)]
    pub fn start_first(&mut self, bo: Bo, allocation: Allocation) -> Option<Placed> {
        if bo.0 >= self.geometry.zone_blocks()
            || bitmap::get(self.mapped, bo.0)
            || allocation.home(self.geometry, bo).is_some()
        {
            return None;
        }
        let cursor = self.state.cursor.for_allocation(allocation);
        let nbo = cursor.next_if_free(self.used)?;
        let top = self.hold_block(bo, nbo)?;
        bitmap::set_one(self.used, nbo.0);
        self.state.used_tops = self.state.used_tops.wrapping_add(u32::from(top.is_some()));
        self.state.cursor = cursor.after(self.geometry, nbo, 1);
        Some(Placed {
            bo,
            nbo,
            first: true,
            top,
        })
    }

    /// Holds a block for a write that rewrites nothing. `None`: that may not be. Otherwise returns its
    /// number among the top blocks, if it is one.
    #[inline(always)]
    fn hold_block(&mut self, bo: Bo, nbo: Nbo) -> Option<Option<u32>> {
        let number = self.geometry.top_number(nbo);
        if (number.is_none() && self.state.used_tops != 0)
            || !self.in_flight.hold_block(bo.0, number)
        {
            return None;
        }
        self.state.in_flight = self.state.in_flight.wrapping_add(1);
        Some(number)
    }

    /// [`finish`](Self::finish) for what [`start_update`](Self::start_update) or
    /// [`start_first`](Self::start_first) began, unless it is a first write that has failed.
    #[inline(always)]
    pub fn finish_block(&mut self, placed: &Placed) {
        self.in_flight.release_block(placed.bo.0, placed.top);
        self.state.in_flight = self.state.in_flight.wrapping_sub(1);
        if placed.first {
            if let Some(entry) = self.table.get_mut(num::index(placed.bo.0)) {
                *entry = num::entry(placed.nbo.0);
            }
            bitmap::set_one(self.mapped, placed.bo.0);
            self.state.mapped = self.state.mapped.wrapping_add(1);
        }
    }

    /// Starts what [`plan`](Self::plan) says, unless something it touches is in flight.
    ///
    /// If it is [`Ready`](Step::Ready), the blocks of a first write are taken, and everything the
    /// plan touches is held until [`finish`](Self::finish).
    pub fn start(&mut self, request: &Request, allocation: Allocation) -> Step {
        let step = self.plan(request, allocation);
        let Step::Ready(plan) = step else {
            return step;
        };
        let footprint = Footprint::of(self.geometry, &plan);
        if !self.in_flight.admits(&footprint) {
            return Step::Wait {
                blocks: if plan.first {
                    1
                } else {
                    plan.blocks.min(MAX_RMW_BLOCKS)
                },
            };
        }
        if plan.first {
            self.take(&plan, allocation);
        }
        self.in_flight.hold(&footprint);
        self.state.in_flight = self.state.in_flight.saturating_add(1);
        step
    }

    /// Ends a write that [`start`](Self::start) began, once for each, in any order.
    ///
    /// Releases what the plan holds. If the data of a first write is on the platter (`ok`) its
    /// blocks become mapped; if not they stay unmapped and their physical blocks become free.
    pub fn finish(&mut self, plan: &Plan, ok: bool) {
        self.in_flight.release(&Footprint::of(self.geometry, plan));
        self.state.in_flight = self.state.in_flight.saturating_sub(1);
        if plan.first {
            if ok {
                self.map(plan);
            } else {
                self.give_back(plan);
            }
        }
    }

    /// The table's entry for `bo`. Means nothing unless `bo` is mapped.
    #[inline(always)]
    fn entry(&self, bo: Bo) -> Nbo {
        let entry = self.table.get(num::index(bo.0)).copied().unwrap_or(0);
        Nbo(u32::from(entry))
    }

    /// How many of `blocks` blocks from `bo` on are mapped one after another; `bo` is, to `nbo`.
    #[inline]
    fn mapped_run(&self, bo: Bo, nbo: Nbo, blocks: u32) -> u32 {
        if blocks <= 1 {
            return blocks;
        }
        let mapped = bitmap::run(self.mapped, bo.0, blocks, true);
        let entries = self.table.get(num::index(bo.0)..).unwrap_or(&[]);
        (nbo.0..)
            .zip(entries)
            .zip(0..mapped)
            .find_map(|((expected, &entry), done)| (u32::from(entry) != expected).then_some(done))
            .unwrap_or(mapped)
    }

    /// The plan for a write to at most `blocks` blocks from `bo` on, which is mapped to `nbo`.
    fn update(&self, bo: Bo, nbo: Nbo, blocks: u32) -> Plan {
        let place = self.geometry.locate(nbo);
        let on_track = self.left_on_track(place);
        let blocks = self.mapped_run(bo, nbo, blocks.min(on_track));
        self.with_neighbours(
            place,
            Plan {
                bo,
                nbo,
                blocks,
                first: false,
                pad: false,
                top: place.track.kind == TrackKind::Top,
                neighbours: [TopRun::default(); 2],
            },
        )
    }

    /// The plan for a write to a block that is neither mapped nor pending. `None` if no block is
    /// free.
    fn first_write(&self, request: &Request, allocation: Allocation) -> Option<Plan> {
        let &Request {
            bo,
            blocks,
            head_partial,
            tail_partial,
        } = request;
        // A block that is written only in part is a run of its own, because it must be padded.
        let pad = head_partial || (tail_partial && blocks == 1);
        let whole = match (pad, tail_partial) {
            (true, _) => 1,
            (false, true) => blocks - 1,
            (false, false) => blocks,
        };
        let unmapped = match whole {
            1 => 1,
            _ => {
                let unmapped = bitmap::run(self.mapped, bo.0, whole, false);
                self.in_flight.idle_run(bo.0, unmapped)
            }
        };

        let home = allocation.home(self.geometry, bo);
        let (nbo, most) = match home {
            Some(home) if !self.is_used(home) => (home, unmapped),
            _ => {
                let cursor = self.state.cursor.for_allocation(allocation);
                let nbo = cursor.first_free(self.geometry, self.used)?;
                // The next block may have a home, and find it free.
                (nbo, if home.is_some() { 1 } else { unmapped })
            }
        };
        let place = self.geometry.locate(nbo);
        let most = most.min(self.left_on_track(place));
        Some(self.with_neighbours(
            place,
            Plan {
                bo,
                nbo,
                blocks: bitmap::run(self.used, nbo.0, most, false),
                first: true,
                pad,
                top: place.track.kind == TrackKind::Top,
                neighbours: [TopRun::default(); 2],
            },
        ))
    }

    /// How many blocks there are from `place` to the end of its track.
    #[inline]
    fn left_on_track(&self, place: Location) -> u32 {
        let len = self.geometry.track_len(place.track.kind);
        len.saturating_sub(place.offset)
    }

    /// Completes a plan, which begins at `place`, by the used blocks over it; if there are any,
    /// cuts it to [`MAX_RMW_BLOCKS`].
    #[inline]
    fn with_neighbours(&self, place: Location, mut plan: Plan) -> Plan {
        if !plan.top && self.state.used_tops != 0 {
            self.add_neighbours(place, &mut plan);
        }
        plan
    }

    #[inline(never)]
    fn add_neighbours(&self, place: Location, plan: &mut Plan) {
        let [own, next] = self.geometry.neighbour_tracks(place.track.group);
        let start = |track| self.geometry.track_start(track);
        let (offset, mut tops) = self.tops_over(place.offset, plan.blocks);
        if plan.blocks > MAX_RMW_BLOCKS {
            let any_used = |track| bitmap::any(self.used, start(track).after(offset).0, tops);
            if !own.is_some_and(any_used) && !next.is_some_and(any_used) {
                return;
            }
            plan.blocks = MAX_RMW_BLOCKS;
            (_, tops) = self.tops_over(place.offset, plan.blocks);
        }
        let used_tops = |track| {
            let first = start(track).after(offset);
            TopRun {
                first,
                mask: bitmap::window(self.used, first.0, tops),
            }
        };
        plan.neighbours = [
            own.map_or_else(TopRun::default, used_tops),
            next.map_or_else(TopRun::default, used_tops),
        ];
    }

    /// The blocks of a neighbouring top track over the `blocks >= 1` bottom blocks from `offset`
    /// on: the offset of the first, and how many (at most as many as `blocks`).
    fn tops_over(&self, offset: u32, blocks: u32) -> (u32, u32) {
        let last = offset.saturating_add(blocks).saturating_sub(1);
        let first_top = self.geometry.overlapping_top_offset(offset);
        let last_top = self.geometry.overlapping_top_offset(last);
        (first_top, last_top.saturating_sub(first_top) + 1)
    }

    /// Takes the physical blocks of a first write.
    fn take(&mut self, plan: &Plan, allocation: Allocation) {
        bitmap::set(self.used, plan.nbo.0, plan.blocks);
        if plan.top {
            self.state.used_tops = self.state.used_tops.saturating_add(plan.blocks);
        }
        let cursor = self.state.cursor.for_allocation(allocation);
        self.state.cursor = if allocation.home(self.geometry, plan.bo) == Some(plan.nbo) {
            // Where the free blocks begin is not known from that.
            cursor
        } else {
            cursor.after(self.geometry, plan.nbo, plan.blocks)
        };
    }

    /// Undoes [`take`](Self::take) as far as it matters.
    #[cold]
    fn give_back(&mut self, plan: &Plan) {
        bitmap::clear(self.used, plan.nbo.0, plan.blocks);
        if plan.top {
            self.state.used_tops = self.state.used_tops.saturating_sub(plan.blocks);
        }
        self.state.cursor = self.state.cursor.back_to(self.geometry, plan.nbo);
    }

    /// Makes the blocks of a first write visible.
    fn map(&mut self, plan: &Plan) {
        let first = num::index(plan.bo.0);
        let end = first.saturating_add(num::index(plan.blocks));
        let entries = self.table.get_mut(first..end).unwrap_or_default();
        for (entry, i) in entries.iter_mut().zip(0..) {
            *entry = num::entry(plan.nbo.after(i).0);
        }
        bitmap::set(self.mapped, plan.bo.0, plan.blocks);
        self.state.mapped = self.state.mapped.saturating_add(plan.blocks);
    }
}
