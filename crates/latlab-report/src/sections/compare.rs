//! A comparison: differences of the machines, verdicts, values, plots.

mod plots;

use self::plots::{letter, take_common_parameters};
use crate::doc::{Block, Column, Section, Table};
use crate::messages;
use crate::values::{change, figure};
use latlab_model::compare::{
    Aspect, CompareDetail, Contrast, Figures, MachineDifference, Method, Metric, Side, UNBOUNDED,
    Verdict,
};
use latlab_model::record::Unit;
use latlab_model::run::Part;

/// Sections of a part.
pub fn sections(_part: &Part, d: &CompareDetail) -> Vec<Section> {
    let mut blocks = vec![Block::Table(subjects(d))];
    for s in &d.subjects {
        blocks.extend(
            s.notes.iter().map(|n| Block::Text(format!("{}: {}.", s.letter, messages::note(n)))),
        );
    }
    blocks.push(match machines(d) {
        Some(table) => Block::Table(table),
        None => Block::Text("No known difference between the machines.".into()),
    });
    let mut out = vec![Section { id: "compare".into(), title: "Subjects".into(), blocks }];
    let mut blocks = vec![Block::Table(verdicts(d)), Block::Text(tested(d))];
    if !d.skipped.is_empty() {
        blocks.push(Block::Table(skipped(d)));
    }
    out.push(Section { id: "verdicts".into(), title: "Verdicts".into(), blocks });
    if let Some(table) = figures(d) {
        out.push(Section {
            id: "minimum-mean-maximum".into(),
            title: "Minimum, mean and maximum".into(),
            blocks: vec![Block::Table(table)],
        });
    }
    out.push(Section {
        id: "values".into(),
        title: "Values".into(),
        blocks: d.metrics.iter().flat_map(metric).collect(),
    });
    let plots: Vec<Block> = plots::all(d).into_iter().map(|p| Block::Plot(Box::new(p))).collect();
    if !plots.is_empty() {
        out.push(Section { id: "overlay".into(), title: "Plots".into(), blocks: plots });
    }
    out
}

/// Each metric compared with the first subject.
fn contrasts(d: &CompareDetail) -> impl Iterator<Item = (&Metric, &Contrast)> {
    d.metrics.iter().flat_map(|m| m.contrasts.iter().map(move |c| (m, c)))
}

/// The first screen: the verdicts, with which each sentence begins. Of two subjects the second is the one
/// compared.
pub fn screen(d: &CompareDetail) -> Vec<Block> {
    let several = d.subjects.len() != 2;
    let mut labels: Vec<String> = contrasts(d).map(|(m, _)| m.label.clone()).collect();
    let common = take_common_parameters(&mut labels);
    let mut caption = "Compared with A".to_owned();
    if !common.is_empty() {
        caption = format!("{caption}, all with {}", common.join(", "));
    }
    let mut columns = vec![Column::left("metric")];
    columns.extend(several.then(|| Column::left("")));
    columns.push(Column::left("verdict and values"));
    let rows = contrasts(d).zip(labels).map(|((m, c), label)| {
        let mut row = vec![label];
        row.extend(several.then(|| letter(d, c.other)));
        row.push(sentence(c, m.unit));
        row
    });
    if d.metrics.is_empty() {
        return figures(d).map(Block::Table).into_iter().collect();
    }
    vec![Block::Table(Table { caption, columns, rows: rows.collect() })]
}

/// The comparison in words, worst first.
pub fn summary(d: &CompareDetail) -> Vec<String> {
    let mut out = Vec::new();
    if !d.machines.is_empty() {
        let names: Vec<String> = d.machines.iter().map(machine_label).take(6).collect();
        out.push(format!("The machines differ in {}.", names.join(", ")));
    }
    for verdict in [Verdict::Worse, Verdict::Better, Verdict::RunsDiffer] {
        for (m, c) in contrasts(d).filter(|(_, c)| c.verdict == verdict).take(5) {
            let other = letter(d, c.other);
            out.push(format!("{} in {other}: {}.", m.label, sentence(c, m.unit)));
        }
    }
    if d.metrics.is_empty() {
        out.push("No metric in common; published values stand beside measured ones.".into());
        return out;
    }
    let count = |v| contrasts(d).filter(|(_, c)| c.verdict == v).count();
    let runs_differ = match count(Verdict::RunsDiffer) {
        0 => String::new(),
        n => format!("{n} differ between these runs, "),
    };
    out.push(format!(
        "{} worse, {} better, {} without difference, {runs_differ}{} inconclusive.",
        count(Verdict::Worse),
        count(Verdict::Better),
        count(Verdict::NoDifference),
        count(Verdict::Inconclusive)
    ));
    if !runs_differ.is_empty() {
        out.push(
            "Two runs of one build can differ, too: with three runs or more on each side (--base, --new) the \
             verdict is better, worse or no difference."
                .into(),
        );
    }
    out
}

fn tested(d: &CompareDetail) -> String {
    let rate = match contrasts(d).any(|(_, c)| c.aspects.iter().any(|a| a.is_rate)) {
        true => "; rate: no change by a factor of 2 or more",
        false => "",
    };
    format!(
        "{} tests; probability of any false \u{201c}better\u{201d} or \u{201c}worse\u{201d} at most {} %. Differences below {} % are ignored; \u{201c}no difference\u{201d} excludes differences above {} %{rate}.",
        d.tests,
        d.options.level * 100.0,
        d.options.margin * 100.0,
        d.options.within * 100.0
    )
}

/// A verdict in words.
pub(super) fn verdict_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::NoDifference => "no difference",
        Verdict::Inconclusive => "inconclusive",
        Verdict::RunsDiffer => "these runs differ",
        Verdict::Worse => "worse",
    }
}

fn method_words(method: Method) -> &'static str {
    match method {
        Method::None => "",
        Method::BlockBootstrap => "block bootstrap",
        Method::OrderStatistics => "order statistics",
        Method::Score => "score",
        Method::Ranks => "ranks",
        Method::Runs => "runs (Welch)",
    }
}

/// `kernel build` of `kernel-build`; names of the kernel are shown as they are.
fn machine_label(m: &MachineDifference) -> String {
    match m.what.as_str() {
        "cpus-online" => "CPUs online".into(),
        "isolated-cpus" => "isolated CPUs".into(),
        "rt-throttling" => "real-time throttling".into(),
        own if own.chars().all(|c| c.is_ascii_lowercase() || c == '-') => own.replace('-', " "),
        kernel => kernel.to_owned(),
    }
}

/// `median`, `p99.9`, `rate over 100 µs`.
fn aspect_name(a: &Aspect, unit: Unit) -> String {
    match (a.quantile, a.limit) {
        (Some(q), _) => crate::values::quantile_name(q),
        (None, Some(limit)) => format!("rate over {}", figure(limit, unit)),
        (None, None) => a.what.clone(),
    }
}

/// A value of an aspect; rates as shares of the values.
fn value(value: f64, is_rate: bool, unit: Unit) -> String {
    if !is_rate {
        figure(value, unit)
    } else if value == 0.0 {
        "none".into()
    } else if value < 0.001 {
        format!("{value:.2e}")
    } else {
        format!("{:.3} %", value * 100.0)
    }
}

/// The verdict of a contrast with the values that decide it.
pub fn sentence(c: &Contrast, unit: Unit) -> String {
    if !c.sentence.is_empty() {
        return c.sentence.clone();
    }
    let mut words = decided(c, unit);
    if let Some(power) = &c.power {
        words += "; ";
        words += &messages::note(power);
    }
    words
}

fn decided(c: &Contrast, unit: Unit) -> String {
    let values = |a: &Aspect| {
        let (before, after) = (value(a.a, a.is_rate, unit), value(a.b, a.is_rate, unit));
        format!("{} {before} → {after} ({}", aspect_name(a, unit), change(a.change))
    };
    let full = |a: &Aspect| format!("{}, {})", values(a), interval(a));
    let list = |v: Verdict| -> Vec<String> {
        c.aspects.iter().filter(|a| a.verdict == v).map(full).collect()
    };
    let word = verdict_words(c.verdict);
    match c.verdict {
        Verdict::Worse | Verdict::Better => {
            let mut words = format!("{word}: {}", list(c.verdict).join(", "));
            let better = list(Verdict::Better);
            if c.verdict == Verdict::Worse && !better.is_empty() {
                words += &format!("; better: {}", better.join(", "));
            }
            words
        }
        Verdict::RunsDiffer => format!("{word}: {}", list(c.verdict).join(", ")),
        Verdict::NoDifference => {
            let shares = c.aspects.iter().filter(|a| !a.is_rate);
            let largest = shares.map(|a| a.low.abs().max(a.high.abs())).reduce(f64::max);
            let larger = |x: f64| format!("no difference larger than {:.1} %", x * 100.0);
            let mut words = largest.map_or_else(|| "no difference".to_owned(), larger);
            if c.aspects.iter().any(|a| a.is_rate) {
                words += "; rate: no change by a factor of 2 or more";
            }
            words
        }
        Verdict::Inconclusive => {
            match c.aspects.iter().find(|a| a.verdict == Verdict::Inconclusive) {
                Some(a) if a.low == 0.0 && a.high == 0.0 => {
                    format!("{word}: {}), single values without a spread", values(a))
                }
                Some(a) => format!("{word}: {}", full(a)),
                None => format!("{word}: too few values"),
            }
        }
    }
}

/// Interval of a change; [`UNBOUNDED`] is no end.
fn interval(a: &Aspect) -> String {
    match (a.low > -1.0, a.high < UNBOUNDED) {
        (_, true) => format!("{} to {}", change(a.low), change(a.high)),
        (true, false) => format!("{} or more", change(a.low)),
        (false, false) => "unbounded".into(),
    }
}

fn subjects(d: &CompareDetail) -> Table {
    Table {
        caption: "Subjects; A is the base".into(),
        columns: ["", "subject", "files", "machine"].map(Column::left).into(),
        rows: (d.subjects.iter())
            .map(|s| {
                let files = match s.files.as_slice() {
                    [one] => one.clone(),
                    many => format!("{} files", many.len()),
                };
                vec![s.letter.clone(), s.label.clone(), files, s.machine.clone()]
            })
            .collect(),
    }
}

fn machines(d: &CompareDetail) -> Option<Table> {
    let mut columns = vec![Column::left("differs")];
    columns.extend(d.subjects.iter().map(|s| Column::left(s.letter.clone())));
    let row = |m: &MachineDifference| {
        std::iter::once(machine_label(m)).chain(m.values.iter().cloned()).collect()
    };
    (!d.machines.is_empty()).then(|| Table {
        caption: "Differences between the machines: other possible reasons of the results below"
            .into(),
        columns,
        rows: d.machines.iter().map(row).collect(),
    })
}

fn verdicts(d: &CompareDetail) -> Table {
    let row = |(m, c): (&Metric, &Contrast)| {
        let verdict = verdict_words(c.verdict).to_owned();
        vec![m.label.clone(), letter(d, c.other), verdict, sentence(c, m.unit)]
    };
    Table {
        caption: "Compared with A".into(),
        columns: ["metric", "", "verdict", "values"].map(Column::left).into(),
        rows: contrasts(d).map(row).collect(),
    }
}

/// What other tools and studies state of a distribution, not tested.
fn figures(d: &CompareDetail) -> Option<Table> {
    let ns = |v: Option<f64>| v.map_or_else(|| "-".into(), |v| figure(v, Unit::Ns));
    let count = |v: Option<u64>| v.map_or_else(|| "-".into(), |v| v.to_string());
    let row = |f: &Figures| {
        vec![
            letter(d, f.subject),
            f.what.clone(),
            count(f.count),
            count(f.missed),
            ns(f.min),
            ns(f.mean),
            ns(f.sd),
            ns(f.max),
        ]
    };
    (!d.figures.is_empty()).then(|| Table {
        caption: "As studies and other tools state them; not tested, and a maximum grows with the length of a run"
            .into(),
        columns: vec![
            Column::left(""),
            Column::left("what"),
            Column::right("values").optional(2),
            Column::right("missed").optional(1),
            Column::right("min"),
            Column::right("mean"),
            Column::right("sd").optional(3),
            Column::right("max"),
        ],
        rows: d.figures.iter().map(row).collect(),
    })
}

fn skipped(d: &CompareDetail) -> Table {
    Table {
        caption: "Not compared".into(),
        columns: ["metric", "reason"].map(Column::left).into(),
        rows: d.skipped.iter().map(|s| vec![s.metric.clone(), messages::note(&s.reason)]).collect(),
    }
}

fn metric(m: &Metric) -> Vec<Block> {
    let mut rows = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for c in &m.contrasts {
        for a in &c.aspects {
            rows.push(vec![
                aspect_name(a, m.unit),
                value(a.a, a.is_rate, m.unit),
                value(a.b, a.is_rate, m.unit),
                change(a.change),
                if a.method == Method::None { "-".into() } else { interval(a) },
                if a.method == Method::None { "-".into() } else { format!("{:.3}", a.p_adjusted) },
                verdict_words(a.verdict).into(),
                method_words(a.method).into(),
            ]);
        }
        for n in &c.notes {
            let n = messages::note(n);
            if !notes.contains(&n) {
                notes.push(n);
            }
        }
    }
    let columns = vec![
        Column::left("aspect"),
        Column::right("A"),
        Column::right("other"),
        Column::right("change"),
        Column::right("interval"),
        Column::right("p"),
        Column::left("verdict"),
        Column::left("interval from"),
    ];
    let mut out = vec![
        Block::Heading(m.label.clone()),
        Block::Table(Table { caption: "p adjusted for all tests".into(), columns, rows }),
    ];
    out.extend(m.sides.iter().enumerate().filter_map(|(i, s)| tail(i, s.as_ref()?, m)));
    out.extend(notes.into_iter().map(|n| Block::Text(format!("Note: {n}."))));
    out
}

/// What the fitted tail says of one side.
fn tail(i: usize, side: &Side, m: &Metric) -> Option<Block> {
    let t = side.tail.as_ref()?;
    let letter = char::from(b'A' + (i % 26) as u8);
    let stability =
        t.stability_p.map_or_else(String::new, |p| format!(", stable threshold p {p:.2}"));
    if !t.fits() {
        return Some(Block::Text(format!(
            "{letter}: the tail over {} ({} values) does not fit a generalised Pareto distribution (goodness of fit p {:.2}{stability}): no extrapolation beyond the largest value.",
            figure(t.threshold, m.unit),
            t.exceedances,
            t.check_p
        )));
    }
    let levels: Vec<String> = (t.levels.iter())
        .map(|l| {
            format!(
                "{:.0e}: {} ({} to {}{})",
                l.probability,
                figure(l.value, m.unit),
                figure(l.low, m.unit),
                figure(l.high, m.unit),
                if l.beyond_sample { ", extrapolated beyond ten times the sample" } else { "" }
            )
        })
        .collect();
    let fit = format!(
        "{letter}: generalised Pareto tail over {} (shape {:.2}, {} values, effectively {:.0}; goodness of fit p {:.2}{stability}). Exceeded with probability {}.",
        figure(t.threshold, m.unit),
        t.shape,
        t.exceedances,
        t.effective,
        t.check_p,
        levels.join("; ")
    );
    (!levels.is_empty()).then_some(Block::Text(fit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_without_an_end_is_said_so() {
        let of = |low: f64, high: f64| {
            let aspect = Aspect {
                quantile: Some(0.99),
                a: 1e3,
                b: 2e3,
                change: 1.0,
                low,
                high,
                ..Aspect::default()
            };
            let verdict = Verdict::Inconclusive;
            sentence(&Contrast { verdict, aspects: vec![aspect], ..Contrast::default() }, Unit::Ns)
        };
        let start = "inconclusive: p99 1.00 µs → 2.00 µs (×2.00, ";
        assert_eq!(of(0.5, 2.0), format!("{start}+50 % to ×3.00)"));
        assert_eq!(of(0.5, UNBOUNDED), format!("{start}+50 % or more)"));
        assert_eq!(of(-1.0, UNBOUNDED), format!("{start}unbounded)"));
        // Of a run saved by an earlier version.
        assert_eq!(of(-1.0, 1e12), format!("{start}unbounded)"));
    }

    #[test]
    fn no_difference_of_a_rate_is_said_by_its_factor() {
        let aspect = |is_rate, low, high| Aspect { is_rate, low, high, ..Aspect::default() };
        let said = |aspects| {
            let verdict = Verdict::NoDifference;
            sentence(&Contrast { verdict, aspects, ..Contrast::default() }, Unit::Ns)
        };
        let share = aspect(false, -0.04, 0.03);
        assert_eq!(said(vec![share.clone()]), "no difference larger than 4.0 %");
        let rate = aspect(true, -0.4, 0.9);
        let factor = "rate: no change by a factor of 2 or more";
        let both = format!("no difference larger than 4.0 %; {factor}");
        assert_eq!(said(vec![share, rate.clone()]), both);
        assert_eq!(said(vec![rate]), format!("no difference; {factor}"));
    }
}
