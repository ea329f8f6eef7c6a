//! System calls on one descriptor or path: read, write, stat, fstat, open and close, record locks.

use super::syscall::{check, device};
use super::{Calling, Probe, ProbeError, Setting, Spec, repeat};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new("syscall.read", "read() of one byte of /dev/zero", "lat_syscall read", read),
    Spec::new("syscall.write", "write() of one byte to /dev/null", "lat_syscall write", write),
    Spec::new("syscall.stat", "stat() of a file in a nested directory", "lat_syscall stat", stat),
    Spec::new(
        "syscall.fstat",
        "fstat() of an open file, as the C library does it",
        "lat_syscall fstat",
        fstat,
    ),
    Spec::new(
        "syscall.open-close",
        "open() and close() of the same file",
        "lat_syscall open",
        open_close,
    ),
    Spec::new(
        "syscall.fcntl-lock",
        "uncontended record lock, acquired and released",
        "",
        fcntl_lock,
    ),
];

fn read(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let file = device("/dev/zero", false)?;
    let mut byte = [0u8; 1];
    repeat(move || super::syscall::read(&file, &mut byte).calling("read").map(drop))
}

fn write(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let file = device("/dev/null", true)?;
    repeat(move || super::syscall::write(&file, &[0]).calling("write").map(drop))
}

/// A file like `/usr/include/linux/types.h`, but on every machine: below `/tmp` or where files are asked for.
fn deep_file(setting: &Setting) -> Result<CString, ProbeError> {
    let dir = setting.file("a/b");
    std::fs::create_dir_all(&dir).calling("mkdir")?;
    let path = dir.join("file");
    std::fs::write(&path, b"latlab\n").calling("writing a file")?;
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| ProbeError::failed("probe.path-zero-byte"))
}

fn stat(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let path = deep_file(setting)?;
    // SAFETY: an all-zero stat is a valid value; the kernel overwrites it.
    let mut buffer: Box<libc::stat> = Box::new(unsafe { std::mem::zeroed() });
    repeat(move || {
        // SAFETY: `path` ends in zero, `buffer` is a whole stat; both outlive the call.
        let r = unsafe { libc::stat(path.as_ptr(), &mut *buffer) };
        check("stat", r.into()).map(drop)
    })
}

fn fstat(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    deep_file(setting)?;
    let file = File::open(setting.file("a/b/file")).calling("open")?;
    // SAFETY: an all-zero stat is a valid value; the kernel overwrites it.
    let mut buffer: Box<libc::stat> = Box::new(unsafe { std::mem::zeroed() });
    repeat(move || {
        // SAFETY: the descriptor is open, `buffer` is a whole stat.
        let r = unsafe { libc::fstat(file.as_raw_fd(), &mut *buffer) };
        check("fstat", r.into()).map(drop)
    })
}

fn open_close(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let path = deep_file(setting)?;
    repeat(move || {
        // SAFETY: `path` ends in zero and outlives the call; the descriptor is nobody else's.
        let closed = unsafe {
            let fd = libc::open(path.as_ptr(), libc::O_RDONLY);
            check("open", fd.into())?;
            libc::close(fd)
        };
        check("close", closed.into()).map(drop)
    })
}

fn fcntl_lock(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let path = setting.file("lock");
    let file = File::create(&path).calling("creating a file")?;
    repeat(move || {
        use rustix::fs::{FlockOperation, fcntl_lock};
        fcntl_lock(&file, FlockOperation::LockExclusive).calling("fcntl")?;
        fcntl_lock(&file, FlockOperation::Unlock).calling("fcntl")
    })
}
