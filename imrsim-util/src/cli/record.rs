// SPDX-License-Identifier: GPL-2.0-only

//! `record`: a recording of a drive of the kernel.

use std::{
    ffi::OsString,
    io::{self, BufWriter, Write},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{self, Child, Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use nix::{
    sys::signal::{kill, Signal},
    unistd::Pid,
};
use serde::Serialize;
use signal_hook::flag;

use super::output::{beside, target, Named};
use crate::{
    device::Device,
    exit::usage,
    number::{parse_count, parse_duration, parse_size, Bytes},
    record::{self, Control, Next, Options, Summary},
    report,
    tracefs::{self, Stream, Tracefs},
};

/// How often one looks whether a command has ended.
const TICK: Duration = Duration::from_millis(50);

/// The least that is worth calling a buffer, and the most that the kernel can be told in KiB.
const BUFFER: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 40;

pub(super) const AFTER_HELP: &str =
    "What the drive does while this runs, or while COMMAND does, is read from the kernel's trace events, block by \
    block;\n'imrsim_util show' shows it. Ctrl-C, SIGTERM, --for and the end of COMMAND complete the recording; a second \
    Ctrl-C\ngives it up. It is checked against the drive, and there is a file only if nothing is missing in it.\n\
    All zones can be recorded of drives with up to 1024. For a moment at the beginning and at the end, requests to\n\
    a zone wait. This needs root.\n\n\
    Examples:\n  \
    imrsim_util record /dev/mapper/imrsim --zone 0 -o run.imrtrace -- fio job.fio\n  \
    imrsim_util record /dev/mapper/imrsim -o run.imrtrace --for 10s\n  \
    imrsim_util show --html run.imrtrace -o run.html";

#[derive(Debug, Args)]
pub(super) struct RecordArgs {
    /// The drive
    #[arg(value_name = "DEV")]
    device: PathBuf,
    /// The recording to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Record only this zone [default: all in which something happens]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    zone: Option<u64>,
    /// End after so long: 10s, 5m
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    #[arg(conflicts_with = "command")]
    duration: Option<Duration>,
    /// Room for events that were not read yet, for each processor
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_size)]
    buffer: u64,
    /// Print a summary as JSON; what COMMAND prints goes to standard error
    #[arg(long)]
    json: bool,
    /// Where the kernel's trace files are [default: /sys/kernel/tracing]
    #[arg(long, value_name = "DIR", hide = true)]
    tracefs: Option<PathBuf>,
    /// A command to run meanwhile
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    summary: Summary,
    bytes: u64,
    interrupted: bool,
}

impl RecordArgs {
    pub(super) fn run(&self, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        if !BUFFER.contains(&self.buffer) {
            let (least, most) = (Bytes(*BUFFER.start()), Bytes(*BUFFER.end()));
            return Err(usage(format!("--buffer is {least} to {most}")));
        }
        let path = target(&self.output)?;
        let mut device = Device::open(&self.device)?;
        record::zones(&device.config()?, self.zone)?;
        let dev = tracefs::dev_of(&self.device)?;
        let tracefs = Tracefs::find(self.tracefs.as_deref())?;
        let file = beside(&path)?;
        // From here on, signals are no longer the end of the program, so that nothing stays behind of it.
        let mut running = Running::new(self)?;
        let instance = tracefs.instance(&format!("imrsim-{}", process::id()))?;
        instance.collect(dev, self.zone, self.buffer)?;
        let mut stream = Stream::new(instance.pipe()?);
        let to = BufWriter::with_capacity(
            1 << 17,
            Named {
                path: path.clone(),
                file: file.as_file().try_clone()?,
            },
        );
        let options = Options::new(dev, self.zone);
        let done = record::record(&mut device, &mut stream, &options, &mut running, to);
        running.bar.finish_and_clear();
        let (summary, to) = match done {
            Ok(done) => done,
            Err(error) => {
                // The drive is not to pay for events that nobody wants.
                drop(stream);
                drop(instance);
                if running.command_runs() {
                    writeln!(err, "error: {error:#}; waiting for the command to end")?;
                    running.wait()?;
                }
                return Err(error);
            }
        };
        drop(to);
        let bytes = file.as_file().metadata()?.len();
        file.persist(&path)
            .map_err(|error| error.error)
            .with_context(|| format!("cannot write {}", path.display()))?;
        drop(stream);
        if let Err(error) = instance.remove() {
            writeln!(err, "warning: {error:#}")?;
        }
        if running.interrupted && running.command_runs() {
            writeln!(
                err,
                "{} is complete; waiting for the command to end (Ctrl-C again leaves it running)",
                self.output.display()
            )?;
        }
        let status = running.wait()?;

        let Summary {
            events,
            requests,
            rewrites,
            zones,
            seconds,
            lost,
        } = summary;
        writeln!(
            err,
            "{}: {}, {events} events in {seconds:.1} s: {requests} requests, {rewrites} rewrites, in {zones} zone{}; \
             {lost} lost",
            self.output.display(),
            Bytes(bytes),
            if zones == 1 { "" } else { "s" }
        )?;
        if events == 0 {
            writeln!(
                err,
                "warning: nothing happened in the drive: there is nothing to show"
            )?;
        }
        if self.json {
            let interrupted = running.interrupted;
            report::json(
                &Json {
                    summary,
                    bytes,
                    interrupted,
                },
                out,
            )?;
            out.flush()?;
        }
        match status.filter(|status| !status.success() && !running.interrupted) {
            Some(status) => bail!("the command has failed ({}); it is recorded", shown(status)),
            None => Ok(()),
        }
    }
}

fn shown(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Says how long the recording goes on.
struct Running<'a> {
    command: &'a [OsString],
    json: bool,
    duration: Option<Duration>,
    signals: [(Signal, Arc<AtomicBool>); 4],
    interrupted: bool,
    began: Option<Instant>,
    child: Option<Child>,
    /// Of the command, when it has ended.
    status: Option<ExitStatus>,
    bar: ProgressBar,
}

impl<'a> Running<'a> {
    fn new(args: &'a RecordArgs) -> Result<Self> {
        let [int, term, hup, quit] = [
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGQUIT,
        ]
        .map(|signal| {
            let came = Arc::new(AtomicBool::new(false));
            // CAST: the number of the signal.
            flag::register(signal as i32, Arc::clone(&came)).map(|_| (signal, came))
        });
        // A command has the terminal for itself.
        let bar = match args.command.is_empty() {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{spinner} {msg} (Ctrl-C ends it)");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Ok(Self {
            command: &args.command,
            json: args.json,
            duration: args.duration,
            signals: [int?, term?, hup?, quit?],
            interrupted: false,
            began: None,
            child: None,
            status: None,
            bar,
        })
    }

    fn command_runs(&mut self) -> bool {
        self.child.is_some() && self.status.is_none()
    }

    /// A signal that has come since this was last asked.
    fn signal(&mut self) -> Option<Signal> {
        let came = self.signals.iter();
        let came = came.filter(|(_, came)| came.swap(false, Ordering::Relaxed));
        // All of them are heard now.
        came.fold(None, |_, (signal, _)| Some(*signal))
    }

    /// The same. The command hears of it: of SIGINT by the terminal, of SIGTERM by us.
    fn heard(&mut self) -> bool {
        let signal = self.signal();
        if let (Some(Signal::SIGTERM), Some(child), None) = (signal, &self.child, self.status) {
            if let Ok(id) = i32::try_from(child.id()) {
                // It may have ended by now.
                let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
            }
        }
        signal.is_some()
    }

    /// Looks whether the command has ended.
    fn has_ended(&mut self) -> Result<bool> {
        if let (Some(child), None) = (&mut self.child, self.status) {
            self.status = child.try_wait().context("cannot wait for the command")?;
        }
        Ok(self.status.is_some())
    }

    /// Waits for the command, if there is one.
    fn wait(&mut self) -> Result<Option<ExitStatus>> {
        while self.child.is_some() && !self.has_ended()? {
            if self.heard() {
                ensure!(
                    !self.interrupted,
                    "interrupted while the command still runs"
                );
                self.interrupted = true;
            }
            thread::sleep(TICK);
        }
        Ok(self.status)
    }
}

impl Control for Running<'_> {
    fn begun(&mut self) -> Result<()> {
        self.began = Some(Instant::now());
        if self.command.is_empty() && self.bar.is_hidden() {
            // For scripts, which have to know when to begin.
            writeln!(io::stderr(), "recording")?;
        }
        let Some((program, args)) = self.command.split_first() else {
            return Ok(());
        };
        let mut command = Command::new(program);
        command.args(args);
        if self.json {
            command.stdout(Stdio::from(io::stderr()));
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {}", program.to_string_lossy()))?;
        self.child = Some(child);
        Ok(())
    }

    fn next(&mut self, summary: &Summary) -> Result<Next> {
        if self.heard() {
            if self.interrupted {
                return Ok(Next::Abort);
            }
            self.interrupted = true;
        }
        if !self.bar.is_hidden() {
            let Summary { events, zones, .. } = summary;
            self.bar
                .set_message(format!("{events} events in {zones} zones"));
            self.bar.tick();
        }
        let is_over = || {
            let passed = self.began.map(|began| began.elapsed());
            self.duration
                .zip(passed)
                .is_some_and(|(whole, passed)| passed >= whole)
        };
        Ok(match self.interrupted || is_over() || self.has_ended()? {
            true => Next::Finish,
            false => Next::GoOn,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: RecordArgs,
    }

    fn args(rest: &[&str]) -> RecordArgs {
        let words = ["record", "/dev/x", "-o", "y"].iter().chain(rest);
        Line::try_parse_from(words).unwrap().args
    }

    fn next(running: &mut Running<'_>) -> Next {
        running.next(&Summary::default()).unwrap()
    }

    fn come(running: &Running<'_>, signal: usize) {
        running.signals[signal].1.store(true, Ordering::Relaxed);
    }

    #[test]
    fn the_first_signal_completes_and_the_second_gives_up() {
        let args = args(&[]);
        let mut running = Running::new(&args).unwrap();
        running.begun().unwrap();
        assert_eq!(next(&mut running), Next::GoOn);
        come(&running, 0);
        assert_eq!(next(&mut running), Next::Finish);
        assert_eq!(next(&mut running), Next::Finish);
        come(&running, 1);
        assert_eq!(next(&mut running), Next::Abort);
    }

    #[test]
    fn time_passes_from_the_beginning_on() {
        let args = args(&["--for", "1ms"]);
        let mut running = Running::new(&args).unwrap();
        thread::sleep(Duration::from_millis(2));
        assert_eq!(next(&mut running), Next::GoOn);
        running.begun().unwrap();
        thread::sleep(Duration::from_millis(2));
        assert_eq!(next(&mut running), Next::Finish);
    }

    #[test]
    fn a_command_says_when_it_is_over() {
        let failing = args(&["--", "sh", "-c", "exit 3"]);
        let mut running = Running::new(&failing).unwrap();
        assert_eq!(next(&mut running), Next::GoOn);
        running.begun().unwrap();
        while next(&mut running) == Next::GoOn {
            thread::sleep(Duration::from_millis(5));
        }
        let status = running.wait().unwrap().unwrap();
        assert_eq!(shown(status), "exit code 3");
        assert!(!running.interrupted);

        let missing = args(&["--", "/nowhere/program"]);
        let error = Running::new(&missing).unwrap().begun().unwrap_err();
        assert_eq!(error.to_string(), "cannot run /nowhere/program");
    }

    #[test]
    fn a_command_hears_of_sigterm() {
        let args = args(&["--json", "--", "sleep", "600"]);
        let mut running = Running::new(&args).unwrap();
        running.begun().unwrap();
        assert!(running.command_runs());
        come(&running, 1);
        assert_eq!(next(&mut running), Next::Finish);
        assert_eq!(shown(running.wait().unwrap().unwrap()), "signal 15");
    }

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let there = || fs::read_dir(folder.path()).unwrap().count();
        let path = folder.path().join("it");
        assert_eq!(target(&path).unwrap(), path);
        let file = beside(&path).unwrap();
        assert_eq!(there(), 1);
        drop(file);
        assert_eq!(there(), 0);

        // What a link leads to is replaced, not the link.
        fs::write(&path, "old").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let to = target(&link).unwrap();
        beside(&to).unwrap().persist(&to).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert!(link.is_symlink());
        assert!(target(folder.path()).is_err());
        assert!(beside(Path::new("/nowhere/it")).is_err());
    }
}
