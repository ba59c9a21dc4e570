/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What bindgen reads: the kernel's own Rust bindings do not include
 * device-mapper, so the module brings its own for it and for bios.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/random.h>
#include <linux/workqueue.h>

#include "helpers.h"

/* Values of anonymous or macro kind that bindgen cannot see by itself. */
static const blk_opf_t IMRSIM_REQ_OP_MASK = REQ_OP_MASK;
static const blk_opf_t IMRSIM_REQ_OP_READ = (__force blk_opf_t)REQ_OP_READ;
static const blk_opf_t IMRSIM_REQ_OP_WRITE = (__force blk_opf_t)REQ_OP_WRITE;
static const blk_opf_t IMRSIM_REQ_OP_DISCARD = (__force blk_opf_t)REQ_OP_DISCARD;
static const blk_opf_t IMRSIM_REQ_OP_FLUSH = (__force blk_opf_t)REQ_OP_FLUSH;
static const blk_opf_t IMRSIM_REQ_SYNC = (__force blk_opf_t)REQ_SYNC;
static const blk_opf_t IMRSIM_REQ_META = (__force blk_opf_t)REQ_META;
static const blk_opf_t IMRSIM_REQ_FUA = (__force blk_opf_t)REQ_FUA;
static const blk_opf_t IMRSIM_REQ_POLLED = (__force blk_opf_t)REQ_POLLED;
static const blk_opf_t IMRSIM_REQ_PREFLUSH = (__force blk_opf_t)REQ_PREFLUSH;
static const int IMRSIM_DM_MAPIO_SUBMITTED = DM_MAPIO_SUBMITTED;
static const int IMRSIM_DM_MAPIO_REMAPPED = DM_MAPIO_REMAPPED;
static const int IMRSIM_DM_MAPIO_KILL = DM_MAPIO_KILL;
static const int IMRSIM_DM_ENDIO_DONE = DM_ENDIO_DONE;
static const blk_status_t IMRSIM_BLK_STS_OK = BLK_STS_OK;
static const blk_status_t IMRSIM_BLK_STS_NOTSUPP = BLK_STS_NOTSUPP;
static const blk_status_t IMRSIM_BLK_STS_RESOURCE = BLK_STS_RESOURCE;
static const blk_status_t IMRSIM_BLK_STS_IOERR = BLK_STS_IOERR;
static const unsigned int IMRSIM_PAGE_SIZE = PAGE_SIZE;
static const unsigned int IMRSIM_SECTOR_SHIFT = SECTOR_SHIFT;
static const blk_mode_t IMRSIM_BLK_OPEN_WRITE = (__force blk_mode_t)BLK_OPEN_WRITE;
static const gfp_t IMRSIM_GFP_NOIO = GFP_NOIO;
static const gfp_t IMRSIM_GFP_NOWAIT = GFP_NOWAIT;
static const int IMRSIM_BIOSET_FLAGS = BIOSET_NEED_BVECS | BIOSET_PERCPU_CACHE;
