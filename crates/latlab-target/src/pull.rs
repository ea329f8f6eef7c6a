//! Brings files from a target to where the user expects them.
//!
//! On the target a command works in an empty folder. Paths that the user gave
//! for results (`--out DIR`, `-o FILE`) are replaced by names inside it, and
//! mapped back when the files arrive. A name from a target is hostile until
//! proven: nothing is ever written outside the local folder.

use crate::{Result, TargetError};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Component, Path, PathBuf};

/// Where results go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First component on the target, and the local path that stands for it.
    renamed: Vec<(String, PathBuf)>,
}

/// Options that name a result, with a separate or a glued value.
const RESULT_OPTIONS: [&str; 3] = ["--out", "--output", "-o"];

impl Mapping {
    /// Replaces the values of result options up to a `--` by names in the target's working folder.
    pub fn rewrite(args: &[String]) -> (Vec<String>, Self) {
        let mut mapping = Self::default();
        let mut rewritten = Vec::with_capacity(args.len());
        let mut value_follows = false;
        let mut command_follows = false;
        for arg in args {
            let glued = RESULT_OPTIONS[..2]
                .iter()
                .find_map(|o| Some((*o, arg.strip_prefix(o)?.strip_prefix('=')?)));
            if command_follows {
                rewritten.push(arg.clone());
            } else if value_follows {
                value_follows = false;
                rewritten.push(mapping.add(arg));
            } else if arg == "--" {
                command_follows = true;
                rewritten.push(arg.clone());
            } else if let Some((option, value)) = glued {
                rewritten.push(format!("{option}={}", mapping.add(value)));
            } else {
                value_follows = RESULT_OPTIONS.contains(&arg.as_str());
                rewritten.push(arg.clone());
            }
        }
        (rewritten, mapping)
    }

    fn add(&mut self, local: &str) -> String {
        if local == "-" {
            return local.into();
        }
        let path = Path::new(local);
        let base =
            path.file_name().map_or_else(|| "out".into(), |n| n.to_string_lossy().into_owned());
        let name = format!("out{}-{base}", self.renamed.len());
        self.renamed.push((name.clone(), path.to_path_buf()));
        name
    }

    /// The local path for one on the target, or `None` for a name that must not be written.
    pub fn local(&self, path: &str) -> Option<PathBuf> {
        let path = Path::new(path);
        let mut parts = path.components();
        if path.components().any(|c| !matches!(c, Component::Normal(_))) {
            return None;
        }
        let first = parts.next()?.as_os_str().to_str()?;
        match self.renamed.iter().find(|(name, _)| name == first) {
            Some((_, local)) => Some(local.join(parts.as_path()).components().collect()),
            None => Some(path.to_path_buf()),
        }
    }

    /// The first local path for results that already holds a run: it must not be written to again.
    pub fn taken(&self, root: &Path) -> Option<PathBuf> {
        let locals = self.renamed.iter().map(|(_, local)| root.join(local));
        locals.into_iter().find(|local| local.join("run.json").exists())
    }

    /// In text that a command printed, the target's names of results become the user's.
    pub fn translate(&self, text: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(text) else { return text.to_vec() };
        let mut text = text.to_owned();
        for (name, local) in &self.renamed {
            text = text.replace(name.as_str(), &local.to_string_lossy());
        }
        text.into_bytes()
    }
}

/// Writes files as they arrive.
#[derive(Debug)]
pub struct Receiver {
    root: PathBuf,
    mapping: Mapping,
    open: Option<(PathBuf, File, u64)>,
    /// Every file that was written, relative to the root or as the user named it.
    pub written: Vec<PathBuf>,
    /// Run directories of the target whose name was taken here, and their names here: guests
    /// whose clock always starts at the same moment name their runs alike.
    pub moved: Vec<(String, String)>,
    /// Run directories that arrived under their own name.
    own: Vec<String>,
}

impl Receiver {
    /// Files go below `root` (the user's working directory), unless the mapping says otherwise.
    pub fn new(root: &Path, mapping: Mapping) -> Self {
        Self {
            root: root.to_path_buf(),
            mapping,
            open: None,
            written: Vec::new(),
            moved: Vec::new(),
            own: Vec::new(),
        }
    }

    /// A file or folder begins.
    pub fn begin(&mut self, path: &str, length: u64, directory: bool) -> Result<()> {
        self.open = None;
        let shown = self.mapping.local(path).ok_or_else(|| TargetError::Content {
            path: path.into(),
            reason:
                "the target sent a file name that leaves the working folder; it was not written"
                    .into(),
            hint: String::new(),
        })?;
        let shown = self.beside_what_is_there(shown);
        let local = self.root.join(&shown);
        if directory {
            return fs::create_dir_all(&local).map_err(TargetError::file(&local));
        }
        if let Some(parent) = local.parent() {
            fs::create_dir_all(parent).map_err(TargetError::file(parent))?;
        }
        let file = File::create(&local).map_err(TargetError::file(&local))?;
        self.written.push(shown);
        self.open = Some((local, file, length));
        Ok(())
    }

    /// `runs/NAME/…` becomes `runs/NAME-2/…` when a run of that name was here before.
    fn beside_what_is_there(&mut self, shown: PathBuf) -> PathBuf {
        let mut parts = shown.components();
        let (Some(runs), Some(name)) = (parts.next(), parts.next()) else { return shown };
        let Some(name) = name.as_os_str().to_str().map(str::to_owned) else { return shown };
        if runs.as_os_str() != "runs" || self.own.contains(&name) {
            return shown;
        }
        let rest = parts.as_path().to_path_buf();
        let known = self.moved.iter().find(|(from, _)| *from == name).map(|(_, to)| to.clone());
        let free = |candidate: &String| !self.root.join("runs").join(candidate).exists();
        let here = known.unwrap_or_else(|| {
            if free(&name) {
                return name.clone();
            }
            (2u32..).map(|n| format!("{name}-{n}")).find(free).unwrap_or_else(|| name.clone())
        });
        if here == name {
            self.own.push(name);
            return shown;
        }
        if !self.moved.iter().any(|(from, _)| *from == name) {
            self.moved.push((name, here.clone()));
        }
        Path::new("runs").join(here).join(rest).components().collect()
    }

    /// Bytes of the file that began last.
    pub fn data(&mut self, bytes: &[u8]) -> Result<()> {
        let Some((path, file, left)) = &mut self.open else { return Ok(()) };
        *left = left.saturating_sub(bytes.len() as u64);
        file.write_all(bytes).map_err(TargetError::file(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn result_paths_come_back_to_where_the_user_wanted_them() {
        let args = strings(&["record", "-o", "/data/a.dat", "--out=../r1", "--", "sh", "-o", "x"]);
        let (rewritten, mapping) = Mapping::rewrite(&args);
        assert_eq!(
            rewritten,
            strings(&["record", "-o", "out0-a.dat", "--out=out1-r1", "--", "sh", "-o", "x"])
        );
        assert_eq!(mapping.local("out0-a.dat"), Some("/data/a.dat".into()));
        assert_eq!(mapping.local("out1-r1/run.json"), Some("../r1/run.json".into()));
        assert_eq!(mapping.local("runs/x/run.json"), Some("runs/x/run.json".into()));
        assert_eq!(mapping.translate(b"kept in out1-r1\n"), b"kept in ../r1\n");
        let (same, _) = Mapping::rewrite(&strings(&["record", "-o", "-"]));
        assert_eq!(same[2], "-");
    }

    #[test]
    fn a_hostile_name_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut receiver = Receiver::new(dir.path(), Mapping::default());
        for name in ["../x", "/etc/x", "a/../../x", ""] {
            assert!(receiver.begin(name, 1, false).is_err(), "{name:?}");
        }
        receiver.begin("a/b", 2, false).unwrap();
        receiver.data(b"ok").unwrap();
        assert_eq!(fs::read(dir.path().join("a/b")).unwrap(), b"ok");
    }

    #[test]
    fn a_run_that_is_here_already_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let once = || {
            let mut receiver = Receiver::new(dir.path(), Mapping::default());
            receiver.begin("runs/same", 0, true).unwrap();
            receiver.begin("runs/same/run.json", 2, false).unwrap();
            receiver.data(b"{}").unwrap();
            (receiver.written, receiver.moved)
        };
        assert_eq!(once(), (vec![PathBuf::from("runs/same/run.json")], vec![]));
        let moved = vec![("same".to_owned(), "same-2".to_owned())];
        assert_eq!(once(), (vec![PathBuf::from("runs/same-2/run.json")], moved));
    }
}
