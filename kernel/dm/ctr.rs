// SPDX-License-Identifier: GPL-2.0-only

//! Building an instance from a table line.

use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::{self, NonNull},
    slice,
    str::FromStr, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Why a table line was refused: an error number, and a sentence for the kernel log.
#[derive(Clone, Copy)]
pub(crate) struct CtrError {
    error: Error,
    text: &'static CStr,
}

impl CtrError {
    /// An error with its text.
    pub(crate) const fn new(error: Error, text: &'static CStr) -> Self {
        CtrError { error, text }
    }

    /// A bad argument: `EINVAL` with its text.
    pub(crate) const fn invalid(text: &'static CStr) -> Self {
        Self::new(EINVAL, text)
    }

    pub(super) fn text(&self) -> &'static CStr {
        self.text
    }

    pub(super) fn errno(&self) -> c_int {
        self.error.to_errno()
    }
}

/// The words of a table line or a message, taken from the front.
///
/// # Invariants
///
/// Every pointer in `words` is a NUL-terminated string that is valid for `'a`.
#[derive(Clone)]
pub(crate) struct Args<'a> {
    words: &'a [*mut c_char],
}

impl<'a> Args<'a> {
    /// # Safety
    ///
    /// `argv` must hold `argc` NUL-terminated strings, all valid for `'a`; it may be null if `argc`
    /// is 0.
    pub(super) unsafe fn from_raw(argc: c_uint, argv: *mut *mut c_char) -> Self {
        let words = if argc == 0 || argv.is_null() {
            &[]
        } else {
            // SAFETY: The caller's promise.
            unsafe { slice::from_raw_parts(argv, argc as usize) }
        };
        // INVARIANT: The caller's promise.
        Args { words }
    }

    /// The number of words left.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The next word as C string, for the kernel.
    fn next_cstr(&mut self) -> Option<&'a CStr> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        // SAFETY: A valid string by the type invariant.
        Some(unsafe { CStr::from_char_ptr(*word) })
    }

    /// The next word; one that is not UTF-8 reads as an empty word, which nothing accepts.
    pub(crate) fn next(&mut self) -> Option<&'a str> {
        self.next_cstr().map(|word| word.to_str().unwrap_or(""))
    }

    /// The next word as a number, or `error` if it is missing or not one.
    pub(crate) fn number<N: FromStr>(&mut self, error: CtrError) -> Result<N, CtrError> {
        let word = self.next().ok_or(error)?;
        // `FromStr` would take "+5".
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(error);
        }
        word.parse().map_err(|_| error)
    }

    /// Fails with `error` if there are words left.
    pub(crate) fn finish(&self, error: CtrError) -> Result<(), CtrError> {
        if self.words.is_empty() {
            Ok(())
        } else {
            Err(error)
        }
    }
}

/// Names a device that the constructor opened; [`TargetRef::device`] finds it again.
///
/// [`TargetRef::device`]: super::TargetRef::device
#[derive(Clone, Copy, Default)]
pub(crate) struct DeviceId(usize);

impl DeviceId {
    pub(super) fn index(self) -> usize {
        self.0
    }
}

/// A device below the target.
///
/// # Invariants
///
/// `dev` was opened by `dm_get_device` for `ti` and is put by this object alone. The object is owned
/// by the constructor's context or by the instance of `ti`, so `ti` outlives it.
pub(crate) struct Device {
    ti: NonNull<bindings::dm_target>,
    dev: NonNull<bindings::dm_dev>,
}

// SAFETY: An open device may be used and put from any thread.
unsafe impl Send for Device {}
// SAFETY: Nothing of it changes while it is open.
unsafe impl Sync for Device {}

impl Device {
    pub(super) fn as_raw(&self) -> *mut bindings::dm_dev {
        self.dev.as_ptr()
    }

    pub(super) fn bdev(&self) -> *mut bindings::block_device {
        // SAFETY: The device is open by the type invariant.
        unsafe { (*self.dev.as_ptr()).bdev }
    }

    /// The device's size in sectors.
    pub(crate) fn sectors(&self) -> u64 {
        // SAFETY: The block device is open by the type invariant.
        unsafe { bindings::imrsim_bdev_nr_sectors(self.bdev()) }
    }

    /// Whether the device must not be written: the table is read-only, or the device is.
    pub(crate) fn is_read_only(&self) -> bool {
        // SAFETY: The device is open by the type invariant.
        unsafe {
            (*self.dev.as_ptr()).mode & bindings::IMRSIM_BLK_OPEN_WRITE == 0
                || bindings::imrsim_bdev_read_only(self.bdev())
        }
    }

    /// The smallest I/O that the device can do, in bytes.
    pub(crate) fn logical_block_size(&self) -> u32 {
        // SAFETY: The block device is open by the type invariant.
        unsafe { bindings::imrsim_bdev_logical_block_size(self.bdev()) }
    }

    /// The device's number as `major:minor`, which a table line takes as its name.
    pub(crate) fn number(&self) -> &CStr {
        // SAFETY: The name is NUL-terminated inside the open `dm_dev`, and does not change.
        unsafe { CStr::from_char_ptr((&raw const (*self.dev.as_ptr()).name).cast()) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the device is open, `ti` is still there, and this is the
        // only put.
        unsafe { bindings::dm_put_device(self.ti.as_ptr(), self.dev.as_ptr()) };
    }
}

/// What a constructor can ask for and set.
///
/// # Invariants
///
/// `ti` is a target under construction that nobody else uses for `'a`.
pub(crate) struct Ctr<'a> {
    ti: NonNull<bindings::dm_target>,
    devices: KVec<Device>,
    _target: PhantomData<&'a mut bindings::dm_target>,
}

impl Ctr<'_> {
    /// # Safety
    ///
    /// `ti` must be a target under construction that nobody else uses while the result lives.
    pub(super) unsafe fn new(ti: *mut bindings::dm_target) -> Self {
        // SAFETY: Device-mapper never passes null.
        let ti = unsafe { NonNull::new_unchecked(ti) };
        // INVARIANT: The caller's promise.
        Ctr {
            ti,
            devices: KVec::new(),
            _target: PhantomData,
        }
    }

    pub(super) fn take_devices(&mut self) -> KVec<Device> {
        core::mem::take(&mut self.devices)
    }

    fn ti(&mut self) -> &mut bindings::dm_target {
        // SAFETY: Exclusively ours by the type invariant.
        unsafe { self.ti.as_mut() }
    }

    /// The length of the mapped range in sectors.
    pub(crate) fn sectors(&mut self) -> u64 {
        self.ti().len
    }

    /// The mapped device's name, such as `253:0`.
    pub(crate) fn device_name(&mut self) -> &CStr {
        // SAFETY: The table of a target under construction is valid, and so is the device it
        // belongs to, whose name does not change.
        unsafe {
            let md = bindings::dm_table_get_md(self.ti().table);
            CStr::from_char_ptr(bindings::dm_device_name(md))
        }
    }

    /// The mapped device's number: `dev_t`, as the kernel has it.
    pub(crate) fn device_number(&mut self) -> u32 {
        // SAFETY: The table of a target under construction is valid, and so is the device it belongs
        // to, which has a disk.
        unsafe { bindings::imrsim_md_dev(bindings::dm_table_get_md(self.ti().table)) }
    }

    /// Opens the device that the next word names, with the mode of the table.
    pub(crate) fn open(
        &mut self,
        args: &mut Args<'_>,
        missing: CtrError,
    ) -> Result<DeviceId, CtrError> {
        let path = args.next_cstr().ok_or(missing)?;
        let mut dev = ptr::null_mut();
        // SAFETY: `ti` and its table are valid.
        let mode = unsafe { bindings::dm_table_get_mode(self.ti().table) };
        // SAFETY: `ti` is under construction, `path` is a string, `dev` a place for the result.
        to_result(unsafe {
            bindings::dm_get_device(self.ti.as_ptr(), path.as_char_ptr(), mode, &mut dev)
        })
        .map_err(|e| CtrError::new(e, c"Cannot open the backing device"))?;
        let dev = NonNull::new(dev).ok_or(missing)?;
        // INVARIANT: Just opened for `ti`; the only object that will put it.
        let device = Device { ti: self.ti, dev };
        self.devices
            .push(device, GFP_KERNEL)
            .map_err(|e| CtrError::new(e.into(), c"Out of memory"))?;
        Ok(DeviceId(self.devices.len() - 1))
    }

    /// The device opened under this identifier.
    pub(crate) fn device(&self, id: DeviceId) -> Option<&Device> {
        self.devices.get(id.index())
    }

    /// Asks for flushes, one bio each, and for writes with FUA, even if the devices below have no cache:
    /// without this the block layer answers flushes, and drops FUA, before they get here.
    pub(crate) fn accept_flushes(&mut self) {
        self.ti().num_flush_bios = 1;
        self.ti().set_flush_supported(true);
    }

    /// Asks for discards, one bio each, whatever the devices below can do.
    pub(crate) fn accept_discards(&mut self) {
        self.ti().num_discard_bios = 1;
        self.ti().set_discards_supported(true);
    }

    /// Asks device-mapper to bound the number of swap bios in flight.
    pub(crate) fn limit_swap(&mut self) {
        self.ti().set_limit_swap_bios(true);
    }
}
