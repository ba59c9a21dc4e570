// SPDX-License-Identifier: GPL-2.0-only

//! The statistics: what is counted, sums, bytes, and write amplification.

use imrsim_core::{
    Bo,
    Nbo,
    Piece,
    Placed,
    Plan,
    ReadRun,
    Request,
    Stats,
    TopRun,
    Waf, //
};
use proptest::prelude::*;

/// An update of `blocks` bottom blocks with these masks of neighbours.
fn plan(blocks: u32, masks: [u64; 2]) -> Plan {
    Plan {
        bo: Bo(0),
        nbo: Nbo(456),
        blocks,
        first: false,
        pad: false,
        top: false,
        neighbours: masks.map(|mask| TopRun {
            first: Nbo(0),
            mask,
        }),
    }
}

#[test]
fn the_table() {
    let names: Vec<&str> = Stats::INDICATORS
        .iter()
        .map(|indicator| indicator.name)
        .collect();
    // Their order is an interface: it is that of the bytes. New ones go to the end.
    assert_eq!(
        names,
        [
            "host_read_requests",
            "host_read_blocks",
            "zero_read_blocks",
            "host_write_requests",
            "host_write_blocks",
            "first_write_blocks",
            "update_blocks",
            "top_write_blocks",
            "bottom_write_blocks",
            "rmw_one_neighbour",
            "rmw_two_neighbours",
            "rmw_read_blocks",
            "extra_write_blocks",
            "discard_requests",
            "unmapped_blocks",
            "cross_zone_requests",
            "unaligned_edges",
            "zone_resets",
        ]
    );
    for indicator in Stats::INDICATORS {
        assert!(indicator.doc.ends_with('.'), "{indicator:?}");
        assert!(!indicator.doc.starts_with(' ') && !indicator.doc.contains('\n'));
    }
    let stats = Stats {
        zero_read_blocks: 7,
        ..Stats::default()
    };
    let nonzero: Vec<_> = stats.iter().filter(|&(_, value)| value != 0).collect();
    assert_eq!(nonzero, [(&Stats::INDICATORS[2], 7)]);
}

/// The last run of a request that is aligned and stays in its zone.
fn last() -> Piece {
    Piece {
        ends_request: true,
        ..Piece::default()
    }
}

#[test]
fn pieces_of_requests() {
    let request = |blocks, head_partial, tail_partial| Request {
        bo: Bo(7),
        blocks,
        head_partial,
        tail_partial,
    };
    let piece = |ends_request, crosses_zone, unaligned_edges| Piece {
        ends_request,
        crosses_zone,
        unaligned_edges,
    };
    let whole = request(5, true, true);
    assert_eq!(Piece::of(&whole, 5, false, false), piece(true, false, 2));
    assert_eq!(Piece::of(&whole, 4, false, true), piece(false, false, 1));
    let rest = request(1, false, true);
    assert_eq!(Piece::of(&rest, 1, false, true), piece(true, true, 1));
    // Another bio carries on with the request.
    let head = request(3, true, false);
    assert_eq!(Piece::of(&head, 3, true, true), piece(false, false, 1));

    let mut stats = Stats::default();
    stats.count_read(
        &ReadRun::Zeros { blocks: 4 },
        Piece::of(&whole, 4, false, true),
    );
    stats.count_write(&plan(1, [0, 0]), Piece::of(&rest, 1, false, true));
    stats.count_block_read(1);
    stats.count_block(
        &Placed {
            bo: Bo(0),
            nbo: Nbo(0),
            first: false,
            top: None,
        },
        2,
    );
    stats.count_reset();
    let counted = (
        stats.cross_zone_requests,
        stats.unaligned_edges,
        stats.zone_resets,
    );
    assert_eq!(counted, (1, 5, 1));
}

#[test]
fn what_is_counted() {
    let mut stats = Stats::default();
    stats.count_read(
        &ReadRun::Mapped {
            nbo: Nbo(3),
            blocks: 10,
        },
        last(),
    );
    stats.count_read(&ReadRun::Zeros { blocks: 5 }, Piece::default());
    stats.count_write(
        &Plan {
            first: true,
            ..plan(20, [0, 0])
        },
        last(),
    );
    stats.count_write(&plan(4, [0b1001, 0]), Piece::default());
    stats.count_write(&plan(1, [0, 1]), last());
    stats.count_write(&plan(64, [u64::MAX, 0b11]), last());
    stats.count_write(
        &Plan {
            top: true,
            ..plan(100, [0, 0])
        },
        last(),
    );
    assert_eq!(
        stats,
        Stats {
            host_read_requests: 1,
            host_read_blocks: 15,
            zero_read_blocks: 5,
            host_write_requests: 4,
            host_write_blocks: 189,
            first_write_blocks: 20,
            update_blocks: 169,
            top_write_blocks: 100,
            bottom_write_blocks: 89,
            rmw_one_neighbour: 2,
            rmw_two_neighbours: 1,
            rmw_read_blocks: 69,
            extra_write_blocks: 69,
            discard_requests: 0,
            unmapped_blocks: 0,
            cross_zone_requests: 0,
            unaligned_edges: 0,
            zone_resets: 0,
        }
    );
    assert_eq!(stats.write_total(), 258);
    assert_eq!(stats.write_amplification(), (258, 189));
    assert_eq!(stats.waf().to_string(), "1.365079");
}

#[test]
fn counters_do_not_overflow() {
    let most = Stats::from_values([u64::MAX; Stats::INDICATORS.len()]);
    let mut stats = most;
    stats.count_write(&plan(64, [u64::MAX, u64::MAX]), last());
    stats.count_read(&ReadRun::Zeros { blocks: u32::MAX }, last());
    stats.merge(&most);
    assert_eq!(stats, most);
    assert_eq!(stats.write_total(), u64::MAX);
    assert_eq!(stats.waf().to_string(), "1.000000");
}

#[test]
fn waf_in_six_digits() {
    for (total, host, expected) in [
        (0, 0, "-"),
        (5, 0, "-"),
        (0, 5, "0.000000"),
        (40_622, 40_525, "1.002394"),
        (203_208, 131_072, "1.550354"),
        (1_318, 936, "1.408120"),
        (2, 3, "0.666667"),
        (1, 3, "0.333333"),
        (1_999_999, 1_000_000, "1.999999"),
        (19_999_995, 10_000_000, "2.000000"),
        (19_999_994, 10_000_000, "1.999999"),
        (10_000_005, 10_000_000, "1.000001"),
        (u64::MAX, 1, "18446744073709551615.000000"),
        (u64::MAX, u64::MAX, "1.000000"),
        (u64::MAX, u64::MAX - 1, "1.000000"),
        (u64::MAX, u64::MAX / 2, "2.000000"),
        (1, u64::MAX, "0.000000"),
        (u64::MAX, u64::MAX / 16, "16.000000"),
        (u64::MAX, u64::MAX / 16 + 1, "16.000000"),
        (u64::MAX - (1 << 44), u64::MAX / 16 + 1, "15.999985"),
    ] {
        assert_eq!(Waf(total, host).to_string(), expected, "{total} / {host}");
    }
}

#[test]
fn bytes_of_other_versions() {
    let stats = Stats {
        host_read_requests: 1,
        zone_resets: u64::MAX,
        ..Stats::default()
    };
    let bytes = stats.to_bytes();
    assert_eq!(bytes.len(), Stats::BYTES);
    assert_eq!(bytes[..9], [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[136..], [0xff; 8]);
    assert_eq!(Stats::from_bytes(&bytes), stats);
    let shorter = Stats {
        zone_resets: 0,
        ..stats
    };
    assert_eq!(Stats::from_bytes(&bytes[..136]), shorter);
    assert_eq!(Stats::from_bytes(&bytes[..143]), shorter);
    assert_eq!(
        Stats::from_bytes(&[bytes.as_slice(), &[1; 20]].concat()),
        stats
    );
    assert_eq!(Stats::from_bytes(&[]), Stats::default());
}

proptest! {
    #[test]
    fn bytes_and_values_are_reversible(values: [u64; Stats::INDICATORS.len()]) {
        let stats = Stats::from_values(values);
        prop_assert_eq!(stats.values(), values);
        prop_assert_eq!(Stats::from_bytes(&stats.to_bytes()), stats);
    }

    #[test]
    fn sums_are_sums(a: [u32; Stats::INDICATORS.len()], b: [u32; Stats::INDICATORS.len()]) {
        let (a, b) = (a.map(u64::from), b.map(u64::from));
        let mut sum = Stats::from_values(a);
        sum.merge(&Stats::from_values(b));
        for (i, value) in sum.values().into_iter().enumerate() {
            prop_assert_eq!(value, a[i] + b[i]);
        }
    }

    /// Against wider arithmetic than the kernel has.
    #[test]
    fn waf_is_rounded_half_up(total: u64, host in 1u64.., shift_total in 0u32..64, shift_host in 0u32..63) {
        let (total, host) = (total >> shift_total, (host >> shift_host).max(1));
        prop_assume!(host <= u64::MAX / 16);
        let expected = (u128::from(total) * 2_000_000 / u128::from(host)).div_ceil(2);
        let (whole, millionths) = Waf(total, host).millionths().unwrap();
        prop_assert_eq!(u128::from(whole) * 1_000_000 + u128::from(millionths), expected);
    }
}
