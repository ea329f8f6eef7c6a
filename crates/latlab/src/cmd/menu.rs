//! `latlab` alone: a short menu on a terminal, the help in a pipe.
//!
//! Every entry is a command line, printed before it runs, so that the menu
//! teaches the commands and is soon no longer needed.

use crate::cli::{self, Cli};
use crate::term;
use clap::{CommandFactory, Parser};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

/// The entries, in the order of the menu: a command line without `latlab`, and the question that it answers.
/// Commands that can run without arguments and are not named here follow by themselves.
const ENTRIES: &[(&str, &str)] = &[
    ("survey --quick", "Every kind of measurement in about a minute, in one report."),
    ("doctor", "Can this machine measure and trace, and which problems does it have?"),
    ("wakeup -D 10s", "How late does a periodic real-time task wake up?"),
    ("bench", "What do system calls, switches, messages, copies and processes cost?"),
    ("memory", "Which caches, line sizes, ways and TLBs exist, and what does a miss cost?"),
    ("why -D 30s", "Which causes make wake-ups late?"),
    ("sweep", "Which load, of which size, increases latency, and where is the knee?"),
    ("sched", "How do policies and priorities share the CPU?"),
    ("timer", "When do timer interrupts come, and what do they run?"),
    ("record -D 5s", "Record a trace of five seconds."),
];

/// One line of the menu.
#[derive(Debug)]
struct Entry {
    command: String,
    question: String,
}

/// Offers the menu on a terminal, prints the help otherwise; the chosen command, where there is one.
///
/// # Errors
/// Those of the terminal.
pub fn choose() -> anyhow::Result<Option<Cli>> {
    if !(io::stdin().is_terminal() && term::stdout_is_terminal()) {
        write!(term::stdout(), "{}", cli::command().render_long_help())?;
        return Ok(None);
    }
    let entries = entries();
    write!(term::stdout(), "{}", menu(&entries, in_the_way().as_deref()))?;
    let Some(entry) = ask(&entries)? else { return Ok(None) };
    writeln!(term::stdout(), "\n$ latlab {}", entry.command)?;
    Ok(Some(parse(&entry.command)?))
}

/// The table's commands that this build has, then the others that run without arguments.
fn entries() -> Vec<Entry> {
    let mut entries: Vec<Entry> = ENTRIES
        .iter()
        .filter(|(command, _)| parse(command).is_ok())
        .map(|&(command, question)| Entry { command: command.into(), question: question.into() })
        .collect();
    for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
        let name = command.get_name();
        let known = entries.iter().any(|e| e.command.split(' ').next() == Some(name));
        if !known && parse(name).is_ok() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            entries.push(Entry { command: name.to_owned(), question: about });
        }
    }
    entries
}

fn parse(command: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("latlab").chain(command.split(' ')))
}

/// The menu as text.
fn menu(entries: &[Entry], in_the_way: Option<&str>) -> String {
    use std::fmt::Write;
    let width = entries.iter().map(|e| e.command.len()).max().unwrap_or(0);
    let mut text = String::from("Commands that can run here:\n\n");
    for (n, e) in entries.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:>4}  latlab {:<width$}   {}", n + 1, e.command, e.question);
    }
    if let Some(words) = in_the_way {
        let _ = writeln!(text, "\n{words}");
    }
    let _ = writeln!(text, "\nlatlab --help has all commands and options.");
    text
}

/// What would be missing from most entries, in a sentence.
fn in_the_way() -> Option<String> {
    let machine = latlab_sys::machine::read();
    let mut missing = Vec::new();
    if machine.rt.priority_max == 0 {
        missing.push("real-time priorities");
    }
    if !Path::new("/sys/kernel/tracing/instances").exists() {
        missing.push("tracing");
    }
    let words = missing.join(" and ");
    (!missing.is_empty())
        .then(|| format!("Not available: {words}. `latlab doctor` shows the reason."))
}

/// Asks until there is an answer; nothing is chosen at the end of the input, by `q`, and on a signal.
fn ask(entries: &[Entry]) -> anyhow::Result<Option<&Entry>> {
    loop {
        write!(term::stdout_by_line(), "\nNumber or name (q: quit): ")?;
        term::stdout_by_line().flush()?;
        let mut line = String::new();
        let end = io::stdin().lock().read_line(&mut line)? == 0;
        if end || latlab_sys::signal::stop_requested().is_some() {
            return Ok(None);
        }
        match choice(entries, line.trim()) {
            Choice::Leave => return Ok(None),
            Choice::Run(entry) => return Ok(Some(entry)),
            Choice::Unknown => {
                let n = entries.len();
                writeln!(term::stdout_by_line(), "No entry '{}'; choose 1 to {n}.", line.trim())?;
            }
        }
    }
}

enum Choice<'a> {
    Run(&'a Entry),
    Leave,
    Unknown,
}

fn choice<'a>(entries: &'a [Entry], answer: &str) -> Choice<'a> {
    if ["", "q", "quit", "exit"].contains(&answer) {
        return Choice::Leave;
    }
    let by_number = answer.parse::<usize>().ok().and_then(|n| entries.get(n.checked_sub(1)?));
    let by_name = || entries.iter().find(|e| e.command.split(' ').next() == Some(answer));
    by_number.or_else(by_name).map_or(Choice::Unknown, Choice::Run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_runs_by_itself_is_offered_once() {
        let entries = entries();
        assert!(!entries.is_empty());
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let name = command.get_name();
            let offered =
                entries.iter().filter(|e| e.command.split(' ').next() == Some(name)).count();
            let alone = parse(name).is_ok();
            assert!(offered <= 1 && (offered == 1 || !alone), "{name} is offered {offered} times");
        }
    }

    #[test]
    fn an_answer_is_a_number_or_a_name() {
        let entries = entries();
        let last = entries.len();
        let run = |answer: &str| match choice(&entries, answer) {
            Choice::Run(e) => e.command.clone(),
            Choice::Leave => "leave".into(),
            Choice::Unknown => "unknown".into(),
        };
        assert_eq!(run("1"), "survey --quick");
        assert_eq!(run("survey"), "survey --quick");
        assert_eq!(run(&last.to_string()), entries[last - 1].command);
        for answer in ["0", &(last + 1).to_string(), "-1", "99999999999999999999", "surve"] {
            assert_eq!(run(answer), "unknown", "{answer}");
        }
        assert_eq!((run(""), run("q")), ("leave".into(), "leave".into()));
    }

    #[test]
    fn the_menu_shows_the_command_lines() {
        let entries = [
            Entry { command: "doctor".into(), question: "What is in the way?".into() },
            Entry { command: "wakeup -D 10s".into(), question: "How late?".into() },
        ];
        assert_eq!(
            menu(&entries, Some("Not for this user: tracing.")),
            "Commands that can run here:\n\n   \
             1  latlab doctor          What is in the way?\n   \
             2  latlab wakeup -D 10s   How late?\n\n\
             Not for this user: tracing.\n\n\
             latlab --help has all commands and options.\n"
        );
    }
}
