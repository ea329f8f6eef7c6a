//! User stacks of a program while it is recorded: in which function each thread was when it left its CPU.
//!
//! Stacks are unwound as they come, by the tables in the program's files. Names are looked up at the end, for the
//! stacks in captures that are kept, and written into a file beside each capture.

mod objects;
mod process;
mod unwind;

use crate::outcome::HintExt;
use crate::rundir::write_atomically;
use anyhow::{Context, anyhow};
use latlab_analysis::latency::capture::Capture;
use latlab_model::latency::{LeftCpu, UserFrame, UserStacks, WhyResult};
use latlab_model::units::{Tid, TraceNs};
use latlab_sys::user_stacks::UserStacks as Sampler;
use process::Process;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Samples of an interval that are kept at most.
const SAMPLES: usize = 65_536;
/// Different stacks that are kept at most.
const STACKS: usize = 16_384;
/// Processes that are unwound at most.
const PROCESSES: usize = 64;
/// Bytes of a file of stacks that are read at most.
const FILE: u64 = 64 << 20;

/// The file beside a capture.
pub(in crate::cmd) fn beside(capture: &Path) -> PathBuf {
    capture.with_extension("stacks.json")
}

/// The user stacks that were recorded with a capture; none where there is no such file.
///
/// # Errors
/// When the file cannot be read, or is damaged.
pub(in crate::cmd) fn load(capture: &Path) -> anyhow::Result<UserStacks> {
    let path = beside(capture);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(UserStacks::default()),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let mut text = Vec::new();
    file.take(FILE + 1).read_to_end(&mut text).with_context(|| path.display().to_string())?;
    let hint = "the capture can be explained without it: move it away";
    if text.len() as u64 > FILE {
        return Err(anyhow!("{}: more than {} MB", path.display(), FILE >> 20)).hint(hint);
    }
    serde_json::from_slice(&text)
        .map_err(|error| anyhow!("{}: not a file of user stacks: {error}", path.display()))
        .hint(hint)
}

/// A stack: a process by its place, and addresses, innermost first.
type Stack = (usize, Vec<u64>);

/// The user stacks of a program.
#[derive(Default)]
pub(super) struct Recording {
    /// `None`: none were asked for.
    sampler: Option<Sampler>,
    /// Processes by id, with their places.
    known: HashMap<i32, usize>,
    processes: Vec<Process>,
    /// The process of a thread.
    of: HashMap<Tid, usize>,
    places: HashMap<Stack, u32>,
    stacks: Vec<Stack>,
    /// Of the interval that is recorded.
    samples: Vec<LeftCpu>,
    /// Of the captures that are kept.
    kept: BTreeMap<PathBuf, Vec<LeftCpu>>,
    error: Option<String>,
}

impl Recording {
    /// Of no thread yet.
    pub(super) fn new(wanted: bool) -> Self {
        Self { sampler: wanted.then(Sampler::default), ..Self::default() }
    }

    /// Whether threads are sampled.
    pub(super) fn is_on(&self) -> bool {
        self.sampler.is_some()
    }

    /// Samples these threads from now on.
    pub(super) fn follow(&mut self, tids: &[Tid]) {
        if let Some(sampler) = &mut self.sampler {
            sampler.follow(tids);
        }
    }

    /// Empties the kernel's rings.
    pub(super) fn take(&mut self) {
        let Some(mut sampler) = self.sampler.take() else { return };
        sampler.take(|tid, sample| {
            if self.samples.len() >= SAMPLES {
                return;
            }
            let Some(process) = self.process(tid) else { return };
            let addresses = self.processes[process].unwind(&sample);
            let Some(stack) = self.place((process, addresses)) else { return };
            self.samples.push(LeftCpu { tid: tid.0, at_ns: sample.at_ns, stack });
        });
        self.sampler = Some(sampler);
    }

    /// The place of a thread's process; `None` where it cannot be read, and beyond the most.
    fn process(&mut self, tid: Tid) -> Option<usize> {
        if let Some(&known) = self.of.get(&tid) {
            return Some(known);
        }
        let pid = process::of_thread(tid)?;
        if !self.known.contains_key(&pid) && self.processes.len() >= PROCESSES {
            return None;
        }
        let next = self.processes.len();
        let place = *self.known.entry(pid).or_insert(next);
        if place == next {
            self.processes.push(Process::new(pid));
        }
        self.of.insert(tid, place);
        Some(place)
    }

    fn place(&mut self, stack: Stack) -> Option<u32> {
        if let Some(&known) = self.places.get(&stack) {
            return Some(known);
        }
        if self.stacks.len() >= STACKS {
            return None;
        }
        let place = self.stacks.len() as u32;
        self.stacks.push(stack.clone());
        self.places.insert(stack, place);
        Some(place)
    }

    /// Keeps the stacks of an interval's capture.
    pub(super) fn keep(&mut self, path: &Path, capture: &Capture) {
        if self.sampler.is_none() {
            return;
        }
        self.take();
        if !capture.clock_is_monotonic {
            self.error = Some("the clock of the trace is not CLOCK_MONOTONIC".to_owned());
            return;
        }
        let (Some(first), Some(last)) = (capture.events.first(), capture.events.last()) else {
            return;
        };
        // The last switch is followed by its sample.
        let within = first.time.0..=last.time.0.saturating_add(1_000_000);
        let own = self.samples.iter().filter(|s| within.contains(&s.at_ns)).copied();
        self.kept.insert(path.to_owned(), own.collect());
    }

    /// Forgets the stacks of a capture that is kept no more.
    pub(super) fn forget(&mut self, path: &Path) {
        self.kept.remove(path);
    }

    /// What was recorded until a time is not needed any more.
    pub(super) fn forget_before(&mut self, needed_from: TraceNs) {
        self.take();
        self.samples.retain(|s| s.at_ns > needed_from.0);
    }

    /// Writes the file beside each capture that is kept.
    ///
    /// # Errors
    /// When one cannot be written.
    pub(super) fn save(&mut self) -> anyhow::Result<()> {
        let kept = std::mem::take(&mut self.kept);
        let mut wanted: Vec<u32> = kept.values().flatten().map(|left| left.stack).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut of_process: BTreeMap<usize, Vec<(u32, &[u64])>> = BTreeMap::new();
        for &stack in &wanted {
            let (process, addresses) = &self.stacks[stack as usize];
            of_process.entry(*process).or_default().push((stack, addresses));
        }
        let mut named: BTreeMap<u32, Vec<UserFrame>> = BTreeMap::new();
        for (process, stacks) in of_process {
            named.extend(self.processes[process].name(&stacks));
        }
        for (path, left) in kept {
            let stacks = table(left, &named);
            let path = beside(&path);
            write_atomically(&path, |out| {
                serde_json::to_writer(&mut *out, &stacks)?;
                out.write_all(b"\n")
            })
            .with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// Adds why no stack was recorded, where that is so.
    pub(super) fn tell(&self, result: &mut WhyResult) {
        let Some(sampler) = &self.sampler else { return };
        let error = self.error.clone().or_else(|| sampler.error().map(ToString::to_string));
        if error.is_some() {
            result.waits.get_or_insert_default().error = error;
        }
    }
}

/// The stacks of a capture, each function and stack once.
fn table(left: Vec<LeftCpu>, named: &BTreeMap<u32, Vec<UserFrame>>) -> UserStacks {
    let mut all = UserStacks::default();
    let mut frames: HashMap<&UserFrame, u32> = HashMap::new();
    let mut places: HashMap<u32, u32> = HashMap::new();
    for mut sample in left {
        let Some(functions) = named.get(&sample.stack) else { continue };
        let place = *places.entry(sample.stack).or_insert_with(|| {
            let place = |frame| {
                *frames.entry(frame).or_insert_with(|| {
                    all.frames.push(frame.clone());
                    all.frames.len() as u32 - 1
                })
            };
            all.stacks.push(functions.iter().map(place).collect());
            all.stacks.len() as u32 - 1
        });
        sample.stack = place;
        all.left.push(sample);
    }
    all.left.sort_by_key(|l| (l.at_ns, l.tid));
    all
}
