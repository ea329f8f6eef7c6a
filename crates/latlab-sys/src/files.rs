//! Small files of a kernel (`/proc`, `/sys`) below a root that tests can put elsewhere.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Larger than any file of `/proc` or `/sys` that is read here, and small enough for a board.
const BYTES_MAX: u64 = 8 << 20;

/// Random bytes of the kernel (random(4)).
///
/// # Errors
/// Without `/dev/urandom`.
pub fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Where `/` is. Everything that can be read of a machine without a system
/// call is read below it, so that a saved tree stands for a machine.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// This machine.
    pub fn here() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A saved tree.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Whether this is the machine itself.
    pub fn is_here(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The path of `relative` (with or without a leading `/`).
    pub fn path(&self, relative: &str) -> PathBuf {
        self.0.join(relative.trim_start_matches('/'))
    }

    /// Whether there is such a file or directory, as far as this user may see.
    pub fn exists(&self, relative: &str) -> bool {
        self.path(relative).exists()
    }

    /// The bytes of a file, at most 8 MiB of it; `None` when it cannot be read.
    pub fn bytes(&self, relative: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path(relative)).ok()?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The text of a file without the white space and NUL at its ends; `None` when it cannot be read.
    pub fn text(&self, relative: &str) -> Option<String> {
        let bytes = self.bytes(relative)?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
    }

    /// As [`Root::text`], but `None` for an empty file too.
    pub fn word(&self, relative: &str) -> Option<String> {
        self.text(relative).filter(|t| !t.is_empty())
    }

    /// A file that holds one number.
    pub fn number<T: std::str::FromStr>(&self, relative: &str) -> Option<T> {
        self.text(relative)?.parse().ok()
    }

    /// The names in a directory, sorted; empty when it cannot be read.
    pub fn names(&self, relative: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(relative)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The names in a directory that are `prefix` and a number, sorted by that number.
    pub fn numbered(&self, relative: &str, prefix: &str) -> Vec<(u32, String)> {
        let mut found: Vec<(u32, String)> = (self.names(relative).into_iter())
            .filter_map(|n| Some((n.strip_prefix(prefix)?.parse().ok()?, n)))
            .collect();
        found.sort();
        found
    }
}

/// The text of a file that another user may have put where it is: a regular file of `owner` or root, not reached by a
/// link in its last component, of `most` bytes at most; `None` for any other.
pub fn foreign_text(path: &Path, owner: u32, most: u64) -> Option<String> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > most || meta.uid() != owner && meta.uid() != 0 {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The value of `key` in lines of `key : value` (`/proc/cpuinfo`, `/proc/meminfo`, `/proc/self/status`).
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (k, v) = line.split_once(':')?;
        (k.trim() == key).then(|| v.trim())
    })
}

/// The chosen word of a line like `always [madvise] never` or `none (voluntary) full`.
pub fn chosen(line: &str) -> Option<String> {
    let word = line.split_whitespace().find(|w| w.starts_with(['[', '(']))?;
    Some(word.trim_matches(['[', ']', '(', ')']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_choices() {
        assert_eq!(field("MemTotal:  5 kB\nMemFree: 3 kB", "MemFree"), Some("3 kB"));
        assert_eq!(field("MemTotal:  5 kB", "Mem"), None);
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("none (voluntary) full").as_deref(), Some("voluntary"));
        assert_eq!(chosen("plain"), None);
    }

    #[test]
    fn a_foreign_text_is_a_small_regular_file_of_its_owner() {
        let t = tempfile::tempdir().unwrap();
        let me = rustix::process::geteuid().as_raw();
        let path = t.path().join("perf-1.map");
        fs::write(&path, b"10 8 a\xff\n").unwrap();
        assert_eq!(foreign_text(&path, me, 100).as_deref(), Some("10 8 a\u{fffd}\n"));
        assert_eq!(foreign_text(&path, me, 5), None, "larger");
        std::os::unix::fs::symlink(&path, t.path().join("link")).unwrap();
        assert_eq!(foreign_text(&t.path().join("link"), me, 100), None);
        assert_eq!(foreign_text(t.path(), me, 100), None, "a directory");
        let pipe = t.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(foreign_text(&pipe, me, 100), None, "nobody writes, and it does not wait");
    }

    #[test]
    fn numbered_names_sort_by_number() {
        let t = tempfile::tempdir().unwrap();
        for n in ["cpu10", "cpu2", "cpuidle", "cpu0"] {
            fs::create_dir(t.path().join(n)).unwrap();
        }
        let found: Vec<u32> =
            Root::at(t.path()).numbered("/", "cpu").iter().map(|(n, _)| *n).collect();
        assert_eq!(found, [0, 2, 10]);
    }
}
