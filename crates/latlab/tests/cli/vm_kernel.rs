//! The virtual lab with a kernel of the user's own: its modules in a folder, or in a RAM disk.
//!
//! Debian's kernel stands for it, under another name and in other places than the cache's.
//! Ignored by default because they need QEMU and a fetched kernel; `make test` runs them.

use crate::common::{in_machine, printed, said};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn latlab(dir: &Path, args: &[&str]) -> Output {
    in_machine(dir, args).output().unwrap()
}

/// The unpacked package of armv7-rt's kernel, and its release.
fn debian() -> (PathBuf, String) {
    let var = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|h| h.join(".cache"))).unwrap();
    let pointer = fs::read_to_string(cache.join("latlab/vms/armv7-rt")).unwrap();
    let package = PathBuf::from(pointer.trim());
    let release = fs::read_dir(package.join("lib/modules")).unwrap().next().unwrap().unwrap();
    (package.clone(), release.file_name().into_string().unwrap())
}

/// A folder with the kernel as `zImage`.
fn with_image() -> (tempfile::TempDir, PathBuf, String) {
    let dir = tempfile::tempdir().unwrap();
    let (package, release) = debian();
    let image = package.join("boot").join(format!("vmlinuz-{release}"));
    fs::copy(image, dir.path().join("zImage")).unwrap();
    (dir, package, release)
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_modular_kernel_boots_with_the_modules_of_a_folder() {
    let (dir, package, release) = with_image();
    // As `make modules_install INSTALL_MOD_PATH=installed` leaves them.
    fs::create_dir_all(dir.path().join("installed/lib")).unwrap();
    symlink(package.join("lib/modules"), dir.path().join("installed/lib/modules")).unwrap();
    let args = ["--kernel", "zImage", "--modules-from", "installed", "--", "sh", "-c"];
    let script = "uname -r; grep -c ^null_blk /proc/modules; echo here > file";
    let run = [&["vm", "run", "armv7-rt,modules=null_blk"][..], &args, &[script]].concat();
    let output = latlab(dir.path(), &run);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(printed(&output), format!("{release}\n1\n"));
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "here\n");
    let modules = format!("modules of this kernel: installed/lib/modules/{release}");
    assert!(said(&output).contains(&modules), "{}", said(&output));
}

/// The RAM disk of a distribution: its own /init, /bin a link, its modules compressed with the rest.
#[test]
#[ignore = "boots a virtual machine"]
fn a_modular_kernel_boots_with_the_modules_of_its_own_ram_disk() {
    let (dir, package, release) = with_image();
    let (from, root) = (package.join("lib/modules").join(&release), dir.path().join("root"));
    let to = root.join("usr/lib/modules").join(&release);
    let dep = fs::read_to_string(from.join("modules.dep")).unwrap();
    for line in dep.lines().filter(|l| l.contains("virtio_mmio") || l.contains("virtio_console")) {
        for path in line.split([':', ' ']).filter(|p| !p.is_empty()) {
            fs::create_dir_all(to.join(path).parent().unwrap()).unwrap();
            fs::copy(from.join(path), to.join(path)).unwrap();
        }
    }
    fs::write(to.join("modules.dep"), dep).unwrap();
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    symlink("usr/bin", root.join("bin")).unwrap();
    fs::write(root.join("init"), "#!/bin/sh\n").unwrap();
    let pack = "cd root && find . | cpio -o -H newc --quiet | gzip -1 > ../initrd.img";
    assert!(
        Command::new("sh").args(["-c", pack]).current_dir(dir.path()).status().unwrap().success()
    );
    let on = "vm:armv7-rt,kernel=zImage,initrd=initrd.img";
    let output = latlab(dir.path(), &["--on", on, "wakeup", "-l", "50", "--out", "r"]);
    assert!(output.status.success(), "{}", said(&output));
    let run = fs::read_to_string(dir.path().join("r/run.json")).unwrap();
    assert!(run.contains(&format!("\"{release}\"")), "{run}");
}

#[test]
fn what_cannot_go_with_a_kernel_of_ones_own_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let error = |args: &[&str]| {
        let output = latlab(dir.path(), &[&["vm", "boot", "armv7-rt"], args].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        said(&output)
    };
    let fault = error(&["--kernel", "zImage", "--fault", "irqs-off:us=300"]);
    assert!(
        fault.contains("a module for Debian's kernels and those of latlab vm build, not for yours"),
        "{fault}"
    );
    assert!(
        fault.contains("hint: leave out the kernel, or choose a fault of processes"),
        "{fault}"
    );
}
