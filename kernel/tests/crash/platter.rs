// SPDX-License-Identifier: GPL-2.0-only

//! A disk with a volatile cache, on which the power can fail at any moment.
//!
//! What was written lies in the cache until a flush, or its own FUA, puts it on the platter. When
//! the power fails, each sector of 512 bytes keeps, by chance, what is on the platter or any of the
//! versions in the cache: so writes are lost, reordered and torn. Metadata is kept as bytes. Of
//! data, only a number is kept for each half of a block.

use std::collections::BTreeMap;

use imrsim_core::ondisk::Disk;

/// Reproducible chance.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        // splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The power has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PowerCut;

/// Things in numbered places, with a volatile cache.
#[derive(Clone, Debug)]
struct Cached<T> {
    platter: Vec<T>,
    /// For each place with something in the cache, all its versions, the newest last.
    cache: BTreeMap<usize, Vec<T>>,
}

impl<T: Copy> Cached<T> {
    fn new(len: usize, value: T) -> Self {
        Self {
            platter: vec![value; len],
            cache: BTreeMap::new(),
        }
    }

    fn read(&self, at: usize) -> T {
        let newest = self.cache.get(&at).and_then(|versions| versions.last());
        newest.copied().unwrap_or_else(|| self.platter[at])
    }

    fn write(&mut self, at: usize, value: T) {
        self.cache.entry(at).or_default().push(value);
    }

    fn persist(&mut self, at: usize) {
        if let Some(versions) = self.cache.remove(&at) {
            self.platter[at] = *versions.last().unwrap();
        }
    }

    fn flush(&mut self) {
        for (at, versions) in std::mem::take(&mut self.cache) {
            self.platter[at] = *versions.last().unwrap();
        }
    }

    /// What stays of each place is up to `choose`, which gets the place and the number of versions
    /// in the cache, and says which of them it is; none if there are not so many.
    fn cut_power(&mut self, mut choose: impl FnMut(usize, u64) -> u64) {
        for (at, versions) in std::mem::take(&mut self.cache) {
            let choice = choose(at, versions.len() as u64) as usize;
            if let Some(value) = versions.get(choice) {
                self.platter[at] = *value;
            }
        }
    }
}

pub(crate) const SECTOR: usize = 512;

/// A disk: data zones, and metadata behind them.
#[derive(Clone, Debug)]
pub(crate) struct Platter {
    data_sectors: u64,
    meta: Cached<[u8; SECTOR]>,
    data: Cached<u64>,
    pub(crate) chance: Chance,
    /// After so many steps the power fails.
    pub(crate) fuse: u64,
    /// Bytes of metadata written.
    pub(crate) written: u64,
}

impl Platter {
    pub(crate) fn new(data_sectors: u64, metadata_sectors: u64, chance: Chance) -> Self {
        Self {
            data_sectors,
            meta: Cached::new(metadata_sectors as usize, [0; SECTOR]),
            data: Cached::new(data_sectors as usize / 4, 0),
            chance,
            fuse: u64::MAX,
            written: 0,
        }
    }

    pub(crate) fn step(&mut self) -> Result<(), PowerCut> {
        self.fuse = self.fuse.saturating_sub(1);
        if self.fuse == 0 {
            Err(PowerCut)
        } else {
            Ok(())
        }
    }

    /// Sends metadata to the disk.
    pub(crate) fn submit(&mut self, sector: u64, bytes: &[u8]) -> Result<(), PowerCut> {
        assert!(bytes.len() % 4096 == 0 && sector % 8 == 0);
        self.written += bytes.len() as u64;
        let first = (sector - self.data_sectors) as usize;
        for (bytes, at) in bytes.chunks_exact(SECTOR).zip(first..) {
            self.meta.write(at, bytes.try_into().unwrap());
        }
        self.step()
    }

    /// Waits until what was sent with FUA is on the platter.
    pub(crate) fn complete_fua(&mut self, sector: u64, bytes: usize) -> Result<(), PowerCut> {
        let first = (sector - self.data_sectors) as usize;
        for at in first..first + bytes / SECTOR {
            self.meta.persist(at);
        }
        self.step()
    }

    pub(crate) fn write_fua(&mut self, sector: u64, bytes: &[u8]) -> Result<(), PowerCut> {
        self.submit(sector, bytes)?;
        self.complete_fua(sector, bytes.len())
    }

    pub(crate) fn flush(&mut self) -> Result<(), PowerCut> {
        self.step()?;
        self.meta.flush();
        self.data.flush();
        self.step()
    }

    /// Writes half of a data block; `half` counts from the start of the device.
    pub(crate) fn write_half(&mut self, half: u64, value: u64) {
        self.data.write(half as usize, value);
    }

    pub(crate) fn persist_half(&mut self, half: u64) {
        self.data.persist(half as usize);
    }

    pub(crate) fn read_half(&self, half: u64) -> u64 {
        self.data.read(half as usize)
    }

    /// The power fails; afterwards it is back for ever.
    pub(crate) fn cut_power(&mut self) {
        // Sectors by themselves, or the sectors of a block together.
        let torn = self.chance.once_in(2);
        let mut block = (usize::MAX, 0);
        self.meta.cut_power(|at, versions| {
            if torn || block.0 != at / 8 {
                block = (at / 8, self.chance.below(versions + 1));
            }
            block.1
        });
        let chance = &mut self.chance;
        self.data
            .cut_power(|_, versions| chance.below(versions + 1));
        self.fuse = u64::MAX;
    }

    /// Sectors of metadata.
    pub(crate) fn metadata_sectors(&self) -> u64 {
        self.meta.platter.len() as u64
    }

    /// Changes a sector of metadata behind the back of everyone; `sector` counts from the start of
    /// the metadata.
    pub(crate) fn damage(&mut self, sector: u64, how: impl FnOnce(&mut [u8; SECTOR])) {
        how(&mut self.meta.platter[sector as usize]);
    }

    /// The first difference between the metadata of two disks, as a sector of the device.
    #[allow(dead_code)]
    pub(crate) fn first_difference(&self, other: &Self) -> Option<u64> {
        let pairs = self.meta.platter.iter().zip(&other.meta.platter);
        pairs
            .zip(self.data_sectors..)
            .find_map(|((a, b), sector)| (a != b).then_some(sector))
    }
}

impl Disk for Platter {
    type Error = ();

    fn read(&mut self, sector: u64, buf: &mut [u8]) -> Result<(), ()> {
        assert!(buf.len() % 4096 == 0 && sector % 8 == 0);
        for (bytes, at) in buf.chunks_exact_mut(SECTOR).zip(sector..) {
            match at.checked_sub(self.data_sectors) {
                Some(at) => bytes.copy_from_slice(&self.meta.read(at as usize)),
                None => bytes.fill(u8::from(self.data.read(at as usize / 4) != 0)),
            }
        }
        Ok(())
    }
}
