//! The initial RAM disk of a board: busybox, the modules of the card's controller and of ext4, or of the network and
//! NFS, and a script that waits for the root file system.

use latlab_target::cpio::Archive;
use latlab_target::modules::ModuleTree;
use latlab_target::{Result, TargetError};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Waits up to half a minute for the root file system: a card's controller takes its time.
const INIT: &str = r#"#!/bin/sh
# Loads the modules that are listed, waits for root=, and hands over to it.
export PATH=/bin
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module" 2>/dev/null; done < /modules/order
root= nfsroot= init=/sbin/init
for word in $(cat /proc/cmdline); do
    case $word in
    root=*) root=${word#root=} ;;
    nfsroot=*) nfsroot=${word#nfsroot=} ;;
    init=*) init=${word#init=} ;;
    esac
done
# nfsroot=[SERVER]:PATH[,OPTIONS] (Documentation/admin-guide/nfs/nfsroot.rst); without a server, the one that DHCP names.
from_network() {
    for path in /sys/class/net/*; do
        [ "$(cat "$path/type")" = 1 ] || continue
        ip link set "${path##*/}" up
        udhcpc -i "${path##*/}" -n -q -t 3 -T 2 -s /bin/lease >/dev/null 2>&1 && break
    done
    [ -f /lease ] && . /lease || return 1
    place=${nfsroot%%,*} more=${nfsroot#"$place"}
    server=${place%%:*}
    server=${server:-$boot_server}
    for version in 4.2 4.1 4.0; do
        options=vers=$version,sec=sys,addr=$server,clientaddr=$address$more
        mount -t nfs4 -o "$options" "$server:${place#*:}" /root && return
    done
    return 1
}
tries=0
while :; do
    if [ "$root" = /dev/nfs ]; then
        from_network && break
        root_words="nfsroot=$nfsroot"
    fi
    case $root in
    UUID=* | LABEL=*) device=$(findfs "$root" 2>/dev/null) ;;
    *) device=$root ;;
    esac
    [ -n "$device" ] && [ -b "$device" ] && mount -t ext4 -o ro,noatime "$device" /root && break
    tries=$((tries + 1))
    if [ $tries -gt 150 ]; then
        echo "latlab: no root file system ${root_words:-$root} after 30 s; there are:"
        cat /proc/partitions /proc/net/dev
        exec sh </dev/console >/dev/console 2>&1
    fi
    sleep 0.2
done
umount /proc /sys
mount --move /dev /root/dev
exec switch_root /root "$init"
"#;

/// What udhcpc calls with a lease in its environment.
const LEASE: &str = r#"#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr add "$ip/$mask" dev "$interface"
for gateway in $router; do ip route add default via "$gateway" dev "$interface"; done
echo "boot_server=${siaddr:-$serverid} address=$ip" > /lease
"#;

/// The RAM disk. Compressed by gzip, which every kernel has, with no name and no time in it.
pub fn make<'a>(
    busybox: &Path,
    modules: &ModuleTree,
    names: impl Iterator<Item = &'a String>,
) -> Result<Vec<u8>> {
    let read = |path: &Path| fs::read(path).map_err(TargetError::file(path));
    let names: Vec<&str> = names.map(String::as_str).collect();
    let paths = modules.resolve_known(&names);
    let mut archive = Archive::default();
    archive.device("dev/console", 5, 1);
    archive.device("dev/null", 1, 3);
    archive.file("bin/busybox", 0o755, &read(busybox)?);
    archive.symlink("bin/sh", "busybox");
    let mut order = String::new();
    for path in &paths {
        let name = path.rsplit('/').next().unwrap_or(path);
        archive.file(&format!("modules/{name}"), 0o644, &read(&modules.folder().join(path))?);
        order.push_str(&format!("{name}\n"));
    }
    archive.file("modules/order", 0o644, order.as_bytes());
    archive.file("init", 0o755, INIT.as_bytes());
    archive.file("bin/lease", 0o755, LEASE.as_bytes());
    gzip(&archive.finish())
}

fn gzip(data: &[u8]) -> Result<Vec<u8>> {
    let mut out = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::new(6));
    out.write_all(data)?;
    Ok(out.finish()?)
}
