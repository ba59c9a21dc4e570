/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The trace events imrsim:*; docs/tracing.md is their documentation. Those with a zone are recorded
 * under its lock, so that within a zone their order by seq is that in which things happened.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM imrsim

#if !defined(IMRSIM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define IMRSIM_TRACE_H

#include <linux/kdev_t.h>
#include <linux/tracepoint.h>

#include "helpers.h"

/* So that tools that read the buffers know what their numbers are called. */
TRACE_DEFINE_ENUM(IMRSIM_OP_READ);
TRACE_DEFINE_ENUM(IMRSIM_OP_WRITE);
TRACE_DEFINE_ENUM(IMRSIM_OP_DISCARD);
TRACE_DEFINE_ENUM(IMRSIM_OP_RESET);

TRACE_EVENT_FN(map,
	TP_PROTO(dev_t dev, u64 seq, u64 zone, const struct imrsim_run *run),
	TP_ARGS(dev, seq, zone, run),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, bo)
		__field(u64, seq)
		__field(u64, zone)
		__field(s32, nbo)
		__field(u32, blocks)
		__field(u8, op)
		__field(u8, edges)
		__field(u8, more)
		__field(u8, crosses)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->seq = seq;
		__entry->zone = zone;
		__entry->bo = run->bo;
		__entry->nbo = run->nbo;
		__entry->blocks = run->blocks;
		__entry->op = run->op;
		__entry->edges = run->edges;
		__entry->more = run->more;
		__entry->crosses = run->crosses;
	),
	TP_printk("dev=%d:%d seq=%llu zone=%llu op=%s bo=%u nbo=%d blocks=%u edges=%u more=%u crosses=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->seq, __entry->zone,
		  __print_symbolic(__entry->op, { IMRSIM_OP_READ, "read" },
				   { IMRSIM_OP_WRITE, "write" }, { IMRSIM_OP_DISCARD, "discard" },
				   { IMRSIM_OP_RESET, "reset" }),
		  __entry->bo, __entry->nbo, __entry->blocks, __entry->edges, __entry->more,
		  __entry->crosses),
	imrsim_trace_on, imrsim_trace_off
);

DECLARE_EVENT_CLASS(imrsim_places,
	TP_PROTO(dev_t dev, u64 seq, u64 zone, u32 bo, u32 nbo, u32 blocks),
	TP_ARGS(dev, seq, zone, bo, nbo, blocks),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, bo)
		__field(u64, seq)
		__field(u64, zone)
		__field(u32, nbo)
		__field(u32, blocks)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->seq = seq;
		__entry->zone = zone;
		__entry->bo = bo;
		__entry->nbo = nbo;
		__entry->blocks = blocks;
	),
	TP_printk("dev=%d:%d seq=%llu zone=%llu bo=%u nbo=%u blocks=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->seq, __entry->zone,
		  __entry->bo, __entry->nbo, __entry->blocks)
);

DEFINE_EVENT_FN(imrsim_places, alloc,
	TP_PROTO(dev_t dev, u64 seq, u64 zone, u32 bo, u32 nbo, u32 blocks),
	TP_ARGS(dev, seq, zone, bo, nbo, blocks),
	imrsim_trace_on, imrsim_trace_off
);

DEFINE_EVENT_FN(imrsim_places, alloc_failed,
	TP_PROTO(dev_t dev, u64 seq, u64 zone, u32 bo, u32 nbo, u32 blocks),
	TP_ARGS(dev, seq, zone, bo, nbo, blocks),
	imrsim_trace_on, imrsim_trace_off
);

TRACE_EVENT_FN(rmw_start,
	TP_PROTO(dev_t dev, u64 seq, u64 zone, const struct imrsim_rmw *rmw),
	TP_ARGS(dev, seq, zone, rmw),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, nbo)
		__field(u64, seq)
		__field(u64, zone)
		__field(u32, blocks)
		__field(u32, first0)
		__field(u64, mask0)
		__field(u64, mask1)
		__field(u32, first1)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->seq = seq;
		__entry->zone = zone;
		__entry->nbo = rmw->nbo;
		__entry->blocks = rmw->blocks;
		__entry->first0 = rmw->first[0];
		__entry->mask0 = rmw->mask[0];
		__entry->first1 = rmw->first[1];
		__entry->mask1 = rmw->mask[1];
	),
	TP_printk("dev=%d:%d seq=%llu zone=%llu nbo=%u blocks=%u first0=%u mask0=0x%llx first1=%u mask1=0x%llx",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->seq, __entry->zone,
		  __entry->nbo, __entry->blocks, __entry->first0, __entry->mask0,
		  __entry->first1, __entry->mask1),
	imrsim_trace_on, imrsim_trace_off
);

TRACE_EVENT_FN(rmw_done,
	TP_PROTO(dev_t dev, u64 seq, u64 zone, u32 nbo, bool ok),
	TP_ARGS(dev, seq, zone, nbo, ok),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, nbo)
		__field(u64, seq)
		__field(u64, zone)
		__field(bool, ok)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->seq = seq;
		__entry->zone = zone;
		__entry->nbo = nbo;
		__entry->ok = ok;
	),
	TP_printk("dev=%d:%d seq=%llu zone=%llu nbo=%u ok=%d",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->seq, __entry->zone,
		  __entry->nbo, __entry->ok),
	imrsim_trace_on, imrsim_trace_off
);

TRACE_EVENT_FN(unmap,
	TP_PROTO(dev_t dev, u64 seq, u64 zone, u32 bo, u32 blocks),
	TP_ARGS(dev, seq, zone, bo, blocks),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, bo)
		__field(u64, seq)
		__field(u64, zone)
		__field(u32, blocks)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->seq = seq;
		__entry->zone = zone;
		__entry->bo = bo;
		__entry->blocks = blocks;
	),
	TP_printk("dev=%d:%d seq=%llu zone=%llu bo=%u blocks=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->seq, __entry->zone,
		  __entry->bo, __entry->blocks),
	imrsim_trace_on, imrsim_trace_off
);

TRACE_EVENT_FN(counters_reset,
	TP_PROTO(dev_t dev, u64 seq, u64 zone),
	TP_ARGS(dev, seq, zone),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, seq)
		__field(u64, zone)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->seq = seq;
		__entry->zone = zone;
	),
	TP_printk("dev=%d:%d seq=%llu zone=%llu", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->seq, __entry->zone),
	imrsim_trace_on, imrsim_trace_off
);

TRACE_EVENT_FN(snapshot,
	TP_PROTO(dev_t dev, u64 seq, u64 zone, u64 cookie),
	TP_ARGS(dev, seq, zone, cookie),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, seq)
		__field(u64, zone)
		__field(u64, cookie)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->seq = seq;
		__entry->zone = zone;
		__entry->cookie = cookie;
	),
	TP_printk("dev=%d:%d seq=%llu zone=%llu cookie=%llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->seq, __entry->zone, __entry->cookie),
	imrsim_trace_on, imrsim_trace_off
);

TRACE_EVENT_FN(commit,
	TP_PROTO(dev_t dev, u64 seq, u64 changes),
	TP_ARGS(dev, seq, changes),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, seq)
		__field(u64, changes)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->seq = seq;
		__entry->changes = changes;
	),
	TP_printk("dev=%d:%d seq=%llu changes=%llu", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->seq, __entry->changes),
	imrsim_trace_on, imrsim_trace_off
);

TRACE_EVENT_FN(strategy,
	TP_PROTO(dev_t dev, u64 seq, u32 phases),
	TP_ARGS(dev, seq, phases),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, phases)
		__field(u64, seq)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->seq = seq;
		__entry->phases = phases;
	),
	TP_printk("dev=%d:%d seq=%llu phases=%u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->seq, __entry->phases),
	imrsim_trace_on, imrsim_trace_off
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE imrsim_trace
#include <trace/define_trace.h>
