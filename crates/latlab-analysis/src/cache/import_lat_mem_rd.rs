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

use super::levels;
use super::levels::low_interference;
use super::{regime_map, stride_regimes};
use latlab_model::cache::detail::{
    AccessPattern, CacheDetail, Curve, CurvePoint, Limitation, Pages,
};

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
    #[error("line {line}: `{text}` is not a size in MiB and time in ns")]
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
                access: AccessPattern::Sequential,
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

/// Infers from curves alone: levels from latlab's own curve with the lowest interference, else from the one that is
/// slowest in the end (where prefetchers help least and each load is a line of its own); the line from the rise with
/// the stride. Associativity and TLBs need measurements of their own.
pub fn infer(curves: Vec<Curve>, page_bytes: u32) -> CacheDetail {
    let end = |c: &Curve| c.points.last().map_or(0.0, |p| p.ns);
    let largest = curves.iter().filter_map(|c| c.points.last()).map(|p| p.x).max();
    let mut detail = CacheDetail {
        page_bytes: page_bytes.into(),
        largest_bytes: largest.unwrap_or(0),
        ..CacheDetail::default()
    };
    let sized = |c: &&Curve| {
        c.plain() && !matches!(c.access, AccessPattern::LinePerPage | AccessPattern::Dense)
    };
    let low = |c: &&Curve| c.source.is_none() && c.access == low_interference(c.pages);
    let own = curves.iter().filter(sized).filter(low).max_by_key(|c| c.points.len());
    let slowest = || curves.iter().filter(sized).max_by(|a, b| end(a).total_cmp(&end(b)));
    if let Some(curve) = own.or_else(slowest) {
        let found = levels::infer(curve, page_bytes, &[]);
        detail.levels = found.levels;
        detail.memory_ns = found.memory_ns;
        if detail.memory_ns.is_none() {
            detail.limitations.push(Limitation::StillRising);
        }
    }
    detail.regimes = stride_regimes::of_curves(&curves);
    detail.regime_map =
        regime_map::fit(regime_map::points_of_curves(&curves), &detail, Pages::Base);
    detail.limitations.push(Limitation::CurveOnly);
    detail.curves = curves;
    detail
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
