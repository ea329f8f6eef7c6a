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

/// Two kernels a night, each with a release of its own: the one is a tenth slower, on every device, while the level of
/// all moves by half from night to night.
#[test]
fn two_kernels_of_a_night_are_compared_on_the_same_device() {
    let mut overview = Overview::default();
    let params = ["cpu=0,kernel=debian", "cpu=0,kernel=latency", "cpu=0"];
    let ids: Vec<usize> = (["x", "y", "z"].iter())
        .flat_map(|device| params.map(|params| (*device, params)))
        .map(|(device, params)| {
            overview.series(&Named {
                board: "b",
                device,
                part: "wakeup",
                name: "wakeup.user",
                params,
                unit: "ns",
                larger_is_better: false,
            })
        })
        .collect();
    for night in 0..8 {
        let values: Vec<Value> = (ids.iter().enumerate())
            // The third device lacks a kernel; that without one is no pair.
            .filter(|(i, _)| *i != 7)
            .map(|(i, &series)| {
                let level =
                    100.0 * (1.0 + 0.5 * f64::from(night % 2)) * (1.0 + i as f64 / 3.0).floor();
                let by_kernel = [1.0, 1.1, 2.0][i % 3];
                let kernel = format!("6.{night}.{}", i % 3).into();
                Value { series, kernel, value: level * by_kernel }
            })
            .collect();
        overview.night(format!("night {night}"), 8, &values);
    }
    let fleet = overview.finish();
    let [pair] = &fleet.pairs[..] else { panic!("{:?}", fleet.pairs) };
    assert_eq!((pair.kernel.as_str(), pair.against_kernel.as_str()), ("latency", "debian"));
    assert_eq!(fleet.metrics[pair.metric].params, params[1]);
    assert_eq!(fleet.metrics[pair.against].params, params[0]);
    assert_eq!((pair.nights, pair.devices), (8, 2));
    let (low, high) = pair.interval.unwrap();
    assert!(
        (pair.change - 0.1).abs() < 1e-9 && low <= pair.change && pair.change <= high,
        "{pair:?}"
    );
    assert!((high - low) < 1e-9, "what moves both is in neither: {pair:?}");
    // Each kernel is a series of its own: its level is that of its own values, under its own release.
    let line = &fleet.metrics[pair.against].lines[0];
    assert!((line.levels[0].value - 200.0).abs() < 1e-9, "{line:?}");
    assert_eq!(
        (line.levels.len(), fleet.kernels[line.levels[1].kernel].release.as_str()),
        (8, "6.1.0")
    );
}

#[test]
fn few_nights_have_no_interval() {
    let mut overview = Overview::default();
    let mut series = |params| {
        overview.series(&Named {
            board: "b",
            device: "x",
            part: "p",
            name: "n",
            params,
            unit: "ns",
            larger_is_better: false,
        })
    };
    let (a, b) = (series("kernel=a"), series("kernel=b"));
    let value = |series, value| Value { series, kernel: "6".into(), value };
    for night in 0..5 {
        overview.night(night.to_string(), 2, &[value(a, 10.0), value(b, 20.0)]);
    }
    let fleet = overview.finish();
    let pair = &fleet.pairs[0];
    assert!((pair.change - 1.0).abs() < 1e-9 && pair.interval.is_none(), "{pair:?}");
}
