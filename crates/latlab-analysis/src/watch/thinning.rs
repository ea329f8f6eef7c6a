//! Which captures are kept.
//!
//! Of each hour, task and main part the worst N. If all together take more than the disk limit, one at a time
//! goes: of the task and main part with most captures, in its oldest hour the least late one. The last capture
//! of a task and main part goes only when nothing else is left.

use crate::fnv;
use latlab_model::watch::CaptureEntry;
use std::collections::BTreeMap;

/// What separates the fields of a file name.
const SEPARATOR: char = '_';
/// Longest field of a name.
const FIELD: usize = 40;

/// Limits of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Captures of each hour, task and main part.
    pub each: usize,
    /// All captures, bytes.
    pub bytes: u64,
}

/// The file name of a capture. It has all that an entry has, so that no index can disagree with the files.
/// `time` is `20261124T230517Z`.
pub fn file_name(time: &str, entry: &CaptureEntry) -> String {
    let fields = [clean(time), clean(&entry.task), entry.judged_ns.to_string() + "ns"];
    let fields = fields.into_iter().chain([clean(&entry.cause), clean(&entry.who)]);
    let name: Vec<String> = fields.collect();
    name.join(&SEPARATOR.to_string()) + ".dat"
}

/// What a file name tells; `None` for other files.
pub fn parse(file: &str, bytes: u64) -> Option<CaptureEntry> {
    let fields: Vec<&str> = file.strip_suffix(".dat")?.split(SEPARATOR).collect();
    let [time, task, judged, cause, who] = fields[..] else { return None };
    let judged_ns = judged.strip_suffix("ns")?.parse().ok()?;
    let is_time = time.len() == 16 && time.is_ascii() && time.as_bytes()[8] == b'T';
    if !is_time {
        return None;
    }
    let hour = [&time[..4], "-", &time[4..6], "-", &time[6..8], "T", &time[9..11]].concat();
    let (task, cause, who) = (task.to_owned(), cause.to_owned(), who.to_owned());
    Some(CaptureEntry { file: file.to_owned(), hour, task, judged_ns, cause, who, bytes })
}

/// Letters, digits, `.` and `-`; the rest becomes `-`. Of a longer text the end, which differs most, behind a checksum of all of
/// it, which keeps two of them apart.
fn clean(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let clean = |c: char| if allowed(c) { c } else { '-' };
    let length = text.chars().count();
    if length <= FIELD {
        return text.chars().map(clean).collect();
    }
    let sum = fnv::digits(fnv::fnv(text.bytes()), 8);
    let end = text.chars().skip(length - (FIELD - 9)).map(clean);
    sum.chars().chain(['-']).chain(end).collect()
}

/// What is alike: a task with one main part.
fn kind(entry: &CaptureEntry) -> (String, String, String) {
    (clean(&entry.task), clean(&entry.cause), clean(&entry.who))
}

/// The captures to remove, by file name. Of captures with equal values the earlier one is kept.
pub fn to_remove(captures: &[CaptureEntry], limits: Limits) -> Vec<String> {
    let mut kinds: BTreeMap<_, Vec<&CaptureEntry>> = BTreeMap::new();
    for capture in captures {
        kinds.entry(kind(capture)).or_default().push(capture);
    }
    let mut gone: Vec<String> = Vec::new();
    for of in kinds.values_mut() {
        // Oldest hour first; in it the least late first.
        of.sort_by(|a, b| {
            (&a.hour, a.judged_ns).cmp(&(&b.hour, b.judged_ns)).then_with(|| b.file.cmp(&a.file))
        });
        let mut kept = Vec::new();
        for hour in of.chunk_by(|a, b| a.hour == b.hour) {
            let (less, worst) = hour.split_at(hour.len().saturating_sub(limits.each));
            gone.extend(less.iter().map(|c| c.file.clone()));
            kept.extend_from_slice(worst);
        }
        *of = kept;
    }
    let all = |kinds: &BTreeMap<_, Vec<&CaptureEntry>>| -> u64 {
        kinds.values().flatten().map(|c| c.bytes).sum()
    };
    let mut bytes = all(&kinds);
    while bytes > limits.bytes {
        let oldest = |of: &[&CaptureEntry]| of.first().map(|c| std::cmp::Reverse(c.hour.clone()));
        let most = kinds.values_mut().max_by_key(|of| (of.len(), oldest(of)));
        let Some(most) = most.filter(|of| !of.is_empty()) else { break };
        let removed = most.remove(0);
        bytes -= removed.bytes;
        gone.push(removed.file.clone());
    }
    gone
}

/// Whether a capture with this value would be kept, whatever its main part: another of the task is less late, or
/// fewer than N of the hour are there.
pub fn is_wanted(
    captures: &[CaptureEntry],
    task: &str,
    hour: &str,
    judged_ns: u64,
    each: usize,
) -> bool {
    let task = clean(task);
    let mut of: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for c in captures.iter().filter(|c| clean(&c.task) == task && c.hour == hour) {
        of.entry(kind(c)).or_default().push(c.judged_ns);
    }
    // While no main part has all its captures, the next one of it may be wanted.
    of.values().all(|v| v.len() < each) || of.values().flatten().any(|v| *v < judged_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(hour: u32, minute: u32, ns: u64, cause: &str, bytes: u64) -> CaptureEntry {
        let time = format!("20261124T{hour:02}{minute:02}00Z");
        let fresh = CaptureEntry {
            task: "ctl_loop".into(),
            judged_ns: ns,
            cause: cause.into(),
            who: "kworker/0:1".into(),
            ..CaptureEntry::default()
        };
        parse(&file_name(&time, &fresh), bytes).unwrap()
    }

    #[test]
    fn a_file_name_tells_everything() {
        let found = entry(23, 5, 1_230_456, "higher priority", 77);
        assert_eq!(
            found.file,
            "20261124T230500Z_ctl-loop_1230456ns_higher-priority_kworker-0-1.dat"
        );
        assert_eq!(
            (found.hour.as_str(), found.judged_ns, found.bytes),
            ("2026-11-24T23", 1_230_456, 77)
        );
        for other in [
            "notes.txt",
            "a_b_c.dat",
            "20261124T230500Z_a_1_b_c.dat",
            "2026112éT2305_a_1ns_b_c.dat",
        ] {
            assert_eq!(parse(other, 1), None, "{other}");
        }
        let hostile = CaptureEntry { task: "../../etc/x_y".into(), ..CaptureEntry::default() };
        assert!(!file_name("20261124T230500Z", &hostile).contains('/'));
    }

    /// Control groups of one service have long beginnings in common.
    #[test]
    fn long_names_stay_apart() {
        let name = |pod: &str| {
            let task = format!("/kubepods.slice/kubepods-burstable.slice/pod-{pod}.slice/loop");
            let entry = CaptureEntry { task, judged_ns: 5, ..CaptureEntry::default() };
            parse(&file_name("20261124T230500Z", &entry), 1).unwrap().task
        };
        assert_eq!(name("a1").len(), FIELD);
        assert!(name("a1").ends_with(".slice-pod-a1.slice-loop"), "{}", name("a1"));
        let apart = |a: &str, b: &str| a.split('-').next() != b.split('-').next();
        assert!(apart(&name("a1"), &name("a2")));
        assert_eq!(clean(&name("a1")), name("a1"), "what a file name tells is not shortened again");
    }

    #[test]
    fn of_each_hour_and_cause_the_worst_are_kept() {
        let all = [
            entry(22, 1, 500, "wait", 1),
            entry(22, 2, 900, "wait", 1),
            entry(22, 3, 700, "wait", 1),
            entry(22, 4, 100, "lock", 1),
            entry(23, 1, 300, "wait", 1),
        ];
        let gone = to_remove(&all, Limits { each: 2, bytes: 100 });
        assert_eq!(gone, [all[0].file.clone()]);
    }

    #[test]
    fn on_a_full_disk_the_most_frequent_kind_gives_its_oldest() {
        let mut all: Vec<_> = (0..8).map(|h| entry(h, 0, 500 + u64::from(h), "wait", 10)).collect();
        all.push(entry(0, 30, 100, "lock", 10));
        let gone = to_remove(&all, Limits { each: 3, bytes: 50 });
        let expected: Vec<String> = all[..4].iter().map(|c| c.file.clone()).collect();
        assert_eq!(gone, expected);
        let gone = to_remove(&all, Limits { each: 3, bytes: 20 });
        assert_eq!(gone.len(), 7);
        assert!(!gone.contains(&all[8].file), "the only one of its kind");
        assert_eq!(to_remove(&all, Limits { each: 3, bytes: 0 }).len(), 9);
    }

    #[test]
    fn a_capture_is_taken_only_if_it_may_be_kept() {
        let all = [entry(22, 1, 500, "wait", 1), entry(22, 2, 900, "wait", 1)];
        let wanted = |ns, each| is_wanted(&all, "ctl_loop", "2026-11-24T22", ns, each);
        assert!(wanted(600, 2) && !wanted(400, 2), "the hour has its two");
        assert!(wanted(100, 3));
        assert!(is_wanted(&all, "ctl_loop", "2026-11-24T23", 1, 2), "another hour");
    }
}
