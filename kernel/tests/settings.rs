// SPDX-License-Identifier: GPL-2.0-only

//! The tables of settings, conditions, causes of failure and kinds of requests.

use std::collections::BTreeSet;

use imrsim_core::{
    latency::{
        bound,
        bucket,
        Kind,
        BUCKETS, //
    },
    Allocation,
    Cause,
    Condition,
    Settings, //
};
use proptest::prelude::*;

#[test]
fn the_table_of_settings() {
    let names: BTreeSet<_> = Settings::TABLE.iter().map(|it| it.name).collect();
    assert_eq!(names.len(), Settings::COUNT);
    for (number, setting) in Settings::TABLE.iter().enumerate() {
        assert!(setting.allows(setting.default), "{setting:?}");
        assert!(
            !setting.doc.is_empty() && setting.doc.ends_with('.') && !setting.doc.contains('\n')
        );
        assert_eq!(Settings::find(setting.name), Some(number));
        assert_eq!(Settings::DEFAULT.get(number), Some(setting.default));
        for value in [setting.least, setting.most] {
            let settings = Settings::DEFAULT.with(number, value).unwrap();
            assert_eq!(settings.get(number), Some(value));
            assert_eq!(setting.parse(&value.to_string()), Some(value));
            let others = settings.with(number, setting.default);
            assert_eq!(others, Some(Settings::DEFAULT));
        }
        assert_eq!(Settings::DEFAULT.with(number, setting.most + 1), None);
        for text in [
            "",
            "x",
            "-1",
            "+1",
            " 1",
            "1 ",
            "18446744073709551617",
            "onn",
        ] {
            assert_eq!(setting.parse(text), None, "{} {text:?}", setting.name);
        }
        let word = setting.is_switch().then_some(1);
        assert_eq!(setting.parse("on"), word);
        assert_eq!(setting.parse("off"), word.map(|_| 0));
    }
    assert_eq!(Settings::find("phases"), None);
    assert_eq!(Settings::DEFAULT.get(Settings::COUNT), None);
    assert_eq!(Settings::DEFAULT.with(Settings::COUNT, 0), None);
}

#[test]
fn what_the_settings_say() {
    let settings = Settings::from_values([3, 1, 2, 0, 1]).unwrap();
    assert_eq!(settings.strategy(), Allocation::from_phases(3).unwrap());
    assert_eq!(
        (settings.rmw_read_delay(), settings.write_back_delay()),
        (1, 2)
    );
    assert_eq!((settings.log_errors(), settings.measure_latency()), (0, 1));
    assert_eq!(
        settings.to_string(),
        "allocation=3 rmw_read_delay=1 write_back_delay=2 log_errors=0 measure_latency=1"
    );
    assert_eq!(Settings::from_values([0, 0, 0, 0, 0]), None);
    assert_eq!(Settings::DEFAULT.strategy(), Allocation::default());
    assert_eq!(
        settings.with_allocation(2).unwrap().values(),
        [2, 1, 2, 0, 1]
    );
}

#[test]
fn conditions() {
    for (condition, number) in Condition::ALL.into_iter().zip(0..) {
        assert_eq!(condition.number(), number);
        assert_eq!(Condition::from_number(number), Some(condition));
        assert_eq!(Condition::from_name(condition.name()), Some(condition));
    }
    assert_eq!(Condition::from_number(3), None);
    assert_eq!(Condition::from_name("Normal"), None);
    let can = Condition::ALL.map(|it| (it.can_read(), it.can_write()));
    assert_eq!(can, [(true, true), (true, false), (false, false)]);
}

#[test]
fn causes() {
    let names: BTreeSet<_> = Cause::ALL.iter().map(|it| it.name()).collect();
    assert_eq!(names.len(), Cause::ALL.len());
    for (cause, number) in Cause::ALL.iter().zip(1..) {
        assert_eq!(cause.number(), number);
        assert_eq!(Cause::from_number(number), Some(*cause));
        assert!(cause.doc().ends_with('.'));
    }
    assert_eq!(Cause::from_number(0), None);
}

#[test]
fn kinds() {
    for (number, kind) in Kind::ALL.iter().enumerate() {
        assert_eq!(kind.number(), number);
        assert!(kind.doc().ends_with('.'));
    }
}

#[test]
fn the_first_and_the_last_bucket() {
    assert_eq!([0, 1, 511, 512, 1023, 1024].map(bucket), [0, 0, 0, 1, 1, 2]);
    assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    assert_eq!((bound(0), bound(1)), (Some(512), Some(1024)));
    assert_eq!((bound(BUCKETS - 1), bound(usize::MAX)), (None, None));
}

proptest! {
    #[test]
    fn a_latency_is_in_the_first_bucket_whose_bound_is_above_it(bits in 0_u32..64, low: u64) {
        let nanoseconds = low >> bits;
        let index = bucket(nanoseconds);
        prop_assert!(bound(index).is_none_or(|bound| nanoseconds < bound));
        prop_assert!(index == 0 || bound(index - 1).is_some_and(|bound| nanoseconds >= bound));
    }
}
