//! From a run to what the user sees: text on stdout, `report.html` for the browser.

use crate::term;
use latlab_model::run::Run;
use latlab_report::doc::Doc;
use latlab_report::{html, sections, text};
use std::io::{self, Write};

/// Writes what came out of a run as text, laid out for the terminal. The
/// machine and the configuration are left to [`document`]: whoever has just measured knows them.
///
/// # Errors
/// Whatever the writer says; a broken pipe among it.
pub fn text(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    document(&sections::brief(run), out)
}

/// Writes what came out of a survey as text: without the plots, which `report.html` has.
///
/// # Errors
/// As [`text()`].
pub fn digest(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    document(&sections::survey::digest(run), out)
}

/// Writes a document as text, laid out for the terminal.
///
/// # Errors
/// As [`text()`].
pub fn document(doc: &Doc, mut out: &mut dyn Write) -> io::Result<()> {
    let options = text::TextOptions { width: term::width(), color: term::color() };
    text::render(doc, &options, &mut out)
}

/// Writes a run as one HTML file.
///
/// # Errors
/// Whatever the writer says.
pub fn html(run: &Run, mut out: &mut dyn Write) -> io::Result<()> {
    html::render(&sections::of_run(run), &mut out)
}

/// Writes a run, or anything else, as JSON, as `run.json` has it. One kind of writer, because the
/// code that writes a run is made anew for each kind.
///
/// # Errors
/// As [`text()`]; a broken pipe stays an I/O error on its way, as the exit code wants it.
pub fn json(value: &(impl serde::Serialize + ?Sized), out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}
