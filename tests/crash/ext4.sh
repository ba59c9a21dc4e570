#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs in the guest: as record.sh, with ext4 on the drive. After each file that was synced there is a mark with its
# number. /dev/vda is the device to be recorded, /dev/vdb takes the log; FILES is how many files to write.
# shellcheck shell=sh
set -eu

mark() { dmsetup message log 0 mark "$1"; }
# content NUMBER: the lines of a file.
content() { awk -v n="$1" 'BEGIN { for (i = 0; i < 20 + n * 37 % 400; i++) print "file", n, "line", i, i * n * 7919 % 10007 }'; }

dmsetup create log --noudevsync --table "0 $ROOM log-writes /dev/vda /dev/vdb"
dmsetup mknodes log
dmsetup create t --noudevsync --table "0 $SIZE imrsim /dev/mapper/log 0 4 geometry 57 71 8"
dmsetup mknodes t
mark formatted
mkfs.ext4 -q -F -O ^resize_inode -J size=4 -E lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/t
mount -t ext4 -o commit=1,discard /dev/mapper/t /mnt
mkdir /mnt/files /mnt/noise
sync
mark file0
n=1
while [ "$n" -le "$FILES" ]; do
    # Some that are not synced: written, overwritten, renamed, removed.
    content $((n + 1000)) >/mnt/noise/$((n % 7)) || :
    [ $((n % 3)) -ne 0 ] || mv /mnt/noise/$((n % 7)) /mnt/noise/moved$((n % 5))
    [ $((n % 5)) -ne 0 ] || rm -f /mnt/noise/*
    content $n | dd of=/mnt/files/$n bs=4k conv=fsync 2>/dev/null
    mark "file$n"
    n=$((n + 1))
done
umount /mnt
dmsetup remove --noudevsync t
mark "file$FILES"
dmsetup remove --noudevsync log
