//! Keeps the watch off the CPUs of the watched threads: its system calls and its cache lines delay them there.
//!
//! A thread of its own, which may run anywhere, ends that where the watch does not get the CPU: a real-time task that never
//! sleeps may have come to the only one that was left.

use anyhow::Context;
use latlab_model::units::CpuId;
use latlab_sys::{policy, process};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Without a look for so long, the watch may run anywhere.
const STALLED: Duration = Duration::from_secs(3);
/// So long after that it stays so.
const FREE: Duration = Duration::from_secs(60);

/// Where the watch may run, and where it runs now.
#[derive(Debug)]
pub(super) struct Aside {
    allowed: Vec<CpuId>,
    bound: Vec<CpuId>,
    shared: Arc<Shared>,
    freed: Option<Instant>,
}

/// What the watch and the other thread tell each other.
#[derive(Debug, Default)]
struct Shared {
    /// Looks so far.
    looks: AtomicU64,
    /// The watch was let go.
    is_free: AtomicBool,
}

impl Aside {
    /// Anywhere, so far. It is for the calling thread.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn new() -> anyhow::Result<Self> {
        let allowed = policy::allowed().unwrap_or_default();
        let shared = Arc::new(Shared::default());
        if allowed.len() > 1 {
            let (shared, allowed) = (shared.clone(), allowed.clone());
            let watch = process::thread_id();
            let run = move || guard(&shared, watch, &allowed, STALLED);
            std::thread::Builder::new()
                .name("watch-guard".into())
                .spawn(run)
                .context("starting a thread")?;
        }
        Ok(Self { bound: allowed.clone(), allowed, shared, freed: None })
    }

    /// Moves to CPUs on which no activation of this look ran, where there are any; without activations it stays.
    pub(super) fn keep_off(&mut self, used: &[CpuId]) {
        self.shared.looks.fetch_add(1, Ordering::Relaxed);
        if self.shared.is_free.swap(false, Ordering::Relaxed) {
            self.freed = Some(Instant::now());
            self.bound.clone_from(&self.allowed);
        }
        let wanted = others(&self.allowed, used);
        let is_free = self.freed.is_some_and(|since| since.elapsed() < FREE);
        if used.is_empty() || is_free || wanted == self.bound {
            return;
        }
        // A CPU that went offline: where it is now it may stay.
        if policy::bind(&wanted).is_ok() {
            self.bound = wanted;
        }
    }
}

/// Lets the watch, a thread, run anywhere where it makes no look for so long.
fn guard(shared: &Shared, watch: u32, allowed: &[CpuId], stalled: Duration) {
    let mut before = 0;
    loop {
        std::thread::sleep(stalled);
        let looks = shared.looks.load(Ordering::Relaxed);
        if looks == before && policy::bind_of(watch, allowed).is_ok() {
            shared.is_free.store(true, Ordering::Relaxed);
        }
        before = looks;
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

    /// A watch that makes no looks may run anywhere again, and is not bound at the next ones.
    #[test]
    fn a_watch_that_gets_no_cpu_is_let_go() {
        let allowed = policy::allowed().unwrap();
        let shared = Arc::new(Shared::default());
        let of_guard = (shared.clone(), allowed.clone(), process::thread_id());
        policy::bind(&allowed[..1]).unwrap();
        let every = Duration::from_millis(5);
        std::thread::spawn(move || guard(&of_guard.0, of_guard.2, &of_guard.1, every));
        while !shared.is_free.load(Ordering::Relaxed) {
            std::thread::sleep(every);
        }
        assert_eq!(policy::allowed().unwrap(), allowed);
        let bound = allowed[..1].to_vec();
        let mut aside = Aside { allowed: allowed.clone(), bound, shared, freed: None };
        aside.keep_off(&allowed[..1]);
        assert_eq!(policy::allowed().unwrap(), allowed);
    }
}
