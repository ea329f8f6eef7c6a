//! Images started by U-Boot and by UEFI in QEMU, and surveyed over SSH.

use super::{beaglebone, built, latlab, run};
use crate::common::{printed, said, script};
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A `PATH` with an ssh that takes the key of a folder and knows no other host.
pub struct Login {
    pub path: String,
}

/// One for a machine behind a port.
pub fn login(dir: &Path, port: u16) -> Login {
    let bin = dir.join(format!("bin-{port}"));
    fs::create_dir(&bin).unwrap();
    let d = dir.display();
    let wrapper = format!(
        "#!/bin/sh\nexec /usr/bin/ssh -F none -i {d}/id -o IdentitiesOnly=yes -o UserKnownHostsFile={d}/known-{port} \
         -o StrictHostKeyChecking=accept-new -o ConnectTimeout=20 \"$@\"\n"
    );
    script(&bin.join("ssh"), &wrapper);
    Login { path: format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()) }
}

/// An image that runs in QEMU, and an ssh that finds it.
struct Machine {
    child: Child,
    port: u16,
    path: String,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Machine {
    fn start(dir: &Path, image: &str, firmware: &str, port: u16) -> Self {
        let number = port.to_string();
        let args = ["image", "boot", image, "--ssh-port", &number, "--firmware", firmware];
        let console = dir.join(format!("console-{port}"));
        let out = File::create(&console).unwrap();
        let child =
            latlab(dir, &args).stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap();
        let Login { path } = login(dir, port);
        let mut machine = Self { child, port, path };
        let began = Instant::now();
        while !machine.ssh("true").status.success() {
            let ended = machine.child.try_wait().unwrap();
            let late = began.elapsed() > Duration::from_secs(420);
            let console = || String::from_utf8_lossy(&fs::read(&console).unwrap()).into_owned();
            assert!(ended.is_none() && !late, "{image}: {ended:?}: {}", console());
            std::thread::sleep(Duration::from_millis(500));
        }
        eprintln!("{image}: sshd answered after {:.0} s", began.elapsed().as_secs_f64());
        machine
    }

    fn ssh(&self, script: &str) -> Output {
        Command::new("ssh")
            .env("PATH", &self.path)
            .args(["-p", &self.port.to_string(), "root@127.0.0.1", script])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// A quick survey of it by way of ssh: what it kept.
    fn survey(&self, dir: &Path, out: &str, more: &[&str]) -> serde_json::Value {
        let target = format!("ssh://root@127.0.0.1:{}", self.port);
        let args = [&["--on", &target, "survey", "--quick", "--out", out], more].concat();
        let survey = latlab(dir, &args).env("PATH", &self.path).output().unwrap();
        assert!(survey.status.success(), "{}\n{}", said(&survey), printed(&survey));
        let run = fs::read(dir.join(out).join("run.json")).unwrap();
        let run: serde_json::Value = serde_json::from_slice(&run).unwrap();
        assert_eq!(run["complete"], true);
        run
    }
}

#[test]
#[ignore = "builds images and starts them"]
fn u_boot_and_uefi_start_cards_and_surveys_run_over_ssh() {
    let dir = beaglebone();
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [one, two] = free.map(|l| l.local_addr().unwrap().port());
    // Each emulates one CPU.
    std::thread::scope(|scope| {
        let uefi = scope.spawn(|| uefi_starts_a_board_of_ones_own(dir, two));
        u_boot_starts_the_beaglebones_card(dir, one);
        uefi.join().unwrap();
    });
}

/// generic-armv7 by another name in a file of the user's, with Debian's ordinary kernel.
fn uefi_starts_a_board_of_ones_own(dir: &Path, port: u16) {
    let generic = printed(&run(dir, &["image", "--board", "generic-armv7", "--show"]));
    let mine = generic.replace("name = \"generic-armv7\"", "name = \"my-board\"");
    assert_ne!(generic, mine);
    fs::write(dir.join("mine.toml"), mine).unwrap();
    let args = ["image", "--board", "mine.toml", "--kernel", "stock", "--ssh-key", "id.pub"];
    let output = built(dir, &[&args[..], &["-o", "mine.img"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let machine = Machine::start(dir, "mine.img", "/usr/share/AAVMF/AAVMF32_CODE.fd", port);
    let state = printed(&machine.ssh(
        "uname -r; ls -d /sys/firmware/efi; systemctl is-system-running --wait; systemctl --failed --no-legend; \
         cat /etc/hostname; cat /sys/kernel/realtime 2>/dev/null || echo ordinary; \
         for i in $(seq 100); do grep -q ^nameserver /etc/resolv.conf && break; sleep 0.2; done; cut -d ' ' -f 1 /etc/resolv.conf",
    ));
    eprintln!("{state}");
    let lines: Vec<&str> = state.lines().collect();
    assert!(lines[0].ends_with("-armmp") && !lines[0].contains("-rt-"), "{state}");
    assert_eq!(lines[1..6], ["/sys/firmware/efi", "running", "my-board", "ordinary", "nameserver"]);
    let kept = machine.survey(dir, "gaps", &["--step", "gaps"]);
    assert_eq!(kept["machine"]["kernel"]["release"], lines[0]);
}

fn u_boot_starts_the_beaglebones_card(dir: &Path, port: u16) {
    // The U-Boot of the board's own version, for QEMU's machine: it finds the active partition and what lies there.
    let machine = Machine::start(dir, "sd.img", "/usr/lib/u-boot/qemu_arm/u-boot.bin", port);
    let state = machine.ssh(
        "uname -r; grep -c ' /sys/kernel/tracing tracefs ' /proc/mounts; systemctl is-system-running --wait; \
         systemctl --failed --no-legend; ps -e -o comm= | grep -c agetty; latlab --version; cat /etc/hostname; \
         cat /sys/kernel/realtime; mount | grep ' on / '",
    );
    let state = printed(&state);
    eprintln!("{state}");
    let lines: Vec<&str> = state.lines().collect();
    assert!(lines[0].ends_with("-rt-armmp"), "{state}");
    assert_eq!(lines[1], "1", "tracefs is mounted: {state}");
    assert_eq!(lines[2], "running", "no unit has failed: {state}");
    assert_eq!(lines[3], "0", "no login prompts: {state}");
    assert!(lines[4].starts_with("latlab "), "{state}");
    assert_eq!(lines[5], "beaglebone-black");
    assert_eq!(lines[6], "1", "PREEMPT_RT: {state}");
    assert!(lines[7].contains("ext4 (rw,noatime"), "{state}");
    let kept = machine.survey(dir, "survey", &[]);
    assert_eq!(kept["machine"]["kernel"]["release"], lines[0]);
}
