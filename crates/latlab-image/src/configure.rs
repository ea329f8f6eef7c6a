//! Configures unpacked packages in a virtual machine of the board's own architecture.
//!
//! Debian's packages finish their installation with scripts for the machine
//! that they are installed on. Foreign scripts need either the host's
//! kernel to be told how to run them (binfmt_misc, which takes root and is
//! everybody's) or a machine that runs them as its own. Here it is the latter: QEMU,
//! the board's kernel, a disk with the unpacked packages, `dpkg --configure -a`
//! in it, and what has changed comes back as a tar archive on a second disk.
//! Nothing of the host is touched and nobody has to be root.

use super::ext4;
use super::tree::{Kind, Tree};
use super::{Hooks, Step};
use latlab_target::cache::Scratch;
use latlab_target::cpio::Archive;
use latlab_target::vm::find_program;
use latlab_target::vm::kernel::Kernel;
use latlab_target::{Arch, Result, TargetError};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The longest that it may take; it takes two to five minutes.
const LIMIT: Duration = Duration::from_secs(30 * 60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const TAIL_LINES: usize = 15;
const DONE: &str = "latlab-image: done";
const FAILED: &str = "latlab-image: failed: ";
/// Nobody attacks this machine, and its defences cost the scripts, which start thousands of short programs, much time.
const COMMAND_LINE: &str = "console=ttyAMA0 quiet panic=-1 rdinit=/init mitigations=off init_on_alloc=0 \
    hardened_usercopy=off lsm=capability audit=0";
/// Between the newest file of a package and the machine's clock, so that what has changed can be told.
const DAY_S: u64 = 86_400;

/// What runs in the machine as its first process. CLOCK and MARK are filled in.
const SCRIPT: &str = r#"#!/bin/sh
export PATH=/bin
/bin/busybox mkdir -p /proc /sys /dev /mnt
/bin/busybox --install -s /bin
end() { echo "$1"; sync; poweroff -f; sleep 60; }
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module" 2>/dev/null; done < /modules/order
date -s @CLOCK >/dev/null
for disk in /sys/block/vd*; do
    [ "$(cat "$disk/serial")" = root ] && root=/dev/${disk##*/}
    [ "$(cat "$disk/serial")" = result ] && result=/dev/${disk##*/}
done
mount -t ext4 -o noatime,nobarrier "$root" /mnt || end "latlab-image: failed: mounting the packages"
for fs in proc sys dev run tmp; do mkdir -p /mnt/$fs; done
mount -t proc proc /mnt/proc
mount -t sysfs sys /mnt/sys
mount --bind /dev /mnt/dev
mount -t tmpfs run /mnt/run
mount -t tmpfs tmp /mnt/tmp
exec </dev/null
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true LC_ALL=C HOME=/root
export SYSTEMD_OFFLINE=1 DPKG_MAINTSCRIPT_NAME=preinst DPKG_ROOT= DPKG_ADMINDIR=/var/lib/dpkg
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
info=/var/lib/dpkg/info
# No service is to be started here, and no host key made that every board would share.
printf '#!/bin/sh\nexit 101\n' > /mnt/usr/sbin/policy-rc.d
chmod 755 /mnt/usr/sbin/policy-rc.d
mkdir -p /mnt/etc/ssh
for kind in rsa ecdsa ed25519; do : > /mnt/etc/ssh/ssh_host_${kind}_key; done
sh_in() { chroot /mnt /usr/bin/env "$@"; }
# The users and groups that every other package counts on.
sh_in DPKG_MAINTSCRIPT_PACKAGE=base-passwd $info/base-passwd.preinst install ||
    end "latlab-image: failed: base-passwd"
# A shell, a C library and awk, which the scripts of the others use, whatever the order.
chroot /mnt /usr/bin/dpkg --force-depends --force-unsafe-io --configure base-passwd base-files libc6 dash mawk ||
    end "latlab-image: failed: dpkg --configure base-files"
for script in /mnt$info/*.preinst; do
    script=${script#/mnt}
    package=${script##*/}
    package=${package%.preinst}
    [ "$package" = base-passwd ] && continue
    sh_in DPKG_MAINTSCRIPT_PACKAGE="${package%%:*}" DPKG_MAINTSCRIPT_ARCH=ARCH "$script" install ||
        end "latlab-image: failed: the preinst of $package"
done
chroot /mnt /usr/bin/dpkg --force-unsafe-io --configure -a || end "latlab-image: failed: dpkg --configure -a"
[ -z "$(chroot /mnt /usr/bin/dpkg --audit)" ] || end "latlab-image: failed: dpkg --audit"
cd /mnt
chroot /mnt /bin/sh -c 'find . -xdev -mindepth 1 > run/latlab-paths
    find . -xdev -mindepth 1 -newerct @MARK > run/latlab-changed
    tar --no-recursion --numeric-owner -cf - run/latlab-paths -T run/latlab-changed' > "$result" ||
    end "latlab-image: failed: tar"
cd /
umount /mnt/tmp /mnt/run /mnt/dev /mnt/sys /mnt/proc
umount /mnt
end "latlab-image: done"
"#;

/// The machine's processor, memory and network of disks are the same everywhere; the kernel is the board's.
pub fn configure(
    tree: Tree,
    arch: Arch,
    kernel: &Kernel,
    packages: usize,
    epoch_s: u64,
    scratch: &Scratch,
    hooks: &mut dyn Hooks,
) -> Result<Tree> {
    let at = |name: &str| scratch.path().join(name);
    let (disk, result) = (at("root.img"), at("result.tar"));
    hooks.step(Step::Unpacking, Some(1.0), "making a disk of them");
    let options = ext4::Options {
        uuid: "6c61746c-6162-4000-8000-000000000001".into(),
        label: "root".into(),
        free: 160 << 20,
        journal: false,
        epoch_s,
    };
    ext4::make(&tree, &disk, ext4::size(&tree, &options), &at("stage"), &options)?;
    let out = File::create(&result).map_err(TargetError::file(&result))?;
    out.set_len(1 << 30).map_err(TargetError::file(&result))?;
    let initrd = at("initrd");
    fs::write(&initrd, ram_disk(kernel, arch, epoch_s)?).map_err(TargetError::file(&initrd))?;
    let mut command = qemu(arch, kernel, &initrd, &disk, &result)?;
    hooks.tie(&mut command);
    run(&mut command, packages, hooks)?;
    let changed = File::open(&result).map_err(TargetError::file(&result))?;
    let configured = merge(tree, BufReader::new(changed), &result)?;
    for file in [&disk, &result, &initrd] {
        fs::remove_file(file).map_err(TargetError::file(file))?;
    }
    Ok(configured)
}

/// What there was, less what is gone, with what has changed.
fn merge(mut tree: Tree, changed: impl std::io::Read, source: &Path) -> Result<Tree> {
    let mut delta = Tree::default();
    delta.read_tar(changed, source, |_| true)?;
    let paths = delta.content("run/latlab-paths").map(|b| String::from_utf8_lossy(b).into_owned());
    let paths = paths.ok_or_else(|| TargetError::Content {
        path: source.to_path_buf(),
        reason: "the machine has not said which files there are".into(),
        hint: "build again".into(),
    })?;
    let there: BTreeSet<&str> = paths.lines().map(|p| p.trim_start_matches("./")).collect();
    tree.retain(|path, _| there.contains(path));
    for (path, node) in delta.iter().filter(|(p, _)| *p != "run/latlab-paths") {
        // A second name of a file whose first name has not changed comes as a file of its own: as good.
        let dangling = matches!(&node.kind, Kind::Hardlink(to) if !there.contains(to.as_str()));
        if !dangling {
            tree.insert(path, node.clone());
        }
    }
    Ok(tree)
}

fn ram_disk(kernel: &Kernel, arch: Arch, epoch_s: u64) -> Result<Vec<u8>> {
    let read = |path: &Path| fs::read(path).map_err(TargetError::file(path));
    let modules = kernel.modules()?;
    let mut archive = Archive::default();
    archive.device("dev/console", 5, 1);
    archive.file("bin/busybox", 0o755, &read(&kernel.busybox)?);
    archive.symlink("bin/sh", "busybox");
    let mut order = String::new();
    for path in modules.resolve_known(&["virtio_mmio", "virtio_blk", "crc32c_generic", "ext4"]) {
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        archive.file(&format!("modules/{name}"), 0o644, &read(&modules.folder().join(&path))?);
        order.push_str(&format!("{name}\n"));
    }
    archive.file("modules/order", 0o644, order.as_bytes());
    let script = SCRIPT
        .replace("@CLOCK", &format!("@{}", epoch_s + DAY_S))
        .replace("@MARK", &format!("@{}", epoch_s + DAY_S / 2))
        .replace("=ARCH", &format!("={}", arch.debian()));
    archive.file("init", 0o755, script.as_bytes());
    Ok(archive.finish())
}

fn qemu(arch: Arch, kernel: &Kernel, initrd: &Path, disk: &Path, result: &Path) -> Result<Command> {
    let (program, cpu) = match arch {
        Arch::Aarch64 => ("qemu-system-aarch64", "cortex-a57"),
        _ => ("qemu-system-arm", "cortex-a15"),
    };
    let path = find_program(program).ok_or_else(|| TargetError::NoProgram {
        program: program.into(),
        purpose: "configuring packages for another processor".into(),
        package: "qemu-system-arm".into(),
    })?;
    let mut command = Command::new(path);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.args(["-machine", "virt", "-cpu", cpu, "-m", "512", "-serial", "stdio"]);
    command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initrd);
    command.args(["-append", COMMAND_LINE]);
    for (name, file) in [("root", disk), ("result", result)] {
        let file = file.display().to_string().replace(',', ",,");
        command.arg("-drive").arg(format!("if=none,id={name},format=raw,cache=unsafe,file={file}"));
        command.arg("-device").arg(format!("virtio-blk-device,drive={name},serial={name}"));
    }
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// A QEMU that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(command: &mut Command, packages: usize, hooks: &mut dyn Hooks) -> Result<()> {
    let program = PathBuf::from(command.get_program());
    let mut running = Running(command.spawn().map_err(TargetError::file(&program))?);
    let (sender, lines) = mpsc::channel();
    let pipes: [Option<Box<dyn std::io::Read + Send>>; 2] = [
        running.0.stdout.take().map(|p| Box::new(p) as _),
        running.0.stderr.take().map(|p| Box::new(p) as _),
    ];
    for pipe in pipes.into_iter().flatten() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(std::io::Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let start = Instant::now();
    let mut console: Vec<String> = Vec::new();
    let mut set_up = 0;
    let failed = |what: &str, console: &[String]| {
        TargetError::Machine {
        vm: "configuring the packages".into(),
        what: what.into(),
        console: console[console.len().saturating_sub(TAIL_LINES)..].join("\n"),
        hint: "the end of its console says why; a package of --package may not install without questions".into(),
    }
    };
    loop {
        if hooks.stopped() {
            return Err(TargetError::Stopped);
        }
        match lines.recv_timeout(POLL_INTERVAL) {
            Ok(line) if line == DONE => return Ok(()),
            Ok(line) => {
                if let Some(what) = line.strip_prefix(FAILED) {
                    return Err(failed(&format!("{what} failed"), &console));
                }
                if let Some(rest) = line.strip_prefix("Setting up ") {
                    set_up += 1;
                    let share = set_up as f64 / packages.max(1) as f64;
                    let name = rest.split(' ').next().unwrap_or_default();
                    hooks.step(Step::Configuring, Some(share.min(1.0)), name);
                }
                console.push(line);
            }
            Err(RecvTimeoutError::Timeout) if start.elapsed() > LIMIT => {
                return Err(failed("it was not ready after 30 minutes", &console));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed("the machine ended before it was ready", &console));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Silent;

    #[test]
    fn what_the_machine_removed_is_gone_and_what_it_made_is_there() {
        let mut before = Tree::default();
        before.put("etc/a", 0o644, &b"old"[..], 1);
        before.put("etc/b", 0o644, &b"stays"[..], 1);
        before.put("etc/c", 0o644, &b"goes"[..], 1);
        let mut delta = Tree::default();
        let paths = "./etc\n./etc/a\n./etc/b\n./etc/d\n./etc/e\n";
        delta.put("run/latlab-paths", 0o644, paths.as_bytes(), 1);
        delta.put("etc/a", 0o640, &b"new"[..], 2);
        delta.symlink("etc/d", "a", 2);
        let mut tar = Vec::new();
        delta.write_tar(&mut tar).unwrap();
        let after = merge(before, &tar[..], Path::new("x")).unwrap();
        assert_eq!(after.content("etc/a"), Some(&b"new"[..]));
        assert_eq!(after.get("etc/a").unwrap().mode, 0o640);
        assert_eq!(after.content("etc/b"), Some(&b"stays"[..]));
        assert!(after.get("etc/c").is_none() && after.get("run/latlab-paths").is_none());
        assert_eq!(after.content("etc/d"), Some(&b"new"[..]));
    }

    #[test]
    fn a_machine_that_says_nothing_more_is_an_error_with_its_last_lines() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
            run(&mut command, 2, &mut Silent::default())
        };
        assert!(shell("echo Setting up x; echo latlab-image: done").is_ok());
        let error = shell("echo no space; echo latlab-image: failed: tar").unwrap_err();
        assert_eq!(error.to_string(), "configuring the packages: tar failed");
        assert_eq!(error.console(), Some("no space"));
        let error = shell("echo Kernel panic >&2").unwrap_err();
        assert!(error.to_string().contains("ended before it was ready"));
        assert_eq!(error.console(), Some("Kernel panic"));
    }
}
