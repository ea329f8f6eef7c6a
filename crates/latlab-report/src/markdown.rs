//! A [`Doc`] as Markdown (CommonMark with GitHub's tables), for issues, merge requests and CI summaries.
//!
//! Plots are left out: Markdown has none. Text of a run cannot become markup: what has a meaning
//! in Markdown or HTML is escaped.

use crate::doc::{Block, Doc, Table};
use crate::messages;
use crate::text::clean;
use latlab_model::finding::Finding;
use std::io::{self, Write};

/// Writes a whole document.
///
/// # Errors
/// The writer's.
pub fn render(doc: &Doc, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "# {}\n", escape(&doc.title))?;
    for sentence in &doc.summary {
        writeln!(out, "- {}", escape(sentence))?;
    }
    for section in &doc.sections {
        writeln!(out, "\n## {}\n", escape(&section.title))?;
        section.blocks.iter().try_for_each(|b| block(b, out))?;
    }
    Ok(())
}

fn block(block: &Block, out: &mut impl Write) -> io::Result<()> {
    match block {
        Block::Text(text) => writeln!(out, "{}\n", escape(text)),
        Block::Heading(text) => writeln!(out, "### {}\n", escape(text)),
        Block::Warning(text) => writeln!(out, "> **Note:** {}\n", escape(text)),
        Block::Pairs(pairs) => {
            pairs
                .iter()
                .try_for_each(|(k, v)| writeln!(out, "- **{}**: {}", escape(k), escape(v)))?;
            writeln!(out)
        }
        Block::Table(t) => table(t, out),
        Block::Findings(all) => all.iter().try_for_each(|f| finding(f, out)),
        Block::Plot(_) | Block::Flame(_) => Ok(()),
        Block::Links(l) => table(&l.table, out),
        Block::Pre(text) => {
            clean(text).lines().try_for_each(|l| writeln!(out, "    {l}"))?;
            writeln!(out)
        }
    }
}

fn table(t: &Table, out: &mut impl Write) -> io::Result<()> {
    if !t.caption.is_empty() {
        writeln!(out, "{}\n", escape(&t.caption))?;
    }
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    writeln!(out, "{}", line(t.columns.iter().map(|c| escape(&c.head)).collect()))?;
    let rule = |right: bool| if right { "---:" } else { "---" }.to_owned();
    writeln!(out, "{}", line(t.columns.iter().map(|c| rule(c.right)).collect()))?;
    for row in &t.rows {
        writeln!(out, "{}", line(row.iter().map(|c| escape(c)).collect()))?;
    }
    writeln!(out)
}

fn finding(f: &Finding, out: &mut impl Write) -> io::Result<()> {
    let text = messages::finding(f);
    writeln!(out, "- {}", escape(&text.claim))?;
    for line in &text.evidence {
        writeln!(out, "  - {}", escape(line))?;
    }
    text.remedies.iter().try_for_each(|t| writeln!(out, "  - try: {}", escape(t)))
}

/// Text that stays text: on one line, without markup.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        match c {
            '\n' | '\t' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::{Column, Section};

    #[test]
    fn text_of_a_run_does_not_become_markup() {
        let table = Table {
            caption: "c".into(),
            columns: vec![Column::left("a|b"), Column::right("n")],
            rows: vec![vec!["<script>\n".into(), "1".into()]],
        };
        let doc = Doc {
            title: "*t*".into(),
            summary: vec!["one".into()],
            sections: vec![Section {
                id: "s".into(),
                title: "S".into(),
                blocks: vec![Block::Table(table)],
            }],
            ..Doc::default()
        };
        let mut out = Vec::new();
        render(&doc, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "# \\*t\\*\n\n- one\n\n## S\n\nc\n\n| a\\|b | n |\n| --- | ---: |\n| &lt;script>  | 1 |\n\n"
        );
    }
}
