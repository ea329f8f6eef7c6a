//! What a watch keeps on disk.
//!
//! | file | content |
//! |---|---|
//! | `current.jsonl` | a line for each second of the current hour; synced each minute |
//! | `hours/2026-11-24.jsonl` | a line for each finished hour; a restart adds none that is there already |
//! | `captures/*.dat` | captures; their names have all that is known of them |
//!
//! A line that could not be written whole is cut off again, and its counts stay in memory until the next try.

use anyhow::Context;
use latlab_analysis::watch::counts::{merge, replay};
use latlab_analysis::watch::thinning::{self, Limits};
use latlab_model::watch::{CaptureEntry, Slice};
#[cfg(any(test, feature = "host"))]
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// `current.jsonl` is read up to so many bytes: a day of seconds.
const JOURNAL: u64 = 256 << 20;
/// Between two syncs of it.
const SYNC: Duration = Duration::from_secs(60);

/// The folder of a watch.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    current: File,
    length: u64,
    synced: Instant,
    /// The sync that runs: where others write much it takes seconds, in which nobody would read the ring buffers.
    syncing: Option<JoinHandle<io::Result<()>>>,
    captures: Vec<CaptureEntry>,
    limits: Limits,
    keep_days: u32,
    /// The highest number in the lines of finished hours.
    finished: u64,
    /// The last write failed for this reason.
    pub(super) failing: Option<String>,
}

impl Store {
    /// Opens the folder, or makes it, and finishes the hours of an earlier run. The second value is the current
    /// hour as far as it was counted.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub(super) fn open(
        dir: &Path,
        limits: Limits,
        keep_days: u32,
        hour: &str,
    ) -> anyhow::Result<(Self, Slice)> {
        for folder in [dir.to_owned(), dir.join("hours"), dir.join("captures")] {
            fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        let path = dir.join("current.jsonl");
        let name = || path.display().to_string();
        let mut options = OpenOptions::new();
        let current =
            options.read(true).append(true).create(true).open(&path).with_context(name)?;
        let finished_seq = last_seq(&dir.join("hours"));
        let mut hours = replay(lines(&current, &path), finished_seq);
        let seq = hours.last().map_or(0, |h| h.seq).max(finished_seq);
        let last = match hours.last() {
            Some(last) if last.hour == hour => hours.pop(),
            _ => None,
        };
        let mut store = Self {
            dir: dir.to_owned(),
            current,
            length: 0,
            synced: Instant::now(),
            syncing: None,
            captures: Vec::new(),
            limits,
            keep_days,
            finished: finished_seq,
            failing: None,
        };
        for hour in &hours {
            store.append_hour(hour).with_context(|| dir.display().to_string())?;
        }
        store.restart_journal(last.as_ref()).with_context(name)?;
        store.captures = store.list();
        store.thin();
        let begun = last.unwrap_or_else(|| Slice { hour: hour.into(), ..Slice::default() });
        Ok((store, Slice { seq, ..begun }))
    }

    /// Adds the counts of a second. `false`: they are not written.
    pub(super) fn append(&mut self, second: &Slice) -> bool {
        let written = line(second).and_then(|text| {
            self.current.write_all(&text)?;
            self.length += text.len() as u64;
            Ok(())
        });
        if written.is_err() {
            // A line that is written in part would hide the next one.
            let _ = self.current.set_len(self.length);
            return self.tell(written);
        }
        let synced = self.sync();
        self.tell(synced);
        true
    }

    /// Begins a sync where one is due; the error of the one before.
    fn sync(&mut self) -> io::Result<()> {
        let is_running = self.syncing.as_ref().is_some_and(|s| !s.is_finished());
        if self.synced.elapsed() < SYNC || is_running {
            return Ok(());
        }
        self.synced = Instant::now();
        let before = self.syncing.take().map_or(Ok(()), |s| s.join().unwrap_or(Ok(())));
        let file = self.current.try_clone()?;
        let sync = move || file.sync_data();
        self.syncing = Some(thread::Builder::new().name("latlab-sync".into()).spawn(sync)?);
        before
    }

    /// Ends an hour: its line is written and synced before its seconds go. The journal goes on with what it has of the current
    /// hour.
    pub(super) fn finish_hour(&mut self, hour: &Slice, current: &Slice) -> bool {
        let current = Some(current).filter(|current| current.seq > hour.seq);
        let done = self.append_hour(hour).and_then(|()| self.restart_journal(current));
        self.remove_old_days(&hour.hour);
        self.tell(done)
    }

    /// Writes the line of an hour, unless that was done before.
    fn append_hour(&mut self, hour: &Slice) -> io::Result<()> {
        if hour.seq <= self.finished {
            return Ok(());
        }
        let day = hour.hour.get(..10).unwrap_or("unknown");
        let path = self.dir.join("hours").join(format!("{day}.jsonl"));
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        let before = file.metadata()?.len();
        let written =
            line(hour).and_then(|text| file.write_all(&text)).and_then(|()| file.sync_data());
        match written {
            Ok(()) => self.finished = hour.seq,
            Err(_) => drop(file.set_len(before)),
        }
        written
    }

    fn restart_journal(&mut self, first: Option<&Slice>) -> io::Result<()> {
        // Written beside it and renamed: a kill at any moment leaves the one or the other.
        let (path, new) = (self.dir.join("current.jsonl"), self.dir.join("current.new"));
        let mut file = File::create(&new)?;
        if let Some(first) = first {
            file.write_all(&line(first)?)?;
        }
        file.sync_data()?;
        fs::rename(&new, &path)?;
        self.current = OpenOptions::new().append(true).open(&path)?;
        self.length = self.current.metadata()?.len();
        Ok(())
    }

    fn remove_old_days(&self, hour: &str) {
        let days = fs::read_dir(self.dir.join("hours")).into_iter().flatten().flatten();
        let mut names: Vec<String> = days
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|n| n.len() == 16 && n.ends_with(".jsonl") && n.as_str() <= hour)
            .collect();
        names.sort();
        let surplus = names.len().saturating_sub(self.keep_days.max(1) as usize);
        for name in names.iter().take(surplus) {
            let _ = fs::remove_file(self.dir.join("hours").join(name));
        }
    }

    fn tell(&mut self, result: io::Result<()>) -> bool {
        let ok = result.is_ok();
        match result {
            Ok(()) => {
                if self.failing.take().is_some() {
                    log::warn!("{}: writing works again", self.dir.display());
                }
            }
            Err(error) => {
                if self.failing.is_none() {
                    log::warn!("{}: {error}; counts are kept in memory", self.dir.display());
                }
                self.failing = Some(format!("{}: {error}", self.dir.display()));
            }
        }
        ok
    }

    /// The captures on disk, in order of time.
    pub(super) fn captures(&self) -> &[CaptureEntry] {
        &self.captures
    }

    /// Bytes of all captures.
    pub(super) fn capture_bytes(&self) -> u64 {
        self.captures.iter().map(|c| c.bytes).sum()
    }

    /// The path of a new capture.
    pub(super) fn capture_path(&self, file: &str) -> PathBuf {
        self.dir.join("captures").join(file)
    }

    /// Takes a capture that was written, and removes those beyond the limits. Whether the new one stays, and how
    /// many others went.
    pub(super) fn keep(&mut self, file: &str) -> (bool, u64) {
        let bytes = fs::metadata(self.capture_path(file)).map_or(0, |m| m.len());
        self.captures.extend(thinning::parse(file, bytes));
        let removed = self.thin();
        let stays = self.captures.iter().any(|c| c.file == file);
        (stays, removed - u64::from(!stays && removed > 0))
    }

    /// A capture could not be written.
    pub(super) fn capture_failed(&mut self, error: io::Error) {
        self.tell(Err(error));
    }

    fn thin(&mut self) -> u64 {
        let gone = thinning::to_remove(&self.captures, self.limits);
        for file in &gone {
            let _ = fs::remove_file(self.capture_path(file));
        }
        self.captures.retain(|c| !gone.contains(&c.file));
        gone.len() as u64
    }

    fn list(&self) -> Vec<CaptureEntry> {
        let files = fs::read_dir(self.dir.join("captures")).into_iter().flatten().flatten();
        let entry = |e: fs::DirEntry| {
            thinning::parse(e.file_name().to_str()?, e.metadata().map_or(0, |m| m.len()))
        };
        let mut all: Vec<CaptureEntry> = files.filter_map(entry).collect();
        all.sort_by(|a, b| a.file.cmp(&b.file));
        all
    }
}

fn line(slice: &Slice) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(slice)?;
    text.push(b'\n');
    Ok(text)
}

/// The lines of a file that can be read. The others are reported, but for a last one without an end, which was being written
/// when its writer was killed.
fn lines(file: &File, path: &Path) -> Vec<Slice> {
    let mut found: Vec<Slice> = Vec::new();
    let (mut damaged, mut line) = (0u64, Vec::new());
    let mut reader = BufReader::new(file.take(JOURNAL));
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                log::warn!("{}: {error}; what follows is left out", path.display());
                break;
            }
        }
        let Ok(slice) = serde_json::from_slice::<Slice>(&line) else {
            damaged += u64::from(line.ends_with(b"\n"));
            continue;
        };
        match found.last_mut().filter(|last| last.hour == slice.hour) {
            Some(last) if slice.seq > last.seq => merge(last, &slice),
            // A line that is there twice counts once.
            Some(last) if slice.seq == last.seq => {}
            _ => found.push(slice),
        }
    }
    if damaged > 0 {
        log::warn!("{}: {damaged} damaged lines are left out", path.display());
    }
    found
}

/// The counts of all hours in the folder of a watch, in order; the last one may go on.
///
/// # Errors
/// When they cannot be read.
#[cfg(any(test, feature = "host"))]
pub(super) fn hours(dir: &Path) -> io::Result<Vec<Slice>> {
    let mut days = Vec::new();
    for entry in fs::read_dir(dir.join("hours"))? {
        days.push(entry?.path());
    }
    days.sort();
    days.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
    let mut all = BTreeMap::<String, Slice>::new();
    let mut add = |slice: Slice| match all.get_mut(&slice.hour) {
        Some(hour) => merge(hour, &slice),
        None => drop(all.insert(slice.hour.clone(), slice)),
    };
    // The hour that ends meanwhile is in one of both, or in both with the same numbers.
    let current = dir.join("current.jsonl");
    let current = lines(&File::open(&current)?, &current);
    let mut finished = 0;
    for path in days {
        for slice in lines(&File::open(&path)?, &path) {
            finished = finished.max(slice.seq);
            add(slice);
        }
    }
    replay(current, finished).into_iter().for_each(&mut add);
    Ok(all.into_values().collect())
}

/// The highest number in the lines of finished hours of the last two days.
fn last_seq(hours: &Path) -> u64 {
    let mut days: Vec<PathBuf> =
        fs::read_dir(hours).into_iter().flatten().flatten().map(|e| e.path()).collect();
    days.sort();
    let last = days.iter().rev().take(2).filter_map(|path| Some((File::open(path).ok()?, path)));
    last.flat_map(|(file, path)| lines(&file, path)).map(|slice| slice.seq).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::watch::Counters;

    const LIMITS: Limits = Limits { each: 2, bytes: 1 << 20 };

    fn second(seq: u64, hour: &str) -> Slice {
        let counters = Counters { captures: 1, ..Counters::default() };
        Slice { seq, hour: hour.into(), counters, ..Slice::default() }
    }

    fn open(dir: &Path, hour: &str) -> (Store, Slice) {
        Store::open(dir, LIMITS, 2, hour).unwrap()
    }

    #[test]
    fn a_damaged_line_costs_that_line_only() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = open(dir.path(), "2026-11-24T22");
        assert!(store.append(&second(1, "2026-11-24T22")));
        let path = dir.path().join("current.jsonl");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"hour\":\"2026\xff\n").unwrap();
        assert!(store.append(&second(2, "2026-11-24T22")));
        let hours = hours(dir.path()).unwrap();
        assert_eq!((hours.len(), hours[0].counters.captures), (1, 2));
    }

    #[test]
    fn a_restart_goes_on_where_the_last_line_ends() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, begun) = open(dir.path(), "2026-11-24T22");
        assert_eq!((begun.seq, begun.counters.captures), (0, 0));
        for seq in 1..=5 {
            assert!(store.append(&second(seq, "2026-11-24T22")));
        }
        // Killed in the middle of a line.
        let mut file =
            OpenOptions::new().append(true).open(dir.path().join("current.jsonl")).unwrap();
        file.write_all(b"{\"hour\":\"2026-11-24T22\",\"se").unwrap();
        drop(store);
        let (mut store, begun) = open(dir.path(), "2026-11-24T22");
        assert_eq!((begun.seq, begun.counters.captures), (5, 5));
        assert!(store.append(&second(6, "2026-11-24T22")));
        drop(store);
        // The next start is in another hour.
        let (store, begun) = open(dir.path(), "2026-11-24T23");
        assert_eq!((begun.seq, begun.counters.captures), (6, 0));
        drop(store);
        let (_, begun) = open(dir.path(), "2026-11-24T23");
        assert_eq!(begun.seq, 6);
        let text = fs::read_to_string(dir.path().join("hours/2026-11-24.jsonl")).unwrap();
        let hours: Vec<Slice> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(hours.iter().map(|h| h.counters.captures).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn finished_hours_are_not_counted_again() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, mut hour) = open(dir.path(), "2026-11-24T22");
        merge(&mut hour, &second(1, "2026-11-24T22"));
        assert!(store.append(&second(1, "2026-11-24T22")));
        // Killed between the line of the hour and the new journal.
        store.append_hour(&hour).unwrap();
        drop(store);
        let (_, begun) = open(dir.path(), "2026-11-24T23");
        assert_eq!(begun.seq, 1);
        let text = fs::read_to_string(dir.path().join("hours/2026-11-24.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 1);
    }

    /// Where the hour's line can be written and the journal not made anew, the line is not written again.
    #[test]
    fn an_hour_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, mut hour) = open(dir.path(), "2026-11-24T22");
        assert!(store.append(&second(1, "2026-11-24T22")));
        merge(&mut hour, &second(1, "2026-11-24T22"));
        fs::create_dir(dir.path().join("current.new")).unwrap();
        let mut next = Slice { hour: "2026-11-24T23".into(), seq: 1, ..Slice::default() };
        for seq in 2..5 {
            assert!(!store.finish_hour(&hour, &next));
            assert!(store.append(&second(seq, "2026-11-24T23")));
            merge(&mut next, &second(seq, "2026-11-24T23"));
        }
        let of_hours = || -> Vec<u64> {
            hours(dir.path()).unwrap().iter().map(|h| h.counters.captures).collect()
        };
        assert_eq!(of_hours(), [1, 3]);
        fs::remove_dir(dir.path().join("current.new")).unwrap();
        assert!(store.finish_hour(&hour, &next));
        // Killed now: the seconds of the hour that goes on are there.
        assert_eq!(of_hours(), [1, 3]);
        drop(store);
        assert_eq!(open(dir.path(), "2026-11-24T23").1.counters.captures, 3);
        let text = fs::read_to_string(dir.path().join("hours/2026-11-24.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn old_days_and_surplus_captures_go() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = open(dir.path(), "2026-11-24T22");
        for day in ["2026-11-21", "2026-11-22", "2026-11-23"] {
            fs::write(dir.path().join(format!("hours/{day}.jsonl")), "").unwrap();
        }
        assert!(store.finish_hour(&second(1, "2026-11-24T22"), &Slice::default()));
        let mut days: Vec<_> = fs::read_dir(dir.path().join("hours"))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        days.sort();
        assert_eq!(days, ["2026-11-23.jsonl", "2026-11-24.jsonl"]);
        let kept = |store: &mut Store, ns: u64| {
            let file = format!("20261124T2210{:02}Z_loop_{ns}ns_wait_helper.dat", ns % 60);
            fs::write(store.capture_path(&file), "x").unwrap();
            store.keep(&file)
        };
        assert_eq!([kept(&mut store, 10), kept(&mut store, 20)], [(true, 0); 2]);
        assert_eq!(kept(&mut store, 30), (true, 1));
        assert_eq!(kept(&mut store, 5), (false, 0));
        drop(store);
        let (store, _) = open(dir.path(), "2026-11-24T22");
        assert_eq!(store.captures().iter().map(|c| c.judged_ns).collect::<Vec<_>>(), [20, 30]);
    }

    #[test]
    fn a_full_disk_loses_nothing() {
        if !Path::new("/dev/full").exists() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = open(dir.path(), "2026-11-24T22");
        let good = std::mem::replace(
            &mut store.current,
            OpenOptions::new().append(true).open("/dev/full").unwrap(),
        );
        assert!(!store.append(&second(1, "2026-11-24T22")));
        assert!(store.failing.as_deref().is_some_and(|f| f.contains("No space left")));
        store.current = good;
        let mut both = second(1, "2026-11-24T22");
        merge(&mut both, &second(2, "2026-11-24T22"));
        assert!(store.append(&both) && store.failing.is_none());
        drop(store);
        assert_eq!(open(dir.path(), "2026-11-24T22").1.counters.captures, 2);
    }
}
