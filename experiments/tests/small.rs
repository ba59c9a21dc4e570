// SPDX-License-Identifier: GPL-2.0-only

//! The experiments with short traces: the document and the pictures come out, and say what the physics
//! of an IMR drive says.

use std::{collections::HashSet, fs, path::Path};

use imrsim_experiments::{
    document::{self, Results},
    measure::{self, Order, Setup},
    plot::{self, Series},
    workload,
};
use imrsim_util::prefill::Share;

const SETUP: Setup = Setup {
    capacity: 128 << 30,
    seed: 1,
    jobs: 2,
};

fn shares(texts: &[&str]) -> Vec<Share> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn what_comes_out_is_as_it_has_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let workloads = workload::workloads(None, directory.path(), Some(3000), 1).unwrap();
    let stats: Vec<_> = workloads.iter().map(|it| it.stat().unwrap()).collect();
    assert!(stats.iter().all(|it| it.reads + it.writes == 3000));
    let usages = shares(&["50%", "60%", "80%", "100%"]);
    let costs = measure::run(&SETUP, &workloads, &usages, &[2, 3]).unwrap();
    assert_eq!(costs.len(), 4 * 4 * 2);
    let in_place = |order| -> Vec<_> {
        let of_seed = |seed| {
            let setup = Setup { seed, ..SETUP };
            measure::run_in_place(&setup, &workloads[2], 2, &usages, &[2, 3], order).unwrap()
        };
        (1..3).map(of_seed).collect()
    };
    let (in_place, first) = (in_place(Order::Mixed), in_place(Order::First));
    let results = Results {
        setup: &SETUP,
        workloads: &workloads,
        stats: &stats,
        usages: &usages,
        costs: &costs,
        in_place: &in_place,
        first: &first,
    };
    let (two, three) = (results.curve(&in_place, 2), results.curve(&in_place, 3));
    for curve in [&two, &three] {
        assert_eq!(curve[0], 1.0, "nothing is rewritten while tops are free");
        assert!(
            curve.is_sorted() && curve[1] > 1.0 && curve[3] < 2.11,
            "{curve:?}"
        );
    }
    assert_eq!(
        two[3], three[3],
        "a full drive has all neighbours, whatever the order"
    );
    assert_eq!(results.gaps(&in_place)[3], [0.0, 0.0]);
    for gap in &results.gaps(&first)[1] {
        assert!(
            *gap > 0.05,
            "the first tops lie over what is rewritten, or every other one: {gap}"
        );
    }
    for costs in &in_place {
        assert!(costs.iter().all(|it| it.stats.first_write_blocks == 0));
        assert_eq!(
            costs[3].stats.rmw_two_neighbours, 0,
            "every other top track is free"
        );
        assert!(costs[2].stats.rmw_two_neighbours > 0);
    }
    for workload in 0..4 {
        let at = |usage: usize, phases| results.cost(workload, usages[usage], phases).unwrap();
        assert_eq!(at(3, 2).stats, at(3, 3).stats);
        assert!(at(2, 2).amplification() > at(1, 2).amplification());
    }

    let text = document::write(&results, "pictures", "make it").unwrap();
    for part in [
        "| 80% | 1 |",
        "(pictures/usage.svg)",
        "    make it\n",
        "src2_2",
        "**All are synthetic:**",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    let verdicts = document::verdicts(&results).unwrap();
    assert_eq!(verdicts.len(), 6);
    assert!(
        verdicts[0].holds && verdicts[1].holds && verdicts[4].holds,
        "{verdicts:?}"
    );
}

#[test]
fn a_recording_is_taken_if_there_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let recordings = directory.path().join("recordings");
    fs::create_dir(&recordings).unwrap();
    fs::write(
        recordings.join("proj_0.csv"),
        "128166372003061629,proj,0,Write,4096,4096,1\n",
    )
    .unwrap();
    let workloads = workload::workloads(Some(&recordings), directory.path(), Some(100), 1).unwrap();
    let recorded: Vec<_> = workloads
        .iter()
        .map(|it| (it.name.as_str(), it.recorded))
        .collect();
    let expected = [
        ("hm_0", false),
        ("proj_0", true),
        ("src1_2", false),
        ("src2_2", false),
    ];
    assert_eq!(recorded, expected);
    assert_eq!(workloads[1].stat().unwrap().writes, 1);
}

#[test]
fn pictures_are_drawn() {
    if plot::use_font(None).is_err() {
        println!("SKIPPED experiments::pictures_are_drawn: there is no font (fonts-dejavu-core)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let series = |values: &[f64]| Series {
        name: "a".to_owned(),
        values: values.to_vec(),
    };
    let path = directory.path().join("lines");
    let lines = [
        series(&[1.0, 1.0]),
        series(&[1.0, 1.5]),
        series(&[1.0, 2.0]),
    ];
    plot::lines(&path, "title", ["x", "y"], &[50.0, 100.0], &lines).unwrap();
    check(&path);
    let path = directory.path().join("bars");
    let groups = ["g".to_owned(), "h".to_owned()];
    plot::bars(&path, "title", "y", &groups, &[series(&[1.0, 2.0])]).unwrap();
    check(&path);
}

/// An SVG with text in it, and a PNG with more than one colour.
fn check(path: &Path) {
    let svg = fs::read_to_string(path.with_extension("svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("title"), "{svg}");
    let png = fs::read(path.with_extension("png")).unwrap();
    assert!(png.starts_with(b"\x89PNG"));
    let bytes: HashSet<u8> = png.iter().copied().collect();
    assert!(png.len() > 5000 && bytes.len() > 100);
}
