//! May an image be written to this device? Everything that the kernel says of it, then a judgement.
//!
//! Read from sysfs (`Documentation/ABI/stable/sysfs-block`), `/proc/self/mountinfo`
//! (proc(5)) and `/proc/swaps`, below a root that tests put elsewhere.

use latlab_target::{Result, TargetError};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What is known of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// The device, links resolved.
    pub path: PathBuf,
    /// The kernel's name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Maker and model, as far as they are told.
    pub model: String,
    /// Whether it can be taken out: a card, a stick.
    pub removable: bool,
    /// Whether it is write-protected.
    pub read_only: bool,
    /// The disk that this is only a partition of.
    pub part_of: Option<String>,
    /// Its partitions.
    pub partitions: Vec<String>,
    /// Where it, or a partition of it, is mounted.
    pub mounts: Vec<String>,
    /// What else uses it: swap, RAID, LVM, encryption.
    pub users: Vec<String>,
    /// `MAJOR:MINOR`.
    pub number: String,
    /// Number of the medium, which no other has had since boot; Linux 5.15 and later.
    pub sequence: Option<u64>,
}

impl Disk {
    /// Whether this is the device that was opened: its number is the one that the kernel has under
    /// the name. Below another root than `/`, for tests, disks are files.
    pub fn is(&self, root: &Path, opened: &fs::Metadata) -> bool {
        let rdev = opened.rdev();
        let number = format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev));
        root != Path::new("/") || (opened.file_type().is_block_device() && number == self.number)
    }

    /// Whether `now`, looked up later under the same name, is this disk with the same medium.
    ///
    /// # Errors
    /// What differs.
    pub fn same(&self, now: &Self) -> Result<()> {
        let differs = |what: &str, from: &dyn std::fmt::Display, to: &dyn std::fmt::Display| {
            Err(TargetError::Content {
                path: self.path.clone(),
                reason: format!(
                    "this is another disk than the one that was shown: its {what} was {from} and is {to}; nothing was written"
                ),
                hint: "was the card changed? the same command shows what is there now".into(),
            })
        };
        let text = |sequence: Option<u64>| sequence.map_or("none".into(), |n| n.to_string());
        if self.number != now.number || self.name != now.name {
            return differs("device number", &self.number, &now.number);
        }
        if self.bytes != now.bytes {
            return differs("size", &format!("{} bytes", self.bytes), &now.bytes);
        }
        if self.model != now.model {
            return differs("model", &format!("{:?}", self.model), &format!("{:?}", now.model));
        }
        if self.sequence != now.sequence {
            let (from, to) = (text(self.sequence), text(now.sequence));
            return differs("medium (diskseq)", &from, &to);
        }
        Ok(())
    }
}

/// Looks a device up.
pub fn examine(root: &Path, device: &Path) -> Result<Disk> {
    let wrong = |reason: &str, hint: &str| TargetError::Content {
        path: device.to_path_buf(),
        reason: reason.into(),
        hint: hint.into(),
    };
    let here = below(root, device);
    let path = fs::canonicalize(&here).map_err(TargetError::file(device))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let class = below(root, Path::new("/sys/class/block"));
    let folder = class.join(&name);
    let meta = fs::metadata(&path).map_err(TargetError::file(device))?;
    let number = fs::read_to_string(folder.join("dev")).unwrap_or_default().trim().to_owned();
    let identity = Disk { number, ..Disk::default() };
    if !folder.is_dir() || !identity.is(root, &meta) {
        return Err(wrong(
            "this is not a disk",
            "lsblk lists disks; a card in a reader is /dev/sdX or /dev/mmcblkN",
        ));
    }
    let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let number = |path: PathBuf| text(path).parse::<u64>().unwrap_or(0);
    let real = fs::canonicalize(&folder).map_err(TargetError::file(&folder))?;
    let part_of = folder.join("partition").exists().then(|| {
        let disk = real.parent().and_then(Path::file_name);
        disk.unwrap_or_default().to_string_lossy().into_owned()
    });
    let partitions = names(&real).into_iter().filter(|n| real.join(n).join("partition").exists());
    let partitions: Vec<String> = partitions.collect();
    let mut disk = Disk {
        bytes: number(folder.join("size")) * 512,
        model: [
            text(folder.join("device/vendor")),
            text(folder.join("device/model")),
            text(folder.join("device/name")),
        ]
        .join(" ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" "),
        // A card in a slot of its own says that it stays: its type tells it from an eMMC.
        removable: number(folder.join("removable")) == 1
            || text(folder.join("device/type")) == "SD",
        read_only: number(folder.join("ro")) == 1,
        part_of,
        partitions,
        path,
        name,
        sequence: text(folder.join("diskseq")).parse().ok(),
        ..identity
    };
    users(root, &real, &mut disk);
    Ok(disk)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Mounts, swap and holders of the disk and its partitions.
fn users(root: &Path, real: &Path, disk: &mut Disk) {
    let ours: Vec<String> =
        std::iter::once(disk.name.clone()).chain(disk.partitions.iter().cloned()).collect();
    let folders =
        std::iter::once(real.to_path_buf()).chain(disk.partitions.iter().map(|p| real.join(p)));
    let mut numbers = Vec::new();
    for folder in folders {
        numbers.extend(fs::read_to_string(folder.join("dev")).map(|t| t.trim().to_owned()));
        disk.users.extend(names(&folder.join("holders")));
    }
    let is_ours = |source: &str| {
        source.strip_prefix("/dev/").is_some_and(|name| ours.iter().any(|o| o == name))
    };
    let mounts =
        fs::read_to_string(below(root, Path::new("/proc/self/mountinfo"))).unwrap_or_default();
    for line in mounts.lines() {
        // number, parent, MAJOR:MINOR, root, mount point, … - type source options
        let words: Vec<&str> = line.split(' ').collect();
        let source = words.iter().position(|w| *w == "-").and_then(|at| words.get(at + 2));
        let by_number = words.get(2).is_some_and(|n| numbers.iter().any(|m| m == n));
        if by_number || source.is_some_and(|s| is_ours(s)) {
            disk.mounts.extend(words.get(4).map(|p| p.replace("\\040", " ")));
        }
    }
    let swaps = fs::read_to_string(below(root, Path::new("/proc/swaps"))).unwrap_or_default();
    for line in swaps.lines().skip(1) {
        if let Some(name) = line.split_whitespace().next().filter(|n| is_ours(n)) {
            disk.users.push(format!("swap on {name}"));
        }
    }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Whether `bytes` may be written to it; `fixed`: also where it cannot be taken out.
pub fn judge(disk: &Disk, bytes: u64, fixed: bool) -> Result<()> {
    let no = |reason: String, hint: &str| {
        Err(TargetError::Content { path: disk.path.clone(), reason, hint: hint.into() })
    };
    if let Some(whole) = &disk.part_of {
        return no(
            format!("this is a partition; an image takes a whole disk, here /dev/{whole}"),
            "lsblk shows which disk it is",
        );
    }
    let system = ["/", "/usr", "/boot", "/boot/efi", "/home", "/var"];
    if let Some(mount) = disk.mounts.iter().find(|m| system.contains(&m.as_str())) {
        return no(
            format!("this is the disk of this system ({mount} is on it)"),
            "lsblk lists disks",
        );
    }
    if let Some(mount) = disk.mounts.first() {
        return no(
            format!("it is mounted ({mount})"),
            &format!("umount {mount}, if it is the right one"),
        );
    }
    if let Some(user) = disk.users.first() {
        return no(format!("it is in use ({user})"), "lsblk shows by what");
    }
    if !disk.removable && !fixed {
        return no(
            "it is not a card or stick that can be taken out".into(),
            "lsblk shows which is which; --fixed writes to it all the same",
        );
    }
    if disk.bytes == 0 {
        return no("there is no card in it".into(), "insert one, or name another device");
    }
    if disk.read_only {
        return no("it is write-protected".into(), "look at the switch of the card");
    }
    if disk.bytes < bytes {
        return no(
            format!("it has {} MiB, the image {} MiB", disk.bytes >> 20, bytes >> 20),
            "take a larger card",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A machine with a system disk sda (a partition with /, one encrypted) and a reader sdb with a card.
    fn machine() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (name, dev, size, removable) in [
            ("sda", "8:0", "1000000", "0"),
            ("sdb", "8:16", "2000000", "1"),
            ("mmcblk0", "179:0", "900", "0"),
        ] {
            put(&format!("sys/devices/{name}/dev"), dev);
            put(&format!("sys/devices/{name}/size"), size);
            put(&format!("sys/devices/{name}/removable"), removable);
            put(&format!("sys/devices/{name}/ro"), "0");
            put(&format!("dev/{name}"), "");
            fs::create_dir_all(dir.path().join("sys/class/block")).unwrap();
            symlink(
                format!("../../devices/{name}"),
                dir.path().join(format!("sys/class/block/{name}")),
            )
            .unwrap();
        }
        put("sys/devices/sdb/device/model", "Card Reader \n");
        put("sys/devices/mmcblk0/device/type", "SD\n");
        for (disk, part, dev) in
            [("sda", "sda1", "8:1"), ("sda", "sda2", "8:2"), ("sdb", "sdb1", "8:17")]
        {
            put(&format!("sys/devices/{disk}/{part}/partition"), "1");
            put(&format!("sys/devices/{disk}/{part}/dev"), dev);
            put(&format!("dev/{part}"), "");
            symlink(
                format!("../../devices/{disk}/{part}"),
                dir.path().join(format!("sys/class/block/{part}")),
            )
            .unwrap();
        }
        put("sys/devices/sda/sda2/holders/dm-0/x", "");
        put("proc/self/mountinfo", "22 1 8:1 / / rw,noatime shared:1 - ext4 /dev/sda1 rw\n");
        put("proc/swaps", "Filename Type Size Used Priority\n");
        dir
    }

    fn verdict(dir: &tempfile::TempDir, device: &str, bytes: u64, fixed: bool) -> String {
        let disk = examine(dir.path(), Path::new(device)).map_err(|e| e.to_string());
        let judged = disk.and_then(|d| judge(&d, bytes, fixed).map_err(|e| e.to_string()));
        match judged {
            Ok(()) => "yes".into(),
            Err(no) => {
                no.replace(&format!("{}", fs::canonicalize(dir.path()).unwrap().display()), "")
            }
        }
    }

    #[test]
    fn only_a_free_card_that_is_large_enough_may_be_written() {
        let dir = machine();
        let mib = 1 << 20;
        assert_eq!(verdict(&dir, "/dev/sdb", 300 * mib, false), "yes");
        assert_eq!(verdict(&dir, "/dev/mmcblk0", 900 * 512, false), "yes");
        assert_eq!(
            verdict(&dir, "/dev/sdb", 3000 * mib, false),
            "/dev/sdb: it has 976 MiB, the image 3000 MiB"
        );
        let system = "/dev/sda: this is the disk of this system (/ is on it)";
        assert_eq!(verdict(&dir, "/dev/sda", mib, false), system);
        assert_eq!(verdict(&dir, "/dev/sda", mib, true), system);
        assert_eq!(
            verdict(&dir, "/dev/sdb1", mib, false),
            "/dev/sdb1: this is a partition; an image takes a whole disk, here /dev/sdb"
        );
        assert!(verdict(&dir, "/dev/sdz", mib, false).contains("No such file"));
        assert!(verdict(&dir, "/proc/swaps", mib, false).contains("this is not a disk"));
    }

    #[test]
    fn another_card_or_disk_under_the_same_name_is_noticed() {
        let dir = machine();
        let put = |path: &str, text: &str| fs::write(dir.path().join(path), text).unwrap();
        put("sys/devices/sdb/diskseq", "7\n");
        let look = || examine(dir.path(), Path::new("/dev/sdb")).unwrap();
        let shown = look();
        assert_eq!((shown.number.as_str(), shown.sequence), ("8:16", Some(7)));
        shown.same(&look()).unwrap();
        for (file, other, back, words) in [
            ("diskseq", "8", "7", "its medium (diskseq) was 7 and is 8; nothing was written"),
            ("size", "4000000", "2000000", "its size was 1024000000 bytes and is 2048000000"),
            (
                "device/model",
                "Disk",
                "Card Reader",
                "its model was \"Card Reader\" and is \"Disk\"",
            ),
            ("dev", "8:32", "8:16", "its device number was 8:16 and is 8:32"),
        ] {
            put(&format!("sys/devices/sdb/{file}"), other);
            let error = shown.same(&look()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            put(&format!("sys/devices/sdb/{file}"), back);
        }
        shown.same(&look()).unwrap();
    }

    #[test]
    fn a_file_with_the_name_of_a_disk_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = names(Path::new("/sys/class/block")).pop() else { return };
        let file = dir.path().join(&disk);
        fs::write(&file, vec![0; 1 << 20]).unwrap();
        let error = examine(Path::new("/"), &file).unwrap_err().to_string();
        assert!(error.contains("this is not a disk"), "{disk}: {error}");
    }

    #[test]
    fn whatever_uses_it_keeps_it() {
        let dir = machine();
        let put = |path: &str, text: &str| fs::write(dir.path().join(path), text).unwrap();
        put("proc/self/mountinfo", "30 1 0:40 / /media/my\\040card rw - btrfs /dev/sdb1 rw\n");
        assert_eq!(verdict(&dir, "/dev/sdb", 1, false), "/dev/sdb: it is mounted (/media/my card)");
        assert_eq!(verdict(&dir, "/dev/sda", 1, true), "/dev/sda: it is in use (dm-0)");
        put("proc/self/mountinfo", "");
        put("proc/swaps", "Filename Type\n/dev/sdb1 partition 1 0 -2\n");
        assert_eq!(
            verdict(&dir, "/dev/sdb", 1, false),
            "/dev/sdb: it is in use (swap on /dev/sdb1)"
        );
        put("proc/swaps", "");
        put("sys/devices/sdb/removable", "0");
        assert_eq!(
            verdict(&dir, "/dev/sdb", 1, false),
            "/dev/sdb: it is not a card or stick that can be taken out"
        );
        assert_eq!(verdict(&dir, "/dev/sdb", 1, true), "yes");
        put("sys/devices/sdb/ro", "1");
        assert_eq!(verdict(&dir, "/dev/sdb", 1, true), "/dev/sdb: it is write-protected");
        put("sys/devices/sdb/size", "0");
        assert_eq!(verdict(&dir, "/dev/sdb", 1, true), "/dev/sdb: there is no card in it");
        let disk = examine(dir.path(), Path::new("/dev/sdb")).unwrap();
        assert_eq!(
            (disk.model.as_str(), disk.partitions),
            ("Card Reader", vec!["sdb1".to_owned()])
        );
    }
}
