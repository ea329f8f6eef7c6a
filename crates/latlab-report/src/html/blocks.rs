//! The blocks of a document as HTML elements.

use super::flame;
use crate::doc::{Axis, Block, Links, Plot, Scale, Section, Series, SeriesKind, Table};
use crate::json;
use crate::messages;
use crate::plot::scale::{format_bytes, format_number};
use crate::plot::svg::{self, escape};
use crate::text::confidence_words;
use latlab_model::finding::{Finding, Severity};
use std::io::{self, Write};

/// Rows of a plot's data that are listed below it; its JSON has the rest.
const ROWS_MAX: usize = 200;

/// A section that opens and closes without a script; what it has is told beside its title.
pub(super) fn section(
    s: &Section,
    open: bool,
    script: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let (id, title) = (escape(&s.id), escape(&s.title));
    let open = if open { " open=\"\"" } else { "" };
    writeln!(
        out,
        "<details class=\"section\" id=\"{id}\"{open}>\n<summary><h2>{title}</h2> <small>{}</small></summary>",
        content(s)
    )?;
    s.blocks.iter().try_for_each(|b| block(b, script, out))?;
    out.write_all(b"</details>\n")
}

/// `2 tables, 1 plot`.
fn content(s: &Section) -> String {
    let count = |is: fn(&Block) -> usize| s.blocks.iter().map(is).sum::<usize>();
    let counted = [
        (count(|b| usize::from(matches!(b, Block::Warning(_)))), "warning"),
        (count(|b| usize::from(matches!(b, Block::Plot(_)))), "plot"),
        (count(|b| usize::from(matches!(b, Block::Table(_) | Block::Links(_)))), "table"),
        (count(|b| if let Block::Findings(f) = b { f.len() } else { 0 }), "finding"),
    ];
    let some = counted.iter().filter(|c| c.0 > 0);
    let words = some.map(|(n, name)| format!("{n} {name}{}", if *n == 1 { "" } else { "s" }));
    words.collect::<Vec<_>>().join(", ")
}

/// The class of a severity, and its sign for those who see no colour.
pub(super) fn verdict(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Ok => ("good", "✓"),
        Severity::Info => ("note", "·"),
        Severity::Warning => ("unsure", "!"),
        Severity::Problem => ("bad", "✗"),
        Severity::Inconclusive => ("unsure", "?"),
    }
}

/// A block; with a script, plots carry their data for it.
pub(super) fn block(b: &Block, script: bool, out: &mut impl Write) -> io::Result<()> {
    match b {
        Block::Text(text) => paragraphs(text, out),
        Block::Heading(text) => writeln!(out, "<h3>{}</h3>", escape(text)),
        Block::Warning(text) => {
            writeln!(out, "<p class=\"warning\"><strong>Warning.</strong> {}</p>", escape(text))
        }
        Block::Pairs(pairs) => {
            out.write_all(b"<dl class=\"pairs\">\n")?;
            for (key, value) in pairs {
                writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(key), escape(value))?;
            }
            out.write_all(b"</dl>\n")
        }
        Block::Table(t) => table(t, None, out),
        Block::Links(l) => table(&l.table, Some(l), out),
        Block::Findings(findings) => {
            out.write_all(b"<ul class=\"findings\">\n")?;
            findings.iter().try_for_each(|f| finding(f, out))?;
            out.write_all(b"</ul>\n")
        }
        Block::Plot(p) => figure(p, script, out),
        Block::Flame(f) => flame::figure(f, out),
        Block::Pre(text) => {
            writeln!(out, "<pre tabindex=\"0\">{}</pre>", escape(text))
        }
    }
}

fn paragraphs(text: &str, out: &mut impl Write) -> io::Result<()> {
    let lines = text.lines().filter(|l| !l.trim().is_empty());
    lines.into_iter().try_for_each(|l| writeln!(out, "<p>{}</p>", escape(l)))
}

/// A table in a box that scrolls by itself, by keyboard too, where the page is narrow.
fn table(t: &Table, links: Option<&Links>, out: &mut impl Write) -> io::Result<()> {
    let caption = escape(&t.caption);
    write!(out, "<div class=\"scroll\" role=\"region\" tabindex=\"0\"")?;
    let name = if caption.is_empty() { "Table" } else { &caption };
    writeln!(out, " aria-label=\"{name}\"><table>")?;
    if !caption.is_empty() {
        writeln!(out, "<caption>{caption}</caption>")?;
    }
    let class = |i: usize| {
        if t.columns.get(i).is_some_and(|c| c.right) { " class=\"n\"" } else { "" }
    };
    out.write_all(b"<thead><tr>")?;
    for (i, c) in t.columns.iter().enumerate() {
        write!(out, "<th scope=\"col\"{}>{}</th>", class(i), escape(&c.head))?;
    }
    out.write_all(b"</tr></thead>\n<tbody>\n")?;
    for (at, row) in t.rows.iter().enumerate() {
        let targets = links.and_then(|l| l.targets.get(at));
        out.write_all(b"<tr>")?;
        for (i, cell) in row.iter().enumerate() {
            let (tag, scope) = if i == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
            let text = escape(cell);
            let text = match targets.and_then(|t| t.get(i)?.as_ref()) {
                Some(file) => format!("<a href=\"{}\">{text}</a>", escape(file)),
                None => text,
            };
            write!(out, "<{tag}{scope}{}>{text}</{tag}>", class(i))?;
        }
        out.write_all(b"</tr>\n")?;
    }
    out.write_all(b"</tbody></table></div>\n")
}

fn finding(f: &Finding, out: &mut impl Write) -> io::Result<()> {
    let (class, sign) = verdict(f.severity);
    let (name, text) = (messages::severity(f.severity), messages::finding(f));
    write!(
        out,
        "<li class=\"finding {class}\"><p class=\"verdict\"><span aria-hidden=\"true\">{sign}</span> {name}</p>\
         <div><p class=\"claim\">{}",
        escape(&text.claim)
    )?;
    if let Some(words) = confidence_words(f) {
        write!(out, " <span class=\"confidence\">({words})</span>")?;
    }
    out.write_all(b"</p>")?;
    if !text.why.is_empty() {
        write!(out, "<p>{}</p>", escape(&text.why))?;
    }
    if !text.evidence.is_empty() {
        out.write_all(b"<ul class=\"evidence\">")?;
        for line in &text.evidence {
            write!(out, "<li>{}</li>", escape(line))?;
        }
        out.write_all(b"</ul>")?;
    }
    if !text.remedies.is_empty() {
        out.write_all(b"<p class=\"try\">Try:</p><ul class=\"try\">")?;
        for t in &text.remedies {
            write!(out, "<li>{}</li>", escape(t))?;
        }
        out.write_all(b"</ul>")?;
    }
    out.write_all(b"</div></li>\n")
}

/// A plot: static drawing, its description, its data as a table, and the same for the script.
fn figure(p: &Plot, script: bool, out: &mut impl Write) -> io::Result<()> {
    let id = escape(&p.id);
    writeln!(out, "<figure class=\"plot\" id=\"{id}\">")?;
    write!(out, "<figcaption><h3>{}</h3>", escape(&p.title))?;
    if !p.description.is_empty() {
        write!(out, "<p>{}</p>", escape(&p.description))?;
    }
    writeln!(out, "</figcaption>")?;
    out.write_all(b"<div class=\"drawing\">")?;
    out.write_all(svg::svg(p, svg::Use::InPage).as_bytes())?;
    out.write_all(b"</div>\n")?;
    if !script {
        return out.write_all(b"</figure>\n");
    }
    data_table(p, out)?;
    let data = json::in_page(&json::plot(p));
    writeln!(out, "<script type=\"application/json\">{data}</script>\n</figure>")
}

fn data_table(p: &Plot, out: &mut impl Write) -> io::Result<()> {
    let all: usize = p.series.iter().map(|s| s.points.len()).sum();
    write!(out, "<details><summary>Data of this plot</summary>\n<table>")?;
    write!(out, "<caption>{}", escape(&p.title))?;
    if all > ROWS_MAX {
        write!(out, ": the first {ROWS_MAX} of {all} points")?;
    }
    out.write_all(b"</caption>\n<thead><tr>")?;
    let several = p.series.len() > 1;
    let heat = p.series.iter().any(|s| s.kind == SeriesKind::Heat);
    let spans = p.series.iter().any(|s| s.kind == SeriesKind::Spans);
    let intervals = p.series.iter().any(|s| !s.intervals.is_empty());
    let mut heads = Vec::new();
    let axis =
        |a: &Axis, other: &str| if a.label.is_empty() { other.into() } else { a.label.clone() };
    heads.extend(several.then(|| "series".to_owned()));
    heads.push(if spans { format!("{}: from", axis(&p.x, "x")) } else { axis(&p.x, "x") });
    heads.extend(spans.then(|| "to".to_owned()));
    heads.push(axis(&p.y, if spans { "lane" } else { "y" }));
    heads.extend(heat.then(|| "value".to_owned()));
    heads.extend(intervals.then(|| "interval".to_owned()));
    for h in &heads {
        write!(out, "<th scope=\"col\">{}</th>", escape(h))?;
    }
    out.write_all(b"</tr></thead>\n<tbody>\n")?;
    let each = p.series.iter().flat_map(|s| (0..s.points.len()).map(move |i| (s, i)));
    for (s, i) in each.take(ROWS_MAX) {
        let mut cells = Vec::new();
        cells.extend(several.then(|| s.name.clone()));
        cells.push(value(&p.x, s.points[i].0));
        cells.extend(spans.then(|| s.values.get(i).map_or(String::new(), |v| value(&p.x, *v))));
        cells.push(value(&p.y, s.points[i].1));
        cells.extend(heat.then(|| s.values.get(i).map_or(String::new(), |v| format_number(*v))));
        cells.extend(intervals.then(|| interval(p, s, i)));
        let row: String = cells.iter().map(|c| format!("<td>{}</td>", escape(c))).collect();
        writeln!(out, "<tr>{row}</tr>")?;
    }
    out.write_all(b"</tbody></table></details>\n")
}

fn interval(p: &Plot, s: &Series, i: usize) -> String {
    let both = s.intervals.get(i);
    both.map_or(String::new(), |&(a, b)| format!("{} to {}", value(&p.y, a), value(&p.y, b)))
}

fn value(axis: &Axis, v: f64) -> String {
    match axis.scale {
        Scale::Category if v >= 0.0 => {
            axis.categories.get(v as usize).cloned().unwrap_or_else(|| format_number(v))
        }
        _ if axis.bytes => format_bytes(v),
        _ => format_number(v),
    }
}
