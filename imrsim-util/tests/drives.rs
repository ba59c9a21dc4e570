// SPDX-License-Identifier: GPL-2.0-only

//! Making, listing and removing drives, with a device mapper that only remembers. The kernel's own is
//! in the VM tests. `SNAPSHOTS=overwrite cargo test` writes down what is shown now.

use std::{cell::RefCell, io};

use anyhow::Result;
use imrsim_core::{Allocation, Geometry};
use imrsim_util::{
    control::Command,
    device::Device,
    drive::Drive,
    drives::{self, parse_name, Wish},
    exit,
    mapper::{Entry, Kind, Line, Mapper},
    report::Style,
    settings::ForNewDrive,
};
use snapbox::{assert_data_eq, file, str};

const ENXIO: i32 = 6;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;

/// Devices by their names: a line of the table, and one of the status.
#[derive(Default)]
struct Fake {
    devices: RefCell<Vec<(String, Line, String)>>,
    refuse: Option<i32>,
    without_module: bool,
    /// What the devices below have.
    sectors: u64,
    /// What was done to tables.
    done: RefCell<Vec<String>>,
    /// Which of that, counted from 0, fails.
    failing: Vec<usize>,
}

impl Fake {
    fn check(&self) -> io::Result<()> {
        match self.refuse {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Ok(()),
        }
    }

    fn note(&self, what: String) -> io::Result<()> {
        let mut done = self.done.borrow_mut();
        done.push(what);
        if self.failing.contains(&(done.len() - 1)) {
            return Err(io::Error::from_raw_os_error(EINVAL));
        }
        Ok(())
    }

    fn with(self, name: &str, target: &str, params: &str, status: &str) -> Self {
        let line = Line {
            start: 0,
            sectors: 1_572_864,
            target: target.to_owned(),
            params: params.to_owned(),
        };
        let device = (name.to_owned(), line, status.to_owned());
        self.devices.borrow_mut().push(device);
        self
    }

    fn names(&self) -> Vec<String> {
        let devices = self.devices.borrow();
        devices.iter().map(|(name, ..)| name.clone()).collect()
    }
}

impl Mapper for Fake {
    fn devices(&self) -> io::Result<Vec<Entry>> {
        Ok((0..)
            .zip(self.names())
            .map(|(minor, name)| Entry {
                name,
                number: (253, minor),
            })
            .collect())
    }

    fn lines(&self, name: &str, kind: Kind) -> io::Result<Vec<Line>> {
        let devices = self.devices.borrow();
        let (_, line, status) = devices
            .iter()
            .find(|(other, ..)| other == name)
            .ok_or(io::Error::from_raw_os_error(ENXIO))?;
        let mut line = line.clone();
        if kind == Kind::Status {
            line.params.clone_from(status);
        }
        Ok(vec![line])
    }

    fn create(&self, name: &str, line: &Line) -> io::Result<()> {
        self.check()?;
        let device = (name.to_owned(), line.clone(), String::new());
        self.devices.borrow_mut().push(device);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check()?;
        self.devices
            .borrow_mut()
            .retain(|(other, ..)| other != name);
        Ok(())
    }

    fn suspend(&self, name: &str) -> io::Result<()> {
        self.note(format!("suspend {name}"))
    }

    fn load(&self, name: &str, line: &Line) -> io::Result<()> {
        self.note(format!("load {name} {}", line.params))
    }

    fn resume(&self, name: &str) -> io::Result<()> {
        self.note(format!("resume {name}"))
    }

    fn sectors_of(&self, _: &str) -> io::Result<u64> {
        Ok(self.sectors)
    }

    fn has_target(&self, _: &str) -> io::Result<bool> {
        Ok(!self.without_module)
    }
}

/// Two drives and another device.
fn some() -> Fake {
    let counters = "host_read_requests=1 host_read_blocks=2";
    Fake::default()
        .with("root", "linear", "9:9 0", "")
        .with(
            "imrsim",
            "imrsim",
            "999:0 0 2 phases 3",
            &format!("rw 65536/196608 phases=3 zones=3 {counters}"),
        )
        .with(
            "broken",
            "imrsim",
            "999:16 2048",
            "fail 1/196608 phases=2 zones=3",
        )
        .with("newer", "imrsim", "999:32 0", "")
}

const WISH: Wish = Wish {
    geometry: Geometry::DEFAULT,
    settings: ForNewDrive {
        phases: None,
        rmw_read_delay: None,
        write_back_delay: None,
    },
    bytes: None,
    start: 0,
};

fn create(mapper: &Fake, name: &str, wish: &Wish, style: Style) -> Result<String> {
    let size = wish.fit(1 << 21)?;
    let line = wish.line(&size, "8:16");
    let mut out = Vec::new();
    drives::create(mapper, name, size, &line, style, &mut out)?;
    Ok(String::from_utf8(out)?)
}

fn remove(mapper: &Fake, name: &str) -> Result<String> {
    let mut out = Vec::new();
    drives::remove(mapper, name, Style::Text, &mut out)?;
    Ok(String::from_utf8(out)?)
}

fn error<T>(result: Result<T>) -> String {
    format!("{:#}", result.map(|_| ()).unwrap_err())
}

#[test]
fn lists() {
    let list = |mapper: &Fake, style| {
        let mut out = Vec::new();
        drives::list(mapper, style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_data_eq!(list(&some(), Style::Text), file!["data/list.txt"]);
    assert_data_eq!(list(&some(), Style::Json), file!["data/list.json"].raw());
    assert_eq!(list(&Fake::default(), Style::Text).lines().count(), 1);
}

#[test]
fn makes_the_largest_that_fits() {
    let mapper = Fake::default();
    assert_data_eq!(
        create(&mapper, "imrsim", &WISH, Style::Text).unwrap(),
        str![[r#"
/dev/mapper/imrsim: 3 zones, 1572864 sectors (768 MiB)

"#]]
    );
    let made = mapper.lines("imrsim", Kind::Table).unwrap();
    let line = Line {
        start: 0,
        sectors: 1_572_864,
        target: "imrsim".to_owned(),
        params: "8:16 0".to_owned(),
    };
    assert_eq!(made, [line]);
}

#[test]
fn makes_what_is_asked_for() {
    let mapper = Fake::default();
    let wish = Wish {
        geometry: Geometry::new(57, 71, 8).unwrap(),
        settings: ForNewDrive {
            phases: Some(Allocation::from_phases(5).unwrap()),
            rmw_read_delay: Some(250),
            write_back_delay: None,
        },
        bytes: Some(64 << 20),
        start: 2048,
    };
    assert_data_eq!(
        create(&mapper, "small", &wish, Style::Json).unwrap(),
        file!["data/created.json"].raw()
    );
}

#[test]
fn sizes_that_are_no_drive() {
    let fit = |bytes, start, sectors| {
        Wish {
            bytes,
            start,
            ..WISH
        }
        .fit(sectors)
    };
    for bytes in [0, 1, 255 << 20, 257 << 20] {
        let error = fit(Some(bytes), 0, 1 << 22).unwrap_err();
        assert_eq!(exit::code(&error), exit::USAGE);
        let text = error.to_string();
        assert!(text.contains("whole number of zones of 256 MiB"), "{text}");
    }
    let text = error(fit(Some(300 << 20), 0, 1 << 22));
    assert!(text.ends_with("try '256 MiB' or '512 MiB'"), "{text}");
    let text = error(fit(Some(1 << 30), 0, 1 << 21));
    assert!(text.contains("there is room for 3 (768 MiB)"), "{text}");
    let text = error(fit(None, 4096, 2048));
    assert!(text.contains("has only 2048 sectors"), "{text}");
    assert_eq!(fit(Some(256 << 20), 0, 1 << 21).unwrap().zones, 1);
}

#[test]
fn a_name_that_is_taken() {
    let mapper = some();
    for name in ["root", "imrsim"] {
        let text = error(create(&mapper, name, &WISH, Style::Text));
        assert!(text.starts_with("there is a device"), "{text}");
    }
    assert_eq!(mapper.names(), some().names());
}

#[test]
fn a_kernel_that_refuses() {
    let refusing = Fake {
        refuse: Some(EINVAL),
        ..Fake::default()
    };
    let text = error(create(&refusing, "imrsim", &WISH, Style::Text));
    assert!(text.contains("its log ('dmesg') says why"), "{text}");
    let without = Fake {
        without_module: true,
        ..refusing
    };
    let text = error(create(&without, "imrsim", &WISH, Style::Text));
    assert!(text.contains("load the module"), "{text}");
}

#[test]
fn removes_drives_only() {
    let mapper = some();
    for (name, expected) in [
        ("none", "there is no device 'none'"),
        ("root", "'root' is not an IMRSim device"),
    ] {
        let text = error(remove(&mapper, name));
        assert!(text.starts_with(expected), "{text}");
    }
    assert_eq!(mapper.names(), some().names());
    assert_eq!(remove(&mapper, "imrsim").unwrap(), "imrsim is removed\n");
    assert_eq!(mapper.names(), ["root", "broken", "newer"]);
    let busy = Fake {
        refuse: Some(EBUSY),
        ..some()
    };
    let text = error(remove(&busy, "imrsim"));
    assert!(text.contains("may be mounted"), "{text}");
}

/// A drive of three zones of 256 MiB, with something written to it, and a table line for it.
fn sized(written: u64, fake: Fake, params: &str) -> (Device<Drive>, Fake) {
    let mut drive = Drive::new(Geometry::DEFAULT, 3, Allocation::default()).unwrap();
    drive.write(0, written).unwrap();
    let fake = Fake {
        sectors: 1 << 21,
        ..fake
    };
    let fake = fake.with("imrsim", "imrsim", params, "");
    (Device::new("/dev/mapper/imrsim", drive), fake)
}

fn set_size((device, mapper): &mut (Device<Drive>, Fake), bytes: u64) -> Result<String> {
    let mut out = Vec::new();
    Command::SetZoneSize(bytes).run(
        device,
        Some(&*mapper),
        Style::Text,
        &mut out,
        &mut io::sink(),
    )?;
    Ok(String::from_utf8(out)?)
}

#[test]
fn another_zone_size() {
    for (params, expected) in [
        ("8:16 0", "8:16 0 4 geometry 456 568 32"),
        ("8:16 8 0", "8:16 8 4 geometry 456 568 32"),
        (
            "8:16 8 10 phases 3 geometry 456 568 64 rmw_read_delay 250",
            "8:16 8 8 phases 3 rmw_read_delay 250 geometry 456 568 32",
        ),
    ] {
        let mut drive = sized(0, Fake::default(), params);
        let said = set_size(&mut drive, 128 << 20).unwrap();
        assert_eq!(said, "6 zones of 128 MiB\n");
        let done = drive.1.done.borrow();
        assert_eq!(
            *done,
            [
                "suspend imrsim".to_owned(),
                format!("load imrsim {expected}"),
                "resume imrsim".to_owned(),
            ]
        );
    }
    // What it has already needs nothing to be done.
    let mut drive = sized(0, Fake::default(), "8:16 0");
    assert_eq!(
        set_size(&mut drive, 256 << 20).unwrap(),
        "zones have 256 MiB already\n"
    );
    assert_eq!(drive.1.done.borrow().len(), 0);
}

#[test]
fn zone_sizes_that_are_refused_change_nothing() {
    // 192 track pairs of 4 MiB: zones of 64 at most.
    for (bytes, near) in [
        (0, "'4 MiB'"),
        (1, "'4 MiB'"),
        (5 << 20, "'4 MiB' and '8 MiB'"),
        (20 << 20, "'16 MiB' and '24 MiB'"),
        (252 << 20, "'192 MiB' and '256 MiB'"),
        (1 << 30, "'256 MiB'"),
        (u64::MAX, "'256 MiB'"),
    ] {
        let mut drive = sized(0, Fake::default(), "8:16 0");
        let error = set_size(&mut drive, bytes).unwrap_err();
        assert_eq!(exit::code(&error), exit::USAGE);
        let text = error.to_string();
        assert!(
            text.ends_with(&format!("the nearest possible: {near}")),
            "{text}"
        );
        assert_eq!(drive.1.done.borrow().len(), 0);
    }
    let mut drive = sized(4096, Fake::default(), "8:16 0");
    let text = error(set_size(&mut drive, 128 << 20));
    assert!(text.contains("is not empty: 1 of its blocks"), "{text}");
    assert_eq!(drive.1.done.borrow().len(), 0);
    // Small zones have more metadata than there is room for.
    let mut drive = sized(0, Fake::default(), "8:16 0");
    drive.1.sectors = 1_572_864 + 2048 + 1600;
    let text = error(set_size(&mut drive, 4 << 20));
    assert!(text.contains("room for their metadata"), "{text}");
    assert!(set_size(&mut drive, 128 << 20).is_ok());
    // A table that is not ours, or not understood.
    for (target, params, expected) in [
        ("linear", "8:16 0", "is not one line of target"),
        ("imrsim", "8:16", "is not understood"),
    ] {
        let mut drive = sized(0, Fake::default(), "8:16 0");
        drive.1.devices.borrow_mut().clear();
        drive.1 = drive.1.with("imrsim", target, params, "");
        let text = error(set_size(&mut drive, 128 << 20));
        assert!(text.contains(expected), "{text}");
        assert_eq!(drive.1.done.borrow().len(), 0);
    }
}

#[test]
fn a_zone_size_that_the_kernel_refuses() {
    let failing = |failing: &[usize]| Fake {
        failing: failing.to_vec(),
        ..Fake::default()
    };
    for (fails, steps, expected) in [
        (&[0][..], 1, "nothing was changed"),
        (&[1], 4, "'imrsim' is as it was"),
        (&[2], 5, "'imrsim' is as it was"),
        (&[1, 2], 3, "dmsetup resume imrsim"),
        (&[2, 4], 5, "dmsetup resume imrsim"),
    ] {
        let mut drive = sized(0, failing(fails), "8:16 0 2 phases 3");
        let text = error(set_size(&mut drive, 128 << 20));
        assert!(text.contains(expected), "{text}");
        let done = drive.1.done.borrow();
        assert_eq!(done.len(), steps, "{done:?}");
        if steps > 3 {
            assert_eq!(done[steps - 2], "load imrsim 8:16 0 2 phases 3");
            assert_eq!(done[steps - 1], "resume imrsim");
        }
    }
}

#[test]
fn names() {
    for (text, name) in [
        ("imrsim", "imrsim"),
        ("/dev/mapper/imrsim", "imrsim"),
        ("a#b+c-d.e:f=g@h_1", "a#b+c-d.e:f=g@h_1"),
    ] {
        assert_eq!(parse_name(text).unwrap(), name);
    }
    let long = "x".repeat(128);
    for text in [
        "",
        ".",
        "..",
        "control",
        "/dev/mapper/",
        "/dev/sdb",
        "a/b",
        "../x",
        "a b",
        "ä",
        "a\n",
        &long,
    ] {
        assert!(parse_name(text).is_err(), "{text}");
    }
}
