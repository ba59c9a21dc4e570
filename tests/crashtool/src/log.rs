// SPDX-License-Identifier: GPL-2.0-only

//! What dm-log-writes records.
//!
//! A super block in the first sector, then for each entry a sector with its header and, unless it
//! is a discard, its data. Plain writes are recorded when a flush begins that comes after their
//! end, in the order in which they ended; flushes and writes with FUA when they end.

use std::ops::Range;

use crate::content::SECTOR;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A flush: the plain writes before it are on the device.
    Flush,
    /// A write.
    Write {
        /// The first sector.
        sector: u64,
        /// Where in the log its data is.
        data: Range<usize>,
        /// Whether it was on the device when it had ended.
        durable: bool,
    },
    /// Sectors that were given up.
    Discard {
        /// The first sector.
        sector: u64,
        /// How many.
        sectors: u64,
    },
    /// A mark.
    Mark(String),
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// The entries of a log.
pub fn parse(log: &[u8]) -> Result<Vec<Entry>, String> {
    let head = log.get(..SECTOR).ok_or("the log is empty")?;
    if word(head, 0) != MAGIC || word(head, 8) != 1 {
        return Err("this is no log of dm-log-writes".to_owned());
    }
    let (count, unit) = (word(head, 16), word(head, 24) as u32 as usize);
    if unit < SECTOR || unit % SECTOR != 0 {
        return Err(format!("sectors of {unit} bytes in the log"));
    }
    let scale = (unit / SECTOR) as u64;
    let mut entries = Vec::new();
    let mut at = unit;
    for number in 0..count {
        let cut = || format!("the log ends in its entry {number} of {count}");
        let head = log.get(at..at + unit).ok_or_else(cut)?;
        let (sector, sectors) = (word(head, 0) * scale, word(head, 8) as usize);
        let (flags, length) = (word(head, 16), word(head, 24) as usize);
        at += unit;
        if flags & MARK != 0 {
            let text = head.get(32..32 + length).ok_or_else(cut)?;
            let text = String::from_utf8_lossy(text)
                .trim_end_matches('\0')
                .to_owned();
            entries.push(Entry::Mark(text));
            continue;
        }
        if flags & DISCARD != 0 {
            entries.push(Entry::Discard {
                sector,
                sectors: sectors as u64 * scale,
            });
            continue;
        }
        if flags & FLUSH != 0 {
            entries.push(Entry::Flush);
        }
        if sectors > 0 {
            let data = at..at + sectors * unit;
            log.get(data.clone()).ok_or_else(cut)?;
            at = data.end;
            entries.push(Entry::Write {
                sector,
                data,
                durable: flags & FUA != 0,
            });
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sector(words: [u64; 4], text: &[u8]) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes[32..32 + text.len()].copy_from_slice(text);
        bytes
    }

    #[test]
    fn entries() {
        let log: Vec<u8> = [
            sector([MAGIC, 1, 5, 512], b""),
            sector([8, 1, 0, 0], b""),
            [7; SECTOR],
            sector([0, 0, MARK, 2], b"t1"),
            sector([0, 0, FLUSH, 0], b""),
            sector([16, 1, FLUSH | FUA, 0], b""),
            [8; SECTOR],
            sector([24, 8, DISCARD, 0], b""),
        ]
        .concat();
        let write = |sector, at: usize, durable| Entry::Write {
            sector,
            data: at * SECTOR..(at + 1) * SECTOR,
            durable,
        };
        let expected = [
            write(8, 2, false),
            Entry::Mark("t1".to_owned()),
            Entry::Flush,
            Entry::Flush,
            write(16, 6, true),
            Entry::Discard {
                sector: 24,
                sectors: 8,
            },
        ];
        assert_eq!(parse(&log).unwrap(), expected);
        assert!(parse(&log[..6 * SECTOR]).is_err());
        assert!(parse(&[0; SECTOR]).is_err());
    }
}
