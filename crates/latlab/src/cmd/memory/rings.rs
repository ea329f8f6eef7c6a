//! `--switch`: context switches in rings of processes with working sets, as a probe of caches.

use super::config::Config;
use crate::cmd::bench;
use crate::progress::Progress;
use anyhow::anyhow;
use latlab_analysis::cache::switching;
use latlab_model::cache::detail::SwitchPoint;
use latlab_model::cache::detail::{CacheDetail, Limitation};
use latlab_model::finding::Note;
use latlab_model::record::{Param, Record};
use latlab_model::run::Part;
use latlab_sys::probe::Suite;
use latlab_sys::probe::registry;
use std::time::Duration;

/// Time for each point.
const EACH: Duration = Duration::from_millis(500);

/// Measures a plan; `name`: `macro` or `micro`.
///
/// # Errors
/// When the rings cannot be measured at all.
pub fn measure(name: &str, config: &Config) -> anyhow::Result<(CacheDetail, Part, Option<String>)> {
    let (procs, sizes) = if name == "micro" { switching::MICRO } else { switching::MACRO };
    let list = |v: &[u32], unit: &str| {
        let words: Vec<String> =
            v.iter().map(|n| if *n == 0 { "0".into() } else { format!("{n}{unit}") }).collect();
        words.join("|")
    };
    // On one CPU: across CPUs it is the wake-up that costs, and no cache is shared by all.
    let word = format!(
        "ctx.ring:procs={},size={},place=same,pages=random",
        list(procs, ""),
        list(sizes, "K")
    );
    let instances = registry::select(&[word], Suite::Full).map_err(|e| anyhow!(e))?;
    let number = u32::try_from(instances.len()).unwrap_or(1);
    let budget = config.switch_budget.unwrap_or(EACH * number);
    let cpu = config.cpu.map(|c| c.to_string());
    let bench = bench::configure(instances, budget, 0.02, cpu.as_deref(), Some(config.seed), None)?;
    let mut progress = Progress::new("memory: rings");
    let (part, stopped) = bench::measure(&bench, &mut |p| {
        progress.set(Some(p.done), &format!("round {}", p.round));
    })?;
    let switches: Vec<SwitchPoint> = part.results.iter().filter_map(point).collect();
    let mut detail = CacheDetail { seed: config.seed, ..CacheDetail::default() };
    detail.switch_knees = switching::knees(&switches);
    if detail.switch_knees.is_empty() {
        detail.limitations.push(Limitation::Note(Note::new("cache.no-switch-knee")));
    }
    detail.switches = switches;
    Ok((detail, part, stopped))
}

fn point(r: &Record) -> Option<SwitchPoint> {
    let of = |name: &str| match r.params.get(name)? {
        Param::Int(n) => u64::try_from(*n).ok(),
        Param::Text(t) => latlab_sys::probe::parse_size(t),
        _ => None,
    };
    Some(SwitchPoint {
        procs: u32::try_from(of("procs")?).ok()?,
        bytes: of("size")?,
        ns: r.summary.median?,
    })
}
