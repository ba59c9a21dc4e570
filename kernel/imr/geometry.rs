// SPDX-License-Identifier: GPL-2.0-only

//! Where blocks lie on the platter.
//!
//! An IMR drive lays narrow *top* tracks over the edges of wide *bottom* tracks, so that writing a
//! bottom track damages the top tracks on either side and writing a top track damages nothing. A
//! *track group* is a top track and the bottom track behind it; a *zone* is a number of groups that
//! share one mapping table. In physical order:
//!
//! ```text
//!   zone:   | group 0                  | group 1                  | ...
//!           | top 0      | bottom 0    | top 1      | bottom 1    | ...
//!   nbo:    0            T             T+B          2T+B
//! ```
//!
//! Bottom track g is overlapped by top track g and, where the zone has one, by top track g+1: the
//! last bottom track of a zone has one neighbour, and zones do not overlap each other. Both tracks
//! of a pair are equally long on the platter, but a bottom track holds more blocks. The block at
//! offset b of a bottom track is taken to lie under the block at offset floor(b * T / B) of each
//! neighbour (T and B: blocks in a top and in a bottom track); this is the rule of the original
//! IMRSim, whose constant 10,000 / 12,456 gives the same values for its one geometry.
//!
//! None of the numbers is a literal elsewhere: everything asks a [`Geometry`].

use core::fmt;

use super::bitmap;
use super::num;
use super::units::{
    Nbo,
    BLOCK_SECTORS, //
};

/// The most blocks a zone may have, because a table entry has 16 bits.
const MAX_ZONE_BLOCKS: u64 = 1 << 16;

/// The two kinds of track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrackKind {
    /// Narrow, written last, updated freely.
    Top,
    /// Wide, under two top tracks that its update destroys.
    Bottom,
}

/// A track of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Track {
    /// The track's group, below [`Geometry::groups`].
    pub group: u32,
    /// Which of the group's two tracks.
    pub kind: TrackKind,
}

/// A block's place in its zone: a track, and the block's offset in it in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The track.
    pub track: Track,
    /// Offset in the track, in blocks, below [`Geometry::track_len`].
    pub offset: u32,
}

/// A block's place on the device: what AT makes of an LBA or a PBA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The zone.
    pub zone: u64,
    /// The track in the zone.
    pub track: Track,
    /// Offset in the track, in blocks.
    pub offset: u32,
}

/// Consecutive blocks of a bottom track. `blocks == 0`: none, and `first` means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BottomRun {
    /// The first block.
    pub first: Nbo,
    /// How many blocks.
    pub blocks: u32,
}

/// Why three numbers are not a geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// A track of no blocks, or a zone of no groups.
    Empty,
    /// A top track with more blocks than a bottom track.
    TopLongerThanBottom,
    /// More than 65,536 blocks in a zone.
    ZoneTooLarge,
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "tracks need at least one block and zones at least one track group",
            Self::TopLongerThanBottom => "a top track cannot hold more blocks than a bottom track",
            Self::ZoneTooLarge => "a zone cannot hold more than 65536 blocks",
        })
    }
}

impl core::error::Error for GeometryError {}

/// The numbers of a drive: blocks in a top track, blocks in a bottom track, track groups in a zone.
///
/// # Invariants
///
/// `1 <= top_blocks <= bottom_blocks`, `1 <= groups`, `group_blocks = top_blocks + bottom_blocks`,
/// `zone_tops = groups * top_blocks`, `block_words` and `top_words` are how many 64-bit words have a bit
/// for each block and for each top block of a zone, and `zone_blocks = groups * group_blocks <= 65536`. Therefore `top_blocks * bottom_blocks < 2^31`,
/// and no product below overflows 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    top_blocks: u32,
    bottom_blocks: u32,
    groups: u32,
    // What follows from the others, and is asked for with every request.
    group_blocks: u32,
    zone_blocks: u32,
    zone_tops: u32,
    block_words: u32,
    top_words: u32,
}

impl Default for Geometry {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Geometry {
    /// The original IMRSim's drive: tracks of 456 and 568 blocks, 64 groups in a zone of 256 MiB.
    pub const DEFAULT: Self = Self {
        // INVARIANT: 456 <= 568, 64 * 456 = 29184 = 64 * 456, and 64 * 1024 = 65536 = 64 * 1024.
        top_blocks: 456,
        bottom_blocks: 568,
        groups: 64,
        group_blocks: 1024,
        zone_blocks: 65_536,
        zone_tops: 29_184,
        block_words: 1024,
        top_words: 456,
    };

    /// A geometry of `top_blocks` and `bottom_blocks` blocks per track and `groups` track groups
    /// per zone.
    ///
    /// # Errors
    ///
    /// Unless `1 <= top_blocks <= bottom_blocks`, `groups >= 1`, and a zone holds at most 65,536
    /// blocks in all.
    pub const fn new(
        top_blocks: u32,
        bottom_blocks: u32,
        groups: u32,
    ) -> Result<Self, GeometryError> {
        if top_blocks == 0 || bottom_blocks == 0 || groups == 0 {
            return Err(GeometryError::Empty);
        }
        if top_blocks > bottom_blocks {
            return Err(GeometryError::TopLongerThanBottom);
        }
        // Below 2^33, so that the product can only overflow when it is far too large.
        let group_blocks = num::wide(top_blocks) + num::wide(bottom_blocks);
        let zone_blocks = group_blocks.saturating_mul(num::wide(groups));
        if zone_blocks > MAX_ZONE_BLOCKS {
            return Err(GeometryError::ZoneTooLarge);
        }
        // INVARIANT: just checked; `group_blocks <= zone_blocks`, and both fit in 32 bits.
        Ok(Self {
            top_blocks,
            bottom_blocks,
            groups,
            group_blocks: num::low32(group_blocks),
            zone_blocks: num::low32(zone_blocks),
            zone_tops: top_blocks * groups,
            block_words: num::low32(zone_blocks).div_ceil(bitmap::WORD),
            top_words: (top_blocks * groups).div_ceil(bitmap::WORD),
        })
    }

    /// Blocks in a top track.
    pub const fn top_blocks(&self) -> u32 {
        self.top_blocks
    }

    /// Blocks in a bottom track.
    pub const fn bottom_blocks(&self) -> u32 {
        self.bottom_blocks
    }

    /// Track groups in a zone.
    pub const fn groups(&self) -> u32 {
        self.groups
    }

    /// Tracks in a zone: two in each group.
    pub const fn tracks(&self) -> u32 {
        2 * self.groups
    }

    /// Blocks in a track group.
    pub const fn group_blocks(&self) -> u32 {
        self.group_blocks
    }

    /// Blocks in a zone, at most 65,536.
    pub const fn zone_blocks(&self) -> u32 {
        self.zone_blocks
    }

    /// Sectors of 512 bytes in a zone.
    pub const fn zone_sectors(&self) -> u64 {
        num::wide(self.zone_blocks) * num::wide(BLOCK_SECTORS)
    }

    /// Blocks on the top tracks of a zone.
    pub const fn top_blocks_per_zone(&self) -> u32 {
        self.zone_tops
    }

    /// Words of a bitmap with a bit for each block of a zone.
    #[inline]
    pub(super) const fn block_words(&self) -> usize {
        num::index(self.block_words)
    }

    /// Words of a bitmap with a bit for each top block of a zone.
    #[inline]
    pub(super) const fn top_words(&self) -> usize {
        num::index(self.top_words)
    }

    /// Blocks on the bottom tracks of a zone: as long as no more are in use, no top track is, and
    /// no update causes a rewrite.
    pub const fn bottom_blocks_per_zone(&self) -> u32 {
        self.bottom_blocks * self.groups
    }

    /// Blocks in a track of this kind.
    pub const fn track_len(&self, kind: TrackKind) -> u32 {
        match kind {
            TrackKind::Top => self.top_blocks,
            TrackKind::Bottom => self.bottom_blocks,
        }
    }

    /// The first block of a track. `track.group` is below [`groups`](Self::groups); for any other
    /// the result is out of range.
    #[inline]
    pub const fn track_start(&self, track: Track) -> Nbo {
        let group = track.group.saturating_mul(self.group_blocks);
        match track.kind {
            TrackKind::Top => Nbo(group),
            TrackKind::Bottom => Nbo(group.saturating_add(self.top_blocks)),
        }
    }

    /// Splits a block number of the device into its zone and the block's offset there: the cheap
    /// half of [`at`](Self::at). The offset is a `Bo` or an `Nbo`, whichever the number was.
    #[inline(always)]
    pub const fn split(&self, block: u64) -> (u64, u32) {
        let zone_blocks = num::wide(self.zone_blocks);
        let zone = num::quotient(block, zone_blocks);
        (
            zone,
            num::low32(block.wrapping_sub(zone.wrapping_mul(zone_blocks))),
        )
    }

    /// Splits a sector number of the device into its zone and the sector's number there, which is
    /// below 2^19.
    #[inline]
    pub const fn split_sector(&self, sector: u64) -> (u64, u32) {
        let zone_sectors = self.zone_sectors();
        let zone = num::quotient(sector, zone_sectors);
        (
            zone,
            num::low32(sector.wrapping_sub(zone.wrapping_mul(zone_sectors))),
        )
    }

    /// The zone of a sector of the device.
    #[inline]
    pub const fn zone_of_sector(&self, sector: u64) -> u64 {
        self.split_sector(sector).0
    }

    /// AT: where block `block` of the device lies, an LBA or a PBA in blocks.
    pub const fn at(&self, block: u64) -> Address {
        let (zone, offset) = self.split(block);
        let Location { track, offset } = self.locate(Nbo(offset));
        Address {
            zone,
            track,
            offset,
        }
    }

    /// The inverse of AT: the number of the block at `address`.
    ///
    /// `None` if there is no such place (the group or the offset is too large), or if its number
    /// exceeds 64 bits.
    pub fn at_inverse(&self, address: Address) -> Option<u64> {
        let nbo = self.nbo(Location {
            track: address.track,
            offset: address.offset,
        })?;
        address
            .zone
            .checked_mul(num::wide(self.zone_blocks))?
            .checked_add(num::wide(nbo.0))
    }

    /// Where a block lies in its zone. `nbo` is in range; for any other the location has a group
    /// that the zone has not.
    #[inline(always)]
    pub const fn locate(&self, nbo: Nbo) -> Location {
        let group = num::quotient32(nbo.0, self.group_blocks);
        let offset = nbo.0.wrapping_sub(group.wrapping_mul(self.group_blocks));
        if offset < self.top_blocks {
            Location {
                track: Track {
                    group,
                    kind: TrackKind::Top,
                },
                offset,
            }
        } else {
            Location {
                track: Track {
                    group,
                    kind: TrackKind::Bottom,
                },
                offset: offset - self.top_blocks,
            }
        }
    }

    /// The inverse of [`locate`](Self::locate): the block at `location`, `None` if there is no
    /// such place.
    pub fn nbo(&self, location: Location) -> Option<Nbo> {
        let Location { track, offset } = location;
        if track.group >= self.groups || offset >= self.track_len(track.kind) {
            return None;
        }
        Some(self.track_start(track).after(offset))
    }

    /// The offset in a top track of the block that overlaps the block at offset `bottom_offset` of
    /// a bottom track beside it: floor(bottom_offset * top_blocks / bottom_blocks).
    ///
    /// `bottom_offset` is below [`bottom_blocks`](Self::bottom_blocks); any other counts as the
    /// last block of the track. The result is below [`top_blocks`](Self::top_blocks). The blocks
    /// of a run of n bottom blocks lie under at most n top blocks of each neighbour, because
    /// floor(x + y) - floor(x) <= ceil(y) and (n - 1) * top / bottom <= n - 1.
    #[inline]
    pub fn overlapping_top_offset(&self, bottom_offset: u32) -> u32 {
        // Below 2^31: see the type's invariants.
        let offset = bottom_offset.min(self.bottom_blocks - 1);
        num::quotient32(offset * self.top_blocks, self.bottom_blocks)
    }

    /// The top blocks that overlap a bottom block: the one in top track g, then the one in top
    /// track g+1 where the zone has it.
    ///
    /// Both `None` if `bottom` is not a block of a bottom track.
    pub fn neighbours(&self, bottom: Nbo) -> [Option<Nbo>; 2] {
        let Location { track, offset } = self.locate(bottom);
        if track.kind == TrackKind::Top {
            return [None; 2];
        }
        let offset = self.overlapping_top_offset(offset);
        self.neighbour_tracks(track.group).map(|track| {
            Some(Location {
                track: track?,
                offset,
            })
            .and_then(|place| self.nbo(place))
        })
    }

    /// The top tracks that overlap the bottom track of group `group`: its own, then the next where
    /// the zone has one. Both `None` if it has no group `group`.
    #[inline]
    pub fn neighbour_tracks(&self, group: u32) -> [Option<Track>; 2] {
        let top = |group| {
            (group < self.groups).then_some(Track {
                group,
                kind: TrackKind::Top,
            })
        };
        // No group has a number beyond the largest, so that a group that there is has a next.
        [top(group), top(group.saturating_add(1))]
    }

    /// The bottom blocks under a top block, the inverse of [`neighbours`](Self::neighbours): those
    /// in the bottom track before it (group g-1, where the zone has it), then those in the bottom
    /// track behind it (group g).
    ///
    /// Both empty if `top` is not a block of a top track.
    pub fn bottoms_under(&self, top: Nbo) -> [BottomRun; 2] {
        let Location { track, offset } = self.locate(top);
        if track.kind == TrackKind::Bottom || track.group >= self.groups {
            return [BottomRun::default(); 2];
        }
        // floor(b * T / B) = t  <=>  ceil(t * B / T) <= b < ceil((t + 1) * B / T). All of it is at
        // most T * B < 2^31: see the type's invariants.
        let first = (offset * self.bottom_blocks).div_ceil(self.top_blocks);
        let end = ((offset + 1) * self.bottom_blocks).div_ceil(self.top_blocks);
        [track.group.checked_sub(1), Some(track.group)].map(|group| {
            group.map_or(BottomRun::default(), |group| BottomRun {
                first: self
                    .track_start(Track {
                        group,
                        kind: TrackKind::Bottom,
                    })
                    .after(first),
                blocks: end - first,
            })
        })
    }

    /// The number of a top block among the top blocks of its zone, track by track: below
    /// [`top_blocks_per_zone`](Self::top_blocks_per_zone).
    ///
    /// `None` if `nbo` is not a block of a top track.
    #[inline(always)]
    pub fn top_number(&self, nbo: Nbo) -> Option<u32> {
        let Location { track, offset } = self.locate(nbo);
        (track.kind == TrackKind::Top && track.group < self.groups).then(|| {
            // Below `zone_tops`, so that nothing wraps.
            track
                .group
                .wrapping_mul(self.top_blocks)
                .wrapping_add(offset)
        })
    }
}
