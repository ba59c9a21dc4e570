# SPDX-License-Identifier: GPL-2.0-only
# Errors under the metadata, and at random under everything: the host sees them, nothing hangs, and what was promised
# stays.
# shellcheck shell=sh

# below ZONES: a drive's place as a device 'below'; 'good' is its table, 'bad_metadata KIND' one whose metadata fails.
below() {
    DATA=$(data_sectors "$1" $SMALL)
    META=$(metadata_sectors "$1" $SMALL)
    fresh /dev/ram0 "$1" $SMALL
    dm_create below "$(good)"
}
good() { echo "0 $((DATA + META)) linear /dev/ram0 0"; }
bad_metadata() { printf '%s\n' "0 $DATA linear /dev/ram0 0" "$DATA $META flakey /dev/ram0 $DATA 0 3600 1 $1"; }
sum() { quiet; sha256sum "$1" | cut -d' ' -f1; }
mode() { quiet; dmsetup status "$1" | cut -d' ' -f4; }

# io_error COMMAND...: fails with EIO.
io_error() {
    local rc=0
    "$@" >/tmp/output 2>&1 || rc=$?
    [ "$rc" = 3 ] && grep -q 'os error 5' /tmp/output || fail "expected an I/O error (exit code 3): $rc, $(cat /tmp/output): $*"
}

# broken: a drive of which the first 800 blocks are durable with byte 1, and whose metadata cannot be written.
broken() {
    below 2
    imr_create t /dev/mapper/below 2 $SMALL
    iotool fill /dev/mapper/t --byte 1 --count 6400
    iotool flush /dev/mapper/t
    swap_table below "$(bad_metadata error_writes)"
    iotool fill /dev/mapper/t --byte 2 --at 6400 --count 800
    io_error iotool flush /dev/mapper/t
    same 'mode' "$(mode t)" fail
    kernel_said 'writes fail from now on' || fail 'nothing in the log'
    # Writes fail, new ones and overwrites; reads go on.
    io_error iotool fill /dev/mapper/t --byte 3 --at 8000 --count 8
    io_error iotool fill /dev/mapper/t --byte 3 --at 0 --count 8
    io_error iotool fill /dev/mapper/t --byte 3 --at 8192 --count 8
    io_error iotool flush /dev/mapper/t
    check iotool expect /dev/mapper/t --byte 1 --count 6400
    check iotool expect /dev/mapper/t --byte 2 --at 6400 --count 800
    check iotool expect /dev/mapper/t --at 8192 --count 8192
}

# recovered: what was durable is there; of what was not, each block is old or new; all can be used.
recovered() {
    same 'mode' "$(mode t)" rw
    check iotool expect /dev/mapper/t --byte 1 --count 6400
    iotool expect /dev/mapper/t --byte 2 --at 6400 --count 800 >/tmp/output ||
        check iotool expect /dev/mapper/t --at 6400 --count 800
    iotool fill /dev/mapper/t --byte 4
    iotool flush /dev/mapper/t
    imr_remove t
    imr_create t /dev/mapper/below 2 $SMALL
    check iotool expect /dev/mapper/t --byte 4
}

test_resume_recovers() { # limit 60
    broken
    swap_table below "$(good)"
    # The cause is gone, but only a resume tries again.
    io_error iotool fill /dev/mapper/t --byte 3 --count 8
    same 'mode' "$(mode t)" fail
    dmsetup suspend --noudevsync t
    dmsetup resume --noudevsync t
    recovered
}

test_new_table_recovers() { # limit 60
    broken
    swap_table below "$(good)"
    table 2 /dev/mapper/below $SMALL | dmsetup load t
    dmsetup resume --noudevsync t
    recovered
}

# As long as the cause is there a resume fails, and says so; it can be tried again.
test_resume_without_metadata() { # limit 60
    broken
    dmsetup suspend --noudevsync t
    expect_fail dmsetup resume --noudevsync t
    swap_table below "$(printf '%s\n' "0 $DATA linear /dev/ram0 0" "$DATA $META error")"
    expect_fail dmsetup resume --noudevsync t
    kernel_said 'metadata cannot be read' || fail 'nothing in the log'
    swap_table below "$(good)"
    dmsetup resume --noudevsync t
    recovered
}

# A failed drive can be removed at once, with writes under way.
test_remove_failed() { # limit 60
    local load
    below 32
    imr_create t /dev/mapper/below 32 $SMALL
    crashtool write /dev/mapper/t --ops /tmp/ops --errors 1 --threads 8 --requests 100000 --seconds 3 \
        >/tmp/load &
    load=$!
    sleep 1
    swap_table below "$(bad_metadata error_writes)"
    wait $load || fail "$(tail -n 1 /tmp/load)"
    same 'mode' "$(mode t)" fail
    imr_remove t
    swap_table below "$(good)"
    imr_create t /dev/mapper/below 32 $SMALL
    check crashtool verify /dev/mapper/t --open 1 --ops /tmp/ops
}

# Metadata that is written fails only in the middle of a checkpoint: slots, not the journal.
test_slots_cannot_be_written() { # limit 60
    local slots
    below 4
    slots=$((DATA + META - 4 * 2 * 16))
    imr_create t /dev/mapper/below 4 $SMALL
    swap_table below "$(printf '%s\n' "0 $slots linear /dev/ram0 0" \
        "$slots $((DATA + META - slots)) flakey /dev/ram0 $slots 0 3600 1 error_writes")"
    crashtool write /dev/mapper/t --ops /tmp/ops --errors 1 --threads 8 --requests 200 --flushes 300 >/tmp/load ||
        fail "$(tail -n 1 /tmp/load)"
    same 'mode' "$(mode t)" fail
    swap_table below "$(good)"
    dmsetup suspend --noudevsync t
    dmsetup resume --noudevsync t
    same 'mode' "$(mode t)" rw
    check crashtool verify /dev/mapper/t --open 1 --ops /tmp/ops
}

# One copy of everything that has two cannot be read: it is not needed.
test_unreadable_copies() { # limit 60
    local data first journal slot block
    below 2
    imr_create t /dev/mapper/below 2 $SMALL
    iotool fill /dev/mapper/t --byte 1 --count 6400
    iotool flush /dev/mapper/t
    data=$(sum /dev/mapper/t)
    journal=$((DATA + 32))
    # Cut the power: the journal is needed. The first superblock and the first copy of the first entry.
    swap_table below "0 $((DATA + META)) error"
    imr_remove t
    swap_table below "$(good)"
    dm_create dust "0 $((DATA + META)) dust /dev/mapper/below 0 4096"
    for first in $DATA $journal; do dmsetup message dust 0 addbadblock $((first / 8)); done
    dmsetup message dust 0 enable
    imr_create t /dev/mapper/dust 2 $SMALL
    same 'data' "$(sum /dev/mapper/t)" "$data"
    iotool fill /dev/mapper/t --byte 5
    imr_remove t
    imr_create t /dev/mapper/dust 2 $SMALL
    check iotool expect /dev/mapper/t --byte 5
    imr_remove t
    # A zone whose table cannot be read: its reads fail, the others are right.
    slot=$((DATA + META - 2 * 2 * 16))
    for block in 0 1 2 3; do dmsetup message dust 0 addbadblock $((slot / 8 + block)); done
    imr_create t /dev/mapper/dust 2 $SMALL
    io_error iotool expect /dev/mapper/t --byte 5 --count 8
    io_error iotool fill /dev/mapper/t --byte 6 --count 8
    check iotool expect /dev/mapper/t --byte 5 --at 8192 --count 8192
    dmsetup message dust 0 disable
    check iotool expect /dev/mapper/t --byte 5
}

# damaged_beside POSITION: a drive that was stopped in good order, and of whose zone 0 only the slot before the one that
# counts is left, with all records of the journal before POSITION.
damaged_beside() {
    fresh /dev/ram0 2 $SMALL
    for byte in 1 2; do
        imr_create t /dev/ram0 2 $SMALL
        iotool fill /dev/mapper/t --byte $byte --at $((byte * 800)) --count 800
        iotool fill /dev/mapper/t --byte $byte --at $((8192 + byte * 800)) --count 800
        imr_remove t
    done
    crashtool patch /dev/ram0 --sector $((DATA + META - 4 * 16)) --offset 48 --bytes 8 --value "$1"
    crashtool patch /dev/ram0 --sector $((DATA + META - 4 * 16)) --offset 56 --bytes 2 --value 0
    iotool fill /dev/ram0 --byte 0xc3 --at $((DATA + META - 3 * 16)) --count 1
}

# checked CODE: what 'imrsim_util check' ends with.
checked() {
    local rc=0
    imrsim_util check /dev/ram0 --geometry 57,71,8 >/tmp/output || rc=$?
    same "exit code of 'imrsim_util check'" $rc "$1"
}

# An older table is taken if the journal has all that it lacks, but none that has more than the journal: that has lost
# something then. The other zones are right.
test_older_table_with_more_than_the_journal() { # limit 60
    local head
    DATA=$(data_sectors 2 $SMALL)
    META=$(metadata_sectors 2 $SMALL)
    damaged_beside 0
    head=$(dd if=/dev/ram0 bs=8 skip=$((DATA * 64 + 13)) count=1 2>/dev/null | od -A n -t u8)
    head=$((head))
    damaged_beside $head
    checked 3
    imr_create t /dev/ram0 2 $SMALL
    check iotool expect /dev/mapper/t --byte 1 --at 800 --count 800
    kernel_said 'zone 0: the newer table is damaged' || fail 'nothing in the log'
    imr_remove t

    damaged_beside $((head + 1))
    checked 4
    dmesg -c >/dev/null
    imr_create t /dev/ram0 2 $SMALL
    io_error iotool expect /dev/mapper/t --byte 1 --at 800 --count 800
    kernel_said 'zone 0: the journal is damaged' || fail "the kernel said: $(dmesg | tail -n 3)"
    check iotool expect /dev/mapper/t --byte 2 --at $((8192 + 1600)) --count 800
}

# Errors that come and go under everything. After each failure a resume; no promise is broken. The drive is so large, and
# the requests are so small, that there are first writes to the end: without them there is no metadata to be written.
test_errors_that_come_and_go() { # limit 180
    local round first=1 known='' failed=0 kind
    below 40
    for round in 0 1 2 3 4 5; do
        case $round in
            0 | 3) kind="flakey /dev/ram0 0 1 1 1 error_writes" ;;
            1 | 4) kind="flakey /dev/ram0 0 1 1" ;;
            *) kind="flakey /dev/ram0 0 1 1 2 error_reads error_writes" ;;
        esac
        imr_create t /dev/mapper/below 40 $SMALL
        if [ -n "$known" ]; then check crashtool verify /dev/mapper/t --open 1 --round 1000000 --ops "$known"; fi
        swap_table below "0 $((DATA + META)) $kind"
        crashtool write /dev/mapper/t --ops /tmp/ops$round --first $((round * 1000000 + 1)) --seed "$round" --errors 1 --threads 6 \
            --longest 8 --requests 1000000 --seconds $((3 + SCALE / 2)) >/tmp/load || fail "$(tail -n 1 /tmp/load)"
        [ "$(mode t)" = rw ] || failed=$((failed + 1))
        # Removing it is a stop in good order, or not, as it comes.
        imr_remove t
        swap_table below "$(good)"
        known="$known${known:+,}/tmp/ops$round"
    done
    imr_create t /dev/mapper/below 40 $SMALL
    check crashtool verify /dev/mapper/t --open 1 --round 1000000 --ops "$known"
    echo "failed in $failed of 6 rounds; $(cat /tmp/output)"
    [ $failed -gt 0 ] || fail 'it never failed'
}
