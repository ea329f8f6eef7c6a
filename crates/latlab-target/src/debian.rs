//! Packages of another architecture from Debian's archive, without root and
//! without touching the host's dpkg.
//!
//! apt does it, with a private state: the host's sources, keys and proxies, but
//! lists, cache and "installed packages" of our own. apt itself checks every
//! file against the signed index. A package is unpacked with `dpkg-deb -x`
//! under a temporary name and renamed, so that a folder that exists is whole.

mod source;

pub use source::Part;

use crate::cache::{Cache, digest};
use crate::{Arch, Result, TargetError};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

/// Lists of an incomplete update that are older are not taken unasked.
const OLDEST: Duration = Duration::from_secs(30 * 24 * 3600);
/// What apt's lists and their index take for one architecture, bytes.
const LISTS: u64 = 96 << 20;
/// With less left after something failed, that was why.
const REST: u64 = 8 << 20;

/// apt for one architecture, with its own state in the cache.
#[derive(Debug)]
pub struct Archive<'a> {
    cache: &'a Cache,
    arch: Arch,
    updated: bool,
    refuses_old_lists: bool,
    /// With source packages.
    sources: bool,
}

impl<'a> Archive<'a> {
    /// Asks nothing of the network yet.
    pub fn new(cache: &'a Cache, arch: Arch) -> Self {
        Self { cache, arch, updated: false, refuses_old_lists: false, sources: false }
    }

    /// With source packages, which the host's apt need not have: its sources are read with `deb-src` too.
    pub fn with_sources(cache: &'a Cache, arch: Arch) -> Self {
        Self { sources: true, ..Self::new(cache, arch) }
    }

    /// Of apt's private state.
    fn state(&self) -> String {
        format!("apt/{}{}", self.arch.debian(), if self.sources { "-source" } else { "" })
    }

    /// From now on the lists are taken as they are.
    pub fn stay_offline(&mut self) {
        self.updated = true;
    }

    /// Lists that cannot be updated and are older than 30 days are an error from now on, and not only told.
    pub fn refuse_old_lists(&mut self) {
        self.refuses_old_lists = true;
    }

    /// Where packages are unpacked; it need not be there.
    fn packages(&self) -> PathBuf {
        self.cache.root().join("packages").join(self.arch.debian())
    }

    /// The newest unpacked version of a package in the cache.
    pub fn cached(&self, package: &str) -> Option<PathBuf> {
        let folder = self.packages();
        let prefix = format!("{package}_");
        let mut found: Vec<(std::time::SystemTime, PathBuf)> = fs::read_dir(folder)
            .ok()?
            .flatten()
            .filter(|e| {
                e.file_name()
                    .to_str()
                    .is_some_and(|n| n.starts_with(&prefix) && !n.ends_with(".part"))
            })
            .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
            .collect();
        found.sort();
        found.pop().map(|(_, path)| path)
    }

    /// Without the network: the version that apt's lists name, where it is in the cache, or the newest one there.
    pub fn unpacked(&self, package: &str) -> Option<PathBuf> {
        let folder = self.packages();
        let listed = self.candidate(package).ok().map(|v| folder.join(unpacked_name(package, &v)));
        listed.filter(|f| f.is_dir()).or_else(|| self.cached(package))
    }

    /// Downloads and unpacks a package, unless its version is there already.
    pub fn fetch(&mut self, package: &str, say: &mut dyn FnMut(&str)) -> Result<PathBuf> {
        self.update(say)?;
        let candidate = self.candidate(package)?;
        self.fetch_version(package, &candidate, say)
    }

    /// The same for a version that apt's lists have.
    pub fn fetch_version(
        &mut self,
        package: &str,
        version: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<PathBuf> {
        self.update(say)?;
        let folder = self.cache.folder(&format!("packages/{}", self.arch.debian()))?;
        let target = folder.join(unpacked_name(package, version));
        if target.is_dir() {
            return Ok(target);
        }
        say(&format!("fetching {package} {version} for {}", self.arch.debian()));
        let download = folder.join(format!("{package}.download"));
        let _ = fs::remove_dir_all(&download);
        fs::create_dir_all(&download).map_err(TargetError::file(&download))?;
        let unpacked = self.download_and_unpack(package, version, &download, &target);
        let _ = fs::remove_dir_all(&download);
        unpacked.map(|()| target)
    }

    /// Of these names, the first that can be fetched. The security archive and
    /// the main one are sometimes out of step, and an older kernel will do.
    pub fn fetch_first(
        &mut self,
        packages: &[String],
        say: &mut dyn FnMut(&str),
    ) -> Result<PathBuf> {
        let mut last = None;
        for package in packages {
            match self.fetch(package, say) {
                Ok(path) => return Ok(path),
                Err(error @ TargetError::Fetch { .. }) => {
                    say(&format!("{error}"));
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            self.cannot("(none)", "there is no package of that kind in apt's lists")
        }))
    }

    /// What a package depends on directly: the first alternative of each.
    pub fn dependencies(
        &mut self,
        package: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>> {
        self.update(say)?;
        let output = self.run("apt-cache", &["depends", "--important", package])?;
        Ok(String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|l| l.trim().trim_start_matches('|').strip_prefix("Depends: "))
            .map(str::to_owned)
            .collect())
    }

    /// Names of packages that begin and end like this, newest version first.
    pub fn matching(
        &mut self,
        prefix: &str,
        suffix: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>> {
        self.update(say)?;
        let output = self.run("apt-cache", &["pkgnames", prefix])?;
        let mut names: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter(|n| {
                n.strip_suffix(suffix).and_then(|n| n.strip_prefix(prefix)).is_some_and(|v| {
                    // `1.0-37`, or `117+deb12` of a kernel for another release of Debian's.
                    let own = v.split_once("+deb").map_or(v, |(own, _)| own);
                    v.starts_with(|c: char| c.is_ascii_digit())
                        && own.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '-')
                })
            })
            .map(str::to_owned)
            .collect();
        names.sort_by_key(|n| std::cmp::Reverse(version_key(n)));
        Ok(names)
    }

    fn download_and_unpack(
        &self,
        package: &str,
        version: &str,
        folder: &Path,
        target: &Path,
    ) -> Result<()> {
        let mut command = self.command("apt-get")?;
        command.current_dir(folder).args(["download", &format!("{package}={version}")]);
        let output = spawn(&mut command, "apt-get", "apt")?;
        if !output.status.success() {
            self.room_for(REST, "package")?;
            return Err(self.cannot(package, &complaint(&output)));
        }
        let deb = fs::read_dir(folder)
            .map_err(TargetError::file(folder))?
            .flatten()
            .map(|e| e.path())
            .find(|p| p.extension().is_some_and(|e| e == "deb"))
            .ok_or_else(|| self.cannot(package, "apt downloaded nothing"))?;
        let part = target.with_extension("part");
        let _ = fs::remove_dir_all(&part);
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("-x").arg(&deb).arg(&part);
        let output = spawn(&mut unpack, "dpkg-deb", "dpkg")?;
        if !output.status.success() {
            let full = self.room_for(REST, "package");
            let _ = fs::remove_dir_all(&part);
            full?;
            return Err(TargetError::Program {
                program: "dpkg-deb".into(),
                message: complaint(&output),
                hint: "latlab vm clean and another try fetch it anew".into(),
            });
        }
        fs::rename(&part, target).map_err(TargetError::file(target))
    }

    fn candidate(&self, package: &str) -> Result<String> {
        let output = self.run("apt-cache", &["policy", package])?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().find_map(|l| l.trim().strip_prefix("Candidate: "));
        match version {
            Some(v) if v != "(none)" => Ok(v.to_owned()),
            _ => Err(self.cannot(package, "apt's sources do not have it")),
        }
    }

    /// Whether the disk of the cache has so many bytes left.
    fn room_for(&self, bytes: u64, what: &str) -> Result<()> {
        let root = self.cache.root();
        // A file system that does not say how much is left is taken to have room.
        let Ok(disk) = rustix::fs::statvfs(root) else { return Ok(()) };
        let left = disk.f_bavail.saturating_mul(disk.f_frsize);
        if left >= bytes {
            return Ok(());
        }
        let mb = |bytes: u64| bytes.div_ceil(1 << 20);
        let words = format!("{} MiB are left, Debian's {what} take {} MiB", mb(left), mb(bytes));
        let reason = std::io::Error::new(std::io::ErrorKind::StorageFull, words);
        Err(TargetError::File { path: root.to_owned(), reason })
    }

    /// Reads the indexes, once in the life of this object. Where one is not read (the network, a
    /// signature, a date) apt itself goes on with that of the last time without a word: here the age
    /// of the lists is told, and after [`Self::refuse_old_lists`] a great age is an error.
    ///
    /// # Errors
    /// When apt cannot be run or there are no lists.
    pub fn update(&mut self, say: &mut dyn FnMut(&str)) -> Result<()> {
        if self.updated {
            return Ok(());
        }
        // apt says nothing of a disk that is full, and tries again for a long time.
        self.room_for(LISTS, "package lists")?;
        if self.sources {
            self.write_sources()?;
        }
        say(&format!("reading Debian's package lists for {}", self.arch.debian()));
        let output =
            self.run("apt-get", &["update", "-qq", "-o", "APT::Update::Error-Mode=any"])?;
        if !is_complete(&output) {
            let age = self.lists_age();
            let error = TargetError::StaleLists {
                arch: self.arch.debian().into(),
                message: complaint(&output),
                age_days: age.map(|age| age.as_secs() / (24 * 3600)),
            };
            if age.is_none_or(|age| self.refuses_old_lists && age > OLDEST) {
                return Err(error);
            }
            say(&error.to_string());
        }
        self.updated = true;
        Ok(())
    }

    fn lists(&self) -> PathBuf {
        self.cache.root().join(self.state()).join("state/lists")
    }

    /// Time since the newest of the lists in the cache was made by its archive; `None` without lists.
    pub fn lists_age(&self) -> Option<Duration> {
        let packages = fs::read_dir(self.lists()).ok()?.flatten();
        let packages = packages.filter(|e| e.file_name().to_string_lossy().contains("_Packages"));
        // apt gives a list the time at which the archive last changed it.
        let newest = packages.filter_map(|e| e.metadata().ok()?.modified().ok()).max()?;
        Some(SystemTime::now().duration_since(newest).unwrap_or_default())
    }

    /// The signed files that name the lists, each with its `Date:`, by name.
    pub fn list_dates(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.lists()).into_iter().flatten().flatten();
        let mut dates: Vec<(String, String)> = entries
            .filter_map(|e| {
                let name = e.file_name().into_string().ok()?;
                let release = name.ends_with("_InRelease") || name.ends_with("_Release");
                let text = release.then(|| fs::read_to_string(e.path()).ok())??;
                let date = text.lines().find_map(|l| l.strip_prefix("Date:"))?.trim().to_owned();
                Some((name, date))
            })
            .collect();
        dates.sort();
        dates
    }

    /// What `apt-get` prints; its first error line where it fails.
    ///
    /// # Errors
    /// When apt cannot be run or fails.
    pub fn get(&self, args: &[&str]) -> Result<String> {
        let output = self.run("apt-get", args)?;
        if !output.status.success() {
            return Err(self.cannot("(base system)", &complaint(&output)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A folder of apt's private state, created where it is missing.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        self.cache.folder(&format!("{}/{name}", self.state()))
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<Output> {
        spawn(self.command(program)?.args(args), program, "apt")
    }

    fn command(&self, program: &str) -> Result<Command> {
        let arch = self.arch.debian();
        let state = self.state();
        let base = self.cache.folder(&state)?;
        for folder in ["state/lists/partial", "cache/archives/partial"] {
            self.cache.folder(&format!("{state}/{folder}"))?;
        }
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
        for option in [
            format!("APT::Architecture={arch}"),
            format!("APT::Architectures={arch}"),
            format!("Dir::State={}", base.join("state").display()),
            format!("Dir::Cache={}", base.join("cache").display()),
            "Dir::State::status=/dev/null".into(),
            "Acquire::Languages=none".into(),
        ] {
            command.arg("-o").arg(option);
        }
        if self.sources {
            let parts = format!("Dir::Etc::sourceparts={}", base.join("sources").display());
            command.args(["-o", "Dir::Etc::sourcelist=/dev/null", "-o", &parts]);
        }
        // As root, apt's network code runs as _apt, unless that user cannot get to the cache.
        if rustix::process::geteuid().is_root() && !others_can_enter(&base) {
            command.args(["-o", "APT::Sandbox::User=root"]);
        }
        Ok(command)
    }

    /// The error for a package that apt does not deliver.
    pub fn cannot(&self, package: &str, message: &str) -> TargetError {
        TargetError::Fetch {
            package: package.into(),
            arch: self.arch.debian().into(),
            message: message.into(),
        }
    }
}

/// Whether a user who owns nothing of it can get to a folder: it and each above it let others pass.
fn others_can_enter(folder: &Path) -> bool {
    let Ok(real) = folder.canonicalize() else { return false };
    real.ancestors().all(|f| fs::metadata(f).is_ok_and(|meta| meta.mode() & 0o001 != 0))
}

/// Whether `apt-get update` has read every index. Without `APT::Update::Error-Mode` (apt before
/// 2.1.15) it ends well after warnings.
fn is_complete(output: &Output) -> bool {
    let text = String::from_utf8_lossy(&output.stderr);
    let failures = ["Failed to fetch", "Some index files failed to download", "signature verif"];
    output.status.success() && !failures.iter().any(|failure| text.contains(failure))
}

/// Folder of an unpacked package.
fn unpacked_name(package: &str, version: &str) -> String {
    format!("{package}_{}", version.replace(':', "%3a"))
}

/// Numbers of a package's name, for sorting by kernel version.
fn version_key(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

/// The folder of a package of the user's own, unpacked once into the cache, under its checksum. `hint` is for a
/// file that is no package.
pub fn unpack_own(cache: &Cache, deb: &Path, hint: &str) -> Result<PathBuf> {
    let bytes = fs::read(deb).map_err(TargetError::file(deb))?;
    let key = digest([bytes.as_slice()]);
    let _lock = cache.lock("own-kernels")?;
    let folder = cache.folder("own-kernels")?.join(&key[..32]);
    if folder.is_dir() {
        return Ok(folder);
    }
    let part = folder.with_extension("part");
    let _ = fs::remove_dir_all(&part);
    let output = spawn(Command::new("dpkg-deb").arg("-x").arg(deb).arg(&part), "dpkg-deb", "dpkg")?;
    if !output.status.success() {
        let _ = fs::remove_dir_all(&part);
        return Err(TargetError::Content {
            path: deb.to_path_buf(),
            reason: format!("dpkg-deb cannot unpack it: {}", complaint(&output)),
            hint: hint.into(),
        });
    }
    fs::rename(&part, &folder).map_err(TargetError::file(&folder))?;
    Ok(folder)
}

fn spawn(command: &mut Command, program: &str, package: &str) -> Result<Output> {
    command.output().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => TargetError::NoProgram {
            program: program.into(),
            purpose: "fetching kernels".into(),
            package: package.into(),
        },
        _ => TargetError::File { path: program.into(), reason: source },
    })
}

/// The first error line of apt's or dpkg's output.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text
        .lines()
        .find(|l| l.starts_with("E: ") || l.contains("Hash Sum mismatch"))
        .or_else(|| text.lines().find(|l| l.starts_with("W: Failed to fetch")))
        .or_else(|| text.lines().rfind(|l| !l.trim().is_empty()));
    line.unwrap_or("it gave no reason")
        .trim_start_matches("E: ")
        .trim_start_matches("W: ")
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_sort_by_number_not_by_letter() {
        let mut names = [
            "linux-image-6.1.0-9-rt-armmp",
            "linux-image-6.1.0-50-rt-armmp",
            "linux-image-6.1.0-49-rt-armmp",
        ];
        names.sort_by_key(|n| std::cmp::Reverse(version_key(n)));
        assert_eq!(names[0], "linux-image-6.1.0-50-rt-armmp");
        assert_eq!(names[2], "linux-image-6.1.0-9-rt-armmp");
    }

    #[test]
    fn an_update_that_was_not_complete_is_none() {
        use std::os::unix::process::ExitStatusExt;
        let output = |code: i32, stderr: &str| Output {
            status: std::process::ExitStatus::from_raw(code << 8),
            stdout: Vec::new(),
            stderr: stderr.into(),
        };
        assert!(is_complete(&output(0, "")));
        assert!(is_complete(&output(0, "N: Skipping acquire of configured file 'x'")));
        assert!(!is_complete(&output(100, "E: x")));
        for text in [
            "W: Failed to fetch http://x/InRelease  Could not connect",
            "W: An error occurred during the signature verification. The repository is not updated",
            "W: Some index files failed to download. They have been ignored, or old ones used instead.",
        ] {
            assert!(!is_complete(&output(0, text)), "{text}");
        }
    }

    #[test]
    fn lists_tell_their_age_and_date() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let archive = Archive::new(&cache, Arch::Armv7);
        assert_eq!((archive.lists_age(), archive.list_dates()), (None, vec![]));
        let lists = cache.folder("apt/armhf/state/lists").unwrap();
        let packages =
            fs::File::create(lists.join("deb_dists_x_main_binary-armhf_Packages")).unwrap();
        let then = SystemTime::now() - Duration::from_secs(10 * 24 * 3600);
        packages.set_times(fs::FileTimes::new().set_modified(then)).unwrap();
        let release = "-----BEGIN PGP SIGNED MESSAGE-----\n\nOrigin: Debian\nDate: Sat, 14 Feb 2026 10:19:07 UTC\n";
        fs::write(lists.join("deb_dists_x_InRelease"), release).unwrap();
        assert_eq!(archive.lists_age().unwrap().as_secs() / (24 * 3600), 10);
        let date = "Sat, 14 Feb 2026 10:19:07 UTC".to_owned();
        assert_eq!(archive.list_dates(), [("deb_dists_x_InRelease".to_owned(), date)]);
    }

    #[test]
    fn a_folder_that_others_cannot_enter_is_noticed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let folder = dir.path().join("apt");
        fs::create_dir(&folder).unwrap();
        let mode =
            |bits| fs::set_permissions(dir.path(), fs::Permissions::from_mode(bits)).unwrap();
        mode(0o700);
        assert!(!others_can_enter(&folder));
        mode(0o755);
        assert!(others_can_enter(&folder));
    }

    #[test]
    fn the_newest_whole_package_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let folder = cache.folder("packages/armhf").unwrap();
        for name in ["busybox-static_1", "busybox-static_2.part", "busybox_3"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        let archive = Archive::new(&cache, Arch::Armv7);
        assert_eq!(archive.cached("busybox-static"), Some(folder.join("busybox-static_1")));
        assert_eq!(archive.cached("linux-image"), None);
    }
}
