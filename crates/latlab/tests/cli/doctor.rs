//! The doctor and the run directory as a user meets them, bad luck included.

use crate::common::{LATLAB, SmallDisk, for_everybody, is_root, latlab_here as latlab, said, skip};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn every_area_is_judged_and_the_facts_are_kept() {
    let output = latlab(&["doctor", "-D", "40ms", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = run["parts"][0]["findings"].as_array().unwrap();
    let ids: Vec<&str> = findings.iter().map(|f| f["id"].as_str().unwrap()).collect();
    for id in ["clock.step", "clock.high-resolution", "rt.permission", "rt.throttling"] {
        assert!(ids.contains(&id), "{id} in {ids:?}");
    }
    for id in ["cpu.smt", "memory.huge-pages", "trace.tracefs", "trace.lockdown", "noise.steal"] {
        assert!(ids.contains(&id), "{id} in {ids:?}");
    }
    assert_eq!(run["parts"][0]["detail"]["kind"], "doctor");
    assert!(run["machine"]["clock"]["step_ns"].as_u64().unwrap() > 0);
}

#[test]
fn without_root_it_says_what_it_could_not_see() {
    if !is_root() {
        return skip("only root can become nobody");
    }
    // /tmp, because nobody may not be able to enter the directory of the build.
    let copy = tempfile::Builder::new().prefix("latlab-nobody-").tempdir_in("/tmp").unwrap();
    let program = for_everybody(copy.path());
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .arg(&program)
        .args(["doctor", "-D", "40ms", "--json"])
        .current_dir("/")
        .output();
    let Ok(output) = output else { return skip("there is no setpriv") };
    assert!(output.status.success(), "{}", said(&output));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let facts = &run["parts"][0]["detail"];
    assert_eq!(facts["uid"], 65534);
    assert!(!facts["unreadable"].as_array().unwrap().is_empty());
    assert!(facts["fifo"]["refused"].is_string(), "{}", facts["fifo"]);
    let findings = run["parts"][0]["findings"].as_array().unwrap();
    let of = |id: &str| findings.iter().find(|f| f["id"] == id).unwrap();
    assert_eq!(of("rt.permission")["severity"], "problem");
    assert!(of("rt.permission")["remedies"].as_array().unwrap().len() >= 2);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for args in [&["doctor", "-D", "0s", "--json"][..], &["doctor", "-D", "0s"]] {
        let mut child = Command::new(LATLAB)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn an_out_that_cannot_be_written_is_said_before_anything_is_measured() {
    let t = tempfile::tempdir().unwrap();
    let file = t.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let beneath = file.join("run");
    for out in [file.to_str().unwrap(), beneath.to_str().unwrap(), "/proc/no/such"] {
        let output = latlab(&["doctor", "-D", "1h", "--out", out]);
        assert_eq!(output.status.code(), Some(1));
        let said = said(&output);
        assert!(said.starts_with("latlab: ") && said.contains(out), "{said}");
        assert!(said.contains("\nhint: "), "{said}");
    }
    // A run that is there is never overwritten.
    let run = t.path().join("run");
    assert!(latlab(&["doctor", "-D", "0s", "--out", run.to_str().unwrap()]).status.success());
    let before = std::fs::read(run.join("run.json")).unwrap();
    let again = latlab(&["doctor", "-D", "0s", "--out", run.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("has a run already"), "{}", said(&again));
    assert_eq!(std::fs::read(run.join("run.json")).unwrap(), before);
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    // No page free: the first save fails, before anything is measured.
    let Some(full) = SmallDisk::of("4k") else { return };
    let out = full.path().join("run");
    let output = latlab(&["doctor", "-D", "1h", "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let words = said(&output);
    assert!(words.contains("cannot be saved: No space left on device"), "{words}");
    assert!(words.contains("\nhint: "), "{words}");
    assert!(!out.exists(), "the directory that was made for it is gone again");

    // Room for the empty run and not for the result: the result is printed, the exit code is 1,
    // and what is on the disk is whole and marked incomplete.
    let Some(small) = SmallDisk::of("28k") else { return };
    let out = small.path().join("run");
    let output = latlab(&["doctor", "-D", "0s", "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("No space left on device"), "{}", said(&output));
    assert!(!output.stdout.is_empty(), "the findings are printed");
    let kept = std::fs::read(out.join("run.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&kept).expect("whole JSON");
    assert!(kept["schema_version"].is_number());
    let left = std::fs::read_dir(&out).unwrap().flatten();
    assert!(left.into_iter().all(|e| !e.file_name().to_string_lossy().ends_with(".tmp")));
}

#[test]
fn a_kernel_config_gets_the_fragment_that_it_lacks() {
    let t = tempfile::tempdir().unwrap();
    let file = t.path().join("board.config");
    std::fs::write(&file, "CONFIG_ARM=y\nCONFIG_FTRACE=y\nCONFIG_KASAN=y\n").unwrap();
    let output = latlab(&["doctor", "--kernel-config", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for line in ["CONFIG_TIMERLAT_TRACER=y", "CONFIG_PREEMPT_RT=y", "# CONFIG_KASAN is not set"] {
        assert!(text.lines().any(|l| l == line), "{line} in {text}");
    }
    assert!(!text.lines().any(|l| l == "CONFIG_FTRACE=y"));
    assert!(text.contains("make ARCH=arm CROSS_COMPILE=arm-linux-gnueabihf- olddefconfig"));
    // With the fragment in it, nothing is missing any more.
    std::fs::write(&file, format!("CONFIG_ARM=y\nCONFIG_FTRACE=y\n{text}")).unwrap();
    let again = latlab(&["doctor", "--json", "--kernel-config", file.to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(json["missing"], serde_json::json!([]));
}

#[test]
fn what_is_no_kernel_config_is_said() {
    for (file, words) in [("/etc/passwd", "no line begins"), ("/no/such/file", "cannot be read")] {
        let output = latlab(&["doctor", "--kernel-config", file]);
        assert_eq!(output.status.code(), Some(1));
        let said = said(&output);
        assert!(said.contains(file) && said.contains(words) && said.contains("hint: "), "{said}");
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

/// What a latlab that was killed in the middle leaves, with a real, harmless setting.
#[test]
fn a_setting_that_a_killed_latlab_left_changed_is_restored() {
    use std::os::unix::fs::PermissionsExt;
    let setting = "/proc/sys/kernel/printk_ratelimit";
    let Ok(before) = std::fs::read_to_string(setting) else { return skip("no printk_ratelimit") };
    if !is_root() {
        return skip("only root can change a setting of the kernel");
    }
    let before = before.trim();
    let other = if before == "7" { "8" } else { "7" };
    let dir = Path::new("/run/latlab");
    if !dir.exists() {
        std::fs::create_dir(dir).unwrap();
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    // No process has this number (pid_max ends at 2^22).
    let journal = dir.join("99999999-1-0.journal");
    let boot = boot_id();
    // Whole, and after the setting: another latlab may look at this moment.
    std::fs::write(setting, other).unwrap();
    let unseen = dir.join(".99999999-1-0.journal");
    std::fs::write(
        &unseen,
        format!(
            "{{\"latlab_journal\":1,\"pid\":99999999,\"boot\":\"{boot}\",\"since_boot_ns\":1,\"command\":[]}}\n\
             {{\"id\":0,\"set\":{{\"path\":\"{setting}\",\"from\":\"{before}\",\"to\":\"{other}\"}}}}\n\
             {{\"id\":0,\"reads\":\"{other}\"}}\n"
        ),
    )
    .unwrap();
    std::fs::set_permissions(&unseen, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&unseen, &journal).unwrap();
    // The doctor names it and leaves it, and puts it back when it is asked to. Another latlab on
    // this machine may be quicker: that is as good.
    let restored = latlab(&["doctor", "--restore"]);
    assert!(restored.status.success(), "{}", said(&restored));
    assert_eq!(std::fs::read_to_string(setting).unwrap().trim(), before);
    assert!(!journal.exists());
}

/// In a mount namespace of its own: every latlab that runs reports such a journal.
#[test]
fn a_rejected_line_of_a_journal_has_a_remedy() {
    if !is_root() {
        return skip("only root may mount");
    }
    let script = format!(
        "mount -t tmpfs none /run && mkdir -m 700 /run/latlab && cd /run/latlab && umask 077 &&
        echo '{{\"latlab_journal\":1,\"pid\":99999998,\"boot\":\"{}\",\"since_boot_ns\":1,\"command\":[]}}' >x &&
        echo 'not a line of a journal' >>x && mv x 99999998-1-0.journal &&
        {LATLAB} doctor --restore; code=$?; ls; exit $code",
        boot_id()
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let listed = String::from_utf8_lossy(&output.stdout);
    assert!(listed.contains("99999998-1-0.journal: rejected: line 2 is damaged"), "{listed}");
    assert!(listed.ends_with("99999998-1-0.journal\n"), "it may be the only record: {listed}");
    assert!(said(&output).contains("1 lines or journals rejected"), "{}", said(&output));
    assert!(said(&output).contains("hint: the journal has a line for each setting"));
}

#[test]
fn a_tracing_instance_that_a_killed_latlab_left_is_removed() {
    let instances = Path::new("/sys/kernel/tracing/instances");
    let left = instances.join("latlab-99999999-1");
    if std::fs::create_dir(&left).is_err() {
        return skip("instances cannot be made in /sys/kernel/tracing");
    }
    let output = latlab(&["doctor", "--restore"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!left.exists());
}

/// Every part of a run has to be readable again, also the facts of the doctor with a looked-at window.
#[test]
fn what_the_doctor_kept_can_be_reported_again() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let output = latlab(&["doctor", "-D", "40ms", "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let again = latlab(&["report", out.to_str().unwrap()]);
    assert!(again.status.success(), "{}", said(&again));
}
