//! What remains when all events are in.

use super::analyse::Analyzer;
use super::fair::jain;
use super::result::{Pair, Schedule, Slice, TaskLine};
use super::task::{State, TaskState};
use crate::units::format_ns;

/// Pairs that are listed.
const PAIRS_MAX: usize = 200;
/// Tasks whose distributions are kept.
const HISTOGRAMS: usize = 10;
/// A fair task's ideal share of the whole has to be at least this for it to count in Jain's index.
const CONCERNED: f64 = 0.01;

impl Analyzer {
    /// Ends open slices (they go to `sink`) and sums up.
    pub fn finish(mut self, source: &str, sink: &mut impl FnMut(&Slice)) -> Schedule {
        self.end(sink);
        let base = self.first();
        let length_ns = self.last.since(base).0;
        let mut cpus: Vec<_> = self.cpus.iter().filter(|c| c.seen).map(|c| c.line).collect();
        cpus.sort_by_key(|c| c.cpu);
        let mut order: Vec<usize> = (0..self.tasks.len()).filter(|&i| self.is_known(i)).collect();
        let focus = |i: usize| self.options.focus.contains(&self.tasks[i].tid);
        order.sort_by_key(|&i| (!focus(i), std::cmp::Reverse(self.tasks[i].run_ns), i));
        let tasks: Vec<TaskLine> = order
            .iter()
            .take(self.options.tasks)
            .enumerate()
            .map(|(n, &i)| self.line(&self.tasks[i], base, n < HISTOGRAMS))
            .collect();
        let rest = || order.iter().skip(self.options.tasks);
        let more_run_ns = rest().map(|&i| self.tasks[i].run_ns).sum::<u64>() + self.folded.1;
        let more_tasks = rest().count() as u64 + self.folded.0;
        let shares = self.tasks.iter().filter(|t| t.fair.ideal >= CONCERNED * length_ns as f64);
        let shares: Vec<f64> = shares.map(|t| t.fair.actual as f64 / t.fair.ideal).collect();
        let jain = (shares.len() > 1).then(|| jain(shares)).flatten();
        let notes = self.notes();
        let pairs = self.pairs();
        self.inversions.sort_by_key(|i| std::cmp::Reverse(i.ns));
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
            inversions: self.inversions,
            inversion_count: self.inversion_count,
            throttles: self.throttles,
            throttle_count: self.throttle_count,
            window_ns: self.options.window_ns,
            windows: self.windows,
            jain,
            slices: self.slices,
            more_slices: self.more_slices,
            doubtful_slices: self.doubtful_slices,
            unseen: self.unseen,
            doubtful_delays: self.doubtful_delays,
            reused: self.reused.len() as u64,
            renamed: self.renamed,
            notes,
        }
    }

    fn is_known(&self, i: usize) -> bool {
        let task = &self.tasks[i];
        task.tid != 0 && (task.run_ns > 0 || task.charged_ns > 0 || task.state != State::Unknown)
    }

    fn line(&self, task: &TaskState, base: crate::units::TraceNs, histograms: bool) -> TaskLine {
        task.line(base, self.reused.contains_key(&task.tid), self.saw.charged, histograms)
    }

    fn pairs(&self) -> Vec<Pair> {
        let mut pairs: Vec<Pair> = self
            .pairs
            .iter()
            .map(|(&(by, of), &(by_name, of_name, times))| Pair {
                by,
                by_name: by_name.to_string(),
                of,
                of_name: of_name.to_string(),
                times,
            })
            .collect();
        pairs.sort_by_key(|p| (std::cmp::Reverse(p.times), p.by, p.of));
        pairs.truncate(PAIRS_MAX);
        pairs
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.switches > 0 && !self.saw.wakeup && !self.saw.waking {
            notes.push("no wake-up was recorded: delays are those after preemptions only".into());
        } else if self.switches > 0 && !self.saw.wakeup {
            notes.push(
                "sched_wakeup was not recorded: delays count from sched_waking, and ready tasks \
                 that a task of lower priority kept waiting cannot be told"
                    .into(),
            );
        }
        let holes: u64 = self.cpus.iter().map(|c| c.line.holes).sum();
        if holes > 0 {
            let lost: u64 = self.cpus.iter().map(|c| c.line.lost).sum();
            let unknown: u64 = self.cpus.iter().map(|c| c.line.unknown_ns).sum();
            notes.push(format!(
                "events were lost in {holes} places ({lost} counted): {} slices and {} delays are \
                 doubtful and not in the distributions; for {} it is not known who ran",
                self.doubtful_slices,
                self.doubtful_delays,
                format_ns(unknown as f64)
            ));
        }
        if self.unseen > 0 {
            notes.push(format!(
                "{} switches are missing although no loss was reported (tasks of which nothing is \
                 recorded): the slices before them are marked doubtful",
                self.unseen
            ));
        }
        if !self.reused.is_empty() {
            notes.push(format!(
                "{} thread ids were given to a second task; each is counted by itself",
                self.reused.len()
            ));
        }
        notes
    }
}
