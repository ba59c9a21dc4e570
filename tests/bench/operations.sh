# SPDX-License-Identifier: GPL-2.0-only
# Operations that reach the device below for one of the host's.
# shellcheck shell=sh

ops="--number_ios=$OPERATIONS"
bottoms=$(area 0 $((63 * TRACK_BYTES)) 1)
tops=$(area "$(mib $BOTTOM_MIB)" "$(mib $((ZONE_MIB - BOTTOM_MIB)))" 1)
whole=$(area 0 "$(mib $ZONE_MIB)" 1)

dm_create below "0 $(blockdev --getsz /dev/ram2) linear /dev/ram2 0"
dm_create under "0 $ZONE_SECTORS linear /dev/ram1 0"
dm_create lin "0 $ZONE_SECTORS linear /dev/mapper/under 0"
both() {
    local case=$1 depth=$2
    shift 2
    counted operations "$case" linear under /dev/mapper/lin "$depth" 1 "$@"
    counted operations "$case" imrsim below /dev/mapper/imr "$depth" 1 "$@"
}
overwrite="--rw=randwrite --norandommap"

note "operations on the device below"
fresh imr /dev/mapper/below
both first-random 1 --rw=randwrite --bs=4k "$ops" "$bottoms"
fresh imr /dev/mapper/below
both first-sequential 1 --rw=write --bs=4k "$ops" "$bottoms"
fill /dev/mapper/imr 0 $BOTTOM_MIB
both bottom-free 1 $overwrite --bs=4k "$ops" "$bottoms"
both bottom-free-64k 1 $overwrite --bs=64k --number_ios=$((OPERATIONS / 4)) "$bottoms"
fill /dev/mapper/imr $BOTTOM_MIB $((ZONE_MIB - BOTTOM_MIB))
both bottom-two 1 $overwrite --bs=4k "$ops" "$bottoms"
both bottom-two-64k 1 $overwrite --bs=64k --number_ios=$((OPERATIONS / 4)) "$bottoms"
both bottom-two-64k-deep 32 $overwrite --bs=64k --number_ios=$((OPERATIONS / 4)) "$bottoms"
both top 1 $overwrite --bs=4k "$ops" "$tops"
both read 1 --rw=randread --norandommap --bs=4k "$ops" "$whole"
both sequential-1m 1 --rw=read --bs=1m "$whole"
dm_remove imr below lin under
