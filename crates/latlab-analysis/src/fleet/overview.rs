//! A fleet as its pages show it: nights in, one [`Fleet`] out. Alarms are those of [`Watch`].
//!
//! Memory grows with series and nights of *boards*, not with nights of devices: of a device, the last
//! 40 values are kept, and all values of those that an alarm names from then on.

use super::names::Names;
use super::pairs::Pairs;
use super::regressions::{Alarm, Key, Observation, Watch};
use super::tails::{Place, Source, Tails};
use crate::history::unit_of;
use latlab_model::fleet::{self, Board, Change, Device, Fleet, Kernel, Level, Line, Metric, Night};
use latlab_model::fleet::{Point, Step};
use latlab_stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Values of a device that are kept.
const RECENT: usize = 40;
/// Values of a device under one kernel that are its level.
const LEVEL: usize = 10;
/// Nights before a change that are compared with those after it.
const BEFORE: u32 = 20;
/// Nights that are the present.
const NOW: u32 = 7;
/// Nights from which a device is compared with others of its board.
const DEVICE_NIGHTS: usize = 7;
/// Devices that a difference needs.
const DEVICES: usize = 3;
/// Devices of a board that are listed.
const LISTED: usize = 200;
/// Results of an alarm that are listed.
const CHANGES: usize = 8;

/// What a row of results is about.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Board (model).
    pub board: &'a str,
    /// Device.
    pub device: &'a str,
    /// Part.
    pub part: &'a str,
    /// Name of the result.
    pub name: &'a str,
    /// Its parameters.
    pub params: &'a str,
    /// Unit, as stores have it.
    pub unit: &'a str,
    /// Whether a larger value is a better one.
    pub larger_is_better: bool,
}

impl Named<'_> {
    /// The key of its series.
    pub fn key(&self) -> Key {
        Key {
            class: self.board.to_owned(),
            device: self.device.to_owned(),
            name: self.name.to_owned(),
            params: [self.part, self.params].join(" ").trim().to_owned(),
        }
    }
}

/// A value of a night: larger is worse.
#[derive(Clone, Debug)]
pub struct Value {
    /// Series, from [`Overview::series`].
    pub series: usize,
    /// Kernel's release.
    pub kernel: Arc<str>,
    /// Positive.
    pub value: f64,
}

/// Logarithms of a device's values.
#[derive(Debug)]
struct Series {
    line: usize,
    device: usize,
    recent: VecDeque<(u32, f32)>,
    kernel: usize,
    /// The last values under this kernel.
    values: Vec<f64>,
    /// The kernel before, and the level under it.
    before: Option<(usize, f64)>,
}

#[derive(Debug)]
struct Unit {
    board: usize,
    name: String,
    nights: u32,
    last: usize,
    kernel: usize,
}

#[derive(Debug, Default)]
struct Group {
    board: usize,
    metric: usize,
    devices: u32,
    points: Vec<Point>,
    /// Medians of nights, by kernel.
    levels: BTreeMap<usize, Vec<f64>>,
    /// Device with the largest level of the latest nights.
    worst: Option<(String, f64)>,
}

#[derive(Debug)]
struct Run {
    first: usize,
    last: usize,
    devices: BTreeSet<usize>,
}

/// Collects the nights of a fleet.
#[derive(Debug, Default)]
pub struct Overview {
    watch: Watch,
    nights: Vec<Night>,
    boards: Names<String>,
    metrics: Names<(String, String, String)>,
    facts: Vec<(latlab_model::record::Unit, bool)>,
    devices: Vec<Unit>,
    device_of: HashMap<(usize, String), usize>,
    groups: Vec<Group>,
    group_of: HashMap<(usize, usize), usize>,
    series: Vec<Series>,
    series_of: HashMap<(usize, usize), usize>,
    /// Groups by board and by what alarms call them.
    labels: HashMap<(usize, String), usize>,
    /// By the numbers of kernels.
    ran: Vec<Run>,
    /// Medians of nights and devices of each change of kernel of a group.
    steps: BTreeMap<(usize, usize, usize), (Vec<f64>, u32)>,
    pairs: Pairs,
    alarms: Vec<Alarm>,
    tails: Tails,
    /// Values of devices that alarms name.
    followed: BTreeMap<usize, Vec<(u32, f32)>>,
}

impl Overview {
    /// Number of a series.
    pub fn series(&mut self, named: &Named) -> usize {
        let key = named.key();
        let number = self.watch.series(&key);
        if number < self.series.len() {
            return number;
        }
        let board = self.boards.number(key.class);
        let label = [named.name, &key.params].join(" ").trim().to_owned();
        let texts = (named.name.to_owned(), named.part.to_owned(), named.params.to_owned());
        let metric = self.metrics.number(texts);
        if metric == self.facts.len() {
            self.facts.push((unit_of(named.unit), named.larger_is_better));
            self.pairs.metric(metric, (named.name, named.part, named.params));
        }
        let device = *self.device_of.entry((board, key.device)).or_insert_with_key(|(_, name)| {
            let name = name.clone();
            self.devices.push(Unit { board, name, nights: 0, last: 0, kernel: 0 });
            self.devices.len() - 1
        });
        let line = *self.group_of.entry((board, metric)).or_insert_with(|| {
            self.groups.push(Group { board, metric, ..Group::default() });
            self.groups.len() - 1
        });
        self.groups[line].devices += 1;
        self.labels.entry((board, label)).or_insert(line);
        self.series_of.entry((line, device)).or_insert(number);
        self.series.push(Series {
            line,
            device,
            recent: VecDeque::new(),
            kernel: usize::MAX,
            values: Vec::new(),
            before: None,
        });
        number
    }

    /// Number of a series that is there.
    pub fn known(&self, named: &Named) -> Option<usize> {
        self.watch.known(&named.key())
    }

    /// Takes all values of a night, at most one of a series.
    pub fn night(&mut self, date: String, runs: u64, values: &[Value]) {
        let night = self.nights.len();
        let kernels: BTreeSet<&str> = values.iter().map(|v| &*v.kernel).collect();
        for kernel in kernels {
            if self.watch.kernel(kernel) == self.ran.len() {
                self.ran.push(Run { first: night, last: night, devices: BTreeSet::new() });
            }
        }
        let mut of_line: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        let mut observations = Vec::with_capacity(values.len());
        let mut seen = BTreeSet::new();
        for v in values.iter().filter(|v| v.value > 0.0 && v.value.is_finite()) {
            let Some(series) = self.series.get_mut(v.series) else { continue };
            let kernel = self.watch.kernel(&v.kernel);
            observations.push(Observation { series: v.series, kernel, value: v.value });
            series.push(night, kernel, v.value.ln());
            of_line.entry(series.line).or_default().push((v.series, v.value.ln()));
            let Group { board, metric, .. } = self.groups[series.line];
            self.pairs.value(board, metric, series.device, v.value.ln());
            if let Some(all) = self.followed.get_mut(&v.series) {
                all.push((night as u32, v.value.ln() as f32));
            }
            if seen.insert(series.device) {
                let device = &mut self.devices[series.device];
                (device.nights, device.last, device.kernel) = (device.nights + 1, night, kernel);
            }
            self.ran[kernel].last = night;
            self.ran[kernel].devices.insert(series.device);
        }
        self.pairs.night();
        for (line, values) in of_line {
            self.line(line, night, &values);
        }
        self.nights.push(Night { date, devices: seen.len() as u32, runs });
        for alarm in self.watch.night(&observations) {
            self.follow(&alarm);
            self.alarms.push(alarm);
        }
    }

    /// A night of a result of a board.
    fn line(&mut self, line: usize, night: usize, values: &[(usize, f64)]) {
        let mut all: Vec<f64> = values.iter().map(|v| v.1).collect();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize];
        let better = self.facts[self.groups[line].metric].1;
        let shown = |log: f64| recorded(log, better) as f32;
        let (low, high) = if better { (at(0.9), at(0.1)) } else { (at(0.1), at(0.9)) };
        let group = &mut self.groups[line];
        group.points.push(Point {
            night: night as u32,
            devices: all.len() as u32,
            low: shown(low),
            middle: shown(median(&all).unwrap_or_default()),
            high: shown(high),
        });
        let (mut kernels, mut steps) =
            (BTreeMap::<usize, Vec<f64>>::new(), BTreeMap::<_, Vec<f64>>::new());
        for &(series, log) in values {
            let s = &self.series[series];
            kernels.entry(s.kernel).or_default().push(log);
            if let Some((before, level)) = s.before {
                steps.entry((s.kernel, before, line)).or_default().push(log - level);
            }
        }
        for (kernel, logs) in kernels {
            group.levels.entry(kernel).or_default().extend(median(&logs));
        }
        for (step, logs) in steps {
            let all = self.steps.entry(step).or_default();
            all.0.extend(median(&logs));
            all.1 = all.1.max(logs.len() as u32);
        }
    }

    /// Group of a result that an alarm names.
    fn group(&self, alarm: &Alarm, label: &str) -> Option<usize> {
        let board = self.boards.known(&alarm.class)?;
        self.labels.get(&(board, label.to_owned())).copied()
    }

    /// Series of a result that an alarm about a device names.
    fn series_named(&self, alarm: &Alarm, label: &str) -> Option<usize> {
        let line = self.group(alarm, label)?;
        let name = (self.groups[line].board, alarm.device.clone()?);
        self.series_of.get(&(line, *self.device_of.get(&name)?)).copied()
    }

    fn follow(&mut self, alarm: &Alarm) {
        for (label, _) in alarm.metrics.iter().take(CHANGES) {
            let Some(series) = self.series_named(alarm, label) else { continue };
            let recent = &self.series[series].recent;
            self.followed.entry(series).or_insert_with(|| recent.iter().copied().collect());
        }
    }

    /// Merges a histogram of the latest nights: largest value and count of each bucket. All of them are given
    /// once more after [`Overview::tail_quantiles`], to be counted by device and night.
    pub fn tail(&mut self, series: usize, from: Source, buckets: &[(u64, u64)]) {
        if let Some(&Series { line, device, .. }) = self.series.get(series) {
            let all = Place::All(self.groups[line].metric);
            self.tails.add(all, device, from, buckets);
            self.tails.add(Place::Line(line), device, from, buckets);
        }
    }

    /// All histograms are merged.
    pub fn tail_quantiles(&mut self) {
        self.tails.quantiles();
    }

    /// All that was collected.
    pub fn finish(mut self) -> Fleet {
        let alarms: Vec<Option<fleet::Alarm>> = self.alarms.iter().map(|a| self.alarm(a)).collect();
        let mut devices = self.devices();
        let (board_at, boards) = std::mem::take(&mut self.boards).sorted();
        let (metric_at, metrics) = std::mem::take(&mut self.metrics).sorted();
        let mut out = Fleet { nights: std::mem::take(&mut self.nights), ..Fleet::default() };
        out.kernels = self.kernels(&board_at);
        out.pairs = std::mem::take(&mut self.pairs).finish(&board_at, &metric_at);
        out.boards = boards.into_iter().map(|name| Board { name, ..Board::default() }).collect();
        for (i, unit) in self.devices.into_iter().enumerate() {
            let mut device = std::mem::take(&mut devices[i]);
            device.worst = device.worst.map(|(metric, by)| (metric_at[metric], by));
            (device.name, device.nights) = (unit.name, unit.nights);
            (device.last, device.kernel) = (unit.last, unit.kernel);
            out.boards[board_at[unit.board]].devices.push(device);
        }
        for board in &mut out.boards {
            let worst = |d: &Device| d.difference.unwrap_or(f64::NEG_INFINITY);
            board
                .devices
                .sort_by(|a, b| worst(b).total_cmp(&worst(a)).then_with(|| a.name.cmp(&b.name)));
            board.more_devices = board.devices.len().saturating_sub(LISTED);
            board.devices.truncate(LISTED);
        }
        out.metrics = (metrics.into_iter())
            .map(|(name, part, params)| Metric { name, part, params, ..Metric::default() })
            .collect();
        for (old, (unit, better)) in self.facts.iter().enumerate() {
            let metric = &mut out.metrics[metric_at[old]];
            (metric.unit, metric.larger_is_better) = (*unit, *better);
        }
        let place = |line: usize| {
            let group: &Group = &self.groups[line];
            (board_at[group.board], metric_at[group.metric])
        };
        for (&(kernel, before, line), (medians, devices)) in &self.steps {
            let (board, metric) = place(line);
            let Some(change) = median(medians) else { continue };
            let (nights, devices) = (medians.len() as u32, *devices);
            let change = change.exp() - 1.0;
            out.steps.push(Step { kernel, before, board, metric, nights, devices, change });
        }
        for alarm in alarms.into_iter().flatten() {
            let changes = (alarm.changes.into_iter())
                .map(|c| Change { metric: metric_at[c.metric], ..c })
                .collect();
            out.alarms.push(fleet::Alarm { board: board_at[alarm.board], changes, ..alarm });
        }
        let facts = self.facts;
        let places: Vec<(usize, usize)> =
            self.groups.iter().map(|g| (board_at[g.board], g.metric)).collect();
        for group in self.groups {
            let better = facts[group.metric].1;
            let board = board_at[group.board];
            let level = |(kernel, logs): (usize, Vec<f64>)| Level {
                kernel,
                nights: logs.len() as u32,
                value: recorded(median(&logs).unwrap_or_default(), better),
            };
            let metric = &mut out.metrics[metric_at[group.metric]];
            metric.lines.push(Line {
                board,
                devices: group.devices,
                points: group.points,
                levels: group.levels.into_iter().map(level).collect(),
                worst: group.worst.map(|(name, log)| (name, recorded(log, better))),
            });
        }
        for (place, mut tail) in self.tails.finish() {
            let metric = match place {
                Place::All(metric) => metric,
                Place::Line(line) => {
                    tail.board = Some(places[line].0);
                    places[line].1
                }
            };
            out.metrics[metric_at[metric]].tails.push(tail);
        }
        for metric in &mut out.metrics {
            metric.lines.sort_by_key(|l| l.board);
            // All boards are first; one board is all.
            metric.tails.sort_by_key(|t| t.board);
            if metric.tails.len() == 2 {
                metric.tails.remove(0);
            }
        }
        out
    }

    fn kernels(&self, board_at: &[usize]) -> Vec<Kernel> {
        let kernel = |(release, ran): (&Arc<str>, &Run)| {
            let of = |device: &usize| board_at[self.devices[*device].board];
            let boards: BTreeSet<usize> = ran.devices.iter().map(of).collect();
            Kernel {
                release: release.to_string(),
                first: ran.first,
                last: ran.last,
                boards: boards.into_iter().collect(),
                devices: ran.devices.len() as u32,
            }
        };
        self.watch.kernels().iter().zip(&self.ran).map(kernel).collect()
    }

    /// How much devices differ from the median of their board.
    fn devices(&mut self) -> Vec<Device> {
        let last = self.nights.len().saturating_sub(2 * DEVICE_NIGHTS) as u32;
        let mut levels: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        for s in &self.series {
            let recent: Vec<f64> = (s.recent.iter().rev().take(DEVICE_NIGHTS))
                .filter(|v| v.0 >= last)
                .map(|v| f64::from(v.1))
                .collect();
            if let Some(level) = median(&recent) {
                levels.entry(s.line).or_default().push((s.device, level));
            }
        }
        let mut differences: Vec<Vec<(usize, f64)>> = vec![Vec::new(); self.devices.len()];
        for (line, of) in levels.into_iter().filter(|(_, of)| of.len() >= DEVICES) {
            let all: Vec<f64> = of.iter().map(|v| v.1).collect();
            let Some(middle) = median(&all) else { continue };
            let metric = self.groups[line].metric;
            let worst = of.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
            self.groups[line].worst = worst.map(|(d, level)| (self.devices[d].name.clone(), level));
            for (device, level) in of {
                differences[device].push((metric, level - middle));
            }
        }
        let device = |all: &Vec<(usize, f64)>| {
            let each: Vec<f64> = all.iter().map(|d| d.1).collect();
            let worst = all.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
            Device {
                difference: median(&each).map(|d| d.exp() - 1.0),
                worst: worst.map(|(metric, d)| (metric, d.exp() - 1.0)),
                ..Device::default()
            }
        };
        differences.iter().map(device).collect()
    }

    fn alarm(&self, a: &Alarm) -> Option<fleet::Alarm> {
        let kernel = |release: &String| self.watch.known_kernel(release);
        Some(fleet::Alarm {
            night: a.night,
            since: a.since,
            board: self.boards.known(&a.class)?,
            device: a.device.clone(),
            family: a.family.clone(),
            suspects: (kernel(&a.suspects.0)?, kernel(&a.suspects.1)?),
            p: a.p,
            changes: (a.metrics.iter().take(CHANGES))
                .filter_map(|(label, change)| self.change(a, label, *change))
                .collect(),
            more_changes: a.metrics.len().saturating_sub(CHANGES),
            environment: fleet::Environment::default(),
        })
    }

    fn change(&self, a: &Alarm, label: &str, change: f64) -> Option<Change> {
        let group = &self.groups[self.group(a, label)?];
        let better = self.facts[group.metric].1;
        let values: Vec<(u32, f32)> = match a.device {
            None => Vec::new(),
            Some(_) => (self.followed.get(&self.series_named(a, label)?)?.iter())
                .map(|(night, log)| (*night, recorded(f64::from(*log), better) as f32))
                .collect(),
        };
        let (since, night) = (a.since as u32, a.night as u32);
        let level = |from: u32, to: u32| {
            let here = |at: u32| (from..to).contains(&at);
            let of_class = group.points.iter().filter(|p| values.is_empty() && here(p.night));
            let of_device = values.iter().filter(|v| here(v.0)).map(|v| f64::from(v.1));
            let all: Vec<f64> = of_class.map(|p| f64::from(p.middle)).chain(of_device).collect();
            median(&all)
        };
        let end = self.nights.len() as u32;
        let (before, after) = (level(since.saturating_sub(BEFORE), since), level(since, night + 1));
        let now = level(end.saturating_sub(NOW), end);
        Some(Change { metric: group.metric, change, before, after, now, values })
    }
}

impl Series {
    fn push(&mut self, night: usize, kernel: usize, log: f64) {
        self.recent.push_back((night as u32, log as f32));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        if self.kernel != kernel {
            self.before = median(&self.values).map(|level| (self.kernel, level)).or(self.before);
            self.values.clear();
            self.kernel = kernel;
        }
        if self.values.len() == LEVEL {
            self.values.remove(0);
        }
        self.values.push(log);
    }
}

/// The value as it was recorded, of the logarithm of one that is worse when larger.
fn recorded(log: f64, larger_is_better: bool) -> f64 {
    if larger_is_better { (-log).exp() } else { log.exp() }
}

#[cfg(test)]
mod tests;
