// SPDX-License-Identifier: GPL-2.0-only

//! What a write makes the drive do, as a value.
//!
//! A [`Request`] is what the host asks of one zone. The zone answers with a [`Step`]: a [`Plan`]
//! for the longest prefix that is one run on the platter, or the news that this prefix has to
//! wait. A plan names the physical operations; the kernel executes them, the simulator prices
//! them, and [`Stats`](super::Stats) counts them.
//!
//! A write is a *read-modify-write* (RMW) if blocks in use on the one or two top tracks over it
//! would be damaged: they are read, the run is written, and they are written back.

use super::units::{
    Bo,
    Nbo, //
};

/// The most blocks of a bottom track that one plan writes if a top block over them may be in use.
///
/// So many bottom blocks lie under at most as many top blocks of each neighbour (see
/// [`Geometry::overlapping_top_offset`](super::Geometry::overlapping_top_offset)), and those fit
/// in the mask of a [`TopRun`].
pub const MAX_RMW_BLOCKS: u32 = u64::BITS;

/// A write to one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The first block written to.
    pub bo: Bo,
    /// How many blocks are touched, at least 1. All are in the zone.
    pub blocks: u32,
    /// Whether the first block is written only in part.
    pub head_partial: bool,
    /// Whether the last block is written only in part. Of a single block, either flag says so.
    pub tail_partial: bool,
}

/// What to do with a request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Execute the plan, which covers a prefix of the request; then ask about the rest.
    Ready(Plan),
    /// A block or a top block over it is in flight. Cut the request to its first `blocks` blocks
    /// and ask again when a write to the zone has finished; the rest need not wait for that.
    ///
    /// A prefix of `blocks` blocks will be one single run whenever it starts, so that it need not
    /// be cut again: one block if it was not mapped, otherwise at most [`MAX_RMW_BLOCKS`] on one
    /// track.
    ///
    /// `blocks` is 0 if waiting is no use: the request does not lie in the zone, or (which cannot
    /// happen unless the caller's memory is damaged) an unmapped block finds no free block. The
    /// caller fails the request.
    Wait {
        /// How much of the request waits, in blocks.
        blocks: u32,
    },
}

/// Blocks of a top track that an RMW reads and writes back: `first + i` for each bit i of `mask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopRun {
    /// The top block that bit 0 stands for, in use or not. Without meaning if `mask` is 0.
    pub first: Nbo,
    /// Which blocks. 0: none.
    pub mask: u64,
}

/// The physical operations of a write of one run: consecutive logical blocks that are consecutive
/// on one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The first logical block.
    pub bo: Bo,
    /// The block on the platter it goes to.
    pub nbo: Nbo,
    /// The length of the run in blocks, at least 1.
    pub blocks: u32,
    /// Whether it is the first write of these blocks; otherwise all have been mapped before.
    pub first: bool,
    /// Whether it is the first write of a block that the host writes only in part: what the host
    /// does not write must become zeros. Then `blocks` is 1 and `first` is set.
    pub pad: bool,
    /// Whether the run lies on a top track.
    pub top: bool,
    /// The blocks in use over the run in top track g and in top track g+1, if it lies on bottom
    /// track g.
    pub neighbours: [TopRun; 2],
}

impl Plan {
    /// Whether blocks have to be read before the write and written back after it.
    pub fn is_rmw(&self) -> bool {
        self.rmw_neighbours() != 0
    }

    /// How many neighbouring tracks have blocks to be written back, 0 to 2.
    pub fn rmw_neighbours(&self) -> u32 {
        self.neighbours
            .iter()
            .map(|top| u32::from(top.mask != 0))
            .sum()
    }

    /// How many top blocks are read and written back, at most 2 * [`MAX_RMW_BLOCKS`].
    pub const fn extra_writes(&self) -> u32 {
        let [own, next] = self.neighbours;
        own.mask.count_ones() + next.mask.count_ones()
    }

    /// The top blocks to be read and written back, as runs of consecutive blocks (first block,
    /// length in blocks), those of top track g before those of top track g+1.
    pub const fn runs(&self) -> Runs {
        Runs {
            rest: self.neighbours,
        }
    }

    /// The physical operations in the order in which they have to happen: reads, then the write,
    /// then the write-backs.
    pub const fn ops(&self) -> Ops {
        Ops {
            nbo: self.nbo,
            blocks: self.blocks,
            reads: Some(self.runs()),
            write_backs: self.runs(),
        }
    }
}

/// Iterator over the runs of top blocks of a [`Plan`].
#[derive(Clone, Debug)]
pub struct Runs {
    rest: [TopRun; 2],
}

impl Iterator for Runs {
    type Item = (Nbo, u32);

    fn next(&mut self) -> Option<(Nbo, u32)> {
        let top = self.rest.iter_mut().find(|top| top.mask != 0)?;
        // `mask` is not 0, so that both are below 64 unless the run is all of it.
        let skipped = top.mask.trailing_zeros();
        let len = (top.mask >> skipped).trailing_ones();
        top.mask &= top.mask.wrapping_add(1 << skipped);
        Some((top.first.after(skipped), len))
    }
}

/// One physical operation on consecutive blocks of one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read top blocks that the write will damage.
    Read {
        /// The first block.
        nbo: Nbo,
        /// How many blocks.
        blocks: u32,
    },
    /// Write the host's blocks.
    Write {
        /// The first block.
        nbo: Nbo,
        /// How many blocks.
        blocks: u32,
    },
    /// Write back top blocks that were read.
    WriteBack {
        /// The first block.
        nbo: Nbo,
        /// How many blocks.
        blocks: u32,
    },
}

/// Iterator over the physical operations of a [`Plan`].
#[derive(Clone, Debug)]
pub struct Ops {
    nbo: Nbo,
    blocks: u32,
    /// The reads that are left; `None` once the write has been given out.
    reads: Option<Runs>,
    write_backs: Runs,
}

impl Iterator for Ops {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        if let Some(reads) = &mut self.reads {
            if let Some((nbo, blocks)) = reads.next() {
                return Some(Op::Read { nbo, blocks });
            }
            self.reads = None;
            return Some(Op::Write {
                nbo: self.nbo,
                blocks: self.blocks,
            });
        }
        let (nbo, blocks) = self.write_backs.next()?;
        Some(Op::WriteBack { nbo, blocks })
    }
}
