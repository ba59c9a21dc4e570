// SPDX-License-Identifier: GPL-2.0-only

//! Opens a trace: finds out whether it is compressed, and which format it has, from its content.

use std::{
    fs::File,
    io::{self, BufReader, Cursor, IsTerminal, Read},
    path::Path,
};

use anyhow::{bail, ensure, Context, Result};
use flate2::bufread::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    blkparse::{self, Blkparse},
    csv::{self, Layout},
    iolog,
    lines::Lines,
    msr,
    reader::{LineReader, Parse},
    simple::{Disksim, Spc, Systor},
    Disks, Format, Item, Notes, Reader, Source,
};

/// Bytes from which the format is found out.
const START: usize = 1 << 16;

/// Lines from which the format is found out.
const START_LINES: usize = 64;

/// Bytes read at once.
const BUFFER: usize = 1 << 18;

/// How to read a trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Its format; without it, its content tells.
    pub format: Option<Format>,
    /// The disks whose requests are wanted.
    pub disks: Disks,
    /// For a text with columns, what they are.
    pub layout: Option<Layout>,
    /// For a text of blkparse, what happens to what is a request.
    pub action: Option<blkparse::Action>,
}

/// An open trace.
pub struct Trace {
    /// In messages.
    name: String,
    reader: Box<dyn Reader>,
    /// Its format.
    pub format: Format,
    /// Shows how far it is read; hidden unless standard error is a terminal.
    pub progress: ProgressBar,
}

impl Reader for Trace {
    fn next_item(&mut self) -> io::Result<Option<Item>> {
        let item = self.reader.next_item();
        if !matches!(item, Ok(Some(_))) {
            self.progress.finish_and_clear();
        }
        item.map_err(|error| {
            let (name, lines) = (&self.name, self.notes().lines);
            let reason = format!("cannot read {name} after line {lines}: {error}");
            io::Error::new(error.kind(), reason)
        })
    }

    fn notes(&self) -> Notes {
        self.reader.notes()
    }

    fn sources(&self) -> &[Source] {
        self.reader.sources()
    }

    fn line(&self) -> &[u8] {
        self.reader.line()
    }
}

/// Opens a trace, `-` being standard input.
///
/// # Errors
///
/// If the file cannot be opened, or its format is none of the known ones.
pub fn open(path: &Path, options: &Options) -> Result<Trace> {
    let progress = ProgressBar::hidden();
    let file = open_file(path, &progress)?;
    let trace = read(file, &path.display().to_string(), options)?;
    Ok(Trace { progress, ..trace })
}

/// Reads a trace from anywhere; `shown` is its name in messages.
///
/// # Errors
///
/// If it cannot be read, or its format is none of the known ones.
pub fn read(input: impl Read + 'static, shown: &str, options: &Options) -> Result<Trace> {
    let cannot_read = || format!("cannot read {shown}");
    let (magic, input) = peek(input, 6).with_context(cannot_read)?;
    let input = unpack(&magic, input).with_context(cannot_read)?;
    let (start, input) = peek(input, START).with_context(cannot_read)?;
    ensure!(!start.is_empty(), "{shown} is empty");
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        bail!("{shown} is UTF-16 text; make it UTF-8: iconv -f UTF-16 -t UTF-8 {shown}");
    }
    let format = match (options.format, &options.layout) {
        (Some(Format::Csv) | None, Some(_)) => Format::Csv,
        (Some(format), Some(_)) => bail!("--columns is for CSV, not for {}", format.name()),
        (Some(format), None) => format,
        (None, None) => match detect(&start) {
            Some(format) => format,
            None => bail!(
                "{shown} has none of the known formats, going by its first {START_LINES} lines; \
                 --format names one, or --columns maps the columns of any other text \
                 (see 'trace stat --help')"
            ),
        },
    };
    if format == Format::Iolog && !is_iolog(&start) {
        bail!(
            "cannot read {shown}: not a fio iolog of version 2 or 3: its first line is not \
             'fio version 2 iolog' or 'fio version 3 iolog'"
        );
    }
    if format == Format::Csv {
        let layout = options.layout.clone().unwrap_or_else(Layout::own);
        if let Err(reason) = csv::check_names(&layout, first_lines(&start)) {
            bail!("cannot read {shown}: {reason}");
        }
    }
    let lines = Lines::new(input);
    let disks = options.disks.clone();
    // The fast path is for the format of the largest traces.
    let reader: Box<dyn Reader> = if format == Format::Msr {
        Box::new(LineReader::with(lines, msr::Parser::default(), disks))
    } else {
        let parser = parser(format, &start, options);
        Box::new(LineReader::with(lines, parser, disks))
    };
    Ok(Trace {
        name: shown.to_owned(),
        reader,
        format,
        progress: ProgressBar::hidden(),
    })
}

/// Opens a file, `-` being standard input.
fn open_file(path: &Path, progress: &ProgressBar) -> Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let metadata = file.metadata().ok();
    if metadata.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        bail!("{} is a directory, not a trace", path.display());
    }
    if io::stderr().is_terminal() {
        progress.set_length(metadata.map_or(0, |metadata| metadata.len()));
        progress.set_draw_target(ProgressDrawTarget::stderr());
        let template = "{msg} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            progress.set_style(style);
        }
        progress.set_message(path.display().to_string());
    }
    Ok(Box::new(progress.wrap_read(file)))
}

/// The first `len` bytes of `input`, if it has that many, and all of it.
fn peek(mut input: impl Read + 'static, len: usize) -> io::Result<(Vec<u8>, Box<dyn Read>)> {
    let mut start = Vec::new();
    input.by_ref().take(len as u64).read_to_end(&mut start)?;
    let all = Cursor::new(start.clone()).chain(input);
    Ok((start, Box::new(all)))
}

/// Takes the compression off that `magic`, the first bytes, tells of.
fn unpack(magic: &[u8], input: Box<dyn Read>) -> Result<Box<dyn Read>> {
    let input = BufReader::with_capacity(BUFFER, input);
    let unpacked: (&'static str, Box<dyn Read>) = if magic.starts_with(b"\x1f\x8b") {
        ("gzip", Box::new(MultiGzDecoder::new(input)))
    } else if magic.starts_with(b"\x28\xb5\x2f\xfd") {
        let mut decoder = zstd::Decoder::with_buffer(input)?;
        // As much as 'zstd --long=31' makes use of.
        decoder.window_log_max(31)?;
        ("zstd", Box::new(decoder))
    } else if magic.starts_with(b"BZh") {
        bail!("it is compressed by bzip2; unpack it: bzip2 -dc FILE | imrsim_util ... -");
    } else if magic.starts_with(b"\xfd7zXZ\0") {
        bail!("it is compressed by xz; unpack it: xz -dc FILE | imrsim_util ... -");
    } else if magic.starts_with(b"PK\x03\x04") {
        bail!("it is a zip archive; unpack it: unzip -p FILE | imrsim_util ... -");
    } else {
        return Ok(Box::new(input));
    };
    let (name, input) = unpacked;
    Ok(Box::new(Unpacked { name, input }))
}

/// Says what is wrong with compressed data.
struct Unpacked {
    name: &'static str,
    input: Box<dyn Read>,
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!(
                    "its {} data is damaged or ends too early: {error}",
                    self.name
                ),
            )
        })
    }
}

fn is_iolog(start: &[u8]) -> bool {
    let mut parser = iolog::Parser::default();
    first_lines(start)
        .next()
        .is_some_and(|line| parser.parse(line).is_ok())
}

/// The lines of the start of a trace that are not empty.
fn first_lines(start: &[u8]) -> impl Iterator<Item = &[u8]> {
    let complete = match memchr::memrchr(b'\n', start) {
        // The last line may be cut off.
        Some(end) if start.len() == START => &start[..end],
        _ => start,
    };
    let complete = complete
        .strip_prefix("\u{feff}".as_bytes())
        .unwrap_or(complete);
    complete
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
        .take(START_LINES)
}

/// How many of the first lines are requests.
fn score(parser: &mut dyn Parse, start: &[u8]) -> usize {
    first_lines(start)
        .filter(|line| matches!(parser.parse(line), Ok(Some(_))))
        .count()
}

/// The format of a text that starts with `start`: the one in which most of its lines are requests.
fn detect(start: &[u8]) -> Option<Format> {
    let first = first_lines(start).next()?;
    if first.starts_with(b"fio version ") {
        return Some(Format::Iolog);
    }
    if csv::is_header(first) {
        return Some(Format::Csv);
    }
    if msr::is_header(first) {
        return Some(Format::Msr);
    }
    if Systor::is_header(first) {
        return Some(Format::Systor);
    }
    let formats = [
        Format::Msr,
        Format::Systor,
        Format::Spc,
        Format::Disksim,
        Format::Blkparse,
    ];
    let options = Options::default();
    let mut best = None;
    for format in formats {
        let requests = score(&mut *parser(format, start, &options), start);
        if requests > best.map_or(0, |(_, most)| most) {
            best = Some((format, requests));
        }
    }
    best.map(|(format, _)| format)
}

fn parser(format: Format, start: &[u8], options: &Options) -> Box<dyn Parse> {
    match format {
        Format::Msr => Box::new(msr::Parser::default()),
        Format::Iolog => Box::new(iolog::Parser::default()),
        Format::Blkparse => {
            let action = options.action;
            let action = action.unwrap_or_else(|| blkparse::Action::of_start(start));
            Box::new(Blkparse::new(action))
        }
        Format::Systor => Box::new(Systor::default()),
        Format::Spc => Box::new(Spc),
        Format::Disksim => Box::new(Disksim),
        Format::Csv => {
            let layout = options.layout.clone().unwrap_or_else(Layout::own);
            Box::new(csv::Parser::new(layout))
        }
    }
}
