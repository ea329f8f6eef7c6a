//! From a run to what the user sees: text on stdout, `report.html` for the browser.

use crate::term;
use latlab_model::control::JsonEscaped;
use latlab_model::run::Run;
use latlab_report::doc::{Block, Doc, Section, Table};
use latlab_report::sections::{self, screen};
use latlab_report::{html, text};
use std::io::{self, Write};

/// Writes a run as text, laid out for the terminal: the first screen, or with `--details` everything
/// but machine and configuration, which whoever has just measured knows.
///
/// # Errors
/// Whatever the writer says; a broken pipe among it.
pub fn text(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    if term::details() {
        return document(&sections::brief(run), out);
    }
    out.write_all(&screen::render(run, &options())?)
}

/// Writes a document as text, laid out for the terminal.
///
/// # Errors
/// As [`text()`].
pub fn document(doc: &Doc, mut out: &mut dyn Write) -> io::Result<()> {
    text::render(doc, &options(), &mut out)
}

/// Writes a table alone, laid out as those of reports: a list of what there is.
///
/// # Errors
/// As [`text()`].
pub fn table(table: Table, out: &mut dyn Write) -> io::Result<()> {
    let section = Section { blocks: vec![Block::Table(table)], ..Section::default() };
    document(&Doc { sections: vec![section], ..Doc::default() }, out)
}

/// How text is laid out here: for the terminal, or not wrapped for a file or a pipe.
pub fn options() -> text::TextOptions {
    text::TextOptions {
        width: term::width(),
        color: term::color(),
        wrap: term::wraps(),
        details: term::details(),
    }
}

/// Writes a run as one HTML file.
///
/// # Errors
/// Whatever the writer says.
pub fn html(run: &Run, mut out: &mut dyn Write) -> io::Result<()> {
    html::render(&sections::page::of_run(run), &mut out)
}

/// Writes a run, or anything else, as JSON, as `run.json` has it. One kind of writer, because the
/// code that writes a run is made anew for each kind.
///
/// # Errors
/// As [`text()`]; a broken pipe stays an I/O error on its way, as the exit code wants it.
pub fn json(value: &(impl serde::Serialize + ?Sized), out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(JsonEscaped(&mut *out), value)?;
    writeln!(out)
}
