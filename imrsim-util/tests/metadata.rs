// SPDX-License-Identifier: GPL-2.0-only

//! `format`, `check` and `dump` on images: sound ones, damaged ones, and none at all.

#[path = "../../kernel/tests/common/mod.rs"]
mod common;
#[path = "../../kernel/tests/image/mod.rs"]
mod image;
#[path = "../../kernel/tests/recovery/mod.rs"]
mod recovery;

use std::{
    cell::Cell,
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use image::{stats, superblock, Image};
use imrsim_core::{
    ondisk::{Position, Record, Superblock},
    Bo, Nbo, Settings, Stats,
};
use imrsim_util::{
    check, exit,
    metadata::{Backing, Place},
};
use proptest::{prelude::*, test_runner::TestRunner};
use recovery::{recover, seal};
use serde_json::Value;

/// A file that is removed when it is not needed any more.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> Self {
        let name = format!("metadata-{name}-{}.img", std::process::id());
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    fn with(name: &str, bytes: &[u8]) -> Self {
        let file = Self::new(name);
        fs::write(&file.0, bytes).unwrap();
        file
    }

    fn sparse(name: &str, bytes: u64) -> Self {
        let file = Self::new(name);
        File::create(&file.0).unwrap().set_len(bytes).unwrap();
        file
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(&self.0).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    fn get(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        File::open(&self.0)
            .unwrap()
            .read_exact_at(&mut bytes, at)
            .unwrap();
        bytes
    }

    fn run(&self, command: &str, options: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_imrsim_util"))
            .arg(command)
            .arg(&self.0)
            .args(options)
            .output()
            .unwrap()
    }

    /// Runs a command that must succeed; returns what it prints.
    #[track_caller]
    fn ok(&self, command: &str, options: &[&str]) -> String {
        let output = self.run(command, options);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Checks; returns the exit code and the report.
    #[track_caller]
    fn check(&self, options: &[&str]) -> (i32, Value) {
        let output = self.run("check", &[options, &["--json"]].concat());
        let report = serde_json::from_slice(&output.stdout);
        (
            output.status.code().unwrap(),
            report.unwrap_or_else(|_| panic!("{output:?}")),
        )
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

const SMALL: &[&str] = &["--geometry", "6,8,4"];

fn map(zone: u64, bo: u32, nbo: u32, blocks: u32) -> Record {
    Record::Map {
        zone,
        bo: Bo(bo),
        nbo: Nbo(nbo),
        blocks,
    }
}

/// Counters that can be.
fn plausible() -> Stats {
    Stats {
        host_write_blocks: 7,
        first_write_blocks: 5,
        update_blocks: 2,
        top_write_blocks: 3,
        bottom_write_blocks: 4,
        rmw_one_neighbour: 1,
        rmw_read_blocks: 2,
        extra_write_blocks: 2,
        ..Stats::default()
    }
}

/// A drive after a crash: zone 0 was checkpointed twice, zone 1 has records in the journal.
fn crashed() -> Image {
    let mut image = Image::formatted();
    let table: Vec<u16> = (0..56).collect();
    image.put_slot(0, 0, 0, Position::start_of(1), &table, &[0xff]);
    image.put_slot(1, 0, 0, Position::start_of(2), &table, &[0xfff]);
    // Their generations are those of the counters, which are to be plausible: none.
    for (slot, generation) in [(0, 1), (1, 2)] {
        set_generation(&mut image, slot, generation);
    }
    image.put_superblock(
        &superblock().open(0).checkpoint(1, 3, image::settings(2)),
        &[2],
    );
    let counters = Record::Statistics {
        zone: 1,
        stats: plausible(),
    };
    image.put_entry(1, 1, 1, &[map(1, 0, 6, 5), counters]);
    image.put_entry(1, 2, 2, &[map(0, 20, 30, 2)]);
    image.put_entry(
        1,
        3,
        3,
        &[Record::Config {
            settings: Settings::DEFAULT.with_allocation(5).unwrap(),
        }],
    );
    image
}

fn set_generation(image: &mut Image, slot: u64, generation: u8) {
    let sector = image.layout.slot(0, slot).unwrap();
    let block = &mut image.at(sector)[..4096];
    block[40] = generation;
    let crc = imrsim_core::ondisk::Crc::new()
        .update(&block[..508])
        .update(&block[512..]);
    block[508..512].copy_from_slice(&crc.value().to_le_bytes());
}

#[track_caller]
fn check(name: &str, image: &Image) -> (i32, Value) {
    TempFile::with(name, &image.bytes).check(SMALL)
}

/// The result must be this, with one problem of this kind in this place.
#[track_caller]
fn expect(name: &str, image: &Image, code: i32, place: &str, kind: &str) {
    let (found, report) = check(name, image);
    let problems = report["problems"].as_array().unwrap();
    assert_eq!(found, code, "{report}");
    let fits = |it: &Value| it["place"] == place && it["kind"] == kind;
    assert!(problems.iter().any(fits), "{report}");
    assert_eq!(
        report["result"],
        if code == 3 { "repairable" } else { "refused" }
    );
    // As text, each problem has a line.
    let file = TempFile::with(name, &image.bytes);
    let output = file.run("check", SMALL);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(code));
    assert_eq!(
        text.matches(": ").count() >= 1,
        !problems.is_empty(),
        "{text}"
    );
    // And whatever it is, it can be shown.
    let dump = file.run("dump", SMALL);
    assert!(matches!(dump.status.code(), Some(0 | 4)), "{dump:?}");
}

#[test]
fn a_crashed_drive_is_sound() {
    let (code, report) = check("crashed", &crashed());
    assert_eq!((code, &report["result"]), (0, &"sound".into()), "{report}");
    let drive = &report["drive"];
    for (name, value) in [
        ("zones", 3),
        ("phases", 5),
        ("journal_entries", 3),
        ("journal_records", 4),
        ("journal_dropped", 0),
        ("checkpointed_zones", 1),
        ("journal_zones", 2),
        ("mapped_blocks", 12 + 2 + 5),
        // Zone 0: 0..6 of the slot; 30, 31 are top blocks of group 2; zone 1: none.
        ("used_top_blocks", 6 + 2),
    ] {
        assert_eq!(drive[name], value, "{name} in {report}");
    }
    assert_eq!(drive["clean"], false);
    assert_eq!(drive["indicators"]["host_write_blocks"], 7);
}

#[test]
fn settings_and_conditions() {
    let mut image = crashed();
    // Of zone 0, slot 1 counts; zone 1 is read-only, zone 2 offline.
    let map = 2 | 0x40 | 0x800;
    let settings = image::settings(2);
    image.put_superblock(&superblock().open(0).checkpoint(1, 3, settings), &[map]);
    let (code, report) = check("conditions", &image);
    assert_eq!(code, 0, "{report}");
    let drive = &report["drive"];
    // The journal has other settings than the superblock.
    assert_eq!(drive["settings"]["allocation"], 5);
    assert_eq!(drive["settings"]["rmw_read_delay"], 0);
    let expected = serde_json::json!([
        { "zone": 1, "condition": "read-only" },
        { "zone": 2, "condition": "offline" },
    ]);
    assert_eq!(drive["conditions"], expected);

    let file = TempFile::with("conditions-shown", &image.bytes);
    let text = file.ok("check", SMALL);
    for line in [
        "settings    allocation 5-phase, rmw_read_delay 0 us, write_back_delay 0 us, log_errors off, measure_latency off",
        "conditions  zones that are not normal: 1 read-only, 1 offline",
    ] {
        assert!(text.lines().any(|it| it == line), "no '{line}' in\n{text}");
    }
    let text = file.ok("dump", SMALL);
    for line in [
        "  rmw_read_delay 1000",
        "  zone 1 read-only",
        "  zone 2 offline",
    ] {
        assert!(text.lines().any(|it| it == line), "no '{line}' in\n{text}");
    }
}

#[test]
fn a_new_drive_has_the_settings_that_are_given() {
    let file = TempFile::sparse("settings-new", 300 << 20);
    let args = [
        "--rmw-read-delay",
        "5ms",
        "--write-back-delay",
        "250",
        "--json",
    ];
    let text = file.ok("format", &args);
    let text: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    assert_eq!(text["settings"]["rmw_read_delay"], 5000);
    assert_eq!(text["settings"]["write_back_delay"], 250);
    let report: serde_json::Value = serde_json::from_str(&file.ok("check", &["--json"])).unwrap();
    assert_eq!(report["drive"]["settings"], text["settings"]);
    assert_eq!(report["drive"]["conditions"], serde_json::json!([]));
}

#[test]
fn a_crashed_drive_is_shown() {
    let file = TempFile::with("shown", &crashed().bytes);
    let text = file.ok("dump", SMALL);
    for line in [
        "superblock copy 1 at sector 1360: Intact",
        "  uuid 30313233-3435-3637-3839-616263646566",
        "journal, from the tail to 4",
        "    1.0 map zone 1 bo 0 nbo 6 blocks 5",
        "    3.0 settings allocation=5 rmw_read_delay=0 write_back_delay=0 log_errors=0 measure_latency=0",
        "  zone 0 slot 1, which counts, at sector 1520: Intact, generation 2, position 2.0, 12 blocks mapped",
    ] {
        assert!(text.lines().any(|it| it == line), "no '{line}' in\n{text}");
    }
    let json = file.ok("dump", &[SMALL, &["--json", "--zone", "0"]].concat());
    let dump: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(dump["journal"].as_array().unwrap().len(), 3);
    assert_eq!(dump["journal_end"], "4");
    assert_eq!(dump["superblocks"][0]["fields"]["tail"], 1);
    assert_eq!(
        dump["mapping"],
        serde_json::json!([
            { "bo": 0, "nbo": 0, "blocks": 12 },
            { "bo": 20, "nbo": 30, "blocks": 2 },
        ])
    );
    let output = file.run("dump", &[SMALL, &["--zone", "3"]].concat());
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn superblocks() {
    for copy in 0..2 {
        let mut image = crashed();
        let sector = image.layout.superblock(copy).unwrap();
        image.at(sector)[33] ^= 1;
        let place = format!("superblock copy {copy}");
        expect("sb-one", &image, 3, &place, "SuperblockDamaged");
        let other = image.layout.superblock(1 - copy).unwrap();
        image.at(other)[4096] ^= 1;
        expect("sb-both", &image, 4, "superblock", "SuperblockDamaged");
        let mut image = crashed();
        image.put_copy(copy, &superblock().open(0), &[2]);
        expect("sb-old", &image, 3, &place, "Older");
    }
    let mut image = crashed();
    image.put_superblock(
        &Superblock {
            incompatible: 8,
            ..superblock()
        },
        &[0],
    );
    expect("sb-feature", &image, 4, "superblock", "UnknownFeature");
    let shrunk = crashed().bytes.len() - 4096;
    let mut image = crashed();
    image.bytes.truncate(shrunk);
    expect("shrunk", &image, 4, "superblock", "DeviceShrank");
    expect("blank", &Image::blank(), 4, "superblock", "Blank");
    let mut image = Image::blank();
    image.at(0)[100] = 1;
    expect("foreign", &image, 4, "superblock", "ForeignData");
}

#[test]
fn the_journal() {
    for copy in 0..2 {
        let mut image = crashed();
        image.damage_copy(2, copy);
        expect("journal-one", &image, 3, "journal", "SingleCopies");
        image.damage_copy(2, 1 - copy);
        expect("journal-both", &image, 4, "journal", "JournalDamaged");
    }
    let mut image = crashed();
    image.put_entry(1, 3, 3, &[map(7, 0, 0, 1)]);
    expect("journal-record", &image, 4, "journal", "BadRecord");
    for (record, kind) in [
        (map(0, 0, 1, 1), "RecordConflict"),
        (map(0, 40, 0, 1), "RecordConflict"),
        (map(0, 50, 0, 10), "BadRecord"),
    ] {
        let mut image = crashed();
        image.put_entry(1, 3, 3, &[record]);
        expect("journal-conflict", &image, 4, "zone 0", kind);
    }
}

#[test]
fn zones() {
    // The slot that counts is damaged: the other has all that the journal has not.
    for block in 0..2 {
        let mut image = crashed();
        let sector = image.layout.slot(0, 1).unwrap() + 8 * block;
        image.at(sector)[17] ^= 1;
        expect("zone-older", &image, 3, "zone 0", "OlderSlot");
        image.put_superblock(
            &superblock().open(0).checkpoint(2, 3, image::settings(2)),
            &[2],
        );
        expect("zone-damaged", &image, 4, "zone 0", "ZoneDamaged");
    }
    let mut image = crashed();
    let mut table: Vec<u16> = (0..56).collect();
    table[3] = 2;
    image.put_slot(1, 0, 3, Position::start_of(2), &table, &[0xfff]);
    expect("zone-double", &image, 4, "zone 0", "BadTable");
    table[3] = 56;
    image.put_slot(1, 0, 3, Position::start_of(2), &table, &[0xfff]);
    expect("zone-outside", &image, 4, "zone 0", "BadTable");
    // A position behind the end of the journal.
    table[3] = 3;
    image.put_slot(1, 0, 3, Position::start_of(5), &table, &[0xfff]);
    expect("zone-future", &image, 4, "zone 0", "JournalDamaged");
}

#[test]
fn counters() {
    let good = plausible();
    for bad in [
        Stats {
            update_blocks: 3,
            ..good
        },
        Stats {
            top_write_blocks: 2,
            ..good
        },
        Stats {
            zero_read_blocks: 1,
            ..good
        },
        Stats {
            rmw_read_blocks: 3,
            ..good
        },
        Stats {
            rmw_two_neighbours: 2,
            ..good
        },
        Stats {
            rmw_one_neighbour: 0,
            ..good
        },
        stats(3),
    ] {
        let mut image = crashed();
        let record = Record::Statistics {
            zone: 2,
            stats: bad,
        };
        image.put_entry(1, 3, 3, &[record]);
        expect("counters", &image, 3, "zone 2", "Statistics");
    }
    // A counter that cannot count any further says nothing.
    let full = Stats {
        host_write_blocks: u64::MAX,
        ..good
    };
    let mut image = crashed();
    let record = Record::Statistics {
        zone: 2,
        stats: full,
    };
    image.put_entry(1, 3, 3, &[record]);
    assert_eq!(check("counters-full", &image).0, 0);
}

#[test]
fn a_formatted_drive() {
    let file = TempFile::sparse("format", 3 << 30);
    assert_eq!(file.ok("format", &[]), "5767168\n");
    let (code, report) = file.check(&[]);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["drive"]["zones"], 11);
    assert_eq!(report["drive"]["phases"], 2);
    assert_eq!(report["drive"]["clean"], true);
    let uuid = report["drive"]["uuid"].as_str().unwrap().to_owned();
    assert_eq!(&uuid[14..15], "4");
    // Once more only by force, and then it is another drive.
    let output = file.run("format", &[]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("an IMRSim drive") && error.contains("--force"),
        "{error}"
    );
    assert_eq!(file.check(&[]).1["drive"]["uuid"], uuid.as_str());
    let table = file.ok("format", &["--force", "--table", "--phases", "3"]);
    assert_eq!(table, format!("0 5767168 imrsim {} 0\n", file.0.display()));
    let (code, report) = file.check(&[]);
    assert_eq!(code, 0, "{report}");
    assert_ne!(report["drive"]["uuid"], uuid.as_str());
    assert_eq!(report["drive"]["phases"], 3);
    let dump = file.ok("dump", &[]);
    assert!(dump.contains("  creator imrsim "), "{dump}");
}

#[test]
fn other_geometries_and_places() {
    let file = TempFile::sparse("geometry", 64 << 20);
    let options = ["--geometry", "4,5,16", "--start", "2048", "--json"];
    let formatted: Value = serde_json::from_str(&file.ok("format", &options)).unwrap();
    let zones = formatted["zones"].as_u64().unwrap();
    let sectors = formatted["data_sectors"].as_u64().unwrap();
    assert_eq!(sectors, zones * 1152);
    let line = format!(
        "0 {sectors} imrsim {} 2048 4 geometry 4 5 16",
        file.0.display()
    );
    assert_eq!(formatted["table"], line);
    let sectors = sectors.to_string();
    for options in [
        &["--start", "2048", "--geometry", "4,5,16"][..],
        &[
            "--start",
            "2048",
            "--geometry",
            "4,5,16",
            "--sectors",
            &sectors,
        ],
        // Twice the groups, the same zones in pairs: some of them end where the drive does.
        &["--start", "2048", "--scan"],
    ] {
        let (code, report) = file.check(options);
        assert_eq!(code, 0, "{report}");
        assert_eq!(report["drive"]["geometry"], serde_json::json!([4, 5, 16]));
        assert_eq!(report["drive"]["zones"], zones);
    }
    for options in [
        &["--start", "2048"][..],
        &["--geometry", "4,5,16"],
        &["--start", "0", "--scan"],
    ] {
        let output = file.run("check", options);
        assert_ne!(output.status.code(), Some(0), "{options:?}");
    }
    // The device has grown since.
    let grown = File::options().write(true).open(&file.0).unwrap();
    grown.set_len(100 << 20).unwrap();
    let (code, _) = file.check(&["--start", "2048", "--geometry", "4,5,16"]);
    assert_eq!(code, 0);
}

#[test]
fn a_drive_of_another_geometry_is_not_overwritten() {
    for (first, second) in [
        ("456,568,64", "4,5,16"),
        ("4,5,16", "456,568,64"),
        ("4,5,16", "100,200,10"),
    ] {
        let file = TempFile::sparse("another", 600 << 20);
        file.ok("format", &["--geometry", first]);
        let output = file.run("format", &["--geometry", second]);
        assert_eq!(output.status.code(), Some(1), "{first} {second}");
        file.ok("format", &["--geometry", second, "--force"]);
        assert_eq!(file.check(&["--geometry", second]).0, 0);
        // Of the first nothing is left that could be taken for a drive.
        assert_ne!(file.check(&["--geometry", first]).0, 0);
    }
}

#[test]
fn what_a_device_may_hold() {
    let size = 600 << 20;
    let last = size - 512;
    for (at, mark, name) in [
        (0x438, &b"\x53\xef"[..], "ext4"),
        (0, b"XFSB", "XFS"),
        (0x10040, b"_BHRfS_M", "Btrfs"),
        (0x52, b"FAT32", "FAT"),
        (0xff6, b"SWAPSPACE2", "swap"),
        (0, b"LUKS\xba\xbe", "LUKS"),
        (0x218, b"LVM2 001", "LVM"),
        (0x1000, b"\xfc\x4e\x2b\xa9", "RAID"),
        (512, b"EFI PART", "GPT"),
        (last, b"EFI PART", "GPT"),
        (size - 8192, b"\xfc\x4e\x2b\xa9", "RAID"),
        (510, b"\x55\xaa", "partition table"),
    ] {
        let file = TempFile::sparse("holds", size);
        file.put(at, mark);
        let output = file.run("format", &[]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(error.contains(name), "{name}: {error}");
        assert_eq!(file.get(at, mark.len()), mark, "nothing is written");
        assert_eq!(file.check(&[]).0, 4);
        file.ok("format", &["--force"]);
        assert_eq!(file.check(&[]).0, 0);
        assert!(file.get(at, mark.len()).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn what_cannot_be_formatted() {
    let file = TempFile::sparse("small", 1 << 20);
    assert_eq!(file.run("format", &[]).status.code(), Some(1));
    assert_eq!(file.run("check", &[]).status.code(), Some(1));
    assert_eq!(file.run("dump", &[]).status.code(), Some(1));
    assert_eq!(
        file.run("format", &["--start", "4096"]).status.code(),
        Some(1)
    );
    assert_eq!(
        file.run("format", &["--phases", "65"]).status.code(),
        Some(2)
    );
    assert!(file.get(0, 1 << 20).iter().all(|byte| *byte == 0));
    let none = TempFile::new("none");
    assert_eq!(none.run("format", &[]).status.code(), Some(1));
    assert!(!none.0.exists());
}

#[test]
fn a_large_sparse_image_is_quick() {
    let file = TempFile::sparse("large", 1 << 40);
    // A file system that allows such files is needed.
    let mut end = File::open(&file.0).unwrap();
    assert_eq!(end.seek(SeekFrom::End(0)).unwrap(), 1 << 40);
    file.ok("format", &[]);
    let begin = std::time::Instant::now();
    assert_eq!(file.check(&["--scan"]).0, 0);
    assert_eq!(file.check(&["--geometry", "4,5,16", "--scan"]).0, 0);
    // Fast enough even on a machine that does other things.
    assert!(begin.elapsed().as_secs() < 60);
    std::io::stdout().flush().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is in an image, it is checked and shown.
    #[test]
    fn images_of_anything(
        places in prop::collection::vec((any::<u64>(), any::<u8>(), 1_usize..600), 1..8),
    ) {
        let mut image = crashed();
        let first = image.layout.data_sectors() * 512;
        let len = image.bytes.len() as u64 - first;
        for (place, value, count) in places {
            let at = (first + place % len) as usize;
            let end = image.bytes.len().min(at + count);
            image.bytes[at..end].fill(value);
        }
        let file = TempFile::with("anything", &image.bytes);
        let (code, _) = file.check(SMALL);
        prop_assert!(matches!(code, 0 | 3 | 4));
        let output = file.run("dump", &[SMALL, &["--zone", "0", "--json"]].concat());
        prop_assert!(matches!(output.status.code(), Some(0 | 4)), "{:?}", output);
        prop_assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
    }
}

/// A check finds nothing wrong that recovery accepts, and nothing good that it refuses, whatever the bytes
/// are. `PROPTEST_CASES=1000000 cargo test --test metadata agrees` runs more cases.
#[test]
fn check_agrees_with_recovery() {
    let sound = crashed();
    let layout = sound.layout;
    let (first, blocks) = (layout.data_sectors(), layout.metadata_sectors() / 8);
    let journal = layout.journal()..layout.slots();
    let file = TempFile::with("agrees", &sound.bytes);
    let place = Place {
        device: file.0.clone(),
        start: 0,
    };
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    // Mostly the structures that are in use, and in them the fields of headers and records.
    let block = prop_oneof![0..8_u64, 0..blocks];
    let at = prop_oneof![0..160_usize, 480..512_usize, 0..4096_usize];
    let value = prop_oneof![0..4_u8, any::<u8>()];
    let change = (block, at, value, prop::bool::weighted(0.8));
    let changes = prop::collection::vec(change, 1..6);
    let (accepted, refused) = (Cell::new(0), Cell::new(0));
    let result = TestRunner::new(config).run(&changes, |changes| {
        let mut image = sound.clone();
        for &(block, at, value, sealed) in &changes {
            let sector = first + block * 8;
            let bytes = &mut image.at(sector)[..4096];
            bytes[at] = value;
            if sealed {
                seal(bytes, journal.contains(&sector));
            }
            file.put(sector * 512, bytes);
        }
        let found = recover(&mut image);
        let outcome = if found.is_some() { &accepted } else { &refused };
        outcome.set(outcome.get() + 1);
        let report = check::check(&mut Backing::open(&place, false).unwrap(), &layout).unwrap();
        for (block, ..) in changes {
            let at = (first + block * 8) * 512;
            file.put(at, &sound.bytes[at as usize..][..4096]);
        }
        prop_assert_eq!(
            report.exit_code() != exit::REFUSED,
            found.is_some(),
            "{:?}",
            report
        );
        if let (Some(mapped), Some(drive)) = (found, &report.drive) {
            prop_assert_eq!(drive.mapped_blocks, u64::from(mapped));
        }
        Ok(())
    });
    result.unwrap();
    let (accepted, refused) = (accepted.get(), refused.get());
    println!("{accepted} accepted, {refused} refused");
    assert!(accepted.min(refused) * 10 > accepted.max(refused));
}
