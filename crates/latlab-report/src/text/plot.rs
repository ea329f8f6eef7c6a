//! A plot as a sketch of characters: enough to see a shape; the figures are in the tables.
//!
//! Bars and staircases are columns of `▁▂▃▄▅▆▇█`, one strip a series so that
//! they can be compared; lines and points are a braille grid, two by four dots
//! a character, with a letter a series; heat maps are shades, spans are lanes.

use super::clean;
use crate::doc::{Plot, Scale, Series, SeriesKind};
use crate::plot::heat::Grid;
use crate::plot::scale::Range;
use unicode_width::UnicodeWidthStr;

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];
/// Distinguishable on dark and light: cyan, yellow, magenta, green, blue, red.
const SGR: [&str; 6] = ["36", "33", "35", "32", "34", "31"];
/// Series that a sketch shows at most.
const SERIES_MAX: usize = 12;

/// The sketch, line by line; empty where there is nothing to draw.
pub(super) fn sketch(plot: &Plot, width: usize, color: bool) -> Vec<String> {
    if plot.series.iter().all(|s| s.points.is_empty()) {
        return vec!["(nothing to draw)".into()];
    }
    let kind = plot.series.first().map(|s| s.kind).unwrap_or_default();
    let mut lines = match kind {
        SeriesKind::Bars if plot.x.scale == Scale::Category => named_bars(plot, width),
        SeriesKind::Bars | SeriesKind::Step => strips(plot, width, color),
        SeriesKind::Heat => shades(plot, width),
        SeriesKind::Spans => lanes(plot, width, color),
        SeriesKind::Line | SeriesKind::Points => braille(plot, width, color),
    };
    if plot.series.len() > SERIES_MAX && kind != SeriesKind::Heat {
        lines.push(format!("({} more series in the report)", plot.series.len() - SERIES_MAX));
    }
    lines
}

fn paint(color: bool, series: usize, text: &str) -> String {
    if color { format!("\x1b[{}m{text}\x1b[0m", SGR[series % SGR.len()]) } else { text.to_owned() }
}

fn label(text: &str, width: usize) -> String {
    let text = clean(text).replace(['\n', '\t'], " ");
    let mut cut = String::new();
    for c in text.chars() {
        if cut.width() + 1 >= width && text.width() > width {
            cut.push('…');
            break;
        }
        cut.push(c);
    }
    format!("{cut}{}", " ".repeat(width.saturating_sub(cut.width())))
}

/// The horizontal axis: a rule with ticks, and their labels below.
fn x_axis(range: &Range, axis_label: &str, margin: usize, columns: usize) -> Vec<String> {
    let mut rule = vec!['─'; columns];
    let mut names = vec![' '; columns + 10];
    let mut free = 0;
    for (v, name) in range.ticks((columns / 9).max(2)) {
        let Some(at) = range.norm(v).filter(|p| (0.0..=1.0).contains(p)) else { continue };
        let at = (at * (columns - 1) as f64).round() as usize;
        let name = clean(&name).into_owned();
        let start = at.saturating_sub(name.chars().count() / 2);
        if start < free || start + name.chars().count() > names.len() {
            continue;
        }
        rule[at] = '┴';
        for (i, c) in name.chars().enumerate() {
            names[start + i] = c;
        }
        free = start + name.chars().count() + 1;
    }
    let pad = " ".repeat(margin);
    let mut lines = vec![
        format!("{pad}{}", rule.iter().collect::<String>()),
        format!("{pad}{}", names.iter().collect::<String>().trim_end()),
    ];
    if !axis_label.is_empty() {
        lines.push(format!("{pad}{}", clean(axis_label)));
    }
    lines
}

/// Histograms: the value of every column is the largest that falls into it, so that a tail of one stays visible.
fn strips(plot: &Plot, width: usize, color: bool) -> Vec<String> {
    let shown = &plot.series[..plot.series.len().min(SERIES_MAX)];
    let one = shown.len() == 1;
    let margin = if one { 10 } else { margin_for(shown, width) };
    let columns = width.saturating_sub(margin + 2).clamp(10, 90);
    let (x, y) = (Range::x_of(plot), Range::y_of(plot));
    let rows = match shown.len() {
        1 => 6,
        2..=3 => 2,
        _ => 1,
    };
    let ticks = y.ticks(rows / 2);
    let mut lines = Vec::new();
    for (k, s) in shown.iter().enumerate() {
        let heights = heights(s, &x, &y, columns);
        for row in (0..rows).rev() {
            let cell = |h: &f64| {
                // Anything above the floor shows at least the lowest eighth.
                let eighths = (h * (rows * 8) as f64).ceil() as usize;
                EIGHTHS[eighths.saturating_sub(row * 8).min(8)]
            };
            let text: String = heights.iter().map(cell).collect();
            let text = paint(color, k, text.trim_end());
            let head = match (one, row) {
                (true, _) => format!("{}  ", tick_at(&ticks, &y, row, rows)),
                (false, 0) => label(&s.name, margin - 1) + " ",
                _ => " ".repeat(margin),
            };
            lines.push(format!("{head}{text}"));
        }
    }
    lines.extend(x_axis(&x, &axes_label(plot), margin, columns));
    lines
}

/// The tick that belongs to a row (0 is the lowest), with a mark; blank where there is none.
fn tick_at(ticks: &[(f64, String)], y: &Range, row: usize, rows: usize) -> String {
    let here = |v: f64| y.norm(v).is_some_and(|p| (p * (rows - 1) as f64).round() as usize == row);
    let tick = ticks.iter().find(|(v, _)| here(*v));
    tick.map_or(" ".repeat(8), |(_, name)| format!("{:>7}┤", clip(&clean(name), 7)))
}

fn axes_label(plot: &Plot) -> String {
    let log = matches!(plot.y.scale, Scale::Log10 | Scale::Log2);
    match (plot.y.label.is_empty(), log) {
        (true, _) => plot.x.label.clone(),
        (false, true) => format!("{} — upwards: {}, logarithmic", plot.x.label, plot.y.label),
        (false, false) => format!("{} — upwards: {}", plot.x.label, plot.y.label),
    }
}

fn heights(s: &Series, x: &Range, y: &Range, columns: usize) -> Vec<f64> {
    let place = |v: f64| x.norm(v).map(|p| (p.clamp(0.0, 1.0) * (columns - 1) as f64).round());
    let mut heights = vec![0.0f64; columns];
    for (i, &(px, py)) in s.points.iter().enumerate() {
        let Some(from) = place(px) else { continue };
        let from = from as usize;
        // A step reaches to the next one, a bar stands where it is.
        let to = match (s.kind, s.points.get(i + 1)) {
            (SeriesKind::Step, Some(next)) => place(next.0).map_or(from + 1, |t| t as usize),
            _ => from + 1,
        };
        for h in &mut heights[from..to.max(from + 1).min(columns)] {
            *h = h.max(y.norm_or_floor(py));
        }
    }
    heights
}

fn margin_for(series: &[Series], width: usize) -> usize {
    let widest = series.iter().map(|s| clean(&s.name).width()).max().unwrap_or(0);
    widest.min(width / 3).max(4) + 1
}

/// Bars with names: one line a bar, its value behind it.
fn named_bars(plot: &Plot, width: usize) -> Vec<String> {
    let y = Range::y_of(plot);
    let name = |v: f64| plot.x.categories.get(v.max(0.0) as usize).map_or("", String::as_str);
    let names = plot.series.iter().flat_map(|s| &s.points).map(|p| clean(name(p.0)).width());
    let margin = names.max().unwrap_or(0).clamp(4, width / 3) + 1;
    let columns = width.saturating_sub(margin + 12).clamp(8, 60);
    let mut lines = Vec::new();
    for s in plot.series.iter().take(SERIES_MAX) {
        if plot.series.len() > 1 {
            lines.push(clean(&s.name).into_owned());
        }
        for &(px, py) in &s.points {
            let eighths = (y.norm_or_floor(py) * (columns * 8) as f64).round() as usize;
            let mut bar = "█".repeat(eighths / 8);
            bar.push_str(["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]);
            let value = crate::plot::scale::format_number(py);
            lines.push(format!("{} {bar} {value}", label(name(px), margin - 1)));
        }
    }
    if !plot.y.label.is_empty() {
        lines.push(format!("{}{}", " ".repeat(margin), clean(&plot.y.label)));
    }
    lines
}

/// A grid of braille cells: dots by cell, and which series drew last.
struct Canvas {
    columns: usize,
    rows: usize,
    dots: Vec<(u8, usize)>,
}

impl Canvas {
    fn dot(&mut self, px: i64, py: i64, series: usize) {
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        if px < 0 || py < 0 || px >= self.columns as i64 * 2 || py >= self.rows as i64 * 4 {
            return;
        }
        let (px, py) = (px as usize, py as usize);
        let cell = &mut self.dots[py / 4 * self.columns + px / 2];
        *cell = (cell.0 | BITS[py % 4][px % 2], series);
    }

    fn line(&mut self, a: (f64, f64), b: (f64, f64), series: usize) {
        let steps = (b.0 - a.0).abs().max((b.1 - a.1).abs()).ceil().clamp(1.0, 4096.0);
        for i in 0..=steps as u32 {
            let t = f64::from(i) / steps;
            let (x, y) = (a.0 + t * (b.0 - a.0), a.1 + t * (b.1 - a.1));
            self.dot(x.round() as i64, y.round() as i64, series);
        }
    }
}

fn braille(plot: &Plot, width: usize, color: bool) -> Vec<String> {
    let margin = 9;
    let (columns, rows) = (width.saturating_sub(margin + 2).clamp(10, 90), 10);
    let (x, y) = (Range::x_of(plot), Range::y_of(plot));
    let mut canvas = Canvas { columns, rows, dots: vec![(0, 0); columns * rows] };
    let mut letters = vec![None; columns * rows];
    let shown = &plot.series[..plot.series.len().min(SERIES_MAX)];
    for (k, s) in shown.iter().enumerate() {
        let spot = |p: &(f64, f64)| {
            let (px, py) = (x.norm(p.0)?, y.norm(p.1)?);
            Some((px * (columns * 2 - 1) as f64, (1.0 - py) * (rows * 4 - 1) as f64))
        };
        let spots: Vec<_> = s.points.iter().map(spot).collect();
        for p in spots.iter().flatten() {
            canvas.dot(p.0.round() as i64, p.1.round() as i64, k);
        }
        if s.kind != SeriesKind::Points {
            for pair in spots.windows(2) {
                if let [Some(a), Some(b)] = pair {
                    canvas.line(*a, *b, k);
                }
            }
        }
        // A letter near the right end names the line where there are several.
        let cells = spots.iter().rev().flatten().map(|p| {
            (p.1 / 4.0).min((rows - 1) as f64) as usize * columns
                + ((p.0 / 2.0) as usize).min(columns - 1)
        });
        let mut free = cells.filter(|&c| letters.get(c).is_some_and(Option::is_none));
        if let Some(cell) = free.next().filter(|_| shown.len() > 1) {
            letters[cell] = Some(k);
        }
    }
    let mut lines = Vec::new();
    let ticks = y.ticks(4);
    for row in 0..rows {
        let head = tick_at(&ticks, &y, rows - 1 - row, rows);
        let mut text = String::new();
        for column in 0..columns {
            let (dots, series) = canvas.dots[row * columns + column];
            match letters[row * columns + column] {
                Some(k) => text.push_str(&paint(color, k, &letter(k).to_string())),
                None if dots == 0 => text.push(' '),
                None => {
                    let c = char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' ');
                    text.push_str(&paint(color, series, &c.to_string()));
                }
            }
        }
        lines.push(format!("{head} {}", text.trim_end()));
    }
    lines.extend(x_axis(&x, &axes_label(plot), margin, columns));
    lines.extend(legend(shown, color, margin));
    lines
}

fn clip(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

fn letter(series: usize) -> char {
    char::from(b'a' + (series % 26) as u8)
}

fn legend(series: &[Series], color: bool, margin: usize) -> Vec<String> {
    if series.len() < 2 {
        return vec![];
    }
    let entry = |(k, s): (usize, &Series)| {
        let name = clean(&s.name);
        format!("{}{} {name}", " ".repeat(margin), paint(color, k, &letter(k).to_string()))
    };
    series.iter().enumerate().map(entry).collect()
}

fn shades(plot: &Plot, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for s in plot.series.iter().take(SERIES_MAX) {
        let Some(grid) = Grid::of(s) else { continue };
        let margin = 10;
        let columns = width.saturating_sub(margin + 2).clamp(10, 90);
        let cell = (columns / grid.xs.len()).clamp(1, 6);
        let skip = grid.xs.len().div_ceil(columns);
        let tall = grid.ys.len().div_ceil(24);
        for rows in (0..grid.ys.len()).collect::<Vec<_>>().chunks(tall).rev() {
            let name = axis_name(&plot.y, grid.ys[rows[0]]);
            let mut text = format!("{:>9} ", clip(&clean(&name), 9));
            for start in (0..grid.xs.len()).step_by(skip) {
                // The largest of what shares a character: a hot spot must not vanish.
                let block = rows.iter().flat_map(|r| {
                    let row = r * grid.xs.len();
                    (start..(start + skip).min(grid.xs.len())).map(move |c| row + c)
                });
                let most = block.filter_map(|i| grid.cells[i]).reduce(f64::max);
                let c = most.map_or(' ', |v| {
                    SHADES[((grid.shade(v) * 5.0) as usize).min(SHADES.len() - 1)]
                });
                text.extend(std::iter::repeat_n(c, cell));
            }
            lines.push(text.trim_end().to_owned());
        }
        let (first, last) = (grid.xs.first(), grid.xs.last());
        if let (Some(first), Some(last)) = (first, last) {
            lines.push(format!(
                "{}{} … {}  {}",
                " ".repeat(margin),
                clean(&axis_name(&plot.x, *first)),
                clean(&axis_name(&plot.x, *last)),
                clean(&plot.x.label)
            ));
        }
        let number = crate::plot::scale::format_number;
        let scale = if grid.logarithmic() { ", logarithmic" } else { "" };
        lines.push(format!(
            "{}· {} … █ {}  {}{scale}",
            " ".repeat(margin),
            number(grid.min),
            number(grid.max),
            clean(&s.name)
        ));
    }
    lines
}

fn axis_name(axis: &crate::doc::Axis, v: f64) -> String {
    match axis.scale {
        Scale::Category => axis.categories.get(v.max(0.0) as usize).cloned().unwrap_or_default(),
        _ if axis.bytes => crate::plot::scale::format_bytes(v),
        _ => crate::plot::scale::format_number(v),
    }
}

fn lanes(plot: &Plot, width: usize, color: bool) -> Vec<String> {
    let shown = &plot.series[..plot.series.len().min(26)];
    let mut ys: Vec<f64> = shown.iter().flat_map(|s| s.points.iter().map(|p| p.1)).collect();
    ys.sort_unstable_by(f64::total_cmp);
    ys.dedup();
    ys.truncate(64);
    let margin = ys.iter().map(|y| clean(&axis_name(&plot.y, *y)).width()).max().unwrap_or(0);
    let margin = margin.clamp(4, width / 3) + 1;
    let columns = width.saturating_sub(margin + 2).clamp(10, 90);
    let x = Range::x_of(plot);
    let mut lines = Vec::new();
    for lane in ys {
        // What each series has of each cell: the largest share is shown, however narrow.
        let mut shares = vec![vec![0.0; shown.len()]; columns];
        for (k, s) in shown.iter().enumerate() {
            for (p, end) in s.points.iter().zip(&s.values).filter(|(p, _)| p.1 == lane) {
                let (Some(a), Some(b)) = (x.norm(p.0), x.norm(*end)) else { continue };
                let place = |v: f64| v.clamp(0.0, 1.0) * (columns - 1) as f64 + 0.5;
                let (a, b) = (place(a), place(b).max(place(a) + 1e-9));
                for (n, cell) in shares.iter_mut().enumerate().take(b as usize + 1).skip(a as usize)
                {
                    cell[k] += b.min(n as f64 + 1.0) - a.max(n as f64);
                }
            }
        }
        let largest = |cell: &Vec<f64>| {
            let most = cell.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
            (*most.1 > 0.0).then_some(most.0)
        };
        let cells: Vec<Option<usize>> = shares.iter().map(largest).collect();
        let draw = |c: &Option<usize>| match c {
            None => " ".into(),
            Some(k) if shown.len() == 1 => paint(color, *k, "█"),
            Some(k) => paint(color, *k, &letter(*k).to_string()),
        };
        let text: String = cells.iter().map(draw).collect();
        lines.push(format!("{} {}", label(&axis_name(&plot.y, lane), margin - 1), text.trim_end()));
    }
    lines.extend(x_axis(&x, &plot.x.label, margin, columns));
    lines.extend(legend(shown, color, margin));
    lines
}
