# SPDX-License-Identifier: GPL-2.0-only
# What a flush covers survives, and so does everything after a stop in good order; nothing takes long.
# shellcheck shell=sh

# split ZONES: a drive's place on /dev/ram0 as a device 'below' of two parts, 'data' and 'meta', which can be given other
# tables and have counters of their own.
split() {
    DATA=$(data_sectors "$1" $SMALL)
    META=$(metadata_sectors "$1" $SMALL)
    fresh /dev/ram0 "$1" $SMALL
    dm_create data "0 $DATA linear /dev/ram0 0"
    dm_create meta "0 $META linear /dev/ram0 $DATA"
    dm_create below "$(printf '%s\n' "0 $DATA linear /dev/mapper/data 0" "$DATA $META linear /dev/mapper/meta 0")"
}

# written NAME: write requests that a device has completed.
written() {
    quiet
    local name
    for name in /sys/block/dm-*; do
        [ "$(cat "$name/dm/name")" != "$1" ] || awk '{print $5}' "$name/stat"
    done
}

sum() { quiet; md5sum "$1" | cut -d' ' -f1; }
now() { quiet; cut -d' ' -f1 /proc/uptime; }
# within SECONDS COMMAND...
within() {
    local limit=$1 begin
    shift
    begin=$(now)
    "$@"
    awk -v a="$begin" -v b="$(now)" -v limit=$((limit * SCALE)) 'BEGIN { print b - a " s"; exit b - a > limit }' >/tmp/took ||
        fail "$* took $(cat /tmp/took)"
}

# Counters that a stop must not change.
state() { quiet; dmsetup status "$1" | cut -d' ' -f4-; }

# A stop in good order preserves the mapping, the strategy and every counter; also without a flush before.
test_stop_preserves_all() { # limit 60
    local before data
    imr t /dev/ram0 4 $SMALL
    iotool model /dev/mapper/t --threads 4 --requests "$(scaled 400)" --longest 64 >/tmp/model
    message t allocation 5
    iotool fill /dev/mapper/t --byte 9 --at 100 --count 333
    # Reads of a zone that nobody has written to count, too.
    data=$(sum /dev/mapper/t)
    before=$(state t)
    dmsetup suspend --noudevsync t
    dmsetup resume --noudevsync t
    same 'after suspend and resume' "$(state t)" "$before"
    imr_remove t
    imr_create t /dev/ram0 4 $SMALL
    same 'after remove and create' "$(state t)" "$before"
    imr_remove t
    unload
    load
    imr_create t /dev/ram0 4 $SMALL phases 2
    same 'after the module was loaded again' "$(state t)" "$before"
    table 4 /dev/ram0 $SMALL | dmsetup load t
    dmsetup resume --noudevsync t
    same 'after a new table' "$(state t)" "$before"
    same 'data' "$(sum /dev/mapper/t)" "$data"
    # The counters go on from there.
    message t reset_statistics
    imr_remove t
    imr_create t /dev/ram0 4 $SMALL
    same 'host_write_requests' "$(stat t host_write_requests)" 0
    same 'phases' "$(stat t phases)" 5
}

# The counters of many zones, most of them only read.
test_counters_of_many_zones() { # limit 60
    local before zone
    imr t /dev/ram0 60 $SMALL
    for zone in $(seq 0 7 59); do iotool fill /dev/mapper/t --byte 1 --at $((zone * 8192)) --count 8; done
    sum /dev/mapper/t >/tmp/sum
    before=$(state t)
    imr_remove t
    imr_create t /dev/ram0 60 $SMALL
    same 'status' "$(state t)" "$before"
    imr_remove t
    imr_create t /dev/ram0 60 $SMALL
    same 'status, without any I/O in between' "$(state t)" "$before"
}

# dmsetup remove right after heavy writes that nobody has flushed, on a device that is slow.
test_remove_is_prompt() { # limit 90
    split 4
    slow late /dev/mapper/below 2
    imr_create t /dev/mapper/late 4 $SMALL
    fio_run /dev/mapper/t --name=w --rw=randwrite --bs=4k --iodepth=64 --io_size=$((8 / SCALE + 1))m --size=100%
    iotool fill /dev/mapper/t --byte 7 --count 8192
    within 5 imr_remove t
    imr_create t /dev/mapper/late 4 $SMALL
    check iotool expect /dev/mapper/t --byte 7 --count 8192
    iotool fill /dev/mapper/t --byte 8
    within 5 imr_remove t
    imr_create t /dev/mapper/late 4 $SMALL
    check iotool expect /dev/mapper/t --byte 8
    within 5 dmsetup suspend --noudevsync t
    dmsetup resume --noudevsync t
}

# Many small commits: the journal goes round many times, with a checkpoint of all zones each time.
test_journal_goes_round() { # limit 120
    local data commits
    split 16
    imr_create t /dev/mapper/below 16 $SMALL
    commits=$(written meta)
    fio_run /dev/mapper/t --name=w --rw=randwrite --bs=4k --iodepth=4 --fsync=1 --number_ios="$(scaled 1500)" --size=100% \
        --verify=crc32c --do_verify=1
    commits=$(($(written meta) - commits))
    [ "$commits" -gt "$(scaled 1500)" ] || fail "only $commits writes of metadata"
    same 'mode' "$(dmsetup status t | cut -d' ' -f4)" rw
    data=$(sum /dev/mapper/t)
    imr_remove t
    imr_create t /dev/mapper/below 16 $SMALL
    same 'data' "$(sum /dev/mapper/t)" "$data"
}

# Sustained first writes, as fast as they come.
test_first_writes_without_flush() { # limit 120
    local data
    split 32
    imr_create t /dev/mapper/below 32 $SMALL
    fio_run /dev/mapper/t --name=w --rw=randwrite --bs=4k --iodepth=128 --io_size=$((24 / SCALE))m --size=100%
    same 'mode' "$(dmsetup status t | cut -d' ' -f4)" rw
    data=$(sum /dev/mapper/t)
    imr_remove t
    imr_create t /dev/mapper/below 32 $SMALL
    same 'data' "$(sum /dev/mapper/t)" "$data"
}

# Every zone takes another time to write, while checkpoints are quick: first writes come in one by one while a checkpoint
# of all zones is under way, and each flush commits those that have. The journal must not run out of room.
test_first_writes_dribble_in() { # limit 180
    local zones=40 zone jobs=
    split $zones
    for zone in $(seq 0 $((zones - 1))); do
        # Reads at once, writes late, flushes at once.
        echo "$((zone * 8192)) 8192 delay /dev/ram0 $((zone * 8192)) 0 /dev/ram0 $((zone * 8192)) $((zone * 10 + 1)) /dev/ram0 0 0"
    done >/tmp/table
    swap_table data "$(cat /tmp/table)"
    swap_table meta "0 $META delay /dev/ram0 $DATA 0 /dev/ram0 $DATA 1 /dev/ram0 0 0"
    imr_create t /dev/mapper/below $zones $SMALL
    for zone in 1 2 3 4; do jobs="$jobs --name=flush$zone --rw=randwrite --bs=4k --iodepth=1 --fsync=1 --ioengine=psync"; done
    # shellcheck disable=SC2086
    fio_run /dev/mapper/t --time_based --runtime=$((11 + SCALE)) --size=100% --name=w --rw=randwrite --bs=4k --iodepth=200 $jobs
    same 'mode' "$(dmsetup status t | cut -d' ' -f4)" rw
}

# Eight threads flush all the time: they share commits.
test_commits_are_shared() { # limit 60
    local before each
    each=$(scaled 100)
    split 4
    swap_table meta "0 $META delay /dev/ram0 $DATA 0 /dev/ram0 $DATA 5"
    imr_create t /dev/mapper/below 4 $SMALL
    before=$(written meta)
    fio_run /dev/mapper/t --numjobs=8 --name=w --rw=randwrite --bs=4k --iodepth=1 --fsync=1 --number_ios="$each" --size=100%
    before=$(($(written meta) - before))
    echo "$before writes of metadata for $((8 * each)) flushes"
    [ "$before" -lt $((6 * each)) ] || fail "$before writes of metadata for $((8 * each)) flushes"
}

# A flush without changes writes no metadata, and neither do overwrites.
test_overwrites_write_no_metadata() { # limit 60
    local before
    split 2
    imr_create t /dev/mapper/below 2 $SMALL
    iotool fill /dev/mapper/t --byte 1
    iotool flush /dev/mapper/t
    sleep 2
    before=$(written meta)
    fio_run /dev/mapper/t --name=w --rw=randwrite --bs=4k --fsync=4 --number_ios="$(scaled 400)" --size=100%
    sleep 2
    before=$(($(written meta) - before))
    [ "$before" -le 4 ] || fail "$before writes of metadata"
}

# The device below is gone at once, and comes back: what was promised is there.
test_promises_survive() { # limit 120
    local round durable
    split 4
    for round in 0 1 2 3 4 5; do
        imr_create t /dev/mapper/below 4 $SMALL
        if [ "$round" -gt 0 ]; then check crashtool verify /dev/mapper/t --open 1 --round 1000000 --ops "$(cat /tmp/known)"; fi
        [ "$round" -lt 5 ] || break
        durable=$((round * 200))
        crashtool write /dev/mapper/t --ops /tmp/ops$round --first $((round * 1000000 + 1)) --seed "$round" --errors 1 \
            --threads 6 --requests 100000 --seconds $((2 + SCALE / 2)) --durable $durable >/tmp/crashtool &
        sleep $((1 + SCALE / 4))
        swap_table below "0 $((DATA + META)) error"
        wait $! || fail "the writer: $(tail -n 1 /tmp/crashtool)"
        imr_remove t
        swap_table below "$(printf '%s\n' "0 $DATA linear /dev/mapper/data 0" "$DATA $META linear /dev/mapper/meta 0")"
        [ "$round" = 0 ] && echo /tmp/ops0 >/tmp/known || echo "$(cat /tmp/known),/tmp/ops$round" >/tmp/known
    done
    cat /tmp/output
}
