// SPDX-License-Identifier: GPL-2.0-only

//! `show`.

use std::{
    fs::Metadata,
    io::{BufWriter, IsTerminal, Write},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use ab_glyph::FontVec;
use anyhow::Result;
use clap::{ArgGroup, Args};

use super::output::Output;
use crate::{
    device::Device,
    exit::usage,
    live::{self, Rewrite},
    number::{parse_count, parse_duration},
    recording::Event,
    report::Style,
    show::{
        page,
        picture::{At, Moment, Picture},
        png, svg, Chosen,
    },
    tracefs::{self, Dev, Instance, Line, Pipe, Stream, Tracefs, What},
};

pub(super) const AFTER_HELP: &str =
    "Of a drive, it shows the zones, the tracks of one of them and the counters, again and again; the key ? explains\n\
    what is to be seen. Without a terminal, and with --plain or --json, it prints one look. While it runs, the drive\n\
    is in use and cannot be removed. Which tracks are rewritten is known from trace events, which are for root.\n\n\
    Recordings are made by 'imrsim_util record' and 'imrsim_util simulate --record'. The page is one file without\n\
    links to others: any browser of today plays it, by mouse and by keyboard. --svg and --png draw one moment of it.\n\n\
    Examples:\n  \
    imrsim_util show /dev/mapper/imrsim\n  \
    imrsim_util show /dev/mapper/imrsim --zone 3 --interval 100ms\n  \
    imrsim_util show /dev/mapper/imrsim --json | jq '.opened.tracks[].top_used_blocks'\n  \
    imrsim_util simulate run.log --zones 1 --record run.imrtrace\n  \
    imrsim_util show --html run.imrtrace -o run.html\n  \
    imrsim_util show --png run.imrtrace -o half.png --at 50% --width 2400\n  \
    imrsim_util show --svg run.imrtrace -o rewrite.svg --at 1234";

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["html", "svg", "png"]).requires("output"))]
pub(super) struct ShowArgs {
    /// The drive, a block device; or with --html, --svg and --png the recording
    #[arg(value_name = "DEV|RECORDING")]
    subject: PathBuf,
    /// The zone [default: the first; of a recording, the one with most requests]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    zone: Option<u64>,
    /// The time between two looks: 100ms, 2s, ... [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    #[arg(conflicts_with_all = ["what", "plain", "json"])]
    interval: Option<Duration>,
    /// Print one look at the drive, as text
    #[arg(long, conflicts_with_all = ["what", "json"])]
    plain: bool,
    /// Print one look at the drive, as JSON
    #[arg(long, conflicts_with = "what")]
    json: bool,
    /// Make a page that plays the recording
    #[arg(long)]
    html: bool,
    /// Draw a moment of the recording as SVG
    #[arg(long)]
    svg: bool,
    /// Draw a moment of the recording as PNG
    #[arg(long)]
    png: bool,
    /// Where to; - for standard output
    #[arg(short, long, value_name = "FILE", requires = "what")]
    output: Option<PathBuf>,
    /// The moment: after so many requests to the zone (1234) or such a share of them (50%); when so much of the
    /// zone is in use (used=30%), or with the first rewrite once it is (rewrite=70%) [default: 100%]
    #[arg(
        long,
        value_name = "MOMENT",
        requires = "what",
        conflicts_with = "html"
    )]
    at: Option<At>,
    /// Width of the picture in pixels
    #[arg(
        long,
        value_name = "N",
        default_value = "1200",
        requires = "what",
        conflicts_with = "html"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=i64::from(png::MAX_PIXELS)))]
    width: u32,
    /// The font of a PNG, a TrueType or OpenType file [default: DejaVu Sans]
    #[arg(long, value_name = "FILE", requires = "png")]
    font: Option<PathBuf>,
    /// Of so many requests, or runs of them, at most, the page shows each as a step of its own
    #[arg(long, value_name = "N", requires = "html", value_parser = parse_count)]
    detail: Option<u64>,
}

/// Room for the rewrites between two looks, for each processor. What does not fit is not seen.
const REWRITES: u64 = 1 << 20;

/// How often they are read at a look, at most: each time, a page of text.
const READS: usize = 1000;

fn watch_rewrites(dev: Dev) -> Result<Instance> {
    let name = format!("imrsim-show-{}", process::id());
    let instance = Tracefs::find(None)?.instance(&name)?;
    instance.collect_only("rmw_start", dev, REWRITES)?;
    Ok(instance)
}

/// The rewrites since this was called last.
fn rewrites(stream: &mut Stream<Pipe<'_>>) -> Result<Vec<Rewrite>> {
    let mut found = Vec::new();
    let mut see = |line| {
        if let Line::Event(traced) = line {
            if let (Some(zone), What::Event(Event::RmwStart(rmw))) = (traced.zone, traced.what) {
                found.push(Rewrite {
                    zone,
                    first: rmw.nbo,
                    blocks: rmw.blocks,
                });
            }
        }
        Ok(())
    };
    // It ends even where they come faster than they can be read.
    for _ in 0..READS {
        if !stream.read(&mut see)? {
            break;
        }
    }
    Ok(found)
}

impl ShowArgs {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.output {
            Some(output) => self.run_recording(output, out),
            None => self.run_drive(out),
        }
    }

    fn run_drive(&self, out: &mut dyn Write) -> Result<()> {
        let shown = self.subject.display();
        if self.subject.is_file() {
            return Err(usage(format!(
                "{shown} is a file, no drive: if it is a recording, say --html, --svg or --png, and -o FILE"
            )));
        }
        let mut device = Device::open(&self.subject)?;
        let options = live::Options::default();
        let options = live::Options {
            zone: self.zone.unwrap_or(options.zone),
            interval: self.interval.unwrap_or(options.interval),
        };
        if self.json || self.plain || !std::io::stdout().is_terminal() {
            return live::plain::print(&mut device, &options, Style::new(self.json), out);
        }
        // Where a rewrite is, is known from trace events, which are for root.
        let instance = tracefs::dev_of(&self.subject).and_then(watch_rewrites);
        let pipe = instance.as_ref().map(Instance::pipe);
        let ended = match pipe {
            Ok(Ok(pipe)) => {
                let mut stream = Stream::new(pipe);
                live::run(&mut device, &mut || rewrites(&mut stream), &options)
            }
            Ok(Err(_)) | Err(_) => live::run(&mut device, &mut live::no_rewrites, &options),
        };
        // Whatever ended it: the events are not collected any longer.
        drop(instance);
        live::end_by(ended?)
    }

    fn run_recording(&self, output: &Path, out: &mut dyn Write) -> Result<()> {
        let (recording, shown) = (&self.subject, self.subject.display());
        let is_device = |it: Metadata| it.file_type().is_block_device();
        if recording.metadata().is_ok_and(is_device) {
            return Err(usage(format!(
                "{shown} is a device, no recording: 'imrsim_util show {shown}' shows a drive, and \
                 'imrsim_util record {shown} -o FILE' makes a recording of it"
            )));
        }
        if recording.metadata().is_ok_and(|it| !it.is_file()) {
            return Err(usage(format!(
                "{shown} is no file: a recording is read twice"
            )));
        }
        let to_stdout = output == Path::new("-");
        if self.png && to_stdout && std::io::stdout().is_terminal() {
            return Err(usage("a PNG is nothing for a terminal: use -o FILE"));
        }
        let chosen = Chosen::of(recording, self.zone)?;
        let font = self
            .png
            .then(|| png::font(self.font.as_deref()))
            .transpose()?;
        if to_stdout {
            let mut out = BufWriter::new(out);
            return self.show(&chosen, font.as_ref(), &mut out);
        }
        let file = Output::create(output, Some(recording))?;
        self.show(&chosen, font.as_ref(), &mut *file.writer()?)?;
        file.finish()
    }

    /// Writes the page or the picture.
    fn show(&self, chosen: &Chosen, font: Option<&FontVec>, out: &mut dyn Write) -> Result<()> {
        let recording = &self.subject;
        if self.html {
            let detail = self.detail.unwrap_or(page::DETAIL);
            page::write(recording, chosen, detail, out)?;
        } else {
            let at = self.at.unwrap_or(At::Share(1.0));
            let picture = Picture::new(&Moment::of(recording, chosen, at)?);
            match font {
                Some(font) => png::write(&picture, self.width, font, out)?,
                None => svg::write(&picture, self.width, out)?,
            }
        }
        Ok(out.flush()?)
    }
}
