//! From counts to a profile.

use super::analyzer::{Analyzer, Kept};
use super::stat::{Callers, Stat, is_idle};
use latlab_model::event::{Names, Symbol};
use latlab_model::profile::{Caller, FunctionProfile, Link, LongCall, Origin, Profile};
use std::cmp::Reverse;

/// Callers of a function that are listed.
const CALLERS: usize = 10;
/// Long calls that are listed.
const LONGEST: usize = 20;
/// A call in which this share of a call's time passed is the next of its chain.
const CHAIN_SHARE: f64 = 0.9;

impl Analyzer {
    /// The profile, with every function, the longest own time (or the highest count) first.
    /// `task` tells the name of a thread.
    pub fn finish(self, source: &str, names: &Names, task: &dyn Fn(i32) -> String) -> Profile {
        let origin = match (self.timed, self.stacks) {
            (0, 0) => Origin::Function,
            (0, _) => Origin::Stacks,
            _ => Origin::FunctionGraph,
        };
        let open = self.open();
        let numbered = self.stats.iter().enumerate();
        let mut functions: Vec<FunctionProfile> = numbered
            .filter_map(|(n, stat)| function(origin, names, Symbol(n as u32), stat))
            .collect();
        functions.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name)));
        let (first, last) = self.span.unwrap_or_default();
        Profile {
            source: source.to_owned(),
            origin,
            length_ns: last - first,
            count: match origin {
                Origin::FunctionGraph => self.timed,
                Origin::Stacks => self.stacks,
                Origin::Function => self.calls,
            },
            self_ns: (functions.iter().filter(|f| !is_idle(&f.name)).filter_map(|f| f.self_ns))
                .fold(0, u64::saturating_add),
            partial: self.partial + open,
            functions_seen: functions.len() as u64,
            functions,
            longest: longest(self.kept, names, task),
            latency: None,
        }
    }
}

/// Longest own time, most often innermost, most calls.
fn order(f: &FunctionProfile) -> Reverse<(u64, u64, u64)> {
    Reverse((f.self_ns.unwrap_or(0), f.innermost.unwrap_or(0), f.count))
}

fn function(origin: Origin, names: &Names, symbol: Symbol, stat: &Stat) -> Option<FunctionProfile> {
    let name = names.get(symbol).to_owned();
    let base = FunctionProfile { name, ..FunctionProfile::default() };
    let found = match origin {
        Origin::FunctionGraph => FunctionProfile {
            count: stat.lengths.count,
            total_ns: Some(stat.total_ns),
            self_ns: Some(stat.self_ns),
            off_cpu_ns: Some(stat.off_ns),
            time: Some(stat.lengths.histogram()),
            callers: callers(&stat.callers, names),
            ..base
        },
        Origin::Stacks => FunctionProfile {
            count: stat.stacks,
            innermost: Some(stat.innermost),
            callers: callers(&stat.stack_callers, names),
            ..base
        },
        Origin::Function => FunctionProfile {
            count: stat.calls,
            callers: callers(&stat.call_callers, names),
            ..base
        },
    };
    (found.count > 0).then_some(found)
}

fn callers(all: &Callers, names: &Names) -> Vec<Caller> {
    let mut sorted = all.0.clone();
    sorted.sort_by_key(|c| Reverse((c.count, c.ns)));
    let caller = |c: &super::stat::CallsBy| Caller {
        name: names.get(c.by).to_owned(),
        count: c.count,
        total_ns: c.ns,
    };
    sorted.iter().take(CALLERS).map(caller).collect()
}

/// The longest calls; calls in which nearly all of another's time passed are part of its chain.
fn longest(mut kept: Vec<Kept>, names: &Names, task: &dyn Fn(i32) -> String) -> Vec<LongCall> {
    kept.sort_by(|a, b| {
        b.busy_ns.cmp(&a.busy_ns).then_with(|| a.callers.len().cmp(&b.callers.len()))
    });
    let mut taken = vec![false; kept.len()];
    let mut calls = Vec::new();
    for at in 0..kept.len() {
        if taken[at] {
            continue;
        }
        if calls.len() == LONGEST {
            break;
        }
        let mut chain = vec![at];
        let mut last = at;
        while let Some(next) = inner(&kept, &taken, last) {
            taken[next] = true;
            chain.push(next);
            last = next;
        }
        let (first, last) = (&kept[at], &kept[last]);
        let link = |&i: &usize| Link {
            name: names.get(kept[i].function).to_owned(),
            length_ns: kept[i].busy_ns,
        };
        let callee = Some(last.longest).filter(|l| l.1 > 0);
        let known = names.get(first.task);
        calls.push(LongCall {
            chain: chain.iter().map(link).collect(),
            self_ns: last.self_ns,
            longest_callee: callee
                .map(|(f, ns)| Link { name: names.get(f).to_owned(), length_ns: ns }),
            off_cpu_ns: first.off_ns,
            start_ns: first.start_ns,
            cpu: first.cpu,
            tid: first.tid,
            task: if known.is_empty() { task(first.tid) } else { known.to_owned() },
            callers: first.callers.iter().map(|f| names.get(*f).to_owned()).collect(),
        });
    }
    calls
}

/// The call directly within another in which most of its time passed.
fn inner(kept: &[Kept], taken: &[bool], of: usize) -> Option<usize> {
    let outer = &kept[of];
    let is_inner = |k: &Kept| {
        k.key == outer.key
            && k.callers.len() == outer.callers.len() + 1
            && k.function == outer.longest.0
            && k.start_ns >= outer.start_ns
            && k.end_ns <= outer.end_ns
            && k.busy_ns as f64 >= CHAIN_SHARE * outer.busy_ns as f64
    };
    (0..kept.len()).find(|&i| i != of && !taken[i] && is_inner(&kept[i]))
}
