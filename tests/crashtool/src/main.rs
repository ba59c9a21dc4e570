// SPDX-License-Identifier: GPL-2.0-only

//! Crash points of a recorded workload: what was promised must be there at each of them.

mod check;
mod content;
mod device;
#[path = "../../iotool/src/discard.rs"]
mod discard;
mod drive;
mod full;
mod log;
mod ops;
mod oracle;
mod platter;
mod points;
mod write;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use content::{Tag, SECTOR};
use device::{Buffer, Device};
use imrsim_core::{ondisk, Geometry, Layout};
use ops::Op;
use platter::Recording;
use points::{Samples, Tally};

const HELP: &str = "\
Usage: imrsim-crashtool COMMAND ARGUMENT... [--OPTION VALUE]...

In the guest, on a drive:
  write DEVICE        writes sectors that can be told apart
      --ops FILE      where to note what was done (a raw device will do)
      --mark COMMAND  run after what is promised with 't' and a time behind it, before a
                      discard with 'b' and its time, as in 'dmsetup message log 0 mark'
      --threads T [4] --requests N [100] of each --seconds S --flushes PER_MILLE [50]
      --durable PER_MILLE [50] --discards PER_MILLE [50] --longest SECTORS [64] --piece SECTORS [128] --count SECTORS
      --first TIME [1] of the clock, behind that of an earlier run --seed N [1]
      --errors 1      failed requests are noted and allowed
      --print 1       prints each request that has ended; --ops may be left out
  expect DEVICE FILE  what each sector must hold, as 'sample' has written it
      --index N [0]   of which image
      --errors 1      what cannot be read is allowed
  patch DEVICE        changes a header of the metadata, and makes its checksum right
      --sector N --offset BYTE --value N --bytes N [4]
  full DEVICE         writes the metadata of a drive of which every block is mapped, in each zone in reverse order,
                      to a device of zeros or to a file, which is made as long as it must be
      --zones N [4] --top N [456] --bottom N [568] --groups N [64]
      --journal PERCENT of its entries were left by a crash; without it, the drive was stopped in good order
  verify DEVICE       what 'write' has promised, at its end
      --ops FILE[,FILE]...
      --end 1         all that had ended was promised, as by a stop in good order
      --round TIME    the power has failed before each multiple of this
      --open 1        there may be later writes, of which FILE does not know, but no discards

On the host, from a log of dm-log-writes for a device of zeros:
  points LOG          looks at every prefix, and at other states that a crash can leave behind
      --variants N [1] of those for each
  corrupt LOG         damages metadata: right, or refused
      --states N [50] --times N [200] for each
  check LOG           whether 'imrsim_util check' says of states, and of damaged ones, what must come
                      of them
      --util PROGRAM --image FILE --states N [50] --times N [50] for each
  sample LOG          writes images of some states
      --images FILE --stride SECTORS --count N [20], and what the drives must hold: --expected FILE,
      or the last mark before: --marks FILE. With --outcomes FILE each is damaged, and what must come
      of it goes there: 'right', or the name of the refusal, and what was damaged
  extract LOG         writes what a drive with a file system holds at some states
      --directory DIR --count N [20]
  with --ops FILE[,FILE]... --zones N [4] --top N [57] --bottom N [71] --groups N [8] --seed N [1]

Exit codes: 0 good, 1 a promise was broken, 2 wrong usage, 3 an I/O error.
";

/// Why a command did not end well.
enum Failure {
    Usage(String),
    Io(io::Error),
    Wrong(String),
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Usage(text)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The options of a command line.
struct Options(BTreeMap<String, String>);

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut given = BTreeMap::new();
        for pair in args.chunks(2) {
            match pair {
                [name, value] if name.starts_with("--") => {
                    given.insert(name[2..].to_owned(), value.clone());
                }
                _ => return Err(format!("expected --OPTION VALUE at '{}'", pair[0])),
            }
        }
        Ok(Self(given))
    }

    fn text(&mut self, name: &str) -> Result<String, String> {
        self.0
            .remove(name)
            .ok_or_else(|| format!("--{name} is needed"))
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str, default: T) -> Result<T, String> {
        match self.0.remove(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| format!("--{name} {text}: not such a number")),
        }
    }

    fn finish(self) -> Result<(), String> {
        match self.0.keys().next() {
            Some(name) => Err(format!("unknown option --{name}")),
            None => Ok(()),
        }
    }
}

fn ops(options: &mut Options) -> Result<Vec<Op>, Failure> {
    let Some(names) = options.0.remove("ops") else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for name in names.split(',') {
        let bytes = fs::read(name)?;
        all.extend(ops::from_bytes(&bytes).map_err(|text| format!("{name}: {text}"))?);
    }
    Ok(all)
}

fn write(device: &Path, mut options: Options) -> Result<(), Failure> {
    let device = Device::open(device)?;
    let sectors = device.sectors()? as u32;
    let print = options.number("print", 0)? != 0;
    let output = options.0.remove("ops");
    if output.is_none() && !print {
        return Err("--ops is needed".to_owned().into());
    }
    let seconds = options.number("seconds", 0)?;
    let work = write::Work {
        sectors: options.number("count", sectors)?,
        piece: options.number("piece", 128)?,
        threads: options.number("threads", 4)?,
        requests: options.number("requests", 100)?,
        time: (seconds > 0).then(|| Duration::from_secs(seconds)),
        flushes: options.number("flushes", 50)?,
        durable: options.number("durable", 50)?,
        discards: options.number("discards", 50)?,
        longest: options.number("longest", 64)?,
        first: options.number("first", 1)?,
        seed: options.number("seed", 1)?,
        mark: options
            .0
            .remove("mark")
            .map(|text| text.split(' ').map(str::to_owned).collect()),
        errors: options.number("errors", 0)? != 0,
        print,
    };
    options.finish()?;
    let room = work.piece.min(work.sectors);
    if work.threads == 0 || room < 8 || work.sectors / work.piece < work.threads {
        return Err("there are fewer pieces than threads".to_owned().into());
    }
    let ops = write::run(&device, &work)?;
    let failed = ops.iter().filter(|op| match op {
        Op::Write { done, .. } | Op::Discard { done, .. } | Op::Flush { done, .. } => {
            done.is_none()
        }
    });
    println!("{} requests, {} failed", ops.len(), failed.count());
    let Some(output) = output else {
        return Ok(());
    };
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(output)?;
    file.write_all(ops::to_text(&ops).as_bytes())?;
    file.sync_data()?;
    Ok(())
}

/// Changes a number in a header, and its checksum.
fn patch(device: &Path, mut options: Options) -> Result<(), Failure> {
    const CHECKSUM: usize = 508;
    let at = options.number("sector", 0)? * SECTOR as u64;
    let (offset, bytes) = (options.number("offset", 0)?, options.number("bytes", 4)?);
    let value: u64 = options.number("value", 0)?;
    options.finish()?;
    if bytes > 8 || offset + bytes > CHECKSUM {
        return Err("this is not in the header".to_owned().into());
    }
    let file = fs::OpenOptions::new().read(true).write(true).open(device)?;
    let mut block: ondisk::Block = [0; 4096];
    file.read_exact_at(&mut block, at)?;
    block[offset..offset + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    let crc = ondisk::Crc::new().update(&block[..CHECKSUM]);
    let crc = crc.update(&block[CHECKSUM + 4..]).value();
    block[CHECKSUM..CHECKSUM + 4].copy_from_slice(&crc.to_le_bytes());
    file.write_all_at(&block, at)?;
    Ok(file.sync_data()?)
}

/// The layout that the options say.
fn layout(options: &mut Options, [top, bottom, groups]: [u32; 3]) -> Result<Layout, Failure> {
    let geometry = Geometry::new(
        options.number("top", top)?,
        options.number("bottom", bottom)?,
        options.number("groups", groups)?,
    )
    .map_err(|error| format!("{error:?}"))?;
    match Layout::new(&geometry, options.number("zones", 4)?) {
        Some(layout) if layout.zones() > 0 => Ok(layout),
        _ => Err("so many zones cannot be".to_owned().into()),
    }
}

fn full(device: &Path, mut options: Options) -> Result<(), Failure> {
    let layout = layout(&mut options, [456, 568, 64])?;
    let journal = match options.0.remove("journal") {
        None => None,
        Some(text) => match text.parse() {
            Ok(percent @ 0..=100) => Some(layout.journal_entries() * percent / 100),
            _ => return Err(format!("--journal {text}: not a percentage").into()),
        },
    };
    options.finish()?;
    let records = full::write(device, &layout, journal)?;
    println!("{} zones, {records} records in the journal", layout.zones());
    Ok(())
}

/// What each sector of a device holds. What cannot be read is left out, if that is allowed.
fn read_tags(device: &Path, errors: bool, mut each: impl FnMut(u32, Tag)) -> io::Result<()> {
    const PIECE: u32 = 512;
    let mut file = device::open_to_read(device)?;
    let mut buffer = Buffer::new(PIECE);
    let end = file.seek(SeekFrom::End(0))?;
    let mut at = 0;
    while at < end {
        // After an error, sector by sector.
        let mut step = u64::from(PIECE) * SECTOR as u64;
        for attempt in [step.min(end - at), SECTOR as u64] {
            step = attempt;
            let sectors = (step / SECTOR as u64) as u32;
            match file.read_exact_at(buffer.sectors(sectors), at) {
                Ok(()) => {
                    let bytes = buffer.sectors(sectors).chunks_exact(SECTOR);
                    for (bytes, lba) in bytes.zip((at / SECTOR as u64) as u32..) {
                        each(lba, Tag::of(bytes));
                    }
                    break;
                }
                Err(error) if !errors => return Err(error),
                Err(_) => {}
            }
        }
        at += step;
    }
    Ok(())
}

fn expect(device: &Path, expected: &str, mut options: Options) -> Result<(), Failure> {
    let index: usize = options.number("index", 0)?;
    let errors = options.number("errors", 0)? != 0;
    options.finish()?;
    let all = fs::read(expected)?;
    let end = device::open_to_read(device)?.seek(SeekFrom::End(0))?;
    let sectors = end as usize / SECTOR;
    let expected = all
        .get(index * sectors * 4..(index + 1) * sectors * 4)
        .ok_or_else(|| format!("{expected} has nothing about image {index}"))?;
    let mut wrong = Vec::new();
    let mut written = 0;
    read_tags(device, errors, |lba, found| {
        let mut version = [0; 4];
        version.copy_from_slice(&expected[lba as usize * 4..][..4]);
        let right = match u32::from_le_bytes(version) {
            0 => Tag::ZEROS,
            version => Tag::new(lba, version),
        };
        written += u32::from(right != Tag::ZEROS);
        if found != right {
            wrong.push(format!("sector {lba} holds {found}, not {right}"));
        }
    })?;
    println!("{sectors} sectors, {written} of them written");
    match wrong.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Wrong(format!(
            "{first}; {} sectors are wrong",
            wrong.len()
        ))),
    }
}

fn verify(device: &Path, mut options: Options) -> Result<(), Failure> {
    let ops = ops(&mut options)?;
    let end = options.number("end", 0)? != 0;
    let open = options.number("open", 0)? != 0;
    let round = options.number("round", u32::MAX)?.max(1);
    options.finish()?;
    let mut found = Vec::new();
    read_tags(device, false, |_, tag| found.push(tag))?;
    let mut oracle = oracle::Oracle::new(&ops, found.len() as u64);
    oracle.rounds(round);
    // All that is known was begun.
    oracle.begin_all();
    if open {
        oracle.allow_later();
    }
    if end {
        oracle.reach_end();
    } else {
        oracle.reach(u32::MAX);
    }
    oracle.check(&found).map_err(Failure::Wrong)?;
    println!(
        "{} promises kept, {} of zeros",
        oracle.promises(),
        oracle.promises_of_zeros()
    );
    Ok(())
}

fn host(command: &str, log: &Path, mut options: Options) -> Result<(), Failure> {
    let begin = Instant::now();
    let ops = ops(&mut options)?;
    let layout = layout(&mut options, [57, 71, 8])?;
    let seed = options.number("seed", 1)?;
    let recording =
        Recording::new(fs::read(log)?, layout.total_sectors()).map_err(Failure::Wrong)?;
    let tally = match command {
        "points" => {
            let variants = options.number("variants", 1)?;
            options.finish()?;
            points::all(&recording, &ops, &layout, variants, seed)
        }
        "corrupt" => {
            let counts = (options.number("states", 50)?, options.number("times", 200)?);
            options.finish()?;
            points::corrupt(&recording, &ops, &layout, counts, seed)
        }
        "check" => {
            let (util, path) = (options.text("util")?, options.text("image")?);
            let image = check::Image {
                util: util.as_ref(),
                path: path.as_ref(),
            };
            let counts = (options.number("states", 50)?, options.number("times", 50)?);
            options.finish()?;
            check::check(&recording, &ops, &layout, &image, counts, seed)?
        }
        "sample" => {
            let images = options.text("images")?;
            let mut file = |name| options.0.remove(name);
            let (expected, marks, outcomes) = (file("expected"), file("marks"), file("outcomes"));
            let samples = Samples {
                images: images.as_ref(),
                stride: options.number("stride", layout.total_sectors().next_multiple_of(2048))?,
                expected: expected.as_deref().map(Path::new),
                marks: marks.as_deref().map(Path::new),
                outcomes: outcomes.as_deref().map(Path::new),
                count: options.number("count", 20)?,
            };
            options.finish()?;
            points::sample(&recording, &ops, &layout, &samples, seed)?
        }
        _ => {
            let directory = options.text("directory")?;
            let count = options.number("count", 20)?;
            options.finish()?;
            points::extract(&recording, &layout, directory.as_ref(), count, seed)?
        }
    };
    report(&recording, &tally, begin.elapsed());
    match tally.failed {
        0 => Ok(()),
        failed => Err(Failure::Wrong(format!("{failed} points are wrong"))),
    }
}

fn report(recording: &Recording, tally: &Tally, time: Duration) {
    println!(
        "{} entries; {} points in {:.1} s: {} prefixes, {} marks, {} not formatted yet, {} torn; \
         {} entries in the journal at most; {} sectors promised at the end, {} of them zeros by \
         {} discards",
        recording.entries.len(),
        tally.points,
        time.as_secs_f64(),
        tally.prefixes,
        tally.marks,
        tally.blank,
        tally.torn,
        tally.longest,
        tally.promises,
        tally.zeros,
        tally.discards
    );
    let refused: u64 = tally.refused.values().sum();
    if tally.accepted + refused > 0 {
        println!(
            "damaged: {} came back right, {refused} were refused {:?}",
            tally.accepted, tally.refused
        );
    }
    for ((good, code), count) in &tally.checked {
        let outcome = if *good {
            "can be resumed"
        } else {
            "are refused"
        };
        println!("{count} {outcome}, and check ends with {code}");
    }
    for text in &tally.failures {
        println!("WRONG: {text}");
    }
}

fn run(args: &[String]) -> Result<(), Failure> {
    let [command, path, rest @ ..] = args else {
        return Err(Failure::Usage("a command and a file are needed".to_owned()));
    };
    let path = Path::new(path);
    match (command.as_str(), rest) {
        ("write", rest) => write(path, Options::parse(rest)?),
        ("patch", rest) => patch(path, Options::parse(rest)?),
        ("full", rest) => full(path, Options::parse(rest)?),
        ("verify", rest) => verify(path, Options::parse(rest)?),
        ("expect", [expected, rest @ ..]) => expect(path, expected, Options::parse(rest)?),
        ("points" | "corrupt" | "check" | "sample" | "extract", rest) => {
            host(command, path, Options::parse(rest)?)
        }
        _ => Err(Failure::Usage(format!("unknown command '{command}'"))),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if matches!(args.first().map(String::as_str), Some("-h" | "--help")) {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Wrong(text)) => {
            println!("{text}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(text)) => {
            eprintln!("imrsim-crashtool: {text}\n\n{HELP}");
            ExitCode::from(2)
        }
        Err(Failure::Io(error)) => {
            println!("{error}");
            ExitCode::from(3)
        }
    }
}
