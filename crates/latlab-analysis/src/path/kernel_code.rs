//! What the plugins of `latlab vm sections` and `latlab vm bound` must know of a kernel, by its `/proc/kallsyms`.

/// What turns preemption off to schedule. `schedule_preempt_disabled()` does not: it has it off before.
const SCHEDULER: [&str; 10] = [
    "schedule",
    "__schedule",
    "__schedule_loop",
    "schedule_rtlock",
    "schedule_tail",
    "preempt_schedule",
    "preempt_schedule_common",
    "preempt_schedule_irq",
    "preempt_schedule_notrace",
    "schedule_user",
];
/// What calls the handlers of interrupts by their address.
const EVENT: [&str; 3] =
    ["__handle_irq_event_percpu", "handle_percpu_devid_irq", "handle_percpu_devid_fasteoi_ipi"];
/// ARM: what gets the hardware's number of an interrupt as its second argument.
const DOMAIN: [&str; 3] = ["generic_handle_domain_irq", "handle_domain_irq", "__handle_domain_irq"];
/// x86: names of code by way of which calls by an address and returns go (retpolines) begin like this.
const THUNKS: [&str; 3] = ["__x86_", "retbleed_", "srso_"];
/// Where the running task and the count stand in `pcpu_hot` (6.2 to 6.14).
const HOT_COUNT: u64 = 8;

/// A range of addresses: the first, and the first behind it.
pub type Range = (u64, u64);

/// x86-64: addresses of symbols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuVariables {
    /// Of the preemption count, relative to the variables of a CPU.
    pub count: u64,
    /// Of the running task, likewise.
    pub current: u64,
    /// Of the table that has where each CPU's variables begin.
    pub offsets: u64,
}

/// Where a kernel has what the bound's plugin must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCode {
    /// What turns preemption off to schedule.
    pub scheduler: Vec<Range>,
    /// Where `__schedule` begins.
    pub schedule: u64,
    /// `schedule_idle`.
    pub idle: Range,
    /// What calls the handlers of interrupts.
    pub event: Vec<Range>,
    /// Where functions begin whose second argument is an interrupt's number.
    pub domain: Vec<u64>,
    /// By way of which calls go.
    pub thunks: Option<Range>,
}

/// Lines of code and of data: address and name.
fn symbols<'a>(kallsyms: &'a [u8], types: &str) -> Option<Vec<(u64, &'a str)>> {
    let mut all: Vec<(u64, &str)> = std::str::from_utf8(kallsyms)
        .ok()?
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_wanted = types.contains(words.next()?);
            let name = words.next()?;
            let is_module = words.next().is_some();
            (is_wanted && address > 0 && !is_module && !name.starts_with('$'))
                .then_some((address, name))
        })
        .collect();
    all.sort_unstable();
    Some(all)
}

/// The variables of x86-64's CPUs; `None` where they are missing, or no address is shown.
pub fn cpu_variables(kallsyms: &[u8]) -> Option<CpuVariables> {
    let all = symbols(kallsyms, "AaDdRrBbVv")?;
    let at = |wanted: &str| all.iter().find(|s| s.1 == wanted).map(|s| s.0);
    let offsets = at("__per_cpu_offset")?;
    if let (Some(count), Some(current)) = (at("__preempt_count"), at("current_task")) {
        return Some(CpuVariables { count, current, offsets });
    }
    let hot = at("pcpu_hot")?;
    Some(CpuVariables { count: hot + HOT_COUNT, current: hot, offsets })
}

/// The code of the scheduler and of interrupts; `None` where `__schedule`, `schedule` or `schedule_idle` is missing,
/// or no address is shown.
pub fn kernel_code(kallsyms: &[u8]) -> Option<KernelCode> {
    let all = symbols(kallsyms, "tTwW")?;
    let end = |address| all.get(all.partition_point(|s| s.0 <= address)).map(|s| s.0);
    // The compiler's copies (`.isra.0`, `.part.0`) and what it moved away (`.cold`) are of the function.
    let of = |wanted: &str| -> Vec<Range> {
        let named = all.iter().filter(|s| s.1.split('.').next() == Some(wanted));
        named.filter_map(|s| Some((s.0, end(s.0)?))).collect()
    };
    let all_of =
        |names: &[&str]| -> Vec<Range> { names.iter().flat_map(|name| of(name)).collect() };
    let entry = |name: &str| all.iter().find(|s| s.1 == name).map(|s| s.0);
    entry("schedule")?;
    let is_thunk =
        |name: &str| THUNKS.iter().any(|t| name.starts_with(t)) && name.contains("_thunk");
    let thunks: Vec<u64> = all.iter().filter(|s| is_thunk(s.1)).map(|s| s.0).collect();
    let thunks = thunks.first().zip(thunks.last().and_then(|&last| end(last)));
    Some(KernelCode {
        scheduler: all_of(&SCHEDULER),
        schedule: entry("__schedule")?,
        idle: *of("schedule_idle").first()?,
        event: all_of(&EVENT),
        domain: DOMAIN.iter().filter_map(|name| entry(name)).collect(),
        thunks: thunks.map(|(&first, end)| (first, end)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARM: &[u8] = b"c0000100 t lock\nc0000200 T __schedule\nc0000280 t __schedule.cold\nc0000300 T schedule\n\
        c0000400 T schedule_idle\nc0000500 T preempt_schedule_irq\nc0000600 T generic_handle_domain_irq\n\
        c0000700 T __handle_irq_event_percpu\nc0000800 t end\nbf000000 t hook\t[module]\n";
    const X86: &[u8] = b"000000000001fb30 A __preempt_count\n000000000001fbc0 A current_task\n\
        ffffffff82610000 R __per_cpu_offset\nffffffff81c00000 T __schedule\nffffffff81c00800 T schedule\n\
        ffffffff81c00900 T schedule_idle\nffffffff81e01000 T __x86_indirect_thunk_array\n\
        ffffffff81e01020 T __x86_indirect_thunk_rcx\nffffffff81e01200 T __x86_return_thunk\nffffffff81e01280 T end\n";

    #[test]
    fn the_plugin_is_told_where_the_scheduler_is() {
        let code = kernel_code(ARM).unwrap();
        let starts = [0xc000_0300, 0xc000_0200, 0xc000_0280, 0xc000_0500];
        let lengths = [0x100, 0x80, 0x80, 0x100];
        let ranges: Vec<Range> = starts.iter().zip(lengths).map(|(&at, n)| (at, at + n)).collect();
        assert_eq!(code.scheduler, ranges);
        assert_eq!((code.schedule, code.idle), (0xc000_0200, (0xc000_0400, 0xc000_0500)));
        assert_eq!((code.domain, code.thunks), (vec![0xc000_0600], None));
        assert_eq!(code.event, [(0xc000_0700, 0xc000_0800)]);
        assert_eq!(kernel_code(b"c0000100 t lock\n"), None);
        assert_eq!(kernel_code(b"00000000 t schedule\n00000000 t __schedule\n"), None);
    }

    #[test]
    fn variables_of_a_cpu_are_found_by_either_name() {
        let variables = cpu_variables(X86).unwrap();
        let expected =
            CpuVariables { count: 0x1fb30, current: 0x1fbc0, offsets: 0xffff_ffff_8261_0000 };
        assert_eq!(variables, expected);
        assert_eq!(
            kernel_code(X86).unwrap().thunks,
            Some((0xffff_ffff_81e0_1000, 0xffff_ffff_81e0_1280))
        );
        let hot = b"0000000000020c80 A pcpu_hot\nffffffff82610000 D __per_cpu_offset\n";
        let variables = cpu_variables(hot).unwrap();
        assert_eq!((variables.current, variables.count), (0x20c80, 0x20c88));
        assert_eq!(cpu_variables(ARM), None);
    }
}
