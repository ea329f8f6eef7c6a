//! Options that choose CPUs.

use anyhow::{anyhow, bail};
use latlab_model::cpulist;
use latlab_model::units::CpuId;

/// The CPUs of a list; without one, all that are permitted to this process.
///
/// # Errors
/// One sentence that names the option, when the list is empty or has others.
pub fn permitted(
    option: &str,
    list: Option<&str>,
    allowed: &[CpuId],
) -> anyhow::Result<Vec<CpuId>> {
    let cpus: Vec<CpuId> = match list {
        None => allowed.to_vec(),
        Some(list) => {
            let list = cpulist::parse(list).map_err(|e| anyhow!("{option}: {e}"))?;
            list.into_iter().map(CpuId).collect()
        }
    };
    if cpus.is_empty() {
        bail!("{option}: the list is empty");
    }
    if let Some(cpu) = cpus.iter().find(|c| !allowed.contains(c)) {
        bail!("{option}: CPU {cpu} is not online or not permitted to this process");
    }
    Ok(cpus)
}

/// CPUs as libnuma reads them: a list, `all`, or all but those of a list (`!2,3`).
///
/// # Errors
/// One sentence that names the option, when it is no list.
pub fn of_list(option: &str, list: &str, allowed: &[CpuId]) -> anyhow::Result<Vec<CpuId>> {
    if list == "all" {
        return Ok(allowed.to_vec());
    }
    let excluded = list.strip_prefix('!');
    let parsed = cpulist::parse(excluded.unwrap_or(list));
    let cpus = parsed.map_err(|e| anyhow!("{option} {list}: {e}"))?.into_iter().map(CpuId);
    Ok(match excluded {
        None => cpus.collect(),
        Some(_) => {
            let without: Vec<CpuId> = cpus.collect();
            allowed.iter().copied().filter(|cpu| !without.contains(cpu)).collect()
        }
    })
}
