//! A [`Doc`] as text for a terminal, a pipe or a serial console.
//!
//! Everything is readable without colour. Control characters of the input
//! (a task may be named `\x1b[2J`) never reach the terminal: [`clean()`].

mod plot;
mod table;
mod wrap;

use crate::doc::{Block, Doc, Section};
use crate::messages;
pub use latlab_model::control::clean;
use latlab_model::finding::{Confidence, Finding, Severity};
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;
use wrap::wrap;

/// How text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns to fill at most.
    pub width: usize,
    /// Whether to use colour and bold (ANSI SGR).
    pub color: bool,
    /// Whether paragraphs and tables are wrapped to the width. Plots always keep to it.
    pub wrap: bool,
    /// Whether findings have their reasons, evidence and every remedy, or the first remedy alone.
    pub details: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self { width: 80, color: false, wrap: true, details: true }
    }
}

/// Writes a whole document.
pub fn render(doc: &Doc, options: &TextOptions, out: &mut impl Write) -> io::Result<()> {
    let mut t = Text::new(options, out);
    if !doc.title.is_empty() {
        let title = t.paint(BOLD, &clean(&doc.title));
        t.line(&title)?;
        t.blank()?;
    }
    for sentence in &doc.summary {
        t.wrapped(sentence, "", "")?;
    }
    if !doc.summary.is_empty() {
        t.blank()?;
    }
    doc.sections.iter().try_for_each(|s| t.section(s))
}

/// Writes sections alone, for a command that prints its part of a report.
pub fn render_sections(
    sections: &[Section],
    options: &TextOptions,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut t = Text::new(options, out);
    sections.iter().try_for_each(|s| t.section(s))
}

/// Writes findings alone.
pub fn render_findings(
    findings: &[Finding],
    options: &TextOptions,
    out: &mut impl Write,
) -> io::Result<()> {
    Text::new(options, out).findings(findings)
}

pub(crate) const BOLD: &str = "1";
pub(crate) const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const BLUE: &str = "34";

/// Widest paragraph: longer lines are hard to read.
const PROSE: usize = 100;

struct Text<'a, W> {
    out: &'a mut W,
    width: usize,
    /// Of paragraphs.
    prose: usize,
    /// Of tables.
    table: usize,
    color: bool,
    details: bool,
}

impl<'a, W: Write> Text<'a, W> {
    fn new(options: &TextOptions, out: &'a mut W) -> Self {
        let width = options.width.max(20);
        let (prose, table) = match options.wrap {
            true => (width.min(PROSE), width),
            false => (usize::MAX, usize::MAX),
        };
        let (color, details) = (options.color, options.details);
        Self { out, width, prose, table, color, details }
    }

    fn paint(&self, sgr: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\x1b[{sgr}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", text.trim_end())
    }

    fn blank(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    /// A paragraph; `first` and `rest` are plain (uncoloured) indents.
    fn wrapped(&mut self, text: &str, first: &str, rest: &str) -> io::Result<()> {
        let mut indent = first;
        for paragraph in clean(text).lines() {
            for line in wrap(paragraph, self.prose, indent, rest) {
                self.line(&line)?;
                indent = rest;
            }
        }
        Ok(())
    }

    fn section(&mut self, section: &Section) -> io::Result<()> {
        if !section.title.is_empty() {
            let title = clean(&section.title).into_owned();
            let rule = "─".repeat(title.width().min(self.width));
            let title = self.paint(BOLD, &title);
            self.line(&title)?;
            let rule = self.paint(DIM, &rule);
            self.line(&rule)?;
        }
        for block in &section.blocks {
            self.block(block)?;
            self.blank()?;
        }
        Ok(())
    }

    fn block(&mut self, block: &Block) -> io::Result<()> {
        match block {
            Block::Text(text) => self.wrapped(text, "", ""),
            Block::Heading(text) => {
                let text = self.paint(BOLD, &clean(text));
                self.line(&text)
            }
            Block::Warning(text) => {
                let sign = self.paint(YELLOW, "! ");
                self.signed(&sign, 2, text)
            }
            Block::Pairs(pairs) => self.pairs(pairs),
            Block::Table(table) => {
                let layout = table::layout(table, self.table);
                if !table.caption.is_empty() {
                    self.wrapped(&table.caption, "", "")?;
                }
                match &layout.rows {
                    table::Rows::Lines(lines) => {
                        for (i, line) in lines.iter().enumerate() {
                            let line = if i < 2 { self.paint(DIM, line) } else { line.clone() };
                            self.line(&line)?;
                        }
                    }
                    table::Rows::List(items) => {
                        for (first, others) in items {
                            self.wrapped(first, "", "")?;
                            self.wrapped(others, "  ", "  ")?;
                        }
                    }
                }
                match layout.left_out.join(", ") {
                    heads if heads.is_empty() => Ok(()),
                    heads => self.wrapped(&format!("Columns left out: {heads}."), "", ""),
                }
            }
            Block::Findings(findings) => self.findings(findings),
            Block::Plot(plot) => {
                let title = self.paint(BOLD, &clean(&plot.title));
                self.line(&title)?;
                if self.details {
                    self.wrapped(&plot.description, "", "")?;
                }
                for line in plot::sketch(plot, self.width, self.color) {
                    self.line(&line)?;
                }
                Ok(())
            }
            Block::Flame(_) => Ok(()),
            Block::Links(l) => self.block(&Block::Table(l.table.clone())),
            Block::Pre(text) => {
                for line in clean(text).lines() {
                    self.line(&format!("    {line}"))?;
                }
                Ok(())
            }
        }
    }

    /// A paragraph that hangs from a sign of `columns` columns (which may be coloured).
    fn signed(&mut self, sign: &str, columns: usize, text: &str) -> io::Result<()> {
        let rest = " ".repeat(columns);
        let text = clean(text).replace('\n', " ");
        for (i, line) in wrap(&text, self.prose, &rest, &rest).into_iter().enumerate() {
            let head = if i == 0 { sign } else { &rest };
            self.line(&format!("{head}{}", line.get(columns..).unwrap_or_default()))?;
        }
        Ok(())
    }

    fn pairs(&mut self, pairs: &[(String, String)]) -> io::Result<()> {
        let keys = pairs.iter().map(|(k, _)| clean(k).width());
        let column = keys.max().unwrap_or(0).min(self.width / 2) + 2;
        for (key, value) in pairs {
            let key = clean(key).replace(['\n', '\t'], " ");
            let pad = " ".repeat(column.saturating_sub(key.width()).max(1));
            let key = self.paint(DIM, &key);
            self.signed(&format!("{key}{pad}"), column, value)?;
        }
        Ok(())
    }

    fn findings(&mut self, findings: &[Finding]) -> io::Result<()> {
        findings.iter().try_for_each(|f| self.finding(f))
    }

    fn finding(&mut self, f: &Finding) -> io::Result<()> {
        let (sign, color) = severity_style(f.severity);
        let head = self.paint(color, &format!("{sign} {:<12}", messages::severity(f.severity)));
        let text = messages::finding(f);
        let claim = match confidence_words(f) {
            Some(words) => format!("{} ({words})", text.claim),
            None => text.claim,
        };
        self.signed(&format!("{head} "), 15, &claim)?;
        // What is inconclusive says nothing without its reason.
        if !text.why.is_empty() && (self.details || f.severity == Severity::Inconclusive) {
            self.signed(&" ".repeat(15), 15, &text.why)?;
        }
        let shown = if self.details { text.evidence.len() } else { 0 };
        for line in text.evidence.iter().take(shown) {
            let mark = self.paint(DIM, "· ");
            self.signed(&format!("{}{mark}", " ".repeat(15)), 17, line)?;
        }
        let remedies = if self.details { text.remedies.len() } else { 1 };
        for t in text.remedies.iter().take(remedies) {
            let arrow = self.paint(BLUE, "→ ");
            self.signed(&format!("{}{arrow}", " ".repeat(15)), 17, t)?;
        }
        Ok(())
    }
}

/// Sign and colour of a severity; the signs differ without colour.
fn severity_style(v: Severity) -> (char, &'static str) {
    match v {
        Severity::Ok => ('✓', GREEN),
        Severity::Info => ('·', BLUE),
        Severity::Warning => ('!', YELLOW),
        Severity::Problem => ('✗', RED),
        Severity::Inconclusive => ('?', YELLOW),
    }
}

/// The confidence of a finding, where it is not high and the severity does not imply it.
pub(crate) fn confidence_words(f: &Finding) -> Option<&'static str> {
    match f.confidence {
        Confidence::High => None,
        Confidence::Medium => Some("medium confidence"),
        Confidence::Low if f.severity == Severity::Inconclusive => None,
        Confidence::Low => Some("low confidence"),
    }
}

#[cfg(test)]
mod tests;
