//! A [`Doc`] as one HTML file that needs nothing else: no network, no other file.
//!
//! The words, the tables and a static SVG of every plot are there without
//! JavaScript; the script, where it may run, puts an interactive plot in place of
//! each SVG. A content security policy allows this page's own script and style,
//! by their hashes, and nothing else; everything that comes from a run is escaped.

mod blocks;
mod flame;
#[cfg(feature = "host")]
pub mod site;

use crate::doc::Doc;
use crate::plot::palette::{Ground, Role};
use crate::plot::svg::{self, escape};
use flate2::read::DeflateDecoder;
use std::io::{self, Write};

/// uPlot and the report's own code, built from `viewer/report`, deflated by `build.rs`.
const SCRIPT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/report.js.deflate"));
/// The report's style sheet and uPlot's, as the script.
const STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/report.css.deflate"));
/// `sha256-…` of the script, made when it is built.
const SCRIPT_HASH: &str = include_str!("../../assets/report.js.sha256");

/// Writes the page.
pub fn render(doc: &Doc, out: &mut impl Write) -> io::Result<()> {
    let plots = crate::sections::plots(doc).next().is_some();
    let policy = format!("script-src '{}'; ", SCRIPT_HASH.trim());
    head(doc, plots, &policy, "", out)?;
    write!(out, "<body>\n<a class=\"skip\" href=\"#main\">Skip to the report</a>\n")?;
    write!(out, "<header>\n<p class=\"brand\">latlab report</p>\n")?;
    // Shown by the script: without it a button would do nothing.
    out.write_all(b"<button id=\"theme\" type=\"button\" hidden>Dark</button>\n")?;
    write!(out, "<h1>{}</h1>\n</header>\n", escape(&doc.title))?;
    out.write_all(b"<main id=\"main\">\n")?;
    tiles(doc, out)?;
    summary(doc, out)?;
    for block in &doc.lead {
        blocks::block(block, true, out)?;
    }
    for section in &doc.sections {
        blocks::section(section, doc.lead.is_empty(), true, out)?;
    }
    out.write_all(b"</main>\n")?;
    writeln!(out, "<footer><p>Made by latlab {}.</p></footer>", env!("CARGO_PKG_VERSION"))?;
    out.write_all(b"<script>")?;
    inflate(SCRIPT, out)?;
    out.write_all(b"</script>\n</body>\n</html>\n")
}

fn inflate(asset: &[u8], out: &mut impl Write) -> io::Result<()> {
    io::copy(&mut DeflateDecoder::new(asset), out).map(drop)
}

fn head(doc: &Doc, plots: bool, script: &str, style: &str, out: &mut impl Write) -> io::Result<()> {
    let policy = format!(
        "default-src 'none'; {script}style-src 'unsafe-inline'; img-src data:; \
         base-uri 'none'; form-action 'none'"
    );
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{}</title>\n<style>",
        escape(&doc.title)
    )?;
    inflate(STYLE, out)?;
    if plots {
        out.write_all(plot_style().as_bytes())?;
    }
    write!(out, "{style}</style>\n</head>\n")
}

/// Colours of plots as custom properties on each ground, and the classes of static drawings.
fn plot_style() -> String {
    let on = |ground| -> String {
        Role::all().map(|r| format!("--plot-{}:{};", r.class(), r.color(ground))).collect()
    };
    let (light, dark) = (on(Ground::Light), on(Ground::Dark));
    let classes: String = Role::all()
        .map(|r| {
            let c = r.class();
            format!("svg .f-{c}{{fill:var(--plot-{c})}}svg .k-{c}{{stroke:var(--plot-{c})}}")
        })
        .collect();
    format!(
        ":root{{{light}}}\
         @media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\
         :root[data-theme=dark]{{{dark}}}\
         @media print{{:root,:root[data-theme=dark],:root:not([data-theme=light]){{{light}}}}}\
         {classes}{}",
        svg::dashes()
    )
}

fn summary(doc: &Doc, out: &mut impl Write) -> io::Result<()> {
    if doc.summary.is_empty() {
        return Ok(());
    }
    out.write_all(b"<section class=\"summary\" aria-label=\"Summary\">\n")?;
    for sentence in &doc.summary {
        writeln!(out, "<p>{}</p>", escape(sentence))?;
    }
    out.write_all(b"</section>\n")
}

/// Key figures; a colour and a sign where a verdict exists.
fn tiles(doc: &Doc, out: &mut impl Write) -> io::Result<()> {
    if doc.tiles.is_empty() {
        return Ok(());
    }
    out.write_all(b"<dl class=\"tiles\">\n")?;
    for t in &doc.tiles {
        let (class, sign) = t.verdict.map_or(("", ""), blocks::verdict);
        let label = escape(&t.label);
        write!(out, "<div class=\"tile {class}\"><dt>{label}</dt><dd><b>")?;
        if let Some(severity) = t.verdict {
            let name = crate::messages::severity(severity);
            write!(out, "<span role=\"img\" aria-label=\"{name}\">{sign}</span> ")?;
        }
        writeln!(out, "{}</b> <small>{}</small></dd></div>", escape(&t.value), escape(&t.note))?;
    }
    out.write_all(b"</dl>\n")
}

#[cfg(test)]
mod tests;
