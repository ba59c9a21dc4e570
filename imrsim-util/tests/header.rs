// SPDX-License-Identifier: GPL-2.0-only

//! The C header: compilers take it, make the numbers of it that the module has, and nothing is missing.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use imrsim_core::{
    uapi::{self, Request},
    Cause, Condition, Settings, Stats,
};
use imrsim_util::header::{header, struct_name};

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// A folder with the header in it.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("imrsim.h"), header()).unwrap();
    path
}

/// Whether there is such a compiler. If not, says so.
fn have(compiler: &str, test: &str) -> bool {
    let there = Command::new(compiler).arg("--version").output().is_ok();
    if !there {
        println!("SKIPPED {test}: there is no {compiler}");
    }
    there
}

/// Compiles `source`; what is wrong, if something is.
fn compile(compiler: &str, folder: &Path, source: &Path, args: &[&str]) -> Result<PathBuf, String> {
    let program = folder.join(compiler.replace('+', "p"));
    let output = Command::new(compiler)
        .args(args)
        .args(STRICT)
        .arg("-I")
        .arg(folder)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .output()
        .unwrap();
    if output.status.success() {
        Ok(program)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A program that compiles only if the compiler's numbers are those that Rust has.
fn checks(assert: &str) -> String {
    let mut text = "#include <stddef.h>\n#include \"imrsim.h\"\n".to_owned();
    let mut equal = |what: &str, value: u64| {
        writeln!(text, "{assert}({what} == {value}ULL, \"{what}\");").unwrap();
    };
    for request in Request::ALL {
        equal(&format!("IMRSIM_{}", request.name()), request.cmd().into());
        let layout = request.layout();
        let name = struct_name(layout);
        equal(&format!("sizeof(struct {name})"), layout.size as u64);
        let mut offset = 0;
        for member in layout.members {
            let place = format!("offsetof(struct {name}, {})", member.name);
            equal(&place, offset as u64);
            offset += member.bits / 8 * member.count.unwrap_or(1);
        }
    }
    for (number, setting) in Settings::TABLE.iter().enumerate() {
        let name = setting.name.to_uppercase();
        equal(&format!("IMRSIM_SETTING_{name}"), number as u64);
    }
    for (number, indicator) in Stats::INDICATORS.iter().enumerate() {
        let name = indicator.name.to_uppercase();
        equal(&format!("IMRSIM_INDICATOR_{name}"), number as u64);
    }
    for condition in Condition::ALL {
        let name = condition.name().to_uppercase().replace('-', "_");
        let number = condition.number().into();
        equal(&format!("IMRSIM_CONDITION_{name}"), number);
    }
    for cause in Cause::ALL {
        let name = cause.name().to_uppercase().replace('-', "_");
        equal(&format!("IMRSIM_CAUSE_{name}"), cause.number().into());
    }
    equal("IMRSIM_ALL_ZONES", uapi::ALL_ZONES);
    text.push_str("int main(void) { return 0; }\n");
    text
}

#[test]
fn compilers_agree_with_rust() {
    for (compiler, file, standard, assert) in [
        ("cc", "checks.c", "-std=c11", "_Static_assert"),
        ("c++", "checks.cc", "-std=c++11", "static_assert"),
    ] {
        if !have(compiler, "compilers_agree_with_rust") {
            continue;
        }
        let folder = folder("header-checks");
        let source = folder.join(file);
        fs::write(&source, checks(assert)).unwrap();
        compile(compiler, &folder, &source, &[standard]).unwrap();
        // A wrong number is seen.
        let wrong = checks(assert).replacen(" == ", " == 1 + ", 1);
        fs::write(&source, wrong).unwrap();
        let error = compile(compiler, &folder, &source, &[standard]).unwrap_err();
        assert!(error.contains("IMRSIM_GET_CONFIG"), "{error}");
    }
}

#[test]
fn a_program_in_c_is_built_and_refuses_what_is_no_device() {
    if !have(
        "cc",
        "a_program_in_c_is_built_and_refuses_what_is_no_device",
    ) {
        return;
    }
    let folder = folder("header-program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/c/imrsim_info.c");
    let program = compile("cc", &folder, &source, &["-std=c99"]).unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(&program).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    };
    let (code, said) = run(&["/dev/null"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("imrsim_info: GET_CONFIG: "), "{said}");
    assert_eq!(run(&[]).0, Some(2));
    assert_eq!(run(&["/none"]).0, Some(1));
}

/// The constants that no table has are written down twice: none may be missing, nor be different.
#[test]
fn every_constant_is_there() {
    let definitions = include_str!("../../kernel/imr/uapi.rs");
    let header = header();
    let mut found = 0;
    for line in definitions.lines() {
        let Some(rest) = line.strip_prefix("pub const ") else {
            continue;
        };
        let (name, _) = rest.split_once(':').unwrap_or((rest, ""));
        let ours = ["FLAG_", "FILTER_", "RESET_", "CLEAR_", "MAX_"];
        if ours.iter().any(|prefix| name.starts_with(prefix)) {
            found += 1;
            let define = format!("#define IMRSIM_{name} ");
            assert_eq!(header.matches(&define).count(), 1, "{name}");
        }
    }
    assert!(found >= 13, "{found}");
}

#[test]
fn comments_are_plain_text() {
    let header = header();
    for word in ["`", "[`", "](", "::"] {
        assert!(!header.contains(word), "{word}");
    }
    for line in header.lines() {
        assert!(line.len() <= 110, "{line}");
        assert!(line.matches("*/").count() <= 1, "{line}");
    }
}
