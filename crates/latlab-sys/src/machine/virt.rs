//! Virtual machines and containers, from the signs that they leave.

use crate::files::Root;

/// Signature of the hypervisor in CPUID leaf 40000000H; `None` on bare metal and on other processors.
#[cfg(target_arch = "x86_64")]
pub fn signature() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    if __cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let bytes: Vec<u8> =
        [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|r| r.to_le_bytes()).collect();
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
}

/// Signature of the hypervisor in CPUID leaf 40000000H; `None` on bare metal and on other processors.
#[cfg(not(target_arch = "x86_64"))]
pub fn signature() -> Option<String> {
    None
}

/// `kvm`, `qemu-tcg`, `docker`, `kvm, docker`…; `None` where no sign was found.
pub fn recognise(root: &Root, signature: Option<&str>) -> Option<String> {
    let machine = hypervisor(root, signature);
    let container = container(root);
    match (machine, container) {
        (Some(m), Some(c)) => Some(format!("{m}, {c}")),
        (m, c) => m.or(c.map(str::to_owned)),
    }
}

fn hypervisor(root: &Root, signature: Option<&str>) -> Option<String> {
    if let Some(signature) = signature {
        let known = match signature.trim() {
            "KVMKVMKVM" | "Linux KVM Hv" => "kvm",
            "TCGTCGTCGTCG" => "qemu-tcg",
            "Microsoft Hv" => "hyper-v",
            "VMwareVMware" => "vmware",
            "XenVMMXenVMM" => "xen",
            "bhyve bhyve" => "bhyve",
            "ACRNACRNACRN" => "acrn",
            "SRESRESRESRE" => "lockheed-sre",
            "QNXQVMBSQG" => "qnx",
            _ => "unknown hypervisor",
        };
        return Some(known.to_owned());
    }
    if let Some(kind) = root.word("sys/hypervisor/type") {
        return Some(kind);
    }
    let tree = root.text("proc/device-tree/compatible").unwrap_or_default();
    if tree.split('\0').any(|c| c == "linux,dummy-virt") {
        return Some("qemu".into());
    }
    if let Some(kind) = root.text("proc/device-tree/hypervisor/compatible") {
        let first = kind.split('\0').next().unwrap_or_default();
        return Some(if first.contains("xen") { "xen".into() } else { first.to_owned() });
    }
    let dmi = ["sys_vendor", "product_name", "board_vendor", "bios_vendor"]
        .map(|f| root.text(&format!("sys/class/dmi/id/{f}")).unwrap_or_default())
        .join("\n");
    let signs = [
        ("QEMU", "qemu"),
        ("KVM", "kvm"),
        ("Amazon EC2", "amazon ec2"),
        ("Google Compute Engine", "google compute engine"),
        ("VMware", "vmware"),
        ("innotek GmbH", "virtualbox"),
        ("Xen", "xen"),
        ("Bochs", "bochs"),
        ("Parallels", "parallels"),
        ("Firecracker", "firecracker"),
    ];
    if let Some((_, name)) = signs.iter().find(|(sign, _)| dmi.contains(sign)) {
        return Some((*name).to_owned());
    }
    let info = root.text("proc/cpuinfo").unwrap_or_default();
    let flags = crate::files::field(&info, "flags").unwrap_or_default();
    flags.split(' ').any(|f| f == "hypervisor").then(|| "unknown hypervisor".to_owned())
}

fn container(root: &Root) -> Option<&'static str> {
    if root.exists(".dockerenv") {
        return Some("docker");
    }
    if root.exists("run/.containerenv") {
        return Some("podman");
    }
    let environment = root.text("proc/1/environ").unwrap_or_default();
    let named = environment.split('\0').find_map(|v| v.strip_prefix("container="));
    let groups = root.text("proc/1/cgroup").unwrap_or_default();
    let kinds = [
        ("kubepods", "kubernetes"),
        ("docker", "docker"),
        ("podman", "podman"),
        ("libpod", "podman"),
        ("lxc", "lxc"),
        ("systemd-nspawn", "systemd-nspawn"),
    ];
    let kind = |text: &str| kinds.iter().find(|(sign, _)| text.contains(sign)).map(|(_, n)| *n);
    match named.filter(|n| !n.is_empty()) {
        Some(name) => Some(kind(name).unwrap_or("container")),
        None => kind(&groups),
    }
}
