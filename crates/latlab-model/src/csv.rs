//! Text cells of CSV (RFC 4180).

use crate::control::clean;
use std::borrow::Cow;

/// A cell with text: quoted where it must be, without control characters, and no formula.
///
/// A spreadsheet computes a cell that begins with one of `= + - @`, a tab or a line end, their
/// full-width forms among them. A cell begins with the text, behind a line end, and, where the spreadsheet separates by
/// semicolons or tabs, behind those: each formula there gets an apostrophe in front, and the cell is quoted.
/// Source: OWASP, CSV Injection. Numbers are written as they are, negative ones too.
pub fn cell(text: &str) -> Cow<'_, str> {
    const QUOTE: char = '"';
    let text = clean(text);
    let begins_formula = |c| matches!(c, '=' | '+' | '-' | '@' | '\t' | '＝' | '＋' | '－' | '＠');
    let separates = |c| matches!(c, ';' | '\t' | '\n' | '\r');
    let is_special = |c| separates(c) || c == ',' || c == QUOTE;
    if !text.contains(is_special) && !text.starts_with(begins_formula) {
        return text;
    }
    let mut quoted = String::with_capacity(text.len() + 8);
    quoted.push(QUOTE);
    let mut begins = true;
    for c in text.chars() {
        if begins && (begins_formula(c) || c == '\n') {
            quoted.push('\'');
        }
        if c == QUOTE {
            quoted.push(QUOTE);
        }
        quoted.push(c);
        // A quote may end a cell where another character separates, and blanks are skipped.
        begins = separates(c) || (begins && (c == QUOTE || c.is_whitespace()));
    }
    quoted.push(QUOTE);
    Cow::Owned(quoted)
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(cell("a b"), "a b");
        assert_eq!(cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(cell("a\nb"), "\"a\nb\"");
    }

    #[test]
    fn no_text_is_a_formula() {
        assert_eq!(cell("=cmd|' /C calc'!A0"), "\"'=cmd|' /C calc'!A0\"");
        for first in ["+", "-", "@", "\t", "\n", "＝"] {
            assert_eq!(cell(&format!("{first}1+\"2\"")), format!("\"'{first}1+\"\"2\"\"\""));
        }
        // A carriage return and an escape sequence are none after cleaning.
        assert_eq!(cell("\r=1"), "␍=1");
        assert_eq!(cell("\x1b]0;x\x07"), "\"␛]0;x␇\"");
        assert_eq!(cell("a=1 b=-2"), "a=1 b=-2");
        // In a spreadsheet whose cells are separated by semicolons or tabs, whatever the quotes.
        for separator in [";", "\t", "\n", "; ", ";\u{a0}"] {
            for formula in ["=HYPERLINK(A1)", "+1", "-1", "@x", "\t=1", "＝1"] {
                let written = cell(&format!("x{separator}{formula}")).into_owned();
                assert_eq!(written.replace('\'', ""), format!("\"x{separator}{formula}\""));
                assert!(written.contains(&format!("{separator}'{formula}")) || formula == "\t=1");
                assert!(!written.contains(&format!("{separator}{formula}")), "{written}");
            }
        }
        assert_eq!(cell("x;\"=1\""), "\"x;\"\"'=1\"\"\"");
        assert_eq!(cell("x;y"), "\"x;y\"");
        assert_eq!(cell("prio, -1"), "\"prio, -1\"");
    }
}
