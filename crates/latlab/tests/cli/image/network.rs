//! A board that boots from the network: U-Boot by TFTP, the root file system by NFS from a server here.

use super::boot::{Login, login};
use super::{built, keys, latlab};
use crate::common::{is_root, printed, said, skip};
use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file system in memory, which an NFS server can export on any machine.
struct Memory(PathBuf);

impl Memory {
    fn mount(at: PathBuf) -> Self {
        fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=900m", "none"]).arg(&at);
        assert!(mount.status().unwrap().success());
        Self(at)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// nfs-ganesha, a server in user space, for one folder.
fn serve(dir: &Path, folder: &Path, port: u16) -> Running {
    let config = format!(
        "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false; \
         Enable_RQUOTA = false; Enable_UDP = None; }}\n\
         NFSv4 {{ Graceless = true; RecoveryRoot = \"{d}\"; Only_Numeric_Owners = true; }}\n\
         EXPORT {{ Export_Id = 1; Path = {f}; Pseudo = /board; Access_Type = RW; Squash = No_Root_Squash; \
         SecType = sys; Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }} }}\n",
        d = dir.display(),
        f = folder.display(),
    );
    fs::write(dir.join("ganesha.conf"), config).unwrap();
    let log = File::create(dir.join("ganesha.out")).unwrap();
    let mut server = Command::new("ganesha.nfsd");
    server.args(["-F", "-f"]).arg(dir.join("ganesha.conf")).arg("-L").arg(dir.join("ganesha.log"));
    server.arg("-p").arg(dir.join("ganesha.pid")).stdout(log.try_clone().unwrap()).stderr(log);
    let running = Running(server.spawn().expect("ganesha.nfsd"));
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "no NFS server");
        std::thread::sleep(Duration::from_millis(200));
    }
    running
}

/// QEMU with U-Boot, which is told to boot from the network: this U-Boot's own order does not have it.
fn boot(dir: &Path, tftp: &Path, ssh: u16) -> Running {
    let mut qemu = Command::new("qemu-system-arm");
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-m", "512"]);
    qemu.args(["-machine", "virt", "-cpu", "cortex-a15", "-serial", "stdio"]);
    qemu.args(["-bios", "/usr/lib/u-boot/qemu_arm/u-boot.bin"]);
    let net = format!(
        "user,id=net,tftp={},bootfile=latlab,hostfwd=tcp:127.0.0.1:{ssh}-:22",
        tftp.display()
    );
    qemu.args(["-netdev", &net, "-device", "virtio-net-device,netdev=net"]);
    let console = File::create(dir.join("console")).unwrap();
    let child = qemu.stdin(Stdio::piped()).stdout(console.try_clone().unwrap()).stderr(console);
    let mut running = Running(child.spawn().unwrap());
    let mut keys = running.0.stdin.take().unwrap();
    let wait = |for_what: &str, keys: &mut dyn FnMut()| {
        let began = Instant::now();
        loop {
            let text = fs::read(dir.join("console")).unwrap();
            let text = String::from_utf8_lossy(&text);
            if text.contains(for_what) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "no {for_what:?}: {text}");
            keys();
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    wait("=> ", &mut || keys.write_all(b"\r").unwrap());
    keys.write_all(b"setenv autoload no; dhcp; pxe get && pxe boot\r").unwrap();
    wait("Starting kernel", &mut || ());
    running
}

#[test]
#[ignore = "builds a root file system and starts it"]
fn a_board_boots_from_the_network() {
    if !is_root() {
        return skip("an NFS server needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    keys(dir);
    let (nfs, ssh) = (free_port(), free_port());
    let place = format!(":/board,port={nfs}");
    let args = ["image", "--board", "generic-armv7", "--ssh-key", "id.pub", "--nfs-root", &place];
    let output = built(dir, &args);
    assert!(output.status.success(), "{}", said(&output));
    assert!(printed(&output).starts_with("netboot: generic-armv7, Linux "), "{}", printed(&output));
    let menu = fs::read_to_string(dir.join("netboot/tftp/pxelinux.cfg/default")).unwrap();
    let line =
        format!("append root=/dev/nfs nfsroot=:/board,port={nfs} rw rootwait console=ttyAMA0\n");
    assert!(menu.ends_with(&line), "{menu}");

    let export = Memory::mount(dir.join("export"));
    let mut tar = Command::new("tar");
    tar.args(["-xpf"]).arg(dir.join("netboot/root.tar.gz")).arg("-C").arg(&export.0);
    assert!(tar.status().unwrap().success());
    let _server = serve(dir, &export.0, nfs);
    let mut machine = boot(dir, &dir.join("netboot/tftp"), ssh);
    let Login { path } = login(dir, ssh);
    let began = Instant::now();
    let over_ssh = |script: &str| {
        Command::new("ssh")
            .env("PATH", &path)
            .args(["-p", &ssh.to_string(), "root@127.0.0.1", script])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    while !over_ssh("true").status.success() {
        let ended = machine.0.try_wait().unwrap();
        let late = began.elapsed() > Duration::from_secs(420);
        let console =
            || String::from_utf8_lossy(&fs::read(dir.join("console")).unwrap()).into_owned();
        assert!(ended.is_none() && !late, "{ended:?}: {}", console());
        std::thread::sleep(Duration::from_millis(500));
    }
    let state = printed(&over_ssh(
        "mount | grep ' on / '; systemctl is-system-running --wait; systemctl --failed --no-legend; latlab --version; \
         touch /root/written && sync",
    ));
    let lines: Vec<&str> = state.lines().collect();
    assert!(lines[0].contains(" type nfs4 (rw,") && lines[0].contains("vers=4"), "{state}");
    assert_eq!(lines[1], "running", "no unit has failed: {state}");
    assert!(lines[2].starts_with("latlab "), "{state}");
    assert!(export.0.join("root/written").is_file(), "{state}");
    // What was built before is replaced, and nothing else.
    fs::create_dir(dir.join("mine")).unwrap();
    fs::write(dir.join("mine/file"), "x").unwrap();
    let refused = latlab(dir, &[&args[..], &["-o", "mine"]].concat()).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("not a folder for network boot"), "{}", said(&refused));
}
