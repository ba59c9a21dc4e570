// SPDX-License-Identifier: GPL-2.0-only

//! Puts events into the order in which they happened. Each processor has a buffer of its own, and what comes of all
//! of them together is out of order where two processors were at work at the same moment.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap},
};

use anyhow::{bail, Result};

use crate::tracefs::Traced;

/// So many events are held back at most.
pub const HELD: usize = 4096;

#[derive(Debug)]
struct BySeq(Traced);

impl PartialEq for BySeq {
    fn eq(&self, other: &Self) -> bool {
        self.0.seq == other.0.seq
    }
}

impl Eq for BySeq {}

impl PartialOrd for BySeq {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BySeq {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.seq.cmp(&other.0.seq)
    }
}

/// Events that wait for those before them. Which numbers will come is not known: other drives have theirs in between.
/// So an event is held back until the one before it was seen, until it was there for a while, or until there are too
/// many.
#[derive(Debug, Default)]
pub struct Reorder {
    held: BinaryHeap<Reverse<BySeq>>,
    /// The number of the last that was given out.
    last: Option<u64>,
    /// The same for each zone: only within a zone does the order matter.
    last_in: HashMap<u64, u64>,
    /// The largest number that has come.
    newest: u64,
    /// Up to this number, all are there.
    settled: u64,
    /// What will be `settled` next.
    settling: u64,
}

impl Reorder {
    /// Whether an event comes late, but not too late: events behind it were given out, but none of its zone.
    pub fn is_late(&self, traced: &Traced) -> bool {
        self.last.is_some_and(|last| traced.seq <= last) && self.after(traced).is_none()
    }

    /// The number of an event of its zone that is behind it and was given out.
    fn after(&self, traced: &Traced) -> Option<u64> {
        let last = self.last_in.get(&traced.zone?).copied();
        last.filter(|last| traced.seq <= *last)
    }

    /// Notes that an event is given out.
    pub fn note(&mut self, traced: &Traced) {
        if let Some(zone) = traced.zone {
            self.last_in.insert(zone, traced.seq);
        }
    }

    /// Takes an event.
    ///
    /// # Errors
    ///
    /// If it comes too late: events of its zone that are behind it were given out.
    pub fn push(&mut self, traced: Traced) -> Result<()> {
        if let Some(last) = self.after(&traced) {
            bail!(
                "events come in too great a disorder: number {} behind number {last}",
                traced.seq
            );
        }
        self.newest = self.newest.max(traced.seq);
        self.held.push(Reverse(BySeq(traced)));
        Ok(())
    }

    /// The next event that can be given out.
    pub fn pop(&mut self) -> Option<Traced> {
        let Reverse(BySeq(first)) = self.held.peek()?;
        let follows = self
            .last
            .is_some_and(|last| last.checked_add(1) == Some(first.seq));
        if !follows && first.seq > self.settled && self.held.len() <= HELD {
            return None;
        }
        let Reverse(BySeq(first)) = self.held.pop()?;
        self.last = Some(first.seq);
        self.note(&first);
        Some(first)
    }

    /// Says that a while has passed, at the end of which there was nothing more to read. Events that were there before it
    /// are held back no longer.
    pub fn settle(&mut self) {
        self.settled = self.settling;
        self.settling = self.newest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracefs::{Dev, What};

    fn traced(seq: u64) -> Traced {
        Traced {
            time: 0,
            dev: Dev { major: 1, minor: 1 },
            seq,
            zone: Some(0),
            what: What::Snapshot { cookie: 0 },
        }
    }

    fn ready(reorder: &mut Reorder) -> Vec<u64> {
        std::iter::from_fn(|| reorder.pop().map(|it| it.seq)).collect()
    }

    #[test]
    fn what_follows_is_not_held_back() {
        let mut reorder = Reorder::default();
        for seq in [7, 5, 9] {
            reorder.push(traced(seq)).unwrap();
        }
        assert!(ready(&mut reorder).is_empty());
        reorder.settle();
        assert!(ready(&mut reorder).is_empty());
        reorder.settle();
        assert_eq!(ready(&mut reorder), [5, 7, 9]);
        for (seq, expected) in [(11, vec![]), (10, vec![10, 11]), (12, vec![12])] {
            reorder.push(traced(seq)).unwrap();
            assert_eq!(ready(&mut reorder), expected);
        }
        for seq in [12, 8] {
            let error = reorder.push(traced(seq)).unwrap_err().to_string();
            assert!(
                error.contains(&format!("number {seq} behind number 12")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_late_is_so_in_its_zone_only() {
        let mut reorder = Reorder::default();
        reorder.push(traced(7)).unwrap();
        reorder.settle();
        reorder.settle();
        assert_eq!(ready(&mut reorder), [7]);
        let other = |seq| Traced {
            zone: Some(1),
            ..traced(seq)
        };
        assert!(reorder.is_late(&other(5)) && !reorder.is_late(&other(8)));
        reorder.note(&other(5));
        assert!(!reorder.is_late(&other(4)) && reorder.push(other(4)).is_err());
        assert!(reorder.push(traced(6)).is_err());
    }

    #[test]
    fn not_too_many_are_held() {
        let mut reorder = Reorder::default();
        for seq in 1..=HELD as u64 {
            reorder.push(traced(2 * seq)).unwrap();
            assert!(ready(&mut reorder).is_empty());
        }
        reorder.push(traced(3)).unwrap();
        assert_eq!(ready(&mut reorder), [2, 3, 4]);
    }

    #[test]
    fn what_comes_later_waits_its_own_while() {
        let mut reorder = Reorder::default();
        reorder.push(traced(2)).unwrap();
        reorder.settle();
        reorder.push(traced(4)).unwrap();
        reorder.settle();
        assert_eq!(ready(&mut reorder), [2]);
        reorder.settle();
        assert_eq!(ready(&mut reorder), [4]);
    }
}
