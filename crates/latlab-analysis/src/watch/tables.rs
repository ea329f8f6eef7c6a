//! The counts of a watch as tables: of hours, of the buckets of their histograms, and of causes.

use crate::fleet::lake_rows::buckets;
use latlab_model::lake::Kind::{Int, Text};
use latlab_model::lake::{Cell, Row, Table};
use latlab_model::watch::Slice;

/// One row an hour and task.
pub static HOUR: Table = Table {
    name: "hour",
    columns: &[
        ("hour", Text),
        ("task", Text),
        ("activations", Int),
        ("unsure", Int),
        ("overruns", Int),
        ("skipped", Int),
        ("late", Int),
        ("late_started_late", Int),
        ("late_ran_long", Int),
        ("late_preempted", Int),
        ("late_waited", Int),
    ],
    sorted_by: &[1, 0],
};

/// One row a bucket of an hour, a task and a time: `start`, `response`, `running`, `preempted`, `waiting`, ns.
pub static TIME: Table = Table {
    name: "time",
    columns: &[
        ("hour", Text),
        ("task", Text),
        ("time", Text),
        ("low", Int),
        ("high", Int),
        ("n", Int),
    ],
    sorted_by: &[1, 2, 0, 3],
};

/// One row an hour, task and main part of captured activations.
pub static CAUSE: Table = Table {
    name: "cause",
    columns: &[("hour", Text), ("task", Text), ("cause", Text), ("who", Text), ("captures", Int)],
    sorted_by: &[1, 0, 2, 3],
};

/// Rows of [`HOUR`], [`TIME`] and [`CAUSE`].
///
/// Histograms have 64 buckets for each power of two, as those of a lake: the sum of `n` by `low` is the histogram of
/// several hours, tasks or machines, exactly.
pub fn rows(hours: &[Slice]) -> [Vec<Row>; 3] {
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for slice in hours {
        // RFC 3339, UTC.
        let hour = Cell::Text([slice.hour.as_str(), ":00:00Z"].concat().into());
        for task in &slice.tasks {
            let (name, c) = (Cell::Text(task.task.as_str().into()), &task.counts);
            let by = &c.late_by;
            let counts = [
                c.activations,
                c.unsure,
                c.overruns,
                c.skipped,
                c.late,
                by.started_late,
                by.ran_long,
                by.preempted,
                by.waited,
            ];
            let row = [hour.clone(), name.clone()].into_iter().chain(counts.map(int));
            all[0].push(row.collect());
            let times = [
                ("start", &c.start),
                ("response", &c.response),
                ("running", &c.running),
                ("preempted", &c.preempted),
                ("waiting", &c.waiting),
            ];
            for (time, histogram) in times {
                let row = |((low, high), n): ((u64, u64), u64)| {
                    let named = [hour.clone(), name.clone(), Cell::Text(time.into())];
                    named.into_iter().chain([low, high, n].map(int)).collect()
                };
                all[1].extend(buckets(histogram).into_iter().map(row));
            }
        }
        for cause in &slice.causes {
            let texts =
                [&cause.task, &cause.cause, &cause.who].map(|t| Cell::Text(t.as_str().into()));
            let row = [hour.clone()].into_iter().chain(texts).chain([int(cause.captures)]);
            all[2].push(row.collect());
        }
    }
    all
}

/// A count; the largest one that the column holds where it holds no such number.
fn int(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::latency::ActivationCounts;
    use latlab_model::watch::{CauseCount, TaskCounts};
    use latlab_stats::histogram::Histogram;

    #[test]
    fn rows_have_what_was_counted() {
        let response = Histogram::of([1_000, 1_001, 1_000_000]);
        let counts = ActivationCounts { activations: 3, late: 1, response, ..Default::default() };
        let causes = vec![CauseCount {
            task: "loop".into(),
            cause: "idle exit".into(),
            who: String::new(),
            captures: 2,
        }];
        let slice = Slice {
            hour: "2026-11-24T23".into(),
            tasks: vec![TaskCounts { task: "loop".into(), counts }],
            causes,
            ..Slice::default()
        };
        let [hours, times, causes] = rows(&[slice]);
        for (table, rows) in [(&HOUR, &hours), (&TIME, &times), (&CAUSE, &causes)] {
            assert!(rows.iter().all(|r| r.len() == table.columns.len()), "{}", table.name);
        }
        assert_eq!(hours[0][0].text(), "2026-11-24T23:00:00Z");
        assert_eq!((hours[0][2].int(), hours[0][6].int()), (3, 1));
        let buckets: Vec<_> = times.iter().map(|r| (r[3].int(), r[4].int(), r[5].int())).collect();
        // 1,000 and 1,001 ns are in one bucket of 1.6 %.
        assert_eq!(buckets.iter().map(|b| b.2).collect::<Vec<_>>(), [2, 1]);
        assert!(buckets[0].0 <= 1_000 && buckets[0].1 >= 1_001, "{buckets:?}");
        assert!(times.iter().all(|r| r[2].text() == "response"));
        assert_eq!((causes[0][2].text(), causes[0][4].int()), ("idle exit", 2));
    }
}
