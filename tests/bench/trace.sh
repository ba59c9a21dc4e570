# SPDX-License-Identifier: GPL-2.0-only
# What trace events cost when they are on, in turns with the same when they are off, and with dm-linear.
# shellcheck shell=sh

events=/sys/kernel/tracing/events/imrsim/enable
# As imrsim_util record has it.
echo norecord-cmd >/sys/kernel/tracing/trace_options
dm_create lin "0 $ZONE_SECTORS linear /dev/ram1 0"

# on_and_off CASE ARG...
on_and_off() {
    local case=$1 on
    shift
    point trace "$case" linear /dev/mapper/lin 32 1 "$@"
    for on in 0 1; do
        echo $on >$events
        # shellcheck disable=SC2086
        point trace "$case" "$([ $on = 0 ] && echo off || echo on)" /dev/mapper/imr 32 1 "$@"
    done
    echo 0 >$events
}

fresh imr /dev/ram2
fill /dev/mapper/imr 0 $ZONE_MIB
for SEED in $(seq 1 "$ROUNDS"); do
    note "round $SEED, events off and on"
    bottoms=$(area 0 $((63 * TRACK_BYTES)) 1)
    tops=$(area "$(mib $BOTTOM_MIB)" "$(mib $((ZONE_MIB - BOTTOM_MIB)))" 1)
    few="--norandommap --bs=4k --number_ios=$IOS"
    on_and_off read --rw=randread $few "$(area 0 "$(mib $ZONE_MIB)" 1)"
    on_and_off top --rw=randwrite $few "$tops"
    on_and_off bottom-two --rw=randwrite $few "$bottoms"
done
SEED=1
dm_remove imr lin
