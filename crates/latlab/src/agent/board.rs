//! The two halves of a command on a board: one keeps it running whatever happens to the connection, one tells the host.
//!
//! ```text
//! DIR/job.json   what to run                 DIR/stdout, DIR/stderr   what it printed
//! DIR/work/      its working folder          DIR/pid                  its process, and when it began
//! DIR/lock       held while it runs          DIR/exit                 its exit code
//! ```
//! `start` reads the job from stdin and leaves a supervisor behind, in a session of
//! its own. `follow` sleeps on the lock, which the kernel releases even if the
//! supervisor is killed, then sends everything. A host that was cut off runs
//! `follow` again.

use super::send;
use super::sink::Sink;
use anyhow::{Context, bail};
use latlab_wire::frame::{Decoder, Item, Job, Message};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often a live `follow` looks for new output.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Makes the folder, leaves a supervisor in it, and returns once the command runs.
///
/// # Errors
/// When the folder is there already: it is another run's, whose command must not be started again.
pub fn start(dir: &Path) -> anyhow::Result<()> {
    let mut job = Vec::new();
    io::stdin().lock().read_to_end(&mut job).context("job on stdin")?;
    let name = || dir.display().to_string();
    if let Some(runs) = dir.parent() {
        fs::create_dir_all(runs).with_context(name)?;
    }
    match fs::create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{}: another run has this name; start the command again", dir.display());
        }
        made => made.with_context(name)?,
    }
    fs::create_dir(dir.join("work")).with_context(name)?;
    fs::write(dir.join("job.json"), &job).with_context(name)?;
    let mut supervisor = Command::new(crate::program::own_program()?);
    supervisor.args(["on-board", "keep"]).arg(dir);
    supervisor.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = supervisor.spawn().context("supervisor")?;
    while !dir.join("pid").exists() && !dir.join("exit").exists() {
        if let Some(status) = child.try_wait()? {
            bail!("the command could not be started ({status})");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Runs the job of a folder to its end, in a session of its own.
pub fn keep(dir: &Path) -> anyhow::Result<()> {
    latlab_sys::process::new_session().context("session")?;
    let lock = File::create(dir.join("lock"))?;
    lock.lock()?;
    let job: Job = serde_json::from_slice(&fs::read(dir.join("job.json"))?)?;
    let code = match run(dir, &job) {
        Ok(code) => code,
        Err(error) => {
            let _ = fs::write(
                dir.join("stderr"),
                format!("latlab: {}\n", crate::outcome::format_error_chain(&error)),
            );
            127
        }
    };
    fs::write(dir.join("exit.part"), code.to_string())?;
    fs::rename(dir.join("exit.part"), dir.join("exit"))?;
    Ok(())
}

fn run(dir: &Path, job: &Job) -> anyhow::Result<u8> {
    let Some((program, args)) = job.argv.split_first() else { bail!("nothing to run") };
    // The host says "latlab" and means this very program.
    let (program, name) = if program == "/bin/latlab" {
        (crate::program::own_program()?, "latlab")
    } else {
        (program.into(), program.as_str())
    };
    let mut child = Command::new(&program)
        .arg0(name)
        .args(args)
        .current_dir(dir.join("work"))
        .envs(job.env.iter().map(|(k, v)| (k.as_str(), v.as_str())))
        .stdin(Stdio::null())
        .stdout(File::create(dir.join("stdout"))?)
        .stderr(File::create(dir.join("stderr"))?)
        .spawn()
        .with_context(|| program.display().to_string())?;
    let began = latlab_sys::process::start_ticks(child.id()).unwrap_or_default();
    fs::write(dir.join("pid"), format!("{} {began}", child.id()))?;
    let status = child.wait()?;
    let by_signal = status.signal().map(|n| 128u8.saturating_add(u8::try_from(n).unwrap_or(127)));
    Ok(by_signal.or(status.code().and_then(|c| u8::try_from(c).ok())).unwrap_or(1))
}

/// Tells the host on stdout what the command of a folder does and leaves; listens for signals on stdin.
pub fn follow(dir: &Path, live: bool) -> anyhow::Result<()> {
    let host = Host;
    let lock =
        File::open(dir.join("lock")).with_context(|| format!("{}: no run", dir.display()))?;
    host.send(&Message::Hello(latlab_sys::init::release()))?;
    pass_signals_on(dir);
    let mut out = Tail::open(&dir.join("stdout"), Message::Stdout);
    let mut err = Tail::open(&dir.join("stderr"), Message::Stderr);
    if live {
        while matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            out.send_new(&host)?;
            err.send_new(&host)?;
            std::thread::sleep(POLL_INTERVAL);
        }
    } else {
        lock.lock_shared()?;
    }
    out.send_new(&host)?;
    err.send_new(&host)?;
    send::folder(&host, &dir.join("work"))?;
    let code = fs::read_to_string(dir.join("exit")).ok().and_then(|c| c.trim().parse().ok());
    host.send(&match code {
        Some(code) => Message::Exit(code),
        None => Message::Failed(
            "its supervisor was killed on the board before the command ended".into(),
        ),
    })
}

/// The host, at the other end of stdout.
struct Host;

impl Sink for Host {
    fn send(&self, message: &Message) -> anyhow::Result<()> {
        let mut out = crate::term::stdout_by_line();
        out.write_all(&message.encode())?;
        Ok(out.flush()?)
    }
}

/// A file that grows.
struct Tail {
    file: Option<File>,
    wrap: fn(Vec<u8>) -> Message,
}

impl Tail {
    fn open(path: &Path, wrap: fn(Vec<u8>) -> Message) -> Self {
        let file = File::open(path).ok().and_then(|mut f| f.rewind().ok().map(|()| f));
        Self { file, wrap }
    }

    fn send_new(&mut self, host: &Host) -> anyhow::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut buffer = vec![0; 32 << 10];
        loop {
            let n = file.read(&mut buffer)?;
            if n == 0 {
                return Ok(());
            }
            host.send(&(self.wrap)(buffer[..n].to_vec()))?;
        }
    }
}

/// The command's process, if it still runs: a number is used again after its process's end, and
/// after a reboot; its start time is not.
fn running(dir: &Path) -> Option<u32> {
    if dir.join("exit").exists() {
        return None;
    }
    let text = fs::read_to_string(dir.join("pid")).ok()?;
    let (pid, began) = text.trim().split_once(' ')?;
    let (pid, began) = (pid.parse().ok()?, began.parse::<u64>().ok()?);
    (latlab_sys::process::start_ticks(pid) == Some(began)).then_some(pid)
}

/// A thread that passes the host's signals on, and ends this process when the host is gone.
fn pass_signals_on(dir: &Path) {
    let dir = dir.to_path_buf();
    std::thread::spawn(move || {
        let mut decoder = Decoder::default();
        let mut buffer = [0; 512];
        while let Ok(n @ 1..) = io::stdin().lock().read(&mut buffer) {
            for item in decoder.push(&buffer[..n]) {
                let Item::Message(Message::Signal(signal)) = item else { continue };
                if let Some(pid) = running(&dir) {
                    let _ = latlab_sys::process::send(pid, signal);
                }
            }
        }
        // Nobody listens: the main thread may sleep on the lock for hours. The supervisor stays.
        latlab_sys::process::end_now();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_command_itself_is_signalled() {
        let dir = tempfile::tempdir().unwrap();
        let us = std::process::id();
        let began = latlab_sys::process::start_ticks(us).unwrap();
        let with = |text: String| {
            fs::write(dir.path().join("pid"), text).unwrap();
            running(dir.path())
        };
        assert_eq!(with(format!("{us} {began}")), Some(us));
        // Another process that got the number, and files of earlier versions.
        assert_eq!(with(format!("{us} {}", began + 1)), None);
        assert_eq!(with(us.to_string()), None);
        assert_eq!(with(String::new()), None);
        with(format!("{us} {began}"));
        fs::write(dir.path().join("exit"), "0").unwrap();
        assert_eq!(running(dir.path()), None);
    }
}
