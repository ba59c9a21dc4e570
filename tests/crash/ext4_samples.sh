#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs in the guest: on each of the images on /dev/vda, STRIDE sectors apart, there must be the files that the mark in
# its line of /marks promises, and a file system without errors.
# shellcheck shell=sh
set -eu

content() { awk -v n="$1" 'BEGIN { for (i = 0; i < 20 + n * 37 % 400; i++) print "file", n, "line", i, i * n * 7919 % 10007 }'; }

index=0
while read -r mark; do
    start=$((index * STRIDE))
    dmsetup create t --noudevsync --table "0 $SIZE imrsim /dev/vda $start 4 geometry 57 71 8"
    dmsetup mknodes t
    case $mark in file*)
        mount -t ext4 /dev/mapper/t /mnt || { echo "image $index: cannot be mounted"; exit 1; }
        n=1
        while [ "$n" -le "${mark#file}" ]; do
            content $n | cmp -s - /mnt/files/$n || { echo "image $index: file $n of ${mark#file} is wrong"; exit 1; }
            n=$((n + 1))
        done
        umount /mnt
        e2fsck -f -n /dev/mapper/t >/tmp/out 2>&1 || { cat /tmp/out; echo "image $index: e2fsck"; exit 1; }
    esac
    dmsetup remove --noudevsync t
    index=$((index + 1))
done </marks
echo "$index file systems are right"
