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
    /// Medians or means that can be compared with results of the same name.
    pub figures: &'static [Figure],
    /// Tables of minimum, mean and maximum under conditions that no name of ours says exactly.
    pub published: &'static [Published],
}

/// A row of a published table, ns. Latencies of a calibrated timer may be negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// What was measured, and under which load.
    pub what: &'static str,
    /// Minimum.
    pub min: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
    /// Standard deviation.
    pub sd: Option<f64>,
    /// Missed deadlines.
    pub missed: Option<u64>,
}

/// Record name, parameters that must agree, value in the record's unit.
pub type Figure = (&'static str, &'static [(&'static str, &'static str)], f64);

/// All of them.
pub const REFERENCES: &[Reference] = &[
    Reference {
        id: "beaglebone-black-2015",
        machine: "BeagleBone Black, AM3358, Cortex-A8 1 GHz, L1 32 KiB, L2 256 KiB, Linux 3.8",
        source: "洪文麟, 蔣亞翰, 邱酩仁, 張家榮, 顧又榮: ARM-Linux, 2015, measured with lmbench-next",
        figures: &[
            ("syscall.getppid", &[], 567.1),
            ("syscall.read", &[], 919.9),
            ("syscall.write", &[], 951.4),
            ("syscall.open-close", &[], 11_538.1),
            ("ipc.unix-stream", &[("size", "1")], 45_262.3),
            ("ipc.unix-stream", &[("size", "2")], 45_311.5),
            ("ipc.unix-stream", &[("size", "3")], 45_524.6),
            ("ipc.unix-stream", &[("size", "4")], 45_409.8),
            ("ipc.unix-stream", &[("size", "5")], 45_541.0),
            ("ipc.unix-stream", &[("size", "6")], 45_570.2),
            ("ipc.unix-stream", &[("size", "7")], 45_524.6),
            ("ipc.unix-stream", &[("size", "8")], 45_787.0),
            ("ipc.unix-stream", &[("size", "10")], 45_500.0),
            ("ipc.unix-stream", &[("size", "12")], 45_528.9),
            ("ipc.unix-stream", &[("size", "16")], 45_715.6),
            ("ipc.unix-stream", &[("size", "20")], 45_669.4),
            ("ipc.unix-stream", &[("size", "24")], 45_752.3),
            ("ipc.unix-stream", &[("size", "32")], 45_787.0),
            ("ipc.unix-stream", &[("size", "48")], 46_157.4),
            ("ipc.unix-stream", &[("size", "64")], 45_975.2),
            ("ipc.unix-stream", &[("size", "96")], 45_909.1),
            ("ipc.unix-stream", &[("size", "128")], 46_096.5),
            ("ipc.unix-stream", &[("size", "196")], 46_268.9),
            ("ipc.unix-stream", &[("size", "256")], 46_443.4),
            ("ipc.unix-stream", &[("size", "384")], 46_655.5),
            ("ipc.unix-stream", &[("size", "512")], 47_188.7),
            // Read from curves: arrays over 1 MiB; strides above the line of 64 bytes are about equal.
            ("memory.load", &[("stride", "16")], 57.0),
            ("memory.load", &[("stride", "32")], 110.0),
            ("memory.load", &[("stride", "64")], 220.0),
            ("memory.load", &[("stride", "128")], 220.0),
        ],
        published: &[
            Published {
                what: "AF_UNIX round trip of 0 bytes: no message, calls only",
                min: None,
                mean: Some(3_933.3),
                max: None,
                sd: None,
                missed: None,
            },
            Published {
                what: "load of an array over 1 MiB, stride 16",
                min: None,
                mean: Some(57.0),
                max: None,
                sd: None,
                missed: None,
            },
            Published {
                what: "load of an array over 1 MiB, stride 32",
                min: None,
                mean: Some(110.0),
                max: None,
                sd: None,
                missed: None,
            },
            Published {
                what: "load of an array over 1 MiB, stride 64 and more",
                min: None,
                mean: Some(220.0),
                max: None,
                sd: None,
                missed: None,
            },
        ],
    },
    Reference {
        id: "intel-i5-2015",
        machine: "Intel Core i5 (desktop)",
        source: "the machine beside it in the same study (ARM-Linux, 2015), lmbench 3",
        figures: &[
            ("syscall.getppid", &[], 51.6),
            ("syscall.read", &[], 109.6),
            ("syscall.write", &[], 117.3),
            ("syscall.open-close", &[], 1_037.1),
        ],
        published: &[],
    },
    Reference {
        id: "cortex-a8-switch",
        machine: "Cortex-A8 (AM335x), Linux 3.2.0",
        source: "Sun Fei-yan, Li Yan-feng, Wang Na, Wang Chen: A New Method for Testing the Performance of Linux Context Switch, 2018",
        figures: &[
            ("ctx.yield", &[], 2_800.0),
            ("ctx.pipe", &[("class", "fifo"), ("place", "same")], 8_600.0),
        ],
        published: &[
            Published {
                what: "context_switch() between two trace_printk",
                min: None,
                mean: Some(2_500.0),
                max: None,
                sd: None,
                missed: None,
            },
            Published {
                what: "the call sched_yield() alone",
                min: None,
                mean: Some(1_500.0),
                max: None,
                sd: None,
                missed: None,
            },
            Published {
                what: "the calls read() and write() of a pipe alone",
                min: None,
                mean: Some(3_800.0),
                max: None,
                sd: None,
                missed: None,
            },
        ],
    },
    Reference {
        id: "am5728-xenomai",
        machine: "TI AM5728 (Cortex-A15), Xenomai, isolcpus=1",
        source: "an article on Xenomai latency under memory pressure, whose author and year are not known here; latency(1), 10 min each, default gravity",
        figures: &[],
        published: &[
            Published {
                what: "user task; stress -c 16 -i 4 -d 2 --hdd-bytes 256M",
                min: Some(621.0),
                mean: Some(3_072.0),
                max: Some(16_133.0),
                sd: None,
                missed: None,
            },
            Published {
                what: "kernel task; the same load",
                min: Some(-795.0),
                mean: Some(970.0),
                max: Some(12_966.0),
                sd: None,
                missed: None,
            },
            Published {
                what: "timer interrupt; the same load",
                min: Some(-1_623.0),
                mean: Some(-17.0),
                max: Some(7_736.0),
                sd: None,
                missed: None,
            },
            Published {
                what: "user task; with --vm 2 --vm-bytes 128M besides",
                min: Some(915.0),
                mean: Some(3_451.0),
                max: Some(30_918.0),
                sd: Some(626.0),
                missed: None,
            },
            Published {
                what: "kernel task; with --vm 2 --vm-bytes 128M besides",
                min: Some(-1_276.0),
                mean: Some(637.0),
                max: Some(25_303.0),
                sd: Some(668.0),
                missed: None,
            },
            Published {
                what: "timer interrupt; with --vm 2 --vm-bytes 128M besides",
                min: Some(-1_132.0),
                mean: Some(530.0),
                max: Some(8_240.0),
                sd: Some(345.0),
                missed: None,
            },
            Published {
                what: "idle, L2 on",
                min: Some(-879.0),
                mean: Some(1_261.0),
                max: Some(8_510.0),
                sd: None,
                missed: None,
            },
            Published {
                what: "idle, L2 off",
                min: Some(2_363.0),
                mean: Some(4_174.0),
                max: Some(13_161.0),
                sd: None,
                missed: None,
            },
            Published {
                what: "stress -c 16 -i 4, L2 on",
                min: Some(916.0),
                mean: Some(4_134.0),
                max: Some(10_463.0),
                sd: None,
                missed: None,
            },
            Published {
                what: "stress -c 16 -i 4, L2 off",
                min: Some(1_174.0),
                mean: Some(4_002.0),
                max: Some(11_414.0),
                sd: None,
                missed: None,
            },
        ],
    },
    Reference {
        id: "pentium4-elc2012",
        machine: "Intel Pentium 4 2.66 GHz, Linux 2.6.31.12-rt21",
        source: "Yoshitake Kobayashi (Toshiba): Ineffective and effective way to find out latency bottlenecks by Ftrace, Embedded Linux Conference 2012; cyclictest",
        figures: &[],
        published: &[
            Published {
                what: "every 300 µs, idle",
                min: Some(18_118.0),
                mean: Some(19_162.0),
                max: Some(25_629.0),
                sd: None,
                missed: Some(0),
            },
            Published {
                what: "every 500 µs, idle",
                min: Some(18_171.0),
                mean: Some(19_269.0),
                max: Some(32_615.0),
                sd: None,
                missed: Some(0),
            },
            Published {
                what: "every 1000 µs, idle",
                min: Some(17_935.0),
                mean: Some(19_361.0),
                max: Some(27_207_563.0),
                sd: None,
                missed: Some(1),
            },
        ],
    },
    Reference {
        id: "cortex-a8-elc2012",
        machine: "ARM Cortex-A8, Linux 2.6.31.12-rt21",
        source: "the second case of the same talk (Kobayashi, 2012); cyclictest",
        figures: &[],
        published: &[
            Published {
                what: "every 300 µs, idle",
                min: Some(11_000.0),
                mean: Some(19_025.0),
                max: Some(921_000.0),
                sd: None,
                missed: Some(3_018),
            },
            Published {
                what: "every 500 µs, idle",
                min: Some(11_000.0),
                mean: Some(19_458.0),
                max: Some(684_000.0),
                sd: None,
                missed: Some(5_026),
            },
            Published {
                what: "every 1000 µs, idle",
                min: Some(11_000.0),
                mean: Some(23_011.0),
                max: Some(717_000.0),
                sd: None,
                missed: Some(0),
            },
            Published {
                what: "every 300 µs, 60 % CPU load",
                min: Some(13_000.0),
                mean: Some(34_165.0),
                max: Some(980_000.0),
                sd: None,
                missed: Some(3_018),
            },
            Published {
                what: "every 500 µs, 60 % CPU load",
                min: Some(13_000.0),
                mean: Some(33_234.0),
                max: Some(760_000.0),
                sd: None,
                missed: Some(5_025),
            },
            Published {
                what: "every 1000 µs, 60 % CPU load",
                min: Some(12_000.0),
                mean: Some(35_014.0),
                max: Some(714_000.0),
                sd: None,
                missed: Some(0),
            },
            Published {
                what: "every 300 µs, idle, EHCI polled every 10 ms",
                min: Some(11_000.0),
                mean: Some(17_590.0),
                max: Some(209_000.0),
                sd: None,
                missed: Some(0),
            },
            Published {
                what: "every 500 µs, idle, EHCI polled every 10 ms",
                min: Some(11_000.0),
                mean: Some(17_583.0),
                max: Some(117_000.0),
                sd: None,
                missed: Some(0),
            },
            Published {
                what: "every 1000 µs, idle, EHCI polled every 10 ms",
                min: Some(11_000.0),
                mean: Some(17_610.0),
                max: Some(154_000.0),
                sd: None,
                missed: Some(0),
            },
            Published {
                what: "every 300 µs, 60 % CPU load, EHCI polled every 10 ms",
                min: Some(13_000.0),
                mean: Some(33_365.0),
                max: Some(259_000.0),
                sd: None,
                missed: Some(0),
            },
            Published {
                what: "every 500 µs, 60 % CPU load, EHCI polled every 10 ms",
                min: Some(13_000.0),
                mean: Some(29_695.0),
                max: Some(228_000.0),
                sd: None,
                missed: Some(0),
            },
            Published {
                what: "every 1000 µs, 60 % CPU load, EHCI polled every 10 ms",
                min: Some(12_000.0),
                mean: Some(33_222.0),
                max: Some(199_000.0),
                sd: None,
                missed: Some(0),
            },
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
