//! A [`Plot`] as SVG: inside a page that styles it, or alone with its own styles.

use super::draw::{self, FINE, Frame, stand_in};
use super::palette::{DASHES, Ground, Role};
use crate::doc::Plot;
use crate::text::clean;
use plotters::backend::SVGBackend;
use plotters::drawing::IntoDrawingArea;

/// Width of every drawing in pixels.
const WIDTH: u32 = 860;

/// What a drawing is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Part of an HTML page, whose style sheet knows the classes of [`style`].
    InPage,
    /// A file of its own: title, ground, light or dark as the viewer prefers.
    Alone,
    /// A file of its own on one ground, for renderers without media queries.
    Fixed(Ground),
}

/// The SVG document. It holds no script, no link and nothing unescaped.
pub fn svg(plot: &Plot, usage: Use) -> String {
    let alone = usage != Use::InPage;
    let height = draw::height_of(plot) + if alone { 28 } else { 0 };
    let frame = Frame { width: WIDTH, height, alone };
    let fine = FINE as u32;
    let mut text = String::new();
    let backend = SVGBackend::with_string(&mut text, (WIDTH * fine, height * fine));
    let drawn = (|| {
        let root = backend.into_drawing_area();
        draw::draw(&root, plot, frame)?;
        root.present()
    })();
    if drawn.is_err() {
        // Only the sink of a drawing can fail, and this one is a string.
        text.clear();
    }
    let body = text.split_once('>').map_or("", |(_, rest)| rest);
    let body = body.trim_end().strip_suffix("</svg>").unwrap_or(body);
    let body = classes(body, usage);
    let head = match usage {
        Use::InPage => String::new(),
        Use::Alone => format!(
            "<style>{}@media (prefers-color-scheme:dark){{{}}}</style>",
            style(Ground::Light),
            style(Ground::Dark)
        ),
        Use::Fixed(ground) => format!("<style>{}</style>", style(ground)),
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{head}{body}</svg>\n",
        WIDTH * fine,
        height * fine,
        escape(&format!("{}. {}", plot.title, plot.description)),
    )
}

/// The style sheet of a ground for the classes that drawings use.
pub fn style(ground: Ground) -> String {
    let mut css = String::new();
    for role in Role::all() {
        let (class, color) = (role.class(), role.color(ground));
        css.push_str(&format!(".f-{class}{{fill:{color}}}.k-{class}{{stroke:{color}}}"));
    }
    css + &dashes()
}

/// Dashes tell lines apart where there is no colour. In drawn units.
pub fn dashes() -> String {
    let fine = |pattern: &str| {
        let each = pattern.split(' ').filter_map(|n| n.parse::<i32>().ok());
        each.map(|n| (n * FINE).to_string()).collect::<Vec<_>>().join(" ")
    };
    let lines = DASHES.iter().enumerate().filter(|(_, d)| !d.is_empty());
    let mut css: String =
        lines.map(|(i, d)| format!("polyline.k-s{i}{{stroke-dasharray:{}}}", fine(d))).collect();
    css.push_str(&format!(".k-mark{{stroke-dasharray:{}}}", fine("3 3")));
    css
}

/// Stand-in colours become classes; files of their own keep a plain colour
/// too, for programs that know no style sheets.
fn classes(body: &str, usage: Use) -> String {
    let ground = match usage {
        Use::Fixed(ground) => ground,
        _ => Ground::Light,
    };
    let mut body = body.replace('\n', "");
    for role in Role::all() {
        let c = stand_in(role);
        let hex = format!("#{:02X}{:02X}{:02X}", c.0, c.1, c.2);
        for (attribute, kind) in [("fill", "f"), ("stroke", "k")] {
            let class = format!(" class=\"{kind}-{}\"", role.class());
            let plain = match usage {
                Use::InPage => String::new(),
                _ => format!(" {attribute}=\"{}\"", role.color(ground)),
            };
            body = body.replace(&format!(" {attribute}=\"{hex}\""), &(class + &plain));
        }
    }
    body
}

/// Text for XML and HTML, in elements and in double-quoted attributes.
pub fn escape(text: &str) -> String {
    let text = clean(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not allowed in XML.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
