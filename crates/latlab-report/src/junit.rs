//! JUnit XML, as CI servers read it: a test case a metric, a failure where it is worse.

use crate::plot::svg::escape;
use latlab_model::compare::{CompareDetail, Verdict};
use std::io::{self, Write};

/// Writes a comparison. Metrics that are inconclusive, or of which only these runs differ, are skipped
/// tests: neither passed nor failed.
///
/// # Errors
/// The writer's.
pub fn comparison(d: &CompareDetail, started: &str, out: &mut impl Write) -> io::Result<()> {
    let all: Vec<_> =
        d.metrics.iter().flat_map(|m| m.contrasts.iter().map(move |c| (m, c))).collect();
    let count = |v: Verdict| all.iter().filter(|(_, c)| c.verdict == v).count();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuites>\n  <testsuite name=\"latlab compare\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" timestamp=\"{}\">",
        all.len(),
        count(Verdict::Worse),
        count(Verdict::Inconclusive) + count(Verdict::RunsDiffer),
        escape(started.trim_end_matches('Z'))
    )?;
    for (m, c) in all {
        let other = d.subjects.get(c.other).map_or("", |s| s.label.as_str());
        write!(out, "    <testcase classname=\"{}\" name=\"{}\"", escape(other), escape(&m.label))?;
        let sentence = escape(&crate::sections::compare::sentence(c, m.unit));
        match c.verdict {
            Verdict::Worse => writeln!(
                out,
                ">\n      <failure message=\"{sentence}\" type=\"worse\"/>\n    </testcase>"
            )?,
            Verdict::Inconclusive | Verdict::RunsDiffer => {
                writeln!(out, ">\n      <skipped message=\"{sentence}\"/>\n    </testcase>")?
            }
            Verdict::Better | Verdict::NoDifference => {
                writeln!(out, ">\n      <system-out>{sentence}</system-out>\n    </testcase>")?
            }
        }
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}

/// A test of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What was measured.
    pub name: String,
    /// The verdict in words.
    pub sentence: String,
    /// Whether its limit is exceeded.
    pub failed: bool,
}

/// Writes the tests of a gate.
///
/// # Errors
/// The writer's.
pub fn gate(cases: &[Case], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"latlab vm gate\" \
         tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"0\">",
        cases.len(),
        cases.iter().filter(|c| c.failed).count()
    )?;
    for case in cases {
        let (name, sentence) = (escape(&case.name), escape(&case.sentence));
        writeln!(out, "    <testcase classname=\"latlab vm gate\" name=\"{name}\">")?;
        if case.failed {
            writeln!(out, "      <failure message=\"{sentence}\" type=\"over the limit\"/>")?;
        } else {
            writeln!(out, "      <system-out>{sentence}</system-out>")?;
        }
        writeln!(out, "    </testcase>")?;
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_has_a_test_for_each_limit() {
        let case = |name: &str, failed| Case {
            name: name.into(),
            sentence: "+48 instructions: a<b".into(),
            failed,
        };
        let mut out = Vec::new();
        gate(&[case("path", true), case("wakeup.user", false)], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let xml = roxmltree::Document::parse(&text).unwrap();
        let suite = xml.root_element().first_element_child().unwrap();
        assert_eq!((suite.attribute("tests"), suite.attribute("failures")), (Some("2"), Some("1")));
        let failure = xml.descendants().find(|n| n.has_tag_name("failure")).unwrap();
        assert_eq!(failure.attribute("message"), Some("+48 instructions: a<b"));
    }
    use latlab_model::compare::{Contrast, Metric, SubjectInfo};

    #[test]
    fn worse_is_a_failure_and_undecided_is_skipped() {
        let contrast = |verdict, sentence: &str| Contrast {
            other: 1,
            verdict,
            sentence: sentence.into(),
            ..Contrast::default()
        };
        let metric = |label: &str, c| Metric {
            label: label.into(),
            contrasts: vec![c],
            ..Metric::default()
        };
        let d = CompareDetail {
            subjects: vec![
                SubjectInfo::default(),
                SubjectInfo { label: "new & odd".into(), ..SubjectInfo::default() },
            ],
            metrics: vec![
                metric("a<b", contrast(Verdict::Worse, "worse: \"p99\"")),
                metric("c", contrast(Verdict::Inconclusive, "cannot")),
                metric("d", contrast(Verdict::Better, "better")),
                metric("e", contrast(Verdict::RunsDiffer, "runs")),
            ],
            ..CompareDetail::default()
        };
        let mut out = Vec::new();
        comparison(&d, "2026-01-01T00:00:00Z", &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let xml = roxmltree::Document::parse(&text).unwrap();
        let suite = xml.root_element().first_element_child().unwrap();
        assert_eq!(
            (suite.attribute("tests"), suite.attribute("failures"), suite.attribute("skipped")),
            (Some("4"), Some("1"), Some("2"))
        );
        let names: Vec<_> = suite.children().filter_map(|c| c.attribute("name")).collect();
        assert_eq!(names, ["a<b", "c", "d", "e"]);
    }
}
