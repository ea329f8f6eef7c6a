//! Curves that were measured elsewhere: lmbench's `lat_mem_rd` text.
//!
//! ```text
//! "stride=128
//! 0.00049 1.194
//! 0.00098 1.194
//! ```
//!
//! Sizes are in units of 2^20 bytes, times in ns (`lat_mem_rd.8`). In a file with other results
//! every such block is taken, and the rest is passed over.

use super::curve::{Curve, CurvePoint, Order, Pages};
use super::explore::{COARSE, SMALLEST, grid};
use super::levels::level_of;
use super::{MemoryDetail, plateau, regimes};

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FromError {
    /// There is no block.
    #[error("there is no line `\"stride=N`, so it is no output of lat_mem_rd")]
    NoBlock,
    /// A stride that is no number.
    #[error("line {line}: `{text}` names no stride in bytes")]
    Stride {
        /// Line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A point with a size or time that cannot be.
    #[error("line {line}: `{text}` is no size in MiB and time in ns")]
    Point {
        /// Line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A block without points.
    #[error("line {line}: the block of this stride has no points")]
    Empty {
        /// Line of its head, from 1.
        line: usize,
    },
}

/// Largest size that is believed, in MiB: a petabyte.
const MIB_MAX: f64 = 1e9;

/// Reads all blocks of a text.
///
/// # Errors
/// The first line that makes no sense within a block, or that there is no block.
pub fn lat_mem_rd(text: &str, source: &str) -> Result<Vec<Curve>, FromError> {
    let mut curves: Vec<Curve> = Vec::new();
    let mut open: Option<usize> = None;
    for (i, whole) in text.lines().enumerate() {
        let (line, text) = (i + 1, whole.trim());
        let head = text.trim_start_matches('"').strip_prefix("stride=");
        if let Some(stride) = head {
            close(&curves, open)?;
            let stride = stride.trim_matches('"').parse().ok().filter(|s: &u32| *s > 0);
            let shown = || text.chars().take(40).collect();
            let stride_bytes = stride.ok_or_else(|| FromError::Stride { line, text: shown() })?;
            let source = Some(source.to_owned());
            curves.push(Curve {
                order: Order::Sequential,
                stride_bytes,
                source,
                ..Curve::default()
            });
            open = Some(line);
        } else if open.is_some() && text.is_empty() {
            close(&curves, open.take())?;
        } else if let (Some(_), Some(curve)) = (open, curves.last_mut()) {
            if text.starts_with('#') {
                continue;
            }
            match point(text) {
                Some(p) => curve.insert(p),
                None => {
                    let text = text.chars().take(40).collect();
                    return Err(FromError::Point { line, text });
                }
            }
        }
    }
    close(&curves, open)?;
    if curves.is_empty() { Err(FromError::NoBlock) } else { Ok(curves) }
}

fn close(curves: &[Curve], open: Option<usize>) -> Result<(), FromError> {
    match (open, curves.last()) {
        (Some(line), Some(curve)) if curve.points.is_empty() => Err(FromError::Empty { line }),
        _ => Ok(()),
    }
}

fn point(text: &str) -> Option<CurvePoint> {
    let mut words = text.split_whitespace();
    let mib: f64 = words.next()?.parse().ok()?;
    let ns: f64 = words.next()?.parse().ok()?;
    if words.next().is_some() || !(mib > 0.0 && mib < MIB_MAX && ns > 0.0 && ns < 1e12) {
        return None;
    }
    // lat_mem_rd prints five decimals of a MiB: the size is the nearest multiple of 64 bytes.
    let bytes = ((mib * 1_048_576.0 / 64.0).round() * 64.0).max(64.0);
    CurvePoint::of(bytes as u64, &[ns])
}

/// Infers from curves alone: levels from the one that is slowest in the end (where prefetchers help
/// least and each load is a line of its own), the line from how time rises with the stride.
///
/// Ways and TLBs need measurements of their own; they are said to be missing.
pub fn infer(curves: Vec<Curve>, page_bytes: u32) -> MemoryDetail {
    let end = |c: &Curve| c.points.last().map_or(0.0, |p| p.ns);
    let mut detail = MemoryDetail {
        page_bytes: page_bytes.into(),
        largest_bytes: curves
            .iter()
            .filter_map(|c| c.points.last())
            .map(|p| p.x)
            .max()
            .unwrap_or(0),
        ..MemoryDetail::default()
    };
    let sized = |c: &&Curve| c.plain() && !matches!(c.order, Order::LinePerPage | Order::Dense);
    // latlab's own: the order in which translation and prefetchers disturb least, measured most closely.
    let calm = |c: &&Curve| {
        c.source.is_none()
            && matches!((c.order, c.pages), (Order::PageLocal, _) | (Order::Random, Pages::Huge))
    };
    let own = curves.iter().filter(sized).filter(calm).max_by_key(|c| c.points.len());
    let slowest = || curves.iter().filter(sized).max_by(|a, b| end(a).total_cmp(&end(b)));
    if let Some(curve) = own.or_else(slowest) {
        let points = coarse(curve);
        let mut found = plateau::levels(&points);
        plateau::add_between(&curve.points, &mut found);
        for i in 0..found.len().saturating_sub(1) {
            let inner = detail.levels.last().map_or(0, |l| l.bytes);
            detail.levels.push(level_of(curve, &found, i, page_bytes, (inner, None)).level);
        }
        detail.memory_ns = found.last().filter(|p| p.last + 1 == points.len()).map(|p| p.ns);
        if detail.memory_ns.is_none() {
            detail.missing.push("the curve still rises at its largest array".into());
        }
    }
    detail.regimes = strides(&curves).and_then(|s| regimes::fit(&s));
    detail
        .missing
        .push("ways and TLBs need measurements that a curve over sizes does not have".into());
    detail.curves = curves;
    detail
}

/// What plateaus are looked for in: of a curve of latlab's own the points that it began with, for those
/// that were added later crowd round the knees and would be taken for stretches of their own.
fn coarse(curve: &Curve) -> Vec<CurvePoint> {
    let end = curve.points.last().map_or(0, |p| u32::try_from(p.x).unwrap_or(u32::MAX));
    let sizes = grid(SMALLEST, end, COARSE);
    let of_grid = |p: &&CurvePoint| sizes.binary_search(&(p.x as u32)).is_ok();
    let points: Vec<CurvePoint> = curve.points.iter().filter(of_grid).copied().collect();
    let own = curve.source.is_none() && points.len() * 4 >= sizes.len() * 3;
    if own { points } else { curve.points.clone() }
}

/// Stride and time at the largest size that all curves have.
fn strides(curves: &[Curve]) -> Option<Vec<(u32, f64)>> {
    let same: Vec<&Curve> = curves.iter().filter(|c| c.order == Order::Sequential).collect();
    let first = same.first()?;
    let common = |x: u64| same.iter().all(|c| c.at(x).is_some());
    let x = first.points.iter().rev().map(|p| p.x).find(|x| common(*x))?;
    Some(same.iter().filter_map(|c| Some((c.stride_bytes, c.at(x)?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_among_other_results() {
        let text = "Simple syscall: 0.17 microseconds\n\n\"stride=16\n0.00049 1.194\n0.00098 1.2\n\n\"stride=64\n0.00049 1.3\n";
        let curves = lat_mem_rd(text, "x").unwrap();
        assert_eq!(curves.iter().map(|c| c.stride_bytes).collect::<Vec<_>>(), [16, 64]);
        assert_eq!(curves[0].points.iter().map(|p| p.x).collect::<Vec<_>>(), [512, 1024]);
    }

    #[test]
    fn what_makes_no_sense_is_named_by_its_line() {
        let error = |text: &str| lat_mem_rd(text, "x").unwrap_err().to_string();
        assert!(error("hello\n").contains("no output of lat_mem_rd"));
        assert!(error("\"stride=many\n").starts_with("line 1: `\"stride=many`"));
        assert!(error("\"stride=64\n1.0 NaN\n").starts_with("line 2: `1.0 NaN`"));
        assert!(error("\"stride=64\n1e300 5\n").starts_with("line 2"));
        assert!(error("\"stride=64\n-1 5\n").starts_with("line 2"));
        assert!(error("\"stride=64\n\n").contains("no points"));
    }

    /// The knees and plateaus of the published BeagleBone Black measurement, see
    /// `fixtures/memory/README.md`.
    #[test]
    fn the_published_beaglebone() {
        let text = include_str!("../../../../fixtures/memory/beaglebone-black.lat_mem_rd");
        let found = infer(lat_mem_rd(text, "published").unwrap(), 4096);
        let [l1, l2] = &found.levels[..] else { panic!("{:#?}", found.levels) };
        assert_eq!(l1.bytes, 32 << 10, "{l1:?}");
        let knee = 125_000..=192 << 10;
        assert!(knee.contains(&l2.effective_bytes), "{l2:?}");
        let memory = found.memory_ns.unwrap();
        assert!((memory - 220.0).abs() < 220.0 * 0.05, "{memory}");
        assert_eq!(found.regimes.unwrap().line_bytes, 64);
    }

    /// Of the last cache others left 3 to 4 MiB: its plateau is half a doubling long, and was once taken for a part
    /// of the way from the second cache to memory.
    #[test]
    fn a_last_cache_that_others_use_hides_no_second_one() {
        let of = |text| {
            let found = infer(lat_mem_rd(text, "shared").unwrap(), 4096);
            found.levels.iter().map(|l| l.bytes).collect::<Vec<_>>()
        };
        for text in [
            include_str!("../../../../fixtures/memory/shared-host.lat_mem_rd"),
            include_str!("../../../../fixtures/memory/shared-host-whole.lat_mem_rd"),
        ] {
            let [first, second, last] = of(text)[..] else { panic!("{:?}", of(text)) };
            assert_eq!((first, second), (32 << 10, 1 << 20));
            assert!((2 << 20..=4 << 20).contains(&last), "{last}");
        }
    }
}
