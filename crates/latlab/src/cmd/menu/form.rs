//! The values of an experiment's parameters, and the command line that they make.

use super::entries::{Experiment, Initial, Parameter, Place};
#[cfg(feature = "host")]
use crate::rundir::kind_of;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Results in the working directory that an experiment can begin with.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// Directories of runs, the newest first.
    pub runs: Vec<String>,
    /// A trace.
    pub trace: Option<String>,
}

impl Recent {
    /// Those of `dir`: runs by the time at which `run.json` was written; `trace.dat`, or the first
    /// capture of the newest run that has one.
    pub fn read(dir: &Path) -> Self {
        let files = |dir: PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut runs: Vec<(SystemTime, PathBuf)> = files(dir.join("runs"))
            .filter_map(|entry| {
                let written = entry.path().join("run.json").metadata().ok()?.modified().ok()?;
                Some((written, entry.path()))
            })
            .collect();
        runs.sort();
        runs.reverse();
        let capture = |run: &PathBuf| {
            let captures = files(run.join("captures")).map(|entry| entry.path());
            captures.filter(|file| file.extension().is_some_and(|e| e == "dat")).min()
        };
        let shown =
            |path: &Path| path.strip_prefix(dir).unwrap_or(path).to_str().map(str::to_owned);
        let trace = Some(dir.join("trace.dat"))
            .filter(|file| file.is_file())
            .or_else(|| runs.iter().find_map(|(_, run)| capture(run)));
        Self {
            trace: trace.and_then(|file| shown(&file)),
            runs: runs.iter().filter_map(|(_, run)| shown(run)).collect(),
        }
    }

    /// The newest run that has an earlier one of its kind, and that.
    #[cfg(feature = "host")]
    fn two_of_one_kind(&self) -> Option<String> {
        self.runs.iter().enumerate().find_map(|(i, new)| {
            let wanted = kind_of(new)?;
            let old = self.runs[i + 1..].iter().find(|run| kind_of(run) == Some(wanted))?;
            Some(format!("{old} {new}"))
        })
    }

    fn text(&self, initial: Initial) -> String {
        match initial {
            Initial::Text(text) => text.into(),
            Initial::NewestRun => self.runs.first().cloned().unwrap_or_default(),
            #[cfg(feature = "host")]
            Initial::TwoNewestRuns => self.two_of_one_kind().unwrap_or_default(),
            Initial::NewestTrace => self.trace.clone().unwrap_or_default(),
            Initial::Needed => String::new(),
        }
    }
}

/// The parameters of one experiment as they were edited.
#[derive(Clone, Debug)]
pub struct Form {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// A value for each of its parameters, in their order.
    pub values: Vec<String>,
}

impl Form {
    /// With the values that the parameters begin with.
    pub fn new(experiment: &'static Experiment, recent: &Recent) -> Self {
        let values = experiment.parameters.iter().map(|p| recent.text(p.initial)).collect();
        Self { experiment, values }
    }

    /// A short measurement of the same kind.
    pub fn brief(experiment: &'static Experiment, recent: &Recent) -> Self {
        let value = |p: &Parameter| p.brief.map_or_else(|| recent.text(p.initial), str::to_owned);
        Self { experiment, values: experiment.parameters.iter().map(value).collect() }
    }

    /// The first parameter without which the command is another one, or an error: a result of before, or a task.
    pub fn lacks(&self) -> Option<usize> {
        let mut parameters = self.experiment.parameters.iter().zip(&self.values);
        parameters.position(|(parameter, value)| {
            let needed = match parameter.initial {
                Initial::Text(_) => 0,
                #[cfg(feature = "host")]
                Initial::TwoNewestRuns => 2,
                Initial::NewestRun | Initial::NewestTrace | Initial::Needed => 1,
            };
            value.split_whitespace().count() < needed
        })
    }

    /// The words of the command line, without `latlab`.
    pub fn words(&self) -> Vec<String> {
        let mut words: Vec<String> =
            self.experiment.command.split(' ').map(str::to_owned).collect();
        for (parameter, value) in self.experiment.parameters.iter().zip(&self.values) {
            let value = value.trim();
            match parameter.place {
                Place::Flag(option) if value == "yes" => words.push(option.into()),
                Place::Option(option) if !value.is_empty() => {
                    words.extend([option.to_owned(), value.to_owned()]);
                }
                Place::Each(option) => {
                    let each = value.split_whitespace();
                    words.extend(each.flat_map(|word| [option.to_owned(), word.to_owned()]));
                }
                Place::Words => words.extend(value.split_whitespace().map(str::to_owned)),
                Place::Flag(_) | Place::Option(_) => {}
            }
        }
        words
    }
}

/// Words as a shell reads them.
pub fn command_line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@+%".contains(c);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::entries::EXPERIMENTS;
    use super::*;
    use std::time::Duration;

    fn form(title: &str) -> Form {
        let found = EXPERIMENTS.iter().find(|e| e.title == title).expect(title);
        Form::new(found, &Recent::default())
    }

    #[test]
    fn values_become_options_words_and_flags() {
        let mut wakeup = form("Wake-up latency");
        assert_eq!(wakeup.words().join(" "), "wakeup -D 10s -i 1000 -p 80 -t 1");
        wakeup.values[5] = " 4*cpu  vm:64M ".into();
        assert!(wakeup.words().join(" ").ends_with("-t 1 --load 4*cpu --load vm:64M"));
        let mut survey = form("Survey");
        assert_eq!(survey.words(), ["survey", "--quick"]);
        survey.values[0] = "no".into();
        assert_eq!(survey.words(), ["survey"]);
        assert_eq!(form("Kernel operations").words()[..4], ["bench", "syscall", "ctx", "ipc"]);
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["wakeup", "--load", "4*cpu", "it's", ""].map(str::to_owned);
        assert_eq!(command_line(&words), r"wakeup --load '4*cpu' 'it'\''s' ''");
    }

    #[test]
    fn recent_results_are_those_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        for (age_s, run) in [(20, "first-why"), (10, "0-wakeup")] {
            std::fs::create_dir_all(runs.join(run).join("captures")).unwrap();
            let json = std::fs::File::create(runs.join(run).join("run.json")).unwrap();
            json.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
        }
        std::fs::create_dir(runs.join("no-run")).unwrap();
        for capture in ["002.dat", "001.dat", "000.txt"] {
            std::fs::write(runs.join("first-why/captures").join(capture), "").unwrap();
        }
        let recent = Recent::read(dir.path());
        assert_eq!(recent.runs, ["runs/0-wakeup", "runs/first-why"]);
        assert_eq!(recent.trace.as_deref(), Some("runs/first-why/captures/001.dat"));
        assert_eq!(recent.text(Initial::NewestRun), "runs/0-wakeup");
        std::fs::write(dir.path().join("trace.dat"), "").unwrap();
        assert_eq!(Recent::read(dir.path()).trace.as_deref(), Some("trace.dat"));
        assert!(Recent::read(&dir.path().join("none")).runs.is_empty());
    }

    #[test]
    #[cfg(feature = "host")]
    fn two_runs_of_one_kind_are_compared() {
        let names = ["4Z-vm-why-2", "3Z-vm-wakeup", "2Z-vm-why", "1Z-vm-wakeup"];
        let runs = names.map(|n| format!("runs/20261125T08445{n}")).to_vec();
        let two = Recent { runs, trace: None }.text(Initial::TwoNewestRuns);
        assert_eq!(two, "runs/20261125T084452Z-vm-why runs/20261125T084454Z-vm-why-2");
        let runs = vec!["runs/first-why".into(), "runs/0-wakeup".into()];
        let of_no_kind = Recent { runs, trace: None };
        assert_eq!(of_no_kind.text(Initial::TwoNewestRuns), "");
    }
}
