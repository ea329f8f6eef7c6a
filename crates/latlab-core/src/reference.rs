//! Published figures of other machines, as data, each with its source.
//!
//! They were measured with other tools on other kernels: a comparison with them
//! says "about a tenth", never "4 % slower".

use crate::run::Record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine whose figures were published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    /// What `--against` calls it.
    pub id: &'static str,
    /// The machine.
    pub machine: &'static str,
    /// Who published it, and how it was measured.
    pub source: &'static str,
    /// The figures.
    pub figures: &'static [Figure],
}

/// Record name, parameters that must agree, value in the record's unit.
pub type Figure = (&'static str, &'static [(&'static str, &'static str)], f64);

/// All of them.
pub const REFERENCES: &[Reference] = &[
    Reference {
        id: "beaglebone-black-2015",
        machine: "BeagleBone Black, AM3358, Cortex-A8 1 GHz, Linux 3.8",
        source: "a 2015 study of Linux on ARM, measured with lmbench-next",
        figures: &[
            ("syscall.getppid", &[], 567.1),
            ("syscall.read", &[], 919.9),
            ("syscall.write", &[], 951.4),
            ("syscall.open-close", &[], 11_538.1),
            ("ipc.unix-stream", &[("size", "1")], 45_262.3),
            ("ipc.unix-stream", &[("size", "64")], 45_975.2),
            ("ipc.unix-stream", &[("size", "512")], 47_188.7),
        ],
    },
    Reference {
        id: "intel-i5-2015",
        machine: "Intel Core i5 (desktop)",
        source: "the machine beside it in the same 2015 study, lmbench-next",
        figures: &[
            ("syscall.getppid", &[], 51.6),
            ("syscall.read", &[], 109.6),
            ("syscall.write", &[], 117.3),
            ("syscall.open-close", &[], 1_037.1),
        ],
    },
    Reference {
        id: "cortex-a8-switch",
        machine: "Cortex-A8, Linux 3.2",
        source: "a published comparison of ways to time a context switch on that core",
        figures: &[
            ("ctx.yield", &[], 2_800.0),
            ("ctx.pipe", &[("class", "other"), ("place", "same")], 8_600.0),
        ],
    },
];

/// A comparison with a published machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Against {
    /// What it is called.
    pub id: String,
    /// The machine.
    pub machine: String,
    /// Who published it, and how it was measured.
    pub source: String,
    /// Figures that both have.
    pub rows: Vec<AgainstRow>,
}

/// One figure of both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgainstRow {
    /// Name and parameters.
    pub label: String,
    /// Here.
    pub here: f64,
    /// There.
    pub there: f64,
}

/// The reference of this name.
pub fn find(id: &str) -> Option<&'static Reference> {
    REFERENCES.iter().find(|r| r.id == id)
}

/// What the records and a published machine have in common.
pub fn compare(records: &[Record], reference: &Reference) -> Against {
    let plain = |r: &Record, key: &str| {
        r.params.get(key).map(|p| match p {
            crate::run::Param::Int(i) => i.to_string(),
            crate::run::Param::Float(f) => f.to_string(),
            crate::run::Param::Text(t) => t.clone(),
        })
    };
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
                label: crate::bench::label(name, &params),
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
    use crate::histogram::Summary;
    use crate::run::Param;

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
}
