// SPDX-License-Identifier: GPL-2.0-only

//! How long requests take: kinds of requests, and the buckets of their histograms.

/// Buckets of a histogram.
pub const BUCKETS: usize = 28;

/// The upper bound of the first bucket is 2 to this power, in nanoseconds.
const FIRST_BITS: u32 = 9;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident, $text:literal;)+) => {
        /// What a request is, as far as its latency is concerned.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Kind {
            /// Every kind, in the order of their numbers, from 0 on.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Its name for users.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// What it is, for users: a sentence without line breaks.
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

kinds! {
    /// A read that found data.
    Read, "read";
    /// A read of blocks that were never written.
    ReadZeros, "read_zeros";
    /// A write without rewriting.
    Write, "write";
    /// A write for which neighbouring top tracks were rewritten.
    Rewrite, "rewrite";
    /// A flush.
    Flush, "flush";
    /// A discard.
    Discard, "discard";
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Its number.
    pub fn number(self) -> usize {
        Self::ALL.iter().position(|it| *it == self).unwrap_or(0)
    }
}

/// The bucket of a latency in nanoseconds. Bucket b has those below [`bound`]`(b)` that are not in
/// an earlier one.
pub fn bucket(nanoseconds: u64) -> usize {
    let bits = u64::BITS - nanoseconds.leading_zeros();
    let index = usize::try_from(bits.saturating_sub(FIRST_BITS)).unwrap_or(usize::MAX);
    index.min(BUCKETS - 1)
}

/// The upper bound of a bucket in nanoseconds, which is not in it; `None` for the last, which has
/// none.
pub fn bound(bucket: usize) -> Option<u64> {
    if bucket.saturating_add(1) >= BUCKETS {
        return None;
    }
    1_u64.checked_shl(FIRST_BITS.checked_add(u32::try_from(bucket).ok()?)?)
}
