//! The machine that a run was made on.

use crate::doc::{Block, Column, Section, Table};
use crate::plot::scale::{format_bytes, format_number};
use crate::values::grouped;
use latlab_model::machine::{Condition, Machine};

/// The machine as a section. What could not be read is left out.
pub fn section(m: &Machine) -> Section {
    let mut blocks = vec![Block::Pairs(pairs(m))];
    if !m.caches.is_empty() {
        blocks.push(Block::Table(caches(m)));
    }
    if !m.packages.is_empty() {
        let pair = |(name, version): (&String, &String)| (name.clone(), version.clone());
        blocks.push(Block::Heading("Packages that matter here".into()));
        blocks.push(Block::Pairs(m.packages.iter().map(pair).collect()));
    }
    if !m.kernel.config.is_empty() {
        blocks.push(Block::Heading("Kernel options that matter here".into()));
        let options = m.kernel.config.iter().map(|(k, v)| format!("{k}={v}"));
        blocks.push(Block::Pre(options.collect::<Vec<_>>().join("\n")));
    }
    if !m.mitigations.is_empty() {
        blocks.push(Block::Heading("CPU vulnerabilities and their mitigations".into()));
        blocks.push(Block::Pairs(
            m.mitigations.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        ));
    }
    Section { id: "machine".into(), title: "Machine".into(), blocks }
}

/// The machine in one line.
pub fn line(m: &Machine) -> String {
    let kernel = [m.kernel.release.as_str(), m.arch.as_str()].join(" ");
    let preemption = m.kernel.preemption.as_ref().map(|p| format!("preemption {p}"));
    let cpus = (m.cpu.count > 0).then(|| match m.cpu.count {
        1 => "1 CPU".to_owned(),
        n => format!("{n} CPUs"),
    });
    let known = [m.board.clone(), m.cpu.model.clone(), cpus, Some(kernel), preemption];
    let words = known.into_iter().chain([m.virtualization.clone()]).flatten();
    words.map(|w| w.trim().to_owned()).filter(|w| !w.is_empty()).collect::<Vec<_>>().join(", ")
}

fn pairs(m: &Machine) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        pairs.extend(value.filter(|v| !v.is_empty()).map(|v| (name.to_owned(), v)));
    };
    let text = |s: &str| (!s.is_empty()).then(|| s.to_owned());
    add("host", text(&m.host));
    add("board", m.board.clone());
    add("firmware", m.firmware.clone());
    add("system", m.os.clone());
    add("architecture", text(&m.arch));
    add("virtualization", m.virtualization.clone());
    add("processor", m.cpu.model.clone());
    add("microcode", m.cpu.microcode.clone());
    add("CPUs online", (m.cpu.count > 0).then(|| format!("{} ({})", m.cpu.count, m.cpu.online)));
    add("threads per core", m.cpu.threads_per_core.map(|n| n.to_string()));
    add("memory", m.memory_bytes.map(|b| format_bytes(b as f64)));
    add("kernel", text(format!("{} {}", m.kernel.release, m.kernel.version).trim()));
    add("preemption", m.kernel.preemption.clone());
    add("HZ", m.kernel.hz.map(|hz| hz.to_string()));
    add("kernel command line", m.kernel.command_line.clone());
    add("lockdown", m.kernel.lockdown.clone());
    add("governors", text(&join(&m.cpu.governors)));
    add("idle driver", m.cpu.idle_driver.clone());
    let states = m.cpu.idle_states.iter().map(|s| {
        let off = if s.disabled { ", disabled" } else { "" };
        format!("{} ({} µs{off})", s.name, s.exit_us)
    });
    add("idle states", text(&states.collect::<Vec<_>>().join(", ")));
    add("clock source", m.clock.source.clone());
    add("counter", m.clock.counter_hz.map(|hz| format!("{} Hz", grouped(hz))));
    add("clock step", (m.clock.step_ns > 0).then(|| format!("{} ns", m.clock.step_ns)));
    add("clock read", (m.clock.read_ns > 0).then(|| format!("{} ns", m.clock.read_ns)));
    let yes = |b: bool| if b { "yes" } else { "no" }.to_owned();
    add("high-resolution timers", m.clock.high_resolution_timers.map(yes));
    add(
        "real-time throttling",
        m.rt.runtime_us.map(|us| match (us, m.rt.period_us) {
            (..0, _) => "off".into(),
            (us, Some(period)) => format!("{us} µs of every {period} µs"),
            (us, None) => format!("{us} µs"),
        }),
    );
    add("isolated CPUs", text(&m.rt.isolated));
    add("nohz_full CPUs", text(&m.rt.nohz_full));
    add("transparent huge pages", m.thp.clone());
    add("at the start", condition(&m.start));
    add("at the end", m.end.as_ref().and_then(condition));
    pairs
}

fn join(map: &std::collections::BTreeMap<String, String>) -> String {
    let each = map.iter().map(|(k, v)| format!("{k}: {v}"));
    each.collect::<Vec<_>>().join(", ")
}

/// `load 0.1 0.2 0.3, 1000 MHz, cpu-thermal 45 °C, 1.2G available`.
fn condition(c: &Condition) -> Option<String> {
    let mut words = Vec::new();
    words.extend(c.load.map(|[a, b, d]| format!("load {a:.2} {b:.2} {d:.2}")));
    if !c.khz.is_empty() {
        let each = c.khz.iter().map(|khz| format_number(*khz as f64 / 1e3));
        words.push(format!("{} MHz", each.collect::<Vec<_>>().join(" ")));
    }
    words.extend(c.temperature_mc.iter().map(|(zone, mc)| {
        let degrees = *mc as f64 / 1e3;
        format!("{zone} {} °C", format_number(degrees))
    }));
    words.extend(c.available_bytes.map(|b| format!("{} available", format_bytes(b as f64))));
    (!words.is_empty()).then(|| words.join(", "))
}

fn caches(m: &Machine) -> Table {
    let number = |v: Option<u32>| v.map_or("–".into(), |v| v.to_string());
    Table {
        caption: "Caches of CPU 0 as the kernel declares them".into(),
        columns: vec![
            Column::left("cache"),
            Column::right("size"),
            Column::right("line (bytes)"),
            Column::right("ways"),
            Column::left("shared by CPUs"),
        ],
        rows: (m.caches.iter())
            .map(|c| {
                vec![
                    format!("L{} {}", c.level, c.kind.to_lowercase()),
                    format_bytes(c.size_bytes as f64),
                    number(c.line_bytes),
                    number(c.ways),
                    c.shared_by.clone().unwrap_or_default(),
                ]
            })
            .collect(),
    }
}
