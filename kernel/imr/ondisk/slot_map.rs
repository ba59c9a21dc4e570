// SPDX-License-Identifier: GPL-2.0-only

//! Which slot of each zone counts, and the zone's condition: the part of the superblock that grows
//! with the device.
//!
//! Four bits for each zone, those of zone z from bit 4z on. The lower two:
//!
//! | bits | meaning |
//! | --- | --- |
//! | 0 | the zone was never checkpointed; what its slots hold is left over from something else |
//! | 1 | slot 0 has all changes of the zone before the superblock's tail |
//! | 2 | slot 1 has them |
//! | 3 | never |
//!
//! The upper two are the number of the zone's [`Condition`], never 3.
//!
//! In memory the map is a slice of words, as long as [`Layout::map_words`] says.
//!
//! [`Layout::map_words`]: super::super::Layout::map_words

use super::{
    super::condition::Condition,
    bytes::{
        get_u64,
        put_u64, //
    },
    Block,
    Crc,
    Refusal,
    BLOCK_BYTES, //
};

/// Bits of a zone.
const BITS: u64 = 4;
/// Zones in a word.
pub const ZONES_PER_WORD: u64 = u64::BITS as u64 / BITS;
/// How far a zone's condition is shifted in its bits.
const CONDITION: u64 = 2;
/// The lowest bit of each zone.
const LOW: u64 = 0x1111_1111_1111_1111;
/// Bytes in a word.
const WORD: usize = size_of::<u64>();
/// Words in a block.
pub(super) const BLOCK_WORDS: usize = BLOCK_BYTES / WORD;

/// A view of a map.
#[derive(Clone, Copy, Debug)]
pub struct SlotMap<'a>(&'a [u64]);

/// A view of a map that can be changed.
#[derive(Debug)]
pub struct SlotMapMut<'a>(&'a mut [u64]);

/// The word of a zone and how far its bits are shifted in it.
fn place(zone: u64) -> Option<(usize, u64)> {
    let index = usize::try_from(zone / ZONES_PER_WORD).ok()?;
    Some((index, BITS * (zone % ZONES_PER_WORD)))
}

impl<'a> SlotMap<'a> {
    /// The map in these words.
    pub const fn new(words: &'a [u64]) -> Self {
        Self(words)
    }

    /// The slot of a zone that counts, 0 or 1; `None` if it was never checkpointed.
    pub fn get(&self, zone: u64) -> Option<u64> {
        let (index, shift) = place(zone)?;
        match (self.0.get(index)? >> shift) & 3 {
            0 | 3 => None,
            bits => Some(bits - 1),
        }
    }

    /// The condition of a zone; the normal one if there is no such zone.
    pub fn condition(&self, zone: u64) -> Condition {
        place(zone)
            .and_then(|(index, shift)| {
                let bits = (self.0.get(index)? >> shift >> CONDITION) & 3;
                Condition::from_number(u32::try_from(bits).ok()?)
            })
            .unwrap_or_default()
    }

    /// Zones that were checkpointed.
    pub fn checkpointed(&self) -> u64 {
        // Of the two bits of a zone at most one is set.
        let slots = LOW | LOW << 1;
        self.0
            .iter()
            .map(|it| u64::from((it & slots).count_ones()))
            .sum()
    }

    /// Whether no zone has the bits that none may have, and no zone beyond `zones` has any.
    pub(super) fn check(&self, zones: u64) -> Result<(), Refusal> {
        let mut first = 0;
        for word in self.0 {
            let beyond = match zones.saturating_sub(first) {
                here @ 0..ZONES_PER_WORD => u64::MAX << (BITS * here),
                _ => 0,
            };
            if word & beyond != 0 || word & (word >> 1) & (LOW | LOW << CONDITION) != 0 {
                return Err(Refusal::SuperblockInvalid);
            }
            first += ZONES_PER_WORD;
        }
        Ok(())
    }

    /// Block `index` of the map as it is on disk; behind the end it is zero.
    pub(super) fn encode(&self, index: usize, block: &mut Block) {
        let mut words = self.0.iter().skip(index.saturating_mul(BLOCK_WORDS));
        for bytes in block.chunks_exact_mut(WORD) {
            put_u64(bytes, 0, words.next().copied().unwrap_or(0));
        }
    }

    /// The checksum of the map as it is on disk, in `blocks` blocks.
    pub(super) fn crc(&self, blocks: usize) -> u32 {
        let words = blocks.saturating_mul(BLOCK_WORDS);
        let padding = words.saturating_sub(self.0.len());
        let crc = self
            .0
            .iter()
            .take(words)
            .fold(Crc::new(), |crc, word| crc.update(&word.to_le_bytes()));
        (0..padding)
            .fold(crc, |crc, _| crc.update(&[0; WORD]))
            .value()
    }
}

impl<'a> SlotMapMut<'a> {
    /// The map in these words.
    pub fn new(words: &'a mut [u64]) -> Self {
        Self(words)
    }

    /// The same map, to be read.
    pub fn as_map(&self) -> SlotMap<'_> {
        SlotMap(self.0)
    }

    /// Sets the slot of a zone that counts, 0 or 1.
    pub fn set(&mut self, zone: u64, slot: u64) {
        let Some((index, shift)) = place(zone) else {
            return;
        };
        if let Some(word) = self.0.get_mut(index) {
            *word &= !(3 << shift);
            *word |= ((slot & 1) + 1) << shift;
        }
    }

    /// Sets the condition of a zone.
    pub fn set_condition(&mut self, zone: u64, condition: Condition) {
        let Some((index, shift)) = place(zone) else {
            return;
        };
        if let Some(word) = self.0.get_mut(index) {
            let shift = shift + CONDITION;
            *word &= !(3 << shift);
            *word |= u64::from(condition.number()) << shift;
        }
    }

    /// Takes block `index` of the map as it is on disk. Words behind the end are dropped.
    pub(super) fn decode(&mut self, index: usize, block: &Block) {
        let words = self.0.iter_mut().skip(index.saturating_mul(BLOCK_WORDS));
        for (word, bytes) in words.zip(block.chunks_exact(WORD)) {
            *word = get_u64(bytes, 0);
        }
    }
}
