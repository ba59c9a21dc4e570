// SPDX-License-Identifier: GPL-2.0-only

//! Requests that meet in a block nobody has written before.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use crate::content::{fill, Found, Random};
use crate::device::{Buffer, Device, BLOCK_SECTORS, SECTOR};

/// Prints the first few of what is wrong and counts all.
#[derive(Default)]
struct Wrong(AtomicU64);

impl Wrong {
    fn note(&self, text: &str) {
        if self.0.fetch_add(1, Ordering::Relaxed) < 10 {
            println!("{text}");
        }
    }

    fn count(self) -> u64 {
        self.0.into_inner()
    }
}

/// First writes of single blocks, in order, with readers about where they happen. A read sees zeros or
/// the new data in each sector: the new data if its write had ended before the read began, zeros for
/// the sectors that no write covers. Returns how many sectors were wrong.
pub(crate) fn readers_and_first_writes(
    device: &Device,
    blocks: Range<u64>,
    readers: u64,
    seed: u64,
) -> io::Result<u64> {
    let total = blocks.end - blocks.start;
    let acknowledged = AtomicU64::new(0);
    let ended = AtomicBool::new(false);
    let wrong = Wrong::default();
    // Which sectors of a block are written: half of the blocks in whole, half in part.
    let written = |block: u64| -> Range<u64> {
        let mut random = Random::new(seed, block);
        if random.below(2) == 0 {
            return 0..BLOCK_SECTORS;
        }
        let first = random.below(BLOCK_SECTORS);
        first..first + 1 + random.below(BLOCK_SECTORS - first)
    };
    let read = |number: u64| -> io::Result<()> {
        let mut random = Random::new(seed, total + number);
        let mut buffer = Buffer::new(4 * BLOCK_SECTORS);
        while !ended.load(Ordering::Acquire) {
            let before = acknowledged.load(Ordering::Acquire);
            let first = (before + random.below(3)).saturating_sub(1).min(total - 1);
            let count = (1 + random.below(4)).min(total - first);
            device.read(
                &mut buffer,
                (blocks.start + first) * BLOCK_SECTORS,
                count * BLOCK_SECTORS,
            )?;
            let sectors = (first * BLOCK_SECTORS..)
                .zip(buffer.sectors(count * BLOCK_SECTORS).chunks_exact(SECTOR));
            for (index, bytes) in sectors {
                let (block, in_block) = (index / BLOCK_SECTORS, index % BLOCK_SECTORS);
                let at = blocks.start * BLOCK_SECTORS + index;
                let found = Found::in_sector(bytes, at);
                let covered = written(block).contains(&in_block);
                let allowed = match found {
                    Found::Version { version: 0, .. } => !covered || block >= before,
                    Found::Version { sector, version: 1 } => covered && sector == at,
                    _ => false,
                };
                if !allowed {
                    wrong.note(&format!(
                        "a read saw {found} in sector {at}; written: {covered}, acknowledged: {}",
                        block < before
                    ));
                }
            }
        }
        Ok(())
    };
    let write = || -> io::Result<()> {
        let mut buffer = Buffer::new(BLOCK_SECTORS);
        for block in 0..total {
            let range = written(block);
            let length = range.end - range.start;
            let start = (blocks.start + block) * BLOCK_SECTORS + range.start;
            for (sector, bytes) in
                (start..).zip(buffer.sectors_mut(length).chunks_exact_mut(SECTOR))
            {
                fill(bytes, sector, 1);
            }
            device.write(&buffer, start, length)?;
            acknowledged.store(block + 1, Ordering::Release);
        }
        Ok(())
    };
    let (read, ended) = (&read, &ended);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..readers)
            .map(|number| scope.spawn(move || read(number)))
            .collect();
        let done = write();
        ended.store(true, Ordering::Release);
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a reader panicked"))
            .and(done)
    })?;
    Ok(wrong.count())
}

/// For each block, `threads` partial first writes at the same time, of one sector each. Afterwards the
/// block holds all of them, and zeros elsewhere. Returns how many sectors were wrong.
pub(crate) fn colliding_first_writes(
    device: &Device,
    blocks: Range<u64>,
    threads: u64,
) -> io::Result<u64> {
    let barrier = Barrier::new(threads as usize);
    let wrong = Wrong::default();
    let failed = Mutex::new(None);
    // A thread that meets an error goes on, or the others would wait for it for ever.
    let guard = |done: io::Result<()>| {
        if let Err(error) = done {
            failed
                .lock()
                .expect("no thread panics")
                .get_or_insert(error);
        }
    };
    thread::scope(|scope| {
        for number in 0..threads {
            let (barrier, wrong, guard, blocks) = (&barrier, &wrong, &guard, blocks.clone());
            scope.spawn(move || {
                let mut buffer = Buffer::new(BLOCK_SECTORS);
                for block in blocks {
                    let start = block * BLOCK_SECTORS;
                    // Which sector: another one for each block.
                    let mine = |number: u64| (number * 3 + block) % BLOCK_SECTORS;
                    fill(buffer.sectors_mut(1), start + mine(number), 1);
                    barrier.wait();
                    guard(device.write(&buffer, start + mine(number), 1));
                    if !barrier.wait().is_leader() {
                        continue;
                    }
                    guard(device.read(&mut buffer, start, BLOCK_SECTORS));
                    for (offset, bytes) in
                        (0..).zip(buffer.sectors(BLOCK_SECTORS).chunks_exact(SECTOR))
                    {
                        let sector = start + offset;
                        let version = u32::from((0..threads).any(|number| mine(number) == offset));
                        let found = Found::in_sector(bytes, sector);
                        if found != (Found::Version { sector, version }) {
                            wrong.note(&format!(
                                "sector {sector} holds {found}, not version {version} of it"
                            ));
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().expect("no thread panics") {
        Some(error) => Err(error),
        None => Ok(wrong.count()),
    }
}
