//! The watched tasks: which threads each entry of the configuration names now, and what is known of them.

use crate::cli::watch::{SpanConfig, TaskConfig};
use crate::cmd::why::target::Target;
use latlab_analysis::latency::activations::Late;
use latlab_analysis::watch::follow::Open;
use latlab_model::latency::{PeriodEstimate, Release};
use latlab_model::units::{Nanos, Tid, TraceNs};
use latlab_model::watch::TaskStatus;
use latlab_report::values::counted;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Between two searches of all threads: one takes milliseconds of CPU time.
const SEARCH: Duration = Duration::from_secs(10);
/// While an entry names no thread.
const SEARCH_ABSENT: Duration = Duration::from_secs(3);
/// Different thread names of one entry that are counted apart.
const LABELS: usize = 32;

/// The threads that are watched, each list in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Threads {
    /// All of them.
    pub(super) all: Vec<Tid>,
    /// Those whose activations are counted.
    pub(super) tasks: Vec<Tid>,
    /// Those in which the spans of each number end; `None`: any.
    pub(super) spans: Vec<Option<Vec<Tid>>>,
}

/// All entries.
#[derive(Debug)]
pub(super) struct Tasks {
    entries: Vec<Entry>,
    searched: Option<Instant>,
}

/// One entry of the configuration: a task, or spans.
struct Entry {
    config: TaskConfig,
    /// `None`: spans of any threads.
    target: Option<Target>,
    /// It is about spans, by their number.
    span: Option<usize>,
    tids: Vec<Tid>,
    labels: BTreeMap<String, Label>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("config", &self.config).field("tids", &self.tids).finish()
    }
}

/// The threads of one name of an entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Label {
    /// What begins an activation.
    pub(super) release: Option<Release>,
    /// Distance of intended times.
    pub(super) period: Option<PeriodEstimate>,
    /// Intended time of the last activation of each thread.
    pub(super) last: BTreeMap<Tid, u64>,
    /// Of each thread the activation that is late and has not ended.
    pub(super) overdue: BTreeMap<Tid, Overdue>,
    /// When such a one was told.
    pub(super) told: Option<Instant>,
}

/// An activation that is late and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overdue {
    /// When it was due.
    pub(super) intended: TraceNs,
    /// How long it takes until now.
    pub(super) age: Nanos,
}

/// Where the activations of a thread are counted.
#[derive(Debug)]
pub(super) struct Place<'t> {
    /// The name in counts.
    pub(super) label: String,
    /// What is late.
    pub(super) late: Late,
    /// The period, given or found.
    pub(super) period_ns: Option<u64>,
    /// What is known.
    pub(super) known: &'t mut Label,
}

impl Entry {
    /// Takes its threads of now, which are sorted. Whether they changed.
    fn set(&mut self, tids: Vec<Tid>) -> bool {
        let changed = tids != self.tids;
        for label in self.labels.values_mut() {
            label.last.retain(|tid, _| tids.binary_search(tid).is_ok());
            label.overdue.retain(|tid, _| tids.binary_search(tid).is_ok());
        }
        self.tids = tids;
        changed
    }
}

impl Tasks {
    /// The entries; that one names no thread yet is no error.
    ///
    /// # Errors
    /// When an entry can name none.
    pub(super) fn new(configs: Vec<TaskConfig>, spans: &[SpanConfig]) -> anyhow::Result<Self> {
        let task = |config: TaskConfig| {
            let target = Some(Target::of("task", &config.name)?);
            Ok(Entry { config, target, span: None, tids: Vec::new(), labels: BTreeMap::new() })
        };
        let entries: anyhow::Result<Vec<Entry>> = configs.into_iter().map(task).collect();
        let mut entries = entries?;
        for (number, span) in spans.iter().enumerate() {
            let target = span.task.as_ref().map(|task| Target::of("task", task)).transpose()?;
            let (name, late) = (span.name.clone(), span.deadline.map(Late::Response));
            let release = Release::Span { from: span.from.clone(), to: span.to.clone() };
            let label = Label { release: Some(release), ..Label::default() };
            entries.push(Entry {
                labels: BTreeMap::from([(name.clone(), label)]),
                config: TaskConfig { name, late, period_ns: None },
                target,
                span: Some(number),
                tids: Vec::new(),
            });
        }
        Ok(Self { entries, searched: None })
    }

    /// Looks which threads there are, as often as it is worth it. Whether they changed.
    pub(super) fn look(&mut self) -> bool {
        let is_there = |tid: &Tid| std::path::Path::new(&format!("/proc/{}", tid.0)).exists();
        let mut changed = false;
        for entry in &mut self.entries {
            let tids: Vec<Tid> = entry.tids.iter().copied().filter(is_there).collect();
            changed |= entry.set(tids);
        }
        let is_absent = |e: &Entry| e.target.is_some() && e.tids.is_empty();
        let is_absent = changed || self.entries.iter().any(is_absent);
        let every = if is_absent { SEARCH_ABSENT } else { SEARCH };
        if self.searched.is_some_and(|at| at.elapsed() < every) {
            return changed;
        }
        self.searched = Some(Instant::now());
        for entry in &mut self.entries {
            let Some(target) = &entry.target else { continue };
            let mut tids = target.tids();
            tids.sort_unstable();
            tids.dedup();
            changed |= entry.set(tids);
        }
        changed
    }

    /// The threads whose activations are counted, and those in which spans end.
    pub(super) fn threads(&self) -> Threads {
        let of = |is_one: fn(&Entry) -> bool| {
            let own = self.entries.iter().filter(|e| is_one(e));
            let mut all: Vec<Tid> = own.flat_map(|e| e.tids.iter().copied()).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let spans = self.entries.iter().filter(|e| e.span.is_some());
        Threads {
            all: of(|_| true),
            tasks: of(|e| e.span.is_none()),
            spans: spans.map(|e| e.target.is_some().then(|| e.tids.clone())).collect(),
        }
    }

    /// Where spans are counted, by their number.
    pub(super) fn of_span(&mut self, number: usize) -> Option<Place<'_>> {
        let entry = self.entries.iter_mut().find(|e| e.span == Some(number))?;
        let label = entry.config.name.clone();
        let known = entry.labels.entry(label.clone()).or_default();
        let late = entry.config.late.unwrap_or_default();
        Some(Place { label, late, period_ns: None, known })
    }

    /// Where the activations of a thread are counted.
    pub(super) fn of(&mut self, tid: Tid, name: &str) -> Option<Place<'_>> {
        let is_own = |e: &&mut Entry| e.span.is_none() && e.tids.binary_search(&tid).is_ok();
        let entry = self.entries.iter_mut().find(is_own)?;
        let mut label = match entry.config.name.as_str() {
            own if own == name => own.to_owned(),
            own => format!("{own}/{name}"),
        };
        if entry.labels.len() >= LABELS && !entry.labels.contains_key(&label) {
            label = format!("{}/other", entry.config.name);
        }
        let known = entry.labels.entry(label.clone()).or_default();
        let period_ns = entry.config.period_ns.or(known.period.map(|p| p.median_ns));
        let late = entry.config.late.or(period_ns.map(|ns| Late::Response(Nanos(ns))));
        Some(Place { label, late: late.unwrap_or_default(), period_ns, known })
    }

    /// What each entry names now, for a person.
    pub(super) fn found(&self) -> String {
        let entry = |e: &Entry| match (&e.target, e.tids.len()) {
            (None, _) => format!("{} (of all threads)", e.config.name),
            (_, 0) => format!("{} (not running yet)", e.config.name),
            (_, n) => format!("{} ({})", e.config.name, counted(n, "thread")),
        };
        self.entries.iter().map(entry).collect::<Vec<_>>().join(", ")
    }

    /// Whether the user set the limit of the entry that has this label.
    pub(super) fn has_limit(&self, label: &str) -> bool {
        self.entries.iter().any(|e| e.config.late.is_some() && e.labels.contains_key(label))
    }

    /// Forgets activations that were late and had not ended, but for these.
    pub(super) fn keep_overdue(&mut self, open: &[Open]) {
        let is_open = |tid: Tid, own: Overdue| {
            open.iter().any(|o| (o.tid, o.job.intended) == (tid, own.intended))
        };
        for label in self.entries.iter_mut().flat_map(|e| e.labels.values_mut()) {
            label.overdue.retain(|tid, own| is_open(*tid, *own));
        }
    }

    /// Whether an activation of an entry with a limit that the user set is late and has not ended.
    pub(super) fn is_overdue(&self) -> bool {
        let given = self.entries.iter().filter(|e| e.config.late.is_some());
        given.flat_map(|e| e.labels.values()).any(|label| !label.overdue.is_empty())
    }

    /// For the state.
    pub(super) fn status(&self) -> Vec<TaskStatus> {
        let mut all = Vec::new();
        for entry in &self.entries {
            let none = (entry.config.name.clone(), Label::default());
            let labels: Vec<(String, Label)> =
                entry.labels.iter().map(|(n, l)| (n.clone(), l.clone())).collect();
            let labels = if labels.is_empty() { vec![none] } else { labels };
            for (task, label) in labels {
                all.push(of_label(entry, task, label));
            }
        }
        all
    }
}

fn of_label(entry: &Entry, task: String, label: Label) -> TaskStatus {
    let period = label.period;
    let found = entry.config.period_ns.or(period.map(|p| p.median_ns));
    let (deadline_ns, start_limit_ns) = match entry.config.late {
        Some(Late::Response(ns)) => (ns.0, 0),
        Some(Late::Start(ns)) => (0, ns.0),
        Some(Late::Never) => (0, 0),
        None => (found.unwrap_or(0), 0),
    };
    let threads = match label.last.len() {
        0 => entry.tids.len(),
        n => n,
    };
    TaskStatus {
        task,
        threads: threads as u64,
        release: label.release,
        period,
        deadline_ns,
        deadline_is_period: entry.config.late.is_none() && entry.span.is_none(),
        start_limit_ns,
        overdue_ns: label.overdue.values().map(|own| own.age.0).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    fn task(name: &str, late: Option<Late>) -> TaskConfig {
        TaskConfig { name: name.into(), late, period_ns: None }
    }

    /// The exit code is about limits that were given.
    #[test]
    fn a_limit_is_that_of_its_entry() {
        let given = Some(Late::Response(Nanos(1_000_000)));
        let mut tasks = Tasks::new(vec![task("given", given), task("found", None)], &[]).unwrap();
        for (entry, name) in ["given", "found"].into_iter().enumerate() {
            let tid = Tid(100 + i32::try_from(entry).unwrap());
            tasks.entries[entry].tids = vec![tid];
            assert!(tasks.of(tid, name).is_some());
        }
        assert!(tasks.has_limit("given") && !tasks.has_limit("found"));
    }

    #[test]
    fn a_control_group_that_is_not_there_is_waited_for() {
        let mut tasks = Tasks::new(vec![task("/latlab.slice/none.service", None)], &[]).unwrap();
        assert!(!tasks.look());
        assert_eq!(tasks.found(), "/latlab.slice/none.service (not running yet)");
    }

    /// A thread that went is known at once, without a search of all threads.
    #[test]
    fn a_thread_that_ends_is_not_searched() {
        let (end, ended) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("latlab-goes".into());
        let thread = thread.spawn(move || ended.recv()).unwrap();
        let mut tasks = Tasks::new(vec![task("latlab-goes", None)], &[]).unwrap();
        while tasks.threads().all.is_empty() {
            tasks.searched = None;
            tasks.look();
        }
        // No search is due for an hour.
        let searched = Some(Instant::now() + Duration::from_secs(3_600));
        tasks.searched = searched;
        assert!(!tasks.look());
        drop(end);
        assert!(thread.join().unwrap().is_err());
        // The kernel removes its folder soon after.
        while !tasks.look() {
            thread::yield_now();
        }
        assert_eq!((tasks.threads().all, tasks.searched), (vec![], searched));
    }
}
