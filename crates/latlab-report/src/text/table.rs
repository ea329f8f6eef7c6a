//! Tables in a terminal: columns as wide as their cells, words wrapped where the line is too short.
//!
//! A cell is broken at spaces, and behind `/` and `,` of a path or a list. Only when that is not
//! enough are words themselves broken.

use super::clean::clean;
use crate::doc::Table;
use textwrap::core::Word;
use unicode_width::UnicodeWidthStr;

const GAP: &str = "  ";
/// A column of words is not wrapped to less than this: narrower ones are hard to read.
const NARROWEST: usize = 16;

/// A table laid out.
pub(super) struct Layout {
    /// Head (of one line or several), rule, rows.
    pub(super) lines: Vec<String>,
    /// Heads of the columns that the line has no room for.
    pub(super) left_out: Vec<String>,
}

/// Lays a table out in `width` columns. Where the line is too short, optional columns are left out
/// first, then the widest columns of words are wrapped, but never to less than [`NARROWEST`].
pub(super) fn layout(table: &Table, width: usize) -> Layout {
    let columns = table.columns.len().max(table.rows.iter().map(Vec::len).max().unwrap_or(0));
    let heads: Vec<String> = (0..columns)
        .map(|i| table.columns.get(i).map_or(String::new(), |c| cell(&c.head)))
        .collect();
    let rows: Vec<Vec<String>> = (table.rows.iter())
        .map(|r| (0..columns).map(|i| r.get(i).map_or(String::new(), |c| cell(c))).collect())
        .collect();
    let (widths, shown) = fit(&heads, &rows, table, width);
    let line = |cells: &[String]| line(cells, &widths, &shown, table);

    let rules: Vec<String> = shown.iter().map(|&i| "─".repeat(widths[i])).collect();
    let mut lines = vec![line(&heads).join("\n"), rules.join(GAP)];
    lines.extend(rows.iter().flat_map(|r| line(r)));
    let left_out = (0..columns).filter(|i| !shown.contains(i)).map(|i| heads[i].clone());
    Layout { lines, left_out: left_out.collect() }
}

/// A cell is one paragraph.
fn cell(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

/// The widest that `of` says of any cell of column `i`.
fn widest(heads: &[String], rows: &[Vec<String>], i: usize, of: fn(&str) -> usize) -> usize {
    rows.iter().map(|r| of(&r[i])).max().unwrap_or(0).max(of(&heads[i]))
}

/// Widths of all columns, and which of them are shown. Optional columns go first; then the widest
/// column of words gives until the line fits, first without breaking a word, then with it.
fn fit(
    heads: &[String],
    rows: &[Vec<String>],
    table: &Table,
    width: usize,
) -> (Vec<usize>, Vec<usize>) {
    let each = |of| (0..heads.len()).map(|i| widest(heads, rows, i, of)).collect::<Vec<usize>>();
    let mut widths: Vec<usize> = each(UnicodeWidthStr::width);
    let least = each(|text| pieces(text).map(|w| w.word.width()).max().unwrap_or(0));
    let mut shown: Vec<usize> = (0..heads.len()).collect();
    let needed = |widths: &[usize], shown: &[usize]| {
        shown.iter().map(|&i| widths[i]).sum::<usize>() + GAP.len() * shown.len().saturating_sub(1)
    };
    while needed(&widths, &shown) > width {
        let optional = |i: usize| table.columns.get(i).map_or(0, |c| c.optional);
        // Of those that are equally optional, the rightmost.
        let last = (0..shown.len()).max_by_key(|&at| optional(shown[at]));
        match last.filter(|&at| optional(shown[at]) > 0) {
            Some(at) => shown.remove(at),
            None => break,
        };
    }
    for least in [least, vec![0; widths.len()]] {
        while needed(&widths, &shown) > width {
            let gives = |i: &usize| {
                table.columns.get(*i).is_none_or(|c| !c.right && !c.whole)
                    && widths[*i] > least[*i].max(NARROWEST)
            };
            let Some(i) = shown.iter().copied().filter(gives).max_by_key(|&i| widths[i]) else {
                break;
            };
            widths[i] -= 1;
        }
    }
    (widths, shown)
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

/// One row of the columns `shown`, several lines where a cell is wrapped.
fn line(cells: &[String], widths: &[usize], shown: &[usize], table: &Table) -> Vec<String> {
    let lines = |&i: &usize| match (&cells[i], widths[i]) {
        (cell, w) if cell.width() <= w => vec![cell.clone()],
        (cell, w) => wrap(cell, w.max(1)),
    };
    let wrapped: Vec<Vec<String>> = shown.iter().map(lines).collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let padded = |(&i, lines): (&usize, &Vec<String>), k: usize| {
        let text = lines.get(k).map_or("", String::as_str);
        let pad = " ".repeat(widths[i].saturating_sub(text.width()));
        match table.columns.get(i).is_some_and(|c| c.right) {
            true => format!("{pad}{text}"),
            false => format!("{text}{pad}"),
        }
    };
    (0..height)
        .map(|k| {
            let parts: Vec<String> = shown.iter().zip(&wrapped).map(|c| padded(c, k)).collect();
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
        let lines = layout(&table(), 64).lines;
        assert_eq!(
            lines[2..],
            [
                "0123456789abcdef  wakeup -p90 -i 1000     nightly/2026-11-22/",
                "                  --load vm:128M          0300-beaglebone-wakeup",
            ]
        );
        assert!(lines.iter().all(|l| l.width() <= 64), "{lines:?}");
        // Without the room for it, words are broken all the same; nothing is lost.
        let narrow = layout(&table(), 60).lines;
        assert!(narrow.iter().all(|l| l.width() <= 60), "{narrow:?}");
        let text: String = narrow[2..].concat().split_whitespace().collect();
        assert!(text.len() >= 80, "{text}");
        assert_eq!(layout(&table(), 200).lines[2], table().rows[0].join(GAP));
        // What is to stay whole makes the line too long.
        let mut whole = table();
        whole.columns = ["run", "command", "path"].map(Column::whole).into();
        assert_eq!(layout(&whole, 44).lines[2], table().rows[0].join(GAP));
    }

    #[test]
    fn optional_columns_go_first_and_what_is_left_out_is_named() {
        let mut table = table();
        table.columns[1] = Column::left("command").optional(1);
        table.columns[2] = Column::left("path").optional(2);
        let heads = |width| layout(&table, width).left_out;
        assert!(heads(200).is_empty());
        assert_eq!(heads(64), ["path"]);
        assert_eq!(heads(50), ["command", "path"]);
        assert_eq!(layout(&table, 50).lines[2], "0123456789abcdef");
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
