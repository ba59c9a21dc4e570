/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shows what an IMRSim device is and what it did, by the ioctls alone: an example for programs in C.
 *
 *   imrsim_util generate header imrsim.h
 *   cc -std=c99 -Wall -I . -o imrsim_info imrsim_info.c
 *   ./imrsim_info /dev/mapper/imrsim
 *
 * Prints lines of a name and a value. Exit code 0: done; 1: the device refused; 2: no device was given.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "imrsim.h"


/* A zeroed struct with its version and its size. */
#define BEGIN(request)                                                                                       \
	do {                                                                                                 \
		memset(&(request), 0, sizeof(request));                                                      \
		(request).version = IMRSIM_VERSION;                                                          \
		(request).size = sizeof(request);                                                            \
	} while (0)

static int device;

static int ask(unsigned long number, const char *name, void *request)
{
	if (ioctl(device, number, request) == 0)
		return 0;
	fprintf(stderr, "imrsim_info: %s: %s\n", name, strerror(errno));
	return -1;
}

static int show_config(struct imrsim_config *config)
{
	BEGIN(*config);
	if (ask(IMRSIM_GET_CONFIG, "GET_CONFIG", config))
		return -1;
	printf("zones %llu\n", (unsigned long long)config->zones);
	printf("zone_sectors %llu\n", (unsigned long long)config->zone_sectors);
	printf("data_sectors %llu\n", (unsigned long long)config->data_sectors);
	printf("geometry %u,%u,%u\n", config->top_blocks, config->bottom_blocks, config->groups);
	printf("phases %u\n", config->phases);
	printf("mapped_blocks %llu\n", (unsigned long long)config->mapped_blocks);
	printf("total_blocks %llu\n", (unsigned long long)config->total_blocks);
	return 0;
}

/* Every setting the device has, also those that the header does not know. */
static int show_settings(const struct imrsim_config *config)
{
	struct imrsim_setting_value setting;
	__u32 number;

	for (number = 0; number < config->settings; number++) {
		BEGIN(setting);
		setting.setting = number;
		if (ask(IMRSIM_GET_SETTING, "GET_SETTING", &setting))
			return -1;
		printf("setting_%u %u\n", number, setting.value);
	}
	return 0;
}

static int show_statistics(void)
{
	struct imrsim_statistics statistics;
	__u64 host, extra;
	__u32 number;

	BEGIN(statistics);
	statistics.zone = IMRSIM_ALL_ZONES;
	if (ask(IMRSIM_GET_STATISTICS, "GET_STATISTICS", &statistics))
		return -1;
	for (number = 0; number < statistics.indicator_count && number < IMRSIM_INDICATOR_COUNT; number++)
		printf("indicator_%u %llu\n", number, (unsigned long long)statistics.indicators[number]);
	host = statistics.indicators[IMRSIM_INDICATOR_HOST_WRITE_BLOCKS];
	extra = statistics.indicators[IMRSIM_INDICATOR_EXTRA_WRITE_BLOCKS];
	if (host > 0)
		printf("write_amplification %.6f\n", (double)(host + extra) / (double)host);
	return 0;
}

static const char *condition_name(__u32 condition)
{
	switch (condition) {
	case IMRSIM_CONDITION_NORMAL:
		return "normal";
	case IMRSIM_CONDITION_READ_ONLY:
		return "read-only";
	case IMRSIM_CONDITION_OFFLINE:
		return "offline";
	default:
		return "unknown";
	}
}

static int show_zones(const struct imrsim_config *config)
{
	struct imrsim_zone_report report;
	__u64 next = 0;
	__u32 i;

	while (next < config->zones) {
		BEGIN(report);
		report.next = next;
		report.count = IMRSIM_MAX_REPORT;
		report.filter = IMRSIM_FILTER_ALL;
		if (ask(IMRSIM_REPORT_ZONES, "REPORT_ZONES", &report))
			return -1;
		for (i = 0; i < report.count && i < IMRSIM_MAX_REPORT; i++) {
			const __u64 *words = &report.zones[i * IMRSIM_ENTRY_WORDS];

			printf("zone_%llu mapped %u of %u, %s\n", (unsigned long long)words[0],
			       (__u32)(words[1] & 0xffffffffU), report.zone_blocks,
			       condition_name((__u32)(words[2] >> 32)));
		}
		if (report.next <= next)
			break;
		next = report.next;
	}
	return 0;
}

/* Without IMRSIM_CLEAR_*, which needs rights, nothing is forgotten. */
static int show_errors(void)
{
	struct imrsim_errors errors;

	BEGIN(errors);
	if (ask(IMRSIM_GET_ERRORS, "GET_ERRORS", &errors))
		return -1;
	printf("read_cause %u\nwrite_cause %u\n", errors.read_cause, errors.write_cause);
	return 0;
}

static int show_latency(const struct imrsim_config *config)
{
	struct imrsim_latency latency;
	__u32 kind;

	for (kind = 0; kind < config->latency_kinds; kind++) {
		BEGIN(latency);
		latency.kind = kind;
		if (ask(IMRSIM_GET_LATENCY, "GET_LATENCY", &latency))
			return -1;
		printf("latency_%u requests %llu, %llu ns\n", kind, (unsigned long long)latency.requests,
		       (unsigned long long)latency.nanoseconds);
	}
	return 0;
}

static unsigned int count_bits(const unsigned char *bytes, size_t len)
{
	unsigned int count = 0;
	size_t i;

	for (i = 0; i < 8 * len; i++)
		count += bytes[i / 8] >> i % 8 & 1;
	return count;
}

/* The mapping of a zone follows the struct: places, and bits of what is mapped and of what is used. */
static int show_snapshot(__u64 zone)
{
	struct imrsim_zone_snapshot *snapshot, question;
	const unsigned char *mapped;
	size_t table, bits;
	int failed;

	BEGIN(question);
	question.zone = zone;
	if (ask(IMRSIM_GET_SNAPSHOT, "GET_SNAPSHOT", &question))
		return -1;
	snapshot = malloc(sizeof(question) + question.mapping_bytes);
	if (!snapshot)
		return -1;
	BEGIN(*snapshot);
	snapshot->zone = zone;
	snapshot->mapping_bytes = question.mapping_bytes;
	failed = ask(IMRSIM_GET_SNAPSHOT, "GET_SNAPSHOT", snapshot);
	if (!failed) {
		table = (2 * (size_t)snapshot->zone_blocks + 7) / 8 * 8;
		bits = (snapshot->zone_blocks + 63) / 64 * 8;
		mapped = (const unsigned char *)(snapshot + 1) + table;
		printf("snapshot_%llu mapped %u and %u, used %u\n", (unsigned long long)zone,
		       snapshot->mapped_blocks, count_bits(mapped, bits), count_bits(mapped + bits, bits));
	}
	free(snapshot);
	return failed;
}

static int show_snapshots(const struct imrsim_config *config)
{
	__u64 zone;

	for (zone = 0; zone < config->zones; zone++) {
		if (show_snapshot(zone))
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct imrsim_config config;
	int failed;

	if (argc != 2) {
		fprintf(stderr, "usage: imrsim_info DEVICE\nexample: imrsim_info /dev/mapper/imrsim\n");
		return 2;
	}
	device = open(argv[1], O_RDONLY);
	if (device < 0) {
		fprintf(stderr, "imrsim_info: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	failed = show_config(&config) || show_settings(&config) || show_statistics() || show_zones(&config) ||
		 show_errors() || show_latency(&config) || show_snapshots(&config);
	close(device);
	return failed ? 1 : 0;
}
