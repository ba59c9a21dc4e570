# SPDX-License-Identifier: GPL-2.0-only
# File systems on the drive: made, filled, unmounted, checked, compared. fault_03
# shellcheck shell=sh

# copy_files DIRECTORY: copies programs, makes many small files, rewrites and deletes some.
copy_files() {
    local number=0
    mkdir "$1/programs" "$1/small" "$1/rewritten"
    cp -L /bin/fio /bin/xfs_db /bin/xfs_repair /bin/busybox /bin/e2fsck "$1/programs"
    while [ $number -lt "$(scaled 200)" ]; do
        { echo "file $number"; head -c $((number * 97)) /bin/busybox; } >"$1/small/$number"
        number=$((number + 1))
    done
    cp "$1"/small/* "$1/rewritten"
    sync
    for number in "$1"/rewritten/*5; do cat /bin/dmsetup >"$number"; done
    rm "$1"/small/*7
    # Small writes into the middle of a file.
    dd if=/bin/busybox of="$1/programs/fio" bs=777 count=300 seek=100 conv=notrunc 2>/dev/null
}

# sums DIRECTORY
sums() { (cd "$1" && find . -type f | sort | xargs sha256sum); }

# compare_files TYPE NAME: the files of one mount are the files of the next.
compare_files() {
    mkdir -p /mnt/fs
    mount -t "$1" "/dev/mapper/$2" /mnt/fs
    copy_files /mnt/fs
    sums /mnt/fs >/tmp/before
    umount /mnt/fs
}

compare_again() {
    mount -t "$1" "/dev/mapper/$2" /mnt/fs
    sums /mnt/fs >/tmp/after
    umount /mnt/fs
    cmp /tmp/before /tmp/after || fail "files differ after unmount and mount: $(diff /tmp/before /tmp/after | head -n 3)"
    # The originals are still what was copied.
    [ "$(sed -n 's/  .*programs\/xfs_db//p' /tmp/after)" = "$(sha256sum </bin/xfs_db | cut -d' ' -f1)" ] ||
        fail "a copied program differs from the original"
}

# ext4 NAME: twice over, the second time on blocks in use.
ext4() {
    check mkfs.ext4 -q -F "/dev/mapper/$1"
    check e2fsck -f -n "/dev/mapper/$1"
    compare_files ext4 "$1"
    check e2fsck -f -n "/dev/mapper/$1"
    compare_again ext4 "$1"
    check e2fsck -f -n "/dev/mapper/$1"
    check tune2fs -l "/dev/mapper/$1"
}

test_ext4_fault_03() { # limit 120
    local phases
    for phases in $(few 2 3); do
        imr t /dev/ram0 1 phases "$phases"
        ext4 t
        imr_remove t
    done
}

# Little space, so that top tracks are used and bottom tracks rewritten.
test_ext4_on_small_zones() { # limit 60
    imr t /dev/ram0 10 $SMALL
    # All of it is mapped before.
    iotool fill /dev/mapper/t --byte 0xee
    message t reset_statistics
    ext4 t
    [ "$(stat t extra_write_blocks)" -gt 0 ] || fail "nothing was rewritten"
    echo "$(stat t host_write_blocks) blocks written, $(stat t extra_write_blocks) rewritten"
}

# Blocks of 1 KiB: most requests are for parts of the drive's blocks.
test_ext4_1k_blocks() { # limit 60
    imr t /dev/ram0 12 $SMALL phases 3
    check mkfs.ext4 -q -F -b 1024 /dev/mapper/t
    compare_files ext4 t
    check e2fsck -f -n /dev/mapper/t
    compare_again ext4 t
}

xfs() {
    compare_files xfs "$1"
    check xfs_repair -n "/dev/mapper/$1"
    compare_again xfs "$1"
    check xfs_repair -n "/dev/mapper/$1"
    check xfs_db -r -c 'sb 0' -c 'print magicnum' "/dev/mapper/$1"
}

# xfs wants 300 MB at least: on the disk, not in memory.
test_xfs() { # limit 90
    [ -b /dev/vda ] || skip "no /dev/vda"
    blkdiscard /dev/vda
    imr_create t /dev/vda 2
    check mkfs.xfs -q -f /dev/mapper/t
    check xfs_repair -n /dev/mapper/t
    xfs t
}

# With 512-byte sectors, and strategy 3.
test_xfs_512_byte_sectors() { # limit 90
    [ -b /dev/vda ] || skip "no /dev/vda"
    blkdiscard /dev/vda
    imr_create t /dev/vda 2 phases 3
    check mkfs.xfs -q -f -s size=512 /dev/mapper/t
    xfs t
}

# Two mounted at once on one disk, filled at the same time.
test_ext4_and_xfs_at_once() { # limit 120
    local other
    [ -b /dev/vda ] || skip "no /dev/vda"
    blkdiscard /dev/vda
    fresh /dev/ram0 20 $SMALL
    imr_create one /dev/vda 2
    imr_create two /dev/ram0 20 $SMALL phases 3
    mkfs.xfs -q -f /dev/mapper/one
    mkfs.ext4 -q -F /dev/mapper/two
    mkdir -p /mnt/one /mnt/two
    mount -t xfs /dev/mapper/one /mnt/one
    mount -t ext4 /dev/mapper/two /mnt/two
    copy_files /mnt/one &
    other=$!
    copy_files /mnt/two
    wait $other
    sums /mnt/one >/tmp/one
    sums /mnt/two >/tmp/two
    umount /mnt/one /mnt/two
    check e2fsck -f -n /dev/mapper/two
    check xfs_repair -n /dev/mapper/one
    cmp /tmp/one /tmp/two
    mount -t xfs /dev/mapper/one /mnt/one
    mount -t ext4 /dev/mapper/two /mnt/two
    sums /mnt/one | cmp - /tmp/one
    sums /mnt/two | cmp - /tmp/two
    umount /mnt/one /mnt/two
}
