//! Where a command runs: here, on a board over SSH, or in a virtual machine.
//!
//! Nothing here prints: whoever calls hands in a [`Console`] that takes the
//! command's output and what there is to say. External programs do the heavy
//! work and are started with plain arguments: QEMU, the system's OpenSSH,
//! labgrid-client, and Debian's apt for kernels.

#![forbid(unsafe_code)]

mod answer;
mod arch;
pub mod board;
pub mod cache;
pub mod cpio;
pub mod debian;
mod error;
pub mod group;

pub mod initramfs;
pub mod labgrid;
pub mod labgrid_card;
pub mod modules;
pub mod pull;
mod search;
pub mod spec;
pub mod ssh;
pub mod vm;

pub use arch::Arch;
pub use error::TargetError;
pub use spec::Target;

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, TargetError>;

/// Where a command's output and our own remarks go.
pub trait Console {
    /// Bytes of the command's standard output.
    fn stdout(&mut self, bytes: &[u8]) -> std::io::Result<()>;
    /// Bytes of the command's standard error.
    fn stderr(&mut self, bytes: &[u8]) -> std::io::Result<()>;
    /// A remark for the user, without line end.
    fn say(&mut self, remark: &str);
    /// A signal that the user sent us and that the command should get, once each.
    fn signal(&mut self) -> Option<u8>;
}
