//! Brings files from a target to where the user expects them.
//!
//! On the target a command works in an empty folder. Paths that the user gave
//! for results (`--out DIR`, `-o FILE`) are replaced by names inside it, and
//! mapped back when the files arrive.
//!
//! A target is not trusted. [`Receiver`] takes what was requested and nothing
//! else: the run directory `runs/NAME/…`, the mapped results, and what a
//! command writes when no result is named. A file is always a new one
//! (`O_CREAT|O_EXCL`, which follows no link), so nothing that was on the host
//! before is changed. Number, length and depth of the files are bounded. Pages
//! (`report.html`) are not taken: the host renders them from `run.json`.

use crate::{Result, TargetError};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

/// Files and folders of one command.
const ENTRIES_MAX: u32 = 100_000;
/// Bytes of one command: more than any recording, less than what a disk has to be full.
const BYTES_MAX: u64 = 64 << 30;
/// Components of a path, and bytes of it.
const DEPTH_MAX: usize = 16;
const PATH_MAX: usize = 1024;

/// What a file system says that cannot sync a folder.
const CANNOT_SYNC: [io::ErrorKind; 2] = [io::ErrorKind::InvalidInput, io::ErrorKind::Unsupported];

/// Where results go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First component on the target, and the local path that stands for it.
    renamed: Vec<(String, PathBuf)>,
    /// What is accepted besides run directories and [`Self::renamed`].
    also: Also,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Also {
    /// Nothing.
    #[default]
    Nothing,
    /// The file that the command writes when no result is named.
    DefaultOutput(String),
    /// The results of a run whose command line is not known any more.
    Results,
    /// All that a command of the user's own leaves.
    All,
}

/// Options that name a result, with a separate or a glued value.
const RESULT_OPTIONS: [&str; 6] =
    ["--out", "--output", "--samples", "--histfile", "--json-file", "-o"];
/// The name of a recording where none is given.
const RECORDING: &str = "trace.dat";

impl Mapping {
    /// Replaces the values of result options up to a `--` by names in the target's working folder.
    pub fn rewrite(args: &[String]) -> (Vec<String>, Self) {
        let mut mapping = Self::default();
        let mut rewritten = Vec::with_capacity(args.len());
        let mut value_follows = false;
        let mut command_follows = false;
        for arg in args {
            let long = RESULT_OPTIONS[..5]
                .iter()
                .find_map(|o| Some((format!("{o}="), arg.strip_prefix(o)?.strip_prefix('=')?)));
            let short = || {
                let value = arg.strip_prefix("-o").filter(|value| !value.is_empty())?;
                Some(("-o".to_owned(), value.strip_prefix('=').unwrap_or(value)))
            };
            let glued = long.or_else(short);
            if command_follows {
                rewritten.push(arg.clone());
            } else if value_follows {
                value_follows = false;
                rewritten.push(mapping.add(arg));
            } else if arg == "--" {
                command_follows = true;
                rewritten.push(arg.clone());
            } else if let Some((option, value)) = glued {
                rewritten.push(format!("{option}{}", mapping.add(value)));
            } else {
                value_follows = RESULT_OPTIONS.contains(&arg.as_str());
                rewritten.push(arg.clone());
            }
        }
        (rewritten, mapping)
    }

    /// For the command `record`, which writes `trace.dat` when `-o` does not name another file.
    pub fn with_default_recording(mut self) -> Self {
        self.also = Also::DefaultOutput(RECORDING.into());
        self
    }

    /// For a run that is fetched later: its results get the names that they have on the target.
    pub fn of_fetched_run() -> Self {
        Self { also: Also::Results, ..Self::default() }
    }

    /// For a command of the user's own: every file that it leaves.
    pub fn of_own_command() -> Self {
        Self { also: Also::All, ..Self::default() }
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

    /// The local path for one on the target, or `None` for a name that was not requested.
    pub fn local(&self, path: &str) -> Option<PathBuf> {
        let path = Path::new(path);
        let hidden = |c: Component<'_>| match c {
            Component::Normal(name) => {
                // Nor one that a terminal or a file manager shows as another.
                let is_shown = |c: char| !c.is_control() && !REORDERING.contains(&c);
                name.as_encoded_bytes().first() == Some(&b'.')
                    || !name.to_str().is_some_and(|name| name.chars().all(is_shown))
            }
            _ => true,
        };
        if path.components().any(hidden) || path.components().count() > DEPTH_MAX {
            return None;
        }
        let mut parts = path.components();
        let first = parts.next()?.as_os_str().to_str()?;
        if let Some((_, local)) = self.renamed.iter().find(|(name, _)| name == first) {
            return Some(local.join(parts.as_path()).components().collect());
        }
        let is_file = parts.next().is_none();
        let numbered = |(name, local): &(String, PathBuf)| numbered(name, local, first);
        if let Some(local) = self.renamed.iter().find_map(numbered).filter(|_| is_file) {
            return Some(local);
        }
        let accepted = first == "runs"
            || match &self.also {
                Also::Nothing => false,
                Also::DefaultOutput(name) => {
                    is_file && (first == name || numbered(&(name.clone(), name.into())).is_some())
                }
                Also::Results => is_result(first) || first == RECORDING,
                Also::All => true,
            };
        accepted.then(|| path.to_path_buf())
    }

    /// The first result that is here already, a run or a file: it is not written to again.
    pub fn taken(&self, root: &Path) -> Option<PathBuf> {
        let default = match &self.also {
            Also::DefaultOutput(name) if self.renamed.is_empty() => Some(root.join(name)),
            _ => None,
        };
        let locals = self.renamed.iter().map(|(_, local)| root.join(local));
        let there = |path: &PathBuf| {
            let place = if path.is_dir() { path.join("run.json") } else { path.clone() };
            place.symlink_metadata().is_ok()
        };
        locals.chain(default).find(there)
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

/// `STEM.N.EXT` of the result `STEM.EXT`: a flight recorder writes several.
fn numbered(name: &str, local: &Path, first: &str) -> Option<PathBuf> {
    let (stem, extension) = name.rsplit_once('.').map_or((name, ""), |(s, e)| (s, e));
    let rest = first.strip_prefix(stem)?.strip_prefix('.')?;
    let number = match extension {
        "" => rest,
        extension => rest.strip_suffix(extension)?.strip_suffix('.')?,
    };
    number.parse::<u32>().ok()?;
    let mut here = local.file_stem().unwrap_or_default().to_owned();
    here.push(format!(".{number}"));
    if let Some(extension) = local.extension() {
        here.push(".");
        here.push(extension);
    }
    Some(local.with_file_name(here))
}

/// Whether a name is one of [`Mapping::rewrite`]'s: `out0-…`.
fn is_result(name: &str) -> bool {
    name.strip_prefix("out")
        .and_then(|rest| rest.split_once('-'))
        .is_some_and(|(number, _)| number.parse::<u8>().is_ok())
}

/// Characters that reorder those behind them (UAX #9).
const REORDERING: [char; 11] = [
    '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}',
    '\u{2067}', '\u{2068}', '\u{2069}',
];

/// Whether a browser would show it, with what is in it.
fn is_page(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    ["html", "htm", "xhtml", "xht", "xml", "svg", "mht", "mhtml", "pdf"]
        .iter()
        .any(|page| extension.eq_ignore_ascii_case(page))
}

/// Writes files as they arrive.
#[derive(Debug)]
pub struct Receiver {
    root: PathBuf,
    mapping: Mapping,
    open: Option<Arriving>,
    entries: u32,
    bytes: u64,
    /// Folders that this receiver made.
    made: Vec<PathBuf>,
    /// Folders in which it made a file or a folder.
    entered: BTreeSet<PathBuf>,
    /// Every file that was written, relative to the root or as the user named it.
    pub written: Vec<PathBuf>,
    /// Run directories of the target whose name was taken here, and their names here: guests
    /// whose clock always starts at the same moment name their runs alike.
    pub moved: Vec<(String, String)>,
    /// Run directories that arrived under their own name.
    own: Vec<String>,
}

#[derive(Debug)]
struct Arriving {
    path: PathBuf,
    /// `None` for a page, which is not taken.
    file: Option<File>,
    left: u64,
}

impl Receiver {
    /// Files go below `root` (the user's working directory), unless the mapping says otherwise.
    pub fn new(root: &Path, mapping: Mapping) -> Self {
        Self {
            root: root.to_path_buf(),
            mapping,
            open: None,
            entries: 0,
            bytes: 0,
            made: Vec::new(),
            entered: BTreeSet::new(),
            written: Vec::new(),
            moved: Vec::new(),
            own: Vec::new(),
        }
    }

    /// A file or folder begins.
    ///
    /// # Errors
    /// A name that was not requested or is there already, an earlier file that is not complete,
    /// more files or bytes than are taken; whatever the file system says.
    pub fn begin(&mut self, path: &str, length: u64, directory: bool) -> Result<()> {
        self.end()?;
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(length);
        if self.entries > ENTRIES_MAX || self.bytes > BYTES_MAX {
            let most = format!("{ENTRIES_MAX} files of {} GiB", BYTES_MAX >> 30);
            return Err(refused(path, &format!("the target sends more than {most}")));
        }
        let shown = Some(path).filter(|path| path.len() <= PATH_MAX);
        let shown = shown.and_then(|path| self.mapping.local(path)).ok_or_else(|| {
            refused(path, "the target sent a file that was not requested; it was not written")
        })?;
        let shown = self.beside_what_is_there(shown);
        let local = self.root.join(&shown);
        if directory {
            return self.make_folders(&local);
        }
        if is_page(&local) {
            self.open = Some(Arriving { path: local, file: None, left: length });
            return Ok(());
        }
        if let Some(parent) = local.parent() {
            self.make_folders(parent)?;
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&local);
        let file = file.map_err(|reason| match reason.kind() {
            io::ErrorKind::AlreadyExists => TargetError::Content {
                path: local.clone(),
                reason: "is there already; files from a target replace nothing".into(),
                hint: "name another directory or file, or move this one away".into(),
            },
            _ => TargetError::file(&local)(reason),
        })?;
        self.enter(&local);
        self.written.push(shown);
        self.open = Some(Arriving { path: local, file: Some(file), left: length });
        Ok(())
    }

    /// Makes a folder and those above it, one at a time: below the first that is new, all are ours.
    fn make_folders(&mut self, folder: &Path) -> Result<()> {
        if folder.as_os_str().is_empty() || self.made.iter().any(|made| made == folder) {
            return Ok(());
        }
        if folder.is_dir() {
            return Ok(());
        }
        if let Some(parent) = folder.parent() {
            self.make_folders(parent)?;
        }
        fs::create_dir(folder).map_err(TargetError::file(folder))?;
        self.enter(folder);
        self.made.push(folder.to_path_buf());
        Ok(())
    }

    /// Keeps in mind that the folder of a path has a new name.
    fn enter(&mut self, path: &Path) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.entered.insert(parent.unwrap_or(Path::new(".")).to_path_buf());
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
    ///
    /// # Errors
    /// More bytes than were declared; whatever the file system says.
    pub fn data(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(arriving) = &mut self.open else {
            return Err(refused("", "the target sent data that belong to no file"));
        };
        let path = &arriving.path;
        arriving.left = arriving.left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            refused(&path.to_string_lossy(), "the target sent more than the length it declared")
        })?;
        match &mut arriving.file {
            Some(file) => file.write_all(bytes).map_err(TargetError::file(path)),
            None => Ok(()),
        }
    }

    /// The last file is complete, and on the disk.
    ///
    /// # Errors
    /// When bytes of it are missing; whatever the file system says.
    pub fn end(&mut self) -> Result<()> {
        match self.open.take() {
            Some(Arriving { path, left: missing @ 1.., .. }) => Err(refused(
                &path.to_string_lossy(),
                &format!("the target sent {missing} bytes less than the length it declared"),
            )),
            Some(Arriving { path, file: Some(file), .. }) => {
                file.sync_all().map_err(TargetError::file(&path))
            }
            _ => Ok(()),
        }
    }

    /// All files are complete, and they and their names are on the disk: the target's may be removed.
    ///
    /// # Errors
    /// Those of [`Self::end`].
    pub fn finish(&mut self) -> Result<()> {
        self.end()?;
        for folder in std::mem::take(&mut self.entered) {
            // A user may write to one that he may not read.
            let Ok(open) = File::open(&folder) else { continue };
            match open.sync_all() {
                // Some file systems (9p, FUSE) cannot sync a folder.
                Err(reason) if !CANNOT_SYNC.contains(&reason.kind()) => {
                    return Err(TargetError::file(&folder)(reason));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Directories into which a `run.json` was written.
    pub fn run_directories(&self) -> Vec<PathBuf> {
        let runs = self.written.iter().filter(|path| path.ends_with("run.json"));
        runs.filter_map(|path| Some(self.root.join(path.parent()?))).collect()
    }
}

fn refused(path: &str, reason: &str) -> TargetError {
    let shown = path.chars().filter(|c| !c.is_control()).take(PATH_MAX).collect::<String>();
    TargetError::Content {
        path: if shown.is_empty() { "(no name)".into() } else { shown.into() },
        reason: reason.into(),
        hint: "the software on the target is damaged, of another version, or hostile".into(),
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
    fn glued_options_and_all_results_are_mapped() {
        let args = strings(&["wakeup", "--samples=s.csv", "-o/data/a.dat"]);
        let (rewritten, mapping) = Mapping::rewrite(&args);
        assert_eq!(rewritten, strings(&["wakeup", "--samples=out0-s.csv", "-oout1-a.dat"]));
        assert_eq!(mapping.local("out0-s.csv"), Some("s.csv".into()));
        // A flight recorder writes several files.
        assert_eq!(mapping.local("out1-a.2.dat"), Some("/data/a.2.dat".into()));
        assert_eq!(mapping.local("out1-a.x.dat"), None);
        assert_eq!(mapping.local("out1-a.2.dat/x"), None);
    }

    #[test]
    fn only_what_was_requested_is_accepted() {
        let (_, mapping) = Mapping::rewrite(&strings(&["wakeup", "--out", "r"]));
        let refused = [
            ".bashrc",
            ".ssh/authorized_keys",
            ".git/hooks/pre-commit",
            "Makefile",
            "bin/ssh",
            "trace.dat",
            "runs/../x",
            "runs/x\u{1b}[31m/run.json",
            "runs/x/\u{202e}nosj.nur",
            "runs/x/a\nb",
            "runs/.x/run.json",
            "runs/x/.hidden",
            "out0-r/.hidden",
            "out1-x",
            "../x",
            "/etc/x",
            "a/../../x",
            "",
            "runs/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16",
        ];
        for name in refused {
            assert_eq!(mapping.local(name), None, "{name:?}");
        }
        assert!(mapping.local("runs/x/captures/1.dat").is_some());
        let record = Mapping::default().with_default_recording();
        assert!(record.local("trace.dat").is_some() && record.local("trace.2.dat").is_some());
        assert!(record.local("trace.dat/x").is_none() && record.local("x.dat").is_none());
        let fetched = Mapping::of_fetched_run();
        assert!(fetched.local("out0-here/run.json").is_some() && fetched.local("x").is_none());
        let own = Mapping::of_own_command();
        assert!(own.local("x/y").is_some() && own.local(".bashrc").is_none());
    }

    #[test]
    fn nothing_that_is_there_is_replaced_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        let (_, mapping) = Mapping::rewrite(&strings(&["record", "-o", "link"]));
        std::os::unix::fs::symlink(&victim, dir.path().join("link")).unwrap();
        assert_eq!(mapping.taken(dir.path()), Some(dir.path().join("link")));
        let mut receiver = Receiver::new(dir.path(), mapping);
        let error = receiver.begin("out0-link", 1, false).unwrap_err().to_string();
        assert!(error.ends_with("link: is there already; files from a target replace nothing"));
        // A link to nothing is not followed either.
        fs::remove_file(&victim).unwrap();
        assert!(receiver.begin("out0-link", 1, false).is_err());
        assert!(!victim.exists());
    }

    #[test]
    fn a_page_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let mut receiver = Receiver::new(dir.path(), Mapping::default());
        for name in [
            "runs/x/report.html",
            "runs/x/run.json",
            "runs/x/p.SVG",
            "runs/x/q.xht",
            "runs/x/r.xml",
        ] {
            receiver.begin(name, 2, false).unwrap();
            receiver.data(b"ok").unwrap();
        }
        receiver.end().unwrap();
        assert_eq!(receiver.written, [PathBuf::from("runs/x/run.json")]);
        assert_eq!(receiver.run_directories(), [dir.path().join("runs/x")]);
        assert_eq!(fs::read_dir(dir.path().join("runs/x")).unwrap().count(), 1);
    }

    #[test]
    fn declared_lengths_and_numbers_are_enforced() {
        let dir = tempfile::tempdir().unwrap();
        let mut receiver = Receiver::new(dir.path(), Mapping::default());
        assert!(receiver.data(b"x").is_err());
        receiver.begin("runs/x/a", 2, false).unwrap();
        let more = receiver.data(b"abc").unwrap_err().to_string();
        assert!(more.contains("more than the length it declared"), "{more}");
        receiver.begin("runs/x/b", 2, false).unwrap_err();
        receiver.begin("runs/x/b", 2, false).unwrap();
        receiver.data(b"a").unwrap();
        let less = receiver.end().unwrap_err().to_string();
        assert!(less.contains("1 bytes less than"), "{less}");
        assert!(receiver.begin("runs/x/c", u64::MAX, false).is_err());
        let mut many = Receiver::new(dir.path(), Mapping::default());
        let folders = (0..=ENTRIES_MAX).map(|_| many.begin("runs/y", 0, true).is_ok());
        assert_eq!(folders.filter(|ok| *ok).count(), ENTRIES_MAX as usize);
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
