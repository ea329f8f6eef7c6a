//! What latlab does on a target: as process 1 of a virtual machine (here), and on a board ([`board`]).
//!
//! Process 1 mounts what a program expects, loads the modules of its job
//! ([`latlab_wire::frame::Job`]), tells the host that it is there, runs the
//! command in `/work`, sends back what it printed and every file that it left,
//! and turns the machine off. While the command runs, the agent sleeps in
//! blocking calls: output goes to memory unless the job asks for it live.

pub mod board;
mod channel;
mod send;
mod sink;

use anyhow::{Context, anyhow, bail};
use channel::Channel;
use latlab_sys::init;
use latlab_wire::frame::{Job, Message, Sought};
use latlab_wire::modules::Dependencies;
use sink::Sink;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WORK: &str = "/work";
const KEPT_STDOUT: &str = "/run/latlab-stdout";
const KEPT_STDERR: &str = "/run/latlab-stderr";
const PATH: &str = "/bin:/sbin:/usr/bin:/usr/sbin";

/// Whether we were started by a kernel as its first process.
pub fn is_init() -> bool {
    std::process::id() == 1 && Path::new("/latlab/job.json").exists()
}

/// Does the job and turns the machine off. Never returns: a kernel panics when its first process ends.
pub fn main() -> ! {
    if let Err(error) = work() {
        complain(&crate::outcome::format_error_chain(&error));
    }
    let error = init::power_off();
    complain(&format!("power off: {error}"));
    loop {
        // Boards without a power switch: the host ends the machine.
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// A line in the kernel's log, and so on its console, for want of anything better.
fn complain(what: &str) {
    let _ = fs::write("/dev/kmsg", format!("<1>latlab agent: {what}"));
}

fn work() -> anyhow::Result<()> {
    mount_all()?;
    let job = fs::read("/latlab/job.json").context("/latlab/job.json")?;
    let job: Job = serde_json::from_slice(&job).context("/latlab/job.json")?;
    let loaded = load_modules(&job.modules).and_then(|()| seek_modules(&job.seek));
    if job.shell {
        prepare(&job)?;
        let _beside = Beside::start(&job.beside)?;
        return shell();
    }
    let channel = match Channel::open() {
        Ok(channel) => Arc::new(channel),
        // A module that was not loaded is why there is no line, and nobody else can say so.
        Err(error) => return loaded.and(Err(error)),
    };
    let done = loaded.and_then(|()| prepare(&job)).and_then(|()| {
        channel.send(&Message::Hello(init::release()))?;
        run(&job, &channel)
    });
    match done {
        Ok(code) => channel.send(&Message::Exit(code))?,
        Err(error) => channel.send(&Message::Failed(crate::outcome::format_error_chain(&error)))?,
    }
    channel.drain();
    Ok(())
}

fn mount_all() -> anyhow::Result<()> {
    for (kind, folder) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("devpts", "/dev/pts"),
        ("tmpfs", "/dev/shm"),
        ("tmpfs", "/run"),
        ("tmpfs", "/tmp"),
        ("tmpfs", WORK),
    ] {
        init::mount_virtual(kind, Path::new(folder)).with_context(|| format!("mount {folder}"))?;
    }
    // What a kernel may lack is no failure.
    for (kind, folder) in [("tracefs", "/sys/kernel/tracing"), ("debugfs", "/sys/kernel/debug")] {
        if Path::new(folder).exists() {
            let _ = init::mount_virtual(kind, Path::new(folder));
        }
    }
    Ok(())
}

fn load_modules(modules: &[String]) -> anyhow::Result<()> {
    for module in modules {
        let (path, parameters) = module.split_once(' ').unwrap_or((module, ""));
        init::load_module(Path::new(path), parameters)
            .with_context(|| format!("module {module}"))?;
    }
    Ok(())
}

/// Loads what the user's own RAM disk has of these modules.
fn seek_modules(sought: &[Sought]) -> anyhow::Result<()> {
    let release = init::release();
    let folders = ["/lib/modules", "/usr/lib/modules"].map(|f| Path::new(f).join(&release));
    let Some(folder) = folders.iter().find(|f| f.join("modules.dep").is_file()) else {
        let Some(needed) = sought.iter().find(|s| s.needed) else { return Ok(()) };
        bail!("module {}: the RAM disk has no /lib/modules/{release}/modules.dep", needed.name);
    };
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let known = Dependencies::parse(&read("modules.dep"), &read("modules.builtin"));
    let names = sought.iter().filter(|s| s.needed || known.has(&s.name)).map(|s| s.name.as_str());
    let order = known
        .resolve(&names.collect::<Vec<_>>())
        .map_err(|unknown| anyhow!("{}: no module {}", folder.display(), unknown.0))?;
    for path in order {
        let path = folder.join(path);
        init::load_module(&path, "").with_context(|| format!("module {}", path.display()))?;
    }
    Ok(())
}

fn prepare(job: &Job) -> anyhow::Result<()> {
    if !job.hostname.is_empty() {
        init::set_hostname(&job.hostname).context("host name")?;
    }
    if let Some(seconds) = job.clock {
        init::set_clock(seconds).context("clock")?;
    }
    if job.repeatable {
        let _ = fs::write("/proc/sys/kernel/randomize_va_space", "0");
    }
    if Path::new("/bin/busybox").exists() {
        run_quietly(&["/bin/busybox", "--install", "-s", "/bin"])?;
    }
    fs::write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n").context("/etc/passwd")?;
    fs::write("/etc/group", "root:x:0:\n").context("/etc/group")?;
    // Loopback is part of every machine; a kernel without a network has none to bring up.
    let loopback = run_quietly(&["/bin/ip", "link", "set", "lo", "up"]);
    if job.network {
        loopback?;
        // QEMU's user-mode network: the guest is 10.0.2.15, the host 10.0.2.2.
        run_quietly(&["/bin/ip", "address", "add", "10.0.2.15/24", "dev", "eth0"])?;
        run_quietly(&["/bin/ip", "link", "set", "eth0", "up"])?;
    }
    for command in &job.before {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        run_quietly(&words)?;
    }
    Ok(())
}

/// Runs a command that has to succeed; its complaint becomes the error.
fn run_quietly(command: &[&str]) -> anyhow::Result<()> {
    let Some((program, args)) = command.split_first() else { return Ok(()) };
    let output = Command::new(program)
        .args(args)
        .env("PATH", PATH)
        .stdin(Stdio::null())
        .output()
        .with_context(|| program.to_string())?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {} ({})", command.join(" "), complaint.trim(), output.status);
    }
    Ok(())
}

fn shell() -> anyhow::Result<()> {
    let console = || File::options().read(true).write(true).open(console_device());
    let mut child = Command::new("/bin/busybox")
        .args(["setsid", "-c", "/bin/sh", "-l"])
        .current_dir(WORK)
        .env("PATH", PATH)
        .env("HOME", "/root")
        .env("PS1", "\\h:\\w# ")
        .stdin(console()?)
        .stdout(console()?)
        .stderr(console()?)
        .spawn()
        .context("/bin/sh")?;
    child.wait()?;
    Ok(())
}

/// The serial line behind /dev/console, which can be a controlling terminal.
fn console_device() -> String {
    let active = fs::read_to_string("/sys/class/tty/console/active").unwrap_or_default();
    format!("/dev/{}", active.split_whitespace().last().unwrap_or("console"))
}

/// Processes beside the command; killed when dropped.
struct Beside(Vec<Child>);

impl Beside {
    fn start(commands: &[Vec<String>]) -> anyhow::Result<Self> {
        let mut beside = Self(Vec::new());
        for words in commands {
            let Some((program, args)) = words.split_first() else { continue };
            let mut command = Command::new(program);
            command.args(args).env("PATH", PATH).stdin(Stdio::null()).stdout(Stdio::null());
            let child = command.spawn().with_context(|| program.clone())?;
            beside.0.push(child);
        }
        Ok(beside)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn run(job: &Job, channel: &Arc<Channel>) -> anyhow::Result<u8> {
    let _beside = Beside::start(&job.beside)?;
    let Some((program, args)) = job.argv.split_first() else { return Ok(0) };
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(WORK)
        .env("PATH", PATH)
        .env("HOME", "/root")
        .envs(job.env.iter().map(|(k, v)| (k.as_str(), v.as_str())))
        .stdin(Stdio::null());
    let live = job.live && channel.is_live();
    if live {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    } else {
        command.stdout(File::create(KEPT_STDOUT)?).stderr(File::create(KEPT_STDERR)?);
    }
    // As a shell: 127 for a command that is not there, 126 for one that cannot run.
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let line = format!("{program}: {error}\n");
            channel.send(&Message::Stderr(line.into_bytes()))?;
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            return Ok(if missing { 127 } else { 126 });
        }
    };
    let pid = Arc::new(Mutex::new(Some(child.id())));
    pass_signals_on(Arc::clone(channel), Arc::clone(&pid));
    let streams = stream(&mut child, channel);
    let status = child.wait()?;
    if let Ok(mut pid) = pid.lock() {
        *pid = None;
    }
    for stream in streams {
        let _ = stream.join();
    }
    if !live {
        send::pieces(channel.as_ref(), Path::new(KEPT_STDOUT), u64::MAX, Message::Stdout)?;
        send::pieces(channel.as_ref(), Path::new(KEPT_STDERR), u64::MAX, Message::Stderr)?;
    }
    send::folder(channel.as_ref(), Path::new(WORK))?;
    let by_signal = status.signal().map(|n| 128u8.saturating_add(u8::try_from(n).unwrap_or(127)));
    Ok(by_signal.or(status.code().and_then(|c| u8::try_from(c).ok())).unwrap_or(1))
}

/// One thread for each pipe of a live command.
fn stream(child: &mut Child, channel: &Arc<Channel>) -> Vec<std::thread::JoinHandle<()>> {
    fn copy(mut from: impl Read, channel: &Channel, wrap: fn(Vec<u8>) -> Message) {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            if channel.send(&wrap(buffer[..n].to_vec())).is_err() {
                return;
            }
        }
    }
    let mut threads = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let channel = Arc::clone(channel);
        threads.push(std::thread::spawn(move || copy(stdout, &channel, Message::Stdout)));
    }
    if let Some(stderr) = child.stderr.take() {
        let channel = Arc::clone(channel);
        threads.push(std::thread::spawn(move || copy(stderr, &channel, Message::Stderr)));
    }
    threads
}

/// A thread that sleeps until the host says something, and tells the command.
fn pass_signals_on(channel: Arc<Channel>, pid: Arc<Mutex<Option<u32>>>) {
    std::thread::spawn(move || {
        while let Some(message) = channel.receive() {
            let Message::Signal(signal) = message else { continue };
            if let Ok(Some(pid)) = pid.lock().as_deref() {
                let _ = latlab_sys::process::send(*pid, signal);
            }
        }
    });
}
