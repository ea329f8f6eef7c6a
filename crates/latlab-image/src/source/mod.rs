//! Kernels that are built from Debian's source, for a purpose.
//!
//! ```text
//! linux-source-6.1 ─▶ tree (cached) ◀─ patches-rt of Debian's source package `linux`
//!                       │
//! Debian's config without modules + base + purposes + board ─▶ .config ─▶ make O=build ─▶ package/
//! ```
//! The same source, configuration and compiler give the same bytes: the clock is that of the source, names of user
//! and host are fixed, and nothing is signed with a key of the build.

mod config;
mod make;
mod tree;
mod u_boot;

use crate::{Hooks, Step};
use config::Config;
use latlab_target::cache::{Cache, digest, sha256};
use latlab_target::vm::catalog::Kind;
use latlab_target::vm::compiler::Compiler;
use latlab_target::vm::kernel::Kernel;
use latlab_target::vm::{built, find_program};
use latlab_target::{Arch, Result, TargetError};
use make::{Output, run};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;
use tree::SourceTree;
pub use u_boot::{BootLoaderRecord, build as build_u_boot, file as u_boot_file};

/// What is set in every kernel.
const BASE: &str = include_str!("../fragments/base.config");
/// Purposes with their fragments.
const PURPOSES: [(&str, &str); 4] = [
    ("tracers", include_str!("../fragments/tracers.config")),
    ("latency", include_str!("../fragments/latency.config")),
    ("no-smp", include_str!("../fragments/no-smp.config")),
    ("no-power-saving", include_str!("../fragments/no-power-saving.config")),
];

/// For what a kernel is built: purposes, or files of the user's own, joined by `+`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// Of the folder and the kernel's release.
    pub name: String,
    wanted: Config,
}

impl Purpose {
    /// Reads `tracers`, `tracers+no-smp`, `./my.config`.
    ///
    /// # Errors
    /// When there is no such purpose, or a file cannot be read.
    pub fn parse(text: &str) -> Result<Self> {
        let (mut names, mut wanted) = (Vec::new(), Config::default());
        for word in text.split('+') {
            if let Some((_, fragment)) = PURPOSES.iter().find(|(name, _)| *name == word) {
                wanted.add(&Config::parse(fragment));
                names.push(word.to_owned());
                continue;
            }
            if !word.contains('/') && !word.ends_with(".config") {
                let known = PURPOSES.map(|(name, _)| name);
                return Err(TargetError::Content {
                    path: word.into(),
                    reason: "no purpose of a kernel".into(),
                    hint: format!(
                        "{}, joined by +, or the FILE.config of a fragment of your own",
                        known.join(", ")
                    ),
                });
            }
            let path = Path::new(word);
            wanted.add(&config::own(path)?);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            names.push(stem.chars().map(plain).take(32).collect());
        }
        Ok(Self { name: names.join("+"), wanted })
    }
}

/// What is built.
#[derive(Debug)]
pub struct Plan<'a> {
    /// Name of the machine or board.
    pub machine: &'a str,
    /// The kind of machine.
    pub kind: &'static Kind,
    /// The kernel whose configuration it begins with.
    pub debian: &'a Kernel,
    /// For what.
    pub purpose: &'a Purpose,
    /// More options, as lines of a fragment.
    pub options: &'a [String],
    /// Device trees to build; `*` stands for any text.
    pub device_trees: &'a [String],
}

/// What a kernel was built from; `BUILD.json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct BuildRecord {
    /// As `uname -r` says.
    pub release: String,
    /// Machine or board.
    pub machine: String,
    /// For what.
    pub purpose: String,
    /// Debian's package of the source.
    pub package: String,
    /// Its version.
    pub version: String,
    /// Patches for PREEMPT_RT that were applied.
    pub realtime_patches: usize,
    /// The kernel of Debian's whose configuration it begins with.
    pub configuration_of: String,
    /// First line of `gcc --version`.
    pub compiler: String,
    /// The clock of the build, seconds since 1970.
    pub epoch_s: u64,
    /// Options that this kernel did not take, with what it has.
    pub not_taken: Vec<String>,
    /// SHA-256 of the image.
    pub image_sha256: String,
    /// Of everything that it was built from.
    pub key: String,
}

/// Checks that a kernel can be compiled here.
///
/// # Errors
/// When programs or headers are missing: all of them.
pub fn check(arch: Arch) -> Result<()> {
    // objtool, a program of the build, reads ELF files.
    let elf: &[Header] = &[("libelf.h", "libelf-dev")];
    let headers = if arch == Arch::X86_64 { elf } else { &[] };
    check_programs("a kernel", &Compiler::of(arch), headers)
}

/// Builds a kernel, or finds it in the cache. [`check`] comes before it.
///
/// # Errors
/// When the archive does not deliver, the build fails, or the user stopped it.
pub fn build(cache: &Cache, plan: &Plan<'_>, hooks: &mut dyn Hooks) -> Result<BuildRecord> {
    let compiler = Compiler::of(plan.kind.arch);
    let realtime = plan.kind.flavour.contains("-rt-");
    let tree = tree::kernel(cache, &series_of(&plan.debian.release), realtime, hooks)?;
    let (wanted, config) = configuration(plan)?;
    let compiler_version = version_of(&compiler)?;
    let epoch_s = epoch(&tree)?;
    let rendered = config.render();
    let key = digest([
        tree.package.as_bytes(),
        tree.version.as_bytes(),
        &tree.patches.to_le_bytes(),
        rendered.as_bytes(),
        compiler_version.as_bytes(),
        plan.device_trees.join(" ").as_bytes(),
    ]);
    let folder = built::folder(cache, plan.machine, &plan.purpose.name);
    fs::create_dir_all(&folder).map_err(TargetError::file(&folder))?;
    let _lock = cache.lock(&format!("kernel-{}-{}", plan.machine, plan.purpose.name))?;
    if let Some(record) = read_record::<BuildRecord>(&folder).filter(|r| r.key == key) {
        return Ok(record);
    }
    // Until it is whole there is no such kernel.
    let _ = fs::remove_file(folder.join(built::RECORD));
    let work = Work { tree: &tree, compiler: &compiler, folder: &folder, epoch_s };
    let finished = work.configure(&rendered, hooks)?;
    if realtime && finished.value("CONFIG_PREEMPT_RT") != "y" {
        return Err(TargetError::Content {
            path: tree.folder.clone(),
            reason: "this source has no PREEMPT_RT for the architecture".into(),
            hint: "choose a machine without -rt".into(),
        });
    }
    if plan.purpose.wanted.switches_off("CONFIG_SMP") && finished.value("CONFIG_SMP") == "y" {
        return Err(TargetError::Content {
            path: plan.purpose.name.clone().into(),
            reason: format!("kernels for {} are for several processors always", plan.kind.arch.name()),
            hint: "smp=1, which virtual machines have by default, or maxcpus=1 on the kernel's command line".into(),
        });
    }
    let not_taken = wanted.not_taken(&finished);
    if !not_taken.is_empty() {
        let names: Vec<_> = not_taken.iter().map(|o| o.trim_start_matches("CONFIG_")).collect();
        hooks.say(&format!("this kernel does not take all options; it has {}", names.join(", ")));
    }
    let made = Made { image: image_name(plan.kind.arch), trees: work.device_trees(plan)? };
    let release = work.compile(&made, hooks)?;
    let image = work.install(&made, &release, hooks)?;
    let record = BuildRecord {
        release,
        machine: plan.machine.into(),
        purpose: plan.purpose.name.clone(),
        package: tree.package.clone(),
        version: tree.version.clone(),
        realtime_patches: tree.patches,
        configuration_of: plan.debian.release.clone(),
        compiler: compiler_version,
        epoch_s,
        not_taken,
        image_sha256: sha256(&image),
        key,
    };
    write_record(cache, &folder, &record)?;
    Ok(record)
}

/// The kernel that was last built for a purpose.
///
/// # Errors
/// When there is none.
pub fn cached(cache: &Cache, machine: &str, purpose: &Purpose) -> Result<BuildRecord> {
    let folder = built::folder(cache, machine, &purpose.name);
    read_record(&folder).ok_or_else(|| TargetError::Content {
        path: folder,
        reason: "this kernel is not built, and --offline was given".into(),
        hint: "leave out --offline".into(),
    })
}

/// The kernel of a build.
///
/// # Errors
/// When its files are not there.
pub fn kernel(cache: &Cache, record: &BuildRecord, busybox: &Path) -> Result<Kernel> {
    let folder = built::folder(cache, &record.machine, &record.purpose);
    Kernel::of_package(&folder.join("package"), busybox)
}

/// Writes a kernel as a Debian package, which `--kernel` takes and dpkg installs on a machine.
///
/// # Errors
/// When dpkg-deb fails, or the file cannot be written.
pub fn package(cache: &Cache, record: &BuildRecord, arch: Arch, file: &Path) -> Result<()> {
    let built = built::folder(cache, &record.machine, &record.purpose).join("package");
    let scratch = cache.scratch()?;
    let stage = scratch.path().join("stage");
    let mut copy = Command::new("cp");
    copy.args(["-a", "--reflink=auto"]).arg(&built).arg(&stage);
    let failed = |program: &str, message: String| TargetError::Program {
        program: program.into(),
        message,
        hint: "is the disk of the cache full?".into(),
    };
    if !copy.status().is_ok_and(|s| s.success()) {
        return Err(failed("cp", "the kernel could not be copied".into()));
    }
    let control = stage.join("DEBIAN");
    fs::create_dir(&control).map_err(TargetError::file(&control))?;
    let text = format!(
        "Package: linux-image-{release}\nVersion: {version}+latlab\nArchitecture: {arch}\nMaintainer: latlab <root@localhost>\n\
         Section: kernel\nPriority: optional\nDescription: Linux {release}, built by latlab for {purpose}\n",
        release = record.release,
        version = record.version,
        arch = arch.debian(),
        purpose = record.purpose,
    );
    let path = control.join("control");
    fs::write(&path, text).map_err(TargetError::file(&path))?;
    let part = file.with_extension("deb.part");
    let mut build = Command::new("dpkg-deb");
    build.args(["--build", "--root-owner-group", "-Zxz"]).arg(&stage).arg(&part);
    build.env("SOURCE_DATE_EPOCH", record.epoch_s.to_string());
    let output = build.output().map_err(TargetError::file("dpkg-deb".as_ref()))?;
    if !output.status.success() {
        let _ = fs::remove_file(&part);
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(failed("dpkg-deb", text.lines().next().unwrap_or_default().to_owned()));
    }
    fs::rename(&part, file).map_err(TargetError::file(file))
}

/// What a whole build in this folder was made from.
fn read_record<T: DeserializeOwned>(folder: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(folder.join(built::RECORD)).ok()?).ok()
}

/// The build in this folder is whole.
fn write_record(cache: &Cache, folder: &Path, record: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(record).map_err(|e| TargetError::Io(e.into()))?;
    cache.write(&folder.join(built::RECORD), &text)
}

/// The file of a kernel in its architecture's `boot` folder, and the target that makes it.
fn image_name(arch: Arch) -> &'static str {
    match arch {
        Arch::Armv7 => "zImage",
        Arch::Aarch64 => "Image",
        Arch::X86_64 => "bzImage",
    }
}

/// `6.1` of `6.1.0-50-rt-armmp`.
fn series_of(release: &str) -> String {
    release.split(['.', '-']).take(2).collect::<Vec<_>>().join(".")
}

/// What is wanted beyond Debian's configuration, and the whole.
fn configuration(plan: &Plan<'_>) -> Result<(Config, Config)> {
    let debian = plan.debian;
    let path = debian.package.join("boot").join(format!("config-{}", debian.release));
    let text = fs::read_to_string(&path).map_err(TargetError::file(&path))?;
    let mut wanted = Config::parse(BASE);
    wanted.add(&Config::parse(&plan.options.join("\n")));
    wanted.add(&plan.purpose.wanted);
    let mut config = Config::parse(&text).without_modules();
    config.add(&wanted);
    config.set_suffix(&format!("-{}", plan.purpose.name.replace('+', "-")));
    Ok((wanted, config))
}

/// The clock of a build: that of the source's archive, as Debian made it.
fn epoch(tree: &SourceTree) -> Result<u64> {
    let makefile = tree.folder.join("Kbuild");
    let time =
        fs::metadata(&makefile).and_then(|m| m.modified()).map_err(TargetError::file(&makefile))?;
    Ok(time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()))
}

/// Programs of a build, with Debian's packages.
const PROGRAMS: [(&str, &str); 8] = [
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("patch", "patch"),
    ("gcc", "gcc"),
];

/// A header that a build needs beside the C library's, with Debian's package.
type Header = (&'static str, &'static str);

/// Names all missing programs and headers at once.
fn check_programs(what: &str, compiler: &Compiler, headers: &[Header]) -> Result<()> {
    let cross = (compiler.program(), compiler.package);
    let mut needed: Vec<(String, &str)> =
        PROGRAMS.iter().map(|(name, package)| ((*name).to_owned(), *package)).collect();
    if !compiler.prefix.is_empty() {
        needed.push(cross);
    }
    let mut missing: Vec<(String, &str)> =
        needed.into_iter().filter(|(name, _)| find_program(name).is_none()).collect();
    let is_there = |header: &str| Path::new("/usr/include").join(header).is_file();
    let absent = headers.iter().filter(|(header, _)| !is_there(header));
    missing.extend(absent.map(|(header, package)| ((*header).to_owned(), *package)));
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    Err(TargetError::NoPrograms {
        programs: missing.iter().map(|(name, _)| name.clone()).collect(),
        purpose: format!("building {what}"),
        packages: packages.join(" "),
    })
}

fn version_of(compiler: &Compiler) -> Result<String> {
    let program = compiler.program();
    let output = Command::new(&program).arg("--version").env("LC_ALL", "C").output();
    let output = output.map_err(TargetError::file(program.as_ref()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// make in a source tree that stays as it is, with a folder for what it makes.
fn make_in(tree: &SourceTree, build: &Path, compiler: &Compiler, epoch_s: u64) -> Command {
    let mut command = Command::new("make");
    command.arg("-C").arg(&tree.folder).arg(format!("O={}", build.display()));
    command.args(compiler.arguments());
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    command.arg(format!("-j{jobs}")).env("SOURCE_DATE_EPOCH", epoch_s.to_string());
    command
}

/// What is made beside modules.
struct Made {
    image: &'static str,
    /// Targets of device trees, relative to the architecture's folder of them.
    trees: Vec<String>,
}

/// A build in its folder.
struct Work<'a> {
    tree: &'a SourceTree,
    compiler: &'a Compiler,
    folder: &'a Path,
    epoch_s: u64,
}

impl Work<'_> {
    fn build(&self) -> PathBuf {
        self.folder.join("build")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("build.log")
    }

    fn make(&self) -> Command {
        let mut command = make_in(self.tree, &self.build(), self.compiler, self.epoch_s);
        command.env("KBUILD_BUILD_TIMESTAMP", format!("@{}", self.epoch_s));
        command.env("KBUILD_BUILD_USER", "latlab").env("KBUILD_BUILD_HOST", "latlab");
        command.env("KBUILD_BUILD_VERSION", "1");
        command
    }

    /// Writes the configuration and lets the kernel complete it.
    fn configure(&self, config: &str, hooks: &mut dyn Hooks) -> Result<Config> {
        let build = self.build();
        fs::create_dir_all(&build).map_err(TargetError::file(&build))?;
        let path = build.join(".config");
        fs::write(&path, config).map_err(TargetError::file(&path))?;
        let _ = fs::remove_file(self.log());
        run(
            self.make().arg("olddefconfig"),
            "make olddefconfig",
            &Output::kept(&self.log()),
            hooks,
        )?;
        let text = fs::read_to_string(&path).map_err(TargetError::file(&path))?;
        Ok(Config::parse(&text))
    }

    /// Compiles kernel, modules and device trees; the release.
    fn compile(&self, made: &Made, hooks: &mut dyn Hooks) -> Result<String> {
        hooks.step(Step::Compiling, None, "");
        let output = Output::counted(&self.log());
        run(self.make().args([made.image, "modules"]), "make", &output, hooks)?;
        if !made.trees.is_empty() {
            run(self.make().args(&made.trees), "make (device trees)", &output, hooks)?;
        }
        let path = self.build().join("include/config/kernel.release");
        let release = fs::read_to_string(&path).map_err(TargetError::file(&path))?;
        Ok(release.trim().to_owned())
    }

    /// Those of the source that the plan's patterns mean, sorted.
    fn device_trees(&self, plan: &Plan<'_>) -> Result<Vec<String>> {
        if plan.device_trees.is_empty() {
            return Ok(Vec::new());
        }
        let root = self.tree.folder.join("arch").join(self.compiler.arch).join("boot/dts");
        let mut found = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(TargetError::file(&folder))?.flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let relative = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy();
                if let Some(stem) = relative.strip_suffix(".dts") {
                    let name = format!("{stem}.dtb");
                    if plan.device_trees.iter().any(|p| crate::kernels::matches(p, &name)) {
                        found.push(name);
                    }
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Makes `package/` as a package of Debian's kernel has it; the image's bytes.
    fn install(&self, made: &Made, release: &str, hooks: &mut dyn Hooks) -> Result<Vec<u8>> {
        let part = self.folder.join("package.part");
        let _ = fs::remove_dir_all(&part);
        let boot = part.join("boot");
        fs::create_dir_all(&boot).map_err(TargetError::file(&boot))?;
        let build = self.build();
        let arch = build.join("arch").join(self.compiler.arch).join("boot");
        let copy = |from: &Path, to: &Path| {
            fs::create_dir_all(to.parent().unwrap_or(to))
                .and_then(|()| fs::copy(from, to))
                .map(drop)
                .map_err(TargetError::file(from))
        };
        copy(&arch.join(made.image), &boot.join(format!("vmlinuz-{release}")))?;
        copy(&build.join(".config"), &boot.join(format!("config-{release}")))?;
        copy(&build.join("System.map"), &boot.join(format!("System.map-{release}")))?;
        let mut install = self.make();
        install.arg("modules_install").arg(format!("INSTALL_MOD_PATH={}", part.display()));
        install.arg("INSTALL_MOD_STRIP=1");
        run(&mut install, "make modules_install", &Output::kept(&self.log()), hooks)?;
        let modules = part.join("lib/modules").join(release);
        // They name folders of this machine.
        for link in ["build", "source"] {
            let _ = fs::remove_file(modules.join(link));
        }
        let trees = part.join("usr/lib").join(format!("linux-image-{release}"));
        for tree in &made.trees {
            copy(&arch.join("dts").join(tree), &trees.join(tree))?;
        }
        let package = self.folder.join("package");
        let _ = fs::remove_dir_all(&package);
        fs::rename(&part, &package).map_err(TargetError::file(&package))?;
        let path = package.join("boot").join(format!("vmlinuz-{release}"));
        fs::read(&path).map_err(TargetError::file(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_are_joined_and_files_are_fragments() {
        let both = Purpose::parse("tracers+no-smp").unwrap();
        assert_eq!(both.name, "tracers+no-smp");
        assert_eq!(both.wanted.value("CONFIG_SMP"), "n");
        assert_eq!(both.wanted.value("CONFIG_TIMERLAT_TRACER"), "y");
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("My kernel.config");
        fs::write(&own, "CONFIG_HZ_1000=y\n").unwrap();
        let purpose = Purpose::parse(own.to_str().unwrap()).unwrap();
        assert_eq!(purpose.name, "my-kernel");
        fs::write(&own, "HZ=1000\n").unwrap();
        let error = Purpose::parse(own.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("no line sets an option"), "{error}");
        let error = Purpose::parse("tracer").unwrap_err();
        assert_eq!(error.to_string(), "tracer: no purpose of a kernel");
        assert!(
            error
                .hint()
                .unwrap()
                .starts_with("tracers, latency, no-smp, no-power-saving, joined by +")
        );
    }

    #[test]
    fn the_series_of_debians_kernels() {
        assert_eq!(series_of("6.1.0-50-rt-armmp"), "6.1");
        assert_eq!(series_of("6.12.117+deb12-rt-amd64"), "6.12");
    }
}
