// SPDX-License-Identifier: GPL-2.0-only

//! Pictures as SVG.

use std::{
    fmt::{Display, Formatter},
    io::Write,
};

use anyhow::Result;

use super::picture::{Picture, Rgb, Shape, WIDTH};

/// A colour as SVG has it.
struct Colour(Rgb);

impl Display for Colour {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

/// A number with two decimals at most.
struct Short(f64);

impl Display for Short {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.2}", self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Text with nothing that XML takes for something else.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Writes a picture that is shown `width` pixels wide.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn write(picture: &Picture, width: u32, out: &mut dyn Write) -> Result<()> {
    let height = picture.height;
    let shown = f64::from(width) * height / WIDTH;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{}\" viewBox=\"0 0 {WIDTH} {}\" \
         font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" role=\"img\">",
        Short(shown.round()),
        Short(height)
    )?;
    writeln!(out, "<title>{}</title>", escaped(&picture.title))?;
    writeln!(
        out,
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
    )?;
    for shape in &picture.shapes {
        match shape {
            Shape::Fill(_, areas) if areas.is_empty() => {}
            Shape::Fill(colour, areas) => {
                write!(out, "<path fill=\"{}\" d=\"", Colour(*colour))?;
                for area in areas {
                    let [x, y, width, height] = area.map(Short);
                    write!(out, "M{x} {y}h{width}v{height}h-{width}z")?;
                }
                writeln!(out, "\"/>")?;
            }
            Shape::Outline(colour, area, line) => {
                let [x, y, width, height] = area.map(Short);
                writeln!(
                    out,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"none\" \
                     stroke=\"{}\" stroke-width=\"{line}\"/>",
                    Colour(*colour)
                )?;
            }
            Shape::Text {
                at: [x, y],
                anchor,
                size,
                colour,
                text,
            } => {
                let anchor = match anchor {
                    0.0 => "start",
                    0.5 => "middle",
                    _ => "end",
                };
                writeln!(
                    out,
                    "<text x=\"{}\" y=\"{}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{}\">{}</text>",
                    Short(*x),
                    Short(*y),
                    Colour(*colour),
                    escaped(text)
                )?;
            }
        }
    }
    writeln!(out, "</svg>")?;
    Ok(out.flush()?)
}
