//! `latlab search-worker`: searches for the worst wake-up in the machine, and prints what it found as JSON.

use crate::cli::search_worker::SearchArgs;
use crate::outcome::Outcome;
use crate::term;
use anyhow::{Context, anyhow};
use latlab_analysis::worst::axis::{self, Axis};
use latlab_analysis::worst::{self, Found, Objective};
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::Policy;
use latlab_model::worst::{Again, Answer, InputKind, Method, SearchPlan, Searched};
use latlab_sys::worst::{Stage, Strikes};
use latlab_sys::{policy, worst as machine};
use std::io::Write;
use std::path::Path;

/// Wake-ups before the search, for what is executed the first time.
const WARM_UP: u64 = 20;

/// Wake-ups at the times of the worst one: by how much, and in which steps, ns.
const AGAIN_WITHIN_NS: u64 = 512;
const AGAIN_STEP_NS: usize = 64;

/// Searches, or does rounds of a load.
///
/// # Errors
/// When the plan is none, or an input refuses.
pub fn run(args: &SearchArgs) -> anyhow::Result<Outcome> {
    if let Some(load) = &args.round {
        machine::rounds_until_stdin_ends(load).context("a round of a load")?;
        return Ok(Outcome::Done);
    }
    let plan: SearchPlan = serde_json::from_str(&args.plan).context("the plan of a search")?;
    let searched = search(&plan, args.random)?;
    let answer = Answer { searched, machine: latlab_sys::machine::read() };
    let mut out = term::stdout();
    crate::output::json(&answer, &mut out)?;
    out.flush()?;
    Ok(Outcome::Done)
}

fn search(plan: &SearchPlan, random: u64) -> anyhow::Result<Searched> {
    let inputs: Vec<(InputKind, &str)> =
        plan.inputs.iter().map(|i| (i.kind, i.name.as_str())).collect();
    let mut stage = Stage::new(&inputs, Path::new("/proc/self/exe")).context("the inputs")?;
    policy::bind(&[CpuId(0)]).context("binding to CPU 0")?;
    policy::set(Policy::Fifo, plan.priority, policy::Budget::default()).context("SCHED_FIFO")?;
    let timed = stage.time_loads().context("the loads")?;
    let ns: Vec<u64> = plan.inputs.iter().zip(timed).map(|(i, ns)| i.ns.max(ns)).collect();
    let axes = axis::axes(&plan.inputs, &ns);
    let before_ns = axes.iter().map(|a| a.before_ns).max().unwrap_or(0);
    let after_ns = axes.iter().map(|a| a.after_ns).max().unwrap_or(0);
    // A strike that begins last has time to end.
    stage.window(before_ns, after_ns + before_ns);
    let tick = plan.inputs.iter().position(|i| i.kind == InputKind::Tick);
    let mut evaluate = |phases: &[u64]| evaluate(&mut stage, &axes, tick, phases);
    let away: Vec<u64> = axes.iter().map(|axis| axis.phase(axis.span() - 1)).collect();
    for _ in 0..WARM_UP {
        evaluate(&away)?;
    }
    let Found { trail: search, phases } =
        worst::search(plan.method, plan.seed, plan.wakeups, &axes, &mut evaluate)?;
    let again = again(&axes, &phases, &mut evaluate)?;
    let random = match random {
        0 => None,
        // Numbers of their own: the search began with those of the seed.
        n => Some(worst::search(Method::Random, !plan.seed, n, &axes, &mut evaluate)?.trail),
    };
    Ok(Searched { ns, search, random, again })
}

/// All inputs a little earlier or later together: the worst wake-up is at the edge of a section, which
/// moves with the kernel's state.
fn again(
    axes: &[Axis],
    phases: &[u64],
    evaluate: Objective<'_, anyhow::Error>,
) -> anyhow::Result<Option<Again>> {
    let mut again = Again { within_ns: AGAIN_WITHIN_NS, ..Again::default() };
    for earlier in (0..=2 * AGAIN_WITHIN_NS).step_by(AGAIN_STEP_NS) {
        let moved = |(axis, phase): (&Axis, &u64)| {
            let behind = AGAIN_WITHIN_NS % axis.every_ns;
            (phase + axis.every_ns + earlier - behind) % axis.every_ns
        };
        let phases: Vec<u64> = axes.iter().zip(phases).map(moved).collect();
        again.latency_ns = again.latency_ns.max(evaluate(&phases)?);
        again.wakeups += 1;
    }
    Ok((!phases.is_empty()).then_some(again))
}

fn evaluate(
    stage: &mut Stage,
    axes: &[Axis],
    tick: Option<usize>,
    phases: &[u64],
) -> anyhow::Result<u64> {
    let strikes: Vec<Option<Strikes>> = (axes.iter().zip(phases))
        .map(|(axis, phase)| axis.strikes(*phase))
        .map(|s| s.map(|s| Strikes { first_ns: s.first_ns, times: s.times }))
        .collect();
    let tick_ns = tick.and_then(|i| phases.get(i)).copied().unwrap_or(0);
    stage.evaluate(tick_ns, &strikes).map_err(|e| anyhow!("an evaluation: {e}"))
}
