//! Sleeps that a signal, a stop or a frozen control group interrupts, and that go on until the same time.

use super::sleeps::Sleep;

/// Sleeps at most behind an interrupted one among which the one that goes on is looked for.
const RESUMED: usize = 64;

/// Interruptions of one sleep that are followed at most.
const INTERRUPTIONS: usize = 256;

/// The sleep that an interrupted one goes on in until its own timer's time: the task sets the timer to the same time again.
pub(super) fn resumed(sleeps: &[Sleep], at: usize) -> Option<usize> {
    let (mut last, mut of) = (None, at);
    for _ in 0..INTERRUPTIONS {
        let sleep = &sleeps[of];
        let Some(until) = sleep.until.filter(|_| !sleep.gap) else { return last };
        if is_ended(sleep) {
            return last;
        }
        let behind = sleeps[of + 1..].iter().take(RESUMED);
        let next = behind
            .map_while(|s| (!s.gap).then(|| s.until.is_some_and(|u| u.goes_on(&until))))
            .position(|goes_on| goes_on);
        let Some(next) = next else { return last };
        of += 1 + next;
        last = Some(of);
    }
    last
}

/// The sleeps with those as one that go on until their timer ends them.
pub(super) fn joined(sleeps: &[Sleep]) -> Vec<Sleep> {
    let mut all = Vec::with_capacity(sleeps.len());
    let mut at = 0;
    while let Some(sleep) = sleeps.get(at) {
        let last = resumed(sleeps, at).filter(|&last| is_ended(&sleeps[last]));
        at = last.unwrap_or(at);
        all.push(Sleep { out: sleep.out, ..sleeps[at] });
        at += 1;
    }
    all
}

/// Whether the timer that the task set ended its sleep.
fn is_ended(sleep: &Sleep) -> bool {
    let function = sleep.timer.map(|t| t.function);
    sleep.until.is_some_and(|until| function == Some(until.function))
}
