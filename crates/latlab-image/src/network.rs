//! Network boot: what a TFTP server gives to U-Boot, and a root file system for an NFS server.
//!
//! ```text
//! OUTPUT/tftp/pxelinux.cfg/default   kernel, RAM disk, device trees, command line
//! OUTPUT/tftp/vmlinuz, initrd.img, *.dtb
//! OUTPUT/root.tar.gz                 to be unpacked by root where the server exports it
//! OUTPUT/NETWORK.json                what it was built from
//! ```

use crate::ids::hex;
use crate::tree::Tree;
use flate2::{Compression, GzBuilder};
use latlab_target::{Result, TargetError};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "NETWORK.json";
/// The archive of the root file system.
pub(super) const ROOT: &str = "root.tar.gz";

/// Where the root file system will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsRoot {
    /// The server; without it, the one that DHCP names.
    server: Option<Ipv4Addr>,
    path: String,
    options: Option<String>,
}

impl NfsRoot {
    /// Reads `192.168.1.1:/srv/bone`, `:/srv/bone,port=2050`.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |reason: &str| {
            TargetError::Content {
            path: text.into(),
            reason: reason.into(),
            hint: "SERVER:/PATH[,OPTIONS] with the server's IPv4 address, or :/PATH for the server that DHCP names"
                .into(),
        }
        };
        let (server, rest) = text.split_once(':').ok_or_else(|| wrong("no place of a server"))?;
        let server = match server {
            "" => None,
            address => Some(address.parse().map_err(|_| wrong("the server is no IPv4 address"))?),
        };
        let (path, options) = rest.split_once(',').map_or((rest, None), |(p, o)| (p, Some(o)));
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.+=:,".contains(c);
        if !path.starts_with('/') || !rest.chars().all(plain) {
            return Err(wrong("the path begins with /, and has letters, digits and -_.+ only"));
        }
        Ok(Self { server, path: path.to_owned(), options: options.map(str::to_owned) })
    }

    /// Words of the kernel's command line.
    pub(super) fn words(&self) -> String {
        let server = self.server.map(|s| s.to_string()).unwrap_or_default();
        let options = self.options.as_ref().map(|o| format!(",{o}")).unwrap_or_default();
        format!("/dev/nfs nfsroot={server}:{}{options}", self.path)
    }
}

/// The output while it is not finished: removed unless it becomes whole.
#[derive(Debug)]
pub(super) struct Folder {
    part: PathBuf,
    output: PathBuf,
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.part);
    }
}

impl Folder {
    /// Replaces one that was built before, and nothing else.
    ///
    /// # Errors
    /// When there is something else, or it cannot be written there.
    pub fn create(output: &Path) -> Result<Self> {
        let is_empty = fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_none());
        if output.exists() && !is_empty && !output.join(MANIFEST).is_file() {
            return Err(TargetError::Content {
                path: output.to_path_buf(),
                reason: "it is there already, and not a folder for network boot".into(),
                hint: "give -o another name".into(),
            });
        }
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        let part = output.with_file_name(format!(".{name}.part"));
        let _ = fs::remove_dir_all(&part);
        fs::create_dir(&part).map_err(TargetError::file(&part))?;
        Ok(Self { part, output: output.to_path_buf() })
    }

    /// Writes a file below it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, name: &str, data: &[u8]) -> Result<()> {
        let path = self.part.join(name);
        let parent = path.parent().unwrap_or(&self.part);
        fs::create_dir_all(parent).map_err(TargetError::file(parent))?;
        fs::write(&path, data).map_err(TargetError::file(&path))
    }

    /// Writes `root.tar.gz`; its size and checksum.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put_root(&self, root: &Tree) -> Result<(u64, String)> {
        let path = self.part.join(ROOT);
        let out = File::create(&path).map_err(TargetError::file(&path))?;
        let out = Hashing { inner: BufWriter::new(out), hash: Sha256::new(), bytes: 0 };
        let mut gzip = GzBuilder::new().write(out, Compression::new(6));
        root.write_tar(&mut gzip).map_err(TargetError::file(&path))?;
        let mut out = gzip.finish().map_err(TargetError::file(&path))?;
        out.flush().map_err(TargetError::file(&path))?;
        Ok((out.bytes, hex(&out.hash.finalize())))
    }

    /// Writes the description, and puts the folder in its place.
    ///
    /// # Errors
    /// When one of both cannot be done.
    pub fn finish(self, description: &[u8]) -> Result<()> {
        self.put(MANIFEST, description)?;
        if self.output.exists() {
            fs::remove_dir_all(&self.output).map_err(TargetError::file(&self.output))?;
        }
        fs::rename(&self.part, &self.output).map_err(TargetError::file(&self.output))
    }
}

/// Counts and hashes what is written.
struct Hashing<W> {
    inner: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(data)?;
        self.hash.update(&data[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Modules of NFS, and of what a DHCP client reads.
pub(super) fn modules() -> [String; 2] {
    ["af_packet", "nfsv4"].map(str::to_owned)
}

/// What U-Boot's `pxe` reads (U-Boot, `doc/README.pxe`): names are relative to this file's folder's parent.
pub(super) fn menu(
    about: &str,
    (kernel, initrd): (&str, &str),
    line: &str,
    with_trees: bool,
) -> String {
    let trees = if with_trees { "  fdtdir .\n" } else { "" };
    format!(
        "# {about}\ndefault latlab\ntimeout 1\nlabel latlab\n  kernel {kernel}\n  initrd {initrd}\n{trees}  append {line}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_server_are_read() {
        let words = |text: &str| NfsRoot::parse(text).map(|n| n.words()).map_err(|e| e.to_string());
        assert_eq!(words("10.0.2.2:/srv/bone").unwrap(), "/dev/nfs nfsroot=10.0.2.2:/srv/bone");
        assert_eq!(words(":/bone,port=2050").unwrap(), "/dev/nfs nfsroot=:/bone,port=2050");
        assert!(words("server:/bone").unwrap_err().contains("no IPv4 address"));
        assert!(words("/srv/bone").unwrap_err().contains("no place of a server"));
        assert!(words("10.0.2.2:bone").unwrap_err().contains("begins with /"));
        assert!(words("10.0.2.2:/bone init=/bin/sh").unwrap_err().contains("letters, digits"));
    }

    #[test]
    fn only_a_folder_of_ours_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("netboot");
        fs::create_dir(&output).unwrap();
        fs::write(output.join("thesis.txt"), "x").unwrap();
        let error = Folder::create(&output).unwrap_err().to_string();
        assert!(error.contains("not a folder for network boot"), "{error}");
        fs::write(output.join(MANIFEST), "{}").unwrap();
        let folder = Folder::create(&output).unwrap();
        folder.put("tftp/vmlinuz", b"k").unwrap();
        folder.finish(b"{}").unwrap();
        assert!(output.join("tftp/vmlinuz").is_file() && !output.join("thesis.txt").exists());
        drop(Folder::create(&output).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
