//! Starts an image in QEMU's `virt` machine, with the kernel and the RAM disk that lie on its boot partition, or with firmware
//! that finds them itself.
//!
//! The image is not changed: QEMU writes to a temporary overlay (`snapshot=on`).

use super::{ALIGNMENT, INITRD, KERNEL, SECTOR, fat, mbr};
use latlab_target::cache::Scratch;
use latlab_target::vm::find_program;
use latlab_target::{Arch, Result, TargetError};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// How to start it.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Port here that leads to the machine's ssh.
    pub ssh_port: u16,
    /// UEFI or U-Boot; otherwise the kernel is started directly.
    pub firmware: Option<&'a Path>,
    /// CPUs.
    pub smp: u32,
}

/// The bytes of an image's boot partition.
pub fn boot_partition(image: &Path) -> Result<Vec<u8>> {
    let mut file = File::open(image).map_err(TargetError::file(image))?;
    let wrong = |reason: &str| TargetError::Content {
        path: image.to_path_buf(),
        reason: reason.into(),
        hint: "latlab image --board NAME builds one".into(),
    };
    let mut first = [0; 512];
    file.read_exact(&mut first).map_err(|_| wrong("this is not an image of a card"))?;
    let table = mbr::read(&first).and_then(|(_, p)| p.first().copied());
    let boot =
        table.ok_or_else(|| wrong("this is not an image of a card (it has no partition table)"))?;
    if u64::from(boot.start) != ALIGNMENT || u64::from(boot.sectors) * SECTOR > 1 << 30 {
        return Err(wrong("its first partition is not one of latlab's"));
    }
    let mut data = vec![0; ((ALIGNMENT - 1) * SECTOR) as usize];
    file.read_exact(&mut data).map_err(|_| wrong("it is cut short"))?;
    data.resize((u64::from(boot.sectors) * SECTOR) as usize, 0);
    file.read_exact(&mut data).map_err(|_| wrong("it is cut short"))?;
    Ok(data)
}

/// An image's beginning up to the end of the boot partition.
pub fn head(image: &Path) -> Result<Vec<u8>> {
    let mut file = File::open(image).map_err(TargetError::file(image))?;
    let mut head = vec![0; (ALIGNMENT * SECTOR) as usize];
    let n = crate::write::fill(&mut file, &mut head).map_err(TargetError::file(image))?;
    head.truncate(n);
    let sectors = mbr::read(&head).and_then(|(_, p)| p.first().copied());
    let end = sectors.map_or(0, |p| u64::from(p.start) + u64::from(p.sectors)) * SECTOR;
    // A partition table may say anything; a boot partition is smaller than a gigabyte.
    let rest = end.min(2 << 30).saturating_sub(n as u64);
    file.take(rest).read_to_end(&mut head).map_err(TargetError::file(image))?;
    Ok(head)
}

/// From the kernel's first bytes: zImage's magic number is at 36 (`Documentation/arch/arm/booting.rst`),
/// arm64's "ARM\x64" at 56 (`Documentation/arch/arm64/booting.rst`).
fn arch_of(kernel: &[u8]) -> Option<Arch> {
    match (kernel.get(36..40), kernel.get(56..60)) {
        (Some([0x18, 0x28, 0x6f, 0x01]), _) => Some(Arch::Armv7),
        (_, Some(b"ARM\x64")) => Some(Arch::Aarch64),
        // Debian's arm64 kernel may be compressed.
        _ if kernel.starts_with(&[0x1f, 0x8b]) => Some(Arch::Aarch64),
        _ => None,
    }
}

/// The words of the command line that the loader would give, whichever loader's file they are in.
fn command_line(boot: &[u8]) -> Option<String> {
    let files = [("extlinux/extlinux.conf", "append"), ("loader/entries/latlab.conf", "options")];
    files.into_iter().find_map(|(file, key)| {
        let text = String::from_utf8(fat::read(boot, file).ok()?).ok()?;
        let line = text.lines().find_map(|l| l.trim().strip_prefix(key))?;
        Some(line.trim().to_owned())
    })
}

/// QEMU for an image, its console on stdin and stdout.
pub fn command(image: &Path, options: &Options<'_>, scratch: &Scratch) -> Result<Command> {
    let boot = boot_partition(image)?;
    let content = |name: &str| {
        fat::read(&boot, name).map_err(|source| TargetError::Content {
            path: image.to_path_buf(),
            reason: format!("its boot partition has no {name} ({source})"),
            hint: "latlab image --board NAME builds one".into(),
        })
    };
    let kernel = content(KERNEL)?;
    let arch = arch_of(&kernel).ok_or_else(|| TargetError::Content {
        path: image.to_path_buf(),
        reason: "its kernel is neither a zImage for 32-bit ARM nor an Image for 64-bit ARM".into(),
        hint: "QEMU starts these two".into(),
    })?;
    let (program, cpu) = match arch {
        Arch::Aarch64 => ("qemu-system-aarch64", "cortex-a57"),
        _ => ("qemu-system-arm", "cortex-a15"),
    };
    let path = find_program(program).ok_or_else(|| TargetError::NoProgram {
        program: program.into(),
        purpose: "starting an image".into(),
        package: "qemu-system-arm".into(),
    })?;
    let mut command = Command::new(path);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.args(["-machine", "virt", "-cpu", cpu, "-smp", &options.smp.to_string(), "-m", "512"]);
    command.args(["-serial", "mon:stdio"]);
    let drive = image.display().to_string().replace(',', ",,");
    command
        .arg("-drive")
        .arg(format!("if=none,id=card,format=raw,snapshot=on,cache=unsafe,file={drive}"));
    command.args(["-device", "virtio-blk-device,drive=card"]);
    let forward = format!("user,id=net,hostfwd=tcp:127.0.0.1:{}-:22", options.ssh_port);
    command.args(["-netdev", &forward, "-device", "virtio-net-device,netdev=net"]);
    if let Some(firmware) = options.firmware {
        // Looked at here, so that it is not QEMU that complains.
        File::open(firmware).map_err(TargetError::file(firmware))?;
        command.arg("-bios").arg(firmware);
        return Ok(command);
    }
    let put = |name: &str, data: &[u8]| {
        let path = scratch.path().join(name);
        fs::write(&path, data).map_err(TargetError::file(&path)).map(|()| path)
    };
    command.arg("-kernel").arg(put(KERNEL, &kernel)?);
    command.arg("-initrd").arg(put(INITRD, &content(INITRD)?)?);
    let line = command_line(&boot).unwrap_or_default();
    // The board's console does not exist here: QEMU's does.
    let line = line.split(' ').filter(|w| !w.starts_with("console=")).collect::<Vec<_>>().join(" ");
    command.arg("-append").arg(format!("{line} console=ttyAMA0"));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_by_their_first_bytes() {
        let mut zimage = vec![0; 64];
        zimage[36..40].copy_from_slice(&0x016f_2818u32.to_le_bytes());
        assert_eq!(arch_of(&zimage), Some(Arch::Armv7));
        let mut image = vec![0; 64];
        image[56..60].copy_from_slice(b"ARM\x64");
        assert_eq!(arch_of(&image), Some(Arch::Aarch64));
        assert_eq!(arch_of(b"MZ"), None);
    }
}
