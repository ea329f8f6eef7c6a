//! Tables in a terminal: columns as wide as their cells. Where the line is too short, optional columns
//! are left out; then words of the last column are wrapped, if it stays wide. A table that is still
//! too wide becomes a list.

use super::clean;
use super::wrap::wrap;
use crate::doc::Table;
use unicode_width::UnicodeWidthStr;

const GAP: &str = "  ";
/// A table whose columns of words are all narrower than this does not become a list.
const WORDS: usize = 16;
/// The last column is wrapped where the others leave it so much.
const PARAGRAPH: usize = 36;

/// A table laid out.
pub(super) struct Layout {
    /// The rows.
    pub(super) rows: Rows,
    /// Heads of the columns that the line has no room for.
    pub(super) left_out: Vec<String>,
}

/// The rows of a table.
pub(super) enum Rows {
    /// Head, rule, and a line for each row.
    Lines(Vec<String>),
    /// The first cell of each row, and the others behind their heads.
    List(Vec<(String, String)>),
}

/// Lays a table out in `width` columns.
pub(super) fn layout(table: &Table, width: usize) -> Layout {
    let columns = table.columns.len().max(table.rows.iter().map(Vec::len).max().unwrap_or(0));
    let heads: Vec<String> = (0..columns)
        .map(|i| table.columns.get(i).map_or(String::new(), |c| cell(&c.head)))
        .collect();
    let rows: Vec<Vec<String>> = (table.rows.iter())
        .map(|r| (0..columns).map(|i| r.get(i).map_or(String::new(), |c| cell(c))).collect())
        .collect();
    let (mut widths, shown) = fit(&heads, &rows, table, width);
    let left_out: Vec<String> =
        (0..columns).filter(|i| !shown.contains(i)).map(|i| heads[i].clone()).collect();
    let words = |i: usize, width: usize| {
        table.columns.get(i).is_none_or(|c| !c.right && !c.whole) && width > WORDS
    };
    let over = needed(&widths, &shown).saturating_sub(width);
    let last = shown.last().copied().unwrap_or(0);
    // The board build, which is limited in size, prints lists.
    let widest = if cfg!(feature = "host") { widths.get(last).copied().unwrap_or(0) } else { 0 };
    let available = widest.saturating_sub(over);
    let paragraphs = over > 0 && available >= PARAGRAPH && words(last, widest);
    if paragraphs {
        widths[last] = available;
    } else if over > 0 && shown.iter().any(|&i| words(i, widths[i])) {
        let list = rows.iter().map(|row| item(&heads, row, &shown)).collect();
        return Layout { rows: Rows::List(list), left_out };
    }
    let line = |cells: &[String]| line(cells, &widths, &shown, table);
    let rules: Vec<String> = shown.iter().map(|&i| "─".repeat(widths[i])).collect();
    let mut lines = vec![line(&heads), rules.join(GAP)];
    for row in &rows {
        if !paragraphs {
            lines.push(line(row));
            continue;
        }
        let mut row = row.clone();
        let text = std::mem::take(&mut row[last]);
        for part in wrap(&text, available, "", "") {
            row[last] = part.into_owned();
            lines.push(line(&row));
            row.iter_mut().for_each(String::clear);
        }
    }
    Layout { rows: Rows::Lines(lines), left_out }
}

/// A row of a list: its first cell, and the others that are not empty with their heads.
fn item(heads: &[String], row: &[String], shown: &[usize]) -> (String, String) {
    let mut cells = shown.iter().map(|&i| (heads[i].as_str(), row[i].as_str()));
    let first = cells.next().map_or("", |(_, cell)| cell).to_owned();
    let others = cells.filter(|(_, cell)| !cell.is_empty()).map(|(head, cell)| match head {
        "" => cell.to_owned(),
        head => format!("{head}: {cell}"),
    });
    (first, others.collect::<Vec<_>>().join("; "))
}

/// A cell is one paragraph.
fn cell(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

/// Columns of the widest cell of column `i`.
fn widest(heads: &[String], rows: &[Vec<String>], i: usize) -> usize {
    rows.iter().map(|r| r[i].width()).max().unwrap_or(0).max(heads[i].width())
}

/// Columns that a line takes.
fn needed(widths: &[usize], shown: &[usize]) -> usize {
    shown.iter().map(|&i| widths[i]).sum::<usize>() + GAP.len() * shown.len().saturating_sub(1)
}

/// Widths of all columns, and which of them are shown: optional ones go where the line is too short.
fn fit(
    heads: &[String],
    rows: &[Vec<String>],
    table: &Table,
    width: usize,
) -> (Vec<usize>, Vec<usize>) {
    let widths: Vec<usize> = (0..heads.len()).map(|i| widest(heads, rows, i)).collect();
    let mut shown: Vec<usize> = (0..heads.len()).collect();
    while needed(&widths, &shown) > width {
        let optional = |i: usize| table.columns.get(i).map_or(0, |c| c.optional);
        // Of those that are equally optional, the rightmost.
        let last = (0..shown.len()).max_by_key(|&at| optional(shown[at]));
        match last.filter(|&at| optional(shown[at]) > 0) {
            Some(at) => shown.remove(at),
            None => break,
        };
    }
    (widths, shown)
}

/// One row of the columns `shown`.
fn line(cells: &[String], widths: &[usize], shown: &[usize], table: &Table) -> String {
    let padded = |&i: &usize| {
        let text = &cells[i];
        let pad = " ".repeat(widths[i].saturating_sub(text.width()));
        match table.columns.get(i).is_some_and(|c| c.right) {
            true => format!("{pad}{text}"),
            false => format!("{text}{pad}"),
        }
    };
    shown.iter().map(padded).collect::<Vec<_>>().join(GAP).trim_end().to_owned()
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

    fn lines(table: &Table, width: usize) -> Vec<String> {
        match layout(table, width).rows {
            Rows::Lines(lines) => lines,
            Rows::List(list) => panic!("a list: {list:?}"),
        }
    }

    #[test]
    fn a_table_that_is_too_wide_is_a_list() {
        assert_eq!(lines(&table(), 200)[2], table().rows[0].join(GAP));
        let Rows::List(list) = layout(&table(), 64).rows else { panic!("64 columns") };
        let others = "command: wakeup -p90 -i 1000 --load vm:128M; \
                      path: nightly/2026-11-22/0300-beaglebone-wakeup";
        assert_eq!(list, [("0123456789abcdef".to_owned(), others.to_owned())]);
        // What is to stay whole makes the line too long.
        let mut whole = table();
        whole.columns = ["run", "command", "path"].map(Column::whole).into();
        assert_eq!(lines(&whole, 44)[2], table().rows[0].join(GAP));
    }

    #[test]
    fn a_last_column_of_words_is_wrapped_where_it_stays_wide() {
        let mut table = table();
        table.columns.pop();
        table.rows[0].pop();
        table.rows[0][1] =
            "wake-up latency of a task on each CPU while the others allocate memory".into();
        let shown = lines(&table, 60);
        assert_eq!(shown[2], "0123456789abcdef  wake-up latency of a task on each CPU");
        assert_eq!(shown[3], "                  while the others allocate memory");
        assert_eq!(shown.len(), 4);
        assert!(matches!(layout(&table, 50).rows, Rows::List(_)), "32 columns are too narrow");
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
        assert_eq!(lines(&table, 50)[2], "0123456789abcdef");
    }
}
