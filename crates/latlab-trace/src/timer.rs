//! A trace as the events that `latlab_core::timer` takes, one at a time.

use crate::events::{Decoder, Typed};
use crate::ring::{Missed, Select};
use crate::{Diagnostics, TraceFile};
use latlab_core::explain::capture::{Names, Symbol};
use latlab_core::sched::Comm;
use latlab_core::timer::TimerTrace;
use latlab_core::timer::event::{Event, What};
use latlab_core::timer::trace::Analyzer;
use latlab_core::units::TraceNs;
use std::ops::ControlFlow;

/// The functions that are the tick, by the kernels' names for them.
const TICKS: [&[u8]; 3] = [b"tick_sched_timer", b"tick_nohz_handler", b"tick_periodic"];

/// Analyses the chosen events; `None` when there was no event of a timer or interrupt among them.
pub fn analyse(
    file: &TraceFile<'_>,
    source: &str,
    select: &Select,
    threads: usize,
) -> (Option<TimerTrace>, Diagnostics) {
    let ticks: Vec<u64> = TICKS.iter().filter_map(|n| file.symbols.address(n)).collect();
    let mut analyzer = Analyzer::new(ticks);
    let mut names = Names::default();
    let decoder = Decoder::new(file);
    let damage = file.scan(select, threads, |event| {
        let common = decoder.common(event);
        let what = what(decoder.decode(event), &mut names);
        let event = Event {
            time: TraceNs(event.time),
            cpu: event.cpu,
            current: common.pid,
            lost: !matches!(event.missed, Missed::No),
            what,
        };
        analyzer.push(&event, &names);
        ControlFlow::Continue(())
    });
    let found = analyzer.relevant() > 0;
    let trace = found.then(|| analyzer.finish(source, &names, |address| name(file, address)));
    (trace, damage)
}

/// A function's name, or its address where the trace has no symbol for it.
fn name(file: &TraceFile<'_>, address: u64) -> String {
    match file.symbols.find(address) {
        Some(s) if s.module.is_empty() => String::from_utf8_lossy(s.name).into_owned(),
        Some(s) => {
            format!("{} [{}]", String::from_utf8_lossy(s.name), String::from_utf8_lossy(s.module))
        }
        None => format!("{address:#x}"),
    }
}

fn intern(names: &mut Names, bytes: &[u8]) -> Symbol {
    match std::str::from_utf8(bytes) {
        Ok(text) => names.intern(text),
        Err(_) => names.intern(&String::from_utf8_lossy(bytes)),
    }
}

fn what(typed: Typed<'_>, names: &mut Names) -> What {
    match typed {
        Typed::TimerStart(t) => What::TimerStart {
            timer: t.timer,
            function: t.function,
            expires: t.expires,
            now: t.now,
        },
        Typed::TimerCancel(t) => What::TimerCancel { timer: t.timer },
        Typed::TimerExpireEntry(t) => {
            What::TimerEntry { timer: t.timer, function: t.function, now: t.now }
        }
        Typed::TimerExpireExit(t) => What::TimerExit { timer: t.timer },
        Typed::HrtimerStart(t) => {
            What::HrtimerStart { timer: t.hrtimer, function: t.function, expires: t.expires }
        }
        Typed::HrtimerCancel(t) => What::HrtimerCancel { timer: t.hrtimer },
        Typed::HrtimerExpireEntry(t) => {
            What::HrtimerEntry { timer: t.hrtimer, function: t.function, now: t.now }
        }
        Typed::HrtimerExpireExit(t) => What::HrtimerExit { timer: t.hrtimer },
        Typed::SoftirqRaise(s) => What::SoftirqRaise { vec: s.vec },
        Typed::SoftirqEntry(s) => What::SoftirqEntry { vec: s.vec },
        Typed::SoftirqExit(s) => What::SoftirqExit { vec: s.vec },
        Typed::IrqHandlerEntry(i) => What::IrqEntry { irq: i.irq, name: intern(names, i.name) },
        Typed::IrqHandlerExit(i) => What::IrqExit { irq: i.irq },
        Typed::VectorEntry(v) => What::VectorEntry { name: names.intern(v.name) },
        Typed::VectorExit(v) => What::VectorExit { name: names.intern(v.name) },
        Typed::TickStop(t) => What::TickStop { stopped: t.success != 0, dependency: t.dependency },
        Typed::SchedSwitch(s) => What::Runs { tid: s.next_pid, name: Comm::new(s.next_comm) },
        _ => What::Other,
    }
}
