//! `latlab history` from outside: in a file, and on a real PostgreSQL server of our own.

use crate::common::{is_root, latlab, skip, text};
use latlab_model::record::Record;
use latlab_model::run::{Part, Run, SCHEMA_VERSION};
use latlab_stats::histogram::Histogram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A run of a day: slower by a fifth from day 20 on, with the kernel of that day.
fn a_run(root: &Path, day: u32) {
    let slow = day >= 20;
    let base = if slow { 18_000 } else { 15_000 } + u64::from(day % 3) * 60;
    let h = Histogram::of((0..2_000).map(|i| base + i % 500));
    let mut run = Run {
        schema_version: SCHEMA_VERSION,
        complete: true,
        started: format!("2026-{:02}-{:02}T02:00:00Z", 3 + day / 28, 1 + day % 28),
        command_line: vec!["latlab".into(), "wakeup".into()],
        parts: vec![Part {
            name: "wakeup".into(),
            complete: true,
            results: vec![Record {
                name: "wakeup.user".into(),
                params: [("cpu".to_owned(), 0.into())].into(),
                summary: h.summary(),
                histogram: Some(h),
                ..Record::default()
            }],
            ..Part::default()
        }],
        ..Run::default()
    };
    run.machine.host = "bb".into();
    run.machine.board = Some("TI AM335x BeagleBone Black".into());
    run.machine.kernel.release = if slow { "6.6.31" } else { "6.6.30" }.into();
    let dir = root.join(format!("nightly/{day:02}"));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("run.json"), serde_json::to_vec(&run).unwrap()).unwrap();
}

/// Everything that a store is asked, whatever it is.
fn a_store_knows(dir: &Path, store: &str) {
    let run = |args: &[&str]| {
        let out = latlab(dir, &[&["history", "--store", store], args].concat());
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
        // Lines are broken where the terminal ends.
        text(&out.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(
        run(&["add", "nightly/00", "nightly/01/run.json"]).contains("2 runs added, 0 were there")
    );
    assert!(
        run(&["import", "."]).contains("38 runs added, 2 were there already, 1 could not be read")
    );
    let list = run(&["list", "--limit", "2", "--board", "bb"]);
    assert!(
        list.contains("kernel 6.6.31") && list.contains("nightly/ ") && list.ends_with(" 38"),
        "{list}"
    );
    assert!(run(&["show", "nightly/00"]).contains("wakeup.user"));
    assert!(run(&["trend"]).contains("wakeup.user"));
    let trend = run(&["trend", "wakeup.user", "--statistic", "p99", "--param", "cpu=0"]);
    assert!(trend.contains("worse since kernel 6.6.31, 2026-03-21"), "{trend}");
    let json: serde_json::Value =
        serde_json::from_str(&run(&["trend", "wakeup.user", "--json"])).unwrap();
    assert_eq!(json[0]["changes"][0]["at"], 20);
    assert!(run(&["export", "tables"]).contains("40 results in 40 files"));
    assert!(
        dir.join("tables/board=TI_AM335x_BeagleBone_Black/date=2026-03-21/results.parquet")
            .is_file()
    );
    let worse = latlab(
        dir,
        &[
            "history",
            "--store",
            store,
            "trend",
            "wakeup.user",
            "--fail-if-worse",
            "--html",
            "t.html",
        ],
    );
    assert_eq!(worse.status.code(), Some(2));
    assert!(std::fs::read_to_string(dir.join("t.html")).unwrap().contains("6.6.31"));
}

fn runs_in(dir: &Path) {
    (0..40).for_each(|day| a_run(dir, day));
    std::fs::create_dir_all(dir.join("nightly/damaged")).unwrap();
    std::fs::write(dir.join("nightly/damaged/run.json"), "{\"schema_version\": 1, \"par").unwrap();
}

#[test]
fn a_file_remembers() {
    let dir = tempfile::tempdir().unwrap();
    runs_in(dir.path());
    a_store_knows(dir.path(), "h.sqlite");
}

#[test]
fn tables_are_read_back_by_another_reader() {
    let Some(python) = std::env::var_os("LATLAB_PYTHON") else {
        skip("LATLAB_PYTHON names no Python with duckdb");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    (0..4).for_each(|day| a_run(dir.path(), day));
    assert!(latlab(dir.path(), &["history", "--store", "h", "import", "."]).status.success());
    assert!(latlab(dir.path(), &["history", "--store", "h", "export", "t"]).status.success());
    let sql = "import duckdb; print(duckdb.sql(\"select count(*), min(p99) > 15000, max(board), min(date) from read_parquet('t/**/*.parquet', hive_partitioning=true)\").fetchall())";
    let out = Command::new(python).args(["-c", sql]).current_dir(dir.path()).output().unwrap();
    let said = text(&out.stdout);
    assert!(
        said.contains("(4, True, 'TI_AM335x_BeagleBone_Black'"),
        "{said} {}",
        text(&out.stderr)
    );
}

#[test]
fn bad_stores_are_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("no-store"),
        "a text file of some length, which is no database at all\n".repeat(40),
    )
    .unwrap();
    a_run(dir.path(), 0);
    for (args, sentence) in [
        (&["list"][..], "there is no such store"),
        (&["--store", "no-store", "list"], "--store no-store"),
        (
            &["--store", "postgres://nobody:secret@127.0.0.1:9/x", "list"],
            "--store postgres://nobody@127.0.0.1:9/x: ",
        ),
        (&["--store", "h", "add", "nowhere"], "nowhere: cannot be read"),
        (&["--store", "h", "import", "tables"], "tables: cannot be read"),
        (&["--store", "no/thing/h", "show", "1"], "there is no such store"),
    ] {
        let out = latlab(dir.path(), &[&["history"], args].concat());
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains(sentence), "{args:?}: {said}");
        assert!(!said.contains("secret") && !said.contains("panicked"), "{said}");
    }
    assert!(latlab(dir.path(), &["history", "--store", "h", "import", "."]).status.success());
    for (args, sentence) in [
        (&["show", "12"][..], "12: no run of this number"),
        (&["trend", "nothing"], "nothing: no result of this name"),
    ] {
        let out = latlab(dir.path(), &[&["history", "--store", "h"], args].concat());
        assert!(text(&out.stderr).contains(sentence), "{}", text(&out.stderr));
    }
}

/// A server of our own in a directory of our own, ended with it.
struct Server {
    dir: tempfile::TempDir,
    user: Option<&'static str>,
    bin: PathBuf,
}

impl Server {
    /// `None` where PostgreSQL is not installed.
    fn start() -> Option<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
        let mut bins: Vec<PathBuf> =
            versions.into_iter().flatten().flatten().map(|v| v.path().join("bin")).collect();
        bins.sort();
        let bin = bins.into_iter().rev().find(|b| b.join("initdb").is_file())?;
        // PostgreSQL refuses to run as root.
        let root = is_root();
        let server = Self {
            dir: tempfile::Builder::new().prefix("lp").tempdir_in("/tmp").unwrap(),
            user: root.then_some("nobody"),
            bin,
        };
        let path = server.dir.path();
        if root {
            assert!(Command::new("chown").arg("nobody").arg(path).status().unwrap().success());
        }
        server.run(
            "initdb",
            &[
                "-D",
                "data",
                "-U",
                "latlab",
                "--auth=trust",
                "-E",
                "UTF8",
                "--no-sync",
                "--locale=C",
            ],
        );
        let options = format!("-k {} -c listen_addresses='' -c fsync=off", path.display());
        server.run("pg_ctl", &["-D", "data", "-w", "-l", "log", "-o", &options, "start"]);
        Some(server)
    }

    fn run(&self, program: &str, args: &[&str]) {
        let program = self.bin.join(program);
        let mut command = match self.user {
            Some(user) => {
                let mut c = Command::new("setpriv");
                c.args(["--reuid", user, "--regid", "nogroup", "--clear-groups"]).arg(program);
                c
            }
            None => Command::new(program),
        };
        // The server keeps what it inherits open: nothing of ours.
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.unwrap().success(), "{args:?}");
    }

    fn url(&self) -> String {
        let host = self.dir.path().display().to_string().replace('/', "%2F");
        format!("postgres://latlab@{host}/postgres")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", "data", "-m", "immediate", "stop"]);
    }
}

#[test]
fn a_postgresql_server_remembers_the_same() {
    let Some(server) = Server::start() else {
        skip("PostgreSQL is not installed (apt-get install postgresql)");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    runs_in(dir.path());
    a_store_knows(dir.path(), &server.url());
}
