//! Decisions on requirements as CI systems read them: TAP version 14, KTAP (Documentation/dev-tools/ktap.rst),
//! signals of LAVA, annotations of GitHub, JUnit XML.
//!
//! What is not decided is neither passed nor failed: skipped in TAP, KTAP, JUnit and LAVA, a warning on GitHub.

use super::lava::case;
use crate::plot::svg::escape;
use crate::sections::check::{subject, value};
use latlab_model::check::{CheckDetail, Checked, Decision};
use latlab_model::control;
use std::io::{self, Write};

/// Name of a test: what it is about, the circumstances, and the condition.
fn name(i: &Checked) -> String {
    control::clean(&format!("{}: {}", subject(&i.requirement), i.requirement.text)).into()
}

/// Decision, value and reasons in one line.
fn message(i: &Checked) -> String {
    let mut words = Vec::new();
    let value = value(i);
    if !value.is_empty() {
        words.push(format!("measured {value}"));
    }
    words.extend(crate::messages::notes(&i.notes));
    if words.is_empty() {
        words.push(crate::sections::check::decision(i.decision).to_owned());
    }
    control::clean(&words.join("; ")).into()
}

/// TAP version 14.
///
/// # Errors
/// The writer's.
pub fn tap(d: &CheckDetail, out: &mut impl Write) -> io::Result<()> {
    lines(d, "TAP version 14", " - ", out)
}

/// KTAP version 1.
///
/// # Errors
/// The writer's.
pub fn ktap(d: &CheckDetail, out: &mut impl Write) -> io::Result<()> {
    lines(d, "KTAP version 1", " ", out)
}

fn lines(d: &CheckDetail, head: &str, between: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{head}\n1..{}", d.items.len())?;
    for (n, i) in d.items.iter().enumerate() {
        // `#` begins a directive.
        let (name, message) = (name(i).replace('#', "\\#"), message(i));
        writeln!(out, "# {message}")?;
        match i.decision {
            Decision::Pass => writeln!(out, "ok {}{between}{name}", n + 1)?,
            Decision::Fail => writeln!(out, "not ok {}{between}{name}", n + 1)?,
            Decision::Undecided => {
                writeln!(out, "ok {}{between}{name} # SKIP not decided", n + 1)?;
            }
        }
    }
    Ok(())
}

/// Signals of LAVA (its documentation, *Writing tests*): identifiers without spaces, a measurement with units.
///
/// # Errors
/// The writer's.
pub fn lava(d: &CheckDetail, out: &mut impl Write) -> io::Result<()> {
    for (n, i) in d.items.iter().enumerate() {
        let result = match i.decision {
            Decision::Pass => "pass",
            Decision::Fail => "fail",
            Decision::Undecided => "skip",
        };
        let measurement = i.value.map(|v| (v, i.requirement.unit));
        case(&format!("{}-{}", n + 1, name(i)), result, measurement, out)?;
    }
    Ok(())
}

/// Annotations of GitHub (workflow commands) on the lines of the requirements' file.
///
/// # Errors
/// The writer's.
pub fn github(d: &CheckDetail, out: &mut impl Write) -> io::Result<()> {
    let data = |s: &str| s.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |s: &str| data(s).replace(':', "%3A").replace(',', "%2C");
    for i in &d.items {
        let kind = match i.decision {
            Decision::Pass => "notice",
            Decision::Fail => "error",
            Decision::Undecided => "warning",
        };
        writeln!(
            out,
            "::{kind} file={},line={},title={}::{}",
            property(&d.source),
            i.requirement.line,
            property(&name(i)),
            data(&message(i))
        )?;
    }
    Ok(())
}

/// JUnit XML.
///
/// # Errors
/// The writer's.
pub fn junit(d: &CheckDetail, started: &str, out: &mut impl Write) -> io::Result<()> {
    let count = |decision| d.items.iter().filter(|i| i.decision == decision).count();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuites>\n  <testsuite name=\"latlab check\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" timestamp=\"{}\">",
        d.items.len(),
        count(Decision::Fail),
        count(Decision::Undecided),
        escape(started.trim_end_matches('Z'))
    )?;
    for i in &d.items {
        let (name, message) = (name(i), message(i));
        let (name, message) = (escape(&name), escape(&message));
        write!(out, "    <testcase classname=\"{}\" name=\"{name}\">\n      ", escape(&d.source))?;
        match i.decision {
            Decision::Fail => write!(out, "<failure message=\"{message}\" type=\"not met\"/>")?,
            Decision::Undecided => write!(out, "<skipped message=\"{message}\"/>")?,
            Decision::Pass => write!(out, "<system-out>{message}</system-out>")?,
        }
        writeln!(out, "\n    </testcase>")?;
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::check::{Circumstances, Comparison, Requirement, Statistic, Subject};
    use latlab_model::finding::Note;
    use latlab_model::record::Unit;

    fn detail() -> CheckDetail {
        let item = |decision, text: &str, value| Checked {
            requirement: Requirement {
                line: 2,
                text: text.into(),
                subject: Subject::Wakeup,
                statistic: Statistic::Max,
                comparison: Comparison::Below,
                limit: 1e5,
                unit: Unit::Ns,
                circumstances: Circumstances::default(),
            },
            decision,
            value,
            interval: None,
            samples: 10,
            effective: 10.0,
            duration_ns: 1,
            needed_ns: None,
            notes: Vec::new(),
            runs: Vec::new(),
        };
        let mut undecided = item(Decision::Undecided, "p99 < 5 us, # 50 %", None);
        undecided.notes.push(Note::new("check.no-run"));
        let items = vec![
            item(Decision::Pass, "max < 100 us", Some(52_000.0)),
            item(Decision::Fail, "max < 10 us", Some(52_000.0)),
            undecided,
        ];
        CheckDetail { source: "a:b.req".into(), items }
    }

    fn text(f: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        f(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tap_and_ktap_have_a_line_each() {
        let tap = text(|out| tap(&detail(), out));
        let lines: Vec<&str> = tap.lines().filter(|l| !l.starts_with("# ")).collect();
        assert_eq!(lines[..2], ["TAP version 14", "1..3"]);
        assert_eq!(lines[2], "ok 1 - wakeup: max < 100 us");
        assert_eq!(lines[3], "not ok 2 - wakeup: max < 10 us");
        assert_eq!(lines[4], "ok 3 - wakeup: p99 < 5 us, \\# 50 % # SKIP not decided");
        let ktap = text(|out| ktap(&detail(), out));
        assert!(ktap.starts_with("KTAP version 1\n1..3\n") && ktap.contains("\nok 1 wakeup: max"));
    }

    #[test]
    fn nothing_of_a_name_leaves_its_field() {
        let lava = text(|out| lava(&detail(), out));
        let first = "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=1-wakeup__max___100_us RESULT=pass MEASUREMENT=52000 UNITS=ns>";
        assert_eq!(lava.lines().next(), Some(first));
        let github = text(|out| github(&detail(), out));
        assert!(
            github.contains("::error file=a%3Ab.req,line=2,title=wakeup%3A max < 10 us::measured")
        );
        assert!(github.contains("p99 < 5 us%2C # 50 %25::No run"), "{github}");
        let junit = text(|out| junit(&detail(), "2026-01-01T00:00:00Z", out));
        let xml = roxmltree::Document::parse(&junit).unwrap();
        let suite = xml.root_element().first_element_child().unwrap();
        assert_eq!(
            (suite.attribute("failures"), suite.attribute("skipped")),
            (Some("1"), Some("1"))
        );
    }
}
