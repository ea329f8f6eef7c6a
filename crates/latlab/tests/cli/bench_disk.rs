//! `latlab bench disk`: seeks and zones of a file, which is never written.

use crate::common::{is_root, latlab, printed, run_of, said, skip};
use latlab_model::run::Detail;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A file that is a disk of 20 MiB to the probes; `None` where its file system has no O_DIRECT.
fn disk(dir: &Path) -> Option<std::path::PathBuf> {
    let path = dir.join("disk");
    std::fs::write(&path, vec![7; 20 << 20]).unwrap();
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", path.display()));
    dd.args(["of=/dev/null", "bs=1M", "count=1", "iflag=direct"]);
    if dd.output().is_ok_and(|o| o.status.success()) {
        return Some(path);
    }
    skip("no O_DIRECT here");
    None
}

#[test]
fn seeks_and_zones_are_tables_and_curves_and_the_disk_stays_as_it_is() {
    // Below the target folder: the temporary directory may be in memory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(path) = disk(dir.path()) else { return };
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    let probe = format!("disk:path={}", path.display());
    let args = ["bench", &probe, "-D", "100ms", "--out", "r", "--details"];
    let out = latlab(dir.path(), &args);
    assert!(out.status.success(), "{}", said(&out));
    let run = run_of(&dir.path().join("r"));
    let Some(Detail::Bench(detail)) = &run.parts[0].detail else { panic!() };
    assert_eq!((detail.rows.len(), detail.missing.len()), (16, 0), "{:?}", detail.missing);
    assert!(detail.rows.iter().all(|r| r.estimate.median > 0.0));
    let page = printed(&out);
    for words in ["Disk over distance", "Disk over position", "disk.seek", "disk.read"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
    assert!(std::fs::read(&path).unwrap() == vec![7; 20 << 20], "not a byte is written");
}

#[test]
fn what_is_no_disk_is_refused() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(at("small"), vec![0; 4096]).unwrap();
    assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
    std::fs::write(at("closed"), vec![0; 20 << 20]).unwrap();
    std::fs::set_permissions(at("closed"), PermissionsExt::from_mode(0o000)).unwrap();
    let mut refused = vec![
        (dir.path().display().to_string(), "block devices and files"),
        (at("fifo"), "block devices and files"),
        (at("small"), "16 MiB or more"),
        ("/dev/null".into(), "block devices and files"),
        (at("none"), "No such file or directory"),
    ];
    if !is_root() {
        refused.push((at("closed"), "Permission denied"));
    }
    for (path, words) in refused {
        let probe = format!("disk.read:path={path},position=0");
        let out = latlab(dir.path(), &["bench", &probe, "-D", "100ms"]);
        assert_eq!(out.status.code(), Some(1), "{path}: {}", said(&out));
        assert!(said(&out).contains(words) && said(&out).contains(&path), "{}", said(&out));
        assert!(!dir.path().join("runs").exists(), "no run is begun");
    }
    for (args, words) in [
        (&["bench", "disk"][..], "disk.seek has no path"),
        (&["bench", "disk.seek:distance=1"], "name it: latlab bench 'disk.seek:path=/dev/sda'"),
    ] {
        let out = latlab(dir.path(), args);
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        assert!(said(&out).contains(words), "{args:?}: {}", said(&out));
    }
    let out = latlab(dir.path(), &["bench", "--list", "disk"]);
    assert!(printed(&out).contains("seek* read*"), "{}", printed(&out));
}
