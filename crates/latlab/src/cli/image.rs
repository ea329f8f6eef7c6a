//! `latlab image`: SD cards for boards.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Build an SD card image of Debian with latlab, without root.
///
/// Reproducible: the same packages, key and latlab give the same bytes; SOURCE_DATE_EPOCH sets its clock.
#[derive(Debug, Args)]
#[command(after_long_help = super::examples::IMAGE)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct ImageArgs {
    /// Other actions.
    #[command(subcommand)]
    pub action: Option<ImageAction>,
    /// What to build.
    #[command(flatten)]
    pub build: Build,
}

/// What to build.
#[derive(Debug, Args)]
pub struct Build {
    /// Board (latlab image boards), or the file of your own (./my-board.toml).
    #[arg(long, value_name = "BOARD")]
    pub board: Option<String>,
    /// Debian's PREEMPT_RT kernel (rt) or standard one (stock), or your linux-image package (FILE.deb).
    #[arg(long, value_name = "KERNEL", default_value = "rt")]
    pub kernel: String,
    /// Build the kernel from Debian's source, with the configuration of --kernel: tracers, latency, no-smp, no-power-saving, joined by +, or a fragment of your own (FILE.config).
    #[arg(long, value_name = "PURPOSE")]
    pub build_kernel: Option<String>,
    /// Build U-Boot from Debian's source.
    #[arg(long)]
    pub build_u_boot: bool,
    /// Public keys that may log in as root (default: the first of ~/.ssh/id_*.pub).
    #[arg(long, value_name = "FILE")]
    pub ssh_key: Option<PathBuf>,
    /// Output file, or folder with --nfs-root (default: sd.img, netboot).
    #[arg(short = 'o', long = "output", value_name = "IMAGE")]
    pub output: Option<PathBuf>,
    /// Build for network boot: a folder for a TFTP server, and the root file system of this NFS server; without its address, of the one that DHCP names.
    #[arg(long, value_name = "[SERVER]:PATH")]
    pub nfs_root: Option<String>,
    /// Host name (default: the board's name).
    #[arg(long, value_name = "NAME")]
    pub hostname: Option<String>,
    /// One more Debian package; may be repeated.
    #[arg(long = "package", value_name = "NAME")]
    pub packages: Vec<String>,
    /// A root shell on the serial console, without a password.
    #[arg(long)]
    pub serial_shell: bool,
    /// Use the cache only, without network.
    #[arg(long)]
    pub offline: bool,
    /// Print what would be built without building.
    #[arg(long)]
    pub plan: bool,
    /// Print the board's file, as a template.
    #[arg(long)]
    pub show: bool,
    /// For a kernel of your own: print what its .config lacks for tracing and low latency, and how to build it
    /// (default: the configuration of the board's Debian kernel).
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub from_config: Option<Option<PathBuf>>,
}

/// The other actions.
#[derive(Debug, Subcommand)]
pub enum ImageAction {
    /// List the boards.
    Boards,
    /// Write an image to a card after confirmation; refuses disks that are mounted, in use, built in or too small.
    Write {
        /// The card: /dev/sdX or /dev/mmcblkN, or labgrid:PLACE for that of a board in a laboratory.
        #[arg(value_name = "DEVICE")]
        device: PathBuf,
        /// The image.
        #[arg(value_name = "IMAGE", default_value = "sd.img")]
        image: PathBuf,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Accept a disk that is not removable; never the disk of this system.
        #[arg(long)]
        fixed: bool,
        /// Do not enlarge the root partition to the size of the card.
        #[arg(long)]
        no_grow: bool,
        /// With labgrid: write only if FILE does not have the image's checksum; it has it afterwards.
        #[arg(long, value_name = "FILE")]
        once: Option<PathBuf>,
        /// Root of /dev, /proc and /sys.
        #[arg(long, hide = true, value_name = "DIR", default_value = "/")]
        root: PathBuf,
    },
    /// Check an image's boot partition against the rules of the board's boot ROM.
    Check {
        /// The image.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// Board with that boot ROM (default: the board of the image).
        #[arg(long, value_name = "BOARD")]
        board: Option<String>,
    },
    /// Start an image in QEMU with its own kernel and a host port for ssh; Ctrl-C ends it.
    Boot {
        /// The image; it is not changed.
        #[arg(value_name = "IMAGE", default_value = "sd.img")]
        image: PathBuf,
        /// The port on 127.0.0.1 that leads to the machine's ssh.
        #[arg(long, value_name = "PORT", default_value_t = 2222)]
        ssh_port: u16,
        /// Firmware to start the card with (UEFI or U-Boot for QEMU's virt), instead of the kernel directly.
        #[arg(long, value_name = "FILE")]
        firmware: Option<PathBuf>,
        /// CPUs.
        #[arg(long, value_name = "N", default_value_t = 1)]
        smp: u32,
    },
    /// Remove root file systems and packages from the cache.
    Clean,
}
