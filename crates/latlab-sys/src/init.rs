//! What process 1 of a virtual machine does to its kernel: mount, load modules, name, clock, power off.
//!
//! Only the agent calls this, in a machine that was started for it.

use rustix::mount::{MountFlags, mount};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::Path;

/// `MODULE_INIT_COMPRESSED_FILE`: the kernel unpacks the module itself (Linux 5.17 and later).
const COMPRESSED: i32 = 4;

/// Mounts a file system without a device (`proc`, `sysfs`, `tmpfs`…); the folder is made.
pub fn mount_virtual(kind: &str, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    mount(kind, folder, kind, MountFlags::empty(), None)?;
    Ok(())
}

/// Loads a module; one that is there already is no error.
pub fn load_module(path: &Path, parameters: &str) -> io::Result<()> {
    let file = File::open(path)?;
    let compressed = path.extension().is_some_and(|e| e != "ko");
    let parameters = CString::new(parameters)?;
    let flags = if compressed { COMPRESSED } else { 0 };
    match rustix::system::finit_module(&file, &parameters, flags) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        result => Ok(result?),
    }
}

/// Names the machine.
pub fn set_hostname(name: &str) -> io::Result<()> {
    Ok(rustix::system::sethostname(name.as_bytes())?)
}

/// Sets the wall clock to seconds since 1970.
pub fn set_clock(seconds: u64) -> io::Result<()> {
    let time =
        rustix::time::Timespec { tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX), tv_nsec: 0 };
    Ok(rustix::time::clock_settime(rustix::time::ClockId::Realtime, time)?)
}

/// The kernel's release, as `uname -r`.
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Writes what is pending and turns the machine off; returns only if that is refused.
pub fn power_off() -> io::Error {
    rustix::fs::sync();
    match rustix::system::reboot(rustix::system::RebootCommand::PowerOff) {
        Err(errno) => errno.into(),
        Ok(()) => io::Error::other("the machine is still on"),
    }
}
