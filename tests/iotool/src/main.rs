// SPDX-License-Identifier: GPL-2.0-only

//! Requests that check themselves, for the tests of IMRSim that run in a VM.

#![forbid(unsafe_code)]

mod ask;
mod content;
mod device;
mod discard;
mod fuzz;
mod model;
mod race;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use device::{Buffer, Device, BLOCK_SECTORS, SECTOR};

const HELP: &str = "\
Usage: imrsim-iotool COMMAND DEVICE [--OPTION VALUE]...

All requests bypass the page cache. Sizes are in sectors of 512 bytes, blocks are 8 sectors.

fill    writes --byte B [0xa5] to --at SECTOR [0], --count SECTORS [to the end],
        in requests of --request SECTORS [2048]
expect  reads the same and fails unless every byte is --byte B [0]
flush   flushes the device's write cache
model   random reads and writes of --threads T [1], each checked, and a check of everything at the
        end. The sectors used must read as zeros before. Where:
          --at SECTOR [0] --count SECTORS [to the end], cut into pieces of --piece SECTORS that are
          dealt out to the threads in turn [one piece for each thread]
          --blocks A-B,C-D,... instead: each block is a piece
        What: --requests N [1000] of each thread, --seconds S, --reads PERCENT [50],
          --flushes PER_MILLE [0], --longest SECTORS [512], --align SECTORS [1], --seed N [1],
          --discards PER_MILLE [0], --errors 1: failed requests are counted and allowed
race    first writes of single blocks with --readers R [4] about; --blocks A-B, --seed N
collide for each block, --threads T [8] partial first writes at the same time; --blocks A-B
ask     sends the ioctl REQUEST, such as GET_SETTING, with what [FIELD=NUMBER]... say, and prints
        the answer's fields; in place of options: REQUEST [FIELD=NUMBER]...
fuzz    ioctls that are wrong in all sorts of ways, with --threads T [1]; with --name NAME, which is
        device-mapper's for the device, messages, too; with --io T [0] threads of requests about.
        --calls N of each thread, --seconds S, --seed N [1],
        --suspends 1: the device is suspended and resumed meanwhile,
        --reopen 1: it may be removed meanwhile, and is opened over and over,
        --keep 1: nothing is written to, discarded or reset in the last zone

Exit codes: 0 good, 1 wrong data, 2 wrong usage, 3 an I/O error.
";

/// The options of a command line.
struct Options {
    given: BTreeMap<String, String>,
}

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
        Ok(Self { given })
    }

    /// Takes an option's number, decimal or hexadecimal.
    fn number(&mut self, name: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.given.remove(name) else {
            return Ok(None);
        };
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        parsed
            .map(Some)
            .map_err(|_| format!("--{name} {text}: not a number"))
    }

    /// Takes a list of ranges such as `0-70,568-681`, both ends included.
    fn ranges(&mut self, name: &str) -> Result<Option<Vec<Range<u64>>>, String> {
        let Some(text) = self.given.remove(name) else {
            return Ok(None);
        };
        let parse = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse().ok()?, last.parse::<u64>().ok()?);
            (first <= last).then_some(first..last + 1)
        };
        text.split(',')
            .map(parse)
            .collect::<Option<_>>()
            .map(Some)
            .ok_or_else(|| format!("--{name} {text}: not ranges such as 0-70,568-681"))
    }

    /// One range of blocks.
    fn blocks(&mut self) -> Result<Range<u64>, String> {
        match self.ranges("blocks")?.as_deref() {
            Some([range]) => Ok(range.clone()),
            _ => Err("expected --blocks A-B".to_owned()),
        }
    }

    /// Nothing may be left.
    fn finish(self) -> Result<(), String> {
        match self.given.keys().next() {
            Some(name) => Err(format!("unknown option --{name}")),
            None => Ok(()),
        }
    }
}

/// Why a command did not end well.
enum Failure {
    Usage(String),
    Io(std::io::Error),
    Wrong(String),
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Usage(text)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// The sectors that --at and --count name.
fn area(device: &Device, options: &mut Options) -> Result<Range<u64>, Failure> {
    let at = options.number("at")?.unwrap_or(0);
    let end = match options.number("count")? {
        Some(count) => at + count,
        None => device.sectors()?,
    };
    Ok(at..end)
}

fn fill_or_expect(device: &Device, mut options: Options, writing: bool) -> Result<(), Failure> {
    let range = area(device, &mut options)?;
    let byte = options
        .number("byte")?
        .unwrap_or(if writing { 0xa5 } else { 0 });
    let byte = u8::try_from(byte).map_err(|_| format!("--byte {byte}: not a byte"))?;
    let request = options.number("request")?.unwrap_or(2048);
    options.finish()?;
    let mut buffer = Buffer::new(request);
    buffer.sectors_mut(request).fill(byte);
    for at in range.clone().step_by(request as usize) {
        let length = request.min(range.end - at);
        if writing {
            device.write(&buffer, at, length)?;
            continue;
        }
        device.read(&mut buffer, at, length)?;
        if let Some(place) = buffer
            .sectors(length)
            .iter()
            .position(|&found| found != byte)
        {
            let sector = at + (place / SECTOR) as u64;
            let offset = place % SECTOR;
            let found = buffer.sectors(length)[place];
            return Err(Failure::Wrong(format!(
                "sector {sector}, byte {offset}: {found:#04x}, expected {byte:#04x}"
            )));
        }
    }
    Ok(())
}

fn run_model(device: &Device, mut options: Options) -> Result<(), Failure> {
    let threads = options.number("threads")?.unwrap_or(1).max(1);
    let pieces: Vec<Range<u64>> = match options.ranges("blocks")? {
        Some(ranges) => ranges
            .into_iter()
            .flatten()
            .map(|block| block * BLOCK_SECTORS..(block + 1) * BLOCK_SECTORS)
            .collect(),
        None => {
            let range = area(device, &mut options)?;
            let piece = options
                .number("piece")?
                .unwrap_or((range.end - range.start).div_ceil(threads));
            range
                .clone()
                .step_by(piece.max(1) as usize)
                .map(|at| at..range.end.min(at + piece))
                .collect()
        }
    };
    let seconds = options.number("seconds")?;
    let align = options.number("align")?.unwrap_or(1).max(1);
    let pieces = pieces
        .into_iter()
        .filter(|piece| piece.end - piece.start >= align)
        .collect();
    let work = model::Work {
        pieces,
        threads,
        requests: options.number("requests")?.unwrap_or(if seconds.is_some() {
            u64::MAX
        } else {
            1000
        }),
        time: seconds.map(Duration::from_secs),
        reads: options.number("reads")?.unwrap_or(50),
        flushes: options.number("flushes")?.unwrap_or(0),
        discards: options.number("discards")?.unwrap_or(0),
        longest: options.number("longest")?.unwrap_or(512).max(1),
        align,
        seed: options.number("seed")?.unwrap_or(1),
        errors_allowed: options.number("errors")?.unwrap_or(0) != 0,
    };
    options.finish()?;
    let outcome = model::run(device, &work)?;
    println!(
        "{} requests good, {} failed, {} sectors wrong",
        outcome.requests, outcome.errors, outcome.wrong
    );
    none_wrong(outcome.wrong)
}

fn run_fuzz(path: &str, mut options: Options) -> Result<(), Failure> {
    let time = options.number("seconds")?.map(Duration::from_secs);
    let mut switch = |name| Ok::<_, String>(options.number(name)?.unwrap_or(0) != 0);
    let (suspends, reopen, keep) = (switch("suspends")?, switch("reopen")?, switch("keep")?);
    let fuzz = fuzz::Fuzz {
        path: PathBuf::from(path),
        name: options.given.remove("name"),
        time,
        calls: options.number("calls")?.unwrap_or(match time {
            Some(_) => u64::MAX,
            None => 1000,
        }),
        seed: options.number("seed")?.unwrap_or(1),
        threads: options.number("threads")?.unwrap_or(1).max(1),
        io: options.number("io")?.unwrap_or(0),
        suspends,
        reopen,
        keep,
    };
    options.finish()?;
    fuzz::run(&fuzz)?.map_or(Ok(()), |wrong| Err(Failure::Wrong(wrong)))
}

fn none_wrong(wrong: u64) -> Result<(), Failure> {
    match wrong {
        0 => Ok(()),
        _ => Err(Failure::Wrong(format!("{wrong} sectors are wrong"))),
    }
}

fn run(args: &[String]) -> Result<(), Failure> {
    let [command, path, rest @ ..] = args else {
        return Err(Failure::Usage(
            "a command and a device are needed".to_owned(),
        ));
    };
    if command == "ask" {
        return ask::run(&PathBuf::from(path), rest);
    }
    let mut options = Options::parse(rest)?;
    if command == "fuzz" {
        return run_fuzz(path, options);
    }
    let device = Device::open(&PathBuf::from(path))?;
    match command.as_str() {
        "fill" => fill_or_expect(&device, options, true),
        "expect" => fill_or_expect(&device, options, false),
        "flush" => {
            options.finish()?;
            Ok(device.flush()?)
        }
        "model" => run_model(&device, options),
        "race" => {
            let (blocks, readers) = (options.blocks()?, options.number("readers")?.unwrap_or(4));
            let seed = options.number("seed")?.unwrap_or(1);
            options.finish()?;
            none_wrong(race::readers_and_first_writes(
                &device, blocks, readers, seed,
            )?)
        }
        "collide" => {
            let (blocks, threads) = (options.blocks()?, options.number("threads")?.unwrap_or(8));
            options.finish()?;
            if !(1..=BLOCK_SECTORS).contains(&threads) {
                return Err(Failure::Usage("--threads must be 1 to 8".to_owned()));
            }
            none_wrong(race::colliding_first_writes(&device, blocks, threads)?)
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
            eprintln!("imrsim-iotool: {text}\n\n{HELP}");
            ExitCode::from(2)
        }
        Err(Failure::Io(error)) => {
            println!("{error}");
            ExitCode::from(3)
        }
    }
}
