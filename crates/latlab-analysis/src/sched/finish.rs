//! What remains when all events are in.

use super::analyse::Analyzer;
use super::fair::jain;
use super::task::{FoundInversion, TaskState, Throttling};
use crate::timeline::task::State;
use latlab_model::event::Names;
use latlab_model::finding::{Note, Quantity};
use latlab_model::sched::schedule::{Inversion, Pair, Schedule, Slice, TaskLine, Throttle};
use latlab_model::units::TraceNs;

/// Pairs that are listed.
const PAIRS_MAX: usize = 200;
/// Tasks whose distributions are kept.
const HISTOGRAMS: usize = 10;
/// A fair task's ideal share of the whole has to be at least this for it to count in Jain's index.
const CONCERNED: f64 = 0.01;

impl Analyzer {
    /// Ends open slices (they go to `sink`) and sums up.
    pub fn finish(
        mut self,
        source: &str,
        names: &Names,
        sink: &mut impl FnMut(&Slice),
    ) -> Schedule {
        self.end(sink);
        let base = self.first();
        let length_ns = self.last.since(base).0;
        let mut cpus: Vec<_> = self.cpus.iter().filter(|c| c.seen).map(|c| c.line).collect();
        cpus.sort_by_key(|c| c.cpu);
        let mut order: Vec<usize> =
            (0..self.tasks.rows().len()).filter(|&i| self.is_known(i)).collect();
        let focus = |i: usize| self.options.focus.contains(&self.tasks[i].tid.0);
        order.sort_by_key(|&i| (!focus(i), std::cmp::Reverse(self.tasks[i].account.run_ns), i));
        let tasks: Vec<TaskLine> = order
            .iter()
            .take(self.options.tasks)
            .enumerate()
            .map(|(n, &i)| self.line(&self.tasks[i], base, names, n < HISTOGRAMS))
            .collect();
        let rest = || order.iter().skip(self.options.tasks);
        let more_run_ns =
            rest().fold(self.folded.1, |sum, &i| sum.saturating_add(self.tasks[i].account.run_ns));
        let more_tasks = rest().count() as u64 + self.folded.0;
        let shares = self
            .tasks
            .rows()
            .iter()
            .map(|t| t.account.fair)
            .filter(|f| f.ideal >= CONCERNED * length_ns as f64);
        let shares: Vec<f64> = shares.map(|f| f.actual as f64 / f.ideal).collect();
        let jain = (shares.len() > 1).then(|| jain(shares)).flatten();
        let notes = self.notes();
        let pairs = self.pairs(names);
        let inversions = self.inversions(names);
        let throttles = self.throttles(names);
        Schedule {
            source: source.to_owned(),
            first_ns: base.0,
            length_ns,
            events: self.events,
            switches: self.switches,
            saw_wakeups: self.saw.wakeup || self.saw.waking,
            cpus,
            tasks,
            more_tasks,
            more_run_ns,
            pairs,
            inversions,
            inversion_count: self.inversion_count,
            throttles,
            throttle_count: self.throttle_count,
            window_ns: self.options.window_ns,
            windows: self.windows,
            jain,
            vruntime: (self.choices.choices > 0).then_some(self.choices),
            slices: self.slices,
            more_slices: self.more_slices,
            doubtful_slices: self.doubtful_slices,
            unseen: self.unseen,
            doubtful_delays: self.doubtful_delays,
            reused: self.tasks.reused() as u64,
            renamed: self.renamed,
            notes,
        }
    }

    fn is_known(&self, i: usize) -> bool {
        let task = &self.tasks[i];
        task.tid.0 != 0
            && (task.account.run_ns > 0
                || task.account.charged_ns > 0
                || task.state != State::Unknown)
    }

    fn line(&self, task: &TaskState, base: TraceNs, names: &Names, histograms: bool) -> TaskLine {
        let reused = self.tasks.is_reused(task.tid);
        task.account.line(task, base, names, reused, self.saw.charged, histograms)
    }

    fn inversions(&self, names: &Names) -> Vec<Inversion> {
        let mut found = self.inversions.clone();
        found.sort_by_key(|i| std::cmp::Reverse(i.length()));
        let one = |i: &FoundInversion| Inversion {
            kind: i.kind,
            high: i.high.tid.0,
            high_name: names.get(i.high.name).to_owned(),
            high_prio: i.high.prio,
            low: i.low.tid.0,
            low_name: names.get(i.low.name).to_owned(),
            low_prio: i.low.prio,
            cpu: i.cpu,
            at_ns: i.from.since(self.first()).0,
            ns: i.length().0,
        };
        found.iter().map(one).collect()
    }

    fn throttles(&self, names: &Names) -> Vec<Throttle> {
        let one = |(cpu, t, end): &(u32, Throttling, TraceNs)| Throttle {
            tid: t.task.tid.0,
            name: names.get(t.task.name).to_owned(),
            prio: t.task.prio,
            cpu: *cpu,
            at_ns: t.at.since(self.first()).0,
            ns: end.since(t.at).0,
            ran_ns: t.ran_ns,
            idle_ns: t.idle_ns,
        };
        self.throttles.iter().map(one).collect()
    }

    fn pairs(&self, names: &Names) -> Vec<Pair> {
        let mut pairs: Vec<Pair> = self
            .pairs
            .iter()
            .map(|(&(by, of), &(by_name, of_name, times))| Pair {
                by: by.0,
                by_name: names.get(by_name).to_owned(),
                of: of.0,
                of_name: names.get(of_name).to_owned(),
                times,
            })
            .collect();
        pairs.sort_by_key(|p| (std::cmp::Reverse(p.times), p.by, p.of));
        pairs.truncate(PAIRS_MAX);
        pairs
    }

    fn notes(&self) -> Vec<Note> {
        let count = |n: u64| Quantity::Count(n);
        let mut notes = Vec::new();
        if self.switches > 0 && !self.saw.wakeup && !self.saw.waking {
            notes.push(Note::new("sched.no-wakeup-events"));
        } else if self.switches > 0 && !self.saw.wakeup {
            notes.push(Note::new("sched.waking-only"));
        }
        let holes: u64 = self.cpus.iter().fold(0, |sum, c| sum.saturating_add(c.line.holes));
        if holes > 0 {
            let lost: u64 = self.cpus.iter().fold(0, |sum, c| sum.saturating_add(c.line.lost));
            let unknown: u64 =
                self.cpus.iter().fold(0, |sum, c| sum.saturating_add(c.line.unknown_ns));
            notes.push(
                Note::new("sched.holes")
                    .value("holes", count(holes))
                    .value("events", count(lost))
                    .value("slices", count(self.doubtful_slices))
                    .value("delays", count(self.doubtful_delays))
                    .value("unknown", Quantity::Ns(unknown as f64)),
            );
        }
        if self.unseen > 0 {
            notes.push(Note::new("sched.missing-switches").value("switches", count(self.unseen)));
        }
        if self.tasks.reused() > 0 {
            let reused = count(self.tasks.reused() as u64);
            notes.push(Note::new("sched.reused-tids").value("tids", reused));
        }
        notes
    }
}
