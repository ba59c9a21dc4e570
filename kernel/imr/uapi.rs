// SPDX-License-Identifier: GPL-2.0-only

//! The ioctl interface between `dm-imrsim.ko` and its users: numbers, structs, checks.
//!
//! This file is the only definition of it and is compiled on both sides, so the two cannot
//! disagree. It is written out for people who call it from C in `docs/ioctl.md`.
//!
//! # Shape
//!
//! * Every struct starts with `version` and `size` ([`Header`]). An unknown version is refused.
//! * Within a version, structs only grow, by whole fields at the end. `size` must equal the size
//!   in the ioctl number. When caller and kernel know different sizes, bytes the caller did not
//!   send are zero, and bytes the kernel does not know must be zero ([`decode`]). In a reply,
//!   bytes the kernel does not know are zero, and `size` is the size the kernel knows
//!   ([`encode_reply`]).
//! * Integers are native-endian, all padding is a field that must be zero, and the layout is the
//!   one a C compiler gives the same fields on a 64-bit machine (checked at compile time).

use super::{
    latency,
    settings::Settings,
    stats::Stats,
    units::{
        Bo,
        Nbo, //
    },
};

/// The `type` byte of every ioctl number.
pub const MAGIC: u8 = 0xdc;

/// The interface version. It changes only when an existing field changes its meaning.
pub const VERSION: u32 = 1;

/// The `zone` that stands for the whole device.
pub const ALL_ZONES: u64 = u64::MAX;

/// The most bytes the kernel takes from or gives to one call.
pub const MAX_SIZE: usize = 4096;

/// How many settings there are.
pub const SETTINGS: usize = Settings::COUNT;

/// How many counters [`Statistics`] carries, in the order of [`Stats::INDICATORS`].
pub const INDICATORS: usize = Stats::INDICATORS.len();

/// [`Config::flags`]: mappings live in memory only and are lost when the device is removed.
pub const FLAG_VOLATILE: u32 = 1 << 0;

const NR_SHIFT: u32 = 0;
const TYPE_SHIFT: u32 = 8;
const SIZE_SHIFT: u32 = 16;
const DIR_SHIFT: u32 = 30;
const SIZE_MASK: u32 = 0x3fff;
const DIR_WRITE: u32 = 1;
const DIR_READ: u32 = 2;

/// Linux' `_IOC()`, as on x86, Arm and RISC-V.
const fn ioc(dir: u32, nr: u8, size: usize) -> u32 {
    assert!(size <= MAX_SIZE);
    // CAST: `size` is at most `MAX_SIZE`; the `u8`s widen.
    (dir << DIR_SHIFT)
        | ((size as u32) << SIZE_SHIFT)
        | ((MAGIC as u32) << TYPE_SHIFT)
        | ((nr as u32) << NR_SHIFT)
}

/// The size in bytes of the struct that goes with an ioctl number (`_IOC_SIZE()`).
pub const fn size_of_cmd(cmd: u32) -> usize {
    // CAST: 14 bits.
    ((cmd >> SIZE_SHIFT) & SIZE_MASK) as usize
}

/// The most zones in one [`ZoneReport`].
pub const MAX_REPORT: usize = 64;

/// [`ZoneReport::filter`]: every zone.
pub const FILTER_ALL: u32 = 0;
/// [`ZoneReport::filter`]: zones all of whose blocks are mapped.
pub const FILTER_FULL: u32 = 1;
/// [`ZoneReport::filter`]: zones with blocks that are not mapped, free ones included.
pub const FILTER_NOT_FULL: u32 = 2;
/// [`ZoneReport::filter`]: zones none of whose blocks are mapped.
pub const FILTER_FREE: u32 = 3;
/// [`ZoneReport::filter`]: zones that are read-only.
pub const FILTER_READ_ONLY: u32 = 4;
/// [`ZoneReport::filter`]: zones that are offline.
pub const FILTER_OFFLINE: u32 = 5;

/// [`ResetConfig::what`]: every zone is in normal condition again.
pub const RESET_ZONES: u32 = 1 << 0;
/// [`ResetConfig::what`]: every setting is what the table line says, or its default.
pub const RESET_SETTINGS: u32 = 1 << 1;

/// [`Errors::flags`]: forget the last failed read. Needs `CAP_SYS_ADMIN`.
pub const CLEAR_READ_ERROR: u32 = 1 << 0;
/// [`Errors::flags`]: forget the last failed write. Needs `CAP_SYS_ADMIN`.
pub const CLEAR_WRITE_ERROR: u32 = 1 << 1;

/// [`ZoneSnapshot::flags`]: have the zone for a moment in which nothing is in flight there; requests that arrive wait
/// for that. Needs `CAP_SYS_ADMIN`.
pub const SNAPSHOT_QUIET: u32 = 1 << 0;

macro_rules! requests {
    ($($(#[doc = $doc:literal])+ $name:ident = $nr:literal, $const:ident, $dir:expr, $struct:ident, $privilege:literal;)+) => {
        $($(#[doc = $doc])+ pub const $const: u32 = ioc($dir, $nr, $struct::SIZE);)+

        /// A request, whatever size of struct the caller knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Request {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Request {
            /// Every request.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The ioctl number for the struct as it is defined here.
            pub const fn cmd(self) -> u32 {
                match self {
                    $(Self::$name => $const,)+
                }
            }

            /// The name of the number in C, without what all names begin with.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($const),)+
                }
            }

            /// What it does, for users: one or more sentences without line breaks.
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),+).trim_ascii(),)+
                }
            }

            /// The struct that goes with it.
            pub const fn layout(self) -> &'static Struct {
                match self {
                    $(Self::$name => &$struct::LAYOUT,)+
                }
            }

            /// Whether the request changes the device whatever is in the struct, and so needs
            /// `CAP_SYS_ADMIN`.
            pub const fn needs_privilege(self) -> bool {
                match self {
                    $(Self::$name => $privilege,)+
                }
            }
        }
    };
}

const READ_WRITE: u32 = DIR_READ | DIR_WRITE;

// The list: name, number, name in C, direction, struct, whether it needs CAP_SYS_ADMIN.
requests! {
    /// Describes the device.
    GetConfig = 1, GET_CONFIG, READ_WRITE, Config, false;
    /// Changes a setting; the change is durable when the call returns.
    SetSetting = 2, SET_SETTING, DIR_WRITE, SettingValue, true;
    /// Reads the counters of a zone or the device.
    GetStatistics = 3, GET_STATISTICS, READ_WRITE, Statistics, false;
    /// Sets the counters of a zone or the device to zero.
    ResetStatistics = 4, RESET_STATISTICS, DIR_WRITE, ZoneNumber, true;
    /// Reads a setting.
    GetSetting = 5, GET_SETTING, READ_WRITE, SettingValue, false;
    /// Lists zones and their state.
    ReportZones = 6, REPORT_ZONES, READ_WRITE, ZoneReport, false;
    /// Unmaps all blocks of a zone: they read as zeros, durably when the call returns.
    ResetZone = 7, RESET_ZONE, DIR_WRITE, ZoneNumber, true;
    /// Sets what a zone, or every zone, may be used for; the change is durable when the call returns.
    SetCondition = 8, SET_CONDITION, DIR_WRITE, ZoneCondition, true;
    /// Resets the conditions of the zones, the settings, or both; durable when the call returns.
    ResetConfig = 9, RESET_CONFIG, DIR_WRITE, ResetConfig, true;
    /// Reads, and if asked to forgets, which requests of the host failed last.
    GetErrors = 10, GET_ERRORS, READ_WRITE, Errors, false;
    /// Reads the latency histogram of a kind of request.
    GetLatency = 11, GET_LATENCY, READ_WRITE, Latency, false;
    /// Reads the mapping and the counters of a zone as they are at one moment.
    GetSnapshot = 12, GET_SNAPSHOT, READ_WRITE, ZoneSnapshot, false;
}

impl Request {
    /// The request an ioctl number stands for, its size apart; `None` if it is not one of ours.
    pub fn from_cmd(cmd: u32) -> Option<Self> {
        const SIZE_BITS: u32 = SIZE_MASK << SIZE_SHIFT;
        Self::ALL
            .iter()
            .copied()
            .find(|request| (cmd ^ request.cmd()) & !SIZE_BITS == 0)
    }

    /// Whether the kernel writes a reply into the caller's struct.
    pub const fn replies(self) -> bool {
        (self.cmd() >> DIR_SHIFT) & DIR_READ != 0
    }
}

/// Whether an ioctl number needs `CAP_SYS_ADMIN`; a number that is not one of ours does.
pub fn needs_privilege(cmd: u32) -> bool {
    Request::from_cmd(cmd).is_none_or(Request::needs_privilege)
}

/// Why the bytes of a request are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too few bytes for the first definition of the struct, or `size` is not their number.
    Size,
    /// `version` is not [`VERSION`].
    Version,
    /// A padding field is not zero.
    Padding,
    /// The caller uses fields that this side does not know, or sends over [`MAX_SIZE`] bytes.
    TooBig,
}

impl Refusal {
    /// The Linux error number, positive: `E2BIG` for [`Refusal::TooBig`], otherwise `EINVAL`.
    pub const fn errno(self) -> i32 {
        match self {
            Self::TooBig => 7,
            Self::Size | Self::Version | Self::Padding => 22,
        }
    }
}

/// A member of a struct, for those who describe it in another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// What it is: one or more sentences without line breaks; empty for padding.
    pub doc: &'static str,
    /// Bits of an integer.
    pub bits: usize,
    /// How many integers, if it is an array.
    pub count: Option<usize>,
}

/// A struct, for those who describe it in another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its name here.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// Its members, `version` and `size` included.
    pub members: &'static [Member],
}

/// A field of a struct: a fixed number of bytes in native order.
trait Field: Sized {
    const ZERO: Self;
    const BITS: usize;
    const COUNT: Option<usize>;
    /// Fills `to` with as many of the field's bytes as it has room for.
    fn put(&self, to: &mut [u8]);
    /// Reads the field; bytes that `from` lacks are zero.
    fn get(from: &[u8]) -> Self;
}

macro_rules! integer_field {
    ($type:ty) => {
        impl Field for $type {
            const ZERO: Self = 0;
            const BITS: usize = 8 * size_of::<Self>();
            const COUNT: Option<usize> = None;
            fn put(&self, to: &mut [u8]) {
                for (to, byte) in to.iter_mut().zip(self.to_ne_bytes()) {
                    *to = byte;
                }
            }
            fn get(from: &[u8]) -> Self {
                let mut bytes = [0; size_of::<Self>()];
                for (to, byte) in bytes.iter_mut().zip(from) {
                    *to = *byte;
                }
                Self::from_ne_bytes(bytes)
            }
        }
    };
}

integer_field!(u32);
integer_field!(u64);

impl<const N: usize> Field for [u64; N] {
    const ZERO: Self = [0; N];
    const BITS: usize = 64;
    const COUNT: Option<usize> = Some(N);
    fn put(&self, to: &mut [u8]) {
        for (value, bytes) in self.iter().zip(to.chunks_mut(size_of::<u64>())) {
            value.put(bytes);
        }
    }
    fn get(from: &[u8]) -> Self {
        let mut values = Self::ZERO;
        for (value, bytes) in values.iter_mut().zip(from.chunks(size_of::<u64>())) {
            *value = u64::get(bytes);
        }
        values
    }
}

/// A struct that goes through an ioctl.
pub trait Message: Sized {
    /// Its size in bytes as defined here.
    const SIZE: usize;
    /// Its size in bytes when it was first defined: no caller may send less.
    const MIN_SIZE: usize;

    /// Writes as many of the struct's bytes as `to` has room for, from the start of both.
    fn write_to(&self, to: &mut [u8]);

    /// Reads the struct from the start of `from`; bytes that `from` lacks are zero.
    fn read_from(from: &[u8]) -> Self;

    /// Whether every padding field is zero.
    fn padding_is_zero(&self) -> bool;
}

/// Defines a struct with the given fields, its size and its byte encoding, and proves that the
/// encoding is the struct's own layout in C.
macro_rules! message {
    (
        $(#[doc = $doc:literal])+
        pub struct $name:ident (at least $min:literal bytes, padding [$($padding:ident),*]) {
            $($(#[doc = $field_doc:literal])+ pub $field:ident: $type:ty,)*
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name {
            /// [`VERSION`]
            pub version: u32,
            /// Bytes in this struct, `version` and `size` included.
            pub size: u32,
            $($(#[doc = $field_doc])+ pub $field: $type,)*
        }

        // No implicit padding: the fields' sizes add up to the size of the C struct.
        const _: () = assert!(size_of::<$name>() == $name::SIZE);
        const _: () = assert!($min <= $name::SIZE && $name::SIZE <= MAX_SIZE);

        impl $name {
            /// The struct for those who describe it in another language.
            pub const LAYOUT: Struct = Struct {
                name: stringify!($name),
                doc: concat!($($doc),+).trim_ascii(),
                size: Self::SIZE,
                members: &[
                    Member { name: "version", doc: "The version of the interface.", bits: 32, count: None },
                    Member { name: "size", doc: "Bytes in this struct.", bits: 32, count: None },
                    $(Member {
                        name: stringify!($field),
                        doc: concat!($($field_doc),+).trim_ascii(),
                        bits: <$type as Field>::BITS,
                        count: <$type as Field>::COUNT,
                    },)*
                ],
            };

            /// The size in bytes.
            pub const SIZE: usize = 2 * size_of::<u32>() $(+ size_of::<$type>())*;

            /// The bytes of the struct.
            pub fn to_bytes(self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                self.write_to(&mut bytes);
                bytes
            }

            /// The struct at the start of `bytes`; `None` if there are fewer than its size.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                (bytes.len() >= Self::SIZE).then(|| Self::read_from(bytes))
            }
        }

        impl Default for $name {
            /// This version and size, all else zero.
            fn default() -> Self {
                Self {
                    version: VERSION,
                    // CAST: at most `MAX_SIZE`.
                    size: Self::SIZE as u32,
                    $($field: Field::ZERO,)*
                }
            }
        }

        impl Message for $name {
            const SIZE: usize = Self::SIZE;
            const MIN_SIZE: usize = $min;

            fn write_to(&self, to: &mut [u8]) {
                message!(@put self, to, version: u32, size: u32 $(, $field: $type)*);
            }

            fn read_from(from: &[u8]) -> Self {
                message!(@get from, version: u32, size: u32 $(, $field: $type)*);
                Self { version, size $(, $field)* }
            }

            fn padding_is_zero(&self) -> bool {
                true $(&& self.$padding == 0)*
            }
        }
    };
    (@put $self:ident, $to:ident $(, $field:ident: $type:ty)*) => {
        let rest = $to;
        $(
            let (here, rest) = rest.split_at_mut(rest.len().min(size_of::<$type>()));
            $self.$field.put(here);
        )*
        let _ = rest;
    };
    (@get $from:ident $(, $field:ident: $type:ty)*) => {
        let rest = $from;
        $(
            let (here, rest) = rest.split_at(rest.len().min(size_of::<$type>()));
            let $field = <$type as Field>::get(here);
        )*
        let _ = rest;
    };
}

message! {
    /// The start of every struct.
    pub struct Header (at least 8 bytes, padding []) {}
}

message! {
    /// What the device is: [`GET_CONFIG`].
    pub struct Config (at least 80 bytes, padding []) {
        /// `FLAG_*` bits.
        pub flags: u32,
        /// Bytes in a block.
        pub block_size: u32,
        /// Blocks in a top track.
        pub top_blocks: u32,
        /// Blocks in a bottom track.
        pub bottom_blocks: u32,
        /// Track groups in a zone.
        pub groups: u32,
        /// Phases of the allocation in use, 1 for none.
        pub phases: u32,
        /// Zones in the device.
        pub zones: u64,
        /// Sectors in a zone.
        pub zone_sectors: u64,
        /// Sectors in all zones: the size of the device.
        pub data_sectors: u64,
        /// Sectors for metadata behind the zones on the backing device.
        pub metadata_sectors: u64,
        /// Blocks in all zones.
        pub total_blocks: u64,
        /// Blocks that are mapped.
        pub mapped_blocks: u64,
        /// Microseconds since the device was made or its counters were reset.
        pub elapsed_us: u64,
        /// Microseconds of these in which no request was under way, to the clock tick.
        pub idle_us: u64,
        /// How many settings there are: the numbers below this one.
        pub settings: u32,
        /// How many kinds of requests have a latency histogram.
        pub latency_kinds: u32,
    }
}

message! {
    /// A setting and its value: [`SET_SETTING`], [`GET_SETTING`].
    pub struct SettingValue (at least 16 bytes, padding []) {
        /// In: which setting, by its number in [`Settings::TABLE`].
        pub setting: u32,
        /// Its value.
        pub value: u32,
    }
}

message! {
    /// A zone, or [`ALL_ZONES`] where that is allowed: [`RESET_STATISTICS`], [`RESET_ZONE`].
    pub struct ZoneNumber (at least 16 bytes, padding []) {
        /// Which zone.
        pub zone: u64,
    }
}

message! {
    /// What a zone may be used for: [`SET_CONDITION`].
    pub struct ZoneCondition (at least 24 bytes, padding [reserved]) {
        /// Which zone, or [`ALL_ZONES`].
        pub zone: u64,
        /// 0: normal, 1: read-only, 2: offline.
        pub condition: u32,
        /// Zero.
        pub reserved: u32,
    }
}

message! {
    /// What to reset: [`RESET_CONFIG`].
    pub struct ResetConfig (at least 16 bytes, padding [reserved]) {
        /// `RESET_*` bits, at least one.
        pub what: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// A zone in a [`ZoneReport`]: words of [`ZoneReport::zones`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneEntry {
    /// Its number.
    pub zone: u64,
    /// Blocks that are mapped.
    pub mapped_blocks: u32,
    /// Top-track blocks in use; 0 in a zone that was not touched since the device was resumed.
    pub used_top_blocks: u32,
    /// The phase that the allocation in use has reached there, 1 or more; 0 in a zone that was not
    /// touched since the device was resumed and is not free.
    pub phase: u32,
    /// The number of its [condition](super::Condition).
    pub condition: u32,
}

/// Words of a [`ZoneEntry`].
pub const ENTRY_WORDS: usize = 3;
/// Words of [`ZoneReport::zones`].
const REPORT_WORDS: usize = ENTRY_WORDS * MAX_REPORT;

message! {
    /// Zones and their state: [`REPORT_ZONES`].
    pub struct ZoneReport (at least 1568 bytes, padding [reserved]) {
        /// In: the first zone to look at. Out: the zone to go on with; the number of zones at the end.
        pub next: u64,
        /// In: the most zones to report; what is over [`MAX_REPORT`] counts as that. Out: how many are reported.
        pub count: u32,
        /// In: which zones to report: a `FILTER_*` number.
        pub filter: u32,
        /// Blocks in a zone.
        pub zone_blocks: u32,
        /// Zero.
        pub reserved: u32,
        /// Three words for each zone: its number; mapped blocks in the lower and top blocks in use in the upper half; the phase reached in the lower and the condition in the upper half.
        pub zones: [u64; REPORT_WORDS],
    }
}

impl ZoneReport {
    /// Entry `index`; `None` if it is beyond those reported.
    pub fn get(&self, index: usize) -> Option<ZoneEntry> {
        if index >= usize::try_from(self.count).ok()? {
            return None;
        }
        let words = self.zones.get(index.checked_mul(ENTRY_WORDS)?..)?;
        let &[zone, blocks, state] = words.first_chunk()?;
        let (mapped_blocks, used_top_blocks) = halves(blocks);
        let (phase, condition) = halves(state);
        Some(ZoneEntry {
            zone,
            mapped_blocks,
            used_top_blocks,
            phase,
            condition,
        })
    }

    /// Adds an entry, if there is room. Returns whether there was.
    pub fn push(&mut self, entry: &ZoneEntry) -> bool {
        let place = usize::try_from(self.count)
            .ok()
            .and_then(|index| index.checked_mul(ENTRY_WORDS))
            .and_then(|at| self.zones.get_mut(at..))
            .and_then(|words| words.first_chunk_mut());
        let Some(place) = place else {
            return false;
        };
        *place = [
            entry.zone,
            joined(entry.mapped_blocks, entry.used_top_blocks),
            joined(entry.phase, entry.condition),
        ];
        self.count += 1;
        true
    }
}

/// Whether a filter lists a zone in this state. `None` if there is no such filter.
pub fn filter_lists(filter: u32, entry: &ZoneEntry, zone_blocks: u32) -> Option<bool> {
    use super::Condition;
    Some(match filter {
        FILTER_ALL => true,
        FILTER_FULL => entry.mapped_blocks == zone_blocks,
        FILTER_NOT_FULL => entry.mapped_blocks < zone_blocks,
        FILTER_FREE => entry.mapped_blocks == 0,
        FILTER_READ_ONLY => entry.condition == Condition::ReadOnly.number(),
        FILTER_OFFLINE => entry.condition == Condition::Offline.number(),
        _ => return None,
    })
}

/// The lower and the upper half of a word.
fn halves(word: u64) -> (u32, u32) {
    // CAST: 32 bits each.
    ((word & u64::from(u32::MAX)) as u32, (word >> 32) as u32)
}

/// The word with these halves.
fn joined(lower: u32, upper: u32) -> u64 {
    u64::from(lower) | u64::from(upper) << 32
}

message! {
    /// Which requests of the host failed last: [`GET_ERRORS`].
    pub struct Errors (at least 64 bytes, padding []) {
        /// In: `CLEAR_*` bits: what to forget when it was read.
        pub flags: u32,
        /// Why the last read failed that did: the number of a [cause](super::Cause), 0 if none did.
        pub read_cause: u32,
        /// Why the last write, discard or flush failed that did, in the same way.
        pub write_cause: u32,
        /// The Linux error number that the last failed read ended with.
        pub read_errno: u32,
        /// The Linux error number that the last failed write ended with.
        pub write_errno: u32,
        /// Whether errors are logged: 0 or 1.
        pub logging: u32,
        /// The zone of the last failed read, [`ALL_ZONES`] if that is not known.
        pub read_zone: u64,
        /// The zone of the last failed write, [`ALL_ZONES`] if that is not known.
        pub write_zone: u64,
        /// Reads that failed since they were forgotten.
        pub read_errors: u64,
        /// Writes, discards and flushes that failed since they were forgotten.
        pub write_errors: u64,
    }
}

message! {
    /// How long requests of a kind took while that was measured: [`GET_LATENCY`].
    pub struct Latency (at least 256 bytes, padding []) {
        /// In: the kind, by its number in [`latency::Kind::ALL`].
        pub kind: u32,
        /// How many of `counts` the kernel filled in.
        pub bucket_count: u32,
        /// Requests measured.
        pub requests: u64,
        /// The sum of their latencies in nanoseconds.
        pub nanoseconds: u64,
        /// Requests by latency: bucket b has those that took less than 2^(9 + b) nanoseconds and are in no earlier bucket, the last bucket has the rest.
        pub counts: [u64; latency::BUCKETS],
    }
}

message! {
    /// The counters of a zone or of the device: [`GET_STATISTICS`].
    pub struct Statistics (at least 152 bytes, padding []) {
        /// In: which zone, or [`ALL_ZONES`].
        pub zone: u64,
        /// Blocks in the zone or the device.
        pub capacity_blocks: u64,
        /// Blocks that are mapped.
        pub mapped_blocks: u64,
        /// Top-track blocks that are mapped to.
        pub used_top_blocks: u64,
        /// Phases of the allocation in use, 1 for none.
        pub phases: u32,
        /// How many of `indicators` the kernel filled in.
        pub indicator_count: u32,
        /// The counters in the order of [`Stats::INDICATORS`]. New ones are added at the end.
        pub indicators: [u64; INDICATORS],
    }
}

message! {
    /// A zone at one moment: [`GET_SNAPSHOT`]. Its mapping follows behind the struct.
    pub struct ZoneSnapshot (at least 208 bytes, padding []) {
        /// In: which zone.
        pub zone: u64,
        /// In: any number; the trace event of this moment has it.
        pub cookie: u64,
        /// In: `SNAPSHOT_*` bits.
        pub flags: u32,
        /// In: how much room there is for the mapping behind the struct, 0 if it is not wanted. Out: how many bytes it has.
        pub mapping_bytes: u32,
        /// Blocks in a zone.
        pub zone_blocks: u32,
        /// Blocks that are mapped.
        pub mapped_blocks: u32,
        /// Top-track blocks in use, first writes in flight included.
        pub used_top_blocks: u32,
        /// Writes that have begun and not ended.
        pub writes_in_flight: u32,
        /// The phase that the allocation in use has reached in the zone, 1 or more.
        pub phase: u32,
        /// Phases of the allocation in use, 1 for none.
        pub phases: u32,
        /// What the zone may be used for: 0: normal, 1: read-only, 2: offline.
        pub condition: u32,
        /// How many of `indicators` the kernel filled in.
        pub indicator_count: u32,
        /// The counters of the zone in the order of [`Stats::INDICATORS`].
        pub indicators: [u64; INDICATORS],
    }
}

impl ZoneSnapshot {
    /// The counters.
    pub const fn stats(&self) -> Stats {
        Stats::from_values(self.indicators)
    }
}

/// The mapping of a zone, as it follows a [`ZoneSnapshot`]. In native order:
///
/// * for each block of the zone, its place as 16 bits, without meaning unless it is mapped;
/// * zeros up to a multiple of 8 bytes;
/// * 64-bit words with a bit for each block, the lowest first: whether it is mapped;
/// * the same for each place: whether it is in use. A place that is, and that no block is mapped to, is
///   that of a first write in flight.
#[derive(Clone, Copy, Debug)]
pub struct Mapping<'a> {
    places: &'a [u8],
    mapped: &'a [u8],
    used: &'a [u8],
    blocks: u32,
}

impl<'a> Mapping<'a> {
    /// Bytes of the places and what fills them up.
    pub const fn table_bytes(zone_blocks: u32) -> usize {
        // CAST: widens; a zone has at most 65536 blocks.
        (zone_blocks as usize * size_of::<u16>()).next_multiple_of(size_of::<u64>())
    }

    /// Bytes of one set of bits.
    pub const fn bits_bytes(zone_blocks: u32) -> usize {
        // CAST: widens.
        zone_blocks.div_ceil(u64::BITS) as usize * size_of::<u64>()
    }

    /// Bytes of all of it.
    pub const fn bytes(zone_blocks: u32) -> usize {
        Self::table_bytes(zone_blocks) + 2 * Self::bits_bytes(zone_blocks)
    }

    /// The mapping of a zone of so many blocks in `bytes`; `None` if that is not all of it.
    pub fn new(zone_blocks: u32, bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() != Self::bytes(zone_blocks) {
            return None;
        }
        let (places, bits) = bytes.split_at_checked(Self::table_bytes(zone_blocks))?;
        let (mapped, used) = bits.split_at_checked(Self::bits_bytes(zone_blocks))?;
        Some(Self {
            places,
            mapped,
            used,
            blocks: zone_blocks,
        })
    }

    /// Where a block lies, if it is mapped.
    pub fn lookup(&self, bo: Bo) -> Option<Nbo> {
        // CAST: widens.
        let at = bo.0 as usize * size_of::<u16>();
        let place = self.places.get(at..)?.first_chunk()?;
        self.bit(self.mapped, bo.0)
            .then(|| Nbo(u16::from_ne_bytes(*place).into()))
    }

    /// Whether a place is in use.
    pub fn is_used(&self, nbo: Nbo) -> bool {
        self.bit(self.used, nbo.0)
    }

    fn bit(&self, bits: &[u8], number: u32) -> bool {
        // CAST: widens.
        let at = (number / u64::BITS) as usize * size_of::<u64>();
        let word = bits.get(at..).and_then(|rest| rest.first_chunk());
        number < self.blocks
            && word.is_some_and(|word| u64::from_ne_bytes(*word) >> (number % u64::BITS) & 1 == 1)
    }
}

impl Statistics {
    /// The counters.
    pub const fn stats(&self) -> Stats {
        Stats::from_values(self.indicators)
    }
}

/// Takes a struct from the bytes a caller sent, which are all that the ioctl number announces.
///
/// Fields that the caller does not know are zero. Fields that this side does not know must be.
pub fn decode<M: Message>(sent: &[u8]) -> Result<M, Refusal> {
    let header = Header::from_bytes(sent).ok_or(Refusal::Size)?;
    if header.version != VERSION {
        return Err(Refusal::Version);
    }
    if sent.len() < M::MIN_SIZE || u32::try_from(sent.len()) != Ok(header.size) {
        return Err(Refusal::Size);
    }
    if sent.len() > MAX_SIZE || sent.iter().skip(M::SIZE).any(|byte| *byte != 0) {
        return Err(Refusal::TooBig);
    }
    let message = M::read_from(sent);
    if !message.padding_is_zero() {
        return Err(Refusal::Padding);
    }
    Ok(message)
}

/// Fills in the caller's struct, which may be smaller or larger than the one known here.
///
/// The caller's `size` becomes the size known here, which tells it what the zeros behind mean.
pub fn encode_reply<M: Message>(reply: &M, caller: &mut [u8]) {
    caller.fill(0);
    reply.write_to(caller);
}
