use super::*;
use latlab_testkit::fleet_sim::Fleet as Simulated;

fn collect(fleet: &Simulated) -> Fleet {
    let mut overview = Overview::default();
    let mut sim = fleet.start();
    let ids: Vec<usize> = (fleet.series())
        .map(|s| {
            overview.series(&Named {
                board: &s.class,
                device: &s.device,
                part: "p",
                name: &s.name,
                params: "",
                unit: "ns",
                larger_is_better: false,
            })
        })
        .collect();
    for night in 0..fleet.nights {
        let kernel: Arc<str> = Simulated::kernel(night).into();
        let values: Vec<Value> = (ids.iter().zip(sim.night()))
            .map(|(&series, value)| Value { series, kernel: kernel.clone(), value })
            .collect();
        overview.night(format!("night {night:03}"), 7, &values);
    }
    for _ in 0..2 {
        let from = |night| Source { night, run: "r" };
        overview.tail(ids[0], from(0), &[(127, 3)]);
        overview.tail(ids[0], from(1), &[(127, 1)]);
        overview.tail_quantiles();
    }
    overview.finish()
}

#[test]
fn a_fleet_has_its_boards_kernels_and_what_became_worse() {
    let simulated =
        Simulated { boards: 40, classes: 2, metrics: 10, nights: 120, ..Simulated::default() };
    let simulated = simulated.with_regressions(3, 0, 0.1, 5).with_regressions(0, 3, 0.4, 5);
    let fleet = collect(&simulated);
    assert_eq!((fleet.nights.len(), fleet.kernels.len(), fleet.boards.len()), (120, 120, 2));
    assert_eq!((fleet.nights[3].devices, fleet.nights[3].runs), (40, 7));
    assert_eq!(fleet.boards[0].devices.len() + fleet.boards[0].more_devices, 20);
    assert_eq!(fleet.metrics.len(), 10);
    assert_eq!(fleet.metrics[0].lines[1].points.len(), 120);
    let tails: Vec<_> = fleet.metrics.iter().flat_map(|m| &m.tails).collect();
    assert_eq!((tails.len(), tails[0].samples), (1, 4));
    assert_eq!(tails[0].buckets, [(127, 4)]);
    for truth in &simulated.truth {
        let alarm = fleet.alarms.iter().find(|a| {
            a.device == truth.device && a.family == truth.family && a.since == truth.night
        });
        let Some(alarm) = alarm else { continue };
        let first = &alarm.changes[0];
        let (before, after) = (first.before.unwrap(), first.after.unwrap());
        let ratio = after / before - 1.0;
        assert!((ratio - truth.size).abs() < 0.08, "{ratio} for {}", truth.size);
        assert_eq!(first.values.is_empty(), truth.device.is_none());
        // The device is followed to the end.
        assert!(first.values.last().is_none_or(|v| v.0 == 119));
        if truth.device.is_none() {
            // What a kernel changed against the one before is the regression.
            let (kernel, before) = (alarm.suspects.1, alarm.suspects.0);
            let step = fleet.steps.iter().find(|s| {
                (s.kernel, s.before, s.board) == (kernel, before, alarm.board)
                    && s.metric == first.metric
            });
            let change = step.unwrap().change;
            assert!((change - truth.size).abs() < 0.03, "{change} for {}", truth.size);
        }
    }
    let of_devices = fleet.alarms.iter().filter(|a| a.device.is_some()).count();
    assert!(of_devices >= 2 && fleet.alarms.len() - of_devices >= 2, "{:?}", fleet.alarms);
}

#[test]
fn an_ill_device_is_the_first_of_its_board() {
    let simulated =
        Simulated { boards: 12, classes: 1, metrics: 5, nights: 60, ..Simulated::default() };
    let simulated = simulated.with_regressions(0, 1, 1.5, 3);
    let fleet = collect(&simulated);
    let first = &fleet.boards[0].devices[0];
    assert_eq!(Some(&first.name), simulated.truth[0].device.as_ref());
    assert!(first.difference.unwrap() > 0.8, "{first:?}");
}

#[test]
fn throughput_is_shown_as_recorded() {
    let mut overview = Overview::default();
    let named = |device| Named {
        board: "b",
        device,
        part: "bench",
        name: "copy",
        params: "size=1",
        unit: "bytes_per_second",
        larger_is_better: true,
    };
    let ids = ["x", "y", "z"].map(|d| overview.series(&named(d)));
    for (night, speed) in [100.0, 100.0, 50.0].into_iter().enumerate() {
        let kernel: Arc<str> = if night < 2 { "1" } else { "2" }.into();
        let values = ids.map(|series| Value {
            series,
            kernel: kernel.clone(),
            value: 1.0 / (speed + series as f64),
        });
        overview.night(night.to_string(), 3, &values);
    }
    let fleet = overview.finish();
    let line = &fleet.metrics[0].lines[0];
    let last = line.points[2];
    assert!((last.low - 50.0).abs() < 1e-3 && (last.high - 52.0).abs() < 1e-3, "{last:?}");
    assert!((last.middle - 51.0).abs() < 1e-3, "{last:?}");
    assert_eq!(fleet.steps.len(), 1);
    assert!((fleet.steps[0].change - 1.0).abs() < 0.03, "half the speed is twice as slow");
    assert!((line.levels[0].value - 101.0).abs() < 1e-3, "{line:?}");
}

#[test]
fn nothing_is_an_empty_fleet() {
    assert_eq!(Overview::default().finish(), Fleet::default());
    let mut overview = Overview::default();
    overview.night("2026-03-01".into(), 0, &[]);
    let fleet = overview.finish();
    assert_eq!((fleet.nights.len(), fleet.boards.len()), (1, 0));
}
