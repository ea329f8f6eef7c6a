//! All probes, and how a name that somebody typed becomes probes with parameters.

use super::{ParamSpec, Spec, Suite, parse_size};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The families in the order in which they are listed and reported.
const FAMILIES: &[&[Spec]] = &[
    super::syscall::SPECS,
    super::uring::SPECS,
    super::fd_calls::SPECS,
    super::wait_many::SPECS,
    super::signals::SPECS,
    super::process::SPECS,
    super::mapping::SPECS,
    super::yields::SPECS,
    super::kernel_view::SPECS,
    super::switch::SPECS,
    super::ring::SPECS,
    super::message::SPECS,
    super::connect::SPECS,
    super::services::SPECS,
    super::sleeping::SPECS,
    super::files::SPECS,
    #[cfg(feature = "host")]
    super::disk::SPECS,
    super::transfer::SPECS,
    super::bandwidth::SPECS,
    super::arithmetic::SPECS,
    super::cycles::SPECS,
    super::core_to_core::SPECS,
];

/// Every probe.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    FAMILIES.iter().flat_map(|f| f.iter())
}

/// The probe of this name.
pub fn find(name: &str) -> Option<&'static Spec> {
    all().find(|s| s.name == name)
}

/// A probe with a value for each of its parameters.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The probe.
    pub spec: &'static Spec,
    /// Its parameters.
    pub params: BTreeMap<String, String>,
    /// Where the server of its parameter `host` is.
    pub peer: Option<SocketAddr>,
}

/// Programs of lmbench whose question `latlab memory` answers.
const OF_MEMORY: &[&str] = &["lat_mem_rd", "line", "cache", "tlb", "par_mem"];

/// Why a selection is no selection.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum SelectError {
    /// No probe, family or old name like this.
    #[error("no probe is called \"{name}\"")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What comes nearest.
        nearest: Vec<String>,
    },
    /// The probe has no such parameter.
    #[error("{probe} has no parameter \"{name}\"")]
    Parameter {
        /// The probe.
        probe: String,
        /// What was asked for.
        name: String,
        /// What it has.
        has: Vec<String>,
    },
    /// `name:key` without a value.
    #[error("\"{0}\" is not a key=value")]
    Syntax(String),
    /// A parameter without which there is nothing to measure.
    #[error("{probe} has no {name}")]
    Missing {
        /// The probe.
        probe: &'static str,
        /// The parameter.
        name: &'static str,
    },
    /// A word after the name of a probe that goes over a network.
    #[error("no probe is called \"{0}\"")]
    Host(String),
    /// A place for a process that is on another machine.
    #[error("{0}: place and host exclude each other")]
    Place(&'static str),
    /// `--host` for a probe that stays on this machine.
    #[error("--host: no probe of \"{0}\" goes over a network")]
    Local(String),
}

impl SelectError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { name, .. } if OF_MEMORY.contains(&name.as_str()) => {
                "that is what latlab memory measures; with --format lmbench in lat_mem_rd's columns"
                    .to_owned()
            }
            Self::Unknown { name, .. }
                if cfg!(not(feature = "host")) && name.split('.').next() == Some("disk") =>
            {
                "probes of disks are not in this build: `make install` builds latlab with all of them".to_owned()
            }
            Self::Unknown { nearest, .. } if nearest.is_empty() => {
                "latlab bench --list names them all".to_owned()
            }
            Self::Unknown { nearest, .. } => {
                format!("did you mean {}? latlab bench --list names them all", nearest.join(" or "))
            }
            Self::Parameter { has, .. } if has.is_empty() => "it has none".to_owned(),
            Self::Parameter { has, .. } => format!("it has {}", has.join(", ")),
            Self::Syntax(_) => "write NAME:key=value,key=value".to_owned(),
            Self::Missing { probe, name } => {
                format!("name it: latlab bench '{probe}:{name}=/dev/sda'")
            }
            Self::Host(host) => {
                format!("a host is --host {host}, where latlab bench --serve ADDRESS runs")
            }
            Self::Place(_) => "the other process is on the host".to_owned(),
            Self::Local(_) => {
                let all = all().filter(|s| s.has("host")).map(|s| s.name);
                format!("these do: {}", all.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// The probes of a suite, with the suite's parameters.
pub fn suite(which: Suite) -> Vec<Instance> {
    all().filter(|s| s.suite <= which).flat_map(|s| expand(s, which, &BTreeMap::new())).collect()
}

/// What the words name: probes (`syscall.read`), families (`syscall`), lmbench's
/// programs (`lat_syscall`, `lat_syscall null`), each with `:key=value,…` where
/// values of the suite are not wanted (`key=1|2|4` for several). With a host, only what goes over a network, against
/// that host; all of it without words.
///
/// # Errors
/// With the nearest names when a word names nothing.
pub fn select(
    words: &[String],
    which: Suite,
    host: Option<&str>,
) -> Result<Vec<Instance>, SelectError> {
    let mut chosen: Vec<Instance> = Vec::new();
    resolve(words, host, |specs, given| {
        for spec in specs {
            check_params(spec, given)?;
            for instance in expand(spec, which, given) {
                let twice = |x: &Instance| x.spec.name == spec.name && x.params == instance.params;
                if !chosen.iter().any(twice) {
                    chosen.push(instance);
                }
            }
        }
        Ok(())
    })?;
    Ok(chosen)
}

/// The probes that words name, without their parameters.
///
/// # Errors
/// As [`select`].
pub fn specs(words: &[String]) -> Result<Vec<&'static str>, SelectError> {
    let mut found = Vec::new();
    resolve(words, None, |specs, _| {
        found.extend(specs.iter().map(|s| s.name));
        Ok(())
    })?;
    Ok(found)
}

/// What each word, or pair of words as in lmbench's `lat_syscall null`, names, with the parameters that it has.
fn resolve(
    words: &[String],
    host: Option<&str>,
    mut each: impl FnMut(&[&'static Spec], &BTreeMap<String, String>) -> Result<(), SelectError>,
) -> Result<(), SelectError> {
    let mut last: Option<&Spec> = None;
    let mut i = 0;
    while i < words.len() {
        let pair = words.get(i + 1).map(|next| format!("{} {next}", words[i]));
        let (mut specs, mut given, used) = match pair.filter(|p| all().any(|s| s.lmbench == p)) {
            Some(old) => {
                (all().filter(|s| s.lmbench == old).collect::<Vec<_>>(), BTreeMap::new(), 2)
            }
            None => {
                let (name, given) = split_params(&words[i])?;
                let specs = named(name).map_err(|error| match last {
                    // As in `lat_tcp HOST`.
                    Some(last) if last.has("host") => SelectError::Host(name.to_owned()),
                    _ => error,
                })?;
                (specs, given, 1)
            }
        };
        if let Some(host) = host {
            specs.retain(|s| s.has("host"));
            if specs.is_empty() {
                return Err(SelectError::Local(words[i].clone()));
            }
            given.entry("host".to_owned()).or_insert_with(|| host.to_owned());
        }
        each(&specs, &given)?;
        last = specs.last().copied().or(last);
        i += used;
    }
    Ok(())
}

fn split_params(word: &str) -> Result<(&str, BTreeMap<String, String>), SelectError> {
    let Some((name, rest)) = word.split_once(':') else {
        return Ok((word, BTreeMap::new()));
    };
    let mut params = BTreeMap::new();
    for pair in rest.split(',') {
        match pair.split_once('=') {
            Some((k, v)) if !k.is_empty() && !v.is_empty() => {
                params.insert(k.to_owned(), v.to_owned());
            }
            _ => return Err(SelectError::Syntax(pair.to_owned())),
        }
    }
    Ok((name, params))
}

fn named(name: &str) -> Result<Vec<&'static Spec>, SelectError> {
    if let Some(spec) = find(name) {
        return Ok(vec![spec]);
    }
    // par_ops: the same instructions side by side, which each of them measures as well.
    let name = if name == "par_ops" { "lat_ops" } else { name };
    let old_name = |s: &&Spec| !s.lmbench.is_empty() && s.lmbench.split(' ').next() == Some(name);
    let family = |s: &&Spec| s.name.split('.').next() == Some(name);
    let found: Vec<_> = all().filter(|s| family(s) || old_name(s)).collect();
    if found.is_empty() {
        return Err(SelectError::Unknown { name: name.to_owned(), nearest: nearest(name) });
    }
    Ok(found)
}

fn check_params(spec: &'static Spec, given: &BTreeMap<String, String>) -> Result<(), SelectError> {
    if spec.has("path") && !given.contains_key("path") {
        return Err(SelectError::Missing { probe: spec.name, name: "path" });
    }
    if given.contains_key("host") && given.contains_key("place") {
        return Err(SelectError::Place(spec.name));
    }
    match given.keys().find(|k| !spec.params.iter().any(|p| p.name == *k)) {
        None => Ok(()),
        Some(unknown) => Err(SelectError::Parameter {
            probe: spec.name.to_owned(),
            name: unknown.clone(),
            has: spec.params.iter().map(|p| format!("{} ({})", p.name, p.what)).collect(),
        }),
    }
}

/// One instance for each combination of values.
fn expand(spec: &'static Spec, which: Suite, given: &BTreeMap<String, String>) -> Vec<Instance> {
    let mut out = vec![Instance { spec, params: BTreeMap::new(), peer: None }];
    for param in spec.params {
        let is_elsewhere = param.name == "place" && given.contains_key("host");
        if is_elsewhere || (param.default == [""] && !given.contains_key(param.name)) {
            continue;
        }
        let values = values(param, which, given.get(param.name).map(String::as_str));
        out = (out.iter())
            .flat_map(|instance| {
                values.iter().map(|value| {
                    let mut next = instance.clone();
                    next.params.insert(param.name.to_owned(), value.clone());
                    next
                })
            })
            .collect();
    }
    out
}

fn values(param: &ParamSpec, which: Suite, given: Option<&str>) -> Vec<String> {
    // Sizes are kept as plain numbers, so that `4K` and `4096` are the same record.
    let plain = |v: &str| parse_size(v).map_or_else(|| v.to_owned(), |n| n.to_string());
    use super::core_to_core::{ALL_PAIRS, pairs};
    match given {
        None | Some(ALL_PAIRS) if param.default == [ALL_PAIRS] => pairs(),
        Some(list) => list.split('|').map(plain).collect(),
        None if which == Suite::Full && !param.full.is_empty() => {
            param.full.iter().map(|v| plain(v)).collect()
        }
        None => param.default.iter().map(|v| plain(v)).collect(),
    }
}

/// Up to three names that come near: a part of the name, or few edits away.
fn nearest(name: &str) -> Vec<String> {
    let mut candidates: Vec<&str> = all().map(|s| s.name).collect();
    candidates.extend(all().filter_map(|s| s.name.split('.').next()));
    candidates.extend(all().filter_map(|s| s.lmbench.split(' ').next()).filter(|s| !s.is_empty()));
    candidates.sort_unstable();
    candidates.dedup();
    let lower = name.to_lowercase();
    let score = |c: &str| {
        let last = c.rsplit('.').next().unwrap_or(c);
        let edits = edit_distance(&lower, c).min(edit_distance(&lower, last));
        if c.contains(&lower) || (last.len() > 2 && lower.contains(last)) { 0 } else { edits }
    };
    let mut scored: Vec<(usize, &str)> = candidates.into_iter().map(|c| (score(c), c)).collect();
    scored.sort();
    let limit = 1 + lower.chars().count() / 3;
    scored.into_iter().filter(|(s, _)| *s <= limit).take(3).map(|(_, c)| c.to_owned()).collect()
}

/// Insertions, deletions and substitutions between two words (V. I. Levenshtein, 1966).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let cost = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], cost);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        select(&words, Suite::Default, None)
            .unwrap()
            .iter()
            .map(|i| latlab_model::bench::label(i.spec.name, &i.params))
            .collect()
    }

    #[test]
    fn old_names_work() {
        assert_eq!(names(&["lat_syscall", "null"]), ["syscall.getppid"]);
        assert!(names(&["lat_syscall"]).contains(&"syscall.open-close".to_owned()));
    }

    #[test]
    fn parameters_replace_the_suites() {
        assert_eq!(
            names(&["syscall.select:fds=10|20,kind=file"]),
            ["syscall.select:fds=10,kind=file", "syscall.select:fds=20,kind=file"]
        );
    }

    #[test]
    fn a_probe_named_twice_is_measured_once() {
        assert_eq!(names(&["syscall.read", "syscall.read"]).len(), 1);
    }

    #[test]
    fn unknown_names_suggest_the_nearest() {
        let error = select(&["syscal.raed".to_owned()], Suite::Default, None).unwrap_err();
        assert!(error.hint().contains("syscall.read"), "{}", error.hint());
        let error = select(&["qqqqqqqqq".to_owned()], Suite::Default, None).unwrap_err();
        assert_eq!(error.hint(), "latlab bench --list names them all");
        let error = select(&["lat_mem_rd".to_owned()], Suite::Default, None).unwrap_err();
        assert!(error.hint().contains("latlab memory"), "{}", error.hint());
        let error = select(&["syscall.read:x=1".to_owned()], Suite::Default, None).unwrap_err();
        assert_eq!(error.hint(), "it has none");
    }

    #[test]
    fn a_host_is_for_what_goes_over_a_network() {
        let of = |words: &[&str], host| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            let label = |i: &Instance| latlab_model::bench::label(i.spec.name, &i.params);
            let found = select(&words, Suite::Default, host);
            found.map(|all| all.iter().map(label).collect::<Vec<_>>())
        };
        assert_eq!(
            of(&["lat_tcp", "ipc.tcp-connect:host=b:99"], Some("a")).unwrap(),
            [
                "ipc.tcp:class=other,host=a,size=1",
                "ipc.tcp:class=other,host=a,size=4096",
                "ipc.tcp-connect:class=other,host=b:99",
            ]
        );
        assert_eq!(of(&["ipc"], Some("a")).unwrap().len(), 8, "what goes over a network");
        assert_eq!(of(&["lat_pipe"], Some("a")), Err(SelectError::Local("lat_pipe".into())));
        assert_eq!(of(&["lat_tcp", "board"], None), Err(SelectError::Host("board".into())));
        let both = of(&["ipc.tcp:host=a,place=other"], None);
        assert_eq!(both, Err(SelectError::Place("ipc.tcp")));
        assert_eq!(
            of(&["ipc.tcp:size=1"], None).unwrap(),
            ["ipc.tcp:class=other,place=same,size=1"],
            "without a host the label is as it always was"
        );
    }

    #[cfg(feature = "host")]
    #[test]
    fn a_disk_is_named() {
        let error = select(&["disk".to_owned()], Suite::Full, None).unwrap_err();
        assert_eq!(error, SelectError::Missing { probe: "disk.seek", name: "path" });
        assert!(error.hint().contains("disk.seek:path="), "{}", error.hint());
        let chosen = select(&["disk:path=/dev/sda".to_owned()], Suite::Default, None).unwrap();
        assert_eq!(chosen.len(), 16);
        assert!(suite(Suite::Full).iter().all(|i| !i.spec.name.starts_with("disk.")));
    }

    #[test]
    fn names_are_unique_and_every_suite_expands() {
        let mut seen = std::collections::BTreeSet::new();
        for spec in all() {
            assert!(seen.insert(spec.name), "{} twice", spec.name);
            assert!(spec.params.iter().all(|p| !p.default.is_empty()), "{}", spec.name);
        }
        assert!(suite(Suite::Full).len() >= suite(Suite::Default).len());
    }
}
