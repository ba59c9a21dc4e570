// SPDX-License-Identifier: GPL-2.0-only

//! The live view of a simulated drive that is written to a little between two looks: it needs no kernel
//! module, no device and no root.
//!
//! ```text
//! cargo run --release --example live
//! cargo run --release --example live -- --zones 80000 --phases 3
//! ```

#![forbid(unsafe_code)]

use std::{cell::RefCell, io, rc::Rc, time::Duration};

use anyhow::Result;
use clap::Parser;
use imrsim_core::{uapi::Request, Allocation, Geometry, Nbo, TrackKind};
use imrsim_util::{
    device::{Device, Transport},
    drive::Drive,
    live::{self, Options, Rewrite},
    number::parse_duration,
    rng::Rng,
    size::parse_geometry,
};

const BLOCK: u64 = 4096;

#[derive(Parser)]
struct Args {
    #[arg(long, default_value_t = 8)]
    zones: u64,
    #[arg(long, default_value_t = 2)]
    phases: u32,
    #[arg(long, default_value = "456,568,64", value_parser = parse_geometry)]
    geometry: Geometry,
    /// Blocks written between two looks
    #[arg(long, default_value_t = 600)]
    blocks: u64,
    #[arg(long, default_value = "200ms", value_parser = parse_duration)]
    interval: Duration,
    #[arg(long, default_value_t = 0)]
    zone: u64,
    /// After so many looks, the drive does not answer any more
    #[arg(long, default_value_t = u64::MAX)]
    fail_at: u64,
    /// After so many looks, the program panics
    #[arg(long, default_value_t = u64::MAX)]
    panic_at: u64,
}

/// A drive that somebody writes to whenever it is looked at.
struct Busy {
    drive: Drive,
    args: Args,
    rng: Rng,
    looks: u64,
    /// Blocks of the drive that were written for the first time: those below it.
    filled: u64,
    rewrites: Rc<RefCell<Vec<Rewrite>>>,
}

impl Busy {
    /// Fills the drive to nine tenths in order, and writes a quarter of what it writes anywhere below.
    fn work(&mut self) -> Result<()> {
        let zone_blocks = u64::from(self.args.geometry.zone_blocks());
        let limit = zone_blocks * self.args.zones * 9 / 10;
        for i in 0..self.args.blocks {
            let again = self.filled > 0 && (i % 4 == 3 || self.filled >= limit);
            let block = if again {
                self.rng.below(self.filled)
            } else {
                self.filled += 1;
                self.filled - 1
            };
            self.note(block / zone_blocks, block % zone_blocks)?;
            self.drive.write(block * BLOCK, BLOCK)?;
        }
        Ok(())
    }

    /// Notes what the next write rewrites, as the trace events of a drive of the kernel tell it.
    fn note(&mut self, zone: u64, bo: u64) -> Result<()> {
        let Some(place) = self.drive.lookup(zone, u32::try_from(bo)?) else {
            return Ok(());
        };
        let (place, geometry) = (Nbo(place), self.args.geometry);
        let bottom = geometry.locate(place).track.kind == TrackKind::Bottom;
        let mut tops = geometry.neighbours(place).into_iter().flatten();
        if bottom && tops.any(|top| self.drive.is_used(zone, top.0)) {
            self.rewrites.borrow_mut().push(Rewrite {
                zone,
                first: place,
                blocks: 1,
            });
        }
        Ok(())
    }
}

impl Transport for Busy {
    fn call(&mut self, request: Request, buf: &mut [u8]) -> io::Result<()> {
        // Each look asks this once.
        if request == Request::GetConfig {
            self.looks += 1;
            assert!(self.looks <= self.args.panic_at, "as was asked for");
            self.work().map_err(io::Error::other)?;
        }
        if self.looks > self.args.fail_at {
            return Err(io::Error::from_raw_os_error(11));
        }
        self.drive.call(request, buf)
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let allocation = Allocation::from_phases(args.phases)?;
    let options = Options {
        zone: args.zone,
        interval: args.interval,
    };
    let rewrites = Rc::default();
    let busy = Busy {
        drive: Drive::new(args.geometry, args.zones, allocation)?,
        args,
        rng: Rng::new(1),
        looks: 0,
        filled: 0,
        rewrites: Rc::clone(&rewrites),
    };
    let mut device = Device::new("a simulated drive", busy);
    live::end_by(live::run(
        &mut device,
        &mut || Ok(rewrites.take()),
        &options,
    )?)
}
