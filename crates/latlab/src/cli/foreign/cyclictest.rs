//! Options of cyclictest: of rt-tests 2.x, and the letters that earlier versions had besides.

use super::spelling::Means::{Always, Ignored, IgnoredUnless, Words};
use super::spelling::Takes::{Nothing, OnlyWith, Optional, Value};
use super::spelling::{Spelling, spelling};

const SAMPLES: &str = "--samples FILE writes every wake-up";
const TRACE: &str = "latlab why traces late wake-ups and names their cause";

pub(super) const OPTIONS: &[Spelling] = &[
    spelling("n nanosleep", Nothing, Always),
    spelling("u unbuffered", Nothing, Always),
    spelling("notrace", Nothing, Always),
    spelling("c clock", Value, IgnoredUnless(&["0"], "the clock is CLOCK_MONOTONIC")),
    spelling("r relative", Nothing, Words("--by=nanosleep")),
    spelling("s system", Nothing, Words("--by=nanosleep")),
    spelling("x posix_timers", Nothing, Words("--by=posix-timer")),
    spelling("secaligned", Optional, Ignored("-A aligns the threads to each other")),
    spelling("g of_max", Value, Ignored(SAMPLES)),
    spelling("X dbg_cyclictest", Nothing, Ignored("it is for cyclictest's own development")),
    spelling("json", OnlyWith, Words("--json-file={}")),
    spelling("prio", Value, Words("--priority={}")),
    spelling("rr", Nothing, Words("--policy=rr")),
    spelling("U numa", Nothing, Words("--smp")),
    spelling("y", Value, Words("--policy={}")),
    spelling("e", Value, Words("--latency={}")),
    spelling("Q", Nothing, Words("--priospread")),
    spelling("?", Nothing, Words("--help")),
    spelling("B preemptirqs", Nothing, Ignored(TRACE)),
    spelling("C context", Nothing, Ignored(TRACE)),
    spelling("E event", Nothing, Ignored(TRACE)),
    spelling("f ftrace", Nothing, Ignored(TRACE)),
    spelling("I irqsoff", Nothing, Ignored(TRACE)),
    spelling("P preemptoff", Nothing, Ignored(TRACE)),
    spelling("w wakeup", Nothing, Ignored(TRACE)),
    spelling("W wakeuprt", Nothing, Ignored(TRACE)),
    spelling("O traceopt", Value, Ignored(TRACE)),
    spelling("T tracer", Value, Ignored(TRACE)),
];
