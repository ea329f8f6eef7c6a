//! The kernel's page cache, dentries and inodes: dropped on request.
//!
//! Writing `vm.drop_caches` is an action, not a setting: nothing keeps the value but the file itself, nothing depends
//! on it, and there is nothing to restore (Documentation/admin-guide/sysctl/vm.rst). It is therefore not journalled.

use std::fs;
use std::io;

/// Writes dirty pages to disk and drops what is clean and not in use (`sync; echo 3 > /proc/sys/vm/drop_caches`).
///
/// # Errors
/// EACCES or EROFS where this process may not.
pub fn drop_all() -> io::Result<()> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3")
}
