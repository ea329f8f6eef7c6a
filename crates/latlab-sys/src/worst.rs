//! One evaluation of a search for the worst wake-up: inputs are told when to begin, the task sleeps to an absolute
//! time, and its latency is measured.
//!
//! ```text
//!      start                      tick   expiry
//!        │ arm inputs ── sleep ─────│──────│── latency ──│ … rest
//!        multiple of 4 ms           └──────┴─ phase of the tick
//! ```
//! Each evaluation starts at a multiple of the tick, with all inputs at rest, so that equal times give equal latencies
//! as far as the kernel's memory and queues are equal.

use crate::load::{self, LoadSpec};
use crate::wakeup::{now_ns, sleep_until, tell};
use latlab_model::worst::InputKind;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Period of the tick, ns: a multiple of those of 250, 500 and 1000 Hz.
pub const TICK_NS: u64 = 4_000_000;
/// Control of the fault module.
const CONTROL: &str = "/sys/kernel/debug/latlab-faults/control";
/// Time to tell all inputs when to begin, ns.
const ARM_NS: u64 = 1_000_000;
/// Rounds of a load before one is timed, and rounds that are timed.
const ROUNDS: (usize, usize) = (5, 5);
/// The longest round, ns.
const ROUND_MAX_NS: u64 = 20_000_000;

/// When an input begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strikes {
    /// The first time, ns from the expiry; negative: before it.
    pub first_ns: i64,
    /// How many times, one period after the other; a load has one round.
    pub times: u32,
}

/// The inputs, ready to begin.
#[derive(Debug)]
pub struct Stage {
    control: Option<File>,
    inputs: Vec<Source>,
    before_ns: u64,
    after_ns: u64,
    /// When all inputs of the last evaluation are at rest.
    rest_ns: u64,
    line: Vec<u8>,
}

#[derive(Debug)]
enum Source {
    Fault(String),
    Load(Box<Rounds>),
    Tick,
}

/// A process that does one round of a load each time it is told when.
#[derive(Debug)]
struct Rounds {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    busy: bool,
}

impl Stage {
    /// Opens the module's control and starts a process for each load; `program` is latlab.
    ///
    /// # Errors
    /// Without the module, or when a process cannot be started.
    pub fn new(inputs: &[(InputKind, &str)], program: &Path) -> io::Result<Self> {
        let has_fault = inputs.iter().any(|(kind, _)| *kind == InputKind::Fault);
        let control =
            has_fault.then(|| OpenOptions::new().write(true).open(CONTROL)).transpose()?;
        let source = |(kind, name): &(InputKind, &str)| {
            Ok(match kind {
                InputKind::Fault => Source::Fault((*name).to_owned()),
                InputKind::Tick => Source::Tick,
                InputKind::Load => Source::Load(Box::new(Rounds::start(program, name)?)),
            })
        };
        let inputs = inputs.iter().map(source).collect::<io::Result<_>>()?;
        Ok(Self {
            control,
            inputs,
            before_ns: 0,
            after_ns: 0,
            rest_ns: 0,
            line: Vec::with_capacity(160),
        })
    }

    /// Duration of one round of each load, ns; 0 for other inputs.
    ///
    /// # Errors
    /// When a load ends, or takes too long.
    pub fn time_loads(&mut self) -> io::Result<Vec<u64>> {
        self.inputs
            .iter_mut()
            .map(|input| match input {
                Source::Load(rounds) => rounds.time(),
                Source::Fault(_) | Source::Tick => Ok(0),
            })
            .collect()
    }

    /// The earliest beginning before the expiry, and the time after it until all inputs are at rest, ns.
    pub fn window(&mut self, before_ns: u64, after_ns: u64) {
        (self.before_ns, self.after_ns) = (before_ns, after_ns);
    }

    /// The latency of one wake-up, ns, `tick_ns` after a tick, with these strikes of the inputs.
    ///
    /// # Errors
    /// When an input refuses, ended, or was not ready in time.
    pub fn evaluate(&mut self, tick_ns: u64, strikes: &[Option<Strikes>]) -> io::Result<u64> {
        let start = (now_ns().max(self.rest_ns) + 1).next_multiple_of(TICK_NS);
        let lead = (ARM_NS + self.before_ns).next_multiple_of(TICK_NS);
        let expiry = start + lead + tick_ns;
        sleep_until(start);
        for (input, strikes) in self.inputs.iter_mut().zip(strikes) {
            let Some(strikes) = strikes else { continue };
            let at_ns = expiry.saturating_add_signed(strikes.first_ns);
            match input {
                Source::Tick => {}
                Source::Load(rounds) => rounds.begin(at_ns)?,
                Source::Fault(kind) => {
                    self.line.clear();
                    write!(self.line, "{kind} again at_ns={at_ns} times={}", strikes.times)?;
                    if let Some(control) = &mut self.control {
                        control.write_all(&self.line)?;
                    }
                }
            }
        }
        if now_ns() + self.before_ns >= expiry {
            return Err(io::Error::other("an input was not ready before its time"));
        }
        while !sleep_until(expiry) {
            if crate::signal::stop_requested().is_some() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        let latency = now_ns().saturating_sub(expiry);
        tell(latency);
        for input in &mut self.inputs {
            if let Source::Load(rounds) = input {
                rounds.finish()?;
            }
        }
        self.rest_ns = expiry + self.after_ns;
        Ok(latency)
    }
}

impl Rounds {
    fn start(program: &Path, load: &str) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(["search-worker", "--round", load]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        crate::process::tie_to_us(&mut command);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a process without pipes");
        let to = child.stdin.take().ok_or_else(missing)?;
        let from = child.stdout.take().ok_or_else(missing)?;
        Ok(Self { child, to, from, busy: false })
    }

    fn begin(&mut self, at_ns: u64) -> io::Result<()> {
        self.busy = true;
        self.to.write_all(&at_ns.to_ne_bytes())
    }

    /// Waits for the end of a round that was begun; its duration in ns.
    fn finish(&mut self) -> io::Result<u64> {
        if !std::mem::take(&mut self.busy) {
            return Ok(0);
        }
        let mut ns = [0; 8];
        match self.from.read_exact(&mut ns) {
            Ok(()) => Ok(u64::from_ne_bytes(ns)),
            Err(_) => Err(io::Error::other(format!("a load ended: {}", self.child.wait()?))),
        }
    }

    fn time(&mut self) -> io::Result<u64> {
        let mut longest = 0;
        for round in 0..ROUNDS.0 + ROUNDS.1 {
            self.begin(now_ns())?;
            let ns = self.finish()?;
            if round >= ROUNDS.0 {
                longest = longest.max(ns);
            }
        }
        if longest > ROUND_MAX_NS {
            return Err(io::Error::other(format!(
                "a round of the load takes {} ms, more than {} ms: choose a smaller one",
                longest / 1_000_000,
                ROUND_MAX_NS / 1_000_000
            )));
        }
        Ok(longest)
    }
}

/// Does rounds of a load at the times that standard input has, eight bytes each, until it ends; tells on
/// standard output how long each took.
///
/// # Errors
/// When the load is none of the built-in ones, or its work cannot be done.
pub fn rounds_until_stdin_ends(load: &str) -> io::Result<()> {
    let LoadSpec::Built(1, worker) = load.parse().map_err(io::Error::other)? else {
        return Err(io::Error::other(format!("'{load}' is not one built-in load")));
    };
    let mut round = load::rounds(worker.kind)?;
    let (mut from, mut to) = (io::stdin().lock(), io::stdout().lock());
    let mut at = [0; 8];
    while from.read_exact(&mut at).is_ok() {
        sleep_until(u64::from_ne_bytes(at));
        let begun = now_ns();
        round()?;
        to.write_all(&now_ns().saturating_sub(begun).to_ne_bytes())?;
        to.flush()?;
    }
    Ok(())
}
