// SPDX-License-Identifier: GPL-2.0-only

//! `show`.

use std::{
    io::{BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::{ArgGroup, Args};

use super::traces::create;
use crate::{
    exit::usage,
    number::parse_count,
    show::{
        page,
        picture::{At, Moment, Picture},
        png, svg, Chosen,
    },
};

pub(super) const AFTER_HELP: &str =
    "Recordings are made by 'imrsim_util simulate --record' and 'imrsim_util record'. The page is one file without links\n\
    to others: any browser of today plays it, by mouse and by keyboard. --svg and --png draw one moment of it.\n\n\
    Examples:\n  \
    imrsim_util simulate run.log --zones 1 --record run.imrtrace\n  \
    imrsim_util show --html run.imrtrace -o run.html\n  \
    imrsim_util show --png run.imrtrace -o half.png --at 50% --width 2400\n  \
    imrsim_util show --svg run.imrtrace -o rewrite.svg --at 1234";

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["html", "svg", "png"]).required(true))]
pub(super) struct ShowArgs {
    /// The recording
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Where to; - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Make a page that plays the recording
    #[arg(long)]
    html: bool,
    /// Draw a moment as SVG
    #[arg(long)]
    svg: bool,
    /// Draw a moment as PNG
    #[arg(long)]
    png: bool,
    /// The zone [default: the one with most requests]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    zone: Option<u64>,
    /// The moment: after so many requests to the zone (1234) or such a share of them (50%); when so much of the
    /// zone is in use (used=30%), or rewrites from there on (rewrite=70%) [default: 100%]
    #[arg(long, value_name = "MOMENT", conflicts_with = "html")]
    at: Option<At>,
    /// Width of the picture in pixels
    #[arg(
        long,
        value_name = "N",
        default_value = "1200",
        conflicts_with = "html"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=i64::from(png::MAX_PIXELS)))]
    width: u32,
    /// The font of a PNG, a TrueType or OpenType file [default: DejaVu Sans]
    #[arg(long, value_name = "FILE", requires = "png")]
    font: Option<PathBuf>,
    /// Of so many requests at most, the page shows each as a step of its own
    #[arg(long, value_name = "N", requires = "html", value_parser = parse_count)]
    detail: Option<u64>,
}

impl ShowArgs {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let to_terminal = self.output == Path::new("-") && std::io::stdout().is_terminal();
        if self.png && to_terminal {
            return Err(usage("a PNG is nothing for a terminal: use -o FILE"));
        }
        let chosen = Chosen::of(&self.recording, self.zone)?;
        if self.html {
            let mut file = self.create(out)?;
            let detail = self.detail.unwrap_or(page::DETAIL);
            return page::write(&self.recording, &chosen, detail, &mut file);
        }
        let font = self
            .png
            .then(|| png::font(self.font.as_deref()))
            .transpose()?;
        let at = self.at.unwrap_or(At::Share(1.0));
        let picture = Picture::new(&Moment::of(&self.recording, &chosen, at)?);
        let mut file = self.create(out)?;
        match font {
            Some(font) => png::write(&picture, self.width, &font, &mut file),
            None => svg::write(&picture, self.width, &mut file),
        }
    }

    fn create<'a>(&self, out: &'a mut dyn Write) -> Result<BufWriter<Box<dyn Write + 'a>>> {
        Ok(BufWriter::new(create(
            &self.output,
            Some(&self.recording),
            out,
        )?))
    }
}
