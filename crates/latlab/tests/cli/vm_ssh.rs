//! `--on ssh://…` against dropbear in a virtual machine, over a forwarded port: a board as boards are,
//! with another processor, no SFTP, and folders that nothing can be run from.
//!
//! Ignored by default, as the tests of vm.rs are.

use crate::common::{keygen, plain, said, ssh_client};
use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SERVER: &str = "mkdir -p /etc/dropbear && chmod 700 /root /root/.ssh && chmod 600 /root/.ssh/authorized_keys &&
    dropbearkey -t ed25519 -f /etc/dropbear/key > /dev/null 2>&1 && exec dropbear -F -E -s -r /etc/dropbear/key -p 22";

struct Machine {
    dir: tempfile::TempDir,
    latlab: Child,
    port: u16,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // latlab ends the machine with itself.
        let _ = self.latlab.kill();
        let _ = self.latlab.wait();
    }
}

impl Machine {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        keygen(&at("user"));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let machine = format!("armv7-rt,ssh={port}");
        let key = format!("{}:root/.ssh/authorized_keys", at("user.pub").display());
        let mut args = vec!["vm", "run", &machine, "--file", &key];
        for package in [
            "dropbear-bin",
            "libc6",
            "libcrypt1",
            "libtomcrypt1",
            "libtommath1",
            "zlib1g",
            "libgmp10",
        ] {
            args.extend(["--package", package]);
        }
        args.extend(["--", "sh", "-c", SERVER]);
        let latlab = plain(dir.path(), &args).spawn().unwrap();
        let client = format!(
            "Host *\n IdentityFile {d}/user\n IdentitiesOnly yes\n UserKnownHostsFile {d}/known\n StrictHostKeyChecking yes\n",
            d = dir.path().display()
        );
        ssh_client(dir.path(), &client);
        let mut machine = Self { dir, latlab, port };
        machine.wait();
        machine
    }

    /// Until the server says its key, which is then known.
    fn wait(&mut self) {
        let start = Instant::now();
        loop {
            let port = self.port.to_string();
            let scan =
                Command::new("ssh-keyscan").args(["-T", "5", "-p", &port, "127.0.0.1"]).output();
            let keys = scan.map(|o| o.stdout).unwrap_or_default();
            if !keys.is_empty() {
                return fs::write(self.dir.path().join("known"), keys).unwrap();
            }
            assert!(self.latlab.try_wait().unwrap().is_none(), "the machine ended");
            assert!(start.elapsed() < Duration::from_secs(180), "no SSH server came up");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn path(&self) -> String {
        format!("{}:{}", self.dir.path().join("bin").display(), std::env::var("PATH").unwrap())
    }

    fn latlab(&self, args: &[&str]) -> Output {
        let target = format!("ssh://root@127.0.0.1:{}", self.port);
        let args = [&["--on", &target], args].concat();
        plain(self.dir.path(), &args).env("PATH", self.path()).output().unwrap()
    }

    fn ssh(&self, script: &str) -> Output {
        let port = self.port.to_string();
        Command::new("ssh")
            .args(["-p", &port, "root@127.0.0.1", script])
            .env("PATH", self.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_machine_behind_ssh_is_a_board() {
    let machine = Machine::start();
    let at = |name: &str| machine.dir.path().join(name);
    let output = machine.latlab(&["wakeup", "-l", "200", "--out", "first"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("pushing latlab for armv7"), "{}", said(&output));
    let run = fs::read_to_string(at("first/run.json")).unwrap();
    assert!(run.contains("rt-armmp"), "the run is not the machine's");

    // There is no SFTP server in it, and none was needed.
    assert!(
        !machine
            .ssh("test -e /usr/lib/sftp-server -o -e /usr/lib/openssh/sftp-server")
            .status
            .success()
    );

    // Nothing can be run from home and /tmp any more: what is left is /dev/shm.
    let hostile = "cp /root/.ssh/authorized_keys /run/keys && mount -t tmpfs -o noexec,mode=700 tmpfs /root && \
        mkdir -m 700 /root/.ssh && cp /run/keys /root/.ssh/authorized_keys && \
        chmod 600 /root/.ssh/authorized_keys && mount -t tmpfs -o ro tmpfs /tmp && \
        mkdir -p /var/tmp && mount -t tmpfs -o ro tmpfs /var/tmp";
    let output = machine.ssh(hostile);
    assert!(output.status.success(), "{}", said(&output));
    let output = machine.latlab(&["wakeup", "-l", "200", "--out", "second"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("pushing latlab for armv7"), "{}", said(&output));
    assert!(at("second/run.json").exists());
    let there = machine.ssh("ls -d /dev/shm/latlab-0/latlab-*");
    assert!(there.status.success(), "{}", said(&there));

    // Another server behind the same address: nothing is run there.
    fs::write(
        at("known"),
        format!("[127.0.0.1]:{} {}", machine.port, fs::read_to_string(at("user.pub")).unwrap()),
    )
    .unwrap();
    let output = machine.latlab(&["wakeup", "-l", "10"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("its host key is another one than before"), "{}", said(&output));
}
