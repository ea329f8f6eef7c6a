//! Settings are put back, whenever their owner dies; and nobody else's word is taken for what they were.

#![expect(clippy::print_stderr, reason = "the reason of a skip")]

use latlab_sys::settings::{
    Faults, Place, Restoration, SettingError, Settings, restore_orphaned, restore_own, survey,
};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SETTINGS: [(&str, &str, &str); 2] =
    [("a", "1", "7"), ("b", "always [madvise] never", "never")];

fn place(dir: &Path) -> Place {
    Place::new(dir.join("journal"), &[&dir.join("settings")])
}

fn lay_out(dir: &Path) {
    fs::create_dir(dir.join("settings")).unwrap();
    for (name, value, _) in SETTINGS {
        fs::write(dir.join("settings").join(name), format!("{value}\n")).unwrap();
    }
    fs::write(dir.join("settings/probes"), "").unwrap();
}

/// A list of dynamic events is added to by definitions and by removals.
const PROBE: [&str; 2] = ["p:ours/from /bin/a:0x10\n", "-:ours/from\n"];

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join("settings").join(name)).unwrap().trim().to_owned()
}

fn journals(dir: &Path) -> usize {
    fs::read_dir(dir.join("journal")).map_or(0, |d| d.count())
}

/// Runs as another process: changes all settings, restores them, and stops for ever at step `n`.
#[test]
fn child() {
    let Some(dir) = std::env::var_os("SETTINGS_CHILD_DIR").map(std::path::PathBuf::from) else {
        return;
    };
    let stop_at: usize = std::env::var("SETTINGS_CHILD_STOP").unwrap().parse().unwrap();
    let mut settings = Settings::at(place(&dir));
    let (mut n, marker) = (0, dir.join("stopped"));
    settings.on_step(move |_| {
        if n == stop_at {
            fs::write(&marker, "").unwrap();
            loop {
                std::thread::sleep(Duration::from_secs(60));
            }
        }
        n += 1;
    });
    for (name, _, to) in SETTINGS {
        settings.set(dir.join("settings").join(name), to).unwrap();
    }
    settings.make_dir(dir.join("settings/made")).unwrap();
    let (list, group) = (dir.join("settings/probes"), dir.join("settings/ours"));
    settings.add_probe(&list, &group, "ours/from", PROBE[0].trim()).unwrap();
    drop(settings);
    fs::write(dir.join("steps-were-over"), "").unwrap();
}

fn spawn_child(dir: &Path, stop: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "settings::child", "--nocapture"])
        .env("SETTINGS_CHILD_DIR", dir)
        .env("SETTINGS_CHILD_STOP", stop.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until the child stands at its step; false when it had fewer steps.
fn at_step(dir: &Path, child: &mut Child) -> bool {
    loop {
        if dir.join("stopped").exists() {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            assert!(dir.join("steps-were-over").exists(), "the child failed");
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn killed_at_any_step_everything_is_put_back() {
    let mut steps = 0;
    loop {
        let t = tempfile::tempdir().unwrap();
        let dir = t.path();
        lay_out(dir);
        let mut child = spawn_child(dir, steps);
        let stopped = at_step(dir, &mut child);
        let _ = child.kill();
        child.wait().unwrap();
        if !stopped {
            break;
        }
        let found = restore_orphaned(&place(dir)).unwrap();
        assert!(!found.undone.iter().any(Restoration::failed), "step {steps}: {found:?}");
        // A real setting lists its choices again; a file holds what was written.
        assert_eq!(read(dir, "a"), "1", "step {steps}");
        assert!(read(dir, "b").contains("madvise"), "step {steps}: {}", read(dir, "b"));
        assert!(!dir.join("settings/made").exists(), "step {steps}");
        let probes = fs::read_to_string(dir.join("settings/probes")).unwrap();
        assert!(!probes.contains(PROBE[0]) || probes.ends_with(PROBE[1]), "step {steps}: {probes}");
        assert_eq!(journals(dir), 0, "step {steps}: the journal goes");
        let again = restore_orphaned(&place(dir)).unwrap();
        assert!(again.undone.is_empty(), "step {steps}");
        steps += 1;
    }
    // 2 settings × (claimed, journalled, set, read back, undone, noted) + a directory and a probe ×
    // (journalled, made, undone, noted).
    assert_eq!(steps, 20);
}

/// As the panic hook does where a panic does not unwind: no guard is asked.
#[test]
fn a_process_puts_back_its_own_before_it_aborts() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    let mut others = spawn_child(dir, 2);
    assert!(at_step(dir, &mut others));
    let mut settings = Settings::at(place(dir));
    settings.set(dir.join("settings/b"), "never").unwrap();
    settings.make_dir(dir.join("settings/ours")).unwrap();
    std::mem::forget(settings);
    let undone = restore_own(&place(dir));
    assert_eq!(undone.len(), 2, "{undone:?}");
    assert!(!undone.iter().any(Restoration::failed), "{undone:?}");
    assert!(read(dir, "b").contains("madvise") && !dir.join("settings/ours").exists());
    assert_eq!((read(dir, "a").as_str(), journals(dir)), ("7", 1), "another's is left alone");
    others.kill().unwrap();
    others.wait().unwrap();
}

#[test]
fn a_living_owner_is_left_alone() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    let mut child = spawn_child(dir, 2);
    assert!(at_step(dir, &mut child));
    let found = restore_orphaned(&place(dir)).unwrap();
    assert!(found.undone.is_empty());
    assert_eq!(found.alive.len(), 1);
    assert_eq!(survey(&place(dir)).unwrap().alive[0].pid, child.id());
    assert_eq!(read(dir, "a"), "7");
    // Nobody else may change a setting that it holds; others are free.
    let mut mine = Settings::at(place(dir));
    let busy = mine.set(dir.join("settings/a"), "9").unwrap_err();
    assert!(matches!(busy, SettingError::Busy { pid, .. } if pid == child.id()), "{busy}");
    mine.set(dir.join("settings/b"), "never").unwrap();
    drop(mine);
    child.kill().unwrap();
    child.wait().unwrap();
    restore_orphaned(&place(dir)).unwrap();
    assert_eq!(read(dir, "a"), "1");
}

#[test]
fn dropping_and_unwinding_put_back_newest_first() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    let setting = dir.join("settings/a");
    let panicked = std::panic::catch_unwind(|| {
        let mut settings = Settings::at(place(dir));
        assert_eq!(settings.set(&setting, "2").unwrap().from, "1");
        assert_eq!(settings.set(&setting, "3").unwrap().from, "2");
        assert_eq!(read(dir, "a"), "3");
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panicked.is_err());
    assert_eq!(read(dir, "a"), "1");
    assert_eq!(journals(dir), 0);
}

#[test]
fn what_somebody_else_has_changed_since_is_theirs() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    let mut settings = Settings::at(place(dir));
    settings.set(dir.join("settings/a"), "2").unwrap();
    fs::write(dir.join("settings/a"), "99\n").unwrap();
    let outcome = settings.restore();
    assert!(matches!(&outcome[..], [Restoration::ChangedSince { now, .. }] if now == "99"));
    assert_eq!(read(dir, "a"), "99");
    assert_eq!(journals(dir), 0);
}

#[test]
fn only_settings_are_changed() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    fs::write(dir.join("secret"), "1").unwrap();
    std::os::unix::fs::symlink(dir.join("secret"), dir.join("settings/link")).unwrap();
    let mut settings = Settings::at(place(dir));
    for path in ["secret", "settings/link", "settings/../secret"] {
        let refused = settings.set(dir.join(path), "2").unwrap_err();
        assert!(matches!(refused, SettingError::NotASetting(_)), "{path}: {refused}");
    }
    assert!(matches!(settings.set("a", "2"), Err(SettingError::NotASetting(_))), "relative");
    assert!(matches!(Settings::new().set("/etc/hostname", "x"), Err(SettingError::NotASetting(_))));
    assert_eq!(fs::read_to_string(dir.join("secret")).unwrap(), "1");
    assert_eq!(journals(dir), 0, "nothing was journalled");
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

fn plant(dir: &Path, name: &str, boot: &str, lines: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let journal = dir.join("journal");
    fs::create_dir_all(&journal).unwrap();
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o700)).unwrap();
    let path = journal.join(name);
    let header = format!(
        "{{\"latlab_journal\":1,\"pid\":1,\"boot\":\"{boot}\",\"since_boot_ns\":1,\"command\":[]}}\n"
    );
    fs::write(&path, header + lines).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn set_line(path: &Path, from: &str) -> String {
    format!(
        "{{\"id\":0,\"set\":{{\"path\":\"{}\",\"from\":\"{from}\",\"to\":\"7\"}}}}\n",
        path.display()
    )
}

#[test]
fn a_planted_journal_writes_to_no_other_file() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    let secret = dir.join("secret");
    fs::write(&secret, "mine").unwrap();
    plant(dir, "1-1-0.journal", &boot_id(), &set_line(&secret, "theirs"));
    let found = restore_orphaned(&place(dir)).unwrap();
    assert!(found.undone[0].failed(), "{found:?}");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "mine");
}

#[test]
fn a_journal_that_others_could_have_written_is_not_believed() {
    use std::os::unix::fs::PermissionsExt;
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    let line = set_line(&dir.join("settings/a"), "666");
    let file = plant(dir, "1-1-0.journal", &boot_id(), &line);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(restore_orphaned(&place(dir)).unwrap().refused.len(), 1, "mode");

    fs::remove_file(&file).unwrap();
    let elsewhere = plant(dir, "elsewhere", &boot_id(), &line);
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    assert_eq!(restore_orphaned(&place(dir)).unwrap().refused.len(), 1, "link");

    fs::set_permissions(dir.join("journal"), fs::Permissions::from_mode(0o777)).unwrap();
    let refused = restore_orphaned(&place(dir)).unwrap_err();
    assert!(matches!(refused, SettingError::Unsafe { .. }), "{refused}");
    let refused = Settings::at(place(dir)).set(dir.join("settings/a"), "2").unwrap_err();
    assert!(matches!(refused, SettingError::Unsafe { .. }), "{refused}");
    assert_eq!(read(dir, "a"), "1");
}

#[test]
fn another_users_journal_is_not_believed() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "this test needs root");
        return eprintln!("skipped: only root can give a file to another user");
    }
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    let file = plant(dir, "1-1-0.journal", &boot_id(), &set_line(&dir.join("settings/a"), "666"));
    std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
    assert_eq!(restore_orphaned(&place(dir)).unwrap().refused.len(), 1);
    std::os::unix::fs::chown(dir.join("journal"), Some(65534), None).unwrap();
    assert!(matches!(restore_orphaned(&place(dir)), Err(SettingError::Unsafe { .. })));
    assert_eq!(read(dir, "a"), "1");
}

#[test]
fn an_earlier_boots_journal_is_history() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    plant(dir, "1-1-0.journal", "another-boot", &set_line(&dir.join("settings/a"), "666"));
    let found = restore_orphaned(&place(dir)).unwrap();
    assert_eq!((found.earlier_boot, found.undone.len()), (1, 0));
    assert_eq!(read(dir, "a"), "1");
    assert_eq!(journals(dir), 0);
}

#[test]
fn damaged_journals_are_said_and_kept() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    plant(dir, "1-1-0.journal", &boot_id(), "{\"id\":0,\"set\":7}\n");
    let found = restore_orphaned(&place(dir)).unwrap();
    assert_eq!(found.refused.len(), 1);
    assert_eq!(journals(dir), 1);
    // A last line that is cut off: its setting was never touched.
    plant(dir, "1-1-0.journal", &boot_id(), "{\"id\":0,\"set\":{\"path\":\"/pro");
    let found = restore_orphaned(&place(dir)).unwrap();
    assert!(found.refused[0].1.contains("cut off") && found.undone.is_empty());
    assert_eq!(journals(dir), 0);
}

/// A line that is torn, foreign or half of one costs that line, and is told.
#[test]
fn a_damaged_line_costs_no_other_line() {
    for damage in
        ["{\"id\":9,\"se\n", "not JSON\n", "{\"id\":9}\n", "{\"id\":9,\"set\":{\"path\":\"/p"]
    {
        for damage_first in [true, false] {
            let t = tempfile::tempdir().unwrap();
            let dir = t.path();
            lay_out(dir);
            fs::write(dir.join("settings/a"), "7\n").unwrap();
            let line = set_line(&dir.join("settings/a"), "1");
            let lines = if damage_first { format!("{damage}{line}") } else { line + damage };
            plant(dir, "1-1-0.journal", &boot_id(), &lines);
            let found = restore_orphaned(&place(dir)).unwrap();
            assert_eq!(read(dir, "a"), "1", "{lines}");
            assert_eq!(found.refused.len(), 1, "{lines}: {found:?}");
            // It tells so again as long as the file is there.
            let cut_off_at_the_end = !lines.ends_with('\n');
            assert_eq!(journals(dir), usize::from(!cut_off_at_the_end), "{lines}");
        }
    }
}

/// Every write and sync of a journal fails in turn, in each way.
#[test]
fn whatever_write_fails_everything_is_put_back() {
    for error in [libc::ENOSPC, libc::EIO, libc::EINTR] {
        let mut position = 0;
        loop {
            let t = tempfile::tempdir().unwrap();
            let dir = t.path();
            lay_out(dir);
            let faults = Faults::at(position, error);
            let mut settings = Settings::at(place(dir).failing(faults.clone()));
            let mut refused = 0;
            for (name, _, to) in SETTINGS {
                let before = read(dir, name);
                if settings.set(dir.join("settings").join(name), to).is_err() {
                    refused += 1;
                    assert_eq!(read(dir, name), before, "{error} at {position}");
                }
            }
            refused += usize::from(settings.make_dir(dir.join("settings/made")).is_err());
            // A process that dies here leaves a journal of whole lines.
            for entry in fs::read_dir(dir.join("journal")).into_iter().flatten().flatten() {
                let text = fs::read_to_string(entry.path()).unwrap();
                assert!(text.lines().all(|l| l.starts_with('{') && l.ends_with('}')), "{text}");
            }
            let outcomes = settings.restore();
            assert!(!outcomes.iter().any(Restoration::failed), "{error} at {position}");
            assert_eq!(read(dir, "a"), "1", "{error} at {position}");
            assert!(read(dir, "b").contains("madvise"), "{error} at {position}");
            assert!(!dir.join("settings/made").exists(), "{error} at {position}");
            assert!(refused <= 1 && (error != libc::EINTR || refused == 0));
            if !faults.happened() {
                break;
            }
            position += 1;
        }
        // A header and 13 lines, each written and synced.
        assert!(position >= 20, "{position}");
    }
}

/// Another process stands still at each step; whatever this one wants then, the first value comes back.
#[test]
fn two_owners_at_every_step_lose_no_value() {
    for (step, wanted) in (0..16).flat_map(|step| [(step, "7"), (step, "9"), (step, "1")]) {
        let t = tempfile::tempdir().unwrap();
        let dir = t.path();
        lay_out(dir);
        let mut other = spawn_child(dir, step);
        assert!(at_step(dir, &mut other), "step {step}");
        let mut mine = Settings::at(place(dir));
        let set = mine.set(dir.join("settings/a"), wanted);
        if let Ok(change) = &set {
            assert_eq!(change.from, "1", "step {step}: the other's value was taken for the first");
        }
        other.kill().unwrap();
        other.wait().unwrap();
        drop(mine);
        restore_orphaned(&place(dir)).unwrap();
        assert_eq!(read(dir, "a"), "1", "step {step}, wanted {wanted}");
        assert_eq!(journals(dir), 0, "step {step}");
    }
}

#[test]
fn a_value_that_is_right_already_is_held_and_may_be_shared() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    let mut mine = Settings::at(place(dir));
    mine.set(dir.join("settings/a"), "1").unwrap();
    assert_eq!(journals(dir), 1);
    // Somebody else changes it: it is theirs.
    fs::write(dir.join("settings/a"), "5\n").unwrap();
    assert!(matches!(mine.restore()[0], Restoration::ChangedSince { .. }));
    assert_eq!(read(dir, "a"), "5");
}

#[test]
fn a_long_value_is_refused_instead_of_cut() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    let long = "x".repeat(4097);
    fs::write(dir.join("settings/a"), &long).unwrap();
    let refused = Settings::at(place(dir)).set(dir.join("settings/a"), "1").unwrap_err();
    assert!(matches!(refused, SettingError::Unreadable { .. }), "{refused}");
    assert_eq!(read(dir, "a"), long);
}

#[test]
fn a_list_that_somebody_else_has_filled_since_is_theirs() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path();
    lay_out(dir);
    for theirs in [false, true] {
        let list = dir.join("settings/list");
        fs::write(&list, "").unwrap();
        let mut settings = Settings::at(place(dir));
        settings.reset_later(&list, "").unwrap();
        fs::write(&list, "ours\n").unwrap();
        settings.note_lists(std::slice::from_ref(&list)).unwrap();
        if theirs {
            fs::write(&list, "theirs\n").unwrap();
        }
        drop(settings);
        assert_eq!(fs::read_to_string(&list).unwrap(), if theirs { "theirs\n" } else { "" });
    }
}

/// A tracing directory: its buffer is emptied and its switch set at the end, unless somebody else
/// has chosen a tracer meanwhile, also the one that was there before.
#[test]
fn the_buffer_of_somebody_elses_tracer_is_theirs() {
    for (theirs, emptied) in [(None, true), (Some("function"), false), (Some("nop"), false)] {
        for dies in [false, true] {
            let t = tempfile::tempdir().unwrap();
            let dir = t.path();
            lay_out(dir);
            let file = |name: &str| dir.join("settings").join(name);
            fs::write(file("current_tracer"), "nop\n").unwrap();
            fs::write(file("trace"), "events\n").unwrap();
            fs::write(file("tracing_on"), "0\n").unwrap();
            let mut settings = Settings::at(place(dir));
            settings.reset_later(file("trace"), "").unwrap();
            settings.reset_later(file("tracing_on"), "1").unwrap();
            settings.set(file("current_tracer"), "hwlat").unwrap();
            if let Some(tracer) = theirs {
                fs::write(file("current_tracer"), format!("{tracer}\n")).unwrap();
            }
            if dies {
                // Its journal stays as a killed process leaves it.
                std::mem::forget(settings);
                restore_own(&place(dir));
            } else {
                drop(settings);
            }
            let case = format!("{theirs:?}, {dies}");
            let content = if emptied { ("", "1") } else { ("events", "0") };
            assert_eq!(
                (read(dir, "trace").as_str(), read(dir, "tracing_on").as_str()),
                content,
                "{case}"
            );
            assert_eq!(read(dir, "current_tracer"), theirs.unwrap_or("nop"), "{case}");
            assert_eq!(journals(dir), 0, "{case}");
        }
    }
}

#[test]
fn a_setting_of_the_kernel_is_changed_and_restored() {
    let setting = "/proc/sys/kernel/printk_ratelimit_burst";
    if fs::OpenOptions::new().write(true).open(setting).is_err() {
        assert!(std::env::var_os("CI").is_none(), "this test must be able to write to {setting}");
        return eprintln!("skipped: {setting} is not writable");
    }
    let before = fs::read_to_string(setting).unwrap();
    let t = tempfile::tempdir().unwrap();
    let place = Place::new(t.path().join("journal"), &[Path::new("/proc/sys")]);
    let mut settings = Settings::at(place.clone());
    let other = if before.trim() == "11" { "12" } else { "11" };
    assert_eq!(settings.set(setting, other).unwrap().now, other);
    assert_eq!(fs::read_to_string(setting).unwrap().trim(), other);
    let refused = settings.set(setting, "no number").unwrap_err();
    assert!(matches!(refused, SettingError::Refused { .. }), "{refused}");
    assert_eq!(settings.restore().len(), 1);
    assert_eq!(fs::read_to_string(setting).unwrap(), before);
}
