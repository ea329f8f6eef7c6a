//! Processors, boards and caches.

use crate::files::{Root, field};
use latlab_model::cpulist;
use latlab_model::machine::{Cache, Cpu, IdleState};
use std::collections::BTreeMap;

const CPUS: &str = "sys/devices/system/cpu";

/// The CPUs that are online now, rising.
pub fn online_cpus() -> Vec<u32> {
    online(&Root::here())
}

fn online(root: &Root) -> Vec<u32> {
    let listed = root.word(&format!("{CPUS}/online")).and_then(|l| cpulist::parse(&l).ok());
    listed.filter(|l| !l.is_empty()).unwrap_or_else(|| {
        let info = root.text("proc/cpuinfo").unwrap_or_default();
        let numbers = info.lines().filter_map(|l| {
            let (key, value) = l.split_once(':')?;
            (key.trim() == "processor").then(|| value.trim().parse().ok())?
        });
        numbers.collect()
    })
}

/// The processors of a tree.
pub fn read(root: &Root) -> Cpu {
    let online = online(root);
    Cpu {
        model: model(root),
        microcode: root
            .text("proc/cpuinfo")
            .and_then(|t| field(&t, "microcode").and_then(super::software::plain)),
        online: cpulist::format(&online),
        count: u32::try_from(online.len()).unwrap_or(u32::MAX),
        threads_per_core: threads_per_core(root, &online),
        governors: per_policy(root, "scaling_governor"),
        frequency_drivers: per_policy(root, "scaling_driver"),
        idle_driver: root.word(&format!("{CPUS}/cpuidle/current_driver")).filter(|d| d != "none"),
        idle_states: idle_states(root, online.first().copied().unwrap_or(0)),
    }
}

fn per_policy(root: &Root, file: &str) -> BTreeMap<String, String> {
    let policies = root.numbered(&format!("{CPUS}/cpufreq"), "policy").into_iter();
    let mut all: BTreeMap<String, String> = policies
        .filter_map(|(_, p)| Some((p.clone(), root.word(&format!("{CPUS}/cpufreq/{p}/{file}"))?)))
        .collect();
    if all.is_empty() {
        // Before Linux 4.3 each CPU had its own directory and there were no policies.
        for (_, cpu) in root.numbered(CPUS, "cpu") {
            if let Some(word) = root.word(&format!("{CPUS}/{cpu}/cpufreq/{file}")) {
                all.insert(cpu, word);
            }
        }
    }
    all
}

fn threads_per_core(root: &Root, online: &[u32]) -> Option<u32> {
    let counts = online.iter().filter_map(|c| {
        let siblings = root.word(&format!("{CPUS}/cpu{c}/topology/thread_siblings_list"))?;
        u32::try_from(cpulist::parse(&siblings).ok()?.len()).ok()
    });
    counts.max()
}

fn idle_states(root: &Root, cpu: u32) -> Vec<IdleState> {
    let base = format!("{CPUS}/cpu{cpu}/cpuidle");
    let states = root.numbered(&base, "state").into_iter();
    states
        .filter_map(|(_, s)| {
            Some(IdleState {
                name: root.word(&format!("{base}/{s}/name"))?,
                exit_us: root.number(&format!("{base}/{s}/latency")).unwrap_or(0),
                disabled: root.number::<u32>(&format!("{base}/{s}/disable")).unwrap_or(0) != 0,
            })
        })
        .collect()
}

/// Frequency of each CPU in kHz: cpufreq's, else what x86 says in cpuinfo.
pub fn frequencies_khz(root: &Root) -> Vec<u64> {
    let cpufreq: Vec<u64> = (root.numbered(CPUS, "cpu").into_iter())
        .filter_map(|(_, c)| root.number(&format!("{CPUS}/{c}/cpufreq/scaling_cur_freq")))
        .collect();
    if !cpufreq.is_empty() {
        return cpufreq;
    }
    let info = root.text("proc/cpuinfo").unwrap_or_default();
    let mhz = info.lines().filter_map(|l| {
        let (key, value) = l.split_once(':')?;
        (key.trim() == "cpu MHz").then(|| value.trim().parse::<f64>().ok())?
    });
    mhz.filter(|m| m.is_finite() && *m > 0.0).map(|m| (m * 1e3).round() as u64).collect()
}

/// The caches of the first CPU that declares any.
pub fn caches(root: &Root) -> Vec<Cache> {
    let cpus = root.numbered(CPUS, "cpu").into_iter();
    let of = |cpu: &str| -> Vec<Cache> {
        let base = format!("{CPUS}/{cpu}/cache");
        let indices = root.numbered(&base, "index").into_iter();
        indices
            .filter_map(|(_, i)| {
                let at = |f: &str| format!("{base}/{i}/{f}");
                Some(Cache {
                    level: root.number(&at("level"))?,
                    kind: root.word(&at("type"))?,
                    size_bytes: size(&root.word(&at("size"))?)?,
                    line_bytes: root.number(&at("coherency_line_size")).filter(|&n| n > 0),
                    ways: root.number(&at("ways_of_associativity")).filter(|&n| n > 0),
                    shared_by: root.word(&at("shared_cpu_list")),
                })
            })
            .collect()
    };
    cpus.map(|(_, c)| of(&c)).find(|c| !c.is_empty()).unwrap_or_default()
}

/// `32K`, `1M`, `4096`: bytes.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = match text.get(digits.len()..)?.to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// The board's or product's name.
pub fn board(root: &Root) -> Option<String> {
    for path in ["proc/device-tree/model", "sys/firmware/devicetree/base/model"] {
        if let Some(model) = root.word(path) {
            return Some(model);
        }
    }
    let dmi = |f: &str| root.word(&format!("sys/class/dmi/id/{f}"));
    match (dmi("sys_vendor"), dmi("product_name")) {
        (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
        (vendor, product) => {
            // ARM kernels without a device tree.
            let info = root.text("proc/cpuinfo").unwrap_or_default();
            product.or(vendor).or_else(|| field(&info, "Hardware").map(str::to_owned))
        }
    }
}

/// The unit's serial number. DMI's are readable for root only.
pub fn unit(root: &Root) -> Option<String> {
    [
        "proc/device-tree/serial-number",
        "sys/firmware/devicetree/base/serial-number",
        "sys/devices/soc0/serial_number",
        "sys/class/dmi/id/product_serial",
        "sys/class/dmi/id/board_serial",
    ]
    .iter()
    .filter_map(|path| root.word(path))
    .find(|serial| is_serial(serial))
}

/// Whether a manufacturer has filled in the number.
fn is_serial(text: &str) -> bool {
    let plain: String =
        text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let placeholders =
        ["none", "na", "notspecified", "notapplicable", "default", "defaultstring", "unknown"];
    !plain.is_empty()
        && !plain.bytes().all(|b| b == b'0' || b == b'x')
        && plain != "0123456789"
        && plain != "123456789"
        && !plain.starts_with("tobefilled")
        && !plain.starts_with("systemserial")
        && !placeholders.contains(&plain.as_str())
}

fn model(root: &Root) -> Option<String> {
    let info = root.text("proc/cpuinfo")?;
    let name = ["model name", "Processor", "cpu model", "uarch", "isa"]
        .iter()
        .find_map(|key| field(&info, key))
        .filter(|v| !v.is_empty())
        .map(str::to_owned);
    let Some(core) = arm_core(&info) else { return name };
    Some(match name {
        Some(name) => format!("{core}, {name}"),
        None => core.to_owned(),
    })
}

/// Arm's part numbers (MIDR_EL1; each core's Technical Reference Manual).
fn arm_core(info: &str) -> Option<&'static str> {
    if field(info, "CPU implementer") != Some("0x41") {
        return None;
    }
    let part = field(info, "CPU part")?.strip_prefix("0x")?;
    Some(match u32::from_str_radix(part, 16).ok()? {
        0x926 => "ARM926EJ-S",
        0xb76 => "ARM1176",
        0xc05 => "Cortex-A5",
        0xc07 => "Cortex-A7",
        0xc08 => "Cortex-A8",
        0xc09 => "Cortex-A9",
        0xc0e => "Cortex-A17",
        0xc0f => "Cortex-A15",
        0xd03 => "Cortex-A53",
        0xd04 => "Cortex-A35",
        0xd05 => "Cortex-A55",
        0xd07 => "Cortex-A57",
        0xd08 => "Cortex-A72",
        0xd09 => "Cortex-A73",
        0xd0a => "Cortex-A75",
        0xd0b => "Cortex-A76",
        0xd0c => "Neoverse-N1",
        0xd40 => "Neoverse-V1",
        0xd41 => "Cortex-A78",
        0xd44 => "Cortex-X1",
        0xd46 => "Cortex-A510",
        0xd49 => "Neoverse-N2",
        0xd4f => "Neoverse-V2",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("32K"), Some(32768));
        assert_eq!(size("1M"), Some(1 << 20));
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("x"), None);
        assert_eq!(size("99999999999999999999K"), None);
    }
}
