#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs in the guest: records a workload with dm-log-writes. /dev/vda is the device of zeros to be recorded, /dev/vdb
# takes the log, /dev/vdc, /dev/vdd and /dev/vde what the three runs of the workload did. SIZE and ROOM are the
# sectors of a drive and of what it needs below, REQUESTS what each of the threads does.
# shellcheck shell=sh
set -eu

mark() { dmsetup message log 0 mark "$1"; }
create() {
    dmsetup create t --noudevsync --table "0 $SIZE imrsim /dev/mapper/log 0 4 geometry 57 71 8"
    dmsetup mknodes t
}
run() {
    local ops=$1 first=$2 seed=$3
    shift 3
    crashtool write /dev/mapper/t --ops "$ops" --first "$first" --seed "$seed" --mark 'dmsetup message log 0 mark' \
        --requests "$REQUESTS" "$@"
}

dmsetup create log --noudevsync --table "0 $ROOM log-writes /dev/vda /dev/vdb"
dmsetup mknodes log
create
dmsetup remove --noudevsync t
mark formatted
iotool fill /dev/mapper/log --byte 0xa5 --count "$SIZE"
mark filled

create
run /dev/vdc 1 "$SEED" --threads 8
dmsetup suspend --noudevsync t
dmsetup resume --noudevsync t
dmsetup message t 0 allocation 3
# Its pieces, and discards, lie across the zones' borders.
run /dev/vdd 10000000 "$((SEED + 1))" --threads 4 --flushes 100 --durable 100 --longest 16 --piece 3072
dmsetup remove --noudevsync t
create
run /dev/vde 20000000 "$((SEED + 2))" --threads 8 --flushes 10 --durable 10 --discards 100
dmsetup status t
crashtool verify /dev/mapper/t --end 1 --ops /dev/vdc,/dev/vdd,/dev/vde
dmsetup remove --noudevsync t
mark end
dmsetup status log
dmsetup remove --noudevsync log
