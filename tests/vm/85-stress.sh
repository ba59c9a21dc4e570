# SPDX-License-Identifier: GPL-2.0-only
# Everything at once, for as long as wanted: with LONGER=1800 in the environment for half an hour more.
# shellcheck shell=sh

# model_load NAME SEED: random requests of every kind, for the time of the test; its process number is in $LOADS.
model_load() {
    iotool model "/dev/mapper/$1" --threads 4 --piece 96 --longest 96 --flushes 10 --discards 10 --seed "$2" \
        --seconds $((10 + SCALE + ${LONGER:-0})) >"/tmp/load.$1" &
    LOADS="$LOADS $!"
}

# running: whether a load is still at work.
running() {
    local pid
    for pid in $LOADS; do ! kill -0 "$pid" 2>/dev/null || return 0; done
    return 1
}

# Three drives, two of them on one disk with delays (whose I/O completes elsewhere), one on a RAM disk (whose I/O
# completes at once), while strategies change, devices are suspended and counters are read and reset.
test_everything_at_once() { # limit 60
    local phases=1 rounds=0 name pid second
    LOADS=
    second=$(($(data_sectors 2 $SMALL) + $(metadata_sectors 2 $SMALL)))
    blank /dev/ram1
    slow below /dev/ram1 1
    imr_create first /dev/mapper/below 2 $SMALL
    START=$second
    imr_create second /dev/mapper/below 2 geometry 7 9 64 phases 3
    START=0
    imr third /dev/ram0 3 $SMALL
    for name in first second third; do model_load $name $((${#name} + 17)); done
    while running; do
        for name in first second third; do
            message $name allocation $phases
            dmsetup status $name >/dev/null
            dmsetup suspend --noudevsync $name
            dmsetup resume --noudevsync $name
        done
        message third reset_statistics
        phases=$((phases % 7 + 1))
        rounds=$((rounds + 1))
        sleep 0.2
    done
    for pid in $LOADS; do wait "$pid" || fail "under load: $(tail -n 1 /tmp/load.*)"; done
    [ $rounds -ge 1 ] || fail "it was over before it began"
    echo "$rounds rounds: $(cat /tmp/load.*)"
    imr_remove first second third below
}
