// SPDX-License-Identifier: GPL-2.0-only

//! The ioctl interface as a C header, written from the tables of [`imrsim_core::uapi`].
//!
//! The C compiler computes the ioctl numbers and the layouts itself; a test compares them with those
//! that the module was compiled with.

use std::fmt::Write as _;

use imrsim_core::{
    failure::Cause,
    latency,
    uapi::{self, Request, Struct},
    Condition, Settings, Stats,
};

/// Columns of a comment.
const WIDTH: usize = 96;

/// What begins every name.
const PREFIX: &str = "IMRSIM_";

/// Numbers that are no part of a table: name, value, what it is.
const CONSTANTS: [(&str, u64, &str); 19] = [
    (
        "VERSION",
        uapi::VERSION as u64,
        "The version of the interface, for the first member of every struct.",
    ),
    ("MAGIC", uapi::MAGIC as u64, "The type byte of every ioctl number."),
    ("MAX_SIZE", uapi::MAX_SIZE as u64, "The most bytes of a struct."),
    ("ALL_ZONES", uapi::ALL_ZONES, "The zone that stands for all of them."),
    (
        "FLAG_VOLATILE",
        uapi::FLAG_VOLATILE as u64,
        "Config: mappings live in memory only and are lost when the device is removed.",
    ),
    ("FILTER_ALL", uapi::FILTER_ALL as u64, "Zone report: every zone."),
    (
        "FILTER_FULL",
        uapi::FILTER_FULL as u64,
        "Zone report: zones all of whose blocks are mapped.",
    ),
    (
        "FILTER_NOT_FULL",
        uapi::FILTER_NOT_FULL as u64,
        "Zone report: zones with blocks that are not mapped, free ones included.",
    ),
    (
        "FILTER_FREE",
        uapi::FILTER_FREE as u64,
        "Zone report: zones none of whose blocks are mapped.",
    ),
    (
        "FILTER_READ_ONLY",
        uapi::FILTER_READ_ONLY as u64,
        "Zone report: zones that are read-only.",
    ),
    (
        "FILTER_OFFLINE",
        uapi::FILTER_OFFLINE as u64,
        "Zone report: zones that are offline.",
    ),
    (
        "RESET_ZONES",
        uapi::RESET_ZONES as u64,
        "Reset: every zone is in normal condition again.",
    ),
    (
        "RESET_SETTINGS",
        uapi::RESET_SETTINGS as u64,
        "Reset: every setting is what it was when the device was made.",
    ),
    (
        "CLEAR_READ_ERROR",
        uapi::CLEAR_READ_ERROR as u64,
        "Errors: forget the last failed read. Needs CAP_SYS_ADMIN.",
    ),
    (
        "CLEAR_WRITE_ERROR",
        uapi::CLEAR_WRITE_ERROR as u64,
        "Errors: forget the last failed write. Needs CAP_SYS_ADMIN.",
    ),
    (
        "SNAPSHOT_QUIET",
        uapi::SNAPSHOT_QUIET as u64,
        "Snapshot: have the zone for a moment in which nothing is in flight there. Needs CAP_SYS_ADMIN.",
    ),
    ("MAX_REPORT", uapi::MAX_REPORT as u64, "The most zones in one report."),
    ("ENTRY_WORDS", uapi::ENTRY_WORDS as u64, "Words of a zone in a report."),
    (
        "LATENCY_BUCKETS",
        latency::BUCKETS as u64,
        "Buckets of a latency histogram; bucket b is for less than 2^(9 + b) nanoseconds, the last for the \
         rest.",
    ),
];

/// The text of the header.
pub fn header() -> String {
    let mut text = String::from(
        "/* SPDX-License-Identifier: GPL-2.0-only */\n\
         /*\n \
         * The ioctls of an IMRSim device: docs/ioctl.md explains them.\n \
         *\n \
         * Written by 'imrsim_util generate header'; not to be edited.\n \
         */\n\
         #ifndef IMRSIM_H\n\
         #define IMRSIM_H\n\n\
         #include <linux/ioctl.h>\n\
         #include <linux/types.h>\n",
    );
    for (name, value, doc) in CONSTANTS {
        let value = match u32::try_from(value) {
            Ok(value) => format!("{value}U"),
            Err(_) => format!("{value:#x}ULL"),
        };
        define(&mut text, name, &value, doc);
    }

    let settings = Settings::TABLE.iter().zip(0..).map(|(it, number)| {
        let range = format!(" {} to {} ({}).", it.least, it.most, it.unit);
        (it.name.to_owned(), number, it.doc.to_owned() + &range)
    });
    enumeration(&mut text, "setting", "What can be set.", settings);
    let indicators = Stats::INDICATORS.iter().zip(0..);
    let indicators = indicators.map(|(it, number)| (it.name.to_owned(), number, it.doc.to_owned()));
    enumeration(&mut text, "indicator", "What is counted.", indicators);
    let conditions = Condition::ALL.iter().map(|it| {
        let doc = format!("The zone is {}.", it.name());
        (it.name().to_owned(), it.number(), doc)
    });
    enumeration(
        &mut text,
        "condition",
        "What a zone may be used for.",
        conditions,
    );
    let causes = Cause::ALL
        .iter()
        .map(|it| (it.name().to_owned(), it.number(), it.doc().to_owned()));
    enumeration(
        &mut text,
        "cause",
        "Why a request of the host failed; 0 if none did.",
        causes,
    );
    let kinds = latency::Kind::ALL.iter().zip(0..);
    let kinds = kinds.map(|(it, number)| (it.name().to_owned(), number, it.doc().to_owned()));
    enumeration(
        &mut text,
        "latency_kind",
        "Kinds of requests with a latency histogram.",
        kinds,
    );

    let mut done: Vec<&str> = Vec::new();
    for request in Request::ALL {
        let layout = request.layout();
        if !done.contains(&layout.name) {
            done.push(layout.name);
            structure(&mut text, layout);
        }
    }
    for request in Request::ALL {
        let macro_name = if request.replies() { "_IOWR" } else { "_IOW" };
        let value = format!(
            "{macro_name}(IMRSIM_MAGIC, {}, struct {})",
            request.cmd() & 0xff,
            struct_name(request.layout())
        );
        let needs = if request.needs_privilege() {
            " Needs CAP_SYS_ADMIN."
        } else {
            ""
        };
        let doc = request.doc().to_owned() + needs;
        define(&mut text, request.name(), &value, &doc);
    }
    text.push_str("\n#endif /* IMRSIM_H */\n");
    text
}

/// The name of a struct in C: `imrsim_zone_report`.
pub fn struct_name(layout: &Struct) -> String {
    let mut name = "imrsim".to_owned();
    for c in layout.name.chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

fn define(text: &mut String, name: &str, value: &str, doc: &str) {
    text.push('\n');
    comment(text, "", doc);
    line(text, &format!("#define {PREFIX}{name} {value}"));
}

fn enumeration(
    text: &mut String,
    name: &str,
    doc: &str,
    entries: impl Iterator<Item = (String, u32, String)>,
) {
    text.push('\n');
    comment(text, "", doc);
    line(text, &format!("enum imrsim_{name} {{"));
    let entries: Vec<_> = entries.collect();
    let prefix = name.to_ascii_uppercase();
    for (index, (entry, number, doc)) in entries.iter().enumerate() {
        comment(text, "\t", doc);
        let entry = entry.to_ascii_uppercase().replace('-', "_");
        let comma = if index + 1 < entries.len() { "," } else { "" };
        line(
            text,
            &format!("\t{PREFIX}{prefix}_{entry} = {number}{comma}"),
        );
    }
    line(text, "};");
    line(text, "");
    let count = entries.len();
    line(
        text,
        &format!(
            "/* How many of them this header knows. */\n#define {PREFIX}{prefix}_COUNT {count}U"
        ),
    );
}

fn structure(text: &mut String, layout: &Struct) {
    text.push('\n');
    comment(text, "", &plain(layout.doc));
    line(text, &format!("struct {} {{", struct_name(layout)));
    for member in layout.members {
        if !member.doc.is_empty() {
            comment(text, "\t", &plain(member.doc));
        }
        let array = member.count.map_or(String::new(), |n| format!("[{n}]"));
        line(
            text,
            &format!("\t__u{} {}{array};", member.bits, member.name),
        );
    }
    line(text, "};");
}

/// A documentation text of Rust as one of C: links become names.
fn plain(doc: &str) -> String {
    let mut text = String::new();
    let mut rest = doc;
    while let Some((before, link)) = rest.split_once('[') {
        text.push_str(before);
        let (name, behind) = link.split_once(']').unwrap_or((link, ""));
        let target = behind.strip_prefix('(').and_then(|it| it.split_once(')'));
        rest = target.map_or(behind, |(_, behind)| behind);
        text.push_str(&c_name(name));
    }
    text.push_str(rest);
    // What is left in backquotes are constants, and members of the struct.
    text.split('`')
        .enumerate()
        .map(|(index, part)| match index % 2 {
            0 => part.to_owned(),
            _ => c_name(&format!("`{part}`")),
        })
        .collect()
}

/// What C calls something that is called `name` in Rust. Ordinary words stay.
fn c_name(name: &str) -> String {
    let Some(name) = name.strip_prefix('`').and_then(|it| it.strip_suffix('`')) else {
        return name.to_owned();
    };
    match name {
        "Settings::TABLE" => "enum imrsim_setting".to_owned(),
        "Stats::INDICATORS" => "enum imrsim_indicator".to_owned(),
        "latency::Kind::ALL" => "enum imrsim_latency_kind".to_owned(),
        _ if name.starts_with(|c: char| c.is_ascii_uppercase()) && !name.contains("::") => {
            format!("{PREFIX}{name}")
        }
        _ => name.to_owned(),
    }
}

/// A comment of one line or more.
fn comment(text: &mut String, indent: &str, doc: &str) {
    let mut lines = vec![String::new()];
    for word in doc.split_whitespace() {
        let last = lines.last_mut().filter(|it| it.len() + word.len() < WIDTH);
        match last {
            Some(last) if last.is_empty() => last.push_str(word),
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    if let [only] = lines.as_slice() {
        line(text, &format!("{indent}/* {only} */"));
        return;
    }
    line(text, &format!("{indent}/*"));
    for each in lines {
        line(text, &format!("{indent} * {each}"));
    }
    line(text, &format!("{indent} */"));
}

fn line(text: &mut String, line: &str) {
    // Writing to a `String` does not fail.
    let _ = writeln!(text, "{line}");
}
