#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The part of scripts/bench that runs in the VM: $PARTS, in order.
set -eu

# shellcheck source=lib.sh
. /bench/lib.sh
for ram in /dev/ram0 /dev/ram1 /dev/ram2; do pages $ram; done
for part in $PARTS; do
    # shellcheck source=/dev/null
    . "/bench/$part.sh"
done
