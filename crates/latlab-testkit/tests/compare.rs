//! `compare` on simulated pairs: false positives, power and effect sizes.

#[path = "../examples/compare-score/score.rs"]
mod score;

use latlab_model::compare::{Options, Verdict};
use latlab_testkit::latency_sim::World;
use score::{Known, judge, repeated, sample, tally};

#[test]
fn equal_worlds_are_seldom_called_different() {
    // The thousand pairs of the documentation are the example `compare-score`; these guard them. Of 200 pairs
    // at a level of 5 %, 17 or more are different with a probability of 3 %, of 10 % with one of 80 %.
    for known in [Known::Samples, Known::Stretches, Known::Nothing] {
        let t = tally(&World::default(), 4_000, 1.0, 200, known);
        assert!(t.claims <= 16, "{known:?}: {} of 200", t.claims);
    }
}

#[test]
fn what_varies_from_run_to_run_is_no_difference_of_the_sides() {
    let few = World { cluster: 3.0, ..World::default() };
    for between in [0.0, 0.1] {
        let v = repeated(&few, 1_500, (3, between), 1.0, 200);
        assert!(v.claims <= 16, "{between}: {v:?}");
    }
    // Without the variance between runs, "no difference" is said; with it, three runs do not exclude 10 %.
    assert_eq!(repeated(&few, 1_500, (3, 0.1), 1.0, 60).equal, 0);
    let seen = repeated(&few, 1_500, (6, 0.02), 1.3, 40);
    assert!(seen.worse >= 38 && seen.claims == seen.worse, "{seen:?}");
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
        vec![sample(&world, 20_000, 1, Known::Samples)],
        vec![sample(&slower, 20_000, 2, Known::Samples)],
        &options,
    );
    // One run a side: it is said of the runs.
    assert_eq!(c.verdict, Verdict::RunsDiffer);
    let m = &c.aspects[0];
    assert!((0.19..0.21).contains(&m.change) && m.low > 0.17 && m.high < 0.23, "{m:?}");
    assert!(m.quantile == Some(0.5) && (15_000.0..16_000.0).contains(&m.a), "{m:?}");
    assert!(m.towards_worse);
    let three = |world: &World, seed: u64| -> Vec<_> {
        (0..3).map(|i| sample(world, 8_000, seed + i, Known::Samples)).collect()
    };
    let c = judge(three(&world, 10), three(&slower, 20), &options);
    assert_eq!(c.verdict, Verdict::Worse);
    let back = judge(three(&slower, 20), three(&world, 10), &options);
    assert_eq!(back.verdict, Verdict::Better);
}

#[test]
fn short_runs_say_how_much_longer_they_should_be() {
    let world = World::default();
    let options = Options { limit: Some(45_000.0), ..Options::default() };
    let c = judge(
        vec![sample(&world, 4_000, 5, Known::Samples)],
        vec![sample(&world, 4_000, 6, Known::Samples)],
        &options,
    );
    assert_eq!(c.verdict, Verdict::Inconclusive);
    let Some(latlab_model::finding::Note::Typed(power)) = &c.power else { panic!("{c:?}") };
    assert_eq!(power.id, "compare.double-too-short");
    assert!(power.values.contains_key("factor") && !power.values.contains_key("needed"));
    let rate = c.aspects.iter().find(|a| a.is_rate).unwrap();
    assert!(rate.longer.unwrap() > 1.0 && rate.power_of_double.unwrap() < 0.8);
}
