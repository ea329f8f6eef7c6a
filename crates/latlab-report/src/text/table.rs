//! Tables in a terminal: columns as wide as their cells, words wrapped where the line is too short.

use super::{clean, wrap};
use crate::doc::Table;
use unicode_width::UnicodeWidthStr;

const GAP: &str = "  ";
/// A column of words is not squeezed below this.
const NARROWEST: usize = 12;

/// The lines of a table: head, rule, rows. Rows that do not fit have their widest columns of words wrapped.
pub(super) fn layout(table: &Table, width: usize) -> Vec<String> {
    let columns = table.columns.len().max(table.rows.iter().map(Vec::len).max().unwrap_or(0));
    let heads: Vec<String> = (0..columns)
        .map(|i| table.columns.get(i).map_or(String::new(), |c| cell(&c.head)))
        .collect();
    let rows: Vec<Vec<String>> = (table.rows.iter())
        .map(|r| (0..columns).map(|i| r.get(i).map_or(String::new(), |c| cell(c))).collect())
        .collect();
    let widths = fit(&natural(&heads, &rows), table, width);

    let mut lines = line(&heads, &widths, table);
    let rules: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
    lines.push(rules.join(GAP));
    if lines.len() > 2 {
        // A head of several lines: the caller paints the first two, so keep it to one string.
        let rule = lines.pop().unwrap_or_default();
        lines = vec![lines.join("\n"), rule];
    }
    lines.extend(rows.iter().flat_map(|r| line(r, &widths, table)));
    lines
}

fn cell(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

fn natural(heads: &[String], rows: &[Vec<String>]) -> Vec<usize> {
    let widest = |i: usize| rows.iter().map(|r| r[i].width()).max().unwrap_or(0);
    heads.iter().enumerate().map(|(i, h)| h.width().max(widest(i))).collect()
}

/// Takes columns off the widest column of words until the line fits or nothing more can be squeezed.
fn fit(natural: &[usize], table: &Table, width: usize) -> Vec<usize> {
    let mut widths = natural.to_vec();
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        let words = |i: &usize| table.columns.get(*i).is_none_or(|c| !c.right);
        let widest = (0..widths.len()).filter(words).max_by_key(|&i| widths[i]);
        match widest.filter(|&i| widths[i] > NARROWEST) {
            Some(i) => widths[i] -= 1,
            None => break,
        }
    }
    widths
}

/// One row, several lines where a cell is wrapped.
fn line(cells: &[String], widths: &[usize], table: &Table) -> Vec<String> {
    let wrapped: Vec<Vec<String>> = cells
        .iter()
        .zip(widths)
        .map(|(c, &w)| {
            if c.width() <= w {
                vec![c.clone()]
            } else {
                wrap(c, w.max(1), "", "").into_iter().map(|l| l.trim_end().to_owned()).collect()
            }
        })
        .collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(1).max(1);
    (0..height)
        .map(|k| {
            let parts: Vec<String> = wrapped
                .iter()
                .enumerate()
                .map(|(i, lines)| {
                    let text = lines.get(k).map_or("", String::as_str);
                    let pad = " ".repeat(widths[i].saturating_sub(text.width()));
                    if table.columns.get(i).is_some_and(|c| c.right) {
                        format!("{pad}{text}")
                    } else {
                        format!("{text}{pad}")
                    }
                })
                .collect();
            parts.join(GAP).trim_end().to_owned()
        })
        .collect()
}
