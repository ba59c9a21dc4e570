// SPDX-License-Identifier: GPL-2.0-only

//! A reader that has had enough is no failure: `imrsim_util ... | head`.

use std::process::{Command, Stdio};

#[test]
fn a_closed_pipe_ends_the_program_in_silence() {
    for args in [
        &["--help"][..],
        &["size", "100G", "--json"],
        &["trace", "synth-msr", "-", "--requests", "100000"],
        &[
            "simulate",
            "tests/cmd/simulate.in/hand.log",
            "--zones",
            "1",
            "--json",
        ],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_imrsim_util"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), ""), "{args:?}");
    }
}
