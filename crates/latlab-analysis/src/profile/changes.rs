//! Functions of two traces.

use latlab_model::profile::{Change, FunctionProfile, Profile};
use std::collections::BTreeMap;

/// Differences, the largest first, in each second of either trace.
///
/// With n calls of mean length m the own time is n·m; its difference is (n₂ − n₁)·m₁ by the number of
/// calls and n₂·(m₂ − m₁) by the length of each.
pub fn changes(a: &Profile, b: &Profile) -> Vec<Change> {
    let mut pairs: BTreeMap<&str, [Option<&FunctionProfile>; 2]> = BTreeMap::new();
    for (side, profile) in [a, b].into_iter().enumerate() {
        for f in &profile.functions {
            pairs.entry(&f.name).or_default()[side] = Some(f);
        }
    }
    let seconds = [a, b].map(|p| (p.length_ns as f64 / 1e9).max(1e-9));
    let change = |(name, pair): (&str, [Option<&FunctionProfile>; 2])| {
        let rate = |of: &dyn Fn(&FunctionProfile) -> u64| {
            [0, 1].map(|i| pair[i].map_or(0.0, |f| of(f) as f64) / seconds[i])
        };
        let count = rate(&|f| f.innermost.unwrap_or(f.count));
        let self_ns = rate(&|f| f.self_ns.unwrap_or(0));
        let mean = |i: usize| (count[i] > 0.0).then(|| self_ns[i] / count[i]);
        let (by_count_ns, by_length_ns) = match (mean(0), mean(1)) {
            (Some(m1), Some(m2)) => ((count[1] - count[0]) * m1, count[1] * (m2 - m1)),
            _ => (self_ns[1] - self_ns[0], 0.0),
        };
        let median_ns = pair.map(|f| f?.time.as_ref()?.quantile(0.5));
        Change { name: name.to_owned(), count, self_ns, median_ns, by_count_ns, by_length_ns }
    };
    let mut all: Vec<Change> = pairs.into_iter().map(change).collect();
    let timed = all.iter().any(|c| c.self_ns != [0.0, 0.0]);
    let size = |c: &Change| {
        let of = if timed { c.self_ns } else { c.count };
        (of[1] - of[0]).abs()
    };
    all.retain(|c| size(c) > 0.0);
    all.sort_by(|x, y| size(y).total_cmp(&size(x)).then_with(|| x.name.cmp(&y.name)));
    all
}
