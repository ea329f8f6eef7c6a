//! What an event's text says, as names and values.

use std::collections::HashMap;

/// `name=value` pairs (also `name: value,` of system calls), and the shapes that a few events have instead.
pub(super) fn pairs<'t>(event: &str, text: &'t [u8]) -> HashMap<&'t str, &'t [u8]> {
    let mut map = HashMap::new();
    match event {
        "print" => {
            // `function: text`, as trace-cmd prints it, or the bare text.
            let buf = text.strip_prefix(b"tracing_mark_write: ").unwrap_or(text);
            map.insert("buf", buf);
            map.insert("ip", &b"tracing_mark_write"[..]);
            return map;
        }
        "function" => {
            let arrow = text.windows(2).position(|w| w == b"<-");
            let (callee, caller) = match arrow {
                Some(n) => (&text[..n], text[n + 2..].trim_ascii_start()),
                None => (text, &b""[..]),
            };
            map.insert("ip", callee.trim_ascii());
            map.insert("parent_ip", caller.strip_prefix(b"--").unwrap_or(caller).trim_ascii());
            return map;
        }
        "sched_switch" if !contains(text, b"prev_pid=") => return switched(text),
        "sched_wakeup" | "sched_wakeup_new" if !contains(text, b"pid=") => return woken(text),
        "sys_enter" | "sys_exit" => {
            // `NR 1 (…)` and `NR 1 = 0`.
            let rest = text.strip_prefix(b"NR ").unwrap_or(text);
            map.insert("id", word(rest));
            if let Some(at) = rest.windows(3).position(|w| w == b" = ") {
                map.insert("ret", rest[at + 3..].trim_ascii());
            }
            return map;
        }
        "timerlat" => {
            // `#12 context    irq timer_latency 932 ns`.
            let words: Vec<&[u8]> = words(text).collect();
            for pair in words.windows(2) {
                match pair[0] {
                    b"timer_latency" => drop(map.insert("timer_latency", pair[1])),
                    b"context" => drop(map.insert("context", context(pair[1]))),
                    _ => {}
                }
            }
            if let Some(n) = words.first().and_then(|w| w.strip_prefix(b"#")) {
                map.insert("seqnum", n);
            }
            return map;
        }
        n if n.ends_with("_noise") => return noise(n, text),
        _ => {}
    }
    by_equals(text, &mut map);
    if map.is_empty() {
        by_colons(text, &mut map);
    }
    map
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|w| w == what)
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b' ').filter(|w| !w.is_empty())
}

fn word(text: &[u8]) -> &[u8] {
    words(text).next().unwrap_or_default()
}

fn context(word: &[u8]) -> &'static [u8] {
    match word {
        b"irq" => b"0",
        b"thread" => b"1",
        _ => b"2",
    }
}

/// A value ends where the next name begins: names of tasks hold blanks.
fn by_equals<'t>(text: &'t [u8], map: &mut HashMap<&'t str, &'t [u8]>) {
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let mut open: Option<(&str, usize)> = None;
    let mut close = |open: Option<(&'t str, usize)>, end: usize| {
        if let Some((name, start)) = open {
            let value = text[start..end.max(start)].trim_ascii();
            let value = value.strip_suffix(b"==>").unwrap_or(value).trim_ascii_end();
            map.entry(name).or_insert(value.strip_suffix(b",").unwrap_or(value));
        }
    };
    for at in memchr::memchr_iter(b'=', text) {
        let start = text[..at].iter().rposition(|b| !is_name(b)).map_or(0, |n| n + 1);
        let begins = start == 0 || matches!(text[start - 1], b' ' | b'[' | b'(');
        let after_value = open.is_none_or(|(_, from)| start > from);
        if start < at && begins && after_value && !text[start].is_ascii_digit() {
            close(open, start.saturating_sub(1));
            open = std::str::from_utf8(&text[start..at]).ok().map(|n| (n, at + 1));
        }
    }
    close(open, text.len());
}

/// `fd: 0x3, buf: 0x7ffc`, and the bare result of a system call.
fn by_colons<'t>(text: &'t [u8], map: &mut HashMap<&'t str, &'t [u8]>) {
    if number(text.trim_ascii()).is_some() {
        map.insert("ret", text.trim_ascii());
        return;
    }
    for part in text.split(|b| *b == b',') {
        let Some(colon) = part.windows(2).position(|w| w == b": ") else { continue };
        if let Ok(name) = std::str::from_utf8(part[..colon].trim_ascii())
            && !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            map.insert(name, part[colon + 2..].trim_ascii());
        }
    }
}

/// `comm:pid [prio]`: comm, pid, prio.
fn task(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let text = text.trim_ascii();
    let open = text.iter().rposition(|b| *b == b'[')?;
    let close = memchr::memchr(b']', &text[open..])? + open;
    let who = text[..open].trim_ascii_end();
    let colon = who.iter().rposition(|b| *b == b':')?;
    Some((&who[..colon], &who[colon + 1..], &text[open + 1..close]))
}

/// trace-cmd's `comm:pid [prio] state ==> comm:pid [prio]`.
fn switched(text: &[u8]) -> HashMap<&str, &[u8]> {
    let mut map = HashMap::new();
    let Some(arrow) = text.windows(5).position(|w| w == b" ==> ") else { return map };
    let (before, after) = (&text[..arrow], &text[arrow + 5..]);
    if let (Some(prev), Some(next)) = (task(before), task(after)) {
        let state = before.iter().rposition(|b| *b == b' ').map_or(&[][..], |n| &before[n + 1..]);
        map.extend([("prev_comm", prev.0), ("prev_pid", prev.1), ("prev_prio", prev.2)]);
        map.extend([("next_comm", next.0), ("next_pid", next.1), ("next_prio", next.2)]);
        map.insert("prev_state", state);
    }
    map
}

/// trace-cmd's `comm:pid [prio] CPU:001`.
fn woken(text: &[u8]) -> HashMap<&str, &[u8]> {
    let mut map = HashMap::new();
    if let Some(at) = text.windows(5).rposition(|w| w == b" CPU:")
        && let Some((comm, pid, prio)) = task(&text[..at])
    {
        map.extend([("comm", comm), ("pid", pid), ("prio", prio)]);
        map.insert("target_cpu", word(&text[at + 5..]));
    }
    map
}

/// `name:number start 12.345 duration 678 ns`.
fn noise<'t>(event: &str, text: &'t [u8]) -> HashMap<&'t str, &'t [u8]> {
    let mut map = HashMap::new();
    let start = text.windows(7).position(|w| w == b" start " || w == b"start  ");
    let who = &text[..start.unwrap_or(0)];
    if let Some(colon) = who.iter().rposition(|b| *b == b':') {
        let (name, number) = (who[..colon].trim_ascii(), word(&who[colon + 1..]));
        if event == "thread_noise" {
            map.extend([("comm", name), ("pid", number)]);
        } else {
            map.extend([("desc", name), ("vector", number)]);
        }
    }
    let words: Vec<&[u8]> = words(text).collect();
    for pair in words.windows(2) {
        match pair[0] {
            b"start" => drop(map.insert("start", pair[1])),
            b"duration" => drop(map.insert("duration", pair[1])),
            _ => {}
        }
    }
    map
}

/// A number in decimal, in hexadecimal with `0x`, or in seconds with nine decimals (to ns).
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    if let Ok(v) = text.parse::<u64>() {
        return Some(v);
    }
    if let Ok(v) = text.parse::<i64>() {
        return Some(v as u64);
    }
    let (_, fraction) = text.split_once('.')?;
    (fraction.len() == 9).then(|| super::line::time_ns(text.as_bytes())).flatten()
}

/// The subsystem of an event that is known by a pattern only.
pub(super) fn system_of(event: &str) -> &'static str {
    const SYSTEMS: [(&str, &str); 9] = [
        ("sys_enter_", "syscalls"),
        ("sys_exit_", "syscalls"),
        ("sched_", "sched"),
        ("workqueue_", "workqueue"),
        ("timer_", "timer"),
        ("hrtimer_", "timer"),
        ("irq_handler_", "irq"),
        ("tick_", "timer"),
        ("ipi_", "ipi"),
    ];
    const VECTORS: [&str; 6] = [
        "local_timer_",
        "reschedule_",
        "call_function_",
        "irq_work_",
        "thermal_apic_",
        "x86_platform_ipi_",
    ];
    if VECTORS.iter().any(|v| event.starts_with(v)) {
        return "irq_vectors";
    }
    SYSTEMS.iter().find(|(prefix, _)| event.starts_with(prefix)).map_or("text", |(_, s)| s)
}
