// SPDX-License-Identifier: GPL-2.0-only

//! Ioctls as nobody should send them, for tests: any number that is harmless, any address that the
//! kernel must not or may write to.
//!
//! What makes that safe: an address is either that of an [`Arena`], memory which nothing but the
//! kernel and its owner's methods ever touch, or one that user space cannot have. And the structs
//! that go with a [`Number`] hold no addresses in turn.

use std::{
    fs::{File, OpenOptions},
    io,
    ops::Range,
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::Path,
    ptr::{self, NonNull},
    slice,
};

use imrsim_core::uapi;
pub use nix::errno::Errno;
use nix::libc;

/// Bytes in a page.
pub const PAGE: usize = 4096;

/// The part of an [`Arena`] that can be read and written.
pub const WRITABLE: Range<usize> = PAGE..6 * PAGE;
/// The part of an [`Arena`] that can be read.
pub const READ_ONLY: Range<usize> = 11 * PAGE..16 * PAGE;
/// Bytes in an [`Arena`]. What is in neither part cannot be accessed.
pub const ARENA: usize = 21 * PAGE + BEHIND;

/// The most bytes that an ioctl number can announce.
const MOST: usize = (1 << 14) - 1;
/// What may follow a struct: the mapping of the largest zone there is, in whole pages.
const BEHIND: usize = uapi::Mapping::bytes(1 << 16).next_multiple_of(PAGE);

/// Memory to point to: parts that can be accessed, with parts between them that cannot.
///
/// # Invariants
///
/// `base` is the start of a mapping of [`ARENA`] bytes that belongs to this value, with the
/// protection that [`WRITABLE`] and [`READ_ONLY`] say whenever no method runs.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
}

// SAFETY: The mapping is nobody else's, whatever the thread.
unsafe impl Send for Arena {}

impl Arena {
    /// An arena of zeros.
    ///
    /// # Errors
    ///
    /// If the kernel has no memory for it.
    pub fn new() -> io::Result<Self> {
        // SAFETY: A new mapping, where the kernel has room.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                ARENA,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // INVARIANT: Ours, just made; the protection follows.
        let arena = Self { base };
        arena.protect(WRITABLE, libc::PROT_READ | libc::PROT_WRITE)?;
        arena.protect(READ_ONLY, libc::PROT_READ)?;
        Ok(arena)
    }

    fn protect(&self, part: Range<usize>, protection: libc::c_int) -> io::Result<()> {
        // SAFETY: The part is in the mapping, and no reference into it is held.
        let result = unsafe {
            libc::mprotect(
                self.base.as_ptr().add(part.start).cast(),
                part.len(),
                protection,
            )
        };
        Errno::result(result)?;
        Ok(())
    }

    /// What is in the writable part.
    pub fn writable(&self) -> &[u8] {
        // SAFETY: In the mapping, readable and initialised, by the invariant. The kernel writes there
        // only during `ioctl`, which borrows the arena exclusively.
        unsafe { slice::from_raw_parts(self.base.as_ptr().add(WRITABLE.start), WRITABLE.len()) }
    }

    /// The writable part.
    pub fn writable_mut(&mut self) -> &mut [u8] {
        // SAFETY: As in `writable`; it is borrowed exclusively here.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr().add(WRITABLE.start), WRITABLE.len()) }
    }

    /// Sets what is at the start of the part that can only be read: as much of `bytes` as fits.
    ///
    /// # Errors
    ///
    /// If the kernel has no memory for it.
    pub fn set_read_only(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len().min(READ_ONLY.len());
        self.protect(READ_ONLY, libc::PROT_READ | libc::PROT_WRITE)?;
        // SAFETY: In the mapping, writable for the moment, and exclusively borrowed; `bytes` is
        // elsewhere, as a borrow from this arena would rule out the exclusive one.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(READ_ONLY.start), len);
        }
        self.protect(READ_ONLY, libc::PROT_READ)
    }

    /// Sends an ioctl to a device, with an address of this arena or none that is valid.
    ///
    /// # Errors
    ///
    /// The kernel's; `EDOM` without sending anything if the argument is not one that is allowed here.
    pub fn ioctl(
        &mut self,
        device: &BlockDevice,
        number: Number,
        argument: Argument,
    ) -> Result<(), Errno> {
        let address = match argument {
            Argument::Arena(at) if at + MOST + BEHIND <= ARENA => {
                // CAST: an address as the number that the system call takes.
                self.base.as_ptr() as usize + at
            }
            Argument::Foreign(address) if is_foreign(address) => {
                usize::try_from(address).map_err(|_| Errno::EDOM)?
            }
            _ => return Err(Errno::EDOM),
        };
        // CAST: the type depends on the C library; the same 32 bits reach the kernel.
        #[allow(clippy::cast_lossless)]
        let number = number.0 as libc::Ioctl;
        // SAFETY: The kernel accesses at most `MOST` bytes at the address, whatever the number says, at most
        // `BEHIND` behind them, and no others, as the structs of a `Number` hold no addresses. These bytes
        // are in the mapping, which is exclusively borrowed and holds plain bytes, or they are where user
        // space has nothing.
        let result = unsafe { libc::ioctl(device.0.as_raw_fd(), number, address) };
        Errno::result(result).map(drop)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: The mapping is this value's, and no reference into it can be left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), ARENA) };
    }
}

/// Whether no program has memory there: below the least address that can be mapped, and from the
/// middle of the address space on.
fn is_foreign(address: u64) -> bool {
    // x86-64 maps nothing above 2^47 for a program that does not ask for it, and no program, nor a
    // loader, has anything in the first 2^20 bytes, as far as one reaches from the first page.
    address < PAGE as u64 || address >= 1 << 47
}

/// What an ioctl's argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The byte of an [`Arena`] with this number, in its first 17 pages.
    Arena(usize),
    /// An address that no program has: below [`PAGE`], or 2^47 and above.
    Foreign(u64),
}

/// An ioctl number that may be sent to a block device with anything in its struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(u32);

impl Number {
    /// Ioctls of the block layer that answer a question, or discard. Their structs hold no addresses.
    pub const BLOCK: [u32; 25] = [
        0x125e,      // BLKROGET
        0x1260,      // BLKGETSIZE
        0x1263,      // BLKRAGET
        0x1265,      // BLKFRAGET
        0x1267,      // BLKSECTGET
        0x1268,      // BLKSSZGET
        0x1277,      // BLKDISCARD
        0x1278,      // BLKIOMIN
        0x1279,      // BLKIOOPT
        0x127a,      // BLKALIGNOFF
        0x127b,      // BLKPBSZGET
        0x127c,      // BLKDISCARDZEROES
        0x127d,      // BLKSECDISCARD
        0x127e,      // BLKROTATIONAL
        0x127f,      // BLKZEROOUT
        0x8008_1270, // BLKBSZGET
        0x8008_1272, // BLKGETSIZE64
        0x4010_1283, // BLKRESETZONE
        0x8004_1284, // BLKGETZONESZ
        0x8004_1285, // BLKGETNRZONES
        0x4010_1286, // BLKOPENZONE
        0x4010_1287, // BLKCLOSEZONE
        0x4010_1288, // BLKFINISHZONE
        0x8008_1280, // BLKGETDISKSEQ
        0x1200,      // none
    ];

    /// The `type` bytes that are allowed: ours and those one bit from it. No block driver of Linux
    /// has ioctls of the others.
    pub const TYPES: [u8; 9] = [
        uapi::MAGIC,
        uapi::MAGIC ^ 0x01,
        uapi::MAGIC ^ 0x02,
        uapi::MAGIC ^ 0x04,
        uapi::MAGIC ^ 0x08,
        uapi::MAGIC ^ 0x10,
        uapi::MAGIC ^ 0x20,
        uapi::MAGIC ^ 0x40,
        uapi::MAGIC ^ 0x80,
    ];

    /// The number, if it is one that may be sent with anything.
    pub fn new(number: u32) -> Option<Self> {
        let [_, _, kind, _] = number.to_be_bytes();
        (Self::TYPES.contains(&kind) || Self::BLOCK.contains(&number)).then_some(Self(number))
    }

    /// Its bits.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// A block device that is open.
#[derive(Debug)]
pub struct BlockDevice(File);

impl BlockDevice {
    /// Opens a block device.
    ///
    /// # Errors
    ///
    /// The kernel's; `ENOTBLK` for anything else.
    pub fn open(path: &Path, write: bool) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(write)
            .custom_flags(libc::O_CLOEXEC)
            .open(path)?;
        if !file.metadata()?.file_type().is_block_device() {
            return Err(Errno::ENOTBLK.into());
        }
        Ok(Self(file))
    }
}

/// A request to device-mapper itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmCommand {
    /// Suspends a device, or resumes it.
    Suspend,
    /// The status of its targets.
    Status,
    /// A message to a target.
    Message,
}

/// Flags of [`DmCommand`]s, in and out.
pub mod flag {
    /// Suspend, and not resume.
    pub const SUSPEND: u32 = 1 << 1;
    /// The table and not the status.
    pub const STATUS_TABLE: u32 = 1 << 4;
    /// Out: there was more to say than room.
    pub const BUFFER_FULL: u32 = 1 << 8;
    /// Do not freeze a file system.
    pub const SKIP_LOCKFS: u32 = 1 << 10;
    /// Do not wait for I/O.
    pub const NO_FLUSH: u32 = 1 << 11;
    /// Out: a message was answered.
    pub const DATA_OUT: u32 = 1 << 16;
}

/// Where the data begins in a request to device-mapper: the size of its header.
pub const DM_HEADER: usize = 312;

/// `/dev/mapper/control`.
#[derive(Debug)]
pub struct Control(File);

impl Control {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// The kernel's; `ENOTTY` if something else has its name.
    pub fn open() -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/mapper/control")?;
        let metadata = file.metadata()?;
        // Miscellaneous devices have major number 10, this one's minor is 236.
        if !metadata.file_type().is_char_device() || metadata.rdev() != libc::makedev(10, 236) {
            return Err(Errno::ENOTTY.into());
        }
        Ok(Self(file))
    }

    /// Sends a request about device `name`, followed by `data`, with room for an answer of `room`
    /// bytes. Returns the flags and the answer.
    ///
    /// # Errors
    ///
    /// The kernel's; `ENAMETOOLONG` if there is no room for the name.
    pub fn send(
        &self,
        command: DmCommand,
        name: &str,
        flags: u32,
        data: &[u8],
        room: usize,
    ) -> Result<(u32, Vec<u8>), Errno> {
        let number: u32 = 0xc138_fd00
            | match command {
                DmCommand::Suspend => 6,
                DmCommand::Status => 12,
                DmCommand::Message => 14,
            };
        if name.len() >= 128 {
            return Err(Errno::ENAMETOOLONG);
        }
        let size = DM_HEADER + data.len().max(room);
        let mut buffer = vec![0; size];
        let mut put = |at: usize, bytes: &[u8]| buffer[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &4_u32.to_ne_bytes());
        let size = u32::try_from(size).map_err(|_| Errno::E2BIG)?;
        put(12, &size.to_ne_bytes());
        // CAST: a small constant.
        put(16, &(DM_HEADER as u32).to_ne_bytes());
        put(28, &flags.to_ne_bytes());
        put(48, name.as_bytes());
        put(DM_HEADER, data);
        // CAST: the type depends on the C library; the same 32 bits reach the kernel.
        #[allow(clippy::cast_lossless)]
        let number = number as libc::Ioctl;
        // SAFETY: The file is device-mapper's (checked by `open`), which reads and writes as many
        // bytes at the address as the header says, the length of `buffer`. It is exclusively borrowed,
        // initialised, and holds no addresses.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), number, buffer.as_mut_ptr()) };
        Errno::result(result)?;
        let word = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&buffer[at..at + 4]);
            u32::from_ne_bytes(bytes)
        };
        let flags = word(28);
        let range = word(16) as usize..(word(12) as usize).max(word(16) as usize);
        Ok((flags, buffer.get(range).unwrap_or_default().to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_arena_and_where_nobody_is_can_be_pointed_to() {
        assert!(is_foreign(0) && is_foreign(PAGE as u64 - 1) && is_foreign(u64::MAX));
        assert!(is_foreign(0xffff_8880_0000_0000) && is_foreign(1 << 63));
        let here = 0_u8;
        assert!(!is_foreign(ptr::from_ref(&here) as u64));
        assert!(!is_foreign(PAGE as u64));
    }

    #[test]
    fn numbers_of_others_are_refused() {
        // SG_IO, BLKPG, BLKTRACESETUP, DM_TABLE_LOAD, TCGETS
        for number in [0x2285, 0x1269, 0xc048_1273, 0xc138_fd09, 0x5401] {
            assert_eq!(Number::new(number), None);
        }
        assert!(Number::new(uapi::GET_CONFIG).is_some());
    }

    #[test]
    fn an_arena_holds_what_was_put_there() {
        let mut arena = Arena::new().expect("there is memory");
        assert!(arena.writable().iter().all(|byte| *byte == 0));
        arena.writable_mut().fill(0xa5);
        arena.set_read_only(&[1, 2, 3]).expect("there is memory");
        assert!(arena.writable().iter().all(|byte| *byte == 0xa5));
    }

    #[test]
    fn only_block_devices_are_opened() {
        let error = BlockDevice::open(Path::new("/dev/null"), false).expect_err("not a disk");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTBLK));
    }
}
