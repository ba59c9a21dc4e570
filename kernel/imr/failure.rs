// SPDX-License-Identifier: GPL-2.0-only

//! Why a request of the host failed.

macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal, $text:literal;)+) => {
        /// Why a read or a write failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Cause {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Cause {
            /// Every cause, by ascending number.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Its number in ioctls, 1 or more.
            pub const fn number(self) -> u32 {
                match self {
                    $(Self::$name => $number,)+
                }
            }

            /// Its name for users.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// What happened, for users: a sentence without line breaks.
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

// The list: name, number, text for users.
causes! {
    /// The backing device reported an error.
    Device = 1, "device-error";
    /// The zone is read-only.
    ReadOnlyZone = 2, "zone-read-only";
    /// The zone is offline.
    OfflineZone = 3, "zone-offline";
    /// The drive takes no writes: its metadata could not be written, or its table is read-only.
    Metadata = 4, "metadata-not-writable";
    /// There was no memory.
    Memory = 5, "out-of-memory";
    /// The drive does not know such requests.
    Unsupported = 6, "not-supported";
}

impl Cause {
    /// The cause with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.number() == number)
    }
}
