# SPDX-License-Identifier: GPL-2.0-only
# The device below fails: the host sees it, nothing hangs, nothing is half done. fault_20 (an error that
# device-mapper answers with BUG()) is covered by every one of these.
# shellcheck shell=sh

# Two zones of data, and room for their metadata, which does not fail in most of these tests.
DATA=16384
SECTORS=24576

linear() { echo "0 $SECTORS linear /dev/ram0 0"; }
metadata() { echo "$DATA $((SECTORS - DATA)) linear /dev/ram0 $DATA"; }

# failing_data KIND: below, where I/O to the data fails: error, error_reads or error_writes.
failing_data() {
    case $1 in
        error) echo "0 $DATA error" ;;
        *) echo "0 $DATA flakey /dev/ram0 0 0 3600 1 $1" ;;
    esac
    metadata
}

# below: a drive of two zones, all of its first zone mapped, on a device whose table can be swapped.
below() {
    fresh /dev/ram0 2 $SMALL
    dm_create below "$(linear)"
    imr_create t /dev/mapper/below 2 $SMALL "$@"
    iotool fill /dev/mapper/t --byte 1 --count $((1024 * 8))
    same 'mapped' "$(stat t mapped)" 1024
}

# io_error COMMAND...: fails with EIO.
io_error() {
    local rc=0
    "$@" >/tmp/output 2>&1 || rc=$?
    [ "$rc" = 3 ] && grep -q 'os error 5' /tmp/output || fail "expected an I/O error (exit code 3): $rc, $(cat /tmp/output): $*"
}

# physical BLOCK: where a block of the first zone lies below if it was filled in order with 2 phases.
physical() {
    local block=$1
    if [ "$block" -lt 568 ]; then
        echo $((block / 71 * 128 + 57 + block % 71))
    else
        block=$((block - 568))
        echo $((block / 57 * 128 + block % 57))
    fi
}

# bad_block KIND BLOCK: below, one block of 8 sectors where I/O fails; KIND is error_reads or error_writes.
bad_block() {
    local at=$(($2 * 8))
    printf '%s\n' "0 $at linear /dev/ram0 0" "$at 8 flakey /dev/ram0 $at 0 3600 1 $1" \
        "$((at + 8)) $((SECTORS - at - 8)) linear /dev/ram0 $((at + 8))" | sed '/ 0 linear/d'
}

test_all_fails() {
    below
    swap_table below "$(failing_data error)"
    io_error iotool expect /dev/mapper/t --byte 1 --count 8
    io_error iotool fill /dev/mapper/t --byte 2 --count 8
    io_error iotool fill /dev/mapper/t --byte 2 --at $((600 * 8)) --count 8
    io_error iotool fill /dev/mapper/t --byte 2 --at 3 --count 700 --request 700
    # What was never written needs no device.
    check iotool expect /dev/mapper/t --at 8192 --count 8192
    swap_table below "$(linear)"
    check iotool expect /dev/mapper/t --byte 1 --at $((100 * 8)) --count $((924 * 8 - 8))
    iotool fill /dev/mapper/t --byte 3
    check iotool expect /dev/mapper/t --byte 3
}

# A first write that fails leaves the block unmapped: it reads as zeros, not as what is below.
test_failed_first_write_is_unmapped() {
    local kind
    below
    for kind in error error_writes; do
        swap_table below "$(failing_data $kind)"
        io_error iotool fill /dev/mapper/t --byte 2 --at 8192 --count 8
        io_error iotool fill /dev/mapper/t --byte 2 --at 8203 --count 2
        io_error iotool fill /dev/mapper/t --byte 2 --at 8300 --count 1000
        same 'mapped' "$(stat t mapped)" 1024
        check iotool expect /dev/mapper/t --at 8192 --count 8192
        swap_table below "$(linear)"
        check iotool expect /dev/mapper/t --at 8192 --count 8192
        same 'mapped' "$(stat t mapped)" 1024
    done
    # The space is not lost: all blocks can still be mapped.
    use_all t
    same 'mapped' "$(stat t mapped)" 2048
    check iotool expect /dev/mapper/t --byte 0
}

# A neighbouring top block cannot be read: the bottom block's write fails. The other way round, a bottom block
# that does not need it is written.
test_failed_neighbour_read() {
    below
    # Bottom block 7 of group 0 lies under top block 7 * 57 / 71 = 5 of tracks 0 and 1.
    swap_table below "$(bad_block error_reads "$(physical $((568 + 5)))")"
    io_error iotool fill /dev/mapper/t --byte 2 --at $((7 * 8)) --count 8
    io_error iotool fill /dev/mapper/t --byte 2 --at $((7 * 8 + 3)) --count 1
    io_error iotool fill /dev/mapper/t --byte 2 --count $((71 * 8))
    io_error iotool expect /dev/mapper/t --byte 1 --at $((573 * 8)) --count 8
    check iotool fill /dev/mapper/t --byte 2 --at $((9 * 8)) --count 8
    swap_table below "$(linear)"
    check iotool expect /dev/mapper/t --byte 1 --at $((71 * 8)) --count $((953 * 8))
    check iotool expect /dev/mapper/t --byte 2 --at $((9 * 8)) --count 8
}

# A neighbouring top block cannot be written back: the host's write fails, and the top block is what it was.
test_failed_write_back() {
    below
    swap_table below "$(bad_block error_writes "$(physical $((568 + 57 + 5)))")"
    io_error iotool fill /dev/mapper/t --byte 2 --at $((7 * 8)) --count 8
    io_error iotool fill /dev/mapper/t --byte 2 --at $((573 * 8 + 57 * 8)) --count 8
    check iotool fill /dev/mapper/t --byte 2 --at $((9 * 8)) --count 8
    swap_table below "$(linear)"
    check iotool expect /dev/mapper/t --byte 1 --at $((71 * 8)) --count $((953 * 8))
}

# The bottom block itself cannot be written: the tops are what they were.
test_failed_bottom_write() {
    below
    swap_table below "$(bad_block error_writes "$(physical 7)")"
    io_error iotool fill /dev/mapper/t --byte 2 --at $((7 * 8)) --count 8
    check iotool fill /dev/mapper/t --byte 2 --at $((8 * 8)) --count 8
    swap_table below "$(linear)"
    check iotool expect /dev/mapper/t --byte 1 --at $((9 * 8)) --count $((1015 * 8))
    check iotool fill /dev/mapper/t --byte 2 --at $((7 * 8)) --count 8
    check iotool expect /dev/mapper/t --byte 2 --at $((7 * 8)) --count 16
}

# A long request with one bad block in it: it fails, and what lies outside is untouched.
test_bad_block_in_long_request() {
    below
    swap_table below "$(bad_block error_writes "$(physical 300)")"
    io_error iotool fill /dev/mapper/t --byte 2 --at $((200 * 8)) --count $((200 * 8)) --request 1600
    swap_table below "$(linear)"
    check iotool expect /dev/mapper/t --byte 1 --count $((200 * 8))
    check iotool expect /dev/mapper/t --byte 1 --at $((400 * 8)) --count $((624 * 8))
}

# dm-dust: reads of a bad block fail until it is written again.
test_dust() {
    fresh /dev/ram0 2 $SMALL
    dm_create below "0 $SECTORS dust /dev/ram0 0 4096"
    imr_create t /dev/mapper/below 2 $SMALL
    iotool fill /dev/mapper/t --byte 1 --count $((1024 * 8))
    dmsetup message below 0 addbadblock "$(physical 568)"
    dmsetup message below 0 addbadblock "$(physical 20)"
    dmsetup message below 0 enable
    io_error iotool expect /dev/mapper/t --byte 1 --at $((20 * 8)) --count 8
    # Bottom block 0 lies under top block 0, which cannot be read.
    io_error iotool fill /dev/mapper/t --byte 2 --count 8
    # A write in whole heals a block; in part, too, for dust.
    check iotool fill /dev/mapper/t --byte 3 --at $((568 * 8)) --count 8
    check iotool fill /dev/mapper/t --byte 3 --count 8
    check iotool fill /dev/mapper/t --byte 3 --at $((20 * 8)) --count 8
    check iotool expect /dev/mapper/t --byte 3 --at $((20 * 8)) --count 8
    check iotool expect /dev/mapper/t --byte 1 --at $((569 * 8)) --count 800
}

# errors: causes of the last failed read and write, their errors, their zones, and how many there were.
errors() {
    quiet
    iotool ask /dev/mapper/t GET_ERRORS | grep -v -e flags -e logging | cut -d= -f2 | tr '\n' ' ' | sed 's/ $//'
}

# What the device below refuses is remembered as such, and told in the log when that is wanted.
test_causes() {
    local all=18446744073709551615
    below
    message t log_errors on
    swap_table below "$(failing_data error)"
    io_error iotool expect /dev/mapper/t --byte 1 --count 8
    same 'a read' "$(errors)" "1 0 5 0 0 $all 1 0"
    kernel_said 'imrsim: .*read failed in zone 0: The backing device' || fail "nothing in the log: $(dmesg | tail -n 3)"
    # A first write; it is to zone 1.
    io_error iotool fill /dev/mapper/t --byte 2 --at 8192 --count 8
    same 'a write' "$(errors)" '1 1 5 5 0 1 1 1'
    swap_table below "$(bad_block error_reads "$(physical $((568 + 5)))")"
    # A neighbouring block cannot be read: that is an error of the write.
    io_error iotool fill /dev/mapper/t --byte 2 --at $((7 * 8)) --count 8
    same 'a rewrite' "$(errors)" '1 1 5 5 0 0 1 2'
    # What other drives do is none of its errors; what is forgotten is.
    message t errors clear
    same 'forgotten' "$(errors)" "0 0 0 0 $all $all 0 0"
    # Writes that are not taken any more, as the metadata cannot be written.
    swap_table below "$(printf '%s\n' "0 $DATA linear /dev/ram0 0" "$DATA $((SECTORS - DATA)) flakey /dev/ram0 $DATA 0 3600 1 error_writes")"
    iotool fill /dev/mapper/t --byte 2 --at 8192 --count 8
    io_error iotool flush /dev/mapper/t
    io_error iotool fill /dev/mapper/t --byte 2 --count 8
    same 'the cause' "$(errors | cut -d' ' -f2,4)" '4 5'
    # Nor can anything be set.
    io_error iotool ask /dev/mapper/t SET_SETTING setting=0 value=5
    expect_fail message t allocation 5
    same 'phases' "$(stat t phases)" 2
    check iotool expect /dev/mapper/t --byte 1 --at 800 --count 800
}

# The device below fails and recovers over and over under random I/O. A failed write may or may not have
# happened; nothing else may be wrong.
test_flapping() { # limit 90
    local load phases
    for phases in 2 3; do
        fresh /dev/ram0 2 $SMALL
        dm_create below "$(linear)"
        imr_create t /dev/mapper/below 2 $SMALL phases $phases
        use_all t
        iotool model /dev/mapper/t --threads 8 --piece 24 --longest 24 --seconds $((3 + SCALE)) --errors 1 >/tmp/load &
        load=$!
        sleep 0.2
        for _ in 1 2 3 4 5; do
            swap_table below "$(failing_data error)"
            sleep 0.1
            swap_table below "$(failing_data error_writes)"
            sleep 0.2
            swap_table below "$(linear)"
            sleep 0.3
        done
        wait $load || fail "phases $phases: $(tail -n 1 /tmp/load)"
        tail -n 1 /tmp/load
        grep -q ' 0 failed' /tmp/load && fail "nothing failed"
        imr_remove t below
    done
}

# The same on a drive never written before, where first writes fail.
test_flapping_first_writes() { # limit 60
    local load
    fresh /dev/ram0 2 $SMALL
    dm_create below "$(linear)"
    imr_create t /dev/mapper/below 2 $SMALL
    iotool model /dev/mapper/t --threads 8 --piece 3 --requests "$(scaled 6000)" --errors 1 >/tmp/load &
    load=$!
    while kill -0 $load 2>/dev/null; do
        swap_table below "$(failing_data error_writes)"
        sleep 0.1
        swap_table below "$(linear)"
        sleep 0.1
    done
    wait $load || fail "$(tail -n 1 /tmp/load)"
    tail -n 1 /tmp/load
    imr_remove t below
}

# A failing device below does not keep the drive from being removed.
test_remove_while_failing() {
    local load
    below
    swap_table below "0 $SECTORS error"
    iotool model /dev/mapper/t --threads 4 --requests 100 --errors 1 --flushes 100 >/dev/null &
    load=$!
    wait $load || :
    imr_remove t
    imr_remove below
}

# flushes: how many flushes the disk has had.
flushes() { awk '{print $16}' /sys/block/vda/stat; }

# fault_11: a flush was taken for a write of block 0. It passes through, and changes and counts nothing.
test_flush_passes_through_fault_11() {
    local before counters
    [ -b /dev/vda ] || skip "no /dev/vda"
    blkdiscard /dev/vda
    imr_create t /dev/vda 1 $SMALL
    counters=$(dmsetup status t)
    before=$(flushes)
    iotool flush /dev/mapper/t
    iotool flush /dev/mapper/t
    [ "$(flushes)" -ge $((before + 2)) ] || fail "2 flushes of the drive are $(($(flushes) - before)) of the disk"
    same 'the status' "$(dmsetup status t)" "$counters"
    use_all t
    counters=$(dmsetup status t)
    iotool flush /dev/mapper/t
    same 'the status' "$(dmsetup status t)" "$counters"
    check iotool expect /dev/mapper/t --count 8
    # fsync of a file reaches the disk.
    mkfs.ext4 -q -F /dev/mapper/t 1024
    mkdir -p /mnt/fs
    mount -t ext4 /dev/mapper/t /mnt/fs
    before=$(flushes)
    dd if=/bin/busybox of=/mnt/fs/file bs=64k count=2 conv=fsync 2>/dev/null
    [ "$(flushes)" -gt "$before" ] || fail "an fsync caused no flush"
    umount /mnt/fs
}

# A device below that has no cache has nothing to flush, but what is mapped must become durable all the same: after a
# flush, what lies on the device at that moment is all that is needed.
test_flush_without_a_cache() {
    fresh /dev/ram0 1 $SMALL
    dm_create below "$(linear)"
    imr_create t /dev/mapper/below 1 $SMALL
    iotool fill /dev/mapper/t --byte 7 --count 4000
    iotool flush /dev/mapper/t
    dmsetup suspend --noudevsync --noflush below
    dd if=/dev/ram0 of=/dev/ram1 bs=1M count=12 iflag=direct oflag=direct 2>/dev/null
    dmsetup resume --noudevsync below
    imr_create copy /dev/ram1 1 $SMALL
    check iotool expect /dev/mapper/copy --byte 7 --count 4000
}

# Synchronous writes and flushes under load.
test_synchronous_writes() { # limit 60
    local before
    [ -b /dev/vda ] || skip "no /dev/vda"
    blkdiscard /dev/vda
    imr_create t /dev/vda 1 $SMALL
    use_all t
    before=$(flushes)
    fio_run /dev/mapper/t --name=sync --rw=randwrite --verify=crc32c --bs=4k --sync=dsync --size=4m --io_size="$(scaled 1024)k" --iodepth=8
    [ "$(flushes)" -gt "$before" ] || fail "synchronous writes caused no flush"
    fio_run /dev/mapper/t --name=fsync --rw=randwrite --verify=crc32c --bs=4k --fsync=8 --size=4m --io_size="$(scaled 1024)k" --iodepth=8
}

# A flush that fails below fails above. On the disk: RAM disks have no cache, and nothing to flush.
test_failed_flush() {
    [ -b /dev/vda ] || skip "no /dev/vda"
    blkdiscard /dev/vda
    dm_create below "0 $SECTORS linear /dev/vda 0"
    imr_create t /dev/mapper/below 2 $SMALL
    check iotool flush /dev/mapper/t
    swap_table below "0 $SECTORS flakey /dev/vda 0 0 3600 1 error_writes"
    io_error iotool flush /dev/mapper/below
    io_error iotool flush /dev/mapper/t
    # The metadata could not be written either: the drive has failed until its table is loaded anew.
    swap_table below "0 $SECTORS linear /dev/vda 0"
    imr_remove t
    imr_create t /dev/mapper/below 2 $SMALL
    check iotool flush /dev/mapper/t
}

# fault_12: a discard destroyed blocks outside its range. Now it is refused, or precise.
test_discard_fault_12() {
    imr t /dev/ram0 1 $SMALL
    iotool fill /dev/mapper/t --byte 1
    if blkdiscard -o $((100 * 4096)) -l 1048576 /dev/mapper/t 2>/dev/null; then echo "discards are supported"; fi
    check iotool expect /dev/mapper/t --byte 1 --count 800
    check iotool expect /dev/mapper/t --byte 1 --at $((356 * 8)) --count $((668 * 8))
    # Zeroing works in any case, by writes if need be.
    # Not busybox's, which the shell would take.
    check /bin/blkdiscard -z -o $((100 * 4096)) -l 1048576 /dev/mapper/t
    check iotool expect /dev/mapper/t --byte 0 --at 800 --count 2048
    check iotool expect /dev/mapper/t --byte 1 --count 800
    check iotool expect /dev/mapper/t --byte 1 --at $((356 * 8)) --count $((668 * 8))
}
