use super::analyse::analyse;
use latlab_model::sweep::Analysis;
use latlab_model::sweep::axis::Value;
use latlab_testkit::sweep_sim::{Surface, is_right, plan, points};

const STUDY: Surface =
    Surface { unloaded: 16_000.0, alloc: 2.0, keep: 1.0, knee: Some((6, 8)), noise: 0.12 };

/// The analysis of a simulated sweep.
fn sweep(surface: &Surface, seed: u64) -> Analysis {
    let plan = plan(seed);
    analyse(&plan, &points(surface, &plan, seed), &[("L2".into(), 1_048_576.0)])
}

#[test]
fn known_knees_are_found_and_none_is_invented() {
    let right = (0..16).filter(|&s| is_right(&sweep(&STUDY, s), (6, 8))).count();
    assert!(right >= 15, "{right} of 16");
    let flat = Surface { knee: None, ..STUDY };
    let wrong = (0..20).filter(|&s| !sweep(&flat, 100 + s).knees.is_empty()).count();
    assert!(wrong <= 2, "{wrong} of 20");
}

#[test]
fn the_conclusion_is_that_of_the_study() {
    use latlab_model::sweep::AllocationVerdict as Verdict;
    let a = sweep(&STUDY, 7);
    let s = a.statement.unwrap();
    assert_eq!(s.verdict, Verdict::AllocationPath);
    let knee = a.knees.iter().find(|k| s.knee == Some((k.from, k.to))).unwrap();
    assert_eq!(knee.slice.get("mode"), Some(&Value::Word("alloc".into())));
    let factor = |mode: &str| s.modes.iter().find(|m| m.0 == mode).unwrap().1;
    assert!((1.6..2.4).contains(&factor("alloc")) && (0.8..1.25).contains(&factor("keep")));
    let of = |alloc, keep| {
        sweep(&Surface { alloc, keep, knee: Some((0, 1)), ..STUDY }, 3).statement.unwrap().verdict
    };
    assert_eq!(of(2.0, 2.0), Verdict::Access);
    assert_eq!(of(4.0, 2.0), Verdict::Both);
    assert_eq!(of(1.0, 1.0), Verdict::Neither);
}

/// A difference that noise hides is not equivalence.
#[test]
fn noise_is_inconclusive_and_never_neither() {
    use latlab_model::sweep::AllocationVerdict as Verdict;
    let noisy = Surface { alloc: 1.25, keep: 1.25, noise: 0.7, knee: Some((0, 1)), ..STUDY };
    let verdicts: Vec<Verdict> =
        (0..12).map(|s| sweep(&noisy, s).statement.unwrap().verdict).collect();
    let concluded = |v: &&Verdict| **v != Verdict::Inconclusive;
    assert!(verdicts.iter().filter(concluded).count() <= 1, "{verdicts:?}");
    let a = sweep(&STUDY, 7).statement.unwrap();
    assert_eq!((a.margin, a.intervals.len()), (1.25, a.modes.len()));
    let (low, high) = a.intervals[1].unwrap();
    assert!(a.modes[1].0 == "keep" && low > 0.8 && high < 1.25, "{low} {high}");
}

#[test]
fn a_knee_is_matched_with_a_cache() {
    let a = sweep(&Surface { knee: Some((3, 5)), alloc: 3.0, noise: 0.02, ..STUDY }, 1);
    assert!(a.knees.iter().any(|k| k.matches == ["L2 1M"]), "{:?}", a.knees);
}
