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
//! no victim (beta-binomial test: few on-time windows do not tell the occupancy
//! well); if the victims follow it, nobody is guilty.

mod judge;
#[cfg(test)]
mod tests;

use super::budget::{Cause, Stage};
use super::contrast::{Contrast, baseline, contrast, is_blameless};
use super::window::{Group, Share, Window};
use crate::finding::Confidence;
use judge::{Judge, is_bracketed};
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
    /// Lowest and highest CPU frequency seen meanwhile, kHz, where it is told.
    pub khz: Option<(u64, u64)>,
    /// Share of the CPUs' nominal frequency that they ran at (APERF/MPERF), where it is readable.
    pub speed: Option<f64>,
    /// Largest step between the wall clock and CLOCK_MONOTONIC meanwhile, ns.
    pub clock_step_ns: Option<u64>,
    /// Clock sources, when the kernel changed it meanwhile: before and after.
    pub clock_source: Option<(String, String)>,
    /// Evidence that could not be had here, and why.
    pub missing: Vec<String>,
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
    /// Median self time of a call in the cluster's windows that have it, ns.
    #[serde(default)]
    pub late_each_ns: f64,
    /// The same in on-time windows that have it, ns.
    #[serde(default)]
    pub on_time_each_ns: f64,
    /// So many on-time windows have it.
    #[serde(default)]
    pub on_time_windows: usize,
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
    /// In so many of its windows the buffer begins too late.
    Uncovered { windows: usize },
    /// Steal time was counted just before so many of its captures were saved.
    StealThen { windows: usize, of: usize },
    /// System-management interrupts were counted just before so many of its captures were saved.
    SmiThen { windows: usize, of: usize },
    /// Evidence that could not be had here.
    Missing { what: String },
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
/// A delay below this share of the limit does not make anybody late: nobody is named for it.
const MATERIAL: f64 = 0.1;

/// Fewer on-time windows do not show how the CPU's time is spread.
const CONTROLS: usize = 5;

/// Explains late windows by contrast with on-time ones.
pub fn explain(windows: &[Window], around: &Surroundings) -> Explanation {
    let contrast = contrast(windows);
    let base = baseline(windows);
    let late: Vec<usize> = (0..windows.len()).filter(|&i| windows[i].late).collect();
    let excess: BTreeMap<usize, f64> = late
        .iter()
        .map(|&i| (i, (windows[i].latency_ns as f64 - contrast.baseline_ns).max(1.0)))
        .collect();
    let total: f64 = excess.iter().map(|(&i, e)| e * windows[i].weight()).sum();
    let reference = if around.limit_ns > 0 { around.limit_ns as f64 } else { contrast.baseline_ns };
    let mut members: BTreeMap<Group, Members> = BTreeMap::new();
    for &i in &late {
        assign(i, &windows[i], excess[&i], MATERIAL * reference, &base, &mut members);
    }
    let weight = late.iter().map(|&i| windows[i].weight()).sum();
    let mut judge = Judge { windows, around, contrast: &contrast, late: weight, total, silent: 0 };
    judge.silent = merge_stalls(&mut members, &judge);
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
    material: f64,
    base: &BTreeMap<Group, f64>,
    members: &mut BTreeMap<Group, Members>,
) {
    let mut by_excess: Vec<(&Group, f64)> = window
        .shares
        .iter()
        .map(|(g, s)| (g, s.ns as f64 - base.get(g).copied().unwrap_or(0.0)))
        .filter(|(_, e)| *e > 0.0)
        .collect();
    // Parts that were shorter than usual make the others add up to more than the excess.
    let sum: f64 = by_excess.iter().map(|x| x.1).sum();
    let scale = (total / sum.max(1.0)).min(1.0);
    by_excess.iter_mut().for_each(|x| x.1 *= scale);
    // An actor with a real part in it comes before the way itself, which is then its echo.
    by_excess.sort_by(|a, b| {
        let actor = |x: &(&Group, f64)| !is_blameless(x.0.cause) && x.1 >= SECOND * total;
        actor(b).cmp(&actor(a)).then(b.1.total_cmp(&a.1))
    });
    for (rank, (group, e)) in by_excess.iter().enumerate() {
        if *e < material || rank > 0 && *e < SECOND * total {
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
/// Returns how many silent stretches there were in all, guilty or not.
fn merge_stalls(members: &mut BTreeMap<Group, Members>, judge: &Judge<'_>) -> usize {
    let silent: Vec<(Group, usize)> = members
        .iter()
        .filter(|(g, _)| could_be_stall(g.cause))
        .map(|(g, m)| {
            // An idle CPU runs no code, whatever events it left in between.
            let idle = g.cause == Cause::IdleExit;
            let silent = |i: usize, e| idle || is_silent(&judge.windows[i].share(g), e);
            (g.clone(), m.excess.iter().filter(|&(&i, &e)| silent(i, e)).count())
        })
        .filter(|(_, n)| *n > 0)
        .collect();
    let of: usize = silent.iter().map(|(_, n)| n).sum();
    // A handler that mostly had events in it ran: no stall, whatever the chances.
    let mostly = |g: &Group, hits| !is_bracketed(g.cause) || 2 * hits > members[g].excess.len();
    let victims: Vec<Group> = silent
        .into_iter()
        .filter(|(g, hits)| mostly(g, *hits) && judge.is_victim(g, *hits, of, &members[g]))
        .map(|(g, _)| g)
        .collect();
    if victims.is_empty() {
        return of;
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
    // One or two silent stretches are no pattern, and with hardly anything to compare with many are
    // none: what had the CPU may be guilty or a victim.
    let in_user = stall.excess.keys().any(|&i| judge.windows[i].silent_in_user);
    let few = stall.excess.len() < 3 || judge.contrast.on_time < CONTROLS;
    if few && !in_user {
        stall.stall = false;
        let unknown = Group { cause: Cause::Unexplained, who: String::new() };
        let known = members.entry(unknown).or_default();
        known.main.extend(stall.main);
        known.main.sort_unstable();
        known.main.dedup();
        for (i, e) in stall.excess {
            *known.excess.entry(i).or_default() += e;
        }
        return of;
    }
    members.insert(Group { cause: Cause::Unexplained, who: "\u{0}stall".into() }, stall);
    of
}
