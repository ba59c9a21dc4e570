// SPDX-License-Identifier: GPL-2.0-only

//! Shows recordings: as a page that plays them, and as pictures of a moment.
//!
//! * [`Chosen`] is a zone of a recording that is to be shown;
//! * [`steps`] makes steps of its events: a request, and all that the drive does for it;
//! * [`page`] packs all steps into one HTML file;
//! * [`picture`] lays out a moment, [`svg`] and [`png`] draw it.

mod base64;
pub mod page;
pub mod picture;
pub mod png;
pub mod steps;
pub mod svg;

use std::{collections::BTreeMap, fs::File, io::BufReader, path::Path};

use anyhow::{bail, Context, Result};

use crate::recording::{Event, Header, Item, Player, Reader};

/// A recording on disk.
pub type FilePlayer = Player<BufReader<File>>;

/// What is counted of a zone.
#[derive(Clone, Copy, Debug, Default)]
struct Zone {
    requests: u64,
    steps: u64,
    events: u64,
}

/// A zone of a recording that is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Of what recording.
    pub header: Header,
    /// The zone.
    pub zone: u64,
    /// How many zones were recorded.
    pub recorded: u64,
    /// Requests to the zone, as the drive counts them.
    pub requests: u64,
    /// Steps: events of requests. A drive of the kernel has one for each run of a request.
    pub steps: u64,
    /// Its events.
    pub events: u64,
}

impl Chosen {
    /// Looks at a whole recording: `zone`, or the zone with most requests.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is damaged, or has nothing of that zone.
    pub fn of(path: &Path, zone: Option<u64>) -> Result<Self> {
        let shown = path.display();
        let mut reader = open(path)?;
        let mut counts: BTreeMap<u64, Zone> = BTreeMap::new();
        while let Some(item) = reader.next_item().with_context(|| shown.to_string())? {
            match item {
                Item::Start(snapshot) => {
                    counts.insert(snapshot.zone, Zone::default());
                }
                Item::Event { zone, event, .. } if !event.is_of_drive() => {
                    let zone = counts.entry(zone).or_default();
                    if let Event::Request(request) = event {
                        zone.steps += 1;
                        zone.requests += u64::from(!request.more);
                    }
                    zone.events += 1;
                }
                _ => {}
            }
        }
        // Of equals, the first.
        let busiest = counts.iter().rev().max_by_key(|(_, zone)| zone.requests);
        let busiest = busiest.map(|(zone, _)| *zone);
        let Some(zone) = zone.or(busiest) else {
            bail!("{shown}: nothing was recorded");
        };
        let Some(counted) = counts.get(&zone) else {
            bail!("{shown}: nothing was recorded of zone {zone}");
        };
        Ok(Self {
            header: *reader.header(),
            zone,
            recorded: counts.len() as u64,
            requests: counted.requests,
            steps: counted.steps,
            events: counted.events,
        })
    }

    /// Plays the zone from its start.
    ///
    /// # Errors
    ///
    /// If the recording cannot be opened.
    pub fn player(&self, path: &Path) -> Result<FilePlayer> {
        Ok(Player::new(open(path)?, Some(self.zone)))
    }
}

fn open(path: &Path) -> Result<Reader<BufReader<File>>> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
    Reader::new(BufReader::with_capacity(1 << 17, file)).with_context(|| shown.to_string())
}
