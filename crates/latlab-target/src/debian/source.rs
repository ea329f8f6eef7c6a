//! Source packages: the host's sources of packages, with `deb-src` added.

use super::{Archive, REST, complaint, spawn};
use crate::{Result, TargetError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A part of a source package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What Debian adds to the original: `debian.tar.xz`.
    Debian,
    /// The original: `orig.tar.xz`.
    Original,
}

impl Archive<'_> {
    /// Versions of a package in apt's lists, newest first.
    ///
    /// # Errors
    /// When apt cannot be run, or its lists do not have the package.
    pub fn versions(&mut self, package: &str, say: &mut dyn FnMut(&str)) -> Result<Vec<String>> {
        self.update(say)?;
        let output = self.run("apt-cache", &["madison", package])?;
        let text = String::from_utf8_lossy(&output.stdout);
        // `name | version | source`, newest first.
        let mut versions: Vec<String> = Vec::new();
        for line in text.lines().filter(|l| l.contains(" Packages")) {
            if let Some(version) = line.split('|').nth(1).map(str::trim)
                && !versions.iter().any(|v| v == version)
            {
                versions.push(version.to_owned());
            }
        }
        match versions.is_empty() {
            true => Err(self.cannot(package, "apt's sources do not have it")),
            false => Ok(versions),
        }
    }

    /// Downloads a part of a source package, or finds it in the cache.
    ///
    /// # Errors
    /// When the archive does not deliver it.
    pub fn fetch_source(
        &mut self,
        package: &str,
        version: &str,
        part: Part,
        say: &mut dyn FnMut(&str),
    ) -> Result<PathBuf> {
        self.update(say)?;
        let (option, suffix) = match part {
            Part::Debian => ("--diff-only", ".debian.tar.xz"),
            Part::Original => ("--tar-only", ".orig.tar.xz"),
        };
        let folder = self.folder(&format!("source/{package}_{}", version.replace(':', "%3a")))?;
        let find = || {
            let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.path());
            files.into_iter().find(|p| p.to_string_lossy().ends_with(suffix))
        };
        if let Some(file) = find() {
            return Ok(file);
        }
        say(&format!("fetching {} of the source package {package} {version}", &suffix[1..]));
        // apt leaves what it has not finished under the final name: a folder of its own until it has ended.
        let download = self.folder("source/download")?;
        let _ = fs::remove_dir_all(&download);
        fs::create_dir_all(&download).map_err(TargetError::file(&download))?;
        let mut command = self.command("apt-get")?;
        command.current_dir(&download).args(["source", "--download-only", option]);
        let output = spawn(command.arg(format!("{package}={version}")), "apt-get", "apt")?;
        if !output.status.success() {
            self.room_for(REST, "source package")?;
            return Err(self.cannot(package, &complaint(&output)));
        }
        for entry in fs::read_dir(&download).map_err(TargetError::file(&download))?.flatten() {
            let to = folder.join(entry.file_name());
            fs::rename(entry.path(), &to).map_err(TargetError::file(&to))?;
        }
        find().ok_or_else(|| self.cannot(package, "apt downloaded nothing"))
    }

    /// Copies the host's sources, each with its source packages.
    pub(super) fn write_sources(&self) -> Result<()> {
        let folder = self.folder("sources")?;
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(TargetError::file(&folder))?;
        for (number, file) in host_sources()?.iter().enumerate() {
            let text = fs::read_to_string(file).map_err(TargetError::file(file))?;
            let deb822 = file.extension().is_some_and(|e| e == "sources");
            let (text, extension) =
                if deb822 { (with_types(&text), "sources") } else { (with_lines(&text), "list") };
            let to = folder.join(format!("{number}.{extension}"));
            fs::write(&to, text).map_err(TargetError::file(&to))?;
        }
        Ok(())
    }
}

/// Files of the host's apt that name archives (apt.conf(5): `Dir::Etc::sourcelist`, `Dir::Etc::sourceparts`).
fn host_sources() -> Result<Vec<PathBuf>> {
    let mut command = Command::new("apt-config");
    let asked = ["shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"];
    let output = spawn(command.args(asked), "apt-config", "apt")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='))?;
        Some(PathBuf::from(line.trim_matches('\'')))
    };
    let list = value("LIST").unwrap_or_else(|| "/etc/apt/sources.list".into());
    let parts = value("PARTS").unwrap_or_else(|| "/etc/apt/sources.list.d".into());
    let is_source = |p: &PathBuf| p.extension().is_some_and(|e| e == "list" || e == "sources");
    let mut files: Vec<PathBuf> = (fs::read_dir(&parts).into_iter().flatten().flatten())
        .map(|e| e.path())
        .filter(is_source)
        .collect();
    files.sort();
    if list.is_file() {
        files.insert(0, list);
    }
    match files.is_empty() {
        true => Err(TargetError::Content {
            path: Path::new("/etc/apt").into(),
            reason: "apt has no source of packages".into(),
            hint: "sources.list(5) describes them".into(),
        }),
        false => Ok(files),
    }
}

/// `Types: deb` becomes `Types: deb deb-src` (sources.list(5), DEB822-STYLE FORMAT).
fn with_types(text: &str) -> String {
    let line = |line: &str| match line.split_once(':') {
        Some((key, _)) if key.eq_ignore_ascii_case("types") => "Types: deb deb-src\n".to_owned(),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// A line `deb …` is followed by the same with `deb-src` (sources.list(5), ONE-LINE-STYLE FORMAT).
fn with_lines(text: &str) -> String {
    let own = text.lines().map(str::trim).filter_map(|l| l.strip_prefix("deb"));
    let own = own.filter(|rest| rest.starts_with([' ', '\t']));
    own.map(|rest| format!("deb{rest}\ndeb-src{rest}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_sources_get_their_source_packages() {
        let deb822 = "Types: deb\nURIs: http://a/debian\nSuites: x\n\nTypes: deb\nURIs: http://b\n";
        assert_eq!(
            with_types(deb822),
            "Types: deb deb-src\nURIs: http://a/debian\nSuites: x\n\nTypes: deb deb-src\nURIs: http://b\n"
        );
        let lines =
            "# deb old\n deb [signed-by=/k] http://a x main\ndeb-src http://a x main\ndebug\n";
        assert_eq!(
            with_lines(lines),
            "deb [signed-by=/k] http://a x main\ndeb-src [signed-by=/k] http://a x main\n"
        );
    }
}
