// SPDX-License-Identifier: GPL-2.0-only

//! How the extra writes are spread over the zones.

use std::cmp::Ordering;

use imrsim_core::{Stats, Waf};
use serde::{ser::Serializer, Serialize};

use crate::drive::Drive;

/// Where values lie, by their ranks: a percentile is the least value that so many per cent of the
/// values do not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range<T> {
    /// The least.
    pub min: T,
    /// The 50th percentile.
    pub median: T,
    /// The 95th percentile.
    pub p95: T,
    /// The largest.
    pub max: T,
}

impl<T: Copy> Range<T> {
    /// Of values in ascending order; `None` if there are none.
    fn of(sorted: &[T]) -> Option<Self> {
        let percentile = |part: usize| {
            let rank = (sorted.len() * part).div_ceil(100);
            sorted.get(rank.saturating_sub(1)).copied()
        };
        Some(Self {
            min: percentile(0)?,
            median: percentile(50)?,
            p95: percentile(95)?,
            max: percentile(100)?,
        })
    }
}

/// What the zones of a drive have in common, and what not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Zones that something was asked of.
    pub zones_touched: u64,
    /// Zones that the host wrote to. What follows is of these.
    pub zones_written: u64,
    /// Blocks written back in a zone.
    pub extra_write_blocks: Option<Range<u64>>,
    /// Write amplification of a zone.
    #[serde(serialize_with = "amplification")]
    pub write_amplification: Option<Range<Waf>>,
    /// Blocks written back in the tenth of the zones, rounded up, that has most of them; and in all.
    #[serde(rename = "busiest_tenth_ratio", serialize_with = "ratio")]
    pub busiest_tenth: (u64, u64),
}

/// A quotient as a number; `None` of nothing.
pub(crate) fn quotient((part, whole): (u64, u64)) -> Option<f64> {
    // Six digits, as in text.
    Waf(part, whole).to_string().parse().ok()
}

fn ratio<S: Serializer>(counts: &(u64, u64), serializer: S) -> Result<S::Ok, S::Error> {
    quotient(*counts).serialize(serializer)
}

fn amplification<S: Serializer>(
    range: &Option<Range<Waf>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let number = |Waf(part, whole)| quotient((part, whole));
    range
        .map(|it| Range {
            min: number(it.min),
            median: number(it.median),
            p95: number(it.p95),
            max: number(it.max),
        })
        .serialize(serializer)
}

impl Spread {
    /// The spread over the zones of a drive.
    pub fn of(drive: &Drive) -> Self {
        Self::over(drive.touched_zones().map(|(_, stats)| stats))
    }

    fn over<'a>(zones: impl Iterator<Item = &'a Stats>) -> Self {
        let (mut touched, mut extra, mut factors) = (0, Vec::new(), Vec::new());
        for stats in zones {
            touched += 1;
            if stats.host_write_blocks > 0 {
                extra.push(stats.extra_write_blocks);
                factors.push(stats.waf());
            }
        }
        extra.sort_unstable();
        factors.sort_unstable_by(by_quotient);
        let busiest = extra.iter().rev().take(extra.len().div_ceil(10));
        Self {
            zones_touched: touched,
            zones_written: extra.len() as u64,
            extra_write_blocks: Range::of(&extra),
            write_amplification: Range::of(&factors),
            busiest_tenth: (busiest.sum(), extra.iter().sum()),
        }
    }
}

fn by_quotient(one: &Waf, other: &Waf) -> Ordering {
    let cross = |one: &Waf, other: &Waf| u128::from(one.0) * u128::from(other.1);
    cross(one, other).cmp(&cross(other, one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(written: u64, extra: u64) -> Stats {
        Stats {
            host_write_blocks: written,
            extra_write_blocks: extra,
            ..Stats::default()
        }
    }

    #[test]
    fn percentiles_are_values() {
        let of = |count: u64| Range::of(&(1..=count).collect::<Vec<_>>());
        let range = |min, median, p95, max| {
            Some(Range {
                min,
                median,
                p95,
                max,
            })
        };
        assert_eq!(of(0), None);
        assert_eq!(of(1), range(1, 1, 1, 1));
        assert_eq!(of(2), range(1, 1, 2, 2));
        assert_eq!(of(3), range(1, 2, 3, 3));
        assert_eq!(of(100), range(1, 50, 95, 100));
        assert_eq!(of(101), range(1, 51, 96, 101));
    }

    #[test]
    fn only_zones_that_were_written_to_count() {
        let zones = [
            zone(10, 0),
            zone(0, 0),
            zone(100, 60),
            zone(4, 8),
            zone(2, 2),
        ];
        let spread = Spread::over(zones.iter());
        assert_eq!((spread.zones_touched, spread.zones_written), (5, 4));
        let extra = spread.extra_write_blocks.unwrap();
        assert_eq!((extra.min, extra.median, extra.max), (0, 2, 60));
        let factors = spread.write_amplification.unwrap();
        assert_eq!(factors.min, Waf(10, 10));
        assert_eq!(factors.median, Waf(160, 100));
        assert_eq!(factors.max, Waf(12, 4));
        assert_eq!(spread.busiest_tenth, (60, 70));
    }

    #[test]
    fn nothing_was_written() {
        let zones = [zone(0, 0)];
        let json = serde_json::to_value(Spread::over(zones.iter())).unwrap();
        assert_eq!(json["zones_touched"], 1);
        assert!(json["write_amplification"].is_null());
        assert!(json["busiest_tenth_ratio"].is_null());
    }
}
