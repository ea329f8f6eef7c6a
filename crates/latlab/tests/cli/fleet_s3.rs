//! A lake in an object store: `packaging/fleet/lake-to-s3` with the command `aws`, against a server of S3 on this
//! machine (moto).

use crate::common::{latlab, said, skip, text, wait_for};
use crate::fleet::{files, nights};
use std::ffi::OsString;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A server with one bucket, ended with it.
struct Store {
    server: Child,
    port: u16,
    /// Programs of the Python environment.
    bin: PathBuf,
    dir: PathBuf,
}

impl Store {
    /// `None` where the programs are not installed.
    fn start(dir: &Path) -> Option<Self> {
        let bin = PathBuf::from(std::env::var_os("LATLAB_PYTHON")?).parent()?.to_owned();
        if !bin.join("moto_server").exists() || !bin.join("aws").exists() {
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Command::new(bin.join("moto_server"))
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.join("requests")).unwrap())
            .spawn()
            .unwrap();
        let store = Self { server, port, bin, dir: dir.to_owned() };
        wait_for("the object store", Duration::from_millis(100), || {
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        let made = store.run("aws", &["s3", "mb", "s3://bucket"]);
        assert!(made.status.success(), "{}", said(&made));
        Some(store)
    }

    fn run(&self, program: &str, args: &[&str]) -> Output {
        let mut path = OsString::from(&self.bin);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        Command::new(program)
            .args(args)
            .current_dir(&self.dir)
            .env("PATH", path)
            .env("HOME", &self.dir)
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret of nobody")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .output()
            .unwrap()
    }

    fn copy(&self) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/fleet/lake-to-s3");
        self.run(script.to_str().unwrap(), &["lake", "s3://bucket/fleet/lake"])
    }

    /// Paths of requests of a method, in order.
    fn requests(&self, method: &str) -> Vec<String> {
        let log = fs::read_to_string(self.dir.join("requests")).unwrap();
        let start = format!("\"{method} /bucket/fleet/lake/");
        let path = |line: &str| {
            Some(line.split_once(&start)?.1.split([' ', '?']).next().unwrap_or_default().to_owned())
        };
        log.lines().filter_map(path).collect()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn an_object_store_has_whole_runs_in_every_moment() {
    let t = tempfile::tempdir().unwrap();
    let Some(store) = Store::start(t.path()) else {
        skip("LATLAB_PYTHON names no Python with moto and awscli");
        return;
    };
    let fleet = |args: &str| {
        let args: Vec<&str> = std::iter::once("fleet").chain(args.split(' ')).collect();
        let out = latlab(t.path(), &args);
        assert!(out.status.success(), "{args:?}: {}", said(&out));
        text(&out.stdout)
    };
    let copied = || {
        let out = store.copy();
        assert!(out.status.success(), "{}", said(&out));
        assert!(!said(&out).contains("secret"), "{}", said(&out));
    };
    nights(t.path(), 0..3);
    fleet("import --lake lake runs/0");
    fleet("import --lake lake runs/1");
    copied();
    // The files of `run` are the last ones of tables.
    let put: Vec<String> =
        store.requests("PUT").into_iter().filter(|p| p.ends_with("parquet")).collect();
    assert_eq!(put.len(), 2 * 5, "{put:?}");
    let first = put.iter().position(|p| p.starts_with("run/")).unwrap();
    assert!(put[first..].iter().all(|p| p.starts_with("run/")), "{put:?}");
    // Once more: nothing but the head.
    let before = store.requests("PUT").len();
    copied();
    assert_eq!(store.requests("PUT").len(), before + 1);
    // What compaction replaced goes when all new files are there.
    for device in 0..6 {
        fleet(&format!("import --lake lake runs/2/{device}"));
    }
    copied();
    fleet("compact --lake lake");
    copied();
    let down = store.run("aws", &["s3", "sync", "--quiet", "s3://bucket/fleet/lake", "down"]);
    assert!(down.status.success(), "{}", said(&down));
    let (here, there) = (t.path().join("lake"), t.path().join("down"));
    assert_eq!(files(&here), files(&there));
    for file in files(&here) {
        assert_eq!(fs::read(here.join(&file)).unwrap(), fs::read(there.join(&file)).unwrap());
    }
    assert_eq!(fleet("import --lake down runs"), "0 runs added, 18 already stored\n");
}

#[test]
fn a_lake_that_is_written_or_missing_is_not_copied() {
    let t = tempfile::tempdir().unwrap();
    let Some(store) = Store::start(t.path()) else {
        skip("LATLAB_PYTHON names no Python with moto and awscli");
        return;
    };
    let refused = |sentence: &str| {
        let out = store.copy();
        assert_eq!(out.status.code(), Some(1));
        assert_eq!(text(&out.stderr), format!("lake-to-s3: {sentence}\n"));
    };
    refused("lake: no lake of latlab fleet");
    fs::create_dir_all(t.path().join("lake/_latlab")).unwrap();
    fs::write(t.path().join("lake/_latlab/lake.json"), "{\"version\":1}").unwrap();
    refused("lake: has no run");
    nights(t.path(), 0..1);
    assert!(latlab(t.path(), &["fleet", "import", "--lake", "lake", "runs"]).status.success());
    let head =
        fs::File::options().write(true).open(t.path().join("lake/_latlab/lake.json")).unwrap();
    head.lock().unwrap();
    refused("lake: another process writes to it");
    head.unlock().unwrap();
    assert!(store.requests("PUT").is_empty());
}
