// SPDX-License-Identifier: GPL-2.0-only

//! The frames of a recording: the header, and chunks with a length and a checksum each.

use std::io::{ErrorKind, Read, Write};

use anyhow::{bail, Context, Result};
use imrsim_core::{ondisk::crc::crc32c, Allocation, Geometry};

use super::{Clock, Header, Source};

/// What a recording begins with.
const MAGIC: [u8; 8] = *b"IMRtrace";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
/// All zones, where one is named.
const ALL: u64 = u64::MAX;

const HEAD_BYTES: usize = 12;
const CRC_BYTES: usize = 4;
/// The most bytes of a chunk's body.
const MAX_BODY: u32 = 1 << 20;

/// What a chunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A zone as it was before its first event.
    Start,
    /// Events.
    Events,
    /// A zone as it was after its last event.
    Final,
    /// Nothing follows.
    End,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Start, Self::Events, Self::Final, Self::End];

    fn number(self) -> u32 {
        match self {
            Self::Start => 1,
            Self::Events => 2,
            Self::Final => 3,
            Self::End => 4,
        }
    }
}

/// Writes the beginning of a file.
pub(super) fn put_header(header: &Header, out: &mut dyn Write) -> Result<()> {
    let geometry = &header.geometry;
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend(MAGIC);
    for number in [
        VERSION,
        geometry.top_blocks(),
        geometry.bottom_blocks(),
        geometry.groups(),
        header.allocation.phases(),
        match header.source {
            Source::Simulation => 0,
            Source::Kernel => 1,
        },
        match header.clock {
            Clock::Requests => 0,
            Clock::Nanoseconds => 1,
        },
        0,
    ] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(header.zones.to_le_bytes());
    bytes.extend(header.only.unwrap_or(ALL).to_le_bytes());
    bytes.resize(HEADER_BYTES - CRC_BYTES, 0);
    bytes.extend(crc32c(&bytes).to_le_bytes());
    Ok(out.write_all(&bytes)?)
}

/// Reads the beginning of a file.
pub(super) fn get_header(input: &mut dyn Read) -> Result<Header> {
    let mut bytes = [0; HEADER_BYTES];
    let got = read_up_to(input, &mut bytes)?;
    if !bytes.starts_with(&MAGIC) {
        bail!("not a recording of IMRSim (.imrtrace)");
    }
    if got < HEADER_BYTES {
        bail!("the recording is cut off in its header");
    }
    let word = |at: usize| u32::from_le_bytes(four(&bytes, at));
    let wide = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    if word(8) != VERSION {
        bail!(
            "a recording of version {}: this program reads version {VERSION}",
            word(8)
        );
    }
    if crc32c(&bytes[..HEADER_BYTES - CRC_BYTES]) != word(HEADER_BYTES - CRC_BYTES) {
        bail!("the recording is damaged: its header has a wrong checksum");
    }
    let header = Header {
        geometry: Geometry::new(word(12), word(16), word(20))?,
        allocation: Allocation::from_phases(word(24))?,
        source: match word(28) {
            0 => Source::Simulation,
            1 => Source::Kernel,
            other => bail!("a recording of an unknown source, {other}"),
        },
        clock: match word(32) {
            0 => Clock::Requests,
            1 => Clock::Nanoseconds,
            other => bail!("a recording with an unknown clock, {other}"),
        },
        zones: wide(40),
        only: (wide(48) != ALL).then_some(wide(48)),
    };
    match header.only {
        Some(zone) if zone >= header.zones => bail!("a recording of a zone that its drive has not"),
        _ if header.zones == 0 => bail!("a recording of a drive without zones"),
        _ => Ok(header),
    }
}

/// Writes a chunk, the `number`th of its file. Its body is not longer than [`MAX_BODY`].
pub(super) fn put(number: u32, kind: Kind, body: &[u8], out: &mut dyn Write) -> Result<()> {
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if len > MAX_BODY {
        bail!("a chunk of a recording is too long");
    }
    let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len() + CRC_BYTES);
    for word in [number, kind.number(), len] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(body);
    bytes.extend(crc32c(&bytes).to_le_bytes());
    Ok(out.write_all(&bytes)?)
}

/// Reads a chunk, the `number`th of its file, into `buf`. Its body is what lies in the range that is
/// returned.
pub(super) fn get(
    number: u32,
    buf: &mut Vec<u8>,
    input: &mut dyn Read,
) -> Result<(Kind, std::ops::Range<usize>)> {
    let cut_off = || format!("the recording is cut off in chunk {number}, or not finished");
    buf.resize(HEAD_BYTES, 0);
    if read_up_to(input, buf)? < HEAD_BYTES {
        bail!(cut_off());
    }
    let damaged = || format!("the recording is damaged in chunk {number}");
    let [is_number, kind, len] = [0, 4, 8].map(|at| u32::from_le_bytes(four(buf, at)));
    if len > MAX_BODY {
        bail!("{}: its length is {len}", damaged());
    }
    // CAST: widens.
    let end = HEAD_BYTES + len as usize;
    buf.resize(end + CRC_BYTES, 0);
    if read_up_to(input, &mut buf[HEAD_BYTES..])? < buf.len() - HEAD_BYTES {
        bail!(cut_off());
    }
    if crc32c(&buf[..end]) != u32::from_le_bytes(four(buf, end)) {
        bail!("{}: wrong checksum", damaged());
    }
    if is_number != number {
        bail!("{}: it is chunk {is_number}", damaged());
    }
    let kind = Kind::ALL.into_iter().find(|it| it.number() == kind);
    let kind = kind.with_context(|| format!("{}: unknown kind", damaged()))?;
    Ok((kind, HEAD_BYTES..end))
}

/// Whether nothing is left.
pub(super) fn is_at_end(input: &mut dyn Read) -> Result<bool> {
    Ok(read_up_to(input, &mut [0])? == 0)
}

fn four(bytes: &[u8], at: usize) -> [u8; 4] {
    let four = bytes.get(at..at + 4).and_then(|it| it.try_into().ok());
    four.unwrap_or_default()
}

/// Reads until `buf` is full or the file ends; returns how much.
fn read_up_to(input: &mut dyn Read, buf: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < buf.len() {
        match input.read(&mut buf[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(got)
}
