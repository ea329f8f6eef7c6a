//! The image while it is written: under a name of its own, which only a whole image loses.

use super::ids::{Ids, hex};
use super::mbr::{self, ALIGNMENT, Partition, SECTOR};
use super::{Manifest, write};
use latlab_target::{Result, TargetError};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The output while it is not finished: removed unless it becomes whole.
#[derive(Debug)]
pub(super) struct Part {
    file: File,
    path: PathBuf,
    output: PathBuf,
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Part {
    pub(super) fn create(output: &Path) -> Result<Self> {
        if fs::metadata(output).is_ok_and(|m| !m.is_file()) {
            return Err(TargetError::Content {
                path: output.to_path_buf(),
                reason: "this is not an ordinary file".into(),
                hint: "build to a file first; latlab image write puts it on a card".into(),
            });
        }
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        let path = output.with_file_name(format!(".{name}.part"));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&path)
            .map_err(TargetError::file(&path))?;
        // What an interrupted build left is a file of ours under this name alone.
        let meta = file.metadata().map_err(TargetError::file(&path))?;
        let ours = meta.uid() == rustix::process::geteuid().as_raw();
        if !(meta.is_file() && meta.nlink() == 1 && ours) {
            return Err(TargetError::Content {
                path,
                reason:
                    "it is there already, and not what an interrupted build of this user leaves"
                        .into(),
                hint: "remove it, or give -o another folder".into(),
            });
        }
        if file.try_lock().is_err() {
            return Err(TargetError::Content {
                path: output.to_path_buf(),
                reason: "another latlab is building it".into(),
                hint: "wait for it, or give -o another name".into(),
            });
        }
        // What an interrupted build left is overwritten.
        file.set_len(0).map_err(TargetError::file(&path))?;
        Ok(Self { file, path, output: output.to_path_buf() })
    }

    /// Table, bytes outside of partitions, boot partition, root; holes stay holes. Size and checksum.
    pub(super) fn assemble(
        &mut self,
        ids: &Ids,
        boot: &[u8],
        raws: &[(u64, Vec<u8>)],
        system: &Path,
        bytes: u64,
    ) -> Result<(u64, String)> {
        let boot_sectors = boot.len() as u64 / SECTOR;
        let root_start = (ALIGNMENT + boot_sectors).next_multiple_of(ALIGNMENT);
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let table = mbr::write(
            ids.disk,
            &[
                Partition {
                    active: true,
                    kind: mbr::TYPE_FAT32,
                    start: number(ALIGNMENT),
                    sectors: number(boot_sectors),
                },
                Partition {
                    active: false,
                    kind: mbr::TYPE_LINUX,
                    start: number(root_start),
                    sectors: number(bytes / SECTOR),
                },
            ],
        );
        let mut head = vec![0; (root_start * SECTOR) as usize];
        head[..512].copy_from_slice(&table);
        for (offset, data) in raws {
            let at = *offset as usize;
            head[at..at + data.len()].copy_from_slice(data);
        }
        let at = (ALIGNMENT * SECTOR) as usize;
        head[at..at + boot.len()].copy_from_slice(boot);
        let root = File::open(system).map_err(TargetError::file(system))?;
        let file = TargetError::file(&self.path);
        let total = root_start * SECTOR + bytes;
        let mut sparse = write::Sparse::new(&self.file);
        let mut hash = Sha256::new();
        (|| {
            let mut chunk = vec![0; 1 << 20];
            // The checksum is that of the whole file, also where the file system is shorter than its partition.
            let mut source = head.as_slice().chain(root).chain(io::repeat(0)).take(total);
            loop {
                let n = write::fill(&mut source, &mut chunk)?;
                if n == 0 {
                    break;
                }
                hash.update(&chunk[..n]);
                sparse.write(&chunk[..n])?;
            }
            self.file.set_len(total)?;
            self.file.sync_all()
        })()
        .map_err(file)?;
        Ok((total, hex(&hash.finalize())))
    }

    /// The image's beginning up to the end of the boot partition.
    pub(super) fn head(&self, boot: usize) -> Result<Vec<u8>> {
        let file = File::open(&self.path).map_err(TargetError::file(&self.path))?;
        let mut head = Vec::new();
        let bytes = ALIGNMENT * SECTOR + boot as u64;
        file.take(bytes).read_to_end(&mut head).map_err(TargetError::file(&self.path))?;
        Ok(head)
    }

    /// Gives the image its name, and beside it `IMAGE.sha256` and `IMAGE.json`.
    pub(super) fn finish(self, manifest: &Manifest) -> Result<()> {
        let beside = |suffix: &str| {
            let mut name = self.output.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        let sums = beside(".sha256");
        new_file(&sums)
            .and_then(|mut f| writeln!(f, "{}  {}", manifest.sha256, manifest.image))
            .map_err(TargetError::file(&sums))?;
        let list = beside(".json");
        let out = new_file(&list).map_err(TargetError::file(&list))?;
        let mut out = BufWriter::new(out);
        serde_json::to_writer_pretty(&mut out, manifest)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out))
            .and_then(|()| out.flush())
            .map_err(TargetError::file(&list))?;
        fs::rename(&self.path, &self.output).map_err(TargetError::file(&self.output))
    }
}

/// A new file in the place of an old one, through which no link leads to another.
fn new_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => File::create_new(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_leads_an_image_to_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let (output, other) = (dir.path().join("sd.img"), dir.path().join("other"));
        let part = dir.path().join(".sd.img.part");
        fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, &part).unwrap();
        assert!(matches!(Part::create(&output), Err(TargetError::File { .. })));
        fs::remove_file(&part).unwrap();
        fs::hard_link(&other, &part).unwrap();
        let error = Part::create(&output).unwrap_err().to_string();
        assert!(error.contains("not what an interrupted build of this user leaves"), "{error}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
        std::os::unix::fs::symlink(&other, dir.path().join("list")).unwrap();
        new_file(&dir.path().join("list")).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
        // What an interrupted build has left is taken over.
        fs::remove_file(&part).unwrap();
        fs::write(&part, "half").unwrap();
        assert_eq!(Part::create(&output).unwrap().file.metadata().unwrap().len(), 0);
    }

    #[test]
    fn the_checksum_is_that_of_the_file_also_behind_a_short_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let system = dir.path().join("root.img");
        fs::write(&system, vec![7; 3 << 20]).unwrap();
        let ids = Ids::of(&[1; 32]);
        for bytes in [3 << 20, 4 << 20] {
            let mut part = Part::create(&dir.path().join("sd.img")).unwrap();
            let boot = vec![5; 2 << 20];
            let raws = [(1024, vec![9; 10])];
            let (total, sha256) = part.assemble(&ids, &boot, &raws, &system, bytes).unwrap();
            let written = fs::read(&part.path).unwrap();
            assert_eq!(written.len() as u64, total);
            assert_eq!(total, (3 << 20) + bytes);
            assert_eq!(hex(&Sha256::digest(&written)), sha256);
            assert_eq!(written[1024..1034], [9; 10]);
            assert!(written[6 << 20..].iter().all(|b| *b == 0));
        }
    }
}
