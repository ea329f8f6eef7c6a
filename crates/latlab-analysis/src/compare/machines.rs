//! Differences between machines: other possible reasons of a difference between results.

use latlab_model::compare::MachineDifference;
use latlab_model::machine::Machine;
use std::collections::{BTreeMap, BTreeSet};

/// The version of a package that a machine does not have.
const NOT_INSTALLED: &str = "-";

/// Every difference among the machines, the weightiest first. A machine that is not known (a foreign
/// file) is shown as `?` and is not by itself a difference.
pub fn differences(machines: &[&Machine]) -> Vec<MachineDifference> {
    let mut out = Vec::new();
    let mut add = |what: &str, of: &dyn Fn(&Machine) -> String| {
        let values: Vec<String> = machines.iter().map(|m| of(m)).collect();
        let known: BTreeSet<&String> = values.iter().filter(|v| !v.is_empty()).collect();
        if known.len() > 1 {
            let shown = |v: String| if v.is_empty() { "?".to_owned() } else { v };
            let values = values.into_iter().map(shown).collect();
            out.push(MachineDifference { what: what.to_owned(), values });
        }
    };
    let text = |v: &Option<String>| v.clone().unwrap_or_default();
    add("host", &|m| m.host.clone());
    add("board", &|m| text(&m.board));
    add("architecture", &|m| m.arch.clone());
    add("kernel", &|m| m.kernel.release.clone());
    add("kernel-build", &|m| m.kernel.version.clone());
    add("command-line", &|m| text(&m.kernel.command_line));
    add("system", &|m| text(&m.os));
    add("firmware", &|m| text(&m.firmware));
    add("microcode", &|m| text(&m.cpu.microcode));
    add("preemption", &|m| text(&m.kernel.preemption));
    add("HZ", &|m| m.kernel.hz.map(|h| h.to_string()).unwrap_or_default());
    add("governor", &|m| joined(&m.cpu.governors));
    add("frequency-driver", &|m| joined(&m.cpu.frequency_drivers));
    add("idle-driver", &|m| text(&m.cpu.idle_driver));
    add("processor", &|m| text(&m.cpu.model));
    add("cpus-online", &|m| m.cpu.online.clone());
    add("virtualisation", &|m| text(&m.virtualization));
    add("clock-source", &|m| text(&m.clock.source));
    add("rt-throttling", &|m| {
        let period = m.rt.period_us.unwrap_or(0).to_string();
        m.rt.runtime_us.map(|r| [&r.to_string(), "/", &period, " µs"].concat()).unwrap_or_default()
    });
    add("isolated-cpus", &|m| m.rt.isolated.clone());
    add("nohz_full", &|m| m.rt.nohz_full.clone());
    add("transparent-huge-pages", &|m| text(&m.thp));
    add("memory", &|m| {
        m.memory_bytes.map(|b| [&(b >> 20).to_string(), " MiB"].concat()).unwrap_or_default()
    });
    let names: BTreeSet<&String> = machines.iter().flat_map(|m| m.mitigations.keys()).collect();
    for name in names {
        add(&["mitigation ", name].concat(), &|m| {
            m.mitigations.get(name).cloned().unwrap_or_default()
        });
    }
    let packages: BTreeSet<&String> = machines.iter().flat_map(|m| m.packages.keys()).collect();
    for name in packages {
        add(&["package ", name].concat(), &|m| match m.packages.get(name) {
            Some(version) => version.clone(),
            // A machine whose packages are known does not have this one.
            None if !m.packages.is_empty() => NOT_INSTALLED.to_owned(),
            None => String::new(),
        });
    }
    let options: BTreeSet<&String> = machines.iter().flat_map(|m| m.kernel.config.keys()).collect();
    for name in options {
        add(name, &|m| m.kernel.config.get(name).cloned().unwrap_or_default());
    }
    out
}

/// `policy0 schedutil, policy4 performance`; one word where all are alike.
fn joined(map: &BTreeMap<String, String>) -> String {
    let values: BTreeSet<&String> = map.values().collect();
    match values.len() {
        0 => String::new(),
        1 => values.first().map(|v| (*v).clone()).unwrap_or_default(),
        _ => map.iter().map(|(k, v)| [k.as_str(), " ", v].concat()).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_listed_and_what_is_unknown_is_not() {
        let mut a = Machine { host: "bb".into(), ..Machine::default() };
        a.kernel.release = "6.6.30".into();
        a.cpu.governors = [("policy0".to_owned(), "ondemand".to_owned())].into();
        a.mitigations = [("meltdown".to_owned(), "Mitigation: PTI".to_owned())].into();
        let mut b = a.clone();
        b.kernel.release = "6.6.31".into();
        b.mitigations = [("meltdown".to_owned(), "Vulnerable".to_owned())].into();
        let foreign = Machine::default();
        let found = differences(&[&a, &b, &foreign]);
        let names: Vec<&str> = found.iter().map(|d| d.what.as_str()).collect();
        assert_eq!(names, ["kernel", "mitigation meltdown"]);
        assert_eq!(found[0].values, ["6.6.30", "6.6.31", "?"]);
    }

    #[test]
    fn a_package_that_is_not_installed_differs_from_one_that_is() {
        let of = |packages: &[(&str, &str)]| Machine {
            packages: packages.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            ..Machine::default()
        };
        let a = of(&[("libc6", "2.36-9"), ("irqbalance", "1.9.2-1")]);
        let b = of(&[("libc6", "2.36-10")]);
        let found = differences(&[&a, &b, &Machine::default()]);
        let shown: Vec<_> = found.iter().map(|d| (d.what.as_str(), d.values.join(" "))).collect();
        let expected =
            [("package irqbalance", "1.9.2-1 - ?"), ("package libc6", "2.36-9 2.36-10 ?")];
        assert_eq!(shown, expected.map(|(what, values)| (what, values.to_owned())));
        assert!(differences(&[&a, &Machine::default()]).is_empty(), "unknown is no difference");
    }
}
