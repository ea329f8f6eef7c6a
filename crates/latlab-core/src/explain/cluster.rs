//! Which cause made which late wake-up, and how much of the lateness each explains.
//!
//! The *excess* of a group in a late window is its time there less its median
//! time in on-time windows. A window's main cause is the group with the largest
//! excess; a second group with a quarter of the window's excess counts too, so
//! that two causes at once are both named.
//!
//! A stretch without any event may be code that kept interrupts off, or a stall
//! in which no code of this kernel ran (SMI, secure world, hypervisor). A stall
//! hits whoever happens to run: its victims follow the occupancy of the CPU that
//! the on-time windows show. If one actor is hit far more often than that, it is
//! no victim (binomial test); if the victims follow it, nobody is guilty.

use super::budget::{Cause, Others, Stage};
use super::contrast::{Contrast, baseline, contrast, is_blameless};
use super::window::{Group, Kind, Share, Window};
use crate::finding::Confidence;
use crate::stats::period::{Period, find_period};
use crate::stats::quantile::{mad, median};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was known beside the trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Surroundings {
    /// Hypervisor, where one was recognised.
    pub hypervisor: Option<String>,
    /// Longest declared exit latency of an enabled idle state, ns.
    pub idle_exit_ns: Option<u64>,
    /// Steal time that passed while it was measured, ns.
    pub steal_ns: Option<u64>,
    /// System-management interrupts counted meanwhile, where the counter is readable.
    pub smi: Option<u64>,
    /// The shortest wake-up that counts as late, ns.
    pub limit_ns: u64,
}

/// The mechanism that a cluster of late wake-ups has in common. Stable identifiers.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Interrupts were off.
    InterruptsOff,
    /// Preemption was off.
    PreemptionOff,
    /// An interrupt handler.
    InterruptHandler,
    /// Interrupts from another CPU: function calls, TLB shootdowns.
    Ipi,
    /// A high-resolution timer's function in interrupt context.
    HrtimerHandler,
    /// A timer-wheel callback.
    TimerCallback,
    /// A softirq.
    Softirq,
    /// A work item.
    Workqueue,
    /// A task of higher priority.
    HigherPriority,
    /// A task of the same priority.
    EqualPriority,
    /// Real-time throttling.
    Throttling,
    /// A lock held by somebody.
    Lock,
    /// A lock's holder was kept from running by a task between the two priorities.
    PriorityInversion,
    /// A page fault.
    PageFault,
    /// An NMI.
    Nmi,
    /// Coming back from an idle state.
    IdleExit,
    /// The timer was programmed for later.
    TimerSlack,
    /// The task's own previous activation.
    Overrun,
    /// No code of this kernel ran.
    Stall,
    /// The ordinary way took longer, and nothing says why.
    SlowPath,
    /// No event accounts for it.
    Unexplained,
}

/// Late wake-ups with one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Who: task, interrupt, softirq or function; empty where nobody acts.
    pub who: String,
    /// Where on the way it delayed the task.
    pub stage: Option<Stage>,
    /// Kernel priority of the acting task.
    pub prio: Option<i32>,
    /// Indices into the windows: those that it is the main cause of.
    pub main_of: Vec<usize>,
    /// Indices of all windows that it contributed to.
    pub part_of: Vec<usize>,
    /// Share of late wake-ups that it is the main cause of, 0 to 1.
    pub share_of_late: f64,
    /// Share of the total excess that it explains, 0 to 1.
    pub share_of_lateness: f64,
    /// Median excess in the windows that it contributed to, ns.
    pub excess_ns: f64,
    /// Median length of the cause itself, also before the intended time, ns.
    pub size_ns: f64,
    /// How often it began in such a window, median.
    pub times: f64,
    /// How often in an on-time one, median.
    pub times_on_time: f64,
    /// Functions with the largest excess self time inside it: name, late ns, calls late, calls on time.
    pub functions: Vec<FunctionShare>,
    /// Most frequent kernel stack inside it, innermost first.
    pub stack: Vec<String>,
    /// Tasks that ran instead of a lock's owner.
    pub instead: Vec<String>,
    /// Its rhythm, where it has one: period and jitter in ns.
    pub period_ns: Option<(f64, f64)>,
    /// How sure.
    pub confidence: Confidence,
    /// What speaks for and against, in plain facts.
    pub grounds: Vec<Ground>,
    /// A typical window: the one with the median excess.
    pub example: Option<usize>,
}

/// A function's part in a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionShare {
    /// Name.
    pub function: String,
    /// Median self time in the cluster's windows, ns.
    pub late_ns: f64,
    /// Median self time in on-time windows, ns.
    pub on_time_ns: f64,
    /// Median calls in the cluster's windows.
    pub late_calls: f64,
    /// Median calls in on-time windows.
    pub on_time_calls: f64,
}

/// A fact that a verdict rests on. Each variant's own line says what its fields are.
#[allow(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Ground {
    /// The main group covers this share of the windows' excess.
    Covers { share: f64 },
    /// Rank test of its time in late against on-time windows.
    Separates { delta: f64, p: f64 },
    /// There was no on-time window to compare with.
    NoControls,
    /// Fewer than three late windows show it.
    Few { windows: usize },
    /// It was hit this often; its occupancy of the CPU is this; the chance of that as a victim.
    Victim { hits: usize, of: usize, occupancy: f64, p: f64 },
    /// The silent stretch began in user code, which cannot hold off interrupts.
    InUser { windows: usize },
    /// No other CPU did anything during the stretch either.
    AllSilent { windows: usize, of: usize },
    /// Wake-ups on other CPUs were late at the same moment.
    Simultaneous { windows: usize, of: usize },
    /// Lengths are alike: median and median deviation.
    AlikeLengths { median_ns: f64, mad_ns: f64 },
    /// The machine is virtual.
    Hypervisor { name: String },
    /// Steal time passed.
    Steal { ns: u64 },
    /// SMIs were counted.
    Smi { count: u64 },
    /// Declared idle exit latency.
    DeclaredExit { ns: u64 },
    /// Events were lost in this many of its windows.
    Lost { windows: usize },
}

/// What a set of windows says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Group by group.
    pub contrast: Contrast,
    /// Causes, the one that explains most first.
    pub clusters: Vec<Cluster>,
    /// Share of the total excess that no cluster explains.
    pub unexplained_share: f64,
    /// Total excess of all late windows, ns.
    pub excess_ns: f64,
}

/// A second cause counts from this share of a window's excess.
const SECOND: f64 = 0.25;
/// A cause counts from this share of the whole.
const LEAST: f64 = 0.03;

/// Explains late windows by contrast with on-time ones.
pub fn explain(windows: &[Window], around: &Surroundings) -> Explanation {
    let contrast = contrast(windows);
    let base = baseline(windows);
    let late: Vec<usize> = (0..windows.len()).filter(|&i| windows[i].late).collect();
    let excess: BTreeMap<usize, f64> = late
        .iter()
        .map(|&i| (i, (windows[i].latency_ns as f64 - contrast.baseline_ns).max(1.0)))
        .collect();
    let total: f64 = excess.values().sum();
    let mut members: BTreeMap<Group, Members> = BTreeMap::new();
    for &i in &late {
        assign(i, &windows[i], excess[&i], &base, &mut members);
    }
    let judge = Judge { windows, around, contrast: &contrast, late: late.len(), total };
    merge_stalls(&mut members, &judge);
    let mut clusters: Vec<Cluster> = members
        .into_iter()
        .map(|(group, m)| judge.cluster(&group, &m))
        .filter(|c| c.share_of_lateness >= LEAST || c.share_of_late >= LEAST)
        .collect();
    clusters.sort_by(|a, b| b.share_of_lateness.total_cmp(&a.share_of_lateness));
    let explained: f64 = clusters
        .iter()
        .filter(|c| !matches!(c.mechanism, Mechanism::Unexplained | Mechanism::SlowPath))
        .map(|c| c.share_of_lateness)
        .sum();
    let unexplained_share = if late.is_empty() { 0.0 } else { (1.0 - explained).max(0.0) };
    Explanation { contrast, clusters, unexplained_share, excess_ns: total }
}

/// The windows that a group contributed to, with its excess in each.
#[derive(Clone, Debug, Default)]
struct Members {
    main: Vec<usize>,
    excess: BTreeMap<usize, f64>,
    /// Silent groups that were merged into a stall.
    stall: bool,
    merged: Vec<Group>,
}

fn assign(
    i: usize,
    window: &Window,
    total: f64,
    base: &BTreeMap<Group, f64>,
    members: &mut BTreeMap<Group, Members>,
) {
    let mut by_excess: Vec<(&Group, f64)> = window
        .shares
        .iter()
        .map(|(g, s)| (g, s.ns as f64 - base.get(g).copied().unwrap_or(0.0)))
        .filter(|(_, e)| *e > 0.0)
        .collect();
    // An actor with a real part in it comes before the way itself, which is then its echo.
    by_excess.sort_by(|a, b| {
        let actor = |x: &(&Group, f64)| !is_blameless(x.0.cause) && x.1 >= SECOND * total;
        actor(b).cmp(&actor(a)).then(b.1.total_cmp(&a.1))
    });
    for (rank, (group, e)) in by_excess.iter().enumerate() {
        if rank > 0 && *e < SECOND * total {
            continue;
        }
        let m = members.entry((*group).clone()).or_default();
        if rank == 0 {
            m.main.push(i);
        }
        m.excess.insert(i, *e);
    }
}

/// Whether most of a group's excess in a window is one stretch without events.
fn is_silent(share: &Share, excess: f64) -> bool {
    share.silent_ns as f64 >= 0.7 * excess
}

/// Causes for which silence could as well be a stall.
fn could_be_stall(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::InterruptsOff
            | Cause::PreemptionOff
            | Cause::IdleExit
            | Cause::Path
            | Cause::Interrupt
            | Cause::Softirq
            | Cause::Overrun
            | Cause::TimerFunction
    )
}

/// Merges the silent groups whose actors are hit no more often than chance into one stall.
fn merge_stalls(members: &mut BTreeMap<Group, Members>, judge: &Judge<'_>) {
    let silent: Vec<(Group, usize)> = members
        .iter()
        .filter(|(g, _)| could_be_stall(g.cause))
        .map(|(g, m)| {
            let hits = m.excess.iter().filter(|&(&i, &e)| is_silent(&judge.windows[i].share(g), e));
            (g.clone(), hits.count())
        })
        .filter(|(_, n)| *n > 0)
        .collect();
    let of: usize = silent.iter().map(|(_, n)| n).sum();
    let victims: Vec<Group> = silent
        .into_iter()
        .filter(|(g, hits)| judge.is_victim(g, *hits, of, &members[g]))
        .map(|(g, _)| g)
        .collect();
    if victims.is_empty() {
        return;
    }
    let mut stall = Members { stall: true, ..Members::default() };
    for group in victims {
        if let Some(m) = members.remove(&group) {
            stall.main.extend(m.main);
            for (i, e) in m.excess {
                *stall.excess.entry(i).or_default() += e;
            }
            stall.merged.push(group);
        }
    }
    stall.main.sort_unstable();
    stall.main.dedup();
    members.insert(Group { cause: Cause::Unexplained, who: "\u{0}stall".into() }, stall);
}

struct Judge<'a> {
    windows: &'a [Window],
    around: &'a Surroundings,
    contrast: &'a Contrast,
    late: usize,
    total: f64,
}

impl Judge<'_> {
    /// Share of on-time windows in which this actor had the CPU at the intended time, with one
    /// imagined occurrence so that what was never seen is not impossible.
    fn occupancy(&self, group: &Group) -> f64 {
        let controls = self.windows.iter().filter(|w| !w.late);
        let idle = group.cause == Cause::IdleExit;
        let (n, hit) = controls.fold((0usize, 0usize), |(n, hit), w| {
            let same = if idle {
                w.shares.iter().any(|(g, s)| g.cause == Cause::IdleExit && s.ns > 0)
            } else {
                w.at_intended == group.who
            };
            (n + 1, hit + usize::from(same))
        });
        (hit as f64 + 1.0) / (n as f64 + 2.0)
    }

    /// Whether being hit `hits` times of `of` is what a bystander would be.
    fn is_victim(&self, group: &Group, hits: usize, of: usize, m: &Members) -> bool {
        let in_user = m.excess.keys().filter(|&&i| self.windows[i].silent_in_user).count();
        if in_user * 2 > m.excess.len() {
            return true;
        }
        let declared = self.around.idle_exit_ns.unwrap_or(0) as f64;
        if group.cause == Cause::IdleExit && declared > 0.0 {
            let typical = median(&m.excess.values().copied().collect::<Vec<_>>()).unwrap_or(0.0);
            if typical <= 2.0 * declared {
                return false;
            }
        }
        if of < 3 {
            // Too few to tell: only an idle CPU, which has no code that could be guilty, is a victim.
            return group.cause == Cause::IdleExit;
        }
        binomial_tail(of, hits, self.occupancy(group)) > 0.01
    }

    fn cluster(&self, group: &Group, m: &Members) -> Cluster {
        let shares: Vec<(usize, Share, f64)> = m
            .excess
            .iter()
            .map(|(&i, &e)| {
                let share = match m.merged.as_slice() {
                    [] => self.windows[i].share(group),
                    merged => longest(&self.windows[i], merged),
                };
                (i, share, e)
            })
            .collect();
        let of = |f: &dyn Fn(&(usize, Share, f64)) -> f64| {
            median(&shares.iter().map(f).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let excess: f64 = m.excess.values().sum();
        let moments: Vec<f64> = m
            .excess
            .keys()
            .map(|&i| self.moment(i))
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .map(|t| t as f64)
            .collect();
        let first = shares.iter().max_by(|a, b| a.2.total_cmp(&b.2)).map(|s| s.1.clone());
        let first = first.unwrap_or_default();
        let instead = top_instead(&shares);
        let mechanism = if m.stall { Mechanism::Stall } else { mechanism(group, &first, &instead) };
        let times_on_time = self.on_time_times(group);
        let mut cluster = Cluster {
            mechanism,
            who: if m.stall { String::new() } else { group.who.clone() },
            stage: first.stage,
            prio: first.prio,
            share_of_late: m.main.len() as f64 / self.late.max(1) as f64,
            share_of_lateness: if self.total > 0.0 { (excess / self.total).min(1.0) } else { 0.0 },
            excess_ns: of(&|s| s.2),
            size_ns: of(&|s| (s.1.whole_ns as f64).max(s.2)),
            times: of(&|s| f64::from(s.1.times)),
            times_on_time,
            functions: self.functions(group, m),
            stack: self.stack(group, m),
            instead,
            period_ns: find_period(&moments).map(|Period { period, jitter, .. }| (period, jitter)),
            confidence: Confidence::CannotTell,
            grounds: Vec::new(),
            example: typical(&shares),
            main_of: m.main.clone(),
            part_of: m.excess.keys().copied().collect(),
        };
        cluster.grounds = self.grounds(group, m, &cluster);
        cluster.confidence = confidence(&cluster);
        cluster
    }

    /// When the cause began, as well as can be told: the end of the delay less its length.
    fn moment(&self, i: usize) -> u64 {
        let w = &self.windows[i];
        (w.intended_ns + w.latency_ns) / 1_000 * 1_000
    }

    fn on_time_times(&self, group: &Group) -> f64 {
        let times: Vec<f64> = (self.windows.iter().filter(|w| !w.late))
            .map(|w| f64::from(w.share(group).times))
            .collect();
        median(&times).unwrap_or(0.0)
    }

    fn grounds(&self, group: &Group, m: &Members, cluster: &Cluster) -> Vec<Ground> {
        let mut grounds = Vec::new();
        let whole: f64 = m
            .excess
            .keys()
            .map(|&i| (self.windows[i].latency_ns as f64 - self.contrast.baseline_ns).max(1.0))
            .sum();
        grounds.push(Ground::Covers { share: (m.excess.values().sum::<f64>() / whole).min(1.0) });
        if self.contrast.on_time == 0 {
            grounds.push(Ground::NoControls);
        } else if let Some(row) =
            self.contrast.rows.iter().find(|r| r.group == *group && r.function.is_none())
        {
            grounds.push(Ground::Separates { delta: row.delta, p: row.p });
        }
        if m.excess.len() < 3 {
            grounds.push(Ground::Few { windows: m.excess.len() });
        }
        let lost = m.excess.keys().filter(|&&i| self.windows[i].lost).count();
        if lost > 0 {
            grounds.push(Ground::Lost { windows: lost });
        }
        let silent = m.merged.is_empty() && could_be_stall(group.cause);
        if silent {
            let hits =
                m.excess.iter().filter(|&(&i, &e)| is_silent(&self.windows[i].share(group), e));
            let (hits, occupancy) = (hits.count(), self.occupancy(group));
            if hits > 0 {
                let of = hits.max(self.late.min(hits));
                let p = binomial_tail(of, hits, occupancy);
                grounds.push(Ground::Victim { hits, of, occupancy, p });
            }
        }
        if m.stall || group.cause == Cause::IdleExit {
            self.stall_grounds(m, cluster, &mut grounds);
        }
        grounds
    }

    fn stall_grounds(&self, m: &Members, cluster: &Cluster, grounds: &mut Vec<Ground>) {
        let of = m.excess.len();
        let user = m.excess.keys().filter(|&&i| self.windows[i].silent_in_user).count();
        if user > 0 {
            grounds.push(Ground::InUser { windows: user });
        }
        let silent = m.excess.keys().filter(|&&i| self.all_silent(i, &m.merged)).count();
        if silent > 0 {
            grounds.push(Ground::AllSilent { windows: silent, of });
        }
        let together = m.excess.keys().filter(|&&i| self.simultaneous(i)).count();
        if together > 0 {
            grounds.push(Ground::Simultaneous { windows: together, of });
        }
        let lengths: Vec<f64> = m.excess.values().copied().collect();
        if let (Some(median_ns), Some(mad_ns), true) = (median(&lengths), mad(&lengths), of >= 3)
            && mad_ns < 0.1 * median_ns
        {
            grounds.push(Ground::AlikeLengths { median_ns, mad_ns });
        }
        if let Some(name) = &self.around.hypervisor {
            grounds.push(Ground::Hypervisor { name: name.clone() });
        }
        if let Some(ns) = self.around.steal_ns.filter(|&ns| ns > 0) {
            grounds.push(Ground::Steal { ns });
        }
        if let Some(count) = self.around.smi.filter(|&n| n > 0) {
            grounds.push(Ground::Smi { count });
        }
        if let (Mechanism::Stall | Mechanism::IdleExit, Some(ns)) =
            (cluster.mechanism, self.around.idle_exit_ns)
        {
            grounds.push(Ground::DeclaredExit { ns });
        }
    }

    fn all_silent(&self, i: usize, merged: &[Group]) -> bool {
        longest(&self.windows[i], merged).others == Some(Others::Silent)
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
        let column = |late: bool, function: &str, calls: bool| {
            let chosen = self
                .windows
                .iter()
                .enumerate()
                .filter(|(i, w)| if late { m.excess.contains_key(i) } else { !w.late });
            let values: Vec<f64> = chosen
                .map(|(_, w)| {
                    let found = w.functions.iter().find(|(g, f, _)| g == group && f == function);
                    let c = found.map(|x| x.2).unwrap_or_default();
                    if calls { f64::from(c.calls) } else { c.ns as f64 }
                })
                .collect();
            median(&values).unwrap_or(0.0)
        };
        let mut shares: Vec<FunctionShare> = names
            .into_keys()
            .map(|f| FunctionShare {
                function: f.to_owned(),
                late_ns: column(true, f, false),
                on_time_ns: column(false, f, false),
                late_calls: column(true, f, true),
                on_time_calls: column(false, f, true),
            })
            .filter(|s| s.late_ns > s.on_time_ns)
            .collect();
        shares.sort_by(|a, b| (b.late_ns - b.on_time_ns).total_cmp(&(a.late_ns - a.on_time_ns)));
        shares.truncate(8);
        shares
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

/// The share of the longest of some groups in a window.
fn longest(window: &Window, groups: &[Group]) -> Share {
    groups.iter().map(|g| window.share(g)).max_by_key(|s| s.silent_ns).unwrap_or_default()
}

fn top_instead(shares: &[(usize, Share, f64)]) -> Vec<String> {
    let mut sum: BTreeMap<&str, u64> = BTreeMap::new();
    let mut waited = 0;
    for (_, share, _) in shares {
        waited += share.ns;
        for (who, ns) in &share.instead_ns {
            *sum.entry(who).or_default() += ns;
        }
    }
    let mut top: Vec<(&str, u64)> = sum.into_iter().filter(|(_, ns)| *ns * 4 > waited).collect();
    top.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    top.into_iter().map(|(who, _)| who.to_owned()).collect()
}

/// The window with the median excess.
fn typical(shares: &[(usize, Share, f64)]) -> Option<usize> {
    let mut order: Vec<(usize, f64)> = shares.iter().map(|s| (s.0, s.2)).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    order.get(order.len() / 2).map(|s| s.0)
}

fn mechanism(group: &Group, share: &Share, instead: &[String]) -> Mechanism {
    match (group.cause, share.kind) {
        (Cause::ProgrammedLate, _) => Mechanism::TimerSlack,
        (Cause::Nmi, _) => Mechanism::Nmi,
        (Cause::IdleExit, _) => Mechanism::IdleExit,
        (Cause::Overrun, _) => Mechanism::Overrun,
        (Cause::PageFault, _) => Mechanism::PageFault,
        (Cause::Throttled, _) => Mechanism::Throttling,
        (Cause::Lock, _) if instead.is_empty() => Mechanism::Lock,
        (Cause::Lock, _) => Mechanism::PriorityInversion,
        (Cause::TimerFunction, Some(Kind::Timer)) | (_, Some(Kind::Timer)) => {
            Mechanism::TimerCallback
        }
        (Cause::TimerFunction, _) | (_, Some(Kind::Hrtimer)) => Mechanism::HrtimerHandler,
        (_, Some(Kind::Work)) => Mechanism::Workqueue,
        (Cause::Interrupt, _) if is_ipi(&group.who) => Mechanism::Ipi,
        (Cause::Interrupt, _) => Mechanism::InterruptHandler,
        (Cause::Softirq, _) | (Cause::InterruptsOff, Some(Kind::Softirq)) => Mechanism::Softirq,
        (Cause::InterruptsOff, _) => Mechanism::InterruptsOff,
        (Cause::PreemptionOff, _) => Mechanism::PreemptionOff,
        (Cause::HigherPriority, _) => Mechanism::HigherPriority,
        (Cause::EqualPriority, _) => Mechanism::EqualPriority,
        (Cause::Path, _) => Mechanism::SlowPath,
        (Cause::Unexplained, _) => Mechanism::Unexplained,
    }
}

/// Interrupts that one CPU sends another (`irq_vectors:call_function*`, ARM's IPI reasons).
fn is_ipi(name: &str) -> bool {
    ["call_function", "reschedule", "Function call", "Rescheduling", "IPI"]
        .iter()
        .any(|ipi| name.contains(ipi))
}

fn confidence(cluster: &Cluster) -> Confidence {
    if matches!(cluster.mechanism, Mechanism::Unexplained | Mechanism::SlowPath) {
        return Confidence::CannotTell;
    }
    let (mut sure, mut likely) = (true, true);
    for ground in &cluster.grounds {
        match *ground {
            Ground::Covers { share } => {
                sure &= share >= 0.6;
                likely &= share >= 0.25;
            }
            Ground::Separates { delta, p } => sure &= delta >= 0.5 && p < 0.05,
            Ground::NoControls | Ground::Few { .. } => sure = false,
            Ground::Victim { hits, p, .. } => {
                sure &= p < 0.01 && hits >= 3;
            }
            Ground::Lost { windows } => sure &= windows * 3 < cluster.part_of.len(),
            _ => {}
        }
    }
    if cluster.mechanism == Mechanism::Stall {
        // That nothing ran is likely at best, unless user code or another CPU was stopped with it.
        sure &= cluster
            .grounds
            .iter()
            .any(|g| matches!(g, Ground::InUser { .. } | Ground::Simultaneous { .. }));
    }
    match (sure, likely) {
        (true, _) => Confidence::Sure,
        (_, true) => Confidence::Likely,
        _ => Confidence::CannotTell,
    }
}

/// P(X ≥ k) for X ~ Binomial(n, p).
fn binomial_tail(n: usize, k: usize, p: f64) -> f64 {
    let (p, n_f) = (p.clamp(1e-12, 1.0 - 1e-12), n as f64);
    let mut log_pmf = n_f * (1.0 - p).ln();
    let mut below = 0.0;
    for i in 0..k.min(n + 1) {
        below += log_pmf.exp();
        log_pmf += ((n_f - i as f64) / (i as f64 + 1.0) * p / (1.0 - p)).ln();
    }
    (1.0 - below).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(late: bool, parts: &[(Cause, &str, u64, Kind)], silent: bool) -> Window {
        let shares: Vec<(Group, Share)> = parts
            .iter()
            .map(|&(cause, who, ns, kind)| {
                let share = Share {
                    ns,
                    times: 1,
                    whole_ns: ns,
                    silent_ns: if silent { ns } else { 0 },
                    kind: Some(kind),
                    ..Share::default()
                };
                (Group { cause, who: who.into() }, share)
            })
            .collect();
        let latency_ns = shares.iter().map(|(_, s)| s.ns).sum();
        let at_intended = parts[0].1.to_owned();
        Window { late, latency_ns, shares, at_intended, ..Window::default() }
    }

    /// On-time windows in which `who` is found running as often as given.
    fn controls(occupancy: &[(&str, usize)]) -> Vec<Window> {
        let one = |who: &str| {
            window(
                false,
                &[
                    (Cause::InterruptsOff, who, 500, Kind::Task),
                    (Cause::Path, "", 6_000, Kind::Task),
                ],
                true,
            )
        };
        occupancy.iter().flat_map(|&(who, n)| std::iter::repeat_n(one(who), n)).collect()
    }

    fn held_off(who: &str, ns: u64) -> Window {
        window(
            true,
            &[(Cause::InterruptsOff, who, ns, Kind::Task), (Cause::Path, "", 6_000, Kind::Task)],
            true,
        )
    }

    #[test]
    fn the_actor_that_is_always_there_is_guilty() {
        let mut windows = controls(&[("app", 40), ("driver", 2)]);
        windows.extend((0..8).map(|i| held_off("driver", 300_000 + i * 100)));
        let e = explain(&windows, &Surroundings::default());
        assert_eq!(e.clusters.len(), 1, "{:#?}", e.clusters);
        let c = &e.clusters[0];
        assert_eq!((c.mechanism, c.who.as_str()), (Mechanism::InterruptsOff, "driver"));
        assert_eq!((c.confidence, c.share_of_late), (Confidence::Sure, 1.0));
        assert!(c.share_of_lateness > 0.99 && e.unexplained_share < 0.01);
    }

    #[test]
    fn victims_that_follow_the_occupancy_mean_a_stall() {
        let mut windows = controls(&[("app", 20), ("logger", 10), ("net", 10)]);
        for who in ["app", "net", "app", "logger", "app", "app", "logger", "net"] {
            windows.push(held_off(who, 28_000_000));
        }
        let e = explain(&windows, &Surroundings::default());
        assert_eq!(e.clusters.len(), 1, "{:#?}", e.clusters);
        assert_eq!(e.clusters[0].mechanism, Mechanism::Stall);
        assert_ne!(e.clusters[0].confidence, Confidence::Sure, "nothing shows that nothing ran");
        assert!(e.clusters[0].grounds.iter().any(|g| matches!(g, Ground::AlikeLengths { .. })));
    }

    #[test]
    fn two_causes_at_once_are_both_named() {
        let mut windows = controls(&[("app", 30)]);
        for i in 0..6 {
            windows.push(window(
                true,
                &[
                    (Cause::HigherPriority, "urgent", 200_000 + i, Kind::Task),
                    (Cause::TimerFunction, "poll_fn", 150_000 + i, Kind::Hrtimer),
                    (Cause::Path, "", 6_000, Kind::Task),
                ],
                false,
            ));
        }
        let e = explain(&windows, &Surroundings::default());
        let named: Vec<Mechanism> = e.clusters.iter().map(|c| c.mechanism).collect();
        assert_eq!(named, [Mechanism::HigherPriority, Mechanism::HrtimerHandler]);
        assert!(e.unexplained_share < 0.05);
    }

    #[test]
    fn no_cause_is_invented() {
        let on_time = controls(&[("app", 30)]);
        let e = explain(&on_time, &Surroundings::default());
        assert!(e.clusters.is_empty() && e.unexplained_share == 0.0);

        let mut windows = on_time;
        windows.push(window(true, &[(Cause::Path, "", 300_000, Kind::Task)], false));
        let e = explain(&windows, &Surroundings::default());
        assert_eq!(e.clusters[0].mechanism, Mechanism::SlowPath);
        assert_eq!(e.clusters[0].confidence, Confidence::CannotTell);
        assert!(e.unexplained_share > 0.9);
    }

    #[test]
    fn one_spike_is_an_anecdote() {
        let mut windows = controls(&[("app", 30)]);
        windows.push(window(
            true,
            &[
                (Cause::HigherPriority, "urgent", 200_000, Kind::Task),
                (Cause::Path, "", 6_000, Kind::Task),
            ],
            false,
        ));
        let e = explain(&windows, &Surroundings::default());
        assert_eq!(e.clusters[0].mechanism, Mechanism::HigherPriority);
        assert_eq!(e.clusters[0].confidence, Confidence::Likely);
    }

    #[test]
    fn binomial_tails() {
        assert!((binomial_tail(10, 8, 0.5) - 0.054_687_5).abs() < 1e-12);
        assert_eq!(binomial_tail(5, 0, 0.3), 1.0);
    }
}
