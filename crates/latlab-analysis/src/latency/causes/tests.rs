use super::*;
use latlab_model::finding::Confidence;
use latlab_model::latency::{CauseEvidence, Kind, Share};

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
            &[(Cause::InterruptsOff, who, 500, Kind::Task), (Cause::Path, "", 6_000, Kind::Task)],
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
    let e = explain(&windows, &SystemContext::default());
    assert_eq!(e.causes.len(), 1, "{:#?}", e.causes);
    let c = &e.causes[0];
    assert_eq!((c.mechanism, c.who.as_str()), (Mechanism::InterruptsOff, "driver"));
    assert_eq!((c.confidence, c.share_of_late), (Confidence::High, 1.0));
    assert!(c.share_of_lateness > 0.99 && e.unexplained_share < 0.01);
}

#[test]
fn a_culprit_is_counted_among_all_silent_windows() {
    let mut windows = controls(&[("app", 40), ("driver", 2)]);
    windows.extend((0..8).map(|i| held_off("driver", 300_000 + i * 100)));
    windows.extend((0..4).map(|_| held_off("app", 300_000)));
    let e = explain(&windows, &SystemContext::default());
    let driver = e.causes.iter().find(|c| c.who == "driver").expect("the driver");
    let hit = driver.evidence.iter().find_map(|g| match g {
        CauseEvidence::Victim { hits, of, .. } => Some((*hits, *of)),
        _ => None,
    });
    assert_eq!(hit, Some((8, 12)));
}

#[test]
fn victims_that_follow_the_occupancy_mean_a_stall() {
    let mut windows = controls(&[("app", 20), ("logger", 10), ("net", 10)]);
    for who in ["app", "net", "app", "logger", "app", "app", "logger", "net"] {
        windows.push(held_off(who, 28_000_000));
    }
    let e = explain(&windows, &SystemContext::default());
    assert_eq!(e.causes.len(), 1, "{:#?}", e.causes);
    assert_eq!(e.causes[0].mechanism, Mechanism::Stall);
    assert_ne!(e.causes[0].confidence, Confidence::High, "nothing shows that nothing ran");
    assert!(e.causes[0].evidence.iter().any(|g| matches!(g, CauseEvidence::AlikeLengths { .. })));
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
    let e = explain(&windows, &SystemContext::default());
    let named: Vec<Mechanism> = e.causes.iter().map(|c| c.mechanism).collect();
    assert_eq!(named, [Mechanism::HigherPriority, Mechanism::HrtimerHandler]);
    assert!(e.unexplained_share < 0.05);
}

#[test]
fn no_cause_is_invented() {
    let on_time = controls(&[("app", 30)]);
    let e = explain(&on_time, &SystemContext::default());
    assert!(e.causes.is_empty() && e.unexplained_share == 0.0);

    let mut windows = on_time;
    windows.push(window(true, &[(Cause::Path, "", 300_000, Kind::Task)], false));
    let e = explain(&windows, &SystemContext::default());
    assert_eq!(e.causes[0].mechanism, Mechanism::SlowPath);
    assert_eq!(e.causes[0].confidence, Confidence::Low);
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
    let e = explain(&windows, &SystemContext::default());
    assert_eq!(e.causes[0].mechanism, Mechanism::HigherPriority);
    assert_eq!(e.causes[0].confidence, Confidence::Medium);
}

/// Half of its windows have events in it all the time: it ran, and no stall did it.
#[test]
fn what_has_events_in_it_is_no_stall() {
    let mut windows = controls(&[("app", 6)]);
    let part = |ns| [(Cause::TimerFunction, "poll_fn", ns, Kind::Hrtimer)];
    for (ns, silent) in
        [(5_000_000, true), (5_100_000, true), (9_000_000, false), (9_900_000, false)]
    {
        windows.push(window(true, &part(ns), silent));
    }
    windows.extend((0..3).map(|i| held_off("app", 4_000_000 + i)));
    let e = explain(&windows, &SystemContext::default());
    let first = &e.causes[0];
    assert_eq!((first.mechanism, first.who.as_str()), (Mechanism::HrtimerHandler, "poll_fn"));
}

/// Nearly all wake-ups are late: six that are not do not tell who usually has the CPU.
#[test]
fn few_on_time_windows_make_nobody_guilty() {
    let mut windows = controls(&[("app", 6)]);
    for i in 0..300 {
        let who = ["app", "app", "logger", "net"][i % 4];
        windows.push(held_off(who, 70_000 + i as u64));
    }
    let e = explain(&windows, &SystemContext::default());
    let named: Vec<_> = e.causes.iter().map(|c| (c.mechanism, c.who.as_str())).collect();
    assert!(named.iter().all(|n| n.0 == Mechanism::Stall), "{named:?}");
    // And none at all tell nothing, neither a culprit nor a stall.
    windows.retain(|w| w.late);
    let e = explain(&windows, &SystemContext::default());
    assert!(e.causes.iter().all(|c| c.mechanism == Mechanism::Unexplained), "{:#?}", e.causes);
}
