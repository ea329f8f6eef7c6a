//! Where in the kernel's source the named functions are, as far as somebody could tell.
//!
//! Names come from traces: `on_timer [module]`, `scan.isra.0`. Debug information knows the
//! function by its name in the source and the line of its declaration; a module's file in the
//! kernel's folder of modules at least tells the folder of its source.

use super::cluster::{Cluster, Mechanism};
use super::result::WhyResult;
use crate::finding::Evidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Frames of a kernel stack whose place is told: the innermost are where it happened.
const FRAMES: usize = 2;
/// Functions of a cause whose place is told.
const FUNCTIONS: usize = 3;

/// What is known of a function's place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FunctionPlace {
    /// The function as the findings name it.
    pub function: String,
    /// `drivers/usb/host/ehci-timer.c:123`. Several: so many functions have that name.
    pub lines: Vec<String>,
    /// The file of its module, in the kernel's folder of modules; empty where it is not known.
    pub module: String,
    /// The file that told the lines.
    pub source: String,
}

/// A function's name as its source has it, and its module; `None` for what is no function's name.
pub fn split(name: &str) -> Option<(&str, &str)> {
    let (function, module) = match name.split_once(" [") {
        Some((function, rest)) => (function, rest.strip_suffix(']')?),
        None => (name, ""),
    };
    // The compiler's clones and parts: `.isra.0`, `.constprop.0`, `.part.0`, `.cold`.
    let function = function.split('.').next().unwrap_or_default();
    let begins = function.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (begins && function.chars().all(word)).then_some((function, module))
}

/// The functions that a cause names, the one that acts first.
fn functions_of(cluster: &Cluster) -> Vec<&str> {
    let acts = matches!(
        cluster.mechanism,
        Mechanism::HrtimerHandler | Mechanism::TimerCallback | Mechanism::Workqueue
    );
    let who = acts.then_some(cluster.who.as_str());
    let drawn = cluster.functions.iter().take(FUNCTIONS).map(|f| f.function.as_str());
    let stack = cluster.stack.iter().take(FRAMES).map(String::as_str);
    let mut names: Vec<&str> = Vec::new();
    for name in who.into_iter().chain(drawn).chain(stack) {
        if split(name).is_some() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// All functions whose places are worth looking up.
pub fn wanted(result: &WhyResult) -> Vec<String> {
    let mut names: Vec<String> =
        result.explanation.clusters.iter().flat_map(functions_of).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The places of a cause's functions, each as a piece of evidence.
pub fn evidence(cluster: &Cluster, places: &[FunctionPlace]) -> Vec<Evidence> {
    let of = |name: &str| {
        let known = places.iter().find(|p| p.function == name);
        let evidence = Evidence::new("place", words(name, known)?);
        Some(match known.filter(|k| !k.source.is_empty()) {
            Some(known) => evidence.from(known.source.as_str()),
            None => evidence,
        })
    };
    functions_of(cluster).into_iter().filter_map(of).collect()
}

fn words(name: &str, known: Option<&FunctionPlace>) -> Option<String> {
    let (function, module) = split(name)?;
    let lines = known.map_or(&[][..], |k| k.lines.as_slice());
    let file = known.map_or("", |k| k.module.as_str());
    Some(match lines {
        [one] => format!("{function}: {one}"),
        [_, _, ..] => {
            let shown = lines.iter().take(4).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if lines.len() > 4 { ", …" } else { "" };
            format!("{function}: {} functions have that name: {shown}{more}", lines.len())
        }
        [] if module.is_empty() => return None,
        [] => match source_folder(file) {
            Some(folder) => format!("{function}: module {module}, its source is in {folder}/"),
            None => format!("{function}: module {module}"),
        },
    })
}

/// `drivers/usb/host` of `kernel/drivers/usb/host/ehci-hcd.ko.xz`: modules that belong to the kernel
/// lie as their sources do. Others (`extra/`, `updates/`) lie anywhere.
fn source_folder(file: &str) -> Option<&str> {
    Some(file.strip_prefix("kernel/")?.rsplit_once('/')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_traces_become_names_of_sources() {
        assert_eq!(split("on_timer [some_mod]"), Some(("on_timer", "some_mod")));
        assert_eq!(split("scan.isra.0"), Some(("scan", "")));
        assert_eq!(split("__do_softirq"), Some(("__do_softirq", "")));
        for other in ["0xffffffff81000000", "arch timer", "", "eth0-rx", "x [y"] {
            assert_eq!(split(other), None, "{other}");
        }
    }

    #[test]
    fn a_place_is_told_as_far_as_it_is_known() {
        let known = |lines: &[&str], module: &str| FunctionPlace {
            function: "scan [ehci_hcd]".into(),
            lines: lines.iter().map(|&l| l.to_owned()).collect(),
            module: module.into(),
            source: String::new(),
        };
        let say = |known: &FunctionPlace| words("scan [ehci_hcd]", Some(known)).unwrap();
        assert_eq!(say(&known(&["drivers/x.c:12"], "")), "scan: drivers/x.c:12");
        assert_eq!(
            say(&known(&["drivers/x.c:12", "drivers/y.c:3"], "")),
            "scan: 2 functions have that name: drivers/x.c:12, drivers/y.c:3"
        );
        assert_eq!(
            say(&known(&[], "kernel/drivers/usb/host/ehci-hcd.ko.xz")),
            "scan: module ehci_hcd, its source is in drivers/usb/host/"
        );
        assert_eq!(say(&known(&[], "updates/ehci-hcd.ko")), "scan: module ehci_hcd");
        assert_eq!(words("scan [ehci_hcd]", None).unwrap(), "scan: module ehci_hcd");
        assert_eq!(words("scan", None), None);
    }
}
