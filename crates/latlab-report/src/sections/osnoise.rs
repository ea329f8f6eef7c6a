//! OS noise in the summary; its records are drawn by [`super::generic`].

use latlab_model::run::Part;

/// The claim of the part's finding, with the area in front.
pub fn summary(part: &Part) -> Vec<String> {
    let claim = part.findings.iter().map(crate::messages::claim).next();
    let sentence = |c: String| match c.starts_with("OS noise") {
        true => format!("{c}."),
        // A run of schema version 1.
        false => format!("OS noise: {c}."),
    };
    claim.map(sentence).into_iter().collect()
}
