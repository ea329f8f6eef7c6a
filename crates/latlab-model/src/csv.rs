//! Text cells of CSV (RFC 4180).

use crate::control::clean;
use std::borrow::Cow;

/// A cell with text: quoted where it must be, without control characters, and no formula.
///
/// A spreadsheet computes a cell that begins with one of `= + - @`, a tab or a line end, their
/// full-width forms among them; such a cell gets an apostrophe in front and is quoted. Source: OWASP, CSV Injection.
/// Numbers are written as they are, negative ones too.
pub fn cell(text: &str) -> Cow<'_, str> {
    const FORMULA: &[char] = &['=', '+', '-', '@', '\t', '\n', '＝', '＋', '－', '＠'];
    let text = clean(text);
    let formula = text.starts_with(FORMULA);
    if !formula && !text.contains([',', '"', '\n', '\r']) {
        return text;
    }
    let apostrophe = if formula { "'" } else { "" };
    Cow::Owned(format!("\"{apostrophe}{}\"", text.replace('"', "\"\"")))
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
        assert_eq!(cell("\x1b]0;x\x07"), "␛]0;x␇");
        assert_eq!(cell("a=1 b=-2"), "a=1 b=-2");
    }
}
