use super::build::kernel_option;
use super::*;
use latlab_model::doctor::{Access, JournalledSettings, RtTask, Tracing, Trial, Window};
use latlab_model::finding::{Confidence, Quantity, Value};
use latlab_model::finding::{Note, Severity};
use latlab_model::machine::{Cpu, Kernel};
use std::collections::BTreeMap;

fn find<'a>(findings: &'a [Finding], id: &str) -> &'a Finding {
    findings.iter().find(|f| f.id == id).unwrap_or_else(|| panic!("no {id} in {findings:#?}"))
}

#[test]
fn what_is_not_reported_is_inconclusive() {
    let findings = judge(&Machine::default(), &Facts::default());
    for id in ["clock.step", "clock.high-resolution", "rt.permission", "rt.preemption", "cpu.smt"] {
        assert_eq!(find(&findings, id).severity, Severity::Inconclusive, "{id}");
    }
    for id in ["trace.tracefs", "trace.lockdown", "config.readable", "noise.steal", "noise.load"] {
        assert_eq!(find(&findings, id).severity, Severity::Inconclusive, "{id}");
    }
}

#[test]
fn every_obstacle_has_values_or_a_remedy() {
    let mut m = Machine::default();
    m.clock.step_ns = 4_000_000;
    m.clock.read_ns = 1_500;
    m.clock.source = Some("hpet".into());
    m.clock.available = vec!["tsc".into(), "hpet".into()];
    m.clock.high_resolution_timers = Some(false);
    m.virtualization = Some("kvm".into());
    m.cpu.threads_per_core = Some(2);
    m.cpu.count = 4;
    m.cpu.governors = [("policy0".to_owned(), "schedutil".to_owned())].into();
    m.thp = Some("always".into());
    m.kernel.preemption = Some("voluntary".into());
    m.kernel.lockdown = Some("integrity".into());
    m.kernel.config_source = Some("/proc/config.gz".into());
    m.rt.runtime_us = Some(100_000);
    m.rt.memlock_bytes = Some(8 << 20);
    let f = Facts {
        fifo: Trial::Refused("Operation not permitted".into()),
        rt_tasks: Some(vec![RtTask {
            tid: 7,
            name: "jackd".into(),
            policy: "fifo".into(),
            priority: 80,
        }]),
        swap_bytes: Some(1 << 30),
        swap_used_bytes: Some(1 << 20),
        interfering_services: vec!["irqbalance".into()],
        tracing: Tracing {
            mount: Some("/sys/kernel/tracing".into()),
            read: Access::Allowed,
            write: Access::Allowed,
            tracers: Some(vec!["nop".into()]),
            events: Some(0),
            current_tracer: Some("function".into()),
            ..Tracing::default()
        },
        window: Window {
            length_ns: 1_000_000_000,
            steal_ns: Some(500_000_000),
            gap_ns_max: [(0, 5_000_000)].into(),
            busy: Some(0.5),
        },
        settings: JournalledSettings {
            left: vec!["/proc/sys/x".into()],
            ..JournalledSettings::default()
        },
        ..Facts::default()
    };
    let findings = judge(&m, &f);
    let is_obstacle = |f: &&Finding| matches!(f.severity, Severity::Problem | Severity::Warning);
    let obstacles: Vec<_> = findings.iter().filter(is_obstacle).collect();
    assert!(obstacles.len() >= 20, "{}", obstacles.len());
    for f in obstacles {
        assert!(!f.values.is_empty(), "{f:#?}");
        assert!(!f.evidence.is_empty() || !f.remedies.is_empty(), "{f:#?}");
    }
    assert!(findings.iter().all(|f| f.claim.is_empty() && f.why.is_empty()), "no English");
    let ids: std::collections::BTreeSet<_> = findings.iter().map(|f| &f.id).collect();
    assert_eq!(ids.len(), findings.len(), "identifiers are unique");
}

#[test]
fn a_clock_without_high_resolution_is_a_problem_with_its_tick() {
    let mut m = Machine::default();
    m.clock.resolution_ns = 10_000_000;
    m.clock.high_resolution_timers = Some(false);
    let findings = judge(&m, &Facts::default());
    let f = find(&findings, "clock.high-resolution");
    assert_eq!(f.severity, Severity::Problem);
    assert_eq!(f.evidence[0].value, Value::Quantity(Quantity::Ns(10e6)));
    assert_eq!(f.remedies[0], kernel_option("CONFIG_HIGH_RES_TIMERS", "CONFIG_HIGH_RES_TIMERS=y"));
}

#[test]
fn one_cpu_is_no_obstacle() {
    let m = Machine {
        cpu: Cpu { count: 1, online: "0".into(), ..Cpu::default() },
        ..Machine::default()
    };
    let findings = judge(&m, &Facts::default());
    assert_eq!(find(&findings, "cpu.count").severity, Severity::Info);
    assert_eq!(find(&findings, "rt.isolation").severity, Severity::Info);
    assert_eq!(find(&findings, "noise.interrupts").severity, Severity::Info);
}

#[test]
fn missing_tracers_come_with_the_line_that_adds_them() {
    let tracing = Tracing {
        mount: Some("/sys/kernel/tracing".into()),
        read: Access::Allowed,
        tracers: Some(vec!["function".into(), "nop".into()]),
        ..Tracing::default()
    };
    let m = Machine {
        kernel: Kernel {
            config: BTreeMap::from([("CONFIG_HWLAT_TRACER".to_owned(), "y".to_owned())]),
            ..Kernel::default()
        },
        ..Machine::default()
    };
    let findings = judge(&m, &Facts { tracing, ..Facts::default() });
    let f = find(&findings, "trace.tracers");
    let missing =
        ["function_graph", "irqsoff", "preemptoff", "wakeup_rt", "hwlat", "osnoise", "timerlat"];
    assert_eq!(f.values["missing"], Value::from(missing.to_vec()));
    let remedy = |tracer: &str, option: &str, built_in: bool| {
        Note::new("remedy.tracer")
            .value("tracer", tracer)
            .value("option", option)
            .value("built_in", built_in)
    };
    assert!(f.remedies.contains(&remedy("timerlat", "CONFIG_TIMERLAT_TRACER", false)));
    assert!(f.remedies.contains(&remedy("hwlat", "CONFIG_HWLAT_TRACER", true)));
}

#[test]
fn function_tracing_refused_to_root_is_a_sign_of_lockdown() {
    let tracing = Tracing { functions: Access::Denied, ..Tracing::default() };
    let root = Facts { uid: 0, tracing: tracing.clone(), ..Facts::default() };
    let f = judge(&Machine::default(), &root);
    assert_eq!(find(&f, "trace.lockdown").severity, Severity::Warning);
    assert_eq!(find(&f, "trace.lockdown").confidence, Confidence::Medium);
    let user = Facts { uid: 1000, tracing, ..Facts::default() };
    let f = judge(&Machine::default(), &user);
    assert_eq!(find(&f, "trace.lockdown").severity, Severity::Inconclusive);
}

#[test]
fn interrupts_kept_off_the_isolated_cpu_are_good() {
    let mut m = Machine::default();
    m.cpu.count = 4;
    m.cpu.online = "0-3".into();
    m.rt.isolated = "3".into();
    m.irq_affinity = [("1".to_owned(), "0-2".to_owned())].into();
    assert_eq!(find(&judge(&m, &Facts::default()), "noise.interrupts").severity, Severity::Ok);
    m.irq_affinity.insert("2".into(), "0-3".into());
    assert_eq!(find(&judge(&m, &Facts::default()), "noise.interrupts").severity, Severity::Warning);
}

#[test]
fn a_part_can_be_saved_and_read() {
    let part = part("Machine check", &Machine::default(), Facts::default());
    let json = serde_json::to_string(&part).unwrap();
    assert_eq!(serde_json::from_str::<Part>(&json).unwrap(), part);
}

#[test]
fn tasks_of_a_core_beside_linux_are_not_measured() {
    let none = judge(&Machine::default(), &Facts::default());
    assert!(none.iter().all(|f| f.id != "rt.co-kernel"));
    let facts = Facts { co_kernel: Some("EVL".into()), ..Facts::default() };
    let findings = judge(&Machine::default(), &facts);
    let finding = find(&findings, "rt.co-kernel");
    assert_eq!(finding.severity, Severity::Info);
    assert_eq!(finding.remedies[0].id(), Some("remedy.co-kernel-tools"));
}
