//! Processes and threads: made, replaced by a program, waited for.

use super::peer::fork_error;
use super::{Calling, ParamSpec, Probe, ProbeError, Setting, Spec, repeat};
use latlab_model::finding::Note;
use std::ffi::CString;
use std::hint::black_box;
use std::io;

const PROGRAM: ParamSpec =
    ParamSpec { name: "program", what: "what is run", default: &["/bin/true"], full: &[] };

const PROCESSES: ParamSpec = ParamSpec {
    name: "procs",
    what: "processes, 1 to 256",
    default: &["4"],
    full: &["1", "4", "16"],
};
const WORK: ParamSpec = ParamSpec {
    name: "us",
    what: "work of each, µs of CPU time, up to 1000000",
    default: &["100"],
    full: &["100", "1000"],
};

/// The probes of this file.
pub const SPECS: &[Spec] = &[
    Spec::new("process.call", "calling a function and returning", "lat_proc procedure", call),
    Spec::new(
        "process.fork-exit",
        "fork(), _exit() in the child, wait",
        "lat_proc fork",
        fork_exit,
    ),
    Spec::new("process.fork-exec", "fork(), execve() of a program, wait", "lat_proc exec", |s| {
        fork_exec(s, &[])
    })
    .with(&[PROGRAM]),
    Spec::new("process.shell", "fork(), /bin/sh -c of a program, wait", "lat_proc shell", |s| {
        fork_exec(s, &["/bin/sh", "-c"])
    })
    .with(&[PROGRAM]),
    Spec::new("process.spawn", "posix_spawn() of a program (no copy of memory), wait", "", spawn)
        .with(&[PROGRAM]),
    Spec::new(
        "process.parallel",
        "several processes made at once, each with some work, until the last has ended",
        "lat_pmake",
        parallel,
    )
    .with(&[PROCESSES, WORK])
    .full(),
    Spec::new("process.thread", "creation and join of a thread", "", thread),
];

#[inline(never)]
fn callee(x: u64) -> u64 {
    black_box(x)
}

fn call(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    repeat(|| {
        black_box(callee(black_box(1)));
        Ok(())
    })
}

/// Forks; `child` must not return and may only make system calls.
fn fork_and_wait(child: impl FnOnce()) -> Result<(), ProbeError> {
    // SAFETY: the child makes system calls only, then ends without running destructors.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        child();
        // SAFETY: _exit(2) only ends the child.
        unsafe { libc::_exit(127) };
    }
    if pid < 0 {
        return Err(fork_error(io::Error::last_os_error()));
    }
    wait(pid)
}

fn wait(pid: libc::pid_t) -> Result<(), ProbeError> {
    let mut status = 0;
    // SAFETY: waits for our own child; `status` outlives the call.
    let r = unsafe { libc::waitpid(pid, &mut status, 0) };
    super::syscall::check("waitpid", r.into())?;
    match status >> 8 & 0xff {
        127 => Err(ProbeError::unavailable("probe.program-not-run")),
        _ => Ok(()),
    }
}

fn fork_exit(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    // SAFETY: _exit(2) only ends the child.
    repeat(|| fork_and_wait(|| unsafe { libc::_exit(0) }))
}

/// As make(1) does it with -j: all are made, then all are waited for.
fn parallel(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let (procs, us) = (setting.number("procs")?, setting.number("us")?);
    if !(1..=256).contains(&procs) {
        return Err(setting.bad("procs", "1 to 256"));
    }
    if us > 1_000_000 {
        return Err(setting.bad("us", "up to 1000000"));
    }
    // All of the CPUs, as the processes of make have them.
    crate::policy::bind(&setting.allowed).calling("sched_setaffinity")?;
    let mut pids: Vec<libc::pid_t> = Vec::with_capacity(procs as usize);
    repeat(move || {
        pids.clear();
        for _ in 0..procs {
            // SAFETY: the child makes system calls only, then ends without running destructors.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                work(us * 1000);
                // SAFETY: _exit(2) only ends the child.
                unsafe { libc::_exit(0) };
            }
            if pid < 0 {
                let error = io::Error::last_os_error();
                pids.iter().try_for_each(|pid| wait(*pid))?;
                return Err(fork_error(error));
            }
            pids.push(pid);
        }
        pids.iter().try_for_each(|pid| wait(*pid))
    })
}

/// Computes for so many ns of this process's CPU time.
fn work(ns: u64) {
    let begun = crate::clock::thread_cpu_ns();
    while crate::clock::thread_cpu_ns().saturating_sub(begun) < ns {
        black_box((0..64u64).fold(1u64, |x, i| black_box(x.wrapping_mul(3) ^ i)));
    }
}

/// The argument strings, with `before` in front of the program.
fn arguments(setting: &Setting, before: &[&str]) -> Result<Vec<CString>, ProbeError> {
    let program = setting.text("program");
    if !std::path::Path::new(program).exists() {
        return Err(ProbeError::Unavailable(
            Note::new("probe.no-program").value("program", program),
        ));
    }
    (before.iter().copied().chain([program]))
        .map(|a| CString::new(a).map_err(|_| setting.bad("program", "a path without a zero byte")))
        .collect()
}

/// Pointers to strings that outlive them, with the null that ends the list.
struct Argv {
    _strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Argv {
    fn new(strings: Vec<CString>) -> Self {
        let pointers = strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect();
        Self { _strings: strings, pointers }
    }

    /// The list. A method, so that a closure that uses it keeps the strings too.
    fn list(&self) -> &[*const libc::c_char] {
        &self.pointers
    }
}

fn fork_exec(setting: &Setting, before: &[&str]) -> Result<Box<dyn Probe>, ProbeError> {
    let argv = Argv::new(arguments(setting, before)?);
    let environment = [std::ptr::null::<libc::c_char>()];
    repeat(move || {
        let argv = argv.list();
        fork_and_wait(|| {
            // SAFETY: both lists end in null and their strings are alive; on success it does not return.
            unsafe { libc::execve(argv[0], argv.as_ptr(), environment.as_ptr()) };
        })
    })
}

fn spawn(setting: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    let argv = Argv::new(arguments(setting, &[])?);
    let environment = [std::ptr::null_mut::<libc::c_char>()];
    repeat(move || {
        let list = argv.list();
        let mut pid = 0;
        let none = std::ptr::null();
        // SAFETY: both lists end in null and their strings are alive; the C library does not write to them.
        let error = unsafe {
            let arguments = list.as_ptr().cast::<*mut libc::c_char>();
            libc::posix_spawn(&mut pid, list[0], none, none.cast(), arguments, environment.as_ptr())
        };
        if error != 0 {
            return Err(fork_error(io::Error::from_raw_os_error(error)));
        }
        wait(pid)
    })
}

fn thread(_: &Setting) -> Result<Box<dyn Probe>, ProbeError> {
    repeat(|| {
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(|| {});
        let joined = thread.calling("making a thread")?.join();
        joined.map_err(|_| ProbeError::failed("probe.thread-panicked"))
    })
}
