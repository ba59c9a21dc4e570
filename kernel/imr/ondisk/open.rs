// SPDX-License-Identifier: GPL-2.0-only

//! Finding the superblock.

use super::{
    super::{
        geometry::{
            Geometry,
            Track,
            TrackKind, //
        },
        layout::Layout,
        num,
        units::BLOCK_SECTORS, //
    },
    Block,
    Disk,
    LoadError,
    Refusal,
    Superblock, //
};

/// How many zones are looked at before a device is taken to be blank.
const SAMPLES: u64 = 128;

/// A superblock, and which copy it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The newest superblock.
    pub superblock: Superblock,
    /// Which copy it is, 0 or 1. The next time the superblock is written, the other copy must be
    /// the first to be written, because it may be the worse one.
    pub copy: u64,
    /// Whether the other copy is intact and equally new.
    pub other_is_equal: bool,
}

/// The two copies of the superblock, as far as their headers go.
type Header = Result<Superblock, Refusal>;

/// Loads the superblock of a drive that should have this layout (apart from its journal's length)
/// on a device of `room` sectors, and fills `map`, of [`Layout::map_words`] words.
///
/// # Errors
///
/// If the device is refused. Only if that is because it is [`Blank`](Refusal::Blank) may it be
/// formatted without asking: then the places of both superblocks are zero, and so are those where
/// data would be if the table line gave another size than the one the drive was formatted with.
pub fn load_superblock<D: Disk>(
    disk: &mut D,
    layout: &Layout,
    room: u64,
    map: &mut [u64],
    block: &mut Block,
) -> Result<Loaded, LoadError<D::Error>> {
    let mut errors = [None, None];
    let mut headers: [Header; 2] = [Err(Refusal::Blank); 2];
    for ((header, error), copy) in headers.iter_mut().zip(&mut errors).zip(0..) {
        match load_copy(disk, layout, copy, map, block) {
            Ok(superblock) => *header = Ok(superblock),
            Err(LoadError::Refused(refusal)) => *header = Err(refusal),
            Err(LoadError::Io(reason)) => {
                // As good as damaged.
                *header = Err(Refusal::SuperblockDamaged);
                *error = Some(reason);
            }
        }
    }
    let (copy, other_is_equal) = match choose(&headers) {
        Ok(chosen) => chosen,
        Err(refusal) => {
            if let [Some(error), _] | [_, Some(error)] = errors {
                return Err(LoadError::Io(error));
            }
            if refusal == Refusal::Blank {
                check_blank(disk, layout, block)?;
            }
            return Err(refusal.into());
        }
    };
    // Copy 1 is what `map` holds now.
    let superblock = match copy {
        0 => load_copy(disk, layout, 0, map, block)?,
        _ => match headers {
            [_, Ok(superblock)] => superblock,
            _ => return Err(Refusal::SuperblockDamaged.into()),
        },
    };
    if superblock.geometry != *layout.geometry() {
        return Err(Refusal::GeometryMismatch.into());
    }
    if superblock.zones != layout.zones() {
        return Err(Refusal::SizeMismatch.into());
    }
    if superblock.layout()?.total_sectors() > room {
        return Err(Refusal::DeviceShrank.into());
    }
    Ok(Loaded {
        superblock,
        copy,
        other_is_equal,
    })
}

/// Which copy to take, and whether the other is as good.
fn choose(headers: &[Header; 2]) -> Result<(u64, bool), Refusal> {
    // What is intact, but beyond this program, must not be ignored for an older copy.
    let beyond = |refusal| {
        matches!(
            refusal,
            Refusal::UnknownVersion | Refusal::UnknownFeature | Refusal::SuperblockInvalid
        )
    };
    if let [Err(refusal), _] | [_, Err(refusal)] = *headers {
        if beyond(refusal) {
            return Err(refusal);
        }
    }
    if let [_, Err(refusal)] = *headers {
        if beyond(refusal) {
            return Err(refusal);
        }
    }
    match headers {
        [Ok(first), Ok(second)] => {
            if first.uuid != second.uuid {
                return Err(Refusal::SuperblocksDiffer);
            }
            if first.sequence == second.sequence && first != second {
                return Err(Refusal::SuperblockInvalid);
            }
            let copy = u64::from(second.sequence > first.sequence);
            Ok((copy, first == second))
        }
        [Ok(_), Err(_)] => Ok((0, false)),
        [Err(_), Ok(_)] => Ok((1, false)),
        [Err(Refusal::Blank), Err(refusal)] | [Err(refusal), Err(Refusal::Blank)] => Err(*refusal),
        [Err(Refusal::SuperblockDamaged), Err(_)] | [Err(_), Err(Refusal::SuperblockDamaged)] => {
            Err(Refusal::SuperblockDamaged)
        }
        [Err(refusal), Err(_)] => Err(*refusal),
    }
}

/// Loads one copy as a whole.
fn load_copy<D: Disk>(
    disk: &mut D,
    layout: &Layout,
    copy: u64,
    map: &mut [u64],
    block: &mut Block,
) -> Result<Superblock, LoadError<D::Error>> {
    let mut sector = layout.superblock(copy).ok_or(Refusal::SuperblockInvalid)?;
    let mut read = |block: &mut Block| {
        let result = disk.read(sector, block).map_err(LoadError::Io);
        sector = sector.saturating_add(num::wide(BLOCK_SECTORS));
        result
    };
    read(block)?;
    let (superblock, mut reader) = match Superblock::decode_header(block) {
        Ok(header) => header,
        Err(Refusal::Blank) => {
            // With a blank header the map must be blank, too.
            for _ in 1..layout.superblock_blocks() {
                read(block)?;
                if block.iter().any(|byte| *byte != 0) {
                    return Err(Refusal::ForeignData.into());
                }
            }
            return Err(Refusal::Blank.into());
        }
        Err(refusal) => return Err(refusal.into()),
    };
    // The header of a drive of another size has a map of another length: tell the sizes apart
    // before the map is called damaged.
    if superblock.geometry != *layout.geometry() || superblock.zones != layout.zones() {
        return Ok(superblock);
    }
    while reader.wants_more() {
        read(block)?;
        reader.push(block, map);
    }
    reader.finish(map)?;
    Ok(superblock)
}

/// Refuses a device on which there seems to be something where a drive with this geometry would
/// have written first: in the first block of a zone, where a smaller drive would also have its
/// superblock, and in the first block of its first bottom track. Looks at up to [`SAMPLES`] zones
/// and at the beginning of the slots; not at the journal, because formatting begins with that.
fn check_blank<D: Disk>(
    disk: &mut D,
    layout: &Layout,
    block: &mut Block,
) -> Result<(), LoadError<D::Error>> {
    let mut check = |sector| {
        disk.read(sector, block).map_err(LoadError::Io)?;
        if block.iter().any(|byte| *byte != 0) {
            return Err(LoadError::Refused(Refusal::ForeignData));
        }
        Ok(())
    };
    if layout.zones() > 0 {
        check(layout.slots())?;
    }
    let samples = layout.zones().min(SAMPLES);
    for sample in 0..samples {
        // The first and the last zone, and others between them.
        let zone = match samples.saturating_sub(1) {
            0 => 0,
            last if sample == last => layout.zones() - 1,
            _ => sample.saturating_mul(layout.zones() / samples),
        };
        let first = zone.saturating_mul(layout.geometry().zone_sectors());
        check(first)?;
        check(first.saturating_add(first_bottom(layout.geometry())))?;
    }
    Ok(())
}

/// The sector of the first bottom track in a zone.
fn first_bottom(geometry: &Geometry) -> u64 {
    let track = Track {
        group: 0,
        kind: TrackKind::Bottom,
    };
    num::wide(geometry.track_start(track).0).saturating_mul(num::wide(BLOCK_SECTORS))
}
