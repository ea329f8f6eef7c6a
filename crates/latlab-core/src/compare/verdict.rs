//! From tested aspects to verdicts and sentences, all p values adjusted together.

use super::metric::Tested;
use super::{Aspect, Contrast, Options, Verdict};
use crate::run::Unit;
use crate::stats::power::{Plan, longer, power};
use crate::stats::tail::Tail;
use crate::units::format_ns;

/// Chance of seeing it that "long enough" means.
const WANTED: f64 = 0.8;

/// What is known of a contrast beside its aspects.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    /// Unit of the metric.
    pub unit: Unit,
    /// Whether a larger value is the better one.
    pub larger_is_better: bool,
    /// Values a second.
    pub per_second: Option<f64>,
    /// Tail of the base.
    pub tail: Option<Tail>,
    /// Notes to begin with.
    pub notes: Vec<String>,
}

/// The contrast that the aspects come to. `adjusted` are their p values for all tests of the
/// comparison, and `tests` is how many those were.
pub fn contrast(
    other: usize,
    tested: Vec<Tested>,
    adjusted: &[f64],
    tests: usize,
    ground: &Ground,
    options: &Options,
) -> Contrast {
    let mut notes = ground.notes.clone();
    if tested.iter().any(|t| t.assumed) {
        notes.push(format!(
            "the files do not say in which order values came: clusters of {} are assumed (--cluster)",
            options.cluster
        ));
    }
    let level = options.level / tests.max(1) as f64;
    let mut plans: Vec<Option<Plan>> = Vec::new();
    let mut aspects = Vec::new();
    for (t, &p) in tested.into_iter().zip(adjusted) {
        let mut aspect = Aspect { p_adjusted: p, ..t.aspect };
        let plan = t.plan.map(|plan| Plan { level, ..plan });
        aspect.verdict = of_aspect(&aspect, t.testable, ground, options);
        if let Some(plan) = plan.filter(|p| p.rate < 0.25) {
            aspect.power_of_double = Some(power(&plan, 2.0));
            aspect.longer = longer(&plan, 2.0, WANTED);
        }
        plans.push(plan);
        aspects.push(aspect);
    }
    let verdict = of_all(&aspects);
    let mut sentence = sentence(&aspects, verdict, ground);
    if let Some(more) = told(&plans, ground, options) {
        sentence.push_str("; ");
        sentence.push_str(&more);
    } else if verdict == Verdict::CannotTell
        && let Some(more) = too_short(&aspects, &plans, ground)
    {
        sentence.push_str("; ");
        sentence.push_str(&more);
    }
    Contrast { other, aspects, verdict, sentence, notes }
}

fn of_aspect(a: &Aspect, testable: bool, ground: &Ground, options: &Options) -> Verdict {
    if !testable {
        return Verdict::CannotTell;
    }
    let worse = (a.change > 0.0) != ground.larger_is_better;
    // The rate of rare events is judged by factors, everything else by shares.
    let within = if a.is_rate { 1.0 } else { options.within };
    let largest = a.low.abs().max(a.high.abs());
    if a.p_adjusted < options.level {
        return match () {
            () if a.change.abs() < options.margin => Verdict::NoDifference,
            () if worse => Verdict::Worse,
            () => Verdict::Better,
        };
    }
    if largest <= within && a.high > a.low { Verdict::NoDifference } else { Verdict::CannotTell }
}

fn of_all(aspects: &[Aspect]) -> Verdict {
    let any = |v| aspects.iter().any(|a| a.verdict == v);
    match () {
        () if any(Verdict::Worse) => Verdict::Worse,
        () if any(Verdict::Better) => Verdict::Better,
        () if aspects.is_empty() || any(Verdict::CannotTell) => Verdict::CannotTell,
        () => Verdict::NoDifference,
    }
}

/// `+12 %`, `×3.1` from where a share reads badly.
pub fn change_words(change: f64) -> String {
    match change {
        c if c >= 1.0 => format!("×{:.2}", c + 1.0),
        c if c.abs() < 0.1 => format!("{:+.1} %", c * 100.0),
        c => format!("{:+.0} %", c * 100.0),
    }
}

/// A figure of an aspect, as people write it.
pub fn figure(value: f64, is_rate: bool, unit: Unit) -> String {
    match unit {
        _ if is_rate && value == 0.0 => "none".into(),
        _ if is_rate && value < 0.001 => format!("{value:.2e}"),
        _ if is_rate => format!("{:.3} %", value * 100.0),
        _ => crate::bench::figure(value, unit),
    }
}

fn sentence(aspects: &[Aspect], verdict: Verdict, ground: &Ground) -> String {
    let of = |a: &Aspect| {
        format!(
            "{} {} → {} ({}, {} to {})",
            a.what,
            figure(a.a, a.is_rate, ground.unit),
            figure(a.b, a.is_rate, ground.unit),
            change_words(a.change),
            change_words(a.low),
            change_words(a.high)
        )
    };
    let list =
        |v: Verdict| -> Vec<String> { aspects.iter().filter(|a| a.verdict == v).map(of).collect() };
    match verdict {
        Verdict::Worse | Verdict::Better => {
            let mut words = format!("{}: {}", verdict.words(), list(verdict).join(", "));
            let better = list(Verdict::Better);
            if verdict == Verdict::Worse && !better.is_empty() {
                words.push_str(&format!("; but better: {}", better.join(", ")));
            }
            words
        }
        Verdict::NoDifference => {
            let largest = aspects.iter().filter(|a| !a.is_rate);
            let largest = largest.map(|a| a.low.abs().max(a.high.abs())).fold(0.0, f64::max);
            format!("no difference larger than {:.1} %", largest * 100.0)
        }
        Verdict::CannotTell => match aspects.iter().find(|a| a.verdict == Verdict::CannotTell) {
            Some(a) if a.low == 0.0 && a.high == 0.0 => format!(
                "cannot tell: {} {} → {} ({}), single figures without a spread",
                a.what,
                figure(a.a, a.is_rate, ground.unit),
                figure(a.b, a.is_rate, ground.unit),
                change_words(a.change)
            ),
            Some(a) => format!("cannot tell: {}", of(a)),
            None => "cannot tell: too few values".into(),
        },
    }
}

/// What `--tell DIFFERENCE@PROBABILITY` asks for.
fn told(plans: &[Option<Plan>], ground: &Ground, options: &Options) -> Option<String> {
    let (difference, probability) = options.tell?;
    let asked = format!("{} at {probability:.0e}", crate::bench::figure(difference, ground.unit));
    let Some(tail) = ground.tail.as_ref().filter(|t| t.fits() && probability < t.rate) else {
        return Some(format!(
            "whether {asked} could be told cannot be said: the tail of the base has no fit there"
        ));
    };
    // A tail that is shifted by the difference has this rate where the base has `probability`.
    let level = tail.level(probability);
    let ratio = match level - difference {
        before if before > tail.threshold => tail.survival(before) / probability,
        _ => tail.rate / probability,
    };
    let plan = plans.iter().flatten().last()?;
    let plan = Plan { rate: probability, ..*plan };
    let seen = power(&plan, ratio);
    if seen >= WANTED {
        return Some(format!("{asked} would have been seen ({:.0} %)", seen * 100.0));
    }
    let more = match longer(&plan, ratio, WANTED) {
        Some(factor) => more_words(factor, &plan, ground),
        None => "no length of time up to a million times as long would".into(),
    };
    Some(format!("these runs are too short to tell {asked}: {more}"))
}

/// What the rarest aspect could have told.
fn too_short(aspects: &[Aspect], plans: &[Option<Plan>], ground: &Ground) -> Option<String> {
    let last = aspects.iter().zip(plans).rfind(|(a, _)| a.power_of_double.is_some())?;
    let (aspect, Some(plan)) = last else { return None };
    let seen = aspect.power_of_double?;
    let what = format!("twice as many beyond {}", aspect.what);
    if seen >= WANTED {
        return Some(format!("{what} would have been seen ({:.0} %)", seen * 100.0));
    }
    let more = more_words(aspect.longer?, plan, ground);
    Some(format!("too short to see {what} ({:.0} %): {more}", seen * 100.0))
}

fn more_words(factor: f64, plan: &Plan, ground: &Ground) -> String {
    match ground.per_second.filter(|r| *r > 0.0) {
        Some(rate) => {
            let seconds = plan.a.max(plan.b) * (factor - 1.0) / rate;
            let time = match seconds {
                s if s < 90.0 => format_ns(s.max(1.0).ceil() * 1e9),
                s if s < 7_200.0 => format!("{:.0} minutes", s / 60.0),
                s => format!("{:.0} hours", s / 3_600.0),
            };
            format!("{time} more of each would")
        }
        None => format!("{factor:.1} times as many values of each would"),
    }
}
