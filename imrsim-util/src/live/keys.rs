// SPDX-License-Identifier: GPL-2.0-only

//! Which key means what.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::model::Command;

/// The keys as the explanation names them, with what they do.
pub const KEYS: [(&str, &str); 9] = [
    ("arrows, PgUp, PgDn", "move to another zone or track pair"),
    ("g or Home, G or End", "go to the first, to the last"),
    ("n", "go to the next zone that is not empty"),
    ("Enter or Tab", "from the zones to the tracks, and back"),
    ("space", "stop looking, go on"),
    ("+ and -", "look less often, more often"),
    ("?", "this explanation"),
    ("Ctrl-Z", "back to the shell; 'fg' returns"),
    ("q, Esc or Ctrl-C", "end"),
];

/// What a key means, besides Ctrl-Z, if anything.
pub fn command(key: &KeyEvent) -> Option<Command> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Command::Quit);
    }
    Some(match key.code {
        KeyCode::Left | KeyCode::Char('h') => Command::Left,
        KeyCode::Right | KeyCode::Char('l') => Command::Right,
        KeyCode::Up | KeyCode::Char('k') => Command::Up,
        KeyCode::Down | KeyCode::Char('j') => Command::Down,
        KeyCode::PageUp => Command::PageUp,
        KeyCode::PageDown => Command::PageDown,
        KeyCode::Home | KeyCode::Char('g') => Command::First,
        KeyCode::End | KeyCode::Char('G') => Command::Last,
        KeyCode::Char('n') => Command::NextUsed,
        KeyCode::Enter | KeyCode::Tab | KeyCode::BackTab => Command::Focus,
        KeyCode::Char(' ') => Command::Pause,
        KeyCode::Char('+' | '=') => Command::Slower,
        KeyCode::Char('-' | '_') => Command::Faster,
        KeyCode::Char('?') | KeyCode::F(1) => Command::Help,
        KeyCode::Esc => Command::Leave,
        KeyCode::Char('q' | 'Q') => Command::Quit,
        _ => return None,
    })
}

/// Whether it is Ctrl-Z, which the terminal does not act on by itself while there is a view on it.
pub fn is_suspend(key: &KeyEvent) -> bool {
    key.code == KeyCode::Char('z') && key.modifiers.contains(KeyModifiers::CONTROL)
}
