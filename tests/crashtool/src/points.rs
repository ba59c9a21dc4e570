// SPDX-License-Identifier: GPL-2.0-only

//! Crash points of a recording, each checked; damage done to some of them; images of others.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use imrsim_core::ondisk::{Disk, LoadError, Refusal, Superblock};
use imrsim_core::Layout;

use crate::content::{Random, Tag, SECTOR};
use crate::drive::{recover, Drive, Failure};
use crate::log::Entry;
use crate::ops::Op;
use crate::oracle::Oracle;
use crate::platter::{Cursor, Recording, State};

/// Failures that are shown.
const SHOWN: usize = 20;

/// What came of all crash points together.
#[derive(Default)]
pub struct Tally {
    /// States of the device that were looked at.
    pub points: u64,
    /// Those that are prefixes of the recording.
    pub prefixes: u64,
    /// Those right behind the mark of something that is promised.
    pub marks: u64,
    /// Those on which there was no drive yet.
    pub blank: u64,
    /// Those where the journal ended in the middle of a batch, or one copy of an entry was used.
    pub torn: u64,
    /// Damaged ones that came back.
    pub accepted: u64,
    /// Damaged ones that did not, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// How many were good or not by recovery, and what `imrsim_util check` ended with.
    pub checked: BTreeMap<(bool, i32), u64>,
    /// The most entries in the journal.
    pub longest: u64,
    /// Sectors promised at the end.
    pub promises: usize,
    /// Those promised to be zeros.
    pub zeros: usize,
    /// Discards that were begun.
    pub discards: usize,
    /// What went wrong.
    pub failures: Vec<String>,
    /// How often something went wrong.
    pub failed: u64,
}

impl Tally {
    /// Something went wrong.
    pub fn fail(&mut self, text: String) {
        self.failed += 1;
        if self.failures.len() < SHOWN {
            self.failures.push(text);
        }
    }
}

/// A crash point, and what is known of it.
struct Point<'a> {
    state: State<'a>,
    name: String,
    /// Whether the device is known to be formatted.
    formatted: bool,
}

/// Goes through a recording from its beginning, with what is promised.
pub struct Walk<'a> {
    /// Where it is.
    pub cursor: Cursor<'a>,
    oracle: Oracle,
    formatted: bool,
    /// Whether the last step was a mark of something that is promised.
    at_mark: bool,
    /// The last mark that is not about a request.
    mark: String,
}

impl<'a> Walk<'a> {
    /// Begins before the first entry.
    pub fn new(recording: &'a Recording, ops: &[Op], layout: &Layout) -> Self {
        Self {
            cursor: Cursor::new(recording),
            oracle: Oracle::new(ops, layout.data_sectors()),
            formatted: false,
            at_mark: false,
            mark: "none".to_owned(),
        }
    }

    /// Goes on behind the next entry; false at the end.
    pub fn step(&mut self) -> bool {
        let Some(entry) = self.cursor.step() else {
            return false;
        };
        self.at_mark = false;
        if let Entry::Mark(name) = entry {
            self.at_mark = true;
            let time = |kind| name.strip_prefix(kind).map(str::parse);
            match (time('t'), time('b')) {
                (Some(Ok(time)), _) => self.oracle.reach(time),
                (_, Some(Ok(time))) => {
                    self.oracle.begin(time);
                    self.at_mark = false;
                }
                // The target's own.
                _ if name == "dm-log-writes-end" => self.at_mark = false,
                _ => {
                    self.mark.clone_from(name);
                    self.formatted |= name == "formatted";
                    // Everything was stopped in good order.
                    if name == "end" {
                        self.oracle.reach_end();
                    }
                }
            }
        }
        true
    }

    fn point(&self, state: State<'a>, name: String) -> Point<'a> {
        Point {
            state,
            name,
            formatted: self.formatted,
        }
    }

    fn prefix(&self) -> Point<'a> {
        let name = format!("prefix {}", self.cursor.position());
        self.point(self.cursor.prefix(), name)
    }
}

/// Looks at one point.
fn check(point: &Point<'_>, layout: &Layout, oracle: &Oracle, tally: &mut Tally) -> Option<Drive> {
    tally.points += 1;
    let name = &point.name;
    match recover(&point.state, layout) {
        Ok(mut drive) => {
            let found = drive.tags(&point.state);
            if let Err(text) = oracle.check(&found) {
                tally.fail(format!("{name}: {text}"));
            }
            tally.torn += u64::from(drive.replayed.dropped + drive.replayed.single_copies > 0);
            tally.longest = tally.longest.max(drive.replayed.entries);
            return Some(drive);
        }
        Err(LoadError::Refused(Refusal::Blank)) if !point.formatted => tally.blank += 1,
        Err(error) => tally.fail(format!("{name}: {error}")),
    }
    None
}

/// Looks at every prefix of a recording, and at `variants` other states that a crash can leave
/// behind there.
pub fn all(recording: &Recording, ops: &[Op], layout: &Layout, variants: u64, seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut walk = Walk::new(recording, ops, layout);
    let mut random = Random::new(seed);
    loop {
        let at = walk.cursor.position();
        tally.prefixes += 1;
        tally.marks += u64::from(walk.at_mark);
        check(&walk.prefix(), layout, &walk.oracle, &mut tally);
        for variant in 0..variants {
            let state = walk.cursor.cut(&mut random, 0);
            let point = walk.point(state, format!("before entry {at}, state {variant}"));
            check(&point, layout, &walk.oracle, &mut tally);
        }
        if !walk.step() {
            break;
        }
    }
    if !walk.formatted {
        tally.fail("the recording has no mark 'formatted'".to_owned());
    }
    tally.promises = walk.oracle.promises();
    tally.zeros = walk.oracle.promises_of_zeros();
    tally.discards = walk.oracle.begun();
    tally
}

/// Goes on until the device is formatted, and chooses places behind that, the last one included.
pub fn choose(
    walk: &mut Walk<'_>,
    recording: &Recording,
    count: u64,
    random: &mut Random,
) -> Vec<usize> {
    while !walk.formatted && walk.step() {}
    let (first, end) = (walk.cursor.position(), recording.entries.len());
    let any = |_| first + random.below((end - first) as u64) as usize;
    let mut chosen: Vec<usize> = (1..count).map(any).collect();
    chosen.push(end);
    chosen.sort_unstable();
    chosen
}

/// Ways to damage metadata.
const WAYS: u64 = 9;
/// Those of them that an image can have.
pub const WAYS_OF_IMAGES: u64 = WAYS - 1;

/// What has another copy than the damaged one.
pub enum Copies {
    /// Nothing, or it is not known.
    None,
    /// An entry.
    OfEntry,
    /// Of the superblock, and of whatever else was damaged.
    OfSuperblock,
}

/// One way to damage metadata. Says what it was, and whether there is another copy of it.
pub fn damage(
    state: &mut State<'_>,
    drive: &Drive,
    random: &mut Random,
    ways: u64,
) -> (String, Copies) {
    let layout = &drive.layout;
    let superblock = |copy: u64| {
        (
            layout.superblock(copy).unwrap_or(0),
            layout.superblock_sectors(),
        )
    };
    let ring = layout.ring();
    let (tail, head) = (drive.superblock.tail, drive.replayed.head);
    let any_zone = random.below(layout.zones());
    let slot = |slot: u64| {
        (
            layout.slot(any_zone, slot).unwrap_or(0),
            layout.slot_sectors(),
        )
    };
    let counting = drive.slots[any_zone as usize].unwrap_or(0);
    // What to damage: ranges of sectors.
    let kind = random.below(13);
    let (name, ranges) = match kind {
        0 => ("a superblock", vec![superblock(random.below(2))]),
        1 => ("both superblocks", vec![superblock(0), superblock(1)]),
        2 => {
            let sequence = tail + random.below(head - tail + 2);
            let copy = random.below(2) * 8;
            (
                "a copy of an entry",
                vec![(ring.sector_of(sequence) + copy, 8)],
            )
        }
        3 => {
            let sequence = tail + random.below(head - tail + 2);
            let first = ring.sector_of(sequence);
            ("both copies of an entry", vec![(first, 8), (first + 8, 8)])
        }
        4 => {
            let first = ring.sector_of(head.saturating_sub(1));
            ("the last entry", vec![(first, 8), (first + 8, 8)])
        }
        5 => (
            "the journal",
            vec![(layout.journal(), layout.journal_sectors())],
        ),
        6 => ("the slot that counts", vec![slot(counting)]),
        7 => ("the header that counts", vec![(slot(counting).0, 8)]),
        8 => ("the other slot", vec![slot(1 - counting)]),
        9 => ("both slots", vec![slot(0), slot(1)]),
        11 => {
            // Of each of two things one copy.
            let sequence = tail + random.below(head - tail + 2);
            let copy = random.below(2) * 8;
            let entry = (ring.sector_of(sequence) + copy, 8);
            (
                "a superblock and a copy of an entry",
                vec![superblock(random.below(2)), entry],
            )
        }
        10 => ("both headers", vec![(slot(0).0, 8), (slot(1).0, 8)]),
        _ => (
            "all metadata",
            vec![(layout.data_sectors(), layout.metadata_sectors())],
        ),
    };
    let times = if random.once_in(3) {
        1 + random.below(4)
    } else {
        1
    };
    let mut how = "";
    for _ in 0..times {
        for (first, sectors) in &ranges {
            let mut sector = first + random.below(*sectors);
            let at = random.below(SECTOR as u64) as usize;
            let noise = random.next();
            let way = random.below(ways);
            how = match way {
                0..3 => "a bit",
                3 => "a byte",
                4 => "zeros",
                5 => "ones",
                6 => "noise",
                8 => "an unreadable sector",
                _ => "a block of noise",
            };
            let mut count = 1;
            if way == 7 {
                sector -= sector % 8;
                count = 8;
            }
            if way == 8 {
                state.break_sector(sector);
                continue;
            }
            for sector in sector..sector + count {
                state.damage(sector, |bytes| match way {
                    0..3 => bytes[at] ^= 1 << (noise % 8),
                    3 => bytes[at] ^= (1 + noise % 255) as u8,
                    4 => bytes.fill(0),
                    5 => bytes.fill(0xff),
                    _ => {
                        let mut random = Random::new(noise ^ sector);
                        bytes.fill_with(|| random.next() as u8);
                    }
                });
            }
        }
    }
    let copies = match kind {
        0 | 11 => Copies::OfSuperblock,
        2 => Copies::OfEntry,
        _ => Copies::None,
    };
    (format!("{name}, {times} x {how}"), copies)
}

/// Damages metadata at `count` states of a recording, `times` times each: it must come back right,
/// or be refused.
pub fn corrupt(
    recording: &Recording,
    ops: &[Op],
    layout: &Layout,
    (count, times): (u64, u64),
    seed: u64,
) -> Tally {
    let mut tally = Tally::default();
    let mut random = Random::new(seed);
    let mut walk = Walk::new(recording, ops, layout);
    let chosen = choose(&mut walk, recording, count, &mut random);
    let mut single = 0;
    for at in chosen {
        while walk.cursor.position() < at && walk.step() {}
        let mut point = walk.prefix();
        let Some(drive) = check(&point, layout, &walk.oracle, &mut tally) else {
            continue;
        };
        // While one copy of the superblock is written there is only the other.
        let spare = (0..2).all(|copy| has_superblock(&point.state, layout, copy));
        single += u64::from(!spare);
        for _ in 0..times {
            let (what, copies) = damage(&mut point.state, &drive, &mut random, WAYS);
            let copied = match copies {
                Copies::None => false,
                Copies::OfEntry => true,
                Copies::OfSuperblock => spare,
            };
            match recover(&point.state, layout) {
                Ok(mut drive) => {
                    tally.accepted += 1;
                    if let Err(text) = walk.oracle.check(&drive.tags(&point.state)) {
                        tally.fail(format!("{}, damaged: {what}: {text}", point.name));
                    }
                }
                Err(Failure::Refused(refusal)) if copied => {
                    tally.fail(format!("{}, damaged: {what}: {refusal}", point.name));
                }
                Err(Failure::Refused(refusal)) => {
                    *tally.refused.entry(refusal.name()).or_default() += 1;
                }
                Err(Failure::Io(error)) if copied => {
                    tally.fail(format!("{}: {what}: {error}", point.name));
                }
                Err(Failure::Io(_)) => *tally.refused.entry("unreadable").or_default() += 1,
            }
            point.state.heal();
        }
    }
    if single > count / 20 {
        tally.fail(format!(
            "{single} of {count} states have one superblock only"
        ));
    }
    tally
}

/// Whether a copy of the superblock is whole.
fn has_superblock(state: &State<'_>, layout: &Layout, copy: u64) -> bool {
    let mut bytes = vec![0; layout.superblock_sectors() as usize * SECTOR];
    let mut disk = state;
    let start = layout.superblock(copy).unwrap_or(0);
    disk.read(start, &mut bytes).is_ok()
        && Superblock::decode(&bytes, &mut vec![0; layout.map_words()]).is_ok()
}

/// Where images go, and how many.
pub struct Samples<'a> {
    /// A file for the images, one behind the other.
    pub images: &'a Path,
    /// Sectors from one to the next.
    pub stride: u64,
    /// A file for what each sector of each drive must hold.
    pub expected: Option<&'a Path>,
    /// A file for the last mark before each that is not about a request.
    pub marks: Option<&'a Path>,
    /// A file for what is to become of each that is damaged; without it none is.
    pub outcomes: Option<&'a Path>,
    /// How many.
    pub count: u64,
}

/// Writes images of states of a recording, with what the drive must hold there.
pub fn sample(
    recording: &Recording,
    ops: &[Op],
    layout: &Layout,
    samples: &Samples<'_>,
    seed: u64,
) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut random = Random::new(seed);
    // A third of them where the journal is fullest, the others anywhere behind the formatting.
    let mut formatted = 0;
    let mut longest: Vec<(u64, usize)> = Vec::new();
    let mut walk = Walk::new(recording, ops, layout);
    loop {
        if walk.formatted {
            if let Ok(drive) = recover(&walk.cursor.prefix(), layout) {
                longest.push((drive.replayed.entries, walk.cursor.position()));
            }
        } else {
            formatted = walk.cursor.position() + 1;
        }
        if !walk.step() {
            break;
        }
    }
    longest.sort_unstable_by_key(|(entries, _)| std::cmp::Reverse(*entries));
    let room = recording.entries.len().saturating_sub(formatted) as u64;
    let mut chosen: Vec<usize> = longest
        .iter()
        .step_by(7)
        .take(samples.count as usize / 3)
        .map(|(_, at)| *at)
        .collect();
    while (chosen.len() as u64) < samples.count {
        chosen.push(formatted + random.below(room + 1) as usize);
    }
    chosen.sort_unstable();

    let images = File::create(samples.images)?;
    let expected = samples.expected.map(File::create).transpose()?;
    let mut marks = String::new();
    let mut outcomes = String::new();
    images.set_len(samples.count * samples.stride * SECTOR as u64)?;
    // A file system counts on a physical sector, its superblock say, not being torn; the drive says
    // that those have 4 KiB.
    let untorn = samples.marks.map_or(0, |_| layout.data_sectors());
    let mut walk = Walk::new(recording, ops, layout);
    for (index, at) in chosen.into_iter().enumerate() {
        while walk.cursor.position() < at && walk.step() {}
        let state = match random.below(3) {
            0 => walk.cursor.prefix(),
            _ => walk.cursor.cut(&mut random, untorn),
        };
        let mut point = walk.point(state, format!("image {index}, before entry {at}"));
        let drive = check(&point, layout, &walk.oracle, &mut tally);
        if let (Some(drive), Some(_)) = (&drive, samples.outcomes) {
            let (what, _) = damage(&mut point.state, drive, &mut random, WAYS_OF_IMAGES);
            let outcome = match recover(&point.state, layout) {
                Ok(_) => "right",
                Err(Failure::Refused(refusal)) => refusal.name(),
                Err(Failure::Io(_)) => "error",
            };
            outcomes += &format!("{outcome} {what}\n");
        }
        let first = index as u64 * samples.stride;
        for sector in (0..point.state.sectors()).filter(|at| !point.state.is_hole(*at)) {
            images.write_all_at(point.state.sector(sector), (first + sector) * SECTOR as u64)?;
        }
        marks += &format!("{}\n", walk.mark);
        if let (Some(mut drive), Some(expected)) = (drive, &expected) {
            let tags = drive.tags(&point.state);
            let versions = tags
                .iter()
                .map(|tag: &Tag| tag.parts().map_or(0, |it| it.1));
            let bytes: Vec<u8> = versions.flat_map(u32::to_le_bytes).collect();
            expected.write_all_at(&bytes, index as u64 * layout.data_sectors() * 4)?;
        }
    }
    if let Some(path) = samples.outcomes {
        fs::write(path, outcomes)?;
    }
    if let Some(path) = samples.marks {
        fs::write(path, marks)?;
    }
    Ok(tally)
}

/// Writes what the drive holds in some states to files of their own in `directory`, as the host would
/// read it. Their names end with the last mark before. Physical sectors, of 4 KiB, are not torn: a
/// file system counts on that.
pub fn extract(
    recording: &Recording,
    layout: &Layout,
    directory: &Path,
    count: u64,
    seed: u64,
) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut random = Random::new(seed);
    let mut walk = Walk::new(recording, &[], layout);
    let chosen = choose(&mut walk, recording, count, &mut random);
    for (index, at) in chosen.into_iter().enumerate() {
        while walk.cursor.position() < at && walk.step() {}
        let state = match random.below(3) {
            0 => walk.cursor.prefix(),
            _ => walk.cursor.cut(&mut random, layout.data_sectors()),
        };
        tally.points += 1;
        match recover(&state, layout) {
            Ok(mut drive) => {
                let file = File::create(directory.join(format!("{index:04}-{at}-{}", walk.mark)))?;
                file.set_len(layout.data_sectors() * SECTOR as u64)?;
                for (place, lba) in drive.places().into_iter().zip(0..) {
                    if let Some(place) = place {
                        file.write_all_at(state.sector(place), lba * SECTOR as u64)?;
                    }
                }
            }
            Err(error) => tally.fail(format!("before entry {at}: {error}")),
        }
    }
    Ok(tally)
}
