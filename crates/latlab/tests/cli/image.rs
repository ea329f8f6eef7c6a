//! `latlab image`: what is refused, and (ignored by default) a BeagleBone image from its build to a survey over SSH.
//!
//! The ignored tests need QEMU, Debian's archive the first time, and the board build;
//! `make test` prepares them and runs them one after the other (scripts/test.d/75-image.sh).
#![expect(clippy::print_stderr, reason = "a boot says how long it took")]

mod boot;
mod network;

use crate::common::{LATLAB, SmallDisk, keygen, plain, printed, said, skip};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

fn latlab(dir: &Path, args: &[&str]) -> Command {
    let mut command = plain(dir, args);
    command.env_remove("SOURCE_DATE_EPOCH");
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    latlab(dir, args).output().unwrap()
}

fn refused(output: &Output, words: &[&str]) {
    assert_eq!(output.status.code(), Some(1), "{}", said(output));
    let text = said(output);
    // A file that is not there explains itself.
    assert!(text.contains("hint: ") || text.contains("No such file"), "{text}");
    for word in words {
        assert!(text.contains(word), "{word} in {text}");
    }
}

/// A pair of keys in a folder: `id` and `id.pub`.
fn keys(dir: &Path) {
    keygen(&dir.join("id"));
}

#[test]
fn boards_and_plans_are_shown_without_building_anything() {
    let dir = tempfile::tempdir().unwrap();
    keys(dir.path());
    let boards = run(dir.path(), &["image", "boards", "--json"]);
    let boards: serde_json::Value = serde_json::from_slice(&boards.stdout).unwrap();
    assert_eq!(boards[0]["name"], "beaglebone-black");
    let plan =
        run(dir.path(), &["image", "--board", "beaglebone-black", "--ssh-key", "id.pub", "--plan"]);
    assert!(plan.status.success(), "{}", said(&plan));
    for line in ["partition 1, FAT32, active", "am335x_evm/MLO of u-boot-omap", "openssh-server"] {
        assert!(printed(&plan).contains(line), "{line} in {}", printed(&plan));
    }
    // A board's file that was printed is a board.
    let file = run(dir.path(), &["image", "--board", "beaglebone-black", "--show"]).stdout;
    fs::write(dir.path().join("mine.toml"), file).unwrap();
    let args = ["image", "--json", "--board", "mine.toml", "--ssh-key", "id.pub", "--plan"];
    let plan: serde_json::Value = serde_json::from_slice(&run(dir.path(), &args).stdout).unwrap();
    assert_eq!(plan["boot"]["files"][0]["to"], "MLO");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}

/// What is built from source is in the plan, as are loaders outside of any partition.
#[test]
fn a_plan_has_what_is_built_from_source() {
    let dir = tempfile::tempdir().unwrap();
    keys(dir.path());
    let plan = |board: &str| {
        let args = ["image", "--board", board, "--build-kernel", "no-smp+no-power-saving"];
        let args = [&args[..], &["--build-u-boot", "--plan", "--ssh-key", "id.pub"]].concat();
        printed(&run(dir.path(), &args))
    };
    let bone = plan("beaglebone-black");
    assert!(bone.contains("Debian's source of U-Boot (am335x_evm_defconfig)"), "{bone}");
    assert!(bone.contains("Debian's source for no-smp+no-power-saving"), "{bone}");
    assert!(!bone.contains("u-boot-omap"), "{bone}");
    let orange = plan("orange-pi-plus");
    assert!(orange.contains("offset 8192: "), "{orange}");
}

#[test]
fn what_cannot_be_built_is_said_before_anything_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    keys(dir);
    let build = |args: &[&str]| {
        let all = [&["image", "--board", "beaglebone-black"], args].concat();
        latlab(dir, &all).env("HOME", dir).output().unwrap()
    };
    refused(&run(dir, &["image", "--board", "beagle"]), &["beagle", "there is no such board"]);
    refused(&run(dir, &["image", "-o", "x.img"]), &["--board is missing", "latlab image boards"]);
    refused(&build(&[]), &["no public key in", "--ssh-key"]);
    refused(&build(&["--ssh-key", "id"]), &["id: this is a private key", "id.pub"]);
    refused(&build(&["--ssh-key", "none.pub"]), &["none.pub: No such file"]);
    let key = ["--ssh-key", "id.pub"];
    let with = |more: &[&str]| build(&[&key, more].concat());
    refused(&with(&["--kernel", "fast"]), &["--kernel fast: not a kernel"]);
    refused(&with(&["--hostname", "a b"]), &["not a host name"]);
    refused(
        &with(&["--build-kernel", "fast"]),
        &["fast: no purpose of a kernel", "tracers, latency"],
    );
    let pine = ["image", "--board", "pine64", "--ssh-key", "id.pub", "--build-u-boot"];
    refused(&run(dir, &pine), &["does not say how U-Boot is built", "leave out --build-u-boot"]);
    refused(&with(&["--nfs-root", "server:/x"]), &["server:/x: the server is no IPv4 address"]);
    refused(&with(&["--package", "Bad_Name"]), &["--package \"Bad_Name\""]);
    let all = ["image", "--board", "beaglebone-black", "--ssh-key", "id.pub"];
    let epoch = latlab(dir, &all).env("SOURCE_DATE_EPOCH", "yesterday").output().unwrap();
    refused(&epoch, &["SOURCE_DATE_EPOCH=yesterday: not a time"]);
    assert!(!dir.join("sd.img").exists());
}

/// Stands for the board build where nothing gets as far as running it: a header is enough to be told.
fn board_build(dir: &Path) -> PathBuf {
    let mut elf = b"\x7fELF\x01\x01\x01".to_vec();
    elf.resize(18, 0);
    elf.extend([40, 0]);
    elf.resize(64, 0);
    fs::create_dir_all(dir.join("boards")).unwrap();
    fs::write(dir.join("boards/latlab-armv7"), elf).unwrap();
    dir.join("boards")
}

#[test]
fn without_a_network_and_without_a_cache_it_says_so_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    keys(dir.path());
    let build = |args: &[&str]| {
        let all = [&["image", "--board", "beaglebone-black", "--ssh-key", "id.pub"], args].concat();
        let mut command = latlab(dir.path(), &all);
        command.env("XDG_CACHE_HOME", dir.path().join("cache"));
        command.env("LATLAB_BOARDS", board_build(dir.path()));
        // Nobody listens there.
        command.env("http_proxy", "http://127.0.0.1:9").env("https_proxy", "http://127.0.0.1:9");
        command.output().unwrap()
    };
    if Command::new("apt-get").arg("--version").output().is_err() {
        return skip("there is no apt here");
    }
    let update = "apt-get update did not read every package list for armhf";
    refused(&build(&[]), &[update, "the cache has none", "check the network"]);
    refused(&build(&["--offline"]), &["it is not in the cache, and --offline was given"]);
    refused(&build(&["-o", "no/folder/sd.img"]), &["no/folder/"]);
    let mut left: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["boards", "cache", "id", "id.pub"]);
    // With lists of an earlier time: their age is told, and they are not taken unasked.
    let lists = dir.path().join("cache/latlab/apt/armhf/state/lists");
    let packages = File::create(lists.join("deb_dists_x_main_binary-armhf_Packages")).unwrap();
    let then = std::time::SystemTime::now() - Duration::from_secs(40 * 24 * 3600);
    packages.set_times(fs::FileTimes::new().set_modified(then)).unwrap();
    let old = "those in the cache are 40 days old";
    refused(&build(&[]), &[update, old, "latlab image --offline"]);
}

/// The block device of the root file system, if it is one.
fn system_disk() -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|l| l.split(' ').nth(4) == Some("/"))?;
    let source = line.split(" - ").nth(1)?.split(' ').nth(1)?.to_owned();
    (source.starts_with("/dev/") && Path::new(&source).exists()).then_some(source)
}

pub fn small_image(dir: &Path) {
    // A table with one FAT and one Linux partition, as sfdisk makes it, and some bytes behind it.
    let mut image = vec![0u8; 8 << 20];
    image[446..462].copy_from_slice(&[0x80, 32, 33, 0, 12, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0]);
    image[462..478].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 16, 0, 0, 0, 48, 0, 0]);
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    image[5 << 20] = 77;
    fs::write(dir.join("sd.img"), image).unwrap();
}

#[test]
fn the_disk_of_this_system_is_never_written() {
    let dir = tempfile::tempdir().unwrap();
    small_image(dir.path());
    refused(&run(dir.path(), &["image", "write", "/dev/null"]), &["/dev/null: this is not a disk"]);
    // A file with the name of a disk.
    for disk in fs::read_dir("/sys/class/block").into_iter().flatten().flatten().take(1) {
        let named = dir.path().join(disk.file_name());
        fs::write(&named, vec![0; 16 << 20]).unwrap();
        let output =
            run(dir.path(), &["image", "write", named.to_str().unwrap(), "--yes", "--fixed"]);
        refused(&output, &["this is not a disk"]);
        assert!(fs::read(&named).unwrap().iter().all(|b| *b == 0));
    }
    refused(&run(dir.path(), &["image", "write", "/dev/no-such"]), &["/dev/no-such: No such file"]);
    let Some(disk) = system_disk() else {
        return skip("/ is not on a disk of its own: the system's disk is not tried");
    };
    for more in [&["--yes"][..], &["--yes", "--fixed"]] {
        let output = run(dir.path(), &[&["image", "write", disk.as_str()], more].concat());
        assert_eq!(output.status.code(), Some(1));
        let words = ["the disk of this system", "this is a partition", "it is in use"];
        assert!(words.iter().any(|w| said(&output).contains(w)), "{}", said(&output));
    }
}

/// A machine in a folder: a reader sdb with a card of 16 MiB, which is a file.
fn machine_with_card(dir: &Path) {
    let put = |path: &str, text: &str| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("sys/class/block/sdb/dev", "8:16\n");
    put("sys/class/block/sdb/size", "32768\n");
    put("sys/class/block/sdb/removable", "1\n");
    put("sys/class/block/sdb/ro", "0\n");
    put("proc/self/mountinfo", "");
    put("proc/swaps", "");
    put("dev/sdb", "");
    fs::write(dir.join("dev/sdb"), vec![3u8; 16 << 20]).unwrap();
}

/// The card is changed while the question stands; its size is the same.
fn another_card_after_the_question(dir: &Path, command: &str) {
    let sequence = dir.join("sys/class/block/sdb/diskseq");
    fs::write(&sequence, "7\n").unwrap();
    let mut script = Command::new("script");
    script.args(["-qec", command, "/dev/null"]).current_dir(dir);
    let script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut script) = script else { return };
    let mut shown = Vec::new();
    let mut out = script.stdout.take().unwrap();
    while !shown.ends_with(b"to go on: ") {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&shown));
        shown.push(byte[0]);
    }
    fs::write(&sequence, "8\n").unwrap();
    script.stdin.take().unwrap().write_all(b"sdb\n").unwrap();
    out.read_to_end(&mut shown).unwrap();
    let (status, shown) = (script.wait().unwrap(), String::from_utf8_lossy(&shown).into_owned());
    assert_eq!(status.code(), Some(1), "{shown}");
    assert!(shown.contains("its medium (diskseq) was 7 and is 8"), "{shown}");
}

#[test]
fn a_card_is_written_after_asking_and_grown_into() {
    let dir = tempfile::tempdir().unwrap();
    small_image(dir.path());
    machine_with_card(dir.path());
    let root = dir.path().to_str().unwrap();
    let write = |more: &[&str]| {
        run(dir.path(), &[&["image", "write", "/dev/sdb", "--root", root], more].concat())
    };
    refused(&write(&[]), &["no terminal to confirm", "--yes"]);
    let before = fs::read(dir.path().join("dev/sdb")).unwrap();
    assert!(before.iter().all(|b| *b == 3), "nothing is written unasked");
    // Another answer than the device's name, typed on a terminal.
    let asked = format!("{} image write /dev/sdb --root {root}", LATLAB);
    let mut script = Command::new("script");
    script.args(["-qec", &asked, "/dev/null"]).current_dir(dir.path());
    let script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    if let Ok(mut script) = script {
        script.stdin.take().unwrap().write_all(b"yes\n").unwrap();
        let output = script.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
        for words in [
            "sdb: no name, 16 MiB",
            "Type the name sdb to go on",
            "not confirmed: nothing was written",
        ] {
            assert!(printed(&output).contains(words), "{}", printed(&output));
        }
    }
    assert!(fs::read(dir.path().join("dev/sdb")).unwrap() == before, "nor against the answer");
    another_card_after_the_question(dir.path(), &asked);
    assert!(fs::read(dir.path().join("dev/sdb")).unwrap() == before, "nor another card");
    let output = write(&["--yes"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("verified"));
    let card = fs::read(dir.path().join("dev/sdb")).unwrap();
    assert_eq!(card[5 << 20], 77);
    assert_eq!(card[474..478], 28_672u32.to_le_bytes(), "the root partition ends with the card");
    assert!(write(&["--yes", "--no-grow"]).status.success());
    let card = fs::read(dir.path().join("dev/sdb")).unwrap();
    assert!(card[..8 << 20] == fs::read(dir.path().join("sd.img")).unwrap()[..]);
    fs::write(dir.path().join("sd.img.sha256"), "0123  sd.img\n").unwrap();
    refused(&write(&["--yes"]), &["it is damaged"]);
    fs::write(dir.path().join("sys/class/block/sdb/size"), "1000\n").unwrap();
    refused(&write(&["--yes"]), &["it has 0 MiB, the image 8 MiB"]);
}

#[test]
#[ignore = "needs loop devices; run with the others in CI"]
fn a_loop_device_is_written_where_that_is_wished() {
    let dir = tempfile::tempdir().unwrap();
    small_image(dir.path());
    let disk = dir.path().join("disk");
    File::create(&disk).unwrap().set_len(32 << 20).unwrap();
    let losetup = Command::new("losetup").args(["-f", "--show"]).arg(&disk).output();
    let Some(device) = losetup.ok().filter(|o| o.status.success()) else {
        return skip("losetup cannot make a loop device here");
    };
    let device = printed(&device).trim().to_owned();
    let write = |more: &[&str]| run(dir.path(), &[&["image", "write", &device], more].concat());
    let unasked = write(&["--yes"]);
    let wished = write(&["--yes", "--fixed"]);
    Command::new("losetup").args(["-d", &device]).status().unwrap();
    refused(&unasked, &["it is not a card or stick that can be taken out"]);
    assert!(wished.status.success(), "{}", said(&wished));
    let written = fs::read(&disk).unwrap();
    assert_eq!(written[5 << 20], 77);
    assert_eq!(written[474..478], (65_536u32 - 4096).to_le_bytes());
}

/// Builds an image; with the lists that apt has where a mirror is out of step.
fn built(dir: &Path, args: &[&str]) -> Output {
    let output = run(dir, args);
    if said(&output).contains("latlab image --offline") {
        return run(dir, &[args, &["--offline"]].concat());
    }
    output
}

/// A BeagleBone image with its key, built once for all tests of this run.
fn beaglebone() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // Nothing that is static is ever dropped: one place, so that only the last one's files stay.
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image");
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        keys(&dir);
        let began = Instant::now();
        let args = ["image", "--board", "beaglebone-black", "--ssh-key", "id.pub", "-o", "sd.img"];
        let output = built(&dir, &args);
        assert!(output.status.success(), "{}", said(&output));
        eprintln!("built in {:.0} s: {}", began.elapsed().as_secs_f64(), printed(&output));
        dir
    })
}

/// The same card with a loader that was compiled here: what the boot ROM demands is met, and it is another one.
#[test]
#[ignore = "builds images"]
fn u_boot_is_built_from_source() {
    let dir = beaglebone();
    let args = ["image", "--board", "beaglebone-black", "--ssh-key", "id.pub", "--build-u-boot"];
    let output = built(dir, &[&args[..], &["-o", "u-boot.img"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let text = fs::read(dir.join("u-boot.img.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(manifest["u_boot_build"]["config"], "am335x_evm_defconfig");
    assert!(manifest["checks"].as_array().unwrap().iter().all(|c| c["met"] == true));
    // U-Boot's banner has the clock of the build, which is that of the source.
    let banner = |image: &str| {
        let mut bytes = Vec::new();
        let file = File::open(dir.join(image)).unwrap();
        file.take(8 << 20).read_to_end(&mut bytes).unwrap();
        let at = bytes.windows(11).position(|w| w == b"U-Boot SPL ").unwrap();
        String::from_utf8_lossy(&bytes[at..at + 60]).into_owned()
    };
    let (debian, own) = (banner("sd.img"), banner("u-boot.img"));
    assert!(debian.contains("+dfsg") && own.starts_with("U-Boot SPL 20"), "{debian} {own}");
    assert_ne!(debian, own);
}

#[test]
#[ignore = "builds an image"]
fn the_same_input_gives_the_same_bytes_without_a_network() {
    let dir = beaglebone();
    let mut again = latlab(
        dir,
        &[
            "image",
            "--board",
            "beaglebone-black",
            "--ssh-key",
            "id.pub",
            "-o",
            "again.img",
            "--offline",
        ],
    );
    let output = again.env("http_proxy", "http://127.0.0.1:9").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let sum = |name: &str| fs::read_to_string(dir.join(name)).unwrap()[..64].to_owned();
    assert_eq!(sum("sd.img.sha256"), sum("again.img.sha256"));
    let checked = Command::new("sha256sum")
        .args(["-c", "sd.img.sha256", "again.img.sha256"])
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", said(&checked));
    assert!(fs::metadata(dir.join("sd.img")).unwrap().len() < 400 << 20);
    let list = fs::read(dir.join("sd.img.json")).unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
    let packages = list["packages"].as_array().unwrap();
    assert!(packages.iter().any(|p| p["file"].as_str().unwrap().starts_with("openssh-server_")));
    assert_eq!(list["sha256"], sum("sd.img.sha256"));
}

#[test]
#[ignore = "builds an image"]
fn the_boot_partition_is_what_the_boot_rom_wants_and_others_can_read_it() {
    let dir = beaglebone();
    let output = run(dir, &["image", "check", "sd.img", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let checks: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = checks.as_array().unwrap();
    assert_eq!(checks.len(), 11);
    assert!(checks.iter().all(|c| c["met"] == true), "{checks:?}");
    // What e2fsprogs say of the other one.
    let root = dir.join("root.ext4");
    let mut image = File::open(dir.join("sd.img")).unwrap();
    let mut table = [0; 512];
    image.read_exact(&mut table).unwrap();
    let start = u32::from_le_bytes(table[470..474].try_into().unwrap());
    image.seek(SeekFrom::Start(u64::from(start) * 512)).unwrap();
    std::io::copy(&mut image, &mut File::create(&root).unwrap()).unwrap();
    let fsck = Command::new("/usr/sbin/e2fsck").args(["-fn"]).arg(&root).output().unwrap();
    fs::remove_file(&root).unwrap();
    assert!(fsck.status.success(), "{}{}", printed(&fsck), said(&fsck));
    // One bit of MLO's header: told.
    let damaged = dir.join("damaged.img");
    let mut bytes = Vec::new();
    let image = File::open(dir.join("sd.img")).unwrap();
    image.take(66 << 20).read_to_end(&mut bytes).unwrap();
    let at = bytes.windows(10).position(|w| w == b"CHSETTINGS").unwrap();
    bytes[at] ^= 1;
    fs::write(&damaged, &bytes).unwrap();
    let output = run(dir, &["image", "check", "damaged.img", "--board", "beaglebone-black"]);
    fs::remove_file(&damaged).unwrap();
    refused(&output, &["1 of 11 checks failed"]);
    assert!(printed(&output).contains("✗ MLO has a table of contents"));
}

#[test]
#[ignore = "builds an image"]
fn what_goes_wrong_late_is_said_and_leaves_no_image() {
    let dir = beaglebone();
    let build = |args: &[&str]| {
        let all =
            [&["image", "--board", "beaglebone-black", "--ssh-key", "id.pub", "--offline"], args]
                .concat();
        run(dir, &all)
    };
    refused(
        &build(&["-o", "x.img", "--package", "no-such-package-here"]),
        &["Unable to locate package no-such-package-here"],
    );
    // A kernel for another processor.
    let deb = dir.join("linux-image-mine.deb");
    fs::write(&deb, "no package").unwrap();
    let mine = build(&["-o", "x.img", "--kernel", deb.to_str().unwrap()]);
    refused(&mine, &["linux-image-mine.deb: this is not a Debian package"]);
    assert!(!dir.join("x.img").exists() && !dir.join(".x.img.part").exists());
    // A disk that is full before the image is whole.
    let Some(small) = SmallDisk::of("20m") else { return };
    let image = small.path().join("x.img");
    let full = build(&["-o", image.to_str().unwrap()]);
    let left = fs::read_dir(small.path()).unwrap().count();
    let place = small.path().to_str().unwrap();
    refused(&full, &[place, "No space left"]);
    assert_eq!(left, 0);
}

#[test]
#[ignore = "builds an image"]
fn an_interrupted_build_leaves_no_image_and_no_machine() {
    let dir = beaglebone();
    // Another clock means another root file system: it has to be configured.
    let mut child = latlab(
        dir,
        &[
            "image",
            "--board",
            "beaglebone-black",
            "--ssh-key",
            "id.pub",
            "--offline",
            "-o",
            "cut.img",
        ],
    )
    .env("SOURCE_DATE_EPOCH", "1700000001")
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let configuring = lines.by_ref().map_while(Result::ok).find(|l| l.contains("configuring"));
    assert!(configuring.is_some());
    let pid = child.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    let status = child.wait().unwrap();
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(status.code(), Some(130), "{rest:?}");
    assert!(rest.concat().contains("stopped before it was finished"), "{rest:?}");
    assert!(!dir.join("cut.img").exists() && !dir.join(".cut.img.part").exists());
    let running = Command::new("pgrep").args(["-P", &pid]).output().unwrap();
    assert!(printed(&running).is_empty());
}

/// Options that a board's Debian kernel lacks, and the fragment as text.
fn lacking(dir: &Path, kernel: &str) -> (Vec<String>, String) {
    let args = ["image", "--board", "beaglebone-black", "--kernel", kernel, "--from-config"];
    let output = run(dir, &[&args[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let missing = json["missing"].as_array().unwrap();
    let names = missing.iter().map(|m| m["option"].as_str().unwrap().to_owned()).collect();
    (names, printed(&run(dir, &args)))
}

#[test]
#[ignore = "fetches two kernels"]
fn what_debians_kernels_lack_is_told_with_reasons_and_commands() {
    let dir = tempfile::tempdir().unwrap();
    let (rt, fragment) = lacking(dir.path(), "rt");
    // What 6.1's configuration says: every tracer but those that cost while they are off.
    for has in [
        "FUNCTION_GRAPH_TRACER",
        "TIMERLAT_TRACER",
        "HWLAT_TRACER",
        "HIST_TRIGGERS",
        "PREEMPT_RT",
        "HZ_100",
        "HZ_PERIODIC",
    ] {
        assert!(!rt.contains(&format!("CONFIG_{has}")), "{has} in {rt:?}");
    }
    for lacks in ["IRQSOFF_TRACER", "PREEMPT_TRACER"] {
        assert!(rt.contains(&format!("CONFIG_{lacks}")), "{lacks} in {rt:?}");
    }
    for words in [
        "# Finds the longest section with interrupts disabled",
        "make ARCH=arm CROSS_COMPILE=arm-linux-gnueabihf- olddefconfig",
        "latlab image --board beaglebone-black --kernel ../linux-image-",
    ] {
        assert!(fragment.contains(words), "{words} in {fragment}");
    }
    // The doctor has the same.
    let doctor = ["doctor", "--kernel-config", "--board", "beaglebone-black"];
    let doctor = run(dir.path(), &doctor);
    assert!(fragment.starts_with(&printed(&doctor)), "{}", printed(&doctor));
    let (stock, _) = lacking(dir.path(), "stock");
    for lacks in ["PREEMPT_RT", "TIMERLAT_TRACER", "OSNOISE_TRACER", "HWLAT_TRACER", "SCHED_TRACER"]
    {
        assert!(stock.contains(&format!("CONFIG_{lacks}")), "{lacks} in {stock:?}");
    }
    refused(&run(dir.path(), &["image", "--from-config"]), &["no configuration named"]);
}
