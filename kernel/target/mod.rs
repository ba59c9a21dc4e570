// SPDX-License-Identifier: GPL-2.0-only

//! The IMR drive as a device-mapper target.
//!
//! A bio comes in through [`Imrsim::map`]:
//!
//! 1. a flush goes down, or waits for a commit; a discard is deferred ([`discard`]); anything else that
//!    is neither read nor write is refused;
//! 2. a read is looked up in its zone and remapped, or filled with zeros ([`map`]);
//! 3. a write is planned by its zone; if the drive does nothing more than to write, it is remapped,
//!    cut to a contiguous run ([`map`]);
//! 4. any other write is deferred: it waits for others that are in flight ([`zones`]), then the
//!    executor carries out its plan on a workqueue: neighbours read, data written, neighbours
//!    written back ([`execute`]).
//!
//! The mapping is made durable by [`store`]: a flush, or a write that is to be durable, waits until
//! the journal on the device has it.
//!
//! Counters and settings are in [`control`], their ways in, by text and by ioctl, in [`message`]
//! and [`ioctl`].

mod control;
mod discard;
mod execute;
mod failures;
mod ioctl;
mod map;
mod message;
mod params;
mod quiet;
mod reserve;
mod reset;
mod snapshot;
mod store;
mod write;
mod zones;

use crate::{
    bindings::trace::Trace,
    dm::{
        Args, BioSet, Context, Ctr, CtrError, Deferred, Device, DeviceId, Ioctl, MapBio, Mapped,
        Op, QueueLimits, Status, StatusKind, Target, TargetRef, ThreadContext, Workqueue, Writer,
    },
    imr,
};
use control::Since;
use core::ops::ControlFlow;
use failures::{Failures, Histogram};
use imr::latency::Kind;
use kernel::{
    prelude::*,
    str::CString,
    sync::atomic::{Atomic, Relaxed}, //
};
use params::Params;
use reserve::Reserve;
use store::Store;
use write::PerBio;
use zones::Zones;

/// One simulated drive.
#[pin_data]
pub(crate) struct Imrsim {
    params: Params,
    layout: imr::Layout,
    device: DeviceId,
    /// The mapped device's number, such as `252:0`.
    name: CString,
    trace: Trace,
    /// The settings in use: allowed values.
    live: imr::Each<Atomic<u32>>,
    zones: Zones,
    latencies: [Histogram; Kind::COUNT],
    since: Since,
    #[pin]
    failures: Failures,
    #[pin]
    bios: BioSet,
    #[pin]
    reserve: Reserve,
    #[pin]
    store: Store,
    workqueue: Workqueue,
}

/// An instance, as every callback gets it.
type This<'a> = TargetRef<'a, Imrsim>;

/// Bios kept for when memory is short. One would do; a few let I/O run in parallel even then.
const RESERVED_BIOS: u32 = 16;

impl Imrsim {
    /// The sector on the backing device of a sector of a zone.
    fn backing_sector(&self, zone: u64, sector: u64) -> u64 {
        // No overflow: the constructor checked that the device ends behind the last zone.
        self.params
            .start
            .wrapping_add(zone.wrapping_mul(self.params.geometry.zone_sectors()))
            .wrapping_add(sector)
    }
}

/// Resets conditions ([`RESET_ZONES`]), settings ([`RESET_SETTINGS`]) to what the table line says, or
/// both.
///
/// [`RESET_ZONES`]: imr::uapi::RESET_ZONES
/// [`RESET_SETTINGS`]: imr::uapi::RESET_SETTINGS
fn reset_config(this: This<'_>, what: u32) -> Result {
    if what & imr::uapi::RESET_ZONES != 0 {
        control::set_condition(this, None, imr::Condition::Normal)?;
    }
    if what & imr::uapi::RESET_SETTINGS != 0 {
        control::set(this, |_| Some(this.params.settings))?;
    }
    Ok(())
}

/// Refuses what would lose data or cannot work, with a text that says what to do.
fn check_size(cx: &mut Ctr<'_>, params: &Params, id: DeviceId) -> Result<imr::Layout, CtrError> {
    let sectors = cx.sectors();
    let zone_sectors = params.geometry.zone_sectors();
    if sectors == 0 || sectors % zone_sectors != 0 {
        pr_err!(
            "length {sectors} sectors: a multiple of the zone size, {zone_sectors}, is needed\n"
        );
        return Err(CtrError::invalid(
            c"The length must be a whole number of zones (imrsim_util size DEVICE tells how long)",
        ));
    }
    let layout = imr::Layout::new(&params.geometry, sectors / zone_sectors)
        .ok_or(CtrError::invalid(c"The device is too large"))?;
    let device = cx
        .device(id)
        .ok_or(CtrError::new(ENODEV, c"No backing device"))?;
    if device.logical_block_size() > imr::BLOCK_SIZE {
        return Err(CtrError::invalid(
            c"The backing device's logical blocks are larger than 4096 bytes",
        ));
    }
    let room = device.sectors().saturating_sub(params.start);
    if layout.total_sectors() > room {
        let fit = imr::Layout::zones_that_fit(&params.geometry, room).saturating_mul(zone_sectors);
        pr_err!(
            "{} sectors of data and {} of metadata do not fit in the {} sectors of {} behind sector {}; {} sectors of data would\n",
            layout.data_sectors(),
            layout.metadata_sectors(),
            room,
            device.number(),
            params.start,
            fit
        );
        return Err(CtrError::new(
            ENOSPC,
            c"The backing device is too small for data and metadata (imrsim_util size DEVICE tells what fits)",
        ));
    }
    Ok(layout)
}

#[vtable]
impl Target for Imrsim {
    const NAME: &'static CStr = c"imrsim";
    const VERSION: [u32; 3] = [2, 1, 0];

    type PerBio = PerBio;

    fn ctr(cx: &mut Ctr<'_>, mut args: Args<'_>) -> Result<Pin<KBox<Self>>, CtrError> {
        let device = cx.open(&mut args, Params::MISSING)?;
        let params = Params::parse(&mut args)?;
        let layout = check_size(cx, &params, device)?;

        let no_memory = |_| CtrError::new(ENOMEM, c"Out of memory");
        let zones = Zones::new(layout.zones()).map_err(no_memory)?;
        let name = CString::try_from_fmt(fmt!("{}", cx.device_name())).map_err(no_memory)?;
        let trace = Trace::new(cx.device_number());
        let threads = CString::try_from_fmt(fmt!("imrsim/{}", &*name)).map_err(no_memory)?;
        let workqueue = Workqueue::new(&threads).map_err(no_memory)?;
        let live = params.settings.values();
        cx.accept_flushes();
        cx.accept_discards();
        cx.limit_swap();

        KBox::try_pin_init(
            try_pin_init!(Imrsim {
                live: imr::Each::new(|number| Atomic::new(live.get(number).copied().unwrap_or(0))),
                latencies: core::array::from_fn(|_| Histogram::new()),
                since: Since {
                    began: Atomic::new(0),
                    busy: Atomic::new(0),
                },
                failures <- Failures::new(),
                name,
                trace,
                params,
                layout,
                device,
                zones,
                bios <- BioSet::new(RESERVED_BIOS),
                reserve <- Reserve::new(),
                store <- Store::new(),
                workqueue,
            }),
            GFP_KERNEL,
        )
        .map_err(no_memory)
    }

    #[inline]
    fn map(this: TargetRef<'_, Self>, bio: MapBio<'_, Self>) -> Mapped {
        let Some(device) = this.device(this.device) else {
            return bio.end(Status::IO_ERROR);
        };
        match bio.op() {
            Op::Read => map::read(this, device, bio),
            Op::Write => map::write(this, device, bio),
            Op::Flush => map::flush(this, device, bio),
            Op::Discard => map::discard(this, bio),
            Op::Other => bio.end(Status::NOT_SUPPORTED),
        }
    }

    #[inline]
    fn completed(this: TargetRef<'_, Self>, per_bio: &mut PerBio, status: Status) {
        match per_bio {
            PerBio::WritingBlock(zone, placed) => {
                execute::block_written(this, *zone, placed, status);
            }
            PerBio::Writing(writing) => execute::run_written(this, writing, status),
            PerBio::Reading(zone) => execute::remapped_read_completed(this, *zone),
            _ => {}
        }
    }

    #[inline(always)]
    fn measures(&self) -> bool {
        self.live.measure_latency.load(Relaxed) != 0
    }

    #[cold]
    fn ended(
        this: TargetRef<'_, Self>,
        per_bio: &mut PerBio,
        op: Op,
        status: Status,
        nanoseconds: Option<u64>,
    ) {
        failures::ended(this, per_bio, op, status, nanoseconds);
    }

    fn workqueue(&self) -> &Workqueue {
        &self.workqueue
    }

    fn run(this: TargetRef<'_, Self>, bio: Deferred<Self>, context: Context) {
        match this.device(this.device) {
            Some(device) => execute::run(this, device, bio, context),
            None => bio.end(Status::IO_ERROR),
        }
    }

    fn status(this: TargetRef<'_, Self>, kind: StatusKind, out: &mut Writer<'_>) {
        message::status(this, kind, out);
    }

    fn iterate_devices(
        this: TargetRef<'_, Self>,
        each: &mut dyn FnMut(&Device, u64, u64) -> ControlFlow<c_int>,
    ) -> ControlFlow<c_int> {
        match this.device(this.device) {
            Some(device) => each(device, this.params.start, this.layout.total_sectors()),
            None => ControlFlow::Continue(()),
        }
    }

    fn io_hints(this: TargetRef<'_, Self>, limits: &mut QueueLimits<'_>) {
        limits.raise_physical_block_size(imr::BLOCK_SIZE);
        let zone_sectors = u32::try_from(this.params.geometry.zone_sectors()).unwrap_or(u32::MAX);
        limits.set_discard(imr::BLOCK_SIZE, zone_sectors);
    }

    fn preresume(this: TargetRef<'_, Self>) -> Result {
        store::open(this)?;
        Since::begin(this);
        Ok(())
    }

    fn postsuspend(this: TargetRef<'_, Self>) {
        store::close(this);
    }

    fn thread(this: TargetRef<'_, Self>, cx: &mut ThreadContext<'_>) {
        store::thread(this, cx);
    }

    fn message(this: TargetRef<'_, Self>, args: Args<'_>, out: &mut Writer<'_>) -> Result {
        message::message(this, args, out)
    }

    fn ioctl<'a>(this: TargetRef<'a, Self>, cmd: u32, arg: usize) -> Ioctl<'a> {
        match (ioctl::handle(this, cmd, arg), this.device(this.device)) {
            (Some(result), _) => Ioctl::Done(result),
            (None, Some(device)) => Ioctl::Forward(device),
            (None, None) => Ioctl::Done(Err(ENOTTY)),
        }
    }
}
