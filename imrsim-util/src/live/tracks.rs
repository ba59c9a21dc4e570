// SPDX-License-Identifier: GPL-2.0-only

//! The opened zone: how full its tracks are, and what changed there since the last look.

use anyhow::Result;
use imrsim_core::{uapi::ZoneSnapshot, Geometry, Location, Nbo, Stats, TrackKind};

use crate::{
    device::{Device, Quiet, Transport},
    recording::Snapshot,
    watch::since,
};

/// Blocks of a bottom track that were rewritten, and with them the top blocks over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// In which zone.
    pub zone: u64,
    /// The place of the first of them in the zone.
    pub first: Nbo,
    /// How many.
    pub blocks: u32,
}

/// Returns the rewrites since it was called last. Counters do not say where a rewrite was: what gives
/// these, as a reader of trace events, makes the tracks flash. The ones of other zones than the opened
/// one are let go.
pub type Rewrites<'a> = dyn FnMut() -> Result<Vec<Rewrite>> + 'a;

/// The [`Rewrites`] of who knows of none.
///
/// # Errors
///
/// Never.
pub fn no_rewrites() -> Result<Vec<Rewrite>> {
    Ok(Vec::new())
}

/// A track. All numbers are blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// What it holds at most.
    pub blocks: u32,
    /// In use.
    pub used: u32,
    /// Came into use since the last look.
    pub taken: u32,
    /// Went out of use since the last look.
    pub freed: u32,
    /// Rewritten since the last look, or, on a top track, written back for that.
    pub rewritten: u32,
}

/// A top track and the bottom track behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The narrow one.
    pub top: Track,
    /// The wide one.
    pub bottom: Track,
}

impl Pair {
    fn empty(geometry: &Geometry) -> Self {
        let track = |kind| Track {
            blocks: geometry.track_len(kind),
            ..Track::default()
        };
        Self {
            top: track(TrackKind::Top),
            bottom: track(TrackKind::Bottom),
        }
    }

    fn track(&mut self, kind: TrackKind) -> &mut Track {
        match kind {
            TrackKind::Top => &mut self.top,
            TrackKind::Bottom => &mut self.bottom,
        }
    }
}

/// A zone that is looked at.
#[derive(Clone, Debug)]
pub struct Opened {
    /// What the drive says of it.
    pub answer: ZoneSnapshot,
    /// By group.
    pub pairs: Vec<Pair>,
    /// What was counted in it since the last look; nothing at the first.
    pub since: Stats,
    snapshot: Snapshot,
}

impl Opened {
    /// Looks at a zone. `before` is the last look, if it was at the same zone; requests that are under
    /// way go on.
    ///
    /// # Errors
    ///
    /// If there is no such zone, or the drive refuses.
    pub fn look<T: Transport>(
        device: &mut Device<T>,
        geometry: &Geometry,
        zone: u64,
        before: Option<&Self>,
        rewrites: &[Rewrite],
    ) -> Result<Self> {
        let (answer, snapshot) = device.snapshot(geometry, zone, Quiet::No, 0)?;
        let before = before.filter(|it| it.is_of(geometry, zone));
        let mut it = Self {
            answer,
            pairs: vec![Pair::empty(geometry); geometry.groups() as usize],
            since: before.map_or(Stats::default(), |it| {
                since(&it.answer.stats(), &answer.stats())
            }),
            snapshot,
        };
        it.fill(geometry, before);
        for rewrite in rewrites.iter().filter(|it| it.zone == zone) {
            it.mark(geometry, rewrite);
        }
        Ok(it)
    }

    /// Whether it is a look at this zone of a drive of this geometry.
    pub fn is_of(&self, geometry: &Geometry, zone: u64) -> bool {
        let tracks = self
            .pairs
            .first()
            .map(|it| (it.top.blocks, it.bottom.blocks));
        self.answer.zone == zone
            && self.pairs.len() == geometry.groups() as usize
            && tracks == Some((geometry.top_blocks(), geometry.bottom_blocks()))
    }

    /// Blocks in use on its top tracks, and on its bottom tracks.
    pub fn used(&self) -> (u64, u64) {
        self.pairs.iter().fold((0, 0), |(top, bottom), pair| {
            (
                top + u64::from(pair.top.used),
                bottom + u64::from(pair.bottom.used),
            )
        })
    }

    fn fill(&mut self, geometry: &Geometry, before: Option<&Self>) {
        for place in (0..geometry.zone_blocks()).map(Nbo) {
            let is = self.snapshot.used().get(place.0);
            let was = before.map_or(is, |it| it.snapshot.used().get(place.0));
            if !is && !was {
                continue;
            }
            if let Some(track) = self.track(geometry, place) {
                track.used += u32::from(is);
                track.taken += u32::from(is && !was);
                track.freed += u32::from(was && !is);
            }
        }
    }

    fn mark(&mut self, geometry: &Geometry, rewrite: &Rewrite) {
        let end = rewrite.first.0.saturating_add(rewrite.blocks);
        for place in (rewrite.first.0..end.min(geometry.zone_blocks())).map(Nbo) {
            if let Some(track) = self.track(geometry, place) {
                track.rewritten += 1;
            }
            for top in geometry.neighbours(place).into_iter().flatten() {
                // What is not in use needs no rescue.
                let used = self.snapshot.used().get(top.0);
                if let Some(track) = self.track(geometry, top).filter(|_| used) {
                    track.rewritten += 1;
                }
            }
        }
    }

    fn track(&mut self, geometry: &Geometry, place: Nbo) -> Option<&mut Track> {
        let Location { track, .. } = geometry.locate(place);
        // CAST: widens.
        let pair = self.pairs.get_mut(track.group as usize)?;
        Some(pair.track(track.kind))
    }
}
