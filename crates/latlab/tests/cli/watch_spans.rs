//! `latlab watch` of spans: of a program whose long jobs are known, killed, replaced and watched again.

use crate::common::{latlab, printed, real_time, said, signal, spawn, succeed, wait_for};
use crate::why_spans::{detail, left_behind, program};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(dir: &Path) -> Running {
    let mut command = Command::new("chrt");
    command.current_dir(dir).args(["-f", "50", "./jobs"]).stdin(Stdio::null());
    Running(command.spawn().unwrap())
}

/// The counts of an entry of a state.
fn counts<'v>(state: &'v Value, name: &str) -> &'v Value {
    let tasks = state["total"]["tasks"].as_array().unwrap_or_else(|| panic!("{state:#}"));
    tasks.iter().find(|t| t["task"] == name).unwrap_or_else(|| panic!("{name}: {state:#}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Jobs of 30 ms are late, captured, and explained by the program's own execution; spans of all threads are counted.
#[test]
fn spans_are_counted_and_captured_beside_a_task() {
    let Some(dir) = program() else { return };
    let _alone = real_time();
    let dir = dir.path();
    let path = dir.display();
    let config = format!(
        "[[task]]\nname = \"jobs\"\ndeadline = \"1s\"\n\
         [[span]]\nname = \"job\"\nfrom = \"uprobe:{path}/jobs:receive\"\nto = \"usdt:{path}/jobs:app:job_done\"\n\
         task = \"jobs\"\ndeadline = \"10ms\"\n\
         [[span]]\nname = \"answer\"\nfrom = \"uprobe:{path}/jobs:receive\"\nto = \"uprobe:{path}/jobs:answer\"\ntask = \"jobs\"\n\
         [[span]]\nname = \"write\"\nfrom = \"syscall:write\"\nto = \"sysret:write\"\n"
    );
    std::fs::write(dir.join("watch.toml"), config).unwrap();
    let jobs = start(dir);
    let args =
        ["watch", "--config", "watch.toml", "--dir", "w", "--budget", "90%", "--json", "-D", "5"];
    let out = latlab(dir, &args);
    drop(jobs);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    let state: Value = serde_json::from_slice(&out.stdout).unwrap();
    let (job, task) = (counts(&state, "job"), counts(&state, "jobs"));
    // 20 jobs take 130 ms and more. An activation has one job.
    let (spans, late) = (number(&job["activations"]), number(&job["late"]));
    assert!(spans >= 200 && late >= 10 && spans.abs_diff(20 * late) <= 40, "{job:#}");
    assert!(spans.abs_diff(number(&task["activations"])) <= spans / 5, "{job:#} {task:#}");
    let ran_long = number(&job["late_by"]["ran_long"]);
    // On a shared machine others delay one now and then.
    assert!(10 * ran_long >= 8 * late && number(&job["unsure"]) * 20 <= spans, "{job:#}");
    let sums = |key: &str| job[key]["sum"].as_f64().unwrap();
    let parts = sums("running") + sums("preempted") + sums("waiting");
    assert!((parts / sums("response") - 1.0).abs() < 0.01, "{job:#}");
    let answer = counts(&state, "answer");
    assert!(
        number(&answer["activations"]).abs_diff(spans) <= 1 && answer["late"] == 0,
        "{answer:#}"
    );
    let write = counts(&state, "write");
    assert!(number(&write["activations"]) >= 2 * spans - 40 && write["late"] == 0, "{write:#}");
    assert_eq!(left_behind(), "", "probes are removed");

    let captures = std::fs::read_dir(dir.join("w/captures")).unwrap().flatten();
    let captures: Vec<String> = captures.map(|e| e.path().display().to_string()).collect();
    assert!(
        captures.iter().any(|c| c.contains("_job_") && c.contains("own-execution")),
        "{captures:?}"
    );
    let own = captures.iter().filter(|c| c.contains("_job_")).map(String::as_str);
    let (from, to) =
        (format!("uprobe:{path}/jobs:receive"), format!("usdt:{path}/jobs:app:job_done"));
    let mut args: Vec<&str> = std::iter::once("why").chain(own).collect();
    args.extend(["--from", &from, "--to", &to, "--deadline", "10ms", "--json"]);
    let found = detail(&latlab(dir, &args));
    assert_eq!(found["explanation"]["causes"][0]["mechanism"], "execution", "{found:#}");
}

/// Killed, its probes are removed by the next latlab; a program that is replaced gets new ones.
#[test]
fn a_program_that_is_replaced_is_watched_on() {
    let Some(dir) = program() else { return };
    let _alone = real_time();
    let dir = dir.path();
    let ends = ["--from", "uprobe:./jobs:receive", "--to", "uprobe:./jobs:answer"];
    let args =
        [&["watch", "jobs", "--dir", "w", "--budget", "90%", "--deadline", "10ms"], &ends[..]]
            .concat();
    let mut watch = spawn(dir, &args);
    wait_for("the probes", Duration::from_millis(50), || {
        (left_behind().matches("latlab_").count() == 2).then_some(())
    });
    signal(&watch, Signal::KILL);
    watch.wait().unwrap();
    assert_ne!(left_behind(), "");

    let jobs = start(dir);
    let mut watch = spawn(dir, &args);
    let state = || {
        let out = latlab(dir, &["watch", "status", "--dir", "w", "--json"]);
        let state: Value = serde_json::from_slice(&out.stdout).ok()?;
        let tasks = state["total"]["tasks"].as_array()?.iter();
        let own =
            tasks.filter(|t| t["task"] == "jobs span").map(|t| number(&t["activations"])).sum();
        Some((own, number(&state["total"]["counters"]["disturbed"])))
    };
    let before: u64 = wait_for("spans", Duration::from_millis(200), || {
        state().filter(|s| s.0 >= 20).map(|s| s.0)
    });
    assert_eq!(left_behind().matches("latlab_").count(), 2, "those of the killed one are removed");
    drop(jobs);
    succeed(Command::new("cc").current_dir(dir).args(["-O2", "-o", "new", "jobs.c"]));
    std::fs::rename(dir.join("new"), dir.join("jobs")).unwrap();
    let jobs = start(dir);
    wait_for("new probes", Duration::from_millis(200), || {
        state().filter(|s| s.1 == 1 && s.0 >= before + 40).map(drop)
    });
    drop(jobs);
    signal(&watch, Signal::INT);
    assert_eq!(watch.wait().unwrap().code(), Some(130));
    assert_eq!(left_behind(), "");
    let wrong =
        latlab(dir, &["watch", "--from", "uprobe:./jobs:recieve", "--to", ends[3], "--dir", "v"]);
    assert_eq!(wrong.status.code(), Some(1), "{}", printed(&wrong));
    let reason = "span span: --from ./jobs:recieve: ";
    assert!(said(&wrong).contains(reason), "{}", said(&wrong));
}
