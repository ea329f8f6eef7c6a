//! CPU lists as the kernel writes them: `0-3,8,10-14:2` (Documentation/core-api/cpu_lists, "cpulist").

use std::collections::BTreeSet;
use thiserror::Error;

/// No kernel numbers CPUs higher (`CONFIG_NR_CPUS` ends at 8192).
const CPU_MAX: u32 = 8191;

/// Why a text is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is not a list of CPUs; write it as 0-3,8")]
pub struct BadCpuList(pub String);

/// The CPUs of a list, rising, each once. An empty list is an empty set.
///
/// # Errors
/// When a part is no number or range, or a CPU is above 8191.
pub fn parse(list: &str) -> Result<Vec<u32>, BadCpuList> {
    let bad = || BadCpuList(list.trim().to_owned());
    let number = |s: &str| s.trim().parse::<u32>().ok().filter(|&n| n <= CPU_MAX).ok_or_else(bad);
    let mut cpus = BTreeSet::new();
    for part in list.trim().split(',').filter(|p| !p.trim().is_empty()) {
        let (range, step) = match part.split_once(':') {
            // `first-last:used/group`: the kernel's way to write a stride.
            Some((range, stride)) => {
                let (used, group) = stride.split_once('/').unwrap_or(("1", stride));
                (range, (number(used)?, number(group)?.max(1)))
            }
            None => (part, (1, 1)),
        };
        let (first, last) = match range.split_once('-') {
            Some((a, b)) => (number(a)?, number(b)?),
            None => (number(range)?, number(range)?),
        };
        if first > last {
            return Err(bad());
        }
        cpus.extend((first..=last).filter(|c| (c - first) % step.1 < step.0));
    }
    Ok(cpus.into_iter().collect())
}

/// The shortest list of ranges: `[0, 1, 2, 5]` → `0-2,5`. Sort first.
pub fn format(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let words = parts.iter().map(|&(a, b)| match b - a {
        0 => a.to_string(),
        _ => format!("{a}-{b}"),
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(parse("0-3,8\n").unwrap(), [0, 1, 2, 3, 8]);
        assert_eq!(parse("").unwrap(), [0u32; 0]);
        assert_eq!(parse("0-6:2").unwrap(), [0, 2, 4, 6]);
        assert_eq!(parse("0-7:2/4").unwrap(), [0, 1, 4, 5]);
        for bad in ["a", "3-1", "0-", "-1", "0-99999999999", "1 2", "0x3"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn writes_ranges() {
        assert_eq!(format(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(format(&[]), "");
    }
}
