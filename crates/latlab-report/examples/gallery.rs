//! Every kind of plot and block on one page, on stdout: to look at, and for the browser test.
//!
//! ```text
//! cargo run -p latlab-report --example gallery > gallery.html
//! ```
#![expect(clippy::disallowed_methods, reason = "an example writes to stdout")]

use latlab_model::finding::{Confidence, Evidence, Finding, Quantity, Severity};
use latlab_model::record::Unit;
use latlab_report::doc::{Axis, Block, Doc, Mark, Plot, Scale, Section, Series, SeriesKind};
use latlab_report::{html, plot::distribution};
use latlab_stats::histogram::Histogram;
use std::io::Write;

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), scale, ..Axis::default() }
}

fn names(label: &str, names: &[&str]) -> Axis {
    let categories = names.iter().map(|n| (*n).to_owned()).collect();
    Axis { categories, ..axis(label, Scale::Category) }
}

/// A small generator: the page has to be the same each time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn distributions() -> Vec<Plot> {
    let mut noise = Noise(7);
    let mut threads = Vec::new();
    for (name, shift) in [("CPU 0", 13_000.0), ("CPU 1", 17_000.0), ("CPU 2, isolated", 9_000.0)] {
        let bell = |n: &mut Noise| (0..6).map(|_| n.next()).sum::<f64>() * 900.0;
        let body: Vec<u64> = (0..100_000).map(|_| (shift + bell(&mut noise)) as u64).collect();
        let tail = [41_000 + (shift as u64) * 3, 212_000, 1_190_000];
        threads.push((name.to_owned(), Histogram::of(body.into_iter().chain(tail))));
    }
    let named: Vec<_> = threads.iter().map(|(name, h)| (name.clone(), h)).collect();
    let subject = distribution::Subject {
        id: "wakeup",
        title: "Wake-up latency",
        quantity: "latency",
        counted: "wake-ups",
        unit: Unit::Ns,
    };
    vec![distribution::histogram(&subject, &named), distribution::tail(&subject, &named)]
}

fn caches() -> Plot {
    let curve = |name: &str, stride: f64| {
        let sizes: Vec<f64> = (20..=104).map(|i| 2f64.powf(f64::from(i) / 4.0)).collect();
        let time = |n: f64| {
            let step = |knee: f64, height: f64| height / (1.0 + (knee / n).powi(6));
            1.2 + stride * (step(32768.0, 9.0) + step(220_000.0, 130.0))
        };
        Series {
            name: name.into(),
            points: sizes.iter().map(|&n| (n, time(n))).collect(),
            intervals: sizes.iter().map(|&n| (time(n) * 0.93, time(n) * 1.1)).collect(),
            ..Series::default()
        }
    };
    Plot {
        id: "caches".into(),
        title: "Read latency by array size".into(),
        description: "Three plateaus: L1 to 32K, L2 to about 220K, then memory.".into(),
        x: Axis { bytes: true, ..axis("array size (bytes)", Scale::Log2) },
        y: axis("time per read (ns)", Scale::Log10),
        series: vec![curve("stride 64", 1.0), curve("stride 32", 0.5), curve("stride 16", 0.25)],
        marks: vec![
            Mark::X(32768.0, "L1 32K".into()),
            Mark::Band(180_000.0, 262_144.0, "L2 knee".into()),
        ],
    }
}

fn over_time() -> Plot {
    let mut noise = Noise(3);
    let points = (0..6000).map(|i| {
        let late = if i % 977 == 0 { 180.0 * noise.next() } else { 0.0 };
        (f64::from(i) / 100.0, 12.0 + 5.0 * noise.next() + late)
    });
    Plot {
        id: "over-time".into(),
        title: "Latency over time".into(),
        description: "The largest wake-up latency of each 10 ms.".into(),
        x: axis("time (s)", Scale::Linear),
        y: axis("latency (µs)", Scale::Linear),
        series: vec![Series {
            name: "CPU 0".into(),
            kind: SeriesKind::Points,
            points: points.collect(),
            ..Series::default()
        }],
        marks: vec![
            Mark::Y(100.0, "limit 100 µs".into()),
            Mark::Band(20.0, 30.0, "under load".into()),
        ],
    }
}

fn costs() -> Plot {
    let bars = |name: &str, factor: f64| Series {
        name: name.into(),
        kind: SeriesKind::Bars,
        points: [0.17, 0.21, 1.1, 2.2]
            .iter()
            .enumerate()
            .map(|(i, v)| (i as f64, v * factor))
            .collect(),
        intervals: [0.17, 0.21, 1.1, 2.2].map(|v| (v * factor * 0.95, v * factor * 1.08)).to_vec(),
        ..Series::default()
    };
    Plot {
        id: "costs".into(),
        title: "What system calls cost".into(),
        description: "Median and 95 % interval.".into(),
        x: names("", &["getppid", "read", "stat", "open+close"]),
        y: axis("time (µs)", Scale::Linear),
        series: vec![bars("6.1", 1.0), bars("6.18", 0.86)],
        ..Plot::default()
    }
}

fn surface() -> Plot {
    let cells = (0..8).flat_map(|x| (0..4).map(move |y| (x, y)));
    Plot {
        id: "surface".into(),
        title: "Worst latency by load and size".into(),
        description: "Memory load hurts from 16M on.".into(),
        x: Axis { bytes: true, ..axis("working set (bytes)", Scale::Log2) },
        y: names("", &["cpu", "io", "hdd", "vm"]),
        series: vec![Series {
            name: "max (µs)".into(),
            kind: SeriesKind::Heat,
            points: cells.clone().map(|(x, y)| (2f64.powi(20 + x), f64::from(y))).collect(),
            values: cells
                .map(|(x, y)| if y == 3 && x >= 4 { 31.0 } else { 8.5 + f64::from(x * y) * 0.3 })
                .collect(),
            ..Series::default()
        }],
        ..Plot::default()
    }
}

fn timeline() -> Plot {
    let mut noise = Noise(11);
    let mut task = |name: &str, lanes: &[f64], share: f64| {
        let mut s = Series { name: name.into(), kind: SeriesKind::Spans, ..Series::default() };
        for lane in lanes {
            let mut t = noise.next() * 20.0;
            while t < 1000.0 {
                let end = t + 5.0 + noise.next() * 60.0 * share;
                s.points.push((t, *lane));
                s.values.push(end);
                t = end + noise.next() * 250.0;
            }
        }
        s
    };
    let series = vec![
        task("cyclictest", &[0.0, 1.0], 0.2),
        task("kworker/0:1", &[0.0], 0.6),
        task("irq/33-eth0", &[2.0], 0.3),
    ];
    Plot {
        id: "timeline".into(),
        title: "What ran round the late wake-up".into(),
        description: "CPU 0 was held by kworker/0:1.".into(),
        x: axis("time (µs)", Scale::Linear),
        y: names("", &["CPU 0", "CPU 1", "interrupts"]),
        series,
        marks: vec![Mark::X(412.0, "woken".into()), Mark::X(455.0, "runs".into())],
    }
}

fn main() -> std::io::Result<()> {
    let late = Finding::typed("why.interrupts-off", Severity::Problem, Confidence::Medium)
        .value("delay", Quantity::Ns(38_000.0))
        .value("who", "emac_poll")
        .value("class", "fair")
        .with(Evidence::new("irqs-off-p99", Quantity::Ns(38_000.0)).of(41))
        .remedy("latlab wakeup -a 1");
    let mut blocks =
        vec![Block::Findings(vec![late]), Block::Warning("12 events were lost on CPU 1.".into())];
    let rest = [caches(), over_time(), costs(), surface(), timeline()];
    blocks.extend(distributions().into_iter().chain(rest).map(|p| Block::Plot(Box::new(p))));
    let doc = Doc {
        title: "Every kind of plot".into(),
        summary: vec!["A page to look at; the figures are made up.".into()],
        sections: vec![Section { id: "all".into(), title: "Plots".into(), blocks }],
        ..Doc::default()
    };
    let mut page = Vec::new();
    html::render(&doc, &mut page)?;
    std::io::stdout().write_all(&page)
}
