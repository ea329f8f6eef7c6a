//! A running program: it is recorded, its late activations or spans are explained, and mitigations tested on it.

use super::capture_session::machine_context;
use super::counting::Counting;
use super::ends::Finder;
use super::levels::{Level, levels};
use super::load::start_load;
use super::places::Places;
use super::prove;
use super::prove_task::TaskBlocks;
use super::recording::Recording;
use super::target::Begun;
use super::user_stacks;
use crate::cli::Global;
use crate::cli::why::{Args, Trace};
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::session::Session;
use anyhow::anyhow;
use latlab_analysis::latency::activations::Late;
use latlab_analysis::latency::part::part;
use latlab_model::latency::WhyResult;
use latlab_model::units::Nanos;
use latlab_sys::recorder::FlightRecorder;
use latlab_sys::tracefs::Tracefs;
use latlab_sys::{policy, signal};
use std::time::Duration;

/// Records, explains, keeps.
///
/// # Errors
/// When there is no such program, it cannot be traced, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let asked = args.config(&policy::allowed()?, &policy::online()?)?;
    let (late, period) = (args.task_limit()?, args.task_period()?);
    let finder = Finder::new(args.ends(), &args.key)?;
    let places = Places::open(&args.vmlinux)?;
    let tracefs = Tracefs::find().with_hint()?.tracefs;
    let preset = if args.trace == Trace::Auto { Trace::Events } else { args.trace };
    let level = levels(&tracefs, preset, &args.functions).with_hint()?.into_iter().next();
    let Some(mut level) = level else {
        return Err(anyhow!("--trace: this kernel does not have what the preset records"))
            .hint("--trace events");
    };
    let begun = Begun::new(args.task.as_deref(), &args.command)?;
    // Until the recording has ended: a buffer has them enabled.
    let probes = finder.prepare(&tracefs, &mut level.config)?;
    let mut session = Session::begin(global, "why", &asked)?;
    let recorded =
        record(&session, args, (finder, &places, &tracefs), (level, begun, late, period), probes);
    let recorded = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            return session.abandon(error);
        }
    };
    let Recorded { result, cut, duration_ns } = recorded;
    let exceeded = late.is_some() && result.activations.first().is_some_and(|a| a.counts.late > 0);
    session.run.parts.push(part(result, cut.is_none(), duration_ns));
    Ok(session.finish(cut)?.exceeded_if(exceeded))
}

/// What was found, what stopped the recording, and how long that was.
struct Recorded {
    result: WhyResult,
    cut: Option<String>,
    duration_ns: u64,
}

/// Records and explains; the probes are there until the recording has ended.
fn record(
    session: &Session,
    args: &Args,
    (finder, places, tracefs): (Finder, &Places, &Tracefs),
    (level, begun, late, period): (Level, Begun, Option<Late>, Option<Nanos>),
    probes: impl Sized,
) -> anyhow::Result<Recorded> {
    let asked = args.config(&policy::allowed()?, &policy::online()?)?;
    let Some(dir) = session.dir() else { anyhow::bail!("captures need a run directory") };
    let folder = dir.captures()?;
    places.check_here(&session.run.machine.kernel.release)?;
    let load = start_load(args)?;
    if args.user_stacks() {
        // The program's files are mapped.
        latlab_sys::mmap::survive_truncation();
    }
    let length = Duration::from_nanos(asked.duration_ns);
    let mut recording = Recording::new(&finder, late, length);
    (recording.period, recording.most, recording.folder) = (period, asked.captures, Some(folder));
    recording.session.traced = Some(level.name.clone());
    recording.counting = Counting::new(finder.names().is_none());
    recording.stacks = user_stacks::Recording::new(args.user_stacks());
    let flight = FlightRecorder::start(tracefs, &level.config).with_hint();
    let recorded = flight.and_then(|mut flight| {
        let recorded = recording.run(&mut flight, || begun.release(&args.command))?;
        Ok((flight, recorded))
    });
    load.finish()?;
    let (flight, (found, target)) = recorded?;
    let cut = signal::stop_requested().map(|s| s.name());
    let duration_ns = found.session.duration_ns;
    let mut result = found.explain(machine_context(&session.run.machine))?;
    places.tell(&mut result)?;
    if args.prove && cut.is_none() {
        let mut blocks = TaskBlocks::new(&result, late, length, &finder, (flight, target));
        result.mitigation_tests = prove::run(&mut blocks, args, &result)?;
    } else {
        drop(flight);
    }
    drop(probes);
    let cut = cut.or_else(|| signal::stop_requested().map(|s| s.name()));
    Ok(Recorded { result, cut, duration_ns })
}
