//! The processor's clock as the greatest common divisor of the times of operations.
//!
//! A chain of instructions that wait for each other takes whole cycles each, so the clock's period divides all times
//! (C. Staelin and L. McVoy, "mhz: Anatomy of a micro-benchmark", USENIX Annual Technical Conference 1998). Times have
//! errors, and a clock that changes, or an instruction that takes no whole number, spoils some of them: the period is
//! the one of which two thirds of the times or more are whole multiples, so near that random times would hardly be
//! (`by_chance`): a fraction of it is likelier by chance, and so is a multiple that fits fewer times.
//! Every fraction of it divides them too, and a multiple may, where all operations happen to take an even number of
//! cycles: times alone do not tell.
//!
//! Whether the times decide is tested twice. The probability by chance has to be small, and that of any other period
//! that is no fraction of it much larger; otherwise that one is a *rival*.

use latlab_model::bench::BenchDetail;
use latlab_model::finding::{Confidence, Evidence, Finding, Quantity, Severity};
use latlab_stats::estimate::Estimate;

/// The probe whose rows are the times.
const OPERATION: &str = "cpu.operation";
/// Most cycles of the shortest operation.
const SHORTEST: u32 = 24;
/// Most cycles of any operation that a period is derived from.
const LONGEST: u32 = 64;
/// A time this near to a whole number of cycles is one: the loop around a chain is a hundredth of its 64 operations.
const NEAR: f64 = 0.05;
/// A time whose error is larger says nothing, cycles.
const VAGUE: f64 = 0.25;
/// The smallest standard error of a time, as a share: the clock is not that stable.
const STABLE: f64 = 5e-4;
/// Times nearer to each other than this share are one observation.
const SAME: f64 = 0.02;
/// Of random times, at most this share would fit as well.
const CHANCE: f64 = 0.01;
/// A period that is less than this many times as likely by chance as the best is a rival.
const RIVAL: f64 = 1000.0;
/// The same for a whole fraction of the best that fits more times.
const FRACTION: f64 = 10.0;
/// Clocks whose intervals are no further apart agree.
const AGREE: f64 = 0.02;
/// Normal quantile of a 95 % interval.
const Z: f64 = 1.96;

/// The time of an operation, and its standard error, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Time, ns.
    pub ns: f64,
    /// Standard error, ns.
    pub error: f64,
}

/// A period, and how the times are multiples of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// Period, ns.
    pub ns: f64,
    /// Half of its 95 % interval, ns.
    pub half: f64,
    /// For each time, whether it is a whole multiple.
    pub fits: Vec<bool>,
    /// The largest distance from a whole number among those, cycles.
    pub residual: f64,
}

impl Period {
    fn fitting(&self) -> usize {
        self.fits.iter().filter(|f| **f).count()
    }
}

/// What the times say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Divisor {
    /// The period that is least likely by chance.
    pub best: Option<Period>,
    /// Others that are about as unlikely, the largest first.
    pub rivals: Vec<Period>,
    /// Probability that random times fit as well as the best.
    pub chance: f64,
}

impl Divisor {
    /// The period, if the times decide.
    pub fn decided(&self) -> Option<&Period> {
        self.best.as_ref().filter(|_| self.rivals.is_empty() && self.chance <= CHANCE)
    }
}

/// The greatest common divisor of some times.
pub fn divisor(times: &[Timing]) -> Divisor {
    let sound = |t: &&Timing| t.ns.is_finite() && t.ns > 0.0 && t.error.is_finite();
    let shortest = times.iter().filter(sound).map(|t| t.ns).fold(f64::INFINITY, f64::min);
    if !shortest.is_finite() {
        return Divisor { chance: 1.0, ..Divisor::default() };
    }
    let least = shortest / (f64::from(SHORTEST) + 0.5);
    let mut found: Vec<Period> = Vec::new();
    for time in times.iter().filter(sound) {
        for k in 1..=LONGEST {
            let ns = time.ns / f64::from(k);
            if ns < least {
                break;
            }
            found.extend(refine(times, ns));
        }
    }
    // An operation in three may be spoilt.
    found.retain(|p| p.fitting() * 3 >= times.len() * 2);
    let chance_of = |p: Period| (by_chance(times, &p), p);
    let mut found: Vec<(f64, Period)> = found.into_iter().map(chance_of).collect();
    // The least likely one, and of two such the larger.
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.ns.total_cmp(&a.1.ns)));
    let mut found = found.into_iter();
    let Some((chance, best)) = found.next() else {
        return Divisor { chance: 1.0, ..Divisor::default() };
    };
    // Whole fractions of one that fits fit as well. One that fits more times, and is hardly likelier, is a rival all the
    // same.
    let is_fraction = |period: &Period, likely: f64, of: &Period| {
        let fraction = of.ns / period.ns;
        fraction > 0.5
            && (fraction / fraction.round().max(1.0) - 1.0).abs() < SAME
            && (period.fitting() <= of.fitting() || likely > chance * FRACTION)
    };
    let mut likely: Vec<(f64, Period)> = found.filter(|f| f.0 <= chance * RIVAL).collect();
    likely.sort_by(|a, b| b.1.ns.total_cmp(&a.1.ns));
    let mut rivals: Vec<Period> = Vec::new();
    for (by_chance, period) in likely {
        let mut larger = std::iter::once(&best).chain(&rivals);
        if !larger.any(|of| is_fraction(&period, by_chance, of)) {
            rivals.push(period);
        }
    }
    Divisor { best: Some(best), rivals, chance }
}

/// A period near `ns`, by weighted least squares over the times that are multiples of it.
fn refine(times: &[Timing], ns: f64) -> Option<Period> {
    let mut period = Period { ns, half: 0.0, fits: Vec::new(), residual: 0.0 };
    for _ in 0..3 {
        judge(times, &mut period);
        let (mut weights, mut sum) = (0.0, 0.0);
        for (time, _) in fitting(times, &period) {
            let cycles = (time.ns / period.ns).round();
            let weight = cycles / error(time).powi(2);
            weights += weight * cycles;
            sum += weight * time.ns;
        }
        if weights == 0.0 {
            return None;
        }
        period.ns = sum / weights;
        period.half = Z / weights.sqrt();
    }
    judge(times, &mut period);
    // More spread than the errors have: the interval grows with it.
    let all: Vec<f64> =
        fitting(times, &period).map(|(t, off)| (off * period.ns / error(t)).powi(2)).collect();
    let spread = all.iter().sum::<f64>() / (all.len().max(2) - 1) as f64;
    period.half *= spread.max(1.0).sqrt();
    Some(period)
}

fn error(time: &Timing) -> f64 {
    time.error.max(time.ns * STABLE)
}

/// Distance of a time from a whole number of cycles; `None` where its error hides that.
fn off(time: &Timing, ns: f64) -> Option<f64> {
    let (cycles, vague) = (time.ns / ns, 3.0 * error(time) / ns);
    let off = (cycles - cycles.round()).abs();
    (cycles >= 0.5 && vague <= VAGUE && off <= NEAR.max(vague)).then_some(off)
}

fn judge(times: &[Timing], period: &mut Period) {
    period.fits = times.iter().map(|t| off(t, period.ns).is_some()).collect();
    period.residual = fitting(times, period).map(|(_, off)| off).fold(0.0, f64::max);
}

fn fitting<'a>(
    times: &'a [Timing],
    period: &'a Period,
) -> impl Iterator<Item = (&'a Timing, f64)> + 'a {
    times.iter().filter_map(|t| Some((t, off(t, period.ns)?)))
}

/// Probability that random times fit as well: one of the distinct times gives the period, in as many ways as it has
/// cycles, and each of the others is then near to a whole number; which times do not fit was chosen as well. Near is
/// the distance that its error allows, or the share of it within which all are.
fn by_chance(times: &[Timing], period: &Period) -> f64 {
    let mut distinct: Vec<(f64, f64)> = Vec::new();
    let mut share: f64 = 0.0;
    for (time, off) in fitting(times, period) {
        let error = error(time) / period.ns;
        let allowed = NEAR.max(3.0 * error);
        share = share.max(off.max(error) / allowed);
        if !distinct.iter().any(|d| (time.ns / d.0 - 1.0).abs() < SAME) {
            distinct.push((time.ns, 2.0 * allowed));
        }
    }
    // The shortest gives the period.
    let shortest = distinct.iter().map(|d| d.0).fold(f64::INFINITY, f64::min);
    let ways = (shortest / period.ns).round();
    let others = distinct.iter().filter(|d| d.0 > shortest);
    let near: f64 = others.map(|d| d.1 * share).product();
    let spoilt = times.len() - period.fitting();
    let choices: f64 = (0..spoilt).map(|i| (times.len() - i) as f64 / (i + 1) as f64).product();
    (2.0 * ways * choices * near).min(1.0)
}

/// Sets the cycles of each operation where the times decide, and tells the clock, beside the other ways to measure it.
pub fn findings(detail: &mut BenchDetail) -> Vec<Finding> {
    let places: Vec<usize> =
        (0..detail.rows.len()).filter(|&i| detail.rows[i].name == OPERATION).collect();
    if places.len() < 2 {
        return Vec::new();
    }
    let times: Vec<Timing> = places.iter().map(|&i| timing(&detail.rows[i].estimate)).collect();
    let found = divisor(&times);
    let count = |n: usize| Quantity::Count(n as u64);
    let named = |which: &dyn Fn(usize) -> bool| -> Vec<String> {
        let kept = places.iter().enumerate().filter(|(k, _)| which(*k));
        kept.map(|(_, &i)| detail.rows[i].params.get("op").cloned().unwrap_or_default()).collect()
    };
    let Some(period) = found.decided().cloned() else {
        let all = found.best.iter().chain(&found.rivals);
        let periods: Vec<Quantity> = all.take(6).map(|p| Quantity::Hz(1e9 / p.ns)).collect();
        let finding =
            Finding::typed("bench.clock-undecided", Severity::Inconclusive, Confidence::High)
                .value("operations", count(times.len()))
                .value("clocks", periods)
                .with(Evidence::new("probability-by-chance", Quantity::Probability(found.chance)));
        return vec![finding];
    };
    let spoilt = named(&|k| !period.fits[k]);
    let hz = 1e9 / period.ns;
    let mut finding = Finding::typed("bench.clock-period", Severity::Info, Confidence::High)
        .value("hz", Quantity::Hz(hz))
        .value("period", Quantity::Ns(period.ns))
        .value("half", Quantity::Ns(period.half))
        .value("operations", count(times.len()))
        .value("fitting", count(period.fitting()))
        .value("residual", Quantity::Number(period.residual))
        .value_if("reported", detail.reported_hz.map(Quantity::Hz))
        .with(Evidence::new("probability-by-chance", Quantity::Probability(found.chance)));
    if !spoilt.is_empty() {
        finding = finding.value("spoilt", spoilt);
    }
    // In the slow state of a machine with two, all operations take as many cycles of a longer period.
    let slow: Vec<Timing> = (places.iter())
        .filter_map(|&i| {
            let ns = detail.rows[i].states.get(1)?.median?;
            Some(Timing { ns, error: timing(&detail.rows[i].estimate).error })
        })
        .collect();
    if let (true, Some(slow)) = (slow.len() == times.len(), divisor(&slow).decided()) {
        finding = finding.value("slow_hz", Quantity::Hz(1e9 / slow.ns));
    }
    let others: Vec<(&str, f64, f64)> = (detail.rows.iter())
        .filter(|r| r.name == "cpu.clock" || r.name == "cpu.cycles")
        .map(|r| {
            let way = if r.name == "cpu.clock" { "chain" } else { "counter" };
            (way, r.estimate.median, r.estimate.half_width())
        })
        .collect();
    let mut findings = Vec::new();
    for (way, other, half) in others {
        finding = finding.value(way, Quantity::Hz(other));
        let half = if half.is_finite() { half } else { 0.0 };
        if (other / hz - 1.0).abs() > AGREE + half + period.half / period.ns {
            findings.push(
                Finding::typed("bench.clock-differs", Severity::Warning, Confidence::High)
                    .value("way", way)
                    .value("hz", Quantity::Hz(other))
                    .value("divisor", Quantity::Hz(hz))
                    .value("ratio", Quantity::Number(hz / other)),
            );
        }
    }
    for &i in &places {
        let row = &mut detail.rows[i];
        row.cycles = Some(row.estimate.median / period.ns);
    }
    findings.insert(0, finding);
    findings
}

/// Half of a 95 % interval is 1.96 standard errors; too few processes have the range that was seen.
fn timing(estimate: &Estimate) -> Timing {
    Timing { ns: estimate.median, error: (estimate.high - estimate.low) / 2.0 / Z }
}

#[cfg(test)]
mod tests;
