// SPDX-License-Identifier: GPL-2.0-only

//! Bars of characters, an eighth of a row high and more.

use ratatui::{buffer::Buffer, layout::Rect, style::Style};

const LEVELS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// How many of `steps` steps a part of a whole is: 0 if it is nothing only, all if it is the whole only.
pub(super) fn steps(part: u64, whole: u64, steps: u64) -> u64 {
    if part >= whole {
        return if whole == 0 { 0 } else { steps };
    }
    if part == 0 {
        return 0;
    }
    (part.saturating_mul(steps) / whole).clamp(1, steps.saturating_sub(1).max(1))
}

/// A character that is as full as a part of a whole.
pub(super) fn level(part: u64, whole: u64) -> &'static str {
    // CAST: at most 8.
    LEVELS[steps(part, whole, 8) as usize]
}

/// Draws a bar that grows upwards in `area`, with a style of its tip. What is left of it is `empty`, in its
/// style.
pub(super) fn upright(
    buffer: &mut Buffer,
    area: Rect,
    (part, whole): (u64, u64),
    (style, tip): (Style, Style),
    (empty, empty_style): (&str, Style),
) {
    let mut left = steps(part, whole, u64::from(area.height) * 8);
    for y in area.rows().map(|row| row.y).rev() {
        let here = left.min(8);
        left -= here;
        let style = if left == 0 { tip } else { style };
        for x in area.left()..area.right() {
            let Some(cell) = buffer.cell_mut((x, y)) else {
                continue;
            };
            match here {
                0 => cell.set_symbol(empty).set_style(empty_style),
                // CAST: at most 8.
                _ => cell.set_symbol(LEVELS[here as usize]).set_style(style),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Color;

    use super::*;

    #[test]
    fn nothing_and_all_can_be_told_from_almost() {
        assert_eq!(steps(0, 65536, 8), 0);
        assert_eq!(steps(1, 65536, 8), 1);
        assert_eq!(steps(32768, 65536, 8), 4);
        assert_eq!(steps(65535, 65536, 8), 7);
        assert_eq!(steps(65536, 65536, 8), 8);
        assert_eq!(steps(0, 0, 8), 0);
        assert_eq!(steps(1, 2, 1), 1);
        assert_eq!((level(0, 9), level(9, 9)), (" ", "█"));
    }

    #[test]
    fn bars_grow_from_the_ground() {
        let area = Rect::new(0, 0, 2, 3);
        let mut buffer = Buffer::empty(area);
        let style = Style::new();
        upright(&mut buffer, area, (3, 6), (style, style), ("·", style));
        assert_eq!(buffer, Buffer::with_lines(["··", "▄▄", "██"]));
    }

    #[test]
    fn the_tip_of_a_bar_is_its_last_row_that_is_not_empty() {
        let area = Rect::new(0, 0, 1, 3);
        let (style, tip) = (Style::new(), Style::new().red());
        for (part, row) in [(6, 0), (3, 1), (2, 2)] {
            let mut buffer = Buffer::empty(area);
            upright(&mut buffer, area, (part, 6), (style, tip), (" ", style));
            let red = |y| buffer.cell((0, y)).unwrap().fg == Color::Red;
            assert_eq!([0, 1, 2].map(red), [0, 1, 2].map(|it| it == row));
        }
    }
}
