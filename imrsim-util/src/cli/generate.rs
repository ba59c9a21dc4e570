// SPDX-License-Identifier: GPL-2.0-only

//! Shell completions and manual pages, made of the same definitions as the parser and `--help`, and the
//! C header, made of those of the ioctls.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::{Args, Command, Subcommand};
use clap_complete::Shell;
use clap_mangen::{
    roff::{roman, Roff},
    Man,
};

use crate::{exit::usage, header};

/// The files of completions, below `share`, where each shell looks for them.
const COMPLETIONS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "imrsim_util"),
    (Shell::Zsh, "zsh/site-functions", "_imrsim_util"),
    (Shell::Fish, "fish/vendor_completions.d", "imrsim_util.fish"),
];

/// The options of the hidden command `generate`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
pub(super) struct GenerateArgs {
    /// The folder to fill as PREFIX/share is to be
    #[arg(required = true)]
    share: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write the C header of the ioctl interface, imrsim.h
    #[command(after_help = "Without FILE, it is printed.\n\n\
        Example:\n  imrsim_util generate header build/include/imrsim.h")]
    Header {
        /// The file to write
        file: Option<PathBuf>,
    },
}

impl GenerateArgs {
    /// Writes the files and prints their paths.
    pub(super) fn run(&self, command: Command, out: &mut dyn Write) -> Result<()> {
        match (&self.what, &self.share) {
            (Some(What::Header { file: Some(path) }), _) => {
                write_file(path, header::header().as_bytes(), out)
            }
            (Some(What::Header { file: None }), _) => {
                write!(out, "{}", header::header())?;
                Ok(())
            }
            (None, Some(share)) => Share(share).fill(command, out),
            (None, None) => Err(usage("what to generate is missing")),
        }
    }
}

/// A folder that is filled as `PREFIX/share` is to be.
struct Share<'a>(&'a Path);

impl Share<'_> {
    fn fill(&self, mut command: Command, out: &mut dyn Write) -> Result<()> {
        command.build();
        let name = command.get_name().to_owned();
        for (shell, folder, file) in COMPLETIONS {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut command, &name, &mut text);
            write_file(&self.folder(folder)?.join(file), &text, out)?;
        }
        let folder = self.folder("man/man8")?;
        self.pages(&command, &folder, out)
    }

    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder).with_context(|| cannot_write(&folder))?;
        Ok(folder)
    }

    /// Writes the page of a command and those of its subcommands: `imrsim_util-stats-show.8`.
    fn pages(&self, command: &Command, folder: &Path, out: &mut dyn Write) -> Result<()> {
        let page = Man::new(command.clone())
            .section("8")
            .source(concat!("IMRSim ", env!("CARGO_PKG_VERSION")));
        let path = folder.join(page.get_filename());
        let mut text = Vec::new();
        page.render_title(&mut text)?;
        page.render_name_section(&mut text)?;
        page.render_synopsis_section(&mut text)?;
        page.render_description_section(&mut text)?;
        page.render_options_section(&mut text)?;
        let mut subcommands = command.get_subcommands().filter(|it| !it.is_hide_set());
        if command.has_subcommands() {
            page.render_subcommands_section(&mut text)?;
        }
        if let Some(more) = command.get_after_help() {
            notes(&more.to_string()).to_writer(&mut text)?;
        }
        write_file(&path, &text, out)?;
        subcommands.try_for_each(|subcommand| self.pages(subcommand, folder, out))
    }
}

/// The text below a command's help, line by line as it is there: notes, and examples.
fn notes(text: &str) -> Roff {
    let mut roff = Roff::new();
    let (notes, examples) = match text.split_once("Example") {
        Some((notes, examples)) => {
            let (_, examples) = examples.split_once('\n').unwrap_or_default();
            (notes, examples)
        }
        None => (text, ""),
    };
    for (heading, text) in [("NOTES", notes), ("EXAMPLES", examples)] {
        if text.trim().is_empty() {
            continue;
        }
        roff.control("SH", [heading]);
        roff.control("nf", []);
        for line in text.trim_end().lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}

fn write_file(path: &Path, text: &[u8], out: &mut dyn Write) -> Result<()> {
    fs::write(path, text).with_context(|| cannot_write(path))?;
    writeln!(out, "{}", path.display())?;
    Ok(())
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
