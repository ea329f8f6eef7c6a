//! What a finding says of the reason why an execution took longer.

use latlab_model::finding::{Evidence, Finding, Quantity, Value};
use latlab_model::latency::{Execution, ExecutionDoubt, ExecutionKind, WorkCounts};

/// The reason and the figures of its sentence.
pub(super) fn values(f: Finding, e: &Execution) -> Finding {
    let f = f.value("kind", e.kind.id());
    let f = f.value_if("doubt", e.doubt.map(ExecutionDoubt::id));
    let times = |of: &dyn Fn(&WorkCounts) -> Option<f64>| {
        let ratio = of(&e.late)? / of(&e.on_time)?;
        ratio.is_finite().then_some(Quantity::Number(ratio))
    };
    match e.kind {
        ExecutionKind::MoreWork | ExecutionKind::KernelWork => {
            f.value_if("times", times(&|w| w.instructions.map(|n| n as f64)))
        }
        ExecutionKind::PageFaults => {
            let more = e.late.page_faults.zip(e.on_time.page_faults);
            f.value_if("faults", more.map(|(l, o)| Quantity::Count(l.saturating_sub(o))))
        }
        ExecutionKind::SlowerClock => {
            let hertz = |w: &WorkCounts| Some(w.cycles? as f64 / w.time_ns.max(1) as f64);
            f.value_if("times", times(&hertz))
        }
        ExecutionKind::CacheMisses => {
            let rate = |w: &WorkCounts| Some(w.cache_misses? as f64 / w.instructions? as f64);
            f.value_if("times", times(&rate))
        }
        ExecutionKind::Mixed => f.value_if("shares", shares(e)),
        ExecutionKind::NotExecuted | ExecutionKind::Inconclusive => f,
    }
}

/// More instructions, cycles per instruction, fewer cycles per second.
fn shares(e: &Execution) -> Option<Value> {
    let s = e.shares?;
    let all = [s.instructions, s.cycles_per_instruction, s.clock];
    Some(Value::List(all.iter().map(|s| Quantity::Ratio(*s).into()).collect()))
}

/// Medians late and on time of all that was counted.
pub(super) fn evidence(e: &Execution) -> Vec<Evidence> {
    let mut all = Vec::new();
    let mut put = |id: &str, of: &dyn Fn(&WorkCounts) -> Option<Quantity>| {
        if let (Some(late), Some(on_time)) = (of(&e.late), of(&e.on_time)) {
            let pair = Value::List(vec![late.into(), on_time.into()]);
            all.push(Evidence::new(id, pair).of(e.late_counted as u64));
        }
    };
    let count = |n: Option<u64>| n.map(Quantity::Count);
    let ratio = |a: Option<u64>, b: Option<u64>| {
        let (a, b) = (a? as f64, b.filter(|b| *b > 0)? as f64);
        Some(a / b)
    };
    put("instructions", &|w| count(w.instructions));
    put("user-instructions", &|w| count(w.user_instructions));
    put("cycles-per-instruction", &|w| ratio(w.cycles, w.instructions).map(Quantity::Number));
    put("cycles-per-second", &|w| ratio(w.cycles, Some(w.time_ns)).map(|c| Quantity::Hz(c * 1e9)));
    put("reference-cycles-per-second", &|w| {
        ratio(w.reference_cycles, Some(w.time_ns)).map(|c| Quantity::Hz(c * 1e9))
    });
    put("cache-misses", &|w| count(w.cache_misses));
    put("page-faults", &|w| count(w.page_faults));
    let shares = shares(e).map(|s| Evidence::new("execution-shares", s));
    all.into_iter().chain(shares).collect()
}

/// What to change, or what would decide it.
pub(super) fn remedies(e: Option<&Execution>) -> &'static [&'static str] {
    match e.map(|e| (e.kind, e.doubt)) {
        Some((ExecutionKind::PageFaults, _)) => &["why.remedy-mlockall"],
        Some((ExecutionKind::SlowerClock, _)) => &["why.remedy-clock"],
        Some((ExecutionKind::NotExecuted, _)) => {
            &["why.remedy-stall-bare-metal", "why.remedy-stall-virtual"]
        }
        Some((ExecutionKind::CacheMisses, _)) => &["why.remedy-cache"],
        Some((_, Some(ExecutionDoubt::NoCounters))) => &["why.remedy-counters"],
        Some((_, Some(ExecutionDoubt::TooFew))) => &["why.remedy-more-captures"],
        _ => &["why.remedy-profile-task"],
    }
}
