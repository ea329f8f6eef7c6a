//! Simulated sweeps of machines with known knees.

use crate::latency_sim::gauss;
use latlab_model::sweep::axis::{Axis, Value};
use latlab_model::sweep::plan::Plan;
use latlab_model::sweep::{Analysis, Point};
use latlab_stats::histogram::Histogram;
use latlab_stats::rng::SplitMix64;

/// A machine: latency of a task under a memory load.
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

/// Plan of the simulated sweeps: twelve sizes, two strides, two modes.
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
