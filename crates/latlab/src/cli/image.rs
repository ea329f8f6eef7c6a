//! `latlab image`: SD cards for boards.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// From nothing to a board that can be measured: an SD card image of Debian with latlab on it, without root.
///
/// The same packages, key and latlab give the same bytes; SOURCE_DATE_EPOCH sets the clock in it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct ImageArgs {
    /// Anything but building an image.
    #[command(subcommand)]
    pub action: Option<ImageAction>,
    /// What to build.
    #[command(flatten)]
    pub build: Build,
}

/// What to build.
#[derive(Debug, Args)]
pub struct Build {
    /// For which board (latlab image boards), or the file of one of your own (./my-board.toml).
    #[arg(long, value_name = "BOARD")]
    pub board: Option<String>,
    /// Debian's PREEMPT_RT kernel (rt) or ordinary one (stock), or your linux-image package (FILE.deb).
    #[arg(long, value_name = "KERNEL", default_value = "rt")]
    pub kernel: String,
    /// Public keys that may log in as root (default: the first of ~/.ssh/id_*.pub).
    #[arg(long, value_name = "FILE")]
    pub ssh_key: Option<PathBuf>,
    /// The image.
    #[arg(short = 'o', long = "output", value_name = "IMAGE", default_value = "sd.img")]
    pub output: PathBuf,
    /// Host name (default: the board's name).
    #[arg(long, value_name = "NAME")]
    pub hostname: Option<String>,
    /// One more Debian package; may be repeated.
    #[arg(long = "package", value_name = "NAME")]
    pub packages: Vec<String>,
    /// A root shell on the serial console, without a password.
    #[arg(long)]
    pub serial_shell: bool,
    /// Ask the network nothing: what is in the cache has to do.
    #[arg(long)]
    pub offline: bool,
    /// Say what would be built, and build nothing.
    #[arg(long)]
    pub plan: bool,
    /// Print the board's file, to begin one of your own with.
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
    /// Which boards there are.
    Boards,
    /// Write an image to a card, after asking: refuses what is mounted, in use, built in or too small.
    Write {
        /// The card: /dev/sdX or /dev/mmcblkN.
        #[arg(value_name = "DEVICE")]
        device: PathBuf,
        /// The image.
        #[arg(value_name = "IMAGE", default_value = "sd.img")]
        image: PathBuf,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Also a disk that cannot be taken out; never this system's.
        #[arg(long)]
        fixed: bool,
        /// Leave the root partition as long as it is in the image, instead of filling the card.
        #[arg(long)]
        no_grow: bool,
        /// Where /dev, /proc and /sys are looked for.
        #[arg(long, hide = true, value_name = "DIR", default_value = "/")]
        root: PathBuf,
    },
    /// Look at an image's boot partition as the board's boot ROM does.
    Check {
        /// The image.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// Whose boot ROM (default: the board it was built for).
        #[arg(long, value_name = "BOARD")]
        board: Option<String>,
    },
    /// Start an image in QEMU, with the kernel that is on it, and a port here for ssh; Ctrl-C ends it.
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
