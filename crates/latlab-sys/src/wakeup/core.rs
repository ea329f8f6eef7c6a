//! A task of a real-time core beside Linux, measured by the core's own program: `latency` of Xenomai 3, `latmus` of EVL.
//!
//! Linux neither schedules such a task nor sees its timers. The program runs as a process of its own, and its histogram
//! file is the result.

use super::{Hooks, LiveThread, Next, WakeupError};
use crate::scratch::ScratchDir;
use crate::{clock, process, signal};
use latlab_model::wakeup::config::{Core, Level, WakeupConfig};
use rustix::process::{Pid, Signal};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Buckets of 1 µs that the program is to count.
const BUCKETS: &str = "10000";
/// Longest line and longest file that are read, bytes.
const LINE_MOST: u64 = 4096;
const FILE_MOST: u64 = 1 << 20;
/// Time that the program has to end after a signal, ns.
const END_NS: u64 = 5_000_000_000;
const TICK: Duration = Duration::from_millis(50);
/// Where the cores are installed by their own make files.
const FOLDERS: [&str; 2] = ["/usr/xenomai/bin", "/usr/evl/bin"];

/// What the program left.
#[derive(Clone, Debug)]
pub struct CoreOutput {
    /// Its histogram file.
    pub histogram: String,
    /// Begin, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
    /// The signal that ended it.
    pub signal: Option<String>,
}

/// The program and its first arguments: what the user names, else that of the core in `PATH` or where it is installed.
///
/// # Errors
/// When it is nowhere.
pub fn program(core: Core, named: Option<&str>) -> Result<Vec<OsString>, WakeupError> {
    if let Some(named) = named {
        return Ok(named.split_whitespace().map(OsString::from).collect());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    let found = folders.map(|f| f.join(core.program())).find(|f| f.is_file());
    found.map(|f| vec![f.into_os_string()]).ok_or(WakeupError::NoCoreProgram(core))
}

/// Arguments of a measurement; `file` receives the histogram.
fn arguments(core: Core, config: &WakeupConfig, file: &Path) -> Vec<OsString> {
    let mode = match (core, config.level) {
        (Core::Cobalt, Level::User) => ["-t", "0"].as_slice(),
        (Core::Cobalt, Level::Kernel) => &["-t", "1"],
        (Core::Cobalt, Level::Irq) => &["-t", "2"],
        (Core::Evl, Level::User) => &["-m", "-u"],
        (Core::Evl, Level::Kernel) => &["-m", "-k"],
        (Core::Evl, Level::Irq) => &["-m", "-i"],
    };
    let mut all: Vec<OsString> = mode.iter().map(OsString::from).collect();
    let mut add = |option: &str, value: &OsStr| all.extend([option.into(), value.to_owned()]);
    let number = |n: u64| OsString::from(n.to_string());
    add("-p", &number(config.interval_ns / 1_000));
    add("-P", &number(config.priority.into()));
    add("-H", BUCKETS.as_ref());
    add("-g", file.as_os_str());
    if let Some(cpu) = config.threads.first().copied().flatten() {
        add("-c", &number(cpu.0.into()));
    }
    if let Some(ns) = config.duration_ns {
        add("-T", &number(ns.div_ceil(1_000_000_000).max(1)));
    }
    all
}

/// Measures until the duration, a hook or a signal ends it.
///
/// # Errors
/// When the program cannot be started, or fails.
pub fn run_core(
    core: Core,
    program: &[OsString],
    config: &WakeupConfig,
    mut hooks: Hooks<'_>,
) -> Result<CoreOutput, WakeupError> {
    let name = program.first().cloned().unwrap_or_default().to_string_lossy().into_owned();
    let failed = |source| WakeupError::CoreProgram { program: name.clone(), source };
    let scratch = ScratchDir::create(&std::env::temp_dir()).map_err(failed)?;
    let file = scratch.path().join("histogram");
    let mut command = Command::new(program.first().map_or(OsStr::new(core.program()), |p| p));
    command.args(&program[1.min(program.len())..]).args(arguments(core, config, &file));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C reaches it once, from here, so that it ends with its figures.
    command.process_group(0);
    process::tie_to_us(&mut command);
    let mut child = command.spawn().map_err(failed)?;
    let start_ns = clock::now().0;
    let lines = listen(&mut child);
    let mut ended = None;
    let mut kept = Kept::new(config);
    loop {
        let gone = match lines.recv_timeout(TICK) {
            Ok(line) => {
                kept.take(&line);
                false
            }
            Err(RecvTimeoutError::Timeout) => child.try_wait().map_err(failed)?.is_some(),
            Err(RecvTimeoutError::Disconnected) => true,
        };
        if gone {
            break;
        }
        let stop = signal::stop_requested();
        let hook = hooks.on_tick.as_mut().is_some_and(|tick| tick(&[kept.live]) == Next::Stop);
        if ended.is_none() && (stop.is_some() || hook) {
            ended = Some((clock::now().0, stop.map(signal::Signal::name)));
            signal_group(&child, Signal::INT);
        }
        if ended.as_ref().is_some_and(|(at, _)| clock::now().0 - at > END_NS) {
            signal_group(&child, Signal::KILL);
        }
    }
    let status = child.wait().map_err(failed)?;
    let length_ns = clock::now().0 - start_ns;
    let mut histogram = String::new();
    let read = File::open(&file).and_then(|f| f.take(FILE_MOST).read_to_string(&mut histogram));
    let signal = ended.and_then(|e| e.1);
    if histogram.is_empty() || read.is_err() {
        if signal.is_some() {
            return Err(WakeupError::StoppedBefore);
        }
        let (status, said) = (status.to_string(), kept.said);
        return Err(WakeupError::CoreFailed { program: name, status, said });
    }
    Ok(CoreOutput { histogram, start_ns, length_ns, signal })
}

/// To the program and what it started: the first may be a shell.
fn signal_group(child: &Child, signal: Signal) {
    let _ = rustix::process::kill_process_group(Pid::from_child(child), signal);
}

/// Lines of stdout and stderr as they come. Threads end with the program's descriptors.
fn listen(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = sync_channel(64);
    let out = child.stdout.take().map(|out| Box::new(out) as Box<dyn Read + Send>);
    let err = child.stderr.take().map(|err| Box::new(err) as Box<dyn Read + Send>);
    for stream in [out, err].into_iter().flatten() {
        let sender = sender.clone();
        std::thread::spawn(move || forward(stream, &sender));
    }
    lines
}

fn forward(stream: Box<dyn Read + Send>, lines: &SyncSender<String>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match reader.by_ref().take(LINE_MOST).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 => {
                if lines.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

/// What its lines tell.
struct Kept {
    live: LiveThread,
    /// The last line that is no figure: what is wrong, when something is.
    said: String,
}

impl Kept {
    fn new(config: &WakeupConfig) -> Self {
        let live = LiveThread {
            priority: config.priority,
            interval_ns: config.interval_ns,
            recent_min_ns: u64::MAX,
            ..LiveThread::default()
        };
        Self { live, said: String::new() }
    }

    /// `RTD|min|avg|max|overruns|switches|best|worst`, in µs, one a second.
    fn take(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("RTD|") else {
            let figures = line.contains('|') && !line.contains("BUG");
            if !figures && !line.trim().is_empty() && !line.starts_with("==") {
                line.trim().clone_into(&mut self.said);
            }
            return;
        };
        let numbers: Vec<f64> = rest.split('|').filter_map(|w| w.trim().parse().ok()).collect();
        let [min, mean, max, overruns, _, best, worst] = numbers[..] else { return };
        let ns = |us: f64| (us.max(0.0) * 1e3) as u64;
        let each = 1_000_000_000 / self.live.interval_ns.max(1);
        let l = &mut self.live;
        l.wakeups += each;
        l.sum_ns += each * ns(mean);
        (l.last_ns, l.min_ns, l.max_ns) = (ns(mean), ns(best), ns(worst));
        (l.recent_min_ns, l.recent_max_ns) = (ns(min), ns(max));
        l.missed_periods = overruns as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::units::CpuId;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn script(text: &str) -> (tempfile::TempDir, Vec<OsString>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("latency");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (dir, vec![path.into_os_string()])
    }

    #[test]
    fn options_are_those_of_the_programs() {
        let config = WakeupConfig {
            level: Level::Irq,
            interval_ns: 100_000,
            priority: 99,
            threads: vec![Some(CpuId(1))],
            duration_ns: Some(1_500_000_000),
            ..WakeupConfig::default()
        };
        let words = |core| {
            let all = arguments(core, &config, Path::new("f"));
            all.iter().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(Core::Cobalt), "-t 2 -p 100 -P 99 -H 10000 -g f -c 1 -T 2");
        assert_eq!(words(Core::Evl), "-m -i -p 100 -P 99 -H 10000 -g f -c 1 -T 2");
    }

    #[test]
    fn the_file_is_what_the_program_wrote_and_its_lines_are_live() {
        let text = "#!/bin/sh
while [ \"$1\" != -g ]; do shift; done
echo 'RTD|      1.5|      2.5|      9.5|       3|     0|      1.5|      9.5'
sleep 0.2
printf '5 1\\n5.5 2\\n6 1\\n' > \"$2\"
";
        let (_dir, program) = script(text);
        let mut live = LiveThread::default();
        let mut on_tick = |threads: &[LiveThread]| {
            live = threads[0];
            Next::Continue
        };
        let hooks = Hooks { on_tick: Some(&mut on_tick), ..Hooks::default() };
        let out = run_core(Core::Cobalt, &program, &WakeupConfig::default(), hooks).unwrap();
        assert_eq!(out.histogram, "5 1\n5.5 2\n6 1\n");
        assert_eq!((live.max_ns, live.missed_periods, live.wakeups), (9_500, 3, 1_000));
    }

    #[test]
    fn what_a_program_says_when_it_fails_is_kept() {
        let (_dir, program) = script("#!/bin/sh\necho 'latency: no Cobalt core' >&2\nexit 3\n");
        let config = WakeupConfig::default();
        let error = run_core(Core::Cobalt, &program, &config, Hooks::default()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("exit status: 3") && said.contains("no Cobalt core"), "{said}");
        let absent = vec![OsString::from("/absent/latency")];
        let error = run_core(Core::Cobalt, &absent, &config, Hooks::default()).unwrap_err();
        assert!(error.to_string().starts_with("/absent/latency: No such file"), "{error}");
    }
}
