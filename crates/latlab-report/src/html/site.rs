//! A page of a site: the same as a report's, with links to the others and without a script.
//!
//! Nothing is loaded, from the network or from beside the page: it opens from a file. Links lead to file
//! names that the caller made; no text of a machine becomes one.

use super::{blocks, head, summary, tiles};
use crate::doc::Doc;
use crate::plot::svg::escape;
use std::io::{self, Write};

/// What sites have beside the style of reports.
const STYLE: &str = "nav{display:flex;flex-wrap:wrap;gap:0 1.25rem;padding-top:1.5rem;font-size:.875rem}\
nav a{text-decoration:none}header{padding-top:.5rem}\
main td,main th{overflow-wrap:anywhere;min-width:7.5em}main .n{min-width:0}\
main thead th{overflow-wrap:normal}@media (max-width:40rem){.drawing{overflow-x:auto}.drawing svg{width:680px}}\
.section>summary{max-width:100%}.section>summary small{white-space:normal}";

/// Writes a page.
///
/// # Errors
/// Those of `out`.
pub fn render(doc: &Doc, brand: &str, out: &mut impl Write) -> io::Result<()> {
    let plots = crate::sections::plots(doc).next().is_some();
    head(doc, plots, "", STYLE, out)?;
    out.write_all(b"<body>\n<a class=\"skip\" href=\"#main\">Skip to the page</a>\n")?;
    out.write_all(b"<nav aria-label=\"Site\"><a href=\"index.html\">Fleet</a>")?;
    for (id, title) in [("boards", "Boards"), ("kernels", "Kernels"), ("results", "Results")] {
        write!(out, "<a href=\"index.html#{id}\">{title}</a>")?;
    }
    write!(out, "</nav>\n<header>\n<p class=\"brand\">{}</p>\n", escape(brand))?;
    writeln!(out, "<h1>{}</h1>\n</header>\n<main id=\"main\">", escape(&doc.title))?;
    tiles(doc, out)?;
    summary(doc, out)?;
    for block in &doc.lead {
        blocks::block(block, false, out)?;
    }
    for section in &doc.sections {
        blocks::section(section, true, false, out)?;
    }
    out.write_all(b"</main>\n")?;
    let version = env!("CARGO_PKG_VERSION");
    writeln!(out, "<footer><p>Made by latlab {version}.</p></footer>\n</body>\n</html>")
}
