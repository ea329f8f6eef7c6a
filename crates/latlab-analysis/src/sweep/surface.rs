//! The response surface over two numeric axes.
//!
//! A second-order polynomial in coded variables, fitted to the logarithm of the latency by least
//! squares (G. E. P. Box and K. B. Wilson, 1951): the axes from −1 to 1, by logarithm where their
//! values grow by factors.

use latlab_model::sweep::axis::Axis;
use latlab_model::sweep::plan::Plan;
use latlab_model::sweep::{Coded, Place, Surface};
use latlab_stats::least_squares::fit;
use std::collections::{BTreeMap, BTreeSet};

/// Values of an axis that a square term needs.
const VALUES: usize = 3;

/// One surface for each setting of the other axes that has points enough; `points` are places with the
/// logarithm of their latency in ns.
pub fn surfaces(plan: &Plan, points: &[(&Place, f64)]) -> Vec<Surface> {
    let mut numeric = plan.axes.iter().filter(|a| a.is_numeric() && a.values.len() >= VALUES);
    let (Some(x), Some(y)) = (numeric.next(), numeric.next()) else { return Vec::new() };
    let (Some(coded_x), Some(coded_y)) = (coded(x), coded(y)) else { return Vec::new() };
    let mut slices: BTreeMap<Place, Vec<(f64, f64, f64)>> = BTreeMap::new();
    for (place, response) in points {
        let number = |a: &Axis| place.get(&a.name).and_then(|v| v.number());
        if let (Some(at_x), Some(at_y)) = (number(x), number(y)) {
            let others = place.iter().filter(|(k, _)| **k != x.name && **k != y.name);
            let slice = others.map(|(k, v)| (k.clone(), v.clone())).collect();
            slices.entry(slice).or_default().push((at_x, at_y, *response));
        }
    }
    let surface = |(slice, points): (Place, Vec<(f64, f64, f64)>)| {
        let several = |of: fn(&(f64, f64, f64)) -> f64| {
            points.iter().map(|p| of(p).to_bits()).collect::<BTreeSet<u64>>().len() >= VALUES
        };
        if !several(|p| p.0) || !several(|p| p.1) {
            return None;
        }
        let term = |p: &(f64, f64, f64)| (Surface::terms(coded_x.of(p.0), coded_y.of(p.1)), p.2);
        let found = fit(&points.iter().map(term).collect::<Vec<_>>())?;
        Some(Surface {
            x: coded_x.clone(),
            y: coded_y.clone(),
            slice,
            coefficients: found.coefficients,
            r_squared: found.r_squared,
            residual_factor: found.residual.exp(),
            points: points.len(),
        })
    };
    slices.into_iter().filter_map(surface).collect()
}

fn coded(axis: &Axis) -> Option<Coded> {
    let numbers = axis.numbers();
    let (first, last) = (*numbers.first()?, *numbers.last()?);
    let logarithmic = axis.geometric && first > 0.0;
    let on = |v: f64| if logarithmic { v.log2() } else { v };
    let half = (on(last) - on(first)) / 2.0;
    (half > 0.0).then(|| Coded {
        axis: axis.name.clone(),
        logarithmic,
        center: (on(first) + on(last)) / 2.0,
        half,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::sweep::axis::Value;

    fn plan() -> Plan {
        let axes = [("size", "1K,4K,16K,64K"), ("percent", "0,50,100"), ("mode", "alloc,keep")];
        let axes = axes.map(|(name, text)| Axis::parse(name, text).unwrap()).into();
        Plan { axes, ..Plan::default() }
    }

    fn places(plan: &Plan, mode: &str) -> Vec<Place> {
        let mut out = Vec::new();
        for size in &plan.axes[0].values {
            for percent in &plan.axes[1].values {
                let values = [size.clone(), percent.clone(), Value::Word(mode.to_owned())];
                out.push(plan.axes.iter().map(|a| a.name.clone()).zip(values).collect());
            }
        }
        out
    }

    #[test]
    fn a_surface_is_found_for_each_setting_of_the_other_axes() {
        let plan = plan();
        let all: Vec<Place> = ["alloc", "keep"].iter().flat_map(|m| places(&plan, m)).collect();
        // Latency doubles with each quadrupled size in one mode, and is constant in the other.
        let ns = |p: &Place| match (&p["mode"], &p["size"]) {
            (Value::Word(m), Value::Number(n)) if m == "alloc" => 1000.0 * (n / 1024.0).sqrt(),
            _ => 5000.0,
        };
        let points: Vec<(&Place, f64)> = all.iter().map(|p| (p, ns(p).ln())).collect();
        let found = surfaces(&plan, &points);
        assert_eq!(found.len(), 2);
        let alloc = &found[0];
        assert!(alloc.r_squared > 0.999 && alloc.residual_factor < 1.001, "{alloc:?}");
        assert!((alloc.ns(4096.0, 25.0) - 2000.0).abs() < 1.0, "{}", alloc.ns(4096.0, 25.0));
        assert!((alloc.ns(32768.0, 70.0) - 5656.9).abs() < 1.0, "between the points");
        assert!((found[1].ns(4096.0, 25.0) - 5000.0).abs() < 1e-6);
    }

    #[test]
    fn two_values_of_an_axis_are_no_surface() {
        let mut plan = plan();
        let points = places(&plan, "keep");
        let two = |p: &&Place| p["percent"] != Value::Number(50.0);
        let points: Vec<(&Place, f64)> = points.iter().filter(two).map(|p| (p, 7.0)).collect();
        assert_eq!(surfaces(&plan, &points), []);
        plan.axes.remove(1);
        assert_eq!(surfaces(&plan, &points), []);
    }
}
