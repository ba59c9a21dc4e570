#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The part of `make figures` that runs in the VM: a drive of one zone on /dev/vda is recorded while fio writes to it, once for
# each allocation. The recordings go to /dev/vdb.
set -eu

cd /tmp
for phases in 2 3; do
    # The second drive would otherwise be the first one, come back.
    imrsim_util format /dev/vda --force
    imrsim_util create imrsim /dev/vda
    dmsetup mknodes
    imrsim_util config set /dev/mapper/imrsim allocation $phases
    imrsim_util record /dev/mapper/imrsim --zone 0 -o $phases-phase.imrtrace -- fio --name=random --filename=/dev/mapper/imrsim \
        --rw=randwrite --norandommap --bs=8k --randseed=1 --io_size=620M --direct=1 --ioengine=libaio --iodepth=8 \
        --output=/tmp/fio.out --eta=never
    imrsim_util remove imrsim
done
tar -cf /dev/vdb 2-phase.imrtrace 3-phase.imrtrace
