// SPDX-License-Identifier: GPL-2.0-only

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/capability.h>
#include <linux/completion.h>
#include <linux/device-mapper.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/kthread.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/part_stat.h>
#include <linux/ratelimit.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>

#include "helpers.h"

/*
 * WQ_MEM_RECLAIM: writes make progress when memory is short, which is when
 * the page cache needs them most.
 */
struct workqueue_struct *imrsim_alloc_workqueue(const char *name)
{
	return alloc_workqueue("%s", WQ_MEM_RECLAIM | WQ_PERCPU, 0, name);
}

void imrsim_init_work(struct work_struct *work, work_func_t func)
{
	INIT_WORK(work, func);
}

bool imrsim_queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	return queue_work(wq, work);
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 3, 0)
/* All locks are initialised here; lockdep is told which is which by their keys. */
void imrsim_spin_lock_init(spinlock_t *lock, const char *name, struct lock_class_key *key)
{
	spin_lock_init(lock);
	lockdep_set_class_and_name(lock, key, name);
}

unsigned long imrsim_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

bool imrsim_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}

void imrsim_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

void imrsim_spin_assert_held(spinlock_t *lock)
{
	lockdep_assert_held(lock);
}
#endif

void imrsim_bio_set_dev(struct bio *bio, struct block_device *bdev)
{
	bio_set_dev(bio, bdev);
}

sector_t imrsim_bdev_nr_sectors(struct block_device *bdev)
{
	return bdev_nr_sectors(bdev);
}

unsigned int imrsim_bdev_logical_block_size(struct block_device *bdev)
{
	return bdev_logical_block_size(bdev);
}

bool imrsim_bdev_read_only(struct block_device *bdev)
{
	return bdev_read_only(bdev);
}

/* Without may_sleep the caller has a reserve to fall back on. */
struct page *imrsim_alloc_page(bool may_sleep)
{
	return alloc_page(may_sleep ? GFP_KERNEL : GFP_NOWAIT | __GFP_NOWARN);
}

void imrsim_free_page(struct page *page)
{
	__free_page(page);
}

/* Pages that one owner holds are chained through their private field. */
struct page *imrsim_page_next(struct page *page)
{
	return (struct page *)page_private(page);
}

void imrsim_set_page_next(struct page *page, struct page *next)
{
	set_page_private(page, (unsigned long)next);
}

void imrsim_clear_page(struct page *page)
{
	clear_highpage(page);
}

/*
 * Copies len bytes of what the bio carries, from skip bytes after its start, to byte offset of the
 * page; as much as there is and fits.
 */
void imrsim_bio_copy_to_page(struct bio *bio, unsigned int skip, unsigned int len,
			     struct page *page, unsigned int offset)
{
	struct bvec_iter start = bio->bi_iter;
	struct bvec_iter iter;
	struct bio_vec bv;
	char *to;

	if (offset >= PAGE_SIZE || skip >= start.bi_size)
		return;
	bio_advance_iter(bio, &start, skip);
	start.bi_size = min3(start.bi_size, len, (unsigned int)PAGE_SIZE - offset);
	to = kmap_local_page(page);
	__bio_for_each_segment(bv, bio, iter, start) {
		memcpy_from_bvec(to + offset, &bv);
		offset += bv.bv_len;
	}
	kunmap_local(to);
}

/* Fills len bytes of what a read bio is to carry, from skip bytes after its start, with zeros. */
void imrsim_zero_fill(struct bio *bio, unsigned int skip, unsigned int len)
{
	struct bvec_iter start = bio->bi_iter;
	struct bvec_iter iter;
	struct bio_vec bv;

	if (skip >= start.bi_size)
		return;
	bio_advance_iter(bio, &start, skip);
	start.bi_size = min(start.bi_size, len);
	__bio_for_each_segment(bv, bio, iter, start)
		memzero_bvec(&bv);
}

/* Who gets none says so himself, or does with less. */
void *imrsim_alloc_buffer(unsigned int order)
{
	return (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN, order);
}

void imrsim_free_buffer(void *buffer, unsigned int order)
{
	free_pages((unsigned long)buffer, order);
}

/* Reads or writes a buffer of imrsim_alloc_buffer() and waits for it. Allocates nothing. */
blk_status_t imrsim_rw(struct block_device *bdev, sector_t sector, void *data, unsigned int len,
		       blk_opf_t opf)
{
	struct bio_vec bv;
	struct bio bio;
	blk_status_t status;

	bio_init(&bio, bdev, &bv, len ? 1 : 0, opf);
	bio.bi_iter.bi_sector = sector;
	if (len)
		__bio_add_page(&bio, virt_to_page(data), len, offset_in_page(data));
	submit_bio_wait(&bio);
	status = bio.bi_status;
	bio_uninit(&bio);
	return status;
}

/* The reads that are under way, and one for the reads that are not started yet. */
struct imrsim_reading {
	atomic_t count;
	struct completion none;
};

static void imrsim_reading_put(struct imrsim_reading *reading)
{
	if (atomic_dec_and_test(&reading->count))
		complete(&reading->none);
}

static void imrsim_read_end(struct bio *bio)
{
	struct imrsim_read *read = bio->bi_private;

	read->status = bio->bi_status;
	bio_put(bio);
	imrsim_reading_put(read->reading);
}

/*
 * Reads into several buffers of imrsim_alloc_buffer(), or parts of them, at the same time, and waits
 * for all. Each read has a status of its own. The bios come from the caller's set, as others may
 * hold those of the common one while they wait for us; none is held while the next one is waited for.
 */
void imrsim_read_all(struct block_device *bdev, struct bio_set *bios, struct imrsim_read *reads,
		     unsigned int count, blk_opf_t opf)
{
	struct imrsim_reading reading = { .count = ATOMIC_INIT(1) };
	struct blk_plug plug;
	struct bio *bio;
	unsigned int i;

	init_completion(&reading.none);
	blk_start_plug(&plug);
	for (i = 0; i < count; i++) {
		bio = bio_alloc_bioset(bdev, 1, opf, GFP_NOIO, bios);
		bio->bi_iter.bi_sector = reads[i].sector;
		bio->bi_private = &reads[i];
		bio->bi_end_io = imrsim_read_end;
		__bio_add_page(bio, virt_to_page(reads[i].data), reads[i].len,
			       offset_in_page(reads[i].data));
		reads[i].reading = &reading;
		atomic_inc(&reading.count);
		submit_bio(bio);
	}
	blk_finish_plug(&plug);
	imrsim_reading_put(&reading);
	wait_for_completion_io(&reading.none);
}

struct task_struct *imrsim_thread_start(int (*func)(void *), void *data, const char *name)
{
	struct task_struct *task = kthread_run(func, data, "%s", name);

	return IS_ERR(task) ? NULL : task;
}

void imrsim_thread_stop(struct task_struct *task)
{
	kthread_stop(task);
}

bool imrsim_thread_should_stop(void)
{
	return kthread_should_stop();
}

void imrsim_thread_wake(struct task_struct *task)
{
	wake_up_process(task);
}

/*
 * Called by the thread: sleeps until it is woken with *wanted set, is to stop, or the time is up.
 * Whoever sets *wanted wakes the thread afterwards.
 */
void imrsim_thread_wait(const int *wanted, unsigned int milliseconds)
{
	set_current_state(TASK_IDLE);
	if (!READ_ONCE(*wanted) && !kthread_should_stop())
		schedule_timeout(msecs_to_jiffies(milliseconds));
	__set_current_state(TASK_RUNNING);
}

static void imrsim_users_none(struct percpu_ref *count)
{
	complete(&container_of(count, struct imrsim_users, count)->none);
}

int imrsim_users_init(struct imrsim_users *users)
{
	init_completion(&users->none);
	return percpu_ref_init(&users->count, imrsim_users_none, 0, GFP_KERNEL);
}

void imrsim_users_get(struct imrsim_users *users)
{
	percpu_ref_get(&users->count);
}

void imrsim_users_put(struct imrsim_users *users)
{
	percpu_ref_put(&users->count);
}

/* Waits until nobody is there any more; nobody may come from now on. */
void imrsim_users_wait(struct imrsim_users *users)
{
	percpu_ref_kill(&users->count);
	wait_for_completion(&users->none);
}

void imrsim_users_exit(struct imrsim_users *users)
{
	percpu_ref_exit(&users->count);
}

static enum hrtimer_restart imrsim_timer_expired(struct hrtimer *timer)
{
	struct imrsim_timer *it = container_of(timer, struct imrsim_timer, timer);

	it->func(it->data);
	return HRTIMER_NORESTART;
}

void imrsim_timer_init(struct imrsim_timer *timer, void (*func)(void *data))
{
	hrtimer_setup(&timer->timer, imrsim_timer_expired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	timer->func = func;
	timer->data = NULL;
}

/* Starts the timer for another moment of imrsim_now(), or moves it there. Callers take turns. */
void imrsim_timer_start(struct imrsim_timer *timer, u64 at, void *data)
{
	timer->data = data;
	hrtimer_start(&timer->timer, ns_to_ktime(at), HRTIMER_MODE_ABS_SOFT);
}

/* The function does not run any more when this returns. */
void imrsim_timer_cancel(struct imrsim_timer *timer)
{
	hrtimer_cancel(&timer->timer);
}

/* Nanoseconds since the machine was started; never 0. */
u64 imrsim_now(void)
{
	return ktime_get_ns() | 1;
}

/* How long there was a request under way at a device so far, as far as the block layer knows. */
u64 imrsim_busy_us(struct block_device *bdev)
{
	return jiffies_to_usecs(part_stat_read(bdev, io_ticks));
}

struct block_device *imrsim_md_bdev(struct mapped_device *md)
{
	return dm_disk(md)->part0;
}

dev_t imrsim_md_dev(struct mapped_device *md)
{
	return disk_devt(dm_disk(md));
}

/* Whether another error may be logged: ten in five seconds. */
bool imrsim_may_log(void)
{
	static DEFINE_RATELIMIT_STATE(limit, 5 * HZ, 10);

	return __ratelimit(&limit);
}

unsigned int imrsim_noio_save(void)
{
	return memalloc_noio_save();
}

void imrsim_noio_restore(unsigned int flags)
{
	memalloc_noio_restore(flags);
}

/*
 * Whether a bio can be submitted here, in a completion: only where somebody submits one himself, so
 * that ours waits in his list, and where nothing forbids to sleep, which submission asks for though
 * it will not. A kernel that does not count preemption cannot tell; there the answer is no.
 */
bool imrsim_may_submit(void)
{
	return in_task() && current->bio_list && preemptible() && !rcu_preempt_depth();
}

bool imrsim_capable_sys_admin(void)
{
	return capable(CAP_SYS_ADMIN);
}
