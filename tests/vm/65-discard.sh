# SPDX-License-Identifier: GPL-2.0-only
# Discards: whole blocks are unmapped, for good, and their places are free again; nothing else changes.
# shellcheck shell=sh

# On a small drive filled in order with 2 phases, bottom block 7 of the first group is logical block 7. Over it lie
# block 5 of the top tracks 0 and 1: logical blocks 573 and 630.

# discard NAME SECTOR SECTORS: not by busybox's blkdiscard, which wants the device for itself.
discard() { /bin/blkdiscard --force --offset $(($2 * 512)) --length $(($3 * 512)) "/dev/mapper/$1"; }

# discard_blocks NAME FIRST BLOCKS
discard_blocks() { discard "$1" $(($2 * 8)) $(($3 * 8)); }

# write_block NAME BYTE FIRST [BLOCKS]
write_block() { iotool fill "/dev/mapper/$1" --byte "$2" --at $(($3 * 8)) --count $((${4:-1} * 8)); }

# holds NAME BYTE FIRST [BLOCKS]: the blocks hold this byte throughout.
holds() { check iotool expect "/dev/mapper/$1" --byte "$2" --at $(($3 * 8)) --count $((${4:-1} * 8)); }

# counted NAME: discard requests, and blocks that they unmapped.
counted() { echo "$(stat "$1" discard_requests) $(stat "$1" unmapped_blocks)"; }

# limit NAME FILE: a limit of the device's queue.
limit() { cat "/sys/block/dm-$(dmsetup info -c --noheadings -o minor "$1")/queue/$2"; }

# filled ZONES WORD...: drive t on /dev/ram0, all of it 1.
filled() {
    local zones=$1
    shift
    imr t /dev/ram0 "$zones" $SMALL "$@"
    iotool fill /dev/mapper/t --byte 1
    same 'mapped' "$(stat t mapped)" $((zones * 1024))
}

test_whole_blocks() {
    filled 2
    same 'the granularity' "$(limit t discard_granularity)" 4096
    same 'the longest discard' "$(limit t discard_max_bytes)" $((1024 * 4096))
    discard_blocks t 10 20
    same 'counted' "$(counted t)" '1 20'
    same 'mapped' "$(stat t mapped)" 2028
    holds t 1 0 10
    holds t 0 10 20
    holds t 1 30 2018
    # Once more: nothing is there any more.
    discard_blocks t 10 20
    same 'counted' "$(counted t)" '2 20'
    # They can be written again, in part, too.
    iotool fill /dev/mapper/t --byte 3 --at $((12 * 8 + 3)) --count 2
    check iotool expect /dev/mapper/t --at $((12 * 8)) --count 3
    check iotool expect /dev/mapper/t --byte 3 --at $((12 * 8 + 3)) --count 2
    check iotool expect /dev/mapper/t --at $((12 * 8 + 5)) --count 3
    same 'mapped' "$(stat t mapped)" 2029
    use_all t
    same 'mapped' "$(stat t mapped)" 2048
}

test_parts_of_blocks_are_left_alone() {
    filled 2
    discard t 801 7
    discard t 801 14
    discard t 800 7
    same 'mapped' "$(stat t mapped)" 2048
    check iotool expect /dev/mapper/t --byte 1
    # 7 sectors, blocks 101 and 102, and 3 sectors.
    discard t 801 26
    same 'mapped' "$(stat t mapped)" 2046
    check iotool expect /dev/mapper/t --byte 1 --count 808
    check iotool expect /dev/mapper/t --at 808 --count 16
    check iotool expect /dev/mapper/t --byte 1 --at 824 --count $((16384 - 824))
    # A part on either side of the border between the zones.
    discard t 8187 12
    same 'mapped' "$(stat t mapped)" 2046
    check iotool expect /dev/mapper/t --byte 1 --at 824 --count $((16384 - 824))
}

test_nothing_to_discard() {
    imr t /dev/ram0 3 $SMALL
    blkdiscard /dev/mapper/t
    discard t 3 2000
    same 'counted' "$(counted t)" '0 0'
    check iotool expect /dev/mapper/t
    write_block t 1 1024
    discard_blocks t 1030 10
    same 'counted' "$(counted t)" '1 0'
    discard_blocks t 0 2048
    same 'counted' "$(counted t)" '2 1'
    same 'mapped' "$(stat t mapped)" 0
}

# The counters are those of the simulator.
test_counters_as_simulated() {
    local number=0 first length offset bytes
    imr t /dev/ram0 4 $SMALL
    printf '%s\n' 'fio version 2 iolog' '/dev/t add' '/dev/t open' >/tmp/log
    while [ $number -lt 60 ]; do
        # Short enough that the block layer does not cut the writes.
        first=$((number * 2654435761 % 31011)) length=$((number * 40503 % 999 + 1))
        offset=$((first * 512)) bytes=$((length * 512))
        if [ $((number % 3)) = 2 ]; then
            length=$((length * 5)) first=$((first % 27000)) bytes=$((length * 512)) offset=$((first * 512))
            discard t $first $length
            echo "/dev/t trim $offset $bytes" >>/tmp/log
        else
            iotool fill /dev/mapper/t --byte 1 --at $first --count $length --request $length
            echo "/dev/t write $offset $bytes" >>/tmp/log
        fi
        number=$((number + 1))
    done
    # Longer than a zone, from the middle of a block on.
    discard t 3333 20000
    echo "/dev/t trim $((3333 * 512)) $((20000 * 512))" >>/tmp/log
    echo '/dev/t close' >>/tmp/log
    imrsim_util simulate /tmp/log --zones 4 --geometry 57,71,8 --json >/tmp/simulated
    for number in discard_requests unmapped_blocks first_write_blocks extra_write_blocks; do
        same "$number" "$(stat t $number)" "$(sed -n "/\"$number\"/{s/[^0-9]//gp;q}" /tmp/simulated)"
    done
    same 'mapped' "$(stat t mapped)" "$(sed -n '/"mapped_blocks"/{s/[^0-9]//gp;q}' /tmp/simulated)"
}

# It stays on the device below, and the device below is not told.
test_not_passed_down() {
    filled 1
    discard_blocks t 0 1024
    # Block 0 lay on the first bottom track.
    check iotool expect /dev/ram0 --byte 1 --at $((57 * 8)) --count 8
    check iotool expect /dev/mapper/t
    imr_remove t
    # Nor need it be able to.
    blank /dev/ram0
    dm_create below "0 $(blockdev --getsz /dev/ram0) linear /dev/ram0 0"
    imr_create t /dev/mapper/below 1 $SMALL
    write_block t 1 0 100
    discard_blocks t 10 10
    same 'mapped' "$(stat t mapped)" 90
}

# Zeros that are asked for are written: the blocks stay mapped.
test_zeros_are_written() {
    filled 1
    /bin/blkdiscard -z -o 40960 -l 409600 /dev/mapper/t
    holds t 0 10 100
    same 'mapped' "$(stat t mapped)" 1024
    same 'counted' "$(counted t)" '0 0'
}

# A top block that was discarded need not be rewritten any more.
test_freed_tops_are_not_rewritten() {
    local extra
    filled 1
    for extra in 2 1 0; do
        message t reset_statistics
        write_block t 2 7
        same 'extra_write_blocks' "$(stat t extra_write_blocks)" $extra
        case $extra in
            2) discard_blocks t 573 1 ;;
            1) discard_blocks t 630 1 ;;
        esac
    done
    same 'rewrites' "$(stat t rmw_one_neighbour) $(stat t rmw_two_neighbours)" '0 0'
    # Written again, they are back in the first places that are free: their own.
    write_block t 3 630
    write_block t 3 573
    message t reset_statistics
    write_block t 2 7
    same 'extra_write_blocks' "$(stat t extra_write_blocks)" 2
    holds t 3 573
    holds t 3 630
}

# Freed places are taken in the order of the strategy, and all of them.
test_places_are_reused() { # limit 60
    local round phases
    for phases in $(few 2 1 3); do
        filled 1 phases "$phases"
        discard_blocks t 300 1
        discard_blocks t 20 1
        write_block t 4 300
        write_block t 5 20
        holds t 4 300
        holds t 5 20
        [ "$phases" != 2 ] || check iotool expect /dev/ram0 --byte 4 --at $(((57 + 20) * 8)) --count 8
        for round in 1 2 3; do
            discard_blocks t $((round * 100)) 500
            same 'mapped' "$(stat t mapped)" 524
            iotool fill /dev/mapper/t --byte "$round" --at $((round * 800)) --count 4000 --request 111
            same 'mapped' "$(stat t mapped)" 1024
            holds t "$round" $((round * 100)) 500
        done
        blkdiscard /dev/mapper/t
        same 'mapped' "$(stat t mapped)" 0
        use_all t
        check iotool expect /dev/mapper/t
        imr_remove t
    done
}

test_whole_device_and_zone_borders() {
    filled 4
    blkdiscard /dev/mapper/t
    same 'counted' "$(counted t)" '4 4096'
    same 'mapped' "$(stat t mapped)" 0
    check iotool expect /dev/mapper/t
    iotool fill /dev/mapper/t --byte 2
    discard_blocks t 1020 8
    same 'mapped' "$(stat t mapped)" 4088
    holds t 2 0 1020
    holds t 0 1020 8
    holds t 2 1028 3068
    # From the middle of a block of the first zone to the middle of one of the last.
    discard t $((500 * 8 + 1)) $((3000 * 8))
    holds t 2 0 500
    check iotool expect /dev/mapper/t --byte 2 --at $((500 * 8)) --count 8
    holds t 0 501 2999
    holds t 2 3500 596
    same 'mapped' "$(stat t mapped)" $((4096 - 2999))
}

# sums: of the files in /mnt/fs.
sums() { (cd /mnt/fs && find . -type f | sort | xargs sha256sum); }

# some_files: programs and small files, of which a half is deleted.
some_files() {
    local number=0
    mkdir -p /mnt/fs/"$1"
    while [ $number -lt "$(scaled 40)" ]; do
        cp /bin/dmsetup "/mnt/fs/$1/dmsetup$number"
        head -c $((number * 1777)) /bin/busybox >"/mnt/fs/$1/small$number"
        number=$((number + 1))
    done
    sync
    rm "/mnt/fs/$1"/*[13579]
    sync
}

# again: the files are what they were, now and after the drive was removed and created.
again() {
    umount /mnt/fs
    check e2fsck -f -n /dev/mapper/t
    imr_remove t
    imr_create t /dev/ram0 12 $SMALL
    check e2fsck -f -n /dev/mapper/t
    mount -t ext4 "$@" /dev/mapper/t /mnt/fs
    sums | cmp - /tmp/sums || fail "files have changed"
}

test_fstrim() { # limit 90
    local before after
    imr t /dev/ram0 12 $SMALL
    iotool fill /dev/mapper/t --byte 0xee
    # Discards all that there is.
    check mkfs.ext4 -q -F /dev/mapper/t
    [ "$(stat t mapped)" -lt 6000 ] || fail "after mkfs, $(stat t mapped) blocks are mapped"
    mkdir -p /mnt/fs
    mount -t ext4 /dev/mapper/t /mnt/fs
    some_files one
    sums >/tmp/sums
    before=$(stat t mapped)
    fstrim /mnt/fs
    after=$(stat t mapped)
    echo "$before blocks mapped before fstrim, $after after"
    [ "$after" -lt "$before" ] || fail "fstrim unmapped nothing"
    sums | cmp - /tmp/sums || fail "files have changed"
    again
    some_files two
    sums >/tmp/sums
    fstrim /mnt/fs
    again
    umount /mnt/fs
}

test_mount_discard() { # limit 90
    local before after
    imr t /dev/ram0 12 $SMALL
    check mkfs.ext4 -q -F /dev/mapper/t
    mkdir -p /mnt/fs
    mount -t ext4 -o discard /dev/mapper/t /mnt/fs
    some_files one
    cp /bin/fio /mnt/fs/large
    sync
    sums >/tmp/sums
    before=$(stat t mapped)
    again -o discard
    cp /mnt/fs/large /mnt/fs/copy
    sync
    rm /mnt/fs/large
    mv /mnt/fs/copy /mnt/fs/large
    # The file system discards in its own time, behind its journal.
    for _ in $(seq 40); do
        sync
        after=$(stat t mapped)
        [ "$after" -ge $((before + 200)) ] || break
        sleep 1
    done
    echo "$before blocks mapped, $after after a copy and a removal"
    [ "$after" -lt $((before + 200)) ] || fail "what was removed is still mapped: $before blocks, then $after"
    again -o discard
    umount /mnt/fs
}

test_survives_removal() {
    local status
    filled 3
    discard_blocks t 100 300
    discard_blocks t 1000 100
    status=$(dmsetup status t)
    for _ in 1 2; do
        imr_remove t
        imr_create t /dev/ram0 3 $SMALL
        same 'the status' "$(dmsetup status t)" "$status"
    done
    holds t 1 0 100
    holds t 0 100 300
    holds t 1 400 600
    holds t 0 1000 100
    holds t 1 1100 1972
    # A zone that nobody has read yet is loaded for its discard.
    imr_remove t
    imr_create t /dev/ram0 3 $SMALL
    discard_blocks t 0 50
    blkdiscard -o $((2048 * 4096)) /dev/mapper/t
    same 'mapped' "$(stat t mapped)" $((3072 - 400 - 50 - 1024))
    imr_remove t
    imr_create t /dev/ram0 3 $SMALL
    holds t 0 0 50
    holds t 1 50 50
    holds t 1 1100 948
    holds t 0 2048 1024
}

# Two zones of data and what lies behind them.
DATA=16384
SECTORS=24576

linear() { echo "0 $SECTORS linear /dev/ram0 0"; }

# filled_below: drive t of two zones on device below, all of it 1.
filled_below() {
    fresh /dev/ram0 2 $SMALL
    dm_create below "$(linear)"
    imr_create t /dev/mapper/below 2 $SMALL
    iotool fill /dev/mapper/t --byte 1
    iotool flush /dev/mapper/t
}

# crash: what is on the device at this moment is what a crash would leave: drive u, on a copy of it.
crash() {
    dmsetup suspend --noudevsync --noflush below
    dd if=/dev/ram0 of=/dev/ram1 bs=1M count=12 iflag=direct oflag=direct 2>/dev/null
    dmsetup resume --noudevsync below
    imr_create u /dev/ram1 2 $SMALL
}

# only NAME DIGITS FIRST BLOCKS: there is no byte in these blocks but these, below 8.
only() {
    dd if="/dev/mapper/$1" bs=4k iflag=direct skip="$3" count="$4" 2>/dev/null |
        tr -d "$(echo "$2" | sed 's/./\\00&/g')" >/tmp/foreign
    [ ! -s /tmp/foreign ] || fail "in blocks $3 to $(($3 + $4 - 1)) there is something else than $2: $(od -A d -t x1 /tmp/foreign | head -n 1)"
}

# A discard that has ended holds, whatever comes then; and no block has what belongs to another.
test_crash_after_discard() { # limit 90
    local round first
    filled_below
    for round in $(few 0 1 2 3 4 5); do
        first=$((round * 170))
        # Over the border of the zones in the last round.
        discard_blocks t $first 200
        crash
        holds u 0 $first 200
        [ "$round" -gt 0 ] || holds u 1 200 1848
        imr_remove u
        # The places go to others, whose mapping is not durable yet.
        write_block t $((round + 2)) $((first + 100)) 100
        crash
        holds u 0 $first 100
        only u "0$((round + 2))" $((first + 100)) 100
        imr_remove u
        write_block t 1 $first 200
        iotool flush /dev/mapper/t
        crash
        check iotool expect /dev/mapper/u --byte 1
        imr_remove u
    done
}

# Crashes while discards are under way, and first writes to the places that they free: what is left is a drive in
# which each block holds what was written to it, or zeros.
test_crash_during_discards() { # limit 90
    local load
    filled_below
    write_block t 2 0 700
    write_block t 3 700 700
    rm -f /tmp/stop
    while [ ! -e /tmp/stop ]; do
        discard_blocks t 300 800
        iotool fill /dev/mapper/t --byte 3 --at 5600 --count 3200 --request 400
        iotool fill /dev/mapper/t --byte 2 --at 2400 --count 3200 --request 160
    done &
    load=$!
    for _ in $(few 1 2 3 4 5 6 7 8); do
        sleep 0.07
        crash
        holds u 2 0 300
        only u 02 300 400
        only u 03 700 400
        holds u 3 1100 300
        holds u 1 1400 648
        imr_remove u
    done
    touch /tmp/stop
    wait $load
    iotool fill /dev/mapper/t --byte 1
    check iotool expect /dev/mapper/t --byte 1
}

# discards_and_writes NAME FIRST BLOCKS: over and over, until /tmp/stop.
discards_and_writes() {
    while [ ! -e /tmp/stop ]; do
        discard_blocks "$1" "$2" "$3"
        write_block "$1" 9 $(($2 + $3 / 3)) $(($3 / 2))
        discard_blocks "$1" $(($2 + $3 / 4)) $(($3 / 4))
    done
}

# Beside fio, in other zones and in the same ones, in blocks that fio does not touch.
test_beside_fio() { # limit 90
    local load phases
    for phases in $(few 2 3); do
        filled 3 phases "$phases"
        rm -f /tmp/stop
        discards_and_writes t 512 512 &
        load=$!
        discards_and_writes t 1536 1000 &
        load="$load $!"
        fio_run /dev/mapper/t --rw=randrw --verify=crc32c --bsrange=512-32k --io_size="$(scaled 6144)k" --iodepth=16 \
            --name=first --offset=0 --size=2m --name=second --offset=4m --size=2m
        touch /tmp/stop
        # shellcheck disable=SC2086
        wait $load
        [ "$(stat t unmapped_blocks)" -gt 1000 ] || fail "only $(stat t unmapped_blocks) blocks were unmapped"
        imr_remove t
    done
}

# Reads, writes and discards of the same blocks at once.
test_all_at_once() { # limit 60
    filled 2
    fio_run /dev/mapper/t --size=8m --bsrange=512-64k --io_size="$(scaled 8192)k" --iodepth=16 \
        --name=reads --rw=randread --name=writes --rw=randwrite \
        --name=trims --rw=randtrim --io_size="$(scaled 32768)k" --name=more --rw=randtrim --bs=4k --io_size="$(scaled 1024)k"
    [ "$(stat t unmapped_blocks)" -gt 100 ] || fail "only $(stat t unmapped_blocks) blocks were unmapped"
    iotool fill /dev/mapper/t --byte 6 --request 2048
    same 'mapped' "$(stat t mapped)" 2048
    check iotool expect /dev/mapper/t --byte 6
}

# Each thread discards, writes and reads pieces of its own, in zones that all share.
test_model() { # limit 90
    local phases
    for phases in $(few 2 3); do
        imr t /dev/ram0 2 $SMALL phases "$phases"
        use_all t
        check iotool model /dev/mapper/t --threads 8 --piece 128 --longest 128 --requests "$(scaled 200)" --discards 150
        cat /tmp/output
        imr_remove t
    done
}

# On a device that is slow, so that much is in flight when a discard stops its zone.
test_model_slow() { # limit 90
    fresh /dev/ram0 1 $SMALL
    dm_create below "0 $(blockdev --getsz /dev/ram0) delay /dev/ram0 0 3 /dev/ram0 0 5"
    imr_create t /dev/mapper/below 1 $SMALL
    use_all t
    check iotool model /dev/mapper/t --threads 16 --piece 64 --longest 64 --requests "$(scaled 100)" --discards 100 --seed 2
    cat /tmp/output
    imr_remove t below
}

# Long discards, over the zones' borders.
test_model_long() { # limit 90
    imr t /dev/ram0 6 $SMALL
    use_all t
    check iotool model /dev/mapper/t --threads 2 --longest 20000 --requests "$(scaled 200)" --discards 300 --seed 3
    cat /tmp/output
}

# A discard of a table that is read-only is refused, and changes nothing.
test_read_only() {
    filled 1
    imr_remove t
    dmsetup create t --readonly --noudevsync --table "$(table 1 /dev/ram0 $SMALL)"
    dmsetup mknodes t
    expect_fail discard_blocks t 0 10
    expect_fail blkdiscard /dev/mapper/t
    check dd if=/dev/mapper/t of=/tmp/read bs=1M iflag=direct
    same 'bytes not 1' "$(tr -d '\001' </tmp/read | wc -c)" 0
    same 'mapped' "$(stat t mapped)" 1024
}

# no_metadata: below, where I/O to the metadata fails.
no_metadata() { printf '%s\n' "0 $DATA linear /dev/ram0 0" "$DATA $((SECTORS - DATA)) error"; }

# The metadata cannot be written: discards fail, also those that were under way, and nothing hangs.
test_store_fails() { # limit 60
    local load number loads=''
    filled_below
    discard_blocks t 0 100
    for number in 1 2 3 4 5 6; do
        # Until it fails. What is filled is discarded again, so that there is always something to commit.
        while iotool fill /dev/mapper/t --byte 1 --at $((number * 1200 + 800)) --count 80 && discard_blocks t $((number * 150)) 1000; do :; done 2>/dev/null &
        loads="$loads $!"
    done
    dd if=/dev/mapper/t of=/dev/null bs=64k count=2000 iflag=direct 2>/dev/null &
    loads="$loads $!"
    sleep 0.3
    swap_table below "$(no_metadata)"
    for load in $loads; do wait "$load" || :; done
    dmsetup status t | grep -q ' fail ' || fail "the drive has not failed: $(dmsetup status t)"
    expect_fail discard_blocks t 0 10
    expect_fail blkdiscard /dev/mapper/t
    expect_fail write_block t 2 0
    # Reads go on, in zones that a discard had stopped, too.
    holds t 0 0 100
    holds t 1 100 50
    check dd if=/dev/mapper/t of=/dev/null bs=1M iflag=direct
    imr_remove t
    swap_table below "$(linear)"
    imr_create t /dev/mapper/below 2 $SMALL
    holds t 0 0 100
    holds t 1 100 50
    use_all t
    check iotool expect /dev/mapper/t
}

# The same when nothing else goes on: the discard itself finds out.
test_store_fails_at_a_discard() {
    filled_below
    swap_table below "$(no_metadata)"
    expect_fail discard_blocks t 1000 100
    dmsetup status t | grep -q ' fail ' || fail "the drive has not failed: $(dmsetup status t)"
    expect_fail discard_blocks t 1000 100
    check dd if=/dev/mapper/t of=/dev/null bs=1M iflag=direct
    imr_remove t
    swap_table below "$(linear)"
    imr_create t /dev/mapper/below 2 $SMALL
    check iotool expect /dev/mapper/t --byte 1
}

# A zone's table cannot be read: discards and reads that wait for it fail, one after the other, all of them.
test_table_cannot_be_read() { # limit 60
    local number loads='' load good=0
    filled 2
    imr_remove t
    dm_create bad "0 $(blockdev --getsz /dev/ram0) error"
    dm_create below "$(linear)"
    imr_create t /dev/mapper/below 2 $SMALL
    # It takes its time, so that the others wait.
    swap_table below "$(printf '%s\n' "0 $DATA linear /dev/ram0 0" "$DATA $((SECTORS - DATA)) delay /dev/mapper/bad $DATA 200 /dev/ram0 $DATA 0")"
    for number in 1 2 3 4 5 6; do
        discard_blocks t $((number * 10)) 5 2>/dev/null &
        loads="$loads $!"
        iotool expect /dev/mapper/t --byte 1 --at $((number * 100)) --count 8 2>/dev/null &
        loads="$loads $!"
    done
    for load in $loads; do
        if wait "$load"; then good=$((good + 1)); fi
    done
    same 'requests that succeeded' $good 0
    swap_table below "$(linear)"
    discard_blocks t 10 5
    holds t 1 0 10
    holds t 0 10 5
    holds t 1 15 2033
    imr_remove t below bad
}

# The device below fails and recovers over and over, its data and its metadata or the data alone.
test_flapping() { # limit 90
    local load
    fresh /dev/ram0 2 $SMALL
    dm_create below "$(linear)"
    imr_create t /dev/mapper/below 2 $SMALL
    use_all t
    iotool model /dev/mapper/t --threads 8 --piece 24 --longest 24 --seconds $((3 + SCALE)) --errors 1 --discards 50 >/tmp/load &
    load=$!
    sleep 0.2
    for _ in 1 2 3 4 5; do
        swap_table below "$(printf '%s\n' "0 $DATA error" "$DATA $((SECTORS - DATA)) linear /dev/ram0 $DATA")"
        sleep 0.2
        swap_table below "$(linear)"
        sleep 0.3
    done
    swap_table below "$(no_metadata)"
    sleep 0.3
    swap_table below "$(linear)"
    wait $load || fail "$(tail -n 1 /tmp/load)"
    tail -n 1 /tmp/load
    grep -q ' 0 failed' /tmp/load && fail "nothing failed"
    imr_remove t below
}
