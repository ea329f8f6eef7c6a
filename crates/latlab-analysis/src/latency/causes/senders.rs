//! Who sent the interrupts between CPUs that made wake-ups late.

use super::classify::Judge;
use super::members::Members;
use latlab_model::latency::{CauseEvidence, Group, IpiSender};
use std::collections::BTreeMap;

impl Judge<'_> {
    /// Who sent the interrupts of most windows.
    pub(super) fn sender(&self, group: &Group, m: &Members) -> Option<CauseEvidence> {
        let mut seen: BTreeMap<&IpiSender, usize> = BTreeMap::new();
        for sender in m.excess.keys().flat_map(|&i| &self.windows[i].share(group).senders) {
            *seen.entry(sender).or_default() += 1;
        }
        let (sender, windows) = seen.into_iter().max_by_key(|s| s.1)?;
        Some(CauseEvidence::IpiSender { sender: sender.clone(), windows })
    }
}
