# SPDX-License-Identifier: GPL-2.0-only
# What is on the device when it is resumed: nothing, a drive that was stopped or not, a part of one, something else. It
# comes back right, or is refused with a message, and then nothing was written.
# shellcheck shell=sh

# What a drive of two zones uses.
DATA=$(data_sectors 2 $SMALL)
META=$(metadata_sectors 2 $SMALL)

# sum DEVICE: of a drive, or of what it uses below and a bit more.
sum() { quiet; head -c $(((DATA + META + 64) * 512)) "$1" | sha256sum | cut -d' ' -f1; }
mode() { quiet; dmsetup status "$1" | cut -d' ' -f4; }

# used [DEVICE]: a drive of two zones that was used and stopped; SUM is what it holds.
used() {
    local device=${1:-/dev/ram0}
    fresh "$device" 2 $SMALL
    imr_create t "$device" 2 $SMALL
    iotool fill /dev/mapper/t --byte 1 --at 5 --count 9000
    iotool fill /dev/mapper/t --byte 2 --at 3000 --count 500
    SUM=$(sum /dev/mapper/t)
    imr_remove t
}

# right: the drive comes back with what it held.
right() {
    imr_create t "${1:-/dev/ram0}" 2 $SMALL
    same 'data' "$(sum /dev/mapper/t)" "$SUM"
    imr_remove t
}

# refused TEXT DEVICE TABLE: the table is refused, the kernel says TEXT, and nothing is written.
refused() {
    head -c $(((DATA + META + 64) * 512)) "$2" >/tmp/before
    dmesg -c >/dev/null
    expect_fail dmsetup create t --noudevsync --table "$3"
    kernel_said "$1" || fail "the kernel did not say '$1': $(dmesg | grep -v '@@ ' | tail -n 3)"
    dmsetup remove --noudevsync t 2>/dev/null || :
    head -c $(((DATA + META + 64) * 512)) "$2" | cmp - /tmp/before || fail 'the device was written to'
}

# noise SECTOR COUNT [DEVICE]
noise() { iotool fill "${3:-/dev/ram0}" --byte 0xc3 --at "$1" --count "$2"; }

test_foreign_data() { # limit 60
    local line
    line=$(table 2 /dev/ram0 $SMALL)
    # A file system; bytes where a superblock would be; where a zone begins.
    blank /dev/ram0
    mkfs.ext4 -q -F /dev/ram0 20m
    refused 'holds data' /dev/ram0 "$line"
    for sector in "$DATA" 0 8192; do
        blank /dev/ram0
        noise "$sector" 1
        refused 'holds data' /dev/ram0 "$line"
    done
    blank /dev/ram0
    dm_create t "$line"
    same 'mode' "$(mode t)" rw
    kernel_said 'blank and is formatted' || fail 'nothing in the log'
}

test_superblocks() { # limit 60
    local line
    used
    line=$(table 2 /dev/ram0 $SMALL)
    # One is enough, and makes the other good again.
    for copy in 0 16; do
        noise $((DATA + copy)) 1
        right
    done
    # A map of one, a header of the other.
    noise $((DATA + 8)) 1
    iotool fill /dev/ram0 --byte 0xff --at $((DATA + 17)) --count 1
    refused 'both copies of the superblock are damaged' /dev/ram0 "$line"
    noise "$DATA" 32
    refused 'holds data' /dev/ram0 "$line"
    # Zeros there are no reason to format: there is data.
    iotool fill /dev/ram0 --byte 0 --at "$DATA" --count 32
    refused 'holds data' /dev/ram0 "$line"
}

# What a later version would write.
test_unknown_version_and_feature() { # limit 60
    local line copy
    used
    line=$(table 2 /dev/ram0 $SMALL)
    for copy in 0 16; do
        crashtool patch /dev/ram0 --sector $((DATA + copy)) --offset 8 --value 3
        refused 'version that this program does not know' /dev/ram0 "$line"
        crashtool patch /dev/ram0 --sector $((DATA + copy)) --offset 8 --value 2
        right
        crashtool patch /dev/ram0 --sector $((DATA + copy)) --offset 40 --bytes 8 --value 1
        refused 'feature that this program does not know' /dev/ram0 "$line"
        crashtool patch /dev/ram0 --sector $((DATA + copy)) --offset 40 --bytes 8 --value 0
        right
        # One that need not be known.
        crashtool patch /dev/ram0 --sector $((DATA + copy)) --offset 48 --bytes 8 --value 1
        if [ "$copy" = 0 ]; then crashtool patch /dev/ram0 --sector $((DATA + 16)) --offset 48 --bytes 8 --value 1; fi
        right
        # A contradiction with a right checksum: more data than there is.
        crashtool patch /dev/ram0 --sector $((DATA + copy)) --offset 112 --bytes 8 --value 77
        refused 'contradicts itself' /dev/ram0 "$line"
        crashtool patch /dev/ram0 --sector $((DATA + copy)) --offset 112 --bytes 8 --value "$DATA"
        right
    done
    # The two of different drives.
    crashtool patch /dev/ram0 --sector $((DATA + 16)) --offset 16 --value 12345
    refused 'different drives' /dev/ram0 "$line"
}

test_wrong_table_line() { # limit 60
    used
    refused 'another geometry' /dev/ram0 "$(table 2 /dev/ram0 geometry 58 70 8)"
    refused 'another geometry' /dev/ram0 "$(table 1 /dev/ram0 geometry 114 142 8)"
    refused '' /dev/ram0 "$(table 1 /dev/ram0 $SMALL)"
    refused '' /dev/ram0 "$(table 3 /dev/ram0 $SMALL)"
    START=8
    refused '' /dev/ram0 "$(table 2 /dev/ram0 $SMALL)"
    START=0
    right
}

# A resize by a new table is refused; with the old one the drive goes on.
test_resize() { # limit 60
    used
    imr_create t /dev/ram0 2 $SMALL
    table 3 /dev/ram0 $SMALL | dmsetup load t
    expect_fail dmsetup resume --noudevsync t
    table 2 /dev/ram0 $SMALL | dmsetup load t
    dmsetup resume --noudevsync t
    same 'mode' "$(mode t)" rw
    same 'data' "$(sum /dev/mapper/t)" "$SUM"
}

test_device_that_shrank() { # limit 60
    used
    dm_create below "0 $((DATA + META - 8)) linear /dev/ram0 0"
    refused '' /dev/ram0 "$(table 2 /dev/mapper/below $SMALL)"
    # With a journal that was longer when it was formatted, only the superblock knows.
    imr_remove below
    dm_create below "0 $((DATA + META)) linear /dev/ram0 0"
    right /dev/mapper/below
}

# A read-only table writes nothing, also where a journal must be replayed.
test_read_only() { # limit 60
    local before
    used
    before=$(sum /dev/ram0)
    dmsetup create t --readonly --noudevsync --table "$(table 2 /dev/ram0 $SMALL)"
    dmsetup mknodes t
    same 'mode' "$(mode t)" ro
    same 'data' "$(sum /dev/mapper/t)" "$SUM"
    expect_fail iotool fill /dev/mapper/t --byte 3 --count 8
    imr_remove t
    same 'the device' "$(sum /dev/ram0)" "$before"

    dm_create below "0 $((DATA + META)) linear /dev/ram0 0"
    imr_create t /dev/mapper/below 2 $SMALL
    iotool fill /dev/mapper/t --byte 4 --at 10000 --count 100
    iotool flush /dev/mapper/t
    SUM=$(sum /dev/mapper/t)
    swap_table below "0 $((DATA + META)) error"
    imr_remove t
    before=$(sum /dev/ram0)
    dmsetup create t --readonly --noudevsync --table "$(table 2 /dev/ram0 $SMALL)"
    dmsetup mknodes t
    same 'data after a crash' "$(sum /dev/mapper/t)" "$SUM"
    imr_remove t
    same 'the device after a crash' "$(sum /dev/ram0)" "$before"
    right
    # A blank device is not formatted then.
    blank /dev/ram1
    before=$(sum /dev/ram1)
    expect_fail dmsetup create t --readonly --noudevsync --table "$(table 2 /dev/ram1 $SMALL)"
    dmsetup remove --noudevsync t 2>/dev/null || :
    same 'the blank device' "$(sum /dev/ram1)" "$before"
}

# A snapshot of the device below, taken while the drive works, is a drive as after a power cut; both can be used.
test_snapshot() { # limit 60
    local size
    used
    size=$((DATA + META))
    blank /dev/ram1
    dm_create real "0 $size linear /dev/ram0 0"
    dm_create origin "0 $size snapshot-origin /dev/mapper/real"
    imr_create t /dev/mapper/origin 2 $SMALL
    iotool fill /dev/mapper/t --byte 7 --at 12000 --count 300
    iotool flush /dev/mapper/t
    SUM=$(sum /dev/mapper/t)
    dmsetup suspend --noudevsync origin
    dm_create copy "0 $size snapshot /dev/mapper/real /dev/ram1 N 8"
    dmsetup resume --noudevsync origin
    iotool fill /dev/mapper/t --byte 8
    imr_create u /dev/mapper/copy 2 $SMALL
    same 'data of the snapshot' "$(sum /dev/mapper/u)" "$SUM"
    iotool fill /dev/mapper/u --byte 9
    check iotool expect /dev/mapper/t --byte 8
    check iotool expect /dev/mapper/u --byte 9
    imr_remove u t
    imr_create t /dev/mapper/origin 2 $SMALL
    check iotool expect /dev/mapper/t --byte 8
    imr_remove t copy origin real
}

# Something was half formatted when the power failed: it is formatted again.
test_half_formatted() { # limit 60
    local line sectors
    line=$(table 2 /dev/ram0 $SMALL)
    for sectors in 1 100 1000; do
        blank /dev/ram1
        fresh /dev/ram0 2 $SMALL
        # The journal's first blocks as formatting leaves them.
        dd if=/dev/ram0 of=/dev/ram1 bs=512 skip=$((DATA + 32)) seek=$((DATA + 32)) count=$sectors 2>/dev/null
        dm_create t "$(table 2 /dev/ram1 $SMALL)"
        check iotool expect /dev/mapper/t
        iotool fill /dev/mapper/t --byte 3
        imr_remove t
        dm_create t "$(table 2 /dev/ram1 $SMALL)"
        check iotool expect /dev/mapper/t --byte 3
        imr_remove t
    done
}
