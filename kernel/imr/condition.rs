// SPDX-License-Identifier: GPL-2.0-only

//! What a zone may be used for.

/// The condition of a zone. Zoned devices know the same ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Condition {
    /// It can be read and written, anywhere: a zone without write pointer.
    #[default]
    Normal,
    /// It can be read; writes, discards and resets fail.
    ReadOnly,
    /// Reads, writes, discards and resets fail. What is in it is kept.
    Offline,
}

impl Condition {
    /// Every condition, by ascending number.
    pub const ALL: [Self; 3] = [Self::Normal, Self::ReadOnly, Self::Offline];

    /// Its number, on disk and in ioctls.
    pub const fn number(self) -> u32 {
        match self {
            Self::Normal => 0,
            Self::ReadOnly => 1,
            Self::Offline => 2,
        }
    }

    /// The condition with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.number() == number)
    }

    /// Its name for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::ReadOnly => "read-only",
            Self::Offline => "offline",
        }
    }

    /// The condition with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Whether data can be read.
    pub const fn can_read(self) -> bool {
        !matches!(self, Self::Offline)
    }

    /// Whether data can be written and unmapped.
    pub const fn can_write(self) -> bool {
        matches!(self, Self::Normal)
    }
}
