//! `latlab fleet report`: a lake as pages.
//!
//! All pages are written into a directory beside the wanted one, which takes its name by a rename: a reader
//! sees the earlier pages or the new ones. A directory that this command did not make is left alone.

use super::nights::{self, Days};
use super::{environment, lake};
use crate::cli::Global;
use crate::outcome::{HintExt, Outcome};
use crate::{output, term};
use anyhow::{Context, anyhow};
use latlab_analysis::fleet::overview::{Named, Overview};
use latlab_analysis::fleet::tails::Source;
use latlab_export::lake as tables;
use latlab_model::fleet::Fleet;
use latlab_model::lake::{HISTOGRAM, RUN, Row};
use latlab_report::html::site;
use latlab_report::sections::fleet::{MOST, pages};
use serde::Serialize;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Nights whose histograms are merged.
const TAIL_NIGHTS: usize = 7;
/// Columns of `histogram` that are read.
const COLUMNS: [&str; 9] =
    ["board", "device", "part", "name", "params", "high", "n", "unit", "run"];
/// What tells that a directory is a site: a file with this name, and this text at its beginning.
const MARK: (&str, &str) = (".latlab-site", "latlab fleet report\n");

#[derive(Serialize)]
struct Written {
    pages: usize,
    bytes: u64,
    boards: usize,
    kernels: usize,
    nights: usize,
    results: usize,
    alarms: usize,
}

/// Writes the pages.
///
/// # Errors
/// When there is no lake, a file of it is damaged, or the directory cannot be written or is another's.
pub fn run(global: &Global, dir: &Path, out: &Path) -> anyhow::Result<Outcome> {
    let days = nights::days(dir)?;
    let new = NewSite::beside(out)?;
    let fleet = collect(dir, &days)?;
    let all = pages(&fleet, MOST);
    let mut bytes = 0;
    for page in all.iter() {
        let mut text = Vec::new();
        site::render(&page.doc, "latlab fleet report", &mut text)?;
        bytes += text.len() as u64;
        new.write(&page.file, &text)?;
    }
    new.commit()?;
    let done = Written {
        pages: all.len(),
        bytes,
        boards: fleet.boards.len(),
        kernels: fleet.kernels.len(),
        nights: fleet.nights.len(),
        results: fleet.metrics.len(),
        alarms: fleet.alarms.len(),
    };
    let mut stdout = term::stdout();
    if global.json {
        output::json(&done, &mut stdout)?;
    } else {
        let index = out.join("index.html");
        let mib = bytes as f64 / f64::from(1 << 20);
        writeln!(stdout, "{}: {} pages, {mib:.1} MiB", index.display(), done.pages)?;
    }
    stdout.flush()?;
    Ok(Outcome::Done)
}

/// Reads a lake.
fn collect(dir: &Path, days: &Days) -> anyhow::Result<Fleet> {
    let mut overview = Overview::default();
    for (date, parts) in days {
        let values = nights::read(dir, date, parts, |named| overview.series(named))?;
        let mut runs = 0;
        for part in parts {
            let path = lake::file(dir, RUN.name, date, part);
            let file = File::open(&path).with_context(|| path.display().to_string())?;
            runs += tables::count(&RUN, file).with_context(|| path.display().to_string())?;
        }
        overview.night(date.clone(), runs, &values);
    }
    let histograms = lake::parts(dir, HISTOGRAM.name)?;
    // Once to merge them, once to count what is above the quantiles by device and night.
    for _ in 0..2 {
        for (night, (date, parts)) in histograms.iter().rev().take(TAIL_NIGHTS).enumerate() {
            for part in parts {
                tail(&mut overview, dir, night, date, part)?;
            }
        }
        overview.tail_quantiles();
    }
    let mut fleet = overview.finish();
    let dates: Vec<&str> = fleet.nights.iter().map(|n| n.date.as_str()).collect();
    // Those that have a page.
    let first = fleet.alarms.len().saturating_sub(MOST.alarms);
    let places: Vec<_> = (fleet.alarms.iter().skip(first))
        .map(|a| environment::Place {
            since: a.since,
            board: fleet.boards.get(a.board).map_or("", |b| b.name.as_str()),
            device: a.device.as_deref(),
        })
        .collect();
    let changes = environment::of_alarms(dir, &dates, &places)?;
    for (alarm, changes) in fleet.alarms.iter_mut().skip(first).zip(changes) {
        alarm.environment = changes;
    }
    Ok(fleet)
}

fn tail(
    overview: &mut Overview,
    dir: &Path,
    night: usize,
    date: &str,
    part: &str,
) -> anyhow::Result<()> {
    // Texts of one file are shared: their addresses are names.
    let mut known: HashMap<[*const u8; 5], Option<usize>> = HashMap::new();
    let (mut current, mut buckets): (Option<(usize, Arc<str>)>, _) = (None, Vec::new());
    let whole = |overview: &mut Overview, of: &Option<(usize, Arc<str>)>, buckets: &mut Vec<_>| {
        if let Some((series, run)) = of {
            overview.tail(*series, Source { night, run }, buckets);
        }
        buckets.clear();
    };
    nights::rows(dir, &HISTOGRAM, &COLUMNS, date, part, &mut |row: &Row| {
        let number =
            known.entry([0, 1, 2, 3, 4].map(|i| row[i].text().as_ptr())).or_insert_with(|| {
                overview.known(&Named {
                    board: row[0].text(),
                    device: row[1].text(),
                    part: row[2].text(),
                    name: row[3].text(),
                    params: row[4].text(),
                    unit: row[7].text(),
                    larger_is_better: false,
                })
            });
        let (Ok(high), Ok(n)) = (u64::try_from(row[5].int()), u64::try_from(row[6].int())) else {
            return;
        };
        let Some(series) = *number else { return };
        // The buckets of one histogram follow each other.
        if !current.as_ref().is_some_and(|(s, run)| *s == series && **run == *row[8].text()) {
            whole(overview, &current, &mut buckets);
            current = Some((series, row[8].shared()));
        }
        buckets.push((high, n));
    })?;
    whole(overview, &current, &mut buckets);
    Ok(())
}

/// A site that is being written, removed unless it is committed.
struct NewSite {
    wanted: PathBuf,
    current: PathBuf,
}

impl NewSite {
    /// A new directory beside the wanted one.
    fn beside(wanted: &Path) -> anyhow::Result<Self> {
        let text = wanted.display();
        let name = (wanted.file_name().and_then(|n| n.to_str()))
            .ok_or_else(|| anyhow!("--out {text}: not the name of a directory"))
            .hint("name a new directory, such as site")?;
        if wanted.symlink_metadata().is_ok() && !is_site(wanted) {
            return Err(anyhow!("--out {text}: is there and is no site of latlab fleet report"))
                .hint("name a new directory, or remove this one");
        }
        let parent =
            wanted.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let current = parent.join(format!(".{name}.{}.new", std::process::id()));
        fs::create_dir_all(parent)
            .and_then(|()| fs::create_dir(&current))
            .with_context(|| format!("--out {text}: cannot be written"))
            .hint("name a directory that this user may write to")?;
        let new = Self { wanted: wanted.to_owned(), current };
        new.write(MARK.0, MARK.1.as_bytes())?;
        Ok(new)
    }

    fn write(&self, file: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let all = || {
            let mut out = BufWriter::new(File::create_new(self.current.join(file))?);
            out.write_all(bytes)?;
            out.into_inner()?.sync_data()
        };
        all()
            .with_context(|| format!("--out {}: {file} cannot be written", self.wanted.display()))
            .hint("free some space, or name another directory; the earlier pages are as they were")
    }

    /// Gives it its name. The earlier site is moved away first, and removed at the end.
    fn commit(self) -> anyhow::Result<()> {
        let old = self.current.with_extension("old");
        let had = self.wanted.symlink_metadata().is_ok();
        let swap = || {
            if had {
                fs::rename(&self.wanted, &old)?;
            }
            fs::rename(&self.current, &self.wanted).inspect_err(|_| {
                if had {
                    let _ = fs::rename(&old, &self.wanted);
                }
            })
        };
        swap().with_context(|| format!("--out {}: cannot be replaced", self.wanted.display()))?;
        if had {
            let _ = fs::remove_dir_all(&old);
        }
        Ok(())
    }
}

impl Drop for NewSite {
    fn drop(&mut self) {
        if self.current.exists() {
            let _ = fs::remove_dir_all(&self.current);
        }
    }
}

fn is_site(dir: &Path) -> bool {
    let real = dir.symlink_metadata().is_ok_and(|m| m.is_dir());
    real && fs::read(dir.join(MARK.0)).is_ok_and(|text| text == MARK.1.as_bytes())
}
