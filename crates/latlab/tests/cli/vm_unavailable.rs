//! Machines with a mistyped name, or without a program, a kernel, a network or space on the disk.

use crate::common::{SmallDisk, in_machine as latlab, printed, said};
use crate::vm::run;
use std::fs;
use std::process::Command;

#[test]
fn bad_machines_are_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (vec!["vm", "boot", "mips"], "there is no virtual machine \"mips\""),
        (vec!["vm", "boot", "armv7-rt,mem=1"], "64M at least"),
        (
            vec!["vm", "run", "armv7-rt", "--fault", "gremlin", "--", "true"],
            "there is no fault \"gremlin\"",
        ),
        (vec!["vm", "boot", "armv7-rt,colour=red"], "there is no option colour=red"),
        (vec!["vm", "boot", "armv7-rt,icount=0,smp=2"], "works with one CPU"),
        (
            vec!["vm", "shell", "armv7-rt", "--fault", "stall:ms=1"],
            "a stall stops QEMU from outside",
        ),
        (vec!["vm", "gate", "no-such-run", "another"], "no-such-run"),
        (vec!["--on", "nowhere", "wakeup"], "this is not a kind of target"),
        (vec!["--on", "vm:armv7-rt", "report", "x"], "report reads files of this machine"),
    ] {
        let output = run(dir.path(), &args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(said(&output).contains(expected), "{args:?}: {}", said(&output));
        assert!(said(&output).contains("hint: "), "{args:?}: {}", said(&output));
    }
}

#[test]
fn without_qemu_or_a_kernel_it_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = latlab(dir.path(), &["vm", "boot", "armv7-rt"]);
    let output =
        command.env("PATH", "/nonexistent").env("XDG_CACHE_HOME", dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(said.contains("the virtual machine armv7-rt needs qemu-system-arm, "), "{said}");
    for name in ["apt-get, ", "dpkg-deb", "hint: apt-get install qemu-system-arm "] {
        assert!(said.contains(name), "{name}: {said}");
    }
}

#[test]
fn the_doctor_of_machines_names_all_that_is_missing_and_the_commands_that_install_it() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["vm", "doctor"][..], &["doctor", "--vm"]] {
        let mut command = latlab(dir.path(), args);
        command.env("PATH", "/nonexistent").env("XDG_CACHE_HOME", dir.path());
        let output = command.env("LATLAB_BOARDS", dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let stdout = printed(&output);
        for name in ["qemu-system-arm", "qemu-system-x86_64", "dpkg-deb", "latlab for aarch64"] {
            let line = stdout.lines().find(|l| l.starts_with(&format!("{name} "))).unwrap();
            assert!(line.ends_with(" missing"), "{line}");
        }
        let kernel = stdout.lines().find(|l| l.starts_with("kernel of x86_64-rt ")).unwrap();
        assert!(kernel.ends_with(" not fetched"), "{kernel}");
        let install = stdout.lines().filter(|l| l.starts_with("apt-get install ")).count();
        assert_eq!(install, 1, "{stdout}");
        assert!(stdout.contains("\nscripts/boards armv7 aarch64 x86_64\n"), "{stdout}");
        assert!(stdout.lines().count() <= 40);
    }
    let mut one = latlab(dir.path(), &["vm", "doctor", "armv7-rt", "--json"]);
    let output = one.env("XDG_CACHE_HOME", dir.path()).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["needs"].as_array().unwrap().len(), 6, "{json}");
}

/// apt with a source that does not answer, and an empty cache.
#[test]
fn without_a_network_and_a_cache_it_says_so() {
    let (dir, mut command) = private_apt("deb http://127.0.0.1:1/debian bookworm main");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(said.contains("latlab: apt-get update did not read every package list for armhf: "));
    assert!(said.contains("; the cache has none"), "{said}");
    assert!(said.contains("127.0.0.1:1") && said.contains("hint: check the network"), "{said}");
    drop(dir);
}

/// apt says nothing of a full disk, and tries for a minute.
#[test]
fn a_cache_on_a_full_disk_is_said() {
    let Some(disk) = SmallDisk::of("1m") else { return };
    let mut command = latlab(disk.path(), &["vm", "fetch", "armv7-rt"]);
    let output = command.env("XDG_CACHE_HOME", disk.path()).output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("1 MiB are left, Debian's package lists take 96 MiB"), "{said}");
    assert!(said.contains("hint: free some space, or set XDG_CACHE_HOME"), "{said}");
}

/// apt with a source whose index says something else than the package is.
#[test]
fn a_package_that_is_not_what_the_index_says_is_refused() {
    let (dir, mut command) = private_apt("deb [trusted=yes] file:REPO ./");
    let repo = dir.path().join("repo");
    fs::create_dir(&repo).unwrap();
    fs::write(repo.join("busybox-static_9_armhf.deb"), vec![1; 1000]).unwrap();
    let index = "Package: busybox-static\nVersion: 9\nArchitecture: armhf\nMaintainer: nobody\n\
        Filename: ./busybox-static_9_armhf.deb\nSize: 1000\nDescription: x\nSHA256: ";
    fs::write(repo.join("Packages"), format!("{index}{}\n\n", "0".repeat(64))).unwrap();
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(said.contains("Hash Sum mismatch"), "{said}");
    assert!(said.contains("hint: nothing of it was unpacked"), "{said}");
    assert!(!dir.path().join("cache/latlab/packages/armhf/busybox-static_9").exists());
}

/// `latlab vm fetch` with one source only; REPO in it is a folder of the directory.
fn private_apt(source: &str) -> (tempfile::TempDir, Command) {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("sources"), source.replace("REPO", at("repo").to_str().unwrap())).unwrap();
    let settings = format!(
        "Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"/dev/null\";\nAcquire::Retries \"0\";\n",
        at("sources").display()
    );
    fs::write(at("apt.conf"), settings).unwrap();
    let mut command = latlab(dir.path(), &["vm", "fetch", "armv7-rt"]);
    command.env("APT_CONFIG", at("apt.conf")).env("XDG_CACHE_HOME", at("cache"));
    (dir, command)
}
