# SPDX-License-Identifier: GPL-2.0-only
# Trace events and snapshots of zones: by hand for cases a reader can check, and recordings of drives under load, whose
# events have to lead to the very state the drive is in.
# shellcheck shell=sh

TRACING=/sys/kernel/tracing

# trace_on [EVENT...]: skips the test where the kernel has no trace events.
trace_on() {
    [ -d $TRACING/events/imrsim ] || skip 'this kernel has no trace events'
    echo >$TRACING/trace
    # Without the names of processes, for which code that all processors run would be patched.
    echo norecord-cmd >$TRACING/trace_options
    echo 1 >$TRACING/events/imrsim/enable
}
trace_off() { echo 0 >$TRACING/events/imrsim/enable; }

# traced: the events since trace_on, with their fields but for drive and number.
traced() {
    quiet
    sed -n 's/.*: \([a-z_]*\): dev=[0-9:]* seq=[0-9]* /\1 /p' $TRACING/trace
}

# traces WORD... : runs a command while events are on; 'expected' follows on stdin, without commits: they come when they
# come.
traces() {
    trace_on
    "$@"
    trace_off
    cat >/tmp/expected
    traced | grep -v ^commit >/tmp/found || :
    diff /tmp/expected /tmp/found >/tmp/output || fail "other events than expected: $(cat /tmp/output)"
}

# trace-cmd and perf read numbers, and look here for what they are called.
test_formats() {
    [ -d $TRACING/events/imrsim ] || skip 'this kernel has no trace events'
    grep -q '0, "read"' $TRACING/events/imrsim/map/format || fail "$(cat $TRACING/events/imrsim/map/format)"
    ! grep -q IMRSIM_OP_ $TRACING/events/imrsim/map/format || fail "$(cat $TRACING/events/imrsim/map/format)"
}

# In zones of 8 groups with tops of 57 blocks and bottoms of 71, group g begins at place 128 g; its bottom at 128 g + 57.
test_events_by_hand() {
    local t=/dev/mapper/t
    imr t /dev/ram0 2 $SMALL phases 2
    # First writes go to the bottom tracks, one behind another: block 5 is the first, so it lies at the first place.
    traces iotool fill $t --at 40 --count 8 <<'END'
map zone=0 op=write bo=5 nbo=57 blocks=1 edges=0 more=0 crosses=0
alloc zone=0 bo=5 nbo=57 blocks=1
END
    # A part of block 5: an update; block 6 is new, and its rest is zeros.
    traces iotool fill $t --at 46 --count 4 --request 4 <<'END'
map zone=0 op=write bo=5 nbo=57 blocks=1 edges=1 more=1 crosses=0
map zone=0 op=write bo=6 nbo=58 blocks=1 edges=1 more=0 crosses=0
alloc zone=0 bo=6 nbo=58 blocks=1
END
    # Reads: of what is there, and of what is not, over the end of the zone of 8,192 sectors.
    traces iotool expect $t --byte 0xa5 --at 41 --count 6 <<'END'
map zone=0 op=read bo=5 nbo=57 blocks=1 edges=2 more=0 crosses=0
END
    traces iotool expect $t --byte 0 --at 8184 --count 16 --request 16 <<'END'
map zone=0 op=read bo=1023 nbo=-1 blocks=1 edges=0 more=0 crosses=1
map zone=1 op=read bo=0 nbo=-1 blocks=1 edges=0 more=0 crosses=0
END
    traces message t allocation 3 <<'END'
strategy phases=3
END
    message t allocation 2
    # All blocks; then the first place of a bottom track lies under the first blocks of the tops 0 and 1.
    iotool fill $t --count 8192 --request 8
    traces iotool fill $t --at 40 --count 8 <<'END'
map zone=0 op=write bo=5 nbo=57 blocks=1 edges=0 more=0 crosses=0
rmw_start zone=0 nbo=57 blocks=1 first0=0 mask0=0x1 first1=128 mask1=0x1
rmw_done zone=0 nbo=57 ok=1
END
    # 7 / 71 * 57 = 5.6, 9 / 71 * 57 = 7.2: block 9 was written to the 9th place; under tops 6 and 7 of both sides.
    traces blkdiscard -o $((6 * 4096)) -l 8192 $t <<'END'
map zone=0 op=discard bo=6 nbo=-1 blocks=2 edges=0 more=0 crosses=0
unmap zone=0 bo=6 blocks=2
END
    traces message t reset_statistics 0 <<'END'
counters_reset zone=0
END
    traces message t reset_zone 0 <<'END'
map zone=0 op=reset bo=0 nbo=-1 blocks=1024 edges=0 more=0 crosses=0
unmap zone=0 bo=0 blocks=1024
END
    # A zone to which nothing was written has nothing to unmap, and no table: what is asked of it is seen all the same.
    traces iotool ask $t GET_SNAPSHOT zone=1 cookie=12345 <<'END'
snapshot zone=1 cookie=12345
END
    # Nothing, while nobody listens.
    echo >$TRACING/trace
    iotool fill $t --count 80
    same 'the number of events that nobody listens to' "$(traced | wc -l)" 0
}

test_commits() {
    imr t /dev/ram0 1 $SMALL
    trace_on
    iotool fill /dev/mapper/t --count 80 --request 8
    iotool flush /dev/mapper/t
    trace_off
    same 'changes that became durable' "$(traced | sed -n 's/^commit changes=//p' | awk '{ n += $1 } END { print n }')" 10
}

# What each kind of failure looks like.
test_events_of_failures() {
    local t=/dev/mapper/t behind
    dm_create below "0 $(blockdev --getsz /dev/ram0) linear /dev/ram0 0"
    behind=$(($(blockdev --getsz /dev/ram0) - 8192))
    imr t /dev/mapper/below 1 $SMALL
    iotool fill $t --count 8192 --request 8
    message t reset_zone 0
    iotool fill $t --count $((1000 * 8)) --request 8
    trace_on
    # The metadata, behind the zone, stay.
    swap_table below "0 8192 error
8192 $behind linear /dev/ram0 8192"
    expect_fail iotool fill $t --at 8160 --count 8
    expect_fail iotool fill $t --at 0 --count 8
    swap_table below "0 $(blockdev --getsz /dev/ram0) linear /dev/ram0 0"
    trace_off
    traced | grep -v ^commit >/tmp/found
    # The last top track has 57 places from 896 on; 568 bottom and 432 top blocks are taken.
    cat >/tmp/expected <<'END'
map zone=0 op=write bo=1020 nbo=929 blocks=1 edges=0 more=0 crosses=0
alloc zone=0 bo=1020 nbo=929 blocks=1
alloc_failed zone=0 bo=1020 nbo=929 blocks=1
map zone=0 op=write bo=0 nbo=57 blocks=1 edges=0 more=0 crosses=0
rmw_start zone=0 nbo=57 blocks=1 first0=0 mask0=0x1 first1=128 mask1=0x1
rmw_done zone=0 nbo=57 ok=0
END
    diff /tmp/expected /tmp/found >/tmp/output || fail "other events than expected: $(cat /tmp/output)"
    imr_remove t below
}

# The ioctl: what it refuses, and that a quiet one has a moment in which nothing is in flight.
test_snapshots() {
    local t=/dev/mapper/t load
    slow s /dev/ram0 2
    imr t /dev/mapper/s 2 $SMALL
    iotool fill $t --count 8192 --request 2048
    for words in 'zone=2' 'zone=18446744073709551615'; do refused 6 $words; done
    refused 22 zone=0 flags=2
    refused 28 zone=0 mapping_bytes=2303
    refused 28 zone=0 mapping_bytes=1
    check iotool ask $t GET_SNAPSHOT zone=0 mapping_bytes=2304
    check iotool ask $t GET_SNAPSHOT zone=0 mapping_bytes=4096 flags=1
    dmsetup suspend --noudevsync t
    refused 11 zone=0
    dmsetup resume --noudevsync t
    # Its table is on the device below now.
    same 'mapped after a resume' "$(ask_snapshot 'zone=0' mapped_blocks)" 1024
    fio --name=load --filename=$t --rw=randwrite --bs=4k --iodepth=16 --ioengine=libaio --direct=1 --size=4M --time_based \
        --runtime=60 >/tmp/fio 2>&1 &
    load=$!
    for _ in $(seq 50); do
        [ "$(ask_snapshot 'zone=0' writes_in_flight)" = 0 ] || break
        sleep 0.1
    done
    for _ in $(seq "$(scaled 50)"); do
        same 'writes in flight of a quiet zone' "$(ask_snapshot 'zone=0 flags=1' writes_in_flight)" 0
    done
    [ "$(ask_snapshot 'zone=0' writes_in_flight)" != 0 ] || fail 'nothing was in flight all the time'
    kill -INT $load
    wait $load || :
    grep -q 'err= 0' /tmp/fio || fail "fio failed: $(cat /tmp/fio)"
    imr_remove t s
}

# refused ERROR FIELD=NUMBER...
refused() {
    local number=$1 rc=0
    shift
    iotool ask /dev/mapper/t GET_SNAPSHOT "$@" >/tmp/output 2>&1 || rc=$?
    [ $rc = 3 ] && grep -q "(os error $number)" /tmp/output || fail "expected error $number, got $rc: $(cat /tmp/output): $*"
}

# ask_snapshot FIELDS NAME: a number of the answer.
ask_snapshot() {
    quiet
    # shellcheck disable=SC2086
    iotool ask /dev/mapper/t GET_SNAPSHOT $1 | sed -n "s/^$2[= ]*//p"
}

# recorded OUTPUT WORD...: records the drive t while a command runs. The recorder has compared what the events make of the
# zones with the drive; 'show' does it again, from the file alone.
recorded() {
    local file=$1
    shift
    [ -d $TRACING/events/imrsim ] || skip 'this kernel has no trace events'
    check imrsim_util record /dev/mapper/t -o "$file" "$@"
    cp /tmp/output /tmp/recorded
    cat /tmp/recorded
    check imrsim_util show --svg "$file" -o /tmp/picture.svg
}

# Four threads write and read pieces of blocks and discard, all over three zones, at the same time.
test_record_everything() { # limit 60
    imr t /dev/ram0 3 $SMALL
    recorded /tmp/all -- iotool model /dev/mapper/t --threads 4 --requests "$(scaled 1500)" --discards 30 --flushes 20 --longest 64
    # It goes on where it was: zones with something in them, and another strategy.
    message t allocation 3
    # Reads and writes at random, over what has places and what has not.
    recorded /tmp/zone --zone 1 -- fio --name=load --filename=/dev/mapper/t --rw=randrw --bsrange=4k-48k --iodepth=32 --ioengine=libaio \
        --direct=1 --size=12M --io_size="$(scaled 24)M" --output=/tmp/fio
    # The tables have to be loaded first.
    imr_remove t
    imr_create t /dev/ram0 3 $SMALL
    recorded /tmp/loaded -- fio --name=load --filename=/dev/mapper/t --rw=randwrite --bs=4k --iodepth=32 --ioengine=libaio \
        --direct=1 --size=12M --io_size="$(scaled 16)M" --output=/tmp/fio
    imr_remove t
}

# wait_for_recorder: until one that was started in the background has begun.
wait_for_recorder() {
    for _ in $(seq 100); do
        ! ls -d $TRACING/instances/imrsim-* >/dev/null 2>&1 || break
        sleep 0.1
    done
    sleep 1
}

# What is done besides reading and writing, until the recorder is told to end.
test_record_the_rest() {
    local recorder t=/dev/mapper/t
    [ -d $TRACING/events/imrsim ] || skip 'this kernel has no trace events'
    imr t /dev/ram0 3 $SMALL
    iotool fill $t --count 20000 --request 8
    imrsim_util record $t -o /tmp/rest >/tmp/recorder 2>&1 &
    recorder=$!
    wait_for_recorder
    blkdiscard -o 8192 -l 6291456 $t
    message t reset_zone 2
    message t reset_statistics
    message t allocation 3
    iotool fill $t --at 16000 --count 4096 --request 64
    kill -INT $recorder
    wait $recorder || fail "the recorder failed: $(cat /tmp/recorder)"
    check imrsim_util show --svg /tmp/rest -o /tmp/picture.svg
    grep -q '3-phase' /tmp/picture.svg || fail 'the picture does not show the new allocation'
    same 'instances that are left' "$(ls $TRACING/instances)" ''
    imr_remove t
}

# First writes and rewrites that fail now and then, for real: the device below is there for 1 s of 2.
test_record_failures() { # limit 60
    imr t /dev/ram0 1 $SMALL
    imr_remove t
    # The metadata never fail.
    dm_create below "0 8192 flakey /dev/ram0 0 1 1
8192 $(($(blockdev --getsz /dev/ram0) - 8192)) linear /dev/ram0 8192"
    imr_create t /dev/mapper/below 1 $SMALL
    recorded /tmp/failures -- iotool model /dev/mapper/t --threads 4 --seconds 5 --requests 10000000 --errors 1 --reads 30 --discards 20 --longest 32
    grep -q ' [1-9][0-9]* failed' /tmp/recorded || fail "nothing has failed: $(cat /tmp/recorded)"
    imr_remove t below
}

# Events that come faster than they are read are lost, and then there is no recording.
test_record_loses() {
    local recorder rc=0
    [ -d $TRACING/events/imrsim ] || skip 'this kernel has no trace events'
    imr t /dev/ram0 1 $SMALL
    imrsim_util record /dev/mapper/t --buffer 64k -o /tmp/lost >/tmp/recorder 2>&1 &
    recorder=$!
    wait_for_recorder
    kill -STOP $recorder
    for _ in 1 2 3; do iotool fill /dev/mapper/t --count 8192 --request 8; done
    kill -CONT $recorder
    sleep 0.5
    kill -INT $recorder 2>/dev/null || :
    wait $recorder || rc=$?
    same 'exit code' $rc 1
    grep -q 'lost' /tmp/recorder && grep -q -e '--buffer' /tmp/recorder || fail "it says: $(cat /tmp/recorder)"
    [ ! -e /tmp/lost ] || fail 'there is a recording'
    same 'instances that are left' "$(ls $TRACING/instances)" ''
    imr_remove t
}

test_record_refuses() {
    [ -d $TRACING/events/imrsim ] || skip 'this kernel has no trace events'
    imr t /dev/ram0 2 $SMALL
    chmod 644 /dev/mapper/t
    expect_fail nobody imrsim_util record /dev/mapper/t -o /tmp/refused -- true
    grep -q root /tmp/output || fail "nobody is told: $(cat /tmp/output)"
    expect_fail imrsim_util record /dev/mapper/t --zone 2 -o /tmp/refused -- true
    expect_fail imrsim_util record /dev/ram1 -o /tmp/refused -- true
    expect_fail imrsim_util record /dev/mapper/t -o /nowhere/refused -- true
    expect_fail imrsim_util record /dev/mapper/t -o /tmp/refused -- /nowhere/program
    [ ! -e /tmp/refused ] || fail 'there is a recording'
    same 'instances that are left' "$(ls $TRACING/instances)" ''
    # What the command ends with is passed on; what was recorded is kept.
    expect_fail imrsim_util record /dev/mapper/t -o /tmp/kept -- sh -c 'iotool fill /dev/mapper/t --count 80; exit 3'
    check imrsim_util show --svg /tmp/kept -o /tmp/picture.svg
    imr_remove t
}

# screen COMMAND: runs a command in a terminal of 100 columns and 30 rows, with what is typed on stdin.
screen() {
    need script
    script -q -e -c "stty cols 100 rows 30; $1" /tmp/typescript >/dev/null
}

# The live view, in a terminal; what it shows last is what the drive counted.
test_show() {
    local t=/dev/mapper/t load
    imr t /dev/ram0 3 $SMALL
    iotool fill $t --count 8192 --request 8
    check imrsim_util show $t --zone 0
    grep -q '^mapped  *1024 of 3072 blocks' /tmp/output || fail "it prints: $(cat /tmp/output)"
    same 'lines of tracks' "$(grep -c '57 *57 *100.00% *71 *71 *100.00%$' /tmp/output)" 8
    check imrsim_util show $t --json
    grep -q '"mapped_blocks": 1024' /tmp/output || fail "it prints: $(cat /tmp/output)"
    fio --name=load --filename=$t --rw=randwrite --bs=4k --direct=1 --size=4M --time_based --runtime=60 --rate_iops=200 >/tmp/fio 2>&1 &
    load=$!
    { sleep "$((4 * SLOWER))"; printf q; } | screen "imrsim_util show $t --interval 300ms" || fail 'the view ended badly'
    kill -INT $load
    wait $load || :
    grep -q 'Zone 0: mapped 100 %' /tmp/typescript || fail 'it does not show the zone'
    # Marks under tracks: where something was rewritten, which only trace events tell.
    [ ! -d $TRACING/events/imrsim ] || grep -q '!' /tmp/typescript || fail 'it does not show where rewrites are'
    same 'instances that are left' "$(ls $TRACING/instances 2>/dev/null)" ''
    imr_remove t
}

# However a recorder or a view ends, the drive is not traced any longer; what one that is killed leaves, the next clears up.
test_ends() { # limit 60
    local signal pid t=/dev/mapper/t
    [ -d $TRACING/events/imrsim ] || skip 'this kernel has no trace events'
    imr t /dev/ram0 1 $SMALL
    for signal in HUP TERM KILL QUIT; do
        imrsim_util record $t -o /tmp/$signal >/tmp/recorder 2>&1 &
        pid=$!
        wait_for_recorder
        iotool fill $t --count 80
        kill -$signal $pid
        wait $pid || :
        [ $signal = KILL ] || check imrsim_util show --svg /tmp/$signal -o /tmp/picture.svg
        [ $signal = KILL ] || same "instances after $signal" "$(ls $TRACING/instances)" ''
    done
    need script
    for signal in HUP TERM; do
        # The view is the child of script's shell.
        sleep "$((4 * SLOWER))" | screen "imrsim_util show $t" &
        pid=$!
        wait_for_recorder
        ls $TRACING/instances | grep -q imrsim-show || fail 'the view does not look at events'
        killall -$signal imrsim_util
        wait $pid || :
        same "instances after $signal" "$(ls $TRACING/instances)" ''
    done
    imr_remove t
}

# A drive that is suspended when its recording ends is waited for.
test_record_waits_for_resume() {
    local pid t=/dev/mapper/t
    [ -d $TRACING/events/imrsim ] || skip 'this kernel has no trace events'
    imr t /dev/ram0 1 $SMALL
    imrsim_util record $t -o /tmp/resumed >/tmp/recorder 2>&1 &
    pid=$!
    wait_for_recorder
    iotool fill $t --count 80
    dmsetup suspend --noudevsync t
    kill -INT $pid
    sleep 1
    dmsetup resume --noudevsync t
    wait $pid || fail "the recorder failed: $(cat /tmp/recorder)"
    check imrsim_util show --svg /tmp/resumed -o /tmp/picture.svg
    imr_remove t
}
