//! Copies of a trial, each a process on a CPU of its own, whose batches begin at the same time: lmbench's `-P`.
//!
//! A copy that has warmed up writes an empty line and reads its standard input, a pipe that all copies share and that
//! nobody writes to. When all are that far, its other end is closed.

use super::worker::{Trial, TrialError, finished};
use crate::probe::{Calling as _, ProbeError};
use latlab_model::bench::trial::{SliceReply, SliceSpec};
use std::process::Stdio;
use std::time::Duration;

/// In a copy: waits for the others.
pub(super) fn wait_for_others() -> Result<(), ProbeError> {
    rustix::io::write(rustix::stdio::stdout(), b"\n").calling("write")?;
    let mut some = [0; 16];
    while rustix::io::read(rustix::stdio::stdin(), &mut some).calling("read")? > 0 {}
    Ok(())
}

/// Runs the trial once on each of the CPUs, at the same time; the reply of each.
pub(super) fn run(
    worker: &[String],
    spec: &SliceSpec,
    cpus: &[u32],
    limit: Duration,
) -> Vec<Result<SliceReply, TrialError>> {
    let (ready, held) = match rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) {
        Ok(pipe) => pipe,
        Err(error) => return vec![Err(TrialError::Io(error.into()))],
    };
    let start = |&cpu: &u32| {
        // Of one copy who had the CPU is enough.
        let watch = spec.watch && Some(cpu) == spec.cpu;
        let spec = SliceSpec { cpu: Some(cpu), together: true, watch, ..spec.clone() };
        Trial::start(worker, &spec, Stdio::from(ready.try_clone()?))
    };
    let trials: Vec<_> = cpus.iter().map(start).collect();
    drop(ready);
    let warm: Vec<Result<_, TrialError>> = trials
        .into_iter()
        .map(|trial| {
            let mut trial = trial?;
            let first = trial.lines.next(limit);
            Ok((trial, first))
        })
        .collect();
    drop(held);
    type Warm = (Trial, Result<Option<String>, TrialError>);
    let reply = |warm: Result<Warm, TrialError>| {
        let (mut trial, first) = warm?;
        let line = match first {
            Ok(Some(text)) if text.is_empty() => trial.lines.next(limit),
            other => other,
        };
        finished(trial, line)
    };
    warm.into_iter().map(reply).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::finding::Note;

    /// A copy needs long to warm up: the other one measures after that, and both reply.
    #[test]
    fn no_copy_measures_before_all_are_ready() {
        let dir = tempfile::tempdir().unwrap();
        let script = r#"
            case $1 in *'"cpu":1'*) sleep 0.3; date +%s%N > slow-ready ;; esac
            echo; cat > /dev/null
            echo "{\"failed\":{\"reason\":\"$(date +%s%N)\"}}""#;
        let script = format!("cd '{}'; {script}", dir.path().display());
        let worker = ["sh", "-c", &script, "sh"].map(str::to_owned);
        let spec = SliceSpec { cpu: Some(0), watch: true, ..SliceSpec::default() };
        let replies = run(&worker, &spec, &[0, 1], Duration::from_secs(20));
        let times: Vec<u64> = replies
            .into_iter()
            .map(|reply| match reply.unwrap() {
                SliceReply::Failed { reason: Note::Recorded(time) } => time.parse().unwrap(),
                other => panic!("{other:?}"),
            })
            .collect();
        let ready = std::fs::read_to_string(dir.path().join("slow-ready")).unwrap();
        let ready: u64 = ready.trim().parse().unwrap();
        assert!(times.len() == 2 && times.iter().all(|t| *t >= ready), "{times:?} {ready}");
    }

    #[test]
    fn a_copy_that_fails_holds_no_other_up() {
        let script = r#"case $1 in *'"cpu":1'*) exit 3 ;; esac; echo; cat >/dev/null; echo '{"failed":{"reason":"x"}}'"#;
        let worker = ["sh", "-c", script, "sh"].map(str::to_owned);
        let replies = run(&worker, &SliceSpec::default(), &[0, 1], Duration::from_secs(20));
        assert!(matches!(&replies[0], Ok(SliceReply::Failed { reason: Note::Recorded(_) })));
        assert!(matches!(&replies[1], Ok(SliceReply::Failed { reason: Note::Typed(_) })));
        let missing = ["/no/such/program".to_owned()];
        let replies = run(&missing, &SliceSpec::default(), &[0, 1], Duration::from_secs(20));
        assert!(replies.iter().all(|r| matches!(r, Err(TrialError::NotStarted(_)))), "{replies:?}");
    }
}
