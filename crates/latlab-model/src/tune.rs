//! Settings that were tried, and their effect.

use crate::check::{Comparison, Requirement};
use crate::finding::Note;
use crate::record::Unit;
use serde::{Deserialize, Serialize};

/// What a setting does to the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TuneEffect {
    /// The response is shorter with it.
    Improves,
    /// The response is longer with it.
    Worsens,
    /// The interval is within the margin: it does nothing of that size.
    NoEffect,
    /// The blocks do not decide.
    #[default]
    Undecided,
    /// It could not be set.
    NotTried,
}

/// A file and its value, or something else that is set by a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileValue {
    /// The file, or a name of what is set.
    pub path: String,
    /// The value while it was tried.
    pub value: String,
    /// The value before; empty where a machine was booted.
    pub before: String,
    /// Command that sets it, where it is no file that is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A setting that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Tried {
    /// As on the command line: `governor=performance`.
    pub name: String,
    /// Files that it sets, as patterns where a machine was booted; none for a latency that is held.
    pub files: Vec<FileValue>,
    /// Boot parameters that it consists of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
    /// Median response without and with it, ns.
    pub response_ns: (f64, f64),
    /// Response with it as a share of the response without, minus one: −0.2 is a fifth shorter.
    pub change: f64,
    /// Interval of the change, 95 % for all settings together.
    pub interval: (f64, f64),
    /// p value, adjusted for all settings (S. Holm, 1979).
    pub p: f64,
    /// What it does.
    pub effect: TuneEffect,
    /// Blocks with it.
    pub rounds: usize,
    /// Of these, the ones that meet [`TuneDetail::requirement`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<usize>,
    /// Whether it stays set (`--apply`).
    pub applied: bool,
    /// Why it could not be set.
    pub note: Option<Note>,
    /// Its side effects, one for each of [`TuneDetail::side`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub side: Vec<SideEffect>,
    /// For settings that were also tried one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
}

impl Tried {
    /// Whether two rounds or more were compared; otherwise change, interval and p value mean nothing.
    pub fn is_compared(&self) -> bool {
        self.response_ns.0 > 0.0
    }
}

/// What a setting does to a benchmark, or to electrical power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SideEffect {
    /// The median with the setting as a share of that without, minus one.
    pub change: f64,
    /// Interval of the change, 95 % for everything that is tested.
    pub interval: (f64, f64),
    /// p value, adjusted for everything that is tested.
    pub p: f64,
    /// `Improves`: shorter, or more where more is better.
    pub effect: TuneEffect,
}

/// A benchmark, or a power meter, that is read in each block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SideMetric {
    /// Name of its record.
    pub name: String,
    /// Unit of its record.
    pub unit: Unit,
}

/// Settings together, beside what their effects one by one would give: the interaction of a factorial design, on the
/// scale of logarithms (G. E. P. Box, J. S. Hunter and W. G. Hunter, "Statistics for Experimenters").
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Together {
    /// The names of the settings.
    pub parts: Vec<String>,
    /// Change that the product of the single changes gives.
    pub expected: f64,
    /// The response as a share of the expected one, minus one.
    pub change: f64,
    /// Interval of that change, 95 % for everything that is tested.
    pub interval: (f64, f64),
    /// p value, adjusted for everything that is tested.
    pub p: f64,
    /// `Improves`: the response is shorter than expected.
    pub effect: TuneEffect,
}

/// Settings in combinations: a factorial design of two levels (G. E. P. Box, J. S. Hunter and W. G. Hunter). The effect
/// of a setting is the mean over the runs with it against that over the runs without it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Factorial {
    /// Combinations of a round, a block each; the first one is without any setting.
    pub runs: usize,
    /// Resolution of the design: from V (5) on, and without fractions, pairs have estimates of their own.
    pub resolution: usize,
    /// Pairs of settings.
    pub interactions: Vec<Interaction>,
    /// Settings of the combination with the shortest response, by the effects that are decided.
    pub best: Vec<String>,
    /// Its response as a share of that without any setting, minus one, by the effects that are decided.
    pub best_change: f64,
}

/// Two settings together against the product of their single changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Interaction {
    /// The pair; several where the design has one estimate for all of them.
    pub pairs: Vec<(String, String)>,
    /// The response as a share of that which the single changes give, minus one.
    pub change: f64,
    /// Interval of that change, 95 % for everything that is tested.
    pub interval: (f64, f64),
    /// p value, adjusted for everything that is tested.
    pub p: f64,
    /// `Improves`: the response is shorter than the single changes give.
    pub effect: TuneEffect,
}

/// What `latlab tune` found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TuneDetail {
    /// Machine that was booted for each block, where boot parameters were tried.
    pub boot: Option<String>,
    /// Quantile of a block's wake-up latencies that is the response.
    pub quantile: f64,
    /// Rounds: one block of each setting and one without any.
    pub rounds: usize,
    /// Length of a block, ns.
    pub block_ns: u64,
    /// A change below this share counts as none.
    pub margin: f64,
    /// The user's requirement, whose quantile is the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirement: Option<Requirement>,
    /// Blocks without any setting, and how many of them meet it.
    pub met_without: (usize, usize),
    /// Benchmarks and power that are measured beside the latency, for side effects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub side: Vec<SideMetric>,
    /// Settings in the order in which they were given.
    pub tried: Vec<Tried>,
    /// Where settings were tried in combinations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factorial: Option<Factorial>,
}

impl TuneDetail {
    /// Whether a block with this response, ns, meets the requirement; `None` without one.
    pub fn is_met(&self, response_ns: f64) -> Option<bool> {
        let requirement = self.requirement.as_ref()?;
        Some(match requirement.comparison {
            Comparison::Below => response_ns < requirement.limit,
            Comparison::AtMost => response_ns <= requirement.limit,
            Comparison::Above => response_ns > requirement.limit,
        })
    }

    /// What to set: the settings that improve the response. Of settings whose combination was tried and does not
    /// improve, the best one only; a combination where none of its settings improves alone. Of a factorial design, the
    /// settings of the best combination.
    pub fn improving(&self) -> Vec<&Tried> {
        if let Some(design) = &self.factorial {
            return self.tried.iter().filter(|t| design.best.contains(&t.name)).collect();
        }
        let improves = |t: &Tried| t.effect == TuneEffect::Improves;
        let joint: Vec<(&Tried, &Together)> =
            self.tried.iter().filter_map(|t| Some((t, t.together.as_ref()?))).collect();
        let single = |t: &&Tried| t.together.is_none() && improves(t);
        let mut chosen: Vec<&Tried> = self.tried.iter().filter(single).collect();
        for (tried, together) in joint {
            let is_part = |t: &&Tried| together.parts.contains(&t.name);
            let best =
                chosen.iter().copied().filter(is_part).min_by(|a, b| a.change.total_cmp(&b.change));
            match (improves(tried), best) {
                (true, None) => chosen.push(tried),
                (false, Some(best)) => chosen.retain(|t| !is_part(t) || t.name == best.name),
                _ => {}
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(name: &str, change: f64, effect: TuneEffect, parts: &[&str]) -> Tried {
        let parts: Vec<String> = parts.iter().map(|&p| p.to_owned()).collect();
        let together = (!parts.is_empty()).then(|| Together { parts, ..Together::default() });
        Tried { name: name.into(), change, effect, together, ..Tried::default() }
    }

    #[test]
    fn combinations_decide_on_their_settings() {
        use TuneEffect::{Improves, NoEffect, Undecided};
        let chosen = |settings: &[Tried]| {
            let d = TuneDetail { tried: settings.to_vec(), ..TuneDetail::default() };
            d.improving().iter().map(|t| t.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let (a, b) = (tried("a", -0.2, Improves, &[]), tried("b", -0.3, Improves, &[]));
        let c = tried("c", 0.0, NoEffect, &[]);
        assert_eq!(chosen(&[a.clone(), b.clone(), c.clone()]), "a b");
        let both = |effect| tried("a+b", -0.4, effect, &["a", "b"]);
        assert_eq!(chosen(&[a.clone(), b.clone(), both(Improves)]), "a b");
        assert_eq!(chosen(&[a.clone(), b.clone(), both(NoEffect)]), "b");
        let only_together = tried("c+d", -0.5, Improves, &["c", "d"]);
        let d = tried("d", 0.1, Undecided, &[]);
        assert_eq!(chosen(&[c, d, only_together]), "c+d");
    }
}
