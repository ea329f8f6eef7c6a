//! Options of cyclictest, trace-cmd and lmbench that clap does not define: a command line written for
//! them is turned into ours before clap reads it.
//!
//! Options with the same meaning here are clap's. A table for each tool has the others: what is done
//! anyway, what has another spelling, what has no effect here and why, and what is refused because a
//! measurement without it would answer another question.

mod cyclictest;
#[cfg(feature = "host")]
mod lmbench;
mod spelling;
#[cfg(feature = "host")]
mod trace_cmd;

use clap::Command;
use spelling::{Means, Spelling, Takes};
use std::ffi::{OsStr, OsString};

/// A command line for clap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translated {
    /// Its words, the program's name first.
    pub words: Vec<OsString>,
    /// One line for each option that has no effect.
    pub notes: Vec<String>,
}

/// An option without which the measurement would answer another question.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {reason}")]
pub struct Refused {
    option: String,
    reason: &'static str,
}

/// Turns a command line into ours.
///
/// # Errors
/// The first option that is refused.
pub fn translate(cli: &Command, words: Vec<OsString>) -> Result<Translated, Refused> {
    let is_cyclictest = words.first().is_some_and(|name| {
        std::path::Path::new(name).file_name() == Some(OsStr::new("cyclictest"))
    });
    if is_cyclictest {
        return by_name(cli, words);
    }
    let Some((at, command)) = find_command(cli, &words) else {
        return Ok(Translated { words, notes: Vec::new() });
    };
    let table = match command.get_name() {
        "wakeup" => cyclictest::OPTIONS,
        #[cfg(feature = "host")]
        "record" => trace_cmd::RECORD,
        #[cfg(feature = "host")]
        "report" => trace_cmd::REPORT,
        #[cfg(feature = "host")]
        "bench" => lmbench::BENCH,
        #[cfg(feature = "host")]
        "memory" => lmbench::OPTIONS,
        _ => return Ok(Translated { words, notes: Vec::new() }),
    };
    let done = Translated { words: words[..at].to_vec(), notes: Vec::new() };
    let mut walk = Walk { cli, command, table, rest: &words[at..], positional: false, done };
    while walk.step()? {}
    if command.get_name() == "report" && !walk.positional {
        // As trace-cmd has it.
        walk.done.words.push("trace.dat".into());
    }
    Ok(walk.done)
}

/// The command line of this program under the name `cyclictest`: with its output and its defaults,
/// one thread of SCHED_OTHER.
fn by_name(cli: &Command, mut words: Vec<OsString>) -> Result<Translated, Refused> {
    words[0] = "latlab".into();
    words.insert(1, "wakeup".into());
    let mut done = translate(cli, words)?;
    let has = |begin: &[&str]| {
        let is = |word: &OsString| {
            begin.iter().any(|b| word.as_encoded_bytes().starts_with(b.as_bytes()))
        };
        done.words.iter().any(is)
    };
    let mut defaults = vec!["--format=cyclictest"];
    if !has(&["-t", "--threads", "-S", "--smp"]) {
        defaults.push("--threads=1");
    }
    if !has(&["-p", "--pri", "--policy"]) {
        defaults.push("--policy=other");
    }
    done.words.splice(2..2, defaults.into_iter().map(OsString::from));
    Ok(done)
}

/// The command and the place behind its name.
fn find_command<'a>(cli: &'a Command, words: &[OsString]) -> Option<(usize, &'a Command)> {
    let mut at = 1;
    loop {
        let word = words.get(at)?.to_str()?;
        at += 1;
        if let Some(command) = cli.find_subcommand(word) {
            return Some((at, command));
        }
        let long = word.strip_prefix("--")?;
        // The value of `--out DIR`.
        at += usize::from(
            cli.get_arguments()
                .any(|a| a.get_long() == Some(long) && a.get_action().takes_values()),
        );
    }
}

struct Walk<'a> {
    cli: &'a Command,
    command: &'a Command,
    table: &'static [Spelling],
    rest: &'a [OsString],
    /// Whether there was a word that is no option.
    positional: bool,
    done: Translated,
}

/// What clap knows about an option.
enum Known {
    Flag,
    Value,
    /// A value in the next word only if that is no option.
    Optional,
}

impl Walk<'_> {
    /// Takes the next words; false at the end.
    fn step(&mut self) -> Result<bool, Refused> {
        let Some((word, rest)) = self.rest.split_first() else { return Ok(false) };
        self.rest = rest;
        let Some(text) = word.to_str() else {
            self.done.words.push(word.clone());
            return Ok(true);
        };
        if text == "--" {
            self.finish(word);
        } else if let Some(long) = text.strip_prefix("--") {
            self.long(text, long)?;
        } else if text.len() > 1 && text.starts_with('-') {
            self.letters(&text[1..])?;
        } else if self.command.get_arguments().any(clap::Arg::is_last_set) {
            // trace-cmd's command follows without `--`.
            self.done.words.push("--".into());
            self.finish(word);
        } else {
            self.positional = true;
            self.done.words.push(word.clone());
        }
        Ok(true)
    }

    /// The rest is not ours to read.
    fn finish(&mut self, word: &OsString) {
        self.done.words.push(word.clone());
        self.done.words.extend_from_slice(std::mem::take(&mut self.rest));
    }

    fn long(&mut self, word: &str, long: &str) -> Result<(), Refused> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let full = self.complete(name);
        let name = full.as_deref().unwrap_or(name);
        let option = format!("--{name}");
        if self.of_table(&option, name, value)? {
            return Ok(());
        }
        let word = if full.is_some() {
            value.map_or(option.clone(), |value| format!("{option}={value}"))
        } else {
            word.to_owned()
        };
        self.done.words.push(word.into());
        if value.is_none() {
            let known = self.known(|a| {
                a.get_long() == Some(name)
                    || a.get_all_aliases().is_some_and(|all| all.contains(&name))
            });
            self.separate_value(known);
        }
        Ok(())
    }

    /// The one long name that an abbreviation begins, as getopt_long completes it.
    fn complete(&self, begin: &str) -> Option<String> {
        let foreign = self.table.iter().flat_map(|s| s.names.split(' ')).filter(|n| n.len() > 1);
        let ours = self
            .arguments()
            .flat_map(|a| a.get_long().into_iter().chain(a.get_all_aliases().unwrap_or_default()));
        let mut found: Vec<&str> = foreign.chain(ours).filter(|n| n.starts_with(begin)).collect();
        found.sort_unstable();
        found.dedup();
        match found[..] {
            [one] if one != begin => Some(one.to_owned()),
            _ => None,
        }
    }

    fn letters(&mut self, letters: &str) -> Result<(), Refused> {
        let mut at = 0;
        while let Some(letter) = letters[at..].chars().next() {
            at += letter.len_utf8();
            let glued = Some(&letters[at..]).filter(|rest| !rest.is_empty());
            let name = &letters[at - letter.len_utf8()..at];
            let option = format!("-{letter}");
            match self.spelling(name) {
                Some(s) if matches!(s.takes, Takes::Nothing) => {
                    let _ = self.of_table(&option, name, None)?;
                    continue;
                }
                Some(_) if self.of_table(&option, name, glued)? => return Ok(()),
                _ => {}
            }
            match self.known(|a| a.get_short() == Some(letter)) {
                Some(Known::Flag) => self.done.words.push(option.into()),
                known => {
                    self.done.words.push(format!("{option}{}", glued.unwrap_or_default()).into());
                    if glued.is_none() {
                        self.separate_value(known);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn spelling(&self, name: &str) -> Option<&'static Spelling> {
        self.table.iter().find(|s| s.names.split(' ').any(|n| n == name))
    }

    /// Whether the table has it and means it; then it is done.
    fn of_table(&mut self, option: &str, name: &str, glued: Option<&str>) -> Result<bool, Refused> {
        let Some(spelling) = self.spelling(name) else { return Ok(false) };
        let next = self.rest.first().and_then(|word| word.to_str());
        let separate = next.filter(|word| !word.starts_with('-') || *word == "-");
        let value = match spelling.takes {
            Takes::Nothing => None,
            Takes::Value => glued.or(next),
            #[cfg(feature = "host")]
            Takes::Glued => glued,
            _ => glued.or(separate),
        };
        match spelling.takes {
            Takes::OnlyWith if value.is_none() => return Ok(false),
            #[cfg(feature = "host")]
            Takes::OnlyWithout if value.is_some() => return Ok(false),
            _ => {}
        }
        let value = value.map(str::to_owned);
        if value.is_some() && glued.is_none() {
            self.rest = &self.rest[1..];
        }
        let value = value.as_deref().unwrap_or_default();
        match spelling.means {
            Means::Always => {}
            Means::Words(words) => {
                self.positional |= words == "{}";
                let words = words.split(' ').map(|word| word.replace("{}", value).into());
                self.done.words.extend(words);
            }
            Means::IgnoredUnless(usual, _) if usual.contains(&value) => {}
            Means::Ignored(reason) | Means::IgnoredUnless(_, reason) => {
                let space = if value.is_empty() { "" } else { " " };
                self.done.notes.push(format!("{option}{space}{value} has no effect: {reason}"));
            }
            #[cfg(feature = "host")]
            Means::Refused(reason) => {
                return Err(Refused { option: option.to_owned(), reason });
            }
        }
        Ok(true)
    }

    fn arguments(&self) -> impl Iterator<Item = &clap::Arg> {
        self.command.get_arguments().chain(self.cli.get_arguments())
    }

    fn known(&self, is: impl Fn(&clap::Arg) -> bool) -> Option<Known> {
        let arg = self.arguments().find(|a| is(a))?;
        Some(match arg.get_num_args() {
            _ if !arg.get_action().takes_values() => Known::Flag,
            Some(range) if range.min_values() == 0 => Known::Optional,
            _ => Known::Value,
        })
    }

    /// Copies the value of clap's option that is the next word.
    fn separate_value(&mut self, known: Option<Known>) {
        let Some((next, rest)) = self.rest.split_first() else { return };
        let taken = match known {
            Some(Known::Value) => true,
            Some(Known::Optional) => !next.as_encoded_bytes().starts_with(b"-"),
            Some(Known::Flag) | None => false,
        };
        if taken {
            self.done.words.push(next.clone());
            self.rest = rest;
        }
    }
}

#[cfg(test)]
mod tests;
