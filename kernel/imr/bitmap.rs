// SPDX-License-Identifier: GPL-2.0-only

//! Operations on runs of bits in a slice of 64-bit words, a word at a time.
//!
//! Bit `i` is bit `i % 64` of word `i / 64`. Bits beyond the end of the slice read as 0 and ignore
//! writes: no argument makes these functions panic.

use super::num;

/// Bits in a word.
pub(super) const WORD: u32 = u64::BITS;

/// How many words hold `bits` bits.
pub(super) const fn words(bits: u32) -> usize {
    num::index(bits.div_ceil(WORD))
}

/// The low `n` bits set; all of them if `n >= 64`.
#[inline]
pub(super) const fn low_mask(n: u32) -> u64 {
    match u64::MAX.checked_shr(WORD.saturating_sub(n)) {
        Some(mask) => mask,
        None => 0,
    }
}

#[inline(always)]
fn word(words: &[u64], index: usize) -> u64 {
    words.get(index).copied().unwrap_or(0)
}

/// Whether bit `at` is set.
#[inline(always)]
pub(super) fn get(words: &[u64], at: u32) -> bool {
    (word(words, num::index(at / WORD)) >> (at % WORD)) & 1 == 1
}

/// Sets bit `at`.
#[inline(always)]
pub(super) fn set_one(words: &mut [u64], at: u32) {
    if let Some(word) = words.get_mut(num::index(at / WORD)) {
        *word |= 1 << (at % WORD);
    }
}

/// Clears bit `at`.
#[inline(always)]
pub(super) fn clear_one(words: &mut [u64], at: u32) {
    if let Some(word) = words.get_mut(num::index(at / WORD)) {
        *word &= !(1 << (at % WORD));
    }
}

/// The `n` bits from `at` on, bit `at` lowest; of more than 64 the first 64.
#[inline]
pub(super) fn window(words: &[u64], at: u32, n: u32) -> u64 {
    let (first, shift) = (num::index(at / WORD), at % WORD);
    let mut bits = word(words, first) >> shift;
    if shift != 0 {
        bits |= word(words, first + 1) << (WORD - shift);
    }
    bits & low_mask(n)
}

/// The words, with the bits of each, over which `mask` lies when its bit 0 is put on bit `at`.
#[inline]
pub(super) fn spread(at: u32, mask: u64) -> [(usize, u64); 2] {
    let (first, shift) = (num::index(at / WORD), at % WORD);
    let high = if shift == 0 {
        0
    } else {
        mask >> (WORD - shift)
    };
    [(first, mask << shift), (first + 1, high)]
}

/// The word that holds all of the `n` bits from `at` on, and which of its bits they are; `None` if
/// they lie in several words. Most requests are short, and this is their short way.
#[inline]
fn in_one_word(at: u32, n: u32) -> Option<(usize, u64)> {
    let shift = at % WORD;
    (n <= WORD - shift).then(|| (num::index(at / WORD), low_mask(n) << shift))
}

/// The words, with the bits of each, that the `n` bits from `at` on occupy.
#[inline]
fn pieces(at: u32, n: u32) -> impl Iterator<Item = (usize, u64)> {
    let end = at.saturating_add(n);
    let mut next = at;
    core::iter::from_fn(move || {
        if next >= end {
            return None;
        }
        let (index, shift) = (num::index(next / WORD), next % WORD);
        let len = (WORD - shift).min(end - next);
        next += len;
        Some((index, low_mask(len) << shift))
    })
}

/// Whether any of the `n` bits from `at` on is set.
#[inline]
pub(super) fn any(words: &[u64], at: u32, n: u32) -> bool {
    match in_one_word(at, n) {
        Some((index, mask)) => word(words, index) & mask != 0,
        None => pieces(at, n).any(|(index, mask)| word(words, index) & mask != 0),
    }
}

/// How many bits are set.
pub(super) fn count(words: &[u64]) -> u32 {
    words.iter().map(|word| word.count_ones()).sum()
}

/// Sets the `n` bits from `at` on.
#[inline]
pub(super) fn set(words: &mut [u64], at: u32, n: u32) {
    change(words, at, n, |word, mask| word | mask);
}

/// Clears the `n` bits from `at` on.
#[inline]
pub(super) fn clear(words: &mut [u64], at: u32, n: u32) {
    change(words, at, n, |word, mask| word & !mask);
}

/// Changes each word in which the `n` bits from `at` on lie; `f` gets the word and those bits.
#[inline]
fn change(words: &mut [u64], at: u32, n: u32, f: impl Fn(u64, u64) -> u64) {
    let mut apply = |index, mask| {
        if let Some(word) = words.get_mut(index) {
            *word = f(*word, mask);
        }
    };
    match in_one_word(at, n) {
        Some((index, mask)) => apply(index, mask),
        None => pieces(at, n).for_each(|(index, mask)| apply(index, mask)),
    }
}

/// How many bits from `at` on, at most `n`, are set (if `set`) or clear (if not) without a break.
#[inline]
pub(super) fn run(words: &[u64], at: u32, n: u32, set: bool) -> u32 {
    let (index, shift) = (num::index(at / WORD), at % WORD);
    // Now the first set bit ends the run.
    let flip = if set { u64::MAX } else { 0 };
    let len = ((word(words, index) ^ flip) >> shift).trailing_zeros();
    let room = WORD - shift;
    if len < room || n <= room {
        return len.min(n);
    }
    let mut len = room;
    let mut rest = words.get(index + 1..).unwrap_or(&[]).iter();
    while len < n {
        let more = (rest.next().unwrap_or(&0) ^ flip).trailing_zeros();
        len += more;
        if more < WORD {
            break;
        }
    }
    len.min(n)
}
