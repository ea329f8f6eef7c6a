//! A flame graph as SVG inside a page: a box for each function, below its caller, as wide as its share.

use crate::doc::Flame;
use crate::plot::svg::escape;
use std::io::{self, Write};

/// Width of the drawing and height of a box, in pixels.
const WIDTH: f64 = 860.0;
const ROW: f64 = 18.0;
/// Narrower boxes are not drawn.
const NARROWEST: f64 = 0.4;
/// Width of a letter, and of the narrowest box that has a name in it.
const LETTER: f64 = 6.6;
const NAMED: f64 = 24.0;
/// Boxes of one drawing, and rows.
const BOXES_MAX: usize = 5_000;
const ROWS_MAX: u32 = 64;

/// Writes the figure.
pub(super) fn figure(flame: &Flame, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<figure class=\"plot\"><figcaption><h3>{}</h3>", escape(&flame.title))?;
    writeln!(out, "<p>{}</p></figcaption>", escape(&flame.description))?;
    let deepest = flame.boxes.iter().map(|b| b.depth).max().unwrap_or(0).min(ROWS_MAX - 1);
    let height = f64::from(deepest + 1) * ROW;
    writeln!(
        out,
        "<div class=\"scroll\"><svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" font-size=\"11\" \
         font-family=\"monospace\">",
        escape(&flame.title)
    )?;
    let scale = WIDTH / flame.total.max(1) as f64;
    for b in flame.boxes.iter().filter(|b| b.depth < ROWS_MAX).take(BOXES_MAX) {
        let (x, width) = (b.start as f64 * scale, b.width as f64 * scale);
        if width < NARROWEST {
            continue;
        }
        let y = f64::from(b.depth) * ROW;
        let class = if b.marked { "f-s1" } else { "f-s0" };
        let share = 100.0 * b.width as f64 / flame.total.max(1) as f64;
        write!(
            out,
            "<g><title>{}: {} {} ({share:.1} %)</title><rect class=\"{class}\" fill-opacity=\"{}\" \
             x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\"/>",
            escape(&b.name),
            b.width,
            escape(&flame.unit),
            if b.depth % 2 == 0 { 0.35 } else { 0.5 },
            ROW - 1.0,
        )?;
        if width >= NAMED {
            let letters = (width / LETTER) as usize;
            let name: String = b.name.chars().take(letters.saturating_sub(1)).collect();
            let (at, base) = (x + 3.0, y + ROW - 5.0);
            write!(
                out,
                "<text fill=\"currentColor\" x=\"{at:.2}\" y=\"{base}\">{}</text>",
                escape(&name)
            )?;
        }
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg></div></figure>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::FlameBox;

    #[test]
    fn boxes_are_as_wide_as_their_share_and_nothing_escapes() {
        let named = |name: &str, depth, start, width| FlameBox {
            name: name.into(),
            depth,
            start,
            width,
            marked: false,
        };
        let flame = Flame {
            title: "</svg><script>".into(),
            unit: "instructions".into(),
            total: 200,
            boxes: vec![
                named("outer", 0, 0, 200),
                named("<b>&", 1, 100, 50),
                named("narrow", 1, 150, 0),
                named("deep", 1_000_000, 0, 200),
            ],
            ..Flame::default()
        };
        let mut out = Vec::new();
        figure(&flame, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("x=\"430.00\" y=\"18\" width=\"215.00\""), "{text}");
        assert!(text.contains("outer: 200 instructions (100.0 %)"));
        assert!(!text.contains("<script>") && !text.contains("<b>") && !text.contains("narrow"));
        assert!(!text.contains("deep"), "rows are bounded");
        roxmltree::Document::parse(&text).unwrap();
    }
}
