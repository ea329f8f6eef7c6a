use super::subject::Source;
use super::*;
use latlab_model::compare::{Options, Verdict};
use latlab_model::record::{Record, Unit};
use latlab_model::run::{Part, Run};
use latlab_stats::histogram::Summary;
use latlab_stats::quantile::median;

fn run(records: Vec<Record>) -> Subject {
    let run = Run {
        complete: true,
        parts: vec![Part { name: "bench".into(), results: records, ..Part::default() }],
        ..Run::default()
    };
    Subject {
        label: "x".into(),
        runs: vec![Source { file: "x".into(), run, ..Source::default() }],
        ..Subject::default()
    }
}

/// The same several times, each a little slower than the one before.
fn times(one: Subject, n: usize) -> Subject {
    let run = |i: usize| {
        let mut source = one.runs[0].clone();
        let slower = 1.0 + 0.001 * i as f64;
        for r in source.run.parts.iter_mut().flat_map(|p| &mut p.results) {
            r.samples.iter_mut().for_each(|v| *v *= slower);
        }
        source
    };
    Subject { label: one.label.clone(), runs: (0..n).map(run).collect(), ..Subject::default() }
}

#[test]
fn with_fewer_than_three_runs_a_side_these_runs_differ() {
    let values: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i)).collect();
    let slower: Vec<f64> = values.iter().map(|v| v * 1.5).collect();
    let of = |v: &[f64]| run(vec![record("syscall.read", Unit::Ns, v)]);
    for (a, b) in [(1, 1), (2, 2), (3, 1), (2, 3)] {
        let sides = [times(of(&values), a), times(of(&slower), b)];
        let d = compare(&sides, &Options::default());
        let c = &d.metrics[0].contrasts[0];
        assert_eq!((d.verdict(), c.verdict), (Verdict::RunsDiffer, Verdict::RunsDiffer), "{a} {b}");
        assert!(c.aspects[0].towards_worse);
        assert_eq!(c.notes[0].id(), Some("compare.few-runs"));
    }
    // What is equal is not called so: no interval has the variance between runs.
    let d = compare(&[of(&values), of(&values)], &Options::default());
    assert_eq!(d.verdict(), Verdict::Inconclusive);
}

fn record(name: &str, unit: Unit, samples: &[f64]) -> Record {
    let summary = Summary { count: 1, median: median(samples), ..Summary::default() };
    Record { name: name.into(), unit, samples: samples.to_vec(), summary, ..Record::default() }
}

#[test]
fn metrics_meet_by_name_and_units_must_agree() {
    let values: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i)).collect();
    let faster: Vec<f64> = values.iter().map(|v| v * 0.5).collect();
    let a = run(vec![
        record("syscall.read", Unit::Ns, &values),
        record("bw.pipe", Unit::BytesPerSecond, &values),
        record("odd", Unit::Ns, &values),
    ]);
    let b = run(vec![
        record("syscall.read", Unit::Ns, &faster),
        record("bw.pipe", Unit::BytesPerSecond, &faster),
        record("odd", Unit::Count, &values),
    ]);
    let d = compare(&[times(a, 3), times(b, 3)], &Options::default());
    let of = |n: &str| d.metrics.iter().find(|m| m.name == n).unwrap().contrasts[0].verdict;
    assert_eq!(of("syscall.read"), Verdict::Better);
    assert_eq!(of("bw.pipe"), Verdict::Worse, "half the bandwidth is worse");
    assert!(d.metrics[0].contrasts[0].notes.is_empty());
    assert_eq!(d.skipped.len(), 1);
    assert_eq!(d.skipped[0].reason.id(), Some("compare.units"));
    assert_eq!(d.verdict(), Verdict::Worse);
}

/// A parameter that only one side has contradicts nothing, unless there are many of that name. With a search through
/// all for each, the larger comparison takes minutes.
#[test]
fn metrics_of_one_name_meet_by_their_parameters() {
    let rows = |n: i64, more: &[(&str, i64)]| {
        let one = |procs: i64| {
            let params = [("procs", procs)].into_iter().chain(more.iter().copied());
            let mut r = record("ctx.ring", Unit::Ns, &[5.0, 6.0, 7.0]);
            r.params = params.map(|(k, v)| (k.to_owned(), v.into())).collect();
            r
        };
        run((0..n).map(one).collect())
    };
    let metrics = |n: i64, more: &[(&str, i64)]| {
        let d = compare(&[rows(n, &[]), rows(n, more)], &Options::default());
        (d.metrics.len(), d.skipped.len())
    };
    assert_eq!(metrics(3, &[]), (3, 0));
    assert_eq!(metrics(3, &[("size", 64)]), (3, 0));
    assert_eq!(metrics(20_000, &[]), (20_000, 0));
    assert_eq!(metrics(300, &[("size", 64)]), (0, 300));
}

#[test]
fn a_published_machine_has_figures_and_no_spread() {
    let reference = latlab_model::reference::find("beaglebone-black-2015").unwrap();
    let here = run(vec![record("syscall.getppid", Unit::Ns, &[170.0, 171.0, 169.0])]);
    let d = compare(&[Subject::of_reference(reference), here], &Options::default());
    let c = &d.metrics[0].contrasts[0];
    assert_eq!(c.verdict, Verdict::Inconclusive);
    assert_eq!((c.aspects[0].low, c.aspects[0].high), (0.0, 0.0));
    assert_eq!(d.subjects[0].notes[0].id(), Some("compare.reference"));
}

#[test]
fn published_tables_stand_beside_minimum_mean_and_maximum_of_a_run() {
    let reference = latlab_model::reference::find("am5728-xenomai").unwrap();
    let mut wakeups = record("wakeup", Unit::Ns, &[]);
    wakeups.histogram = Some(latlab_stats::histogram::Histogram::of([1_000, 2_000, 6_000]));
    let here = run(vec![wakeups]);
    let d = compare(&[Subject::of_reference(reference), here], &Options::default());
    let (theirs, ours): (Vec<_>, Vec<_>) = d.figures.iter().partition(|f| f.subject == 0);
    assert_eq!(theirs.len(), 10);
    let loaded = theirs.iter().find(|f| f.what.starts_with("user task; with --vm 2")).unwrap();
    assert_eq!((loaded.max, loaded.sd), (Some(30_918.0), Some(626.0)));
    assert_eq!((ours[0].min, ours[0].mean, ours[0].max), (Some(1e3), Some(3e3), Some(6e3)));
    assert!((ours[0].sd.unwrap() - 2645.75).abs() < 5.0, "{ours:?}");
}

#[test]
fn nothing_in_common_is_no_metric() {
    let a = run(vec![record("a", Unit::Ns, &[1.0])]);
    let b = run(vec![record("b", Unit::Ns, &[1.0])]);
    assert!(compare(&[a, b], &Options::default()).metrics.is_empty());
    assert!(compare(&[], &Options::default()).metrics.is_empty());
}
