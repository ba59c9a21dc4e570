# SPDX-License-Identifier: GPL-2.0-only
# How long it takes to resume a full drive: after a stop in good order, and after crashes that left a journal.
# $IMAGES, if set, names what is on /dev/vdb, /dev/vdc...: ZONES:JOURNAL. Else drives are made here of dm-zero, for the
# data, and a RAM disk, for the metadata: no disk then upsets the clock that counts instructions.
# shellcheck shell=sh

# clock NAME: notes the time in the kernel's log, which has microseconds.
clock() { echo "<7>@clock $1" >/dev/kmsg; }

# clocks: seconds between the last two.
clocks() { dmesg | awk -F '[][]' '/@clock/ { before = last; last = $2 } END { printf "%.6f", last - before }'; }

# journal_time ZONES DEVICE: seconds to read as much as the journal has, in requests as large as the drive's.
journal_time() {
    local entries=$(($1 * 8))
    entries=$((entries < 64 ? 64 : entries > 8192 ? 8192 : entries))
    clock begin
    dd if="$2" of=/dev/null bs=64k count=$((entries / 8)) skip=$(($1 * ZONE_MIB * 16)) iflag=direct 2>/dev/null
    clock end
    clocks
}

# resumed ZONES JOURNAL DEVICE: creates the drive that is on a device.
resumed() {
    local zones=$1 journal=$2 device=$3 table before after memory reading
    table="0 $((zones * ZONE_SECTORS)) imrsim $device 0"
    sync
    echo 3 >/proc/sys/vm/drop_caches
    memory=$(memory)
    reading=$(journal_time "$zones" "$device")
    before=$(cat "$(stat_file "$device")")
    clock begin
    dmsetup create imr --noudevsync --table "$table"
    clock end
    after=$(cat "$(stat_file "$device")")
    case $(dmsetup status imr) in
        *" rw $((zones * 65536))/$((zones * 65536)) "*) ;;
        *) echo "a full drive is not full: $(dmsetup status imr)"; exit 1 ;;
    esac
    # shellcheck disable=SC2046
    emit part=resume zones="$zones" journal="$journal" seconds="$(clocks)" reading="$reading" $(moved "$before" "$after") \
        $(for pair in $memory; do echo "before_$pair"; done) $(for pair in $(memory); do echo "after_$pair"; done)
    dm_remove imr
}

note "full drives are resumed"
# The first one pays for what stays.
fresh imr /dev/ram2
dm_remove imr
if [ -n "${IMAGES:-}" ]; then
    letters=bcdefghijklmnopqrstuvwxyz
    for image in $IMAGES; do
        resumed "${image%:*}" "${image#*:}" "/dev/vd${letters%"${letters#?}"}"
        letters=${letters#?}
    done
else
    for zones in $RESUME_ZONES; do
        for journal in $RESUME_JOURNALS; do
            blkdiscard /dev/ram3
            data=$((zones * ZONE_SECTORS))
            dm_create sparse "0 $data zero
$data $(blockdev --getsz /dev/ram3) linear /dev/ram3 0"
            crash=
            [ "$journal" = none ] || crash="--journal $journal"
            # shellcheck disable=SC2086
            crashtool full /dev/mapper/sparse --zones "$zones" $crash
            resumed "$zones" "$journal" /dev/mapper/sparse
            dm_remove sparse
        done
    done
fi
