//! `--on ssh://…` against a real sshd on the loopback interface, with a configuration and keys of its own.

use crate::common::{
    self, LATLAB, SmallDisk, copy_program, keygen, printed, said, skip, succeed, wait_for,
};
use latlab_wire::frame::{FileHead, Message};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An sshd, a client configuration that knows its key, and a "board build": our own program.
pub struct Board {
    dir: tempfile::TempDir,
    sshd: Child,
    pub port: u16,
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

/// A program of the board that does something else, and the `PATH` on which it comes first.
pub fn pretend(program: &str, script: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    common::script(&dir.path().join(program), &format!("#!/bin/sh\n{script}\n"));
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    (dir, path)
}

impl Board {
    /// `environment`: what sshd sets for its sessions, besides a cache folder of the test's.
    pub fn start(environment: &[(&str, &str)]) -> Option<Self> {
        Self::start_with(environment, "")
    }

    /// `configuration`: more lines for sshd.
    pub fn start_with(environment: &[(&str, &str)], configuration: &str) -> Option<Self> {
        let missing = ["/usr/sbin/sshd", "/usr/bin/ssh"].iter().find(|p| !Path::new(p).exists());
        if let Some(missing) = missing {
            skip(&format!("{missing} is not installed"));
            return None;
        }
        // sshd wants this folder when it runs as root.
        let _ = fs::create_dir_all("/run/sshd");
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        keygen(&at("host_key"));
        keygen(&at("user"));
        fs::copy(at("user.pub"), at("authorized")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut set_env = format!("SetEnv XDG_CACHE_HOME={}", at("cache").display());
        for (name, value) in environment {
            if *name == "XDG_CACHE_HOME" {
                set_env = "SetEnv".into();
            }
            set_env += &format!(" {name}={value}");
        }
        let d = dir.path().display();
        let sshd_config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {d}/host_key\nAuthorizedKeysFile {d}/authorized\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n{set_env}\n{configuration}\n"
        );
        fs::write(at("sshd_config"), sshd_config).unwrap();
        let user = printed(&succeed(Command::new("id").arg("-un")));
        let user = user.trim();
        let key = fs::read_to_string(at("host_key.pub")).unwrap();
        fs::write(at("known"), format!("[127.0.0.1]:{port} {key}")).unwrap();
        let client = format!(
            "Host testboard\n HostName 127.0.0.1\n Port {port}\n User {user}\n IdentityFile {d}/user\n \
             IdentitiesOnly yes\n UserKnownHostsFile {d}/known\n StrictHostKeyChecking yes\n"
        );
        common::ssh_client(dir.path(), &client);
        fs::create_dir(at("boards")).unwrap();
        let build = at("boards").join(format!("latlab-{}", arch()));
        copy_program(LATLAB, &build);
        fs::create_dir(at("host")).unwrap();
        let sshd = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(at("sshd_config"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let board = Self { dir, sshd, port };
        board.wait_for(port);
        Some(board)
    }

    fn wait_for(&self, port: u16) {
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "sshd did not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn latlab(&self, args: &[&str]) -> Command {
        self.host(&[&["--on", "ssh://testboard"], args].concat())
    }

    /// `latlab ARGS` on the host, whose ssh knows the board.
    pub fn host(&self, args: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(LATLAB);
        command
            .args(args)
            .current_dir(self.at("host"))
            .env("PATH", format!("{}:{path}", self.at("bin").display()))
            .env("LATLAB_BOARDS", self.at("boards"))
            .env("XDG_CACHE_HOME", self.at("host-cache"))
            .stdin(Stdio::null());
        command
    }

    fn kept(&self) -> Vec<String> {
        let output = self.latlab(&["fetch"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "arm" => "armv7",
        other => other,
    }
}

#[test]
fn a_run_comes_back_and_leaves_the_board() {
    let Some(board) = Board::start(&[]) else { return };
    // This server has no SFTP: the subsystem is not in its configuration.
    let sftp =
        Command::new(board.at("bin/ssh")).args(["-s", "testboard", "sftp"]).output().unwrap();
    assert!(!sftp.status.success() && said(&sftp).contains("subsystem"), "{}", said(&sftp));
    let output = board.latlab(&["wakeup", "-D", "200ms", "--out", "kept/here"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("pushing latlab"));
    assert!(said(&output).contains("report: kept/here/report.html"), "{}", said(&output));
    assert!(!output.stdout.is_empty());
    let run = fs::read_to_string(board.at("host/kept/here/run.json")).unwrap();
    assert!(run.contains("\"complete\": true") || run.contains("\"complete\":true"));
    assert!(board.kept().is_empty());
    // The second time it is there already.
    let again = board.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
    assert!(again.status.success() && !said(&again).contains("pushing"), "{}", said(&again));
    assert_eq!(fs::read_dir(board.at("host/runs")).unwrap().count(), 1);
}

#[test]
fn a_board_measures_against_a_server_on_the_host() {
    let Some(board) = Board::start(&[]) else { return };
    let server = crate::bench_network::Server::here();
    let probe = format!("ipc.tcp:host={},size=1", server.address);
    let output = board.latlab(&["bench", &probe, "-D", "100ms", "--out", "r"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(printed(&output).contains("ipc.tcp"), "{}", printed(&output));
    let run = fs::read_to_string(board.at("host/r/run.json")).unwrap();
    assert!(run.contains(&server.address), "{run}");
    drop(server);
    let output = board.latlab(&["bench", &probe, "-D", "100ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("no server at "), "{}", said(&output));
}

/// Names of the builds on a board.
fn builds(folder: &Path) -> Vec<String> {
    let names =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("latlab-")).collect()
}

#[test]
fn pushing_another_build_leaves_the_builds_of_running_commands() {
    let Some(board) = Board::start(&[]) else { return };
    let folder = board.at("cache").join(format!("latlab-{}", uid()));
    let child = board
        .latlab(&["load", "-t", "600", "cpu:1%"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pids = || -> Option<Vec<PathBuf>> {
        let runs = fs::read_dir(folder.join("runs")).ok()?;
        let pids: Vec<_> = runs.map(|r| r.unwrap().path().join("pid")).collect();
        pids.iter().any(|p| p.exists()).then_some(pids)
    };
    let pids = wait_for("the run", Duration::from_millis(20), pids);
    let first = builds(&folder);
    let push_another = || {
        let build = board.at("boards").join(format!("latlab-{}", arch()));
        fs::OpenOptions::new().append(true).open(build).unwrap().write_all(b"x").unwrap();
        let output = board.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("pushing latlab"), "{}", said(&output));
    };
    push_another();
    let second = builds(&folder);
    assert_eq!((first.len(), second.len()), (1, 2), "{second:?}");
    assert!(second.contains(&first[0]), "{second:?}");
    // What another host pushes stays; what a killed one left goes.
    let pushed = folder.join(format!("latlab-0.{}.part", std::process::id()));
    let left = folder.join("latlab-0.4194999.part");
    fs::write(&pushed, "").unwrap();
    fs::write(&left, "").unwrap();
    push_another();
    let third = builds(&folder);
    assert!(third.contains(&first[0]) && pushed.exists() && !left.exists(), "{third:?}");
    assert_eq!(third.len(), 3, "the second build is run by nobody: {third:?}");

    let pid = fs::read_to_string(&pids[0]).unwrap();
    succeed(Command::new("kill").arg(pid.split(' ').next().unwrap()));
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(143), "{}", said(&ended));
    push_another();
    assert!(!builds(&folder).contains(&first[0]));
}

#[test]
fn a_build_that_is_damaged_on_the_board_is_pushed_again() {
    let Some(board) = Board::start(&[]) else { return };
    let run = || board.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
    assert!(run().status.success());
    let folder = board.at("cache").join(format!("latlab-{}", uid()));
    let program = folder.join(&builds(&folder)[0]);
    let mut bytes = fs::read(&program).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&program, &bytes).unwrap();
    let again = run();
    assert!(again.status.success() && said(&again).contains("pushing latlab"), "{}", said(&again));
    *bytes.last_mut().unwrap() ^= 1;
    assert!(fs::read(&program).unwrap() == bytes);
}

#[test]
fn exit_codes_are_those_of_the_board() {
    let Some(board) = Board::start(&[]) else { return };
    let output = board.latlab(&["wakeup", "-D", "100ms", "-b", "1"]).output().unwrap();
    let local = Command::new(LATLAB)
        .args(["wakeup", "-D", "100ms", "-b", "1"])
        .current_dir(board.at("host"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), local.status.code(), "{}", said(&output));
}

#[test]
fn a_lost_connection_loses_no_run() {
    let Some(board) = Board::start(&[]) else { return };
    let child = board
        .latlab(&["wakeup", "-D", "4s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let runs = board.at("cache").join(format!("latlab-{}", uid())).join("runs");
    let started = || {
        fs::read_dir(&runs)
            .is_ok_and(|mut d| d.any(|e| e.is_ok_and(|e| e.path().join("pid").exists())))
    };
    wait_for("the run", Duration::from_millis(20), || started().then_some(()));
    std::thread::sleep(Duration::from_millis(300));
    // The session's processes are children of our own sshd.
    succeed(Command::new("pkill").args(["-KILL", "-P", &board.sshd.id().to_string()]));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{}", said(&output));
    assert!(said(&output).contains("the connection was lost"), "{}", said(&output));
    let kept = board.kept();
    assert_eq!(kept.len(), 1);
    assert!(said(&output).contains(&format!("fetch {}", kept[0])));
    let fetched = board.latlab(&["fetch", &kept[0]]).output().unwrap();
    assert!(fetched.status.success(), "{}", said(&fetched));
    assert_eq!(fs::read_dir(board.at("host/runs")).unwrap().count(), 1);
    assert!(board.kept().is_empty());
}

/// What a queue may try again has an exit code of its own.
#[test]
fn a_board_that_does_not_answer_is_told_apart() {
    let Some(mut board) = Board::start(&[]) else { return };
    board.sshd.kill().unwrap();
    board.sshd.wait().unwrap();
    let output = board.latlab(&["doctor"]).output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{}", said(&output));
    assert!(said(&output).contains("nothing listens there"), "{}", said(&output));
}

#[test]
fn an_unknown_or_changed_host_key_is_never_skipped() {
    let Some(board) = Board::start(&[]) else { return };
    let known = fs::read_to_string(board.at("known")).unwrap();
    fs::write(board.at("known"), "").unwrap();
    let unknown = board.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        said(&unknown).contains("its host key is not known; nothing was run"),
        "{}",
        said(&unknown)
    );
    let other = fs::read_to_string(board.at("user.pub")).unwrap();
    let host = known.split(' ').next().unwrap();
    fs::write(board.at("known"), format!("{host} {other}")).unwrap();
    let changed = board.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
    assert!(
        said(&changed).contains("its host key is another one than before"),
        "{}",
        said(&changed)
    );
    assert!(!board.at("cache").exists(), "something was written on the board");
}

#[test]
fn a_home_that_cannot_be_written_to_is_passed_over() {
    let Some(board) = Board::start(&[("XDG_CACHE_HOME", "/proc"), ("HOME", "/proc")]) else {
        return;
    };
    let output = board.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(Path::new(&format!("/tmp/latlab-{}", uid())).exists());
}

/// A board on which no folder can be made.
#[test]
fn a_board_without_a_folder_for_us_is_told() {
    let (_fake, path) = pretend("mkdir", "exit 1");
    let Some(board) = Board::start(&[("PATH", &path)]) else { return };
    let output = board.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("there is no folder that we may write to"), "{}", said(&output));
    assert!(said(&output).contains("hint: mount one of them without noexec"), "{}", said(&output));
}

#[test]
fn a_full_disk_and_a_folder_without_exec_are_told_or_passed_over() {
    let Some(small) = SmallDisk::of("512k") else { return };
    let Some(noexec) = SmallDisk::of("512k,noexec") else { return };
    let Some(full) = Board::start(&[("XDG_CACHE_HOME", small.path().to_str().unwrap())]) else {
        return;
    };
    let output = full.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
    let passed_over = Board::start(&[
        ("XDG_CACHE_HOME", noexec.path().to_str().unwrap()),
        ("HOME", full.at("").to_str().unwrap()),
    ])
    .unwrap();
    let second = passed_over.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("its disk is full"), "{}", said(&output));
    assert!(second.status.success(), "{}", said(&second));
    assert!(full.at(&format!("latlab-{}", uid())).exists());
}

/// What was measured stays on the board when there is no room for it here.
#[test]
fn a_full_disk_at_the_desk_loses_no_run() {
    let Some(board) = Board::start(&[]) else { return };
    let Some(small) = SmallDisk::of("4k") else { return };
    let out = small.path().join("r");
    let args = ["wakeup", "-D", "200ms", "--out", out.to_str().unwrap()];
    let output = board.latlab(&args).output().unwrap();
    let kept = board.kept();
    let fetched = board.latlab(&["fetch", &kept.concat()]).output().unwrap();
    drop(small);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(kept.len(), 1, "{}", said(&output));
    let told = said(&output);
    assert!(told.contains(&format!("the run {} is kept on the board", kept[0])), "{told}");
    assert!(
        told.contains("No space left on device") && told.contains("hint: free some space here"),
        "{told}"
    );
    assert!(fetched.status.success(), "{}", said(&fetched));
}

#[test]
fn a_processor_for_which_there_is_no_latlab_and_a_build_for_another_are_told() {
    let (_fake, path) = pretend("uname", "echo mips");
    let Some(board) = Board::start(&[("PATH", &path)]) else { return };
    let output = board.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("its processor is \"mips\", for which there is no latlab"),
        "{}",
        said(&output)
    );

    let Some(board) = Board::start(&[]) else { return };
    let build = board.at("boards").join(format!("latlab-{}", arch()));
    let mut bytes = fs::read(&build).unwrap();
    bytes[18..20].copy_from_slice(&8u16.to_le_bytes()); // EM_MIPS
    fs::write(&build, bytes).unwrap();
    let output = board.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("this program is not for "), "{}", said(&output));
    assert!(!board.at("cache").join(format!("latlab-{}", uid())).join("runs").exists());
}

#[test]
fn a_board_without_a_build_is_told_what_is_missing() {
    let Some(board) = Board::start(&[]) else { return };
    fs::remove_dir_all(board.at("boards")).unwrap();
    let output = board.latlab(&["wakeup", "-D", "100ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains(&format!("no latlab for {} is built", arch())),
        "{}",
        said(&output)
    );
    assert!(said(&output).contains("make boards"));
}

/// An `ssh` that answers as a board does, with frames of the test's own as its result.
pub fn pretend_board(frames: &[Message]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = frames.iter().flat_map(Message::encode).collect();
    fs::write(dir.path().join("frames"), bytes).unwrap();
    for folder in ["bin", "boards", "host"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
    }
    copy_program(LATLAB, &dir.path().join("boards").join(format!("latlab-{}", arch())));
    let script = format!(
        "#!/bin/sh\nfor last; do :; done\ncase \"$last\" in\n\
         *latlab-machine=*) echo latlab-machine={}; echo latlab-folder=/x;;\n\
         *latlab-there*) echo latlab-there;;\n\
         *'ls -1tr '*) printf 'r\\033]0;a\\007\\233\\302\\2332J\\n';;\n\
         *'on-board start'*) cat >/dev/null;;\n\
         *'on-board follow'*) cat {d}/frames; sleep 1;;\n\
         'exec sh -c '*'rm -rf '*) touch {d}/forgotten;;\nesac\n",
        std::env::consts::ARCH,
        d = dir.path().display()
    );
    common::script(&dir.path().join("bin/ssh"), &script);
    dir
}

fn with_pretended(dir: &Path, args: &[&str]) -> std::process::Output {
    on_pretended(dir, &[&["--on", "ssh://root@evil"], args].concat()).output().unwrap()
}

/// `latlab ARGS` with the programs of `dir/bin` before all others.
pub fn on_pretended(dir: &Path, args: &[&str]) -> Command {
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(LATLAB);
    command
        .args(args)
        .current_dir(dir.join("host"))
        .env("PATH", path)
        .env("LATLAB_BOARDS", dir.join("boards"))
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .stdin(Stdio::null());
    command
}

pub fn file(path: &str, content: &[u8]) -> [Message; 2] {
    let length = content.len() as u64;
    let head = FileHead { path: path.into(), length, directory: false };
    [Message::File(head), Message::Data(content.to_vec())]
}

#[test]
fn a_board_cannot_write_what_was_not_requested() {
    for name in [".bashrc", ".ssh/authorized_keys", "Makefile", "runs/../x", "trace.dat"] {
        let frames = [&file(name, b"attacker")[..], &[Message::Exit(0)]].concat();
        let dir = pretend_board(&frames);
        let output = with_pretended(dir.path(), &["doctor"]);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", said(&output));
        let told = said(&output);
        assert!(told.contains(&format!("{name}: the target sent a file that was not")), "{told}");
        assert_eq!(fs::read_dir(dir.path().join("host")).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn names_of_runs_on_a_board_have_no_control_characters() {
    let dir = pretend_board(&[]);
    let output = with_pretended(dir.path(), &["fetch"]);
    assert_eq!(printed(&output), "r␛]0;a␇��2J\n", "{}", said(&output));
}

#[test]
fn the_report_of_a_board_is_rendered_here() {
    let page = b"<script>alert(1)</script>";
    let run = br#"{"schema_version":2,"complete":true}"#;
    let frames = [
        &file("runs/r/report.html", page)[..],
        &file("runs/r/run.json", run)[..],
        &[Message::Exit(0)],
    ];
    let dir = pretend_board(&frames.concat());
    let output = with_pretended(dir.path(), &["wakeup"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = fs::read_to_string(dir.path().join("host/runs/r/report.html")).unwrap();
    assert!(report.contains("Content-Security-Policy") && !report.contains("alert(1)"));
}

/// A run directly in `runs`, or in the folder of a result, has its page beside what the user has there.
#[test]
fn a_page_of_the_user_is_not_replaced_by_that_of_a_board() {
    let run = br#"{"schema_version":2,"complete":true}"#;
    for (sent, args) in [("runs", &["wakeup"][..]), ("out0-r", &["wakeup", "--out", "r"])] {
        let frames = [&file(&format!("{sent}/run.json"), run)[..], &[Message::Exit(0)]].concat();
        let dir = pretend_board(&frames);
        let here = dir.path().join("host").join(sent.trim_start_matches("out0-"));
        fs::create_dir_all(&here).unwrap();
        fs::write(here.join("report.html"), "mine").unwrap();
        let output = with_pretended(dir.path(), args);
        assert_eq!(fs::read_to_string(here.join("report.html")).unwrap(), "mine", "{sent}");
        let told = said(&output);
        assert!(told.contains("report.html: is there already and stays"), "{sent}: {told}");
        assert!(here.join("run.json").exists(), "{sent}: {told}");
    }
}

#[test]
fn a_recording_that_is_there_is_refused_before_the_board_records() {
    let dir = pretend_board(&[Message::Exit(0)]);
    let there = dir.path().join("host/trace.dat");
    fs::write(&there, "mine").unwrap();
    let output = with_pretended(dir.path(), &["record", "-e", "sched_switch"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("trace.dat: is there already"), "{}", said(&output));
    assert_eq!(fs::read_to_string(there).unwrap(), "mine");
}

#[test]
fn commands_that_read_files_stay_at_the_desk() {
    let Some(board) = Board::start(&[]) else { return };
    let output = board.latlab(&["report", "runs/x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("report reads files of this machine"), "{}", said(&output));
}

fn uid() -> String {
    printed(&succeed(Command::new("id").arg("-u"))).trim().to_owned()
}
