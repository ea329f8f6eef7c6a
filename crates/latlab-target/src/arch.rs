//! Processor architectures of targets.

/// Processor architectures that boards and virtual machines have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// 32-bit ARM, hard float.
    Armv7,
    /// 64-bit ARM.
    Aarch64,
    /// 64-bit x86.
    X86_64,
}

impl Arch {
    /// As in the name of our board build.
    pub fn name(self) -> &'static str {
        match self {
            Self::Armv7 => "armv7",
            Self::Aarch64 => "aarch64",
            Self::X86_64 => "x86_64",
        }
    }
    /// As Debian calls it.
    pub fn debian(self) -> &'static str {
        match self {
            Self::Armv7 => "armhf",
            Self::Aarch64 => "arm64",
            Self::X86_64 => "amd64",
        }
    }
    /// From `uname -m`. ARMv6 and earlier are not supported.
    pub fn from_uname(machine: &str) -> Option<Self> {
        match machine {
            "aarch64" | "arm64" => Some(Self::Aarch64),
            "x86_64" | "amd64" => Some(Self::X86_64),
            m if m.starts_with("armv7") || m.starts_with("armv8") => Some(Self::Armv7),
            _ => None,
        }
    }
}
