//! Debian packages as a tree that dpkg knows, all unpacked and none configured.
//!
//! apt resolves and fetches (a private state, see [`latlab_target::debian`]);
//! `dpkg-deb` takes a package apart. What `dpkg --unpack` would have written
//! is written here: the status, the lists of files, conffiles and scripts, and
//! the table of triggers, so that `dpkg --configure -a` in the machine itself
//! can do the rest. Sources: Debian Policy 4.6, chapters 5, 6 and 10;
//! dpkg's `doc/triggers.txt` and deb-conffiles(5).

use super::tree::{Kind, Tree};
use latlab_target::debian::Archive;
use latlab_target::{Result, TargetError};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A package in apt's cache.
#[derive(Clone, Debug)]
pub struct Deb {
    /// Its file.
    pub file: PathBuf,
    /// Name of the file without escapes: `name_version_arch.deb`.
    pub name: String,
    /// SHA-256 of the file.
    pub sha256: String,
}

/// Resolves these packages with all that they need and Debian's essential ones, and fetches what the cache lacks.
pub fn fetch(
    archive: &mut Archive<'_>,
    packages: &[String],
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Deb>> {
    archive.update(say)?;
    let wanted: Vec<&str> =
        std::iter::once("?essential").chain(packages.iter().map(String::as_str)).collect();
    let base = ["-y", "--no-install-recommends", "-qq"];
    // With an empty folder of archives, apt names every file, not only those that are missing.
    let nothing = archive.folder("no-archives/partial")?;
    let nothing =
        format!("Dir::Cache::archives={}", nothing.parent().unwrap_or(&nothing).display());
    let list = archive
        .get(&[&base[..], &["-o", &nothing, "--print-uris", "install"], &wanted].concat())?;
    let mut files: Vec<(String, u64)> = list.lines().filter_map(listed).collect();
    files.sort();
    if files.is_empty() {
        return Err(archive.cannot("(base system)", "apt names no packages to install"));
    }
    let folder = archive.folder("cache/archives")?;
    let missing: Vec<_> = files.iter().filter(|(f, _)| !folder.join(f).is_file()).collect();
    if !missing.is_empty() {
        let mib = missing.iter().map(|(_, bytes)| bytes).sum::<u64>() >> 20;
        say(&format!("fetching {} packages, {mib} MiB", missing.len()));
    }
    // Also where nothing is missing: apt compares what is there with its signed lists.
    archive.get(&[&base[..], &["--download-only", "install"], &wanted].concat())?;
    files.into_iter().map(|(name, _)| described(&folder.join(&name), &name)).collect()
}

/// A line of `apt-get --print-uris`: `'URI' FILE SIZE HASH`.
fn listed(line: &str) -> Option<(String, u64)> {
    let mut words = line.strip_prefix('\'')?.split_once("' ")?.1.split(' ');
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

fn described(file: &Path, name: &str) -> Result<Deb> {
    let bytes = std::fs::read(file).map_err(TargetError::file(file))?;
    let sha256 = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
    Ok(Deb { file: file.to_path_buf(), name: name.replace("%3a", ":"), sha256 })
}

/// What an image does without: documentation but for licences, translations.
pub fn is_wanted(path: &str) -> bool {
    let Some(rest) = path.strip_prefix("usr/share/") else { return true };
    let (folder, below) = rest.split_once('/').unwrap_or((rest, ""));
    match folder {
        "doc" => below.is_empty() || !below.contains('/') || below.ends_with("/copyright"),
        "man" | "locale" | "info" | "lintian" | "linda" => below.is_empty(),
        _ => true,
    }
}

/// For dpkg, so that what is installed later does without it too.
pub const DPKG_CONFIGURATION: &str = "\
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/lintian/*
";

/// All packages unpacked, with dpkg's database. `step` hears how many are done.
pub fn unpack(debs: &[Deb], arch: &str, step: &mut dyn FnMut(usize)) -> Result<Tree> {
    let mut tree = Tree::default();
    for name in ["bin", "sbin", "lib"] {
        tree.folder(&format!("usr/{name}"), 0o755, 0);
        tree.symlink(name, &format!("usr/{name}"), 0);
    }
    let mut database = Database::default();
    for (done, deb) in debs.iter().enumerate() {
        step(done);
        let mut control = Tree::default();
        dismantle(deb, "--ctrl-tarfile", &mut control)?;
        let names = dismantle(deb, "--fsys-tarfile", &mut tree)?;
        database.add(deb, &control, &names, &mut tree)?;
    }
    database.finish(&mut tree, arch);
    Ok(tree)
}

/// The files of one package, by `dpkg-deb` and our reader of its output.
fn dismantle(deb: &Deb, part: &str, tree: &mut Tree) -> Result<Vec<String>> {
    let mut child = Command::new("dpkg-deb")
        .arg(part)
        .arg(&deb.file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|_| TargetError::NoProgram {
            program: "dpkg-deb".into(),
            purpose: "taking packages apart".into(),
            package: "dpkg".into(),
        })?;
    let names = match child.stdout.take() {
        Some(tar) => tree.read_tar(tar, &deb.file, is_wanted),
        None => Ok(Vec::new()),
    };
    let ended = child.wait().map_err(TargetError::file(&deb.file))?;
    if names.is_ok() && !ended.success() {
        return Err(TargetError::Content {
            path: deb.file.clone(),
            reason: "dpkg-deb cannot take this package apart".into(),
            hint: "latlab image clean, then build again".into(),
        });
    }
    names
}

/// What dpkg remembers.
#[derive(Default)]
struct Database {
    status: String,
    /// Trigger to who is interested in it; files begin with a slash.
    triggers: BTreeMap<String, Vec<String>>,
}

impl Database {
    fn add(&mut self, deb: &Deb, control: &Tree, names: &[String], tree: &mut Tree) -> Result<()> {
        let broken = |reason: &str| TargetError::Content {
            path: deb.file.clone(),
            reason: reason.to_owned(),
            hint: "latlab image clean, then build again".into(),
        };
        let text = |name| control.content(name).map(String::from_utf8_lossy);
        let fields = text("control").ok_or_else(|| broken("this package has no control file"))?;
        let field = |name: &str| {
            fields.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let package = field("Package").ok_or_else(|| broken("its control file has no name"))?;
        let arch = field("Architecture").unwrap_or("all");
        let base = match field("Multi-Arch") {
            Some("same") => format!("{package}:{arch}"),
            _ => package.to_owned(),
        };
        for (name, node) in control.iter().filter(|(n, _)| *n != "control") {
            if let Kind::File(data) = &node.kind {
                let to = format!("var/lib/dpkg/info/{base}.{name}");
                tree.put(&to, node.mode & 0o755, data.clone(), 0);
            }
        }
        let list: String = std::iter::once("/.\n".to_owned())
            .chain(names.iter().map(|n| format!("/{n}\n")))
            .collect();
        tree.put(&format!("var/lib/dpkg/info/{base}.list"), 0o644, list.into_bytes(), 0);
        self.stanza(&fields, text("conffiles").as_deref(), tree);
        for line in text("triggers").unwrap_or_default().lines() {
            let mut words = line.split_whitespace();
            if let (Some(verb), Some(name)) = (words.next(), words.next())
                && verb.starts_with("interest")
            {
                let wait = if verb.ends_with("-noawait") { "/noawait" } else { "" };
                self.triggers.entry(name.to_owned()).or_default().push(format!("{package}{wait}"));
            }
        }
        Ok(())
    }

    /// The entry of the status file: the control fields after a line that says how far it is.
    fn stanza(&mut self, fields: &str, conffiles: Option<&str>, tree: &Tree) {
        let mut lines = fields.lines().filter(|l| !l.is_empty());
        self.status.push_str(&format!("{}\n", lines.next().unwrap_or_default()));
        self.status.push_str("Status: install ok unpacked\n");
        lines.for_each(|l| self.status.push_str(&format!("{l}\n")));
        let there: Vec<String> = conffiles
            .unwrap_or_default()
            .lines()
            .filter_map(|path| {
                // `remove-on-upgrade PATH` is no file of this version.
                let path = path.trim().strip_prefix('/')?;
                Some(format!(" /{path} {}\n", md5(tree.content(path)?)))
            })
            .collect();
        if !there.is_empty() {
            self.status.push_str(&format!("Conffiles:\n{}", there.concat()));
        }
        self.status.push('\n');
    }

    fn finish(self, tree: &mut Tree, arch: &str) {
        let mut put = |name: &str, text: String| {
            tree.put(&format!("var/lib/dpkg/{name}"), 0o644, text.into_bytes(), 0);
        };
        put("status", self.status);
        put("available", String::new());
        put("arch", format!("{arch}\n"));
        put("info/format", "1\n".into());
        let mut files = String::new();
        for (trigger, packages) in &self.triggers {
            if trigger.starts_with('/') {
                packages.iter().for_each(|p| files.push_str(&format!("{trigger} {p}\n")));
            } else {
                put(&format!("triggers/{trigger}"), packages.join("\n") + "\n");
            }
        }
        put("triggers/File", files);
        put("triggers/Unincorp", String::new());
        for folder in ["updates", "alternatives", "parts"] {
            tree.folder(&format!("var/lib/dpkg/{folder}"), 0o755, 0);
        }
    }
}

/// MD5 is what dpkg compares conffiles by.
fn md5(data: &[u8]) -> String {
    use md5::Digest;
    md5::Md5::digest(data).iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_stay_and_manuals_go() {
        for path in
            ["usr/bin/ls", "usr/share/doc/x/copyright", "usr/share/doc/x", "usr/share/zoneinfo/UTC"]
        {
            assert!(is_wanted(path), "{path}");
        }
        for path in
            ["usr/share/doc/x/changelog.gz", "usr/share/man/man1/ls.1.gz", "usr/share/locale/de/x"]
        {
            assert!(!is_wanted(path), "{path}");
        }
    }

    #[test]
    fn apt_lines() {
        let line =
            "'http://host/pool/l/login_1%3a4.13_armhf.deb' login_1%3a4.13_armhf.deb 1234 MD5Sum:00";
        assert_eq!(listed(line), Some(("login_1%3a4.13_armhf.deb".into(), 1234)));
        assert_eq!(listed("Reading package lists..."), None);
    }

    #[test]
    fn a_package_becomes_unpacked_with_conffiles_scripts_and_triggers() {
        let mut control = Tree::default();
        let fields = "Package: libx\nVersion: 1\nArchitecture: armhf\nMulti-Arch: same\nDescription: x\n more\n";
        control.put("control", 0o644, fields.as_bytes(), 0);
        control.put("conffiles", 0o644, &b"/etc/x\nremove-on-upgrade /etc/y\n"[..], 0);
        control.put(
            "triggers",
            0o644,
            &b"# c\ninterest-noawait ldconfig\ninterest /usr/lib/x\n"[..],
            0,
        );
        control.put("postinst", 0o775, &b"#!/bin/sh\n"[..], 0);
        let mut tree = Tree::default();
        tree.put("etc/x", 0o644, &b"hello\n"[..], 0);
        let deb = Deb { file: "libx.deb".into(), name: "libx".into(), sha256: String::new() };
        let mut database = Database::default();
        database.add(&deb, &control, &["etc".into(), "etc/x".into()], &mut tree).unwrap();
        database.finish(&mut tree, "armhf");
        let text = |path| String::from_utf8_lossy(tree.content(path).unwrap()).into_owned();
        assert_eq!(
            text("var/lib/dpkg/status"),
            "Package: libx\nStatus: install ok unpacked\nVersion: 1\nArchitecture: armhf\nMulti-Arch: same\n\
             Description: x\n more\nConffiles:\n /etc/x b1946ac92492d2347c6235b4d2611184\n\n"
        );
        assert_eq!(text("var/lib/dpkg/info/libx:armhf.list"), "/.\n/etc\n/etc/x\n");
        assert_eq!(tree.get("var/lib/dpkg/info/libx:armhf.postinst").unwrap().mode, 0o755);
        assert_eq!(text("var/lib/dpkg/triggers/ldconfig"), "libx/noawait\n");
        assert_eq!(text("var/lib/dpkg/triggers/File"), "/usr/lib/x libx\n");
    }
}
