// SPDX-License-Identifier: GPL-2.0-only

//! Any text with columns, by a map of them; and a format of our own, which is one of these:
//!
//! ```text
//! time_ns,op,offset_bytes,size_bytes,response_ns,host,disk
//! 0,write,9056014336,2048,283300,hm,0
//! ```

use std::{
    io::{self, Write},
    str::FromStr,
};

use anyhow::{bail, ensure, Context, Result};
use csv::ByteRecord;

use super::{
    field::{bytes, decimal, quote},
    reader::{Parse, Raw},
    Op, Record, Source, Writer,
};
use crate::number::SECTOR;

/// The first line of our own format.
pub const HEADER: [&str; 7] = [
    "time_ns",
    "op",
    "offset_bytes",
    "size_bytes",
    "response_ns",
    "host",
    "disk",
];

/// A column: its number from 1 on, or its name in the first line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    Number(usize),
    Name(String),
}

/// Which column has what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    time: Option<Column>,
    op: Option<Column>,
    offset: Option<Column>,
    size: Option<Column>,
    response: Option<Column>,
    host: Option<Column>,
    disk: Option<Column>,
}

impl FromStr for Columns {
    type Err = anyhow::Error;

    /// Reads `time=1,op=2,offset=3,size=4`.
    fn from_str(text: &str) -> Result<Self> {
        let mut columns = Self::default();
        for part in text.split(',') {
            let (what, column) = part.split_once('=').with_context(|| {
                format!("'{part}' is not a column: expected, for example, offset=3")
            })?;
            let slot = match what {
                "time" => &mut columns.time,
                "op" => &mut columns.op,
                "offset" => &mut columns.offset,
                "size" => &mut columns.size,
                "response" => &mut columns.response,
                "host" => &mut columns.host,
                "disk" => &mut columns.disk,
                _ => bail!("'{what}' is none of: time, op, offset, size, response, host, disk"),
            };
            ensure!(slot.is_none(), "{what} has two columns");
            *slot = Some(match column.parse() {
                Ok(0) => bail!("columns are counted from 1"),
                Ok(number) => Column::Number(number),
                Err(_) if column.is_empty() => bail!("{what} has no column"),
                Err(_) => Column::Name(column.to_owned()),
            });
        }
        for (name, slot) in [
            ("op", &columns.op),
            ("offset", &columns.offset),
            ("size", &columns.size),
        ] {
            ensure!(slot.is_some(), "there is no column for {name}");
        }
        Ok(columns)
    }
}

impl Columns {
    /// Whether there are times, which need a unit.
    pub fn are_timed(&self) -> bool {
        self.time.is_some() || self.response.is_some()
    }
}

/// The unit of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TimeUnit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Ticks of 100 ns, as in Windows file times.
    #[value(name = "100ns")]
    Ticks,
    /// Nanoseconds.
    Ns,
}

impl TimeUnit {
    /// Decimal places of a time in ticks of [`Self::tick`].
    fn places(self) -> u32 {
        match self {
            Self::S => 9,
            Self::Ms => 6,
            Self::Us => 3,
            Self::Ticks | Self::Ns => 0,
        }
    }

    /// Nanoseconds in a tick. Those of file times do not fit 64 bits in nanoseconds for long.
    fn tick(self) -> u64 {
        if self == Self::Ticks {
            100
        } else {
            1
        }
    }
}

/// The unit of offsets and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SpaceUnit {
    /// Bytes.
    Bytes,
    /// Sectors of 512 bytes.
    Sectors,
    /// Blocks of 4,096 bytes.
    Blocks,
}

impl SpaceUnit {
    fn bytes(self) -> u64 {
        match self {
            Self::Bytes => 1,
            Self::Sectors => SECTOR,
            Self::Blocks => 4096,
        }
    }
}

/// What stands between columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// A character.
    Byte(u8),
    /// Any number of blanks.
    Blanks,
}

impl FromStr for Delimiter {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.as_bytes() {
            b"space" | b" " => Ok(Self::Blanks),
            b"tab" => Ok(Self::Byte(b'\t')),
            [byte @ (b',' | b';' | b'|' | b'\t' | b':')] => Ok(Self::Byte(*byte)),
            _ => bail!("'{text}' is none of: , ; | : tab space"),
        }
    }
}

/// The words for operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpWords(Vec<(String, Op)>);

impl FromStr for OpWords {
    type Err = anyhow::Error;

    /// Reads `read=0,write=1`.
    fn from_str(text: &str) -> Result<Self> {
        let mut words: Vec<(String, Op)> = Vec::new();
        for part in text.split(',') {
            let (op, word) = part
                .split_once('=')
                .filter(|(_, word)| !word.is_empty())
                .with_context(|| format!("'{part}' is not like read=0"))?;
            let op = match op {
                "read" => Op::Read,
                "write" => Op::Write,
                "trim" => Op::Trim,
                "flush" => Op::Flush,
                _ => bail!("'{op}' is none of: read, write, trim, flush"),
            };
            ensure!(
                words.iter().all(|(other, _)| other != word),
                "'{word}' stands for two operations"
            );
            words.push((word.to_owned(), op));
        }
        Ok(Self(words))
    }
}

impl OpWords {
    fn op(&self, text: &[u8]) -> Result<Op, String> {
        const USUAL: [(&str, Op); 12] = [
            ("r", Op::Read),
            ("read", Op::Read),
            ("w", Op::Write),
            ("write", Op::Write),
            ("d", Op::Trim),
            ("t", Op::Trim),
            ("trim", Op::Trim),
            ("discard", Op::Trim),
            ("unmap", Op::Trim),
            ("f", Op::Flush),
            ("flush", Op::Flush),
            ("sync", Op::Flush),
        ];
        let found = if self.0.is_empty() {
            USUAL
                .iter()
                .find(|(word, _)| text.eq_ignore_ascii_case(word.as_bytes()))
                .map(|(_, op)| *op)
        } else {
            self.0
                .iter()
                .find(|(word, _)| word.as_bytes() == text)
                .map(|(_, op)| *op)
        };
        found.ok_or_else(|| format!("operation {} is unknown (see --ops)", quote(text)))
    }
}

/// How to read a text with columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Which column has what.
    pub columns: Columns,
    /// What stands between them.
    pub delimiter: Delimiter,
    /// The unit of time and response time.
    pub time: TimeUnit,
    /// The unit of offsets.
    pub offset: SpaceUnit,
    /// The unit of sizes.
    pub size: SpaceUnit,
    /// The words for operations; without any, the usual ones.
    pub ops: OpWords,
}

impl Layout {
    /// The layout of our own format.
    pub fn own() -> Self {
        let column = |name: &str| Some(Column::Name(name.to_owned()));
        let [time, op, offset, size, response, host, disk] = HEADER.map(column);
        Self {
            columns: Columns {
                time,
                op,
                offset,
                size,
                response,
                host,
                disk,
            },
            delimiter: Delimiter::Byte(b','),
            time: TimeUnit::Ns,
            offset: SpaceUnit::Bytes,
            size: SpaceUnit::Bytes,
            ops: OpWords::default(),
        }
    }

    fn slots(&self) -> [&Option<Column>; 7] {
        let Columns {
            time,
            op,
            offset,
            size,
            response,
            host,
            disk,
        } = &self.columns;
        [time, op, offset, size, response, host, disk]
    }
}

/// Whether a line is the first of our own format.
pub(super) fn is_header(line: &[u8]) -> bool {
    line.split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .eq(HEADER.iter().map(|name| name.as_bytes()))
}

/// The most columns that are looked at.
const MAX_COLUMNS: usize = 256;

#[derive(Debug)]
pub(super) struct Parser {
    layout: Layout,
    /// Columns from 0 on, in the order of [`Layout::slots`], once the first line was seen.
    places: Option<[Option<usize>; 7]>,
    /// A line with its quotation marks resolved.
    unquoted: ByteRecord,
}

impl Parser {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            places: None,
            unquoted: ByteRecord::new(),
        }
    }
}

/// Why the columns of `layout` cannot be found, if none of these lines has those that it names.
pub(super) fn check_names<'a>(
    layout: &Layout,
    lines: impl Iterator<Item = &'a [u8]>,
) -> Result<(), String> {
    let mut first = None;
    for line in lines {
        let mut parser = Parser::new(layout.clone());
        let failed = parser.parse(line).err();
        if parser.places.is_some() {
            return Ok(());
        }
        first = first.or(failed);
    }
    first.map_or(Ok(()), Err)
}

fn unquote(line: &[u8], delimiter: u8, record: &mut ByteRecord) -> Result<(), String> {
    let read = csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(delimiter)
        .from_reader(line)
        .read_byte_record(record);
    match read {
        Ok(true) => Ok(()),
        Ok(false) => Err("has no columns".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn fill<'a>(parts: impl Iterator<Item = &'a [u8]>, columns: &mut [&'a [u8]]) -> usize {
    let mut count = 0;
    for (slot, part) in columns.iter_mut().zip(parts) {
        *slot = part.trim_ascii();
        count += 1;
    }
    count
}

/// Where the columns are, and whether the first line only names them.
fn find_places(layout: &Layout, first: &[&[u8]]) -> Result<([Option<usize>; 7], bool), String> {
    let mut places = [None; 7];
    let mut named = false;
    for (place, column) in places.iter_mut().zip(layout.slots()) {
        *place = match column {
            None => None,
            Some(Column::Number(number)) => Some(number - 1),
            Some(Column::Name(name)) => {
                named = true;
                let at = first.iter().position(|text| *text == name.as_bytes());
                Some(at.ok_or_else(|| {
                    format!("the first line has no column {}", quote(name.as_bytes()))
                })?)
            }
        };
    }
    // Of a line of names, neither offset nor size begins like a number.
    let is_name = |place: Option<usize>| {
        let text = place.and_then(|place| first.get(place));
        text.and_then(|text| text.first())
            .is_some_and(u8::is_ascii_alphabetic)
    };
    Ok((places, named || is_name(places[2]) && is_name(places[3])))
}

impl Parse for Parser {
    fn tick(&self) -> u64 {
        self.layout.time.tick()
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, String> {
        let layout = &self.layout;
        let mut columns = [&line[..0]; MAX_COLUMNS];
        let count = match layout.delimiter {
            Delimiter::Byte(delimiter) if memchr::memchr(b'"', line).is_some() => {
                unquote(line, delimiter, &mut self.unquoted)?;
                fill(self.unquoted.iter(), &mut columns)
            }
            Delimiter::Byte(delimiter) => fill(line.split(|byte| *byte == delimiter), &mut columns),
            Delimiter::Blanks => fill(
                line.split(u8::is_ascii_whitespace)
                    .filter(|part| !part.is_empty()),
                &mut columns,
            ),
        };
        let columns = &columns[..count];
        let places = match self.places {
            Some(places) => places,
            None => {
                let (places, named) = find_places(layout, columns)?;
                self.places = Some(places);
                if named {
                    return Ok(None);
                }
                places
            }
        };
        let get = |place: Option<usize>| match place {
            None => Ok(&line[..0]),
            Some(place) => columns
                .get(place)
                .copied()
                .ok_or_else(|| format!("{count} columns, column {} is missing", place + 1)),
        };
        let [time, op, offset, size, response, host, disk] = places;
        let (time, response) = (get(time)?, get(response)?);
        let unit = layout.time;
        // Our own format leaves out what is unknown.
        let optional = |name, text: &[u8]| match text {
            b"" => Ok(None),
            text => decimal(name, text, unit.places()).map(Some),
        };
        let op = layout.ops.op(get(op)?)?;
        Ok(Some(Raw {
            time: optional("time", time)?,
            op,
            offset: bytes("offset", get(offset)?, layout.offset.bytes())?,
            len: bytes("size", get(size)?, layout.size.bytes())?,
            response: optional("response time", response)?
                .map(|ticks| ticks.saturating_mul(unit.tick())),
            host: get(host)?,
            disk: get(disk)?,
        }))
    }
}

/// Writes our own format, which holds everything that a record has.
#[derive(Debug)]
pub struct CsvWriter<W: Write> {
    output: csv::Writer<W>,
}

impl<W: Write> CsvWriter<W> {
    /// Writes to `output`.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn new(output: W) -> io::Result<Self> {
        let mut output = csv::Writer::from_writer(output);
        output.write_record(HEADER)?;
        Ok(Self { output })
    }
}

impl<W: Write> Writer for CsvWriter<W> {
    fn check(&self, _: &Record, _: &Source) -> Result<(), String> {
        Ok(())
    }

    fn write(&mut self, record: &Record, source: &Source) -> io::Result<()> {
        let row = (
            record.time,
            record.op.name(),
            record.offset,
            record.len,
            record.response,
            &source.host,
            &source.disk,
        );
        Ok(self.output.serialize(row)?)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(columns: &str) -> Layout {
        Layout {
            columns: columns.parse().unwrap(),
            delimiter: Delimiter::Byte(b','),
            time: TimeUnit::Ms,
            offset: SpaceUnit::Sectors,
            size: SpaceUnit::Bytes,
            ops: OpWords::default(),
        }
    }

    type Fields = (Option<u64>, Op, u64, u64);

    fn parse(parser: &mut Parser, line: &str) -> Result<Option<Fields>, String> {
        let raw = parser.parse(line.as_bytes())?;
        Ok(raw.map(|raw| (raw.time, raw.op, raw.offset, raw.len)))
    }

    #[test]
    fn columns_by_number_and_by_name() {
        let expected = Ok(Some((Some(1_500_000), Op::Read, 4096, 512)));
        let mut parser = Parser::new(layout("size=1,offset=3,op=2,time=4"));
        assert_eq!(parse(&mut parser, "size,op,lba,time"), Ok(None));
        assert_eq!(parse(&mut parser, "512,R,8,1.5,more"), expected);
        assert_eq!(parse(&mut parser, "\"512\",\"read\", 8 ,1.5"), expected);
        assert!(parse(&mut parser, "512,R,8").is_err());
        assert!(parse(&mut parser, "size,op,lba,time").is_err());
        let mut parser = Parser::new(layout("size=len,offset=lba,op=op,time=at"));
        assert_eq!(parse(&mut parser, "lba,op,at,len"), Ok(None));
        assert_eq!(parse(&mut parser, "8,R,1.5,512"), expected);
        let mut parser = Parser::new(layout("size=len,offset=lba,op=op"));
        assert!(parse(&mut parser, "8,R,1.5,512").is_err());
    }

    #[test]
    fn other_words_and_delimiters() {
        let mut layout = layout("time=1,offset=4,size=5,op=6,disk=8");
        layout.delimiter = "space".parse().unwrap();
        layout.time = TimeUnit::Ticks;
        layout.ops = "read=0,write=1".parse().unwrap();
        let mut parser = Parser::new(layout);
        assert_eq!(parser.tick(), 100);
        let line = "89966 4253 nfsd 8  512\t1 6 0 abc";
        assert_eq!(
            parse(&mut parser, line),
            Ok(Some((Some(89_966), Op::Write, 4096, 512)))
        );
        assert!(parse(&mut parser, "89966 4253 nfsd 8 512 W 6 0 abc").is_err());
    }

    #[test]
    fn maps_that_make_no_sense() {
        for text in [
            "",
            "op=1",
            "op=1,offset=2",
            "op=1,offset=2,size=0",
            "op=1,offset=2,size=",
            "op=1,offset=2,size=3,size=4",
            "op=1,offset=2,size=3,colour=4",
            "op1,offset=2,size=3",
        ] {
            assert!(text.parse::<Columns>().is_err(), "{text}");
        }
        for text in ["read", "read=", "erase=1", "read=0,write=0"] {
            assert!(text.parse::<OpWords>().is_err(), "{text}");
        }
        assert!("ab".parse::<Delimiter>().is_err());
    }
}
