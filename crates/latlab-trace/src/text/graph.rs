//! The output of the tracer `function_graph`.
//!
//! ```text
//!  0)               |  sys_write() {
//!  0)   0.500 us    |    fget();
//!  0) + 12.250 us   |  }
//!  0)   ==========> |
//!  0)   bash-99      =>    cat-100
//!  1234.567890 |   0)   bash-99   |   0.500 us    |    fget();   with more columns
//! ```
//! Without the option `funcgraph-abstime` there are no times but durations:
//! events get times that keep each CPU's order and every duration.

use super::build::TraceBuilder;
use super::line::{Head, cpu, time_ns};
use std::collections::BTreeMap;

/// What the right column says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call<'l> {
    Enter(&'l [u8]),
    Leaf(&'l [u8]),
    Exit(&'l [u8]),
    Comment(&'l [u8]),
    /// An interrupt begins or ends: its functions are calls like any other.
    Interrupt,
    /// Another task on this CPU.
    Switch {
        comm: &'l [u8],
        pid: i32,
    },
}

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'l> {
    cpu: u32,
    time_ns: Option<u64>,
    duration_ns: u64,
    task: Option<(&'l [u8], i32)>,
    call: Call<'l>,
}

fn task(text: &[u8]) -> Option<(&[u8], i32)> {
    let text = text.trim_ascii();
    let dash = text.iter().rposition(|b| *b == b'-')?;
    let pid = std::str::from_utf8(&text[dash + 1..]).ok()?.trim().parse().ok()?;
    Some((text[..dash].trim_ascii(), pid))
}

/// `0.500 us`, with the marks for long ones before it.
fn duration(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii().strip_suffix(b"us")?.trim_ascii();
    let text = text.trim_ascii_start();
    let start = text.iter().position(u8::is_ascii_digit)?;
    let text = &text[start..];
    let dot = memchr::memchr(b'.', text).unwrap_or(text.len());
    let whole: u64 = std::str::from_utf8(&text[..dot]).ok()?.parse().ok()?;
    let fraction = text.get(dot + 1..).unwrap_or_default();
    let digits: u64 = match fraction.len() {
        0 => 0,
        n if n <= 3 => {
            let value: u64 = std::str::from_utf8(fraction).ok()?.parse().ok()?;
            value * 10u64.pow(3 - n as u32)
        }
        _ => std::str::from_utf8(&fraction[..3]).ok()?.parse().ok()?,
    };
    whole.checked_mul(1000)?.checked_add(digits)
}

fn call(text: &[u8]) -> Option<Call<'_>> {
    let text = text.trim_ascii();
    if text == b"==========>" || text == b"<==========" {
        return Some(Call::Interrupt);
    }
    let name = |t: &'_ [u8]| memchr::memchr(b'(', t).map(|n| n..t.len()).map(|r| r.start);
    if let Some(rest) = text.strip_prefix(b"}") {
        let comment = rest.trim_ascii().strip_prefix(b"/*").and_then(|c| c.strip_suffix(b"*/"));
        return Some(Call::Exit(comment.unwrap_or_default().trim_ascii()));
    }
    if let Some(comment) = text.strip_prefix(b"/*") {
        return Some(Call::Comment(comment.strip_suffix(b"*/").unwrap_or(comment).trim_ascii()));
    }
    // Return values and callers may follow in a comment.
    let code = text.windows(2).position(|w| w == b"/*").map_or(text, |n| text[..n].trim_ascii());
    if let Some(t) = code.strip_suffix(b";") {
        return name(t).map(|n| Call::Leaf(&t[..n]));
    }
    if let Some(t) = code.strip_suffix(b"{") {
        return name(t).map(|n| Call::Enter(&t[..n]));
    }
    None
}

impl<'l> Line<'l> {
    pub fn parse(line: &'l [u8]) -> Option<Self> {
        let close = memchr::memchr(b')', line)?;
        let start = line[..close].iter().rposition(|b| !b.is_ascii_digit()).map_or(0, |n| n + 1);
        let cpu = cpu(&line[start..close])?;
        let before = line[..start].trim_ascii();
        let before = before.strip_suffix(b"|").unwrap_or(before).trim_ascii();
        let time_ns = if before.is_empty() { None } else { Some(time_ns(before)?) };
        let rest = &line[close + 1..];
        if let Some(arrow) = rest.windows(2).position(|w| w == b"=>")
            && let Some((comm, pid)) = task(&rest[arrow + 2..])
        {
            let call = Call::Switch { comm, pid };
            return Some(Self { cpu, time_ns, duration_ns: 0, task: None, call });
        }
        let mut columns = rest.split(|b| *b == b'|');
        let mut last = columns.next_back()?;
        // The mark of an interrupt stands before the last column, which is then empty.
        if last.trim_ascii().is_empty() {
            last = columns.next_back()?;
        }
        let call = call(last)?;
        let (mut duration_ns, mut of) = (0, None);
        for column in columns {
            if let Some(d) = duration(column) {
                duration_ns = d;
            } else if of.is_none() {
                of = task(column);
            }
        }
        Some(Self { cpu, time_ns, duration_ns, task: of, call })
    }

    /// Whether it is a call and nothing that merely looks like one.
    pub fn is_call(&self) -> bool {
        matches!(self.call, Call::Enter(_) | Call::Leaf(_) | Call::Exit(_))
    }
}

/// What is known of one CPU.
#[derive(Debug, Default)]
struct Cpu {
    number: u32,
    now: u64,
    comm: Vec<u8>,
    pid: i32,
    stack: Vec<(u64, u64)>,
}

/// The calls that are open, by CPU.
#[derive(Debug, Default)]
pub(super) struct Stacks(BTreeMap<u32, Cpu>);

/// Deeper calls than any kernel's stack allows are not followed.
const MAX_DEPTH: usize = 512;

impl Stacks {
    pub fn line(&mut self, line: &Line<'_>, builder: &mut TraceBuilder) {
        let cpu = self.0.entry(line.cpu);
        let cpu = cpu.or_insert_with(|| Cpu { number: line.cpu, ..Cpu::default() });
        if let Some((comm, pid)) = line.task {
            (cpu.comm, cpu.pid) = (comm.to_vec(), pid);
        }
        cpu.now = line.time_ns.unwrap_or(cpu.now.saturating_add(1)).max(cpu.now);
        let depth = cpu.stack.len() as u64;
        match line.call {
            Call::Switch { comm, pid } => {
                (cpu.comm, cpu.pid) = (comm.to_vec(), pid);
                cpu.stack.clear();
            }
            Call::Interrupt => {}
            Call::Comment(text) => builder.event(&cpu.head(), None, b"print", text),
            Call::Enter(name) => {
                let func = builder.symbol(name);
                builder.call(&cpu.head(), func, depth);
                if cpu.stack.len() < MAX_DEPTH {
                    cpu.stack.push((func, cpu.now));
                }
            }
            Call::Leaf(name) => {
                let func = builder.symbol(name);
                builder.call(&cpu.head(), func, depth);
                let start = cpu.now;
                cpu.now = cpu.now.saturating_add(line.duration_ns);
                builder.ret(&cpu.head(), func, depth, start, cpu.now);
            }
            Call::Exit(name) => {
                let open = cpu.stack.pop();
                let depth = cpu.stack.len() as u64;
                let func = match open {
                    Some((func, _)) => func,
                    // The beginning was not recorded; a comment may tell whose end it is.
                    None if name.is_empty() => return,
                    None => builder.symbol(name.split(|b| *b == b'(').next().unwrap_or(name)),
                };
                let start = open.map_or(cpu.now.saturating_sub(line.duration_ns), |(_, t)| t);
                let end = start.saturating_add(line.duration_ns);
                cpu.now = cpu.now.max(end);
                builder.ret(&cpu.head(), func, depth, end - line.duration_ns, end);
            }
        }
    }
}

impl Cpu {
    fn head(&self) -> Head<'_> {
        Head {
            comm: &self.comm,
            pid: self.pid,
            cpu: self.number,
            flags: 0,
            preempt: 0,
            time_ns: self.now,
            rest: &[],
        }
    }
}
