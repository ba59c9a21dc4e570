// SPDX-License-Identifier: GPL-2.0-only

//! What a target implements, and the functions that device-mapper calls in its name.

use super::{
    bio::{Deferred, Frame, MapBio, Mapped, Op},
    compat,
    ctr::{Args, Ctr, CtrError, Device, DeviceId},
    delay::DelayLine,
    fan::Context,
    hooks::{Ioctl, QueueLimits},
    status::{Status, StatusKind, Writer},
    thread::{ThreadContext, ThreadSlot},
    users::{Hold, Users},
    workqueue::Workqueue,
};
use crate::bindings;
use core::{
    marker::PhantomData,
    ops::{ControlFlow, Deref},
    ptr::NonNull,
};
use kernel::{
    error::VTABLE_DEFAULT_ERROR,
    prelude::*, //
};

/// A device-mapper target.
///
/// A value of the implementing type is one instance: one line of a table. All callbacks but
/// [`Target::ctr`] may run at the same time on several CPUs.
#[vtable]
pub(crate) trait Target: Sized + Send + Sync + 'static {
    /// The target's name in a table line.
    const NAME: &'static CStr;

    /// The version of its table and message interface.
    const VERSION: [u32; 3];

    /// What the target keeps with each bio from `map` to completion.
    type PerBio: Default + Send;

    /// Builds an instance from the arguments of a table line. May sleep; no I/O may be done yet.
    fn ctr(cx: &mut Ctr<'_>, args: Args<'_>) -> Result<Pin<KBox<Self>>, CtrError>;

    /// Decides what happens to a bio. Runs in the context of the submitter.
    fn map(this: TargetRef<'_, Self>, bio: MapBio<'_, Self>) -> Mapped;

    /// A bio that `map` remapped has completed. Runs in any context, interrupts included.
    fn completed(this: TargetRef<'_, Self>, per_bio: &mut Self::PerBio, status: Status);

    /// Whether the time that bios take is measured from now on.
    fn measures(&self) -> bool;

    /// A bio has ended that was measured, or has failed; a flush counts as a write here. `nanoseconds` is how long it took, if it was
    /// measured. Runs in any context, interrupts included.
    fn ended(
        this: TargetRef<'_, Self>,
        per_bio: &mut Self::PerBio,
        op: Op,
        status: Status,
        nanoseconds: Option<u64>,
    );

    /// The queue that runs bios that were scheduled.
    fn workqueue(&self) -> &Workqueue;

    /// Goes on with a deferred bio: it was scheduled, or all I/O of its [`Fan`] has completed.
    ///
    /// [`Fan`]: super::Fan
    fn run(this: TargetRef<'_, Self>, bio: Deferred<Self>, context: Context);

    /// Writes the status or the table line. An error to write is impossible; text that does not
    /// fit is cut off.
    fn status(this: TargetRef<'_, Self>, kind: StatusKind, out: &mut Writer<'_>);

    /// Names each device below and the part of it that is used, in sectors, until told to stop.
    fn iterate_devices(
        this: TargetRef<'_, Self>,
        each: &mut dyn FnMut(&Device, u64, u64) -> ControlFlow<c_int>,
    ) -> ControlFlow<c_int>;

    /// Adjusts the limits that were combined from those of the devices below.
    fn io_hints(_this: TargetRef<'_, Self>, _limits: &mut QueueLimits<'_>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// `dmsetup message`. What is written to `out` is printed to the user. The caller is privileged.
    fn message(_this: TargetRef<'_, Self>, _args: Args<'_>, _out: &mut Writer<'_>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// An ioctl on the device; `arg` is what the user passed. The caller may be unprivileged.
    fn ioctl<'a>(_this: TargetRef<'a, Self>, _cmd: u32, _arg: usize) -> Ioctl<'a> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The body of the instance's thread, if [`TargetRef::start_thread`] starts it: a loop around
    /// [`ThreadContext::wait`].
    fn thread(_this: TargetRef<'_, Self>, _cx: &mut ThreadContext<'_>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// I/O is about to stop.
    fn presuspend(_this: TargetRef<'_, Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// All I/O has completed and none will come until the next resume.
    fn postsuspend(_this: TargetRef<'_, Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Before I/O starts; an error keeps the device suspended.
    fn preresume(_this: TargetRef<'_, Self>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// I/O may come from now on.
    fn resume(_this: TargetRef<'_, Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

/// An instance and what the glue keeps with it.
///
/// The fields are dropped in this order: the target first, then the devices it was using.
#[pin_data]
pub(super) struct Instance<T: Target> {
    target: Pin<KBox<T>>,
    devices: KVec<Device>,
    /// Ours, from the constructor's end to the destructor.
    ti: NonNull<bindings::dm_target>,
    #[pin]
    delays: DelayLine<T>,
    #[pin]
    thread: ThreadSlot,
    #[pin]
    users: Users,
}

/// A borrowed instance, as every callback gets it.
pub(crate) struct TargetRef<'a, T: Target>(&'a Instance<T>);

impl<T: Target> Clone for TargetRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Target> Copy for TargetRef<'_, T> {}

impl<T: Target> Deref for TargetRef<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.target
    }
}

impl<'a, T: Target> TargetRef<'a, T> {
    /// # Safety
    ///
    /// `instance` must stay valid for `'a`.
    pub(super) unsafe fn from_raw(instance: *const Instance<T>) -> Self {
        // SAFETY: The caller's promise.
        TargetRef(unsafe { &*instance })
    }

    pub(super) fn as_raw(self) -> *const Instance<T> {
        self.0
    }

    /// The device that the constructor opened under this identifier.
    pub(crate) fn device(self, id: DeviceId) -> Option<&'a Device> {
        self.0.devices.get(id.index())
    }

    /// Starts the instance's thread, unless it runs. Its name appears in the list of processes.
    pub(crate) fn start_thread(self, name: &CStr) -> Result {
        // SAFETY: The instance stays where it is until the destructor, which stops the thread first.
        unsafe { self.0.thread.start(self.as_raw(), name) }
    }

    /// Stops the instance's thread and waits until it has ended.
    pub(crate) fn stop_thread(self) {
        self.0.thread.stop();
    }

    /// Wakes the instance's thread. May be called in any context.
    pub(crate) fn wake_thread(self) {
        self.0.thread.wake();
    }

    /// Has [`Target::run`] called with the bio, on the workqueue, when some nanoseconds have passed.
    pub(crate) fn delay(self, bio: Deferred<T>, nanoseconds: u64) {
        // SAFETY: It is this instance's.
        unsafe { self.0.delays.delay(self.as_raw(), bio, nanoseconds) };
    }

    /// For how many microseconds the mapped device has had a request under way since it was made. The
    /// block layer counts in clock ticks, and what is under way when it has ended.
    pub(crate) fn busy_microseconds(self) -> u64 {
        // SAFETY: The target lives as long as the instance, its table and the mapped device longer.
        unsafe {
            let md = bindings::dm_table_get_md((*self.0.ti.as_ptr()).table);
            bindings::imrsim_busy_us(bindings::imrsim_md_bdev(md))
        }
    }

    pub(super) fn delays(self) -> &'a DelayLine<T> {
        &self.0.delays
    }

    /// Keeps the instance, even if its last bio ends meanwhile.
    pub(super) fn hold(self) -> Hold {
        self.0.users.hold()
    }

    pub(super) fn thread_slot(self) -> &'a ThreadSlot {
        &self.0.thread
    }

    /// The instance itself, for as long as this reference lives.
    pub(crate) fn get(self) -> &'a T {
        &self.0.target
    }
}

/// The functions in `struct target_type`.
pub(super) struct Vtable<T: Target>(PhantomData<T>);

/// Lets go of the error number of a result, as C wants it.
fn to_errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

impl<T: Target> Vtable<T> {
    /// # Safety
    ///
    /// `ti` must be a target whose constructor succeeded and whose destructor has not run, and must
    /// stay so for `'a`.
    unsafe fn instance<'a>(ti: *mut bindings::dm_target) -> TargetRef<'a, T> {
        // SAFETY: `ctr` stored a leaked `Instance<T>` there, which `dtr` takes back; the caller
        // promises that we are between the two.
        unsafe { TargetRef::from_raw((*ti).private.cast::<Instance<T>>()) }
    }

    /// # Safety
    ///
    /// Called by device-mapper: `ti` is a new target and `argv` holds `argc` strings.
    unsafe extern "C" fn ctr(
        ti: *mut bindings::dm_target,
        argc: c_uint,
        argv: *mut *mut c_char,
    ) -> c_int {
        // SAFETY: The strings stay valid until the constructor returns, and so do both borrows.
        let args = unsafe { Args::from_raw(argc, argv) };
        // SAFETY: As above; nobody else uses the target during its construction.
        let mut cx = unsafe { Ctr::new(ti) };
        let built = T::ctr(&mut cx, args).and_then(|target| {
            let devices = cx.take_devices();
            KBox::pin_init(
                try_pin_init!(Instance {
                    target,
                    devices,
                    // SAFETY: Device-mapper never passes null.
                    ti: unsafe { NonNull::new_unchecked(ti) },
                    delays <- DelayLine::new(),
                    thread <- ThreadSlot::new(),
                    users <- Users::new(),
                }),
                GFP_KERNEL,
            )
            .map_err(|e| CtrError::new(e, c"Out of memory"))
        });
        match built {
            Ok(instance) => {
                // SAFETY: `ti` is valid. The size and alignment suit `dm_per_bio_data`: see `Frame`.
                unsafe {
                    (*ti).per_io_data_size = Frame::<T>::SIZE;
                    (*ti).private = KBox::into_raw(Pin::into_inner_unchecked(instance)).cast();
                }
                0
            }
            Err(e) => {
                // SAFETY: `ti` is valid; device-mapper only prints the text, which is static.
                unsafe { (*ti).error = e.text().as_char_ptr().cast_mut() };
                e.errno()
            }
        }
    }

    /// # Safety
    ///
    /// Called by device-mapper when no bio and no other callback is under way.
    unsafe extern "C" fn dtr(ti: *mut bindings::dm_target) {
        // SAFETY: `ctr` leaked the box; this is the only place that takes it back, once.
        let instance = unsafe { KBox::from_raw((*ti).private.cast::<Instance<T>>()) };
        // A completion or a work function that has ended its bio may not have returned yet, and borrows
        // the instance until it does.
        instance.users.wait();
        instance.delays.stop();
        instance.target.workqueue().flush();
        instance.thread.stop();
    }

    /// # Safety
    ///
    /// Called by device-mapper with a clone of its own for a live target.
    unsafe extern "C" fn map(ti: *mut bindings::dm_target, bio: *mut bindings::bio) -> c_int {
        // SAFETY: The target lives until its last bio has ended.
        let this = unsafe { Self::instance(ti) };
        // SAFETY: The bio is ours until it is handed on or ended.
        let bio = unsafe { MapBio::new(this, ti, bio) };
        T::map(this, bio).into_raw()
    }

    /// # Safety
    ///
    /// Called by device-mapper when a clone that went through `map` has completed.
    unsafe extern "C" fn end_io(
        ti: *mut bindings::dm_target,
        bio: *mut bindings::bio,
        error: *mut bindings::blk_status_t,
    ) -> c_int {
        // SAFETY: The target lives until its last bio has ended.
        let this = unsafe { Self::instance(ti) };
        // SAFETY: The bio went through `map`, which made its frame, and has just completed.
        unsafe { Frame::complete(this, bio, Status::from_raw(*error)) };
        bindings::IMRSIM_DM_ENDIO_DONE
    }

    /// # Safety
    ///
    /// Called by device-mapper for a live target; `result` has room for `maxlen` bytes.
    unsafe extern "C" fn status(
        ti: *mut bindings::dm_target,
        kind: bindings::status_type_t,
        _flags: c_uint,
        result: *mut c_char,
        maxlen: c_uint,
    ) {
        let kind = match kind {
            bindings::status_type_t_STATUSTYPE_INFO => StatusKind::Info,
            bindings::status_type_t_STATUSTYPE_TABLE => StatusKind::Table,
            _ => StatusKind::Ima,
        };
        // SAFETY: The buffer is device-mapper's and ours until we return.
        if let Some(mut out) = unsafe { Writer::new(result, maxlen as usize) } {
            // SAFETY: Device-mapper holds the table while it asks.
            T::status(unsafe { Self::instance(ti) }, kind, &mut out);
        }
    }

    /// # Safety
    ///
    /// Called by device-mapper for a live target; `argv` holds `argc` strings and `result` has room
    /// for `maxlen` bytes.
    unsafe extern "C" fn message(
        ti: *mut bindings::dm_target,
        argc: c_uint,
        argv: *mut *mut c_char,
        result: *mut c_char,
        maxlen: c_uint,
    ) -> c_int {
        // SAFETY: The strings stay valid until we return.
        let args = unsafe { Args::from_raw(argc, argv) };
        // SAFETY: The buffer is device-mapper's and ours until we return.
        let Some(mut out) = (unsafe { Writer::new(result, maxlen as usize) }) else {
            return EINVAL.to_errno();
        };
        // SAFETY: Device-mapper holds the table while it delivers a message.
        match T::message(unsafe { Self::instance(ti) }, args, &mut out) {
            // 1 makes device-mapper hand the text to the user.
            Ok(()) => c_int::from(!out.is_empty()),
            Err(e) => e.to_errno(),
        }
    }

    /// # Safety
    ///
    /// Called by device-mapper for a live target with valid places for the answer.
    unsafe extern "C" fn prepare_ioctl(
        ti: *mut bindings::dm_target,
        bdev: *mut *mut bindings::block_device,
        cmd: c_uint,
        arg: c_ulong,
        forward: *mut bool,
    ) -> c_int {
        // SAFETY: Device-mapper holds the table until the ioctl is done.
        match T::ioctl(unsafe { Self::instance(ti) }, cmd, arg) {
            Ioctl::Forward(device) => {
                // SAFETY: The place is valid, and the device stays open as long as the table.
                unsafe { *bdev = device.bdev() };
                // 1: the target is only part of the device, so that forwarding needs CAP_SYS_RAWIO.
                1
            }
            Ioctl::Done(result) => {
                // SAFETY: The place is valid.
                unsafe { *forward = false };
                match to_errno(result) {
                    // Device-mapper would take this one as a request to try again, for ever.
                    e if e == compat::enotconn() => EIO.to_errno(),
                    e => e,
                }
            }
        }
    }

    /// # Safety
    ///
    /// Called by device-mapper for a live target; `callout` may be called with `data`.
    unsafe extern "C" fn iterate_devices(
        ti: *mut bindings::dm_target,
        callout: bindings::iterate_devices_callout_fn,
        data: *mut c_void,
    ) -> c_int {
        let Some(callout) = callout else { return 0 };
        // SAFETY: Device-mapper holds the table while it iterates.
        let this = unsafe { Self::instance(ti) };
        let mut each = |device: &Device, start: u64, sectors: u64| {
            // SAFETY: The callout takes the target, an open device of it and its own data.
            match unsafe { callout(ti, device.as_raw(), start, sectors, data) } {
                0 => ControlFlow::Continue(()),
                stop => ControlFlow::Break(stop),
            }
        };
        match T::iterate_devices(this, &mut each) {
            ControlFlow::Continue(()) => 0,
            ControlFlow::Break(stop) => stop,
        }
    }

    /// # Safety
    ///
    /// Called by device-mapper for a live target with limits that nobody else uses.
    unsafe extern "C" fn io_hints(
        ti: *mut bindings::dm_target,
        limits: *mut bindings::queue_limits,
    ) {
        // SAFETY: As promised by device-mapper.
        let (this, mut limits) = unsafe { (Self::instance(ti), QueueLimits::from_raw(limits)) };
        T::io_hints(this, &mut limits);
    }

    /// # Safety
    ///
    /// Called by device-mapper for a live target.
    unsafe extern "C" fn presuspend(ti: *mut bindings::dm_target) {
        // SAFETY: As promised by device-mapper.
        T::presuspend(unsafe { Self::instance(ti) });
    }

    /// # Safety
    ///
    /// Called by device-mapper for a live target.
    unsafe extern "C" fn postsuspend(ti: *mut bindings::dm_target) {
        // SAFETY: As promised by device-mapper.
        T::postsuspend(unsafe { Self::instance(ti) });
    }

    /// # Safety
    ///
    /// Called by device-mapper for a live target.
    unsafe extern "C" fn preresume(ti: *mut bindings::dm_target) -> c_int {
        // SAFETY: As promised by device-mapper.
        to_errno(T::preresume(unsafe { Self::instance(ti) }))
    }

    /// # Safety
    ///
    /// Called by device-mapper for a live target.
    unsafe extern "C" fn resume(ti: *mut bindings::dm_target) {
        // SAFETY: As promised by device-mapper.
        T::resume(unsafe { Self::instance(ti) });
    }

    /// The table of functions for `T`, to be registered once.
    pub(super) fn target_type() -> bindings::target_type {
        bindings::target_type {
            name: T::NAME.as_char_ptr(),
            version: T::VERSION,
            module: compat::this_module!(T),
            ctr: Some(Self::ctr),
            dtr: Some(Self::dtr),
            map: Some(Self::map),
            end_io: Some(Self::end_io),
            status: Some(Self::status),
            iterate_devices: Some(Self::iterate_devices),
            message: if T::HAS_MESSAGE {
                Some(Self::message)
            } else {
                None
            },
            prepare_ioctl: if T::HAS_IOCTL {
                Some(Self::prepare_ioctl)
            } else {
                None
            },
            io_hints: if T::HAS_IO_HINTS {
                Some(Self::io_hints)
            } else {
                None
            },
            presuspend: if T::HAS_PRESUSPEND {
                Some(Self::presuspend)
            } else {
                None
            },
            postsuspend: if T::HAS_POSTSUSPEND {
                Some(Self::postsuspend)
            } else {
                None
            },
            preresume: if T::HAS_PRERESUME {
                Some(Self::preresume)
            } else {
                None
            },
            resume: if T::HAS_RESUME {
                Some(Self::resume)
            } else {
                None
            },
            ..Default::default()
        }
    }
}
