# SPDX-License-Identifier: GPL-2.0-only
# How long it takes to create a drive of 20 TB, its memory, and that of zones that were written to.
# shellcheck shell=sh

# created NAME ZONE_SECTORS ZONES [WORD...]: creates a drive and says what that took.
created() {
    local name=$1 zones=$3 before
    shift
    before=$(memory)
    large "$@"
    # shellcheck disable=SC2046
    emit part=memory case="$name" zones="$zones" seconds="$CREATED" \
        $(for pair in $before; do echo "before_$pair"; done) $(for pair in $(memory); do echo "after_$pair"; done)
}

# written ZONES: writes a block to so many of the zones of the drive of 20 TB.
written() {
    local before
    before=$(memory)
    point zone first-of-zone imrsim /dev/mapper/imr 1 1 $(visit 80000 "$1")
    # shellcheck disable=SC2046
    emit part=memory case=written zones="$1" \
        $(for pair in $before; do echo "before_$pair"; done) $(for pair in $(memory); do echo "after_$pair"; done)
}

# The first ones pay for what stays, such as new slabs.
note "a drive of 80,000 zones"
created warm-up $ZONE_SECTORS 1000
point zone warm-up imrsim /dev/mapper/imr 1 1 $(visit 1000 100)
dm_remove imr sparse
created one $ZONE_SECTORS 1
dm_remove imr sparse
# So many that it does not matter how the kernel rounds the size of their array.
created million 16 1048576 geometry 1 1 1
dm_remove imr sparse
created large $ZONE_SECTORS 80000
written "$WRITTEN_ZONES"
dm_remove imr sparse
