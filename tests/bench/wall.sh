# SPDX-License-Identifier: GPL-2.0-only
# By the clock on the wall, two jobs on two processors: whether they get in each other's way.
# shellcheck shell=sh

dm_create lin "0 $ZONE_SECTORS linear /dev/ram1 0"
fresh imr /dev/ram2
fill /dev/mapper/imr 0 $ZONE_MIB
few="--number_ios=$((WALL_IOS / 2))"
bottoms=$(area 0 $((63 * TRACK_BYTES)) 2)
tops=$(area "$(mib $BOTTOM_MIB)" "$(mib $((ZONE_MIB - BOTTOM_MIB)))" 2)

# all_three CASE DEPTH ARG...
all_three() {
    local case=$1 depth=$2
    shift 2
    point wall "$case" raw /dev/ram0 "$depth" 2 --bs=4k --norandommap "$few" "$@"
    point wall "$case" linear /dev/mapper/lin "$depth" 2 --bs=4k --norandommap "$few" "$@"
    point wall "$case" imrsim /dev/mapper/imr "$depth" 2 --bs=4k --norandommap "$few" "$@"
}
for SEED in $(seq 1 "$WALL_ROUNDS"); do
    note "round $SEED by the clock on the wall"
    for depth in 1 32; do
        all_three read $depth --rw=randread "$(area 0 "$(mib $ZONE_MIB)" 2)"
        all_three top $depth --rw=randwrite "$tops"
        all_three bottom-two $depth --rw=randwrite "$bottoms"
    done
done
SEED=1
dm_remove imr lin
