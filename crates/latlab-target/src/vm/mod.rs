//! Virtual machines: QEMU with one of Debian's kernels (or the user's) and a RAM disk of ours.
//!
//! ```text
//!  latlab (here)                              QEMU
//!   │ kernel, RAM disk (base + job) ────────▶ kernel ─▶ /init = latlab's agent
//!   │                                            │  loads modules, runs the job
//!   ◀── frames: output, files, exit code ────────┘
//!   └─ console: a file; its end is shown when something goes wrong
//! ```

pub mod built;
pub mod catalog;
pub mod compiler;
mod fault_module;
pub mod faults;
mod host;
pub mod kernel;
pub mod needs;
mod own;
pub mod packages;
pub mod plugin;
pub mod qemu;
pub mod session;
pub mod tree;

pub use crate::search::find_program;
pub use host::Host;

use crate::cache::Scratch;
use crate::initramfs::{self, Base, Extra};
use crate::modules::ModuleTree;
use crate::spec::VmTarget;
use crate::{Result, TargetError, board};
use catalog::Kind;
use kernel::Kernel;
use latlab_wire::frame::{Job, Sought};
use qemu::{Files, Machine};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
        hint: format!("available: {}", catalog::names()),
    })?;
    let target = &built::resolve(host.cache, target)?;
    let machine = Machine::new(kind, target)?;
    if job.shell && machine.channel == qemu::Channel::Log && target.kernel.is_none() {
        return Err(TargetError::Spec {
            spec: format!("vm:{},cpu=cortex-a8", kind.name),
            reason: "a shell needs a serial port with interrupts, which this machine has not"
                .into(),
            hint: "latlab vm run works on it; so does a shell with cpu=cortex-a7".into(),
        });
    }
    // A board build may take minutes: what the user named is looked for first.
    let named = [&target.kernel, &target.modules_from, &target.initrd, &target.dtb];
    for path in named.into_iter().flatten() {
        fs::metadata(path).map_err(TargetError::file(path))?;
    }
    needs::check(host, kind, target.kernel.is_some())?;
    let (program, package) = qemu::program(kind.arch);
    let program = find_program(program).ok_or_else(|| TargetError::NoProgram {
        program: program.into(),
        purpose: format!("the virtual machine {}", kind.name),
        package: package.into(),
    })?;
    let latlab = board::find_or_build(host, kind.arch, say)?;
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

#[expect(clippy::too_many_arguments, reason = "one caller; the parts have nothing else in common")]
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
    let parts = parts(host, target, kind, machine, scratch, say)?;
    let mut job = job.clone();
    let mut wanted: Vec<&str> = kernel::transport_modules(kind.arch).to_vec();
    if target.ssh_port.is_some() {
        wanted.extend(["virtio_net", "af_packet"]);
    }
    let mut paths = Vec::new();
    if let Some(tree) = &parts.modules {
        paths = tree.resolve_known(&wanted);
        for path in tree.resolve(&target.modules)? {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    } else {
        // The user's own RAM disk may have them: only the machine itself can tell.
        let sought = |name: &str, needed| Sought { name: name.to_owned(), needed };
        job.seek = wanted.iter().map(|name| sought(name, false)).collect();
        job.seek.extend(target.modules.iter().map(|name| sought(name, true)));
    }
    job.modules = paths.iter().map(|p| initramfs::module_path(p)).chain(job.modules).collect();
    let base = Base {
        busybox: Some(&parts.busybox),
        latlab,
        modules: parts.modules.as_ref().map(|t| (t, paths.as_slice())),
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
    for file in [Some(&parts.image), parts.dtb.as_ref()].into_iter().flatten() {
        fs::File::open(file).map_err(TargetError::file(file))?;
    }
    Ok(Files { kernel: parts.image, initrd, dtb: parts.dtb, console: scratch.join("console") })
}

/// What a machine starts from, of Debian's or of the user's.
#[derive(Debug)]
struct Parts {
    image: PathBuf,
    modules: Option<ModuleTree>,
    busybox: PathBuf,
    dtb: Option<PathBuf>,
}

fn parts(
    host: &Host<'_>,
    target: &VmTarget,
    kind: &Kind,
    machine: &Machine,
    scratch: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Parts> {
    let own = own::find(host.cache, target, kind.arch, scratch)?;
    let tree = if target.dtb.is_none() { machine.device_tree } else { None };
    if let (Some(own), None) = (&own, tree) {
        if let Some(modules) = &own.modules {
            say(&format!("modules of this kernel: {}", modules.folder().display()));
        }
        let busybox = kernel::busybox(host.cache, kind, say)?;
        let (image, dtb) = (own.image.clone(), target.dtb.clone());
        return Ok(Parts { image, modules: own.modules.clone(), busybox, dtb });
    }
    let kernel = match Kernel::cached(host.cache, kind) {
        Some(kernel) => kernel,
        None => Kernel::fetch(host.cache, kind, say)?,
    };
    let dtb = target.dtb.clone().or_else(|| tree.map(|name| kernel.device_tree(name)));
    let (image, modules) = match own {
        Some(own) => (own.image, own.modules),
        None => (kernel.image.clone(), Some(kernel.modules()?)),
    };
    Ok(Parts { image, modules, busybox: kernel.busybox, dtb })
}

/// Archives that follow each other begin at a multiple of four.
fn padded(mut archive: Vec<u8>) -> Vec<u8> {
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive
}
