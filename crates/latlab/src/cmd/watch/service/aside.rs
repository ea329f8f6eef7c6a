//! Keeps the watch off the CPUs of the watched threads: its system calls and its cache lines delay them there.

use latlab_model::units::CpuId;
use latlab_sys::policy;

/// Where the watch may run, and where it runs now.
#[derive(Debug)]
pub(super) struct Aside {
    allowed: Vec<CpuId>,
    bound: Vec<CpuId>,
}

impl Aside {
    /// Anywhere, so far.
    pub(super) fn new() -> Self {
        let allowed = policy::allowed().unwrap_or_default();
        Self { bound: allowed.clone(), allowed }
    }

    /// Moves to CPUs on which no activation of the last look ran, where there are any; without activations it stays.
    pub(super) fn keep_off(&mut self, used: &[CpuId]) {
        let wanted = others(&self.allowed, used);
        if used.is_empty() || wanted == self.bound {
            return;
        }
        // A CPU that went offline: where it is now it may stay.
        if policy::bind(&wanted).is_ok() {
            self.bound = wanted;
        }
    }
}

/// The CPUs that are not used; all, where each is.
fn others(allowed: &[CpuId], used: &[CpuId]) -> Vec<CpuId> {
    let free: Vec<CpuId> = allowed.iter().copied().filter(|cpu| !used.contains(cpu)).collect();
    if free.is_empty() { allowed.to_vec() } else { free }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_cpus_are_taken_where_there_are_any() {
        let cpus = |numbers: &[u32]| numbers.iter().copied().map(CpuId).collect::<Vec<_>>();
        assert_eq!(others(&cpus(&[0, 1, 3]), &cpus(&[1, 2])), cpus(&[0, 3]));
        assert_eq!(others(&cpus(&[0, 1]), &cpus(&[1, 0])), cpus(&[0, 1]));
        assert_eq!(others(&cpus(&[0]), &cpus(&[0])), cpus(&[0]), "a machine of one CPU");
    }
}
