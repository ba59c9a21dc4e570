// SPDX-License-Identifier: GPL-2.0-only

//! How long requests took.

use std::io::Write;

use anyhow::Result;
use imrsim_core::{
    latency::{bound, Kind},
    uapi, Settings,
};
use serde::Serialize;

use crate::{
    device::{Device, Transport},
    number::{percent, Nanos},
    report::{self, Style},
};

/// The setting that switches it on.
pub(crate) const SETTING: &str = "measure_latency";

/// A bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Bucket {
    /// Requests in it took less than this, and are in no earlier one; without a bound in the last.
    pub(crate) below_ns: Option<u64>,
    pub(crate) requests: u64,
    /// Those in it and in the ones before.
    pub(crate) cumulated: u64,
}

/// The histogram of a kind of request.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Histogram {
    pub(crate) kind: &'static str,
    pub(crate) requests: u64,
    pub(crate) total_ns: u64,
    pub(crate) buckets: Vec<Bucket>,
}

impl Histogram {
    /// Asks for the histograms of a kind, or of all kinds that the drive knows.
    pub(crate) fn ask<T: Transport>(
        device: &mut Device<T>,
        kind: Option<Kind>,
    ) -> Result<Vec<Self>> {
        // CAST: a handful.
        let known = device.config()?.latency_kinds as usize;
        Kind::ALL
            .iter()
            .take(known)
            .filter(|it| kind.is_none_or(|kind| kind == **it))
            .map(|kind| Ok(Self::new(*kind, &device.latency(*kind)?)))
            .collect()
    }

    fn new(kind: Kind, answer: &uapi::Latency) -> Self {
        let mut cumulated = 0_u64;
        let counts = answer.counts.iter().take(answer.bucket_count as usize);
        let buckets = counts
            .enumerate()
            .map(|(index, requests)| {
                cumulated = cumulated.saturating_add(*requests);
                Bucket {
                    below_ns: bound(index),
                    requests: *requests,
                    cumulated,
                }
            })
            .collect();
        Self {
            kind: kind.name(),
            // What the buckets add up to: requests may be counted between two of them.
            requests: cumulated,
            total_ns: answer.nanoseconds,
            buckets,
        }
    }

    fn print(&self, out: &mut dyn Write) -> Result<()> {
        let mean = self.total_ns.checked_div(self.requests);
        write!(out, "{}: {} requests", self.kind, self.requests)?;
        match mean {
            Some(mean) => writeln!(out, ", {} on average", Nanos(mean))?,
            None => writeln!(out)?,
        }
        // Buckets before the first and behind the last that has requests say nothing.
        let used = |bucket: &Bucket| bucket.requests > 0;
        let (Some(first), Some(last)) = (
            self.buckets.iter().position(used),
            self.buckets.iter().rposition(used),
        ) else {
            return Ok(());
        };
        let header = ["below", "requests", "share", "cumulated"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        // A cell is one word, so that columns can be told apart.
        let word = |text: String| text.replace(' ', "");
        for bucket in self.buckets.iter().take(last + 1).skip(first) {
            rows.push(vec![
                bucket
                    .below_ns
                    .map_or("-".to_owned(), |bound| word(Nanos(bound).to_string())),
                bucket.requests.to_string(),
                word(percent(bucket.requests, self.requests)),
                word(percent(bucket.cumulated, self.requests)),
            ]);
        }
        report::table(&rows, out)
    }
}

/// Whether latencies are measured now.
pub(crate) fn is_measured<T: Transport>(device: &mut Device<T>) -> Result<bool> {
    match Settings::find(SETTING) {
        // CAST: a handful.
        Some(number) => Ok(device.setting(number as u32)? != 0),
        None => Ok(false),
    }
}

/// Shows the histograms of a kind, or of all kinds.
pub(crate) fn show<T: Transport>(
    device: &mut Device<T>,
    kind: Option<Kind>,
    style: Style,
    out: &mut dyn Write,
) -> Result<()> {
    #[derive(Serialize)]
    struct Shown {
        measured: bool,
        kinds: Vec<Histogram>,
    }

    let measured = is_measured(device)?;
    let kinds = Histogram::ask(device, kind)?;
    if style == Style::Json {
        return report::json(&Shown { measured, kinds }, out);
    }
    if !measured {
        let name = device.name();
        writeln!(
            out,
            "latencies are not measured now: 'imrsim_util latency on {name}' begins with it\n"
        )?;
    }
    for (index, histogram) in kinds.iter().enumerate() {
        if index > 0 && (histogram.requests > 0 || kinds[index - 1].requests > 0) {
            writeln!(out)?;
        }
        histogram.print(out)?;
    }
    Ok(())
}

/// The kinds there are, for a parser.
pub(crate) fn kind(name: &str) -> Option<Kind> {
    let name = name.replace('-', "_");
    Kind::ALL.iter().copied().find(|kind| kind.name() == name)
}
