# SPDX-License-Identifier: GPL-2.0-only
# What a request costs on a drive of many zones, and in a zone that is almost full.
# shellcheck shell=sh

note "many zones"
for zones in 1 100 80000; do
    large $ZONE_SECTORS $zones
    SEED=1
    point scale fill imrsim /dev/mapper/imr 1 1 $(visit $zones 100)
    for SEED in $(seq 1 "$SCALE_ROUNDS"); do
        point scale "read-$zones" imrsim /dev/mapper/imr 1 1 --rw=randread $(spread $zones 100) --number_ios="$IOS"
        point scale "update-$zones" imrsim /dev/mapper/imr 1 1 --rw=randwrite $(spread $zones 100) --number_ios="$IOS"
    done
    dm_remove imr sparse
done
SEED=1

note "full zones"
fresh imr /dev/ram2

# full PERCENT: of a zone of which so much is mapped. The blocks are 25 MiB.
full() {
    local blocks
    blocks="--bs=4k --number_ios=6400 $(area "$(mib $((ZONE_MIB * $1 / 100)))" "$(mib 25)" 1)"
    point scale "first-at-$1" imrsim /dev/mapper/imr 1 1 --rw=randwrite "$blocks"
    point scale "read-at-$1" imrsim /dev/mapper/imr 1 1 --rw=randread --norandommap "$blocks"
}
full 0
fill /dev/mapper/imr 25 103
full 50
fill /dev/mapper/imr 153 77
full 90
dm_remove imr
