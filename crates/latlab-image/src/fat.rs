//! The boot partition: FAT32, the same bytes for the same files.
//!
//! Files are written one after the other in the order given, so that the first
//! one, which a boot ROM looks for, lies first and in one piece.

use fatfs::{
    Date, DateTime, FatType, FileSystem, FormatVolumeOptions, FsOptions, ReadWriteSeek, Time,
};
use latlab_target::{Result, TargetError};
use std::io::{Cursor, Write};
use std::path::Path;

/// The earliest time that FAT knows, on every file.
#[derive(Debug)]
struct Never;

impl fatfs::TimeProvider for Never {
    fn get_current_date(&self) -> Date {
        Date { year: 1980, month: 1, day: 1 }
    }

    fn get_current_date_time(&self) -> DateTime {
        let time = Time { hour: 0, min: 0, sec: 0, millis: 0 };
        DateTime { date: self.get_current_date(), time }
    }
}

/// A file of the boot partition.
#[derive(Clone, Debug)]
pub struct BootEntry {
    /// Path, with `/`.
    pub to: String,
    /// Content.
    pub data: Vec<u8>,
}

/// The partition's bytes. `id` is the volume's number.
pub fn make(mib: u32, label: &str, id: u32, files: &[BootEntry]) -> Result<Vec<u8>> {
    let content: usize = files.iter().map(|f| f.data.len()).sum();
    // Two allocation tables of 4 bytes for each cluster of 512, and the last cluster of each file.
    let bytes = (mib as usize) << 20;
    let room = bytes - bytes / 64 - files.len() * 1024 - (64 << 10);
    if content > room {
        return Err(TargetError::Content {
            path: "boot partition".into(),
            reason: format!(
                "kernel, RAM disk and loaders are {} MiB, and it has {mib} MiB",
                content.div_ceil(1 << 20)
            ),
            hint: "give the board's file a larger boot.mib".into(),
        });
    }
    let mut volume = [b' '; 11];
    for (to, from) in volume.iter_mut().zip(label.to_ascii_uppercase().bytes()) {
        *to = from;
    }
    let mut disk = Cursor::new(vec![0; bytes]);
    let here = Path::new("boot partition");
    let options = FormatVolumeOptions::new()
        .fat_type(FatType::Fat32)
        .bytes_per_cluster(512)
        .volume_id(id)
        .volume_label(volume);
    fatfs::format_volume(&mut disk, options).map_err(TargetError::file(here))?;
    {
        let options = FsOptions::new().update_accessed_date(false).time_provider(&Never);
        let system = FileSystem::new(&mut disk, options).map_err(TargetError::file(here))?;
        for file in files {
            write(&system, file).map_err(TargetError::file(file.to.as_ref()))?;
        }
        system.unmount().map_err(TargetError::file(here))?;
    }
    Ok(disk.into_inner())
}

fn write<T: ReadWriteSeek>(system: &FileSystem<T>, file: &BootEntry) -> std::io::Result<()> {
    let root = system.root_dir();
    for (i, _) in file.to.match_indices('/') {
        root.create_dir(&file.to[..i])?;
    }
    let mut out = root.create_file(&file.to)?;
    out.truncate()?;
    out.write_all(&file.data)?;
    out.flush()
}

/// A file of a FAT file system.
pub fn read(partition: &[u8], path: &str) -> std::io::Result<Vec<u8>> {
    let mut disk = Cursor::new(partition.to_vec());
    let system = FileSystem::new(&mut disk, FsOptions::new().update_accessed_date(false))?;
    let mut data = Vec::new();
    std::io::Read::read_to_end(&mut system.root_dir().open_file(path)?, &mut data)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<BootEntry> {
        let entry = |to: &str, n: usize| BootEntry { to: to.into(), data: vec![7; n] };
        vec![entry("MLO", 100_000), entry("extlinux/extlinux.conf", 200), entry("vmlinuz", 3 << 20)]
    }

    #[test]
    fn equal_files_give_equal_bytes_that_can_be_read() {
        let one = make(40, "BOOT", 0x1234_5678, &sample()).unwrap();
        assert_eq!(one.len(), 40 << 20);
        assert!(one == make(40, "boot", 0x1234_5678, &sample()).unwrap());
        assert_eq!(read(&one, "extlinux/extlinux.conf").unwrap(), vec![7; 200]);
        assert_eq!(read(&one, "vmlinuz").unwrap().len(), 3 << 20);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let big = vec![BootEntry { to: "x".into(), data: vec![0; 40 << 20] }];
        let error = make(40, "BOOT", 1, &big).unwrap_err();
        assert_eq!(
            error.to_string(),
            "boot partition: kernel, RAM disk and loaders are 40 MiB, and it has 40 MiB"
        );
    }
}
