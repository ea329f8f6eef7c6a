//! The compiler for kernels and their modules.

use super::find_program;
use crate::Arch;

/// The words by which the kernel's build knows an architecture and its compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// `ARCH`.
    pub arch: &'static str,
    /// `CROSS_COMPILE`; empty for the host's own compiler.
    pub prefix: &'static str,
    /// Debian's package.
    pub package: &'static str,
}

impl Compiler {
    /// The host's own one for its own architecture, otherwise Debian's cross compiler.
    pub fn of(arch: Arch) -> Self {
        let (name, prefix, package) = match arch {
            Arch::Armv7 => ("arm", "arm-linux-gnueabihf-", "gcc-arm-linux-gnueabihf"),
            Arch::Aarch64 => ("arm64", "aarch64-linux-gnu-", "gcc-aarch64-linux-gnu"),
            Arch::X86_64 => ("x86", "x86_64-linux-gnu-", "gcc-x86-64-linux-gnu"),
        };
        let native = arch.name() == std::env::consts::ARCH
            || find_program(&format!("{prefix}gcc")).is_none() && arch == Arch::X86_64;
        Self { arch: name, prefix: if native { "" } else { prefix }, package }
    }

    /// Name of the compiler's program.
    pub fn program(&self) -> String {
        format!("{}gcc", self.prefix)
    }

    /// Arguments of make.
    pub fn arguments(&self) -> [String; 2] {
        [format!("ARCH={}", self.arch), format!("CROSS_COMPILE={}", self.prefix)]
    }
}
