//! What is measured, and in which order.
//!
//! The order is random (with a seed that is kept), so that a drift of the machine
//! does not look like an effect of an axis; anchors come between, so that it is seen. The order
//! is a function of the plan alone: an interrupted sweep goes on where it ended.

use super::axis::{Axis, Value};
use super::{Place, Point};
use latlab_stats::histogram::Histogram;
use latlab_stats::rng::SplitMix64;
use serde::{Deserialize, Serialize};

/// Values of a plan's grid, at most.
pub const MOST: usize = 20_000;

/// Name of the axis that is the period of the measured task, µs.
pub const INTERVAL: &str = "interval";
/// The load that is none, as a value of an axis.
pub const NONE: &str = "none";

/// Which figure of a point is the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    /// The plan's quantile.
    #[default]
    Quantile,
    /// Arithmetic mean.
    Mean,
    /// Standard deviation.
    StandardDeviation,
    /// Maximum: it grows with the length of a point.
    Maximum,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Plan {
    /// Its name (`memory`, or `own`).
    pub name: String,
    /// The axes.
    pub axes: Vec<Axis>,
    /// The load, with the names of axes in braces: `vm:{vm-bytes}:{vm-stride}`.
    pub template: Vec<String>,
    /// Loads that run at every point, also at anchors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub base: Vec<String>,
    /// Period of the measured task, ns; that of anchors where the period is an axis.
    pub interval_ns: u64,
    /// Time of a point, ns.
    pub point_ns: u64,
    /// Time that a load has before it counts, ns.
    pub settle_ns: u64,
    /// The tail quantile that is the response.
    pub quantile: f64,
    /// Which figure is the response.
    pub response: Response,
    /// Time for everything, ns; refinement uses what is left of it.
    pub budget_ns: Option<u64>,
    /// An anchor after so many points.
    pub anchor_every: usize,
    /// Points that are added round knees, at most.
    pub refine: usize,
    /// Seed of the order.
    pub seed: u64,
    /// CPUs that the load is pinned to, one worker each; none: not pinned.
    pub cpus: Vec<u32>,
    /// CPU of the measured task.
    pub measured_cpu: Option<u32>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            name: "own".into(),
            axes: Vec::new(),
            template: Vec::new(),
            base: Vec::new(),
            interval_ns: 1_000_000,
            point_ns: 2_000_000_000,
            settle_ns: 200_000_000,
            quantile: 0.99,
            response: Response::Quantile,
            budget_ns: None,
            anchor_every: 6,
            refine: 12,
            seed: 1,
            cpus: Vec::new(),
            measured_cpu: None,
        }
    }
}

/// Something to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its number; equal plans number alike.
    pub number: usize,
    /// Where it lies; empty for an anchor.
    pub place: Place,
}

impl Plan {
    /// Number of points of the grid, without anchors.
    pub fn grid_len(&self) -> usize {
        self.axes.iter().map(|a| a.values.len()).fold(1, usize::saturating_mul)
    }

    /// Every point of the grid and the anchors, in the order in which they are measured.
    pub fn jobs(&self) -> Vec<Job> {
        if self.axes.is_empty() || self.grid_len() > MOST {
            return Vec::new();
        }
        let mut places = vec![Place::new()];
        for axis in &self.axes {
            places = places
                .iter()
                .flat_map(|p| {
                    axis.values.iter().map(|v| {
                        let mut p = p.clone();
                        p.insert(axis.name.clone(), v.clone());
                        p
                    })
                })
                .collect();
        }
        SplitMix64::new(self.seed).shuffle(&mut places);
        let mut jobs = Vec::new();
        let every = self.anchor_every.max(1);
        let mut add = |place: Place| {
            let number = jobs.len();
            jobs.push(Job { number, place });
        };
        add(Place::new());
        for (i, place) in places.into_iter().enumerate() {
            add(place);
            if (i + 1).is_multiple_of(every) {
                add(Place::new());
            }
        }
        jobs
    }

    /// What is still to be measured.
    pub fn left(&self, done: &[Point]) -> Vec<Job> {
        let done: std::collections::BTreeSet<usize> = done.iter().map(|p| p.job).collect();
        self.jobs().into_iter().filter(|j| !done.contains(&j.number)).collect()
    }

    /// The loads of a place: those of every point, and none else for an anchor.
    pub fn loads(&self, place: &Place) -> Vec<String> {
        let mut loads = self.base.clone();
        if place.is_empty() {
            return loads;
        }
        let workers = |text: &str| -> Vec<String> {
            // A command of another program cannot be pinned by us.
            if self.cpus.is_empty() || text.contains(' ') || text.contains('@') {
                return vec![text.to_owned()];
            }
            self.cpus.iter().map(|cpu| pinned(text, *cpu)).collect()
        };
        let filled = self.template.iter().map(|t| filled(t, place)).filter(|load| load != NONE);
        loads.extend(filled.flat_map(|load| workers(&load)));
        loads
    }

    /// Period of the measured task at a place, ns.
    pub fn interval_of(&self, place: &Place) -> u64 {
        match place.get(INTERVAL) {
            Some(Value::Number(us)) => (us * 1e3) as u64,
            _ => self.interval_ns,
        }
    }

    /// The longest period of any point, ns.
    pub fn longest_interval_ns(&self) -> u64 {
        let axis = self.axes.iter().filter(|a| a.name == INTERVAL).flat_map(Axis::numbers);
        axis.map(|us| (us * 1e3) as u64).fold(self.interval_ns, u64::max)
    }

    /// The response of a point's latencies, ns; `None` without any.
    pub fn response_ns(&self, latency: &Histogram) -> Option<f64> {
        match self.response {
            Response::Quantile => latency.quantile(self.quantile).map(|v| v as f64),
            Response::Mean => latency.mean(),
            Response::StandardDeviation => latency.standard_deviation(),
            Response::Maximum => (latency.count > 0).then_some(latency.max as f64),
        }
    }

    /// Time of a point with the pause before it, ns.
    pub fn each_ns(&self) -> u64 {
        self.point_ns.saturating_add(self.settle_ns)
    }

    /// Wake-ups of the point with the fewest.
    pub fn wakeups(&self) -> u64 {
        self.point_ns / self.longest_interval_ns().max(1)
    }

    /// Wake-ups that the quantile's 95% interval needs; two where another figure is the response.
    pub fn wakeups_needed(&self) -> u64 {
        if self.response != Response::Quantile {
            return 2;
        }
        let one_less = (1.0 - self.quantile).max(1e-9);
        (1..64)
            .map(|k| (f64::from(k) * 0.25 / one_less).ceil() as u64 + 1)
            .find(|&n| {
                latlab_stats::quantile::quantile_interval_ranks(n, self.quantile, 0.95).is_some()
            })
            .unwrap_or((16.0 / one_less) as u64)
    }
}

/// The template with the place's values; sizes as plain numbers.
fn filled(template: &str, place: &Place) -> String {
    let mut out = template.to_owned();
    for (name, value) in place {
        let slot = format!("{{{name}}}");
        out = match value {
            Value::Number(n) if n.fract() == 0.0 => out.replace(&slot, &format!("{n:.0}")),
            Value::Number(n) => out.replace(&slot, &n.to_string()),
            // What the vm worker does unless told otherwise has no word there.
            Value::Word(w) if w == "alloc" => out.replace(&format!(":{slot}"), ""),
            Value::Word(w) if w == "hang" => out.replace(&slot, "hang=1s"),
            Value::Word(w) => out.replace(&slot, w),
        };
    }
    out
}

/// `vm:64K:1/10` on a CPU: `vm:64K:1@0/10`.
fn pinned(text: &str, cpu: u32) -> String {
    match text.split_once('/') {
        Some((worker, rate)) => format!("{worker}@{cpu}/{rate}"),
        None => format!("{text}@{cpu}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            axes: vec![
                Axis::parse("vm-bytes", "64K..1M:x2").unwrap(),
                Axis::parse("mode", "alloc,keep,hang").unwrap(),
            ],
            template: vec!["vm:{vm-bytes}:4096:{mode}".into()],
            cpus: vec![0],
            ..Plan::default()
        }
    }

    #[test]
    fn order_is_random_but_repeatable_and_anchored() {
        let (a, b) = (plan().jobs(), plan().jobs());
        assert_eq!(a, b);
        assert_ne!(a, Plan { seed: 2, ..plan() }.jobs());
        let anchors = a.iter().filter(|j| j.place.is_empty()).count();
        assert_eq!((a.len(), anchors), (15 + 3, 3));
        assert!(a[0].place.is_empty());
        let done = vec![Point { job: 0, ..Point::default() }, Point { job: 5, ..Point::default() }];
        assert_eq!(plan().left(&done).len(), 16);
    }

    #[test]
    fn loads_are_filled_in_and_pinned() {
        let load = |mode: &str| {
            let place = Place::from([
                ("vm-bytes".to_owned(), Value::Number(65_536.0)),
                ("mode".to_owned(), Value::Word(mode.to_owned())),
            ]);
            plan().loads(&place)
        };
        assert_eq!(load("alloc"), ["vm:65536:4096@0"]);
        assert_eq!(load("keep"), ["vm:65536:4096:keep@0"]);
        assert_eq!(load("hang"), ["vm:65536:4096:hang=1s@0"]);
        assert!(plan().loads(&Place::new()).is_empty());
        assert_eq!(pinned("fork/100", 3), "fork@3/100");
    }

    #[test]
    fn a_base_load_runs_at_every_point_and_the_period_may_be_an_axis() {
        let plan = Plan {
            axes: vec![
                Axis::parse(INTERVAL, "300,500,1000").unwrap(),
                Axis::parse("load", "none,cpu:60%").unwrap(),
            ],
            template: vec!["{load}".into()],
            base: vec!["4*io".into()],
            interval_ns: 300_000,
            ..Plan::default()
        };
        assert_eq!(plan.loads(&Place::new()), ["4*io"]);
        let place = |us: f64, load: &str| {
            Place::from([
                (INTERVAL.to_owned(), Value::Number(us)),
                ("load".to_owned(), Value::Word(load.to_owned())),
            ])
        };
        assert_eq!(plan.loads(&place(500.0, NONE)), ["4*io"]);
        assert_eq!(plan.loads(&place(500.0, "cpu:60%")), ["4*io", "cpu:60%"]);
        assert_eq!(plan.interval_of(&place(500.0, NONE)), 500_000);
        assert_eq!(
            (plan.interval_of(&Place::new()), plan.longest_interval_ns()),
            (300_000, 1_000_000)
        );
    }

    #[test]
    fn the_response_is_the_figure_that_was_asked_for() {
        let latency = Histogram::of([10, 20, 30, 40]);
        let of =
            |response| Plan { response, quantile: 0.5, ..Plan::default() }.response_ns(&latency);
        assert_eq!(of(Response::Quantile), Some(20.0));
        assert_eq!((of(Response::Mean), of(Response::Maximum)), (Some(25.0), Some(40.0)));
        assert!((of(Response::StandardDeviation).unwrap() - (500.0f64 / 3.0).sqrt()).abs() < 1e-9);
        assert_eq!(Plan::default().response_ns(&Histogram::default()), None);
    }

    #[test]
    fn a_quantile_needs_its_wake_ups() {
        let p = Plan { quantile: 0.99, ..Plan::default() };
        assert!((368..=420).contains(&p.wakeups_needed()), "{}", p.wakeups_needed());
        assert!(Plan::default().jobs().is_empty(), "no axes, no jobs");
    }
}
