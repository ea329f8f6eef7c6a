//! `latlab sweep`: its options, and the plan that they come to.

use crate::outcome::HintExt;
use anyhow::{anyhow, bail};
use latlab_model::sweep::axis::Axis;
use latlab_model::sweep::plan::{INTERVAL, Plan, Response};
use latlab_sys::load::LoadSpec;
use std::path::PathBuf;
use std::time::Duration;

/// A point with the pause before it takes at most so long.
const POINT_MOST: Duration = Duration::from_secs(24 * 3_600);

/// Measure latency over a grid of loads and find the knees.
///
/// Measures wake-ups under every combination of the axes, in random order with unloaded points
/// between, adds points around knees, and reports effects. --resume continues an interrupted
/// sweep. Axes are written 64K..256M:x2, 0..100:+20, 1,16,64 or alloc,keep.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::SWEEP)]
pub struct Args {
    /// Predefined plan: memory (allocation by size, stride and mode), cache, everything, or period
    /// (300, 500 and 1000 µs, idle and with 60 % of a CPU).
    #[arg(value_name = "PLAN", value_parser = ["memory", "cache", "everything", "period"])]
    pub preset: Option<String>,
    /// Fewer values and shorter measurements.
    #[arg(long)]
    pub quick: bool,
    /// Number of vm workers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    vm: u32,
    /// Bytes of the vm worker.
    #[arg(long, value_name = "AXIS")]
    vm_bytes: Option<String>,
    /// Distance between the bytes that the vm worker touches.
    #[arg(long, value_name = "AXIS")]
    vm_stride: Option<String>,
    /// Use of memory by the vm worker: alloc (and free), keep, hang.
    #[arg(long, value_name = "AXIS")]
    mode: Option<String>,
    /// Any other axis, for a --load with its name in braces (`size=4K..8M:x2`); may be repeated.
    #[arg(long, value_name = "NAME=AXIS")]
    axis: Vec<String>,
    /// A load with axes in braces (`cache:{size}`, `"stress-ng --cpu 1 --cpu-load {load}"`); may be repeated.
    /// Without braces, beside a plan or a --vm-… axis: a base load that runs at every point.
    #[arg(long, value_name = "LOAD")]
    load: Vec<String>,
    /// Pin the load to these CPUs, one worker each (`0,2-3`).
    #[arg(long, value_name = "CPUS")]
    cpus: Option<String>,
    /// CPU of the measured task.
    #[arg(short = 'a', long = "affinity", value_name = "CPU")]
    measured_cpu: Option<u32>,
    /// Period of the measured task in µs; several are an axis (`300,500,1000`) [default: 1000].
    #[arg(short, long, value_name = "US")]
    interval: Option<String>,
    /// Real-time priority of the measured task.
    #[arg(short, long, value_name = "PRIORITY", default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub priority: u32,
    /// Measuring time of each point (`2s`).
    #[arg(short = 'D', long, value_name = "TIME", value_parser = super::time::seconds)]
    duration: Option<Duration>,
    /// Time between the start of a load and the start of the measurement.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = super::time::seconds)]
    settle: Duration,
    /// Tail quantile used as response; 1 is the maximum.
    #[arg(long, value_name = "Q", default_value_t = 0.99)]
    quantile: f64,
    /// Statistic used as response: mean, sd (standard deviation) or max, in place of a quantile.
    #[arg(long, value_name = "STATISTIC", value_parser = ["mean", "sd", "max"], conflicts_with = "quantile")]
    response: Option<String>,
    /// Total time; the remaining points can be measured with --resume.
    #[arg(long, value_name = "TIME", value_parser = super::time::seconds)]
    pub budget: Option<Duration>,
    /// Maximum number of points added around knees.
    #[arg(long, value_name = "N", default_value_t = 12)]
    refine: usize,
    /// Seed of the order.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run `latlab why` at each point for the first cause (needs tracing; five seconds more for each point).
    #[arg(long)]
    pub why: bool,
    /// Match knees with the caches and TLBs of this run of `latlab memory`.
    #[arg(long, value_name = "RUN")]
    pub memory: Option<PathBuf>,
    /// Continue an interrupted sweep.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["preset", "vm_bytes", "vm_stride", "mode", "axis", "load", "quick"])]
    pub resume: Option<PathBuf>,
    /// Print the points and their total time without measuring.
    #[arg(long)]
    pub dry_run: bool,
}

impl Args {
    /// The plan. `free_bytes` is what may be allocated.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn plan(&self, free_bytes: u64) -> anyhow::Result<Plan> {
        let mut plan = Plan {
            settle_ns: nanoseconds(self.settle),
            quantile: self.quantile,
            response: self.response(),
            budget_ns: self.budget.map(nanoseconds),
            refine: self.refine,
            seed: self.seed,
            measured_cpu: self.measured_cpu,
            ..Plan::default()
        };
        if !(self.quantile > 0.0 && self.quantile <= 1.0) {
            bail!("--quantile {}: above 0, at most 1", self.quantile);
        }
        if let Some(list) = &self.cpus {
            plan.cpus =
                latlab_model::cpulist::parse(list).map_err(|e| anyhow!("--cpus {list}: {e}"))?;
        }
        let intervals = self.intervals()?;
        self.fill(&mut plan, free_bytes, intervals.values.len() > 1)?;
        let first = intervals.numbers().first().map_or(1_000_000, |us| (us * 1e3) as u64);
        plan.interval_ns = first;
        if intervals.values.len() > 1 {
            plan.axes.insert(0, intervals);
        }
        if plan.grid_len() > latlab_model::sweep::plan::MOST {
            return Err(anyhow!("{} points: too many", plan.grid_len()))
                .hint("fewer values on an axis, or fewer axes");
        }
        self.check(&plan, free_bytes)?;
        plan.point_ns = self.point_ns(&plan);
        if Duration::from_nanos(plan.each_ns()) > POINT_MOST {
            return Err(anyhow!("{} s for each point: at most 1d", plan.each_ns() / 1_000_000_000))
                .hint("a shorter --duration or --settle, or a lower --quantile");
        }
        Ok(plan)
    }

    fn response(&self) -> Response {
        match self.response.as_deref() {
            Some("mean") => Response::Mean,
            Some("sd") => Response::StandardDeviation,
            Some("max") => Response::Maximum,
            _ if self.quantile == 1.0 => Response::Maximum,
            _ => Response::Quantile,
        }
    }

    /// The periods, µs: one, or those of an axis.
    fn intervals(&self) -> anyhow::Result<Axis> {
        let usual = if self.preset.as_deref() == Some("period") { "300,500,1000" } else { "1000" };
        let text = self.interval.as_deref().unwrap_or(usual);
        let axis = parse("-i", INTERVAL, text)?;
        let numbers = axis.numbers();
        let known = |us: &f64| (10.0..=10_000_000.0).contains(us) && us.fract() == 0.0;
        if numbers.len() != axis.values.len() || !numbers.iter().all(known) {
            return Err(anyhow!("-i {text}: whole µs from 10 to 10000000"))
                .hint("-i 500, or several: -i 300,500,1000");
        }
        Ok(axis)
    }

    fn fill(&self, plan: &mut Plan, free_bytes: u64, periods: bool) -> anyhow::Result<()> {
        let own = !self.load.is_empty() || !self.axis.is_empty();
        let vm = self.vm_bytes.is_some() || self.vm_stride.is_some() || self.mode.is_some();
        // Loads of an own plan are what is swept; beside the axes of another plan they are its base.
        let base = self.axis.is_empty() && (vm || self.preset.is_some());
        let base = base && !self.load.iter().any(|l| l.contains('{'));
        if base {
            plan.base = self.load.clone();
        }
        match self.preset.as_deref() {
            Some(name) if (own && !base) || (vm && name != "memory") => {
                return Err(anyhow!(
                    "{name} and --axis, --vm-… or a --load with braces: a predefined plan has its own axes"
                ))
                .hint("a --load without braces runs at every point");
            }
            Some("cache") => self.cache(plan),
            Some("everything") => everything(plan),
            Some("period") => period(plan),
            None if own && !vm => self.own(plan, periods)?,
            None if own && !base => {
                bail!("--vm-bytes and --axis exclude each other: axes of a --load need --axis")
            }
            None if periods && !vm => plan.name = "period".into(),
            preset => self.memory(plan, preset.is_some(), free_bytes)?,
        }
        Ok(())
    }

    /// The study's plan; as a preset with all of its axes, else with those that were named.
    fn memory(&self, plan: &mut Plan, whole: bool, free_bytes: u64) -> anyhow::Result<()> {
        plan.name = if whole { "memory".into() } else { "own".into() };
        let workers = plan.cpus.len().max(1) as u64 * u64::from(self.vm);
        let top = (free_bytes / 4 / workers).clamp(1 << 20, 256 << 20);
        // A power of two, so that the axis ends on it.
        let top = 1u64 << (63 - top.leading_zeros());
        let usual =
            |quick: &str, long: &str| if self.quick { quick.to_owned() } else { long.to_owned() };
        let text = |given: &Option<String>, all: String, one: &str| {
            given.clone().unwrap_or_else(|| if whole { all } else { one.to_owned() })
        };
        let bytes = usual(&format!("64K..{top}:x4"), &format!("64K..{top}:x2"));
        let axes = [
            ("vm-bytes", text(&self.vm_bytes, bytes.clone(), &bytes)),
            ("vm-stride", text(&self.vm_stride, usual("64,4096", "1,16,64,4096"), "4096")),
            ("mode", text(&self.mode, "alloc,keep,hang".into(), "alloc")),
        ];
        for (name, text) in axes {
            plan.axes.push(parse(&format!("--{name}"), name, &text)?);
        }
        let workers = if self.vm > 1 { format!("{}*", self.vm) } else { String::new() };
        plan.template = vec![format!("{workers}vm:{{vm-bytes}}:{{vm-stride}}:{{mode}}")];
        Ok(())
    }

    fn cache(&self, plan: &mut Plan) {
        plan.name = "cache".into();
        let sizes = if self.quick { "8K..32M:x4" } else { "4K..64M:x2" };
        plan.axes = Axis::parse("size", sizes).into_iter().collect();
        plan.template = vec!["cache:{size}".into()];
    }

    fn own(&self, plan: &mut Plan, periods: bool) -> anyhow::Result<()> {
        if self.load.is_empty() {
            return Err(anyhow!("--axis needs a --load with the axis in braces"))
                .hint("latlab sweep --load 'cache:{size}' --axis size=4K..8M:x2");
        }
        for text in &self.axis {
            let (name, values) = text
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| anyhow!("--axis {text}: no name"))
                .hint("NAME=AXIS: size=4K..8M:x2")?;
            if plan.axes.iter().any(|a| a.name == name) {
                bail!("--axis {text}: {name} is defined twice");
            }
            if !self.load.iter().any(|l| l.contains(&format!("{{{name}}}"))) {
                return Err(anyhow!("--axis {name}: no --load has {{{name}}}"))
                    .hint("latlab sweep --load 'cache:{size}' --axis size=4K..8M:x2");
            }
            plan.axes.push(parse(&format!("--axis {name}"), name, values)?);
        }
        let named = |l: &String| l.contains('{');
        if plan.axes.is_empty() && periods && self.load.len() == 1 && !named(&self.load[0]) {
            // One load and several periods: the period is the axis.
            plan.base = self.load.clone();
            return Ok(());
        }
        if plan.axes.is_empty() {
            // Loads without axes: which of them hurts?
            plan.axes = vec![Axis {
                name: "load".into(),
                values: self
                    .load
                    .iter()
                    .map(|l| latlab_model::sweep::axis::Value::Word(l.clone()))
                    .collect(),
                geometric: false,
            }];
            plan.template = vec!["{load}".into()];
            return Ok(());
        }
        plan.template = self.load.clone();
        Ok(())
    }

    /// Every load of the plan can be read, and what it allocates is there.
    fn check(&self, plan: &Plan, free_bytes: u64) -> anyhow::Result<()> {
        for job in plan.jobs() {
            let mut needed = 0u64;
            for text in plan.loads(&job.place) {
                let load: LoadSpec = text
                    .parse()
                    .map_err(|e| anyhow!("the load {text}: {e}"))
                    .hint("latlab load --list")?;
                needed += memory_of(&load);
            }
            if needed > free_bytes / 2 {
                let load = plan.loads(&job.place).join(" ");
                return Err(anyhow!(
                    "the load {load} needs {} MiB, more than half of the {} MiB that are free",
                    needed >> 20,
                    free_bytes >> 20
                ))
                .hint(
                    "reduce the end of the axis: the machine must not swap or run out of memory",
                );
            }
        }
        Ok(())
    }

    /// What was asked for; else what the quantile needs, within the budget.
    fn point_ns(&self, plan: &Plan) -> u64 {
        if let Some(time) = self.duration {
            return nanoseconds(time).max(plan.longest_interval_ns());
        }
        // Four times what the interval needs, so that it is narrow.
        let wanted =
            plan.wakeups_needed().saturating_mul(4).saturating_mul(plan.longest_interval_ns());
        let (least, most) = if self.quick {
            (1_000_000_000, 2_000_000_000)
        } else {
            (2_000_000_000, 5_000_000_000)
        };
        let usual = wanted.clamp(least, most.max(wanted));
        match plan.budget_ns {
            Some(budget) => {
                let each = budget / (plan.jobs().len() as u64 + plan.refine as u64).max(1);
                usual.min(each.saturating_sub(plan.settle_ns)).max(200_000_000)
            }
            None => usual,
        }
    }
}

fn everything(plan: &mut Plan) {
    plan.name = "everything".into();
    let all = "cpu,cpu:60%,io,hdd:16M,vm:64M:4096,vm:64M:4096:keep,bandwidth:read:32M,bandwidth:write:32M,bandwidth:copy:32M,bandwidth:stream:32M,cache:256K,cache:4M,tlb,pagecache:16M,fork,net,timers:64,ipi";
    plan.axes = Axis::parse("load", all).into_iter().collect();
    plan.template = vec!["{load}".into()];
}

/// The periods of a published cyclictest study, idle and with 60 % of a CPU; the periods are its axis.
fn period(plan: &mut Plan) {
    plan.name = "period".into();
    plan.axes = Axis::parse("load", "none,cpu:60%").into_iter().collect();
    plan.template = vec!["{load}".into()];
}

fn parse(option: &str, name: &str, text: &str) -> anyhow::Result<Axis> {
    Axis::parse(name, text).map_err(|e| anyhow!("{option}: {e}"))
}

fn nanoseconds(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

fn memory_of(load: &LoadSpec) -> u64 {
    use latlab_sys::load::Kind;
    let LoadSpec::Built(n, worker) = load else { return 0 };
    let each = match worker.kind {
        Kind::Vm { bytes, .. } | Kind::Bandwidth { bytes, .. } => bytes as u64,
        Kind::Cache { size } if size > 9 => size as u64,
        _ => 0,
    };
    each.saturating_mul(*n as u64)
}
