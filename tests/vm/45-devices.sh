# SPDX-License-Identifier: GPL-2.0-only
# Many devices, large devices, and their coming and going.
# shellcheck shell=sh

# fault_13: a second device was refused. Both under load, each with its own counters.
test_two_devices_fault_13() { # limit 60
    local load
    imr one /dev/ram0 2 $SMALL
    imr two /dev/ram1 3 $SMALL phases 3
    iotool model /dev/mapper/one --threads 3 --requests "$(scaled 1500)" --seed 1 >/tmp/load &
    load=$!
    check iotool model /dev/mapper/two --threads 3 --requests "$(scaled 1500)" --seed 2
    wait $load || fail "the first device: $(tail -n 1 /tmp/load)"
    same 'zones' "$(stat one zones) $(stat two zones)" '2 3'
    local before
    before=$(stat two host_write_blocks)
    iotool fill /dev/mapper/one --count 8
    same "the other's host_write_blocks" "$(stat two host_write_blocks)" "$before"
    imr_remove one
    check iotool flush /dev/mapper/two
}

# One is removed while the other works.
test_remove_beside_load() { # limit 60
    local load round=0
    imr one /dev/ram0 2 $SMALL
    fresh /dev/ram1 1 $SMALL
    iotool model /dev/mapper/one --threads 3 --seconds $((4 + SCALE)) --seed 1 >/tmp/load &
    load=$!
    while kill -0 $load 2>/dev/null; do
        imr_create two /dev/ram1 1 $SMALL
        iotool fill /dev/mapper/two --count 100
        imr_remove two
        round=$((round + 1))
    done
    wait $load || fail "the first device: $(tail -n 1 /tmp/load)"
    [ $round -gt 1 ] || fail "only $round rounds"
}

# fault_15: a start other than 0 mixed up data and metadata. Two drives on one disk, and strangers' data in
# front, between and behind.
test_start_offset_fault_15() { # limit 60
    local size load gap=2048 first second end
    size=$(($(data_sectors 2 $SMALL) + $(metadata_sectors 2 $SMALL)))
    first=$gap second=$((gap + size + gap)) end=$((gap + 2 * (size + gap)))
    START=$first
    fresh /dev/ram0 2 $SMALL
    START=$second
    imr_create two /dev/ram0 2 $SMALL phases 3
    imr_remove two
    # The pattern everywhere but on the metadata.
    local metadata
    metadata=$(metadata_sectors 2 $SMALL)
    iotool fill /dev/ram0 --byte 0xa5 --count $((first + size - metadata))
    iotool fill /dev/ram0 --byte 0xa5 --at $((first + size)) --count $((gap + size - metadata))
    iotool fill /dev/ram0 --byte 0xa5 --at $((second + size)) --count $((end - second - size))
    START=$first
    imr_create one /dev/ram0 2 $SMALL
    START=$second
    imr_create two /dev/ram0 2 $SMALL phases 3
    check iotool expect /dev/mapper/one
    use_all two
    iotool model /dev/mapper/one --threads 3 --requests "$(scaled 1000)" --seed 1 >/tmp/load &
    load=$!
    check iotool model /dev/mapper/two --threads 3 --requests "$(scaled 1000)" --seed 2
    wait $load || fail "the first drive: $(tail -n 1 /tmp/load)"
    [ "$(stat two extra_write_blocks)" -gt 0 ] || fail "nothing was rewritten"
    imr_remove one two
    check iotool expect /dev/ram0 --byte 0xa5 --count $gap
    check iotool expect /dev/ram0 --byte 0xa5 --at $((first + size)) --count $gap
    check iotool expect /dev/ram0 --byte 0xa5 --at $((second + size)) --count $gap
}

# With a mapping of its own, nothing of the drive below lies where the host thinks: a drive on a drive.
test_stacked() { # limit 60
    imr lower /dev/ram0 3 $SMALL
    imr_create upper /dev/mapper/lower 2 $SMALL phases 3
    check iotool model /dev/mapper/upper --threads 3 --requests "$(scaled 1000)" --seed 3
    imr_remove upper lower
}

# On a loop device over a file in memory.
test_loop_device() { # limit 60
    dd if=/dev/zero of=/tmp/file bs=1M count=0 seek=40 2>/dev/null
    losetup /dev/loop0 /tmp/file
    imr_create t /dev/loop0 9 $SMALL
    check iotool model /dev/mapper/t --threads 3 --requests "$(scaled 1000)" --seed 3
    imr_remove t
    losetup -d /dev/loop0
    rm /tmp/file
}

# fault_13, fault_14: a table for a live device: either it works or it is refused with a reason, and the
# device goes on; remove and create over and over works.
test_reload_of_a_live_device_fault_13() {
    imr t /dev/ram0 1 $SMALL
    iotool fill /dev/mapper/t --byte 4 --count 800
    if table 1 /dev/ram0 $SMALL | dmsetup reload t 2>/dev/null; then
        dmsetup suspend --noudevsync t
        dmsetup resume --noudevsync t
        echo "reloaded"
    else
        kernel_said 'table: .*imrsim: .*reload' || fail "the reload was refused without a reason"
        dmsetup clear t
    fi
    check iotool expect /dev/mapper/t --byte 4 --count 800
    iotool fill /dev/mapper/t --byte 5 --count 800
    check iotool expect /dev/mapper/t --byte 5 --count 800
}

# memory_in_use: KiB in slabs and the like, and KiB in all, with the contents of files and RAM disks.
memory_in_use() {
    local cache
    sync
    echo 3 >/proc/sys/vm/drop_caches
    sleep 0.3
    # What the allocator keeps of slabs that are empty, or nearly, is not in use.
    for cache in /sys/kernel/slab/*/shrink; do { echo 1 >"$cache"; } 2>/dev/null || :; done
    awk '/^(Slab|VmallocUsed|Percpu|KernelStack):/ {used += $2}
         /^MemTotal:/ {total = $2} /^MemFree:/ {free = $2} END {print used, total - free}' /proc/meminfo
}

# The drive of the rounds: its zones hold enough memory that a leaked one is seen.
ROUND="geometry 456 568 16"

# round NUMBER: a drive that is created, read, written in both of its zones and removed, and the module unloaded and
# loaded. What one round writes the next one reads.
round() {
    local at
    at=$(($(data_sectors 1 $ROUND) - 1501))
    imr_create t /dev/vda 2 $ROUND
    iotool expect /dev/mapper/t --byte "$1" --at $at --count 3000
    iotool fill /dev/mapper/t --byte $(($1 + 1)) --at $at --count 3000 --request 777
    imr_remove t
    unload
    load
}

# fault_04, fault_14: the original lost its mapping, and used a dangling pointer after remove and create.
test_50_rounds_without_a_leak_fault_14() { # limit 180
    local number=0 before after
    # A disk that does not lie in the guest's memory.
    [ -b /dev/vda ] || skip "no /dev/vda"
    fresh /dev/vda 2 $ROUND
    [ ! -e /sys/kernel/debug/kmemleak ] || echo clear >/sys/kernel/debug/kmemleak
    # The first rounds fill caches that stay, and end with what the boot has left.
    while [ $number -lt 90 ]; do
        [ $number != 40 ] || before=$(memory_in_use)
        round $number
        number=$((number + 1))
    done
    after=$(memory_in_use)
    echo "KiB in slabs and the like, KiB in all: after 40 rounds $before, after 90 $after"
    # Slabs go up and down by some hundred KiB; in all it becomes less by up to 9 MiB, as the kernel lets go of what the
    # boot took. In 50 rounds the pages in reserve make 25 MiB; smaller objects kmemleak finds, on the debug kernel.
    [ $((${after% *} - ${before% *})) -lt 1024 ] && [ $((${after#* } - ${before#* })) -lt 3072 ] ||
        fail "memory in use grew from $before to $after KiB in 50 rounds"
    if [ -e /sys/kernel/debug/kmemleak ]; then
        echo scan >/sys/kernel/debug/kmemleak
        sleep 6
        echo scan >/sys/kernel/debug/kmemleak
        [ ! -s /sys/kernel/debug/kmemleak ] || {
            head -n 40 /sys/kernel/debug/kmemleak
            fail "kmemleak found $(grep -c '^unreferenced' /sys/kernel/debug/kmemleak) objects"
        }
    fi
}

# fault_18: sizes above 3.6 TiB overflowed. 20 TiB on a file with holes: created at once, in little memory.
test_20_tib_fault_18() { # limit 40
    local zones=81920 before after
    truncate -s $((21 << 40)) /tmp/huge
    losetup /dev/loop0 /tmp/huge
    before=$(memory_in_use)
    imr_create t /dev/loop0 $zones
    after=$(memory_in_use)
    same 'zones' "$(stat t zones)" $zones
    same 'total' "$(stat t total)" $((zones * 65536))
    echo "KiB in use: before $before, with $zones zones $after"
    after=$((${after#* } - ${before#* } - $(du -k /tmp/huge | cut -f1)))
    [ $after -lt 16384 ] || fail "creating it took $after KiB, besides what it wrote"
    # The first zone, one in the middle and the last, now and after removal and creation.
    local zone
    for zone in 0 40000 $((zones - 1)); do
        iotool fill /dev/mapper/t --at $((zone * 524288 + 524280)) --count 8
        iotool expect /dev/mapper/t --at $((zone * 524288)) --count 8
    done
    same 'mapped' "$(stat t mapped)" 3
    same 'host_read_blocks' "$(stat t host_read_blocks)" 3
    imr_remove t
    imr_create t /dev/loop0 $zones
    for zone in 0 40000 $((zones - 1)); do
        check iotool expect /dev/mapper/t --byte 0xa5 --at $((zone * 524288 + 524280)) --count 8
    done
    imr_remove t
    losetup -d /dev/loop0
    rm /tmp/huge
}

# full_drive ZONES [OPTION VALUE]: one on a file with holes, of which every block is mapped, is resumed and read, in the
# first zone, one in the middle and the last: its first block, one in the middle, and its last, which a journal has.
full_drive() {
    local zones=$1 zone bo all=65536
    shift
    crashtool full /tmp/huge --zones "$zones" "$@"
    losetup /dev/loop0 /tmp/huge
    for zone in 0 $((zones / 2)) $((zones - 1)); do
        for bo in 0 30000 $((all - 1)); do
            iotool fill /dev/loop0 --byte $((bo % 251 + 1)) --at $(((zone * all + all - 1 - bo) * 8)) --count 8
        done
    done
    imr_create t /dev/loop0 "$zones"
    same 'mapped' "$(stat t mapped)" $((zones * all))
    for zone in 0 $((zones / 2)) $((zones - 1)); do
        for bo in 0 30000 $((all - 1)); do
            check iotool expect /dev/mapper/t --byte $((bo % 251 + 1)) --at $(((zone * all + bo) * 8)) --count 8
            check iotool expect /dev/mapper/t --at $(((zone * all + bo) * 8 + (bo > 0 ? -8 : 8))) --count 8
        done
    done
    iotool fill /dev/mapper/t --byte 7 --at $(((zones * all - 1) * 8)) --count 8
    imr_remove t
    check iotool expect /dev/loop0 --byte 7 --at $((((zones - 1) * all) * 8)) --count 8
    losetup -d /dev/loop0
    check imrsim_util check /tmp/huge
    rm /tmp/huge
}

# 64 GiB.
test_full_drive_resumes() { # limit 40
    full_drive "$(scaled 256)"
}

# 8 GiB: every zone has to be loaded, and written again, with a full journal before the drive resumes.
test_full_drive_resumes_after_a_crash() { # limit 60
    full_drive "$(scaled 32)" --journal 60
    full_drive "$(scaled 32)" --journal 97
    kernel_said 'journal entries replayed' || fail "nothing was replayed"
}
