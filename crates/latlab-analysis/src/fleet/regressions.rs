//! Regressions of a fleet, night by night: one alarm for each cause, few of them false.
//!
//! ```text
//! value of a device ── its own level ──▶ deviation ── median over devices ──▶ series of a group
//!                                            └──────── the rest ────────────▶ series of a device
//! last nights − 20 nights before, over the spread of such differences ──▶ p ── Benjamini-Hochberg ──▶ alarms
//! ```
//!
//! Of a group, the median of the last 3 nights is compared, so that one wild night is no regression. A device has
//! wild values more often: the smallest of its last 4 nights is compared, and all of them have to be worse.
//!
//! A *group* is one metric of one class of boards: what a kernel does to a class, it does to all its
//! devices, and a group sees 5 % where one noisy device does not. A build shifts all devices of a class a
//! little (code layout), and successive nights are correlated: neither averages out over devices, so the
//! spread is that of the group's own earlier differences, not one computed from samples. It is estimated
//! robustly, shrunk to that of the same metric in other classes, and tested with Student's t.
//!
//! The false discovery rate is controlled over all groups of a night, and separately over all devices
//! (Y. Benjamini, Y. Hochberg, JRSS B 57, 1995). Most nights have no regression, and each of their alarms is
//! false: a rate of 5 % in each night would be half of the alarms of a year. The levels here are lower, so that
//! it is 5 % of the year's (docs/validation/fleet.md).

use latlab_stats::quantile::{mad, median};
use latlab_stats::student::student_tail;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Nights of a group whose median is tested.
const RECENT: usize = 3;
/// Nights of a device whose smallest value is tested.
const RECENT_DEVICE: usize = 4;
/// A spread is computed anew after so many nights.
const RENEWED: usize = 5;
/// Nights before them.
const BASE: usize = 20;
/// Nights from which a device's own level is taken.
const LEVEL: usize = 10;
/// Differences that a spread needs, and at most has.
const DIFFERENCES: (usize, usize) = (15, 90);
/// Weight of the spread of the same metric in other classes, in degrees of freedom.
const PRIOR: f64 = 10.0;
/// Differences overlap: so many of them are one independent one.
const OVERLAP: f64 = 3.0;
/// Rate of false discoveries of a night among groups, and among devices.
const RATE: (f64, f64) = (5e-4, 2e-4);
/// Changes below this (logarithm) are ignored.
const LEAST: f64 = 0.02;
/// A device's change below this is ignored.
const LEAST_DEVICE: f64 = 0.05;

/// What identifies a series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Board (model).
    pub class: String,
    /// Device.
    pub device: String,
    /// Name of the result.
    pub name: String,
    /// Its part and parameters.
    pub params: String,
}

/// A value of a night.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// Series, from [`Watch::series`].
    pub series: usize,
    /// Kernel, from [`Watch::kernel`].
    pub kernel: usize,
    /// Positive; larger is worse.
    pub value: f64,
}

/// One cause: all metrics of a family, of one class or one device, that became worse at one kernel.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Alarm {
    /// Number of the night.
    pub night: usize,
    /// Board (model).
    pub class: String,
    /// The device that is worse; `None`: the whole class is.
    pub device: Option<String>,
    /// Name of the results up to the first dot.
    pub family: String,
    /// Last kernel before the change and first kernel with it: what changed between them is suspect. Two of
    /// one name: not the kernel.
    pub suspects: (String, String),
    /// First night of the change.
    pub since: usize,
    /// Results (name and parameters) with their change; the largest is first.
    pub metrics: Vec<(String, f64)>,
    /// Smallest adjusted p value.
    pub p: f64,
}

/// A series that is tested.
#[derive(Debug)]
struct Tested {
    /// Nights that are compared with those before.
    recent: usize,
    /// What of them is compared.
    of_recent: fn(&[f64]) -> Option<f64>,
    /// Median and robust variance of the differences, and the number of nights since.
    spread: Option<(f64, f64)>,
    age: usize,
    /// Night, kernel and value of the last nights.
    values: VecDeque<(usize, usize, f64)>,
    /// Differences of earlier nights.
    differences: VecDeque<f64>,
}

/// The smallest value; `None` when empty.
fn smallest(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

impl Tested {
    fn of_group() -> Self {
        Self::new(RECENT, median)
    }

    fn of_device() -> Self {
        Self::new(RECENT_DEVICE, smallest)
    }

    fn new(recent: usize, of_recent: fn(&[f64]) -> Option<f64>) -> Self {
        let (values, differences) = (VecDeque::new(), VecDeque::new());
        Self { recent, of_recent, spread: None, age: 0, values, differences }
    }

    /// Takes the value of a night; the difference of the last nights from those before, less what it is usually.
    fn push(&mut self, night: usize, kernel: usize, value: f64) -> Option<f64> {
        self.values.push_back((night, kernel, value));
        if self.values.len() > self.recent + BASE {
            self.values.pop_front();
        }
        let before = self.values.len().checked_sub(self.recent).filter(|n| *n >= LEVEL)?;
        let all: Vec<f64> = self.values.iter().map(|v| v.2).collect();
        let difference = (self.of_recent)(&all[before..])? - median(&all[..before])?;
        self.differences.push_back(difference);
        if self.differences.len() > DIFFERENCES.1 {
            self.differences.pop_front();
        }
        self.age += 1;
        if self.differences.len() >= DIFFERENCES.0 && (self.spread.is_none() || self.age >= RENEWED)
        {
            let all: Vec<f64> = self.differences.iter().copied().collect();
            self.spread = Some((median(&all)?, (1.4826 * mad(&all)?).powi(2)));
            self.age = 0;
        }
        Some(difference - self.spread.map_or(0.0, |s| s.0))
    }

    /// Robust variance of the earlier differences; `None` while they are too few.
    fn variance(&self) -> Option<f64> {
        self.spread.map(|s| s.1)
    }

    /// One-sided p value of a difference.
    fn p(&self, difference: f64, variance: f64, prior: f64) -> f64 {
        let dof = self.differences.len() as f64 / OVERLAP;
        let pooled = (PRIOR * prior + dof * variance) / (PRIOR + dof);
        student_tail(difference / pooled.max(1e-12).sqrt(), PRIOR + dof)
    }

    /// Where the last nights split best: position of the first value of the new level.
    fn onset(&self) -> usize {
        let all: Vec<f64> = self.values.iter().map(|v| v.2).collect();
        let first = all.len().saturating_sub(2 * self.recent).max(1);
        let gain = |at: usize| {
            let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
            let (a, b) = (all.len() - at, at.min(BASE));
            let step = mean(&all[at..]) - mean(&all[at - b..at]);
            step * step * (a * b) as f64 / (a + b) as f64
        };
        (first..all.len()).max_by(|&a, &b| gain(a).total_cmp(&gain(b))).unwrap_or(all.len() - 1)
    }

    /// Lifts earlier values to the new level, so that the change is reported once.
    fn accept(&mut self, at: usize, difference: f64) {
        self.values.iter_mut().take(at).for_each(|v| v.2 += difference);
        self.differences.pop_back();
    }
}

#[derive(Debug)]
struct Device {
    group: usize,
    first: Vec<f64>,
    level: Option<f64>,
    tested: Tested,
}

#[derive(Debug)]
struct Group {
    /// Index of its metric among all classes.
    metric: usize,
    tested: Tested,
}

/// A fleet that is watched.
#[derive(Debug, Default)]
pub struct Watch {
    keys: Vec<Key>,
    known: HashMap<Key, usize>,
    devices: Vec<Device>,
    groups: Vec<Group>,
    group_of: BTreeMap<(String, String, String), usize>,
    metric_of: BTreeMap<(String, String), usize>,
    /// One series of each group, for its names.
    group_key: Vec<usize>,
    kernels: Vec<Arc<str>>,
    kernel_of: HashMap<Arc<str>, usize>,
    nights: usize,
    /// First night of the last alarm of each cause: a change is reported once.
    reported: BTreeMap<Cause, usize>,
}

/// A test of a night.
struct Test {
    /// Group, or device.
    index: usize,
    difference: f64,
    p: f64,
}

impl Watch {
    /// Number of a series.
    pub fn series(&mut self, key: &Key) -> usize {
        if let Some(known) = self.known.get(key) {
            return *known;
        }
        let metrics = self.metric_of.len();
        let metric = (key.name.clone(), key.params.clone());
        let metric = *self.metric_of.entry(metric).or_insert(metrics);
        let groups = self.groups.len();
        let group = (key.class.clone(), key.name.clone(), key.params.clone());
        let group = *self.group_of.entry(group).or_insert(groups);
        let new = self.keys.len();
        if group == groups {
            self.groups.push(Group { metric, tested: Tested::of_group() });
            self.group_key.push(new);
        }
        self.keys.push(key.clone());
        self.known.insert(key.clone(), new);
        self.devices.push(Device {
            group,
            first: Vec::new(),
            level: None,
            tested: Tested::of_device(),
        });
        new
    }

    /// Number of a series that is there.
    pub fn known(&self, key: &Key) -> Option<usize> {
        self.known.get(key).copied()
    }

    /// Number of a kernel.
    pub fn kernel(&mut self, release: &str) -> usize {
        if let Some(known) = self.kernel_of.get(release) {
            return *known;
        }
        let name: Arc<str> = Arc::from(release);
        self.kernels.push(name.clone());
        self.kernel_of.insert(name, self.kernels.len() - 1);
        self.kernels.len() - 1
    }

    /// Releases of the kernels, by number.
    pub fn kernels(&self) -> &[Arc<str>] {
        &self.kernels
    }

    /// Number of a kernel that is there.
    pub fn known_kernel(&self, release: &str) -> Option<usize> {
        self.kernel_of.get(release).copied()
    }

    /// Takes all values of a night, and reports what became worse. At most one value a series.
    pub fn night(&mut self, observations: &[Observation]) -> Vec<Alarm> {
        let night = self.nights;
        self.nights += 1;
        let mut of_group: Vec<Vec<(usize, usize, f64)>> = vec![Vec::new(); self.groups.len()];
        for o in observations.iter().filter(|o| o.value > 0.0 && o.value.is_finite()) {
            let Some(device) = self.devices.get_mut(o.series) else { continue };
            let log = o.value.ln();
            if device.first.len() < LEVEL {
                device.first.push(log);
                if device.first.len() == LEVEL {
                    device.level = median(&device.first);
                }
            }
            if let Some(level) = device.level {
                of_group[device.group].push((o.series, o.kernel, log - level));
            }
        }
        let (mut groups, mut devices) = (Vec::new(), Vec::new());
        for (index, values) in of_group.iter().enumerate() {
            let all: Vec<f64> = values.iter().map(|v| v.2).collect();
            let Some(middle) = median(&all) else { continue };
            let kernel = most_frequent(values.iter().map(|v| v.1));
            if let Some(difference) = self.groups[index].tested.push(night, kernel, middle) {
                groups.push(Test { index, difference, p: 1.0 });
            }
            // One device is no class: it is its group.
            for &(series, kernel, value) in values.iter().filter(|_| values.len() > 2) {
                let tested = &mut self.devices[series].tested;
                if let Some(difference) = tested.push(night, kernel, value - middle) {
                    devices.push(Test { index: series, difference, p: 1.0 });
                }
            }
        }
        self.judge(groups, devices)
    }

    fn judge(&mut self, mut groups: Vec<Test>, mut devices: Vec<Test>) -> Vec<Alarm> {
        let prior = priors(&groups, self.metric_of.len(), |i| {
            (self.groups[i].metric, self.groups[i].tested.variance())
        });
        groups.retain_mut(|t| {
            let group = &self.groups[t.index];
            let variance = group.tested.variance();
            t.p = variance.map_or(1.0, |v| group.tested.p(t.difference, v, prior[group.metric]));
            variance.is_some()
        });
        let prior = priors(&devices, self.groups.len(), |i| {
            (self.devices[i].group, self.devices[i].tested.variance())
        });
        devices.retain_mut(|t| {
            let device = &self.devices[t.index];
            let variance = device.tested.variance();
            t.p = variance.map_or(1.0, |v| device.tested.p(t.difference, v, prior[device.group]));
            variance.is_some()
        });
        let mut alarms = BTreeMap::new();
        for (test, p) in discoveries(&groups, RATE.0).filter(|(t, _)| t.difference > LEAST) {
            let key = self.keys[self.group_key[test.index]].clone();
            let names =
                Names { class: key.class, device: None, name: key.name, params: key.params };
            let night = self.nights - 1;
            let tested = &mut self.groups[test.index].tested;
            gather(&mut alarms, night, names, tested, &self.kernels, test.difference, p);
        }
        for (test, p) in discoveries(&devices, RATE.1).filter(|(t, _)| t.difference > LEAST_DEVICE)
        {
            let key = self.keys[test.index].clone();
            let device = Some(key.device);
            let names = Names { class: key.class, device, name: key.name, params: key.params };
            let night = self.nights - 1;
            let tested = &mut self.devices[test.index].tested;
            gather(&mut alarms, night, names, tested, &self.kernels, test.difference, p);
        }
        let mut kept = Vec::new();
        for (cause, alarm) in alarms {
            let near = |since: &usize| since.abs_diff(alarm.since) <= RECENT_DEVICE;
            if !self.reported.get(&cause).is_some_and(near) {
                self.reported.insert(cause, alarm.since);
                kept.push(alarm);
            }
        }
        let mut alarms = kept;
        for alarm in &mut alarms {
            alarm.metrics.sort_by(|a, b| b.1.total_cmp(&a.1));
        }
        alarms
    }
}

struct Names {
    class: String,
    device: Option<String>,
    name: String,
    params: String,
}

/// What makes two discoveries of a night one alarm: class, device and family.
type Cause = (String, Option<String>, String);

fn gather(
    alarms: &mut BTreeMap<Cause, Alarm>,
    night: usize,
    names: Names,
    tested: &mut Tested,
    kernels: &[Arc<str>],
    difference: f64,
    p: f64,
) {
    let at = tested.onset();
    let (since, kernel, _) = tested.values[at];
    let before = tested.values[at.saturating_sub(1)].1;
    tested.accept(at, difference);
    let family = names.name.split('.').next().unwrap_or_default().to_owned();
    let cause = (names.class.clone(), names.device.clone(), family.clone());
    let alarm = alarms.entry(cause).or_insert_with(|| Alarm {
        night,
        class: names.class,
        device: names.device,
        family,
        suspects: (kernels[before].to_string(), kernels[kernel].to_string()),
        since,
        metrics: Vec::new(),
        p,
    });
    // The clearest metric tells since when.
    if p < alarm.p {
        alarm.suspects = (kernels[before].to_string(), kernels[kernel].to_string());
        alarm.since = since;
        alarm.p = p;
    }
    let label = [names.name, names.params].join(" ").trim().to_owned();
    alarm.metrics.push((label, difference.exp() - 1.0));
}

/// Median variance of the tests of each metric; that of all where a metric has none.
fn priors(tests: &[Test], metrics: usize, of: impl Fn(usize) -> (usize, Option<f64>)) -> Vec<f64> {
    let mut each: Vec<Vec<f64>> = vec![Vec::new(); metrics];
    for test in tests {
        if let (metric, Some(variance)) = of(test.index) {
            each[metric].push(variance);
        }
    }
    let all: Vec<f64> = each.iter().filter_map(|v| median(v)).collect();
    let whole = median(&all).unwrap_or(0.0);
    each.iter().map(|v| median(v).unwrap_or(whole)).collect()
}

/// Tests that are discoveries at a rate, with their adjusted p values.
fn discoveries(tests: &[Test], rate: f64) -> impl Iterator<Item = (&Test, f64)> {
    let p: Vec<f64> = tests.iter().map(|t| t.p).collect();
    tests.iter().zip(benjamini_hochberg(&p)).filter(move |(_, p)| *p <= rate)
}

/// Step-up adjustment of p values (Y. Benjamini, Y. Hochberg, 1995): of all with an adjusted value of at most
/// q, a share of q is false in the mean. In the order given.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let m = p_values.len();
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by(|&a, &b| p_values[b].total_cmp(&p_values[a]));
    let mut adjusted = vec![1.0; m];
    let mut least: f64 = 1.0;
    for (i, &index) in order.iter().enumerate() {
        least = least.min(p_values[index] * m as f64 / (m - i) as f64);
        adjusted[index] = least;
    }
    adjusted
}

fn most_frequent(values: impl Iterator<Item = usize>) -> usize {
    let mut counts = BTreeMap::<usize, usize>::new();
    values.for_each(|v| *counts.entry(v).or_default() += 1);
    counts.into_iter().max_by_key(|(_, n)| *n).map_or(0, |(v, _)| v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_testkit::fleet_sim::{Fleet, Truth};

    #[test]
    fn adjusted_p_values_are_those_of_the_paper() {
        // The 15 p values of the example in section 3.1, of which four are discoveries at 5 %.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let adjusted = benjamini_hochberg(&p);
        assert_eq!(adjusted.iter().filter(|p| **p <= 0.05).count(), 4);
        assert!((adjusted[3] - 0.0095 * 15.0 / 4.0).abs() < 1e-12, "{adjusted:?}");
        assert!(benjamini_hochberg(&[]).is_empty());
    }

    /// Regressions that alarms meet within three nights, those of devices within ten; all regressions; false
    /// alarms; regressions with the right suspects.
    fn score(fleet: &Fleet) -> (usize, usize, usize, usize) {
        let (mut watch, mut sim) = (Watch::default(), fleet.start());
        let mut ids = Vec::new();
        for key in fleet.series() {
            ids.push(watch.series(&Key {
                class: key.class,
                device: key.device,
                name: key.name,
                params: String::new(),
            }));
        }
        let mut alarms = Vec::new();
        for night in 0..fleet.nights {
            let kernel = watch.kernel(&Fleet::kernel(night));
            let values = sim.night();
            let observations: Vec<Observation> = (ids.iter().zip(values))
                .map(|(&series, value)| Observation { series, kernel, value })
                .collect();
            alarms.extend(watch.night(&observations));
        }
        let meets = |a: &Alarm, t: &Truth| {
            a.class == t.class && a.family == t.family && a.device == t.device
        };
        let due: Vec<&Truth> = fleet.truth.iter().filter(|t| t.night >= 45).collect();
        // A device needs four nights by its definition.
        let found = due.iter().filter(|t| {
            let soon = t.night..t.night + if t.device.is_none() { 3 } else { 10 };
            alarms.iter().any(|a| meets(a, t) && soon.contains(&a.night))
        });
        let suspects = due.iter().filter(|t| {
            let suspects = (Fleet::kernel(t.night - 1), Fleet::kernel(t.night));
            alarms.iter().any(|a| meets(a, t) && a.suspects == suspects)
        });
        let good = |a: &&Alarm| {
            fleet.truth.iter().any(|t| meets(a, t) && (t.night..t.night + 10).contains(&a.night))
        };
        let false_ones = alarms.len() - alarms.iter().filter(good).count();
        (found.count(), due.len(), false_ones, suspects.count())
    }

    #[test]
    fn regressions_of_a_fleet_are_found_within_three_nights() {
        let fleet = Fleet { boards: 40, classes: 2, metrics: 10, nights: 120, ..Fleet::default() };
        let fleet = fleet.with_regressions(12, 0, 0.05, 5);
        let (found, due, false_ones, suspects) = score(&fleet);
        assert!(found * 10 >= due * 9, "{found} of {due}");
        assert!(suspects * 10 >= due * 7, "suspects of {suspects} of {due}");
        assert!(false_ones <= 1, "{false_ones} false alarms");
    }

    #[test]
    fn one_ill_device_is_named_and_its_class_is_not() {
        let fleet = Fleet { boards: 40, classes: 2, metrics: 10, nights: 120, ..Fleet::default() };
        let fleet = fleet.with_regressions(0, 6, 0.25, 9);
        let (found, due, false_ones, _) = score(&fleet);
        assert!(found >= due - 1, "{found} of {due}");
        assert!(false_ones <= 1, "{false_ones} false alarms");
    }
}
