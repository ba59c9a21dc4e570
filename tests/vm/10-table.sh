# SPDX-License-Identifier: GPL-2.0-only
# Table lines, status and control.
# shellcheck shell=sh disable=SC2154

# refused TEXT TABLE: the constructor refuses it, and the kernel log says why.
refused() {
    expect_fail dmsetup create bad --noudevsync --table "$2"
    dmesg -c | grep 'table:.*imrsim: ' | tail -n 1 >/tmp/said
    grep -qi "imrsim: .*$1" /tmp/said || fail "the log says '$(cat /tmp/said)', without '$1', of: $2"
    ! grep -qi 'unknown error' /tmp/said || fail "no reason is given for refusing: $2"
}

# none_left: no device was made after all.
none_left() { ! dmsetup info bad >/dev/null 2>&1 || fail "a refused device is there"; }

test_refused_device() {
    local zone
    zone=$(data_sectors 1 $SMALL)
    refused 'argument' "0 $zone imrsim"
    refused 'argument' "0 $zone imrsim /dev/ram0"
    refused 'device' "0 $zone imrsim /dev/nonexistent 0"
    refused 'device' "0 $zone imrsim /tmp 0"
    refused 'device' "0 $zone imrsim 250:77 0"
    none_left
}

test_refused_start() {
    local zone start
    zone=$(data_sectors 1 $SMALL)
    for start in $(few x -8 '""' 1e3 0x10 18446744073709551616 99999999999999999999999 +8 7 1); do
        refused 'start' "0 $zone imrsim /dev/ram0 $start 4 $SMALL"
    done
    refused 'small' "0 $zone imrsim /dev/ram0 18446744073709551608 4 $SMALL"
    refused 'small' "0 $zone imrsim /dev/ram0 $(blockdev --getsz /dev/ram0) 4 $SMALL"
    none_left
}

# fault_17: a length that is no multiple of the zone was taken, and its tail answered EIO.
test_refused_length_fault_17() {
    local zone
    zone=$(data_sectors 1 $SMALL)
    refused 'zone' "0 $((zone - 1)) imrsim /dev/ram0 0 4 $SMALL"
    refused 'zone' "0 $((zone + 8)) imrsim /dev/ram0 0 4 $SMALL"
    refused 'zone' "0 8 imrsim /dev/ram0 0 4 $SMALL"
    refused 'zone' "0 $zone imrsim /dev/ram0 0"
    none_left
}

# fault_07: the metadata did not fit behind 8 zones, and saving failed later. Here the constructor knows.
test_refused_size_fault_07() {
    local zones
    for zones in $(few 1 8 64); do
        local data metadata
        data=$(data_sectors "$zones" $SMALL)
        metadata=$(metadata_sectors "$zones" $SMALL)
        blank /dev/ram0
        dm_create exact "0 $((data + metadata)) linear /dev/ram0 0"
        imr_create fits /dev/mapper/exact "$zones" $SMALL
        imr_remove fits exact
        dm_create exact "0 $((data + metadata - 8)) linear /dev/ram0 0"
        refused 'small' "$(table "$zones" /dev/mapper/exact $SMALL)"
        imr_remove exact
    done
    refused 'small' "0 $(data_sectors 2) imrsim /dev/ram0 0"
}

test_refused_features() {
    local zone phases
    zone=$(data_sectors 1 $SMALL)
    for phases in $(few 0 65 -1 2.5 4294967298 abc); do
        refused 'phases' "0 $zone imrsim /dev/ram0 0 6 $SMALL phases $phases"
    done
    refused 'phases' "0 $zone imrsim /dev/ram0 0 5 $SMALL phases"
    refused 'feature' "0 $zone imrsim /dev/ram0 0 1 speed"
    refused 'feature' "0 $zone imrsim /dev/ram0 0 2 speed 5"
    refused 'feature' "0 $zone imrsim /dev/ram0 0 6 $SMALL"
    refused 'feature' "0 $zone imrsim /dev/ram0 0 2 $SMALL"
    refused 'feature' "0 $zone imrsim /dev/ram0 0 0 $SMALL"
    refused 'feature' "0 $zone imrsim /dev/ram0 0 x $SMALL"
    refused 'feature' "0 $zone imrsim /dev/ram0 0 99999999999999999999 $SMALL"
    refused 'feature' "0 $zone imrsim /dev/ram0 0 8 $SMALL phases 2 phases 3"
    none_left
}

test_refused_geometry() {
    local numbers
    for numbers in '0 71 8' '57 0 8' '57 71 0' '72 71 8' 'x 71 8' '57 71 -8' '456 568 65' '1 1 32769' '4294967295 4294967295 4294967295'; do
        refused 'geometry' "0 8192 imrsim /dev/ram0 0 4 geometry $numbers"
    done
    refused 'geometry' "0 8192 imrsim /dev/ram0 0 3 geometry 57 71"
    none_left
}

# After all that was refused, nothing is held: the backing device can be had exclusively.
test_refused_lets_go() {
    refused 'phases' "0 8192 imrsim /dev/ram0 0 6 $SMALL phases 0"
    refused 'small' "0 $(data_sectors 2) imrsim /dev/ram0 0"
    mkdir -p /mnt/a
    mkfs.ext4 -q -F /dev/ram0 20000
    mount -t ext4 /dev/ram0 /mnt/a
    umount /mnt/a
}

test_accepted_tables() {
    local words
    for words in '' '0' '2 phases 1' '2 phases 64' "4 $SMALL" "6 phases 3 $SMALL" "6 $SMALL phases 3" '4 geometry 1 1 1' \
        '4 geometry 32768 32768 1' '4 geometry 1 65535 1'; do
        # shellcheck disable=SC2086
        set -- $words
        [ $# -eq 0 ] || shift
        blank /dev/ram0
        dm_create ok "0 $(data_sectors 1 "$@") imrsim /dev/ram0 0 $words"
        same 'zones' "$(stat ok zones)" 1
        same 'total' "$(stat ok total)" "$(zone_blocks "$@")"
        imr_remove ok
    done
}

# What 'dmsetup table' prints creates the same device.
test_table_round_trip() {
    local words line
    for words in '' '2 phases 5' "4 $SMALL" "6 phases 3 $SMALL"; do
        # shellcheck disable=SC2086
        set -- $words
        [ $# -eq 0 ] || shift
        START=16
        blank /dev/ram0
        dm_create first "$(table 1 /dev/ram0 "$@")"
        line=$(dmsetup table first)
        imr_remove first
        dm_create second "$line"
        same 'the table' "$(dmsetup table second)" "$line"
        imr_remove second
    done
}

test_limits() {
    local queue
    imr t /dev/ram0 1 $SMALL
    queue=/sys/block/$(basename "$(readlink -f /dev/mapper/t)")/queue
    [ -d "$queue" ] || queue=/sys/block/dm-$(dmsetup info -c --noheadings -o minor t)/queue
    same 'the logical block size' "$(cat "$queue/logical_block_size")" 512
    same 'the physical block size' "$(cat "$queue/physical_block_size")" 4096
    same 'the size' "$(blockdev --getsz /dev/mapper/t)" "$(data_sectors 1 $SMALL)"
}

test_status() {
    imr t /dev/ram0 2 $SMALL
    same 'zones' "$(stat t zones)" 2
    same 'total' "$(stat t total)" 2048
    same 'mapped' "$(stat t mapped)" 0
    same 'phases' "$(stat t phases)" 2
    iotool fill /dev/mapper/t --count 24
    same 'mapped' "$(stat t mapped)" 3
    same 'first_write_blocks' "$(stat t first_write_blocks)" 3
    same 'host_write_blocks' "$(stat t host_write_blocks)" 3
    same 'host_write_requests' "$(stat t host_write_requests)" 1
    same 'bottom_write_blocks' "$(stat t bottom_write_blocks)" 3
    iotool expect /dev/mapper/t --byte 0xa5 --count 24
    iotool expect /dev/mapper/t --at 24 --count 8
    same 'host_read_blocks' "$(stat t host_read_blocks)" 4
    same 'zero_read_blocks' "$(stat t zero_read_blocks)" 1
    same 'lines' "$(dmsetup status t | wc -l)" 1
}

test_messages() {
    imr t /dev/ram0 1 $SMALL
    message t allocation 3
    same 'phases' "$(stat t phases)" 3
    iotool fill /dev/mapper/t --count 8
    message t reset_statistics
    same 'host_write_blocks' "$(stat t host_write_blocks)" 0
    same 'mapped' "$(stat t mapped)" 1
    local words
    for words in 'allocation 0' 'allocation 65' 'allocation x' 'allocation' 'allocation 2 3' 'reset_statistics now' 'nonsense' 'Allocation 2'; do
        # shellcheck disable=SC2086
        expect_fail message t $words
        same 'phases' "$(stat t phases)" 3
    done
}

test_util() {
    need imrsim_util
    imr t /dev/ram0 3 $SMALL
    check util t l 5 3
    same 'phases' "$(stat t phases)" 3
    expect_fail util t l 5 0
    expect_fail util t l 5 65
    same 'phases' "$(stat t phases)" 3
    check util t l 4
    grep -q 3 /tmp/output || fail "the configuration does not show 3 phases"
    check util t z 1
    grep -qw 3 /tmp/output || fail "z 1 does not say 3 zones: $(cat /tmp/output)"
    check util t z 2
    grep -qw "$(data_sectors 1 $SMALL)" /tmp/output || fail "z 2 does not say the zone size: $(cat /tmp/output)"
    iotool fill /dev/mapper/t --count 80
    check util t s 1
    grep -qw 10 /tmp/output || fail "s 1 does not show 10 blocks written: $(cat /tmp/output)"
    check util t s 4
    same 'host_write_blocks' "$(stat t host_write_blocks)" 0
    expect_fail util t s 3 3
}

# fault_16: the last zone's counter always read 0.
test_last_zone_counts_fault_16() {
    need imrsim_util
    imr t /dev/ram0 3 $SMALL
    iotool fill /dev/mapper/t --at $((2 * $(data_sectors 1 $SMALL))) --count 136
    check util t s 3 2
    grep -qw 17 /tmp/output || fail "17 blocks were written to zone 2: $(cat /tmp/output)"
    check util t s 3 1
    grep -qw 17 /tmp/output && fail "zone 1 shows writes of zone 2"
    return 0
}

# Foreign ioctls reach the device below: the RAM disk's size, and its flush by blockdev.
test_foreign_ioctls() {
    imr t /dev/ram0 1 $SMALL
    blockdev --flushbufs /dev/mapper/t
    blockdev --getss /dev/mapper/t
    blockdev --setra 64 /dev/mapper/t
}
