// SPDX-License-Identifier: GPL-2.0-only

//! Writing the journal.
//!
//! A commit takes the bios that wait, then writes the changes that there are in batches of entries,
//! and ends the bios. The first write of a commit is a barrier: the data of every change, and every
//! write that a waiting flush covers, had completed before, so it is durable before the journal says
//! so. One commit serves all that wait.

use super::{
    end_all,
    keeper::{self, Keeper, BATCH, ENTRY_BYTES},
    Context, Mode,
};
use crate::{
    dm::{Status, SyncIo},
    imr::ondisk::{Block, EntryBuilder, Position, Record, BLOCK_BYTES},
};
use kernel::time::{
    delay::fsleep,
    Delta, //
};

/// Entries that must be free for first writes to go on: enough for all changes that can be under way
/// ([`CAPACITY`]) when they are throttled, and a few more.
///
/// [`CAPACITY`]: super::journal::CAPACITY
pub(super) const HEADROOM: u64 = 24;

impl Keeper {
    /// What the thread does when it wakes, and others who cannot wait for that: commits, and checkpoints
    /// if the journal is half full.
    pub(super) fn serve(&mut self, cx: Context<'_>) -> Result<(), Status> {
        self.try_commit(cx)?;
        if let Err(status) = self.make_room(cx) {
            self.give_up(cx, "cannot write a zone's table", status);
            return Err(status);
        }
        // First writes that failed have given room back, too, and told nobody.
        self.unthrottle(cx);
        Ok(())
    }

    /// Whether first writes have to wait for a checkpoint.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.ring.free(self.superblock.tail, self.head) <= HEADROOM
    }

    /// Checkpoints if the journal is half full.
    fn make_room(&mut self, cx: Context<'_>) -> Result<(), Status> {
        if self.ring.should_checkpoint(self.superblock.tail, self.head) {
            self.checkpoint(cx)?;
        }
        Ok(())
    }

    /// Commits everything, and ends the bios that wait; if that fails, with the error.
    pub(super) fn try_commit(&mut self, cx: Context<'_>) -> Result<(), Status> {
        if cx.store().mode() != Mode::Writable {
            end_all(cx.this, cx.store().take_waiting(), Status::IO_ERROR);
            return Err(Status::IO_ERROR);
        }
        let waiting = cx.store().take_waiting();
        let result = self.commit(cx, None).and_then(|(wrote, _)| {
            if wrote || waiting.is_empty() {
                return Ok(());
            }
            // Others have committed what these bios waited for, but not flushed the data.
            match cx.device.flush() {
                status if status.is_ok() => Ok(()),
                status => Err(status),
            }
        });
        match result {
            Ok(()) => end_all(cx.this, waiting, Status::OK),
            Err(status) => {
                // First, so that a discard among them sees it.
                self.give_up(cx, "cannot write the journal", status);
                end_all(cx.this, waiting, status);
            }
        }
        result
    }

    /// The store fails. All that waits ends, and whatever waits for room is tried again, to fail.
    pub(super) fn give_up(&mut self, cx: Context<'_>, what: &str, status: Status) {
        cx.store().fail(what);
        end_all(cx.this, cx.store().take_waiting(), status);
        cx.zones().retry_all(cx.this);
    }

    /// Writes all changes that there are, and the configuration if it has changed. Returns whether
    /// anything was written and, for the number of a change, the position of its record, or of the
    /// next one if there is none.
    pub(super) fn commit(
        &mut self,
        cx: Context<'_>,
        find: Option<u64>,
    ) -> Result<(bool, Position), Status> {
        let mut position = None;
        let mut wrote = false;
        self.drain(cx);
        let (mut next, end) = {
            let journal = cx.store().journal.lock();
            (journal.durable(), journal.added())
        };
        let settings = cx.this.settings();
        let mut config =
            (settings != self.superblock.settings).then_some(Record::Config { settings });
        while next < end || config.is_some() {
            let written =
                self.write_batch(cx, next, end, config.take(), !wrote, |number, at| {
                    if find == Some(number) {
                        position = Some(at);
                    }
                })?;
            wrote = true;
            self.superblock.settings = settings;
            cx.this.trace.commit(written.wrapping_sub(next));
            next = written;
            self.free(cx, next);
        }
        Ok((wrote, position.unwrap_or(Position::start_of(self.head))))
    }

    /// Where the journal is nearly full, waits for the first writes that are on their way; others are
    /// throttled. What is left is committed together then, in the entries that there are. If each of
    /// them were committed as it comes, each would take an entry of its own.
    fn drain(&self, cx: Context<'_>) {
        if !self.is_nearly_full() {
            return;
        }
        while cx.store().journal.lock().reserved() > 0 {
            fsleep(Delta::from_millis(1));
        }
    }

    /// Changes are durable: makes their room free, and lets first writes go on, or not.
    fn free(&mut self, cx: Context<'_>, durable: u64) {
        let throttled = self.is_nearly_full();
        let retry = {
            let mut journal = cx.store().journal.lock();
            journal.throttled = throttled;
            journal.set_durable(durable)
        };
        if retry {
            cx.zones().retry_all(cx.this);
        }
    }

    /// If there is room, what waited for it can go on.
    pub(super) fn unthrottle(&mut self, cx: Context<'_>) {
        let durable = cx.store().journal.lock().durable();
        self.free(cx, durable);
    }

    /// Writes up to [`BATCH`] entries with the changes from `next` to `end`. Returns the number of
    /// the first change that was not written.
    fn write_batch(
        &mut self,
        cx: Context<'_>,
        next: u64,
        end: u64,
        config: Option<Record>,
        barrier: bool,
        mut at: impl FnMut(u64, Position),
    ) -> Result<u64, Status> {
        let room = self.ring.free(self.superblock.tail, self.head);
        let entries = room.min(self.ring.contiguous(self.head)).min(BATCH as u64);
        if entries == 0 {
            // Throttling leaves enough room; this would be a mistake.
            return Err(Status::IO_ERROR);
        }
        let copied = cx.store().journal.lock().copy(next, &mut self.changes);
        let wanted = usize::try_from(end - next).unwrap_or(usize::MAX);
        let mut rest = self.changes.get(..copied.min(wanted)).unwrap_or(&[]);
        let mut config = config;
        let mut next = next;
        let mut count = 0;
        for sequence in self.head..self.head + entries {
            if rest.is_empty() && config.is_none() {
                break;
            }
            let place = count * ENTRY_BYTES;
            let block: &mut Block = self
                .buffer
                .get_mut(place..)
                .and_then(|rest| rest.first_chunk_mut())
                .ok_or(Status::IO_ERROR)?;
            let mut builder = EntryBuilder::new(block);
            if let Some(record) = config.take() {
                builder.push(&record);
            }
            while let Some((change, behind)) = rest.split_first() {
                let position = Position {
                    sequence,
                    index: builder.records(),
                };
                if !builder.push(&change.record()) {
                    break;
                }
                at(next, position);
                next += 1;
                rest = behind;
            }
            builder.seal(
                &self.superblock.uuid,
                self.superblock.epoch,
                sequence,
                self.head,
            );
            self.buffer
                .copy_within(place..place + BLOCK_BYTES, place + BLOCK_BYTES);
            count += 1;
        }
        let order = if barrier {
            SyncIo::Barrier
        } else {
            SyncIo::Durable
        };
        let sector = self.ring.sector_of(self.head);
        keeper::write(cx, sector, &mut self.buffer, count * ENTRY_BYTES, order)?;
        self.head += count as u64;
        Ok(next)
    }
}
