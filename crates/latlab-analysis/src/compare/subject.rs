//! What is compared: runs gathered under one name, their metrics matched with those of others.
//!
//! Metrics are records. Three kinds of detail are read beside them: the timelines of
//! [`Detail::Wakeup`] give the order of values, the processes of [`Detail::Bench`] the independent
//! values of a benchmark, the curves of [`Detail::Memory`] what is drawn.

use super::between::RUNS;
use super::figures;
use super::machines;
use super::metric::{self, Data, Tested};
use super::sample::{Order, RunSample, Sample};
use super::verdict::{Ground, contrast};
use crate::history::unit_word;
use latlab_model::cache::detail::{AccessPattern, CacheDetail};
use latlab_model::compare::{
    CompareDetail, Contrast, Figures, Metric, Options, Side, Skipped, SubjectCurve, SubjectInfo,
    SubjectStrides,
};
use latlab_model::finding::Note;
use latlab_model::machine::Machine;
use latlab_model::record::{Param, Record, Unit};
use latlab_model::reference::{Published, Reference};
use latlab_model::run::{Detail, Part, Run};
use latlab_stats::histogram::{Histogram, Summary};
use latlab_stats::pareto_tail::fit_tail;
use latlab_stats::quantile::median;
use latlab_stats::rank::holm;
use latlab_stats::total::Total as _;
use std::collections::{BTreeMap, HashMap};

/// Probabilities at which return levels are given.
const LEVELS: [f64; 3] = [1e-5, 1e-6, 1e-7];

/// Runs (or foreign files, or a published machine) under one name.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// What the user called it.
    pub label: String,
    /// The runs; a foreign file is one.
    pub runs: Vec<Source>,
    /// Tables that were published of it.
    pub published: &'static [Published],
}

/// One run, or what was read from a foreign file.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The file.
    pub file: String,
    /// The run.
    pub run: Run,
    /// What the run cannot hold: samples in order, steps, what is only counted. By part and index of record.
    pub samples: BTreeMap<(usize, usize), RunSample>,
    /// Limitations of its data.
    pub notes: Vec<Note>,
}

impl Subject {
    /// A published machine.
    pub fn of_reference(reference: &Reference) -> Self {
        let record = |(name, params, value): &latlab_model::reference::Figure| Record {
            name: (*name).to_owned(),
            params: params.iter().map(|(k, v)| ((*k).to_owned(), word(v))).collect(),
            summary: Summary { count: 1, median: Some(*value), ..Summary::default() },
            ..Record::default()
        };
        let all = reference.figures.iter().map(record);
        let (memory, bench) = all.partition(|r| r.name.starts_with("memory."));
        let part = |(name, results): (&str, Vec<Record>)| Part {
            name: name.into(),
            complete: true,
            results,
            ..Part::default()
        };
        let parts = [("bench", bench), ("memory", memory)].map(part).into();
        let run = Run { complete: true, parts, ..Run::default() };
        let note = Note::new("compare.reference")
            .value("machine", reference.machine)
            .value("source", reference.source);
        let label = ["@", reference.id].concat();
        let source = Source { file: label.clone(), run, notes: vec![note], ..Source::default() };
        Self { label, runs: vec![source], published: reference.published }
    }

    fn info(&self, letter: usize) -> SubjectInfo {
        let machine = self.machine();
        let mut notes: Vec<Note> = Vec::new();
        for source in &self.runs {
            let interrupted = Note::new("compare.interrupted").value("file", &source.file);
            let cut = (!source.run.complete).then_some(interrupted);
            for note in source.notes.iter().cloned().chain(cut) {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        SubjectInfo {
            letter: char::from(b'A' + (letter % 26) as u8).to_string(),
            label: self.label.clone(),
            files: self.runs.iter().map(|s| s.file.clone()).collect(),
            machine: [machine.host.as_str(), machine.kernel.release.as_str()]
                .join(" ")
                .trim()
                .to_owned(),
            notes,
        }
    }

    fn figures(&self, subject: usize) -> Vec<Figures> {
        figures::of(subject, self.published, self.runs.iter().flat_map(|s| &s.run.parts))
    }

    /// Its cache measurements.
    fn caches(&self) -> impl Iterator<Item = &CacheDetail> {
        let parts = self.runs.iter().flat_map(|s| &s.run.parts);
        parts.filter_map(|p| match &p.detail {
            Some(Detail::Memory(detail)) => Some(&**detail),
            _ => None,
        })
    }

    /// The curves over the size of the array of its first cache measurement.
    fn curves(&self, subject: usize) -> Vec<SubjectCurve> {
        let first = self.caches().find(|d| !d.curves.is_empty());
        let curves = first.into_iter().flat_map(|d| &d.curves);
        let sized = curves
            .filter(|c| !matches!(c.access, AccessPattern::LinePerPage | AccessPattern::Dense));
        sized.map(|c| SubjectCurve { subject, curve: c.clone() }).collect()
    }

    /// The loop `a[i] *= a[i]` of its first cache measurement that has it.
    fn strides(&self, subject: usize) -> Option<SubjectStrides> {
        let detail = self.caches().find(|d| d.strides.len() > 1)?;
        let line_bytes = detail.line.as_ref().map_or(0, |l| l.bytes);
        let mut points = detail.strides.clone();
        points.sort_unstable_by_key(|p| p.stride_bytes);
        Some(SubjectStrides { subject, points, line_bytes })
    }

    fn machine(&self) -> Machine {
        self.runs.first().map(|s| s.run.machine.clone()).unwrap_or_default()
    }
}

fn word(text: &str) -> Param {
    text.parse::<i64>().map_or_else(|_| Param::from(text), Param::Int)
}

/// What makes two records the same metric.
type Key = (String, String, String);

/// Where a record is: run, part, indices of part and record.
type Place<'a> = (&'a Source, &'a Part, (usize, usize));

/// One metric of one subject.
struct Found {
    key: Key,
    name: String,
    params: BTreeMap<String, Param>,
    unit: Unit,
    data: Data,
    runs: usize,
    per_second: Option<f64>,
    summary: Summary,
}

/// Compares all with the first.
pub fn compare(subjects: &[Subject], options: &Options) -> CompareDetail {
    let machines: Vec<Machine> = subjects.iter().map(Subject::machine).collect();
    let mut detail = CompareDetail {
        options: options.clone(),
        subjects: subjects.iter().enumerate().map(|(i, s)| s.info(i)).collect(),
        machines: machines::differences(&machines.iter().collect::<Vec<_>>()),
        figures: subjects.iter().enumerate().flat_map(|(i, s)| s.figures(i)).collect(),
        curves: subjects.iter().enumerate().flat_map(|(i, s)| s.curves(i)).collect(),
        strides: subjects.iter().enumerate().filter_map(|(i, s)| s.strides(i)).collect(),
        ..CompareDetail::default()
    };
    let all: Vec<Vec<Found>> = subjects.iter().map(|s| found(s, &mut detail.skipped)).collect();
    let Some((base, others)) = all.split_first() else { return detail };
    let lookups: Vec<Lookup<'_>> = others.iter().map(|o| Lookup::new(o)).collect();
    let mut rows: Vec<Vec<Option<usize>>> = Vec::new();
    for (i, f) in base.iter().enumerate() {
        let mut row = vec![Some(i)];
        row.extend(lookups.iter().map(|o| o.matching(f, &mut detail.skipped)));
        if row.iter().flatten().count() > 1 {
            rows.push(row);
        }
    }
    let mut tested: Vec<Vec<(usize, Vec<Tested>)>> = Vec::new();
    for row in &rows {
        let a = &base[row[0].unwrap_or(0)];
        let of = |(k, at): (usize, &Option<usize>)| {
            at.map(|at| (k + 1, metric::aspects(&a.data, &others[k][at].data, options)))
        };
        tested.push(row[1..].iter().enumerate().filter_map(of).collect());
    }
    let flat = || tested.iter().flatten().flat_map(|(_, t)| t);
    let p: Vec<f64> = flat().filter(|t| t.testable).map(|t| t.aspect.p).collect();
    detail.tests = p.len();
    let mut adjusted = holm(&p).into_iter();
    for (row, contrasts) in rows.iter().zip(tested) {
        let a = &base[row[0].unwrap_or(0)];
        let at = |k: usize| row[k].map(|i| if k == 0 { a } else { &others[k - 1][i] });
        let sides: Vec<Option<Side>> =
            (0..row.len()).map(|k| at(k).map(|f| side(f, options))).collect();
        let contrasts = contrasts
            .into_iter()
            .map(|(k, t)| {
                let p: Vec<f64> = t
                    .iter()
                    .map(|t| if t.testable { adjusted.next().unwrap_or(1.0) } else { 1.0 })
                    .collect();
                judged(k, t, &p, a, &sides, detail.tests, options)
            })
            .collect();
        detail.metrics.push(Metric {
            label: label(a),
            name: a.name.clone(),
            params: a.params.clone(),
            unit: a.unit,
            sides,
            contrasts,
        });
    }
    detail
}

fn judged(
    k: usize,
    tested: Vec<Tested>,
    p: &[f64],
    a: &Found,
    sides: &[Option<Side>],
    tests: usize,
    options: &Options,
) -> Contrast {
    let base = sides[0].as_ref();
    let mut notes = Vec::new();
    let runs = sides[k].as_ref().map_or(0, |s| s.runs).min(base.map_or(0, |s| s.runs));
    if runs < RUNS && !tested.is_empty() && !matches!(a.data, Data::Figure(_)) {
        notes.push(Note::new("compare.few-runs"));
    }
    let ground = Ground {
        unit: a.unit,
        larger_is_better: a.unit.larger_is_better(),
        per_second: a.per_second,
        tail: base.and_then(|s| s.tail.clone()),
        runs,
        notes,
    };
    contrast(k, tested, p, tests, &ground, options)
}

fn label(f: &Found) -> String {
    let params = f.params.iter().map(|(k, v)| (k.clone(), v.to_string())).collect();
    let name = latlab_model::bench::label(&f.name, &params);
    let part = &f.key.0;
    if part.is_empty() || f.name.starts_with(part.as_str()) || part == "bench" {
        name
    } else {
        [part, "/", &name].concat()
    }
}

fn side(f: &Found, options: &Options) -> Side {
    let mut side = Side {
        runs: f.runs,
        summary: f.summary.clone(),
        per_second: f.per_second,
        ..Side::default()
    };
    if let Data::Distribution(sample) = &f.data {
        let all = sample.all();
        side.order = sample.order();
        let limit = all.quantile(0.99).unwrap_or(0);
        let inflation = sample.cautious_inflation(limit, options.cluster);
        if sample.censored().is_none() && sample.runs.iter().all(|r| r.step <= 1) {
            side.tail = fit_tail(&all, inflation, &LEVELS, options.seed);
        }
        side.histogram = Some(all);
    }
    side
}

/// All metrics of a subject; what its own runs disagree on is skipped.
fn found(subject: &Subject, skipped: &mut Vec<Skipped>) -> Vec<Found> {
    let mut order: Vec<Key> = Vec::new();
    let mut all: BTreeMap<Key, Vec<Place>> = BTreeMap::new();
    for source in &subject.runs {
        for (p, part) in source.run.parts.iter().enumerate() {
            for (r, record) in part.results.iter().enumerate().filter(|(_, r)| !r.name.is_empty()) {
                let key = key(part, record);
                if !all.contains_key(&key) {
                    order.push(key.clone());
                }
                all.entry(key).or_default().push((source, part, (p, r)));
            }
        }
    }
    let mut out = Vec::new();
    for key in order {
        let Some(places) = all.get(&key) else { continue };
        let records: Vec<&Record> =
            places.iter().map(|(_, part, (_, r))| &part.results[*r]).collect();
        let first = records[0];
        if let Some(other) = records.iter().find(|r| r.unit != first.unit) {
            skipped.push(Skipped {
                metric: [&key.1, " (", &subject.label, ")"].concat(),
                reason: units(Note::new("compare.units-of-runs"), first.unit, other.unit),
            });
            continue;
        }
        let Some(data) = data(places) else {
            skipped.push(Skipped {
                metric: named(&key, &subject.label),
                reason: Note::new("compare.no-values"),
            });
            continue;
        };
        let summary = match &data {
            Data::Distribution(s) => s.all().summary(),
            _ if records.len() == 1 => first.summary.clone(),
            Data::Values(v) | Data::Runs(v, _) => {
                Summary { count: v.len() as u64, median: median(v), ..Summary::default() }
            }
            Data::Figure(v) => Summary { count: 1, median: Some(*v), ..Summary::default() },
        };
        let seconds: f64 = places.iter().map(|(_, p, _)| p.duration_ns as f64 / 1e9).sum();
        let count: u64 = records.iter().map(|r| r.summary.count).sum();
        out.push(Found {
            name: first.name.clone(),
            params: first.params.clone(),
            unit: first.unit,
            data,
            runs: records.len(),
            per_second: (seconds > 0.0).then(|| count as f64 / seconds),
            summary,
            key,
        });
    }
    out
}

/// Name, parameters and subject.
fn named(key: &Key, label: &str) -> String {
    let parameters = if key.2.is_empty() { String::new() } else { [" ", &key.2].concat() };
    [&key.1, parameters.as_str(), " (", label, ")"].concat()
}

fn units(note: Note, unit: Unit, other: Unit) -> Note {
    note.value("unit", unit_word(unit)).value("other", unit_word(other))
}

fn key(part: &Part, record: &Record) -> Key {
    let params: Vec<String> =
        record.params.iter().map(|(k, v)| [k.as_str(), "=", &v.to_string()].concat()).collect();
    (part.name.clone(), record.name.clone(), params.join(","))
}

/// The values of a metric over all runs of a subject; `None` when there are none.
fn data(places: &[(&Source, &Part, (usize, usize))]) -> Option<Data> {
    let distributions: Vec<RunSample> = places.iter().filter_map(distribution).collect();
    if distributions.len() == places.len() {
        let sample = Sample { runs: distributions };
        return (sample.all().count > 0).then_some(Data::Distribution(sample));
    }
    let each: Vec<Vec<f64>> = places.iter().map(values).collect();
    let figures: Vec<f64> = each.iter().filter_map(|v| median(v)).collect();
    match each.as_slice() {
        _ if figures.is_empty() => None,
        many if many.len() >= RUNS => Some(Data::Runs(figures, each.concat())),
        all if all.iter().map(Vec::len).sum::<usize>() > 1 => {
            Some(Data::Values(all.iter().flatten().copied().collect()))
        }
        _ => Some(Data::Figure(figures[0])),
    }
}

fn distribution((source, part, at): &(&Source, &Part, (usize, usize))) -> Option<RunSample> {
    if let Some(sample) = source.samples.get(at) {
        return Some(sample.clone());
    }
    let record = &part.results[at.1];
    let histogram: &Histogram = record.histogram.as_ref()?;
    let mut sample = RunSample::of_histogram(histogram.clone(), 1, None);
    if let Some(Detail::Wakeup(result)) = &part.detail {
        // The total over all threads: a single thread's record has its own part of it only.
        let series = result.stretches();
        let whole = !record.params.contains_key("thread") && !record.name.ends_with(".period");
        if whole && series.iter().map(|s| s.count).total() == histogram.count {
            sample.order = Order::Stretches(series);
        }
    }
    Some(sample)
}

/// Independent values of a record: the medians of a benchmark's processes, or its samples.
fn values((_, part, at): &(&Source, &Part, (usize, usize))) -> Vec<f64> {
    let record = &part.results[at.1];
    if let Some(Detail::Bench(detail)) = &part.detail
        && let Some(row) = detail.rows.get(at.1).filter(|r| r.slices.len() > 1)
    {
        return row.slices.iter().map(|s| s.1).collect();
    }
    match record.samples.as_slice() {
        [] => record.summary.median.into_iter().collect(),
        all => all.to_vec(),
    }
}

/// With more metrics of one name than this, only the same parameters are the same metric.
const NAMED_MAX: usize = 256;

/// The metrics of a subject by name, and by all that makes two of them the same.
struct Lookup<'a> {
    found: &'a [Found],
    by_name: HashMap<&'a str, Vec<usize>>,
    by_key: HashMap<&'a Key, usize>,
}

impl<'a> Lookup<'a> {
    fn new(found: &'a [Found]) -> Self {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut by_key = HashMap::new();
        for (i, f) in found.iter().enumerate() {
            by_name.entry(&f.name).or_default().push(i);
            by_key.insert(&f.key, i);
        }
        Self { found, by_name, by_key }
    }

    /// Where the metric is that is `f`: of the same name and parameters, or the only one of that name whose
    /// parameters do not contradict.
    fn matching(&self, f: &Found, skipped: &mut Vec<Skipped>) -> Option<usize> {
        let named = self.by_name.get(f.name.as_str())?;
        let of = |i: usize| &self.found[i];
        if let Some(exact) = self.by_key.get(&f.key).copied().filter(|i| of(*i).unit == f.unit) {
            return Some(exact);
        }
        let few = &named[..named.len().min(NAMED_MAX)];
        let Some(same_unit) = few.iter().copied().find(|i| of(*i).unit == f.unit) else {
            skipped.push(Skipped {
                metric: label(f),
                reason: units(Note::new("compare.units"), f.unit, of(named[0]).unit),
            });
            return None;
        };
        let further = |i: &usize| {
            let o = &of(*i).params;
            o.keys().filter(|k| !f.params.contains_key(*k)).count()
                + f.params.keys().filter(|k| !o.contains_key(*k)).count()
        };
        let is_all = few.len() == named.len();
        let fits = |i: &usize| is_all && of(*i).unit == f.unit && agrees(f, of(*i));
        // The least further parameters first: the total before one thread's share of it.
        match few.iter().copied().filter(fits).min_by_key(further) {
            Some(i) => {
                let one_thread = |x: &Found| x.params.contains_key("thread");
                (one_thread(f) == one_thread(of(i))).then_some(i)
            }
            None => {
                skipped.push(Skipped {
                    metric: label(f),
                    reason: Note::new("compare.parameters").value("other", label(of(same_unit))),
                });
                None
            }
        }
    }
}

/// Whether neither parts nor parameters of two metrics contradict each other.
fn agrees(f: &Found, o: &Found) -> bool {
    let same_part = o.key.0 == f.key.0 || o.key.0.is_empty() || f.key.0.is_empty();
    same_part
        && f.params
            .iter()
            .all(|(k, v)| o.params.get(k).is_none_or(|w| v.to_string() == w.to_string()))
}
