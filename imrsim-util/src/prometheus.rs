// SPDX-License-Identifier: GPL-2.0-only

//! Counters in the text format of Prometheus, for a textfile collector or a pushgateway.
//!
//! A counter's metric is called `imrsim_NAME_total` after its line in [`Stats::INDICATORS`], whose
//! description is its help text. What is no counter is a gauge: `imrsim_mapped_blocks` and others.
//! Latencies are a histogram in seconds, with the kind of request as a label.
//!
//! [`Stats::INDICATORS`]: imrsim_core::Stats::INDICATORS

use std::{fmt::Display, io::Write};

use anyhow::Result;

use crate::{
    control::Scope,
    device::{Device, Transport},
    latency::Histogram,
    report::{self, Counters},
};

/// Writes the counters and gauges of a drive, or of zones of it.
pub(crate) fn export<T: Transport>(
    device: &mut Device<T>,
    scope: Scope,
    out: &mut dyn Write,
) -> Result<()> {
    let mut labels = format!("device=\"{}\"", escape_label(device.name()));
    match scope {
        Scope::Device => {}
        Scope::First(zones) => labels.push_str(&format!(",first_zones=\"{zones}\"")),
        Scope::Zone(zone) => {
            let zone = zone.number(device)?;
            labels.push_str(&format!(",zone=\"{zone}\""));
        }
    }
    let counters = report::counters(device, scope)?;
    let Counters(statistics) = &counters;
    let gauges = [
        (
            "capacity_blocks",
            "Blocks of 4 KiB there are.",
            statistics.capacity_blocks,
        ),
        (
            "mapped_blocks",
            "Blocks that are mapped.",
            statistics.mapped_blocks,
        ),
        (
            "used_top_blocks",
            "Blocks on top tracks that are in use.",
            statistics.used_top_blocks,
        ),
        (
            "allocation_phases",
            "Phases of the allocation in use, 1 for none.",
            u64::from(statistics.phases),
        ),
    ];
    for (name, help, value) in gauges {
        single(name, help, "gauge", &labels, value, out)?;
    }
    for (name, help, value) in counters.indicators() {
        let name = format!("{name}_total");
        single(&name, help, "counter", &labels, value, out)?;
    }
    if scope == Scope::Device {
        device_metrics(device, &labels, out)?;
    }
    Ok(())
}

/// What there is of the drive as a whole only.
fn device_metrics<T: Transport>(
    device: &mut Device<T>,
    labels: &str,
    out: &mut dyn Write,
) -> Result<()> {
    let config = device.config()?;
    single(
        "zones",
        "Zones of the drive.",
        "gauge",
        labels,
        config.zones,
        out,
    )?;
    for (name, help, micros) in [
        (
            "elapsed_seconds_total",
            "Time since the drive was resumed or its counters were reset.",
            config.elapsed_us,
        ),
        (
            "idle_seconds_total",
            "Time in which no request was under way.",
            config.idle_us,
        ),
    ] {
        let seconds = seconds(micros, 6);
        single(name, help, "counter", labels, seconds, out)?;
    }
    let errors = device.errors(0)?;
    for (name, help, value) in [
        (
            "read_errors_total",
            "Reads of the host that failed since errors were forgotten.",
            errors.read_errors,
        ),
        (
            "write_errors_total",
            "Writes, discards and flushes of the host that failed since errors were forgotten.",
            errors.write_errors,
        ),
    ] {
        single(name, help, "counter", labels, value, out)?;
    }

    head(
        "setting",
        "A setting of the drive, in its unit; switches are 0 or 1.",
        "gauge",
        out,
    )?;
    for (setting, value) in report::settings(device, &config)?.0 {
        let labels = format!("{labels},setting=\"{}\"", setting.name);
        writeln!(out, "imrsim_setting{{{labels}}} {value}")?;
    }

    let name = "request_duration_seconds";
    let help = "How long requests of a kind took while that was measured.";
    head(name, help, "histogram", out)?;
    for histogram in Histogram::ask(device, None)? {
        let labels = format!("{labels},kind=\"{}\"", histogram.kind);
        for bucket in &histogram.buckets {
            let bound = match bucket.below_ns {
                Some(bound) => seconds(bound, 9),
                None => "+Inf".to_owned(),
            };
            writeln!(
                out,
                "imrsim_{name}_bucket{{{labels},le=\"{bound}\"}} {}",
                bucket.cumulated
            )?;
        }
        let sum = seconds(histogram.total_ns, 9);
        writeln!(out, "imrsim_{name}_sum{{{labels}}} {sum}")?;
        writeln!(
            out,
            "imrsim_{name}_count{{{labels}}} {}",
            histogram.requests
        )?;
    }
    Ok(())
}

/// A time in seconds with so many decimals, without zeros at its end.
fn seconds(time: u64, decimals: u32) -> String {
    let unit = 10_u64.pow(decimals);
    let text = format!(
        "{}.{:0width$}",
        time / unit,
        time % unit,
        width = decimals as usize
    );
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn head(name: &str, help: &str, kind: &str, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "# HELP imrsim_{name} {}", escape_help(help))?;
    writeln!(out, "# TYPE imrsim_{name} {kind}")?;
    Ok(())
}

/// A metric with one sample.
fn single(
    name: &str,
    help: &str,
    kind: &str,
    labels: &str,
    value: impl Display,
    out: &mut dyn Write,
) -> Result<()> {
    head(name, help, kind, out)?;
    writeln!(out, "imrsim_{name}{{{labels}}} {value}")?;
    Ok(())
}

fn escape_help(text: &str) -> String {
    text.replace('\\', r"\\").replace('\n', r"\n")
}

fn escape_label(text: &str) -> String {
    escape_help(text).replace('"', r#"\""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped() {
        assert_eq!(escape_label("a\\b\"c\nd"), r#"a\\b\"c\nd"#);
        assert_eq!(seconds(0, 6), "0");
        assert_eq!(seconds(1_500_000, 6), "1.5");
        assert_eq!(seconds(512, 9), "0.000000512");
        assert_eq!(seconds(10_000_000_000, 9), "10");
        assert_eq!(escape_help("a\\b\"c\nd"), r#"a\\b"c\nd"#);
    }
}
