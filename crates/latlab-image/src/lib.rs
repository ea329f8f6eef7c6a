//! SD card images for boards: from Debian's packages to a card that starts, without root.
//!
//! ```text
//! board (TOML) ─┐
//! packages ─────┼─▶ Tree, unpacked ─▶ QEMU: dpkg --configure ─▶ Tree (cached) ─┐
//! apt ──────────┘                                                             │
//! keys, latlab, modules, our files ───────────────────────────────────────────┴─▶ ext4 ─┐
//! loader, kernel, RAM disk, device trees ─▶ FAT ──────────────────────────────────────┴─▶ sd.img
//! ```
//! Everything between is data; only e2fsprogs and QEMU are asked to help. The
//! same input gives the same bytes: identifiers are hashes of what went in, and
//! the clock is SOURCE_DATE_EPOCH or that of the newest file of the packages.

#![forbid(unsafe_code)]

pub mod board;
pub mod boot;
pub mod check;
mod configure;
pub mod deb;
pub mod device;
mod ext4;
pub mod fat;
mod hooks;
mod ids;
mod initrd;
mod kernels;
pub mod keys;
mod manifest;
pub mod mbr;
mod network;
mod part;
mod rootfs;
pub mod source;
pub mod tree;
pub mod write;

pub use crate::hooks::{Hooks, Step};
pub use crate::kernels::Flavour;
pub use crate::manifest::{CheckRecord, ListRecord, Manifest, PackageRecord};
pub use crate::network::NfsRoot;

use board::{Board, BootFile};
use deb::Deb;
use fat::BootEntry;
use ids::{Ids, hex};
use latlab_target::cache::{Cache, digest};
use latlab_target::debian::Archive;
use latlab_target::vm::Host;
use latlab_target::vm::kernel::Kernel;
use latlab_target::{Result, TargetError};
use mbr::{ALIGNMENT, SECTOR};
use part::Part;
use sha2::{Digest, Sha256};
use source::{BootLoaderRecord, BuildRecord, Purpose};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use tree::Tree;

/// Changes when the way a root file system is made does: cached ones of before are not used then.
const ROOT_VERSION: &str = "1";
/// Packages of every image: what starts, is reached and reports.
const PACKAGES: [&str; 9] = [
    "usr-is-merged",
    "systemd-sysv",
    "udev",
    "kmod",
    "iproute2",
    "procps",
    "openssh-server",
    "systemd-timesyncd",
    "apt",
];

/// What to build.
#[derive(Debug)]
pub struct Request {
    /// For which board.
    pub board: Board,
    /// With which kernel.
    pub flavour: Flavour,
    /// Build it from source for this purpose.
    pub build_kernel: Option<Purpose>,
    /// Build U-Boot from source.
    pub build_u_boot: bool,
    /// Public keys that may log in as root ([`keys::read`]).
    pub keys: String,
    /// Host name, where it is not the board's.
    pub hostname: Option<String>,
    /// A root shell on the serial console.
    pub serial_shell: bool,
    /// More packages.
    pub packages: Vec<String>,
    /// SOURCE_DATE_EPOCH.
    pub epoch_s: Option<u64>,
    /// Ask the network nothing.
    pub offline: bool,
    /// For network boot, with the root file system on this server.
    pub nfs_root: Option<NfsRoot>,
    /// Where the image, or the folder for network boot, goes.
    pub output: PathBuf,
}

/// The names of the packages of a root file system.
pub fn packages(request: &Request) -> Vec<String> {
    let base = PACKAGES.iter().map(|p| (*p).to_owned());
    base.chain(request.board.packages.clone()).chain(request.packages.clone()).collect()
}

/// Builds an image, or a folder for network boot; nothing is left at `output` unless it is whole.
///
/// # Errors
/// When the output cannot be written, something cannot be had, a program fails, or the user stopped it.
pub fn build(host: &Host<'_>, request: &Request, hooks: &mut dyn Hooks) -> Result<Manifest> {
    let board = &request.board;
    if request.build_u_boot && board.u_boot.is_none() {
        return Err(TargetError::Content {
            path: board.name.clone().into(),
            reason: "this board's file does not say how U-Boot is built".into(),
            hint: "leave out --build-u-boot, or add [u_boot] with package and config to a file of your own".into(),
        });
    }
    let program =
        latlab_target::board::find_or_build(host, board.arch, &mut |words| hooks.say(words))?;
    let latlab = fs::read(&program).map_err(TargetError::file(&program))?;
    latlab_target::board::check(&program, &latlab, board.arch)?;
    // What cannot be written is known before anything long begins.
    match &request.nfs_root {
        Some(nfs) => {
            let folder = network::Folder::create(&request.output)?;
            let prepared = prepare(host.cache, request, latlab, hooks)?;
            network_boot(folder, request, &prepared, nfs, hooks)
        }
        None => {
            let part = Part::create(&request.output)?;
            let prepared = prepare(host.cache, request, latlab, hooks)?;
            card(host.cache, part, request, &prepared, hooks)
        }
    }
}

/// What a card and a folder for network boot have in common.
struct Prepared {
    parts: Parts,
    root: Tree,
    ids: Ids,
    epoch_s: u64,
    latlab_sha256: String,
}

fn prepare(
    cache: &Cache,
    request: &Request,
    latlab: Vec<u8>,
    hooks: &mut dyn Hooks,
) -> Result<Prepared> {
    let board = &request.board;
    let parts = gather(cache, request, hooks)?;
    let mut root = root(cache, request, &parts, hooks)?;
    let epoch_s = request.epoch_s.unwrap_or_else(|| newest(&root));
    hooks.step(Step::Assembling, None, "the root file system");
    let ids = Ids::of(&identity(request, &parts, &latlab, epoch_s));
    let latlab_sha256 = hex(&Sha256::digest(&latlab));
    root.put("usr/local/bin/latlab", 0o755, latlab, epoch_s);
    let modules = parts.kernel.modules()?;
    rootfs::modules(&mut root, &modules, &parts.kernel.release, &board.leave_out, epoch_s)?;
    let boot_uuid = ids.boot_text();
    let place = match request.nfs_root {
        Some(_) => rootfs::Place::Network,
        None => rootfs::Place::Card { root_uuid: &ids.root, boot_uuid: &boot_uuid },
    };
    rootfs::customize(
        &mut root,
        &rootfs::Settings {
            hostname: request.hostname.as_deref().unwrap_or(&board.name),
            authorized_keys: &request.keys,
            serial_shell: request.serial_shell.then_some(board.console.as_str()),
            place,
            epoch_s,
        },
    );
    stopped(hooks)?;
    Ok(Prepared { parts, root, ids, epoch_s, latlab_sha256 })
}

impl Prepared {
    /// The description of what was built: a file with its size and checksum.
    fn manifest(
        &self,
        request: &Request,
        image: String,
        (bytes, sha256): (u64, String),
        command_line: String,
        checks: Vec<CheckRecord>,
    ) -> Manifest {
        let parts = &self.parts;
        Manifest {
            image,
            bytes,
            sha256,
            board: request.board.name.clone(),
            arch: request.board.arch.name().into(),
            kernel: parts.kernel.release.clone(),
            kernel_build: parts.kernel_build.clone(),
            u_boot_build: parts.u_boot.as_ref().map(|(record, _)| record.clone()),
            command_line,
            epoch_s: self.epoch_s,
            latlab_sha256: self.latlab_sha256.clone(),
            package_lists: parts.lists.clone(),
            packages: parts.records(),
            checks,
        }
    }
}

fn card(
    cache: &Cache,
    mut part: Part,
    request: &Request,
    prepared: &Prepared,
    hooks: &mut dyn Hooks,
) -> Result<Manifest> {
    let (board, ids, parts) = (&request.board, &prepared.ids, &prepared.parts);
    let command_line = command_line(board, &format!("UUID={}", ids.root));
    let boot = boot_partition(board, parts, &command_line, ids.boot)?;
    let scratch = cache.scratch()?;
    let system = scratch.path().join("root.img");
    let options = ext4::Options {
        uuid: ids.root.clone(),
        label: "latlab-root".into(),
        free: 32 << 20,
        journal: true,
        epoch_s: prepared.epoch_s,
    };
    let bytes = ext4::size(&prepared.root, &options);
    ext4::make(&prepared.root, &system, bytes, &scratch.path().join("stage"), &options)?;
    stopped(hooks)?;
    hooks.step(Step::Assembling, None, "the image");
    let raws = raws(board, parts)?;
    let written = part.assemble(ids, &boot, &raws, &system, bytes)?;
    let head = part.head(boot.len())?;
    let checks = check::check(&head, board.boot_rom).into_iter().map(CheckRecord::from).collect();
    let name = request.output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let manifest = prepared.manifest(request, name, written, command_line, checks);
    if let Some(unmet) = manifest.checks.iter().find(|c| !c.met) {
        return Err(TargetError::Content {
            path: request.output.clone(),
            reason: format!("the image would not start: {} ({})", unmet.demand, unmet.found),
            hint: "is the board's file right? its boot.file entries are written in their order"
                .into(),
        });
    }
    part.finish(&manifest)?;
    Ok(manifest)
}

/// A folder for a TFTP server and the archive of a root file system.
fn network_boot(
    folder: network::Folder,
    request: &Request,
    prepared: &Prepared,
    nfs: &NfsRoot,
    hooks: &mut dyn Hooks,
) -> Result<Manifest> {
    let (board, kernel) = (&request.board, &prepared.parts.kernel);
    let read = |path: &Path| fs::read(path).map_err(TargetError::file(path));
    let file = |name: &str| format!("tftp/{name}");
    // Written from the beginning: there is no file system to check before.
    let line = command_line(board, &nfs.words()).replace(" ro ", " rw ");
    folder.put(&file(KERNEL), &read(&kernel.image)?)?;
    let more = network::modules();
    let names = board.modules.iter().chain(&board.network_modules).chain(&more);
    folder.put(&file(INITRD), &initrd::make(&kernel.busybox, &kernel.modules()?, names)?)?;
    let trees = kernels::device_trees(kernel, &board.device_trees)?;
    for name in &trees {
        folder.put(&file(name), &read(&kernel.device_tree(name))?)?;
    }
    let menu = network::menu(&board.about, (KERNEL, INITRD), &line, !trees.is_empty());
    folder.put("tftp/pxelinux.cfg/default", menu.as_bytes())?;
    stopped(hooks)?;
    hooks.step(Step::Assembling, None, "the root file system's archive");
    let written = folder.put_root(&prepared.root)?;
    let manifest = prepared.manifest(request, network::ROOT.into(), written, line, Vec::new());
    let text = serde_json::to_vec_pretty(&manifest).map_err(|e| TargetError::Io(e.into()))?;
    folder.finish(&text)?;
    Ok(manifest)
}

fn stopped(hooks: &dyn Hooks) -> Result<()> {
    if hooks.stopped() { Err(TargetError::Stopped) } else { Ok(()) }
}

/// Everything that comes from Debian.
struct Parts {
    debs: Vec<Deb>,
    kernel: Kernel,
    kernel_build: Option<BuildRecord>,
    u_boot: Option<(BootLoaderRecord, PathBuf)>,
    /// The kernel that configures packages in QEMU.
    configuring: Kernel,
    /// Unpacked packages of the boot files.
    boot: Vec<(String, PathBuf)>,
    lists: Vec<ListRecord>,
}

impl Parts {
    fn records(&self) -> Vec<PackageRecord> {
        let of = |d: &Deb| PackageRecord { file: d.name.clone(), sha256: d.sha256.clone() };
        self.debs.iter().map(of).collect()
    }

    fn file(&self, package: &str, path: &str) -> Result<Vec<u8>> {
        if let Some((_, folder)) = self.u_boot.as_ref().filter(|(u, _)| u.package == package) {
            return source::u_boot_file(folder, path);
        }
        let folder = self.boot.iter().find(|(name, _)| name == package).map(|(_, f)| f.as_path());
        let path = folder.unwrap_or(Path::new("")).join(path);
        fs::read(&path).map_err(TargetError::file(&path))
    }
}

fn gather(cache: &Cache, request: &Request, hooks: &mut dyn Hooks) -> Result<Parts> {
    let board = &request.board;
    let mut archive = Archive::new(cache, board.arch);
    // What goes to a board is not to be old without a word.
    archive.refuse_old_lists();
    if !request.offline {
        let _lock = cache.lock("fetch")?;
        archive.update(&mut |w| hooks.say(w))?;
    }
    let kernel =
        request.flavour.kernel(cache, board.arch, request.offline, &mut |w| hooks.say(w))?;
    stopped(hooks)?;
    let configuring = request.flavour.for_configuring(cache, board.arch, &kernel, hooks)?;
    let (kernel, kernel_build) = match &request.build_kernel {
        Some(purpose) => {
            let record = built(cache, request, &kernel, purpose, hooks)?;
            (source::kernel(cache, &record, &kernel.busybox)?, Some(record))
        }
        None => (kernel, None),
    };
    let u_boot = match &board.u_boot {
        Some(u_boot) if request.build_u_boot => Some(source::build_u_boot(
            cache,
            &board.name,
            board.arch,
            u_boot,
            request.offline,
            hooks,
        )?),
        _ => None,
    };
    stopped(hooks)?;
    let _lock = cache.lock("fetch")?;
    if request.offline {
        archive.stay_offline();
        if let Some(age) = archive.lists_age() {
            let days = age.as_secs() / (24 * 3600);
            hooks.say(&format!("Debian's package lists in the cache are of {days} days ago"));
        }
    }
    let debs = deb::fetch(&mut archive, &packages(request), &mut |w| hooks.say(w))?;
    stopped(hooks)?;
    let mut boot: Vec<(String, PathBuf)> = Vec::new();
    let files = board.boot.file.iter().map(|f| &f.package);
    for name in files.chain(board.boot.raw.iter().map(|r| &r.package)) {
        let is_built = u_boot.as_ref().is_some_and(|(u, _)| u.package == *name);
        if is_built || boot.iter().any(|(n, _)| n == name) {
            continue;
        }
        let there = if request.offline { archive.unpacked(name) } else { None };
        let folder = match there {
            Some(folder) => folder,
            None => archive.fetch(name, &mut |w| hooks.say(w))?,
        };
        boot.push((name.clone(), folder));
    }
    let lists = archive.list_dates().into_iter().map(|(file, date)| ListRecord { file, date });
    Ok(Parts { debs, kernel, kernel_build, u_boot, configuring, boot, lists: lists.collect() })
}

/// The board's kernel from source.
fn built(
    cache: &Cache,
    request: &Request,
    debian: &Kernel,
    purpose: &Purpose,
    hooks: &mut dyn Hooks,
) -> Result<BuildRecord> {
    let board = &request.board;
    if request.offline {
        return source::cached(cache, &board.name, purpose);
    }
    source::check(board.arch)?;
    let plan = source::Plan {
        machine: &board.name,
        kind: request.flavour.kind(board.arch),
        debian,
        purpose,
        options: &board.kernel_options,
        device_trees: &board.device_trees,
    };
    source::build(cache, &plan, hooks)
}

/// The configured packages, from the cache if the same were configured before.
fn root(cache: &Cache, request: &Request, parts: &Parts, hooks: &mut dyn Hooks) -> Result<Tree> {
    let arch = request.board.arch;
    let mut pieces = vec![ROOT_VERSION.to_owned(), arch.name().to_owned()];
    pieces.push(request.epoch_s.map(|e| e.to_string()).unwrap_or_default());
    pieces.extend(parts.debs.iter().map(|d| format!("{} {}", d.name, d.sha256)));
    let key = digest(pieces.iter().map(|p| p.as_bytes()));
    let path = cache.folder("roots")?.join(format!("{}-{}.tar.zst", arch.debian(), &key[..32]));
    if let Ok(file) = File::open(&path) {
        let mut tree = Tree::default();
        let tar = zstd::Decoder::new(file).map_err(TargetError::file(&path))?;
        if tree.read_tar(BufReader::new(tar), &path, |_| true).is_ok() && !tree.is_empty() {
            return Ok(tree);
        }
        hooks.say(&format!("{} is damaged and made anew", path.display()));
    }
    let count = parts.debs.len();
    let unpacking = &mut |done: usize| {
        hooks.step(Step::Unpacking, Some(done as f64 / count.max(1) as f64), "");
    };
    let mut tree = deb::unpack(&parts.debs, arch.debian(), unpacking)?;
    let epoch_s = request.epoch_s.unwrap_or_else(|| newest(&tree));
    // What is dpkg's own came without a time.
    tree.each(|_, n| n.mtime_s = if n.mtime_s == 0 { epoch_s } else { n.mtime_s.min(epoch_s) });
    tree.put("etc/dpkg/dpkg.cfg.d/latlab", 0o644, deb::DPKG_CONFIGURATION.as_bytes(), epoch_s);
    tree.put("etc/apt/sources.list", 0o644, SOURCES.as_bytes(), epoch_s);
    stopped(hooks)?;
    let scratch = cache.scratch()?;
    let mut tree =
        configure::configure(tree, arch, &parts.configuring, count, epoch_s, &scratch, hooks)?;
    rootfs::tidy(&mut tree, epoch_s);
    let mut packed = Vec::new();
    let mut out = zstd::Encoder::new(&mut packed, 3).map_err(TargetError::file(&path))?;
    tree.write_tar(&mut out).map_err(TargetError::file(&path))?;
    out.finish().map_err(TargetError::file(&path))?;
    cache.write(&path, &packed)?;
    Ok(tree)
}

/// Where the board itself gets packages from later.
const SOURCES: &str = "\
deb http://deb.debian.org/debian bookworm main
deb http://deb.debian.org/debian bookworm-updates main
deb http://deb.debian.org/debian-security bookworm-security main
";

/// The newest time in a tree.
fn newest(tree: &Tree) -> u64 {
    tree.iter().map(|(_, n)| n.mtime_s).max().unwrap_or(0)
}

/// A hash over everything that an image is made of.
fn identity(request: &Request, parts: &Parts, latlab: &[u8], epoch_s: u64) -> Vec<u8> {
    let mut hash = Sha256::new();
    let mut piece = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    parts.debs.iter().for_each(|d| piece(d.sha256.as_bytes()));
    let words = format!(
        "{:?} {:?} {} {} {epoch_s} {:?}",
        request.board,
        request.hostname,
        request.serial_shell,
        parts.kernel.release,
        request.nfs_root
    );
    piece(words.as_bytes());
    parts.kernel_build.iter().for_each(|b| piece(b.image_sha256.as_bytes()));
    parts.u_boot.iter().for_each(|(record, _)| piece(record.key.as_bytes()));
    piece(request.keys.as_bytes());
    piece(latlab);
    hash.finalize().to_vec()
}

fn command_line(board: &Board, root: &str) -> String {
    let line = format!("root={root} ro rootwait console={} {}", board.console, board.append);
    line.trim().to_owned()
}

const KERNEL: &str = "vmlinuz";
const INITRD: &str = "initrd.img";

/// The boot partition: loaders in the board's order, then what they load.
fn boot_partition(board: &Board, parts: &Parts, command_line: &str, id: u32) -> Result<Vec<u8>> {
    let mut files = Vec::new();
    for BootFile { to, package, path } in &board.boot.file {
        files.push(BootEntry { to: to.clone(), data: parts.file(package, path)? });
    }
    for text in &board.boot.text {
        let filled = (text.text.trim_start())
            .replace("{kernel}", KERNEL)
            .replace("{initrd}", INITRD)
            .replace("{cmdline}", command_line);
        files.push(BootEntry { to: text.to.clone(), data: filled.into_bytes() });
    }
    let kernel = &parts.kernel;
    let read = |path: &Path| fs::read(path).map_err(TargetError::file(path));
    files.push(BootEntry { to: KERNEL.into(), data: read(&kernel.image)? });
    let modules = kernel.modules()?;
    let initrd = initrd::make(&kernel.busybox, &modules, board.modules.iter())?;
    files.push(BootEntry { to: INITRD.into(), data: initrd });
    for name in kernels::device_trees(kernel, &board.device_trees)? {
        files.push(BootEntry { data: read(&kernel.device_tree(&name))?, to: name });
    }
    fat::make(board.boot.mib, &board.boot.label, id, &files)
}

fn raws(board: &Board, parts: &Parts) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut raws = Vec::new();
    for raw in &board.boot.raw {
        let data = parts.file(&raw.package, &raw.path)?;
        if raw.offset + data.len() as u64 > ALIGNMENT * SECTOR {
            return Err(TargetError::Content {
                path: raw.path.clone().into(),
                reason: format!(
                    "at offset {} its {} bytes reach into the first partition",
                    raw.offset,
                    data.len()
                ),
                hint: "choose a smaller offset, or put the file on the boot partition".into(),
            });
        }
        raws.push((raw.offset, data));
    }
    Ok(raws)
}
