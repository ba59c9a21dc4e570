// SPDX-License-Identifier: GPL-2.0-only

//! The live view on a terminal: what it shows, what keys do, and that the terminal is given back. The
//! drive is the simulated one of `examples/live.rs`, so that no kernel is needed.

use std::{
    env,
    io::{Read, Write},
    num::NonZeroU16,
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
        let small = ["--geometry", "4,6,2", "--blocks", "1", "--interval", "50ms"];
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

#[test]
fn dump() {
    let args: Vec<String> = env::var("LIVE_ARGS")
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let args: Vec<&str> = args.iter().map(|it| &**it).collect();
    let mut it = Terminal::new(&example(), &args, (24, 80));
    it.wait_for("Counters");
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        if let Ok(bytes) = it.output.recv_timeout(Duration::from_millis(100)) {
            it.screen.process(&bytes);
        }
    }
    println!("{}", it.text());
    it.press("\t");
    it.press("?");
    it.wait_for("What is");
    println!("{}", it.text());
    it.press("qq");
    it.end();
}
