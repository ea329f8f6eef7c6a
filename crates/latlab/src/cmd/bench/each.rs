//! `--each`: single operations, each probe in a process of its own.

use crate::outcome::HintExt;
use crate::progress::Progress;
use anyhow::{Context, anyhow, bail};
use latlab_analysis::bench::each::part;
use latlab_model::bench::trial::{SliceReply, SliceSpec};
use latlab_model::finding::Note;
use latlab_model::record::Unit;
use latlab_model::run::Part;
use latlab_sys::harness::runner;
use latlab_sys::probe::registry::Instance;
use latlab_sys::scratch::ScratchDir;
use latlab_sys::signal;
use std::path::Path;
use std::time::Duration;

/// Time of one probe, unless `-D` gives another: two million switches of 10 µs each take half a minute.
const LIMIT: Duration = Duration::from_secs(120);

/// Measures `number` operations of each probe on a CPU, with files below `parent`. `worker` and a slice start a process.
///
/// # Errors
/// When a probe is no time, cannot run here, or goes wrong.
pub fn measure(
    worker: &[String],
    instances: &[Instance],
    (cpu, parent): (Option<u32>, &Path),
    number: u64,
    limit: Option<Duration>,
) -> anyhow::Result<(Part, Option<String>)> {
    if let Some(other) = instances.iter().find(|i| i.spec.unit != Unit::Ns) {
        return Err(anyhow!("--each: {} is no time of an operation", other.spec.name)).hint(
            "latlab bench --list; for example: latlab bench ctx.yield ctx.pipe --each 2000000",
        );
    }
    let all = instances.len().max(1) as f64;
    let mut progress = Progress::new("bench");
    let dir = ScratchDir::create(parent)
        .with_context(|| format!("no directory for files in {}", parent.display()))
        .hint("name one that can be written to with --dir")?;
    let mut measured = Vec::new();
    for (i, instance) in instances.iter().enumerate() {
        progress.set(Some(i as f64 / all), instance.spec.name);
        if signal::stop_requested().is_some() {
            break;
        }
        let spec = SliceSpec {
            probe: instance.spec.name.to_owned(),
            params: instance.params.clone(),
            limit_ns: u64::try_from(limit.unwrap_or(LIMIT).as_nanos()).unwrap_or(u64::MAX),
            cpu,
            dir: dir.path().display().to_string(),
            each: number,
            peer: instance.peer.map(latlab_sys::probe::remote::address_text),
            ..SliceSpec::default()
        };
        if let Some(slice) = one(worker, &spec, instance)? {
            measured.push((instance.spec.name.to_owned(), instance.params.clone(), slice));
        }
    }
    let stopped = signal::stop_requested().map(signal::Signal::name);
    Ok((part(measured, number, stopped.is_none()), stopped))
}

/// Why single operations of a probe ended before their number: the server on another machine was lost.
pub fn lost(part: &Part) -> Option<String> {
    let notes = part.results.iter().flat_map(|r| r.notes.iter().map(move |n| (&r.name, n)));
    let is = |n: &Note| n.id() == Some(latlab_sys::probe::remote::PEER_LOST);
    let (name, note) = notes.into_iter().find(|(_, n)| is(n))?;
    Some(format!("{name}: {}", latlab_report::messages::note(note)))
}

/// One probe; `None` when a signal ended it.
fn one(
    worker: &[String],
    spec: &SliceSpec,
    instance: &Instance,
) -> anyhow::Result<Option<latlab_model::bench::trial::Slice>> {
    let name = instance.spec.name;
    let Some(reply) = runner::slice(worker, spec) else { return Ok(None) };
    match reply {
        SliceReply::Measured(slice) => Ok(Some(*slice)),
        SliceReply::Unavailable { reason } => {
            bail!("{name}: not available: {}", latlab_report::messages::note(&reason))
        }
        SliceReply::Failed { reason } => {
            bail!("{name}: {}", latlab_report::messages::note(&reason))
        }
    }
}
