//! `latlab tune --boot ssh://…` with a board whose kernel kexec starts again: QEMU, dropbear and kexec-tools.

use crate::common::{keygen, plain, said, ssh_client};
use crate::ssh::{self, pretend};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// dropbear, kexec and the libraries of both.
const PACKAGES: &[&str] = &[
    "dropbear-bin",
    "kexec-tools",
    "libc6",
    "libcrypt1",
    "libtomcrypt1",
    "libtommath1",
    "libgmp10",
    "zlib1g",
    "liblzma5",
    "libzstd1",
    "libuuid1",
    "libxenmisc4.17",
    "libxencall1",
    "libxendevicemodel1",
    "libxenevtchn1",
    "libxenforeignmemory1",
    "libxengnttab1",
    "libxentoolcore1",
    "libxentoollog1",
    "libxenstore4",
    "libxenhypfs1",
];

/// Run in a machine of `latlab vm`: writes an initial RAM disk that is a board of its own, whose `/boot` has kernel and RAM
/// disk, from the host.
const MAKE: &str = r#"
set -e
work=$PWD
mkdir -p /board /etc/dropbear
cd /board
dropbearkey -t ed25519 -f /etc/dropbear/key >/dev/null 2>&1
chmod 700 /root /root/.ssh
chmod 600 /root/.ssh/authorized_keys
mkdir dev proc sys tmp run boot modules
for d in /bin /sbin /lib /lib64 /usr /etc /root; do if [ -e $d ]; then cp -a $d .; fi; done
cp /latlab/modules/*.ko modules
cat >init <<'END'
#!/bin/sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts
mount -t devpts pts /dev/pts
for try in 1 2 3 4 5; do for m in /modules/*.ko; do insmod $m 2>/dev/null; done; done
ifconfig lo 127.0.0.1 up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
for file in vmlinuz initrd.img; do tftp -b 16384 -g -r $file -l /boot/$file-$(uname -r) 10.0.2.2; done
dropbear -F -E -s -r /etc/dropbear/key -p 22
END
chmod 755 init
find . | cpio -o -H newc 2>/dev/null >$work/initrd.img
dropbearkey -y -f /etc/dropbear/key | grep ^ssh- >$work/key.pub
uname -r >$work/release
"#;

struct Board {
    dir: tempfile::TempDir,
    qemu: Child,
    port: u16,
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

impl Board {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        keygen(&at("user"));
        fs::write(at("make"), MAKE).unwrap();
        let key = format!("{}:root/.ssh/authorized_keys", at("user.pub").display());
        let make = format!("{}:root/make", at("make").display());
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let machine = format!("x86_64-rt,ssh={}", free());
        let mut args = vec!["vm", "run", &machine, "--file", &key, "--file", &make];
        args.extend(PACKAGES.iter().flat_map(|package| ["--package", *package]));
        args.extend(["--", "sh", "/root/make"]);
        let made = plain(dir.path(), &args).output().unwrap();
        assert!(made.status.success(), "{}", said(&made));
        let release = fs::read_to_string(at("release")).unwrap();
        fs::copy(kernel(release.trim()), at("vmlinuz")).unwrap();

        let port = free();
        let host_key = fs::read_to_string(at("key.pub")).unwrap();
        fs::write(at("known"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let d = dir.path().display();
        let client = format!(
            "Host *\n IdentityFile {d}/user\n IdentitiesOnly yes\n UserKnownHostsFile {d}/known\n StrictHostKeyChecking yes\n"
        );
        ssh_client(dir.path(), &client);
        let qemu = Command::new("qemu-system-x86_64")
            .args(["-M", "q35", "-accel", "tcg", "-cpu", "max", "-m", "512", "-display", "none"])
            .args(["-append", "console=ttyS0 quiet", "-serial"])
            .arg(format!("file:{d}/console"))
            .args(["-kernel".into(), at("vmlinuz"), "-initrd".into(), at("initrd.img")])
            .args(["-device", "virtio-net-pci,netdev=n", "-netdev"])
            .arg(format!("user,id=n,tftp={d},hostfwd=tcp:127.0.0.1:{port}-:22"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut board = Self { dir, qemu, port };
        board.wait();
        board
    }

    fn wait(&mut self) {
        let start = Instant::now();
        while !self.ssh("true").status.success() {
            assert!(self.qemu.try_wait().unwrap().is_none(), "the board ended");
            let console = fs::read_to_string(self.dir.path().join("console")).unwrap_or_default();
            assert!(start.elapsed() < Duration::from_secs(300), "no SSH server: {console}");
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn path(&self) -> String {
        format!("{}:{}", self.dir.path().join("bin").display(), std::env::var("PATH").unwrap())
    }

    fn ssh(&self, script: &str) -> Output {
        Command::new("ssh")
            .args([
                "-o",
                "ConnectTimeout=5",
                // A board that is reset does not end its connections.
                "-o",
                "ServerAliveInterval=5",
                "-o",
                "ServerAliveCountMax=3",
                "-p",
                &self.port.to_string(),
                "root@127.0.0.1",
                script,
            ])
            .env("PATH", self.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// The parameters of its kernel, and which boot it is.
    fn boot(&self) -> (String, String) {
        let output = self.ssh("cat /proc/cmdline /proc/sys/kernel/random/boot_id");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (parameters, id) = text.trim().split_once('\n').unwrap();
        (parameters.trim().to_owned(), id.to_owned())
    }

    fn tune(&self, args: &[&str]) -> Command {
        let target = format!("ssh://root@127.0.0.1:{}", self.port);
        let args = [&["tune", "--boot", &target], args].concat();
        let mut command = plain(self.dir.path(), &args);
        command.env("PATH", self.path());
        command
    }
}

/// The image that `latlab vm` fetched.
fn kernel(release: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || Path::new(&std::env::var_os("HOME").unwrap()).join(".cache"),
        PathBuf::from,
    );
    let packages = cache.join("latlab/packages/amd64");
    let of_package =
        |entry: fs::DirEntry| entry.path().join("boot").join(format!("vmlinuz-{release}"));
    let mut images = fs::read_dir(packages).unwrap().flatten().map(of_package);
    images.find(|image| image.exists()).unwrap()
}

#[test]
#[ignore = "boots a virtual machine"]
fn a_board_is_started_with_each_parameter_and_reset_at_the_end() {
    let board = Board::start();
    let (own, first) = board.boot();
    assert_eq!(own, "console=ttyS0 quiet");
    // One round: a block without, and one with the parameter.
    let args =
        ["--try", "skew_tick=1", "-D", "1", "--block", "0.5", "--settle", "0", "--out", "run"];
    let output = board.tune(&args).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("resetting it to its own parameters"), "{}", said(&output));
    let (after, last) = board.boot();
    assert_eq!(after, own, "it is reset");
    assert_ne!(last, first);
    let parameters = |boot: usize| -> String {
        let run = board.dir.path().join(format!("run/boots/round-1-{boot}/run-{boot}/run.json"));
        let run: serde_json::Value = serde_json::from_slice(&fs::read(run).unwrap()).unwrap();
        run["machine"]["kernel"]["command_line"].as_str().unwrap().to_owned()
    };
    assert_eq!(parameters(0), "console=ttyS0 quiet panic=10 latlab.restarted");
    assert_eq!(parameters(1), "console=ttyS0 quiet skew_tick=1 panic=10 latlab.restarted");

    // Ctrl-C while it measures: it is reset all the same.
    let args = ["--try", "skew_tick=1", "--block", "60", "--settle", "0", "--out", "stopped"];
    let mut tune = board.tune(&args).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !board.ssh("grep -q panic=10 /proc/cmdline && pidof sleep").status.success() {
        assert!(start.elapsed() < Duration::from_secs(300), "the board was not started");
        std::thread::sleep(Duration::from_secs(1));
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&tune),
        rustix::process::Signal::INT,
    )
    .unwrap();
    tune.wait().unwrap();
    let start = Instant::now();
    loop {
        let output = board.ssh("cat /proc/cmdline");
        if output.status.success() && String::from_utf8_lossy(&output.stdout).trim() == own {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(300), "the board was not reset");
        std::thread::sleep(Duration::from_secs(1));
    }

    // A kernel that is not there.
    assert!(board.ssh("rm /boot/vmlinuz-*").status.success());
    let output = board.tune(&["--try", "skew_tick=1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("/boot has no image of the running kernel"),
        "{}",
        said(&output)
    );
    assert!(!said(&output).contains("resetting"), "{}", said(&output));
}

/// The board build sets, measures and restores. Of a thread of an interrupt that delays the task the remedy is known.
#[test]
#[ignore = "boots a virtual machine"]
fn settings_are_tried_by_the_board_itself() {
    let dir = tempfile::tempdir().unwrap();
    let tune = "latlab tune --try irq-threads=fault-device:10 --try vm.stat_interval=10 -p 40 --rounds 4 --block 0.5 --out r";
    let script = format!(
        "cat /proc/sys/vm/stat_interval; {tune} >/dev/null 2>&1; cat /proc/sys/vm/stat_interval; latlab tune --list; \
         latlab tune --try threadirqs 2>&1; latlab tune --boot x86_64-rt 2>&1"
    );
    let fault = ["--fault", "irq-thread:us=500,every=3.1ms,jitter=50"];
    let args =
        [&["vm", "run", "armv7-rt,icount=3"], &fault[..], &["--", "sh", "-c", &script]].concat();
    let output = plain(dir.path(), &args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("1\n1\n"), "restored: {text}");
    assert!(text.contains("irq-threads") && !text.contains("Boot parameters"), "{text}");
    assert!(text.contains("--try threadirqs"), "{text}");
    assert!(text.contains("unexpected argument '--boot'"), "{text}");
    let run: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("r/run.json")).unwrap()).unwrap();
    let tried = run["parts"][0]["detail"]["tried"].as_array().unwrap();
    let effect = |name: &str| tried.iter().find(|t| t["name"] == name).unwrap()["effect"].clone();
    assert_eq!(effect("irq-threads=fault-device:10"), "improves", "{tried:?}");
    assert_ne!(effect("vm.stat_interval=10"), "improves", "{tried:?}");
}

/// Nothing is started, so that it may be this machine.
#[test]
fn only_root_starts_a_kernel_and_faults_are_for_virtual_machines() {
    let (_fake, path) = pretend("id", "echo 1000");
    let Some(board) = ssh::Board::start(&[("PATH", &path)]) else { return };
    let args = ["tune", "--boot", "ssh://testboard", "--try", "skew_tick=1"];
    let output = board.host(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("only root starts a kernel"), "{}", said(&output));
    assert!(said(&output).contains("hint: name the user: ssh://root@BOARD"), "{}", said(&output));
    let args = [&args[..], &["--fault", "idle:us=100"]].concat();
    let output = board.host(&args).output().unwrap();
    assert!(said(&output).contains("--fault: not on a board"), "{}", said(&output));
}
