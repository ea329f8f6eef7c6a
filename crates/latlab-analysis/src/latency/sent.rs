//! Which event sent an interrupt to another CPU.

use super::capture::Capture;
use latlab_model::event::{Event, EventKind};
use latlab_model::units::{CpuId, TraceNs};

/// Events of all CPUs before an interrupt among which its sender is looked for.
const BACK: usize = 4_096;

/// Whether an interrupt is one that a CPU sends another, by its name.
pub(super) fn is_ipi(name: &str) -> bool {
    ["call_function", "reschedule", "Function call", "Rescheduling", "IPI"]
        .iter()
        .any(|ipi| name.contains(ipi))
}

/// The event with which another CPU sent the interrupt that `cpu` handles at `at`: the last one before it.
pub(super) fn sent(capture: &Capture, cpu: CpuId, since: TraceNs, at: TraceNs) -> Option<&Event> {
    let before = capture.within(since, at).iter().rev().take(BACK);
    before.into_iter().find(
        |e| matches!(e.kind, EventKind::IpiSend { cpus, .. } if cpus & cpu.bit() != 0 && e.cpu != cpu),
    )
}
