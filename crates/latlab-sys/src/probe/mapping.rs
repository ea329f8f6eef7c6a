//! Page faults and mappings.

use super::{Calling, ParamSpec, Probe, ProbeError, Setting, Spec};
use latlab_model::finding::Note;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::fs::File;

/// The kernel maps this much of a file round a fault, if it is in the page cache (fault_around_bytes).
const AROUND: usize = 64 << 10;
/// Faults a batch, at the most: 4 MiB of anonymous memory, 16 MiB of a file.
const ANONYMOUS_MAX: u64 = 1024;
const FILE_MAX: u64 = 256;

const SIZE: ParamSpec = ParamSpec {
    name: "size",
    what: "bytes that are mapped",
    default: &["1M"],
    full: &["512K", "1M", "4M", "16M"],
};

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new("memory.page-fault", "first write to an anonymous page", "", anonymous),
    Spec::new(
        "memory.page-fault-file",
        "a fault on a cached file (it maps the 64 KiB around)",
        "lat_pagefault",
        of_file,
    ),
    Spec::new(
        "memory.mmap",
        "mmap() of a cached file, a read in each page, munmap()",
        "lat_mmap",
        map_file,
    )
    .with(&[SIZE]),
];

/// A mapping that is undone when dropped.
#[derive(Debug)]
pub(crate) struct Map {
    start: *mut u8,
    length: usize,
}

impl Map {
    /// Anonymous memory, not yet touched, in small pages.
    pub(crate) fn anonymous(length: usize) -> Result<Self, ProbeError> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), length, rights, MapFlags::PRIVATE) };
        let map = Self { start: start.calling("mmap")?.cast(), length };
        // SAFETY: the mapping just made. A kernel without huge pages refuses, which is as good.
        let _ = unsafe { madvise(map.start.cast(), length, Advice::LinuxNoHugepage) };
        Ok(map)
    }

    /// A file, to be read.
    pub(crate) fn file(file: &File, length: usize) -> Result<Self, ProbeError> {
        // SAFETY: as above; the file is ours and is not shortened while it is mapped.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0)
        };
        Ok(Self { start: start.calling("mmap")?.cast(), length })
    }

    /// Reads one byte in every `step`.
    fn read_every(&self, step: usize) {
        for offset in (0..self.length).step_by(step) {
            // SAFETY: the offset is within the mapping, which is readable.
            unsafe { self.start.add(offset).read_volatile() };
        }
    }

    /// Everything in it, as words.
    pub(crate) fn words(&self) -> &[u64] {
        // SAFETY: mapped, readable, aligned to a page, as long as `self` is alive.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length / 8) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made; nothing borrows from it any more.
        let _ = unsafe { munmap(self.start.cast(), self.length) };
    }
}

/// A file of zeros in the page cache.
pub(crate) fn cached_file(setting: &Setting, length: usize) -> Result<File, ProbeError> {
    super::fits_memory(&[length])?;
    let path = setting.file("cached");
    std::fs::write(&path, vec![0u8; length]).calling("writing a file")?;
    File::open(&path).calling("open")
}

struct Anonymous {
    map: Option<Map>,
}

impl Probe for Anonymous {
    fn before_batch(&mut self) -> Result<(), ProbeError> {
        self.map = None;
        let length = ANONYMOUS_MAX as usize * rustix::param::page_size();
        self.map = Some(Map::anonymous(length)?);
        Ok(())
    }
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        let Some(map) = &self.map else { return Ok(()) };
        let page = rustix::param::page_size();
        for i in 0..n.min(ANONYMOUS_MAX) {
            // SAFETY: page `i` of ANONYMOUS_MAX that were mapped.
            unsafe { map.start.add(i as usize * page).write_volatile(1) };
        }
        Ok(())
    }
    fn after_batch(&mut self) -> Result<(), ProbeError> {
        self.map = None;
        Ok(())
    }
    fn batch_max(&self) -> Option<u64> {
        Some(ANONYMOUS_MAX)
    }
}

fn anonymous(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    Ok(Box::new(Anonymous { map: None }))
}

struct OfFile {
    file: File,
    map: Option<Map>,
}

impl Probe for OfFile {
    fn before_batch(&mut self) -> Result<(), ProbeError> {
        self.map = Some(Map::file(&self.file, AROUND * FILE_MAX as usize)?);
        Ok(())
    }
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        let Some(map) = &self.map else { return Ok(()) };
        for i in 0..n.min(FILE_MAX) {
            // SAFETY: window `i` of FILE_MAX that were mapped.
            unsafe { map.start.add(i as usize * AROUND).read_volatile() };
        }
        Ok(())
    }
    fn after_batch(&mut self) -> Result<(), ProbeError> {
        self.map = None;
        Ok(())
    }
    fn batch_max(&self) -> Option<u64> {
        Some(FILE_MAX)
    }
    fn notes(&self) -> Vec<Note> {
        vec![Note::new("probe.fault-around")]
    }
}

fn of_file(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let file = cached_file(setting, AROUND * FILE_MAX as usize)?;
    Ok(Box::new(OfFile { file, map: None }))
}

fn map_file(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let length = setting.size("size")?;
    if length == 0 {
        return Err(setting.bad("size", "more than 0"));
    }
    let file = cached_file(setting, length)?;
    super::repeat(move || {
        Map::file(&file, length)?.read_every(rustix::param::page_size());
        Ok(())
    })
}
