// SPDX-License-Identifier: GPL-2.0-only

//! What is to be seen, for somebody who never saw it.

use ratatui::{
    layout::{Constraint, Rect},
    style::Stylize,
    text::{Line, Span},
    widgets::{Clear, Paragraph},
    Frame,
};

use super::{framed, FREED, NEW, REWRITTEN};
use crate::live::keys::KEYS;

const TEXT: [&str; 8] = [
    "Narrow top tracks lie over the edges of wide bottom tracks. A top can be",
    "rewritten at will. To rewrite a bottom, the drive first reads what the two",
    "tops over it hold there, and writes that back afterwards: extra writes.",
    "",
    "Bars show how full a track is: those above the tops, below the bottoms, in",
    "their order on the platter. Bottoms are filled first, then tops.",
    "Amplification: blocks written in all by blocks that the host wrote. 1 is the",
    "least; the picture is of the last looks, the newest on the right.",
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect) {
    let mut lines: Vec<Line<'_>> = TEXT.into_iter().map(Line::from).collect();
    lines.push(Line::from(vec![
        "Since the last look:  ".into(),
        Span::styled("+", NEW),
        " taken   ".into(),
        Span::styled("-", FREED),
        " freed   ".into(),
        Span::styled("!", REWRITTEN),
        " rewritten, where that is known".into(),
    ]));
    lines.push(Line::from(
        "Zones: R read-only, X offline. While this runs, the drive is in use.",
    ));
    lines.push(Line::default());
    lines.extend(
        KEYS.map(|(key, meaning)| Line::from(vec![format!("{key:<22}").bold(), meaning.into()])),
    );
    // CAST: a handful.
    let height = lines.len() as u16 + 2;
    let area = area.centered(Constraint::Length(80), Constraint::Length(height));
    frame.render_widget(Clear, area);
    let block = framed(" What is this? (any key: back) ".to_owned(), true);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}
