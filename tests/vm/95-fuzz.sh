# SPDX-License-Identifier: GPL-2.0-only
# Ioctls and messages that are wrong in all sorts of ways. In short; with LONGER=1800 in the environment each of these
# goes on for half an hour more.
# shellcheck shell=sh disable=SC2015,SC2034,SC2086,SC3043

# A drive of four zones, the last of which is left alone.
ZONES=4
ZONE=8192

seconds() { quiet; echo $((5 + (SCALE > 1 ? 5 : 0) + ${LONGER:-0})); }

# seed: another one each time, and in the log.
seed() { quiet; echo "${SEED:-$(($(date +%s) % 1000000))}"; }

# victims: t, its last zone full of ones, and another drive beside it.
victims() {
    imr t /dev/ram0 $ZONES $SMALL
    imr other /dev/ram1 1 $SMALL
    iotool fill /dev/mapper/t --byte 1 --at $((3 * ZONE))
    iotool fill /dev/mapper/other --byte 2
    iotool flush /dev/mapper/t
    OTHER=$(dmsetup status other)
}

# fuzz ARG...: fuzzes t.
fuzz() {
    local seed
    seed=$(seed)
    echo "seed $seed"
    check iotool fuzz /dev/mapper/t --seconds "$(seconds)" --seed "$seed" "$@"
    sed 's/^/  /' /tmp/output
    [ "$(sed -n 's/ calls, seed.*//p' /tmp/output)" -ge 100 ] || fail "there were only $(tail -n 1 /tmp/output)"
}

# unharmed: both drives are there and hold what they held, and t does all that a drive does.
unharmed() {
    same 'the other drive' "$(dmsetup status other)" "$OTHER"
    check iotool expect /dev/mapper/other --byte 2
    same 'the state' "$(dmsetup status t | cut -d' ' -f4)" rw
    message t reset_config all
    check iotool expect /dev/mapper/t --byte 1 --at $((3 * ZONE))
    message t reset_zone 1
    check iotool expect /dev/mapper/t --byte 0 --at $ZONE --count $ZONE
    iotool fill /dev/mapper/t --byte 3 --count $((3 * ZONE))
    iotool flush /dev/mapper/t
    imr_remove t
    imr_create t /dev/ram0 $ZONES $SMALL
    check iotool expect /dev/mapper/t --byte 3 --count $((3 * ZONE))
    check iotool expect /dev/mapper/t --byte 1 --at $((3 * ZONE))
    imr_remove t other
}

# One thread, which knows what to expect of each call.
test_alone() { # limit 60
    victims
    fuzz --name t --keep 1
    unharmed
}

# What is refused while the drive is suspended changes nothing, either.
test_suspended_and_resumed() { # limit 60
    victims
    fuzz --name t --keep 1 --suspends 1 --io 1
    unharmed
}

test_everything_at_once() { # limit 60
    victims
    fuzz --name t --keep 1 --threads 3 --io 2 --suspends 1
    unharmed
}

# The drive is taken away, by force if need be, and comes back, over and over.
test_removed_and_made_again() { # limit 60
    local load rounds=0 line
    victims
    line=$(dmsetup table t)
    iotool fuzz /dev/mapper/t --seconds "$(seconds)" --seed "$(seed)" --name t --keep 1 --threads 2 --io 1 --reopen 1 >/tmp/load &
    load=$!
    while kill -0 $load 2>/dev/null; do
        dmsetup remove --noudevsync --force t >/dev/null 2>&1 || :
        # What is open stays, with a table of errors.
        if dmsetup info t >/dev/null 2>&1; then
            printf '%s\n' "$line" | dmsetup load t && dmsetup resume --noudevsync t || :
        else
            dm_create t "$line" || :
        fi
        rounds=$((rounds + 1))
        sleep 0.5
    done
    wait $load || fail "$(tail -n 3 /tmp/load | tr '\n' ' ')"
    sed 's/^/  /' /tmp/load
    echo "$rounds rounds"
    [ $rounds -ge 2 ] || fail "there were only $rounds rounds"
    unharmed
}

# Whoever has no rights changes nothing at all, whatever he sends.
test_as_nobody() { # limit 60
    local before zones
    victims
    chmod 644 /dev/mapper/t
    message t condition 1 read-only
    zones=$(iotool ask /dev/mapper/t REPORT_ZONES count=64)
    before="$(dmsetup status t) $(message t settings)"
    check nobody iotool fuzz /dev/mapper/t --seconds "$(seconds)" --seed "$(seed)"
    sed 's/^/  /' /tmp/output
    same 'the drive' "$(dmsetup status t) $(message t settings)" "$before"
    same 'the zones' "$(iotool ask /dev/mapper/t REPORT_ZONES count=64)" "$zones"
    unharmed
}
