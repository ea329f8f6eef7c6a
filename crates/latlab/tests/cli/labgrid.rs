//! `--on labgrid:PLACE` with a real coordinator and exporter; the board is an sshd on the loopback interface.

use crate::common::{printed, said, script, signal, skip, wait_for};
use crate::image::small_image;
use crate::ssh::Board;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A laboratory with one place, `bone`.
struct Laboratory {
    board: Board,
    /// Where labgrid's programs are.
    programs: PathBuf,
    coordinator: String,
    daemons: Vec<Child>,
    /// What the power switch was asked for.
    switched: Arc<Mutex<Vec<String>>>,
}

impl Drop for Laboratory {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A power switch that is asked over HTTP; it takes note.
fn power_switch() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            notes.lock().unwrap().push(line.split(' ').nth(1).unwrap_or_default().to_owned());
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1");
        }
    });
    (port, asked)
}

impl Laboratory {
    fn start() -> Option<Self> {
        Self::start_with(&[], "")
    }

    /// `environment` of sshd, and more of the exporter's resources for the place `bone`.
    fn start_with(environment: &[(&str, &str)], resources: &str) -> Option<Self> {
        let python = std::env::var_os("LATLAB_PYTHON").map(PathBuf::from);
        let programs = python.and_then(|p| p.parent()?.canonicalize().ok());
        let Some(programs) = programs.filter(|p| p.join("labgrid-coordinator").exists()) else {
            skip("LATLAB_PYTHON names no environment with labgrid");
            return None;
        };
        let board = Board::start(environment)?;
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let (power, switched) = power_switch();
        let folder = board.at("coordinator");
        fs::create_dir(&folder).unwrap();
        let user = printed(&Command::new("id").arg("-un").output().unwrap());
        // The host's ssh knows the board by a name of its configuration.
        let exporter = format!(
            "bone:\n  NetworkService: {{address: testboard, port: {}, username: {}}}\n  \
             NetworkPowerPort: {{model: simplerest, host: 'http://127.0.0.1:{power}/{{index}}/{{value}}', index: '7'}}\n{resources}\
             cable:\n  NetworkService: {{address: testboard, port: {}, username: {}}}\n",
            board.port,
            user.trim(),
            board.port,
            user.trim(),
        );
        fs::write(folder.join("exporter.yaml"), exporter).unwrap();
        let coordinator = format!("127.0.0.1:{port}");
        let mut laboratory = Self { board, programs, coordinator, daemons: Vec::new(), switched };
        let listen = laboratory.coordinator.clone();
        laboratory.daemon("labgrid-coordinator", &["-l", &listen]);
        wait_for("the coordinator", Duration::from_millis(100), || {
            std::net::TcpStream::connect(&listen).ok()
        });
        laboratory.daemon("labgrid-exporter", &["-c", &listen, "-n", "rack", "exporter.yaml"]);
        for place in ["bone", "cable"] {
            assert!(laboratory.client(place, &["create"]).status.success());
            let pattern = format!("rack/{place}/*");
            assert!(laboratory.client(place, &["add-match", &pattern]).status.success());
        }
        wait_for("the exporter", Duration::from_millis(300), || {
            let known = printed(&laboratory.client("bone", &["resources"]));
            (known.contains("rack/bone") && known.contains("rack/cable")).then_some(())
        });
        Some(laboratory)
    }

    fn daemon(&mut self, program: &str, words: &[&str]) {
        let folder = self.board.at("coordinator");
        let log = File::create(folder.join(format!("{program}.log"))).unwrap();
        let mut command = Command::new(self.programs.join(program));
        command.args(words).current_dir(folder).stdin(Stdio::null());
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.daemons.push(child);
    }

    fn client(&self, place: &str, words: &[&str]) -> Output {
        let mut command = Command::new(self.programs.join("labgrid-client"));
        command.args(["-p", place]).args(words).env("LG_COORDINATOR", &self.coordinator);
        command.output().unwrap()
    }

    /// Who has a place.
    fn holder(&self, place: &str) -> String {
        let shown = printed(&self.client(place, &["show"]));
        let line = shown.lines().find_map(|line| line.trim().strip_prefix("acquired: "));
        line.unwrap_or_else(|| panic!("{shown}")).to_owned()
    }

    fn latlab(&self, words: &[&str]) -> Command {
        let mut command = self.board.host(words);
        let path =
            format!("{}:{}:/usr/bin:/bin", self.board.at("bin").display(), self.programs.display());
        command.env("LG_COORDINATOR", &self.coordinator).env("PATH", path);
        command
    }
}

/// A place is acquired for the command alone; one that somebody else has is 75, for a later try.
#[test]
fn a_place_is_acquired_for_the_command() {
    let Some(lab) = Laboratory::start() else { return };
    let wakeup = ["wakeup", "-q", "-l", "20", "--policy", "other"];
    let on = |target: &str, out: &str| {
        lab.latlab(&[&["--on", target], &wakeup[..], &["--out", out]].concat()).output().unwrap()
    };
    let done = on("labgrid:bone", "a");
    assert!(done.status.success(), "{}", said(&done));
    assert!(said(&done).contains("labgrid:bone: acquired"), "{}", said(&done));
    assert!(lab.board.at("host/a/run.json").exists());
    assert_eq!(lab.holder("bone"), "None");
    assert!(lab.switched.lock().unwrap().is_empty());

    let cycled = on("labgrid:bone,power=cycle,timeout=20", "b");
    assert!(cycled.status.success(), "{}", said(&cycled));
    assert_eq!(*lab.switched.lock().unwrap(), ["/7/0", "/7/1"]);
    let no_switch = on("labgrid:cable,power=cycle", "c");
    assert_eq!(no_switch.status.code(), Some(75), "{}", said(&no_switch));
    assert!(said(&no_switch).contains("labgrid:cable: power cycle: "), "{}", said(&no_switch));
    assert_eq!((lab.holder("bone").as_str(), lab.holder("cable").as_str()), ("None", "None"));

    // Acquired by hand: it is used, and stays the user's.
    assert!(lab.client("bone", &["acquire"]).status.success());
    let ours = on("labgrid:bone", "d");
    assert!(ours.status.success(), "{}", said(&ours));
    assert_ne!(lab.holder("bone"), "None");
    let somebody = lab
        .latlab(&[&["--on", "labgrid:bone"], &wakeup[..], &["--out", "e"]].concat())
        .env("LG_USERNAME", "other")
        .env("LG_HOSTNAME", "elsewhere")
        .output()
        .unwrap();
    assert_eq!(somebody.status.code(), Some(75), "{}", said(&somebody));
    assert!(said(&somebody).contains("already acquired by"), "{}", said(&somebody));
    let unknown = on("labgrid:nosuch", "f");
    assert_eq!(unknown.status.code(), Some(1), "{}", said(&unknown));
    assert!(said(&unknown).contains("hint: labgrid-client places"), "{}", said(&unknown));
}

/// A signal ends the measurement, whose run comes back, and releases the place; a campaign measures on a place.
#[test]
fn a_place_is_released_after_a_signal_and_a_campaign() {
    let Some(lab) = Laboratory::start() else { return };
    let long = [
        "--on",
        "labgrid:bone",
        "wakeup",
        "-q",
        "-D",
        "600",
        "--policy",
        "other",
        "--samples",
        "s",
        "--out",
        "r",
    ];
    let child = lab.latlab(&long).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the measurement on the board", Duration::from_millis(200), || {
        let list = Command::new("pgrep")
            .args(["-f", "wakeup -q -D 600 --policy other --samples"])
            .output()
            .unwrap();
        (printed(&list).lines().count() > 1).then_some(())
    });
    assert_ne!(lab.holder("bone"), "None");
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(lab.board.at("host/r/run.json").exists(), "{}", said(&output));
    assert_eq!(lab.holder("bone"), "None");

    let campaign = "name = 'c'\nrepetitions = 2\n[[board]]\nname = 'bone'\ntarget = 'labgrid:bone'\n\
                    [[experiment]]\nname = 'w'\ncommand = ['wakeup', '-q', '-l', '20', '--policy', 'other']\n";
    fs::write(lab.board.at("host/c.toml"), campaign).unwrap();
    let done = lab.latlab(&["fleet", "submit", "c.toml", "--dir", "c"]).output().unwrap();
    assert!(done.status.success(), "{}{}", printed(&done), said(&done));
    assert!(printed(&done).contains("2 finished, 0 failed, 0 waiting"), "{}", printed(&done));
    assert_eq!(lab.holder("bone"), "None");
}

/// A loop device as card; it goes with its file.
struct Card {
    device: String,
    file: PathBuf,
}

impl Card {
    fn new(dir: &Path, bytes: u64) -> Option<Self> {
        let file = dir.join("card");
        File::create(&file).unwrap().set_len(bytes).unwrap();
        let made = Command::new("losetup").args(["-f", "--show"]).arg(&file).output();
        let Some(made) = made.ok().filter(|o| o.status.success()) else {
            skip("losetup cannot make a loop device here");
            return None;
        };
        Some(Self { device: printed(&made).trim().to_owned(), file })
    }

    fn has(&self, image: &Path) -> bool {
        let image = fs::read(image).unwrap();
        fs::read(&self.file).unwrap()[..image.len()] == image[..]
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

/// The card of a place is written with the board off, through its multiplexer, and read back; in a campaign once for
/// each image. The multiplexer is a program that takes note, the card a loop device.
#[test]
fn a_card_is_written_with_the_board_off() {
    let t = tempfile::tempdir().unwrap();
    let Some(card) = Card::new(t.path(), 16 << 20) else { return };
    let log = t.path().join("mux.log");
    script(
        &t.path().join("usbsdmux"),
        &format!(
            "#!/bin/sh\necho \"$@ $(od -An -tu1 -j {} -N1 {})\" >>{}\n",
            5 << 20,
            card.device,
            log.display()
        ),
    );
    let path = format!("{}:/usr/sbin:/usr/bin:/bin", t.path().display());
    let mux = format!(
        "  NetworkUSBSDMuxDevice: {{host: testboard, busnum: 1, devnum: 1, path: {}, vendor_id: 1060, model_id: 16449, control_path: /dev/sg9}}\n",
        card.device
    );
    let Some(lab) = Laboratory::start_with(&[("PATH", &path)], &mux) else { return };
    let host = lab.board.at("host");
    small_image(&host);
    let write = |words: &[&str]| {
        let all = [&["image", "write", "labgrid:bone,timeout=20", "sd.img"], words].concat();
        lab.latlab(&all).output().unwrap()
    };
    let unasked = write(&[]);
    assert!(said(&unasked).contains("no terminal to confirm"), "{}", said(&unasked));
    let done = write(&["--yes"]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(said(&done).contains("sd.img written to labgrid:bone and verified"), "{}", said(&done));
    assert!(card.has(&host.join("sd.img")));
    assert_eq!(*lab.switched.lock().unwrap(), ["/7/0", "/7/1"]);
    // The card is at the host while it is written: its byte 5 MiB is 0 before and 77 after.
    let switched = fs::read_to_string(&log).unwrap();
    let switched: Vec<Vec<&str>> =
        switched.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(switched, [["/dev/sg9", "host", "0"], ["/dev/sg9", "dut", "77"]]);
    assert_eq!(lab.holder("bone"), "None");
    let no_card =
        lab.latlab(&["image", "write", "labgrid:cable", "sd.img", "--yes"]).output().unwrap();
    assert_eq!(no_card.status.code(), Some(1), "{}", said(&no_card));
    assert!(said(&no_card).contains("no card that its host can write"), "{}", said(&no_card));

    // In a campaign: before the first experiment, and again when the image is another one.
    let campaign = |repetitions: u32| {
        let text = format!(
            "name = 'c'\nrepetitions = {repetitions}\n[[board]]\nname = 'bone'\ntarget = 'labgrid:bone'\nimage = 'sd.img'\n\
             [[experiment]]\nname = 'w'\ncommand = ['wakeup', '-q', '-l', '20', '--policy', 'other']\n"
        );
        fs::write(host.join("c.toml"), text).unwrap();
        let done = lab.latlab(&["fleet", "submit", "c.toml", "--dir", "c"]).output().unwrap();
        assert!(done.status.success(), "{}{}", printed(&done), said(&done));
        fs::read_to_string(&log).unwrap().lines().count()
    };
    assert_eq!(campaign(2), 4);
    assert_eq!(campaign(3), 4, "the image is on the card");
    let mut image = fs::read(host.join("sd.img")).unwrap();
    image[6 << 20] = 78;
    fs::write(host.join("sd.img"), image).unwrap();
    assert_eq!(campaign(4), 6);
    assert!(card.has(&host.join("sd.img")));

    // An image that is too large: the board stays off.
    File::options().write(true).open(host.join("sd.img")).unwrap().set_len(32 << 20).unwrap();
    lab.switched.lock().unwrap().clear();
    let too_large = write(&["--yes"]);
    assert_eq!(too_large.status.code(), Some(75), "{}", said(&too_large));
    assert!(said(&too_large).contains("labgrid:bone: write-image"), "{}", said(&too_large));
    assert_eq!(*lab.switched.lock().unwrap(), ["/7/0"]);
}
