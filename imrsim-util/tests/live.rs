// SPDX-License-Identifier: GPL-2.0-only

//! What the live view shows of a simulated drive, drawn without a terminal, and what it asks of the drive.
//! `SNAPSHOTS=overwrite cargo test` writes down what is shown now.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use imrsim_core::{
    uapi::{Request, ALL_ZONES},
    Allocation, Condition, Geometry, Nbo,
};
use imrsim_util::{
    device::{Device, Transport},
    drive::Drive,
    live::{
        model::{Command, Focus, Model, Then},
        no_rewrites, plain, view, Options, Rewrite,
    },
    report::Style,
};
use ratatui::{backend::TestBackend, layout::Rect, style::Color, Terminal};
use snapbox::{assert_data_eq, file};

const BLOCK: u64 = 4096;
const TICK: Duration = Duration::from_millis(500);

/// The view of a drive on a screen.
struct Watched {
    device: Device<Drive>,
    model: Model,
    screen: Terminal<TestBackend>,
    at: Duration,
}

impl Watched {
    fn new(drive: Drive, zone: u64, (columns, rows): (u16, u16)) -> Self {
        let mut device = Device::new("/dev/mapper/imrsim", drive);
        let options = Options {
            zone,
            interval: TICK,
        };
        Self {
            model: Model::new(&mut device, &options).unwrap(),
            device,
            screen: Terminal::new(TestBackend::new(columns, rows)).unwrap(),
            at: Duration::ZERO,
        }
    }

    fn drive(&mut self) -> &mut Drive {
        self.device.transport()
    }

    fn write(&mut self, block: u64, blocks: u64) {
        self.drive().write(block * BLOCK, blocks * BLOCK).unwrap();
    }

    fn look(&mut self) {
        self.look_with(Vec::new());
    }

    fn look_with(&mut self, rewrites: Vec<Rewrite>) {
        self.at += TICK;
        self.model.look(&mut self.device, Ok(rewrites), self.at);
    }

    fn press(&mut self, commands: &[Command]) {
        for command in commands {
            assert_eq!(self.model.command(*command), Then::GoOn);
        }
    }

    fn draw(&mut self) -> String {
        let size = self.screen.size().unwrap();
        let shape = view::shape(size.into(), self.model.map().zones());
        self.model.arrange(shape);
        self.model.catch_up(&mut self.device);
        self.screen
            .draw(|frame| view::draw(frame, &self.model))
            .unwrap();
        self.screen.backend().to_string()
    }

    /// The colours of a symbol, wherever it is.
    fn colours(&self, symbol: &str) -> Vec<Color> {
        let cells = self.screen.backend().buffer().content().iter();
        let mut colours: Vec<_> = cells
            .filter(|it| it.symbol() == symbol)
            .map(|it| it.fg)
            .collect();
        colours.dedup();
        colours
    }
}

fn small(zones: u64, phases: u32) -> Drive {
    let geometry = Geometry::new(4, 6, 8).unwrap();
    let allocation = Allocation::from_phases(phases).unwrap();
    Drive::new(geometry, zones, allocation).unwrap()
}

fn default(zones: u64, phases: u32) -> Drive {
    let allocation = Allocation::from_phases(phases).unwrap();
    Drive::new(Geometry::DEFAULT, zones, allocation).unwrap()
}

#[test]
fn an_empty_drive() {
    let mut it = Watched::new(default(8, 2), 0, (80, 24));
    assert_data_eq!(it.draw(), file!["data/live/empty.txt"].raw());
}

#[test]
fn bottoms_are_filled_first_and_flash() {
    let mut it = Watched::new(default(8, 2), 1, (80, 24));
    it.write(65_536, 10_000);
    it.look();
    it.write(65_536 + 10_000, 1_500);
    it.look();
    assert_data_eq!(it.draw(), file!["data/live/first-phase.txt"].raw());
    // The second is in the explanation of keys.
    assert_eq!(it.colours("+"), [Color::LightGreen, Color::DarkGray]);
}

#[test]
fn rewrites_are_seen_in_the_zone_and_on_its_tracks() {
    let mut it = Watched::new(default(8, 3), 0, (80, 24));
    // 36,352 bottom blocks, and half of the even tops.
    it.write(0, 44_000);
    it.look();
    // Bottom tracks 0 and 10 are under tops, 60 is not.
    for block in [0, 5, 568 * 10 + 3, 568 * 60] {
        it.write(block, 1);
    }
    let place = it.drive().lookup(0, 568 * 10 + 3).unwrap();
    let rewrite = |zone, first| Rewrite {
        zone,
        first: Nbo(first),
        blocks: 1,
    };
    it.look_with(vec![rewrite(0, place), rewrite(1, 456 + 20 * 1024)]);
    assert_data_eq!(it.draw(), file!["data/live/rewrites.txt"].raw());
    assert_eq!(it.colours("!"), [Color::LightRed]);
    let pairs = &it.model.opened().pairs;
    assert_eq!(pairs[10].bottom.rewritten, 1);
    // Of the tops over it, the even one is in use.
    assert_eq!((pairs[10].top.rewritten, pairs[11].top.rewritten), (1, 0));
    // In another zone.
    assert_eq!(pairs[20].bottom.rewritten, 0);
    assert_eq!(it.model.opened().since.rmw_one_neighbour, 3);
    // The news is over at the next look.
    it.look();
    assert!(!it.draw().contains(" extra ┐"));
    assert_eq!(it.colours("!"), []);
}

#[test]
fn what_is_unmapped_flashes() {
    let mut it = Watched::new(small(1, 2), 0, (80, 24));
    it.write(0, 48);
    it.look();
    it.drive().discard(6 * BLOCK, 6 * BLOCK).unwrap();
    it.look();
    assert_data_eq!(it.draw(), file!["data/live/discarded.txt"].raw());
    let pair = it.model.opened().pairs[1];
    assert_eq!((pair.bottom.freed, pair.bottom.used), (6, 0));
}

#[test]
fn tracks_of_a_wide_terminal_lie_over_the_seams() {
    let mut it = Watched::new(small(4, 2), 2, (120, 40));
    it.write(160, 60);
    it.look();
    it.write(220, 1);
    it.write(160, 1);
    it.drive().read(0, 30 * BLOCK).unwrap();
    it.look();
    it.press(&[Command::Focus, Command::Right, Command::Right]);
    assert_data_eq!(it.draw(), file!["data/live/wide.txt"].raw());
}

#[test]
fn many_zones() {
    let mut drive = default(80_000, 2);
    drive.write(65_536 * 40_000 * BLOCK, BLOCK).unwrap();
    drive
        .write(65_536 * 40_001 * BLOCK, 40_000 * BLOCK)
        .unwrap();
    drive
        .write(65_536 * 40_002 * BLOCK, 65_536 * BLOCK)
        .unwrap();
    let mut device = Device::new("x", drive);
    device.set_condition(40_003, Condition::ReadOnly).unwrap();
    device.set_condition(40_004, Condition::Offline).unwrap();
    let drive = std::mem::replace(device.transport(), small(1, 1));
    let mut it = Watched::new(drive, 40_001, (80, 24));
    assert_data_eq!(it.draw(), file!["data/live/many-zones.txt"].raw());
    let last = it.model.map().zones() - 1;
    it.press(&[Command::Last]);
    let text = it.draw();
    assert_eq!(it.model.opened().answer.zone, last);
    assert!(text.contains("Zone 79999: "), "{text}");
    assert!(text.contains("Zones 79936 to 79999 of 80000"), "{text}");
}

#[test]
fn read_only_zones_say_so() {
    let mut device = Device::new("x", small(4, 2));
    device.set_condition(1, Condition::ReadOnly).unwrap();
    let drive = std::mem::replace(device.transport(), small(1, 1));
    let mut it = Watched::new(drive, 1, (80, 24));
    let text = it.draw();
    assert!(text.contains("phase 1 of 2 (bottoms), READ-ONLY"), "{text}");
    assert!(text.contains("[ 1 R    0 %]"), "{text}");
}

#[test]
fn a_small_terminal_is_told_what_is_needed() {
    let mut it = Watched::new(small(4, 2), 0, (40, 6));
    assert_data_eq!(it.draw(), file!["data/live/small.txt"].raw());
    // Nothing is too small to be drawn on.
    for (columns, rows) in [(1, 1), (79, 24), (80, 23), (300, 1)] {
        it.screen.backend_mut().resize(columns, rows);
        it.screen.autoresize().unwrap();
        it.draw();
    }
}

#[test]
fn every_size_and_geometry_can_be_drawn() {
    for (top, bottom, groups) in [
        (1, 1, 1),
        (1, 1, 32_768),
        (4, 6, 8),
        (456, 568, 64),
        (20_000, 45_000, 1),
    ] {
        let geometry = Geometry::new(top, bottom, groups).unwrap();
        let drive = Drive::new(geometry, 300, Allocation::from_phases(2).unwrap()).unwrap();
        let mut it = Watched::new(drive, 299, (80, 24));
        it.write(0, u64::from(geometry.zone_blocks()));
        it.press(&[Command::First, Command::Focus, Command::Last]);
        for (columns, rows) in [(80, 24), (81, 25), (133, 30), (300, 100)] {
            it.screen.backend_mut().resize(columns, rows);
            it.screen.autoresize().unwrap();
            let text = it.draw();
            assert!(text.contains("▲"), "{geometry:?}\n{text}");
            assert!(text.contains("Zone 0: mapped 100 %, full"), "{text}");
        }
    }
}

#[test]
fn the_explanation_and_the_pause() {
    let mut it = Watched::new(small(4, 2), 0, (80, 24));
    it.press(&[Command::Help]);
    assert_data_eq!(it.draw(), file!["data/live/help.txt"].raw());
    // Any key ends it, and does nothing else.
    it.press(&[Command::Right]);
    assert!(!it.model.help());
    assert_eq!(it.model.map().selected(), 0);
    it.press(&[Command::Help, Command::Leave]);
    it.press(&[Command::Pause]);
    assert_data_eq!(it.draw(), file!["data/live/paused.txt"].raw());
    // What comes into sight is read in spite of it, and is no look.
    it.write(80, 10);
    it.press(&[Command::Right]);
    assert!(it.draw().contains("Zone 1: mapped 12.5 %"));
    assert_eq!(it.model.counters().total().host_write_blocks, 0);
    assert_eq!(it.model.command(Command::Leave), Then::Quit);
    it.press(&[Command::Help]);
    assert_eq!(it.model.command(Command::Quit), Then::Quit);
}

#[test]
fn arrows_move_from_zone_to_zone_and_from_track_to_track() {
    // 6 zones in a row.
    let mut it = Watched::new(small(10, 2), 0, (80, 24));
    it.draw();
    for (command, zone) in [
        (Command::Left, 0),
        (Command::Right, 1),
        (Command::Down, 7),
        (Command::Down, 7),
        (Command::Up, 1),
        (Command::Up, 1),
        (Command::Last, 9),
        (Command::Right, 9),
        (Command::Up, 3),
        (Command::Right, 4),
        // There is no zone 10, but a last one.
        (Command::Down, 9),
        (Command::First, 0),
        (Command::PageDown, 9),
        (Command::First, 0),
    ] {
        it.press(&[command]);
        it.draw();
        assert_eq!(it.model.map().selected(), zone, "{command:?}");
        assert_eq!(it.model.opened().answer.zone, zone, "{command:?}");
    }
    it.press(&[Command::Focus]);
    assert_eq!(it.model.focus(), Focus::Tracks);
    for (command, group) in [
        (Command::Left, 0),
        (Command::Right, 1),
        (Command::Last, 7),
        (Command::Right, 7),
        (Command::First, 0),
        (Command::Down, 7),
    ] {
        it.press(&[command]);
        it.draw();
        assert_eq!(it.model.group(), group, "{command:?}");
        assert_eq!(it.model.map().selected(), 0);
    }
}

#[test]
fn pages_of_zones() {
    let mut it = Watched::new(small(1000, 2), 130, (80, 24));
    it.draw();
    let first = |it: &Watched| (it.model.map().first(), it.model.map().selected());
    // A row of 64 zones, moved no further than needed.
    assert_eq!(first(&it), (128, 130));
    for (command, window) in [
        (Command::PageDown, (192, 194)),
        (Command::Up, (128, 130)),
        (Command::Left, (128, 129)),
        (Command::PageUp, (64, 65)),
        (Command::PageUp, (0, 1)),
        (Command::PageUp, (0, 1)),
        (Command::Last, (960, 999)),
        (Command::PageDown, (960, 999)),
        (Command::First, (0, 0)),
    ] {
        it.press(&[command]);
        it.draw();
        assert_eq!(first(&it), window, "{command:?}");
    }
    // On a larger one, 4 rows and one for all of them.
    it.screen.backend_mut().resize(80, 33);
    it.screen.autoresize().unwrap();
    it.press(&[Command::Last]);
    it.draw();
    assert_eq!(it.model.map().shape().rows, 4);
    assert_eq!(first(&it), (768, 999));
}

#[test]
fn the_next_zone_that_is_used() {
    let mut drive = small(1000, 2);
    for zone in [5, 6, 700] {
        drive.write(zone * 80 * BLOCK, BLOCK).unwrap();
    }
    let mut it = Watched::new(drive, 0, (80, 24));
    for zone in [5, 6, 700, 5] {
        it.press(&[Command::NextUsed]);
        it.draw();
        assert_eq!(it.model.map().selected(), zone);
    }
    // There is none.
    let mut it = Watched::new(small(1000, 2), 999, (80, 24));
    it.press(&[Command::NextUsed]);
    it.draw();
    assert_eq!(it.model.map().selected(), 999);
}

#[test]
fn intervals() {
    let mut it = Watched::new(small(1, 2), 0, (80, 24));
    it.press(&[Command::Slower]);
    assert_eq!(it.model.interval(), Duration::from_secs(1));
    it.press(&[Command::Faster, Command::Faster]);
    assert_eq!(it.model.interval(), Duration::from_millis(200));
    assert!(it.draw().contains("every 200ms"));
    it.press(&[Command::Faster; 20]);
    assert_eq!(it.model.interval(), Duration::from_millis(50));
    it.press(&[Command::Slower; 20]);
    assert_eq!(it.model.interval(), Duration::from_secs(60));
}

#[test]
fn counters_grow_and_can_be_reset() {
    let mut it = Watched::new(small(2, 2), 0, (80, 24));
    it.write(0, 80);
    it.look();
    assert_eq!(it.model.counters().since().host_write_blocks, 80);
    // Half a second between two looks.
    assert_eq!(it.model.counters().rate(80), Some(160));
    it.write(0, 6);
    it.look();
    let counters = it.model.counters();
    let (written, extra) = (
        counters.since().host_write_blocks,
        counters.since().extra_write_blocks,
    );
    assert_eq!(written, 6);
    assert!(extra > 0);
    let ratio = (written + extra) as f64 / written as f64;
    it.look();
    let history: Vec<_> = it.model.counters().history().collect();
    assert_eq!(history, [None, Some(ratio), Some(1.0)]);
    it.device.reset_statistics(ALL_ZONES).unwrap();
    it.write(0, 1);
    it.look();
    assert_eq!(it.model.counters().since().host_write_blocks, 1);
    assert_eq!(it.model.opened().since.host_write_blocks, 1);
}

#[test]
fn another_shape_of_the_drive_is_taken_over() {
    let mut it = Watched::new(small(8, 2), 7, (80, 24));
    it.write(7 * 80, 80);
    it.look();
    *it.drive() = Drive::new(
        Geometry::new(2, 3, 4).unwrap(),
        4,
        Allocation::from_phases(3).unwrap(),
    )
    .unwrap();
    it.look();
    let text = it.draw();
    assert_eq!(it.model.problem(), None);
    assert_eq!(it.model.opened().answer.zone, 3);
    assert_eq!(it.model.opened().pairs.len(), 4);
    // What went is no news: it was of another zone.
    assert!(it
        .model
        .opened()
        .pairs
        .iter()
        .all(|pair| pair.bottom.freed == 0));
    assert!(text.contains("in 4 zones, 3-phase"), "{text}");
}

/// A drive that notes what is asked of it, and may refuse.
struct Noted {
    drive: Drive,
    asked: Arc<Mutex<Vec<Request>>>,
    refuses: bool,
}

impl Transport for Noted {
    fn call(&mut self, request: Request, buf: &mut [u8]) -> io::Result<()> {
        if self.refuses {
            return Err(io::Error::from_raw_os_error(11));
        }
        self.asked.lock().unwrap().push(request);
        self.drive.call(request, buf)
    }
}

fn noted(zones: u64) -> Device<Noted> {
    Device::new(
        "/dev/mapper/imrsim",
        Noted {
            drive: default(zones, 2),
            asked: Arc::default(),
            refuses: false,
        },
    )
}

#[test]
fn of_many_zones_only_those_in_sight_are_asked_for() {
    let mut device = noted(80_000);
    let mut model = Model::new(&mut device, &Options::default()).unwrap();
    model.arrange(view::shape(Rect::new(0, 0, 80, 24), 80_000));
    model.catch_up(&mut device);
    assert_eq!(model.map().end(), 64);
    device.transport().asked.lock().unwrap().clear();
    model.look(&mut device, no_rewrites(), TICK);
    let asked = std::mem::take(&mut *device.transport().asked.lock().unwrap());
    assert_eq!(
        asked[..3],
        [
            Request::GetConfig,
            Request::GetStatistics,
            Request::ReportZones
        ]
    );
    // The overview goes on with a few of them.
    assert_eq!(asked[3..19], [Request::ReportZones; 16]);
    assert_eq!(asked[19..], [Request::GetSnapshot]);
    // Drawing again asks nothing.
    model.catch_up(&mut device);
    assert_eq!(device.transport().asked.lock().unwrap().len(), 0);
}

#[test]
fn a_drive_that_does_not_answer_for_a_while() {
    let mut device = noted(8);
    let mut model = Model::new(&mut device, &Options::default()).unwrap();
    device.transport().refuses = true;
    model.look(&mut device, no_rewrites(), TICK);
    let mut screen = Terminal::new(TestBackend::new(80, 24)).unwrap();
    screen.draw(|frame| view::draw(frame, &model)).unwrap();
    let text = screen.backend().to_string();
    assert!(text.contains(" NO ANSWER "), "{text}");
    assert!(
        text.contains("/dev/mapper/imrsim is suspended: 'dmsetup resume' lets it go on"),
        "{text}"
    );
    device.transport().refuses = false;
    model.look(&mut device, no_rewrites(), TICK * 2);
    assert_eq!(model.problem(), None);
    // As does whoever tells of rewrites.
    model.look(&mut device, Err(anyhow::anyhow!("no trace")), TICK * 3);
    assert_eq!(model.problem(), Some("no trace"));
}

#[test]
fn what_is_wrong_from_the_beginning() {
    let mut device = noted(8);
    let options = Options {
        zone: 8,
        ..Options::default()
    };
    let error = Model::new(&mut device, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/dev/mapper/imrsim has no zone 8, only 0 to 7"
    );
    device.transport().refuses = true;
    assert!(Model::new(&mut device, &Options::default()).is_err());
}

#[test]
fn the_selection_can_be_seen_without_colours() {
    let mut it = Watched::new(small(100, 2), 70, (80, 24));
    it.draw();
    assert_eq!(it.screen.backend().to_string().matches('◆').count(), 1);
}

/// One look at a drive of 200 zones, three of which are used.
fn printed(style: Style) -> String {
    let mut device = Device::new("/dev/mapper/imrsim", small(200, 2));
    let drive = device.transport();
    drive.write(0, 80 * BLOCK).unwrap();
    drive.write(0, BLOCK).unwrap();
    drive.write(80 * 3 * BLOCK, 55 * BLOCK).unwrap();
    drive.write(80 * 199 * BLOCK, BLOCK).unwrap();
    device.set_condition(5, Condition::ReadOnly).unwrap();
    device.set_condition(6, Condition::Offline).unwrap();
    let options = Options {
        zone: 3,
        ..Options::default()
    };
    let mut out = Vec::new();
    plain::print(&mut device, &options, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn one_look_as_text() {
    assert_data_eq!(printed(Style::Text), file!["data/live/plain.txt"].raw());
}

#[test]
fn one_look_as_json() {
    let look: serde_json::Value = serde_json::from_str(&printed(Style::Json)).unwrap();
    assert_eq!(look["device"], "/dev/mapper/imrsim");
    assert_eq!(look["phases"], 2);
    assert_eq!(look["capacity_bytes"], 200 * 80 * BLOCK);
    assert_eq!(look["total"]["host_write_blocks"], 137);
    assert_eq!(look["zones"].as_array().unwrap().len(), 200);
    assert_eq!(look["zones"][6]["condition"], "offline");
    let opened = &look["opened"];
    assert_eq!((&opened["zone"], &opened["phase"]), (&3.into(), &2.into()));
    assert_eq!(opened["mapped_blocks"], 55);
    assert_eq!(opened["statistics"]["zone"], 3);
    let tracks = opened["tracks"].as_array().unwrap();
    assert_eq!(tracks.len(), 8);
    let used =
        |name: &str| -> Vec<u64> { tracks.iter().map(|it| it[name].as_u64().unwrap()).collect() };
    assert_eq!(used("bottom_used_blocks"), [6; 8]);
    assert_eq!(used("top_used_blocks"), [4, 3, 0, 0, 0, 0, 0, 0]);
}
