// SPDX-License-Identifier: GPL-2.0-only

//! What the program prints, for every command and for everything that can be wrong with one.
//!
//! The sessions are in `tests/cmd/`; `TRYCMD=overwrite cargo test` writes down what is printed
//! now.

#[test]
fn sessions() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
