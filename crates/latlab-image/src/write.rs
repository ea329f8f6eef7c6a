//! Puts an image on a card, and reads it back.
//!
//! The last partition is made as long as the card while it is written; the
//! system grows its file system into it on the first boot.

use super::device::{self, Disk};
use super::ids::hex;
use super::mbr::{self, SECTOR};
use super::{Hooks, Step};
use latlab_target::{Result, TargetError};
use rustix::fs::{Advice, fadvise};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

const CHUNK: usize = 4 << 20;
/// What is written last: the partition table and what a boot ROM looks for first.
const FIRST: usize = 4096;
/// `O_EXCL`: for a block device, fail if something in the kernel uses it (open(2)).
const EXCLUSIVE: i32 = 0o200;

/// Reads until the buffer is full or the source has ended.
pub(super) fn fill(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match source.read(&mut buffer[n..]) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}

/// Writes to a file and leaves holes where there are only zeros.
pub(super) struct Sparse<'a> {
    file: &'a File,
}

impl<'a> Sparse<'a> {
    pub(super) fn new(file: &'a File) -> Self {
        Self { file }
    }

    pub(super) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        for block in data.chunks(4096) {
            if block.iter().all(|b| *b == 0) {
                self.file.seek(SeekFrom::Current(block.len() as i64))?;
            } else {
                self.file.write_all(block)?;
            }
        }
        Ok(())
    }
}

/// Whether an image is what `IMAGE.sha256` beside it says; its size.
pub fn sound(image: &Path, hooks: &mut dyn Hooks) -> Result<u64> {
    let failed = || TargetError::file(image);
    let mut file = File::open(image).map_err(failed())?;
    let bytes = file.metadata().map_err(failed())?.len();
    let mut first = [0; 512];
    let wrong = |reason: String| TargetError::Content {
        path: image.to_path_buf(),
        reason,
        hint: "latlab image --board NAME builds one".into(),
    };
    let n = fill(&mut file, &mut first).map_err(failed())?;
    if mbr::read(&first[..n]).is_none_or(|(_, partitions)| partitions.is_empty()) {
        return Err(wrong("this is not an image of a card (it has no partition table)".into()));
    }
    let mut name = image.as_os_str().to_owned();
    name.push(".sha256");
    let Ok(sums) = std::fs::read_to_string(&name) else { return Ok(bytes) };
    file.rewind().map_err(failed())?;
    let found = digest(file, bytes, Step::Verifying, "the image", hooks).map_err(failed())?;
    let Some(found) = found else { return Err(TargetError::Stopped) };
    if sums.split_whitespace().next() != Some(&found) {
        return Err(wrong(format!(
            "it is damaged: its checksum is not that of {}",
            name.display()
        )));
    }
    Ok(bytes)
}

/// SHA-256 of an image in hexadecimal digits.
///
/// # Errors
/// When it cannot be read, or a signal asks to stop.
pub fn checksum(image: &Path, bytes: u64, hooks: &mut dyn Hooks) -> Result<String> {
    let file = File::open(image).map_err(TargetError::file(image))?;
    let sum = digest(file, bytes, Step::Verifying, "the image", hooks);
    sum.map_err(TargetError::file(image))?.ok_or(TargetError::Stopped)
}

/// SHA-256 of what can be read, at most `bytes`; `None` if stopped.
fn digest(
    source: impl Read,
    bytes: u64,
    step: Step,
    words: &str,
    hooks: &mut dyn Hooks,
) -> io::Result<Option<String>> {
    let mut source = source.take(bytes);
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut done = 0;
    loop {
        let n = fill(&mut source, &mut chunk)?;
        if n == 0 {
            return Ok(Some(hex(&hash.finalize())));
        }
        if hooks.stopped() {
            return Ok(None);
        }
        hash.update(&chunk[..n]);
        done += n as u64;
        hooks.step(step, Some(done as f64 / bytes.max(1) as f64), words);
    }
}

/// Writes `image` to the disk that was confirmed, syncs, and reads it back. The first block, with
/// the partition table, comes last: a disk that was written in part does not boot.
///
/// # Errors
/// When the opened device is not that disk; nothing is written then. What the devices say.
pub fn write(
    image: &Path,
    confirmed: &Disk,
    root: &Path,
    grow: bool,
    hooks: &mut dyn Hooks,
) -> Result<()> {
    let device = confirmed.path.as_path();
    let failed = || TargetError::file(device);
    let mut source = File::open(image).map_err(TargetError::file(image))?;
    let bytes = source.metadata().map_err(TargetError::file(image))?.len();
    let card = open(device)?;
    // The device is held from here on: what the kernel says of the name now is said of it.
    let real_root = root.canonicalize().map_err(TargetError::file(root))?;
    let shown = Path::new("/").join(device.strip_prefix(real_root).unwrap_or(device));
    let now = device::examine(root, &shown)?;
    confirmed.same(&now)?;
    if !now.is(root, &card.metadata().map_err(failed())?) {
        return Err(TargetError::Content {
            path: device.to_path_buf(),
            reason:
                "what was opened is another disk than the one that was shown; nothing was written"
                    .into(),
            hint: "the same command shows what is there now".into(),
        });
    }
    let room = now.bytes;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut first = Vec::new();
    let mut done = 0;
    loop {
        let n = fill(&mut source, &mut chunk).map_err(TargetError::file(image))?;
        if n == 0 {
            break;
        }
        if hooks.stopped() {
            return Err(TargetError::Stopped);
        }
        if done == 0 && grow {
            grow_last(&mut chunk[..n], room);
        }
        hash.update(&chunk[..n]);
        if done == 0 {
            let block = &mut chunk[..n.min(FIRST)];
            first = block.to_vec();
            block.fill(0);
        }
        (&card).write_all(&chunk[..n]).map_err(failed())?;
        done += n as u64;
        // Otherwise all of it would wait in memory, and the progress be that of the memory.
        card.sync_data().map_err(failed())?;
        hooks.step(Step::Writing, Some(done as f64 / bytes.max(1) as f64), "");
    }
    card.sync_all().map_err(failed())?;
    card.write_all_at(&first, 0).map_err(failed())?;
    card.sync_all().map_err(failed())?;
    // What is in memory is not what is on the card.
    let _ = fadvise(&card, 0, None, Advice::DontNeed);
    (&card).rewind().map_err(failed())?;
    let found = digest(&card, bytes, Step::Verifying, "", hooks).map_err(failed())?;
    match found {
        Some(found) if found == hex(&hash.finalize()) => Ok(()),
        Some(_) => Err(TargetError::Content {
            path: device.to_path_buf(),
            reason: "what was read back is not what was written".into(),
            hint: "the card or its reader is broken".into(),
        }),
        None => Err(TargetError::Stopped),
    }
}

fn open(device: &Path) -> Result<File> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(EXCLUSIVE);
    options.open(device).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => TargetError::Content {
            path: device.to_path_buf(),
            reason: "this user may not write to it".into(),
            hint: "run it with sudo, or as a member of the group disk".into(),
        },
        io::ErrorKind::ResourceBusy => TargetError::Content {
            path: device.to_path_buf(),
            reason: "something uses it".into(),
            hint: "lsblk shows what".into(),
        },
        _ => TargetError::File { path: device.to_path_buf(), reason: source },
    })
}

/// Makes the last partition in the table end where the card does (at a whole MiB, within 2 TiB).
fn grow_last(first: &mut [u8], room: u64) {
    let Some((signature, mut partitions)) = mbr::read(first) else { return };
    let end = (room / SECTOR / mbr::ALIGNMENT * mbr::ALIGNMENT).min(u64::from(u32::MAX));
    let Some(last) = partitions.last_mut() else { return };
    let longer = end.saturating_sub(u64::from(last.start));
    if longer > u64::from(last.sectors) {
        last.sectors = u32::try_from(longer).unwrap_or(u32::MAX);
        let table = mbr::write(signature, &partitions);
        first[440..444].copy_from_slice(&table[440..444]);
        first[446..512].copy_from_slice(&table[446..512]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[derive(Default)]
    struct Counting {
        steps: Vec<(Step, f64)>,
        stop_after: Option<usize>,
    }

    impl Hooks for Counting {
        fn step(&mut self, step: Step, share: Option<f64>, _: &str) {
            self.steps.push((step, share.unwrap_or(0.0)));
        }
        fn say(&mut self, _: &str) {}
        fn stopped(&self) -> bool {
            self.stop_after.is_some_and(|n| self.steps.len() >= n)
        }
        fn tie(&self, _: &mut Command) {}
    }

    /// A card of this content, as the file `dev/card` of a machine in a folder.
    fn card(dir: &Path, content: &[u8]) -> Disk {
        let class = dir.join("sys/class/block/card");
        fs::create_dir_all(&class).unwrap();
        fs::create_dir_all(dir.join("dev")).unwrap();
        fs::write(dir.join("dev/card"), content).unwrap();
        fs::write(class.join("dev"), "8:16\n").unwrap();
        fs::write(class.join("size"), (content.len() / 512).to_string()).unwrap();
        device::examine(dir, Path::new("/dev/card")).unwrap()
    }

    fn image(dir: &Path) -> std::path::PathBuf {
        let parts = [
            mbr::Partition { active: true, kind: 12, start: 2048, sectors: 2048 },
            mbr::Partition { active: false, kind: 0x83, start: 4096, sectors: 20_480 },
        ];
        let mut bytes = mbr::write(7, &parts).to_vec();
        bytes.resize(12 << 20, 5);
        let path = dir.join("sd.img");
        fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn the_card_has_the_image_and_the_last_partition_reaches_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let (image, disk) = (image(dir.path()), card(dir.path(), &vec![9; 64 << 20]));
        let mut hooks = Counting::default();
        write(&image, &disk, dir.path(), true, &mut hooks).unwrap();
        let (card, image) = (fs::read(&disk.path).unwrap(), fs::read(image).unwrap());
        assert!(
            card[512..image.len()] == image[512..] && card[image.len()..].iter().all(|b| *b == 9)
        );
        let (signature, parts) = mbr::read(&card).unwrap();
        assert_eq!((signature, parts[0].sectors, parts[1].sectors), (7, 2048, (64 << 11) - 4096));
        assert!(
            hooks.steps.contains(&(Step::Writing, 1.0))
                && hooks.steps.contains(&(Step::Verifying, 1.0))
        );
    }

    #[test]
    fn a_stop_is_heard_and_a_damaged_image_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (image, disk) = (image(dir.path()), card(dir.path(), &vec![1; 16 << 20]));
        let mut hooks = Counting { stop_after: Some(1), ..Counting::default() };
        let error = write(&image, &disk, dir.path(), false, &mut hooks).unwrap_err();
        assert!(matches!(error, TargetError::Stopped));
        let written = fs::read(&disk.path).unwrap();
        assert!(written[..FIRST].iter().all(|b| *b == 0), "what is half written does not boot");
        assert_eq!((written[FIRST], written[8 << 20]), (5, 1));
        let mut hooks = Counting::default();
        assert_eq!(sound(&image, &mut hooks).unwrap(), 12 << 20);
        fs::write(dir.path().join("sd.img.sha256"), "00  sd.img\n").unwrap();
        assert!(sound(&image, &mut hooks).unwrap_err().to_string().contains("it is damaged"));
        fs::write(&image, b"not an image").unwrap();
        assert!(
            sound(&image, &mut hooks).unwrap_err().to_string().contains("not an image of a card")
        );
    }

    #[test]
    fn another_card_than_the_confirmed_one_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let (image, mut disk) = (image(dir.path()), card(dir.path(), &vec![9; 16 << 20]));
        disk.bytes += 512;
        let error = write(&image, &disk, dir.path(), true, &mut Counting::default()).unwrap_err();
        assert!(error.to_string().contains("this is another disk"), "{error}");
        assert!(fs::read(&disk.path).unwrap().iter().all(|b| *b == 9));
    }

    #[test]
    fn zeros_become_holes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let file = File::create(&path).unwrap();
        let mut sparse = Sparse::new(&file);
        let mut data = vec![0; 1 << 20];
        data[500_000] = 1;
        sparse.write(&data).unwrap();
        file.set_len(1 << 20).unwrap();
        assert!(fs::read(&path).unwrap() == data);
        use std::os::unix::fs::MetadataExt;
        assert!(fs::metadata(&path).unwrap().blocks() < 100);
    }
}
