# SPDX-License-Identifier: GPL-2.0-only
# Metadata written for what the host writes. The data lies on dm-zero, and the metadata alone on /dev/vda.
# shellcheck shell=sh

# Entries of the journal for each zone; a checkpoint begins when half of them are used.
ZONE_ENTRIES=8
# Records in one.
ENTRY_RECORDS=237

# written CASE ZONES ARG...: a run of fio, and what was written to the metadata until it is idle again.
written() {
    local case=$1 zones=$2 before
    shift 2
    before=$(cat "$(stat_file /dev/vda)")
    point metadata "$case" imrsim /dev/mapper/imr 1 1 "$@"
    # What is left in the background; for a whole drive, its checkpoint.
    case $case in first-sequential-*) dmsetup suspend --noudevsync imr ;; esac
    sleep 10
    # shellcheck disable=SC2046
    emit part=metadata-below case="$case" zones="$zones" device=imrsim $(moved "$before" "$(cat "$(stat_file /dev/vda)")")
    case $case in first-sequential-*) dmsetup resume --noudevsync imr ;; esac
}

# first CASE ZONES ENTRIES RECORDS ARG...: random first writes on a new drive, of which a commit takes RECORDS; the
# journal has ENTRIES. It goes on for some checkpoints and half of the way to the next.
first() {
    local case=$1 zones=$2 entries=$3 records=$4
    shift 4
    large $ZONE_SECTORS "$zones"
    written "first-$case-$zones" "$zones" --rw=randwrite --bs=4k --number_ios=$(((2 * CHECKPOINTS + 1) * entries / 4 * records)) "$@"
    dm_remove imr sparse
}

note "metadata on 16 GiB"
zones=64
entries=$((zones * ZONE_ENTRIES))
first none $zones $entries $ENTRY_RECORDS
first fsync-32 $zones $entries 32 --fsync=32
first fsync-1 $zones $entries 1 --fsync=1
large $ZONE_SECTORS $zones
written first-sequential-$zones $zones --rw=write --bs=1m
written overwrite-$zones $zones --rw=randwrite --norandommap --bs=4k --fsync=32 --number_ios="$IOS"
dm_remove imr sparse
if [ "$METADATA_LARGE" -gt 0 ]; then
    note "metadata on 1 TiB"
    # No more than so many entries for any number of zones.
    CHECKPOINTS=$METADATA_LARGE first fsync-1 4096 8192 1 --fsync=1
fi
