// SPDX-License-Identifier: GPL-2.0-only

//! CRC32C: the cyclic redundancy check with Castagnoli's polynomial, as of iSCSI and ext4.
//!
//! Within a block of 4 KiB it finds every change of up to five bits, and every change that lies in
//! 32 consecutive bits. Sixteen bytes are taken at a time ("slicing by 16"): only the first four of them wait
//! for what comes before.

use super::bytes::get_u64;

/// The polynomial 0x1edc6f41 with the lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[k][b]`: the remainder of byte b followed by k bytes of zeros.
static TABLES: [[u32; 256]; 16] = tables();

const fn tables() -> [[u32; 256]; 16] {
    let mut tables = [[0; 256]; 16];
    let mut byte = 0;
    let mut number: u32 = 0;
    while byte < 256 {
        let mut crc = number;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
        number += 1;
    }
    let mut table = 1;
    while table < 16 {
        let mut byte = 0;
        while byte < 256 {
            let crc: u32 = tables[table - 1][byte];
            let [low, ..] = crc.to_le_bytes();
            // CAST: lossless; `From` is not const.
            tables[table][byte] = (crc >> 8) ^ tables[0][low as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// A checksum of the bytes given so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc(u32);

impl Default for Crc {
    fn default() -> Self {
        Self::new()
    }
}

impl Crc {
    /// The checksum of no bytes.
    pub const fn new() -> Self {
        Self(u32::MAX)
    }

    /// The checksum with more bytes behind.
    #[must_use]
    pub fn update(self, bytes: &[u8]) -> Self {
        let [near @ .., _, _, _, _, _, _, _, _] = &TABLES;
        let [_, _, _, _, _, _, _, _, far @ ..] = &TABLES;
        let entry = |table: &[u32; 256], byte: u8| table[usize::from(byte)];
        // The last byte of a word is followed by none of it.
        let word = |tables: &[[u32; 256]; 8], word: u64| {
            let [t0, t1, t2, t3, t4, t5, t6, t7] = tables;
            let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
            entry(t7, a)
                ^ entry(t6, b)
                ^ entry(t5, c)
                ^ entry(t4, d)
                ^ entry(t3, e)
                ^ entry(t2, f)
                ^ entry(t1, g)
                ^ entry(t0, h)
        };
        let mut crc = self.0;
        let mut words = bytes.chunks_exact(16);
        for both in &mut words {
            let (low, high) = (get_u64(both, 0), get_u64(both, 8));
            crc = word(far, low ^ u64::from(crc)) ^ word(near, high);
        }
        for byte in words.remainder() {
            let [low, ..] = crc.to_le_bytes();
            crc = (crc >> 8) ^ entry(&TABLES[0], low ^ byte);
        }
        Self(crc)
    }

    /// The checksum as a number.
    pub const fn value(self) -> u32 {
        !self.0
    }
}

/// The checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    Crc::new().update(bytes).value()
}
