//! One group of late windows judged: victim or culprit, what it amounts to, on which evidence.

use super::confidence::confidence;
use super::counters::Counted;
use super::mechanism::{Setting, is_from, mechanism};
use super::members::{
    CONTROLS, Members, Place, Verdict, could_be_stall, is_bracketed, is_silent, is_usual,
};
use super::shares::{longest, size, thread, top_instead, typical};
use crate::latency::case_control::{Usual, each};
use latlab_model::finding::Confidence;
use latlab_model::latency::Contrast;
use latlab_model::latency::{
    Alternative, CauseEvidence, FunctionShare, Mechanism, RootCause, SystemContext,
};
use latlab_model::latency::{Cause, Others};
use latlab_model::latency::{Group, Share, Window};
use latlab_stats::discrete::beta_binomial_tail;
use latlab_stats::period::{Period, find_period};
use latlab_stats::quantile::{mad, median};
use std::collections::{BTreeMap, BTreeSet};

/// What a group is judged by.
pub(super) struct Judge<'a> {
    pub(super) windows: &'a [Window],
    pub(super) around: &'a SystemContext,
    pub(super) contrast: &'a Contrast,
    /// Who had the CPU in on-time windows.
    pub(super) occupants: Occupants<'a>,
    /// Groups of on-time windows.
    pub(super) usual: &'a BTreeMap<Group, Usual>,
    /// Weight of all late windows.
    pub(super) late: f64,
    /// Weighted excess of all late windows, ns.
    pub(super) total: f64,
    /// Silent stretches in all late windows.
    pub(super) silent: usize,
}

/// Who had the CPU at the intended times of on-time windows.
#[derive(Default)]
pub(super) struct Occupants<'a> {
    windows: usize,
    /// Windows in which an idle state was left.
    idle: usize,
    by_name: BTreeMap<&'a str, usize>,
}

impl<'a> Occupants<'a> {
    pub(super) fn of(windows: &'a [Window]) -> Self {
        let mut all = Self::default();
        for w in windows.iter().filter(|w| !w.late) {
            let left = |(g, s): &(Group, Share)| g.cause == Cause::IdleExit && s.ns > 0;
            all.windows += 1;
            all.idle += usize::from(w.shares.iter().any(left));
            *all.by_name.entry(&w.at_intended).or_default() += 1;
        }
        all
    }
}

impl Judge<'_> {
    /// On-time windows, and those of them in which this actor had the CPU at the intended time.
    fn seen(&self, group: &Group) -> (usize, usize) {
        let by_name = || self.occupants.by_name.get(group.who.as_str()).copied().unwrap_or(0);
        let idle = group.cause == Cause::IdleExit;
        (self.occupants.windows, if idle { self.occupants.idle } else { by_name() })
    }

    /// Share of the time that this actor has the CPU, with one imagined occurrence so that what was
    /// never seen is not impossible. What runs at interrupts has more of a wake-up than of other times.
    fn occupancy(&self, group: &Group) -> f64 {
        let (n, hit) = self.seen(group);
        let at_intended = (hit as f64 + 1.0) / (n as f64 + 2.0);
        match is_bracketed(group.cause) {
            true => at_intended.max(self.usual.get(group).map_or(0.0, |u| u.of_latency)),
            false => at_intended,
        }
    }

    /// The chance that a stall hits some actor so often, as rare a one as this: a tail for this actor,
    /// times the actors that it could have hit (Bonferroni). What share of the time a task has the CPU is
    /// only known as well as the on-time windows are many; that of a handler is small in any case.
    pub(super) fn chance(&self, group: &Group, hits: usize, of: usize) -> f64 {
        let (n, hit) = self.seen(group);
        let known = (n as f64 + 2.0) * if is_bracketed(group.cause) { 1e6 } else { 1.0 };
        let occupancy = self.occupancy(group);
        let (a, b) = (occupancy * known, (1.0 - occupancy) * known);
        let actors = self.occupants.by_name.len() + usize::from(hit == 0);
        (actors as f64 * beta_binomial_tail(of, hits, a, b)).min(1.0)
    }

    /// Whether the declared exit latency of the idle state that was left covers a group's excess, and
    /// on-time windows that left the same state do not speak against it.
    pub(super) fn is_declared_exit(&self, group: &Group, m: &Members) -> bool {
        let typical = median(&m.excess.values().copied().collect::<Vec<_>>()).unwrap_or(0.0);
        match self.idle_state(group, m) {
            Some(IdleExit { declared_ns: declared, on_time, .. }) => {
                let usual =
                    on_time.is_none_or(|(n, most)| n < CONTROLS || 2.0 * most as f64 >= typical);
                declared > 0 && typical <= 2.0 * declared as f64 && usual
            }
            None => {
                let declared = self.around.idle_exit_ns.unwrap_or(0) as f64;
                declared > 0.0 && typical <= 2.0 * declared
            }
        }
    }

    /// Period of the moments at which a group's delays ended, and its jitter.
    pub(super) fn period(&self, m: &Members) -> Option<(f64, f64)> {
        let moments: std::collections::BTreeSet<u64> =
            m.excess.keys().map(|&i| self.moment(i)).collect();
        let moments: Vec<f64> = moments.into_iter().map(|t| t as f64).collect();
        find_period(&moments, self.around.interval_ns.unwrap_or(0) as f64)
            .map(|Period { period, jitter, .. }| (period, jitter))
    }

    /// The idle state that most windows of a group left, its declared exit latency, and of on-time windows
    /// that left the same one their number and the longest exit, ns.
    fn idle_state(&self, group: &Group, m: &Members) -> Option<IdleExit> {
        let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
        let states = m.excess.keys().filter_map(|&i| self.windows[i].share(group).idle_state);
        states.for_each(|s| *seen.entry(s).or_default() += 1);
        let (state, n) = seen.into_iter().max_by_key(|s| s.1)?;
        if 2 * n <= m.excess.len() {
            return None;
        }
        let declared_ns = self.around.idle_exits_ns.get(state as usize).copied().unwrap_or(0);
        let shares = self.windows.iter().filter(|w| !w.late).map(|w| w.share(group));
        let same: Vec<u64> = shares.filter(|s| s.idle_state == Some(state)).map(|s| s.ns).collect();
        let on_time = same.iter().max().map(|most| (same.len(), *most));
        Some(IdleExit { state, declared_ns, on_time })
    }

    /// All that is known of one group.
    pub(super) fn cause(&self, group: &Group, m: &Members) -> RootCause {
        let shares: Vec<(usize, &Share, f64)> = m
            .excess
            .iter()
            .map(|(&i, &e)| {
                let share = longest(&self.windows[i], &m.merged)
                    .unwrap_or_else(|| self.windows[i].share(group));
                (i, share, e)
            })
            .collect();
        // Sizes are read off whole windows, where there are any.
        let whole = |s: &&(usize, &Share, f64)| self.windows[s.0].weight() == 1.0;
        let clean: Vec<_> = shares.iter().filter(whole).collect();
        let sized = if clean.is_empty() { shares.iter().collect() } else { clean };
        let of = |f: &dyn Fn(&(usize, &Share, f64)) -> f64| {
            median(&sized.iter().map(|s| f(s)).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let weight = |i: &usize| self.windows[*i].weight();
        let excess = m.excess.iter().fold(0.0, |sum, (i, e)| sum + e * weight(i));
        let main = m.main.iter().map(weight).fold(0.0, |sum, w| sum + w);
        let first = shares.iter().max_by(|a, b| a.2.total_cmp(&b.2)).map(|s| s.1.clone());
        let first = first.unwrap_or_default();
        let instead = top_instead(&shares);
        let mechanism = match m.kind {
            Verdict::Own => mechanism(group, &first, &instead, self.setting(m)),
            Verdict::Stall => Mechanism::Stall,
            Verdict::Alternatives => Mechanism::Alternatives,
        };
        let (size_ns, size_interval_ns) = size(
            (group.cause, first.kind),
            of(&|s| (s.1.whole_ns as f64).max(s.2)),
            of(&|s| s.2),
            &sized,
            self.seen(group),
        );
        let times_on_time = self.usual.get(group).map_or(0.0, |u| u.times);
        let is_one = m.kind == Verdict::Own && mechanism != Mechanism::Alternatives;
        let mut cluster = RootCause {
            mechanism,
            who: if is_one { group.who.clone() } else { String::new() },
            thread: thread(&shares),
            alternatives: self.alternatives(group, m),
            stage: first.stage,
            prio: first.prio,
            share_of_late: main / self.late.max(0.25),
            share_of_lateness: if self.total > 0.0 { (excess / self.total).min(1.0) } else { 0.0 },
            excess_ns: of(&|s| s.2),
            size_ns,
            size_interval_ns,
            times: of(&|s| f64::from(s.1.times)),
            times_on_time,
            functions: self.functions(group, m),
            stack: self.stack(group, m),
            waited_for: first.waited_for.clone(),
            execution: None,
            instead,
            period_ns: self.period(m),
            confidence: Confidence::Low,
            evidence: Vec::new(),
            example: typical(&shares),
            main_of: m.main.clone(),
            part_of: m.excess.keys().copied().collect(),
        };
        cluster.evidence = self.evidence(group, m, &cluster);
        cluster.confidence = confidence(&cluster);
        cluster
    }

    /// The measured task's priority in most of the windows, and the kernel.
    fn setting(&self, m: &Members) -> Setting {
        let mut seen: BTreeMap<i32, usize> = BTreeMap::new();
        let known = m.excess.keys().filter_map(|&i| self.windows[i].prio);
        known.for_each(|p| *seen.entry(p).or_default() += 1);
        let prio = seen.into_iter().max_by_key(|s| s.1).map(|s| s.0);
        let without_work = m.excess.keys().all(|&i| self.windows[i].without_work);
        let fair_server = is_from(self.around.kernel.as_deref(), (6, 12));
        Setting { prio, without_work, fair_server }
    }

    /// What the events do not distinguish, the most frequent first; a stall, where it is one of them, last.
    fn alternatives(&self, group: &Group, m: &Members) -> Vec<Alternative> {
        let groups = match m.kind {
            Verdict::Alternatives => m.merged.as_slice(),
            Verdict::Own if group.cause == Cause::FairOrBandwidth => std::slice::from_ref(group),
            Verdict::Own | Verdict::Stall => return Vec::new(),
        };
        // One of them is said to be it: also that the task itself was running.
        let setting = Setting { without_work: false, ..self.setting(m) };
        // One mechanism of one actor may be several groups.
        let mut alike: BTreeMap<(Mechanism, &str), BTreeSet<usize>> = BTreeMap::new();
        for group in groups {
            let of = |&i: &usize| (i, self.windows[i].share(group));
            let shares: Vec<(usize, &Share)> =
                m.excess.keys().map(of).filter(|(_, s)| s.ns > 0).collect();
            let nothing = Share::default();
            let longest = shares.iter().map(|s| s.1).max_by_key(|s| s.ns).unwrap_or(&nothing);
            let mut mechanism = mechanism(group, longest, &[], setting);
            if group.cause == Cause::FairOrBandwidth {
                alike.entry((Mechanism::Bandwidth, "")).or_default().extend(m.excess.keys());
                mechanism = Mechanism::EqualPriority;
            }
            let windows = alike.entry((mechanism, &group.who)).or_default();
            windows.extend(shares.iter().map(|s| s.0));
        }
        let one = |((mechanism, who), windows): ((Mechanism, &str), BTreeSet<usize>)| Alternative {
            mechanism,
            who: who.to_owned(),
            windows: windows.len(),
        };
        let mut all: Vec<Alternative> = alike.into_iter().map(one).collect();
        all.sort_by_key(|a| std::cmp::Reverse(a.windows));
        // Another task ran: nothing stood still.
        if m.kind == Verdict::Own {
            return all;
        }
        let windows = m.excess.keys().filter(|&&i| self.windows[i].silent_ipi).count();
        if windows > 0 && all.iter().all(|a| a.mechanism != Mechanism::Ipi) {
            all.push(Alternative { mechanism: Mechanism::Ipi, who: String::new(), windows });
        }
        let windows = m.excess.len();
        all.push(Alternative { mechanism: Mechanism::Stall, who: String::new(), windows });
        all
    }

    /// When the delay ended, µs resolution, ns: what is late for one reason ends at one moment.
    fn moment(&self, i: usize) -> u64 {
        let w = &self.windows[i];
        (w.intended_ns + w.latency_ns) / 1_000 * 1_000
    }

    fn evidence(&self, group: &Group, m: &Members, cluster: &RootCause) -> Vec<CauseEvidence> {
        let mut evidence = Vec::new();
        let whole: f64 = m
            .excess
            .keys()
            .map(|&i| (self.windows[i].compared_ns() as f64 - self.contrast.baseline_ns).max(1.0))
            .sum();
        evidence.push(CauseEvidence::Covers {
            share: (m.excess.values().sum::<f64>() / whole).min(1.0),
        });
        let beyond = self.not_compared(group, m);
        if self.contrast.on_time == 0 {
            evidence.push(CauseEvidence::NoControls);
        } else if beyond > 0.5 {
            evidence.push(CauseEvidence::NotCompared { share: beyond });
        } else if let Some(row) =
            self.contrast.rows.iter().find(|r| r.group == *group && r.function.is_none())
        {
            evidence.push(CauseEvidence::Separates { delta: row.delta });
        }
        if m.excess.len() < 3 {
            evidence.push(CauseEvidence::Few { windows: m.excess.len() });
        }
        let lost = m.excess.keys().filter(|&&i| self.windows[i].lost).count();
        if lost > 0 {
            evidence.push(CauseEvidence::Lost { windows: lost });
        }
        let uncovered = m.excess.keys().filter(|&&i| self.windows[i].uncovered).count();
        if uncovered > 0 {
            evidence.push(CauseEvidence::Uncovered { windows: uncovered });
        }
        let silent = m.merged.is_empty() && could_be_stall(group.cause, self.is_guest());
        if silent {
            let hits =
                m.excess.iter().filter(|&(&i, &e)| is_silent(self.windows[i].share(group), e));
            let (hits, occupancy) = (hits.count(), self.occupancy(group));
            if hits > 0 {
                let of = self.silent.max(hits);
                let p = self.chance(group, hits, of);
                evidence.push(CauseEvidence::Victim { hits, of, occupancy, p });
                let windows: Vec<usize> = m.excess.keys().copied().collect();
                let place = self.place(group, &windows, of);
                evidence.extend(place.map(|Place { function, hits, on_time, p }| {
                    CauseEvidence::Place { function, hits, on_time, p }
                }));
            }
        }
        let usual = m.excess.keys().map(|&i| self.windows[i].share(group)).filter(|s| is_usual(s));
        let usual: Vec<u64> = usual.filter_map(|s| s.usual_silent_ns).collect();
        if let Some(&usual_ns) = usual.iter().max().filter(|_| m.merged.is_empty()) {
            evidence.push(CauseEvidence::UsualLength { windows: usual.len(), usual_ns });
        }
        let section = m.excess.keys().filter(|&&i| {
            let w = &self.windows[i];
            w.silent_interrupts_on == Some(false) || w.silent_preemption_on == Some(false)
        });
        let section = section.count();
        if section > 0 && matches!(group.cause, Cause::InterruptsOff | Cause::PreemptionOff) {
            evidence.push(CauseEvidence::SectionRecorded { windows: section });
        }
        evidence.extend(self.sender(group, m));
        if matches!(cluster.mechanism, Mechanism::SlowPath | Mechanism::Unexplained) {
            let frequency = |(low_khz, high_khz)| CauseEvidence::Frequency { low_khz, high_khz };
            evidence.extend(self.around.khz.map(frequency));
            evidence.extend(self.around.speed.map(|ratio| CauseEvidence::Speed { ratio }));
        }
        if m.kind == Verdict::Alternatives {
            evidence.extend(self.place_of_alternatives(m));
        }
        if m.kind != Verdict::Own || group.cause == Cause::IdleExit {
            self.stall_evidence(group, m, cluster, &mut evidence);
        }
        evidence
    }

    /// Share of a group's excess that lies behind the event at which on-time windows end.
    fn not_compared(&self, group: &Group, m: &Members) -> f64 {
        let beyond =
            |(&i, &e): (&usize, &f64)| (self.windows[i].share(group).not_compared_ns as f64).min(e);
        let all: f64 = m.excess.values().sum();
        m.excess.iter().map(beyond).sum::<f64>() / all.max(1.0)
    }

    fn stall_evidence(
        &self,
        group: &Group,
        m: &Members,
        cluster: &RootCause,
        evidence: &mut Vec<CauseEvidence>,
    ) {
        let of = m.excess.len();
        let windows = || m.excess.keys().map(|&i| &self.windows[i]);
        let count = |is: &dyn Fn(&Window) -> bool| windows().filter(|w| is(w)).count();
        let mut put = |n: usize, fact: CauseEvidence| {
            if n > 0 {
                evidence.push(fact);
            }
        };
        let n = count(&|w| w.silent_in_user);
        put(n, CauseEvidence::InUser { windows: n });
        let n = count(&|w| w.silent_interrupts_on == Some(true));
        put(n, CauseEvidence::InterruptsOn { windows: n });
        let n = count(&|w| w.silent_hwlat);
        put(n, CauseEvidence::Hwlat { windows: n });
        let n = count(&|w| w.silent_other_timer);
        put(n, CauseEvidence::OtherTimerSilent { windows: n, of });
        let n = m.excess.keys().filter(|&&i| self.all_silent(i, &m.merged)).count();
        put(n, CauseEvidence::AllSilent { windows: n, of });
        let n = m.excess.keys().filter(|&&i| self.simultaneous(i)).count();
        put(n, CauseEvidence::Simultaneous { windows: n, of });
        let lengths: Vec<f64> = m.excess.values().copied().collect();
        if let (Some(median_ns), Some(mad_ns), true) = (median(&lengths), mad(&lengths), of >= 3)
            && mad_ns < 0.1 * median_ns
        {
            evidence.push(CauseEvidence::AlikeLengths { median_ns, mad_ns });
        }
        if let Some(name) = &self.around.hypervisor {
            evidence.push(CauseEvidence::Hypervisor { name: name.clone() });
        }
        if let Some(ns) = self.around.steal_ns.filter(|&ns| ns > 0) {
            evidence.push(CauseEvidence::Steal { ns });
        }
        if let Some(count) = self.around.smi.filter(|&n| n > 0) {
            evidence.push(CauseEvidence::Smi { count });
        }
        let counted = Counted::of(windows(), self.around.readings);
        let then = |count: &dyn Fn(&Window) -> Option<u64>| {
            let known = windows().filter(|w| count(w).is_some()).count();
            let seen = windows().filter(|w| count(w) > Some(0)).count();
            (known > 0).then_some((seen, known))
        };
        if let Some((windows, of)) = then(&|w| w.steal_ns) {
            evidence.push(CauseEvidence::StealThen { windows, of, p: counted.steal_p });
        }
        if let Some((windows, of)) = then(&|w| w.smi) {
            evidence.push(CauseEvidence::SmiThen { windows, of, p: counted.smi_p });
        }
        if matches!(cluster.mechanism, Mechanism::Stall | Mechanism::Alternatives) {
            let missing = self.around.missing.iter().cloned();
            evidence.extend(missing.map(|what| CauseEvidence::Missing { what }));
        }
        let idle = |g: &&Group| g.cause == Cause::IdleExit;
        let Some(idle) = std::iter::once(group).chain(&m.merged).find(idle) else { return };
        if let Some(IdleExit { state, declared_ns, on_time }) = self.idle_state(idle, m) {
            let on_time_ns = on_time.map(|o| o.1);
            evidence.push(CauseEvidence::IdleState { state, declared_ns, on_time_ns });
        } else if let Some(ns) = self.around.idle_exit_ns {
            evidence.push(CauseEvidence::DeclaredExit { ns });
        }
    }

    fn all_silent(&self, i: usize, merged: &[Group]) -> bool {
        longest(&self.windows[i], merged).is_some_and(|s| s.others == Some(Others::Silent))
    }

    /// Whether a late window of another CPU overlaps this one.
    fn simultaneous(&self, i: usize) -> bool {
        let w = &self.windows[i];
        let end = |w: &Window| w.intended_ns + w.latency_ns;
        self.windows
            .iter()
            .any(|o| o.late && o.cpu != w.cpu && o.intended_ns < end(w) && w.intended_ns < end(o))
    }

    fn functions(&self, group: &Group, m: &Members) -> Vec<FunctionShare> {
        let mut names: BTreeMap<&str, ()> = BTreeMap::new();
        for &i in m.excess.keys() {
            for (g, f, _) in &self.windows[i].functions {
                if g == group {
                    names.insert(f, ());
                }
            }
        }
        let mut shares: Vec<FunctionShare> = names
            .into_keys()
            .map(|f| {
                let late = self.calls(group, f, |i, _| m.excess.contains_key(&i));
                let on_time = self.calls(group, f, |_, w| !w.late);
                FunctionShare {
                    function: f.to_owned(),
                    late_ns: late.ns,
                    on_time_ns: on_time.ns,
                    late_calls: late.calls,
                    on_time_calls: on_time.calls,
                    late_each_ns: late.each_ns,
                    on_time_each_ns: on_time.each_ns,
                    on_time_windows: on_time.windows,
                }
            })
            .filter(|s| s.late_ns > s.on_time_ns)
            .collect();
        shares.sort_by(|a, b| (b.late_ns - b.on_time_ns).total_cmp(&(a.late_ns - a.on_time_ns)));
        shares.truncate(8);
        shares
    }

    /// A function inside a group in some of the windows.
    fn calls(
        &self,
        group: &Group,
        function: &str,
        chosen: impl Fn(usize, &Window) -> bool,
    ) -> TypicalCalls {
        let windows = self.windows.iter().enumerate().filter(|(i, w)| chosen(*i, w));
        let all: Vec<(f64, f64)> = windows
            .map(|(_, w)| {
                let found = w.functions.iter().find(|(g, f, _)| g == group && f == function);
                let c = found.map(|x| x.2).unwrap_or_default();
                (c.ns as f64, f64::from(c.calls))
            })
            .collect();
        let typical = |values: Vec<f64>| median(&values).unwrap_or(0.0);
        let those: Vec<&(f64, f64)> = all.iter().filter(|c| c.0 > 0.0).collect();
        TypicalCalls {
            ns: typical(all.iter().map(|c| c.0).collect()),
            calls: typical(all.iter().map(|c| c.1).collect()),
            each_ns: typical(those.iter().map(|c| each(c.0, c.1)).collect()),
            windows: those.len(),
        }
    }

    fn stack(&self, group: &Group, m: &Members) -> Vec<String> {
        let mut seen: BTreeMap<&[String], usize> = BTreeMap::new();
        for &i in m.excess.keys() {
            for (g, stack) in &self.windows[i].stacks {
                if g == group {
                    *seen.entry(stack).or_default() += 1;
                }
            }
        }
        seen.into_iter().max_by_key(|(_, n)| *n).map(|(s, _)| s.to_vec()).unwrap_or_default()
    }
}

/// The idle state that a group's windows left.
struct IdleExit {
    /// As the kernel counts them.
    state: u32,
    /// Declared exit latency, ns; 0: none.
    declared_ns: u64,
    /// On-time windows that left the same state, and the longest exit among them, ns.
    on_time: Option<(usize, u64)>,
}

/// Medians of a function's self time.
struct TypicalCalls {
    /// In a window, ns.
    ns: f64,
    /// Calls in a window.
    calls: f64,
    /// Of a call, in the windows that have it, ns.
    each_ns: f64,
    /// Windows that have it.
    windows: usize,
}
