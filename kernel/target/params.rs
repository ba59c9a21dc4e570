// SPDX-License-Identifier: GPL-2.0-only

//! The arguments of a table line:
//!
//! ```text
//! <device> <start sector> [<#words> <key> <value>...]
//! ```
//!
//! | key | values | default |
//! | --- | --- | --- |
//! | `phases` | phases of the allocation, 1 to 64; 1 leaves blocks in place | 2 |
//! | `geometry` | blocks in a top track, in a bottom track, track groups in a zone | 456 568 64 |
//! | any other name of [`Settings::TABLE`] | the setting's value | the setting's |
//!
//! Settings are those of a drive that is formatted, and what resets set them to; an existing drive
//! keeps its own.

use crate::{
    dm::{Args, CtrError, Writer},
    imr::{Geometry, Settings, BLOCK_SECTORS},
};
use core::fmt::Write;
use kernel::prelude::*;

/// What a table line says about the drive, behind the device.
pub(super) struct Params {
    /// The first sector of the backing device to use; a multiple of 8.
    pub(super) start: u64,
    /// The settings to begin with.
    pub(super) settings: Settings,
    /// The shape of the zones.
    pub(super) geometry: Geometry,
    /// Which of the keys were given, to be echoed.
    given: Given,
}

#[derive(Clone, Copy, Default)]
struct Given {
    settings: [bool; Settings::COUNT],
    geometry: bool,
}

/// The key of the first setting, the allocation, which is given as a number of phases.
const PHASES_KEY: &str = "phases";

/// The key of a setting.
fn key(number: usize) -> &'static str {
    match number {
        0 => PHASES_KEY,
        _ => Settings::TABLE.get(number).map_or("", |it| it.name),
    }
}

impl Params {
    /// The line is shorter than it may be.
    pub(super) const MISSING: CtrError = CtrError::invalid(
        c"Missing arguments: <device> <start sector> [<#words> <key> <value>...]",
    );

    /// Takes all that is left of a table line behind the device.
    pub(super) fn parse(args: &mut Args<'_>) -> Result<Self, CtrError> {
        const START: CtrError =
            CtrError::invalid(c"The start must be a sector number that is a multiple of 8");
        if args.len() == 0 {
            return Err(Self::MISSING);
        }
        let start: u64 = args.number(START)?;
        if start % u64::from(BLOCK_SECTORS) != 0 {
            return Err(START);
        }
        let mut params = Params {
            start,
            settings: Settings::DEFAULT,
            geometry: Geometry::DEFAULT,
            given: Given::default(),
        };
        if args.len() > 0 {
            params.features(args)?;
        }
        Ok(params)
    }

    fn features(&mut self, args: &mut Args<'_>) -> Result<(), CtrError> {
        const COUNT: CtrError = CtrError::invalid(
            c"The number of feature words is wrong: it counts all keys and values behind it",
        );
        const SETTING: CtrError = CtrError::invalid(
            c"phases takes a number from 1 to 64, a delay one from 0 to 10000000, other settings take on or off",
        );
        const GEOMETRY: CtrError = CtrError::invalid(
            c"geometry takes <top blocks> <bottom blocks> <track groups>: 1 <= top <= bottom, zone <= 65536 blocks",
        );
        const TWICE: CtrError = CtrError::invalid(c"A feature is given twice");
        const UNKNOWN: CtrError = CtrError::invalid(
            c"Unknown feature: there are phases, geometry, rmw_read_delay, write_back_delay, log_errors and measure_latency",
        );

        let count: usize = args.number(COUNT)?;
        if count != args.len() {
            return Err(COUNT);
        }
        while let Some(word) = args.next() {
            let given = match word {
                "geometry" => {
                    let (top, bottom, groups) = (
                        args.number(GEOMETRY)?,
                        args.number(GEOMETRY)?,
                        args.number(GEOMETRY)?,
                    );
                    self.geometry = Geometry::new(top, bottom, groups).map_err(|_| GEOMETRY)?;
                    &mut self.given.geometry
                }
                _ => {
                    let number = (0..Settings::COUNT)
                        .find(|number| key(*number) == word)
                        .ok_or(UNKNOWN)?;
                    let text = args.next().ok_or(SETTING)?;
                    let value = Settings::TABLE.get(number).and_then(|it| it.parse(text));
                    self.settings = value
                        .and_then(|value| self.settings.with(number, value))
                        .ok_or(SETTING)?;
                    self.given.settings.get_mut(number).ok_or(UNKNOWN)?
                }
            };
            if core::mem::replace(given, true) {
                return Err(TWICE);
            }
        }
        Ok(())
    }

    /// Writes the arguments as [`Params::parse`] takes them: those that were given.
    pub(super) fn write(&self, out: &mut Writer<'_>) -> kernel::fmt::Result {
        write!(out, "{}", self.start)?;
        let Given { settings, geometry } = self.given;
        let given = || (0..).zip(settings).filter(|(_, given)| *given);
        let words = 2 * given().count() + if geometry { 4 } else { 0 };
        if words > 0 {
            write!(out, " {words}")?;
        }
        for (number, _) in given() {
            let value = self.settings.get(number).unwrap_or(0);
            write!(out, " {} {value}", key(number))?;
        }
        if geometry {
            let shape = &self.geometry;
            write!(
                out,
                " geometry {} {} {}",
                shape.top_blocks(),
                shape.bottom_blocks(),
                shape.groups()
            )?;
        }
        Ok(())
    }
}
