//! `latlab bench`: micro-benchmarks.

mod each;
pub mod network;
#[cfg(feature = "host")]
mod serve;

use crate::cli::{Global, bench::Args};
use crate::outcome::{HintExt, Outcome};
use crate::progress::Progress;
use crate::session::Session;
use crate::term;
use anyhow::{Context, anyhow};
use latlab_analysis::bench::summary::{Measured, part, so_far};
use latlab_analysis::bench::{control_workload, findings, kernel_switch};
use latlab_analysis::reference;
use latlab_model::bench::trial::{SliceReply, SliceSpec};
use latlab_model::bench::{BenchDetail, Missing};
use latlab_model::finding::Finding;
use latlab_model::machine::Moment;
use latlab_model::reference::Reference;
use latlab_model::run::{Detail, Part, Run};
use latlab_report::dialect::lmbench;
use latlab_report::doc::{Column, Table};
use latlab_sys::harness::runner::StopRule;
use latlab_sys::harness::{meter, runner, trial};
use latlab_sys::probe::registry::{self, Instance, SelectError};
use latlab_sys::probe::{Spec, Suite, TraceAnalysis};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// What evaluates the traces of probes that record one.
const TRACE_ANALYSIS: TraceAnalysis = TraceAnalysis {
    switch_cost: kernel_switch::switch_cost,
    alternation: kernel_switch::alternation,
};

/// Time that the default suite may take.
const DEFAULT_BUDGET: Duration = Duration::from_secs(50);
/// Time that the full suite may take.
const FULL_BUDGET: Duration = Duration::from_secs(330);
/// Time for each figure, where names are given.
const EACH_BUDGET: Duration = Duration::from_millis(1500);

/// What the options came to.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// Probes with their parameters.
    pub probes: Vec<String>,
    /// Seconds at the most.
    pub budget_s: f64,
    /// Half the 95% interval as a share of the median that is sure enough.
    pub target: f64,
    /// The CPU, unless it is the scheduler's choice.
    pub cpu: Option<u32>,
    /// CPUs on which the same is measured at the same time; empty: on one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<u32>,
    /// Order of the slices.
    pub seed: u64,
    /// Where files are made.
    pub dir: PathBuf,
    #[serde(skip)]
    instances: Vec<Instance>,
}

/// A signal came so early.
const NOTHING: &str = "stopped before the first result";

/// Runs the command.
pub fn run(global: &Global, options: &Args) -> anyhow::Result<Outcome> {
    if let Some(json) = &options.slice {
        return one_slice(json);
    }
    if options.list {
        return list(global, &options.names);
    }
    if options.against.iter().any(|a| a == "list") {
        return list_references();
    }
    #[cfg(feature = "host")]
    if let Some(place) = &options.serve {
        let cpu = options.cpu.as_deref().map(|cpu| choose_cpu(Some(cpu))).transpose()?;
        return serve::serve(place, cpu.flatten(), options.duration);
    }
    let references = references(&options.against)?;
    let mut config = config(options)?;
    network::find_peers(&mut config.instances)?;
    #[cfg(feature = "host")]
    check_disks(&config.instances)?;
    let mut session = Session::begin(global, "bench", &config)?;
    if let Some(number) = options.each {
        let place = (config.cpu, config.dir.as_path());
        let measured =
            each::measure(&worker()?, &config.instances, place, number, options.duration);
        let (part, stopped) = match measured {
            Ok(measured) => measured,
            Err(error) => return session.abandon(error),
        };
        if stopped.is_some() && part.results.is_empty() {
            return session.abandon(anyhow!(NOTHING));
        }
        let lost = each::lost(&part);
        session.run.parts.push(part);
        return failed_if(lost, session.finish(stopped)?);
    }
    let mut progress = Progress::new("bench");
    let (mut part, stopped) = measure(&config, &mut |p| {
        progress.set(Some(p.done), &format!("round {} {}", p.round, p.name));
    })?;
    drop(progress);
    if stopped.is_some() && part.results.is_empty() {
        return session.abandon(anyhow!(NOTHING));
    }
    if let Some(Detail::Bench(detail)) = &mut part.detail {
        if let Err(error) = wrong_parameter(detail) {
            return session.abandon(error);
        }
        detail.against = references.iter().map(|r| reference::compare(&part.results, r)).collect();
    }
    let of = |is: fn(&Finding) -> bool| {
        part.findings.iter().find(|f| is(f)).map(latlab_report::messages::claim)
    };
    let (impossible, lost) = (of(findings::is_failure), of(findings::is_cut_short));
    session.run.parts.push(part);
    let outcome = match options.format.as_str() {
        "text" => session.finish(stopped),
        format => session.finish_with(stopped, |run, out| in_format(format, run, out)),
    }?;
    match impossible {
        None => failed_if(lost, outcome),
        Some(claim) => Err(anyhow!("{claim}"))
            .hint("an impossible result shows an error of the measurement; do not use this run"),
    }
}

/// An error where wrong parameters left nothing to measure.
fn wrong_parameter(detail: &BenchDetail) -> anyhow::Result<()> {
    let Some(first) = detail.missing.first().filter(|_| detail.rows.is_empty()) else {
        return Ok(());
    };
    let is_wrong =
        |m: &Missing| m.reason.as_ref().is_some_and(|r| r.id() == Some("probe.parameter"));
    match (&first.reason, detail.missing.iter().all(is_wrong)) {
        (Some(reason), true) => {
            Err(anyhow!("{}: {}", first.name, latlab_report::messages::note(reason)))
                .hint("latlab bench --list NAME shows the parameters of a probe")
        }
        _ => Ok(()),
    }
}

/// What cannot be read as a disk is told before anything is measured.
#[cfg(feature = "host")]
fn check_disks(instances: &[Instance]) -> anyhow::Result<()> {
    let paths: std::collections::BTreeSet<&String> =
        instances.iter().filter_map(|i| i.params.get("path")).collect();
    for path in paths {
        latlab_sys::probe::disk::check(path)
            .map_err(|e| anyhow!("{}", latlab_report::messages::note(&e.reason())))?;
    }
    Ok(())
}

/// An error for a measurement that ended before its time, whose run is saved.
fn failed_if(lost: Option<String>, outcome: Outcome) -> anyhow::Result<Outcome> {
    match lost {
        None => Ok(outcome),
        Some(claim) => Err(anyhow!("{claim}")).hint("what was measured before is in the run"),
    }
}

fn in_format(format: &str, run: &Run, out: &mut dyn Write) -> anyhow::Result<()> {
    for part in &run.parts {
        if let Some(Detail::Bench(detail)) = &part.detail {
            match format {
                "csv" => lmbench::csv(detail, out)?,
                _ => lmbench::write(detail, out)?,
            }
        }
    }
    Ok(())
}

fn references(names: &[String]) -> anyhow::Result<Vec<&'static Reference>> {
    (names.iter())
        .map(|name| {
            latlab_model::reference::find(name)
                .ok_or_else(|| anyhow!("no published machine of the name \"{name}\""))
                .hint("latlab bench --against list names them")
        })
        .collect()
}

fn list_references() -> anyhow::Result<Outcome> {
    let mut out = term::raw_stdout();
    let of = |r: &latlab_model::reference::Reference| {
        [r.id, r.machine, r.source].map(str::to_owned).into()
    };
    let rows = latlab_model::reference::REFERENCES.iter().map(of).collect();
    let columns = vec![Column::whole("name"), Column::left("machine"), Column::left("source")];
    crate::output::table(Table { columns, rows, ..Table::default() }, &mut out)?;
    out.flush()?;
    Ok(Outcome::Done)
}

/// The command that measures a slice, which is its last argument.
fn worker() -> anyhow::Result<Vec<String>> {
    let program = crate::program::own_program()?.to_string_lossy().into_owned();
    Ok(vec![program, "bench".into(), "--slice".into()])
}

/// Measures as configured; for `bench` itself and for `survey`.
///
/// # Errors
/// When no directory for files can be made, or this program cannot find itself.
pub fn measure(
    config: &Config,
    progress: &mut dyn FnMut(runner::Progress<'_>),
) -> anyhow::Result<(Part, Option<String>)> {
    let plan = runner::Plan {
        instances: config.instances.clone(),
        target: config.target,
        budget: Duration::from_secs_f64(config.budget_s),
        seed: config.seed,
        batch_ns: 500_000,
        batches: 11,
        limit_ns: 60_000_000,
        cpu: config.cpu,
        copies: config.copies.clone(),
        dir: config.dir.clone(),
        stop: StopRule {
            level: control_workload::level,
            threshold_ns: control_workload::control_limit_ns,
            estimate: so_far,
        },
        worker: worker()?,
    };
    let start = meter::now_ns();
    let mut moments = Moments::default();
    let conducted = runner::run(&plan, &mut |p| {
        moments.look(p.round, start);
        progress(p);
    })
    .with_context(|| format!("no directory for files in {}", config.dir.display()))
    .hint("name one that can be written to with --dir")?;
    let length_ns = meter::now_ns() - start;
    let stopped = conducted.stopped;
    let measured = (plan.instances.iter().zip(conducted.outcomes))
        .map(|(instance, outcome)| Measured {
            name: instance.spec.name.to_owned(),
            params: instance.params.clone(),
            unit: instance.spec.unit,
            what: instance.spec.what.to_owned(),
            cpu: config.cpu,
            slices: outcome.slices,
            given_up: outcome.given_up,
            target_met: outcome.target_met,
        })
        .collect();
    let mut part = part(measured, config.target, length_ns, config.seed);
    if let Some(Detail::Bench(detail)) = &mut part.detail {
        detail.conditions = moments.all;
    }
    part.findings.extend(findings::traced(&conducted.traced));
    part.findings.extend(findings::shared(config.cpu, conducted.others));
    part.complete = stopped.is_none();
    Ok((part, stopped.map(|s| s.name())))
}

/// The machine at the beginning of rounds.
#[derive(Default)]
struct Moments {
    all: Vec<Moment>,
    round: usize,
    /// Each so manieth round is kept.
    every: usize,
    /// None before this time: reading the clock of each of many CPUs takes a while.
    next_ns: u64,
}

impl Moments {
    /// Moments at most.
    const MOST: usize = 400;

    fn look(&mut self, round: usize, start_ns: u64) {
        self.every = self.every.max(1);
        let now = meter::now_ns();
        if round == self.round || !round.is_multiple_of(self.every) || now < self.next_ns {
            return;
        }
        self.round = round;
        let seconds = now.saturating_sub(start_ns) as f64 / 1e9;
        self.all.push(Moment { seconds, condition: latlab_sys::machine::condition() });
        // At most 1 % of the time.
        let end = meter::now_ns();
        self.next_ns = end + 99 * end.saturating_sub(now);
        if self.all.len() == Self::MOST {
            let mut n = 0;
            self.all.retain(|_| {
                n += 1;
                n % 2 == 0
            });
            self.every *= 2;
        }
    }
}

/// The configuration of a suite with its usual budget.
///
/// # Errors
/// When this process may run on no CPU.
pub fn suite(full: bool) -> anyhow::Result<Config> {
    let (which, budget) =
        if full { (Suite::Full, FULL_BUDGET) } else { (Suite::Default, DEFAULT_BUDGET) };
    configure(registry::suite(which), budget, 0.01, None, None, None)
}

fn config(options: &Args) -> anyhow::Result<Config> {
    let which = if options.full { Suite::Full } else { Suite::Default };
    let (instances, budget) = if options.names.is_empty() && options.host.is_none() {
        (registry::suite(which), if options.full { FULL_BUDGET } else { DEFAULT_BUDGET })
    } else {
        let network = || registry::all().filter(|s| s.has("host")).map(|s| s.name.to_owned());
        let found = match options.names.as_slice() {
            [] => select(&network().collect::<Vec<_>>(), which, options.host.as_deref())?,
            names => select(names, which, options.host.as_deref())?,
        };
        let usual = EACH_BUDGET * u32::try_from(found.len()).unwrap_or(u32::MAX);
        (found, usual.max(Duration::from_secs(2)))
    };
    if !(0.01..=100.0).contains(&options.precision) {
        return Err(anyhow!("--precision {}: from 0.01 to 100 %", options.precision));
    }
    let budget = options.duration.unwrap_or(budget);
    let target = options.precision / 100.0;
    let (cpu, dir) = (options.cpu.as_deref(), options.dir.clone());
    let config = configure(instances, budget, target, cpu, options.seed, dir)?;
    #[cfg(feature = "host")]
    if let Some(parallel) = options.parallel.filter(|n| *n > 1) {
        return with_copies(config, parallel);
    }
    Ok(config)
}

/// The same with copies of each trial, one on each of so many CPUs.
#[cfg(feature = "host")]
fn with_copies(mut config: Config, parallel: usize) -> anyhow::Result<Config> {
    let allowed = latlab_sys::policy::allowed().context("sched_getaffinity")?;
    let Some(own) = config.cpu else {
        return Err(anyhow!("--parallel with --affinity any: each copy is bound to a CPU"))
            .hint("leave out --affinity, or name the CPU of the first copy");
    };
    let others = allowed.iter().map(|c| c.0).filter(|&c| c != own);
    config.copies = std::iter::once(own).chain(others).take(parallel).collect();
    if config.copies.len() < parallel {
        return Err(anyhow!(
            "--parallel {parallel}: this process may run on {} CPUs",
            config.copies.len()
        ))
        .hint("copies beyond that would wait for a CPU, and measure the scheduler");
    }
    for instance in &mut config.instances {
        instance.params.insert("parallel".to_owned(), parallel.to_string());
    }
    config.probes = probe_labels(&config.instances);
    Ok(config)
}

fn probe_labels(instances: &[Instance]) -> Vec<String> {
    instances.iter().map(|i| latlab_model::bench::label(i.spec.name, &i.params)).collect()
}

fn select(names: &[String], which: Suite, host: Option<&str>) -> anyhow::Result<Vec<Instance>> {
    hinted(registry::select(names, which, host))
}

fn hinted<T>(selected: Result<T, SelectError>) -> anyhow::Result<T> {
    selected.map_err(|e| {
        let hint = e.hint();
        Err::<(), _>(anyhow!(e)).hint(hint).unwrap_err()
    })
}

/// The configuration of a selection.
///
/// # Errors
/// When the CPU is none that this process may run on.
pub(super) fn configure(
    instances: Vec<Instance>,
    budget: Duration,
    target: f64,
    cpu: Option<&str>,
    seed: Option<u64>,
    dir: Option<PathBuf>,
) -> anyhow::Result<Config> {
    Ok(Config {
        probes: probe_labels(&instances),
        budget_s: budget.as_secs_f64(),
        target,
        cpu: choose_cpu(cpu)?,
        copies: Vec::new(),
        // Any number will do; it is written into the run, so that the order can be had again.
        seed: seed.unwrap_or_else(meter::now_ns),
        dir: dir.unwrap_or_else(std::env::temp_dir),
        instances,
    })
}

fn choose_cpu(asked: Option<&str>) -> anyhow::Result<Option<u32>> {
    let allowed = latlab_sys::policy::allowed().context("sched_getaffinity")?;
    let allowed: Vec<u32> = allowed.iter().map(|c| c.0).collect();
    match asked {
        Some("any") => Ok(None),
        None => Ok(allowed.last().copied()),
        Some(text) => {
            let cpu: u32 = text
                .parse()
                .map_err(|_| anyhow!("--affinity {text}: a CPU's number, or \"any\""))?;
            if !allowed.contains(&cpu) {
                let names: Vec<String> = allowed.iter().map(u32::to_string).collect();
                return Err(anyhow!("this process may not run on CPU {cpu}"))
                    .hint(format!("it may run on {}", names.join(", ")));
            }
            Ok(Some(cpu))
        }
    }
}

fn one_slice(json: &str) -> anyhow::Result<Outcome> {
    let spec: SliceSpec = serde_json::from_str(json).context("--slice")?;
    let reply: SliceReply = trial::run(&spec, TRACE_ANALYSIS);
    let mut out = term::stdout();
    serde_json::to_writer(&mut out, &reply)?;
    writeln!(out)?;
    out.flush()?;
    Ok(Outcome::Done)
}

fn list(global: &Global, names: &[String]) -> anyhow::Result<Outcome> {
    let mut specs: Vec<&Spec> = registry::all().collect();
    if !names.is_empty() {
        let named = hinted(registry::specs(names))?;
        specs.retain(|spec| named.contains(&spec.name));
    }
    let mut out = term::raw_stdout();
    if global.json {
        let rows: Vec<_> = specs.iter().map(|s| listed(s)).collect();
        crate::output::json(&rows, &mut out)?;
    } else {
        for table in tables(&specs, term::details()) {
            crate::output::table(table, &mut out)?;
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// Probes by family; with `details`, what each measures, and its parameters.
fn tables(specs: &[&Spec], details: bool) -> Vec<Table> {
    let table = |caption: &str, heads: &[&str], rows| Table {
        caption: caption.into(),
        columns: heads.iter().copied().map(Column::left).collect(),
        rows,
    };
    // The board build, which is limited in size, prints all of it.
    if !details && cfg!(feature = "host") {
        let caption = "Probes, selected as FAMILY or FAMILY.PROBE; *: measured with --full or by name. \
                       --details: what each measures, its parameters and its name in lmbench.";
        return vec![table(caption, &["family", "probes"], families(specs))];
    }
    let heads = ["probe", "suite", "lmbench", "measures"];
    let caption = "Probes; full: measured with --full or by name; by name: in no suite";
    let probes = table(caption, &heads, specs.iter().map(|s| probe(s)).collect());
    let heads = ["probe", "parameter", "meaning", "values"];
    vec![probes, table("Parameters", &heads, specs.iter().flat_map(|s| parameters(s)).collect())]
}

/// The families with the names of their probes.
fn families(specs: &[&Spec]) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for spec in specs {
        let (family, probe) = spec.name.split_once('.').unwrap_or((spec.name, ""));
        let mark = if spec.suite == Suite::Default { "" } else { "*" };
        match rows.iter_mut().find(|row| row[0] == family) {
            Some(row) => row[1] += &format!(" {probe}{mark}"),
            None => rows.push(vec![family.to_owned(), format!("{probe}{mark}")]),
        }
    }
    rows
}

fn probe(s: &Spec) -> Vec<String> {
    let suite = if s.suite == Suite::Default { "" } else { suite_name(s) };
    [s.name, suite, s.lmbench, s.what].map(str::to_owned).into()
}

/// The suites that a probe is in.
fn suite_name(s: &Spec) -> &'static str {
    match s.suite {
        Suite::Default => "default",
        Suite::Full => "full",
        Suite::Named => "by name",
    }
}

fn parameters(s: &Spec) -> impl Iterator<Item = Vec<String>> {
    s.params.iter().map(|p| {
        let values = if p.full.is_empty() { p.default } else { p.full };
        vec![s.name.into(), p.name.into(), p.what.into(), values.join(" ")]
    })
}

fn listed(s: &Spec) -> serde_json::Value {
    let params: Vec<_> = (s.params.iter())
        .map(|p| {
            serde_json::json!({
                "name": p.name, "what": p.what, "default": p.default,
                "full": if p.full.is_empty() { p.default } else { p.full },
            })
        })
        .collect();
    serde_json::json!({
        "name": s.name, "what": s.what, "unit": s.unit, "lmbench": s.lmbench,
        "suite": suite_name(s), "params": params,
    })
}
