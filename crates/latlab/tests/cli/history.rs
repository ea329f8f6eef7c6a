//! `latlab history` from outside: in a file, and on a real PostgreSQL server of our own.

use crate::common::{SmallDisk, command, is_root, latlab, nobody_reads, skip, succeed, text};
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
        run(&["add", "nightly/00", "nightly/01/run.json"])
            .contains("2 runs added, 0 already stored")
    );
    assert!(run(&["import", "."]).contains("38 runs added, 2 already stored, 1 could not be read"));
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
    let args = ["history", "--store", store, "trend", "wakeup.user", "--fail-if-worse"];
    let unread = command(dir, &args).stdout(nobody_reads()).status().unwrap();
    assert_eq!(unread.code(), Some(2), "also when nobody reads");
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
fn a_new_store_on_a_full_disk_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    a_run(dir.path(), 0);
    let Some(full) = SmallDisk::of("8k") else { return };
    let store = full.path().join("h.sqlite");
    let output =
        latlab(dir.path(), &["history", "--store", store.to_str().unwrap(), "add", "nightly/00"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("h.sqlite: cannot be created: ") && said.contains("full"), "{said}");
    assert!(said.contains("\nhint: "), "{said}");
    assert_eq!(std::fs::read_dir(full.path()).unwrap().count(), 0, "{said}");
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
        "a text file of some length, which is not a database at all\n".repeat(40),
    )
    .unwrap();
    a_run(dir.path(), 0);
    for (args, sentence) in [
        (&["list"][..], "no such store"),
        (&["--store", "no-store", "list"], "--store no-store"),
        (
            &["--store", "postgres://nobody:secret@127.0.0.1:9/x", "list"],
            "--store postgres://nobody@127.0.0.1:9/x: ",
        ),
        (
            &["--store", "host=127.0.0.1 port=9 user=nobody password=secret", "list"],
            "--store postgres://nobody@127.0.0.1:9: ",
        ),
        (
            &["--store", "postgres://u:a@secret@h/x", "list"],
            "--store postgres://…: not the address",
        ),
        (
            &["--store", "postgres://u@h/x?password=secret&sslmode=perhaps", "list"],
            "--store postgres://u@h/x: sslmode is not one of disable, prefer, ",
        ),
        (&["--store", "h", "add", "nowhere"], "nowhere: cannot be read"),
        (&["--store", "h", "import", "tables"], "tables: cannot be read"),
        (&["--store", "no/thing/h", "show", "1"], "no such store"),
    ] {
        let out = latlab(dir.path(), &[&["history"], args].concat());
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains(sentence), "{args:?}: {said}");
        assert!(!said.contains("secret") && !said.contains("panicked"), "{said}");
    }
    assert!(latlab(dir.path(), &["history", "--store", "h", "import", "."]).status.success());
    for (args, sentence) in [
        (&["show", "12"][..], "12: no run with this identifier"),
        (&["trend", "nothing"], "nothing: no result of this name"),
    ] {
        let out = latlab(dir.path(), &[&["history", "--store", "h"], args].concat());
        assert!(text(&out.stderr).contains(sentence), "{}", text(&out.stderr));
    }
}

/// A database that another program made, and a store that was made before it had a mark.
#[test]
fn a_file_of_another_program_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    a_run(dir.path(), 0);
    let file = dir.path().join("contacts.db");
    for sql in ["CREATE TABLE contacts (name TEXT)", "CREATE TABLE runs (distance REAL)"] {
        let _ = std::fs::remove_file(&file);
        rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap();
        let before = std::fs::read(&file).unwrap();
        for args in [&["list"][..], &["add", "nightly/00"], &["export", "t"]] {
            let out = latlab(dir.path(), &[&["history", "--store", "contacts.db"], args].concat());
            assert_eq!(out.status.code(), Some(1), "{args:?}");
            let said = text(&out.stderr);
            assert!(
                said.contains("--store contacts.db: is a database of another program"),
                "{said}"
            );
            assert!(std::fs::read(&file).unwrap() == before, "{args:?}: {sql}");
        }
    }
    let add = ["history", "--store", "h", "add", "nightly/00"];
    assert!(latlab(dir.path(), &add).status.success());
    let store = rusqlite::Connection::open(dir.path().join("h")).unwrap();
    store.pragma_update(None, "application_id", 0).unwrap();
    drop(store);
    let out = latlab(dir.path(), &add);
    assert!(text(&out.stdout).contains("0 runs added, 1 already stored"), "{}", text(&out.stderr));
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
        server.begin("-c listen_addresses=''");
        Some(server)
    }

    fn begin(&self, more: &str) {
        let options = format!("-k {} -c fsync=off {more}", self.dir.path().display());
        self.run("pg_ctl", &["-D", "data", "-w", "-l", "log", "-o", &options, "start"]);
    }

    fn end(&self) {
        self.run("pg_ctl", &["-D", "data", "-m", "immediate", "stop"]);
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
        self.end();
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

/// A query of a dashboard as Grafana sends it.
fn interpolated(sql: &str) -> String {
    let mut out = sql.to_owned();
    for (variable, value) in [
        ("${result:sqlstring}", "'wakeup.user'"),
        ("${board:sqlstring}", "'TI AM335x BeagleBone Black','another'"),
        ("${kernel:sqlstring}", "'6.6.30','6.6.31'"),
        ("${series:raw}", "kernel"),
        ("${statistic:raw}", "p99"),
        ("${__from:date:iso}", "2026-03-01T00:00:00.000Z"),
        ("${__to:date:iso}", "2026-12-31T00:00:00.000Z"),
    ] {
        out = out.replace(variable, value);
    }
    assert!(!out.contains('$'), "{out}");
    out
}

#[test]
fn the_dashboard_asks_what_a_postgresql_store_answers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join("../../packaging/history/grafana.json");
    let dashboard: serde_json::Value =
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut queries = Vec::new();
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    for panel in list(&dashboard["panels"]) {
        for target in list(&panel["targets"]) {
            queries.push((panel["title"].clone(), target["rawSql"].clone()));
        }
    }
    for variable in list(&dashboard["templating"]["list"]) {
        if variable["type"] == "query" {
            queries.push((variable["name"].clone(), variable["query"].clone()));
        }
    }
    for one in list(&dashboard["annotations"]["list"]) {
        queries.push((one["name"].clone(), one["target"]["rawSql"].clone()));
    }
    assert_eq!(queries.len(), 5 + 3 + 1);
    let Some(server) = Server::start() else {
        skip("PostgreSQL is not installed (apt-get install postgresql)");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    runs_in(dir.path());
    let url = server.url();
    assert!(latlab(dir.path(), &["history", "--store", &url, "import", "."]).status.success());
    let answer = |sql: &str| {
        let out = Command::new(server.bin.join("psql"))
            .args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "latlab", "-h"])
            .arg(server.dir.path())
            .args(["-d", "postgres", "-c", &interpolated(sql)])
            .output()
            .unwrap();
        assert!(out.status.success(), "{sql}: {}", text(&out.stderr));
        text(&out.stdout)
    };
    for (title, sql) in &queries {
        let rows = answer(sql.as_str().unwrap());
        let expected = match title.as_str().unwrap() {
            // A fifth slower since its first run.
            "Median of each kernel" => "6.6.31|2026-03-21T02:00:00Z|20|18",
            "Units against the others of their board" => "|bb|cpu=0|40|2026-04-12",
            "kernels" => "6.6.31 on TI AM335x BeagleBone Black",
            "result" => "wakeup.user",
            "kernel" => "6.6.30\n6.6.31",
            // A series of its own for each kernel.
            "$result: $statistic" => " 6.6.31|",
            "Latest runs" => "latlab wakeup|t|",
            "Runs a day" => "2026-03-21",
            _ => "BeagleBone Black",
        };
        assert!(rows.contains(expected), "{title}: {rows}");
    }
    let kernels = answer(queries[1].1.as_str().unwrap());
    let change: f64 = kernels.lines().next().unwrap().rsplit('|').next().unwrap().parse().unwrap();
    assert!((0.15..0.25).contains(&change), "{kernels}");
}

/// An authority, and a key and certificate of it for `localhost`, by OpenSSL's program.
fn certificates(dir: &Path) {
    let openssl = |args: &str| {
        succeed(Command::new("openssl").args(args.split(' ')).current_dir(dir));
    };
    for name in ["ca", "other"] {
        openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout {name}.key -out {name}.crt -subj /CN={name}"
        ));
    }
    openssl(
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout data/server.key -out server.csr -subj /CN=localhost",
    );
    std::fs::write(dir.join("ext"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        .unwrap();
    openssl(
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out data/server.crt",
    );
    for file in ["data/server.key", "data/server.crt"] {
        succeed(Command::new("chmod").args(["600", file]).current_dir(dir));
        if is_root() {
            succeed(Command::new("chown").args(["nobody", file]).current_dir(dir));
        }
    }
}

/// A port that nobody has now.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn sslmode_encrypts_verifies_and_fails_closed() {
    let Some(server) = Server::start() else {
        skip("PostgreSQL is not installed (apt-get install postgresql)");
        return;
    };
    let (dir, port) = (server.dir.path(), free_port());
    let runs = tempfile::tempdir().unwrap();
    a_run(runs.path(), 0);
    let add = |host: &str, options: &str| {
        let store = match host.strip_prefix("hostaddr=") {
            Some(address) => {
                format!("postgres://latlab@/postgres?hostaddr={address}&port={port}&{options}")
            }
            None => format!("postgres://latlab@{host}:{port}/postgres?{options}"),
        };
        let mut add = command(runs.path(), &["history", "--store", &store, "add", "nightly/00"]);
        // No root certificate of whoever runs the tests.
        let out = add.env("HOME", runs.path()).output().unwrap();
        (out.status.success(), text(&out.stderr))
    };
    // How the server saw the connections: its log names the protocol.
    let encrypted = || {
        let log = std::fs::read_to_string(dir.join("log")).unwrap();
        let last = log.lines().rfind(|l| l.contains("connection authorized")).unwrap().to_owned();
        last.contains("SSL enabled")
    };
    let listen = format!("-c listen_addresses=localhost -c port={port} -c log_connections=on");

    server.end();
    server.begin(&listen);
    let (root, other) = (dir.join("ca.crt"), dir.join("other.crt"));
    for options in ["", "sslmode=prefer", "sslmode=disable"] {
        let (added, said) = add("localhost", options);
        assert!(added && !encrypted(), "{options}: {said}");
    }
    for host in ["localhost", "hostaddr=127.0.0.1"] {
        let (added, said) = add(host, "sslmode=require");
        assert!(!added && said.contains("server does not support TLS"), "{host}: {said}");
    }

    certificates(dir);
    server.end();
    server.begin(&format!("{listen} -c ssl=on"));
    let with = |mode: &str, root: &Path| format!("sslmode={mode}&sslrootcert={}", root.display());
    for (host, options) in [
        ("localhost", String::new()),
        ("127.0.0.1", "sslmode=prefer".into()),
        ("127.0.0.1", "sslmode=require".into()),
        ("127.0.0.1", with("require", &root)),
        ("127.0.0.1", with("verify-ca", &root)),
        ("localhost", with("verify-full", &root)),
        ("hostaddr=127.0.0.1", String::new()),
        ("hostaddr=127.0.0.1", "sslmode=require".into()),
        ("hostaddr=127.0.0.1", with("verify-ca", &root)),
        ("hostaddr=127.0.0.1", format!("host=localhost&{}", with("verify-full", &root))),
    ] {
        let (added, said) = add(host, &options);
        assert!(added && encrypted(), "{host} {options}: {said}");
    }
    let (added, said) = add("localhost", "sslmode=disable");
    assert!(added && !encrypted(), "{said}");
    for (host, options, sentence) in [
        ("localhost", with("require", &other), "invalid peer certificate: UnknownIssuer"),
        ("localhost", with("verify-ca", &other), "invalid peer certificate: UnknownIssuer"),
        ("localhost", with("verify-full", &other), "invalid peer certificate: UnknownIssuer"),
        ("127.0.0.1", with("verify-full", &root), "certificate not valid for name \"127.0.0.1\""),
        (
            "hostaddr=127.0.0.1",
            with("verify-ca", &other),
            "invalid peer certificate: UnknownIssuer",
        ),
        (
            "hostaddr=127.0.0.1",
            with("verify-full", &root),
            "certificate not valid for name \"127.0.0.1\"",
        ),
        (
            "hostaddr=127.0.0.1",
            "host=%2Frun&sslmode=require".into(),
            "hostaddr is an address, and host is a socket",
        ),
        ("localhost", with("verify-full", &dir.join("none.crt")), "root certificates "),
        ("localhost", with("verify-full", &dir.join("ext")), "no certificate in it"),
        ("localhost", "sslmode=verify-ca".into(), "root certificates "),
    ] {
        let (added, said) = add(host, &options);
        assert!(!added && said.contains(sentence), "{host} {options}: {said}");
        assert_eq!(said.lines().filter(|l| l.starts_with("latlab: ")).count(), 1, "{said}");
    }
}
