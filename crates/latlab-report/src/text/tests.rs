use super::*;
use crate::doc::{Axis, Column, Mark, Plot, Scale, Series, SeriesKind, Table};
use latlab_model::finding::Evidence;

fn text_of(blocks: Vec<Block>, width: usize) -> String {
    let doc = Doc {
        title: "latlab wakeup".into(),
        summary: vec!["The worst wake-up came 212 µs late.".into()],
        sections: vec![Section { id: "s".into(), title: "Wake-up latency".into(), blocks }],
        ..Doc::default()
    };
    let mut out = Vec::new();
    render(&doc, &TextOptions { width, ..Default::default() }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_report_reads_well_without_color() {
    let mut finding = Finding::typed("rt.throttling", Severity::Problem, Confidence::High)
        .with(Evidence::new("sched_rt_runtime_us", "950000").from("/proc/sys/kernel"))
        .remedy("sysctl kernel.sched_rt_runtime_us=-1");
    finding.claim = "Real-time tasks are throttled after 950 ms of every second.".into();
    finding.why = "A task that is throttled looks late, though nothing delayed it.".into();
    let mut good = Finding::typed("clock", Severity::Ok, Confidence::Medium);
    good.claim = "The clock is fine.".into();
    let table = Table {
        caption: "Per thread, in µs".into(),
        columns: vec![Column::left("thread"), Column::right("median"), Column::right("max")],
        rows: vec![
            vec!["CPU 0".into(), "14.1".into(), "212".into()],
            vec!["µ-Kerne 日本".into(), "7.0".into(), "1,203".into()],
        ],
    };
    insta::assert_snapshot!(text_of(
        vec![
            Block::Pairs(vec![
                ("kernel".into(), "6.1.0-rt".into()),
                ("command line".into(), "isolcpus=1 nohz_full=1 rcu_nocbs=1 quiet".into()),
            ]),
            Block::Warning("The run was cut short by SIGINT; what was measured is here.".into()),
            Block::Findings(vec![finding, good]),
            Block::Table(table),
        ],
        60
    ));
}

fn histogram(name: &str, shift: f64) -> Series {
    let points = (0..60)
        .map(|i| {
            let x = f64::from(i);
            let n = (2e5 * (-(x - 12.0 - shift).powi(2) / 8.0).exp()).floor();
            (x, if i == 55 { 3.0 } else { n })
        })
        .collect();
    Series { name: name.into(), kind: SeriesKind::Step, points, ..Series::default() }
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), scale, ..Axis::default() }
}

#[test]
fn a_tail_of_three_in_a_million_is_visible() {
    let plot = Plot {
        title: "Histogram".into(),
        description: "Wake-ups by latency.".into(),
        x: axis("latency (µs)", Scale::Linear),
        y: axis("wake-ups", Scale::Log10),
        series: vec![histogram("CPU 0", 0.0)],
        ..Plot::default()
    };
    insta::assert_snapshot!(text_of(vec![Block::Plot(Box::new(plot.clone()))], 80));
    let two = Plot { series: vec![histogram("CPU 0", 0.0), histogram("CPU 1", 9.0)], ..plot };
    insta::assert_snapshot!(text_of(vec![Block::Plot(Box::new(two))], 80));
}

#[test]
fn lines_heat_bars_and_spans_have_a_shape() {
    let curve = |name: &str, knee: f64| Series {
        name: name.into(),
        points: (10..27)
            .map(|e| (2f64.powi(e), if e as f64 > knee { 90.0 } else { 4.0 }))
            .collect(),
        ..Series::default()
    };
    let sizes = Axis { bytes: true, ..axis("array", Scale::Log2) };
    let line = Plot {
        title: "Latency by size".into(),
        x: sizes,
        y: axis("ns", Scale::Linear),
        series: vec![curve("stride 64", 15.0), curve("stride 8", 20.0)],
        marks: vec![Mark::X(32768.0, "L1".into())],
        ..Plot::default()
    };
    let heat = Plot {
        title: "Load against size".into(),
        x: axis("size", Scale::Linear),
        y: Axis { categories: vec!["cpu".into(), "vm".into()], ..axis("", Scale::Category) },
        series: vec![Series {
            name: "p99 (µs)".into(),
            kind: SeriesKind::Heat,
            points: vec![(1.0, 0.0), (2.0, 0.0), (1.0, 1.0), (2.0, 1.0)],
            values: vec![1.0, 2.0, 3.0, 10.0],
            ..Series::default()
        }],
        ..Plot::default()
    };
    let bars = Plot {
        title: "Cost".into(),
        x: Axis { categories: vec!["getppid".into(), "read".into()], ..axis("", Scale::Category) },
        y: axis("µs", Scale::Linear),
        series: vec![Series {
            kind: SeriesKind::Bars,
            points: vec![(0.0, 0.17), (1.0, 0.21)],
            ..Series::default()
        }],
        ..Plot::default()
    };
    let lanes = Plot {
        title: "Who ran".into(),
        x: axis("ms", Scale::Linear),
        y: Axis { categories: vec!["CPU 0".into(), "CPU 1".into()], ..axis("", Scale::Category) },
        series: vec![
            Series {
                name: "cyclictest".into(),
                kind: SeriesKind::Spans,
                points: vec![(0.0, 0.0), (6.0, 1.0)],
                values: vec![3.0, 10.0],
                ..Series::default()
            },
            Series {
                name: "kworker".into(),
                kind: SeriesKind::Spans,
                points: vec![(4.0, 0.0)],
                values: vec![8.0],
                ..Series::default()
            },
        ],
        ..Plot::default()
    };
    let blocks = [line, heat, bars, lanes].map(|p| Block::Plot(Box::new(p)));
    insta::assert_snapshot!(text_of(blocks.into(), 70));
}

#[test]
fn no_control_character_reaches_the_terminal() {
    let evil = "evil\u{1b}[2J\u{9b}31m\u{202e}\u{7}";
    let blocks = vec![
        Block::Text(evil.into()),
        Block::Warning(evil.into()),
        Block::Heading(evil.into()),
        Block::Pre(evil.into()),
        Block::Pairs(vec![(evil.into(), evil.into())]),
        Block::Table(Table {
            caption: evil.into(),
            columns: vec![Column::left(evil)],
            rows: vec![vec![evil.into()]],
        }),
        Block::Findings(vec![Finding {
            claim: evil.into(),
            why: evil.into(),
            ..Finding::typed("x", Severity::Info, Confidence::High)
                .with(Evidence::new(evil, evil))
                .remedy(evil)
        }]),
        Block::Plot(Box::new(Plot {
            title: evil.into(),
            description: evil.into(),
            x: axis(evil, Scale::Linear),
            y: axis(evil, Scale::Linear),
            series: vec![histogram(evil, 0.0), histogram(evil, 1.0)],
            ..Plot::default()
        })),
    ];
    let text = text_of(blocks, 80);
    let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!text.contains(bad), "{text:?}");
    assert!(text.contains("evil␛[2J"));
}

#[test]
fn nothing_in_a_plot_makes_it_panic() {
    let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0, f64::MAX, f64::MIN_POSITIVE];
    let kinds = [
        SeriesKind::Line,
        SeriesKind::Step,
        SeriesKind::Points,
        SeriesKind::Bars,
        SeriesKind::Heat,
        SeriesKind::Spans,
    ];
    for kind in kinds {
        for scale in [Scale::Linear, Scale::Log10, Scale::Log2, Scale::Category] {
            let series = Series {
                kind,
                points: odd.iter().flat_map(|&x| odd.map(|y| (x, y))).collect(),
                values: odd.iter().flat_map(|_| odd).collect(),
                ..Series::default()
            };
            let plot = Plot {
                x: axis("x", scale),
                y: axis("y", scale),
                series: vec![series],
                ..Plot::default()
            };
            assert!(
                !text_of(vec![Block::Plot(Box::new(plot))], 1).is_empty(),
                "{kind:?} {scale:?}"
            );
        }
    }
}
