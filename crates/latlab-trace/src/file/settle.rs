//! What a whole file must fulfil: no byte belongs to two CPUs, and chunks fit into its memory.
//!
//! Overlapping data would make a small file arbitrarily much work.

use super::trace_file::TraceFile;
use std::collections::BTreeMap;

/// Leaves out data that the file gives to two CPUs, and divides the memory over the rest.
pub(super) fn settle(file: &mut TraceFile<'_>) {
    // Begin and end of what is given already.
    let mut given: BTreeMap<u64, u64> = BTreeMap::new();
    let mut readers = 0;
    for buffer in &mut file.buffers {
        buffer.cpus.retain(|cpu| {
            let end = cpu.offset.saturating_add(cpu.size);
            let before = given.range(..end).next_back();
            if cpu.size > 0 && before.is_some_and(|(_, taken)| *taken > cpu.offset) {
                let what = "these data belong to another CPU already; they are left out";
                file.diagnostics.push(Some(cpu.cpu), cpu.offset, what);
                return false;
            }
            if cpu.size > 0 {
                given.insert(cpu.offset, end);
            }
            true
        });
        readers += buffer.cpus.len();
    }
    file.memory.share(readers);
}
