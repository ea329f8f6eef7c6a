//! Gaps in a busy loop ([`latlab_core::gaps`]) in words; the figures are drawn as those of any part.

use latlab_core::run::Part;

/// The part's own conclusion is the sentence.
pub fn summary(part: &Part) -> Vec<String> {
    let claim = part.findings.iter().map(|f| f.claim.as_str()).next();
    claim.map(|c| format!("Busy: {c}.")).into_iter().collect()
}
