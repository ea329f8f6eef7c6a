//! `latlab compare`: reads both sides, compares, shows, and says by its exit code what CI wants to know.

pub mod read;

use crate::cli::Global;
use crate::cli::compare::{Args, FailIf};
use crate::outcome::{HintExt, Outcome};
use crate::rundir::write_asked;
use crate::session::Session;
use anyhow::anyhow;
use latlab_analysis::compare;
use latlab_analysis::compare::subject::Subject;
use latlab_analysis::compare::verdict::quantity;
use latlab_model::compare::{Aspect, CompareDetail, Contrast, Metric, Verdict};
use latlab_model::finding::{Confidence, Evidence, Finding, Quantity, Severity as Weight};
use latlab_model::run::{Detail, Part, Run};
use latlab_report::{html, junit, markdown, messages, sections};

/// Runs the command.
///
/// # Errors
/// When a file cannot be read or understood, or nothing is comparable.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let options = args.options()?;
    let mut subjects = subjects(args)?;
    compare::loads::add(&mut subjects);
    for s in &mut subjects {
        keep_only(s, &args.only);
    }
    let detail = compare::compare(&subjects, &options);
    if detail.metrics.is_empty() && !has_published_beside_measured(&detail) {
        return Err(nothing_in_common(&subjects, &detail));
    }
    let failed = args.fail_if.is_some_and(|what| fails(&detail, what, args.allow_single));
    let mut session = Session::begin_ephemeral(global, "compare", &options)?;
    session.run.parts.push(part(detail));
    let json = global.json;
    let outcome = session.finish_with(None, |run, out| {
        write_files(args, run)?;
        if json {
            crate::output::json(run, out)?
        } else {
            crate::output::text(run, out)?
        }
        Ok(())
    })?;
    Ok(outcome.exceeded_if(failed))
}

/// Whether a published table and a measured distribution can stand beside each other.
fn has_published_beside_measured(detail: &CompareDetail) -> bool {
    let any = |published: bool| detail.figures.iter().any(|f| f.count.is_none() == published);
    any(true) && any(false)
}

/// Whether `--fail-if` applies. Of fewer than three runs a side only with `--allow-single`.
fn fails(detail: &CompareDetail, what: FailIf, allow_single: bool) -> bool {
    let contrasts = || detail.metrics.iter().flat_map(|m| &m.contrasts);
    let single = |a: &Aspect| allow_single && a.verdict == Verdict::RunsDiffer;
    contrasts().any(|c| match what {
        FailIf::Worse => {
            c.verdict == Verdict::Worse || c.aspects.iter().any(|a| single(a) && a.towards_worse)
        }
        FailIf::Different => {
            matches!(c.verdict, Verdict::Worse | Verdict::Better) || c.aspects.iter().any(single)
        }
    })
}

fn subjects(args: &Args) -> anyhow::Result<Vec<Subject>> {
    if !args.base.is_empty() {
        return Ok(vec![read::group("base", &args.base)?, read::group("new", &args.new)?]);
    }
    if args.runs.len() < 2 {
        return Err(anyhow!("at least two runs are needed, {} given", args.runs.len()))
            .hint("latlab compare A B; or many files a side: latlab compare --base a/* --new b/*");
    }
    if args.runs.len() > 26 {
        return Err(anyhow!("{} runs: at most 26 can be compared", args.runs.len()))
            .hint("latlab compare --base … --new … puts many files on each side");
    }
    args.runs.iter().map(|p| read::one(p)).collect()
}

/// Drops every record that no `--only` names. Indices of samples move with them.
fn keep_only(subject: &mut Subject, only: &[String]) {
    if only.is_empty() {
        return;
    }
    for source in &mut subject.runs {
        for part in &mut source.run.parts {
            for record in &mut part.results {
                if !only.iter().any(|o| record.name.contains(o.as_str())) {
                    // Emptied, not removed: rows of the detail are found by index.
                    record.name.clear();
                }
            }
        }
    }
}

fn nothing_in_common(subjects: &[Subject], detail: &CompareDetail) -> anyhow::Error {
    let names = |s: &Subject| {
        let mut names: Vec<&str> =
            s.runs.iter().flat_map(|r| r.run.records().map(|(_, r)| r.name.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        let shown = names.iter().filter(|n| !n.is_empty()).take(6).copied().collect::<Vec<_>>();
        let shown = if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") };
        format!("{} has {shown}", s.label)
    };
    let mut words: Vec<String> = subjects.iter().map(names).collect();
    words.extend(
        detail
            .skipped
            .iter()
            .take(4)
            .map(|s| format!("{}: {}", s.metric, messages::note(&s.reason))),
    );
    let error = anyhow!("nothing to compare: {}", words.join("; "));
    let hint = "compare results of the same benchmark in the same unit";
    match Err::<(), _>(error).hint(hint) {
        Err(error) => error,
        Ok(()) => anyhow!("nothing to compare"),
    }
}

fn part(detail: CompareDetail) -> Part {
    Part {
        name: "compare".into(),
        title: "Comparison".into(),
        complete: true,
        findings: findings(&detail),
        detail: Some(Detail::Compare(Box::new(detail))),
        ..Part::default()
    }
}

/// One finding for each metric that is worse, or of which these runs differ: what scripts look for.
fn findings(detail: &CompareDetail) -> Vec<Finding> {
    let mut out = Vec::new();
    for m in &detail.metrics {
        for c in &m.contrasts {
            let (id, weight, confidence) = match c.verdict {
                Verdict::Worse => ("compare.worse", Weight::Info, Confidence::High),
                Verdict::RunsDiffer => {
                    ("compare.runs-differ", Weight::Inconclusive, Confidence::Low)
                }
                Verdict::Better | Verdict::NoDifference | Verdict::Inconclusive => continue,
            };
            out.push(differing(Finding::typed(id, weight, confidence), m, c, detail));
        }
    }
    out
}

/// The aspect that changed most stands for all of the contrast.
fn differing(finding: Finding, m: &Metric, c: &Contrast, detail: &CompareDetail) -> Finding {
    let of = c.aspects.iter().filter(|a| a.verdict == c.verdict);
    let subject = detail.subjects.get(c.other).map_or("", |s| s.letter.as_str());
    let mut finding = finding
        .value("metric", &m.label)
        .value("subject", subject)
        .value("aspects", Quantity::Count(of.clone().count() as u64));
    if let Some(a) = of.max_by(|a, b| a.change.abs().total_cmp(&b.change.abs())) {
        let share = |v: f64| if a.is_rate { Quantity::Ratio(v) } else { quantity(v, m.unit) };
        finding = finding
            .value_if("quantile", a.quantile.map(Quantity::Number))
            .value_if("limit", a.limit.map(|l| quantity(l, m.unit)))
            .value("before", share(a.a))
            .value("after", share(a.b))
            .value("change", Quantity::Ratio(a.change))
            .value("low", Quantity::Ratio(a.low))
            .value("high", Quantity::Ratio(a.high));
    }
    for d in &detail.machines {
        finding = finding.with(Evidence::new(d.what.clone(), d.values.clone()));
    }
    finding
}

fn write_files(args: &Args, run: &Run) -> anyhow::Result<()> {
    let detail = run.parts.iter().find_map(|p| match &p.detail {
        Some(Detail::Compare(d)) => Some(&**d),
        _ => None,
    });
    if let (Some(path), Some(detail)) = (&args.junit, detail) {
        write_asked(path, "--junit", |mut out| junit::comparison(detail, &run.started, &mut out))?;
    }
    if let Some(path) = &args.markdown {
        write_asked(path, "--markdown", |mut out| {
            markdown::render(&sections::brief(run), &mut out)
        })?;
    }
    if let Some(path) = &args.html {
        write_asked(path, "--html", |mut out| {
            html::render(&sections::page::of_run(run), &mut out)
        })?;
    }
    Ok(())
}
