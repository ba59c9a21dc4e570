// SPDX-License-Identifier: GPL-2.0-only

//! A zone at one moment, without its data.

use anyhow::{bail, Result};
use imrsim_core::{
    uapi::{Mapping, ZoneSnapshot},
    Bo, Geometry, Nbo, Stats, TrackKind, Zone,
};

use super::{
    bits::Bits,
    event::{Event, Op, Request, Rmw},
    varint::{self, Bytes},
};

/// Which blocks of a zone are mapped and where they lie, and its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The zone.
    pub zone: u64,
    /// Its counters.
    pub stats: Stats,
    /// By `bo`; 0 unless `mapped`.
    table: Vec<u16>,
    /// By `bo`.
    mapped: Bits,
    /// By `nbo`.
    used: Bits,
}

impl Snapshot {
    /// An empty zone.
    pub fn new(geometry: &Geometry, zone: u64) -> Self {
        Self {
            zone,
            stats: Stats::default(),
            table: vec![0; Zone::table_len(geometry)],
            mapped: Bits::new(geometry.zone_blocks()),
            used: Bits::new(geometry.zone_blocks()),
        }
    }

    /// What a zone of the drive is now.
    pub fn of(zone: &Zone<'_>, number: u64, stats: Stats) -> Self {
        let geometry = zone.geometry();
        let mut it = Self::new(geometry, number);
        it.stats = stats;
        for block in 0..geometry.zone_blocks() {
            if let Some(nbo) = zone.lookup(Bo(block)) {
                it.put(block, nbo.0);
            }
            if zone.is_used(Nbo(block)) {
                it.used.set(block, true);
            }
        }
        it
    }

    /// What a drive answers of a zone: the struct, and the mapping that follows it.
    pub fn of_answer(geometry: &Geometry, answer: &ZoneSnapshot, mapping: &Mapping<'_>) -> Self {
        let mut it = Self::new(geometry, answer.zone);
        it.stats = answer.stats();
        for block in 0..geometry.zone_blocks() {
            if let Some(nbo) = mapping.lookup(Bo(block)) {
                it.put(block, nbo.0);
            }
            if mapping.is_used(Nbo(block)) {
                it.used.set(block, true);
            }
        }
        it
    }

    /// Where a block lies, if it is mapped.
    pub fn lookup(&self, bo: Bo) -> Option<Nbo> {
        // CAST: widens.
        let entry = self.table.get(bo.0 as usize)?;
        self.mapped.get(bo.0).then_some(Nbo(u32::from(*entry)))
    }

    /// Which places are in use.
    pub fn used(&self) -> &Bits {
        &self.used
    }

    /// Which blocks are mapped.
    pub fn mapped(&self) -> &Bits {
        &self.mapped
    }

    fn put(&mut self, bo: u32, nbo: u32) {
        // CAST: widens.
        if let (Some(entry), Ok(nbo)) = (self.table.get_mut(bo as usize), u16::try_from(nbo)) {
            *entry = nbo;
            self.mapped.set(bo, true);
        }
    }

    /// Makes of it what an event makes of the zone. Events of the whole drive change nothing.
    ///
    /// # Errors
    ///
    /// If that cannot have happened: a place was taken twice, or blocks that are not there. Then only
    /// a part of it is done.
    pub fn apply(&mut self, geometry: &Geometry, event: &Event) -> Result<()> {
        match event {
            Event::Request(request) => self.count_request(geometry, request),
            Event::Alloc { bo, nbo, blocks } => {
                for i in 0..*blocks {
                    self.alloc(geometry, bo.after(i), nbo.after(i))?;
                }
            }
            Event::RmwStart(rmw) => self.count_rmw(rmw)?,
            Event::Unmap { bo, blocks } => {
                for i in 0..*blocks {
                    self.stats.unmapped_blocks += u64::from(self.unmap(bo.after(i)));
                }
            }
            Event::Failed { bo, blocks } => {
                for i in 0..*blocks {
                    if !self.unmap(bo.after(i)) {
                        bail!(
                            "the first write of block {} fails, but did not begin",
                            bo.after(i)
                        );
                    }
                }
            }
            Event::CountersReset => self.stats = Stats::default(),
            Event::RmwDone { .. } | Event::Commit { .. } | Event::Strategy(_) => {}
        }
        Ok(())
    }

    fn count_request(&mut self, geometry: &Geometry, request: &Request) {
        let blocks = u64::from(request.blocks);
        let counted = u64::from(!request.more);
        let edges = u64::from(request.head_partial) + u64::from(request.tail_partial);
        let places = (0..request.blocks)
            .filter(|_| !request.zeros)
            .filter_map(|i| self.lookup(request.bo.after(i)));
        let tops = |nbo: &Nbo| geometry.locate(*nbo).track.kind == TrackKind::Top;
        let (mut mapped, mut on_top) = (0, 0);
        for nbo in places {
            mapped += 1;
            on_top += u64::from(tops(&nbo));
        }
        let stats = &mut self.stats;
        match request.op {
            Op::Read => {
                stats.host_read_requests += counted;
                stats.host_read_blocks += blocks;
                stats.zero_read_blocks += blocks - mapped;
            }
            Op::Write => {
                stats.host_write_requests += counted;
                stats.host_write_blocks += blocks;
                stats.update_blocks += mapped;
                stats.top_write_blocks += on_top;
                stats.bottom_write_blocks += mapped - on_top;
            }
            Op::Discard => stats.discard_requests += counted,
            Op::Reset => stats.zone_resets += counted,
        }
        stats.unaligned_edges += edges;
        stats.cross_zone_requests += u64::from(request.crosses_zone);
    }

    fn alloc(&mut self, geometry: &Geometry, bo: Bo, nbo: Nbo) -> Result<()> {
        if self.mapped.get(bo.0) {
            bail!("block {bo} gets a place, but has one");
        }
        if !self.used.set(nbo.0, true) {
            bail!("place {nbo} is taken, but is not free");
        }
        self.put(bo.0, nbo.0);
        self.stats.first_write_blocks += 1;
        match geometry.locate(nbo).track.kind {
            TrackKind::Top => self.stats.top_write_blocks += 1,
            TrackKind::Bottom => self.stats.bottom_write_blocks += 1,
        }
        Ok(())
    }

    fn count_rmw(&mut self, rmw: &Rmw) -> Result<()> {
        if let Some(top) = rmw.top_blocks().find(|top| !self.used.get(top.0)) {
            bail!("top block {top} is saved, but not in use");
        }
        let extra = u64::from(rmw.extra_writes());
        match rmw.tops.iter().filter(|top| top.mask != 0).count() {
            0 => bail!("a rewrite without blocks to save"),
            1 => self.stats.rmw_one_neighbour += 1,
            _ => self.stats.rmw_two_neighbours += 1,
        }
        self.stats.rmw_read_blocks += extra;
        self.stats.extra_write_blocks += extra;
        Ok(())
    }

    /// Takes a block's place away, if it has one.
    fn unmap(&mut self, bo: Bo) -> bool {
        let Some(nbo) = self.lookup(bo) else {
            return false;
        };
        self.used.set(nbo.0, false);
        self.mapped.set(bo.0, false);
        // CAST: widens.
        if let Some(entry) = self.table.get_mut(bo.0 as usize) {
            *entry = 0;
        }
        true
    }

    /// Appends the snapshot.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        varint::put(out, self.zone);
        let counters = self.stats.values();
        varint::put(out, counters.len() as u64);
        for counter in counters {
            varint::put(out, counter);
        }
        let mut mapped_places = Bits::new(self.used.len());
        let runs = self.mapping();
        varint::put(out, runs.len() as u64);
        let (mut bo_end, mut nbo_end) = (0, 0);
        for (bo, nbo, blocks) in runs {
            varint::put_step(out, bo_end, bo);
            varint::put_step(out, nbo_end, nbo);
            varint::put(out, blocks.into());
            (bo_end, nbo_end) = (bo + blocks, nbo + blocks);
            for place in nbo..nbo_end {
                mapped_places.set(place, true);
            }
        }
        let mut others = self.used.clone();
        for (first, blocks) in mapped_places.runs() {
            for place in first..first + blocks {
                others.set(place, false);
            }
        }
        let others: Vec<_> = others.runs().collect();
        varint::put(out, others.len() as u64);
        for (first, blocks) in others {
            varint::put(out, first.into());
            varint::put(out, blocks.into());
        }
    }

    /// The mapping as runs: the first block, its place, how many.
    fn mapping(&self) -> Vec<(u32, u32, u32)> {
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for (bo, nbo) in (0..self.mapped.len()).filter_map(|bo| Some((bo, self.lookup(Bo(bo))?))) {
            match runs.last_mut() {
                Some((first, place, blocks))
                    if *first + *blocks == bo && *place + *blocks == nbo.0 =>
                {
                    *blocks += 1;
                }
                _ => runs.push((bo, nbo.0, 1)),
            }
        }
        runs
    }

    /// Reads a snapshot, which is all of `bytes`.
    ///
    /// # Errors
    ///
    /// If it is none of a zone of that geometry.
    pub(super) fn decode(geometry: &Geometry, bytes: &mut Bytes<'_>) -> Result<Self> {
        let most = geometry.zone_blocks();
        let mut it = Self::new(geometry, bytes.number()?);
        let mut counters = Stats::default().values();
        // Those of a newer program, of which we know nothing, are read and left out.
        for i in 0..bytes.at_most(256)? {
            let value = bytes.number()?;
            // CAST: widens.
            if let Some(counter) = counters.get_mut(i as usize) {
                *counter = value;
            }
        }
        it.stats = Stats::from_values(counters);
        let (mut bo_end, mut nbo_end) = (0, 0);
        for _ in 0..bytes.at_most(most)? {
            let bo = bytes.step(bo_end, most)?;
            let nbo = bytes.step(nbo_end, most)?;
            let blocks = bytes.at_most(most - bo.max(nbo))?;
            for i in 0..blocks {
                if it.mapped.get(bo + i) || !it.used.set(nbo + i, true) {
                    bail!("two blocks have one place");
                }
                it.put(bo + i, nbo + i);
            }
            (bo_end, nbo_end) = (bo + blocks, nbo + blocks);
        }
        for _ in 0..bytes.at_most(most)? {
            let first = bytes.at_most(most)?;
            for place in first..first + bytes.at_most(most - first)? {
                it.used.set(place, true);
            }
        }
        if !bytes.0.is_empty() {
            bail!("bytes are left over");
        }
        Ok(it)
    }
}
