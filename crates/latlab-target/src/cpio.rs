//! Writes initial RAM disks: the `newc` cpio format.
//!
//! Source: Linux, `Documentation/driver-api/early-userspace/buffer-format.rst`:
//! a header of `070701` and thirteen fields of eight hexadecimal digits, the
//! name with its NUL, the data, each padded to four bytes; `TRAILER!!!` ends
//! an archive, and several archives may follow each other. Owner, time and
//! inode are fixed, so that equal content gives equal bytes.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_777;
const CHARACTER: u32 = 0o020_600;

/// An archive that grows in memory.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    inode: u32,
}

impl Archive {
    /// A file; `path` has no leading slash. Directories above it are made.
    pub fn file(&mut self, path: &str, permissions: u32, data: &[u8]) {
        self.parents(path);
        self.entry(path, REGULAR | (permissions & 0o7777), (0, 0), data);
    }

    /// A directory, with those above it; once each.
    pub fn directory(&mut self, path: &str) {
        if self.directories.contains(path) {
            return;
        }
        self.parents(path);
        self.directories.insert(path.to_owned());
        self.entry(path, DIRECTORY, (0, 0), &[]);
    }

    /// A symbolic link.
    pub fn symlink(&mut self, path: &str, to: &str) {
        self.parents(path);
        self.entry(path, SYMLINK, (0, 0), to.as_bytes());
    }

    /// A character device.
    pub fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.parents(path);
        self.entry(path, CHARACTER, (major, minor), &[]);
    }

    /// The archive's bytes, ended and padded so that another may follow.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.directory(parent);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), data: &[u8]) {
        self.inode += 1;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let fields = [
            self.inode,
            mode,
            0,
            0,
            links,
            0,
            data.len() as u32,
            0,
            0,
            device.0,
            device.1,
            path.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn sample() -> Vec<u8> {
        let mut archive = Archive::default();
        archive.file("bin/tool", 0o755, b"#!/bin/sh\n");
        archive.file("bin/odd", 0o640, b"12345");
        archive.symlink("bin/sh", "tool");
        archive.device("dev/console", 5, 1);
        archive.finish()
    }

    #[test]
    fn equal_content_gives_equal_bytes() {
        assert_eq!(sample(), sample());
        assert_eq!(sample().len() % 512, 0);
    }

    #[test]
    fn cpio_reads_it() {
        let Ok(mut child) = Command::new("cpio")
            .args(["-tv", "--quiet", "--numeric-uid-gid"])
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            assert!(std::env::var_os("CI").is_none(), "cpio has to be installed in CI");
            return;
        };
        child.stdin.take().unwrap().write_all(&sample()).unwrap();
        let listing = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let lines: Vec<&str> = listing.lines().collect();
        assert_eq!(lines.len(), 6, "{listing}");
        assert!(lines[0].starts_with("drwxr-xr-x") && lines[0].ends_with("bin"));
        assert!(lines[1].starts_with("-rwxr-xr-x") && lines[1].ends_with("bin/tool"));
        assert!(lines[2].starts_with("-rw-r-----"));
        assert!(lines[3].ends_with("bin/sh -> tool"));
        assert!(lines[5].starts_with("crw-------") && lines[5].contains("5,   1"));
    }
}
