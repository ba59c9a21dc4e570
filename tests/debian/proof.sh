#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs when a Debian of tests/debian_test.py has booted: looks at the drive that imrsim@t.service has made, writes to it
# or finds what was written before, stops it, and powers off.

exec >/dev/ttyS0 2>&1
say() { echo "@@ $*"; }

say "service $(systemctl is-active imrsim@t.service)"
systemctl is-active --quiet imrsim@t.service || journalctl --no-pager -o cat -u imrsim@t.service
say "link $(readlink -f /dev/imrsim/t) $(readlink -f /dev/mapper/t)"
if [ "$(dd if=/dev/mapper/t bs=13 count=1 2>/dev/null)" = 'it came back!' ]; then
    say "content it came back"
else
    printf 'it came back!' | dd of=/dev/mapper/t bs=4096 conv=sync,fsync 2>/dev/null && say "content written"
fi
say "mapped $(imrsim_util config show /dev/mapper/t --json | sed -n 's/.*"mapped_blocks": \([0-9]*\).*/\1/p')"
systemctl stop imrsim@t.service
say "stopped $(systemctl is-active imrsim@t.service), $(dmsetup ls)"
systemctl --no-block poweroff
