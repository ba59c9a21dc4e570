// SPDX-License-Identifier: GPL-2.0-only

//! Draws the results, as SVG and as PNG.

use std::{fs, path::Path};

use anyhow::{anyhow, Context, Result};
use plotters::{coord::Shift, prelude::*};

/// Where fonts usually are. Only the file for PNG needs one; SVG leaves letters to whoever shows it.
const FONTS: [&str; 4] = [
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu/DejaVuSans.ttf",
];

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 540);

/// Colours that people with colour blindness can tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 3] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
];

/// Points joined by a line, or bars of one colour.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// A value for each place on the x axis, in order; of bars, for each group.
    pub values: Vec<f64>,
}

/// Takes the font in which everything is written: `file`, or the first of those that usually are there.
///
/// # Errors
///
/// If there is none.
pub fn use_font(file: Option<&Path>) -> Result<()> {
    let usual = FONTS.iter().map(Path::new);
    let path = match file {
        Some(file) => file,
        None => usual.into_iter().find(|path| path.exists()).context(
            "no font to draw with; install DejaVu Sans (Debian's package: fonts-dejavu-core), or name one with --font",
        )?,
    };
    let font = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    plotters::style::register_font("sans-serif", FontStyle::Normal, Vec::leak(font))
        .map_err(|_| anyhow!("{} is no font", path.display()))
}

/// Draws lines over a shared x axis of per cent, as `path`.svg and `path`.png.
///
/// # Errors
///
/// If a file cannot be written.
pub fn lines(
    path: &Path,
    title: &str,
    labels: [&str; 2],
    x: &[f64],
    series: &[Series],
) -> Result<()> {
    both(
        path,
        |svg| {
            let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
            draw_lines(&root, title, labels, x, series)
        },
        |png| {
            let root = BitMapBackend::new(png, SIZE).into_drawing_area();
            draw_lines(&root, title, labels, x, series)
        },
    )
}

/// Draws groups of bars, as `path`.svg and `path`.png.
///
/// # Errors
///
/// If a file cannot be written.
pub fn bars(
    path: &Path,
    title: &str,
    label: &str,
    groups: &[String],
    series: &[Series],
) -> Result<()> {
    both(
        path,
        |svg| {
            let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
            draw_bars(&root, title, label, groups, series)
        },
        |png| {
            let root = BitMapBackend::new(png, SIZE).into_drawing_area();
            draw_bars(&root, title, label, groups, series)
        },
    )
}

fn both(
    path: &Path,
    svg: impl FnOnce(&mut String) -> Result<()>,
    png: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let mut text = String::new();
    svg(&mut text)?;
    let file = path.with_extension("svg");
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let file = path.with_extension("png");
    png(&file).with_context(|| format!("cannot write {}", file.display()))
}

/// The errors of a backend, which are not `Sync`.
fn drawn<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T> {
    result.map_err(|error| anyhow!("cannot draw: {error}"))
}

/// The end of an axis that begins at `least` and has room above the highest value for a legend.
fn axis_end(series: &[Series], least: f64) -> f64 {
    let values = series.iter().flat_map(|it| &it.values);
    let most = values.copied().fold(least, f64::max);
    least + (most - least).max(0.1) * 1.15
}

fn draw_lines<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    title: &str,
    [x_label, y_label]: [&str; 2],
    x: &[f64],
    series: &[Series],
) -> Result<()> {
    drawn(root.fill(&WHITE))?;
    let (first, last) = (
        x.first().copied().unwrap_or(0.0),
        x.last().copied().unwrap_or(1.0),
    );
    let mut chart = drawn(
        ChartBuilder::on(root)
            .caption(title, ("sans-serif", 22))
            .margin(16)
            .margin_right(44)
            .x_label_area_size(48)
            .y_label_area_size(64)
            .build_cartesian_2d(first..last, 1.0..axis_end(series, 1.0)),
    )?;
    drawn(
        chart
            .configure_mesh()
            .x_desc(x_label)
            .y_desc(y_label)
            .x_labels(11)
            .x_label_formatter(&|x| format!("{x:.0} %"))
            .y_label_formatter(&|y| format!("{y:.1}"))
            .label_style(("sans-serif", 15))
            .axis_desc_style(("sans-serif", 17))
            .light_line_style(TRANSPARENT)
            .draw(),
    )?;
    for (number, (one, colour)) in series.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let points: Vec<_> = x.iter().copied().zip(one.values.iter().copied()).collect();
        let drawn_line =
            drawn(chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2))))?;
        drawn_line
            .label(&one.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2)));
        // Told apart without colours, too.
        match number % 3 {
            0 => {}
            1 => {
                let marks = points.iter().map(|at| Circle::new(*at, 4, colour.filled()));
                drawn(chart.draw_series(marks))?;
            }
            _ => {
                let marks = points
                    .iter()
                    .map(|at| TriangleMarker::new(*at, 6, colour.filled()));
                drawn(chart.draw_series(marks))?;
            }
        }
    }
    legend(&mut chart, SeriesLabelPosition::UpperLeft)?;
    drawn(root.present())
}

fn draw_bars<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    title: &str,
    label: &str,
    groups: &[String],
    series: &[Series],
) -> Result<()> {
    drawn(root.fill(&WHITE))?;
    // A group is one unit wide, a fifth of it a gap.
    let width = 0.8 / series.len().max(1) as f64;
    let mut chart = drawn(
        ChartBuilder::on(root)
            .caption(title, ("sans-serif", 22))
            .margin(16)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..groups.len() as f64, 0.0..axis_end(series, 0.0) * 1.1),
    )?;
    let name = |x: &f64| {
        let group = groups
            .get(x.floor() as usize)
            .filter(|_| (x.fract() - 0.5).abs() < 0.01);
        group.cloned().unwrap_or_default()
    };
    drawn(
        chart
            .configure_mesh()
            .disable_x_mesh()
            .y_desc(label)
            .x_labels(2 * groups.len() + 1)
            .x_label_formatter(&name)
            .y_label_formatter(&|y| format!("{y:.1}"))
            .label_style(("sans-serif", 15))
            .axis_desc_style(("sans-serif", 17))
            .light_line_style(TRANSPARENT)
            .draw(),
    )?;
    for (number, (one, colour)) in series.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let bars = one.values.iter().enumerate().map(|(group, value)| {
            let left = group as f64 + 0.1 + width * number as f64;
            Rectangle::new(
                [(left, 0.0), (left + width * 0.92, *value)],
                colour.filled(),
            )
        });
        drawn(chart.draw_series(bars))?
            .label(&one.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 6), (x + 14, y + 6)], colour.filled()));
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)?;
    drawn(root.present())
}

fn legend<'a, B: DrawingBackend + 'a, C: CoordTranslate>(
    chart: &mut ChartContext<'a, B, C>,
    position: SeriesLabelPosition,
) -> Result<()> {
    drawn(
        chart
            .configure_series_labels()
            .position(position)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.4))
            .label_font(("sans-serif", 15))
            .draw(),
    )
}
