// SPDX-License-Identifier: GPL-2.0-only

//! Formats of one kind of line each: SYSTOR '17, SPC and DiskSim ASCII.

use super::{
    field::{bytes, comma_fields, decimal, number, quote, read_or_write, sectors, words},
    reader::{Parse, Raw},
    Op,
};
use crate::number::SECTOR;

/// SYSTOR '17: `Timestamp,Response,IOType,LUN,Offset,Size`; seconds, seconds, `R` or `W`, LUN,
/// bytes, bytes. The response time may be missing.
#[derive(Debug, Default)]
pub(super) struct Systor {
    begun: bool,
}

impl Systor {
    /// Whether a line names the columns.
    pub(super) fn is_header(line: &[u8]) -> bool {
        comma_fields::<6>(line).is_ok_and(|[time, _, kind, ..]| {
            time.eq_ignore_ascii_case(b"timestamp") && kind.eq_ignore_ascii_case(b"iotype")
        })
    }
}

impl Parse for Systor {
    fn tick(&self) -> u64 {
        1
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, String> {
        if !std::mem::replace(&mut self.begun, true) && Self::is_header(line) {
            return Ok(None);
        }
        let [time, response, kind, lun, offset, len] =
            comma_fields::<6>(line).map_err(|count| format!("{count} fields instead of 6"))?;
        let op = read_or_write("type", kind)?;
        let response = match response {
            b"" => None,
            text => Some(decimal("response time", text, 9)?),
        };
        number("LUN", lun)?;
        Ok(Some(Raw {
            time: Some(decimal("time", time, 9)?),
            op,
            offset: number("offset", offset)?,
            len: number("size", len)?,
            response,
            host: b"",
            disk: lun,
        }))
    }
}

/// SPC: `ASU,LBA,Size,Opcode,Timestamp`, and any more fields; unit number, sectors of 512 bytes,
/// bytes, `R` or `W`, seconds since the start.
#[derive(Debug, Default)]
pub(super) struct Spc;

impl Parse for Spc {
    fn tick(&self) -> u64 {
        1
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, String> {
        let mut fields = line.splitn(6, |byte| *byte == b',').map(<[u8]>::trim_ascii);
        let mut next = |name| fields.next().ok_or_else(|| format!("{name} is missing"));
        let asu = next("ASU")?;
        number("ASU", asu)?;
        let offset = sectors("LBA", next("LBA")?)?;
        let len = number("size", next("size")?)?;
        let op = read_or_write("opcode", next("opcode")?)?;
        Ok(Some(Raw {
            time: Some(decimal("time", next("time")?, 9)?),
            op,
            offset,
            len,
            response: None,
            host: b"",
            disk: asu,
        }))
    }
}

/// DiskSim ASCII: `arrival devno blkno bcount flags`; milliseconds, device number, sectors of 512
/// bytes, sectors, hexadecimal flags of which bit 0 set is a read and clear a write.
#[derive(Debug, Default)]
pub(super) struct Disksim;

impl Parse for Disksim {
    fn tick(&self) -> u64 {
        1
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, String> {
        let (all, count) = words::<6>(line);
        let [time, device, block, blocks, flags, _] = all;
        if count != 5 {
            return Err(format!(
                "{} fields instead of 5",
                if count == 6 {
                    "6 or more".to_owned()
                } else {
                    count.to_string()
                }
            ));
        }
        number("device number", device)?;
        let bits = std::str::from_utf8(flags)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|text| u32::from_str_radix(text, 16).ok())
            .ok_or_else(|| format!("flags {} are no hexadecimal number", quote(flags)))?;
        Ok(Some(Raw {
            time: Some(decimal("arrival time", time, 6)?),
            op: if bits & 1 == 1 { Op::Read } else { Op::Write },
            offset: sectors("block number", block)?,
            len: bytes("block count", blocks, SECTOR)?,
            response: None,
            host: b"",
            disk: device,
        }))
    }
}
