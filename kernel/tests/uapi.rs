// SPDX-License-Identifier: GPL-2.0-only

//! The ioctl interface: numbers, layout, and what happens when the two sides know different sizes.

use imrsim_core::{
    failure::Cause,
    latency::{bound, bucket, Kind, BUCKETS},
    uapi::{
        decode, encode_reply, filter_lists, needs_privilege, size_of_cmd, Config, Errors, Header,
        Latency, Mapping, Message, Refusal, Request, ResetConfig, SettingValue, Statistics, Struct,
        ZoneCondition, ZoneEntry, ZoneNumber, ZoneReport, ZoneSnapshot, ALL_ZONES,
        CLEAR_READ_ERROR, CLEAR_WRITE_ERROR, FILTER_ALL, FILTER_FREE, FILTER_FULL, FILTER_NOT_FULL,
        FILTER_OFFLINE, FILTER_READ_ONLY, INDICATORS, MAGIC, MAX_REPORT, MAX_SIZE, RESET_SETTINGS,
        RESET_ZONES, SETTINGS, VERSION,
    },
    Bo, Condition, Nbo, Settings, Stats,
};
use proptest::prelude::*;

const DOCUMENTATION: &str = include_str!("../../docs/ioctl.md");

/// The rows of the table under `heading`, as cells; backquotes are taken off.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let (_, section) = DOCUMENTATION
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no '{heading}'"));
    section
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        // The head, and the line under it.
        .skip(2)
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().replace('`', "")).collect()
        })
        .collect()
}

/// The name of a struct in C.
fn struct_name(layout: &Struct) -> String {
    let mut name = "imrsim".to_owned();
    for c in layout.name.chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// What a C compiler on x86-64 makes of `_IOC(dir, MAGIC, nr, size)`, from the documented table.
#[test]
fn the_numbers_are_those_of_the_documentation() {
    let expected: Vec<_> = Request::ALL
        .iter()
        .map(|request| {
            let cmd = request.cmd();
            assert_eq!((cmd >> 8) & 0xff, u32::from(MAGIC));
            vec![
                request.name().to_owned(),
                format!("{cmd:#010x}"),
                if request.replies() {
                    "read, write"
                } else {
                    "write"
                }
                .to_owned(),
                struct_name(request.layout()),
                match request {
                    Request::GetErrors => "nothing; to forget, CAP_SYS_ADMIN",
                    Request::GetSnapshot => "nothing; with SNAPSHOT_QUIET, CAP_SYS_ADMIN",
                    _ if request.needs_privilege() => "CAP_SYS_ADMIN",
                    _ => "nothing",
                }
                .to_owned(),
                request.doc().to_owned(),
            ]
        })
        .collect();
    assert_eq!(rows("## Requests"), expected);
}

/// Programs are built with these: they never change while the version stays.
#[test]
fn the_numbers_stay() {
    let numbers: Vec<u32> = Request::ALL
        .iter()
        .map(|it| it.cmd() & !(0x3fff << 16))
        .collect();
    assert_eq!(
        numbers,
        [
            0xc000_dc01,
            0x4000_dc02,
            0xc000_dc03,
            0x4000_dc04,
            0xc000_dc05,
            0xc000_dc06,
            0x4000_dc07,
            0x4000_dc08,
            0x4000_dc09,
            0xc000_dc0a,
            0xc000_dc0b,
            0xc000_dc0c,
        ]
    );
}

#[test]
fn the_structs_are_those_of_the_documentation() {
    for request in Request::ALL {
        let layout = request.layout();
        let heading = format!(
            "### `struct {}`: {} bytes",
            struct_name(layout),
            layout.size
        );
        let mut offset = 0;
        let mut expected = Vec::new();
        for member in layout.members {
            let array = member
                .count
                .map_or(String::new(), |count| format!("[{count}]"));
            let kind = format!("__u{}{array}", member.bits);
            expected.push([offset.to_string(), member.name.to_owned(), kind]);
            offset += member.bits / 8 * member.count.unwrap_or(1);
        }
        assert_eq!(offset, layout.size);
        let found: Vec<_> = rows(&heading)
            .into_iter()
            .map(|row| <[String; 3]>::try_from(row[..3].to_vec()).unwrap())
            .collect();
        assert_eq!(found, expected, "{heading}");
    }
}

#[test]
fn the_tables_are_those_of_the_documentation() {
    let row = |cells: &[&dyn std::fmt::Display]| -> Vec<String> {
        cells.iter().map(|cell| cell.to_string()).collect()
    };
    let settings: Vec<_> = Settings::TABLE
        .iter()
        .enumerate()
        .map(|(number, it)| {
            let values = format!("{} to {}", it.least, it.most);
            row(&[&number, &it.name, &values, &it.unit, &it.default, &it.doc])
        })
        .collect();
    assert_eq!(rows("## Settings"), settings);
    let indicators: Vec<_> = Stats::INDICATORS
        .iter()
        .enumerate()
        .map(|(number, it)| row(&[&number, &it.name, &it.doc]))
        .collect();
    assert_eq!(rows("## Indicators"), indicators);
    let causes: Vec<_> = Cause::ALL
        .iter()
        .map(|it| row(&[&it.number(), &it.name(), &it.doc()]))
        .collect();
    assert_eq!(rows("The causes; 0 if nothing failed:"), causes);
    let kinds: Vec<_> = Kind::ALL
        .iter()
        .map(|it| row(&[&it.number(), &it.name(), &it.doc()]))
        .collect();
    let heading = "request (`Config.latency_kinds` says how many the kernel knows):";
    assert_eq!(rows(heading), kinds);

    let firsts = |heading: &str| -> Vec<(String, String)> {
        let rows = rows(heading).into_iter();
        rows.map(|row| (row[0].clone(), row[1].clone())).collect()
    };
    let named = |pairs: &[(u32, &str)]| -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(number, name)| (number.to_string(), (*name).to_owned()))
            .collect()
    };
    assert_eq!(
        firsts("## Zones"),
        named(&[
            (FILTER_ALL, "FILTER_ALL"),
            (FILTER_FULL, "FILTER_FULL"),
            (FILTER_NOT_FULL, "FILTER_NOT_FULL"),
            (FILTER_FREE, "FILTER_FREE"),
            (FILTER_READ_ONLY, "FILTER_READ_ONLY"),
            (FILTER_OFFLINE, "FILTER_OFFLINE"),
        ])
    );
    let conditions = Condition::ALL.map(|it| (it.number(), it.name()));
    assert_eq!(
        firsts("`SET_CONDITION` sets what a zone may be used for. What is in it is kept."),
        named(&conditions)
    );
    assert_eq!(
        firsts("`RESET_CONFIG` takes one or both of these bits:"),
        named(&[
            (RESET_ZONES.trailing_zeros(), "RESET_ZONES"),
            (RESET_SETTINGS.trailing_zeros(), "RESET_SETTINGS"),
        ])
    );
    assert_eq!(
        firsts("these bits in `flags` they are forgotten after that, which needs `CAP_SYS_ADMIN`:"),
        named(&[
            (CLEAR_READ_ERROR.trailing_zeros(), "CLEAR_READ_ERROR"),
            (CLEAR_WRITE_ERROR.trailing_zeros(), "CLEAR_WRITE_ERROR"),
        ])
    );
    let last = bound(BUCKETS - 2).unwrap();
    let buckets = format!(
        "A histogram has {BUCKETS} buckets. Bucket b, from 0 to {}, has requests that took less than 2^(9 + b) nanoseconds",
        BUCKETS - 2
    );
    assert!(DOCUMENTATION.contains(&buckets), "{buckets}");
    let last = format!(
        "up to 2^{} ns (34.36 s). Bucket {}",
        last.ilog2(),
        BUCKETS - 1
    );
    assert!(DOCUMENTATION.contains(&last), "{last}");
    assert_eq!(bound(0), Some(512));
}

#[test]
fn every_number_is_found_again_at_any_size() {
    for request in Request::ALL {
        assert_eq!(Request::from_cmd(request.cmd()), Some(*request));
        for size in [0, 8, 16, 4096, 0x3fff] {
            let cmd = (request.cmd() & !(0x3fff << 16)) | (size << 16);
            assert_eq!(Request::from_cmd(cmd), Some(*request));
            assert_eq!(size_of_cmd(cmd), size as usize);
        }
        // Another direction, type or number is not ours.
        for bit in (0..16).chain(30..32) {
            let other = request.cmd() ^ (1 << bit);
            assert_ne!(Request::from_cmd(other), Some(*request), "{other:#x}");
        }
    }
}

#[test]
fn what_changes_the_device_needs_privilege() {
    for request in Request::ALL {
        // Whatever is called GET_ or REPORT_ leaves the device as it is.
        let reads = request.name().starts_with("GET_") || *request == Request::ReportZones;
        assert_eq!(needs_privilege(request.cmd()), !reads, "{request:?}");
        assert_eq!(request.needs_privilege(), !reads);
    }
    assert!(needs_privilege(0x1260), "BLKGETSIZE is not ours");
}

#[test]
fn only_reads_reply() {
    for request in Request::ALL {
        assert_eq!(request.replies(), !request.needs_privilege());
    }
}

/// Offsets of a C struct with the fields of the documentation.
#[test]
fn layout() {
    let config = Config {
        flags: 0x11,
        block_size: 0x12,
        top_blocks: 0x13,
        bottom_blocks: 0x14,
        groups: 0x15,
        phases: 0x16,
        zones: 0x21,
        zone_sectors: 0x22,
        data_sectors: 0x23,
        metadata_sectors: 0x24,
        total_blocks: 0x25,
        mapped_blocks: 0x26,
        elapsed_us: 0x27,
        idle_us: 0x28,
        settings: 0x31,
        latency_kinds: 0x32,
        ..Config::default()
    };
    let mut expected = Vec::new();
    for value in [VERSION, 104, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16] {
        expected.extend(value.to_ne_bytes());
    }
    for value in 0x21..=0x28_u64 {
        expected.extend(value.to_ne_bytes());
    }
    for value in 0x31..=0x32_u32 {
        expected.extend(value.to_ne_bytes());
    }
    assert_eq!(config.to_bytes().as_slice(), expected);
    assert_eq!(Config::from_bytes(&expected), Some(config));
    assert_eq!(Config::from_bytes(&expected[1..]), None);

    // What callers of the first version send: that stays enough.
    let least = [
        Config::MIN_SIZE,
        SettingValue::MIN_SIZE,
        Statistics::MIN_SIZE,
        ZoneNumber::MIN_SIZE,
        ZoneReport::MIN_SIZE,
        ZoneCondition::MIN_SIZE,
        ResetConfig::MIN_SIZE,
        Errors::MIN_SIZE,
        Latency::MIN_SIZE,
        ZoneSnapshot::MIN_SIZE,
    ];
    assert_eq!(least, [80, 16, 152, 16, 1568, 24, 16, 64, 256, 208]);
    assert_eq!(Statistics::SIZE, 48 + 8 * INDICATORS);
    let statistics = Statistics {
        zone: ALL_ZONES,
        phases: 3,
        indicators: std::array::from_fn(|index| index as u64),
        ..Statistics::default()
    };
    let bytes = statistics.to_bytes();
    assert_eq!(bytes[8..16], [0xff; 8]);
    assert_eq!(bytes[40..44], 3_u32.to_ne_bytes());
    assert_eq!(bytes[48 + 8..48 + 16], 1_u64.to_ne_bytes());
    assert_eq!(statistics.stats().values(), statistics.indicators);
    assert_eq!(INDICATORS, Stats::default().values().len());
    assert_eq!(SETTINGS, Settings::DEFAULT.values().len());
}

/// The mapping behind a snapshot, as the documentation has it.
#[test]
fn a_mapping() {
    for (blocks, bytes) in [
        (1, 24),
        (4, 24),
        (5, 32),
        (64, 144),
        (65, 168),
        (1 << 16, 147_456),
    ] {
        assert_eq!(Mapping::bytes(blocks), bytes);
        assert!(Mapping::new(blocks, &vec![0; bytes]).is_some());
        assert!(Mapping::new(blocks, &vec![0; bytes - 1]).is_none());
        assert!(Mapping::new(blocks, &vec![0; bytes + 1]).is_none());
    }
    let mut bytes = Vec::new();
    // 66 places and two to fill up; blocks 1 and 65 are mapped; places 64 and 3 are in use.
    bytes.extend((0..66_u16).flat_map(|bo| (100 + bo).to_ne_bytes()));
    bytes.extend([0xff; 4]);
    for word in [1 << 1, 1 << 1 | 1 << 2, 1 << 3, 1] {
        bytes.extend(u64::to_ne_bytes(word));
    }
    let mapping = Mapping::new(66, &bytes).expect("as many as documented");
    let mapped: Vec<_> = (0..99).filter_map(|bo| mapping.lookup(Bo(bo))).collect();
    assert_eq!(mapped, [Nbo(101), Nbo(165)]);
    let used: Vec<_> = (0..99).filter(|nbo| mapping.is_used(Nbo(*nbo))).collect();
    assert_eq!(used, [3, 64]);
}

/// The bytes of an entry, as the documentation has them.
#[test]
fn entries_of_a_report() {
    let mut report = ZoneReport::default();
    let entry = |zone| ZoneEntry {
        zone,
        mapped_blocks: 1 + zone as u32,
        used_top_blocks: 0x10 + zone as u32,
        phase: 0x20 + zone as u32,
        condition: 2,
    };
    for zone in 0..MAX_REPORT as u64 {
        assert!(report.push(&entry(zone)));
    }
    assert!(!report.push(&entry(64)), "it is full");
    assert_eq!(report.count as usize, MAX_REPORT);
    for index in 0..MAX_REPORT {
        assert_eq!(report.get(index), Some(entry(index as u64)));
    }
    assert_eq!(report.get(MAX_REPORT), None);
    assert_eq!(report.zones[3], 1);
    assert_eq!(report.zones[4], 0x11_0000_0002);
    assert_eq!(report.zones[5], 0x2_0000_0021);
    // Whatever a kernel says of how many there are.
    report.count = u32::MAX;
    assert_eq!(report.get(MAX_REPORT), None);
    assert_eq!(report.get(usize::MAX), None);
    assert!(!report.push(&entry(0)));
    report.count = 1;
    assert_eq!(report.get(1), None);
}

#[test]
fn what_filters_list() {
    let lists = |filter, mapped_blocks, condition: Condition| {
        let entry = ZoneEntry {
            mapped_blocks,
            condition: condition.number(),
            ..ZoneEntry::default()
        };
        filter_lists(filter, &entry, 10)
    };
    for (filter, expected) in [
        (FILTER_ALL, [true; 4]),
        (FILTER_FULL, [false, false, false, true]),
        (FILTER_NOT_FULL, [true, true, true, false]),
        (FILTER_FREE, [true, false, false, false]),
    ] {
        for condition in Condition::ALL {
            let found = [0, 1, 9, 10].map(|mapped| lists(filter, mapped, condition));
            assert_eq!(found, expected.map(Some), "{filter} {condition:?}");
        }
    }
    for mapped in [0, 10] {
        let found = |filter| Condition::ALL.map(|it| lists(filter, mapped, it));
        assert_eq!(found(FILTER_READ_ONLY), [false, true, false].map(Some));
        assert_eq!(found(FILTER_OFFLINE), [false, false, true].map(Some));
    }
    assert_eq!(lists(6, 0, Condition::Normal), None);
    assert_eq!(lists(u32::MAX, 0, Condition::Normal), None);
}

#[test]
fn buckets_of_latencies() {
    for nanoseconds in [0, 1, 511] {
        assert_eq!(bucket(nanoseconds), 0);
    }
    for index in 0..BUCKETS - 1 {
        let bound = bound(index).unwrap();
        assert_eq!((bucket(bound - 1), bucket(bound)), (index, index + 1));
    }
    assert_eq!(bound(BUCKETS - 1), None);
    assert_eq!(bound(usize::MAX - 1), None);
    assert_eq!(bucket(u64::MAX), BUCKETS - 1);
}

/// A struct as a caller with another definition of it sends it.
fn sent(message: &impl Message, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    message.write_to(&mut bytes);
    if let Some(field) = bytes.get_mut(4..8) {
        field.copy_from_slice(&u32::try_from(size).unwrap().to_ne_bytes());
    }
    bytes
}

#[test]
fn a_newer_caller_may_send_zeros_but_nothing_else() {
    let message = SettingValue {
        value: 3,
        ..SettingValue::default()
    };
    for extra in [1, 8, MAX_SIZE - SettingValue::SIZE] {
        let size = SettingValue::SIZE + extra;
        let mut bytes = sent(&message, size);
        let decoded = decode::<SettingValue>(&bytes).unwrap();
        assert_eq!(decoded.value, 3);
        bytes[size - 1] = 1;
        assert_eq!(decode::<SettingValue>(&bytes), Err(Refusal::TooBig));
    }
    assert_eq!(
        decode::<SettingValue>(&sent(&message, MAX_SIZE + 1)),
        Err(Refusal::TooBig)
    );
    assert_eq!(Refusal::TooBig.errno(), 7);
}

#[test]
fn too_little_another_version_another_size_and_padding_are_refused() {
    let message = SettingValue::default();
    for size in 0..SettingValue::MIN_SIZE {
        assert_eq!(
            decode::<SettingValue>(&sent(&message, size)),
            Err(Refusal::Size),
            "{size}"
        );
    }
    for version in [0, VERSION + 1, u32::MAX] {
        let message = SettingValue { version, ..message };
        assert_eq!(
            decode::<SettingValue>(&message.to_bytes()),
            Err(Refusal::Version)
        );
    }
    let other_size = SettingValue {
        size: 24,
        ..message
    };
    assert_eq!(
        decode::<SettingValue>(&other_size.to_bytes()),
        Err(Refusal::Size)
    );
    let padding = ZoneCondition {
        reserved: 1,
        ..ZoneCondition::default()
    };
    assert_eq!(
        decode::<ZoneCondition>(&padding.to_bytes()),
        Err(Refusal::Padding)
    );
    for refusal in [Refusal::Version, Refusal::Size, Refusal::Padding] {
        assert_eq!(refusal.errno(), 22);
    }
}

#[test]
fn a_reply_fits_any_size_of_caller() {
    let reply = Config {
        zones: 51,
        mapped_blocks: 7,
        ..Config::default()
    };
    let bytes = reply.to_bytes();
    let mut older = [0xff; 40];
    encode_reply(&reply, &mut older);
    assert_eq!(older, bytes[..40]);
    let mut newer = [0xff; Config::SIZE + 16];
    encode_reply(&reply, &mut newer);
    assert_eq!(newer[..Config::SIZE], bytes);
    assert_eq!(newer[Config::SIZE..], [0; 16]);
    // What this side knows, whatever the caller's size.
    assert_eq!(
        Header::from_bytes(&newer).unwrap().size,
        Config::SIZE as u32
    );
}

proptest! {
    #[test]
    fn round_trip(bytes in proptest::collection::vec(any::<u8>(), Statistics::SIZE)) {
        let statistics = Statistics::from_bytes(&bytes).unwrap();
        prop_assert_eq!(statistics.to_bytes().to_vec(), bytes.clone());
        let config = Config::from_bytes(&bytes).unwrap();
        prop_assert_eq!(config.to_bytes().to_vec(), &bytes[..Config::SIZE]);
    }

    /// An older caller's bytes are what it would have sent with zeros behind.
    #[test]
    fn missing_bytes_are_zero(
        bytes in proptest::collection::vec(any::<u8>(), Statistics::SIZE),
        len in 0..=Statistics::SIZE,
    ) {
        let mut filled = bytes.clone();
        filled[len..].fill(0);
        prop_assert_eq!(
            Statistics::read_from(&bytes[..len]),
            Statistics::read_from(&filled)
        );
    }

    /// Nothing makes it panic, and what is accepted says what was sent.
    #[test]
    fn any_bytes_at_all(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
        valid_header in any::<bool>(),
    ) {
        if valid_header && bytes.len() >= Header::SIZE {
            let len = u32::try_from(bytes.len()).unwrap();
            bytes[..4].copy_from_slice(&VERSION.to_ne_bytes());
            bytes[4..8].copy_from_slice(&len.to_ne_bytes());
        }
        if let Ok(message) = decode::<ZoneNumber>(&bytes) {
            prop_assert_eq!(&message.to_bytes()[..], &bytes[..ZoneNumber::SIZE]);
            prop_assert!(bytes[ZoneNumber::SIZE..].iter().all(|byte| *byte == 0));
        }
        let _ = decode::<Config>(&bytes);
        let _ = decode::<Statistics>(&bytes);
        let _ = decode::<ZoneCondition>(&bytes);
        let _ = decode::<ResetConfig>(&bytes);
        let _ = decode::<Errors>(&bytes);
        let _ = decode::<Latency>(&bytes);
    }

    /// Whatever a kernel sends, its entries can be read.
    #[test]
    fn any_report(bytes in proptest::collection::vec(any::<u8>(), ZoneReport::SIZE), index: usize) {
        let report = ZoneReport::from_bytes(&bytes).unwrap();
        prop_assert_eq!(report.to_bytes().to_vec(), bytes);
        let _ = report.get(index);
        let _ = report.get(index % MAX_REPORT);
    }
}
