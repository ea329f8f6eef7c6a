//! A [`Plot`] as PNG: its SVG on a light ground, drawn by resvg with the
//! DejaVu Sans that is built in, so that it looks the same on every machine.

use super::palette::Ground;
use super::svg::{self, Use};
use crate::doc::Plot;
use resvg::{tiny_skia, usvg};
use std::sync::Arc;

/// Pixels of the file for a pixel of the drawing.
const SCALE: f32 = 2.0;

/// What kept a plot from being drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// The drawing is no SVG that resvg reads.
    #[error("plot {id}: the drawing cannot be read: {source}")]
    Svg {
        /// The plot.
        id: String,
        /// What the parser said.
        source: usvg::Error,
    },
    /// No memory for so many pixels.
    #[error("plot {id}: {width} × {height} pixels are too many")]
    Size {
        /// The plot.
        id: String,
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// The pixels could not be written as PNG.
    #[error("plot {id}: {message}")]
    Encode {
        /// The plot.
        id: String,
        /// What the encoder said.
        message: String,
    },
}

/// Fonts and settings for drawing plots as PNG; make it once for many.
pub struct Painter {
    options: usvg::Options<'static>,
}

impl Default for Painter {
    fn default() -> Self {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_font_data(dejavu::sans::regular().to_vec());
        fonts.set_sans_serif_family("DejaVu Sans");
        let options = usvg::Options {
            fontdb: Arc::new(fonts),
            font_family: "DejaVu Sans".into(),
            ..usvg::Options::default()
        };
        Self { options }
    }
}

impl Painter {
    /// The plot as a PNG file.
    ///
    /// # Errors
    /// When there is no memory for its pixels.
    pub fn png(&self, plot: &Plot) -> Result<Vec<u8>, PngError> {
        let id = || plot.id.clone();
        let text = svg::svg(plot, Use::Fixed(Ground::Light));
        let tree = usvg::Tree::from_str(&text, &self.options)
            .map_err(|source| PngError::Svg { id: id(), source })?;
        let size = tree.size();
        let (width, height) = ((size.width() * SCALE) as u32, (size.height() * SCALE) as u32);
        let mut pixels = tiny_skia::Pixmap::new(width, height).ok_or_else(|| PngError::Size {
            id: id(),
            width,
            height,
        })?;
        let transform = tiny_skia::Transform::from_scale(SCALE, SCALE);
        resvg::render(&tree, transform, &mut pixels.as_mut());
        pixels.encode_png().map_err(|e| PngError::Encode { id: id(), message: e.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::Series;

    #[test]
    fn words_and_lines_are_drawn() {
        let plot = Plot {
            id: "p".into(),
            title: "µs <&> title".into(),
            series: vec![Series { points: vec![(0.0, 1.0), (1.0, 2.0)], ..Series::default() }],
            ..Plot::default()
        };
        let bytes = Painter::default().png(&plot).unwrap();
        let pixels = tiny_skia::Pixmap::decode_png(&bytes).unwrap();
        assert_eq!(pixels.width(), 1720);
        let dark = |rows: std::ops::Range<u32>| {
            let each = rows.flat_map(|y| (0..1720).map(move |x| (x, y)));
            each.filter(|&(x, y)| pixels.pixel(x, y).is_some_and(|p| p.red() < 100)).count()
        };
        assert!(dark(20..60) > 200, "the title is drawn: {}", dark(20..60));
        assert!(dark(100..500) > 500, "the line is drawn: {}", dark(100..500));
    }
}
