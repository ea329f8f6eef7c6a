//! latlab as nobody: what each capability set of docs/explanation/security.md allows, and tracefs by group.

use crate::common::{for_everybody, is_root, said, skip};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TRACEFS: &str = "/sys/kernel/tracing";
/// nobody and nogroup.
const ID: &str = "65534";

/// A program and a folder that nobody may use.
struct Nobody {
    dir: tempfile::TempDir,
    program: PathBuf,
}

impl Nobody {
    /// `None`, said, where it cannot be tested.
    fn new() -> Option<Self> {
        if !is_root() {
            skip("only root can become nobody");
            return None;
        }
        if Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_err() {
            skip("there is no setpriv");
            return None;
        }
        // /tmp, because nobody may not be able to enter the directory of the build.
        let dir = tempfile::Builder::new().prefix("latlab-nobody-").tempdir_in("/tmp").unwrap();
        let program = for_everybody(dir.path());
        std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
        Some(Self { dir, program })
    }

    /// `latlab ARGS` with these capabilities and no others, and without limits that allow the same.
    fn run(&self, capabilities: &[&str], args: &[&str]) -> Output {
        let set: String = capabilities.iter().map(|c| format!(",+{c}")).collect();
        Command::new("prlimit")
            .args(["--rtprio=0", "--memlock=65536", "setpriv", "--reuid", ID, "--regid", ID])
            .arg("--clear-groups")
            .args([format!("--inh-caps=-all{set}"), format!("--ambient-caps=-all{set}")])
            .arg(format!("--bounding-set=-all{set}"))
            .arg(&self.program)
            .args(args)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
}

#[test]
fn a_real_time_priority_takes_sys_nice_and_nothing_else() {
    let Some(nobody) = Nobody::new() else { return };
    let args = ["wakeup", "-p", "60", "-t", "1", "-D", "0.1", "--json"];
    let refused = nobody.run(&[], &args);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("CAP_SYS_NICE"), "{}", said(&refused));
    let output = nobody.run(&["sys_nice"], &args);
    succeeded(&output);
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let thread = &run["parts"][0]["detail"]["threads"][0];
    assert!(thread["wakeups"].as_u64().is_some_and(|n| n > 0), "{thread}");
    assert_eq!(thread["priority"], 60);
    succeeded(&nobody.run(&["sys_nice", "ipc_lock"], &["wakeup", "-m", "-p", "60", "-D", "0.1"]));
    succeeded(&nobody.run(&[], &["wakeup", "--policy", "other", "-t", "1", "-D", "0.1"]));
}

#[test]
fn a_recording_takes_dac_override_where_tracefs_is_roots() {
    let Some(nobody) = Nobody::new() else { return };
    if !Path::new(TRACEFS).join("instances").is_dir() {
        return skip("no tracefs");
    }
    let record = |to| ["record", "-e", "sched_switch", "-o", to, "--", "sleep", "0.1"];
    let refused = nobody.run(&["sys_nice"], &record("none.dat"));
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("docs/explanation/security.md"), "{}", said(&refused));
    assert!(!nobody.dir.path().join("none.dat").exists());
    succeeded(&nobody.run(&["dac_override"], &record("a.dat")));
    succeeded(&nobody.run(&[], &["report", "a.dat"]));
}

/// tracefs as it was, however the test ends.
struct ByGroup;

impl ByGroup {
    /// The commands of docs/security.md.
    fn set(gid: &str, mode: &str, owner: u32) -> bool {
        let options = format!("remount,gid={gid},mode={mode}");
        let done = Command::new("mount").args(["-o", &options, TRACEFS]).status();
        done.is_ok_and(|s| s.success())
            && std::os::unix::fs::chown(Path::new(TRACEFS).join("instances"), Some(owner), None)
                .is_ok()
    }
}

impl Drop for ByGroup {
    fn drop(&mut self) {
        Self::set("0", "700", 0);
    }
}

#[test]
fn a_recording_takes_no_capability_where_tracefs_is_the_groups() {
    // It changes who may trace on the whole machine for a moment.
    if std::env::var_os("CI").is_none() {
        return skip("it changes the permissions of tracefs; with CI=true it is made");
    }
    let Some(nobody) = Nobody::new() else { return };
    let _restored = ByGroup;
    assert!(ByGroup::set(ID, "750", 65534), "tracefs cannot be given to a group");
    let args = ["record", "-e", "sched_switch", "-o", "a.dat", "--", "sleep", "0.1"];
    succeeded(&nobody.run(&[], &args));
    succeeded(&nobody.run(&[], &["report", "a.dat"]));
    let left = std::fs::read_dir(Path::new(TRACEFS).join("instances")).unwrap().flatten();
    let ours = |e: &std::fs::DirEntry| {
        std::os::unix::fs::MetadataExt::uid(&e.metadata().unwrap()) == 65534
    };
    assert_eq!(left.filter(ours).count(), 0);
}
