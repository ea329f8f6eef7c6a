//! What makes Debian's base system a board to measure on: our files on top of the configured packages.
//!
//! The choices, each for a reason: no login prompts on terminals that nobody
//! has; no timers that wake up for updates, trimming and backups in the middle
//! of a measurement; logs in memory, so that nothing writes to the card by
//! itself; DHCP by systemd-networkd; SSH by key only, with host keys that the
//! board makes for itself on its first boot, because keys that lie in an image
//! are everybody's.

use super::tree::{Kind, Node, Tree};
use latlab_target::modules::ModuleTree;
use latlab_target::{Result, TargetError};
use std::fs;
use std::path::Path;

/// What differs from image to image.
#[derive(Debug)]
pub struct Settings<'a> {
    /// Host name.
    pub hostname: &'a str,
    /// Public keys that may log in as root, one a line.
    pub authorized_keys: &'a str,
    /// A root shell on the serial console, for whoever holds the cable.
    pub serial_shell: Option<&'a str>,
    /// Where the root file system is.
    pub place: Place<'a>,
    /// The clock, seconds since 1970.
    pub epoch_s: u64,
}

/// Where a root file system is.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// On a card.
    Card {
        /// `UUID=` of the root file system.
        root_uuid: &'a str,
        /// `UUID=` of the boot partition.
        boot_uuid: &'a str,
    },
    /// On a server.
    Network,
}

/// Units that have nothing to do on a board that measures.
const MASKED: [&str; 9] = [
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "fstrim.timer",
    "e2scrub_all.timer",
    "systemd-tmpfiles-clean.timer",
    "getty@tty1.service",
    "getty-static.service",
    "systemd-networkd-wait-online.service",
];

const NETWORK: &str = "\
[Match]
Type=ether

[Network]
DHCP=yes
LinkLocalAddressing=ipv6
{keep}
[DHCPv4]
# The board keeps its address when the same card starts again.
ClientIdentifier=mac
";

const SSHD: &str = "\
# latlab: keys only, and one host key, which the board makes on its first boot.
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
HostKey /etc/ssh/ssh_host_ed25519_key
UseDNS no
";

const HOST_KEY: &str = "\
[Unit]
Description=Host key of this board, made on its first boot
Before=ssh.service
ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key

[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N \"\" -f /etc/ssh/ssh_host_ed25519_key
RemainAfterExit=yes

[Install]
RequiredBy=ssh.service
";

/// systemd-networkd writes no resolv.conf, and a resolver of its own would be one more thing that runs.
const RESOLV_PATH: &str = "\
[Unit]
Description=Watch for name servers from DHCP

[Path]
PathChanged=/run/systemd/netif/state
Unit=latlab-resolv.service

[Install]
WantedBy=multi-user.target
";
const RESOLV: &str = "\
[Unit]
Description=Name servers from DHCP to resolv.conf

[Service]
Type=oneshot
ExecStart=/usr/local/lib/latlab/resolv
";

const RESOLV_SCRIPT: &str = r"#!/bin/sh
# The name servers that systemd-networkd was told by DHCP, for the C library.
sed -n 's/^DNS=//p' /run/systemd/netif/state | tr ' ' '\n' | sed -n 's/^..*/nameserver &/p' > /run/latlab-resolv.conf
";

const JOURNAL: &str = "[Journal]\nStorage=volatile\nRuntimeMaxUse=8M\n";

const MOTD: &str = "\
A board image of latlab's. Try: latlab doctor, latlab survey --quick
";

/// Puts our files on top.
pub fn customize(tree: &mut Tree, settings: &Settings<'_>) {
    let t = settings.epoch_s;
    let mut put = |path: &str, mode: u32, text: String| tree.put(path, mode, text.into_bytes(), t);
    put("etc/hostname", 0o644, format!("{}\n", settings.hostname));
    put(
        "etc/hosts",
        0o644,
        format!("127.0.0.1 localhost\n127.0.1.1 {}\n::1 localhost\n", settings.hostname),
    );
    put("etc/fstab", 0o644, fstab(settings));
    // Empty: the board gets its own on the first boot. Without the file it would be a first boot of
    // systemd's, which turns units on and off.
    put("etc/machine-id", 0o444, String::new());
    put("etc/motd", 0o644, MOTD.into());
    // As new as /usr: nothing is to be brought up to date on the first boot (ConditionNeedsUpdate=).
    for place in ["etc", "var"] {
        put(&format!("{place}/.updated"), 0o644, String::new());
    }
    // The root file system is behind the address that the RAM disk got.
    let keep = match settings.place {
        Place::Card { .. } => "",
        Place::Network => "KeepConfiguration=yes\n",
    };
    put("etc/systemd/network/50-latlab.network", 0o644, NETWORK.replace("{keep}", keep));
    put("etc/systemd/journald.conf.d/latlab.conf", 0o644, JOURNAL.into());
    put("etc/ssh/sshd_config.d/latlab.conf", 0o644, SSHD.into());
    put("etc/systemd/system/latlab-host-key.service", 0o644, HOST_KEY.into());
    put("etc/systemd/system/latlab-resolv.path", 0o644, RESOLV_PATH.into());
    put("etc/systemd/system/latlab-resolv.service", 0o644, RESOLV.into());
    put("usr/local/lib/latlab/resolv", 0o755, RESOLV_SCRIPT.into());
    put("root/.ssh/authorized_keys", 0o600, settings.authorized_keys.to_owned());
    if let Some(console) = settings.serial_shell {
        let text = format!(
            "[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --keep-baud 115200 %I $TERM\n\
             # {console}: asked for with --serial-shell.\n"
        );
        put("etc/systemd/system/serial-getty@.service.d/latlab.conf", 0o644, text);
    }
    tree.folder("root/.ssh", 0o700, t);
    tree.folder("boot/firmware", 0o755, t);
    tree.symlink("etc/resolv.conf", "/run/latlab-resolv.conf", t);
    let enabled = [
        ("multi-user.target.wants", "/lib/systemd/system/systemd-networkd.service"),
        ("sysinit.target.wants", "/lib/systemd/system/systemd-timesyncd.service"),
        ("sockets.target.wants", "/lib/systemd/system/systemd-networkd.socket"),
        ("multi-user.target.wants", "/etc/systemd/system/latlab-resolv.path"),
        ("ssh.service.requires", "/etc/systemd/system/latlab-host-key.service"),
    ];
    for (target, unit) in enabled {
        let name = unit.rsplit('/').next().unwrap_or(unit);
        tree.symlink(&format!("etc/systemd/system/{target}/{name}"), unit, t);
    }
    for unit in MASKED {
        tree.symlink(&format!("etc/systemd/system/{unit}"), "/dev/null", t);
    }
    // systemd starts a prompt on the kernel's console by itself.
    if settings.serial_shell.is_none() {
        tree.symlink("etc/systemd/system/serial-getty@.service", "/dev/null", t);
    }
    tree.remove("etc/systemd/system/getty.target.wants/getty@tty1.service");
}

fn fstab(settings: &Settings<'_>) -> String {
    let card = match settings.place {
        Place::Card { root_uuid, boot_uuid } => format!(
            "UUID={root_uuid} / ext4 noatime,errors=remount-ro,x-systemd.growfs 0 1\n\
             UUID={boot_uuid} /boot/firmware vfat noauto,noatime 0 0\n"
        ),
        Place::Network => String::new(),
    };
    format!(
        "{card}tracefs /sys/kernel/tracing tracefs nosuid,nodev,noexec 0 0\n\
         tmpfs /tmp tmpfs nosuid,nodev,size=25% 0 0\n"
    )
}

/// The kernel's modules but for the folders that are left out, with the tables that depmod makes for those that stay.
pub fn modules(
    tree: &mut Tree,
    modules: &ModuleTree,
    release: &str,
    leave_out: &[String],
    epoch_s: u64,
) -> Result<()> {
    let base = format!("usr/lib/modules/{release}");
    let keep = |path: &str| {
        path.strip_prefix("kernel/").is_none_or(|p| {
            !leave_out.iter().any(|f| {
                p.strip_prefix(f.trim_matches('/')).is_some_and(|rest| rest.starts_with('/'))
            })
        })
    };
    add_folder(tree, modules.folder(), "", &base, &keep, epoch_s)
}

fn add_folder(
    tree: &mut Tree,
    root: &Path,
    below: &str,
    base: &str,
    keep: &dyn Fn(&str) -> bool,
    epoch_s: u64,
) -> Result<()> {
    let folder = root.join(below);
    let entries = fs::read_dir(&folder).map_err(TargetError::file(&folder))?;
    for entry in entries {
        let entry = entry.map_err(TargetError::file(&folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        let kind = entry.file_type().map_err(TargetError::file(&entry.path()))?;
        if kind.is_dir() {
            if keep(&format!("{path}/")) {
                add_folder(tree, root, &path, base, keep, epoch_s)?;
            }
        } else if kind.is_file() && keep(&path) {
            let data = fs::read(entry.path()).map_err(TargetError::file(&entry.path()))?;
            tree.put(&format!("{base}/{path}"), 0o644, data, epoch_s);
        }
    }
    Ok(())
}

/// Removes what differs from one configuring to the next, or is of no use on the board.
pub fn tidy(tree: &mut Tree, epoch_s: u64) {
    const GONE: [&str; 18] = [
        "dev",
        "proc",
        "sys",
        "run",
        "tmp",
        "lost+found",
        "var/cache/apt",
        "var/cache/ldconfig",
        "var/cache/debconf",
        "var/lib/apt/lists",
        "var/log",
        "var/tmp",
        "var/backups",
        "var/lib/systemd/random-seed",
        "etc/.pwd.lock",
        "etc/machine-id",
        "var/lib/dbus/machine-id",
        "root/.bash_history",
    ];
    // debconf's answers stay: packages ask for them when they are upgraded.
    let debconf: Vec<(String, Node)> = ["config.dat", "templates.dat", "passwords.dat"]
        .iter()
        .filter_map(|n| {
            let path = format!("var/cache/debconf/{n}");
            Some((path.clone(), tree.get(&path)?.clone()))
        })
        .collect();
    GONE.iter().for_each(|path| tree.remove(path));
    debconf.into_iter().for_each(|(path, node)| tree.insert(&path, node));
    let backup = |p: &str| {
        ["passwd-", "group-", "shadow-", "gshadow-", "subuid-", "subgid-"]
            .iter()
            .any(|b| p == format!("etc/{b}"))
            || (p.starts_with("var/lib/dpkg/") && p.ends_with("-old"))
            || (p.starts_with("var/lib/") && p.ends_with("/.lock"))
            || p.starts_with("etc/ssh/ssh_host_")
            || p == "usr/sbin/policy-rc.d"
            || (p.starts_with("var/lib/dpkg/") && p.ends_with("/lock"))
            || p.starts_with("var/lib/dpkg/lock")
    };
    tree.retain(|path, _| !backup(path));
    for (path, mode) in [
        ("dev", 0o755),
        ("proc", 0o555),
        ("sys", 0o555),
        ("run", 0o755),
        ("tmp", 0o1777),
        ("var/log", 0o755),
        ("var/tmp", 0o1777),
        ("var/backups", 0o755),
        ("var/cache/apt/archives/partial", 0o755),
        ("var/lib/apt/lists/partial", 0o755),
    ] {
        tree.folder(path, mode, epoch_s);
    }
    tree.each(|_, node| {
        node.mtime_s = node.mtime_s.min(epoch_s);
        if let Kind::Symlink(_) = node.kind {
            node.mode = 0o777;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings<'static> {
        Settings {
            hostname: "bone",
            authorized_keys: "ssh-ed25519 AAAA me\n",
            serial_shell: None,
            place: Place::Card { root_uuid: "r", boot_uuid: "B" },
            epoch_s: 9,
        }
    }

    #[test]
    fn only_a_key_opens_the_door_and_only_a_wish_gives_a_shell_on_the_cable() {
        let mut tree = Tree::default();
        customize(&mut tree, &settings());
        let text =
            |tree: &Tree, p: &str| String::from_utf8_lossy(tree.content(p).unwrap()).into_owned();
        assert!(
            text(&tree, "etc/ssh/sshd_config.d/latlab.conf").contains("PasswordAuthentication no")
        );
        assert_eq!(tree.get("root/.ssh").unwrap().mode, 0o700);
        assert_eq!(tree.get("root/.ssh/authorized_keys").unwrap().mode, 0o600);
        assert!(
            matches!(&tree.get("etc/systemd/system/serial-getty@.service").unwrap().kind, Kind::Symlink(to) if to == "/dev/null")
        );
        assert!(text(&tree, "etc/fstab").contains("tracefs /sys/kernel/tracing"));
        let mut tree = Tree::default();
        customize(&mut tree, &Settings { serial_shell: Some("ttyS0"), ..settings() });
        assert!(tree.get("etc/systemd/system/serial-getty@.service").is_none());
        assert!(
            text(&tree, "etc/systemd/system/serial-getty@.service.d/latlab.conf")
                .contains("autologin root")
        );
    }

    #[test]
    fn a_root_on_a_server_keeps_its_address_and_mounts_no_card() {
        let text = |place| {
            let mut tree = Tree::default();
            customize(&mut tree, &Settings { place, ..settings() });
            let of = |p| String::from_utf8_lossy(tree.content(p).unwrap()).into_owned();
            (of("etc/fstab"), of("etc/systemd/network/50-latlab.network"))
        };
        let (fstab, network) = text(settings().place);
        assert!(fstab.starts_with("UUID=r / ext4 ") && fstab.contains("UUID=B /boot/firmware"));
        assert!(!network.contains("Keep") && !network.contains('{'), "{network}");
        let (fstab, network) = text(Place::Network);
        assert!(fstab.starts_with("tracefs "), "{fstab}");
        assert!(network.contains("LinkLocalAddressing=ipv6\nKeepConfiguration=yes\n"), "{network}");
    }

    #[test]
    fn what_two_boots_would_make_different_is_gone() {
        let mut tree = Tree::default();
        for path in [
            "etc/ssh/ssh_host_rsa_key",
            "etc/ssh/moduli",
            "etc/passwd-",
            "etc/passwd",
            "var/log/dpkg.log",
            "var/cache/debconf/config.dat",
            "var/cache/debconf/config.dat-old",
            "var/lib/dpkg/status-old",
            "var/lib/dpkg/lock-frontend",
        ] {
            tree.put(path, 0o600, &b"x"[..], 99);
        }
        tidy(&mut tree, 50);
        let files: Vec<&str> =
            tree.iter().filter(|(_, n)| matches!(n.kind, Kind::File(_))).map(|(p, _)| p).collect();
        assert_eq!(files, ["etc/passwd", "etc/ssh/moduli", "var/cache/debconf/config.dat"]);
        assert!(tree.iter().all(|(_, n)| n.mtime_s <= 50));
        assert_eq!(tree.get("tmp").unwrap().mode, 0o1777);
    }
}
