//! An ext4 file system from a [`Tree`], without root, the same bytes for the same tree.
//!
//! e2fsprogs does it: `mke2fs -d` fills the file system from a folder of plain
//! files of ours, `debugfs` then sets owners, permissions and times, which
//! that folder could not have without root (and whose change times nobody can
//! set). Identifier and hash seed are given, the clock of both is held by
//! E2FSPROGS_FAKE_TIME, and no configuration of the host's is read.

use super::tree::{Kind, Tree};
use latlab_target::{Result, TargetError};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Bytes of a block.
pub const BLOCK: u64 = 4096;
/// Bytes of a block group: as many blocks as one block has bits.
const GROUP: u64 = BLOCK * 8 * BLOCK;
/// A group's tables take 2 MiB at one inode for 16 KiB.
const LAST_GROUP_MIN: u64 = 8 << 20;
const FEATURES: &str = "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,flex_bg,\
    sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum";

/// What else there is to say of the file system.
#[derive(Clone, Debug)]
pub struct Options {
    /// Identifier, as `UUID=` in fstab.
    pub uuid: String,
    /// Label.
    pub label: String,
    /// Bytes that stay free for the system to run in.
    pub free: u64,
    /// Whether it survives a power cut without a check.
    pub journal: bool,
    /// The clock, seconds since 1970.
    pub epoch_s: u64,
}

/// Bytes that a file system of this tree takes, in whole MiB.
pub fn size(tree: &Tree, options: &Options) -> u64 {
    let journal = if options.journal { 16 << 20 } else { 0 };
    let content = tree.bytes(BLOCK);
    // Inodes at one for 16 KiB of 256 bytes, group descriptors, room to grow: 1/32 is enough.
    let inodes = (tree.len() as u64) * 256;
    let used = content + journal + options.free + inodes;
    whole_groups((used + used / 32 + (4 << 20)).next_multiple_of(1 << 20))
}

/// mke2fs leaves out a last block group that has no room for more than its own tables; so there is none.
fn whole_groups(bytes: u64) -> u64 {
    let rest = bytes % GROUP;
    if rest == 0 { bytes } else { bytes - rest + rest.max(LAST_GROUP_MIN) }
}

/// Makes the file system in `image`; `stage` is a folder that does not exist yet, and is removed again.
pub fn make(tree: &Tree, image: &Path, bytes: u64, stage: &Path, options: &Options) -> Result<()> {
    lay_out(tree, stage)?;
    let made = fill(tree, image, bytes, stage, options);
    let removed = fs::remove_dir_all(stage).map_err(TargetError::file(stage));
    made.and(removed)
}

/// Plain files, readable for us: what they really are is set afterwards.
fn lay_out(tree: &Tree, stage: &Path) -> Result<()> {
    fs::create_dir_all(stage).map_err(TargetError::file(stage))?;
    let mut later = Vec::new();
    for (path, node) in tree.iter() {
        let at = stage.join(path);
        match &node.kind {
            Kind::File(data) => fs::write(&at, data),
            Kind::Folder => fs::create_dir_all(&at),
            Kind::Symlink(to) => std::os::unix::fs::symlink(to, &at),
            Kind::Hardlink(to) => {
                later.push((stage.join(to), at));
                continue;
            }
        }
        .map_err(TargetError::file(&at))?;
    }
    for (to, at) in later {
        fs::hard_link(to, &at).map_err(TargetError::file(&at))?;
    }
    Ok(())
}

fn fill(tree: &Tree, image: &Path, bytes: u64, stage: &Path, options: &Options) -> Result<()> {
    let _ = fs::remove_file(image);
    let clock = options.epoch_s.to_string();
    let features =
        if options.journal { FEATURES.to_owned() } else { FEATURES.replace("has_journal,", "") };
    let mut mke2fs = Command::new(tool("mke2fs"));
    mke2fs.env("E2FSPROGS_FAKE_TIME", &clock).env("MKE2FS_CONFIG", "/dev/null");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-i", "16384", "-m", "1"]);
    mke2fs.args(["-O", &features, "-U", &options.uuid, "-L", &options.label, "-e", "remount-ro"]);
    if options.journal {
        mke2fs.args(["-J", "size=16"]);
    }
    let extended = format!(
        "hash_seed={},root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0,nodiscard",
        options.uuid
    );
    mke2fs.args(["-E", &extended, "-d"]).arg(stage).arg(image);
    mke2fs.arg(format!("{}k", bytes / 1024));
    checked(&mut mke2fs, "mke2fs")?;
    let script = stage.with_extension("debugfs");
    fs::write(&script, commands(tree, options.epoch_s)).map_err(TargetError::file(&script))?;
    let mut debugfs = Command::new(tool("debugfs"));
    debugfs.env("E2FSPROGS_FAKE_TIME", &clock).env("DEBUGFS_PAGER", "cat");
    debugfs.arg("-w").arg("-f").arg(&script).arg(image);
    let set = checked(&mut debugfs, "debugfs");
    let _ = fs::remove_file(&script);
    // debugfs goes on after an error and ends well: what it printed tells.
    let complaint = set?.lines().find(|l| !l.starts_with("debugfs")).map(str::to_owned);
    match complaint {
        None => Ok(()),
        Some(message) => Err(failed("debugfs", &message)),
    }
}

/// What debugfs has to set: owner, permissions and times of every path.
fn commands(tree: &Tree, epoch_s: u64) -> String {
    let mut text = String::new();
    let fixed =
        ["lost+found", ""].map(|p| (p, if p.is_empty() { 0o755 } else { 0o700 }, 0, 0, epoch_s));
    let nodes = tree.iter().filter(|(_, n)| !matches!(n.kind, Kind::Hardlink(_)));
    let nodes = nodes.map(|(path, n)| {
        let kind = match n.kind {
            Kind::Folder => 0o040_000,
            Kind::Symlink(_) => 0o120_000,
            Kind::File(_) | Kind::Hardlink(_) => 0o100_000,
        };
        (path, kind | n.mode, n.uid, n.gid, n.mtime_s.min(epoch_s))
    });
    for (path, mode, uid, gid, mtime) in
        nodes.chain(fixed.map(|(p, m, u, g, t)| (p, 0o040_000 | m, u, g, t)))
    {
        for (field, value) in [
            ("mode", format!("0{mode:o}")),
            ("uid", uid.to_string()),
            ("gid", gid.to_string()),
            ("mtime", format!("@{mtime}")),
            ("atime", format!("@{mtime}")),
            ("ctime", format!("@{epoch_s}")),
            ("crtime", format!("@{epoch_s}")),
        ] {
            text.push_str(&format!("sif \"/{path}\" {field} {value}\n"));
        }
    }
    text
}

/// e2fsprogs lives where an ordinary user's PATH does not look.
fn tool(name: &str) -> String {
    let places = ["/usr/sbin", "/sbin"].map(|d| format!("{d}/{name}"));
    places.into_iter().find(|p| Path::new(p).exists()).unwrap_or_else(|| name.to_owned())
}

fn checked(command: &mut Command, program: &str) -> Result<String> {
    let output =
        command.env("LC_ALL", "C").stdin(Stdio::null()).output().map_err(|source| match source
            .kind()
        {
            std::io::ErrorKind::NotFound => TargetError::NoProgram {
                program: program.into(),
                purpose: "making a file system".into(),
                package: "e2fsprogs".into(),
            },
            _ => TargetError::File { path: program.into(), reason: source },
        })?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    Err(failed(program, said.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("no reason given")))
}

fn failed(program: &str, message: &str) -> TargetError {
    TargetError::Program {
        program: program.into(),
        message: message.trim().to_owned(),
        hint: "is the disk full? the cache is XDG_CACHE_HOME/latlab or ~/.cache/latlab".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_size_leaves_a_group_that_mke2fs_would_leave_out() {
        let mib = |n: u64| whole_groups(n << 20) >> 20;
        assert_eq!([1, 8, 100, 128].map(mib), [8, 8, 100, 128]);
        assert_eq!([129, 136, 137, 256, 257, 260].map(mib), [136, 136, 137, 256, 264, 264]);
    }
}
