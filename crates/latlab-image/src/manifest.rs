//! The description of a built image, as in `IMAGE.json`.

use crate::check::Check;
use crate::source::{BootLoaderRecord, BuildRecord};
use serde::Serialize;

/// What was built, also the content of `IMAGE.json`.
#[derive(Debug, Serialize)]
pub struct Manifest {
    /// File name of the image.
    pub image: String,
    /// Its size.
    pub bytes: u64,
    /// Its checksum.
    pub sha256: String,
    /// For which board.
    pub board: String,
    /// Processor architecture.
    pub arch: String,
    /// `uname -r`.
    pub kernel: String,
    /// What the kernel was built from, if it was built from source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_build: Option<BuildRecord>,
    /// What U-Boot was built from, if it was built from source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub u_boot_build: Option<BootLoaderRecord>,
    /// Kernel command line.
    pub command_line: String,
    /// The clock, seconds since 1970.
    pub epoch_s: u64,
    /// Checksum of the latlab in it.
    pub latlab_sha256: String,
    /// Debian's package lists from which the packages were chosen.
    pub package_lists: Vec<ListRecord>,
    /// Files of packages with their checksums.
    pub packages: Vec<PackageRecord>,
    /// What the boot partition was checked for.
    pub checks: Vec<CheckRecord>,
}

/// Package lists that one signed file names.
#[derive(Clone, Debug, Serialize)]
pub struct ListRecord {
    /// apt's name of the signed file.
    pub file: String,
    /// Its `Date:`, as the archive wrote it.
    pub date: String,
}

/// A package that went in.
#[derive(Debug, Serialize)]
pub struct PackageRecord {
    /// `name_version_arch.deb`.
    pub file: String,
    /// Checksum.
    pub sha256: String,
}

/// A demand on the boot partition.
#[derive(Debug, Serialize)]
pub struct CheckRecord {
    /// What is demanded.
    pub demand: String,
    /// What was found.
    pub found: String,
    /// Whether it is met.
    pub met: bool,
}

impl From<Check> for CheckRecord {
    fn from(c: Check) -> Self {
        Self { demand: c.demand, found: c.found, met: c.met }
    }
}
