// SPDX-License-Identifier: GPL-2.0-only

//! The counters of the drive, and the write amplification over time.

use imrsim_core::Stats;
use ratatui::{
    layout::Rect,
    style::{Color, Style},
    Frame,
};

use super::{bars, framed, FAINT};
use crate::live::model::Model;

/// A line: what is counted, and where that is.
type Row = (&'static str, fn(&Stats) -> u64);

const BLOCKS: [Row; 4] = [
    ("read", |it| it.host_read_blocks),
    ("written", |it| it.host_write_blocks),
    (" first", |it| it.first_write_blocks),
    (" again", |it| it.update_blocks),
];
const REWRITES: [Row; 4] = [
    ("of 1 top", |it| it.rmw_one_neighbour),
    ("of 2 tops", |it| it.rmw_two_neighbours),
    ("extra", |it| it.extra_write_blocks),
    ("unmapped", |it| it.unmapped_blocks),
];
/// Write amplification that fills the picture, at least: smaller ones are to look small.
const LEAST: f64 = 1.5;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let block = framed(" Counters (blocks of 4 KiB) ".to_owned(), false);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let (counters, buffer) = (model.counters(), frame.buffer_mut());
    let (total, since) = (counters.total(), counters.since());
    for (x, name, width, rows) in [
        (inner.x, "host", 8, BLOCKS),
        (inner.x + 29, "rewrites", 10, REWRITES),
    ] {
        let head = format!("{name:width$}{:>10}{:>9}", "total", "per s");
        buffer.set_string(x, inner.y, head, FAINT);
        for (y, (name, count)) in (inner.y + 1..inner.bottom()).zip(rows) {
            let rate = counters.rate(count(since));
            let rate = rate.map_or("-".to_owned(), short);
            let text = format!("{name:width$}{:>10}{rate:>9}", short(count(&total)));
            buffer.set_string(x, y, text, Style::new());
        }
    }
}

pub(super) fn draw_amplification(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let block = framed(" Amplification ".to_owned(), false);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let (counters, buffer) = (model.counters(), frame.buffer_mut());
    for (y, name, stats) in [
        (inner.y, "total", &counters.total()),
        (inner.y + 1, "now", counters.since()),
    ] {
        let text = format!("{name:<8}{:>10}", stats.waf().to_string());
        buffer.set_string(inner.x, y, text, Style::new().bold());
    }
    let plot = Rect {
        y: inner.y + 2,
        height: inner.height.saturating_sub(2),
        ..inner
    };
    let seen = || counters.history().take(usize::from(plot.width));
    let most = seen().flatten().fold(LEAST, f64::max);
    for (x, amplification) in (plot.left()..plot.right()).rev().zip(seen()) {
        let area = Rect {
            x,
            width: 1,
            ..plot
        };
        let Some(amplification) = amplification else {
            continue;
        };
        // CAST: thousandths of what is seldom more than 3. What is written once is a line.
        let share = (amplification * 1000.0 - 1000.0) as u64 + 1;
        let whole = (most * 1000.0 - 1000.0) as u64 + 1;
        let style = Style::new().fg(if share > 1 {
            Color::LightRed
        } else {
            Color::Green
        });
        bars::upright(
            buffer,
            area,
            (share, whole),
            (style, style),
            (" ", Style::new()),
        );
    }
}

/// A number in at most 7 characters: three digits of large ones.
fn short(number: u64) -> String {
    const UNITS: [(u64, &str); 5] = [
        (1_000_000_000_000_000_000, "E"),
        (1_000_000_000_000_000, "P"),
        (1_000_000_000_000, "T"),
        (1_000_000_000, "G"),
        (1_000_000, "M"),
    ];
    if number < 10_000_000 {
        return number.to_string();
    }
    let unit = UNITS.iter().find(|(unit, _)| number >= *unit);
    unit.map_or(number.to_string(), |(unit, name)| {
        let (whole, rest) = (number / unit, number % unit);
        let hundredths = rest / (unit / 100);
        match whole {
            0..10 => format!("{whole}.{hundredths:02} {name}"),
            10..100 => format!("{whole}.{} {name}", hundredths / 10),
            _ => format!("{whole} {name}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_short() {
        assert_eq!(short(9_999_999), "9999999");
        assert_eq!(short(10_999_999), "10.9 M");
        assert_eq!(short(123_456_789), "123 M");
        assert_eq!(short(1_050_000_000), "1.05 G");
        assert_eq!(short(u64::MAX), "18.4 E");
    }
}
