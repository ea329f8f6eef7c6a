//! What the tests of the command line share: how latlab is started, what it said, what is skipped.

use latlab_model::run::Run;
use rustix::process::{Pid, Signal};
use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// The program under test.
pub const LATLAB: &str = env!("CARGO_BIN_EXE_latlab");

/// A command that takes longer hangs: it is ended, so that its test fails.
const LONGEST: Duration = Duration::from_mins(10);
/// The same for `latlab vm build`, which compiles a kernel (3 to 11 minutes were seen on two CPUs), and for QEMU started
/// by a test, which is the board of several commands.
const LONGEST_OF_ALL: Duration = Duration::from_mins(25);

/// Ends, from a thread of its own, whatever the tests have started [`LONGEST`] ago, with what that has started.
fn end_what_hangs() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            let mut seen: HashMap<u32, Instant> = HashMap::new();
            loop {
                let children = children_of(std::process::id());
                seen.retain(|pid, _| children.contains(pid));
                for pid in children {
                    let age = seen.entry(pid).or_insert_with(Instant::now).elapsed();
                    if age <= LONGEST {
                        continue;
                    }
                    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                    let line = text(&line).replace('\0', " ");
                    let is_long = line.contains(" vm build ") || line.starts_with("qemu-system-");
                    if age > LONGEST_OF_ALL || !is_long {
                        let _ = writeln!(std::io::stderr(), "it hangs: {line}");
                        kill_tree(pid);
                    }
                }
                std::thread::sleep(Duration::from_secs(5));
            }
        });
    });
}

/// Processes that a process has started, and not waited for.
pub fn children_of(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    lists
        .flat_map(|l| l.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn kill_tree(pid: u32) {
    let children = children_of(pid);
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
    children.into_iter().for_each(kill_tree);
}

/// `latlab ARGS` in a directory, with nothing to read.
pub fn plain(dir: &Path, args: &[&str]) -> Command {
    end_what_hangs();
    let mut command = Command::new(LATLAB);
    command.current_dir(dir).args(args).stdin(Stdio::null());
    command
}

/// [`plain`] for virtual machines: what is passed on into them is the same everywhere, because the length of the
/// environment changes the course of a machine in virtual time.
#[cfg(feature = "host")]
pub fn in_machine(dir: &Path, args: &[&str]) -> Command {
    let mut command = plain(dir, args);
    command.env("NO_COLOR", "1").env("TERM", "dumb");
    command
}

/// [`plain`] with lines of 120 columns.
pub fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = plain(dir, args);
    command.env("COLUMNS", "120");
    command
}

/// Runs [`command`] to its end.
pub fn latlab(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

/// Runs `latlab ARGS` in the directory of the tests to its end.
pub fn latlab_here(args: &[&str]) -> Output {
    end_what_hangs();
    Command::new(LATLAB).args(args).output().expect("latlab starts")
}

/// Starts [`command`]; what it prints waits in pipes.
pub fn spawn(dir: &Path, args: &[&str]) -> Child {
    command(dir, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs another program to its end, which must be a good one.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    output
}

/// A stdout whose reader has gone.
pub fn nobody_reads() -> std::io::PipeWriter {
    std::io::pipe().unwrap().1
}

/// What was written, as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What it wrote to stderr.
pub fn said(output: &Output) -> String {
    text(&output.stderr)
}

/// What it wrote to stdout.
pub fn printed(output: &Output) -> String {
    text(&output.stdout)
}

/// The run that is kept in a directory.
pub fn run_of(dir: &Path) -> Run {
    serde_json::from_slice(&std::fs::read(dir.join("run.json")).unwrap()).unwrap()
}

/// Where a file of `fixtures/` is.
pub fn fixture(name: &str) -> String {
    format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Sends a signal to a child that has not been waited for.
pub fn signal(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(child), signal).unwrap();
}

/// Looks again after every pause until something is found; a minute at most.
pub fn wait_for<T>(what: &str, pause: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(pause);
    }
}

/// Held by every test that computes at real-time priorities or names who did: each would be found in
/// the figures of the other.
pub fn real_time() -> MutexGuard<'static, ()> {
    static REAL_TIME: Mutex<()> = Mutex::new(());
    REAL_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where tracefs is, for root; says why not otherwise. In CI that is a failure.
pub fn tracefs() -> Option<PathBuf> {
    let found = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .map(PathBuf::from)
        .into_iter()
        .find(|p| p.join("instances").is_dir());
    if found.is_none() {
        skip("no tracefs, or not root");
    }
    found
}

/// Names of the tracing instances that a process has made and not removed.
pub fn instances_of(tracefs: &Path, pid: u32) -> Vec<PathBuf> {
    let own = format!("latlab-{pid}-");
    let all = std::fs::read_dir(tracefs.join("instances")).unwrap().flatten();
    all.filter(|e| e.file_name().to_string_lossy().starts_with(&own)).map(|e| e.path()).collect()
}

/// Puts a program, or `/dev/stdin`, where it can be executed. A process of its own writes it: a file
/// that is open for writing here would be busy in whatever another test forks at this moment.
fn install(from: &str, to: &Path) -> Command {
    let mut command = Command::new("install");
    command.args(["-m", "755", from]).arg(to);
    command
}

/// A copy of a program.
pub fn copy_program(from: &str, to: &Path) {
    succeed(&mut install(from, to));
}

/// A script that can be executed.
#[cfg(feature = "host")]
pub fn script(path: &Path, text: &str) {
    use std::io::Write;
    let mut child = install("/dev/stdin", path).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{}", path.display());
}

/// A pair of SSH keys: `path` and `path.pub`.
#[cfg(feature = "host")]
pub fn keygen(path: &Path) {
    let args = ["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"];
    succeed(Command::new("ssh-keygen").args(args).arg(path));
}

/// `bin/ssh` in a folder: the system's with this configuration, which is written to `ssh_config` there.
#[cfg(feature = "host")]
pub fn ssh_client(dir: &Path, configuration: &str) {
    std::fs::write(dir.join("ssh_config"), configuration).unwrap();
    std::fs::create_dir(dir.join("bin")).unwrap();
    let wrapper = format!("#!/bin/sh\nexec /usr/bin/ssh -F {}/ssh_config \"$@\"\n", dir.display());
    script(&dir.join("bin/ssh"), &wrapper);
}

/// Opens a directory to everybody and puts latlab into it: where it was built it may be closed to others.
pub fn for_everybody(dir: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).unwrap();
    let program = dir.join("latlab");
    copy_program(LATLAB, &program);
    program
}

/// Compiles a library of this folder that is preloaded; `None`, said, without a C compiler.
#[cfg(feature = "host")]
pub fn shim(dir: &Path, source: &str) -> Option<PathBuf> {
    cc(&dir.join(source).with_extension("so"), source, &["-shared", "-fPIC", "-O1"])
}

/// A program from a C source beside these tests; `None` where there is no compiler.
pub fn compiled(dir: &Path, source: &str, options: &[&str]) -> Option<PathBuf> {
    cc(&dir.join(source).with_extension(""), source, &[&["-O2", "-pthread"], options].concat())
}

fn cc(out: &Path, source: &str, options: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli").join(source);
    let mut cc = Command::new("cc");
    cc.args(options).args(["-Wall", "-o"]).arg(out).arg(source).arg("-ldl");
    match cc.output() {
        Ok(done) if done.status.success() => Some(out.to_owned()),
        Ok(done) => panic!("{}", said(&done)),
        Err(_) => {
            skip("no C compiler");
            None
        }
    }
}

/// Says why a test cannot be made here; in CI that is a failure. Written past the capture of the test's
/// output, so that `scripts/test` counts it.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}");
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Whether this process may do everything.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A disk of its own, so small that it is full soon.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Of a size as `mount -t tmpfs` takes it; `None`, said, without the right to mount one.
    pub fn of(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(dir.path()).stderr(Stdio::null());
        if mount.status().is_ok_and(|s| s.success()) {
            return Some(Self(dir));
        }
        skip("no right to mount a tmpfs");
        None
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
