//! Published results of reference machines.

use serde::{Deserialize, Serialize};

/// A machine whose figures were published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    /// What `--against` calls it.
    pub id: &'static str,
    /// The machine.
    pub machine: &'static str,
    /// Who published it, and how it was measured.
    pub source: &'static str,
    /// The figures.
    pub figures: &'static [Figure],
}

/// Record name, parameters that must agree, value in the record's unit.
pub type Figure = (&'static str, &'static [(&'static str, &'static str)], f64);

/// All of them.
pub const REFERENCES: &[Reference] = &[
    Reference {
        id: "beaglebone-black-2015",
        machine: "BeagleBone Black, AM3358, Cortex-A8 1 GHz, Linux 3.8",
        source: "a 2015 study of Linux on ARM, measured with lmbench-next",
        figures: &[
            ("syscall.getppid", &[], 567.1),
            ("syscall.read", &[], 919.9),
            ("syscall.write", &[], 951.4),
            ("syscall.open-close", &[], 11_538.1),
            ("ipc.unix-stream", &[("size", "1")], 45_262.3),
            ("ipc.unix-stream", &[("size", "64")], 45_975.2),
            ("ipc.unix-stream", &[("size", "512")], 47_188.7),
        ],
    },
    Reference {
        id: "intel-i5-2015",
        machine: "Intel Core i5 (desktop)",
        source: "the machine beside it in the same 2015 study, lmbench-next",
        figures: &[
            ("syscall.getppid", &[], 51.6),
            ("syscall.read", &[], 109.6),
            ("syscall.write", &[], 117.3),
            ("syscall.open-close", &[], 1_037.1),
        ],
    },
    Reference {
        id: "cortex-a8-switch",
        machine: "Cortex-A8, Linux 3.2",
        source: "a published comparison of ways to time a context switch on that core",
        figures: &[
            ("ctx.yield", &[], 2_800.0),
            ("ctx.pipe", &[("class", "other"), ("place", "same")], 8_600.0),
        ],
    },
];

/// A comparison with a published machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Against {
    /// What it is called.
    pub id: String,
    /// The machine.
    pub machine: String,
    /// Who published it, and how it was measured.
    pub source: String,
    /// Figures that both have.
    pub rows: Vec<AgainstRow>,
}

/// One figure of both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AgainstRow {
    /// Name and parameters.
    pub label: String,
    /// Here.
    pub here: f64,
    /// There.
    pub there: f64,
}

/// The reference of this name.
pub fn find(id: &str) -> Option<&'static Reference> {
    REFERENCES.iter().find(|r| r.id == id)
}
