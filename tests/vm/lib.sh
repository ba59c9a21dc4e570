# SPDX-License-Identifier: GPL-2.0-only
# Helpers of the tests in this folder, which run in the guest. busybox sh.
# shellcheck shell=sh disable=SC2034,SC3043

# The small drive of most tests: zones of 1,024 blocks (4 MiB) in 8 track groups of 57 and 71 blocks. Its
# bottom tracks hold the same 55.47 % as those of the default geometry.
SMALL="geometry 57 71 8"
# How much smaller tests are to be; 1 on the release kernel.
SCALE=${SCALE:-1}
# Sectors below the device's data, for imr_create.
START=0

# quiet: for functions called as $(...) only: not in the trace of the test.
quiet() { { set +x; } 2>/dev/null; }

fail() { { echo "$*" >/tmp/why; exit 1; } 2>/dev/null; }
skip() { { echo "$*" >/tmp/why; exit 77; } 2>/dev/null; }

# need PROGRAM: skips the test where the program is missing.
need() { command -v "$1" >/dev/null || skip "no $1 in the guest"; }

# same WHAT FOUND EXPECTED
same() { [ "$2" = "$3" ] || fail "$1 is $2, expected $3"; }

# few WORD...: on a slow kernel the first and the last of them.
few() {
    quiet
    [ "$SCALE" -gt 1 ] || { echo "$*"; return; }
    echo "$1"
    shift $(($# - 1))
    echo "$1"
}

# scaled NUMBER: fewer on a slow kernel, but at least 1.
scaled() { echo $(($1 / SCALE > 0 ? $1 / SCALE : 1)); }

# The drive

# shape WORD...: the top, bottom and group numbers of a table line's feature words.
shape() {
    quiet
    local top=456 bottom=568 groups=64
    while [ $# -gt 0 ]; do
        case $1 in
            geometry) top=$2 bottom=$3 groups=$4; shift 4 ;;
            *) shift 2 ;;
        esac
    done
    echo "$top $bottom $groups"
}

zone_blocks() { set -- $(shape "$@"); echo $((($1 + $2) * $3)); }

# data_sectors ZONES [WORD...]
data_sectors() { quiet; local zones=$1; shift; echo $((zones * $(zone_blocks "$@") * 8)); }

# metadata_sectors ZONES [WORD...]: two superblocks with 2 bits for each zone, the journal, and two slots for each
# zone with a header, 2 bytes and a bit for each block. As docs/format.md has it.
metadata_sectors() {
    quiet
    local zones=$1 blocks journal superblock slot
    shift
    blocks=$(zone_blocks "$@")
    superblock=$((8 + ((zones + 31) / 32 * 8 + 4095) / 4096 * 8))
    journal=$(((zones * blocks * 8 + 65535) / 65536 * 16))
    journal=$((journal < 1024 ? 1024 : journal > 131072 ? 131072 : journal))
    slot=$((8 + (blocks * 2 + (blocks + 7) / 8 + 4095) / 4096 * 8))
    echo $((2 * superblock + journal + 2 * zones * slot))
}

# table ZONES DEVICE [WORD...]: the table line.
table() {
    quiet
    local zones=$1 device=$2
    shift 2
    echo "0 $(data_sectors "$zones" "$@") imrsim $device $START${*:+ $# $*}"
}

# imr_create NAME DEVICE ZONES [WORD...]: creates a drive and its node in /dev/mapper.
imr_create() {
    local name=$1 device=$2 zones=$3
    shift 3
    dm_create "$name" "$(table "$zones" "$device" "$@")"
}

# dm_create NAME TABLE: any device.
dm_create() {
    dmsetup create "$1" --noudevsync --table "$2"
    dmsetup mknodes "$1"
}

# imr_remove NAME...
imr_remove() {
    local name
    for name; do dmsetup remove --noudevsync "$name"; done
}

# blank DEVICE: zeros all over.
blank() { blkdiscard "$1"; }

# fresh DEVICE ZONES [WORD...]: prepares a device for a drive that has never been written. Where its data goes there
# is a pattern that must never be seen. The pattern comes after the format, which only a blank device gets.
fresh() {
    local device=$1 zones=$2
    shift 2
    blank "$device"
    imr_create formatted "$device" "$zones" "$@"
    imr_remove formatted
    iotool fill "$device" --byte 0xa5 --at "$START" --count "$(data_sectors "$zones" "$@")"
}

# imr NAME DEVICE ZONES [WORD...]: fresh and imr_create.
imr() {
    local name=$1
    shift
    fresh "$@"
    imr_create "$name" "$@"
}

# slow NAME DEVICE MS: a device whose writes take their time.
slow() { dm_create "$1" "0 $(blockdev --getsz "$2") delay $2 0 0 $2 0 $3"; }

# swap_table NAME TABLE: gives a device below another table, with the I/O in flight on hold.
swap_table() {
    dmsetup suspend --noudevsync --noflush "$1"
    printf '%s\n' "$2" | dmsetup load "$1"
    dmsetup resume --noudevsync "$1"
}

# stat NAME KEY: a number of the status line; 'mapped' and 'total' are its third word.
stat() {
    quiet
    local word number=0
    for word in $(dmsetup status "$1"); do
        number=$((number + 1))
        case $number:$2:$word in
            5:mapped:*) echo "${word%/*}"; return ;;
            5:total:*) echo "${word#*/}"; return ;;
            *:"$2=$2"*) ;;
            *:"$2":"$2="*) echo "${word#*=}"; return ;;
        esac
    done
    fail "no $2 in the status line: $(dmsetup status "$1")"
}

message() { local name=$1; shift; dmsetup message "$name" 0 "$@"; }

# util NAME WORD...: the user-space tool on a device.
util() { local name=$1; shift; imrsim_util "/dev/mapper/$name" "$@"; }

# nobody COMMAND...: as a user without rights.
nobody() {
    grep -q '^nobody:' /etc/passwd || echo 'nobody:x:65534:65534::/:/bin/sh' >>/etc/passwd
    su nobody -c "$*"
}

# I/O

# check COMMAND...: runs it; its output is shown if it fails, and its last line is why.
check() {
    local rc=0
    "$@" >/tmp/output 2>&1 || rc=$?
    [ "$rc" = 0 ] || {
        tail -n 20 /tmp/output
        fail "$1 ${2:-}: $(tail -n 1 /tmp/output) (exit code $rc)"
    }
}

# expect_fail COMMAND...: it must fail, and not by a signal.
expect_fail() {
    local rc=0
    "$@" >/tmp/output 2>&1 || rc=$?
    [ "$rc" != 0 ] || fail "this should have failed: $*"
    [ "$rc" -lt 124 ] || fail "exit code $rc: $*"
}

# fio_run DEVICE ARG...: direct asynchronous I/O; arguments may name several jobs.
fio_run() {
    local device=$1
    shift
    fio --output=/tmp/fio --thread --ioengine=libaio --direct=1 --filename="$device" --group_reporting \
        --verify_fatal=1 --randrepeat=1 "$@" >/tmp/fio.console 2>&1 || {
        grep -hE 'fio:|verify|error|err=' /tmp/fio /tmp/fio.console | head -n 10
        fail "fio: $(grep -hE 'verify:|error|fio:' /tmp/fio /tmp/fio.console | head -n 1)"
    }
}

# use_all NAME: writes the whole drive in order, with zeros, so that all of it is mapped and the content is
# still as 'model' expects it.
use_all() { iotool fill "/dev/mapper/$1" --byte 0; }

# kernel_said TEXT: whether the kernel log since the start of the test has a line with it.
kernel_said() { dmesg | grep -v '@@ ' | grep -qi -- "$1"; }

# The module

load() { insmod /imrsim/dm-imrsim.ko; }
unload() { rmmod dm_imrsim; }

# clean_up: takes everything down that a test has put up, and says when that is impossible.
clean_up() {
    local mounted device tries
    for mounted in $(awk '$2 ~ "^/mnt/" {print $2}' /proc/mounts); do umount "$mounted"; done
    for tries in 1 2 3 4 5 6 7 8 9 10; do
        for device in $(dmsetup ls | awk '/^No devices/ {next} {print $1}'); do
            dmsetup resume --noudevsync "$device" 2>/dev/null
            dmsetup remove --noudevsync "$device" 2>/dev/null
        done
        if ! dmsetup ls | grep -vq '^No devices'; then break; fi
        sleep 0.2
    done
    if dmsetup ls | grep -vq '^No devices'; then
        [ -s /tmp/why ] || echo "cannot be removed: $(dmsetup ls | tr '\t\n' '  ')" >/tmp/why
        return 1
    fi
    # The memory of the RAM disks is given back.
    for device in /dev/ram[0-9]*; do blkdiscard "$device"; done
}
