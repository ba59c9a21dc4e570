# SPDX-License-Identifier: GPL-2.0-only
# What is counted: by hand for cases a reader can check, and against the simulator for many requests.
# shellcheck shell=sh

# counts NAME KEY VALUE...: numbers of the status line.
counts() {
    local name=$1
    shift
    while [ $# -gt 0 ]; do
        same "$1" "$(stat "$name" "$1")" "$2"
        shift 2
    done
}

# The zone has 8 track groups: 8 * 71 = 568 bottom blocks, 8 * 57 = 456 top blocks. A bottom track is under two
# tops, but for the last one of the zone, which is under one.

test_two_phases_by_hand() {
    imr t /dev/ram0 1 $SMALL phases 2
    # One block in each request: first all bottoms, then all tops; nothing is in the way.
    iotool fill /dev/mapper/t --request 8
    counts t host_write_requests 1024 host_write_blocks 1024 first_write_blocks 1024 update_blocks 0 \
        bottom_write_blocks 568 top_write_blocks 456 rmw_one_neighbour 0 rmw_two_neighbours 0 rmw_read_blocks 0 extra_write_blocks 0
    message t reset_statistics
    # Updates: 7 * 71 bottoms rewrite two top blocks, 71 rewrite one.
    iotool fill /dev/mapper/t --request 8
    counts t host_write_requests 1024 host_write_blocks 1024 first_write_blocks 0 update_blocks 1024 \
        bottom_write_blocks 568 top_write_blocks 456 rmw_one_neighbour 71 rmw_two_neighbours 497 \
        rmw_read_blocks 1065 extra_write_blocks 1065
    message t reset_statistics
    iotool expect /dev/mapper/t --byte 0xa5 --request 8
    counts t host_read_requests 1024 host_read_blocks 1024 zero_read_blocks 0 host_write_requests 0
}

test_one_phase_by_hand() {
    imr t /dev/ram0 1 $SMALL phases 1
    # In place: each bottom track is written when the top before it is in use and the one behind is not.
    iotool fill /dev/mapper/t --request 8
    counts t first_write_blocks 1024 rmw_one_neighbour 568 rmw_two_neighbours 0 extra_write_blocks 568
    message t reset_statistics
    iotool fill /dev/mapper/t --request 8
    counts t update_blocks 1024 rmw_one_neighbour 71 rmw_two_neighbours 497 extra_write_blocks 1065
}

test_three_phases_by_hand() {
    imr t /dev/ram0 1 $SMALL phases 3
    # The bottoms and the even tops, 0, 2, 4 and 6: each bottom track is under one of them, but for the last one,
    # which is only under top 7.
    iotool fill /dev/mapper/t --request 8 --count $(((568 + 4 * 57) * 8))
    message t reset_statistics
    iotool fill /dev/mapper/t --request 8 --count $((568 * 8))
    counts t update_blocks 568 bottom_write_blocks 568 rmw_one_neighbour 497 rmw_two_neighbours 0 extra_write_blocks 497
}

# Requests are counted once, blocks by what is touched.
test_partial_blocks_by_hand() {
    imr t /dev/ram0 2 $SMALL
    # 2 sectors in one block; 2 sectors in two blocks; 24 sectors from the middle of a block: 4 blocks.
    iotool fill /dev/mapper/t --at 1 --count 2
    counts t host_write_requests 1 host_write_blocks 1 first_write_blocks 1
    iotool fill /dev/mapper/t --at 15 --count 2
    counts t host_write_requests 2 host_write_blocks 3 first_write_blocks 3
    iotool fill /dev/mapper/t --at 84 --count 24
    counts t host_write_requests 3 host_write_blocks 7 first_write_blocks 7
    iotool expect /dev/mapper/t --at 20 --count 40
    counts t host_read_requests 1 host_read_blocks 6 zero_read_blocks 5
}

# A zone whose table was not loaded again is reset as any other, and a drive that is suspended not at all.
test_reset_while_unloaded() {
    local t=/dev/mapper/t
    imr t /dev/ram0 2 $SMALL
    iotool fill $t --count 8192 --request 8
    dmsetup suspend --noudevsync t
    expect_fail message t reset_statistics
    dmsetup resume --noudevsync t
    counts t host_write_requests 1024
    message t reset_statistics 0
    counts t host_write_requests 0 host_write_blocks 0
    dmsetup suspend --noudevsync t
    dmsetup resume --noudevsync t
    counts t host_write_requests 0 host_write_blocks 0
    # Counters that were not touched are as they were.
    iotool fill $t --at 8192 --count 80 --request 8
    dmsetup suspend --noudevsync t
    dmsetup resume --noudevsync t
    dmsetup suspend --noudevsync t
    dmsetup resume --noudevsync t
    counts t host_write_requests 10
}

# requests SEED COUNT SECTORS: a fio iolog. First COUNT random reads and writes of parts of single blocks; then a write
# of each block in order, so that all are mapped; then COUNT requests of 1 to 240 sectors. Of a request of several
# blocks that needs both rewrites and new blocks, a part may overtake another that waits, and get the new block that
# the simulator, which does one thing after another, gives to the other part; so there are none. Of requests over
# 255 sectors, a RAM disk gets parts that would be counted.
requests() {
    awk -v seed="$1" -v count="$2" -v sectors="$3" '
        function random(limit) { seed = (seed * 16807) % 2147483647; return seed % limit }
        function request(kind, at, sectors) { printf "/dev/mapper/t %s %d %d\n", kind, at * 512, sectors * 512 }
        function kind() { return random(10) < 3 ? "read" : "write" }
        BEGIN {
            print "fio version 2 iolog\n/dev/mapper/t add\n/dev/mapper/t open"
            for (i = 0; i < count; i++) {
                first = random(2) ? 0 : random(8)
                request(kind(), random(sectors / 8) * 8 + first, first ? 1 + random(8 - first) : 8)
            }
            for (at = 0; at < sectors; at += 8) request("write", at, 8)
            for (i = 0; i < count; i++) {
                length_ = 1 + random(random(4) ? 32 : 240)
                request(kind(), random(sectors - length_), length_)
            }
            print "/dev/mapper/t close"
        }'
}

# replayed LOG ZONES PHASES T,B,G [OPTION...]: the log's requests one after another; the counters are those of the simulator.
replayed() {
    local log=$1 zones=$2 phases=$3 geometry=$4
    shift 4
    check imrsim_util simulate "$log" --zones "$zones" --strategy "$phases" --geometry "$geometry" "$@" --expect-file /tmp/expected
    fio_run /dev/mapper/t --name=replay --iodepth=1 --read_iolog="$log" --replay_redirect=/dev/mapper/t
    imrsim_util stats /dev/mapper/t --json >/tmp/found
    # What is simulated takes no time.
    sed -i '/"elapsed_us"/d; /"idle_us"/d' /tmp/expected /tmp/found
    cmp /tmp/expected /tmp/found || {
        diff /tmp/expected /tmp/found | head -n 20
        fail "the counters differ from the simulator's: $(diff /tmp/expected /tmp/found | grep '^[-+] ' | head -n 2 | tr -s '\n ' ' ')"
    }
    echo "phases $phases: $(stat t host_write_requests) writes, $(stat t extra_write_blocks) extra, as simulated"
}

test_random_requests_as_simulated() { # limit 60
    local phases
    need imrsim_util
    for phases in $(few 3 1 9 2); do
        imr t /dev/ram0 2 $SMALL phases "$phases"
        requests $((phases * 77)) "$(scaled 2000)" "$(data_sectors 2 $SMALL)" >/tmp/log
        replayed /tmp/log 2 "$phases" 57,71,8
        imr_remove t
    done
}

# Requests that span two or three zones: here of 32 blocks each.
test_requests_across_zones_as_simulated() { # limit 60
    local shape='geometry 7 9 2'
    need imrsim_util
    imr t /dev/ram0 20 $shape phases 3
    requests 5 "$(scaled 1000)" "$(data_sectors 20 $shape)" >/tmp/log
    replayed /tmp/log 20 3 7,9,2
}

# The default geometry, filled to 80 %, by a trace made like those of data centres.
test_trace_as_simulated() { # limit 60
    local phases
    need imrsim_util
    check imrsim_util trace synth /tmp/msr --requests "$(scaled 3000)" --reads 25
    check imrsim_util trace convert /tmp/msr /tmp/log --from msr --fit wrap --capacity 256M --device /dev/mapper/t
    for phases in 2 3; do
        imr t /dev/ram0 1 phases $phases
        # 80 % of 65,536 blocks.
        iotool fill /dev/mapper/t --count $((52428 * 8))
        message t reset_statistics
        replayed /tmp/log 1 $phases 456,568,64 --prefill sequential --usage 80%
        [ "$(stat t extra_write_blocks)" -gt 0 ] || fail "nothing was rewritten"
        imr_remove t
    done
}

# as_simulated NAME PHASES SIZE: 'replay' fills the drive and replays a trace that fits SIZE; the counters of each zone
# are those of the simulation.
as_simulated() {
    local name=$1 phases=$2
    check imrsim_util trace synth /tmp/msr --requests "$(scaled 3000)" --reads 25 --span "$3" --footprint "$3"
    check imrsim_util replay /tmp/msr "/dev/mapper/$name" --fit wrap --erase --strategy "$phases" --usage 80% \
        --seed "$phases" --depth 1 --compare --json
    grep -q '"differences": \[\]' /tmp/output || fail "counters were not compared"
    same 'phases' "$(stat "$name" phases)" "$phases"
    [ "$(stat "$name" extra_write_blocks)" -gt 0 ] || fail "nothing was rewritten"
    echo "phases $phases: $(stat "$name" host_write_blocks) blocks written, $(stat "$name" extra_write_blocks) extra, as simulated"
}

test_replay_as_simulated() { # limit 120
    local phases
    need imrsim_util
    imr t /dev/ram0 8 $SMALL
    for phases in $(few 1 2 3 5); do as_simulated t "$phases" 32M; done
    # As it is usually done; what is in flight together has no order.
    check imrsim_util replay /tmp/msr /dev/mapper/t --fit wrap --erase --strategy 2 --usage 60% --prefill sequential
    [ "$(stat t mapped)" -ge $((8 * 614)) ] || fail "the drive was not filled: $(stat t mapped) blocks are mapped"
}

test_replay_of_the_default_geometry_as_simulated() { # limit 120
    need imrsim_util
    imr t /dev/vda 1
    as_simulated t 3 128M
    [ "$(stat t mapped)" -ge 52428 ] || fail "the drive was not filled: $(stat t mapped) blocks are mapped"
}

# refuses TEXT COMMAND...: it fails, and says why.
refuses() {
    local text=$1
    shift
    expect_fail "$@"
    grep -q "$text" /tmp/output || fail "no '$text' in what '$*' said: $(tail -n 1 /tmp/output)"
}

test_replay_refused() { # limit 60
    need imrsim_util
    printf '%s\n' 1,h,0,Write,0,4096,1 >/tmp/msr
    printf '%s\n' 1,h,0,Write,1073741824,4096,1 >/tmp/far
    imr t /dev/ram0 2 $SMALL phases 3
    imrsim_util replay /tmp/msr /dev/mapper/t --usage 50% --prefill sequential >/tmp/out
    same 'mapped' "$(stat t mapped)" 1024
    # It holds data now.
    refuses 'holds data' imrsim_util replay /tmp/msr /dev/mapper/t
    refuses 'is empty' imrsim_util replay /dev/null /dev/mapper/t --erase
    refuses 'beyond' imrsim_util replay /tmp/far /dev/mapper/t --erase
    refuses 'cannot run' imrsim_util replay /tmp/msr /dev/mapper/t --erase --fio /nowhere
    refuses 'not a block device' imrsim_util replay /tmp/msr /tmp/msr
    refuses 'not an IMRSim device' imrsim_util replay /tmp/msr /dev/ram1
    # Nobody else may use it.
    mkfs.ext4 -q /dev/mapper/t
    mkdir -p /tmp/mnt
    mount /dev/mapper/t /tmp/mnt
    refuses 'in use' imrsim_util replay /tmp/msr /dev/mapper/t --erase
    umount /tmp/mnt
    imrsim_util replay /tmp/msr /dev/mapper/t --keep >/tmp/out
    same 'written' "$(stat t host_write_blocks)" 1
}

test_replay_keeps_times() { # limit 40
    local seconds
    need imrsim_util
    # 2 seconds apart, in ticks of 100 ns.
    printf '%s\n' 10000000,h,0,Write,0,4096,1 30000000,h,0,Write,4096,4096,1 >/tmp/msr
    imr t /dev/ram0 1 $SMALL
    check imrsim_util replay /tmp/msr /dev/mapper/t --timed --json
    seconds=$(sed -n 's/.*"seconds": \([0-9]*\).*/\1/p' /tmp/output)
    [ "$seconds" -ge 1 ] || fail "it took $seconds s"
    same 'mapped' "$(stat t mapped)" 2
}
