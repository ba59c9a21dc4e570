# SPDX-License-Identifier: GPL-2.0-only
# Instructions per request: the RAM disk itself, dm-linear on it and imrsim on it, side by side.
# shellcheck shell=sh

raw=/dev/ram0
dm_create lin "0 $ZONE_SECTORS linear /dev/ram1 0"

# three CASE DEPTH JOBS ARG...: the same on all three.
three() {
    local case=$1 depth=$2 jobs=$3
    shift 3
    point cost "$case" raw $raw "$depth" "$jobs" "$@"
    point cost "$case" linear /dev/mapper/lin "$depth" "$jobs" "$@"
    point cost "$case" imrsim /dev/mapper/imr "$depth" "$jobs" "$@"
}

# round DEPTH JOBS
round() {
    local depth=$1 jobs=$2 each=$((IOS / $2)) bottoms tops few
    few="--number_ios=$each"
    bottoms=$(area 0 $((63 * TRACK_BYTES)) "$jobs")
    tops=$(area "$(mib $BOTTOM_MIB)" "$(mib $((ZONE_MIB - BOTTOM_MIB)))" "$jobs")

    fresh imr /dev/ram2
    three first-random "$depth" "$jobs" --rw=randwrite --bs=4k "$few" "$bottoms"
    fresh imr /dev/ram2
    three first-sequential "$depth" "$jobs" --rw=write --bs=4k "$few" "$bottoms"

    fill /dev/mapper/imr 0 $BOTTOM_MIB
    three bottom-free "$depth" "$jobs" --rw=randwrite --norandommap --bs=4k "$few" "$bottoms"
    fill /dev/mapper/imr $BOTTOM_MIB $((ZONE_MIB - BOTTOM_MIB))
    point cost bottom-two imrsim /dev/mapper/imr "$depth" "$jobs" --rw=randwrite --norandommap --bs=4k "$few" "$bottoms"
    three top "$depth" "$jobs" --rw=randwrite --norandommap --bs=4k "$few" "$tops"
    three read "$depth" "$jobs" --rw=randread --norandommap --bs=4k "$few" "$(area 0 "$(mib $ZONE_MIB)" "$jobs")"

    # The drive of the sequential read was written in order, from its first block to its last.
    three sequential-1m "$depth" "$jobs" --rw=read --bs=1m --loops="$LOOPS" "$(area 0 "$(mib $ZONE_MIB)" "$jobs")"
}

for SEED in $(seq 1 "$ROUNDS"); do
    for combination in "1 1" "32 1" "1 2" "32 2"; do
        [ "$SEED" -le "$ROUNDS_TWO_JOBS" ] || [ "${combination#* }" = 1 ] || continue
        note "round $SEED, depth ${combination% *}, ${combination#* } job(s)"
        # shellcheck disable=SC2086
        round $combination
    done
done
SEED=1
dm_remove imr lin
