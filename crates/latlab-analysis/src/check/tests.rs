use super::{decide, part};
use latlab_model::check::{
    CheckDetail, Checked, Circumstances, Comparison, Decision, Requirement, Statistic, Subject,
};
use latlab_model::finding::{Note, Value};
use latlab_model::noise::{CpuNoise, NoiseDetail};
use latlab_model::record::Unit;
use latlab_model::run::{Detail, Part, Run};
use latlab_model::units::CpuId;
use latlab_model::wakeup::result::{ThreadResult, WakeupResult};
use latlab_stats::histogram::Histogram;

fn run(detail: Detail) -> Run {
    let part = Part { detail: Some(detail), ..Part::default() };
    Run { parts: vec![part], ..Run::default() }
}

/// Wake-ups of threads on CPUs, or on none.
fn wakeups(threads: &[(Option<u32>, Vec<u64>)]) -> Run {
    let thread = |(cpu, values): &(Option<u32>, Vec<u64>)| ThreadResult {
        cpu: cpu.map(CpuId),
        wakeups: values.len() as u64,
        latency: Histogram::of(values.iter().copied()),
        ..ThreadResult::default()
    };
    let threads = threads.iter().map(thread).collect();
    let result = WakeupResult { threads, duration_ns: 60_000_000_000, ..WakeupResult::default() };
    run(Detail::Wakeup(Box::new(result)))
}

fn requirement(
    subject: Subject,
    statistic: Statistic,
    limit: f64,
    on: Option<&str>,
) -> Requirement {
    Requirement {
        line: 1,
        text: "a condition".to_owned(),
        subject,
        statistic,
        comparison: Comparison::Below,
        limit,
        unit: Unit::Ns,
        circumstances: Circumstances { cpus: on.map(str::to_owned), ..Circumstances::default() },
    }
}

fn ids(checked: &Checked) -> Vec<&str> {
    checked.notes.iter().filter_map(Note::id).collect()
}

/// The CPUs that are named as not measured.
fn unmeasured(checked: &Checked) -> Option<&str> {
    checked.notes.iter().find_map(|n| match n {
        Note::Typed(s) if s.id == "check.unmeasured" => match s.values.get("cpus") {
            Some(Value::Text(cpus)) => Some(cpus.as_str()),
            _ => None,
        },
        _ => None,
    })
}

#[test]
fn cpus_without_a_value_do_not_meet_a_requirement() {
    let two = wakeups(&[(Some(0), vec![9_000; 2_000]), (Some(1), vec![9_000; 2_000])]);
    let of = |run: &Run, statistic: Statistic, on| {
        decide(&requirement(Subject::Wakeup, statistic, 1e6, on), &[("a", run)])
    };
    for statistic in [Statistic::Max, Statistic::Quantile(0.9), Statistic::Missed] {
        assert_eq!(of(&two, statistic.clone(), Some("0-1")).decision, Decision::Pass);
        let checked = of(&two, statistic, Some("0-7"));
        assert_eq!(checked.decision, Decision::Undecided);
        assert_eq!((unmeasured(&checked), checked.needed_ns), (Some("2-7"), None));
    }
    // What is exceeded on one CPU fails whatever the others do.
    let checked =
        decide(&requirement(Subject::Wakeup, Statistic::Max, 5_000.0, Some("0-7")), &[("a", &two)]);
    assert_eq!((checked.decision, unmeasured(&checked)), (Decision::Fail, Some("2-7")));
    // A thread that never woke up, beside one of the same CPU that did, and one that is bound to no CPU.
    let hung = wakeups(&[(Some(1), vec![9_000; 200]), (Some(1), vec![])]);
    let checked = of(&hung, Statistic::Max, None);
    assert_eq!((checked.decision, unmeasured(&checked)), (Decision::Undecided, Some("1")));
    let hung = wakeups(&[(None, vec![9_000; 200]), (None, vec![])]);
    let checked = of(&hung, Statistic::Max, None);
    assert_eq!(checked.decision, Decision::Undecided);
    assert!(ids(&checked).contains(&"check.never-woke"), "{:?}", checked.notes);
    assert_eq!(
        of(&wakeups(&[(None, vec![1])]), Statistic::Max, Some("0")).decision,
        Decision::Undecided
    );
}

fn noise(cpus: Vec<CpuNoise>, threshold_ns: u64) -> Run {
    run(Detail::Noise(Box::new(NoiseDetail { threshold_ns, cpus, ..NoiseDetail::default() })))
}

#[test]
fn noise_of_cpus_that_were_not_measured_is_not_known() {
    let cpu = |cpu, looped_ns| CpuNoise { cpu: CpuId(cpu), looped_ns, ..CpuNoise::default() };
    let r = requirement(Subject::Noise, Statistic::Max, 60_000.0, Some("1-3"));
    let run = noise(vec![cpu(1, 1_000_000_000), cpu(2, 0)], 5_000);
    let checked = decide(&r, &[("a", &run)]);
    assert_eq!((checked.decision, unmeasured(&checked)), (Decision::Undecided, Some("2-3")));
    let all = noise((1..4).map(|n| cpu(n, 1_000_000_000)).collect(), 5_000);
    assert_eq!(decide(&r, &[("a", &all)]).decision, Decision::Pass);
}

/// Buckets of 100 µs are 64 ns wide: what lies in that of the limit is beyond it only if minimum or maximum say so.
#[test]
fn values_in_the_bucket_of_the_limit_are_not_below_it() {
    let decided = |values: Vec<u64>, limit: f64, comparison| {
        let run = wakeups(&[(Some(0), values)]);
        let mut r = requirement(Subject::Wakeup, Statistic::Quantile(0.99), limit, None);
        r.comparison = comparison;
        let checked = decide(&r, &[("a", &run)]);
        r.statistic = Statistic::Max;
        (checked.decision, decide(&r, &[("a", &run)]).decision)
    };
    use Comparison::{AtMost, Below};
    use Decision::{Fail, Pass, Undecided};
    let all = vec![100_000; 60_000];
    assert_eq!(decided(all.clone(), 100_000.0, Below), (Fail, Fail));
    assert_eq!(decided(all.clone(), 100_000.0, AtMost), (Pass, Pass));
    assert_eq!(decided(all.clone(), 99_990.0, AtMost), (Fail, Fail));
    assert_eq!(decided(all, 100_001.0, Below), (Pass, Pass));
    // Of values on both sides in one bucket it is not known how many are beyond.
    let both: Vec<u64> = (0..60_000).map(|i| 99_990 + i % 20).collect();
    assert_eq!(decided(both.clone(), 100_000.0, Below), (Undecided, Fail));
    assert_eq!(decided(both, 100_064.0, Below), (Pass, Pass));
    // Below 2,048 ns each value has a bucket of its own.
    let exact = vec![2_000; 60_000];
    assert_eq!(decided(exact.clone(), 2_000.0, Below), (Fail, Fail));
    assert_eq!(decided(exact, 2_001.0, Below), (Pass, Pass));
}

#[test]
fn noise_below_the_threshold_is_not_absent() {
    let second = CpuNoise { cpu: CpuId(1), looped_ns: 1_000_000_000, ..CpuNoise::default() };
    let looped = CpuNoise { distances: Histogram::of([90, 100, 48_000]), ..second.clone() };
    let decided = |cpu: &CpuNoise, statistic, limit| {
        let run = noise(vec![cpu.clone()], 50_000);
        decide(&requirement(Subject::Noise, statistic, limit, None), &[("a", &run)])
    };
    // The loop keeps all distances: the longest is known.
    let checked = decided(&looped, Statistic::Max, 20_000.0);
    assert_eq!((checked.decision, checked.value), (Decision::Fail, Some(48_000.0)));
    assert_eq!(decided(&looped, Statistic::Max, 49_000.0).decision, Decision::Pass);
    // A tracer of the kernel reports from the threshold on.
    let checked = decided(&second, Statistic::Max, 20_000.0);
    assert_eq!(checked.decision, Decision::Undecided);
    assert_eq!(ids(&checked), ["check.threshold-above"]);
    assert_eq!(decided(&second, Statistic::Max, 50_000.0).decision, Decision::Pass);
    for statistic in [Statistic::Lost, Statistic::PerSecond] {
        let checked = decided(&looped, statistic, 0.1);
        assert_eq!((checked.decision, ids(&checked)), (Decision::Pass, vec!["check.threshold"]));
    }
    // The model of the queue sees what is listed.
    let queue = |not_listed| CpuNoise { queue_max: Some(9.0), not_listed, ..second.clone() };
    assert_eq!(decided(&queue(0), Statistic::Queue, 512.0).decision, Decision::Pass);
    let checked = decided(&queue(3), Statistic::Queue, 512.0);
    assert_eq!(checked.decision, Decision::Undecided);
    assert_eq!(ids(&checked), ["check.queue-not-listed"]);
    assert_eq!(decided(&queue(3), Statistic::Queue, 8.0).decision, Decision::Fail);
}

/// A quantile is decided with a power, what is observed by the duration alone.
#[test]
fn the_duration_of_a_quantile_has_its_probability() {
    let run = wakeups(&[(Some(0), vec![9_000; 500])]);
    let power = |statistic, duration_ns| {
        let mut r = requirement(Subject::Wakeup, statistic, 1e6, None);
        r.circumstances.duration_ns = duration_ns;
        let items = vec![decide(&r, &[("a", &run)])];
        let finding = part(CheckDetail { items, ..CheckDetail::default() }).findings.remove(0);
        (finding.values.contains_key("needed"), finding.values.contains_key("power"))
    };
    let hour = Some(3_600_000_000_000);
    assert_eq!(power(Statistic::Quantile(0.9999), None), (true, true));
    assert_eq!(power(Statistic::Max, hour), (true, false));
    assert_eq!(power(Statistic::Quantile(0.5), hour), (true, false));
}
