//! What the virtual machines need on this host, and which of it is missing.

use super::catalog::Kind;
use super::host::Host;
use super::kernel::Kernel;
use super::qemu;
use crate::search::find_program;
use crate::{Arch, Result, TargetError, board, modules};
use std::path::PathBuf;

/// A program, board build or kernel that machines need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Its name.
    pub what: String,
    /// Where it is, or its release; `None` if it is missing.
    pub found: Option<String>,
    /// How it is had.
    pub source: Source,
}

/// How something that is missing is had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A package of Debian.
    Package(&'static str),
    /// A build for boards of this architecture.
    Board(Arch),
    /// The kernel of a machine of this name, which is fetched when it is first started.
    Kernel(&'static str),
}

/// What these machines need, in the order in which it is used, each once.
pub fn all(host: &Host<'_>, kinds: &[&'static Kind]) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    let mut add = |need: Need| {
        if !needs.iter().any(|n| n.what == need.what) {
            needs.push(need);
        }
    };
    let path = |path: PathBuf| path.display().to_string();
    for kind in kinds {
        let (name, package) = qemu::program(kind.arch);
        let found = find_program(name).map(path);
        add(Need { what: name.into(), found, source: Source::Package(package) });
    }
    let found = modules::depmod_path().map(path);
    add(Need { what: "depmod".into(), found, source: Source::Package("kmod") });
    for (name, package) in [("apt-get", "apt"), ("dpkg-deb", "dpkg")] {
        let found = find_program(name).map(path);
        add(Need { what: name.into(), found, source: Source::Package(package) });
    }
    for kind in kinds {
        let build = board::find(kind.arch, host.boards.as_deref(), &host.program, &host.cwd);
        let what = format!("latlab for {}", kind.arch.name());
        let source = Source::Board(kind.arch);
        add(Need { what, found: build.ok().map(path), source });
    }
    for kind in kinds {
        let found = Kernel::cached(host.cache, kind).map(|kernel| kernel.release);
        let what = format!("kernel of {}", kind.name);
        add(Need { what, found, source: Source::Kernel(kind.name) });
    }
    needs
}

/// The commands that install, build and fetch all that is missing: one line each at the most.
pub fn remedies(needs: &[Need]) -> Vec<String> {
    let missing = || needs.iter().filter(|n| n.found.is_none());
    let mut packages: Vec<&str> = Vec::new();
    let (mut boards, mut kernels) = (String::new(), String::new());
    for need in missing() {
        match need.source {
            Source::Package(name) if packages.contains(&name) => {}
            Source::Package(name) => packages.push(name),
            Source::Board(arch) => boards += &format!(" {}", arch.name()),
            Source::Kernel(name) => kernels += &format!(" {name}"),
        }
    }
    let line = |begin: &str, end: &str| (!end.is_empty()).then(|| format!("{begin}{end}"));
    let packages: String = packages.iter().map(|name| format!(" {name}")).collect();
    let lines = [
        line("apt-get install", &packages),
        line("scripts/boards", &boards),
        line("latlab vm fetch", &kernels),
    ];
    lines.into_iter().flatten().collect()
}

/// Checks that a machine can be started: names everything that is missing at once, except for a kernel
/// and a board build that can be had without the user.
///
/// # Errors
/// [`TargetError::Missing`] with all of it.
pub fn check(host: &Host<'_>, kind: &'static Kind, own_kernel: bool) -> Result<()> {
    let needs = all(host, &[kind]);
    let is_kernel = |n: &Need| matches!(n.source, Source::Kernel(_));
    let ready = own_kernel || needs.iter().any(|n| is_kernel(n) && n.found.is_some());
    // Where the kernel is there, nothing is fetched, and its modules were looked at.
    let unneeded = |n: &Need| ready && ["apt-get", "dpkg-deb", "depmod"].contains(&n.what.as_str());
    let is_made = |n: &Need| match n.source {
        Source::Board(_) => board::can_build(host),
        Source::Kernel(_) => true,
        Source::Package(_) => unneeded(n),
    };
    let missing: Vec<Need> =
        needs.into_iter().filter(|n| n.found.is_none() && !is_made(n)).collect();
    match &missing[..] {
        [] => Ok(()),
        // It names the places that were searched.
        [Need { source: Source::Board(arch), .. }] => {
            board::find(*arch, host.boards.as_deref(), &host.program, &host.cwd).map(drop)
        }
        several => Err(TargetError::Missing {
            vm: kind.name.into(),
            names: several.iter().map(|n| n.what.clone()).collect(),
            remedies: remedies(several),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(what: &str, found: bool, source: Source) -> Need {
        Need { what: what.into(), found: found.then(|| "/usr/bin/x".into()), source }
    }

    #[test]
    fn one_line_installs_builds_and_fetches_all() {
        let needs = [
            need("qemu-system-arm", false, Source::Package("qemu-system-arm")),
            need("qemu-system-aarch64", false, Source::Package("qemu-system-arm")),
            need("qemu-system-x86_64", true, Source::Package("qemu-system-x86")),
            need("depmod", false, Source::Package("kmod")),
            need("latlab for armv7", false, Source::Board(Arch::Armv7)),
            need("latlab for aarch64", false, Source::Board(Arch::Aarch64)),
            need("kernel of armv7-rt", true, Source::Kernel("armv7-rt")),
            need("kernel of x86_64-rt", false, Source::Kernel("x86_64-rt")),
        ];
        let lines = [
            "apt-get install qemu-system-arm kmod",
            "scripts/boards armv7 aarch64",
            "latlab vm fetch x86_64-rt",
        ];
        assert_eq!(remedies(&needs), lines);
        assert!(remedies(&needs[2..3]).is_empty());
    }
}
