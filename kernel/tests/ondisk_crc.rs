// SPDX-License-Identifier: GPL-2.0-only

//! The checksum: published values, and an independent implementation.

use imrsim_core::ondisk::crc::{
    crc32c,
    Crc, //
};
use proptest::prelude::*;

#[test]
fn published_values() {
    // RFC 3720, B.4, and the usual check value.
    let ascending: Vec<u8> = (0..32).collect();
    let descending: Vec<u8> = (0..32).rev().collect();
    for (bytes, crc) in [
        (&[][..], 0),
        (b"123456789", 0xe306_9283),
        (&[0; 32], 0x8a91_36aa),
        (&[0xff; 32], 0x62a8_ab43),
        (&ascending, 0x46dd_794e),
        (&descending, 0x113f_db5c),
    ] {
        assert_eq!(crc32c(bytes), crc, "{bytes:x?}");
    }
}

proptest! {
    #[test]
    fn as_another_implementation(bytes: Vec<u8>) {
        prop_assert_eq!(crc32c(&bytes), ::crc32c::crc32c(&bytes));
    }

    #[test]
    fn in_pieces(bytes: Vec<u8>, cuts: [usize; 3]) {
        let mut crc = Crc::default();
        let mut rest = bytes.as_slice();
        for cut in cuts {
            let (piece, left) = rest.split_at(cut % (rest.len() + 1));
            crc = crc.update(piece);
            rest = left;
        }
        prop_assert_eq!(crc.update(rest).value(), crc32c(&bytes));
    }
}
