// SPDX-License-Identifier: GPL-2.0-only

//! How large a drive a backing device can hold, and the table line that makes it.

use std::{
    fs::File,
    io::{Seek, SeekFrom},
    os::unix::fs::FileTypeExt,
    path::Path,
};

use anyhow::{bail, ensure, Context, Result};
use imrsim_core::{Geometry, Layout, BLOCK_SECTORS};
use serde::Serialize;

use crate::{
    exit::usage,
    number::{parse_count, parse_size, Bytes, SECTOR},
    settings::ForNewDrive,
};

/// What a backing device can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Zones.
    pub zones: u64,
    /// Sectors of the drive: the length in its table line.
    pub data_sectors: u64,
    /// Sectors that metadata takes behind the zones.
    pub metadata_sectors: u64,
    /// Sectors at the end that are left over.
    pub unused_sectors: u64,
}

impl Size {
    /// The largest drive on `device_sectors` sectors.
    ///
    /// # Errors
    ///
    /// If not even one zone fits.
    pub fn of(geometry: &Geometry, device_sectors: u64) -> Result<Self> {
        let zones = Layout::zones_that_fit(geometry, device_sectors);
        let layout = |zones| Layout::new(geometry, zones).context("the drive is too large");
        if zones == 0 {
            let least = layout(1)?.total_sectors();
            bail!(
                "{device_sectors} sectors ({}) are too few: one zone and its metadata take \
                 {least} sectors ({})",
                Bytes(device_sectors.saturating_mul(SECTOR)),
                Bytes(least.saturating_mul(SECTOR))
            );
        }
        let layout = layout(zones)?;
        Ok(Self {
            zones,
            data_sectors: layout.data_sectors(),
            metadata_sectors: layout.metadata_sectors(),
            unused_sectors: device_sectors.saturating_sub(layout.total_sectors()),
        })
    }

    /// The table line of the drive on `device`, from sector `start` of it on.
    pub fn table_line(&self, geometry: &Geometry, device: &str, start: u64) -> String {
        let params = params(geometry, device, start, &ForNewDrive::default());
        format!("0 {} imrsim {params}", self.data_sectors)
    }
}

/// What is behind the target in the table line of a drive on `device`, from sector `start` of it on.
pub fn params(geometry: &Geometry, device: &str, start: u64, settings: &ForNewDrive) -> String {
    let mut words = settings.words();
    if *geometry != Geometry::DEFAULT {
        words.extend(geometry_words(geometry));
    }
    let mut params = format!("{device} {start}");
    if !words.is_empty() {
        params.push_str(&format!(" {} {}", words.len(), words.join(" ")));
    }
    params
}

/// The words of a table line that say the shape of a zone.
pub fn geometry_words(geometry: &Geometry) -> [String; 4] {
    [
        "geometry".to_owned(),
        geometry.top_blocks().to_string(),
        geometry.bottom_blocks().to_string(),
        geometry.groups().to_string(),
    ]
}

/// What a drive is to be made on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A device, or a file that will be one.
    Path(String),
    /// So many bytes.
    Bytes(u64),
}

impl Backing {
    /// A path if `text` has a slash in it, otherwise a size.
    ///
    /// # Errors
    ///
    /// If it is neither.
    pub fn parse(text: &str) -> Result<Self> {
        if text.contains('/') {
            return Ok(Self::Path(text.to_owned()));
        }
        match parse_size(text) {
            Ok(bytes) => Ok(Self::Bytes(bytes)),
            Err(error) => Err(usage(format!(
                "{error}; or a device, as a path with a '/' in it"
            ))),
        }
    }

    /// Its size in whole sectors.
    ///
    /// # Errors
    ///
    /// If it is neither a block device nor a regular file, or cannot be opened.
    pub fn sectors(&self) -> Result<u64> {
        let path = match self {
            Self::Bytes(bytes) => return Ok(bytes / SECTOR),
            Self::Path(path) => Path::new(path),
        };
        let shown = path.display();
        let kind = path
            .metadata()
            .with_context(|| format!("cannot open {shown}"))?
            .file_type();
        ensure!(
            kind.is_block_device() || kind.is_file(),
            "{shown} is neither a block device nor a file"
        );
        let mut file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
        let bytes = file
            .seek(SeekFrom::End(0))
            .with_context(|| format!("cannot find the size of {shown}"))?;
        Ok(bytes / SECTOR)
    }

    /// The path for a table line, which needs a block device.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn block_device(&self) -> Result<&str> {
        let Self::Path(path) = self else {
            return Err(usage("a table line needs a device, not a size"));
        };
        let metadata = Path::new(path)
            .metadata()
            .with_context(|| format!("cannot open {path}"))?;
        ensure!(
            metadata.file_type().is_block_device(),
            "{path} is not a block device; 'losetup -f --show {path}' makes one of a file"
        );
        Ok(path)
    }
}

/// Reads the first sector of a drive on its backing device: a multiple of a block.
///
/// # Errors
///
/// If it is not one.
pub fn parse_start(text: &str) -> Result<u64> {
    let start = parse_count(text)?;
    ensure!(
        start % u64::from(BLOCK_SECTORS) == 0,
        "{start} is not a multiple of the {BLOCK_SECTORS} sectors of a block"
    );
    Ok(start)
}

/// Reads a geometry: `TOP,BOTTOM,GROUPS`, in blocks, blocks and track groups in a zone.
///
/// # Errors
///
/// If it is not one.
pub fn parse_geometry(text: &str) -> Result<Geometry> {
    let numbers: Vec<u32> = text
        .split(',')
        .map(|number| Ok(u32::try_from(parse_count(number)?)?))
        .collect::<Result<_>>()
        .with_context(|| format!("'{text}' is not TOP,BOTTOM,GROUPS"))?;
    let &[top, bottom, groups] = numbers.as_slice() else {
        bail!("'{text}' is not TOP,BOTTOM,GROUPS: blocks, blocks and track groups in a zone");
    };
    Ok(Geometry::new(top, bottom, groups)?)
}

#[cfg(test)]
mod tests {
    use imrsim_core::Allocation;

    use super::*;

    #[test]
    fn as_many_zones_as_fit_with_their_metadata() {
        let geometry = Geometry::DEFAULT;
        let one = Layout::new(&geometry, 1).unwrap().total_sectors();
        assert!(Size::of(&geometry, one - 1).is_err());
        let size = Size::of(&geometry, one).unwrap();
        assert_eq!((size.zones, size.unused_sectors), (1, 0));
        assert_eq!(size.data_sectors, 524_288);
        let two = Layout::new(&geometry, 2).unwrap().total_sectors();
        assert_eq!(Size::of(&geometry, two - 1).unwrap().zones, 1);
        assert_eq!(Size::of(&geometry, two).unwrap().zones, 2);
    }

    #[test]
    fn table_lines() {
        let geometry = Geometry::DEFAULT;
        let size = Size::of(&geometry, 1 << 21).unwrap();
        assert_eq!(
            size.table_line(&geometry, "/dev/sdb", 0),
            "0 1572864 imrsim /dev/sdb 0"
        );
        let geometry = Geometry::new(4, 5, 16).unwrap();
        let size = Size::of(&geometry, 1 << 21).unwrap();
        assert_eq!(
            size.table_line(&geometry, "/dev/sdb", 2048),
            format!(
                "0 {} imrsim /dev/sdb 2048 4 geometry 4 5 16",
                size.zones * 1152
            )
        );
    }

    #[test]
    fn parameters() {
        let small = Geometry::new(4, 5, 16).unwrap();
        for (geometry, phases, params) in [
            (Geometry::DEFAULT, None, "8:16 8"),
            (Geometry::DEFAULT, Some(3), "8:16 8 2 phases 3"),
            (small, None, "8:16 8 4 geometry 4 5 16"),
            (small, Some(1), "8:16 8 6 phases 1 geometry 4 5 16"),
        ] {
            let settings = ForNewDrive {
                phases: phases.map(|phases| Allocation::from_phases(phases).unwrap()),
                ..ForNewDrive::default()
            };
            assert_eq!(super::params(&geometry, "8:16", 8, &settings), params);
        }
        let settings = ForNewDrive {
            phases: None,
            rmw_read_delay: Some(250),
            write_back_delay: Some(5000),
        };
        assert_eq!(
            super::params(&small, "8:16", 8, &settings),
            "8:16 8 8 rmw_read_delay 250 write_back_delay 5000 geometry 4 5 16"
        );
    }

    #[test]
    fn geometries() {
        assert_eq!(parse_geometry("456,568,64").unwrap(), Geometry::DEFAULT);
        for text in [
            "",
            "1,2",
            "1,2,3,4",
            "a,2,3",
            "3,2,1",
            "0,1,1",
            "1,1,99999",
            "-1,2,3",
        ] {
            assert!(parse_geometry(text).is_err(), "{text}");
        }
    }

    #[test]
    fn backings() {
        assert_eq!(
            Backing::parse("/dev/sdb").unwrap(),
            Backing::Path("/dev/sdb".to_owned())
        );
        assert_eq!(Backing::parse("1G").unwrap(), Backing::Bytes(1 << 30));
        assert!(Backing::parse("sdb").is_err());
    }
}
