//! `latlab vm`: virtual machines with real-time kernels.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Virtual machines with Debian's real-time kernels, or your own.
#[derive(Debug, Args)]
#[command(after_long_help = super::examples::VM)]
pub struct VmArgs {
    /// Action.
    #[command(subcommand)]
    pub action: VmAction,
}

/// The actions.
#[derive(Debug, Subcommand)]
pub enum VmAction {
    /// List the machines, and which are ready without network.
    List,
    /// List what the machines need and which of it is missing, with the commands that install it.
    Doctor {
        /// Machines (vm list); all without a name.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Fetch or update kernels (all, or those named) into the cache, without root.
    Fetch {
        /// Machines (vm list).
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Build a machine's kernel from Debian's source, for MACHINE,build=PURPOSE.
    Build(BuildArgs),
    /// Start a machine, print the boot time, and stop it.
    Boot(Machine),
    /// Start a machine with a shell on this terminal; `exit` stops it.
    Shell(Machine),
    /// Run a command in a machine, with its output, files and exit code.
    Run(Run),
    /// Compare two runs in virtual time; exit code 2 if a median path is longer. Runs of vm path name the functions.
    Gate(Gate),
    /// Count the instructions of wake-ups and print the kernel functions that ran, in virtual time.
    Path(PathArgs),
    /// Find the longest sections with interrupts off and with preemption off, by executed instructions.
    Sections(SectionsArgs),
    /// Compute an upper bound of the wake-up latency from the longest sections and interrupts, by executed instructions.
    Bound(BoundArgs),
    /// Repeat the causes of a run of latlab why in a virtual machine, and compare.
    Twin(TwinArgs),
    /// Find the first of an ordered list of kernels, or of a git tree's commits, with a longer wake-up path.
    Bisect(BisectArgs),
    /// Clear the cache: RAM disks and orphaned files, or everything.
    Clean {
        /// Kernels and package lists too.
        #[arg(long)]
        all: bool,
    },
}

/// Which kernel is built.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Machine (vm list): the kernel of Debian's whose configuration it begins with.
    #[arg(value_name = "MACHINE")]
    pub machine: String,
    /// tracers, latency, no-smp, no-power-saving, joined by +, or a fragment of your own (FILE.config).
    #[arg(value_name = "PURPOSE")]
    pub purpose: String,
    /// Write it as a Debian package too.
    #[arg(long, value_name = "FILE")]
    pub deb: Option<PathBuf>,
}

/// Which machine.
#[derive(Clone, Debug, Default, Args)]
pub struct Machine {
    /// NAME, then options separated by commas: cpu=…, smp=N, mem=SIZE, icount=N, accel=tcg|kvm, append=WORDS, modules=A+B,
    /// timeout=S, ssh=PORT, build=PURPOSE.
    #[arg(value_name = "MACHINE")]
    pub machine: String,
    /// A kernel of your own: an image, or a package (linux-image-….deb) or folder with one. Modules in lib/modules/RELEASE beside it are found.
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// The modules of your kernel: the folder of `make modules_install`, lib/modules/RELEASE, or a package.
    #[arg(long, value_name = "FOLDER")]
    pub modules_from: Option<PathBuf>,
    /// A RAM disk of your own, unpacked before ours; the virtio modules in it are loaded.
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,
    /// A device tree of your own.
    #[arg(long, value_name = "FILE")]
    pub dtb: Option<PathBuf>,
    /// Put a file into the machine: the last colon separates HERE and THERE, `\:` is a colon of a path; THERE without a slash is a name in /bin, and is HERE's name if it is left out.
    #[arg(long = "file", value_name = "HERE[:THERE]")]
    pub files: Vec<String>,
    /// Inject latency, e.g. irqs-off:us=300,every=97.3ms (docs/reference/faults.md); may be repeated.
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<String>,
    /// Put a Debian package's programs and libraries into the machine (without its dependencies); may be repeated.
    #[arg(long = "package", value_name = "NAME")]
    pub packages: Vec<String>,
}

/// Which wake-ups are counted.
#[derive(Debug, Args)]
pub struct PathArgs {
    /// The machine; icount=0 is its default here.
    #[command(flatten)]
    pub machine: Machine,
    /// Compare with another machine (its name and options), or with the same machine and this kernel (a file).
    #[arg(long, value_name = "MACHINE|KERNEL")]
    pub against: Option<String>,
    /// Which wake-ups are counted.
    #[command(flatten)]
    pub counted: Counted,
}

/// Where sections are counted.
#[derive(Debug, Args)]
pub struct SectionsArgs {
    /// The machine; icount=0 is its default here.
    #[command(flatten)]
    pub machine: Machine,
    /// Which wake-ups are counted.
    #[command(flatten)]
    pub counted: Counted,
    /// Record the events irq_disable, irq_enable, preempt_disable and preempt_enable too, and compare (x86-64, a kernel with tracers).
    #[arg(long)]
    pub events: bool,
}

/// What the bound is of.
#[derive(Debug, Args)]
pub struct BoundArgs {
    /// The machine, icount=0 is its default here; or a recording of another machine, for an estimate.
    #[command(flatten)]
    pub machine: Machine,
    /// Which wake-ups are counted.
    #[command(flatten)]
    pub counted: Counted,
    /// Compute response times too, of tasks with these execution times and periods, highest priority first: 200us/1ms,2ms/20ms.
    #[arg(long = "task-set", value_name = "EXECUTION/PERIOD", value_delimiter = ',')]
    pub tasks: Vec<String>,
}

/// What is repeated.
#[derive(Debug, Args)]
pub struct TwinArgs {
    /// Run directory of `latlab why`, with its own wake-ups or with --task.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The virtual machine (vm list) with its options; by default the one with the recording's processor and preemption. icount=0 is its default here.
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Stop after so many captures.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub captures: u64,
    /// Print what would be repeated, and start no machine.
    #[arg(long)]
    pub plan: bool,
}

/// What is bisected.
#[derive(Debug, Args)]
pub struct BisectArgs {
    /// The machine; icount=0 is its default here.
    #[command(flatten)]
    pub machine: Machine,
    /// Kernels in their order, the good one first: images, packages (files, or names of Debian's), folders.
    #[arg(value_name = "KERNEL", conflicts_with_all = ["git", "kernel", "modules_from"])]
    pub kernels: Vec<String>,
    /// Bisect the commits of this git repository, each built in a clone in the cache. Relative paths of --kernel, --module, --file and others are those of the tree.
    #[arg(long, value_name = "FOLDER", requires_all = ["good", "build"])]
    pub git: Option<PathBuf>,
    /// The commit whose path is not longer.
    #[arg(long, value_name = "REVISION", requires = "git")]
    pub good: Option<String>,
    /// The commit whose path is longer.
    #[arg(long, value_name = "REVISION", requires = "git", default_value = "HEAD")]
    pub bad: String,
    /// Shell command that builds a commit, in the tree's folder.
    #[arg(long, value_name = "COMMAND", requires = "git")]
    pub build: Option<String>,
    /// Decide by the instructions of this function on the median path alone.
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// How much longer than the first one's a path may be; without it, nearer to the last one's than to the first one's is bad.
    #[arg(long, value_name = "PERCENT")]
    pub limit: Option<String>,
    /// Which wake-ups are counted.
    #[command(flatten)]
    pub counted: Counted,
}

/// The measurement in a machine whose instructions are counted.
#[derive(Clone, Debug, Args)]
pub struct Counted {
    /// Wake-ups to count.
    #[arg(long, short = 'l', value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub loops: u64,
    /// Period of the task in µs.
    #[arg(long, short = 'i', value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=1_000_000))]
    pub interval: u64,
    /// Load during the measurement (latlab load --list); may be repeated.
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<String>,
    /// Virtual seconds between boot and measurement, for what kernel threads still do after the boot.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub settle: u64,
    /// Load this kernel module before the measurement; may be repeated, in the order of their dependencies.
    #[arg(long = "module", value_name = "FILE")]
    pub modules: Vec<PathBuf>,
}

/// What is compared.
#[derive(Debug, Args)]
pub struct Gate {
    /// Run directory of `latlab --on vm:NAME,icount=0 wakeup`, or of `latlab vm path`, with the old kernel or driver.
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The same with the new one.
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// How much longer a median may be.
    #[arg(long, value_name = "PERCENT", default_value = "1%")]
    pub limit: String,
    /// Write the verdicts as JUnit XML too.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Which command in which machine.
#[derive(Debug, Args)]
pub struct Run {
    /// The machine.
    #[command(flatten)]
    pub machine: Machine,
    /// Time limit of the command in seconds.
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
