// SPDX-License-Identifier: GPL-2.0-only

//! The requests of the host that failed last.

use std::io::{self, Write};

use anyhow::Result;
use imrsim_core::{
    uapi::{self, ALL_ZONES, CLEAR_READ_ERROR, CLEAR_WRITE_ERROR},
    Cause,
};
use serde::Serialize;

use crate::{
    control::{Clear, Failed},
    device::{is_not_permitted, Device, Transport},
    report::{self, Style},
};

/// The last failed request of one direction.
#[derive(Serialize)]
struct Last {
    /// The number of its cause; 0 if there was none.
    code: u32,
    name: &'static str,
    meaning: &'static str,
    errno: Option<u32>,
    zone: Option<u64>,
    /// How many failed since they were forgotten.
    count: u64,
}

impl Last {
    fn new(code: u32, errno: u32, zone: u64, count: u64) -> Self {
        let (name, meaning) = match (code, Cause::from_number(code)) {
            (0, _) => ("none", "nothing failed since that was asked and forgotten"),
            (_, Some(cause)) => (cause.name(), cause.doc()),
            (_, None) => ("unknown", "the module is newer than this program"),
        };
        let failed = code != 0;
        Self {
            code,
            name,
            meaning,
            errno: failed.then_some(errno),
            zone: (failed && zone != ALL_ZONES).then_some(zone),
            count,
        }
    }

    /// The code and the name, and what else is known: `2 zone-read-only (zone 3, ...)`.
    fn line(&self) -> String {
        let mut line = format!("{} {}", self.code, self.name);
        let Some(errno) = self.errno else {
            return line;
        };
        let mut more = Vec::new();
        if let Some(zone) = self.zone {
            more.push(format!("zone {zone}"));
        }
        let errno = i32::try_from(errno).unwrap_or(i32::MAX);
        more.push(io::Error::from_raw_os_error(errno).to_string());
        more.push(format!("{} failed", self.count));
        line.push_str(&format!(" ({})", more.join(", ")));
        line
    }

    fn row(&self, direction: &str) -> Vec<String> {
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |it| it.to_string());
        vec![
            direction.to_owned(),
            self.code.to_string(),
            self.name.to_owned(),
            number(self.errno.map(u64::from)),
            number(self.zone),
            self.count.to_string(),
        ]
    }
}

/// What is shown.
#[derive(Serialize)]
struct Shown {
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<Last>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write: Option<Last>,
    logging: bool,
    /// Whether they were forgotten.
    cleared: bool,
}

/// Shows which requests failed last.
pub(crate) fn show<T: Transport>(
    device: &mut Device<T>,
    failed: Failed,
    clear: Clear,
    style: Style,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<()> {
    let flags = match (clear, failed) {
        (Clear::No, _) => 0,
        (_, Failed::Reads) => CLEAR_READ_ERROR,
        (_, Failed::Writes) => CLEAR_WRITE_ERROR,
        (_, Failed::All) => CLEAR_READ_ERROR | CLEAR_WRITE_ERROR,
    };
    let (errors, cleared) = match device.errors(flags) {
        Err(error) if clear == Clear::IfAllowed && is_not_permitted(&error) => {
            writeln!(
                err,
                "note: the error is kept: to forget it needs CAP_SYS_ADMIN, try it with sudo"
            )?;
            (device.errors(0)?, false)
        }
        answer => (answer?, flags != 0),
    };
    let uapi::Errors {
        read_cause,
        write_cause,
        read_errno,
        write_errno,
        logging,
        read_zone,
        write_zone,
        read_errors,
        write_errors,
        ..
    } = errors;
    let read = Last::new(read_cause, read_errno, read_zone, read_errors);
    let write = Last::new(write_cause, write_errno, write_zone, write_errors);
    let shown = Shown {
        read: (failed != Failed::Writes).then_some(read),
        write: (failed != Failed::Reads).then_some(write),
        logging: logging != 0,
        cleared,
    };
    match (style, &shown) {
        (Style::Json, shown) => report::json(shown, out)?,
        (
            Style::Text,
            Shown {
                read: Some(read),
                write: Some(write),
                ..
            },
        ) => {
            let header = ["last", "code", "name", "errno", "zone", "count"];
            let rows = [
                header.map(str::to_owned).to_vec(),
                read.row("read"),
                write.row("write"),
            ];
            report::named_table(&rows, out)?;
            for last in [read, write].into_iter().filter(|last| last.code != 0) {
                writeln!(out, "{}: {}", last.name, last.meaning)?;
            }
            writeln!(
                out,
                "logging of errors is {}",
                if shown.logging { "on" } else { "off" }
            )?;
        }
        (Style::Text, Shown { read, write, .. }) => {
            for last in [read, write].into_iter().flatten() {
                writeln!(out, "{}", last.line())?;
            }
        }
    }
    Ok(())
}
