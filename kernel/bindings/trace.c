// SPDX-License-Identifier: GPL-2.0-only

#include <linux/atomic.h>

#define CREATE_TRACE_POINTS
#include "imrsim_trace.h"

/*
 * How many events somebody listens to. Rust looks at this one number where it would have to look at
 * the static key of each event, which it cannot do outside of the kernel's own crate.
 */
int imrsim_trace_users;

/* Events are switched on and off one at a time, under a lock of the kernel's. */
int imrsim_trace_on(void)
{
	WRITE_ONCE(imrsim_trace_users, imrsim_trace_users + 1);
	return 0;
}

void imrsim_trace_off(void)
{
	WRITE_ONCE(imrsim_trace_users, imrsim_trace_users - 1);
}

/* One order for the events of all CPUs. Clocks alone do not give one. */
static u64 next_seq(void)
{
	static atomic64_t seq = ATOMIC64_INIT(0);

	return atomic64_inc_return(&seq);
}

/*
 * Whether somebody listens to an event: its key as a number. As a branch that the kernel patches, it could
 * be executed while that is done, as imrsim_trace_on() comes first; emulators do not always survive that.
 */
#ifdef CONFIG_TRACEPOINTS
#define IS_ON(event) static_key_enabled(&__tracepoint_##event.key)
#else
#define IS_ON(event) false
#endif

#define EMIT(event, ...)							\
	do {									\
		if (IS_ON(event))						\
			trace_call__##event(dev, next_seq(), ##__VA_ARGS__);	\
	} while (0)

void imrsim_trace_map(dev_t dev, u64 zone, const struct imrsim_run *run)
{
	EMIT(map, zone, run);
}

void imrsim_trace_alloc(dev_t dev, u64 zone, u32 bo, u32 nbo, u32 blocks)
{
	EMIT(alloc, zone, bo, nbo, blocks);
}

void imrsim_trace_alloc_failed(dev_t dev, u64 zone, u32 bo, u32 nbo, u32 blocks)
{
	EMIT(alloc_failed, zone, bo, nbo, blocks);
}

void imrsim_trace_rmw_start(dev_t dev, u64 zone, const struct imrsim_rmw *rmw)
{
	EMIT(rmw_start, zone, rmw);
}

void imrsim_trace_rmw_done(dev_t dev, u64 zone, u32 nbo, bool ok)
{
	EMIT(rmw_done, zone, nbo, ok);
}

void imrsim_trace_unmap(dev_t dev, u64 zone, u32 bo, u32 blocks)
{
	EMIT(unmap, zone, bo, blocks);
}

void imrsim_trace_counters_reset(dev_t dev, u64 zone)
{
	EMIT(counters_reset, zone);
}

void imrsim_trace_snapshot(dev_t dev, u64 zone, u64 cookie)
{
	EMIT(snapshot, zone, cookie);
}

void imrsim_trace_commit(dev_t dev, u64 changes)
{
	EMIT(commit, changes);
}

void imrsim_trace_strategy(dev_t dev, u32 phases)
{
	EMIT(strategy, phases);
}
