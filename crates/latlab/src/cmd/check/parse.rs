//! Requirements as lines of text.

use latlab_model::check::{Circumstances, Comparison, Requirement, Statistic, Subject};
use latlab_model::cpulist;
use latlab_model::record::Unit;
use latlab_model::wakeup::mechanism::Mechanism;
use latlab_sys::load::LoadSpec;
use std::fmt;

/// Longest file, bytes.
pub const SIZE_MAX: usize = 1 << 20;
/// Conditions, at most.
const CONDITIONS_MAX: usize = 1_000;

/// Why a line is no requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRequirement {
    /// Line, from 1.
    pub line: u32,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for BadRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for BadRequirement {}

/// The requirements of a text. `#` begins a comment.
///
/// # Errors
/// The first line that cannot be read; a text without requirements.
pub fn parse(text: &str) -> Result<Vec<Requirement>, BadRequirement> {
    let mut out = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let number = n as u32 + 1;
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let bad = |reason| BadRequirement { line: number, reason };
            out.extend(one_line(line, number).map_err(bad)?);
        }
        if out.len() > CONDITIONS_MAX {
            let reason = format!("more than {CONDITIONS_MAX} conditions");
            return Err(BadRequirement { line: number, reason });
        }
    }
    if out.is_empty() {
        let reason = "no requirement in the file, such as `p99.9 < 80 us, max < 150 us, 10 min`";
        return Err(BadRequirement { line: 1, reason: reason.into() });
    }
    Ok(out)
}

fn one_line(line: &str, number: u32) -> Result<Vec<Requirement>, String> {
    let (subject, rest) = subject(line)?;
    let mut circumstances = Circumstances::default();
    let mut conditions = Vec::new();
    for item in rest.split(',').map(str::trim).filter(|i| !i.is_empty()) {
        match condition(&subject, item)? {
            Some(condition) => conditions.push(condition),
            None => circumstance(&subject, item, &mut circumstances)?,
        }
    }
    let queue = conditions.iter().any(|c| c.1 == Statistic::Queue);
    if queue != circumstances.packets.is_some() {
        return Err(format!("`{line}`: queue and `packets RATE:NS` belong together"));
    }
    if conditions.is_empty() {
        return Err(format!("no condition, such as `max < 150 us`, in `{line}`"));
    }
    let requirement = |(text, statistic, comparison, limit, unit)| Requirement {
        line: number,
        text,
        subject: subject.clone(),
        statistic,
        comparison,
        limit,
        unit,
        circumstances: circumstances.clone(),
    };
    Ok(conditions.into_iter().map(requirement).collect())
}

/// `noise: …`, `bench syscall.getppid: …`; without one it is `wakeup`.
fn subject(line: &str) -> Result<(Subject, &str), String> {
    let Some((head, rest)) = line.split_once(": ") else { return Ok((Subject::Wakeup, line)) };
    let mut words = head.split_whitespace();
    let subject = match (words.next(), words.next(), words.next()) {
        (Some("wakeup"), None, _) => Subject::Wakeup,
        (Some("noise"), None, _) => Subject::Noise,
        (Some("doctor"), None, _) => Subject::Doctor,
        (Some("bench" | "memory"), Some(name), None) => Subject::Record(name.to_owned()),
        _ if head.contains('<') || head.contains("under") => return Ok((Subject::Wakeup, line)),
        _ => {
            return Err(format!(
                "`{head}`: expected wakeup, noise, doctor, `bench NAME` or `memory NAME`"
            ));
        }
    };
    Ok((subject, rest))
}

type Condition = (String, Statistic, Comparison, f64, Unit);

/// A condition; `None` if the item has no comparison.
fn condition(subject: &Subject, item: &str) -> Result<Option<Condition>, String> {
    let Some(at) = item.find(['<', '>', '=']) else { return Ok(None) };
    let (name, rest) = (item[..at].trim(), &item[at..]);
    let signs = ["<=", ">=", "==", "<", ">", "="];
    let sign = signs.into_iter().find(|s| rest.starts_with(s)).unwrap_or("<");
    let value = rest[sign.len()..].trim();
    if *subject == Subject::Doctor {
        if sign.starts_with('=') && value == "ok" {
            let state = Statistic::State(name.to_owned());
            let text = format!("{name} = ok");
            return Ok(Some((text, state, Comparison::AtMost, 0.0, Unit::Count)));
        }
        return Err(format!("`{item}`: expected `IDENTIFIER = ok`"));
    }
    let statistic = statistic(name, subject).ok_or_else(|| {
        let known = match subject {
            Subject::Noise => "max, lost, rate, queue",
            Subject::Record(_) => "median, p99, max",
            _ => "median, p99.9 (any quantile), max, missed",
        };
        format!("`{name}`: not measured there; there are {known}")
    })?;
    let (limit, unit) = limit(value, &statistic, subject)?;
    let comparison = match sign {
        "<" => Comparison::Below,
        "<=" => Comparison::AtMost,
        ">" | ">=" => Comparison::Above,
        _ if limit == 0.0 => Comparison::AtMost,
        _ => return Err(format!("`{item}`: = is for 0 only; use <, <= or >")),
    };
    let upward = comparison == Comparison::Above;
    if upward && !matches!(unit, Unit::BytesPerSecond | Unit::PerSecond) {
        return Err(format!("`{item}`: what is better when it is small needs < or <="));
    }
    Ok(Some((item.to_owned(), statistic, comparison, limit, unit)))
}

fn statistic(name: &str, subject: &Subject) -> Option<Statistic> {
    let wakeup = *subject == Subject::Wakeup;
    let noise = *subject == Subject::Noise;
    match name {
        "max" => Some(Statistic::Max),
        "missed" if wakeup => Some(Statistic::Missed),
        "lost" if noise => Some(Statistic::Lost),
        "queue" if noise => Some(Statistic::Queue),
        "rate" if noise => Some(Statistic::PerSecond),
        "median" if !noise => Some(Statistic::Quantile(0.5)),
        _ if noise => None,
        _ => {
            let q: f64 = name.strip_prefix('p')?.parse().ok()?;
            (q > 0.0 && q < 100.0).then_some(Statistic::Quantile(q / 100.0))
        }
    }
}

/// A larger number of any unit is a mistake: of nanoseconds it is 11 days.
const LARGEST: f64 = 1e15;

fn limit(value: &str, statistic: &Statistic, subject: &Subject) -> Result<(f64, Unit), String> {
    let split = value.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(value.len());
    let (number, unit) = (value[..split].trim(), value[split..].trim());
    let number: f64 = number.parse().map_err(|_| format!("`{value}`: no number"))?;
    if number > LARGEST {
        return Err(format!("`{value}`: larger than {LARGEST:e}"));
    }
    let wrong = |expected: &str| {
        let unit = if unit.is_empty() { "no unit" } else { unit };
        Err(format!("`{value}`: {unit}, expected {expected}"))
    };
    match statistic {
        Statistic::Missed => match unit {
            "" => Ok((number, Unit::Count)),
            _ => wrong("a number of periods"),
        },
        Statistic::Queue => match unit {
            "" | "packets" => Ok((number, Unit::Count)),
            _ => wrong("a number of packets"),
        },
        Statistic::Lost => match unit {
            "%" => Ok((number / 100.0, Unit::Ratio)),
            _ => wrong("%"),
        },
        Statistic::PerSecond => match unit {
            "/s" => Ok((number, Unit::Count)),
            _ => wrong("/s"),
        },
        _ => {
            let rate = match unit {
                "MB/s" => Some(1e6),
                "GB/s" => Some(1e9),
                _ => None,
            };
            if let (Some(scale), Subject::Record(_)) = (rate, subject) {
                return Ok((number * scale, Unit::BytesPerSecond));
            }
            match time_unit(unit) {
                Some(scale) => Ok((number * scale, Unit::Ns)),
                None => wrong("ns, us, ms or s"),
            }
        }
    }
}

/// Length of a unit of time, ns.
fn time_unit(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" | "m" => 60e9,
        "h" => 3_600e9,
        "d" => 86_400e9,
        _ => return None,
    })
}

fn time(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let number: f64 = text[..split].parse().ok()?;
    let ns = number * time_unit(text[split..].trim())?;
    (1.0..1e18).contains(&ns).then_some(ns as u64)
}

fn circumstance(subject: &Subject, item: &str, c: &mut Circumstances) -> Result<(), String> {
    let (word, rest) = item.split_once(' ').map_or((item, ""), |(w, r)| (w, r.trim()));
    let not_a_time = |what: &str| format!("`{item}`: {what} needs a time, such as 500 us");
    match word {
        "under" if !rest.is_empty() => {
            // As runs have it: with all its sizes, in bytes.
            let load: LoadSpec = rest.parse().map_err(|e| format!("`{item}`: {e}"))?;
            c.load.push(load.to_string());
        }
        "interval" => c.interval_ns = Some(time(rest).ok_or_else(|| not_a_time(word))?),
        "threshold" => c.threshold_ns = Some(time(rest).ok_or_else(|| not_a_time(word))?),
        "packets" => {
            let numbers = rest.split_once(':').map(|(r, ns)| (r.parse::<u64>(), ns.parse::<u64>()));
            let Some((Ok(rate), Ok(ns))) = numbers else {
                return Err(format!("`{item}`: expected RATE:NS, such as packets 1000000:500"));
            };
            if rate.checked_mul(ns).is_none_or(|busy| busy == 0 || busy >= 1_000_000_000) {
                return Err(format!("`{item}`: one CPU does not serve so many"));
            }
            c.packets = Some((rate, ns));
        }
        "priority" => {
            let number = rest.parse().ok().filter(|p| (1..=99).contains(p));
            c.priority = Some(number.ok_or_else(|| format!("`{item}`: expected 1 to 99"))?);
        }
        "by" => {
            let inside: Vec<Mechanism> =
                Mechanism::ALL.into_iter().filter(|m| !m.is_outside()).collect();
            let by = inside.iter().find(|m| m.id() == rest).copied();
            let known = || inside.iter().map(|m| m.id()).collect::<Vec<_>>().join(", ");
            c.by =
                Some(by.ok_or_else(|| format!("`{item}`: no mechanism; there are {}", known()))?);
        }
        "on" => {
            cpulist::parse(rest).map_err(|e| format!("`{item}`: {e}"))?;
            c.cpus = Some(rest.to_owned());
        }
        _ => match time(item) {
            Some(ns) => c.duration_ns = Some(ns),
            None => {
                return Err(format!(
                    "`{item}`: expected a condition (`max < 150 us`), `under LOAD`, `interval TIME`, `priority N`, `on CPUS`, `by MECHANISM`, `threshold TIME` or a duration (`1 h`)"
                ));
            }
        },
    }
    let misplaced = match subject {
        Subject::Wakeup if c.packets.is_some() => Some("packets"),
        Subject::Wakeup => c.threshold_ns.is_some().then_some("threshold"),
        Subject::Noise if c.by.is_some() => Some("by"),
        Subject::Noise => c.interval_ns.is_some().then_some("interval"),
        Subject::Record(_) | Subject::Doctor => {
            (*c != Circumstances::default()).then_some("a circumstance")
        }
    };
    match misplaced {
        Some(what) => Err(format!("`{item}`: {what} has no effect there")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_conditions_and_circumstances() {
        let all = parse(
            "# board\np99.9 < 80 us, max < 150 us, missed = 0, under vm:128M, interval 500 us, 1 h\n\
             noise: max < 20 us, lost < 0.01 %, on 1-3, 10 min\n\
             noise: queue < 512, packets 1000000:500, 10 s\n\
             max < 1 ms, by pi-inversion\n\
             bench syscall.getppid: median <= 200 ns\ndoctor: rt.throttling = ok\n",
        )
        .unwrap();
        assert_eq!(all.len(), 9);
        assert_eq!(all[6].circumstances.by, Some(Mechanism::PiInversion));
        assert_eq!(all[5].circumstances.packets, Some((1_000_000, 500)));
        assert_eq!((&all[5].statistic, all[5].limit), (&Statistic::Queue, 512.0));
        assert_eq!(all[0].statistic, Statistic::Quantile(99.9 / 100.0));
        assert_eq!((all[1].limit, all[1].unit, all[1].line), (150_000.0, Unit::Ns, 2));
        assert_eq!(
            (&all[2].statistic, all[2].comparison),
            (&Statistic::Missed, Comparison::AtMost)
        );
        let c = &all[2].circumstances;
        assert_eq!((c.load[0].as_str(), c.interval_ns), ("vm:134217728:4096", Some(500_000)));
        assert_eq!(c.duration_ns, Some(3_600_000_000_000));
        assert_eq!((all[4].limit, all[4].unit), (0.0001, Unit::Ratio));
        assert_eq!(all[7].subject, Subject::Record("syscall.getppid".into()));
        assert_eq!(all[8].statistic, Statistic::State("rt.throttling".into()));
    }

    #[test]
    fn what_has_no_meaning_is_refused_with_its_line() {
        let cases = [
            ("max < 150", "expected ns"),
            ("max < 150 %", "expected ns"),
            ("missed = 0 us", "number of periods"),
            ("noise: missed = 0", "there are max, lost"),
            ("p101 < 5 us", "not measured"),
            ("max < x us", "no number"),
            ("max < 9999999999999999 us", "larger than 1e15"),
            (&format!("max < {} us", "9".repeat(400)), "larger than 1e15"),
            ("1 h", "no condition"),
            ("max < 5 us, sometimes", "expected a condition"),
            ("max > 5 us", "needs <"),
            ("max = 5 us", "= is for 0"),
            ("bench a.b: median < 5 us, interval 1 ms", "no effect"),
            ("wake: max < 5 us", "expected wakeup"),
            ("doctor: rt.throttling = bad", "= ok"),
            ("noise: queue < 512", "belong together"),
            ("noise: queue < 512, packets 9000000000:1", "does not serve"),
            ("max < 5 us, packets 1:1", "no effect"),
            ("max < 5 us, under water", "`under water`: "),
            ("max < 5 us, by hand", "no mechanism; there are clock_nanosleep, "),
            ("noise: max < 5 us, by pipe", "by has no effect"),
            ("", "no requirement"),
        ];
        for (text, said) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(said) && error.starts_with("line 1: "), "{text}: {error}");
        }
    }

    #[test]
    fn profiles_are_requirements() {
        for profile in crate::cmd::check::profiles::PROFILES {
            parse(profile.text).unwrap_or_else(|e| panic!("{}: {e}", profile.name));
        }
    }
}
