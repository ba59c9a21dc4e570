// SPDX-License-Identifier: GPL-2.0-only

//! The counters of the drive, and how they have grown.

use std::{collections::VecDeque, time::Duration};

use imrsim_core::{uapi::Statistics, Stats};

use crate::watch::since;

/// How many looks are remembered: more than a terminal has columns.
const REMEMBERED: usize = 1024;

/// Counters over time.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    now: Statistics,
    since: Stats,
    /// When the last look was.
    at: Duration,
    /// How long after the one before.
    elapsed: Duration,
    /// Write amplification in each interval, the newest last.
    history: VecDeque<Option<f64>>,
}

impl Counters {
    /// The first look.
    pub fn new(now: Statistics) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }

    /// Takes the counters of a look, so long after the first.
    pub fn add(&mut self, now: Statistics, at: Duration) {
        self.since = since(&self.now.stats(), &now.stats());
        self.now = now;
        self.elapsed = at.saturating_sub(self.at);
        self.at = at;
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        self.history.push_back(amplification(&self.since));
    }

    /// What the drive says of all its zones.
    pub fn statistics(&self) -> &Statistics {
        &self.now
    }

    /// What was counted in all.
    pub fn total(&self) -> Stats {
        self.now.stats()
    }

    /// What was counted between the last two looks.
    pub fn since(&self) -> &Stats {
        &self.since
    }

    /// How many a second, of so many between the last two looks; `None` if there was one look only.
    pub fn rate(&self, count: u64) -> Option<u64> {
        let count = u128::from(count) * 1000;
        let rate = count.checked_div(self.elapsed.as_millis())?;
        u64::try_from(rate).ok()
    }

    /// The write amplification in the last intervals, the newest first; `None` where nothing was
    /// written.
    pub fn history(&self) -> impl Iterator<Item = Option<f64>> + '_ {
        self.history.iter().rev().copied()
    }
}

fn amplification(stats: &Stats) -> Option<f64> {
    let (written, wanted) = stats.write_amplification();
    // CAST: for a picture.
    (wanted > 0).then(|| written as f64 / wanted as f64)
}
