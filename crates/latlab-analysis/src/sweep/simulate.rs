//! Sweeps of machines with known knees, for scoring what finds them.

use super::analyse::analyse;
use crate::compare::simulate::gauss;
use latlab_model::sweep::axis::{Axis, Value};
use latlab_model::sweep::plan::Plan;
use latlab_model::sweep::{Analysis, Point};
use latlab_stats::histogram::Histogram;
use latlab_stats::rng::SplitMix64;

/// A machine: how late a task is under a load of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surface {
    /// Latency without load, ns.
    pub unloaded: f64,
    /// Factor of alloc/free beyond its knee.
    pub alloc: f64,
    /// Factor of keep beyond the same knee.
    pub keep: f64,
    /// The knee: indices of the last value before and the first after, on the axis of bytes.
    pub knee: Option<(usize, usize)>,
    /// Standard deviation of the logarithm from point to point.
    pub noise: f64,
}

/// The study's plan in small: twelve sizes, two strides, two modes.
pub fn plan(seed: u64) -> Plan {
    let axis = |name, text| Axis::parse(name, text).unwrap_or_default();
    Plan {
        axes: vec![
            axis("vm-bytes", "64K..128M:x2"),
            axis("vm-stride", "64,4096"),
            axis("mode", "alloc,keep"),
        ],
        template: vec!["vm:{vm-bytes}:{vm-stride}:{mode}".into()],
        seed,
        anchor_every: 5,
        ..Plan::default()
    }
}

/// A sweep of it, analysed.
pub fn sweep(surface: &Surface, seed: u64) -> Analysis {
    let plan = plan(seed);
    let points = points(surface, &plan, seed);
    analyse(&plan, &points, &[("L2".into(), 1_048_576.0)])
}

/// The points of a sweep of it.
pub fn points(surface: &Surface, plan: &Plan, seed: u64) -> Vec<Point> {
    let mut rng = SplitMix64::new(seed);
    let numbers = plan.axes[0].numbers();
    plan.jobs()
        .into_iter()
        .map(|job| {
            let size = match job.place.get("vm-bytes") {
                Some(Value::Number(n)) => numbers.iter().position(|x| x == n).unwrap_or(0),
                _ => 0,
            };
            let full = match job.place.get("mode") {
                Some(Value::Word(w)) if w == "alloc" => surface.alloc.ln(),
                Some(_) => surface.keep.ln(),
                None => 0.0,
            };
            let share = surface
                .knee
                .map_or(0.0, |(a, b)| ((size as f64 - a as f64) / (b - a) as f64).clamp(0.0, 1.0));
            let level = surface.unloaded.ln() + full * share + surface.noise * gauss(&mut rng);
            // Enough values that the quantile is the level.
            let latency = Histogram::of((0..40).map(|_| level.exp() as u64));
            Point {
                job: job.number,
                place: job.place,
                start_ns: job.number as u64,
                latency,
                ..Point::default()
            }
        })
        .collect()
}

/// Whether the analysis has the knee of alloc within one step of the grid.
pub fn is_right(a: &Analysis, knee: (usize, usize)) -> bool {
    let numbers = plan(0).axes[0].numbers();
    let near = |v: f64, i: usize| {
        numbers.iter().position(|x| *x == v).is_some_and(|at| at.abs_diff(i) <= 1)
    };
    a.knees.iter().any(|k| {
        k.slice.get("mode") == Some(&Value::Word("alloc".into()))
            && near(k.from, knee.0)
            && near(k.to, knee.1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: Surface =
        Surface { unloaded: 16_000.0, alloc: 2.0, keep: 1.0, knee: Some((6, 8)), noise: 0.12 };

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
            sweep(&Surface { alloc, keep, knee: Some((0, 1)), ..STUDY }, 3)
                .statement
                .unwrap()
                .verdict
        };
        assert_eq!(of(2.0, 2.0), Verdict::Access);
        assert_eq!(of(4.0, 2.0), Verdict::Both);
        assert_eq!(of(1.0, 1.0), Verdict::Neither);
    }

    #[test]
    fn a_knee_is_matched_with_a_cache() {
        let a = sweep(&Surface { knee: Some((3, 5)), alloc: 3.0, noise: 0.02, ..STUDY }, 1);
        assert!(a.knees.iter().any(|k| k.matches == ["L2 1M"]), "{:?}", a.knees);
    }
}
