use super::simulate::{Known, World, judge, sample, tally};
use super::subject::Source;
use super::*;
use latlab_model::compare::{Options, Verdict};
use latlab_model::record::{Record, Unit};
use latlab_model::run::{Part, Run};
use latlab_stats::histogram::Summary;
use latlab_stats::quantile::median;

#[test]
fn equal_worlds_are_seldom_called_different() {
    // The thousand pairs of the documentation are the example `compare-score`; these guard them.
    for known in [Known::Samples, Known::Stretches, Known::Nothing] {
        let t = tally(&World::default(), 8_000, 1.0, 40, known);
        assert!(t.claims <= 5, "{known:?}: {} of 40", t.claims);
    }
}

#[test]
fn what_is_worse_is_called_worse_and_the_power_is_as_stated() {
    let t = tally(&World::default(), 10_000, 2.0, 60, Known::Samples);
    let (seen, stated) = (t.seen as f64 / 60.0, t.stated / 60.0);
    assert!((seen - stated).abs() < 0.16, "seen {seen}, stated {stated}");
    assert!(t.worse >= t.seen, "{t:?}");
    let far = tally(&World::default(), 20_000, 6.0, 8, Known::Stretches);
    assert_eq!(far.worse, 8);
}

#[test]
fn a_shifted_median_is_worse_by_about_its_shift() {
    let world = World::default();
    let slower = World { median: world.median * 1.2, ..world };
    let options = Options::default();
    let c = judge(
        sample(&world, 20_000, 1, Known::Samples),
        sample(&slower, 20_000, 2, Known::Samples),
        &options,
    );
    assert_eq!(c.verdict, Verdict::Worse);
    let m = &c.aspects[0];
    assert!((0.19..0.21).contains(&m.change) && m.low > 0.17 && m.high < 0.23, "{m:?}");
    assert!(m.quantile == Some(0.5) && (15_000.0..16_000.0).contains(&m.a), "{m:?}");
    let back = judge(
        sample(&slower, 20_000, 2, Known::Samples),
        sample(&world, 20_000, 1, Known::Samples),
        &options,
    );
    assert_eq!(back.verdict, Verdict::Better);
}

fn run(records: Vec<Record>) -> Subject {
    let run = Run {
        complete: true,
        parts: vec![Part { name: "bench".into(), results: records, ..Part::default() }],
        ..Run::default()
    };
    Subject { label: "x".into(), runs: vec![Source { file: "x".into(), run, ..Source::default() }] }
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
    let d = compare(&[a, b], &Options::default());
    let of = |n: &str| d.metrics.iter().find(|m| m.name == n).unwrap().contrasts[0].verdict;
    assert_eq!(of("syscall.read"), Verdict::Better);
    assert_eq!(of("bw.pipe"), Verdict::Worse, "half the bandwidth is worse");
    assert_eq!(d.skipped.len(), 1);
    assert_eq!(d.skipped[0].reason.id(), Some("compare.units"));
    assert_eq!(d.verdict(), Verdict::Worse);
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
fn nothing_in_common_is_no_metric() {
    let a = run(vec![record("a", Unit::Ns, &[1.0])]);
    let b = run(vec![record("b", Unit::Ns, &[1.0])]);
    assert!(compare(&[a, b], &Options::default()).metrics.is_empty());
    assert!(compare(&[], &Options::default()).metrics.is_empty());
}

#[test]
fn short_runs_say_how_much_longer_they_should_be() {
    let world = World::default();
    let options = Options { limit: Some(45_000.0), ..Options::default() };
    let c = judge(
        sample(&world, 4_000, 5, Known::Samples),
        sample(&world, 4_000, 6, Known::Samples),
        &options,
    );
    assert_eq!(c.verdict, Verdict::Inconclusive);
    let Some(latlab_model::finding::Note::Typed(power)) = &c.power else { panic!("{c:?}") };
    assert_eq!(power.id, "compare.double-too-short");
    assert!(power.values.contains_key("factor") && !power.values.contains_key("needed"));
    let rate = c.aspects.iter().find(|a| a.is_rate).unwrap();
    assert!(rate.longer.unwrap() > 1.0 && rate.power_of_double.unwrap() < 0.8);
}
