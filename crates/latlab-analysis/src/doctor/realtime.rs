//! Permissions, CPU time, preemption and isolation of real-time tasks.

use super::build::{inconclusive, info, ok, problem, warning};
use latlab_model::doctor::{Facts, Trial};
use latlab_model::finding::{Evidence, Finding, Note, Quantity, Value};
use latlab_model::machine::Machine;

/// What latlab itself locks when it measures with little history, with room to spare.
const MEMLOCK_ENOUGH: u64 = 64 << 20;
/// Tasks that are named; the rest are counted.
const NAMED: usize = 5;
/// A throttling limit from this share of the period on leaves periodic tasks alone.
const THROTTLING_HIGH: f64 = 0.9;

pub fn judge(m: &Machine, f: &Facts, out: &mut Vec<Finding>) {
    out.extend([permission(m, f), memory_lock(m), preemption(m)]);
    out.extend([throttling(m), isolation(m), other_tasks(f)]);
    out.extend((m.cpu.count == 1).then(|| info("cpu.count")));
    out.extend(f.co_kernel.as_ref().map(|name| co_kernel(name)));
}

fn permission(m: &Machine, f: &Facts) -> Finding {
    let id = "rt.permission";
    let highest = i32::try_from(m.rt.priority_max.max(1)).unwrap_or(i32::MAX);
    let allowed = || ok(id).value("priority_max", Quantity::Priority(highest));
    match &f.fifo {
        Trial::Worked => allowed(),
        Trial::Refused(reason) => {
            let finding = problem(id)
                .value("refused", true)
                .with(Evidence::new("sched_setattr(SCHED_FIFO, 1)", reason));
            match f.cgroup_rt_runtime_us {
                Some(0) => finding
                    .value("cgroup_rt_runtime", Quantity::Ns(0.0))
                    .remedy(Note::new("remedy.cgroup-rt-runtime")),
                _ => finding
                    .remedy(Note::new("remedy.root"))
                    .remedy(Note::new("remedy.rt-capabilities"))
                    .remedy(Note::new("remedy.rtprio-limit")),
            }
        }
        Trial::NotTried if m.rt.priority_max > 0 => allowed(),
        Trial::NotTried => inconclusive(id),
    }
}

fn memory_lock(m: &Machine) -> Finding {
    let id = "rt.memory-lock";
    let Some(limit) = m.rt.memlock_bytes else { return ok(id) };
    let finding = match limit {
        MEMLOCK_ENOUGH.. => ok(id),
        _ => warning(id).value("small", true).remedy(Note::new("remedy.memlock-limit")),
    };
    finding.value("limit", Quantity::Bytes(limit))
}

fn preemption(m: &Machine) -> Finding {
    let id = "rt.preemption";
    let Some(model) = m.kernel.preemption.as_deref() else {
        return inconclusive(id).remedy(Note::new("remedy.preemption-model-file"));
    };
    let finding = match model {
        "rt" => ok(id),
        "full" => info(id).remedy(Note::new("remedy.preempt-rt")),
        "none" | "voluntary" | "lazy" => {
            let dynamic = m.kernel.version.contains("PREEMPT_DYNAMIC");
            let finding = problem(id);
            let finding = match dynamic {
                true => finding.remedy(Note::new("remedy.preempt-full")),
                false => finding,
            };
            finding.remedy(Note::new("remedy.preempt-rt"))
        }
        _ => info(id),
    };
    finding.value("model", model)
}

fn throttling(m: &Machine) -> Finding {
    let id = "rt.throttling";
    let period = m.rt.period_us.unwrap_or(1_000_000).max(1);
    let sysctl =
        |us: i64| Note::new("remedy.rt-runtime").value("runtime_us", Quantity::Integer(us));
    match m.rt.runtime_us {
        None => inconclusive(id),
        Some(..0) => info(id).value("enabled", false).remedy(sysctl(950_000)),
        Some(us) => {
            let share = us as f64 / period as f64;
            let finding = match share >= THROTTLING_HIGH {
                true => info(id),
                false => warning(id).remedy(sysctl(-1)),
            };
            finding
                .value("enabled", true)
                .value("runtime", Quantity::Ns(us as f64 * 1e3))
                .value("period", Quantity::Ns(period as f64 * 1e3))
        }
    }
}

fn isolation(m: &Machine) -> Finding {
    let id = "rt.isolation";
    match (m.rt.isolated.as_str(), m.cpu.count) {
        ("", ..=1) => info(id).value("single_cpu", true),
        ("", _) => info(id).remedy(Note::new("remedy.isolation-boot-parameters")),
        (list, _) => {
            let tickless = Some(&m.rt.nohz_full).filter(|l| !l.is_empty());
            ok(id).value("isolated", list).value_if("nohz_full", tickless)
        }
    }
}

/// A real-time core beside Linux has tasks that latlab does not measure.
fn co_kernel(name: &str) -> Finding {
    info("rt.co-kernel").value("name", name).remedy(Note::new("remedy.co-kernel-tools"))
}

fn other_tasks(f: &Facts) -> Finding {
    let id = "rt.other-tasks";
    let Some(tasks) = &f.rt_tasks else { return inconclusive(id) };
    let count = Quantity::Count(tasks.len() as u64);
    if tasks.is_empty() {
        return ok(id).value("tasks", count);
    }
    let mut finding = warning(id).value("tasks", count);
    for t in tasks.iter().take(NAMED) {
        let priority = i32::try_from(t.priority).unwrap_or(i32::MAX);
        let value: Vec<Value> = vec![(&t.policy).into(), Quantity::Priority(priority).into()];
        let stat = ["/proc/", &t.tid.to_string(), "/stat"].concat();
        finding = finding.with(Evidence::new(&t.name, value).from(stat));
    }
    finding.remedy(Note::new("remedy.separate-rt-tasks"))
}
