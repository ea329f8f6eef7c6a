//! Tables in a terminal: columns as wide as their cells, words wrapped where the line is too short.
//!
//! A cell is broken at spaces, and behind `/` and `,` of a path or a list. Only when that is not
//! enough are words themselves broken.

use super::clean::clean;
use crate::doc::Table;
use textwrap::core::Word;
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
    let widths = fit(&heads, &rows, table, width);

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

/// The widest that `of` says of any cell of column `i`.
fn widest(heads: &[String], rows: &[Vec<String>], i: usize, of: fn(&str) -> usize) -> usize {
    rows.iter().map(|r| of(&r[i])).max().unwrap_or(0).max(of(&heads[i]))
}

/// Takes from the widest column of words until the line fits: first without breaking a word, then
/// with it, until nothing more can be squeezed.
fn fit(heads: &[String], rows: &[Vec<String>], table: &Table, width: usize) -> Vec<usize> {
    let each = |of| (0..heads.len()).map(|i| widest(heads, rows, i, of)).collect::<Vec<usize>>();
    let mut widths: Vec<usize> = each(UnicodeWidthStr::width);
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    let least = each(|text| pieces(text).map(|w| w.word.width()).max().unwrap_or(0));
    let narrowest = vec![0; widths.len()];
    for least in [least, narrowest] {
        while widths.iter().sum::<usize>() + gaps > width {
            let gives = |i: &usize| {
                table.columns.get(*i).is_none_or(|c| !c.right && !c.whole)
                    && widths[*i] > least[*i].max(NARROWEST)
            };
            let Some(i) = (0..widths.len()).filter(gives).max_by_key(|&i| widths[i]) else { break };
            widths[i] -= 1;
        }
    }
    widths
}

/// What a cell is not broken within.
fn pieces(text: &str) -> impl Iterator<Item = Word<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.find([' ', '/', ',']).map_or(rest.len(), |at| {
            // Spaces go with the piece before them.
            let more = rest[at + 1..].len() - rest[at + 1..].trim_start_matches(' ').len();
            at + 1 + more
        });
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then(|| Word::from(piece))
    })
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let options = textwrap::Options::new(width)
        .word_separator(textwrap::WordSeparator::Custom(|line| Box::new(pieces(line))))
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).into_iter().map(|l| l.trim_end().to_owned()).collect()
}

/// One row, several lines where a cell is wrapped.
fn line(cells: &[String], widths: &[usize], table: &Table) -> Vec<String> {
    let wrapped: Vec<Vec<String>> = cells
        .iter()
        .zip(widths)
        .map(|(c, &w)| if c.width() <= w { vec![c.clone()] } else { wrap(c, w.max(1)) })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::Column;

    fn table() -> Table {
        Table {
            columns: vec![Column::left("run"), Column::left("command"), Column::left("path")],
            rows: vec![vec![
                "0123456789abcdef".into(),
                "wakeup -p90 -i 1000 --load vm:128M".into(),
                "nightly/2026-11-22/0300-beaglebone-wakeup".into(),
            ]],
            ..Table::default()
        }
    }

    #[test]
    fn paths_are_broken_at_slashes_and_names_not_at_all() {
        let lines = layout(&table(), 64);
        assert_eq!(
            lines[2..],
            [
                "0123456789abcdef  wakeup -p90 -i 1000     nightly/2026-11-22/",
                "                  --load vm:128M          0300-beaglebone-wakeup",
            ]
        );
        assert!(lines.iter().all(|l| l.width() <= 64), "{lines:?}");
        // Without the room for it, words are broken all the same; nothing is lost.
        let narrow = layout(&table(), 44);
        assert!(narrow.iter().all(|l| l.width() <= 44), "{narrow:?}");
        let text: String = narrow[2..].concat().split_whitespace().collect();
        assert!(text.len() >= 80, "{text}");
        assert_eq!(layout(&table(), 200)[2], table().rows[0].join(GAP));
        // What is to stay whole makes the line too long.
        let mut whole = table();
        whole.columns = ["run", "command", "path"].map(Column::whole).into();
        assert_eq!(layout(&whole, 44)[2], table().rows[0].join(GAP));
    }

    #[test]
    fn pieces_are_the_text() {
        for text in ["", " ", "a/b, c  d//e ,", "/", "µ/日本, ü"] {
            let back: String =
                pieces(text).map(|w| format!("{}{}", w.word, w.whitespace)).collect();
            assert_eq!(back, text);
        }
    }
}
