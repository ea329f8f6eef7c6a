//! `latlab vm bisect`: which kernel of a list, or commit of a git tree, is the first with a longer wake-up path.
//!
//! ```text
//! files, packages ──┐                        ┌─▶ analysis::path::bisect: which one next
//! commits ─ build ──┴─▶ vm_path: instructions ┘   until the first bad one is found
//! ```

use crate::cli::Global;
use crate::cli::vm::{BisectArgs, Counted, Machine};
use crate::cmd::vm_path::Side;
use crate::cmd::{vm, vm_count, vm_gate, vm_path};
use crate::outcome::{HintExt, Outcome, OwnHintExt, format_error_chain};
use crate::session::Session;
use anyhow::{Context, anyhow};
use latlab_analysis::path;
use latlab_analysis::path::bisect::{self, Rule, Tried};
use latlab_model::path::{Candidate, CandidateOutcome};
use latlab_model::run::{Detail, Part, Run};
use latlab_sys::{process, signal};
use latlab_target::cache::Cache;
use latlab_target::debian::Archive;
use latlab_target::group;
use latlab_target::vm::catalog;
use latlab_target::vm::tree::{self, Commit, Tree};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Kernels in their order.
enum Source {
    /// Files, folders, and packages of Debian's.
    List(Vec<String>),
    /// Commits, and what each build makes of them.
    Tree { tree: Tree, commits: Vec<Commit>, results: Vec<PathBuf> },
}

/// Runs the command.
///
/// # Errors
/// When the ends cannot be measured or do not differ, or the machine has no path.
pub fn run(args: &BisectArgs, global: &Global) -> anyhow::Result<Outcome> {
    vm_count::target(&args.machine)?;
    let limit = args.limit.as_deref().map(vm_gate::percent).transpose()?;
    let cache = vm::cache()?;
    let source = source(args, &cache)?;
    let mut config = vm_count::config(&args.machine.machine, &args.counted);
    config["function"] = args.function.clone().into();
    config["limit_percent"] = limit.into();
    config["candidates"] = source.len().into();
    config["build"] = args.build.clone().into();
    let session = Session::begin(global, "bisect", &config)?;
    vm_count::finish(session, Search { args, cache, source, limit, done: Vec::new() }.run())
}

/// What is bisected, with what its options lack named.
fn source(args: &BisectArgs, cache: &Cache) -> anyhow::Result<Source> {
    let (Some(git), Some(good), Some(build)) = (&args.git, &args.good, &args.build) else {
        if args.kernels.len() < 2 {
            return Err(anyhow!("{} kernels to bisect", args.kernels.len()))
                .hint("name at least two, the good one first, or a git tree with --git, --good and --build");
        }
        let is_missing = |k: &&String| k.contains('/') && !Path::new(k).exists();
        if let Some(missing) = args.kernels.iter().find(is_missing) {
            return Err(anyhow!("{missing}: no such file"))
                .hint("an image, a package or a folder; a name without a slash is a package of Debian's too");
        }
        return Ok(Source::List(args.kernels.clone()));
    };
    let results = results(&args.machine, &args.counted);
    if results.is_empty() {
        return Err(anyhow!("nothing of the tree would be measured: no option names a file of it"))
            .hint("--kernel arch/arm/boot/zImage, --module driver.ko or --file program, by their paths in the tree");
    }
    let tree = Tree::open(cache, git, build).with_hint()?;
    let commits = tree.commits(good, &args.bad).with_hint()?;
    Ok(Source::Tree { tree, commits, results })
}

/// The options' files that are the tree's: those with relative paths.
fn results(machine: &Machine, counted: &Counted) -> Vec<PathBuf> {
    let kernel = [&machine.kernel, &machine.modules_from, &machine.initrd, &machine.dtb];
    let files = machine.files.iter().map(|pair| vm::here_and_there(pair).0);
    let all = kernel.into_iter().flatten().cloned().chain(files).chain(counted.modules.clone());
    all.filter(|path| path.is_relative()).collect()
}

impl Source {
    fn len(&self) -> usize {
        match self {
            Self::List(kernels) => kernels.len(),
            Self::Tree { commits, .. } => commits.len(),
        }
    }

    /// Name, and first line of the message.
    fn name(&self, position: usize) -> (String, String) {
        match self {
            Self::List(kernels) => (kernels[position].clone(), String::new()),
            Self::Tree { commits, .. } => {
                let commit = &commits[position];
                (tree::short(&commit.id).to_owned(), commit.subject.clone())
            }
        }
    }
}

/// A candidate that was tried, and its paths if it was measured.
struct Done {
    candidate: Candidate,
    side: Option<Side>,
}

struct Search<'a> {
    args: &'a BisectArgs,
    cache: Cache,
    source: Source,
    limit: Option<f64>,
    done: Vec<Done>,
}

impl Search<'_> {
    fn run(mut self) -> anyhow::Result<(Part, Run)> {
        let last = self.source.len() - 1;
        let end = |position| {
            let measured = self.measure(position);
            measured.with_context(|| self.source.name(position).0)
        };
        let (first, end) = (end(0)?, end(last)?);
        let [a, b] = [self.deciding(&first), self.deciding(&end)];
        let rule = self.rule(a, b)?;
        self.keep(0, Ok(first), rule);
        self.keep(last, Ok(end), rule);
        let mut tried = vec![None; self.source.len()];
        (tried[0], tried[last]) = (Some(Tried::Good), Some(Tried::Bad));
        while let Some(position) = bisect::next(&tried) {
            let measured = self.measure(position);
            if signal::stop_requested().is_some() {
                return Err(anyhow!("stopped after {} of the candidates", self.done.len()));
            }
            tried[position] = Some(self.keep(position, measured, rule));
        }
        self.result()
    }

    fn rule(&self, first: u64, last: u64) -> anyhow::Result<Rule> {
        let what = self.args.function.as_deref().unwrap_or("the median path");
        let [from, to] = [0, self.source.len() - 1].map(|position| self.source.name(position).0);
        let rule = Rule::new(first, last, self.limit);
        rule.ok_or_else(|| {
            anyhow!("{what} has {first} instructions with {from} and {last} with {to}: no difference to search for")
        })
        .hint(match (self.limit, &self.args.function) {
            (Some(limit), _) => format!("{limit} % is not exceeded; without --limit each difference counts"),
            (None, None) => "--function NAME compares one function; latlab vm path MACHINE --against KERNEL shows both".into(),
            (None, Some(_)) => "latlab vm path shows the functions of the path".into(),
        })
    }

    fn deciding(&self, side: &Side) -> u64 {
        let median = &side.paths.median;
        match &self.args.function {
            Some(function) => path::own_instructions(median, function),
            None => median.instructions,
        }
    }

    /// Notes what became of a candidate, and says it.
    fn keep(&mut self, position: usize, measured: anyhow::Result<Side>, rule: Rule) -> Tried {
        let (name, subject) = self.source.name(position);
        let step = self.done.len() + 1;
        let (outcome, tried, release, side) = match measured {
            Ok(side) => {
                let deciding = self.deciding(&side);
                let bad = rule.is_bad(deciding);
                let instructions = side.paths.median.instructions;
                let outcome = CandidateOutcome::Measured { instructions, deciding, bad };
                let tried = if bad { Tried::Bad } else { Tried::Good };
                (outcome, tried, side.paths.release.clone(), Some(side))
            }
            Err(error) => {
                let reason = format_error_chain(&error).chars().take(300).collect();
                (CandidateOutcome::Skipped { reason }, Tried::Skipped, String::new(), None)
            }
        };
        let said = match &outcome {
            CandidateOutcome::Measured { deciding, bad, .. } => {
                format!("{deciding} instructions, {}", if *bad { "bad" } else { "good" })
            }
            CandidateOutcome::Skipped { reason } => format!("skipped: {reason}"),
        };
        vm::say(&format!("{name} ({} of {}): {said}", position + 1, self.source.len()));
        let candidate = Candidate { position, step, name, subject, release, outcome };
        self.done.push(Done { candidate, side });
        tried
    }

    /// Builds or fetches a candidate, and counts its wake-ups.
    fn measure(&self, position: usize) -> anyhow::Result<Side> {
        let (name, _) = self.source.name(position);
        let mut machine = self.args.machine.clone();
        let mut counted = self.args.counted.clone();
        match &self.source {
            Source::List(kernels) => {
                machine.kernel = Some(self.kernel(&kernels[position])?);
            }
            Source::Tree { tree, commits, results } => {
                vm::say(&format!("{name}: building"));
                let built = tree.build(&commits[position], results, &mut execute).with_hint()?;
                place(&built, &mut machine, &mut counted);
            }
        }
        vm_path::measure(name, &machine, &counted)
    }

    /// A file or folder, or what is unpacked of a package of this name.
    fn kernel(&self, named: &str) -> anyhow::Result<PathBuf> {
        let file = PathBuf::from(named);
        if file.exists() || named.contains('/') {
            return Ok(file);
        }
        let target = vm_count::target(&self.args.machine)?;
        let arch = catalog::find(&target.name).context("the machine was found before")?.arch;
        let _lock = self.cache.lock("fetch").with_hint()?;
        let mut archive = Archive::new(&self.cache, arch);
        match archive.cached(named) {
            Some(folder) => Ok(folder),
            None => archive
                .fetch(named, &mut vm::say)
                .with_hint()
                .context("no such file, and no package that can be fetched"),
        }
    }

    fn result(self) -> anyhow::Result<(Part, Run)> {
        let rule = (self.args.function.as_deref(), self.limit);
        let total = self.source.len();
        let candidates: Vec<Candidate> = self.done.iter().map(|d| d.candidate.clone()).collect();
        let outcomes = |position| {
            let done = self.done.iter().find(|d| d.candidate.position == position);
            done.and_then(|d| d.side.as_ref()).context("both ends were measured")
        };
        let name = &self.args.machine.machine;
        let mut detail = bisect::detail(name, rule, total, candidates, Default::default());
        let [good, bad] = detail.found;
        let [good, bad] = [outcomes(good)?, outcomes(bad)?];
        detail.paths = path::detail(vec![good.paths.clone(), bad.paths.clone()]);
        let sides = || self.done.iter().filter_map(|d| d.side.as_ref());
        let mut results: Vec<_> = sides().map(|s| path::record(&s.paths, &s.file)).collect();
        results.extend(sides().flat_map(vm_path::latencies));
        let part = Part {
            name: "bisect".into(),
            title: "First kernel with a longer path".into(),
            complete: true,
            results,
            detail: Some(Detail::Bisect(Box::new(detail))),
            ..Part::default()
        };
        Ok((part, bad.run.clone()))
    }
}

/// The options' files that are the tree's, where they were built.
fn place(built: &Path, machine: &mut Machine, counted: &mut Counted) {
    let kernel =
        [&mut machine.kernel, &mut machine.modules_from, &mut machine.initrd, &mut machine.dtb];
    for path in kernel.into_iter().flatten().chain(&mut counted.modules) {
        // An absolute one replaces the folder.
        *path = built.join(&*path);
    }
    for pair in &mut machine.files {
        let (here, there) = vm::here_and_there(pair);
        let here = built.join(here).display().to_string().replace(':', r"\:");
        *pair = format!("{here}:{there}");
    }
}

/// Runs a build. A signal that asks us to stop ends all its processes.
fn execute(command: &mut Command) -> io::Result<ExitStatus> {
    process::tie_to_us(command);
    let status = group::run(command, &mut || signal::stop_requested().is_some())?;
    status.ok_or_else(|| io::Error::new(io::ErrorKind::Interrupted, "stopped by a signal"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use crate::cli::vm::VmAction;
    use clap::Parser;

    fn args(words: &[&str]) -> BisectArgs {
        let words = ["latlab", "vm", "bisect", "armv7-rt"].iter().chain(words);
        let cli = Cli::try_parse_from(words).unwrap();
        let Some(crate::cli::Command::Vm(vm)) = cli.command else { panic!() };
        let VmAction::Bisect(args) = vm.action else { panic!() };
        args
    }

    #[test]
    fn relative_paths_are_the_trees() {
        let args = args(&[
            "--git",
            "linux",
            "--good",
            "v1",
            "--build",
            "make",
            "--kernel",
            "arch/arm/boot/zImage",
            "--dtb",
            "/boot/a.dtb",
            "--file",
            "tools/x:bin/y",
            "--module",
            "drivers/a.ko",
        ]);
        let paths: Vec<PathBuf> =
            ["arch/arm/boot/zImage", "tools/x", "drivers/a.ko"].map(Into::into).into();
        assert_eq!(results(&args.machine, &args.counted), paths);
        let (mut machine, mut counted) = (args.machine, args.counted);
        place(Path::new("/c/built:1"), &mut machine, &mut counted);
        assert_eq!(machine.kernel.unwrap(), Path::new("/c/built:1/arch/arm/boot/zImage"));
        assert_eq!(machine.dtb.unwrap(), Path::new("/boot/a.dtb"));
        assert_eq!(counted.modules, [PathBuf::from("/c/built:1/drivers/a.ko")]);
        let (here, there) = vm::here_and_there(&machine.files[0]);
        assert_eq!((here.as_path(), there.as_str()), (Path::new("/c/built:1/tools/x"), "bin/y"));
    }
}
