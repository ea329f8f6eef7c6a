//! QEMU's command line for each machine.

use super::catalog::Kind;
use crate::spec::VmTarget;
use crate::{Arch, Result, TargetError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How the agent is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A virtio serial port of its own.
    Virtio,
    /// Lines of the kernel's log, for a machine whose serial port works without interrupts only.
    /// There is no way back to the agent.
    Log,
}

/// A machine with its options resolved.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Architecture.
    pub arch: Arch,
    /// QEMU's machine.
    pub board: &'static str,
    /// QEMU's processor, where the board leaves a choice.
    pub cpu: Option<String>,
    /// CPUs.
    pub smp: u32,
    /// Memory.
    pub mem_mib: u32,
    /// Serial console in the kernel's words.
    pub console: &'static str,
    /// How the agent is heard.
    pub channel: Channel,
    /// Device tree from the kernel's package, for boards that QEMU makes none for.
    pub device_tree: Option<&'static str>,
    /// Virtual time.
    pub icount: Option<u8>,
    /// Accelerator.
    pub accel: String,
    /// With a device that interrupts when it is told to.
    pub interrupting_device: bool,
}

/// The files that QEMU reads.
#[derive(Clone, Debug)]
pub struct Files {
    /// Kernel image.
    pub kernel: PathBuf,
    /// RAM disk.
    pub initrd: PathBuf,
    /// Device tree, where one is needed.
    pub dtb: Option<PathBuf>,
    /// Where the console is written ([`Channel::Virtio`] only).
    pub console: PathBuf,
}

/// QEMU's program for an architecture, and Debian's package of it.
pub fn program(arch: Arch) -> (&'static str, &'static str) {
    match arch {
        Arch::Armv7 => ("qemu-system-arm", "qemu-system-arm"),
        Arch::Aarch64 => ("qemu-system-aarch64", "qemu-system-arm"),
        Arch::X86_64 => ("qemu-system-x86_64", "qemu-system-x86"),
    }
}

impl Machine {
    /// Resolves what the user asked for.
    pub fn new(kind: &Kind, target: &VmTarget) -> Result<Self> {
        let cortex_a8 = kind.arch == Arch::Armv7 && target.cpu.as_deref() == Some("cortex-a8");
        let smp = target.smp.unwrap_or(1);
        let mut machine = Self {
            arch: kind.arch,
            board: if kind.arch == Arch::X86_64 { "q35" } else { "virt" },
            cpu: Some(target.cpu.clone().unwrap_or_else(|| default_cpu(kind.arch).into())),
            smp,
            mem_mib: target.mem_mib.unwrap_or(256),
            console: if kind.arch == Arch::X86_64 { "ttyS0" } else { "ttyAMA0" },
            channel: Channel::Virtio,
            device_tree: None,
            icount: target.icount,
            accel: target.accel.clone().unwrap_or_else(|| "tcg".into()),
            interrupting_device: target.interrupting_device,
        };
        if cortex_a8 {
            machine.board = "cubieboard";
            machine.cpu = None;
            machine.console = "ttyS0";
            // With 6.1 and PREEMPT_RT the whole machine stands still once a program writes to the
            // serial port: its interrupt's thread never runs, and QEMU's interrupt controller goes
            // on to report the interrupt although it is masked. The kernel's own messages get out.
            machine.channel = Channel::Log;
            machine.device_tree = Some("sun4i-a10-cubieboard.dtb");
            machine.mem_mib = target.mem_mib.unwrap_or(512);
            let wrong = |reason: &str, hint: &str| TargetError::Spec {
                spec: format!("vm:{},cpu=cortex-a8", kind.name),
                reason: reason.into(),
                hint: hint.into(),
            };
            if smp != 1 {
                return Err(wrong("a Cortex-A8 has one core", "leave out smp="));
            }
            if ![512, 1024].contains(&machine.mem_mib) {
                return Err(wrong("this board has 512M or 1G", "leave out mem="));
            }
            if machine.interrupting_device {
                return Err(wrong(
                    "this board has no PCI for the fault irq's device",
                    "leave out cpu=",
                ));
            }
        }
        Ok(machine)
    }

    /// The kernel's command line.
    pub fn append(&self, target: &VmTarget) -> String {
        let mut words: Vec<String> = vec![
            format!("console={}", self.console),
            "quiet".into(),
            "panic=-1".into(),
            "rdinit=/init".into(),
        ];
        if self.channel == Channel::Log {
            // Nothing is lost for being too much or too fast.
            words.extend(
                ["latlab.port=kmsg", "printk.devkmsg=on", "log_buf_len=16M"].map(String::from),
            );
        }
        if self.icount.is_some() {
            // Addresses, the entropy pool's credit and the tick are what differs from boot to boot.
            words.extend(
                ["nokaslr", "norandmaps", "random.trust_cpu=off", "random.trust_bootloader=off"]
                    .map(String::from),
            );
        }
        words.extend(target.append.clone());
        words.join(" ")
    }

    /// Arguments of QEMU. `shell`: the console is the user's terminal.
    pub fn arguments(&self, target: &VmTarget, files: &Files, shell: bool) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut add = |words: &[&str]| args.extend(words.iter().map(OsString::from));
        add(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        add(&["-machine", &self.machine_option()]);
        if let Some(cpu) = &self.cpu {
            add(&["-cpu", cpu]);
        }
        add(&["-smp", &self.smp.to_string(), "-m", &self.mem_mib.to_string()]);
        if let Some(shift) = self.icount {
            add(&[
                "-icount",
                &format!("shift={shift},sleep=off"),
                "-rtc",
                "base=2026-01-01T00:00:00,clock=vm",
                "-seed",
                "1",
            ]);
        }
        add(&["-chardev", "stdio,id=agent,signal=off"]);
        if shell || self.channel == Channel::Log {
            add(&["-serial", "chardev:agent"]);
        } else {
            add(&["-chardev", &format!("file,id=console,path={}", escaped(&files.console))]);
            add(&["-serial", "chardev:console"]);
            let bus = if self.arch == Arch::X86_64 {
                "virtio-serial-pci"
            } else {
                "virtio-serial-device"
            };
            add(&["-device", bus, "-device", "virtserialport,chardev=agent,name=latlab"]);
        }
        if let (Some(port), Channel::Virtio) = (target.ssh_port, self.channel) {
            let nic =
                if self.arch == Arch::X86_64 { "virtio-net-pci" } else { "virtio-net-device" };
            add(&["-netdev", &format!("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22")]);
            add(&["-device", &format!("{nic},netdev=net")]);
        }
        if self.interrupting_device {
            add(&["-device", "edu"]);
        }
        if let Some(plugin) = &target.plugin {
            let pairs = plugin.arguments.iter().map(|(name, value)| (name, Path::new(value)));
            let pairs = pairs.map(|(name, value)| format!(",{name}={}", escaped(value)));
            add(&["-plugin", &format!("{}{}", escaped(&plugin.file), pairs.collect::<String>())]);
        }
        args.push("-kernel".into());
        args.push(files.kernel.clone().into());
        args.push("-initrd".into());
        args.push(files.initrd.clone().into());
        if let Some(dtb) = &files.dtb {
            args.push("-dtb".into());
            args.push(dtb.clone().into());
        }
        args.push("-append".into());
        args.push(self.append(target).into());
        args
    }

    fn machine_option(&self) -> String {
        let mut option = format!("{},accel={}", self.board, self.accel);
        if self.icount.is_some() && self.board == "virt" {
            option.push_str(",dtb-randomness=off");
        }
        // Debian's 32-bit kernels have no LPAE: the registers of PCI have to lie below 4 GiB.
        if self.interrupting_device && self.arch == Arch::Armv7 {
            option.push_str(",highmem=off");
        }
        option
    }
}

fn default_cpu(arch: Arch) -> &'static str {
    match arch {
        Arch::Armv7 => "cortex-a15",
        Arch::Aarch64 => "cortex-a72",
        Arch::X86_64 => "max",
    }
}

/// A path in an option list of QEMU's: a comma is doubled.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    fn line(spec: &str) -> String {
        let Ok(Target::Vm(target)) = Target::parse(spec) else { panic!("{spec}") };
        let kind = super::super::catalog::find(&target.name).unwrap();
        let machine = Machine::new(kind, &target).unwrap();
        let files = Files {
            kernel: "/k".into(),
            initrd: "/i".into(),
            dtb: None,
            console: "/a,b/console".into(),
        };
        let args = machine.arguments(&target, &files, false);
        args.iter().map(|a| a.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn virtual_time_fixes_what_differs_between_boots() {
        let line = line("vm:armv7-rt,icount=0");
        assert!(line.contains("-icount shift=0,sleep=off -rtc base=2026-01-01T00:00:00,clock=vm"));
        assert!(line.contains("dtb-randomness=off") && line.contains("nokaslr norandmaps"));
        assert!(!super::tests::line("vm:armv7-rt").contains("icount"));
    }

    #[test]
    fn a_cortex_a8_is_a_cubieboard_that_is_heard_over_its_log() {
        let line = line("vm:armv7-rt,cpu=cortex-a8");
        assert!(line.contains("-machine cubieboard") && !line.contains("-cpu "));
        assert!(line.contains("-serial chardev:agent") && line.contains("latlab.port=kmsg"));
        let Ok(Target::Vm(two)) = Target::parse("vm:armv7-rt,cpu=cortex-a8,smp=2") else {
            panic!()
        };
        let kind = super::super::catalog::find("armv7-rt").unwrap();
        assert!(Machine::new(kind, &two).unwrap_err().to_string().contains("one core"));
    }

    #[test]
    fn the_fault_irq_gets_its_device_and_no_other_does() {
        let line = |name: &str, fault: &str| {
            let Ok(Target::Vm(target)) = Target::parse(name) else { panic!("{name}") };
            let faults = [super::super::faults::Fault::parse(fault).unwrap()];
            let target = super::super::faults::machine_for(&target, &faults);
            let kind = super::super::catalog::find(&target.name).unwrap();
            let files =
                Files { kernel: "/k".into(), initrd: "/i".into(), dtb: None, console: "/c".into() };
            Machine::new(kind, &target).map(|machine| {
                let args = machine.arguments(&target, &files, false);
                args.iter().map(|a| a.to_string_lossy()).collect::<Vec<_>>().join(" ")
            })
        };
        assert!(line("vm:x86_64-rt", "irq:us=300").unwrap().contains("-device edu"));
        let arm = line("vm:armv7-rt", "irq:us=300").unwrap();
        assert!(arm.contains("-device edu") && arm.contains("virt,accel=tcg,highmem=off"));
        assert!(!line("vm:armv7-rt", "hardirq:us=300").unwrap().contains("edu"));
        let refused = line("vm:armv7-rt,cpu=cortex-a8", "irq:us=300").unwrap_err().to_string();
        assert!(refused.contains("no PCI"), "{refused}");
    }

    #[test]
    fn a_plugin_gets_its_arguments() {
        let Ok(Target::Vm(mut target)) = Target::parse("vm:armv7-rt,icount=0") else { panic!() };
        let arguments = vec![("out".to_owned(), "/a,b".to_owned()), ("shift".into(), "0".into())];
        target.plugin = Some(super::super::plugin::Plugin { file: "/p.so".into(), arguments });
        let kind = super::super::catalog::find("armv7-rt").unwrap();
        let files =
            Files { kernel: "/k".into(), initrd: "/i".into(), dtb: None, console: "/c".into() };
        let args = Machine::new(kind, &target).unwrap().arguments(&target, &files, false);
        let at = args.iter().position(|a| a == "-plugin").unwrap();
        assert_eq!(args[at + 1], "/p.so,out=/a,,b,shift=0");
        assert!(!line("vm:armv7-rt").contains("-plugin"));
    }

    #[test]
    fn paths_cannot_smuggle_options() {
        assert!(line("vm:x86_64-rt").contains("path=/a,,b/console"));
    }
}
