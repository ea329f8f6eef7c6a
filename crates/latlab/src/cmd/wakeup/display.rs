//! What is seen while it is measured.
//!
//! Our own display is on stderr, and only on a terminal. That of another tool's
//! format is on stdout, terminal or not, because scripts read it there.

use super::fifo::Fifo;
use crate::cli::wakeup::{Config, Format};
use crate::term;
use latlab_model::units::format_ns;
use latlab_model::wakeup::config::WakeupConfig;
use latlab_report::dialect::{cyclictest, xenomai};
use latlab_report::messages;
use latlab_sys::wakeup::{LiveThread, Next};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Threads that have a line of their own in our display.
const LINES: usize = 24;
/// How often our display is drawn: often enough to see a spike, seldom enough not to make one.
const REDRAW: Duration = Duration::from_millis(200);

/// The live display.
pub struct Display {
    kind: Kind,
    config: WakeupConfig,
    nanoseconds: bool,
    started: Instant,
    drawn: Option<Instant>,
    /// Lines that the cursor stands below.
    height: usize,
    second: Second,
    failed: Option<io::Error>,
    /// The largest latency that was drawn, ns; only a larger one is drawn again with `-M`.
    drawn_max_ns: u64,
    on_max: bool,
    fifo: Option<Fifo>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    Ours,
    Cyclictest,
    Xenomai,
}

/// What is gathered for a line of Xenomai's.
struct Second {
    number: u64,
    min_ns: u64,
    max_ns: u64,
    wakeups_before: u64,
    sum_before: u64,
}

impl Display {
    /// The display that was asked for.
    pub fn new(asked: &Config, json: bool, fifo: Option<Fifo>) -> Self {
        let to_stdout = asked.samples_on_stdout();
        let kind = match asked.format {
            _ if asked.quiet => Kind::Nothing,
            Format::Cyclictest if !json && !to_stdout => Kind::Cyclictest,
            Format::Xenomai if !to_stdout => Kind::Xenomai,
            _ if term::stderr_is_terminal() => Kind::Ours,
            _ => Kind::Nothing,
        };
        let mut display = Self {
            kind,
            config: asked.measure.clone(),
            nanoseconds: asked.nanoseconds,
            started: Instant::now(),
            drawn: None,
            height: 0,
            second: Second {
                number: 0,
                min_ns: u64::MAX,
                max_ns: 0,
                wakeups_before: 0,
                sum_before: 0,
            },
            failed: None,
            drawn_max_ns: 0,
            on_max: asked.cyclictest.refresh_on_max,
            fifo,
        };
        if kind == Kind::Xenomai {
            let head = xenomai::head(&display.config, &mut term::stdout_by_line());
            display.failed = head.err();
        }
        display
    }

    /// Shows the figures so far. Nobody reading any longer ends the measurement.
    pub fn tick(&mut self, threads: &[LiveThread]) -> Next {
        if let Some(fifo) = &self.fifo {
            fifo.serve(|out| self.figures(threads, out));
        }
        let max_ns = threads.iter().map(|t| t.max_ns).max().unwrap_or(0);
        if self.on_max && max_ns <= self.drawn_max_ns {
            return Next::Continue;
        }
        self.drawn_max_ns = max_ns;
        let shown = match self.kind {
            Kind::Nothing => Ok(()),
            Kind::Ours => self.ours(threads),
            Kind::Cyclictest => self.cyclictest(threads),
            Kind::Xenomai => self.xenomai(threads),
        };
        match shown {
            Err(error) if self.kind != Kind::Ours => {
                self.failed = Some(error);
                Next::Stop
            }
            // Our own display is talk: nothing is lost if nobody listens.
            _ => Next::Continue,
        }
    }

    /// Leaves the terminal as the result is to find it.
    pub fn close(&mut self) {
        let mut stderr = io::stderr().lock();
        if self.kind == Kind::Ours && self.height > 0 {
            let _ = write!(stderr, "\x1b[{}A\x1b[J", self.height).and_then(|()| stderr.flush());
            self.height = 0;
        }
    }

    /// Why stdout could not be written, if it could not.
    pub fn failed(&mut self) -> Option<anyhow::Error> {
        self.failed.take().map(anyhow::Error::new)
    }

    fn ours(&mut self, threads: &[LiveThread]) -> io::Result<()> {
        let now = Instant::now();
        if self.drawn.is_some_and(|t| now.duration_since(t) < REDRAW) {
            return Ok(());
        }
        self.drawn = Some(now);
        let mut text = String::new();
        if self.height > 0 {
            text += &format!("\x1b[{}A", self.height);
        }
        let width = term::width();
        let lines = lines(&self.config, threads, now.duration_since(self.started));
        for line in &lines {
            text.extend(line.chars().take(width.saturating_sub(1)));
            text += "\x1b[K\n";
        }
        self.height = lines.len();
        let mut stderr = io::stderr().lock();
        stderr.write_all(text.as_bytes())?;
        stderr.flush()
    }

    fn cyclictest(&mut self, threads: &[LiveThread]) -> io::Result<()> {
        let mut text = Vec::new();
        if self.height > 0 {
            cyclictest::live_back(threads.len(), &mut text)?;
        }
        let loadavg = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        cyclictest::live_head(&self.config.policy.to_string(), &loadavg, &mut text)?;
        self.figures(threads, &mut text)?;
        self.height = threads.len() + 2;
        let mut stdout = term::stdout_by_line();
        stdout.write_all(&text)?;
        stdout.flush()
    }

    /// A line of cyclictest for each thread.
    fn figures(&self, threads: &[LiveThread], text: &mut Vec<u8>) -> io::Result<()> {
        for (index, t) in threads.iter().enumerate() {
            let line = cyclictest::Line {
                index,
                tid: t.tid,
                priority: t.priority,
                interval_ns: t.interval_ns,
                cycles: t.wakeups,
                min_ns: t.min_ns,
                act_ns: t.last_ns,
                avg_ns: t.mean_ns(),
                max_ns: t.max_ns,
            };
            cyclictest::line(&line, self.nanoseconds, text)?;
        }
        Ok(())
    }

    fn xenomai(&mut self, threads: &[LiveThread]) -> io::Result<()> {
        let s = &mut self.second;
        let recent = threads.iter().filter(|t| t.recent_max_ns > 0 || t.recent_min_ns < u64::MAX);
        for t in recent {
            s.min_ns = s.min_ns.min(t.recent_min_ns);
            s.max_ns = s.max_ns.max(t.recent_max_ns);
        }
        let wakeups: u64 = threads.iter().map(|t| t.wakeups).sum();
        let seconds = self.started.elapsed().as_secs();
        if seconds <= s.number || wakeups == s.wakeups_before {
            return Ok(());
        }
        let sum: u64 = threads.iter().map(|t| t.sum_ns).sum();
        let line = xenomai::Second {
            min_ns: s.min_ns,
            avg_ns: sum.saturating_sub(s.sum_before) / (wakeups - s.wakeups_before),
            max_ns: s.max_ns,
            overruns: threads.iter().map(|t| t.missed_periods).sum(),
            best_ns: threads.iter().filter(|t| t.wakeups > 0).map(|t| t.min_ns).min().unwrap_or(0),
            worst_ns: threads.iter().map(|t| t.max_ns).max().unwrap_or(0),
        };
        let mut stdout = term::stdout_by_line();
        if s.number.is_multiple_of(xenomai::LINES_A_HEAD) {
            xenomai::columns(&self.config, seconds, &mut stdout)?;
        }
        let number = s.number + 1;
        *s = Second {
            number,
            min_ns: u64::MAX,
            max_ns: 0,
            wakeups_before: wakeups,
            sum_before: sum,
        };
        xenomai::data(&line, &mut stdout)?;
        stdout.flush()
    }
}

/// Our display: a line on how far it is, and one a thread.
fn lines(config: &WakeupConfig, threads: &[LiveThread], elapsed: Duration) -> Vec<String> {
    let ns = |v: u64| format_ns(v as f64);
    let how_far = match share_done(config, threads, elapsed) {
        Some(share) => format!("{:3.0} %, ", (share * 100.0).min(100.0)),
        None => String::new(),
    };
    let mut lines = vec![format!(
        "wake-up latency  {how_far}{} s, every {}, {} {}  (Ctrl-C stops and saves)",
        elapsed.as_secs(),
        ns(config.interval_ns),
        config.policy,
        if config.policy.has_priority() { config.priority.to_string() } else { String::new() },
    )];
    let names = names(config, threads.len());
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max(9);
    lines.push(format!("{:width$}   wake-ups       min       now      mean       max  missed", ""));
    for (name, t) in names.iter().zip(threads).take(LINES) {
        let latencies = [t.min_ns, t.last_ns, t.mean_ns(), t.max_ns]
            .map(|v| format!("{:>9}", if t.wakeups > 0 { ns(v) } else { "-".into() }));
        let latencies = latencies.join(" ");
        lines.push(format!("{name:width$} {:>10} {latencies} {:>7}", t.wakeups, t.missed_periods));
    }
    if threads.len() > LINES {
        let max = threads.iter().map(|t| t.max_ns).max().unwrap_or(0);
        lines.push(format!("… {} threads in all, max {}", threads.len(), ns(max)));
    }
    lines
}

/// The name of each line.
fn names(config: &WakeupConfig, n: usize) -> Vec<String> {
    if let Some(by) = &config.by {
        let rows = by.rows();
        let name = |i: usize| rows.get(i).map(|row| messages::woken(*row, config.threads[0]));
        return (0..n).map(|i| name(i).unwrap_or_default()).collect();
    }
    let name = |i: usize| match config.threads.get(i) {
        Some(Some(cpu)) => format!("CPU {cpu}"),
        _ => format!("thread {i}"),
    };
    (0..n).map(name).collect()
}

/// How far it is, from 0 to 1, where it has an end.
fn share_done(config: &WakeupConfig, threads: &[LiveThread], elapsed: Duration) -> Option<f64> {
    let by_time = config.duration_ns.map(|ns| elapsed.as_nanos() as f64 / ns as f64);
    let slowest = threads.iter().map(|t| t.wakeups).min().unwrap_or(0);
    let by_loops = config.loops.map(|n| slowest as f64 / n as f64);
    match (by_time, by_loops) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::units::CpuId;

    #[test]
    fn each_cpu_has_a_line_with_its_missed_periods() {
        let config = WakeupConfig {
            threads: vec![Some(CpuId(0)), Some(CpuId(3))],
            duration_ns: Some(20_000_000_000),
            ..WakeupConfig::default()
        };
        let measured = LiveThread {
            wakeups: 5_000,
            missed_periods: 2,
            min_ns: 8_100,
            last_ns: 14_200,
            sum_ns: 75_000_000,
            max_ns: 2_470_000,
            ..LiveThread::default()
        };
        let lines = lines(&config, &[measured, LiveThread::default()], Duration::from_secs(5));
        assert_eq!(
            lines,
            [
                "wake-up latency   25 %, 5 s, every 1.00 ms, fifo 80  (Ctrl-C stops and saves)",
                "            wake-ups       min       now      mean       max  missed",
                "CPU 0           5000   8.10 µs   14.2 µs   15.0 µs   2.47 ms       2",
                "CPU 3              0         -         -         -         -       0",
            ]
        );
    }

    #[test]
    fn whichever_end_comes_first_counts() {
        let config = WakeupConfig {
            duration_ns: Some(10_000_000_000),
            loops: Some(100),
            ..WakeupConfig::default()
        };
        let thread = LiveThread { wakeups: 50, ..LiveThread::default() };
        assert_eq!(share_done(&config, &[thread], Duration::from_secs(1)), Some(0.5));
        assert_eq!(share_done(&WakeupConfig::default(), &[thread], Duration::from_secs(1)), None);
    }
}
