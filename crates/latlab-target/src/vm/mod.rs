//! Virtual machines: QEMU with one of Debian's kernels (or the user's) and a RAM disk of ours.
//!
//! ```text
//!  latlab (here)                              QEMU
//!   │ kernel, RAM disk (base + job) ────────▶ kernel ─▶ /init = latlab's agent
//!   │                                            │  loads modules, runs the job
//!   ◀── frames: output, files, exit code ────────┘
//!   └─ console: a file; its end is shown when something goes wrong
//! ```

pub mod catalog;
pub mod faults;
pub mod kernel;
pub mod packages;
pub mod qemu;
pub mod session;

use crate::cache::{Cache, Scratch};
use crate::initramfs::{self, Base, Extra};
use crate::spec::VmTarget;
use crate::{Result, TargetError, board};
use catalog::Kind;
use kernel::Kernel;
use latlab_core::wire::Job;
use qemu::{Files, Machine};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the virtual lab needs to know of the host.
#[derive(Debug)]
pub struct Host<'a> {
    /// The cache.
    pub cache: &'a Cache,
    /// Folder of board builds that the user named.
    pub boards: Option<PathBuf>,
    /// Our own program.
    pub program: PathBuf,
    /// Working directory.
    pub cwd: PathBuf,
    /// Prepares a child so that it dies with us.
    pub tie: fn(&mut Command),
}

/// A machine that is ready to be started.
#[derive(Debug)]
pub struct Prepared {
    /// Its name.
    pub name: String,
    /// Its options, resolved.
    pub machine: Machine,
    /// QEMU with all arguments.
    pub command: Command,
    /// Seconds until the agent has to be heard.
    pub boot_timeout_s: u64,
    console: PathBuf,
    scratch: Scratch,
}

impl Prepared {
    /// Where the console is written.
    pub fn console(&self) -> &Path {
        &self.console
    }
    /// Scratch folder; gone when this is dropped.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }
}

/// Finds or fetches everything, and builds the RAM disk.
pub fn prepare(
    host: &Host<'_>,
    target: &VmTarget,
    job: &Job,
    extras: &[Extra],
    say: &mut dyn FnMut(&str),
) -> Result<Prepared> {
    let kind = catalog::find(&target.name).ok_or_else(|| TargetError::Spec {
        spec: format!("vm:{}", target.name),
        reason: "there is no such virtual machine".into(),
        hint: format!("there are {}", catalog::names()),
    })?;
    let machine = Machine::new(kind, target)?;
    if job.shell && machine.channel == qemu::Channel::Log && target.kernel.is_none() {
        return Err(TargetError::Spec {
            spec: format!("vm:{},cpu=cortex-a8", kind.name),
            reason: "a shell needs a serial port with interrupts, which this machine has not"
                .into(),
            hint: "latlab vm run works on it; so does a shell with cpu=cortex-a7".into(),
        });
    }
    let (program, package) = machine.program();
    let program = find_program(program).ok_or_else(|| TargetError::NoProgram {
        program: program.into(),
        purpose: format!("the virtual machine {}", kind.name),
        package: package.into(),
    })?;
    let latlab = board::find(kind.arch, host.boards.as_deref(), &host.program, &host.cwd)?;
    let elf = fs::read(&latlab).map_err(TargetError::file(&latlab))?;
    board::check(&latlab, &elf, kind.arch)?;
    let scratch = host.cache.scratch()?;
    let files =
        build_files(host, target, kind, &machine, job, extras, &latlab, scratch.path(), say)?;
    let mut command = Command::new(program);
    command.args(machine.arguments(target, &files, job.shell));
    (host.tie)(&mut command);
    Ok(Prepared {
        name: kind.name.into(),
        machine,
        command,
        boot_timeout_s: target.boot_timeout_s.unwrap_or(120),
        console: files.console,
        scratch,
    })
}

#[allow(clippy::too_many_arguments)] // one caller; the parts have nothing else in common
fn build_files(
    host: &Host<'_>,
    target: &VmTarget,
    kind: &Kind,
    machine: &Machine,
    job: &Job,
    extras: &[Extra],
    latlab: &Path,
    scratch: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Files> {
    let kernel = match Kernel::cached(host.cache, kind) {
        Some(kernel) => kernel,
        None => Kernel::fetch(host.cache, kind, say)?,
    };
    let mut job = job.clone();
    let own_kernel = target.kernel.is_some();
    let tree = if own_kernel { None } else { Some(kernel.modules()?) };
    let mut paths = Vec::new();
    if let Some(tree) = &tree {
        let mut names: Vec<&str> = kernel::transport_modules(kind.arch).to_vec();
        if target.ssh_port.is_some() {
            names.extend(["virtio_net", "af_packet"]);
        }
        paths = tree.resolve_known(&names);
        for path in tree.resolve(&target.modules)? {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    job.modules = paths.iter().map(|p| initramfs::module_path(p)).chain(job.modules).collect();
    let base = Base {
        busybox: Some(&kernel.busybox),
        latlab,
        modules: tree.as_ref().map(|t| (t, paths.as_slice())),
        extras,
    };
    let mut disk = match &target.initrd {
        Some(path) => padded(fs::read(path).map_err(TargetError::file(path))?),
        None => Vec::new(),
    };
    disk.extend(base.build(host.cache)?);
    disk.extend(initramfs::job_archive(&job));
    let initrd = scratch.join("initrd");
    fs::write(&initrd, disk).map_err(TargetError::file(&initrd))?;
    let image = target.kernel.clone().unwrap_or_else(|| kernel.image.clone());
    fs::File::open(&image).map_err(TargetError::file(&image))?;
    let dtb =
        target.dtb.clone().or_else(|| machine.device_tree.map(|name| kernel.device_tree(name)));
    if let Some(dtb) = &dtb {
        fs::File::open(dtb).map_err(TargetError::file(dtb))?;
    }
    Ok(Files { kernel: image, initrd, dtb, console: scratch.join("console") })
}

/// Archives that follow each other begin at a multiple of four.
fn padded(mut archive: Vec<u8>) -> Vec<u8> {
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive
}

/// A program in PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|p| p.join(name)).find(|p| p.is_file())
}
