// SPDX-License-Identifier: GPL-2.0-only

//! The terminal, and the loop: look, draw, wait for a key.

use std::{
    io::{self, Stdout},
    panic,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ratatui::{
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, Event},
        execute,
        terminal::{disable_raw_mode, enable_raw_mode, EnterAlternateScreen, LeaveAlternateScreen},
    },
    Terminal,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP},
    flag,
    low_level::emulate_default_handler,
};

use super::{
    keys,
    model::{Command, Model, Then},
    tracks::Rewrites,
    view, Options,
};
use crate::device::{Device, Transport};

/// How long a signal may go unnoticed.
const NAP: Duration = Duration::from_millis(100);

/// Shows a drive on the terminal until somebody has seen enough. The terminal is as before afterwards,
/// be it that this fails, panics, or is ended by a signal; that is returned, and the caller is to let it
/// [end the program](end_by) when there is nothing more to be put in order.
///
/// # Errors
///
/// If the first look fails; later ones may, and are shown. If there is no terminal.
pub fn run<T: Transport>(
    device: &mut Device<T>,
    rewrites: &mut Rewrites<'_>,
    options: &Options,
) -> Result<Option<i32>> {
    // What is wrong from the beginning is said before the screen changes.
    let mut model = Model::new(device, options)?;
    let signal = watch_signals()?;
    let mut screen = Screen::new()?;
    let start = Instant::now();
    let mut last = start;
    loop {
        screen.draw(device, &mut model)?;
        let due = (!model.paused()).then(|| last + model.interval());
        match wait(due, &signal)? {
            Woken::Time => {
                last = Instant::now();
                model.look(device, rewrites(), last - start);
            }
            Woken::Event(event) => match react(&event, &mut model, &mut screen)? {
                Then::GoOn => {}
                Then::Quit => return Ok(None),
            },
            Woken::Signal(signal) => return Ok(Some(signal)),
        }
    }
}

/// Ends the program by a signal that came while the drive was shown, if one did.
///
/// # Errors
///
/// If that cannot be.
pub fn end_by(signal: Option<i32>) -> Result<()> {
    Ok(signal.map_or(Ok(()), emulate_default_handler)?)
}

fn react(event: &Event, model: &mut Model, screen: &mut Screen) -> Result<Then> {
    match event {
        Event::Key(key) if keys::is_suspend(key) => {
            screen.suspend()?;
            Ok(Then::GoOn)
        }
        Event::Key(key) => Ok(match keys::command(key) {
            Some(command) => model.command(command),
            // Any key ends the explanation.
            None if model.help() && key.is_press() => model.command(Command::Help),
            None => Then::GoOn,
        }),
        // Drawing finds out about another size by itself.
        _ => Ok(Then::GoOn),
    }
}

/// What there is to be done.
enum Woken {
    Time,
    Event(Event),
    Signal(i32),
}

/// Waits for something, at the longest until `due`.
fn wait(due: Option<Instant>, signal: &AtomicUsize) -> Result<Woken> {
    loop {
        if let Ok(signal @ 1..) = i32::try_from(signal.load(Ordering::Relaxed)) {
            return Ok(Woken::Signal(signal));
        }
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Woken::Time);
        }
        let nap = left.map_or(NAP, |left| left.min(NAP));
        if event::poll(nap).context("cannot read from the terminal")? {
            return Ok(Woken::Event(event::read()?));
        }
    }
}

/// Where the number of a signal that is to end the program will be.
fn watch_signals() -> Result<Arc<AtomicUsize>> {
    let signal = Arc::new(AtomicUsize::new(0));
    for (number, value) in [SIGHUP, SIGINT, SIGQUIT, SIGTERM].map(|it| (it, it.unsigned_abs())) {
        // CAST: widens.
        flag::register_usize(number, signal.clone(), value as usize)?;
    }
    Ok(signal)
}

/// The terminal while it belongs to the view. It is given back when this is dropped.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    taken: Arc<AtomicBool>,
}

impl Screen {
    fn new() -> Result<Self> {
        let taken = Arc::new(AtomicBool::new(false));
        let before = panic::take_hook();
        let is_taken = taken.clone();
        // A release does not unwind: what is dropped then is nothing.
        panic::set_hook(Box::new(move |panic| {
            if is_taken.swap(false, Ordering::Relaxed) {
                give_back();
            }
            before(panic);
        }));
        // From here on, whatever fails gives the terminal back.
        let mut screen = Self {
            terminal: Terminal::new(CrosstermBackend::new(io::stdout()))
                .context("there is no terminal to draw on; --plain prints one look")?,
            taken,
        };
        screen.take()?;
        Ok(screen)
    }

    fn take(&mut self) -> Result<()> {
        self.taken.store(true, Ordering::Relaxed);
        enable_raw_mode()
            .context("there is no terminal to read keys from; --plain prints one look")?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        self.terminal.hide_cursor()?;
        self.terminal.clear()?;
        Ok(())
    }

    /// Lets the shell go on, until it lets us.
    fn suspend(&mut self) -> Result<()> {
        if self.taken.swap(false, Ordering::Relaxed) {
            give_back();
        }
        emulate_default_handler(SIGTSTP)?;
        self.take()
    }

    fn draw<T: Transport>(&mut self, device: &mut Device<T>, model: &mut Model) -> Result<()> {
        // How many zones are in sight decides which are to be read.
        let size = self.terminal.size()?;
        model.arrange(view::shape(size.into(), model.map().zones()));
        model.catch_up(device);
        self.terminal.draw(|frame| view::draw(frame, model))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.taken.swap(false, Ordering::Relaxed) {
            give_back();
        }
    }
}

fn give_back() {
    // There is nowhere to report that the terminal is gone.
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
