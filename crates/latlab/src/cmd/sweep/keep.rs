//! What makes a sweep resumable: its plan, and a line for each point, synced when it was measured.
//!
//! ```text
//! RUN/sweep.json      the plan
//! RUN/points.jsonl    one point a line; a last line that is cut off is measured again
//! ```

use crate::outcome::HintExt;
use crate::rundir::write_atomically;
use anyhow::{Context, anyhow};
use latlab_core::sweep::{Plan, Point};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const PLAN: &str = "sweep.json";
const POINTS: &str = "points.jsonl";

/// The directory of a sweep.
#[derive(Debug)]
pub struct Kept {
    dir: PathBuf,
    points: File,
}

/// Begins to keep.
///
/// # Errors
/// When it cannot be written.
pub fn begin(dir: &Path, plan: &Plan) -> anyhow::Result<Kept> {
    let path = dir.join(PLAN);
    write_atomically(&path, |out| crate::output::json(plan, out))
        .with_context(|| format!("{}: cannot be saved", path.display()))
        .hint("name a directory with space that this user may write to: --out DIR")?;
    open(dir)
}

fn open(dir: &Path) -> anyhow::Result<Kept> {
    let path = dir.join(POINTS);
    let points = File::options().append(true).create(true).open(&path);
    let points = points.with_context(|| format!("{}: cannot be opened", path.display()))?;
    Ok(Kept { dir: dir.to_owned(), points })
}

/// A sweep that was interrupted: its plan and the points that it has.
///
/// # Errors
/// When there is none, or it is damaged.
pub fn reopen(dir: &Path) -> anyhow::Result<(Kept, Plan, Vec<Point>)> {
    let hint = "name the directory that the interrupted sweep said it kept its run in";
    let path = dir.join(PLAN);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("--resume {}: {PLAN} cannot be read", dir.display()))
        .hint(hint)?;
    let plan: Plan = serde_json::from_str(&text)
        .map_err(|e| anyhow!("--resume {}: {PLAN} is damaged: {e}", dir.display()))
        .hint(hint)?;
    if plan.jobs().is_empty() {
        return Err(anyhow!("--resume {}: {PLAN} plans nothing", dir.display())).hint(hint);
    }
    let path = dir.join(POINTS);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(e).with_context(|| format!("{}: cannot be read", path.display())),
    };
    let (mut points, mut whole) = (Vec::new(), 0);
    for (i, line) in text.split_inclusive('\n').enumerate() {
        match serde_json::from_str::<Point>(line) {
            Ok(point) if line.ends_with('\n') => {
                points.push(point);
                whole += line.len();
            }
            // Cut off by a power loss: it is measured again.
            _ if !line.ends_with('\n') => break,
            Ok(_) => break,
            Err(e) => {
                return Err(anyhow!("{}: line {} is damaged: {e}", path.display(), i + 1))
                    .hint("delete this line: its point is measured again");
            }
        }
    }
    let kept = open(dir)?;
    kept.points
        .set_len(whole as u64)
        .with_context(|| format!("{}: cannot be mended", path.display()))?;
    Ok((kept, plan, points))
}

impl Kept {
    /// Keeps a point.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, point: &Point) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(point)?;
        line.push(b'\n');
        self.points
            .write_all(&line)
            .and_then(|()| self.points.sync_data())
            .with_context(|| format!("{}: a point cannot be kept", self.dir.join(POINTS).display()))
            .hint("make space, then go on with latlab sweep --resume")
    }

    /// Where.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}
