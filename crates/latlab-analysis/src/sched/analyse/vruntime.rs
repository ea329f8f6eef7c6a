//! Whether the task with the smallest virtual run time runs next.

use super::Analyzer;

impl Analyzer {
    /// A fair task was preempted on this CPU, and waits.
    pub(super) fn wait_preempted(&mut self, c: usize, i: usize) {
        let task = &self.tasks[i];
        let fair = (100..=139).contains(&task.prio);
        let waiting = &mut self.cpus[c].preempted;
        if fair && task.account.vruntime.now().is_some() && !waiting.contains(&i) {
            waiting.push(i);
        }
    }

    /// This task gets the CPU: is it the one with the smallest virtual run time?
    pub(super) fn choose(&mut self, c: usize, i: usize) {
        let mut waiting = std::mem::take(&mut self.cpus[c].preempted);
        let cpu = self.cpus[c].on.id;
        // Those that sleep, run or wait elsewhere meanwhile have no known one.
        waiting.retain(|&w| {
            self.tasks[w].account.vruntime.now().is_some() && self.tasks[w].cpu == cpu
        });
        let own = waiting.iter().position(|&w| w == i).map(|at| waiting.swap_remove(at));
        let value = |w: usize| self.tasks[w].account.vruntime.now();
        if let (Some(own), Some(least)) =
            (own.and_then(value), waiting.iter().filter_map(|&w| value(w)).min())
        {
            self.choices.choices += 1;
            self.choices.smallest += u64::from(own <= least);
        }
        self.cpus[c].preempted = waiting;
    }
}

#[cfg(test)]
mod tests {
    use crate::sched::analyse::{Analyzer, Options};
    use latlab_model::event::{Event, EventKind, Names, OffCpu, Task};
    use latlab_model::sched::schedule::{VruntimeChoices, VruntimeLine};
    use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};

    fn task(tid: i32, prio: i32) -> Task {
        Task { tid: Tid(tid), prio, ..Task::default() }
    }

    /// Switches of 1 ms between tasks, each with its virtual run time when it leaves.
    fn analysed(steps: &[(i32, u64, OffCpu, i32)]) -> latlab_model::sched::schedule::Schedule {
        let mut analyzer = Analyzer::new(Options::default());
        let names = Names::default();
        let mut push = |time: u64, tid: i32, kind| {
            let event = Event { time: TraceNs(time), cpu: CpuId(0), current: Tid(tid), kind };
            analyzer.push(&event, &names, &mut |_| {});
        };
        for (n, &(prev, vruntime, state, next)) in steps.iter().enumerate() {
            let time = (n as u64 + 1) * 1_000_000;
            let ns = Nanos(1_000_000);
            push(time - 10, prev, EventKind::Runtime { tid: Tid(prev), ns, vruntime });
            let (prev, next) = (task(prev, 120), task(next, 120));
            push(time, prev.tid.0, EventKind::Switch { prev, state, next });
        }
        analyzer.finish("", &names, &mut |_| {})
    }

    #[test]
    fn the_task_with_the_smallest_virtual_run_time_runs_next() {
        let r = OffCpu::Preempted;
        // 1 and 2 take turns; 3 waits with a large one; at the end 3 runs although 1 is smaller.
        let steps = [(3, 90, r, 1), (1, 10, r, 2), (2, 20, r, 1), (1, 30, r, 2), (2, 40, r, 3)];
        let schedule = analysed(&steps);
        assert_eq!(schedule.vruntime, Some(VruntimeChoices { choices: 3, smallest: 2 }));
        let one = schedule.task(1).unwrap().vruntime;
        assert_eq!(one, Some(VruntimeLine { weight: 1024, gained_ns: 20, charged_ns: 1_000_000 }));
        // A kernel that does not tell.
        let silent = analysed(&steps.map(|(prev, _, state, next)| (prev, 0, state, next)));
        assert_eq!((silent.vruntime, silent.task(1).unwrap().vruntime), (None, None));
    }

    #[test]
    fn a_sleep_makes_it_unknown() {
        let r = OffCpu::Preempted;
        let steps = [
            (1, 10, r, 2),
            (2, 20, OffCpu::Sleeping, 1),
            (1, 30, r, 2),
            (2, 15, r, 1),
            (1, 40, r, 2),
        ];
        let schedule = analysed(&steps);
        // 2 slept before its first turn and after its second; only its last wait is known.
        assert_eq!(schedule.vruntime.map(|c| c.choices), Some(2), "{:?}", schedule.vruntime);
    }
}
