// SPDX-License-Identifier: GPL-2.0-only

//! A set of blocks.

/// A set of numbers below a length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
    len: u32,
}

impl Bits {
    /// The empty set of numbers below `len`.
    pub fn new(len: u32) -> Self {
        Self {
            // CAST: widens.
            words: vec![0; len.div_ceil(u64::BITS) as usize],
            len,
        }
    }

    /// What all numbers are below.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no number in it.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether `at` is in it.
    pub fn get(&self, at: u32) -> bool {
        // CAST: widens.
        let word = self.words.get((at / u64::BITS) as usize);
        word.is_some_and(|word| word >> (at % u64::BITS) & 1 == 1)
    }

    /// Puts `at` into it, or takes it out. Returns whether that changed anything; of numbers that are
    /// not below the length, it does not.
    pub fn set(&mut self, at: u32, to: bool) -> bool {
        // CAST: widens.
        let word = self.words.get_mut((at / u64::BITS) as usize);
        let Some(word) = word.filter(|_| at < self.len) else {
            return false;
        };
        let bit = 1 << (at % u64::BITS);
        let was = *word & bit != 0;
        *word = if to { *word | bit } else { *word & !bit };
        was != to
    }

    /// How many numbers are in it.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The runs of consecutive numbers in it, in order: the first, and how many.
    pub fn runs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = (at..self.len).find(|at| self.get(*at))?;
            let end = (first..self.len).find(|at| !self.get(*at));
            at = end.unwrap_or(self.len);
            Some((first, at - first))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_knows_its_runs() {
        let mut bits = Bits::new(130);
        assert!(bits.is_empty());
        for at in [0, 1, 63, 64, 65, 129] {
            assert!(bits.set(at, true));
            assert!(!bits.set(at, true));
        }
        assert!(!bits.set(130, true) && !bits.get(130));
        assert_eq!(bits.count(), 6);
        let runs: Vec<_> = bits.runs().collect();
        assert_eq!(runs, [(0, 2), (63, 3), (129, 1)]);
        assert!(bits.set(64, false));
        assert_eq!(bits.runs().count(), 4);
    }
}
