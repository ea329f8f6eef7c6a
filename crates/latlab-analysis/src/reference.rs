//! Published figures of other machines, as data, each with its source.
//!
//! They were measured with other tools on other kernels: a comparison with them
//! says "about a tenth", never "4 % slower".

use latlab_model::record::Record;
use latlab_model::reference::{Against, AgainstRow, Reference};

/// What the records and a published machine have in common.
pub fn compare(records: &[Record], reference: &Reference) -> Against {
    let plain = |r: &Record, key: &str| r.params.get(key).map(ToString::to_string);
    let mut rows = Vec::new();
    for (name, params, there) in reference.figures {
        let fits = |r: &&Record| {
            // A message goes round on one CPU in all of them: they had but one.
            let placed = plain(r, "place").is_none_or(|p| p == "same");
            r.name == *name
                && placed
                && params.iter().all(|(k, v)| plain(r, k).as_deref() == Some(*v))
        };
        if let Some(here) = records.iter().find(fits).and_then(|r| r.summary.median) {
            let params = params.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            rows.push(AgainstRow {
                label: latlab_model::bench::label(name, &params),
                here,
                there: *there,
            });
        }
    }
    Against {
        id: reference.id.into(),
        machine: reference.machine.into(),
        source: reference.source.into(),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::record::Param;
    use latlab_model::reference::find;
    use latlab_stats::histogram::Summary;

    #[test]
    fn figures_meet_by_name_and_parameters() {
        let record = |size: i64, median| Record {
            name: "ipc.unix-stream".into(),
            params: [("size".to_owned(), Param::Int(size)), ("place".to_owned(), "same".into())]
                .into(),
            summary: Summary { median: Some(median), ..Summary::default() },
            ..Record::default()
        };
        let reference = find("beaglebone-black-2015").unwrap();
        let against = compare(&[record(4096, 1.0), record(64, 9_000.0)], reference);
        assert_eq!(against.rows.len(), 1);
        assert_eq!((against.rows[0].here, against.rows[0].there), (9_000.0, 45_975.2));
    }

    #[test]
    fn the_published_switch_through_a_pipe_is_one_of_sched_fifo() {
        let pipe = |class: &str| Record {
            name: "ctx.pipe".into(),
            params: [("class".to_owned(), class.into()), ("place".to_owned(), "same".into())]
                .into(),
            summary: Summary { median: Some(1_000.0), ..Summary::default() },
            ..Record::default()
        };
        let reference = find("cortex-a8-switch").unwrap();
        let against = |class| compare(&[pipe(class)], reference).rows.len();
        assert_eq!((against("fifo"), against("other")), (1, 0));
    }
}
