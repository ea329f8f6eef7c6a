//! A fleet over nights: what the pages of `latlab fleet report` show.
//!
//! Values are as recorded (p99, or the median where p99 is not supported); what is worse is told by
//! [`Metric::larger_is_better`]. Positions lead into the other lists of [`Fleet`].

use crate::record::Unit;
use latlab_stats::clusters::{Over, Unknown};
use serde::Serialize;

/// A fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fleet {
    /// Dates, in order (`2026-03-01`).
    pub nights: Vec<Night>,
    /// Kernels, in the order in which they appeared.
    pub kernels: Vec<Kernel>,
    /// Classes of boards, by name.
    pub boards: Vec<Board>,
    /// Results, by name.
    pub metrics: Vec<Metric>,
    /// Alarms, in the order of their nights.
    pub alarms: Vec<Alarm>,
    /// What a kernel changed against the one before.
    pub steps: Vec<Step>,
    /// Kernels that a campaign measured side by side.
    pub pairs: Vec<Pair>,
}

/// A night.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Night {
    /// Date in UTC.
    pub date: String,
    /// Devices that have a result.
    pub devices: u32,
    /// Runs.
    pub runs: u64,
}

/// A kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Kernel {
    /// Its release.
    pub release: String,
    /// First night.
    pub first: usize,
    /// Last night.
    pub last: usize,
    /// Boards that ran it.
    pub boards: Vec<usize>,
    /// Devices that ran it.
    pub devices: u32,
}

/// A class of boards.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Board {
    /// Its name (model).
    pub name: String,
    /// Its devices; those that differ most from the others first.
    pub devices: Vec<Device>,
    /// Devices that are not in the list.
    pub more_devices: usize,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Device {
    /// Serial number or host name.
    pub name: String,
    /// Nights with a result.
    pub nights: u32,
    /// Last of them.
    pub last: usize,
    /// Its kernel then.
    pub kernel: usize,
    /// Median over its results of how much worse than the median of its board it is (0.1 is 10 %); `None`
    /// where fewer than three devices have a result.
    pub difference: Option<f64>,
    /// The result that is worst against the board, and by how much.
    pub worst: Option<(usize, f64)>,
}

/// A result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metric {
    /// Part, where it is not the beginning of the name.
    pub part: String,
    /// Name.
    pub name: String,
    /// `key=value,…`.
    pub params: String,
    /// Unit.
    pub unit: Unit,
    /// Whether a larger value is a better one.
    pub larger_is_better: bool,
    /// Its boards.
    pub lines: Vec<Line>,
    /// Merged histograms of the latest nights: all boards together first, where there are several.
    pub tails: Vec<Tail>,
}

/// A result of a board.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// The board.
    pub board: usize,
    /// Devices with this result.
    pub devices: u32,
    /// Nights with a value.
    pub points: Vec<Point>,
    /// By kernel, in the order of kernels.
    pub levels: Vec<Level>,
    /// The device with the worst level in the latest nights, and its level; `None` where fewer than three
    /// devices have the result.
    pub worst: Option<(String, f64)>,
}

/// A night of a result of a board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// Night.
    pub night: u32,
    /// Devices with a value.
    pub devices: u32,
    /// Value that a tenth of the devices is below.
    pub low: f32,
    /// Median of the devices.
    pub middle: f32,
    /// Value that a tenth of the devices is above.
    pub high: f32,
}

/// A result of a board with a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Level {
    /// Kernel.
    pub kernel: usize,
    /// Nights.
    pub nights: u32,
    /// Median over nights of the median over devices.
    pub value: f64,
}

/// All samples of a result of a board in the latest nights.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// The board; `None`: all boards that have the result.
    pub board: Option<usize>,
    /// Samples.
    pub samples: u64,
    /// Devices that have some.
    pub devices: u64,
    /// Nights that have some.
    pub nights: u64,
    /// Buckets that have samples: largest value and count, rising.
    pub buckets: Vec<(u64, u64)>,
    /// Over what its intervals are, or why there is none.
    pub over: Result<Over, Unknown>,
    /// Quantiles that the number of samples supports, rising.
    pub quantiles: Vec<TailQuantile>,
}

/// A quantile of merged histograms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TailQuantile {
    /// Share of the samples that are not above it.
    pub q: f64,
    /// Its value.
    pub value: u64,
    /// Ends of its 95 % interval, the upper one `None` where it is beyond all samples; `None` where there is no
    /// interval.
    pub interval: Option<(u64, Option<u64>)>,
}

/// What a kernel changed in a result of a board: devices against themselves under the kernel that they ran
/// before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Step {
    /// The kernel.
    pub kernel: usize,
    /// The kernel before.
    pub before: usize,
    /// The board.
    pub board: usize,
    /// The result.
    pub metric: usize,
    /// Nights that are compared.
    pub nights: u32,
    /// Devices, at most in one night.
    pub devices: u32,
    /// Median change; positive is worse (0.1 is 10 %).
    pub change: f64,
}

/// Two kernels of a campaign side by side: a result of the same devices in the same nights.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Pair {
    /// The board.
    pub board: usize,
    /// The result with the one kernel.
    pub metric: usize,
    /// Name of this kernel in its campaign.
    pub kernel: String,
    /// The result with the other kernel.
    pub against: usize,
    /// Name of the other kernel.
    pub against_kernel: String,
    /// Nights in which a device ran both.
    pub nights: u32,
    /// Devices that ran both, at most in one night.
    pub devices: u32,
    /// Median over nights of the median over devices of how much worse the one is than the other (0.1 is 10 %).
    pub change: f64,
    /// Its 95 % interval over these nights; `None` with fewer than six.
    pub interval: Option<(f64, f64)>,
}

/// An alarm.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Alarm {
    /// Night of the report.
    pub night: usize,
    /// First night of the change.
    pub since: usize,
    /// The board.
    pub board: usize,
    /// The device that is worse; `None`: the whole class is.
    pub device: Option<String>,
    /// Name of the results up to the first dot.
    pub family: String,
    /// Last kernel before the change and first kernel with it.
    pub suspects: (usize, usize),
    /// Smallest adjusted p value.
    pub p: f64,
    /// Results, the largest change first.
    pub changes: Vec<Change>,
    /// Results that are not in the list.
    pub more_changes: usize,
    /// What else changed on its devices between the two nights.
    pub environment: Environment,
}

/// Properties of the machines that changed between the last night before a change and the first with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Environment {
    /// Devices whose properties are known in both nights.
    pub compared: usize,
    /// Properties, those of most devices first.
    pub changes: Vec<Property>,
    /// Properties that are not in the list.
    pub more: usize,
}

/// A property of machines with its values in two nights.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Property {
    /// As the table `environment` has it (`package.libc6`, `kernel.config.CONFIG_HZ`), or `latlab`: the version
    /// that measured.
    pub name: String,
    /// Its value before; empty for a package that was not installed.
    pub before: String,
    /// Its value with the change; empty for a package that is not installed any more.
    pub after: String,
    /// Devices on which it changed like this.
    pub devices: usize,
}

/// A result that an alarm names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// The result.
    pub metric: usize,
    /// How much worse (0.1 is 10 %).
    pub change: f64,
    /// Median of the nights before the change; `None` where none is known.
    pub before: Option<f64>,
    /// Median of the nights from the change to the report.
    pub after: Option<f64>,
    /// Median of the last seven nights.
    pub now: Option<f64>,
    /// Values of the device around the change, night by night; empty for a class, whose values are in
    /// [`Line::points`].
    pub values: Vec<(u32, f32)>,
}
