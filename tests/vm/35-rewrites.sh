# SPDX-License-Identifier: GPL-2.0-only
# Read-modify-writes: what they must not undo.
# shellcheck shell=sh

# hot_set PHASES BLOCKS WORD...: 32 threads rewrite bottom blocks and the top blocks over them, on a device
# whose writes take 5 ms. Every block must hold the last write that was acknowledged.
hot_set() {
    local phases=$1 blocks=$2
    shift 2
    fresh /dev/ram0 1 $SMALL
    dm_create below "0 $(blockdev --getsz /dev/ram0) linear /dev/ram0 0"
    imr_create t /dev/mapper/below 1 $SMALL phases "$phases"
    use_all t
    same 'mapped' "$(stat t mapped)" 1024
    message t reset_statistics
    swap_table below "0 $(blockdev --getsz /dev/ram0) delay /dev/ram0 0 0 /dev/ram0 0 5"
    check iotool model /dev/mapper/t --blocks "$blocks" --threads 32 --requests "$(scaled 100)" --reads 10 "$@"
    echo "$(stat t rmw_one_neighbour) and $(stat t rmw_two_neighbours) rewrites of one and two tracks: $(cat /tmp/output)"
    [ "$(stat t rmw_two_neighbours)" -gt 0 ] || fail "nothing was rewritten"
    imr_remove t below
}

# fault_09: an RMW wrote back a top block over a write that came in between; 334 of 1,025 writes were lost.
# With 2 phases the bottom tracks of groups 0 and 1 are blocks 0 to 141 and the tops 0 to 2 are 568 to 738.
test_lost_update_fault_09() { # limit 60
    hot_set 2 0-141,568-738 --align 8 --longest 8
}

# Partial blocks.
test_lost_update_sectors_fault_09() { # limit 60
    hot_set 2 0-141,568-738 --align 1 --longest 8 --seed 2
}

# 3 phases: tops 0 and 2 are blocks 568 to 681, top 1 is 796 to 852.
test_lost_update_3_phases_fault_09() { # limit 60
    hot_set 3 0-141,568-681,796-852 --align 1 --longest 8 --seed 3
}

# Few blocks, all in one another's way: bottom blocks 0 to 4 of groups 0 and 1, and tops 0 to 3 over them.
test_lost_update_few_fault_09() { # limit 60
    hot_set 2 0-4,71-75,568-571,625-628,682-685 --align 8 --longest 8 --seed 4
}

# Long requests over many tracks at once: four threads in one zone, on a slow device.
test_lost_update_long_requests() { # limit 60
    fresh /dev/ram0 1 $SMALL
    slow below /dev/ram0 2
    imr_create t /dev/mapper/below 1 $SMALL
    use_all t
    check iotool model /dev/mapper/t --threads 16 --piece 40 --longest 40 --requests "$(scaled 100)" --reads 20
    imr_remove t below
}

# fault_08: a signal to the writer during an RMW stopped the device for good.
test_kill_writer_fault_08() { # limit 60
    local round=0 load
    fresh /dev/ram0 1 $SMALL
    slow below /dev/ram0 5
    imr_create t /dev/mapper/below 1 $SMALL
    use_all t
    while [ $round -lt 10 ]; do
        iotool model /dev/mapper/t --blocks 0-141,568-738 --threads 16 --seconds 60 --reads 0 >/dev/null 2>&1 &
        load=$!
        sleep 0.$((1 + round % 4))
        kill -KILL $load
        wait $load || :
        round=$((round + 1))
    done
    use_all t
    check iotool expect /dev/mapper/t --byte 0
    check iotool model /dev/mapper/t --blocks 0-141,568-738 --threads 16 --requests "$(scaled 30)" --reads 20
    imr_remove t below
}

# Reads of a bottom block and its neighbours while they are rewritten: never anything torn or old.
test_reads_during_rewrites() { # limit 60
    hot_set 2 0-70,568-681 --align 8 --longest 8 --reads 70 --seed 8
}

# Depth: 32 rewrites in different track groups take little longer than one.
test_rewrites_run_in_parallel() { # limit 60
    local begin one many
    [ "$SCALE" = 1 ] || skip "times mean nothing on a slow kernel"
    fresh /dev/ram0 1 geometry 57 71 64
    dm_create below "0 $(blockdev --getsz /dev/ram0) linear /dev/ram0 0"
    imr_create t /dev/mapper/below 1 geometry 57 71 64
    use_all t
    swap_table below "0 $(blockdev --getsz /dev/ram0) delay /dev/ram0 0 0 /dev/ram0 0 40"
    begin=$(awk '{print int($1 * 100)}' /proc/uptime)
    fio_run /dev/mapper/t --name=one --rw=write --bs=4k --iodepth=1 --size=16m --number_ios=8
    one=$(($(awk '{print int($1 * 100)}' /proc/uptime) - begin))
    begin=$(awk '{print int($1 * 100)}' /proc/uptime)
    # Every 72nd block is in another track group.
    fio_run /dev/mapper/t --name=many --rw=write:288k --bs=4k --iodepth=32 --size=16m --number_ios=32
    many=$(($(awk '{print int($1 * 100)}' /proc/uptime) - begin))
    echo "8 one after another: $one, 32 at once: $many hundredths of a second"
    [ $many -lt $((one * 3)) ] || fail "32 rewrites at once took $many hundredths of a second, 8 in a row $one"
    imr_remove t below
}
