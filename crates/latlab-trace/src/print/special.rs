//! EventFormatter that differ from the `print fmt`: what trace-cmd's plug-ins print, and ftrace's own events.

use super::Dialect;
use super::plan::{Counts, Num, Piece, Plan, Text, number_at, state_text};
use super::spec::{Count, Kind, Spec};
use crate::EventFormat;

const STRING: Spec = Spec {
    left: false,
    zero: false,
    plus: false,
    space: false,
    alternate: false,
    width: Count::None,
    precision: Count::None,
    size: 8,
    kind: Kind::Text,
};

/// The text of one kind of event; `None`: field by field.
pub(crate) fn plan(format: &EventFormat, dialect: Dialect, long: u8) -> Option<Plan> {
    if dialect == Dialect::Fields {
        return None;
    }
    let own = ftrace(format).or_else(|| match dialect {
        Dialect::TraceCmd => plugin(format, long),
        _ => None,
    });
    own.or_else(|| Plan::compile(format, format.print_fmt(), long))
}

/// ftrace's own events, whose `print fmt` does not say how they are printed.
fn ftrace(format: &EventFormat) -> Option<Plan> {
    if &*format.system != "ftrace" {
        return None;
    }
    let field = |name: &str| format.field(name);
    let literal = Piece::literal;
    let pieces = match &*format.name {
        "kernel_stack" | "user_stack" => {
            let at = field("caller")?.offset;
            vec![
                literal(b"<stack trace >"),
                Piece::Stack { at, user: &*format.name == "user_stack" },
            ]
        }
        "print" => vec![
            Piece::Symbol { value: number_at(field("ip")?), offset: false },
            literal(b": "),
            Piece::Line(Box::new(field("buf")?.clone())),
        ],
        "bprint" => {
            let value = Text::Bprint {
                format: Box::new(field("fmt")?.clone()),
                args: Box::new(field("buf")?.clone()),
            };
            vec![
                Piece::Symbol { value: number_at(field("ip")?), offset: false },
                literal(b": "),
                Piece::Text { value, spec: STRING, counts: Counts::default() },
            ]
        }
        "bputs" => {
            let value = Text::Address(number_at(field("str")?));
            vec![
                Piece::Symbol { value: number_at(field("ip")?), offset: false },
                literal(b": "),
                Piece::Text { value, spec: STRING, counts: Counts::default() },
            ]
        }
        "raw_data" => vec![
            literal(b"# "),
            Piece::Number {
                value: number_at(field("id")?),
                spec: Spec { kind: Kind::Hex { upper: false }, size: 4, ..STRING },
                counts: Counts::default(),
            },
            literal(b" "),
            Piece::Bytes {
                bytes: super::plan::Bytes::Field(Box::new(field("buf")?.clone())),
                kind: super::spec::Pointer::Hex(" "),
                count: None,
            },
        ],
        _ => return None,
    };
    Some(Plan { pieces })
}

/// What trace-cmd's plug-ins print.
fn plugin(format: &EventFormat, long: u8) -> Option<Plan> {
    let compile = |text: &str| Plan::compile(format, text, long);
    match (&*format.system, &*format.name) {
        // Without the caller, which its indentation shows.
        ("ftrace", "function") => {
            let value = number_at(format.field("ip")?);
            Some(Plan { pieces: vec![Piece::Symbol { value, offset: false }] })
        }
        ("sched", "sched_switch") => sched_switch(format, long),
        ("sched", "sched_wakeup" | "sched_wakeup_new") => {
            if format.field("success").is_some() {
                compile(
                    r#""%s:%d [%d] success=%d CPU:%03d", REC->comm, REC->pid, REC->prio, REC->success, REC->target_cpu"#,
                )
            } else {
                compile(r#""%s:%d [%d] CPU:%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu"#)
            }
        }
        ("timer", "hrtimer_expire_entry") => compile(
            r#""hrtimer=0x%llx now=%llu function=%pZ", REC->hrtimer, REC->now, REC->function"#,
        ),
        ("timer", "hrtimer_start") => compile(
            r#""hrtimer=0x%llx function=%pZ expires=%llu softexpires=%llu", REC->hrtimer, REC->function, REC->expires, REC->softexpires"#,
        ),
        ("syscalls", "sys_enter_futex") => futex(format),
        _ => None,
    }
}

/// `comm:pid [prio] state ==> comm:pid [prio]`.
fn sched_switch(format: &EventFormat, long: u8) -> Option<Plan> {
    let plan = |text: &str| Plan::compile(format, text, long).map(|p| p.pieces);
    let state =
        Piece::Text { value: state_text(format, long)?, spec: STRING, counts: Counts::default() };
    let mut pieces = plan(r#""%s:%d [%d] ", REC->prev_comm, REC->prev_pid, REC->prev_prio"#)?;
    pieces.push(state);
    pieces.extend(plan(r#"" ==> %s:%d [%d]", REC->next_comm, REC->next_pid, REC->next_prio"#)?);
    Some(Plan { pieces })
}

/// Operations of `futex`, with the arguments that each uses.
const FUTEX: [(&str, &str); 14] = [
    ("FUTEX_WAIT", "vt"),
    ("FUTEX_WAKE", "n"),
    ("FUTEX_FD", "n"),
    ("FUTEX_REQUEUE", "n2a"),
    ("FUTEX_CMP_REQUEUE", "n2a3"),
    ("FUTEX_WAKE_OP", "n2a3"),
    ("FUTEX_LOCK_PI", "t"),
    ("FUTEX_UNLOCK_PI", ""),
    ("FUTEX_TRYLOCK_PI", ""),
    ("FUTEX_WAIT_BITSET", "vt3"),
    ("FUTEX_WAKE_BITSET", "n3"),
    ("FUTEX_WAIT_REQUEUE_PI", "vta3"),
    ("FUTEX_CMP_REQUEUE_PI", "n2a3"),
    // Newer than the plug-in, printed like its sibling; trace-cmd falls back to the bare arguments.
    ("FUTEX_LOCK_PI2", "t"),
];

fn futex(format: &EventFormat) -> Option<Plan> {
    let number = |name: &str| match number_at(format.field(name)?) {
        Num::At(at) => Some(at),
        _ => None,
    };
    let names = ["uaddr", "op", "val", "utime", "uaddr2", "val3"];
    let mut args = Vec::with_capacity(6);
    for name in names {
        args.push(number(name)?);
    }
    let fallback = Plan::compile(format, format.print_fmt(), 8)?;
    let args: [_; 6] = args.try_into().ok()?;
    Some(Plan { pieces: vec![Piece::Futex { args, fallback: Box::new(fallback) }] })
}

/// Prints the call; false when the operation is not known.
pub(crate) fn put_futex(args: &[u64; 6], out: &mut Vec<u8>) -> bool {
    use super::number::{decimal, hex};
    const PRIVATE: u64 = 128;
    const REALTIME: u64 = 256;
    let [uaddr, op, val, utime, uaddr2, val3] = *args;
    let op = op & 0xffff_ffff;
    let Some((name, uses)) = FUTEX.get((op & !(PRIVATE | REALTIME)) as usize) else { return false };
    if op & !(PRIVATE | REALTIME) == 13 {
        return false;
    }
    let put_hex = |out: &mut Vec<u8>, name: &str, v: u64, width| {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"0x");
        hex(out, v, width, false);
    };
    out.extend_from_slice(b"op=");
    out.extend_from_slice(name.as_bytes());
    if op & PRIVATE != 0 {
        out.extend_from_slice(b"|FUTEX_PRIVATE_FLAG");
    }
    if op & REALTIME != 0 {
        out.extend_from_slice(b"|FUTEX_CLOCK_REALTIME");
    }
    put_hex(out, " uaddr=", uaddr, 8);
    for what in uses.bytes() {
        match what {
            b'v' => put_hex(out, " val=", val, 8),
            b't' => put_hex(out, " utime=", utime, 8),
            b'a' => put_hex(out, " uaddr2=", uaddr2, 8),
            b'3' => put_hex(out, " val3=", val3, 8),
            b'n' => {
                out.extend_from_slice(b" val=");
                decimal(out, val);
            }
            _ => {
                out.extend_from_slice(b" val2=");
                decimal(out, utime);
            }
        }
    }
    true
}
