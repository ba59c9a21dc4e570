#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs in the guest: each of the COUNT images on /dev/vda, STRIDE sectors apart, must come back as a drive of SIZE
# sectors that holds what /expected says.
# shellcheck shell=sh
set -eu

create() {
    dmsetup create t --noudevsync --table "0 $SIZE imrsim /dev/vda $1 4 geometry 57 71 8" ||
        { echo "image $index: refused"; exit 1; }
    dmsetup mknodes t
}
expect() {
    crashtool expect /dev/mapper/t /expected --index "$index" >/tmp/out || { echo "image $index, $1: $(cat /tmp/out)"; exit 1; }
}

index=0
while [ "$index" -lt "$COUNT" ]; do
    start=$((index * STRIDE))
    create $start
    expect 'resumed'
    dmsetup remove --noudevsync t
    create $start
    expect 'once more'
    if [ $((index % 4)) = 0 ]; then
        # As many changes as there can be, at once.
        iotool fill /dev/mapper/t --byte 0x5a
        dmsetup remove --noudevsync t
        create $start
        iotool expect /dev/mapper/t --byte 0x5a >/tmp/out || { echo "image $index, filled: $(cat /tmp/out)"; exit 1; }
    fi
    case $(dmsetup status t) in *" imrsim rw "*) ;; *) echo "image $index: $(dmsetup status t)"; exit 1 ;; esac
    dmsetup remove --noudevsync t
    index=$((index + 1))
done
echo "$COUNT images are right"
