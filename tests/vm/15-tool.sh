# SPDX-License-Identifier: GPL-2.0-only
# The named commands of imrsim_util on live drives.
# shellcheck shell=sh disable=SC2154

tool() { check imrsim_util "$@"; }

# says TEXT: the last command's output has a line with it.
says() { grep -q -- "$1" /tmp/output || fail "there is no '$1' in: $(cat /tmp/output)"; }

# make NAME DEVICE WORD...: a small drive.
make() { tool create "$@" --geometry 57,71,8; }

test_create_and_remove() {
    need imrsim_util
    blank /dev/ram0
    make t /dev/ram0 --size 12M --phases 3
    says '^/dev/mapper/t: 3 zones, 24576 sectors (12 MiB)$'
    [ -b /dev/mapper/t ] || fail "there is no node"
    same 'the table' "$(dmsetup table t)" "0 24576 imrsim 1:0 0 6 phases 3 geometry 57 71 8"
    same 'phases' "$(stat t phases)" 3
    same 'the UUID' "$(dmsetup info -c --noheadings -o uuid t)" IMRSIM-t
    iotool fill /dev/mapper/t --byte 0x5a --count 80
    tool remove t
    [ ! -e /dev/mapper/t ] || fail "the node is still there"
    ! dmsetup info t >/dev/null 2>&1 || fail "the device is still there"
    # It is the same drive under another name.
    make other /dev/ram0 --size 12M
    same 'mapped' "$(stat other mapped)" 10
    same 'phases' "$(stat other phases)" 3
    iotool expect /dev/mapper/other --byte 0x5a --count 80
    tool remove /dev/mapper/other
}

# Without --size it is as 'size' says, and starts where it is told to.
test_create_the_largest() {
    need imrsim_util
    blank /dev/ram0
    make t /dev/ram0 --start 2048
    local line
    line=$(imrsim_util size /dev/ram0 --geometry 57,71,8 --table 2048)
    same 'the table' "$(dmsetup table t | sed 's:1\:0:/dev/ram0:')" "$line"
    tool remove t
}

test_create_refused() {
    need imrsim_util
    iotool fill /dev/ram0 --byte 0xa5 --count 65536
    local words
    for words in 't /dev/ram0 --size 13M' 't /dev/ram0 --size 1T' 't /dev/ram0 --size 12M' 't/t /dev/ram0' \
        't /dev/null' 't /dev/none' 't /dev/ram0 --phases 65'; do
        # shellcheck disable=SC2086
        expect_fail imrsim_util create $words --geometry 57,71,8
        same 'what is left' "$(dmsetup ls | grep -c '^t')" 0
        [ ! -e /dev/mapper/t ] || fail "a node is left of: $words"
    done
    iotool expect /dev/ram0 --byte 0xa5 --count 65536
    blank /dev/ram0
    make t /dev/ram0 --size 4M
    expect_fail imrsim_util create t /dev/ram1
    says "there is a device 't' already"
    same 'zones' "$(stat t zones)" 1
    tool remove t
}

test_create_without_module() {
    need imrsim_util
    unload
    expect_fail imrsim_util create t /dev/ram0
    says 'load the module'
    load
}

test_remove_refused() {
    need imrsim_util
    dm_create plain "0 8192 linear /dev/ram1 0"
    expect_fail imrsim_util remove plain
    says 'not an IMRSim device'
    expect_fail imrsim_util remove none
    blank /dev/ram0
    make t /dev/ram0 --size 4M
    sleep 100 </dev/mapper/t &
    expect_fail imrsim_util remove t
    says 'in use'
    [ -b /dev/mapper/t ] || fail "the node is gone"
    kill $!
    wait $! || :
    tool remove t
    dmsetup info plain
}

test_list() {
    need imrsim_util
    tool list
    same 'the lines of no drives' "$(wc -l </tmp/output)" 1
    blank /dev/ram0
    blank /dev/ram1
    dm_create plain "0 8192 linear /dev/ram2 0"
    make b /dev/ram0 --size 12M
    make a /dev/ram1 --size 4M --phases 5 --start 8
    iotool fill /dev/mapper/b --count 80
    tool list
    same 'names' "$(awk 'NR > 1 {print $1}' /tmp/output | xargs)" 'a b'
    same 'a drive' "$(awk '$1 == "a"' /tmp/output | xargs)" 'a rw 4MiB 1 5 0 0.00% /dev/ram1 8'
    same 'a drive' "$(awk '$1 == "b"' /tmp/output | xargs)" 'b rw 12MiB 3 2 10 0.32% /dev/ram0 0'
    dmsetup suspend --noudevsync b
    tool list --json
    says '"state": "suspended"'
    dmsetup resume --noudevsync b
    tool remove a
    tool remove b
}

test_config() {
    need imrsim_util
    imr t /dev/ram0 3 $SMALL
    tool config set /dev/mapper/t allocation 5
    same 'phases' "$(stat t phases)" 5
    tool config show /dev/mapper/t
    says '^allocation  *5-phase$'
    expect_fail imrsim_util config set /dev/mapper/t allocation 65
    expect_fail imrsim_util config set /dev/mapper/t phases 3
    same 'phases' "$(stat t phases)" 5
}

test_zones() {
    need imrsim_util
    imr t /dev/ram0 3 $SMALL
    iotool fill /dev/mapper/t --count 8200
    tool zones list /dev/mapper/t
    same 'states' "$(awk 'NR > 1 {print $4}' /tmp/output | xargs)" 'full partial free'
    for words in 'all 0 1 2' 'free 2' 'not-full 1 2' 'full 0'; do
        # shellcheck disable=SC2086
        set -- $words
        tool zones list /dev/mapper/t --filter "$1"
        shift
        same 'zones' "$(awk 'NR > 1 {print $1}' /tmp/output | xargs)" "$*"
    done
    tool zones show /dev/mapper/t 1
    says '^first sector  *8192$'
    says '^mapped  *1 of 1024 blocks'
    expect_fail imrsim_util zones show /dev/mapper/t 3
    tool zones count /dev/mapper/t
    says '^3 zones$'
    tool zones size /dev/mapper/t
    says '^8192 sectors (4 MiB)$'
}

test_stats() {
    need imrsim_util
    imr t /dev/ram0 3 $SMALL
    iotool fill /dev/mapper/t --count 80
    iotool fill /dev/mapper/t --at 8192 --count 8
    tool stats show /dev/mapper/t --watch 100ms --count 3
    same 'lines' "$(wc -l </tmp/output)" 4
    same 'what was written' "$(awk 'NR > 1 {n += $3} END {print n}' /tmp/output)" 0
    tool stats show /dev/mapper/t --prometheus
    says '^imrsim_host_write_blocks_total{device="/dev/mapper/t"} 11$'
    tool stats show /dev/mapper/t --prometheus --zone 1
    says '^imrsim_mapped_blocks{device="/dev/mapper/t",zone="1"} 1$'
    tool stats reset /dev/mapper/t --zone 0
    same 'host_write_blocks' "$(stat t host_write_blocks)" 1
    expect_fail imrsim_util stats reset /dev/mapper/t --zone 3
    same 'host_write_blocks' "$(stat t host_write_blocks)" 1
    tool stats reset /dev/mapper/t
    same 'host_write_blocks' "$(stat t host_write_blocks)" 0
}

# Whoever may read the device may look at it, but nothing else.
test_nobody() {
    need imrsim_util
    imr t /dev/ram0 3 $SMALL
    iotool fill /dev/mapper/t --count 8
    local words
    for words in 'list' 'remove t' 'create u /dev/ram1' 'stats show /dev/mapper/t'; do
        expect_fail nobody imrsim_util $words
    done
    chmod 644 /dev/mapper/t /dev/ram1
    expect_fail nobody imrsim_util list
    says 'by root only'
    expect_fail nobody imrsim_util remove t
    says 'by root only'
    expect_fail nobody imrsim_util create u /dev/ram1 --geometry 57,71,8
    says 'by root only'
    for words in 'config show /dev/mapper/t' 'stats show /dev/mapper/t' 'zones list /dev/mapper/t'; do
        check nobody imrsim_util $words
    done
    for words in 'config set /dev/mapper/t allocation 3' 'stats reset /dev/mapper/t'; do
        expect_fail nobody imrsim_util $words
        says 'by root only'
    done
    same 'phases' "$(stat t phases)" 2
    same 'host_write_blocks' "$(stat t host_write_blocks)" 1
}

# value NAME: what the last command printed behind a name.
value() { quiet; sed -n "s/^$1 *//p" /tmp/output | head -n 1; }

test_zones_and_errors() { # limit 60
    need imrsim_util
    local t=/dev/mapper/t
    imr t /dev/ram0 4 $SMALL
    iotool fill $t --byte 1
    tool zones set-condition $t 1 read-only
    tool $t z 9 2 offline
    tool zones list $t --filter read-only --json
    same 'the read-only zone' "$(grep -c '"zone": 1' /tmp/output) $(grep -c '"zone":' /tmp/output)" '1 1'
    tool $t z 6 4 offline
    says '^ *2 .* offline'
    expect_fail iotool fill $t --byte 2 --at 8192 --count 8
    expect_fail iotool expect $t --byte 1 --at 16384 --count 8
    tool errors show $t
    says 'zone-offline'
    says 'zone-read-only'
    tool $t e 2
    says '2 zone-read-only'
    tool $t e 2
    says '0 none'
    tool errors show $t --clear
    tool $t e 1
    says '0 none'
    expect_fail imrsim_util zones reset $t 1
    says 'read-only'
    tool $t l 2
    tool $t z 5 1
    tool zones reset $t --lba 12M
    iotool expect $t --byte 1 --count 8192
    iotool expect $t --byte 0 --at 8192 --count 8192
    iotool expect $t --byte 1 --at 16384 --count 8192
    iotool expect $t --byte 0 --at 24576 --count 8192
    same 'resets' "$(stat t zone_resets)" 2
    imr_remove t
}

test_settings_and_latencies() { # limit 60
    need imrsim_util
    local t=/dev/mapper/t
    imr t /dev/ram0 1 $SMALL
    tool config set $t rmw-read-delay 1ms
    tool $t l 7 2000
    tool $t l 5 3
    same 'the settings' "$(dmsetup message t 0 settings)" \
        'allocation=3 rmw_read_delay=1000 write_back_delay=2000 log_errors=0 measure_latency=0'
    tool $t e 3
    tool latency on $t
    iotool fill $t --byte 1 --count 800
    tool latency show $t --kind write --json
    [ "$(sed -n 's/.*"requests": *\([0-9]*\).*/\1/p' /tmp/output | head -n 1)" -gt 0 ] ||
        fail "no write was measured: $(cat /tmp/output)"
    tool stats show $t --prometheus
    says '^imrsim_request_duration_seconds_bucket'
    same 'the settings' "$(dmsetup message t 0 settings)" \
        'allocation=3 rmw_read_delay=1000 write_back_delay=2000 log_errors=1 measure_latency=1'
    tool $t l 3
    same 'the settings' "$(dmsetup message t 0 settings)" \
        'allocation=2 rmw_read_delay=0 write_back_delay=0 log_errors=0 measure_latency=0'
    expect_fail imrsim_util $t l 6 10000001
    expect_fail imrsim_util config set $t rmw_read_delay 11s
    dmsetup suspend --noudevsync t
    expect_fail imrsim_util $t l 5 3
    says 'resume'
    dmsetup resume --noudevsync t
    imr_remove t
}

test_size_of_zones() { # limit 60
    need imrsim_util
    local t=/dev/mapper/t
    imr t /dev/ram0 4 $SMALL
    tool config set $t allocation 3
    tool zones set-size $t 8M
    same 'the table' "$(dmsetup table t)" '0 32768 imrsim 1:0 0 4 geometry 57 71 16'
    same 'zones, phases' "$(stat t zones) $(stat t phases)" '2 3'
    expect_fail imrsim_util zones set-size $t 3M
    tool $t z 3 8192
    same 'zones' "$(stat t zones)" 4
    iotool fill $t --byte 1 --count 8
    expect_fail imrsim_util zones set-size $t 8M
    says 'empty'
    same 'the table' "$(dmsetup table t)" '0 32768 imrsim 1:0 0 4 geometry 57 71 8'
    iotool expect $t --byte 1 --count 8
    tool zones reset $t 0
    tool zones set-size $t 8M
    iotool expect $t --byte 0
    same 'zones' "$(stat t zones)" 2
    imr_remove t
}

# A program in C, with the header that the tool writes; as nobody, who may read.
test_the_program_in_c() {
    need imrsim_info
    imr t /dev/ram0 3 $SMALL
    iotool fill /dev/mapper/t --byte 1 --at 8192 --count 80
    dmsetup message t 0 condition 2 offline
    chmod 644 /dev/mapper/t
    check nobody imrsim_info /dev/mapper/t
    same 'zones' "$(value zones)" 3
    same 'geometry' "$(value geometry)" '57,71,8'
    same 'mapped' "$(value mapped_blocks)" "$(stat t mapped)"
    same 'written' "$(value indicator_4)" "$(stat t host_write_blocks)"
    says '^zone_1 .*10'
    says '^zone_2 .*offline'
    says '^snapshot_0 mapped 0 and 0, used 0$'
    says '^snapshot_1 mapped 10 and 10, used 10$'
    imr_remove t
}
