# SPDX-License-Identifier: GPL-2.0-only
# Data written is data read: every request size, depth, alignment and strategy, past the point where
# bottom tracks are full.
# shellcheck shell=sh

# fio_sizes FIO_SIZE_OPTION...: half of a fresh drive is mapped, then requests in random order fall on all of it and
# are verified; then what is left is mapped, so that updates find all tracks in use, and these are verified. At depth
# 32 and then 1, and on a second drive the other way round; with both strategies.
fio_sizes() {
    local run phases first second kib
    kib=$(scaled 4096)
    for run in $(few 2,32,1 2,1,32 3,32,1 3,1,32); do
        phases=${run%%,*} second=${run##*,}
        first=${run#*,} first=${first%,*}
        imr t /dev/ram0 2 $SMALL phases "$phases"
        fio_run /dev/mapper/t --size=8m \
            --name=half --rw=write --bs=1m --io_size=2m \
            --name=first --stonewall --rw=randwrite --verify=crc32c "$@" --io_size=$((kib * 2))k --iodepth="$first" \
            --name=rest --stonewall --rw=write --bs=1m \
            --name=update --stonewall --rw=randwrite --verify=crc32c "$@" --io_size="${kib}k" --randseed=7 --iodepth="$second"
        same 'mapped' "$(stat t mapped)" 2048
        [ "$(stat t extra_write_blocks)" -gt $((kib / 64)) ] ||
            fail "$(stat t extra_write_blocks) top blocks rewritten: the boundary was not passed"
        imr_remove t
    done
}

# fault_01, fault_02: requests of any size but 4 KiB were misplaced.
test_fio_512_fault_02() { # limit 90
    fio_sizes --bs=512
}
test_fio_4k() { # limit 60
    fio_sizes --bs=4k
}
test_fio_8k_fault_01() { # limit 60
    fio_sizes --bs=8k
}
test_fio_64k() { # limit 60
    fio_sizes --bs=64k
}
test_fio_1m() { # limit 60
    fio_sizes --bs=1m
}
test_fio_mixed_unaligned() { # limit 60
    fio_sizes --bssplit=512/25:1536/20:4k/20:13824/15:66048/15:300032/5 --blockalign=512
}

# The default geometry, in order to the boundary and beyond, then random updates.
test_fio_default_geometry() { # limit 90
    local phases size
    for phases in $(few 2 3); do
        imr t /dev/ram0 1 phases "$phases"
        use_all t
        same 'mapped' "$(stat t mapped)" 65536
        same 'top_write_blocks' "$(stat t top_write_blocks)" $((456 * 64))
        size=$(scaled 16)
        fio_run /dev/mapper/t --rw=randwrite --verify=crc32c --bssplit=4k/70:24k/30 --size=256m --io_size="${size}m" \
            --iodepth=32 --name=update
        [ "$(stat t rmw_two_neighbours)" -gt 0 ] || fail "no update rewrote two top tracks"
        imr_remove t
    done
}

# Random reads and writes of 1 to 512 sectors at any sector, by four threads, against a model.
test_model() { # limit 60
    local phases
    for phases in $(few 2 1 64 3); do
        imr t /dev/ram0 4 $SMALL phases "$phases"
        check iotool model /dev/mapper/t --threads 4 --requests "$(scaled 1500)" --seed "$phases"
        check dmsetup status t
        imr_remove t
    done
}

# Threads that share blocks: each owns three sectors of every 24.
test_model_shared_blocks() { # limit 60
    imr t /dev/ram0 1 $SMALL
    check iotool model /dev/mapper/t --threads 8 --piece 3 --requests "$(scaled 4000)" --reads 30
}

# The same on a drive whose tracks are all in use, so that most writes rewrite.
test_model_shared_blocks_full() { # limit 60
    imr t /dev/ram0 1 $SMALL
    use_all t
    check iotool model /dev/mapper/t --threads 8 --piece 3 --requests "$(scaled 3000)" --reads 30 --seed 5
}

# Odd shapes: one block a track, a single group, a top track as wide as the bottom track.
test_model_odd_geometries() { # limit 60
    local shape zones
    for shape in '1 1 1' '1 1 64' '7 9 1' '5 5 16' '1 63 4'; do
        zones=$((2048 / $(zone_blocks geometry $shape)))
        imr t /dev/ram0 "$zones" geometry $shape phases 3
        check iotool model /dev/mapper/t --threads 4 --requests "$(scaled 600)" --seed 9
        imr_remove t
    done
}

# A single sector, read and written directly, at each place in a block.
test_sectors_fault_02() {
    local sector
    imr t /dev/ram0 1 $SMALL
    for sector in 0 1 2 3 4 5 6 7; do
        iotool fill /dev/mapper/t --byte $((sector + 1)) --at $((sector * 9)) --count 1
    done
    for sector in 0 1 2 3 4 5 6 7; do
        check iotool expect /dev/mapper/t --byte $((sector + 1)) --at $((sector * 9)) --count 1
        check iotool expect /dev/mapper/t --byte 0 --at $((sector * 9 + 1)) --count 8
    done
    same 'mapped' "$(stat t mapped)" 8
}

# Requests across the boundary of two zones, and one over many.
test_zone_boundary() {
    local zone
    zone=$(data_sectors 1 $SMALL)
    imr t /dev/ram0 8 $SMALL
    iotool fill /dev/mapper/t --byte 1 --at $((zone - 5)) --count 10
    check iotool expect /dev/mapper/t --byte 1 --at $((zone - 5)) --count 10
    check iotool expect /dev/mapper/t --byte 0 --at $((zone + 5)) --count 100
    iotool fill /dev/mapper/t --byte 2 --at 3 --count $((zone * 7)) --request 16384
    check iotool expect /dev/mapper/t --byte 2 --at 3 --count $((zone * 7)) --request 20000
    check iotool expect /dev/mapper/t --byte 0 --at $((zone * 7 + 3)) --count $((zone - 3))
}

# fault_06: 22 zones wrote out of bounds.
test_many_zones_fault_06() { # limit 60
    local zone at
    imr t /dev/ram0 70 $SMALL
    zone=$(data_sectors 1 $SMALL)
    at=0
    while [ $at -lt 70 ]; do
        iotool fill /dev/mapper/t --byte $((at + 1)) --at $((at * zone + 8 * at)) --count 16
        at=$((at + 3))
    done
    at=0
    while [ $at -lt 70 ]; do
        check iotool expect /dev/mapper/t --byte $((at + 1)) --at $((at * zone + 8 * at)) --count 16
        at=$((at + 3))
    done
    same 'mapped' "$(stat t mapped)" 48
}
