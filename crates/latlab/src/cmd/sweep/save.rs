//! What makes a sweep resumable: its plan, and a line for each point, synced when it was measured.
//!
//! ```text
//! RUN/sweep.json      the plan
//! RUN/points.jsonl    one point a line; a last line that is cut off is measured again
//! ```

use crate::outcome::HintExt;
use crate::rundir::write_atomically;
use anyhow::{Context, anyhow};
use latlab_model::sweep::Point;
use latlab_model::sweep::plan::Plan;
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
    // Another user's directory may have a link to a file that only this user may write to.
    let points = latlab_sys::scratch::append_to(&path)
        .with_context(|| format!("{}: cannot be opened", path.display()))?;
    Ok(Kept { dir: dir.to_owned(), points })
}

/// A sweep that was interrupted: its plan and the points that it has.
///
/// # Errors
/// When there is none, or it is damaged.
pub fn reopen(dir: &Path) -> anyhow::Result<(Kept, Plan, Vec<Point>)> {
    let hint = "name the run directory of the interrupted sweep";
    let path = dir.join(PLAN);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("--resume {}: {PLAN} cannot be read", dir.display()))
        .hint(hint)?;
    let plan: Plan = serde_json::from_str(&text)
        .map_err(|e| anyhow!("--resume {}: {PLAN} is damaged: {e}", dir.display()))
        .hint(hint)?;
    if plan.jobs().is_empty() {
        return Err(anyhow!("--resume {}: {PLAN} has no points", dir.display())).hint(hint);
    }
    let path = dir.join(POINTS);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e).with_context(|| format!("{}: cannot be read", path.display())),
    };
    let (mut points, mut whole) = (Vec::new(), 0);
    for (i, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        match serde_json::from_slice::<Point>(line) {
            Ok(point) if line.ends_with(b"\n") => {
                points.push(point);
                whole += line.len();
            }
            // Cut off by a power loss: it is measured again.
            _ if !line.ends_with(b"\n") => break,
            Ok(_) => break,
            Err(e) => {
                return Err(anyhow!("{}: line {} is damaged: {e}", path.display(), i + 1))
                    .hint("delete this line; its point is then measured again");
            }
        }
    }
    let kept = open(dir)?;
    kept.points
        .set_len(whole as u64)
        .with_context(|| format!("{}: cannot be repaired", path.display()))?;
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
            .with_context(|| {
                format!("{}: a point cannot be saved", self.dir.join(POINTS).display())
            })
            .hint("free some space, then continue with latlab sweep --resume")
    }

    /// Where.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_testkit::sweep_sim;

    /// Cut off anywhere, a sweep has every point that was whole, and measures the others once.
    #[test]
    fn a_sweep_that_ends_at_any_moment_goes_on() {
        let plan = Plan { anchor_every: 3, ..sweep_sim::plan(5) };
        let plan = Plan { axes: plan.axes[1..].to_vec(), ..plan };
        let surface = sweep_sim::Surface {
            unloaded: 16_000.0,
            alloc: 2.0,
            keep: 1.0,
            knee: None,
            noise: 0.1,
        };
        let points = sweep_sim::points(&surface, &plan, 5);
        let dir = tempfile::tempdir().unwrap();
        let mut kept = begin(dir.path(), &plan).unwrap();
        points.iter().for_each(|p| kept.add(p).unwrap());
        let whole = fs::read(dir.path().join(POINTS)).unwrap();
        let ends: Vec<usize> =
            whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
        assert_eq!(ends.len(), points.len());
        for cut in (0..whole.len()).step_by(97).chain(ends.iter().copied()) {
            fs::write(dir.path().join(POINTS), &whole[..cut]).unwrap();
            let (mut kept, again, have) = reopen(dir.path()).unwrap();
            assert_eq!((&again, have.len()), (&plan, ends.iter().filter(|e| **e <= cut).count()));
            assert_eq!(have[..], points[..have.len()], "cut at {cut}");
            let left = again.left(&have);
            assert_eq!(left.len() + have.len(), points.len());
            // The next one goes behind what is whole.
            if let Some(next) = left.first() {
                kept.add(&points[next.number]).unwrap();
                let (.., more) = reopen(dir.path()).unwrap();
                assert_eq!(more.len(), have.len() + 1, "cut at {cut}");
            }
        }
        // Before its first point there is the plan alone.
        fs::remove_file(dir.path().join(POINTS)).unwrap();
        assert!(reopen(dir.path()).unwrap().2.is_empty());
    }

    #[test]
    fn a_damaged_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        begin(dir.path(), &sweep_sim::plan(1)).unwrap();
        fs::write(dir.path().join(POINTS), "{\"job\":0}\nnonsense\n").unwrap();
        let said = format!("{:#}", reopen(dir.path()).unwrap_err());
        assert!(said.contains("line 2 is damaged"), "{said}");
    }
}
