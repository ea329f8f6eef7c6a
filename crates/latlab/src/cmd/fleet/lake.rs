//! The directory of a lake: who writes, which files are whole, how files become fewer.
//!
//! ```text
//! LAKE/_latlab/lake.json                     version; its lock is held by the one who writes
//! LAKE/TABLE/date=2026-03-01/part-….parquet  one file an import and day, of one name in all tables
//! ```
//!
//! The files of an import get their names after all are written and synced, those of `run` last: a file
//! of another table without one of `run` is what an interrupted import left, and the next writer removes it.
//! Compaction writes down which files it replaces before the new ones get their names. Both are finished,
//! or undone, by whoever writes next. Nothing here needs more than rename(2), fsync(2) and a lock, so a
//! lake may be on NFS.

use crate::cli::Global;
use crate::outcome::{HintExt, Outcome, format_error_chain};
use crate::rundir::{self, RUN_FILE, Replacements, write_atomically};
use crate::{output, term};
use anyhow::{Context, anyhow};
use latlab_analysis::fleet::lake_rows::{self, Origin};
use latlab_export::lake as tables;
use latlab_model::lake::{RUN, Row, RunRows, TABLES, VERSION};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Rows that an import keeps in memory before it writes them.
const BATCH: usize = 300_000;
/// Rows of one table that compaction joins into one file.
const JOINED: u64 = 2_000_000;
/// Largest `run.json` that is read.
pub const RUN_BYTES: u64 = 64 << 20;
/// Directories below the one that is imported, at most.
const DEPTH: usize = 16;

const STATE: &str = "_latlab";

/// What `lake.json` has.
#[derive(Serialize, Deserialize)]
struct Head {
    version: i64,
}

/// Files that compaction replaces, by day: the new name and the earlier ones.
type Journal = BTreeMap<String, (String, Vec<String>)>;

/// A lake that nobody else writes to.
struct Lake {
    dir: PathBuf,
    /// Locked until it is dropped.
    _lock: File,
}

impl Lake {
    /// Opens a lake for writing and finishes what an interrupted writer left.
    fn open(dir: &Path, make: bool) -> anyhow::Result<Self> {
        let head = dir.join(STATE).join("lake.json");
        if !head.exists() {
            let empty = fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
            if !make || !empty {
                return Err(anyhow!("--lake {}: no lake", dir.display()))
                    .hint("name a lake, or a new directory: latlab fleet import makes it");
            }
            fs::create_dir_all(dir.join(STATE))
                .and_then(|()| {
                    write_atomically(&head, |out| {
                        Ok(serde_json::to_writer(out, &Head { version: VERSION })?)
                    })
                })
                .with_context(|| format!("--lake {}: cannot be made", dir.display()))
                .hint("name a directory that this user may write to")?;
        }
        // NFS locks only a file that is open for writing.
        let lock = File::options()
            .read(true)
            .write(true)
            .open(&head)
            .with_context(|| format!("{}: cannot be written", head.display()))
            .hint("name a lake that this user may write to")?;
        lock.try_lock()
            .map_err(|_| anyhow!("--lake {}: another process writes to it", dir.display()))
            .hint("wait until it has ended")?;
        check(&head)?;
        let lake = Self { dir: dir.to_owned(), _lock: lock };
        lake.recover().with_context(|| format!("--lake {}", dir.display()))?;
        Ok(lake)
    }

    fn file(&self, table: &str, date: &str, part: &str) -> PathBuf {
        file(&self.dir, table, date, part)
    }

    /// Names of the files of a table, by day.
    fn parts(&self, table: &str) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        parts(&self.dir, table)
    }

    fn journal(&self) -> PathBuf {
        self.dir.join(STATE).join("compaction.json")
    }

    fn recover(&self) -> anyhow::Result<()> {
        if let Ok(text) = fs::read(self.journal()) {
            let journal: Journal = serde_json::from_slice(&text).context("compaction.json")?;
            self.finish(&journal)?;
        }
        let whole = self.parts(RUN.name)?;
        for table in &TABLES[1..] {
            for (date, parts) in self.parts(table.name)? {
                let known = whole.get(&date);
                for part in parts.iter().filter(|p| !known.is_some_and(|k| k.contains(p))) {
                    fs::remove_file(self.file(table.name, &date, part))?;
                }
            }
        }
        Ok(())
    }

    /// Removes the files that compaction replaced, where the new ones have their names.
    fn finish(&self, journal: &Journal) -> anyhow::Result<()> {
        for (date, (new, old)) in journal {
            let plain = |name: &str| !name.contains('/') && !name.starts_with('.');
            let known = plain(date) && plain(new) && old.iter().all(|o| plain(o) && o != new);
            if !known || !self.file(RUN.name, date, new).exists() {
                continue;
            }
            for part in old {
                for table in &TABLES {
                    let file = self.file(table.name, date, part);
                    if file.exists() {
                        fs::remove_file(file)?;
                    }
                }
            }
        }
        Ok(fs::remove_file(self.journal())?)
    }

    /// Digest of each run.
    fn known(&self) -> anyhow::Result<HashMap<String, i64>> {
        let mut known = HashMap::new();
        for (date, parts) in self.parts(RUN.name)? {
            for part in parts {
                let path = self.file(RUN.name, &date, &part);
                let file = File::open(&path).with_context(|| path.display().to_string())?;
                let rows = tables::read(&RUN, &["run", "digest"], file)
                    .with_context(|| path.display().to_string())?;
                known.extend(rows.iter().map(|r| (r[0].text().to_owned(), r[1].int())));
            }
        }
        Ok(known)
    }

    /// Writes runs, all or none.
    fn add(&self, batch: &mut Vec<RunRows>) -> anyhow::Result<()> {
        let mut days: BTreeMap<String, [Vec<Row>; 5]> = BTreeMap::new();
        let mut ids = Vec::new();
        for run in batch.drain(..) {
            let day = days.entry(run.date).or_default();
            ids.push(run.id);
            for (all, mut rows) in day.iter_mut().zip(run.rows) {
                all.append(&mut rows);
            }
        }
        ids.sort();
        let part = part_name(&ids);
        let mut files = Replacements::default();
        // `run` is created first: names are given in the opposite order.
        for (i, table) in TABLES.iter().enumerate() {
            for (date, rows) in &mut days {
                let file = files.create(&self.file(table.name, date, &part))?;
                tables::write(table, &mut rows[i], file)?;
            }
        }
        Ok(files.commit()?)
    }

    /// Joins files of one day; how many became how many.
    fn join(&self, date: &str, old: &[String]) -> anyhow::Result<()> {
        let new = part_name(old);
        let mut files = Replacements::default();
        for table in TABLES {
            let all: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
            let mut rows = Vec::new();
            for part in old {
                let path = self.file(table.name, date, part);
                let file = File::open(&path).with_context(|| path.display().to_string())?;
                let mut some =
                    tables::read(table, &all, file).with_context(|| path.display().to_string())?;
                rows.append(&mut some);
            }
            let file = files.create(&self.file(table.name, date, &new))?;
            tables::write(table, &mut rows, file)?;
        }
        let journal: Journal = [(date.to_owned(), (new, old.to_vec()))].into();
        write_atomically(&self.journal(), |out| Ok(serde_json::to_writer(out, &journal)?))?;
        files.commit()?;
        self.finish(&journal)
    }

    /// Files of a day that fit into one, group by group.
    fn groups(&self, date: &str, parts: &[String]) -> anyhow::Result<Vec<Vec<String>>> {
        let (mut out, mut group, mut rows) = (Vec::new(), Vec::new(), 0);
        for part in parts {
            let mut largest = 0;
            for table in TABLES {
                let path = self.file(table.name, date, part);
                let file = File::open(&path).with_context(|| path.display().to_string())?;
                let count =
                    tables::count(table, file).with_context(|| path.display().to_string())?;
                largest = largest.max(count);
            }
            if rows + largest > JOINED {
                out.push(std::mem::take(&mut group));
                rows = 0;
            }
            rows += largest;
            group.push(part.clone());
        }
        out.push(group);
        out.retain(|group| group.len() > 1);
        Ok(out)
    }
}

/// Path of a file of a table.
pub fn file(lake: &Path, table: &str, date: &str, part: &str) -> PathBuf {
    lake.join(table).join(format!("date={date}")).join(part)
}

/// Names of the files of a table, by day.
///
/// # Errors
/// When a directory cannot be read.
pub fn parts(lake: &Path, table: &str) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut out = BTreeMap::new();
    let dir = lake.join(table);
    if !dir.exists() {
        return Ok(out);
    }
    for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(date) = name.strip_prefix("date=") else { continue };
        let mut parts: Vec<String> = fs::read_dir(dir.join(&name))?
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|n| n.starts_with("part-") && n.ends_with(".parquet"))
            .collect();
        parts.sort();
        out.insert(date.to_owned(), parts);
    }
    Ok(out)
}

/// That a lake is one that this version can read.
///
/// # Errors
/// When it is none, or a later one.
pub fn check(head: &Path) -> anyhow::Result<()> {
    let text = fs::read(head).with_context(|| head.display().to_string())?;
    let found: Head = serde_json::from_slice(&text)
        .with_context(|| format!("{}: damaged", head.display()))
        .hint("name a lake that latlab fleet import made")?;
    if found.version > VERSION {
        return Err(anyhow!(
            "{}: has version {} of the tables; this latlab reads up to {VERSION}",
            head.display(),
            found.version
        ))
        .hint("use the version that wrote it, or a newer one");
    }
    Ok(())
}

/// The path of a lake's head, where there is one.
///
/// # Errors
/// When there is no lake.
pub fn existing(dir: &Path) -> anyhow::Result<()> {
    let head = dir.join(STATE).join("lake.json");
    if !head.exists() {
        return Err(anyhow!("--lake {}: no lake", dir.display()))
            .hint("latlab fleet import --lake DIR RUNS makes one");
    }
    check(&head)
}

/// A name made from what a file has: an import that is repeated after a crash replaces its own files.
fn part_name(of: &[String]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in of.iter().flat_map(|t| t.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("part-{hash:016x}.parquet")
}

/// Every directory with a run below one. Links are not followed.
fn find(dir: &Path, depth: usize, out: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(dir)
        .with_context(|| format!("{}: cannot be read", dir.display()))
        .hint("name a directory with runs below it")?;
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_file() && entry.file_name() == RUN_FILE {
            out.push(entry.path());
        } else if kind.is_dir() && depth < DEPTH {
            find(&entry.path(), depth + 1, out)?;
        }
    }
    Ok(())
}

/// To which experiment a run belongs: `origin.json` beside it, which a campaign writes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OriginFile {
    campaign: String,
    experiment: String,
    kernel: String,
}

fn load(path: &Path, today: &str) -> anyhow::Result<RunRows> {
    let size = fs::metadata(path).with_context(|| path.display().to_string())?.len();
    if size > RUN_BYTES {
        return Err(anyhow!("{}: larger than {} MiB", path.display(), RUN_BYTES >> 20))
            .hint("no run of latlab is that large");
    }
    let run = rundir::load(path)?;
    let origin = match fs::metadata(path.with_file_name("origin.json")) {
        Ok(meta) if meta.is_file() && meta.len() < 4096 => {
            let text = fs::read(path.with_file_name("origin.json"))?;
            serde_json::from_slice::<OriginFile>(&text)
                .with_context(|| format!("{}: its origin.json", path.display()))?
        }
        _ => OriginFile::default(),
    };
    let origin =
        Origin { campaign: origin.campaign, experiment: origin.experiment, kernel: origin.kernel };
    lake_rows::of_run(&run, &origin, today).with_context(|| path.display().to_string())
}

/// That a lake would take a run.
///
/// # Errors
/// The first field that is outside of its limits.
pub fn accept(run: &latlab_model::run::Run) -> anyhow::Result<()> {
    lake_rows::of_run(run, &Origin::default(), &tomorrow())?;
    Ok(())
}

/// Tomorrow in UTC: clocks of boards may be ahead by a time zone.
fn tomorrow() -> String {
    let now = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    humantime::format_rfc3339_seconds(now).to_string()[..10].to_owned()
}

#[derive(Default, Serialize)]
struct Imported {
    added: u64,
    already_stored: u64,
    refused: u64,
}

/// Adds every run below some directories.
///
/// # Errors
/// When the lake cannot be written; at the end, when another run is stored under the identifier of one.
pub fn import(global: &Global, dir: &Path, sources: &[PathBuf]) -> anyhow::Result<Outcome> {
    let mut paths = Vec::new();
    for source in sources {
        find(source, 0, &mut paths)?;
    }
    paths.sort();
    if paths.is_empty() {
        return Err(anyhow!("{}: no run.json in it or below it", sources[0].display()))
            .hint("runs are saved in runs/ of the directory where latlab was started");
    }
    let lake = Lake::open(dir, true)?;
    let mut known = lake.known()?;
    let (mut done, mut conflict, mut batch, mut rows) = (Imported::default(), None, Vec::new(), 0);
    let today = tomorrow();
    let write = |batch: &mut Vec<RunRows>| {
        lake.add(batch)
            .with_context(|| format!("--lake {}: cannot be written", dir.display()))
            .hint("free some space, or name a directory that this user may write to")
    };
    for path in &paths {
        let refused = match load(path, &today) {
            Ok(run) => match known.get(&run.id) {
                Some(digest) if [run.digest, run.digest_with_out].contains(digest) => {
                    done.already_stored += 1;
                    continue;
                }
                Some(_) => {
                    conflict.get_or_insert_with(|| path.clone());
                    anyhow!("{}: another run is stored under its id {}", path.display(), run.id)
                }
                None => {
                    known.insert(run.id.clone(), run.digest);
                    rows += run.rows.iter().map(Vec::len).sum::<usize>();
                    batch.push(run);
                    done.added += 1;
                    if rows > BATCH {
                        write(&mut batch)?;
                        rows = 0;
                    }
                    continue;
                }
            },
            Err(error) => error,
        };
        done.refused += 1;
        let _ = writeln!(term::stderr(), "latlab: left out: {}", format_error_chain(&refused));
    }
    if !batch.is_empty() {
        write(&mut batch)?;
    }
    told(global, &done, |out| {
        write!(out, "{} runs added, {} already stored", done.added, done.already_stored)?;
        if done.refused > 0 {
            write!(out, ", {} left out", done.refused)?;
        }
        writeln!(out)
    })?;
    match conflict {
        Some(path) => Err(anyhow!("{}: another run is stored under its id", path.display()))
            .hint("a copied or changed run.json: the run that was stored first is kept"),
        None => Ok(Outcome::Done),
    }
}

fn told(
    global: &Global,
    data: &impl Serialize,
    text: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = term::raw_stdout();
    if global.json {
        output::json(data, &mut out)?;
    } else {
        text(&mut out)?;
    }
    Ok(out.flush()?)
}

#[derive(Default, Serialize)]
struct Compacted {
    files_before: usize,
    files_after: usize,
}

/// Joins files of each day.
///
/// # Errors
/// When a file is damaged or cannot be written.
pub fn compact(global: &Global, dir: &Path) -> anyhow::Result<Outcome> {
    existing(dir)?;
    let lake = Lake::open(dir, false)?;
    let mut done = Compacted::default();
    for (date, parts) in lake.parts(RUN.name)? {
        done.files_before += parts.len() * TABLES.len();
        done.files_after += parts.len() * TABLES.len();
        for group in lake.groups(&date, &parts)? {
            lake.join(&date, &group)
                .with_context(|| format!("--lake {}: cannot be compacted", dir.display()))
                .hint("nothing is lost: the earlier files are there")?;
            done.files_after -= (group.len() - 1) * TABLES.len();
        }
    }
    told(global, &done, |out| {
        writeln!(out, "{} files became {}", done.files_before, done.files_after)
    })?;
    Ok(Outcome::Done)
}
