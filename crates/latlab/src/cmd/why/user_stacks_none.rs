//! User stacks in a build for boards, which has neither unwinder nor symbols: none are recorded.

use latlab_analysis::latency::capture::Capture;
use latlab_model::latency::WhyResult;
use latlab_model::units::{Tid, TraceNs};
use std::path::Path;

/// No stacks.
pub(super) struct Recording;

impl Recording {
    pub(super) fn new(_: bool) -> Self {
        Self
    }

    pub(super) fn is_on(&self) -> bool {
        false
    }

    pub(super) fn follow(&mut self, _: &[Tid]) {}

    pub(super) fn take(&mut self) {}

    pub(super) fn keep(&mut self, _: &Path, _: &Capture) {}

    pub(super) fn forget(&mut self, _: &Path) {}

    pub(super) fn forget_before(&mut self, _: TraceNs) {}

    pub(super) fn save(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    pub(super) fn tell(&self, _: &mut WhyResult) {}
}
