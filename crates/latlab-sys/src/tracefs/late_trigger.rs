//! Stops a buffer at the event that makes an activation late, in the kernel: nobody has to look.
//!
//! ```text
//! sched_waking ──time──▶ sched_switch ──difference──▶ synthetic event ──more than the limit──▶ traceoff
//! ```
//!
//! Histogram triggers keep the time of each watched task's wake-up and hand the difference to a synthetic event; its
//! trigger stops the instance. Where the start decides, a second synthetic event keeps that it was late until the task
//! sleeps, so that the whole activation is recorded. An instance with histograms cannot be removed, so that they go first.
//! The synthetic events are of the whole machine and are journalled before they are made. A histogram of times sets the
//! clock of its instance: to `mono` here. Source: the kernel's `Documentation/trace/histogram.rst` and `events.rst`.

use super::{Control, Result, Tracefs, TracefsError, probes};
use crate::settings::Settings;
use latlab_model::units::{Nanos, Tid};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Names of our synthetic events begin so.
const PREFIX: &str = "latlab_late_";
/// Threads at most: a filter is shorter than a page.
const THREADS: usize = 60;
/// `prev_state` of a task that goes to sleep has one of these bits; that of a preempted one has none
/// (`include/linux/sched.h`: TASK_INTERRUPTIBLE to TASK_IDLE, below TASK_REPORT_MAX).
const ASLEEP: &str = "prev_state & 255";

/// The clock of the instance; without it a histogram sets `global`.
const CLOCK: &str = ":clock=mono";

/// What is measured of a task, from its wake-up on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The first switch to it.
    Start,
    /// Its next sleep.
    Sleep,
}

/// When the tasks of a rule are late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateRule {
    /// Threads.
    pub tids: Vec<Tid>,
    /// What is measured.
    pub until: Until,
    /// Longer is late.
    pub limit: Nanos,
}

/// Triggers of an instance and their synthetic event, which are removed when this is dropped: before the instance.
#[derive(Debug)]
pub struct LateTrigger {
    name: String,
    /// The instance.
    set_in: Option<PathBuf>,
    // Removes the event.
    _settings: Settings,
}

impl LateTrigger {
    /// Whether the kernel has histograms and synthetic events.
    pub fn is_possible(tracefs: &Tracefs) -> bool {
        ["synthetic_events", "dynamic_events", "events/sched/sched_switch/hist"]
            .iter()
            .all(|name| tracefs.root().join(name).exists())
    }

    /// Makes the event; `None` where it is not possible.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn new(tracefs: &Tracefs) -> Result<Option<Self>> {
        if !Self::is_possible(tracefs) {
            return Ok(None);
        }
        let root = tracefs.root().join("events");
        let name = free_name(|name| root.join("synthetic").join(name).exists());
        let mut settings = Settings::new();
        let (list, group) = (tracefs.root().join("dynamic_events"), root.join("synthetic"));
        for event in [name.clone(), start_of(&name)] {
            let event = format!("synthetic/{event}");
            probes::add(&mut settings, &list, &group, &event, &definition(&event))?;
        }
        Ok(Some(Self { name, set_in: None, _settings: settings }))
    }

    /// Sets the triggers of an instance; `false` for no thread, and for more than a filter can name.
    ///
    /// # Errors
    /// When the kernel refuses one; then nothing stops the instance.
    pub fn set(&mut self, control: &Control, rules: &[LateRule]) -> Result<bool> {
        let threads: usize = rules.iter().map(|r| r.tids.len()).sum();
        if !(1..=THREADS).contains(&threads) {
            return Ok(false);
        }
        self.set_in = Some(control.dir().to_owned());
        for (event, trigger) in triggers(&self.name, rules) {
            let found = control.select(&event)?.into_iter().next();
            let missing =
                || TracefsError::Unknown { kind: "event", name: event, nearest: Vec::new() };
            control.add_trigger(&found.ok_or_else(missing)?, &trigger)?;
        }
        Ok(true)
    }
}

impl Drop for LateTrigger {
    fn drop(&mut self) {
        if let Some(dir) = &self.set_in {
            remove_from(dir);
        }
    }
}

/// Removes such triggers from an instance: the last first, because each refers to the one before.
pub(super) fn remove_from(instance: &Path) {
    let events = instance.join("events");
    let of_ours = || {
        let all = fs::read_dir(events.join("synthetic")).into_iter().flatten().flatten();
        let is_ours = |e: &fs::DirEntry| e.file_name().to_string_lossy().starts_with(PREFIX);
        all.filter(is_ours).map(|e| e.path())
    };
    for event in of_ours() {
        let _ = (fs::OpenOptions::new().append(true).open(event.join("trigger")))
            .and_then(|mut file| file.write_all(b"!traceoff"));
    }
    // Emptying the file removes the histograms of an event: those that read a variable, and then its own.
    let empty = |event: &Path| {
        let _ = fs::OpenOptions::new().write(true).truncate(true).open(event.join("trigger"));
    };
    empty(&events.join("sched/sched_switch"));
    of_ours().for_each(|event| empty(&event));
    empty(&events.join("sched/sched_waking"));
}

/// The event in `dynamic_events`.
fn definition(event: &str) -> String {
    format!("s:{event} u64 us; pid_t pid")
}

fn free_name(is_taken: impl Fn(&str) -> bool) -> String {
    let of = |n: u32| format!("{PREFIX}{}_{n}", std::process::id());
    (0..1_000).map(of).find(|name| !is_taken(name)).unwrap_or_else(|| of(1_000))
}

/// `FIELD == 1 || FIELD == 2`.
fn one_of(field: &str, tids: &[Tid]) -> String {
    let each = tids.iter().map(|tid| format!("{field} == {}", tid.0));
    each.collect::<Vec<_>>().join(" || ")
}

/// The event of a late start.
fn start_of(name: &str) -> String {
    format!("{name}_start")
}

/// Each trigger with its event, in the order in which they are set. A variable is taken out where a difference reads it (not
/// where it is copied), so each measure has its own.
fn triggers(name: &str, rules: &[LateRule]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut add = |event: &str, trigger: String| out.push((event.to_owned(), trigger));
    let named = rules.iter().filter(|r| !r.tids.is_empty()).cloned();
    let (by_end, by_start): (Vec<LateRule>, Vec<LateRule>) =
        named.partition(|r| r.until == Until::Sleep);
    let tids = |rules: &[LateRule]| -> Vec<Tid> {
        rules.iter().flat_map(|r| r.tids.iter().copied()).collect()
    };
    let (start, waking, switch) = (start_of(name), "sched:sched_waking", "sched:sched_switch");
    let (ending, starting) = (tids(&by_end), tids(&by_start));
    let time = |variable: &str, condition: &str| {
        format!("hist:keys=pid:{variable}=common_timestamp.usecs{CLOCK} if {condition}")
    };
    // The time since a variable was set at an event, as a synthetic event.
    let since = |variable: &str, set_at: &str, event: &str, key: &str, condition: &str| {
        format!(
            "hist:keys={key}:{variable}_us=common_timestamp.usecs-${variable}{CLOCK}:\
             onmatch({set_at}).{event}(${variable}_us,{key}) if {condition}"
        )
    };
    let sleeps = |tids: &[Tid]| format!("{ASLEEP} && ({})", one_of("prev_pid", tids));
    let mut stop = Vec::new();
    if !by_end.is_empty() {
        add(waking, time("latlab_e", &one_of("pid", &ending)));
        let is_over = sleeps(&ending);
        add(switch, since("latlab_e", "sched.sched_waking", name, "prev_pid", &is_over));
        stop.push(over_limit(&by_end));
    }
    if !by_start.is_empty() {
        add(waking, time("latlab_s", &one_of("pid", &starting)));
        let starts = one_of("next_pid", &starting);
        add(switch, since("latlab_s", "sched.sched_waking", &start, "next_pid", &starts));
        add(&format!("synthetic:{start}"), time("latlab_l", &over_limit(&by_start)));
        let set_at = format!("synthetic.{start}");
        add(switch, since("latlab_l", &set_at, name, "prev_pid", &sleeps(&starting)));
        stop.push(format!("({})", one_of("pid", &starting)));
    }
    add(&format!("synthetic:{name}"), format!("traceoff if {}", stop.join(" || ")));
    out
}

/// The condition that a synthetic event's time exceeds its thread's limit.
fn over_limit(rules: &[LateRule]) -> String {
    let of = |r: &LateRule| {
        format!("(us > {} && ({}))", r.limit.0.div_ceil(1_000), one_of("pid", &r.tids))
    };
    rules.iter().map(of).collect::<Vec<_>>().join(" || ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(tids: &[i32], until: Until, limit: Nanos) -> LateRule {
        LateRule { tids: tids.iter().map(|t| Tid(*t)).collect(), until, limit }
    }

    #[test]
    fn triggers_are_those_of_the_kernels_documentation() {
        let rules = [rule(&[7, 8], Until::Sleep, Nanos(1_500_500))];
        let all = triggers("late", &rules);
        assert_eq!(
            all.iter()
                .map(|(event, trigger)| (event.as_str(), trigger.as_str()))
                .collect::<Vec<_>>(),
            [
                (
                    "sched:sched_waking",
                    "hist:keys=pid:latlab_e=common_timestamp.usecs:clock=mono if pid == 7 || pid == 8"
                ),
                (
                    "sched:sched_switch",
                    "hist:keys=prev_pid:latlab_e_us=common_timestamp.usecs-$latlab_e:clock=mono:onmatch(sched.sched_waking)\
                     .late($latlab_e_us,prev_pid) if prev_state & 255 && (prev_pid == 7 || prev_pid == 8)"
                ),
                ("synthetic:late", "traceoff if (us > 1501 && (pid == 7 || pid == 8))"),
            ]
        );
    }

    /// A late start stops the buffer at the end of the activation.
    #[test]
    fn a_late_start_is_kept_until_the_task_sleeps() {
        let rules =
            [rule(&[7], Until::Sleep, Nanos(2_000)), rule(&[9], Until::Start, Nanos(90_000))];
        let all = triggers("late", &rules);
        let of = |event: &str| -> Vec<&str> {
            all.iter().filter(|t| t.0 == event).map(|t| t.1.as_str()).collect()
        };
        assert_eq!(
            of("synthetic:late_start"),
            ["hist:keys=pid:latlab_l=common_timestamp.usecs:clock=mono if (us > 90 && (pid == 9))"]
        );
        assert_eq!(
            of("sched:sched_switch")[1..],
            [
                "hist:keys=next_pid:latlab_s_us=common_timestamp.usecs-$latlab_s:clock=mono:onmatch(sched.sched_waking)\
                 .late_start($latlab_s_us,next_pid) if next_pid == 9",
                "hist:keys=prev_pid:latlab_l_us=common_timestamp.usecs-$latlab_l:clock=mono:onmatch(synthetic.late_start)\
                 .late($latlab_l_us,prev_pid) if prev_state & 255 && (prev_pid == 9)"
            ]
        );
        assert_eq!(of("synthetic:late"), ["traceoff if (us > 2 && (pid == 7)) || (pid == 9)"]);
        assert_eq!(of("sched:sched_waking").len(), 2);
    }

    #[test]
    fn a_kernel_without_histograms_has_no_trigger() {
        let dir = tempfile::tempdir().unwrap();
        let tracefs = Tracefs::at(dir.path());
        assert_eq!(free_name(|n| n.ends_with("_0")).rsplit('_').next(), Some("1"));
        assert!(LateTrigger::new(&tracefs).unwrap().is_none());
        assert_eq!(definition("synthetic/a"), "s:synthetic/a u64 us; pid_t pid");
    }
}
