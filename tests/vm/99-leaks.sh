# SPDX-License-Identifier: GPL-2.0-only
# What all the tests before this one, since the guest was booted, have left.
# shellcheck shell=sh

test_kmemleak() { # limit 60
    local leaks=/sys/kernel/debug/kmemleak
    [ -e $leaks ] || skip "this kernel does not look for leaks"
    # An object counts as leaked when it is some seconds old and was found in two scans.
    echo scan >$leaks
    sleep 6
    echo scan >$leaks
    [ ! -s $leaks ] || {
        grep -A 12 unreferenced $leaks | head -n 60
        fail "kmemleak found $(grep -c unreferenced $leaks) objects, such as $(grep -m 1 -A 1 unreferenced $leaks | tr '\n' ' ')"
    }
}

# No device-mapper device, no loop device in use, and no module is left.
test_nothing_is_left() {
    same 'the devices' "$(dmsetup ls)" 'No devices found'
    same 'the loop devices' "$(losetup -a)" ''
    unload
    load
}
