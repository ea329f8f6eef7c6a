//! Of `latlab vm`: lists, fetches, boots and enters virtual machines, and runs commands in them.

use crate::cli::Global;
use crate::cli::vm::{Machine, Run};
use crate::foreign_text::Filter;
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::progress::Progress;
use crate::term::StdoutClosed;
use crate::{rundir, term};
use anyhow::{Context, anyhow, bail};
use latlab_report::doc::{Column, Table};
use latlab_sys::signal;
use latlab_target::cache::Cache;
use latlab_target::initramfs::Extra;
use latlab_target::pull::{Mapping, Receiver};
use latlab_target::spec::VmTarget;
use latlab_target::vm::faults::{self, Fault, Source};
use latlab_target::vm::kernel::Kernel;
use latlab_target::vm::{self, Host, built, catalog, needs, packages, session};
use latlab_target::{Console, Target};
use latlab_wire::frame::Job;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The cache at its usual place.
pub fn cache() -> anyhow::Result<Cache> {
    let var = |name| std::env::var_os(name).map(PathBuf::from);
    Cache::locate(var("XDG_CACHE_HOME"), var("HOME")).with_hint()
}

/// What the virtual lab has to know of this process.
pub fn host(cache: &Cache) -> anyhow::Result<Host<'_>> {
    Ok(Host {
        cache,
        boards: std::env::var_os("LATLAB_BOARDS").map(PathBuf::from),
        program: std::env::current_exe().context("our own program")?,
        cwd: std::env::current_dir().context("working directory")?,
        tie: latlab_sys::process::tie_to_us,
    })
}

/// Lists the machines.
pub fn list(global: &Global) -> anyhow::Result<Outcome> {
    let cache = cache()?;
    let mut out = term::raw_stdout();
    let rows: Vec<_> = catalog::KINDS.iter().map(|k| (k, Kernel::cached(&cache, k))).collect();
    if global.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(kind, kernel)| {
                serde_json::json!({
                    "name": kind.name,
                    "arch": kind.arch.name(),
                    "about": kind.about,
                    "kernel": kernel.as_ref().map(|k| k.release.clone()),
                    "built": built::purposes(&cache, kind.name),
                })
            })
            .collect();
        crate::output::json(&rows, &mut out)?;
    } else {
        let row = |(kind, kernel): (&catalog::Kind, Option<Kernel>)| {
            let ready = kernel.map_or_else(|| "not fetched".into(), |k| k.release);
            let built = built::purposes(&cache, kind.name);
            let built = built.iter().map(|purpose| format!("; build={purpose}"));
            vec![kind.name.into(), ready, format!("{}{}", kind.about, built.collect::<String>())]
        };
        let rows = rows.into_iter().map(row).collect();
        let columns =
            vec![Column::whole("machine"), Column::left("kernel"), Column::left("description")];
        crate::output::table(Table { columns, rows, ..Table::default() }, &mut out)?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// The machines of these names; all without one.
fn kinds(names: &[String]) -> anyhow::Result<Vec<&'static catalog::Kind>> {
    if names.is_empty() {
        return Ok(catalog::KINDS.iter().collect());
    }
    names.iter().map(|name| kind(name)).collect()
}

/// The machine of this name.
///
/// # Errors
/// When there is none.
pub fn kind(name: &str) -> anyhow::Result<&'static catalog::Kind> {
    catalog::find(name)
        .with_context(|| format!("no virtual machine {name:?}"))
        .hint(format!("available: {}", catalog::names()))
}

/// Lists what machines need, what is missing, and the commands that install it.
pub fn doctor(names: &[String], global: &Global) -> anyhow::Result<Outcome> {
    let cache = cache()?;
    let needs = needs::all(&host(&cache)?, &kinds(names)?);
    let remedies = needs::remedies(&needs);
    let mut out = term::stdout();
    if global.json {
        let rows = needs.iter().map(|n| serde_json::json!({ "name": n.what, "found": n.found }));
        let needs: Vec<_> = rows.collect();
        crate::output::json(
            &serde_json::json!({ "needs": needs, "commands": remedies }),
            &mut out,
        )?;
    } else {
        for need in &needs {
            let missing = match need.source {
                needs::Source::Kernel(_) => "not fetched",
                _ => "missing",
            };
            writeln!(out, "{:<25} {}", need.what, need.found.as_deref().unwrap_or(missing))?;
        }
        if !remedies.is_empty() {
            writeln!(out, "\nTo install what is missing:")?;
        }
        remedies.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// Fetches kernels.
pub fn fetch(names: &[String]) -> anyhow::Result<Outcome> {
    let cache = cache()?;
    for kind in kinds(names)? {
        let kernel = Kernel::fetch(&cache, kind, &mut say).with_hint()?;
        say(&format!("{}: {} is ready", kind.name, kernel.release));
    }
    Ok(Outcome::Done)
}

/// Clears the cache.
pub fn clean(all: bool) -> anyhow::Result<Outcome> {
    let cache = cache()?;
    let _lock = cache.lock("fetch").with_hint()?;
    let folders: &[&str] = if all {
        &[
            "initramfs",
            "own-kernels",
            "apt",
            "packages",
            "vms",
            "faults",
            "headers",
            "plugin",
            "bisect",
            "source",
            "kernels",
            "u-boot",
        ]
    } else {
        &["initramfs", "own-kernels"]
    };
    remove_folders(&cache, folders)?;
    Ok(Outcome::Done)
}

/// Removes folders of the cache, and what killed processes left in its scratch space.
pub fn remove_folders(cache: &Cache, folders: &[&str]) -> anyhow::Result<()> {
    // Making a scratch folder removes those of killed processes.
    drop(cache.scratch().with_hint()?);
    for folder in folders {
        let path = cache.root().join(folder);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| path.display().to_string());
            }
            _ => {}
        }
    }
    Ok(())
}

/// The target that a machine's words and options stand for.
pub fn target(machine: &Machine) -> anyhow::Result<VmTarget> {
    let spec = machine.machine.strip_prefix("vm:").unwrap_or(&machine.machine);
    let Target::Vm(mut target) = Target::parse(&format!("vm:{spec}")).with_hint()? else {
        bail!("{spec}: not a virtual machine");
    };
    target.kernel = machine.kernel.clone().or(target.kernel);
    target.modules_from = machine.modules_from.clone().or(target.modules_from);
    target.initrd = machine.initrd.clone().or(target.initrd);
    target.dtb = machine.dtb.clone().or(target.dtb);
    Ok(target)
}

pub fn extras(machine: &Machine, target: &VmTarget) -> anyhow::Result<Vec<Extra>> {
    use std::os::unix::fs::PermissionsExt;
    let mut extras = Vec::new();
    if let Some(kind) = catalog::find(&target.name).filter(|_| !machine.packages.is_empty()) {
        let cache = cache()?;
        let files = packages::files(&cache, kind.arch, &machine.packages, &mut say);
        extras.extend(files.with_hint()?);
    }
    for pair in &machine.files {
        let (from, to) = here_and_there(pair);
        let mode = std::fs::metadata(&from)
            .with_context(|| format!("--file {pair}: {}", from.display()))
            .hint(r"the last colon separates HERE and THERE; a colon of a path is written \:")?
            .permissions()
            .mode();
        extras.push(Extra { from, to, mode });
    }
    Ok(extras)
}

/// The two paths of `HERE[:THERE]`: the last colon separates them, and `\:` is a colon of a path.
pub fn here_and_there(pair: &str) -> (PathBuf, String) {
    let escaped = |at: usize| pair[..at].ends_with('\\');
    let colon = pair.rmatch_indices(':').map(|(at, _)| at).find(|at| !escaped(*at));
    let (here, there) = colon.map_or((pair, ""), |at| (&pair[..at], &pair[at + 1..]));
    let (here, there) = (PathBuf::from(here.replace(r"\:", ":")), there.replace(r"\:", ":"));
    let name = match there.as_str() {
        "" => here.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        there => there.to_owned(),
    };
    let there = if name.contains('/') { name } else { format!("bin/{name}") };
    (here, there)
}

/// Starts a machine and stops it.
pub fn boot(machine: &Machine) -> anyhow::Result<Outcome> {
    let target = target(machine)?;
    let plan =
        Plan { faults: faults_of(machine)?, extras: extras(machine, &target)?, ..Plan::default() };
    let finished = execute(&target, Job::default(), plan)?;
    let mut out = term::stdout();
    writeln!(
        out,
        "{}: Linux {} was up after {:.1} s",
        target.name,
        finished.release,
        finished.boot.as_secs_f64()
    )?;
    out.flush()?;
    Ok(Outcome::Done)
}

/// A shell in a machine.
pub fn shell(machine: &Machine) -> anyhow::Result<Outcome> {
    let target = target(machine)?;
    let cache = cache()?;
    let host = host(&cache)?;
    let mut job = Job {
        shell: true,
        hostname: hostname(&target),
        network: target.ssh_port.is_some(),
        ..Job::default()
    };
    let faults = faults_of(machine)?;
    if faults.iter().any(|f| f.source == Source::Outside) {
        return Err(anyhow!("a stall stops QEMU from outside; this is not possible with a shell"))
            .hint("latlab vm run … --fault stall:… -- COMMAND");
    }
    let target = faults::machine_for(&target, &faults);
    let mut extras = extras(machine, &target)?;
    if let Some(kind) = catalog::find(&target.name) {
        extras.extend(
            faults::install(&host, kind, &target, &faults, &mut job, &mut say).with_hint()?,
        );
    }
    let mut prepared = vm::prepare(&host, &target, &job, &extras, &mut say).with_hint()?;
    session::shell(&mut prepared).with_hint()?;
    Ok(Outcome::Done)
}

/// The faults of a machine's options.
pub fn faults_of(machine: &Machine) -> anyhow::Result<Vec<Fault>> {
    machine.faults.iter().map(|spec| Fault::parse(spec)).collect::<Result<_, _>>().with_hint()
}

/// Runs a command in a machine.
pub fn run_command(run: &Run) -> anyhow::Result<Outcome> {
    let target = target(&run.machine)?;
    let job = Job { argv: run.command.clone(), ..Job::default() };
    let plan = Plan {
        faults: faults_of(&run.machine)?,
        extras: extras(&run.machine, &target)?,
        limit: run.timeout.map(Duration::from_secs),
        mapping: Mapping::of_own_command(),
    };
    let finished = execute(&target, job, plan)?;
    Ok(Outcome::Code(finished.code))
}

fn hostname(target: &VmTarget) -> String {
    format!("vm-{}", target.name)
}

/// What there is to a run in a machine besides its job.
#[derive(Debug, Default)]
pub struct Plan {
    /// Files to put into the machine.
    pub extras: Vec<Extra>,
    /// Where results go.
    pub mapping: Mapping,
    /// The longest that it may take.
    pub limit: Option<Duration>,
    /// In which ways the machine is late.
    pub faults: Vec<Fault>,
}

/// Runs a job in a machine: output to ours, files below the working directory.
pub fn execute(target: &VmTarget, job: Job, plan: Plan) -> anyhow::Result<session::Finished> {
    let cwd = std::env::current_dir().context("working directory")?;
    let (finished, receiver) = execute_in(&cwd, target, job, plan)?;
    say_moved(&receiver);
    let unreadable = render_pages(&receiver);
    let mut finished = finished?;
    if unreadable && finished.code == 0 {
        finished.code = 1;
    }
    Ok(finished)
}

/// Runs a job in a machine: output to ours, files below `folder`.
pub fn execute_in(
    folder: &Path,
    target: &VmTarget,
    mut job: Job,
    plan: Plan,
) -> anyhow::Result<(anyhow::Result<session::Finished>, Receiver)> {
    let cache = cache()?;
    let host = host(&cache)?;
    job.hostname = hostname(target);
    job.repeatable = target.icount.is_some();
    job.network = target.ssh_port.is_some();
    // In virtual time anything from outside would differ from boot to boot.
    job.live = term::stderr_is_terminal() && !job.repeatable;
    job.env.extend(passed_environment(job.live));
    let stalls: Vec<Fault> =
        plan.faults.iter().filter(|f| f.source == Source::Outside).cloned().collect();
    if !stalls.is_empty() && job.repeatable {
        return Err(anyhow!(
            "a stall cannot be measured in virtual time: it stops the machine's clock too"
        ))
        .hint("leave out icount=");
    }
    let target = &faults::machine_for(target, &plan.faults);
    let mut extras = plan.extras;
    if let Some(kind) = catalog::find(&target.name) {
        extras.extend(
            faults::install(&host, kind, target, &plan.faults, &mut job, &mut say).with_hint()?,
        );
    }
    let mut prepared = vm::prepare(&host, target, &job, &extras, &mut say).with_hint()?;
    let mut receiver = Receiver::new(folder, plan.mapping.clone());
    let mut console = Terminal::new(&target.name, plan.mapping);
    let over = AtomicBool::new(false);
    let finished = std::thread::scope(|scope| {
        let mut started = |pid| {
            for stall in &stalls {
                let over = &over;
                scope.spawn(move || stall_machine(pid, stall, over));
            }
        };
        let finished =
            session::run(&mut prepared, plan.limit, &mut console, &mut receiver, &mut started);
        over.store(true, Ordering::Relaxed);
        finished
    });
    Ok((finished.with_hint(), receiver))
}

/// Says under which name a run is kept here, where the target's name for it was taken.
pub fn say_moved(receiver: &Receiver) {
    for (name, here) in &receiver.moved {
        say(&format!("runs/{name} exists: saved as runs/{here}"));
    }
}

/// Renders `report.html` of every run that came: a page from a target could hold a script. A page that is there is
/// the user's, and stays. Whether a run could not be read.
pub fn render_pages(receiver: &Receiver) -> bool {
    let mut unreadable = false;
    for directory in receiver.run_directories() {
        let page = directory.join("report.html");
        let rendered = rundir::load(&directory).map(|run| {
            rundir::write_new(&page, |out| crate::output::html(&run, out)).or_else(|e| {
                let stays = "is there already and stays; `latlab report RUN --html FILE` makes";
                match e.kind() {
                    io::ErrorKind::AlreadyExists => {
                        say(&format!("{}: {stays} the page of the new run", page.display()));
                        Ok(())
                    }
                    _ => Err(e),
                }
            })
        });
        let rendered = rendered.and_then(|written| {
            written.with_context(|| format!("{}: cannot be saved", page.display()))
        });
        if let Err(error) = rendered {
            say(&format!("report.html not written: {error:#}"));
            unreadable = true;
        }
    }
    unreadable
}

/// Stops QEMU for a while, again and again, until the run is over.
fn stall_machine(pid: u32, stall: &Fault, over: &AtomicBool) {
    let mut random = stall.seed.max(1);
    let mut next = Instant::now();
    while !over.load(Ordering::Relaxed) {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let share =
            (f64::from(random) / f64::from(u32::MAX) * 2.0 - 1.0) * f64::from(stall.jitter) / 100.0;
        next += Duration::from_nanos((stall.every_ns as f64 * (1.0 + share)) as u64);
        while Instant::now() < next && !over.load(Ordering::Relaxed) {
            std::thread::sleep((next - Instant::now().min(next)).min(Duration::from_millis(20)));
        }
        if over.load(Ordering::Relaxed) || latlab_sys::process::set_stopped(pid, true).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_nanos(stall.ns));
        let _ = latlab_sys::process::set_stopped(pid, false);
    }
}

/// What a command on a target should know of our terminal.
pub fn passed_environment(live: bool) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = std::env::vars()
        .filter(|(name, _)| {
            matches!(name.as_str(), "NO_COLOR" | "TERM") || name.starts_with("LATLAB_")
        })
        .filter(|(name, _)| name != "LATLAB_BOARDS")
        .collect();
    if live {
        env.push(("COLUMNS".into(), term::width().to_string()));
        env.push((term::PROGRESS_VARIABLE.into(), "1".into()));
    }
    env
}

/// A remark on stderr.
pub fn say(remark: &str) {
    let _ = writeln!(term::stderr(), "latlab: {remark}");
}

/// Our stdout and stderr as a target's console.
#[derive(Debug)]
pub struct Terminal {
    mapping: Mapping,
    boot: Option<Progress>,
    passed: Option<signal::Signal>,
    /// Of stdout and stderr; `None`: no terminal.
    filters: (Option<Filter>, Option<Filter>),
    /// Nobody reads stdout any longer.
    reader_left: bool,
}

impl Terminal {
    /// `what` is named while nothing has been heard yet.
    pub fn new(what: &str, mapping: Mapping) -> Self {
        Self {
            mapping,
            boot: Some(Progress::new(format!("{what}: starting"))),
            passed: None,
            filters: (
                term::stdout_is_terminal().then(Filter::default),
                term::stderr_is_terminal().then(Filter::default),
            ),
            reader_left: false,
        }
    }
}

fn filtered(filter: &mut Option<Filter>, bytes: Vec<u8>) -> Vec<u8> {
    match filter {
        Some(filter) => filter.pass(&bytes),
        None => bytes,
    }
}

impl Console for Terminal {
    fn stdout(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.boot = None;
        let text = filtered(&mut self.filters.0, self.mapping.translate(bytes));
        if self.reader_left {
            return Ok(());
        }
        let mut out = term::stdout_by_line();
        out.write_all(&text).and_then(|()| out.flush()).or_else(|error| {
            // The command goes on to its verdict, which is its exit code.
            self.reader_left = StdoutClosed::is(&error);
            if self.reader_left { Ok(()) } else { Err(error) }
        })
    }
    fn stderr(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.boot = None;
        let text = filtered(&mut self.filters.1, self.mapping.translate(bytes));
        io::stderr().lock().write_all(&text)
    }
    fn say(&mut self, remark: &str) {
        say(remark);
    }
    fn signal(&mut self) -> Option<u8> {
        if let Some(boot) = &mut self.boot {
            boot.set(None, "");
        }
        let signal = signal::stop_requested()?;
        if self.passed.replace(signal).is_some() {
            return None;
        }
        u8::try_from(signal.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_colon_that_is_not_escaped_separates_here_and_there() {
        for (pair, here, there) in [
            ("prog", "prog", "bin/prog"),
            ("build/prog", "build/prog", "bin/prog"),
            ("prog:", "prog", "bin/prog"),
            ("prog:p", "prog", "bin/p"),
            ("a/prog:/etc/p", "a/prog", "/etc/p"),
            ("a:b:/etc/p", "a:b", "/etc/p"),
            (r"by-path/pci-0000\:00", "by-path/pci-0000:00", "bin/pci-0000:00"),
            (r"x:/etc/a\:b", "x", "/etc/a:b"),
            (r"a\:b:c\:d", "a:b", "bin/c:d"),
        ] {
            assert_eq!(here_and_there(pair), (PathBuf::from(here), there.to_owned()), "{pair}");
        }
    }

    #[test]
    fn a_hint_of_the_target_room_becomes_ours() {
        let error = Target::parse("vm:mips").with_hint().unwrap_err();
        assert!(format!("{error:#}").contains("no virtual machine \"mips\""));
    }
}
