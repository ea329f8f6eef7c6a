//! From tested aspects to verdicts, all p values adjusted together.

use super::between::RUNS;
use super::metric::Tested;
use latlab_model::compare::{Aspect, Contrast, Options, Verdict};
use latlab_model::finding::{Note, Quantity};
use latlab_model::record::Unit;
use latlab_stats::pareto_tail::Tail;
use latlab_stats::power::{Plan, longer, power};

/// Chance of seeing it that "long enough" means.
const WANTED: f64 = 0.8;

/// A rate has not changed if its interval excludes a change by this factor, up and down.
const RATE_FACTOR: f64 = 2.0;

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
    /// Runs of the side that has fewer.
    pub runs: usize,
    /// Limitations of the data.
    pub notes: Vec<Note>,
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
        let cluster = Quantity::Number(options.cluster);
        notes.push(Note::new("compare.assumed-clusters").value("cluster", cluster));
    }
    let level = options.level / tests.max(1) as f64;
    let mut plans: Vec<Option<Plan>> = Vec::new();
    let mut aspects = Vec::new();
    for (t, &p) in tested.into_iter().zip(adjusted) {
        let mut aspect = Aspect { p_adjusted: p, ..t.aspect };
        let plan = t.plan.map(|plan| Plan { level, ..plan });
        aspect.towards_worse = (aspect.change > 0.0) != ground.larger_is_better;
        aspect.verdict = of_aspect(&aspect, (t.testable, t.between), options);
        if let Some(plan) = plan.filter(|p| p.rate < 0.25) {
            aspect.power_of_double = Some(power(&plan, 2.0));
            aspect.longer = longer(&plan, 2.0, WANTED);
        }
        plans.push(plan);
        aspects.push(aspect);
    }
    let verdict = Verdict::of_all(aspects.iter().map(|a| a.verdict));
    let mut power = told(&plans, ground, options);
    if power.is_none() && verdict == Verdict::Inconclusive {
        power = double(&aspects, &plans, ground);
    }
    Contrast { other, aspects, verdict, power, notes, ..Contrast::default() }
}

/// A difference is one of the sides, and none larger than x is excluded, only with the variance between runs.
fn of_aspect(a: &Aspect, (testable, between): (bool, bool), options: &Options) -> Verdict {
    if !testable {
        return Verdict::Inconclusive;
    }
    if a.p_adjusted < options.level && a.change.abs() >= options.margin {
        return match (between, a.towards_worse) {
            (false, _) => Verdict::RunsDiffer,
            (true, true) => Verdict::Worse,
            (true, false) => Verdict::Better,
        };
    }
    // The rate of rare events is judged by factors, everything else by shares.
    let within = match a.is_rate {
        true => a.low > 1.0 / RATE_FACTOR - 1.0 && a.high < RATE_FACTOR - 1.0,
        false => a.low.abs().max(a.high.abs()) <= options.within,
    };
    match between && within && a.high > a.low {
        true => Verdict::NoDifference,
        false => Verdict::Inconclusive,
    }
}

/// A value of the metric with its unit.
pub fn quantity(value: f64, unit: Unit) -> Quantity {
    match unit {
        Unit::Ns => Quantity::Ns(value),
        Unit::Bytes => Quantity::Bytes(value.max(0.0) as u64),
        Unit::BytesPerSecond => Quantity::BytesPerSecond(value),
        Unit::PerSecond => Quantity::PerSecond(value),
        Unit::Hz => Quantity::Hz(value),
        Unit::Watt => Quantity::Watts(value),
        Unit::Ratio => Quantity::Ratio(value),
        Unit::Count => Quantity::Number(value),
    }
}

/// Whether the difference that `--detectable DIFFERENCE@PROBABILITY` names could have been detected.
fn told(plans: &[Option<Plan>], ground: &Ground, options: &Options) -> Option<Note> {
    let (difference, probability) = options.tell?;
    let beyond = ground.tail.as_ref().is_some_and(|t| t.is_beyond(probability));
    let note = |id: &str| {
        let note = Note::new(id)
            .value("difference", quantity(difference, ground.unit))
            .value("probability", Quantity::Probability(probability));
        if beyond { note.value("beyond_sample", true) } else { note }
    };
    let Some(tail) = ground.tail.as_ref().filter(|t| t.fits() && probability < t.rate) else {
        return Some(note("compare.tail-unfitted"));
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
        return Some(note("compare.detectable").value("power", Quantity::Ratio(seen)));
    }
    let short = note("compare.too-short").value("power", Quantity::Ratio(seen));
    Some(match longer(&plan, ratio, WANTED) {
        Some(factor) => more(short, factor, &plan, ground),
        None => short,
    })
}

/// Whether a doubled rate of the rarest aspect could have been detected.
fn double(aspects: &[Aspect], plans: &[Option<Plan>], ground: &Ground) -> Option<Note> {
    let last = aspects.iter().zip(plans).rfind(|(a, _)| a.power_of_double.is_some())?;
    let (aspect, Some(plan)) = last else { return None };
    let seen = aspect.power_of_double?;
    let note = |id: &str| {
        let note = Note::new(id).value("power", Quantity::Ratio(seen));
        match (aspect.quantile, aspect.limit) {
            (Some(q), _) => note.value("quantile", Quantity::Number(q)),
            (None, Some(limit)) => note.value("limit", quantity(limit, ground.unit)),
            (None, None) => note,
        }
    };
    if seen >= WANTED {
        return Some(note("compare.double-detectable"));
    }
    Some(more(note("compare.double-too-short"), aspect.longer?, plan, ground))
}

/// Adds what both sides need: a number of runs, a longer time, or a factor where the rate is not known.
fn more(note: Note, factor: f64, plan: &Plan, ground: &Ground) -> Note {
    // What varies from run to run becomes less with more runs, not with longer ones.
    if ground.runs >= RUNS {
        let runs = (ground.runs as f64 * factor).ceil();
        return note.value("runs", Quantity::Count(runs.min(1e9) as u64));
    }
    match ground.per_second.filter(|r| *r > 0.0) {
        Some(rate) => {
            let seconds = plan.a.max(plan.b) * (factor - 1.0) / rate;
            note.value("needed", Quantity::S(seconds.max(1.0).ceil()))
        }
        None => note.value("factor", Quantity::Number(factor)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates of 20, 22, 18 and of 1, 8, 2 late wake-ups in runs of 10,000: from 86 % less to 2 % more.
    #[test]
    fn a_rate_that_may_have_halved_is_not_without_difference() {
        let of = |is_rate, low, high| {
            let change = (low + high) / 2.0;
            let aspect =
                Aspect { is_rate, low, high, change, p_adjusted: 0.1, ..Aspect::default() };
            of_aspect(&aspect, (true, true), &Options::default())
        };
        for (low, high) in [(-0.86, 0.02), (-1.0, 0.9), (-0.51, 0.5), (-0.1, 1.01)] {
            assert_eq!(of(true, low, high), Verdict::Inconclusive, "{low} {high}");
        }
        assert_eq!(of(true, -0.49, 0.99), Verdict::NoDifference);
        assert_eq!(of(false, -0.49, 0.99), Verdict::Inconclusive);
        assert_eq!(of(false, -0.09, 0.1), Verdict::NoDifference);
    }
}
