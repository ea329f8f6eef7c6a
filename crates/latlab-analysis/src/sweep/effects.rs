//! Main effects: what each axis does, over all settings of the others.
//!
//! The share of the variance between the means of its values (η²; R. A. Fisher's analysis of
//! variance), and a permutation test in which responses are dealt out anew among points that
//! differ in this axis alone: what other axes do cannot be mistaken for it.

use latlab_model::sweep::axis::Value;
use latlab_model::sweep::{Effect, Place};
use latlab_stats::rng::SplitMix64;
use std::collections::BTreeMap;

const DEALS: usize = 499;

/// The effect of each axis on `(place, response)`.
pub fn effects(points: &[(&Place, f64)], axes: &[String], seed: u64) -> Vec<Effect> {
    axes.iter().filter_map(|axis| effect(points, axis, seed)).collect()
}

fn effect(points: &[(&Place, f64)], axis: &str, seed: u64) -> Option<Effect> {
    let mut levels: Vec<&Value> = Vec::new();
    let mut strata: BTreeMap<Vec<(&String, &Value)>, Vec<usize>> = BTreeMap::new();
    let mut at = Vec::with_capacity(points.len());
    let mut y = Vec::with_capacity(points.len());
    for (place, response) in points {
        let Some(value) = place.get(axis) else { continue };
        let index = levels.iter().position(|v| *v == value).unwrap_or_else(|| {
            levels.push(value);
            levels.len() - 1
        });
        let others = place.iter().filter(|(k, _)| k.as_str() != axis).collect();
        strata.entry(others).or_default().push(at.len());
        at.push(index);
        y.push(*response);
    }
    if levels.len() < 2 || y.len() < 4 {
        return None;
    }
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    let total: f64 = y.iter().map(|v| (v - mean).powi(2)).sum();
    let between = |y: &[f64]| {
        let mut sums = vec![(0.0, 0.0); levels.len()];
        for (v, &l) in y.iter().zip(&at) {
            sums[l].0 += v - mean;
            sums[l].1 += 1.0;
        }
        sums.iter().map(|(s, n)| s * s / f64::max(*n, 1.0)).sum::<f64>()
    };
    let seen = between(&y);
    let mut rng = SplitMix64::new(seed);
    let (mut dealt, mut as_large) = (y.clone(), 0);
    for _ in 0..DEALS {
        for members in strata.values() {
            let mut values: Vec<f64> = members.iter().map(|&i| y[i]).collect();
            rng.shuffle(&mut values);
            members.iter().zip(values).for_each(|(&i, v)| dealt[i] = v);
        }
        as_large += usize::from(between(&dealt) >= seen * (1.0 - 1e-12));
    }
    let median_of = |l: usize| {
        let v: Vec<f64> = y.iter().zip(&at).filter(|(_, a)| **a == l).map(|(v, _)| *v).collect();
        latlab_stats::quantile::median(&v).unwrap_or(0.0)
    };
    let medians: Vec<f64> = (0..levels.len()).map(median_of).collect();
    let worst = (0..levels.len()).max_by(|&a, &b| medians[a].total_cmp(&medians[b]))?;
    let mildest = medians.iter().copied().fold(f64::INFINITY, f64::min);
    Some(Effect {
        axis: axis.to_owned(),
        factor: (medians[worst] - mildest).exp(),
        worst: levels[worst].to_string(),
        share: if total > 0.0 { seen / total } else { 0.0 },
        p: (as_large + 1) as f64 / (DEALS + 1) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_testkit::latency_sim::gauss;

    #[test]
    fn what_matters_is_told_from_what_does_not() {
        let mut rng = SplitMix64::new(3);
        let mut places = Vec::new();
        for mode in ["alloc", "keep"] {
            for stride in [1.0, 64.0, 4096.0] {
                for bytes in [1.0, 2.0, 4.0, 8.0] {
                    let place: Place = [
                        ("mode".to_owned(), Value::Word(mode.to_owned())),
                        ("stride".to_owned(), Value::Number(stride)),
                        ("bytes".to_owned(), Value::Number(bytes)),
                    ]
                    .into();
                    let y = if mode == "alloc" { 0.7 } else { 0.0 } + 0.1 * gauss(&mut rng);
                    places.push((place, y));
                }
            }
        }
        let points: Vec<(&Place, f64)> = places.iter().map(|(p, y)| (p, *y)).collect();
        let axes = ["mode", "stride", "bytes"].map(str::to_owned);
        let found = effects(&points, &axes, 1);
        assert!(found[0].p < 0.01 && found[0].worst == "alloc", "{found:?}");
        assert!((1.8..2.3).contains(&found[0].factor) && found[0].share > 0.8);
        assert!(found[1].p > 0.02 && found[2].p > 0.02, "{found:?}");
    }
}
