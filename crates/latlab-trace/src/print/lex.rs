//! Tokens of the C expressions in a `print fmt`.

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name.
    Name(String),
    /// An integer or character constant; true when it is unsigned by suffix or size.
    Number(i64, bool),
    /// A string literal, escapes replaced.
    Text(Vec<u8>),
    /// An operator or a bracket.
    Op(&'static str),
}

/// Longest first.
const OPS: [&str; 34] = [
    "=~", "<<=", ">>=", "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "[", "]",
    "{", "}", ",", "?", ":", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", ".",
];

/// All tokens; `None` when something is no C.
pub(crate) fn tokens(text: &str) -> Option<Vec<Token>> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut i = 0;
    while let Some(b) = bytes.get(i).copied() {
        match b {
            b' ' | b'\t' | b'\n' | b'\r' | b'\\' | b';' => i += 1,
            b'"' => {
                let end = closing(bytes, i + 1, b'"')?;
                out.push(Token::Text(crate::names::unescape(&bytes[i + 1..end])));
                i = end + 1;
            }
            b'\'' => {
                let end = closing(bytes, i + 1, b'\'')?;
                let value = crate::names::unescape(&bytes[i + 1..end]);
                out.push(Token::Number(i64::from(*value.first()?), false));
                i = end + 1;
            }
            b'0'..=b'9' => {
                let len = bytes[i..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
                out.push(number(&text[i..i + len])?);
                i += len;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => {
                let is_name = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_' || **b == b'$';
                let len = bytes[i..].iter().take_while(is_name).count();
                out.push(Token::Name(text[i..i + len].to_owned()));
                i += len;
            }
            _ => {
                let op = OPS.iter().find(|op| bytes[i..].starts_with(op.as_bytes()))?;
                out.push(Token::Op(op));
                i += op.len();
            }
        }
    }
    Some(out)
}

fn closing(bytes: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    while let Some(b) = bytes.get(at) {
        if *b == b'\\' {
            at += 2;
        } else if *b == quote {
            return Some(at);
        } else {
            at += 1;
        }
    }
    None
}

fn number(text: &str) -> Option<Token> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let suffix = &text[digits.len()..];
    let value = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16).ok()?
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8).ok()?
    } else {
        digits.parse().ok()?
    };
    let unsigned = suffix.contains(['u', 'U']) || value > i64::MAX as u64;
    Some(Token::Number(value as i64, unsigned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_is_cut_into_tokens() {
        let t = tokens(r#"REC->a[0x1fUL] >> 010, "x\n" , 'A'"#).unwrap();
        assert_eq!(t.len(), 12);
        assert_eq!(t[4], Token::Number(0x1f, true));
        assert_eq!(t[7], Token::Number(8, false));
        assert_eq!(t[9], Token::Text(b"x\n".to_vec()));
        assert_eq!(t[11], Token::Number(65, false));
        assert!(tokens("\"open").is_none());
        assert!(tokens("a @ b").is_none());
    }
}
