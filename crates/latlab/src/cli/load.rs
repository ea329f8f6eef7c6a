//! `latlab load`, and `latlab load-worker` (hidden): one worker of it, as its own process.

use crate::outcome::HintExt;
use anyhow::anyhow;
use latlab_sys::load::spec::{self, HDD_BYTES, VM_BYTES, VM_STRIDE};
use latlab_sys::load::{Kind, LoadSpec};
use std::path::PathBuf;
use std::time::Duration;

/// Generate a defined load; option letters are those of stress(1).
///
/// A LOAD is KIND[:DETAIL…][@CPU][/ROUNDS-A-SECOND], with N* in front for several, or a command
/// of another program. --list shows the kinds. Workers read back and verify what they write.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::LOAD)]
pub struct Args {
    /// Loads (`cpu:60%@1`, `4*vm:128M:1`, `tlb`, `"hackbench -l 1000"`).
    #[arg(value_name = "LOAD")]
    pub loads: Vec<LoadSpec>,
    /// List the kinds of load and exit.
    #[arg(long)]
    pub list: bool,
    /// Workers that compute square roots.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    cpu: usize,
    /// Workers that call sync().
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    io: usize,
    /// Workers that allocate, write, check and free memory.
    #[arg(short = 'm', long, value_name = "N", default_value_t = 0)]
    vm: usize,
    /// Bytes of each vm worker [default: 256M].
    #[arg(long, value_name = "BYTES")]
    vm_bytes: Option<String>,
    /// Distance between bytes that a vm worker touches [default: 4096].
    #[arg(long, value_name = "BYTES")]
    vm_stride: Option<String>,
    /// Seconds that a vm worker sleeps before it frees its memory (0: without limit).
    #[arg(long, value_name = "SECONDS")]
    vm_hang: Option<String>,
    /// A vm worker rewrites its memory instead of freeing and allocating.
    #[arg(long)]
    vm_keep: bool,
    /// Workers that write a file and remove it.
    #[arg(short = 'd', long, value_name = "N", default_value_t = 0)]
    hdd: usize,
    /// Bytes of each hdd worker [default: 1G].
    #[arg(long, value_name = "BYTES")]
    hdd_bytes: Option<String>,
    /// End after this time (`10s`; a bare number is seconds).
    #[arg(short, long, value_name = "TIME")]
    timeout: Option<String>,
    /// Pin all workers to this CPU.
    #[arg(short, long, value_name = "CPU")]
    affinity: Option<u32>,
    /// Write files here instead of in the current directory.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// One worker of a built-in load; runs until its standard input ends.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerArgs {
    /// What it does.
    #[arg(value_name = "WORKER")]
    pub worker: LoadSpec,
}

impl Args {
    /// All loads that were asked for, and for how long.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn config(&self) -> anyhow::Result<(Vec<LoadSpec>, Option<Duration>)> {
        let size = |option: &str, text: &Option<String>, usual: u64| match text {
            None => Ok(usual),
            Some(text) => spec::bytes(text).map_err(|e| anyhow!("--{option}: {e}")),
        };
        let addressable = |v: u64| {
            usize::try_from(v)
                .map_err(|_| anyhow!("{v} bytes are more than this machine can address"))
        };
        let vm = Kind::Vm {
            bytes: addressable(size("vm-bytes", &self.vm_bytes, VM_BYTES as u64)?)?,
            stride: addressable(size("vm-stride", &self.vm_stride, VM_STRIDE as u64)?)?,
            keep: self.vm_keep,
            hang: (self.vm_hang.as_deref())
                .map(|t| spec::time_of(t).map_err(|e| anyhow!("--vm-hang: {e}")))
                .transpose()?,
        };
        let hdd = Kind::Hdd { bytes: size("hdd-bytes", &self.hdd_bytes, HDD_BYTES)? };
        let mut loads = self.loads.clone();
        for (n, kind) in [
            (self.cpu, Kind::Cpu { percent: 100 }),
            (self.io, Kind::Io),
            (self.vm, vm),
            (self.hdd, hdd),
        ] {
            if n > 1024 {
                return Err(anyhow!("{n} workers of one kind: at most 1024"));
            }
            if n > 0 {
                loads.push(LoadSpec::Built(n, kind.into()));
            }
        }
        if let Some(cpu) = self.affinity {
            for load in &mut loads {
                if let LoadSpec::Built(_, worker) = load {
                    worker.cpu = worker.cpu.or(Some(cpu));
                }
            }
        }
        if loads.is_empty() && !self.list {
            return Err(anyhow!("no load given")).hint(
                "see latlab load --list; with options of stress: latlab load -c 2 -m 1 --vm-bytes 128M -t 10s",
            );
        }
        let timeout = (self.timeout.as_deref())
            .map(|t| spec::time_of(t).map_err(|e| anyhow!("--timeout: {e}")));
        Ok((loads, timeout.transpose()?))
    }
}
