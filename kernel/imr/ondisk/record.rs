// SPDX-License-Identifier: GPL-2.0-only

//! A record: one change of the metadata, valid by itself.
//!
//! | byte | field |
//! | --- | --- |
//! | 0 | type; with bit 7 set, a reader that does not know it may skip it |
//! | 1 | length of the record in units of 4 bytes |
//! | 2 | two bytes and what is behind them: see the types |

use super::{
    super::{
        plan::Plan,
        settings::Settings,
        stats::Stats,
        units::{
            Bo,
            Nbo, //
        },
    },
    bytes::{
        get_u16,
        get_u32,
        get_u64,
        put,
        put_u16,
        put_u32,
        put_u64, //
    },
    Refusal, //
};

const TYPE_MAP: u8 = 1;
const TYPE_UNMAP: u8 = 2;
const TYPE_RESET_ZONE: u8 = 3;
const TYPE_CONFIG: u8 = 4;
/// The bit that says that the record may be skipped.
const SKIPPABLE: u8 = 0x80;
const TYPE_STATISTICS: u8 = SKIPPABLE | 1;

/// The unit of a record's length, in bytes.
const UNIT: usize = 4;
const AT_COUNTERS: usize = 16;
const AT_SETTINGS: usize = 4;
const CONFIG_BYTES: usize = AT_SETTINGS + Settings::COUNT * size_of::<u32>();

/// The most bytes that a record known here takes.
pub const MAX_BYTES: usize = AT_COUNTERS + Stats::BYTES;
const _: () = assert!(MAX_BYTES / UNIT <= 255);
/// Bytes of a [`Record::Map`], and as units.
pub(super) const MAP_BYTES: usize = 16;
const MAP_UNITS: u64 = 4;

/// A change of the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The blocks from `bo` on, unmapped before, are mapped to those from `nbo` on. The data is on
    /// the device.
    Map {
        /// The zone.
        zone: u64,
        /// The first logical block.
        bo: Bo,
        /// The first physical block.
        nbo: Nbo,
        /// How many, 1 to 65,536.
        blocks: u32,
    },
    /// Of the blocks from `bo` on none is mapped any more.
    Unmap {
        /// The zone.
        zone: u64,
        /// The first logical block.
        bo: Bo,
        /// How many, 1 to 65,536.
        blocks: u32,
    },
    /// No block of the zone is mapped any more.
    ResetZone {
        /// The zone.
        zone: u64,
    },
    /// The settings in use from now on.
    Config {
        /// All of them.
        settings: Settings,
    },
    /// The counters of a zone as they are.
    Statistics {
        /// The zone.
        zone: u64,
        /// Its counters.
        stats: Stats,
    },
    /// A record of a type that is not known and may be skipped. Never written.
    Skipped {
        /// The type.
        kind: u8,
    },
}

impl Record {
    /// The record of a first write that has succeeded.
    pub const fn of_plan(zone: u64, plan: &Plan) -> Self {
        Self::Map {
            zone,
            bo: plan.bo,
            nbo: plan.nbo,
            blocks: plan.blocks,
        }
    }

    /// The zone it is about, if it is about one.
    pub const fn zone(&self) -> Option<u64> {
        match *self {
            Self::Map { zone, .. }
            | Self::Unmap { zone, .. }
            | Self::ResetZone { zone }
            | Self::Statistics { zone, .. } => Some(zone),
            Self::Config { .. } | Self::Skipped { .. } => None,
        }
    }

    /// Bytes it takes.
    pub(super) const fn bytes(&self) -> usize {
        match self {
            Self::Map { .. } | Self::Unmap { .. } | Self::ResetZone { .. } => 16,
            Self::Config { .. } => CONFIG_BYTES,
            Self::Statistics { .. } => MAX_BYTES,
            Self::Skipped { .. } => 0,
        }
    }

    /// Writes it to the start of `to`, which has room and is zero; returns its length. `None`, and
    /// `to` is not changed, if no zone can have such a record.
    #[inline]
    pub(super) fn encode(&self, to: &mut [u8]) -> Option<usize> {
        let bytes = self.bytes();
        let put_head = |to: &mut [u8], kind: u8| {
            // At most `MAX_BYTES / UNIT`.
            let units = u8::try_from(bytes / UNIT).unwrap_or(u8::MAX);
            put(to, 0, &[kind, units]);
        };
        match *self {
            Self::Map {
                zone,
                bo,
                nbo,
                blocks,
            } => {
                put(to, 0, &map_bytes(zone, bo, nbo, blocks)?);
            }
            Self::Unmap { zone, bo, blocks } => {
                let (count, bo) = run(bo.0, blocks)?;
                put_head(to, TYPE_UNMAP);
                put_u16(to, 2, count);
                put_u16(to, 4, bo);
                put_u64(to, 8, zone);
            }
            Self::ResetZone { zone } => {
                put_head(to, TYPE_RESET_ZONE);
                put_u64(to, 8, zone);
            }
            Self::Config { settings } => {
                put_head(to, TYPE_CONFIG);
                for (index, value) in settings.values().into_iter().enumerate() {
                    put_u32(to, AT_SETTINGS + index * size_of::<u32>(), value);
                }
            }
            Self::Statistics { zone, stats } => {
                put_head(to, TYPE_STATISTICS);
                put_u64(to, 8, zone);
                put(to, AT_COUNTERS, &stats.to_bytes());
            }
            Self::Skipped { .. } => return None,
        }
        Some(bytes)
    }

    /// The record at the start of `from` and its length; `None` if there is none, because the
    /// rest of the sector is padding.
    pub(super) fn decode(from: &[u8]) -> Result<Option<(Self, usize)>, Refusal> {
        let &[kind, units, ..] = from else {
            return Ok(None);
        };
        if kind == 0 {
            return match from.iter().all(|byte| *byte == 0) {
                true => Ok(None),
                false => Err(Refusal::BadRecord),
            };
        }
        let bytes = usize::from(units) * UNIT;
        let from = match bytes {
            0 => None,
            _ => from.get(..bytes),
        }
        .ok_or(Refusal::BadRecord)?;
        let fits = |expected: usize| {
            if bytes == expected {
                Ok(())
            } else {
                Err(Refusal::BadRecord)
            }
        };
        let blocks = u32::from(get_u16(from, 2)) + 1;
        let bo = Bo(get_u16(from, 4).into());
        let zone = get_u64(from, 8);
        let record = match kind {
            TYPE_MAP => {
                fits(16)?;
                let nbo = Nbo(get_u16(from, 6).into());
                Self::Map {
                    zone,
                    bo,
                    nbo,
                    blocks,
                }
            }
            TYPE_UNMAP => {
                fits(16)?;
                Self::Unmap { zone, bo, blocks }
            }
            TYPE_RESET_ZONE => {
                fits(16)?;
                Self::ResetZone { zone }
            }
            TYPE_CONFIG => {
                fits(CONFIG_BYTES)?;
                let values = core::array::from_fn(|index| {
                    get_u32(from, AT_SETTINGS + index * size_of::<u32>())
                });
                Self::Config {
                    settings: Settings::from_values(values).ok_or(Refusal::BadRecord)?,
                }
            }
            TYPE_STATISTICS => {
                // With more or fewer counters than are known here.
                let counters = from.get(AT_COUNTERS..).ok_or(Refusal::BadRecord)?;
                Self::Statistics {
                    zone,
                    stats: Stats::from_bytes(counters),
                }
            }
            kind if kind & SKIPPABLE != 0 => Self::Skipped { kind },
            _ => return Err(Refusal::UnknownRecord),
        };
        Ok(Some((record, bytes)))
    }
}

/// A run of blocks as it is stored: how many behind the first, and the first. `None` if it does
/// not lie in the largest possible zone.
#[inline]
fn run(first: u32, blocks: u32) -> Option<(u16, u16)> {
    let more = u16::try_from(blocks.checked_sub(1)?).ok()?;
    let first = u16::try_from(first).ok()?;
    first.checked_add(more)?;
    Some((more, first))
}

/// The bytes of a [`Record::Map`]: the most common record by far.
#[inline]
pub(super) fn map_bytes(zone: u64, bo: Bo, nbo: Nbo, blocks: u32) -> Option<[u8; MAP_BYTES]> {
    let (count, bo) = run(bo.0, blocks)?;
    let (_, nbo) = run(nbo.0, blocks)?;
    let head = u64::from(TYPE_MAP) | MAP_UNITS << 8;
    let numbers = u64::from(count) << 16 | u64::from(bo) << 32 | u64::from(nbo) << 48;
    let mut bytes = [0; MAP_BYTES];
    put_u64(&mut bytes, 0, head | numbers);
    put_u64(&mut bytes, 8, zone);
    Some(bytes)
}
