//! `latlab` alone: a menu of experiments on a terminal, the help in a pipe.
//!
//! Every experiment is a command line, shown while its parameters are edited, so that the menu
//! teaches the commands. A host has it full-screen; boards, and terminals that cannot move the
//! cursor (`TERM=dumb`), have a numbered list.

mod entries;
mod form;
#[cfg(feature = "host")]
mod full_screen;
#[cfg(feature = "host")]
mod screen;

use crate::cli::menu::Args;
use crate::cli::{self, Cli};
use crate::outcome::Outcome;
use crate::term;
use clap::Parser;
use entries::EXPERIMENTS;
use form::{Form, Recent, command_line};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

/// The menu on a terminal, the help otherwise. `run` runs what is chosen from the list.
///
/// # Errors
/// Those of the terminal, and of `run`.
pub fn choose(run: impl FnOnce(Cli) -> anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    if !(io::stdin().is_terminal() && term::stdout_is_terminal()) {
        write!(term::stdout(), "{}", cli::command().render_long_help())?;
        return Ok(Outcome::Done);
    }
    #[cfg(feature = "host")]
    if std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb") {
        return full_screen::run(missing());
    }
    let entries = entries(&Recent::read(Path::new(".")));
    write!(term::stdout(), "{}", list(&entries, missing().as_deref()))?;
    let Some(entry) = ask(&entries)? else { return Ok(Outcome::Done) };
    writeln!(term::stdout(), "\n$ latlab {}", command_line(&entry.words))?;
    run(parse(&entry.words)?)
}

/// The command lines of the menu: one for each experiment, brief ones for tests.
///
/// # Errors
/// Those of stdout.
pub fn print(args: &Args) -> anyhow::Result<Outcome> {
    let recent = Recent::read(Path::new("."));
    let mut out = term::stdout();
    for experiment in EXPERIMENTS {
        let form = if args.brief { Form::brief } else { Form::new };
        let words = form(experiment, &recent).words();
        writeln!(out, "{}\tlatlab {}", experiment.title, command_line(&words))?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// One line of the list.
#[derive(Debug)]
struct Entry {
    words: Vec<String>,
    question: &'static str,
}

/// The experiments that can begin as they are: not those that need a task, or a result of before that is not there.
fn entries(recent: &Recent) -> Vec<Entry> {
    let entry = |form: Form| Entry { words: form.words(), question: form.experiment.question };
    EXPERIMENTS
        .iter()
        .map(|experiment| Form::new(experiment, recent))
        .filter(|form| form.lacks().is_none())
        .map(entry)
        .filter(|entry| parse(&entry.words).is_ok())
        .collect()
}

fn parse(words: &[String]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("latlab").chain(words.iter().map(String::as_str)))
}

/// The list as text.
fn list(entries: &[Entry], missing: Option<&str>) -> String {
    use std::fmt::Write;
    let mut text = String::from("Experiments:\n\n");
    for (n, e) in entries.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "{:>4}  {}\n      latlab {}", n + 1, e.question, command_line(&e.words));
    }
    if let Some(words) = missing {
        let _ = writeln!(text, "\n{words}");
    }
    let _ = writeln!(
        text,
        "\nOptions after a number are added: `3 -D 1m`. latlab --help has all commands and options."
    );
    text
}

/// What most experiments lack here, in a sentence.
fn missing() -> Option<String> {
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
fn ask(entries: &[Entry]) -> anyhow::Result<Option<Entry>> {
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

enum Choice {
    Run(Entry),
    Leave,
    Unknown,
}

/// An entry by number or name, with the options that follow it.
fn choice(entries: &[Entry], answer: &str) -> Choice {
    if ["", "q", "quit", "exit"].contains(&answer) {
        return Choice::Leave;
    }
    let (which, more) = answer.split_once(' ').unwrap_or((answer, ""));
    let by_number = which.parse::<usize>().ok().and_then(|n| entries.get(n.checked_sub(1)?));
    let by_name = || entries.iter().find(|e| e.words.first().is_some_and(|name| name == which));
    let Some(entry) = by_number.or_else(by_name) else { return Choice::Unknown };
    let mut words = entry.words.clone();
    // An option that is typed replaces the entry's own, with its value.
    for option in more.split_whitespace().filter(|w| w.starts_with('-')) {
        if let Some(at) = words.iter().position(|w| *w == option) {
            let value = words.get(at + 1).is_some_and(|w| !w.starts_with('-'));
            words.drain(at..=at + usize::from(value));
        }
    }
    words.extend(more.split_whitespace().map(str::to_owned));
    Choice::Run(Entry { words, question: entry.question })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_line_of_the_menu_parses() {
        let recent =
            Recent { runs: vec!["runs/b".into(), "runs/a".into()], trace: Some("t".into()) };
        for experiment in EXPERIMENTS {
            for form in [Form::new(experiment, &recent), Form::brief(experiment, &recent)] {
                if let Err(error) = parse(&form.words()) {
                    panic!("{}: {:?}: {error}", experiment.title, form.words());
                }
            }
        }
    }

    #[test]
    fn experiments_that_need_a_result_are_listed_with_one_only() {
        let titles = |recent: &Recent| entries(recent).len();
        let recent =
            Recent { runs: vec!["runs/b".into(), "runs/a".into()], trace: Some("t".into()) };
        let (without, with) = (titles(&Recent::default()), titles(&recent));
        assert!(without < with, "{without} of {with}");
        assert!(!entries(&Recent::default()).iter().any(|e| e.words == ["report", "--stat"]));
    }

    #[test]
    fn an_answer_is_a_number_or_a_name() {
        let entries = entries(&Recent::default());
        let last = entries.len();
        let run = |answer: &str| match choice(&entries, answer) {
            Choice::Run(e) => e.words.join(" "),
            Choice::Leave => "leave".into(),
            Choice::Unknown => "unknown".into(),
        };
        assert_eq!(run("1"), "survey --quick");
        assert_eq!(run("survey"), "survey --quick");
        assert_eq!(run(&last.to_string()), entries[last - 1].words.join(" "));
        for answer in ["0", &(last + 1).to_string(), "-1", "99999999999999999999", "surve"] {
            assert_eq!(run(answer), "unknown", "{answer}");
        }
        let more = run("3 -D 1m  -b 90");
        assert!(more.starts_with("wakeup ") && more.ends_with(" -D 1m -b 90"), "{more}");
        assert!(!more.contains("10s"), "{more}");
        assert_eq!((run(""), run("q")), ("leave".into(), "leave".into()));
    }

    #[test]
    fn the_list_shows_the_command_lines() {
        let entry = |words: &str, question| Entry {
            words: words.split(' ').map(str::to_owned).collect(),
            question,
        };
        let entries = [entry("doctor", "Which problems?"), entry("wakeup -D 10s", "How late?")];
        assert_eq!(
            list(&entries, Some("Not for this user: tracing.")),
            "Experiments:\n\n   1  Which problems?\n      latlab doctor\n   \
             2  How late?\n      latlab wakeup -D 10s\n\n\
             Not for this user: tracing.\n\n\
             Options after a number are added: `3 -D 1m`. latlab --help has all commands and options.\n"
        );
    }
}
