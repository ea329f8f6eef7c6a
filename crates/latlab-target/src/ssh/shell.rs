//! Words for a POSIX shell, and what a script prints.

/// The rest of the line of a script's output that begins with this key; empty without one.
pub(super) fn value<'t>(text: &'t str, key: &str) -> &'t str {
    text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim()
}

/// A word for a POSIX shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
