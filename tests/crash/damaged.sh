#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs in the guest: the images on /dev/vda, STRIDE sectors apart, have damaged metadata. A line of /outcomes says for
# each what the host makes of it: 'right', or why it is refused. What the host accepts must come back with what /expected
# says. What it refuses must be refused, and not be written to; or, where only the table of a zone is damaged, what can
# be read must be right.
# shellcheck shell=sh
set -eu

sum() { dd if=/dev/vda bs=512 skip="$start" count="$STRIDE" 2>/dev/null | sha256sum; }

index=0 accepted=0 refused=0
while read -r outcome what; do
    start=$((index * STRIDE))
    sum >/tmp/before
    if dmsetup create t --noudevsync --table "0 $SIZE imrsim /dev/vda $start 4 geometry 57 71 8" 2>/tmp/error; then
        dmsetup mknodes t
        accepted=$((accepted + 1)) errors=0
        case $outcome in
            right) ;;
            ZoneDamaged | BadTable) errors=1 ;;
            *) echo "image $index: $what: accepted, but the host says $outcome"; exit 1 ;;
        esac
        crashtool expect /dev/mapper/t /expected --index "$index" --errors $errors >/tmp/out ||
            { echo "image $index: $what: $outcome: $(cat /tmp/out)"; exit 1; }
        dmsetup remove --noudevsync t
    else
        refused=$((refused + 1))
        [ "$outcome" != right ] || { echo "image $index: $what: refused, but the host accepts it"; exit 1; }
        sum | cmp -s - /tmp/before || { echo "image $index: $what: refused, but written to"; exit 1; }
    fi
    index=$((index + 1))
done </outcomes
echo "$index damaged images: $accepted accepted, $refused refused"
