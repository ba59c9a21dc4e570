// SPDX-License-Identifier: GPL-2.0-only

//! Why metadata is not accepted.

use core::fmt;

macro_rules! refusals {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// Why metadata is not accepted. Nothing is written to a device that is refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Refusal {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Refusal {
            /// Every reason there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The reason for people, with the tool to use: a sentence without a full stop.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// The reason for programs: the name of the variant.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

refusals! {
    /// All is zero where superblocks should be, and where data would be if there had been a drive:
    /// the device may be formatted.
    Blank =
        "the device is blank: 'imrsim_util format' prepares it",
    /// There are no superblocks, but something else.
    ForeignData =
        "the device holds data, but no IMRSim superblock where this table line expects it: if the \
         line is right, 'imrsim_util format --force' erases the device",
    /// A superblock of a newer format.
    UnknownVersion =
        "the metadata has a version that this program does not know: use a newer IMRSim, or \
         'imrsim_util dump' to look at it",
    /// A superblock with a feature that must be known.
    UnknownFeature =
        "the metadata uses a feature that this program does not know: use a newer IMRSim, or \
         'imrsim_util dump' to look at it",
    /// Both copies of the superblock have a wrong checksum.
    SuperblockDamaged =
        "both copies of the superblock are damaged: 'imrsim_util check' says more",
    /// The checksum is right, but what is in the superblock cannot be.
    SuperblockInvalid =
        "the superblock contradicts itself: 'imrsim_util check' says more",
    /// The two copies have different UUIDs.
    SuperblocksDiffer =
        "the two copies of the superblock belong to different drives: 'imrsim_util check' says more",
    /// Something was written after the newest superblock that can be read.
    SuperblockStale =
        "the newest superblock is lost, only an older one can be read: 'imrsim_util check' says more",
    /// The drive was formatted with other track or zone sizes.
    GeometryMismatch =
        "the drive was formatted with another geometry than the table line gives: \
         'imrsim_util dump' shows which",
    /// The drive was formatted with another number of zones.
    SizeMismatch =
        "the drive was formatted with another size than the table line gives: 'imrsim_util dump' \
         shows which",
    /// The device ends before the metadata does.
    DeviceShrank =
        "the device is smaller than when the drive was formatted: give it back its size; \
         'imrsim_util dump' shows which",
    /// An entry of the journal is damaged in both copies, or lost.
    JournalDamaged =
        "the journal is damaged, so that mapping changes are lost: 'imrsim_util check' says more",
    /// A record that must be known.
    UnknownRecord =
        "the journal has a record that this program does not know: use a newer IMRSim, or \
         'imrsim_util dump' to look at it",
    /// The checksum is right, but a record is not.
    BadRecord =
        "a record of the journal makes no sense: 'imrsim_util check' says more",
    /// A record contradicts the table of its zone.
    RecordConflict =
        "a record of the journal contradicts the zone's table: 'imrsim_util check' says more",
    /// No slot of a zone is intact and new enough.
    ZoneDamaged =
        "the table of a zone is damaged in both slots, or only an older one can be read: \
         'imrsim_util check' says more",
    /// The checksum is right, but two blocks have one place, or a block lies outside its zone.
    BadTable =
        "the table of a zone makes no sense: 'imrsim_util check' says more",
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Refusal {}

/// Why metadata could not be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError<E> {
    /// The device could not be read.
    Io(E),
    /// What was read is not accepted.
    Refused(Refusal),
}

impl<E> From<Refusal> for LoadError<E> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl<E: fmt::Display> fmt::Display for LoadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read the metadata: {error}"),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}
