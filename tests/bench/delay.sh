# SPDX-License-Identifier: GPL-2.0-only
# Read-modify-writes on a device that takes 5 ms for a read and 5 ms for a write. One job goes from
# track group to track group, so that 32 requests in flight are in 32 different ones.
# shellcheck shell=sh

# swap_table NAME TABLE: gives a device below another table.
swap_table() {
    dmsetup suspend --noudevsync "$1"
    printf '%s\n' "$2" | dmsetup load "$1"
    dmsetup resume --noudevsync "$1"
}

sectors=$(blockdev --getsz /dev/ram2)
walk="--rw=write:$((TRACK_BYTES - 4096)) --bs=4k --size=$((64 * TRACK_BYTES)) --io_size=64g"

note "a device of 5 ms"
dm_create below "0 $sectors linear /dev/ram2 0"
dm_create plain "0 $sectors delay /dev/ram1 0 5 /dev/ram1 0 5"
fresh imr /dev/mapper/below
fill /dev/mapper/imr 0 $ZONE_MIB
swap_table below "0 $sectors delay /dev/ram2 0 5 /dev/ram2 0 5"
for depth in 1 32; do
    point delay write linear /dev/mapper/plain $depth 1 $walk --number_ios=$((DELAYED * depth))
    point delay bottom-two imrsim /dev/mapper/imr $depth 1 $walk --number_ios=$((DELAYED * depth))
done
swap_table below "0 $sectors linear /dev/ram2 0"
dm_remove imr below plain
