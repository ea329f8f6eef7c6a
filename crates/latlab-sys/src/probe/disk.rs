//! A block device or a file, read only and around the page cache (O_DIRECT): the time of a read over the distance from
//! the one before, and the bandwidth of sequential reads by position, as lmbench's `disk` has them.
//!
//! Distances and positions are percent of the size: on a rotating disk the arm moves by cylinders, and the outer ones
//! have more sectors. Nothing is written; the file is opened for reading only.

use super::{Calling, ParamSpec, Probe, ProbeError, Setting, Spec};
use crate::harness::meter::now_ns;
use latlab_model::record::Unit;
use latlab_stats::rng::SplitMix64;
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};

/// Bytes of a read after a seek: a page, and a whole number of sectors of every disk.
const SECTOR: u64 = 4 << 10;
/// Bytes of a sequential read.
const BLOCK: u64 = 1 << 20;
/// Bytes of the smallest disk, so that each tenth has a block.
const LEAST: u64 = 16 << 20;

const PATH: ParamSpec = ParamSpec {
    name: "path",
    what: "block device or file, which is read only",
    default: &[""],
    full: &[],
};
const DISTANCE: ParamSpec = ParamSpec {
    name: "distance",
    what: "from the read before, percent of the size; each is up to a tenth shorter",
    default: &["0.01", "0.1", "1", "10", "50", "100"],
    full: &[],
};
const POSITION: ParamSpec = ParamSpec {
    name: "position",
    what: "begin of the tenth that is read, percent of the size",
    default: &["0", "10", "20", "30", "40", "50", "60", "70", "80", "90"],
    full: &[],
};

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new("disk.seek", "4 KiB of a disk read at a distance from the read before", "disk", seek)
        .with(&[PATH, DISTANCE])
        .named(),
    Spec::new("disk.read", "a tenth of a disk read in order, 1 MiB at a time", "disk", zone)
        .with(&[PATH, POSITION])
        .unit(Unit::BytesPerSecond)
        .named(),
];

/// What is read, and into what.
struct Disk {
    file: File,
    size: u64,
    /// Its bytes from `aligned` on begin on a page, as the device wants it.
    buffer: Vec<u8>,
    aligned: usize,
    rng: SplitMix64,
}

impl Disk {
    fn open(setting: &Setting, read: u64) -> Result<Self, ProbeError> {
        let path = setting.text("path");
        // Before it is opened: a FIFO without a writer would block.
        let kind = std::fs::metadata(path).calling(path)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(setting.bad("path", "block devices and files"));
        }
        let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(path);
        let mut file = match direct {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                return Err(ProbeError::unavailable("probe.no-direct"));
            }
            file => file.calling(path)?,
        };
        let size = file.seek(SeekFrom::End(0)).calling("lseek")?;
        if size < LEAST {
            return Err(setting.bad("path", "block devices and files of 16 MiB or more"));
        }
        let page = rustix::param::page_size();
        let buffer = vec![0; read as usize + page];
        let aligned = buffer.as_ptr().align_offset(page);
        // Another order in each process: a cache of the disk has what the last one read.
        Ok(Self { file, size, buffer, aligned, rng: SplitMix64::new(now_ns()) })
    }

    /// Percent of the size, in units of `unit` bytes.
    fn percent(&self, setting: &Setting, name: &str, unit: u64) -> Result<u64, ProbeError> {
        let given: Option<f64> = setting.text(name).parse().ok();
        match given.filter(|p| (0.0..=100.0).contains(p)) {
            Some(percent) => Ok((self.size as f64 * percent / 100.0) as u64 / unit),
            None => Err(setting.bad(name, "0 to 100, in percent")),
        }
    }

    fn read(&mut self, at: u64, bytes: u64) -> Result<(), ProbeError> {
        let block = &mut self.buffer[self.aligned..self.aligned + bytes as usize];
        self.file.read_exact_at(block, at).calling("read")
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n.max(1)
    }
}

/// Whether a path can be read so.
///
/// # Errors
/// As the first trial would end.
pub fn check(path: &str) -> Result<(), ProbeError> {
    let params = [("path".to_owned(), path.to_owned())].into();
    let mut disk = Disk::open(&Setting { params, ..Setting::default() }, SECTOR)?;
    disk.read(0, SECTOR)
}

/// Reads that are some way from each other.
struct Seek {
    disk: Disk,
    /// Sectors of the disk, the last read, and the distance, sectors.
    sectors: u64,
    at: u64,
    distance: u64,
}

/// Where the next read is, `distance` from the last one where that is on the disk, in a direction by chance.
fn next(at: u64, distance: u64, sectors: u64, forward: bool) -> u64 {
    let last = sectors - 1;
    let (up, down) = (at + distance <= last, at >= distance);
    match (up, down) {
        (true, true) if forward => at + distance,
        (true, false) => at + distance,
        (_, true) => at - distance,
        // Neither: to the end that is further away.
        (false, false) if at * 2 < last => last,
        (false, false) => 0,
    }
}

impl Probe for Seek {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            let shorter = self.disk.below(self.distance / 10 + 1);
            let forward = self.disk.below(2) == 0;
            self.at = next(self.at, (self.distance - shorter).max(1), self.sectors, forward);
            self.disk.read(self.at * SECTOR, SECTOR)?;
        }
        Ok(())
    }
}

fn seek(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let mut disk = Disk::open(setting, SECTOR)?;
    let sectors = disk.size / SECTOR;
    let distance = disk.percent(setting, "distance", SECTOR)?.clamp(1, sectors - 1);
    let at = disk.below(sectors - distance);
    Ok(Box::new(Seek { disk, sectors, at, distance }))
}

/// A tenth of a disk.
struct Zone {
    disk: Disk,
    /// First block, blocks, and the next one of them.
    first: u64,
    blocks: u64,
    next: u64,
}

impl Probe for Zone {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            self.disk.read((self.first + self.next) * BLOCK, BLOCK)?;
            self.next = (self.next + 1) % self.blocks;
        }
        Ok(())
    }
    fn value(&self, ns: f64) -> f64 {
        BLOCK as f64 * 1e9 / ns
    }
}

fn zone(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let mut disk = Disk::open(setting, BLOCK)?;
    let blocks = disk.size / BLOCK / 10;
    let first = disk.percent(setting, "position", BLOCK)?.min(disk.size / BLOCK - blocks);
    let next = disk.below(blocks);
    Ok(Box::new(Zone { disk, first, blocks, next }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_is_on_the_disk_and_about_as_far_as_asked() {
        let mut rng = SplitMix64::new(1);
        for sectors in [4096u64, 4097, 1 << 30] {
            for percent in [0.01, 1.0, 50.0, 60.0, 100.0] {
                let distance = ((sectors as f64 * percent / 100.0) as u64).clamp(1, sectors - 1);
                let mut at = rng.next_u64() % (sectors - distance);
                for _ in 0..1000 {
                    let d = (distance - rng.next_u64() % (distance / 10 + 1)).max(1);
                    let to = next(at, d, sectors, rng.next_u64() >> 63 == 0);
                    let far = to.abs_diff(at);
                    assert!(to < sectors, "{to} of {sectors}");
                    let least = distance - distance / 10 - 1;
                    assert!((least..=distance).contains(&far), "{far} for {distance} of {sectors}");
                    at = to;
                }
            }
        }
    }
}
