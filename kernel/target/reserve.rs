// SPDX-License-Identifier: GPL-2.0-only

//! Pages for read-modify-writes, with a reserve for when memory is short.
//!
//! A write takes all the pages it needs at once, so that no two can wait for each other's. If memory
//! has none it takes the reserve, which is as large as any plan needs; there is one for the device,
//! and writes that find it taken wait in line.

use super::{write::PerBio, Imrsim};
use crate::{
    dm::{new_spinlock_irq, BioQueue, Deferred, PageList, SpinLockIrq, Workqueue},
    imr::MAX_RMW_BLOCKS,
};
use kernel::{
    prelude::*, //
};

/// The most pages a plan takes: as many top blocks on either side as bottom blocks, or one to pad.
const MOST_PAGES: usize = 2 * MAX_RMW_BLOCKS as usize + 1;

struct Inner {
    pages: PageList,
    taken: bool,
    waiting: BioQueue<Imrsim>,
}

/// The reserve of a device.
#[pin_data]
pub(super) struct Reserve {
    #[pin]
    inner: SpinLockIrq<Inner>,
}

impl Reserve {
    /// Sets aside the pages.
    pub(super) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            inner <- {
                let pages = PageList::reserve(MOST_PAGES)?;
                new_spinlock_irq!(Inner {
                    pages,
                    taken: false,
                    waiting: BioQueue::new(),
                }, "imrsim reserve")
            },
        })
    }

    /// Gives the bio `n` pages, unless it has them. [`None`]: there are none, the bio waits and will be
    /// run again.
    pub(super) fn take(&self, mut bio: Deferred<Imrsim>, n: usize) -> Option<Deferred<Imrsim>> {
        if bio.pages().len() >= n {
            return Some(bio);
        }
        if let Ok(pages) = PageList::try_alloc(n) {
            *bio.pages() = pages;
            return Some(bio);
        }
        let mut inner = self.inner.lock();
        if inner.taken || inner.pages.len() < n {
            inner.waiting.push(bio);
            return None;
        }
        inner.taken = true;
        *bio.pages() = inner.pages.split(n);
        drop(inner);
        if let PerBio::Write(write) = bio.per_bio() {
            write.from_reserve = true;
        }
        Some(bio)
    }

    /// Takes back the bio's pages, and has the next in line go on.
    pub(super) fn give_back(&self, bio: &mut Deferred<Imrsim>, queue: &Workqueue) {
        let pages = core::mem::replace(bio.pages(), PageList::new());
        let PerBio::Write(write) = bio.per_bio() else {
            return;
        };
        if !core::mem::take(&mut write.from_reserve) {
            return;
        }
        let mut inner = self.inner.lock();
        inner.pages.append(pages);
        inner.taken = false;
        let next = inner.waiting.pop();
        drop(inner);
        if let Some(next) = next {
            next.schedule(queue);
        }
    }
}
