# SPDX-License-Identifier: GPL-2.0-only
# Settings, conditions, resets, errors and latencies of live drives, by ioctl and by message alike.
# shellcheck shell=sh disable=SC2015,SC2034,SC2046,SC2086,SC2154,SC3043

# The number that stands for all zones.
ALL=18446744073709551615
# Sectors and blocks of a zone of a small drive.
ZONE=8192
BLOCKS=1024

# ask NAME REQUEST [FIELD=NUMBER]...: an ioctl that must end well; its answer is in /tmp/output.
ask() { local name=$1; shift; check iotool ask "/dev/mapper/$name" "$@"; }

# field NAME FIELD REQUEST [FIELD=NUMBER]...: a field of the answer.
field() {
    quiet
    local name=$1 field=$2
    shift 2
    iotool ask "/dev/mapper/$name" "$@" >/tmp/answer || fail "$1: $(cat /tmp/answer)"
    sed -n "s/^$field=//p" /tmp/answer
}

# setting NAME NUMBER: what a setting is.
setting() { field "$1" value GET_SETTING setting="$2"; }

# said NAME KEY: what the message 'settings' says of a setting.
said() { quiet; message "$1" settings | tr ' ' '\n' | sed -n "s/^$2=//p"; }

# errno NUMBER COMMAND...: an ioctl, a read or a write must fail with this error.
errno() {
    local number=$1 rc=0
    shift
    "$@" >/tmp/output 2>&1 || rc=$?
    [ "$rc" = 3 ] && grep -q "(os error $number)" /tmp/output || fail "expected error $number, exit code $rc: $(cat /tmp/output): $*"
}

# no REQUEST_ERROR TEXT NAME REQUEST [FIELD=NUMBER]... -- WORD...: neither the ioctl nor the message is carried out,
# for the same reason.
no() {
    local number=$1 text=$2 name=$3 ioctl=
    shift 3
    while [ "$1" != -- ]; do ioctl="$ioctl $1"; shift; done
    shift
    errno "$number" iotool ask "/dev/mapper/$name" $ioctl
    expect_fail message "$name" "$@"
    grep -q "$text" /tmp/output || fail "the message failed for another reason than '$text': $(cat /tmp/output): $*"
}

# condition NAME ZONE: the number of a zone's condition.
condition() {
    quiet
    set -- $(field "$1" zones REPORT_ZONES next="$2" count=1)
    echo $(($3 >> 32))
}

conditions() { quiet; local zone found=; for zone in 0 1 2; do found="$found $(condition "$1" $zone)"; done; echo $found; }

# filled ZONES WORD...: drive t on /dev/ram0, all of it 1.
filled() {
    local zones=$1
    shift
    imr t /dev/ram0 "$zones" $SMALL "$@"
    iotool fill /dev/mapper/t --byte 1
    same 'mapped' "$(stat t mapped)" $((zones * BLOCKS))
}

# holds NAME BYTE ZONE: a zone holds this byte throughout.
holds() { check iotool expect "/dev/mapper/$1" --byte "$2" --at $(($3 * ZONE)) --count $ZONE; }

# crash: drive 'copy' on /dev/ram1 is what is left of drive t, on /dev/ram0, if the power fails now.
crash() {
    dd if=/dev/ram0 of=/dev/ram1 bs=1M count=24 iflag=direct oflag=direct 2>/dev/null
    imr_create copy /dev/ram1 3 $SMALL
}

# again: t is removed in good order and comes back.
again() {
    imr_remove t
    imr_create t /dev/ram0 3 $SMALL
}

# milliseconds COMMAND...: how long it takes.
now_ms() { quiet; awk '{printf "%d", $1 * 1000}' /proc/uptime; }
milliseconds() {
    quiet
    local begin
    begin=$(now_ms)
    "$@" >/tmp/output 2>&1 || fail "$* failed: $(cat /tmp/output)"
    echo $(($(now_ms) - begin))
}

# The settings: number, name, default, other values.
SETTINGS='0 allocation 2 3 64 1
1 rmw_read_delay 0 1 500 10000000
2 write_back_delay 0 1 500 10000000
3 log_errors 0 1
4 measure_latency 0 1'

test_settings_by_ioctl_and_message() { # limit 60
    local number name default values value
    imr t /dev/ram0 1 $SMALL
    same 'settings' "$(field t settings GET_CONFIG)" 5
    echo "$SETTINGS" >/tmp/settings
    while read -r number name default values; do
        same "$name" "$(setting t $number)" "$default"
        for value in $(few $values) $default; do
            ask t SET_SETTING setting=$number value=$value
            same "$name" "$(setting t $number)" "$value"
            same "$name by message" "$(said t $name)" "$value"
        done
        for value in $(few $values) $default; do
            message t $name $value
            same "$name" "$(setting t $number)" "$value"
            same "$name by message" "$(said t $name)" "$value"
        done
    done </tmp/settings
    message t measure_latency on
    same 'measure_latency' "$(setting t 4)" 1
    message t measure_latency off
    same 'measure_latency' "$(setting t 4)" 0
    message t allocation 5
    same 'phases' "$(stat t phases)" 5
    same 'phases' "$(field t phases GET_CONFIG)" 5
}

test_wrong_settings() {
    local before words
    imr t /dev/ram0 1 $SMALL
    message t rmw_read_delay 7
    before=$(message t settings)
    no 22 'Invalid argument' t SET_SETTING setting=0 value=0 -- allocation 0
    no 22 'Invalid argument' t SET_SETTING setting=0 value=65 -- allocation 65
    no 22 'Invalid argument' t SET_SETTING setting=1 value=10000001 -- rmw_read_delay 10000001
    no 22 'Invalid argument' t SET_SETTING setting=2 value=4294967295 -- write_back_delay 4294967296
    no 22 'Invalid argument' t SET_SETTING setting=3 value=2 -- log_errors 2
    no 22 'Invalid argument' t SET_SETTING setting=5 value=0 -- nonsense 0
    errno 22 iotool ask /dev/mapper/t GET_SETTING setting=5
    errno 22 iotool ask /dev/mapper/t GET_SETTING setting=4294967295
    for words in rmw_read_delay 'rmw_read_delay 1 2' 'rmw_read_delay -- -1' 'rmw_read_delay on' 'rmw_read_delay +1' \
        'rmw_read_delay 1ms' 'log_errors yes' 'measure_latency ON' 'settings all' 'reset_config' 'reset_config none' \
        'RMW_READ_DELAY 1' 'condition' 'condition 0' 'condition 0 normal 1' 'reset_zone' 'reset_zone 0 0' 'latency' \
        'latency nonsense' 'errors nonsense'; do
        expect_fail message t $words
        grep -q 'Invalid argument' /tmp/output || fail "'$words' is refused with: $(cat /tmp/output)"
    done
    # What is wrong with the struct.
    errno 22 iotool ask /dev/mapper/t SET_SETTING version=2 setting=0 value=3
    errno 22 iotool ask /dev/mapper/t SET_SETTING size=24 setting=0 value=3
    errno 22 iotool ask /dev/mapper/t SET_CONDITION zone=0 condition=1 reserved=1
    errno 22 iotool ask /dev/mapper/t RESET_CONFIG what=0
    errno 22 iotool ask /dev/mapper/t RESET_CONFIG what=4
    errno 22 iotool ask /dev/mapper/t GET_LATENCY kind=6
    errno 22 iotool ask /dev/mapper/t GET_ERRORS flags=4
    errno 22 iotool ask /dev/mapper/t REPORT_ZONES count=1 filter=6
    same 'the settings' "$(message t settings)" "$before"
}

# What was set when a call returned is there after the power failed, and after a good stop, too.
test_settings_persist() {
    local all
    imr t /dev/ram0 3 $SMALL
    message t allocation 5
    message t rmw_read_delay 11
    ask t SET_SETTING setting=2 value=22
    message t log_errors on
    ask t SET_SETTING setting=4 value=1
    all=$(message t settings)
    crash
    same 'the settings after a crash' "$(message copy settings)" "$all"
    imr_remove copy
    again
    same 'the settings after a stop' "$(message t settings)" "$all"
    ask t SET_SETTING setting=1 value=12
    again
    same 'rmw_read_delay' "$(said t rmw_read_delay)" 12
    same 'write_back_delay' "$(said t write_back_delay)" 22
}

# They are then what they were when the drive was made.
test_reset_of_settings() {
    imr t /dev/ram0 3 $SMALL phases 3
    local before
    before=$(message t settings)
    same 'allocation' "$(said t allocation)" 3
    message t allocation 9
    message t log_errors 1
    message t write_back_delay 33
    message t condition 1 read-only
    ask t RESET_CONFIG what=2
    same 'the settings' "$(message t settings)" "$before"
    same 'the conditions' "$(conditions t)" '0 1 0'
    message t allocation 9
    message t reset_config zones
    same 'the conditions' "$(conditions t)" '0 0 0'
    same 'allocation' "$(said t allocation)" 9
    message t reset_config settings
    same 'the settings' "$(message t settings)" "$before"
    message t rmw_read_delay 5
    message t condition all offline
    message t reset_config all
    same 'the settings' "$(message t settings)" "$before"
    same 'the conditions' "$(conditions t)" '0 0 0'
    message t allocation 9
    message t condition 2 offline
    ask t RESET_CONFIG what=3
    imr_remove t
    imr_create t /dev/ram0 3 $SMALL phases 3
    same 'the settings' "$(message t settings)" "$before"
    same 'the conditions' "$(conditions t)" '0 0 0'
}

test_read_only_zone() {
    filled 3
    ask t SET_CONDITION zone=1 condition=1
    same 'the conditions' "$(conditions t)" '0 1 0'
    errno 5 iotool fill /dev/mapper/t --byte 2 --at $ZONE --count 8
    errno 5 iotool fill /dev/mapper/t --byte 2 --at $((ZONE + 3)) --count 1
    errno 5 iotool fill /dev/mapper/t --byte 2 --at $((2 * ZONE - 8)) --count 8
    # Rewrites, long ones.
    errno 5 iotool fill /dev/mapper/t --byte 2 --at $ZONE --count $ZONE
    expect_fail /bin/blkdiscard --force --offset $((ZONE * 512)) --length 40960 /dev/mapper/t
    no 30 'Read-only file system' t RESET_ZONE zone=1 -- reset_zone 1
    holds t 1 1
    # The zones beside it work, rewrites included.
    iotool fill /dev/mapper/t --byte 2 --count $ZONE
    iotool fill /dev/mapper/t --byte 2 --at $((2 * ZONE)) --count $ZONE
    for zone in 0 2; do holds t 2 $zone; done
    holds t 1 1
    # A write that reaches into it fails.
    errno 5 iotool fill /dev/mapper/t --byte 3 --at $((ZONE - 80)) --count 160 --request 160
    holds t 1 1
    message t condition 1 normal
    iotool fill /dev/mapper/t --byte 3 --at $ZONE --count $ZONE
    holds t 3 1
    same 'mapped' "$(stat t mapped)" $((3 * BLOCKS))
}

test_offline_zone() {
    filled 3
    message t condition 1 offline
    same 'the conditions' "$(conditions t)" '0 2 0'
    errno 5 iotool expect /dev/mapper/t --byte 1 --at $ZONE --count 8
    errno 5 iotool expect /dev/mapper/t --byte 1 --at $((ZONE + 800)) --count 8000 --request 700
    errno 5 iotool fill /dev/mapper/t --byte 2 --at $ZONE --count 8
    expect_fail /bin/blkdiscard --force --offset $((ZONE * 512)) --length 40960 /dev/mapper/t
    no 5 'Input/output error' t RESET_ZONE zone=1 -- reset_zone 1
    errno 5 iotool expect /dev/mapper/t --byte 1 --at $((ZONE - 80)) --count 160 --request 160
    for zone in 0 2; do holds t 1 $zone; done
    # What is in it is kept.
    ask t SET_CONDITION zone=1 condition=0
    holds t 1 1
}

# Zones never written to have conditions, too.
test_conditions_of_free_zones() {
    imr t /dev/ram0 3 $SMALL
    message t condition 0 read-only
    message t condition 1 offline
    errno 5 iotool fill /dev/mapper/t --byte 2 --count 8
    check iotool expect /dev/mapper/t --byte 0 --count $ZONE
    errno 5 iotool fill /dev/mapper/t --byte 2 --at $ZONE --count 8
    errno 5 iotool expect /dev/mapper/t --byte 0 --at $ZONE --count 8
    iotool fill /dev/mapper/t --byte 2 --at $((2 * ZONE)) --count $ZONE
    holds t 2 2
    message t condition all normal
    check iotool expect /dev/mapper/t --byte 0 --count $((2 * ZONE))
    same 'mapped' "$(stat t mapped)" $BLOCKS
}

test_conditions_persist() {
    filled 3
    iotool flush /dev/mapper/t
    message t condition 1 read-only
    ask t SET_CONDITION zone=2 condition=2
    crash
    same 'the conditions after a crash' "$(conditions copy)" '0 1 2'
    errno 5 iotool fill /dev/mapper/copy --byte 2 --at $ZONE --count 8
    errno 5 iotool expect /dev/mapper/copy --byte 1 --at $((2 * ZONE)) --count 8
    message copy condition all normal
    for zone in 1 2; do holds copy 1 $zone; done
    imr_remove copy
    again
    same 'the conditions after a stop' "$(conditions t)" '0 1 2'
    errno 5 iotool fill /dev/mapper/t --byte 2 --at $ZONE --count 8
    ask t SET_CONDITION zone=$ALL condition=2
    again
    same 'the conditions' "$(conditions t)" '2 2 2'
    errno 5 iotool expect /dev/mapper/t --byte 1 --count 8
    message t condition all normal
    check iotool expect /dev/mapper/t --byte 1
}

test_wrong_conditions() {
    imr t /dev/ram0 3 $SMALL
    no 6 'No such device' t SET_CONDITION zone=3 condition=1 -- condition 3 read-only
    no 6 'No such device' t RESET_ZONE zone=3 -- reset_zone 3
    no 6 'No such device' t RESET_STATISTICS zone=3 -- reset_statistics 3
    no 6 'No such device' t RESET_ZONE zone=18446744073709551614 -- reset_zone 18446744073709551614
    no 22 'Invalid argument' t SET_CONDITION zone=0 condition=3 -- condition 0 broken
    errno 6 iotool ask /dev/mapper/t GET_STATISTICS zone=3
    for words in 'condition x offline' 'condition -- -1 offline' 'reset_zone x' 'reset_statistics x'; do
        expect_fail message t $words
    done
    same 'the conditions' "$(conditions t)" '0 0 0'
}

test_report_zones() {
    filled 3
    message t reset_zone 1
    iotool fill /dev/mapper/t --byte 2 --at $ZONE --count 80
    message t condition 0 read-only
    message t condition 2 offline
    local filter
    for filter in '0 3 0 1 2' '1 2 0 2' '2 1 1' '3 0' '4 1 0' '5 1 2'; do
        set -- $filter
        ask t REPORT_ZONES count=64 filter="$1"
        same "zones of filter $1" "$(sed -n 's/^count=//p' /tmp/output)" "$2"
        same "the end of filter $1" "$(sed -n 's/^next=//p' /tmp/output)" 3
        shift 2
        same 'their numbers' "$(sed -n 's/^zones=//p' /tmp/output | awk -v n=$# '{for (i = 0; i < n; i++) print $(3 * i + 1)}' | xargs)" "$*"
    done
    # Blocks of zone 1.
    same 'mapped' "$(($(field t zones REPORT_ZONES next=1 count=1 | cut -d' ' -f2) & 0xffffffff))" 10
    # One after the other, and beyond the end.
    same 'next' "$(field t next REPORT_ZONES count=1)" 1
    same 'count' "$(field t count REPORT_ZONES next=3 count=1)" 0
    same 'count' "$(field t count REPORT_ZONES next=18446744073709551615 count=64)" 0
}

test_reset_zone() {
    filled 3
    iotool flush /dev/mapper/t
    ask t RESET_STATISTICS zone=$ALL
    message t reset_zone 1
    crash
    same 'mapped' "$(stat t mapped)" $((2 * BLOCKS))
    same 'zone_resets' "$(stat t zone_resets)" 1
    same 'unmapped_blocks' "$(stat t unmapped_blocks)" $BLOCKS
    same 'discard_requests' "$(stat t discard_requests)" 0
    holds t 0 1
    for zone in 0 2; do holds t 1 $zone; done
    # It was durable when the call returned.
    same 'mapped after a crash' "$(stat copy mapped)" $((2 * BLOCKS))
    holds copy 0 1
    for zone in 0 2; do holds copy 1 $zone; done
    imr_remove copy
    # The places are free: filled from the first phase on, nothing is rewritten.
    message t reset_statistics
    iotool fill /dev/mapper/t --byte 4 --at $ZONE --count $ZONE
    same 'first_write_blocks' "$(stat t first_write_blocks)" $BLOCKS
    same 'extra_write_blocks' "$(stat t extra_write_blocks)" 0
    holds t 4 1
    ask t RESET_ZONE zone=2
    ask t RESET_ZONE zone=0
    # Once more: there is nothing any more.
    ask t RESET_ZONE zone=0
    same 'mapped' "$(stat t mapped)" $BLOCKS
    again
    same 'mapped' "$(stat t mapped)" $BLOCKS
    for zone in 0 2; do holds t 0 $zone; done
    holds t 4 1
    # A zone whose table has not been read since the drive came back.
    again
    message t reset_zone 1
    same 'mapped' "$(stat t mapped)" 0
    again
    check iotool expect /dev/mapper/t --byte 0
}

# Resets of a zone that is written, read and discarded meanwhile: they end, and the zones beside it do not notice.
test_reset_zone_under_load() { # limit 60
    local pid zone loads='' resets=0
    imr t /dev/ram0 3 $SMALL
    for zone in 0 2; do
        iotool model /dev/mapper/t --at $((zone * ZONE)) --count $ZONE --threads 2 --piece 96 --longest 96 \
            --seconds $((4 + SCALE / 2)) --flushes 10 >/tmp/load.$zone &
        loads="$loads $!"
    done
    while kill -0 ${loads% *} 2>/dev/null; do
        iotool fill /dev/mapper/t --byte 5 --at $ZONE --count $ZONE --request 24 &
        pid=$!
        iotool fill /dev/mapper/t --byte 5 --at $((ZONE + 4000)) --count 2000 --request 3 &
        while kill -0 $pid 2>/dev/null; do
            message t reset_zone 1
            resets=$((resets + 1))
        done
        wait $pid || fail 'a write failed in a zone that is reset'
        wait $! || fail 'a write failed in a zone that is reset'
    done
    for pid in $loads; do wait $pid || fail "beside the zone: $(tail -n 1 /tmp/load.*)"; done
    [ $resets -ge 2 ] || fail "there were $resets resets"
    echo "$resets resets"
    message t reset_zone 1
    holds t 0 1
    iotool fill /dev/mapper/t --byte 6 --at $ZONE --count $ZONE
    holds t 6 1
    # A zone that is reset, or read-only, is no obstacle to a suspend.
    iotool fill /dev/mapper/t --byte 5 --at $ZONE --count $ZONE --request 24 &
    message t reset_zone 1
    dmsetup suspend --noudevsync t
    dmsetup resume --noudevsync t
    wait $!
}

test_suspended() {
    local before
    filled 3
    before=$(message t settings)
    dmsetup suspend --noudevsync t
    errno 11 iotool ask /dev/mapper/t GET_CONFIG
    no 11 'temporarily unavailable' t SET_SETTING setting=0 value=5 -- allocation 5
    no 11 'temporarily unavailable' t SET_CONDITION zone=1 condition=1 -- condition 1 read-only
    no 11 'temporarily unavailable' t RESET_ZONE zone=1 -- reset_zone 1
    no 11 'temporarily unavailable' t RESET_CONFIG what=3 -- reset_config all
    same 'the mode' "$(dmsetup status t | cut -d' ' -f4)" suspended
    dmsetup resume --noudevsync t
    same 'the settings' "$(message t settings)" "$before"
    same 'the conditions' "$(conditions t)" '0 0 0'
    check iotool expect /dev/mapper/t --byte 1
}

test_read_only_table() {
    local before
    filled 3
    before=$(message t settings)
    imr_remove t
    dmsetup create t --readonly --noudevsync --table "$(table 3 /dev/ram0 $SMALL)"
    dmsetup mknodes t
    same 'the mode' "$(dmsetup status t | cut -d' ' -f4)" ro
    same 'the settings' "$(message t settings)" "$before"
    same 'value' "$(setting t 0)" 2
    no 30 'Read-only file system' t SET_SETTING setting=0 value=5 -- allocation 5
    no 30 'Read-only file system' t SET_CONDITION zone=1 condition=2 -- condition 1 offline
    no 30 'Read-only file system' t RESET_ZONE zone=1 -- reset_zone 1
    no 30 'Read-only file system' t RESET_CONFIG what=3 -- reset_config all
    same 'the settings' "$(message t settings)" "$before"
    imr_remove t
    imr_create t /dev/ram0 3 $SMALL
    same 'the settings' "$(message t settings)" "$before"
    same 'the conditions' "$(conditions t)" '0 0 0'
    check iotool expect /dev/mapper/t --byte 1
}

# Whoever may read the node may ask, and change nothing.
test_nobody() {
    local words before
    filled 3
    message t condition 2 read-only
    chmod 600 /dev/mapper/t
    expect_fail nobody iotool ask /dev/mapper/t GET_CONFIG
    grep -q 'os error 13' /tmp/output || fail "without the right to read: $(cat /tmp/output)"
    chmod 644 /dev/mapper/t
    before="$(dmsetup status t) $(message t settings) $(conditions t)"
    for words in GET_CONFIG 'GET_STATISTICS zone=0' "GET_STATISTICS zone=$ALL" 'GET_SETTING setting=1' 'REPORT_ZONES count=64' \
        'GET_ERRORS' 'GET_LATENCY kind=2' 'GET_SNAPSHOT zone=1 mapping_bytes=2304'; do
        check nobody iotool ask /dev/mapper/t $words
    done
    for words in 'SET_SETTING setting=0 value=3' 'SET_SETTING setting=1 value=5' 'RESET_STATISTICS zone=0' "RESET_STATISTICS zone=$ALL" \
        'RESET_ZONE zone=0' 'RESET_ZONE zone=9' 'SET_CONDITION zone=0 condition=2' "SET_CONDITION zone=$ALL condition=0" \
        'RESET_CONFIG what=1' 'RESET_CONFIG what=3' 'GET_ERRORS flags=1' 'GET_ERRORS flags=3' 'SET_SETTING setting=99 value=0' 'GET_SNAPSHOT zone=1 flags=1'; do
        errno 1 nobody iotool ask /dev/mapper/t $words
    done
    # Rights to the node are not what counts.
    chmod 666 /dev/mapper/t
    errno 1 nobody iotool ask /dev/mapper/t SET_SETTING setting=0 value=3
    expect_fail nobody dmsetup message t 0 allocation 3
    same 'the drive' "$(dmsetup status t) $(message t settings) $(conditions t)" "$before"
    check iotool expect /dev/mapper/t --byte 1
}

# rewrite [COUNT]: the first bottom blocks of the first group, under tops in use, 8 sectors each.
rewrite() { iotool fill /dev/mapper/t --byte 2 --at $((7 * 8)) --count 8; }

test_delays() { # limit 60
    local took
    filled 3
    message t rmw_read_delay 300000
    took=$(milliseconds rewrite)
    [ "$took" -ge 300 ] || fail "with rmw_read_delay of 300 ms, a rewrite took $took ms"
    message t write_back_delay 400000
    took=$(milliseconds rewrite)
    [ "$took" -ge 700 ] || fail "with another 400 ms of write_back_delay, a rewrite took $took ms"
    message t rmw_read_delay 0
    took=$(milliseconds rewrite)
    [ "$took" -ge 400 ] || fail "with write_back_delay of 400 ms, a rewrite took $took ms"
    # What rewrites nothing does not wait: a top block, a read, a discard, a first write on a bottom track.
    message t rmw_read_delay 10000000
    message t write_back_delay 10000000
    took=$(milliseconds iotool fill /dev/mapper/t --byte 2 --at $((700 * 8)) --count 8)
    [ "$took" -lt 10000 ] || fail "a write to a top block took $took ms"
    took=$(milliseconds iotool expect /dev/mapper/t --byte 1 --at 800 --count 8)
    [ "$took" -lt 10000 ] || fail "a read took $took ms"
    message t reset_zone 1
    took=$(milliseconds iotool fill /dev/mapper/t --byte 2 --at $ZONE --count 800)
    [ "$took" -lt 10000 ] || fail "a first write took $took ms"
    message t reset_config settings
    took=$(milliseconds rewrite)
    [ "$took" -lt 10000 ] || fail "a rewrite without delay took $took ms"
    check iotool expect /dev/mapper/t --byte 2 --at $((7 * 8)) --count 8
    check iotool expect /dev/mapper/t --byte 1 --at $((8 * 8)) --count $((600 * 8))
}

# Rewrites that have nothing to do with each other wait at the same time.
test_delays_overlap() { # limit 60
    local took
    filled 3
    # Longer where everything else takes longer.
    message t rmw_read_delay $((500000 * SCALE))
    message t write_back_delay $((500000 * SCALE))
    # Every other block, so that no top block lies over two of them.
    took=$(milliseconds fio_run /dev/mapper/t --name=many --rw=write:4k --bs=4k --size=256k --io_size=128k --iodepth=32)
    [ "$(stat t rmw_two_neighbours)" -ge 1 ] || [ "$(stat t rmw_one_neighbour)" -ge 32 ] || fail 'nothing was rewritten'
    [ "$took" -ge $((1000 * SCALE)) ] || fail "32 rewrites took $took ms"
    [ "$took" -lt $((16000 * SCALE)) ] || fail "32 rewrites that each wait $SCALE s took $took ms"
}

# Waiting rewrites end before the drive is suspended or removed, and their writers can be killed.
test_delays_end() { # limit 60
    local load
    filled 3
    message t rmw_read_delay 1000000
    rewrite &
    load=$!
    sleep 0.2
    dmsetup suspend --noudevsync t
    dmsetup resume --noudevsync t
    wait $load
    check iotool expect /dev/mapper/t --byte 2 --at $((7 * 8)) --count 8
    fio_run /dev/mapper/t --name=many --rw=write:4k --bs=4k --size=256k --io_size=128k --iodepth=32 &
    load=$!
    sleep 0.2
    kill -9 $load
    wait $load || :
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        if dmsetup remove --noudevsync t 2>/dev/null; then break; fi
        sleep 1
    done
    imr_create t /dev/ram0 3 $SMALL
    check iotool expect /dev/mapper/t --byte 1 --at $((100 * 8)) --count $((900 * 8))
}

# errors NAME: what the drive says of errors, in a line.
errors() {
    quiet
    iotool ask "/dev/mapper/$1" GET_ERRORS | grep -v -e flags -e logging | cut -d= -f2 | tr '\n' ' ' | sed 's/ $//'
}

# The numbers: causes of the last failed read and write, their errors, their zones, and how many there were.
test_errors_of_zones() {
    filled 3
    same 'before any' "$(errors t)" "0 0 0 0 $ALL $ALL 0 0"
    message t condition 1 read-only
    message t condition 2 offline
    errno 5 iotool fill /dev/mapper/t --byte 2 --at $ZONE --count 8
    same 'a write to a read-only zone' "$(errors t)" "0 2 0 5 $ALL 1 0 1"
    errno 5 iotool expect /dev/mapper/t --byte 2 --at $((2 * ZONE + 80)) --count 8
    same 'a read of an offline zone' "$(errors t)" "3 2 5 5 2 1 1 1"
    errno 5 iotool fill /dev/mapper/t --byte 2 --at $((2 * ZONE + 80)) --count 8
    same 'a write to an offline zone' "$(errors t)" "3 3 5 5 2 2 1 2"
    expect_fail /bin/blkdiscard --force --offset $((ZONE * 512)) --length 40960 /dev/mapper/t
    same 'a discard' "$(errors t)" "3 2 5 5 2 1 1 3"
    message t errors >/tmp/output
    grep -q 'zone-offline' /tmp/output && grep -q 'zone-read-only' /tmp/output || fail "errors: $(cat /tmp/output)"
    # What fails for the caller's own fault is none of the drive's errors.
    expect_fail message t reset_zone 1
    same 'a reset that is refused' "$(errors t)" "3 2 5 5 2 1 1 3"
    # Forgotten one by one, and the answer is what was there before.
    ask t GET_ERRORS flags=1
    same 'read_cause' "$(sed -n 's/^read_cause=//p' /tmp/output)" 3
    same 'reads forgotten' "$(errors t)" "0 2 0 5 $ALL 1 0 3"
    message t errors clear >/tmp/output
    grep -q 'zone-read-only' /tmp/output || fail "errors clear: $(cat /tmp/output)"
    same 'all forgotten' "$(errors t)" "0 0 0 0 $ALL $ALL 0 0"
    # What ends well changes nothing.
    check iotool expect /dev/mapper/t --byte 1 --count 80
    same 'none' "$(errors t)" "0 0 0 0 $ALL $ALL 0 0"
}

# lines: how many lines of the log are about failed requests.
lines() { quiet; dmesg | grep -v '@@ ' | grep -c 'imrsim: .*read failed in zone 1: The zone is offline' || :; }

test_errors_in_the_log() {
    filled 3
    message t condition 1 offline
    errno 5 iotool expect /dev/mapper/t --byte 2 --at $ZONE --count 8
    same 'lines while off' "$(lines)" 0
    message t log_errors on
    same 'logging' "$(field t logging GET_ERRORS)" 1
    errno 5 iotool expect /dev/mapper/t --byte 2 --at $ZONE --count 8
    same 'lines' "$(lines)" 1
    # Not one for each of many.
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        errno 5 iotool expect /dev/mapper/t --byte 2 --at $ZONE --count 8
    done
    same 'read_errors' "$(field t read_errors GET_ERRORS)" 32
    [ "$SCALE" -gt 1 ] || [ "$(lines)" -lt 30 ] || fail "30 errors gave $(lines) lines"
    message t log_errors off
    dmesg -c >/dev/null
    errno 5 iotool expect /dev/mapper/t --byte 2 --at $ZONE --count 8
    same 'lines while off' "$(lines)" 0
}

# measured NAME: how many requests of each kind were measured.
measured() {
    quiet
    local kind
    for kind in 0 1 2 3 4 5; do field "$1" requests GET_LATENCY kind=$kind; done | xargs
}

test_latencies() {
    local kind count
    filled 3
    message t reset_zone 2
    iotool fill /dev/mapper/t --byte 1 --at $((2 * ZONE)) --count $((600 * 8))
    same 'while off' "$(measured t)" '0 0 0 0 0 0'
    message t measure_latency on
    iotool expect /dev/mapper/t --byte 1 --count $((11 * 8)) --request 8
    iotool expect /dev/mapper/t --byte 0 --at $((2 * ZONE + 700 * 8)) --count $((5 * 8)) --request 8
    # First writes, an update of a top block, and rewrites.
    iotool fill /dev/mapper/t --byte 1 --at $((2 * ZONE + 600 * 8)) --count $((7 * 8)) --request 8
    iotool fill /dev/mapper/t --byte 1 --at $((700 * 8)) --count 8
    iotool fill /dev/mapper/t --byte 1 --count $((3 * 8)) --request 8
    iotool flush /dev/mapper/t
    iotool flush /dev/mapper/t
    /bin/blkdiscard --force --offset $((ZONE * 512)) --length 40960 /dev/mapper/t
    message t measure_latency off
    same 'requests' "$(measured t)" '11 5 8 3 2 1'
    for kind in 0 1 2 3 4 5; do
        ask t GET_LATENCY kind=$kind
        count=$(sed -n 's/^counts=//p' /tmp/output | awk '{for (i = 1; i <= NF; i++) n += $i; print n + 0}')
        same "the sum of the buckets of kind $kind" "$count" "$(sed -n 's/^requests=//p' /tmp/output)"
        [ "$(sed -n 's/^nanoseconds=//p' /tmp/output)" -gt 0 ] || fail "kind $kind took no time"
    done
    message t latency rewrite >/tmp/output
    grep -q 3 /tmp/output || fail "latency: $(cat /tmp/output)"
    iotool expect /dev/mapper/t --byte 1 --count 80
    rewrite
    iotool flush /dev/mapper/t
    same 'while off' "$(measured t)" '11 5 8 3 2 1'
}

# A delay is in the latency of the rewrites, and of nothing else.
test_latency_of_delays() {
    filled 3
    message t measure_latency on
    message t rmw_read_delay 200000
    rewrite
    rewrite
    iotool fill /dev/mapper/t --byte 1 --at $((700 * 8)) --count 8
    same 'requests' "$(measured t)" '0 0 1 2 0 0'
    [ "$(field t nanoseconds GET_LATENCY kind=3)" -ge 400000000 ] || fail 'two rewrites with delays of 200 ms took less'
    # Bucket b ends at 2^(9 + b) ns: 2^27 ns are 134 ms, the end of bucket 18, the 19th number.
    same 'short rewrites' "$(field t counts GET_LATENCY kind=3 | awk '{for (i = 1; i <= 19; i++) n += $i; print n}')" 0
}

# indicator NAME ZONE INDEX
indicator() { quiet; field "$1" indicators GET_STATISTICS zone="$2" | cut -d' ' -f$(($3 + 1)); }

# edges_and_crossings: unaligned edges and zones that requests left.
edges_and_crossings() { quiet; echo "$(stat t unaligned_edges) $(stat t cross_zone_requests)"; }

test_new_indicators() {
    local zone
    # Zones of 32 blocks, 256 sectors.
    imr t /dev/ram0 8 geometry 7 9 2
    iotool fill /dev/mapper/t --byte 1 --count 8
    same 'a whole block' "$(edges_and_crossings)" '0 0'
    iotool fill /dev/mapper/t --byte 1 --at 3 --count 2
    same 'within a block' "$(edges_and_crossings)" '2 0'
    iotool fill /dev/mapper/t --byte 1 --at 4 --count 4
    same 'to the end of a block' "$(edges_and_crossings)" '3 0'
    iotool fill /dev/mapper/t --byte 1 --count 12
    same 'from the start of a block' "$(edges_and_crossings)" '4 0'
    iotool fill /dev/mapper/t --byte 1 --at 248 --count 16
    same 'into the next zone' "$(edges_and_crossings)" '4 1'
    iotool fill /dev/mapper/t --byte 1 --at 250 --count 12
    same 'into the next zone, unaligned' "$(edges_and_crossings)" '6 2'
    iotool fill /dev/mapper/t --byte 1 --at 200 --count 248
    same 'the rest of one, most of another' "$(edges_and_crossings)" '6 3'
    message t reset_statistics
    check iotool expect /dev/mapper/t --byte 1 --at 250 --count 12
    same 'a read into the next zone' "$(edges_and_crossings)" '2 1'
    same 'in the zone it leaves' "$(indicator t 0 15) $(indicator t 0 16)" '1 1'
    same 'in the zone it ends in' "$(indicator t 1 15) $(indicator t 1 16)" '0 1'
    for zone in 0 0 1; do
        iotool fill /dev/mapper/t --byte 1 --at $((zone * 256)) --count 8
        message t reset_zone $zone
    done
    same 'zone_resets' "$(stat t zone_resets)" 3
    same 'zone_resets' "$(indicator t 0 17) $(indicator t 1 17) $(indicator t 2 17)" '2 1 0'
}

# The line has what it always had, in this order; what is new comes at the end.
test_status_line() {
    local line
    filled 3
    line=$(dmsetup status t | tr ' ' '\n' | sed 's/=.*//' | xargs)
    case $line in
        "0 $((3 * ZONE)) imrsim rw 3072/3072 phases zones host_read_requests host_read_blocks zero_read_blocks host_write_requests"*) ;;
        *) fail "the status line begins with: $line" ;;
    esac
    case $line in
        *" host_write_blocks first_write_blocks update_blocks top_write_blocks bottom_write_blocks rmw_one_neighbour rmw_two_neighbours rmw_read_blocks extra_write_blocks discard_requests unmapped_blocks cross_zone_requests unaligned_edges zone_resets"*) ;;
        *) fail "the status line has: $line" ;;
    esac
    # Neither waits for anything, nor changes anything.
    same 'the status' "$(dmsetup status --noflush t)" "$(dmsetup status t)"
    same 'the table' "$(dmsetup table t)" "0 $((3 * ZONE)) imrsim 1:0 0 4 $SMALL"
}

test_times() {
    local elapsed idle
    imr t /dev/ram0 1 $SMALL
    sleep 1
    ask t GET_CONFIG
    elapsed=$(sed -n 's/^elapsed_us=//p' /tmp/output)
    idle=$(sed -n 's/^idle_us=//p' /tmp/output)
    [ "$elapsed" -ge 1000000 ] || fail "after a second, $elapsed us have passed"
    [ "$idle" -ge 500000 ] || fail "after a second without requests, it was idle for $idle us"
    [ "$idle" -le "$elapsed" ] || fail "it was idle for $idle us in $elapsed us"
}

# refused_shape TEXT ZONES WORD...: another table is refused for this reason.
refused_shape() {
    local text=$1 zones=$2
    shift 2
    dmesg -c >/dev/null
    expect_fail dmsetup create t --noudevsync --table "$(table "$zones" /dev/ram0 "$@")"
    kernel_said "$text" || fail "the kernel did not say '$text': $(dmesg | grep -v '@@ ' | tail -n 3)"
    dmsetup remove --noudevsync t 2>/dev/null || :
}

# An empty drive may be made anew with other zones, as long as it is as large; one that holds something never.
test_another_geometry() {
    blank /dev/ram0
    imr_create t /dev/ram0 3 $SMALL
    message t allocation 5
    message t condition 1 offline
    imr_remove t
    # 6 zones of half the size. What was set is kept, but for the conditions of zones that are no more.
    imr_create t /dev/ram0 6 geometry 57 71 4
    same 'zones' "$(stat t zones)" 6
    same 'phases' "$(stat t phases)" 5
    same 'zones that are not normal' "$(field t count REPORT_ZONES count=64 filter=5)" 0
    iotool fill /dev/mapper/t --byte 1 --at 4096 --count 8
    imr_remove t
    refused_shape 'geometry' 3 $SMALL
    refused_shape 'geometry' 3 geometry 7 9 64
    imr_create t /dev/ram0 6 geometry 57 71 4
    check iotool expect /dev/mapper/t --byte 1 --at 4096 --count 8
    # Empty again, once the block is gone.
    message t reset_zone 1
    imr_remove t
    imr_create t /dev/ram0 3 $SMALL
    same 'zones' "$(stat t zones)" 3
    same 'mapped' "$(stat t mapped)" 0
    check iotool expect /dev/mapper/t --byte 0
    # Empty, but not stopped in good order.
    dd if=/dev/ram0 of=/dev/ram1 bs=1M count=24 iflag=direct oflag=direct 2>/dev/null
    imr_remove t
    dd if=/dev/ram1 of=/dev/ram0 bs=1M count=24 iflag=direct oflag=direct 2>/dev/null
    refused_shape 'geometry' 6 geometry 57 71 4
    imr_create t /dev/ram0 3 $SMALL
    same 'zones' "$(stat t zones)" 3
}
