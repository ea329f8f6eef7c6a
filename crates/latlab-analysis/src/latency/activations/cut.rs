//! Whether an activation has ended when the recording ends.
//!
//! A task that sleeps at the end may sleep until its next activation, or inside of one. It is told apart by what
//! separated the activations before: the state in which the task left its CPU, and the timer that it set.

use super::release::{Boundary, is_boundary};
use super::sleeps::{Last, Sleep, Until};
use latlab_model::event::OffCpu;

/// A sleep to the next activation is set to at most so many times the longest one before.
const LONGER: f64 = 1.3;

/// Whether a sleep at the end of the recording is one to the next activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleeps {
    ToTheNext,
    Inside,
    Unclear,
}

/// Whether an activation that began with one of these sleeps is open at the end; `None`: it is over, or nothing is known
/// of it. False: the task sleeps, and may have ended it.
pub(super) fn is_open(sleeps: &[Sleep], last: Last, boundary: &Boundary) -> Option<bool> {
    let is_sure = match last {
        Last::Unknown => return None,
        Last::Woken(_) | Last::Running(_) | Last::Runnable(_) => true,
        Last::Asleep { left, inside, until, .. } => {
            match asleep(sleeps, boundary, (left, inside, until)) {
                Sleeps::ToTheNext => return None,
                Sleeps::Inside => true,
                Sleeps::Unclear => false,
            }
        }
    };
    Some(is_sure && !is_interrupted(sleeps, boundary))
}

/// Whether the last sleep may be one to the next activation that a signal, a stop or a frozen control group interrupted.
fn is_interrupted(sleeps: &[Sleep], boundary: &Boundary) -> bool {
    sleeps.last().is_some_and(|s| {
        let is_ended = s.timer.map(|t| t.function) == s.until.map(|u| u.function);
        !is_ended
            && !is_boundary(s, boundary)
            && s.until.is_some_and(|until| {
                asleep(sleeps, boundary, (s.left, s.inside, Some(until))) == Sleeps::ToTheNext
            })
    })
}

fn asleep(
    sleeps: &[Sleep],
    boundary: &Boundary,
    (left, inside, until): (OffCpu, bool, Option<Until>),
) -> Sleeps {
    match left {
        OffCpu::Dead => return Sleeps::ToTheNext,
        OffCpu::Stopped => return Sleeps::Unclear,
        _ => {}
    }
    if *boundary == Boundary::Any {
        let is_one = left == OffCpu::Sleeping && !inside;
        return if is_one { Sleeps::ToTheNext } else { Sleeps::Inside };
    }
    let alike = || {
        let own = sleeps.iter().filter(|s| is_boundary(s, boundary));
        own.filter(|s| (s.left, s.inside) == (left, inside))
    };
    if alike().next().is_none() {
        return Sleeps::Inside;
    }
    let Boundary::Timer { function, relative, low, high } = *boundary else {
        return Sleeps::Unclear;
    };
    match until {
        Some(until) if until.function == function => {
            let longest = alike().filter_map(|s| s.timer).map(|t| t.asked).max().unwrap_or(0);
            let is_asked = relative.is_none_or(|r| r == until.relative)
                && (low..=high).contains(&until.asked)
                && until.asked as f64 <= LONGER * longest as f64;
            // Where it is not known for how long timers are set, any of them.
            if is_asked || longest <= 0 { Sleeps::ToTheNext } else { Sleeps::Inside }
        }
        Some(_) => Sleeps::Unclear,
        // The task sets the timer of such a sleep itself.
        None if alike().any(|s| s.until.is_some_and(|u| u.function == function)) => Sleeps::Inside,
        None => Sleeps::Unclear,
    }
}
