// SPDX-License-Identifier: GPL-2.0-only

//! The tracks of the opened zone, as they lie: tops above the seams between bottoms.

use imrsim_core::{uapi::ZoneSnapshot, Condition};
use ratatui::{
    buffer::Buffer,
    layout::{Alignment, Rect},
    style::{Color, Style},
    text::{Line, Span},
    Frame,
};

use super::{bars, framed, share, FAINT, FREED, NEW, REWRITTEN};
use crate::live::{
    model::{Focus, Model},
    tracks::{Opened, Pair, Track},
};

/// Columns in front of the tracks.
const LABEL: u16 = 8;
/// The most columns of a track.
const WIDEST: u16 = 14;
const TOP: Style = Style::new().fg(Color::Yellow);
const BOTTOM: Style = Style::new().fg(Color::Green);

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let opened = model.opened();
    let block = framed(headline(&opened.answer), model.focus() == Focus::Tracks)
        .title_top(news(opened).alignment(Alignment::Right))
        .title_bottom(details(model, area.width - 2));
    let inner = block.inner(area);
    frame.render_widget(block, area);

    let grid = Grid::new(inner, model.geometry().groups(), model.group());
    let buffer = frame.buffer_mut();
    grid.labels(buffer, inner, opened);
    for (group, pair) in (0..).zip(&opened.pairs) {
        grid.pair(buffer, group, pair, model);
    }
}

fn headline(answer: &ZoneSnapshot) -> String {
    let filling = match (answer.phases, answer.phase) {
        _ if answer.mapped_blocks == answer.zone_blocks => "full".to_owned(),
        (1, _) => "in place".to_owned(),
        (all, 1) => format!("phase 1 of {all} (bottoms)"),
        (all, phase) => format!("phase {phase} of {all} (tops)"),
    };
    let mapped = share(answer.mapped_blocks.into(), answer.zone_blocks.into());
    let condition = match Condition::from_number(answer.condition) {
        Some(Condition::Normal) => String::new(),
        Some(other) => format!(", {}", other.name().to_uppercase()),
        None => format!(", condition {}", answer.condition),
    };
    format!(
        " Zone {}: mapped {mapped}, {filling}{condition} ",
        answer.zone
    )
}

/// What happened in the zone since the last look.
fn news(opened: &Opened) -> Line<'static> {
    let stats = &opened.since;
    let rewrites = stats.rmw_one_neighbour + stats.rmw_two_neighbours;
    if rewrites == 0 {
        return Line::default();
    }
    let s = if rewrites == 1 { "" } else { "s" };
    let text = format!(
        " {rewrites} rewrite{s}, {} extra ",
        stats.extra_write_blocks
    );
    Line::from(text).style(REWRITTEN.reversed())
}

/// The selected pair in words, in so many columns.
fn details(model: &Model, width: u16) -> Line<'static> {
    let group = model.group();
    // CAST: widens.
    let Some(pair) = model.opened().pairs.get(group as usize) else {
        return Line::default();
    };
    let track = |name, track: &Track| {
        let share = share(track.used.into(), track.blocks.into());
        let (used, all) = (track.used, track.blocks);
        format!("{name} {group}: {used} of {all} blocks, {share}")
    };
    let mut text = format!(
        " {}; {}",
        track("top", &pair.top),
        track("bottom", &pair.bottom)
    );
    let why = match model.geometry().neighbour_tracks(group) {
        [_, Some(next)] => format!(", under tops {group} and {}", next.group),
        [..] => format!(", under top {group}"),
    };
    if text.len() + why.len() < usize::from(width) {
        text.push_str(&why);
    }
    text.push(' ');
    Line::from(text)
}

/// Where the tracks are.
struct Grid {
    /// The first group in sight, and how many are.
    first: u32,
    count: u32,
    x: u16,
    /// Columns of a group.
    pitch: u16,
    /// From above: tops, their marks, bottoms, their marks, group numbers.
    tops: Rect,
    bottoms: Rect,
}

impl Grid {
    fn new(inner: Rect, groups: u32, selected: u32) -> Self {
        let width = inner.width - LABEL;
        // The last bottom lies half beside its top.
        let fits = |pitch: u16| u32::from(pitch) * groups + u32::from(pitch / 2) <= width.into();
        let pitch = (1..=WIDEST).rev().find(|pitch| fits(*pitch)).unwrap_or(1);
        let count = (u32::from(width - pitch / 2) / u32::from(pitch)).clamp(1, groups);
        let first = (selected + 1).saturating_sub(count);
        let first = first.max(selected / count * count).min(groups - count);
        let high = inner.height.saturating_sub(3);
        let half = high / 2;
        let row = |y, height| Rect::new(inner.x, inner.y + y, inner.width, height);
        Self {
            first,
            count,
            x: inner.x + LABEL,
            pitch,
            tops: row(0, half),
            bottoms: row(1 + half, high - half),
        }
    }

    fn labels(&self, buffer: &mut Buffer, inner: Rect, opened: &Opened) {
        let (top, bottom) = opened.used();
        let all = |track: fn(&Pair) -> &Track| -> u64 {
            opened
                .pairs
                .iter()
                .map(|it| u64::from(track(it).blocks))
                .sum()
        };
        for (area, name, used, all, style) in [
            (self.tops, "top", top, all(|it| &it.top), TOP),
            (self.bottoms, "bottom", bottom, all(|it| &it.bottom), BOTTOM),
        ] {
            buffer.set_string(inner.x, area.y, name, style);
            buffer.set_string(inner.x, area.y + 1, share(used, all), style);
        }
    }

    fn pair(&self, buffer: &mut Buffer, group: u32, pair: &Pair, model: &Model) {
        let Some(column) = group.checked_sub(self.first).filter(|it| *it < self.count) else {
            return;
        };
        // CAST: it lies in the area.
        let x = self.x + column as u16 * self.pitch;
        let gap = u16::from(self.pitch > 1);
        let shift = self.pitch / 2;
        let (tops, bottoms) = (self.tops, self.bottoms);
        let bar = |area: Rect, x| Rect::new(x, area.y, self.pitch - gap, area.height);
        upright(buffer, bar(tops, x), &pair.top, TOP);
        upright(buffer, bar(bottoms, x + shift), &pair.bottom, BOTTOM);
        mark(buffer, x, tops.bottom(), &pair.top);
        mark(buffer, x + shift, bottoms.bottom(), &pair.bottom);

        let y = bottoms.bottom() + 1;
        let selected = group == model.group() && model.focus() == Focus::Tracks;
        let every = if self.pitch < 4 { 8 } else { 1 };
        if selected {
            buffer.set_string(x, y, "▲", Style::new().bold());
        } else if group.is_multiple_of(every) {
            // Not over the mark of the selected one.
            buffer.set_string(x, y, group.to_string(), FAINT);
        }
    }
}

fn upright(buffer: &mut Buffer, area: Rect, track: &Track, style: Style) {
    // Where all tracks change, their fill is to be seen none the less.
    let tip = flash(track).map_or(style, |(_, style)| style);
    let share = (track.used.into(), track.blocks.into());
    bars::upright(buffer, area, share, (style, tip), ("░", FAINT));
}

fn mark(buffer: &mut Buffer, x: u16, y: u16, track: &Track) {
    if let Some((symbol, style)) = flash(track) {
        buffer.set_span(x, y, &Span::styled(symbol, style), 1);
    }
}

/// What happened to a track since the last look: the costliest of it.
fn flash(track: &Track) -> Option<(&'static str, Style)> {
    if track.rewritten > 0 {
        Some(("!", REWRITTEN))
    } else if track.taken > 0 {
        Some(("+", NEW))
    } else if track.freed > 0 {
        Some(("-", FREED))
    } else {
        None
    }
}
