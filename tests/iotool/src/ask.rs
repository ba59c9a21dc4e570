// SPDX-License-Identifier: GPL-2.0-only

//! A single ioctl, as a user's program sends it.

use std::io;
use std::path::Path;

use imrsim_core::uapi::{self, Request};
use imrsim_ioctl::raw::{Arena, Argument, BlockDevice, Number, WRITABLE};

use crate::Failure;

/// Sends the request that the words name, and prints the answer.
pub(crate) fn run(path: &Path, words: &[String]) -> Result<(), Failure> {
    let [name, fields @ ..] = words else {
        return Err(Failure::Usage("a request is needed".to_owned()));
    };
    let request = Request::ALL
        .iter()
        .copied()
        .find(|request| request.name() == name)
        .ok_or_else(|| Failure::Usage(format!("there is no request {name}")))?;
    let layout = request.layout();
    let mut given = vec![
        ("version", u64::from(uapi::VERSION)),
        ("size", layout.size as u64),
    ];
    for field in fields {
        given.push(
            field
                .split_once('=')
                .and_then(|(name, value)| Some((name, value.parse().ok()?)))
                .ok_or_else(|| Failure::Usage(format!("'{field}' is not FIELD=NUMBER")))?,
        );
    }
    let mut bytes = Vec::new();
    let mut used = 0;
    for member in layout.members {
        let values = given.iter().rev();
        let value = values
            .clone()
            .find(|(name, _)| *name == member.name)
            .map_or(0, |(_, value)| *value);
        used += values.filter(|(name, _)| *name == member.name).count();
        for _ in 0..member.count.unwrap_or(1) {
            bytes.extend_from_slice(&value.to_ne_bytes()[..member.bits / 8]);
        }
    }
    if used != given.len() {
        return Err(Failure::Usage(format!(
            "not all of these are fields of {}",
            layout.name
        )));
    }
    let mut arena = Arena::new()?;
    arena.writable_mut()[..bytes.len()].copy_from_slice(&bytes);
    let device = BlockDevice::open(path, false)?;
    let number = Number::new(request.cmd()).ok_or_else(|| "not our number".to_owned())?;
    arena
        .ioctl(&device, number, Argument::Arena(WRITABLE.start))
        .map_err(io::Error::from)?;
    if request.replies() {
        print(layout, arena.writable());
    }
    Ok(())
}

/// Prints a struct's fields but for its header, each array in a line.
fn print(layout: &uapi::Struct, mut bytes: &[u8]) {
    for member in layout.members {
        let mut values = Vec::new();
        for _ in 0..member.count.unwrap_or(1) {
            let (value, rest) = bytes.split_at(member.bits / 8);
            let mut word = [0; 8];
            word[..value.len()].copy_from_slice(value);
            values.push(u64::from_ne_bytes(word).to_string());
            bytes = rest;
        }
        if !matches!(member.name, "version" | "size" | "reserved") {
            println!("{}={}", member.name, values.join(" "));
        }
    }
}
