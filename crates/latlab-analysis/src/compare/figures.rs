//! Minimum, mean, standard deviation and maximum of each distribution: figures that studies publish and other tools
//! print. They are shown beside each other and not tested: a maximum grows with the length of a run.

use latlab_model::compare::Figures;
use latlab_model::record::{Param, Record, Unit};
use latlab_model::reference::Published;
use latlab_model::run::{Detail, Part};

/// Rows of a subject, at most.
const MOST: usize = 200;

/// The rows of one subject: what was published, then its own distributions of times.
pub fn of<'a>(
    subject: usize,
    published: &[Published],
    parts: impl Iterator<Item = &'a Part>,
) -> Vec<Figures> {
    let published = published.iter().map(|p| of_published(subject, p));
    let own = parts.flat_map(|part| part.results.iter().filter_map(move |r| own(subject, part, r)));
    published.chain(own).take(MOST).collect()
}

fn of_published(subject: usize, p: &Published) -> Figures {
    Figures {
        subject,
        what: p.what.to_owned(),
        count: None,
        min: p.min,
        mean: p.mean,
        sd: p.sd,
        max: p.max,
        missed: p.missed,
    }
}

fn own(subject: usize, part: &Part, r: &Record) -> Option<Figures> {
    let h = r.histogram.as_ref().filter(|h| r.unit == Unit::Ns && h.count > 0)?;
    Some(Figures {
        subject,
        what: latlab_model::bench::label(
            &r.name,
            &r.params.iter().map(|(k, v)| (k.clone(), v.to_string())).collect(),
        ),
        count: Some(h.count),
        min: Some(h.min as f64),
        mean: h.mean(),
        sd: h.standard_deviation(),
        max: Some(h.max as f64),
        missed: missed(part, r),
    })
}

/// Missed periods, where the part counts them: all of a wake-up run's, those of the record's thread, or those of the
/// point of a sweep.
fn missed(part: &Part, r: &Record) -> Option<u64> {
    let result = match part.detail.as_ref()? {
        Detail::Wakeup(result) => result,
        // A sweep has a record for each good point, in their order.
        Detail::Sweep(sweep) => {
            let at = part.results.iter().position(|other| std::ptr::eq(other, r))?;
            let point = sweep.points.iter().filter(|p| p.is_good()).nth(at)?;
            return (r.histogram.as_ref() == Some(&point.latency)).then_some(point.missed);
        }
        _ => return None,
    };
    let thread = match r.params.get("thread") {
        Some(Param::Int(n)) => Some(usize::try_from(*n).ok()?),
        Some(_) => return None,
        None => None,
    };
    match thread {
        Some(n) => result.threads.get(n).map(|t| t.missed_periods),
        None => Some(result.threads.iter().map(|t| t.missed_periods).sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::analyse;
    use latlab_model::sweep::Point;
    use latlab_model::sweep::plan::Plan;
    use latlab_stats::histogram::Histogram;

    #[test]
    fn points_of_a_sweep_have_their_missed_periods() {
        let point = |values: &[u64], missed| Point {
            latency: Histogram::of(values.iter().copied()),
            missed,
            ..Point::default()
        };
        // The second was not measured, and has no record.
        let points = vec![point(&[1_000, 2_000], 0), point(&[], 3), point(&[700_000, 5_000], 128)];
        let mut part = analyse::part(Plan::default(), points, 0, &[]);
        let missed = |part: &Part| -> Vec<Option<u64>> {
            of(0, &[], std::iter::once(part)).iter().map(|f| f.missed).collect()
        };
        assert_eq!(missed(&part), [Some(0), Some(128)]);
        part.results.remove(0);
        assert_eq!(missed(&part), [None], "records that are not those of the points");
    }
}
