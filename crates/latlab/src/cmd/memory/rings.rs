//! `--switch`: context switches in rings of processes with working sets, as a probe of caches.

use super::config::{Config, Rings};
use crate::cmd::bench;
use crate::outcome::HintExt;
use crate::progress::Progress;
use anyhow::{Context, anyhow};
use latlab_analysis::cache::{switch_theory, switching};
use latlab_model::cache::detail::SwitchPoint;
use latlab_model::cache::detail::{CacheDetail, Limitation};
use latlab_model::machine::Machine;
use latlab_model::record::{Param, Record};
use latlab_model::run::{Detail, Part};
use latlab_model::sweep::axis::Axis;
use latlab_sys::page_cache;
use latlab_sys::probe::Suite;
use latlab_sys::probe::registry;
use std::time::Duration;

/// Time for each point.
const EACH: Duration = Duration::from_millis(500);
/// Points of a plan, at most.
const MOST: usize = 2_000;

/// The plan of this name (`macro` or `micro`), with other lists where they are given.
///
/// # Errors
/// One sentence that names the option.
pub fn plan(
    name: &str,
    (procs, sizes): (Option<&str>, Option<&str>),
    (cold, fifo): (bool, bool),
) -> anyhow::Result<Rings> {
    let usual = if name == "micro" { switching::MICRO } else { switching::MACRO };
    let list = |option: &str, text: &str, most: f64| -> anyhow::Result<Vec<u64>> {
        let axis = Axis::parse(option, text).map_err(|e| anyhow!("--{option}: {e}"))?;
        let numbers = axis.numbers();
        let fits = |n: &f64| n.fract() == 0.0 && (0.0..=most).contains(n);
        if numbers.len() < axis.values.len() || !numbers.iter().all(fits) {
            return Err(anyhow!("--{option} {text}: whole numbers up to {most}"))
                .hint("--procs 2,4,8 --working-sets 0,2K,24K");
        }
        Ok(numbers.iter().map(|n| *n as u64).collect())
    };
    let own = procs.is_some() || sizes.is_some();
    let procs = match procs {
        Some(text) => list("procs", text, 1000.0)?.iter().map(|n| *n as u32).collect(),
        None => usual.0.to_vec(),
    };
    if let Some(few) = procs.iter().find(|n| **n < 2) {
        return Err(anyhow!("--procs {few}: a ring has 2 to 1000 processes"));
    }
    let sizes = match sizes {
        Some(text) => list("working-sets", text, f64::from(64 << 20))?,
        None => usual.1.iter().map(|kib| u64::from(*kib) << 10).collect(),
    };
    if procs.len() * sizes.len() > MOST {
        return Err(anyhow!("{} points: at most {MOST}", procs.len() * sizes.len()));
    }
    let plan = if own { "own" } else { name }.to_owned();
    Ok(Rings { plan, procs, sizes, cold, fifo })
}

/// Measures a plan.
///
/// # Errors
/// When the rings cannot be measured at all, or the kernel refuses to drop its caches.
pub fn measure(
    plan: &Rings,
    config: &Config,
    machine: &Machine,
) -> anyhow::Result<(CacheDetail, Part, Option<String>)> {
    let list = |words: Vec<String>| words.join("|");
    // On one CPU: across CPUs it is the wake-up that costs, and no cache is shared by all.
    let word = format!(
        "ctx.ring:procs={},size={},place=same,pages=random,class={}",
        list(plan.procs.iter().map(u32::to_string).collect()),
        list(plan.sizes.iter().map(u64::to_string).collect()),
        if plan.fifo { "fifo" } else { "other" }
    );
    let instances = registry::select(&[word], Suite::Full, None).map_err(|e| anyhow!(e))?;
    let number = u32::try_from(instances.len()).unwrap_or(1);
    let budget = config.switch_budget.unwrap_or(EACH * number);
    let cpu = config.cpu.map(|c| c.to_string());
    if plan.cold {
        page_cache::drop_all()
            .context("--cold: /proc/sys/vm/drop_caches")
            .hint("run as root, or leave --cold out")?;
    }
    let bench = bench::configure(instances, budget, 0.02, cpu.as_deref(), Some(config.seed), None)?;
    let mut progress = Progress::new("memory: rings");
    let mut round = 1;
    let (part, stopped) = bench::measure(&bench, &mut |p| {
        if plan.cold && p.round > round {
            round = p.round;
            // It worked before the first round.
            let _ = page_cache::drop_all();
        }
        progress.set(Some(p.done), &format!("round {}", p.round));
    })?;
    let switches: Vec<SwitchPoint> = part.results.iter().filter_map(point).collect();
    let mut detail = CacheDetail { seed: config.seed, ..CacheDetail::default() };
    if let Some(Detail::Bench(bench)) = &part.detail {
        detail.conditions.clone_from(&bench.conditions);
    }
    detail.switch_knees = switching::knees(&switches);
    if detail.switch_knees.is_empty() {
        detail.limitations.push(Limitation::Note(switching::without_knee(&switches)));
    }
    let caches = machine.caches.iter().filter(|c| c.kind != "Instruction");
    let reported: Vec<u64> = caches.map(|c| c.size_bytes).collect();
    let capacities = switch_theory::capacities(&reported, &detail.switch_knees);
    detail.switch_theory = switch_theory::theory(&switches, &capacities);
    detail.switch_plateaus = switch_theory::plateaus(&switches);
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
