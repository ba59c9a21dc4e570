#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The part of `make demo` that runs in the VM: $CAPACITY sectors, /dev/vda, /trace.iolog.
set -eu

dev=/dev/mapper/imrsim
ios=$((CAPACITY * 8 / 10 / 64))

run() {
    echo
    echo "\$ $*"
    "$@"
}

# Runs fio and says every five seconds how full the drive is.
quiet_fio() {
    fio --output=/tmp/fio.out --eta=never --filename=$dev --direct=1 --ioengine=libaio --iodepth=32 "$@" &
    fio=$!
    while sleep 5 && kill -0 $fio 2>/dev/null; do
        dmsetup status imrsim | awk '{split($5, b, "/"); printf "    ... %2d %% of the blocks mapped\n", 100 * b[1] / b[2]}'
    done
    wait $fio || { cat /tmp/fio.out; exit 1; }
}

one_strategy() {
    phases=$1
    echo
    echo "---- $phases-phase allocation ----------------------------------------------------------"
    # The second drive would otherwise be the first one, come back.
    run imrsim_util format /dev/vda --force
    echo
    echo "\$ dmsetup create imrsim --table \"0 $CAPACITY imrsim /dev/vda 0\""
    dmsetup create imrsim --noudevsync --table "0 $CAPACITY imrsim /dev/vda 0"
    dmsetup mknodes
    run imrsim_util $dev l 5 "$phases"

    echo
    echo "Filling 80 % of it with $ios random writes of 32 KiB ..."
    quiet_fio --name=fill --rw=randwrite --bs=32k --number_ios="$ios" --randseed=1
    dmsetup status imrsim | awk '{
        for (i = 5; i <= NF; i++) if ($i ~ /^extra_write_blocks=/) split($i, extra, "=")
        print "Mapped blocks: " $5 ". Blocks written back so far: " extra[2] "."
        print "All were first writes: bottom tracks first, then tops, so nothing was in the way."
    }'
    run imrsim_util $dev s 4

    echo
    echo "Replaying the trace with fio ..."
    quiet_fio --name=replay --read_iolog=/trace.iolog --replay_no_stall=1
    run imrsim_util $dev s 1
    dmsetup status imrsim >"/tmp/status.$phases"
    dmsetup remove imrsim --noudevsync
}

one_strategy 2
one_strategy 3

echo
echo "---- What the trace cost ------------------------------------------------------------"
awk '
    FNR == 1 { column++ }
    {
        split($5, used, "/")
        usage[column] = 100 * used[1] / used[2]
        for (i = 6; i <= NF; i++) { split($i, kv, "="); value[column, kv[1]] = kv[2] }
    }
    function row(name, key) { printf "%-46s %14d %14d\n", name, value[1, key], value[2, key] }
    END {
        printf "%-46s %14s %14s\n", "", "two-phase", "three-phase"
        printf "%-46s %13.1f%% %13.1f%%\n", "space used after the replay", usage[1], usage[2]
        row("host writes (blocks of 4 KiB)", "host_write_blocks")
        row("  of them to bottom tracks", "bottom_write_blocks")
        row("rewrites that damaged one neighbour", "rmw_one_neighbour")
        row("rewrites that damaged two neighbours", "rmw_two_neighbours")
        row("extra writes (top blocks written back)", "extra_write_blocks")
        printf "%-46s", "write amplification"
        for (c = 1; c <= 2; c++) {
            host = value[c, "host_write_blocks"]
            printf " %14.3f", host ? (host + value[c, "extra_write_blocks"]) / host : 1
        }
        print ""
    }' /tmp/status.2 /tmp/status.3
cat <<'END'

Why: a wide bottom track lies under the narrow top tracks on either side of it. To rewrite a bottom
block, the drive must first read the top blocks over it, then write it, then write those back. A top
block, or a bottom block with nothing over it, is written for free. Two-phase allocation fills the
top tracks one after the other: some bottom tracks have two full neighbours, the others none.
Three-phase allocation fills every other top track first: most bottom tracks have one. Which is
cheaper depends on which blocks the workload rewrites.
END
