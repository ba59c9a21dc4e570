# SPDX-License-Identifier: GPL-2.0-only
# Blocks never written, on a device below that is full of something else.
# shellcheck shell=sh

# fault_10: a block never written read as another's data.
test_zeros_fault_10() {
    local request
    imr t /dev/ram0 2 $SMALL
    for request in 1 3 8 20 2048; do
        check iotool expect /dev/mapper/t --byte 0 --count "$(scaled $((request > 7 ? 16384 : 2000)))" --request $request
    done
    same 'mapped' "$(stat t mapped)" 0
    # Also where some blocks are mapped: 1-block runs in between.
    local block=1
    while [ $block -lt 64 ]; do
        iotool fill /dev/mapper/t --byte 0x77 --at $((block * 8)) --count 8
        block=$((block + 2))
    done
    fresh /dev/ram1 2 $SMALL
    dd if=/dev/mapper/t of=/tmp/read bs=512k count=1 iflag=direct 2>/dev/null
    same 'bytes 0x77' "$(tr -d '\000' </tmp/read | tr -d '\167' | wc -c)" 0
    same 'bytes not 0' "$(tr -d '\000' </tmp/read | wc -c)" $((32 * 4096))
}

# The part of a block that a first write leaves out is zeros, on both sides, at both ends of a request.
test_beside_partial_writes() {
    local phases
    for phases in 1 2 3; do
        imr t /dev/ram0 1 $SMALL phases $phases
        iotool fill /dev/mapper/t --byte 9 --at 3 --count 2
        check iotool expect /dev/mapper/t --at 0 --count 3
        check iotool expect /dev/mapper/t --byte 9 --at 3 --count 2
        check iotool expect /dev/mapper/t --at 5 --count 11
        # 4 sectors of a block, 2 blocks, 1 sector.
        iotool fill /dev/mapper/t --byte 8 --at 84 --count 21
        check iotool expect /dev/mapper/t --at 72 --count 12
        check iotool expect /dev/mapper/t --byte 8 --at 84 --count 21
        check iotool expect /dev/mapper/t --at 105 --count 15
        # An update of a part keeps the rest.
        iotool fill /dev/mapper/t --byte 7 --at 100 --count 8
        check iotool expect /dev/mapper/t --byte 8 --at 84 --count 16
        check iotool expect /dev/mapper/t --byte 7 --at 100 --count 8
        check iotool expect /dev/mapper/t --at 108 --count 12
        imr_remove t
    done
}

# The same with top tracks in use, where the first write of a bottom block rewrites them.
test_beside_partial_writes_below_tops() {
    imr t /dev/ram0 1 $SMALL phases 1
    # Without remapping, the first 57 blocks are a top track and the next 71 the bottom track under it.
    iotool fill /dev/mapper/t --byte 6 --count $((57 * 8))
    message t reset_statistics
    iotool fill /dev/mapper/t --byte 5 --at $((60 * 8 + 2)) --count 3
    same 'rmw_one_neighbour' "$(stat t rmw_one_neighbour)" 1
    check iotool expect /dev/mapper/t --byte 6 --count $((57 * 8))
    check iotool expect /dev/mapper/t --at $((57 * 8)) --count 26
    check iotool expect /dev/mapper/t --byte 5 --at $((60 * 8 + 2)) --count 3
    check iotool expect /dev/mapper/t --at $((60 * 8 + 5)) --count 100
}

# Reads that race with first writes see zeros or the new data, never what is below. On a device whose
# writes take 5 ms, so that there is time to look.
test_read_races_first_write() { # limit 60
    local phases
    for phases in 1 2; do
        fresh /dev/ram0 1 $SMALL
        slow below /dev/ram0 5
        imr_create t /dev/mapper/below 1 $SMALL phases $phases
        check iotool race /dev/mapper/t --blocks "0-$(scaled 300)" --readers 4
        imr_remove t below
    done
}

test_read_races_first_write_fast() { # limit 60
    imr t /dev/ram0 1 $SMALL
    check iotool race /dev/mapper/t --blocks "0-$(scaled 1023)" --readers 4 --seed 2
}

# First writes of parts of one block at the same time keep each other's bytes and zeros.
test_first_writes_collide() { # limit 60
    local threads
    for threads in 3 8; do
        fresh /dev/ram0 1 $SMALL
        slow below /dev/ram0 5
        imr_create t /dev/mapper/below 1 $SMALL
        check iotool collide /dev/mapper/t --blocks "0-$(scaled 150)" --threads $threads
        imr_remove t below
    done
    imr t /dev/ram0 1 $SMALL
    check iotool collide /dev/mapper/t --blocks "0-$(scaled 1000)" --threads 8
}

# The same where the first write of a bottom block rewrites a top block.
test_first_writes_collide_below_tops() { # limit 60
    fresh /dev/ram0 1 $SMALL
    slow below /dev/ram0 5
    imr_create t /dev/mapper/below 1 $SMALL phases 1
    iotool fill /dev/mapper/t --byte 0 --count $((57 * 8))
    check iotool collide /dev/mapper/t --blocks 57-127 --threads 8
    check iotool expect /dev/mapper/t --byte 0 --count $((57 * 8))
}
