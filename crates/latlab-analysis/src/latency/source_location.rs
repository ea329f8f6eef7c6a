//! Source locations of the named functions.
//!
//! Names come from traces: `on_timer [module]`, `scan.isra.0`. Debug information has the name in the
//! source and the line of the declaration; the path of a module's file in the kernel's module
//! directory gives the directory of its source.

use latlab_model::finding::{Evidence, Quantity, Value};
use latlab_model::latency::FunctionPlace;
use latlab_model::latency::WhyResult;
use latlab_model::latency::{Mechanism, RootCause};

/// Innermost frames of a kernel stack whose location is looked up.
const FRAMES: usize = 2;
/// Functions of a cause whose location is looked up.
const FUNCTIONS: usize = 3;
/// Candidate lines of one function that are evidence.
const CANDIDATES: usize = 4;

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

/// The functions that a cause names, the acting one first.
fn functions_of(cluster: &RootCause) -> Vec<&str> {
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

/// All functions whose locations are looked up.
pub fn wanted(result: &WhyResult) -> Vec<String> {
    let mut names: Vec<String> =
        result.explanation.causes.iter().flat_map(functions_of).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The locations of a cause's functions, each as a piece of evidence.
pub fn evidence(cluster: &RootCause, places: &[FunctionPlace]) -> Vec<Evidence> {
    let of = |name: &str| location(name, places.iter().find(|p| p.function == name));
    functions_of(cluster).into_iter().filter_map(of).collect()
}

/// Function and line; or the candidates, with their number; or module and source directory.
fn location(name: &str, known: Option<&FunctionPlace>) -> Option<Evidence> {
    let (function, module) = split(name)?;
    let lines = known.map_or(&[][..], |k| k.lines.as_slice());
    let file = known.map_or("", |k| k.module.as_str());
    let found = match lines {
        [one] => Evidence::new("source-line", vec![function, one.as_str()]),
        [_, _, ..] => {
            let count = Value::from(Quantity::Count(lines.len() as u64));
            let shown = lines.iter().take(CANDIDATES).map(Value::from);
            let all = [Value::from(function), count].into_iter().chain(shown).collect();
            Evidence::new("source-line-candidates", Value::List(all))
        }
        [] if module.is_empty() => return None,
        [] => match source_folder(file) {
            Some(folder) => Evidence::new("source-directory", vec![function, module, folder]),
            None => Evidence::new("module", vec![function, module]),
        },
    };
    Some(match known.filter(|k| !k.source.is_empty()) {
        Some(known) => found.from(known.source.as_str()),
        None => found,
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
    fn a_location_is_as_precise_as_debug_information_and_modules_allow() {
        let known = |lines: &[&str], module: &str| FunctionPlace {
            function: "scan [ehci_hcd]".into(),
            lines: lines.iter().map(|&l| l.to_owned()).collect(),
            module: module.into(),
            source: String::new(),
        };
        let of = |known: &FunctionPlace| location("scan [ehci_hcd]", Some(known)).unwrap();
        assert_eq!(
            of(&known(&["drivers/x.c:12"], "")),
            Evidence::new("source-line", vec!["scan", "drivers/x.c:12"])
        );
        let two = of(&known(&["drivers/x.c:12", "drivers/y.c:3"], ""));
        let Value::List(values) = &two.value else { panic!("{two:?}") };
        assert_eq!(two.id, "source-line-candidates");
        assert_eq!(values[1], Quantity::Count(2).into());
        assert_eq!(
            of(&known(&[], "kernel/drivers/usb/host/ehci-hcd.ko.xz")),
            Evidence::new("source-directory", vec!["scan", "ehci_hcd", "drivers/usb/host"])
        );
        let module = Evidence::new("module", vec!["scan", "ehci_hcd"]);
        assert_eq!(of(&known(&[], "updates/ehci-hcd.ko")), module);
        assert_eq!(location("scan [ehci_hcd]", None), Some(module));
        assert_eq!(location("scan", None), None);
    }
}
