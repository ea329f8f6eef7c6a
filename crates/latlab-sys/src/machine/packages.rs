//! Versions of the packages that decide latencies, from the package database that is there.
//!
//! Read as text, without a program: dpkg's and opkg's `status` (deb-control(5)) and apk's `installed` (one
//! letter a field). RPM's database is binary and is not read: there, the kernel's release has the version of
//! its package.
//!
//! Kernels that are installed and do not run decide nothing: of all kernels, only the package of the running
//! one is kept, as `kernel`, so that its name is the same from build to build.

use super::software::plain;
use crate::files::Root;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// More than the database of any system; what is beyond it is not read.
const BYTES_MAX: u64 = 32 << 20;
/// Firmware and boot loaders that are kept, at most; some systems have a package for each device.
const FIRMWARE_MAX: usize = 40;
/// Longest name that is kept, in bytes.
const NAME_BYTES: usize = 100;
/// The name of the running kernel's package.
const KERNEL: &str = "kernel";

/// dpkg; opkg of Yocto and of OpenWrt; apk of Alpine and OpenWrt, and its place since version 3.
const PLACES: [&str; 5] = [
    "var/lib/dpkg/status",
    "var/lib/opkg/status",
    "usr/lib/opkg/status",
    "lib/apk/db/installed",
    "usr/lib/apk/db/installed",
];

/// The C library and init, what sets priorities and affinities or the clock's speed, and microcode.
const NAMES: [&str; 22] = [
    "libc6",
    "musl",
    "libc",
    "systemd",
    "busybox",
    "openrc",
    "procd",
    "rt-tests",
    "rtirq-init",
    "rtkit",
    "irqbalance",
    "tuned",
    "tlp",
    "thermald",
    "power-profiles-daemon",
    "cpufrequtils",
    "linux-cpupower",
    "intel-microcode",
    "amd64-microcode",
    "intel-ucode",
    "amd-ucode",
    "opensbi",
];
/// Firmware of devices, and boot loaders.
const FIRMWARE: [&str; 7] = [
    "firmware-",
    "linux-firmware",
    "raspi-firmware",
    "raspberrypi-bootloader",
    "rpi-eeprom",
    "u-boot",
    "arm-trusted-firmware",
];

/// Ends of names of packages that no firmware is in.
const TOOLS: [&str; 3] = ["-tools", "-menu", "-qemu"];

/// Version of each package that is installed, by name; empty where no database is readable.
pub fn packages(root: &Root, release: &str) -> BTreeMap<String, String> {
    let file = PLACES.iter().find_map(|place| File::open(root.path(place)).ok());
    file.map(|f| read(BufReader::new(f.take(BYTES_MAX)), release)).unwrap_or_default()
}

/// A package of the database while its lines are read.
#[derive(Default)]
struct Package {
    name: String,
    version: String,
    /// Its files are not there, or not all.
    gone: bool,
}

/// What was found so far.
#[derive(Default)]
struct Found {
    all: BTreeMap<String, String>,
    firmware: usize,
    /// How well the kernel's package fits the running kernel.
    fits: usize,
}

fn read(mut database: impl BufRead, release: &str) -> BTreeMap<String, String> {
    let mut found = Found::default();
    let (mut package, mut line) = (Package::default(), Vec::new());
    loop {
        line.clear();
        // What was read before an error is as good as without it.
        let n = database.read_until(b'\n', &mut line).unwrap_or(0);
        let text = line.trim_ascii_end();
        if text.is_empty() {
            found.keep(&package, release);
            if n == 0 {
                return found.all;
            }
            package = Package::default();
        }
        let value = |key: &[u8]| {
            let value = text.strip_prefix(key)?.trim_ascii();
            plain(&String::from_utf8_lossy(value))
        };
        if let Some(v) = value(b"Package:").or_else(|| value(b"P:")) {
            package.name = v;
        } else if let Some(v) = value(b"Version:").or_else(|| value(b"V:")) {
            package.version = v;
        } else if let Some(v) = value(b"Status:") {
            let state = v.rsplit(' ').next();
            let not = ["config-files", "not-installed", "half-installed"];
            package.gone = state.is_some_and(|s| not.contains(&s));
        }
    }
}

impl Found {
    fn keep(&mut self, package: &Package, release: &str) {
        let Package { name, version, gone } = package;
        if *gone || name.len() > NAME_BYTES || !name.is_ascii() || version.is_empty() {
            return;
        }
        let name = name.as_str();
        if let Some(fits) = kernel(name, release) {
            if fits > self.fits {
                self.fits = fits;
                self.all.insert(KERNEL.to_owned(), [name, " ", version].concat());
            }
            return;
        }
        let firmware = FIRMWARE.iter().any(|b| name.starts_with(b))
            && !TOOLS.iter().any(|t| name.ends_with(t));
        if NAMES.contains(&name) || firmware && self.firmware < FIRMWARE_MAX {
            self.firmware += usize::from(firmware);
            self.all.insert(name.to_owned(), version.clone());
        }
    }
}

/// How well a package fits the running kernel, by how much of its release the name has; `None` for another
/// kernel and for what is no kernel.
///
/// `linux-image-6.1.0-28-amd64` (Debian), `kernel-image-zimage-6.6.21-yocto`, `linux-image-current-sunxi`
/// (Armbian, of 6.6.31-current-sunxi), `linux-lts` (Alpine, of 6.6.58-0-lts); one that is the only one:
/// `kernel` (OpenWrt), `raspberrypi-kernel`.
fn kernel(name: &str, release: &str) -> Option<usize> {
    if name == KERNEL || name == "raspberrypi-kernel" {
        return Some(1);
    }
    let full = ["linux-image-", "kernel-"].iter().any(|p| name.starts_with(p));
    if full && !release.is_empty() && name.ends_with(release) {
        return Some(2 + release.len());
    }
    let flavour = name.strip_prefix("linux-image-").or_else(|| name.strip_prefix("linux-"))?;
    let of = release.strip_suffix(flavour).is_some_and(|r| r.ends_with('-'));
    of.then_some(1 + flavour.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn of(place: &str, text: &str, release: &str) -> String {
        let t = tempfile::tempdir().unwrap();
        let path = t.path().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        let found = packages(&Root::at(t.path()), release);
        found.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn dpkg_has_what_is_installed_and_the_kernel_that_runs() {
        let package = |name: &str, status: &str, version: &str| {
            format!(
                "Package: {name}\nStatus: {status}\nArchitecture: arm64\nVersion: {version}\n\
                 Depends: libc6 (>= 2.34)\nDescription: x\n Version: no field\n .\n\n"
            )
        };
        let installed = "install ok installed";
        let text = [
            package("intel-microcode", "deinstall ok config-files", "3.20240813.1"),
            package("irqbalance", "hold ok installed", "1.9.2-1"),
            package("libc6", installed, "2.36-9+deb12u8"),
            package("libc6-dev", installed, "2.36-9+deb12u8"),
            package("linux-image-6.1.0-27-rt-arm64", installed, "6.1.115-1"),
            package("linux-image-6.1.0-28-arm64", installed, "6.1.119-1"),
            package("linux-image-6.1.0-28-rt-arm64", installed, "6.1.119-1"),
            package("linux-image-rt-arm64", installed, "6.1.119-1+meta"),
            package("u-boot-rpi", installed, "2023.01+dfsg-2"),
            package("u-boot-tools", installed, "2023.01+dfsg-2"),
            package("systemd", "install ok triggers-pending", "252.31-1~deb12u1"),
            package("vim", installed, "2:9.0.1378-2"),
        ];
        // The last paragraph has no line after it.
        let found = of("var/lib/dpkg/status", text.concat().trim_end(), "6.1.0-28-rt-arm64");
        assert_eq!(
            found,
            "irqbalance=1.9.2-1, kernel=linux-image-6.1.0-28-rt-arm64 6.1.119-1, \
             libc6=2.36-9+deb12u8, systemd=252.31-1~deb12u1, u-boot-rpi=2023.01+dfsg-2"
        );
        // A kernel of one's own that no package has.
        let found = of("var/lib/dpkg/status", &text.concat(), "6.9.0-mine");
        assert!(!found.contains("kernel="), "{found}");
    }

    #[test]
    fn apk_and_opkg_have_theirs() {
        let apk = "C:Q1x=\nP:busybox\nV:1.36.1-r29\nA:x86_64\nF:bin\nR:busybox\n\n\
                   P:linux-lts\nV:6.6.58-r0\n\nP:linux-virt\nV:6.6.57-r0\n\n\
                   P:musl\nV:1.2.5-r0\n\nP:musl-utils\nV:1.2.5-r0\n\n";
        let expected = "busybox=1.36.1-r29, kernel=linux-virt 6.6.57-r0, musl=1.2.5-r0";
        assert_eq!(of("lib/apk/db/installed", apk, "6.6.57-0-virt"), expected);
        assert_eq!(of("usr/lib/apk/db/installed", apk, "6.6.57-0-virt"), expected);
        let yocto = "Package: kernel-image-zimage-6.6.21-yocto\nVersion: 6.6.21+git0-r0\n\
                     Status: install ok installed\n\nPackage: rt-tests\nVersion: 2.6-r0\n\
                     Status: install user installed\n\nPackage: tuned\nVersion: 1\n\
                     Status: unknown ok not-installed\n";
        let expected = "kernel=kernel-image-zimage-6.6.21-yocto 6.6.21+git0-r0, rt-tests=2.6-r0";
        assert_eq!(of("var/lib/opkg/status", yocto, "6.6.21-yocto"), expected);
        let openwrt = "Package: kernel\nVersion: 5.15.150-1-ab\nStatus: install user installed\n\n";
        assert_eq!(of("usr/lib/opkg/status", openwrt, "5.15.150"), "kernel=kernel 5.15.150-1-ab");
        let armbian = "Package: linux-image-current-sunxi\nVersion: 24.5.1\n";
        assert_eq!(
            of("var/lib/dpkg/status", armbian, "6.6.31-current-sunxi"),
            "kernel=linux-image-current-sunxi 24.5.1"
        );
    }

    #[test]
    fn a_damaged_database_is_read_as_far_as_it_makes_sense() {
        assert_eq!(of("var/lib/dpkg/status", "", "6"), "");
        let long = "x".repeat(1 << 20);
        let text = format!(
            "Package: firmware-{long}\nVersion: 1\n\nPackage: libc6\n\n\
             Package: systemd\nVersion: 2\u{1b}[31m\n\nVersion: 5\n\n{long}"
        );
        assert_eq!(of("var/lib/dpkg/status", &text, ""), "systemd=2[31m");
        let many: String = (0..500)
            .map(|i| format!("P:linux-firmware-{i:03}\nV:1\n\n"))
            .chain(["P:musl\nV:1.2\n".to_owned()])
            .collect();
        let found = of("lib/apk/db/installed", &many, "6.6.58-0-lts");
        assert_eq!(found.matches('=').count(), FIRMWARE_MAX + 1);
        assert!(found.ends_with("musl=1.2"), "{found}");
        assert!(packages(&Root::at("/nonexistent"), "6").is_empty());
    }
}
