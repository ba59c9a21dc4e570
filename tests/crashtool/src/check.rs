// SPDX-License-Identifier: GPL-2.0-only

//! Whether `imrsim_util check` says of crash points, and of damaged ones, what recovery makes of them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use imrsim_core::Layout;

use crate::content::{Random, SECTOR};
use crate::drive::recover;
use crate::ops::Op;
use crate::platter::{Recording, State};
use crate::points::{choose, damage, Tally, Walk, WAYS_OF_IMAGES};

/// Its exit codes for a drive that can be resumed: sound, and damaged without loss.
const GOOD: [i32; 2] = [0, 3];
/// Its exit code for one that is refused.
const REFUSED: i32 = 4;

/// A file with one state after the other, and the program that checks it.
pub struct Image<'a> {
    /// The program.
    pub util: &'a Path,
    /// The file.
    pub path: &'a Path,
}

struct Checker<'a> {
    image: &'a Image<'a>,
    layout: &'a Layout,
    file: File,
    /// What is in the file.
    bytes: Vec<u8>,
}

impl<'a> Checker<'a> {
    fn new(image: &'a Image<'a>, layout: &'a Layout) -> io::Result<Self> {
        let file = File::create(image.path)?;
        let bytes = layout.total_sectors() * SECTOR as u64;
        file.set_len(bytes)?;
        Ok(Self {
            image,
            layout,
            file,
            bytes: vec![0; bytes as usize],
        })
    }

    fn put(&mut self, sector: u64, new: &[u8]) -> io::Result<()> {
        let at = sector * SECTOR as u64;
        let old = &mut self.bytes[at as usize..][..SECTOR];
        if *old != *new {
            old.copy_from_slice(new);
            self.file.write_all_at(new, at)?;
        }
        Ok(())
    }

    /// Writes a state.
    fn write(&mut self, state: &State<'_>) -> io::Result<()> {
        (0..state.sectors()).try_for_each(|sector| self.put(sector, state.sector(sector)))
    }

    /// Checks the file, and compares what comes of it with what recovery makes of the state in it.
    fn check(&self, state: &State<'_>, name: &str, tally: &mut Tally) -> io::Result<()> {
        let geometry = self.layout.geometry();
        let [top, bottom, groups] = [
            geometry.top_blocks(),
            geometry.bottom_blocks(),
            geometry.groups(),
        ];
        let status = Command::new(self.image.util)
            .arg("check")
            .arg(self.image.path)
            .arg(format!("--geometry={top},{bottom},{groups}"))
            .arg(format!("--sectors={}", self.layout.data_sectors()))
            .stdout(Stdio::null())
            .status()?;
        let code = status.code().unwrap_or(-1);
        let outcome = match recover(state, self.layout) {
            Ok(_) => "right".to_owned(),
            Err(error) => error.to_string(),
        };
        let good = outcome == "right";
        if if good {
            !GOOD.contains(&code)
        } else {
            code != REFUSED
        } {
            tally.fail(format!("{name}: {outcome}, but check ends with {code}"));
        }
        *tally.checked.entry((good, code)).or_default() += 1;
        Ok(())
    }
}

/// Checks `count` states of a recording, each with `times` kinds of damage, too.
pub fn check(
    recording: &Recording,
    ops: &[Op],
    layout: &Layout,
    image: &Image<'_>,
    (count, times): (u64, u64),
    seed: u64,
) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut random = Random::new(seed);
    let mut walk = Walk::new(recording, ops, layout);
    let mut checker = Checker::new(image, layout)?;
    for at in choose(&mut walk, recording, count, &mut random) {
        while walk.cursor.position() < at && walk.step() {}
        let mut state = match random.below(3) {
            0 => walk.cursor.prefix(),
            _ => walk.cursor.cut(&mut random, 0),
        };
        let name = format!("before entry {at}");
        tally.points += 1;
        checker.write(&state)?;
        checker.check(&state, &name, &mut tally)?;
        // All of these come back; that they do so right is for others to see.
        let Ok(drive) = recover(&state, layout) else {
            tally.fail(format!("{name}: refused"));
            continue;
        };
        for _ in 0..times {
            let (what, _) = damage(&mut state, &drive, &mut random, WAYS_OF_IMAGES);
            let damaged: Vec<u64> = state.damaged().collect();
            for sector in &damaged {
                checker.put(*sector, state.sector(*sector))?;
            }
            checker.check(&state, &format!("{name}, damaged: {what}"), &mut tally)?;
            state.heal();
            for sector in damaged {
                checker.put(sector, state.sector(sector))?;
            }
        }
    }
    Ok(tally)
}
