// SPDX-License-Identifier: GPL-2.0-only

//! Draws the model. Whatever a colour says, a character or a word says too.

mod bars;
mod counters;
mod help;
mod map;
mod tracks;

use ratatui::{
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Span},
    widgets::{Block, Paragraph, Wrap},
    Frame,
};

use super::{model::Model, zone_map::Shape};
use crate::{
    number::{Bytes, SECTOR},
    report::allocation_name,
};

/// The smallest terminal that has room for all, in columns and rows.
pub const SMALLEST: (u16, u16) = (80, 24);

/// Rows of the boxes for tracks and counters, at least; their borders are among them.
const TRACKS: u16 = 11;
const COUNTERS: u16 = 7;
/// Rows of the zones, without borders: at least, and of all rows beyond the smallest size.
const ZONES: u16 = 2;
const ZONES_SHARE: u16 = 3;

/// What draws attention to it: a border of the box that the arrows are for.
const FOCUSED: Style = Style::new().fg(Color::Cyan);
const FAINT: Style = Style::new().fg(Color::DarkGray);
const NEW: Style = Style::new().fg(Color::LightGreen);
const FREED: Style = Style::new().fg(Color::LightYellow);
const REWRITTEN: Style = Style::new()
    .fg(Color::LightRed)
    .add_modifier(Modifier::BOLD);

/// Where things are.
#[derive(Clone, Copy, Debug)]
struct Places {
    title: Rect,
    zones: Rect,
    tracks: Rect,
    counters: Rect,
    amplification: Rect,
    keys: Rect,
}

impl Places {
    /// `None` if there is not enough room.
    fn new(area: Rect, zones: u64) -> Option<Self> {
        if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
            return None;
        }
        let spare = area.height - SMALLEST.1;
        let shape = map::shape(area.width - 2, ZONES + spare / ZONES_SHARE, zones);
        let all = u64::from(shape.rows * shape.columns < zones);
        // CAST: at most what was just said.
        let map = (shape.rows + all) as u16 + 2;
        let counters = COUNTERS + (spare / 8).min(4);
        let [title, zones, tracks, below, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(map),
            Constraint::Min(TRACKS),
            Constraint::Length(counters),
            Constraint::Length(1),
        ])
        .areas(area);
        let [counters, amplification] =
            Layout::horizontal([Constraint::Length(60), Constraint::Fill(1)]).areas(below);
        Some(Self {
            title,
            zones,
            tracks,
            counters,
            amplification,
            keys,
        })
    }
}

/// How many zones are in sight on a terminal of this size, of a drive of so many.
pub fn shape(area: Rect, zones: u64) -> Shape {
    match Places::new(area, zones) {
        Some(places) => map::shape(places.zones.width - 2, places.zones.height - 2, zones),
        None => Shape {
            columns: 1,
            rows: 1,
        },
    }
}

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    let Some(places) = Places::new(area, model.map().zones()) else {
        too_small(frame, area);
        return;
    };
    title(frame, places.title, model);
    map::draw(frame, places.zones, model);
    tracks::draw(frame, places.tracks, model);
    counters::draw(frame, places.counters, model);
    counters::draw_amplification(frame, places.amplification, model);
    keys(frame, places.keys, model);
    if model.help() {
        help::draw(frame, area);
    }
}

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = SMALLEST;
    let text = format!(
        "This view needs {width} columns and {height} rows; the terminal has {} and {}. Make it \
         larger, or press q and try --plain.",
        area.width, area.height
    );
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

fn title(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let config = model.config();
    let size = Bytes(config.data_sectors.saturating_mul(SECTOR));
    let zones = if config.zones == 1 { "zone" } else { "zones" };
    let text = format!(
        "  {size} in {} {zones}, {}, mapped {}",
        config.zones,
        allocation_name(config.phases),
        share(config.mapped_blocks, config.total_blocks),
    );
    let left = Line::from(vec![model.name().to_owned().bold(), Span::raw(text)]);
    let state = match (model.paused(), model.problem()) {
        (true, _) => " PAUSED ".reversed(),
        (_, Some(_)) => " NO ANSWER ".reversed(),
        _ => format!(" every {:?}", model.interval()).into(),
    };
    frame.render_widget(left, area);
    frame.render_widget(Line::from(state).alignment(Alignment::Right), area);
}

fn keys(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let line = match model.problem() {
        Some(problem) => Line::from(problem.to_owned()).style(REWRITTEN),
        None => Line::from(
            "arrows move   Enter zones/tracks   space pause   + - interval   ? help   q quit",
        )
        .style(FAINT),
    };
    frame.render_widget(line, area);
}

/// A box with a name.
fn framed(name: String, focused: bool) -> Block<'static> {
    let style = if focused { FOCUSED } else { FAINT };
    Block::bordered().border_style(style).title(name.bold())
}

/// A part of a whole, short: "14.4 %". It is all, or nothing, only if it is.
fn share(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1000 / u128::from(whole.max(1));
    match tenths {
        0 if part > 0 => "<0.1 %".to_owned(),
        0 => "0 %".to_owned(),
        1000.. => "100 %".to_owned(),
        _ => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_are_short_and_true() {
        for (part, whole, text) in [
            (0, 65_536, "0 %"),
            (1, 65_536, "<0.1 %"),
            (66, 65_536, "0.1 %"),
            (65_535, 65_536, "99.9 %"),
            (65_536, 65_536, "100 %"),
            (0, 0, "0 %"),
        ] {
            assert_eq!(share(part, whole), text);
        }
    }
}
