//! The virtual machines that there are.

use crate::Arch;

/// One kind of virtual machine: a kernel of Debian's and the machine it runs on.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What the user types.
    pub name: &'static str,
    /// Processor architecture.
    pub arch: Arch,
    /// Debian's package that stands for the newest kernel of this flavour, where there is one.
    pub meta: Option<&'static str>,
    /// How versions of the kernel begin; empty: any.
    pub series: &'static str,
    /// What follows the version in the names of the kernels themselves.
    pub flavour: &'static str,
    /// One line for people.
    pub about: &'static str,
}

/// All of them; the first is the one to try first.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "armv7-rt",
        arch: Arch::Armv7,
        meta: Some("linux-image-rt-armmp"),
        series: "",
        flavour: "-rt-armmp",
        about: "32-bit ARM, PREEMPT_RT",
    },
    Kind {
        name: "armv7",
        arch: Arch::Armv7,
        meta: Some("linux-image-armmp"),
        series: "",
        flavour: "-armmp",
        about: "32-bit ARM, standard kernel",
    },
    Kind {
        name: "aarch64-rt",
        arch: Arch::Aarch64,
        meta: Some("linux-image-rt-arm64"),
        series: "",
        flavour: "-rt-arm64",
        about: "64-bit ARM, PREEMPT_RT",
    },
    Kind {
        name: "x86_64-rt",
        arch: Arch::X86_64,
        meta: Some("linux-image-rt-amd64"),
        series: "",
        flavour: "-rt-amd64",
        about: "64-bit x86, PREEMPT_RT",
    },
    Kind {
        name: "x86_64-rt-6.12",
        arch: Arch::X86_64,
        meta: None,
        series: "6.12.",
        flavour: "-rt-amd64-unsigned",
        about: "64-bit x86, PREEMPT_RT, with fair server and lazy preemption",
    },
    Kind {
        name: "x86_64",
        arch: Arch::X86_64,
        meta: Some("linux-image-amd64"),
        series: "",
        flavour: "-amd64",
        about: "64-bit x86, standard kernel",
    },
];

/// The machine of this name.
pub fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.name == name)
}

/// All names, for a hint.
pub fn names() -> String {
    KINDS.iter().map(|k| k.name).collect::<Vec<_>>().join(", ")
}
