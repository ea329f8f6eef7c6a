//! `latlab fleet submit`: campaigns on this machine.

use crate::common::{children_of, command, printed, said, wait_for};
use crate::fleet::fleet;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A campaign: a board that is this machine, and one that nobody answers for.
const CAMPAIGN: &str = r#"
name = "nightly"
repetitions = 2
attempts = 2
quarantine = 1

[[board]]
name = "here"
target = "local"

[[board]]
name = "lost"
target = "ssh://nobody@127.0.0.1:1"

[[experiment]]
name = "quick"
command = ["wakeup", "-l", "50", "-i", "1000", "-q"]
seconds = 1

[[experiment]]
name = "wrong"
command = ["wakeup", "--no-such-option"]
boards = ["here"]
"#;

#[test]
fn a_campaign_goes_on_where_it_was_and_does_nothing_twice() {
    let t = tempfile::tempdir().unwrap();
    let submit = || {
        let out = command(t.path(), &["fleet", "submit", "c.toml", "--dir", "c"])
            .env("XDG_CACHE_HOME", t.path().join("cache"))
            .output()
            .unwrap();
        (out.status.code(), printed(&out), said(&out))
    };
    let attempts = || {
        let text = fs::read_to_string(t.path().join("c/attempts.jsonl")).unwrap();
        text.lines()
            .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
            .map(|a| (a["id"].as_str().unwrap()[..4].to_owned(), a["exit_code"].as_i64().unwrap()))
            .collect::<Vec<_>>()
    };
    fs::write(t.path().join("c.toml"), CAMPAIGN).unwrap();
    let plan = fleet(t.path(), "plan c.toml");
    assert!(plan.contains("6 experiments, 0 left out"), "{plan}");
    let (code, status, errors) = submit();
    assert_eq!(code, Some(1), "{status} {errors}");
    assert!(status.ends_with("2 finished, 2 failed, 2 waiting on 2 boards\n"), "{status} {errors}");
    assert!(errors.contains("board lost does not answer"), "{errors}");
    // The board that does not answer is tried twice for one experiment, and then left out.
    let count = |tried: &[(String, i64)], code| tried.iter().filter(|a| a.1 == code).count();
    let first = attempts();
    assert_eq!((count(&first, 0), count(&first, 1), count(&first, 75)), (2, 2, 2), "{first:?}");
    // Again: what is finished is left alone, what is not is tried.
    let (code, status, _) = submit();
    assert_eq!(code, Some(1));
    assert!(status.ends_with("2 finished, 2 failed, 2 waiting on 2 boards\n"), "{status}");
    assert_eq!(count(&attempts(), 0), 2);
    // Without what cannot finish, the same campaign does nothing.
    let whole = CAMPAIGN.split("[[experiment]]\nname = \"wrong\"").next().unwrap();
    let lost = whole.find("[[board]]\nname = \"lost\"").unwrap();
    let rest = whole.find("[[experiment]]").unwrap();
    let whole = [&whole[..lost], &whole[rest..]].concat();
    fs::write(t.path().join("c.toml"), whole).unwrap();
    let before = attempts();
    let (code, status, errors) = submit();
    assert_eq!(code, Some(0), "{status} {errors}");
    assert_eq!(attempts(), before);
    // Its results go into a lake with their origin.
    assert_eq!(fleet(t.path(), "import --lake lake c/results"), "2 runs added, 0 already stored\n");
}

/// The locks of boards and CPUs end with the submit: what it measures must not go on without them.
#[test]
fn a_killed_submit_leaves_no_measurement() {
    let t = tempfile::tempdir().unwrap();
    let long = "name = 'long'\n[[board]]\nname = 'here'\ntarget = 'local'\n[[experiment]]\nname = 'w'\n\
                command = ['wakeup', '-D', '600', '-q']\nseconds = 600\n";
    fs::write(t.path().join("c.toml"), long).unwrap();
    let mut submit = command(t.path(), &["fleet", "submit", "c.toml", "--dir", "c"]);
    let submit = submit.env("XDG_CACHE_HOME", t.path().join("cache")).stderr(Stdio::null());
    let mut submit = submit.stdout(Stdio::null()).spawn().unwrap();
    let child = wait_for("the measurement", Duration::from_millis(20), || {
        // It measures as soon as its run is saved for the first time.
        let mut running = fs::read_dir(t.path().join("c/running")).ok()?.flatten();
        running.any(|run| run.path().join("run.json").exists()).then_some(())?;
        children_of(submit.id()).first().copied()
    });
    submit.kill().unwrap();
    submit.wait().unwrap();
    let start = Instant::now();
    // Gone, or a zombie that nobody waits for yet.
    wait_for("the end of the measurement", Duration::from_millis(20), || {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

/// Virtual machines by options, devices of LAVA by their jobs; one job boots one kernel.
#[test]
fn kernels_are_a_dimension_of_a_campaign() {
    let t = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(t.path().join(name), text).unwrap();
    let kernel = |name: &str, rest: &str| format!("[[kernel]]\nname = '{name}'\n{rest}\n");
    let campaign = |parts: &[&str]| {
        let head = "name = 'nightly'\nrepetitions = 2\n";
        let experiment = "[[experiment]]\nname = 'w'\ncommand = ['wakeup', '-D', '10']\n";
        [head, &parts.concat(), experiment].concat()
    };
    let vm = "[[board]]\nname = 'vm1'\ntarget = 'vm:armv7-rt'\n";
    let small = kernel("small", "boards = ['vm1']\noptions = 'mem=256'");
    let own = kernel("own", "boards = ['vm1']\noptions = 'build=latency'");
    let bb = "[[board]]\nname = 'bb1'\n[board.lava]\njob = 'old.yaml'\n";
    let jobs = ["old", "new"].map(|k| kernel(k, &format!("boards = ['bb1']\njob = '{k}.yaml'")));
    let jobs = jobs.concat();
    write("c.toml", &campaign(&[vm, bb, &small, &own, &jobs]));
    let plan: serde_json::Value =
        serde_json::from_str(&fleet(t.path(), "plan c.toml --json")).unwrap();
    let lines = plan["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 8);
    let targets: BTreeSet<&str> = lines.iter().filter_map(|l| l["target"].as_str()).collect();
    let expected = ["lava:bb1", "vm:armv7-rt,build=latency", "vm:armv7-rt,mem=256"];
    assert_eq!(targets, expected.into());
    let text = |line: &serde_json::Value, key: &str| line[key].as_str().unwrap().to_owned();
    assert!(lines.iter().all(|l| text(l, "id").contains(&text(l, "kernel"))), "{plan}");
    write("lava.toml", &campaign(&[bb, &jobs]));
    for kernel in ["old", "new"] {
        let text = format!("job_name: x\nactions:\n- deploy: {{to: tftp, kernel: {kernel}}}\n");
        write(&format!("{kernel}.yaml"), &text);
    }
    fleet(t.path(), "submit lava.toml --dir d --engine lava --dry-run");
    let jobs: Vec<(String, String)> = (fs::read_dir(t.path().join("d/lava")).unwrap().flatten())
        .filter(|e| e.file_name().to_string_lossy().ends_with(".yaml"))
        .map(|e| {
            let name = e.file_name().to_string_lossy().into_owned();
            (name, fs::read_to_string(e.path()).unwrap())
        })
        .collect();
    assert_eq!(jobs.len(), 4, "{jobs:?}");
    for (name, text) in &jobs {
        let kernel = if name.starts_with("bb1-old-") { "old" } else { "new" };
        assert!(name.starts_with(&format!("bb1-{kernel}-")), "{name}");
        assert!(text.contains(&format!("kernel: {kernel}}}")), "{text}");
        assert_eq!(text.matches("latlab-run ").count(), 1, "{text}");
    }
    write("c.toml", &campaign(&[vm, &small.replace("mem=256", "no-such=option")]));
    let out = command(t.path(), &["fleet", "plan", "c.toml"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).starts_with("latlab: c.toml: kernel small: "), "{}", said(&out));
}

#[test]
fn a_campaign_that_is_stopped_keeps_what_is_finished() {
    let t = tempfile::tempdir().unwrap();
    let long = "[[experiment]]\nname = \"long\"\ncommand = [\"wakeup\", \"-D\", \"10m\", \"-q\"]\n";
    let two = CAMPAIGN.split("[[experiment]]\nname = \"wrong\"").next().unwrap().to_owned();
    let lost = two.find("[[board]]\nname = \"lost\"").unwrap();
    let rest = two.find("[[experiment]]").unwrap();
    let one = [&two[..lost], &two[rest..]].concat().replace("repetitions = 2", "repetitions = 1");
    fs::write(t.path().join("c.toml"), &one).unwrap();
    let submit = || {
        let mut command = command(t.path(), &["fleet", "submit", "c.toml", "--dir", "c"]);
        command.env("XDG_CACHE_HOME", t.path().join("cache"));
        command
    };
    assert!(submit().output().unwrap().status.success());
    fs::write(t.path().join("c.toml"), one + long).unwrap();
    let mut child = submit().spawn().unwrap();
    let running = || fs::read_dir(t.path().join("c/running")).unwrap().next().is_some();
    wait_for("the long experiment", Duration::from_millis(50), || running().then_some(()));
    // Another process does not run the same campaign.
    let out = submit().output().unwrap();
    assert!(said(&out).contains("another process runs this campaign"), "{}", said(&out));
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    let status = fleet(t.path(), "status c.toml --dir c");
    assert!(status.ends_with("1 finished, 0 failed, 1 waiting on 1 boards\n"), "{status}");
}

/// A run that does not meet its requirements is a result, and what the campaign asks for follows it.
#[test]
fn a_run_that_exceeds_a_limit_is_followed_up() {
    let t = tempfile::tempdir().unwrap();
    let campaign = "name = 'c'\n[[board]]\nname = 'here'\ntarget = 'local'\n\
        [[experiment]]\nname = 'late'\ncommand = ['wakeup', '-q', '-l', '200', '--policy', 'other']\n\
        check = 'strict.req'\non_failure = ['doctor', '-D', '0.1s']\n\
        [[experiment]]\nname = 'fine'\ncommand = ['wakeup', '-q', '-l', '200', '--policy', 'other']\n\
        check = 'lax.req'\non_failure = ['doctor', '-D', '0.1s']\n";
    fs::write(t.path().join("c.toml"), campaign).unwrap();
    let submit =
        || command(t.path(), &["fleet", "submit", "c.toml", "--dir", "c"]).output().unwrap();
    fs::write(t.path().join("strict.req"), "median < 1 ns, 1 ms\n").unwrap();
    let none = submit();
    assert!(said(&none).contains("lax.req: cannot be opened"), "{}", said(&none));
    fs::write(t.path().join("lax.req"), "median < 100 s, 1 ms\n").unwrap();
    let done = submit();
    let printed = printed(&done);
    assert!(
        printed.contains("2 finished (1 exceed limits), 0 failed, 0 waiting"),
        "{printed}{}",
        said(&done)
    );
    assert_eq!(done.status.code(), Some(2), "{}", said(&done));
    assert!(said(&done).contains("limits are exceeded: doctor -D 0.1s"), "{}", said(&done));
    let names = |dir: &str| -> Vec<String> {
        let entries = fs::read_dir(t.path().join(dir)).unwrap().flatten();
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
    };
    let followed = names("c/on_failure");
    assert!(followed.len() == 1 && followed[0].starts_with("here-late-1-"), "{followed:?}");
    let run = t.path().join("c/on_failure").join(&followed[0]);
    assert!(fs::read_to_string(run.join("run.json")).unwrap().contains("\"doctor\""));
    assert!(fs::read_to_string(run.join("origin.json")).unwrap().contains("late.on_failure"));
    for result in names("c/results") {
        let result = t.path().join("c/results").join(result);
        assert!(result.join("check.json").exists(), "{}", result.display());
    }
    // Nothing is measured again.
    assert_eq!(submit().status.code(), Some(2));
    assert_eq!(fs::read_to_string(t.path().join("c/attempts.jsonl")).unwrap().lines().count(), 2);
}
