// SPDX-License-Identifier: GPL-2.0-only

//! The live view on a terminal: what it shows, what keys do, and that the terminal is given back. The
//! drive is the simulated one of `examples/live.rs`, so that no kernel is needed. `cargo test` builds that,
//! but `cargo test --test terminal` alone does not.

use std::{
    env, fs,
    io::{Read, Write},
    num::NonZeroU16,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    sync::{
        mpsc::{channel, Receiver, RecvTimeoutError},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        signal::{kill, Signal},
        termios::{tcgetattr, LocalFlags},
    },
    unistd::Pid,
};
use pty_process::{
    blocking::{open, Command, Pty},
    Size,
};

/// Much longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program on a terminal of its own.
struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

impl Terminal {
    fn new(program: &Path, args: &[&str], (rows, columns): (u16, u16)) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let child = Command::new(program)
            .args(args)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .env("RUST_BACKTRACE", "0")
            .spawn(pts)
            .unwrap();
        let pty = Arc::new(pty);
        let (sender, output) = channel();
        let reader = Arc::clone(&pty);
        thread::spawn(move || {
            let mut buf = [0; 4096];
            // At its end, a terminal gives an error.
            while let Ok(len @ 1..) = (&*reader).read(&mut buf) {
                if sender.send(buf[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        let size = |it| NonZeroU16::new(it).unwrap();
        Self {
            pty,
            child,
            output,
            screen: vt100::Parser::new(size(rows), size(columns), 100),
        }
    }

    /// The example, with a drive of 8 zones of 20 blocks.
    fn example(args: &[&str]) -> Self {
        let small = ["--geometry", "4,6,2", "--interval", "50ms"];
        let args: Vec<&str> = small.into_iter().chain(args.iter().copied()).collect();
        Self::new(&example(), &args, (24, 80))
    }

    fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Waits until the screen is as it is to be.
    fn wait(&mut self, what: &str, is: impl Fn(&vt100::Screen) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is(self.screen.screen()) {
            let left = end.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(error) => panic!("no {what} ({error}) on the screen:\n{}", self.text()),
            }
        }
    }

    fn wait_for(&mut self, text: &str) {
        self.wait(text, |screen| screen.contents().contains(text));
    }

    fn press(&mut self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        self.pty.resize(Size::new(rows, columns)).unwrap();
        let size = |it| NonZeroU16::new(it).unwrap();
        self.screen.set_size(size(rows), size(columns));
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, signal).unwrap();
    }

    /// Whether lines are echoed and edited, as a shell needs it.
    fn is_cooked(&self) -> bool {
        let flags = tcgetattr(&*self.pty).unwrap().local_flags;
        flags.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG)
    }

    /// Waits for the end of the program, after which the terminal is as it was. Returns how it ended, and
    /// what is on the screen.
    fn end(mut self) -> (ExitStatus, String) {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.output.recv_timeout(Duration::from_millis(20)) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() > end {
                self.child.kill().unwrap();
                panic!("it does not end:\n{}", self.text());
            }
        }
        let status = self.child.wait().unwrap();
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen(), "{}", self.text());
        assert!(!screen.hide_cursor(), "{}", self.text());
        assert!(self.is_cooked());
        (status, self.text())
    }
}

fn example() -> PathBuf {
    // .../debug/deps/terminal-<hash>
    let test = env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/live");
    assert!(
        path.exists(),
        "{} is missing: cargo build -p imrsim-util --example live",
        path.display()
    );
    path
}

fn selected(screen: &vt100::Screen, zone: u32) -> bool {
    let text = screen.contents();
    text.contains(&format!("[ {zone} ")) && text.contains(&format!("Zone {zone}: "))
}

#[test]
fn keys_do_what_they_say() {
    let mut it = Terminal::example(&["--blocks", "1"]);
    it.wait("zone 0", |screen| selected(screen, 0));
    assert!(it.screen.screen().alternate_screen());
    assert!(!it.is_cooked());
    it.press("\x1b[C");
    it.wait("zone 1", |screen| selected(screen, 1));
    it.press("\x1b[F");
    it.wait("zone 7", |screen| selected(screen, 7));
    it.press("g");
    it.wait("zone 0", |screen| selected(screen, 0));
    it.press("\r");
    it.wait_for("▲");
    it.press("\x1b[C");
    it.wait_for("top 1: ");
    it.press("\t");
    it.wait("zones only", |screen| !screen.contents().contains('▲'));
    it.press("+");
    it.wait_for("every 100ms");
    it.press("-");
    it.wait_for("every 50ms");
    it.press("?");
    it.wait_for("What is this?");
    it.press("x?");
    it.press("\x1b[C");
    it.wait("zone 0", |screen| {
        !screen.contents().contains("What is this?") && selected(screen, 0)
    });
    it.press("q");
    let (status, text) = it.end();
    assert_eq!(status.code(), Some(0));
    assert!(!text.contains("Zone"), "{text}");
}

#[test]
fn the_drive_is_looked_at_again_and_again_but_not_in_a_pause() {
    let written = |screen: &vt100::Screen| -> u64 {
        let text = screen.contents();
        let line = text.lines().find(|line| line.contains("│written"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|it| it.parse().ok()).unwrap_or(0)
    };
    let mut it = Terminal::example(&["--blocks", "1"]);
    it.wait("writes", |screen| written(screen) > 5);
    it.press(" ");
    it.wait_for("PAUSED");
    let before = written(it.screen.screen());
    thread::sleep(Duration::from_millis(300));
    it.press("+");
    it.press("?");
    it.wait_for("What is this?");
    it.press("x");
    it.wait("the same number", |screen| {
        !screen.contents().contains("What is this?") && written(screen) == before
    });
    it.press(" ");
    it.wait("more writes", |screen| written(screen) > before);
    it.press("\x03");
    assert_eq!(it.end().0.code(), Some(0));
}

#[test]
fn rewrites_are_told_of() {
    let mut it = Terminal::example(&["--blocks", "20"]);
    it.wait("rewrite", |screen| {
        let text = screen.contents();
        text.contains(" extra ┐") && text.contains('!')
    });
    it.press("\x1b");
    assert_eq!(it.end().0.code(), Some(0));
}

#[test]
fn the_terminal_may_change_its_size() {
    let mut it = Terminal::example(&["--blocks", "1"]);
    it.wait_for("Counters");
    it.resize(20, 60);
    it.wait_for("needs 80 columns and 24 rows");
    it.resize(40, 120);
    it.wait("bottom line in row 40", |screen| {
        screen.contents_between(39, 0, 39, 120).contains("q quit")
    });
    it.press("q");
    assert_eq!(it.end().0.code(), Some(0));
}

#[test]
fn no_key_is_lost_when_the_size_changes() {
    let mut it = Terminal::example(&["--blocks", "1"]);
    it.wait_for("Counters");
    for round in 0..20 {
        it.resize(24 + round % 2, 80);
        // Back and forth, so that a lost one is seen.
        it.press(if round % 2 == 0 { "G" } else { "g" });
        let zone = if round % 2 == 0 { 7 } else { 0 };
        it.wait("other zone", |screen| selected(screen, zone));
    }
    it.press("q");
    assert_eq!(it.end().0.code(), Some(0));
}

#[test]
fn it_ends_when_the_terminal_is_gone() {
    let mut it = Terminal::example(&["--blocks", "1"]);
    it.wait_for("Counters");
    let Terminal {
        pty,
        mut child,
        output,
        ..
    } = it;
    drop((pty, output));
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("it goes on without a terminal");
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert!(!status.success());
}

#[test]
fn signals_end_it_and_give_the_terminal_back() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut it = Terminal::example(&["--blocks", "1"]);
        it.wait_for("Counters");
        it.signal(signal);
        let (status, _) = it.end();
        assert_eq!(status.signal(), Some(signal as i32));
    }
}

#[test]
fn the_shell_can_go_on_in_between() {
    let mut it = Terminal::example(&["--blocks", "1"]);
    it.wait_for("Counters");
    it.press("\x1a");
    it.wait("shell", |screen| {
        !screen.alternate_screen() && !screen.hide_cursor()
    });
    let stat = format!("/proc/{}/stat", it.child.id());
    let end = Instant::now() + PATIENCE;
    while !fs::read_to_string(&stat).unwrap().contains(") T ") {
        assert!(Instant::now() < end, "it does not stop");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(it.is_cooked());
    it.signal(Signal::SIGCONT);
    it.wait("view", |screen| {
        screen.alternate_screen() && screen.contents().contains("q quit")
    });
    it.press("q");
    assert_eq!(it.end().0.code(), Some(0));
}

#[test]
fn a_panic_gives_the_terminal_back_first() {
    let it = Terminal::example(&["--panic-at", "5"]);
    let (status, text) = it.end();
    assert_eq!(status.code(), Some(101));
    assert!(text.contains("as was asked for"), "{text}");
}

#[test]
fn a_drive_that_stops_answering_is_no_end() {
    let mut it = Terminal::example(&["--fail-at", "5"]);
    it.wait_for("NO ANSWER");
    it.wait_for("is suspended: 'dmsetup resume' lets it go on");
    it.press("q");
    assert_eq!(it.end().0.code(), Some(0));
}

#[test]
fn what_is_wrong_from_the_beginning_is_said_without_a_view() {
    let program = Path::new(env!("CARGO_BIN_EXE_imrsim_util"));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (program, args, code, said) in [
        (
            &*example(),
            &["--zone", "8"][..],
            1,
            "a simulated drive has no zone 8, only 0 to 7",
        ),
        (&*example(), &["--fail-at", "0"], 1, "is suspended"),
        (
            program,
            &["show", "/dev/null"],
            1,
            "/dev/null is not a block device",
        ),
        (program, &["show", "/dev/none"], 1, "cannot open /dev/none"),
        (program, &["show", file], 2, "is a file, no drive"),
    ] {
        let (status, text) = Terminal::new(program, args, (24, 200)).end();
        assert!(text.contains(said), "{text}");
        assert!(!text.contains("Counters"), "{text}");
        assert_eq!(status.code(), Some(code), "{text}");
    }
}
