//! Operations that are timed one by one: the distribution of single ones, with its mean and maximum, where batches
//! give a median without what the clock adds.

use crate::harness::meter::now_ns;
use crate::probe::{Probe, ProbeError};
use latlab_model::bench::trial::{Slice, SliceSpec};
use latlab_model::record::Sequence;
use latlab_stats::histogram::Recorder;
use std::time::Duration;

/// Operations between two pauses of a probe under SCHED_FIFO: some ten milliseconds.
const STRETCH: u64 = 5_000;

/// Times `spec.each` operations, fewer if `spec.limit_ns` is over before; each value has both readings of the clock in
/// it.
///
/// # Errors
/// Those of the probe.
pub fn measure(
    probe: &mut dyn Probe,
    spec: &SliceSpec,
    slice: &mut Slice,
) -> Result<(), ProbeError> {
    let mut recorder = Recorder::new();
    let width = Sequence::width_of(spec.each);
    // As large as it becomes: the loop does not allocate.
    slice.extremes = Vec::with_capacity(Sequence::INTERVALS as usize);
    let turns = probe.per_turn().max(1.0);
    let most = probe.batch_max().unwrap_or(STRETCH).clamp(1, STRETCH);
    let started = now_ns();
    let mut left = spec.each;
    while left > 0 && now_ns() - started <= spec.limit_ns {
        let n = most.min(left);
        left -= n;
        probe.before_batch()?;
        let begun = now_ns();
        for _ in 0..n {
            let before = now_ns();
            let done = probe.run(1);
            let after = now_ns();
            if let Err(error) = done {
                return kept(error, &recorder, slice);
            }
            let value = ((after - before) as f64 / turns) as u64;
            match slice.extremes.last_mut() {
                Some((low, high)) if !recorder.count().is_multiple_of(width) => {
                    (*low, *high) = (value.min(*low), value.max(*high));
                }
                _ => slice.extremes.push((value, value)),
            }
            recorder.record(value);
        }
        let took = now_ns() - begun;
        probe.after_batch()?;
        if probe.is_fifo() {
            // A tenth of the time for everybody else: a board with one CPU stays reachable.
            std::thread::sleep(Duration::from_nanos(took / 9));
        }
    }
    slice.batch = 1;
    slice.each = Some(recorder.to_histogram());
    Ok(())
}

/// What was measured until a server on another machine was lost; any other error is one.
fn kept(error: ProbeError, recorder: &Recorder, slice: &mut Slice) -> Result<(), ProbeError> {
    match error {
        ProbeError::Failed(note)
            if note.id() == Some(crate::probe::remote::PEER_LOST)
                && recorder.to_histogram().count > 0 =>
        {
            slice.batch = 1;
            slice.each = Some(recorder.to_histogram());
            slice.notes.push(note);
            Ok(())
        }
        error => Err(error),
    }
}
