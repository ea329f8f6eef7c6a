//! The file system: files made and removed, a byte made durable, a cached file read again.

use super::mapping::{Map, cached_file};
use super::syscall::{read, write};
use super::{Calling, ParamSpec, Probe, ProbeError, Setting, Spec};
use latlab_model::record::Unit;
use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Files of a batch, at the most.
const FILES_MAX: u64 = 200;
/// Bytes of a read: what lmbench's users know.
const BLOCK: usize = 64 << 10;

const SIZE: ParamSpec = ParamSpec {
    name: "size",
    what: "bytes in each file",
    default: &["0", "10K"],
    full: &["0", "1K", "4K", "10K"],
};
const LENGTH: ParamSpec = ParamSpec {
    name: "size",
    what: "bytes of the file",
    default: &["16M"],
    full: &["1M", "16M", "64M"],
};

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new("fs.create", "creation and write of a file", "lat_fs", |s| files(s, false))
        .with(&[SIZE]),
    Spec::new("fs.delete", "removal of such a file", "", |s| files(s, true)).with(&[SIZE]),
    Spec::new("fs.fsync", "one byte appended, then fsync()", "", fsync),
    Spec::new("bw.file-read", "a cached file read again, 64 KiB at a time", "bw_file_rd", |s| {
        reread(s, false)
    })
    .with(&[LENGTH])
    .unit(Unit::BytesPerSecond),
    Spec::new("bw.file-open-read", "the same, opened and closed each time", "", |s| {
        reread(s, true)
    })
    .with(&[LENGTH])
    .unit(Unit::BytesPerSecond)
    .full(),
    Spec::new(
        "bw.disk-write",
        "a file written around the page cache (O_DIRECT), 1 MiB at a time, then made durable",
        "lmdd",
        |s| direct(s, true),
    )
    .with(&[LENGTH])
    .unit(Unit::BytesPerSecond)
    .full(),
    Spec::new(
        "bw.disk-read",
        "a file read around the page cache (O_DIRECT), 1 MiB at a time",
        "lmdd",
        |s| direct(s, false),
    )
    .with(&[LENGTH])
    .unit(Unit::BytesPerSecond)
    .full(),
    Spec::new(
        "bw.mmap-read",
        "a cached file read through a mapping made before",
        "bw_mmap_rd",
        mmap_read,
    )
    .with(&[LENGTH])
    .unit(Unit::BytesPerSecond),
];

struct Files {
    names: Vec<PathBuf>,
    content: Vec<u8>,
    delete: bool,
}

impl Files {
    fn create(&self, n: u64) -> Result<(), ProbeError> {
        for name in self.names.iter().take(n as usize) {
            let mut file = File::create(name).calling("creating a file")?;
            if !self.content.is_empty() {
                file.write_all(&self.content).calling("writing a file")?;
            }
        }
        Ok(())
    }

    fn remove(&self) {
        for name in &self.names {
            let _ = std::fs::remove_file(name);
        }
    }
}

impl Probe for Files {
    fn before_batch(&mut self) -> Result<(), ProbeError> {
        self.remove();
        if self.delete { self.create(FILES_MAX) } else { Ok(()) }
    }
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        if !self.delete {
            return self.create(n);
        }
        for name in self.names.iter().take(n as usize) {
            std::fs::remove_file(name).calling("unlink")?;
        }
        Ok(())
    }
    fn after_batch(&mut self) -> Result<(), ProbeError> {
        self.remove();
        Ok(())
    }
    fn batch_max(&self) -> Option<u64> {
        Some(FILES_MAX)
    }
}

fn files(setting: &Setting, delete: bool) -> Result<Box<dyn Probe>, ProbeError> {
    let size = setting.size("size")?;
    super::fits_memory(&[size, FILES_MAX as usize])?;
    let names = (0..FILES_MAX).map(|i| setting.file(&format!("f{i}"))).collect();
    Ok(Box::new(Files { names, content: vec![0; size], delete }))
}

fn fsync(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let file = File::create(setting.file("durable")).calling("creating a file")?;
    super::repeat(move || {
        write(&file, b"x").calling("write")?;
        rustix::fs::fsync(&file).calling("fsync")
    })
}

struct Reread {
    file: File,
    path: PathBuf,
    length: usize,
    buffer: Vec<u8>,
    open: bool,
}

impl Probe for Reread {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            if self.open {
                self.file = File::open(&self.path).calling("open")?;
            } else {
                self.file.seek(SeekFrom::Start(0)).calling("lseek")?;
            }
            while read(&self.file, &mut self.buffer).calling("read")? > 0 {}
        }
        Ok(())
    }
    fn value(&self, ns: f64) -> f64 {
        self.length as f64 * 1e9 / ns
    }
}

fn reread(setting: &Setting, open: bool) -> Result<Box<dyn Probe>, ProbeError> {
    let length = setting.size("size")?;
    let file = cached_file(setting, length)?;
    let path = setting.file("cached");
    Ok(Box::new(Reread { file, path, length, buffer: vec![0; BLOCK], open }))
}

/// Bytes of a direct transfer; a multiple of every sector and of every base page.
const DIRECT: usize = 1 << 20;

struct Direct {
    file: File,
    length: usize,
    /// Its bytes from `aligned` on begin on a page, as the device wants it.
    buffer: Vec<u8>,
    aligned: usize,
    write: bool,
}

impl Probe for Direct {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            self.file.seek(SeekFrom::Start(0)).calling("lseek")?;
            for _ in 0..self.length / DIRECT {
                let block = &mut self.buffer[self.aligned..self.aligned + DIRECT];
                let moved = match self.write {
                    true => write(&self.file, block).calling("write")?,
                    false => read(&self.file, block).calling("read")?,
                };
                if moved != DIRECT {
                    let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                    return Err(short).calling("a direct transfer");
                }
            }
            if self.write {
                rustix::fs::fdatasync(&self.file).calling("fdatasync")?;
            }
        }
        Ok(())
    }
    fn value(&self, ns: f64) -> f64 {
        self.length as f64 * 1e9 / ns
    }
}

fn direct(setting: &Setting, write: bool) -> Result<Box<dyn Probe>, ProbeError> {
    let length = setting.size("size")?;
    if length == 0 || length % DIRECT != 0 {
        return Err(setting.bad("size", "multiples of 1M"));
    }
    let path = setting.file("direct");
    std::fs::write(&path, vec![1u8; DIRECT]).calling("writing a file")?;
    let open =
        std::fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path);
    // EINVAL: a file system in memory, which has nothing to go around.
    let file = open.map_err(|_| ProbeError::unavailable("probe.no-direct"))?;
    let page = rustix::param::page_size();
    let buffer = vec![1; DIRECT + page];
    let aligned = buffer.as_ptr().align_offset(page);
    let mut all = Direct { file, length, buffer, aligned, write: true };
    all.run(1)?;
    Ok(Box::new(Direct { write, ..all }))
}

struct MmapRead(Map);

impl Probe for MmapRead {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            let words = black_box(self.0.words());
            black_box(words.iter().fold(0u64, |sum, &w| sum.wrapping_add(w)));
        }
        Ok(())
    }
    fn value(&self, ns: f64) -> f64 {
        self.0.words().len() as f64 * 8.0 * 1e9 / ns
    }
}

fn mmap_read(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let length = setting.size("size")?;
    let file = cached_file(setting, length)?;
    Ok(Box::new(MmapRead(Map::file(&file, length)?)))
}
