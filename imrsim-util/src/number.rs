// SPDX-License-Identifier: GPL-2.0-only

//! Numbers as people type and read them.

use std::{fmt, time::Duration};

use anyhow::{bail, ensure, Context, Result};

/// Bytes in a sector.
pub const SECTOR: u64 = 512;

/// The suffixes of a size and the bytes they stand for.
///
/// A `K` is 1,024 bytes, as for fio and dmsetup; who means 1,000 says `KB`, as on a drive's label.
const UNITS: [(&str, u64); 23] = [
    ("", 1),
    ("B", 1),
    ("s", SECTOR),
    ("k", 1 << 10),
    ("K", 1 << 10),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("KB", 1_000),
    ("m", 1 << 20),
    ("M", 1 << 20),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("g", 1 << 30),
    ("G", 1 << 30),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("t", 1 << 40),
    ("T", 1 << 40),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("P", 1 << 50),
    ("PiB", 1 << 50),
    ("PB", 1_000_000_000_000_000),
];

/// What [`parse_size`] accepts, for help texts.
pub const SIZE_HELP: &str =
    "bytes, or with a suffix: s (sectors of 512 bytes), K/KiB, M/MiB, G/GiB, T/TiB \
     (powers of 1024), KB, MB, GB, TB (powers of 1000)";

/// Reads a size in bytes: `4096`, `4k`, `256M`, `1GiB`, `1.5T`, `524288s`, `20TB`.
///
/// # Errors
///
/// If it is no such number, has an unknown suffix, is not a whole number of bytes or does not fit
/// 64 bits.
pub fn parse_size(text: &str) -> Result<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let Some(&(_, unit)) = UNITS.iter().find(|(name, _)| *name == suffix.trim_start()) else {
        bail!("'{text}' is not a size: expected {SIZE_HELP}");
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let malformed =
        whole.is_empty() || number.ends_with('.') || fraction.contains('.') || fraction.len() > 18;
    if malformed {
        bail!("'{text}' is not a size: expected {SIZE_HELP}");
    }
    let too_large = || format!("'{text}' is too large: sizes are below 2^64 bytes");
    let whole: u64 = whole.parse().with_context(too_large)?;
    let mut bytes = u128::from(whole) * u128::from(unit);
    if !fraction.is_empty() {
        let scale = 10_u128.pow(u32::try_from(fraction.len())?);
        let part = fraction.parse::<u128>()? * u128::from(unit);
        if part % scale != 0 {
            bail!("'{text}' is not a whole number of bytes");
        }
        bytes += part / scale;
    }
    u64::try_from(bytes).with_context(too_large)
}

/// Reads a whole number without sign or suffix.
///
/// # Errors
///
/// If it is not one or does not fit 64 bits.
pub fn parse_count(text: &str) -> Result<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        bail!("'{text}' is not a whole number");
    }
    text.parse()
        .with_context(|| format!("'{text}' is too large: numbers are below 2^64"))
}

/// Reads how many, at least one.
///
/// # Errors
///
/// If it is not a whole number, or 0.
pub fn parse_positive(text: &str) -> Result<u64> {
    let count = parse_count(text)?;
    ensure!(count > 0, "0 is too few: the least is 1");
    Ok(count)
}

/// Reads a span of time, at least a millisecond, as [`parse_time`].
///
/// # Errors
///
/// If it is not one.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let duration = parse_time(text)?;
    ensure!(
        duration >= Duration::from_millis(1),
        "'{text}' is too short: the least is 1ms"
    );
    Ok(duration)
}

/// Reads a time since some moment: `1s`, `500ms`, `2m`, or `1.5`, in seconds.
///
/// # Errors
///
/// If it is not one.
pub fn parse_time(text: &str) -> Result<Duration> {
    const EXPECTED: &str = "expected seconds, or with a suffix: ms, s, m (minutes), h (hours)";
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let unit = match suffix {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => bail!("'{text}' is not a time: {EXPECTED}"),
    };
    let seconds: f64 = number
        .parse()
        .with_context(|| format!("'{text}' is not a time: {EXPECTED}"))?;
    Duration::try_from_secs_f64(seconds * unit).with_context(|| format!("'{text}' is too long"))
}

/// Reads a time in whole microseconds: `250us`, `5ms`, `1.5s`, or `250`.
///
/// # Errors
///
/// If it is not one.
pub fn parse_micros(text: &str) -> Result<u64> {
    let malformed =
        || format!("'{text}' is not a time: expected microseconds, or with a suffix: us, ms, s");
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let zeros: usize = match suffix.trim_start() {
        "" | "us" => 0,
        "ms" => 3,
        "s" => 6,
        _ => bail!(malformed()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fits = !whole.is_empty() && !number.ends_with('.') && fraction.len() <= zeros;
    ensure!(fits, malformed());
    // The decimal point moves to the right.
    format!("{whole}{fraction:0<zeros$}")
        .parse()
        .with_context(malformed)
}

/// Reads a sector number: sectors, or bytes if it has a unit, `4k`, `256M`.
///
/// # Errors
///
/// If it is not one, or inside a sector.
pub fn parse_sectors(text: &str) -> Result<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_count(text);
    }
    let bytes = parse_size(text)?;
    ensure!(
        bytes.is_multiple_of(SECTOR),
        "'{text}' is not a whole number of sectors of {SECTOR} bytes"
    );
    Ok(bytes / SECTOR)
}

/// A time in microseconds, shown in the largest unit that leaves a whole number: `250 us`, `5 ms`,
/// `1 s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Micros(pub u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&in_thousands(self.0, &["us", "ms", "s"]))
    }
}

/// A number in the largest of some units, each a thousand of the one before, that leaves it whole.
fn in_thousands(mut number: u64, units: &[&str]) -> String {
    let mut units = units.iter();
    let mut unit = units.next().unwrap_or(&"");
    for larger in units {
        if number == 0 || !number.is_multiple_of(1000) {
            break;
        }
        number /= 1000;
        unit = larger;
    }
    format!("{number} {unit}")
}

/// A time in nanoseconds, shown with three digits or more: `512 ns`, `16.4 us`, `1.07 s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nanos(pub u64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            1_000..1_000_000 => (1_000_u64, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let unit = u128::from(unit);
        let number = u128::from(self.0);
        // Rounded half up, in whole numbers, so that nothing depends on floating point.
        let decimals = |scale: u128| {
            let scaled = (number * scale + unit / 2) / unit;
            (scaled / scale, scaled % scale)
        };
        f.pad(&match number / unit {
            0..10 => {
                let (whole, rest) = decimals(100);
                format!("{whole}.{rest:02} {name}")
            }
            10..100 => {
                let (whole, rest) = decimals(10);
                format!("{whole}.{rest} {name}")
            }
            _ => format!("{} {name}", decimals(1).0),
        })
    }
}

/// A number of bytes, shown in the largest unit that leaves a whole number, or else with two
/// decimals: `256 MiB`, `12.65 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut power = 0;
        for (index, _) in NAMES.iter().enumerate() {
            if self.0 >> (10 * index) != 0 {
                power = index;
            }
        }
        let unit = 1_u64 << (10 * power);
        let text = if self.0.is_multiple_of(unit) {
            format!("{} {}", self.0 / unit, NAMES[power])
        } else if self.0.is_multiple_of(unit >> 10) && self.0 / unit < 10 {
            // Exact in the next smaller unit: 1536 MiB says more than 1.50 GiB.
            format!("{} {}", self.0 / (unit >> 10), NAMES[power - 1])
        } else {
            let hundredths = u128::from(self.0) * 100 / u128::from(unit);
            format!(
                "{}.{:02} {}",
                hundredths / 100,
                hundredths % 100,
                NAMES[power]
            )
        };
        f.pad(&text)
    }
}

/// `part` of `whole` in per cent with two decimals; `-` of nothing.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let hundredths = u128::from(part) * 10_000 / u128::from(whole);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4096B", 4096),
            ("4k", 4 << 10),
            ("4K", 4 << 10),
            ("4 KiB", 4 << 10),
            ("4kB", 4000),
            ("256M", 256 << 20),
            ("256m", 256 << 20),
            ("1GiB", 1 << 30),
            ("1.5G", 3 << 29),
            ("0.5k", 512),
            ("20T", 20 << 40),
            ("20TB", 20_000_000_000_000),
            ("2P", 2 << 50),
            ("524288s", 256 << 20),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn not_sizes() {
        for text in [
            "",
            "k",
            ".5k",
            "5.k",
            "1.2.3k",
            "-1",
            "+1",
            "1e3",
            "4kb",
            "4gib",
            "4x",
            "0x10",
            "4 4",
            "1,000",
            "18446744073709551616",
            "16777216T",
            "1.0001k",
            "0.1s",
            "١",
            "0.1234567890123456789T",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts() {
        assert_eq!(parse_count("0").unwrap(), 0);
        assert_eq!(parse_count("18446744073709551615").unwrap(), u64::MAX);
        for text in ["", "-1", "+1", "1k", " 1", "18446744073709551616", "1.0"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, millis) in [
            ("1s", 1000),
            ("1", 1000),
            ("0.5", 500),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(text).unwrap(), duration, "{text}");
        }
        for text in [
            "",
            "s",
            "0",
            "0.1ms",
            "-1",
            "1 s",
            "1d",
            "1.2.3",
            "1e9",
            "inf",
            "NaN",
            "9".repeat(30).as_str(),
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, micros) in [
            ("0", 0),
            ("250", 250),
            ("250us", 250),
            ("5ms", 5000),
            ("5 ms", 5000),
            ("1s", 1_000_000),
            ("1.5s", 1_500_000),
            ("0.001ms", 1),
        ] {
            assert_eq!(parse_micros(text).unwrap(), micros, "{text}");
        }
        for text in [
            "", "us", ".5s", "1.s", "1.5us", "0.0001ms", "-1", "1m", "1S", "1e3",
        ] {
            assert!(parse_micros(text).is_err(), "{text}");
        }
        for (micros, text) in [
            (0, "0 us"),
            (250, "250 us"),
            (5000, "5 ms"),
            (1_500_000, "1500 ms"),
        ] {
            assert_eq!(Micros(micros).to_string(), text);
        }
        for (nanos, text) in [
            (0, "0 ns"),
            (512, "512 ns"),
            (1024, "1.02 us"),
            (2048, "2.05 us"),
            (9_999, "10.00 us"),
            (16384, "16.4 us"),
            (131_072, "131 us"),
            (1 << 30, "1.07 s"),
            (1_000_000_000_000, "1000 s"),
        ] {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn sector_numbers() {
        for (text, sectors) in [
            ("0", 0),
            ("8", 8),
            ("4k", 8),
            ("1MiB", 2048),
            ("7s", 7),
            ("512B", 1),
        ] {
            assert_eq!(parse_sectors(text).unwrap(), sectors, "{text}");
        }
        for text in ["", "-1", "513B", "1KB", "x"] {
            assert!(parse_sectors(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_read_well() {
        for (bytes, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (1 << 10, "1 KiB"),
            (1536, "1536 B"),
            (256 << 20, "256 MiB"),
            (3 << 29, "1536 MiB"),
            (51 << 28, "12.75 GiB"),
            (13_580_000_000, "12.64 GiB"),
            (20 << 40, "20 TiB"),
            (u64::MAX, "15.99 EiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        assert_eq!(format!("{:>8}|", Bytes(512)), "   512 B|");
    }

    #[test]
    fn shown_sizes_are_read_back() {
        for bytes in [0, 1, 512, 4096, 256 << 20, 3 << 29, 1 << 40] {
            assert_eq!(parse_size(&Bytes(bytes).to_string()).unwrap(), bytes);
        }
    }

    #[test]
    fn percentages() {
        assert_eq!(percent(0, 0), "-");
        assert_eq!(percent(36_352, 65_536), "55.46 %");
        assert_eq!(percent(7, 7), "100.00 %");
    }
}
