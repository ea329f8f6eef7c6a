//! Plots as JSON for the interactive drawing, small and safe inside a page.

use crate::doc::{Axis, Mark, Plot, Scale, Series, SeriesKind};
use crate::plot::heat::Grid;
use crate::plot::palette;
use crate::plot::scale::Range;
use crate::plot::thin;
use serde_json::{Value, json};

/// Columns of pixels that an interactive plot can be zoomed to: more points than four for each are thinned.
const COLUMNS: usize = 4_000;

/// A plot as the report's script reads it (`viewer/report/src/model.ts`).
pub fn plot(p: &Plot) -> Value {
    let x = Range::x_of(p);
    let y = Range::y_of(p);
    json!({
        "id": p.id,
        "title": p.title,
        "x": axis(&p.x, &x),
        "y": axis(&p.y, &y),
        "series": p.series.iter().map(|s| series(s, &x)).collect::<Vec<_>>(),
        "marks": p.marks.iter().map(mark).collect::<Vec<_>>(),
    })
}

/// JSON for a `<script type="application/json">` element: no `<` that could end it, no
/// `&` that an XML parser could trip over.
pub fn in_page(value: &Value) -> String {
    let text = value.to_string();
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn axis(a: &Axis, range: &Range) -> Value {
    let scale = match a.scale {
        Scale::Linear => "linear",
        Scale::Log10 => "log10",
        Scale::Log2 => "log2",
        Scale::Category => "category",
    };
    json!({
        "label": a.label, "scale": scale, "categories": a.categories, "bytes": a.bytes,
        "min": number(range.min), "max": number(range.max),
    })
}

fn mark(m: &Mark) -> Value {
    match m {
        Mark::X(v, name) => json!({ "at": "x", "from": number(*v), "name": name }),
        Mark::Y(v, name) => json!({ "at": "y", "from": number(*v), "name": name }),
        Mark::Band(a, b, name) => {
            json!({ "at": "band", "from": number(*a), "to": number(*b), "name": name })
        }
    }
}

fn series(s: &Series, x: &Range) -> Value {
    let kind = match s.kind {
        SeriesKind::Line => "line",
        SeriesKind::Step => "step",
        SeriesKind::Points => "points",
        SeriesKind::Bars => "bars",
        SeriesKind::Heat => "heat",
        SeriesKind::Spans => "spans",
    };
    let whole = matches!(s.kind, SeriesKind::Heat | SeriesKind::Spans | SeriesKind::Bars);
    let kept: Vec<usize> =
        if whole { (0..s.points.len()).collect() } else { thin::keep(&s.points, x, COLUMNS) };
    let pick = |f: &dyn Fn(usize) -> Option<f64>| -> Vec<Value> {
        kept.iter().map(|&i| f(i).map_or(Value::Null, number)).collect()
    };
    let mut v = json!({
        "name": s.name,
        "kind": kind,
        "x": pick(&|i| Some(s.points[i].0)),
        "y": pick(&|i| Some(s.points[i].1)),
    });
    if s.intervals.len() == s.points.len() && !s.points.is_empty() {
        v["low"] = pick(&|i| Some(s.intervals[i].0)).into();
        v["high"] = pick(&|i| Some(s.intervals[i].1)).into();
    }
    if !s.values.is_empty() {
        v["values"] = pick(&|i| s.values.get(i).copied()).into();
    }
    if s.kind == SeriesKind::Heat {
        v["colors"] = heat_colors(s, &kept);
        if let Some(grid) = Grid::of(s) {
            v["least"] = number(grid.min);
            v["most"] = number(grid.max);
            v["ramp"] = (0..=8).map(|i| color(f64::from(i) / 8.0)).collect::<Vec<_>>().into();
        }
    }
    v
}

/// The colour of each cell: decided here, so that it is the same in every drawing.
fn heat_colors(s: &Series, kept: &[usize]) -> Value {
    let Some(grid) = Grid::of(s) else { return Value::Null };
    let place = |i: &usize| grid.shade(s.values.get(*i).copied().unwrap_or(f64::NAN));
    kept.iter().map(|i| color(place(i))).collect::<Vec<_>>().into()
}

/// The heat colour at a place between 0 and 1, `#rrggbb`.
fn color(place: f64) -> Value {
    let (r, g, b) = palette::heat(place);
    Value::from(format!("#{r:02x}{g:02x}{b:02x}"))
}

/// Nine significant digits: enough for a nanosecond in a second; `null` for what is no number.
fn number(v: f64) -> Value {
    if !v.is_finite() {
        return Value::Null;
    }
    if v.fract() == 0.0 && v.abs() < 9e15 {
        return Value::from(v as i64);
    }
    format!("{v:.8e}").parse::<f64>().map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_script_element() {
        let p = Plot { title: "</script><!--&".into(), ..Plot::default() };
        let text = in_page(&plot(&p));
        assert!(!text.contains(['<', '>', '&']), "{text}");
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["title"], "</script><!--&");
    }

    #[test]
    fn numbers_are_short_and_finite() {
        assert_eq!(number(0.1 + 0.2).to_string(), "0.3");
        assert_eq!(number(1_190.0).to_string(), "1190");
        assert_eq!(number(f64::NAN), Value::Null);
        assert_eq!(number(1.23456789012), json!(1.23456789));
    }

    #[test]
    fn a_million_points_do_not_all_go_into_the_page() {
        let points = (0..1_000_000).map(|i| (f64::from(i), f64::from(i % 97))).collect();
        let p = Plot { series: vec![Series { points, ..Series::default() }], ..Plot::default() };
        assert!(plot(&p)["series"][0]["x"].as_array().unwrap().len() <= 16_004);
    }
}
