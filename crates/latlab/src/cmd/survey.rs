//! `latlab survey`: every kind of measurement, one after the other, in one report.
//!
//! A kind of measurement is one line of `STEPS` and one function from the
//! [`Context`] to the parts that it measured. A step that cannot run here is a
//! part that says why; the others go on. What is finished is saved at once, so
//! that a survey that is cut short keeps it.

use crate::cli::Global;
use crate::cli::survey::{Args, Config, Level};
use crate::outcome::{self, HintExt, Outcome};
use crate::output;
use crate::session::Session;
use crate::term;
use anyhow::anyhow;
use latlab_model::finding::{Confidence, Finding, Severity};
use latlab_model::run::{Part, Run};
use latlab_report::doc::{Column, Table};
use latlab_sys::signal;
use std::io::Write;
use std::time::Instant;

mod step;
mod steps;

use step::{Context, Step};

/// Names of the steps, for a shell.
#[cfg(feature = "host")]
pub fn step_names() -> impl Iterator<Item = &'static str> {
    steps::STEPS.iter().map(|step| step.name)
}

/// Runs the survey.
///
/// # Errors
/// When a step is named that does not exist, or the run cannot be kept.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let config = args.config();
    let steps = chosen(&config)?;
    if args.list {
        return list(&steps, config.level);
    }
    let mut session = Session::begin(global, "survey", &config)?;
    for (n, step) in steps.iter().enumerate() {
        if signal::stop_requested().is_some() {
            break;
        }
        let seconds = step.seconds(config.level);
        // A diagnostic: a failed write to stderr loses no result.
        let _ = writeln!(
            term::stderr(),
            "[{}/{}] {} (about {seconds} s)",
            n + 1,
            steps.len(),
            step.title
        );
        let before = session.run.parts.len();
        measure(step, config.level, &mut session.run);
        say_results(&mut session.run, before);
        session.checkpoint()?;
    }
    if session.run.parts.is_empty() {
        return session.abandon(anyhow::anyhow!("stopped before the first measurement"));
    }
    let json = global.json;
    session.finish_with(signal::stop_requested().map(signal::Signal::name), |run, out| {
        if json {
            output::json(run, out)?;
        } else {
            output::text(run, out)?;
        }
        Ok(())
    })
}

/// Prints what a step found while the others run: the parts from `first` on.
fn say_results(run: &mut Run, first: usize) {
    // Moved, not copied: nothing else in a board build copies results.
    let step = Run { parts: run.parts.split_off(first), ..Run::default() };
    for (name, words) in latlab_report::sections::screen::lines(&step) {
        // A diagnostic: a failed write to stderr loses no result.
        let _ = writeln!(term::stderr(), "      {name}: {words}");
    }
    run.parts.extend(step.parts);
}

/// Runs one step into the run. What it could not do is a finding, not the end of the survey.
fn measure(step: &Step, level: Level, run: &mut Run) {
    let started = Instant::now();
    let context = Context {
        name: step.name,
        title: step.title,
        level,
        seconds: step.seconds(level),
        machine: &run.machine,
        earlier: &run.parts,
    };
    match (step.run)(&context) {
        Ok(parts) => run.parts.extend(parts),
        Err(error) => {
            let duration_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            run.parts.push(Part {
                name: step.name.to_owned(),
                title: step.title.to_owned(),
                complete: false,
                duration_ns,
                findings: vec![not_measured(step, &error)],
                ..Part::default()
            });
        }
    }
}

fn not_measured(step: &Step, error: &anyhow::Error) -> Finding {
    let id = "run.step-not-measured";
    let finding = Finding::typed(id, Severity::Inconclusive, Confidence::High)
        .value("step", step.name)
        .value("error", outcome::format_error_chain(error));
    match outcome::hint_of(error) {
        Some(hint) => finding.remedy(hint),
        None => finding,
    }
}

/// The steps of the level, or those that were named.
fn chosen(config: &Config) -> anyhow::Result<Vec<&'static Step>> {
    for name in &config.steps {
        if !steps::STEPS.iter().any(|s| s.name == name) {
            let names: Vec<_> = steps::STEPS.iter().map(|s| s.name).collect();
            return Err(anyhow!("--step {name}: no step of this name"))
                .hint(format!("the steps are {}", names.join(", ")));
        }
    }
    let named = |s: &&Step| config.steps.iter().any(|n| n == s.name);
    let at_level = |s: &&Step| config.steps.is_empty() && s.from <= config.level;
    Ok(steps::STEPS.iter().filter(|s| named(s) || at_level(s)).collect())
}

fn list(steps: &[&Step], level: Level) -> anyhow::Result<Outcome> {
    let mut out = term::raw_stdout();
    let row =
        |s: &&Step| vec![s.name.to_owned(), format!("{} s", s.seconds(level)), s.title.to_owned()];
    let total: u64 = steps.iter().map(|s| s.seconds(level)).sum();
    let all = vec!["total, about".to_owned(), format!("{total} s"), String::new()];
    let columns = vec![Column::whole("step"), Column::right("time"), Column::left("measures")];
    let rows = steps.iter().map(row).chain([all]).collect();
    crate::output::table(Table { columns, rows, ..Table::default() }, &mut out)?;
    out.flush()?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::steps::STEPS;
    use super::*;

    fn config(level: Level, steps: &[&str]) -> Config {
        Config { level, steps: steps.iter().map(|s| (*s).to_owned()).collect() }
    }

    #[test]
    fn a_quick_survey_takes_less_than_a_minute() {
        let quick = chosen(&config(Level::Quick, &[])).unwrap();
        let seconds: u64 = quick.iter().map(|s| s.seconds(Level::Quick)).sum();
        assert!(seconds <= 55, "the quick steps are given {seconds} s");
    }

    #[test]
    fn a_longer_survey_has_every_step_of_a_shorter_one() {
        let names = |level| -> Vec<_> {
            chosen(&config(level, &[])).unwrap().iter().map(|s| s.name).collect()
        };
        let full = names(Level::Full);
        assert!(names(Level::Quick).iter().all(|n| names(Level::Normal).contains(n)));
        assert_eq!(full.len(), STEPS.len());
        let unique: std::collections::BTreeSet<_> = full.iter().collect();
        assert_eq!(unique.len(), full.len(), "names of steps are unique");
    }

    #[test]
    fn an_unknown_step_is_said_with_those_that_there_are() {
        let error = chosen(&config(Level::Quick, &["nonsense"])).err().unwrap();
        assert_eq!(format!("{error:#}"), "--step nonsense: no step of this name");
        assert!(outcome::hint_of(&error).unwrap().contains(STEPS[0].name));
    }

    #[test]
    fn a_step_that_fails_is_a_part_that_says_why() {
        let step = Step {
            name: "nothing",
            title: "Nothing at all",
            from: Level::Quick,
            seconds: [1; 3],
            run: |_| Err(anyhow!("no such luck")).hint("try again"),
        };
        let mut run = Run::default();
        measure(&step, Level::Quick, &mut run);
        let part = &run.parts[0];
        assert!(!part.complete);
        assert_eq!(part.findings[0].id, "run.step-not-measured");
        assert_eq!(part.findings[0].values["error"], "no such luck".into());
        assert_eq!(part.findings[0].remedies, ["try again".into()]);
    }
}
