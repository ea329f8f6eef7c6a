//! Mean and standard deviation of wake-up latency, which published tables have in place of quantiles.

use super::names::name;
use crate::doc::{Column, Table};
use latlab_model::units::format_ns;
use latlab_model::wakeup::result::WakeupResult;
use latlab_stats::histogram::Summary;

/// A row for each thread, and one for all of one mechanism.
pub(super) fn table(result: &WakeupResult) -> Table {
    let mut rows: Vec<(String, Summary)> =
        result.threads.iter().map(|t| (name(t), t.latency.summary())).collect();
    if rows.len() > 1 && result.config.by.is_none() {
        rows.push(("all".into(), result.all_wakeups().summary()));
    }
    let row = |(name, s): (String, Summary)| {
        let figures = [s.min, s.mean, s.sd, s.max].map(|v| v.map_or("–".into(), format_ns));
        [name].into_iter().chain(figures).collect()
    };
    let heads = ["min", "mean", "standard deviation", "max"];
    Table {
        caption: "Mean and standard deviation of each wake-up, for comparison with other tools."
            .into(),
        columns: [Column::left("")].into_iter().chain(heads.map(Column::right)).collect(),
        rows: rows.into_iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::units::CpuId;
    use latlab_model::wakeup::mechanism::Mechanisms;
    use latlab_model::wakeup::result::ThreadResult;
    use latlab_stats::histogram::Histogram;

    #[test]
    fn mean_and_standard_deviation_are_those_of_all_values() {
        let thread = |cpu, values: &[u64]| ThreadResult {
            cpu: Some(CpuId(cpu)),
            latency: Histogram::of(values.iter().copied()),
            ..ThreadResult::default()
        };
        let mut result = WakeupResult {
            threads: vec![thread(0, &[1_000, 2_000]), thread(1, &[1_500])],
            ..WakeupResult::default()
        };
        let rows: Vec<String> = table(&result).rows.iter().map(|r| r.join(" | ")).collect();
        assert_eq!(
            rows,
            [
                "CPU 0 | 1.00 µs | 1.50 µs | 707 ns | 2.00 µs",
                "CPU 1 | 1.50 µs | 1.50 µs | – | 1.50 µs",
                "all | 1.00 µs | 1.50 µs | 500 ns | 2.00 µs",
            ]
        );
        result.config.by = Some(Mechanisms::default());
        assert_eq!(table(&result).rows.len(), 2, "mechanisms have no total");
    }
}
