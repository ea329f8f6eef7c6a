//! What `/proc/interrupts`, `/proc/softirqs` and `/proc/timer_list` say.

use latlab_model::timer::{Line, Table, Tick};

/// Reads `/proc/interrupts` or `/proc/softirqs`. A line without a count for each CPU (`ERR`) has
/// fewer; what is no line of counters is left out.
pub fn table(text: &str) -> Table {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let cpus: Vec<u32> =
        head.split_whitespace().filter_map(|w| w.strip_prefix("CPU")?.parse().ok()).collect();
    let line = |text: &str| {
        let (name, rest) = text.split_once(':')?;
        let mut counts = Vec::new();
        let mut rest = rest.trim_start();
        while counts.len() < cpus.len() {
            let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let Ok(n) = word.parse::<u64>() else { break };
            counts.push(n);
            rest = after.trim_start();
        }
        let what = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        (!counts.is_empty()).then(|| Line { name: name.trim().to_owned(), what, counts })
    };
    Table { lines: lines.filter_map(line).collect(), cpus }
}

/// Reads `/proc/timer_list`.
pub fn timer_list(text: &str) -> Vec<Tick> {
    let mut ticks: Vec<Tick> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(cpu) = line.strip_prefix("cpu: ").and_then(|c| c.trim().parse().ok()) {
            ticks.push(Tick { cpu, ..Tick::default() });
        } else if line.starts_with("Tick Device:") {
            break;
        } else if let Some(tick) = ticks.last_mut() {
            field(tick, trimmed);
        }
    }
    ticks
}

fn field(tick: &mut Tick, line: &str) {
    if line.starts_with('#') && line.contains(">,") {
        let function = line.split(", ").nth(1).unwrap_or_default();
        if !function.is_empty() && tick.functions.len() < 100 {
            tick.functions.push(function.trim_end_matches(',').to_owned());
        }
        return;
    }
    let Some((name, value)) = line.split_once(':') else { return };
    let Ok(n) = value.trim().trim_end_matches("nsecs").trim().parse::<u64>() else { return };
    match name.trim().trim_start_matches('.') {
        // 0 inactive, 1 low resolution, 2 high resolution (until Linux 6.9); then flags.
        "nohz_mode" | "nohz" => tick.nohz = Some(n > 0),
        "hres_active" | "highres" => tick.highres = Some(n > 0),
        "tick_stopped" => tick.stopped = Some(n > 0),
        "idle_sleeps" => tick.idle_sleeps = Some(n),
        "jiffies" => tick.jiffies = Some(n),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "           CPU0       CPU1       \n  0:         20          0   IO-APIC   2-edge      timer\n  1:          0          9   IO-APIC   1-edge      i8042\nLOC:      12345      23456   Local timer interrupts\nERR:          3\n";
    const ARM: &str = "           CPU0       \n 18:      52613     GICv2  27 Level     arch_timer\n 23:          5     GICv2  33 Level     uart-pl011\nIPI0:         0  CPU wakeup interrupts\nIPI1:         0  Timer broadcast interrupts\nErr:          0\n";

    #[test]
    fn tables_of_both_architectures_are_read() {
        let x86 = table(X86);
        assert_eq!(x86.cpus, [0, 1]);
        assert_eq!(x86.lines[2].counts, [12345, 23456]);
        assert_eq!(x86.lines[1].what, "IO-APIC 1-edge i8042");
        assert_eq!(x86.lines[3].counts, [3]);
        let timers: Vec<&str> =
            x86.lines.iter().filter(|l| l.is_timer()).map(|l| l.name.as_str()).collect();
        assert_eq!(timers, ["0", "LOC"]);
        let arm = table(ARM);
        let timers: Vec<String> =
            arm.lines.iter().filter(|l| l.is_timer()).map(Line::label).collect();
        assert_eq!(timers, ["18 GICv2 27 Level arch_timer"]);
        assert_eq!(table(""), Table::default());
        assert_eq!(table("no table at all\nx: y z\n").lines, []);
    }

    #[test]
    fn both_forms_of_the_timer_list_are_read() {
        let old = "Timer List Version: v0.9\nHRTIMER_MAX_CLOCK_BASES: 8\nnow at 5 nsecs\n\ncpu: 0\n clock 0:\n  .offset:     0 nsecs\nactive timers:\n #0: <0000>, tick_sched_timer, S:01\n # expires at 5-5 nsecs [in 1 to 1 nsecs]\n  .hres_active    : 1\n  .nohz_mode      : 2\n  .tick_stopped   : 0\n  .idle_sleeps    : 17\njiffies: 4294937296\ncpu: 1\n  .nohz_mode      : 0\n\nTick Device: mode:     1\n  .nohz_mode : 2\n";
        let ticks = timer_list(old);
        assert_eq!(ticks.len(), 2);
        assert_eq!(
            (ticks[0].nohz, ticks[0].stopped, ticks[0].idle_sleeps),
            (Some(true), Some(false), Some(17))
        );
        assert_eq!(ticks[0].jiffies, Some(4_294_937_296));
        assert_eq!(ticks[0].functions, ["tick_sched_timer"]);
        assert_eq!((ticks[1].nohz, ticks[1].stopped), (Some(false), None));
        let new = timer_list(
            "cpu: 0\n  .nohz           : 1\n  .highres        : 1\n  .tick_stopped   : 1\n",
        );
        assert_eq!(
            (new[0].nohz, new[0].highres, new[0].stopped),
            (Some(true), Some(true), Some(true))
        );
        assert!(timer_list("").is_empty());
    }
}
