// SPDX-License-Identifier: GPL-2.0-only

//! The kernel's trace events of IMRSim drives, as they happen.
//!
//! * [`Tracefs`] is where the kernel has its trace files;
//! * [`Instance`] is a buffer for events of our own there, of which other users of tracing see nothing, nor we of
//!   theirs;
//! * [`Stream`] reads lines of text from it, or from any other [`Source`], and [`parse`](mod@parse) understands them.
//!
//! `docs/tracing.md` has the events.

pub mod parse;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{bail, Context, Result};
use memchr::memchr_iter;
use nix::{
    fcntl::OFlag,
    poll::{poll, PollFd, PollFlags, PollTimeout},
    sys::stat::{major, minor},
};

pub use self::parse::{parse, Dev, Line, Malformed, Traced, What};
use crate::number::Bytes;

/// Where the trace files may be, the better place first.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Bytes that are read at once. The kernel has up to two pages ready.
const READ: usize = 1 << 16;

/// How the lines have to look, where somebody chose otherwise for the whole machine. Older kernels may have no
/// such option.
const OPTIONS: [(&str, &str); 7] = [
    ("context-info", "1"),
    ("latency-format", "0"),
    ("raw", "0"),
    ("hex", "0"),
    ("bin", "0"),
    ("fields", "0"),
    ("verbose", "0"),
];

/// The numbers of the block device behind a path.
///
/// # Errors
///
/// If it is none.
pub fn dev_of(path: &Path) -> Result<Dev> {
    let shown = path.display();
    let metadata = path
        .metadata()
        .with_context(|| format!("cannot open {shown}"))?;
    if !metadata.file_type().is_block_device() {
        bail!("{shown} is not a block device");
    }
    let rdev = metadata.rdev();
    Ok(Dev {
        major: u32::try_from(major(rdev))?,
        minor: u32::try_from(minor(rdev))?,
    })
}

/// Where the kernel has its trace files.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
}

impl Tracefs {
    /// Finds it, or takes `root`.
    ///
    /// # Errors
    ///
    /// If it is not there or not for us, or the kernel has no events of IMRSim. The error says what to do.
    pub fn find(root: Option<&Path>) -> Result<Self> {
        let roots = match root {
            Some(root) => vec![root],
            None => ROOTS.map(Path::new).to_vec(),
        };
        for root in &roots {
            match root.join("instances").metadata() {
                Ok(_) => return Self::with_events(root),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    return Err(needs_root(error))
                }
                Err(_) => {}
            }
        }
        let first = roots.first().copied().unwrap_or(Path::new(""));
        let first = first.display();
        bail!(
            "the kernel's trace files are not there: mount them with 'mount -t tracefs tracefs {first}' \
             (if that fails, the kernel was built without CONFIG_TRACING)"
        );
    }

    fn with_events(root: &Path) -> Result<Self> {
        match root.join("events/imrsim").metadata() {
            Ok(_) => Ok(Self {
                root: root.to_owned(),
            }),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(needs_root(error)),
            Err(_) => bail!(
                "the kernel has no trace events of IMRSim: its module is not loaded or is older than this program, or \
                 the kernel was built without CONFIG_EVENT_TRACING"
            ),
        }
    }

    /// Removes instances of programs that were killed, as far as that is possible.
    fn clear_up(&self) {
        let Ok(instances) = fs::read_dir(self.root.join("instances")) else {
            return;
        };
        for instance in instances.flatten() {
            let name = instance.file_name();
            let of = name.to_string_lossy();
            let pid = of
                .strip_prefix("imrsim-")
                .map(|rest| rest.strip_prefix("show-").unwrap_or(rest));
            let pid = pid.and_then(|pid| pid.parse::<u32>().ok());
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
                // One that somebody still uses stays.
                let _ = fs::remove_dir(instance.path());
            }
        }
    }

    /// A new buffer of its own for events, which is off. It is removed when it is dropped.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn instance(&self, name: &str) -> Result<Instance> {
        let path = self.root.join("instances").join(name);
        self.clear_up();
        let mut made = fs::create_dir(&path);
        if made
            .as_ref()
            .is_err_and(|it| it.kind() == ErrorKind::AlreadyExists)
        {
            // Left behind by somebody who was killed.
            made = fs::remove_dir(&path).and_then(|()| fs::create_dir(&path));
        }
        match made {
            Ok(()) => Ok(Instance { path, gone: false }),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(needs_root(error)),
            Err(error) => Err(error).with_context(|| format!("cannot make {}", path.display())),
        }
    }
}

fn needs_root(error: io::Error) -> anyhow::Error {
    anyhow::Error::new(error)
        .context("the kernel's trace files are for root only: try it with sudo (in lockdown, the kernel refuses root, too)")
}

/// A buffer for events.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    gone: bool,
}

impl Instance {
    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins to collect the events of a drive: of one zone and of the drive as a whole, or of all zones. There is
    /// room for `buffer` bytes of them for each processor.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn collect(&self, dev: Dev, zone: Option<u64>, buffer: u64) -> Result<()> {
        self.prepare(dev, zone, buffer)?;
        self.set("events/imrsim/enable", "1")
    }

    /// Begins to collect only the events of this name, of a whole drive.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn collect_only(&self, name: &str, dev: Dev, buffer: u64) -> Result<()> {
        self.prepare(dev, None, buffer)?;
        self.set(&format!("events/imrsim/{name}/enable"), "1")
    }

    fn prepare(&self, dev: Dev, zone: Option<u64>, buffer: u64) -> Result<()> {
        for (option, value) in OPTIONS {
            // What matters is whether lines can be read in the end.
            let _ = self.set(&format!("options/{option}"), value);
        }
        // The names of processes are of no use here, and for them the kernel would follow each switch between them.
        let _ = self.set("trace_options", "norecord-cmd");
        // The same on all processors, without a lock that they have to share as "global" has one; and the clock of
        // other tools, as fio's logs.
        self.set("trace_clock", "mono")?;
        self.set("buffer_size_kb", &buffer.div_ceil(1024).to_string())
            .with_context(|| {
                let room = Bytes(buffer);
                format!("the kernel does not make a buffer of {room} for each processor")
            })?;
        let events = self.path.join("events/imrsim");
        for entry in fs::read_dir(&events).with_context(|| cannot("read", &events))? {
            let entry = entry.with_context(|| cannot("read", &events))?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let format = entry.path().join("format");
            let format = fs::read_to_string(&format).with_context(|| cannot("read", &format))?;
            let mut filter = format!("dev == {}", dev.number());
            if let Some(zone) = zone.filter(|_| format.contains(" zone;")) {
                filter += &format!(" && zone == {zone}");
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            self.set(&format!("events/imrsim/{name}/filter"), &filter)?;
        }
        Ok(())
    }

    /// What it collects. The events are gone from it when they were read.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn pipe(&self) -> Result<Pipe<'_>> {
        let path = self.path.join("trace_pipe");
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(&path)
            .with_context(|| cannot("open", &path))?;
        Ok(Pipe {
            file,
            instance: self,
            at_end: false,
        })
    }

    /// Removes it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, as while somebody else uses it.
    pub fn remove(mut self) -> Result<()> {
        self.gone = true;
        self.take_down()
            .with_context(|| cannot("remove", &self.path))
    }

    fn take_down(&self) -> io::Result<()> {
        // So that the drive knows at once that nobody listens.
        let _ = self.set("events/imrsim/enable", "0");
        fs::remove_dir(&self.path)
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| file.write_all(value.as_bytes()))
            .with_context(|| format!("cannot write '{value}' to {}", path.display()))
    }

    /// How many events were lost, on whatever processor.
    fn lost(&self) -> Result<u64> {
        let folder = self.path.join("per_cpu");
        let mut lost = 0;
        for entry in fs::read_dir(&folder).with_context(|| cannot("read", &folder))? {
            let stats = entry?.path().join("stats");
            let text = fs::read_to_string(&stats).with_context(|| cannot("read", &stats))?;
            lost += text
                .lines()
                .filter_map(|line| line.split_once(": "))
                .filter(|(name, _)| ["overrun", "commit overrun", "dropped events"].contains(name))
                .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
                .sum::<u64>();
        }
        Ok(lost)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.gone {
            // There is nobody left to tell.
            let _ = self.take_down();
        }
    }
}

fn cannot(what: &str, path: &Path) -> String {
    format!("cannot {what} {}", path.display())
}

/// Where the text of events comes from.
pub trait Source {
    /// Reads what is there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldBlock`] if nothing is.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Waits until something is there, but not longer than `timeout`.
    ///
    /// # Errors
    ///
    /// If that cannot be.
    fn wait(&mut self, timeout: Duration) -> io::Result<()>;

    /// Collects no more; what is there can still be read.
    ///
    /// # Errors
    ///
    /// If that cannot be.
    fn stop(&mut self) -> Result<()>;

    /// How many events were lost since the beginning.
    ///
    /// # Errors
    ///
    /// If that cannot be found out.
    fn lost(&mut self) -> Result<u64>;
}

/// The `trace_pipe` of an instance.
#[derive(Debug)]
pub struct Pipe<'a> {
    file: File,
    instance: &'a Instance,
    at_end: bool,
}

impl Source for Pipe<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read(buf);
        self.at_end = matches!(got, Ok(0));
        got
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        // At its end, a file is always ready.
        if self.at_end {
            thread::sleep(timeout);
            return Ok(());
        }
        let mut files = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut files, timeout) {
            // A signal is a reason to look around, too.
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn stop(&mut self) -> Result<()> {
        self.instance.set("tracing_on", "0")
    }

    fn lost(&mut self) -> Result<u64> {
        self.instance.lost()
    }
}

/// Events as they come. To look at a drive while it works:
///
/// ```no_run
/// use std::time::Duration;
/// use imrsim_util::{
///     recording::Event,
///     tracefs::{Dev, Line, Stream, Tracefs, What},
/// };
///
/// # fn main() -> anyhow::Result<()> {
/// let instance = Tracefs::find(None)?.instance("imrsim-view")?;
/// instance.collect(Dev { major: 252, minor: 0 }, Some(3), 1 << 20)?;
/// let mut stream = Stream::new(instance.pipe()?);
/// loop {
///     let mut rewrites = 0;
///     while stream.read(|line| {
///         if let Line::Event(traced) = line {
///             rewrites += u64::from(matches!(traced.what, What::Event(Event::RmwStart(_))));
///         }
///         Ok(())
///     })? {}
///     println!("{rewrites} rewrites since last asked");
///     std::thread::sleep(Duration::from_secs(1));
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Stream<S> {
    source: S,
    buf: Vec<u8>,
    /// Bytes of a line that has not come to its end, in `buf`.
    begun: usize,
}

impl<S: Source> Stream<S> {
    /// Reads `source`.
    pub fn new(source: S) -> Self {
        Self {
            source,
            buf: vec![0; READ],
            begun: 0,
        }
    }

    /// Where they come from.
    pub fn source(&mut self) -> &mut S {
        &mut self.source
    }

    /// Reads some of what is there; `see` gets each line. Returns whether anything was there. What comes without a
    /// newline waits for the rest of its line.
    ///
    /// # Errors
    ///
    /// If it cannot be read, an event of IMRSim is not as this program knows it, or `see` fails.
    pub fn read(&mut self, mut see: impl FnMut(Line) -> Result<()>) -> Result<bool> {
        let got = match self.source.read(&mut self.buf[self.begun..]) {
            Ok(got) => got,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                0
            }
            Err(error) => return Err(error).context("cannot read the kernel's trace"),
        };
        if got == 0 {
            return Ok(false);
        }
        let end = self.begun + got;
        let mut from = 0;
        for newline in memchr_iter(b'\n', &self.buf[..end]) {
            let line = &self.buf[from..newline];
            from = newline + 1;
            let understood = parse(line).with_context(|| {
                let line = String::from_utf8_lossy(line);
                format!(
                    "an event of another module than this program is for: '{}'",
                    line.trim()
                )
            })?;
            see(understood)?;
        }
        self.buf.copy_within(from..end, 0);
        self.begun = end - from;
        if self.begun == self.buf.len() {
            bail!("a line of the kernel's trace has no end");
        }
        Ok(true)
    }
}
