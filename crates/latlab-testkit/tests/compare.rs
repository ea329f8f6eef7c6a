//! `compare` on simulated pairs: false positives, power and effect sizes.

#[path = "../examples/compare-score/score.rs"]
mod score;

use latlab_model::compare::{Options, Verdict};
use latlab_testkit::latency_sim::World;
use score::{Known, judge, sample, tally};

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
