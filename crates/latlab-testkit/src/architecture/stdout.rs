//! Text on its way to stdout: what a terminal would obey is shown instead, unless a renderer has seen to it.

/// The one file that opens stdout, and the one that writes a listing by several threads.
const OPENERS: [&str; 2] = ["term.rs", "cmd/report/trace.rs"];
const RAW: &str = "term::raw_stdout()";

/// Where a source of the binary, `file` below its `src`, writes text that nothing has cleaned to stdout: formatted text
/// or JSON to what `term::raw_stdout()` returns, or anything past `term`. One sentence each.
pub fn raw_text(file: &str, source: &str) -> Vec<String> {
    let mut out = Vec::new();
    let lines: Vec<&str> = source.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let mut say = |what: String| out.push(format!("{file}:{}: {what}", number + 1));
        if line.contains("io::stdout()") && !OPENERS.contains(&file) {
            say("opens stdout: use term::stdout()".into());
        }
        if !line.contains(RAW) {
            continue;
        }
        if ["write!(", "writeln!("].iter().any(|name| line.contains(name)) {
            say(format!("writes to {RAW} itself: use term::stdout()"));
        }
        let bound = line.trim_start().strip_prefix("let mut ").and_then(|l| l.split_once(" = "));
        let Some((name, _)) = bound else { continue };
        for what in raw_writes(name, &rest_of_block(line, &lines[number + 1..])) {
            say(format!("{what} of {RAW}: use term::stdout(), Cleaned or JsonEscaped"));
        }
    }
    out
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// What follows a line in its block, blanks and line ends as one blank.
fn rest_of_block(line: &str, following: &[&str]) -> String {
    let least = indentation(line);
    let inside = |l: &&&str| l.trim().is_empty() || indentation(l) >= least;
    let block: Vec<&str> = following.iter().take_while(inside).copied().collect();
    let words: Vec<&str> = block.iter().flat_map(|l| l.split_whitespace()).collect();
    words.join(" ").replace("( ", "(")
}

/// Calls that write JSON or formatted text to the writer of this name.
fn raw_writes(name: &str, block: &str) -> Vec<String> {
    let mut found = Vec::new();
    for call in ["serde_json::to_writer(&mut ", "serde_json::to_writer_pretty(&mut "] {
        if block.contains(&format!("{call}{name},")) {
            found.push(format!("{call}{name}, …)"));
        }
    }
    for call in ["write!(", "writeln!("] {
        let begin = format!("{call}{name}, ");
        for (at, _) in block.match_indices(&begin) {
            if !is_constant(&block[at + begin.len()..]) {
                found.push(format!("{begin}…)"));
            }
        }
    }
    found
}

/// Whether source begins with a string that has no place for a value.
fn is_constant(source: &str) -> bool {
    let Some(text) = source.strip_prefix('"') else { return false };
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '"' if !escaped => return true,
            '{' => return false,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::raw_text;

    #[test]
    fn formatted_text_and_json_are_not_written_raw() {
        let good = "\
fn f() {
    let mut out = term::raw_stdout();
    write!(out, \"\\x1b[H\")?;
    output::document(&doc, &mut out)?;
    writeln!(Cleaned(&mut out), \"{name}\")?;
    serde_json::to_writer(JsonEscaped(&mut out), &value)?;
}
fn g(out: &mut Vec<u8>) {
    writeln!(out, \"{name}\")?;
}
";
        assert_eq!(raw_text("cmd/x.rs", good), Vec::<String>::new());
        for (bad, what) in [
            ("writeln!(out, \"{name}\")?;", "writeln!(out, …)"),
            (
                "writeln!(\n        out,\n        \"a {}\",\n        name\n    )?;",
                "writeln!(out, …)",
            ),
            ("serde_json::to_writer(&mut out, &value)?;", "serde_json::to_writer(&mut out, …)"),
            ("write!(term::raw_stdout(), \"x\")?;", "writes to term::raw_stdout() itself"),
            ("io::stdout().write_all(name)?;", "opens stdout"),
        ] {
            let source =
                format!("fn f() {{\n    let mut out = term::raw_stdout();\n    {bad}\n}}\n");
            let found = raw_text("cmd/x.rs", &source);
            assert!(found.len() == 1 && found[0].contains(what), "{bad}: {found:?}");
        }
    }
}
