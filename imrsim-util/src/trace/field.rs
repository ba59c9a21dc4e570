// SPDX-License-Identifier: GPL-2.0-only

//! The fields of a line, read strictly: what is no number is none, and nothing wraps around.

use memchr::memchr_iter;

use super::Op;
use crate::number::SECTOR;

/// The most bytes of a request: neither Linux nor fio has longer ones, so a larger number is in
/// the wrong column or unit.
pub const MAX_LEN: u64 = u32::MAX as u64;

/// Quotes a piece of a line for a message, shortened.
pub(super) fn quote(text: &[u8]) -> String {
    const MAX: usize = 40;
    let text = String::from_utf8_lossy(text);
    let mut short: String = text
        .chars()
        .take(MAX)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(MAX).is_some() {
        short.push_str("...");
    }
    format!("'{short}'")
}

/// The fields between the commas of a line, without blanks around them. `Err` is how many there
/// are if not `N`.
pub(super) fn comma_fields<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], usize> {
    let mut fields = [&line[..0]; N];
    let mut count = 0;
    let mut start = 0;
    for end in memchr_iter(b',', line).chain([line.len()]) {
        if let Some(slot) = fields.get_mut(count) {
            *slot = line[start..end].trim_ascii();
        }
        count += 1;
        start = end + 1;
    }
    if count == N {
        Ok(fields)
    } else {
        Err(count)
    }
}

/// The first `N` words of a line, and how many there are of them, at most `N`.
pub(super) fn words<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    let mut words = [&line[..0]; N];
    let mut count = 0;
    let all = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    for (slot, word) in words.iter_mut().zip(all) {
        *slot = word;
        count += 1;
    }
    (words, count)
}

/// Reads a whole number: digits only.
pub(super) fn number(name: &str, text: &[u8]) -> Result<u64, String> {
    // So many digits always fit.
    const SHORT: usize = 19;
    let mut value = 0_u64;
    let mut all_digits = true;
    for byte in &text[..text.len().min(SHORT)] {
        let digit = byte.wrapping_sub(b'0');
        all_digits &= digit <= 9;
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    if all_digits && !text.is_empty() && text.len() <= SHORT {
        return Ok(value);
    }
    long_number(name, text)
}

/// The same for what is rare: long numbers, and none.
#[cold]
fn long_number(name: &str, text: &[u8]) -> Result<u64, String> {
    if text.is_empty() {
        return Err(format!("{name} is missing"));
    }
    match std::str::from_utf8(text) {
        Ok(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
            .parse()
            .map_err(|_| format!("{name} {} does not fit 64 bits", quote(text))),
        _ => Err(format!("{name} {} is not a whole number", quote(text))),
    }
}

/// Reads a decimal number in units of its last of `places` places; what is behind them is cut off.
pub(super) fn decimal(name: &str, text: &[u8], places: u32) -> Result<u64, String> {
    if text.is_empty() {
        return Err(format!("{name} is missing"));
    }
    let point = memchr::memchr(b'.', text);
    let (whole, fraction) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &text[..0]),
    };
    let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    let complete = !whole.is_empty() && (point.is_none() || !fraction.is_empty());
    if !complete || !digits(whole) || !digits(fraction) {
        return Err(format!("{name} {} is not a decimal number", quote(text)));
    }
    let padded = fraction.iter().chain(std::iter::repeat(&b'0'));
    let places = usize::try_from(places).unwrap_or(usize::MAX);
    let mut value = 0_u64;
    for digit in whole.iter().chain(padded.take(places)) {
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')))
            .ok_or_else(|| format!("{name} {} is too large for 64 bits of ns", quote(text)))?;
    }
    Ok(value)
}

/// Reads a number of units of `unit` bytes, and returns bytes.
pub(super) fn bytes(name: &str, text: &[u8], unit: u64) -> Result<u64, String> {
    number(name, text)?
        .checked_mul(unit)
        .ok_or_else(|| format!("{name} {} is 2^64 bytes or more", quote(text)))
}

/// Reads a number of sectors of 512 bytes, and returns bytes.
pub(super) fn sectors(name: &str, text: &[u8]) -> Result<u64, String> {
    bytes(name, text, SECTOR)
}

/// Reads what a request does, as one letter.
pub(super) fn read_or_write(name: &str, text: &[u8]) -> Result<Op, String> {
    match text {
        b"R" | b"r" => Ok(Op::Read),
        b"W" | b"w" => Ok(Op::Write),
        b"" => Err(format!("{name} is missing")),
        _ => Err(format!("{name} {} is neither R nor W", quote(text))),
    }
}

/// Checks the place of a request that moves data.
pub(super) fn check_extent(offset: u64, len: u64) -> Result<(), String> {
    if len == 0 {
        return Err("size is 0".to_owned());
    }
    if len > MAX_LEN {
        return Err(format!(
            "size {len} is 4 GiB or more, which no request can be"
        ));
    }
    if offset.checked_add(len).is_none() {
        return Err("offset + size does not fit 64 bits".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number("n", b"0"), Ok(0));
        assert_eq!(number("n", b"18446744073709551615"), Ok(u64::MAX));
        for text in ["", "-1", "+1", " 1", "1.0", "1e3", "0x1", "\u{661}"] {
            assert!(number("n", text.as_bytes()).is_err(), "{text}");
        }
        let error = number("n", b"18446744073709551616").unwrap_err();
        assert!(error.contains("does not fit"), "{error}");
        assert_eq!(sectors("n", b"36028797018963967"), Ok(u64::MAX - 511));
        assert!(sectors("n", b"36028797018963968").is_err());
    }

    #[test]
    fn decimals() {
        for (text, places, value) in [
            ("0", 9, 0),
            ("1", 9, 1_000_000_000),
            ("1.5", 9, 1_500_000_000),
            ("1456095145.133076000", 9, 1_456_095_145_133_076_000),
            ("0.0000000019", 9, 1),
            ("12.5", 0, 12),
            ("00001.000001", 6, 1_000_001),
        ] {
            assert_eq!(decimal("t", text.as_bytes(), places), Ok(value), "{text}");
        }
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "1e3",
            "1.2.3",
            "inf",
            "NaN",
            "18446744074",
        ] {
            assert!(decimal("t", text.as_bytes(), 9).is_err(), "{text}");
        }
    }

    #[test]
    fn fields() {
        assert_eq!(comma_fields::<3>(b"a, b ,"), Ok([&b"a"[..], b"b", b""]));
        assert_eq!(comma_fields::<3>(b"a,b"), Err(2));
        assert_eq!(comma_fields::<3>(b"a,b,c,d"), Err(4));
        assert_eq!(words::<2>(b"a \t b c"), ([&b"a"[..], b"b"], 2));
        assert_eq!(words::<2>(b"a"), ([&b"a"[..], b""], 1));
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_the_standard_library(text in "[0-9]{1,22}") {
            prop_assert_eq!(number("n", text.as_bytes()).ok(), text.parse::<u64>().ok());
        }
    }
}
