// SPDX-License-Identifier: GPL-2.0-only

//! All of recovery in one function, and checksums that fit whatever bytes were changed.

use crate::{
    common::Memory,
    image::{
        Image,
        UUID, //
    },
};
use imrsim_core::ondisk::{
    crc::Crc,
    load_zone,
    Position, //
};

/// Makes the checksums right: those of the eight sectors of an entry, or that of a header.
pub(crate) fn seal(block: &mut [u8], is_entry: bool) {
    if is_entry {
        for sector in block.chunks_exact_mut(512) {
            let crc = Crc::new().update(&UUID.0).update(&sector[..508]).value();
            sector[508..].copy_from_slice(&crc.to_le_bytes());
        }
    } else {
        let crc = Crc::new().update(&block[..508]).update(&block[512..4096]);
        block[508..512].copy_from_slice(&crc.value().to_le_bytes());
    }
}

/// Everything that recovery does; the number of blocks mapped, if it is not refused.
pub(crate) fn recover(image: &mut Image) -> Option<u32> {
    let (loaded, mut map) = image.load().ok()?;
    let layout = loaded.superblock.layout().ok()?;
    let (records, replayed) = image.replay().ok()?;
    for (_, record) in &records {
        if record.zone().is_some_and(|zone| zone >= layout.zones()) {
            return None;
        }
    }
    let mut mapped = 0;
    for zone in 0..layout.zones() {
        let mut memory = Memory::new(*layout.geometry());
        let mut view = memory.zone();
        let block = &mut [0; 4096];
        let loaded = load_zone(
            image,
            &loaded.superblock,
            &layout,
            &mut map,
            zone,
            block,
            view.memory(),
        );
        let from = match loaded.ok()? {
            Some(loaded) => {
                loaded.check(replayed.head).ok()?;
                loaded.header.position
            }
            None => Position::default(),
        };
        memory.zone().load().ok()?;
        for (position, record) in &records {
            if record.zone() == Some(zone) && *position >= from {
                memory.zone().replay(record).ok()?;
            }
        }
        // Whatever was accepted is injective.
        memory.zone().load().expect("a table");
        mapped += memory.zone().mapped_blocks();
    }
    Some(mapped)
}
