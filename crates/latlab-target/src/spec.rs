//! How a target is written: `local`, `ssh://user@board[:port]`, `labgrid:PLACE`, `vm:armv7-rt,mem=128M,icount=0`.

use crate::{Result, TargetError};
use std::path::PathBuf;

/// Where a command runs.
#[expect(clippy::large_enum_variant, reason = "there is one of them in a process")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// This machine.
    Local,
    /// A board that the system's ssh reaches.
    Ssh(SshTarget),
    /// A board that labgrid lends.
    Labgrid(LabgridTarget),
    /// A virtual machine.
    Vm(VmTarget),
}

/// A place of labgrid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabgridTarget {
    /// Its name, as labgrid-client(1) takes it.
    pub place: String,
    /// Switches the board's power off and on before the command.
    pub power_cycle: bool,
    /// Seconds until the board has to answer.
    pub boot_timeout_s: u64,
}

impl std::fmt::Display for LabgridTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "labgrid:{}", self.place)
    }
}

/// A board: whatever ssh understands as a destination, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshTarget {
    /// `user@host`, `host`, or a name from ssh's configuration.
    pub destination: String,
    /// Port, where it is not ssh's own choice.
    pub port: Option<u16>,
}

impl std::fmt::Display for SshTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ssh://{}", self.destination)?;
        self.port.map_or(Ok(()), |p| write!(f, ":{p}"))
    }
}

/// A virtual machine and its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmTarget {
    /// Name in the catalogue ([`crate::vm::catalog`]).
    pub name: String,
    /// QEMU's name of the processor.
    pub cpu: Option<String>,
    /// Number of CPUs.
    pub smp: Option<u32>,
    /// Memory in MiB.
    pub mem_mib: Option<u32>,
    /// Virtual time: one instruction takes 2^n ns.
    pub icount: Option<u8>,
    /// QEMU's accelerator (`tcg`, `kvm`); never kvm with icount.
    pub accel: Option<String>,
    /// Added to the kernel's command line; `+` stands for a space.
    pub append: Option<String>,
    /// More modules of the kernel, loaded before the command.
    pub modules: Vec<String>,
    /// Seconds from start to the agent's hello.
    pub boot_timeout_s: Option<u64>,
    /// Host port that is forwarded to the guest's port 22.
    pub ssh_port: Option<u16>,
    /// A kernel of the user's own: an image, or a package or folder that has one.
    pub kernel: Option<PathBuf>,
    /// The purpose of a kernel that was built from source ([`crate::vm::built`]).
    pub build: Option<String>,
    /// The modules of that kernel: a folder that holds them, or a package.
    pub modules_from: Option<PathBuf>,
    /// A RAM disk of the user's own, unpacked below ours (for its modules).
    pub initrd: Option<PathBuf>,
    /// A device tree of the user's own.
    pub dtb: Option<PathBuf>,
    /// With QEMU's PCI device that interrupts when it is told to (`edu`). No option: a fault asks for it.
    pub interrupting_device: bool,
    /// With a plugin of QEMU's code generator. No option: a command asks for it.
    pub plugin: Option<crate::vm::plugin::Plugin>,
}

impl Target {
    /// Reads what the user typed.
    pub fn parse(spec: &str) -> Result<Self> {
        if spec == "local" {
            return Ok(Self::Local);
        }
        if let Some(rest) = spec.strip_prefix("ssh://") {
            return parse_ssh(spec, rest).map(Self::Ssh);
        }
        if let Some(rest) = spec.strip_prefix("labgrid:") {
            return parse_labgrid(spec, rest).map(Self::Labgrid);
        }
        if let Some(rest) = spec.strip_prefix("vm:") {
            return parse_vm(spec, rest).map(Self::Vm);
        }
        Err(wrong(
            spec,
            "this is not a kind of target",
            "local, ssh://user@board[:port], labgrid:PLACE or vm:NAME (latlab vm list)",
        ))
    }
}

fn wrong(spec: &str, reason: impl Into<String>, hint: &str) -> TargetError {
    TargetError::Spec { spec: spec.into(), reason: reason.into(), hint: hint.into() }
}

fn parse_ssh(spec: &str, rest: &str) -> Result<SshTarget> {
    const HINT: &str = "ssh://user@board, ssh://board:2222, ssh://user@[fe80::1]:22";
    let rest = rest.trim_end_matches('/');
    let (user, host) = match rest.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, rest),
    };
    let (host, port) = match host.strip_prefix('[').and_then(|h| h.split_once(']')) {
        Some((inner, after)) => (inner, after.strip_prefix(':')),
        None => match host.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host, None),
        },
    };
    let port = port
        .map(|p| {
            p.parse::<u16>()
                .ok()
                .filter(|p| *p > 0)
                .ok_or_else(|| wrong(spec, format!("{p:?} is not a port"), HINT))
        })
        .transpose()?;
    if host.is_empty() || user == Some("") {
        return Err(wrong(spec, "there is no host in it", HINT));
    }
    // A leading dash would be an option for ssh.
    if host.starts_with('-')
        || rest.starts_with('-')
        || rest.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/')
    {
        return Err(wrong(spec, "not a host name", HINT));
    }
    let destination = user.map_or_else(|| host.to_owned(), |u| format!("{u}@{host}"));
    Ok(SshTarget { destination, port })
}

fn parse_labgrid(spec: &str, rest: &str) -> Result<LabgridTarget> {
    const HINT: &str = "labgrid:bone, labgrid:bone,power=cycle,timeout=180";
    let mut parts = rest.split(',');
    let place = parts.next().unwrap_or_default().to_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+/".contains(c);
    // A leading dash would be an option for labgrid-client.
    if place.is_empty() || place.starts_with('-') || !place.chars().all(plain) {
        return Err(wrong(spec, "not a name of a place", HINT));
    }
    let mut target = LabgridTarget { place, power_cycle: false, boot_timeout_s: 120 };
    for option in parts {
        match option.split_once('=') {
            Some(("power", "cycle")) => target.power_cycle = true,
            Some(("timeout", seconds)) => {
                target.boot_timeout_s =
                    seconds.parse().ok().filter(|s| (1..=3600).contains(s)).ok_or_else(|| {
                        wrong(spec, format!("timeout={seconds}: 1 to 3600 seconds"), HINT)
                    })?;
            }
            _ => return Err(wrong(spec, format!("there is no option {option}"), HINT)),
        }
    }
    Ok(target)
}

const OPTIONS: &str = "options are cpu=, smp=, mem=, icount=, accel=, append=, modules=, timeout=, ssh=, kernel=, build=, modules-from=, initrd=, dtb=";

fn parse_vm(spec: &str, rest: &str) -> Result<VmTarget> {
    let mut parts = rest.split(',');
    let mut vm =
        VmTarget { name: parts.next().unwrap_or_default().to_owned(), ..VmTarget::default() };
    crate::vm::catalog::find(&vm.name).ok_or_else(|| {
        wrong(
            spec,
            format!("there is no virtual machine {:?}", vm.name),
            &format!("there are {}", crate::vm::catalog::names()),
        )
    })?;
    for option in parts {
        let (key, value) = option
            .split_once('=')
            .ok_or_else(|| wrong(spec, format!("option {option:?} has no value"), OPTIONS))?;
        set(&mut vm, key, value).map_err(|e| wrong(spec, e.to_string(), OPTIONS))?;
    }
    if vm.icount.is_some() && vm.smp.is_some_and(|n| n > 1) {
        return Err(wrong(
            spec,
            "virtual time (icount) works with one CPU",
            "leave out smp= or icount=",
        ));
    }
    if vm.icount.is_some() && vm.accel.as_deref().is_some_and(|a| a != "tcg") {
        return Err(wrong(
            spec,
            "virtual time (icount) needs accel=tcg",
            "leave out accel= or icount=",
        ));
    }
    Ok(vm)
}

/// What is wrong with an option of a virtual machine.
#[derive(Debug, thiserror::Error)]
enum OptionError {
    #[error("{option}: a number from {least} to {most} is meant")]
    Number { option: String, least: u64, most: u64 },
    #[error("mem={0}: a size such as 128M or 1G is meant, 64M at least")]
    Size(String),
    #[error("accel={0}: tcg or kvm is meant")]
    Accelerator(String),
    #[error("there is no option {0}")]
    Unknown(String),
}

fn set(vm: &mut VmTarget, key: &str, value: &str) -> std::result::Result<(), OptionError> {
    let option = || format!("{key}={value}");
    let number = |least: u64, most: u64| {
        value
            .parse::<u64>()
            .ok()
            .filter(|n| (least..=most).contains(n))
            .ok_or_else(|| OptionError::Number { option: option(), least, most })
    };
    match key {
        "cpu" if plain(value) => vm.cpu = Some(value.into()),
        "smp" => vm.smp = Some(number(1, 8)? as u32),
        "mem" => {
            vm.mem_mib = Some(parse_mib(value).ok_or_else(|| OptionError::Size(value.into()))?)
        }
        "icount" => vm.icount = Some(number(0, 10)? as u8),
        "accel" if matches!(value, "tcg" | "kvm") => vm.accel = Some(value.into()),
        "accel" => return Err(OptionError::Accelerator(value.into())),
        "append" => vm.append = Some(value.replace('+', " ")),
        "modules" => vm.modules = value.split('+').map(str::to_owned).collect(),
        "timeout" => vm.boot_timeout_s = Some(number(1, 3600)?),
        "ssh" => vm.ssh_port = Some(number(1, 65535)? as u16),
        "kernel" => vm.kernel = Some(value.into()),
        "build" if plain(value) => vm.build = Some(value.into()),
        "modules-from" => vm.modules_from = Some(value.into()),
        "initrd" => vm.initrd = Some(value.into()),
        "dtb" => vm.dtb = Some(value.into()),
        _ => return Err(OptionError::Unknown(option())),
    }
    Ok(())
}

/// Free of anything that QEMU would read as another option.
fn plain(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c))
}

fn parse_mib(value: &str) -> Option<u32> {
    let (digits, factor) = match value.as_bytes().last()? {
        b'G' | b'g' => (&value[..value.len() - 1], 1024),
        b'M' | b'm' => (&value[..value.len() - 1], 1),
        _ => (value, 1),
    };
    digits.parse::<u32>().ok()?.checked_mul(factor).filter(|m| (64..=65536).contains(m))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arch;

    fn reason(spec: &str) -> String {
        Target::parse(spec).expect_err(spec).to_string()
    }

    #[test]
    fn targets_are_read() {
        assert_eq!(Target::parse("local").ok(), Some(Target::Local));
        let ssh = |d: &str, port| Some(Target::Ssh(SshTarget { destination: d.into(), port }));
        assert_eq!(Target::parse("ssh://debian@bone").ok(), ssh("debian@bone", None));
        assert_eq!(Target::parse("ssh://bone:2222/").ok(), ssh("bone", Some(2222)));
        assert_eq!(Target::parse("ssh://root@[fe80::1]:22").ok(), ssh("root@fe80::1", Some(22)));
        let Ok(Target::Vm(vm)) = Target::parse("vm:armv7-rt,cpu=cortex-a8,smp=1,mem=1G,icount=0")
        else {
            panic!("vm")
        };
        assert_eq!(
            (vm.cpu.as_deref(), vm.smp, vm.mem_mib, vm.icount),
            (Some("cortex-a8"), Some(1), Some(1024), Some(0))
        );
    }

    #[test]
    fn places_of_labgrid_are_read() {
        let place = |place: &str, power_cycle, boot_timeout_s| {
            Some(Target::Labgrid(LabgridTarget {
                place: place.into(),
                power_cycle,
                boot_timeout_s,
            }))
        };
        assert_eq!(Target::parse("labgrid:bone").ok(), place("bone", false, 120));
        let options = "labgrid:bone,power=cycle,timeout=30";
        assert_eq!(Target::parse(options).ok(), place("bone", true, 30));
        assert!(reason("labgrid:").contains("not a name of a place"));
        assert!(reason("labgrid:-x").contains("not a name of a place"));
        assert!(reason("labgrid:a;reboot").contains("not a name of a place"));
        assert!(reason("labgrid:a,power=off").contains("there is no option power=off"));
        assert!(reason("labgrid:a,timeout=0").contains("1 to 3600"));
    }

    #[test]
    fn bad_targets_name_what_is_wrong() {
        assert_eq!(reason("board"), "target \"board\": this is not a kind of target");
        assert_eq!(reason("vm:mips"), "target \"vm:mips\": there is no virtual machine \"mips\"");
        assert!(reason("vm:armv7-rt,mem=1").contains("64M at least"));
        assert!(reason("vm:armv7-rt,colour=red").contains("there is no option colour=red"));
        assert!(reason("vm:armv7-rt,cpu=max,icount=0,smp=2").contains("one CPU"));
        assert!(reason("vm:armv7-rt,cpu=a15 -hda /etc/shadow").contains("no option cpu"));
        assert!(reason("ssh://-oProxyCommand=x").contains("not a host name"));
        assert!(reason("ssh://u@:22").contains("no host"));
        assert!(reason("ssh://h:99999").contains("not a port"));
    }

    #[test]
    fn boards_are_known_by_uname() {
        assert_eq!(Arch::from_uname("armv7l"), Some(Arch::Armv7));
        assert_eq!(Arch::from_uname("armv6l"), None);
        assert_eq!(Arch::from_uname("aarch64"), Some(Arch::Aarch64));
        assert_eq!(Arch::from_uname("riscv64"), None);
    }
}
