// SPDX-License-Identifier: GPL-2.0-only

//! Settings and conditions as people type and read them. What there is comes from the table in
//! [`Settings::TABLE`]: a new setting needs nothing here.

use anyhow::{anyhow, Context, Result};
use imrsim_core::{
    ondisk::{SlotMap, Superblock},
    Allocation, Condition, Setting, Settings, Strategy,
};
use serde::{ser::Serializer, Serialize};

use crate::{
    number::{parse_micros, Micros},
    report::allocation_name,
};

/// The unit of settings that are a time.
const TIME: &str = "microseconds";
/// The unit of the allocation, which has names.
const PHASES: &str = "phases";

/// The number of a setting by its name, with `-` or `_` between its words.
pub fn find(name: &str) -> Option<usize> {
    Settings::find(&name.replace('-', "_"))
}

/// A setting by its number; `None` if this program knows none.
pub fn by_number(number: usize) -> Option<&'static Setting> {
    Settings::TABLE.get(number)
}

/// What values a setting takes, as the end of a sentence.
pub fn range(setting: &Setting) -> String {
    let Setting {
        least, most, unit, ..
    } = setting;
    if setting.is_switch() {
        "on or off".to_owned()
    } else if *unit == TIME {
        format!("{least} to {most} microseconds, or a time such as 250us, 5ms, 1s")
    } else {
        format!("{least} to {most} {unit}")
    }
}

/// Reads a value of a setting: a number, for a switch also `on` and `off`, for a time also one with
/// a unit.
///
/// # Errors
///
/// If it is not one, or not allowed.
pub fn parse_value(setting: &Setting, text: &str) -> Result<u32> {
    let micros = || {
        let micros = u32::try_from(parse_micros(text).ok()?).ok()?;
        setting.allows(micros).then_some(micros)
    };
    let value = setting.parse(text).or_else(|| match setting.unit {
        TIME => micros(),
        PHASES => Some(text.parse::<Allocation>().ok()?.number()),
        _ => None,
    });
    value.ok_or_else(|| {
        anyhow!(
            "'{text}' is no value for {}: it takes {}",
            setting.name,
            range(setting)
        )
    })
}

/// A value of a setting, with its unit.
pub fn show_value(setting: &Setting, value: u32) -> String {
    if setting.is_switch() && setting.allows(value) {
        if value == 0 { "off" } else { "on" }.to_owned()
    } else if setting.unit == TIME {
        Micros(value.into()).to_string()
    } else if setting.unit == PHASES {
        allocation_name(value)
    } else {
        format!("{value} {}", setting.unit)
    }
}

/// The settings that a new drive is made with.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ForNewDrive {
    /// Phases of a new drive's allocation, 1 for none [default: 2]
    #[arg(long, value_name = "K")]
    pub phases: Option<Allocation>,
    /// How long a new drive's rewrites wait before they read: 250us, 5ms [default: 0]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| parse_named("rmw_read_delay", text))]
    pub rmw_read_delay: Option<u32>,
    /// How long a new drive's rewrites wait before they write back: 250us, 5ms [default: 0]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| parse_named("write_back_delay", text))]
    pub write_back_delay: Option<u32>,
}

impl ForNewDrive {
    /// What is given: the name of the setting, its key in a table line, its value.
    fn given(&self) -> impl Iterator<Item = (&'static str, &'static str, u32)> {
        [
            ("allocation", "phases", self.phases.map(|it| it.number())),
            ("rmw_read_delay", "rmw_read_delay", self.rmw_read_delay),
            (
                "write_back_delay",
                "write_back_delay",
                self.write_back_delay,
            ),
        ]
        .into_iter()
        .filter_map(|(name, key, value)| Some((name, key, value?)))
    }

    /// The words of a table line that say them.
    pub fn words(&self) -> Vec<String> {
        self.given()
            .flat_map(|(_, key, value)| [key.to_owned(), value.to_string()])
            .collect()
    }

    /// The settings of a drive made with them.
    pub fn settings(&self) -> Settings {
        self.given()
            .fold(Settings::DEFAULT, |settings, (name, _, value)| {
                Settings::find(name)
                    .and_then(|number| settings.with(number, value))
                    .unwrap_or(settings)
            })
    }
}

/// Reads a value of the setting with this name.
fn parse_named(name: &str, text: &str) -> Result<u32> {
    let setting = find(name).and_then(by_number).context("no such setting")?;
    parse_value(setting, text)
}

/// Values of settings. For programs, an object of numbers by the settings' names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(pub Vec<(&'static Setting, u32)>);

impl Values {
    /// The values of all settings.
    pub fn of(settings: &Settings) -> Self {
        Self(Settings::TABLE.iter().zip(settings.values()).collect())
    }

    /// Names and values.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.0
            .iter()
            .map(|(setting, value)| (setting.name, show_value(setting, *value)))
    }

    /// The value of a setting by its name.
    pub fn get(&self, name: &str) -> Option<u32> {
        let found = self.0.iter().find(|(setting, _)| setting.name == name);
        found.map(|(_, value)| *value)
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(setting, value)| (setting.name, value)))
    }
}

/// A zone that is not in normal condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneCondition {
    /// Which.
    pub zone: u64,
    /// What its condition is called.
    pub condition: &'static str,
}

/// The zones of a drive that are not in normal condition.
pub fn conditions(superblock: &Superblock, map: &[u64]) -> Vec<ZoneCondition> {
    let map = SlotMap::new(map);
    (0..superblock.zones)
        .map(|zone| (zone, map.condition(zone)))
        .filter(|(_, condition)| *condition != Condition::Normal)
        .map(|(zone, condition)| ZoneCondition {
            zone,
            condition: condition.name(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str) -> &'static Setting {
        by_number(find(name).unwrap()).unwrap()
    }

    #[test]
    fn every_value_is_read_as_it_is_shown() {
        for setting in Settings::TABLE {
            assert_eq!(find(&setting.name.replace('_', "-")), find(setting.name));
            for value in [setting.least, setting.default, setting.most] {
                assert_eq!(parse_value(setting, &value.to_string()).unwrap(), value);
                let shown = show_value(setting, value);
                let typed = shown.replace(' ', "");
                assert_eq!(parse_value(setting, &typed).unwrap(), value, "{shown}");
            }
            if let Some(more) = setting.most.checked_add(1) {
                assert!(parse_value(setting, &more.to_string()).is_err());
            }
            assert!(parse_value(setting, "").is_err());
            assert!(parse_value(setting, "-1").is_err());
            assert!(parse_value(setting, "x").is_err());
        }
    }

    #[test]
    fn times_and_switches() {
        let delay = setting("rmw-read-delay");
        for (text, value) in [("250us", 250), ("5ms", 5000), ("1s", 1_000_000), ("7", 7)] {
            assert_eq!(parse_value(delay, text).unwrap(), value, "{text}");
        }
        for text in ["11s", "on", "1.5us", "1 year", "us"] {
            let error = parse_value(delay, text).unwrap_err().to_string();
            assert!(error.contains("0 to 10000000 microseconds"), "{error}");
        }
        let switch = setting("log_errors");
        for (text, value) in [("on", 1), ("off", 0), ("1", 1), ("0", 0)] {
            assert_eq!(parse_value(switch, text).unwrap(), value, "{text}");
        }
        assert!(parse_value(switch, "1us").is_err());
        assert!(parse_value(setting("allocation"), "3us").is_err());
    }
}
