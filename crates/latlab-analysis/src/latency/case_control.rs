//! The contrast: late wake-ups against on-time ones of the same run, group by
//! group and function by function.
//!
//! One late wake-up is an anecdote: whatever ran in it looks guilty. A group is
//! suspect when it takes more time in late windows than in on-time ones; "called
//! 38 times instead of 2" and "each call took 40 times longer" are told apart.
//! The effect is Cliff's delta. It has no p value: windows are late because the sum of their parts is
//! large, so that each part is larger in late windows even if nothing but chance makes them late.

use latlab_model::latency::Cause;
use latlab_model::latency::{Calls, Group, Window};
use latlab_model::latency::{Contrast, Difference, Row};
use latlab_stats::quantile::median;
use latlab_stats::rank::rank_test;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of rows that is kept.
const ROWS: usize = 200;

/// A group in on-time windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usual {
    /// Median of its time in a window, ns: what to subtract from a late window.
    pub ns: f64,
    /// Median of how often it is in a window.
    pub times: f64,
    /// Its share of all latency of on-time windows.
    pub of_latency: f64,
}

/// Compares windows, up to the event at which on-time windows end. Without any nothing is subtracted.
/// Beside it each group of on-time windows.
pub fn contrast(windows: &[Window]) -> (Contrast, BTreeMap<Group, Usual>) {
    let late: Vec<&Window> = windows.iter().filter(|w| w.late).collect();
    let on_time: Vec<&Window> = windows.iter().filter(|w| !w.late).collect();
    let latencies: Vec<f64> = on_time.iter().map(|w| w.latency_ns as f64).collect();
    let late_table = Table::of(&late);
    let on_time_table = Table::of(&on_time);
    let keys: BTreeSet<Key<'_>> =
        late_table.cells.keys().chain(on_time_table.cells.keys()).copied().collect();
    let mut rows: Vec<Row> =
        keys.into_iter().filter_map(|key| row(key, &late_table, &on_time_table)).collect();
    rows.sort_by(|a, b| (b.late_ns - b.on_time_ns).total_cmp(&(a.late_ns - a.on_time_ns)));
    rows.truncate(ROWS);
    let contrast = Contrast {
        late: late.len(),
        on_time: on_time.len(),
        baseline_ns: median(&latencies).unwrap_or(0.0),
        rows,
    };
    let latency: f64 = latencies.iter().sum();
    let groups = on_time_table.cells.keys().filter(|k| k.1.is_none());
    let usual = groups.map(|k| {
        let ns = median(&on_time_table.column(*k, |c| c.0)).unwrap_or(0.0);
        let times = median(&on_time_table.column(*k, |c| c.1)).unwrap_or(0.0);
        let all: f64 = on_time_table.cells[k].iter().map(|c| c.0).sum();
        (k.0.clone(), Usual { ns, times, of_latency: all / latency.max(1.0) })
    });
    let usual = usual.collect();
    (contrast, usual)
}

type Key<'a> = (&'a Group, Option<&'a str>);

/// Time and count of every key in every window; windows without it count as zero.
struct Table<'a> {
    windows: usize,
    cells: BTreeMap<Key<'a>, Vec<(f64, f64)>>,
}

impl<'a> Table<'a> {
    fn of(windows: &[&'a Window]) -> Self {
        let mut cells: BTreeMap<Key<'a>, Vec<(f64, f64)>> = BTreeMap::new();
        for w in windows {
            for (group, share) in &w.shares {
                let compared = share.ns.saturating_sub(share.not_compared_ns);
                let cell = (compared as f64, f64::from(share.times));
                cells.entry((group, None)).or_default().push(cell);
            }
            for (group, function, Calls { ns, calls }) in &w.functions {
                let cell = (*ns as f64, f64::from(*calls));
                cells.entry((group, Some(function))).or_default().push(cell);
            }
        }
        Self { windows: windows.len(), cells }
    }

    fn column(&self, key: Key<'a>, which: impl Fn(&(f64, f64)) -> f64) -> Vec<f64> {
        let mut column: Vec<f64> = self.cells.get(&key).into_iter().flatten().map(which).collect();
        column.resize(self.windows.max(column.len()), 0.0);
        column
    }
}

fn row<'a>(key: Key<'a>, late: &Table<'a>, on_time: &Table<'a>) -> Option<Row> {
    let (late_ns, on_ns) = (late.column(key, |c| c.0), on_time.column(key, |c| c.0));
    let test = rank_test(&late_ns, &on_ns);
    let (l, o) = (Side::of(late, key), Side::of(on_time, key));
    if l.ns == 0.0 && o.ns == 0.0 {
        return None;
    }
    Some(Row {
        group: key.0.clone(),
        function: key.1.map(str::to_owned),
        late_ns: l.ns,
        on_time_ns: o.ns,
        late_times: l.times,
        on_time_times: o.times,
        delta: test.map_or(0.0, |t| t.delta),
        delta_interval: test.map_or((-1.0, 1.0), |t| t.delta_interval),
        kind: difference(l, o),
    })
}

/// A key in the late windows, or in the on-time ones.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// Time in a window, ns.
    ns: f64,
    /// How often in a window.
    times: f64,
    /// Time each, ns, in the windows in which it was at all.
    each: f64,
}

impl Side {
    fn of<'a>(table: &Table<'a>, key: Key<'a>) -> Self {
        // What is in few of the windows has a median of zero: then its mean speaks for it.
        let typical = |v: &[f64]| match median(v).unwrap_or(0.0) {
            0.0 if !v.is_empty() => v.iter().sum::<f64>() / v.len() as f64,
            middle => middle,
        };
        let each: Vec<f64> = (table.cells.get(&key).into_iter().flatten())
            .filter(|(ns, _)| *ns > 0.0)
            .map(|&(ns, times)| each(ns, times))
            .collect();
        Self {
            ns: typical(&table.column(key, |c| c.0)),
            times: typical(&table.column(key, |c| c.1)),
            each: median(&each).unwrap_or(0.0),
        }
    }
}

/// Time each: what began before the window counts as one.
pub fn each(ns: f64, times: f64) -> f64 {
    ns / times.max(1.0)
}

fn difference(late: Side, on_time: Side) -> Difference {
    if late.ns <= on_time.ns * 1.2 {
        return Difference::Neither;
    }
    if on_time.ns == 0.0 {
        return Difference::OnlyLate;
    }
    let often = late.times > 1.5 * on_time.times && late.times - on_time.times >= 0.5;
    let longer = late.each > 1.5 * on_time.each;
    match (often, longer) {
        (true, true) => Difference::Both,
        (true, false) => Difference::MoreOften,
        (false, true) => Difference::Longer,
        (false, false) => Difference::Neither,
    }
}

/// Groups that carry no blame: the ordinary way and the unknown.
pub fn is_blameless(cause: Cause) -> bool {
    matches!(cause, Cause::Path | Cause::Unexplained)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::latency::Share;

    fn with(late: bool, cause: Cause, who: &str, ns: u64, times: u32) -> Window {
        let share = Share { ns, times, ..Share::default() };
        let group = Group { cause, who: who.into() };
        Window { late, latency_ns: ns, shares: vec![(group, share)], ..Window::default() }
    }

    #[test]
    fn more_calls_and_longer_calls_are_different_findings() {
        let mut windows = Vec::new();
        for i in 0..20 {
            windows.push(with(true, Cause::TimerFunction, "poll", 38_000 + i, 38));
            windows.push(with(false, Cause::TimerFunction, "poll", 2_000 + i, 2));
        }
        let (c, _) = contrast(&windows);
        assert_eq!(c.rows[0].kind, Difference::MoreOften);
        assert_eq!((c.rows[0].late_times, c.rows[0].on_time_times), (38.0, 2.0));
        assert_eq!(c.rows[0].delta, 1.0);

        let once = |ns| Side { ns, times: 1.0, each: ns };
        assert_eq!(difference(once(80_000.0), once(2_000.0)), Difference::Longer);
        assert_eq!(difference(once(80_000.0), Side::default()), Difference::OnlyLate);
        assert_eq!(difference(once(2_100.0), once(2_000.0)), Difference::Neither);
    }

    /// What is seldom in on-time windows is compared there where it is.
    #[test]
    fn rare_calls_of_one_length_are_more_often_and_not_longer() {
        let mut windows = Vec::new();
        for i in 0..20 {
            windows.push(with(true, Cause::TimerFunction, "poll", 5_000 + i, 1));
            let (ns, times) = if i % 5 == 0 { (5_000, 1) } else { (0, 0) };
            windows.push(with(false, Cause::TimerFunction, "poll", ns, times));
        }
        assert_eq!(contrast(&windows).0.rows[0].kind, Difference::MoreOften);
        for w in windows.iter_mut().filter(|w| w.late) {
            w.shares[0].1.ns = 200_000;
        }
        assert_eq!(contrast(&windows).0.rows[0].kind, Difference::Both);
    }

    #[test]
    fn without_on_time_windows_nothing_is_compared() {
        let (c, _) = contrast(&[with(true, Cause::Softirq, "NET_RX", 50_000, 1)]);
        assert_eq!((c.late, c.on_time), (1, 0));
        assert_eq!((c.rows[0].delta, c.rows[0].delta_interval), (0.0, (-1.0, 1.0)));
    }
}
