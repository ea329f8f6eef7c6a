//! `latlab wakeup --by`: what wakes other than a clock.

use crate::common::{LATLAB, command, is_root, latlab, real_time, skip, text};
use crate::wakeup::{ordinary, refused, run_in};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn a_task_of_a_real_time_core_is_measured_by_its_program() {
    let dir = tempfile::tempdir().unwrap();
    // What Xenomai's latency prints and writes, in the length that the option asks for.
    let script = "#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -g) file=$2 ;; -t) mode=$2 ;; -T) time=$2 ;; -i) irq=1 ;; esac; shift; done
trap 'write; exit 0' INT
write() {
    printf '# 00:00:01 (periodic user-mode task, 500 us period, priority 90)\n' > \"$file\"
    printf '# ----lat min|----lat avg|----lat max|-overrun|---msw|\n' >> \"$file\"
    printf '#      17.252|     47.557|   1767.875|       2|     1|\n' >> \"$file\"
    printf '17 1\n17.5 3\n19.5 41\n1767.5 2\n1768 1\n' >> \"$file\"
}
[ \"$mode\" != 2 ] || { echo 'not allowed over Mercury' >&2; exit 1; }
echo 'RTD|     17.252|     51.943|   1767.875|       2|     0|     17.252|   1767.875'
sleep \"${time:-100}\" & wait $!
write
";
    let program = dir.path().join("latency");
    std::fs::write(&program, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let core = ["wakeup", "--core", "cobalt", "--core-program", "./latency"];
    let of = |more: &[&str]| latlab(dir.path(), &[&core, more].concat());
    let out = of(&["-D", "1", "-i", "500", "-p", "90", "--out", "r"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (run, result) = run_in(dir.path());
    let t = &result.threads[0];
    assert_eq!((t.wakeups, t.missed_periods, t.latency.max), (43, 2, 1_767_875));
    assert!(result.complete && run.parts[0].results.len() == 1, "{result:?}");
    let said = text(&out.stdout);
    for words in ["2 missed periods", "worst 1.77 ms", "of 43 wake-ups"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // A signal ends the program, whose figures are kept.
    let dir2 = dir.path().join("2");
    std::fs::create_dir(&dir2).unwrap();
    let stopped = ["--core-program", "../latency", "--out", "r"];
    let mut child = command(&dir2, &[&["wakeup", "--core", "cobalt"], &stopped[..]].concat());
    let mut child = child.stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(800));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(run_in(&dir2).1.threads[0].wakeups, 43);
    refused(&of(&["--level", "irq", "-D", "1"]), &["exit status: 1", "not allowed over Mercury"]);
    refused(&of(&["-b", "100"]), &["-b with --core cobalt"]);
    refused(&of(&["--level", "irq,user"]), &["needs a duration"]);
    let absent = latlab(dir.path(), &["wakeup", "--core", "evl"]);
    refused(&absent, &["--core evl: no program `latmus`", "--core-program"]);
    refused(&latlab(dir.path(), &["why", "--core", "evl"]), &["latlab wakeup --core evl"]);
}

#[test]
fn mechanisms_are_rows_of_one_table_and_records_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let out =
        ordinary(dir.path(), &["--by", "timerfd,pipe,futex", "-l", "30", "-i", "500", "-a", "0"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let stdout = text(&out.stdout);
    for row in ["timerfd ", "pipe, same CPU", "futex, same CPU"] {
        assert!(stdout.contains(row), "{row}: {stdout}");
    }
    let (run, result) = run_in(dir.path());
    assert!(result.threads.iter().all(|t| t.wakeups == 30));
    let names: Vec<&str> = run.parts[0].results.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["wakeup.by.timerfd", "wakeup.by.pipe", "wakeup.by.futex"]);
    assert!(run.parts[0].results.iter().all(|r| r.histogram.as_ref().unwrap().count == 30));

    let wrong = ordinary(dir.path(), &["--by", "pipes"]);
    assert!(text(&wrong.stderr).contains("'pipes' is no mechanism: clock_nanosleep, "));
    refused(
        &ordinary(dir.path(), &["--by", "pipe", "--samples", "s"]),
        &["--samples with --by pipe: ", "hint: "],
    );
    refused(
        &latlab(dir.path(), &["why", "--by", "pipe,futex"]),
        &["--by pipe,futex: ", "one mechanism", "hint: --by pipe; "],
    );
}

/// A UDP echo on 127.0.0.1 that does not answer each `lost`th datagram: its address.
fn echo(lost: usize) -> String {
    let server = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let address = server.local_addr().unwrap().to_string();
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        for number in 1.. {
            let Ok((length, from)) = server.recv_from(&mut buffer) else { return };
            if number % lost != 0 {
                let _ = server.send_to(&buffer[..length], from);
            }
        }
    });
    address
}

#[test]
fn the_reply_of_a_udp_echo_wakes_and_lost_replies_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let by = format!("udp:{}", echo(15));
    let args = ["--by", &by, "-l", "30", "-i", "2000", "-a", "0"];
    let out = ordinary(dir.path(), &args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (run, result) = run_in(dir.path());
    let thread = &result.threads[0];
    assert_eq!(thread.wakeups, 30);
    let stamped = thread.since_stamp.as_ref().unwrap();
    assert_eq!(stamped.count, 30);
    // The part that follows the receipt is shorter than the round trip.
    assert!(stamped.min < thread.latency.min && stamped.max < thread.latency.max);
    let names: Vec<&str> = run.parts[0].results.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["wakeup.by.udp-host", "wakeup.by.udp-host.stamp"]);
    let lost = result.notes.iter().find(|n| n.id() == Some("wakeup.replies-lost"));
    assert!(lost.is_some(), "{:?}", result.notes);
    let stdout = text(&out.stdout);
    assert!(stdout.contains("without a reply within 250 ms"), "{stdout}");
    assert!(stdout.contains("from the kernel's time stamp to the return"), "{stdout}");

    // An echo that falls silent ends the row; what was measured before is kept.
    let by = format!("udp:{}", echo_until(20));
    let silent = tempfile::tempdir().unwrap();
    let out = ordinary(silent.path(), &["--by", &by, "-l", "1000", "-i", "2000", "-a", "0"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (_, result) = run_in(silent.path());
    assert!((1..20).contains(&result.threads[0].wakeups), "{}", result.threads[0].wakeups);
    assert!(result.notes.iter().any(|n| n.id() == Some("wakeup.mechanism-lost")));

    let nobody = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let by = format!("udp:{}", nobody.local_addr().unwrap());
    let empty = tempfile::tempdir().unwrap();
    refused(
        &ordinary(empty.path(), &["--by", &by, "-l", "5"]),
        &["no reply from 127.0.0.1:", "bench --serve", "hint: "],
    );
    refused(
        &ordinary(empty.path(), &["--by", "udp:127.9.8.7", "-l", "5"]),
        &["--by udp:127.9.8.7: ", "hint: "],
    );
    for chip in ["gpio:gpiochip77:0:1", "gpio:null:0:1"] {
        refused(
            &ordinary(empty.path(), &["--by", chip, "-l", "5"]),
            &["--by gpio: ", "chip", "hint: "],
        );
    }
}

/// A UDP echo that answers so many datagrams.
fn echo_until(last: usize) -> String {
    let server = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let address = server.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        for _ in 0..last {
            let Ok((length, from)) = server.recv_from(&mut buffer) else { return };
            let _ = server.send_to(&buffer[..length], from);
        }
        // Still bound, so that nothing is refused.
        std::thread::sleep(Duration::from_secs(60));
    });
    address
}

/// The server of `latlab bench`, from a network namespace of its own over a pair of virtual Ethernet devices.
#[test]
fn a_server_of_latlab_in_another_network_namespace_wakes() {
    let name = format!("latlab{}", std::process::id());
    let (outer, inner) = (format!("lo{}", std::process::id()), format!("li{}", std::process::id()));
    let ip = |words: &str| {
        let run = Command::new("ip").args(words.split(' ')).output();
        run.is_ok_and(|out| out.status.success())
    };
    if !is_root() || !ip(&format!("netns add {name}")) {
        return skip("a network namespace needs root and ip");
    }
    let made = ip(&format!("link add {outer} type veth peer name {inner} netns {name}"))
        && ip(&format!("addr add 198.18.7.1/30 dev {outer}"))
        && ip(&format!("link set {outer} up"))
        && ip(&format!("-n {name} addr add 198.18.7.2/30 dev {inner}"))
        && ip(&format!("-n {name} link set {inner} up"));
    let serve = ["netns", "exec", &name, LATLAB, "bench", "--serve", "198.18.7.2", "-D", "60"];
    let server = made.then(|| {
        let mut server = Command::new("ip").args(serve).stdout(Stdio::null()).spawn().unwrap();
        let listens = || std::net::TcpStream::connect("198.18.7.2:27380").is_ok();
        let up = (0..200).any(|_| {
            listens() || {
                std::thread::sleep(Duration::from_millis(50));
                false
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let out = ordinary(dir.path(), &["--by", "udp:198.18.7.2", "-l", "50", "-a", "0"]);
        let _ = server.kill();
        let _ = server.wait();
        (up, dir, out)
    });
    ip(&format!("netns del {name}"));
    let Some((up, dir, out)) = server else { return skip("no veth devices here") };
    assert!(up && out.status.success(), "{}", text(&out.stderr));
    let (run, result) = run_in(dir.path());
    assert_eq!(result.threads[0].wakeups, 50);
    assert_eq!(run.parts[0].results[0].params["host"].to_string(), "198.18.7.2");
}

#[test]
fn unbound_threads_compute_after_each_wake_up() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["-t", "2", "--unbound", "--compute", "300", "-i", "2000", "-l", "50"];
    let out = ordinary(dir.path(), &more);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (run, result) = run_in(dir.path());
    for thread in &result.threads {
        assert_eq!((thread.cpu, thread.wakeups), (None, 50));
        assert!(thread.cpu_time_ns > 50 * 300_000, "{} ns", thread.cpu_time_ns);
    }
    assert_eq!(run.config["measure"]["compute_ns"], 300_000);
    let too_much = ["-t", "1", "--compute", "1500", "-i", "2000", "-l", "5"];
    let empty = tempfile::tempdir().unwrap();
    refused(&ordinary(empty.path(), &too_much), &["which is 7", "hint: "]);
    let args = ["wakeup", "--policy", "deadline", "--compute", "5"];
    refused(&latlab(dir.path(), &args), &["--compute with --policy deadline: ", "hint: "]);
    let args = ["wakeup", "--by", "pipe,futex", "--unbound"];
    refused(&latlab(dir.path(), &args), &["--unbound with --by pipe,futex: ", "hint: "]);
}

/// An inversion that the kernel does not resolve is a latency of 20 ms in each wake-up.
#[test]
fn the_kernel_resolves_priority_inversions() {
    let dir = tempfile::tempdir().unwrap();
    refused(
        &ordinary(dir.path(), &["--by", "pi-inversion", "-l", "5"]),
        &["--by pi-inversion: ", "a priority of 3 or more", "hint: "],
    );
    if !is_root() {
        return skip("a real-time policy needs root");
    }
    let _alone = real_time();
    let args = ["wakeup", "-q", "--by", "pi-inversion,io_uring", "-p", "3", "-l", "100"];
    let out = latlab(dir.path(), &[&args[..], &["--out", "r"]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (run, result) = run_in(dir.path());
    let inversions = result.threads.iter().zip(&run.parts[0].results);
    let inversions = inversions.filter(|(_, r)| r.name == "wakeup.by.pi-inversion");
    for (thread, record) in inversions.clone() {
        assert_eq!(thread.wakeups, 100);
        let median = record.histogram.as_ref().unwrap().quantile(0.5).unwrap();
        assert!(median < 10_000_000, "{median} ns: the middle thread ends after 20 ms");
    }
    assert!(inversions.count() > 0);
}
