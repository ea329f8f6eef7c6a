//! Kernels or modules from a git tree: one build for each commit, in a clone of our own, and kept.
//!
//! The user's working tree is not touched: the clone borrows the objects of the repository (`git clone --shared`) and
//! stays in the cache, so that a build goes on from the one before it. What was built is kept for each commit under
//! the hash of repository and command.

use crate::cache::{Cache, Lock, digest};
use crate::{Result, TargetError};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Commits that a list has at most.
const COMMITS_MAX: usize = 1_000_000;

/// A git repository whose commits are built.
#[derive(Debug)]
pub struct Tree {
    repository: PathBuf,
    build: String,
    clone: PathBuf,
    built: PathBuf,
    log: PathBuf,
    _lock: Lock,
}

/// One commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its whole id.
    pub id: String,
    /// First line of its message.
    pub subject: String,
}

/// Runs a program to its end.
pub type Execute<'a> = dyn FnMut(&mut Command) -> io::Result<ExitStatus> + 'a;

impl Tree {
    /// The clone of a repository whose commits this shell command builds. Waits for another process that builds there.
    ///
    /// # Errors
    /// When it is no repository, or the clone cannot be made.
    pub fn open(cache: &Cache, repository: &Path, build: &str) -> Result<Self> {
        let repository = repository.canonicalize().map_err(TargetError::file(repository))?;
        let key = [repository.as_os_str().as_encoded_bytes(), build.as_bytes()];
        let key = &digest(key)[..32];
        let lock = cache.lock(&format!("bisect-{key}"))?;
        let folder = cache.folder(&format!("bisect/{key}"))?;
        let tree = Self {
            clone: folder.join("tree"),
            built: cache.folder(&format!("bisect/{key}/built"))?,
            log: folder.join("build.log"),
            build: build.to_owned(),
            repository,
            _lock: lock,
        };
        git(&tree.repository, &["rev-parse", "--git-dir"])?;
        if !tree.clone.exists() {
            let part = tree.clone.with_extension("part");
            remove(&part).map_err(TargetError::file(&part))?;
            let mut command = Command::new("git");
            command.args(["clone", "--quiet", "--shared", "--no-checkout", "--"]);
            output(command.arg(&tree.repository).arg(&part))?;
            fs::rename(&part, &tree.clone).map_err(TargetError::file(&tree.clone))?;
        }
        Ok(tree)
    }

    /// The commits from `good` to `bad`, both among them, along first parents.
    ///
    /// # Errors
    /// When one does not exist, or `good` is no ancestor of `bad` along first parents.
    pub fn commits(&self, good: &str, bad: &str) -> Result<Vec<Commit>> {
        let [good, bad] = [self.commit(good)?, self.commit(bad)?];
        let range = format!("{good}..{bad}");
        let log = ["log", "--first-parent", "--reverse", "--format=%H %P", &range];
        let text = git(&self.repository, &log)?;
        let mut lines = text.lines();
        // The first one's first parent is the good one, or the good one is on another branch.
        let parent = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
        if parent != good {
            return Err(self.wrong(
                format!("{good} is not before {bad} along first parents"),
                "name a good commit of the same branch, the older one",
            ));
        }
        let count = 2 + lines.count();
        if count > COMMITS_MAX {
            return Err(self.wrong(format!("{count} commits"), "choose a later good one"));
        }
        let first = ["log", "-1", "--format=%H %s", &good];
        let rest = ["log", "--first-parent", "--reverse", "--format=%H %s", &range];
        let text = git(&self.repository, &first)? + &git(&self.repository, &rest)?;
        let commit = |line: &str| {
            let (id, subject) = line.split_once(' ').unwrap_or((line, ""));
            Commit {
                id: id.to_owned(),
                subject: subject.chars().filter(|c| !c.is_control()).collect(),
            }
        };
        Ok(text.lines().map(commit).collect())
    }

    fn commit(&self, revision: &str) -> Result<String> {
        let name = format!("{revision}^{{commit}}");
        let found =
            git(&self.repository, &["rev-parse", "--verify", "--quiet", "--end-of-options", &name]);
        match found {
            Ok(id) if !id.trim().is_empty() => Ok(id.trim().to_owned()),
            _ => Err(self.wrong(format!("no commit {revision}"), "git log shows the commits")),
        }
    }

    fn wrong(&self, reason: String, hint: &str) -> TargetError {
        TargetError::Content { path: self.repository.clone(), reason, hint: hint.into() }
    }

    /// Builds a commit, unless that was done before, and returns the folder with these results of the build, each
    /// below its path in the tree.
    ///
    /// # Errors
    /// When a result's path leaves the tree, the commit cannot be checked out, the command fails, or a result is missing
    /// after it.
    pub fn build(
        &self,
        commit: &Commit,
        results: &[PathBuf],
        execute: &mut Execute<'_>,
    ) -> Result<PathBuf> {
        let leaves = |p: &PathBuf| p.components().any(|c| !matches!(c, Component::Normal(_)));
        if let Some(path) = results.iter().find(|p| leaves(p)) {
            return Err(self.wrong(
                format!("{}: not a path below the tree", path.display()),
                "name results of the build by their paths in the tree",
            ));
        }
        let folder = self.built.join(&commit.id);
        if results.iter().all(|path| folder.join(path).exists()) {
            return Ok(folder);
        }
        git(&self.clone, &["checkout", "--quiet", "--force", "--detach", &commit.id])?;
        // What an earlier commit's build left is no result of this one.
        for path in results {
            remove(&self.clone.join(path)).map_err(TargetError::file(path))?;
        }
        let log = fs::File::create(&self.log).map_err(TargetError::file(&self.log))?;
        let errors = log.try_clone().map_err(TargetError::file(&self.log))?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &self.build]).current_dir(&self.clone).stdin(Stdio::null());
        let status = execute(command.stdout(log).stderr(errors))
            .map_err(TargetError::file(Path::new("/bin/sh")))?;
        if !status.success() {
            return Err(TargetError::Program {
                program: "the build".into(),
                message: self.complaint().unwrap_or_else(|| status.to_string()),
                hint: format!("its output is in {}", self.log.display()),
            });
        }
        self.keep(&folder, results)?;
        Ok(folder)
    }

    /// Copies results to a commit's folder, all or none.
    fn keep(&self, folder: &Path, results: &[PathBuf]) -> Result<()> {
        let part = folder.with_extension("part");
        remove(&part).map_err(TargetError::file(&part))?;
        for path in results {
            let from = self.clone.join(path);
            if !from.exists() {
                let reason = "the build has not made it".into();
                let hint = "name it by its path in the tree, as the build command makes it".into();
                return Err(TargetError::Content { path: path.clone(), reason, hint });
            }
            copy(&from, &part.join(path)).map_err(TargetError::file(&from))?;
        }
        remove(folder).map_err(TargetError::file(folder))?;
        fs::rename(&part, folder).map_err(TargetError::file(folder))
    }

    /// The first error of the last build; without one its last line.
    fn complaint(&self) -> Option<String> {
        let text = fs::read(&self.log).ok()?;
        let text = String::from_utf8_lossy(&text);
        let filled = || text.lines().filter(|line| !line.trim().is_empty());
        let is_error = |line: &&str| line.contains("error:") || line.contains("Error:");
        let line = filled().find(is_error).or_else(|| filled().next_back())?.trim();
        let line = line.strip_prefix(&format!("{}/", self.clone.display())).unwrap_or(line);
        Some(line.chars().filter(|c| !c.is_control()).take(200).collect())
    }
}

/// A commit's id as it is shown.
pub fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Removes a file or folder that may not be there.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    removed.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// Copies a file, or a folder with all that is below it. A link is followed, but not one to a folder below:
/// `lib/modules/RELEASE/build` leads out of the results.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if !fs::metadata(from)?.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let is_link = entry.file_type()?.is_symlink();
        let leads_away = is_link && fs::metadata(entry.path()).map_or(true, |found| found.is_dir());
        if !leads_away {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// What git prints in a folder.
fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    output(Command::new("git").arg("-C").arg(folder).args(arguments))
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => TargetError::NoProgram {
            program: "git".into(),
            purpose: "building the commits of a tree".into(),
            package: "git".into(),
        },
        _ => TargetError::File { path: "git".into(), reason: source },
    })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
        return Err(TargetError::Program {
            program: "git".into(),
            message: line.trim_start_matches("fatal: ").to_owned(),
            hint: "--git names the folder of a git repository".into(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with a commit for each content of `kernel`; the empty one has none, and its build fails.
    fn repository(dir: &Path, contents: &[&str]) -> PathBuf {
        let tree = dir.join("linux");
        fs::create_dir(&tree).unwrap();
        let git = |arguments: &[&str]| git(&tree, arguments).unwrap();
        git(&["init", "--quiet", "--initial-branch=main"]);
        for (n, content) in contents.iter().enumerate() {
            fs::write(tree.join("source"), content).unwrap();
            git(&["add", "source"]);
            let author = ["-c", "user.name=n", "-c", "user.email=n@example.org"];
            let message = format!("commit {n}");
            git(&[&author[..], &["commit", "--quiet", "--allow-empty", "-m", &message]].concat());
        }
        tree
    }

    fn run(command: &mut Command) -> io::Result<ExitStatus> {
        command.status()
    }

    const BUILD: &str = "mkdir -p out; test -s source || { echo \"error: no source\" >&2; echo make failed; exit 1; }; cp source out/image; echo x >> built";

    #[test]
    fn each_commit_is_built_once_and_the_users_tree_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let repository = repository(dir.path(), &["a", "b", "", "c"]);
        fs::write(repository.join("source"), "uncommitted").unwrap();
        let cache = Cache::at(dir.path().join("cache"));
        let tree = Tree::open(&cache, &repository, BUILD).unwrap();
        let commits = tree.commits("HEAD~3", "main").unwrap();
        let subjects: Vec<&str> = commits.iter().map(|c| c.subject.as_str()).collect();
        assert_eq!(subjects, ["commit 0", "commit 1", "commit 2", "commit 3"]);
        let image = [PathBuf::from("out/image")];
        for (n, content) in [(1, "b"), (3, "c"), (1, "b")] {
            let folder = tree.build(&commits[n], &image, &mut run).unwrap();
            assert_eq!(fs::read_to_string(folder.join("out/image")).unwrap(), content);
        }
        let error = tree.build(&commits[2], &image, &mut run).unwrap_err();
        assert!(error.to_string().ends_with("failed: error: no source"), "{error}");
        // The tree that is built in stays, so that builds go on from each other.
        assert_eq!(fs::read_to_string(tree.clone.join("built")).unwrap(), "x\nx\n");
        assert_eq!(fs::read_to_string(repository.join("source")).unwrap(), "uncommitted");
        assert!(!repository.join("out").exists() && !repository.join(".git/worktrees").exists());
        // A second process goes on with both.
        drop(tree);
        let tree = Tree::open(&cache, &repository, BUILD).unwrap();
        let mut never = |_: &mut Command| panic!("it is built");
        tree.build(&commits[3], &image, &mut never).unwrap();
    }

    #[test]
    fn what_the_build_does_not_make_is_an_error_of_that_commit() {
        let dir = tempfile::tempdir().unwrap();
        let repository = repository(dir.path(), &["a", "b"]);
        let cache = Cache::at(dir.path().join("cache"));
        let tree =
            Tree::open(&cache, &repository, "test $(cat source) = b || cp source image").unwrap();
        let commits = tree.commits("main~1", "main").unwrap();
        let image = [PathBuf::from("image")];
        tree.build(&commits[0], &image, &mut run).unwrap();
        // The image of the commit before is still there when this one's build makes none.
        let error = tree.build(&commits[1], &image, &mut run).unwrap_err().to_string();
        assert!(error.contains("the build has not made it"), "{error}");
        let outside = tree.build(&commits[0], &["../x".into()], &mut run).unwrap_err().to_string();
        assert!(outside.contains("not a path below the tree"), "{outside}");
    }

    #[test]
    fn wrong_revisions_and_folders_are_one_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let repository = repository(dir.path(), &["a", "b"]);
        let cache = Cache::at(dir.path().join("cache"));
        let tree = Tree::open(&cache, &repository, "true").unwrap();
        for (good, bad, reason) in [
            ("main", "main~1", "is not before"),
            ("main", "main", "is not before"),
            ("nosuch", "main", "no commit nosuch"),
            ("--all", "main", "no commit --all"),
        ] {
            let error = tree.commits(good, bad).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let none = Tree::open(&cache, dir.path(), "true").unwrap_err().to_string();
        assert!(none.contains("not a git repository"), "{none}");
    }
}
