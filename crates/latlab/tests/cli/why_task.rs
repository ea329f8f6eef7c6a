//! `latlab why --task` and `latlab why -- COMMAND`: programs with known faults, and what is said of them.

use crate::common::{fixture, is_root, latlab_here as latlab, real_time, said, skip};
use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};

/// A control loop of 5 ms on CPU 0. `$body` gets the number of the period; `burn` is work in µs.
const LOOP: &str = r#"
use Time::HiRes qw(clock_gettime clock_nanosleep usleep CLOCK_MONOTONIC TIMER_ABSTIME);
$0 = "ctl_loop"; $| = 1;
sub burn { my $e = clock_gettime(CLOCK_MONOTONIC) + $_[0] / 1e6; 1 while clock_gettime(CLOCK_MONOTONIC) < $e }
my ($seconds, $body) = (shift, shift);
my $work = eval "sub { my \$k = shift; $body }" or die $@;
my $t = clock_gettime(CLOCK_MONOTONIC); my $end = $t + $seconds; my $k = 0;
while ($t < $end) {
    $t += 0.005; clock_nanosleep(CLOCK_MONOTONIC, $t * 1e9, TIMER_ABSTIME);
    burn(300); $work->(++$k);
}
"#;

/// Every 20th period, 100 ms, is a late one.
fn control_loop(seconds: &str, body: &str) -> Vec<String> {
    let words = ["chrt", "-f", "50", "taskset", "-c", "0", "perl", "-e", LOOP, seconds, body];
    words.map(str::to_owned).to_vec()
}

fn why(options: &[&str], program: &[String]) -> Output {
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let seconds: &[&str] = if options.contains(&"-D") { &[] } else { &["-D", "6"] };
    let fixed = ["why", "--json", "--out", out.to_str().unwrap()];
    latlab(&[&fixed[..], seconds, options, &["--"], &program[..]].concat())
}

fn detail(output: &Output) -> Value {
    let stderr = said(output);
    let run: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"));
    run["parts"][0]["detail"].clone()
}

/// The cause of most late activations: one long pause of a shared machine has more lateness than all of them.
fn main_cause(detail: &Value) -> &Value {
    let causes = detail["explanation"]["causes"].as_array().unwrap();
    causes.iter().max_by_key(|c| c["part_of"].as_array().map_or(0, Vec::len)).unwrap()
}

/// Its mechanism, and who.
fn who_mostly(detail: &Value) -> (String, String) {
    let text = |key: &str| main_cause(detail)[key].as_str().unwrap_or_default().to_owned();
    (text("mechanism"), text("who"))
}

/// The named thread of the result, with a period of 5 ms; the parts of each window add up.
fn checked(detail: &Value) -> &Value {
    let task = &detail["activations"][0];
    assert_eq!(task["task"], "ctl_loop", "{task:#}");
    let period = task["period"]["median_ns"].as_u64().unwrap();
    assert!(period.abs_diff(5_000_000) < 100_000, "{task:#}");
    for window in detail["windows"].as_array().unwrap() {
        let shares = window["shares"].as_array().unwrap().iter();
        let sum: u64 = shares.map(|s| s[1]["ns"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), window["latency_ns"].as_u64(), "{window:#}");
    }
    task
}

/// A process that ends with this.
struct Beside(Child);

impl Beside {
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn can_run() -> bool {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    is_root() && has("chrt") && has("taskset") && has("perl")
}

/// Each fault of a program, and the right answer.
#[test]
fn a_program_with_a_known_fault_is_explained() {
    if !can_run() {
        return skip("it takes root, perl, chrt and taskset");
    }
    let _alone = real_time();
    // A helper on the other CPU, if there is one, answers through pipes: mostly at once.
    let answers = r#"
        if ($k == 1) { pipe($qr, $qw); pipe($ar, $aw); if (!fork) { $0 = "helper"; my $n = 0;
            close $qw; close $ar;
            while (sysread($qr, my $c, 1)) { burn(++$n % 20 ? 50 : 2500); syswrite($aw, $c) } exit }
            close $qr; close $aw; syswrite($qw, "x"); sysread($ar, my $c, 1); return }
        syswrite($qw, "x"); sysread($ar, my $c, 1);"#;
    let rows = [
        ("burn(2500) unless $k % 20", "execution", "ctl_loop", "ran_long"),
        ("usleep(2500) unless $k % 20", "sleep", "", "waited"),
        (answers, "wait", "helper", "waited"),
    ];
    for (body, mechanism, who, part) in rows {
        let output = why(&["--deadline", "1500us"], &control_loop("5", body));
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let detail = detail(&output);
        let task = checked(&detail);
        assert_eq!(who_mostly(&detail), (mechanism.into(), who.into()), "{body}: {task:#}");
        let late = task["late"].as_u64().unwrap();
        let by = task["late_by"][part].as_u64().unwrap();
        assert!(late >= 10 && 10 * by >= 8 * late, "{body}: {task:#}");
        let size = main_cause(&detail)["excess_ns"].as_f64().unwrap();
        assert!((1.5e6..3.5e6).contains(&size), "{body}: {size}");
        if mechanism == "execution" {
            counters_decide(&detail);
        }
    }
}

/// The activations have counters, and these tell that it was more work; many virtual machines count no instructions.
fn counters_decide(detail: &Value) {
    let counted = detail["work"]["counted"].as_u64().unwrap();
    assert!(counted >= 200, "{:#}", detail["work"]);
    let execution = &main_cause(detail)["execution"];
    let has = |counter: &str| execution["on_time"][counter].as_u64().is_some_and(|n| n > 0);
    let (kind, doubt) = match (has("instructions"), has("cycles")) {
        (true, _) => ("more-work", None),
        (false, true) => ("inconclusive", Some("no-instructions")),
        (false, false) => ("inconclusive", Some("no-counters")),
    };
    assert_eq!(execution["kind"], kind, "{execution:#}");
    assert_eq!(execution["doubt"].as_str(), doubt, "{execution:#}");
    assert!(execution["late"]["time_ns"].as_u64() > execution["on_time"]["time_ns"].as_u64());
}

/// A load that is stopped takes the excess of the program along, in blocks with and without it.
#[test]
fn a_mitigation_is_tested_on_the_program() {
    if !can_run() {
        return skip("it takes root, perl, chrt and taskset");
    }
    let _alone = real_time();
    let hog = "exec chrt -f 60 taskset -c 0 sh -c 'while :; do i=0; while [ $i -lt 8000 ]; do i=$((i+1)); done; sleep 0.0373; done'";
    let options = ["--deadline", "2ms", "-D", "6", "--test-mitigation", "--load-command", hog];
    let detail = detail(&why(&options, &control_loop("60", "")));
    let tests = detail["mitigation_tests"].as_array().unwrap();
    let test = tests.iter().find(|t| t["remedy"]["id"] == "why.test-load-stopped");
    let effect = &test.unwrap_or_else(|| panic!("{tests:#?}"))["effect"];
    assert_eq!(effect["pairs"], 6, "{effect:#}");
    assert!(effect["wakeups"][0].as_u64() >= Some(500), "{effect:#}");
    assert!(effect["gone"].as_f64() > Some(0.8), "{effect:#}");
    assert!(effect["interval"][0].as_f64() > Some(0.5), "{effect:#}");
}

/// A running task by its name, a load that another option starts, and the same from the captures.
#[test]
fn a_running_task_is_explained_by_name_and_again_from_its_captures() {
    if !can_run() {
        return skip("it takes root, perl, chrt and taskset");
    }
    let _alone = real_time();
    let words = control_loop("60", "");
    let _loop = Beside::start(&words.iter().map(String::as_str).collect::<Vec<_>>());
    std::thread::sleep(std::time::Duration::from_millis(500));
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let out = out.to_str().unwrap();
    // 3 ms, less than a period, on a machine of any speed.
    let burn = "while (1) { my $e = clock_gettime(CLOCK_MONOTONIC) + 0.003; \
                1 while clock_gettime(CLOCK_MONOTONIC) < $e; usleep(97_300) }";
    let uses = "use Time::HiRes qw(clock_gettime usleep CLOCK_MONOTONIC);";
    let hog = &format!("exec chrt -f 60 taskset -c 0 perl -e '{uses} {burn}'");
    let args = ["why", "--json", "-D", "5", "--task", "ctl_loop", "--deadline", "1500us"];
    let output = latlab(&[&args[..], &["--load-command", hog, "--out", out]].concat());
    let detail = detail(&output);
    checked(&detail);
    assert_eq!(who_mostly(&detail), ("higher-priority".into(), "perl".into()));

    let again = ["why", "--json", "--task", "ctl_loop", "--deadline", "1500us", out];
    let again = latlab(&again);
    let again = self::detail(&again);
    assert_eq!(who_mostly(&again), ("higher-priority".into(), "perl".into()));
    assert_eq!(checked(&again)["prio"], 49);
}

/// Without a deadline nothing is called late that is not slow, and the exit code is 0.
#[test]
fn a_task_without_a_deadline_is_described() {
    if !can_run() {
        return skip("it takes root, perl, chrt and taskset");
    }
    let _alone = real_time();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let program = control_loop("2", "");
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let args = ["why", "-D", "20", "--out", out.to_str().unwrap(), "--"];
    let output = latlab(&[&args[..], &program[..]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(text.contains("begun by a timer (hrtimer_wakeup)"), "{text}");
    assert!(text.contains("response time"), "{text}");
    // A version that computes twice as long, beside it.
    let slower = control_loop("2", "burn(300)");
    let slower: Vec<&str> = slower.iter().map(String::as_str).collect();
    let slow = dir.path().join("slower");
    let args = ["why", "-D", "20", "--out", slow.to_str().unwrap(), "--"];
    assert!(latlab(&[&args[..], &slower[..]].concat()).status.success());
    let compared = latlab(&["compare", "--json", out.to_str().unwrap(), slow.to_str().unwrap()]);
    let run: Value = serde_json::from_slice(&compared.stdout).unwrap();
    let detail = run["parts"][0]["detail"].to_string();
    assert!(detail.contains("activation.running"), "{}", said(&compared));
    let out = dir.path().join("missing");
    let missing = latlab(&["why", "--out", out.to_str().unwrap(), "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(said(&missing).starts_with("latlab: no-such-program: "), "{}", said(&missing));
}

/// What is missing of a file is told once, also where there is no activation, and not where the sentence has it.
#[test]
fn damage_of_a_trace_is_told_with_a_task() {
    let whole = std::fs::read(fixture("trace/rt-load.dat")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut.dat");
    std::fs::write(&cut, &whole[..60_000]).unwrap();
    let cut = cut.to_str().unwrap();
    let ends = format!("latlab: {cut}: offset 60000: the file ends: ");
    let told = |output: &Output| said(output).lines().filter(|l| l.starts_with(&ends)).count();
    let found = latlab(&["why", cut, "--task", "kworker/0:1", "--json"]);
    assert_eq!((found.status.code(), told(&found)), (Some(0), 1), "{}", said(&found));
    assert!(!detail(&found)["activations"].as_array().unwrap().is_empty());
    let nothing = latlab(&["why", cut, "--task", "nobody"]);
    assert_eq!((nothing.status.code(), told(&nothing)), (Some(1), 1), "{}", said(&nothing));
    let limit = latlab(&["why", cut, "--task", "kworker/0:1", "--limit", "100us"]);
    assert!(told(&limit) == 0 && said(&limit).contains("cut.dat (damaged: "), "{}", said(&limit));
}

/// One activation waits longer than the first interval of the recording, and than its deadline.
#[test]
fn an_activation_that_crosses_intervals_is_late() {
    if !can_run() {
        return skip("it takes root, perl, chrt and taskset");
    }
    let _alone = real_time();
    // A child holds the task up.
    let waits = r#"if ($k == 30) { pipe($r, $w); if (!fork) { close $r; usleep(900_000); syswrite($w, "x"); exit }
        close $w; sysread($r, my $c, 1) }"#;
    let program = control_loop("60", waits);
    let output = why(&["-D", "3", "--deadline", "500ms"], &program);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let detail = detail(&output);
    let task = checked(&detail);
    let longest = task["response"]["max"].as_u64().unwrap();
    assert!((800_000_000..3_000_000_000).contains(&longest), "{task:#}");
    let late = detail["windows"].as_array().unwrap().iter().filter(|w| w["late"] == true);
    assert!(late.count() >= 1, "{:#}", detail["captures"]);
}
