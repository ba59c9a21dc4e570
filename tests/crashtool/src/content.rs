// SPDX-License-Identifier: GPL-2.0-only

//! What is written: sectors that say where they belong and which write they come from.

/// Bytes in a sector.
pub const SECTOR: usize = 512;
/// What lies below a drive where nothing was written: must never be seen.
pub const FILLER: u8 = 0xa5;

const MAGIC: [u8; 8] = *b"imrCRASH";
const HEADER: usize = 24;

/// A small generator of pseudo-random numbers (splitmix64), the same everywhere for the same seed.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// A generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What a sector holds, in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(pub u64);

impl Tag {
    /// Zeros: what was never written.
    pub const ZEROS: Self = Self(0);
    /// The filler below the drive.
    pub const FILLER: Self = Self(u64::MAX);
    /// None of the things that are written.
    pub const GARBAGE: Self = Self(u64::MAX - 1);

    /// Write `version`, not 0, of sector `lba`.
    pub const fn new(lba: u32, version: u32) -> Self {
        Self(((lba as u64) << 32) | version as u64)
    }

    /// The sector that this was written to, and which write it was. Zeros are version 0 of any.
    pub fn parts(self) -> Option<(u32, u32)> {
        match self {
            Self::FILLER | Self::GARBAGE | Self::ZEROS => None,
            Self(word) => Some(((word >> 32) as u32, word as u32)),
        }
    }

    /// Whether this is an earlier write of the same sector.
    pub fn is_older_than(self, other: Self) -> bool {
        match (self.parts(), other.parts()) {
            (Some((lba, version)), Some(other)) => lba == other.0 && version < other.1,
            (None, Some(_)) => self == Self::ZEROS,
            _ => false,
        }
    }

    /// What the bytes of a sector are.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            return match bytes[0] {
                0 => Self::ZEROS,
                FILLER => Self::FILLER,
                _ => Self::GARBAGE,
            };
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let (Ok(lba), Ok(version)) = (u32::try_from(word(8)), u32::try_from(word(16))) else {
            return Self::GARBAGE;
        };
        let mut whole = [0; SECTOR];
        fill(&mut whole, lba, version);
        if version != 0 && whole == *bytes {
            Self::new(lba, version)
        } else {
            Self::GARBAGE
        }
    }
}

impl std::fmt::Display for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (*self, self.parts()) {
            (_, Some((lba, version))) => write!(f, "write {version} of sector {lba}"),
            (Self::ZEROS, _) => f.write_str("zeros"),
            (Self::FILLER, _) => f.write_str("what lay below"),
            _ => f.write_str("something never written"),
        }
    }
}

/// Fills `out` with write `version` of sector `lba`.
pub fn fill(out: &mut [u8], lba: u32, version: u32) {
    out[..8].copy_from_slice(&MAGIC);
    out[8..16].copy_from_slice(&u64::from(lba).to_le_bytes());
    out[16..HEADER].copy_from_slice(&u64::from(version).to_le_bytes());
    let mut random = Random::new(Tag::new(lba, version).0);
    for word in out[HEADER..SECTOR].chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_is_known_by_its_content() {
        let mut bytes = [0; SECTOR];
        assert_eq!(Tag::of(&bytes), Tag::ZEROS);
        for (lba, version) in [(0, 1), (7, 1), (u32::MAX - 1, 3)] {
            fill(&mut bytes, lba, version);
            assert_eq!(Tag::of(&bytes), Tag::new(lba, version));
            bytes[511] ^= 1;
            assert_eq!(Tag::of(&bytes), Tag::GARBAGE);
        }
        assert_eq!(Tag::of(&[FILLER; SECTOR]), Tag::FILLER);
        assert_eq!(Tag::of(&[1; SECTOR]), Tag::GARBAGE);
    }
}
