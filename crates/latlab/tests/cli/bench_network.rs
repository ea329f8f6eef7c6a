//! `latlab bench` over a network: the server, what is measured against it, what is said without it, and what it
//! refuses.

use crate::common::{
    LATLAB, children_of, command, is_root, latlab, plain, printed, run_of, said, skip, spawn,
    succeed, text, wait_for,
};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Between two looks for something that comes soon.
const SOON: Duration = Duration::from_millis(5);

/// `latlab bench --serve`, killed in the end, and the address that it named.
pub struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    /// `WRAPPER… latlab bench --serve PLACE`.
    fn start(wrapper: &[&str], place: &str) -> Self {
        let all = [wrapper, &[LATLAB, "bench", "--serve", place]].concat();
        let mut command = Command::new(all[0]);
        command.args(&all[1..]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").and_then(|l| l.split(' ').next());
        Self { address: address.expect(&line).to_owned(), child }
    }

    /// On loopback, at a port that is free.
    pub fn here() -> Self {
        Self::start(&[], "127.0.0.1:0")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Names of the probes that were measured, with what is in each label.
fn labels(run: &latlab_model::run::Run) -> Vec<String> {
    let Some(latlab_model::run::Detail::Bench(detail)) = &run.parts[0].detail else { panic!() };
    assert!(detail.missing.is_empty(), "{:?}", detail.missing);
    let label = |r: &latlab_model::bench::BenchRow| {
        assert!(r.estimate.median > 0.0, "{r:?}");
        latlab_model::bench::label(&r.name, &r.params)
    };
    detail.rows.iter().map(label).collect()
}

#[test]
fn everything_that_goes_over_a_network_is_measured_against_a_server() {
    let server = Server::here();
    let dir = tempfile::tempdir().unwrap();
    let args = ["bench", "--host", &server.address, "-D", "100ms", "--out", "r"];
    let out = latlab(dir.path(), &args);
    assert!(out.status.success(), "{}", said(&out));
    let labels = labels(&run_of(&dir.path().join("r")));
    let names: Vec<&str> = labels.iter().map(|l| l.split(':').next().unwrap()).collect();
    for name in [
        "ipc.tcp",
        "ipc.udp",
        "ipc.tcp-connect",
        "ipc.rpc-udp",
        "ipc.rpc-tcp",
        "ipc.http",
        "bw.tcp",
    ] {
        assert!(names.contains(&name), "{name}: {labels:?}");
    }
    let host = format!("host={}", server.address);
    assert!(labels.iter().all(|l| l.contains(&host) && !l.contains("place=")), "{labels:?}");
}

#[test]
fn sizes_and_single_operations_go_over_the_network_too() {
    let server = Server::here();
    let dir = tempfile::tempdir().unwrap();
    let host = format!("host={}", server.address);
    let probes = [
        format!("ipc.tcp:{host},size=1|1M,class=other"),
        format!("ipc.udp:{host},size=0|60000"),
        format!("ipc.http:{host},size=0|10M"),
    ];
    let probes: Vec<&str> = probes.iter().map(String::as_str).collect();
    let rest = ["-D", "100ms", "--out", "r"];
    let out = latlab(dir.path(), &[&["bench"], &probes[..], &rest].concat());
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(labels(&run_of(&dir.path().join("r"))).len(), 6);
    let out = latlab(dir.path(), &["bench", probes[0], "--each", "50", "--out", "e"]);
    assert!(out.status.success(), "{}", said(&out));
    let counts = |r: &latlab_model::record::Record| r.histogram.as_ref().map(|h| h.count);
    let run = run_of(&dir.path().join("e"));
    assert_eq!(run.parts[0].results.iter().map(counts).collect::<Vec<_>>(), [Some(50), Some(50)]);
    let out = latlab(dir.path(), &["bench", &format!("ipc.http:{host},size=1G"), "-D", "100ms"]);
    assert!(said(&out).contains("0 to 16M"), "{}", said(&out));
}

/// A network namespace with a process that keeps it.
struct Namespace(Child);

impl Namespace {
    fn new() -> Self {
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let mut command = Command::new("unshare");
        let child = command.args(["-n", "sleep", "600"]).stdin(Stdio::null()).spawn().unwrap();
        let path = format!("/proc/{}/ns/net", child.id());
        wait_for("the namespace", SOON, || (std::fs::read_link(&path).ok()? != own).then_some(()));
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn enter(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.pid(), "-n"]).args(words).stdin(Stdio::null());
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_machines_on_a_cable() {
    let can = Command::new("unshare").args(["-n", "ip", "link"]).output();
    if !is_root() || !can.is_ok_and(|o| o.status.success()) {
        skip("root, unshare and ip are needed for two network namespaces");
        return;
    }
    let (there, here) = (Namespace::new(), Namespace::new());
    let pair =
        ["link", "add", "far", "netns", &there.pid(), "type", "veth", "peer", "name", "near"];
    succeed(Command::new("ip").args(pair).args(["netns", &here.pid()]));
    for (side, device, address) in
        [(&there, "far", "10.77.0.1/24"), (&here, "near", "10.77.0.2/24")]
    {
        succeed(&mut side.enter(&["ip", "address", "add", address, "dev", device]));
        succeed(&mut side.enter(&["ip", "link", "set", device, "up"]));
    }
    let server = Server::start(&["nsenter", "-t", &there.pid(), "-n"], "10.77.0.1");
    assert_eq!(server.address, "10.77.0.1:27380");
    let dir = tempfile::tempdir().unwrap();
    let words = [LATLAB, "bench", "--host", "10.77.0.1", "-D", "100ms", "--out", "r"];
    let out = here.enter(&words).current_dir(dir.path()).output().unwrap();
    assert!(out.status.success(), "{}", said(&out));
    assert!(labels(&run_of(&dir.path().join("r"))).len() >= 9);
    // Datagrams that are lost are sent again, and what comes late is no reply to the next one.
    let netem = ["tc", "qdisc", "add", "dev", "near", "root", "netem", "loss", "1%"];
    if here.enter(&netem).output().is_ok_and(|o| o.status.success()) {
        let words = [LATLAB, "bench", "ipc.udp:host=10.77.0.1,size=1", "--each", "2000"];
        let out = here.enter(&words).current_dir(dir.path()).output().unwrap();
        assert!(out.status.success(), "{}", said(&out));
        assert!(printed(&out).contains("2000 single operations"), "{}", printed(&out));
    }
    // Without a cable there is no server.
    succeed(&mut here.enter(&["ip", "link", "set", "near", "down"]));
    let out = here.enter(&words).current_dir(dir.path()).output().unwrap();
    assert!(said(&out).contains("no server at 10.77.0.1:27380: "), "{}", said(&out));
}

/// Somebody else at a port, who says this to the first two who come.
fn other_program(says: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 12]);
            let _ = stream.write_all(says);
        }
    });
    address
}

#[test]
fn without_a_server_one_sentence_says_why_and_nothing_is_begun() {
    let dir = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (host, words) in [
        (closed.clone(), vec![format!("no server at {closed}: "), format!("--serve {closed}")]),
        (other_program(b"SSH-2.0-OpenSSH_10.0\r\n"), vec!["is no latlab bench --serve".into()]),
        (other_program(b"HTTP"), vec!["is no latlab bench --serve".into()]),
        (other_program(b"latlab\x07\0\0\0\0\0"), vec!["has version 7 of the protocol".into()]),
        (other_program(b"latlab\x01\x02\0\0\0\0"), vec!["as many sessions as it takes".into()]),
        ("no.such.host.invalid".into(), vec!["host=no.such.host.invalid: no address".into()]),
        ("board:x".into(), vec!["expected NAME[:PORT]".into()]),
    ] {
        let out = latlab(dir.path(), &["bench", "lat_tcp", "--host", &host, "-D", "100ms"]);
        assert_eq!(out.status.code(), Some(1), "{host}: {}", said(&out));
        for words in words {
            assert!(said(&out).contains(&words), "{host}: {words}: {}", said(&out));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no run is begun");
    }
}

#[test]
fn what_was_measured_before_the_server_was_lost_is_kept() {
    let server = Server::here();
    let dir = tempfile::tempdir().unwrap();
    let probe = format!("ipc.tcp:host={},size=1", server.address);
    let args = ["bench", &probe, "-D", "60s", "--precision", "0.01", "--out", "r"];
    let client = spawn(dir.path(), &args);
    let mut seen = std::collections::BTreeSet::new();
    wait_for("three trials", SOON, || {
        seen.extend(children_of(client.id()));
        (seen.len() > 3).then_some(())
    });
    drop(server);
    let out = client.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    let words = probe.replace("ipc.tcp:", "ipc.tcp:class=other,") + ": ended after ";
    assert!(said(&out).contains(&words), "{}", said(&out));
    assert!(said(&out).contains("hint: what was measured before is in the run"), "{}", said(&out));
    assert_eq!(labels(&run_of(&dir.path().join("r"))).len(), 1);

    let server = Server::here();
    let probe = format!("ipc.tcp:host={},size=1", server.address);
    let args = ["bench", &probe, "--each", "100000000", "--out", "e"];
    let client = spawn(dir.path(), &args);
    let slice = wait_for("the trial", SOON, || children_of(client.id()).first().copied());
    // It is at it once it has been scheduled some hundred times.
    wait_for("single operations", SOON, || {
        let status = std::fs::read_to_string(format!("/proc/{slice}/status")).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?;
        (line.trim().parse::<u64>().ok()? > 300).then_some(())
    });
    drop(server);
    let out = client.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("was lost: "), "{}", said(&out));
    let run = run_of(&dir.path().join("e"));
    assert!(run.parts[0].results[0].histogram.as_ref().unwrap().count > 0);
}

#[test]
fn a_server_takes_so_many_sessions_and_ends_at_a_signal() {
    let mut server = Server::here();
    let connect = || {
        let stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    };
    // What is no request ends the session.
    let mut garbage = connect();
    garbage.write_all(&[b'x'; 64]).unwrap();
    assert!(matches!(garbage.read(&mut [0; 16]), Ok(0) | Err(_)));
    for (path, answer) in [
        ("/1000", "HTTP/1.0 200 OK"),
        ("/99999999999", "HTTP/1.0 404"),
        ("/../etc/passwd", "HTTP/1.0 404"),
    ] {
        let mut stream = connect();
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        assert!(text(&all).starts_with(answer), "{path}: {}", text(&all));
    }
    // A size that is no message.
    let mut large = connect();
    large.write_all(b"latlab\x01\x01\x7f\xff\xff\xff").unwrap();
    let mut reply = [0; 12];
    large.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"latlab\x01\x01\0\0\0\0", "refused");
    // Sixteen that say nothing, and one more.
    let mut silent: Vec<TcpStream> = (0..16).map(|_| connect()).collect();
    let refused = |_| {
        let mut more = connect();
        let _ = more.read_exact(&mut reply);
        (&reply == b"latlab\x01\x02\0\0\0\0").then_some(())
    };
    let mut refused = refused;
    wait_for("a refusal", SOON, || refused(()));
    let dir = tempfile::tempdir().unwrap();
    wait_for("a benchmark that is refused", SOON, || {
        let out = latlab(dir.path(), &["bench", "lat_tcp", "--host", &server.address]);
        let is_refused = said(&out).contains("as many sessions as it takes");
        // One of them was refused while an earlier session ended.
        if !is_refused {
            silent.push(connect());
        }
        is_refused.then_some(())
    });
    crate::common::signal(&server.child, Signal::INT);
    let status = server.child.wait().unwrap();
    assert!(status.success(), "{status}");
    drop(silent);
}

#[test]
fn a_server_listens_where_it_says_and_for_as_long_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = plain(dir.path(), &["bench", "--serve", "127.0.0.1:0", "-D", "200ms"]);
    let out = server.output().unwrap();
    assert!(out.status.success(), "{}", said(&out));
    assert!(printed(&out).starts_with("listening on 127.0.0.1:"), "{}", printed(&out));
    assert!(printed(&out).ends_with("\n0 sessions\n"), "{}", printed(&out));
    for (args, words) in [
        (&["--serve", "board"][..], "expected an address of this machine"),
        (&["--serve", "192.0.2.7"], "--serve 192.0.2.7:27380: "),
        (&["ipc.tcp", "--serve", "127.0.0.1:0"], "cannot be used with"),
    ] {
        let out = command(dir.path(), &[&["bench"], args].concat()).output().unwrap();
        assert!(!out.status.success() && said(&out).contains(words), "{args:?}: {}", said(&out));
    }
}

/// What users of lmbench type.
#[test]
fn a_host_after_the_name_of_a_program_and_its_options_are_answered() {
    let here = Path::new("/");
    for (args, words) in [
        (&["lat_tcp", "board"][..], "hint: a host is --host board"),
        (&["lat_tcp", "-s"], "the server is latlab bench --serve"),
        (&["lat_udp", "-S", "board"], "Ctrl-C ends latlab bench --serve"),
        (&["bw_tcp", "-m", "64k"], "the size of a message is NAME:size=4K"),
        (&["lat_pipe", "--host", "board"], "--host: no probe of \"lat_pipe\" goes over a network"),
        (&["ipc.tcp:place=same,host=board"], "place and host exclude each other"),
    ] {
        let out = command(here, &[&["bench"], args].concat()).output().unwrap();
        assert!(!out.status.success() && said(&out).contains(words), "{args:?}: {}", said(&out));
    }
}
