# SPDX-License-Identifier: GPL-2.0-only
# Helpers of the benchmarks in this folder, which run in the guest. busybox sh.
# shellcheck shell=sh disable=SC3043

# The drive: one zone of the default geometry, on RAM disks of which every page exists.
ZONE_MIB=256
ZONE_SECTORS=$((ZONE_MIB * 2048))
# Logical blocks in order fill the bottom tracks first: 64 of 568 blocks are 142 MiB.
BOTTOM_MIB=142
# All but the last bottom track lie under two top tracks.
TRACK_BYTES=$((568 * 4096))
# Room for the metadata of one zone, written with zeros before a device is made anew.
SPARE_MIB=4

SEED=1

note() { echo "    $*"; }

# emit KEY=VALUE...: a line of results for the host. Numbers as they are, words in quotes.
emit() {
    local pair out=""
    for pair; do
        case ${pair#*=} in
            '' | *[!0-9.]*) out="$out, \"${pair%%=*}\": \"${pair#*=}\"" ;;
            *) out="$out, \"${pair%%=*}\": ${pair#*=}" ;;
        esac
    done
    echo "@bench {${out#, }}" >/dev/kmsg
}

# dm_create NAME TABLE
dm_create() {
    dmsetup create "$1" --noudevsync --table "$2"
    dmsetup mknodes "$1"
}

dm_remove() {
    local name
    for name; do dmsetup remove --noudevsync "$name"; done
}

# zero DEVICE SKIP COUNT: writes zeros, in MiB.
zero() { dd if=/dev/zero of="$1" bs=1M seek="$2" count="$3" conv=notrunc 2>/dev/null; }

# fill DEVICE SKIP COUNT: writes a mapped device in order, in MiB, has it made durable, and gives it time for its
# work in the background: by the instruction clock a sleep takes no time at all.
fill() {
    dd if=/dev/zero of="$1" bs=1M seek="$2" count="$3" oflag=direct conv=notrunc,fsync 2>/dev/null
    sleep 10
}

# pages DEVICE: makes a RAM disk hold all its pages, so that the first to write one does not pay for it.
pages() { zero "$1" 0 $((ZONE_MIB + SPARE_MIB)); }

# fresh NAME DEVICE [WORD...]: an imrsim device of one zone to which nothing was written.
fresh() {
    local name=$1 device=$2
    shift 2
    ! dmsetup info "$name" >/dev/null 2>&1 || dm_remove "$name"
    # A device counts as blank if the metadata's place and the first track group are.
    zero "$device" $ZONE_MIB $SPARE_MIB
    zero "$device" 0 4
    dm_create "$name" "0 $ZONE_SECTORS imrsim $device 0${*:+ $# $*}"
}

# area OFFSET SIZE JOBS: fio's arguments for a part of the device, in bytes; each job has its own share.
area() {
    echo "--offset=$1 --size=$(($2 / $3 / 4096 * 4096)) --offset_increment=$(($2 / $3 / 4096 * 4096))"
}

mib() { echo $(($1 * 1048576)); }

# point PART CASE DEVICE FILE DEPTH JOBS ARG...: one run of fio.
point() {
    local part=$1 case=$2 device=$3 file=$4 depth=$5 jobs=$6
    shift 6
    # shellcheck disable=SC2068
    fio --name=bench --filename="$file" --thread --direct=1 --ioengine=libaio --iodepth="$depth" --numjobs="$jobs" \
        --group_reporting --randrepeat=1 --randseed="$SEED" --eta=never --output-format=json --output=/tmp/fio.json $@ ||
        { echo "fio failed: $case on $device"; exit 1; }
    # shellcheck disable=SC2046
    emit part="$part" case="$case" device="$device" depth="$depth" jobs="$jobs" seed="$SEED" $(awk '
        /"(read|write|trim)" : [{]/ { latency = 0 }
        { gsub(/[",]/, "") }
        /^ *io_bytes :/ { bytes += $3 }
        /^ *total_ios :/ && !tail { ios += $3 }
        /^ *runtime :/ && $3 > ms { ms = $3 }
        /^ *lat_ns :/ { latency = 1 }
        latency && /^ *mean :/ { if ($3 > mean) mean = $3; latency = 0 }
        /^ *sync : [{]/ { tail = 1 }
        END { printf "ios=%d ms=%d bytes=%.0f latency=%.1f", ios, ms, bytes, mean }' /tmp/fio.json)
}

# Operations on a device, from its stat file: those of the RAM disks do not count.

# stat_file DEVICE: of a device file, or of a name in /dev/mapper.
stat_file() {
    case $1 in
        /dev/mapper/*) stat_file "${1#/dev/mapper/}" ;;
        /dev/*) echo "/sys/block/${1#/dev/}/stat" ;;
        *) echo "/sys/block/dm-$(dmsetup info -c --noheadings -o minor "$1")/stat" ;;
    esac
}

# moved BEFORE AFTER: what happened between two readings of a stat file.
moved() {
    # shellcheck disable=SC2086
    echo $1 $2 | awk '{
        n = NF / 2
        printf "reads=%d read_sectors=%d writes=%d write_sectors=%d flushes=%d",
            $(n+1)-$1, $(n+3)-$3, $(n+5)-$5, $(n+7)-$7, $(n+16)-$16 }'
}

# counted PART CASE DEVICE BELOW POINT-ARGUMENTS...: a point with the operations that reached device BELOW, as PART.
counted() {
    local part=$1 case=$2 device=$3 below=$4 before after
    shift 4
    before=$(cat "$(stat_file "$below")")
    point "$part" "$case" "$device" "$@"
    after=$(cat "$(stat_file "$below")")
    # shellcheck disable=SC2046
    emit part="$part-below" case="$case" device="$device" jobs="$3" $(moved "$before" "$after")
}

# memory: kernel memory in KiB that a module can have: slab with large kmalloc, vmalloc; and what is free.
memory() {
    awk '/^(MemFree|Slab|VmallocUsed):/ { printf "%s=%d ", tolower(substr($1, 1, length($1) - 1)), $2 }' /proc/meminfo
}

# Large drives: the data lies on dm-zero, which drops writes and takes no memory; the metadata on /dev/vda.

now() { cut -d' ' -f1 /proc/uptime; }

# large ZONE_SECTORS ZONES [WORD...]: creates imr, in $CREATED seconds, and below it a device that is large enough.
large() {
    local data=$(($1 * $2)) begin
    shift 2
    blkdiscard /dev/vda
    dm_create sparse "0 $data zero
$data $(blockdev --getsz /dev/vda) linear /dev/vda 0"
    begin=$(now)
    dmsetup create imr --noudevsync --table "0 $data imrsim /dev/mapper/sparse 0${*:+ $# $*}"
    CREATED=$(echo "$begin $(now)" | awk '{print $2 - $1}')
    dmsetup mknodes imr
}

# Both for that many blocks at equal distances over all zones. visit writes each of them once.
distance() { echo $(($1 * ZONE_SECTORS / $2 / 8 * 4096)); }
visit() { echo "--rw=write:$(($(distance "$1" "$2") - 4096)) --bs=4k --size=$(($1 * ZONE_SECTORS * 512)) --number_ios=$2"; }
spread() { echo "--norandommap --bs=4k --ba=$(distance "$1" "$2") --size=$(($1 * ZONE_SECTORS * 512))"; }
