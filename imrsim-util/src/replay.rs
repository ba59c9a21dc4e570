// SPDX-License-Identifier: GPL-2.0-only

//! Replays requests on a running drive with fio, and compares its counters with those of a simulated
//! drive after the same requests.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{bail, ensure, Context, Result};
use imrsim_core::{
    uapi::{self, ALL_ZONES},
    Stats,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::{
    device::{Device, Transport},
    trace::{convert::OutputFormat, iolog, Op, Record, Source},
};

/// How often the counters are asked for a progress bar.
const TICK: Duration = Duration::from_millis(200);

/// The counters of what the host sent, which depend on how the kernel cuts long requests for the
/// device below. All others, in blocks and rewrites, do not.
const CUT_BY_THE_KERNEL: [&str; 2] = ["host_read_requests", "host_write_requests"];

/// How fio sends requests.
#[derive(Clone, Debug)]
pub struct Fio {
    /// The program.
    pub program: PathBuf,
    /// The drive's node.
    pub device: PathBuf,
    /// Requests in flight, at least 1.
    pub depth: u32,
    /// Whether requests wait for their times in the log, instead of following each other.
    pub timed: bool,
}

impl Fio {
    /// The drive's node, as fio has it in its logs.
    ///
    /// # Errors
    ///
    /// If fio cannot read such a name.
    pub fn node(&self) -> Result<&str> {
        let text = self.device.to_str();
        let node = text.with_context(|| format!("{} is no UTF-8", self.device.display()))?;
        iolog::check_name(node).map_err(anyhow::Error::msg)?;
        Ok(node)
    }

    /// Has fio do what a log says, and waits for it. `title` and the counters of `drive`, which is the
    /// same, are for a progress bar up to `blocks`.
    ///
    /// # Errors
    ///
    /// If fio cannot be run, or a request failed.
    pub fn run<T: Transport>(
        &self,
        log: &Path,
        title: &'static str,
        blocks: u64,
        drive: &mut Device<T>,
    ) -> Result<Duration> {
        let mut output = tempfile::tempfile()?;
        let program = self.program.display();
        let begin = Instant::now();
        let child = Command::new(&self.program)
            .args([
                "--name=replay",
                "--ioengine=libaio",
                "--direct=1",
                "--eta=never",
            ])
            // Two requests for the same bytes that are in flight at once have no order.
            .arg("--serialize_overlap=1")
            .arg(format!("--iodepth={}", self.depth))
            .arg(format!("--replay_no_stall={}", u8::from(!self.timed)))
            .arg(format!("--replay_redirect={}", self.node()?))
            .arg(format!("--read_iolog={}", log.display()))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .spawn()
            .with_context(|| {
                format!("cannot run {program}; fio does the requests (Debian's package: fio)")
            })?;
        let status = watch(child, title, blocks, drive)?;
        if !status.success() {
            let mut text = String::new();
            output.rewind()?;
            output.read_to_string(&mut text)?;
            let line = text
                .lines()
                .find(|line| line.contains("error") || line.starts_with("fio: "));
            let line = line.or(text.lines().last()).unwrap_or("it said nothing");
            bail!("{program} failed ({status}): {line}");
        }
        Ok(begin.elapsed())
    }
}

/// Waits for a program, and shows how many blocks it has read and written.
fn watch<T: Transport>(
    mut child: Child,
    title: &'static str,
    blocks: u64,
    drive: &mut Device<T>,
) -> Result<std::process::ExitStatus> {
    let host = |it: &Stats| it.host_read_blocks.saturating_add(it.host_write_blocks);
    let bar = ProgressBar::new(blocks).with_message(title);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent}% {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    // That a look at the counters fails is no reason to leave fio to itself.
    let before = drive.statistics(ALL_ZONES);
    let before = before.map_or(0, |it| host(&it.stats()));
    loop {
        if let Some(status) = child.try_wait()? {
            bar.finish_and_clear();
            return Ok(status);
        }
        if let Ok(now) = drive.statistics(ALL_ZONES) {
            bar.set_position(host(&now.stats()).saturating_sub(before));
        }
        thread::sleep(TICK);
    }
}

/// Opens a drive for nobody else: neither mounted nor used by another device, it stays so while the file
/// is open.
///
/// # Errors
///
/// If it is in use, or cannot be opened.
pub fn claim(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(nix::fcntl::OFlag::O_EXCL.bits());
    options.open(path).map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc_ebusy) if libc_ebusy == nix::errno::Errno::EBUSY as i32 => {
                "; it is in use: what is mounted on it has to be unmounted first"
            }
            _ => "",
        };
        anyhow::Error::new(error).context(format!("cannot open {}{hint}", path.display()))
    })
}

/// Bytes of the longest write in a log of ours. A whole zone at once is more than fio wants to have in memory.
const LONGEST: u64 = 1 << 20;

/// Writes a log for fio with writes of `requests`: offset and length in bytes. Long ones become several that
/// follow each other. Returns how many bytes.
///
/// # Errors
///
/// If it cannot be written.
pub fn write_log(
    requests: impl Iterator<Item = (u64, u64)>,
    device: &str,
    output: impl Write,
) -> io::Result<u64> {
    let mut writer = OutputFormat::Iolog.writer(output, device)?;
    let source = Source::default();
    let mut bytes = 0;
    for (offset, len) in requests {
        let mut done = 0;
        while done < len {
            let record = Record {
                line: 0,
                time: None,
                op: Op::Write,
                offset: offset + done,
                len: LONGEST.min(len - done),
                response: None,
                source: 0,
            };
            writer.write(&record, &source)?;
            done += record.len;
        }
        bytes += len;
    }
    writer.finish()?;
    Ok(bytes)
}

/// A file for a log, which is removed when it is dropped.
///
/// # Errors
///
/// If there is no room for it.
pub fn log_file() -> Result<(NamedTempFile, BufWriter<File>)> {
    let file = NamedTempFile::with_prefix("imrsim-replay-")
        .context("cannot make a file for fio's log (TMPDIR says where)")?;
    let writer = BufWriter::new(file.reopen()?);
    Ok((file, writer))
}

/// A counter that two drives do not agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its zone.
    pub zone: u64,
    /// Its name.
    pub counter: &'static str,
    /// What the drive counted.
    pub drive: u64,
    /// What was counted in the simulation.
    pub simulated: u64,
}

/// The counters of each zone that `drive` and `simulated` do not agree on. Those are left out that depend on
/// how the kernel cuts requests.
///
/// # Errors
///
/// If one of them cannot be asked, or the two are of different shapes.
pub fn differences<T: Transport, U: Transport>(
    drive: &mut Device<T>,
    simulated: &mut Device<U>,
) -> Result<Vec<Difference>> {
    let (one, other) = (drive.config()?, simulated.config()?);
    ensure!(
        (one.zones, one.zone_sectors) == (other.zones, other.zone_sectors),
        "the simulated drive has other zones"
    );
    let mut found = Vec::new();
    for zone in 0..one.zones {
        let drive = counters(&drive.statistics(zone)?);
        let simulated = counters(&simulated.statistics(zone)?);
        for ((counter, drive), (_, simulated)) in drive.into_iter().zip(simulated) {
            if drive != simulated && !CUT_BY_THE_KERNEL.contains(&counter) {
                found.push(Difference {
                    zone,
                    counter,
                    drive,
                    simulated,
                });
            }
        }
    }
    Ok(found)
}

/// The counters of a zone with their names.
fn counters(it: &uapi::Statistics) -> Vec<(&'static str, u64)> {
    let indicators = Stats::INDICATORS.iter().zip(it.indicators);
    let mut all = vec![
        ("mapped_blocks", it.mapped_blocks),
        ("used_top_blocks", it.used_top_blocks),
    ];
    all.extend(indicators.map(|(indicator, value)| (indicator.name, value)));
    all
}

#[cfg(test)]
mod tests {
    use imrsim_core::{Allocation, Geometry};

    use super::*;
    use crate::drive::Drive;

    fn drive() -> Device<Drive> {
        let geometry = Geometry::new(1, 2, 2).unwrap();
        let drive = Drive::new(geometry, 2, Allocation::from_phases(2).unwrap()).unwrap();
        Device::new("drive", drive)
    }

    #[test]
    fn long_writes_are_cut_in_a_log() {
        let mut log = Vec::new();
        let requests = [(4096, 8192), (0, (2 << 20) + 4096)];
        let bytes = write_log(requests.into_iter(), "/dev/x", &mut log).unwrap();
        assert_eq!(bytes, 8192 + (2 << 20) + 4096);
        assert_eq!(
            String::from_utf8(log).unwrap(),
            "fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x write 4096 8192\n\
             /dev/x write 0 1048576\n/dev/x write 1048576 1048576\n/dev/x write 2097152 4096\n\
             /dev/x close\n"
        );
    }

    #[test]
    fn every_other_counter_is_compared() {
        let (mut one, mut other) = (drive(), drive());
        assert_eq!(differences(&mut one, &mut other).unwrap(), []);
        for drive in [&mut one, &mut other] {
            // The last two blocks of the zone are in top tracks.
            for block in 0..6 {
                drive.transport().write(block * 4096, 4096).unwrap();
            }
        }
        assert_eq!(differences(&mut one, &mut other).unwrap(), []);
        other.transport().write(0, 4096).unwrap();
        let found = differences(&mut one, &mut other).unwrap();
        let found: Vec<_> = found.iter().map(|it| (it.zone, it.counter)).collect();
        for counter in ["host_write_blocks", "update_blocks", "extra_write_blocks"] {
            assert!(found.contains(&(0, counter)), "{counter}: {found:?}");
        }
        assert!(!found.iter().any(|it| CUT_BY_THE_KERNEL.contains(&it.1)));
    }

    #[test]
    fn counters_cut_by_the_kernel_exist() {
        for name in CUT_BY_THE_KERNEL {
            assert!(Stats::INDICATORS.iter().any(|it| it.name == name), "{name}");
        }
    }

    #[test]
    fn what_fio_says_is_shown() {
        let mut fio = Fio {
            program: "/nowhere/fio".into(),
            device: "/dev/x".into(),
            depth: 1,
            timed: false,
        };
        let log = Path::new("/dev/null");
        let error = fio.run(log, "", 1, &mut drive()).unwrap_err();
        assert!(
            format!("{error:#}").contains("cannot run /nowhere/fio"),
            "{error:#}"
        );
        fio.program = "false".into();
        let error = fio.run(log, "", 1, &mut drive()).unwrap_err();
        assert!(error.to_string().contains("it said nothing"), "{error:#}");
        fio.program = "true".into();
        fio.run(log, "", 1, &mut drive()).unwrap();
        fio.device = "/dev/a b".into();
        assert!(fio.run(log, "", 1, &mut drive()).is_err());
    }
}
