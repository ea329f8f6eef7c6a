//! What the engines share that give experiments to somebody else's queue.

use crate::outcome::foreign_line;
use anyhow::Context;
use latlab_target::ssh::quoted;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Words as a shell reads them.
pub fn shell_words(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%@+".contains(c);
    let shown = |word: &String| match word.is_empty() || !word.chars().all(plain) {
        true => quoted(word),
        false => word.clone(),
    };
    words.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// What a program of the queue, or a device, prints, as one line of an error.
pub fn one_line(text: &str) -> String {
    foreign_line(text.lines()).unwrap_or_else(|| "it gave no reason".to_owned())
}

/// Appends a line of JSON to a file, on disk when this returns.
///
/// # Errors
/// When it cannot be written.
pub fn append(path: &Path, line: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(line)?;
    line.push('\n');
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all(line.as_bytes())
        .and_then(|()| file.sync_all())
        .with_context(|| path.display().to_string())
}
