#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs in the guest: checks what earlier rounds were promised, then writes until the power fails. /dev/vda has the
# drive of SIZE sectors; FIRST is the time this round begins with, /known what the rounds before have printed.
# shellcheck shell=sh
set -eu

dmsetup create t --noudevsync --table "0 $SIZE imrsim /dev/vda 0 4 geometry 57 71 8"
dmsetup mknodes t
dmsetup status t
crashtool verify /dev/mapper/t --open 1 --round 10000000 --ops /known
echo "verified"
if [ "$FIRST" = 0 ]; then
    dmsetup remove --noudevsync t
    exit
fi
# What nobody flushes must not disturb: fio beside it, on the last zone, with its own checks.
(
    while true; do
        fio --output=/tmp/fio --thread --name=beside --filename=/dev/mapper/t --offset=$((SIZE / 2 * 512)) --size=4m \
            --rw=randwrite --bsrange=512-64k --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c --verify_fatal=1 \
            --fsync=16 --randseed="$FIRST" >/dev/null 2>&1 || { echo "fio: $(grep -m1 verify: /tmp/fio)"; break; }
    done
) &
crashtool write /dev/mapper/t --print 1 --first "$FIRST" --seed "$FIRST" --threads 6 --requests 1000000 --seconds 120 \
    --count $((SIZE / 2)) --flushes 100 --durable 100 --discards 0
