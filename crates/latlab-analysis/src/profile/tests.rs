//! Profiles of small traces in ftrace's text.

use super::*;
use latlab_model::profile::{FunctionProfile, Origin, Profile};
use latlab_trace::Select;

fn profile(text: &str) -> Profile {
    let file = latlab_trace::text::parse(text.as_bytes()).unwrap();
    assert!(file.diagnostics.is_empty(), "{:?}", file.diagnostics);
    let (found, damage) = analyse(&file, "t", &Select::default(), 1);
    assert!(damage.is_empty());
    found.unwrap()
}

fn function<'p>(profile: &'p Profile, name: &str) -> &'p FunctionProfile {
    profile.functions.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Of a latency tracer: the time passes between the second function and the third.
#[test]
fn the_longest_latency_has_its_steps() {
    let text = "\
# tracer: irqsoff
#
# latency: 1000 us, #4/4, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:1)
#    | task: loop-77 (uid:0 nice:0 policy:1 rt_prio:9)
#  => started at: lock_it
#  => ended at:   let_go
    loop-77        0d...1..    0us : lock_it <-update
    loop-77        0d...1..  100us#: copy_all <-update
    loop-77        0d...1..  950us : let_go <-update
    loop-77        0d...1..  1000us : trace_hardirqs_on <-let_go
";
    let found = profile(text);
    let latency = found.latency.clone().unwrap();
    assert_eq!(
        (latency.length_ns, latency.tid, latency.started_at.as_str()),
        (1_000_000, 77, "lock_it")
    );
    let steps: Vec<_> =
        latency.steps.iter().map(|s| (s.from.as_str(), s.to.as_str(), s.length_ns)).collect();
    let expected = [
        ("copy_all", "let_go", 850_000),
        ("lock_it", "copy_all", 100_000),
        ("let_go", "trace_hardirqs_on", 50_000),
    ];
    assert_eq!(steps, expected);
    assert_eq!(
        (latency.steps[0].caller.as_str(), latency.steps[0].task.as_str()),
        ("update", "loop")
    );
    let part = part("profile", "Functions", found, None);
    let ids: Vec<_> = part.findings.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["profile.long-step"]);
    let equal = text.replace("950us", "500us").replace("100us#", "450us");
    let part = self::part("profile", "Functions", profile(&equal), None);
    assert_eq!(part.findings.len(), 1, "450 and 500 µs of 1000 are great steps");
    let many: String = (0..100)
        .map(|i| format!("    loop-77        0d...1..  {}us : f{i} <-g\n", 10 * i))
        .collect();
    let head: String = text.lines().take(6).map(|l| format!("{l}\n")).collect();
    let part = self::part("profile", "Functions", profile(&(head + &many)), None);
    assert!(part.findings.is_empty(), "{:?}", part.findings);
}

/// A wake-up inside an interrupt in which one call takes 28 ms, without markers.
const LONG: &str = "\
# tracer: function_graph
#
 5586.207700 |   0)               |  schedule_hrtimer() {
 5586.207701 |   0)   0.210 us    |    ktime_get();
 5586.207702 |   0)   ==========> |
 5586.207703 |   0)               |    handle_timer() {
 5586.207705 |   0)   0.340 us    |      account_time();
 5586.207717 |   0)               |      activate_task() {
 5586.207718 |   0)               |        enqueue_task() {
 5586.207719 |   0)   0.290 us    |          update_clock();
 5586.207720 |   0)   # 28113.400 us |          put_on_queue();
 5586.235834 |   0) # 28115.900 us |        }
 5586.235835 |   0) # 28117.210 us |      }
 5586.235836 |   0)   0.410 us    |      check_preempt();
 5586.235837 |   0) # 28134.000 us |    }
 5586.235838 |   0)   <========== |
 5586.235840 |   0) # 28140.000 us |  }
";

#[test]
fn a_long_call_is_found_without_markers_and_interrupt_marks_are_no_damage() {
    let p = profile(LONG);
    assert_eq!((p.origin, p.count, p.partial), (Origin::FunctionGraph, 9, 0));
    let long = &p.longest[0];
    let chain: Vec<&str> = long.chain.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(
        chain,
        ["schedule_hrtimer", "handle_timer", "activate_task", "enqueue_task", "put_on_queue"]
    );
    assert_eq!(long.chain[2].length_ns, 28_117_210);
    assert_eq!((long.self_ns, p.functions[0].name.as_str()), (28_113_400, "put_on_queue"));
    let of = function(&p, "activate_task");
    assert_eq!((of.total_ns, of.self_ns), (Some(28_117_210), Some(1_310)));
    assert_eq!(of.callers[0].name, "handle_timer");
    let part = part("profile", "", p, None);
    assert_eq!(part.findings[0].id, "profile.long-call");
    assert_eq!(part.findings[0].values["inside"], "put_on_queue".into());
}

/// So many calls of `completions()`, each so long, in a loop of one millisecond.
fn calls(count: u64, ns: u64) -> String {
    let mut text = "# tracer: function_graph\n".to_owned();
    for n in 0..count {
        let at = 1_000_000 + n * 1_000_000 / count;
        let time = format!("{}.{:06}", at / 1_000_000, at % 1_000_000);
        let us = format!("{}.{:03}", ns / 1_000, ns % 1_000);
        text += &format!(" {time} |   1)   {us} us    |  completions();\n");
    }
    text + " 2.000000 |   1)   0.100 us    |  end();\n"
}

#[test]
fn many_calls_and_long_calls_are_told_apart() {
    let part_of = |a: &str, b: Option<&str>| part("profile", "", profile(a), b.map(profile));
    let many = part_of(&calls(400, 2_500), None);
    assert_eq!(many.findings[0].id, "profile.many-calls");
    assert_eq!(many.findings.len(), 1);
    let more = part_of(&calls(400, 2_500), Some(&calls(4_000, 2_500)));
    assert_eq!(more.findings[0].id, "profile.more-calls");
    let longer = part_of(&calls(400, 2_500), Some(&calls(400, 50_000)));
    assert_eq!(longer.findings[0].id, "profile.longer-calls");
    let same = part_of(&calls(400, 2_500), Some(&calls(400, 2_500)));
    assert!(same.findings.is_empty());
    // One call in four hundred.
    let mut text = calls(400, 2_500);
    text += " 2.000010 |   1)   900.000 us  |  completions();\n";
    let one = part_of(&text, None);
    assert_eq!(one.findings[0].id, "profile.long-call");
}

#[test]
fn time_off_the_cpu_is_no_time_of_a_call() {
    let text = "\
# tracer: function_graph
 1.000000 |   0)   loop-7    |               |  do_sleep() {
 1.000002 |   0)   loop-7    |   1.000 us    |    prepare();
 1.000010 |   0)   other-8   |   4.000 us    |  work();
 1.000900 |   0)   loop-7    |   2.000 us    |    finish();
 1.001000 |   0)   loop-7    | ! 1000.000 us |  }
";
    let p = profile(text);
    let f = function(&p, "do_sleep");
    assert_eq!(f.off_cpu_ns, Some(890_000));
    assert_eq!((f.total_ns, f.self_ns), (Some(110_000), Some(107_000)));
    assert_eq!(p.longest[0].task, "loop");
}

#[test]
fn without_other_tasks_the_own_time_of_schedule_is_time_off_the_cpu() {
    let text = "\
# tracer: function_graph
 1.000000 |   0)   loop-7    |               |  do_sleep() {
 1.000010 |   0)   loop-7    |               |    schedule() {
 1.000900 |   0)   loop-7    |   2.000 us    |      finish();
 1.000902 |   0)   loop-7    | ! 892.000 us  |    }
 1.001000 |   0)   loop-7    | ! 1000.000 us |  }
";
    let p = profile(text);
    assert_eq!(function(&p, "schedule").off_cpu_ns, Some(890_000));
    let f = function(&p, "do_sleep");
    assert_eq!((f.total_ns, f.self_ns), (Some(110_000), Some(108_000)));
}

#[test]
fn recursion_counts_once_in_total_and_lost_ends_are_partial() {
    let text = "\
# tracer: function_graph
 1.000000 |   0)               |  walk() {
 1.000001 |   0)               |    walk() {
 1.000002 |   0)   1.000 us    |      leaf();
 1.000004 |   0)   3.000 us    |    }
 1.000010 |   0) + 10.000 us   |  }
 1.000020 |   0)               |  unfinished() {
";
    let p = profile(text);
    let walk = function(&p, "walk");
    assert_eq!((walk.count, walk.total_ns, walk.self_ns), (2, Some(10_000), Some(9_000)));
    assert_eq!(p.partial, 1);
}

#[test]
fn calls_without_lengths_are_counted_with_their_callers() {
    let text = "\
# tracer: function
            cat-42      [001] ..... 10.000001: vfs_read <-ksys_read
            cat-42      [001] ..... 10.000002: rw_verify_area <-vfs_read
            cat-42      [001] ..... 10.000003: vfs_read <-ksys_read
";
    let p = profile(text);
    assert_eq!((p.origin, p.count), (Origin::Function, 3));
    let read = function(&p, "vfs_read");
    assert_eq!((read.count, read.callers[0].name.as_str()), (2, "ksys_read"));
    assert!(read.time.is_none());
}

#[test]
fn stacks_of_a_recording_are_samples() {
    let data = include_bytes!("../../../../fixtures/trace/stack6.dat");
    let file = latlab_trace::TraceFile::parse(data).unwrap();
    let (found, _) = analyse(&file, "stack6.dat", &Select::default(), 1);
    let p = found.unwrap();
    assert_eq!(p.origin, Origin::Stacks);
    assert_eq!(p.functions.iter().filter_map(|f| f.innermost).sum::<u64>(), p.count);
    assert!(p.functions.iter().all(|f| f.count <= p.count && f.innermost <= Some(f.count)));
}

#[test]
fn a_call_whose_end_comes_after_an_interrupt_of_the_same_depth_is_whole() {
    use latlab_model::event::{Event, EventKind, Names};
    use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
    let mut names = Names::default();
    let (read, irq) = (names.intern("read"), names.intern("irq"));
    let enter = |function| EventKind::FunctionEntry { function, depth: 0 };
    let exit = |function, called, length| EventKind::FunctionExit {
        function,
        depth: 0,
        called: TraceNs(called),
        length: Nanos(length),
    };
    let mut analyzer = Analyzer::default();
    let events = [
        (100, enter(read)),
        (150, enter(irq)),
        (180, exit(irq, 150, 30)),
        (190, exit(read, 100, 45)),
    ];
    for (time, kind) in events {
        let event = Event { time: TraceNs(time), cpu: CpuId(0), current: Tid(7), kind };
        analyzer.push(&event, &names);
    }
    let p = analyzer.finish("t", &names, &|_| String::new());
    assert_eq!((function(&p, "read").total_ns, p.count, p.partial), (Some(45), 2, 0));
}

/// An event of a damaged trace claims to be deep in a task of its own: places are bounded, and what has none
/// is counted.
#[test]
fn depths_of_a_damaged_trace_take_bounded_memory() {
    use latlab_model::event::{Event, EventKind, Names};
    use latlab_model::units::{CpuId, Nanos, Tid, TraceNs};
    let mut names = Names::default();
    let function = names.intern("f");
    let mut analyzer = Analyzer::default();
    let tasks = 9_000_u32;
    for tid in 1..=tasks {
        let kind =
            EventKind::FunctionExit { function, depth: 511, called: TraceNs(0), length: Nanos(1) };
        let event =
            Event { time: TraceNs(u64::from(tid)), cpu: CpuId(0), current: Tid(tid as i32), kind };
        analyzer.push(&event, &names);
    }
    let profile = analyzer.finish("t", &names, &|_| String::new());
    assert_eq!((profile.count, profile.partial), (0, u64::from(tasks)));
}
