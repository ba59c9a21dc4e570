// SPDX-License-Identifier: GPL-2.0-only

//! `dmsetup status`, `dmsetup table` and `dmsetup message`.

use super::{
    control,
    failures::{Direction, Failure},
    reset::reset_zone,
    store::Mode,
    Imrsim, This,
};
use crate::{
    dm::{may_log, Args, CtrError, StatusKind, Target, Writer},
    imr::{
        latency::{bound, Kind},
        uapi::{RESET_SETTINGS, RESET_ZONES},
        Condition, Settings,
    },
};
use core::fmt::Write;
use kernel::prelude::*;

/// Writes the status or table line. [`Writer`] never fails, it cuts.
pub(super) fn status(this: This<'_>, kind: StatusKind, out: &mut Writer<'_>) {
    let _ = match kind {
        StatusKind::Info => info(this.get(), out),
        StatusKind::Table => table(this, out),
        StatusKind::Ima => ima(this, out),
    };
}

fn table(this: This<'_>, out: &mut Writer<'_>) -> kernel::fmt::Result {
    if let Some(device) = this.device(this.device) {
        write!(out, "{} ", device.number().to_str().unwrap_or("?"))?;
    }
    this.params.write(out)
}

/// `<rw|ro|fail|suspended> <mapped>/<total> <key>=<value>...`: blocks, and each counter by its name.
fn info(this: &Imrsim, out: &mut Writer<'_>) -> kernel::fmt::Result {
    let counters = this.counters(None).unwrap_or_default();
    write!(
        out,
        "{} {}/{} phases={} zones={}",
        match this.store.mode() {
            Mode::Writable => "rw",
            Mode::ReadOnly => "ro",
            Mode::Failed => "fail",
            Mode::Closed => "suspended",
        },
        counters.mapped,
        this.capacity_blocks(None),
        this.phases(),
        this.zones.len()
    )?;
    for (indicator, value) in counters.stats.iter() {
        write!(out, " {}={}", indicator.name, value)?;
    }
    Ok(())
}

fn ima(this: This<'_>, out: &mut Writer<'_>) -> kernel::fmt::Result {
    let [major, minor, patch] = Imrsim::VERSION;
    write!(
        out,
        "target_name=imrsim,target_version={major}.{minor}.{patch},table="
    )?;
    table(this, out)?;
    write!(out, ";")
}

/// Words of a message that cannot be understood.
const BAD: CtrError = CtrError::invalid(c"");

/// Takes a number, and nothing behind it.
fn last_number(args: &mut Args<'_>) -> Result<u64> {
    let number = args.number(BAD).map_err(|_| EINVAL)?;
    end(args)?;
    Ok(number)
}

fn end(args: &Args<'_>) -> Result {
    args.finish(BAD).map_err(|_| EINVAL)
}

/// Carries out a message:
///
/// * `<setting> <value>`: changes one of [`Settings::TABLE`]
/// * `settings`: prints all of them
/// * `reset_statistics [<zone>]`: sets the counters to zero
/// * `reset_zone <zone>`: unmaps all blocks of a zone
/// * `condition <zone>|all normal|read-only|offline`: sets what a zone may be used for
/// * `reset_config all|zones|settings`: sets all conditions to normal, settings as the table says
/// * `errors [clear]`: prints why the last read and the last write failed that did
/// * `latency <kind>`: prints a histogram, as pairs of an upper bound in nanoseconds and a count
pub(super) fn message(this: This<'_>, mut args: Args<'_>, out: &mut Writer<'_>) -> Result {
    let args = &mut args;
    let done = match args.next() {
        Some("settings") => {
            end(args)?;
            let _ = write!(out, "{}", this.settings());
            Ok(())
        }
        Some("reset_statistics") if args.len() == 0 => control::reset_counters(this, None),
        Some("reset_statistics") => {
            last_number(args).and_then(|zone| control::reset_counters(this, Some(zone)))
        }
        Some("reset_zone") => last_number(args).and_then(|zone| reset_zone(this, zone)),
        Some("condition") => condition(this, args),
        Some("reset_config") => reset_config(this, args),
        Some("errors") => errors(this.get(), args, out),
        Some("latency") => latency(this.get(), args, out),
        Some(name) => setting(this, name, args),
        None => Err(EINVAL),
    };
    done.inspect_err(|error| {
        if *error == EINVAL && may_log() {
            pr_err!("a message was not understood; there are: <setting> <value>, settings, reset_statistics [<zone>], reset_zone <zone>, condition <zone>|all normal|read-only|offline, reset_config all|zones|settings, errors [clear], latency <kind>\n");
        }
    })
}

fn setting(this: This<'_>, name: &str, args: &mut Args<'_>) -> Result {
    let number = Settings::find(name).ok_or(EINVAL)?;
    let setting = Settings::TABLE.get(number).ok_or(EINVAL)?;
    let value = args
        .next()
        .and_then(|text| setting.parse(text))
        .ok_or(EINVAL)?;
    end(args)?;
    control::set(this, |settings| settings.with(number, value))
}

fn condition(this: This<'_>, args: &mut Args<'_>) -> Result {
    let zone = match args.clone().next() {
        Some("all") => {
            args.next();
            None
        }
        _ => Some(args.number(BAD).map_err(|_| EINVAL)?),
    };
    let condition = args.next().and_then(Condition::from_name).ok_or(EINVAL)?;
    end(args)?;
    control::set_condition(this, zone, condition)
}

fn reset_config(this: This<'_>, args: &mut Args<'_>) -> Result {
    let what = match args.next() {
        Some("all") => RESET_ZONES | RESET_SETTINGS,
        Some("zones") => RESET_ZONES,
        Some("settings") => RESET_SETTINGS,
        _ => return Err(EINVAL),
    };
    end(args)?;
    super::reset_config(this, what)
}

fn errors(this: &Imrsim, args: &mut Args<'_>, out: &mut Writer<'_>) -> Result {
    let clear = match args.next() {
        None => false,
        Some("clear") => true,
        Some(_) => return Err(EINVAL),
    };
    end(args)?;
    let directions = [(Direction::Read, "read"), (Direction::Write, "write")];
    for ((direction, name), failure) in directions.into_iter().zip(this.failures.look()) {
        if clear {
            this.failures.forget(direction, &failure);
        }
        let Failure {
            cause,
            errno,
            zone,
            count,
        } = failure;
        let cause = cause.map_or("none", |cause| cause.name());
        let space = if direction == Direction::Read {
            ""
        } else {
            " "
        };
        let _ = write!(
            out,
            "{space}{name}={cause} {name}_errno={errno} {name}_zone="
        );
        let _ = match zone {
            Some(zone) => write!(out, "{zone}"),
            None => write!(out, "-"),
        };
        let _ = write!(out, " {name}_errors={count}");
    }
    Ok(())
}

fn latency(this: &Imrsim, args: &mut Args<'_>, out: &mut Writer<'_>) -> Result {
    let name = args.next().ok_or(EINVAL)?;
    end(args)?;
    let kind = Kind::ALL
        .iter()
        .find(|kind| kind.name() == name)
        .ok_or(EINVAL)?;
    let histogram = this.latencies.get(kind.number()).ok_or(EINVAL)?;
    let (counts, nanoseconds) = histogram.look();
    let requests: u64 = counts.iter().sum();
    let _ = write!(out, "requests={requests} nanoseconds={nanoseconds}");
    for (index, count) in counts.iter().enumerate() {
        let _ = match bound(index) {
            Some(bound) => write!(out, " {bound}:{count}"),
            None => write!(out, " inf:{count}"),
        };
    }
    Ok(())
}
