//! `latlab wakeup`: measures, shows, keeps.

mod core;
mod display;
mod fifo;
mod finish;
mod levels;
mod platform;
mod samples;
mod spikes;

use crate::cli::Global;
use crate::cli::wakeup::{Args, Config, Format};
use crate::cmd::bench::network;
use crate::outcome::{HintExt, Outcome, OwnHintExt, reader_may_leave};
use crate::session::Session;
use anyhow::{Context, anyhow, bail};
use display::Display;
use latlab_analysis::wakeup::part::{add_power, part};
use latlab_model::run::Part;
use latlab_model::units::format_ns;
use latlab_model::wakeup::config::Level;
use latlab_model::wakeup::result::{StopReason, WakeupResult};
use latlab_sys::power::{Metering, Meters};
use latlab_sys::probe::remote;
use latlab_sys::wakeup::{Hooks, LiveThread, Sample, WakeupError};
use latlab_sys::{policy, wakeup};
use samples::Sink;
use spikes::Spikes;

/// Runs the command.
///
/// # Errors
/// When it cannot be measured, or the result can be neither kept nor printed.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let mut asked = args.config(&policy::allowed()?, &policy::online()?)?;
    find_host(&mut asked)?;
    check(&asked, global.json)?;
    let mut sink = Sink::open(&asked)?;
    finish::check_files(&asked)?;
    let fifo = asked.cyclictest.fifo.as_deref().map(fifo::Fifo::make).transpose()?;
    let mut session = Session::begin(global, "wakeup", &asked)?;
    let mut display = Display::new(&asked, global.json, fifo);
    let mut spikes = Spikes::new(&asked);
    let load = match crate::cmd::load::start(&args.load) {
        Ok(load) => load,
        Err(error) => return session.abandon(error),
    };
    if asked.cyclictest.resolution {
        platform::print_resolution();
    }
    let power = asked.power.then(|| Meters::find().begin()).transpose();
    let power = match power.context("--power") {
        Ok(power) => power,
        Err(error) => return session.abandon(error),
    };
    let interrupts = asked.cyclictest.smi.then(platform::Counted::begin);
    let measured = measure(&asked, &mut display, &mut sink, &mut spikes);
    let power = power.map(Metering::end);
    let lasted = crate::cmd::load::finish(load);
    display.close();
    let Measured { results, missing } = match measured {
        Ok(measured) => measured,
        Err(error) => return session.abandon(error),
    };
    session.run.parts.extend(results.iter().map(part_of));
    if let (Some(read), Some(part)) = (power, session.run.parts.last_mut()) {
        add_power(part, read);
    }
    if let (Some(error), Some(part)) = (missing, session.run.parts.first_mut()) {
        part.findings.insert(0, levels::missing(&error));
    }
    let cut = results.iter().find_map(stopped_by);
    let outcome = session.finish_with(cut, |run, out| match results.last() {
        Some(result) => {
            finish::print(&asked, global.json, run, result, out)?;
            if !global.json {
                spikes.print(out)?;
            }
            finish::write_files(&asked, run, result)
        }
        None => Ok(()),
    })?;
    if let Some(interrupts) = interrupts {
        interrupts.print();
    }
    lasted?;
    reader_may_leave(display.failed().or_else(|| sink.finish()).map_or(Ok(()), Err))?;
    let exceeded = results.iter().any(WakeupResult::limit_exceeded);
    Ok(if exceeded { Outcome::LimitExceeded } else { outcome })
}

/// The address of the machine of `--by udp:HOST`.
fn find_host(asked: &mut Config) -> anyhow::Result<()> {
    let Some(host) = asked.measure.by.as_mut().and_then(|by| by.host.as_mut()) else {
        return Ok(());
    };
    let option = ["--by udp:", &host.name].concat();
    let found = match host.is_latlab {
        true => Some(network::reachable(&option, &host.name)?),
        false => network::addresses(&option, &host.name)?.first().copied(),
    };
    let found = found.ok_or_else(|| anyhow!("{option}: the name has no address"))?;
    host.address = remote::address_text(found);
    Ok(())
}

/// The part of one level. That of user space has the name it always had.
fn part_of(result: &WakeupResult) -> Part {
    match result.config.level {
        _ if result.config.by.is_some() => {
            part("wakeup-by", "Wake-up latency by mechanism", result)
        }
        Level::User => part("wakeup", "Wake-up latency", result),
        Level::Kernel => part("wakeup-kernel", "Wake-up latency of a kernel thread", result),
        Level::Irq => part("wakeup-irq", "Timer interrupt latency", result),
    }
}

fn check(asked: &Config, json: bool) -> anyhow::Result<()> {
    if json && !matches!(asked.format, Format::Latlab | Format::Cyclictest) {
        return Err(anyhow!("--json: not available with this --format"))
            .hint("use --json alone or with --format cyclictest");
    }
    if json && asked.samples_on_stdout() {
        let option = if asked.verbose { "-v" } else { "--samples -" };
        bail!("--json and {option}: both would write to stdout");
    }
    Ok(())
}

/// What was measured.
#[derive(Default)]
struct Measured {
    /// One entry a level, from the interrupt outwards.
    results: Vec<WakeupResult>,
    /// Why levels are missing.
    missing: Option<WakeupError>,
}

/// Interrupt and kernel thread at once, then user space: measured together they would disturb each other.
fn measure(
    asked: &Config,
    display: &mut Display,
    sink: &mut Sink,
    spikes: &mut Spikes,
) -> anyhow::Result<Measured> {
    if let Some(core) = asked.measure.core {
        let results = core::measure(core, asked, display)?;
        return Ok(Measured { results, missing: None });
    }
    let below: Vec<Level> = asked.levels.iter().copied().filter(|&l| l != Level::User).collect();
    let user = asked.levels.contains(&Level::User);
    let mut measured = Measured::default();
    if !below.is_empty() {
        let mut on_tick = |threads: &[LiveThread]| display.tick(threads);
        let hooks = Hooks { on_tick: Some(&mut on_tick), ..Hooks::default() };
        match wakeup::run_timerlat(&asked.measure, &below, hooks) {
            Ok(results) => measured.results = results,
            Err(error @ WakeupError::NoTimerlat { .. }) if user => measured.missing = Some(error),
            Err(error) => return Err(error).with_hint(),
        }
    }
    if user && measured.results.iter().all(|r| r.complete) {
        match measure_user(asked, display, sink, spikes) {
            Ok(result) => measured.results.push(result),
            // Stopped between the levels: what there is, is kept.
            Err(WakeupError::StoppedBefore) if !measured.results.is_empty() => {}
            Err(error) => return Err(error).with_hint(),
        }
    }
    Ok(measured)
}

fn measure_user(
    asked: &Config,
    display: &mut Display,
    sink: &mut Sink,
    spikes: &mut Spikes,
) -> Result<WakeupResult, WakeupError> {
    let mut on_tick = |threads: &[LiveThread]| display.tick(threads);
    let mut on_samples = |thread: usize, samples: &[Sample]| {
        spikes.note(thread, samples);
        sink.write(thread, samples)
    };
    let hooks = Hooks {
        on_tick: Some(&mut on_tick),
        on_samples: asked.measure.samples.then_some(&mut on_samples),
        ..Hooks::default()
    };
    wakeup::run(&asked.measure, hooks)
}

fn stopped_by(result: &WakeupResult) -> Option<String> {
    Some(match result.stopped_by.as_ref()? {
        StopReason::Signal { name } => name.clone(),
        StopReason::BreakValue { latency_ns, .. } => {
            format!("break value exceeded: {}", format_ns(*latency_ns as f64))
        }
        StopReason::Runaway { percent, .. } => format!("a thread used {percent} % of its CPU"),
        StopReason::Hook => "the reader of stdout has closed it".into(),
        StopReason::Samples => "the samples could not be written".into(),
    })
}
