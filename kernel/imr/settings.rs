// SPDX-License-Identifier: GPL-2.0-only

//! What can be set while the drive is in use.
//!
//! The settings are listed once, in the table below. Their fields, names, ranges and descriptions
//! for users, their order on disk and their numbers in ioctls all follow from it. To add a setting,
//! add a line at the end, and have the target heed it.

use core::fmt;

use super::strategy::{
    Allocation,
    MAX_PHASES, //
};

/// The longest delay, in microseconds: ten seconds.
pub const MAX_DELAY: u32 = 10_000_000;

/// A line of the table: what one setting means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The setting's name, in `snake_case`.
    pub name: &'static str,
    /// What it does, for users: one or more sentences without line breaks.
    pub doc: &'static str,
    /// What the value counts.
    pub unit: &'static str,
    /// The value of a drive for which nothing else was said.
    pub default: u32,
    /// The least value.
    pub least: u32,
    /// The largest value.
    pub most: u32,
}

impl Setting {
    /// Whether the setting can have this value.
    pub const fn allows(&self, value: u32) -> bool {
        self.least <= value && value <= self.most
    }

    /// Whether the setting is either on (1) or off (0).
    pub const fn is_switch(&self) -> bool {
        self.most == 1
    }

    /// Reads a value: a number, or `on` and `off` for a switch. `None` if it is not allowed.
    pub fn parse(&self, text: &str) -> Option<u32> {
        let value = match text {
            "on" if self.is_switch() => 1,
            "off" if self.is_switch() => 0,
            // The library takes a plus sign, too.
            _ if text.starts_with('+') => return None,
            _ => text.parse().ok()?,
        };
        self.allows(value).then_some(value)
    }
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $default:literal, $least:literal..=$most:path, $unit:literal;)+) => {
        /// The settings of a drive.
        ///
        /// # Invariants
        ///
        /// Every value is allowed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($name: u32,)+
        }

        /// Something for each setting.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Each<T> {
            $($(#[doc = $doc])+ pub $name: T,)+
        }

        impl<T> Each<T> {
            /// What `make` makes for each setting, of its number.
            pub fn new(mut make: impl FnMut(usize) -> T) -> Self {
                let mut number = 0;
                let mut next = || {
                    let made = make(number);
                    number += 1;
                    made
                };
                Self { $($name: next(),)+ }
            }

            /// All of them, in the order of the settings.
            pub fn all(&self) -> [&T; Settings::COUNT] {
                [$(&self.$name),+]
            }
        }

        impl Settings {
            /// What each setting means, in their order.
            pub const TABLE: &'static [Setting] = &[
                $(Setting {
                    name: stringify!($name),
                    doc: concat!($($doc),+).trim_ascii(),
                    unit: $unit,
                    default: $default,
                    least: $least,
                    most: $most,
                },)+
            ];

            /// The settings of a drive for which nothing else was said.
            // INVARIANT: a test compares the defaults with the ranges.
            pub const DEFAULT: Self = Self { $($name: $default,)+ };

            $($(#[doc = $doc])+ pub const fn $name(&self) -> u32 {
                self.$name
            })+

            /// The values, in the order of [`TABLE`](Self::TABLE).
            pub const fn values(&self) -> [u32; Self::COUNT] {
                [$(self.$name),+]
            }

            /// The settings with these values; `None` if one is not allowed.
            pub fn from_values(values: [u32; Self::COUNT]) -> Option<Self> {
                let allowed = Self::TABLE.iter().zip(values).all(|(it, value)| it.allows(value));
                let [$($name),+] = values;
                // INVARIANT: just checked.
                allowed.then_some(Self { $($name),+ })
            }
        }
    };
}

const ON: u32 = 1;

// THE TABLE: name, default, range, unit.
settings! {
    /// Phases of the allocation of blocks that are written for the first time from now on; with 1 they stay in place.
    allocation: 2, 1..=MAX_PHASES, "phases";
    /// How long a rewrite waits before it reads the neighbouring top blocks.
    rmw_read_delay: 0, 0..=MAX_DELAY, "microseconds";
    /// How long a rewrite waits before it writes the neighbouring top blocks back.
    write_back_delay: 0, 0..=MAX_DELAY, "microseconds";
    /// Whether failed reads and writes are named in the kernel's log.
    log_errors: 0, 0..=ON, "on or off";
    /// Whether the time that each request takes is measured, for the latency histograms.
    measure_latency: 0, 0..=ON, "on or off";
}

impl Settings {
    /// How many there are.
    pub const COUNT: usize = Self::TABLE.len();

    /// The number of the setting with this name.
    pub fn find(name: &str) -> Option<usize> {
        Self::TABLE.iter().position(|it| it.name == name)
    }

    /// The value of setting `number`; `None` if there is none.
    pub fn get(&self, number: usize) -> Option<u32> {
        self.values().get(number).copied()
    }

    /// The same settings but for one. `None` if there is no such setting, or it cannot have this
    /// value.
    pub fn with(&self, number: usize, value: u32) -> Option<Self> {
        let mut values = self.values();
        *values.get_mut(number)? = value;
        Self::from_values(values)
    }

    /// The same settings but for the phases of the allocation. `None` if there are none such.
    pub fn with_allocation(&self, phases: u32) -> Option<Self> {
        self.with(0, phases)
    }

    /// The strategy for blocks that are written for the first time.
    pub fn strategy(&self) -> Allocation {
        // Only numbers of strategies are allowed.
        Allocation::from_phases(self.allocation).unwrap_or_default()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Prints `name=value` pairs, separated by spaces.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (setting, value)) in Self::TABLE.iter().zip(self.values()).enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{}={value}", setting.name)?;
        }
        Ok(())
    }
}
