// SPDX-License-Identifier: GPL-2.0-only

//! Generates synthetic traces, for when there is no real one.
//!
//! **They are random numbers, not recordings.** The presets have the numbers of reads and writes,
//! the bytes and so the mean sizes that are given in the literature for four MSR Cambridge traces,
//! spread over a week. Everything else is assumed: the mix of sizes, the footprint, which blocks are popular,
//! what is sequential, and when requests come.
//!
//! Popularity follows a Zipf-like law over the blocks of the footprint: the block of rank r is
//! chosen with a density of r^-skew. The ranks are scattered over the footprint, and the footprint
//! in extents of a MiB over the device, one at a random place in each of as many equal parts.

use anyhow::{bail, ensure, Context, Result};

use super::{Op, Record, Source, Writer};
use crate::{number::parse_size, rng::Rng};

/// The unit of popularity and of footprints in bytes.
const BLOCK: u64 = 4096;

/// Bytes of the footprint that lie together.
const EXTENT: u64 = 1 << 20;

/// Seconds in the week that the presets are spread over.
const WEEK: f64 = 604_800.0;

/// Sizes of requests in bytes and their weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(Vec<(u64, f64)>);

impl Sizes {
    /// Powers of two from 4 to 128 KiB, mixed so that the mean is `mean` bytes: each is so many
    /// times as frequent as the one below.
    ///
    /// # Errors
    ///
    /// If the mean is not between them.
    pub fn with_mean(mean: f64) -> Result<Self> {
        let sizes: Vec<u64> = (0..6).map(|power| BLOCK << power).collect();
        let (least, most) = (sizes[0] as f64, sizes[5] as f64);
        ensure!(
            (least..=most).contains(&mean),
            "a mean size is from {least} to {most} bytes"
        );
        let mix = |factor: f64| {
            let weights = (0..6).map(|power| factor.powi(power));
            Self(sizes.iter().copied().zip(weights).collect())
        };
        let (mut low, mut high) = (0.0, 1e6);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if mix(middle).mean() < mean {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(mix(low))
    }

    /// The mean in bytes.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self
            .0
            .iter()
            .map(|(size, weight)| *size as f64 * weight)
            .sum();
        sum / self.weight()
    }

    fn weight(&self) -> f64 {
        self.0.iter().map(|(_, weight)| weight).sum()
    }

    /// The size at `place`, 0 to 1, of all sizes laid side by side by weight.
    fn at(&self, place: f64) -> u64 {
        let mut left = place * self.weight();
        for (size, weight) in &self.0 {
            if left < *weight {
                return *size;
            }
            left -= weight;
        }
        self.0.last().map_or(BLOCK, |(size, _)| *size)
    }
}

/// Chooses sizes so that even short traces have about their mean: of so many choices, one falls in
/// each of as many equal parts of the distribution.
#[derive(Debug)]
struct Chooser<'a> {
    sizes: &'a Sizes,
    parts: [u8; 64],
    next: usize,
}

impl<'a> Chooser<'a> {
    fn new(sizes: &'a Sizes) -> Self {
        let mut parts = [0; 64];
        for (part, number) in parts.iter_mut().zip(0..) {
            *part = number;
        }
        Self {
            sizes,
            parts,
            next: 0,
        }
    }

    fn choose(&mut self, rng: &mut Rng) -> u64 {
        if self.next == 0 {
            rng.shuffle(&mut self.parts);
        }
        let part = f64::from(self.parts[self.next]);
        self.next = (self.next + 1) % self.parts.len();
        self.sizes.at((part + unit(rng)) / self.parts.len() as f64)
    }
}

impl std::str::FromStr for Sizes {
    type Err = anyhow::Error;

    /// Reads `4k`, or sizes and their weights, `4k:70,64k:30`, or `mean:8.3k`.
    fn from_str(text: &str) -> Result<Self> {
        if let Some(mean) = text.strip_prefix("mean:") {
            return Self::with_mean(parse_size(mean)? as f64);
        }
        let mut sizes = Vec::new();
        for part in text.split(',') {
            let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
            let size = parse_size(size)?;
            ensure!(
                size > 0 && size <= EXTENT && size.is_multiple_of(512),
                "sizes are multiples of 512 bytes up to {EXTENT}, not {size}"
            );
            let weight: u32 = weight
                .parse()
                .with_context(|| format!("'{weight}' is not a weight: expected a whole number"))?;
            sizes.push((size, f64::from(weight)));
        }
        let sizes = Self(sizes);
        ensure!(sizes.weight() > 0.0, "all weights are 0");
        Ok(sizes)
    }
}

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrival {
    /// At random, independent of each other.
    Poisson,
    /// At equal distances.
    Fixed,
}

/// The traces whose published numbers can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Preset {
    /// A hardware monitoring server, volume 0.
    #[value(name = "hm_0")]
    Hm0,
    /// A server for project directories, volume 0.
    #[value(name = "proj_0")]
    Proj0,
    /// A source control server, volume 2.
    #[value(name = "src1_2")]
    Src1_2,
    /// Another source control server, volume 2.
    #[value(name = "src2_2")]
    Src2_2,
}

/// What is published of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// GiB read.
    pub read_gib: f64,
    /// GiB written.
    pub write_gib: f64,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Hm0, Self::Proj0, Self::Src1_2, Self::Src2_2];

    /// Numbers that are usual for the trace in the literature: requests, write ratio and mean sizes.
    /// They were not checked against the recording, so the last digits may differ.
    pub fn published(self) -> Published {
        let (reads, writes, read_gib, write_gib) = match self {
            Self::Hm0 => (1_417_213, 2_576_103, 9.96, 20.48),
            Self::Proj0 => (527_381, 3_697_143, 8.97, 144.27),
            Self::Src1_2 => (484_079, 1_423_694, 8.82, 44.14),
            Self::Src2_2 => (350_930, 805_955, 22.78, 39.26),
        };
        Published {
            reads,
            writes,
            read_gib,
            write_gib,
        }
    }

    /// The trace's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hm0 => "hm_0",
            Self::Proj0 => "proj_0",
            Self::Src1_2 => "src1_2",
            Self::Src2_2 => "src2_2",
        }
    }

    /// Options for a trace with the published numbers. Span and footprint are assumed, such that
    /// the trace fits a device of 128 GiB.
    ///
    /// # Errors
    ///
    /// None for the presets there are.
    pub fn options(self, seed: u64) -> Result<Options> {
        const GIB: f64 = (1_u64 << 30) as f64;
        let published = self.published();
        let (span, footprint) = match self {
            Self::Hm0 => (13 << 30, 2 << 30),
            Self::Proj0 => (16 << 30, 3 << 30),
            Self::Src1_2 => (8 << 30, 2 << 30),
            Self::Src2_2 => (120 << 30, 20 << 30),
        };
        let mean = |gib: f64, count: u64| Sizes::with_mean(gib * GIB / count as f64);
        let requests = published.reads + published.writes;
        Ok(Options {
            requests,
            reads: published.reads as f64 / requests as f64,
            read_sizes: mean(published.read_gib, published.reads)?,
            write_sizes: mean(published.write_gib, published.writes)?,
            span,
            footprint,
            skew: 0.9,
            sequential: 0.2,
            arrival: Arrival::Poisson,
            interval: WEEK / requests as f64,
            seed,
        })
    }
}

/// What to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Requests.
    pub requests: u64,
    /// Reads of them, 0 to 1; exactly, but for rounding to whole requests.
    pub reads: f64,
    /// Sizes of reads.
    pub read_sizes: Sizes,
    /// Sizes of writes.
    pub write_sizes: Sizes,
    /// Bytes that all requests lie in.
    pub span: u64,
    /// Bytes of these that are ever touched, at most.
    pub footprint: u64,
    /// 0 for all blocks equally popular; the higher, the more goes to few.
    pub skew: f64,
    /// Requests that go on where the one of the same kind before ended, 0 to 1.
    pub sequential: f64,
    /// When requests come.
    pub arrival: Arrival,
    /// Mean seconds between two.
    pub interval: f64,
    /// What the random choices depend on.
    pub seed: u64,
}

impl Options {
    /// Checks that there can be such a trace.
    ///
    /// # Errors
    ///
    /// If span or footprint are too small, or a number is out of its range.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.footprint >= EXTENT,
            "a trace needs a footprint of at least {EXTENT} bytes"
        );
        ensure!(
            self.span >= self.footprint,
            "a footprint of {} bytes does not fit a span of {}",
            self.footprint,
            self.span
        );
        ensure!(
            (0.0..=1.0).contains(&self.reads) && (0.0..=1.0).contains(&self.sequential),
            "shares are from 0 to 100 %"
        );
        ensure!(
            (0.0..=10.0).contains(&self.skew),
            "a skew is from 0 to 10, not {}",
            self.skew
        );
        if !(self.interval >= 0.0 && self.interval * self.requests as f64 <= 1e9) {
            bail!("a trace lasts at most 10^9 seconds");
        }
        Ok(())
    }
}

/// A random number from 0 to below 1.
fn unit(rng: &mut Rng) -> f64 {
    // The 53 bits that fit.
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Chooses blocks by popularity.
#[derive(Debug)]
struct Popularity {
    blocks: u64,
    skew: f64,
    /// Has no common divisor with `blocks`, so that multiplying scatters the ranks over all.
    stride: u64,
}

impl Popularity {
    fn new(blocks: u64, skew: f64) -> Self {
        fn divisor(a: u64, b: u64) -> u64 {
            if b == 0 {
                a
            } else {
                divisor(b, a % b)
            }
        }
        // About the golden ratio of all.
        let mut stride = (blocks as f64 * 0.618_034) as u64 | 1;
        while divisor(blocks, stride) > 1 {
            stride += 2;
        }
        Self {
            blocks,
            skew,
            stride,
        }
    }

    fn choose(&self, rng: &mut Rng) -> u64 {
        // The inverse of the distribution with density r^-skew on [1, blocks + 1).
        let (u, most) = (unit(rng), self.blocks as f64 + 1.0);
        let power = 1.0 - self.skew;
        let rank = if power.abs() < 1e-9 {
            most.powf(u)
        } else {
            (1.0 + u * (most.powf(power) - 1.0)).powf(1.0 / power)
        };
        let rank = (rank as u64).clamp(1, self.blocks) - 1;
        let scattered = u128::from(rank) * u128::from(self.stride) % u128::from(self.blocks);
        // Below `blocks`.
        scattered as u64
    }
}

/// Writes a synthetic trace.
///
/// # Errors
///
/// If there can be none with these options, or `writer` fails.
pub fn generate(options: &Options, writer: &mut dyn Writer) -> Result<()> {
    options.check()?;
    let source = Source {
        host: "synth".to_owned(),
        disk: "0".to_owned(),
    };
    let mut rng = Rng::new(options.seed);
    let extents = options.footprint / EXTENT;
    let popularity = Popularity::new(extents * (EXTENT / BLOCK), options.skew);
    let all_extents = options.span / EXTENT;
    // Each extent of the footprint has a part of the span, and a random place in it. At equal distances,
    // they could all lie at the same place of a drive's track groups.
    let scattered = rng.clone().next_u64();
    let place = |extent: u64| {
        let part = |extent: u64| {
            let at = u128::from(extent) * u128::from(all_extents) / u128::from(extents);
            // At most `all_extents`.
            at as u64
        };
        let (first, behind) = (part(extent), part(extent + 1));
        let shift = Rng::new(scattered.wrapping_add(extent)).below(behind - first);
        (first + shift) * EXTENT
    };
    let mut reads_left = (options.reads * options.requests as f64).round() as u64;
    // Of writes and of reads.
    let mut choosers = [&options.write_sizes, &options.read_sizes].map(Chooser::new);
    // Of writes and of reads, the extent and the byte in it where the last one ended.
    let mut ends = [(0, 0); 2];
    let mut time = 0.0;
    for line in 1..=options.requests {
        let left = options.requests - line + 1;
        let read = rng.below(left) < reads_left;
        reads_left -= u64::from(read);
        let len = choosers[usize::from(read)].choose(&mut rng);
        let end = &mut ends[usize::from(read)];
        let (extent, at) = if unit(&mut rng) < options.sequential {
            let (extent, at) = *end;
            if at + len <= EXTENT {
                (extent, at)
            } else {
                ((extent + 1) % extents, 0)
            }
        } else {
            let byte = popularity.choose(&mut rng) * BLOCK;
            (byte / EXTENT, (byte % EXTENT).min(EXTENT - len))
        };
        *end = (extent, at + len);
        let record = Record {
            line,
            time: Some((time * 1e9) as u64),
            op: if read { Op::Read } else { Op::Write },
            offset: place(extent) + at,
            len,
            response: None,
            source: 0,
        };
        writer.write(&record, &source)?;
        time += match options.arrival {
            Arrival::Fixed => options.interval,
            // An exponential distribution; the logarithm's argument is above 0.
            Arrival::Poisson => -(1.0 - unit(&mut rng)).ln() * options.interval,
        };
    }
    writer.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for mean in [4096.0, 7555.0, 32_768.0, 69_700.0, 131_072.0] {
            let sizes = Sizes::with_mean(mean).unwrap();
            assert!((sizes.mean() / mean - 1.0).abs() < 0.001, "{mean}");
        }
        assert!(Sizes::with_mean(4000.0).is_err());
        let sizes: Sizes = "4k:3,16k:1".parse().unwrap();
        assert_eq!(sizes.mean(), 7168.0);
        let mut rng = Rng::new(1);
        let mut chooser = Chooser::new(&sizes);
        let small = (0..10_000)
            .filter(|_| chooser.choose(&mut rng) == 4096)
            .count();
        assert!((7300..7700).contains(&small), "{small}");
        for text in ["", "4k:", "4k:x", "1", "4k:0", "2M", "mean:1k"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }

    /// Offsets of the requests.
    struct Offsets(Vec<u64>);

    impl Writer for Offsets {
        fn check(&self, _: &Record, _: &Source) -> Result<(), String> {
            Ok(())
        }

        fn write(&mut self, record: &Record, _: &Source) -> std::io::Result<()> {
            self.0.push(record.offset);
            Ok(())
        }

        fn finish(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn extents_are_not_in_step_with_track_groups() {
        // Bytes of a track group of the usual geometry.
        const GROUP: u64 = 4 << 20;
        for preset in Preset::ALL {
            let options = Options {
                requests: 10_000,
                sequential: 0.0,
                skew: 0.0,
                ..preset.options(1).unwrap()
            };
            let mut offsets = Offsets(Vec::new());
            generate(&options, &mut offsets).unwrap();
            let mut places = [0; 4];
            for offset in offsets.0 {
                assert!(offset < options.span);
                places[(offset % GROUP / EXTENT) as usize] += 1;
            }
            assert!(
                places.iter().all(|count| (2200..2800).contains(count)),
                "{}: {places:?}",
                preset.name()
            );
        }
    }

    #[test]
    fn popularity_is_skewed_and_reaches_all() {
        let blocks = 1000;
        let mut top = Vec::new();
        for skew in [0.0, 0.9, 1.0, 1.5] {
            let popularity = Popularity::new(blocks, skew);
            let mut rng = Rng::new(1);
            let mut counts = vec![0_u32; 1000];
            for _ in 0..100_000 {
                counts[popularity.choose(&mut rng) as usize] += 1;
            }
            counts.sort_unstable();
            counts.reverse();
            if skew < 1.0 {
                assert!(counts[999] > 0, "{skew}");
            }
            top.push(counts[..100].iter().sum::<u32>());
        }
        assert!(top[0] < 13_000, "{top:?}");
        assert!(top.is_sorted() && top[1] > 50_000, "{top:?}");
    }
}
