# SPDX-License-Identifier: GPL-2.0-only
# Another allocation strategy, and other control, while the device works.
# shellcheck shell=sh

# Every strategy in turn under random I/O: no data may be lost.
test_switch_under_load() { # limit 60
    local phases=1 load switches=0
    imr t /dev/ram0 4 $SMALL
    iotool model /dev/mapper/t --threads 4 --seconds $((6 + SCALE)) --longest 64 --seed 3 >/tmp/load &
    load=$!
    while kill -0 $load 2>/dev/null; do
        message t allocation $phases
        same 'phases' "$(stat t phases)" $phases
        phases=$((phases % 64 + 1))
        switches=$((switches + 1))
        [ $((switches % 5)) != 0 ] || message t reset_statistics
    done
    wait $load || fail "under load: $(tail -n 1 /tmp/load)"
    [ $switches -ge 3 ] || fail "only $switches switches"
    echo "$switches switches: $(tail -n 1 /tmp/load)"
}

# A block stays where it is; only the next allocation follows the new order.
test_switch_keeps_blocks() {
    imr t /dev/ram0 1 $SMALL
    # Bottom tracks full with 2 phases: 568 blocks. Then a track and a bit of the tops.
    iotool fill /dev/mapper/t --byte 1 --count $((568 * 8))
    iotool fill /dev/mapper/t --byte 2 --at $((568 * 8)) --count $((60 * 8))
    message t allocation 3
    iotool fill /dev/mapper/t --byte 3 --at $((628 * 8)) --count $((396 * 8))
    same 'mapped' "$(stat t mapped)" 1024
    check iotool expect /dev/mapper/t --byte 1 --count $((568 * 8))
    check iotool expect /dev/mapper/t --byte 2 --at $((568 * 8)) --count $((60 * 8))
    check iotool expect /dev/mapper/t --byte 3 --at $((628 * 8)) --count $((396 * 8))
    message t allocation 1
    use_all t
    check iotool expect /dev/mapper/t --byte 0
}

# The same by the user-space tool.
test_switch_by_util_under_load() { # limit 60
    local load phases=1
    need imrsim_util
    imr t /dev/ram0 2 $SMALL
    iotool model /dev/mapper/t --threads 4 --seconds $((3 + SCALE)) --longest 64 --seed 4 >/tmp/load &
    load=$!
    while kill -0 $load 2>/dev/null; do
        check util t l 5 $phases
        check util t s 1
        phases=$((phases % 5 + 1))
    done
    wait $load || fail "under load: $(tail -n 1 /tmp/load)"
}

# Suspended and resumed over and over under random I/O.
test_suspend_under_load() { # limit 60
    local load times=0
    fresh /dev/ram0 2 $SMALL
    slow below /dev/ram0 2
    imr_create t /dev/mapper/below 2 $SMALL
    iotool model /dev/mapper/t --threads 8 --seconds $((5 + SCALE)) --longest 64 --flushes 20 --seed 6 >/tmp/load &
    load=$!
    while kill -0 $load 2>/dev/null; do
        dmsetup suspend --noudevsync t
        dmsetup status t >/dev/null
        dmsetup resume --noudevsync t
        times=$((times + 1))
        sleep 0.05
    done
    wait $load || fail "under load: $(tail -n 1 /tmp/load)"
    [ $times -ge 3 ] || fail "only $times times"
    imr_remove t below
}

# A device in use cannot be removed, and goes on.
test_remove_under_load() {
    local load
    imr t /dev/ram0 1 $SMALL
    iotool model /dev/mapper/t --threads 2 --seconds 3 --longest 64 >/tmp/load &
    load=$!
    sleep 1
    expect_fail dmsetup remove --noudevsync t
    expect_fail rmmod dm_imrsim
    wait $load || fail "under load: $(tail -n 1 /tmp/load)"
    imr_remove t
}
