// SPDX-License-Identifier: GPL-2.0-only

//! The zones, each as full as it is.

use imrsim_core::{uapi::ZoneEntry, Condition};
use ratatui::{
    buffer::Buffer,
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    Frame,
};

use super::{bars, framed, share, FAINT};
use crate::live::{
    model::{Focus, Model},
    overview::Overview,
    zone_map::Shape,
};

/// Columns of a zone where there is room for its number and how full it is.
const WIDE: u64 = 13;
/// Zones in a row where there is none. A multiple of it, if possible: such numbers are easily found.
const ROUND: u64 = 64;

const BOTTOMS: Style = Style::new().fg(Color::Green);
const TOPS: Style = Style::new().fg(Color::Yellow);
const SELECTED: Style = Style::new().add_modifier(Modifier::BOLD);
const FULL: Style = Style::new().fg(Color::Red);

/// How many of so many zones go into so many columns and rows.
pub(super) fn shape(width: u16, rows: u16, zones: u64) -> Shape {
    let (width, most) = (u64::from(width), u64::from(rows.max(1)));
    let wide = (width / WIDE).max(1);
    let columns = if is_wide(width, most, zones) {
        wide
    } else {
        let room = width.saturating_sub(label(zones)).max(1);
        match room / ROUND {
            0 => room,
            times => times * ROUND,
        }
    };
    let rows = zones.div_ceil(columns);
    Shape {
        columns,
        // Where not all are in sight, a row is for all of them together.
        rows: if rows > most { (most - 1).max(1) } else { rows },
    }
}

fn is_wide(width: u64, rows: u64, zones: u64) -> bool {
    zones.div_ceil((width / WIDE).max(1)) <= rows
}

/// Columns of the number in front of a row.
fn label(zones: u64) -> u64 {
    u64::from(zones.saturating_sub(1).checked_ilog10().unwrap_or(0)) + 3
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let map = model.map();
    let last = map.end().saturating_sub(1);
    let name = if map.zones() == 1 {
        " The zone ".to_owned()
    } else if map.end() - map.first() == map.zones() {
        format!(" Zones 0 to {last} ")
    } else {
        format!(" Zones {} to {last} of {} ", map.first(), map.zones())
    };
    let legend = Line::from(vec![
        " · empty  ".into(),
        Span::styled("▃", BOTTOMS),
        " bottom tracks only  ".into(),
        Span::styled("▆", TOPS),
        " top tracks too  ".into(),
        Span::styled("█", FULL),
        " full ".into(),
    ])
    .alignment(Alignment::Right);
    let block = framed(name, model.focus() == Focus::Zones).title_bottom(legend);
    let inner = block.inner(area);
    frame.render_widget(block, area);

    let mut inner = inner;
    if let Some(overview) = model.overview() {
        let [row, rest] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(inner);
        draw_all(frame.buffer_mut(), row, overview, model);
        inner = rest;
    }
    let columns = map.shape().columns;
    let wide = is_wide(inner.width.into(), inner.height.into(), map.zones());
    let label = label(map.zones());
    for zone in map.first()..map.end() {
        let (row, column) = ((zone - map.first()) / columns, zone % columns);
        let (cell, indent) = if wide { (WIDE, 0) } else { (1, label) };
        // CAST: both lie in the area, because of the map's shape.
        let x = inner.x + (indent + column * cell) as u16;
        let y = inner.y + row as u16;
        if !wide && column == 0 {
            // CAST: a handful.
            let width = label as usize - 1;
            frame
                .buffer_mut()
                .set_string(inner.x, y, format!("{zone:>width$}"), FAINT);
        }
        let Some(entry) = map.entry(zone) else {
            continue;
        };
        let selected = zone == map.selected();
        let (symbol, mut style) = look(entry, map.zone_blocks());
        if selected && wide {
            style = style.bold();
        }
        let text = if wide {
            let share = share(entry.mapped_blocks.into(), map.zone_blocks().into());
            let text = format!("{zone:>2} {symbol} {share:>6}");
            match selected {
                true => format!("[{text}]"),
                false => format!(" {text} "),
            }
        } else if selected {
            style = SELECTED;
            "◆".to_owned()
        } else {
            symbol.to_owned()
        };
        frame.buffer_mut().set_string(x, y, text, style);
    }
}

/// Draws all of the drive in a row.
fn draw_all(buffer: &mut Buffer, area: Rect, overview: &Overview, model: &Model) {
    let map = model.map();
    // CAST: a handful.
    let label = label(map.zones()) as u16;
    let width = usize::from(area.width - label);
    let name = format!("{:>1$}", "all", usize::from(label - 1));
    buffer.set_string(area.x, area.y, name, FAINT);
    let selected = overview.share_of(map.selected(), width);
    for (index, part) in overview.shares(width).iter().enumerate() {
        let mut style = colour(part.mapped, part.blocks, part.used_tops);
        let symbol = match part.mapped {
            _ if index == selected => {
                style = SELECTED;
                "◆"
            }
            0 => "·",
            _ => bars::level(part.mapped, part.blocks),
        };
        // CAST: it lies in the area.
        buffer.set_string(area.x + label + index as u16, area.y, symbol, style);
    }
}

/// The colour of zones of which so many blocks are mapped, of all, and so many of them on top tracks.
fn colour(mapped: u64, all: u64, used_tops: u64) -> Style {
    match mapped {
        0 => FAINT,
        _ if mapped >= all => FULL,
        // A zone that was not touched since the drive was resumed does not say whether tops are in use.
        _ if used_tops > 0 => TOPS,
        _ => BOTTOMS,
    }
}

/// How a zone looks.
fn look(entry: &ZoneEntry, zone_blocks: u32) -> (&'static str, Style) {
    let (mapped, all) = (u64::from(entry.mapped_blocks), u64::from(zone_blocks));
    let style = colour(mapped, all, entry.used_top_blocks.into());
    let symbol = match Condition::from_number(entry.condition) {
        Some(Condition::Normal) if mapped == 0 => "·",
        Some(Condition::Normal) => bars::level(mapped, all),
        Some(Condition::ReadOnly) => "R",
        Some(Condition::Offline) => "X",
        None => "?",
    };
    (symbol, style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_zones_get_much_room_and_many_little() {
        let shape = |zones| {
            let it = shape(78, 2, zones);
            (it.columns, it.rows)
        };
        assert_eq!(shape(1), (6, 1));
        assert_eq!(shape(12), (6, 2));
        assert_eq!(shape(13), (64, 1));
        assert_eq!(shape(128), (64, 2));
        assert_eq!(shape(129), (64, 1));
        assert_eq!(shape(80_000), (64, 1));
        assert_eq!(shape(1 << 24), (64, 1));
        assert_eq!(super::shape(200, 2, 80_000).columns, 192);
    }
}
