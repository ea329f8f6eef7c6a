//! A run as rows of a lake, and what is refused before it becomes any.
//!
//! Runs come from devices that anybody may hold: a run enters a lake only if all of it fits into these
//! limits. Counts are limited so that no sum over eight million results leaves 64 bits.
//!
//! Histograms keep 64 buckets for each power of two (1.6 %). The bounds of these buckets are bounds of
//! the run's own buckets as well, so that no value changes sides, and merging is exact.

use super::campaign::is_name;
use crate::fnv;
use crate::history::{rows, unit_word};
use latlab_model::history::RunRow;
use latlab_model::lake::{Cell, Row, RunRows};
use latlab_model::record::Record;
use latlab_model::run::{Part, Run};
use latlab_stats::histogram::Histogram;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most bytes of a name, a kernel's release or another word.
pub const WORD_BYTES: usize = 256;
/// Most bytes of a command line, a value of the environment or the values of a finding.
pub const TEXT_BYTES: usize = 16 << 10;
/// Most records and findings of a run.
pub const RECORDS: usize = 20_000;
/// Most buckets of all histograms of a run, after they were made coarser.
pub const BUCKETS: usize = 500_000;
/// Most values of a record.
pub const COUNT: u64 = 1 << 40;

/// Before the name of a kernel in the parameters of a result.
const KERNEL: &str = "kernel=";

/// Buckets for each power of two, as a power of two.
const BITS: u32 = 6;

/// Why a run does not become rows: the field and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Refused {
    /// Which field.
    pub field: String,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Too many of something.
    #[error("more than {most} {what}")]
    TooMany {
        /// The limit.
        most: u64,
        /// Of what.
        what: &'static str,
    },
    /// A text is too long.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// A terminal or a table would obey it.
    #[error("has control characters")]
    Controls,
    /// Not a time as runs have it.
    #[error("no time in UTC, such as 2026-03-01T02:00:00Z")]
    NoTime,
    /// A day to come.
    #[error("{0} is in the future: the clock of the machine is ahead")]
    Future(String),
    /// Not a UUID.
    #[error("no UUID")]
    NoUuid,
    /// Not a name as campaigns have them.
    #[error("no name of 1 to 64 letters, digits, '_', '-' and '.'")]
    NoName,
    /// No column has it.
    #[error("a value of more than 63 bits")]
    TooLarge,
}

fn refused<T>(field: &str, reason: Reason) -> Result<T, Refused> {
    Err(Refused { field: field.to_owned(), reason })
}

fn too_many<T>(field: &str, most: u64, what: &'static str) -> Result<T, Refused> {
    refused(field, Reason::TooMany { most, what })
}

/// To which campaign, experiment and kernel of it a run belongs; empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Name of the campaign.
    pub campaign: String,
    /// Identifier of the experiment in it.
    pub experiment: String,
    /// Name of the kernel in it: part of the parameters of each result, since results of one device with two
    /// kernels are two series, whatever the releases are called.
    pub kernel: String,
}

/// The rows of a run. `today` is the last day that its start may have (`YYYY-MM-DD`).
///
/// # Errors
/// The first field that is outside of the limits.
pub fn of_run(run: &Run, origin: &Origin, today: &str) -> Result<RunRows, Refused> {
    if run.records().count() > RECORDS
        || run.parts.iter().map(|p| p.findings.len()).sum::<usize>() > RECORDS
    {
        return too_many("parts", RECORDS as u64, "records or findings");
    }
    let (head, results) = rows(run, "");
    if !origin.kernel.is_empty() && !is_name(&origin.kernel) {
        return refused("origin.kernel", Reason::NoName);
    }
    let date = day(&run.started, today)?;
    let id = identifier(run, &head)?;
    // Where it was written is no part of it: a machine in virtual time makes the same run again, with the same identifier.
    let digest_with_out = digest(&head, &head.command, &results);
    let digest = digest(&head, &command(&run.command_line), &results);
    let device = if head.unit.is_empty() { &head.host } else { &head.unit };
    let common = [
        cell("id", &id, WORD_BYTES)?,
        cell("started", &run.started, WORD_BYTES)?,
        cell("machine.board", &head.board, WORD_BYTES)?,
        cell("machine.host", device, WORD_BYTES)?,
        cell("machine.kernel.release", &head.kernel, WORD_BYTES)?,
    ];
    let mut out = RunRows { id, date, digest, digest_with_out, ..RunRows::default() };
    out.rows[0].push(run_row(run, &head, origin, &common, digest)?);
    let mut buckets = 0;
    for ((part, record), result) in run.records().zip(&results) {
        let named = [
            cell("part", &part.name, WORD_BYTES)?,
            cell("name", &record.name, WORD_BYTES)?,
            cell("params", &with_kernel(&result.params, &origin.kernel), WORD_BYTES)?,
            cell("unit", &unit_word(record.unit), WORD_BYTES)?,
        ];
        out.rows[1].push(result_row(&common, &named, record, result)?);
        if let Some(h) = &record.histogram {
            let rows = histogram_rows(&common, &named, h)?;
            buckets += rows.len();
            if buckets > BUCKETS {
                return too_many("histogram", BUCKETS as u64, "buckets");
            }
            out.rows[2].extend(rows);
        }
    }
    for part in &run.parts {
        out.rows[3].append(&mut finding_rows(&common, part)?);
    }
    out.rows[4] = environment_rows(run, origin, &common)?;
    Ok(out)
}

/// The parameters of a result with the kernel of its campaign.
fn with_kernel(params: &str, kernel: &str) -> String {
    match (params, kernel) {
        (_, "") => params.to_owned(),
        ("", _) => [KERNEL, kernel].concat(),
        _ => [params, ",", KERNEL, kernel].concat(),
    }
}

/// The kernel of a campaign among the parameters of a result, and the parameters without it.
pub fn kernel_of(params: &str) -> Option<(&str, String)> {
    let kernel = params.split(',').find_map(|p| p.strip_prefix(KERNEL))?;
    let others: Vec<&str> = params.split(',').filter(|p| !p.starts_with(KERNEL)).collect();
    Some((kernel, others.join(",")))
}

/// The day of a time in UTC, which is written as RFC 3339 has it.
fn day(started: &str, today: &str) -> Result<String, Refused> {
    let bytes = started.as_bytes();
    let shape = |i: usize, &b: &u8| match i {
        4 | 7 => b == b'-',
        10 => b == b'T',
        13 | 16 => b == b':',
        _ => b.is_ascii_digit(),
    };
    let plain = bytes.len() >= 20
        && bytes.len() <= 30
        && bytes[..19].iter().enumerate().all(|(i, b)| shape(i, b))
        && bytes.last() == Some(&b'Z');
    let number = |from: usize| started.get(from..from + 2).and_then(|t| t.parse().ok());
    let within = |from, low, high| number(from).is_some_and(|v: u32| (low..=high).contains(&v));
    if !plain || !within(5, 1, 12) || !within(8, 1, 31) || !within(11, 0, 23) {
        return refused("started", Reason::NoTime);
    }
    let day = started[..10].to_owned();
    if day.as_str() > today {
        return refused("started", Reason::Future(day));
    }
    Ok(day)
}

/// A run's UUID; one made from its number for runs of versions that gave none.
fn identifier(run: &Run, head: &RunRow) -> Result<String, Refused> {
    if run.id.is_empty() {
        return Ok(["number-", &fnv::digits(head.id as u64, 16)].concat());
    }
    let uuid = |(i, b): (usize, u8)| match i {
        8 | 13 | 18 | 23 => b == b'-',
        _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
    };
    if run.id.len() != 36 || !run.id.bytes().enumerate().all(uuid) {
        return refused("id", Reason::NoUuid);
    }
    Ok(run.id.clone())
}

/// A checksum of what was measured, and where and when.
fn digest(head: &RunRow, command: &str, results: &[latlab_model::history::ResultRow]) -> i64 {
    let mut all = Vec::new();
    let mut add = |bytes: &[u8]| {
        all.extend_from_slice(bytes);
        all.push(0);
    };
    for text in [&head.started, &head.host, &head.unit, &head.kernel, command] {
        add(text.as_bytes());
    }
    for r in results {
        for text in [&r.part, &r.name, &r.params] {
            add(text.as_bytes());
        }
        add(&r.count.to_le_bytes());
        for value in [r.min, r.median, r.p99, r.p999, r.max] {
            add(&value.unwrap_or(0.0).to_bits().to_le_bytes());
        }
    }
    (fnv::fnv(all) >> 1) as i64
}

fn cell(field: &str, text: &str, most: usize) -> Result<Cell, Refused> {
    if text.len() > most {
        return refused(field, Reason::TooLong(most));
    }
    if text.chars().any(char::is_control) {
        return refused(field, Reason::Controls);
    }
    Ok(Cell::Text(Arc::from(text)))
}

/// The command as it was typed on the machine: without the path of the program and without `--out`.
fn command(words: &[String]) -> String {
    let mut kept = vec!["latlab"];
    let mut words = words.iter().skip(1).map(String::as_str);
    while let Some(word) = words.next() {
        if word == "--out" {
            words.next();
        } else if !word.starts_with("--out=") {
            kept.push(word);
        }
        if word == "--" {
            break;
        }
    }
    kept.extend(words);
    kept.join(" ")
}

fn run_row(
    run: &Run,
    head: &RunRow,
    origin: &Origin,
    common: &[Cell; 5],
    digest: i64,
) -> Result<Row, Refused> {
    let mut row = common.to_vec();
    row.extend([
        cell("machine.host", &head.host, WORD_BYTES)?,
        cell("machine.unit", &head.unit, WORD_BYTES)?,
        cell("machine.arch", &head.arch, WORD_BYTES)?,
        cell("command_line", &command(&run.command_line), TEXT_BYTES)?,
        cell("latlab_version", &run.latlab_version, WORD_BYTES)?,
        cell("campaign", &origin.campaign, WORD_BYTES)?,
        cell("experiment", &origin.experiment, WORD_BYTES)?,
        Cell::Flag(run.complete),
        Cell::Int(digest),
    ]);
    Ok(row)
}

fn result_row(
    common: &[Cell; 5],
    named: &[Cell; 4],
    record: &Record,
    result: &latlab_model::history::ResultRow,
) -> Result<Row, Refused> {
    if record.summary.count > COUNT {
        return too_many(&record.name, COUNT, "values");
    }
    let mut row: Row = common.iter().chain(named).cloned().collect();
    row.push(Cell::Flag(record.unit.larger_is_better()));
    row.push(Cell::Int(result.count));
    row.extend([result.min, result.median, result.p99, result.p999, result.max].map(Cell::Real));
    Ok(row)
}

/// Bounds of the bucket of a lake that a value falls into, both included.
pub fn bucket(value: u64) -> (u64, u64) {
    let shift = (63 - value.max(1).leading_zeros()).saturating_sub(BITS);
    let low = value >> shift << shift;
    (low, low + ((1 << shift) - 1))
}

/// The buckets of a lake with the values of a histogram, exactly; bounds as [`bucket`] has them.
pub fn buckets(histogram: &Histogram) -> BTreeMap<(u64, u64), u64> {
    let mut merged = BTreeMap::new();
    for &(low, n) in &histogram.buckets {
        let sum: &mut u64 = merged.entry(bucket(low)).or_default();
        *sum = sum.saturating_add(n);
    }
    merged
}

fn histogram_rows(
    common: &[Cell; 5],
    named: &[Cell; 4],
    h: &Histogram,
) -> Result<Vec<Row>, Refused> {
    if h.count > COUNT {
        return too_many("histogram", COUNT, "values");
    }
    let int = |v: u64| i64::try_from(v).map(Cell::Int);
    let row = |((low, high), n): ((u64, u64), u64)| {
        let (Ok(low), Ok(high), Ok(n)) = (int(low), int(high), int(n)) else {
            return refused("histogram", Reason::TooLarge);
        };
        Ok(common.iter().chain(named).cloned().chain([low, high, n]).collect())
    };
    buckets(h).into_iter().map(row).collect()
}

fn finding_rows(common: &[Cell; 5], part: &Part) -> Result<Vec<Row>, Refused> {
    let name = cell("part", &part.name, WORD_BYTES)?;
    let word = |value: serde_json::Result<serde_json::Value>| {
        value.ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let row = |finding: &latlab_model::finding::Finding| {
        // JSON escapes control characters.
        let details = serde_json::to_string(&finding.values).unwrap_or_default();
        let mut row = common.to_vec();
        row.extend([
            name.clone(),
            cell("finding", &finding.id, WORD_BYTES)?,
            cell("severity", &word(serde_json::to_value(finding.severity)), WORD_BYTES)?,
            cell("confidence", &word(serde_json::to_value(finding.confidence)), WORD_BYTES)?,
            cell("finding values", &details, TEXT_BYTES)?,
        ]);
        Ok(row)
    };
    part.findings.iter().map(row).collect()
}

/// What is known of the machine, by name.
fn environment(run: &Run) -> BTreeMap<String, String> {
    let m = &run.machine;
    let mut all = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            all.insert(name.to_owned(), value);
        }
    };
    put("kernel.version", Some(m.kernel.version.clone()));
    put("kernel.command_line", m.kernel.command_line.clone());
    put("kernel.preemption", m.kernel.preemption.clone());
    put("kernel.hz", m.kernel.hz.map(|v| v.to_string()));
    put("kernel.lockdown", m.kernel.lockdown.clone());
    if !m.kernel.config.is_empty() {
        let line = |(k, v): (&String, &String)| [k.as_str(), "=", v, "\n"].concat();
        let lines = m.kernel.config.iter().map(line).collect::<String>();
        put("kernel.config", Some(fnv::digits(fnv::fnv(lines.bytes()), 16)));
    }
    put("firmware", m.firmware.clone());
    put("os", m.os.clone());
    put("cpu.model", m.cpu.model.clone());
    put("cpu.microcode", m.cpu.microcode.clone());
    put("cpu.online", Some(m.cpu.online.clone()));
    put("cpu.idle_driver", m.cpu.idle_driver.clone());
    put("memory_bytes", m.memory_bytes.map(|v| v.to_string()));
    put("thp", m.thp.clone());
    put("clock.source", m.clock.source.clone());
    put("rt.runtime_us", m.rt.runtime_us.map(|v| v.to_string()));
    put("rt.isolated", Some(m.rt.isolated.clone()));
    put("rt.nohz_full", Some(m.rt.nohz_full.clone()));
    put("virtualization", m.virtualization.clone());
    let mut prefixed = |prefix: &str, from: &BTreeMap<String, String>| {
        from.iter().for_each(|(k, v)| put(&[prefix, ".", k].concat(), Some(v.clone())));
    };
    prefixed("kernel.config", &m.kernel.config);
    prefixed("package", &m.packages);
    prefixed("cpu.governor", &m.cpu.governors);
    prefixed("mitigation", &m.mitigations);
    all
}

fn environment_rows(run: &Run, origin: &Origin, common: &[Cell; 5]) -> Result<Vec<Row>, Refused> {
    let mut all = environment(run);
    if !origin.kernel.is_empty() {
        all.insert("campaign.kernel".into(), origin.kernel.clone());
    }
    if all.len() > RECORDS {
        return too_many("machine", RECORDS as u64, "properties");
    }
    let row = |(name, value): (String, String)| {
        let mut row = common.to_vec();
        row.push(cell("machine", &name, WORD_BYTES)?);
        row.push(cell(&name, value.trim(), TEXT_BYTES)?);
        Ok(row)
    };
    all.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::lake::TABLES;
    use latlab_stats::histogram::bucket_low;

    fn run() -> Run {
        let h = Histogram::of((0..1000).map(|i| 15_000 + i * 7));
        let mut run = Run {
            id: "0123abcd-0000-4000-8000-000000000001".into(),
            started: "2026-03-01T02:00:00Z".into(),
            command_line: ["/cache/latlab-armv7", "wakeup", "--out", "x", "-D", "2"]
                .map(String::from)
                .into(),
            parts: vec![Part {
                name: "wakeup".into(),
                results: vec![Record {
                    name: "wakeup.user".into(),
                    summary: h.summary(),
                    histogram: Some(h),
                    ..Record::default()
                }],
                ..Part::default()
            }],
            ..Run::default()
        };
        run.machine.host = "bb".into();
        run
    }

    fn rows_of(run: &Run) -> Result<RunRows, Refused> {
        of_run(run, &Origin::default(), "2026-12-31")
    }

    #[test]
    fn every_row_has_the_columns_of_its_table() {
        let mut run = run();
        run.machine.kernel.config = [("CONFIG_HZ".into(), "250".into())].into();
        let rows = rows_of(&run).unwrap();
        for (table, rows) in TABLES.iter().zip(&rows.rows) {
            assert_eq!(rows.is_empty(), table.name == "finding", "{}", table.name);
            for row in rows {
                assert_eq!(row.len(), table.columns.len(), "{}", table.name);
            }
        }
        assert_eq!(rows.date, "2026-03-01");
        assert_eq!(rows.rows[0][0][8].text(), "latlab wakeup -D 2");
        let n: i64 = rows.rows[2].iter().map(|r| r[11].int()).sum();
        assert_eq!(n, 1000);
    }

    /// One device with two kernels has two series, also where both have one release.
    #[test]
    fn results_with_different_kernels_of_a_campaign_differ_in_their_parameters() {
        let of = |kernel: &str| {
            let origin = Origin { kernel: kernel.into(), ..Origin::default() };
            of_run(&run(), &origin, "2026-12-31")
        };
        let params = |rows: &RunRows| rows.rows[1][0][7].text().to_owned();
        let rows = of("latency").unwrap();
        assert_eq!(params(&rows), "kernel=latency");
        assert_eq!(rows.rows[2][0][7].text(), "kernel=latency");
        let property = rows.rows[4].iter().find(|r| r[5].text() == "campaign.kernel").unwrap();
        assert_eq!(property[6].text(), "latency");
        assert_eq!(params(&of("").unwrap()), "");
        assert_eq!(rows.digest, of("debian").unwrap().digest, "the run is the same one");
        assert_eq!(with_kernel("cpu=0,size=1", "a"), "cpu=0,size=1,kernel=a");
        assert_eq!(kernel_of("cpu=0,size=1,kernel=a"), Some(("a", "cpu=0,size=1".into())));
        assert_eq!(kernel_of("cpu=0"), None);
        for hostile in ["a,cpu=0", "a=b", "../a", "\u{1b}", "x y"] {
            let error = of(hostile).unwrap_err().to_string();
            assert!(error.starts_with("origin.kernel: no name"), "{error}");
        }
    }

    #[test]
    fn buckets_of_a_lake_are_whole_buckets_of_a_run() {
        let mut next = 0;
        while next < 1 << 40 {
            let (low, high) = bucket(next);
            assert_eq!(low, next, "no gap");
            assert_eq!(bucket_low(low), low);
            assert_eq!(latlab_stats::histogram::bucket_high(high), high);
            assert!(high - low <= low / 64, "{low} {high}");
            next = high + 1;
        }
        assert_eq!(bucket(u64::MAX).1, u64::MAX);
    }

    #[test]
    fn hostile_runs_are_refused_with_the_field() {
        let change = |edit: &dyn Fn(&mut Run)| {
            let mut run = run();
            edit(&mut run);
            rows_of(&run).unwrap_err().to_string()
        };
        assert_eq!(change(&|r| r.id = "../../x".into()), "id: no UUID");
        assert!(change(&|r| r.started = "2027-01-01T00:00:00Z".into()).contains("in the future"));
        for started in [
            "",
            "2026-13-01T00:00:00Z",
            "2026-1-01T00:00:000Z",
            "../../../../../../../Z",
            "2026-01-01T00:00:00+09:00",
        ] {
            assert!(
                change(&|r| r.started = started.into()).contains("no time in UTC"),
                "{started}"
            );
        }
        assert!(change(&|r| r.machine.host = "a\u{1b}[2J".into()).contains("control characters"));
        assert!(change(&|r| r.machine.host = "x".repeat(257)).contains("longer than 256 bytes"));
        assert!(change(&|r| r.parts[0].results[0].name = "a\nb".into()).starts_with("name: "));
        assert_eq!(fnv::digits(0x0123_4567_89ab_cdef, 16), "0123456789abcdef");
        assert!(change(&|r| r.parts[0].results[0].summary.count = 1 << 41).contains("more than"));
        assert!(
            change(&|r| {
                let h = r.parts[0].results[0].histogram.as_mut().unwrap();
                (h.count, h.buckets) = (1 << 41, vec![(1, 1 << 41)]);
            })
            .contains("more than")
        );
        assert!(
            change(&|r| {
                let one = Record::default();
                r.parts[0].results = vec![one; RECORDS + 1];
            })
            .contains("records")
        );
    }

    #[test]
    fn a_digest_is_that_of_what_was_measured() {
        let same = rows_of(&run()).unwrap().digest;
        assert_eq!(rows_of(&run()).unwrap().digest, same);
        let mut other = run();
        other.parts[0].results[0].summary.median = Some(1.0);
        assert_ne!(rows_of(&other).unwrap().digest, same);
        // A machine in virtual time repeats a run with its identifier: it is the same run in another directory.
        let mut again = run();
        again.command_line[3] = "y".into();
        let (first, again) = (rows_of(&run()).unwrap(), rows_of(&again).unwrap());
        assert_eq!(again.digest, same);
        assert_ne!(again.digest_with_out, first.digest_with_out);
    }
}
