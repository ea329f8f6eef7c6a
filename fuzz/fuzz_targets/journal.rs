//! Any lines as the journal of a dead latlab: settings are restored, and nothing else is written.
//!
//! `@` stands for the folder of the settings. The first line is right, unless the input begins with `{`.
#![no_main]

use latlab_sys::settings::{Place, restore_orphaned, survey};
use libfuzzer_sys::fuzz_target;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const OUTSIDE: &[u8] = b"not a setting";

struct Machine {
    root: PathBuf,
    boot: String,
}

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let root = std::env::temp_dir().join(format!("latlab-fuzz-{}", std::process::id()));
        let dir = |name: &str| {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(root.join(name)).unwrap();
        };
        dir("journals");
        dir("settings");
        fs::write(root.join("outside"), OUTSIDE).unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Machine { root, boot: boot.trim().to_owned() }
    })
}

fuzz_target!(|data: &[u8]| {
    let Machine { root, boot } = machine();
    let settings = root.join("settings");
    for name in ["a", "b", "current_tracer"] {
        fs::write(settings.join(name), "1\n").unwrap();
    }
    let journal = root.join("journals/1-1-0.journal");
    let _ = fs::remove_file(&journal);
    write(&journal, boot, &settings, data).unwrap();

    let place = Place::new(root.join("journals"), &[&settings]);
    survey(&place).expect("the folder is ours");
    restore_orphaned(&place).expect("the folder is ours");
    // What was restored stays so.
    restore_orphaned(&place).expect("the folder is ours");
    assert_eq!(fs::read(root.join("outside")).unwrap(), OUTSIDE);
    assert!(settings.is_dir());
});

fn write(path: &Path, boot: &str, settings: &Path, data: &[u8]) -> std::io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    if !data.starts_with(b"{") {
        writeln!(
            file,
            r#"{{"latlab_journal":1,"pid":1,"boot":"{boot}","since_boot_ns":1,"command":["latlab"]}}"#
        )?;
    }
    for (n, piece) in data.split(|b| *b == b'@').enumerate() {
        if n > 0 {
            file.write_all(settings.as_os_str().as_encoded_bytes())?;
        }
        file.write_all(piece)?;
    }
    Ok(())
}
