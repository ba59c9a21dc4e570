# SPDX-License-Identifier: GPL-2.0-only
# Memory that cannot be had. On the debug kernel only, which can make allocations fail.
# shellcheck shell=sh

FAULTS=/sys/kernel/debug

# failing INTERVAL KIND...: of every INTERVAL allocations of tasks with make-it-fail set, one fails, of the kinds
# failslab (objects) and fail_page_alloc (pages). 'failing 0' ends it.
MANY=1000000
failing() {
    local interval=$1 kind
    shift
    for kind in failslab fail_page_alloc; do echo 0 >$FAULTS/$kind/probability; done
    for kind; do
        cd $FAULTS/$kind
        echo Y >task-filter
        echo "$interval" >interval
        # The kernel counts down how many more may fail.
        echo $MANY >times
        echo 0 >verbose
        echo N >ignore-gfp-wait
        [ ! -e min-order ] || echo 0 >min-order
        echo 100 >probability
    done
    cd /
}

# failures KIND: how many have failed since 'failing'.
failures() { echo $((MANY - $(cat "$FAULTS/$1/times"))); }

# create_short_of_memory NAME INTERVAL TABLE: dmsetup gets its table late, so that only what it does with it can fail.
create_short_of_memory() {
    local pid
    mkfifo /tmp/table
    dmsetup create "$1" --noudevsync </tmp/table &
    pid=$!
    exec 3>/tmp/table
    sleep 0.5
    failing "$2" failslab
    echo 1 >/proc/$pid/make-it-fail
    echo "$3" >&3
    exec 3>&-
    rm /tmp/table
    wait $pid
}

# A drive that cannot be made for want of memory leaves nothing behind, and the next one works.
test_create_without_memory() { # limit 60
    local interval=20 made=0 failed=0
    [ -d $FAULTS/failslab ] || skip "this kernel cannot make allocations fail"
    fresh /dev/ram0 4 $SMALL
    while [ $interval -lt 3000 ]; do
        if create_short_of_memory t $interval "$(table 4 /dev/ram0 $SMALL)"; then
            made=$((made + 1))
        else
            failed=$((failed + 1))
        fi
        failing 0
        # dmsetup may not even have been able to undo it.
        ! dmsetup info t >/dev/null 2>&1 || imr_remove t
        interval=$((interval + interval / 6))
    done
    echo "created $made times, failed $failed times"
    [ $made -gt 0 ] && [ $failed -gt 3 ] || fail "created $made times and failed $failed times: nothing is proved"
    imr_create t /dev/ram0 4 $SMALL
    check iotool model /dev/mapper/t --requests 50
}

# io_short_of_memory PHASES INTERVAL TASKS KIND...: random requests, most of the time while those of the tasks whose
# names match fail to allocate. Each request works or fails; none hangs, and none harms another.
io_short_of_memory() {
    local phases=$1 interval=$2 tasks=$3 load task round=0
    shift 3
    [ -d $FAULTS/failslab ] || skip "this kernel cannot make allocations fail"
    fresh /dev/ram0 2 $SMALL
    # A device whose I/O completes in a worker.
    slow below /dev/ram0 1
    imr_create t /dev/mapper/below 2 $SMALL phases "$phases"
    iotool model /dev/mapper/t --threads 6 --piece 24 --longest 24 --seconds 30 --errors 1 >/tmp/load &
    load=$!
    sleep 3
    failing "$interval" "$@"
    # On a busy machine it takes until an allocation is made at all.
    while kill -0 $load 2>/dev/null && { [ $round -lt 6 ] || [ "$(failures "$1")" = 0 ]; }; do
        # Kernel threads come and go.
        for task in /proc/$load/task/* /proc/[0-9]*; do
            # shellcheck disable=SC2254
            case $(cat "$task/comm" 2>/dev/null) in
                $tasks) { echo 1 >"$task/make-it-fail"; } 2>/dev/null || : ;;
            esac
        done
        sleep 1
        round=$((round + 1))
    done
    task=$(failures "$1")
    failing 0
    wait $load || fail "$(tail -n 1 /tmp/load)"
    echo "$task allocations failed; $(tail -n 1 /tmp/load)"
    [ "$task" -gt 0 ] || fail "no allocation failed: nothing is proved"
}

test_workers_without_memory() { # limit 40
    io_short_of_memory 3 5 'kworker*' failslab fail_page_alloc
}

# bios_fail PERCENT: so many of all bios, whoever wants them, cannot be allocated but from a pool's reserve.
bios_fail() {
    local cache
    for cache in /sys/kernel/slab/bio-*; do
        # Those that share their memory with other caches cannot fail for themselves.
        { echo 1 >"$cache/failslab"; } 2>/dev/null || :
    done
    cd $FAULTS/failslab
    echo Y >cache-filter
    echo N >task-filter
    echo 1 >interval
    echo $MANY >times
    echo 0 >verbose
    echo N >ignore-gfp-wait
    echo "$1" >probability
    cd /
}

# What a submitter cannot do for want of bios a worker does, from the reserve: no request fails.
test_bios_from_the_reserve() { # limit 40
    local percent failed
    [ -d $FAULTS/failslab ] || skip "this kernel cannot make allocations fail"
    for percent in 100 40; do
        imr t /dev/ram0 2 $SMALL phases 3
        bios_fail $percent
        check iotool model /dev/mapper/t --threads 6 --piece 24 --longest 24 --requests 1500
        failed=$(failures failslab)
        bios_fail 0
        echo "$percent %: $failed allocations failed"
        [ "$failed" -gt 300 ] || fail "only $failed allocations failed: nothing is proved"
        imr_remove t
    done
    echo N >$FAULTS/failslab/cache-filter
}
