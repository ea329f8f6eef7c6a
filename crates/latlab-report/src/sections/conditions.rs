//! Temperature, clock and throttling of the machine while it measured.

use crate::doc::{Axis, Block, Plot, Scale, Series, SeriesKind};
use latlab_model::machine::Moment;
use std::collections::BTreeSet;

/// Fewer moments are no series.
const MOMENTS: usize = 3;

/// Plots over time of what the machine has sensors for.
pub(super) fn plots(part: &str, moments: &[Moment]) -> Vec<Block> {
    drawn(part, moments).into_iter().map(|plot| Block::Plot(Box::new(plot))).collect()
}

fn drawn(part: &str, moments: &[Moment]) -> Vec<Plot> {
    if moments.len() < MOMENTS {
        return Vec::new();
    }
    let line = |name: &str, of: &dyn Fn(&Moment) -> Option<f64>| Series {
        name: name.to_owned(),
        kind: SeriesKind::Line,
        points: moments.iter().filter_map(|m| Some((m.seconds, of(m)?))).collect(),
        ..Series::default()
    };
    let zones: BTreeSet<&String> =
        moments.iter().flat_map(|m| m.condition.temperature_mc.keys()).collect();
    let temperature = zones
        .into_iter()
        .map(|zone| line(zone, &|m| Some(*m.condition.temperature_mc.get(zone)? as f64 / 1e3)));
    let extreme =
        |of: fn(&[u64]) -> Option<u64>| move |m: &Moment| Some(of(&m.condition.khz)? as f64 / 1e3);
    let clock = [
        line("fastest CPU", &extreme(|khz| khz.iter().max().copied())),
        line("slowest CPU", &extreme(|khz| khz.iter().min().copied())),
    ];
    let throttled = [line("throttling", &|m| Some(m.condition.throttled? as f64))];
    [
        plot(part, "temperature", "Temperature while measuring", "°C", temperature.collect()),
        plot(part, "clock", "Clock while measuring", "MHz", clock.into()),
        plot(
            part,
            "throttling",
            "Throttling while measuring: states of cooling devices and counts of the processor",
            "sum",
            throttled.into(),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn plot(part: &str, name: &str, title: &str, unit: &str, series: Vec<Series>) -> Option<Plot> {
    let series: Vec<Series> = series.into_iter().filter(|s| s.points.len() >= MOMENTS).collect();
    (!series.is_empty()).then(|| Plot {
        id: format!("{part}-{name}"),
        title: title.to_owned(),
        description: format!("{title}, {unit}, at the beginning of each round."),
        x: Axis { label: "time (s)".into(), scale: Scale::Linear, ..Axis::default() },
        y: Axis { label: unit.to_owned(), scale: Scale::Linear, ..Axis::default() },
        series,
        ..Plot::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::machine::Condition;

    #[test]
    fn what_the_machine_has_sensors_for_is_drawn() {
        let moment = |i: u64| Moment {
            seconds: i as f64,
            condition: Condition {
                khz: vec![1_000_000 - 100_000 * i, 1_000_000],
                temperature_mc: [("cpu-thermal".to_owned(), 45_000 + 5_000 * i as i64)].into(),
                throttled: Some(i),
                ..Condition::default()
            },
        };
        let moments: Vec<Moment> = (0..4).map(moment).collect();
        let found = drawn("bench", &moments);
        let ids: Vec<&str> = found.iter().map(|p| p.id.as_str()).collect();
        assert_eq!(ids, ["bench-temperature", "bench-clock", "bench-throttling"]);
        assert_eq!(found[0].series[0].points[3], (3.0, 60.0));
        assert_eq!(found[1].series[1].points[3], (3.0, 700.0));
        assert!(drawn("bench", &moments[..2]).is_empty(), "two moments are no series");
        let bare: Vec<Moment> = (0..4).map(|_| Moment::default()).collect();
        assert!(drawn("bench", &bare).is_empty(), "a virtual machine has no sensors");
    }
}
