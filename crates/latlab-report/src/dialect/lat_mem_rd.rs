//! Curves in the columns of lmbench's `lat_mem_rd`: `"stride=N`, then size in MiB and ns a load.
//!
//! The order of the loads is latlab's own, so that these are figures beside lmbench's, not
//! lmbench's; a comment line before each block says which order it was.

use crate::messages::pattern;
use latlab_model::cache::detail::{AccessPattern, Curve};
use latlab_model::run::{Detail, Run};
use std::io;
use std::io::Write;

/// Writes every curve over sizes of a run.
///
/// # Errors
/// Those of the writer.
pub fn write(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    for part in &run.parts {
        let Some(Detail::Memory(detail)) = &part.detail else { continue };
        let sized = |c: &&Curve| {
            c.plain() && !matches!(c.access, AccessPattern::LinePerPage | AccessPattern::Dense)
        };
        for curve in detail.curves.iter().filter(sized) {
            writeln!(out, "# {}, {:?} pages", pattern(curve.access), curve.pages)?;
            writeln!(out, "\"stride={}", curve.stride_bytes)?;
            for p in &curve.points {
                writeln!(out, "{:.5} {:.3}", p.x as f64 / 1_048_576.0, p.ns)?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::cache::detail::{CacheDetail, CurvePoint};
    use latlab_model::run::Part;

    #[test]
    fn what_is_written_is_what_lat_mem_rd_would() {
        let points = [(512, 1.194), (67_108_864, 154.1)].map(|(x, ns)| CurvePoint::of(x, &[ns]));
        let curve = Curve {
            stride_bytes: 128,
            points: points.into_iter().flatten().collect(),
            ..Curve::default()
        };
        let tlb = Curve { access: AccessPattern::LinePerPage, ..curve.clone() };
        let detail = CacheDetail { curves: vec![curve, tlb], ..CacheDetail::default() };
        let detail = Some(Detail::Memory(Box::new(detail)));
        let run = Run { parts: vec![Part { detail, ..Part::default() }], ..Run::default() };
        let mut out = Vec::new();
        write(&run, &mut out).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&out),
            "# eight pages at a time, Base pages\n\"stride=128\n0.00049 1.194\n64.00000 154.100\n\n"
        );
        let back = latlab_analysis::cache::import_lat_mem_rd::lat_mem_rd(
            &String::from_utf8_lossy(&out),
            "x",
        );
        assert_eq!(back.unwrap()[0].points.len(), 2);
    }
}
