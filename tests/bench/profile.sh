#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The part of scripts/profile that runs in the VM: each of $CASES on dm-linear and on imrsim, at depth $DEPTH.
set -eu

# shellcheck source=lib.sh
. /bench/lib.sh

# mark NAME: ends a phase. The plugin waits for the kernel's function behind this file; the letter is not a command.
mark() {
    echo "@phase $1" >/dev/kmsg
    echo 5 >/proc/sysrq-trigger
}

# profile CASE ARG...: a short and a long run, the difference of which has neither beginning nor end.
profile() {
    local case=$1 device file
    shift
    for device in linear imrsim; do
        file=/dev/mapper/$device
        mark begin
        point profile "$case" $device "$file" "$DEPTH" 1 "$@" --number_ios=$SHORT
        mark "$case $device short"
        point profile "$case" $device "$file" "$DEPTH" 1 "$@" --number_ios=$LONG
        mark "$case $device long"
    done
}

while read -r symbol; do
    case $symbol in *'[dm_imrsim]') echo "@symbol $symbol" >/dev/kmsg ;; esac
done </proc/kallsyms

for ram in /dev/ram1 /dev/ram2; do pages $ram; done
dm_create linear "0 $ZONE_SECTORS linear /dev/ram1 0"
fresh imrsim /dev/ram2
bottoms=$(area 0 $((63 * TRACK_BYTES)) 1)
tops=$(area "$(mib $BOTTOM_MIB)" "$(mib $((ZONE_MIB - BOTTOM_MIB)))" 1)
wants() { case " $CASES " in *" $1 "*) ;; *) return 1 ;; esac; }

# The short run is the first part of the long one: it goes elsewhere, so that both write for the first time.
if wants first-random; then
    SHORT_AREA=$(area 0 "$(mib 64)" 1)
    for device in linear imrsim; do
        mark begin
        point profile first-random $device /dev/mapper/$device "$DEPTH" 1 --rw=randwrite --bs=4k "$SHORT_AREA" --number_ios=$SHORT
        mark "first-random $device short"
        point profile first-random $device /dev/mapper/$device "$DEPTH" 1 --rw=randwrite --bs=4k \
            "$(area "$(mib 64)" "$(mib 64)" 1)" --number_ios=$LONG
        mark "first-random $device long"
    done
fi
fill /dev/mapper/imrsim 0 $BOTTOM_MIB
! wants bottom-free || profile bottom-free --rw=randwrite --norandommap --bs=4k "$bottoms"
fill /dev/mapper/imrsim $BOTTOM_MIB $((ZONE_MIB - BOTTOM_MIB))
! wants read || profile read --rw=randread --norandommap --bs=4k "$(area 0 "$(mib $ZONE_MIB)" 1)"
! wants top || profile top --rw=randwrite --norandommap --bs=4k "$tops"
! wants bottom-two || profile bottom-two --rw=randwrite --norandommap --bs=4k "$bottoms"
dm_remove imrsim linear
