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

/// Missed periods, where the part counts them: all of a wake-up run's, or those of the record's thread.
fn missed(part: &Part, r: &Record) -> Option<u64> {
    let Some(Detail::Wakeup(result)) = &part.detail else { return None };
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
