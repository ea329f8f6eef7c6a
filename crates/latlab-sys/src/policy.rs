//! Scheduling policy and affinity of the calling thread.
//!
//! The policy is set by the system call itself, `sched_setattr(2)`: musl's
//! `sched_setscheduler` returns ENOSYS, and only this call knows SCHED_DEADLINE.

use latlab_model::units::CpuId;
use latlab_model::wakeup::config::Policy;
use rustix::thread::CpuSet;
use std::io;

/// `struct sched_attr`, first published size (Linux 3.14).
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// What SCHED_DEADLINE asks for: `runtime` in each `period`, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// CPU time in each period, ns; at least 1,024.
    pub runtime_ns: u64,
    /// Period and relative deadline, ns; at least 100,000 unless the system was told otherwise.
    pub period_ns: u64,
}

/// Sets policy and static priority of the calling thread; `budget` is for
/// [`Policy::Deadline`] only.
///
/// # Errors
/// `EPERM` without CAP_SYS_NICE and over RLIMIT_RTPRIO (or, for a deadline
/// task, when it is bound to fewer CPUs than its root domain has), `EINVAL` for a
/// priority or a period out of range, `EBUSY` when deadline bandwidth is used up.
pub fn set(policy: Policy, priority: u32, budget: Budget) -> io::Result<()> {
    set_of(0, policy, priority, budget)
}

/// As [`set`], of another thread; 0 is the caller.
///
/// # Errors
/// As [`set`]; `ESRCH` when there is no such thread.
pub fn set_of(tid: i32, policy: Policy, priority: u32, budget: Budget) -> io::Result<()> {
    let number = match policy {
        Policy::Other => libc::SCHED_OTHER,
        Policy::Fifo => libc::SCHED_FIFO,
        Policy::Rr => libc::SCHED_RR,
        Policy::Batch => libc::SCHED_BATCH,
        Policy::Idle => libc::SCHED_IDLE,
        Policy::Deadline => 6,
    };
    let mut attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: number as u32,
        priority: if policy.has_priority() { priority } else { 0 },
        ..SchedAttr::default()
    };
    if matches!(policy, Policy::Other | Policy::Batch) {
        // A task without privileges must not raise its own nice value, so 0 may be refused.
        attr.nice = nice_of(tid)?;
    }
    if policy == Policy::Deadline {
        attr.runtime_ns = budget.runtime_ns;
        attr.deadline_ns = budget.period_ns;
        attr.period_ns = budget.period_ns;
    }
    apply(tid, &attr)
}

/// Nice value of a thread, whatever its policy; 0 is the caller.
fn nice_of(tid: i32) -> io::Result<i32> {
    // SAFETY: getpriority(2) takes numbers only. The system call returns 20 less the nice value.
    let rc = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(20 - rc as i32) }
}

fn apply(tid: i32, attr: &SchedAttr) -> io::Result<()> {
    // SAFETY: sched_setattr(thread, attr, flags) reads `attr.size` bytes of a live value.
    let rc = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const *attr, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Policy and static priority of a thread; 0 is the caller. A policy that is none of ours is `Other`.
///
/// # Errors
/// `ESRCH` when there is no such thread.
pub fn of(tid: i32) -> io::Result<(Policy, u32)> {
    let attr = attr_of(tid)?;
    let policy = match attr.policy as i32 {
        libc::SCHED_FIFO => Policy::Fifo,
        libc::SCHED_RR => Policy::Rr,
        libc::SCHED_BATCH => Policy::Batch,
        libc::SCHED_IDLE => Policy::Idle,
        6 => Policy::Deadline,
        _ => Policy::Other,
    };
    Ok((policy, attr.priority))
}

/// The calling thread's.
fn current() -> io::Result<SchedAttr> {
    attr_of(0)
}

fn attr_of(tid: i32) -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as u32;
    // SAFETY: sched_getattr(thread, attr, size, flags) writes at most `size` bytes to a live value.
    let rc = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size, 0) };
    if rc == 0 { Ok(attr) } else { Err(io::Error::last_os_error()) }
}

/// Does something as an ordinary task when the caller runs under SCHED_FIFO or SCHED_RR: what takes long
/// and is not measured neither keeps a CPU from others nor uses up a limit on real-time CPU time.
///
/// # Errors
/// When the kernel refuses to change the policy, or to change it back.
pub fn as_ordinary<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let was = current()?;
    if !matches!(was.policy as i32, libc::SCHED_FIFO | libc::SCHED_RR) {
        return Ok(work());
    }
    set(Policy::Other, 0, Budget::default())?;
    let done = work();
    apply(0, &was)?;
    Ok(done)
}

/// What a fair task can ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fair {
    /// Nice value, −20 to 19.
    pub nice: i32,
    /// Slice in ns (EEVDF, Linux 6.12 and later; older kernels ignore it).
    pub slice_ns: Option<u64>,
    /// Latency nice value: only kernels with that patch take it.
    pub latency_nice: Option<i32>,
}

/// The same with what later kernels added: utilisation clamps (5.3), latency nice (a patch set).
#[repr(C)]
#[derive(Default)]
struct SchedAttrLong {
    base: SchedAttr,
    util_min: u32,
    util_max: u32,
    latency_nice: i32,
}

/// Makes the calling thread an ordinary one of policy `other`, `batch` or `idle`.
///
/// # Errors
/// `EPERM` for a nice value below what the user may have, `E2BIG` or `EINVAL` from a kernel
/// without latency nice.
pub fn set_fair(policy: Policy, fair: Fair) -> io::Result<()> {
    const LATENCY_NICE: u64 = 0x80;
    let number = match policy {
        Policy::Batch => libc::SCHED_BATCH,
        Policy::Idle => libc::SCHED_IDLE,
        _ => libc::SCHED_OTHER,
    };
    let mut attr = SchedAttrLong::default();
    attr.base.policy = number as u32;
    attr.base.nice = fair.nice;
    attr.base.runtime_ns = fair.slice_ns.unwrap_or(0);
    attr.base.size = size_of::<SchedAttr>() as u32;
    if let Some(latency) = fair.latency_nice {
        attr.base.size = size_of::<SchedAttrLong>() as u32 - 4;
        attr.base.flags = LATENCY_NICE;
        attr.latency_nice = latency;
    }
    // SAFETY: sched_setattr(thread, attr, flags) reads `attr.size` bytes of a live value.
    let rc = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The runtime that the kernel has noted for the calling thread: of a fair one its slice, ns;
/// 0 from a kernel that takes none.
///
/// # Errors
/// The system call's.
pub fn noted_runtime_ns() -> io::Result<u64> {
    Ok(current()?.runtime_ns)
}

/// Binds the calling thread to some CPUs.
///
/// # Errors
/// When none of them is online and allowed by the cpuset, which it names.
pub fn bind(cpus: &[CpuId]) -> io::Result<()> {
    bind_thread(None, cpus)
}

/// As [`bind`], the thread with this id.
///
/// # Errors
/// As [`bind`], or when there is no such thread.
pub fn bind_of(tid: u32, cpus: &[CpuId]) -> io::Result<()> {
    let pid = rustix::process::Pid::from_raw(tid.cast_signed());
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    bind_thread(Some(pid), cpus)
}

fn bind_thread(thread: Option<rustix::process::Pid>, cpus: &[CpuId]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if cpu.0 as usize >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu.0 as usize);
    }
    rustix::thread::sched_setaffinity(thread, &set).map_err(|error| match error {
        rustix::io::Errno::INVAL => {
            let names: Vec<String> = cpus.iter().map(|cpu| cpu.0.to_string()).collect();
            let names = names.join(",");
            let reason = format!("CPU {names} is not online, or the cpuset does not allow it");
            io::Error::new(io::ErrorKind::InvalidInput, reason)
        }
        other => other.into(),
    })
}

/// CPUs on which the calling thread may run, rising.
///
/// # Errors
/// The system call's.
pub fn allowed() -> io::Result<Vec<CpuId>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
    Ok(cpus.map(|cpu| CpuId(cpu as u32)).collect())
}

/// CPUs that are online, rising: `/sys/devices/system/cpu/online`, or where there is none those that are allowed.
///
/// # Errors
/// When neither can be read.
pub fn online() -> io::Result<Vec<CpuId>> {
    match std::fs::read_to_string("/sys/devices/system/cpu/online") {
        Ok(list) => latlab_model::cpulist::parse(&list)
            .map(|cpus| cpus.into_iter().map(CpuId).collect())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
        Err(_) => allowed(),
    }
}

/// CPUs on which tasks run that nobody has bound: online and not isolated (`isolcpus=`), rising.
///
/// # Errors
/// As [`online`].
pub fn housekeeping() -> io::Result<Vec<CpuId>> {
    let isolated = std::fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let isolated = latlab_model::cpulist::parse(&isolated).unwrap_or_default();
    Ok(online()?.into_iter().filter(|cpu| !isolated.contains(&cpu.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_block_has_the_kernels_size() {
        assert_eq!(size_of::<SchedAttr>(), 48);
        // 60 bytes and the padding to eight.
        assert_eq!(size_of::<SchedAttrLong>(), 64);
        assert_eq!(std::mem::offset_of!(SchedAttrLong, latency_nice), 56);
    }

    #[test]
    fn this_thread_can_be_bound_to_one_of_its_cpus_and_back() {
        std::thread::spawn(|| {
            let before = allowed().unwrap();
            bind(&before[..1]).unwrap();
            assert_eq!(allowed().unwrap(), &before[..1]);
            bind(&before).unwrap();
            assert_eq!(allowed().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_absent_cpu_is_refused() {
        std::thread::spawn(|| {
            assert!(bind(&[CpuId(1023)]).is_err());
            assert!(bind(&[CpuId(u32::MAX)]).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn ordinary_policies_need_no_permission() {
        std::thread::spawn(|| {
            for policy in [Policy::Batch, Policy::Idle] {
                set(policy, 0, Budget::default()).unwrap();
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_ordinary_policy_leaves_the_nice_value() {
        std::thread::spawn(|| {
            set_fair(Policy::Other, Fair { nice: 7, ..Fair::default() }).unwrap();
            for policy in [Policy::Batch, Policy::Other] {
                set(policy, 0, Budget::default()).unwrap();
                assert_eq!(nice_of(0).unwrap(), 7);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_slice_is_taken_or_ignored_and_latency_nice_taken_or_refused() {
        std::thread::spawn(|| {
            let asked = Fair { nice: 1, slice_ns: Some(5_000_000), latency_nice: None };
            set_fair(Policy::Other, asked).unwrap();
            assert!([0, 5_000_000].contains(&noted_runtime_ns().unwrap()));
            let asked = Fair { nice: 1, slice_ns: None, latency_nice: Some(5) };
            if let Err(error) = set_fair(Policy::Other, asked) {
                let expected = [libc::E2BIG, libc::EINVAL].map(Some);
                assert!(expected.contains(&error.raw_os_error()), "{error}");
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_priority_out_of_range_is_refused() {
        std::thread::spawn(|| assert!(set(Policy::Fifo, 100, Budget::default()).is_err()))
            .join()
            .unwrap();
    }
}
