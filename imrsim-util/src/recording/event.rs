// SPDX-License-Identifier: GPL-2.0-only

//! What can happen to a zone, and how it is written down.

use anyhow::{bail, Result};
use imrsim_core::{Allocation, Bo, Geometry, Nbo, TopRun};

use super::varint::{self, Bytes};

/// What the host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// To read blocks.
    Read,
    /// To write blocks.
    Write,
    /// To forget blocks.
    Discard,
    /// To forget the whole zone.
    Reset,
}

/// A request of the host, as far as it lies in the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it asks for.
    pub op: Op,
    /// Its first block.
    pub bo: Bo,
    /// How many blocks it touches. 0 only for a discard of less than a block.
    pub blocks: u32,
    /// Whether it touches the first block only in part.
    pub head_partial: bool,
    /// Whether it touches the last block only in part.
    pub tail_partial: bool,
    /// Whether it goes on in the next zone.
    pub crosses_zone: bool,
    /// Whether another event counts it as a request, so that this one does not.
    pub more: bool,
    /// Of a read: whether it finds nothing, be it that blocks have places, because their first writes
    /// have not ended.
    pub zeros: bool,
}

/// A read-modify-write: a run of bottom blocks, and the blocks over it that have to be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rmw {
    /// The first bottom block.
    pub nbo: Nbo,
    /// How many bottom blocks are written, at least 1.
    pub blocks: u32,
    /// The blocks of the top tracks on both sides that are read before and written back after.
    pub tops: [TopRun; 2],
}

impl Rmw {
    /// How many top blocks are saved.
    pub fn extra_writes(&self) -> u32 {
        self.tops.iter().map(|top| top.mask.count_ones()).sum()
    }

    /// The top blocks that are saved.
    pub fn top_blocks(&self) -> impl Iterator<Item = Nbo> + '_ {
        self.tops.iter().flat_map(|top| {
            let bits = (0..u64::BITS).filter(|bit| top.mask >> bit & 1 == 1);
            bits.map(|bit| top.first.after(bit))
        })
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The drive begins with a request. What it does for it follows.
    Request(Request),
    /// Blocks that were not mapped get places, one behind another.
    Alloc {
        /// The first block.
        bo: Bo,
        /// Its place.
        nbo: Nbo,
        /// How many blocks, at least 1.
        blocks: u32,
    },
    /// A read-modify-write begins to read what it has to save.
    RmwStart(Rmw),
    /// The read-modify-write that begins at this bottom block has written everything back.
    RmwDone {
        /// Its first bottom block.
        nbo: Nbo,
    },
    /// Those of these blocks that are mapped lose their places.
    Unmap {
        /// The first block.
        bo: Bo,
        /// How many blocks.
        blocks: u32,
    },
    /// The first write of these blocks has failed: they have no places any more.
    Failed {
        /// The first block.
        bo: Bo,
        /// How many blocks.
        blocks: u32,
    },
    /// The zone's counters are set to zero.
    CountersReset,
    /// Changes of mappings became durable, in whatever zones.
    Commit {
        /// How many.
        changes: u64,
    },
    /// From now on, first writes are allocated like this.
    Strategy(Allocation),
}

impl Event {
    /// Whether it happened to the whole drive, and to no zone.
    pub fn is_of_drive(&self) -> bool {
        matches!(self, Self::Commit { .. } | Self::Strategy(_))
    }

    /// Whether it names only blocks that a zone has. Others cannot be read again.
    pub fn fits(&self, geometry: &Geometry) -> bool {
        let most = geometry.zone_blocks();
        let run = |first: u32, blocks: u32| {
            let end = first.checked_add(blocks);
            end.is_some_and(|end| end <= most)
        };
        match self {
            Self::Request(Request { bo, blocks, .. })
            | Self::Unmap { bo, blocks }
            | Self::Failed { bo, blocks } => run(bo.0, *blocks),
            Self::Alloc { bo, nbo, blocks } => {
                *blocks > 0 && run(bo.0, *blocks) && run(nbo.0, *blocks)
            }
            Self::RmwStart(Rmw { nbo, blocks, tops }) => {
                let tops = tops.iter().filter(|top| top.mask != 0);
                let mut lengths =
                    tops.map(|top| (top.first.0, u64::BITS - top.mask.leading_zeros()));
                *blocks > 0 && run(nbo.0, *blocks) && lengths.all(|(first, len)| run(first, len))
            }
            Self::RmwDone { nbo } => nbo.0 < most,
            Self::CountersReset | Self::Commit { .. } | Self::Strategy(_) => true,
        }
    }
}

const READ: u8 = 0;
const WRITE: u8 = 1;
const DISCARD: u8 = 2;
const RESET: u8 = 3;
const ALLOC: u8 = 4;
const RMW_START: u8 = 5;
const RMW_DONE: u8 = 6;
const UNMAP: u8 = 7;
const COMMIT: u8 = 8;
const STRATEGY: u8 = 9;
const FAILED: u8 = 10;
const COUNTERS_RESET: u8 = 11;

const KIND: u8 = 0x0f;
const ZONE: u8 = 0x10;
const TIME: u8 = 0x20;
const FLAGS: u8 = 0x40;
const KNOWN: u8 = KIND | ZONE | TIME | FLAGS;

/// From what events tell the differences: the event before. A chunk begins with none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    pub(super) time: u64,
    pub(super) zone: u64,
    bo: u32,
    nbo: u32,
}

impl Before {
    /// Appends an event. `time` is not less than that of the event before.
    pub(super) fn encode(&mut self, time: u64, zone: u64, event: &Event, out: &mut Vec<u8>) {
        let flags = match event {
            Event::Request(it) => [
                it.head_partial,
                it.tail_partial,
                it.crosses_zone,
                it.more,
                it.zeros, //
            ],
            _ => [false; 5],
        };
        let flags = (0..).zip(flags).map(|(bit, flag)| u8::from(flag) << bit);
        let flags: u8 = flags.sum();
        let mut head = kind(event);
        let passed = time.saturating_sub(self.time);
        head |= if passed > 0 { TIME } else { 0 };
        head |= if zone != self.zone { ZONE } else { 0 };
        head |= if flags != 0 { FLAGS } else { 0 };
        out.push(head);
        if passed > 0 {
            varint::put(out, passed);
            self.time = time;
        }
        if zone != self.zone {
            varint::put(out, zone);
            self.zone = zone;
        }
        if flags != 0 {
            out.push(flags);
        }
        self.encode_body(event, out);
    }

    fn encode_body(&mut self, event: &Event, out: &mut Vec<u8>) {
        match *event {
            Event::Request(Request { bo, blocks, .. })
            | Event::Unmap { bo, blocks }
            | Event::Failed { bo, blocks } => {
                self.put_bo(bo, out);
                varint::put(out, blocks.into());
            }
            Event::Alloc { bo, nbo, blocks } => {
                self.put_bo(bo, out);
                self.put_nbo(nbo, out);
                varint::put(out, blocks.into());
            }
            Event::RmwStart(Rmw { nbo, blocks, tops }) => {
                self.put_nbo(nbo, out);
                varint::put(out, blocks.into());
                for top in tops {
                    varint::put(out, top.mask);
                    if top.mask != 0 {
                        varint::put_step(out, nbo.0, top.first.0);
                    }
                }
            }
            Event::RmwDone { nbo } => self.put_nbo(nbo, out),
            Event::CountersReset => {}
            Event::Commit { changes } => varint::put(out, changes),
            Event::Strategy(allocation) => varint::put(out, allocation.phases().into()),
        }
    }

    fn put_bo(&mut self, bo: Bo, out: &mut Vec<u8>) {
        varint::put_step(out, self.bo, bo.0);
        self.bo = bo.0;
    }

    fn put_nbo(&mut self, nbo: Nbo, out: &mut Vec<u8>) {
        varint::put_step(out, self.nbo, nbo.0);
        self.nbo = nbo.0;
    }

    /// Reads an event; its time and its zone are then those of `self`.
    ///
    /// # Errors
    ///
    /// If there is none, or it names blocks that no zone has.
    pub(super) fn decode(&mut self, geometry: &Geometry, bytes: &mut Bytes<'_>) -> Result<Event> {
        let head = bytes.byte()?;
        if head & !KNOWN != 0 {
            bail!("an event of an unknown kind");
        }
        if head & TIME != 0 {
            let passed = bytes.number()?;
            self.time = match self.time.checked_add(passed) {
                Some(time) => time,
                None => bail!("a time has more than 64 bits"),
            };
        }
        if head & ZONE != 0 {
            self.zone = bytes.number()?;
        }
        let flags = if head & FLAGS != 0 { bytes.byte()? } else { 0 };
        let kind = head & KIND;
        if flags > 0x1f || (flags != 0 && kind > RESET) {
            bail!("an event with unknown flags");
        }
        let most = geometry.zone_blocks();
        Ok(match kind {
            READ | WRITE | DISCARD | RESET => {
                let (bo, blocks) = self.run(most, bytes)?;
                let flag = |bit: u8| flags >> bit & 1 == 1;
                Event::Request(Request {
                    op: match kind {
                        READ => Op::Read,
                        WRITE => Op::Write,
                        DISCARD => Op::Discard,
                        _ => Op::Reset,
                    },
                    bo,
                    blocks,
                    head_partial: flag(0),
                    tail_partial: flag(1),
                    crosses_zone: flag(2),
                    more: flag(3),
                    zeros: flag(4),
                })
            }
            ALLOC => {
                let bo = self.bo(most, bytes)?;
                let nbo = self.nbo(most, bytes)?;
                let blocks = count(most, bo.0.max(nbo.0), bytes)?;
                Event::Alloc { bo, nbo, blocks }
            }
            RMW_START => Event::RmwStart(self.rmw(most, bytes)?),
            RMW_DONE => Event::RmwDone {
                nbo: self.nbo(most, bytes)?,
            },
            UNMAP => {
                let (bo, blocks) = self.run(most, bytes)?;
                Event::Unmap { bo, blocks }
            }
            FAILED => {
                let (bo, blocks) = self.run(most, bytes)?;
                Event::Failed { bo, blocks }
            }
            COUNTERS_RESET => Event::CountersReset,
            COMMIT => Event::Commit {
                changes: bytes.number()?,
            },
            STRATEGY => Event::Strategy(Allocation::from_phases(bytes.at_most(u32::MAX)?)?),
            _ => bail!("an event of an unknown kind"),
        })
    }

    fn rmw(&mut self, most: u32, bytes: &mut Bytes<'_>) -> Result<Rmw> {
        let nbo = self.nbo(most, bytes)?;
        let blocks = count(most, nbo.0, bytes)?;
        let mut tops = [TopRun::default(); 2];
        for top in &mut tops {
            let mask = bytes.number()?;
            if mask != 0 {
                let first = Nbo(bytes.step(nbo.0, most)?);
                let last = first.after(u64::BITS - 1 - mask.leading_zeros());
                if last.0 >= most {
                    bail!("a block lies outside its zone");
                }
                *top = TopRun { first, mask };
            }
        }
        Ok(Rmw { nbo, blocks, tops })
    }

    fn bo(&mut self, most: u32, bytes: &mut Bytes<'_>) -> Result<Bo> {
        self.bo = bytes.step(self.bo, most)?;
        Ok(Bo(self.bo))
    }

    fn nbo(&mut self, most: u32, bytes: &mut Bytes<'_>) -> Result<Nbo> {
        self.nbo = bytes.step(self.nbo, most)?;
        Ok(Nbo(self.nbo))
    }

    fn run(&mut self, most: u32, bytes: &mut Bytes<'_>) -> Result<(Bo, u32)> {
        let bo = self.bo(most, bytes)?;
        Ok((bo, bytes.at_most(most - bo.0)?))
    }
}

fn kind(event: &Event) -> u8 {
    match event {
        Event::Request(request) => match request.op {
            Op::Read => READ,
            Op::Write => WRITE,
            Op::Discard => DISCARD,
            Op::Reset => RESET,
        },
        Event::Alloc { .. } => ALLOC,
        Event::RmwStart(_) => RMW_START,
        Event::RmwDone { .. } => RMW_DONE,
        Event::Unmap { .. } => UNMAP,
        Event::Commit { .. } => COMMIT,
        Event::Strategy(_) => STRATEGY,
        Event::Failed { .. } => FAILED,
        Event::CountersReset => COUNTERS_RESET,
    }
}

/// A length of at least one block, with which `from` reaches no further than `most`.
fn count(most: u32, from: u32, bytes: &mut Bytes<'_>) -> Result<u32> {
    match bytes.at_most(most - from)? {
        0 => bail!("a run of no blocks"),
        blocks => Ok(blocks),
    }
}
