//! A [`Plot`] drawn with plotters.
//!
//! Everything is drawn at [`FINE`] times its size, because plotters places by
//! whole pixels; the caller scales it back (an SVG's `viewBox`). Colours are
//! stand-ins, one for each [`Role`]: [`super::svg`] replaces them by classes, so
//! that one drawing serves light, dark and print.

use super::heat::{Grid, edges};
use super::palette::{self, Role};
use super::scale::{Range, format_number, smallest_gap};
use super::thin;
use crate::doc::{Mark, Plot, Scale, Series, SeriesKind};
use crate::text::clean;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBAColor, RGBColor, ShapeStyle, TextStyle};
use unicode_width::UnicodeWidthStr;

/// Drawn units in a pixel.
pub(super) const FINE: i32 = 4;
/// Font size, in pixels. Plotters' own sizes are 1.24 times what it writes to SVG.
const FONT: f64 = 12.0 * 1.24;
/// Average width of a character, in pixels.
const CHARACTER: usize = 7;
const LINE: usize = 17;

/// The stand-in colour of a role: no colour that is ever meant as such.
pub(super) fn stand_in(role: Role) -> RGBColor {
    match role {
        Role::Series(i) => RGBColor(1, 254, (i % palette::SERIES) as u8),
        Role::Ink => RGBColor(1, 254, 100),
        Role::Dim => RGBColor(1, 254, 101),
        Role::Grid => RGBColor(1, 254, 102),
        Role::Mark => RGBColor(1, 254, 103),
        Role::Ground => RGBColor(1, 254, 104),
    }
}

/// An axis for plotters: a [`Range`] and its ticks.
#[derive(Clone)]
struct Coord {
    range: Range,
    ticks: Vec<(f64, String)>,
}

impl Ranged for Coord {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;
    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = self.range.norm(*value).unwrap_or(0.0).clamp(-1.0, 2.0);
        limit.0 + (place * f64::from(limit.1 - limit.0)).round() as i32
    }
    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|t| t.0).collect()
    }
    fn range(&self) -> std::ops::Range<f64> {
        self.range.min..self.range.max
    }
}

impl ValueFormatter<f64> for Coord {
    fn format(value: &f64) -> String {
        format_number(*value)
    }
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|t| t.0 == *value);
        clean(tick.map_or("", |t| t.1.as_str())).into_owned()
    }
}

/// The size of a drawing and what goes with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub width: u32,
    pub height: u32,
    /// Title above, and a ground behind.
    pub alone: bool,
}

/// Lanes of a Gantt plot or rows of a heat map decide the height; other plots are 320 high.
pub(super) fn height_of(plot: &Plot) -> u32 {
    let rows = match plot.series.first().map(|s| s.kind) {
        Some(SeriesKind::Heat) => plot
            .series
            .iter()
            .filter_map(Grid::of)
            .map(|g| g.ys.len())
            .max()
            .filter(|n| *n <= 24)
            .map(|n| n * 30),
        Some(SeriesKind::Spans) => {
            let range = Range::y_of(plot);
            Some((range.max - range.min).clamp(1.0, 40.0) as usize * 26)
        }
        _ => None,
    };
    let legend = legend_rows(plot, 800).len() * LINE;
    let heat = plot.series.iter().filter(|s| s.kind == SeriesKind::Heat).count() * (LINE + 4);
    let fixed = heat + rows.map_or(250, |r| r.clamp(60, 900));
    (fixed + 75 + legend) as u32
}

type Result<DB> = std::result::Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;
type Chart<'a, 'b, DB> = ChartContext<'a, DB, Cartesian2d<Coord, Coord>>;

/// Draws a plot over the whole of `root`, which is [`FINE`] times the frame.
pub(super) fn draw<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    plot: &Plot,
    frame: Frame,
) -> Result<DB> {
    let width = frame.width as usize;
    let x = Range::x_of(plot);
    let y = Range::y_of(plot);
    let widest = x.ticks(6).iter().map(|t| t.1.width()).max().unwrap_or(4);
    let x_ticks = x.ticks((width - 80) / (widest * CHARACTER + 24).max(60));
    let lanes = plot.y.scale == Scale::Category;
    let y_ticks = y.ticks(if lanes { 40 } else { 6 });
    let left = y_ticks.iter().map(|t| clean(&t.1).width()).max().unwrap_or(1) * CHARACTER + 14;
    let left = left.clamp(36, width * 9 / 20);

    let mut top = 8;
    if frame.alone {
        root.fill(&stand_in(Role::Ground))?;
        top += 4;
        words(root, &clean(&plot.title), (12, top as i32), Role::Ink, 1.25, left_top())?;
        top += 24;
    }
    top += legend(root, plot, top, width)?;
    top += ramp(root, plot, top)?;
    if !plot.y.label.is_empty() {
        let label = clean(&plot.y.label);
        words(root, &label, (8, top as i32), Role::Dim, 1.0, left_top())?;
        top += LINE;
    }
    let placed = place_marks(plot, &x, left, width);
    top += placed.iter().map(|m| m.row + 1).max().unwrap_or(0) * LINE + 4;

    let mut chart = ChartBuilder::on(root)
        .margin_top(top as i32 * FINE)
        .margin_right(14 * FINE)
        .margin_bottom(if plot.x.label.is_empty() { 4 } else { 22 } * FINE)
        .x_label_area_size(22 * FINE)
        .y_label_area_size(left as i32 * FINE)
        .build_cartesian_2d(
            Coord { range: x.clone(), ticks: x_ticks },
            Coord { range: y.clone(), ticks: y_ticks },
        )?;
    bands(&mut chart, plot, &y)?;
    axes(&mut chart, plot)?;
    for (k, s) in plot.series.iter().enumerate() {
        series(&mut chart, plot, k, s, (&x, &y))?;
    }
    lines_of_marks(&mut chart, plot, &x, &y)?;
    for m in &placed {
        let above = top as i32 - 4 - LINE as i32 * m.row as i32;
        words(
            root,
            &m.name,
            (m.center, above),
            Role::Mark,
            1.0,
            Pos::new(HPos::Center, VPos::Bottom),
        )?;
    }
    if !plot.x.label.is_empty() {
        let middle = (left + (width - left - 14) / 2) as i32;
        let at = (middle, frame.height as i32 - 4);
        let anchor = Pos::new(HPos::Center, VPos::Bottom);
        words(root, &clean(&plot.x.label), at, Role::Dim, 1.0, anchor)?;
    }
    Ok(())
}

fn left_top() -> Pos {
    Pos::new(HPos::Left, VPos::Top)
}

fn style(role: Role, scale: f64) -> TextStyle<'static> {
    TextStyle {
        font: ("sans-serif", FONT * scale * f64::from(FINE)).into_font(),
        color: stand_in(role).to_backend_color(),
        pos: left_top(),
    }
}

fn words<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    text: &str,
    at: (i32, i32),
    role: Role,
    scale: f64,
    anchor: Pos,
) -> Result<DB> {
    let at = (at.0 * FINE, at.1 * FINE);
    root.draw(&Text::new(text.to_owned(), at, style(role, scale).pos(anchor)))
}

/// The legend's rows: indices of series with their left edges. Empty for a single series.
fn legend_rows(plot: &Plot, width: usize) -> Vec<Vec<(usize, usize)>> {
    let mut rows: Vec<Vec<(usize, usize)>> = Vec::new();
    if plot.series.len() < 2 {
        return rows;
    }
    let mut at = width;
    for (k, s) in plot.series.iter().enumerate().take(40) {
        let need = clean(&s.name).width() * CHARACTER + 44;
        if at + need > width {
            rows.push(vec![]);
            at = 8;
        }
        if let Some(row) = rows.last_mut() {
            row.push((k, at));
        }
        at += need;
    }
    rows
}

/// Draws the legend from `top` down and says how high it is.
fn legend<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    plot: &Plot,
    top: usize,
    width: usize,
) -> std::result::Result<usize, DrawingAreaErrorKind<DB::ErrorType>> {
    let rows = legend_rows(plot, width);
    for (r, row) in rows.iter().enumerate() {
        let y = (top + r * LINE) as i32;
        for &(k, x) in row {
            let x = x as i32;
            let color = stand_in(Role::Series(k));
            let middle = (y + 7) * FINE;
            match plot.series[k].kind {
                SeriesKind::Line | SeriesKind::Step => root.draw(&PathElement::new(
                    vec![(x * FINE, middle), ((x + 22) * FINE, middle)],
                    color.stroke_width(2 * FINE as u32),
                ))?,
                SeriesKind::Points => {
                    root.draw(&Circle::new(((x + 11) * FINE, middle), 3 * FINE, color.filled()))?;
                }
                _ => root.draw(&Rectangle::new(
                    [((x + 6) * FINE, (y + 2) * FINE), ((x + 18) * FINE, (y + 13) * FINE)],
                    color.filled(),
                ))?,
            }
            let name = clean(&plot.series[k].name).into_owned();
            words(root, &name, (x + 28, y), Role::Ink, 1.0, left_top())?;
        }
    }
    Ok(rows.len() * LINE)
}

/// What the colours of heat maps mean: the smallest value, the colours, the
/// largest. Says how high it is.
fn ramp<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    plot: &Plot,
    top: usize,
) -> std::result::Result<usize, DrawingAreaErrorKind<DB::ErrorType>> {
    let mut used = 0;
    for s in plot.series.iter().filter(|s| s.kind == SeriesKind::Heat) {
        let Some(grid) = Grid::of(s) else { continue };
        let y = (top + used) as i32;
        let least = format!("{} {}", clean(&s.name), format_number(grid.min));
        words(root, &least, (8, y), Role::Dim, 1.0, left_top())?;
        let left = (8 + least.width() * CHARACTER + 6) as i32;
        const STEPS: i32 = 40;
        for i in 0..STEPS {
            let (r, g, b) = palette::heat(f64::from(i) / f64::from(STEPS - 1));
            let (a, z) = ((left + i * 3) * FINE, (left + i * 3 + 3) * FINE);
            let corners = [(a, (y + 1) * FINE), (z, (y + 12) * FINE)];
            root.draw(&Rectangle::new(corners, RGBColor(r, g, b).filled()))?;
        }
        let scale = if grid.logarithmic() { ", logarithmic" } else { "" };
        let most = format!("{}{scale}", format_number(grid.max));
        words(root, &most, (left + STEPS * 3 + 6, y), Role::Dim, 1.0, left_top())?;
        used += LINE + 4;
    }
    Ok(used)
}

/// The name of a vertical mark, where it stands.
struct PlacedMark {
    name: String,
    center: i32,
    row: usize,
}

/// Puts the names of vertical marks above the plot, in rows so that they do not overlap.
fn place_marks(plot: &Plot, x: &Range, left: usize, width: usize) -> Vec<PlacedMark> {
    let inner = (width - left - 14) as f64;
    let mut rows: Vec<i32> = Vec::new();
    let mut named: Vec<(f64, &String)> = (plot.marks.iter())
        .filter_map(|m| match m {
            Mark::X(v, name) => Some((x.norm(*v)?, name)),
            Mark::Band(a, b, name) => Some(((x.norm(*a)? + x.norm(*b)?) / 2.0, name)),
            Mark::Y(..) => None,
        })
        .filter(|(place, name)| (0.0..=1.0).contains(place) && !name.is_empty())
        .collect();
    named.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut placed = Vec::new();
    for (place, name) in named {
        let name = clean(name).into_owned();
        let half = (name.width() * CHARACTER / 2) as i32;
        let center = (left as f64 + place * inner) as i32;
        let center = center.clamp(half, (width as i32 - half - 4).max(half));
        let row = rows.iter().position(|end| *end < center - half - 6).unwrap_or(rows.len());
        if row >= 4 {
            continue;
        }
        if row == rows.len() {
            rows.push(0);
        }
        rows[row] = center + half;
        placed.push(PlacedMark { name, center, row });
    }
    placed
}

fn bands<DB: DrawingBackend>(chart: &mut Chart<'_, '_, DB>, plot: &Plot, y: &Range) -> Result<DB> {
    let each = plot.marks.iter().filter_map(|m| match m {
        Mark::Band(a, b, _) => Some((*a, *b)),
        _ => None,
    });
    let fill = stand_in(Role::Mark).mix(0.14).filled();
    chart.draw_series(each.map(|(a, b)| Rectangle::new([(a, y.min), (b, y.max)], fill))).map(|_| ())
}

fn axes<DB: DrawingBackend>(chart: &mut Chart<'_, '_, DB>, plot: &Plot) -> Result<DB> {
    let grid = ShapeStyle::from(stand_in(Role::Grid)).stroke_width(FINE as u32);
    let mut mesh = chart.configure_mesh();
    if matches!(plot.series.first().map(|s| s.kind), Some(SeriesKind::Heat)) {
        mesh.disable_mesh();
    }
    if matches!(plot.x.scale, Scale::Linear | Scale::Category) {
        mesh.disable_x_mesh();
    }
    mesh.bold_line_style(grid)
        .light_line_style(RGBAColor(0, 0, 0, 0.0))
        .axis_style(ShapeStyle::from(stand_in(Role::Dim)).stroke_width(FINE as u32))
        .label_style(style(Role::Dim, 1.0))
        .set_all_tick_mark_size(4 * FINE)
        .draw()
}

fn lines_of_marks<DB: DrawingBackend>(
    chart: &mut Chart<'_, '_, DB>,
    plot: &Plot,
    x: &Range,
    y: &Range,
) -> Result<DB> {
    let line = stand_in(Role::Mark).stroke_width(FINE as u32);
    for m in &plot.marks {
        match m {
            Mark::X(v, _) if x.norm(*v).is_some() => {
                chart
                    .plotting_area()
                    .draw(&PathElement::new(vec![(*v, y.min), (*v, y.max)], line))?;
            }
            Mark::Y(v, name) if y.norm(*v).is_some() => {
                let area = chart.plotting_area();
                area.draw(&PathElement::new(vec![(x.min, *v), (x.max, *v)], line))?;
                let anchor = Pos::new(HPos::Right, VPos::Bottom);
                let style = style(Role::Mark, 1.0).pos(anchor);
                area.draw(&Text::new(clean(name).into_owned(), (x.max, *v), style))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn series<DB: DrawingBackend>(
    chart: &mut Chart<'_, '_, DB>,
    plot: &Plot,
    k: usize,
    s: &Series,
    (x, y): (&Range, &Range),
) -> Result<DB> {
    match s.kind {
        SeriesKind::Line => line(chart, k, s, x, y),
        SeriesKind::Step => step(chart, plot, k, s, x, y),
        SeriesKind::Points => points(chart, plot, k, s, x, y),
        SeriesKind::Bars => bars(chart, plot, k, s, y),
        SeriesKind::Heat => heat(chart, plot, s),
        SeriesKind::Spans => spans(chart, k, s, x),
    }
}

/// Runs of neighbouring points that the axes can show.
fn runs(points: &[(f64, f64)], x: &Range, y: &Range) -> Vec<Vec<(f64, f64)>> {
    let visible = |p: &(f64, f64)| x.norm(p.0).is_some() && y.norm(p.1).is_some();
    let kept: Vec<(f64, f64)> =
        thin::keep(points, x, 1600).into_iter().map(|i| points[i]).collect();
    let groups = kept.split(|p| !visible(p)).filter(|g| !g.is_empty());
    groups.map(<[_]>::to_vec).collect()
}

fn line<DB: DrawingBackend>(
    chart: &mut Chart<'_, '_, DB>,
    k: usize,
    s: &Series,
    x: &Range,
    y: &Range,
) -> Result<DB> {
    let color = stand_in(Role::Series(k));
    if s.intervals.len() == s.points.len() {
        let floor = |v: f64| if y.norm(v).is_some() { v } else { y.min };
        let both = s.points.iter().zip(&s.intervals).filter(|(p, _)| x.norm(p.0).is_some());
        let both: Vec<_> = both.filter(|(_, i)| i.0.is_finite() && i.1.is_finite()).collect();
        let up = both.iter().map(|(p, i)| (p.0, floor(i.1)));
        let down = both.iter().rev().map(|(p, i)| (p.0, floor(i.0)));
        let outline: Vec<(f64, f64)> = up.chain(down).collect();
        if outline.len() > 2 {
            chart.plotting_area().draw(&Polygon::new(outline, color.mix(0.18).filled()))?;
        }
    }
    for run in runs(&s.points, x, y) {
        if run.len() <= 60 {
            let dots = run.iter().map(|p| Circle::new(*p, 5 * FINE / 2, color.filled()));
            chart.draw_series(dots)?;
        }
        chart.plotting_area().draw(&PathElement::new(run, color.stroke_width(2 * FINE as u32)))?;
    }
    Ok(())
}

/// A staircase; what a logarithmic axis cannot show (an empty bin) lies on the floor.
fn step<DB: DrawingBackend>(
    chart: &mut Chart<'_, '_, DB>,
    plot: &Plot,
    k: usize,
    s: &Series,
    x: &Range,
    y: &Range,
) -> Result<DB> {
    let color = stand_in(Role::Series(k));
    let kept = thin::keep(&s.points, x, 1600);
    let mut stairs: Vec<(f64, f64)> = Vec::with_capacity(kept.len() * 2);
    for p in kept.into_iter().map(|i| s.points[i]).filter(|p| x.norm(p.0).is_some()) {
        let height = if y.norm(p.1).is_some() { p.1.max(y.min) } else { y.min };
        if let Some(last) = stairs.last().copied() {
            stairs.push((p.0, last.1));
        }
        stairs.push((p.0, height));
    }
    if stairs.len() < 2 {
        return Ok(());
    }
    if plot.series.len() == 1 {
        let mut outline = stairs.clone();
        outline.push((stairs[stairs.len() - 1].0, y.min));
        outline.push((stairs[0].0, y.min));
        chart.plotting_area().draw(&Polygon::new(outline, color.mix(0.22).filled()))?;
    }
    let width = if plot.series.len() == 1 { 6 } else { 7 } * FINE as u32 / 4;
    chart.plotting_area().draw(&PathElement::new(stairs, color.stroke_width(width)))
}

fn points<DB: DrawingBackend>(
    chart: &mut Chart<'_, '_, DB>,
    plot: &Plot,
    k: usize,
    s: &Series,
    x: &Range,
    y: &Range,
) -> Result<DB> {
    let color = stand_in(Role::Series(k));
    // Dots on the same pixel are one dot.
    let mut seen = std::collections::BTreeSet::new();
    // Points beside lines are single cases: larger than the points of a line.
    let beside = plot.series.iter().any(|s| s.kind == SeriesKind::Line);
    let radius = if beside {
        18
    } else if s.points.len() > 400 {
        6
    } else {
        10
    } * FINE
        / 4;
    for p in &s.points {
        let (Some(px), Some(py)) = (x.norm(p.0), y.norm(p.1)) else { continue };
        if seen.insert(((px * 800.0) as i64, (py * 260.0) as i64)) {
            chart.plotting_area().draw(&Circle::new(*p, radius, color.filled()))?;
        }
    }
    for (p, i) in s.points.iter().zip(&s.intervals) {
        whisker(chart, *p, *i, color, y)?;
    }
    Ok(())
}

fn whisker<DB: DrawingBackend>(
    chart: &mut Chart<'_, '_, DB>,
    p: (f64, f64),
    (low, high): (f64, f64),
    color: RGBColor,
    y: &Range,
) -> Result<DB> {
    let floor = |v: f64| if y.norm(v).is_some() { v } else { y.min };
    let ends = vec![(p.0, floor(low)), (p.0, floor(high))];
    chart.plotting_area().draw(&PathElement::new(ends, color.stroke_width(FINE as u32)))
}

fn bars<DB: DrawingBackend>(
    chart: &mut Chart<'_, '_, DB>,
    plot: &Plot,
    k: usize,
    s: &Series,
    y: &Range,
) -> Result<DB> {
    let together: Vec<usize> = (plot.series.iter().enumerate())
        .filter(|(_, s)| s.kind == SeriesKind::Bars)
        .map(|(i, _)| i)
        .collect();
    let place = together.iter().position(|i| *i == k).unwrap_or(0) as f64;
    let gap = if plot.x.scale == Scale::Category { 1.0 } else { smallest_gap(plot) };
    let width = gap * 0.8 / together.len().max(1) as f64;
    let color = stand_in(Role::Series(k));
    let foot = if y.norm(0.0).is_some() { 0.0 } else { y.min };
    for (i, p) in s.points.iter().enumerate().filter(|(_, p)| y.norm(p.1).is_some()) {
        let left = p.0 - gap * 0.4 + place * width;
        let corners = [(left, p.1), (left + width * 0.94, foot)];
        chart.plotting_area().draw(&Rectangle::new(corners, color.mix(0.85).filled()))?;
        if let Some(interval) = s.intervals.get(i) {
            let ink = stand_in(Role::Ink);
            whisker(chart, (left + width * 0.47, p.1), *interval, ink, y)?;
        }
    }
    Ok(())
}

fn heat<DB: DrawingBackend>(chart: &mut Chart<'_, '_, DB>, plot: &Plot, s: &Series) -> Result<DB> {
    let Some(grid) = Grid::of(s) else { return Ok(()) };
    let log = |scale| matches!(scale, Scale::Log10 | Scale::Log2);
    let (xs, ys) = (edges(&grid.xs, log(plot.x.scale)), edges(&grid.ys, log(plot.y.scale)));
    let written = grid.xs.len() <= 14 && grid.ys.len() <= 24;
    for (i, v) in grid.cells.iter().enumerate() {
        let Some(v) = v else { continue };
        let (row, column) = (i / grid.xs.len(), i % grid.xs.len());
        let place = grid.shade(*v);
        let (r, g, b) = palette::heat(place);
        let corners = [(xs[column], ys[row + 1]), (xs[column + 1], ys[row])];
        chart.plotting_area().draw(&Rectangle::new(corners, RGBColor(r, g, b).filled()))?;
        if written {
            let ink = if palette::wants_white(place) {
                RGBColor(255, 255, 255)
            } else {
                RGBColor(0, 0, 0)
            };
            let style = TextStyle::from(("sans-serif", FONT * f64::from(FINE)).into_font())
                .color(&ink)
                .pos(Pos::new(HPos::Center, VPos::Center));
            let center = (grid.xs[column], grid.ys[row]);
            chart.plotting_area().draw(&Text::new(format_number(*v), center, style))?;
        }
    }
    Ok(())
}

/// Bars on lanes; those that would be thinner than a pixel are widened and joined.
fn spans<DB: DrawingBackend>(
    chart: &mut Chart<'_, '_, DB>,
    k: usize,
    s: &Series,
    x: &Range,
) -> Result<DB> {
    let color = stand_in(Role::Series(k)).mix(0.9).filled();
    let pixel = 1.0 / 800.0;
    let mut each: Vec<(f64, f64, f64)> = (s.points.iter().zip(&s.values))
        .filter_map(|(p, end)| {
            let (a, b) = (x.norm(p.0)?, x.norm(*end)?);
            p.1.is_finite().then(|| (p.1, a.min(b), b.max(a).max(a.min(b) + pixel)))
        })
        .collect();
    each.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut joined: Vec<(f64, f64, f64)> = Vec::new();
    for span in each {
        match joined.last_mut() {
            Some(last) if last.0 == span.0 && span.1 <= last.2 && span.2 - last.1 < 4.0 * pixel => {
                last.2 = last.2.max(span.2);
            }
            _ => joined.push(span),
        }
    }
    let rectangles = joined.into_iter().map(|(lane, a, b)| {
        Rectangle::new([(x.at(a), lane + 0.36), (x.at(b), lane - 0.36)], color)
    });
    chart.draw_series(rectangles).map(|_| ())
}
