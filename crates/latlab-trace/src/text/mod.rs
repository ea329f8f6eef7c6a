//! ftrace's own text as a trace: what people mail each other.
//!
//! `trace`, `trace_pipe`, what `trace-cmd report` printed, and the output of
//! the tracers `function` and `function_graph`. Every line becomes an event of
//! the same model as a recording's: a format with fields, records on
//! ring-buffer pages. `name=value` pairs become fields; ftrace's own events get
//! their usual fields; the words of a line are kept in the field `text`.
//!
//! Lines that cannot be understood are counted and reported, not fatal.

mod build;
mod graph;
mod line;
mod longest;
mod pairs;

pub use build::TraceBuilder;
pub use longest::LongestLatency;

use crate::file::DEFAULT_MEMORY;
use crate::{TraceError, TraceFile};
use line::{Head, Style};
use std::collections::BTreeMap;

/// More bytes of text than this are not looked at to tell what it is.
const PROBE: usize = 1 << 16;
/// Lines that say what is wrong; the rest is counted.
const COMPLAINTS: u64 = 20;

/// Reads text.
///
/// # Errors
/// [`TraceError::NotATrace`] when no line of the beginning is one of ftrace's.
pub fn parse(data: &[u8]) -> Result<TraceFile<'static>, TraceError> {
    parse_within(data, DEFAULT_MEMORY)
}

/// As [`parse`], with at most about `memory` bytes for the trace. What does not fit is left out, and reported.
///
/// # Errors
/// As [`parse`].
pub fn parse_within(data: &[u8], memory: u64) -> Result<TraceFile<'static>, TraceError> {
    if data.is_empty() {
        return Err(TraceError::Empty);
    }
    let probe = &data[..data.len().min(PROBE)];
    if memchr::memchr(0, probe).is_some() || !lines(probe).any(is_ftrace) {
        return Err(TraceError::NotATrace);
    }
    let mut reader = Reader::default();
    let mut offset = 0u64;
    for line in lines(data) {
        if reader.builder.is_full(memory) {
            let what = format!(
                "the events before this line take what the memory limit of {} MiB allows; the rest is left out",
                memory >> 20
            );
            reader.builder.damage(offset, what);
            break;
        }
        reader.line(line, offset);
        offset += line.len() as u64 + 1;
    }
    Ok(reader.finish(memory))
}

fn lines(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|b| *b == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l))
}

fn is_ftrace(line: &[u8]) -> bool {
    line.starts_with(b"# tracer:")
        || Head::parse(line, Style::Event).is_some()
        || Head::parse(line, Style::Latency).is_some()
        || graph::Line::parse(line).is_some_and(|g| g.is_call())
}

#[derive(Default)]
struct Reader {
    builder: TraceBuilder,
    /// `# tracer: NAME`.
    tracer: String,
    understood: u64,
    strange: u64,
    /// Events lost, by CPU, before its next event.
    lost: BTreeMap<u32, u64>,
    graph: graph::Stacks,
    longest: Option<LongestLatency>,
}

impl Reader {
    fn line(&mut self, line: &[u8], offset: u64) {
        if line.trim_ascii().is_empty() || line.starts_with(b"cpus=") {
            return;
        }
        if let Some(comment) = line.strip_prefix(b"#") {
            let comment = comment.trim_ascii();
            match comment.strip_prefix(b"tracer:") {
                Some(tracer) => {
                    self.tracer = String::from_utf8_lossy(tracer.trim_ascii()).into_owned();
                }
                None => LongestLatency::comment(&mut self.longest, &self.tracer, comment),
            }
            return;
        }
        if let Some((cpu, count)) = line::lost(line) {
            let add =
                |n: &mut u64| *n = if *n == 0 || count == 0 { 0 } else { n.saturating_add(count) };
            self.lost.entry(cpu).and_modify(add).or_insert(count);
            return;
        }
        // Lines of a stack trace belong to the event before them.
        let trimmed = line.trim_ascii();
        if trimmed.starts_with(b"=>") || trimmed.starts_with(b"-----") {
            return;
        }
        let head = Head::parse(line, Style::Event).or_else(|| Head::parse(line, Style::Latency));
        if let Some(head) = head {
            self.understood += 1;
            return self.event(&head);
        }
        if let Some(g) = graph::Line::parse(line) {
            self.understood += 1;
            return self.graph.line(&g, &mut self.builder);
        }
        self.strange += 1;
        if self.strange <= COMPLAINTS {
            let start = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
            self.builder.damage(offset, format!("no line of ftrace: {start:?}"));
        }
    }

    fn event(&mut self, head: &Head<'_>) {
        let lost = self.lost.remove(&head.cpu);
        if let Some((name, text)) = longest::scheduler(head) {
            return self.builder.event(head, lost, name, &text);
        }
        let (name, text) = line::name_and_text(head.rest, &self.tracer);
        // Its functions belong to the event before it, as do the lines that follow.
        if text != b"<stack trace>" {
            self.builder.event(head, lost, name, text);
        }
    }

    fn finish(mut self, memory: u64) -> TraceFile<'static> {
        if self.strange > COMPLAINTS {
            let more = self.strange - COMPLAINTS;
            self.builder.damage(0, format!("{more} more lines are none of ftrace's"));
        }
        TraceFile { longest: self.longest, ..self.builder.finish(memory) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Missed;
    use crate::events::{Decoder, Typed};

    const TRACE: &str = "\
# tracer: nop
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
          <idle>-0       [001] d..2.  1234.567890: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=my task next_pid=42 next_prio=98
CPU:1 [LOST 337 EVENTS]
         my task-42      [001] d.h1.  1234.567900: irq_handler_entry: irq=42 name=virtio3-tx
          <idle>-0       [000] d.s3.  1234.567905: softirq_entry: vec=1 [action=TIMER]
            bash-99      [000] .....  1234.567910: tracing_mark_write: hello = world
";

    /// Of each event, what was lost before it.
    fn missed(file: &TraceFile<'_>) -> Vec<Missed> {
        let (mut events, mut missed) = (file.events(), Vec::new());
        while let Some(e) = events.next() {
            missed.push(e.missed);
        }
        missed
    }

    /// After a call of the longest duration there is no later time.
    #[test]
    fn times_at_the_end_of_their_range_are_read() {
        let graph = " 1) 18446744073709551.615 us |  f();\n 1)   |  g() {\n";
        let file = parse(format!("# tracer: function_graph\n{graph}").as_bytes()).unwrap();
        let mut events = file.events();
        let mut last = 0;
        while let Some(e) = events.next() {
            last = e.time;
        }
        assert_eq!(last, u64::MAX);
    }

    #[test]
    fn a_cpu_that_no_machine_has_is_damage() {
        let line = |cpu: u32| format!("  bash-99 [{cpu}] ..... 1.000001: tracing_mark_write: x\n");
        assert_eq!(parse(line(65_535).as_bytes()).unwrap().cpu_count, 65_536);
        for cpu in [65_536, u32::MAX] {
            assert!(matches!(parse(line(cpu).as_bytes()), Err(TraceError::NotATrace)), "{cpu}");
        }
    }

    /// Each of these takes minutes where a line or the lost events are searched again and again.
    #[test]
    fn the_time_that_a_text_takes_grows_with_its_size() {
        let lost = "CPU:1 [LOST 3 EVENTS]\n".repeat(200_000);
        let lost = format!("{TRACE}{lost}{}", TRACE.repeat(49_999));
        let trace = parse(lost.as_bytes()).unwrap();
        assert_eq!(missed(&trace).len(), 200_000);
        for part in ["[", "a-1 [0] ", "a-1 [0] 1.0 ", ": ", "us ", "CPU:1 [", "|", "("] {
            let text = format!("{TRACE}{}]\n{TRACE}", part.repeat(1_000_000));
            assert_eq!(missed(&parse(text.as_bytes()).unwrap()).len(), 8, "{part:?}");
        }
    }

    /// Each of these lines makes a page, a format or a name: more than a hundred times its size.
    #[test]
    fn what_a_text_takes_has_a_limit() {
        let line = |k: u32, name: &str| format!(" a-9 [{k}] ..... 1.000001: {name}: y=1\n");
        let fields: String = (0..16).map(|k| format!(" a{k}=1")).collect();
        let cases: [&dyn Fn(u32) -> String; 4] = [
            &|_| format!("CPU:1 [LOST 1 EVENTS]\n{}", line(1, "x")),
            &|k| line(k, "x"),
            &|k| format!("{}{fields}\n", line(1, &format!("x{k}")).trim_end()),
            &|k| format!(" a-9 [1] ..... 1.000001: f{k} <-g{k}\n"),
        ];
        for case in cases {
            let text: String = (0..20_000).map(case).collect();
            let all = parse(text.as_bytes()).unwrap();
            assert!(all.diagnostics.is_empty(), "{:?}", all.diagnostics);
            let trace = parse_within(text.as_bytes(), 4 << 20).unwrap();
            assert!((100..19_900).contains(&missed(&trace).len()), "{}", missed(&trace).len());
            let [damage] = trace.diagnostics.list() else { panic!("{:?}", trace.diagnostics) };
            assert!(damage.to_string().contains("memory limit of 4 MiB"), "{damage}");
        }
    }

    /// How many are lost is not known when a part of them was not counted.
    #[test]
    fn events_lost_twice_before_an_event_are_added() {
        let line = "  bash-99 [001] ..... 1.000001: tracing_mark_write: x\n";
        for (second, sum) in
            [("LOST 5 EVENTS", Missed::Count(8)), ("EVENTS DROPPED", Missed::Unknown)]
        {
            let text = format!("{line}CPU:1 [LOST 3 EVENTS]\nCPU:1 [{second}]\n{line}{line}");
            let trace = parse(text.as_bytes()).unwrap();
            let missed = missed(&trace);
            assert_eq!(missed, [Missed::No, sum, Missed::No]);
        }
    }

    /// The flags tell who wakes a task: the current one, or the interrupt or softirq that interrupts it.
    #[test]
    fn a_wake_up_by_an_interrupt_is_told_by_its_flags() {
        use crate::decode::{EventDecoder, Groups};
        let line = |flags: &str, us: u32| {
            format!(
                "  bash-99 [000] {flags} 1.{us:06}: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n"
            )
        };
        let flags = ["d....", "d.h..", "d.s..", "d.Z.."];
        let text: String = flags.iter().zip(1..).map(|(f, us)| line(f, us)).collect();
        let file = parse(text.as_bytes()).unwrap();
        let mut decoder = EventDecoder::new(&file, Groups::ALL);
        let (mut events, mut by) = (file.events(), Vec::new());
        while let Some(e) = events.next() {
            by.push(decoder.decode(&e).kind.in_interrupt());
        }
        assert_eq!(by, [false, true, true, true]);
    }

    #[test]
    fn the_kernels_text_becomes_typed_events() {
        let file = parse(TRACE.as_bytes()).unwrap();
        assert!(file.diagnostics.is_empty(), "{:?}", file.diagnostics);
        let decoder = Decoder::new(&file);
        let mut events = file.events();
        let e = events.next().unwrap();
        assert_eq!((e.time, e.cpu), (1_234_567_890_000, 1));
        assert_eq!(decoder.common(&e).preempt_count, 2);
        let Typed::SchedSwitch(s) = decoder.decode(&e) else { panic!() };
        assert_eq!((s.next_comm, s.next_pid, s.next_prio), (&b"my task"[..], 42, 98));
        assert_eq!(s.prev_state, 0);
        let e = events.next().unwrap();
        assert_eq!(e.missed, crate::Missed::Count(337));
        assert_eq!(decoder.common(&e).pid, 42);
        assert!(decoder.common(&e).flags & crate::events::Common::HARDIRQ != 0);
        let Typed::IrqHandlerEntry(i) = decoder.decode(&e) else { panic!() };
        assert_eq!((i.irq, i.name), (42, &b"virtio3-tx"[..]));
        let e = events.next().unwrap();
        let Typed::SoftirqEntry(s) = decoder.decode(&e) else { panic!() };
        assert_eq!(s.vec, 1);
        let e = events.next().unwrap();
        let Typed::Print(p) = decoder.decode(&e) else { panic!() };
        assert_eq!(p.buf, b"hello = world");
        assert!(events.next().is_none());
        assert_eq!(file.comms.name(42), b"my task");
    }

    #[test]
    fn what_trace_cmd_printed_is_read_back() {
        let text = "cpus=2\n       hackbench-10676 [001]   923.633643: sched_switch:         trace-cmd:10676 [120] R ==> migration/1:21 [0]\n     migration/1-21    [001]   923.633649: sched_wakeup:         my:task:10677 [120] CPU:001\n";
        let file = parse(text.as_bytes()).unwrap();
        let decoder = Decoder::new(&file);
        let mut events = file.events();
        let e = events.next().unwrap();
        let Typed::SchedSwitch(s) = decoder.decode(&e) else { panic!() };
        assert_eq!((s.prev_comm, s.prev_pid, s.prev_prio), (&b"trace-cmd"[..], 10676, 120));
        assert_eq!((s.next_comm, s.next_pid, s.next_prio), (&b"migration/1"[..], 21, 0));
        let e = events.next().unwrap();
        let Typed::SchedWakeup(w) = decoder.decode(&e) else { panic!() };
        assert_eq!((w.comm, w.pid, w.target_cpu), (&b"my:task"[..], 10677, 1));
    }

    #[test]
    fn function_graph_and_function() {
        let text = "\
# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
 0)               |  sys_write() {
 0)   0.500 us    |    fget();
 0) + 12.250 us   |  }
 ------------------------------------------
 0)   bash-99      =>    cat-100
 ------------------------------------------

 0) ! 123.000 us  |  schedule();
";
        let file = parse(text.as_bytes()).unwrap();
        let decoder = Decoder::new(&file);
        let mut events = file.events();
        let mut exits = Vec::new();
        while let Some(e) = events.next() {
            if let Typed::FuncgraphExit(x) = decoder.decode(&e) {
                let name = file.symbols.find(x.func).unwrap().name.to_vec();
                exits.push((String::from_utf8(name).unwrap(), x.rettime - x.calltime, x.depth));
            }
        }
        assert_eq!(
            exits,
            [
                ("fget".into(), 500, 1),
                ("sys_write".into(), 12_250, 0),
                ("schedule".into(), 123_000, 0)
            ]
        );

        let text = "# tracer: function\n            bash-99      [000] d..1.   10.000001: _raw_spin_lock <-schedule\n";
        let file = parse(text.as_bytes()).unwrap();
        let decoder = Decoder::new(&file);
        let mut events = file.events();
        let Typed::Function(f) = decoder.decode(&events.next().unwrap()) else { panic!() };
        assert_eq!(file.symbols.find(f.ip).unwrap().name, b"_raw_spin_lock");
        assert_eq!(file.symbols.find(f.parent_ip).unwrap().name, b"schedule");
    }

    #[test]
    fn other_text_is_no_trace() {
        assert!(matches!(parse(b"hello\nworld\n"), Err(TraceError::NotATrace)));
        assert!(matches!(parse(b""), Err(TraceError::Empty)));
        assert!(matches!(parse(&[0; 100]), Err(TraceError::NotATrace)));
    }

    /// Of Linux 6.1 with PREEMPT_RT on armv7, shortened.
    #[test]
    fn a_latency_tracer_has_its_latency_the_scheduler_and_marks_of_long_times() {
        let text = "\
# tracer: wakeup_rt
#
# wakeup_rt latency trace v1.1.5 on 6.1.0-50-rt-armmp
# latency: 1330 us, #67/67, CPU#0 | (M:preempt_rt VP:0, KP:0, SP:0 HP:0 #P:1)
#    | task: ktimers/0-15 (uid:0 nice:0 policy:1 rt_prio:1)
#  => started at: lock_it
#  => ended at:   let_go
  <idle>-0         0dn..5..    4us+:        0:120:R   + [000]      15: 98:R ktimers/0
  <idle>-0         0dn..5..   51us : <stack trace>
 => trace_sched_wakeup.part.0
  <idle>-0         0dn.h2..   59us : task_woken_rt <-ttwu_do_wakeup
  <idle>-0         0d...3..  190us#: psi_flags_change <-psi_task_switch
  <idle>-0         0dn.h2.. 226793us!: gic_eoi_irq <-handle_irq
  <idle>-0         0d...3.. 226794us+:        0:120:R ==> [000]      15: 98:R ktimers/0
";
        let file = parse(text.as_bytes()).unwrap();
        assert!(file.diagnostics.is_empty(), "{:?}", file.diagnostics);
        let longest = LongestLatency {
            tracer: "wakeup_rt".into(),
            ns: 1_330_000,
            task: "ktimers/0".into(),
            tid: 15,
            started_at: "lock_it".into(),
            ended_at: "let_go".into(),
        };
        assert_eq!(file.longest, Some(longest));
        let decoder = Decoder::new(&file);
        let mut events = file.events();
        let mut times = Vec::new();
        while let Some(e) = events.next() {
            times.push(e.time / 1_000);
            match decoder.decode(&e) {
                Typed::SchedWakeup(w) => {
                    assert_eq!((w.comm, w.pid, w.prio), (&b"ktimers/0"[..], 15, 98));
                }
                Typed::SchedSwitch(s) => {
                    assert_eq!((s.prev_comm, s.prev_pid, s.prev_prio), (&b"<idle>"[..], 0, 120));
                    assert_eq!((s.next_comm, s.next_pid), (&b"ktimers/0"[..], 15));
                }
                Typed::Function(f) => assert!(file.symbols.find(f.ip).is_some()),
                _ => panic!("another event at {}", e.time),
            }
        }
        assert_eq!(times, [4, 59, 190, 226_793, 226_794]);
    }

    #[test]
    fn strange_lines_are_reported_with_their_offset() {
        let text = format!("{TRACE}what is this?\n");
        let file = parse(text.as_bytes()).unwrap();
        assert_eq!(file.diagnostics.list()[0].offset, TRACE.len() as u64);
    }

    /// Text from several boots pasted together, and clocks that were set: no page of it is damage.
    #[test]
    fn times_may_jump() {
        let line = |n: u64| {
            let time = if n % 120 < 60 { 1_000_000 + n } else { n };
            format!(
                "   bash-99   [000] .....  {time}.000001: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n"
            )
        };
        let text: String = (0..600).map(line).collect();
        let file = parse(text.as_bytes()).unwrap();
        let mut events = file.events();
        let mut count = 0;
        while events.next().is_some() {
            count += 1;
        }
        assert_eq!(count, 600);
        assert!(events.diagnostics().is_empty());
    }
}
