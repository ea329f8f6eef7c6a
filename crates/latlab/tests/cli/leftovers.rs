//! What a command that was killed leaves in the kernel is removed by the next one.

use crate::common::{children_of, instances_of, latlab, said, skip, spawn, tracefs, wait_for};
use std::path::Path;
use std::time::Duration;

/// Keys of the System V semaphores of a process, whose number a key has in its low 22 bits.
fn keys_of(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string("/proc/sysvipc/sem").unwrap_or_default();
    let keys =
        list.lines().skip(1).filter_map(|l| l.split_whitespace().next()?.parse::<u32>().ok());
    keys.filter(|key| key & 0x003f_ffff == pid && matches!(key >> 24, 0x6c | 0x6d)).collect()
}

#[test]
fn semaphores_of_killed_commands_are_removed() {
    if !Path::new("/proc/sysvipc/sem").exists() {
        return skip("no System V semaphores in this kernel");
    }
    const COMMANDS: [&[&str]; 2] = [
        &["wakeup", "--by", "sysv-semaphore", "--policy", "other", "-D", "600", "--out", "r"],
        &["bench", "ipc.sem-sysv", "-D", "600", "--out", "r"],
    ];
    for command in COMMANDS {
        let dir = tempfile::tempdir().unwrap();
        let mut child = spawn(dir.path(), command);
        let pid = child.id();
        wait_for("a semaphore", Duration::from_millis(5), || {
            (!keys_of(pid).is_empty()).then_some(())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        // The trial that has the set ends with its parent, a moment later.
        wait_for("its removal", Duration::from_millis(100), || {
            let restored = latlab(dir.path(), &["doctor", "--restore"]);
            assert!(restored.status.success(), "{}", said(&restored));
            keys_of(pid).is_empty().then_some(())
        });
    }
}

#[test]
fn semaphores_of_a_running_command_stay() {
    if !Path::new("/proc/sysvipc/sem").exists() {
        return skip("no System V semaphores in this kernel");
    }
    let dir = tempfile::tempdir().unwrap();
    let args = ["wakeup", "--by", "sysv-semaphore", "--policy", "other", "-D", "600", "--out", "r"];
    let mut child = spawn(dir.path(), &args);
    wait_for("a semaphore", Duration::from_millis(5), || {
        (!keys_of(child.id()).is_empty()).then_some(())
    });
    let restored = latlab(dir.path(), &["doctor", "--restore"]);
    assert!(restored.status.success(), "{}", said(&restored));
    assert!(!keys_of(child.id()).is_empty());
    crate::common::signal(&child, rustix::process::Signal::TERM);
    child.wait().unwrap();
    assert!(keys_of(child.id()).is_empty());
}

/// The same CPU and another one: each row has a set of its own.
#[test]
fn semaphores_of_several_rows_do_not_remove_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["wakeup", "--by", "sysv-semaphore", "--policy", "other", "-i", "1000", "-l", "20"];
    let out = latlab(dir.path(), &[&args[..], &["--out", "r"]].concat());
    assert!(out.status.success(), "{}", said(&out));
    let run = std::fs::read(dir.path().join("r/run.json")).unwrap();
    let run: serde_json::Value = serde_json::from_slice(&run).unwrap();
    let threads = run["parts"][0]["detail"]["threads"].as_array().unwrap();
    assert!(threads.iter().all(|t| t["wakeups"] == 20), "{threads:?}");
}

/// The process that measures is killed, and its set has the key of the one that stops.
#[test]
fn interrupted_single_operations_leave_no_semaphores() {
    if !Path::new("/proc/sysvipc/sem").exists() {
        return skip("no System V semaphores in this kernel");
    }
    let dir = tempfile::tempdir().unwrap();
    let args = ["bench", "ipc.sem-sysv", "--each", "100000000", "--out", "r"];
    let mut child = spawn(dir.path(), &args);
    wait_for("a semaphore", Duration::from_millis(5), || {
        (!keys_of(child.id()).is_empty()).then_some(())
    });
    crate::common::signal(&child, rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(keys_of(child.id()).is_empty());
}

/// A benchmark measures in a process of its own, which the signal ends before it removes its tracing instance.
#[test]
fn an_interrupted_benchmark_leaves_no_tracing_instance() {
    let Some(tracefs) = tracefs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn(dir.path(), &["bench", "ctx.yield", "-D", "600", "--out", "r"]);
    let instance = wait_for("a tracing instance", Duration::from_millis(2), || {
        let children = children_of(child.id()).into_iter();
        children.flat_map(|pid| instances_of(&tracefs, pid)).next()
    });
    crate::common::signal(&child, rustix::process::Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!instance.exists(), "{}", instance.display());
}
