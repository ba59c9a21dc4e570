// SPDX-License-Identifier: GPL-2.0-only

//! Pictures as PNG. A picture has nothing but rectangles and text, so that little is needed to draw it.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use ab_glyph::{Font, FontVec, PxScale, ScaleFont};
use anyhow::{bail, Context, Result};

use super::picture::{Area, Picture, Rgb, Shape, WIDTH};

/// Where fonts usually are.
const FONTS: [&str; 4] = [
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu/DejaVuSans.ttf",
];

/// The most pixels of a picture in one direction.
pub const MAX_PIXELS: u32 = 20_000;

/// The font in `file`, or the first of those that usually are there.
///
/// # Errors
///
/// If there is none.
pub fn font(file: Option<&Path>) -> Result<FontVec> {
    let usual = || FONTS.iter().map(PathBuf::from).find(|path| path.exists());
    let path = match file {
        Some(file) => Some(file.to_owned()),
        None => usual(),
    };
    let path = path.context(
        "no font to write with: install DejaVu Sans (Debian's package fonts-dejavu-core) or name a file with --font",
    )?;
    let shown = path.display();
    let bytes = fs::read(&path).with_context(|| format!("cannot read {shown}"))?;
    FontVec::try_from_vec(bytes).with_context(|| format!("{shown} is no font"))
}

/// Writes a picture, `width` pixels wide.
///
/// # Errors
///
/// If it would have more than [`MAX_PIXELS`] in one direction, or `out` cannot be written.
pub fn write(picture: &Picture, width: u32, font: &FontVec, out: &mut dyn Write) -> Result<()> {
    let scale = f64::from(width) / WIDTH;
    let height = (picture.height * scale).ceil();
    if width == 0 || width.max(height as u32) > MAX_PIXELS {
        bail!("a picture of {width} x {height} pixels: each has to be 1 to {MAX_PIXELS}");
    }
    // CAST: at most 20,000.
    let mut canvas = Canvas::new(width as usize, height as usize, scale);
    for shape in &picture.shapes {
        match shape {
            Shape::Fill(colour, areas) => areas.iter().for_each(|area| canvas.fill(*area, *colour)),
            Shape::Outline(colour, area, line) => canvas.outline(*area, *line, *colour),
            Shape::Text {
                at,
                anchor,
                size,
                colour,
                text,
            } => canvas.text(font, *at, *anchor, *size, *colour, text),
        }
    }
    let mut encoder = png::Encoder::new(&mut *out, width, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&canvas.pixels)?;
    writer.finish()?;
    Ok(out.flush()?)
}

/// Pixels, all white at first.
struct Canvas {
    width: usize,
    height: usize,
    /// Pixels in a unit of the picture.
    scale: f64,
    pixels: Vec<u8>,
}

impl Canvas {
    fn new(width: usize, height: usize, scale: f64) -> Self {
        Self {
            width,
            height,
            scale,
            pixels: vec![255; width * height * 3],
        }
    }

    /// Lays a colour over a pixel, of which it covers a share.
    fn blend(&mut self, x: usize, y: usize, colour: Rgb, share: f64) {
        if x >= self.width || y >= self.height {
            return;
        }
        let at = (y * self.width + x) * 3;
        for (pixel, new) in self.pixels[at..].iter_mut().zip(colour) {
            let mixed = f64::from(*pixel) * (1.0 - share) + f64::from(new) * share;
            // CAST: between two values that fit.
            *pixel = mixed.round() as u8;
        }
    }

    fn fill(&mut self, area: Area, colour: Rgb) {
        let [x, y, width, height] = area.map(|it| it * self.scale);
        let columns = covered(x, x + width);
        for (row, of_row) in covered(y, y + height) {
            for (column, of_column) in &columns {
                self.blend(*column, row, colour, of_row * of_column);
            }
        }
    }

    fn outline(&mut self, [x, y, width, height]: Area, line: f64, colour: Rgb) {
        let half = line / 2.0;
        for area in [
            [x - half, y - half, width + line, line],
            [x - half, y + height - half, width + line, line],
            [x - half, y + half, line, height - line],
            [x + width - half, y + half, line, height - line],
        ] {
            self.fill(area, colour);
        }
    }

    fn text(
        &mut self,
        font: &FontVec,
        at: [f64; 2],
        anchor: f64,
        size: f64,
        colour: Rgb,
        text: &str,
    ) {
        // CAST: sizes of letters. A font's height is more than the size of its letters.
        let height = (size * self.scale) as f32;
        let units = font.units_per_em().unwrap_or(1000.0);
        let scale = PxScale::from(height * font.height_unscaled() / units);
        let scaled = font.as_scaled(scale);
        let mut glyphs = Vec::new();
        let mut width = 0.0;
        for letter in text.chars() {
            let id = scaled.glyph_id(letter);
            glyphs.push((id, width));
            width += scaled.h_advance(id);
        }
        let left = (at[0] * self.scale) as f32 - width * anchor as f32;
        let base = (at[1] * self.scale) as f32;
        for (id, x) in glyphs {
            let glyph = id.with_scale_and_position(scale, ab_glyph::point(left + x, base));
            let Some(outline) = font.outline_glyph(glyph) else {
                continue;
            };
            let bounds = outline.px_bounds();
            outline.draw(|x, y, share| {
                // CAST: what is left of or above the picture becomes 0, and its share is small.
                let column = bounds.min.x as usize + x as usize;
                let row = bounds.min.y as usize + y as usize;
                self.blend(column, row, colour, share.clamp(0.0, 1.0).into());
            });
        }
    }
}

/// The pixels between two points of a line, and the share of each that lies there.
fn covered(from: f64, to: f64) -> Vec<(usize, f64)> {
    let (from, to) = (from.max(0.0), to.max(0.0));
    // CAST: inside or close to a picture of at most 20,000 pixels.
    let pixels = from.floor() as usize..to.ceil() as usize;
    let share = |pixel: usize| {
        let left = pixel as f64;
        (to.min(left + 1.0) - from.max(left)).clamp(0.0, 1.0)
    };
    pixels.map(|pixel| (pixel, share(pixel))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_cover_a_share_of_their_pixels() {
        assert_eq!(covered(1.0, 3.0), [(1, 1.0), (2, 1.0)]);
        assert_eq!(covered(0.25, 1.5), [(0, 0.75), (1, 0.5)]);
        assert_eq!(covered(0.25, 0.5), [(0, 0.25)]);
        assert_eq!(covered(-3.0, -1.0), []);
    }
}
