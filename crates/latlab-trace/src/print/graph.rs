//! Calls as `trace-cmd report` draws them: a call and its return as one line where nothing was
//! called in between, nested braces otherwise; functions of the `function` tracer indented below
//! their callers.
//!
//! ```text
//! funcgraph_entry:                   |  do_sys_openat2() {
//! funcgraph_entry:        1.208 us   |    getname();
//! funcgraph_exit:       + 12.584 us  |  }
//! ```
//!
//! Source: the kernel's `Documentation/trace/ftrace.rst` for the marks and columns.

use super::notes::Note;
use super::run::Context;
use super::{Dialect, number};
use crate::{Event, Field, TraceFile};

/// The events of `function_graph` in one file.
#[derive(Debug)]
pub(crate) struct Graph<'f> {
    pub entry: u16,
    pub exit: u16,
    pid: &'f Field,
    entry_func: &'f Field,
    entry_depth: &'f Field,
    exit_func: &'f Field,
    exit_depth: &'f Field,
    call: &'f Field,
    ret: &'f Field,
    /// The kernel's marks and widths, where trace-cmd's differ.
    kernel: bool,
}

impl<'f> Graph<'f> {
    /// `None` when the file has no such events, or not as they are known.
    pub fn new(file: &'f TraceFile<'_>, dialect: Dialect) -> Option<Self> {
        let of = |name: &str| file.formats.find(name).filter(|f| &*f.system == "ftrace");
        let (entry, exit) = (of("funcgraph_entry")?, of("funcgraph_exit")?);
        Some(Self {
            entry: entry.id,
            exit: exit.id,
            pid: file.common_pid()?,
            entry_func: entry.field("func")?,
            entry_depth: entry.field("depth")?,
            exit_func: exit.field("func")?,
            exit_depth: exit.field("depth")?,
            call: exit.field("calltime")?,
            ret: exit.field("rettime")?,
            kernel: dialect == Dialect::Kernel,
        })
    }

    /// How long a call took, ns, when the next event of its CPU is its return.
    pub fn leaf(&self, call: &Event<'_>, next_id: u16, next: &[u8]) -> Option<u64> {
        let same = next_id == self.exit
            && self.entry_func.u64(call.payload) == self.exit_func.u64(next)
            && self.pid.i64(call.payload) == self.pid.i64(next);
        same.then(|| self.took(next))
    }

    fn took(&self, exit: &[u8]) -> u64 {
        self.ret.u64(exit).wrapping_sub(self.call.u64(exit))
    }

    /// The mark for a long time, the time, and the indentation.
    fn columns(&self, took_ns: Option<u64>, depth: u64, out: &mut Vec<u8>) {
        match took_ns {
            None => out.extend_from_slice(b"             |  "),
            Some(ns) => {
                out.extend_from_slice(&[mark(ns, self.kernel), b' ']);
                duration(ns, self.kernel, out);
            }
        }
        let blanks = depth.min(MAX_DEPTH) as usize * 2;
        out.resize(out.len() + blanks, b' ');
    }

    /// Appends the text of a call or return; false when it is neither.
    pub fn put(
        &self,
        cx: &Context<'_>,
        event: &Event<'_>,
        note: Option<Note>,
        out: &mut Vec<u8>,
    ) -> bool {
        let p = event.payload;
        if event.id == self.entry {
            let leaf = match note {
                Some(Note::Leaf(ns)) => Some(ns),
                _ => None,
            };
            self.columns(leaf, self.entry_depth.u64(p), out);
            function(cx, self.entry_func.u64(p), out);
            out.extend_from_slice(if leaf.is_some() { b"();" } else { b"() {" });
        } else if event.id == self.exit {
            self.columns(Some(self.took(p)), self.exit_depth.u64(p), out);
            out.push(b'}');
        } else {
            return false;
        }
        true
    }
}

/// Longer indentation is damage, not depth.
const MAX_DEPTH: u64 = 512;

/// How long is long: more than 10 µs, 100 µs, 1 ms; for the kernel also 10 ms, 100 ms, 1 s.
fn mark(ns: u64, kernel: bool) -> u8 {
    const MARKS: [(u64, u8); 6] = [
        (1_000_000_000, b'$'),
        (100_000_000, b'@'),
        (10_000_000, b'*'),
        (1_000_000, b'#'),
        (100_000, b'!'),
        (10_000, b'+'),
    ];
    let known = if kernel { &MARKS[..] } else { &MARKS[3..] };
    known.iter().find(|(more, _)| ns > *more).map_or(b' ', |(_, mark)| *mark)
}

/// Microseconds with up to three decimals. The kernel leaves decimals out to keep seven digits.
fn duration(ns: u64, kernel: bool, out: &mut Vec<u8>) {
    let start = out.len();
    number::decimal(out, ns / 1000);
    let whole = out.len() - start;
    if whole < 7 {
        out.push(b'.');
        number::zero_padded(out, ns % 1000, 3);
        if kernel {
            out.truncate(start + 8.min(whole + 4));
        }
    }
    let used = out.len() - start;
    out.extend_from_slice(b" us ");
    out.resize(out.len() + 7usize.saturating_sub(used), b' ');
    out.extend_from_slice(b"|  ");
}

fn function(cx: &Context<'_>, address: u64, out: &mut Vec<u8>) {
    match cx.symbols.find(address) {
        Some(symbol) => out.extend_from_slice(symbol.name),
        None => number::hex(out, address, 0, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_their_column_as_far_as_they_can() {
        let text = |ns, kernel| {
            let mut out = vec![mark(ns, kernel), b' '];
            duration(ns, kernel, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(417, false), "  0.417 us   |  ");
        assert_eq!(text(12_584, false), "+ 12.584 us  |  ");
        assert_eq!(text(574_512, false), "! 574.512 us |  ");
        assert_eq!(text(11_455_424, false), "# 11455.424 us |  ");
        assert_eq!(text(11_455_424, true), "* 11455.42 us |  ");
        assert_eq!(text(2_000_000_000, true), "$ 2000000 us |  ");
    }
}
