// SPDX-License-Identifier: GPL-2.0-only

//! What `generate` writes, and what `make install` and `make uninstall` do, below a folder of the test.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_imrsim_util");

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// The files below a folder.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap();
                found.insert(name.display().to_string());
            }
        }
    }
    found
}

/// Runs a command and returns what it prints.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out
}

/// The commands below one, by the list in its help, with those below them.
fn commands(words: &[String]) -> Vec<Vec<String>> {
    let help = run(Command::new(PROGRAM).args(words).arg("--help"));
    let list = help.split_once("\nCommands:\n");
    let list = list.map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or(""));
    let mut all = vec![words.to_vec()];
    for line in list.lines() {
        let name = line.split_whitespace().next().unwrap();
        all.extend(commands(&[words, &[name.to_owned()]].concat()));
    }
    all
}

#[test]
fn every_command_has_an_example_and_a_page() {
    let folder = folder("generated");
    run(Command::new(PROGRAM).arg("generate").arg(&folder));
    let commands = commands(&[]);
    assert!(commands.len() > 20, "{commands:?}");
    for words in &commands {
        let help = run(Command::new(PROGRAM).args(words).arg("--help"));
        let (_, examples) = help.split_once("\nExample").expect("no example");
        let call = ["imrsim_util".to_owned(), words.join(" ")].join(" ");
        assert!(examples.contains(call.trim()), "{help}");

        let name = [&["imrsim_util".to_owned()], words.as_slice()].concat();
        let path = folder.join(format!("man/man8/{}.8", name.join("-")));
        let page = fs::read_to_string(&path).expect("no page");
        assert!(page.contains(".SH EXAMPLES\n"), "{}", path.display());
    }
    let pages = fs::read_dir(folder.join("man/man8")).unwrap().count();
    assert_eq!(pages, commands.len());
}

#[test]
fn completions_are_scripts() {
    let folder = folder("completions");
    run(Command::new(PROGRAM).arg("generate").arg(&folder));
    let script = folder.join("bash-completion/completions/imrsim_util");
    let complete = format!(
        "source '{}'; COMP_WORDS=(imrsim_util zones l); COMP_CWORD=2; \
         _imrsim_util imrsim_util l zones; echo \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let found = run(Command::new("bash").args(["-c", &complete]));
    assert_eq!(found.trim(), "list");
    for file in [
        "zsh/site-functions/_imrsim_util",
        "fish/vendor_completions.d/imrsim_util.fish",
    ] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.contains("prometheus"), "{file}");
    }
}

/// Runs `scripts/install` with everything below `root`.
fn install(root: &Path, module: &Path, args: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/install");
    run(Command::new(script)
        .args(args)
        .env("DESTDIR", root)
        .env("PREFIX", "/usr")
        .env("UTIL", PROGRAM)
        .env("MODULE", module)
        .env("KRELEASE", "7.3.0-test")
        .env("IMRSIM_CACHE", env!("CARGO_TARGET_TMPDIR")))
}

/// A file that says of itself that it is a module for a kernel; `None` without the tools to make it.
fn module(folder: &Path, release: &str) -> Option<PathBuf> {
    fs::write(
        folder.join("info"),
        format!("vermagic={release} SMP mod_unload \0"),
    )
    .unwrap();
    let script = "ld -r -b binary -o dm-imrsim.ko info && \
                  objcopy --rename-section .data=.modinfo dm-imrsim.ko && \
                  PATH=$PATH:/sbin:/usr/sbin modinfo -F vermagic ./dm-imrsim.ko";
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder)
        .output()
        .is_ok_and(|output| output.status.success());
    made.then(|| folder.join("dm-imrsim.ko"))
}

#[test]
fn install_and_uninstall() {
    let root = folder("root");
    let foreign = "usr/share/man/man8/other.8";
    fs::create_dir_all(root.join("usr/share/man/man8")).unwrap();
    fs::write(root.join(foreign), "").unwrap();

    let said = install(&root, Path::new("/none"), &[]);
    assert!(said.contains("no module: 'make module"), "{said}");
    let installed = files(&root);
    for file in [
        "usr/bin/imrsim_util",
        "usr/include/imrsim.h",
        "usr/share/man/man8/imrsim_util.8",
        "usr/share/man/man8/imrsim_util-latency-show.8",
        "usr/share/man/man8/imrsim_util-stats-show.8",
        "usr/share/bash-completion/completions/imrsim_util",
        "usr/share/zsh/site-functions/_imrsim_util",
        "usr/share/fish/vendor_completions.d/imrsim_util.fish",
    ] {
        assert!(installed.contains(file), "{file}");
    }
    assert!(
        !installed.iter().any(|file| file.contains("mod")),
        "{installed:?}"
    );
    let version = run(Command::new(root.join("usr/bin/imrsim_util")).arg("--version"));
    assert!(version.starts_with("imrsim_util "), "{version}");

    install(&root, Path::new("/none"), &["--uninstall"]);
    assert_eq!(files(&root), BTreeSet::from([foreign.to_owned()]));
}

#[test]
fn the_module_is_installed_for_its_kernel_only() {
    let root = folder("root-module");
    let Some(other) = module(&folder("module-other"), "7.3.1-other") else {
        println!("SKIPPED the_module_is_installed_for_its_kernel_only: no ld, objcopy or modinfo");
        return;
    };
    let said = install(&root, &other, &[]);
    assert!(
        said.contains("is for 7.3.1-other, not for 7.3.0-test"),
        "{said}"
    );
    let expected = [
        "lib/modules/7.3.0-test/updates/dm-imrsim.ko",
        "usr/lib/modprobe.d/imrsim.conf",
    ];
    let there = |root: &Path| expected.map(|file| root.join(file).exists());
    assert_eq!(there(&root), [false; 2]);

    let ours = module(&folder("module"), "7.3.0-test").unwrap();
    install(&root, &ours, &[]);
    assert_eq!(there(&root), [true; 2]);
    install(&root, &ours, &["--uninstall"]);
    assert_eq!(files(&root), BTreeSet::new());
}
