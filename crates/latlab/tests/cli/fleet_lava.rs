//! Campaigns on LAVA: its schema and its dispatcher, with an sshd on the loopback interface as device.

use crate::common::{latlab, printed, said, skip};
use crate::ssh::Board;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A laboratory with one device.
struct Laboratory {
    board: Board,
    server: Child,
    /// Number of the first job. LAVA leaves its files in `/lava-NUMBER` of the device, which here is this machine.
    first: u32,
}

impl Drop for Laboratory {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        for entry in fs::read_dir("/").unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix("lava-").and_then(|n| n.split('-').next()?.parse().ok());
            if number.is_some_and(|n: u32| (self.first..self.first + 10).contains(&n)) {
                let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
            }
        }
        for empty in ["dispatcher/tmp", "dispatcher", ""] {
            let _ = fs::remove_dir(Path::new("/var/lib/lava").join(empty));
        }
    }
}

/// Files of LAVA's dispatcher.
fn dispatcher() -> Option<PathBuf> {
    let found = std::env::var_os("LATLAB_TEST_LAVA").map(PathBuf::from);
    let found = found.filter(|d| d.join("usr/bin/lava-run").exists());
    let (Some(found), true) = (found, Path::new("/usr/bin/lavacli").exists()) else {
        skip("LATLAB_TEST_LAVA names no files of lava-dispatcher, or lavacli is not installed");
        return None;
    };
    if !rustix::process::geteuid().is_root() {
        skip("lava-run wants root");
        return None;
    }
    found.canonicalize().ok()
}

impl Laboratory {
    fn start() -> Option<Self> {
        let dispatcher = dispatcher()?;
        let board = Board::start_with(&[], "Subsystem sftp internal-sftp")?;
        let lab = board.at("lava");
        fs::create_dir(&lab).unwrap();
        let d = lab.display();
        let device = format!(
            "device_info: {{}}\nparameters: {{interfaces: {{}}, media: {{}}}}\n\
             constants:\n  default-shell-prompt: 'lava-test: # '\n  spawn_maxread: '4092'\n  kernel-start-message: 'Linux version'\n  failure_retry: 1\n  boot_retry: 1\n  \
             posix: {{lava_test_sh_cmd: /bin/sh, lava_test_results_dir: '{d}/lava-%s', lava_test_shell_file: '~/.bashrc'}}\n\
             actions:\n  deploy:\n    connections: {{serial: null}}\n    methods:\n      ssh:\n        \
             options: ['-o', 'UserKnownHostsFile={known}', '-o', 'LogLevel=FATAL']\n        host: 127.0.0.1\n        port: {port}\n        \
             user: root\n        identity_file: {key}\n  boot:\n    connections: {{serial: null}}\n    methods: {{ssh: null}}\n\
             timeouts: {{}}\n",
            known = board.at("known").display(),
            port = board.port,
            key = board.at("user").display(),
        );
        fs::write(lab.join("device.yaml"), device).unwrap();
        let first = std::process::id() * 10;
        let mut server = Command::new("/usr/bin/python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/lava_server.py"))
            .arg(&dispatcher)
            .args([&lab.join("device.yaml"), &lab])
            .arg(first.to_string())
            .env("PYTHONPATH", dispatcher.join("usr/lib/python3/dist-packages"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let identity = format!("lab:\n  uri: http://127.0.0.1:{}/RPC2\n", port.trim());
        fs::write(lab.join("lavacli.yaml"), identity).unwrap();
        Some(Self { board, server, first })
    }

    fn fleet(&self, words: &[&str]) -> Output {
        let mut command = self.board.host(&[&["fleet"], words].concat());
        command.env("XDG_CONFIG_HOME", self.board.at("lava")).output().unwrap()
    }

    /// Writes a campaign whose program on the device is `program`.
    fn campaign(&self, program: &str) {
        let campaign = format!(
            "name = 'nightly'\nrepetitions = 2\nlavacli = ['-i', 'lab']\n\
             [[board]]\nname = 'bb1'\n[board.lava]\njob = 'bb1.yaml'\ntags = ['bb1']\nlatlab = '{program}'\nsetup = ['uname -r']\n\
             [[experiment]]\nname = 'quick'\ncommand = ['wakeup', '-q', '-l', '200', '--policy', 'other']\n\
             [[experiment]]\nname = 'quoted'\ncommand = ['bench', 'syscall.getppid', '--precision', '50']\n\
             [[experiment]]\nname = 'wrong'\ncommand = ['wakeup', '--no-such-option', \"it's\"]\n",
        );
        fs::write(self.board.at("host/c.toml"), campaign).unwrap();
        fs::write(self.board.at("host/bb1.yaml"), TEMPLATE).unwrap();
    }
}

/// What a laboratory has for its devices.
const TEMPLATE: &str = "\
# One of our boards.
device_type: ssh
job_name: replaced
visibility: public
priority: medium
timeouts:
  job: {minutes: 20}
  connection: {minutes: 1}
actions:
- deploy: {to: ssh, os: debian}
- boot:
    method: ssh
    connection: ssh
    prompts: ['[#$] ']
metadata:
  owner: lab
";

/// Whole way: jobs that LAVA's schema accepts and its dispatcher runs, results as cases, runs out of the log.
#[test]
fn runs_come_back_through_the_log_of_a_job() {
    let Some(lab) = Laboratory::start() else { return };
    lab.campaign(crate::common::LATLAB);
    let done = lab.fleet(&["submit", "c.toml", "--dir", "c", "--engine", "lava", "--wait"]);
    let log = format!("c/lava/{}.log", lab.first);
    let text = fs::read_to_string(lab.board.at("host").join(&log))
        .unwrap_or_else(|_| panic!("{}{}", printed(&done), said(&done)));
    assert!(
        printed(&done).contains("4 finished, 2 failed, 0 waiting"),
        "{}{}{text}",
        printed(&done),
        said(&done)
    );
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&done).contains("6 experiments in 2 jobs"), "{}", said(&done));
    assert!(said(&done).contains("the command ended with exit code 1"), "{}", said(&done));
    // LAVA has the results too, with set, measurement and units.
    for words in [
        [r#""case": "quick""#, r#""set": "quick""#, r#""result": "pass""#],
        [r#""case": "wrong""#, r#""set": "wrong""#, r#""result": "fail""#],
        [r#""case": "syscall.getppid-median""#, r#""measurement": "#, r#""units": "ns""#],
    ] {
        let has = |line: &str| words.iter().all(|w| line.contains(w));
        assert!(text.lines().any(has), "{words:?}: {text}");
    }
    let results: Vec<PathBuf> =
        fs::read_dir(lab.board.at("host/c/results")).unwrap().flatten().map(|e| e.path()).collect();
    assert_eq!(results.len(), 4);
    for result in &results {
        for file in ["run.json", "report.html", "origin.json"] {
            assert!(result.join(file).exists(), "{}: {file}", result.display());
        }
    }
    let imported = lab.fleet(&["import", "--lake", "lake", "c/results"]);
    assert!(
        printed(&imported).contains("4 runs added"),
        "{}{}",
        printed(&imported),
        said(&imported)
    );

    // The same log again, by hand, into another directory; and what is finished stays.
    let again = lab.fleet(&["collect", "c.toml", "--dir", "d", &log]);
    assert!(printed(&again).contains("2 finished, 1 failed, 3 waiting"), "{}", printed(&again));
    // As people save it: lavacli's own text, with times and colours.
    let saved = Command::new("lavacli")
        .args(["-i", "lab", "jobs", "logs", &(lab.first + 1).to_string()])
        .env("XDG_CONFIG_HOME", lab.board.at("lava"))
        .output()
        .unwrap();
    fs::write(lab.board.at("host/saved.log"), &saved.stdout).unwrap();
    assert!(!printed(&saved).contains("\"lvl\""), "{}", printed(&saved));
    let text = lab.fleet(&["collect", "c.toml", "--dir", "d", "saved.log"]);
    assert!(printed(&text).contains("4 finished, 2 failed, 0 waiting"), "{}", printed(&text));
    let nothing = lab.fleet(&["collect", "c.toml", "--dir", "c"]);
    assert!(printed(&nothing).contains("4 finished, 2 failed, 0 waiting"), "{}", printed(&nothing));
    // What failed would be measured again, in jobs without what is finished.
    let words = ["submit", "c.toml", "--dir", "c", "--engine", "lava", "--dry-run"];
    let more = printed(&lab.fleet(&words));
    let jobs: Vec<&str> = more.lines().collect();
    assert_eq!(jobs.len(), 2, "{more}");
    for job in jobs {
        let file = job.strip_prefix("lavacli -i lab jobs submit ").unwrap();
        let text = fs::read_to_string(lab.board.at("host").join(file)).unwrap();
        assert!(text.contains("start wrong") && !text.contains("start quick"), "{text}");
    }
}

/// The documentation's example makes a job that LAVA takes.
#[test]
fn the_example_of_the_documentation_is_a_job_of_lava() {
    if dispatcher().is_none() {
        return;
    }
    let t = tempfile::tempdir().unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/fleet.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("\n### LAVA\n").nth(1).unwrap();
    let block = |language: &str| {
        let begin = format!("```{language}\n");
        section.split(&begin).nth(1).and_then(|b| b.split("```").next()).unwrap().to_owned()
    };
    let experiment = "[[experiment]]\nname = 'w'\ncommand = ['wakeup', '-D', '60']\nseconds = 70\n";
    fs::write(t.path().join("bbb.yaml"), block("yaml")).unwrap();
    fs::write(t.path().join("c.toml"), format!("name = 'n'\n{}{experiment}", block("toml")))
        .unwrap();
    let words = ["fleet", "submit", "c.toml", "--dir", "c", "--engine", "lava", "--dry-run"];
    let made = latlab(t.path(), &words);
    let file = printed(&made).trim().rsplit(' ').next().unwrap().to_owned();
    let checked = Command::new("/usr/bin/python3")
        .args(["/usr/share/lava-common/lava-schema.py", "job", "--strict"])
        .arg(t.path().join(&file))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}{}{}", printed(&made), said(&made), printed(&checked));
    // It is a check: a job without a visibility is refused.
    let text = fs::read_to_string(t.path().join(&file)).unwrap();
    fs::write(t.path().join("bad.yaml"), text.replace("visibility: public\n", "")).unwrap();
    let bad = Command::new("/usr/bin/python3")
        .args(["/usr/share/lava-common/lava-schema.py", "job", "--strict"])
        .arg(t.path().join("bad.yaml"))
        .output()
        .unwrap();
    assert!(!bad.status.success(), "{}", printed(&bad));
}
