// SPDX-License-Identifier: GPL-2.0-only

//! What is asked of a device and what is shown of the answer, with a simulated drive that answers
//! the ioctls' own bytes. `SNAPSHOTS=overwrite cargo test` writes down what is shown now.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::Duration,
};

use anyhow::Result;
use imrsim_core::{
    latency,
    uapi::{
        Config, Errors, Latency, Message, Request, ALL_ZONES, INDICATORS, RESET_SETTINGS,
        RESET_ZONES,
    },
    Allocation, Condition, Geometry, Settings, Stats,
};
use imrsim_util::{
    control::{set_command, Clear, Command, Failed, Scope, ZoneAt},
    device::{Device, Transport},
    drive::Drive,
    exit,
    report::Style,
    watch::{self, watch},
    zones::Filter,
};
use snapbox::{assert_data_eq, file, str};

/// A drive of 4 zones of 20 blocks, two of which were written to.
fn device() -> Device<Drive> {
    let geometry = Geometry::new(4, 6, 2).unwrap();
    let allocation = Allocation::from_phases(2).unwrap();
    let mut drive = Drive::new(geometry, 4, allocation).unwrap();
    // Zone 0: full, then bottom updates with one and with two neighbours, and half a block.
    drive.write(0, 20 * 4096).unwrap();
    drive.write(0, 4096).unwrap();
    drive.write(11 * 4096, 4096).unwrap();
    drive.write(15 * 4096 + 512, 2048).unwrap();
    // Zone 1: one block, read together with the one behind it.
    drive.write(25 * 4096, 512).unwrap();
    drive.read(25 * 4096, 8192).unwrap();
    Device::new("/dev/mapper/imrsim", drive)
}

/// Asks a simulated drive, which has no device mapper.
fn run<T: Transport>(
    command: Command,
    device: &mut Device<T>,
    style: Style,
    out: &mut dyn Write,
) -> Result<()> {
    command.run(device, None, style, out, &mut io::sink())
}

fn shown(command: Command, style: Style) -> String {
    let mut out = Vec::new();
    run(command, &mut device(), style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn configuration() {
    let command = Command::ShowConfig;
    assert_data_eq!(shown(command, Style::Text), file!["data/config.txt"]);
    assert_data_eq!(shown(command, Style::Json), file!["data/config.json"].raw());
}

#[test]
fn statistics_of_the_device() {
    let command = Command::ShowStatistics(Scope::Device);
    assert_data_eq!(shown(command, Style::Text), file!["data/stats.txt"]);
    assert_data_eq!(shown(command, Style::Json), file!["data/stats.json"].raw());
}

#[test]
fn statistics_of_a_zone() {
    let command = Command::ShowStatistics(Scope::Zone(ZoneAt::Index(1)));
    assert_data_eq!(shown(command, Style::Text), file!["data/stats-zone.txt"]);
    assert_data_eq!(
        shown(command, Style::Json),
        file!["data/stats-zone.json"].raw()
    );
}

#[test]
fn statistics_of_nothing() {
    let drive = Drive::new(Geometry::DEFAULT, 1, Allocation::default()).unwrap();
    let mut out = Vec::new();
    let command = Command::ShowStatistics(Scope::Device);
    run(command, &mut Device::new("x", drive), Style::Text, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("write amplification  -\n"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn zones() {
    assert_data_eq!(
        shown(Command::ZoneCount, Style::Text),
        str![[r#"
4 zones

"#]]
    );
    assert_data_eq!(
        shown(Command::ZoneSize, Style::Text),
        str![[r#"
160 sectors (80 KiB)

"#]]
    );
}

#[test]
fn lists_of_zones() {
    let list = |filter| Command::ListZones(filter, None);
    assert_data_eq!(
        shown(list(Filter::All), Style::Text),
        file!["data/zones.txt"]
    );
    assert_data_eq!(
        shown(list(Filter::NotFull), Style::Json),
        file!["data/zones.json"].raw()
    );
    for (filter, zones) in [
        (Filter::All, &["0", "1", "2", "3"][..]),
        (Filter::Free, &["2", "3"]),
        (Filter::NotFull, &["1", "2", "3"]),
        (Filter::Full, &["0"]),
    ] {
        let text = shown(list(filter), Style::Text);
        let rows = text.lines().skip(1);
        let listed: Vec<_> = rows
            .map(|row| row.split_whitespace().next().unwrap())
            .collect();
        assert_eq!(listed, zones, "{filter:?}");
    }
}

#[test]
fn one_zone() {
    let command = Command::ShowZone(ZoneAt::Index(1));
    assert_data_eq!(shown(command, Style::Text), file!["data/zone.txt"]);
    assert_data_eq!(shown(command, Style::Json), file!["data/zone.json"].raw());
}

/// A metric of the text format: its help, its type, and its samples by their names and labels.
#[derive(Debug, Default)]
struct Metric {
    help: String,
    kind: String,
    samples: BTreeMap<String, f64>,
}

impl Metric {
    /// The sample with these labels of a metric that is called `name`.
    fn sample(&self, name: &str, labels: &str) -> f64 {
        self.samples[&format!("{name}{{{labels}}}")]
    }
}

/// Reads the text format of Prometheus, version 0.0.4, as strictly as a scraper.
fn parse_prometheus(text: &str) -> BTreeMap<String, Metric> {
    let is_name = |name: &str| {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty()
            && name.chars().all(part)
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    let mut current = String::new();
    assert!(text.ends_with('\n'), "the last line is cut off");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            let metric = metrics.entry(name.to_owned()).or_default();
            assert!(metric.help.is_empty(), "a second help: {line}");
            metric.help = help.to_owned();
            current = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let metric = metrics.entry(name.to_owned()).or_default();
            assert!(
                metric.kind.is_empty() && metric.samples.is_empty(),
                "{line}"
            );
            metric.kind = kind.to_owned();
            assert_eq!(name, current, "{line}");
        } else {
            let (name, rest) = line.split_once('{').unwrap();
            let (labels, value) = rest.split_once("} ").unwrap();
            assert!(is_name(name), "{line}");
            for label in labels.split(',') {
                let (name, value) = label.split_once('=').unwrap();
                assert!(is_name(name), "{line}");
                let value = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
                assert!(value.is_some_and(|it| !it.contains('"')), "{line}");
            }
            // The samples of a metric are together, those of a histogram under its name.
            let metric = metrics.get_mut(&current).unwrap();
            let end = name.strip_prefix(&current).expect(line);
            let ends: &[&str] = match &*metric.kind {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(ends.contains(&end), "{line}");
            let sample = format!("{name}{{{labels}}}");
            let before = metric.samples.insert(sample, value.parse().unwrap());
            assert_eq!(before, None, "a second sample: {line}");
        }
    }
    metrics
}

/// The metrics of a drive that answers as `Slow` does.
fn exported(scope: Scope) -> BTreeMap<String, Metric> {
    let mut out = Vec::new();
    let command = Command::ExportStatistics(scope);
    run(command, &mut slow(), Style::Text, &mut out).unwrap();
    parse_prometheus(&String::from_utf8(out).unwrap())
}

#[test]
fn prometheus_has_every_indicator() {
    for (scope, zone, labels) in [
        (Scope::Device, ALL_ZONES, r#"device="/dev/mapper/imrsim""#),
        (
            Scope::Zone(ZoneAt::Index(1)),
            1,
            r#"device="/dev/mapper/imrsim",zone="1""#,
        ),
    ] {
        let metrics = exported(scope);
        let expected = device().statistics(zone).unwrap();
        for (indicator, value) in Stats::INDICATORS.iter().zip(expected.indicators) {
            let name = format!("imrsim_{}_total", indicator.name);
            let metric = &metrics[&name];
            assert_eq!(metric.help, indicator.doc);
            assert_eq!(metric.kind, "counter");
            assert_eq!(metric.samples.len(), 1);
            assert_eq!(metric.sample(&name, labels), value as f64);
        }
        for (name, metric) in &metrics {
            let total = name.ends_with("_total");
            assert_eq!(total, metric.kind == "counter", "{name}");
            assert!(
                !metric.help.is_empty() && !metric.samples.is_empty(),
                "{name}"
            );
        }
        let name = "imrsim_mapped_blocks";
        let mapped = metrics[name].sample(name, labels);
        assert_eq!(mapped, expected.mapped_blocks as f64);
    }
}

#[test]
fn prometheus_has_settings_errors_and_times() {
    let device = r#"device="/dev/mapper/imrsim""#;
    let metrics = exported(Scope::Device);
    let name = "imrsim_setting";
    for (setting, value) in Settings::TABLE.iter().zip([2, 250, 0, 0, 1]) {
        let labels = format!("{device},setting=\"{}\"", setting.name);
        assert_eq!(metrics[name].sample(name, &labels), f64::from(value));
    }
    assert_eq!(metrics[name].samples.len(), Settings::COUNT);
    for (name, value) in [
        ("imrsim_elapsed_seconds_total", 12.5),
        ("imrsim_idle_seconds_total", 2.000001),
        ("imrsim_read_errors_total", 0.0),
        ("imrsim_write_errors_total", 1.0),
    ] {
        assert_eq!(metrics[name].sample(name, device), value, "{name}");
    }
    // Of a zone there are none of these.
    assert!(!exported(Scope::Zone(ZoneAt::Index(0))).contains_key(name));
}

#[test]
fn prometheus_has_histograms() {
    let metrics = exported(Scope::Device);
    let name = "imrsim_request_duration_seconds";
    let metric = &metrics[name];
    assert_eq!(metric.kind, "histogram");
    for kind in latency::Kind::ALL {
        let labels = format!("device=\"/dev/mapper/imrsim\",kind=\"{}\"", kind.name());
        let buckets = |bound: &str| {
            let labels = format!("{labels},le=\"{bound}\"");
            metric.sample(&format!("{name}_bucket"), &labels)
        };
        let of = |end: &str| metric.sample(&format!("{name}{end}"), &labels);
        let expected = slow().latency(*kind).unwrap();
        // Below 512 ns, 1024 ns, and all.
        assert_eq!(buckets("0.000000512"), expected.counts[0] as f64);
        let two = expected.counts[0] + expected.counts[1];
        assert_eq!(buckets("0.000001024"), two as f64);
        assert_eq!(buckets("+Inf"), expected.requests as f64);
        assert_eq!(of("_count"), expected.requests as f64);
        assert_eq!(of("_sum"), expected.nanoseconds as f64 / 1e9);
        let bounds = metric
            .samples
            .keys()
            .filter(|key| key.contains(&format!("kind=\"{}\",le=", kind.name())));
        assert_eq!(bounds.count(), latency::BUCKETS);
    }
}

/// A drive for which time passes, and whose requests take long.
struct Slow(Drive);

impl Transport for Slow {
    fn call(&mut self, request: Request, buf: &mut [u8]) -> io::Result<()> {
        self.0.call(request, buf)?;
        if request == Request::GetConfig {
            let mut config = Config::read_from(buf);
            config.elapsed_us = 12_500_000;
            config.idle_us = 2_000_001;
            config.write_to(buf);
        }
        if request == Request::GetLatency {
            let mut latency = Latency::read_from(buf);
            let kind = u64::from(latency.kind);
            if kind != 1 {
                latency.counts[0] = kind;
                latency.counts[1] = 1;
                latency.counts[3] = 6;
                latency.requests = kind + 7;
                latency.nanoseconds = 100_000;
            }
            if kind == 3 {
                latency.counts[latency::BUCKETS - 1] = 1;
                latency.requests += 1;
                latency.nanoseconds = 100_000_000_000;
            }
            latency.write_to(buf);
        }
        Ok(())
    }
}

fn slow() -> Device<Slow> {
    let mut drive = device();
    drive.set_setting(1, 250).unwrap();
    drive.set_setting(4, 1).unwrap();
    drive.set_condition(3, Condition::Offline).unwrap();
    let drive = drive.transport();
    drive.write(60 * 4096, 4096).unwrap_err();
    let mut taken = Drive::new(Geometry::DEFAULT, 1, Allocation::default()).unwrap();
    std::mem::swap(&mut taken, drive);
    Device::new("/dev/mapper/imrsim", Slow(taken))
}

/// What a slow drive shows.
fn shown_slow(command: Command, style: Style) -> String {
    let mut out = Vec::new();
    run(command, &mut slow(), style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn latencies() {
    let all = Command::ShowLatency(None);
    assert_data_eq!(shown_slow(all, Style::Text), file!["data/latency.txt"]);
    let one = Command::ShowLatency(Some(latency::Kind::Rewrite));
    assert_data_eq!(
        shown_slow(one, Style::Json),
        file!["data/latency.json"].raw()
    );
    // Switched off, it says how to switch it on.
    let text = shown(one, Style::Text);
    assert!(
        text.contains("'imrsim_util latency on /dev/mapper/imrsim'"),
        "{text}"
    );
}

#[test]
fn settings_and_times_are_shown() {
    let command = Command::ShowConfig;
    assert_data_eq!(
        shown_slow(command, Style::Text),
        file!["data/config-slow.txt"]
    );
    let text = shown_slow(Command::ShowStatistics(Scope::Device), Style::Json);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["elapsed_us"], 12_500_000);
    assert_eq!(json["idle_us"], 2_000_001);
}

/// Asks one drive for one thing after another.
struct Session(Device<Drive>);

impl Session {
    fn ask(&mut self, command: Command) -> Result<String> {
        let mut out = Vec::new();
        run(command, &mut self.0, Style::Text, &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    fn mapped(&mut self) -> u64 {
        self.0.statistics(ALL_ZONES).unwrap().mapped_blocks
    }

    fn settings(&mut self) -> Vec<u32> {
        let numbers = 0..u32::try_from(Settings::COUNT).unwrap();
        numbers.map(|it| self.0.setting(it).unwrap()).collect()
    }
}

#[test]
fn every_setting_can_be_set_and_set_back() {
    let mut session = Session(device());
    let before = session.settings();
    for (number, setting) in Settings::TABLE.iter().enumerate() {
        let text = session.ask(Command::Set(number, setting.most)).unwrap();
        assert!(text.starts_with(setting.name), "{text}");
        let value = session.0.setting(number.try_into().unwrap()).unwrap();
        assert_eq!(value, setting.most);
    }
    session.ask(Command::ResetConfig(RESET_ZONES)).unwrap();
    assert_ne!(session.settings(), before);
    session.ask(Command::ResetConfig(RESET_SETTINGS)).unwrap();
    assert_eq!(session.settings(), before);
    assert_eq!(session.mapped(), 21);
    for what in [0, 4, u32::MAX] {
        assert!(session.0.reset_config(what).is_err(), "{what}");
    }
}

#[test]
fn names_and_values_of_settings() {
    for (name, value, command) in [
        ("allocation", "3", Command::Set(0, 3)),
        ("allocation", "3-phase", Command::Set(0, 3)),
        ("rmw-read-delay", "250us", Command::Set(1, 250)),
        ("write_back_delay", "5ms", Command::Set(2, 5000)),
        ("log-errors", "on", Command::Set(3, 1)),
    ] {
        assert_eq!(set_command(name, value).unwrap(), command, "{name}");
    }
    for (name, value, expected) in [
        ("phases", "3", "there are allocation, rmw_read_delay,"),
        ("allocation", "65", "1 to 64 phases"),
        ("log_errors", "2", "on or off"),
        ("rmw_read_delay", "11s", "as 250us, 5ms, 1s"),
    ] {
        let error = format!("{:#}", set_command(name, value).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_zone_is_reset() {
    let mut session = Session(device());
    let text = session.ask(Command::ResetZone(ZoneAt::Index(0))).unwrap();
    assert_eq!(text, "zone 0 is free: all of its blocks are unmapped\n");
    assert_eq!(session.mapped(), 1);
    let stats = session.0.statistics(0).unwrap().stats();
    assert_eq!((stats.zone_resets, stats.unmapped_blocks), (1, 20));
    // By a sector: the zones have 160.
    for (sector, zone) in [(160, 1), (319, 1), (320, 2)] {
        let at = ZoneAt::Sector(sector);
        assert_eq!(at.number(&mut session.0).unwrap(), zone);
    }
    session
        .ask(Command::ResetZone(ZoneAt::Sector(319)))
        .unwrap();
    assert_eq!(session.mapped(), 0);
    // What was free before is counted as a reset, too.
    session.ask(Command::ResetZone(ZoneAt::Index(1))).unwrap();
    let stats = session.0.statistics(1).unwrap().stats();
    assert_eq!((stats.zone_resets, stats.unmapped_blocks), (2, 1));
    // Its places can be used again, and the counters go on.
    session.0.transport().write(0, 20 * 4096).unwrap();
    assert_eq!(session.mapped(), 20);
}

#[test]
fn conditions_keep_the_host_away() {
    let mut session = Session(device());
    let zone = Some(ZoneAt::Index(0));
    let text = session
        .ask(Command::SetCondition(zone, Condition::ReadOnly))
        .unwrap();
    assert_eq!(text, "zone 0 is read-only\n");
    let drive = session.0.transport();
    drive.read(0, 4096).unwrap();
    assert!(drive.write(0, 4096).is_err());
    assert!(drive.discard(0, 4096).is_err());
    let error = session.ask(Command::ResetZone(ZoneAt::Index(0)));
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("read-only"), "{error}");
    assert_eq!(session.mapped(), 21);

    session
        .ask(Command::SetCondition(zone, Condition::Offline))
        .unwrap();
    let drive = session.0.transport();
    assert!(drive.read(0, 4096).is_err());
    assert!(drive.write(0, 4096).is_err());
    // A request that reaches into the next zone fails, but is done there.
    assert!(drive.write(19 * 4096, 8192).is_err());
    assert_eq!(session.mapped(), 22);
    let error = session.ask(Command::ResetZone(ZoneAt::Index(0)));
    assert!(format!("{:#}", error.unwrap_err()).contains("offline"));

    let list = |session: &mut Session, filter| {
        let text = session.ask(Command::ListZones(filter, None)).unwrap();
        let rows = text.lines().skip(1).map(|row| {
            let row: Vec<&str> = row.split_whitespace().collect();
            format!("{} {}", row[0], row[9])
        });
        rows.collect::<Vec<_>>()
    };
    assert_eq!(list(&mut session, Filter::Offline), ["0 offline"]);
    assert_eq!(list(&mut session, Filter::ReadOnly).len(), 0);
    session.ask(Command::ResetConfig(RESET_ZONES)).unwrap();
    assert_eq!(list(&mut session, Filter::Offline).len(), 0);
    session.0.transport().read(0, 4096).unwrap();
    session
        .ask(Command::SetCondition(None, Condition::ReadOnly))
        .unwrap();
    assert_eq!(list(&mut session, Filter::ReadOnly).len(), 4);
}

#[test]
fn failed_requests() {
    let mut session = Session(device());
    let reads = Command::ShowErrors(Failed::Reads, Clear::IfAllowed);
    let writes = Command::ShowErrors(Failed::Writes, Clear::IfAllowed);
    let all = Command::ShowErrors(Failed::All, Clear::No);
    assert_eq!(session.ask(reads).unwrap(), "0 none\n");
    session.0.set_condition(2, Condition::Offline).unwrap();
    session.0.set_condition(3, Condition::ReadOnly).unwrap();
    let drive = session.0.transport();
    drive.read(40 * 4096, 4096).unwrap_err();
    drive.write(40 * 4096, 4096).unwrap_err();
    drive.write(60 * 4096, 4096).unwrap_err();
    assert_data_eq!(session.ask(all).unwrap(), file!["data/errors.txt"]);
    let mut out = Vec::new();
    run(all, &mut session.0, Style::Json, &mut out).unwrap();
    assert_data_eq!(
        String::from_utf8(out).unwrap(),
        file!["data/errors.json"].raw()
    );
    // What is asked for is forgotten, the other is not.
    assert_data_eq!(
        session.ask(reads).unwrap(),
        str![[r#"
3 zone-offline (zone 2, Input/output error (os error 5), 1 failed)

"#]]
    );
    assert_eq!(session.ask(reads).unwrap(), "0 none\n");
    assert!(session
        .ask(writes)
        .unwrap()
        .starts_with("2 zone-read-only (zone 3,"));
    assert_eq!(session.ask(writes).unwrap(), "0 none\n");
}

/// A caller who may look, but not change anything.
struct Nobody(Drive);

impl Transport for Nobody {
    fn call(&mut self, request: Request, buf: &mut [u8]) -> io::Result<()> {
        let clears = request == Request::GetErrors && Errors::read_from(buf).flags != 0;
        if request.needs_privilege() || clears {
            return Err(io::Error::from_raw_os_error(1));
        }
        self.0.call(request, buf)
    }
}

#[test]
fn errors_without_rights_are_shown_and_kept() {
    let mut drive = Drive::new(Geometry::new(4, 6, 2).unwrap(), 1, Allocation::default()).unwrap();
    Device::new("x", &mut drive)
        .set_condition(0, Condition::Offline)
        .unwrap();
    drive.read(0, 512).unwrap_err();
    let mut device = Device::new("x", Nobody(drive));
    for _ in 0..2 {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        Command::ShowErrors(Failed::Reads, Clear::IfAllowed)
            .run(&mut device, None, Style::Text, &mut out, &mut err)
            .unwrap();
        assert!(out.starts_with(b"3 zone-offline"));
        let said = String::from_utf8(err).unwrap();
        assert!(
            said.contains("is kept") && said.contains("CAP_SYS_ADMIN"),
            "{said}"
        );
    }
    let clear = Command::ShowErrors(Failed::Reads, Clear::Yes);
    let error = run(clear, &mut device, Style::Text, &mut Vec::new()).unwrap_err();
    assert!(format!("{error:#}").contains("CAP_SYS_ADMIN"), "{error:#}");
}

#[test]
fn the_first_zones() {
    let first = |zones| Command::ShowStatistics(Scope::First(zones));
    assert_data_eq!(shown(first(2), Style::Text), file!["data/stats-first.txt"]);
    let json = |zones| -> serde_json::Value {
        serde_json::from_str(&shown(first(zones), Style::Json)).unwrap()
    };
    let all: serde_json::Value =
        serde_json::from_str(&shown(Command::ShowStatistics(Scope::Device), Style::Json)).unwrap();
    assert_eq!(json(1)["total"]["mapped_blocks"], 20);
    assert_eq!(json(1)["total"]["host_write_blocks"], 23);
    assert_eq!(json(1)["zones"], 1);
    for zones in [4, 5, u64::MAX] {
        assert_eq!(json(zones)["total"], all["total"]);
        assert_eq!(json(zones)["zones"], 4);
    }
}

#[test]
fn lists_end_where_they_are_told_to() {
    let zones = |command| -> Vec<String> {
        let text = shown(command, Style::Text);
        let rows = text.lines().skip(1);
        rows.map(|row| row.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        zones(Command::ListZones(Filter::NotFull, Some(2))),
        ["1", "2"]
    );
    assert_eq!(zones(Command::ListZones(Filter::All, Some(9))).len(), 4);
    let one = |at, filter| zones(Command::ListZone(at, filter));
    assert_eq!(one(ZoneAt::Index(1), Filter::All), ["1"]);
    assert_eq!(one(ZoneAt::Sector(160), Filter::NotFull), ["1"]);
    // Zone 2 is free, but was not asked for.
    assert_eq!(one(ZoneAt::Index(1), Filter::Free).len(), 0);
    assert_eq!(one(ZoneAt::Index(0), Filter::Full), ["0"]);
}

/// Apart, because `file!` is another macro here.
mod many {
    use proptest::prelude::*;

    use super::{Allocation, Command, Device, Drive, Filter, Geometry, Session};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        /// However many zones there are, a list has each of those that the filter lists, once.
        #[test]
        fn lists_of_many_zones(zones in 1_u64..300, written in any::<u64>(), most in 1_u64..300) {
            let geometry = Geometry::new(1, 1, 1).unwrap();
            let mut drive = Drive::new(geometry, zones, Allocation::default()).unwrap();
            let is_full = |zone: u64| (written >> (zone % 61)) & 1 == 1;
            for zone in (0..zones).filter(|zone| is_full(*zone)) {
                drive.write(zone * 8192, 8192).unwrap();
            }
            let mut session = Session(Device::new("x", drive));
            for (filter, listed) in [
                (Filter::All, (0..zones).collect::<Vec<_>>()),
                (Filter::Full, (0..zones).filter(|it| is_full(*it)).collect()),
                (Filter::Free, (0..zones).filter(|it| !is_full(*it)).collect()),
                (Filter::Offline, Vec::new()),
            ] {
                for most in [None, Some(most)] {
                    let text = session.ask(Command::ListZones(filter, most)).unwrap();
                    let found: Vec<u64> = text
                        .lines()
                        .skip(1)
                        .map(|row| row.split_whitespace().next().unwrap().parse().unwrap())
                        .collect();
                    let most = most.map_or(listed.len(), |it| listed.len().min(it as usize));
                    prop_assert_eq!(&found[..], &listed[..most]);
                }
            }
        }
    }
}

/// Watches the drive; between two lines, something happens to it.
fn watched(style: Style) -> String {
    /// A drive that is written to whenever it is asked for its statistics.
    struct Busy(Drive, u64);
    impl Transport for Busy {
        fn call(&mut self, request: Request, buf: &mut [u8]) -> io::Result<()> {
            self.0.call(request, buf)?;
            self.1 += 1;
            self.0.write(0, self.1 * 4096).map_err(io::Error::other)
        }
    }
    let drive = Drive::new(Geometry::new(4, 6, 2).unwrap(), 1, Allocation::default()).unwrap();
    let mut slept = Vec::new();
    let mut out = Vec::new();
    let options = watch::Options {
        interval: Duration::from_secs(2),
        count: Some(3),
        style,
    };
    watch(
        &mut Device::new("x", Busy(drive, 0)),
        Scope::Device,
        &options,
        &mut |time| slept.push(time),
        &mut out,
    )
    .unwrap();
    assert_eq!(slept, [options.interval; 3]);
    String::from_utf8(out).unwrap()
}

#[test]
fn watching() {
    assert_data_eq!(watched(Style::Text), file!["data/watch.txt"]);
    let text = watched(Style::Json);
    let written: Vec<u64> = text
        .lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            value["host_write_blocks"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(written, [1, 3, 6]);
}

#[test]
fn nobody_reads_any_more() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for style in [Style::Text, Style::Json] {
        for command in [
            Command::ShowConfig,
            Command::ShowStatistics(Scope::Device),
            Command::ExportStatistics(Scope::Device),
            Command::ListZones(Filter::All, None),
            Command::ShowZone(ZoneAt::Index(0)),
            Command::ZoneCount,
        ] {
            let error = run(command, &mut device(), style, &mut Closed).unwrap_err();
            assert!(exit::is_broken_pipe(&error), "{command:?} {style:?}");
        }
    }
}

#[test]
fn changes() {
    assert_data_eq!(
        shown(Command::Set(0, 3), Style::Text),
        str![[r#"
allocation is 3-phase from now on

"#]]
    );
    let mut device = device();
    let mut out = Vec::new();
    let command = Command::ResetStatistics(Some(ZoneAt::Index(0)));
    run(command, &mut device, Style::Text, &mut out).unwrap();
    assert_eq!(device.statistics(0).unwrap().indicators, [0; INDICATORS]);
    assert_eq!(device.statistics(0).unwrap().mapped_blocks, 20);
    assert_ne!(device.statistics(1).unwrap().indicators, [0; INDICATORS]);
    let command = Command::ResetStatistics(None);
    run(command, &mut device, Style::Text, &mut out).unwrap();
    assert_eq!(
        device.statistics(ALL_ZONES).unwrap().indicators,
        [0; INDICATORS]
    );
}

#[test]
fn the_counters_of_the_zones_add_up() {
    let mut device = device();
    let mut sum = [0; INDICATORS];
    for zone in 0..4 {
        let counters = device.statistics(zone).unwrap().indicators;
        for (sum, value) in sum.iter_mut().zip(counters) {
            *sum += value;
        }
    }
    assert_eq!(device.statistics(ALL_ZONES).unwrap().indicators, sum);
}

/// The error, and whether the drive is as it was.
fn refused(command: Command) -> (String, bool) {
    let mut device = device();
    let before = device.statistics(ALL_ZONES).unwrap();
    let error = run(command, &mut device, Style::Text, &mut Vec::new()).unwrap_err();
    let unchanged = device.statistics(ALL_ZONES).unwrap() == before;
    (format!("{error:#}"), unchanged)
}

#[test]
fn zones_and_allocations_that_are_not_there() {
    for command in [
        Command::ShowStatistics(Scope::Zone(ZoneAt::Index(4))),
        Command::ShowStatistics(Scope::Zone(ZoneAt::Index(ALL_ZONES))),
        Command::ExportStatistics(Scope::Zone(ZoneAt::Index(ALL_ZONES))),
        Command::ShowZone(ZoneAt::Index(4)),
        Command::ShowZone(ZoneAt::Index(ALL_ZONES)),
        Command::ResetStatistics(Some(ZoneAt::Index(4))),
        Command::ResetStatistics(Some(ZoneAt::Index(ALL_ZONES))),
    ] {
        let (error, unchanged) = refused(command);
        assert!(error.contains("its zones are 0 to 3"), "{error}");
        assert!(unchanged);
    }
    for phases in [0, 65] {
        let (error, unchanged) = refused(Command::Set(0, phases));
        assert!(error.contains("has no such setting"), "{error}");
        assert!(unchanged);
    }
}

/// Answers everything with an error.
struct Refuse(i32);

impl Transport for Refuse {
    fn call(&mut self, _: Request, _: &mut [u8]) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(self.0))
    }
}

#[test]
fn every_refusal_is_explained() {
    for (errno, text) in [
        (1, "X can be changed by root only: this needs CAP_SYS_ADMIN"),
        (5, "X has failed and takes no changes: 'dmesg' says why"),
        (6, "X has no such zone ("),
        (11, "X is suspended: 'dmsetup resume'"),
        (16, "X is busy"),
        (30, "X is read-only: "),
        (99, "X failed: "),
        (22, "X does not take this request: its module"),
        (
            25,
            "X does not know this request: it is not an IMRSim device (",
        ),
    ] {
        let error = Device::new("X", Refuse(errno)).statistics(0).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.starts_with(text), "{error}");
    }
}
