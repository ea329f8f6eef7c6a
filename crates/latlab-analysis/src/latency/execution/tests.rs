//! Verdicts on counters of a processor with 1 GHz, late activations beside 40 usual ones.

use super::*;

/// Usual: 200 µs, 100 000 instructions, half of the cycles wait, 1 000 misses.
fn usual() -> WorkCounts {
    WorkCounts {
        time_ns: 200_000,
        counted_ns: 200_000,
        instructions: Some(100_000),
        user_instructions: Some(95_000),
        cycles: Some(200_000),
        reference_cycles: Some(200_000),
        cache_misses: Some(1_000),
        page_faults: Some(0),
    }
}

/// What the verdict is of four late activations, each a little different, against 40 others that vary by 2 %.
fn of(change: impl Fn(&mut WorkCounts), without: impl Fn(&mut WorkCounts)) -> Execution {
    of_machine(change, without, false)
}

fn of_machine(
    change: impl Fn(&mut WorkCounts),
    without: impl Fn(&mut WorkCounts),
    clock_changes: bool,
) -> Execution {
    let varied = |n: usize, by: u64| {
        let mut w = usual();
        let factor = |v: u64| v * (1_000 + by * (n as u64 % 5)) / 1_000;
        for ns in [&mut w.time_ns, &mut w.counted_ns] {
            *ns = factor(*ns);
        }
        let all = [&mut w.instructions, &mut w.user_instructions, &mut w.cycles];
        for count in all.into_iter().chain([&mut w.reference_cycles, &mut w.cache_misses]) {
            *count = count.map(factor);
        }
        w
    };
    let mut on_time: Vec<WorkCounts> = (0..40).map(|n| varied(n, 5)).collect();
    let mut late: Vec<WorkCounts> = (0..4).map(|n| varied(n, 3)).collect();
    late.iter_mut().for_each(change);
    on_time.iter_mut().chain(&mut late).for_each(without);
    judge(&late, &on_time, clock_changes)
}

fn scale(w: &mut Option<u64>, factor: f64) {
    *w = w.map(|v| (v as f64 * factor) as u64);
}

/// Twice as many instructions, as fast as usual.
fn work(w: &mut WorkCounts) {
    w.time_ns *= 2;
    let all = [&mut w.instructions, &mut w.user_instructions, &mut w.cycles];
    all.into_iter().for_each(|c| scale(c, 2.0));
    scale(&mut w.reference_cycles, 2.0);
    scale(&mut w.cache_misses, 2.0);
}

/// Instructions take twice the cycles, with three times the misses.
fn misses(w: &mut WorkCounts) {
    w.time_ns *= 2;
    scale(&mut w.cycles, 2.0);
    scale(&mut w.reference_cycles, 2.0);
    scale(&mut w.cache_misses, 3.0);
}

/// Half of the frequency.
fn slow(w: &mut WorkCounts) {
    w.time_ns *= 2;
    scale(&mut w.reference_cycles, 2.0);
}

/// The CPU stood still for half of the time.
fn stopped(w: &mut WorkCounts) {
    w.time_ns *= 2;
}

const ALL: fn(&mut WorkCounts) = |_| {};

fn inconclusive(e: &Execution) -> Option<ExecutionDoubt> {
    e.doubt.filter(|_| e.kind == ExecutionKind::Inconclusive)
}

#[test]
fn each_factor_is_told_and_the_shares_add_up() {
    for (change, kind) in [
        (work as fn(&mut WorkCounts), ExecutionKind::MoreWork),
        (misses, ExecutionKind::CacheMisses),
        (slow, ExecutionKind::SlowerClock),
        (stopped, ExecutionKind::NotExecuted),
    ] {
        let found = of(change, ALL);
        assert_eq!((found.kind, found.doubt), (kind, None), "{found:?}");
        let s = found.shares.unwrap();
        let sum = s.instructions + s.cycles_per_instruction + s.clock;
        assert!((sum - 1.0).abs() < 1e-9, "{s:?}");
        assert_eq!((found.late_counted, found.on_time_counted), (4, 40));
    }
}

#[test]
fn instructions_of_the_kernel_are_told_from_those_of_the_task() {
    let kernel = |faults: u64| {
        move |w: &mut WorkCounts| {
            work(w);
            w.user_instructions = Some(95_000);
            w.page_faults = Some(faults);
        }
    };
    assert_eq!(of(kernel(0), ALL).kind, ExecutionKind::KernelWork);
    assert_eq!(of(kernel(64), ALL).kind, ExecutionKind::PageFaults, "some 1 600 instructions each");
    assert_eq!(
        of(kernel(5_000), ALL).kind,
        ExecutionKind::KernelWork,
        "20 instructions are no fault"
    );
    // The task writes to new memory: most of it is its own work.
    let both = |w: &mut WorkCounts| {
        work(w);
        w.page_faults = Some(8);
    };
    assert_eq!(of(both, ALL).kind, ExecutionKind::MoreWork);
    assert_eq!(of(kernel(64), |w| w.user_instructions = None).kind, ExecutionKind::MoreWork);
}

/// What a missing counter leaves open is said, and nothing is named.
#[test]
fn a_missing_counter_leaves_open_what_it_would_decide() {
    let no = |w: &mut WorkCounts| {
        *w = WorkCounts { page_faults: w.page_faults, time_ns: w.time_ns, ..WorkCounts::default() };
    };
    assert_eq!(inconclusive(&of(work, no)), Some(ExecutionDoubt::NoCounters));
    let instructions = |w: &mut WorkCounts| w.instructions = None;
    assert_eq!(inconclusive(&of(work, instructions)), Some(ExecutionDoubt::NoInstructions));
    assert_eq!(of(slow, instructions).kind, ExecutionKind::SlowerClock);
    let cycles = |w: &mut WorkCounts| w.cycles = None;
    assert_eq!(of(work, cycles).kind, ExecutionKind::MoreWork);
    assert_eq!(inconclusive(&of(misses, cycles)), Some(ExecutionDoubt::NoCycles));
    let cache = |w: &mut WorkCounts| w.cache_misses = None;
    assert_eq!(inconclusive(&of(misses, cache)), Some(ExecutionDoubt::NoCacheMisses));
    let zero = |w: &mut WorkCounts| w.cache_misses = Some(0);
    assert_eq!(inconclusive(&of(misses, zero)), Some(ExecutionDoubt::NoCacheMisses));
    let reference = |w: &mut WorkCounts| w.reference_cycles = None;
    let open = Some(ExecutionDoubt::ClockOrStopped);
    assert_eq!(inconclusive(&of(slow, reference)), open);
    assert_eq!(inconclusive(&of(stopped, reference)), open);
    assert_eq!(of_machine(slow, reference, true).kind, ExecutionKind::SlowerClock);
}

#[test]
fn more_cycles_without_enough_misses_are_not_called_misses() {
    let few = |w: &mut WorkCounts| {
        misses(w);
        // 60 more misses of 1 000 cycles at most explain less than half of 200 000 cycles.
        w.cache_misses = Some(1_060);
    };
    assert_eq!(inconclusive(&of(few, ALL)), Some(ExecutionDoubt::OtherStalls));
}

#[test]
fn a_mixture_has_shares_and_what_others_do_as_well_is_not_named() {
    let both = |w: &mut WorkCounts| {
        work(w);
        slow(w);
    };
    let found = of(both, ALL);
    assert_eq!(found.kind, ExecutionKind::Mixed);
    let s = found.shares.unwrap();
    assert!((s.instructions - 0.5).abs() < 0.03 && (s.clock - 0.5).abs() < 0.03, "{s:?}");
    // Others do the same work for a third of the time, and are on time.
    let late: Vec<WorkCounts> = (0..4)
        .map(|_| usual())
        .map(|mut w| {
            work(&mut w);
            w
        })
        .collect();
    let others = |n: usize| {
        let mut w = usual();
        if n.is_multiple_of(3) {
            scale(&mut w.instructions, 3.0);
        }
        w
    };
    let on_time: Vec<WorkCounts> = (0..40).map(others).collect();
    let found = judge(&late, &on_time, false);
    assert_eq!(inconclusive(&found), Some(ExecutionDoubt::NotSeparated), "{found:?}");
}

#[test]
fn without_enough_of_both_nothing_is_said() {
    for (late, on_time) in [(0, 40), (4, 0), (4, 4)] {
        let mut slow_ones = vec![usual(); late];
        slow_ones.iter_mut().for_each(work);
        let found = judge(&slow_ones, &vec![usual(); on_time], false);
        assert_eq!(inconclusive(&found), Some(ExecutionDoubt::TooFew), "{late} {on_time}");
    }
    // Not longer with a CPU: it is something else.
    let found = judge(&vec![usual(); 4], &vec![usual(); 40], false);
    assert_eq!(inconclusive(&found), Some(ExecutionDoubt::TooFew));
}
