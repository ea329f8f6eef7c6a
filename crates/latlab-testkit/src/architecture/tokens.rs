//! Paths in tokens that syn does not parse: arguments and bodies of macros, attributes.

use super::written::Written;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path among tokens.
pub(super) struct Found {
    pub path: Written,
    /// Parentheses follow.
    pub call: bool,
}

/// Every path and every single name in the tokens, those in groups included.
///
/// Left out are fields and methods (after a dot), lifetimes, variables of macros and names of
/// functions being defined. The leaves of `path::{…}` are found as in a `use`.
pub(super) fn paths(tokens: TokenStream) -> Vec<Found> {
    let mut out = Vec::new();
    scan(tokens, &mut out);
    out
}

fn scan(tokens: TokenStream, out: &mut Vec<Found>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                scan(group.stream(), out);
                at += 1;
            }
            TokenTree::Ident(_) => {
                let begin = at;
                let prefix =
                    Written { absolute: absolute(&tokens[..at]), segments: vec![], line: 0 };
                let mut found = Vec::new();
                at = path(&tokens, at, prefix, &mut found);
                if starts_path(&tokens[..begin], &tokens[begin]) {
                    out.append(&mut found);
                }
            }
            _ => at += 1,
        }
    }
}

/// Reads the path that begins at `at`; returns the place behind it.
fn path(tokens: &[TokenTree], mut at: usize, mut path: Written, out: &mut Vec<Found>) -> usize {
    while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
        path.segments.push(ident.to_string());
        path.line = ident.span().start().line;
        at += 1;
        if !(is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')) {
            break;
        }
        match tokens.get(at + 2) {
            Some(TokenTree::Ident(_)) => at += 2,
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                branches(group.stream(), &path, out);
                return at + 3;
            }
            _ => break,
        }
    }
    let call = matches!(tokens.get(at), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis);
    out.push(Found { path, call });
    at
}

/// The leaves of `prefix::{a, b::c, self}`.
fn branches(tokens: TokenStream, prefix: &Written, out: &mut Vec<Found>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for branch in tokens.split(|t| is_punct(Some(t), ',')) {
        let first = out.len();
        path(branch, 0, prefix.clone(), out);
        for found in &mut out[first..] {
            if found.path.segments.last().is_some_and(|s| s == "self") {
                found.path.segments.pop();
            }
        }
    }
}

fn is_punct(token: Option<&TokenTree>, c: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == c)
}

/// `::` stands before, and no type or path before that.
fn absolute(before: &[TokenTree]) -> bool {
    match before {
        [rest @ .., a, b] if is_punct(Some(a), ':') && is_punct(Some(b), ':') => {
            !continues(rest.last())
        }
        _ => false,
    }
}

/// A `::` behind this token goes on with a path.
fn continues(token: Option<&TokenTree>) -> bool {
    match token {
        Some(TokenTree::Punct(p)) => p.as_char() == '>',
        Some(_) => true,
        None => false,
    }
}

fn starts_path(before: &[TokenTree], ident: &TokenTree) -> bool {
    match before {
        [.., TokenTree::Punct(p)] if p.as_char() == '\'' => false,
        [.., TokenTree::Punct(p)] if p.as_char() == '$' => ident.to_string() == "crate",
        [.., a, b] if is_punct(Some(a), '.') && is_punct(Some(b), '.') => true,
        [.., TokenTree::Punct(p)] if p.as_char() == '.' => false,
        [rest @ .., a, b] if is_punct(Some(a), ':') && is_punct(Some(b), ':') => {
            !continues(rest.last())
        }
        [.., TokenTree::Ident(word)] => word != "fn",
        _ => true,
    }
}

/// The predicate of a `cfg` holds in tests only.
pub(super) fn needs_test(predicate: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = predicate.into_iter().collect();
    match tokens.as_slice() {
        [TokenTree::Ident(word)] => word == "test",
        [TokenTree::Ident(word), TokenTree::Group(group)] => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let mut parts = inner
                .split(|t| is_punct(Some(t), ','))
                .filter(|part| !part.is_empty())
                .map(|part| needs_test(part.iter().cloned().collect()));
            match word.to_string().as_str() {
                "all" => parts.any(|p| p),
                "any" => !inner.is_empty() && parts.all(|p| p),
                _ => false,
            }
        }
        _ => false,
    }
}
