//! Stalls, pauses of a guest and interrupts of other CPUs.

use super::*;
use latlab_model::latency::IpiSender;

/// Idle windows that another idle CPU was silent in too.
fn idle_together(late: u64, around: &SystemContext, change: &dyn Fn(&mut Window)) -> RootCause {
    let idle = |late, ns| {
        let parts = [(Cause::IdleExit, "", ns, Kind::Idle), (Cause::Path, "", 6_000, Kind::Task)];
        window(late, &parts, true)
    };
    let mut windows: Vec<Window> = (0..40).map(|_| idle(false, 500)).collect();
    windows.extend((0..late).map(|i| {
        let mut w = Window { silent_other_timer: true, ..idle(true, 800_000 + i * 50_000) };
        change(&mut w);
        w
    }));
    explain(&windows, around).causes.remove(0)
}

/// Two idle CPUs hold up neither each other nor themselves, unless their idle state takes that long.
#[test]
fn two_idle_cpus_that_are_silent_together_were_stopped() {
    let bare = SystemContext::default();
    let stall = idle_together(3, &bare, &|_| {});
    assert_eq!((stall.mechanism, stall.confidence), (Mechanism::Stall, Confidence::Medium));
    assert_eq!(idle_together(2, &bare, &|_| {}).mechanism, Mechanism::Alternatives);
    let declared = SystemContext { idle_exit_ns: Some(890_000), ..SystemContext::default() };
    assert_eq!(idle_together(3, &declared, &|_| {}).mechanism, Mechanism::IdleExit);
    // Interrupts of a third CPU to both.
    let ipi = idle_together(3, &bare, &|w| w.silent_ipi = true);
    assert_eq!(ipi.mechanism, Mechanism::Alternatives);
    let named: Vec<Mechanism> = ipi.alternatives.iter().map(|a| a.mechanism).collect();
    assert_eq!(named, [Mechanism::IdleExit, Mechanism::Ipi, Mechanism::Stall]);
}

/// Whatever the events do not exclude is among the alternatives.
#[test]
fn an_interrupt_of_another_cpu_is_an_alternative_unless_it_would_be_recorded() {
    let named = |unseen: bool| {
        let mut windows = controls(&[("app", 40)]);
        windows.push(Window { silent_ipi: unseen, ..held_off("app", 800_000) });
        let c = explain(&windows, &SystemContext::default()).causes.remove(0);
        c.alternatives.iter().map(|a| a.mechanism).collect::<Vec<_>>()
    };
    assert_eq!(named(true), [Mechanism::InterruptsOff, Mechanism::Ipi, Mechanism::Stall]);
    assert_eq!(named(false), [Mechanism::InterruptsOff, Mechanism::Stall]);
}

/// A guest may have been stopped in whatever ran: one or two silent windows name nobody, three in a row of one
/// rare actor do. Where steal time is counted, that it did not rise tells.
#[test]
fn on_a_guest_without_steal_time_few_silent_windows_name_nobody() {
    let parts = [
        (Cause::TimerFunction, "poll_fn", Kind::Hrtimer),
        (Cause::Interrupt, "eth0", Kind::Interrupt),
        (Cause::HigherPriority, "urgent", Kind::Task),
        (Cause::InterruptsOff, "on_work", Kind::Work),
        (Cause::InterruptsOff, "driver", Kind::Task),
    ];
    let first = |part: (Cause, &str, Kind), late: u64, steal: Option<u64>, silent: bool| {
        let mut windows = controls(&[("app", 110), ("sh", 10)]);
        windows.extend((0..late).map(|i| {
            let own = [(part.0, part.1, 300_000 + i, part.2), (Cause::Path, "", 6_000, Kind::Task)];
            let w = window(true, &own, silent);
            Window { at_intended: "app".into(), ..w }
        }));
        let hypervisor = steal.map(|_| "qemu-tcg".to_owned());
        let around = SystemContext { hypervisor, steal_ns: steal, ..SystemContext::default() };
        explain(&windows, &around).causes.remove(0)
    };
    for part in parts {
        for late in [1, 2] {
            let few = first(part, late, Some(0), true);
            assert_eq!(few.mechanism, Mechanism::Alternatives, "{part:?} {late}");
            let own: Vec<&str> = few.alternatives.iter().map(|a| a.who.as_str()).collect();
            assert_eq!(own, [part.1, ""], "{part:?}");
            let ran = first(part, late, Some(0), false);
            assert_ne!(ran.mechanism, Mechanism::Alternatives, "{part:?}: it has events in it");
        }
        let three = first(part, 3, Some(0), true);
        assert_ne!(three.mechanism, Mechanism::Alternatives, "{part:?}: {three:#?}");
        if part.1 != "driver" {
            for steal in [None, Some(5_000_000)] {
                let seen = first(part, 1, steal, true);
                assert_ne!(seen.mechanism, Mechanism::Alternatives, "{part:?} {steal:?}");
            }
        }
    }
}

/// Of a task that has the CPU in many windows two without events in it are no reason to doubt the others.
#[test]
fn a_few_silent_windows_of_a_task_that_was_seen_to_run_are_its_own() {
    let of = |silent: u64, late: u64| {
        let mut windows = controls(&[("app", 110), ("sh", 10)]);
        windows.extend((0..late).map(|i| {
            let own = [
                (Cause::HigherPriority, "urgent", 5_000_000 + i, Kind::Task),
                (Cause::Path, "", 6_000, Kind::Task),
            ];
            window(true, &own, i < silent)
        }));
        let hypervisor = Some("kvm".to_owned());
        let around = SystemContext { hypervisor, steal_ns: Some(0), ..SystemContext::default() };
        explain(&windows, &around).causes.remove(0).mechanism
    };
    assert_eq!(of(2, 14), Mechanism::HigherPriority);
    assert_eq!(of(2, 5), Mechanism::HigherPriority);
    assert_eq!(of(2, 4), Mechanism::Alternatives);
    assert_eq!(of(2, 3), Mechanism::Alternatives);
}

/// A thread that keeps interrupts off in two windows and had the CPU after the interrupt in two others.
#[test]
fn an_actor_before_and_after_the_interrupt_is_one_actor() {
    let of = |causes: [Cause; 2]| {
        let mut windows = controls(&[("app", 110), ("sh", 10)]);
        for i in 0..4u64 {
            let cause = causes[usize::from(i % 2 == 0)];
            let parts = [(cause, "migration", 900_000 + i, Kind::Task)];
            let w = window(true, &parts, true);
            windows.push(Window { at_intended: "app".into(), ..w });
        }
        let hypervisor = Some("qemu-tcg".to_owned());
        let around = SystemContext { hypervisor, steal_ns: Some(0), ..SystemContext::default() };
        let causes = explain(&windows, &around).causes;
        causes.iter().map(|c| (c.mechanism, c.who.clone())).collect::<Vec<_>>()
    };
    let named = of([Cause::InterruptsOff, Cause::HigherPriority]);
    let own = |mechanism| (mechanism, "migration".to_owned());
    assert!(named.contains(&own(Mechanism::InterruptsOff)), "{named:?}");
    assert!(named.contains(&own(Mechanism::HigherPriority)), "{named:?}");
}

/// Late behind an interrupt of another CPU: a cause of its own, with who sent it.
#[test]
fn interrupts_of_another_cpu_are_a_cause_with_their_sender() {
    let of = |task: &str| IpiSender { cpu: 1, task: task.into(), function: "scan".into() };
    let mut windows = controls(&[("app", 30)]);
    for i in 0..5 {
        let parts = [(Cause::Interrupt, "call_function", 300_000 + i, Kind::Interrupt)];
        let mut w = window(true, &parts, true);
        w.shares[0].1.senders = vec![of(if i == 0 { "make" } else { "driver" })];
        windows.push(w);
    }
    let c = explain(&windows, &SystemContext::default()).causes.remove(0);
    assert_eq!((c.mechanism, c.confidence), (Mechanism::Ipi, Confidence::High));
    let sent = CauseEvidence::IpiSender { sender: of("driver"), windows: 4 };
    assert!(c.evidence.contains(&sent), "{:#?}", c.evidence);
}

/// A rare task that is silent in each late window is named, unless the timer's interrupt came in its user code.
#[test]
fn a_task_that_was_interrupted_in_user_code_had_no_interrupts_off() {
    let of = |interrupted: &str| {
        let mut windows = controls(&[("app", 110), ("driver", 2)]);
        windows.extend((0..4).map(|i| Window {
            interrupted: Some(interrupted.to_owned()),
            ..held_off("driver", 800_000 + i)
        }));
        explain(&windows, &SystemContext::default()).causes.remove(0).mechanism
    };
    assert_eq!(of("write_out"), Mechanism::InterruptsOff);
    assert_eq!(of(""), Mechanism::Alternatives);
}

/// Two timer functions that came together held a wake-up up, each for as long as it always runs: no code was stopped.
#[test]
fn a_function_that_runs_as_long_as_usual_was_not_stopped() {
    let named = |usual: Option<u64>| {
        let parts = [(Cause::TimerFunction, "tick", 16_000, Kind::Hrtimer)];
        let mut late = window(true, &parts, true);
        late.shares[0].1.usual_silent_ns = usual;
        let mut windows = controls(&[("app", 40)]);
        windows.push(late);
        let guest = SystemContext { hypervisor: Some("qemu".into()), ..SystemContext::default() };
        explain(&windows, &guest).causes.remove(0)
    };
    let usual = named(Some(14_500));
    assert_eq!((usual.mechanism, usual.who.as_str()), (Mechanism::HrtimerHandler, "tick"));
    let fact = CauseEvidence::UsualLength { windows: 1, usual_ns: 14_500 };
    assert!(usual.evidence.contains(&fact), "{:?}", usual.evidence);
    assert_eq!(named(Some(3_000)).mechanism, Mechanism::Alternatives);
    assert_eq!(named(None).mechanism, Mechanism::Alternatives);
}

/// A work item that runs as long as usual in most late wake-ups is named, also where two are longer than usual in their
/// captures. Of those two alone a stall may be the cause.
#[test]
fn a_work_item_that_mostly_runs_as_long_as_usual_is_named() {
    let named = |as_usual: u64| {
        let mut windows = controls(&[("app", 110), ("on_work", 2)]);
        windows.extend((0..as_usual + 2).map(|i| {
            let parts = [(Cause::InterruptsOff, "on_work", 300_000 + i, Kind::Work)];
            let mut late = window(true, &parts, true);
            late.shares[0].1.usual_silent_ns = Some(if i < 2 { 150_000 } else { 300_000 });
            late
        }));
        windows.extend((0..30).map(|i| held_off("app", 300_000 + i)));
        let guest = SystemContext { hypervisor: Some("qemu".into()), ..SystemContext::default() };
        let e = explain(&windows, &guest);
        e.causes.iter().any(|c| c.who == "on_work" && c.mechanism == Mechanism::InterruptsOff)
    };
    assert!(named(8));
    assert!(!named(0));
}

/// A stall hits what has a third of each wake-up in a third of the late ones.
#[test]
fn a_handler_that_has_much_of_every_wake_up_is_hit_by_stalls() {
    let named = |usual_ns: u64| {
        let parts = |ns| {
            [
                (Cause::Path, "", 20_000, Kind::Task),
                (Cause::TimerFunction, "tick", ns, Kind::Hrtimer),
            ]
        };
        let mut windows: Vec<Window> =
            (0..60).map(|_| window(false, &parts(usual_ns), true)).collect();
        windows.extend((0..4).map(|i| window(true, &parts(400_000 + i * 50_000), true)));
        windows.extend((0..8).map(|i| held_off("app", 400_000 + i * 50_000)));
        let e = explain(&windows, &SystemContext::default());
        e.causes.iter().any(|c| c.mechanism == Mechanism::HrtimerHandler)
    };
    assert!(named(100));
    assert!(!named(10_000));
}
