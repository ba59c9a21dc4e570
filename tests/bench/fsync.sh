# SPDX-License-Identifier: GPL-2.0-only
# Writes that are made durable at once, or every so many: on disks with a write cache, and on RAM disks, where a flush
# costs nothing below.
# shellcheck shell=sh

NULLB=/sys/kernel/config/nullb

# cached NAME: a disk /dev/NAME in memory, with a write cache; whatever it is asked takes it 100 us.
cached() {
    local setting
    mkdir $NULLB/"$1"
    for setting in size=$((ZONE_MIB + SPARE_MIB)) memory_backed=1 cache_size=16 irqmode=2 completion_nsec=100000 power=1; do
        echo "${setting#*=}" >"$NULLB/$1/${setting%%=*}"
    done
    pages "/dev/$1"
}

# durably WORK JOBS LINEAR IMRSIM PART: work of each kind on both, side by side. LINEAR and IMRSIM are the disks below.
durably() {
    local work=$1 jobs=$2 linear=$3 imrsim=$4 part=$5 kind arguments
    for kind in fsync-1 fsync-32 dsync; do
        case $kind in
            dsync) arguments=--sync=dsync ;;
            *) arguments=--fsync=${kind#fsync-} ;;
        esac
        [ "$work" != first ] || fresh imr "$imrsim"
        arguments="$arguments --rw=randwrite --bs=4k --number_ios=$((DURABLE_IOS / jobs)) $(area 0 $((63 * TRACK_BYTES)) "$jobs")"
        counted "$part" "$work-$kind" linear "$linear" /dev/mapper/lin 1 "$jobs" $arguments
        counted "$part" "$work-$kind" imrsim "$imrsim" /dev/mapper/imr 1 "$jobs" $arguments
    done
}

# durable PART LINEAR IMRSIM JOBS...
durable() {
    local part=$1 linear=$2 imrsim=$3 jobs
    shift 3
    dm_create lin "0 $ZONE_SECTORS linear $linear 0"
    for SEED in $(seq 1 "$ROUNDS"); do
        for jobs; do
            durably first "$jobs" "$linear" "$imrsim" "$part"
            fill /dev/mapper/imr 0 $BOTTOM_MIB
            durably overwrite "$jobs" "$linear" "$imrsim" "$part"
        done
    done
    SEED=1
    dm_remove imr lin
}

note "writes that are made durable"
durable fsync-ram /dev/ram1 /dev/ram2 1
grep -q ' /sys/kernel/config ' /proc/mounts || mount -t configfs none /sys/kernel/config
cached cached1
cached cached2
durable fsync /dev/cached1 /dev/cached2 1 4
rmdir $NULLB/cached1 $NULLB/cached2
