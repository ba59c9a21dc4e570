// SPDX-License-Identifier: GPL-2.0-only

//! What the tool writes: sectors that say where they belong and which write of that sector they are,
//! so that a wrong one can be named. Version 0 is a sector of zeros, one never written.

use std::fmt;

use crate::device::SECTOR;

/// The start of every written sector.
const MAGIC: [u8; 8] = *b"imrsimIO";
const HEADER: usize = 24;

/// A small generator of pseudo-random numbers (xorshift64*), the same everywhere for the same seed.
pub(crate) struct Random(u64);

impl Random {
    /// A generator for a seed and a stream number.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .wrapping_add(stream.wrapping_mul(0x94d0_49bb_1331_11eb));
        let mut random = Self(mixed | 1);
        for _ in 0..4 {
            random.next();
        }
        random
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Fills `out` with version `version` of sector `sector`.
pub(crate) fn fill(out: &mut [u8], sector: u64, version: u32) {
    debug_assert_eq!(out.len(), SECTOR);
    if version == 0 {
        out.fill(0);
        return;
    }
    out[..8].copy_from_slice(&MAGIC);
    out[8..16].copy_from_slice(&sector.to_le_bytes());
    out[16..HEADER].copy_from_slice(&u64::from(version).to_le_bytes());
    let mut random = Random::new(sector, u64::from(version));
    for word in out[HEADER..].chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_le_bytes());
    }
}

/// What a sector that was read turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// This version of the sector it says it is; zeros are version 0 of whatever was asked for.
    Version {
        /// The sector it was written to.
        sector: u64,
        /// Which write of it.
        version: u32,
    },
    /// One byte throughout: what the backing device was filled with.
    Filled(u8),
    /// It says what it is, but the rest does not agree.
    Torn {
        /// The sector it says it was written to.
        sector: u64,
        /// Which write it says it is.
        version: u64,
    },
    /// None of these.
    Garbage,
}

impl Found {
    /// Looks at what was read where `sector` is.
    pub(crate) fn in_sector(bytes: &[u8], sector: u64) -> Self {
        if bytes.iter().all(|&byte| byte == bytes[0]) {
            return match bytes[0] {
                0 => Self::Version { sector, version: 0 },
                byte => Self::Filled(byte),
            };
        }
        if bytes[..8] != MAGIC {
            return Self::Garbage;
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let (says, version) = (word(8), word(16));
        if let Ok(number) = u32::try_from(version) {
            let mut whole = [0; SECTOR];
            fill(&mut whole, says, number);
            if whole == *bytes {
                return Self::Version {
                    sector: says,
                    version: number,
                };
            }
        }
        Self::Torn {
            sector: says,
            version,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { version: 0, .. } => write!(f, "zeros"),
            Self::Version { sector, version } => write!(f, "write {version} of sector {sector}"),
            Self::Filled(byte) => write!(f, "bytes {byte:#04x}, as below"),
            Self::Torn { sector, version } => {
                write!(f, "a torn write {version} of sector {sector}")
            }
            Self::Garbage => write!(f, "something never written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_is_known_by_its_content() {
        let mut bytes = [0; SECTOR];
        for (sector, version) in [(0, 1), (7, 1), (7, u32::MAX), (u64::MAX, 3)] {
            fill(&mut bytes, sector, version);
            assert_eq!(
                Found::in_sector(&bytes, 5),
                Found::Version { sector, version }
            );
        }
        fill(&mut bytes, 9, 0);
        assert_eq!(
            Found::in_sector(&bytes, 9),
            Found::Version {
                sector: 9,
                version: 0
            }
        );
    }

    #[test]
    fn damage_is_seen() {
        let mut bytes = [0xa5; SECTOR];
        assert_eq!(Found::in_sector(&bytes, 0), Found::Filled(0xa5));
        bytes[9] = 0;
        assert_eq!(Found::in_sector(&bytes, 0), Found::Garbage);
        fill(&mut bytes, 3, 4);
        bytes[511] ^= 1;
        assert_eq!(
            Found::in_sector(&bytes, 3),
            Found::Torn {
                sector: 3,
                version: 4
            }
        );
    }
}
