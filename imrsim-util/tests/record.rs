// SPDX-License-Identifier: GPL-2.0-only

//! Recordings of drives by their trace events. The drive is a simulated one that records itself, too; its events are
//! written as the kernel writes them, and what becomes of them has to be the same.

use std::{
    collections::VecDeque,
    fs, io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use anyhow::{bail, Result};
use imrsim_core::{
    uapi::{Message, Request as Call, ZoneSnapshot},
    Allocation, Geometry,
};
use imrsim_util::{
    device::{Device, Transport},
    drive::Drive,
    exit,
    prefill::{Prefill, Share},
    record::{self, reorder::HELD, Control, Next, Options, Summary},
    recording::{Clock, Event, Header, Item, Op, Player, Reader, Request, Source as Of},
    rng::Rng,
    tracefs::{Dev, Source, Stream, Tracefs},
};

const DEV: Dev = Dev {
    major: 252,
    minor: 1,
};
const BLOCK: u64 = 4096;

/// A file in memory that its writer can be taken from.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A drive with its events.
struct Kernel {
    drive: Drive,
    own: Shared,
    seq: u64,
    /// Lines, or parts of them, in the order in which they are read.
    pipe: VecDeque<Vec<u8>>,
    lost: u64,
    stopped: bool,
    /// Whether snapshots are events.
    marks: bool,
    /// How many snapshots a signal comes before.
    signals: u32,
}

#[derive(Clone)]
struct Machine(Arc<Mutex<Kernel>>);

impl Machine {
    fn new(geometry: Geometry, zones: u64) -> Self {
        let drive = Drive::new(geometry, zones, Allocation::from_phases(2).unwrap()).unwrap();
        Self(Arc::new(Mutex::new(Kernel {
            drive,
            own: Shared::default(),
            seq: 10,
            pipe: VecDeque::new(),
            lost: 0,
            stopped: false,
            marks: true,
            signals: 0,
        })))
    }

    fn small() -> Self {
        Self::new(Geometry::new(57, 71, 4).unwrap(), 3)
    }

    fn kernel(&self) -> MutexGuard<'_, Kernel> {
        self.0.lock().unwrap()
    }
}

impl Kernel {
    fn line(&mut self, text: &str) {
        self.pipe.push_back(format!("{text}\n").into_bytes());
    }

    /// The next event, as the kernel writes it.
    fn text(&mut self, dev: &str, zone: Option<u64>, name: &str, rest: &str) -> Vec<u8> {
        const COMMS: [&str; 3] = ["fio", "a: dev=1:1 seq", "x = [y]"];
        self.seq += 1;
        let seq = self.seq;
        let comm = COMMS[seq as usize % 3];
        let zone = zone.map_or_else(String::new, |zone| format!(" zone={zone}"));
        let micros = seq * 10;
        format!(
            "{comm:>16}-123     [00{}] d..1. {:5}.{:06}: {name}: dev={dev} seq={seq}{zone}{rest}\n",
            seq % 2,
            micros / 1_000_000,
            micros % 1_000_000
        )
        .into_bytes()
    }

    fn event(&mut self, zone: u64, event: &Event) -> Vec<u8> {
        let (name, rest) = match event {
            Event::Request(it) => {
                let op = match it.op {
                    Op::Read => "read",
                    Op::Write => "write",
                    Op::Discard => "discard",
                    Op::Reset => "reset",
                };
                let nbo = if it.zeros || matches!(it.op, Op::Discard | Op::Reset) {
                    "-1"
                } else {
                    "0"
                };
                let edges = u32::from(it.head_partial) + u32::from(it.tail_partial);
                let (more, crosses) = (u32::from(it.more), u32::from(it.crosses_zone));
                let (bo, blocks) = (it.bo, it.blocks);
                let rest = format!(
                    " op={op} bo={bo} nbo={nbo} blocks={blocks} edges={edges} more={more} crosses={crosses}"
                );
                ("map", rest)
            }
            Event::Alloc { bo, nbo, blocks } => {
                ("alloc", format!(" bo={bo} nbo={nbo} blocks={blocks}"))
            }
            Event::Failed { bo, blocks } => {
                ("alloc_failed", format!(" bo={bo} nbo=0 blocks={blocks}"))
            }
            Event::RmwStart(rmw) => {
                let [a, b] = rmw.tops;
                let rest = format!(
                    " nbo={} blocks={} first0={} mask0=0x{:x} first1={} mask1=0x{:x}",
                    rmw.nbo, rmw.blocks, a.first, a.mask, b.first, b.mask
                );
                ("rmw_start", rest)
            }
            Event::RmwDone { nbo } => ("rmw_done", format!(" nbo={nbo} ok=1")),
            Event::Unmap { bo, blocks } => ("unmap", format!(" bo={bo} blocks={blocks}")),
            Event::CountersReset => ("counters_reset", String::new()),
            Event::Commit { changes } => ("commit", format!(" changes={changes}")),
            Event::Strategy(it) => ("strategy", format!(" phases={}", it.phases())),
        };
        let zone = (!event.is_of_drive()).then_some(zone);
        self.text(&DEV.to_string(), zone, name, &rest)
    }

    /// Has the drive do something, which becomes events.
    fn work(&mut self, work: impl FnOnce(&mut Drive)) -> Vec<Vec<u8>> {
        self.own = Shared::default();
        self.drive.record(None, Box::new(self.own.clone())).unwrap();
        work(&mut self.drive);
        self.drive.end_recording().unwrap();
        let bytes = self.own.0.lock().unwrap().clone();
        let mut lines = Vec::new();
        for item in items(&bytes) {
            if let Item::Event { zone, event, .. } = item {
                lines.push(self.event(zone, &event));
            }
        }
        lines
    }
}

impl Transport for Machine {
    fn call(&mut self, request: Call, buf: &mut [u8]) -> io::Result<()> {
        let mut kernel = self.kernel();
        if request == Call::GetSnapshot {
            if kernel.signals > 0 {
                kernel.signals -= 1;
                return Err(io::Error::from_raw_os_error(4));
            }
            let ZoneSnapshot { zone, cookie, .. } = ZoneSnapshot::read_from(buf);
            let rest = format!(" cookie={cookie}");
            if kernel.marks {
                let line = kernel.text(&DEV.to_string(), Some(zone), "snapshot", &rest);
                kernel.pipe.push_back(line);
            }
        }
        kernel.drive.call(request, buf)
    }
}

impl Source for Machine {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut kernel = self.kernel();
        let Some(mut bytes) = kernel.pipe.pop_front() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let rest = bytes.split_off(bytes.len().min(buf.len()).min(100));
        if !rest.is_empty() {
            kernel.pipe.push_front(rest);
        }
        buf[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        std::thread::sleep(timeout);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.kernel().stopped = true;
        Ok(())
    }

    fn lost(&mut self) -> Result<u64> {
        Ok(self.kernel().lost)
    }
}

/// Does `work` when the recording has begun, and then ends it.
struct Work<F>(Option<F>);

impl<F: FnOnce() -> Result<()>> Control for Work<F> {
    fn begun(&mut self) -> Result<()> {
        match self.0.take() {
            Some(work) => work(),
            None => bail!("it begins twice"),
        }
    }

    fn next(&mut self, _: &Summary) -> Result<Next> {
        Ok(match &self.0 {
            Some(_) => Next::GoOn,
            None => Next::Finish,
        })
    }
}

fn options(zone: Option<u64>) -> Options {
    Options {
        patience: Duration::from_millis(500),
        ..Options::new(DEV, zone)
    }
}

/// Records while `work` goes on.
fn recorded(
    machine: &Machine,
    zone: Option<u64>,
    work: impl FnOnce(&mut Kernel),
) -> Result<(Summary, Vec<u8>)> {
    let mut device = Device::new("the drive", machine.clone());
    let mut stream = Stream::new(machine.clone());
    let mut control = Work(Some(|| {
        work(&mut machine.kernel());
        Ok(())
    }));
    record::record(
        &mut device,
        &mut stream,
        &options(zone),
        &mut control,
        Vec::new(),
    )
}

fn error(machine: &Machine, zone: Option<u64>, work: impl FnOnce(&mut Kernel)) -> String {
    match recorded(machine, zone, work) {
        Ok((summary, _)) => panic!("recorded: {summary:?}"),
        Err(error) => format!("{error:#}"),
    }
}

fn items(bytes: &[u8]) -> Vec<Item> {
    let mut reader = Reader::new(bytes).unwrap();
    std::iter::from_fn(|| reader.next_item().unwrap()).collect()
}

/// What a recording has, without times; the ends of requests as far as the events tell.
fn told(bytes: &[u8]) -> Vec<Item> {
    let mut items = items(bytes);
    for item in &mut items {
        if let Item::Event { time, zone, event } = item {
            *time = 0;
            if event.is_of_drive() {
                *zone = 0;
            }
            if let Event::Request(Request {
                head_partial,
                tail_partial,
                ..
            }) = event
            {
                (*head_partial, *tail_partial) = (
                    *head_partial || *tail_partial,
                    *head_partial && *tail_partial,
                );
            }
        }
    }
    // Where the states of zones stand is up to the writer.
    items.sort_by_key(|item| match item {
        Item::Start(snapshot) => (0, snapshot.zone),
        Item::Event { .. } => (1, 0),
        Item::Final(snapshot) => (2, snapshot.zone),
    });
    items
}

/// Random requests of any size.
fn random(drive: &mut Drive, rng: &mut Rng, requests: u32) {
    let sectors = drive.capacity() / 512;
    for i in 0..requests {
        let len = 1 + rng.below(64);
        let at = rng.below(sectors - len);
        let (offset, len) = (at * 512, len * 512);
        match rng.below(12) {
            0..3 => drive.read(offset, len).unwrap(),
            3 => drive.discard(offset, len).unwrap(),
            _ => drive.write(offset, len).unwrap(),
        }
        if i % 100 == 99 {
            let allocation = Allocation::from_phases(2 + i / 100 % 3).unwrap();
            drive.set_allocation(allocation);
        }
    }
}

/// Puts lines into another order, none further than `far` from its place.
fn shuffle(lines: &mut [Vec<u8>], far: usize, rng: &mut Rng) {
    for part in lines.chunks_mut(far) {
        for at in (1..part.len()).rev() {
            let other = rng.below(at as u64 + 1) as usize;
            part.swap(at, other);
        }
    }
}

#[test]
fn what_a_drive_does_is_what_its_events_say() {
    for (seed, far) in [(1, 1), (2, 3), (3, 50), (4, HELD / 2)] {
        let mut rng = Rng::new(seed);
        let machine = Machine::small();
        {
            let mut kernel = machine.kernel();
            let half = "50%".parse::<Share>().unwrap();
            kernel
                .drive
                .prefill(Prefill::Random { extent: 4 }, half, seed);
            random(&mut kernel.drive, &mut rng, 50);
        }
        let (summary, bytes) = recorded(&machine, None, |kernel| {
            let mut lines = kernel.work(|drive| random(drive, &mut rng, 2000));
            shuffle(&mut lines, far, &mut rng);
            kernel.pipe.extend(lines);
        })
        .unwrap();
        let kernel = machine.kernel();
        assert!(kernel.stopped);
        let own = kernel.own.0.lock().unwrap().clone();
        assert_eq!(told(&bytes), told(&own), "seed {seed}");
        let reader = Reader::new(&bytes[..]).unwrap();
        let expected = Header {
            geometry: *kernel.drive.geometry(),
            zones: 3,
            allocation: Allocation::from_phases(2).unwrap(),
            source: Of::Kernel,
            clock: Clock::Nanoseconds,
            only: None,
        };
        assert_eq!(*reader.header(), expected);
        let (mut events, mut last) = (0, 0);
        let _ = Player::new(reader, None)
            .play(|time, _, _| {
                (events, last) = (events + 1, time);
                Ok(std::ops::ControlFlow::Continue(()))
            })
            .unwrap();
        assert_eq!(
            (summary.events, summary.zones, summary.lost),
            (events, 3, 0)
        );
        assert!(
            summary.rewrites > 100 && summary.requests >= 2000,
            "{summary:?}"
        );
        assert!((summary.seconds * 1e9 - last as f64).abs() < 1e4 + 1e4 * far as f64);
    }
}

fn write(drive: &mut Drive, zone: u64, block: u64) {
    let zone_blocks = u64::from(drive.geometry().zone_blocks());
    drive
        .write((zone * zone_blocks + block) * BLOCK, BLOCK)
        .unwrap();
}

#[test]
fn only_what_belongs_to_it_is_recorded() {
    let machine = Machine::small();
    // Before the beginning, and a snapshot of somebody else.
    let before = machine.kernel().work(|drive| {
        write(drive, 1, 0);
        write(drive, 1, 1);
    });
    machine.kernel().pipe.extend(before);
    let (summary, bytes) = recorded(&machine, Some(1), |kernel| {
        kernel.line("##### CPU 1 buffer started ####");
        kernel.line("bash-1 [000] ..... 1.5: tracing_mark_write: hello");
        let other = kernel.text("252:2", Some(1), "unmap", " bo=0 blocks=512");
        kernel.pipe.push_back(other);
        let lines = kernel.work(|drive| {
            write(drive, 0, 5);
            write(drive, 1, 2);
            write(drive, 1, 0);
        });
        kernel.pipe.extend(lines);
        let of_somebody = kernel.text("252:1", Some(1), "snapshot", " cookie=5");
        kernel.pipe.push_back(of_somebody);
        let commit = kernel.event(0, &Event::Commit { changes: 3 });
        kernel.pipe.push_back(commit);
    })
    .unwrap();
    // Two requests, an alloc, a commit.
    assert_eq!((summary.requests, summary.events, summary.zones), (2, 4, 1));
    let items = items(&bytes);
    let Some(Item::Start(start)) = items.first() else {
        panic!("{items:?}");
    };
    assert_eq!((start.zone, start.mapped().count()), (1, 2));
    assert!(matches!(items.last(), Some(Item::Final(last)) if last.mapped().count() == 3));
    let times = items.iter().filter_map(|item| match item {
        Item::Event { time, .. } => Some(*time),
        _ => None,
    });
    assert_eq!(times.collect::<Vec<_>>(), [0, 10_000, 20_000, 40_000]);
}

#[test]
fn nothing_may_happen() {
    let machine = Machine::small();
    let (summary, bytes) = recorded(&machine, None, |_| {}).unwrap();
    assert_eq!(summary, Summary::default());
    assert_eq!(items(&bytes), []);
}

#[test]
fn counters_may_be_set_to_zero() {
    let machine = Machine::small();
    let (_, bytes) = recorded(&machine, Some(0), |kernel| {
        let lines = kernel.work(|drive| write(drive, 0, 5));
        kernel.pipe.extend(lines);
        kernel.drive.reset_stats();
        let reset = kernel.event(0, &Event::CountersReset);
        kernel.pipe.push_back(reset);
    })
    .unwrap();
    assert_eq!(items(&bytes).len(), 5);
}

#[test]
fn lost_events_are_noticed() {
    let machine = Machine::small();
    let said = error(&machine, None, |kernel| {
        kernel.line("CPU:1 [LOST 1234 EVENTS]");
    });
    assert!(
        said.contains("1234 events of the drive got lost") && said.contains("--buffer"),
        "{said}"
    );
    let said = error(&Machine::small(), None, |kernel| {
        kernel.line("CPU:0 [LOST EVENTS]")
    });
    assert!(said.starts_with("events of the drive got lost"), "{said}");
    // Known at the end only.
    let said = error(&Machine::small(), None, |kernel| kernel.lost = 1);
    assert!(said.starts_with("1 event of the drive got lost"), "{said}");
    // They are the cause if others do not fit together.
    let said = error(&Machine::small(), None, |kernel| {
        let mut lines = kernel.work(|drive| {
            write(drive, 0, 5);
            write(drive, 0, 5);
        });
        let twice = lines[1].clone();
        kernel.pipe.extend(lines.drain(..));
        kernel.pipe.push_back(twice);
        kernel.lost = 7;
    });
    assert!(said.starts_with("7 events of the drive got lost"), "{said}");
}

#[test]
fn what_does_not_lead_to_the_drives_state_is_refused() {
    let said = error(&Machine::small(), None, |kernel| {
        let mut lines = kernel.work(|drive| write(drive, 2, 5));
        lines.truncate(1);
        kernel.pipe.extend(lines);
    });
    assert!(
        said.contains("zone 2 do not lead to the drive's state"),
        "{said}"
    );
    assert!(
        said.contains("first_write_blocks is 0; by the drive, 1"),
        "{said}"
    );
    // Even where no event came at all.
    let said = error(&Machine::small(), None, |kernel| {
        write(&mut kernel.drive, 1, 0)
    });
    assert!(said.contains("zone 1 do not lead"), "{said}");
    for (name, rest, expected) in [
        ("alloc", " bo=3 nbo=7 blocks=1", "place 7 is taken"),
        (
            "alloc",
            " bo=511 nbo=7 blocks=2",
            "blocks that the zone does not have",
        ),
        (
            "map",
            " op=write bo=0 nbo=0 blocks=4294967295 edges=0 more=0 crosses=0",
            "does not have",
        ),
        (
            "rmw_done",
            " nbo=7 ok=1",
            "a rewrite ends that did not begin",
        ),
    ] {
        let said = error(&Machine::small(), Some(0), |kernel| {
            let line = kernel.text("252:1", Some(0), "alloc", " bo=1 nbo=7 blocks=1");
            kernel.pipe.push_back(line);
            let line = kernel.text("252:1", Some(0), name, rest);
            kernel.pipe.push_back(line);
        });
        assert!(
            said.contains("do not fit together") && said.contains(expected),
            "{said}"
        );
    }
    let said = error(&Machine::small(), None, |kernel| {
        let line = kernel.text("252:1", Some(0), "alloc", " bo=x");
        kernel.pipe.push_back(line);
    });
    assert!(
        said.contains("of another module") && said.contains("'bo'"),
        "{said}"
    );
}

#[test]
fn a_marker_that_does_not_come_is_not_waited_for_forever() {
    let machine = Machine::small();
    machine.kernel().marks = false;
    let said = error(&machine, None, |_| panic!("it did not begin"));
    assert!(said.contains("snapshot of zone 0 does not come"), "{said}");
    let said = error(&Machine::small(), Some(1), |kernel| kernel.marks = false);
    assert!(said.contains("snapshot of zone 1 does not come"), "{said}");
    // The line of the last one has no end.
    let said = error(&Machine::small(), Some(1), |kernel| {
        kernel.marks = false;
        let mut line = kernel.text("252:1", Some(1), "snapshot", " cookie=1");
        line.pop();
        kernel.pipe.push_back(line);
    });
    assert!(said.contains("does not come"), "{said}");
}

#[test]
fn too_great_a_disorder_is_noticed() {
    let said = error(&Machine::small(), Some(0), |kernel| {
        let mut lines = kernel.work(|drive| {
            for block in 0..2 * HELD as u64 {
                write(drive, 0, block % 128);
            }
        });
        // The marker is waited for, too; without what follows it at once, all are held back.
        let first = lines.remove(0);
        lines.insert(HELD + 10, first);
        kernel.pipe.extend(lines);
    });
    assert!(said.contains("too great a disorder"), "{said}");
}

#[test]
fn signals_are_a_reason_to_look_around() {
    let machine = Machine::small();
    machine.kernel().signals = 2;
    let (summary, _) = recorded(&machine, None, |kernel| kernel.signals = 2).unwrap();
    assert_eq!(summary.events, 0);

    struct Always(Next);
    impl Control for Always {
        fn begun(&mut self) -> Result<()> {
            panic!("it begins");
        }
        fn next(&mut self, _: &Summary) -> Result<Next> {
            Ok(self.0)
        }
    }
    for next in [Next::Finish, Next::Abort] {
        let machine = Machine::small();
        let mut device = Device::new("the drive", machine.clone());
        let mut stream = Stream::new(machine);
        let done = record::record(
            &mut device,
            &mut stream,
            &options(None),
            &mut Always(next),
            Vec::new(),
        );
        assert!(done
            .unwrap_err()
            .to_string()
            .contains("before the recording began"));
    }
}

#[test]
fn zones_are_checked() {
    let usage = |machine: &Machine, zone| {
        let mut device = Device::new("the drive", machine.clone());
        let mut stream = Stream::new(machine.clone());
        let mut control = Work(Some(|| Ok(())));
        let out = Vec::new();
        let error = record::record(&mut device, &mut stream, &options(zone), &mut control, out)
            .unwrap_err();
        assert_eq!(exit::code(&error), exit::USAGE);
        error.to_string()
    };
    assert_eq!(
        usage(&Machine::small(), Some(3)),
        "there is no zone 3: the drive has 3"
    );
    let large = Machine::new(Geometry::new(1, 2, 2).unwrap(), 1025);
    assert!(usage(&large, None).contains("--zone"));
    recorded(&large, Some(1024), |_| {}).unwrap();
    // As many as there may be.
    let large = Machine::new(Geometry::new(1, 2, 2).unwrap(), 1024);
    let (summary, _) = recorded(&large, None, |kernel| {
        let lines = kernel.work(|drive| (0..1024).for_each(|zone| write(drive, zone, zone % 6)));
        kernel.pipe.extend(lines);
    })
    .unwrap();
    assert_eq!((summary.zones, summary.events), (1024, 2048));
}

#[test]
fn a_full_disk_is_an_error() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let machine = Machine::small();
    let mut device = Device::new("the drive", machine.clone());
    let mut stream = Stream::new(machine);
    let mut control = Work(Some(|| Ok(())));
    let out = io::BufWriter::new(Full);
    let done = record::record(&mut device, &mut stream, &options(None), &mut control, out);
    assert!(done
        .map(|_| ())
        .unwrap_err()
        .to_string()
        .contains("no storage space"));
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn an_instance_is_told_what_to_collect() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let find = || Tracefs::find(Some(root)).map_err(|error| error.to_string());
    assert!(find().unwrap_err().contains("mount -t tracefs tracefs"));
    fs::create_dir(root.join("instances")).unwrap();
    assert!(find().unwrap_err().contains("no trace events of IMRSim"));
    fs::create_dir_all(root.join("events/imrsim")).unwrap();
    let tracefs = find().unwrap();

    // One that was left behind.
    fs::create_dir(root.join("instances/it")).unwrap();
    let instance = tracefs.instance("it").unwrap();
    let path = instance.path().to_owned();
    assert_eq!(path, root.join("instances/it"));
    assert!(instance.collect(DEV, None, 1 << 20).is_err());
    assert!(instance.pipe().is_err());
    let zone = "\tfield:u64 zone;\toffset:24;\tsize:8;\tsigned:0;\n";
    for (file, text) in [
        ("trace_clock", ""),
        ("buffer_size_kb", ""),
        ("tracing_on", "1"),
        ("options/raw", "1"),
        ("events/imrsim/enable", "0"),
        ("events/imrsim/filter", ""),
        ("events/imrsim/map/format", zone),
        ("events/imrsim/map/filter", ""),
        ("events/imrsim/commit/format", "\tfield:u64 seq;\n"),
        ("events/imrsim/commit/filter", ""),
        (
            "trace_pipe",
            "x-1 [000] ..... 1.5: commit: dev=252:1 seq=1 changes=1\nCPU:1 [LOST 2 EVENTS]\ntorn",
        ),
        (
            "per_cpu/cpu0/stats",
            "entries: 9\noverrun: 3\ncommit overrun: 0\nbytes: 2\ndropped events: 4\n",
        ),
        ("per_cpu/cpu1/stats", "overrun: 5\n"),
    ] {
        put(&path.join(file), text);
    }
    instance.collect(DEV, Some(2), 1_000_000).unwrap();
    let is = |file: &str| fs::read_to_string(path.join(file)).unwrap();
    assert_eq!(is("buffer_size_kb"), "977");
    assert_eq!(is("trace_clock"), "mono");
    assert_eq!(is("options/raw"), "0");
    assert_eq!(
        is("events/imrsim/map/filter"),
        "dev == 264241153 && zone == 2"
    );
    assert_eq!(is("events/imrsim/commit/filter"), "dev == 264241153");
    assert_eq!(is("events/imrsim/enable"), "1");

    let mut stream = Stream::new(instance.pipe().unwrap());
    let mut lines = 0;
    while stream
        .read(|_| {
            lines += 1;
            Ok(())
        })
        .unwrap()
    {}
    assert_eq!(lines, 2);
    stream.source().wait(Duration::from_millis(1)).unwrap();
    assert_eq!(stream.source().lost().unwrap(), 12);
    stream.source().stop().unwrap();
    assert_eq!(is("tracing_on"), "0");
    drop(stream);
    // The kernel's folders go as a whole, others only if they are empty.
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            fs::remove_dir_all(entry).unwrap();
        } else {
            fs::remove_file(entry).unwrap();
        }
    }
    drop(instance);
    assert!(!path.exists());
    tracefs.instance("other").unwrap().remove().unwrap();
    assert_eq!(fs::read_dir(root.join("instances")).unwrap().count(), 0);
}
