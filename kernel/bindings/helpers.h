/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions for Rust that the kernel offers only as macros, inline functions
 * or with a variable number of arguments.
 */
#ifndef IMRSIM_HELPERS_H
#define IMRSIM_HELPERS_H

#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/percpu-refcount.h>
#include <linux/spinlock.h>
#include <linux/version.h>
#include <linux/workqueue.h>

struct mapped_device;

struct workqueue_struct *imrsim_alloc_workqueue(const char *name);
void imrsim_init_work(struct work_struct *work, work_func_t func);
bool imrsim_queue_work(struct workqueue_struct *wq, struct work_struct *work);

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 3, 0)
/* For kernel/dm/compat.rs. */
void imrsim_spin_lock_init(spinlock_t *lock, const char *name, struct lock_class_key *key);
unsigned long imrsim_spin_lock_irqsave(spinlock_t *lock);
bool imrsim_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags);
void imrsim_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags);
void imrsim_spin_assert_held(spinlock_t *lock);
#endif

void imrsim_bio_set_dev(struct bio *bio, struct block_device *bdev);
sector_t imrsim_bdev_nr_sectors(struct block_device *bdev);
unsigned int imrsim_bdev_logical_block_size(struct block_device *bdev);
bool imrsim_bdev_read_only(struct block_device *bdev);

struct page *imrsim_alloc_page(bool may_sleep);
void imrsim_free_page(struct page *page);
struct page *imrsim_page_next(struct page *page);
void imrsim_set_page_next(struct page *page, struct page *next);
void imrsim_clear_page(struct page *page);
void imrsim_bio_copy_to_page(struct bio *bio, unsigned int skip, unsigned int len,
			     struct page *page, unsigned int offset);

void *imrsim_alloc_buffer(unsigned int order);
void imrsim_free_buffer(void *buffer, unsigned int order);
blk_status_t imrsim_rw(struct block_device *bdev, sector_t sector, void *data, unsigned int len,
		       blk_opf_t opf);

/* One of the reads of imrsim_read_all(): what is read where, and how it ended. */
struct imrsim_read {
	sector_t sector;
	void *data;
	unsigned int len;
	blk_status_t status;
	struct imrsim_reading *reading;
};

void imrsim_read_all(struct block_device *bdev, struct bio_set *bios, struct imrsim_read *reads,
		     unsigned int count, blk_opf_t opf);

void imrsim_zero_fill(struct bio *bio, unsigned int skip, unsigned int len);

struct task_struct *imrsim_thread_start(int (*func)(void *), void *data, const char *name);
void imrsim_thread_stop(struct task_struct *task);
bool imrsim_thread_should_stop(void);
void imrsim_thread_wake(struct task_struct *task);
void imrsim_thread_wait(const int *wanted, unsigned int milliseconds);

struct imrsim_users {
	struct percpu_ref count;
	struct completion none;
};

int imrsim_users_init(struct imrsim_users *users);
void imrsim_users_get(struct imrsim_users *users);
void imrsim_users_put(struct imrsim_users *users);
void imrsim_users_wait(struct imrsim_users *users);
void imrsim_users_exit(struct imrsim_users *users);

/* A timer that calls func with the data of the last start, in a soft interrupt. */
struct imrsim_timer {
	struct hrtimer timer;
	void (*func)(void *data);
	void *data;
};

void imrsim_timer_init(struct imrsim_timer *timer, void (*func)(void *data));
void imrsim_timer_start(struct imrsim_timer *timer, u64 at, void *data);
void imrsim_timer_cancel(struct imrsim_timer *timer);

u64 imrsim_now(void);
u64 imrsim_busy_us(struct block_device *bdev);
struct block_device *imrsim_md_bdev(struct mapped_device *md);
bool imrsim_may_log(void);

unsigned int imrsim_noio_save(void);
void imrsim_noio_restore(unsigned int flags);

/* What runs of requests do, in trace events. */
enum imrsim_op {
	IMRSIM_OP_READ,
	IMRSIM_OP_WRITE,
	IMRSIM_OP_DISCARD,
	IMRSIM_OP_RESET,
};

/* A run of a request: nbo is -1 if it finds nothing, edges how many of its ends lie inside a block. */
struct imrsim_run {
	u32 bo;
	s32 nbo;
	u32 blocks;
	enum imrsim_op op;
	u32 edges;
	bool more;
	bool crosses;
};

/* A run of bottom blocks, and the top blocks first[i] + j for each bit j of mask[i] that are saved. */
struct imrsim_rmw {
	u32 nbo;
	u32 blocks;
	u32 first[2];
	u64 mask[2];
};

extern int imrsim_trace_users;

int imrsim_trace_on(void);
void imrsim_trace_off(void);
void imrsim_trace_map(dev_t dev, u64 zone, const struct imrsim_run *run);
void imrsim_trace_alloc(dev_t dev, u64 zone, u32 bo, u32 nbo, u32 blocks);
void imrsim_trace_alloc_failed(dev_t dev, u64 zone, u32 bo, u32 nbo, u32 blocks);
void imrsim_trace_rmw_start(dev_t dev, u64 zone, const struct imrsim_rmw *rmw);
void imrsim_trace_rmw_done(dev_t dev, u64 zone, u32 nbo, bool ok);
void imrsim_trace_unmap(dev_t dev, u64 zone, u32 bo, u32 blocks);
void imrsim_trace_counters_reset(dev_t dev, u64 zone);
void imrsim_trace_snapshot(dev_t dev, u64 zone, u64 cookie);
void imrsim_trace_commit(dev_t dev, u64 changes);
void imrsim_trace_strategy(dev_t dev, u32 phases);

dev_t imrsim_md_dev(struct mapped_device *md);

bool imrsim_may_submit(void);
bool imrsim_capable_sys_admin(void);

#endif
