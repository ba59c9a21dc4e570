// SPDX-License-Identifier: GPL-2.0-only

//! What the drive did, counted.
//!
//! The indicators are listed once, in the table below. The fields of [`Stats`], their names and
//! descriptions for users, their sum and their order on disk and in ioctls all follow from it. To
//! add an indicator, add a line at the end.
//!
//! Requests are counted once, however many runs they are cut to; blocks are counted by run, each
//! block that is touched once, be it only in part. Write amplification is what the heads write by
//! what the host wrote: (host blocks + top blocks written back) / host blocks.

use core::fmt;

use super::{
    plan::{
        Plan,
        Request, //
    },
    zone::{
        Placed,
        ReadRun, //
    },
};

/// A line of the table: what one counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indicator {
    /// The counter's name, in `snake_case`.
    pub name: &'static str,
    /// What it counts, for users: one or more sentences without line breaks.
    pub doc: &'static str,
}

macro_rules! indicators {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The counters of a zone or of a device.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Stats {
            /// What each counter counts, in their order.
            pub const INDICATORS: &'static [Indicator] = &[
                $(Indicator {
                    name: stringify!($name),
                    doc: concat!($($doc),+).trim_ascii(),
                },)+
            ];

            /// The counters, in the order of [`INDICATORS`](Self::INDICATORS).
            pub const fn values(&self) -> [u64; Self::INDICATORS.len()] {
                [$(self.$name),+]
            }

            /// The counters with these values; the inverse of [`values`](Self::values).
            pub const fn from_values(values: [u64; Self::INDICATORS.len()]) -> Self {
                let [$($name),+] = values;
                Self { $($name),+ }
            }
        }
    };
}

// THE TABLE.
indicators! {
    /// Read requests of the host.
    host_read_requests,
    /// Blocks the host read, unmapped ones included.
    host_read_blocks,
    /// Blocks the host read that were never written, so that nothing was read.
    zero_read_blocks,
    /// Write requests of the host.
    host_write_requests,
    /// Blocks the host wrote.
    host_write_blocks,
    /// Blocks the host wrote for the first time.
    first_write_blocks,
    /// Blocks the host wrote that were mapped before.
    update_blocks,
    /// Blocks the host wrote on top tracks.
    top_write_blocks,
    /// Blocks the host wrote on bottom tracks.
    bottom_write_blocks,
    /// Read-modify-writes for the sake of one neighbouring top track.
    rmw_one_neighbour,
    /// Read-modify-writes for the sake of two neighbouring top tracks.
    rmw_two_neighbours,
    /// Top blocks read by read-modify-writes.
    rmw_read_blocks,
    /// Top blocks written back by read-modify-writes.
    extra_write_blocks,
    /// Discard requests of the host.
    discard_requests,
    /// Mapped blocks that discards and resets unmapped.
    unmapped_blocks,
    /// Reads and writes of the host that go on in the next zone, once in each zone that they leave.
    cross_zone_requests,
    /// Beginnings and ends of reads and writes of the host that lie inside a block: none, one or two for each request.
    unaligned_edges,
    /// Resets of the zone.
    zone_resets,
}

/// What of a request of the host a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Whether it is the last run of the request in this zone.
    pub ends_request: bool,
    /// Whether it is that, and the request goes on in the next zone.
    pub crosses_zone: bool,
    /// How many ends of the request lie in it, and inside a block: 0 to 2.
    pub unaligned_edges: u32,
}

impl Piece {
    /// A whole request, with so many ends inside a block.
    pub const fn whole(unaligned_edges: u32) -> Self {
        Self {
            ends_request: true,
            crosses_zone: false,
            unaligned_edges,
        }
    }

    /// The first `blocks` blocks of `request`, which is what is left of a request in a zone.
    /// `more` says that somebody else carries on with that request in the same zone, and
    /// `crosses_zone` that it goes on in the next.
    #[inline]
    pub fn of(request: &Request, blocks: u32, more: bool, crosses_zone: bool) -> Self {
        let ends_request = !more && blocks >= request.blocks;
        let tail = blocks >= request.blocks && request.tail_partial;
        Self {
            ends_request,
            crosses_zone: ends_request && crosses_zone,
            unaligned_edges: u32::from(request.head_partial) + u32::from(tail),
        }
    }
}

/// Adds to a counter. One that would overflow stays at its largest value.
fn add(counter: &mut u64, more: u64) {
    *counter = counter.saturating_add(more);
}

impl Stats {
    /// The length of [`to_bytes`](Self::to_bytes)'s result.
    pub const BYTES: usize = Self::INDICATORS.len() * size_of::<u64>();

    /// Counts what a run says of its request.
    #[inline]
    fn count_piece(&mut self, piece: Piece) {
        add(&mut self.cross_zone_requests, u64::from(piece.crosses_zone));
        add(&mut self.unaligned_edges, u64::from(piece.unaligned_edges));
    }

    /// Counts a run read.
    pub fn count_read(&mut self, run: &ReadRun, piece: Piece) {
        let (ReadRun::Mapped { blocks, .. } | ReadRun::Zeros { blocks }) = *run;
        let blocks = u64::from(blocks);
        self.count_piece(piece);
        add(&mut self.host_read_requests, u64::from(piece.ends_request));
        add(&mut self.host_read_blocks, blocks);
        if matches!(run, ReadRun::Zeros { .. }) {
            add(&mut self.zero_read_blocks, blocks);
        }
    }

    /// Counts a read of a single block that was found, as [`count_read`](Self::count_read) would.
    #[inline]
    pub fn count_block_read(&mut self, unaligned_edges: u32) {
        self.unaligned_edges = self.unaligned_edges.wrapping_add(unaligned_edges.into());
        self.host_read_requests = self.host_read_requests.wrapping_add(1);
        self.host_read_blocks = self.host_read_blocks.wrapping_add(1);
    }

    /// Counts a request of a single block that rewrites nothing, as
    /// [`count_write`](Self::count_write) would. No counter of blocks can overflow by ones.
    #[inline]
    pub fn count_block(&mut self, placed: &Placed, unaligned_edges: u32) {
        self.unaligned_edges = self.unaligned_edges.wrapping_add(unaligned_edges.into());
        let count = |counter: &mut u64| *counter = counter.wrapping_add(1);
        count(&mut self.host_write_requests);
        count(&mut self.host_write_blocks);
        if placed.first {
            count(&mut self.first_write_blocks);
        } else {
            count(&mut self.update_blocks);
        }
        if placed.top.is_some() {
            count(&mut self.top_write_blocks);
        } else {
            count(&mut self.bottom_write_blocks);
        }
    }

    /// Counts a run written.
    #[inline]
    pub fn count_write(&mut self, plan: &Plan, piece: Piece) {
        let blocks = u64::from(plan.blocks);
        self.count_piece(piece);
        add(&mut self.host_write_requests, u64::from(piece.ends_request));
        add(&mut self.host_write_blocks, blocks);
        if plan.first {
            add(&mut self.first_write_blocks, blocks);
        } else {
            add(&mut self.update_blocks, blocks);
        }
        if plan.top {
            add(&mut self.top_write_blocks, blocks);
        } else {
            add(&mut self.bottom_write_blocks, blocks);
        }
        match plan.rmw_neighbours() {
            0 => return,
            1 => add(&mut self.rmw_one_neighbour, 1),
            _ => add(&mut self.rmw_two_neighbours, 1),
        }
        let extra = u64::from(plan.extra_writes());
        add(&mut self.rmw_read_blocks, extra);
        add(&mut self.extra_write_blocks, extra);
    }

    /// Counts a discard, be it that it unmaps nothing: once, in the first of its zones that was ever
    /// written to.
    pub fn count_discard(&mut self) {
        add(&mut self.discard_requests, 1);
    }

    /// Counts a reset.
    pub fn count_reset(&mut self) {
        add(&mut self.zone_resets, 1);
    }

    /// Counts blocks that a discard or a reset has unmapped.
    pub fn count_unmapped(&mut self, blocks: u32) {
        add(&mut self.unmapped_blocks, u64::from(blocks));
    }

    /// The counters with their names and descriptions.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Indicator, u64)> {
        Self::INDICATORS.iter().zip(self.values())
    }

    /// The sum of two sets of counters; a counter that would overflow stays at its largest value.
    pub fn plus(&self, other: &Self) -> Self {
        let mut values = self.values();
        for (value, more) in values.iter_mut().zip(other.values()) {
            add(value, more);
        }
        Self::from_values(values)
    }

    /// Adds the counters of `other`, for instance those of a zone to those of the device.
    pub fn merge(&mut self, other: &Self) {
        *self = self.plus(other);
    }

    /// Blocks written by the heads: those of the host and those written back.
    pub const fn write_total(&self) -> u64 {
        self.host_write_blocks
            .saturating_add(self.extra_write_blocks)
    }

    /// Write amplification as a ratio: blocks written by the heads, blocks written by the host.
    pub const fn write_amplification(&self) -> (u64, u64) {
        (self.write_total(), self.host_write_blocks)
    }

    /// Write amplification as users see it.
    pub const fn waf(&self) -> Waf {
        Waf(self.write_total(), self.host_write_blocks)
    }

    /// The counters as bytes, each as a little-endian 64-bit number, in their order.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (bytes, value) in bytes.chunks_exact_mut(size_of::<u64>()).zip(self.values()) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// The counters from [`to_bytes`](Self::to_bytes)'s result. Of fewer bytes, as an older version
    /// with fewer indicators wrote, the missing counters are 0; bytes beyond are ignored.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut values = Self::default().values();
        for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(size_of::<u64>())) {
            *value = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        Self::from_values(values)
    }
}

/// A ratio of two counts that prints with six digits, rounded half up: "1.550354".
///
/// Prints "-" when the second count is 0: nothing written has no amplification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waf(pub u64, pub u64);

impl Waf {
    /// The ratio in millionths, rounded half up: (whole part, millionths). `None` if the second
    /// count is 0.
    pub fn millionths(&self) -> Option<(u64, u32)> {
        // Long division, because the kernel has no 128-bit one. To leave room for one more decimal
        // digit, both counts lose bits that are far beyond the sixth digit.
        let spare = if self.1 > u64::MAX / 16 { 4 } else { 0 };
        let (count, by) = (self.0 >> spare, self.1 >> spare);
        let mut whole = count.checked_div(by)?;
        let mut rest = count.checked_rem(by)?;
        let mut millionths: u32 = 0;
        for _ in 0..6 {
            // `rest < by <= u64::MAX / 16`, so that ten times as much fits, and gives one digit.
            let digit = (rest * 10) / by;
            rest = (rest * 10) % by;
            millionths = millionths * 10 + u32::try_from(digit).unwrap_or(9);
        }
        if rest >= by - rest {
            millionths += 1;
        }
        if millionths == 1_000_000 {
            millionths = 0;
            whole = whole.saturating_add(1);
        }
        Some((whole, millionths))
    }
}

impl fmt::Display for Waf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.millionths() {
            Some((whole, millionths)) => write!(f, "{whole}.{millionths:06}"),
            None => f.write_str("-"),
        }
    }
}
