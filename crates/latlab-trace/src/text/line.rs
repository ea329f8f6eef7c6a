//! One line of ftrace's text: who, where, when, and what.
//!
//! ```text
//!           <idle>-0       [001] d..2.  1234.567890: sched_switch: prev_comm=…
//!            bash-99 ( 99) [000] d..2.  1234.567890: …            with thread-group ids
//!       hackbench-10676 [001]   923.633643: sched_switch:  …      trace-cmd report
//! hackbenc-11797   1.....   777.841840: …                         trace-cmd report -l
//!   <idle>-0         1d..2.    5us : _raw_spin_lock <-schedule    latency tracers
//! ```

use crate::events::Common;
use crate::file::MAX_CPUS;

/// Bytes of a line in which its columns before the event's name lie: without an end, each bracket of a long
/// line of brackets would be followed to the end of the line.
const HEAD_MAX: usize = 512;

/// Which of the two kinds of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// The CPU is in brackets.
    Event,
    /// The CPU stands before the latency flags.
    Latency,
}

/// The columns before an event's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'l> {
    pub comm: &'l [u8],
    pub pid: i32,
    pub cpu: u32,
    pub flags: u8,
    pub preempt: u8,
    pub time_ns: u64,
    pub rest: &'l [u8],
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

/// The number of a CPU.
pub(super) fn cpu(text: &[u8]) -> Option<u32> {
    number(text).filter(|cpu| *cpu < MAX_CPUS)
}

/// The part in which the columns before the event's name are searched.
fn head_of(line: &[u8]) -> &[u8] {
    &line[..line.len().min(HEAD_MAX)]
}

impl<'l> Head<'l> {
    pub fn parse(line: &'l [u8], style: Style) -> Option<Self> {
        match style {
            Style::Event => Self::event(line),
            Style::Latency => Self::latency(line),
        }
    }

    /// The last ` [NNN] ` before the time: names of tasks may hold brackets.
    fn event(line: &'l [u8]) -> Option<Self> {
        let head = head_of(line);
        for at in memchr::memchr_iter(b'[', head) {
            let close = memchr::memchr(b']', &head[at..]).map(|n| n + at)?;
            let Some(cpu) = cpu(&head[at + 1..close]) else { continue };
            let Some((comm, pid)) = task(&head[..at]) else { continue };
            let Some((flags, time_ns, rest)) = flags_and_time(&line[close + 1..]) else { continue };
            let (flags, preempt) = parse_flags(flags);
            return Some(Self { comm, pid, cpu, flags, preempt, time_ns, rest });
        }
        None
    }

    /// `comm-pid  CPUflags  time: `.
    fn latency(line: &'l [u8]) -> Option<Self> {
        let line_ = line.trim_ascii_start();
        let colon = head_of(line_).windows(2).position(|w| w == b": ")?;
        let head = &line_[..colon];
        let mut words = head.split(|b| *b == b' ').filter(|w| !w.is_empty()).rev();
        let mut time = words.next()?;
        // `5us :`, and `15us!:` before a long time: the mark of `trace_find_mark()` follows the unit.
        while !time.is_empty() && time.iter().all(is_mark) {
            time = words.next()?;
        }
        let marks = time.iter().rev().take_while(|b| is_mark(b)).count();
        let time_ns = time_ns(&time[..time.len() - marks])?;
        let flags = words.next()?;
        let digits = flags.iter().take_while(|b| b.is_ascii_digit()).count();
        let cpu = cpu(&flags[..digits])?;
        let flags = &flags[digits..];
        if flags.len() < 4 || flags.len() > 7 {
            return None;
        }
        let before = words.next()?;
        let at = head.windows(before.len()).rposition(|w| w == before)? + before.len();
        let (comm, pid) = task(&head[..at])?;
        let (flags, preempt) = parse_flags(flags);
        Some(Self { comm, pid, cpu, flags, preempt, time_ns, rest: &line_[colon + 2..] })
    }
}

/// Of the delay behind a line (`trace_find_mark()`), or the colon behind it.
fn is_mark(byte: &u8) -> bool {
    b"!+#*@$:".contains(byte)
}

/// `   name-123 `, perhaps with `( tgid)` behind and `instance: ` before it.
fn task(text: &[u8]) -> Option<(&[u8], i32)> {
    let mut text = text.trim_ascii_end();
    if text.ends_with(b")")
        && let Some(open) = text.iter().rposition(|b| *b == b'(')
    {
        text = text[..open].trim_ascii_end();
    }
    let dash = text.iter().rposition(|b| *b == b'-')?;
    let pid = number(&text[dash + 1..])?;
    let comm = text[..dash].trim_ascii_start();
    Some((comm, pid))
}

/// ` d..2.  1234.567890: rest`, the flags may be absent.
fn flags_and_time(text: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let head = head_of(text);
    let colon = head
        .windows(2)
        .position(|w| w == b": ")
        .or_else(|| text.ends_with(b":").then(|| text.len() - 1))?;
    let rest = text.get(colon + 2..).unwrap_or_default();
    let mut words = text[..colon].split(|b| *b == b' ').filter(|w| !w.is_empty());
    let first = words.next()?;
    match (words.next(), words.next()) {
        (None, _) => Some((&[], time_ns(first)?, rest)),
        (Some(time), None) if first.len() <= 8 => Some((first, time_ns(time)?, rest)),
        _ => None,
    }
}

/// `1234.567890`, `1234.567890123`, `12345us`, or a bare counter.
pub(super) fn time_ns(text: &[u8]) -> Option<u64> {
    if let Some(us) = text.strip_suffix(b"us") {
        return number::<u64>(us)?.checked_mul(1000);
    }
    let Some(dot) = memchr::memchr(b'.', text) else { return number(text) };
    let fraction = &text[dot + 1..];
    if fraction.is_empty() || fraction.len() > 9 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let seconds: u64 = number(&text[..dot])?;
    let parts = number::<u64>(fraction)? * 10u64.pow(9 - fraction.len() as u32);
    seconds.checked_mul(1_000_000_000)?.checked_add(parts)
}

/// Interrupts, need for a switch, context, preemption, migration.
fn parse_flags(text: &[u8]) -> (u8, u8) {
    let get = |n: usize| text.get(n).copied().unwrap_or(b'.');
    let mut flags = match get(0) {
        b'd' => Common::IRQS_OFF,
        b'D' => Common::IRQS_OFF | Common::BH_OFF,
        b'b' => Common::BH_OFF,
        _ => 0,
    };
    flags |= match get(1) {
        b'N' | b'B' => Common::NEED_RESCHED | Common::PREEMPT_RESCHED,
        b'n' | b'L' | b'l' => Common::NEED_RESCHED,
        b'p' | b'b' => Common::PREEMPT_RESCHED,
        _ => 0,
    };
    flags |= match get(2) {
        b'Z' => Common::NMI | Common::HARDIRQ,
        b'z' => Common::NMI,
        b'H' => Common::HARDIRQ | Common::SOFTIRQ,
        b'h' => Common::HARDIRQ,
        b's' => Common::SOFTIRQ,
        _ => 0,
    };
    let depth = |n: usize| (get(n) as char).to_digit(16).unwrap_or(0) as u8;
    (flags, depth(3) | depth(4) << 4)
}

/// `CPU:1 [LOST 337 EVENTS]`, `CPU:1 [337 EVENTS DROPPED]`, `CPU:1 [EVENTS DROPPED]`. 0: not counted.
pub(super) fn lost(line: &[u8]) -> Option<(u32, u64)> {
    let rest = line.trim_ascii().strip_prefix(b"CPU:")?;
    let open = memchr::memchr(b'[', rest)?;
    let cpu = cpu(&rest[..open])?;
    let inner = rest[open + 1..].strip_suffix(b"]")?;
    if !inner.windows(6).any(|w| w == b"EVENTS") {
        return None;
    }
    let digits = inner.split(|b| !b.is_ascii_digit()).find(|w| !w.is_empty());
    Some((cpu, digits.and_then(number).unwrap_or(0)))
}

/// The event's name and its text: `name: text`, `function <-caller`, or a marker's bare text.
pub(super) fn name_and_text<'l>(rest: &'l [u8], tracer: &str) -> (&'l [u8], &'l [u8]) {
    let rest = rest.trim_ascii();
    let word = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    let behind = &rest[word..];
    if word > 0
        && let Some(text) = behind.strip_prefix(b":")
        && (text.is_empty() || text[0] == b' ')
    {
        return (&rest[..word], text.trim_ascii());
    }
    // What the tracer timerlat itself prints has no name.
    if rest.first() == Some(&b'#') && rest.windows(13).any(|w| w == b"timer_latency") {
        return (b"timerlat", rest);
    }
    let is_call = rest.windows(3).any(|w| w == b" <-") || rest.windows(2).any(|w| w == b"<-");
    if is_call || tracer.starts_with("function") {
        return (b"function", rest);
    }
    (b"print", rest)
}
