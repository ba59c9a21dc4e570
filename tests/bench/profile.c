// SPDX-License-Identifier: GPL-2.0-only
/*
 * A QEMU plugin for scripts/profile: counts how often each translated block of guest code is executed.
 * Whenever the guest executes the instruction at `trigger`, the counts so far are written to `out` and
 * start again from zero:
 *
 *   phase <number>
 *   <address, hexadecimal> <instructions in the block> <how often>
 *
 * The few declarations of QEMU's qemu-plugin.h (version 1) that are needed are repeated here, because
 * the header is not part of QEMU's packages.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
enum { ADD_U64 = 0, NO_REGISTERS = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*cb)(uint64_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *ptr, uint64_t imm);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, void (*cb)(unsigned int, void *),
					    int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

EXPORT int qemu_plugin_version = 1;

struct block {
	uint64_t address;
	uint64_t instructions;
	uint64_t count;
	struct block *next;
};

/* Blocks stay where they are: QEMU's code adds to their counts. */
static struct block *buckets[1 << 16];
static uint64_t trigger;
static unsigned int phase;
static FILE *out;

static struct block *find(uint64_t address, uint64_t instructions)
{
	struct block **bucket = &buckets[(address * 0x9E3779B97F4A7C15u) >> 48];
	struct block *block;

	for (block = *bucket; block; block = block->next)
		if (block->address == address && block->instructions == instructions)
			return block;
	block = calloc(1, sizeof(*block));
	if (!block)
		abort();
	block->address = address;
	block->instructions = instructions;
	block->next = *bucket;
	*bucket = block;
	return block;
}

static void triggered(unsigned int cpu, void *data)
{
	struct block *block;

	(void)cpu;
	(void)data;
	fprintf(out, "phase %u\n", phase++);
	for (size_t i = 0; i < sizeof(buckets) / sizeof(buckets[0]); i++)
		for (block = buckets[i]; block; block = block->next) {
			if (block->count)
				fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", block->address,
					block->instructions, block->count);
			block->count = 0;
		}
	fflush(out);
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t instructions = qemu_plugin_tb_n_insns(tb);
	uint64_t address = qemu_plugin_tb_vaddr(tb);

	(void)id;
	/* Of user space it is enough to know that it is. */
	if (!(address >> 63))
		address = 0;
	qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_U64, &find(address, instructions)->count, 1);
	for (size_t i = 0; i < instructions; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_vaddr(insn) == trigger)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, triggered, NO_REGISTERS, NULL);
	}
}

EXPORT int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "trigger=", 8))
			trigger = strtoull(argv[i] + 8, NULL, 16);
		else if (!strncmp(argv[i], "out=", 4))
			out = fopen(argv[i] + 4, "w");
	}
	if (!out || !trigger)
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
