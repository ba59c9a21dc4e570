// SPDX-License-Identifier: GPL-2.0-only

//! The kernel's device mapper: devices are made of table lines, listed and removed.
//!
//! It works with and without a udev daemon. Where one runs, it makes the nodes in `/dev/mapper`, and
//! is waited for; where none does, they are made here.

use std::{
    fmt,
    fs::{self, File},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use devicemapper::{errors, DevId, DmError, DmFlags, DmName, DmOptions, DmUuid, DM};
use nix::sys::stat::{makedev, mknod, Mode, SFlag};

/// Where the nodes of the devices are.
pub const NODES: &str = "/dev/mapper";

/// How long a device may be busy that is to be removed: programs such as udev's have a look at new
/// devices.
const PATIENCE: Duration = Duration::from_secs(1);

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its major and minor number.
    pub number: (u32, u32),
}

/// A line of a table, or of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The first sector.
    pub start: u64,
    /// The number of sectors.
    pub sectors: u64,
    /// The target.
    pub target: String,
    /// What is behind the target.
    pub params: String,
}

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What the device was made of.
    Table,
    /// How it is.
    Status,
}

/// What the device mapper can do. Errors are those of the kernel.
pub trait Mapper {
    /// The devices there are.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    fn devices(&self) -> io::Result<Vec<Entry>>;

    /// The lines of a device.
    ///
    /// # Errors
    ///
    /// `ENXIO` if there is no such device.
    fn lines(&self, name: &str, kind: Kind) -> io::Result<Vec<Line>>;

    /// Makes a device of one line, with its node.
    ///
    /// # Errors
    ///
    /// If the kernel refuses; there is no such device then, unless it was there before.
    fn create(&self, name: &str, line: &Line) -> io::Result<()>;

    /// Removes a device and its node.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is open, `ENXIO` if there is no such device.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Suspends a device when what is in flight has ended.
    ///
    /// # Errors
    ///
    /// `ENXIO` if there is no such device.
    fn suspend(&self, name: &str) -> io::Result<()>;

    /// Gives a device another table of one line, which counts when it is resumed.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the line; the device keeps its table then.
    fn load(&self, name: &str, line: &Line) -> io::Result<()>;

    /// Lets a device that was suspended go on, with the table that was loaded last.
    ///
    /// # Errors
    ///
    /// If the target refuses; the device is suspended then.
    fn resume(&self, name: &str) -> io::Result<()>;

    /// How many sectors a block device has, by its number as a table line says it: `8:16`.
    ///
    /// # Errors
    ///
    /// If that cannot be found out.
    fn sectors_of(&self, number: &str) -> io::Result<u64>;

    /// Whether the kernel knows a target.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    fn has_target(&self, target: &str) -> io::Result<bool>;
}

/// The running kernel's.
pub struct Kernel(DM);

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernel").field(self.0.file()).finish()
    }
}

impl Kernel {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the kernel has none, `EACCES` without the right to use it.
    pub fn open() -> io::Result<Self> {
        // First as a file, for an error with its number.
        File::open(Path::new(NODES).join("control"))?;
        DM::new().map(Self).map_err(io_error)
    }
}

/// The path of a device's node.
pub fn node(name: &str) -> PathBuf {
    Path::new(NODES).join(name)
}

/// The kernel's error, or one that says what else went wrong.
fn io_error(error: DmError) -> io::Error {
    match error {
        DmError::Core(errors::Error::Ioctl(.., errno)) => {
            // CAST: an error number.
            io::Error::from_raw_os_error(*errno as i32)
        }
        other => io::Error::other(other.to_string()),
    }
}

fn dm_name(name: &str) -> io::Result<&DmName> {
    DmName::new(name).map_err(io_error)
}

impl Mapper for Kernel {
    fn devices(&self) -> io::Result<Vec<Entry>> {
        let devices = self.0.list_devices().map_err(io_error)?;
        Ok(devices
            .into_iter()
            .map(|(name, device, _)| Entry {
                name: name.to_string(),
                number: (device.major, device.minor),
            })
            .collect())
    }

    fn lines(&self, name: &str, kind: Kind) -> io::Result<Vec<Line>> {
        let flags = match kind {
            Kind::Table => DmFlags::DM_STATUS_TABLE,
            Kind::Status => DmFlags::empty(),
        };
        // Not waiting for what is in flight.
        let options = DmOptions::default().set_flags(flags | DmFlags::DM_NOFLUSH);
        let id = DevId::Name(dm_name(name)?);
        let (_, lines) = self.0.table_status(&id, options).map_err(io_error)?;
        Ok(lines
            .into_iter()
            .map(|(start, sectors, target, params)| Line {
                start,
                sectors,
                target,
                params,
            })
            .collect())
    }

    fn create(&self, name: &str, line: &Line) -> io::Result<()> {
        let dm_name = dm_name(name)?;
        // By its beginning, rules of udev know whose device it is. It has no room for the longest names.
        let uuid = format!("IMRSIM-{name}");
        let uuid = DmUuid::new(&uuid).ok();
        let device = self
            .0
            .device_create(dm_name, uuid, DmOptions::default())
            .map_err(io_error)?;
        let number = device.device();
        let made = self
            .load(name, line)
            .and_then(|()| self.resume(name))
            .and_then(|()| make_node(name, (number.major, number.minor)));
        if made.is_err() {
            // That it was not made is the error to report.
            let _ = self.remove(name);
        }
        made
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let id = DevId::Name(dm_name(name)?);
        let begin = Instant::now();
        loop {
            match self
                .0
                .device_remove(&id, DmOptions::default())
                .map_err(io_error)
            {
                Ok(_) => break,
                Err(error)
                    if error.kind() == io::ErrorKind::ResourceBusy
                        && begin.elapsed() < PATIENCE =>
                {
                    thread::sleep(PATIENCE / 10);
                }
                Err(error) => return Err(error),
            }
        }
        remove_node(name)
    }

    fn suspend(&self, name: &str) -> io::Result<()> {
        let id = DevId::Name(dm_name(name)?);
        let options = DmOptions::default().set_flags(DmFlags::DM_SUSPEND);
        self.0.device_suspend(&id, options).map_err(io_error)?;
        Ok(())
    }

    fn load(&self, name: &str, line: &Line) -> io::Result<()> {
        let id = DevId::Name(dm_name(name)?);
        let table = [(
            line.start,
            line.sectors,
            line.target.clone(),
            line.params.clone(),
        )];
        let loaded = self.0.table_load(&id, &table, DmOptions::default());
        loaded.map_err(io_error)?;
        Ok(())
    }

    fn resume(&self, name: &str) -> io::Result<()> {
        let id = DevId::Name(dm_name(name)?);
        let resumed = self.0.device_suspend(&id, DmOptions::default());
        resumed.map_err(io_error)?;
        Ok(())
    }

    fn sectors_of(&self, number: &str) -> io::Result<u64> {
        let path = Path::new("/sys/dev/block").join(number).join("size");
        let text = fs::read_to_string(path)?;
        text.trim().parse().map_err(io::Error::other)
    }

    fn has_target(&self, target: &str) -> io::Result<bool> {
        let targets = self.0.list_versions().map_err(io_error)?;
        Ok(targets.iter().any(|(name, ..)| name == target))
    }
}

/// Makes the node of a device, if udev has not.
fn make_node(name: &str, (major, minor): (u32, u32)) -> io::Result<()> {
    let path = node(name);
    let device = makedev(major.into(), minor.into());
    match path.metadata() {
        Ok(found) if found.file_type().is_block_device() && found.rdev() == device => return Ok(()),
        // Left over from another device.
        _ => remove_node(name)?,
    }
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    mknod(&path, SFlag::S_IFBLK, mode, device).map_err(io::Error::from)
}

/// Removes the node of a device, if udev has not.
fn remove_node(name: &str) -> io::Result<()> {
    match fs::remove_file(node(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
